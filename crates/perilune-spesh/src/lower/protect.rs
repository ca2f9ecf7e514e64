//! Protected calls: what `pcall` and `xpcall` call is built in place, like any other function (`inline.rs`).
//!
//! Its frame lies where the interpreter would have it, above that of `pcall`, so its arguments move up. As
//! long as nobody looks there is a record of neither; but the thread counts the calls of `pcall` that it is
//! in, and this one is counted where it begins: a record says what the count was before, and that is known
//! from the count and from how many such functions are built in each other ([`Lowering::write_records`],
//! `perilune_vm::machine`, `points.rs`).
//!
//! An error finds the records written, since whatever may raise one has seen to it. It drops the native
//! frame, and machine code is entered anew behind the call. So where a call has failed while it was recorded
//! there is an entry behind it, in loops too, and nothing is known of its results; but one that has always
//! failed, or is in a function that is built in place, is left to the interpreter (`perilune_vm::machine`,
//! `callees.rs`), which comes back.

use super::inline::{Inlined, Pcall, is_call_of_lua, needs};
use super::{EXITED, Lowering, Register, Val};
use crate::ssa::{IntCC, Type};
use perilune_syntax::Op;
use perilune_vm::machine::{LEAVE, Log, Protected, layout};
use perilune_vm::{Kind, Native, Tag};

