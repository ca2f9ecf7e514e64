//! Going on in another coroutine, from machine code to machine code.
//!
//! `coroutine.resume`, the function of a coroutine and `coroutine.yield` are done by the interpreter's quick
//! ways (`interp/quick.rs`) wherever they can be, and what runs then is driven (`callees.rs`). All cases that
//! these know make them long: a value that a generator passes on took 500 instructions of the processor there;
//! it takes 360 here. So the usual case has a way of its own: both coroutines have only Lua frames, the one that goes on has
//! yielded before and is machine code where it does, nobody looks, and no collection has come since either
//! was logged. All of that is asked before anything is written; whatever else there is, [`call_special`] and
//! `iterate_native` do from the beginning.
//!
//! What is written is what they write, and in the same order of events: the record of the native's frame,
//! the states of both coroutines, the values.

use super::callees::{Began, call_special, drive_on, entry_at};
use super::entry::{Waiting, start_at};
use super::natives::iterate_native;
use super::{LEAVE, MachineCode, STAY};
use crate::Vm;
use crate::call::{MAX_C_CALLS, NATIVE_STACK, STACK_EXTRA, deliver_results};
use crate::frame::*;
use crate::interp::quick::{native_at, slots};
use crate::interp::{copy, frame_closure};
use crate::native::{Kind, Native};
use crate::object::{NativeClosure, Status, Thread};
use crate::value::{Tag, Value};
use perilune_syntax::{Instr, Op};
use perilune_trace::event::Category;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// For machine code: does the `CALL` at `pc`, which has always called `coroutine.resume`, or functions of
/// coroutines. As [`step`](super::step).
///
/// # Safety
/// As there.
pub(crate) unsafe extern "C-unwind" fn call_resume(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise: the registers of the call are the frame's.
    unsafe {
        let i = *pc;
        let func = base.add(i.a() as usize);
        let own = func.add(CALL_GAP);
        let top = if i.b() == 0 { (*vm).lua.top } else { own.add(i.b() as usize - 1) };
        let (co, first) = match (*func).tag() {
            Tag::NATIVE if top > own && kind_of((*func).payload() as *const Native) == Kind::Resume => {
                (own as *const Value, own.add(1))
            }
            Tag::NATIVE_CLOSURE => match coroutine_of_wrap(func) {
                Some(co) => (co, own),
                None => return call_special(vm, base, k, pc),
            },
            _ => return call_special(vm, base, k, pc),
        };
        if (*co).tag() != Tag::THREAD {
            return call_special(vm, base, k, pc);
        }
        let th = (*co).payload() as *mut Thread;
        let n = slots(first, top) as usize;
        let call = Call { base, own, first, n, top, back: pc.add(1), wanted: i.c() as i16 - 1 };
        match resume(vm, th, call) {
            Some(answer) => answer,
            None => call_special(vm, base, k, pc),
        }
    }
}

/// The coroutine of the native closure at `func`, if that is the function of one.
///
/// # Safety
/// There is one.
#[inline(always)]
unsafe fn coroutine_of_wrap(func: *const Value) -> Option<*const Value> {
    // SAFETY: the caller's promise; the function of a coroutine has that as its upvalue.
    unsafe {
        let closure = (*func).payload() as *const NativeClosure;
        let upvalues = &raw const (*closure).upvals as *const Value;
        (kind_of((*closure).native) == Kind::Wrap).then_some(upvalues)
    }
}

/// # Safety
/// The native is one of the program's.
#[inline(always)]
unsafe fn kind_of(native: *const Native) -> Kind {
    // SAFETY: the caller's promise.
    unsafe { (*native).kind }
}

/// For machine code: does the `TFORCALL` at `pc`, whose iterator has always been the function of a coroutine.
/// As [`iterate_native`].
///
/// # Safety
/// As there.
pub(crate) unsafe extern "C-unwind" fn iterate_coroutine(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise: a loop's registers from the fifth on are the iterator's to write.
    unsafe {
        let i = *pc;
        let a = base.add(i.a() as usize);
        let func = a.add(4);
        let own = func.add(CALL_GAP);
        if (*a).tag() == Tag::NATIVE_CLOSURE
            && (*vm).lua.stack_limit > own.wrapping_add(NATIVE_STACK)
            && let Some(co) = coroutine_of_wrap(a)
            && (*co).tag() == Tag::THREAD
        {
            let th = (*co).payload() as *mut Thread;
            // Whoever looks at the native's frame finds its function below.
            copy(func, a);
            // The arguments go from where they are to the coroutine: the native's frame has none.
            let wanted = i.b() as i16;
            let call = Call { base, own, first: a.add(1), n: 2, top: own, back: pc.add(1), wanted };
            if let Some(answer) = resume(vm, th, call) {
                return answer;
            }
        }
        iterate_native(vm, base, k, pc)
    }
}

