//! What an instruction that the interpreter does for machine code has begun, and machine code can do.
//!
//! An instruction may come to functions in many ways: `pcall` calls one, a metamethod does, `resume` goes on
//! with one in another coroutine, whose callers then go on as it returns. To leave machine code for each
//! would mean that the caller, too, is interpreted from there on. So [`drive`] stands between: as long as
//! what runs is something that the caller's frame waits for, and has machine code that can be entered where
//! it is, it is run, function by function; a short way through what has none is interpreted in between
//! (`stretch.rs`). The interpreter's records say all that has to be known; what was
//! pushed between the frames (natives that are `pcall` or `resume`) stays as the interpreter has written it.
//!
//! Machine code that ends in [`LEAVE`] ends here as well: if what is to go on is the frame that waits, its
//! call has come back. That is how a function that fails returns to the machine code that has called `pcall`,
//! and how a coroutine that yields returns to that which has called `resume`: the native frames between are
//! dropped by returning.
//!
//! Where the native stack is half used, what has left machine code is not entered again from here: it may
//! have left because the rest is used, too, and natives that call functions need some. So frames vanish down
//! to where half of it is free.
//!
//! # Who waits
//! The frame at `base` waits as long as its thread runs something above it, or has resumed another coroutine.
//! Nothing runs between the end of a piece of machine code and the question, so a frame that has been left by
//! an error, or together with its coroutine, is not mistaken for another one that lies where it was.

use super::entry::{Waiting, follow, start_at, step};
use super::{CODES, LEAVE, MachineCode, REFUSED, RETURNED, STAY, stretch};
use crate::Vm;
use crate::call::{NATIVE_STACK, deliver_results};
use crate::frame::*;
use crate::interp::quick::{is_unlogged, native_at, quick_pcall, quick_resume, quick_yield, slots};
use crate::interp::{Flow, copy, frame_closure, save};
use crate::native::Kind;
use crate::object::{ProtoInst, Status, Thread};
use crate::value::{Tag, Value};
use perilune_syntax::{Instr, Op};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// The number of the entry of the instance's machine code that is at `pc`.
///
/// # Safety
/// A live instance, and a `pc` of a frame of it.
#[inline(always)]
pub(super) unsafe fn entry_at(inst: *mut ProtoInst, pc: *const Instr) -> Option<u32> {
    // SAFETY: the caller's promise.
    unsafe {
        let code = (*inst).machine;
        if code.is_null() {
            return None;
        }
        let start = (*(*inst).proto).code.as_ptr();
        if pc == (*inst).code || pc == start {
            return (*code).starts.then_some(MachineCode::START);
        }
        let at = pc.offset_from(start) as usize;
        let entries = &(*code).entries;
        entries.get(at).and_then(|entry| entry.checked_sub(1))
    }
}

/// A frame that has been entered.
#[derive(Clone, Copy)]
pub(super) struct Began {
    pub running: *mut Value,
    /// How far it was from its caller's.
    pub distance: usize,
    /// Where it was.
    pub pc: *const Instr,
    pub inst: *mut ProtoInst,
}

/// Runs what the frame that waits has called, as far as it is machine code. [`STAY`]: that frame is to go on,
/// at the `pc` of its record. Whatever else it is, machine code returns it.
///
/// # Safety
/// The frame has been waiting since `waiting` was made, and the state is as handlers leave it.
pub(super) unsafe fn drive(vm: *mut Vm, waiting: Waiting) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { drive_from(vm, waiting, false) }
}

/// The same where a frame has been entered, whose machine code has answered this.
///
/// # Safety
/// As there, but for the answer, on which nobody has acted yet.
#[inline(never)]
pub(super) unsafe fn drive_on(vm: *mut Vm, waiting: Waiting, began: Began, answer: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut left = false;
        match answered(vm, began, answer, &mut left) {
            Some(exit) => exit,
            None => drive_from(vm, waiting, left),
        }
    }
}

/// Acts on the answer of the machine code of a frame: what to return, if it does not go on.
///
/// # Safety
/// The frame's code has just been left with it.
#[inline(always)]
unsafe fn answered(vm: *mut Vm, began: Began, answer: u64, left: &mut bool) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        match follow(vm, answer) {
            LEAVE => {
                let now = (*vm).lua.base;
                if now == began.running && (*frame(now)).pc == began.pc {
                    return Some(LEAVE);
                }
                *left = true;
                None
            }
            REFUSED => {
                (*(*began.inst).machine).exits.refused();
                Some(LEAVE)
            }
            other if other < CODES => Some(other),
            returned => {
                (*vm).lua.base = (returned as *mut Value).sub(began.distance);
                None
            }
        }
    }
}

