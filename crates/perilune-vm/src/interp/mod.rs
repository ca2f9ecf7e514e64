//! The interpreter: handlers that tail-call each other through a table.

use crate::Vm;
use crate::value::Value;
use perilune_syntax::Instr;

/// How a run of handlers ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Exit {
    /// The entry frame returned; its results are at the top of the stack.
    Return = 0,
    /// An error left the entry frame; its value is in the `Vm`.
    Error = 1,
    /// Loop dispatch only: fetch the next instruction (registers are in the `Vm`).
    Next = 2,
}

/// A handler of one opcode. Six arguments, all in registers: the state, the frame's base, the address of the next instruction, the
/// constants, the instruction itself, and the dispatch table.
pub type Handler = unsafe extern "C-unwind" fn(
    *mut Vm,
    *mut Value,
    *const Instr,
    *const Value,
    u64,
    *const Handlers,
) -> Exit;

/// 256 handlers, by opcode byte.
#[repr(transparent)]
pub struct Handlers(pub(crate) [Handler; 256]);
