//! Calls, returns, varargs, closures, to-be-closed variables. What is less plain but has to be quick is in
//! `quick.rs`.

use super::elements::call_element;
use super::quick::{
    call_resume, call_special, call_yield, has_room, native_at, slots, slow_return, slow_return0,
    slow_return1, slow_tailcall,
};
use super::{Flow, Step, copy, flow, frame_ceiling, frame_closure, next, next_gc, op, save, tail};
use crate::Vm;
use crate::frame::{CALL_GAP, CONT_NONE, F_SLOW_RETURN, F_TAIL, F_VARARG, Frame, frame};
use crate::island::SharedFunction;
use crate::native::{Kind, Native};
use crate::object::LuaClosure;
use crate::value::{Tag, Value};
use perilune_syntax::Instr;
use std::sync::atomic::Ordering;

op!(op_call(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    if (*func).tag() != Tag::CLOSURE {
        if (*func).tag() == Tag::NATIVE {
            let kind = (*((*func).payload() as *const Native)).kind;
            if kind == Kind::Resume {
                tail!(call_resume, vm, base, pc, k, i, tab)
            }
            if kind == Kind::Yield {
                tail!(call_yield, vm, base, pc, k, i, tab)
            }
            if kind == Kind::ElementAt || kind == Kind::ElementPut {
                tail!(call_element_saving, vm, base, pc, k, i, tab)
            }
        }
        tail!(slow_call, vm, base, pc, k, i, tab)
    }
    // Stored at once: from here on the registers of `pc` and `k` are free for other things, and nothing is
    // spilled.
    (*frame(base)).pc = pc;
    let p = (*((*func).payload() as *mut LuaClosure)).proto;
    let new_base = func.add(CALL_GAP);
    // Arguments lie within the caller's frame, or below a top that has been looked after.
    if new_base.add((*p).max_stack as usize) >= (*vm).lua.stack_limit
        || (*vm).lua.interrupt.load(Ordering::Relaxed) != 0
    {
        tail!(slow_closure_call, vm, base, std::ptr::null(), std::ptr::null(), i, tab)
    }
    let mut args_end = if i.b() != 0 { new_base.add(i.b() as usize - 1) } else { (*vm).lua.top };
    let params_end = new_base.add((*p).num_params as usize);
    while args_end < params_end {
        Value::store_nil(args_end);
        args_end = args_end.add(1);
    }
    if (*p).is_vararg {
        // VARARGPREP finds its arguments by the top.
        (*vm).lua.top = args_end;
    }
    let f = frame(new_base);
    (*f).tag0 = Tag::FRAME;
    (*f).flags = 0;
    (*f).nresults = i.c() as i16 - 1;
    (*f).delta = i.a() as u32 + CALL_GAP as u32;
    let k = (*p).k as *const Value;
    (*f).k = k;
    (*f).tag1 = Tag::FRAME;
    next!(vm, new_base, (*p).code, k, tab)
});

op!(
    /// The stack is full, or the interrupt flag is set. `pc` is in the frame already.
    #[cold] #[inline(never)] slow_closure_call(vm, base, pc, k, i, tab) {
    (*vm).lua.base = base;
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    flow!(vm, (*vm).start_call(func, i.c() as i16 - 1, 0, CONT_NONE, 0))
});

op!(
    /// CALL of a method of arrays that has no frame.
    #[inline(never)] call_element_saving(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    if i.b() != 0 {
        (*vm).lua.top = base.add(i.a() as usize + CALL_GAP + i.b() as usize - 1);
    }
    tail!(call_element, vm, base, pc, k, i, tab)
});

