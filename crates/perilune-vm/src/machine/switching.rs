//! Going on in another coroutine, from machine code to machine code.
//!
//! `coroutine.resume`, the function of a coroutine and `coroutine.yield` are done by the interpreter's quick
//! ways (`interp/quick.rs`) wherever they can be, and what runs then is driven (`callees.rs`). All cases that
//! these know make them long. So the usual case has a way of its own: both coroutines have only Lua frames,
//! the one that goes on has yielded before and is machine code where it does, few values go over, nobody looks,
//! and no collection has come since either was logged. All of that is asked before anything is written;
//! whatever else there is, [`call_special`] and `iterate_native` do from the beginning. Where a coroutine goes
//! on, and who has resumed it, is remembered beside its status (`standing.rs`).
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
use crate::interp::quick::{native_at, push_lua, slots};
use crate::interp::{copy, frame_closure};
use crate::native::{Kind, Native};
use crate::object::{LuaClosure, NativeClosure, ProtoInst, Status, Thread};
use crate::standing::{Resumed, Yielded};
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
        let (co, first, wraps) = match (*func).tag() {
            Tag::NATIVE if top > own && kind_of((*func).payload() as *const Native) == Kind::Resume => {
                (own as *const Value, own.add(1), false)
            }
            Tag::NATIVE_CLOSURE => match coroutine_of_wrap(func) {
                Some(co) => (co, own, true),
                None => return call_special(vm, base, k, pc),
            },
            _ => return call_special(vm, base, k, pc),
        };
        if (*co).tag() != Tag::THREAD {
            return call_special(vm, base, k, pc);
        }
        let th = (*co).payload() as *mut Thread;
        let n = slots(first, top) as usize;
        let call = Call { base, own, first, n, top, back: pc.add(1), wanted: i.c() as i16 - 1, wraps };
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
            let back = pc.add(1);
            let call = Call { base, own, first: a.add(1), n: 2, top: own, back, wanted, wraps: true };
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
    /// The native is the coroutine's function.
    wraps: bool,
}

/// So many values have room on the other stack without being asked for.
const FEW: usize = 8;
const _: () = assert!(FEW + CALL_GAP < NATIVE_STACK);

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
        let lua = &raw mut (*vm).lua;
        let from = (*lua).thread;
        let depth = (*lua).c_calls + (*th).depth;
        let room = (*lua).stack_limit > call.own.wrapping_add(NATIVE_STACK);
        if !is_logged(vm, th)
            || !is_logged(vm, from)
            || !room
            || call.n > FEW
            || (*th).hook_mask != 0
            || depth >= MAX_C_CALLS
            || is_seen(vm)
            || (*vm).native_stack_low()
            || (*lua).interrupt.load(Ordering::Relaxed) != 0
        {
            return None;
        }
        let yielded = match (*th).standing.yielded() {
            Some(&known) if has_this_code(&known) => known,
            _ => match find_yielded(th) {
                Some(found) => found,
                None => return begin(vm, th, &call),
            },
        };
        let Yielded { running, distance, pc, inst, entry, .. } = yielded;
        become_resumed(vm, th, &call);
        hand_over(vm, yielded.to, call.first, call.n, yielded.wanted);
        let began = Began { running, distance: distance as usize, pc, inst };
        Some(go_on(vm, from, &call, began, entry))
    }
}

/// As [`resume`], if the coroutine has not begun, and its body is machine code.
///
/// # Safety
/// As there, where nothing forbids it.
#[inline(never)]
unsafe fn begin(vm: *mut Vm, th: *mut Thread, call: &Call) -> Option<u64> {
    // SAFETY: the caller's promise. The body of a coroutine that has not begun is below its first record.
    unsafe {
        let running = (*th).base;
        let body = running.sub(CALL_GAP);
        let waits = (*th).standing.status() == Status::Suspended && !(*th).started;
        if !waits || (*body).tag() != Tag::CLOSURE {
            return None;
        }
        let inst = (*((*body).payload() as *const LuaClosure)).proto;
        let room = limit_of(th) > running.wrapping_add((*inst).max_stack as usize + FEW + NATIVE_STACK);
        if (*inst).native.is_null() || !room {
            return None;
        }
        let from = (*vm).lua.thread;
        (*th).started = true;
        become_resumed(vm, th, call);
        for n in 0..call.n {
            copy(running.add(n), call.first.add(n));
        }
        // Without a caller: the first frame's distance is 0.
        push_lua(vm, running, running, inst, running.add(call.n), -1, (CONT_COROUTINE, 0));
        let pc = (*(*inst).proto).code.as_ptr();
        (*frame(running)).pc = pc;
        Some(go_on(vm, from, call, Began { running, distance: 0, pc, inst }, MachineCode::START))
    }
}

