//! Writing to a pipe that nobody reads, without the signal that would end the process.
//!
//! The kernel sends SIGPIPE to the thread that writes. A library must not change what the process does about
//! it (a filter wants to end quietly when its standard output is closed), so the thread blocks the signal
//! while it writes, and takes back the one that its write has caused.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Calls `write`; where it fails with `EPIPE`, nothing else happens.
///
/// # Errors
/// Those of `write`.
pub fn without<T>(write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    without_also(write, |_| false)
}

/// `write` of the system. One that waits for room and loses its reader then has written some of it, and
/// causes a signal as well.
///
/// # Errors
/// As of [`without`].
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    without_also(|| rustix::io::write(fd, bytes), |written| *written < bytes.len())
}

/// As [`without`]; whether what `write` gives may have come with a signal as well is for `is_short` to say.
fn without_also<T>(
    write: impl FnOnce() -> Result<T, Errno>,
    is_short: impl FnOnce(&T) -> bool,
) -> Result<T, Errno> {
    let pipe = only_sigpipe();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both are valid sets; the second one is written when the call succeeds, and it can only fail for
    // a wrong first argument.
    let before = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, before.as_mut_ptr());
        before.assume_init()
    };
    // SAFETY: a valid set.
    let blocked = unsafe { libc::sigismember(&before, libc::SIGPIPE) } == 1;
    // One that waits already is somebody else's.
    let waits = blocked && is_pending();
    let result = write();
    let comes = match &result {
        Ok(written) => is_short(written) && !waits && is_pending(),
        Err(error) => *error == Errno::PIPE && !waits,
    };
    if comes {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid set and time. A handler of another signal may end the call early. If the process
        // ignores the signal there is none to take.
        while unsafe { libc::sigtimedwait(&pipe, null_mut(), &none) } == -1
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
    }
    if !blocked {
        // SAFETY: a valid set, which this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
    }
    result
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

/// Whether a SIGPIPE waits to be delivered.
fn is_pending() -> bool {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call fills the set; it cannot fail with a valid address.
    unsafe { libc::sigpending(set.as_mut_ptr()) == 0 && libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn end_with_failure(_: libc::c_int) {
        // SAFETY: may be called in a handler.
        unsafe { libc::_exit(1) };
    }

    #[test]
    fn a_write_that_nobody_reads_is_an_error_and_nothing_else() {
        // In a child, as the test's process ignores the signal.
        // SAFETY: the child has one thread and calls nothing that needs another, or a lock that one may hold.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the handler is async-signal-safe.
            unsafe {
                libc::signal(
                    libc::SIGPIPE,
                    end_with_failure as extern "C" fn(libc::c_int) as libc::sighandler_t,
                );
                let mut ends = [0; 2];
                libc::pipe(ends.as_mut_ptr());
                libc::close(ends[0]);
                let failed = without(|| match libc::write(ends[1], [0u8].as_ptr().cast(), 1) {
                    -1 => Err(Errno::PIPE),
                    count => Ok(count),
                });
                libc::_exit(if failed == Err(Errno::PIPE) && !is_pending() { 7 } else { 2 });
            }
        }
        let mut status = 0;
        // SAFETY: a valid place for the status.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
}
