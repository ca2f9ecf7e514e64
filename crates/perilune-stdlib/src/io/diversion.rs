//! Where what is written to the terminal goes while somebody types there: to the host, which knows what is to
//! be drawn anew. Programs never notice.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static WHERE: OnceLock<fn(&[u8])> = OnceLock::new();
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Says once where diverted bytes go. `to` must not wait, and not write to the standard streams itself.
pub fn set_diversion(to: fn(&[u8])) {
    let _ = WHERE.set(to);
}

/// From now on, what is written to standard output or standard error goes to the host, if it is a terminal;
/// or no longer.
pub fn divert(is_on: bool) {
    IS_ON.store(is_on && WHERE.get().is_some(), Ordering::Release);
}

/// Takes bytes for this descriptor, if they are diverted now.
pub(super) fn takes(fd: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    if !IS_ON.load(Ordering::Acquire) {
        return false;
    }
    let standard = [stdio::raw_stdout(), stdio::raw_stderr()].contains(&fd.as_raw_fd());
    match WHERE.get() {
        Some(to) if standard && rustix::termios::isatty(fd) => {
            to(bytes);
            true
        }
        _ => false,
    }
}

/// Takes bytes for standard error, if they are diverted now.
pub fn takes_error(bytes: &[u8]) -> bool {
    takes(stdio::stderr(), bytes)
}
