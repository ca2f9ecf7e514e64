//! Hooks (manual 6.10, `debug.sethook`): the dispatch table that looks at them, and the events.
//!
//! While the running coroutine has a hook, `vm.dispatch` is the *hooked* table, whose every entry
//! is [`op_hooked`]: it reports what is due before the instruction, then jumps to the plain handler, passing
//! the hooked table on. So code without hooks pays nothing.
//!
//! # When events happen
//! - *call*: at the first instruction of a Lua function; of a vararg function at the second, when
//!   `VARARGPREP` has made the frame what the hook may look at. A loop may come back to that instruction; the
//!   backward jump says so (`hook_looped`).
//! - *return*: before a return instruction, or after it has closed its variables. Natives: before results are
//!   delivered.
//! - *line*: when the next instruction is on another line than the last one looked at (`hook_pc`), or not
//!   behind it.
//! - *count*: every so many instructions.
//!
//! Only frames of the program have events ([`Role`]): neither the host's nor the stubs by which natives call.
//!
//! A hook runs on the stack of the code it interrupts, above its registers. It cannot yield, and no hook
//! interrupts it. `F_HOOK` marks the interrupted frame meanwhile, which is how the hook's own frame gets its
//! name. The hook may move the stack: whoever calls one reads `vm.base` again.

use super::{flow, frame_ceiling, frame_closure, op, save};
use crate::Vm;
use crate::debug::Role;
use crate::frame::{CALL_GAP, CONT_NONE, F_HOOK, F_NATIVE, F_TAIL, frame};
use crate::machine::{Machine, STOP, STOP_WATCHED};
use crate::names;
use crate::native::LuaResult;
use crate::object::Thread;
use crate::value::{Gc, Stores, Tag, Value};
use perilune_syntax::{Instr, Op};

/// Bit of a hook's mask: calls.
pub const HOOK_CALL: u8 = 1;
/// Bit of a hook's mask: returns.
pub const HOOK_RETURN: u8 = 2;
/// Bit of a hook's mask: lines.
pub const HOOK_LINE: u8 = 4;
/// Bit of a hook's mask: instruction counts.
pub const HOOK_COUNT: u8 = 8;

op!(
    /// Every opcode's entry in the hooked table: the events that are due, then the plain handler.
    #[inline(never)] op_hooked(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    if let Err(e) = (*vm).trace(i) {
        flow!(vm, Err(e))
    }
    let base = (*vm).lua.base;
    let tab = (*vm).lua.dispatch;
    if i.op_byte() == Op::Call as u8 && (*base.add(i.a() as usize)).tag() != Tag::CLOSURE {
        // Past the short way for leaves, which knows no hooks.
        return super::hooks::op_hooked_call(vm, base, pc, k, i.0, tab);
    }
    (super::HANDLERS.0[i.op_byte() as usize])(vm, base, pc, k, i.0, tab)
});

op!(
    /// A call of something that is no Lua function.
    #[inline(never)] op_hooked_call(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    if i.b() != 0 {
        (*vm).lua.top = func.add(CALL_GAP + i.b() as usize - 1);
    }
    flow!(vm, (*vm).start_call(func, i.c() as i16 - 1, 0, CONT_NONE, 0))
});

