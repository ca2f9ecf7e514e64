//! When to collect, and how much at a time.
//!
//! **Minor collections** come when the nursery's bytes are handed out. A larger nursery lets more objects die
//! before they are looked at, a smaller one keeps to the caches, saves memory and makes shorter pauses. So it
//! starts small and doubles while much survives (premature tenuring), up to a quarter of the live bytes, or
//! while collections take more than a percent of the time, up to what the processor's cache holds
//! ([`usual`]); and it always keeps the expected pause, from the measured time per byte, under
//! [`PAUSE_GOAL`].
//!
//! What every collection looks at though it is old (deep stacks,
//! [`Marker::note_rescan`](crate::Marker::note_rescan)) would make a recursion that allocates quadratic, and
//! its pauses would make the nursery small, which makes it worse. So at least as much is allocated between
//! two collections as the last one looked at again, whatever the pause: the cost of a byte allocated is
//! bounded.
//!
//! **Majors** aim at completion when the live bytes, external memory included, have grown to `pause` percent
//! of what the last one left, and therefore start when [`START`] percent of that growth has happened. Then
//! each minor collection is followed by a slice that takes what remains of the pause goal; nurseries are
//! halved meanwhile, so that slices come often enough. Marking goes at several bytes per byte promoted, hence
//! a major ends before the heap has grown much further. Heaps of a few megabytes that a program fills and drops
//! (a compressor's dictionary) would have one each few milliseconds: the least growth, which is what counts
//! there, doubles from one to the next while collections take more than a twelfth of the time.

use crate::account::heap_count;
use crate::sys::cache_of_core;
use crate::{HeapOptions, Mode, Params};
use std::sync::OnceLock;

/// Nanoseconds that a minor collection, or with a slice of a major both together, should stay under.
pub const PAUSE_GOAL: u64 = 450_000;
/// Nanoseconds of processor time after which a slice ends though it has not marked what it should have.
const MOST_PAUSE: u64 = 800_000;
/// Nanoseconds that a step with a slice is expected to take when the next nursery is chosen.
const SLICE_GOAL: f64 = 600_000.0;
/// Bytes that a slice marks at least for each byte that has become old: what makes majors end.
pub const MARK_RATIO: usize = 5;
/// A slice gets at least this many nanoseconds.
pub const LEAST_SLICE: u64 = 200_000;
const SMALLEST: usize = 128 << 10;
/// Without much survival, the nursery stays below this,
const USUAL: usize = 2 << 20;
/// and below what a core's second cache holds, between these, unless a quarter of the live bytes is more.
const CACHED: (usize, usize) = (256 << 10, 1 << 20);
/// So few heaps are not more than there are cores.
const FEW: usize = 4;
/// When everything survives, a nursery of this size takes about a millisecond.
const LARGEST: usize = 8 << 20;
/// Majors of small heaps are not worth starting for less growth than this,
const LEAST_GROWTH: usize = 256 << 10;
/// or, where collections take more than one part in [`DEAR`] of the time, for less than up to this.
const DEAR_GROWTH: usize = 2 << 20;
/// See [`DEAR_GROWTH`]. Where they take less than a third of that, a major may come as early as ever.
const DEAR: u64 = 12;
/// Percentage of the permitted growth at which a major starts. While it marks, what becomes old is one part in
/// [`MARK_RATIO`] of what there is: a fifth, where the heap may double. The rest is for its first steps, and
/// for slices that had no time.
const START: usize = 70;
/// A minor collection should take at most one part in so many of the time.
const FAIR_SHARE: u64 = 100;
/// Percentage of the nursery that survives where minor collections need not trace.
const KEEPER: usize = 85;
/// Minor collections in a row that trace nothing.
const MOST_PROMOTIONS: u32 = 7;

/// Bytes allocated after which a generational heap starts a major though it has not grown.
const VOLUME: u64 = 48 << 20;

/// What a nursery without much survival grows to beside so many live bytes, in a program of so many heaps.
fn usual(live: usize, heaps: usize) -> usize {
    static CACHE: OnceLock<usize> = OnceLock::new();
    let cache = *CACHE.get_or_init(|| cache_of_core().unwrap_or(CACHED.1 / 2).clamp(CACHED.0, CACHED.1));
    (live / 4).clamp(share(cache, heaps), USUAL)
}

/// What one of so many heaps has of the caches of all cores, each of so many bytes: what runs in turn on a core
/// shares its cache. So a thousand domains take no more memory than with the smallest nurseries.
fn share(cache: usize, heaps: usize) -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    if heaps <= FEW {
        return cache;
    }
    let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    (cache * cores.max(FEW) / heaps).clamp(CACHED.0, cache)
}

