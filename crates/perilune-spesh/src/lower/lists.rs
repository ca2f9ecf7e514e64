//! Lists: the elements that a constructor tells.
//!
//! `{ x, y }` makes a table with room for two elements, works them out, and stores them with one instruction,
//! `SETLIST`. Of what kind the array becomes is known where it is known that all are numbers of one kind, or
//! booleans, or that one is neither, or not what another is. Then the elements are stores into the room that
//! the constructor has made. Where it is not known a leaf finds out: an array of values would hold any of
//! them, but twice as large, and each place that meets it would meet arrays of two kinds.
//!
//! A table that nobody else has had since it was made ([`Fact::Fresh`]) is as the constructor has left it.
//! Where a function has run since, so that a debugger may have had it, or a collection come, it is asked
//! whether it still is.
//!
//! A list may not be made at all, as tables with fields (`unmade.rs`): then its elements are values like
//! others, and what is asked of it with a constant, `v[1]`, is one of these.

use super::facts::Fact;
use super::stores::Stored;
use super::{Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::{Instr, Op};
use perilune_vm::machine::layout;
use perilune_vm::{ArrayKind, Tag};
use std::ops::RangeInclusive;

/// Of longer lists the elements are stored by a leaf.
pub(super) const MOST_LISTED: usize = 8;

/// Of which kind the array of a list is, of whose values these are the tags, as far as they are known. `None`:
/// that is found out where the code runs.
pub(super) fn kind_of(tags: &[Option<Tag>]) -> Option<ArrayKind> {
    let mut kinds = tags.iter().flatten().map(|tag| ArrayKind::of_tag(*tag));
    let first = kinds.next()?;
    if tags.contains(&Some(Tag::NIL)) {
        return None;
    }
    if first == ArrayKind::General || kinds.any(|kind| kind != first) {
        return Some(ArrayKind::General);
    }
    tags.iter().all(Option::is_some).then_some(first)
}

impl Lowering<'_, '_> {
    /// The constructor's `NEWTABLE` of which the `SETLIST` at `at` stores the elements, if nothing between
    /// them stores any.
    fn constructor_of(&self, at: usize) -> Option<usize> {
        let a = self.raw(at).a();
        let first = self.frames[self.frame as usize].first;
        let stores = |i: Instr| matches!(i.op(), Some(Op::SetInt | Op::SetIndex | Op::SetList)) && i.a() == a;
        let before = (first..at).rev().find(|&n| stores(self.raw(n)) || self.raw(n).changes(a))?;
        (self.raw(before).op() == Some(Op::NewTable) && self.raw(before).a() == a).then_some(before)
    }

    /// How many values the `SETLIST` at `at` stores, if it is the only one of its constructor.
    pub(super) fn listed(&self, at: usize) -> Option<usize> {
        let i = self.code(at);
        let count = match i.b() as usize {
            0 => self.list.filter(|list| list.0 == at)?.1 - (i.a() as usize + 1),
            count => count,
        };
        (i.bx() == 0 && (1..=MOST_LISTED).contains(&count)).then_some(count)
    }

    /// What kind of array the values of these registers make, if that is known. Those that are not made are.
    pub(super) fn kind_listed(&mut self, registers: RangeInclusive<usize>) -> Option<ArrayKind> {
        registers.clone().for_each(|r| self.make_in(r));
        let tags: Vec<_> = registers.map(|r| self.ty(r).tag()).collect();
        kind_of(&tags)
    }

    /// `SETLIST` of a few values of which it is known what kind of array they make. Whether it is that.
    pub(super) fn list_in_line(&mut self, at: usize) -> bool {
        let a = self.code(at).a() as usize;
        let Some(count) = self.listed(at).filter(|_| !self.is_suspect(at)) else { return false };
        let Some(new) = self.constructor_of(at) else { return false };
        let registers = a + 1..=a + count;
        let Some(kind) = self.kind_listed(registers.clone()) else { return false };
        if !matches!(self.ty(a), Ty::Any | Ty::Table) || self.elements_of(new) != count {
            return false;
        }
        let slow = self.slow(at);
        let (name, table) = self.table_in(at, a, slow.block);
        let fresh = self.has(Fact::Fresh(name));
        let stored: Vec<Stored> = registers.map(|r| self.stored(r as u16).expect("a register")).collect();
        let may_be_nil = stored.iter().any(|stored| stored.known.is_none());
        let other = (!fresh || may_be_nil).then(|| self.aside());
        if let Some(other) = other.as_ref().filter(|_| !fresh) {
            self.is_as_constructed(table, count, other.block);
        }
        if let Some(other) = &other {
            stored.iter().for_each(|stored| self.is_something(stored, other.block));
        }
        self.store_list(table, kind, &stored);
        self.has_listed(at);
        if let Some(other) = other {
            self.join_with(at, other, |this| this.list_by_leaf(at, slow.block));
        }
        self.join(at, slow, None);
        true
    }

    /// The table is as a constructor makes it, with room for so many elements and none there yet, and belongs
    /// to no older generation; else goes to `other`.
    fn is_as_constructed(&mut self, table: Value, count: usize, other: Block) {
        let counts = self.load(Type::I64, table, layout::TABLE_COUNTS);
        let empty = self.icmp_imm(IntCC::Equal, counts, (count as i64) << 32);
        self.unless(empty, other);
        let kind = self.load(Type::I8, table, layout::TABLE_KIND);
        let general = self.icmp_imm(IntCC::Equal, kind, ArrayKind::General as i64);
        self.unless(general, other);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let usual = self.icmp_imm(IntCC::Equal, flags, 0);
        self.unless(usual, other);
        let vm = self.vm;
        let [epoch, current] = [(table, layout::OBJECT_EPOCH), (vm, layout::VM_EPOCH)]
            .map(|(of, at)| self.load(Type::I32, of, at));
        let same = self.b.icmp(IntCC::Equal, epoch, current);
        self.unless(same, other);
    }

    /// The elements of a table that a constructor has just made, with room for just these.
    pub(super) fn store_list(&mut self, table: Value, kind: ArrayKind, stored: &[Stored]) {
        let array = self.load(Type::I64, table, layout::TABLE_ARRAY);
        for (n, stored) in stored.iter().enumerate() {
            let offset = (n * kind.element_size()) as i32;
            match kind {
                ArrayKind::General => self.store_stored(stored, array, offset),
                ArrayKind::Int | ArrayKind::Float => self.store(stored.payload, array, offset),
                ArrayKind::Bool => self.store(stored.tag, array, offset),
            }
        }
        let count = self.b.iconst(Type::I32, stored.len() as i64);
        self.store(count, table, layout::TABLE_LENGTH);
        if kind != ArrayKind::General {
            let kind = self.b.iconst(Type::I8, kind as i64);
            self.store(kind, table, layout::TABLE_KIND);
        }
    }
}
