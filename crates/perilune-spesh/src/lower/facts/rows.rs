//! Values that last as long as a loop, though no register has them where it begins: the row `a[i]` of
//! `a[i][k] * b[k][j]`, the table `self.cells` of `self.cells[y][x]`, the key `y - 1` of `cells[y - 1][x]`.
//!
//! In a loop that changes neither `a` nor `i` the element is the same in each round, as long as nothing is
//! stored into an array of values; so is a field, as long as nothing is stored into it. That it is this table is
//! a fact ([`Fact::Element`], [`Fact::Field`]), and the table has a name made of those of what it comes from
//! ([`Name::Derived`]), so that what is found out about it (what its array is, and where) can be hoisted out of
//! the loop as well. Such names are made only of names that last as long as a loop does.
//!
//! The name of an element or a field is one of what is there just now, as those of upvalues and globals are:
//! registers that have it hold what is there, and are renamed when that may have changed
//! ([`State::forget_elements`], [`Lowering::forget_field`]).
//!
//! Arrays of numbers and of booleans have no tables as elements, and no array becomes another kind in place: so
//! `c[i][j] = c[i][j] + x`, numbers all, ends nothing.

use super::{Fact, Facts, Name};
use crate::lower::{Known, Lowering, Register, State, Ty};
use crate::ssa::{IntCC, Type, Value};
use perilune_syntax::Op;
use perilune_vm::machine::{EXITED, layout};
use perilune_vm::{ArrayKind, Tag};

/// What a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Origin {
    /// A table has it in its array of values, under this key.
    Element(Name, Name),
    /// A table of this shape has it in this slot.
    Field(Name, u32, u32),
    /// It is an integer, and this more.
    Sum(Name, i64),
}

impl Origin {
    /// That it has the value, which is a table.
    fn fact(self) -> Option<Fact> {
        match self {
            Origin::Element(table, key) => Some(Fact::Element(table, key)),
            Origin::Field(table, shape, slot) => Some(Fact::Field(table, shape, slot, Ty::Table)),
            Origin::Sum(..) => None,
        }
    }

    /// The names that it is made of, with the types of their values.
    fn names(self) -> impl Iterator<Item = (Name, Ty)> {
        let (first, second) = match self {
            Origin::Element(table, key) => ((table, Ty::Table), Some((key, Ty::Int))),
            Origin::Field(table, ..) => ((table, Ty::Table), None),
            Origin::Sum(of, _) => ((of, Ty::Int), None),
        };
        [Some(first), second].into_iter().flatten()
    }
}

impl State {
    /// Something has been stored into an array of values: instruction `at` did it.
    pub(in crate::lower) fn forget_elements(&mut self, at: usize) {
        self.facts.retain(|fact| !matches!(fact, Fact::Element(..)));
        self.forget_names(at, |name| matches!(name, Name::Derived { of_element: true, .. }));
    }

    /// Something has been stored somewhere.
    pub(super) fn forget_derived(&mut self, at: usize) {
        self.facts.retain(|fact| !matches!(fact, Fact::Element(..)));
        self.forget_names(at, |name| matches!(name, Name::Derived { .. }) && name.is_of_variable());
    }

    /// These names stand for other values from now on.
    pub(super) fn forget_names(&mut self, at: usize, is_one: impl Fn(Name) -> bool) {
        self.facts.retain(|fact| !fact.any_name(&is_one));
        for (r, name) in self.names.iter_mut().enumerate().filter(|(_, name)| is_one(**name)) {
            *name = Name::made(at, r);
        }
    }
}

