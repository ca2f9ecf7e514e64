//! The process's shapes and atoms: a tree that only grows.
//!
//! Reading takes no lock; making a shape takes the [`Registry`], which its user keeps behind a mutex. Three
//! things are published:
//!
//! | what | by | to |
//! |---|---|---|
//! | a chunk | the release of its pointer | whoever has an id in it |
//! | a shape | the release of its id in the parent's `first_child`, or the mutex | whoever gets the id there |
//! | an index | the release of its pointer; of several that build one the first | whoever looks a name up |
//!
//! Whoever tells an id to another thread in a further way does so with a release of its own: a message does.
//! `tests/model` looks at every interleaving.

use super::sync::{AtomicPtr, AtomicU32, CHUNK_BITS, CHUNKS, Cell, Ordering::*, constant, null_pointers};
use std::collections::hash_map::Entry;
use std::ptr::null_mut;

/// Not a shape: the table keeps its string keys in its hash part.
pub const DICT: u32 = 0;
/// The shape without fields.
pub const ROOT: u32 = 1;
/// As [`DICT`], for a table in an island: its string keys are strings of the island, which are not interned
/// in any domain.
pub const FROZEN_DICT: u32 = 2;
/// Most fields of a shape.
pub const MAX_FIELDS: u32 = 64;
/// Most children of a shape other than the root.
pub const FAN_OUT: u32 = 128;
/// Most children of the root.
pub const ROOT_FAN_OUT: u32 = 4096;
/// Most shapes of the process.
pub const MAX_SHAPES: u32 = (CHUNKS << CHUNK_BITS) as u32;
/// Most shapes that data may make.
pub const MAX_DATA_SHAPES: u32 = MAX_SHAPES / 4;
/// Most children of a shape when data wants another.
const DATA_FAN_OUT: u32 = FAN_OUT / 2;
/// Most children of the root when data wants another.
const DATA_ROOT_FAN_OUT: u32 = ROOT_FAN_OUT / 4;
/// Shapes in a chunk.
pub const CHUNK: usize = 1 << CHUNK_BITS;

/// A shape. All fields but `first_child`, `index` (and `children`, which the mutex guards) are written once,
/// before the id is published.
pub struct Shape {
    /// Atom of the last field.
    atom: AtomicU32,
    parent: AtomicU32,
    /// Number of fields; the last one is in slot `count - 1`.
    count: AtomicU32,
    /// The first child that was made; 0: none.
    first_child: AtomicU32,
    children: AtomicU32,
    /// Built at the first look-up: `index_size(count)` entries, each `atom << 8 | slot` or 0, an
    /// open-addressing hash of the fields; then the fields' atoms by slot.
    pub index: AtomicPtr<Cell<u32>>,
}

impl Shape {
    constant! {
        /// Room for one.
        pub fn empty() -> Shape {
            Shape {
                atom: AtomicU32::new(0),
                parent: AtomicU32::new(0),
                count: AtomicU32::new(0),
                first_child: AtomicU32::new(0),
                children: AtomicU32::new(0),
                index: AtomicPtr::new(null_mut()),
            }
        }
    }

    /// Number of fields.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

/// All shapes, by id.
pub struct Tree {
    /// Chunks of shapes, never freed.
    pub chunks: [AtomicPtr<Shape>; CHUNKS],
}

/// What making shapes needs; behind a mutex.
pub struct Registry {
    /// (parent, atom) -> child
    transitions: foldhash::HashMap<(u32, u32), u32>,
    atoms: foldhash::HashMap<&'static [u8], u32>,
    /// Texts by atom; the first is not an atom.
    pub texts: Vec<&'static [u8]>,
    next_shape: u32,
    /// How many of the shapes data has made.
    data_shapes: u32,
}

/// Who wants a transition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The text of a program.
    Program,
    /// Data, with names that it has had in this order before.
    Data,
    /// Data with other names: a transition that is not there yet is not made.
    NewData,
}

impl Registry {
    /// No atom, and no shape but those that are always there.
    pub fn new() -> Registry {
        Registry {
            transitions: Default::default(),
            atoms: Default::default(),
            texts: vec![b""],
            next_shape: FROZEN_DICT + 1,
            data_shapes: 0,
        }
    }
}

#[inline(always)]
fn index_size(count: u32) -> u32 {
    (count * 2).next_power_of_two()
}

impl Tree {
    constant! {
        /// # Safety
        /// `first` is the first chunk, [`CHUNK`] shapes that live as long as the tree: [`DICT`] and [`ROOT`]
        /// are in it.
        pub unsafe fn new(first: *mut Shape) -> Tree {
            let mut chunks = null_pointers();
            chunks[0] = AtomicPtr::new(first);
            Tree { chunks }
        }
    }

    /// A shape whose id has been given out.
    #[inline(always)]
    pub fn shape(&self, id: u32) -> &Shape {
        debug_assert!(id < MAX_SHAPES);
        let chunk = self.chunks[(id >> CHUNK_BITS) as usize % CHUNKS].load(Acquire);
        debug_assert!(!chunk.is_null());
        // SAFETY: an id is given out after its chunk has been installed, and chunks are never freed.
        unsafe { &*chunk.add(id as usize % CHUNK) }
    }

