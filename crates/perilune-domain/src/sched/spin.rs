//! A moment of patience before sleeping.
//!
//! To sleep and be woken costs two system calls and 5 to 50 us until the woken thread runs. Two domains that
//! answer each other at once, or a task that awaits a small one, would pay that for each message. So a thread
//! that is about to sleep looks a little longer whether there is news: then the other side finds a domain
//! that is still owned, and its wake is one atomic operation.
//!
//! In a program with little to do news seldom come in time, so patience adapts: each vain attempt doubles the
//! number of occasions on which it is not tried, up to 63; each success resets that. No more threads are
//! patient at a time than there are cores, and none where there is one core only, since whoever is waited for
//! needs it.
//!
//! Where the one who waits and the one who is waited for share a core, patience is what keeps the news from
//! coming. So whoever brings news to one that sleeps leaves the number of its core ([`Spin::brought`]), and
//! who waits on that core next time sleeps at once.
//!
//! # Moving
//! The kernel puts a thread that is woken where it ran last, or beside who wakes it, unless it finds an idle
//! core. So on a machine with something else to do, two that answer each other may share a core for ever, at
//! four system calls and two switches for each answer, some 5 us, where two cores take 1 to 3 and less
//! processor time. A worker thread that has found this [`SHARED`] times goes to another core itself: it takes
//! the one that it is on out of its affinity mask, which makes the kernel move it, and puts it back. Whether
//! that pays depends on what else runs there. So no two threads do it within [`PAUSE`], and each time that
//! nothing comes within the patience after it doubles the pause up to [`LONGEST_PAUSE`] ([`Moves`]): what is
//! vain costs a few thousandths of a core at most, and soon nothing.
//!
//! *Rejected.* To give a shared core up (`sched_yield`) and look again: the other goes on, and finds no
//! sleeper to wake, so that a worker that is handed tasks one by one finds many at once; on two cores with a
//! load of 24 that took 70 switches in place of 50,000 for 300,000 tasks, and a third of the time of
//! processors. But whoever yields is behind everybody else for a slice, while one who sleeps is woken at
//! once: the same programs took three times as long by the clock. To spin in the queue of tasks only, as
//! pools do: answers between domains and to the main program would remain slow.

use super::threads;
pub(crate) use crate::sys::core;
use crate::sys::leave_core;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// About what a wake costs: then at most twice the best possible is spent.
const PATIENCE: Duration = Duration::from_micros(20);
/// Vain attempts are counted up to here; 2 to this power is the number of occasions left out.
const MOST_VAIN: u8 = 6;

/// After so many occasions on which a thread shared a core with who brought it news, it may move.
const SHARED: u32 = 64;
/// At least so long after the last move of any thread.
const PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// How many threads are patient now.
static PATIENT: AtomicUsize = AtomicUsize::new(0);

/// The experience of one that waits.
#[derive(Default)]
pub struct Spin {
    vain: AtomicU8,
    left_out: AtomicU8,
    /// One more than the core where news came from last; 0: not known.
    other: AtomicU32,
    /// How often that was the core of whoever waits, if it may move; `None`: it may not.
    shared: Option<AtomicU32>,
}

/// When threads may move to another core.
struct Moves {
    /// Nanoseconds on a clock that does not matter.
    due: AtomicU64,
    pause: AtomicU64,
}

static MOVES: Moves = Moves::new();

impl Moves {
    const fn new() -> Moves {
        Moves { due: AtomicU64::new(0), pause: AtomicU64::new(PAUSE.as_nanos() as u64) }
    }

