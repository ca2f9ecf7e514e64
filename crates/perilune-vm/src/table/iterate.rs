//! Traversal: `next`, and the same by position.
//!
//! The order is array part, slots, nodes. A *position* is where to look for the next entry: below [`BEYOND`]
//! an index into the array part, from it on an index into the slots, then the nodes. Positions stay valid as
//! long as keys do (invariant 4 of `table.rs`): while no new key is inserted. The last elements of an array
//! may go meanwhile; a position past them leads on to the slots.

use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::shape;
use crate::value::{Gc, Tag, Value};

/// Entries that have to be passed over before it is worth remembering.
pub(crate) const WORTH_REMEMBERING: usize = 8;

/// Where a traversal that began at the start of an array with holes or of a hash part found the first value,
/// after many entries without one. Programs that empty a table by asking for its first entry again and again
/// would otherwise pass over all that they have removed each time. One place is remembered in a domain. It is
/// forgotten when a value comes into that storage from nil, when any storage is replaced, and by collections,
/// after which its address may be another table's.
pub(crate) struct Drained {
    /// Address of the elements or nodes; null: nothing is remembered.
    storage: *const u8,
    /// There is no value before this entry.
    first: u32,
}

impl Default for Drained {
    fn default() -> Self {
        Drained { storage: std::ptr::null(), first: 0 }
    }
}

impl Drained {
    /// From one to the address in it, which is null if nothing is remembered.
    pub(crate) const STORAGE: i32 = std::mem::offset_of!(Drained, storage) as i32;

    /// A value has come into the storage.
    #[inline(always)]
    pub(super) fn filled(&mut self, storage: *const u8) {
        if self.storage == storage {
            self.forget();
        }
    }

    /// Forgets the place.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.storage = std::ptr::null();
    }

    /// The entry from which on to look.
    #[inline(always)]
    fn start(&self, storage: *const u8) -> u32 {
        if self.storage == storage && !storage.is_null() { self.first } else { 0 }
    }

    /// The first value has been found in entry `first`.
    #[inline(always)]
    fn found(&mut self, storage: *const u8, first: u32) {
        if first as usize >= WORTH_REMEMBERING {
            *self = Drained { storage, first };
        }
    }
}

/// First position beyond the array part.
pub(crate) const BEYOND: u32 = 1 << 31;

impl Vm {
    /// The entry that follows `key` in a traversal, the first one for nil, `None` at the end (manual 6.1,
    /// `next`).
    ///
    /// # Errors
    /// "invalid key to 'next'" if the table does not know the key.
    pub fn raw_next(&mut self, t: Gc<Table>, key: Value) -> LuaResult<Option<(Value, Value)>> {
        match self.position_of(t, key) {
            Some(mut position) => Ok(self.next_at(t, &mut position)),
            None => Err(self.key_error("invalid key to 'next'")),
        }
    }

    /// The first entry at `position` or after it; `position` moves behind it. Position 0 is the start.
    #[inline]
    pub fn next_at(&mut self, t: Gc<Table>, position: &mut u32) -> Option<(Value, Value)> {
        let is_first = *position == 0 && t.has_holes();
        if is_first {
            *position = self.lua.caches.drained.start(t.array);
        }
        while (*position as usize) < t.extent() {
            let at = *position;
            *position += 1;
            // SAFETY: within `extent`.
            let v = unsafe { t.element(at as usize) };
            if !v.is_nil() {
                if is_first {
                    self.lua.caches.drained.found(t.array, at);
                }
                return Some((Value::int(at as i64 + 1), v));
            }
        }
        self.next_beyond(t, position)
    }

    fn next_beyond(&mut self, t: Gc<Table>, position: &mut u32) -> Option<(Value, Value)> {
        *position = (*position).max(BEYOND);
        let slots = shape::field_count(t.shape);
        while *position - BEYOND < slots {
            let slot = *position - BEYOND;
            *position += 1;
            // SAFETY: a table has a slot for each field of its shape.
            let v = unsafe { *t.slots.add(slot as usize) };
            if !v.is_nil() {
                return Some((Value::from(self.key_at(t.shape, slot)), v));
            }
        }
        let nodes = t.node_slice();
        let is_first = *position == BEYOND + slots;
        if is_first {
            *position += self.lua.caches.drained.start(t.nodes.cast());
        }
        while let Some(node) = nodes.get((*position - BEYOND - slots) as usize) {
            *position += 1;
            if node.is_live() {
                if is_first {
                    self.lua.caches.drained.found(t.nodes.cast(), *position - BEYOND - slots - 1);
                }
                return Some((node.key(), node.value()));
            }
        }
        None
    }

    /// Whether the entry just before `position` is the one with `key`: then a traversal that stopped there
    /// may go on there.
    #[inline]
    pub(crate) fn position_holds(&self, t: Gc<Table>, position: u32, key: Value) -> bool {
        if position <= BEYOND {
            return key.tag() == Tag::INT && key.payload() == position as u64;
        }
        let at = position - BEYOND - 1;
        let slots = shape::field_count(t.shape);
        if at < slots {
            return key.as_string().is_some_and(|k| k.is_interned() && k.atom == shape::atom_at(t.shape, at));
        }
        t.node_slice().get((at - slots) as usize).is_some_and(|n| n.key().same(key))
    }

    /// The position behind `key`, where [`Vm::next_at`] goes on; `None` if the table does not know the key.
    pub(crate) fn position_of(&self, t: Gc<Table>, key: Value) -> Option<u32> {
        let node = match key.tag() {
            Tag::NIL => return Some(0),
            Tag::INT => return self.position_of_int(t, key.int_bits()),
            Tag::STRING if t.shape == shape::FROZEN_DICT => t.find_frozen_str(key.gc()),
            Tag::STRING => {
                let key = self.find_interned(key.gc())?;
                if t.shape != shape::DICT {
                    return shape::lookup(t.shape, key).map(|slot| BEYOND + slot + 1);
                }
                t.find_str(key)
            }
            Tag::FLOAT => match super::float_to_key(key.float_bits()) {
                Some(i) => return self.position_of_int(t, i),
                None => t.find_other(key),
            },
            Tag::SHARED if t.is_in_island() => t.find_frozen_shared(key.gc()),
            _ => t.find_other(key),
        };
        self.position_of_node(t, node)
    }

    fn position_of_int(&self, t: Gc<Table>, i: i64) -> Option<u32> {
        let at = (i as u64).wrapping_sub(1);
        if at < t.array_cap as u64 {
            return Some(at as u32 + 1);
        }
        self.position_of_node(t, t.find_int(i))
    }

    fn position_of_node(&self, t: Gc<Table>, node: *const crate::object::Node) -> Option<u32> {
        if node.is_null() {
            return None;
        }
        // SAFETY: both point into the table's nodes.
        let at = unsafe { node.offset_from(t.nodes) } as u32;
        Some(BEYOND + shape::field_count(t.shape) + at + 1)
    }
}