impl<'a> Lowering<'a, '_> {
    /// `CALL` of `pcall` or `xpcall` with one function of Lua, which is built in place if it may be; whether
    /// it has.
    pub(super) fn protect(&mut self, at: usize) -> bool {
        let Some((native, log)) = self.to_protect(at) else { return false };
        let fails = self.has_failed(at);
        let i = self.code(at);
        let a = i.a() as usize;
        let own = a + layout::GAP as usize;
        let has_handler = native.kind == Kind::Xpcall;
        let function = own + has_handler as usize;
        // `pcall` has the function, `xpcall` also its handler, as first arguments.
        let arguments = i.b() as usize - 2 - has_handler as usize;
        let window = function + layout::GAP as usize;
        let other = self.exit_block(at, EXITED);
        self.is_native(a, native, other);
        let (closure, inst) = self.function_in(own, log, other);
        let handler = has_handler.then(|| self.closure_in(own + 1, other));
        let leave = self.exit_block(at, LEAVE);
        self.try_leaving(leave);
        self.has_registers(window + needs(log, arguments), leave);
        let (thread, before) = self.nested();
        let vm = self.vm;
        let calls = self.load(Type::I32, vm, layout::VM_NESTED);
        let all = self.b.iadd(before, calls);
        let fits = self.icmp_imm(IntCC::UnsignedLessThan, all, layout::MOST_NESTED as i64);
        self.unless(fits, leave);
        // The last first: each place is above where it comes from.
        for n in (0..arguments).rev() {
            self.pass_register(window + n, function + 1 + n);
        }
        let tag = self.b.iconst(Type::I8, Tag::CLOSURE.0 as i64);
        if let Some(handler) = handler {
            self.put(own, tag, handler);
            self.put(function, tag, closure);
        }
        // What lies between is records, as soon as somebody looks.
        if let Some(now) = &mut self.now {
            for r in (a + 1..window).filter(|r| *r != own && *r != function) {
                now.registers[r] = Register::UNKNOWN;
                now.renew(r, super::Name::made(at, r));
            }
        }
        let count = self.iadd_imm(before, 1);
        self.store(count, thread, layout::THREAD_PCALLS);
        let pcall = Some(Pcall { window: own, has_handler });
        self.build_here(at, Inlined { log, inst, window, arguments, ends: None, pcall, tails: 0 });
        let results = i.c() as usize - 1;
        self.forget_from(a + results.max(1), at);
        if fails {
            // Of an error they are others.
            for r in a..a + results {
                self.flush(r);
                self.set_unknown(r);
            }
            self.come_back(at);
        } else if !self.loops.iter().any(|l| (l.head..=l.back).contains(&at)) {
            self.come_back(at);
        }
        true
    }

    /// The native that the call at `at` has always called, and what it has always called, if that is to be
    /// built in place.
    fn to_protect(&self, at: usize) -> Option<(&'static Native, &'a Log)> {
        let (i, site) = (self.code(at), self.site(at));
        let native = site.native.filter(|_| !site.natives && !site.has_upvalues)?;
        let own = match native.kind {
            Kind::Pcall => 1,
            Kind::Xpcall => 2,
            _ => return None,
        };
        let arguments = (i.b() as usize).checked_sub(1 + own)?;
        let has_entry = self.frame == 0 && self.returns.contains_key(&at) && site.result.contains(Tag::TRUE);
        if i.c() == 0 || self.has_failed(at) && !has_entry || self.is_suspect(at) {
            return None;
        }
        let window = i.a() as usize + 2 * layout::GAP as usize + own - 1;
        let log = self.to_build_there(at, window, arguments, self.frame)?;
        // One that ends by calling another has to have its record below that one's.
        let ends_plainly = |(at, i): (usize, &perilune_syntax::Instr)| {
            i.op() != Some(Op::TailCall) || log.site(at).times() == 0 || !is_call_of_lua(log, at)
        };
        log.proto().code.iter().enumerate().all(ends_plainly).then_some((native, log))
    }

    /// Whether the call at `at` has failed while it was recorded: where a result is wanted that is what it
    /// says.
    fn has_failed(&self, at: usize) -> bool {
        self.code(at).c() > 1 && self.site(at).result.only() != Some(Tag::TRUE)
    }

    /// The running thread, and how many calls of `pcall` it is in.
    fn nested(&mut self) -> (Val, Val) {
        let vm = self.vm;
        let thread = self.load(Type::I64, vm, layout::VM_THREAD);
        (thread, self.load(Type::I32, thread, layout::THREAD_PCALLS))
    }

    /// The call of `pcall` that the function that is being built was called by is over.
    pub(super) fn end_pcall(&mut self) {
        let (thread, count) = self.nested();
        let count = self.iadd_imm(count, -1);
        self.store(count, thread, layout::THREAD_PCALLS);
    }

    /// The call of `pcall` in the function that calls frame `frame` at `call`, if it is one.
    pub(super) fn protected(&self, frame: super::facts::FrameNumber, call: usize) -> Option<Protected> {
        let own = &self.frames[frame as usize];
        let pcall = own.pcall?;
        let caller = &self.frames[own.caller as usize];
        let results = caller.log.proto().code[call - caller.first].c() as i16 - 1;
        let delta = (pcall.window - caller.window()) as u32;
        let words = layout::pcall_words(delta, results, pcall.has_handler);
        Some(Protected { window: pcall.window as u32, words })
    }

    /// Writes the record of `pcall`; `nested`: how many the thread was in before the one that was written
    /// last. How many before this one.
    pub(super) fn write_pcall(&mut self, pcall: &Protected, nested: Option<Val>) -> Val {
        let inside = match nested {
            Some(nested) => nested,
            None => self.nested().1,
        };
        let before = self.iadd_imm(inside, -1);
        let base = self.b.use_var(self.base);
        let at = Self::slot(pcall.window as usize);
        let none = self.b.iconst(Type::I64, 0);
        self.store(none, base, layout::FRAME_PC + at);
        self.store(none, base, layout::FRAME_CONSTANTS + at);
        let word = self.b.iconst(Type::I64, pcall.words.0 as i64);
        self.store(word, base, layout::FRAME_CALL + at);
        let wide = self.b.uextend(Type::I64, before);
        let wide = self.ishl_imm(wide, 32);
        let second = self.bor_imm(wide, pcall.words.1 as i64);
        self.store(second, base, layout::FRAME_TAG1 + at);
        before
    }
}
