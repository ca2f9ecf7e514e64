//! Frame records: 32 bytes on the value stack, between a function and its first argument.
//!
//! ```text
//!  ... | function | Frame (2 slots) | R[0] R[1] ... R[max_stack-1] |
//!                                   ^ base
//! ```
//! A call writes the callee's record and nothing else; registers are not cleared. `pc` belongs to the frame
//! itself: it is stored before anything that may call, collect, raise or be observed. The tag bytes of both
//! slots are `Tag::FRAME`, so that whoever scans the stack for values skips them.
//!
//! A vararg function's frame is moved above its extra arguments by `VARARGPREP`: `shift` is the distance from
//! the function's original slot to the copy, 0 for all other frames. Results go to the original slot.

use crate::value::{Tag, Value};
use perilune_syntax::Instr;

/// Stack slots that a frame record takes.
pub(crate) const FRAME_SLOTS: usize = 2;
/// Slots from the function to the first argument.
pub(crate) const CALL_GAP: usize = 1 + FRAME_SLOTS;
const _: () = assert!(CALL_GAP == crate::native::GAP);

/// A frame record.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Frame {
    /// Lua functions: the next instruction. Null: native.
    pub pc: *const Instr,
    pub tag0: Tag,
    /// See the constants in this module.
    pub flags: u8,
    /// Results the caller wants; -1: all.
    pub nresults: i16,
    /// Slots from the caller's base to this one's; 0: the thread's first frame.
    pub delta: u32,
    /// Lua functions: constants of the instance.
    pub k: *const Value,
    pub tag1: Tag,
    /// What a continuation frame is for, see the constants that begin with `CONT_`.
    pub cont: u8,
    /// A number that the continuation needs (`CONT_CONCAT`: values left; `CONT_COMPARE`: 1 if negated).
    pub aux: u16,
    /// Vararg functions: slots from the original function slot to the moved one. `pcall`, `xpcall`:
    /// `Thread::pcalls` before the call.
    pub shift: u32,
}

/// When this frame returns, `execute` returns to its native caller.
pub(crate) const F_ENTRY: u8 = 1;
/// When this frame returns, the result finishes an instruction of the caller (a metamethod).
pub(crate) const F_CONT: u8 = 2;
/// This frame is `pcall` or `xpcall`: errors stop here.
pub(crate) const F_PCALL: u8 = 4;
/// This frame replaced its caller by a tail call.
pub(crate) const F_TAIL: u8 = 8;
/// The frame runs a native function.
pub(crate) const F_NATIVE: u8 = 16;
/// A hook runs, called from this frame.
pub(crate) const F_HOOK: u8 = 32;
/// A finaliser (`__gc`) runs, called from this frame.
pub(crate) const F_FIN: u8 = 64;
/// Vararg frame: `shift` is valid; the plain return instructions never meet one.
pub(crate) const F_VARARG: u8 = 128;
/// `cont` of a frame whose results the caller just takes.
pub(crate) const CONT_NONE: u8 = 0;
/// The first result goes to `R[a]` of the caller's instruction.
pub(crate) const CONT_STORE: u8 = 1;
/// The truth of the first result decides the caller's conditional jump.
pub(crate) const CONT_COMPARE: u8 = 2;
/// The results are of no interest (`__newindex`).
pub(crate) const CONT_DISCARD: u8 = 3;
/// The first result replaces two operands of a concatenation that goes on.
pub(crate) const CONT_CONCAT: u8 = 4;
/// The caller is `pcall` or `xpcall`, which returns true and the results.
pub(crate) const CONT_PCALL: u8 = 5;
/// The caller (a Lua function that made a tail call of a native) returns the results.
pub(crate) const CONT_RETURN: u8 = 6;
/// The frame is the first of a coroutine: its results go to whoever resumed it.
pub(crate) const CONT_COROUTINE: u8 = 7;

/// The caller, a Lua function, takes the results as of any call, and goes on as machine code: it was machine
/// code when it called, and has been left since (`machine/entry.rs`).
pub(crate) const CONT_ENTER: u8 = 8;

/// Flags that make a return take the general path.
pub(crate) const F_SLOW_RETURN: u8 = F_ENTRY | F_CONT | F_VARARG;

impl Frame {
    /// The record of a native function's frame.
    #[inline(always)]
    pub fn native(nresults: i16, delta: u32) -> Frame {
        Frame {
            pc: std::ptr::null(),
            tag0: Tag::FRAME,
            flags: F_NATIVE,
            nresults,
            delta,
            k: std::ptr::null(),
            tag1: Tag::FRAME,
            cont: CONT_NONE,
            aux: 0,
            shift: 0,
        }
    }

    /// Slots from the caller's base to where this one's was when it was called; 0: the thread's first frame.
    #[inline(always)]
    pub fn distance(&self) -> usize {
        (self.delta as usize).saturating_sub(self.shift_or_zero())
    }

    /// `shift` of a vararg frame, 0 of others.
    #[inline(always)]
    pub fn shift_or_zero(&self) -> usize {
        if self.flags & F_VARARG != 0 { self.shift as usize } else { 0 }
    }
}

/// The frame record below `base`.
///
/// # Safety
/// `base` is the base of a frame on a live stack.
#[inline(always)]
pub(crate) unsafe fn frame(base: *mut Value) -> *mut Frame {
    // SAFETY: two slots below every base hold its record.
    unsafe { base.sub(FRAME_SLOTS) as *mut Frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        assert_eq!(size_of::<Frame>(), 32);
        assert_eq!(size_of::<Frame>(), FRAME_SLOTS * size_of::<Value>());
        assert_eq!(std::mem::offset_of!(Frame, tag0), 8);
        assert_eq!(std::mem::offset_of!(Frame, tag1), 24);
    }
}