/// Drives on what the frame that waits has called, after a frame has left machine code or not.
///
/// # Safety
/// As [`drive`].
unsafe fn drive_from(vm: *mut Vm, waiting: Waiting, mut left: bool) -> u64 {
    // SAFETY: the caller's promise; whatever runs is a complete frame, since the interpreter or machine code
    // has left it to be gone on with.
    unsafe {
        let mut stretches = 0;
        loop {
            let running = (*vm).lua.base;
            if (*vm).lua.machine.watched {
                return LEAVE;
            }
            if running == waiting.base {
                return STAY;
            }
            if !waiting.waits(vm)
                || (*vm).native_stack_low()
                || (left && (*vm).native_stack_half_used())
                || (*vm).lua.interrupt.load(Ordering::Relaxed) != 0
            {
                return LEAVE;
            }
            let f = frame(running);
            let pc = (*f).pc;
            if pc.is_null() {
                return LEAVE;
            }
            let inst = (*frame_closure(running)).proto;
            let Some(entry) = entry_at(inst, pc) else {
                if stretches == stretch::MOST {
                    return LEAVE;
                }
                stretches += 1;
                match stretch::run(vm) {
                    LEAVE => continue,
                    exit => return exit,
                }
            };
            stretches = 0;
            // A frame that has moved above its extra arguments is returned from where it was.
            let distance = (*f).distance();
            if entry == MachineCode::START {
                (*f).pc = (*(*inst).proto).code.as_ptr();
            }
            let began = Began { running, distance, pc: (*f).pc, inst };
            let answer = start_at(vm, running, inst, entry);
            if let Some(exit) = answered(vm, began, answer, &mut left) {
                return exit;
            }
        }
    }
}

/// For machine code: does the `CALL` at `pc`, which has always called one of the natives that the interpreter
/// does itself. As [`step`], which does it if it is something else, or out of the ordinary.
///
/// # Safety
/// As [`step`].
pub(crate) unsafe extern "C-unwind" fn call_special(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise; the quick ways begin before anything is written.
    unsafe {
        let i = *pc;
        let func = base.add(i.a() as usize);
        let native = native_at(func);
        if native.is_null() || (*vm).lua.machine.watched {
            return step(vm, base, k, pc);
        }
        save!(vm, base, pc.add(1));
        if i.b() != 0 {
            (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
        }
        let results = i.c() as i16 - 1;
        let running = (*vm).lua.thread;
        let waiting = Waiting::of(vm, base);
        let to = match (*native).kind {
            Kind::Pcall => quick_pcall::<false>(vm, base, func, results),
            Kind::Xpcall => quick_pcall::<true>(vm, base, func, results),
            Kind::Resume => {
                let co = func.add(CALL_GAP);
                let is_plain = (*vm).lua.top > co
                    && (*co).tag() == Tag::THREAD
                    && !is_unlogged(vm, running)
                    && !is_unlogged(vm, (*co).payload() as *mut Thread);
                if is_plain { quick_resume::<true>(vm, base, func, results) } else { null_mut() }
            }
            Kind::Wrap => quick_resume::<false>(vm, base, func, results),
            Kind::Yield => {
                let resumer = (*running).resumer;
                let is_plain = !resumer.is_null() && !is_unlogged(vm, running) && !is_unlogged(vm, resumer);
                let to = match is_plain {
                    true => quick_yield::<true>(vm, base, func, Frame::native(results, 0)),
                    false => null_mut(),
                };
                if !to.is_null() {
                    (*vm).lua.base = to;
                    return LEAVE;
                }
                to
            }
            _ => null_mut(),
        };
        if to.is_null() {
            return step(vm, base, k, pc);
        }
        (*vm).lua.base = to;
        drive(vm, waiting)
    }
}

/// Returns from the frame at `base`, whose last instruction is `i`, if it is that of a call, of a metamethod,
/// or of a function that `pcall` or a native has called: what [`super::finish`] answers, if nothing is out of
/// the ordinary.
///
/// # Safety
/// As there, and nobody watches.
#[inline]
pub(super) unsafe fn quick_return(vm: *mut Vm, base: *mut Value, i: Instr) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        let first = base.add(i.a() as usize);
        let n = match i.op() {
            Some(Op::Return0) => 0,
            Some(Op::Return1) => 1,
            Some(Op::Return) if i.d() == 0 && i.b() != 0 => i.b() as usize - 1,
            Some(Op::Return) if i.d() == 0 => (*vm).lua.top.offset_from(first) as usize,
            _ => return None,
        };
        quick_delivery(vm, base, first, n)
    }
}

