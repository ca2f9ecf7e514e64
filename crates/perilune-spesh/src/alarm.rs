//! The first tick of a program, without a thread: most programs that people start end within milliseconds,
//! and a thread costs them a tenth of a millisecond of processor time or more.
//!
//! A timer raises one signal on the thread that began the program; its handler sets the tick in the interrupt
//! word of the first domain. What follows from that (the compiling thread, further ticks) is done where the
//! domain polls.
//!
//! The tick is to come when the program has taken so much processor time. The system has timers of that, but
//! looks at them only when its own timer ticks, each 1 to 10 ms: of programs that compute from their
//! beginning on the first tick came 2 ms late in the mean, and up to 4. So the timer is one of the clock,
//! which is exact, and the handler asks how much the program has taken. Has it waited instead, or have others
//! run, a timer of processor time tells when it is that far: that one fires while the program computes, and
//! hardly ever interrupts a call that waits. So a program that waits right after its beginning may have one
//! call interrupted, once; calls that read and write begin again by themselves.
//!
//! Where there are no such timers, or the signal is somebody else's, the thread begins at once.
//!
//! Rejected: signals for all ticks (they interrupt system calls of C code); the thread without an allocator's
//! arena and a signal stack of its own (to start and to end it remains).

use perilune_vm::interrupt::{InterruptHandle, TICK};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// What the handler needs. It is set once, and lives as long as the process.
struct First {
    /// Whose interrupt word is set.
    domain: InterruptHandle,
    /// From so much processor time on, in nanoseconds, the tick is in time.
    least: u64,
    /// When the timer of processor time fires.
    after: Duration,
    by_clock: Timer,
    by_processor: Timer,
}

/// A timer of the system, deleted when it is dropped.
struct Timer(libc::timer_t);

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was made, and nobody else has its number.
        unsafe { libc::timer_delete(self.0) };
    }
}

// SAFETY: timers are numbers, which any thread of the process may use; a handle may be used by any thread.
unsafe impl Sync for First {}

static FIRST: AtomicPtr<First> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: null, or what `set` keeps from the first timer on that has been set.
    let Some(first) = (unsafe { FIRST.load(Ordering::Acquire).as_ref() }) else { return };
    match processor_time() >= first.least {
        true => first.domain.raise_cause(TICK),
        // Nothing here but what a handler may do. If it has been told to be silent meanwhile, there is a tick
        // more.
        false => _ = arm(&first.by_processor, libc::TIMER_ABSTIME, first.after),
    }
}

/// What the process has taken, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A timer that has been set. Dropping it silences it.
pub struct Alarm(&'static First);

impl Alarm {
    /// Sets `domain`'s tick when the process has taken so much processor time. Called on the thread that runs
    /// the domain. `None`: that cannot be had, or somebody has it.
    pub fn set(domain: InterruptHandle, after: Duration) -> Option<Alarm> {
        let signal = libc::SIGRTMAX() - 3;
        if !is_free(signal) || !FIRST.load(Ordering::Acquire).is_null() {
            return None;
        }
        let nanos = after.as_nanos() as u64;
        let by_clock = Timer::new(libc::CLOCK_MONOTONIC, signal)?;
        let by_processor = Timer::new(libc::CLOCK_PROCESS_CPUTIME_ID, signal)?;
        let first = First { domain, least: nanos / 4 * 3, after, by_clock, by_processor };
        let first = Box::into_raw(Box::new(first));
        if FIRST.compare_exchange(ptr::null_mut(), first, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(first) });
            return None;
        }
        let left = Duration::from_nanos(nanos.saturating_sub(processor_time()).max(1));
        // SAFETY: made above; only this call takes it away again, at its end.
        let alarm = Alarm(unsafe { &*first });
        if handle(signal, on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t)
            && arm(&alarm.0.by_clock, 0, left)
        {
            return Some(alarm);
        }
        std::mem::forget(alarm);
        // It was the default before (`is_free`).
        handle(signal, libc::SIG_DFL);
        FIRST.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: no timer has been set, so no handler has run, and the reference above is gone.
        drop(unsafe { Box::from_raw(first) });
        None
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // They are not deleted: the handler may be about to use one.
        for timer in [&self.0.by_clock, &self.0.by_processor] {
            arm(timer, 0, Duration::ZERO);
        }
    }
}

impl Timer {
    /// One of this clock that raises a signal on this thread.
    fn new(clock: libc::clockid_t, signal: libc::c_int) -> Option<Timer> {
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
}

/// Has a timer fire once, at this time; zero: not at all. Whether that is so.
fn arm(timer: &Timer, flags: libc::c_int, time: Duration) -> bool {
    // SAFETY: a timer that is there; zeros are valid for this structure.
    unsafe {
        let mut wanted: libc::itimerspec = std::mem::zeroed();
        wanted.it_value.tv_sec = time.as_secs() as libc::time_t;
        wanted.it_value.tv_nsec = libc::c_long::from(time.subsec_nanos());
        libc::timer_settime(timer.0, flags, &raw const wanted, ptr::null_mut()) == 0
    }
}

/// Makes this what a signal does: [`on_signal`], or the default. Whether that is so.
fn handle(signal: libc::c_int, handler: libc::sighandler_t) -> bool {
    // SAFETY: zeros are valid for this structure; the handler does only what one may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// Nobody handles the signal, and this thread does not block it.
fn is_free(signal: libc::c_int) -> bool {
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
    use perilune_vm::Vm;
    use std::time::Instant;

    #[test]
    fn a_program_that_waits_and_then_computes_is_told_once_and_nobody_can_have_it_twice() {
        let vm = Vm::new();
        let handle = vm.interrupt_handle();
        let so_far = Duration::from_nanos(processor_time());
        let alarm = Alarm::set(handle.clone(), so_far + Duration::from_millis(5)).expect("a timer");
        // The timer of the clock finds that little has been taken, unless other tests take it.
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        while !handle.is_raised_by(TICK) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it computes for long enough");
        }
        assert!(Alarm::set(handle, Duration::from_millis(1)).is_none());
        drop(alarm);
    }

    #[test]
    fn timers_that_are_not_needed_are_given_back() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a pointer to a structure of this type.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit) }, 0);
        // A user has so many; where the limit is out of reach there is nothing to see.
        for n in 0..limit.rlim_cur.min(1 << 20) + 1 {
            assert!(Timer::new(libc::CLOCK_MONOTONIC, libc::SIGRTMAX() - 3).is_some(), "timer {n}");
        }
    }
}
