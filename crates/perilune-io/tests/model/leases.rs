//! The lease: a worker that waits for events, the poller's thread, and one who gives the worker a job.
//!
//! The kernel's set is a lock, a level-triggered bell and a count of edges. A sleeper that is never woken is
//! a deadlock of the model, which loom reports. Times do not pass here, so a call that is lost is lost for
//! ever.

use super::explore;
use super::lease::{Bell, Lease, To};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

#[derive(Default)]
struct Set {
    sounds: bool,
    edges: u32,
    taken: u32,
}

/// The kernel's set.
struct Kernel {
    set: Mutex<Set>,
    changed: Condvar,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel { set: Mutex::new(Set::default()), changed: Condvar::new() }
    }

    fn edge(&self) {
        self.set.lock().unwrap().edges += 1;
        self.changed.notify_one();
    }

    /// Sleeps until there is an edge, which it takes, or the bell sounds.
    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !set.sounds && set.edges == 0 {
            set = self.changed.wait(set).unwrap();
        }
        set.taken += std::mem::take(&mut set.edges);
        if set.sounds {
            // Level-triggered: the next one is woken too.
            self.changed.notify_one();
        }
    }
}

impl Bell for Arc<Kernel> {
    fn ring(&self) {
        let mut set = self.set.lock().unwrap();
        assert!(!set.sounds, "rung twice");
        set.sounds = true;
        drop(set);
        self.changed.notify_one();
    }
    fn silence(&self) {
        let mut set = self.set.lock().unwrap();
        while !set.sounds {
            set = self.changed.wait(set).unwrap();
        }
        set.sounds = false;
    }
}

/// A worker's seat, as in `sched/threads.rs`.
#[derive(Default)]
struct Given {
    job: bool,
    idling: bool,
}

struct World {
    lease: Lease<Arc<Kernel>>,
    kernel: Arc<Kernel>,
    seat: Mutex<Given>,
    over: AtomicBool,
    /// To whom workers give the lease back.
    to: To,
}

impl World {
    fn new() -> Arc<World> {
        World::with(To::Anybody)
    }

    fn with(to: To) -> Arc<World> {
        let kernel = Arc::new(Kernel::new());
        let lease = Lease::new(Arc::clone(&kernel));
        Arc::new(World {
            lease,
            kernel,
            seat: Mutex::new(Given::default()),
            over: AtomicBool::new(false),
            to,
        })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// What `Poller::watch` does, until it is over.
    fn poll(&self) {
        self.lease.set_thread();
        while !self.is_over() {
            self.lease.wait();
            while self.lease.is_threads() && !self.is_over() {
                self.kernel.wait();
            }
        }
    }

    /// What `Seat::give` does.
    fn give(&self) {
        let mut given = self.seat.lock().unwrap();
        given.job = true;
        let idling = given.idling;
        drop(given);
        if idling {
            self.lease.call();
        }
    }

    /// What `Seat::wait` does, but that nobody retires. Who does not get the lease would sleep on the seat;
    /// here there is one worker.
    fn work(&self) {
        loop {
            let mut given = self.seat.lock().unwrap();
            if std::mem::take(&mut given.job) {
                return;
            }
            drop(given);
            assert!(self.lease.take(), "the only worker");
            let mut given = self.seat.lock().unwrap();
            if !given.job {
                given.idling = true;
                drop(given);
                self.kernel.wait();
                given = self.seat.lock().unwrap();
                given.idling = false;
            }
            drop(given);
            self.lease.give_back(self.to);
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.kernel.edge();
    }

    fn check(&self) {
        assert!(!self.kernel.set.lock().unwrap().sounds, "nobody is left who would silence the bell");
    }
}

/// The thread has the lease, an event comes, a worker takes the lease, and is given a job at any time.
#[test]
fn a_job_reaches_a_worker_in_the_kernels_set() {
    explore(|| {
        let world = World::new();
        let w = world.clone();
        let poller = thread::spawn(move || w.poll());
        let w = world.clone();
        let worker = thread::spawn(move || w.work());
        world.kernel.edge();
        world.give();
        worker.join().unwrap();
        world.end();
        poller.join().unwrap();
        world.check();
    });
}

/// The same without the thread: a job, and another one; each call is answered, none is left over.
#[test]
fn a_call_is_silenced_before_the_lease_goes_on() {
    explore(|| {
        let world = World::new();
        let w = world.clone();
        let worker = thread::spawn(move || {
            w.work();
            w.work();
        });
        world.give();
        // The first is taken before the second is given: a seat holds one.
        while world.seat.lock().unwrap().job {
            thread::yield_now();
        }
        world.give();
        worker.join().unwrap();
        world.check();
        assert!(world.lease.take());
    });
}

/// A worker gives the lease back, and an edge comes: the end.
fn leave_to_the_thread(world: Arc<World>) {
    assert!(world.lease.take());
    let w = world.clone();
    let poller = thread::spawn(move || w.poll());
    world.lease.give_back(world.to);
    world.end();
    poller.join().unwrap();
    world.check();
}

/// An edge that comes while nobody is in the set, and the worker computes, is the thread's.
#[test]
fn the_thread_gets_what_a_worker_leaves() {
    explore(|| {
        leave_to_the_thread(World::new());
    });
}

/// The same, and the thread is given it: it never has to find out that it is free.
#[test]
fn the_thread_gets_what_it_is_given() {
    explore(|| {
        leave_to_the_thread(World::with(To::Thread));
    });
}

/// A worker in the kernel's set is given a job, and the lease goes to the thread each time.
#[test]
fn a_job_reaches_a_worker_that_gives_the_lease_to_the_thread() {
    explore(|| {
        let world = World::with(To::Thread);
        let w = world.clone();
        let poller = thread::spawn(move || w.poll());
        let w = world.clone();
        let worker = thread::spawn(move || w.work());
        world.kernel.edge();
        world.give();
        worker.join().unwrap();
        assert!(world.lease.is_threads());
        world.end();
        poller.join().unwrap();
        world.check();
    });
}

/// A worker that is called by one who means the holder before it is woken in vain, and loses nothing.
#[test]
fn a_late_call_does_no_harm() {
    explore(|| {
        let world = World::new();
        let w = world.clone();
        let late = thread::spawn(move || w.lease.call());
        let w = world.clone();
        let worker = thread::spawn(move || w.work());
        world.give();
        worker.join().unwrap();
        late.join().unwrap();
        assert!(world.lease.take(), "free, or the thread's");
        world.lease.give_back(world.to);
        world.check();
    });
}
