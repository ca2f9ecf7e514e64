//! Opening: files by `fopen`'s modes, processes, temporary files.

use super::standard::{STDIN, operate};
use super::stream::Stream;
use crate::child::{self, Connection};
use crate::errno::{Failure, c_bytes};
use crate::string::scratch;
use crate::sys;
use crate::used::{self, Use};
use perilune_vm::Vm;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Whether `mode` is one of `fopen`'s: "r", "w" or "a", perhaps "+", perhaps any number of "b".
pub(super) fn is_mode(mode: &[u8]) -> bool {
    let [b'r' | b'w' | b'a', rest @ ..] = mode else { return false };
    rest.strip_prefix(b"+").unwrap_or(rest).iter().all(|&b| b == b'b')
}

/// Opens the file `name`; `mode` satisfies [`is_mode`].
pub(super) fn file(name: &[u8], mode: &[u8]) -> Result<Stream, Errno> {
    let flags = flags(mode);
    tell(c_bytes(name), flags);
    let fd = rustix::fs::open(c_bytes(name), flags, Mode::from_raw_mode(0o666))?;
    Ok(Stream::owned(fd, flags))
}

/// What a mode means to the system.
pub(super) fn flags(mode: &[u8]) -> OFlags {
    let create = match mode[0] {
        b'r' => OFlags::empty(),
        b'w' => OFlags::CREATE | OFlags::TRUNC,
        _ => OFlags::CREATE | OFlags::APPEND,
    };
    let access = match (mode.get(1), mode[0]) {
        (Some(b'+'), _) => OFlags::RDWR,
        (_, b'r') => OFlags::RDONLY,
        _ => OFlags::WRONLY,
    };
    create | access | OFlags::CLOEXEC
}

/// The file is about to be opened.
pub(super) fn tell(name: &[u8], flags: OFlags) {
    let reads = flags & OFlags::RWMODE == OFlags::RDONLY;
    used::tell(if reads { Use::Read(name) } else { Use::Written(name) });
}

/// Opens a file that is read whole; see [`read_whole`].
///
/// # Errors
/// What the operating system says.
pub fn open_for_reading(name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::open(c_bytes(name), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The contents of an open file.
///
/// # Errors
/// What the operating system says; `EINTR` if `vm` is interrupted, `ENOMEM` if its limit leaves no room.
pub fn read_whole(vm: &mut Vm, fd: OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut stream = Stream::owned(fd, OFlags::RDONLY);
    // SAFETY: the stream ends here, within the native that `vm` runs.
    stream.blocker = Some(unsafe { vm.blocker() });
    stream.begin_reading(scratch::room(vm)).and_then(|()| stream.rest()).map_err(system)
}

/// What is left of standard input.
///
/// # Errors
/// As those of [`read_whole`].
pub fn read_standard_input(vm: &mut Vm) -> Result<Vec<u8>, Errno> {
    let room = scratch::room(vm);
    let read = operate(vm, &STDIN).and_then(|mut stdin| {
        stdin.begin_reading(room)?;
        stdin.rest()
    });
    read.map_err(system)
}

/// The failure of a stream that nobody else can close.
fn system(failure: Failure) -> Errno {
    match failure {
        Failure::System(error) => error,
        Failure::Closed => Errno::BADF,
    }
}

/// Starts a shell that runs `command`, with a stream from its standard output or to its standard input.
pub(super) fn process(command: &[u8], from: bool) -> Result<Stream, Errno> {
    let (read, write) = child::pipe()?;
    let (ours, flags, end, becomes) = if from {
        (read, OFlags::RDONLY, write, rustix::stdio::stdout())
    } else {
        (write, OFlags::WRONLY, read, rustix::stdio::stdin())
    };
    let child = child::start(command, Some(Connection { end: end.as_fd(), becomes }))?;
    Ok(Stream::process(ours, flags, child))
}

/// A file for update that has no name any more.
pub(super) fn temporary() -> Result<Stream, Errno> {
    let (fd, name) = sys::temporary_file()?;
    rustix::fs::unlink(name.as_slice())?;
    Ok(Stream::owned(fd, OFlags::RDWR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        for mode in ["r", "w", "a", "r+", "w+b", "rb", "abb"] {
            assert!(is_mode(mode.as_bytes()), "{mode}");
        }
        for mode in ["", "x", "+", "rw", "r++", "rb+", "r+bk", "t"] {
            assert!(!is_mode(mode.as_bytes()), "{mode}");
        }
    }
}