impl Vm {
    /// Picks the dispatch table: there are several reasons for another than the plain one, and they may come
    /// together.
    pub(crate) fn update_dispatch(&mut self) {
        // SAFETY: there is always a running coroutine.
        let hooked = unsafe { (*self.lua.thread).hook_mask != 0 };
        let own = self.lua.seen.sampler.table();
        let distrusted = self.lua.machine.distrusted;
        let counted = self.lua.seen.counter.is_some();
        let sampled = self.lua.seen.sampler.samples_allocations();
        self.lua.machine.sampled = sampled;
        self.lua.machine.watched =
            hooked || distrusted || counted || sampled || self.lua.seen.checker.is_some();
        // Who looks at instructions comes before who does them faster.
        self.lua.machine.outside = match () {
            _ if hooked => &raw const super::HOOKED,
            _ if !own.is_null() => own,
            _ if self.lua.seen.checker.is_some() => &raw const super::checked::CHECKED,
            _ if counted => &raw const super::counted::COUNTED,
            _ => self.lua.machine.table(),
        };
        if !own.is_null() {
            self.lua.seen.sampler.follow_plain();
        }
        // Machine code that runs has to have every instruction left to it.
        self.lua.dispatch = match self.lua.machine {
            Machine { running: true, watched: true, .. } => &raw const STOP_WATCHED,
            Machine { running: true, .. } => &raw const STOP,
            Machine { outside, .. } => outside,
        };
    }

    /// Whether the running coroutine has a hook.
    #[inline(always)]
    pub(crate) fn hooks_active(&self) -> bool {
        // SAFETY: there is always a running coroutine.
        unsafe { (*self.lua.thread).hook_mask != 0 }
    }

    /// Sets the hook of a coroutine: a function, the events it wants (`HOOK_CALL` and so on), and for counts
    /// every how many instructions. An empty mask removes it.
    pub fn set_hook(&mut self, th: Gc<Thread>, hook: Value, mask: u8, count: i32) {
        self.heap.stored_into(th);
        let th = th.ptr();
        // SAFETY: a live coroutine.
        unsafe {
            (*th).hook = if mask == 0 { Value::NIL } else { hook };
            (*th).hook_mask = mask;
            (*th).hook_count = count;
            (*th).hook_left = count;
        }
        self.update_dispatch();
    }

    /// The hook of a coroutine, its mask and count; `None` if it has none.
    pub fn hook_of(&self, th: Gc<Thread>) -> Option<(Value, u8, i32)> {
        (th.hook_mask != 0).then_some((th.hook, th.hook_mask, th.hook_count))
    }

    /// What is due before instruction `i` of the running frame, whose pc is stored.
    #[inline(never)]
    unsafe fn trace(&mut self, i: Instr) -> LuaResult<()> {
        // SAFETY: the running frame is a Lua frame; it is looked up again after each event.
        unsafe {
            if self.lua.seen.sampler.is_sprung() {
                self.take_samples();
            }
            if self.running_role() != Role::Program {
                return Ok(());
            }
            let th = self.lua.thread;
            let proto = (*frame_closure(self.lua.base)).inst().proto();
            let pc = names::current_pc(self.lua.base);
            if pc == 0 && proto.is_vararg {
                return Ok(());
            }
            // The mask is read anew for each event: a hook may set another one.
            let open = i.uses_top();
            if !open {
                self.lua.top = frame_ceiling(self.lua.base);
            }
            let looped = std::mem::replace(&mut (*th).hook_looped, false);
            if pc == proto.is_vararg as usize && !looped {
                (*th).hook_pc = pc as i32;
                if (*th).hook_mask & HOOK_CALL != 0 {
                    let tail = (*frame(self.lua.base)).flags & F_TAIL != 0;
                    let event = if tail { "tail call" } else { "call" };
                    self.run_hook(event, None, (1, proto.num_params as u32))?;
                    (*th).hook_pc = pc as i32;
                }
            }
            if (*th).hook_mask & HOOK_COUNT != 0 {
                (*th).hook_left -= 1;
                if (*th).hook_left <= 0 {
                    (*th).hook_left = (*th).hook_count;
                    self.run_hook("count", None, (0, 0))?;
                }
            }
            if (*th).hook_mask & HOOK_LINE != 0 {
                let last = usize::try_from((*th).hook_pc).ok().filter(|&n| n < proto.code.len()).unwrap_or(0);
                if pc <= last || proto.line_at(last) != proto.line_at(pc) {
                    self.run_hook("line", proto.line_at(pc), (0, 0))?;
                }
                (*th).hook_pc = pc as i32;
            }
            match i.op() {
                Some(Op::JumpBack) => {
                    let target = pc as i64 + 1 + i.sj() as i64;
                    (*th).hook_looped = target == proto.is_vararg as i64;
                }
                Some(Op::Return0) => self.hook_return(self.lua.base.add(i.a() as usize), 0).map(|_| ())?,
                Some(Op::Return1) => self.hook_return(self.lua.base.add(i.a() as usize), 1).map(|_| ())?,
                Some(Op::Return) if i.d() == 0 => {
                    let first = self.lua.base.add(i.a() as usize);
                    let n = if open { self.lua.top.offset_from(first) as usize } else { i.b() as usize - 1 };
                    self.hook_return(first, n)?;
                }
                _ => {}
            }
            Ok(())
        }
    }

