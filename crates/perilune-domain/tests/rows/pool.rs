//! A pool of domains without Lua: what the pump does with the scheduler's parts, written out as small as it
//! can be.
//!
//! A task is a closure that runs until it is done or has parked; after its wait it is called again and looks
//! at what it waited for, as a native function is in the machine. What belongs to a domain is behind a lock
//! that is only ever *tried*: two owners at once would be a panic.

use perilune_domain::sched::ownership::Activate;
use perilune_domain::sched::{
    Lanes, Next, Owned, Ownership, Queue, Quiescence, Seat, Sleeper, WaitList, Waiter, threads,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

#[derive(PartialEq, Eq)]
pub enum Step {
    Done,
    Parked,
}

pub type Task = Box<dyn FnMut(&Ctx) -> Step + Send>;

pub fn task(mut f: impl FnMut(&Ctx) -> Step + Send + 'static) -> Task {
    Box::new(move |ctx| f(ctx))
}

/// A task that never parks.
pub fn simple(f: impl FnOnce(&Ctx) + Send + 'static) -> Task {
    let mut f = Some(f);
    Box::new(move |ctx| {
        f.take().expect("a done task is not called again")(ctx);
        Step::Done
    })
}

pub struct Pool {
    pub queue: Arc<Queue<Task>>,
    pub domains: Vec<Arc<Domain>>,
    pub quiescence: Arc<Quiescence>,
}

pub struct Domain {
    pub ownership: Ownership<usize>,
    waits: Arc<WaitList>,
    inside: Mutex<Inside>,
}

/// What only the owner touches.
struct Inside {
    seat: Seat<Task>,
    fibers: Vec<Fiber>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Fiber {
    task: Option<Task>,
    wait: Option<u32>,
}

/// What a running task knows of its place.
pub struct Ctx<'a> {
    pub domain: &'a Arc<Domain>,
    pub fiber: usize,
    owned: Cell<Option<Owned>>,
}

impl Pool {
    pub fn new(workers: usize) -> Pool {
        Pool::with_report(workers, |waits| panic!("no deadlock expected: {waits:?}"))
    }

    pub fn with_report(workers: usize, report: impl Fn(&[Arc<Waiter>]) + Send + Sync + 'static) -> Pool {
        let quiescence = Quiescence::new(Box::new(report));
        let domains: Arc<OnceLock<Vec<Weak<Domain>>>> = Arc::new(OnceLock::new());
        let list = domains.clone();
        let (queue, seats) = Queue::new(
            workers,
            Box::new(move |worker| {
                if let Some(domain) = list.get().and_then(|d| d[worker].upgrade()) {
                    domain.ownership.poke();
                }
            }),
        );
        let made: Vec<Arc<Domain>> = seats.into_iter().map(|seat| Domain::new(&quiescence, seat)).collect();
        let _ = domains.set(made.iter().map(Arc::downgrade).collect());
        for domain in &made {
            // Born idle, so the seat is settled by hand.
            assert!(domain.inside().seat.settle());
        }
        Pool { queue, domains: made, quiescence }
    }

    pub fn spawn(&self, task: Task) {
        assert!(self.queue.inject(task).is_ok(), "the pool is open");
    }
}

impl Drop for Pool {
    /// Waits until no thread has a domain any more.
    fn drop(&mut self) {
        self.queue.close();
        while self.domains.iter().any(|d| d.ownership.is_owned()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Domain {
    fn new(quiescence: &Arc<Quiescence>, seat: Seat<Task>) -> Arc<Domain> {
        let waits = WaitList::new();
        quiescence.register(&waits);
        Arc::new_cyclic(|me: &Weak<Domain>| {
            let me = me.clone();
            let activate: Activate = Box::new(move || {
                if let Some(domain) = me.upgrade() {
                    threads::run(domain);
                }
            });
            Domain {
                ownership: Ownership::new(quiescence.clone(), activate),
                waits,
                inside: Mutex::new(Inside { seat, fibers: Vec::new(), free: Vec::new() }),
            }
        })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.try_lock().expect("a domain has one owner")
    }

    fn run_fiber(self: &Arc<Self>, fiber: usize, owned: Owned) -> Owned {
        let taken = {
            let mut inside = self.inside();
            if let Some(slot) = inside.fibers[fiber].wait.take() {
                self.waits.remove(slot);
            }
            inside.fibers[fiber].task.take()
        };
        let mut task = taken.expect("a ready fiber has a task");
        let ctx = Ctx { domain: self, fiber, owned: Cell::new(Some(owned)) };
        let step = task(&ctx);
        let mut inside = self.inside();
        match step {
            Step::Parked => inside.fibers[fiber].task = Some(task),
            Step::Done => inside.free.push(fiber),
        }
        ctx.owned.take().expect("put back after each blocking call")
    }
}

impl Inside {
    fn add(&mut self, task: Task) -> usize {
        let fiber = Fiber { task: Some(task), wait: None };
        match self.free.pop() {
            Some(at) => {
                self.fibers[at] = fiber;
                at
            }
            None => {
                self.fibers.push(fiber);
                self.fibers.len() - 1
            }
        }
    }
}

impl threads::Job for Domain {
    fn run(self: Arc<Self>) {
        let Some(mut owned) = self.ownership.begin() else { return };
        loop {
            match self.ownership.next(&mut owned) {
                Next::Fiber(fiber) => {
                    self.inside().seat.busy();
                    owned = self.run_fiber(fiber, owned);
                }
                Next::HandOver => return self.ownership.hand_over(owned),
                Next::Empty => {
                    let mut inside = self.inside();
                    if let Some(task) = inside.seat.take() {
                        let fiber = inside.add(task);
                        drop(inside);
                        owned = self.run_fiber(fiber, owned);
                        continue;
                    }
                    let quiet = inside.seat.settle();
                    drop(inside);
                    if quiet {
                        match self.ownership.try_leave(owned) {
                            Ok(()) => return,
                            Err(back) => owned = back,
                        }
                    }
                }
            }
        }
    }
}

impl Ctx<'_> {
    /// A call that may block the thread.
    pub fn blocking<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.domain.inside().seat.lend() {
            self.domain.ownership.poke();
        }
        self.domain.ownership.detach(self.owned.take().expect("the fiber's"));
        let result = f();
        self.owned.set(self.domain.ownership.attach());
        self.domain.inside().seat.busy();
        result
    }

    pub fn spawn(&self, task: Task) {
        assert!(self.domain.inside().seat.push(task).is_ok(), "the pool is open");
    }

    /// A wait of this fiber; the caller leaves it with its sources, then parks.
    pub fn waiter(&self, what: &str) -> Arc<Waiter> {
        let waiter: Arc<Waiter> = Waiter::new(FiberSleeper {
            domain: Arc::downgrade(self.domain),
            fiber: self.fiber,
            what: format!("fiber {} waits for {what}", self.fiber),
        });
        let slot = self.domain.waits.add(waiter.clone());
        let before = self.domain.inside().fibers[self.fiber].wait.replace(slot);
        if let Some(before) = before {
            self.domain.waits.remove(before);
        }
        waiter
    }
}

struct FiberSleeper {
    domain: Weak<Domain>,
    fiber: usize,
    what: String,
}

impl Sleeper for FiberSleeper {
    fn rouse(&self, _: perilune_domain::sched::Reason) {
        if let Some(domain) = self.domain.upgrade() {
            let _ = domain.ownership.post(self.fiber);
        }
    }

    fn describe(&self) -> String {
        self.what.clone()
    }
}

/// An unbounded channel.
pub struct Channel<T> {
    name: String,
    state: Mutex<(VecDeque<T>, VecDeque<Arc<Waiter>>)>,
}

impl<T> Channel<T> {
    pub fn new(name: &str) -> Arc<Channel<T>> {
        Arc::new(Channel { name: name.into(), state: Mutex::new((VecDeque::new(), VecDeque::new())) })
    }

    pub fn send(&self, value: T) {
        let mut state = self.state.lock().unwrap();
        state.0.push_back(value);
        while let Some(waiter) = state.1.pop_front() {
            if let Some(claim) = waiter.claim(perilune_domain::sched::Reason::Ready, 0) {
                drop(state); // nobody is roused under a lock
                drop(claim);
                return;
            }
        }
    }

    /// None: the fiber must park, and ask again when it is called.
    pub fn recv(&self, ctx: &Ctx) -> Option<T> {
        loop {
            let waiter = {
                let mut state = self.state.lock().unwrap();
                if let Some(value) = state.0.pop_front() {
                    return Some(value);
                }
                let waiter = ctx.waiter(&self.name);
                state.1.push_back(waiter.clone());
                waiter
            };
            if waiter.sleep() {
                return None;
            }
        }
    }
}

/// Events of one key, handled by tasks of the pool.
pub struct Handler<E> {
    pub lanes: Lanes<u32, E>,
    handle: Box<dyn Fn(u32, E) + Send + Sync>,
}

impl<E: Send + 'static> Handler<E> {
    pub fn new(handle: impl Fn(u32, E) + Send + Sync + 'static) -> Arc<Handler<E>> {
        Arc::new(Handler { lanes: Lanes::new(), handle: Box::new(handle) })
    }

    pub fn event(self: &Arc<Self>, pool: &Pool, key: u32, event: E) {
        if self.lanes.push(key, event) {
            pool.spawn(self.turn(key));
        }
    }

    /// One event, then the end of the queue: other tasks come between.
    fn turn(self: &Arc<Self>, key: u32) -> Task {
        let me = self.clone();
        simple(move |ctx| {
            if let Some(event) = me.lanes.next(&key) {
                (me.handle)(key, event);
                ctx.spawn(me.turn(key));
            }
        })
    }
}
