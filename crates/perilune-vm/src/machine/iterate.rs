//! Steps of generic loops over tables, for machine code: what its own few instructions do not do.
//!
//! They are leaves: they raise nothing, call nothing, collect nothing, and change nothing but the loop's
//! registers; so whatever machine code knows stays true.

use crate::Vm;
use crate::interp::loops::ForNext;
use crate::native::{Kind, Native};
use crate::object::{LuaString, STRING_INTERNED, Table};
use crate::shape;
use crate::table::iterate::{BEYOND, WORTH_REMEMBERING};
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
        let control = *a.add(2);
        let is_behind_element = match position {
            0 => control.is_nil(),
            _ => control.tag() == Tag::INT && control.payload() == u64::from(position),
        };
        if is_behind_element && (position as usize) < t.extent() {
            let value = t.element(position as usize);
            if !value.is_nil() {
                let next = position as u64 + 1;
                Value::store_payload(a.add(3), Tag::CURSOR, next);
                *a.add(2) = Value::int(next as i64);
                deliver(a, Value::int(next as i64), value, count);
                return ITEM;
            }
        } else if is_behind_element || position > BEYOND {
            let at = position.saturating_sub(BEYOND);
            let step = match t.shape <= shape::FROZEN_DICT {
                true => node(control, t, at),
                false => field(&*vm, control, t, at),
            };
            match step {
                Step::Item(key, value, at) => {
                    Value::store_payload(a.add(3), Tag::CURSOR, (BEYOND + at) as u64);
                    *a.add(2) = key;
                    deliver(a, key, value, count);
                    return ITEM;
                }
                Step::End => return END,
                Step::Unknown => {}
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

/// What comes next in a traversal.
enum Step {
    /// Key and value, and how many places from the first field, or node, on have been passed with them.
    Item(Value, Value, u32),
    End,
    /// The step is not one of those that are made here.
    Unknown,
}

/// The next node of a table without fields from place `at` on, if the control variable is the key of the one
/// before that, or there is none.
#[inline(always)]
fn node(control: Value, t: Gc<Table>, at: u32) -> Step {
    let nodes = t.node_slice();
    let first = at as usize;
    if first > 0 {
        let last = nodes.get(first - 1);
        if last.is_none_or(|last| last.key != control.payload() || last.key_tag != control.tag().0) {
            return Step::Unknown;
        }
    }
    // A traversal that begins with many that have no value is remembered.
    let most = if first == 0 { WORTH_REMEMBERING } else { nodes.len() };
    match nodes[first..].iter().take(most).zip(at + 1..).find(|(node, _)| node.is_live()) {
        Some((node, at)) => Step::Item(node.key(), node.value(), at),
        None if nodes.len() - first <= most => Step::End,
        None => Step::Unknown,
    }
}

/// The field in this slot, if the control variable is the name of the one before it, or there is none.
///
/// # Safety
/// The table lives.
#[inline(always)]
unsafe fn field(vm: &Vm, control: Value, t: Gc<Table>, slot: u32) -> Step {
    let count = shape::field_count(t.shape);
    // SAFETY: the caller's promise; a string lives as long as it is in a register, and a table has a slot for
    // each field of its shape.
    unsafe {
        if slot > 0 {
            if slot > count || control.tag() != Tag::STRING {
                return Step::Unknown;
            }
            let last = control.payload() as *const LuaString;
            let is_interned = (*last).header.flags & STRING_INTERNED != 0;
            if !is_interned || (*last).atom != shape::atom_at(t.shape, slot - 1) {
                return Step::Unknown;
            }
        }
        if slot == count {
            return if t.node_slice().is_empty() { Step::End } else { Step::Unknown };
        }
        let value = *t.slots.add(slot as usize);
        let name = vm.lua.interned.shapes.known_name(shape::atom_at(t.shape, slot));
        match value.is_nil() || name.is_null() {
            true => Step::Unknown,
            false => Step::Item(Value::from(Gc::from_ptr(name)), value, slot + 1),
        }
    }
}
