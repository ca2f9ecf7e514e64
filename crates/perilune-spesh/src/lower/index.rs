//! Elements and keys: `t[k]`.
//!
//! What is done in line is an element that an array has, the one after its last where there is room, and
//! strings as keys of dictionaries (`dictionaries.rs`). All else that needs nothing of the frame (other
//! strings and objects as keys, integers in the hash part, growth, what tables along `__index` have) is one
//! call of a leaf (`perilune_vm::machine`): no value is stored before it, and what is known of tables is
//! known after it, as far as it may not have changed. Where a leaf does not know, the instruction is done
//! slowly.

use super::facts::Fact;
use super::memory::Key;
use super::stores::Stored;
use super::{Known, Lowering, Name, Slow, State, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::Op;
use perilune_vm::machine::{APPENDS, FILLS, NOT_DONE, OTHER_KEY, OTHER_OBJECT, STAY, UNKNOWN, layout};
use perilune_vm::{ArrayKind, Tag};

/// Added to the number of a register for the name of what is in a captured variable just now.
const JUST_NOW: usize = 1000;

impl Lowering<'_, '_> {
    /// Instruction `at` has met nothing but tables in register `r`: so it is one, else the code exits.
    pub(super) fn guard_table(&mut self, at: usize, r: usize) {
        if self.ty(r) == Ty::Any && !self.captured.contains(r as u8) && !self.is_suspect(at) {
            self.guard(r, Ty::Table, at);
        }
    }

    /// The same if the log says so of a field's instruction.
    pub(super) fn guard_seen(&mut self, at: usize, r: usize) {
        let site = self.site(at);
        if site.shape.is_some() && site.arrays & OTHER_OBJECT == 0 {
            self.guard_table(at, r);
        }
    }

    /// The table in register `r`, with a name for what is found out about it; else goes to `slow`.
    pub(super) fn table_in(&mut self, at: usize, r: usize, slow: Block) -> (Name, Value) {
        match self.known(r) {
            Some(known) if known.ty == Ty::Table => (self.name_of(r), known.val),
            known => {
                debug_assert!(known.is_none(), "no table is a number");
                let known = self.expect(r, Ty::Table, slow);
                let name = match self.captured.contains(r as u8) {
                    true => Name::made(at, r + JUST_NOW),
                    false => self.name_of(r),
                };
                if let Some(now) = self.now.as_mut().filter(|_| self.captured.contains(r as u8)) {
                    now.facts.retain(|fact| !fact.mentions(name));
                }
                (name, known.val)
            }
        }
    }

    /// Does something else where `other` begins, and joins it with the current way. A register that is of one
    /// type on one way only is unknown behind, so it has to be in its slot on both.
    pub(super) fn join_with(&mut self, at: usize, other: Slow, does: impl FnOnce(&mut Self)) {
        let own = self.b.create_block();
        let known = self.now.take();
        self.b.jump(own, &[]);
        self.go_to(other.block);
        self.now = other.before;
        does(self);
        let met = self.now.take();
        let differ = match (&known, &met) {
            (Some(known), Some(met)) => known.differing(met),
            _ => Vec::new(),
        };
        // Where the own way has nothing to store, the other one comes to it.
        let joined = if differ.is_empty() { own } else { self.b.create_block() };
        let arrive = |this: &mut Self, state: Option<State>| {
            this.now = state;
            differ.iter().for_each(|&r| this.flush(r));
            this.b.jump(joined, &[]);
            this.now.take()
        };
        let met = match met {
            None => None,
            some => arrive(self, some),
        };
        self.go_to(own);
        self.now = match differ.is_empty() {
            true => known,
            false => {
                let known = arrive(self, known);
                self.go_to(joined);
                known
            }
        };
        if let (Some(now), Some(met)) = (&mut self.now, met) {
            assert!(now.agrees_with(&met), "ways that meet agree on what is not made");
            now.meet(&met, at);
        }
    }

    /// The key of instruction `at` as a leaf gets it: an integer, or the address of its register.
    fn key_for_leaf(&mut self, r: u16, constant: bool) -> (bool, Value) {
        if constant {
            return (true, self.b.iconst(Type::I64, r as i64));
        }
        match self.known(r as usize) {
            Some(key) if key.ty == Ty::Int => (true, key.val),
            _ => {
                self.flush(r as usize);
                // The leaf may put the interned twin of a string there.
                let held = Fact::Held(self.name_of(r as usize));
                if let Some(now) = &mut self.now {
                    now.facts.remove(&held);
                }
                let base = self.b.use_var(self.base);
                (false, self.iadd_imm(base, Self::slot(r as usize) as i64))
            }
        }
    }

    /// What the table has for the key of instruction `at` becomes its register, of this type.
    pub(super) fn get_by_leaf(&mut self, at: usize, table: Value, ty: Ty, slow: Block) {
        let i = self.code(at);
        let (integer, key) = self.key_for_leaf(i.c(), i.op() == Some(Op::GetInt));
        self.get_by(if integer { layout::get_int() } else { layout::get() }, at, table, key, ty, slow);
    }

    /// The same by this leaf.
    pub(super) fn get_by(&mut self, leaf: usize, at: usize, table: Value, key: Value, ty: Ty, slow: Block) {
        let vm = self.vm;
        let [payload, tag] = self.words(leaf, &[vm, table, key]);
        let a = self.code(at).a() as usize;
        match ty.tag() {
            None => {
                let known = self.icmp_imm(IntCC::NotEqual, tag, UNKNOWN as i64);
                self.unless(known, slow);
                let tag = self.b.ireduce(Type::I8, tag);
                self.put(a, tag, payload);
            }
            Some(wanted) => {
                let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
                self.unless(is, slow);
                let val = match ty {
                    Ty::Float => self.b.bitcast(Type::F64, payload),
                    _ => payload,
                };
                self.define(a, Known { ty, val });
            }
        }
    }

    /// `GETINDEX` and `GETINT`.
    pub(super) fn get_index(&mut self, at: usize) {
        let i = self.code(at);
        let (a, b, arrays) = (i.a() as usize, i.b() as usize, self.site(at).arrays);
        if self.get_element(at) {
            return;
        }
        let row = self.row_at(at);
        if row.is_some_and(|row| self.take_row(a, row)) {
            return;
        }
        if arrays & !OTHER_OBJECT == 0 || !matches!(self.ty(b), Ty::Any | Ty::Table) {
            return self.step_and_guard(at);
        }
        let slow = match arrays & OTHER_OBJECT {
            0 => {
                self.guard_table(at, b);
                self.slow(at)
            }
            _ => self.aside(),
        };
        let result = self.result(at);
        let (name, table) = self.table_in(at, b, slow.block);
        let key = self.key_of_element(at, i.c(), i.op() == Some(Op::GetInt));
        let fits = |kind| match kind {
            ArrayKind::General => true,
            ArrayKind::Int | ArrayKind::Float | ArrayKind::Bool => Self::type_of_elements(kind) == result,
        };
        let element = self.array_kind(at).filter(|(kind, _)| fits(*kind));
        let (Some(key), Some((kind, kinds))) = (key, element) else {
            match key.filter(|_| arrays & OTHER_KEY == 0 && Self::dense_kinds(arrays).len() > 1) {
                Some(key) => self.get_dense(at, table, key, result, slow.block),
                None => self.get_by_key(at, (name, table), result, slow.block),
            }
            return self.join(at, slow, Some((a, result)));
        };
        let key = self.with_number(key, i.c());
        // What is no such element a leaf gets, if there has been any.
        let leaf = kinds || arrays & (OTHER_KEY | APPENDS) != 0 || self.is_suspect(at);
        let early = (leaf && kinds).then(|| self.aside());
        let to = early.as_ref().map_or(slow.block, |early| early.block);
        let [array, length] = self.array(name, table, kind.into(), to);
        let miss = leaf.then(|| early.unwrap_or_else(|| self.aside()));
        let to = miss.as_ref().map_or(slow.block, |miss| miss.block);
        let index = self.number_of_element(key, to);
        let address = self.element_at(array, length, index, kind, to);
        let ty = match kind {
            ArrayKind::General if result == Ty::Any && self.site(at).result.contains(Tag::NIL) => {
                self.take_or_nil(at, table, address, 0, to);
                Ty::Any
            }
            ArrayKind::General => {
                let ty = self.take(at, address, 0, to);
                if let Some(row) = row.filter(|_| miss.is_none() && slow.exits) {
                    self.keep_row(a, row);
                }
                ty
            }
            ArrayKind::Int | ArrayKind::Float => {
                let ty = Self::type_of_elements(kind);
                let class = if ty == Ty::Float { Type::F64 } else { Type::I64 };
                let val = self.load(class, address, 0);
                self.define(a, Known { ty, val });
                ty
            }
            ArrayKind::Bool => {
                let (tag, payload) = self.boolean_at(address);
                if slow.exits && miss.is_none() && self.jump_at_once(at, tag) {
                    return;
                }
                self.put(a, tag, payload);
                Ty::Any
            }
        };
        if let Some(miss) = miss {
            self.join_with(at, miss, |this| match arrays & OTHER_KEY {
                0 if kinds => this.get_dense(at, table, key, ty, slow.block),
                0 => this.get_by_leaf(at, table, ty, slow.block),
                _ => this.get_by_key(at, (name, table), ty, slow.block),
            });
        }
        self.join(at, slow, Some((a, ty)));
    }

    /// The kinds among these of a site whose elements have no tags of their own, or nothing else.
    fn dense_kinds(arrays: u8) -> Vec<ArrayKind> {
        let dense = ArrayKind::ALL.into_iter().filter(|kind| *kind != ArrayKind::General);
        dense.filter(|&kind| arrays & 1 << kind as u8 != 0).collect()
    }

    /// What an array of numbers or booleans, of a kind that the log has seen at `at`, has for the key becomes
    /// the register of this instruction; whatever else it is, a leaf gets. `{0, 0, 1}` and `{0.5, 0, 1}` are
    /// arrays of two kinds.
    fn get_dense(&mut self, at: usize, table: Value, key: Key, ty: Ty, slow: Block) {
        let miss = self.aside();
        let own = self.load(Type::I8, table, layout::TABLE_KIND);
        let [found, numbers, booleans] = [(); 3].map(|()| self.b.create_block());
        let tag = self.b.append_block_param(found, Type::I8);
        let payload = self.b.append_block_param(found, Type::I64);
        let tag_of_numbers = self.b.append_block_param(numbers, Type::I8);
        let kinds = Self::dense_kinds(self.site(at).arrays);
        for &kind in &kinds {
            let next = self.b.create_block();
            let same = self.icmp_imm(IntCC::Equal, own, kind as i64);
            match Self::type_of_elements(kind).tag() {
                Some(tag) => {
                    let tag = self.b.iconst(Type::I8, tag.0 as i64);
                    self.b.brif(same, numbers, &[tag], next, &[]);
                }
                None => self.b.brif(same, booleans, &[], next, &[]),
            }
            self.go_to(next);
        }
        self.b.jump(miss.block, &[]);
        let has_numbers = kinds.iter().any(|kind| kind.is_number());
        if has_numbers {
            self.go_to(numbers);
            let address = self.dense_element(table, key, ArrayKind::Int, miss.block);
            let payload = self.load(Type::I64, address, 0);
            self.b.jump(found, &[tag_of_numbers, payload]);
        }
        if kinds.contains(&ArrayKind::Bool) {
            self.go_to(booleans);
            let address = self.dense_element(table, key, ArrayKind::Bool, miss.block);
            let (tag, payload) = self.boolean_at(address);
            self.b.jump(found, &[tag, payload]);
        }
        self.go_to(found);
        let a = self.code(at).a() as usize;
        match ty.tag() {
            None => self.put(a, tag, payload),
            Some(_) => {
                let other = self.other_result(at, at);
                let known = self.is_of([payload, tag], ty, other);
                self.define(a, known);
            }
        }
        self.join_with(at, miss, |this| this.get_by_leaf(at, table, ty, slow));
    }

    /// The address of what a table has for the key in its array, whose kind has as large elements as this
    /// one; else goes to `miss`.
    fn dense_element(&mut self, table: Value, key: Key, kind: ArrayKind, miss: Block) -> Value {
        let length = self.load(Type::I32, table, layout::TABLE_LENGTH);
        let length = self.b.uextend(Type::I64, length);
        let array = self.load(Type::I64, table, layout::TABLE_ARRAY);
        let index = self.number_of_element(key, miss);
        self.element_at(array, length, index, kind, miss)
    }

    /// The address of element `index`, if there is one.
    fn element_at(
        &mut self,
        array: Value,
        length: Value,
        index: Value,
        kind: ArrayKind,
        miss: Block,
    ) -> Value {
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
        self.unless(within, miss);
        self.place_of(array, index, kind)
    }

    /// Stores by a leaf; what is known of tables afterwards is for the caller to say.
    pub(super) fn set_by(&mut self, leaf: usize, table: Value, key: Value, stored: &Stored, slow: Block) {
        let vm = self.vm;
        let tag = self.b.uextend(Type::I64, stored.tag);
        let payload = match stored.known {
            Some(Tag::FLOAT) if self.b.func.ty(stored.payload) == Type::F64 => {
                self.b.bitcast(Type::I64, stored.payload)
            }
            _ => stored.payload,
        };
        // It grows often enough not to be worth saving all registers.
        let done = match leaf == layout::append() {
            true => self.common(leaf, &[vm, table, key, payload, tag]),
            false => self.leaf(leaf, &[vm, table, key, payload, tag]),
        };
        let done = self.icmp_imm(IntCC::NotEqual, done, NOT_DONE as i64);
        self.if_done(done, slow);
    }

    /// Stores whatever it is under the key of instruction `at`.
    pub(super) fn set_by_leaf(&mut self, at: usize, table: Value, stored: &Stored, slow: Block) {
        let i = self.code(at);
        let (integer, key) = self.key_for_leaf(i.b(), i.op() == Some(Op::SetInt));
        self.set_by(if integer { layout::set_int() } else { layout::set() }, table, key, stored, slow);
        if let Some(now) = &mut self.now {
            now.forget_structure(at);
        }
        self.collect_if_due(at, true);
    }

    /// `SETINDEX` and `SETINT`.
    pub(super) fn set_index(&mut self, at: usize) {
        let i = self.code(at);
        let (a, arrays) = (i.a() as usize, self.site(at).arrays);
        if self.set_element(at) {
            return;
        }
        if arrays & !OTHER_OBJECT == 0 || !matches!(self.ty(a), Ty::Any | Ty::Table) {
            return self.step(at);
        }
        let slow = match arrays & OTHER_OBJECT {
            0 => {
                self.guard_table(at, a);
                self.slow(at)
            }
            _ => self.aside(),
        };
        let (name, table) = self.table_in(at, a, slow.block);
        let key = self.key_of_element(at, i.b(), i.op() == Some(Op::SetInt));
        let stored = self.stored_or_nil(i.c());
        if stored.known == Some(Tag::NIL) {
            self.take_away(at, (name, table), key, &stored, slow.block);
            return self.join(at, slow, None);
        }
        let element = self.array_kind(at).filter(|(kind, _)| Self::may_be_element(*kind, &stored));
        let (Some(key), Some((kind, kinds))) = (key, element) else {
            self.set_by_key(at, (name, table), &stored, slow.block);
            return self.join(at, slow, None);
        };
        let key = self.with_number(key, i.b());
        let any = kinds || arrays & (OTHER_KEY | FILLS) != 0 || self.is_suspect(at);
        let appends = !any && arrays & APPENDS != 0;
        let early = (any && kinds || appends).then(|| self.aside());
        let to = early.as_ref().map_or(slow.block, |early| early.block);
        let [array, length] = self.array(name, table, kind.into(), to);
        // What is done the same way is done in one place, if what the array is is all that has been found out.
        let has_same =
            |early: &&Slow| self.now.as_ref().zip(early.before.as_ref()).is_some_and(|(a, b)| a.has_same(b));
        let known = early.as_ref().filter(|_| any).filter(has_same).map(|early| early.block);
        let miss = (known.is_none() && (any || appends)).then(|| self.aside());
        let to = known.or(miss.as_ref().map(|miss| miss.block)).unwrap_or(slow.block);
        let index = self.number_of_element(key, if any { to } else { slow.block });
        let address = self.element_at(array, length, index, kind, to);
        // What takes an element away makes a hole.
        let hole = if any { to } else { slow.block };
        self.is_element(kind, &stored, hole);
        self.is_writable_array((name, table, kind), index, &stored, slow.block);
        if kind == ArrayKind::General {
            self.is_there(address, 0, hole);
        }
        self.store_element(kind, &stored, address);
        if let (ArrayKind::General, Some(now)) = (kind, &mut self.now) {
            now.forget_elements(at);
        }
        if any {
            for other in [miss, early].into_iter().flatten() {
                let leaf = |this: &mut Self| match arrays & OTHER_KEY {
                    0 => this.set_by_leaf(at, table, &stored, slow.block),
                    _ => this.set_by_key(at, (name, table), &stored, slow.block),
                };
                self.join_with(at, other, |this| match arrays & FILLS {
                    0 => leaf(this),
                    _ => {
                        let rest = this.aside();
                        this.store_among_holes(at, (name, table), key, &stored, rest.block);
                        this.join_with(at, rest, leaf);
                    }
                });
            }
        } else if let (Some(miss), Some(early)) = (miss, early) {
            let same = miss.before.as_ref().zip(early.before.as_ref()).is_some_and(|(a, b)| a.has_same(b));
            let grows = if same { early.block } else { self.b.create_block() };
            // An array grows more and more rarely, and what is in registers stays there for the other rounds.
            [grows, early.block].into_iter().for_each(|block| self.b.set_cold_block(block));
            let before = miss.before.clone();
            self.join_with(at, miss, |this| {
                this.append((name, table), (array, index, kind), &stored, grows);
            });
            let mut ways = vec![(early.block, early.before)];
            if !same {
                ways.insert(0, (grows, before));
            } else if let (Some(known), Some(before)) = (&mut ways[0].1, before) {
                known.facts.retain(|fact| before.facts.contains(fact));
            }
            for (block, before) in ways {
                let other = Slow { block, before, exits: false };
                self.join_with(at, other, |this| {
                    this.grow(at, (name, table), kind, &stored, slow.block);
                });
            }
        }
        self.join(at, slow, None);
    }

    /// Nil under the key of instruction `at`: where that is the last element of a dense array that is not
    /// full, the array is one shorter. All else is done by a leaf.
    fn take_away(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        key: Option<Key>,
        nil: &Stored,
        slow: Block,
    ) {
        let arrays = self.site(at).arrays;
        if let Some(key) = key.filter(|_| arrays & FILLS != 0) {
            let rest = self.aside();
            self.store_among_holes(at, (name, table), key, nil, rest.block);
            return self.join_with(at, rest, |this| this.set_by_leaf(at, table, nil, slow));
        }
        let is_element = arrays & (APPENDS | OTHER_KEY) == 0;
        let Some(key) = key.filter(|_| is_element) else { return self.set_by_leaf(at, table, nil, slow) };
        let other = self.aside();
        let index = self.number_of_element(key, other.block);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let odd = self.band_imm(flags, (layout::HOLES | layout::SIZE_UNSETTLED) as i64);
        let dense = self.icmp_imm(IntCC::Equal, odd, 0);
        self.unless(dense, other.block);
        let [length, room] = [layout::TABLE_LENGTH, layout::TABLE_ROOM].map(|part| {
            let count = self.load(Type::I32, table, part);
            self.b.uextend(Type::I64, count)
        });
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
        self.unless(within, other.block);
        let next = self.iadd_imm(index, 1);
        let is_last = self.b.icmp(IntCC::Equal, next, length);
        self.unless(is_last, other.block);
        // One that has been full is measured anew.
        let has_room = self.b.icmp(IntCC::UnsignedLessThan, length, room);
        self.unless(has_room, other.block);
        self.is_writable((Some(name), table), index, nil, other.block);
        let short = self.b.ireduce(Type::I32, index);
        self.store(short, table, layout::TABLE_LENGTH);
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Array(..)));
            now.forget_elements(at);
        }
        self.join_with(at, other, |this| this.set_by_leaf(at, table, nil, slow));
    }

    /// Appends to an array of this kind, if there is room and all is plain; else goes to `grows`.
    fn append(
        &mut self,
        (name, table): (Name, Value),
        (array, index, kind): (Value, Value, ArrayKind),
        stored: &Stored,
        grows: Block,
    ) {
        let length = self.load(Type::I32, table, layout::TABLE_LENGTH);
        let length = self.b.uextend(Type::I64, length);
        let is_next = self.b.icmp(IntCC::Equal, index, length);
        self.unless(is_next, grows);
        let room = self.load(Type::I32, table, layout::TABLE_ROOM);
        let room = self.b.uextend(Type::I64, room);
        let fits = self.b.icmp(IntCC::UnsignedLessThan, index, room);
        self.unless(fits, grows);
        // The first element chooses the kind.
        let some = self.icmp_imm(IntCC::NotEqual, index, 0);
        self.unless(some, grows);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let holes = self.band_imm(flags, layout::HOLES as i64);
        let dense = self.icmp_imm(IntCC::Equal, holes, 0);
        self.unless(dense, grows);
        self.lacks_metamethod(table, layout::NO_NEWINDEX, grows);
        self.is_element(kind, stored, grows);
        self.is_writable_array((name, table, kind), index, stored, grows);
        let address = self.place_of(array, index, kind);
        self.store_element(kind, stored, address);
        let length = self.plus(index, 1);
        let short = self.b.ireduce(Type::I32, length);
        self.store(short, table, layout::TABLE_LENGTH);
        // Another name may be that of the same table.
        let own = Fact::Array(name, kind.into());
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| *fact == own || !matches!(fact, Fact::Array(..)));
        }
        self.keep(own, vec![array, length]);
    }

    /// Appends where the array has to grow, or to get its kind. It is one of this kind then.
    fn grow(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        kind: ArrayKind,
        stored: &Stored,
        slow: Block,
    ) {
        let i = self.code(at);
        let key = match i.op() {
            Some(Op::SetInt) => self.b.iconst(Type::I64, i.b() as i64),
            _ => match self.known(i.b() as usize) {
                Some(key) if key.ty == Ty::Int => key.val,
                _ => return self.set_by_leaf(at, table, stored, slow),
            },
        };
        self.set_by(layout::append(), table, key, stored, slow);
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Array(..)));
        }
        self.collect_if_due(at, true);
        let other = self.exit_block(at + 1, perilune_vm::machine::EXITED);
        self.array(name, table, kind.into(), other);
    }

    /// If a collection is due, does a step of it: before instruction `at`, or after it if that is `done`.
    /// What is known holds afterwards, or the code leaves.
    pub(super) fn collect_if_due(&mut self, at: usize, done: bool) {
        let leave = self.leave_for_collection(at, done);
        let vm = self.vm;
        let due = self.load(Type::I8, vm, layout::VM_DUE);
        if let Some(leave) = leave {
            let none = self.icmp_imm(IntCC::Equal, due, 0);
            return self.unless(none, leave);
        }
        let [collect, on] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(collect);
        self.b.brif(due, collect, &[], on, &[]);
        self.go_to(collect);
        let known = self.now.clone();
        self.flush_all();
        if self.frame != 0 {
            let (base, point) = (self.b.use_var(self.base), self.point(at, None, 0, Default::default()));
            let [vm, base] = [vm, base].map(|v| self.copied(v));
            self.leaf(layout::write_records(), &[vm, base, point]);
        }
        let (base, pc) = (self.own_base(), self.position(at));
        let done = self.b.iconst(Type::I64, done as i64);
        let [vm, base] = [vm, base].map(|v| self.copied(v));
        let exit = self.leaf(layout::collect(), &[vm, base, pc, done]);
        let stays = self.icmp_imm(IntCC::Equal, exit, STAY as i64);
        self.or_leave_with(stays, (on, &[]), exit);
        self.go_to(on);
        self.now = known;
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Fresh(_)));
            now.forget_extensible();
        }
    }
}

const _: () = assert!(super::inline::MOST_REGISTERS < JUST_NOW, "no register has such a number");
