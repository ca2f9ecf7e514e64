//! Traversal: `next`, and the same by position.
//!
//! The order is array part, slots, nodes. A *position* is where to look for the next entry: below [`BEYOND`] an index into the array part, from
//! it on an index into the slots, then the nodes. Positions stay valid as long as keys do (invariant 4 of
//! `table.rs`): while no new key is inserted. The array may shrink meanwhile; a position past its end leads on to the slots.

use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::shape;
use crate::value::{Gc, Tag, Value};

/// First position beyond the array part.
pub(crate) const BEYOND: u32 = 1 << 31;

impl Vm {
    /// The entry that follows `key` in a traversal, the first one for nil, `None` at the end (manual 6.1, `next`).
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
    pub(crate) fn next_at(&mut self, t: Gc<Table>, position: &mut u32) -> Option<(Value, Value)> {
        while *position < t.array_len {
            let at = *position;
            *position += 1;
            // SAFETY: within `array_len`.
            let v = unsafe { t.element(at as usize) };
            if !v.is_nil() {
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
        while let Some(node) = nodes.get((*position - BEYOND - slots) as usize) {
            *position += 1;
            if node.is_live() {
                return Some((node.key(), node.value()));
            }
        }
        None
    }

    /// Whether the entry just before `position` is the one with `key`: then a traversal that stopped there may go on there.
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
            Tag::SHARED if t.is_frozen() => t.find_frozen_shared(key.gc()),
            _ => t.find_other(key),
        };
        self.position_of_node(t, node)
    }

    fn position_of_int(&self, t: Gc<Table>, i: i64) -> Option<u32> {
        let at = (i as u64).wrapping_sub(1);
        if at < t.array_len as u64 {
            return Some(at as u32 + 1);
        }
        let node = self.position_of_node(t, t.find_int(i));
        // A key within the capacity but not in the array has been removed from its end during the traversal.
        let trimmed = t.header.flags & super::TABLE_TRIMMED != 0;
        node.or(if trimmed && at < t.array_cap as u64 { Some(BEYOND) } else { None })
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
