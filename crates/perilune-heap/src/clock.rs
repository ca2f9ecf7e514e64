//! Processor time, as collections ask for it.
//!
//! The system is asked for the processor time of a thread by a call, which takes as long as a short minor
//! collection's roots do: asked twice for each, it was a percent of programs that make many short-lived
//! objects. The clock on the wall is read without one. While a thread runs both go on alike, so between two
//! readings of the one, [`ALIKE`] apart at most, the other tells; where the thread has not run for all of that,
//! the time told is too late by as much, until the next reading.
//!
//! Rejected: the wall's clock alone. On a machine that is shared a collection would be taken to have cost what
//! others had, and nurseries would be made smaller for it.

use crate::sys::cpu_ns;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For so long one clock is taken to go on as the other does.
const ALIKE: Duration = Duration::from_millis(1);

/// The processor time of the thread that has a heap.
#[derive(Default)]
pub(crate) struct ProcessorClock {
    /// When it was last read, by which thread, and what it said.
    read: Option<(Instant, usize, u64)>,
    /// The latest time told of that thread: none is told that is earlier.
    told: u64,
}

impl ProcessorClock {
    /// Nanoseconds of processor time of the calling thread at `wall`, which is now.
    pub fn now(&mut self, wall: Instant) -> u64 {
        let thread = thread_mark();
        let before = match self.read {
            Some((at, by, nanos)) if by == thread => {
                let passed = wall.saturating_duration_since(at);
                if passed < ALIKE {
                    self.told = self.told.max(nanos + passed.as_nanos() as u64);
                    return self.told;
                }
                self.told
            }
            _ => 0,
        };
        let nanos = cpu_ns();
        self.read = Some((wall, thread, nanos));
        self.told = before.max(nanos);
        self.told
    }
}

/// A number of the calling thread that no other one has, nor will have: a thread may get the memory of one that
/// has ended, but not its processor time.
pub(crate) fn thread_mark() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    std::thread_local! {
        static MARK: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MARK.with(|mark| *mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_between_readings_and_is_never_late_for_long() {
        let mut clock = ProcessorClock::default();
        let first = Instant::now();
        let began = clock.now(first);
        assert!(began > 0);
        let soon = clock.now(first + Duration::from_micros(100));
        assert_eq!(soon, began + 100_000, "told by the wall's clock");
        // The thread has not run for an hour: what is told is its own time again, but not an earlier one.
        let later = clock.now(first + Duration::from_secs(3600));
        assert!(later >= soon && later < began + 3_000_000_000, "{later} after {began}");
    }

    #[test]
    fn each_thread_has_its_own() {
        let mut clock = ProcessorClock::default();
        while clock.now(Instant::now()) < 5_000_000 {}
        let of_another = std::thread::scope(|scope| {
            scope.spawn(|| clock.now(Instant::now())).join().expect("the thread ends")
        });
        assert!(of_another < 5_000_000, "{of_another}");
        // And so has the next one, which may lie where that one did.
        let marks = [(); 20].map(|()| std::thread::spawn(thread_mark).join().expect("the thread ends"));
        let own = thread_mark();
        assert!(marks.iter().enumerate().all(|(n, mark)| *mark != own && !marks[..n].contains(mark)));
    }
}