/// A call that resumes a coroutine.
struct Call {
    /// The frame that calls.
    base: *mut Value,
    /// That of the native.
    own: *mut Value,
    /// What the coroutine gets: from here on
    first: *mut Value,
    /// so many values.
    n: usize,
    /// Where the native's frame ends, and with it what the caller's stack keeps.
    top: *mut Value,
    /// Where the caller goes on,
    back: *const Instr,
    /// with so many results; -1: all.
    wanted: i16,
}

/// The suspended coroutine goes on, if everything is as usual: as [`step`](super::step). `None`: nothing has
/// been done.
///
/// # Safety
/// The native's function is where its frame says; all of the call is the running frame's.
#[inline(always)]
unsafe fn resume(vm: *mut Vm, th: *mut Thread, call: Call) -> Option<u64> {
    // SAFETY: the caller's promise. A suspended coroutine that has begun has the frame of `yield` on top,
    // unless a native stack, or a native that yields in another way, is in between.
    unsafe {
        let Call { base, own, first, n, top, back, wanted } = call;
        debug_assert!(top >= own);
        let lua = &raw mut (*vm).lua;
        let from = (*lua).thread;
        let epoch = (*vm).heap.epoch();
        let depth = (*lua).c_calls + (*th).depth;
        let waits = (*th).status == Status::Suspended && (*th).started && (*th).native_stack.is_null();
        let logged = (*th).header.epoch == epoch && (*from).header.epoch == epoch;
        let room = (*lua).stack_limit > own.wrapping_add(NATIVE_STACK);
        if !waits || !logged || !room || (*th).hook_mask != 0 || depth >= MAX_C_CALLS || is_seen(vm) {
            return None;
        }
        let yielded = (*th).base;
        let limit = (*th).stack.add((*th).stack_size - STACK_EXTRA);
        let mut taker = yielded;
        if (*frame(yielded)).flags == F_NATIVE | F_CONT && (*frame(yielded)).cont == CONT_RETURN {
            // `return coroutine.yield()`: whoever called that function takes the values.
            taker = yielded.sub((*frame(yielded)).delta as usize);
            if (*frame(taker)).flags & !(F_TAIL | F_VARARG) != 0 {
                return None;
            }
        } else if (*frame(yielded)).flags != F_NATIVE {
            return None;
        }
        if yielded.wrapping_add(n + NATIVE_STACK) >= limit {
            return None;
        }
        let record = frame(taker);
        let running = taker.sub((*record).delta as usize);
        let pc = (*frame(running)).pc;
        let inst = (*frame_closure(running)).proto;
        let entry = entry_at(inst, pc).filter(|&entry| entry != MachineCode::START)?;
        if (*vm).native_stack_low() || (*lua).interrupt.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let distance = (*frame(running)).distance();
        (*frame(base)).pc = back;
        *frame(own) = Frame::native(wanted, slots(base, own));
        (*from).status = Status::Normal;
        (*from).base = own;
        (*from).top = top;
        (*from).no_yield = (*lua).no_yield;
        (*th).resumer = from;
        (*th).status = Status::Running;
        (*th).calls_below = (*lua).c_calls;
        (*lua).c_calls = depth + 1;
        (*lua).thread = th;
        (*lua).no_yield = (*th).no_yield;
        (*lua).stack_limit = limit;
        hand_over(vm, taker.sub(CALL_GAP + (*record).shift_or_zero()), first, n, (*record).nresults);
        (*lua).base = running;
        let waiting = Waiting { base, thread: from, stack: (*from).stack };
        let answer = start_at(vm, running, inst, entry);
        // It has yielded, most likely.
        if answer == LEAVE && (*lua).base == base && (*lua).thread == from && !(*lua).machine.watched {
            return Some(STAY);
        }
        Some(drive_on(vm, waiting, Began { running, distance, pc, inst }, answer))
    }
}

/// Whether somebody wants to see instructions, or coroutines that go on.
#[inline(always)]
unsafe fn is_seen(vm: *mut Vm) -> bool {
    // SAFETY: the caller's: the state of this domain.
    unsafe { (*vm).lua.machine.watched || perilune_trace::on(Category::Coroutine) }
}

