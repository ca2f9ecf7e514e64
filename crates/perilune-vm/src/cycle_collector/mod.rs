//! The cycle collector: cycles of counted things, which counts alone do not free.
//!
//! Islands, shared objects and parcels are counted. An island refers to what was there before it, a parcel
//! too, so among themselves they form no cycles. But a channel's queue, a map, an atomic, the outcome of a
//! task change, and may come to hold a parcel that holds, over whatever stations, the object itself. When the
//! last domain lets go of such a cycle its counts stay above zero. This room finds it.
//!
//! # Terms
//! A *holder* is a counted thing that owns counts of others. It is *constant* (an island, the graph of a
//! parcel, a task as the owner of its outcome) or it *changes*: then what it holds is behind a lock. A count
//! that no holder of a set owns is *external* to the set: that of a domain's reference, of a native's local
//! variable, of a message that a thread has just taken out.
//!
//! # Algorithm
//! Trial deletion (Christopher; Bacon and Rajan), in two phases.
//!
//! 1. *Guess.* From all holders that change and have ever held something (they are [registered](register))
//!    everything that they reach is listed; the lock of each is held only while it is read. What has more
//!    counts than the list explains has external ones: it and all that it reaches is alive. The rest are
//!    candidates. Since nothing stood still meanwhile, this proves nothing.
//! 2. *Proof.* The candidates that change are *frozen*: all their locks are held, taken without waiting
//!    (whoever is locked is in use, so it is alive). What they hold is read again, then every candidate's
//!    count, those of constant ones first, and each holder before what it holds. A candidate with an external
//!    count is alive, with all that it reaches. What is left is garbage.
//!
//! Garbage is *emptied*: what the objects hold is taken out, the locks are released, and counts do the rest,
//! so destructors run as they always do. Nobody can see that the queue of a channel is empty that nobody has.
//!
//! # Why nothing alive is emptied
//! Counts of a candidate rise only by somebody who has one, or who reads it in a holder. Whoever reads a
//! holder has a count of that holder. During the proof those that change cannot be read. So external counts
//! can only arise below external counts, along edges of constant holders, and these lead from younger to
//! older: no way leads back. The proof reads counts in that direction. Suppose that one has an external count
//! in the end. Follow it back to where its owner got it: from a constant holder of which it had an external
//! count, or has still, and so on. When the proof read the uppermost of these, either the external count was
//! there, and was seen; or it had been given up, and giving up a count happens after taking that of the next
//! one below (a release, which the reader's fence acquires), so the next one had its external count when the
//! proof got there. At the lowest the count is still there. What had no external count by the end gets none
//! any more. (`model.rs` runs all interleavings of small cases, and shows that reading in the opposite order
//! would be wrong.)
//!
//! A wrong answer would lose messages; it could not free memory in use, because only counts free.
//!
//! Edges may be left out but never told twice: a count that is not explained is external, and keeps things
//! alive.
//!
//! # When
//! After a collection of any domain (which a domain that sends things with counts makes due for this
//! purpose), if twice as many holders are registered as were left alive last time, or the bytes outside all
//! heaps have doubled ([`LEAST_HOLDERS`], [`LEAST_BYTES`]); and when a program asks for a full collection. A
//! holder is registered when it first gets something that can be part of a cycle. A program that sends
//! numbers, strings and tables registers nothing and pays a comparison for each message; one that sends
//! islands through a thousand channels pays for entering each into a list once.
//!
//! It runs on the thread of the domain that notices; others go on. They wait for it only at a candidate's
//! lock (which is to say never, but for bad luck), or while the queue is listed that they want to use.
//!
//! # Rejected
//! *Tracing from all domains' roots*: it would have to stop them, or to understand heaps that run. *Keeping
//! candidates as counts drop to something else than zero* (Bacon and Rajan): a look at a list at each drop of
//! a reference, of which there are far more than stores into queues. *Versions instead of locks in the
//! proof*: reading takes counts as well, so each `recv` would have to count. *Reading all counts twice*
//! without an order: an external count that moves down a chain of islands may be missed as often as the chain
//! is long.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod trial_deletion;

