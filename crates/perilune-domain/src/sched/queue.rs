//! The tasks of a pool of workers: who takes which, and who is told.
//!
//! Each worker has a *seat*: a double-ended queue whose owner pushes and pops at one end (last in, first out:
//! what was just queued is warm, and a divided problem stays small in memory), while others steal at the
//! other (the oldest: the largest part of a divided problem). A queue beside them, first in, first out, takes
//! tasks from outside the pool. A worker looks into its own, now and then first into the common one so that
//! it is never starved, then steals, starting at a random victim.
//!
//! A seat belongs to a worker's domain and is used by whoever owns that; it is not tied to a thread.
//!
//! # Priorities
//!
//! Tasks of high and of low [`Priority`] lie in two common queues of their own, whoever queued them, each
//! first in, first out. A worker takes high ones before all others and low ones when there is nothing else.
//! So that nobody starves whoever else is busy, it looks the other way round now and then: of [`HIGH_TURNS`]
//! tasks that it takes one comes from the others, and of [`LOW_TURNS`] one is a low one, as long as there are
//! some. So a low task behind a queue that never runs dry waits for `LOW_TURNS` tasks per low one before it,
//! and no longer. A running loop gives way to high tasks as to others, and to low ones at each `LOW_TURNS`th
//! bite. Where nobody uses priorities, looking costs two loads.
//!
//! *Rejected*: numbers as priorities (a queue in order is a lock, and nobody knows what 7 means); priorities
//! that rise while a task waits (a clock for each task, for what the turns do); stopping a running task for a
//! high one (a task is left at waits; the bites of loops are short).
//!
//! # Sleeping
//!
//! `idle_workers.rs` has the protocol. What the owner of a seat must do:
//!
//! * nothing to run: [`Seat::settle`]; if it is true, the domain may be left
//!   ([`super::Ownership::try_leave`]);
//! * going on with something that did not come from [`Seat::take`] (a fiber became ready): [`Seat::busy`];
//! * detaching: [`Seat::lend`], so that the domain is known to be free for a task, and after attaching
//!   `busy`.
//!
//! A settled worker that must start something is called by `poke`, at most once per task, and only one at a
//! time.
//!
//! # Dividing lazily
//!
//! A loop should split off a part only if somebody would take it: [`Seat::hungry`] is true if a worker is
//! idle and the seat's own queue is empty, that is, what was split off before has been taken. Without the
//! second condition a loop would split itself to dust in the time that a sleeping worker needs to wake.

use super::idle_workers::IdleWorkers;
use crossbeam_deque::{Injector, Steal};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A worker looks into the common queue first once in so many times. Prime, so that it doesn't fall into step
/// with a program's period.
const COMMON_FIRST: u32 = 61;

/// Of so many tasks that a worker takes, one is not of high priority if it can be helped.
const HIGH_TURNS: u32 = 8;

/// Of so many tasks that a worker takes, one is of low priority if there is one.
const LOW_TURNS: u32 = 32;

/// How urgent a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// Before all others.
    High,
    /// As it comes.
    #[default]
    Normal,
    /// When there is nothing else to do.
    Low,
}

/// Wakes a worker whose seat is settled: called with the worker's number, by any thread, under no lock.
pub type Poke = Box<dyn Fn(usize) + Send + Sync>;

/// The task queue of a pool.
pub struct Queue<T> {
    common: Injector<T>,
    high: Injector<T>,
    low: Injector<T>,
    seats: Box<[CachePadded<Own<T>>]>,
    idle_workers: IdleWorkers,
    closed: AtomicBool,
    poke: Poke,
}

/// What is queued at one seat: the newest at the back.
///
/// A lock, held for a push or a pop: what it costs is what the fences of a deque without one cost, as long as
/// nobody steals, and nobody steals from a short list for long. A deque without a lock has to allocate
/// another buffer when it has grown or shrunk by so much, which a pool that makes tasks by the hundred does
/// all the time.
struct Own<T> {
    list: Mutex<VecDeque<T>>,
    /// How many, for those who only look. Changed with the lock held.
    count: AtomicUsize,
}

/// Room for so many tasks is kept when the list is empty.
const KEPT: usize = 1024;

