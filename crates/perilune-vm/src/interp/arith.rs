//! Arithmetic, bitwise operators, length and concatenation.
//!
//! The fast paths are int-int and float-float; `slow_arith` does mixed numbers, strings and metamethods for
//! all of them, decoding the operator from the instruction.

use super::{Flow, Step, copy, flow, frame_ceiling, next, op, save, set_float, set_int, tail};
use crate::Vm;
use crate::frame::CONT_STORE;
use crate::meta::Event;
use crate::num;
use crate::value::{Tag, Value};
use perilune_syntax::ast::BinOp;
use perilune_syntax::{Instr, Op};

/// Int-int and float-float with total results.
macro_rules! arith_op {
    ($name:ident, $namek:ident, $int:expr, $float:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = base.add(i.c() as usize);
            arith_body!(vm, base, pc, k, i, tab, x, y, $int, $float)
        });
        op!($namek(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = k.add(i.c() as usize);
            arith_body!(vm, base, pc, k, i, tab, x, y, $int, $float)
        });
    };
}
macro_rules! arith_body {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $x:ident, $y:ident,
     $int:expr, $float:expr) => {{
        let int: fn(i64, i64) -> i64 = $int;
        let float: fn(f64, f64) -> f64 = $float;
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::INT {
            let r = int((*$x).int_bits(), (*$y).int_bits());
            set_int!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::FLOAT && (*$y).tag() == Tag::FLOAT {
            let r = float((*$x).float_bits(), (*$y).float_bits());
            set_float!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::FLOAT && (*$y).tag() == Tag::INT {
            let r = float((*$x).float_bits(), (*$y).int_bits() as f64);
            set_float!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::FLOAT {
            let r = float((*$x).int_bits() as f64, (*$y).float_bits());
            set_float!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        tail!(slow_arith, $vm, $base, $pc, $k, $i, $tab)
    }};
}
arith_op!(op_add, op_addk, |a, b| a.wrapping_add(b), |a, b| a + b);
arith_op!(op_sub, op_subk, |a, b| a.wrapping_sub(b), |a, b| a - b);
arith_op!(op_mul, op_mulk, |a, b| a.wrapping_mul(b), |a, b| a * b);

/// Always float.
macro_rules! float_op {
    ($name:ident, $namek:ident, $float:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = base.add(i.c() as usize);
            float_body!(vm, base, pc, k, i, tab, x, y, $float)
        });
        op!($namek(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = k.add(i.c() as usize);
            float_body!(vm, base, pc, k, i, tab, x, y, $float)
        });
    };
}
macro_rules! float_body {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $x:ident, $y:ident, $float:expr) => {{
        let float: fn(f64, f64) -> f64 = $float;
        if (*$x).tag() == Tag::FLOAT && (*$y).tag() == Tag::FLOAT {
            set_float!($base.add($i.a() as usize), float((*$x).float_bits(), (*$y).float_bits()));
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::FLOAT && (*$y).tag() == Tag::INT {
            set_float!($base.add($i.a() as usize), float((*$x).float_bits(), (*$y).int_bits() as f64));
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::FLOAT {
            set_float!($base.add($i.a() as usize), float((*$x).int_bits() as f64, (*$y).float_bits()));
            next!($vm, $base, $pc, $k, $tab)
        }
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::INT {
            set_float!($base.add($i.a() as usize), float((*$x).int_bits() as f64, (*$y).int_bits() as f64));
            next!($vm, $base, $pc, $k, $tab)
        }
        tail!(slow_arith, $vm, $base, $pc, $k, $i, $tab)
    }};
}
float_op!(op_div, op_divk, |a, b| a / b);
float_op!(op_pow, op_powk, num::pow);

/// Int-int only if the divisor is not zero. Floats have handlers of their own: they call functions (`fmod`,
/// `floor`), for which the integers' handlers would have to save registers.
macro_rules! division_op {
    ($name:ident, $namek:ident, $int:expr, $float:path) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = base.add(i.c() as usize);
            division_body!(vm, base, pc, k, i, tab, x, y, $int, $float)
        });
        op!($namek(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = k.add(i.c() as usize);
            division_body!(vm, base, pc, k, i, tab, x, y, $int, $float)
        });
    };
}
macro_rules! division_body {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $x:ident, $y:ident,
     $int:expr, $float:path) => {{
        let int: fn(i64, i64) -> i64 = $int;
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::INT && (*$y).payload() != 0 {
            let r = int((*$x).int_bits(), (*$y).int_bits());
            set_int!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        tail!($float, $vm, $base, $pc, $k, $i, $tab)
    }};
}
division_op!(op_idiv, op_idivk, floor_div, float_idiv);
division_op!(op_mod, op_modk, floor_mod, float_mod);

