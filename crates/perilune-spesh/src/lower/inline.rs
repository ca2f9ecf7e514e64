//! Inlining: a called function's instructions are built in place of the call.
//!
//! The callee's registers are the caller's from the function's register on, as its frame would lie there: a *window*. Its instructions are moved by that many registers, and then lowered as if
//! they were the caller's own; so what is known of an argument is known of the parameter, and what is known of the result is known after the call.
//!
//! # Records
//! There is no record of the callee's frame on the value stack as long as nobody looks. Who may look, an instruction that the interpreter does, a call, an exit, is preceded by
//! [`Lowering::write_records`]: the records of all inlined frames around it. From then on all is as if the functions had been called, and the interpreter goes on in the innermost one.
//! Room for the callee's frame is seen to where it begins.
//!
//! # Places
//! An instruction is known by its *place*: its number in the compiled function, or, in an inlined one, so many more. Passes agree on these numbers.
//!
//! # What is inlined
//! A call that has always called one function of few instructions, without loops, functions of its own, variable arguments and tail calls, of which results are given back in the plainest way. If
//! another function is called, the code exits, and the next one calls. Inlining stops at a depth, and at a size.

use super::{EXITED, Lowering, Name, Register, Val};
use crate::backend;
use crate::backend::clif::{InstBuilder, Variable, condcodes::IntCC, types};
use crate::positions::Place;
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::{Field, Kind};
use perilune_syntax::{Instr, Op};
use perilune_vm::machine::{LEAVE, Log, MOST_INLINED, Site, layout};
use perilune_vm::{Native, Quick, Tag};

/// So many registers more than the function's own may be used by inlined ones.
pub(super) const ROOM: usize = 60;
/// An instruction names no more registers than these.
pub(super) const MOST_REGISTERS: usize = 250;
/// A function of more instructions is not inlined.
const LARGEST: usize = 60;
/// Where so many exits have been taken, nothing is inlined any more: the code has been made anew some times, and it was not enough.
const MOST_FAILURES: u32 = 600;
/// All that is inlined in one function has at most so many.
const MOST_INSTRUCTIONS: usize = 400;

/// A function whose instructions are built.
pub(super) struct Frame<'a> {
    pub log: &'a Log,
    /// Its instructions, on registers of the compiled function.
    code: Vec<Instr>,
    /// The place of its first instruction.
    pub first: usize,
    /// Which register its first one is.
    window: usize,
    /// The frame that calls it.
    pub caller: u16,
    /// The place of the call; `None`: it is the compiled function itself.
    pub call: Option<usize>,
    /// The address of its constants.
    constants: Variable,
}

