//! Metamethods that are functions of Lua: found by a leaf, inlined, or called as machine code calls
//! functions, in a frame above all registers (`perilune_vm::machine::metamethods`).
//!
//! Only instructions that the log has seen call one come here. Where the leaf finds none the instruction is
//! lowered as it would be without: a store may meet its key at one time, and not at another.

use super::calls::{Arguments, Callee};
use super::inline::{Inlined, needs};
use super::{Known, Lowering, Slow, Ty, Val};
use crate::ssa::{Block, IntCC, Type};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::{Instr, Op};
use perilune_vm::Tag;
use perilune_vm::machine::{EXITED, Ends, LEAVE, Log, Operand, Operator, layout};

/// Whether machine code calls the metamethods of such an instruction itself.
pub(super) fn is_called(i: Instr) -> bool {
    Operator::of(i).is_some()
        || matches!(i.op(), Some(Op::GetField | Op::GetIndex | Op::SetField | Op::SetIndex))
}

impl Lowering<'_, '_> {
    /// Instruction `at`, an operator, if it has called a metamethod; whether it has been lowered.
    pub(super) fn operator(&mut self, at: usize) -> bool {
        if !self.may_call(at) {
            return false;
        }
        let Some(Operator { event, operands, ends }) = Operator::of(self.code(at)) else { return false };
        let addresses = operands.map(|operand| self.address_of(operand));
        let [x, y] = match addresses {
            [Some(x), Some(y)] => [x, y],
            // A number has no metamethods.
            [Some(x), None] | [None, Some(x)] => [x, x],
            [None, None] => return false,
        };
        let jumps = matches!(ends, Ends::Jump { .. });
        let always = self.always_calls(at);
        let other = if jumps || !always { self.aside() } else { self.slow(at) };
        let by_shape = self.operator_by_shape(at, event, operands);
        let vm = self.vm;
        let event = self.b.iconst(Type::I64, event as i64);
        let closure = self.leaf(layout::operator_function(), &[vm, event, x, y]);
        let there = self.icmp_imm(IntCC::NotEqual, closure, 0);
        self.unless(there, other.block);
        let closure = self.found_either(by_shape, closure);
        self.call_metamethod(at, closure, &operands, ends);
        if jumps {
            self.b.set_cold_block(other.block);
            self.go_to(other.block);
            self.now = other.before;
            match always {
                true => self.exit(at, EXITED),
                false => self.without(at, |this| this.instruction(at)),
            }
            return true;
        }
        self.join_without(at, other);
        true
    }

    /// Whether instruction `at` has always called a metamethod, and may do so here.
    pub(super) fn always_calls(&self, at: usize) -> bool {
        let (calls, runs) = (self.site(at).calls as u64, self.site(at).runs as u64);
        // What a recording ends or begins in counts for one of the two.
        self.may_call(at) && calls + calls / 8 + 1 >= runs && !self.is_suspect(at)
    }

    /// The metamethod of instruction `at`, an operator, where the log has always found it: goes on with it in
    /// the block that this gives. What follows is the way on which it is not there.
    fn operator_by_shape(&mut self, at: usize, event: u8, operands: [Operand; 2]) -> Option<Block> {
        if Operator::is_equality(event) {
            return None;
        }
        let (r, second, place) = self.place_of_operator(at, operands)?;
        let miss = self.cold_block(0);
        if second {
            self.numbers_are_plain(miss);
        }
        let table = match self.known(r) {
            Some(known) => known.val,
            None => self.expect(r, Ty::Table, miss).val,
        };
        Some(self.found_in_metatable(table, place, miss))
    }

    /// Numbers have no metatable of their own, else goes to `miss`: the first operand's would come first.
    pub(super) fn numbers_are_plain(&mut self, miss: Block) {
        let vm = self.vm;
        let metatable = self.load(Type::I64, vm, layout::VM_METATABLE_OF_NUMBERS);
        let none = self.icmp_imm(IntCC::Equal, metatable, 0);
        self.unless(none, miss);
    }

    /// Which register has the metamethod of instruction `at`, an operator, where the log has always found it,
    /// whether that is the second operand, behind a number, and by which shape of its metatable, in which
    /// slot of that.
    pub(super) fn place_of_operator(
        &mut self,
        at: usize,
        operands: [Operand; 2],
    ) -> Option<(usize, bool, (u32, u32))> {
        let inside = at - self.frames[self.frame as usize].first;
        let place = self.log.operator(inside)?;
        let Operand::Register(r) = operands[place.second as usize] else { return None };
        let is_number = match operands[0] {
            Operand::Integer(_) => true,
            Operand::Constant(c) => self.constant(c as usize).is_some(),
            Operand::Register(r) => self.ty(r as usize).is_number(),
        };
        let is_table = matches!(self.ty(r as usize), Ty::Any | Ty::Table | Ty::Unmade);
        let fits = is_table && (is_number || !place.second);
        fits.then_some((r as usize, place.second, (place.metatable, place.slot)))
    }