/// The state of the pacing.
pub struct Pace {
    /// Bytes between two minor collections.
    pub nursery: usize,
    fixed: bool,
    /// Bytes allocated in all when the last major started.
    pub allocated_at_major: u64,
    /// Live bytes at which a major starts.
    pub threshold: usize,
    /// Bytes allocated after which a major starts though the heap has not grown.
    volume: u64,
    /// Growth that a major is worth at least.
    least_growth: usize,
    /// Nanoseconds of processor time that collections have taken since the last major ended, and of the whole.
    since_major: (u64, u64),
    /// Nanoseconds per KiB of nursery, smoothed.
    cost: f64,
    /// Part of the nursery that survives, smoothed.
    survival: f64,
    /// Nanoseconds per KiB marked by slices, smoothed.
    mark_cost: f64,
    /// Bytes that slices should have marked and had no time for.
    pub debt: usize,
    /// Bytes that the last minor collection looked at though they were old, and so will the next one.
    pub rescanned: usize,
    pub tenuring: Tenuring,
}

/// Which minor collections promote all young objects without tracing them (`promote.rs`).
///
/// A byte that is promoted though it is dead costs what a major, at the usual growth of the heap, marks
/// for each byte promoted, up to two bytes; one that is traced though it is alive costs one. So tracing is
/// not worth its time while [`KEEPER`] percent survive. Whether they still do only tracing can tell: after
/// one that finds so the next promotes, after a second one the next three, then [`MOST_PROMOTIONS`]. One
/// that finds less ends it.
///
/// Nothing is promoted so beyond the bytes that were there when the last major ended, before it freed any.
/// So a program that begins to make garbage takes no more memory than it did before, and one that builds
/// up what it keeps has it traced.
#[derive(Default)]
pub struct Tenuring {
    /// How many are to come in a row after one that traces.
    run: u32,
    /// How many are left of these.
    left: u32,
    /// Bytes that were there when the last major ended.
    ceiling: usize,
}

impl Tenuring {
    /// Whether the next one promotes, with `bytes` there, the young among them.
    pub fn promotes(&mut self, bytes: usize) -> bool {
        let promotes = self.left > 0 && bytes <= self.ceiling;
        self.left = self.left.saturating_sub(1);
        promotes
    }

    /// A major has marked; `bytes` are there, and it has freed none.
    pub fn at_end_of_major(&mut self, bytes: usize) {
        self.ceiling = bytes;
    }

    /// One that traced `young` bytes kept `kept`.
    fn after_tracing(&mut self, young: usize, kept: usize) {
        let keeps = young > 0 && kept.saturating_mul(100) >= young.saturating_mul(KEEPER);
        self.run = if keeps { (self.run * 2 + 1).min(MOST_PROMOTIONS) } else { 0 };
        self.left = self.run;
    }
}

impl Pace {
    pub fn new(options: &HeapOptions) -> Pace {
        Pace {
            nursery: options.nursery.max(64 << 10),
            fixed: options.fixed_nursery,
            threshold: LEAST_GROWTH * 3,
            allocated_at_major: 0,
            volume: VOLUME,
            least_growth: LEAST_GROWTH,
            since_major: (0, 0),
            cost: 0.0,
            survival: 0.0,
            mark_cost: 0.0,
            debt: 0,
            rescanned: 0,
            tenuring: Tenuring::default(),
        }
    }

    pub fn fix_nursery(&mut self, bytes: Option<usize>) {
        self.fixed = bytes.is_some();
        if let Some(b) = bytes {
            self.nursery = b.max(64 << 10);
        }
    }

