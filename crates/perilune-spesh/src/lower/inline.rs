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
//! A call that has always called one function of few instructions, without loops and functions of its own, of which results are given back in the plainest way. If
//! another function is called, the code exits, and the next one calls. Inlining stops at a depth, and at a size. A metamethod is inlined like that, on registers above all of its caller's (`metamethods.rs`).
//!
//! A tail call of such a function is built on the same window: the frame that makes it is over, and whoever has called that one gets the results.
//!
//! # Extra arguments
//! How many arguments a call has that is built in place is known, and so are the extra ones of a function of variable arguments: they are registers, below its frame, which has moved above them as `VARARGPREP` moves it. `...` is copies of them, `select` one of them, or their number, and
//! `f(...)` a call with so many arguments, which can be built in place, too.
//!
//! # Lists of values
//! `f(g(x))` calls `g` for all that it gives, and `f` with as many arguments; how many that is, the top of the stack says. Where `g` is built in place, or is a function of the library that gives one value, it is known: then the instruction
//! behind is lowered as one with so many operands ([`Lowering::code`]), and can be built in place, too. The top is stored all the same, for the interpreter has to find it.

use super::callable::calls_tables;
use super::calls::{Arguments, Callee};
use super::facts::{Fact, FrameNumber};
use super::{EXITED, Lowering, Name, Register, TRUSTED, Val};
use crate::live::{behind, live};
use crate::ssa::{Block, IntCC, Type};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::{Field, Kind, Registers};
use perilune_syntax::{Constant, Instr, Op};
use perilune_vm::machine::{Ends, LEAVE, Log, MOST_INLINED, Site, layout};
use perilune_vm::{Intrinsic, Native, Quick, Tag};
use std::rc::Rc;

/// So many registers more than the function's own may be used by inlined ones.
pub(super) const ROOM: usize = 60;
/// An instruction names no more registers than these.
pub(super) const MOST_REGISTERS: usize = 250;
/// A function of more instructions is not inlined.
const LARGEST: usize = 60;
/// Where another function than the expected one has been met so often, none is inlined any more.
const MOST_FAILURES: u32 = 50;
/// So many functions at most that go on with each other by tail calls take one place.
const MOST_TAILS: usize = 2;
/// A function of variable arguments that gets more is not inlined.
const MOST_ARGUMENTS: usize = 12;
/// All that is inlined in one function has at most so many.
const MOST_INSTRUCTIONS: usize = 400;

/// A function whose instructions are built.
pub(super) struct Frame<'a> {
    pub log: &'a Log,
    /// Its instructions, on registers of the compiled function.
    pub code: Vec<Instr>,
    /// The place of its first instruction.
    pub first: usize,
    /// Which register its first one is.
    pub window: usize,
    /// Which one it was when it was called: below its extra arguments, if it has moved above them.
    pub called: usize,
    /// How many extra arguments it has.
    pub extra: usize,
    /// The frame that calls it.
    pub caller: u16,
    /// The place of the call; `None`: it is the compiled function itself.
    pub call: Option<usize>,
    /// What becomes of its results; `None`: the call says so.
    pub ends: Option<Ends>,
    /// The `pcall` that calls it.
    pub pcall: Option<Pcall>,
    /// So many functions have replaced each other in its place, by tail calls.
    pub tails: usize,
    /// Of all that the function has met, this part is expected of this call of it.
    pub share: f64,
    /// The address of its constants.
    pub constants: Val,
    /// Its own registers that matter before each of its instructions, from 0 on.
    pub live: Rc<[Registers]>,
    /// Registers of the compiled function that matter to others all the while.
    pub kept: Registers,
    /// Those that matter where its results have come back.
    pub after: Registers,
}

/// A call of `pcall`, or of `xpcall`, which has a handler, whose function is built in place (`protect.rs`).
#[derive(Clone, Copy)]
pub(super) struct Pcall {
    /// Which register of the compiled function is the first one of its frame.
    pub window: usize,
    pub has_handler: bool,
}

/// What is to be inlined.
pub(super) struct Inlined<'a> {
    pub log: &'a Log,
    /// Its instance.
    pub inst: Val,
    /// Which register its first argument is in.
    pub window: usize,
    /// How many arguments it gets, which are in its registers.
    pub arguments: usize,
    /// See [`Frame`].
    pub ends: Option<Ends>,
    /// See [`Frame`].
    pub pcall: Option<Pcall>,
    /// It takes the place of the function that calls it, which is the last of so many.
    pub tails: usize,
}

