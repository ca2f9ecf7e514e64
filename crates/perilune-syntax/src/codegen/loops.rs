//! Loops. All test at the top, or at the bottom for `repeat` and `for`, and go back with one instruction that
//! counts.

use super::expr::Exp;
use super::scope::Closing;
use super::{Gen, Res};
use crate::ast::{Block, ExprId, GenericFor, Locals, NumericFor};
use crate::bytecode::{Instr, Op};

impl Gen<'_> {
    /// `while cond do body end`
    #[inline(never)]
    pub(super) fn while_loop(&mut self, cond: ExprId, body: Block, end_line: u32) -> Res<()> {
        let start = self.fs.label();
        let exit = self.condition(cond, 0)?;
        self.enter_loop(false);
        self.block(body)?;
        if self.fs.reachable() {
            self.emit_jump_back(start);
        }
        self.at(end_line);
        self.fs.patch_here(exit);
        self.leave_loop();
        Ok(())
    }

    /// `repeat body until cond`: the condition sees the body's locals, so they are closed after it, on both
    /// ways.
    #[inline(never)]
    pub(super) fn repeat_loop(&mut self, body: Block, cond: ExprId, until_line: u32) -> Res<()> {
        let start = self.fs.label();
        self.enter_loop(false);
        self.enter_block(body);
        self.statements(body)?;
        self.at(until_line);
        let exit = self.condition_false(cond, 0)?;
        if self.fs.reachable() {
            if let Some(register) = self.register_to_close(self.block_base()) {
                self.emit(Op::Close, register, 0, 0, 0);
            }
            self.emit_jump_back(start);
        }
        self.fs.patch_here(exit);
        self.leave_block();
        self.leave_loop();
        Ok(())
    }

    /// `for var = start, limit, step do body end`, its `for` on `line`
    #[inline(never)]
    pub(super) fn numeric_for(&mut self, statement: &NumericFor, line: u32) -> Res<()> {
        let &NumericFor { var, start, limit, step, do_line, body, end_line } = statement;
        let base = self.fs.free;
        let mut exp = Exp::NIL;
        for id in [Some(start), Some(limit), step].into_iter().flatten() {
            self.expr(id, &mut exp)?;
            self.place_next(&mut exp)?;
        }
        if step.is_none() {
            let register = self.reserve(1)?;
            self.emit_wide(Op::LoadI, register, 0, 1);
        }
        self.enter_loop(false);
        self.enter_scope();
        for _ in 0..3 {
            self.activate_hidden(Closing::Nothing);
        }
        self.at(do_line);
        let prep = self.emit_wide(Op::ForPrep, base, 0, 0);
        self.loop_body(Locals::one(var), body)?;
        let back = self.fs.label();
        self.emit_wide(Op::ForLoop, base, 0, prep as i32 + 1 - (back as i32 + 1));
        self.fs.fix_line(line);
        self.patch_jump(prep, back + 1);
        self.at(end_line);
        self.end_scope();
        self.leave_loop();
        Ok(())
    }

    /// `for vars in exprs do body end`, its iterator's call on `line`
    #[inline(never)]
    pub(super) fn generic_for(&mut self, statement: &GenericFor, line: u32) -> Res<()> {
        let &GenericFor { vars, exprs, do_line, body, end_line } = statement;
        let exprs = self.chunk.list(exprs);
        let base = self.fs.free;
        let mut last = Exp::NIL;
        self.expr_list(exprs, &mut last)?;
        self.adjust(4, exprs.len(), &mut last)?;
        self.enter_loop(true);
        self.enter_scope();
        for hidden in 0..4 {
            let closing = if hidden == 3 { Closing::ToBeClosed } else { Closing::Nothing };
            self.activate_hidden(closing);
        }
        // The iterator call: function, frame and two arguments above the hidden variables.
        self.check_stack(5)?;
        self.at(do_line);
        let prep = self.emit_wide(Op::TForPrep, base, 0, 0);
        self.loop_body(vars, body)?;
        let call = self.fs.label();
        self.patch_jump(prep, call);
        self.emit(Op::TForCall, base, vars.len() as u16, 0, 0);
        self.fs.fix_line(line);
        let back = self.fs.pc();
        self.emit_wide(Op::TForLoop, base, 0, prep as i32 + 1 - (back as i32 + 1));
        self.fs.fix_line(line);
        self.at(end_line);
        self.end_scope();
        self.leave_loop();
        self.emit(Op::Close, base, 0, 0, 0);
        Ok(())
    }

    /// A `for` loop's block with its variables.
    #[inline(never)]
    fn loop_body(&mut self, vars: Locals, body: Block) -> Res<()> {
        self.fs.label();
        self.enter_block(body);
        self.reserve(vars.len())?;
        for var in vars.iter() {
            self.activate(var);
        }
        self.statements(body)?;
        self.leave_block();
        Ok(())
    }

    fn patch_jump(&mut self, pc: usize, target: usize) {
        let jump: &mut Instr = &mut self.fs.code[pc];
        *jump = jump.with_sj(target as i32 - (pc as i32 + 1));
        if target == self.fs.pc() {
            self.fs.label();
        }
    }
}