impl Lowering<'_, '_> {
    /// The name of what comes from there, if the names that it is made of last.
    pub(in crate::lower) fn name_of_origin(&mut self, origin: Origin) -> Option<Name> {
        let origin = self.in_one_step(origin);
        let is_table = matches!(origin, Origin::Element(..) | Origin::Field(..));
        let lasts = |(name, ty)| match name {
            Name::Kept(..) => true,
            Name::Upvalue(0, _) => ty == Ty::Table,
            Name::Derived { number, .. } => {
                matches!(self.origins[number as usize], Origin::Sum(..)) == (ty == Ty::Int)
            }
            _ => false,
        };
        if !origin.names().all(lasts) {
            return None;
        }
        let known = self.origins.iter().position(|own| *own == origin);
        let number = known.unwrap_or_else(|| {
            self.origins.push(origin);
            self.origins.len() - 1
        });
        let has = |of: fn(Name) -> bool| is_table && origin.names().any(|(name, _)| of(name));
        let of_element = matches!(origin, Origin::Element(..))
            || has(|name| matches!(name, Name::Derived { of_element: true, .. }));
        let of_field = matches!(origin, Origin::Field(..))
            || has(|name| matches!(name, Name::Derived { of_field: true, .. }));
        Some(Name::Derived { number: number as u32, of_element, of_field })
    }

    /// A sum of a sum is one of what that is a sum of.
    fn in_one_step(&self, origin: Origin) -> Origin {
        match origin {
            Origin::Sum(Name::Derived { number, .. }, more) => match self.origins[number as usize] {
                Origin::Sum(of, own) => Origin::Sum(of, own.wrapping_add(more)),
                Origin::Element(..) | Origin::Field(..) => origin,
            },
            _ => origin,
        }
    }

    /// Where instruction `at` gets a table from, if that is an array of values whose table and key have names
    /// that last.
    pub(in crate::lower) fn row_at(&mut self, at: usize) -> Option<Origin> {
        let i = self.code(at);
        let (b, c) = (i.b() as usize, i.c() as usize);
        let is_plain = i.op() == Some(Op::GetIndex)
            && self.site(at).arrays == 1 << ArrayKind::General as u8
            && self.result(at) == Ty::Table
            && self.ty(b) == Ty::Table
            && self.ty(c) == Ty::Int
            && !self.captured.contains(b as u8)
            && !self.captured.contains(c as u8)
            && !self.is_suspect(at);
        if !is_plain {
            return None;
        }
        let origin = Origin::Element(self.name_of(b), self.name_of(c));
        self.name_of_origin(origin).map(|_| origin)
    }

    /// Register `a` gets what is known to come from there; whether that is known.
    pub(in crate::lower) fn take_row(&mut self, a: usize, origin: Origin) -> bool {
        let Some(fact) = origin.fact().filter(|fact| self.has(*fact)) else { return false };
        let val = self.values(fact)[0];
        self.define(a, Known { ty: Ty::Table, val });
        self.comes_from(a, origin);
        true
    }

    /// Register `a` has just got it from there.
    pub(in crate::lower) fn keep_row(&mut self, a: usize, origin: Origin) {
        if let (Some(Known { ty: Ty::Table, val }), Some(fact)) = (self.known(a), origin.fact()) {
            self.keep(fact, vec![val]);
            self.comes_from(a, origin);
        }
    }

    /// Register `a` has what comes from there: it has the name of that, if there is one. Whether it has.
    pub(in crate::lower) fn comes_from(&mut self, a: usize, origin: Origin) -> bool {
        let name = self.name_of_origin(origin);
        if let Some(name) = name {
            self.is_copy(a, name);
        }
        name.is_some()
    }

    /// Something has been stored into this slot of a table of this shape: any of them may be that one.
    pub(in crate::lower) fn forget_field(&mut self, (shape, slot): (u32, u32)) {
        let (at, origins) = (self.at, &self.origins);
        if let Some(now) = &mut self.now {
            now.forget_field((shape, slot));
            now.forget_names(at, |name| is_of_field(origins, name, (shape, slot)));
        }
    }

