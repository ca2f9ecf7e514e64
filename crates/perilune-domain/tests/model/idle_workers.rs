//! While a task is queued and a worker idle, somebody has been told.

use super::explore;
use super::sched::idle_workers::IdleWorkers;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

/// Two workers, the queues as a counter, and how often each worker has been poked.
struct Pool {
    idle_workers: IdleWorkers,
    tasks: AtomicUsize,
    pokes: [AtomicUsize; 2],
    taken: Mutex<usize>,
}

impl Pool {
    fn new() -> Arc<Pool> {
        Arc::new(Pool {
            idle_workers: IdleWorkers::new(),
            tasks: AtomicUsize::new(0),
            pokes: [AtomicUsize::new(0), AtomicUsize::new(0)],
            taken: Mutex::new(0),
        })
    }

    fn queue(&self) {
        // As weak as the deques are: the fences of `idle_workers.rs` must do.
        self.tasks.fetch_add(1, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if let Some(worker) = self.idle_workers.ring() {
            self.pokes[worker].fetch_add(1, Ordering::SeqCst);
        }
    }

    fn has_tasks(&self) -> bool {
        self.tasks.load(Ordering::Relaxed) > 0
    }

    fn take(&self) -> bool {
        let taken =
            self.tasks.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok();
        if taken {
            *self.taken.lock().unwrap() += 1;
        }
        taken
    }

    fn rise(&self, worker: usize) {
        self.idle_workers.rise(worker);
        if self.has_tasks() {
            self.ring();
        }
    }

    /// Works until it settles with nothing queued.
    fn work(&self, worker: usize) {
        loop {
            while self.take() {}
            self.idle_workers.settle(worker);
            if !self.has_tasks() {
                return;
            }
            self.rise(worker);
        }
    }
}

#[test]
fn a_task_meets_a_settling_worker() {
    explore(3, || {
        let pool = Pool::new();
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || pool.work(0))
        };
        pool.queue();
        worker.join().unwrap();
        let left = pool.tasks.load(Ordering::SeqCst);
        assert!(left == 0 || pool.pokes[0].load(Ordering::SeqCst) == 1, "{left} left and nobody told");
    });
}

/// The first task wakes a searcher; the second is queued while it searches, and must not be forgotten when it
/// has other things to do.
#[test]
fn a_searcher_that_does_something_else_passes_the_call_on() {
    explore(3, || {
        let pool = Pool::new();
        pool.idle_workers.settle(0);
        pool.idle_workers.settle(1);
        pool.queue();
        assert_eq!(pool.pokes[1].load(Ordering::SeqCst), 1);
        let called = {
            let pool = pool.clone();
            thread::spawn(move || {
                // Worker 1, woken, finds one task, and is busy with it for ever.
                if pool.take() {
                    pool.rise(1);
                }
            })
        };
        pool.queue();
        called.join().unwrap();
        let left = pool.tasks.load(Ordering::SeqCst);
        assert!(left == 0 || pool.pokes[0].load(Ordering::SeqCst) == 1, "{left} left, worker 0 sleeps");
    });
}

#[test]
fn each_worker_is_called_at_most_once_each_time_it_settles() {
    explore(3, || {
        let pool = Pool::new();
        pool.idle_workers.settle(0);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.queue())
        };
        pool.queue();
        other.join().unwrap();
        assert_eq!(pool.pokes[0].load(Ordering::SeqCst), 1);
    });
}
