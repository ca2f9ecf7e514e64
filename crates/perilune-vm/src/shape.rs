//! Shapes: which slot holds which string-keyed field.
//!
//! A shape (hidden class) is an immutable list of field names; field *i* of a table with this shape is in its slot *i*. Shapes form a
//! tree: the root has no field, a child adds one field to its parent. Tables that get the same fields in the same order
//! share a shape, so "is the shape 1234?" answers "is field `x` in slot 0?" for inline caches and machine code.
//!
//! # Global, append-only
//! Shapes are identified by a `u32` and belong to the process: what one domain learned about code is true in all. They refer to names by
//! *atom*, a global `u32` for a text, hence hold no pointer into any private heap. A shape is never changed or freed. Reading takes no
//! lock: ids index chunks that never move, and a shape's contents are complete before its id is told to anyone. Making one takes a
//! mutex, but only the first time a domain takes a transition: after that it is in the parent's `first_child` or in the domain's cache.
//!
//! # Bounded
//! An atom is made only for a transition, and transitions are capped: [`MAX_FIELDS`] fields in a shape, [`FAN_OUT`] children of one,
//! [`MAX_SHAPES`] in total, names of [`MAX_NAME`] bytes. Beyond a cap the answer is "no transition" and the table becomes a dictionary. So a program that invents field
//! names for ever costs at most these caps.
//!
//! Names also come from data (`table/data.rs`), and data comes from anywhere. So a decoder makes a shape only for names that it has met in this order before,
//! and all data together at most a quarter of the shapes, with lower caps for children: what a program's text needs is left.
//!
//! # Atoms and a domain's strings
//! An interned string carries the atom of its text in `LuaString::atom`, 0 if this domain has not met it as a field. The invariant that
//! makes look-ups local: **if a table of this domain has a shape, all names of the shape are adopted here**, that is, their strings
//! exist, carry their atoms, and are kept alive by [`ShapeTable`]. Transitions adopt as they go; a shape that arrives in another way
//! (a decoded message) must pass through [`Vm::adopt_shape`] first. Adopted names are roots: at most one string per atom, so
//! bounded too; keeping them weakly would need atoms to survive their strings.

use crate::Vm;
use crate::object::LuaString;
use crate::value::Gc;
use perilune_heap::Obj;
use std::collections::hash_map::Entry;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Not a shape: the table keeps its string keys in its hash part.
pub const DICT: u32 = 0;
/// The shape without fields.
pub const ROOT: u32 = 1;
/// As [`DICT`], for a table in an island: its string keys are strings of the island, which are not interned in any domain.
pub const FROZEN_DICT: u32 = 2;
/// Most fields of a shape.
pub const MAX_FIELDS: u32 = 64;
/// Most children of a shape other than the root.
pub const FAN_OUT: u32 = 128;
/// Most children of the root.
pub const ROOT_FAN_OUT: u32 = 4096;
/// Most shapes of the process.
pub const MAX_SHAPES: u32 = 65_536;
/// Most shapes that data may make.
pub const MAX_DATA_SHAPES: u32 = MAX_SHAPES / 4;
/// Most children of a shape when data wants another.
const DATA_FAN_OUT: u32 = FAN_OUT / 2;
/// Most children of the root when data wants another.
const DATA_ROOT_FAN_OUT: u32 = ROOT_FAN_OUT / 4;
/// Longest name of a field in bytes.
pub const MAX_NAME: usize = 256;

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;

/// A shape. All fields but `first_child`, `index` (and `children`, which the mutex guards) are written once, before the id is published.
struct Shape {
    /// Atom of the last field.
    atom: AtomicU32,
    parent: AtomicU32,
    /// Number of fields; the last one is in slot `count - 1`.
    count: AtomicU32,
    /// The first child that was made; 0: none.
    first_child: AtomicU32,
    children: AtomicU32,
    /// Built at the first look-up: `index_size(count)` entries, each `atom << 8 | slot` or 0, an open-addressing hash
    /// of the fields; then the fields' atoms by slot.
    index: AtomicPtr<u32>,
}

