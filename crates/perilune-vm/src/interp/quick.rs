//! The quick ways through calls and returns that the plain handlers leave alone: `pcall`, coroutine switches,
//! frames whose results finish an instruction, frames of vararg functions.
//!
//! Each does what `call.rs` and `coroutine.rs` do in general, for the case that is common in loops: no hook,
//! room on the stack, nothing that may fail. The conditions are checked before anything is written, so that
//! the general path can start over. What is tested here is never observable except by the clock.

use super::{Flow, HOOKED, copy, flow, next, op, tail};
use crate::Vm;
use crate::call::{MAX_C_CALLS, NATIVE_STACK, STACK_EXTRA, deliver_results};
use crate::frame::*;
use crate::native::{Kind, Native};
use crate::object::{LuaClosure, NativeClosure, ProtoInst, Status, Thread};
use crate::value::{Gc, Tag, Value};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Whether a frame of `p` at `new_base`, with arguments up to `args_end`, can be pushed without further ado.
///
/// # Safety
/// `p` is a live instance; the addresses are on the running stack.
#[inline(always)]
pub(crate) unsafe fn has_room(
    vm: *mut Vm,
    p: *const ProtoInst,
    new_base: *mut Value,
    args_end: *mut Value,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let limit = (*vm).lua.stack_limit;
        new_base.wrapping_add((*p).max_stack as usize) < limit
            && args_end < limit
            && (*vm).lua.interrupt.load(Ordering::Relaxed) == 0
    }
}

/// Pushes the frame record of a Lua function whose frame will be at `new_base`; its arguments end at
/// `args_end`. The pair is what becomes of its results: the record's `cont` and `aux`.
///
/// # Safety
/// [`has_room`] has said yes; the function is below the record's place.
#[inline(always)]
pub(crate) unsafe fn push_lua(
    vm: *mut Vm,
    caller: *mut Value,
    new_base: *mut Value,
    p: *const ProtoInst,
    mut args_end: *mut Value,
    nresults: i16,
    (cont, aux): (u8, u16),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let params_end = new_base.add((*p).num_params as usize);
        while args_end < params_end {
            Value::store_nil(args_end);
            args_end = args_end.add(1);
        }
        (*vm).lua.top = args_end;
        let f = frame(new_base);
        (*f).pc = (*p).code;
        (*f).tag0 = Tag::FRAME;
        (*f).flags = if cont == CONT_NONE { 0 } else { F_CONT };
        (*f).nresults = nresults;
        (*f).delta = slots(caller, new_base);
        (*f).k = (*p).k;
        (*f).tag1 = Tag::FRAME;
        (*f).cont = cont;
        (*f).aux = aux;
    }
}

/// Slots from `low` to `high`.
#[inline(always)]
pub(crate) fn slots(low: *mut Value, high: *mut Value) -> u32 {
    ((high as usize - low as usize) / size_of::<Value>()) as u32
}

/// The native function that is the value at `func`, or null.
///
/// # Safety
/// `func` is a slot.
#[inline(always)]
pub(crate) unsafe fn native_at(func: *const Value) -> *const Native {
    // SAFETY: the payloads of natives and native closures.
    unsafe {
        match (*func).tag() {
            Tag::NATIVE => (*func).payload() as *const Native,
            Tag::NATIVE_CLOSURE => (*((*func).payload() as *const NativeClosure)).native,
            _ => std::ptr::null(),
        }
    }
}

