//! Model checks of the counts of islands, of what heaps hold, and of the owners of pages: every interleaving
//! of a few threads, within a bound on preemptions, under C11's memory model.
//!
//! The files are compiled here a second time, with `sync.rs` of this folder in place of the crate's: loom's
//! types work only inside a model.

#![allow(dead_code, missing_docs)]

#[path = "../../src/island"]
mod island {
    #[path = "owners.rs"]
    pub mod owners;
    #[path = "slot.rs"]
    pub mod slot;
    #[path = "../../tests/loom/sync.rs"]
    pub mod sync;
}

use island::owners::Owners;
use island::slot::Slot;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

/// A slot, and how often its body has been taken.
struct World {
    slot: Slot<u32>,
    taken: AtomicUsize,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { slot: Slot::new(0), taken: AtomicUsize::new(0) })
    }

    /// Reads, then gives up a count that the caller has; the last one takes the body.
    fn read_and_lower(&self, want: impl Fn(u32) -> bool) -> bool {
        // SAFETY: the caller has a count, and gives it up here.
        unsafe {
            assert!(want(*self.slot.body()));
            let last = self.slot.lower();
            if last {
                assert!(want(self.slot.take(0)));
                self.taken.fetch_add(1, Ordering::Relaxed);
            }
            last
        }
    }
}

fn explore(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_duration = Some(std::time::Duration::from_secs(20));
    model.check(f);
}

/// Two holders and one who looks for whatever is alive: the body is taken once, when all have read it.
#[test]
fn the_last_count_takes_the_body_after_all_readers() {
    explore(|| {
        let world = World::new();
        // SAFETY: nobody else has the slot; then this thread has the count.
        unsafe {
            world.slot.publish(7);
            world.slot.raise();
        }
        let holder = {
            let world = world.clone();
            thread::spawn(move || _ = world.read_and_lower(|b| b == 7))
        };
        let looker = {
            let world = world.clone();
            thread::spawn(move || {
                if world.slot.raise_if_alive() {
                    world.read_and_lower(|b| b == 7);
                }
            })
        };
        world.read_and_lower(|b| b == 7);
        holder.join().unwrap();
        looker.join().unwrap();
        assert_eq!((world.taken.load(Ordering::Relaxed), world.slot.count()), (1, 0));
        assert!(!world.slot.raise_if_alive(), "zero is final");
    });
}

/// A slot is emptied and published again while somebody looks for what is alive: it finds the one or the
/// other, whole, and each is taken once.
#[test]
fn a_number_that_is_used_again_is_one_island_or_the_other() {
    explore(|| {
        let world = World::new();
        let looker = {
            let world = world.clone();
            thread::spawn(move || {
                let mut freed = false;
                for _ in 0..2 {
                    if world.slot.raise_if_alive() {
                        freed |= world.read_and_lower(|b| b == 1 || b == 2);
                    }
                }
                freed
            })
        };
        // SAFETY: nobody else publishes.
        unsafe { world.slot.publish(1) };
        let again = world.read_and_lower(|b| b == 1);
        if again {
            // SAFETY: the last count of the first was this thread's: the slot is.
            unsafe { world.slot.publish(2) };
            world.read_and_lower(|b| b == 2);
        }
        let freed = looker.join().unwrap();
        assert_eq!(world.taken.load(Ordering::Relaxed), 1 + usize::from(again));
        assert!(again || freed, "somebody gave up the last count");
        assert_eq!(world.slot.count(), 0);
    });
}

/// Islands of a page each, as `mod.rs` and `memory.rs` keep them: numbers and pages are given out under one
/// mutex.
struct Islands {
    slots: Vec<Slot<Island>>,
    owners: Owners,
    state: Mutex<State>,
    freed: AtomicUsize,
}

/// What the mutex protects.
struct State {
    numbers: Vec<u32>,
    pages: Vec<usize>,
}

/// A body: its page, and the islands that it refers to.
#[derive(Clone)]
struct Island {
    page: usize,
    refs: Vec<u32>,
}

const NONE: Island = Island { page: usize::MAX, refs: Vec::new() };

impl Islands {
    fn new() -> Arc<Islands> {
        Arc::new(Islands {
            slots: (0..3).map(|_| Slot::new(NONE)).collect(),
            owners: Owners::new(),
            state: Mutex::new(State { numbers: vec![2, 1], pages: vec![3, 0] }),
            freed: AtomicUsize::new(0),
        })
    }

