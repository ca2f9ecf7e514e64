//! Calls, returns, varargs, closures, loops, to-be-closed variables.

use super::{
    Flow, Step, copy, flow, frame_ceiling, frame_closure, next, next_gc, op, save, set_float, set_int, tail,
};
use crate::Vm;
use crate::frame::{CALL_GAP, CONT_NONE, F_SLOW_RETURN, F_TAIL, F_VARARG, Frame, frame};
use crate::native::Kind;
use crate::num;
use crate::object::{LuaClosure, NativeClosure};
use crate::value::{Tag, Value};
use perilune_syntax::Instr;
use std::sync::atomic::Ordering;

op!(op_call(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    if (*func).tag == Tag::CLOSURE {
        let cl = (*func).payload as *mut LuaClosure;
        let p = (*cl).proto;
        let new_base = func.add(CALL_GAP);
        let end = new_base.add((*p).max_stack as usize);
        let mut args_end = if i.b() != 0 { new_base.add(i.b() as usize - 1) } else { (*vm).top };
        if end < (*vm).stack_limit && args_end < (*vm).stack_limit && (*vm).interrupt.load(Ordering::Relaxed) == 0 {
            (*frame(base)).pc = pc;
            let params_end = new_base.add((*p).num_params as usize);
            while args_end < params_end {
                (*args_end).tag = Tag::NIL;
                args_end = args_end.add(1);
            }
            if (*p).is_vararg {
                // VARARGPREP finds its arguments by the top.
                (*vm).top = args_end;
            }
            let f = frame(new_base);
            (*f).tag0 = Tag::FRAME;
            (*f).flags = 0;
            (*f).nresults = i.c() as i16 - 1;
            (*f).delta = (new_base as usize - base as usize) as u32 / size_of::<Value>() as u32;
            (*f).k = (*p).k;
            (*f).tag1 = Tag::FRAME;
            let code = (*p).code;
            let k = (*p).k as *const Value;
            next!(vm, new_base, code, k, tab)
        }
    }
    tail!(slow_call, vm, base, pc, k, i, tab)
});

op!(
    /// Natives, `__call`, a full stack, interrupts.
    #[inline(never)] slow_call(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    // A leaf native, the commonest case, without further ado.
    if (*func).tag == Tag::NATIVE || (*func).tag == Tag::NATIVE_CLOSURE {
        let native = if (*func).tag == Tag::NATIVE {
            (*func).payload as *const crate::native::Native
        } else {
            (*((*func).payload as *const NativeClosure)).native
        };
        let new_base = func.add(CALL_GAP);
        let quick = (*native).kind == Kind::Leaf || (*native).kind == Kind::Hybrid && !(*vm).needs_segment();
        if quick && (*vm).top.add(crate::call::NATIVE_STACK) < (*vm).stack_limit {
            let f = frame(new_base);
            *f = Frame::native(i.c() as i16 - 1, (new_base as usize - base as usize) as u32 / size_of::<Value>() as u32);
            (*vm).base = new_base;
            match ((*native).func)(&mut *vm) {
                Ok(n) => {
                    if (*vm).base != new_base || (*vm).dispatch != tab {
                        // It needed more room, and the stack moved; or it set a hook, to which its return is an event.
                        flow!(vm, (*vm).finish_native(n as usize))
                    }
                    let wanted = i.c() as usize;
                    let from = (*vm).top.sub(n as usize);
                    if wanted == 2 {
                        if n > 0 { copy(func, from) } else { *func = Value::NIL }
                    } else {
                        crate::call::deliver_results(vm, func, from, n as usize, wanted as i32 - 1);
                    }
                    (*vm).base = base;
                    if (*vm).heap.gc_due() {
                        tail!(after_native, vm, base, pc, k, i, tab)
                    }
                    next!(vm, base, pc, k, tab)
                }
                Err(e) => flow!(vm, Err(e)),
            }
        }
    }
    flow!(vm, (*vm).start_call(func, i.c() as i16 - 1, 0, CONT_NONE, 0))
});

op!(
    /// A leaf native has returned and a collection is due.
    #[inline(never)] after_native(vm, base, pc, k, i, tab) {
    if i.c() != 0 {
        (*vm).top = frame_ceiling(base);
    }
    flow!(vm, (*vm).safepoint_open(i.c() == 0).map(|()| Step::Continue))
});

op!(op_tailcall(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    flow!(vm, tailcall_flow(&mut *vm, base, i))
});

