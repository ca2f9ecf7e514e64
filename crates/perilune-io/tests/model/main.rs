//! Model checks: every interleaving of a few threads, within a bound on preemptions. Here the slot: those who
//! wait, the poller and whoever takes a wait back. `leases.rs`: who waits for descriptors.
//!
//! `src/slot.rs` and `src/lease.rs` are compiled here a second time, with loom's primitives.

#![allow(dead_code, missing_docs)]

#[path = "../../src/lease.rs"]
mod lease;
mod leases;
#[path = "../../src/slot.rs"]
mod slot;
mod sync {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Arc, Condvar};
    pub use loom::sync::{Mutex, MutexGuard};

    loom::thread_local! {
        static ME: Thread = Thread::default();
    }

    /// What wakes a thread that parks. Loom's own would also wake one that waits for a lock, and then be
    /// forgotten.
    #[derive(Clone, Default)]
    pub struct Thread(Arc<(Mutex<bool>, Condvar)>);

    impl Thread {
        pub fn unpark(&self) {
            *lock(&self.0.0) = true;
            self.0.1.notify_one();
        }
    }

    pub fn current() -> Thread {
        ME.with(Thread::clone)
    }

    pub fn park() {
        let Thread(me) = current();
        let mut told = lock(&me.0);
        while !*told {
            told = me.1.wait(told).unwrap();
        }
        *told = false;
    }

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Others go on, for as long as it may be.
    pub fn park_for(_: std::time::Duration) {
        loom::thread::yield_now();
    }
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use slot::{Slot, Wake, Wakes};

/// A wait that ends once.
#[derive(Clone)]
struct Waiter(Arc<AtomicBool>);

impl Waiter {
    fn new() -> Waiter {
        Waiter(Arc::new(AtomicBool::new(false)))
    }
    fn is_woken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Waiter {
    fn wake(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

fn explore(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_duration = Some(std::time::Duration::from_secs(30));
    model.check(f);
}

/// The kernel's side: bytes come, and the poller is told.
fn arrive(bytes: &AtomicUsize, slot: &Slot<Waiter>) {
    bytes.fetch_add(1, Ordering::AcqRel);
    slot.raise(false, Wakes::One);
}

fn take(bytes: &AtomicUsize) -> bool {
    let there = bytes.load(Ordering::Acquire);
    there > 0 && bytes.compare_exchange(there, there - 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[test]
fn a_reader_that_sleeps_is_woken() {
    explore(|| {
        let slot = Arc::new(Slot::<Waiter>::default());
        let bytes = Arc::new(AtomicUsize::new(0));
        let (s, b) = (slot.clone(), bytes.clone());
        let poller = thread::spawn(move || arrive(&b, &s));
        let mut slept = None;
        loop {
            slot.clear();
            if take(&bytes) {
                break;
            }
            let waiter = Waiter::new();
            if slot.leave(waiter.clone()).is_ok() {
                slept = Some(waiter);
                break;
            }
        }
        poller.join().unwrap();
        if let Some(waiter) = slept {
            assert!(waiter.is_woken(), "the edge was missed");
            assert!(take(&bytes));
        }
    });
}

/// A wait that is taken back (a timeout, a cancellation) swallows no wake that another one needs: who has
/// been woken in vain passes it on.
#[test]
fn a_wake_that_came_too_late_for_one_reaches_the_next() {
    explore(|| {
        let slot = Arc::new(Slot::<Waiter>::default());
        let (first, second) = (Waiter::new(), Waiter::new());
        let left = slot.leave(first.clone()).ok().unwrap();
        assert!(slot.leave(second.clone()).is_ok());
        let s = slot.clone();
        let poller = thread::spawn(move || s.raise(false, Wakes::One));
        // The first one's time is over.
        let ended_by_poller = !first.wake();
        slot.take_back(left);
        if ended_by_poller {
            slot.wake(Wakes::One);
        }
        poller.join().unwrap();
        assert!(second.is_woken());
    });
}

/// What could not be written is written by whoever sees that it can be: the writer again, or the poller.
#[test]
fn a_backlog_is_done_by_somebody() {
    explore(|| {
        let slot = Arc::new(Slot::<Waiter>::default());
        let room = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let (s, r, d) = (slot.clone(), room.clone(), done.clone());
        let poller = thread::spawn(move || {
            r.fetch_add(1, Ordering::AcqRel);
            s.raise(false, Wakes::All);
            if s.take_backlog() {
                d.fetch_add(1, Ordering::AcqRel);
            }
        });
        loop {
            slot.clear();
            if take(&room) {
                done.fetch_add(1, Ordering::AcqRel);
                break;
            }
            if slot.set_backlog() {
                break;
            }
        }
        poller.join().unwrap();
        assert!(done.load(Ordering::Acquire) >= 1);
    });
}
