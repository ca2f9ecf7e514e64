//! Loads, moves, upvalues, jumps and tests.

use super::{Flow, copy, flow, next, op, save, set_int, tail};
use crate::Vm;
use crate::object::{LuaClosure, Upval};
use crate::value::{Gc, Tag, Value};
use std::sync::atomic::Ordering;

op!(op_move(vm, base, pc, k, i, tab) {
    copy(base.add(i.a() as usize), base.add(i.b() as usize));
    next!(vm, base, pc, k, tab)
});

op!(op_loadi(vm, base, pc, k, i, tab) {
    set_int!(base.add(i.a() as usize), i.sj() as i64);
    next!(vm, base, pc, k, tab)
});

op!(op_loadk(vm, base, pc, k, i, tab) {
    copy(base.add(i.a() as usize), k.add(i.bx() as usize));
    next!(vm, base, pc, k, tab)
});

op!(op_loadnil(vm, base, pc, k, i, tab) {
    let mut slot = base.add(i.a() as usize);
    let last = slot.add(i.b() as usize);
    while slot <= last {
        Value::store_nil(slot);
        slot = slot.add(1);
    }
    next!(vm, base, pc, k, tab)
});

op!(op_loadtrue(vm, base, pc, k, i, tab) {
    *base.add(i.a() as usize) = Value::TRUE;
    next!(vm, base, pc, k, tab)
});

op!(op_loadfalse(vm, base, pc, k, i, tab) {
    *base.add(i.a() as usize) = Value::FALSE;
    next!(vm, base, pc, k, tab)
});

op!(op_lfalseskip(vm, base, pc, k, i, tab) {
    *base.add(i.a() as usize) = Value::FALSE;
    next!(vm, base, pc.add(1), k, tab)
});

/// Upvalue `n` of the function of the frame at `base`.
#[inline(always)]
pub(crate) unsafe fn upvalue(base: *mut Value, n: usize) -> *mut Upval {
    // SAFETY: verified code: the upvalue exists.
    unsafe {
        let cl = (*base.sub(3)).payload() as *mut LuaClosure;
        *(&raw const (*cl).upvals as *const *mut Upval).add(n)
    }
}

op!(op_getupval(vm, base, pc, k, i, tab) {
    let uv = upvalue(base, i.b() as usize);
    copy(base.add(i.a() as usize), (*uv).v);
    next!(vm, base, pc, k, tab)
});

op!(op_setupval(vm, base, pc, k, i, tab) {
    let uv = upvalue(base, i.b() as usize);
    let v = base.add(i.a() as usize);
    if (*uv).header.epoch != (*vm).heap.epoch() && ((*v).tag() >= Tag::STRING || (*uv).is_frozen()) {
        tail!(old_setupval, vm, base, pc, k, i, tab)
    }
    copy((*uv).v, v);
    next!(vm, base, pc, k, tab)
});

op!(
    /// SETUPVAL of a reference in an upvalue that the collector has to be told about; or of anything in a
    /// frozen one, which is an error.
    #[inline(never)] old_setupval(vm, base, pc, k, i, tab) {
    let uv = upvalue(base, i.b() as usize);
    if (*uv).is_frozen() {
        save!(vm, base, pc);
        flow!(vm, frozen_variable(&mut *vm, base, i))
    }
    (*vm).barrier_upvalue(uv);
    copy((*uv).v, base.add(i.a() as usize));
    next!(vm, base, pc, k, tab)
});

/// A store into a variable that has come from another domain.
#[cold]
#[inline(never)]
unsafe fn frozen_variable(vm: &mut Vm, base: *mut Value, i: perilune_syntax::Instr) -> Flow {
    // SAFETY: the running frame's function is below its registers.
    let cl = unsafe { Gc::from_ptr((*base.sub(3)).payload() as *mut LuaClosure) };
    Err(vm.frozen_variable_error(cl, i.b() as usize))
}

op!(op_jump(vm, base, pc, k, i, tab) {
    next!(vm, base, pc.offset(i.sj() as isize), k, tab)
});

op!(op_jumpback(vm, base, pc, k, i, tab) {
    let pc = pc.offset(i.sj() as isize);
    if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
        tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_jumpif(vm, base, pc, k, i, tab) {
    if (*base.add(i.a() as usize)).is_truthy() {
        super::branch();
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_jumpifnot(vm, base, pc, k, i, tab) {
    if (*base.add(i.a() as usize)).is_falsy() {
        super::branch();
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_jumpifset(vm, base, pc, k, i, tab) {
    let from = base.add(i.b() as usize);
    if (*from).is_truthy() {
        copy(base.add(i.a() as usize), from);
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_jumpifnotset(vm, base, pc, k, i, tab) {
    let from = base.add(i.b() as usize);
    if (*from).is_falsy() {
        copy(base.add(i.a() as usize), from);
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_not(vm, base, pc, k, i, tab) {
    let v = (*base.add(i.b() as usize)).is_falsy();
    *base.add(i.a() as usize) = Value::bool(v);
    next!(vm, base, pc, k, tab)
});