    /// The same for an access to a field of a table that lacks it.
    fn access_by_shape(&mut self, at: usize, table: Val, stores: bool) -> Option<Block> {
        let place = self.log.access(at - self.frames[self.frame as usize].first)?;
        let miss = self.cold_block(0);
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let same = self.icmp_imm(IntCC::Equal, shape, place.shape as i64);
        self.unless(same, miss);
        if stores {
            // What is in an island takes no stores.
            self.writable(None, table, miss);
        }
        Some(self.found_in_metatable(table, (place.metatable, place.slot), miss))
    }

    /// The function that the table's metatable, of this shape, has in this slot: goes on with it in the block
    /// that this gives. What follows is `miss`, where it is not there.
    pub(super) fn found_in_metatable(&mut self, table: Val, place: (u32, u32), miss: Block) -> Block {
        let found = self.b.create_block();
        self.b.append_block_param(found, Type::I64);
        let metatable = self.metatable(table, miss);
        let closure = self.in_metatable(metatable, place, miss);
        self.b.jump(found, &[closure]);
        self.go_to(miss);
        found
    }

    /// The table has no metatable, or one that is known to lack a metamethod ([`layout::TABLE_ABSENT`]); else
    /// goes to `other`.
    pub(super) fn lacks_metamethod(&mut self, table: Val, lacking: u8, other: Block) {
        let [with, plain] = [(); 2].map(|()| self.b.create_block());
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        self.b.brif(metatable, with, &[], plain, &[]);
        self.go_to(with);
        let absent = self.load(Type::I8, metatable, layout::TABLE_ABSENT);
        let none = self.band_imm(absent, lacking as i64);
        self.unless(none, other);
        self.b.jump(plain, &[]);
        self.go_to(plain);
    }

    /// The metatable of a table, else goes to `none`.
    pub(super) fn metatable(&mut self, table: Val, none: Block) -> Val {
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        let there = self.icmp_imm(IntCC::NotEqual, metatable, 0);
        self.unless(there, none);
        metatable
    }

    /// The function that a metatable, of this shape, has in this slot, else goes to `miss`.
    pub(super) fn in_metatable(&mut self, metatable: Val, (shape, slot): (u32, u32), miss: Block) -> Val {
        let own = self.load(Type::I32, metatable, layout::TABLE_SHAPE);
        let same = self.icmp_imm(IntCC::Equal, own, shape as i64);
        self.unless(same, miss);
        let slots = self.load(Type::I64, metatable, layout::TABLE_SLOTS);
        let slot = Self::slot(slot as usize);
        let tag = self.load(Type::I8, slots, slot + layout::TAG);
        let is_function = self.icmp_imm(IntCC::Equal, tag, Tag::CLOSURE.0 as i64);
        self.unless(is_function, miss);
        self.load(Type::I64, slots, slot + layout::PAYLOAD)
    }

    /// A function that has been found slowly, or by shapes, if that has been tried.
    pub(super) fn found_either(&mut self, by_shape: Option<Block>, slowly: Val) -> Val {
        let Some(found) = by_shape else { return slowly };
        self.b.jump(found, &[slowly]);
        self.go_to(found);
        self.b.block_params(found)[0]
    }

