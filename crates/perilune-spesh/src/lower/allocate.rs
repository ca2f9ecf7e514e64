//! What makes objects: tables, their first fields and elements, functions; and where variables end.
//!
//! An allocation is one call of a leaf, which costs no more than instructions in line would. What is gained
//! is what is known afterwards: a new table has the shape that its constructor has told, its fields lie
//! behind it, nobody else refers to it, and it has the epoch of the day ([`Fact::Fresh`]): so the
//! constructor's stores are stores, without a guard, and without telling the collector.
//!
//! A collection that is due comes *before* the allocation, and not after it as in the interpreter: else the
//! way that collects would take what is known of the new object with it where both ways meet.

use super::facts::{Fact, Name};
use super::stores::Stored;
use super::{EXITED, Known, Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use crate::units;
use perilune_syntax::bytecode::NO_IC;
use perilune_syntax::{Instr, Op, UpvalueDesc};
use perilune_vm::machine::{Cache, NOT_DONE, layout};
use perilune_vm::{Intrinsic, Tag};

/// Most elements that a constructor's table has room for in line.
const MOST_ELEMENTS: u16 = 16;

impl Lowering<'_, '_> {
    /// What instruction `at` may write, as an object's new register and all above it, is unknown from here
    /// on.
    fn forget_above(&mut self, at: usize) {
        let i = self.code(at);
        for r in (0..self.registers()).filter(|r| i.changes(*r as u8)) {
            self.set_unknown(r);
        }
    }

    /// `NEWTABLE` of a shape that the log has seen.
    pub(super) fn new_table(&mut self, at: usize) {
        let i = self.code(at);
        let Some(Cache::Own { shape, slot: fields }) = self.site(at).cache else {
            return self.step_and_guard(at);
        };
        if i.d() == NO_IC || i.c() > MOST_ELEMENTS {
            return self.step_and_guard(at);
        }
        self.shapes.insert(shape);
        self.forget_above(at);
        let elements = self.elements_of(at);
        let parts = fields as usize + elements;
        let waits = !self.is_suspect(at) && self.may_wait(at, parts);
        if waits {
            // A collection that this calls for is made here, where nothing old is in registers above.
            self.count_unmade(layout::TABLE_SIZE + Self::slot(parts));
        }
        self.collect_if_due(at, false);
        if waits {
            return self.postpone(at, shape, fields as usize, elements);
        }
        let table = self.allocate(shape, fields as usize, elements);
        let a = i.a() as usize;
        self.define(a, Known { ty: Ty::Table, val: table });
        if !self.captured.contains(a as u8) {
            let name = self.name_of(a);
            self.is_fresh(name, table, (shape, fields as usize));
        }
    }

    /// For how many elements a `NEWTABLE` has room: one more than it says if its list ends in a call that has
    /// always given one value, or as many as there are extra arguments, where that is known. (For any number
    /// of them it says nothing; the array was moved each time.)
    pub(super) fn elements_of(&self, at: usize) -> usize {
        let new = self.raw(at);
        let end = self.frames[self.frame as usize].first + self.proto.code.len();
        let is_list = |i: Instr| i.op() == Some(Op::SetList) && i.a() == new.a();
        // What makes the register something else comes behind the constructor.
        let next = (at + 1..end).find(|&n| is_list(self.raw(n)) || self.raw(n).changes(new.a()));
        let is_open = |n: &usize| is_list(self.raw(*n)) && self.raw(*n).b() == 0;
        let last = next.filter(is_open).map(|list| list - 1);
        let more = match last {
            Some(last) if self.has_given_one(last) => 1,
            Some(last) if self.frame != 0 && self.raw(last).op() == Some(Op::Vararg) => self.own().extra().1,
            _ => 0,
        };
        (new.c() as usize + more).min(MOST_ELEMENTS as usize)
    }

    /// A new table of this shape, with room for so many fields and elements.
    pub(super) fn allocate(&mut self, shape: u32, fields: usize, elements: usize) -> Value {
        let vm = self.vm;
        if let Some(maker) = layout::table_maker(fields, elements) {
            let shape = self.b.iconst(Type::I64, shape as i64);
            return self.leaf(maker, &[vm, shape]);
        }
        let words = [shape as i64, fields as i64, elements as i64];
        let [shape, fields, elements] = words.map(|n| self.b.iconst(Type::I64, n));
        self.leaf(layout::new_table(), &[vm, shape, fields, elements])
    }

    /// The value of this name is a table that has just been made.
    pub(super) fn is_fresh(&mut self, name: Name, table: Value, (shape, fields): (u32, usize)) {
        if fields > 0 {
            let slots = self.iadd_imm(table, layout::TABLE_SIZE as i64);
            self.keep(Fact::Slots(name, shape), vec![slots]);
            self.keep(Fact::Fields(name, fields as u32), Vec::new());
        }
        self.keep(Fact::Extensible(name), Vec::new());
        self.keep(Fact::Writable(name), Vec::new());
        self.keep(Fact::Fresh(name), Vec::new());
    }

    /// The call or tail call at `at`, of `setmetatable`, if the log has seen nothing else there: a new table
    /// gets a metatable that asks for nothing. Whether it is that. Nothing that is known of tables is over,
    /// and the result is known to be the table. All that may be otherwise leads out.
    pub(super) fn set_metatable(&mut self, at: usize) -> bool {
        let (i, site) = (self.code(at), self.site(at));
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        let native = site.native.filter(|_| !site.natives && !site.has_upvalues && site.calls == 0);
        let native = native.filter(|native| matches!(native.intrinsic, Some(Intrinsic::SetMetatable)));
        let Some(native) = native.filter(|_| i.b() == 3 && !self.is_suspect(at)) else { return false };
        let name = self.name_of(first);
        self.make_in(first + 1);
        let unmade = self.unmade_without_metatable(first);
        let table = match unmade {
            Some(_) => None,
            None => match self.known(first) {
                Some(known) if known.ty == Ty::Table && self.has(Fact::Fresh(name)) => Some(known),
                _ => return false,
            },
        };
        if !matches!(self.ty(first + 1), Ty::Any | Ty::Table) {
            return false;
        }
        let other = self.exit_block(at, EXITED);
        self.is_native(a, native, other);
        let metatable = match self.known(first + 1) {
            Some(known) => known.val,
            None => self.expect(first + 1, Ty::Table, other).val,
        };
        let absent = self.load(Type::I8, metatable, layout::TABLE_ABSENT);
        let absent = self.band_imm(absent, layout::PLAIN_METATABLE as i64);
        let plain = self.icmp_imm(IntCC::Equal, absent, layout::PLAIN_METATABLE as i64);
        self.unless(plain, other);
        let gives = i.op() == Some(Op::TailCall) || i.c() == 2;
        let Some(table) = table else {
            self.set_metatable_of_unmade(name, metatable);
            if gives {
                self.share(a, first);
            }
            self.forget_but(at, gives.then_some(a));
            return true;
        };
        let own = self.load(Type::I64, table.val, layout::TABLE_METATABLE);
        let none = self.icmp_imm(IntCC::Equal, own, 0);
        self.unless(none, other);
        let flags = self.load(Type::I8, table.val, layout::OBJECT_FLAGS);
        let class = self.band_imm(flags, layout::IS_CLASS as i64);
        let plain = self.icmp_imm(IntCC::Equal, class, 0);
        self.unless(plain, other);
        self.store(metatable, table.val, layout::TABLE_METATABLE);
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Class(of, ..) if *of == name));
            // By whatever name it has had until now.
            now.forget_extensible();
        }
        self.forget_changed(at);
        if gives {
            self.define(a, table);
            self.is_copy(a, name);
            // The metatable has no `__newindex`, and the table is no class.
            self.keep(Fact::Extensible(name), Vec::new());
        }
        true
    }

    /// `SETSLOT`: a field of a table that a constructor makes.
    pub(super) fn set_slot(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        let Some(Cache::Own { shape, .. }) = self.site(at).cache else { return self.step(at) };
        if i.d() == NO_IC || !matches!(self.ty(a), Ty::Any | Ty::Table) {
            return self.step(at);
        }
        let slow = self.slow(at);
        let (name, table) = self.table_in(at, a, slow.block);
        let stored = self.stored_or_nil(i.c());
        let slots = self.slots(name, table, shape, slow.block);
        let what = self.b.iconst(Type::I64, layout::FIELD);
        self.is_writable((Some(name), table), what, &stored, slow.block);
        self.store_stored(&stored, slots, Self::slot(i.b() as usize));
        self.has_stored(name, (shape, i.b() as u32), &stored);
        self.join(at, slow, None);
    }

    /// The value that a store stores, nil included.
    pub(super) fn stored_or_nil(&mut self, x: u16) -> Stored {
        match self.stored(x) {
            Some(stored) => stored,
            None => {
                let payload = self.b.iconst(Type::I64, 0);
                let tag = self.b.iconst(Type::I8, Tag::NIL.0 as i64);
                Stored { payload, tag, known: Some(Tag::NIL) }
            }
        }
    }

    /// `SETLIST` of so many values, or of all up to the top.
    pub(super) fn set_list(&mut self, at: usize) {
        if self.list_in_line(at) {
            return;
        }
        let slow = self.aside();
        self.list_by_leaf(at, slow.block);
        self.join(at, slow, None);
    }

    /// The same by a leaf; where that does not do it, goes to `slow`.
    pub(super) fn list_by_leaf(&mut self, at: usize, slow: Block) {
        let i = self.code(at);
        let (a, count, start) = (i.a() as usize, i.b() as usize, i.bx());
        let is_open = count == 0;
        let past = if is_open { self.registers() } else { a + count + 1 };
        (a..past).for_each(|r| self.flush(r));
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let register = self.iadd_imm(base, Self::slot(a) as i64);
        let count_of = if is_open {
            let top = self.load(Type::I64, vm, layout::VM_TOP);
            let bytes = self.b.isub(top, register);
            let values = self.ushr_imm(bytes, layout::VALUE_SIZE.trailing_zeros() as i64);
            self.iadd_imm(values, -1)
        } else {
            self.b.iconst(Type::I64, count as i64)
        };
        let start_of = self.b.iconst(Type::I64, start as i64);
        self.ask(layout::set_list(), &[vm, register, count_of, start_of], slow);
        self.has_listed(at);
        // Few have been written into the table itself.
        if is_open || count > MOST_ELEMENTS as usize || start > 0 {
            self.collect_if_due(at, true);
        }
    }

    /// `SETLIST` has stored the elements: what is known of arrays may be over.
    pub(super) fn has_listed(&mut self, at: usize) {
        let fresh = self.has(Fact::Fresh(self.name_of(self.code(at).a() as usize)));
        if let Some(now) = &mut self.now {
            match fresh {
                true => now.facts.retain(|fact| !matches!(fact, Fact::Array(..))),
                false => now.forget_structure(at),
            }
        }
    }

    /// Calls a leaf of four arguments, which says that it has done it, else goes to `slow`.
    fn ask(&mut self, leaf: usize, arguments: &[Value; 4], slow: Block) {
        let done = self.leaf(leaf, arguments);
        let done = self.icmp_imm(IntCC::NotEqual, done, NOT_DONE as i64);
        self.if_done(done, slow);
    }

    /// `CLOSURE`. Variables that functions refer to are always in their slots.
    pub(super) fn make_closure(&mut self, at: usize) {
        let (i, proto) = (self.code(at), self.proto);
        let a = i.a() as usize;
        self.forget_above(at);
        let slow = self.aside();
        self.collect_if_due(at, false);
        let upvalues = &proto.protos[i.bx() as usize].upvalues;
        if let Some(maker) = layout::closure_maker(upvalues.len()) {
            assert!(self.frame == 0, "what makes functions is not built in place");
            self.begin_opening(at, upvalues);
            let closure = self.own_closure();
            let inst = self.load(Type::I64, closure, layout::CLOSURE_INST);
            let children = self.load(Type::I64, inst, layout::INST_CHILDREN);
            let some = self.icmp_imm(IntCC::NotEqual, children, 0);
            self.unless(some, slow.block);
            let inst = self.load(Type::I64, children, 8 * i.bx() as i32);
            let made = self.icmp_imm(IntCC::NotEqual, inst, 0);
            self.unless(made, slow.block);
            let mut arguments = vec![self.vm, inst];
            for upvalue in upvalues {
                arguments.push(match upvalue.in_stack {
                    true => self.opened(upvalue.index),
                    false => {
                        self.load(Type::I64, closure, layout::CLOSURE_UPVALUES + 8 * upvalue.index as i32)
                    }
                });
            }
            let closure = self.leaf(maker, &arguments);
            let tag = self.b.iconst(Type::I8, Tag::CLOSURE.0 as i64);
            self.put(a, tag, closure);
            return self.join(at, slow, Some((a, Ty::Any)));
        }
        let (vm, base) = (self.vm, self.own_base());
        let [register, number] = [a as i64, i.bx() as i64].map(|n| self.b.iconst(Type::I64, n));
        self.ask(layout::make_closure(), &[vm, base, register, number], slow.block);
        self.set_unknown(a);
        self.join(at, slow, Some((a, Ty::Any)));
    }

    /// Functions that are made one after the other share variables: the upvalue of one is looked for once, as long as
    /// there is only one way from there to here, and nothing on it ends a variable. Else all are looked for anew.
    fn begin_opening(&mut self, at: usize, upvalues: &[UpvalueDesc]) {
        let before = self.opened.0.replace(at);
        let code = &self.proto.code;
        let goes_straight = |from: usize| {
            let on = from < at && (from + 1..at).all(|n| is_plain(code[n]));
            on && (0..code.len()).all(|n| units::target(self.proto, n).is_none_or(|to| to <= from || to > at))
        };
        if !before.is_some_and(goes_straight) {
            self.opened.1.clear();
        }
        for upvalue in upvalues.iter().filter(|upvalue| upvalue.in_stack) {
            if !self.opened.1.contains_key(&upvalue.index) {
                let (variable, none) = (self.b.declare_var(Type::I64), self.b.iconst(Type::I64, 0));
                self.b.def_var(variable, none);
                self.opened.1.insert(upvalue.index, (variable, false));
            }
        }
    }

    /// The upvalue of the variable in this register.
    fn opened(&mut self, r: u8) -> Value {
        let (variable, is_known) = self.opened.1[&r];
        let vm = self.vm;
        let [find, done] = [(); 2].map(|()| self.b.create_block());
        if is_known {
            // The interpreter may have made the function before.
            let known = self.b.use_var(variable);
            self.b.brif(known, done, &[], find, &[]);
            self.b.set_cold_block(find);
            self.go_to(find);
        }
        let base = self.own_base();
        let slot = self.iadd_imm(base, Self::slot(r as usize) as i64);
        let found = self.leaf(layout::find_upvalue(), &[vm, slot]);
        self.b.def_var(variable, found);
        if is_known {
            self.b.jump(done, &[]);
            self.go_to(done);
        }
        self.opened.1.insert(r, (variable, true));
        self.b.use_var(variable)
    }

    /// `CONCAT` of a few strings and numbers. A collection comes after it: before, it would take the operands
    /// for something stale.
    pub(super) fn concatenate(&mut self, at: usize) {
        let i = self.code(at);
        let (a, count) = (i.a() as usize, i.b());
        let is_plain = self.site(at).result.only() == Some(Tag::STRING);
        if count > layout::MOST_CONCATENATED || !is_plain {
            return self.step_and_guard(at);
        }
        let slow = self.slow(at);
        (a..a + count as usize).for_each(|r| self.flush(r));
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let first = self.iadd_imm(base, Self::slot(a) as i64);
        let count = self.b.iconst(Type::I64, count as i64);
        let done = self.leaf(layout::concat(), &[vm, first, count]);
        let done = self.icmp_imm(IntCC::NotEqual, done, NOT_DONE as i64);
        self.if_done(done, slow.block);
        self.forget_above(at);
        (a..self.registers()).for_each(|r| self.set_unknown(r));
        self.collect_if_due(at, true);
        self.join(at, slow, Some((a, Ty::Any)));
    }

    /// Upvalues of variables from register `a` on are closed; if anything else may be, goes to `slow`.
    pub(super) fn close_upvalues(&mut self, at: usize, a: usize, slow: Block) {
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let level = self.iadd_imm(base, Self::slot(a) as i64);
        let done = self.leaf(layout::close(), &[vm, level]);
        let done = self.icmp_imm(IntCC::NotEqual, done, NOT_DONE as i64);
        self.if_done(done, slow);
        if let Some(now) = &mut self.now {
            now.forget_upvalues(at);
        }
    }
}

/// The instruction goes on with the next one, calls nothing that belongs to the program, and ends no variable.
fn is_plain(i: Instr) -> bool {
    use Op::*;
    matches!(
        i.op(),
        Some(
            Move | LoadI
                | LoadK
                | LoadNil
                | LoadTrue
                | LoadFalse
                | GetUpval
                | SetUpval
                | NewTable
                | SetSlot
                | Closure
        )
    )
}
