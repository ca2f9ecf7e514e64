//! Unary and binary operators: folding, immediate and constant forms, comparisons.
//!
//! The left operand is prepared before the right one is walked ([`Gen::prepare`]), so that evaluation order
//! is the source's; numerals wait, because they may be folded or become part of the instruction.

use super::expr::{Exp, Kind};
use super::fold;
use super::{Gen, Res};
use crate::ast::{BinOp, Expr, ExprId, UnOp};
use crate::bytecode::Op;

/// The instruction on two registers, and the one with a constant on the right if there is one.
fn arithmetic(op: BinOp) -> Option<(Op, Option<Op>)> {
    Some(match op {
        BinOp::Add => (Op::Add, Some(Op::AddK)),
        BinOp::Sub => (Op::Sub, Some(Op::SubK)),
        BinOp::Mul => (Op::Mul, Some(Op::MulK)),
        BinOp::Div => (Op::Div, Some(Op::DivK)),
        BinOp::Mod => (Op::Mod, Some(Op::ModK)),
        BinOp::Pow => (Op::Pow, Some(Op::PowK)),
        BinOp::IDiv => (Op::IDiv, Some(Op::IDivK)),
        BinOp::BAnd => (Op::BAnd, Some(Op::BAndK)),
        BinOp::BOr => (Op::BOr, Some(Op::BOrK)),
        BinOp::BXor => (Op::BXor, Some(Op::BXorK)),
        BinOp::Shl => (Op::Shl, None),
        BinOp::Shr => (Op::Shr, None),
        _ => return None,
    })
}

/// A comparison's jump on two registers (and whether they swap places), on a register and a constant, and the
/// latter for the constant on the left.
fn order(op: BinOp) -> (Op, bool, Op, Op) {
    match op {
        BinOp::Lt => (Op::JumpLt, false, Op::JumpLtK, Op::JumpGtK),
        BinOp::Le => (Op::JumpLe, false, Op::JumpLeK, Op::JumpGeK),
        BinOp::Gt => (Op::JumpLt, true, Op::JumpGtK, Op::JumpLtK),
        BinOp::Ge => (Op::JumpLe, true, Op::JumpGeK, Op::JumpLeK),
        other => unreachable!("{other:?} is no order"),
    }
}

