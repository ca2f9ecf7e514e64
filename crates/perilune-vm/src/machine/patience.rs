//! How many exits code may take before it is given up.
//!
//! Code that is made anew costs a third of a microsecond for each of its bytes, and an exit is taken to cost
//! about as much or twice that. So large code may be left more often than small: until the exits have cost
//! about as much as new code would. And exits count only as far as they come fast: a program that runs for
//! hours has all of them some time. What they cost by then is known from the clock. But where there have been
//! twice as many as the code has bytes, they have cost more than code that knows them, however far from each
//! other they were.
//!
//! Code that is given up is what the function has until there is better, unless it is left so often that the
//! interpreter is quicker ([`HOPELESS`]): what runs is recorded, and the next code knows more. How often that
//! is asked for goes down by half each time.
//!
//! Code that leads to next to nothing whenever it is entered, after a few hundred exits, is given up however
//! large it is ([`Patience::ends_early`]): by `entry.rs` it would not be entered any more, so that the exits
//! that it is made anew for would never come.
//!
//! Rejected: the interpreter until then. It takes a tenth of a second before a function is recorded again
//! that has been found not to be hot for that long; code that is left once in a hundred calls does the
//! others. The same number for all, over the life of the code. Large functions of a long program are made
//! anew for exits that cost less than that.

use perilune_trace::clock::{Clock, clock, ticks};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Code is given up after so many exits,
const LEAST: u32 = 200;
/// or after one for so many of its bytes, if these are more.
const BYTES: usize = 4;
/// Exits that are this far from each other, in nanoseconds, cost less than a fiftieth of the time.
const RARE: u64 = 50_000;
/// Code with exits that are nearer to each other than this, in nanoseconds, is worth nothing.
const HOPELESS: u64 = 15_000;

/// Which of the exits of a function count against one of its codes.
#[derive(Debug)]
pub(super) struct Patience {
    /// The total when the code was made.
    first: u32,
    /// The total at which it began to count.
    before: AtomicU32,
    /// When that was, in ticks.
    since: AtomicU64,
    /// So many are too many.
    most: AtomicU32,
    /// So many in all are too many, however long they take to come.
    most_in_all: u32,
    /// At so many it is asked for better code once more.
    next: AtomicU32,
}

impl Patience {
    /// That of code of so many bytes, made when there had been `total` exits.
    pub fn new(total: u32, bytes: usize) -> Patience {
        let most = LEAST.max(u32::try_from(bytes / BYTES).unwrap_or(u32::MAX));
        let most_in_all = LEAST.saturating_add(u32::try_from(2 * bytes).unwrap_or(u32::MAX));
        let (since, next, most) = (AtomicU64::new(ticks()), AtomicU32::new(0), AtomicU32::new(most));
        Patience { first: total, before: AtomicU32::new(total), since, most, most_in_all, next }
    }

    /// How many of these exits count.
    pub fn counted(&self, total: u32) -> u32 {
        total.wrapping_sub(self.before.load(Ordering::Relaxed))
    }

    /// Whether these are too many.
    pub fn is_over(&self, total: u32) -> bool {
        self.counted(total) > self.most.load(Ordering::Relaxed)
    }

    /// The code leads to next to nothing. Whether that is for exits: then the fewest that count are too many.
    pub fn ends_early(&self, total: u32) -> bool {
        let early = self.counted(total) > LEAST;
        if early {
            self.most.store(LEAST, Ordering::Relaxed);
        }
        early
    }

    /// Whether these come so fast that nothing is gained by the code, by `now`.
    pub fn is_hopeless(&self, total: u32, now: u64) -> bool {
        let each = if clock() == Clock::Counter { 2 * HOPELESS } else { HOPELESS };
        now.saturating_sub(self.since.load(Ordering::Relaxed)) / each < self.counted(total) as u64
    }

    /// Whether to ask for better code, of code that has had too many exits: each time after twice as many.
    pub fn asks(&self, total: u32) -> bool {
        let counted = self.counted(total);
        let due = counted >= self.next.load(Ordering::Relaxed);
        if due {
            self.next.store(counted.saturating_mul(2), Ordering::Relaxed);
        }
        due
    }

    /// Whether it took them so long to come that they do not matter, by `now`: then they do not count any
    /// more. Domains that ask at once may both be told so.
    pub fn begins_anew(&self, total: u32, now: u64) -> bool {
        let each = if clock() == Clock::Counter { 2 * RARE } else { RARE };
        let taken = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let rare =
            taken / each > self.counted(total) as u64 && total.wrapping_sub(self.first) < self.most_in_all;
        if rare {
            self.before.store(total, Ordering::Relaxed);
            self.next.store(0, Ordering::Relaxed);
            self.since.store(now, Ordering::Relaxed);
        }
        rare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1 << 60;

    fn begun_at(since: u64, bytes: usize) -> Patience {
        let patience = Patience::new(1000, bytes);
        patience.since.store(since, Ordering::Relaxed);
        patience
    }

    #[test]
    fn small_code_has_two_hundred_exits_and_large_code_more() {
        let (small, large) = (begun_at(NOW, 100), begun_at(NOW, 32_000));
        assert!(!small.is_over(1200) && small.is_over(1201));
        assert!(!large.is_over(9000) && large.is_over(9001));
    }

    #[test]
    fn large_code_that_leads_to_nothing_has_two_hundred_exits_too() {
        let large = begun_at(NOW, 32_000);
        assert!(!large.ends_early(1200) && !large.is_over(1300));
        assert!(large.ends_early(1201) && large.is_over(1201));
    }

    #[test]
    fn exits_that_come_fast_count() {
        let patience = begun_at(NOW, 100);
        assert!(!patience.begins_anew(1201, NOW + 201 * RARE / 10));
        assert!(patience.is_over(1201));
    }

    #[test]
    fn better_code_is_asked_for_more_and_more_rarely() {
        let patience = begun_at(NOW, 100);
        let asked: Vec<u32> = (1201..4000).filter(|&total| patience.asks(total)).collect();
        assert_eq!(asked, [1201, 1402, 1804, 2608]);
        assert!(!patience.is_hopeless(1201, NOW + 201 * HOPELESS * 4));
        assert!(patience.is_hopeless(1201, NOW + 201 * HOPELESS / 4));
    }

    #[test]
    fn exits_that_come_rarely_count_once_there_are_many() {
        let patience = begun_at(NOW, 500);
        let (mut total, mut now) = (1000, NOW);
        while patience.begins_anew(total + 201, now + 1000 * RARE) {
            (total, now) = (total + 201, now + 1000 * RARE);
        }
        assert!((1900..2300).contains(&total), "{total}");
        assert!(patience.is_over(total + 201));
    }

    #[test]
    fn exits_that_come_rarely_are_forgotten() {
        let patience = begun_at(NOW, 100);
        assert!(patience.begins_anew(1201, NOW + 1000 * RARE));
        assert!(!patience.is_over(1201) && !patience.is_over(1401) && patience.is_over(1402));
        assert!(!patience.begins_anew(1402, NOW + 1000 * RARE + 1000), "they came at once");
    }
}
