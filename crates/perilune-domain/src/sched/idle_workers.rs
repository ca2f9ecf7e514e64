//! Which sleeping worker is told of a new task: the part of the task queue that must not lose a wake.
//!
//! # The protocol
//!
//! A worker that found no task *settles*: it puts itself on the list of idle workers, and looks at the queues
//! once more. Who queues a task *rings*: if somebody is on the list and nobody is *searching*, the last one
//! on the list is taken off, counts as searching from now on, and is poked. A searcher stops being one when
//! it finds a task, settles, or has other things to do; if tasks are queued then, it rings in its turn. So
//! wakes go one after another, each by somebody who knows that there is more, and a million tasks queued in a
//! row cost one look at a word each, not a system call each.
//!
//! # Why none is lost
//!
//! Three pairs of "write mine, fence, read yours", each fence sequentially consistent:
//!
//! * queue a task, look at the word / enter the list, look at the queues: either the ringer sees the idle
//!   worker, or the worker sees the task;
//! * queue a task, look at the word / cease to be searching, look at the queues: either the ringer sees that
//!   nobody searches, or the searcher sees the task and rings for it;
//! * a worker taken off the list is poked by whoever took it off, and a poke reaches a domain whatever its
//!   phase (`ownership.rs`).
//!
//! Hence: while a task is queued and a worker is idle, some worker has been poked or is about to look. The
//! count of what can happen (`quiescence.rs`) relies on it.
//!
//! Hot workers are taken first, those whose domain has a blocked call in it ([`IdleWorkers::lend`]) last.

use super::sync::{AtomicU32, Mutex, Ordering, fence, lock};
use std::collections::VecDeque;

const SEARCHING: u32 = 1 << 16;
const IDLE: u32 = 0xffff;

/// The idle workers of a pool, and who has been told to look for tasks.
pub struct IdleWorkers {
    /// Lower half: how many are on the list. Upper half: how many are searching. Changed under the lock.
    word: AtomicU32,
    list: Mutex<VecDeque<u16>>,
}

impl IdleWorkers {
    /// A pool in which all workers are busy.
    #[allow(clippy::new_without_default)]
    pub fn new() -> IdleWorkers {
        IdleWorkers { word: AtomicU32::new(0), list: Mutex::new(VecDeque::new()) }
    }

    /// Whether some worker has nothing to do. Out of date when it is read; costs a load.
    pub fn has_idle(&self) -> bool {
        self.word.load(Ordering::Relaxed) & IDLE != 0
    }

    /// A task has been queued: the worker to poke, if one should be.
    pub fn ring(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::Relaxed);
        if word & IDLE == 0 || word >= SEARCHING {
            return None;
        }
        self.call()
    }

    #[cold]
    fn call(&self) -> Option<usize> {
        let mut list = lock(&self.list);
        if self.word.load(Ordering::Relaxed) >= SEARCHING {
            return None;
        }
        let worker = list.pop_back()?;
        self.word.fetch_add(SEARCHING - 1, Ordering::SeqCst);
        Some(worker as usize)
    }

    /// All idle workers, to be poked because the pool is closed. Each counts as searching.
    pub fn call_all(&self) -> Vec<usize> {
        let mut list = lock(&self.list);
        self.word.fetch_add((SEARCHING - 1) * list.len() as u32, Ordering::SeqCst);
        list.drain(..).map(usize::from).collect()
    }

    /// A busy worker has nothing to do. The caller looks at the queues afterwards.
    pub fn settle(&self, worker: usize) {
        let mut list = lock(&self.list);
        list.push_back(worker as u16);
        self.word.fetch_add(1, Ordering::SeqCst);
        drop(list);
        fence(Ordering::SeqCst);
    }

    /// Like [`IdleWorkers::settle`], for a worker that should be called only if no other is idle.
    pub fn lend(&self, worker: usize) {
        let mut list = lock(&self.list);
        list.push_front(worker as u16);
        self.word.fetch_add(1, Ordering::SeqCst);
        drop(list);
        fence(Ordering::SeqCst);
    }

    /// A worker that settled goes on, called or not. The caller looks at the queues afterwards, and rings if
    /// tasks are queued: those that were while this worker was searching may have been left to it.
    pub fn rise(&self, worker: usize) {
        let mut list = lock(&self.list);
        match list.iter().rposition(|&w| w as usize == worker) {
            Some(at) => {
                list.remove(at);
                self.word.fetch_sub(1, Ordering::SeqCst);
            }
            None => {
                self.word.fetch_sub(SEARCHING, Ordering::SeqCst);
            }
        }
        drop(list);
        fence(Ordering::SeqCst);
    }
}
