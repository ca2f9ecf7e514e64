//! Arithmetic on numbers whose types are known. Everything else is the interpreter's.

use super::facts::Origin;
use super::{Known, Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::{Constant, Op};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

/// Below this each integer is a float.
pub(super) const SMALL: i64 = 1 << 53;

fn is_two(constant: &Constant) -> bool {
    matches!(constant, Constant::Integer(2)) || matches!(constant, Constant::Float(f) if *f == 2.0)
}

impl Lowering<'_, '_> {
    /// Lowers instruction `at` if it is arithmetic on known numbers.
    pub(super) fn arithmetic(&mut self, at: usize, op: Op) -> bool {
        let i = self.code(at);
        let (a, b, c) = (i.a() as usize, i.b() as usize, i.c() as usize);
        let y = match op {
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Mod
            | Op::IDiv
            | Op::Pow
            | Op::BAnd
            | Op::BOr
            | Op::BXor
            | Op::Shl
            | Op::Shr => self.known(c),
            Op::AddK
            | Op::SubK
            | Op::MulK
            | Op::DivK
            | Op::IDivK
            | Op::ModK
            | Op::PowK
            | Op::BAndK
            | Op::BOrK
            | Op::BXorK => self.constant(c),
            Op::AddI => Some(Known { ty: Ty::Int, val: self.b.iconst(Type::I64, i.c() as i16 as i64) }),
            Op::Unm | Op::BNot => self.known(b),
            _ => return false,
        };
        let x = self.known(b).filter(|x| x.ty.is_number());
        let y = y.filter(|y| y.ty.is_number());
        let (Some(x), Some(y)) = (x, y) else { return self.mixed_arithmetic(at, op, x, y) };
        let ints = x.ty == Ty::Int && y.ty == Ty::Int;
        let is_sum = op == Op::AddI && ints && !self.captured.contains(b as u8);
        let origin = is_sum.then(|| Origin::Sum(self.name_of(b), i.c() as i16 as i64));
        let constants = [x, y].map(|n| self.b.func.integer(n.val));
        let result = match op {
            _ if let ([Some(x), Some(y)], true) = (constants, ints)
                && let Some(n) = of_constants(op, x, y) =>
            {
                Known { ty: Ty::Int, val: self.b.iconst(Type::I64, n) }
            }
            Op::Add | Op::AddK | Op::AddI if ints => Known { ty: Ty::Int, val: self.b.iadd(x.val, y.val) },
            Op::Sub | Op::SubK if ints => Known { ty: Ty::Int, val: self.b.isub(x.val, y.val) },
            Op::Mul | Op::MulK if ints => Known { ty: Ty::Int, val: self.b.imul(x.val, y.val) },
            Op::BAnd | Op::BAndK if ints => Known { ty: Ty::Int, val: self.b.band(x.val, y.val) },
            Op::BOr | Op::BOrK if ints => Known { ty: Ty::Int, val: self.b.bor(x.val, y.val) },
            Op::BXor | Op::BXorK if ints => Known { ty: Ty::Int, val: self.b.bxor(x.val, y.val) },
            Op::Unm if ints => Known { ty: Ty::Int, val: self.b.ineg(x.val) },
            Op::BNot if ints => Known { ty: Ty::Int, val: self.b.bnot(x.val) },
            Op::Unm => Known { ty: Ty::Float, val: self.b.fneg(x.val) },
            Op::IDivK | Op::ModK if ints => match self.proto.constants[c] {
                Constant::Integer(divisor) if divisor > 0 => self.divide(op, x, divisor),
                _ => return false,
            },
            // An argument of a function that is built in place, as often as not.
            Op::IDiv | Op::Mod if ints => match self.b.func.integer(y.val).filter(|&divisor| divisor > 0) {
                Some(divisor) => self.divide(if op == Op::Mod { Op::ModK } else { Op::IDivK }, x, divisor),
                None => {
                    self.divide_by_any(at, op, x, y);
                    return true;
                }
            },
            Op::Shl | Op::Shr if ints => {
                self.shift(at, op, x, y);
                return true;
            }
            Op::IDiv | Op::IDivK => {
                let [x, y] = [x, y].map(|n| self.float(n));
                let quotient = self.b.fdiv(x, y);
                Known { ty: Ty::Float, val: self.b.floor(quotient) }
            }
            Op::Mod | Op::ModK => {
                let [x, y] = [x, y].map(|n| self.float(n));
                Known { ty: Ty::Float, val: self.float_remainder(at, x, y) }
            }
            // The square that `num::pow` takes for it.
            Op::PowK if is_two(&self.proto.constants[c]) => {
                let x = self.float(x);
                Known { ty: Ty::Float, val: self.b.fmul(x, x) }
            }
            Op::Pow | Op::PowK => {
                let [x, y] = [x, y].map(|n| self.float(n));
                Known { ty: Ty::Float, val: self.by_function(layout::pow(), &[x, y]) }
            }
            Op::Add | Op::AddK | Op::AddI | Op::Sub | Op::SubK | Op::Mul | Op::MulK | Op::Div | Op::DivK => {
                let [x, y] = [x, y].map(|n| self.float(n));
                let b = &mut *self.b;
                let val = match op {
                    Op::Add | Op::AddK | Op::AddI => b.fadd(x, y),
                    Op::Sub | Op::SubK => b.fsub(x, y),
                    Op::Mul | Op::MulK => b.fmul(x, y),
                    _ => b.fdiv(x, y),
                };
                Known { ty: Ty::Float, val }
            }
            _ => return false,
        };
        self.define(a, result);
        if let Some(origin) = origin {
            self.comes_from(a, origin);
        }
        true
    }

    /// The divisor of instruction `at`, if it is a constant, above zero and whole.
    pub(super) fn divisor(&self, at: usize) -> Option<i64> {
        let i = self.code(at);
        if !matches!(i.op(), Some(Op::ModK | Op::IDivK)) {
            return None;
        }
        match self.proto.constants[i.c() as usize] {
            Constant::Integer(d) => (1..SMALL).contains(&d).then_some(d),
            Constant::Float(f) => (f.fract() == 0.0 && (1.0..SMALL as f64).contains(&f)).then_some(f as i64),
            _ => None,
        }
    }

    /// The remainder of two floats (manual 3.4.1), those of instruction `at`. Where both are whole numbers,
    /// the first one not below zero, the second above it, it is that of the integers, and can be said by a float
    /// as all remainders of floats can; a function does the others.
    pub(super) fn float_remainder(&mut self, at: usize, x: Value, y: Value) -> Value {
        let [other, done] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(other);
        let result = self.b.append_block_param(done, Type::F64);
        let bits = self.b.bitcast(Type::I64, x);
        // Not below zero, nor its negative twin, whose remainder is like it.
        let positive = self.icmp_imm(IntCC::SignedGreaterThanOrEqual, bits, 0);
        self.unless(positive, other);
        let int_x = self.whole(x, other);
        let given = || self.b.func.float(y).filter(|f| f.fract() == 0.0 && (1.0..SMALL as f64).contains(f));
        let rest = match self.divisor(at).or_else(|| given().map(|f| f as i64)) {
            Some(divisor) => self.divide(Op::ModK, Known { ty: Ty::Int, val: int_x }, divisor).val,
            None => {
                let int_y = self.whole_divisor(y, other);
                self.b.urem(int_x, int_y)
            }
        };
        let rest = self.b.fcvt_from_sint(rest);
        self.b.jump(done, &[rest]);
        self.go_to(other);
        let rest = self.by_function(layout::float_mod(), &[x, y]);
        self.b.jump(done, &[rest]);
        self.go_to(done);
        result
    }

    /// The integer above zero that a float is; goes to `other` if there is none.
    fn whole_divisor(&mut self, y: Value, other: Block) -> Value {
        match self.b.func.float_of(y) {
            // Its float is the same number if it is not too large.
            Some(int) => {
                let below = self.iadd_imm(int, -1);
                let small = self.icmp_imm(IntCC::UnsignedLessThan, below, SMALL);
                self.unless(small, other);
                int
            }
            None => {
                let int = self.whole(y, other);
                let some = self.icmp_imm(IntCC::SignedGreaterThan, int, 0);
                self.unless(some, other);
                int
            }
        }
    }

    /// The integer that a float is; goes to `other` if there is none.
    pub(super) fn whole(&mut self, x: Value, other: Block) -> Value {
        let (int, is_whole) = self.rounded(x);
        self.unless(is_whole, other);
        int
    }

    /// The float of the number in the slot of register `r`; goes to `slow` if there is none.
    pub(super) fn any_float(&mut self, r: usize, slow: Block) -> Value {
        self.any_number(r, slow, |this, n| this.b.fcvt_from_sint(n))
    }

    /// The same where an integer becomes a float as told.
    pub(super) fn any_number(
        &mut self,
        r: usize,
        slow: Block,
        convert: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Value {
        let base = self.b.use_var(self.base);
        let tag = self.tag_of(r);
        let [float, other, int, done] = [(); 4].map(|()| self.b.create_block());
        let result = self.b.append_block_param(done, Type::F64);
        let is_float = self.icmp_imm(IntCC::Equal, tag, Tag::FLOAT.0 as i64);
        self.b.brif(is_float, float, &[], other, &[]);
        self.go_to(float);
        let val = self.load(Type::F64, base, Self::slot(r) + layout::PAYLOAD);
        self.b.jump(done, &[val]);
        self.go_to(other);
        let is_int = self.icmp_imm(IntCC::Equal, tag, Tag::INT.0 as i64);
        self.b.brif(is_int, int, &[], slow, &[]);
        self.go_to(int);
        let n = self.payload_of(r);
        let val = convert(self, n);
        self.b.jump(done, &[val]);
        self.go_to(done);
        result
    }

    /// The float of a number.
    pub(super) fn float(&mut self, n: Known) -> crate::ssa::Value {
        match n.ty {
            Ty::Int => match self.b.func.integer(n.val) {
                Some(n) => self.b.f64const(n as f64),
                None => self.b.fcvt_from_sint(n.val),
            },
            _ => n.val,
        }
    }

    /// An integer and so many more.
    pub(super) fn plus(&mut self, val: crate::ssa::Value, more: i64) -> crate::ssa::Value {
        match self.b.func.sum(val) {
            Some((val, n)) if n.wrapping_add(more) == 0 => val,
            Some((val, n)) => self.iadd_imm(val, n.wrapping_add(more)),
            None => self.iadd_imm(val, more),
        }
    }

    /// Division by a positive number, rounded down; the interpreter does the others.
    pub(super) fn divide_by_any(&mut self, at: usize, op: Op, x: Known, y: Known) {
        let slow = self.slow(at);
        let val = self.divided(op == Op::Mod, x.val, y.val, slow.block);
        let a = self.code(at).a() as usize;
        self.define(a, Known { ty: Ty::Int, val });
        self.join(at, slow, Some((a, self.ty(a))));
    }

    /// A shift by 0 to 63 bits; the interpreter does the others.
    pub(super) fn shift(&mut self, at: usize, op: Op, x: Known, y: Known) {
        let a = self.code(at).a() as usize;
        let by = |this: &mut Self, y: Value| match op {
            Op::Shl => this.b.ishl(x.val, y),
            _ => this.b.ushr(x.val, y),
        };
        if let Some(n) = self.b.func.integer(y.val)
            && (0..64).contains(&n)
        {
            let val = by(self, y.val);
            return self.define(a, Known { ty: Ty::Int, val });
        }
        let slow = self.slow(at);
        let small = self.icmp_imm(IntCC::UnsignedLessThan, y.val, 64);
        self.unless(small, slow.block);
        let val = by(self, y.val);
        self.define(a, Known { ty: Ty::Int, val });
        self.join(at, slow, Some((a, self.ty(a))));
    }

    /// Division by a positive constant, rounded down (manual 3.4.1).
    pub(super) fn divide(&mut self, op: Op, x: Known, divisor: i64) -> Known {
        let int = |val| Known { ty: Ty::Int, val };
        if divisor & (divisor - 1) == 0 {
            return int(match op {
                Op::ModK => self.band_imm(x.val, divisor - 1),
                _ => self.sshr_imm(x.val, divisor.trailing_zeros() as i64),
            });
        }
        // Of x, or of its complement if it is negative, whose quotient is then the complement of the wanted
        // one.
        let (factor, shift) = reciprocal(divisor as u64);
        let sign = self.sshr_imm(x.val, 63);
        let positive = self.b.bxor(x.val, sign);
        let factor = self.b.iconst(Type::I64, factor as i64);
        let high = self.b.umulhi(positive, factor);
        let high = self.ushr_imm(high, shift as i64);
        let quotient = self.b.bxor(high, sign);
        if op == Op::IDivK {
            return int(quotient);
        }
        let d = self.b.iconst(Type::I64, divisor);
        let below = self.b.imul(quotient, d);
        int(self.b.isub(x.val, below))
    }
}

/// What comes of two integers, if that is one.
fn of_constants(op: Op, x: i64, y: i64) -> Option<i64> {
    Some(match op {
        Op::Add | Op::AddK | Op::AddI => x.wrapping_add(y),
        Op::Sub | Op::SubK => x.wrapping_sub(y),
        Op::Mul | Op::MulK => x.wrapping_mul(y),
        Op::BAnd | Op::BAndK => x & y,
        Op::BOr | Op::BOrK => x | y,
        Op::BXor | Op::BXorK => x ^ y,
        _ => return None,
    })
}

/// The factor and the shift by which the high word of a product becomes the quotient of a number below 2^63
/// by this divisor, which is at least 3 and no power of two (Granlund and Montgomery, Division by Invariant
/// Integers using Multiplication, 1994).
fn reciprocal(divisor: u64) -> (u64, u32) {
    // With l = ceil(log2 d), the factor ceil(2^(63 + l) / d) has 64 bits, and is wrong by less than d, which
    // 63 bits of the dividend do not notice.
    let bits = 64 - (divisor - 1).leading_zeros();
    let power = 1u128 << (63 + bits);
    let factor = power.div_ceil(divisor as u128);
    (factor as u64, bits - 1)
}

#[cfg(test)]
mod tests {
    use super::reciprocal;

    #[test]
    fn quotients_by_reciprocals() {
        let divisors =
            (3..2000).chain([10_007, 1 << 31 | 1, (1 << 62) + 1, i64::MAX as u64, i64::MAX as u64 - 1]);
        for divisor in divisors.filter(|d: &u64| !d.is_power_of_two()) {
            let (factor, shift) = reciprocal(divisor);
            let near = |n: u64| [n.wrapping_sub(1), n, n + 1];
            let multiples = [1, 2, 3, 1000, i64::MAX as u64 / divisor].map(|n| near(n.wrapping_mul(divisor)));
            let ends = [near(1), near(i64::MAX as u64 - 1), near(1 << 62)];
            for x in multiples.into_iter().chain(ends).flatten().filter(|x| *x <= i64::MAX as u64) {
                let quotient = ((x as u128 * factor as u128) >> 64) as u64 >> shift;
                assert_eq!(quotient, x / divisor, "{x} / {divisor}");
            }
        }
    }
}