impl Gen<'_> {
    /// A unary operator on line `line`, applied to `exp`.
    #[inline(never)]
    pub(super) fn unary(&mut self, op: UnOp, exp: &mut Exp, line: u32) -> Res<()> {
        self.discharge(exp);
        let code = match op {
            UnOp::Not => return self.not(exp),
            UnOp::Neg | UnOp::BNot if exp.is_numeral() => match fold::unary(op, exp.kind) {
                Some(kind) => {
                    exp.kind = kind;
                    return Ok(());
                }
                None if op == UnOp::Neg => Op::Unm,
                None => Op::BNot,
            },
            UnOp::Neg => Op::Unm,
            UnOp::BNot => Op::BNot,
            UnOp::Len => Op::Len,
        };
        let register = self.place_any(exp)?;
        self.free(exp);
        let pc = self.emit(code, 0, register as u16, 0, 0);
        self.fs.fix_line(line);
        *exp = Exp::new(Kind::Relocatable(pc as u32));
        Ok(())
    }

    /// A binary operator that is neither logical nor a concatenation, applied to `left`.
    #[inline(never)]
    pub(super) fn binary(&mut self, op: BinOp, left: &mut Exp, rhs: ExprId, line: u32) -> Res<()> {
        self.at(line);
        self.discharge(left);
        self.prepare(op, left)?;
        let mut right = Exp::NIL;
        self.expr(rhs, &mut right)?;
        self.discharge(&mut right);
        let kind = match op {
            BinOp::Eq | BinOp::Ne => self.equality(op, left, &mut right)?,
            BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => self.comparison(op, left, &mut right)?,
            _ => {
                if left.is_numeral()
                    && right.is_numeral()
                    && let Some(kind) = fold::binary(op, left.kind, right.kind)
                {
                    kind
                } else {
                    self.arithmetic(op, left, &mut right, line)?
                }
            }
        };
        *left = Exp::new(kind);
        Ok(())
    }

    /// Readies the left operand before the right one is walked.
    fn prepare(&mut self, op: BinOp, left: &mut Exp) -> Res<()> {
        let waits = match op {
            BinOp::Eq | BinOp::Ne => left.is_constant(),
            _ => left.is_numeral(),
        };
        if !waits {
            self.place_any(left)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn arithmetic<'e>(
        &mut self,
        op: BinOp,
        mut left: &'e mut Exp,
        mut right: &'e mut Exp,
        line: u32,
    ) -> Res<Kind> {
        let (on_registers, with_constant) = arithmetic(op).expect("the others are dealt with");
        // A numeral on the left of a commutative operator changes sides.
        let swapped = match op {
            BinOp::Add | BinOp::Mul => left.is_numeral(),
            BinOp::BAnd | BinOp::BOr | BinOp::BXor => matches!(left.kind, Kind::Integer(_)),
            _ => false,
        };
        if swapped {
            std::mem::swap(&mut left, &mut right);
        }
        let immediate = match (op, right.kind) {
            (BinOp::Add, Kind::Integer(n)) => i16::try_from(n).ok(),
            // Adding 0 is not subtracting 0 when the other operand is -0.0.
            (BinOp::Sub, Kind::Integer(n)) if n != 0 => n.checked_neg().and_then(|n| i16::try_from(n).ok()),
            _ => None,
        };
        if let Some(n) = immediate
            && !right.has_jumps()
        {
            let how = match (op, swapped) {
                (BinOp::Sub, _) => 1,
                (_, true) => 2,
                _ => 0,
            };
            return self.finish_arithmetic(Op::AddI, left, right, n as u16, how, line);
        }
        let constant = match op {
            BinOp::BAnd | BinOp::BOr | BinOp::BXor if !matches!(right.kind, Kind::Integer(_)) => None,
            _ if !right.is_numeral() => None,
            _ => with_constant.and_then(|op| Some((op, self.operand_constant(right)?))),
        };
        if let Some((op, index)) = constant {
            return self.finish_arithmetic(op, left, right, index, swapped as u16, line);
        }
        if swapped {
            std::mem::swap(&mut left, &mut right);
        }
        let register = self.place_any(right)?;
        self.finish_arithmetic(on_registers, left, right, register as u16, 0, line)
    }

    fn finish_arithmetic(
        &mut self,
        op: Op,
        left: &mut Exp,
        right: &Exp,
        c: u16,
        d: u16,
        line: u32,
    ) -> Res<Kind> {
        let register = self.place_any(left)?;
        self.free_both(left, right);
        let pc = self.emit(op, 0, register as u16, c, d);
        self.fs.fix_line(line);
        Ok(Kind::Relocatable(pc as u32))
    }

    #[inline(never)]
    fn equality<'e>(&mut self, op: BinOp, mut left: &'e mut Exp, mut right: &'e mut Exp) -> Res<Kind> {
        if !matches!(left.kind, Kind::Register(_)) {
            std::mem::swap(&mut left, &mut right);
        }
        let register = self.place_any(left)?;
        let (jump, b) = match (self.operand_constant(right), op) {
            (Some(index), BinOp::Eq) => (Op::JumpEqK, index),
            (Some(index), _) => (Op::JumpNeK, index),
            (None, _) => {
                let other = self.place_any(right)? as u16;
                (if op == BinOp::Eq { Op::JumpEq } else { Op::JumpNe }, other)
            }
        };
        self.free_both(left, right);
        Ok(self.comparison_jump(jump, register, b))
    }

    #[inline(never)]
    fn comparison(&mut self, op: BinOp, left: &mut Exp, right: &mut Exp) -> Res<Kind> {
        let (on_registers, swap, constant_right, constant_left) = order(op);
        let (jump, a, b) = if right.is_numeral()
            && let Some(index) = self.operand_constant(right)
        {
            (constant_right, self.place_any(left)?, index)
        } else if left.is_numeral()
            && let Some(index) = self.operand_constant(left)
        {
            (constant_left, self.place_any(right)?, index)
        } else {
            let a = self.place_any(left)?;
            let b = self.place_any(right)?;
            if swap { (on_registers, b, a as u16) } else { (on_registers, a, b as u16) }
        };
        self.free_both(left, right);
        Ok(self.comparison_jump(jump, a, b))
    }

    fn comparison_jump(&mut self, op: Op, a: u8, b: u16) -> Kind {
        let pc = self.fs.pc() as u32;
        self.emit_jump(op, a, b);
        Kind::Jump(pc)
    }

    /// `left .. rhs`, with all of a chain's operands in one instruction.
    #[inline(never)]
    pub(super) fn concat(&mut self, operand: &mut Exp, rhs: ExprId, line: u32) -> Res<()> {
        self.at(line);
        let chunk = self.chunk;
        let base = self.place_next(operand)?;
        let (mut rhs, mut line, mut count) = (rhs, line, 1);
        while let Expr::Binary { op: BinOp::Concat, lhs, rhs: next } = chunk.exprs[rhs.index()] {
            self.expr(lhs, operand)?;
            line = chunk.lines[rhs.index()];
            self.at(line);
            self.place_next(operand)?;
            (rhs, count) = (next, count + 1);
        }
        self.expr(rhs, operand)?;
        self.place_next(operand)?;
        self.emit(Op::Concat, base, count + 1, 0, 0);
        self.fs.fix_line(line);
        self.fs.free = base + 1;
        operand.kind = Kind::Register(base);
        Ok(())
    }
}