impl<'a> Frame<'a> {
    pub fn outer(log: &'a Log, constants: Val, live: Rc<[Registers]>) -> Frame<'a> {
        Frame {
            live,
            kept: Registers::NONE,
            after: Registers::NONE,
            log,
            code: log.proto().code.to_vec(),
            first: 0,
            window: 0,
            called: 0,
            extra: 0,
            caller: 0,
            call: None,
            ends: None,
            pcall: None,
            tails: 0,
            share: 1.0,
            constants,
        }
    }

    /// Which register its first one is.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The first register with an extra argument, and how many there are.
    pub fn extra(&self) -> (usize, usize) {
        (self.called + self.log.proto().num_params as usize, self.extra)
    }

    /// The registers that matter before a place of it.
    pub fn live_at(&self, place: usize) -> Registers {
        self.live.get(place - self.first).map_or(self.after, |own| own.above(self.window).or(self.kept))
    }

    /// Those that matter behind one.
    pub fn live_behind(&self, place: usize) -> Registers {
        behind(self.log.proto(), &self.live, place - self.first).above(self.window).or(self.kept)
    }

    /// Whether this place is the one where its results come back.
    pub(super) fn ends_at(&self, place: usize) -> bool {
        self.call.is_some() && place == self.first + self.code.len()
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

/// How many slots the frame of a function moves up that is called with so many arguments.
fn moves_by(log: &Log, arguments: usize) -> usize {
    let proto = log.proto();
    if proto.is_vararg { arguments.max(proto.num_params as usize) + layout::GAP as usize } else { 0 }
}

/// How many registers from its first argument on a function has that is built in place, called with so many: extra arguments may be once more above all others.
pub(super) fn needs(log: &Log, arguments: usize) -> usize {
    let copies = if log.proto().is_vararg { arguments } else { 0 };
    moves_by(log, arguments) + log.proto().max_stack as usize + copies
}

/// Whether the operands of instruction `at` are as many as it says, or all extra arguments, whose number is known where the function is built in place.
fn has_known_end(log: &Log, at: usize) -> bool {
    let code = &log.proto().code;
    code[at].b() != 0 || at > 0 && code[at - 1].op() == Some(Op::Vararg) && code[at - 1].c() == 0
}

/// The library function that a tail call has always called, if its quick form will do, or it may be a few instructions (then there is none): with so many arguments, nothing to be closed. Where it is not built in place: with no extra arguments of the caller.
pub(super) fn tail_native(log: &Log, at: usize, in_place: bool) -> Option<(&'static Native, Option<Quick>)> {
    let (i, site) = (log.proto().code[at], log.site(at));
    let native = site.native.filter(|_| !site.natives && site.calls == 0)?;
    let quick = native.quick.filter(|quick| quick.gives_one);
    let known = if in_place { has_known_end(log, at) } else { i.b() != 0 && !log.proto().is_vararg };
    // What depends on more than that its argument is a number has nothing else to do in place of a call.
    let in_line = match native.intrinsic {
        Some(Intrinsic::Sqrt | Intrinsic::Float(_)) => i.b() > 1,
        Some(Intrinsic::Len | Intrinsic::Byte) => i.b() > 1 && !in_place,
        _ => false,
    };
    (known && i.d() == 0 && (quick.is_some() || in_line)).then_some((native, quick))
}

/// Whether the tail call at `at` has always gone on with one function of Lua, with arguments whose number is known, and nothing to be closed.
fn tail_calls_one(log: &Log, at: usize) -> bool {
    !log.site(at).callees && is_call_of_lua(log, at)
}

/// Whether the tail call at `at` has gone on with functions of Lua alone, with arguments whose number is known, and nothing to be closed.
pub(super) fn is_call_of_lua(log: &Log, at: usize) -> bool {
    let (i, site) = (log.proto().code[at], log.site(at));
    let is_function = site.callee != 0 && site.native.is_none() && !calls_tables(site);
    is_function && has_known_end(log, at) && i.d() == 0
}

/// Whether the tail call at `at` is `select("#", ...)`.
fn counts_arguments(log: &Log, at: usize) -> bool {
    let (code, site) = (&log.proto().code, log.site(at));
    let selector = code[at].a() as usize + layout::GAP as usize;
    let is_select = site.native.is_some_and(|native| matches!(native.intrinsic, Some(Intrinsic::Select)));
    let extra = |i: Instr| i.op() == Some(Op::Vararg) && i.c() == 0 && i.a() as usize == selector + 1;
    let is_sign = |constant: &Constant| matches!(constant, Constant::String(s) if s.first() == Some(&b'#'));
    let sign = |i: Instr| {
        let constant = || log.proto().constants.get(i.bx() as usize);
        i.op() == Some(Op::LoadK) && i.a() as usize == selector && constant().is_some_and(is_sign)
    };
    is_select
        && at >= 2
        && code[at].b() == 0
        && code[at].d() == 0
        && extra(code[at - 1])
        && sign(code[at - 2])
}

/// Whether a function can be inlined at all, as far as it alone decides. What it makes tail calls of is inlined, too, or called.
pub fn is_inlinable(log: &Log) -> bool {
    let proto = log.proto();
    let plain = |(at, i): (usize, &Instr)| match i.op() {
        Some(Op::Return0 | Op::Return1) => true,
        Some(Op::Return) => has_known_end(log, at) && i.d() == 0,
        // Who has never come there exits.
        Some(Op::TailCall) => {
            log.site(at).times() == 0
                || tail_native(log, at, true).is_some()
                || is_call_of_lua(log, at)
                || counts_arguments(log, at)
        }
        Some(Op::ForLoop | Op::ForPrep | Op::TForPrep | Op::TForCall | Op::TForLoop | Op::JumpBack) => false,
        Some(Op::SetList) => has_known_end(log, at),
        Some(Op::Lift | Op::Close | Op::Tbc | Op::Closure) => false,
        // Where a function has yielded it is entered again, and so has to be itself.
        Some(Op::Call) => !log.site(at).yields(),
        Some(_) => moved(*i, 0).is_some(),
        None => false,
    };
    proto.protos.is_empty()
        && proto.code.len() <= LARGEST
        && log.calls() > 0
        && proto.code.iter().enumerate().all(plain)
}

impl<'a> Lowering<'a, '_> {
    pub(super) fn own(&self) -> &Frame<'a> {
        &self.frames[self.frame as usize]
    }

    /// The instruction at a place of the function that is being built. If its operands are a list up to the top, and where that is is known, it is as one with so many operands.
    pub(super) fn code(&self, at: usize) -> Instr {
        let i = self.raw(at);
        let Some(end) = self.list.filter(|list| list.0 == at).map(|list| list.1) else { return i };
        let first = match i.op() {
            Some(Op::Call | Op::TailCall) if i.b() == 0 => i.a() as usize + layout::GAP as usize,
            Some(Op::Return) if i.b() == 0 => i.a() as usize,
            _ => return i,
        };
        debug_assert!(first <= end, "a list begins below its end");
        i.with_b((end - first + 1) as u16)
    }

    /// The instruction as it is.
    pub(super) fn raw(&self, at: usize) -> Instr {
        let frame = self.own();
        frame.code[at - frame.first]
    }

    /// Instruction `at`, a call for all results, has given one: the list that the next one takes ends behind it.
    pub(super) fn one_result(&mut self, at: usize) {
        if self.now.is_none() {
            // The function that was built in place has never come back.
            return;
        }
        self.list_ends(at, self.raw(at).a() as usize + 1);
    }

    /// The list that instruction `at` has made ends before this register.
    pub(super) fn list_ends(&mut self, at: usize, end: usize) {
        let top = self.end_of(end);
        let vm = self.vm;
        self.store(top, vm, layout::VM_TOP);
        self.list = Some((at + 1, end));
    }

    /// The same where that is to be asked: if it was another number of values, the code exits behind the call.
    pub(super) fn one_result_there(&mut self, at: usize) {
        if self.now.is_none() {
            return;
        }
        let end = self.raw(at).a() as usize + 1;
        let wanted = self.end_of(end);
        let vm = self.vm;
        let top = self.load(Type::I64, vm, layout::VM_TOP);
        let is = self.b.icmp(IntCC::Equal, top, wanted);
        let other = self.exit_block(at + 1, EXITED);
        self.unless(is, other);
        self.list = Some((at + 1, end));
    }

    /// The address of register `r`.
    fn end_of(&mut self, r: usize) -> Val {
        let base = self.b.use_var(self.base);
        self.iadd_imm(base, Self::slot(r) as i64)
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

    /// From the base of the compiled function to part of the record of the one that is being built.
    pub(super) fn record(&self, part: i32) -> i32 {
        part + Self::slot(self.own().window)
    }

    /// The base of the function that is being built.
    pub(super) fn own_base(&mut self) -> Val {
        let base = self.b.use_var(self.base);
        match self.own().window {
            0 => base,
            window => self.iadd_imm(base, Self::slot(window) as i64),
        }
    }

    /// The first word of the record that a call pushes.
    pub(super) fn call_word(&self, at: usize) -> u64 {
        let frame = &self.frames[self.frame_of(at) as usize];
        let i = frame.log.proto().code[at - frame.first];
        layout::call_word(i.a(), i.c() as i16 - 1)
    }

    /// Which registers of a function matter before each of its instructions.
    fn live_of(&mut self, log: &Log) -> Rc<[Registers]> {
        let known = self.lives.entry(log.function()).or_insert_with(|| live(log.proto()).into());
        Rc::clone(known)
    }

    /// The registers that matter before the place.
    pub(super) fn live_at(&self, at: usize) -> Registers {
        self.frames[self.frame_of(at) as usize].live_at(at)
    }

    /// What does not matter from instruction `at` on is not known any more, and need not be stored.
    pub(super) fn forget_dead(&mut self, at: usize) {
        if self.now.is_none() {
            return;
        }
        let live = self.live_at(at);
        let registers = self.now.iter_mut().flat_map(|now| now.registers.iter_mut()).enumerate();
        for (_, register) in registers.filter(|(r, _)| !live.contains(*r as u8)) {
            *register = Register::UNKNOWN;
        }
        self.now.iter_mut().for_each(super::State::forget_unmade);
    }

    /// Which register of the compiled function is this one of the function that is being built.
    pub(super) fn own_register(&self, r: usize) -> usize {
        self.own().window + r
    }

    /// The words of the record of an inlined frame, whose call is at `call`: those at [`layout::FRAME_CALL`] and [`layout::FRAME_TAG1`].
    pub(super) fn record_words(&self, frame: FrameNumber, call: usize) -> (u64, u64) {
        let own = &self.frames[frame as usize];
        match (own.window - own.called) as u32 {
            0 => self.words_of_call(frame, call),
            shift => layout::moved_words(self.words_of_call(frame, call), shift),
        }
    }

    /// The same of a frame that has not moved.
    fn words_of_call(&self, frame: FrameNumber, call: usize) -> (u64, u64) {
        let own = &self.frames[frame as usize];
        let caller = &self.frames[own.caller as usize];
        let i = caller.log.proto().code[call - caller.first];
        let (word, second) = match own.ends {
            _ if let Some(pcall) = own.pcall => layout::protected_words((own.called - pcall.window) as u32),
            None => (layout::call_word(i.a(), i.c() as i16 - 1), layout::PLAIN_SECOND_WORD),
            Some(ends) => layout::metamethod_words(ends, (own.called - caller.window) as u32),
        };
        (if own.tails > 0 { word | layout::TAIL_CALL } else { word }, second)
    }

    /// The records of inlined frames, down to the one that is being built, are as its callers would have written them. The position of the last is missing.
    pub(super) fn write_records(&mut self) {
        let mut frame = self.frame;
        let mut nested = None;
        while let Some(call) = self.frames[frame as usize].call {
            let own = &self.frames[frame as usize];
            let (caller, window, constants) = (own.caller, own.window, own.constants);
            if !self.has(Fact::Record(frame)) {
                let words = self.record_words(frame, call);
                self.write_position(caller, call + 1);
                let base = self.b.use_var(self.base);
                self.store_record(base, Self::slot(window), words, constants);
                self.keep(Fact::Record(frame), Vec::new());
            }
            if let Some(pcall) = self.protected(frame, call) {
                nested = Some(self.write_pcall(&pcall, nested));
            }
            frame = caller;
        }
    }

    /// The interpreter has done an instruction: records are written, and where their frames go on.
    pub(super) fn records_are_there(&mut self) {
        let mut frame = self.frame;
        self.keep(Fact::Position(frame), Vec::new());
        while self.frames[frame as usize].call.is_some() {
            self.keep(Fact::Record(frame), Vec::new());
            frame = self.frames[frame as usize].caller;
            self.keep(Fact::Position(frame), Vec::new());
        }
    }

    /// Writes into the record of this frame that it goes on at instruction `at`. Half of the address is enough
    /// where the rest is what it was.
    pub(super) fn write_position(&mut self, frame: FrameNumber, at: usize) {
        let of = &self.frames[frame as usize];
        let place = layout::FRAME_PC + Self::slot(of.window);
        let code = of.log.proto().code.as_ptr_range();
        let is_half_enough = (code.start as u64) >> 32 == (code.end as u64) >> 32;
        let base = self.b.use_var(self.base);
        let address = self.address_of_instruction(at);
        let position = match is_half_enough && self.has(Fact::Position(frame)) {
            true => self.b.iconst(Type::I32, i64::from(address as u32)),
            false => self.b.iconst(Type::I64, address as i64),
        };
        self.store(position, base, place);
        self.keep(Fact::Position(frame), Vec::new());
    }

    /// Writes the record of a frame whose base lies so far from `base`, but for its position.
    pub(super) fn store_record(&mut self, base: Val, at: i32, (word, second): (u64, u64), constants: Val) {
        let word = self.b.iconst(Type::I64, word as i64);
        self.store(word, base, layout::FRAME_CALL + at);
        self.store(constants, base, layout::FRAME_CONSTANTS + at);
        let second = self.b.iconst(Type::I64, second as i64);
        self.store(second, base, layout::FRAME_TAG1 + at);
    }

    /// The log of the function that the call at `at` has always called, if that is to be inlined.
    fn to_inline(&self, at: usize) -> Option<&'a Log> {
        let (i, site) = (self.code(at), self.site(at));
        if site.calls == 0 || i.b() == 0 {
            return None;
        }
        let log = self.always_called(at, self.own_window(i.a() as usize), i.b() as usize - 1)?;
        self.gives_enough(at, log).then_some(log)
    }

    /// Whether the function can be built in place of the call at `at` as far as its results go: how many all of them are has to be known.
    pub(super) fn gives_enough(&self, at: usize, log: &Log) -> bool {
        self.code(at).c() != 0 || self.gives_one(log, MOST_TAILS)
    }

    /// Whether the function has always given back one value.
    fn gives_one(&self, log: &Log, tails: usize) -> bool {
        let gives = |(at, i): (usize, &Instr)| match i.op() {
            Some(Op::Return0 | Op::Return) if i.b() != 2 => log.site(at).times() == 0,
            // A function of the library that is called so gives one.
            Some(Op::TailCall)
                if log.site(at).times() != 0
                    && tail_native(log, at, true).is_none()
                    && !counts_arguments(log, at) =>
            {
                let next = self.task.callees.get(&log.site(at).callee);
                tails > 0 && next.is_some_and(|next| self.gives_one(next, tails - 1))
            }
            _ => true,
        };
        log.proto().code.iter().enumerate().all(gives)
    }

    /// From a register of the function that is being built to where the frame of one that is called there has its first.
    pub(super) fn own_window(&self, function: usize) -> usize {
        function + layout::GAP as usize
    }

    /// The log of the function that instruction `at` has always called, if that is to be inlined, with so many arguments from this register on.
    pub(super) fn always_called(&self, at: usize, window: usize, arguments: usize) -> Option<&'a Log> {
        self.to_build(at, window, arguments, self.frame)
    }

