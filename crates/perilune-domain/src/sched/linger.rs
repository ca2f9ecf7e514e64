//! A moment of patience before sleeping.
//!
//! To sleep and be woken costs two system calls and 5 to 50 us until the woken thread runs. Two domains that answer
//! each other at once, or a task that awaits a small one, would pay that for each message. So a thread that is about
//! to sleep looks a little longer whether there is news: then the other side finds a domain that is still owned, and
//! its wake is one atomic operation.
//!
//! In a program with little to do news seldom come in time, so patience adapts: each vain attempt doubles the number of
//! occasions on which it is not tried, up to 63; each success resets that. No more threads are patient at a time than
//! there are cores, and none where there is one core only, since whoever is waited for needs it.
//!
//! Where the one who waits and the one who is waited for share a core, patience is what keeps the news from coming. So whoever brings news to one that sleeps leaves the number of
//! its core ([`Linger::brought`]), and who waits on that core next time sleeps at once.
//!
//! *Rejected.* To give a shared core up (`sched_yield`) and look again: the other goes on, and finds no sleeper to wake, so that a worker that is handed tasks one by one finds many at once; on two cores
//! with a load of 24 that took 70 switches in place of 50,000 for 300,000 tasks, and a third of the time of processors. But whoever yields is behind everybody else for a slice, while one who sleeps is
//! woken at once: the same programs took three times as long by the clock. To spin in the queue of tasks only, as pools do: answers between domains and to the main program would remain slow.

use super::threads;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// About what a wake costs: then at most twice the best possible is spent.
const PATIENCE: Duration = Duration::from_micros(20);
/// Vain attempts are counted up to here; 2 to this power is the number of occasions left out.
const MOST_VAIN: u8 = 6;

/// How many threads are patient now.
static PATIENT: AtomicUsize = AtomicUsize::new(0);

/// The experience of one that waits.
#[derive(Default)]
pub struct Linger {
    vain: AtomicU8,
    left_out: AtomicU8,
    /// One more than the core where news came from last; 0: not known.
    other: AtomicU32,
}

/// One more than the number of the core that the calling thread runs on; 0: not known.
pub fn core() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::sched_getcpu() }.wrapping_add(1) as u32
}

impl Linger {
    /// Waits a moment for `news`. False: none came, or it was not tried.
    ///
    /// To be called by one thread at a time.
    pub fn until(&self, news: impl Fn() -> bool) -> bool {
        self.until_within(&PATIENT, cores(), news)
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
        let other = self.other.load(Ordering::Relaxed);
        if other != 0 && other == core() {
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
    fn patience_is_lost_by_degrees_and_regained_at_once() {
        let (linger, patient) = (Linger::default(), AtomicUsize::new(0));
        // How often it looks for news that never come.
        let looks = |linger: &Linger, cores| {
            let asked = Cell::new(0u32);
            let news = || {
                asked.set(asked.get() + 1);
                false
            };
            assert!(!linger.until_within(&patient, cores, news));
            asked.get()
        };
        let at: Vec<usize> = (0..12).filter(|_| looks(&linger, 2) > 1).collect();
        assert_eq!(at, [0, 2, 6], "then after 7 more");
        while linger.left_out.load(Ordering::Relaxed) > 0 {
            looks(&linger, 2);
        }
        let asked = Cell::new(0);
        assert!(linger.until_within(&patient, 2, || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        }));
        assert!(looks(&linger, 2) > 1);
        assert_eq!(patient.load(Ordering::Relaxed), 0);
        assert_eq!(looks(&Linger::default(), 1), 1, "the only core is needed by whoever is waited for");
        patient.store(2, Ordering::Relaxed);
        assert_eq!(looks(&Linger::default(), 2), 1, "two are patient already");
        patient.store(0, Ordering::Relaxed);
        // Whoever brings news from the core that one waits on needs it. The test may be moved to another one in between, but not always.
        let here = |linger: &Linger| {
            linger.brought();
            looks(linger, 2)
        };
        assert!((0..1000).any(|_| here(&Linger::default()) == 1), "it shares the core with itself");
        let linger = Linger::default();
        linger.brought_by(core().wrapping_add(1 << 20));
        assert!(looks(&linger, 2) > 1, "another core");
    }
}