impl<T> Own<T> {
    fn new() -> Own<T> {
        Own { list: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&self, task: T) {
        let mut list = self.list.lock();
        list.push_back(task);
        self.count.store(list.len(), Ordering::Relaxed);
    }

    fn pop(&self) -> Option<T> {
        self.take(VecDeque::pop_back)
    }

    fn steal(&self) -> Option<T> {
        self.take(VecDeque::pop_front)
    }

    #[inline]
    fn take(&self, which: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let task = which(&mut list);
        self.count.store(list.len(), Ordering::Relaxed);
        if list.is_empty() && list.capacity() > KEPT {
            list.shrink_to(KEPT);
        }
        task
    }

    /// Takes what has waited longest in a common queue, and queues some of what comes after it here.
    fn fetch_from(&self, common: &Injector<T>) -> Option<T> {
        let first = retry(|| common.steal())?;
        let more = (common.len() / 2).min(MOST_FETCHED);
        if more > 0 {
            let mut list = self.list.lock();
            for _ in 0..more {
                let Some(task) = retry(|| common.steal()) else { break };
                // The owner takes from the back, and is to begin with the oldest.
                list.push_front(task);
            }
            self.count.store(list.len(), Ordering::Relaxed);
        }
        Some(first)
    }
}

/// Tasks that a worker takes from the common queue at a time, beside the one that it runs.
const MOST_FETCHED: usize = 31;

impl<T> Queue<T> {
    /// A queue for `workers` workers (1 to 65535) and their seats, all of them busy.
    pub fn new(workers: usize, poke: Poke) -> (Arc<Queue<T>>, Vec<Seat<T>>) {
        assert!((1..=u16::MAX as usize).contains(&workers), "a pool has 1 to 65535 workers");
        let queue = Arc::new(Queue {
            common: Injector::new(),
            high: Injector::new(),
            low: Injector::new(),
            seats: (0..workers).map(|_| CachePadded::new(Own::new())).collect(),
            idle_workers: IdleWorkers::new(),
            closed: AtomicBool::new(false),
            poke,
        });
        let seats = (0..workers)
            .map(|number| Seat {
                queue: queue.clone(),
                number,
                settled: false,
                turns: 0,
                yields: Cell::new(0),
                stolen_from: None,
                random: 0x9e37_79b9 ^ (number as u32).wrapping_mul(0x85eb_ca6b) | 1,
            })
            .collect();
        (queue, seats)
    }

    /// Queues a task from outside the pool. It comes back if the pool is closed.
    pub fn inject(&self, task: T) -> Result<(), T> {
        self.inject_as(task, Priority::Normal)
    }

    /// Queues a task of this priority, from outside the pool or inside. It comes back if the pool is closed.
    pub fn inject_as(&self, task: T, priority: Priority) -> Result<(), T> {
        if self.is_closed() {
            return Err(task);
        }
        match priority {
            Priority::High => self.high.push(task),
            Priority::Normal => self.common.push(task),
            Priority::Low => self.low.push(task),
        }
        self.ring();
        Ok(())
    }

    /// Queues a task behind all others, also if the pool is closed: the next of a row that runs. By a worker
    /// of the pool, which looks for work afterwards.
    pub fn inject_next(&self, task: T) {
        self.common.push(task);
        self.ring();
    }

    fn ring(&self) {
        if let Some(worker) = self.idle_workers.ring() {
            (self.poke)(worker);
        }
    }

    /// Whether some worker is idle. Costs a load; see [`Seat::hungry`].
    pub fn hungry(&self) -> bool {
        self.idle_workers.has_idle()
    }

    /// Whether a task is queued anywhere.
    pub fn has_tasks(&self) -> bool {
        [&self.common, &self.high, &self.low].iter().any(|q| !q.is_empty())
            || self.seats.iter().any(|s| !s.is_empty())
    }

    /// How many tasks are queued; out of date when it is read.
    pub fn len(&self) -> usize {
        self.common.len()
            + self.high.len()
            + self.low.len()
            + self.seats.iter().map(|s| s.len()).sum::<usize>()
    }

    /// Whether no task is queued.
    pub fn is_empty(&self) -> bool {
        !self.has_tasks()
    }

    /// No more tasks are taken in; those that are queued can still be taken. All idle workers are poked, so
    /// that they can end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for worker in self.idle_workers.call_all() {
            (self.poke)(worker);
        }
    }

    /// Whether the pool is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes out all tasks, so that those who wait for them can be told.
    pub fn drain(&self) -> Vec<T> {
        let mut tasks = Vec::new();
        for queue in [&self.high, &self.common, &self.low] {
            while let Some(task) = retry(|| queue.steal()) {
                tasks.push(task);
            }
        }
        for seat in &self.seats {
            while let Some(task) = seat.steal() {
                tasks.push(task);
            }
        }
        tasks
    }
}

fn retry<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// A worker's place in the pool.
pub struct Seat<T> {
    queue: Arc<Queue<T>>,
    number: usize,
    /// On the list of idle workers, or taken off it by somebody.
    settled: bool,
    turns: u32,
    /// How often a loop has asked whether to give way.
    yields: Cell<u32>,
    random: u32,
    /// The seat that the last task was stolen from.
    stolen_from: Option<usize>,
}

impl<T> Seat<T> {
    /// The pool's queue.
    pub fn queue(&self) -> &Arc<Queue<T>> {
        &self.queue
    }

