//! Model checks of the counts of islands: every interleaving of a few threads, within a bound on preemptions, under C11's memory model.
//!
//! The file is compiled here a second time, with `sync.rs` of this folder in place of the crate's: loom's types work only inside a model.

#![allow(dead_code, missing_docs)]

#[path = "../../src/island"]
mod island {
    #[path = "slot.rs"]
    pub mod slot;
    #[path = "../../tests/loom/sync.rs"]
    pub mod sync;
}

use island::slot::Slot;
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

/// A slot is emptied and published again while somebody looks for what is alive: it finds the one or the other, whole, and each is taken once.
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
