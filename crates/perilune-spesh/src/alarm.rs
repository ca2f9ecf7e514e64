//! The first tick of a program, without a thread: most programs that people start end within milliseconds, and a thread costs them a tenth of a millisecond of processor time or more.
//!
//! A timer of the process's processor time raises one signal, once, on the thread that began the program; its handler sets the tick in the interrupt word of the first domain. What follows from that
//! (the compiling thread, further ticks) is done where the domain polls. The timer runs on processor time, so it fires while the program computes, and hardly ever interrupts a call that waits.
//!
//! Where there is no such timer, or the signal is somebody else's, the thread begins at once.
//!
//! Rejected: signals for all ticks (they interrupt system calls of C code); the thread without an allocator's arena and a signal stack of its own (to start and to end it remains).

use perilune_vm::interrupt::{InterruptHandle, TICK};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Whose interrupt word the handler sets. It is set once, and what it points to lives as long as the process.
static DOMAIN: AtomicPtr<InterruptHandle> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: null, or what `set` has leaked.
    if let Some(domain) = unsafe { DOMAIN.load(Ordering::Acquire).as_ref() } {
        domain.raise_cause(TICK);
    }
}

/// A timer that has been set.
pub struct Alarm(libc::timer_t);

// SAFETY: the number of a timer, which any thread of the process may use.
unsafe impl Send for Alarm {}

impl Alarm {
    /// Sets `domain`'s tick when the process has taken so much processor time. Called on the thread that runs the domain. `None`: that cannot be had, or somebody has it.
    pub fn set(domain: InterruptHandle, after: Duration) -> Option<Alarm> {
        let signal = libc::SIGRTMAX() - 3;
        if !is_free(signal) {
            return None;
        }
        let domain = Box::into_raw(Box::new(domain));
        if DOMAIN.compare_exchange(ptr::null_mut(), domain, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(domain) });
            return None;
        }
        // SAFETY: zeros are valid for these structures; the handler is async-signal-safe; the timer's number is read once it has been made.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            if libc::sigaction(signal, &raw const action, ptr::null_mut()) != 0 {
                return None;
            }
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = ptr::null_mut();
            if libc::timer_create(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut event, &raw mut timer) != 0 {
                return None;
            }
            let alarm = Alarm(timer);
            let mut time: libc::itimerspec = std::mem::zeroed();
            time.it_value.tv_sec = after.as_secs() as libc::time_t;
            time.it_value.tv_nsec = libc::c_long::from(after.subsec_nanos());
            let set = libc::timer_settime(timer, libc::TIMER_ABSTIME, &raw const time, ptr::null_mut());
            (set == 0).then_some(alarm)
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was made, and is deleted once.
        unsafe { libc::timer_delete(self.0) };
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
    fn a_program_that_computes_is_told_once_and_nobody_can_have_it_twice() {
        let vm = Vm::new();
        let handle = vm.interrupt_handle();
        let alarm = Alarm::set(handle.clone(), Duration::from_millis(1)).expect("a timer");
        let begun = Instant::now();
        while !handle.is_raised_by(TICK) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it computes for long enough");
        }
        assert!(Alarm::set(handle, Duration::from_millis(1)).is_none());
        drop(alarm);
    }
}
