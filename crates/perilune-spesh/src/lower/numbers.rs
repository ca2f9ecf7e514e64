//! Arithmetic on numbers whose types are known. Everything else is the interpreter's.

use super::{Known, Lowering, Ty};
use crate::backend::clif::{InstBuilder, condcodes::IntCC, types};
use perilune_syntax::{Constant, Op};

impl Lowering<'_, '_> {
    /// Lowers instruction `at` if it is arithmetic on known numbers.
    pub(super) fn arithmetic(&mut self, at: usize, op: Op) -> bool {
        let i = self.proto.code[at];
        let (a, b, c) = (i.a() as usize, i.b() as usize, i.c() as usize);
        let x = self.known(b).filter(|x| x.ty.is_number());
        let y = match op {
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::BAnd | Op::BOr | Op::BXor => self.known(c),
            Op::AddK
            | Op::SubK
            | Op::MulK
            | Op::DivK
            | Op::IDivK
            | Op::ModK
            | Op::BAndK
            | Op::BOrK
            | Op::BXorK => self.constant(c),
            Op::AddI => {
                Some(Known { ty: Ty::Int, val: self.b.ins().iconst(types::I64, i.c() as i16 as i64) })
            }
            Op::Unm | Op::BNot => x,
            _ => return false,
        };
        let (Some(x), Some(y)) = (x, y.filter(|y| y.ty.is_number())) else { return false };
        let ints = x.ty == Ty::Int && y.ty == Ty::Int;
        let result = match op {
            Op::Add | Op::AddK | Op::AddI if ints => {
                Known { ty: Ty::Int, val: self.b.ins().iadd(x.val, y.val) }
            }
            Op::Sub | Op::SubK if ints => Known { ty: Ty::Int, val: self.b.ins().isub(x.val, y.val) },
            Op::Mul | Op::MulK if ints => Known { ty: Ty::Int, val: self.b.ins().imul(x.val, y.val) },
            Op::BAnd | Op::BAndK if ints => Known { ty: Ty::Int, val: self.b.ins().band(x.val, y.val) },
            Op::BOr | Op::BOrK if ints => Known { ty: Ty::Int, val: self.b.ins().bor(x.val, y.val) },
            Op::BXor | Op::BXorK if ints => Known { ty: Ty::Int, val: self.b.ins().bxor(x.val, y.val) },
            Op::Unm if ints => Known { ty: Ty::Int, val: self.b.ins().ineg(x.val) },
            Op::BNot if ints => Known { ty: Ty::Int, val: self.b.ins().bnot(x.val) },
            Op::Unm => Known { ty: Ty::Float, val: self.b.ins().fneg(x.val) },
            Op::IDivK | Op::ModK if ints => match self.proto.constants[c] {
                Constant::Integer(divisor) if divisor > 0 => self.divide(op, x, divisor),
                _ => return false,
            },
            Op::Add | Op::AddK | Op::AddI | Op::Sub | Op::SubK | Op::Mul | Op::MulK | Op::Div | Op::DivK => {
                let [x, y] = [x, y].map(|n| self.float(n));
                let b = self.b.ins();
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
        true
    }

    /// The float of a number.
    fn float(&mut self, n: Known) -> crate::backend::clif::Value {
        match n.ty {
            Ty::Int => self.b.ins().fcvt_from_sint(types::F64, n.val),
            _ => n.val,
        }
    }

    /// Division by a positive constant, rounded down (manual 3.4.1).
    fn divide(&mut self, op: Op, x: Known, divisor: i64) -> Known {
        let d = self.b.ins().iconst(types::I64, divisor);
        let rest = self.b.ins().srem(x.val, d);
        let negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, rest, 0);
        let raised = self.b.ins().iadd(rest, d);
        let rest = self.b.ins().select(negative, raised, rest);
        if op == Op::ModK {
            return Known { ty: Ty::Int, val: rest };
        }
        let quotient = self.b.ins().sdiv(x.val, d);
        let lower = self.b.ins().iadd_imm_s(quotient, -1);
        Known { ty: Ty::Int, val: self.b.ins().select(negative, lower, quotient) }
    }
}
