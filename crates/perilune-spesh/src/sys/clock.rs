//! Clocks, and timers that raise a signal on a thread.

use std::ptr;
use std::time::Duration;

/// A clock of the system, in nanoseconds. Where there is no such clock it stays 0.
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only fills it.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor time that this thread has taken, in nanoseconds; 0 where that is not known.
#[inline]
pub fn of_thread() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time that the process has taken, in nanoseconds; 0 where that is not known.
/// Async-signal-safe.
#[inline]
pub fn of_process() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// What a timer goes by.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// The processor time of the process.
    Processor,
}

/// A timer of the system, deleted when it is dropped.
#[derive(Debug)]
pub struct Timer(libc::timer_t);

// SAFETY: a timer is a number, which any thread of the process may use.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was made, and nobody else has its number.
        unsafe { libc::timer_delete(self.0) };
    }
}

impl Timer {
    /// One that raises a signal on this thread. `None`: there is none to be had.
    pub fn new(clock: Clock, signal: i32) -> Option<Timer> {
        let clock = match clock {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Processor => libc::CLOCK_PROCESS_CPUTIME_ID,
        };
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: zeros are valid for this structure, and the call only reads it, and writes the timer's
        // number.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            (libc::timer_create(clock, &raw mut event, &raw mut timer) == 0).then_some(Timer(timer))
        }
    }

    /// Has it fire once, when so much time has gone by; zero: not at all. Whether that is so.
    /// Async-signal-safe.
    pub fn fire_after(&self, time: Duration) -> bool {
        self.set(0, time)
    }

    /// Has it fire once, when its clock shows this. Whether that is so. Async-signal-safe.
    pub fn fire_at(&self, time: Duration) -> bool {
        self.set(libc::TIMER_ABSTIME, time)
    }

    fn set(&self, flags: i32, time: Duration) -> bool {
        // SAFETY: a timer that is there; zeros are valid for this structure.
        unsafe {
            let mut wanted: libc::itimerspec = std::mem::zeroed();
            wanted.it_value.tv_sec = time.as_secs() as libc::time_t;
            wanted.it_value.tv_nsec = libc::c_long::from(time.subsec_nanos());
            libc::timer_settime(self.0, flags, &raw const wanted, ptr::null_mut()) == 0
        }
    }
}

/// A signal that programs hardly use.
pub fn spare_signal() -> i32 {
    libc::SIGRTMAX() - 3
}

/// Has `handler`, which is async-signal-safe, called at a signal from now on; `None`: it does what it does by
/// default. Whether that is so.
pub fn handle(signal: i32, handler: Option<extern "C" fn(i32)>) -> bool {
    // SAFETY: zeros are valid for this structure; the handler does only what one may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler.map_or(libc::SIG_DFL, |handler| handler as libc::sighandler_t);
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// Nobody handles the signal, and this thread does not block it.
pub fn is_free(signal: i32) -> bool {
    // SAFETY: zeros are valid for these structures, and the calls only fill them.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_DFL
            && libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked) == 0
            && libc::sigismember(&raw const blocked, signal) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_are_not_needed_are_given_back() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a pointer to a structure of this type.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit) }, 0);
        // A user has so many; where the limit is out of reach there is nothing to see.
        for n in 0..limit.rlim_cur.min(1 << 20) + 1 {
            assert!(Timer::new(Clock::Monotonic, spare_signal()).is_some(), "timer {n}");
        }
    }
}
