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

use crate::sys::clock::{self, Clock, Timer};
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

static FIRST: AtomicPtr<First> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: i32) {
    // SAFETY: null, or what `set` keeps from the first timer on that has been set.
    let Some(first) = (unsafe { FIRST.load(Ordering::Acquire).as_ref() }) else { return };
    match clock::of_process() >= first.least {
        true => first.domain.raise_cause(TICK),
        // Nothing here but what a handler may do. If it has been told to be silent meanwhile, there is a tick
        // more.
        false => _ = first.by_processor.fire_at(first.after),
    }
}

/// A timer that has been set. Dropping it silences it.
pub struct Alarm(&'static First);

impl Alarm {
    /// Sets `domain`'s tick when the process has taken so much processor time. Called on the thread that runs
    /// the domain. `None`: that cannot be had, or somebody has it.
    pub fn set(domain: InterruptHandle, after: Duration) -> Option<Alarm> {
        let signal = clock::spare_signal();
        if !clock::is_free(signal) || !FIRST.load(Ordering::Acquire).is_null() {
            return None;
        }
        let nanos = after.as_nanos() as u64;
        let by_clock = Timer::new(Clock::Monotonic, signal)?;
        let by_processor = Timer::new(Clock::Processor, signal)?;
        let first = First { domain, least: nanos / 4 * 3, after, by_clock, by_processor };
        let first = Box::into_raw(Box::new(first));
        if FIRST.compare_exchange(ptr::null_mut(), first, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(first) });
            return None;
        }
        let left = Duration::from_nanos(nanos.saturating_sub(clock::of_process()).max(1));
        // SAFETY: made above; only this call takes it away again, at its end.
        let alarm = Alarm(unsafe { &*first });
        if clock::handle(signal, Some(on_signal)) && alarm.0.by_clock.fire_after(left) {
            return Some(alarm);
        }
        std::mem::forget(alarm);
        // It was the default before (`is_free`).
        clock::handle(signal, None);
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
            timer.fire_after(Duration::ZERO);
        }
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
        let so_far = Duration::from_nanos(clock::of_process());
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
}