/// Floor division or modulo, by a register or a constant, of two floats.
macro_rules! float_division {
    ($name:ident, $opk:path, $float:expr) => {
        op!(#[inline(never)] $name(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = if i.op_byte() == $opk as u8 { k.add(i.c() as usize) } else { base.add(i.c() as usize) };
            if (*x).tag() == Tag::FLOAT && (*y).tag() == Tag::FLOAT {
                let float: fn(f64, f64) -> f64 = $float;
                let r = float((*x).float_bits(), (*y).float_bits());
                set_float!(base.add(i.a() as usize), r);
                next!(vm, base, pc, k, tab)
            }
            tail!(mixed_arith, vm, base, pc, k, i, tab)
        });
    };
}
float_division!(float_idiv, Op::IDivK, |a, b| (a / b).floor());
float_division!(float_mod, Op::ModK, num::float_mod);

/// Powers of two, the usual divisors, need no division; without a sign among the operands the quotient needs
/// no correction.
#[inline(always)]
fn floor_div(a: i64, b: i64) -> i64 {
    if b > 0 && b & (b - 1) == 0 {
        a >> b.trailing_zeros()
    } else if (a | b) >= 0 {
        (a as u64 / b as u64) as i64
    } else {
        num::int_floor_div(a, b)
    }
}

/// As [`floor_div`].
#[inline(always)]
fn floor_mod(a: i64, b: i64) -> i64 {
    if b > 0 && b & (b - 1) == 0 {
        a & (b - 1)
    } else if (a | b) >= 0 {
        (a as u64 % b as u64) as i64
    } else {
        num::int_mod(a, b)
    }
}

/// Int-int fast path; everything else converts.
macro_rules! bit_op {
    ($name:ident, $int:expr) => {
        op!($name(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = base.add(i.c() as usize);
            bit_body!(vm, base, pc, k, i, tab, x, y, $int)
        });
    };
    ($name:ident, $namek:ident, $int:expr) => {
        bit_op!($name, $int);
        op!($namek(vm, base, pc, k, i, tab) {
            let x = base.add(i.b() as usize);
            let y = k.add(i.c() as usize);
            bit_body!(vm, base, pc, k, i, tab, x, y, $int)
        });
    };
}
macro_rules! bit_body {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $x:ident, $y:ident, $int:expr) => {{
        let int: fn(i64, i64) -> i64 = $int;
        if (*$x).tag() == Tag::INT && (*$y).tag() == Tag::INT {
            let r = int((*$x).int_bits(), (*$y).int_bits());
            set_int!($base.add($i.a() as usize), r);
            next!($vm, $base, $pc, $k, $tab)
        }
        tail!(slow_arith, $vm, $base, $pc, $k, $i, $tab)
    }};
}
bit_op!(op_band, op_bandk, |a, b| a & b);
bit_op!(op_bor, op_bork, |a, b| a | b);
bit_op!(op_bxor, op_bxork, |a, b| a ^ b);
bit_op!(op_shl, |a, b| num::shift_left(a, b));
bit_op!(op_shr, |a, b| num::shift_left(a, b.wrapping_neg()));

op!(op_addi(vm, base, pc, k, i, tab) {
    let x = base.add(i.b() as usize);
    let imm = i.c() as i16 as i64;
    if (*x).tag() == Tag::INT {
        let r = (*x).int_bits().wrapping_add(imm);
        set_int!(base.add(i.a() as usize), r);
        next!(vm, base, pc, k, tab)
    }
    if (*x).tag() == Tag::FLOAT {
        let r = (*x).float_bits() + imm as f64;
        set_float!(base.add(i.a() as usize), r);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_arith, vm, base, pc, k, i, tab)
});