    /// Learns from a minor collection of `young` bytes of which `kept` survived, with `live` bytes now. It
    /// took `ns` of the `all_ns` since the last one, in processor time: a busy machine is no reason for a
    /// small nursery.
    pub fn after_minor(&mut self, young: usize, kept: usize, live: usize, ns: u64, all_ns: u64) {
        self.tenuring.after_tracing(young, kept);
        self.since_major.0 += ns;
        self.since_major.1 += all_ns;
        if young > 0 {
            self.survival += ((kept as f64 / young as f64).min(1.0) - self.survival) * 0.5;
        }
        if self.fixed || young < self.nursery / 4 {
            return;
        }
        let now = ns as f64 / (young as f64 / 1024.0);
        if self.cost == 0.0 {
            self.cost = now;
        }
        // Quick to believe bad news, but a single outlier must not halve the nursery.
        let weight = if now > self.cost { 0.5 } else { 0.2 };
        self.cost += (now.min(self.cost * 3.0) - self.cost) * weight;
        let bearable = (PAUSE_GOAL as f64 * 0.7 / self.cost.max(1e-6) * 1024.0).min(LARGEST as f64) as usize;
        let usual = usual(live, heap_count());
        let most = if kept > young / 8 {
            (live / 4).max(usual)
        } else if ns > all_ns / FAIR_SHARE {
            usual
        } else {
            0
        };
        let mut wanted = self.nursery.max((self.nursery * 2).min(most));
        if kept < young / 32 && wanted > usual {
            // What once survived no longer does: back into the caches.
            wanted -= wanted / 8;
        }
        self.nursery = wanted.min(bearable).max(SMALLEST);
    }

    /// Learns from a slice that marked `done` bytes in `ns` of processor time and should have marked `least`.
    pub fn after_slice(&mut self, done: usize, least: usize, ns: u64) {
        self.debt = least.saturating_sub(done);
        self.since_major.0 += ns;
        if done >= 16 << 10 {
            let now = ns as f64 / (done as f64 / 1024.0);
            let weight = if now > self.mark_cost { 0.5 } else { 0.1 };
            self.mark_cost += (now.min(self.mark_cost.max(500.0) * 3.0) - self.mark_cost) * weight;
        }
    }

    /// Nanoseconds after which a slice ends though it has not marked the `least` bytes that it should. While
    /// steps come when the nursery is full, it owes less than a large nursery. But a native function that
    /// makes megabytes at a time (a decoder) does not stop for the nursery, and such calls in a row would
    /// leave every slice further behind: then slices get longer, as the calls are that they follow.
    pub fn patience(least: usize) -> u64 {
        MOST_PAUSE * (1 + (least / LARGEST) as u64)
    }

    /// Bytes until the next step, which marks as well if a major is active (`marking`): halved then, so that
    /// slices come often; less if what is kept, and what must be marked in return, would take too long; and
    /// less by the debt. Never less than what the step will look at again.
    pub fn until_next(&self, marking: bool) -> usize {
        if self.fixed {
            return if marking { self.nursery / 2 } else { self.nursery };
        }
        if !marking {
            return self.nursery.max(self.rescanned);
        }
        let per_kib = self.cost + self.survival * self.mark_cost * MARK_RATIO as f64;
        let bearable = (SLICE_GOAL / per_kib.max(1e-6) * 1024.0).min(LARGEST as f64) as usize;
        let most = bearable.min(self.nursery / 2);
        most.saturating_sub(self.debt / MARK_RATIO).max(SMALLEST / 4).max(self.rescanned)
    }

    /// Is a major due, with `live` bytes now and `allocated` bytes allocated in all?
    pub fn major_due(&self, live: usize, allocated: u64) -> bool {
        live >= self.threshold || allocated - self.allocated_at_major > self.volume
    }

    /// A major has ended.
    pub fn after_major(&mut self) {
        let (collecting, all) = std::mem::take(&mut self.since_major);
        if collecting > all / DEAR {
            self.least_growth = (self.least_growth * 2).min(DEAR_GROWTH);
        } else if collecting < all / (3 * DEAR) {
            self.least_growth = (self.least_growth / 2).max(LEAST_GROWTH);
        }
    }