/// Replaces the running frame by the called function's. A native is called as usual and its results returned.
#[inline(never)]
unsafe fn tailcall_flow(vm: &mut Vm, base: *mut Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers; arguments end at vm.top.
    unsafe {
        if vm.interrupt.load(Ordering::Relaxed) != 0 {
            vm.handle_interrupt()?;
        }
        if i.d() == 1 {
            vm.close_upvalues(base);
        }
        let mut func = base.add(i.a() as usize);
        if (*func).tag != Tag::CLOSURE {
            func = vm.resolve_call(func)?;
        }
        // `resolve_call` may have moved the stack.
        let base = vm.base;
        let f = *frame(base);
        if (*func).tag != Tag::CLOSURE {
            // The frame of a native replaces nothing: its results become this frame's.
            return vm.start_call(func, -1, 0, crate::frame::CONT_RETURN, 0);
        }
        let count = vm.top.offset_from(func) as usize;
        let target = base.sub(CALL_GAP + f.shift_or_zero());
        std::ptr::copy(func as *const [u8; 16], target as *mut [u8; 16], count);
        vm.top = target.add(count);
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
        (*vm).top = dest;
    } else {
        let end = dest.add(wanted as usize);
        while dest < end {
            (*dest).tag = Tag::NIL;
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
            (*vm).top = dest.add(1);
        } else {
            let mut at = dest.add(1);
            let end = dest.add(wanted as usize);
            while at < end {
                (*at).tag = Tag::NIL;
                at = at.add(1);
            }
        }
    }
    let pf = frame(parent);
    next!(vm, parent, (*pf).pc, (*pf).k, tab)
});

op!(#[inline(never)] slow_return0(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, (*vm).finish_return(base, base, 0))
});

op!(#[inline(never)] slow_return1(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, (*vm).finish_return(base, base.add(i.a() as usize), 1))
});

op!(op_return(vm, base, pc, k, i, tab) {
    let first = base.add(i.a() as usize);
    let n = if i.b() == 0 { (*vm).top.offset_from(first) as usize } else { i.b() as usize - 1 };
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

op!(#[inline(never)] slow_return(vm, base, pc, k, i, tab) {
    let first = base.add(i.a() as usize);
    let n = if i.b() == 0 { (*vm).top.offset_from(first) as usize } else { i.b() as usize - 1 };
    save!(vm, base, pc);
    if i.d() == 1 {
        flow!(vm, return_closing_flow(&mut *vm, base, first, n))
    }
    flow!(vm, (*vm).finish_return(base, first, n))
});

#[inline(never)]
unsafe fn return_closing_flow(vm: &mut Vm, base: *mut Value, first: *mut Value, n: usize) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe { vm.closing_on_segment(|vm| vm.return_closing(base, first, n)) }
}

#[inline(never)]
unsafe fn close_flow(vm: &mut Vm, a: usize) -> Flow {
    // SAFETY: called for the running frame.
    unsafe { vm.closing_on_segment(|vm| vm.close_level(a).map(|()| Step::Continue)) }
}

op!(#[inline(never)] op_varargprep(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    flow!(vm, varargprep_flow(&mut *vm, base, i.a() as usize))
});

/// Moves function, frame record and fixed parameters above the arguments, so that the extra ones lie below the frame.
#[inline(never)]
unsafe fn varargprep_flow(vm: &mut Vm, base: *mut Value, params: usize) -> Flow {
    // SAFETY: the arguments lie between base and vm.top; `enter_lua` filled up the fixed ones.
    unsafe {
        let actual = vm.top.offset_from(base) as usize;
        let need = CALL_GAP + (*(*frame_closure(base)).proto).max_stack as usize;
        let base = vm.reserve(vm.top, need)?.sub(actual);
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
        vm.base = new_base;
        Ok(Step::Continue)
    }
}

