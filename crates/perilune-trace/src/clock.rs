//! The clock of events: the processor's time stamp counter where it is steady, else `CLOCK_MONOTONIC`.
//!
//! A time stamp is a number of *ticks*. What a tick is, the file's header says: [`Clock::Nanoseconds`], or
//! [`Clock::Counter`] with two pairs of ticks and nanoseconds, one from the beginning and one that is renewed
//! while the program runs, between which readers interpolate ([`Scale`]). The counter is used if the
//! processor promises that it runs at one rate in all states and on all cores (`constant_tsc`, `nonstop_tsc`)
//! and the kernel itself keeps time by it. Reading it costs a third to a half of asking the kernel's clock.
//!
//! All times that people see are nanoseconds since the trace began; the header has `CLOCK_MONOTONIC` and the
//! time of day of that moment.

use crate::sys;
use std::sync::atomic::{AtomicU32, Ordering};

/// What ticks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Clock {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Nanoseconds = 1,
    /// The time stamp counter.
    Counter = 2,
}

/// 0: not known yet.
static KIND: AtomicU32 = AtomicU32::new(0);

/// The clock of this process.
pub fn clock() -> Clock {
    match KIND.load(Ordering::Relaxed) {
        1 => Clock::Nanoseconds,
        2 => Clock::Counter,
        _ => {
            let kind = if sys::counter_is_steady() { Clock::Counter } else { Clock::Nanoseconds };
            KIND.store(kind as u32, Ordering::Relaxed);
            kind
        }
    }
}

/// Now, in ticks.
#[inline(always)]
pub fn ticks() -> u64 {
    if KIND.load(Ordering::Relaxed) == Clock::Counter as u32 {
        return sys::counter();
    }
    monotonic_ns()
}

/// Now, in nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    sys::monotonic_ns()
}

/// Now, in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    sys::realtime_ns()
}

/// Processor time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    sys::thread_cpu_ns()
}

/// Ticks and `CLOCK_MONOTONIC` of one moment.
pub fn pair() -> (u64, u64) {
    // A tool may not have asked yet, and would read another clock than the program does.
    clock();
    // The closest of three looks: an interrupt between the two clocks would shift all times.
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..3 {
        let before = ticks();
        let ns = monotonic_ns();
        let after = ticks();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), ns);
        }
    }
    (best.1, best.2)
}

/// Turns ticks into nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Ticks and nanoseconds at the beginning.
    pub first: (u64, u64),
    /// Nanoseconds per tick.
    pub ratio: f64,
}

impl Scale {
    /// From two pairs of ticks and nanoseconds. If they are too close together to tell the rate, a tick
    /// counts as a nanosecond.
    pub fn new(first: (u64, u64), last: (u64, u64)) -> Scale {
        let (ticks, ns) = (last.0.wrapping_sub(first.0), last.1.wrapping_sub(first.1));
        let ratio = if ticks == 0 || ns == 0 { 1.0 } else { ns as f64 / ticks as f64 };
        Scale { first, ratio }
    }

    /// `CLOCK_MONOTONIC` at this tick, in nanoseconds. Before the beginning is possible.
    pub fn ns(&self, ticks: u64) -> u64 {
        let delta = ticks.wrapping_sub(self.first.0) as i64;
        // A product of the fraction alone keeps nanoseconds exact for days.
        let ns = (delta as f64 * (self.ratio - 1.0)).round() as i64;
        (self.first.1 as i64).wrapping_add(delta).wrapping_add(ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_kernels_clock() {
        clock();
        let first = pair();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let scale = Scale::new(first, pair());
        std::thread::sleep(std::time::Duration::from_millis(30));
        let (ticks, ns) = pair();
        let off = scale.ns(ticks).abs_diff(ns);
        assert!(off < 100_000, "off by {off} ns after 30 ms");
    }

    #[test]
    fn a_scale_goes_both_ways_from_its_beginning() {
        let scale = Scale::new((1000, 5000), (3000, 6000));
        assert_eq!((scale.ns(1000), scale.ns(3000), scale.ns(5000), scale.ns(0)), (5000, 6000, 7000, 4500));
    }
}
