//! Conditions: code that goes on in one case and jumps in the other.
//!
//! `go_if_true` leaves code that falls through when the expression is true; the jumps for the other case are
//! in its `on_false` list. A comparison is a jump already and only has its sense turned; a `not` just emitted
//! disappears into the sense of the test. A test of a value is first made value-keeping (`JMPIFSET`);
//! patching makes it a plain test where nobody wants the value.

use super::expr::{Exp, Kind};
use super::func::{JumpList, NO_REGISTER};
use super::{Gen, Res};
use crate::bytecode::{Instr, Op};

/// The conditional jump taken exactly when `op` is not.
fn negated(op: Op) -> Op {
    match op {
        Op::JumpIf => Op::JumpIfNot,
        Op::JumpIfNot => Op::JumpIf,
        Op::JumpEq => Op::JumpNe,
        Op::JumpNe => Op::JumpEq,
        Op::JumpEqK => Op::JumpNeK,
        Op::JumpNeK => Op::JumpEqK,
        Op::JumpLt => Op::JumpNotLt,
        Op::JumpNotLt => Op::JumpLt,
        Op::JumpLe => Op::JumpNotLe,
        Op::JumpNotLe => Op::JumpLe,
        Op::JumpLtK => Op::JumpNotLtK,
        Op::JumpNotLtK => Op::JumpLtK,
        Op::JumpLeK => Op::JumpNotLeK,
        Op::JumpNotLeK => Op::JumpLeK,
        Op::JumpGtK => Op::JumpNotGtK,
        Op::JumpNotGtK => Op::JumpGtK,
        Op::JumpGeK => Op::JumpNotGeK,
        Op::JumpNotGeK => Op::JumpGeK,
        other => unreachable!("{other:?} is no comparison"),
    }
}

impl Gen<'_> {
    /// Turns the sense of the comparison at `pc`.
    pub(super) fn negate(&mut self, pc: u32) {
        let jump = &mut self.fs.code[pc as usize];
        let op = negated(jump.op().expect("we made it"));
        *jump = Instr::absj(op, jump.a(), jump.b(), jump.sj());
    }

    /// A jump taken when the value is true (or false, if `when` is).
    fn jump_when(&mut self, exp: &mut Exp, when: bool) -> Res<JumpList> {
        if let Kind::Relocatable(pc) = exp.kind
            && pc as usize + 1 == self.fs.code.len()
            && self.fs.code[pc as usize].op() == Some(Op::Not)
        {
            let operand = self.fs.code[pc as usize].b() as u8;
            self.fs.code.pop();
            self.fs.lines.pop();
            let op = if when { Op::JumpIfNot } else { Op::JumpIf };
            return Ok(self.emit_jump(op, operand, 0));
        }
        self.load_anywhere(exp)?;
        self.free(exp);
        let Kind::Register(register) = exp.kind else { unreachable!("loaded") };
        let op = if when { Op::JumpIfSet } else { Op::JumpIfNotSet };
        Ok(self.emit_jump(op, NO_REGISTER, register as u16))
    }

    /// Code that goes on if the expression is true.
    #[inline(never)]
    pub(super) fn go_if_true(&mut self, exp: &mut Exp) -> Res<()> {
        self.discharge(exp);
        let jump = match exp.kind {
            Kind::Jump(pc) => {
                self.negate(pc);
                JumpList::single(pc as usize)
            }
            Kind::True | Kind::Integer(_) | Kind::Float(_) | Kind::Str(_) => JumpList::EMPTY,
            Kind::False => self.emit_jump(Op::Jump, 0, 0),
            _ => self.jump_when(exp, false)?,
        };
        self.fs.join(&mut exp.on_false, jump);
        self.fs.patch_here(exp.on_true);
        exp.on_true = JumpList::EMPTY;
        Ok(())
    }

    /// Code that goes on if the expression is false.
    #[inline(never)]
    pub(super) fn go_if_false(&mut self, exp: &mut Exp) -> Res<()> {
        self.discharge(exp);
        let jump = match exp.kind {
            Kind::Jump(pc) => JumpList::single(pc as usize),
            Kind::Nil | Kind::False => JumpList::EMPTY,
            Kind::True => self.emit_jump(Op::Jump, 0, 0),
            _ => self.jump_when(exp, true)?,
        };
        self.fs.join(&mut exp.on_true, jump);
        self.fs.patch_here(exp.on_false);
        exp.on_false = JumpList::EMPTY;
        Ok(())
    }

    /// A statement's condition, whose end (a keyword, say) is on `line`: goes on if it is true; the jumps
    /// taken if not.
    pub(super) fn condition(&mut self, id: crate::ast::ExprId, line: u32) -> Res<JumpList> {
        let mut exp = Exp::NIL;
        self.expr(id, &mut exp)?;
        self.at(line);
        if matches!(exp.kind, Kind::Nil) {
            exp.kind = Kind::False; // nobody sees the value
        }
        self.go_if_true(&mut exp)?;
        Ok(exp.on_false)
    }

    /// As [`Gen::condition`], but goes on if it is false; the jumps taken if it is true.
    pub(super) fn condition_false(&mut self, id: crate::ast::ExprId, line: u32) -> Res<JumpList> {
        let mut exp = Exp::NIL;
        self.expr(id, &mut exp)?;
        self.at(line);
        if matches!(exp.kind, Kind::Integer(_) | Kind::Float(_) | Kind::Str(_)) {
            exp.kind = Kind::True;
        }
        self.go_if_false(&mut exp)?;
        Ok(exp.on_true)
    }

    /// `not exp`
    pub(super) fn not(&mut self, exp: &mut Exp) -> Res<()> {
        self.discharge(exp);
        match exp.kind {
            Kind::Nil | Kind::False => exp.kind = Kind::True,
            Kind::True | Kind::Integer(_) | Kind::Float(_) | Kind::Str(_) => exp.kind = Kind::False,
            Kind::Jump(pc) => self.negate(pc),
            _ => {
                self.load_anywhere(exp)?;
                self.free(exp);
                let Kind::Register(register) = exp.kind else { unreachable!("loaded") };
                exp.kind = Kind::Relocatable(self.emit(Op::Not, 0, register as u16, 0, 0) as u32);
            }
        }
        std::mem::swap(&mut exp.on_true, &mut exp.on_false);
        self.fs.remove_values(exp.on_true);
        self.fs.remove_values(exp.on_false);
        Ok(())
    }
}
