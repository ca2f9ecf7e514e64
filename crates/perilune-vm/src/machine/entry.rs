//! From the interpreter into machine code, and back for one instruction.

use super::{Active, ENTER, EXITED, FAILED, LEAVE, MachineCode, REFUSED, RETURNED, STAY};
use crate::Vm;
use crate::interp::{
    Exit, HANDLERS, Handler, Handlers, Step, flow, frame_closure, handler_of, next, op, save,
};
use crate::object::ProtoInst;
use crate::value::Value;
use perilune_syntax::{Instr, Op};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// After so many exits code is given up.
const MOST_EXITS: u32 = 200;

/// The table of domains that have machine code: loops look for theirs.
pub(crate) static LOOPS: Handlers = Handlers(loops());

const fn loops() -> [Handler; 256] {
    let mut table = HANDLERS.0;
    table[Op::ForLoop as usize] = loop_round;
    table[Op::JumpBack as usize] = loop_round;
    table[Op::TForCall as usize] = loop_round;
    table
}

/// The table in use while machine code runs: see the module's essay.
pub(crate) static STOP: Handlers = Handlers([op_stop; 256]);
/// The same once somebody wants to see every instruction: handlers that compare tables notice that.
pub(crate) static STOP_WATCHED: Handlers = Handlers([op_stop; 256]);

op!(
    /// Every entry of [`STOP`]: the instruction is somebody else's to do.
    #[inline(never)] op_stop(vm, base, pc, k, i, tab) {
    save!(vm, base, pc.sub(1));
    Exit::Next
});

op!(
    /// An instruction at which a loop comes round, in a domain that has machine code or counts.
    loop_round(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    let code = (*inst).machine;
    let mut entry = 0;
    if !code.is_null() {
        entry = (&(*code).entries)[pc.offset_from((*(*inst).proto).code.as_ptr()) as usize - 1];
    }
    // Machine code that polls leaves; who polls to act on it is the interpreter.
    if entry != 0 && (*vm).lua.interrupt.load(Ordering::Relaxed) == 0 {
        save!(vm, base, pc.sub(1));
        match run(vm, base, inst, code, entry - 1) {
            REFUSED => {}
            RETURNED => return Exit::Return,
            FAILED => return Exit::Error,
            _ => flow!(vm, Ok(Step::Continue)),
        }
    } else if entry == 0 {
        (*vm).count_round(base, inst, pc);
    }
    let plain = match i.op() {
        Some(Op::ForLoop) => const { handler_of(Op::ForLoop) },
        Some(Op::JumpBack) => const { handler_of(Op::JumpBack) },
        _ => const { handler_of(Op::TForCall) },
    };
    plain(vm, base, pc, k, i.0, (*vm).lua.dispatch)
});

op!(
    /// [`ENTER`]: a call has come to a function that has machine code.
    #[inline(never)] op_enter(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    let start = (*(*inst).proto).code.as_ptr();
    let code = (*inst).machine;
    debug_assert!(!code.is_null());
    save!(vm, base, start);
    match run(vm, base, inst, code, MachineCode::START) {
        REFUSED => {}
        RETURNED => return Exit::Return,
        FAILED => return Exit::Error,
        _ => flow!(vm, Ok(Step::Continue)),
    }
    next!(vm, base, start, k, tab)
});

op!(
    /// [`ENTER`], where every instruction is looked at: the function is interpreted.
    #[inline(never)] op_enter_plain(vm, base, pc, k, i, tab) {
    let start = (*(*(*frame_closure(base)).proto).proto).code.as_ptr();
    next!(vm, base, start, k, tab)
});

/// Runs machine code for the complete frame at `base`.
///
/// # Safety
/// `code` is that of `inst`, whose closure's frame is at `base`, and its number of an entry is where the frame's `pc` is.
#[inline(never)]
unsafe fn run(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
    entry: u32,
) -> u32 {
    // SAFETY: the caller's promise; the record stays here until it is taken out of the list.
    unsafe {
        let mut active = Active { code, previous: null_mut(), next: null_mut() };
        let active = &raw mut active;
        (*vm).lua.machine.begin(active);
        let outer = (*vm).set_machine_running(true);
        let exit = ((*code).run)(vm, base, inst, entry);
        (*vm).set_machine_running(outer);
        (*vm).lua.machine.end(active);
        // In these cases the frame is as it was, and so the instance is alive.
        if (exit == EXITED || exit == REFUSED)
            && (*code).exits.fetch_add(1, Ordering::Relaxed) >= MOST_EXITS
            && (*inst).machine == code
        {
            (*vm).give_up_machine_code(inst);
        }
        exit
    }
}

/// For machine code: has the interpreter do the instruction at `pc`, with all values of the frame in its registers. [`STAY`]: the frame's record has the `pc` to go on at, and
/// the frame is where it was, unless the instruction is `VARARGPREP`, which moves it to the state's `base`. Whatever else it is, machine code returns it.
///
/// # Safety
/// Called by machine code for its frame.
pub(crate) unsafe extern "C-unwind" fn step(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let i = *pc;
        let exit = (HANDLERS.0[i.op_byte() as usize])(vm, base, pc.add(1), k, i.0, &raw const STOP);
        #[cfg(debug_assertions)]
        if exit == Exit::Next {
            // The loop of debug builds has the position, and nobody has asked for the next instruction yet.
            (*crate::frame::frame((*vm).lua.base)).pc = (*vm).lua.loop_pc;
        }
        let machine = &(*vm).lua.machine;
        debug_assert!(machine.running);
        if exit != Exit::Next || machine.watched {
            return exit as u32;
        }
        const MOVES: u8 = Op::VarargPrep as u8;
        const REPLACES: u8 = Op::TailCall as u8;
        match i.op_byte() {
            MOVES => STAY,
            REPLACES => LEAVE,
            _ if (*vm).lua.base == base => STAY,
            _ => LEAVE,
        }
    }
}

impl Vm {
    /// Says whether machine code runs on the running native stack; gives back what was said before.
    #[inline]
    pub(crate) fn set_machine_running(&mut self, yes: bool) -> bool {
        let before = std::mem::replace(&mut self.lua.machine.running, yes);
        if before != yes {
            self.update_dispatch();
        }
        before
    }
}

const _: () = assert!(Op::ALL.len() <= ENTER as usize);