impl Shape {
    const fn empty() -> Shape {
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

/// The chunk of `DICT` and `ROOT`, so that every valid id has a chunk from the start.
static FIRST: [Shape; CHUNK] = [const { Shape::empty() }; CHUNK];
static CHUNKS: [AtomicPtr<Shape>; MAX_SHAPES as usize / CHUNK] = {
    let mut chunks = [const { AtomicPtr::new(null_mut()) }; MAX_SHAPES as usize / CHUNK];
    chunks[0] = AtomicPtr::new((&raw const FIRST) as *mut Shape);
    chunks
};

/// What making shapes needs; behind a mutex.
struct Registry {
    /// (parent, atom) -> child
    transitions: foldhash::HashMap<(u32, u32), u32>,
    atoms: foldhash::HashMap<&'static [u8], u32>,
    /// Texts by atom; the first is not an atom.
    texts: Vec<&'static [u8]>,
    next_shape: u32,
    /// How many of the shapes data has made.
    data_shapes: u32,
}

/// Who wants a transition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The text of a program.
    Program,
    /// Data, with names that it has had in this order before.
    Data,
    /// Data with other names: a transition that is not there yet is not made.
    NewData,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| {
    Mutex::new(Registry {
        transitions: Default::default(),
        atoms: Default::default(),
        texts: vec![b""],
        next_shape: FROZEN_DICT + 1,
        data_shapes: 0,
    })
});

fn registry() -> MutexGuard<'static, Registry> {
    // Nothing in here panics half-way.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(always)]
fn shape(id: u32) -> &'static Shape {
    debug_assert!(id < MAX_SHAPES);
    let chunk = CHUNKS[(id >> CHUNK_BITS) as usize % CHUNKS.len()].load(Acquire);
    debug_assert!(!chunk.is_null());
    // SAFETY: an id is given out after its chunk has been installed, and chunks are never freed.
    unsafe { &*chunk.add(id as usize % CHUNK) }
}

/// Whether tables of shape `id` keep their string keys in the hash part.
#[inline(always)]
pub(crate) fn is_dict(id: u32) -> bool {
    id & !FROZEN_DICT == DICT
}

/// Number of fields.
#[inline(always)]
pub(crate) fn field_count(id: u32) -> u32 {
    shape(id).count.load(Relaxed)
}

#[inline(always)]
fn index_size(count: u32) -> u32 {
    (count * 2).next_power_of_two()
}

/// The slot of the field `key` (an interned string) in tables of shape `id`; `None`: such tables have no field of that name, and neither
/// have they in their hash part, unless `id` is [`DICT`].
#[inline]
pub(crate) fn lookup(id: u32, key: Gc<LuaString>) -> Option<u32> {
    debug_assert!(key.is_interned());
    lookup_atom(id, key.atom)
}

