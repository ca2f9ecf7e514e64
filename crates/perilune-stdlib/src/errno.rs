//! Errors of the operating system in the words of the C library.
//!
//! Lua programs compare these texts ("No such file or directory") and numbers, so they come from `strerror`;
//! the standard library's own wording adds the number to the text.

use crate::sys::{self, Status};
use perilune_vm::{LuaResult, Value, Vm};
use rustix::io::Errno;

/// Why an operation on a file failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The operating system refused.
    System(Errno),
    /// Somebody has closed the file while the operation waited.
    Closed,
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::System(error)
    }
}

/// `strerror`.
pub(crate) fn message(error: Errno) -> Vec<u8> {
    sys::message(error).unwrap_or_else(|| format!("Unknown error {}", error.raw_os_error()).into_bytes())
}

/// The error number inside a standard library error.
pub(crate) fn of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// What most functions over files return: `true`, or `nil`, a message that starts with `name` if there is
/// one, and the number.
pub(crate) fn file_result(
    vm: &mut Vm,
    result: Result<(), impl Into<Failure>>,
    name: Option<&[u8]>,
) -> LuaResult<u32> {
    match result {
        Ok(()) => vm.ret(true),
        Err(error) => failure(vm, error, name),
    }
}

/// Raises the error of an interrupt that ended a system call.
pub(crate) fn interrupted(vm: &mut Vm, error: Errno) -> LuaResult<()> {
    if error == Errno::INTR { vm.poll_interrupt() } else { Ok(()) }
}

/// The failing half of [`file_result`]. A file that somebody closed is "closed", without a number: the system
/// has none for it.
pub(crate) fn failure(vm: &mut Vm, error: impl Into<Failure>, name: Option<&[u8]>) -> LuaResult<u32> {
    let Failure::System(error) = error.into() else {
        vm.push(Value::NIL);
        vm.push_str(b"closed")?;
        return Ok(2);
    };
    interrupted(vm, error)?;
    let mut text = Vec::new();
    if let Some(name) = name {
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
    }
    text.extend_from_slice(&message(error));
    vm.push(Value::NIL);
    vm.push_str(&text)?;
    vm.push(Value::int(i64::from(error.raw_os_error())));
    Ok(3)
}

/// A string as the C library sees it: up to the first NUL.
pub(crate) fn c_bytes(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// What `os.execute` and the `close` of a `popen` stream return for a wait status: `true` or `nil`, "exit" or
/// "signal", the code.
pub(crate) fn exec_result(vm: &mut Vm, status: i32) -> LuaResult<u32> {
    let (what, code): (&[u8], i32) = match sys::status(status) {
        Status::Signalled(signal) => (b"signal", signal),
        Status::Exited(code) | Status::Other(code) => (b"exit", code),
    };
    let success = what == b"exit" && code == 0;
    vm.push(if success { Value::TRUE } else { Value::NIL });
    vm.push_str(what)?;
    vm.push(Value::int(i64::from(code)));
    Ok(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_c_library() {
        assert_eq!(message(Errno::NOENT), b"No such file or directory");
        assert_eq!(message(Errno::BADF), b"Bad file descriptor");
        assert_eq!(c_bytes(b"a\0b"), b"a");
        assert_eq!(c_bytes(b"ab"), b"ab");
    }
}
