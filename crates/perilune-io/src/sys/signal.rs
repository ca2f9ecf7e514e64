//! Signals.

use super::last_error;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ptr;

pub const TERM: i32 = libc::SIGTERM;
pub const KILL: i32 = libc::SIGKILL;

/// Those that end a process which does nothing about them, and that are no fault of it. SIGINT is the
/// command's.
pub const ENDING: [i32; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Those that have a name.
pub const NAMES: [(&str, i32); 31] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// The highest number that a signal has.
pub const LAST: i32 = 64;

/// What a signal is for, of those that are no use as messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It ends or stops a process, whatever that wants.
    Uncatchable,
    /// The process itself has done what cannot be done.
    Fault,
    /// SIGURG, which is ignored by whoever does not expect it.
    Urgent,
    /// A child has ended.
    Child,
    /// The C library's own.
    Library,
}

/// What a signal is for, if it is no use as a message.
pub fn reserved(signal: i32) -> Option<Reserved> {
    match signal {
        libc::SIGKILL | libc::SIGSTOP => Some(Reserved::Uncatchable),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGABRT => {
            Some(Reserved::Fault)
        }
        libc::SIGURG => Some(Reserved::Urgent),
        libc::SIGCHLD => Some(Reserved::Child),
        32 | 33 => Some(Reserved::Library),
        _ => None,
    }
}

/// What a signal calls, with its number. It does only what is async-signal-safe.
pub type Handler = extern "C" fn(i32);

/// What a signal did before it was [`caught`](catch).
pub struct Before(libc::sigaction);

/// Has `handler` called at a signal from now on; system calls that it interrupts begin again.
///
/// # Errors
/// The system keeps that signal for itself.
pub fn catch(signal: i32, handler: Handler) -> Result<Before, Errno> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: zero is a valid `sigaction`, and the type of handlers says what they do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(signal, &action, before.as_mut_ptr()) != 0 {
            return Err(last_error(Errno::INVAL));
        }
        Ok(Before(before.assume_init()))
    }
}

/// Has `handler` called at a signal from now on, if it does what it does by default.
pub fn catch_if_default(signal: i32, handler: Handler) {
    // SAFETY: zero is a valid `sigaction`, and the type of handlers says what they do.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &mut now) != 0 || now.sa_sigaction != libc::SIG_DFL {
            return;
        }
        now.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &now, ptr::null_mut());
    }
}

/// The signal does what it did.
pub fn give_back(signal: i32, before: &Before) {
    // SAFETY: an action that the system has given us for this signal.
    unsafe { libc::sigaction(signal, &before.0, ptr::null_mut()) };
}

/// In the signal's handler: does what the signal does without one, as soon as the handler has returned, since
/// it is blocked until then. Async-signal-safe.
pub fn do_default(signal: i32) {
    // SAFETY: both calls are async-signal-safe.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Sends a signal to this very process.
pub fn send_to_self(signal: i32) {
    // SAFETY: two numbers.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Sends a signal to a process, or to the group that it leads.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn send(pid: i32, to_group: bool, signal: i32) -> Result<(), Errno> {
    // SAFETY: two numbers.
    match unsafe { libc::kill(if to_group { -pid } else { pid }, signal) } {
        0 => Ok(()),
        _ => Err(last_error(Errno::INVAL)),
    }
}

/// Adds one to an event descriptor. `errno` is as it was. Async-signal-safe.
pub fn ring(event_descriptor: i32) {
    let one = 1_u64;
    // SAFETY: `errno` is the thread's own, and the running code must find it as it was; the eight bytes are
    // valid, and a descriptor that is not open is an error.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(event_descriptor, (&raw const one).cast(), 8);
        *libc::__errno_location() = errno;
    }
}