#[inline]
fn lookup_atom(id: u32, atom: u32) -> Option<u32> {
    if atom == 0 || id <= FROZEN_DICT {
        return None;
    }
    let (index, count) = index(id);
    let mask = index_size(count) - 1;
    let mut i = atom & mask;
    loop {
        // SAFETY: the index has `mask + 1` entries, at least half of them 0.
        let entry = unsafe { *index.add(i as usize) };
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
pub(crate) fn atom_at(id: u32, slot: u32) -> u32 {
    let (index, count) = index(id);
    debug_assert!(slot < count);
    // SAFETY: the atoms of all slots follow the hash.
    unsafe { *index.add((index_size(count) + slot) as usize) }
}

/// The index of a shape with at least one field, and the number of fields.
#[inline(always)]
fn index(id: u32) -> (*const u32, u32) {
    let s = shape(id);
    let count = s.count.load(Relaxed);
    let index = s.index.load(Acquire);
    (if index.is_null() { build_index(s, count) } else { index }, count)
}

/// The name of the field in `slot` of shape `id`.
pub(crate) fn name_of(id: u32, slot: u32) -> &'static [u8] {
    let (index, count) = index(id);
    // SAFETY: the atoms of all slots follow the hash.
    let atom = unsafe { *index.add((index_size(count) + slot) as usize) };
    registry().texts[atom as usize]
}

#[cold]
#[inline(never)]
fn build_index(s: &'static Shape, count: u32) -> *const u32 {
    let size = index_size(count);
    let mut index = vec![0u32; (size + count) as usize].into_boxed_slice();
    let mut at = s;
    for slot in (0..count).rev() {
        let atom = at.atom.load(Relaxed);
        index[(size + slot) as usize] = atom;
        let mut i = atom & (size - 1);
        while index[i as usize] != 0 {
            i = (i + 1) & (size - 1);
        }
        index[i as usize] = atom << 8 | slot;
        at = shape(at.parent.load(Relaxed));
    }
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
fn first_child(parent: u32, atom: u32) -> Option<u32> {
    let child = shape(parent).first_child.load(Acquire);
    if child != 0 && shape(child).atom.load(Relaxed) == atom { Some(child) } else { None }
}

/// Finds or makes the child of `parent` that adds a field named `text`; returns it with the atom.
fn make_child(parent: u32, text: &[u8], origin: Origin) -> Option<(u32, u32)> {
    let p = shape(parent);
    let mut registry = registry();
    let r = &mut *registry;
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
    r.data_shapes += u32::from(origin == Origin::Data);
    let atom = known.unwrap_or_else(|| {
        let text: &'static [u8] = Box::leak(text.into());
        let atom = r.texts.len() as u32;
        r.texts.push(text);
        r.atoms.insert(text, atom);
        atom
    });
    r.next_shape += 1;
    let chunk = &CHUNKS[(id >> CHUNK_BITS) as usize];
    if chunk.load(Acquire).is_null() {
        let new: Box<[Shape; CHUNK]> = Box::new([const { Shape::empty() }; CHUNK]);
        chunk.store(Box::into_raw(new).cast(), Release);
    }
    let child = shape(id);
    child.atom.store(atom, Relaxed);
    child.parent.store(parent, Relaxed);
    child.count.store(p.count.load(Relaxed) + 1, Relaxed);
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

const CACHE: usize = 512;
/// Lists of names of data that are remembered, as hashes.
const SEEN: usize = 1024;

/// What a domain keeps about shapes.
pub struct ShapeTable {
    /// The strings of adopted atoms, by atom; null: not adopted.
    names: Vec<*mut LuaString>,
    /// Atoms adopted since the last collection.
    recent: Vec<u32>,
    /// Transitions taken: (parent << 32 | atom, child), direct-mapped.
    cache: Box<[(u64, u32); CACHE]>,
    /// Hashes of lists of names that data has had, direct-mapped; empty until there is data.
    seen: Vec<u32>,
}

impl Default for ShapeTable {
    fn default() -> Self {
        ShapeTable {
            names: Vec::new(),
            recent: Vec::new(),
            cache: Box::new([(0, 0); CACHE]),
            seen: Vec::new(),
        }
    }
}

impl ShapeTable {
    /// Reports the strings of adopted atoms, which are roots: in a minor collection only those adopted since the last collection.
    pub(crate) fn trace(&self, minor: bool, mut mark: impl FnMut(Obj)) {
        if minor {
            for &atom in &self.recent {
                Obj::new(self.names[atom as usize].cast()).map(&mut mark);
            }
        } else {
            self.names.iter().filter_map(|n| Obj::new(n.cast())).for_each(mark);
        }
    }

    /// To be called at the end of every collection: what has been adopted so far is old now.
    pub(crate) fn collected(&mut self) {
        self.recent.clear();
    }

    /// Makes `name` the domain's string of `atom`.
    fn adopt(&mut self, name: Gc<LuaString>, atom: u32) {
        if name.atom == atom {
            return;
        }
        debug_assert!(name.is_interned() && name.atom == 0);
        // SAFETY: the string is alive; its atom is set once.
        unsafe { (*name.ptr()).atom = atom };
        if self.names.len() <= atom as usize {
            self.names.resize(atom as usize + 1, null_mut());
        }
        self.names[atom as usize] = name.ptr();
        self.recent.push(atom);
    }

    /// Whether data has had this list of names lately; from now on it has.
    fn has_seen(&mut self, hash: u32) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN];
        }
        std::mem::replace(&mut self.seen[hash as usize % SEEN], hash) == hash
    }

    /// The domain's string for `atom`; null: not adopted.
    #[inline(always)]
    pub(crate) fn known_name(&self, atom: u32) -> *mut LuaString {
        self.names.get(atom as usize).copied().unwrap_or(null_mut())
    }

    #[inline(always)]
    fn cache_slot(parent: u32, atom: u32) -> usize {
        (parent.wrapping_mul(0x9e37_79b1) >> 16 ^ atom) as usize % CACHE
    }

    /// The transition from `id` by `key`, if it is known without taking the lock.
    #[inline]
    pub(crate) fn known_transition(&self, id: u32, key: Gc<LuaString>) -> Option<u32> {
        let atom = key.atom;
        if atom == 0 {
            return None;
        }
        if let Some(child) = first_child(id, atom) {
            return Some(child);
        }
        let (cached, child) = self.cache[Self::cache_slot(id, atom)];
        if cached == (id as u64) << 32 | atom as u64 { Some(child) } else { None }
    }
}

