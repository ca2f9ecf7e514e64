//! Functions of variable arguments, and frames that go on behind a call.

use super::facts::Fact;
use super::{EXITED, Known, Lowering, Register, State, Ty, Val};
use crate::ssa::{IntCC, Type};
use perilune_syntax::{Constant, Op};
use perilune_vm::machine::{CODES, layout};
use perilune_vm::{Intrinsic, Tag};

/// Of so many extra arguments each is copied by instructions of its own.
const IN_LINE: usize = 8;

impl Lowering<'_, '_> {
    /// `VARARGPREP`: the frame moves above its extra arguments.
    pub(super) fn move_up(&mut self, at: usize) {
        if self.frame != 0 {
            // It is there already.
            return;
        }
        self.flush_all();
        let pc = self.position(at);
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let constants = self.constants();
        let registers = self.b.iconst(Type::I64, self.proto.max_stack as i64);
        let base = self.leaf(layout::move_up(), &[vm, base, constants, pc, registers]);
        let [on, out] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(out);
        let moved = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, base, CODES as i64);
        self.b.brif(moved, on, &[], out, &[]);
        self.go_to(out);
        self.b.return_(&[base]);
        self.go_to(on);
        self.b.def_var(self.base, base);
    }

    /// Where the frame was when it was called: above its function, below its extra arguments.
    pub(super) fn called_at(&mut self) -> Val {
        let base = self.b.use_var(self.base);
        if !self.proto.is_vararg {
            return base;
        }
        let shift = self.has_moved_by();
        self.b.isub(base, shift)
    }

    /// How far the frame has moved, in bytes.
    fn has_moved_by(&mut self) -> Val {
        let base = self.b.use_var(self.base);
        let shift = self.load(Type::I32, base, layout::FRAME_SHIFT);
        let shift = self.b.uextend(Type::I64, shift);
        let size = self.b.iconst(Type::I64, layout::VALUE_SIZE.trailing_zeros() as i64);
        self.b.ishl(shift, size)
    }

    /// `VARARG`: some of the extra arguments, or all of them up to the top.
    pub(super) fn extra_arguments(&mut self, at: usize) {
        let i = self.code(at);
        let (a, wanted) = (i.a() as usize, i.c() as usize);
        if wanted == 0 && self.select_in_place(at) {
            return;
        }
        if self.frame != 0 {
            return self.copy_extra_arguments(at);
        }
        if wanted > IN_LINE + 1 {
            return self.step_and_guard(at);
        }
        let base = self.b.use_var(self.base);
        let (first, end, bytes) = self.where_extra_arguments_are();
        if wanted == 0 {
            return self.all_extra_arguments(at, first, end, bytes);
        }
        for n in 0..wanted - 1 {
            let [there, none, done] = [(); 3].map(|()| self.b.create_block());
            let payload = self.b.append_block_param(done, Type::I64);
            let tag = self.b.append_block_param(done, Type::I8);
            let lies = n as i32 * layout::VALUE_SIZE;
            let is = self.icmp_imm(IntCC::UnsignedGreaterThan, bytes, lies as i64);
            self.b.brif(is, there, &[], none, &[]);
            self.go_to(there);
            let own = self.load(Type::I64, first, lies + layout::PAYLOAD);
            let own_tag = self.load(Type::I8, first, lies + layout::TAG);
            self.b.jump(done, &[own, own_tag]);
            self.go_to(none);
            let zero = self.b.iconst(Type::I64, 0);
            let nil = self.b.iconst(Type::I8, Tag::NIL.0 as i64);
            self.b.jump(done, &[zero, nil]);
            self.go_to(done);
            self.store(payload, base, Self::slot(a + n) + layout::PAYLOAD);
            self.store(tag, base, Self::slot(a + n) + layout::TAG);
            self.set_unknown(a + n);
        }
        if wanted > 1 {
            self.guard_result(at);
        }
    }

    /// The same in a function that is built in place: which registers they are is known.
    fn copy_extra_arguments(&mut self, at: usize) {
        let i = self.code(at);
        let (a, (first, count)) = (i.a() as usize, self.own().extra());
        let wanted = if i.c() == 0 { count } else { i.c() as usize - 1 };
        for n in 0..wanted {
            match n < count {
                true => self.pass_register(a + n, first + n),
                false => self.define_plain(a + n, Tag::NIL),
            }
        }
        if i.c() == 0 {
            self.forget_from(a + count, at);
            self.list_ends(at, a + count);
        } else if count > 0 && self.ty(a) == Ty::Any {
            self.guard_result(at);
        }
    }

    /// Where the extra arguments begin and end, below the function, and how many bytes they are: in their
    /// slots.
    fn where_extra_arguments_are(&mut self) -> (Val, Val, Val) {
        let base = self.b.use_var(self.base);
        if self.frame != 0 {
            let (first, count) = self.own().extra();
            (first..first + count).for_each(|r| self.flush(r));
            let [start, end] = [first, first + count].map(|r| self.iadd_imm(base, Self::slot(r) as i64));
            return (start, end, self.b.iconst(Type::I64, Self::slot(count) as i64));
        }
        let shift = self.has_moved_by();
        let fixed = (layout::GAP + self.proto.num_params as i32) * layout::VALUE_SIZE;
        let bytes = self.iadd_imm(shift, -fixed as i64);
        let end = self.iadd_imm(base, layout::FRAME_FUNCTION as i64);
        (self.b.isub(end, bytes), end, bytes)
    }

    /// `select(n, ...)` and `select("#", ...)`, of which one value is wanted: the `VARARG` at `at` and the
    /// `CALL` behind it, without copies. Whether it is that. All that may be otherwise leads out before the
    /// `VARARG`.
    fn select_in_place(&mut self, at: usize) -> bool {
        let call = at + 1;
        let is_target = self.blocks.contains_key(&call) || self.heads.contains(&call);
        if is_target || !self.contains(call) {
            return false;
        }
        let (i, site) = (self.code(call), self.site(call));
        // Built in place it may be the last thing that the function does.
        let ends = i.op() == Some(Op::TailCall) && self.frame != 0 && i.d() == 0;
        let (a, selector) = (i.a() as usize, i.a() as usize + layout::GAP as usize);
        let is_call = ends || i.op() == Some(Op::Call) && i.c() == 2;
        let is_of_these = is_call && self.raw(call).b() == 0 && self.code(at).a() as usize == selector + 1;
        let native = site.native.filter(|_| !site.natives && !site.has_upvalues && site.calls == 0);
        let native = native.filter(|native| matches!(native.intrinsic, Some(Intrinsic::Select)));
        let Some(native) = native.filter(|_| is_of_these && !self.is_suspect(at) && !self.is_suspect(call))
        else {
            return false;
        };
        let counts = at > 0 && !self.blocks.contains_key(&at) && {
            let before = self.code(at - 1);
            let constant = || &self.proto.constants[before.bx() as usize];
            before.op() == Some(Op::LoadK)
                && before.a() as usize == selector
                && matches!(constant(), Constant::String(s) if s.first() == Some(&b'#'))
        };
        let number = self.known(selector).filter(|n| n.ty == Ty::Int);
        if !counts && (number.is_none() || ends) {
            return false;
        }
        let exit = self.exit_block(at, EXITED);
        self.is_native(a, native, exit);
        let (first, _, bytes) = self.where_extra_arguments_are();
        let shift = self.b.iconst(Type::I64, layout::VALUE_SIZE.trailing_zeros() as i64);
        let total = self.b.ushr(bytes, shift);
        let Some(number) = number.filter(|_| !counts) else {
            self.forget_changed(at);
            self.forget_changed(call);
            self.define(a, Known { ty: Ty::Int, val: total });
            match ends {
                true => self.give_inlined(call, a, 1),
                false => self.done = Some(call),
            }
            return true;
        };
        let from_end = self.b.iadd(total, number.val);
        let from_start = self.iadd_imm(number.val, -1);
        let negative = self.icmp_imm(IntCC::SignedLessThan, number.val, 0);
        let index = self.b.select(negative, from_end, from_start);
        let [there, none, nil, done] = [(); 4].map(|()| self.b.create_block());
        let payload = self.b.append_block_param(done, Type::I64);
        let tag = self.b.append_block_param(done, Type::I8);
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, total);
        self.b.brif(within, there, &[], none, &[]);
        self.go_to(there);
        let offset = self.b.ishl(index, shift);
        let address = self.b.iadd(first, offset);
        let own = self.load(Type::I64, address, layout::PAYLOAD);
        let own_tag = self.load(Type::I8, address, layout::TAG);
        self.b.jump(done, &[own, own_tag]);
        // Behind the last one there is none; before the first one is an error.
        self.go_to(none);
        let behind = self.icmp_imm(IntCC::SignedGreaterThan, number.val, 0);
        self.b.brif(behind, nil, &[], exit, &[]);
        self.go_to(nil);
        let zero = self.b.iconst(Type::I64, 0);
        let nil = self.b.iconst(Type::I8, Tag::NIL.0 as i64);
        self.b.jump(done, &[zero, nil]);
        self.go_to(done);
        let ty = self.result(call);
        if let Some(wanted) = ty.tag() {
            let other = self.other_result(call, at);
            let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
            self.unless(is, other);
        }
        self.forget_changed(at);
        self.forget_changed(call);
        match ty {
            Ty::Any => self.put(a, tag, payload),
            Ty::Float => {
                let val = self.b.bitcast(Type::F64, payload);
                self.define(a, Known { ty, val });
            }
            _ => self.define(a, Known { ty, val: payload }),
        }
        self.done = Some(call);
        true
    }

    /// All of them go to the registers from a on, and the top behind them. Where there is no room, the
    /// interpreter makes some.
    fn all_extra_arguments(&mut self, at: usize, first: Val, end: Val, bytes: Val) {
        let slow = self.aside();
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let a = self.code(at).a() as usize;
        let to = self.iadd_imm(base, Self::slot(a) as i64);
        let top = self.b.iadd(to, bytes);
        let limit = self.load(Type::I64, vm, layout::VM_STACK_LIMIT);
        let above = self.iadd_imm(top, layout::VALUE_SIZE as i64);
        let fits = self.b.icmp(IntCC::UnsignedLessThan, above, limit);
        self.unless(fits, slow.block);
        self.store(top, vm, layout::VM_TOP);
        self.move_values(first, end, to);
        // Whatever was in registers above is overwritten.
        self.forget(at);
        self.join(at, slow, None);
    }

    /// Values at addresses from `from` to `end` go to those from `to` on, which are no higher or do not
    /// overlap. Where they end then.
    pub(super) fn move_values(&mut self, from: Val, end: Val, to: Val) -> Val {
        let [head, next, done] = [(); 3].map(|()| self.b.create_block());
        let source = self.b.append_block_param(head, Type::I64);
        let target = self.b.append_block_param(head, Type::I64);
        self.b.jump(head, &[from, to]);
        self.come_round_to(head);
        let more = self.b.icmp(IntCC::UnsignedLessThan, source, end);
        self.b.brif(more, next, &[], done, &[]);
        self.go_to(next);
        let payload = self.load(Type::I64, source, layout::PAYLOAD);
        let tag = self.load(Type::I8, source, layout::TAG);
        self.store(payload, target, layout::PAYLOAD);
        self.store(tag, target, layout::TAG);
        let [source, after] = [source, target].map(|p| self.iadd_imm(p, layout::VALUE_SIZE as i64));
        self.b.jump(head, &[source, after]);
        self.go_to(done);
        target
    }

    /// The call at `at`, which the interpreter has made, has come back. If the function can be entered behind
    /// it, whoever goes on with this frame comes in here, where all that is known is found in slots again.
    /// The frame may have been interpreted until now: nothing is taken for true that has been found out
    /// before.
    pub(super) fn come_back(&mut self, at: usize) {
        if self.frame != 0 {
            return;
        }
        self.forget_dead(at + 1);
        if self.now.is_none() {
            return;
        }
        let Some(entry) = self.returns.remove(&at) else { return };
        self.make_all();
        let Some(mut after) = self.now.clone() else { return };
        // Where the frame has been interpreted, the slot has the value itself.
        for register in after.registers.iter_mut().filter(|own| own.ty != Ty::Any && own.slot != own.ty) {
            register.slot = Ty::Any;
        }
        self.entered.push(at);
        // What is built in place of the call may have been left for the interpreter, which stores into
        // variables as it likes: no register holds for certain what one holds.
        after.forget_variables(at);
        after.forget_copies(at);
        // A cache of a function that is built in place is not to be looked for among the own ones.
        let own = after.facts.iter().filter(|fact| fact.is_outer());
        let held = own.map(|&fact| (fact, self.holder(&after, fact)));
        let held: Vec<_> = held.filter_map(|(fact, r)| Some((fact, r?))).collect();
        // Whoever enters comes from the interpreter.
        let is_positioned = after.facts.contains(&Fact::Position(0));
        after.facts = held.iter().map(|(fact, _)| *fact).collect();
        let joined = self.b.create_block();
        self.b.jump(joined, &[]);
        self.go_to(entry);
        if let Some(now) = &mut self.now {
            now.registers.fill(Register::UNKNOWN);
            now.facts.clear();
        }
        for (r, known) in after.registers.iter().enumerate().filter(|(_, known)| known.ty != Ty::Any) {
            self.guard(r, known.ty, at + 1);
        }
        let exit = self.exit_block(at + 1, EXITED);
        for (fact, r) in held {
            if !self.find_out(fact, Some(r), exit) {
                after.facts.remove(&fact);
            }
        }
        self.b.jump(joined, &[]);
        if is_positioned {
            after.facts.insert(Fact::Position(0));
        }
        self.go_to(joined);
        self.now = Some(after);
    }

    /// The register whose value the fact is of, if there is one.
    fn holder(&self, state: &State, fact: Fact) -> Option<usize> {
        let name = fact.of()?;
        let holds = |&r: &usize| {
            state.names[r] == name && !self.captured.contains(r as u8) && fact.suits(state.registers[r].ty)
        };
        (0..state.names.len()).find(holds)
    }

    /// Entries behind calls that are not built are not to be entered.
    pub(super) fn close_entries(&mut self) {
        for (_, block) in std::mem::take(&mut self.returns) {
            self.go_to(block);
            self.refuse();
        }
    }
}
