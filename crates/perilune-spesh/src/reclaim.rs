//! When nobody can be in code any more: quiescence.
//!
//! # The rule
//! Every domain has a seat ([`Participant`]) with a counter that its owner moves on:
//!
//! - [`enter`](Participant::enter): from here on it may load addresses of code and run them. The counter
//!   becomes odd.
//! - [`pass`](Participant::pass): it is at a safepoint at which it has no address of code, neither in a
//!   variable nor as a return address on a native stack, except for those that it names. The counter goes up
//!   by two.
//! - [`leave`](Participant::leave): the same, and it loads none until it enters again. The counter becomes
//!   even.
//!
//! Code is [retired](Reclaimer::retire) once nothing leads to it any more: no cell, cache or table has its
//! address. It is noted which seats are odd at that moment, and their counts. The code is free when each of
//! these seats shows another count, or an even one, and does not name an address in the code as one it still
//! has.
//!
//! Domains that do not run (parked, idle, not begun) have left, so they hold nothing up. One that runs
//! without passing does; [`Reclaimer::laggards`] names them, and whoever wants the memory asks them to come
//! to a safepoint (with an interrupt).
//!
//! # What a domain still has
//! At a safepoint deep inside of native calls (machine code calls a native, which calls Lua, which polls)
//! there are return addresses into machine code further out. If such a pass did not count, a program whose
//! main function was compiled and calls everything else would never free anything; if it counted in full, the
//! main function might be freed below its feet. So a pass names what it has: the native stacks are searched
//! for words in the region, which need not be exact, as what is named too much is only freed later. The names
//! are kept until the next pass.
//!
//! # Why it is enough
//! Retiring: what leads to the code is cleared, FENCE, counts are read. Entering and passing: the count is
//! stored, FENCE, addresses are loaded. The fences are sequentially consistent, so one comes first. If the
//! domain's does, its new count is seen when the code is retired, and another one must follow. If the
//! retiring one does, the domain cannot load the address any more. And what a domain did before it stored a
//! count happens before what follows the load that sees the count, the freeing included (release and
//! acquire). A domain that takes its seat later enters later, behind the lock that both take.
//! `tests/model/seats.rs` checks this under all interleavings.
//!
//! # Cost
//! Entering, and passing without names, is a store and a fence, some five nanoseconds: meant for the moments
//! at which a thread takes up or puts down a domain, and for safepoints at which an interrupt is pending, not
//! for each call of machine code.
//!
//! # Rejected
//! *Counts of references on code*, changed at each entry: twenty nanoseconds, and shared between cores.
//! *Hazard pointers*: a store and a fence at each call from machine code to machine code. *`membarrier`
//! instead of the fences*: makes entering free, takes a system call that sandboxes refuse, and cannot be
//! model-checked; worth a look if entering ever has to happen per call. *Epochs with a global counter*:
//! readers would all read what the retiring thread writes, for nothing that the counts do not give.

use crate::sync::{AtomicU64, Lineage, Mutex, Ordering, fence, lock};
use std::ops::Range;
use std::sync::Arc;

/// What is retired: something that lies at certain addresses.
pub trait Retired {
    /// Which.
    fn addresses(&self) -> Range<usize>;
}

/// Decides when what was retired can be freed.
pub struct Reclaimer<T> {
    lineage: Lineage,
    state: Mutex<State<T>>,
}

struct State<T> {
    seats: Vec<Arc<Seat>>,
    waiting: Vec<Waiting<T>>,
}

struct Waiting<T> {
    item: T,
    /// Seats that were odd when the item was retired and have shown no other count since, with that count; or
    /// that still name it.
    pending: Vec<(Arc<Seat>, u64)>,
}

struct Seat {
    tag: u64,
    /// Written by the participant only. Even: outside.
    count: AtomicU64,
    /// What the participant named when it last passed or left. It changes the count under this lock if it had
    /// named something, or does.
    named: Mutex<Vec<usize>>,
}

impl Seat {
    /// Whether the seat no longer holds up an item that was retired at `since`; if it does by naming it,
    /// `since` is brought up to now.
    fn is_done_with(&self, addresses: &Range<usize>, since: &mut u64) -> bool {
        let named = lock(&self.named);
        let count = self.count.load(Ordering::Acquire);
        if count == *since && !is_outside(count) {
            return false;
        }
        *since = count;
        !named.iter().any(|address| addresses.contains(address))
    }
}

fn is_outside(count: u64) -> bool {
    count.is_multiple_of(2)
}

/// A domain's seat. It belongs to whoever runs the domain at the moment. Dropping it inside, or with names
/// left, keeps all that it holds up for good.
pub struct Participant<T> {
    reclaimer: Arc<Reclaimer<T>>,
    seat: Arc<Seat>,
    /// The seat's count, which nobody else changes.
    count: u64,
    names: bool,
}

