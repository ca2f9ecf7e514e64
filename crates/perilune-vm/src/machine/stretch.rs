//! A short stretch of the interpreter, between two pieces of machine code.
//!
//! What machine code has called or resumed comes to functions that have none: a helper that hands on what a
//! coroutine has waited for, a function that `pcall` protects, a metamethod. To leave all machine code for
//! three instructions would mean that the scheduler that has resumed the coroutine is interpreted, too. So
//! [`drive`](super::callees) has the interpreter run up to the next instruction at which another frame may go
//! on, or a loop comes round, looks whether there is machine code for it, and has it done if not.
//!
//! In between the interpreter runs as ever, by a table of its own ([`STRETCH`]) whose entries for these
//! instructions stop. A stop costs more than the instruction does, so after [`MOST`] stretches in a row machine
//! code is left for good: what runs is no short way.
//!
//! Rejected: single steps all the way, each of them a call that stores its position. A run of the interpreter of
//! its own, until the frame that waits goes on: a yield would have to end it, and it piles up on the native stack
//! (decision 41).

use super::entry::{STOP, once, op_stop};
use crate::Vm;
use crate::frame::frame;
use crate::interp::{HANDLERS, Handler, Handlers};
use perilune_syntax::Op;
use std::sync::atomic::Ordering;

/// So many stretches in a row are run until there is machine code again, the instructions that end them
/// included.
pub(super) const MOST: u32 = 64;

/// Where another frame may go on, or a loop comes round.
const STOPS: [Op; 10] = [
    Op::Call,
    Op::TailCall,
    Op::Return,
    Op::Return0,
    Op::Return1,
    Op::ForLoop,
    Op::JumpBack,
    Op::TForCall,
    Op::TForLoop,
    Op::VarargPrep,
];

/// The table of stretches; a domain that is sampled has a copy of its own.
pub(crate) static STRETCH: Handlers = Handlers(stretch());

const fn stretch() -> [Handler; 256] {
    let mut table = HANDLERS.0;
    let mut n = 0;
    while n < STOPS.len() {
        table[STOPS[n] as usize] = op_stop;
        n += 1;
    }
    table[super::ENTER as usize] = op_stop;
    table
}

/// Interprets the running frame until it comes to one of [`STOPS`], or does that if it is there: how a run of
/// the interpreter would end or, [`LEAVE`](super::LEAVE), go on. In between there may be machine code: loops are
/// entered where they come round.
///
/// # Safety
/// As [`step`](super::step), with a complete Lua frame at the state's base.
pub(super) unsafe fn run(vm: *mut Vm) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let base = (*vm).lua.base;
        let (pc, k) = ((*frame(base)).pc, (*frame(base)).k);
        let stops = std::ptr::fn_addr_eq(STRETCH.0[(*pc).op_byte() as usize], op_stop as Handler);
        // What goes the long way stops behind it, since the state's table is that.
        let table = if stops { &raw const STOP } else { (*vm).lua.seen.sampler.stretch_table() };
        let outer = (*vm).lua.machine.stretch.load(Ordering::Relaxed);
        (*vm).lua.machine.stretch.store((&raw const table).addr(), Ordering::Relaxed);
        let exit = once(vm, base, k, pc, table);
        (*vm).lua.machine.stretch.store(outer, Ordering::Relaxed);
        exit
    }
}