    /// An access to a key of a table, if it has called a metamethod; whether it has been lowered.
    pub(super) fn access(&mut self, at: usize) -> bool {
        if !self.may_call(at) {
            return false;
        }
        let i = self.code(at);
        let (a, b, c) = (i.a() as u16, i.b(), i.c());
        let value = if c & RK_CONST == 0 { Operand::Register(c) } else { Operand::Constant(c & !RK_CONST) };
        let (object, key, stored) = match i.op() {
            Some(Op::GetField) => (b, Operand::Constant(c), None),
            Some(Op::GetIndex) => (b, Operand::Register(c), None),
            Some(Op::SetField) => (a, Operand::Constant(b), Some(value)),
            Some(Op::SetIndex) => (a, Operand::Register(b), Some(value)),
            _ => return false,
        };
        let other = self.aside();
        let is_table = self.known(object as usize).is_some_and(|known| known.ty == Ty::Table);
        let table = match self.known(object as usize).filter(|_| is_table) {
            Some(known) => known.val,
            None if self.known(object as usize).is_some() => return false,
            None => self.table_in(at, object as usize, other.block).1,
        };
        let Some(address) = self.address_of(key) else { return false };
        let by_shape = self.access_by_shape(at, table, stored.is_some());
        let vm = self.vm;
        let leaf = if stored.is_some() { layout::new_index_function() } else { layout::index_function() };
        let closure = self.leaf(leaf, &[vm, table, address]);
        let there = self.icmp_imm(IntCC::NotEqual, closure, 0);
        self.unless(there, other.block);
        let closure = self.found_either(by_shape, closure);
        let object = Operand::Register(object);
        match stored {
            None => self.call_metamethod(at, closure, &[object, key], Ends::Store),
            Some(value) => self.call_metamethod(at, closure, &[object, key, value], Ends::Discard),
        }
        self.join_without(at, other);
        true
    }

    /// Where there is no metamethod instruction `at` is lowered as if it never had one, and that way joined
    /// with the current one, if there is one: a function that has been inlined may never have come to its
    /// end.
    fn join_without(&mut self, at: usize, other: Slow) {
        if other.exits {
            return;
        }
        if self.now.is_some() {
            return self.join_with(at, other, |this| this.without(at, |this| this.instruction(at)));
        }
        self.go_to(other.block);
        self.now = other.before;
        self.without(at, |this| this.instruction(at));
    }

    /// Whether instruction `at` is one that has called a function, and may do so here.
    fn may_call(&self, at: usize) -> bool {
        self.site(at).calls > 0 && self.without_metamethods != Some(at) && self.has_window(3)
    }

    /// Lowers instruction `at` as if it had no metamethod.
    fn without(&mut self, at: usize, does: impl FnOnce(&mut Self)) {
        let before = (self.without_metamethods.replace(at), self.stepped);
        does(self);
        (self.without_metamethods, self.stepped) = before;
    }

    /// The address of an operand's value; `None`: it has none.
    fn address_of(&mut self, operand: Operand) -> Option<Val> {
        let (from, n) = match operand {
            Operand::Register(r) => {
                self.flush(r as usize);
                (self.b.use_var(self.base), r)
            }
            Operand::Constant(n) => (self.constants(), n),
            Operand::Integer(_) => return None,
        };
        Some(self.iadd_imm(from, Self::slot(n as usize) as i64))
    }

    /// Calls a function of Lua as the metamethod of instruction `at`, and goes on behind it, or, if it jumps,
    /// where it leads.
    pub(super) fn call_metamethod(&mut self, at: usize, closure: Val, arguments: &[Operand], ends: Ends) {
        let function = self.metamethod_window() - layout::GAP as usize;
        let wanted = self.code(at).a() as usize;
        if self.inline_metamethod(at, closure, arguments, ends) {
            if self.now.is_none() {
                return;
            }
            return match ends {
                Ends::Jump { negated } => {
                    self.jump_if(at, function, !negated, None);
                    let next = at + 1;
                    self.edge(next);
                }
                Ends::Store => {
                    let ty = self.result(at);
                    if self.ty(wanted) == Ty::Any && ty != Ty::Any {
                        self.guard_made(at, wanted, ty);
                    }
                }
                Ends::Discard => {}
            };
        }
        let slow = self.aside();
        self.b.set_cold_block(slow.block);
        let inst = self.load(Type::I64, closure, layout::CLOSURE_INST);
        let run = self.load(Type::I64, inst, layout::INST_NATIVE);
        let there = self.icmp_imm(IntCC::NotEqual, run, 0);
        self.unless(there, slow.block);
        self.pass(closure, arguments);
        self.flush_all();
        let window = function + layout::GAP as usize;
        let delta = (window - self.own_register(0)) as u32;
        let words = layout::metamethod_words(ends, delta);
        let base = self.b.use_var(self.base);
        let frame = self.iadd_imm(base, Self::slot(window) as i64);
        let callee = Callee { frame, window, inst, run, proto: None };
        self.call_there(at, callee, Arguments::Count(arguments.len() as i32), words);
        self.forget(at);
        self.forget_from(function, at);
        self.b.set_cold_block(slow.block);
        match ends {
            Ends::Jump { .. } => {
                self.go_where_told(at);
                self.continue_slowly(at, slow, Self::step_and_jump);
            }
            Ends::Store => {
                self.guard_result(at);
                self.join_stepped(at, slow, Some(wanted));
            }
            Ends::Discard => self.join_stepped(at, slow, None),
        }
    }