use crate::shared::{SharedObject, upgrade};
use perilune_trace::emit;
use perilune_trace::event::{Count, CycleBegin, CycleEnd};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
pub use trial_deletion::Held;
use trial_deletion::{Counted, CountedGraph};

/// A counted thing that owns counts of others.
pub trait Holder: Send + Sync {
    /// Access for the caller alone, if what it holds can change. Must not wait.
    fn freeze(&self) -> Freeze<'_> {
        Freeze::Constant
    }

    /// Tells what a constant holder holds: each count at most once.
    fn held(&self, to: &mut Held<'_>) {
        let _ = to;
    }
}

/// What came of an attempt to freeze a holder.
pub enum Freeze<'a> {
    /// What it holds never changes; [`Holder::held`] tells it.
    Constant,
    /// Somebody else has access.
    Busy,
    /// Nobody else has access until this is dropped.
    Frozen(Box<dyn Frozen + 'a>),
}

/// A holder that only the owner of this can read and change.
pub trait Frozen {
    /// Tells what it holds: each count at most once.
    fn held(&self, to: &mut Held<'_>);

    /// Takes out all that [`Frozen::held`] tells. Nobody will ever look at the holder again; it only has to
    /// be in a state that can be dropped.
    fn empty(&mut self) -> Box<dyn Any>;
}

/// Fewer registered holders are not worth a search.
const LEAST_HOLDERS: usize = 1024;
/// Fewer bytes outside all heaps are not worth a search.
const LEAST_BYTES: usize = 16 << 20;
/// Registered holders that are kept without looking whether they are still there.
const FIRST_PRUNE: usize = 256;

enum Entry {
    Shared(Weak<dyn SharedObject>),
    Other(Weak<dyn Holder>),
}

impl Entry {
    fn is_alive(&self) -> bool {
        match self {
            Entry::Shared(w) => w.strong_count() > 0,
            Entry::Other(w) => w.strong_count() > 0,
        }
    }

    fn counted(&self) -> Option<Counted> {
        match self {
            Entry::Shared(w) => upgrade(w).map(Counted::Shared),
            Entry::Other(w) => w.upgrade().map(Counted::Other),
        }
    }
}

/// Holders that change.
struct Registry {
    entries: Vec<Entry>,
    prune_at: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: Vec::new(), prune_at: FIRST_PRUNE });
/// How many are registered.
static REGISTERED: AtomicUsize = AtomicUsize::new(0);
/// From so many on a search is due.
static DUE_HOLDERS: AtomicUsize = AtomicUsize::new(LEAST_HOLDERS);
/// From so many bytes outside all heaps on a search is due.
static DUE_BYTES: AtomicUsize = AtomicUsize::new(LEAST_BYTES);
/// One search at a time.
static SEARCH: Mutex<()> = Mutex::new(());

static SEARCHES: AtomicU64 = AtomicU64::new(0);
static VISITED: AtomicU64 = AtomicU64::new(0);
static EMPTIED: AtomicU64 = AtomicU64::new(0);

fn registry() -> MutexGuard<'static, Registry> {
    // What a panic leaves is a list that is valid.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn prune(&mut self) {
        self.entries.retain(Entry::is_alive);
        self.prune_at = (2 * self.entries.len()).max(FIRST_PRUNE);
    }

    fn enter(&mut self, entry: Entry) {
        if self.entries.len() >= self.prune_at {
            self.prune();
        }
        self.entries.push(entry);
        REGISTERED.store(self.entries.len(), Relaxed);
    }
}

/// Whether a holder has been registered: a field of each that changes.
#[derive(Default)]
pub struct Registered(AtomicBool);

impl Registered {
    /// Registers a shared object that changes, before it holds something for the first time.
    #[inline]
    pub fn shared(&self, object: impl FnOnce() -> Weak<dyn SharedObject>) {
        if self.is_first() {
            registry().enter(Entry::Shared(object()));
        }
    }

