//! Comparisons, each fused with its jump.
//!
//! A conditional jump has to be a branch of the machine, too. Left alone, the compiler computes the next `pc`
//! with a conditional move, and then the fetch of every further instruction waits for the compared values (in
//! a numeric loop: for a chain of multiplications) where a predicted branch would have run ahead. Hence
//! [`super::branch`] on the taken side.

use super::{Flow, Step, flow, frame_ceiling, next, op, save, tail};
use crate::Vm;
use crate::frame::CONT_COMPARE;
use crate::meta::Event;
use crate::num;
use crate::object::{LuaString, STRING_INTERNED};
use crate::string::same_text;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::{Instr, Op};
use std::cmp::Ordering;

macro_rules! jump_if {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $cond:expr) => {{
        if $cond {
            super::branch();
            next!($vm, $base, $pc.offset($i.sj() as isize), $k, $tab)
        }
        next!($vm, $base, $pc, $k, $tab)
    }};
}

macro_rules! order_op {
    ($name:ident, $other:ident, $slot:ident, $cmp:tt, $negate:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.a() as usize);
            let y = order_op!(@$slot base, k, i);
            if (*x).tag() == Tag::INT && (*y).tag() == Tag::INT {
                jump_if!(vm, base, pc, k, i, tab, ((*x).int_bits() $cmp (*y).int_bits()) != $negate)
            }
            if (*x).tag() == Tag::FLOAT && (*y).tag() == Tag::FLOAT {
                jump_if!(vm, base, pc, k, i, tab, ((*x).float_bits() $cmp (*y).float_bits()) != $negate)
            }
            tail!($other, vm, base, pc, k, i, tab)
        });
        op!(
            /// Strings, and an integer with a float if the integer is one exactly.
            #[inline(never)] $other(vm, base, pc, k, i, tab) {
            let x = base.add(i.a() as usize);
            let y = order_op!(@$slot base, k, i);
            if (*x).tag() == Tag::STRING && (*y).tag() == Tag::STRING {
                let c = compare_strings((*x).gc(), (*y).gc());
                jump_if!(vm, base, pc, k, i, tab, (c $cmp 0) != $negate)
            }
            if (*x).tag() == Tag::FLOAT && (*y).tag() == Tag::INT && is_exact((*y).int_bits()) {
                jump_if!(vm, base, pc, k, i, tab, ((*x).float_bits() $cmp (*y).int_bits() as f64) != $negate)
            }
            if (*x).tag() == Tag::INT && (*y).tag() == Tag::FLOAT && is_exact((*x).int_bits()) {
                jump_if!(
                    vm, base, pc, k, i, tab,
                    (((*x).int_bits() as f64) $cmp (*y).float_bits()) != $negate
                )
            }
            tail!(slow_order, vm, base, pc, k, i, tab)
        });
    };
    (@reg $base:ident, $k:ident, $i:ident) => { $base.add($i.b() as usize) as *const Value };
    (@con $base:ident, $k:ident, $i:ident) => { $k.add($i.b() as usize) };
}
order_op!(op_jlt, other_jlt, reg, <, false);
order_op!(op_jnlt, other_jnlt, reg, <, true);
order_op!(op_jle, other_jle, reg, <=, false);
order_op!(op_jnle, other_jnle, reg, <=, true);
order_op!(op_jltk, other_jltk, con, <, false);
order_op!(op_jnltk, other_jnltk, con, <, true);
order_op!(op_jlek, other_jlek, con, <=, false);
order_op!(op_jnlek, other_jnlek, con, <=, true);
order_op!(op_jgtk, other_jgtk, con, >, false);
order_op!(op_jngtk, other_jngtk, con, >, true);
order_op!(op_jgek, other_jgek, con, >=, false);
order_op!(op_jngek, other_jngek, con, >=, true);

/// Has this integer a float of the same value, as all up to 2^53 have?
#[inline(always)]
fn is_exact(n: i64) -> bool {
    n.unsigned_abs() <= 1 << 53
}

