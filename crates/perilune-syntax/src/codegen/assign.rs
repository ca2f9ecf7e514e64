//! Assignments and local declarations: how many values, where they go, in which order.
//!
//! A multiple assignment evaluates its targets' tables and keys left to right, then the values, and stores
//! from the last target to the first. A local that an earlier target uses as its table or key and a later one
//! assigns to is copied first, so that `i, a[i] = i + 1, 20` means the old `i`.

use super::expr::{Exp, Kind};
use super::{Gen, Res};
use crate::ast::{Attrib, ExprId, FuncId, LocalId, Locals};
use crate::bytecode::Op;

impl Gen<'_> {
    /// `targets = values`
    #[inline(never)]
    pub(super) fn assign(&mut self, targets: &[ExprId], values: &[ExprId]) -> Res<()> {
        let mut descriptions: Vec<Exp> = Vec::with_capacity(targets.len());
        for &target in targets {
            let exp = self.expr(target)?;
            if !exp.is_indexed() {
                self.save_conflicting(&mut descriptions, exp)?;
            }
            descriptions.push(exp);
        }
        let last = self.expr_list(values)?;
        if let Some(mut value) = last
            && values.len() == targets.len()
        {
            let target = descriptions.pop().expect("an assignment has a target");
            self.one_result(&mut value);
            self.store(target, value)?;
        } else {
            self.adjust(targets.len(), values.len(), last)?;
        }
        for target in descriptions.into_iter().rev() {
            let value = Exp::new(Kind::Register(self.fs.free - 1));
            self.store(target, value)?;
        }
        Ok(())
    }

    /// Earlier targets that use the variable `assigned` as table or key get a copy of it.
    #[inline(never)]
    fn save_conflicting(&mut self, earlier: &mut [Exp], assigned: Exp) -> Res<()> {
        let copy = self.fs.free;
        let mut conflict = false;
        for target in earlier {
            match (assigned.kind, &mut target.kind) {
                (Kind::Upvalue(variable), Kind::IndexUp { up, key }) if *up == variable => {
                    target.kind = Kind::IndexStr { table: copy, key: *key };
                    conflict = true;
                }
                (Kind::Local(variable), Kind::IndexStr { table, .. } | Kind::IndexInt { table, .. })
                    if *table == variable =>
                {
                    *table = copy;
                    conflict = true;
                }
                (Kind::Local(variable), Kind::Index { table, key }) => {
                    for register in [table, key] {
                        if *register == variable {
                            *register = copy;
                            conflict = true;
                        }
                    }
                }
                _ => {}
            }
        }
        if conflict {
            match assigned.kind {
                Kind::Local(register) => self.emit(Op::Move, copy, register as u16, 0, 0),
                Kind::Upvalue(up) => self.emit(Op::GetUpval, copy, up as u16, 0, 0),
                other => unreachable!("{other:?} is no variable"),
            };
            self.reserve(1)?;
        }
        Ok(())
    }

    /// Stores a value into a variable or field; frees the value's register, not the target's.
    #[inline(never)]
    pub(super) fn store(&mut self, target: Exp, mut value: Exp) -> Res<()> {
        match target.kind {
            Kind::Local(register) => {
                self.discharge(&mut value);
                self.free(&value);
                self.place_in(&mut value, register);
                return Ok(());
            }
            Kind::Upvalue(up) => {
                let from = self.place_any(&mut value)?;
                self.emit(Op::SetUpval, from, up as u16, 0, 0);
            }
            Kind::IndexUp { up, key } => {
                let from = self.operand(&mut value)?;
                let ic = self.fs.new_ic();
                self.emit(Op::SetTabUp, up, key, from, ic);
            }
            Kind::IndexStr { table, key } => {
                let from = self.operand(&mut value)?;
                let ic = self.fs.new_ic();
                self.emit(Op::SetField, table, key, from, ic);
            }
            Kind::IndexInt { table, key } => {
                let from = self.operand(&mut value)?;
                self.emit(Op::SetInt, table, key, from, 0);
            }
            Kind::Index { table, key } => {
                let from = self.operand(&mut value)?;
                self.emit(Op::SetIndex, table, key as u16, from, 0);
            }
            other => unreachable!("{other:?} is no target"),
        }
        self.free(&value);
        Ok(())
    }

    /// Makes `count` expressions, the last of which is `last`, give `wanted` values in the next registers.
    #[inline(never)]
    pub(super) fn adjust(&mut self, wanted: usize, count: usize, last: Option<Exp>) -> Res<()> {
        match last {
            Some(mut last) if last.is_multiple() => {
                let results = (wanted + 1).saturating_sub(count);
                self.set_results(&mut last, Some(results as u16))?;
            }
            Some(mut last) => {
                self.place_next(&mut last)?;
                if wanted > count {
                    self.check_stack(wanted - count)?;
                    self.emit_nil(self.fs.free, wanted - count);
                }
            }
            None if wanted > 0 => {
                self.check_stack(wanted)?;
                self.emit_nil(self.fs.free, wanted);
            }
            None => {}
        }
        // All expressions but an absent one have left one register each.
        if wanted >= count {
            self.reserve(wanted - count)?;
        } else {
            self.fs.free -= (count - wanted) as u8;
        }
        Ok(())
    }

    /// `local locals = values`
    #[inline(never)]
    pub(super) fn local_statement(&mut self, locals: Locals, values: &[ExprId]) -> Res<()> {
        let last = self.expr_list(values)?;
        let last_local = locals.iter().next_back().expect("a declaration has a name");
        if let Some(value) = last
            && locals.len() == values.len()
            && self.chunk.locals[last_local.index()].attrib == Attrib::Const
            && value.is_constant()
        {
            for local in locals.iter().take(locals.len() - 1) {
                self.activate(local);
            }
            self.activate_constant(last_local, value);
        } else {
            self.adjust(locals.len(), values.len(), last)?;
            for local in locals.iter() {
                self.activate(local);
            }
        }
        if let Some(local) =
            locals.iter().find(|local| self.chunk.locals[local.index()].attrib == Attrib::Close)
        {
            self.emit(Op::Tbc, self.registers[local.index()], 0, 0, 0);
        }
        Ok(())
    }

    /// `local function`
    #[inline(never)]
    pub(super) fn local_function(&mut self, local: LocalId, func: FuncId) -> Res<()> {
        let register = self.reserve(1)?;
        self.activate(local);
        let index = self.function(func)?;
        self.emit_wide(Op::Closure, register, 0, index as i32);
        self.restart_latest_local();
        Ok(())
    }

    /// `function target`, whose statement starts on `line`
    #[inline(never)]
    pub(super) fn function_statement(&mut self, target: ExprId, func: FuncId, line: u32) -> Res<()> {
        let target = self.expr(target)?;
        let index = self.function(func)?;
        let value = self.closure(index)?;
        self.store(target, value)?;
        // The definition happens on its first line, as far as errors are concerned.
        self.fs.fix_line(line);
        Ok(())
    }
}