/// The `n` values from `first` on are what the frame at `base` gives back: as [`quick_return`].
///
/// # Safety
/// As there; the values lie above the base.
#[inline]
unsafe fn quick_delivery(vm: *mut Vm, base: *mut Value, first: *mut Value, n: usize) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        let f = frame(base);
        let parent = base.sub((*f).delta as usize);
        let called = base.sub((*f).shift_or_zero());
        match (*f).flags & !(F_TAIL | F_VARARG) {
            F_ENTRY => {
                deliver_results(vm, called.sub(CALL_GAP), first, n, (*f).nresults as i32);
                (*vm).lua.base = parent;
                Some(RETURNED)
            }
            // A plain return of as many values as there are. Or one to a caller that whoever gets the answer
            // looks at, whether its frame can be entered.
            flags if flags == 0 || flags == F_CONT && (*f).cont == CONT_ENTER => {
                deliver_results(vm, called.sub(CALL_GAP), first, n, (*f).nresults as i32);
                (*vm).lua.base = parent;
                Some(called as u64)
            }
            F_CONT if (*f).cont == CONT_STORE => {
                let to = parent.add((*(*frame(parent)).pc.sub(1)).a() as usize);
                if n > 0 {
                    copy(to, first)
                } else {
                    Value::store_nil(to)
                }
                (*vm).lua.base = parent;
                Some(called as u64)
            }
            F_CONT if (*f).cont == CONT_COMPARE => {
                let truth = n > 0 && (*first).is_truthy();
                (*vm).lua.base = parent;
                (*vm).finish_compare(truth != ((*f).aux != 0));
                Some(called as u64)
            }
            F_CONT if (*f).cont == CONT_DISCARD => {
                (*vm).lua.base = parent;
                Some(called as u64)
            }
            F_CONT if (*f).cont == CONT_PCALL && (*frame(parent)).flags == F_NATIVE | F_PCALL => {
                // The caller of `pcall` is a Lua function.
                let (record, to) = (frame(parent), parent.sub(CALL_GAP));
                (*(*vm).lua.thread).pcalls = (*record).shift;
                let (caller, wanted) = (parent.sub((*record).delta as usize), (*record).nresults as i32);
                copy(to, &Value::TRUE);
                deliver_results(vm, to.add(1), first, n, if wanted > 0 { wanted - 1 } else { wanted });
                (*vm).lua.base = caller;
                Some(LEAVE)
            }
            _ => None,
        }
    }
}

/// The `TAILCALL` at `pc` of the frame at `base`, if it is one of a native that calls no Lua: what
/// [`super::finish`] answers, or what the interpreter has to do about it.
///
/// # Safety
/// As [`quick_return`].
#[inline]
pub(super) unsafe fn quick_tail_of_native(
    vm: *mut Vm,
    base: *mut Value,
    pc: *const Instr,
) -> Option<Result<u64, Flow>> {
    // SAFETY: the caller's promise; nothing is written before it is clear that the native's frame can be
    // pushed.
    unsafe {
        let i = *pc;
        if i.op() != Some(Op::TailCall) || i.d() != 0 {
            return None;
        }
        let func = base.add(i.a() as usize);
        let native = native_at(func);
        if native.is_null() {
            return None;
        }
        let own = func.add(CALL_GAP);
        let top = if i.b() == 0 { (*vm).lua.top } else { own.add(i.b() as usize - 1) };
        let plain = match (*native).kind {
            Kind::Leaf | Kind::Next => true,
            Kind::Hybrid => !(*vm).needs_native_stack(),
            _ => false,
        };
        if !plain || top.wrapping_add(NATIVE_STACK) >= (*vm).lua.stack_limit {
            return None;
        }
        save!(vm, base, pc.add(1));
        (*vm).lua.top = top;
        let dispatch = (*vm).lua.dispatch;
        *frame(own) =
            Frame { flags: F_NATIVE | F_CONT, cont: CONT_RETURN, ..Frame::native(-1, slots(base, own)) };
        (*vm).lua.base = own;
        let n = match (*native).run(&mut *vm) {
            Ok(n) => n as usize,
            Err(thrown) => return Some(Err(Err(thrown))),
        };
        // It may have needed more room, so that the stack has moved, or have set a hook, to which its return
        // is an event.
        if (*vm).lua.base == own && (*vm).lua.dispatch == dispatch && !(*vm).heap.gc_due() {
            let first = (*vm).lua.top.sub(n);
            if let Some(answer) = quick_delivery(vm, base, first, n) {
                return Some(Ok(answer));
            }
        }
        Some(Err((*vm).finish_native(n)))
    }
}

impl Waiting {
    /// Whether what runs is something that the frame waits for.
    ///
    /// # Safety
    /// See [`drive`].
    #[inline]
    unsafe fn waits(&self, vm: *mut Vm) -> bool {
        // SAFETY: a thread that has a frame which waits lives.
        unsafe {
            let above = match (*vm).lua.thread == self.thread {
                true => (*vm).lua.base > self.base,
                false => (*self.thread).standing.status() == Status::Normal,
            };
            above && !self.has_moved()
        }
    }
}
