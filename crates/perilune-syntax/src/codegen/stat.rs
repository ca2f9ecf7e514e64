//! Statements and blocks.

use super::expr::{Exp, Kind};
use super::func::JumpList;
use super::{Gen, Res};
use crate::ast::{Arm, Block, ExprId, Stat, StatKind};
use crate::bytecode::{Instr, Op};

impl Gen<'_> {
    /// A block with a scope of its own that ends where it can be fallen out of.
    pub(super) fn block(&mut self, block: Block) -> Res<()> {
        self.enter_block(block);
        self.statements(block)?;
        self.leave_block();
        Ok(())
    }

    /// A block's statements.
    pub(super) fn statements(&mut self, block: Block) -> Res<()> {
        for stat in self.chunk.block(block) {
            self.step()?;
            self.at(stat.line);
            self.statement(stat)?;
            self.fs.free = self.fs.active_registers;
        }
        Ok(())
    }

    fn statement(&mut self, stat: &Stat) -> Res<()> {
        match stat.kind {
            StatKind::Assign { targets, values } => {
                self.assign(self.chunk.list(targets), self.chunk.list(values))
            }
            StatKind::Local { locals, values } => self.local_statement(locals, self.chunk.list(values)),
            StatKind::LocalFunction { local, func } => self.local_function(local, func),
            StatKind::Function { target, func } => self.function_statement(target, func, stat.line),
            StatKind::Call(call) => {
                let mut exp = Exp::NIL;
                self.expr(call, &mut exp)?;
                self.set_results(&mut exp, Some(0))
            }
            StatKind::Do { body, end_line } => {
                self.block(body)?;
                self.at(end_line);
                Ok(())
            }
            StatKind::While { cond, body, end_line } => self.while_loop(cond, body, end_line),
            StatKind::Repeat { body, cond, end_line } => self.repeat_loop(body, cond, end_line),
            StatKind::If { arms, otherwise, end_line } => {
                self.if_statement(self.chunk.arms(arms), otherwise, end_line)
            }
            StatKind::NumericFor(id) => self.numeric_for(&self.chunk.numeric_loops[id.index()], stat.line),
            StatKind::GenericFor(id) => self.generic_for(&self.chunk.generic_loops[id.index()], stat.line),
            StatKind::Goto(name) => {
                self.goto_statement(name);
                Ok(())
            }
            StatKind::Break => {
                self.break_statement();
                Ok(())
            }
            StatKind::Label(name) => {
                self.label_statement(name);
                Ok(())
            }
            StatKind::Return(values) => self.return_statement(self.chunk.list(values)),
        }
    }

    #[inline(never)]
    fn if_statement(&mut self, arms: &[Arm], otherwise: Option<Block>, end_line: u32) -> Res<()> {
        let mut ends = JumpList::EMPTY;
        for (position, &Arm { cond, then_line, body }) in arms.iter().enumerate() {
            if self.jump_arm(cond, then_line, body)? {
                continue;
            }
            let not_taken = self.condition(cond, then_line)?;
            self.block(body)?;
            if (position + 1 < arms.len() || otherwise.is_some()) && self.fs.reachable() {
                let end = self.emit_jump(Op::Jump, 0, 0);
                self.fs.join(&mut ends, end);
            }
            self.fs.patch_here(not_taken);
        }
        if let Some(block) = otherwise {
            self.block(block)?;
        }
        self.at(end_line);
        self.fs.patch_here(ends);
        Ok(())
    }

    /// An arm that is only a jump forward is part of its condition; a `goto` only if it is on the line of its
    /// `then`, since a line of its own is to be seen by hooks. False if it is not such an arm.
    #[inline(never)]
    fn jump_arm(&mut self, cond: ExprId, then_line: u32, block: Block) -> Res<bool> {
        let &[Stat { kind, line }] = self.chunk.block(block) else { return Ok(false) };
        match kind {
            StatKind::Break if self.can_break_directly() => {
                let jumps = self.condition_false(cond, then_line)?;
                self.at(line);
                self.add_breaks(jumps);
            }
            StatKind::Goto(name) if line == then_line && self.can_goto_directly(name) => {
                let jumps = self.condition_false(cond, then_line)?;
                self.at(line);
                self.add_gotos(name, jumps);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    #[inline(never)]
    fn return_statement(&mut self, values: &[ExprId]) -> Res<()> {
        let mut first = self.fs.active_registers;
        let mut last = Exp::NIL;
        self.expr_list(values, &mut last)?;
        let count = match values.len() {
            0 => Some(0),
            _ if last.is_multiple() => {
                self.set_results(&mut last, None)?;
                if let Kind::Call(pc) = last.kind
                    && values.len() == 1
                    && !self.inside_to_be_closed()
                {
                    let close = self.register_to_close(0).is_some();
                    let call = self.fs.code[pc as usize];
                    self.fs.code[pc as usize] =
                        Instr::abcd(Op::TailCall, call.a(), call.b(), 0, close as u16);
                    return Ok(());
                }
                None
            }
            1 => {
                first = self.place_any(&mut last)?;
                Some(1)
            }
            count => {
                self.place_next(&mut last)?;
                Some(count as u16)
            }
        };
        match count {
            Some(count) => self.emit_return(first, count),
            None => {
                let close = self.register_to_close(0).is_some();
                self.emit(Op::Return, first, 0, 0, close as u16);
            }
        }
        Ok(())
    }

    /// Returns `count` values from `first` on.
    #[inline(never)]
    pub(super) fn emit_return(&mut self, first: u8, count: u16) {
        let close = self.register_to_close(0).is_some();
        let op = match count {
            0 if !close && !self.fs.is_vararg => Op::Return0,
            1 if !close && !self.fs.is_vararg => Op::Return1,
            _ => Op::Return,
        };
        match op {
            Op::Return => self.emit(op, first, count + 1, 0, close as u16),
            _ => self.emit(op, first, 0, 0, 0),
        };
    }
}
