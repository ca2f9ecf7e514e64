//! Calls and returns.

use super::callable::calls_tables;
use super::facts::Fact;
use super::inline::tail_native;
use super::{Lowering, Register, Ty, Val};
use crate::ssa::{Block, IntCC, Type};
use perilune_syntax::{Op, Proto};
use perilune_vm::Tag;
use perilune_vm::machine::{CODES, EXITED, Ends, LEAVE, Log, MachineCode, RETURNED, UNUSUAL, layout};
use perilune_vm::{Effect, Intrinsic, Native, Quick};

/// From a frame's base to its function, where results go.
pub(super) const RESULTS: i32 = -layout::GAP * layout::VALUE_SIZE;

/// Machine code that is called.
pub(super) struct Callee<'p> {
    /// The address of its frame.
    pub frame: Val,
    /// Which register of the compiled function is its first one.
    pub window: usize,
    /// Its instance, and what to call for it.
    pub inst: Val,
    /// See `inst`.
    pub run: Val,
    /// The function, if it is known for sure.
    pub proto: Option<&'p Proto>,
}

/// Arguments, which are in the callee's registers.
#[derive(Clone, Copy)]
pub(super) enum Arguments {
    /// So many.
    Count(i32),
    /// Up to this address.
    To(Val),
}

impl<'a> Lowering<'a, '_> {
    /// `CALL`: of functions of Lua, if the log has seen any; all others the interpreter calls.
    pub(super) fn call(&mut self, at: usize) {
        if self.site(at).calls == 0 {
            return self.call_native(at);
        }
        if self.call_table(at) || self.inline(at) || self.protect(at) {
            return;
        }
        let i = self.code(at);
        let a = i.a() as usize;
        self.flush_all();
        let slow = self.aside();
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let (inst, proto) = self.called_instance(at, slow.block);
        let run = self.machine_code_in(inst, slow.block);
        let window = a + layout::GAP as usize;
        let frame = self.iadd_imm(base, Self::slot(window) as i64);
        let arguments = match i.b() {
            0 => Arguments::To(self.load(Type::I64, vm, layout::VM_TOP)),
            b => Arguments::Count(b as i32 - 1),
        };
        let words = (self.call_word(at), layout::PLAIN_SECOND_WORD);
        let callee = Callee { frame, window, inst, run, proto };
        self.call_there(at, callee, arguments, words);
        self.forget(at);
        self.guard_result(at);
        let r = i.a() as usize;
        if self.has_given_one(at) {
            self.one_result_there(at);
            return self.join_one(at, slow, (r, self.ty(r)));
        }
        self.join(at, slow, Some((r, self.ty(r))));
    }

    /// Whether instruction `at` is a call for all results that has always given one: whatever takes them is as
    /// one with so many operands, then. Not a tail call of the compiled function: that passes on what there is,
    /// and is quicker by that (`tak` took 1.2x, as a loop and as a call).
    pub(super) fn has_given_one(&self, at: usize) -> bool {
        let (i, site) = (self.raw(at), self.site(at));
        let is_open = i.op() == Some(Op::Call) && i.c() == 0;
        let is_passed_on = || self.frame == 0 && self.raw(at + 1).op() == Some(Op::TailCall);
        is_open && site.runs > 0 && !site.gives_others && !is_passed_on() && !self.is_suspect(at + 1)
    }

    /// The instance of the function of Lua that instruction `at` calls, and that function if it is known for
    /// sure; else goes to `other`.
    pub(super) fn called_instance(&mut self, at: usize, other: Block) -> (Val, Option<&'a Proto>) {
        let a = self.code(at).a() as usize;
        let Some(log) = self.known_callee(at) else {
            let closure = self.closure_in(a, other);
            return (self.load(Type::I64, closure, layout::CLOSURE_INST), None);
        };
        let exit = self.exit_block(at, EXITED);
        (self.function_in(a, log, exit).1, Some(log.proto()))
    }

    /// What to call for an instance, else goes to `none`: it has no machine code.
    pub(super) fn machine_code_in(&mut self, inst: Val, none: Block) -> Val {
        let run = self.load(Type::I64, inst, layout::INST_NATIVE);
        let there = self.icmp_imm(IntCC::NotEqual, run, 0);
        self.unless(there, none);
        run
    }

    /// The instance of a function, and what to call for it, else goes to `none`.
    pub(super) fn machine_code_of(&mut self, closure: Val, none: Block) -> (Val, Val) {
        let inst = self.load(Type::I64, closure, layout::CLOSURE_INST);
        (inst, self.machine_code_in(inst, none))
    }

    /// What the one function has met that instruction `at`, a call, has always called.
    fn known_callee(&self, at: usize) -> Option<&'a Log> {
        let site = self.site(at);
        let is_one = !site.callees && site.native.is_none() && !self.is_suspect(at);
        self.task.callees.get(&site.callee).filter(|_| is_one).map(|log| &**log)
    }

    /// Calls machine code with a record of these words. The frame's base is known again when it has come
    /// back.
    pub(super) fn call_there(
        &mut self,
        at: usize,
        callee: Callee<'_>,
        arguments: Arguments,
        words: (u64, u64),
    ) {
        self.has_room(at, &callee);
        self.poll(at);
        self.call_checked(at, callee, arguments, words);
    }

    /// The same where there is room, and nobody wants to interrupt.
    pub(super) fn call_checked(
        &mut self,
        at: usize,
        callee: Callee<'_>,
        arguments: Arguments,
        words: (u64, u64),
    ) {
        let vm = self.vm;
        self.pad(&callee, arguments);
        let Callee { frame, window, inst, run, .. } = callee;
        // The record.
        self.write_records();
        if words.1 != layout::PLAIN_SECOND_WORD {
            // The callee asks, and would wait for half of it.
            self.forget_fact(Fact::Position(self.frame));
        }
        self.write_position(self.frame, at + 1);
        let constants = self.load(Type::I64, inst, layout::INST_CONSTANTS);
        self.store_record(frame, 0, words, constants);
        let start = self.b.iconst(Type::I32, MachineCode::START as i64);
        let call = self.b.call_indirect(self.run, run, &[vm, frame, inst, start]);
        let [answer] = self.b.inst_results(call);
        self.take_base(answer, window);
        self.reload();
    }

    /// What machine code answers that was called for the frame on this window: the base is known again, or
    /// the code is left.
    fn take_base(&mut self, answer: Val, window: usize) {
        let done = self.b.create_block();
        let frame = self.b.append_block_param(done, Type::I64);
        let bits = self.band_imm(answer, UNUSUAL as i64);
        let is_base = self.icmp_imm(IntCC::Equal, bits, 0);
        let unusual = self.cold_block(0);
        self.b.brif(is_base, done, &[answer], unusual, &[]);
        self.go_to(unusual);
        // All that called a coroutine's function come here when it yields. A tail call of the callee that the
        // interpreter has done is followed.
        let vm = self.vm;
        let followed = self.common(layout::follow(), &[vm, answer]);
        let is_base = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, followed, CODES as i64);
        self.or_leave_with(is_base, (done, &[followed]), followed);
        self.go_to(done);
        // The stack may be somewhere else.
        let base = self.iadd_imm(frame, -Self::slot(window) as i64);
        self.b.def_var(self.base, base);
    }

    /// What is known of registers is in their slots, which a call leaves as they are: it is loaded again, where
    /// it is needed, and need not be kept meanwhile.
    fn reload(&mut self) {
        let base = self.b.use_var(self.base);
        for r in 0..self.registers() {
            let Some(Register { ty, dirty: false, .. }) = self.register(r) else { continue };
            if matches!(ty, Ty::Any | Ty::Number | Ty::Unmade) {
                continue;
            }
            let (class, variable) = match ty {
                Ty::Float => (Type::F64, self.floats[r]),
                _ => (Type::I64, self.ints[r]),
            };
            let val = self.load(class, base, Self::slot(r) + layout::PAYLOAD);
            self.b.def_var(variable, val);
        }
    }

    /// `TAILCALL`: a function that has machine code takes this frame's place, on the native stack as well: a
    /// jump. Whoever has called this one gets its answer. Natives are called as usual.
    pub(super) fn tail_call(&mut self, at: usize) {
        let inside = at - self.frames[self.frame as usize].first;
        // What `set_metatable` has failed at the quick form may do.
        let may = |native: &Native| {
            !self.is_suspect(at) || matches!(native.intrinsic, Some(Intrinsic::SetMetatable))
        };
        let native = tail_native(self.log, inside, self.frame != 0).filter(|(native, _)| may(native));
        match native {
            Some((native, quick)) if quick.is_some() || self.may_give(at, native) => {
                return self.give_back_native(at, native, quick);
            }
            // It will fail.
            Some(_) if self.frame != 0 => return self.exit(at, EXITED),
            _ => {}
        }
        if self.frame != 0 {
            return self.inlined_tail_call(at);
        }
        let i = self.code(at);
        let a = i.a() as usize;
        if i.d() != 0 || self.proto.is_vararg {
            self.stepped = i.d() != 0;
            return self.finish(at);
        }
        if self.begin_again(at) || self.tail_call_table(at) {
            return;
        }
        if i.b() == 0 {
            // The arguments that are not the last call's results.
            self.flush_all();
        }
        let other = self.aside();
        let base = self.b.use_var(self.base);
        // Another one is interpreted: that is no reason to make this code anew.
        let none = self.exit_block(at, LEAVE);
        let (closure, inst, proto) = match self.known_callee(at) {
            Some(log) => {
                let exit = self.exit_block(at, EXITED);
                let (closure, inst) = self.function_in(a, log, exit);
                (closure, inst, Some(log.proto()))
            }
            None => {
                let closure = self.closure_in(a, other.block);
                (closure, self.load(Type::I64, closure, layout::CLOSURE_INST), None)
            }
        };
        let run = self.machine_code_in(inst, none);
        let callee = Callee { frame: base, window: 0, inst, run, proto: proto.map(|proto| &**proto) };
        // Its native frame takes this one's place, and so does its own, if it is no larger.
        if proto.is_none_or(|proto| proto.max_stack > self.proto.max_stack) {
            self.try_leaving(none);
            self.has_registers_for(&callee, none);
        }
        self.poll(at);
        self.store(closure, base, RESULTS + layout::PAYLOAD);
        let arguments = match i.b() {
            0 => Arguments::To(self.move_to_top(a + layout::GAP as usize)),
            b => {
                let count = b as i32 - 1;
                self.give(a + layout::GAP as usize, base, 0, count);
                Arguments::Count(count)
            }
        };
        self.take_place(&callee, arguments);
        self.go_to(other.block);
        self.now = other.before;
        self.finish(at);
    }

    /// The callee, with its function and arguments where this one had them, takes the compiled function's
    /// place.
    pub(super) fn take_place(&mut self, callee: &Callee<'_>, arguments: Arguments) {
        let base = callee.frame;
        self.pad(callee, arguments);
        self.mark_replaced(base);
        let constants = self.load(Type::I64, callee.inst, layout::INST_CONSTANTS);
        self.store(constants, base, layout::FRAME_CONSTANTS);
        let vm = self.vm;
        let start = self.b.iconst(Type::I32, MachineCode::START as i64);
        self.b.return_call_indirect(self.run, callee.run, &[vm, base, callee.inst, start]);
    }

    /// The function of the frame has replaced another one. Returns read the word whole, and would wait for
    /// part of it.
    fn mark_replaced(&mut self, base: Val) {
        let word = self.load(Type::I64, base, layout::FRAME_CALL);
        let word = self.bor_imm(word, layout::TAIL_CALL as i64);
        self.store(word, base, layout::FRAME_CALL);
    }

    /// `TAILCALL` of the function itself, if it has always been that: a jump to its start; whether it has
    /// been built.
    fn begin_again(&mut self, at: usize) -> bool {
        let (i, site) = (self.code(at), self.site(at));
        let is_own = site.callee == self.log.function() && !site.callees && site.native.is_none();
        // What is known of parameters has to be known where the code jumps to.
        if !is_own || calls_tables(site) || i.b() == 0 || self.is_suspect(at) || !self.heads.contains(&0) {
            return false;
        }
        let (a, count) = (i.a() as usize, i.b() as usize - 1);
        let other = self.exit_block(at, EXITED);
        let closure = self.closure_in(a, other);
        let base = self.b.use_var(self.base);
        let own = self.load(Type::I64, base, layout::FRAME_FUNCTION + layout::PAYLOAD);
        let same = self.b.icmp(IntCC::Equal, closure, own);
        self.unless(same, other);
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        self.poll(at);
        self.mark_replaced(base);
        // Arguments lie above all variables: none is overwritten before it is taken.
        let parameters = self.proto.num_params as usize;
        for n in 0..parameters {
            match n < count {
                true => self.pass_register(n, a + layout::GAP as usize + n),
                false => self.define_plain(n, Tag::NIL),
            }
        }
        self.edge(0);
        true
    }

    /// `TAILCALL` of a native by its quick form: gives back what that gives. What has been done is not done
    /// again, so it is asked before whether the return is a plain one.
    fn give_back_native(&mut self, at: usize, native: &'static Native, quick: Option<Quick>) {
        let a = self.code(at).a() as usize;
        if self.frame != 0 {
            let slow = self.exit_block(at, EXITED);
            self.give_to(at, a, native, quick, slow);
            return self.give_inlined(at, a, 1);
        }
        let slow = self.aside();
        self.b.set_cold_block(slow.block);
        let base = self.b.use_var(self.base);
        let to = self.b.create_block();
        self.b.append_block_param(to, Type::I64);
        let flags = self.load(Type::I8, base, layout::FRAME_FLAGS);
        let unusual = self.band_imm(flags, layout::SLOW_RETURN as i64);
        let plain = self.icmp_imm(IntCC::Equal, unusual, 0);
        let place = self.iadd_imm(base, RESULTS as i64);
        if self.log.calls_as_metamethod() > 0 {
            let other = self.cold_block(0);
            self.b.brif(plain, to, &[place], other, &[]);
            self.go_to(other);
            let word = self.load(Type::I32, base, layout::FRAME_CALL);
            let word = self.band_imm(word, layout::RETURN_MASK as i32 as i64);
            let is = self.icmp_imm(IntCC::Equal, word, layout::METAMETHOD_RETURN_WORD as i32 as i64);
            self.unless(is, slow.block);
            let kind = self.load(Type::I16, base, layout::FRAME_TAG1);
            let is = self.icmp_imm(IntCC::Equal, kind, layout::STORES_RESULT as i64);
            self.unless(is, slow.block);
            let place = self.result_of_caller();
            self.b.jump(to, &[place]);
        } else {
            self.unless(plain, slow.block);
            self.b.jump(to, &[place]);
        }
        self.go_to(to);
        let to = self.b.block_params(to)[0];
        // One, none, or all.
        let wanted = self.load(Type::I16, base, layout::FRAME_RESULTS);
        let few = self.icmp_imm(IntCC::SignedLessThanOrEqual, wanted, 1);
        self.unless(few, slow.block);
        self.give_to(at, a, native, quick, slow.block);
        let [none, some, all, done] = [(); 4].map(|()| self.b.create_block());
        self.b.set_cold_block(none);
        self.b.set_cold_block(all);
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        self.b.brif(wanted, some, &[], none, &[]);
        self.go_to(some);
        self.give(a, to, 0, 1);
        let open = self.icmp_imm(IntCC::SignedLessThan, wanted, 0);
        self.b.brif(open, all, &[], done, &[]);
        self.go_to(all);
        let top = self.iadd_imm(base, (RESULTS + layout::VALUE_SIZE) as i64);
        self.store(top, vm, layout::VM_TOP);
        self.b.jump(done, &[]);
        self.go_to(none);
        self.b.jump(done, &[]);
        self.go_to(done);
        self.b.return_(&[base]);
        self.go_to(slow.block);
        self.now = slow.before;
        self.finish(at);
    }

    /// Register `a` becomes what the quick form gives.
    fn give_to(&mut self, at: usize, a: usize, native: &'static Native, quick: Option<Quick>, slow: Block) {
        let Some(quick) = quick else { return self.give_in_line(at, native, slow) };
        if self.set_metatable(at) {
            return;
        }
        let collects = quick.effect != Effect::Nothing;
        let [payload, tag] = self.quick_form(at, native, &quick, slow, collects);
        let tag = self.b.ireduce(Type::I8, tag);
        self.put(a, tag, payload);
    }

    /// All values from register `r` to the top go to the frame's first registers. Where they end then.
    fn move_to_top(&mut self, r: usize) -> Val {
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let top = self.load(Type::I64, vm, layout::VM_TOP);
        let first = self.iadd_imm(base, Self::slot(r) as i64);
        self.move_values(first, top, base)
    }

    /// Instruction `at` ends the frame in a way that only the interpreter knows.
    pub(super) fn finish(&mut self, at: usize) {
        assert_eq!(self.frame, 0, "an inlined function ends by giving back");
        self.flush_all();
        let pc = self.position(at);
        let finishes = match self.finishes {
            Some(block) => block,
            None => self.cold_block(1),
        };
        self.finishes = Some(finishes);
        self.b.jump(finishes, &[pc]);
        self.now = None;
    }

    /// The one place where frames end in ways that only the interpreter knows.
    pub(super) fn fill_finishes(&mut self) {
        if let Some(block) = self.finishes.take() {
            self.go_to(block);
            let pc = self.b.block_params(block)[0];
            let (vm, base) = (self.vm, self.b.use_var(self.base));
            let constants = self.constants();
            let [vm, base, constants] = [vm, base, constants].map(|v| self.copied(v));
            let answer = self.common(layout::finish(), &[vm, base, constants, pc]);
            self.leave_with(answer);
        }
    }

    /// Leaves, for the interpreter to call, unless the callee's frame and the native one have room.
    pub(super) fn has_room(&mut self, at: usize, callee: &Callee<'_>) {
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        self.has_room_or(callee, leave);
    }

    /// There is room for the callee's frame, on both stacks, else goes to `none`.
    pub(super) fn has_room_or(&mut self, callee: &Callee<'_>, none: Block) {
        self.has_registers_for(callee, none);
        let vm = self.vm;
        let sp = self.b.get_stack_pointer();
        let limit = self.load(Type::I64, vm, layout::VM_NATIVE_LIMIT);
        let fits = self.b.icmp(IntCC::UnsignedGreaterThanOrEqual, sp, limit);
        self.unless(fits, none);
    }

    /// There is room for the callee's registers, else goes to `none`.
    fn has_registers_for(&mut self, callee: &Callee<'_>, none: Block) {
        let vm = self.vm;
        let end = match callee.proto {
            Some(proto) => self.iadd_imm(callee.frame, Self::slot(proto.max_stack as usize) as i64),
            None => {
                let bytes = self.load(Type::I16, callee.inst, layout::INST_FRAME_BYTES);
                let bytes = self.b.uextend(Type::I64, bytes);
                self.b.iadd(callee.frame, bytes)
            }
        };
        let limit = self.load(Type::I64, vm, layout::VM_STACK_LIMIT);
        let fits = self.b.icmp(IntCC::UnsignedLessThan, end, limit);
        self.unless(fits, none);
    }

    /// Parameters that get no argument are nil, and the top is where the arguments end then, if the callee
    /// may want to know.
    fn pad(&mut self, callee: &Callee<'_>, arguments: Arguments) {
        let (vm, frame) = (self.vm, callee.frame);
        match (arguments, callee.proto) {
            (Arguments::Count(count), Some(proto)) => {
                for n in count..proto.num_params as i32 {
                    self.store_nil(frame, n * layout::VALUE_SIZE);
                }
                if proto.is_vararg {
                    let end = count.max(proto.num_params as i32) * layout::VALUE_SIZE;
                    let end = self.iadd_imm(frame, end as i64);
                    self.store(end, vm, layout::VM_TOP);
                }
            }
            (Arguments::Count(count), None) => {
                let takes = self.load(Type::I8, callee.inst, layout::INST_TAKES);
                let more = self.icmp_imm(IntCC::UnsignedGreaterThan, takes, count as i64);
                let (more_is_due, done) = (self.cold_block(0), self.b.create_block());
                self.b.brif(more, more_is_due, &[], done, &[]);
                self.go_to(more_is_due);
                let end = self.iadd_imm(frame, (count * layout::VALUE_SIZE) as i64);
                let [vm, inst, frame] = [vm, callee.inst, frame].map(|v| self.copied(v));
                self.common(layout::pad(), &[vm, inst, frame, end]);
                self.b.jump(done, &[]);
                self.go_to(done);
            }
            (Arguments::To(end), _) => {
                let count = self.load(Type::I8, callee.inst, layout::INST_PARAMS);
                let count = self.b.uextend(Type::I64, count);
                let bytes = self.ishl_imm(count, layout::VALUE_SIZE.trailing_zeros() as i64);
                let wanted = self.b.iadd(frame, bytes);
                let lacks = self.b.icmp(IntCC::UnsignedLessThan, end, wanted);
                let [lacking, all, done] = [(); 3].map(|()| self.b.create_block());
                self.b.set_cold_block(lacking);
                self.b.brif(lacks, lacking, &[], all, &[]);
                self.go_to(lacking);
                let [own, inst, frame, from] = [vm, callee.inst, frame, end].map(|v| self.copied(v));
                self.common(layout::pad(), &[own, inst, frame, from]);
                self.b.jump(done, &[]);
                self.go_to(all);
                self.store(end, vm, layout::VM_TOP);
                self.b.jump(done, &[]);
                self.go_to(done);
            }
        }
    }

    fn store_nil(&mut self, address: Val, offset: i32) {
        let zero = self.b.iconst(Type::I64, 0);
        self.store(zero, address, offset + layout::PAYLOAD);
        self.store_tag(Tag::NIL, address, offset);
    }

    /// A return of so many values that nothing has to be closed for; the interpreter does the others.
    pub(super) fn give_back(&mut self, at: usize) {
        if self.frame != 0 {
            return self.give_back_inlined(at);
        }
        let i = self.code(at);
        let count = match i.op() {
            Some(Op::Return0) => 0,
            Some(Op::Return1) => 1,
            _ if i.b() == 0 => {
                self.stepped = true;
                return self.finish(at);
            }
            _ => i.b() as i32 - 1,
        };
        let otherwise = self.aside();
        self.b.set_cold_block(otherwise.block);
        if i.op() == Some(Op::Return) && i.d() != 0 {
            // Variables that closures have, and what is to be closed, from the first register on.
            self.close_from(at, 0, otherwise.block);
        }
        let a = i.a() as usize;
        // Each way finds them where they are now.
        for r in a..a + count as usize {
            if self.ty(r) == Ty::Number {
                self.flush(r);
            }
        }
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        // Of a function of variable arguments it is known that it has moved.
        let own = if self.proto.is_vararg { layout::VARARG } else { 0 };
        let called = self.called_at();
        let [exactly, other, all] = [(); 3].map(|()| self.b.create_block());
        self.b.set_cold_block(other);
        self.b.set_cold_block(all);
        if !self.proto.is_vararg {
            // The usual return, to who wants just as many, is told by one word. (Records that have moved have
            // just been written field by field, and would have to be waited for.)
            let usual = layout::return_word(count as i16) as i32 as i64;
            let word = self.load(Type::I32, base, layout::FRAME_CALL);
            let is = self.icmp_imm(IntCC::Equal, word, usual);
            let [unusual, other] = [(); 2].map(|()| self.cold_block(0));
            self.b.brif(is, exactly, &[], unusual, &[]);
            self.go_to(unusual);
            // It may have taken another function's place.
            let word = self.load(Type::I32, base, layout::FRAME_CALL);
            let word = self.band_imm(word, layout::RETURN_MASK as i32 as i64);
            let is = self.icmp_imm(IntCC::Equal, word, usual);
            self.b.brif(is, exactly, &[], other, &[]);
            self.go_to(other);
            if self.log.calls_from_natives() > 0 {
                self.give_to_native(a, word, count);
            }
            if self.log.calls_as_metamethod() > 0 {
                self.give_to_operator(a, word, count);
            }
        }
        let flags = self.load(Type::I8, base, layout::FRAME_FLAGS);
        let slow = self.band_imm(flags, (layout::SLOW_RETURN & !own) as i64);
        let plain = self.icmp_imm(IntCC::Equal, slow, 0);
        self.unless(plain, otherwise.block);
        let wanted = self.load(Type::I16, base, layout::FRAME_RESULTS);
        // If fewer are wanted the others go where nothing is that anybody reads.
        let enough = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, wanted, count as i64);
        self.b.brif(enough, exactly, &[], other, &[]);
        self.go_to(exactly);
        self.give(a, called, RESULTS, count);
        self.b.return_(&[called]);
        self.go_to(other);
        self.give(a, called, RESULTS, count);
        let end = self.iadd_imm(called, (RESULTS + count * layout::VALUE_SIZE) as i64);
        let is = self.icmp_imm(IntCC::Equal, wanted, -1);
        let head = self.cold_block(1);
        self.b.brif(is, all, &[], head, &[end]);
        self.go_to(all);
        self.store(end, vm, layout::VM_TOP);
        self.leave_with(called);
        // More are wanted: these are nil.
        self.come_round_to(head);
        let at_nil = self.b.block_params(head)[0];
        self.store_nil(at_nil, 0);
        let next = self.iadd_imm(at_nil, layout::VALUE_SIZE as i64);
        let wanted = self.b.uextend(Type::I64, wanted);
        let size = self.b.iconst(Type::I64, layout::VALUE_SIZE.trailing_zeros() as i64);
        let bytes = self.b.ishl(wanted, size);
        let end = self.b.iadd(called, bytes);
        let end = self.iadd_imm(end, RESULTS as i64);
        let more = self.b.icmp(IntCC::UnsignedLessThan, next, end);
        let done = self.cold_block(0);
        self.b.brif(more, head, &[next], done, &[]);
        self.go_to(done);
        self.leave_with(called);
        self.go_to(otherwise.block);
        self.now = otherwise.before;
        self.finish(at);
    }

    /// The same where a native has called the function, if what tells how the frame returns is this `word`:
    /// whoever runs the code for the native goes on.
    fn give_to_native(&mut self, a: usize, word: Val, count: i32) {
        let usual = layout::return_word_to_native(count as i16);
        let is = self.icmp_imm(IntCC::Equal, word, usual as i32 as i64);
        let [native, other] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(other);
        self.b.brif(is, native, &[], other, &[]);
        self.go_to(native);
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        self.give(a, base, RESULTS, count);
        let caller = self.base_of_caller();
        self.store(caller, vm, layout::VM_BASE);
        let answer = self.b.iconst(Type::I64, RETURNED as i64);
        self.b.return_(&[answer]);
        self.go_to(other);
    }

    /// Where the frame is whose function has called that of the compiled function.
    fn base_of_caller(&mut self) -> Val {
        let base = self.b.use_var(self.base);
        let values = self.load(Type::I32, base, layout::FRAME_DELTA);
        let values = self.b.uextend(Type::I64, values);
        let bytes = self.ishl_imm(values, layout::VALUE_SIZE.trailing_zeros() as i64);
        self.b.isub(base, bytes)
    }

    /// The same where the function has been called as a metamethod whose result is stored, decides a jump, or is
    /// of no interest.
    fn give_to_operator(&mut self, a: usize, word: Val, count: i32) {
        let is = self.icmp_imm(IntCC::Equal, word, layout::METAMETHOD_RETURN_WORD as i32 as i64);
        let [metamethod, done, other] = [(); 3].map(|()| self.b.create_block());
        self.b.set_cold_block(other);
        self.b.brif(is, metamethod, &[], other, &[]);
        self.go_to(metamethod);
        let base = self.b.use_var(self.base);
        let kind = self.load(Type::I16, base, layout::FRAME_TAG1);
        let wants = [layout::STORES_RESULT, layout::DECIDES_JUMP, layout::DISCARDS_RESULTS];
        for wanted in wants {
            let [this, next] = [(); 2].map(|()| self.b.create_block());
            let is = self.icmp_imm(IntCC::Equal, kind, wanted as i64);
            self.b.brif(is, this, &[], next, &[]);
            self.go_to(this);
            match wanted {
                layout::STORES_RESULT => {
                    let to = self.result_of_caller();
                    match count {
                        0 => self.store_nil(to, 0),
                        _ => self.give(a, to, 0, 1),
                    }
                }
                layout::DECIDES_JUMP => self.decide_jump(a, count),
                _ => {}
            }
            self.b.jump(done, &[]);
            self.go_to(next);
        }
        self.b.jump(other, &[]);
        self.go_to(done);
        self.b.return_(&[base]);
        self.go_to(other);
    }

    /// The caller's conditional jump is done if the truth of register `a`, or of nil if there is no value, wants
    /// it: where the caller goes on is stored in its record.
    fn decide_jump(&mut self, a: usize, count: i32) {
        let base = self.b.use_var(self.base);
        let negated = self.load(Type::I16, base, layout::FRAME_NEGATED);
        let tag = match count {
            0 => self.b.iconst(Type::I8, Tag::NIL.0 as i64),
            _ => self.tag_of(a),
        };
        let truth = self.icmp_imm(IntCC::UnsignedGreaterThan, tag, Tag::FALSE.0 as i64);
        let truth = self.b.uextend(Type::I16, truth);
        let jumps = self.b.icmp(IntCC::NotEqual, truth, negated);
        let [there, done] = [(); 2].map(|()| self.b.create_block());
        self.b.brif(jumps, there, &[], done, &[]);
        self.go_to(there);
        let caller = self.base_of_caller();
        let pc = self.load(Type::I64, caller, layout::FRAME_PC);
        let behind = layout::INSTRUCTION_JUMP - layout::INSTRUCTION_SIZE;
        let distance = self.load(Type::I32, pc, behind);
        let distance = self.b.sextend(Type::I64, distance);
        let bytes = self.ishl_imm(distance, layout::INSTRUCTION_SIZE.trailing_zeros() as i64);
        let pc = self.b.iadd(pc, bytes);
        self.store(pc, caller, layout::FRAME_PC);
        self.b.jump(done, &[]);
        self.go_to(done);
    }

    /// The address of the register that the caller's instruction defines, the metamethod of which the compiled
    /// function is.
    fn result_of_caller(&mut self) -> Val {
        let caller = self.base_of_caller();
        let pc = self.load(Type::I64, caller, layout::FRAME_PC);
        let a = self.load(Type::I8, pc, layout::INSTRUCTION_A - layout::INSTRUCTION_SIZE);
        let a = self.b.uextend(Type::I64, a);
        let bytes = self.ishl_imm(a, layout::VALUE_SIZE.trailing_zeros() as i64);
        self.b.iadd(caller, bytes)
    }

    /// A return from an inlined function: its result is where the call wants it.
    pub(super) fn give_back_inlined(&mut self, at: usize) {
        let i = self.code(at);
        let count = match i.op() {
            Some(Op::Return0) => 0,
            Some(Op::Return1) => 1,
            _ => i.b() - 1,
        };
        self.give_inlined(at, i.a() as usize, count);
    }

    /// An inlined function gives so many values, of registers from `from` on, at instruction `at`.
    pub(super) fn give_inlined(&mut self, at: usize, from: usize, count: u16) {
        let frame = self.own();
        let (call, caller, past) = (
            frame.call.expect("an inlined frame"),
            &self.frames[frame.caller as usize],
            frame.first + frame.code.len(),
        );
        let wants = caller.code[call - caller.first];
        let (to, wanted) = match frame.ends {
            _ if frame.pcall.is_some() => {
                let (to, wanted) = (wants.a() as usize, wants.c() as usize - 1);
                self.end_pcall();
                if wanted > 0 {
                    self.define_plain(to, Tag::TRUE);
                }
                (to + 1, wanted.saturating_sub(1))
            }
            // A list of one.
            None if wants.c() == 0 && count != 1 => return self.exit(at, EXITED),
            None if wants.c() == 0 => {
                // Whatever leads out behind it finds where the list ends.
                self.list_ends(call, wants.a() as usize + 1);
                (wants.a() as usize, 1)
            }
            None => (wants.a() as usize, wants.c() as usize - 1),
            Some(Ends::Store) => (wants.a() as usize, 1),
            // Where the function was.
            Some(Ends::Jump { .. }) => (frame.called - layout::GAP as usize, 1),
            Some(Ends::Discard) => (0, 0),
        };
        // They lie above their places, in the same order: none is overwritten before it is taken.
        for n in 0..wanted {
            match n < count as usize {
                true => self.pass_register(to + n, from + n),
                false => self.define_plain(to + n, Tag::NIL),
            }
        }
        self.edge(past);
    }

    /// Values of registers from `a` on go to lower addresses, from so far from `target` on. None is
    /// overwritten before it is moved.
    pub(super) fn give(&mut self, a: usize, target: Val, offset: i32, count: i32) {
        for n in 0..count {
            let r = a + n as usize;
            let to = offset + n * layout::VALUE_SIZE;
            let tag = match self.known(r) {
                Some(known) => {
                    self.store(known.val, target, to + layout::PAYLOAD);
                    let tag = known.ty.tag().expect("a known type");
                    self.b.iconst(Type::I8, tag.0 as i64)
                }
                None => {
                    let payload = self.payload_of(r);
                    let tag = self.tag_of(r);
                    self.store(payload, target, to + layout::PAYLOAD);
                    tag
                }
            };
            self.store(tag, target, to + layout::TAG);
        }
    }
}
