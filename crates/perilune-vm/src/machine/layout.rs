//! What machine code has to know of layouts: offsets in bytes, and addresses of what it calls. Everything here is taken from the types
//! themselves; `tests` pins what lowering takes for granted beyond that.

use crate::Vm;
use crate::frame::{FRAME_SLOTS, Frame};
use crate::object::ProtoInst;
use crate::value::Value;
use std::mem::offset_of;

/// Bytes of a register.
pub const VALUE_SIZE: i32 = size_of::<Value>() as i32;
/// From a state to its `base`.
pub const VM_BASE: i32 = offset_of!(Vm, lua.base) as i32;
/// From a frame's base to the `pc` of its record.
pub const FRAME_PC: i32 = offset_of!(Frame, pc) as i32 - FRAME_SLOTS as i32 * VALUE_SIZE;
/// From an instance to the address of its constants.
pub const INST_CONSTANTS: i32 = offset_of!(ProtoInst, k) as i32;

/// The address of the function that does one instruction: `fn(vm, base, constants, pc) -> u32`, all addresses but the result. See [`crate::machine`].
pub fn step() -> usize {
    super::step as *const () as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lowering_takes_for_granted() {
        assert_eq!(VALUE_SIZE, 16);
        assert_eq!(size_of::<perilune_syntax::Instr>(), 8);
        assert_eq!(FRAME_PC, -32);
    }
}
