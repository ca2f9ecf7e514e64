//! Signals.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null_mut;

pub const INT: i32 = libc::SIGINT;
pub const TERM: i32 = libc::SIGTERM;
pub const HUP: i32 = libc::SIGHUP;
pub const PIPE: i32 = libc::SIGPIPE;
pub const CHLD: i32 = libc::SIGCHLD;
pub const KILL: i32 = libc::SIGKILL;

/// What a signal calls, with its number. It does only what is async-signal-safe.
pub type Handler = extern "C" fn(i32);

/// The same, which is told where the signal is from, and a context.
pub type InformedHandler = extern "C" fn(i32, &Info, *mut c_void);

/// What is told of a signal.
#[repr(transparent)]
pub struct Info(libc::siginfo_t);

impl Info {
    /// A process has sent it, and not the system itself, as it does for keys of the terminal.
    pub fn is_from_process(&self) -> bool {
        self.0.si_code <= 0
    }
}

/// What a process does about a signal.
#[derive(Clone, Copy)]
pub enum Action {
    Default,
    Ignore,
    Call(Handler),
    CallInformed(InformedHandler),
}

/// Makes this the action. System calls that a handler interrupts do not begin again. Async-signal-safe.
pub fn set_action(signal: i32, action: Action) {
    // SAFETY: zero is a valid `sigaction`: no flags, and the mask is emptied. The types of handlers say what
    // they do, and `Info` has the layout of what the kernel passes, never null.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = match action {
            Action::Default => libc::SIG_DFL,
            Action::Ignore => libc::SIG_IGN,
            Action::Call(handler) => handler as libc::sighandler_t,
            Action::CallInformed(handler) => {
                new.sa_flags = libc::SA_SIGINFO;
                handler as libc::sighandler_t
            }
        };
        libc::sigemptyset(&mut new.sa_mask);
        libc::sigaction(signal, &new, null_mut());
    }
}

/// Whether the process ignores it.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: zero is a valid `sigaction`, and a valid place for one.
    unsafe {
        let mut now: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction == libc::SIG_IGN
    }
}

/// Raises a signal on this thread. Async-signal-safe.
pub fn raise(signal: i32) {
    // SAFETY: a number.
    unsafe { libc::raise(signal) };
}

/// Sends a signal to a process: a child that has not been waited for, since its number is nobody else's.
/// Async-signal-safe.
pub fn send(child: i32, signal: i32) {
    // SAFETY: two numbers.
    unsafe { libc::kill(child, signal) };
}

/// Writes a byte to a descriptor that stays open; `errno` is as it was. Async-signal-safe.
pub fn write_byte(descriptor: i32, byte: u8) {
    // SAFETY: the thread's own `errno`; one byte that is there.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(descriptor, (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// A signal that was waited for.
pub struct Came {
    pub signal: i32,
    /// The system itself has sent it, as it does for keys of the terminal, to all processes of that.
    pub is_from_terminal: bool,
}

/// What `si_code` is of signals from the system itself.
const SI_KERNEL: i32 = 0x80;

/// Waits for a signal, all of which are blocked. `Ok(None)`: something else has ended the wait.
///
/// # Errors
/// There is no waiting here.
pub fn next() -> std::io::Result<Option<Came>> {
    // SAFETY: valid places for the set and for what is told of the signal.
    let (signal, code) = unsafe {
        let mut all = zeroed();
        libc::sigfillset(&mut all);
        let mut told: libc::siginfo_t = zeroed();
        (libc::sigwaitinfo(&all, &mut told), told.si_code)
    };
    if signal >= 0 {
        return Ok(Some(Came { signal, is_from_terminal: code == SI_KERNEL }));
    }
    match std::io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EINTR) => Ok(None),
        e => Err(e),
    }
}
