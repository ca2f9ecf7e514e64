//! Huge pages, while the system has them at hand.
//!
//! The first touch of a huge page takes some 85 us where the system only has to clear it, and saves 512 faults of
//! more than a microsecond each. It takes milliseconds where the page must be found first: by compacting memory, or
//! by the host of a virtual machine that has taken back what its guest did not use (free page reporting does that
//! to huge pages alone). There a heap of 130 MB took 0.45 s of the kernel's time where 0.08 s are enough with small
//! pages.
//!
//! So the first touch of what is mapped with huge pages is timed. If one is [`SLOW`], the next [`SHORTEST`] chunks
//! have small pages, then one is tried again; each time in a row that this fails the run is twice as long, so that a
//! heap of any size pays for the logarithm of its chunks. Processor time is what counts: a thread that has to wait
//! for its turn says nothing about pages. What one heap has found out holds for all of the process.
//!
//! Rejected: asking whether the machine is virtual and its balloon reports pages, which is one reason of several and
//! says nothing of what the host has at hand; small pages everywhere, which cost the eightfold where nothing is
//! wrong; a time to wait rather than a number of chunks, since nothing is to be gained by trying again while no
//! memory is needed.

use crate::layout::CHUNK;
use crate::sys::cpu_ns;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Nanoseconds of processor time from which on the first touch of a huge page is slow.
const SLOW: u64 = 1_000_000;

/// Chunks that have small pages after one slow touch.
const SHORTEST: u32 = 32;

/// Chunks that have small pages at most before huge ones are tried again.
const LONGEST: u32 = 1 << 14;

/// What is known of the system's huge pages.
struct Experience {
    /// Chunks that are still to have small pages.
    left: AtomicU32,
    /// How many that will be after the next slow touch.
    next: AtomicU32,
}

static HERE: Experience = Experience::new();

impl Experience {
    const fn new() -> Experience {
        Experience { left: AtomicU32::new(0), next: AtomicU32::new(SHORTEST) }
    }

    /// Whether `chunks` that are to be mapped should have huge pages. If not, they are counted.
    fn advises(&self, chunks: u32) -> bool {
        self.left
            .fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left.saturating_sub(chunks)))
            .is_err()
    }

    /// The first touch of a huge page has taken so many nanoseconds.
    fn learn(&self, nanos: u64) {
        if nanos < SLOW {
            return self.next.store(SHORTEST, Relaxed);
        }
        let run = self.next.load(Relaxed);
        self.left.store(run, Relaxed);
        self.next.store((run * 2).min(LONGEST), Relaxed);
    }
}

/// Whether what is mapped next has huge pages, if it is large: the system has found the last one in time.
pub fn huge_pages_are_at_hand() -> bool {
    HERE.left.load(Relaxed) == 0
}

/// Whether so many bytes that are to be mapped should have huge pages, if they are wanted at all.
pub(crate) fn worth(bytes: usize) -> bool {
    HERE.advises(u32::try_from(bytes.div_ceil(CHUNK)).unwrap_or(u32::MAX))
}

/// Touches the first page of a fresh mapping that has huge pages, with `touch`, and remembers how long that takes.
pub(crate) fn try_one(touch: impl FnOnce()) {
    let before = cpu_ns();
    touch();
    HERE.learn(cpu_ns().saturating_sub(before));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_pages_are_left_alone_for_longer_and_longer() {
        let pages = Experience::new();
        assert!(pages.advises(1) && pages.advises(1000));
        pages.learn(SLOW - 1);
        assert!(pages.advises(1));
        let mut run = SHORTEST;
        for _ in 0..20 {
            pages.learn(SLOW);
            for _ in 0..run {
                assert!(!pages.advises(1));
            }
            assert!(pages.advises(1));
            run = (run * 2).min(LONGEST);
        }
        assert_eq!(run, LONGEST);
        pages.learn(SLOW);
        assert!(!pages.advises(u32::MAX), "a mapping is of one kind");
        assert!(pages.advises(1));
        pages.learn(SLOW - 1);
        pages.learn(SLOW);
        for _ in 0..SHORTEST {
            assert!(!pages.advises(1));
        }
        assert!(pages.advises(1));
    }
}