/// Negative, zero or positive as the bytes of `x` sort before, with or after those of `y`.
#[inline(always)]
pub(crate) fn compare_strings(x: Gc<LuaString>, y: Gc<LuaString>) -> isize {
    let (x, y) = (x.bytes(), y.bytes());
    // Most pairs differ at once; and a comparison of a few bytes is cheaper than the call of one.
    if let (Some(&a), Some(&b)) = (x.first(), y.first())
        && a != b
    {
        return a as isize - b as isize;
    }
    x.cmp(y) as isize
}

/// Whether the comparison of a jump instruction is negated, and what it compares: `(negated, x, y, or_equal)`
/// for `x < y` or `x <= y`.
unsafe fn order_operands(base: *mut Value, k: *const Value, i: Instr) -> (bool, Value, Value, bool) {
    // SAFETY: verified code.
    unsafe {
        let x = *base.add(i.a() as usize);
        let reg = || *base.add(i.b() as usize);
        let con = || *k.add(i.b() as usize);
        match i.op() {
            Some(Op::JumpLt) => (false, x, reg(), false),
            Some(Op::JumpNotLt) => (true, x, reg(), false),
            Some(Op::JumpLe) => (false, x, reg(), true),
            Some(Op::JumpNotLe) => (true, x, reg(), true),
            Some(Op::JumpLtK) => (false, x, con(), false),
            Some(Op::JumpNotLtK) => (true, x, con(), false),
            Some(Op::JumpLeK) => (false, x, con(), true),
            Some(Op::JumpNotLeK) => (true, x, con(), true),
            Some(Op::JumpGtK) => (false, con(), x, false),
            Some(Op::JumpNotGtK) => (true, con(), x, false),
            Some(Op::JumpGeK) => (false, con(), x, true),
            _ => (true, con(), x, true),
        }
    }
}

op!(
    /// Large integers with floats, and metamethods, of all order comparisons.
    #[inline(never)] slow_order(vm, base, pc, k, i, tab) {
    let (negated, x, y, or_equal) = order_operands(base, k, i);
    if x.is_number() && y.is_number() {
        let r = match num::compare(x, y) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => or_equal,
            _ => false,
        };
        jump_if!(vm, base, pc, k, i, tab, r != negated)
    }
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, order_flow(&mut *vm, x, y, or_equal, negated))
});

#[inline(never)]
fn order_flow(vm: &mut Vm, x: Value, y: Value, or_equal: bool, negated: bool) -> Flow {
    let found = vm.order_metamethod(x, y, or_equal)?;
    vm.call_meta(found.function, &found.operands, CONT_COMPARE, (negated != found.negated) as u16)
}

macro_rules! eq_op {
    ($name:ident, $negate:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.a() as usize);
            let y = base.add(i.b() as usize);
            if (*x).tag() == (*y).tag() {
                if (*x).payload() == (*y).payload() && (*x).tag() != Tag::FLOAT {
                    jump_if!(vm, base, pc, k, i, tab, !$negate)
                }
                if (*x).tag().0 <= Tag::INT.0 {
                    jump_if!(vm, base, pc, k, i, tab, ((*x).tag() != Tag::INT) != $negate)
                }
                if (*x).tag() == Tag::STRING {
                    // Of two different strings that are interned or that differ in length, nothing needs to
                    // be read.
                    let (s, t) = ((*x).gc::<LuaString>(), (*y).gc::<LuaString>());
                    if s.len != t.len || s.header.flags & t.header.flags & STRING_INTERNED != 0 {
                        jump_if!(vm, base, pc, k, i, tab, $negate)
                    }
                }
            } else if !((*x).is_number() && (*y).is_number()) {
                jump_if!(vm, base, pc, k, i, tab, $negate)
            }
            tail!(slow_eq, vm, base, pc, k, i, tab)
        });
    };
}
eq_op!(op_jeq, false);
eq_op!(op_jne, true);

