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
        let [target] = targets else { return self.assign_several(targets, values) };
        let (mut exp, mut value) = (Exp::NIL, Exp::NIL);
        self.expr(*target, &mut exp)?;
        self.expr_list(values, &mut value)?;
        if values.len() == 1 {
            self.one_result(&mut value);
        } else {
            self.adjust(1, values.len(), &mut value)?;
            value = Exp::new(Kind::Register(self.fs.free - 1));
        }
        self.store(&exp, &mut value)
    }

    #[inline(never)]
    fn assign_several(&mut self, targets: &[ExprId], values: &[ExprId]) -> Res<()> {
        let mut descriptions: Vec<Exp> = Vec::with_capacity(targets.len());
        for &target in targets {
            let mut exp = Exp::NIL;
            self.expr(target, &mut exp)?;
            if !exp.is_indexed() {
                self.save_conflicting(&mut descriptions, exp.kind)?;
            }
            descriptions.push(exp);
        }
        let mut value = Exp::NIL;
        self.expr_list(values, &mut value)?;
        if values.len() == targets.len() {
            let target = descriptions.pop().expect("an assignment has a target");
            self.one_result(&mut value);
            self.store(&target, &mut value)?;
        } else {
            self.adjust(targets.len(), values.len(), &mut value)?;
        }
        for target in descriptions.iter().rev() {
            self.store(target, &mut Exp::new(Kind::Register(self.fs.free - 1)))?;
        }
        Ok(())
    }

    /// Earlier targets that use the variable `assigned` as table or key get a copy of it.
    #[inline(never)]
    fn save_conflicting(&mut self, earlier: &mut [Exp], assigned: Kind) -> Res<()> {
        let copy = self.fs.free;
        let mut conflict = false;
        for target in earlier {
            match (assigned, &mut target.kind) {
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
            match assigned {
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
    pub(super) fn store(&mut self, target: &Exp, value: &mut Exp) -> Res<()> {
        match target.kind {
            Kind::Local(register) => {
                self.discharge(value);
                self.free(value);
                self.place_in(value, register);
                return Ok(());
            }
            Kind::Upvalue(up) => {
                let from = self.place_any(value)?;
                self.emit(Op::SetUpval, from, up as u16, 0, 0);
            }
            Kind::IndexUp { up, key } => {
                let from = self.operand(value)?;
                let ic = self.fs.new_ic();
                self.emit(Op::SetTabUp, up, key, from, ic);
            }
            Kind::IndexStr { table, key } => {
                let from = self.operand(value)?;
                let ic = self.fs.new_ic();
                self.emit(Op::SetField, table, key, from, ic);
            }
            Kind::IndexInt { table, key } => {
                let from = self.operand(value)?;
                self.emit(Op::SetInt, table, key, from, 0);
            }
            Kind::Index { table, key } => {
                let from = self.operand(value)?;
                self.emit(Op::SetIndex, table, key as u16, from, 0);
            }
            other => unreachable!("{other:?} is no target"),
        }
        self.free(value);
        Ok(())
    }

    /// Makes `count` expressions, the last of which is `last` if there is any, give `wanted` values in the
    /// next registers.
    #[inline(never)]
    pub(super) fn adjust(&mut self, wanted: usize, count: usize, last: &mut Exp) -> Res<()> {
        if count > 0 && last.is_multiple() {
            let results = (wanted + 1).saturating_sub(count);
            self.set_results(last, Some(results as u16))?;
        } else {
            if count > 0 {
                self.place_next(last)?;
            }
            if wanted > count {
                self.check_stack(wanted - count)?;
                self.emit_nil(self.fs.free, wanted - count);
            }
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
        let mut value = Exp::NIL;
        self.expr_list(values, &mut value)?;
        let last_local = locals.iter().next_back().expect("a declaration has a name");
        if locals.len() == values.len()
            && self.chunk.locals[last_local].attrib == Attrib::Const
            && value.is_constant()
        {
            for local in locals.iter().take(locals.len() - 1) {
                self.activate(local);
            }
            self.activate_constant(last_local, value.kind);
        } else {
            self.adjust(locals.len(), values.len(), &mut value)?;
            for local in locals.iter() {
                self.activate(local);
            }
        }
        if let Some(local) = locals.iter().find(|local| self.chunk.locals[*local].attrib == Attrib::Close) {
            self.emit(Op::Tbc, self.registers[local], 0, 0, 0);
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
        let mut exp = Exp::NIL;
        self.expr(target, &mut exp)?;
        let index = self.function(func)?;
        let mut value = Exp::new(self.closure(index)?);
        self.store(&exp, &mut value)?;
        // The definition happens on its first line, as far as errors are concerned.
        self.fs.fix_line(line);
        Ok(())
    }
}