op!(
    /// Natives and `__call`.
    #[inline(never)] slow_call(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    // A leaf native, the commonest case, without further ado.
    let native = native_at(func);
    if !native.is_null() {
        let new_base = func.add(CALL_GAP);
        let quick = match (*native).kind {
            Kind::Leaf | Kind::Next => true,
            Kind::Hybrid => !(*vm).needs_native_stack(),
            Kind::Pcall | Kind::Xpcall | Kind::Resume | Kind::Wrap | Kind::Yield => {
                tail!(call_special, vm, base, pc, k, i, tab)
            }
            _ => false,
        };
        if quick && (*vm).lua.top.add(crate::call::NATIVE_STACK) < (*vm).lua.stack_limit {
            let f = frame(new_base);
            *f = Frame::native(i.c() as i16 - 1, slots(base, new_base));
            (*vm).lua.base = new_base;
            match (*native).run(&mut *vm) {
                Ok(n) => {
                    if (*vm).lua.base != new_base || (*vm).lua.dispatch != tab {
                        // It needed more room, and the stack moved; or it set a hook, to which its return is
                        // an event.
                        flow!(vm, (*vm).finish_native(n as usize))
                    }
                    let wanted = i.c() as usize;
                    let from = (*vm).lua.top.sub(n as usize);
                    if wanted == 2 {
                        if n > 0 { copy(func, from) } else { *func = Value::NIL }
                    } else {
                        crate::call::deliver_results(vm, func, from, n as usize, wanted as i32 - 1);
                    }
                    (*vm).lua.base = base;
                    if (*vm).heap.gc_due() {
                        tail!(after_native, vm, base, pc, k, i, tab)
                    }
                    next!(vm, base, pc, k, tab)
                }
                Err(e) => flow!(vm, Err(e)),
            }
        }
    }
    if (*func).tag() == Tag::SHARED_FUNCTION {
        let own = (*vm).known_own_function((*func).payload() as *mut SharedFunction);
        if let Some(own) = own
            && own.tag() == Tag::CLOSURE
        {
            copy(func, &own);
            tail!(op_call, vm, base, pc, k, i, tab)
        }
    }
    flow!(vm, (*vm).start_call(func, i.c() as i16 - 1, 0, CONT_NONE, 0))
});

op!(
    /// A leaf native has returned and a collection is due.
    #[inline(never)] after_native(vm, base, pc, k, i, tab) {
    if i.c() != 0 {
        (*vm).lua.top = frame_ceiling(base);
    }
    flow!(vm, (*vm).safepoint_open().map(|()| Step::Continue))
});

op!(op_tailcall(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    let f = frame(base);
    if (*func).tag() == Tag::CLOSURE && i.d() == 0 && (*f).flags & F_VARARG == 0 {
        let p = (*((*func).payload() as *mut LuaClosure)).proto;
        let mut from = func.add(CALL_GAP);
        let args_end = if i.b() != 0 { from.add(i.b() as usize - 1) } else { (*vm).lua.top };
        if has_room(vm, p, base, args_end) {
            copy(base.sub(CALL_GAP), func);
            let mut to = base;
            while from < args_end {
                copy(to, from);
                from = from.add(1);
                to = to.add(1);
            }
            let params_end = base.add((*p).num_params as usize);
            while to < params_end {
                Value::store_nil(to);
                to = to.add(1);
            }
            if (*p).is_vararg {
                (*vm).lua.top = to;
            }
            (*f).flags |= F_TAIL;
            (*f).k = (*p).k;
            let code = (*p).code;
            let k = (*p).k as *const Value;
            next!(vm, base, code, k, tab)
        }
    }
    tail!(slow_tailcall, vm, base, pc, k, i, tab)
});

/// Replaces the running frame by the called function's. A native is called as usual and its results returned.
#[inline(never)]
pub(super) unsafe fn tailcall_flow(vm: &mut Vm, base: *mut Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers; arguments end at vm.top.
    unsafe {
        if vm.lua.interrupt.load(Ordering::Relaxed) != 0 {
            vm.handle_interrupt()?;
        }
        if i.d() == 1 {
            vm.close_upvalues(base);
        }
        let mut func = base.add(i.a() as usize);
        if (*func).tag() != Tag::CLOSURE {
            func = vm.resolve_call(func)?;
        }
        // `resolve_call` may have moved the stack.
        let base = vm.lua.base;
        let f = *frame(base);
        if (*func).tag() != Tag::CLOSURE {
            // The frame of a native replaces nothing: its results become this frame's.
            return vm.start_call(func, -1, 0, crate::frame::CONT_RETURN, 0);
        }
        let count = vm.lua.top.offset_from(func) as usize;
        let target = base.sub(CALL_GAP + f.shift_or_zero());
        std::ptr::copy(func as *const [u8; 16], target as *mut [u8; 16], count);
        vm.lua.top = target.add(count);
        let delta = f.delta as usize;
        // The frame record moves down with the arguments when extra arguments lay below it.
        let parent = if delta == 0 { None } else { Some(base.sub(delta)) };
        vm.enter_lua(target, parent, f.nresults, (f.flags & !F_VARARG) | F_TAIL, f.cont, f.aux)?;
        Ok(Step::Continue)
    }
}

op!(op_return0(vm, base, pc, k, i, tab) {
    let f = frame(base);
    if (*f).flags & F_SLOW_RETURN != 0 {
        tail!(slow_return0, vm, base, pc, k, i, tab)
    }
    let wanted = (*f).nresults as i32;
    let mut dest = base.sub(CALL_GAP);
    let parent = base.sub((*f).delta as usize);
    if wanted < 0 {
        (*vm).lua.top = dest;
    } else {
        let end = dest.add(wanted as usize);
        while dest < end {
            Value::store_nil(dest);
            dest = dest.add(1);
        }
    }
    let pf = frame(parent);
    next!(vm, parent, (*pf).pc, (*pf).k, tab)
});

