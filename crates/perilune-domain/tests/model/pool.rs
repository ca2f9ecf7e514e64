//! Ownership, idle workers and quiescence together: a pool whose tasks come from outside, and wake somebody
//! who waits.
//!
//! No alarm while a task is queued, on its way or running; an alarm if nothing is left that could end the
//! wait.

use super::explore;
use super::sched::idle_workers::IdleWorkers;
use super::sched::ownership::{Next, Ownership};
use super::sched::quiescence::{Quiescence, WaitList};
use super::sched::waiter::{Reason, Sleeper, Waiter};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::{Arc, OnceLock};

/// A pool of one worker; its tasks wake the waiter of their number.
struct Pool {
    quiescence: Arc<Quiescence>,
    reports: Arc<AtomicUsize>,
    idle_workers: IdleWorkers,
    tasks: Mutex<Vec<usize>>,
    /// How many there are, as weakly seen as the lengths of deques are.
    queued: AtomicUsize,
    ownership: Ownership<usize>,
    settled: Mutex<bool>,
    waiters: OnceLock<Vec<Arc<Waiter>>>,
    activations: Arc<(Mutex<(u32, bool)>, Condvar)>,
}

/// A fiber of another domain, reduced to its unit.
struct Parked(Arc<Quiescence>);

impl Sleeper for Parked {
    fn rouse(&self, _: Reason) {
        self.0.enter();
    }
    fn describe(&self) -> String {
        String::new()
    }
}

impl Pool {
    fn new() -> Arc<Pool> {
        let reports = Arc::new(AtomicUsize::new(0));
        let counter = reports.clone();
        let quiescence = Quiescence::new(Box::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        let activations = Arc::new((Mutex::new((0, false)), Condvar::new()));
        let asked = activations.clone();
        let activate = Box::new(move || {
            asked.0.lock().unwrap().0 += 1;
            asked.1.notify_one();
        });
        let pool = Pool {
            ownership: Ownership::new(quiescence.clone(), activate),
            quiescence,
            reports,
            idle_workers: IdleWorkers::new(),
            tasks: Mutex::new(Vec::new()),
            queued: AtomicUsize::new(0),
            settled: Mutex::new(true),
            waiters: OnceLock::new(),
            activations,
        };
        pool.idle_workers.settle(0);
        Arc::new(pool)
    }

    fn inject(&self, task: usize) {
        self.tasks.lock().unwrap().push(task);
        self.queued.fetch_add(1, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if self.idle_workers.ring().is_some() {
            self.ownership.poke();
        }
    }

    fn has_tasks(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > 0
    }

    fn busy(&self) {
        if std::mem::take(&mut *self.settled.lock().unwrap()) {
            self.idle_workers.rise(0);
            if self.has_tasks() {
                self.ring();
            }
        }
    }

    fn take(&self) -> Option<usize> {
        if !self.has_tasks() {
            return None;
        }
        let task = self.tasks.lock().unwrap().pop()?;
        self.queued.fetch_sub(1, Ordering::AcqRel);
        self.busy();
        Some(task)
    }

    fn settle(&self) -> bool {
        let mut settled = self.settled.lock().unwrap();
        if *settled {
            self.idle_workers.rise(0);
        }
        *settled = true;
        self.idle_workers.settle(0);
        !self.has_tasks()
    }

    fn pump(&self) {
        let Some(mut owned) = self.ownership.begin() else { return };
        loop {
            match self.ownership.next(&mut owned) {
                Next::Fiber(_) => self.busy(),
                Next::HandOver => return self.ownership.hand_over(owned),
                Next::Empty => match self.take() {
                    Some(task) => {
                        let waiter = self.waiters.get().and_then(|w| w.get(task));
                        if waiter.is_some_and(|w| w.wake(Reason::Ready)) {
                            self.quiescence.leave(); // the fiber's domain has run it and is idle again
                        }
                    }
                    None => {
                        if self.settle() {
                            match self.ownership.try_leave(owned) {
                                Ok(()) => return,
                                Err(back) => owned = back,
                            }
                        }
                    }
                },
            }
        }
    }

    fn worker(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let pool = self.clone();
        thread::spawn(move || {
            loop {
                let mut state = pool.activations.0.lock().unwrap();
                while state.0 == 0 {
                    if state.1 {
                        return;
                    }
                    state = pool.activations.1.wait(state).unwrap();
                }
                state.0 -= 1;
                drop(state);
                pool.pump();
            }
        })
    }

    fn end(&self) {
        self.activations.0.lock().unwrap().1 = true;
        self.activations.1.notify_all();
    }

    /// A wait that sleeps, known to the program.
    fn wait(&self, list: &WaitList) -> Arc<Waiter> {
        let waiter: Arc<Waiter> = Waiter::new(Parked(self.quiescence.clone()));
        list.add(waiter.clone());
        waiter
    }
}

#[test]
fn a_queued_task_is_something_that_can_happen() {
    explore(3, || {
        let pool = Pool::new();
        let list = WaitList::new();
        pool.quiescence.register(&list);
        pool.quiescence.enter();
        let waiters = vec![pool.wait(&list), pool.wait(&list)];
        assert!(pool.waiters.set(waiters.clone()).is_ok());
        let worker = pool.worker();
        for (task, waiter) in waiters.iter().enumerate() {
            assert!(waiter.sleep());
            pool.inject(task);
        }
        pool.quiescence.leave(); // the one who queued both is gone: the tasks must still count
        pool.end();
        worker.join().unwrap();
        assert_eq!(pool.reports.load(Ordering::SeqCst), 0);
        for waiter in &waiters {
            assert_eq!(waiter.woken(), Some((Reason::Ready, 0)));
        }
        assert_eq!(pool.quiescence.units(), 0);
    });
}

#[test]
fn a_task_that_wakes_nobody_leaves_a_deadlock_that_is_found() {
    explore(3, || {
        let pool = Pool::new();
        let list = WaitList::new();
        pool.quiescence.register(&list);
        pool.quiescence.enter();
        let waiter = pool.wait(&list);
        let worker = pool.worker();
        pool.inject(99);
        assert!(waiter.sleep());
        pool.quiescence.leave();
        pool.end();
        worker.join().unwrap();
        assert_eq!(pool.reports.load(Ordering::SeqCst), 1);
        assert_eq!(waiter.woken(), Some((Reason::Deadlock, 0)));
        assert_eq!(pool.quiescence.units(), 1);
    });
}