impl Vm {
    /// The shape that adds the field `key` (interned) to shape `id`, which does not have it; `None` beyond a cap.
    #[inline]
    pub(crate) fn shape_transition(&mut self, id: u32, key: Gc<LuaString>) -> Option<u32> {
        debug_assert!(id != DICT && lookup(id, key).is_none());
        match self.lua.interned.shapes.known_transition(id, key) {
            None => self.shape_transition_slow(id, key),
            child => child,
        }
    }

    #[cold]
    #[inline(never)]
    fn shape_transition_slow(&mut self, id: u32, key: Gc<LuaString>) -> Option<u32> {
        self.ask_for_transition(id, key, Origin::Program)
    }

    /// The shape whose fields are the names (interned) that data has in this order; `None` if there is none: a name is repeated, they have not been met in this order before, or
    /// there is a cap.
    pub(crate) fn shape_of_names(
        &mut self,
        names: impl Iterator<Item = Gc<LuaString>> + Clone,
    ) -> Option<u32> {
        let mut id = ROOT;
        let mut origin = None;
        for name in names.clone() {
            // No known transition repeats a field.
            id = match self.lua.interned.shapes.known_transition(id, name) {
                Some(child) => child,
                None => {
                    if lookup(id, name).is_some() {
                        return None;
                    }
                    let origin = *origin.get_or_insert_with(|| {
                        let hash = names
                            .clone()
                            .fold(1u32, |h, n| (h ^ n.hash()).wrapping_mul(0x9e37_79b1).rotate_left(11));
                        if self.lua.interned.shapes.has_seen(hash.max(1)) {
                            Origin::Data
                        } else {
                            Origin::NewData
                        }
                    });
                    self.ask_for_transition(id, name, origin)?
                }
            };
        }
        Some(id)
    }

    fn ask_for_transition(&mut self, id: u32, key: Gc<LuaString>, origin: Origin) -> Option<u32> {
        if field_count(id) >= MAX_FIELDS || key.len() > MAX_NAME {
            return None;
        }
        let (child, atom) = make_child(id, key.bytes(), origin)?;
        self.lua.interned.shapes.adopt(key, atom);
        self.lua.interned.shapes.cache[ShapeTable::cache_slot(id, atom)] =
            ((id as u64) << 32 | atom as u64, child);
        Some(child)
    }

    /// The shape whose fields are `keys` (interned) in this order, repeated ones left out; `None` beyond a cap.
    #[cfg(test)]
    pub(crate) fn shape_for_keys(&mut self, keys: &[Gc<LuaString>]) -> Option<u32> {
        let mut id = ROOT;
        for &key in keys {
            if lookup(id, key).is_none() {
                id = self.shape_transition(id, key)?;
            }
        }
        Some(id)
    }

    /// The domain's string for the field in `slot` of shape `id`.
    #[inline]
    pub(crate) fn key_at(&mut self, id: u32, slot: u32) -> Gc<LuaString> {
        let atom = atom_at(id, slot);
        match self.lua.interned.shapes.known_name(atom) {
            // SAFETY: adopted strings are roots.
            name if !name.is_null() => unsafe { Gc::from_ptr(name) },
            _ => self.adopt_atom(atom),
        }
    }

