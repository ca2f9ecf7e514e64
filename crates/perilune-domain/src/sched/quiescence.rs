//! When can nothing happen any more? The count of what still can.
//!
//! # The rule of units
//!
//! A *unit* stands for something that can act: a domain that is owned or ready has one, a blocking call in
//! progress has one, an armed timer has one ([`Hold`]). [`Quiescence`] counts them. Two rules keep the count
//! honest:
//!
//! 1. whoever makes something able to act takes a unit for it *before* it can act;
//! 2. whoever has a unit gives it up only *after* the last effect that it will have.
//!
//! Within a program only what has a unit acts, so a unit is only ever made by the holder of another one. From
//! this follows what matters: **zero is final.** At the moment the count becomes zero nobody can act, so
//! nobody can take a unit, so it stays. A message in flight is no exception: who sends it has a unit until
//! the receiver's domain has one (waking posts a fiber, and posting to an idle domain takes the unit first).
//! A wake just posted is a domain that is ready. A timer about to fire keeps its unit until its alarm has
//! returned. A queued task needs none of its own: while it is in the queue some worker's domain is awake or
//! has been poked (`idle_workers.rs`).
//!
//! When the count becomes zero, therefore, whoever waits waits for ever. The waits are gathered, the report
//! is called with them, and each is woken with [`Reason::Deadlock`].
//!
//! Waits are not counted. A fiber that parks costs one entry in its domain's [`WaitList`], whose lock nobody
//! contends for; the shared count is touched once when a domain becomes idle and once when it ceases to be.
//!
//! # Guests
//!
//! Threads outside the program (a host that keeps a sender and calls it now and then) can act without a unit,
//! and zero is not final for them. They should keep a [`Hold`] for as long as they may still act. If they
//! don't, no harm comes to the count: a wait can be declared hopeless although the guest would have ended it,
//! but never twice and never torn, because a wait ends once (`waiter.rs`) and because the word carries the
//! number of entries so far: if anybody entered between the moment the count was seen at zero and the
//! decision, the decision is put off until that one leaves.
//!
//! # Rejected
//!
//! Counting waits against fibers: two counters cannot be compared at one instant without stopping everybody.
//! Reference counts on the ends of channels: they find one dead channel early, but a cycle of two domains
//! that wait for each other never. Looking at intervals: a program would be declared dead by a clock.

use super::sync::{AtomicU64, Mutex, Ordering, lock};
use super::waiter::{Reason, Waiter};
use std::sync::{Arc, Weak};

const COUNT: u64 = 0xffff_ffff;
/// One unit taken: the count in the lower half, the number of entries so far (wrapping) in the upper.
const ENTER: u64 = (1 << 32) + 1;

/// What a program's standstill is told to.
pub type Report = Box<dyn Fn(&[Arc<Waiter>]) + Send + Sync>;

/// The count of what can still act in one program.
pub struct Quiescence {
    word: AtomicU64,
    lists: Mutex<Vec<Weak<WaitList>>>,
    report: Report,
}

impl Quiescence {
    /// A program in which nothing can act yet. `report` is called with all waits (never none) when nothing
    /// can act any more, by the thread that gave up the last unit and before any of the waiters wakes; it
    /// must not wait.
    pub fn new(report: Report) -> Arc<Quiescence> {
        Arc::new(Quiescence { word: AtomicU64::new(0), lists: Mutex::new(Vec::new()), report })
    }

    /// Makes a list of waits known. It is forgotten when it is dropped.
    pub fn register(&self, list: &Arc<WaitList>) {
        let mut lists = lock(&self.lists);
        if lists.len() == lists.capacity() {
            lists.retain(|l| l.strong_count() > 0);
        }
        lists.push(Arc::downgrade(list));
    }

    /// Takes a unit. The caller must have one (or be a guest: see the essay).
    pub fn enter(&self) {
        // Relaxed: the new unit is only seen to be missing by somebody who has seen the caller's own given
        // up, and giving up is a release.
        self.word.fetch_add(ENTER, Ordering::Relaxed);
    }

    /// Gives a unit up; the last one brings the program to rest. May call the report and wake waiters, so the
    /// caller must hold no lock that a waking needs.
    pub fn leave(&self) {
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & COUNT != 0, "a unit was given up that nobody had");
        if before & COUNT == 1 {
            self.at_rest();
        }
    }

    /// A unit as a guard.
    pub fn hold(self: &Arc<Self>) -> Hold {
        self.enter();
        Hold(self.clone())
    }

    /// How many units there are: for tests and reports; out of date when it is read.
    pub fn units(&self) -> usize {
        (self.word.load(Ordering::Acquire) & COUNT) as usize
    }

    #[cold]
    fn at_rest(&self) {
        loop {
            let seen = self.word.load(Ordering::Acquire);
            if seen & COUNT != 0 {
                return; // a guest, which comes by here when it leaves
            }
            let waits = self.waits();
            if waits.is_empty() {
                if self.word.load(Ordering::Acquire) == seen {
                    return;
                }
                continue;
            }
            // A unit of our own until all are woken: the first of them could bring the program to rest again.
            if self
                .word
                .compare_exchange(seen, seen.wrapping_add(ENTER), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                (self.report)(&waits);
                for waiter in &waits {
                    waiter.wake(Reason::Deadlock);
                }
                return self.leave();
            }
        }
    }

    /// All waits that have not ended, domain by domain, oldest first as far as slots allow.
    pub fn waits(&self) -> Vec<Arc<Waiter>> {
        let lists: Vec<Arc<WaitList>> = lock(&self.lists).iter().filter_map(Weak::upgrade).collect();
        let mut found = Vec::new();
        for list in lists {
            let slots = lock(&list.slots);
            found.extend(slots.entries.iter().flatten().filter(|w| w.woken().is_none()).cloned());
        }
        found
    }
}

/// A unit, given up when dropped. An armed timer's alarm owns one; a guest keeps one.
pub struct Hold(Arc<Quiescence>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The waits of one domain. Only its owner adds and removes.
#[derive(Default)]
pub struct WaitList {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    entries: Vec<Option<Arc<Waiter>>>,
    free: Vec<u32>,
}

impl WaitList {
    /// An empty list; to be made known by [`Quiescence::register`].
    pub fn new() -> Arc<WaitList> {
        Arc::new(WaitList { slots: Mutex::new(Slots::default()) })
    }

    /// Adds a wait before it sleeps. The result is for [`WaitList::remove`].
    pub fn add(&self, waiter: Arc<Waiter>) -> u32 {
        let mut slots = lock(&self.slots);
        match slots.free.pop() {
            Some(slot) => {
                slots.entries[slot as usize] = Some(waiter);
                slot
            }
            None => {
                slots.entries.push(Some(waiter));
                slots.entries.len() as u32 - 1
            }
        }
    }

    /// Removes a wait that is over. `slot` must come from [`WaitList::add`] and be removed once.
    pub fn remove(&self, slot: u32) -> Option<Arc<Waiter>> {
        let mut slots = lock(&self.slots);
        let waiter = slots.entries.get_mut(slot as usize)?.take();
        if waiter.is_some() {
            slots.free.push(slot);
        }
        waiter
    }

    /// How many waits are in the list, woken ones that have not been removed included.
    pub fn len(&self) -> usize {
        let slots = lock(&self.slots);
        slots.entries.len() - slots.free.len()
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