    /// A native function is about to run: its frame is the running one.
    #[cold]
    pub(crate) fn hook_call(&mut self) -> LuaResult<()> {
        // SAFETY: there is always a running coroutine.
        if unsafe { (*self.lua.thread).hook_mask } & HOOK_CALL == 0 {
            return Ok(());
        }
        self.run_hook("call", None, (1, self.nargs()))
    }

    /// The running frame returns the `n` values from `first` on. Gives back where they are afterwards.
    #[cold]
    pub(crate) unsafe fn hook_return(&mut self, first: *mut Value, n: usize) -> LuaResult<*mut Value> {
        // SAFETY: the values lie above the running frame's base; offsets survive a move of the stack.
        unsafe {
            let th = self.lua.thread;
            let mut first = first;
            if (*th).hook_mask & HOOK_RETURN != 0 {
                let f = frame(self.lua.base);
                let offset = first.offset_from(self.lua.base);
                let end = first.add(n);
                let native = (*f).flags & F_NATIVE != 0;
                self.lua.top = if native { end } else { end.max(frame_ceiling(self.lua.base)) };
                self.run_hook("return", None, ((offset + 1) as u32, n as u32))?;
                first = self.lua.base.offset(offset);
                self.lua.top = first.add(n);
            }
            let delta = (*frame(self.lua.base)).delta as usize;
            let parent = self.lua.base.sub(delta);
            if delta != 0 && (*frame(parent)).flags & F_NATIVE == 0 {
                (*th).hook_pc = names::current_pc(parent) as i32;
            }
            Ok(first)
        }
    }

    /// Calls the hook of the running coroutine, if none is running, and leaves base and top as they were (in
    /// a stack that may have moved).
    #[inline(never)]
    fn run_hook(&mut self, event: &str, line: Option<u32>, transfer: (u32, u32)) -> LuaResult<()> {
        let th = self.lua.thread;
        // SAFETY: the running coroutine stays alive and comes back to this stack; offsets survive a move of
        // it.
        unsafe {
            let hook = (*th).hook;
            if (*th).in_hook || !hook.is_function() || self.running_role() != Role::Program {
                return Ok(());
            }
            let stack = (*th).stack;
            let (base, top) = (self.lua.base.offset_from(stack), self.lua.top.offset_from(stack));
            let event = self.value_str(event.as_bytes())?;
            let line = line.map_or(Value::NIL, |n| Value::int(n as i64));
            (*th).in_hook = true;
            // Without values there is no first one.
            (*th).transfer_first = if transfer.1 == 0 { 0 } else { transfer.0 };
            (*th).transfer_count = transfer.1;
            self.lua.no_yield += 1;
            (*frame(self.lua.base)).flags |= F_HOOK;
            self.set_top_for_call();
            let result = self.call_multi(hook, &[event, line], 0);
            let stack = (*th).stack;
            (*frame(stack.offset(base))).flags &= !F_HOOK;
            self.lua.no_yield -= 1;
            (*th).in_hook = false;
            result?;
            self.lua.base = stack.offset(base);
            self.lua.top = stack.offset(top);
            Ok(())
        }
    }
}