    #[cold]
    fn adopt_atom(&mut self, atom: u32) -> Gc<LuaString> {
        let text = registry().texts[atom as usize];
        let name = self
            .intern_bytes(text)
            .unwrap_or_else(|_| unreachable!("names are shorter than the heap's small limit"));
        self.lua.interned.shapes.adopt(name, atom);
        name
    }

    /// Makes the names of a shape that this domain has not built itself known here. Required before a table gets such a shape.
    pub(crate) fn adopt_shape(&mut self, id: u32) {
        for slot in 0..field_count(id) {
            self.key_at(id, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::bare_vm;

    #[test]
    fn same_fields_same_order_same_shape() {
        let vm = &mut bare_vm();
        let [x, y, z] = ["shape x", "shape y", "shape z"].map(|s| vm.intern_bytes(s.as_bytes()).unwrap());
        assert_eq!(lookup(ROOT, x), None);
        let xy = vm.shape_for_keys(&[x, y]).unwrap();
        let yx = vm.shape_for_keys(&[y, x]).unwrap();
        assert_ne!(xy, yx);
        assert_eq!(vm.shape_for_keys(&[x, y, x]), Some(xy));
        assert_eq!((lookup(xy, x), lookup(xy, y), lookup(xy, z)), (Some(0), Some(1), None));
        assert_eq!((lookup(yx, x), lookup(yx, y)), (Some(1), Some(0)));
        assert_eq!((field_count(xy), field_count(ROOT)), (2, 0));
        assert!(vm.key_at(xy, 0) == x && vm.key_at(xy, 1) == y);
        // Another domain arrives at the same ids by its own strings.
        let other = &mut bare_vm();
        let [x2, y2] = ["shape x", "shape y"].map(|s| other.intern_bytes(s.as_bytes()).unwrap());
        assert_eq!(lookup(xy, x2), None);
        other.adopt_shape(xy);
        assert_eq!((lookup(xy, x2), lookup(xy, y2)), (Some(0), Some(1)));
        assert_eq!(other.shape_for_keys(&[x2, y2]), Some(xy));
        assert!(other.key_at(xy, 1) == y2);
    }

    #[test]
    fn caps() {
        let vm = &mut bare_vm();
        let keys: Vec<_> =
            (0..=MAX_FIELDS).map(|i| vm.intern_bytes(format!("cap {i}").as_bytes()).unwrap()).collect();
        let full = vm.shape_for_keys(&keys[..MAX_FIELDS as usize]).unwrap();
        for (i, &k) in keys[..MAX_FIELDS as usize].iter().enumerate() {
            assert_eq!(lookup(full, k), Some(i as u32));
        }
        assert_eq!(vm.shape_transition(full, keys[MAX_FIELDS as usize]), None);
        // No atom was made for the refused name.
        assert_eq!(keys[MAX_FIELDS as usize].atom, 0);

        let base = vm.shape_for_keys(&[keys[0]]).unwrap();
        let made = (0..FAN_OUT + 10)
            .filter(|i| {
                let k = vm.intern_bytes(format!("fan {i}").as_bytes()).unwrap();
                vm.shape_transition(base, k).is_some()
            })
            .count();
        // `base` has one child from above.
        assert_eq!(made, FAN_OUT as usize - 1);
        let k = vm.intern_bytes(b"fan 0").unwrap();
        assert!(vm.shape_transition(base, k).is_some(), "existing transitions stay");
    }

    #[test]
    fn adopted_names_are_reported() {
        let vm = &mut bare_vm();
        let k = vm.intern_bytes(b"a name adopted here").unwrap();
        vm.shape_for_keys(&[k]).unwrap();
        let mut seen = Vec::new();
        vm.lua.interned.shapes.trace(true, |o| seen.push(o));
        assert!(seen.contains(&k.obj()));
        vm.lua.interned.shapes.collected();
        let mut minor = 0;
        vm.lua.interned.shapes.trace(true, |_| minor += 1);
        let mut major = 0;
        vm.lua.interned.shapes.trace(false, |_| major += 1);
        assert_eq!((minor, major), (0, seen.len()));
    }
}
