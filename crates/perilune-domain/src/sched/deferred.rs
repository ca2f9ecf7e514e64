//! What a domain has put off until it has nothing better to do: writing out what connections have gathered.
//!
//! A write to a socket costs microseconds however little it writes, so what belongs together should go
//! together. Whoever has gathered something leaves itself here. It is called when the domain has no ready
//! fiber, when its code is about to sleep or to block, between two fibers once the oldest entry is
//! [`LONGEST`] old, and at the end of the program. Nothing here interrupts code that computes.
//!
//! Rejected: a timer for each entry, which costs more than the write that it saves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between fibers, entries wait no longer.
pub const LONGEST: Duration = Duration::from_micros(100);

/// Something that can be put off. Called by any thread, at most once for each time it was left; it must not
/// wait.
pub trait Later: Send + Sync {
    /// The time has come.
    fn now(self: Arc<Self>);
}

/// A domain's list.
#[derive(Default)]
pub struct Deferred {
    /// Whether the list has entries, for those who only look. Changed under the lock.
    any: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    entries: Vec<Arc<dyn Later>>,
    since: Option<Instant>,
}

impl Deferred {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves something. True: the list was empty.
    pub fn add(&self, later: Arc<dyn Later>) -> bool {
        let mut list = self.lock();
        let first = list.entries.is_empty();
        if first {
            list.since = Some(Instant::now());
            self.any.store(true, Ordering::Release);
        }
        list.entries.push(later);
        first
    }

    /// Whether there is something to do. Costs a load.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether the oldest entry has waited for long enough.
    pub fn is_due(&self) -> bool {
        self.any() && self.lock().since.is_some_and(|since| since.elapsed() >= LONGEST)
    }

    /// Calls all entries. True: there were some.
    pub fn run(&self) -> bool {
        if !self.any() {
            return false;
        }
        let entries = {
            let mut list = self.lock();
            self.any.store(false, Ordering::Release);
            list.since = None;
            std::mem::take(&mut list.entries)
        };
        let some = !entries.is_empty();
        entries.into_iter().for_each(Later::now);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Count(AtomicUsize);
    impl Later for Count {
        fn now(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_entry_is_called_once() {
        let deferred = Deferred::default();
        assert!(!deferred.run() && !deferred.is_due());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        assert!(deferred.add(count.clone()));
        assert!(!deferred.add(count.clone()));
        std::thread::sleep(LONGEST);
        assert!(deferred.is_due() && deferred.run());
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(!deferred.any() && !deferred.run() && !deferred.is_due());
        assert!(deferred.add(count));
    }
}
