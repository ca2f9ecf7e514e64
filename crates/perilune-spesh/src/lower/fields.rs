//! Fields of tables that have one shape, and what is known of their values.
//!
//! A value that has been loaded from a field, or stored into it, is what the field has until something else
//! is stored there ([`Fact::Field`]): `self.count = self.count + 1` in a loop loads and checks nothing but
//! before the first round, and methods that are built in place of their calls, each of which asks for the
//! fields of `self` again, find them. The store is made each time, so an exit has nothing to make up for.
//!
//! What may be stored into the field of a table that goes by another name? Machine code itself knows shape
//! and slot of all stores into fields that it makes: a table of another shape is another table. Whatever else
//! stores, a leaf, a native, a function, ends all that is known of the structure of tables, this included.
//!
//! Values of which nothing is known have no such fact: a tag more would have to be kept for each.
//!
//! What has been found out about a value is known again where it comes from its field again: `self.v[i]`
//! asks once what kind of array `self.v` has, as long as nothing is stored into that field
//! ([`Fact::Part`]: the value of a field goes by the name that it got when it was first loaded).

use super::facts::{Fact, Name, Origin};
use super::stores::Stored;
use super::{Known, Lowering, Ty};
use crate::ssa::{Block, Type, Value};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

impl Lowering<'_, '_> {
    /// The field in a slot of the table, which has this shape, else goes to `miss`, becomes the register of
    /// instruction `at`.
    pub(super) fn own_field(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        (shape, slot): (u32, u32),
        miss: Block,
    ) {
        let (a, ty) = (self.code(at).a() as usize, self.result(at));
        let fact = Fact::Field(name, shape, slot, ty);
        let part = self.part_of(name, (shape, slot));
        let origin = Origin::Field(name, shape, slot);
        if self.has(fact) {
            let val = self.values(fact)[0];
            self.define(a, Known { ty, val });
            match part {
                _ if ty == Ty::Table && self.comes_from(a, origin) => {}
                Some(part) => self.is_copy(a, part),
                None => self.is_part(a, name, (shape, slot)),
            }
            return;
        }
        if let Some(part) = part.filter(|part| ty == Ty::Any && self.has(Fact::Held(*part))) {
            let held = self.values(Fact::Held(part));
            self.put(a, held[1], held[0]);
            return self.is_copy(a, part);
        }
        let slots = self.slots(name, table, shape, miss);
        let offset = Self::slot(slot as usize);
        if ty == Ty::Any && self.site(at).result.contains(Tag::NIL) {
            return self.take_or_nil(at, table, slots, offset, miss);
        }
        self.take(at, slots, offset, miss);
        // The instruction may have put the value where the table was, under a name that was the table's.
        let stays = ty.tag().is_some() && !fact.mentions(self.name_of(a));
        if let Some(known) = self.known(a).filter(|_| stays) {
            self.keep(fact, vec![known.val]);
        }
        if !(stays && ty == Ty::Table && self.comes_from(a, origin)) {
            self.is_part(a, name, (shape, slot));
        }
    }

    /// The name of the value that a field of the table has, by its shape and slot, if it has one.
    fn part_of(&self, name: Name, (shape, slot): (u32, u32)) -> Option<Name> {
        let now = self.now.as_ref()?;
        now.facts.iter().find_map(|fact| match *fact {
            Fact::Part(of, its, own, part) if (of, its, own) == (name, shape, slot) => Some(part),
            _ => None,
        })
    }

    /// What has just come into register `a` is what a field of the table has, by its shape and slot.
    fn is_part(&mut self, a: usize, name: Name, (shape, slot): (u32, u32)) {
        let part = self.name_of(a);
        // The instruction may have put the value where the table was.
        if part != name && !self.captured.contains(a as u8) {
            self.keep(Fact::Part(name, shape, slot, part), Vec::new());
        }
    }

    /// Replaces what the field in a slot of the table has, which has this shape; what is out of the ordinary
    /// goes to `miss`. `fills`: as [`Lowering::replace_field`] says.
    pub(super) fn set_own_field(
        &mut self,
        (name, table): (Name, Value),
        field: (u32, u32),
        (stored, fills): (&Stored, bool),
        miss: Block,
    ) {
        let slots = self.slots(name, table, field.0, miss);
        let what = self.b.iconst(Type::I64, layout::FIELD);
        self.is_writable((Some(name), table), what, stored, miss);
        let offset = Self::slot(field.1 as usize);
        match self.type_of_field(name, field) {
            // There is something, of the same type.
            Some(ty) if ty.tag() == stored.known => {
                self.store(stored.payload, slots, offset + layout::PAYLOAD)
            }
            Some(_) => self.store_stored(stored, slots, offset),
            None => self.replace_field((table, slots), offset, stored, fills, miss),
        }
        self.has_stored(name, field, stored);
    }

    /// The type of what a field of the table has, by its shape and slot, if that is known.
    fn type_of_field(&self, name: Name, (shape, slot): (u32, u32)) -> Option<Ty> {
        let is_known = |ty: &Ty| self.has(Fact::Field(name, shape, slot, *ty));
        [Ty::Int, Ty::Float, Ty::Table].into_iter().find(is_known)
    }

    /// This has been stored into a field of the table, by its shape and slot.
    pub(super) fn has_stored(&mut self, name: Name, field: (u32, u32), stored: &Stored) {
        self.forget_field(field);
        let ty = stored.known.map(Ty::of).filter(|ty| ty.tag().is_some());
        if let Some(ty) = ty {
            self.keep(Fact::Field(name, field.0, field.1, ty), vec![stored.payload]);
        }
    }

    /// Finds out what the field has, which is to be of this type, else goes to `exit`.
    pub(super) fn find_field(
        &mut self,
        name: Name,
        table: Value,
        (shape, slot): (u32, u32),
        ty: Ty,
        exit: Block,
    ) {
        let slots = self.slots(name, table, shape, exit);
        let known = self.expect_at(slots, Self::slot(slot as usize), ty, exit);
        self.keep(Fact::Field(name, shape, slot, ty), vec![known.val]);
    }
}