impl<T: Retired> Reclaimer<T> {
    /// Without seats, and with nothing retired.
    #[allow(clippy::new_without_default)] // the model's Mutex is no constant either
    pub fn new() -> Arc<Reclaimer<T>> {
        let state = State { seats: Vec::new(), waiting: Vec::new() };
        Arc::new(Reclaimer { lineage: Lineage::current(), state: Mutex::new(state) })
    }

    /// Takes a seat, outside. `tag` is what [`laggards`](Reclaimer::laggards) calls it.
    pub fn register(self: &Arc<Self>, tag: u64) -> Participant<T> {
        let seat = Arc::new(Seat { tag, count: AtomicU64::new(0), named: Mutex::new(Vec::new()) });
        // In a child of a fork nothing is ever freed, so nobody needs to know of the seat.
        if !self.lineage.is_inherited() {
            lock(&self.state).seats.push(Arc::clone(&seat));
        }
        Participant { reclaimer: Arc::clone(self), seat, count: 0, names: false }
    }

    /// Gives up `item`; [`collect`](Reclaimer::collect) returns it when nobody has its addresses any more. In
    /// a child of a fork it never does.
    ///
    /// # Safety
    /// Nothing leads to the item any more: a participant that enters or passes after this call comes by none
    /// of its addresses. Items are reached by participants only between entering and leaving.
    pub unsafe fn retire(&self, item: T) {
        if self.lineage.is_inherited() {
            std::mem::forget(item);
            return;
        }
        fence(Ordering::SeqCst);
        let mut state = lock(&self.state);
        let pending = state.seats.iter().filter_map(|seat| {
            // Under the lock, which goes with the count when there are names.
            let named = lock(&seat.named);
            let count = seat.count.load(Ordering::Acquire);
            let concerned = !is_outside(count) || !named.is_empty();
            concerned.then(|| (Arc::clone(seat), count))
        });
        let pending = pending.collect();
        state.waiting.push(Waiting { item, pending });
    }

    /// What nobody can be in any more.
    pub fn collect(&self) -> Vec<T> {
        if self.lineage.is_inherited() {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        let free = state.waiting.extract_if(.., |waiting| {
            let addresses = waiting.item.addresses();
            waiting.pending.retain_mut(|(seat, since)| !seat.is_done_with(&addresses, since));
            waiting.pending.is_empty()
        });
        free.map(|waiting| waiting.item).collect()
    }

    /// The tags of the seats that hold something up, as of the last [`collect`](Reclaimer::collect): each
    /// once, in order.
    pub fn laggards(&self) -> Vec<u64> {
        if self.lineage.is_inherited() {
            return Vec::new();
        }
        let state = lock(&self.state);
        let pending = state.waiting.iter().flat_map(|waiting| &waiting.pending);
        let mut tags: Vec<u64> = pending.map(|(seat, _)| seat.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// How many items wait.
    pub fn waiting(&self) -> usize {
        if self.lineage.is_inherited() { 0 } else { lock(&self.state).waiting.len() }
    }
}

impl<T> Participant<T> {
    /// Begins to load addresses of code and to run them.
    pub fn enter(&mut self) {
        assert!(is_outside(self.count), "entered twice");
        // What it named when it left, it still has.
        self.count += 1;
        self.seat.count.store(self.count, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Passes a safepoint, inside.
    ///
    /// # Safety
    /// The domain has no address of code that it came by before this call, on its native stacks or anywhere
    /// else, and reads none that was stored before, except for those in pieces of which `named` has an
    /// address.
    pub unsafe fn pass(&mut self, named: &[usize]) {
        assert!(!is_outside(self.count), "passed outside");
        self.move_on(2, named);
        fence(Ordering::SeqCst);
    }

    /// Stops loading addresses of code until it enters again.
    ///
    /// # Safety
    /// As for [`pass`](Participant::pass); what it names here stays named until it passes or leaves again.
    pub unsafe fn leave(&mut self, named: &[usize]) {
        assert!(!is_outside(self.count), "left twice");
        self.move_on(1, named);
    }

    /// Whether it is between entering and leaving.
    pub fn is_inside(&self) -> bool {
        !is_outside(self.count)
    }

    /// Stores the new count, together with the names if there were or are any.
    fn move_on(&mut self, by: u64, named: &[usize]) {
        self.count += by;
        // In a child of a fork, the lock may be held by a thread that is not there, and nobody asks.
        if (self.names || !named.is_empty()) && !self.reclaimer.lineage.is_inherited() {
            let mut names = lock(&self.seat.named);
            names.clear();
            names.extend_from_slice(named);
            self.names = !named.is_empty();
            self.seat.count.store(self.count, Ordering::Release);
        } else {
            self.seat.count.store(self.count, Ordering::Release);
        }
    }
}

impl<T> Drop for Participant<T> {
    fn drop(&mut self) {
        // Who is inside, or has names left, may have addresses still; its seat stays, and holds up what it
        // holds up.
        let done = !self.is_inside() && !self.names;
        if done && !self.reclaimer.lineage.is_inherited() {
            lock(&self.reclaimer.state).seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        }
    }
}
