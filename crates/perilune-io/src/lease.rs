//! Who waits for descriptors: the poller's own thread, or, if the program is run so (`PERILUNE_IO_POLL=lease`), a worker thread that has nothing else to do.
//!
//! A thread that hands an event over to another one pays two switches. A worker that waits for events itself runs the fiber that an event has made ready, and goes back to
//! waiting: no switch at all. So a worker that becomes idle takes the *lease* and sleeps in the kernel's set instead of on its seat (`sched/threads.rs`). While it runs what it has found,
//! nobody waits for events; if that takes long, the poller's thread does.
//!
//! # Who has it
//! *free*, a *worker*, or the *thread*. A worker takes it from anybody but another worker; the thread takes it when it has been free and untouched for a [`TICK`].
//!
//! # The thread
//! It is in one of three places:
//!
//! 1. in the kernel's set, when it has the lease; it stays there from event to event until it finds that a worker has taken the lease;
//! 2. ticking, while the lease goes round: it looks once in a tick whether anybody has touched it since;
//! 3. asleep, when a worker has had the lease for a whole tick. Then the worker sleeps in the kernel, and wakes the thread when it gives the lease back: a word that the thread sets before it
//!    looks at the lease, and the worker looks at after it has changed it, so one of them sees the other.
//!
//! So an event waits two ticks at most, and an idle program makes no wakeups: in the end the worker retires, the thread takes the lease, and sleeps in the kernel.
//!
//! Nothing depends on there being one holder: two threads in the kernel's set get an event each. After a worker has taken the lease from the thread, both are there until the next event.
//!
//! # Being kicked
//! A worker in the kernel's set may be given a job by another thread. An event descriptor in the set wakes it; it is level-triggered, and only the holder empties it, so if the thread is
//! woken by it the holder still is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How long the lease may be free and untouched.
const TICK: Duration = Duration::from_millis(1);

const FREE: u32 = 0;
const WORKER: u32 = 1;
const THREAD: u32 = 2;

/// See the module's essay.
pub struct Lease {
    holder: AtomicU32,
    /// How often it has changed hands.
    changes: AtomicU32,
    /// The thread sleeps until it is given back.
    watched: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Lease {
    /// The thread has it.
    pub fn new() -> Lease {
        Lease {
            holder: AtomicU32::new(THREAD),
            changes: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// The calling thread is the poller's.
    pub fn set_thread(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker takes it. False: another one has it.
    pub fn take(&self) -> bool {
        let taken = self
            .holder
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |holder| (holder != WORKER).then_some(WORKER))
            .is_ok();
        if taken {
            self.changed();
        }
        taken
    }

    /// The worker gives it back.
    pub fn give_back(&self) {
        self.holder.store(FREE, Ordering::SeqCst);
        self.changed();
        if self.watched.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Whether the thread has it still.
    pub fn is_threads(&self) -> bool {
        self.holder.load(Ordering::SeqCst) == THREAD
    }

    /// The thread comes back when it has the lease.
    pub fn wait(&self) {
        while !self.is_threads() {
            let seen = self.changes.load(Ordering::SeqCst);
            std::thread::park_timeout(TICK);
            if self.changes.load(Ordering::SeqCst) != seen {
                continue;
            }
            if self.holder.compare_exchange(FREE, THREAD, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                self.changed();
                return;
            }
            self.watched.store(true, Ordering::SeqCst);
            while self.holder.load(Ordering::SeqCst) == WORKER && self.watched.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.watched.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    #[test]
    fn a_worker_takes_it_from_anybody_but_another_worker() {
        let lease = Lease::new();
        assert!(lease.is_threads() && lease.take());
        assert!(!lease.is_threads() && !lease.take());
        lease.give_back();
        assert!(lease.take());
    }

    /// However workers take it and give it back, the thread has it in the end.
    #[test]
    fn the_thread_gets_it_when_nobody_else_wants_it() {
        let lease = Arc::new(Lease::new());
        assert!(lease.take());
        let (got, gets) = mpsc::channel();
        let thread = std::thread::spawn({
            let lease = Arc::clone(&lease);
            move || {
                lease.set_thread();
                for _ in 0..50 {
                    lease.wait();
                    got.send(()).unwrap();
                    while lease.is_threads() {
                        std::thread::yield_now();
                    }
                }
            }
        });
        for round in 0..50 {
            if round > 0 {
                assert!(lease.take());
            }
            for _ in 0..round % 7 {
                // Short, and long enough for the thread to fall asleep.
                std::thread::sleep(Duration::from_micros(700 * (round % 5)));
                lease.give_back();
                assert!(lease.take());
            }
            lease.give_back();
            gets.recv_timeout(Duration::from_secs(30)).expect("the thread has got it");
        }
        assert!(lease.take());
        thread.join().unwrap();
    }
}