    /// What is done slowly goes its own ways.
    fn continue_slowly(&mut self, at: usize, slow: Slow, does: impl FnOnce(&mut Self, usize)) {
        let stepped = self.stepped;
        self.go_to(slow.block);
        self.now = slow.before;
        does(self, at);
        self.stepped = stepped;
    }

    /// Does instruction `at` by the interpreter, in another way, and joins it with the current one.
    fn join_stepped(&mut self, at: usize, slow: Slow, defines: Option<usize>) {
        let fast = defines.map(|r| (r, self.ty(r)));
        self.join(at, slow, fast);
    }

    /// Goes on at the instruction whose position is in the frame's record: that which instruction `at` jumps
    /// to, or the next one.
    pub(super) fn go_where_told(&mut self, at: usize) {
        let base = self.b.use_var(self.base);
        let pc = self.load(Type::I64, base, self.record(layout::FRAME_PC));
        let targets = [self.target(at), Some(at + 1)];
        for to in targets.into_iter().flatten() {
            let address = self.position(to);
            let is = self.b.icmp(IntCC::Equal, pc, address);
            let [here, next]: [Block; 2] = [(); 2].map(|()| self.b.create_block());
            self.b.brif(is, here, &[], next, &[]);
            self.go_to(here);
            let known = self.now.clone();
            self.edge(to);
            self.now = known;
            self.go_to(next);
        }
        // Somewhere else: the position is stored.
        self.leave(perilune_vm::machine::LEAVE);
        self.now = None;
    }

    /// The instance of the closure that instruction `at` calls, if it is the log's function, which is to be
    /// built in place on registers up to `end`; else goes to `other`. Behind it nothing leads out before the
    /// function begins.
    pub(super) fn instance_to_build(
        &mut self,
        (at, closure): (usize, Val),
        log: &Log,
        end: usize,
        other: Block,
    ) -> Val {
        let inst = self.load(Type::I64, closure, layout::CLOSURE_INST);
        let own = self.load(Type::I64, inst, layout::INST_PROTO);
        let wanted = self.b.iconst(Type::I64, log.function() as i64);
        let same = self.b.icmp(IntCC::Equal, own, wanted);
        self.unless(same, other);
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        self.has_registers(end, leave);
        inst
    }

    /// Builds the metamethod that instruction `at` has always called in place of the call; whether it has.
    /// `closure` is the one that is called now.
    pub(super) fn inline_metamethod(
        &mut self,
        at: usize,
        closure: Val,
        arguments: &[Operand],
        ends: Ends,
    ) -> bool {
        let window = self.metamethod_window();
        if self.is_suspect(at) {
            return false;
        }
        let count = arguments.len();
        let Some(log) = self.always_called(at, window, count) else { return false };
        let other = self.exit_block(at, EXITED);
        let inst = self.instance_to_build((at, closure), log, window + needs(log, count), other);
        self.pass(closure, arguments);
        let arguments = count;
        self.build_here(
            at,
            Inlined { log, inst, window, arguments, ends: Some(ends), pcall: None, tails: 0 },
        );
        self.forget_from(window, at);
        true
    }

    /// Which register is the first one of a metamethod that is called now: its frame is above all of the
    /// function's own.
    pub(super) fn metamethod_window(&self) -> usize {
        self.own().window() + self.own().log.proto().max_stack as usize + layout::GAP as usize
    }

    /// Puts a metamethod and its arguments where its frame is to be.
    pub(super) fn pass(&mut self, closure: Val, arguments: &[Operand]) {
        let window = self.metamethod_window();
        let tag = self.b.iconst(Type::I8, Tag::CLOSURE.0 as i64);
        self.put(window - layout::GAP as usize, tag, closure);
        for (n, argument) in arguments.iter().enumerate() {
            match *argument {
                Operand::Register(r) => self.pass_register(window + n, r as usize),
                Operand::Integer(n_) => {
                    let val = self.b.iconst(Type::I64, n_);
                    self.define(window + n, Known { ty: Ty::Int, val });
                }
                Operand::Constant(c) => match self.constant(c as usize) {
                    Some(known) => self.define(window + n, known),
                    None => self.copy_constant(window + n, c as usize),
                },
            }
        }
    }

    /// The function that is being built may call one with so many arguments as a metamethod.
    pub(super) fn has_window(&self, arguments: usize) -> bool {
        self.metamethod_window() + arguments <= self.room
    }
}
