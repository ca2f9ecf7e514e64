//! Whether so much happens that idle workers had better wait for it themselves.
//!
//! A worker that waits for descriptors saves the hand-over for each event (`lease.rs`). But whenever it has
//! found something, the thread has to look after it, which costs more than the hand-over where events are
//! few. So workers do it only while traffic is *dense*: while most events follow the one before within
//! [`CLOSE`]. It takes [`MANY`] of them to become so, and no less than [`MANY`] / [`APART`] others in a row
//! to end it, so that a pause of the machine changes nothing.
//!
//! `docs/decisions/0027-one-poller.md` has the measurements.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events are close if no more than this is between them.
const CLOSE: Duration = Duration::from_micros(500);
/// So many more close ones than others make traffic dense.
const MANY: u32 = 64;
/// One that is not close counts for so many that are.
const APART: u32 = 8;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Who waits for descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The poller's thread, always.
    Thread,
    /// Idle workers, whenever there are any.
    Workers,
    /// Idle workers while traffic is dense.
    Either,
}

impl Who {
    /// All words for it.
    pub const WORDS: [(&str, Who); 3] =
        [("auto", Who::Either), ("thread", Who::Thread), ("lease", Who::Workers)];
}

/// See the module's essay. Several threads may tell of events at the same time; then one may count for
/// another.
pub struct Traffic {
    who: Who,
    /// Of the last event, in nanoseconds.
    last: AtomicU64,
    close: AtomicU32,
    is_dense: AtomicBool,
}

impl Traffic {
    /// Nothing has happened yet.
    pub const fn new(who: Who) -> Traffic {
        Traffic { who, last: AtomicU64::new(0), close: AtomicU32::new(0), is_dense: AtomicBool::new(false) }
    }

    /// Who is to wait.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Whether an idle worker is to wait for events.
    pub fn wants_workers(&self) -> bool {
        match self.who {
            Who::Thread => false,
            Who::Workers => true,
            Who::Either => self.is_dense.load(Ordering::Relaxed),
        }
    }

    /// Somebody who has waited was told something.
    pub fn happened(&self) {
        if self.who == Who::Either {
            self.happened_at(EPOCH.elapsed());
        }
    }

    /// The same by a clock.
    fn happened_at(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        let close = self.close.load(Ordering::Relaxed);
        if now.saturating_sub(last) <= CLOSE.as_nanos() as u64 {
            if close < MANY {
                self.close.store(close + 1, Ordering::Relaxed);
                if close + 1 == MANY {
                    self.is_dense.store(true, Ordering::Relaxed);
                }
            }
        } else if close > 0 {
            self.close.store(close.saturating_sub(APART), Ordering::Relaxed);
            if close <= APART {
                self.is_dense.store(false, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many events, each so long after the one before.
    fn events(traffic: &Traffic, clock: &mut Duration, count: u32, gap: Duration) {
        for _ in 0..count {
            *clock += gap;
            traffic.happened_at(*clock);
        }
    }

    #[test]
    fn workers_wait_while_traffic_is_dense() {
        let (traffic, mut clock) = (Traffic::new(Who::Either), Duration::from_secs(1));
        let far = CLOSE + Duration::from_nanos(1);
        events(&traffic, &mut clock, 1000, far);
        assert!(!traffic.wants_workers());
        events(&traffic, &mut clock, MANY - 1, CLOSE);
        assert!(!traffic.wants_workers());
        events(&traffic, &mut clock, 1, CLOSE);
        assert!(traffic.wants_workers());
        // Pauses now and then change nothing.
        for _ in 0..100 {
            events(&traffic, &mut clock, 1, Duration::from_millis(20));
            events(&traffic, &mut clock, APART, CLOSE);
            assert!(traffic.wants_workers());
        }
        events(&traffic, &mut clock, MANY / APART - 1, far);
        assert!(traffic.wants_workers());
        events(&traffic, &mut clock, 1, far);
        assert!(!traffic.wants_workers());
        // And what is neither changes little.
        for _ in 0..100 {
            events(&traffic, &mut clock, 1, far);
            events(&traffic, &mut clock, APART, CLOSE);
            assert!(!traffic.wants_workers());
        }
    }

    #[test]
    fn a_program_may_say_who_waits() {
        for (who, wants) in [(Who::Thread, false), (Who::Workers, true)] {
            let traffic = Traffic::new(who);
            for _ in 0..2 * MANY {
                assert_eq!(traffic.wants_workers(), wants);
                traffic.happened();
            }
        }
    }
}