op!(op_vararg(vm, base, pc, k, i, tab) {
    let extra = (*frame(base)).shift as usize - CALL_GAP - (*(*frame_closure(base)).proto).num_params as usize;
    let first = base.sub(CALL_GAP + extra);
    let mut a = base.add(i.a() as usize);
    if i.c() == 0 {
        tail!(slow_vararg, vm, base, pc, k, i, tab)
    }
    let wanted = i.c() as usize - 1;
    let n = wanted.min(extra);
    for j in 0..n {
        copy(a, first.add(j));
        a = a.add(1);
    }
    for _ in n..wanted {
        (*a).tag = Tag::NIL;
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
        let first = vm.base.sub(CALL_GAP + extra);
        for j in 0..extra {
            copy(a.add(j), first.add(j));
        }
        vm.top = a.add(extra);
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
        let top = vm.reserve(vm.top, by + 1)?;
        let from = vm.base.add(i.a() as usize);
        let n = top.offset_from(from) as usize;
        std::ptr::copy(from as *const [u8; 16], from.add(by) as *mut [u8; 16], n);
        vm.top = top.add(by);
        Ok(Step::Continue)
    }
}

op!(op_closure(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    let v = (*vm).make_closure(base, i.bx() as usize);
    *base.add(i.a() as usize) = v;
    next_gc!(vm, base, pc, k, i, tab)
});

op!(op_close(vm, base, pc, k, i, tab) {
    let level = base.add(i.a() as usize);
    if (*(*vm).thread).tbc == 0 {
        (*vm).close_upvalues(level);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_close, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_close(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).top = frame_ceiling(base);
    flow!(vm, close_flow(&mut *vm, i.a() as usize))
});

op!(#[inline(never)] op_tbc(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).top = frame_ceiling(base);
    flow!(vm, (*vm).mark_tbc(base.add(i.a() as usize)).map(|()| Step::Continue))
});

op!(op_forprep(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let (init, limit, step) = (a, a.add(1), a.add(2));
    if (*init).tag == Tag::INT && (*step).tag == Tag::INT && (*limit).tag == Tag::INT && (*step).payload != 0 {
        let (start, lim, st) = ((*init).int_bits(), (*limit).int_bits(), (*step).int_bits());
        if if st > 0 { start > lim } else { start < lim } {
            next!(vm, base, pc.offset(i.sj() as isize), k, tab)
        }
        (*limit).payload = iterations(start, lim, st);
        copy(a.add(3), init);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_forprep, vm, base, pc, k, i, tab)
});

/// How often an integer loop that runs at all comes around after its first iteration.
#[inline(always)]
fn iterations(start: i64, limit: i64, step: i64) -> u64 {
    if step > 0 {
        let distance = (limit as u64).wrapping_sub(start as u64);
        if step == 1 { distance } else { distance / step as u64 }
    } else {
        let distance = (start as u64).wrapping_sub(limit as u64);
        distance / (step.wrapping_neg() as u64)
    }
}

op!(#[inline(never)] slow_forprep(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    save!(vm, base, pc);
    match (*vm).for_prep(a) {
        Ok(true) => { next!(vm, base, pc, k, tab) }
        Ok(false) => { next!(vm, base, pc.offset(i.sj() as isize), k, tab) }
        Err(e) => flow!(vm, Err(e)),
    }
});

impl Vm {
    fn for_number(&mut self, v: Value, what: &str) -> crate::LuaResult<f64> {
        match Self::string_to_number(v).and_then(Value::as_number) {
            Some(f) => Ok(f),
            None => {
                let kind = self.typename_for_message(v);
                Err(self.error(format!("bad 'for' {what} (number expected, got {kind})")))
            }
        }
    }

    /// Prepares a numeric loop whose values are not all integers; true if it runs.
    unsafe fn for_prep(&mut self, a: *mut Value) -> crate::LuaResult<bool> {
        // SAFETY: four registers of the running frame.
        unsafe {
            let (init, limit, step) = (*a, *a.add(1), *a.add(2));
            if let (Some(start), Some(st)) = (init.as_int(), step.as_int()) {
                if st == 0 {
                    return Err(self.error("'for' step is zero"));
                }
                // A string stands for its float (as in PUC Lua, though not in the manual).
                let limit =
                    if limit.is_int() { limit } else { Value::float(self.for_number(limit, "limit")?) };
                let Some(lim) = num::for_limit(start, limit, st) else { return Ok(false) };
                *a.add(1) = Value::int(iterations(start, lim, st) as i64);
                *a.add(3) = init;
                return Ok(true);
            }
            let lim = self.for_number(limit, "limit")?;
            let st = self.for_number(step, "step")?;
            let x = self.for_number(init, "initial value")?;
            if st == 0.0 {
                return Err(self.error("'for' step is zero"));
            }
            if if st > 0.0 { lim < x } else { x < lim } {
                return Ok(false);
            }
            *a = Value::float(x);
            *a.add(1) = Value::float(lim);
            *a.add(2) = Value::float(st);
            *a.add(3) = Value::float(x);
            Ok(true)
        }
    }
}