    /// The slot of the field with this atom; `None`: there is none.
    #[inline]
    pub fn lookup(&self, id: u32, atom: u32) -> Option<u32> {
        if atom == 0 || id <= FROZEN_DICT {
            return None;
        }
        let (index, count) = self.index(id);
        let mask = index_size(count) - 1;
        let mut i = atom & mask;
        loop {
            // SAFETY: the index has `mask + 1` entries, at least half of them 0, and nobody writes it any
            // more.
            let entry = unsafe { *(*index.add(i as usize)).to_read() };
            if entry >> 8 == atom {
                return Some(entry & 0xff);
            }
            if entry == 0 {
                return None;
            }
            i = (i + 1) & mask;
        }
    }

    /// The atom of the field in `slot` of shape `id`, which has that many fields.
    #[inline(always)]
    pub fn atom_at(&self, id: u32, slot: u32) -> u32 {
        let (index, count) = self.index(id);
        debug_assert!(slot < count);
        // SAFETY: the atoms of all slots follow the hash; nobody writes them any more.
        unsafe { *(*index.add((index_size(count) + slot) as usize)).to_read() }
    }

    /// The index of a shape with at least one field, and the number of fields.
    #[inline(always)]
    fn index(&self, id: u32) -> (*const Cell<u32>, u32) {
        let s = self.shape(id);
        let count = s.count();
        let index = s.index.load(Acquire);
        (if index.is_null() { self.build_index(s, count) } else { index }, count)
    }

    #[cold]
    #[inline(never)]
    fn build_index(&self, s: &Shape, count: u32) -> *const Cell<u32> {
        let size = index_size(count);
        let mut index = vec![0u32; (size + count) as usize];
        let mut at = s;
        for slot in (0..count).rev() {
            let atom = at.atom.load(Relaxed);
            index[(size + slot) as usize] = atom;
            let mut i = atom & (size - 1);
            while index[i as usize] != 0 {
                i = (i + 1) & (size - 1);
            }
            index[i as usize] = atom << 8 | slot;
            at = self.shape(at.parent.load(Relaxed));
        }
        let index: Box<[Cell<u32>]> = index.into_iter().map(Cell::new).collect();
        let new = Box::into_raw(index);
        match s.index.compare_exchange(null_mut(), new.cast(), AcqRel, Acquire) {
            Ok(_) => new.cast(),
            Err(theirs) => {
                // SAFETY: ours was not published; it came from `Box::into_raw` above.
                drop(unsafe { Box::from_raw(new) });
                theirs
            }
        }
    }

    /// The child of `parent` that adds `atom`, if `parent` has only ever had that child or it was its first.
    #[inline(always)]
    pub fn first_child(&self, parent: u32, atom: u32) -> Option<u32> {
        let child = self.shape(parent).first_child.load(Acquire);
        if child != 0 && self.shape(child).atom.load(Relaxed) == atom { Some(child) } else { None }
    }

    /// Finds or makes the child of `parent` that adds a field named `text`; returns it with the atom. `r` is
    /// the registry of this tree.
    pub fn make_child(
        &self,
        r: &mut Registry,
        parent: u32,
        text: &[u8],
        origin: Origin,
    ) -> Option<(u32, u32)> {
        let p = self.shape(parent);
        let known = r.atoms.get(text).copied();
        if let Some(&child) = known.and_then(|atom| r.transitions.get(&(parent, atom))) {
            return Some((child, known?));
        }
        let id = r.next_shape;
        let children = p.children.load(Relaxed);
        let fan_out = match origin {
            Origin::Program if parent == ROOT => ROOT_FAN_OUT,
            Origin::Program => FAN_OUT,
            Origin::Data if r.data_shapes >= MAX_DATA_SHAPES => return None,
            Origin::Data if parent == ROOT => DATA_ROOT_FAN_OUT,
            Origin::Data => DATA_FAN_OUT,
            Origin::NewData => return None,
        };
        if id >= MAX_SHAPES || children >= fan_out {
            return None;
        }
        let has_room = r.transitions.try_reserve(1).is_ok()
            && r.atoms.try_reserve(1).is_ok()
            && r.texts.try_reserve(1).is_ok();
        if !has_room {
            return None;
        }
        r.data_shapes += u32::from(origin == Origin::Data);
        let atom = known.unwrap_or_else(|| {
            let text: &'static [u8] = Box::leak(text.into());
            let atom = r.texts.len() as u32;
            r.texts.push(text);
            r.atoms.insert(text, atom);
            atom
        });
        r.next_shape += 1;
        let chunk = &self.chunks[(id >> CHUNK_BITS) as usize];
        if chunk.load(Acquire).is_null() {
            let new: Box<[Shape]> = (0..CHUNK).map(|_| Shape::empty()).collect();
            chunk.store(Box::into_raw(new).cast(), Release);
        }
        let child = self.shape(id);
        child.atom.store(atom, Relaxed);
        child.parent.store(parent, Relaxed);
        child.count.store(p.count() + 1, Relaxed);
        match r.transitions.entry((parent, atom)) {
            Entry::Vacant(e) => e.insert(id),
            Entry::Occupied(_) => unreachable!("looked up above"),
        };
        p.children.store(children + 1, Relaxed);
        if children == 0 {
            p.first_child.store(id, Release);
        }
        Some((id, atom))
    }
}
