//! How quick a device takes what is written, for file systems that cannot say whether a write would wait.
//!
//! A write there goes to the system's memory nearly always, and then a helper's hand-over costs ten times the
//! write. Seldom it waits for the disk, and then all fibers of the domain would wait with it. Which of the
//! two it will be nobody knows before. So the past decides: a device is *trusted* while its writes are quick,
//! and then its bytes are written at once. For each millisecond that a write has taken, [`FOR_EACH`] others
//! have to be quick before it is trusted again; helpers make these. So a disk that stalls again and again
//! stops a program that writes without pause for a small part of its time only, and a thread that merely lost
//! its processor in the middle of a write costs it a few hand-overs.
//!
//! A write that has not come back says something, too: while one is overdue, everybody else goes to the
//! helpers.
//!
//! Rejected: to count the switches of the thread (`getrusage`), which would tell a disk from a processor that
//! others have; it costs a fifth of a write, each time.

use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A write that takes longer is slow.
const SLOW: Duration = Duration::from_millis(1);
/// So many quick writes make good a millisecond of a slow one.
const FOR_EACH: u32 = 4;
/// At most.
const MOST: u32 = 4000;
/// A device that nobody knows has to be quick so many times.
const AT_FIRST: u32 = 2;
/// A write of more is never made at once.
pub const LARGEST: usize = 256 << 10;

/// How a device has taken writes lately.
pub struct Pace {
    /// So many writes have to be quick before it is trusted.
    wary: AtomicU32,
    /// Writes that are being made at once.
    under_way: AtomicU32,
    /// When one of them began that was alone, or ended.
    moved: AtomicU64,
}

/// Of devices; there are few, and none is forgotten.
static DEVICES: Mutex<Vec<(u64, &'static Pace)>> = Mutex::new(Vec::new());
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds of [`Pace::moved`].
fn nanos(at: Instant) -> u64 {
    at.saturating_duration_since(*EPOCH).as_nanos() as u64
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new()
    }
}

impl Pace {
    /// Of a device that nobody knows.
    pub const fn new() -> Pace {
        Pace { wary: AtomicU32::new(AT_FIRST), under_way: AtomicU32::new(0), moved: AtomicU64::new(0) }
    }

    /// Of a device that was quick.
    #[cfg(test)]
    pub fn trusted() -> Pace {
        let pace = Pace::new();
        (0..AT_FIRST).for_each(|_| pace.note(Duration::ZERO));
        pace
    }

    /// Of the device that has this file.
    pub fn of(fd: BorrowedFd<'_>) -> &'static Pace {
        Pace::of_device(rustix::fs::fstat(fd).map_or(u64::MAX, |status| status.st_dev))
    }

    /// Of the device with this number.
    pub fn of_device(device: u64) -> &'static Pace {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pace)) = devices.iter().find(|(known, _)| *known == device) {
            return pace;
        }
        let pace: &'static Pace = Box::leak(Box::new(Pace::new()));
        devices.push((device, pace));
        pace
    }

    /// Whether writes are made at once.
    pub fn is_trusted(&self) -> bool {
        self.wary.load(Ordering::Relaxed) == 0
    }

    /// Makes a write at once, if that can be expected to be quick.
    pub fn at_once<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        self.at_once_by(Instant::now, write)
    }

    /// The same by a clock.
    fn at_once_by<T>(&self, clock: impl Fn() -> Instant, write: impl FnOnce() -> T) -> Option<T> {
        if !self.is_trusted() {
            return None;
        }
        let began = clock();
        if self.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            self.moved.store(nanos(began), Ordering::Relaxed);
        }
        let waited = nanos(began).saturating_sub(self.moved.load(Ordering::Relaxed));
        let result = (waited <= SLOW.as_nanos() as u64).then(write);
        if result.is_some() {
            let ended = clock();
            self.moved.store(nanos(ended), Ordering::Relaxed);
            self.note(ended.saturating_duration_since(began));
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Makes a write that may take its time.
    pub fn patiently<T>(&self, write: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = write();
        self.note(began.elapsed());
        result
    }

    /// A write has taken so long.
    fn note(&self, span: Duration) {
        if span <= SLOW {
            if !self.is_trusted() {
                // Of two at once that see the same number the count of one may be lost.
                let wary = self.wary.load(Ordering::Relaxed);
                let _ = self.wary.compare_exchange(
                    wary,
                    wary.saturating_sub(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            return;
        }
        let millis = u32::try_from(span.as_millis()).unwrap_or(MOST);
        self.wary.fetch_max(millis.saturating_mul(FOR_EACH).min(MOST), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that tests move.
    struct Clock {
        start: Instant,
        since: Cell<Duration>,
    }

    impl Clock {
        fn new() -> Clock {
            // What is before the epoch is all the same.
            Clock { start: *EPOCH, since: Cell::new(Duration::ZERO) }
        }
        fn now(&self) -> Instant {
            self.start + self.since.get()
        }
        fn pass(&self, span: Duration) {
            self.since.set(self.since.get() + span);
        }
        /// Has `pace` make a write that takes so long; whether it did.
        fn write(&self, pace: &Pace, span: Duration) -> bool {
            pace.at_once_by(|| self.now(), || self.pass(span)).is_some()
        }
    }

    const QUICK: Duration = Duration::from_micros(3);

    #[test]
    fn a_device_is_trusted_when_it_has_been_quick() {
        let (pace, clock) = (Pace::new(), Clock::new());
        for _ in 0..AT_FIRST {
            assert!(!clock.write(&pace, QUICK));
            pace.note(QUICK);
        }
        for _ in 0..100 {
            assert!(clock.write(&pace, QUICK));
        }
    }

    #[test]
    fn a_slow_write_has_to_be_made_good() {
        let (pace, clock) = (Pace::trusted(), Clock::new());
        assert!(clock.write(&pace, Duration::from_millis(25)));
        for _ in 0..25 * FOR_EACH {
            assert!(!clock.write(&pace, QUICK));
            pace.note(QUICK);
        }
        assert!(clock.write(&pace, QUICK));
        // A helper's counts as well, and one that lasts long for no more than the most.
        pace.note(Duration::from_secs(3600));
        for _ in 0..MOST {
            assert!(!pace.is_trusted());
            pace.note(QUICK);
        }
        assert!(pace.is_trusted());
    }

    #[test]
    fn one_that_is_overdue_sends_the_others_away() {
        let (pace, clock) = (Pace::trusted(), Clock::new());
        pace.at_once_by(
            || clock.now(),
            || {
                assert!(clock.write(&pace, QUICK), "another one, at the same time");
                clock.pass(SLOW + QUICK);
                assert!(!clock.write(&pace, QUICK), "the first one hangs");
            },
        );
        assert!(!pace.is_trusted(), "it was slow");
        (0..MOST).for_each(|_| pace.note(QUICK));
        clock.pass(Duration::from_secs(5));
        assert!(clock.write(&pace, QUICK), "none is under way");
    }

    #[test]
    fn files_of_one_device_share_what_is_known() {
        let file = |name: &str| std::fs::File::open(name).expect("it is there");
        let (one, other) =
            (file(env!("CARGO_MANIFEST_DIR")), file(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
        use rustix::fd::AsFd;
        assert!(std::ptr::eq(Pace::of(one.as_fd()), Pace::of(other.as_fd())));
        assert!(!std::ptr::eq(Pace::of(one.as_fd()), Pace::of(file("/proc/self/status").as_fd())));
    }
}
