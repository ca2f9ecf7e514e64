//! What may go wrong without anybody's mistake, and how programs are told: `nil, message, code`.
//!
//! The code is what programs compare. A word stands for what they tell apart, whatever the system calls it;
//! for the rest it is the errno's name.

use perilune_vm::{LuaResult, Value, Vm};
use rustix::io::Errno;
use std::sync::Arc;

/// Why an operation has not done what it was to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Its time was over.
    Timeout,
    /// The connection is closed, or was by another fiber; or the peer has ended the stream.
    Closed,
    /// A name that means nothing, with what the resolver says.
    Name(String),
    /// More than the program wants to have.
    Limit(String),
    /// The peer has sent what it must not.
    Protocol(String),
    /// Everybody who could do it is busy.
    Busy(String),
    /// What is wrong with a TLS session, a certificate or a key.
    Tls(String),
    /// The system's refusal.
    System(Errno),
    /// The same, of something in particular: `cannot connect to 127.0.0.1:1`.
    Of(String, Errno),
}

/// Why a connection does not go on. Every later operation is told the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The system says so.
    System(Errno),
    /// The TLS session is over.
    Tls(Arc<str>),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        match broken {
            Broken::System(error) => Failure::System(error),
            Broken::Tls(why) => Failure::Tls(why.to_string()),
        }
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::System(error)
    }
}

impl Failure {
    /// The code.
    pub fn code(&self) -> String {
        match self {
            Failure::Timeout => "timeout".into(),
            Failure::Closed => "closed".into(),
            Failure::Name(_) => "name".into(),
            Failure::Limit(_) => "limit".into(),
            Failure::Protocol(_) => "protocol".into(),
            Failure::Busy(_) => "busy".into(),
            Failure::Tls(_) => "tls".into(),
            Failure::System(error) | Failure::Of(_, error) => code_of(*error),
        }
    }

    /// The message.
    pub fn message(&self) -> String {
        match self {
            Failure::Timeout => "timeout".into(),
            Failure::Closed => "closed".into(),
            Failure::Name(text)
            | Failure::Limit(text)
            | Failure::Protocol(text)
            | Failure::Busy(text)
            | Failure::Tls(text) => text.clone(),
            Failure::System(error) => text_of(*error),
            Failure::Of(what, error) => format!("{what}: {}", text_of(*error)),
        }
    }

    /// The same, said of something in particular.
    pub fn of(self, what: impl FnOnce() -> String) -> Failure {
        match self {
            Failure::System(error) => Failure::Of(what(), error),
            other => other,
        }
    }

    /// `nil, message, code` as the results of a native.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn ret(&self, vm: &mut Vm) -> LuaResult<u32> {
        vm.push(Value::NIL);
        vm.push_str(self.message().as_bytes())?;
        vm.push_str(self.code().as_bytes())?;
        Ok(3)
    }
}

/// The system's words, without the number that the standard library adds.
pub fn text_of(error: Errno) -> String {
    let text = std::io::Error::from_raw_os_error(error.raw_os_error()).to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

fn code_of(error: Errno) -> String {
    let name = match error {
        Errno::TIMEDOUT => "timeout",
        Errno::CONNREFUSED => "refused",
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => "reset",
        Errno::ACCESS => "EACCES",
        Errno::PERM => "EPERM",
        Errno::ADDRINUSE => "EADDRINUSE",
        Errno::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        Errno::AFNOSUPPORT => "EAFNOSUPPORT",
        Errno::ALREADY => "EALREADY",
        Errno::AGAIN => "EAGAIN",
        Errno::BADF => "EBADF",
        Errno::DESTADDRREQ => "EDESTADDRREQ",
        Errno::HOSTDOWN => "EHOSTDOWN",
        Errno::HOSTUNREACH => "EHOSTUNREACH",
        Errno::INVAL => "EINVAL",
        Errno::ISCONN => "EISCONN",
        Errno::ISDIR => "EISDIR",
        Errno::LOOP => "ELOOP",
        Errno::MFILE => "EMFILE",
        Errno::MSGSIZE => "EMSGSIZE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NETDOWN => "ENETDOWN",
        Errno::NETUNREACH => "ENETUNREACH",
        Errno::NFILE => "ENFILE",
        Errno::NOBUFS => "ENOBUFS",
        Errno::NOENT => "ENOENT",
        Errno::NOMEM => "ENOMEM",
        Errno::NOSPC => "ENOSPC",
        Errno::NOTCONN => "ENOTCONN",
        Errno::NOTDIR => "ENOTDIR",
        Errno::NOTSOCK => "ENOTSOCK",
        Errno::NOTTY => "ENOTTY",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::PROTO => "EPROTO",
        Errno::PROTONOSUPPORT => "EPROTONOSUPPORT",
        Errno::PROTOTYPE => "EPROTOTYPE",
        Errno::ROFS => "EROFS",
        Errno::CHILD => "ECHILD",
        Errno::EXIST => "EEXIST",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::NOEXEC => "ENOEXEC",
        Errno::SRCH => "ESRCH",
        Errno::NXIO => "ENXIO",
        Errno::NODEV => "ENODEV",
        Errno::XDEV => "EXDEV",
        Errno::FBIG => "EFBIG",
        Errno::DQUOT => "EDQUOT",
        Errno::BUSY => "EBUSY",
        Errno::TXTBSY => "ETXTBSY",
        Errno::SPIPE => "ESPIPE",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::TOOBIG => "E2BIG",
        other => return format!("E{}", other.raw_os_error()),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_or_names_of_errnos() {
        assert_eq!(Failure::from(Errno::PIPE).code(), "reset");
        assert_eq!(Failure::from(Errno::ADDRINUSE).code(), "EADDRINUSE");
        let refused = Failure::from(Errno::CONNREFUSED).of(|| "cannot connect to x".into());
        assert_eq!(refused.message(), "cannot connect to x: Connection refused");
        assert_eq!(Failure::Timeout.of(|| unreachable!()).message(), "timeout");
    }
}
