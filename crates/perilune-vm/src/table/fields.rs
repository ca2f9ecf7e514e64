//! Fields in slots: string keys of a table with a shape.

use super::edit;
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{LuaString, Table};
use crate::shape;
use crate::value::{Gc, Stores, Value};
use std::ptr::null_mut;

impl Vm {
    /// Stores into an existing field.
    #[inline(always)]
    pub(super) fn set_slot(&mut self, t: Gc<Table>, slot: u32, key: Gc<LuaString>, v: Value) {
        self.name_stored(t, key);
        self.slot_barrier(t, v);
        // SAFETY: a table has a slot for each field of its shape.
        unsafe {
            let at = t.slots.add(slot as usize);
            if (*at).is_nil() {
                self.structure_changed(t);
            }
            *at = v;
        }
    }

    /// A constant name that the shape lacks: grows the shape, or at a cap makes the table a dictionary.
    #[cold]
    #[inline(never)]
    pub(super) fn add_constant_field(&mut self, t: Gc<Table>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        if v.is_nil() {
            return Ok(());
        }
        let child = self.shape_transition(t.shape, key);
        self.add_field(t, child, key, v)
    }

    /// A computed name that the shape lacks: follows a transition that is known, or makes the table a
    /// dictionary.
    #[cold]
    #[inline(never)]
    pub(super) fn add_computed_field(&mut self, t: Gc<Table>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        if v.is_nil() {
            return Ok(());
        }
        let child = self.lua.interned.shapes.known_transition(t.shape, key);
        self.add_field(t, child, key, v)
    }

    fn add_field(&mut self, t: Gc<Table>, child: Option<u32>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        self.heap.stored_into(t);
        let Some(child) = child else {
            self.make_dictionary(t)?;
            return self.set_str_node(t, key, v);
        };
        self.grow_to_shape(t, child)?;
        self.name_stored(t, key);
        // SAFETY: `grow_to_shape` made the slot.
        unsafe { *t.slots.add(shape::field_count(child) as usize - 1) = v };
        Ok(())
    }

    /// Gives the table the shape `child`, one of those that extend its shape, and the slots for it.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub(crate) fn grow_to_shape(&mut self, t: Gc<Table>, child: u32) -> LuaResult<()> {
        let count = shape::field_count(child) as usize;
        if count > t.slot_cap as usize {
            self.grow_slots(t, count)?;
        }
        self.structure_changed(t);
        edit(&mut self.heap, t).shape = child;
        Ok(())
    }

    /// The table, of whatever shape that has slots, has room for so many fields.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn make_room_for_fields(&mut self, t: Gc<Table>, count: usize) -> LuaResult<()> {
        if count > t.slot_cap as usize { self.grow_slots(t, count) } else { Ok(()) }
    }

    #[inline(never)]
    fn grow_slots(&mut self, t: Gc<Table>, count: usize) -> LuaResult<()> {
        let cap = count.next_power_of_two().max(4);
        // The collector is to find the new buffer, whatever is stored into it.
        self.heap.stored_into(t);
        let new: *mut Value = self.alloc_buffer(cap * size_of::<Value>())?.cast();
        let table = edit(&mut self.heap, t);
        let old = table.slot_cap as usize;
        // SAFETY: the new buffer has `cap` slots, more than the old one.
        unsafe {
            if old > 0 {
                std::ptr::copy_nonoverlapping(table.slots, new, old);
            }
            for i in old..cap {
                new.add(i).write(Value::NIL);
            }
        }
        table.slots = new;
        table.slot_cap = cap as u8;
        Ok(())
    }

    /// Moves the fields to the hash part, for good, with room for one more.
    pub(super) fn make_dictionary(&mut self, t: Gc<Table>) -> LuaResult<()> {
        let count = shape::field_count(t.shape);
        if count > 0 {
            self.rebuild_nodes(t, t.live_nodes() + count as usize + 1)?;
        }
        self.structure_changed(t);
        for slot in 0..count {
            // SAFETY: a table has a slot for each field of its shape.
            let v = unsafe { *t.slots.add(slot as usize) };
            if !v.is_nil() {
                let key = self.key_at(t.shape, slot);
                edit(&mut self.heap, t).insert_into_free(Value::from(key), v);
            }
        }
        let table = edit(&mut self.heap, t);
        table.shape = shape::DICT;
        table.slots = null_mut();
        table.slot_cap = 0;
        Ok(())
    }
}