op!(op_unm(vm, base, pc, k, i, tab) {
    let x = base.add(i.b() as usize);
    if (*x).tag() == Tag::INT {
        let r = (*x).int_bits().wrapping_neg();
        set_int!(base.add(i.a() as usize), r);
        next!(vm, base, pc, k, tab)
    }
    if (*x).tag() == Tag::FLOAT {
        let r = -(*x).float_bits();
        set_float!(base.add(i.a() as usize), r);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_arith, vm, base, pc, k, i, tab)
});

op!(op_bnot(vm, base, pc, k, i, tab) {
    let x = base.add(i.b() as usize);
    if (*x).tag() == Tag::INT {
        set_int!(base.add(i.a() as usize), !(*x).int_bits());
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_arith, vm, base, pc, k, i, tab)
});

/// The operands and operator of an arithmetic instruction; the register or constant of each operand, for
/// messages.
pub(crate) struct ArithOperands {
    pub op: BinOp,
    pub event: Event,
    pub x: Value,
    pub y: Value,
}

/// Decodes an arithmetic instruction.
pub(crate) unsafe fn arith_operands(base: *mut Value, k: *const Value, i: Instr) -> ArithOperands {
    use BinOp::*;
    // SAFETY: verified code: the registers and constants exist.
    unsafe {
        let op = i.op().unwrap_or(Op::Add);
        let reg = |n: u16| *base.add(n as usize);
        let con = |n: u16| *k.add(n as usize);
        let (bin, event, constant) = match op {
            Op::Add => (Add, Event::Add, false),
            Op::Sub => (Sub, Event::Sub, false),
            Op::Mul => (Mul, Event::Mul, false),
            Op::Div => (Div, Event::Div, false),
            Op::Mod => (Mod, Event::Mod, false),
            Op::Pow => (Pow, Event::Pow, false),
            Op::IDiv => (IDiv, Event::IDiv, false),
            Op::BAnd => (BAnd, Event::BAnd, false),
            Op::BOr => (BOr, Event::BOr, false),
            Op::BXor => (BXor, Event::BXor, false),
            Op::Shl => (Shl, Event::Shl, false),
            Op::Shr => (Shr, Event::Shr, false),
            Op::AddK => (Add, Event::Add, true),
            Op::SubK => (Sub, Event::Sub, true),
            Op::MulK => (Mul, Event::Mul, true),
            Op::DivK => (Div, Event::Div, true),
            Op::ModK => (Mod, Event::Mod, true),
            Op::PowK => (Pow, Event::Pow, true),
            Op::IDivK => (IDiv, Event::IDiv, true),
            Op::BAndK => (BAnd, Event::BAnd, true),
            Op::BOrK => (BOr, Event::BOr, true),
            Op::BXorK => (BXor, Event::BXor, true),
            Op::AddI => {
                let imm = i.c() as i16 as i64;
                let x = reg(i.b());
                return match i.d() {
                    1 => ArithOperands { op: Sub, event: Event::Sub, x, y: Value::int(-imm) },
                    2 => ArithOperands { op: Add, event: Event::Add, x: Value::int(imm), y: x },
                    _ => ArithOperands { op: Add, event: Event::Add, x, y: Value::int(imm) },
                };
            }
            Op::BNot => {
                let x = reg(i.b());
                return ArithOperands { op: BXor, event: Event::BNot, x, y: x };
            }
            _ => {
                let x = reg(i.b());
                return ArithOperands { op: Sub, event: Event::Unm, x, y: x };
            }
        };
        let x = reg(i.b());
        let y = if constant { con(i.c()) } else { reg(i.c()) };
        if constant && i.d() == 1 {
            ArithOperands { op: bin, event, x: y, y: x }
        } else {
            ArithOperands { op: bin, event, x, y }
        }
    }
}

op!(
    /// One integer and one float.
    #[inline(never)] mixed_arith(vm, base, pc, k, i, tab) {
    let o = arith_operands(base, k, i);
    if let (Some(x), Some(y)) = (o.x.as_number(), o.y.as_number())
        && (o.x.tag() == Tag::FLOAT || o.y.tag() == Tag::FLOAT)
    {
        set_float!(base.add(i.a() as usize), num::float_arith(o.op, x, y));
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_arith, vm, base, pc, k, i, tab)
});

