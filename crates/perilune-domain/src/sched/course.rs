//! The course of a parallel loop: what its parts, in several domains, tell each other.
//!
//! A *portion* is a range of the loop that somebody runs. It takes *bites* from the lower end, and may give
//! its upper half away before each. The *course* is what all portions share: whether to go on, up to which
//! index, how many portions have not ended, whom to tell when one fails.
//!
//! # What holds
//! Each index is in one bite at most, and in exactly one if nothing stops the loop. [`Course::portion_ended`]
//! says once that all are over, and what they have left behind is then seen by whoever is told so. A portion
//! is either found by [`Course::fail`], or it sees that the loop is to stop when it [enters](Course::enter):
//! both look while they hold the list. The same goes for a find, whose bound is looked at before each bite.
//! `tests/model` looks at every interleaving.
//!
//! Who is not to be cancelled is a portion, not a number of a fiber: fibers of different domains have the
//! same numbers.

use super::sync::{AtomicBool, AtomicI64, AtomicUsize, Mutex, Ordering, lock};
use std::sync::{Arc, Weak};

/// How what runs a portion is told to stop.
pub trait Cancel: Clone {
    /// Tells it; it may have ended.
    fn cancel(&self);
}

/// What all portions share. `C` cancels what runs one, `E` is how one fails.
pub struct Course<C, E> {
    /// Nobody takes another bite.
    stop: AtomicBool,
    /// No index above this is of interest.
    bound: AtomicI64,
    /// Portions that have not ended.
    pending: AtomicUsize,
    /// The error of the lowest index so far.
    failure: Mutex<Option<(i64, E)>>,
    /// Portions that are run.
    running: Mutex<Vec<(Weak<Portion>, C)>>,
}

/// A range that somebody runs.
pub struct Portion {
    first: i64,
    ended: AtomicBool,
    left: Mutex<Left>,
}

/// What has not been taken: `lo..=hi`; nothing if `lo > hi`.
struct Left {
    lo: i64,
    hi: i64,
    /// How long the next bite is to be, kept for [`Portion::take`].
    size: i64,
}

/// Indices that are somebody's to run, and what was given away for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bite {
    /// First index.
    pub lo: i64,
    /// Last one.
    pub hi: i64,
    /// The upper half of what was left, a portion that has not begun: the caller hands it on. It counts as
    /// pending already.
    pub upper: Option<(i64, i64)>,
}

impl<C: Cancel, E> Course<C, E> {
    /// One portion is to come.
    pub fn new() -> Course<C, E> {
        Course {
            stop: AtomicBool::new(false),
            bound: AtomicI64::new(i64::MAX),
            pending: AtomicUsize::new(1),
            failure: Mutex::new(None),
            running: Mutex::new(Vec::new()),
        }
    }

    /// Whether a portion from `lo` on has nothing to do any more.
    pub fn is_over(&self, lo: i64) -> bool {
        self.is_stopped() || lo > self.bound.load(Ordering::Relaxed)
    }

    /// Whether nobody takes another bite.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether some portion has not ended.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) != 0
    }

    /// A portion has something that runs it: whoever stops the loop tells it from now on. If the loop has
    /// been stopped, it is told now.
    pub fn enter(&self, portion: &Arc<Portion>, runner: C) {
        let mut running = lock(&self.running);
        running.retain(|(p, _)| p.upgrade().is_some_and(|p| !p.ended.load(Ordering::Relaxed)));
        running.push((Arc::downgrade(portion), runner.clone()));
        drop(running);
        // Who stopped it has looked at the list before, then this is seen here; or looks later.
        if self.is_stopped() {
            runner.cancel();
        }
    }

    /// A portion has ended, or was never run. True: it was the last.
    pub fn portion_ended(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// A body failed at this index: nothing more is begun, and what runs is cancelled, except for the portion
    /// that reports.
    pub fn fail(&self, index: i64, error: E, reporter: Option<&Portion>) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(at, _)| index < *at) {
            *failure = Some((index, error));
        }
        drop(failure);
        self.stop(reporter);
    }

    /// Nothing more is begun, and what runs is cancelled, except for this portion.
    pub fn stop(&self, except: Option<&Portion>) {
        self.stop.store(true, Ordering::Relaxed);
        self.cancel(|portion| !except.is_some_and(|e| std::ptr::eq(e, portion)));
    }

    /// What a find looks for is at this index: nothing above is of interest.
    pub fn found(&self, index: i64) {
        self.bound.fetch_min(index, Ordering::Relaxed);
        self.cancel(|portion| portion.first > index && lock(&portion.left).lo > index.saturating_add(1));
    }

    fn cancel(&self, which: impl Fn(&Portion) -> bool) {
        let running = lock(&self.running).clone();
        for (portion, runner) in running {
            if portion.upgrade().is_some_and(|p| !p.ended.load(Ordering::Relaxed) && which(&p)) {
                runner.cancel();
            }
        }
    }

    /// The error of the lowest index, when all portions have ended.
    pub fn failure(&self) -> Option<E>
    where
        E: Clone,
    {
        lock(&self.failure).as_ref().map(|(_, error)| error.clone())
    }
}

impl Portion {
    /// A portion of which nothing has been taken.
    pub fn new(lo: i64, hi: i64) -> Portion {
        Portion { first: lo, ended: AtomicBool::new(false), left: Mutex::new(Left { lo, hi, size: 1 }) }
    }

    /// Its first index.
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The first index that has not been taken.
    pub fn next(&self) -> i64 {
        lock(&self.left).lo
    }

    /// Nobody runs it any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The next bite; `None`: the portion is done. `size` makes the length of this bite from that of the
    /// last, and from whether there has been one; with `wanted` the upper half of what is left goes, in whole
    /// bites.
    pub fn take<C: Cancel, E>(
        &self,
        course: &Course<C, E>,
        size: impl FnOnce(i64, bool) -> i64,
        wanted: impl FnOnce() -> bool,
    ) -> Option<Bite> {
        if course.is_stopped() {
            return None;
        }
        let mut left = lock(&self.left);
        left.hi = left.hi.min(course.bound.load(Ordering::Relaxed));
        if left.lo > left.hi {
            return None;
        }
        let count = left.hi.abs_diff(left.lo).saturating_add(1);
        left.size = size(left.size, left.lo != self.first).max(1);
        let size = left.size as u64;
        let mut upper = None;
        if count > size && wanted() {
            let keep = (count / 2).div_ceil(size).saturating_mul(size).min(count - 1).max(size);
            let mid = left.lo.wrapping_add(keep as i64);
            course.pending.fetch_add(1, Ordering::Relaxed);
            upper = Some((mid, left.hi));
            left.hi = mid - 1;
        }
        let lo = left.lo;
        let hi = left.hi.min(lo.saturating_add(left.size - 1));
        match hi.checked_add(1) {
            Some(next) => left.lo = next,
            // The last index there is.
            None => (left.lo, left.hi) = (1, 0),
        }
        Some(Bite { lo, hi, upper })
    }
}