op!(
    /// Floats, mixed numbers, strings and metamethods.
    #[inline(never)] slow_eq(vm, base, pc, k, i, tab) {
    let negated = i.op_byte() == Op::JumpNe as u8;
    let (x, y) = (*base.add(i.a() as usize), *base.add(i.b() as usize));
    if !(x.tag() == Tag::TABLE && y.tag() == Tag::TABLE
        || x.tag() == Tag::USERDATA && y.tag() == Tag::USERDATA)
    {
        let r = Vm::raw_equals(x, y);
        jump_if!(vm, base, pc, k, i, tab, r != negated)
    }
    if x.tag() == Tag::TABLE && no_eq(x.gc()) && no_eq(y.gc()) {
        jump_if!(vm, base, pc, k, i, tab, negated)
    }
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, eq_flow(&mut *vm, x, y, negated))
});

/// Is `t` known to have no `__eq`?
#[inline(always)]
unsafe fn no_eq(t: crate::Gc<crate::object::Table>) -> bool {
    // SAFETY: a live table and its metatable.
    unsafe { t.metatable.is_null() || (*t.metatable).absent & (1 << Event::Eq as u8) != 0 }
}

#[inline(never)]
fn eq_flow(vm: &mut Vm, x: Value, y: Value, negated: bool) -> Flow {
    let f = vm.eq_metamethod(x, y);
    if f.is_nil() {
        // SAFETY: the running frame is that of the comparison.
        unsafe { vm.finish_compare(negated) };
        return Ok(Step::Continue);
    }
    vm.call_meta(f, &[x, y], CONT_COMPARE, negated as u16)
}

macro_rules! eqk_op {
    ($name:ident, $negate:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.a() as usize);
            let y = k.add(i.b() as usize);
            if (*x).tag() == (*y).tag() && (*x).tag() != Tag::FLOAT {
                if (*x).payload() == (*y).payload() || (*x).tag().0 < Tag::INT.0 {
                    jump_if!(vm, base, pc, k, i, tab, !$negate)
                }
                if (*x).tag() == Tag::INT {
                    jump_if!(vm, base, pc, k, i, tab, $negate)
                }
            }
            if (*x).tag() == Tag::FLOAT {
                if (*y).tag() == Tag::FLOAT {
                    jump_if!(vm, base, pc, k, i, tab, ((*x).float_bits() == (*y).float_bits()) != $negate)
                }
                if (*y).tag() == Tag::INT && (*y).int_bits().unsigned_abs() < 1 << 53 {
                    jump_if!(
                        vm, base, pc, k, i, tab,
                        ((*x).float_bits() == (*y).int_bits() as f64) != $negate
                    )
                }
            }
            if (*x).tag() == Tag::STRING && (*y).tag() == Tag::STRING {
                // Constants are interned.
                let (s, t) = ((*x).gc::<LuaString>(), (*y).gc::<LuaString>());
                if s.len != t.len || s.header.flags & t.header.flags & STRING_INTERNED != 0 {
                    jump_if!(vm, base, pc, k, i, tab, $negate)
                }
            }
            tail!(slow_eqk, vm, base, pc, k, i, tab)
        });
    };
}
eqk_op!(op_jeqk, false);
eqk_op!(op_jnek, true);

op!(
    /// Strings of one length, of which one is not interned; integers that are no floats.
    #[inline(never)] slow_eqk(vm, base, pc, k, i, tab) {
    let negated = i.op_byte() == Op::JumpNeK as u8;
    let (x, y) = (base.add(i.a() as usize), k.add(i.b() as usize));
    if (*x).tag() == Tag::STRING && (*y).tag() == Tag::STRING {
        let r = same_text((*x).payload() as *const LuaString, (*y).payload() as *const LuaString);
        jump_if!(vm, base, pc, k, i, tab, r != negated)
    }
    let r = Vm::raw_equals(*base.add(i.a() as usize), *k.add(i.b() as usize));
    jump_if!(vm, base, pc, k, i, tab, r != negated)
});
