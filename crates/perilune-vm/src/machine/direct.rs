//! Calls that natives make of functions that have machine code: the comparator of `table.sort`, the function
//! of `string.gsub`.
//!
//! A native that calls a function does so in a run of the interpreter of its own (`call/native.rs`). Where
//! the function is machine code there is nothing to interpret, and what such a run prepares, in case there
//! is, costs as much as a short function does. So the call is made here, if nothing is out of the ordinary:
//! the record is written once, and the code is called. It is a run of the interpreter all the same, with a
//! frame that has `F_ENTRY`: if the code is left, the interpreter goes on from the records, as it would have.
//!
//! One question stands for many: domains whose table is [`LOOPS`] or [`COUNTING`] have machine code, and
//! nobody who wants to see instructions, samples them, or records them ([`Vm::update_dispatch`]).

use super::entry::{COUNTING, LOOPS, Ran, ended, finished};
use super::{Active, MachineCode, RETURNED};
use crate::Vm;
use crate::frame::*;
use crate::interp::{Exit, resumed};
use crate::object::{LuaClosure, ProtoInst};
use crate::sys::stack::spill_registers;
use crate::value::{Tag, Value};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Calls the function at `func`, whose arguments end at the top, for the native that runs, if it has machine
/// code: how the run has ended. `Return`: its results are from `func` on, as many as are wanted. `None`:
/// nothing has been done, the call is to be made in the other way.
///
/// # Safety
/// There are slots for a record between `func` and its arguments, on the running stack, above the native's
/// frame.
#[inline]
pub(crate) unsafe fn call_compiled(vm: *mut Vm, func: *mut Value, nresults: i16) -> Option<Exit> {
    // SAFETY: the caller's promise; a closure keeps its instance alive, and that its machine code.
    unsafe {
        if (*func).tag() != Tag::CLOSURE || !is_plain(vm) {
            return None;
        }
        let inst = (*((*func).payload() as *const LuaClosure)).proto;
        let code: *const MachineCode = (*inst).machine;
        if code.is_null() || !(*code).starts {
            return None;
        }
        let base = func.add(CALL_GAP);
        let given = (*vm).lua.top.offset_from(base) as usize;
        let parameters = (*inst).num_params as usize;
        if base.wrapping_add(((*inst).max_stack as usize).max(given) + 1) > (*vm).lua.stack_limit {
            return None;
        }
        for n in given..parameters {
            *base.add(n) = Value::NIL;
        }
        (*vm).lua.top = base.add(given.max(parameters));
        *frame(base) = Frame {
            pc: (*(*inst).proto).code.as_ptr(),
            tag0: Tag::FRAME,
            flags: F_ENTRY,
            nresults,
            delta: base.offset_from((*vm).lua.base) as u32,
            k: (*inst).k,
            tag1: Tag::FRAME,
            cont: CONT_NONE,
            aux: 0,
            shift: 0,
        };
        (*vm).lua.base = base;
        Some(spill_registers(vm, |vm, here| {
            let outer = std::mem::replace(&mut (*vm).lua.stacks.running.scan_from, here);
            let exit = run_directly(vm, base, inst, code);
            (*vm).lua.stacks.running.scan_from = outer;
            exit
        }))
    }
}

/// Whether machine code may be entered, and nothing is due that a run of the interpreter would do first.
#[inline]
unsafe fn is_plain(vm: *mut Vm) -> bool {
    // SAFETY: the caller's: the state of this domain.
    unsafe {
        let machine = &(*vm).lua.machine;
        let plain = std::ptr::eq(machine.outside, &raw const LOOPS)
            || std::ptr::eq(machine.outside, &raw const COUNTING);
        debug_assert!(!plain || !(machine.watched || machine.distrusted || machine.sampled));
        debug_assert!(!plain || machine.logging.is_none());
        plain && (*vm).lua.interrupt.load(Ordering::Relaxed) == 0 && !machine.ticks.are_put_off()
    }
}

/// Runs machine code from its start for the complete frame at `base`, which has `F_ENTRY`, and then, if it is
/// left, the interpreter.
///
/// # Safety
/// As `run_untimed` in `entry.rs`.
#[inline]
unsafe fn run_directly(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
) -> Exit {
    // SAFETY: the caller's promise; the record stays here until it is taken out of the list.
    unsafe {
        let mut active = Active { code, previous: null_mut(), next: null_mut() };
        let active = &raw mut active;
        (*vm).lua.machine.begin(active);
        let ran = Ran::of(vm, base, code);
        // A native that machine code has called leaves this as it is.
        let outer = (*vm).set_machine_running(true);
        let answer = (*code).run.call(vm, base, inst, MachineCode::START);
        if answer == RETURNED {
            (*vm).lua.machine.end(active);
            (*vm).set_machine_running(outer);
            return Exit::Return;
        }
        let exit = go_on(vm, ran, active, answer);
        (*vm).set_machine_running(outer);
        exit
    }
}

/// What `run_directly` does if the code has been left.
///
/// # Safety
/// As there, behind the call.
#[cold]
#[inline(never)]
unsafe fn go_on(vm: *mut Vm, ran: Ran, active: *mut Active, answer: u64) -> Exit {
    // SAFETY: the caller's promise; the interpreter goes on with the frames that machine code has left.
    unsafe {
        let exit = ended(vm, ran, active, false, answer);
        finished(vm, exit).unwrap_or_else(|| resumed(vm))
    }
}
