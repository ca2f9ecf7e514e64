//! Events that must be handled in order, by any worker, with no worker waiting for its turn.
//!
//! An event has a key (a socket, a process, a handler). Events of one key are handled one at a time, in the
//! order in which they arrived; events of different keys have nothing to do with each other. No thread
//! belongs to a key and no lock is held while an event is handled: a key that has events is *busy*, and the
//! one task that handles them is its turn.
//!
//! * [`Lanes::push`] queues an event; if the key was not busy it is from now on, and the caller queues a task
//!   for it.
//! * That task calls [`Lanes::next`], handles the event (and may park in the middle of it: the key stays
//!   busy, the worker does not), and queues itself again or goes on until `next` returns none: then the key
//!   is not busy any more, and takes up no memory.
//!
//! So a handler that is flooded has one task in the pool, whatever is in its lane, and delays others no more
//! than any task does. A pool whose events had to be handed to a fixed thread would wait behind that thread's
//! other keys.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;

/// The lanes that are busy, and what waits in them.
type Busy<K, E> = HashMap<K, VecDeque<E>>;

/// Events `E` in lanes by key `K`.
pub struct Lanes<K, E> {
    shards: Box<[Mutex<Busy<K, E>>]>,
    hasher: RandomState,
}

impl<K: Hash + Eq, E> Default for Lanes<K, E> {
    fn default() -> Lanes<K, E> {
        Lanes::new()
    }
}

impl<K: Hash + Eq, E> Lanes<K, E> {
    /// No lane is busy.
    pub fn new() -> Lanes<K, E> {
        Lanes {
            shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect(),
            hasher: RandomState::new(),
        }
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Busy<K, E>> {
        let at = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event. True: the lane was not busy, and the caller must see to it that somebody calls
    /// [`Lanes::next`].
    #[must_use = "if it is true a turn must be scheduled"]
    pub fn push(&self, key: K, event: E) -> bool {
        match self.shard(&key).entry(key) {
            Entry::Occupied(mut lane) => {
                lane.get_mut().push_back(event);
                false
            }
            Entry::Vacant(lane) => {
                lane.insert(VecDeque::from([event]));
                true
            }
        }
    }

    /// The next event of a busy lane, for its turn, after the one before has been handled. None: the lane is
    /// not busy any more and the turn is over.
    pub fn next(&self, key: &K) -> Option<E> {
        let mut shard = self.shard(key);
        let event = shard.get_mut(key)?.pop_front();
        if event.is_none() {
            shard.remove(key);
        }
        event
    }

    /// How many events wait in a lane; the one that is being handled is not counted.
    pub fn len(&self, key: &K) -> usize {
        self.shard(key).get(key).map_or(0, VecDeque::len)
    }

    /// Whether no lane is busy.
    pub fn is_empty(&self) -> bool {
        self.busy() == 0
    }

    /// How many lanes are busy.
    pub fn busy(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
