//! What machine code has to know of layouts: offsets in bytes, and addresses of what it calls. Everything here is taken from the types
//! themselves; `tests` pins what lowering takes for granted beyond that.

use crate::Vm;
use crate::frame::{CALL_GAP, FRAME_SLOTS, Frame};
use crate::object::{LuaClosure, ProtoInst, Table, Upval};
use crate::value::Value;
use perilune_heap::Header;
use std::mem::offset_of;

/// Bytes of a register.
pub const VALUE_SIZE: i32 = size_of::<Value>() as i32;
/// From a register to its payload, 8 bytes.
pub const PAYLOAD: i32 = Value::PAYLOAD_OFFSET as i32;
/// From a register to its tag, 1 byte.
pub const TAG: i32 = Value::TAG_OFFSET as i32;
/// From a state to its `base`.
pub const VM_BASE: i32 = offset_of!(Vm, lua.base) as i32;
/// From a state to the address of its interrupt word, 4 bytes: while that is not 0, machine code leaves where it polls.
pub const VM_INTERRUPT: i32 = offset_of!(Vm, lua.interrupt_word) as i32;
/// From a frame's base to the `pc` of its record.
pub const FRAME_PC: i32 = offset_of!(Frame, pc) as i32 - FRAME_SLOTS as i32 * VALUE_SIZE;
/// From a frame's base to its function.
pub const FRAME_FUNCTION: i32 = -(CALL_GAP as i32) * VALUE_SIZE;
/// From an instance to the address of its constants.
pub const INST_CONSTANTS: i32 = offset_of!(ProtoInst, k) as i32;
/// From a Lua function to its first upvalue; 8 bytes each.
pub const CLOSURE_UPVALUES: i32 = offset_of!(LuaClosure, upvals) as i32;
/// From an upvalue to the address of its value.
pub const UPVALUE_VALUE: i32 = offset_of!(Upval, v) as i32;
/// From an object to its epoch, 4 bytes. Numbers may be stored into an object whose epoch is below [`WRITABLE`] without asking.
pub const OBJECT_EPOCH: i32 = offset_of!(Header, epoch) as i32;
/// See [`OBJECT_EPOCH`].
pub const WRITABLE: u32 = perilune_heap::WATCHED;
/// From a table to the number of its shape, 4 bytes.
pub const TABLE_SHAPE: i32 = offset_of!(Table, shape) as i32;
/// From a table to the kind of its array, 1 byte ([`crate::ArrayKind`]).
pub const TABLE_KIND: i32 = offset_of!(Table, kind) as i32;
/// From a table to the address of the values of its shape's fields.
pub const TABLE_SLOTS: i32 = offset_of!(Table, slots) as i32;
/// From a table to the address of its array.
pub const TABLE_ARRAY: i32 = offset_of!(Table, array) as i32;
/// From a table to how many elements of its array may be read without asking, 4 bytes; those of numbers are no nil.
pub const TABLE_LENGTH: i32 = offset_of!(Table, array_len) as i32;

/// The address of the function that does one instruction: `fn(vm, base, constants, pc) -> u32`, all addresses but the result. See [`crate::machine`].
pub fn step() -> usize {
    super::step as *const () as usize
}

const _: () = assert!(WRITABLE == 1 << 30 && WRITABLE < perilune_heap::FROZEN);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayKind;
    use crate::value::Tag;

    #[test]
    fn what_lowering_takes_for_granted() {
        assert_eq!(VALUE_SIZE, 16);
        assert_eq!(size_of::<perilune_syntax::Instr>(), 8);
        assert_eq!(FRAME_PC, -32);
        assert_eq!((Tag::NIL.0, Tag::FALSE.0), (0, 1));
        assert_eq!([ArrayKind::General, ArrayKind::Int, ArrayKind::Float].map(|k| k as u8), [0, 1, 2]);
    }
}