op!(op_return1(vm, base, pc, k, i, tab) {
    let f = frame(base);
    if (*f).flags & F_SLOW_RETURN != 0 {
        tail!(slow_return1, vm, base, pc, k, i, tab)
    }
    let wanted = (*f).nresults as i32;
    let dest = base.sub(CALL_GAP);
    let parent = base.sub((*f).delta as usize);
    copy(dest, base.add(i.a() as usize));
    if wanted != 1 {
        if wanted < 0 {
            (*vm).lua.top = dest.add(1);
        } else {
            let mut at = dest.add(1);
            let end = dest.add(wanted as usize);
            while at < end {
                Value::store_nil(at);
                at = at.add(1);
            }
        }
    }
    let pf = frame(parent);
    next!(vm, parent, (*pf).pc, (*pf).k, tab)
});

op!(op_return(vm, base, pc, k, i, tab) {
    let first = base.add(i.a() as usize);
    let n = if i.b() == 0 { (*vm).lua.top.offset_from(first) as usize } else { i.b() as usize - 1 };
    if i.d() == 0 && (*frame(base)).flags & F_SLOW_RETURN == 0 {
        let f = frame(base);
        let dest = base.sub(CALL_GAP);
        let wanted = (*f).nresults as i32;
        crate::call::deliver_results(vm, dest, first, n, wanted);
        let parent = base.sub((*f).delta as usize);
        let pf = frame(parent);
        next!(vm, parent, (*pf).pc, (*pf).k, tab)
    }
    tail!(slow_return, vm, base, pc, k, i, tab)
});

op!(
    /// Whatever `slow_return` has no quick way for.
    #[inline(never)] general_return(vm, base, pc, k, i, tab) {
    let first = base.add(i.a() as usize);
    let n = if i.b() == 0 { (*vm).lua.top.offset_from(first) as usize } else { i.b() as usize - 1 };
    save!(vm, base, pc);
    if i.d() == 1 {
        flow!(vm, return_closing_flow(&mut *vm, base, first, n))
    }
    flow!(vm, (*vm).finish_return(base, first, n))
});

#[inline(never)]
unsafe fn return_closing_flow(vm: &mut Vm, base: *mut Value, first: *mut Value, n: usize) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe { vm.closing_on_native_stack(|vm| vm.return_closing(base, first, n)) }
}

#[inline(never)]
unsafe fn close_flow(vm: &mut Vm, a: usize) -> Flow {
    // SAFETY: called for the running frame.
    unsafe { vm.closing_on_native_stack(|vm| vm.close_level(a).map(|()| Step::Continue)) }
}

/// Moves the frame at `base`, of a vararg function with so many fixed parameters, and registers in all, above
/// its arguments, which end at the top. Its base then; null: there is no room, and nothing has been done.
///
/// # Safety
/// The frame has just been made, with its arguments from `base` on; `k` are the constants of its function.
#[inline(always)]
pub(crate) unsafe fn move_above(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    (params, registers): (usize, usize),
) -> *mut Value {
    // SAFETY: the caller's promise; there is room for the function's registers.
    unsafe {
        let new_base = (*vm).lua.top.add(CALL_GAP);
        if new_base.add(registers) >= (*vm).lua.stack_limit {
            return std::ptr::null_mut();
        }
        let (old, f) = (frame(base), frame(new_base));
        let shift = slots(base, new_base);
        copy(new_base.sub(CALL_GAP), base.sub(CALL_GAP));
        // Field by field: the record has just been written that way, and wider loads would wait for the
        // stores.
        (*f).tag0 = Tag::FRAME;
        (*f).flags = (*old).flags | F_VARARG;
        (*f).nresults = (*old).nresults;
        let delta = (*old).delta;
        (*f).delta = if delta == 0 { 0 } else { delta + shift };
        (*f).k = k;
        (*f).tag1 = Tag::FRAME;
        (*f).cont = (*old).cont;
        (*f).aux = (*old).aux;
        (*f).shift = shift;
        for n in 0..params {
            copy(new_base.add(n), base.add(n));
            Value::store_nil(base.add(n));
        }
        new_base
    }
}