    /// `live` bytes are there, and no major is under way.
    pub fn set_threshold(&mut self, live: usize, params: &Params, limit: usize) {
        let percent = match params.mode {
            Mode::Incremental => params.pause.clamp(110, 1000) - 100,
            Mode::Generational => params.major_mul.clamp(10, 1000),
        };
        let growth = (live / 100).saturating_mul(percent) / 100 * START;
        let grown = live.saturating_add(growth.max(self.least_growth).max(self.nursery / 2));
        self.volume = match params.mode {
            // Every cycle of a collector that knows no generations is a major one.
            Mode::Incremental => growth.max(LEAST_GROWTH) as u64,
            Mode::Generational => VOLUME.max(live as u64 * 8),
        };
        let halfway = live + limit.saturating_sub(live) / 2;
        self.threshold = grown.min(halfway);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nursery_grows_while_pauses_are_short_and_shrinks_when_they_are_long() {
        let mut p = Pace::new(&HeapOptions::default());
        for _ in 0..20 {
            p.after_minor(p.nursery, p.nursery / 2, 1 << 30, 20_000, 1 << 30);
        }
        assert_eq!(p.nursery, LARGEST);
        for _ in 0..20 {
            p.after_minor(p.nursery, p.nursery / 2, 1 << 30, (p.nursery as u64) / 4, 1 << 30);
        }
        assert!(p.nursery < USUAL && p.nursery as u64 / 4 <= PAUSE_GOAL, "{}", p.nursery);
    }

    #[test]
    fn majors_of_small_heaps_that_take_much_of_the_time_come_later() {
        let mut p = Pace::new(&HeapOptions::default());
        let params = Params::default();
        let mut growth = |collecting: u64| {
            p.after_minor(0, 0, 0, collecting, 1_000_000);
            p.after_major();
            p.set_threshold(0, &params, usize::MAX);
            p.threshold
        };
        assert_eq!(growth(50_000), growth(0));
        let dear: Vec<usize> = (0..6).map(|_| growth(100_000)).collect();
        assert!(dear.is_sorted() && dear[5] == dear[4] && dear[5] > 3 * dear[0], "{dear:?}");
        assert_eq!(growth(50_000), dear[5]);
        let cheap: Vec<usize> = (0..6).map(|_| growth(10_000)).collect();
        assert!(cheap[0] < dear[5] && cheap[5] == growth(0), "{cheap:?}");
    }

    #[test]
    fn what_survives_anyway_is_traced_one_time_in_eight() {
        let mut t = Tenuring::default();
        t.after_tracing(1000, 1000);
        assert!(!t.promotes(1), "before the first major");
        t.at_end_of_major(5000);
        let mut next = |young: usize, kept: usize, bytes: usize| {
            t.after_tracing(young, kept);
            (0..).take_while(|_| t.promotes(bytes)).count()
        };
        assert_eq!(next(1000, KEEPER * 10 - 1, 0), 0);
        let runs = [1, 3, 7, 7].map(|_| next(1000, KEEPER * 10, 5000));
        assert_eq!(runs, [1, 3, 7, 7]);
        assert_eq!(next(1000, 1000, 5001), 0, "more than there was");
        // One that finds less starts from the beginning.
        assert_eq!([next(1000, 100, 0), next(1000, 1000, 0), next(0, 0, 0)], [0, 1, 0]);
    }

    #[test]
    fn slices_get_longer_only_when_they_owe_more_than_a_nursery() {
        assert_eq!(Pace::patience(0), MOST_PAUSE);
        assert_eq!(Pace::patience(LARGEST - 1), MOST_PAUSE);
        assert_eq!(Pace::patience(10 * LARGEST), 11 * MOST_PAUSE);
    }

    #[test]
    fn what_dies_young_needs_no_large_nursery() {
        let mut p = Pace::new(&HeapOptions::default());
        let first = p.nursery;
        for _ in 0..20 {
            p.after_minor(p.nursery, 0, 1 << 30, 10_000, 10_000_000);
        }
        assert_eq!(p.nursery, first);
        for _ in 0..20 {
            p.after_minor(p.nursery, 0, 1 << 30, 10_000, 100_000);
        }
        assert_eq!(p.nursery, USUAL, "collections took a tenth of the time");
    }

    #[test]
    fn many_heaps_share_the_caches() {
        let alone = usual(0, 1);
        assert!((CACHED.0..=CACHED.1).contains(&alone));
        assert_eq!([usual(0, FEW), usual(0, 1_000_000)], [alone, CACHED.0]);
        assert_eq!([usual(64 << 20, 1), usual(64 << 20, 1_000_000)], [USUAL; 2], "one with much to look at");
    }

    #[test]
    fn as_much_is_allocated_as_is_looked_at_again() {
        let mut p = Pace::new(&HeapOptions::default());
        p.rescanned = 16 << 20;
        for _ in 0..20 {
            p.after_minor(16 << 20, 16 << 20, 1 << 30, 10_000_000, 20_000_000);
        }
        assert!(p.nursery <= LARGEST);
        p.debt = 100 << 20;
        assert_eq!((p.until_next(false), p.until_next(true)), (16 << 20, 16 << 20));
    }

    #[test]
    fn a_major_starts_well_before_the_limit() {
        let mut p = Pace::new(&HeapOptions::default());
        let params = Params::default();
        p.set_threshold(100 << 20, &params, usize::MAX);
        assert_eq!(p.threshold, (100 << 20) + (100 << 20) / 100 * START);
        p.set_threshold(100 << 20, &params, 120 << 20);
        assert_eq!(p.threshold, 110 << 20);
    }
}