    /// The worker's number, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    fn own(&self) -> &Own<T> {
        &self.queue.seats[self.number]
    }

    /// Queues a task here; others may steal it. It comes back if the pool is closed.
    pub fn push(&self, task: T) -> Result<(), T> {
        if self.queue.is_closed() {
            return Err(task);
        }
        self.own().push(task);
        self.queue.ring();
        Ok(())
    }

    /// Queues a task here also if the pool is closed: a part of one that runs.
    pub fn push_part(&self, task: T) {
        self.own().push(task);
        self.queue.ring();
    }

    /// The next task to run, from wherever there is one.
    pub fn take(&mut self) -> Option<T> {
        let task = self.find()?;
        self.busy();
        Some(task)
    }

    /// The task of high priority that has waited longest, or else in the common queue, or in this seat, or of
    /// low priority.
    pub fn take_oldest(&mut self) -> Option<T> {
        self.turns = self.turns.wrapping_add(1);
        let task = self
            .urgent()
            .or_else(|| retry(|| self.queue.common.steal()))
            .or_else(|| self.own().steal())
            .or_else(|| retry(|| self.queue.high.steal()))
            .or_else(|| retry(|| self.queue.low.steal()))?;
        self.stolen_from = None;
        self.busy();
        Some(task)
    }

    /// Whether [`Seat::take_oldest`] would find something now for which a loop gives way.
    pub fn could_take_oldest(&self) -> bool {
        let turn = self.yields.get().wrapping_add(1);
        self.yields.set(turn);
        !self.queue.common.is_empty()
            || !self.own().is_empty()
            || !self.queue.high.is_empty()
            || (turn.is_multiple_of(LOW_TURNS) && !self.queue.low.is_empty())
    }

    /// What goes before the queue in this turn: a task of high priority, or one of low priority whose turn it
    /// is.
    fn urgent(&self) -> Option<T> {
        if self.turns.is_multiple_of(LOW_TURNS)
            && let Some(task) = retry(|| self.queue.low.steal())
        {
            return Some(task);
        }
        if self.turns.is_multiple_of(HIGH_TURNS) { None } else { retry(|| self.queue.high.steal()) }
    }

    /// The newest task of the own queue: for a loop that takes back the part that it has split off.
    pub fn take_own(&mut self) -> Option<T> {
        self.own().pop()
    }

    /// The seat that the task taken last was stolen from.
    pub fn stolen_from(&self) -> Option<usize> {
        self.stolen_from
    }

    fn find(&mut self) -> Option<T> {
        self.stolen_from = None;
        self.turns = self.turns.wrapping_add(1);
        if let Some(task) = self.urgent() {
            return Some(task);
        }
        if self.turns.is_multiple_of(COMMON_FIRST)
            && let Some(task) = retry(|| self.queue.common.steal())
        {
            return Some(task);
        }
        if let Some(task) = self.own().pop() {
            return Some(task);
        }
        if let Some(task) = self.own().fetch_from(&self.queue.common) {
            return Some(task);
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let seats = &self.queue.seats;
        let first = self.random as usize % seats.len();
        let victims = (first..seats.len()).chain(0..first).filter(|&v| v != self.number);
        for victim in victims {
            if let Some(task) = seats[victim].steal() {
                self.stolen_from = Some(victim);
                return Some(task);
            }
        }
        retry(|| self.queue.high.steal()).or_else(|| retry(|| self.queue.low.steal()))
    }

    /// Whether a part split off now would be taken soon. Costs a load or two.
    pub fn hungry(&self) -> bool {
        self.queue.idle_workers.has_idle() && self.own().is_empty()
    }

    /// Nothing to run here. True: nothing is queued anywhere either, and a poke will come when there is.
    /// False: look again.
    pub fn settle(&mut self) -> bool {
        if self.settled {
            // Called or not: back to the warm end of the list, and no longer searching.
            self.queue.idle_workers.rise(self.number);
        }
        self.settled = true;
        self.queue.idle_workers.settle(self.number);
        !self.queue.has_tasks()
    }

    /// The domain is about to be detached: a task may start in it meanwhile. True: one is queued, so the
    /// domain should be poked before it is left.
    pub fn lend(&mut self) -> bool {
        self.busy();
        self.settled = true;
        self.queue.idle_workers.lend(self.number);
        self.queue.has_tasks()
    }

    /// Something runs here again. A load if the seat was not settled.
    pub fn busy(&mut self) {
        if !std::mem::take(&mut self.settled) {
            return;
        }
        self.queue.idle_workers.rise(self.number);
        // Also if nobody had called: whoever queued several while this worker was searching has not rung for
        // all of them.
        if self.queue.has_tasks() {
            self.queue.ring();
        }
    }
}

impl<T> Drop for Seat<T> {
    /// The worker ends: it is not called any more, passes a call on that it had got, and leaves its tasks to
    /// thieves.
    fn drop(&mut self) {
        self.busy();
    }
}