op!(op_varargprep(vm, base, pc, k, i, tab) {
    let registers = (*(*frame_closure(base)).proto).max_stack as usize;
    let new_base = move_above(vm, base, k, (i.a() as usize, registers));
    if !new_base.is_null() {
        next!(vm, new_base, pc, k, tab)
    }
    tail!(slow_varargprep, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_varargprep(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, varargprep_flow(&mut *vm, base, i.a() as usize))
});

/// Moves function, frame record and fixed parameters above the arguments, so that the extra ones lie below
/// the frame.
#[inline(never)]
unsafe fn varargprep_flow(vm: &mut Vm, base: *mut Value, params: usize) -> Flow {
    // SAFETY: the arguments lie between base and vm.top; `enter_lua` filled up the fixed ones.
    unsafe {
        let actual = vm.lua.top.offset_from(base) as usize;
        let need = CALL_GAP + (*(*frame_closure(base)).proto).max_stack as usize;
        let base = vm.reserve(vm.lua.top, need)?.sub(actual);
        let shift = actual + CALL_GAP;
        let new_base = base.add(shift);
        std::ptr::copy_nonoverlapping(
            base.sub(CALL_GAP) as *const [u8; 16],
            new_base.sub(CALL_GAP) as *mut [u8; 16],
            CALL_GAP,
        );
        for n in 0..params {
            copy(new_base.add(n), base.add(n));
            *base.add(n) = Value::NIL;
        }
        let f = frame(new_base);
        (*f).flags |= F_VARARG;
        (*f).shift = shift as u32;
        if (*f).delta != 0 {
            (*f).delta += shift as u32;
        }
        vm.lua.base = new_base;
        Ok(Step::Continue)
    }
}

op!(op_vararg(vm, base, pc, k, i, tab) {
    let extra =
        (*frame(base)).shift as usize - CALL_GAP - (*(*frame_closure(base)).proto).num_params as usize;
    let first = base.sub(CALL_GAP + extra);
    let mut a = base.add(i.a() as usize);
    if i.c() == 0 {
        if a.add(extra + 1) >= (*vm).lua.stack_limit {
            tail!(slow_vararg, vm, base, pc, k, i, tab)
        }
        for j in 0..extra {
            copy(a.add(j), first.add(j));
        }
        (*vm).lua.top = a.add(extra);
        next!(vm, base, pc, k, tab)
    }
    let wanted = i.c() as usize - 1;
    let n = wanted.min(extra);
    for j in 0..n {
        copy(a, first.add(j));
        a = a.add(1);
    }
    for _ in n..wanted {
        Value::store_nil(a);
        a = a.add(1);
    }
    next!(vm, base, pc, k, tab)
});

op!(
    /// All extra arguments: the stack may have to grow.
    #[inline(never)] slow_vararg(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, vararg_flow(&mut *vm, base, i))
});

#[inline(never)]
unsafe fn vararg_flow(vm: &mut Vm, base: *mut Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let extra =
            (*frame(base)).shift as usize - CALL_GAP - (*(*frame_closure(base)).proto).num_params as usize;
        let a = vm.reserve(base.add(i.a() as usize), extra + 1)?;
        let first = vm.lua.base.sub(CALL_GAP + extra);
        for j in 0..extra {
            copy(a.add(j), first.add(j));
        }
        vm.lua.top = a.add(extra);
        Ok(Step::Continue)
    }
}

op!(
    /// Makes room below open arguments.
    #[inline(never)] op_lift(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, lift_flow(&mut *vm, i))
});

#[inline(never)]
unsafe fn lift_flow(vm: &mut Vm, i: Instr) -> Flow {
    // SAFETY: called for the running frame; the open values lie between R[a] and the top.
    unsafe {
        let by = i.b() as usize;
        let top = vm.reserve(vm.lua.top, by + 1)?;
        let from = vm.lua.base.add(i.a() as usize);
        let n = top.offset_from(from) as usize;
        std::ptr::copy(from as *const [u8; 16], from.add(by) as *mut [u8; 16], n);
        vm.lua.top = top.add(by);
        Ok(Step::Continue)
    }
}

op!(op_closure(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    if !(*vm).make_closure(base, i.a() as usize, i.bx() as usize) {
        tail!(closure_failed, vm, base, pc, k, i, tab)
    }
    next_gc!(vm, base, pc, k, i, tab)
});

op!(
    /// Memory ran out while a function was made; the error has been raised.
    #[cold] #[inline(never)] closure_failed(vm, base, pc, k, i, tab) {
    flow!(vm, Err((*vm).lua.errors.signal.thrown()))
});

op!(op_close(vm, base, pc, k, i, tab) {
    let level = base.add(i.a() as usize);
    if (*(*vm).lua.thread).tbc == 0 {
        (*vm).close_upvalues(level);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_close, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_close(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, close_flow(&mut *vm, i.a() as usize))
});

op!(#[inline(never)] op_tbc(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, (*vm).mark_tbc(base.add(i.a() as usize)).map(|()| Step::Continue))
});
