//! Stores into fields of tables.
//!
//! What a field has is replaced in line, also by nil, which is what the field has from then on: the shape
//! stays. A field that has nil is one that the table lacks, as far as Lua is concerned: its metatable is
//! asked (`__newindex`), and tables that stand for classes tell whoever has found the field further along
//! (`perilune_vm::shape`). So where there is nil it is asked whether the table is of that kind
//! ([`Lowering::may_fill`]).
//!
//! Constructors give a table one field after the other. What each store would ask is asked by the first one:
//! whether there is room for all, and whether new fields are somebody's business ([`Fact::Extensible`]). That
//! the domain knows their names is seen to when it gets the code ([`Lowering::shapes`]). (A constructor of
//! four fields has 749 bytes in place of 1,071.)

use super::facts::Fact;
use super::{Known, Lowering, Name, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::{Constant, Op};
use perilune_vm::machine::{Cache, NOT_DONE, layout};
use perilune_vm::{ArrayKind, Tag};

/// A value to be stored.
pub(super) struct Stored {
    pub payload: Value,
    pub tag: Value,
    /// What the tag is, if that is known.
    pub known: Option<Tag>,
}

impl Lowering<'_, '_> {
    /// The value that a store stores: what operand `x` stands for. `None`: nil, which takes something away.
    pub(super) fn stored(&mut self, x: u16) -> Option<Stored> {
        let r = (x & !RK_CONST) as usize;
        let address = match x & RK_CONST {
            0 => match self.known(r) {
                Some(known) => return Some(self.number(known)),
                None => self.b.use_var(self.base),
            },
            _ => match self.constant(r) {
                Some(known) => return Some(self.number(known)),
                None => match self.proto.constants[r] {
                    Constant::Nil => return None,
                    Constant::Boolean(is) => {
                        let payload = self.b.iconst(Type::I64, 0);
                        return Some(self.of_tag(payload, if is { Tag::TRUE } else { Tag::FALSE }));
                    }
                    _ => {
                        let constants = self.constants();
                        let payload = self.load(Type::I64, constants, Self::slot(r) + layout::PAYLOAD);
                        return Some(self.of_tag(payload, Tag::STRING));
                    }
                },
            },
        };
        let payload = self.load(Type::I64, address, Self::slot(r) + layout::PAYLOAD);
        let tag = self.load(Type::I8, address, Self::slot(r) + layout::TAG);
        Some(Stored { payload, tag, known: None })
    }

    fn number(&mut self, known: Known) -> Stored {
        self.of_tag(known.val, known.ty.tag().expect("a known type"))
    }

    fn of_tag(&mut self, payload: Value, tag: Tag) -> Stored {
        let own = self.b.iconst(Type::I8, tag.0 as i64);
        Stored { payload, tag: own, known: Some(tag) }
    }

    /// The value is not nil, else goes to `slow`.
    pub(super) fn is_something(&mut self, stored: &Stored, slow: Block) {
        if stored.known.is_none() {
            let there = self.icmp_imm(IntCC::NotEqual, stored.tag, Tag::NIL.0 as i64);
            self.unless(there, slow);
        }
    }

    /// The value can be an element of an array of this kind, whose `known` tag does not say otherwise; else
    /// goes to `slow`.
    pub(super) fn is_element(&mut self, kind: ArrayKind, stored: &Stored, slow: Block) {
        debug_assert!(Self::may_be_element(kind, stored));
        match kind {
            ArrayKind::General => self.is_something(stored, slow),
            ArrayKind::Bool if stored.known.is_none() => {
                let above = self.iadd_imm(stored.tag, -i64::from(Tag::FALSE.0));
                let last = i64::from(Tag::TRUE.0 - Tag::FALSE.0);
                let is = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, above, last);
                self.unless(is, slow);
            }
            ArrayKind::Int | ArrayKind::Float | ArrayKind::Bool => {}
        }
    }

    /// As far as is known, the value, not nil, can be an element of an array of this kind. Of numbers their
    /// kind has to be known.
    pub(super) fn may_be_element(kind: ArrayKind, stored: &Stored) -> bool {
        match kind {
            ArrayKind::General => true,
            ArrayKind::Int | ArrayKind::Float => Self::type_of_elements(kind).tag() == stored.known,
            ArrayKind::Bool => stored.known.is_none_or(|tag| [Tag::FALSE, Tag::TRUE].contains(&tag)),
        }
    }

    /// The value becomes the element at an address, of which the caller has asked [`Lowering::is_element`].
    pub(super) fn store_element(&mut self, kind: ArrayKind, stored: &Stored, address: Value) {
        match kind {
            ArrayKind::General => self.store_stored(stored, address, 0),
            ArrayKind::Int | ArrayKind::Float => self.store(stored.payload, address, 0),
            ArrayKind::Bool => self.store(stored.tag, address, 0),
        }
    }

    /// The value, which is [an element](Lowering::is_element) of such an array, may be stored into it; the
    /// collector is told of it.
    pub(super) fn is_writable_array(
        &mut self,
        (name, table, kind): (Name, Value, ArrayKind),
        at: Value,
        stored: &Stored,
        slow: Block,
    ) {
        match kind {
            ArrayKind::General => self.is_writable((Some(name), table), at, stored, slow),
            ArrayKind::Int | ArrayKind::Float | ArrayKind::Bool => self.takes_plain(Some(name), table, slow),
        }
    }

    /// What is no reference may be stored into the object.
    fn takes_plain(&mut self, name: Option<Name>, object: Value, slow: Block) {
        if !name.is_some_and(|name| self.has(Fact::Fresh(name))) {
            self.writable(name, object, slow);
        }
    }

    /// The value may be stored into the object, which has this name if it has one; the collector is told of
    /// it. `at`: what for, as [`layout::store_barrier`] says.
    pub(super) fn is_writable(
        &mut self,
        (name, object): (Option<Name>, Value),
        at: Value,
        stored: &Stored,
        slow: Block,
    ) {
        self.takes_plain(name, object, slow);
        if name.is_some_and(|name| self.has(Fact::Fresh(name))) {
            return;
        }
        if stored.known.is_some_and(|tag| tag < Tag::STRING) {
            return;
        }
        let [old, tell, done] = [(); 3].map(|()| self.b.create_block());
        self.b.set_cold_block(tell);
        if stored.known.is_none() {
            let plain = self.icmp_imm(IntCC::UnsignedLessThan, stored.tag, Tag::STRING.0 as i64);
            self.b.brif(plain, done, &[], old, &[]);
        } else {
            self.b.jump(old, &[]);
        }
        self.go_to(old);
        let vm = self.vm;
        let epoch = self.load(Type::I32, object, layout::OBJECT_EPOCH);
        let current = self.load(Type::I32, vm, layout::VM_EPOCH);
        let same = self.b.icmp(IntCC::Equal, epoch, current);
        self.b.brif(same, done, &[], tell, &[]);
        self.go_to(tell);
        let [] = self.words(layout::store_barrier(), &[vm, object, at]);
        self.b.jump(done, &[]);
        self.go_to(done);
    }

    pub(super) fn store_stored(&mut self, stored: &Stored, address: Value, offset: i32) {
        self.store(stored.payload, address, offset + layout::PAYLOAD);
        self.store(stored.tag, address, offset + layout::TAG);
    }

    /// What is at an address, a field of the table, is replaced. Where that is nil, and the code is not to
    /// have a way for it (`fills`), and where that is somebody else's business, goes to `slow`.
    pub(super) fn replace_field(
        &mut self,
        (table, address): (Value, Value),
        offset: i32,
        by: &Stored,
        fills: bool,
        slow: Block,
    ) {
        if !fills {
            return self.replace(address, offset, by, slow);
        }
        let tag = self.load(Type::I8, address, offset + layout::TAG);
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        let [nil, on] = [(); 2].map(|()| self.b.create_block());
        self.b.brif(there, on, &[], nil, &[]);
        self.go_to(nil);
        self.may_fill(table, slow);
        self.b.jump(on, &[]);
        self.go_to(on);
        self.store_stored(by, address, offset);
    }

    /// Whether the code of a store at `at` has a way of its own for fields that have nil: what comes and goes
    /// may be nil, as numbers are not, or it has been.
    pub(super) fn fills(&self, at: usize, stored: &Stored) -> bool {
        stored.known.is_none_or(|tag| tag == Tag::NIL || tag >= Tag::STRING) || self.is_suspect(at)
    }

    /// A value that is there, and not nil, is replaced.
    pub(super) fn replace(&mut self, address: Value, offset: i32, by: &Stored, slow: Block) {
        self.is_there(address, offset, slow);
        self.store_stored(by, address, offset);
    }

    /// There is a value, not nil, at an address; else goes to `slow`.
    pub(super) fn is_there(&mut self, address: Value, offset: i32, slow: Block) {
        let tag = self.load(Type::I8, address, offset + layout::TAG);
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, slow);
    }

    /// `SETFIELD` into a field that is there, or that the table gets; where there were several shapes, by a
    /// leaf.
    pub(super) fn set_field(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        self.guard_seen(at, a);
        let site = self.site(at);
        if site.shape.is_none() || !matches!(self.ty(a), Ty::Any | Ty::Table) {
            return self.step(at);
        }
        let slow = if self.known(a).is_some() { self.slow(at) } else { self.aside() };
        let (name, table) = self.table_in(at, a, slow.block);
        let stored = self.stored_or_nil(i.c());
        let fills = self.fills(at, &stored);
        let what = self.b.iconst(Type::I64, layout::FIELD);
        if site.shapes && self.is_replaced(at) {
            // What adds the field, and tables of other shapes are for a leaf.
            let miss = self.aside();
            let address = self.field_of_shapes((name, table), (site.fields.own(), &[]), miss.block);
            self.is_writable((Some(name), table), what, &stored, miss.block);
            self.replace_field((table, address), 0, &stored, fills, miss.block);
            site.fields.own().iter().for_each(|field| self.forget_field(*field));
            self.join_with(at, miss, |this| this.set_field_by_leaf(at, table, slow.block));
            return self.join(at, slow, None);
        }
        let Some(cache) = site.cache.filter(|_| !site.shapes) else {
            self.set_field_by_leaf(at, table, slow.block);
            return self.join(at, slow, None);
        };
        // Where a field is added nil adds none: that is for a leaf, too, if there was any.
        let adds_nil = site.stores_nil && matches!(cache, Cache::Add { .. });
        let miss = (self.is_suspect(at) || adds_nil).then(|| self.aside());
        let to = miss.as_ref().map_or(slow.block, |miss| miss.block);
        match cache {
            Cache::Own { shape, slot } => {
                self.set_own_field((name, table), (shape, slot), (&stored, fills), to);
            }
            Cache::Add { before, slot, shape } if stored.known != Some(Tag::NIL) => {
                self.is_something(&stored, to);
                let slots = self.slots(name, table, before, to);
                self.shapes.insert(shape);
                self.takes_plain(Some(name), table, to);
                let slots = self.may_grow(at, (name, table), (slot, slots), to);
                self.is_writable((Some(name), table), what, &stored, to);
                self.store_stored(&stored, slots, Self::slot(slot as usize));
                let after = self.b.iconst(Type::I32, shape as i64);
                self.store(after, table, layout::TABLE_SHAPE);
                if let Some(now) = &mut self.now {
                    now.forget_shapes(at);
                }
                self.keep(Fact::Slots(name, shape), vec![slots]);
                self.has_stored(name, (shape, slot), &stored);
            }
            Cache::Add { .. } | Cache::Node { .. } | Cache::Class { .. } | Cache::OfStrings { .. } => {
                self.set_field_by_leaf(at, table, slow.block);
            }
        }
        if let Some(miss) = miss {
            self.join_with(at, miss, |this| this.set_field_by_leaf(at, table, slow.block));
        }
        self.join(at, slow, None);
    }

    /// `SETFIELD` at `at` has replaced fields of tables, whose shapes are known. Names of metamethods are not
    /// for machine code.
    fn is_replaced(&self, at: usize) -> bool {
        let name = &self.proto.constants[self.code(at).b() as usize];
        let is_plain = matches!(name, Constant::String(s) if !s.starts_with(b"__"));
        is_plain && !self.site(at).fields.own().is_empty()
    }

    /// `SETFIELD` of whatever table.
    fn set_field_by_leaf(&mut self, at: usize, table: Value, slow: Block) {
        let i = self.code(at);
        let stored = self.stored_or_nil(i.c());
        let key = self.name_constant(i.b());
        self.set_by(layout::set_field(), table, key, &stored, slow);
        if let Some(now) = &mut self.now {
            now.forget_structure(at);
        }
        self.collect_if_due(at, true);
    }

    /// The table, which may be written, gets field `slot` from the store at `at`, and getting it is nobody's
    /// business; else goes to `slow`. The address of its fields, among which there is room for it then, and for
    /// those that the stores behind it add.
    ///
    /// A table that has no room is given some in passing: what the log has seen says nothing about that, and a
    /// table that is made empty, and filled in behind something else (`local o = {}; all[k] = o; o.x = x`), has
    /// none each time.
    fn may_grow(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        (slot, slots): (u32, Value),
        slow: Block,
    ) -> Value {
        if !self.has(Fact::Extensible(name)) {
            self.may_fill(table, slow);
            self.keep(Fact::Extensible(name), Vec::new());
        }
        let has_room = |fact: &Fact| matches!(fact, Fact::Fields(of, count) if *of == name && *count > slot);
        if self.now.as_ref().is_some_and(|now| now.facts.iter().any(has_room)) {
            return slots;
        }
        let last = self.last_field(at, slot);
        let room = self.load(Type::I8, table, layout::TABLE_FIELDS);
        let fits = self.icmp_imm(IntCC::UnsignedGreaterThan, room, last as i64);
        let (grows, done) = (self.cold_block(0), self.b.create_block());
        let there = self.b.append_block_param(done, Type::I64);
        self.b.brif(fits, done, &[slots], grows, &[]);
        self.go_to(grows);
        let vm = self.vm;
        let count = self.b.iconst(Type::I64, last as i64 + 1);
        let larger = self.leaf(layout::make_room(), &[vm, table, count]);
        let made = self.icmp_imm(IntCC::NotEqual, larger, NOT_DONE as i64);
        self.b.brif(made, done, &[larger], slow, &[]);
        self.go_to(done);
        self.keep(Fact::Fields(name, last + 1), Vec::new());
        there
    }

    /// The last of the fields that stores give a table one after the other, from that at `at` on, which gives
    /// it `slot`: as `self.x, self.y = x, y` in a constructor. A table that has room for the first one, and
    /// not for all, gets larger at once.
    fn last_field(&self, at: usize, slot: u32) -> u32 {
        let a = self.code(at).a();
        let mut last = slot;
        for next in (at + 1..).take_while(|&next| self.contains(next)) {
            let i = self.code(next);
            match (i.op(), self.site(next).cache) {
                (Some(Op::SetField), Some(Cache::Add { slot, .. })) if i.a() == a && slot == last + 1 => {
                    last = slot;
                }
                (Some(Op::Move | Op::LoadK | Op::LoadI | Op::LoadNil | Op::GetUpval), _) if i.a() != a => {}
                _ => break,
            }
        }
        last
    }

    /// A field that the table lacks may be given a value, and that is nobody's business; else goes to `slow`.
    fn may_fill(&mut self, table: Value, slow: Block) {
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let class = self.band_imm(flags, layout::IS_CLASS as i64);
        let plain = self.icmp_imm(IntCC::Equal, class, 0);
        self.unless(plain, slow);
        self.lacks_metamethod(table, layout::NO_NEWINDEX, slow);
    }
}