    /// A name as the loop has it whose registers have these names; `None`: it has none for that.
    fn name_there(&mut self, name: Name, there: &[Name], ty: Ty) -> Option<Name> {
        match name {
            Name::Upvalue(0, _) => Some(name),
            Name::Derived { number, .. } => {
                let origin = self.origin_there(self.origins[number as usize], there)?;
                self.name_of_origin(origin)
            }
            _ => {
                let now = self.now.as_ref()?;
                let holds = |r: &usize| {
                    let is_kept = matches!(there[*r], Name::Kept(..)) && !self.captured.contains(*r as u8);
                    now.names[*r] == name && is_kept && now.registers[*r].ty == ty
                };
                (0..there.len()).find(holds).map(|holder| there[holder])
            }
        }
    }

    fn origin_there(&mut self, origin: Origin, there: &[Name]) -> Option<Origin> {
        Some(match origin {
            Origin::Element(table, key) => {
                let table = self.name_there(table, there, Ty::Table)?;
                Origin::Element(table, self.name_there(key, there, Ty::Int)?)
            }
            Origin::Field(table, shape, slot) => {
                Origin::Field(self.name_there(table, there, Ty::Table)?, shape, slot)
            }
            Origin::Sum(of, more) => Origin::Sum(self.name_there(of, there, Ty::Int)?, more),
        })
    }

    /// A fact of something derived, or that there is an element, under the names that the loop has for it.
    pub(super) fn derived_fact_there(&mut self, fact: Fact, there: &[Name]) -> Option<Fact> {
        match fact {
            Fact::Element(table, key) => {
                let origin = self.origin_there(Origin::Element(table, key), there)?;
                self.name_of_origin(origin)?;
                origin.fact()
            }
            _ => Some(fact.with(self.name_there(fact.of()?, there, Ty::Table)?)),
        }
    }

    /// Whether a fact of something derived, or that there is an element, can be found out on the ways into the
    /// loop whose registers have these names, and these types.
    pub(in crate::lower) fn is_derived_fact_there(
        &self,
        fact: Fact,
        there: &[Name],
        fixed: &[Register],
    ) -> bool {
        match fact {
            Fact::Element(table, key) => {
                let mut names = Origin::Element(table, key).names();
                names.all(|(name, ty)| self.is_found_there(name, there, fixed, ty))
            }
            _ => fact.of().is_some_and(|name| self.is_found_there(name, there, fixed, Ty::Table)),
        }
    }

    fn is_found_there(&self, name: Name, there: &[Name], fixed: &[Register], ty: Ty) -> bool {
        match name {
            Name::Upvalue(0, _) => true,
            Name::Derived { number, .. } => {
                let mut names = self.origins[number as usize].names();
                names.all(|(name, ty)| self.is_found_there(name, there, fixed, ty))
            }
            _ => {
                let r = there.iter().position(|own| *own == name);
                r.is_some_and(|r| fixed[r].ty == ty && !self.captured.contains(r as u8))
            }
        }
    }

    /// The facts that can be hoisted: of something derived only if it is hoisted that it is there.
    pub(in crate::lower) fn with_origins_alone(&self, facts: &mut Facts) {
        loop {
            let all = facts.clone();
            let has_origin = |name: Name| match name {
                Name::Derived { number, .. } => {
                    self.origins[number as usize].fact().is_none_or(|fact| all.contains(&fact))
                }
                _ => true,
            };
            facts.retain(|fact| !fact.any_name(|name| !has_origin(name)));
            if *facts == all {
                return;
            }
        }
    }

    /// The table of this number, if it is known.
    pub(super) fn derived_table(&mut self, number: u32) -> Option<Value> {
        let known = self.origins[number as usize].fact().filter(|fact| self.has(*fact))?;
        Some(self.values(known)[0])
    }

    /// Whether registers have this name here as in the loop.
    fn is_same_here(&self, name: Name, there: &[Name]) -> bool {
        match name {
            Name::Upvalue(..) => true,
            Name::Derived { number, .. } => {
                self.origins[number as usize].names().all(|(name, _)| self.is_same_here(name, there))
            }
            _ => {
                let r = there.iter().position(|own| *own == name);
                r.zip(self.now.as_ref()).is_some_and(|(r, now)| now.names[r] == name)
            }
        }
    }

