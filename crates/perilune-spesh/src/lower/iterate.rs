//! Generic loops over tables: `for ... in pairs(t)`, `ipairs(t)`, `next, t`; and with iterators of the
//! program, which are called.
//!
//! A `TFORCALL` that has met one of the two natives alone whose steps the interpreter does itself is done
//! here: through the array part by a few instructions, elsewhere by a leaf that writes the loop's registers
//! and nothing else ([`layout::iterate`]). So what is known of all others stays known in the loop's body, and
//! types of key and value are guarded where the body begins, like those of all registers there.
//!
//! # Where a traversal stands
//! `ipairs` has its number in the control variable. `next` has the key there, and a cursor beside it, which
//! is trusted only if it suits the key. In the array part the key is the position, and so is the cursor; an
//! integer key from elsewhere, 0 say, has another.
//!
//! # The first step
//! `TFORPREP` does the first step, too. So a `TFORCALL` is reached only from the end of the body, where types
//! are those that earlier steps have left, and the control variable stays in a register of the processor.
//!
//! What ends a loop over an array is seen at once if the table can have no such element elsewhere, and no
//! metatable; else the leaf looks. Whatever is neither is an exit, and in the next code the interpreter's.

use super::calls::{Arguments, Callee};
use super::{Known, Lowering, Name, Register, Slow, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_vm::machine::layout;
use perilune_vm::{ArrayKind, Kind, Native, Tag};

/// Registers of a loop, from its first: the native, the table, and these.
const TABLE: usize = 1;
const CONTROL: usize = 2;
const CURSOR: usize = 3;
const KEY: usize = 4;
const VALUE: usize = 5;

/// How a loop steps.
#[derive(Clone, Copy)]
struct Iteration {
    native: &'static Native,
    /// The kind of the array that it goes through; `None`: that is not known, or it goes elsewhere.
    array: Option<ArrayKind>,
}

impl Iteration {
    fn is_next(self) -> bool {
        self.native.kind == Kind::Next
    }
}

impl Lowering<'_, '_> {
    /// What the log has seen the `TFORCALL` at `call` step through.
    fn iteration(&self, call: usize) -> Option<Iteration> {
        let site = self.site(call);
        let native = site.native.filter(|_| !site.natives && site.calls == 0)?;
        let array = match native.kind {
            Kind::IpairsStep => self.array_kind(call),
            Kind::Next => self.array_kind(call).filter(|_| self.has_numbers_only(call)),
            _ => return None,
        };
        Some(Iteration { native, array: array.map(|(kind, _)| kind) })
    }

    /// All keys that the log has seen were integers.
    fn has_numbers_only(&self, call: usize) -> bool {
        let head = self.target(call + 1).and_then(|head| self.log.head(head));
        let key = self.code(call).a() as usize + KEY;
        head.is_some_and(|tags| tags[key].only() == Some(Tag::INT))
    }

    /// `TFORPREP`.
    pub(super) fn generic_prep(&mut self, at: usize) {
        let a = self.code(at).a() as usize;
        let call = self.target(at).expect("a verified jump");
        let iteration = self.iteration(call).filter(|_| self.contains(call));
        let closing = a + CURSOR;
        if self.ty(closing) != Ty::Any {
            return self.step_and_jump(at);
        }
        let slow = if iteration.is_some() { self.slow(at) } else { self.aside() };
        self.b.set_cold_block(slow.block);
        let base = self.b.use_var(self.base);
        let tag = self.load(Type::I8, base, Self::slot(closing) + layout::TAG);
        let none = self.icmp_imm(IntCC::Equal, tag, Tag::NIL.0 as i64);
        self.unless(none, slow.block);
        let zero = self.b.iconst(Type::I64, 0);
        let cursor = self.b.iconst(Type::I8, layout::CURSOR.0 as i64);
        self.put(closing, cursor, zero);
        match iteration {
            Some(iteration) => self.first_step(call, iteration),
            None => self.edge(call),
        }
        if let Some(before) = slow.before {
            self.go_to(slow.block);
            self.now = Some(before);
            self.quietly(|lowering| lowering.step_and_jump(at));
        }
    }

    /// The first step of the loop whose `TFORCALL` is at `call`, which begins here.
    fn first_step(&mut self, call: usize, iteration: Iteration) {
        let slow = self.slow(call);
        self.iterate(call, iteration, true, slow.block);
        if let Some(before) = slow.before {
            self.b.set_cold_block(slow.block);
            self.go_to(slow.block);
            self.now = Some(before);
            self.edge(call);
        }
    }

    /// `TFORCALL`: its quick ways do the `TFORLOOP` behind it, too. What follows is that, after a call.
    pub(super) fn generic_for(&mut self, at: usize) {
        let Some(iteration) = self.iteration(at) else {
            return match self.site(at).calls {
                0 => self.step_generic_for(at),
                _ => self.call_iterator(at),
            };
        };
        let slow = if self.entering { self.aside() } else { self.slow(at) };
        self.iterate(at, iteration, false, slow.block);
        if let Slow { block, before: Some(before), .. } = slow {
            self.b.set_cold_block(block);
            self.go_to(block);
            self.now = Some(before);
            self.quietly(|lowering| lowering.step_generic_for(at));
        }
    }

    /// `TFORCALL` of a function of Lua: a call like others, of a copy of the iterator and its arguments;
    /// others the interpreter calls.
    fn call_iterator(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        self.flush_all();
        let slow = self.aside();
        self.b.set_cold_block(slow.block);
        let (inst, proto) = self.called_instance(at, slow.block);
        let run = self.machine_code_in(inst, slow.block);
        let base = self.b.use_var(self.base);
        let function = a + KEY;
        let window = function + layout::GAP as usize;
        for (from, to) in [(a, function), (a + TABLE, window), (a + CONTROL, window + 1)] {
            let payload = self.load(Type::I64, base, Self::slot(from) + layout::PAYLOAD);
            let tag = self.load(Type::I8, base, Self::slot(from) + layout::TAG);
            self.store(payload, base, Self::slot(to) + layout::PAYLOAD);
            self.store(tag, base, Self::slot(to) + layout::TAG);
        }
        let frame = self.iadd_imm(base, Self::slot(window) as i64);
        let words = (layout::call_word(function as u8, i.b() as i16), layout::PLAIN_SECOND_WORD);
        let callee = Callee { frame, window, inst, run, proto };
        // Leaving here would not do: this is where the loop is entered.
        self.has_room_or(&callee, slow.block);
        self.call_checked(at, callee, Arguments::Count(2), words);
        self.forget(at);
        self.join_with(at, slow, |this| this.quietly(|this| this.step_generic_for(at)));
    }

    /// What the interpreter does meanwhile is out of the ordinary.
    fn quietly(&mut self, lower: impl FnOnce(&mut Self)) {
        let stepped = self.stepped;
        lower(self);
        self.stepped = stepped;
    }

    /// A step of a loop, the first one or another: goes to the body, or past the loop, or to `slow`.
    fn iterate(&mut self, call: usize, iteration: Iteration, first: bool, slow: Block) {
        let i = self.code(call);
        let a = i.a() as usize;
        self.is_native(a, iteration.native, slow);
        if self.ty(a + TABLE) == Ty::Any {
            let table = self.expect(a + TABLE, Ty::Table, slow);
            self.found(a + TABLE, table);
        }
        let Some(table) = self.known(a + TABLE).filter(|t| t.ty == Ty::Table) else {
            self.b.jump(slow, &[]);
            return self.now = None;
        };
        if iteration.is_next() && !first {
            let base = self.b.use_var(self.base);
            let tag = self.load(Type::I8, base, Self::slot(a + CURSOR) + layout::TAG);
            let is = self.icmp_imm(IntCC::Equal, tag, layout::CURSOR.0 as i64);
            self.unless(is, slow);
        }
        let help = self.b.create_block();
        let before = self.now.clone();
        match iteration.array {
            Some(kind) => self.step_array(call, (iteration, kind), table.val, first, help),
            None => self.b.jump(help, &[]),
        }
        if iteration.array.is_some() {
            self.b.set_cold_block(help);
        }
        self.go_to(help);
        self.now = before;
        self.helped_step(call, (first, iteration.array.is_some()), slow);
    }

    /// A step by the leaf.
    fn helped_step(&mut self, call: usize, (first, rare): (bool, bool), slow: Block) {
        let i = self.code(call);
        let (a, head, past) = (i.a() as usize, self.target(call + 1).expect("a verified jump"), call + 2);
        [a + TABLE, a + CONTROL].into_iter().for_each(|r| self.flush(r));
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let loop_at = self.iadd_imm(base, Self::slot(a) as i64);
        let count = self.b.iconst(Type::I64, i.b() as i64);
        let answer = self.leaf(layout::iterate(), &[vm, loop_at, count]);
        self.forget_registers(call);
        let [item, other, end] = [(); 3].map(|()| self.b.create_block());
        let is = self.icmp_imm(IntCC::Equal, answer, layout::ITEM as i64);
        self.b.brif(is, item, &[], other, &[]);
        self.go_to(other);
        let is = self.icmp_imm(IntCC::Equal, answer, layout::END as i64);
        self.b.brif(is, end, &[], slow, &[]);
        let known = self.now.clone();
        self.go_to(item);
        // Where this is out of the ordinary, what the other way finds out about the table is what is hoisted.
        let outer = self.entering;
        self.entering |= rare;
        self.come_round(head, first);
        self.entering = outer;
        self.go_to(end);
        self.now = known;
        self.edge(past);
    }

    /// A step through the array part; goes to `help` wherever it does not do.
    fn step_array(
        &mut self,
        call: usize,
        (iteration, kind): (Iteration, ArrayKind),
        table: Value,
        first: bool,
        help: Block,
    ) {
        let i = self.code(call);
        let (a, head) = (i.a() as usize, self.target(call + 1).expect("a verified jump"));
        let wanted = self.fixed.get(&head).map_or(Ty::Any, |known| known[a + VALUE].ty);
        // Numbers of both kinds are what the way to the head makes of them.
        let wanted = if wanted == Ty::Number { Ty::Any } else { wanted };
        let Some(index) = self.visited(a + CONTROL, iteration.is_next() && first, help) else {
            self.b.jump(help, &[]);
            return self.now = None;
        };
        if iteration.is_next() && !first {
            let base = self.b.use_var(self.base);
            let position = self.load(Type::I64, base, Self::slot(a + CURSOR) + layout::PAYLOAD);
            let same = self.b.icmp(IntCC::Equal, position, index);
            self.unless(same, help);
        }
        let name = self.name_of(a + TABLE);
        let [array, length] = self.array(name, table, kind.into(), help);
        let [on, beyond] = [(); 2].map(|()| self.b.create_block());
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
        self.b.brif(within, on, &[], beyond, &[]);
        // The end.
        let known = self.now.clone();
        self.go_to(beyond);
        if iteration.is_next() {
            self.b.jump(help, &[]);
        } else {
            self.ends_there(table, help);
            self.forget_registers(call);
            self.edge(call + 2);
        }
        // An element.
        self.go_to(on);
        self.now = known;
        let address = self.place_of(array, index, kind);
        let value = match (kind, wanted) {
            (ArrayKind::General, Ty::Any) => {
                let tag = self.load(Type::I8, address, layout::TAG);
                let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
                self.unless(there, help);
                Err((tag, self.load(Type::I64, address, layout::PAYLOAD)))
            }
            (ArrayKind::General, ty) => Ok(self.expect_at(address, 0, ty, help)),
            (ArrayKind::Bool, _) => Err(self.boolean_at(address)),
            (ArrayKind::Int | ArrayKind::Float, _) => {
                let ty = Self::type_of_elements(kind);
                let class = if ty == Ty::Float { Type::F64 } else { Type::I64 };
                Ok(Known { ty, val: self.load(class, address, 0) })
            }
        };
        self.forget_registers(call);
        let key = Known { ty: Ty::Int, val: self.iadd_imm(index, 1) };
        self.define(a + CONTROL, key);
        self.define(a + KEY, key);
        if iteration.is_next() {
            let base = self.b.use_var(self.base);
            self.store(key.val, base, Self::slot(a + CURSOR) + layout::PAYLOAD);
        }
        if i.b() >= 2 {
            match value {
                Ok(known) => self.define(a + VALUE, known),
                Err((tag, payload)) => self.put(a + VALUE, tag, payload),
            }
        }
        for r in 2..i.b() as usize {
            self.define_plain(a + KEY + r, Tag::NIL);
        }
        self.come_round(head, first);
    }

    /// How many elements have been visited, as the control variable says; `start`: it is nil if none has
    /// been. Else goes to `help`. `None`: always.
    fn visited(&mut self, control: usize, start: bool, help: Block) -> Option<Value> {
        match self.known(control) {
            Some(known) => return (known.ty == Ty::Int && !start).then_some(known.val),
            None if !start => return Some(self.expect(control, Ty::Int, help).val),
            None => {}
        }
        let base = self.b.use_var(self.base);
        let tag = self.load(Type::I8, base, Self::slot(control) + layout::TAG);
        let nil = self.icmp_imm(IntCC::Equal, tag, Tag::NIL.0 as i64);
        self.unless(nil, help);
        Some(self.b.iconst(Type::I64, 0))
    }

    /// A table has no elements but those whose number is below its length, nor may a metatable say otherwise;
    /// else goes to `help`.
    fn ends_there(&mut self, table: Value, help: Block) {
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        let none = self.icmp_imm(IntCC::Equal, metatable, 0);
        self.unless(none, help);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let elsewhere = self.band_imm(flags, layout::BORDER_UNKNOWN as i64);
        let none = self.icmp_imm(IntCC::Equal, elsewhere, 0);
        self.unless(none, help);
    }

    /// On to the body.
    fn come_round(&mut self, head: usize, first: bool) {
        if !first {
            self.poll(head);
        }
        self.edge(head);
    }

    /// A step has been made: the loop's registers have other values, and nothing is known of those above. All
    /// else is as it was.
    fn forget_registers(&mut self, call: usize) {
        let [i, next] = [call, call + 1].map(|at| self.code(at));
        let Some(now) = &mut self.now else { return };
        for r in 0..now.registers.len() {
            if i.changes(r as u8) || next.changes(r as u8) {
                now.registers[r] = Register::UNKNOWN;
                now.renew(r, Name::made(call, r));
            }
        }
    }

    /// `CLOSE`, where there is nothing to close, or nothing but upvalues.
    pub(super) fn close(&mut self, at: usize) {
        let a = self.code(at).a() as usize;
        let slow = self.aside();
        self.close_from(at, a, slow.block);
        self.join(at, slow, None);
    }

    /// The variables from register `a` on end. Where one is to be closed, or it cannot be done here, goes to
    /// `slow`, with nothing done.
    pub(super) fn close_from(&mut self, at: usize, a: usize, slow: Block) {
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let thread = self.load(Type::I64, vm, layout::VM_THREAD);
        let marked = self.load(Type::I32, thread, layout::THREAD_TO_BE_CLOSED);
        let none = self.icmp_imm(IntCC::Equal, marked, 0);
        self.unless(none, slow);
        let variable = self.load(Type::I64, thread, layout::THREAD_OPEN_UPVALUES);
        let [look, on] = [(); 2].map(|()| self.b.create_block());
        let some = self.aside();
        self.b.brif(variable, look, &[], on, &[]);
        self.go_to(look);
        let own = self.load(Type::I64, variable, layout::UPVALUE_VALUE);
        let level = self.iadd_imm(base, Self::slot(a) as i64);
        let below = self.b.icmp(IntCC::UnsignedLessThan, own, level);
        self.b.brif(below, on, &[], some.block, &[]);
        self.go_to(on);
        self.join_with(at, some, |this| this.close_upvalues(at, a, slow));
    }

    /// `CALL` of `ipairs`, or of `pairs` with a table without `__pairs`, for a loop: the values that it needs.
    /// Whether it is one.
    pub(super) fn prepare_iteration(&mut self, at: usize, step: &'static Native, start: Option<i64>) -> bool {
        let i = self.code(at);
        let (a, argument) = (i.a() as usize, i.a() as usize + layout::GAP as usize);
        let table = self.known(argument).filter(|t| t.ty == Ty::Table);
        if i.b() != 2 || !matches!(i.c(), 4 | 5) || (start.is_none() && table.is_none()) {
            return false;
        }
        let native = self.site(at).native.expect("the caller has asked");
        let slow = self.slow(at);
        self.is_native(a, native, slow.block);
        if let (None, Some(table)) = (start, table) {
            self.lacks_metamethod(table.val, layout::NO_PAIRS, slow.block);
        }
        let name = self.name_of(argument);
        if let Some(now) = &mut self.now {
            for r in (a..now.registers.len()).filter(|r| i.changes(*r as u8)) {
                now.registers[r] = Register::UNKNOWN;
                now.renew(r, Name::made(at, r));
            }
        }
        self.put_native(a, step);
        match table {
            Some(table) => self.define(a + TABLE, table),
            None => self.copy_slot(a + TABLE, argument),
        }
        if !self.captured.contains(argument as u8) {
            self.is_copy(a + TABLE, name);
        }
        match start {
            Some(n) => {
                let val = self.b.iconst(Type::I64, n);
                self.define(a + CONTROL, Known { ty: Ty::Int, val });
            }
            None => self.define_plain(a + CONTROL, Tag::NIL),
        }
        if i.c() == 5 {
            self.define_plain(a + CURSOR, Tag::NIL);
        }
        if !slow.exits {
            // Nothing is known of it on the slow way.
            self.flush(a + CONTROL);
        }
        self.join(at, slow, None);
        true
    }
}