    /// A new island; the caller has its count, and gives up one of each in `refs`.
    fn make(&self, refs: Vec<u32>) -> u32 {
        let mut state = self.state.lock().unwrap();
        let (number, page) = (state.numbers.pop().unwrap(), state.pages.pop().unwrap());
        self.owners.set(page..page + 1, number);
        drop(state);
        // SAFETY: the number was free.
        unsafe { self.slots[number as usize].publish(Island { page, refs }) };
        number
    }

    fn body(&self, number: u32) -> &Island {
        // SAFETY: callers have a count.
        unsafe { self.slots[number as usize].body() }
    }

    fn raise(&self, number: u32) {
        // SAFETY: callers have a count, or one of an island that refers to it.
        unsafe { self.slots[number as usize].raise() }
    }

    /// Gives up a count, as `lower` and `free` do.
    fn lower(&self, number: u32) {
        let mut dead = vec![number];
        while let Some(n) = dead.pop() {
            // SAFETY: the count is the caller's, or that of an island that is gone.
            if !unsafe { self.slots[n as usize].lower() } {
                continue;
            }
            // SAFETY: that was the last.
            let body = unsafe { self.slots[n as usize].take(NONE) };
            let mut state = self.state.lock().unwrap();
            self.owners.set(body.page..body.page + 1, 0);
            state.pages.push(body.page);
            state.numbers.push(n);
            drop(state);
            self.freed.fetch_add(1, Ordering::Relaxed);
            dead.extend(body.refs);
        }
    }

    /// Takes over a count, and one of each island below, as a heap does that adopts one; gives them up again.
    fn adopt_and_release(&self, number: u32) {
        let (mut held, mut todo) = (vec![number], vec![number]);
        while let Some(n) = todo.pop() {
            for &older in &self.body(n).refs {
                if !held.contains(&older) {
                    self.raise(older);
                    held.push(older);
                    todo.push(older);
                }
            }
        }
        for &n in &held {
            self.check(n);
        }
        held.into_iter().for_each(|n| self.lower(n));
    }

    /// Who holds an island finds its number at its page and nowhere else.
    fn check(&self, number: u32) {
        let at = self.body(number).page;
        for page in 0..4 {
            assert_eq!(self.owners.of(page) == number, page == at, "island {number}, page {page}");
        }
    }
}

/// An island is freed while another is made, with its number and its page perhaps: whoever holds either knows
/// its pages.
#[test]
fn who_holds_an_island_knows_its_pages() {
    explore(|| {
        let islands = Islands::new();
        let first = islands.make(Vec::new());
        let told = Arc::new(Mutex::new(None));
        let reader = {
            let (islands, told) = (islands.clone(), told.clone());
            thread::spawn(move || {
                // A word that may be anything, at any time.
                islands.owners.of(0);
                let news = told.lock().unwrap().take();
                if let Some(number) = news {
                    islands.check(number);
                    islands.lower(number);
                }
            })
        };
        let maker = {
            let (islands, told) = (islands.clone(), told.clone());
            thread::spawn(move || {
                let number = islands.make(Vec::new());
                islands.check(number);
                *told.lock().unwrap() = Some(number);
            })
        };
        islands.check(first);
        islands.lower(first);
        maker.join().unwrap();
        reader.join().unwrap();
        let left = told.lock().unwrap().take();
        if let Some(number) = left {
            islands.check(number);
            islands.lower(number);
        }
        assert_eq!(islands.freed.load(Ordering::Relaxed), 2);
        assert_eq!(islands.state.lock().unwrap().pages.len(), 2);
    });
}

/// An island arrives in one heap while another gives it up, with what it refers to: all are held as long as
/// somebody can reach them, then freed once.
#[test]
fn what_an_island_refers_to_is_alive_while_it_arrives() {
    explore(|| {
        let islands = Islands::new();
        let inner = islands.make(Vec::new());
        islands.raise(inner);
        let outer = islands.make(vec![inner]);
        // The message's count.
        islands.raise(outer);
        let receiver = {
            let islands = islands.clone();
            thread::spawn(move || islands.adopt_and_release(outer))
        };
        // The sender's heap holds both, and gives them up.
        islands.lower(inner);
        islands.lower(outer);
        receiver.join().unwrap();
        assert_eq!(islands.freed.load(Ordering::Relaxed), 2);
        assert_eq!(islands.state.lock().unwrap().numbers.len(), 2);
    });
}