    /// The same, in place of a call that frame `caller` is to get the results of: of a tail call that is not the one which makes it.
    fn to_build(&self, at: usize, window: usize, arguments: usize, caller: FrameNumber) -> Option<&'a Log> {
        if self.site(at).native.is_some() { None } else { self.to_build_there(at, window, arguments, caller) }
    }

    /// The same, whoever calls it.
    pub(super) fn to_build_there(
        &self,
        at: usize,
        window: usize,
        arguments: usize,
        caller: FrameNumber,
    ) -> Option<&'a Log> {
        let site = self.site(at);
        let (failures, inside) = self.failures_at(at);
        if site.callees || failures.at(inside) >= MOST_FAILURES {
            return None;
        }
        let log: &'a Log = self.task.callees.get(&site.callee)?;
        if log.proto().is_vararg && arguments > MOST_ARGUMENTS {
            return None;
        }
        let mut around = vec![caller];
        while let Some(&frame) = around.last().filter(|frame| **frame != 0) {
            around.push(self.frames[frame as usize].caller);
        }
        let around: Vec<usize> =
            around.into_iter().map(|frame| self.frames[frame as usize].log.function()).collect();
        let size: usize = self.frames[1..].iter().map(|frame| frame.code.len()).sum();
        let end = window + needs(log, arguments);
        // What `pcall` calls costs more where it is not built in its place.
        let is_rare = self.calls_there(at) < self.task.least * (size * log.proto().code.len()) as f64;
        if is_rare && site.native.is_none() {
            return None;
        }
        (around.len() < MOST_INLINED && self.fits(log, end, size, &around)).then_some(log)
    }

    /// How often the call at `at` is expected to be made here.
    fn calls_there(&self, at: usize) -> f64 {
        self.log.calls_at(at - self.own().first) as f64 * self.own().share
    }

    /// Whether the function can be inlined on registers below `end`, beside so many instructions and in these functions.
    fn fits(&self, log: &Log, end: usize, size: usize, around: &[usize]) -> bool {
        let proto = log.proto();
        end <= self.room
            && size + proto.code.len() <= MOST_INSTRUCTIONS
            && around.iter().filter(|function| **function == log.function()).count() < 2
            && is_inlinable(log)
            && !self.goes_on_otherwise(log)
    }

    /// Whether code of the function has been left at a tail call because what was called was not one of Lua: where it is built in place that is all that a tail call can go on with, and the next code would be left as often.
    fn goes_on_otherwise(&self, log: &Log) -> bool {
        let Some(failures) = self.task.failures_of_callees.get(&log.function()) else { return false };
        let is_left = |(at, i): (usize, &Instr)| {
            // Another function of Lua than the expected one counts as well, until several are known.
            let most = if log.site(at).callees { TRUSTED } else { 2 * MOST_FAILURES };
            i.op() == Some(Op::TailCall) && failures.at(at) >= most
        };
        log.proto().code.iter().enumerate().any(is_left)
    }

    /// Builds the function that is called at `at` in place; whether it has.
    pub(super) fn inline(&mut self, at: usize) -> bool {
        let Some(log) = self.to_inline(at) else { return false };
        let i = self.code(at);
        let a = i.a() as usize;
        let window = self.own_window(a);
        let other = self.exit_block(at, EXITED);
        let (_, inst) = self.function_in(a, log, other);
        let arguments = i.b() as usize - 1;
        self.build(at, Inlined { log, inst, window, arguments, ends: None, pcall: None, tails: 0 });
        self.come_back_from_built(at);
        true
    }

    /// What has been built in place of the call at `at` has come back.
    pub(super) fn come_back_from_built(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        match i.c() {
            0 => {
                self.forget_from(a + 1, at);
                self.one_result(at);
            }
            // What is behind the results is over.
            c => {
                self.forget_from(a + (c as usize - 1).max(1), at);
                // Where a loop comes round soon that is the way back; in it what is known is worth more.
                if !self.loops.iter().any(|l| (l.head..=l.back).contains(&at)) {
                    self.come_back(at);
                }
            }
        }
    }

    /// The function in register `r`, if it is one of Lua.
    pub(super) fn closure_in(&mut self, r: usize, other: Block) -> Val {
        let tag = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::CLOSURE.0 as i64);
        self.unless(is, other);
        self.payload_of(r)
    }

    /// The tail call at `at`, of an inlined function.
    pub(super) fn inlined_tail_call(&mut self, at: usize) {
        let inside = at - self.own().first;
        if tail_calls_one(self.log, inside) && self.own().tails < MOST_TAILS && self.inline_tail(at) {
            return;
        }
        // The frame of `pcall` would be missing.
        let is_protected = self.own().pcall.is_some();
        match is_call_of_lua(self.log, inside) {
            true if is_protected => self.exit(at, LEAVE),
            true => self.call_instead(at),
            false => self.exit(at, EXITED),
        }
    }

    /// The tail call at `at`, of an inlined function, calls machine code on the window of that one: the callee's frame is where that of the inlined one would be, and who has called this gets the results.
    fn call_instead(&mut self, at: usize) {
        let (i, frame) = (self.code(at), self.own());
        let (a, window, ends) = (i.a() as usize, frame.called, frame.ends);
        let (call, caller) = (frame.call.expect("an inlined frame"), frame.caller);
        let past = frame.first + frame.code.len();
        self.flush_all();
        let (other, leave) = (self.exit_block(at, EXITED), self.exit_block(at, LEAVE));
        let closure = self.closure_in(a, other);
        let inst = self.load(Type::I64, closure, layout::CLOSURE_INST);
        let run = self.load(Type::I64, inst, layout::INST_NATIVE);
        let there = self.icmp_imm(IntCC::NotEqual, run, 0);
        self.unless(there, leave);
        let base = self.b.use_var(self.base);
        let frame = self.iadd_imm(base, Self::slot(window) as i64);
        let callee = Callee { frame, window, inst, run, proto: None };
        self.has_room(at, &callee);
        self.poll(at);
        // From here on this function's frame is over.
        let (word, second) = self.words_of_call(self.frame, call);
        self.store(closure, frame, layout::FRAME_FUNCTION + layout::PAYLOAD);
        let count = i.b() as i32 - 1;
        self.give(a + layout::GAP as usize, frame, 0, count);
        let own = (self.frame, self.log, self.proto, self.constants, self.at);
        let whose = &self.frames[caller as usize];
        (self.log, self.proto, self.constants) = (whose.log, whose.log.proto(), whose.constants);
        (self.frame, self.at) = (caller, call);
        self.call_checked(call, callee, Arguments::Count(count), (word | layout::TAIL_CALL, second));
        self.forget(call);
        self.forget_from(window - layout::GAP as usize, call);
        match ends {
            None if self.code(call).c() == 0 => self.one_result_there(call),
            Some(Ends::Jump { .. }) => self.go_where_told(call),
            _ => {}
        }
        (self.frame, self.log, self.proto, self.constants, self.at) = own;
        self.edge(past);
        self.now = None;
    }

    /// Builds the function that an inlined one makes a tail call of in its place; whether it has. Whoever has called that one gets the result.
    fn inline_tail(&mut self, at: usize) -> bool {
        let (i, window) = (self.code(at), self.own().called);
        let (a, arguments) = (i.a() as usize, i.b() as usize - 1);
        let Some(log) = self.to_build(at, window, arguments, self.own().caller) else { return false };
        let (other, leave) = (self.exit_block(at, EXITED), self.exit_block(at, LEAVE));
        let (closure, inst) = self.function_in(a, log, other);
        self.try_leaving(leave);
        self.has_registers(window + needs(log, arguments), leave);
        // Nothing of the function that makes the call is there any more.
        let tag = self.b.iconst(Type::I8, Tag::CLOSURE.0 as i64);
        self.put(window - layout::GAP as usize, tag, closure);
        for n in 0..arguments {
            self.pass_register(window + n, self.own_window(a) + n);
        }
        let own = self.own();
        let (ends, pcall, past) = (own.ends, own.pcall, own.first + own.code.len());
        let tails = own.tails + 1;
        self.build_here(at, Inlined { log, inst, window, arguments, ends, pcall, tails });
        self.edge(past);
        self.now = None;
        true
    }

    /// Register `to` becomes what register `from` is.
    pub(super) fn pass_register(&mut self, to: usize, from: usize) {
        if self.ty(from) == super::Ty::Unmade {
            return self.share(to, from);
        }
        if self.known(from).is_some() {
            return self.copy_known(to, from);
        }
        let name = self.name_of(from);
        self.copy_slot(to, from);
        if !self.captured.contains(from as u8) {
            self.is_copy(to, name);
        }
    }

    /// The closure in register `r`, which is one of this function, and its instance, else goes to `other`.
    ///
    /// Where the compiled function calls itself it has to be the same closure, too. That one is known before what is in the register has been loaded, so it is taken instead, and
    /// what follows need not wait: a chain of loads from one call to the next would take longer than all that the calls do.
    pub(super) fn function_in(&mut self, r: usize, log: &Log, other: Block) -> (Val, Val) {
        if log.function() != self.frames[0].log.function() {
            let inst = self.function(r, log.function(), other);
            return (self.payload_of(r), inst);
        }
        let closure = self.closure_in(r, other);
        let base = self.b.use_var(self.base);
        let own = self.load(Type::I64, base, layout::FRAME_FUNCTION + layout::PAYLOAD);
        let same = self.b.icmp(IntCC::Equal, closure, own);
        self.unless(same, other);
        self.store(own, base, Self::slot(r) + layout::PAYLOAD);
        (own, self.load(Type::I64, own, layout::CLOSURE_INST))
    }

    /// Goes to `leave` unless there are registers up to this one.
    pub(super) fn has_registers(&mut self, end: usize, leave: Block) {
        let suffices = |fact: &Fact| matches!(fact, Fact::Room(known) if *known as usize >= end);
        if self.now.as_ref().is_some_and(|now| now.facts.iter().any(suffices)) {
            return;
        }
        self.keep(Fact::Room(end as u16), Vec::new());
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let end = self.iadd_imm(base, Self::slot(end) as i64);
        let limit = self.load(Type::I64, vm, layout::VM_STACK_LIMIT);
        let fits = self.b.icmp(IntCC::UnsignedLessThan, end, limit);
        self.unless(fits, leave);
    }

    /// Builds a function in place of its call if there is room; else leaves.
    fn build(&mut self, at: usize, what: Inlined<'a>) {
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        self.has_registers(what.window + needs(what.log, what.arguments), leave);
        self.build_here(at, what);
    }

    /// The same where that is so.
    pub(super) fn build_here(&mut self, at: usize, what: Inlined<'a>) {
        let Inlined { log, inst, window: called, arguments, ends, pcall, tails } = what;
        let proto = log.proto();
        let parameters = proto.num_params as usize;
        let window = called + moves_by(log, arguments);
        let next = self
            .places
            .values()
            .copied()
            .max()
            .map_or(self.frames[0].code.len() + 1, |last| last + LARGEST + 2);
        let first = *self.places.entry(at).or_insert(next);
        let moved = proto.code.iter().map(|i| moved(*i, window));
        let code: Vec<Instr> = moved.map(|i| i.expect("what is inlined can be moved")).collect();
        let constants = self.load(Type::I64, inst, layout::INST_CONSTANTS);
        // What the caller has above the arguments is over.
        self.forget_from(called + if proto.is_vararg { arguments } else { arguments.min(parameters) }, at);
        for r in called + arguments..called + parameters {
            self.define_plain(r, Tag::NIL);
        }
        if window != called {
            // Function and parameters move above the arguments, as `VARARGPREP` moves them.
            self.pass_register(window - layout::GAP as usize, called - layout::GAP as usize);
            (0..parameters).for_each(|n| self.pass_register(window + n, called + n));
        }
        let extra = arguments.saturating_sub(parameters);
        let outer = (self.frame, self.log, self.proto, self.constants, self.stepped);
        let share = (self.calls_there(at) / log.calls().max(1) as f64).min(1.0);
        self.in_place.insert((self.log.function(), at - self.own().first), log.function());
        let length = code.len();
        let (caller, call) = match tails {
            0 => (self.frame, Some(at)),
            _ => (self.own().caller, self.own().call),
        };
        let lowest = pcall.map_or(called, |pcall| pcall.window) - layout::GAP as usize;
        let after = self.frames[caller as usize].live_behind(call.expect("an inlined frame"));
        // Function, and extra arguments, which are below the frame.
        let own = Registers::range(called - layout::GAP as usize, window - called + 1);
        let kept = after.and(Registers::range(0, lowest)).or(own);
        // Where a jump finds its condition.
        let after = after.or(Registers::range(called - layout::GAP as usize, 1));
        let live = self.live_of(log);
        self.frames.push(Frame {
            log,
            live,
            kept,
            after,
            code,
            first,
            window,
            called,
            extra,
            caller,
            call,
            ends,
            pcall,
            tails,
            share,
            constants,
        });
        self.frame = (self.frames.len() - 1) as u16;
        (self.log, self.proto, self.constants) = (log, proto, constants);
        for place in first..first + length {
            self.at = place.saturating_sub(1).max(first);
            self.arrive(place);
            self.at = place;
            self.forget_dead(place);
            if self.now.is_some() {
                self.b.set_place(place as u32);
                // The one before it has done this one as well.
                if self.done.take() != Some(place) {
                    self.instruction(place);
                }
            }
        }
        debug_assert!(self.now.is_none(), "a function ends with a return");
        self.at = first + length - 1;
        self.arrive(first + length);
        (self.frame, self.log, self.proto, self.constants, self.stepped) = outer;
        self.at = at;
        self.b.set_place(at as u32);
    }

    /// Nothing is known of the registers from `r` on any more.
    pub(super) fn forget_from(&mut self, r: usize, at: usize) {
        let Some(now) = &mut self.now else { return };
        for r in r..now.registers.len() {
            now.registers[r] = Register::UNKNOWN;
            now.renew(r, Name::made(at, r));
        }
    }
}