/// The native's frame is written, and the coroutine `th` is the one that runs.
///
/// # Safety
/// As [`resume`], of a coroutine that is suspended.
#[inline(always)]
unsafe fn become_resumed(vm: *mut Vm, th: *mut Thread, call: &Call) {
    // SAFETY: the caller's promise.
    unsafe {
        let Call { base, own, top, back, wanted, wraps, .. } = *call;
        debug_assert!(top >= own);
        let lua = &raw mut (*vm).lua;
        let from = (*lua).thread;
        (*frame(base)).pc = back;
        *frame(own) = Frame::native(wanted, slots(base, own));
        (*from).standing.set(Status::Normal);
        (*from).base = own;
        (*from).top = top;
        (*from).no_yield = (*lua).no_yield;
        (*th).resumer = from;
        (*th).standing.set(Status::Running);
        (*th).standing.is_resumed(Resumed { delta: slots(base, own), wanted, wraps });
        (*th).calls_below = (*lua).c_calls;
        (*lua).c_calls += 1 + (*th).depth;
        (*lua).thread = th;
        (*lua).no_yield = (*th).no_yield;
        (*lua).stack_limit = limit_of(th);
    }
}

/// The frame that has been resumed goes on at this entry, and then the one that waits for it, of the coroutine
/// `from`: as [`step`](super::step).
///
/// # Safety
/// The coroutine that runs has been resumed by that call.
#[inline(always)]
unsafe fn go_on(vm: *mut Vm, from: *mut Thread, call: &Call, began: Began, entry: u32) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let lua = &raw mut (*vm).lua;
        let (base, stack) = (call.base, (*from).stack);
        (*lua).base = began.running;
        let answer = start_at(vm, began.running, began.inst, entry);
        // It has yielded, most likely.
        if answer == LEAVE && (*lua).base == base && (*lua).thread == from && !(*lua).machine.watched {
            return STAY;
        }
        drive_on(vm, Waiting { base, thread: from, stack }, began, answer)
    }
}

/// Whether the code that a coroutine has yielded in is there as it was.
///
/// # Safety
/// The coroutine has not gone on since.
#[inline(always)]
unsafe fn has_this_code(at: &Yielded) -> bool {
    // SAFETY: the caller's promise: the frame's closure keeps the instance alive.
    unsafe {
        let code = (*at.inst).machine;
        !code.is_null() && (*code).serial == at.serial
    }
}

/// How a coroutine goes on that is suspended, by its frames, if it is as machine code and in the usual way.
///
/// # Safety
/// As [`resume`].
#[inline(never)]
unsafe fn find_yielded(th: *mut Thread) -> Option<Yielded> {
    // SAFETY: the caller's promise.
    unsafe {
        let waits = (*th).standing.status() == Status::Suspended && (*th).started;
        let own = (*th).base;
        if !waits || !(*th).native_stack.is_null() || own.wrapping_add(FEW + NATIVE_STACK) >= limit_of(th) {
            return None;
        }
        let record = *frame(own);
        let called_by = own.sub(record.delta as usize);
        let taker = match record.flags {
            F_NATIVE => Taker { called: own, base: called_by, wanted: record.nresults },
            flags if flags == F_NATIVE | F_CONT && record.cont == CONT_RETURN => Taker::of_tail(called_by)?,
            _ => return None,
        };
        yielded_at(&taker, (*frame_closure(taker.base)).proto, (*frame(taker.base)).pc)
    }
}

/// Who takes what a resume brings.
struct Taker {
    /// The frame of what it has called.
    called: *mut Value,
    /// Its own.
    base: *mut Value,
    wanted: i16,
}

impl Taker {
    /// That of `return coroutine.yield()` in the frame at `base`: whoever has called that, if it was a function
    /// of Lua in the usual way.
    ///
    /// # Safety
    /// There is such a frame.
    #[inline(always)]
    unsafe fn of_tail(base: *mut Value) -> Option<Taker> {
        // SAFETY: the caller's promise.
        unsafe {
            let record = frame(base);
            let usual = (*record).flags & !(F_TAIL | F_VARARG) == 0;
            let called = base.sub((*record).shift_or_zero());
            let caller = base.sub((*record).delta as usize);
            usual.then_some(Taker { called, base: caller, wanted: (*record).nresults })
        }
    }
}

/// How a function of this instance goes on at `pc`, if it does as machine code.
///
/// # Safety
/// It is that which takes what a resume brings.
unsafe fn yielded_at(taker: &Taker, inst: *mut ProtoInst, pc: *const Instr) -> Option<Yielded> {
    // SAFETY: the caller's promise; an instance with an entry has code.
    unsafe {
        let entry = entry_at(inst, pc).filter(|&entry| entry != MachineCode::START)?;
        let serial = (*(*inst).machine).serial;
        let distance = (*frame(taker.base)).distance() as u32;
        let (running, to) = (taker.base, taker.called.sub(CALL_GAP));
        (serial != 0).then_some(Yielded {
            running,
            distance,
            to,
            wanted: taker.wanted,
            serial,
            entry,
            pc,
            inst,
        })
    }
}

