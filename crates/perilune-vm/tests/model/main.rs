//! Model checks of the tree of shapes: every interleaving of a few threads, within a bound on preemptions,
//! under C11's memory model.
//!
//! The file is compiled here a second time, with `sync.rs` of this folder in place of the crate's: loom's
//! types work only inside a model.

#![allow(dead_code, missing_docs)]

#[path = "../../src/shape"]
mod shape {
    #[path = "../../tests/model/sync.rs"]
    pub mod sync;
    #[path = "tree.rs"]
    pub mod tree;
}

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use shape::tree::{CHUNK, MAX_SHAPES, Origin, ROOT, Registry, Shape, Tree};
use std::sync::Arc;

/// A tree, its registry, and a place by which one thread tells another of a shape.
struct World {
    tree: Tree,
    registry: Mutex<Registry>,
    told: AtomicU32,
}

// SAFETY: as the static of the library: what its pointers lead to is changed by atomic operations only.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let first: Box<[Shape]> = (0..CHUNK).map(|_| Shape::empty()).collect();
        // SAFETY: the chunk is freed with the world.
        let tree = unsafe { Tree::new(Box::into_raw(first).cast()) };
        Arc::new(World { tree, registry: Mutex::new(Registry::new()), told: AtomicU32::new(0) })
    }

    /// The shape that has these fields, made as a domain makes it: by the first child where that is the one,
    /// else under the mutex. With the fields' atoms.
    fn make(&self, names: &[&str]) -> (u32, Vec<u32>) {
        let (mut id, mut atoms) = (ROOT, Vec::new());
        for name in names {
            let made = self.tree.make_child(
                &mut self.registry.lock().unwrap(),
                id,
                name.as_bytes(),
                Origin::Program,
            );
            let (child, atom) = made.expect("within the caps");
            assert!(self.tree.first_child(id, atom).is_none_or(|c| c == child));
            id = child;
            atoms.push(atom);
        }
        (id, atoms)
    }

    /// The shape is complete, whoever looks.
    fn check(&self, id: u32, atoms: &[u32]) {
        assert_eq!(self.tree.shape(id).count() as usize, atoms.len());
        for (slot, &atom) in atoms.iter().enumerate() {
            assert_eq!(self.tree.lookup(id, atom), Some(slot as u32));
            assert_eq!(self.tree.atom_at(id, slot as u32), atom);
        }
        assert_eq!(self.tree.lookup(id, 99), None);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for chunk in &self.tree.chunks {
            let chunk = chunk.load(Ordering::Acquire);
            if chunk.is_null() {
                continue;
            }
            // SAFETY: made by `Box::into_raw` of so many, and nobody else is left.
            let shapes = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(chunk, CHUNK)) };
            for shape in &*shapes {
                let (index, count) = (shape.index.load(Ordering::Acquire), shape.count());
                if !index.is_null() {
                    let entries = ((count * 2).next_power_of_two() + count) as usize;
                    // SAFETY: as above.
                    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(index, entries)) });
                }
            }
        }
    }
}

fn explore(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_duration = Some(std::time::Duration::from_secs(20));
    model.check(f);
}

/// Two domains come to the same fields, and one to others: one shape for each list, complete for both, also
/// across the border of a chunk.
#[test]
fn the_same_fields_are_the_same_shape() {
    explore(|| {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let (id, atoms) = world.make(&["y", "x"]);
                world.check(id, &atoms);
                world.make(&["x"]).0
            })
        };
        let (id, atoms) = world.make(&["x", "y"]);
        world.check(id, &atoms);
        let x = other.join().unwrap();
        assert_eq!(world.make(&["x"]).0, x);
        assert_eq!(world.make(&["x", "y"]), (id, atoms));
        assert!(id < MAX_SHAPES);
    });
}

/// Who finds a first child without the mutex finds it complete, and so is the index that both build.
#[test]
fn a_first_child_is_complete_when_it_is_found() {
    explore(|| {
        let world = World::new();
        let (x, atoms) = world.make(&["x"]);
        let y = world.registry.lock().unwrap().texts.len() as u32;
        let other = {
            let (world, atoms) = (world.clone(), atoms.clone());
            thread::spawn(move || {
                if let Some(xy) = world.tree.first_child(x, y) {
                    world.check(xy, &[atoms[0], y]);
                }
            })
        };
        let (xy, made) = world.make(&["x", "y"]);
        assert_eq!(made, [atoms[0], y]);
        world.check(xy, &made);
        other.join().unwrap();
        assert_eq!(world.tree.first_child(x, y), Some(xy));
    });
}

/// An id that arrives by a message, in a chunk that this thread has never looked into.
#[test]
fn a_shape_that_is_told_of_is_complete() {
    explore(|| {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let told = world.told.load(Ordering::Acquire);
                if told != 0 {
                    world.check(told, &[1, 2]);
                }
            })
        };
        let (id, atoms) = world.make(&["x", "y"]);
        assert_eq!(atoms, [1, 2]);
        world.told.store(id, Ordering::Release);
        other.join().unwrap();
    });
}