    /// On a way into the loop that begins with `head`, whose registers have these names: makes true what the facts
    /// of something derived stand on. `false`: that is not possible.
    pub(super) fn establish_origins(&mut self, head: usize, wanted: &Facts, there: &[Name]) -> bool {
        let mut ready = Vec::new();
        for &fact in wanted {
            let origin = match (fact, fact.of()) {
                (Fact::Element(table, key), _) => Some(Origin::Element(table, key)),
                (_, Some(Name::Derived { number, .. })) => Some(self.origins[number as usize]),
                _ => None,
            };
            if origin.is_some_and(|origin| !self.establish_origin(head, origin, there, &mut ready)) {
                return false;
            }
        }
        true
    }

    fn establish_origin(
        &mut self,
        head: usize,
        origin: Origin,
        there: &[Name],
        ready: &mut Vec<Origin>,
    ) -> bool {
        if ready.contains(&origin) {
            return true;
        }
        for (name, _) in origin.names() {
            if let Name::Derived { number, .. } = name
                && !self.establish_origin(head, self.origins[number as usize], there, ready)
            {
                return false;
            }
        }
        ready.push(origin);
        let Some(fact) = origin.fact() else { return true };
        let Some(name) = self.name_of_origin(origin) else { return false };
        if !self.is_same_here(name, there)
            && let Some(now) = &mut self.now
        {
            // What was known of that which another round of a loop around this one had.
            now.facts.retain(|own| *own != fact && !own.mentions(name));
        }
        if !self.has(fact) {
            let Some(value) = self.find_origin(origin, there, head) else { return false };
            self.keep(fact, vec![value]);
        }
        true
    }

    /// The table that comes from there, for the loop that begins with `head` and has registers of these names; else
    /// leaves the code there. `None`: it cannot be told.
    fn find_origin(&mut self, origin: Origin, there: &[Name], head: usize) -> Option<Value> {
        let exit = self.exit_block(head, EXITED);
        let register = |name: Name| there.iter().position(|own| *own == name);
        let (of, _) = origin.names().next()?;
        let (name, table) = match of {
            Name::Upvalue(_, n) => (of, self.upvalue_table(n, exit).val),
            Name::Derived { number, .. } => (of, self.derived_table(number)?),
            _ => {
                let r = register(of)?;
                (self.name_of(r), self.known(r).filter(|known| known.ty == Ty::Table)?.val)
            }
        };
        let place = match origin {
            Origin::Element(_, key) => {
                let (key, more) = match key {
                    Name::Derived { number, .. } => match self.origins[number as usize] {
                        Origin::Sum(of, more) => (of, more),
                        _ => return None,
                    },
                    _ => (key, 0),
                };
                let key = register(key).and_then(|r| self.known(r)).filter(|known| known.ty == Ty::Int)?.val;
                let [array, length] = self.array(name, table, ArrayKind::General.into(), exit);
                let index = self.iadd_imm(key, more.wrapping_sub(1));
                let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
                self.unless(within, exit);
                self.place_of(array, index, ArrayKind::General)
            }
            Origin::Field(_, shape, slot) => {
                let slots = self.slots(name, table, shape, exit);
                self.iadd_imm(slots, Self::slot(slot as usize) as i64)
            }
            Origin::Sum(..) => return None,
        };
        let tag = self.load(Type::I8, place, layout::TAG);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::TABLE.0 as i64);
        self.unless(is, exit);
        Some(self.load(Type::I64, place, layout::PAYLOAD))
    }
}

/// Whether the value of this name comes from this slot of tables of this shape, somewhere on its way.
fn is_of_field(origins: &[Origin], name: Name, field: (u32, u32)) -> bool {
    let Name::Derived { number, of_field: true, .. } = name else { return false };
    let origin = origins[number as usize];
    matches!(origin, Origin::Field(_, shape, slot) if (shape, slot) == field)
        || origin.names().any(|(name, _)| is_of_field(origins, name, field))
}
