//! Loops: numeric `for`, generic `for`.
//!
//! A generic `for` over `next` or the iterator of `ipairs` makes no call at all: `TFORCALL` steps through the
//! table itself and does what the `TFORLOOP` behind it would do. The closing variable, if it was nil, becomes
//! a cursor, which says where a traversal by `next` stands.

use super::quick::{has_room, native_at, push_lua, quick_resume, slots};
use super::{copy, flow, frame_ceiling, next, op, save, set_float, set_int, tail};
use crate::Vm;
use crate::call::NATIVE_STACK;
use crate::frame::{CALL_GAP, CONT_NONE, Frame, frame};
use crate::native::Kind;
use crate::num;
use crate::object::{LuaClosure, LuaString, STRING_INTERNED};
use crate::shape;
use crate::table::iterate::BEYOND;
use crate::value::{Tag, Value};
use std::sync::atomic::Ordering;

op!(op_forprep(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let (init, limit, step) = (a, a.add(1), a.add(2));
    if (*init).tag() == Tag::INT && (*step).tag() == Tag::INT && (*limit).tag() == Tag::INT && (*step).payload() != 0 {
        let (start, lim, st) = ((*init).int_bits(), (*limit).int_bits(), (*step).int_bits());
        if if st > 0 { start > lim } else { start < lim } {
            next!(vm, base, pc.offset(i.sj() as isize), k, tab)
        }
        Value::store_int(limit, iterations(start, lim, st) as i64);
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
    if (*a.add(2)).tag() == Tag::INT {
        let left = (*a.add(1)).payload();
        if left > 0 {
            let idx = (*a).int_bits().wrapping_add((*a.add(2)).int_bits());
            Value::store_payload(a.add(1), Tag::INT, left - 1);
            Value::store_payload(a, Tag::INT, idx as u64);
            set_int!(a.add(3), idx);
            let pc = pc.offset(i.sj() as isize);
            if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
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
        Value::store_payload(a, Tag::FLOAT, idx.to_bits());
        set_float!(a.add(3), idx);
        let pc = pc.offset(i.sj() as isize);
        if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
            tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
        }
        next!(vm, base, pc, k, tab)
    }
    next!(vm, base, pc, k, tab)
});

op!(op_tforprep(vm, base, pc, k, i, tab) {
    let closing = base.add(i.a() as usize + 3);
    if (*closing).is_nil() {
        Value::store(closing, Tag::CURSOR, 0);
        next!(vm, base, pc.offset(i.sj() as isize), k, tab)
    }
    tail!(slow_tforprep, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_tforprep(vm, base, pc, k, i, tab) {
    let target = pc.offset(i.sj() as isize);
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    if let Err(e) = (*vm).mark_tbc(base.add(i.a() as usize + 3)) {
        flow!(vm, Err(e))
    }
    next!(vm, base, target, k, tab)
});

op!(op_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    if (*a).tag() == Tag::NATIVE && (*a.add(1)).tag() == Tag::TABLE && tab != &raw const super::HOOKED {
        let kind = (*((*a).payload() as *const crate::native::Native)).kind;
        if kind == Kind::Next && (*a.add(3)).tag() == Tag::CURSOR {
            tail!(next_tforcall, vm, base, pc, k, i, tab)
        }
        if kind == Kind::IpairsStep && (*a.add(2)).tag() == Tag::INT {
            tail!(ipairs_tforcall, vm, base, pc, k, i, tab)
        }
    } else if (*a).tag() == Tag::NATIVE
        && (*a.add(1)).tag() == Tag::SHARED
        && (*((*a).payload() as *const crate::native::Native)).kind == Kind::IpairsStep
        && (*a.add(2)).tag() == Tag::INT
        && tab != &raw const super::HOOKED
    {
        tail!(super::elements::element_tforcall, vm, base, pc, k, i, tab)
    } else if matches!((*a).tag(), Tag::NATIVE | Tag::NATIVE_CLOSURE) && tab != &raw const super::HOOKED {
        tail!(leaf_tforcall, vm, base, pc, k, i, tab)
    }
    tail!(slow_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// An iterator that is a native which calls no Lua: those of `io.lines`, `string.gmatch`, `utf8.codes`.
    #[inline(never)] leaf_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let native = &*native_at(a);
    let func = a.add(4);
    let own = func.add(CALL_GAP);
    let top = own.add(2);
    if native.kind != Kind::Leaf || top.wrapping_add(NATIVE_STACK) >= (*vm).lua.stack_limit {
        tail!(slow_tforcall, vm, base, pc, k, i, tab)
    }
    copy(func, a);
    copy(own, a.add(1));
    copy(own.add(1), a.add(2));
    save!(vm, base, pc);
    (*vm).lua.top = top;
    let wanted = i.b() as usize;
    *frame(own) = Frame::native(wanted as i16, slots(base, own));
    (*vm).lua.base = own;
    match native.run(&mut *vm) {
        Ok(n) => {
            // It needed more room, and the stack moved; or it set a hook, to which its return is an event.
            if (*vm).lua.base != own || (*vm).lua.dispatch != tab {
                flow!(vm, (*vm).finish_native(n as usize))
            }
            (*vm).lua.base = base;
            let results = (*vm).lua.top.sub(n as usize);
            // They lie above: none is overwritten before it is copied.
            for r in 0..wanted {
                match r < n as usize {
                    true => copy(func.add(r), results.add(r)),
                    false => Value::store_nil(func.add(r)),
                }
            }
            if (*vm).heap.gc_due() {
                tail!(after_tforcall, vm, base, pc, k, i, tab)
            }
            if (*func).is_nil() {
                next!(vm, base, pc.add(1), k, tab)
            }
            copy(a.add(2), func);
            let next = *pc;
            let pc = pc.add(1).offset(next.sj() as isize);
            if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
                tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
            }
            next!(vm, base, pc, k, tab)
        }
        Err(e) => flow!(vm, Err(e)),
    }
});

/// The iteration goes on with `key` (and `value`, if the loop wants it): the TFORLOOP that follows.
macro_rules! next_item {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $value:expr) => {{
        let count = $i.b() as usize;
        if count >= 2 {
            let v: crate::value::Value = $value;
            let mut at = $base.add($i.a() as usize + 5);
            copy(at, &v);
            for _ in 2..count {
                at = at.add(1);
                Value::store_nil(at);
            }
        }
        let next = *$pc;
        let pc = $pc.add(1).offset(next.sj() as isize);
        if (*$vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
            tail!(super::slow_interrupt, $vm, $base, pc, $k, $i, $tab)
        }
        next!($vm, $base, pc, $k, $tab)
    }};
}

op!(
    /// A step of `next` through the array part, if the control variable says that this is where the traversal
    /// is.
    #[inline(never)] next_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
    let position = (*a.add(3)).payload() as u32;
    let control = a.add(2);
    let here = if position == 0 {
        (*control).is_nil()
    } else {
        (*control).tag() == Tag::INT && (*control).payload() == position as u64
    };
    if here && position < t.array_len {
        let v = t.element(position as usize);
        if !v.is_nil() {
            let key = position as u64 + 1;
            Value::store_payload(a.add(3), Tag::CURSOR, key);
            set_int!(control, key);
            set_int!(a.add(4), key);
            next_item!(vm, base, pc, k, i, tab, v)
        }
    }
    if position > BEYOND {
        if t.shape <= shape::FROZEN_DICT {
            tail!(node_tforcall, vm, base, pc, k, i, tab)
        }
        tail!(slot_tforcall, vm, base, pc, k, i, tab)
    }
    tail!(any_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `next` from one node to another, in a table without fields.
    #[inline(never)] node_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
    let control = a.add(2);
    let nodes = t.nodes;
    // The position is behind the last node visited, so it is the index of the next one.
    let mut at = ((*a.add(3)).payload() as u32 - BEYOND) as usize;
    let count = t.node_count();
    if at <= count && {
        let last = nodes.add(at - 1);
        (*last).key == (*control).payload() && (*last).key_tag == (*control).tag().0
    } {
        while at < count {
            let n = nodes.add(at);
            at += 1;
            if (*n).value_tag != Tag::NIL.0 {
                let (key, tag) = ((*n).key, Tag((*n).key_tag));
                Value::store(control, tag, key);
                Value::store(a.add(4), tag, key);
                Value::store_payload(a.add(3), Tag::CURSOR, (BEYOND + at as u32) as u64);
                next_item!(vm, base, pc, k, i, tab, (*n).value())
            }
        }
        next!(vm, base, pc.add(1), k, tab)
    }
    tail!(any_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `next` from one field to another.
    #[inline(never)] slot_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
    let control = a.add(2);
    // The slot behind the last one visited.
    let slot = (*a.add(3)).payload() as u32 - BEYOND;
    if slot < shape::field_count(t.shape) && (*control).tag() == Tag::STRING {
        let last = (*control).payload() as *const LuaString;
        let v = t.slots.add(slot as usize);
        if (*last).header.flags & STRING_INTERNED != 0
            && (*last).atom == shape::atom_at(t.shape, slot - 1)
            && !(*v).is_nil()
        {
            let name = (*vm).lua.interned.shapes.known_name(shape::atom_at(t.shape, slot));
            if !name.is_null() {
                Value::store_payload(control, Tag::STRING, name as u64);
                Value::store(a.add(4), Tag::STRING, name as u64);
                Value::store_payload(a.add(3), Tag::CURSOR, (BEYOND + slot + 1) as u64);
                next_item!(vm, base, pc, k, i, tab, *v)
            }
        }
    }
    tail!(any_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `next` wherever it is.
    #[inline(never)] any_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    match (*vm).for_next(a, (*a.add(1)).gc(), i.b() as usize) {
        ForNext::Item => {
            let next = *pc;
            let pc = pc.add(1).offset(next.sj() as isize);
            if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
                tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
            }
            next!(vm, base, pc, k, tab)
        }
        ForNext::End => next!(vm, base, pc.add(1), k, tab),
        ForNext::Unknown => {}
    }
    tail!(slow_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `ipairs` through the array part.
    #[inline(never)] ipairs_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
    let at = (*a.add(2)).payload();
    if at < t.array_len as u64 {
        let v = t.element(at as usize);
        if !v.is_nil() {
            set_int!(a.add(2), at + 1);
            set_int!(a.add(4), at + 1);
            next_item!(vm, base, pc, k, i, tab, v)
        }
    }
    tail!(any_ipairs_tforcall, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `ipairs` outside the array part, or its end.
    #[inline(never)] any_ipairs_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t: crate::Gc<crate::object::Table> = (*a.add(1)).gc();
    let n = (*a.add(2)).int_bits().wrapping_add(1);
    let v = (*vm).raw_get_int(t, n);
    if !v.is_nil() {
        set_int!(a.add(2), n);
        set_int!(a.add(4), n);
        next_item!(vm, base, pc, k, i, tab, v)
    }
    if t.metatable.is_null() {
        next!(vm, base, pc.add(1), k, tab)
    }
    tail!(slow_tforcall, vm, base, pc, k, i, tab)
});

/// What the next step of a traversal came to.
#[repr(u64)]
pub(crate) enum ForNext {
    /// Who does it has to find out.
    Unknown = 0,
    /// There is another entry: the loop's registers have it.
    Item = 1,
    /// There is none.
    End = 2,
}

impl Vm {
    /// One step of `for ... in next, t`, whose hidden variables start at `a`, for `count` variables. The
    /// cursor is where the last step stopped; the control variable proves that it is still right.
    ///
    /// # Safety
    /// `a` is the first of the loop's registers, in the running frame; the cursor is one.
    #[inline(never)]
    pub(crate) unsafe fn for_next(
        &mut self,
        a: *mut Value,
        t: crate::Gc<crate::object::Table>,
        count: usize,
    ) -> ForNext {
        // SAFETY: the loop's registers, in the running frame.
        unsafe {
            let mut position = (*a.add(3)).payload() as u32;
            let control = *a.add(2);
            if position == 0 {
                if !control.is_nil() {
                    return ForNext::Unknown;
                }
            } else if !self.position_holds(t, position, control) {
                return ForNext::Unknown;
            }
            let Some((key, value)) = self.next_at(t, &mut position) else { return ForNext::End };
            Value::store_payload(a.add(3), Tag::CURSOR, position as u64);
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

op!(
    /// Iterators that are functions of Lua, leaves (`string.gmatch`), coroutines.
    #[inline(never)] slow_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let func = a.add(4);
    let own = func.add(CALL_GAP);
    let top = own.add(2);
    copy(func, a);
    copy(own, a.add(1));
    copy(own.add(1), a.add(2));
    save!(vm, base, pc);
    (*vm).lua.top = top;
    let wanted = i.b() as i16;
    if (*func).tag() == Tag::CLOSURE {
        let p = (*((*func).payload() as *mut LuaClosure)).proto;
        if has_room(vm, p, own, top) {
            push_lua(vm, base, own, p, top, wanted, (CONT_NONE, 0));
            let code = (*p).code;
            let k = (*p).k as *const Value;
            next!(vm, own, code, k, tab)
        }
    }
    let native = native_at(func);
    if !native.is_null() && (*vm).lua.dispatch != &raw const super::HOOKED {
        let quick = match (*native).kind {
            Kind::Leaf => true,
            Kind::Hybrid => !(*vm).needs_native_stack(),
            _ => false,
        };
        if quick && top.wrapping_add(NATIVE_STACK) < (*vm).lua.stack_limit {
            *frame(own) = Frame::native(wanted, slots(base, own));
            (*vm).lua.base = own;
            match (*native).run(&mut *vm) {
                Ok(n) => {
                    if (*vm).lua.base != own || (*vm).lua.dispatch != tab {
                        flow!(vm, (*vm).finish_native(n as usize))
                    }
                    let n = n as usize;
                    crate::call::deliver_results(vm, func, (*vm).lua.top.sub(n), n, wanted as i32);
                    (*vm).lua.base = base;
                    if (*vm).heap.gc_due() {
                        tail!(after_tforcall, vm, base, pc, k, i, tab)
                    }
                    next!(vm, base, pc, k, tab)
                }
                Err(e) => flow!(vm, Err(e)),
            }
        }
        if (*native).kind == Kind::Wrap {
            let to = quick_resume::<false>(vm, base, func, wanted);
            if !to.is_null() {
                next!(vm, to, (*frame(to)).pc, (*frame(to)).k, tab)
            }
        }
    }
    flow!(vm, (*vm).start_call(func, wanted, 0, CONT_NONE, 0))
});

op!(
    /// A native iterator has returned and a collection is due.
    #[inline(never)] after_tforcall(vm, base, pc, k, i, tab) {
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, (*vm).safepoint_open().map(|()| super::Step::Continue))
});

op!(op_tforloop(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    if !(*a.add(4)).is_nil() {
        copy(a.add(2), a.add(4));
        let pc = pc.offset(i.sj() as isize);
        if (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
            tail!(super::slow_interrupt, vm, base, pc, k, i, tab)
        }
        next!(vm, base, pc, k, tab)
    }
    next!(vm, base, pc, k, tab)
});
