//! Calls of tables whose metatables have `__call`, a function of Lua.
//!
//! The interpreter puts the function where the table was, and the table before the arguments; from then on it
//! is a call like any other, with one argument more. Machine code does the same. It finds the function as
//! those of operators (`metamethods.rs`), by the shape of the metatable or by a leaf, and asks all that may
//! lead out before anything is moved: the interpreter would begin the call anew.

use super::calls::{Arguments, Callee, RESULTS};
use super::inline::{Inlined, needs};
use super::{EXITED, Lowering, Ty, Val};
use crate::ssa::{Block, IntCC, Type};
use perilune_vm::Tag;
use perilune_vm::machine::{Log, Site, layout};

/// Whether tables have been called there.
pub(super) fn calls_tables(site: &Site) -> bool {
    site.objects.contains(Tag::TABLE)
}

impl<'a> Lowering<'a, '_> {
    /// Whether instruction `at`, a call, has called tables alone, by functions of Lua, with arguments whose
    /// number is known.
    fn calls_only_tables(&self, at: usize) -> bool {
        let (i, site) = (self.code(at), self.site(at));
        let is_table = matches!(self.ty(i.a() as usize), Ty::Any | Ty::Table | Ty::Unmade);
        let end = self.own_window(i.a() as usize) + i.b() as usize;
        site.objects.is_all_of(&[Tag::TABLE])
            && site.callee != 0
            && site.native.is_none()
            && is_table
            && i.b() != 0
            && end <= self.room
    }

    /// `CALL`, if it has called tables alone; whether it has been lowered.
    pub(super) fn call_table(&mut self, at: usize) -> bool {
        if !self.calls_only_tables(at) {
            return false;
        }
        if let Some(log) = self.table_to_inline(at) {
            self.inline_call_of_table(at, log);
            return true;
        }
        let i = self.code(at);
        let (a, count) = (i.a() as usize, i.b() as i32);
        let window = self.own_window(a);
        self.flush_all();
        let slow = self.aside();
        let closure = self.function_of_table(at, slow.block);
        let (inst, run) = self.machine_code_of(closure, slow.block);
        let base = self.b.use_var(self.base);
        let frame = self.iadd_imm(base, Self::slot(window) as i64);
        let callee = Callee { frame, window, inst, run, proto: None };
        self.has_room(at, &callee);
        self.poll(at);
        self.put_before_arguments(at, closure);
        self.flush_all();
        let words = (self.call_word(at), layout::PLAIN_SECOND_WORD);
        self.call_checked(at, callee, Arguments::Count(count), words);
        self.forget(at);
        self.guard_result(at);
        self.join(at, slow, Some((a, self.ty(a))));
        true
    }

    /// The log of the function that the call of tables at `at` has always come to, if that is to be built in
    /// place.
    fn table_to_inline(&self, at: usize) -> Option<&'a Log> {
        let i = self.code(at);
        if self.is_suspect(at) {
            return None;
        }
        let log = self.always_called(at, self.own_window(i.a() as usize), i.b() as usize)?;
        self.gives_enough(at, log).then_some(log)
    }

    fn inline_call_of_table(&mut self, at: usize, log: &'a Log) {
        let i = self.code(at);
        let (a, arguments) = (i.a() as usize, i.b() as usize);
        let window = self.own_window(a);
        let other = self.exit_block(at, EXITED);
        let closure = self.function_of_table(at, other);
        let inst = self.instance_to_build((at, closure), log, window + needs(log, arguments), other);
        self.put_before_arguments(at, closure);
        self.build_here(at, Inlined { log, inst, window, arguments, ends: None, pcall: None, tails: 0 });
        self.come_back_from_built(at);
    }

    /// `TAILCALL` of the compiled function, if it has called tables alone: the callee takes this frame's
    /// place. Whether it has been lowered.
    pub(super) fn tail_call_table(&mut self, at: usize) -> bool {
        if !self.calls_only_tables(at) {
            return false;
        }
        let i = self.code(at);
        let (a, count) = (i.a() as usize, i.b() as i32);
        self.flush_all();
        let other = self.aside();
        let closure = self.function_of_table(at, other.block);
        let (inst, run) = self.machine_code_of(closure, other.block);
        let base = self.b.use_var(self.base);
        let callee = Callee { frame: base, window: 0, inst, run, proto: None };
        self.has_room(at, &callee);
        self.poll(at);
        self.store(closure, base, RESULTS + layout::PAYLOAD);
        self.give(a, base, 0, 1);
        self.give(self.own_window(a), base, layout::VALUE_SIZE, count - 1);
        self.take_place(&callee, Arguments::Count(count));
        self.go_to(other.block);
        self.now = other.before;
        self.finish(at);
        true
    }

    /// The function that a call of the table in register `a` of instruction `at` comes to, else goes to
    /// `other`.
    fn function_of_table(&mut self, at: usize, other: Block) -> Val {
        let r = self.code(at).a() as usize;
        let place = self.log.operator(at - self.own().first).map(|place| (place.metatable, place.slot));
        if let Some((metatable, place)) = self.metatable_of_unmade(r).zip(place) {
            return self.in_metatable(metatable, place, other);
        }
        let table = match self.known(r) {
            Some(known) => known.val,
            None => self.expect(r, Ty::Table, other).val,
        };
        let by_shape = place.map(|place| {
            let miss = self.cold_block(0);
            self.found_in_metatable(table, place, miss)
        });
        let vm = self.vm;
        let closure = self.leaf(layout::call_function(), &[vm, table]);
        let there = self.icmp_imm(IntCC::NotEqual, closure, 0);
        self.unless(there, other);
        self.found_either(by_shape, closure)
    }

    /// The function is where the table was, in register `a` of instruction `at`, and that is the first
    /// argument.
    fn put_before_arguments(&mut self, at: usize, closure: Val) {
        let i = self.code(at);
        let (a, count) = (i.a() as usize, i.b() as usize);
        let window = self.own_window(a);
        (1..count).rev().for_each(|n| self.pass_register(window + n, window + n - 1));
        self.pass_register(window, a);
        let tag = self.b.iconst(Type::I8, Tag::CLOSURE.0 as i64);
        self.put(a, tag, closure);
    }
}