    /// As [`Registered::shared`], for a holder that is no shared object.
    #[inline]
    pub fn holder(&self, holder: impl FnOnce() -> Weak<dyn Holder>) {
        if self.is_first() {
            registry().enter(Entry::Other(holder()));
        }
    }

    #[inline]
    fn is_first(&self) -> bool {
        !self.0.load(Relaxed) && !self.0.swap(true, Relaxed)
    }
}

/// Figures about all searches of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleStats {
    /// Searches for cycles.
    pub searches: u64,
    /// Holders and what they hold, listed in all searches.
    pub visited: u64,
    /// Objects that were emptied.
    pub emptied: u64,
    /// Holders that change and are registered, some of which may be gone.
    pub registered: usize,
}

/// Figures about all searches of the process.
pub fn stats() -> CycleStats {
    CycleStats {
        searches: SEARCHES.load(Relaxed),
        visited: VISITED.load(Relaxed),
        emptied: EMPTIED.load(Relaxed),
        registered: REGISTERED.load(Relaxed),
    }
}

/// Bytes outside all heaps, as far as they are counted.
fn outside_bytes() -> usize {
    let bytes = perilune_heap::program_bytes();
    bytes.total() - bytes.heaps
}

/// Whether there may be enough garbage for a search.
#[inline]
pub(crate) fn is_due() -> bool {
    let registered = REGISTERED.load(Relaxed);
    registered > 0 && (registered >= DUE_HOLDERS.load(Relaxed) || outside_bytes() >= DUE_BYTES.load(Relaxed))
}

/// Searches if it is time: to be called after a collection, outside of it.
#[inline]
pub(crate) fn collect_if_due() {
    if is_due() {
        match SEARCH.try_lock() {
            Ok(_search) => search(),
            Err(TryLockError::Poisoned(poisoned)) => {
                let _search = poisoned.into_inner();
                search();
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Finds the cycles of counted things that nobody can reach, and empties them. How many objects it has
/// emptied.
pub fn collect() -> usize {
    if REGISTERED.load(Relaxed) == 0 {
        return 0;
    }
    let _search = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    let before = EMPTIED.load(Relaxed);
    search();
    (EMPTIED.load(Relaxed) - before) as usize
}

/// One search; the caller has the lock.
fn search() {
    emit(CycleBegin {});
    let mut graph = CountedGraph::default();
    {
        let mut registry = registry();
        registry.prune();
        REGISTERED.store(registry.entries.len(), Relaxed);
        for counted in registry.entries.iter().filter_map(Entry::counted) {
            graph.add(counted);
        }
    }
    let holders = graph.len();
    graph.list();
    let candidates = graph.candidates();
    let garbage = if candidates.is_empty() { Vec::new() } else { graph.prove(&candidates) };
    SEARCHES.fetch_add(1, Relaxed);
    VISITED.fetch_add(graph.len() as u64, Relaxed);
    EMPTIED.fetch_add(garbage.len() as u64, Relaxed);
    let (emptied, visited) = (garbage.len(), graph.len());
    let left = holders.saturating_sub(emptied);
    // Nothing is locked any more: destructors may do what they like.
    drop(garbage);
    drop(graph);
    DUE_HOLDERS.store((2 * left).max(LEAST_HOLDERS), Relaxed);
    DUE_BYTES.store((2 * outside_bytes()).max(LEAST_BYTES), Relaxed);
    emit(CycleEnd { emptied: Count::from(emptied), visited: Count::from(visited) });
}

/// A counted reference to a holder, for [`Held::counted`].
pub(crate) trait Share {
    fn address(&self) -> usize;
    fn share(&self) -> Arc<dyn Holder>;
}

impl<T: Holder + 'static> Share for Arc<T> {
    fn address(&self) -> usize {
        Arc::as_ptr(self) as usize
    }
    fn share(&self) -> Arc<dyn Holder> {
        Arc::clone(self) as Arc<dyn Holder>
    }
}