op!(
    /// Conversions, errors and metamethods of all arithmetic and bitwise instructions.
    #[inline(never)] slow_arith(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, arith_flow(&mut *vm, base, k, i))
});

#[inline(never)]
unsafe fn arith_flow(vm: &mut Vm, base: *mut Value, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called by `slow_arith` with the running frame's registers.
    unsafe {
        let o = arith_operands(base, k, i);
        // With a table there is nothing to compute.
        if o.x.tag() != Tag::TABLE
            && o.y.tag() != Tag::TABLE
            && let Some(v) = vm.arith_raw(o.op, o.event, o.x, o.y)?
        {
            copy(base.add(i.a() as usize), &v);
            return Ok(Step::Continue);
        }
        let f = vm.binary_metamethod(o.event, o.x, o.y);
        if f.is_nil() {
            return Err(vm.arith_error(o.event, o.x, o.y));
        }
        if let Some(v) = vm.quick_metamethod(f, o.x, o.y) {
            copy(base.add(i.a() as usize), &v);
            return Ok(Step::Continue);
        }
        vm.call_meta(f, &[o.x, o.y], CONT_STORE, 0)
    }
}

op!(op_len(vm, base, pc, k, i, tab) {
    let x = base.add(i.b() as usize);
    if (*x).tag() == Tag::STRING {
        let n = (*x).gc::<crate::object::LuaString>().len() as i64;
        set_int!(base.add(i.a() as usize), n);
        next!(vm, base, pc, k, tab)
    }
    if (*x).tag() == Tag::TABLE {
        let t = (*x).gc::<crate::object::Table>();
        if t.metatable.is_null() || (*t.metatable).absent & (1 << Event::Len as u8) != 0 {
            let n = (*vm).raw_len(t);
            set_int!(base.add(i.a() as usize), n);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(slow_len, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_len(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, len_flow(&mut *vm, base, i))
});

#[inline(never)]
unsafe fn len_flow(vm: &mut Vm, base: *mut Value, i: Instr) -> Flow {
    // SAFETY: as `arith_flow`.
    unsafe {
        let x = *base.add(i.b() as usize);
        let f = vm.metamethod(x, Event::Len);
        if f.is_nil() {
            if let Some(t) = x.as_table() {
                set_int!(base.add(i.a() as usize), vm.raw_len(t));
                return Ok(Step::Continue);
            }
            return Err(vm.operand_error("get length of", x));
        }
        vm.call_meta(f, &[x, x], CONT_STORE, 0)
    }
}

op!(op_concat(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    if (*vm).concat_in_place(base.add(i.a() as usize), i.b() as usize) {
        super::next_gc!(vm, base, pc, k, i, tab)
    }
    tail!(slow_concat, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_concat(vm, base, pc, k, i, tab) {
    flow!(vm, concat_flow(&mut *vm, base, i, i.b() as usize))
});

/// Concatenates the `n` values from `R[a]` on, from the right, as far as no metamethod is needed; then calls
/// that, to be continued by `finish_cont` with what is left.
#[inline(never)]
pub(crate) unsafe fn concat_flow(vm: &mut Vm, base: *mut Value, i: Instr, mut n: usize) -> Flow {
    // SAFETY: as `arith_flow`; n <= b.
    unsafe {
        let a = base.add(i.a() as usize);
        while n > 1 {
            let (x, y) = (*a.add(n - 2), *a.add(n - 1));
            if Vm::is_concatenable(x) && Vm::is_concatenable(y) {
                // As many from the right as are strings or numbers.
                let mut first = n - 2;
                while first > 0 && Vm::is_concatenable(*a.add(first - 1)) {
                    first -= 1;
                }
                let v = vm.concat_strings(a.add(first), n - first)?;
                copy(a.add(first), &v);
                n = first + 1;
            } else {
                let f = vm.binary_metamethod(Event::Concat, x, y);
                if f.is_nil() {
                    return Err(vm.concat_error(x, y, Some(i.a() as usize + n - 2)));
                }
                return vm.call_meta(f, &[x, y], crate::frame::CONT_CONCAT, n as u16);
            }
        }
        vm.safepoint()?;
        Ok(Step::Continue)
    }
}