    /// Whether a thread may move now; then none may for a while.
    fn take(&self, now: u64) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(self.pause.load(Ordering::Relaxed));
        now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What came of it.
    fn done(&self, has_paid: bool) {
        let pause = match has_paid {
            true => PAUSE.as_nanos() as u64,
            false => (self.pause.load(Ordering::Relaxed) * 2).min(LONGEST_PAUSE.as_nanos() as u64),
        };
        self.pause.store(pause, Ordering::Relaxed);
    }
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Spin {
    /// For worker threads: they may move to another core.
    pub fn that_moves() -> Spin {
        Spin { shared: Some(AtomicU32::new(0)), ..Spin::default() }
    }

    /// Waits a moment for `news`. False: none came, or it was not tried.
    ///
    /// To be called by one thread at a time.
    pub fn until(&self, news: impl Fn() -> bool) -> bool {
        if self.shares_core()
            && !news()
            && self.is_to_move(&MOVES, cores(), now)
            && leave_core(core().wrapping_sub(1))
        {
            // What brought news from that core says nothing any more.
            self.other.store(0, Ordering::Relaxed);
            let came = watch(&news);
            MOVES.done(came);
            return came;
        }
        self.until_within(&PATIENT, cores(), news)
    }

    /// Whether the news came from the core that the calling thread runs on.
    fn shares_core(&self) -> bool {
        let other = self.other.load(Ordering::Relaxed);
        other != 0 && other == core()
    }

    /// Whether whoever waits, and shares a core, is to move.
    fn is_to_move(&self, moves: &Moves, cores: usize, now: impl Fn() -> u64) -> bool {
        let Some(shared) = &self.shared else { return false };
        let times = shared.load(Ordering::Relaxed).wrapping_add(1);
        shared.store(times, Ordering::Relaxed);
        times.is_multiple_of(SHARED) && cores > 1 && moves.take(now())
    }

    /// The news have come. To be called by whoever has brought them; costs a store.
    pub fn brought(&self) {
        self.brought_by(core());
    }

    /// The news have come from this core ([`core`]).
    pub fn brought_by(&self, core: u32) {
        self.other.store(core, Ordering::Relaxed);
    }

    fn until_within(&self, patient: &AtomicUsize, cores: usize, news: impl Fn() -> bool) -> bool {
        if news() {
            return true;
        }
        if self.shares_core() {
            return false;
        }
        let left_out = self.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            self.left_out.store(left_out - 1, Ordering::Relaxed);
            return false;
        }
        if cores < 2 {
            return false;
        }
        let tried = patient.fetch_add(1, Ordering::Relaxed) < cores;
        let came = tried && watch(news);
        patient.fetch_sub(1, Ordering::Relaxed);
        if tried {
            let vain = if came { 0 } else { (self.vain.load(Ordering::Relaxed) + 1).min(MOST_VAIN) };
            self.vain.store(vain, Ordering::Relaxed);
            self.left_out.store((1 << vain) - 1, Ordering::Relaxed);
        }
        came
    }
}

fn watch(news: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            std::hint::spin_loop();
            if news() {
                return true;
            }
        }
        if start.elapsed() >= PATIENCE {
            return false;
        }
    }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(threads::available_cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn who_shares_a_core_moves_now_and_then() {
        let (spin, moves, clock) = (Spin::that_moves(), Moves::new(), Cell::new(1 << 40));
        let ask = |spin: &Spin, cores| spin.is_to_move(&moves, cores, || clock.get());
        let at: Vec<u32> = (1..=3 * SHARED).filter(|_| ask(&spin, 2)).collect();
        assert_eq!(at, [SHARED], "and not again within the pause");
        let asks = |spin: &Spin| (0..SHARED).any(|_| ask(spin, 2));
        let mut pause = PAUSE.as_nanos() as u64;
        // Without success: the pause that has begun stays, the next ones are longer.
        for _ in 0..12 {
            moves.done(false);
            clock.set(clock.get() + pause - 1);
            assert!(!asks(&spin));
            clock.set(clock.get() + 1);
            assert!(asks(&spin));
            pause = (pause * 2).min(LONGEST_PAUSE.as_nanos() as u64);
        }
        moves.done(true);
        clock.set(clock.get() + pause);
        assert!(asks(&spin));
        clock.set(clock.get() + PAUSE.as_nanos() as u64);
        assert!(asks(&spin), "it pays again");
        clock.set(clock.get() + LONGEST_PAUSE.as_nanos() as u64);
        assert!(!(0..SHARED).any(|_| ask(&spin, 1)), "there is one core");
        assert!(!asks(&Spin::default()), "not everybody may");
    }

    #[test]
    fn patience_is_lost_by_degrees_and_regained_at_once() {
        let (spin, patient) = (Spin::default(), AtomicUsize::new(0));
        // How often it looks for news that never come.
        let looks = |spin: &Spin, cores| {
            let asked = Cell::new(0u32);
            let news = || {
                asked.set(asked.get() + 1);
                false
            };
            assert!(!spin.until_within(&patient, cores, news));
            asked.get()
        };
        let at: Vec<usize> = (0..12).filter(|_| looks(&spin, 2) > 1).collect();
        assert_eq!(at, [0, 2, 6], "then after 7 more");
        while spin.left_out.load(Ordering::Relaxed) > 0 {
            looks(&spin, 2);
        }
        let asked = Cell::new(0);
        assert!(spin.until_within(&patient, 2, || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        }));
        assert!(looks(&spin, 2) > 1);
        assert_eq!(patient.load(Ordering::Relaxed), 0);
        assert_eq!(looks(&Spin::default(), 1), 1, "the only core is needed by whoever is waited for");
        patient.store(2, Ordering::Relaxed);
        assert_eq!(looks(&Spin::default(), 2), 1, "two are patient already");
        patient.store(0, Ordering::Relaxed);
        // Whoever brings news from the core that one waits on needs it. The test may be moved to another one
        // in between, but not always.
        let here = |spin: &Spin| {
            spin.brought();
            looks(spin, 2)
        };
        assert!((0..1000).any(|_| here(&Spin::default()) == 1), "it shares the core with itself");
        let spin = Spin::default();
        spin.brought_by(core().wrapping_add(1 << 20));
        assert!(looks(&spin, 2) > 1, "another core");
    }
}
