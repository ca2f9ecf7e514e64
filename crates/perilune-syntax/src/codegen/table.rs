//! Table constructors.
//!
//! The leading `name = value` fields, if their names differ, become the template of the `NEWTABLE`: the table
//! starts with the shape they make, and each value is stored by slot number. From the first repeated or
//! computed key on, fields are stored the general way, because what they do to the shape is not known. How
//! many these are says how large a hash part the table starts with, should they be no names. Positional items
//! gather in the registers above the table and are stored in batches, as they come; named fields may stand
//! between them.

use super::expr::{Exp, Kind};
use super::{Gen, Res};
use crate::ast::{Expr, ExprId, Field, StrId};
use crate::bytecode::{self, Instr, NO_IC, Op, RK_CONST};

/// Items that gather before they are stored.
const ITEMS_PER_FLUSH: u16 = 50;
/// Fields of a template at most; a larger record is likely a dictionary.
const MAX_TEMPLATE: usize = 64;

impl Gen<'_> {
    /// A constructor whose closing brace is on `line`.
    #[inline(never)]
    pub(super) fn table(&mut self, fields: &[Field], line: u32) -> Res<Kind> {
        let table = self.reserve(1)?;
        let pc = self.emit(Op::NewTable, table, 0, 0, 0);
        let ic = self.fs.new_ic();
        let template = self.template(fields, ic);
        let slots = template.map_or(0, |(_, slots)| slots);
        let (mut slot, mut stored, mut gathered) = (0, 0u32, 0u16);
        let mut open = false;
        let mut exp = Exp::NIL;
        for (position, field) in fields.iter().enumerate() {
            self.step()?;
            match field {
                Field::Item(value) => {
                    if gathered == ITEMS_PER_FLUSH {
                        self.store_items(table, gathered, stored);
                        stored += gathered as u32;
                        gathered = 0;
                    }
                    self.expr(*value, &mut exp)?;
                    if position + 1 == fields.len() && exp.is_multiple() {
                        self.set_results(&mut exp, None)?;
                        open = true;
                    } else {
                        self.place_next(&mut exp)?;
                        gathered += 1;
                    }
                }
                Field::Pair { value, .. } if slot < slots => {
                    let free = self.fs.free;
                    self.expr(*value, &mut exp)?;
                    let value = self.operand(&mut exp)?;
                    self.emit(Op::SetSlot, table, slot, value, ic);
                    self.fs.free = free;
                    slot += 1;
                }
                Field::Pair { key, value } => self.pair(table, *key, *value)?,
            }
        }
        self.at(line);
        if open {
            self.store_items(table, 0, stored);
        } else if gathered > 0 {
            self.store_items(table, gathered, stored);
        }
        let items = stored + gathered as u32;
        let pairs = fields.iter().filter(|f| matches!(f, Field::Pair { .. })).count();
        let b = template.map_or(0, |(index, _)| index + 1);
        let c = bytecode::table_sizes(items as usize, pairs - slots as usize);
        self.fs.code[pc] = Instr::abcd(Op::NewTable, table, b, c, ic);
        Ok(Kind::Register(table))
    }

    /// Stores `count` items (0: up to the top) after the first `stored`.
    #[inline(never)]
    fn store_items(&mut self, table: u8, count: u16, stored: u32) {
        self.emit_wide(Op::SetList, table, count, stored as i32);
        self.fs.free = table + 1;
    }

    /// The template of the leading named fields: its index and its length.
    #[inline(never)]
    fn template(&mut self, fields: &[Field], ic: u16) -> Option<(u16, u16)> {
        let names = self.leading_names(fields);
        if names.is_empty() || ic == NO_IC {
            return None;
        }
        let constants: Box<[u32]> = names.iter().map(|&name| self.string_constant(name)).collect();
        let templates = &mut self.fs.templates;
        // A function with many constructors has few distinct ones; beyond that, a repeated template costs
        // only memory.
        let recent = templates.len().saturating_sub(16);
        let index = match templates[recent..].iter().position(|t| *t == constants) {
            Some(index) => recent + index,
            None if templates.len() >= RK_CONST as usize => return None,
            None => {
                templates.push(constants);
                templates.len() - 1
            }
        };
        Some((index as u16, names.len() as u16))
    }

    fn leading_names(&self, fields: &[Field]) -> Vec<StrId> {
        let mut names = Vec::new();
        for field in fields {
            let Field::Pair { key, .. } = field else { continue };
            match self.chunk.exprs[key.index()] {
                Expr::String(name) if names.len() < MAX_TEMPLATE && !names.contains(&name) => {
                    names.push(name);
                }
                _ => break,
            }
        }
        names
    }

    /// `[key] = value` the general way.
    #[inline(never)]
    fn pair(&mut self, table: u8, key: ExprId, value: ExprId) -> Res<()> {
        let free = self.fs.free;
        let (mut target, mut exp) = (Exp::new(Kind::Register(table)), Exp::NIL);
        self.expr(key, &mut exp)?;
        self.settle(&mut exp)?;
        self.index(&mut target, &mut exp)?;
        self.expr(value, &mut exp)?;
        self.store(&target, &mut exp)?;
        self.fs.free = free;
        Ok(())
    }
}