op!(op_forloop(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    if (*a.add(2)).tag == Tag::INT {
        let left = (*a.add(1)).payload;
        if left > 0 {
            let idx = (*a).int_bits().wrapping_add((*a.add(2)).int_bits());
            (*a.add(1)).payload = left - 1;
            (*a).payload = idx as u64;
            set_int!(a.add(3), idx);
            let pc = pc.offset(i.sj() as isize);
            if (*vm).interrupt.load(Ordering::Relaxed) != 0 {
                tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
            }
            next!(vm, base, pc, k, tab)
        }
        next!(vm, base, pc, k, tab)
    }
    let step = (*a.add(2)).float_bits();
    let idx = (*a).float_bits() + step;
    let limit = (*a.add(1)).float_bits();
    if if step > 0.0 { idx <= limit } else { limit <= idx } {
        (*a).payload = idx.to_bits();
        set_float!(a.add(3), idx);
        let pc = pc.offset(i.sj() as isize);
        if (*vm).interrupt.load(Ordering::Relaxed) != 0 {
            tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
        }
        next!(vm, base, pc, k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_tforprep(vm, base, pc, k, i, tab) {
    let closing = base.add(i.a() as usize + 3);
    if (*closing).is_nil() {
        // The payload of the nil is where `next` left off, for TFORCALL.
        (*closing).payload = 0;
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    tail!(slow_tforprep, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_tforprep(vm, base, pc, k, i, tab) {
    let target = pc.offset(i.sj() as isize);
    save!(vm, base, pc);
    (*vm).top = frame_ceiling(base);
    if let Err(e) = (*vm).mark_tbc(base.add(i.a() as usize + 3)) {
        flow!(vm, Err(e))
    }
    next!(vm, base, target, k, tab)
});

op!(op_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    if (*a).tag == Tag::NATIVE && (*a.add(1)).tag == Tag::TABLE && (*vm).dispatch == &raw const super::HANDLERS {
        let kind = (*((*a).payload as *const crate::native::Native)).kind;
        let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
        if kind == Kind::Next && (*a.add(3)).is_nil() {
            match (*vm).for_next(a, t, i.b() as usize) {
                ForNext::Item => {
                    // The TFORLOOP that follows.
                    let next = *pc;
                    let pc = pc.add(1).offset(next.sj() as isize);
                    if (*vm).interrupt.load(Ordering::Relaxed) != 0 {
                        tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
                    }
                    next!(vm, base, pc, k, tab)
                }
                ForNext::End => next!(vm, base, pc.add(1), k, tab),
                ForNext::Unknown => {}
            }
        } else if kind == Kind::IpairsStep && (*a.add(2)).tag == Tag::INT {
            let n = (*a.add(2)).int_bits().wrapping_add(1);
            let v = (*vm).raw_get_int(t, n);
            if !v.is_nil() || t.metatable.is_null() {
                if v.is_nil() {
                    next!(vm, base, pc.add(1), k, tab)
                }
                set_int!(a.add(2), n);
                set_int!(a.add(4), n);
                if i.b() >= 2 {
                    *a.add(5) = v;
                    for n in 2..i.b() as usize {
                        *a.add(4 + n) = Value::NIL;
                    }
                }
                let next = *pc;
                let pc = pc.add(1).offset(next.sj() as isize);
                if (*vm).interrupt.load(Ordering::Relaxed) != 0 {
                    tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
                }
                next!(vm, base, pc, k, tab)
            }
        }
    }
    tail!(slow_tforcall, vm, base, pc, k, i, tab)
});

/// What the next step of a traversal came to.
enum ForNext {
    Item,
    End,
    Unknown,
}

impl Vm {
    /// One step of `for ... in next, t`, whose hidden variables start at `a`, for `count` variables. The payload of the closing variable (a nil) is where the
    /// last step stopped; the control variable proves that it is still right.
    #[inline(never)]
    unsafe fn for_next(
        &mut self,
        a: *mut Value,
        t: crate::Gc<crate::object::Table>,
        count: usize,
    ) -> ForNext {
        // SAFETY: the loop's registers, in the running frame.
        unsafe {
            let mut position = (*a.add(3)).payload as u32;
            let control = *a.add(2);
            if position == 0 {
                if !control.is_nil() {
                    return ForNext::Unknown;
                }
            } else if !self.position_holds(t, position, control) {
                return ForNext::Unknown;
            }
            let Some((key, value)) = self.next_at(t, &mut position) else { return ForNext::End };
            (*a.add(3)).payload = position as u64;
            *a.add(2) = key;
            *a.add(4) = key;
            if count >= 2 {
                *a.add(5) = value;
                for n in 2..count {
                    *a.add(4 + n) = Value::NIL;
                }
            }
            ForNext::Item
        }
    }
}

op!(#[inline(never)] slow_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let func = a.add(4);
    copy(func, a);
    copy(func.add(CALL_GAP), a.add(1));
    copy(func.add(CALL_GAP + 1), a.add(2));
    save!(vm, base, pc);
    (*vm).top = func.add(CALL_GAP + 2);
    flow!(vm, (*vm).start_call(func, i.b() as i16, 0, CONT_NONE, 0))
});

op!(op_tforloop(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    if !(*a.add(4)).is_nil() {
        copy(a.add(2), a.add(4));
        let pc = pc.offset(i.sj() as isize);
        if (*vm).interrupt.load(Ordering::Relaxed) != 0 {
            tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
        }
        next!(vm, base, pc, k, tab)
    }
    next!(vm, base, pc, k, tab)
});