impl<'a> Frame<'a> {
    pub fn outer(log: &'a Log, constants: Variable) -> Frame<'a> {
        Frame { log, code: log.proto().code.to_vec(), first: 0, window: 0, caller: 0, call: None, constants }
    }

    fn has(&self, place: usize) -> bool {
        // One more place, where its results come back.
        (self.first..=self.first + self.code.len()).contains(&place)
    }
}

/// The instruction on registers so many higher.
fn moved(i: Instr, by: usize) -> Option<Instr> {
    let mut result = i;
    let mut done = Vec::new();
    for operand in i.op()?.operands() {
        let is_register = match operand.kind {
            Kind::Use
            | Kind::UseAt(_)
            | Kind::Uses(..)
            | Kind::Def
            | Kind::DefAt(_)
            | Kind::Defs(..)
            | Kind::DefIfJumps(_)
            | Kind::DefIfStays(_)
            | Kind::Clobber(_) => true,
            Kind::RK => i.c() & RK_CONST == 0,
            Kind::Hide(_) | Kind::Steps(_) | Kind::Room(_) | Kind::Lift(_) | Kind::Mark(_) | Kind::Close => {
                return None;
            }
            _ => false,
        };
        if !is_register || done.contains(&operand.field) {
            continue;
        }
        done.push(operand.field);
        result = match operand.field {
            Field::A => result.with_a(u8::try_from(i.a() as usize + by).ok()?),
            Field::B => result.with_b(i.b() + by as u16),
            Field::C => result.with_c(i.c() + by as u16),
            _ => return None,
        };
    }
    Some(result)
}

/// The library function that a tail call has always called, if its quick form will do: with so many arguments, nothing to be closed, and extra arguments of the caller left out of it.
pub(super) fn tail_native(log: &Log, at: usize) -> Option<(&'static Native, Quick)> {
    let (i, site) = (log.proto().code[at], log.site(at));
    let native = site.native.filter(|_| !site.natives && site.calls == 0)?;
    let quick = native.quick.filter(|quick| quick.gives_one)?;
    (i.b() != 0 && i.d() == 0 && !log.proto().is_vararg).then_some((native, quick))
}

/// Whether a function can be inlined at all, as far as it alone decides.
pub fn is_inlinable(log: &Log) -> bool {
    let proto = log.proto();
    let plain = |(at, i): (usize, &Instr)| match i.op() {
        Some(Op::Return0 | Op::Return1) => true,
        Some(Op::Return) => matches!(i.b(), 1 | 2) && i.d() == 0,
        // Who has never come there exits.
        Some(Op::TailCall) => log.site(at).times() == 0 || tail_native(log, at).is_some(),
        Some(Op::ForLoop | Op::ForPrep | Op::TForPrep | Op::TForCall | Op::TForLoop | Op::JumpBack) => false,
        Some(Op::VarargPrep | Op::Vararg | Op::Lift | Op::Close | Op::Tbc | Op::Closure | Op::SetList) => {
            false
        }
        // Where a function has yielded it is entered again, and so has to be itself.
        Some(Op::Call) => i.b() != 0 && i.c() != 0 && !log.site(at).yields(),
        Some(_) => moved(*i, 0).is_some(),
        None => false,
    };
    !proto.is_vararg
        && proto.protos.is_empty()
        && proto.code.len() <= LARGEST
        && log.calls() > 0
        && proto.code.iter().enumerate().all(plain)
}

impl<'a> Lowering<'a, '_> {
    fn own(&self) -> &Frame<'a> {
        &self.frames[self.frame as usize]
    }

    /// The instruction at a place of the function that is being built.
    pub(super) fn code(&self, at: usize) -> Instr {
        let frame = self.own();
        frame.code[at - frame.first]
    }

    /// What it has met.
    pub(super) fn site(&self, at: usize) -> &'a Site {
        let frame = self.own();
        frame.log.site(at - frame.first)
    }

    /// The place that it jumps to.
    pub(super) fn target(&self, at: usize) -> Option<usize> {
        let jump = self.code(at).jump()?;
        usize::try_from(at as i64 + 1 + jump as i64).ok()
    }

    /// Whether the place is one of those that are built.
    pub(super) fn contains(&self, at: usize) -> bool {
        at >= self.frames[0].code.len() || self.unit.contains(at)
    }

    /// The frame of a place.
    pub(super) fn frame_of(&self, at: usize) -> u16 {
        let number = self.frames.iter().rposition(|frame| frame.has(at));
        number.expect("a place belongs to a frame") as u16
    }

    /// The instruction of the compiled function that a place stands for.
    pub(super) fn outermost(&self, mut at: usize) -> usize {
        while let Some(call) = self.frames[self.frame_of(at) as usize].call {
            at = call;
        }
        at
    }

    /// From the base of the compiled function to part of the record of the one that is being built.
    pub(super) fn record(&self, part: i32) -> i32 {
        part + Self::slot(self.own().window)
    }

    /// The base of the function that is being built.
    pub(super) fn own_base(&mut self) -> Val {
        let base = self.b.use_var(self.base);
        match self.own().window {
            0 => base,
            window => self.b.ins().iadd_imm_s(base, Self::slot(window) as i64),
        }
    }

    /// The first word of the record that a call pushes.
    pub(super) fn call_word(&mut self, at: usize) -> Val {
        let frame = &self.frames[self.frame_of(at) as usize];
        let i = frame.log.proto().code[at - frame.first];
        let word = layout::call_word(i.a(), i.c() as i16 - 1);
        self.b.ins().iconst(types::I64, word as i64)
    }

    /// The records of inlined frames, down to the one that is being built, are as its callers would have written them. The position of the last is missing.
    pub(super) fn write_records(&mut self) {
        let mut chain = Vec::new();
        let mut frame = self.frame;
        while let Some(call) = self.frames[frame as usize].call {
            chain.push((frame, call));
            frame = self.frames[frame as usize].caller;
        }
        for (frame, call) in chain.into_iter().rev() {
            let (own, caller) =
                (&self.frames[frame as usize], &self.frames[self.frames[frame as usize].caller as usize]);
            let (window, callers, constants) = (own.window, caller.window, own.constants);
            let base = self.b.use_var(self.base);
            let pc = self.position(call + 1);
            self.store(pc, base, layout::FRAME_PC + Self::slot(callers));
            let word = self.call_word(call);
            self.store(word, base, layout::FRAME_CALL + Self::slot(window));
            let constants = self.b.use_var(constants);
            self.store(constants, base, layout::FRAME_CONSTANTS + Self::slot(window));
            let tag = self.b.ins().iconst(types::I8, layout::FRAME_TAG.0 as i64);
            self.store(tag, base, layout::FRAME_TAG1 + Self::slot(window));
        }
    }

    /// The log of the function that the call at `at` has always called, if that is to be inlined.
    fn to_inline(&self, at: usize) -> Option<&'a Log> {
        let (i, site) = (self.code(at), self.site(at));
        let always_one = site.calls > 0 && !site.callees && site.native.is_none();
        if !always_one
            || i.b() == 0
            || !matches!(i.c(), 1 | 2)
            || self.failures.at(self.outermost(at)) >= MOST_FAILURES
        {
            return None;
        }
        let log = self.task.callees.get(&site.callee)?;
        let proto = log.proto();
        let window = i.a() as usize + layout::GAP as usize;
        let mut around = vec![self.frame];
        while let Some(&frame) = around.last().filter(|frame| **frame != 0) {
            around.push(self.frames[frame as usize].caller);
        }
        let is_same = |frame: &&u16| std::ptr::eq(&**self.frames[**frame as usize].log.proto(), &**proto);
        let recursive = around.iter().filter(is_same).count();
        let size: usize = self.frames[1..].iter().map(|frame| frame.code.len()).sum();
        let fits =
            window + proto.max_stack as usize <= self.room && size + proto.code.len() <= MOST_INSTRUCTIONS;
        (fits && around.len() < MOST_INLINED && recursive < 2 && is_inlinable(log)).then_some(&**log)
    }

    /// Builds the function that is called at `at` in place; whether it has.
    pub(super) fn inline(&mut self, at: usize) -> bool {
        let Some(log) = self.to_inline(at) else { return false };
        let (i, proto) = (self.code(at), log.proto());
        let a = i.a() as usize;
        let window = a + layout::GAP as usize;
        let Some(code) = proto.code.iter().map(|i| moved(*i, window)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let next = self
            .places
            .values()
            .copied()
            .max()
            .map_or(self.frames[0].code.len() + 1, |last| last + LARGEST + 2);
        let first = *self.places.entry(at).or_insert(next);
        let other = self.exit_block(at, EXITED);
        // The function.
        let base = self.b.use_var(self.base);
        let tag = self.load(types::I8, base, Self::slot(a) + layout::TAG);
        let is = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::CLOSURE.0 as i64);
        self.unless(is, other);
        let closure = self.load(types::I64, base, Self::slot(a) + layout::PAYLOAD);
        let inst = self.load(types::I64, closure, layout::CLOSURE_INST);
        let own = self.load(types::I64, inst, layout::INST_PROTO);
        let wanted = self.b.ins().iconst(types::I64, log.function() as i64);
        let same = self.b.ins().icmp(IntCC::Equal, own, wanted);
        self.unless(same, other);
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        let end = self.b.ins().iadd_imm_s(base, Self::slot(window + proto.max_stack as usize) as i64);
        let vm = self.b.use_var(self.vm);
        let limit = self.load(types::I64, vm, layout::VM_STACK_LIMIT);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, end, limit);
        self.unless(fits, leave);
        let constants = self.load(types::I64, inst, layout::INST_CONSTANTS);
        let variable = self.b.declare_var(types::I64);
        self.b.def_var(variable, constants);
        // What the caller has above the arguments is over.
        let arguments = i.b() as usize - 1;
        self.forget_from(window + arguments.min(proto.num_params as usize), at);
        for r in window + arguments..window + proto.num_params as usize {
            self.define_plain(r, Tag::NIL);
        }
        let outer = (self.frame, self.log, self.proto, self.constants, self.stepped);
        let length = code.len();
        self.frames.push(Frame {
            log,
            code,
            first,
            window,
            caller: self.frame,
            call: Some(at),
            constants: variable,
        });
        self.frame = (self.frames.len() - 1) as u16;
        (self.log, self.proto, self.constants) = (log, proto, variable);
        for place in first..first + length {
            self.at = place.saturating_sub(1).max(first);
            self.arrive(place);
            self.at = place;
            if self.now.is_some() {
                backend::set_place(self.b, Place(place as u32));
                self.instruction(place);
            }
        }
        debug_assert!(self.now.is_none(), "a function ends with a return");
        self.at = first + length - 1;
        self.arrive(first + length);
        (self.frame, self.log, self.proto, self.constants, self.stepped) = outer;
        self.at = at;
        backend::set_place(self.b, Place(at as u32));
        self.forget_from(a + 1, at);
        true
    }

    /// Nothing is known of the registers from `r` on any more.
    fn forget_from(&mut self, r: usize, at: usize) {
        let Some(now) = &mut self.now else { return };
        for r in r..now.registers.len() {
            now.registers[r] = Register::UNKNOWN;
            now.renew(r, Name::Made(at, r));
        }
    }

    /// A return from an inlined function: its result is where the call wants it.
    pub(super) fn give_back_inlined(&mut self, at: usize) {
        let i = self.code(at);
        let count = match i.op() {
            Some(Op::Return0) => 0,
            Some(Op::Return1) => 1,
            _ => i.b() - 1,
        };
        self.give_inlined(i.a() as usize, count);
    }

    /// An inlined function gives so many values, of registers from `from` on: its caller wants one at most.
    pub(super) fn give_inlined(&mut self, from: usize, count: u16) {
        let frame = self.own();
        let (call, caller, past) = (
            frame.call.expect("an inlined frame"),
            &self.frames[frame.caller as usize],
            frame.first + frame.code.len(),
        );
        let wants = caller.code[call - caller.first];
        let to = wants.a() as usize;
        if wants.c() == 2 {
            match count {
                0 => self.define_plain(to, Tag::NIL),
                _ if self.known(from).is_some() => self.copy_known(to, from),
                _ => {
                    self.copy_slot(to, from);
                    if !self.captured.contains(from as u8) {
                        let name = self.name_of(from);
                        self.is_copy(to, name);
                    }
                }
            }
        }
        self.edge(past);
    }
}
