//! Steps of generic loops over tables, for machine code: what its own few instructions do not do.
//!
//! They are leaves: they raise nothing, call nothing, collect nothing, and change nothing but the loop's
//! registers; so whatever machine code knows stays true.

use crate::Vm;
use crate::interp::loops::ForNext;
use crate::native::{Kind, Native};
use crate::object::{LuaString, STRING_INTERNED, Table};
use crate::shape;
use crate::table::iterate::BEYOND;
use crate::value::{Gc, Tag, Value};

/// Nobody knows: the interpreter does the instruction.
const UNKNOWN: u64 = ForNext::Unknown as u64;
/// There is another entry, in the loop's registers.
pub const ITEM: u64 = ForNext::Item as u64;
/// There is none.
pub const END: u64 = ForNext::End as u64;

/// A step of the loop with `count` variables whose first register is at `a`: it has one of the two natives
/// whose steps are known, a table, and, for `next`, a cursor.
///
/// # Safety
/// Called by machine code for its frame, whose loop it is; the registers' slots hold what they do.
pub(super) unsafe extern "C-unwind" fn iterate(vm: *mut Vm, a: *mut Value, count: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let t: Gc<Table> = (*a.add(1)).gc();
        let native = (*a).payload() as *const Native;
        if (*native).kind == Kind::IpairsStep {
            return ipairs(&*vm, a, t, count);
        }
        debug_assert!((*native).kind == Kind::Next && (*a.add(3)).tag() == Tag::CURSOR);
        let position = (*a.add(3)).payload() as u32;
        if position > BEYOND {
            let at = position - BEYOND;
            let item = if t.shape <= shape::FROZEN_DICT { node(a, t, at) } else { field(&*vm, a, t, at) };
            if let Some((key, value, at)) = item {
                Value::store_payload(a.add(3), Tag::CURSOR, (BEYOND + at) as u64);
                *a.add(2) = key;
                deliver(a, key, value, count);
                return ITEM;
            }
        }
        (*vm).for_next(a, t, count as usize) as u64
    }
}

/// The loop's variables.
///
/// # Safety
/// As [`iterate`].
#[inline(always)]
unsafe fn deliver(a: *mut Value, key: Value, value: Value, count: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        *a.add(4) = key;
        if count >= 2 {
            *a.add(5) = value;
            for n in 2..count as usize {
                *a.add(4 + n) = Value::NIL;
            }
        }
    }
}

/// # Safety
/// As [`iterate`].
#[inline(always)]
unsafe fn ipairs(vm: &Vm, a: *mut Value, t: Gc<Table>, count: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(visited) = (*a.add(2)).as_int() else { return UNKNOWN };
        let n = visited.wrapping_add(1);
        let value = vm.raw_get_int(t, n);
        if value.is_nil() {
            // A metatable may say otherwise.
            return if t.metatable.is_null() { END } else { UNKNOWN };
        }
        *a.add(2) = Value::int(n);
        deliver(a, Value::int(n), value, count);
        ITEM
    }
}

/// The next node, and the position behind it, in a table without fields of which node `at` is next if the
/// control variable is the key of the one before it.
///
/// # Safety
/// As [`iterate`].
#[inline(always)]
unsafe fn node(a: *mut Value, t: Gc<Table>, at: u32) -> Option<(Value, Value, u32)> {
    // SAFETY: the caller's promise.
    unsafe {
        let control = a.add(2);
        let nodes = t.node_slice();
        let last = nodes.get(at as usize - 1)?;
        if last.key != (*control).payload() || last.key_tag != (*control).tag().0 {
            return None;
        }
        let (n, node) = (at..).zip(nodes.get(at as usize..)?).find(|(_, node)| node.is_live())?;
        Some((node.key(), node.value(), n + 1))
    }
}

/// The next field, and the position behind it, if the control variable is the name of the one before it.
///
/// # Safety
/// As [`iterate`].
#[inline(always)]
unsafe fn field(vm: &Vm, a: *mut Value, t: Gc<Table>, slot: u32) -> Option<(Value, Value, u32)> {
    // SAFETY: the caller's promise; a table has a slot for each field of its shape.
    unsafe {
        let control = *a.add(2);
        if slot >= shape::field_count(t.shape) || control.tag() != Tag::STRING {
            return None;
        }
        let last = control.payload() as *const LuaString;
        let value = *t.slots.add(slot as usize);
        let is_last =
            (*last).header.flags & STRING_INTERNED != 0 && (*last).atom == shape::atom_at(t.shape, slot - 1);
        let name = vm.lua.interned.shapes.known_name(shape::atom_at(t.shape, slot));
        let known = is_last && !value.is_nil() && !name.is_null();
        known.then(|| (Value::from(Gc::from_ptr(name)), value, slot + 1))
    }
}
