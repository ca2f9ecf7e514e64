//! Shapes: which slot holds which string-keyed field.
//!
//! A shape (hidden class) is an immutable list of field names; field *i* of a table with this shape is in its
//! slot *i*. Shapes form a tree: the root has no field, a child adds one field to its parent. Tables that get
//! the same fields in the same order share a shape, so "is the shape 1234?" answers "is field `x` in slot 0?"
//! for inline caches and machine code.
//!
//! # Global, append-only
//! Shapes are identified by a `u32` and belong to the process: what one domain learned about code is true in
//! all. They refer to names by *atom*, a global `u32` for a text, hence hold no pointer into any private
//! heap. A shape is never changed or freed. Reading takes no lock (`shape/tree.rs`): ids index chunks that
//! never move, and a shape's contents are complete before its id is told to anyone. Making one takes a mutex,
//! but only the first time a domain takes a transition: after that it is in the parent's `first_child` or in
//! the domain's cache.
//!
//! # Bounded
//! An atom is made only for a transition, and transitions are capped: [`MAX_FIELDS`] fields in a shape,
//! [`FAN_OUT`] children of one, [`MAX_SHAPES`] in total, names of [`MAX_NAME`] bytes. Beyond a cap the answer
//! is "no transition" and the table becomes a dictionary. So a program that invents field names for ever
//! costs at most these caps.
//!
//! Names also come from data (`table/data.rs`), and data comes from anywhere. So a decoder makes a shape only
//! for names that it has met in this order before, and all data together at most a quarter of the shapes,
//! with lower caps for children: what a program's text needs is left.
//!
//! # Atoms and a domain's strings
//! An interned string carries the atom of its text in `LuaString::atom`, 0 if this domain has not met it as a
//! field. The invariant that makes look-ups local: **if a table of this domain has a shape, all names of the
//! shape are adopted here**, that is, their strings exist, carry their atoms, and are kept alive by
//! [`ShapeTable`]. Transitions adopt as they go; a shape that arrives in another way (a decoded message) must
//! pass through [`Vm::adopt_shape`] first. Adopted names are roots: at most one string per atom, so bounded
//! too; keeping them weakly would need atoms to survive their strings. Machine code that another domain has
//! recorded asks for the atom before it gives a table a longer shape. The verifier of the heap checks the
//! invariant for every table.

mod sync;
mod tree;

use crate::Vm;
use crate::object::LuaString;
use crate::value::Gc;
use perilune_heap::Obj;
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tree::{CHUNK, Origin, Registry, Shape, Tree};
pub use tree::{DICT, FAN_OUT, FROZEN_DICT, MAX_DATA_SHAPES, MAX_FIELDS, MAX_SHAPES, ROOT, ROOT_FAN_OUT};

/// Longest name of a field in bytes.
pub const MAX_NAME: usize = 256;

/// The chunk of `DICT` and `ROOT`, so that every valid id has a chunk from the start.
static FIRST: [Shape; CHUNK] = [const { Shape::empty() }; CHUNK];
// SAFETY: a static, whose shapes are changed by atomic operations only.
static TREE: Tree = unsafe { Tree::new((&raw const FIRST) as *mut Shape) };

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| Mutex::new(Registry::new()));

fn registry() -> MutexGuard<'static, Registry> {
    // Nothing in here panics half-way.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether tables of shape `id` keep their string keys in the hash part.
#[inline(always)]
pub(crate) fn is_dict(id: u32) -> bool {
    id & !FROZEN_DICT == DICT
}

/// Number of fields.
#[inline(always)]
pub(crate) fn field_count(id: u32) -> u32 {
    TREE.shape(id).count()
}

/// The slot of the field `key` (an interned string) in tables of shape `id`; `None`: such tables have no
/// field of that name, and neither have they in their hash part, unless `id` is [`DICT`].
#[inline]
pub(crate) fn lookup(id: u32, key: Gc<LuaString>) -> Option<u32> {
    debug_assert!(key.is_interned());
    TREE.lookup(id, key.atom)
}

/// The atom of the field in `slot` of shape `id`, which has that many fields.
#[inline(always)]
pub(crate) fn atom_at(id: u32, slot: u32) -> u32 {
    TREE.atom_at(id, slot)
}

/// The name of the field in `slot` of shape `id`.
pub(crate) fn name_of(id: u32, slot: u32) -> &'static [u8] {
    let atom = atom_at(id, slot);
    registry().texts[atom as usize]
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
    /// Reports the strings of adopted atoms, which are roots: in a minor collection only those adopted since
    /// the last collection.
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

    /// What breaks the invariant for a table of shape `id`: a name that is not adopted.
    pub(crate) fn unadopted(&self, id: u32) -> Option<String> {
        let slot = (0..field_count(id)).find(|&slot| self.known_name(atom_at(id, slot)).is_null())?;
        let name = String::from_utf8_lossy(name_of(id, slot));
        Some(format!("a table has the field '{name}', whose name is not adopted"))
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
        if let Some(child) = TREE.first_child(id, atom) {
            return Some(child);
        }
        let (cached, child) = self.cache[Self::cache_slot(id, atom)];
        if cached == (id as u64) << 32 | atom as u64 { Some(child) } else { None }
    }
}

impl Vm {
    /// The shape that adds the field `key` (interned) to shape `id`, which does not have it; `None` beyond a
    /// cap.
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

    /// The shape whose fields are the names (interned) that data has in this order; `None` if there is none:
    /// a name is repeated, they have not been met in this order before, or there is a cap.
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
        let (child, atom) = TREE.make_child(&mut registry(), id, key.bytes(), origin)?;
        self.lua.interned.shapes.adopt(key, atom);
        self.lua.interned.shapes.cache[ShapeTable::cache_slot(id, atom)] =
            ((id as u64) << 32 | atom as u64, child);
        Some(child)
    }

    /// The shape whose fields are `keys` (interned) in this order, repeated ones left out; `None` beyond a
    /// cap.
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

    /// Makes the names of a shape that this domain has not built itself known here. Required before a table
    /// gets such a shape.
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
