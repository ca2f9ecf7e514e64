//! Arithmetic on numbers whose types are known. Everything else is the interpreter's.

use super::{Known, Lowering, Ty};
use crate::backend::clif::{Block, InstBuilder, Value, condcodes::IntCC, types};
use perilune_syntax::{Constant, Op};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

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
        let y = y.filter(|y| y.ty.is_number());
        let (Some(x), Some(y)) = (x, y) else { return self.float_with_unknown(at, op, x, y) };
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

    /// An operation whose one operand is a known float, and of whose other nothing is known, as of a sum that begins with an integer: the result is a float if that is a number at all.
    fn float_with_unknown(&mut self, at: usize, op: Op, x: Option<Known>, y: Option<Known>) -> bool {
        let i = self.proto.code[at];
        let (b, c) = (i.b() as usize, i.c() as usize);
        let is_float = |n: &Known| n.ty == Ty::Float;
        let slow = match (op, x.filter(is_float), y.filter(is_float)) {
            (Op::Add | Op::Sub | Op::Mul | Op::Div, Some(_), None) if self.ty(c) == Ty::Any => {
                self.b.create_block()
            }
            (Op::Add | Op::Sub | Op::Mul | Op::Div, None, Some(_)) if self.ty(b) == Ty::Any => {
                self.b.create_block()
            }
            _ => return false,
        };
        let (x, y) = match (x, y) {
            (Some(x), _) => (x.val, self.any_float(c, slow)),
            (None, Some(y)) => (self.any_float(b, slow), y.val),
            (None, None) => unreachable!("one is a known float"),
        };
        let b = self.b.ins();
        let val = match op {
            Op::Add => b.fadd(x, y),
            Op::Sub => b.fsub(x, y),
            Op::Mul => b.fmul(x, y),
            _ => b.fdiv(x, y),
        };
        let a = i.a() as usize;
        self.define(a, Known { ty: Ty::Float, val });
        self.join(at, slow, Some((a, self.ty(a))));
        true
    }

    /// The float of the number in the slot of register `r`; goes to `slow` if there is none.
    fn any_float(&mut self, r: usize, slow: Block) -> Value {
        let base = self.b.use_var(self.base);
        let tag = self.load(types::I8, base, Self::slot(r) + layout::TAG);
        let [float, other, int, done] = [(); 4].map(|()| self.b.create_block());
        let result = self.b.append_block_param(done, types::F64);
        let is_float = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::FLOAT.0 as i64);
        self.b.ins().brif(is_float, float, &[], other, &[]);
        self.b.switch_to_block(float);
        let val = self.load(types::F64, base, Self::slot(r) + layout::PAYLOAD);
        self.b.ins().jump(done, &[val.into()]);
        self.b.switch_to_block(other);
        let is_int = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::INT.0 as i64);
        self.b.ins().brif(is_int, int, &[], slow, &[]);
        self.b.switch_to_block(int);
        let val = self.load(types::I64, base, Self::slot(r) + layout::PAYLOAD);
        let val = self.b.ins().fcvt_from_sint(types::F64, val);
        self.b.ins().jump(done, &[val.into()]);
        self.b.switch_to_block(done);
        result
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