/// So many values go from `from` to `to`, where so many are wanted.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn hand_over(vm: *mut Vm, to: *mut Value, from: *const Value, n: usize, wanted: i16) {
    // SAFETY: the caller's promise.
    unsafe {
        match (n, wanted) {
            (_, 0) => {}
            (1.., 1) => copy(to, from),
            (2.., 2) => {
                copy(to, from);
                copy(to.add(1), from.add(1));
            }
            _ => deliver_results(vm, to, from, n, wanted as i32),
        }
    }
}

/// For machine code: does the `CALL` at `pc`, which has always called `coroutine.yield`. As
/// [`step`](super::step).
///
/// # Safety
/// As there.
pub(crate) unsafe extern "C-unwind" fn call_yield(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise: the registers of the call are the frame's.
    unsafe {
        let record = Frame::native((*pc).c() as i16 - 1, 0);
        if suspend(vm, base, pc, record) { LEAVE } else { call_special(vm, base, k, pc) }
    }
}

/// The `TAILCALL` at `pc` of the frame at `base`, if it is one of `coroutine.yield`, and everything is as
/// usual: whether it has been done. What a resume brings goes to whoever has called the frame.
///
/// # Safety
/// As [`step`](super::step).
#[inline]
pub(super) unsafe fn yield_at_tail(vm: *mut Vm, base: *mut Value, pc: *const Instr) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let record = Frame { flags: F_NATIVE | F_CONT, cont: CONT_RETURN, ..Frame::native(-1, 0) };
        (*pc).op() == Some(Op::TailCall) && (*pc).d() == 0 && suspend(vm, base, pc, record)
    }
}

/// The running coroutine is suspended by the call of `coroutine.yield` at `pc` of the frame at `base`, with
/// this record but for its distance, if it is one, and everything is as usual; whether it has been. If not,
/// nothing has been done. Then the state's `base` is that of the frame that has resumed it.
///
/// # Safety
/// As [`step`](super::step).
#[inline(always)]
unsafe fn suspend(vm: *mut Vm, base: *mut Value, pc: *const Instr, record: Frame) -> bool {
    // SAFETY: the caller's promise: the registers of the call are the frame's. Who has resumed a coroutine
    // lives, with the native's frame on top.
    unsafe {
        let i = *pc;
        let func = base.add(i.a() as usize);
        let own = func.add(CALL_GAP);
        let lua = &raw mut (*vm).lua;
        let th = (*lua).thread;
        let resumer = (*th).resumer;
        let is_yield =
            (*func).tag() == Tag::NATIVE && kind_of((*func).payload() as *const Native) == Kind::Yield;
        if !is_yield || resumer.is_null() {
            return false;
        }
        let top = if i.b() == 0 { (*lua).top } else { own.add(i.b() as usize - 1) };
        let n = slots(own, top) as usize;
        let epoch = (*vm).heap.epoch();
        let logged = (*th).header.epoch == epoch && (*resumer).header.epoch == epoch;
        let may = (*lua).no_yield == 0 && (*th).native_stack.is_null();
        let room = (*lua).stack_limit > own.wrapping_add(NATIVE_STACK);
        if !logged || !may || !room || (*resumer).hook_mask != 0 || is_seen(vm) {
            return false;
        }
        let resumed = (*resumer).base;
        let limit = (*resumer).stack.add((*resumer).stack_size - STACK_EXTRA);
        let called = frame(resumed);
        let to = resumed.sub(CALL_GAP);
        let native = native_at(to);
        let kind = if native.is_null() { Kind::Leaf } else { kind_of(native) };
        if (*called).flags != F_NATIVE
            || resumed.wrapping_add(n + NATIVE_STACK) >= limit
            || !matches!(kind, Kind::Wrap | Kind::Resume)
        {
            return false;
        }
        (*frame(base)).pc = pc.add(1);
        *frame(own) = Frame { delta: slots(base, own), ..record };
        (*th).status = Status::Suspended;
        (*th).resumer = null_mut();
        (*th).depth = (*lua).c_calls - (*th).calls_below - 1;
        // What a resume brings is put from the base on.
        (*th).base = own;
        (*th).top = own;
        (*th).no_yield = 0;
        (*resumer).status = Status::Running;
        (*lua).c_calls = (*th).calls_below;
        (*lua).thread = resumer;
        (*lua).no_yield = (*resumer).no_yield;
        (*lua).stack_limit = limit;
        let wanted = (*called).nresults;
        if kind == Kind::Wrap {
            hand_over(vm, to, own, n, wanted);
        } else {
            copy(to, &Value::TRUE);
            hand_over(vm, to.add(1), own, n, if wanted > 0 { wanted - 1 } else { wanted });
        }
        (*lua).base = resumed.sub((*called).delta as usize);
        true
    }
}