/// Up to where the stack of a coroutine that does not run may be used.
///
/// # Safety
/// It lives.
#[inline(always)]
unsafe fn limit_of(th: *mut Thread) -> *mut Value {
    // SAFETY: the caller's promise.
    unsafe { (*th).stack.add((*th).stack_size - STACK_EXTRA) }
}

/// Whether the collector knows already that the coroutine's stack may change.
///
/// # Safety
/// It lives.
#[inline(always)]
unsafe fn is_logged(vm: *mut Vm, th: *mut Thread) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*th).header.epoch == (*vm).heap.epoch() }
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
        let may = (*lua).no_yield == 0 && (*th).native_stack.is_null();
        let room = (*lua).stack_limit > own.wrapping_add(FEW + NATIVE_STACK);
        if !is_logged(vm, th)
            || !is_logged(vm, resumer)
            || !may
            || !room
            || n > FEW
            || (*resumer).hook_mask != 0
            || is_seen(vm)
        {
            return false;
        }
        let called = match (*th).standing.resumed() {
            Some(&known) => known,
            None => match find_resumed(resumer) {
                Some(called) => called,
                None => return false,
            },
        };
        let resumed = (*resumer).base;
        let to = resumed.sub(CALL_GAP);
        (*frame(base)).pc = pc.add(1);
        *frame(own) = Frame { delta: slots(base, own), ..record };
        (*th).standing.set(Status::Suspended);
        (*th).resumer = null_mut();
        (*th).depth = (*lua).c_calls - (*th).calls_below - 1;
        // What a resume brings is put from the base on.
        (*th).base = own;
        (*th).top = own;
        (*th).no_yield = 0;
        (*resumer).standing.set(Status::Running);
        (*lua).c_calls = (*th).calls_below;
        (*lua).thread = resumer;
        (*lua).no_yield = (*resumer).no_yield;
        (*lua).stack_limit = limit_of(resumer);
        if called.wraps {
            hand_over(vm, to, own, n, called.wanted);
        } else {
            copy(to, &Value::TRUE);
            hand_over(
                vm,
                to.add(1),
                own,
                n,
                if called.wanted > 0 { called.wanted - 1 } else { called.wanted },
            );
        }
        (*lua).base = resumed.sub(called.delta as usize);
        if record.flags == F_NATIVE {
            note(th, Taker { called: own, base, wanted: record.nresults }, pc.add(1));
        } else if let Some(taker) = Taker::of_tail(base) {
            let pc = (*frame(taker.base)).pc;
            note(th, taker, pc);
        }
        true
    }
}

/// The coroutine has yielded, and this one takes what a resume brings, at `pc`: that is noted, if it goes on as
/// machine code.
///
/// # Safety
/// It has just done so.
#[inline(always)]
unsafe fn note(th: *mut Thread, taker: Taker, pc: *const Instr) {
    // SAFETY: the caller's promise.
    unsafe {
        let inst = (*frame_closure(taker.base)).proto;
        let last = (*th).standing.last_yielded();
        let is_same = last.pc == pc
            && last.inst == inst
            && last.running == taker.base
            && last.to == taker.called.sub(CALL_GAP)
            && last.wanted == taker.wanted
            // Another function may have called it where this one does.
            && last.distance == (*frame(taker.base)).distance() as u32;
        if is_same && has_this_code(last) {
            (*th).standing.has_yielded(None);
        } else {
            note_anew(th, taker, inst, pc);
        }
    }
}

/// See [`note`].
///
/// # Safety
/// As there; the function is one of this instance.
#[inline(never)]
unsafe fn note_anew(th: *mut Thread, taker: Taker, inst: *mut ProtoInst, pc: *const Instr) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(at) = yielded_at(&taker, inst, pc) {
            (*th).standing.has_yielded(Some(at));
        }
    }
}

/// Who has resumed a coroutine, by the resumer's frames, if that was a function of Lua in the usual way.
///
/// # Safety
/// It waits for a coroutine.
#[inline(never)]
unsafe fn find_resumed(resumer: *mut Thread) -> Option<Resumed> {
    // SAFETY: the caller's promise.
    unsafe {
        let own = (*resumer).base;
        let native = native_at(own.sub(CALL_GAP));
        let record = *frame(own);
        let room = limit_of(resumer) > own.wrapping_add(FEW + NATIVE_STACK);
        if native.is_null() || record.flags != F_NATIVE || !room {
            return None;
        }
        let wraps = match kind_of(native) {
            Kind::Wrap => true,
            Kind::Resume => false,
            _ => return None,
        };
        Some(Resumed { delta: record.delta, wanted: record.nresults, wraps })
    }
}