/// Returns `n` values from `first` on out of the frame at `base`, unless that takes the general way.
macro_rules! quick_return {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $first:expr, $n:expr) => {{
        let (first, n): (*mut crate::value::Value, usize) = ($first, $n);
        let f = crate::frame::frame($base);
        let parent = $base.sub((*f).delta as usize);
        match (*f).flags & !crate::frame::F_TAIL {
            0 | crate::frame::F_VARARG => {
                let dest = $base.sub(crate::frame::CALL_GAP + (*f).shift_or_zero());
                crate::call::deliver_results($vm, dest, first, n, (*f).nresults as i32);
                let pf = crate::frame::frame(parent);
                next!($vm, parent, (*pf).pc, (*pf).k, $tab)
            }
            crate::frame::F_CONT => match (*f).cont {
                crate::frame::CONT_STORE => {
                    let pf = crate::frame::frame(parent);
                    let dest = parent.add((*(*pf).pc.sub(1)).a() as usize);
                    if n > 0 {
                        copy(dest, first)
                    } else {
                        crate::Value::store_nil(dest)
                    }
                    next!($vm, parent, (*pf).pc, (*pf).k, $tab)
                }
                crate::frame::CONT_COMPARE => {
                    let pf = crate::frame::frame(parent);
                    let truth = n > 0 && (*first).is_truthy();
                    if truth != ((*f).aux != 0) {
                        let jump = *(*pf).pc.sub(1);
                        next!($vm, parent, (*pf).pc.offset(jump.sj() as isize), (*pf).k, $tab)
                    }
                    next!($vm, parent, (*pf).pc, (*pf).k, $tab)
                }
                crate::frame::CONT_DISCARD => {
                    let pf = crate::frame::frame(parent);
                    next!($vm, parent, (*pf).pc, (*pf).k, $tab)
                }
                crate::frame::CONT_PCALL
                    if (*crate::frame::frame(parent)).flags
                        == crate::frame::F_NATIVE | crate::frame::F_PCALL =>
                {
                    // The caller of `pcall` is a Lua function.
                    let pf = crate::frame::frame(parent);
                    (*(*$vm).lua.thread).pcalls = (*pf).shift;
                    let dest = parent.sub(crate::frame::CALL_GAP);
                    let parent = parent.sub((*pf).delta as usize);
                    let wanted = (*pf).nresults as i32;
                    copy(dest, &crate::Value::TRUE);
                    let others = if wanted > 0 { wanted - 1 } else { wanted };
                    crate::call::deliver_results($vm, dest.add(1), first, n, others);
                    let pf = crate::frame::frame(parent);
                    next!($vm, parent, (*pf).pc, (*pf).k, $tab)
                }
                crate::frame::CONT_COROUTINE => {
                    let to = end_coroutine($vm, first, n);
                    if !to.is_null() {
                        let pf = crate::frame::frame(to);
                        next!($vm, to, (*pf).pc, (*pf).k, $tab)
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }};
}

op!(
    /// A call of a native that the interpreter itself does: `pcall`, `coroutine.resume` and so on. Everything
    /// is saved, `top` is set.
    #[inline(never)] call_special(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    let nresults = i.c() as i16 - 1;
    if tab != &raw const HOOKED {
        let to = match (*native_at(func)).kind {
            Kind::Pcall => quick_pcall::<false>(vm, base, func, nresults),
            Kind::Xpcall => quick_pcall::<true>(vm, base, func, nresults),
            Kind::Wrap => quick_resume::<false>(vm, base, func, nresults),
            _ => null_mut(),
        };
        if !to.is_null() {
            next!(vm, to, (*frame(to)).pc, (*frame(to)).k, tab)
        }
    }
    flow!(vm, (*vm).start_call(func, nresults, 0, CONT_NONE, 0))
});

/// `pcall` of a Lua function, or `xpcall` (`HANDLER`) of one with another as handler: pushes both frames; the
/// base to go on with, or null.
#[inline(always)]
pub(crate) unsafe fn quick_pcall<const HANDLER: bool>(
    vm: *mut Vm,
    base: *mut Value,
    func: *mut Value,
    nresults: i16,
) -> *mut Value {
    // SAFETY: called for a call of it at `func`, arguments up to top.
    unsafe {
        let own = func.add(CALL_GAP);
        let callee = own.add(HANDLER as usize);
        let top = (*vm).lua.top;
        if top <= callee || (*own).tag() != Tag::CLOSURE || (*callee).tag() != Tag::CLOSURE {
            return null_mut();
        }
        let p = (*((*own).payload() as *const LuaClosure)).proto;
        let new_base = callee.add(CALL_GAP);
        let args_end = top.add(CALL_GAP - 1);
        let th = (*vm).lua.thread;
        let nested = (*th).pcalls;
        if nested + (*vm).lua.c_calls >= MAX_C_CALLS || !has_room(vm, p, new_base, args_end) {
            return null_mut();
        }
        // Room for the callee's record below its arguments.
        let mut from = top;
        while from > callee.add(1) {
            from = from.sub(1);
            copy(from.add(CALL_GAP - 1), from);
        }
        if HANDLER {
            // Where an error looks for it.
            std::ptr::swap(own, callee);
        }
        (*th).pcalls = nested + 1;
        *frame(own) = Frame {
            flags: F_NATIVE | F_PCALL,
            aux: HANDLER as u16,
            shift: nested,
            ..Frame::native(nresults, slots(base, own))
        };
        push_lua(vm, own, new_base, p, args_end, -1, (CONT_PCALL, 0));
        new_base
    }
}

/// Whether the collector has yet to be told that the thread's stack changes.
#[inline(always)]
pub(crate) unsafe fn is_unlogged(vm: *mut Vm, th: *mut Thread) -> bool {
    // SAFETY: called with live objects.
    unsafe { (*th).header.epoch != (*vm).heap.epoch() }
}

op!(
    /// CALL of `coroutine.resume`.
    #[inline(never)] call_resume(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    super::save!(vm, base, pc);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    let co = func.add(CALL_GAP);
    if tab != &raw const HOOKED && (*vm).lua.top > co && (*co).tag() == Tag::THREAD {
        if is_unlogged(vm, (*vm).lua.thread) || is_unlogged(vm, (*co).payload() as *mut Thread) {
            tail!(log_and_resume, vm, base, pc, k, i, tab)
        }
        let to = quick_resume::<true>(vm, base, func, i.c() as i16 - 1);
        if !to.is_null() {
            next!(vm, to, (*frame(to)).pc, (*frame(to)).k, tab)
        }
    }
    tail!(call_special, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] log_and_resume(vm, base, pc, k, i, tab) {
    let co = (*base.add(i.a() as usize + CALL_GAP)).payload() as *mut Thread;
    (*vm).heap.barrier(Gc::from_ptr((*vm).lua.thread).obj());
    (*vm).heap.barrier(Gc::from_ptr(co).obj());
    tail!(call_resume, vm, base, pc, k, i, tab)
});

op!(
    /// CALL of `coroutine.yield`.
    #[inline(never)] call_yield(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    super::save!(vm, base, pc);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    let resumer = (*(*vm).lua.thread).resumer;
    if tab != &raw const HOOKED && !resumer.is_null() {
        if is_unlogged(vm, (*vm).lua.thread) || is_unlogged(vm, resumer) {
            tail!(log_and_yield, vm, base, pc, k, i, tab)
        }
        let to = quick_yield::<true>(vm, base, func, Frame::native(i.c() as i16 - 1, 0));
        if !to.is_null() {
            next!(vm, to, (*frame(to)).pc, (*frame(to)).k, tab)
        }
    }
    tail!(call_special, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] log_and_yield(vm, base, pc, k, i, tab) {
    (*vm).heap.barrier(Gc::from_ptr((*vm).lua.thread).obj());
    (*vm).heap.barrier(Gc::from_ptr((*(*vm).lua.thread).resumer).obj());
    tail!(call_yield, vm, base, pc, k, i, tab)
});

/// The running thread becomes `to`, which has no hook either. `LOGGED`: the collector knows about both
/// already.
#[inline(always)]
unsafe fn switch<const LOGGED: bool>(vm: *mut Vm, to: *mut Thread, base: *mut Value, top: *mut Value) {
    // SAFETY: both are live; `base` is the top frame that the running one is left with.
    unsafe {
        let old = (*vm).lua.thread;
        (*old).base = base;
        (*old).top = top;
        (*old).no_yield = (*vm).lua.no_yield;
        if !LOGGED {
            (*vm).heap.barrier(Gc::from_ptr(old).obj());
            (*vm).heap.barrier(Gc::from_ptr(to).obj());
        }
        (*vm).lua.thread = to;
        (*vm).lua.no_yield = (*to).no_yield;
        (*vm).lua.stack_limit = (*to).stack.add((*to).stack_size - STACK_EXTRA);
    }
}

/// The running thread, whose frame of `resume` is at `own` with arguments up to `top`, has resumed `th`,
/// which runs now. `LOGGED`: see [`switch`].
#[inline(always)]
unsafe fn become_resumed<const LOGGED: bool>(vm: *mut Vm, th: *mut Thread, own: *mut Value, top: *mut Value) {
    // SAFETY: both are live, `th` is suspended.
    unsafe {
        (*th).calls_below = (*vm).lua.c_calls;
        (*vm).lua.c_calls += 1 + (*th).depth;
        (*(*vm).lua.thread).standing.set(Status::Normal);
        (*th).resumer = (*vm).lua.thread;
        (*th).standing.set(Status::Running);
        switch::<LOGGED>(vm, th, own, top);
    }
}

/// Resumes a coroutine that waits in a `yield` that Lua code called, or whose body, a function of Lua, has
/// not started: the base of that code's frame, or null. `LOGGED`: see [`switch`].
#[inline(always)]
pub(crate) unsafe fn quick_resume<const LOGGED: bool>(
    vm: *mut Vm,
    base: *mut Value,
    func: *mut Value,
    nresults: i16,
) -> *mut Value {
    // SAFETY: called for a call of `resume` or a wrap function at `func`, arguments up to top.
    unsafe {
        let own = func.add(CALL_GAP);
        let top = (*vm).lua.top;
        let mut first = own;
        let co = if (*func).tag() == Tag::NATIVE {
            if top <= own {
                return null_mut();
            }
            first = own.add(1);
            own as *const Value
        } else {
            &raw const (*((*func).payload() as *const NativeClosure)).upvals as *const Value
        };
        if (*co).tag() != Tag::THREAD {
            return null_mut();
        }
        let th = (*co).payload() as *mut Thread;
        if (*th).standing.status() != Status::Suspended
            || !(*th).native_stack.is_null()
            || (*th).hook_mask != 0
            || (*vm).lua.c_calls + (*th).depth >= MAX_C_CALLS
            || perilune_trace::on(perilune_trace::Category::Coroutine)
        {
            return null_mut();
        }
        let waiting = (*th).base;
        let n = top.offset_from(first) as usize;
        let end = (*th).stack.add((*th).stack_size - STACK_EXTRA);
        if waiting.wrapping_add(n + NATIVE_STACK) >= end {
            return null_mut();
        }
        if !(*th).started {
            // The body is below its record's place. A tag of another thing than a function of Lua is for the
            // general way.
            let body = waiting.sub(CALL_GAP);
            if (*body).tag() != Tag::CLOSURE || (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
                return null_mut();
            }
            let p = (*((*body).payload() as *const LuaClosure)).proto;
            if waiting.wrapping_add((*p).max_stack as usize) >= end {
                return null_mut();
            }
            (*th).started = true;
            *frame(own) = Frame::native(nresults, slots(base, own));
            become_resumed::<LOGGED>(vm, th, own, top);
            for j in 0..n {
                copy(waiting.add(j), first.add(j));
            }
            // Without a caller: the first frame's distance is 0.
            push_lua(vm, waiting, waiting, p, waiting.add(n), -1, (CONT_COROUTINE, 0));
            return waiting;
        }
        let mut taker = waiting;
        if (*frame(waiting)).flags == F_NATIVE | F_CONT && (*frame(waiting)).cont == CONT_RETURN {
            // `return coroutine.yield()`: whoever called that function takes the values.
            taker = waiting.sub((*frame(waiting)).delta as usize);
            if (*frame(taker)).flags & !(F_TAIL | F_VARARG) != 0 {
                return null_mut();
            }
        } else if (*frame(waiting)).flags != F_NATIVE {
            return null_mut();
        }
        let record = frame(taker);
        *frame(own) = Frame::native(nresults, slots(base, own));
        become_resumed::<LOGGED>(vm, th, own, top);
        let dest = taker.sub(CALL_GAP + (*record).shift_or_zero());
        deliver_results(vm, dest, first, n, (*record).nresults as i32);
        taker.sub((*record).delta as usize)
    }
}

/// Yields to a Lua function that called `resume` or a wrap function: the base of its frame, or null. `record`
/// is that of the call of `yield`, but for its `delta`.
#[inline(always)]
pub(crate) unsafe fn quick_yield<const LOGGED: bool>(
    vm: *mut Vm,
    base: *mut Value,
    func: *mut Value,
    record: Frame,
) -> *mut Value {
    // SAFETY: called for a call of `yield` at `func`, arguments up to top.
    unsafe {
        let own = func.add(CALL_GAP);
        let th = (*vm).lua.thread;
        let resumer = (*th).resumer;
        if resumer.is_null()
            || (*vm).lua.no_yield != 0
            || !(*th).native_stack.is_null()
            || (*resumer).hook_mask != 0
            || own.wrapping_add(NATIVE_STACK) >= (*vm).lua.stack_limit
        {
            return null_mut();
        }
        let waiting = (*resumer).base;
        let resumed = frame(waiting);
        let n = (*vm).lua.top.offset_from(own) as usize;
        let end = (*resumer).stack.add((*resumer).stack_size - STACK_EXTRA);
        if (*resumed).flags != F_NATIVE
            || waiting.wrapping_add(n + NATIVE_STACK) >= end
            || perilune_trace::on(perilune_trace::Category::Coroutine)
        {
            return null_mut();
        }
        let dest = waiting.sub(CALL_GAP);
        let wrap = match native_at(dest) {
            native if native.is_null() => return null_mut(),
            native => match (*native).kind {
                Kind::Wrap => true,
                Kind::Resume => false,
                _ => return null_mut(),
            },
        };
        *frame(own) = Frame { delta: slots(base, own), ..record };
        (*th).standing.set(Status::Suspended);
        (*th).resumer = null_mut();
        (*th).depth = (*vm).lua.c_calls - (*th).calls_below - 1;
        (*vm).lua.c_calls = (*th).calls_below;
        // What a resume brings is put from the base on.
        switch::<LOGGED>(vm, resumer, own, own);
        (*resumer).standing.set(Status::Running);
        take_over(vm, waiting, own, n, wrap)
    }
}

/// Delivers what a coroutine has handed back, `n` values from `first` on, to the call of `resume` or a wrap
/// function (`wrap`) whose frame is at `waiting`, on the running stack: the base of the caller's frame.
#[inline(always)]
unsafe fn take_over(vm: *mut Vm, waiting: *mut Value, first: *mut Value, n: usize, wrap: bool) -> *mut Value {
    // SAFETY: the caller has seen to room for the values.
    unsafe {
        let resumed = frame(waiting);
        let dest = waiting.sub(CALL_GAP);
        let wanted = (*resumed).nresults as i32;
        if wrap {
            deliver_results(vm, dest, first, n, wanted);
        } else {
            copy(dest, &Value::TRUE);
            let others = if wanted > 0 { wanted - 1 } else { wanted };
            deliver_results(vm, dest.add(1), first, n, others);
        }
        waiting.sub((*resumed).delta as usize)
    }
}

/// The body of the running coroutine has returned `n` values from `first` on to a Lua function that called
/// `resume` or a wrap function: the base of its frame, or null.
#[inline(never)]
unsafe fn end_coroutine(vm: *mut Vm, first: *mut Value, n: usize) -> *mut Value {
    // SAFETY: the frame that returns is the first of the running stack.
    unsafe {
        let th = (*vm).lua.thread;
        let resumer = (*th).resumer;
        if resumer.is_null()
            || !(*th).fiber.is_null()
            || !(*th).native_stack.is_null()
            || (*resumer).hook_mask != 0
            || perilune_trace::on(perilune_trace::Category::Coroutine)
        {
            return null_mut();
        }
        let waiting = (*resumer).base;
        let end = (*resumer).stack.add((*resumer).stack_size - STACK_EXTRA);
        if (*frame(waiting)).flags != F_NATIVE || waiting.wrapping_add(n + NATIVE_STACK) >= end {
            return null_mut();
        }
        let wrap = match native_at(waiting.sub(CALL_GAP)) {
            native if native.is_null() => return null_mut(),
            native => match (*native).kind {
                Kind::Wrap => true,
                Kind::Resume => false,
                _ => return null_mut(),
            },
        };
        (*th).standing.set(Status::Dead);
        (*th).resumer = null_mut();
        (*th).depth = 0;
        (*vm).lua.c_calls = (*th).calls_below;
        // What a dead coroutine's stack shows is a native frame at its bottom.
        let bottom = (*th).stack.add(CALL_GAP);
        *frame(bottom) = Frame::native(0, 0);
        switch::<false>(vm, resumer, bottom, bottom);
        (*resumer).standing.set(Status::Running);
        take_over(vm, waiting, first, n, wrap)
    }
}

impl Vm {
    /// Calls metamethod `f` at the top of the running Lua frame; `cont` says what becomes of its result.
    #[inline(always)]
    pub(crate) fn call_meta<const N: usize>(
        &mut self,
        f: Value,
        args: &[Value; N],
        cont: u8,
        aux: u16,
    ) -> Flow {
        let func = self.lua.top;
        // SAFETY: top is the end of the frame's registers.
        unsafe {
            let f = *self.own_function_place(&f);
            let new_base = func.wrapping_add(CALL_GAP);
            let args_end = new_base.wrapping_add(N);
            if f.tag() == Tag::CLOSURE {
                let p = (*(f.payload() as *const LuaClosure)).proto;
                if has_room(self, p, new_base, args_end) {
                    copy(func, &f);
                    for (n, v) in args.iter().enumerate() {
                        copy(new_base.add(n), v);
                    }
                    push_lua(self, self.lua.base, new_base, p, args_end, 1, (cont, aux));
                    self.lua.base = new_base;
                    return Ok(super::Step::Continue);
                }
            }
        }
        self.call_meta_general(f, args, cont, aux)
    }
}

op!(
    /// A tail call of something else than a plain Lua function, or from a vararg function.
    #[inline(never)] slow_tailcall(vm, base, pc, k, i, tab) {
    super::save!(vm, base, pc);
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    let native = native_at(func);
    if !native.is_null() && (*native).kind == Kind::Leaf && i.d() == 0 && tab != &raw const HOOKED {
        let own = func.add(CALL_GAP);
        if (*vm).lua.top.wrapping_add(NATIVE_STACK) < (*vm).lua.stack_limit {
            *frame(own) = Frame {
                flags: F_NATIVE | F_CONT,
                cont: CONT_RETURN,
                ..Frame::native(-1, slots(base, own))
            };
            (*vm).lua.base = own;
            match (*native).run(&mut *vm) {
                Ok(n) => {
                    let n = n as usize;
                    if (*vm).lua.base == own && (*vm).lua.dispatch == tab && !(*vm).heap.gc_due() {
                        (*vm).lua.base = base;
                        let first = (*vm).lua.top.sub(n);
                        quick_return!(vm, base, pc, k, i, tab, first, n);
                        (*vm).lua.base = own;
                    }
                    flow!(vm, (*vm).finish_native(n))
                }
                Err(e) => flow!(vm, Err(e)),
            }
        }
    }
    if !native.is_null() && (*native).kind == Kind::Yield && i.d() == 0 && tab != &raw const HOOKED {
        let record = Frame { flags: F_NATIVE | F_CONT, cont: CONT_RETURN, ..Frame::native(-1, 0) };
        let to = quick_yield::<false>(vm, base, func, record);
        if !to.is_null() {
            next!(vm, to, (*frame(to)).pc, (*frame(to)).k, tab)
        }
    }
    flow!(vm, super::calls::tailcall_flow(&mut *vm, base, i))
});

op!(
    /// The end of a vararg function, a metamethod, a protected call, a coroutine, the entry function, without
    /// results.
    #[inline(never)] slow_return0(vm, base, pc, k, i, tab) {
    if tab != &raw const HOOKED {
        quick_return!(vm, base, pc, k, i, tab, base, 0)
    }
    super::save!(vm, base, pc);
    flow!(vm, (*vm).finish_return(base, base, 0))
});

op!(
    /// As [`slow_return0`], with one result.
    #[inline(never)] slow_return1(vm, base, pc, k, i, tab) {
    if tab != &raw const HOOKED {
        quick_return!(vm, base, pc, k, i, tab, base.add(i.a() as usize), 1)
    }
    super::save!(vm, base, pc);
    flow!(vm, (*vm).finish_return(base, base.add(i.a() as usize), 1))
});

op!(
    /// As [`slow_return0`], with any number of results; variables that closures refer to are closed.
    #[inline(never)] slow_return(vm, base, pc, k, i, tab) {
    if tab != &raw const HOOKED && (i.d() == 0 || (*(*vm).lua.thread).tbc == 0) {
        if i.d() != 0 {
            (*vm).close_upvalues(base);
        }
        let first = base.add(i.a() as usize);
        let n = if i.b() == 0 { (*vm).lua.top.offset_from(first) as usize } else { i.b() as usize - 1 };
        quick_return!(vm, base, pc, k, i, tab, first, n)
    }
    tail!(super::calls::general_return, vm, base, pc, k, i, tab)
});
