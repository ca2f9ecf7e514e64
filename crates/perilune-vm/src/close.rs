//! Upvalues and to-be-closed variables: what happens when a stack slot goes out of scope.
//!
//! Open upvalues of a thread form a list, topmost slot first, linked through the payload of `closed`.
//! To-be-closed variables form a list too: the thread knows the topmost one, and each marked slot keeps, in
//! the padding behind its tag, the distance to the one below. The slot of a to-be-closed variable is never
//! assigned while it is marked (the compiler sees to it), so the padding survives. A binary chunk may break
//! that, or mark the same slot again: then variables are forgotten or closed with another value, but the list
//! stays one of ever lower slots of this stack.

use crate::Vm;
use crate::error::ErrorState;
use crate::frame::{CALL_GAP, Frame, frame};
use crate::interp::{Flow, copy};
use crate::meta::Event;
use crate::native::{LuaResult, Signal, Thrown};
use crate::object::{Status, Upval};
use crate::value::{Gc, Tag, Value};

/// The distance kept in the padding of a marked slot: four bytes, 12 bytes in.
unsafe fn tbc_delta(slot: *mut Value) -> *mut u32 {
    // SAFETY: a Value is 16 bytes, of which the last seven are padding.
    unsafe { (slot as *mut u8).add(12) as *mut u32 }
}

impl Vm {
    /// The open upvalue for `slot` of the running stack, made if there is none.
    pub(crate) unsafe fn find_upvalue(&mut self, slot: *mut Value) -> *mut Upval {
        // SAFETY: the list belongs to the running thread and is ordered by address.
        unsafe {
            let mut link: *mut *mut Upval = &raw mut (*self.lua.thread).open_upvals;
            while !(*link).is_null() && (**link).v >= slot {
                if (**link).v == slot {
                    return *link;
                }
                let closed_link = &raw mut (**link).closed;
                link = Value::link(closed_link) as *mut *mut Upval;
            }
            let next = *link;
            let obj = self.heap.alloc(Tag::UPVAL.0, size_of::<Upval>());
            let uv = obj.as_ptr() as *mut Upval;
            (*uv).open(slot, next, self.lua.thread);
            *link = uv;
            uv
        }
    }

    /// To be called with every store of a reference through `uv`. An open one's variable is a slot of a
    /// stack, for which the coroutine accounts: one that runs, or waits for one that does, is traced in every
    /// collection and logged when it stops (`switch_to`), any other is logged here.
    pub(crate) unsafe fn barrier_upvalue(&mut self, uv: *mut Upval) {
        // SAFETY: a live upvalue; it keeps its coroutine alive.
        unsafe {
            self.heap.barrier(Gc::from_ptr(uv).obj());
            if let Some(th) = (*uv).owner()
                && !matches!((*th).standing.status(), Status::Running | Status::Normal)
            {
                self.heap.barrier(Gc::from_ptr(th).obj());
            }
        }
    }

    /// Closes all open upvalues at `level` and above.
    #[inline]
    pub(crate) unsafe fn close_upvalues(&mut self, level: *mut Value) {
        // SAFETY: as `find_upvalue`.
        unsafe {
            let th = self.lua.thread;
            loop {
                let uv = (*th).open_upvals;
                if uv.is_null() || (*uv).v < level {
                    return;
                }
                (*th).open_upvals = (*uv).closed.payload() as *mut Upval;
                let from = (*uv).v;
                copy(&raw mut (*uv).closed, from);
                (*uv).v = &raw mut (*uv).closed;
                self.heap.barrier(Gc::from_ptr(uv).obj());
            }
        }
    }

    /// Marks the variable at `slot` to be closed. False and nil need no closing; anything else must have a
    /// `__close`.
    pub(crate) unsafe fn mark_tbc(&mut self, slot: *mut Value) -> LuaResult<()> {
        // SAFETY: a register of the running frame.
        unsafe {
            let v = *slot;
            if v.is_falsy() {
                return Ok(());
            }
            if self.metamethod(v, Event::Close).is_nil() {
                let name = self.local_name_at(slot).unwrap_or_else(|| "?".into());
                return Err(self.error(format!("variable '{name}' got a non-closable value")));
            }
            let th = self.lua.thread;
            let at = slot.offset_from((*th).stack) as u32;
            while self.pop_tbc(slot).is_some() {}
            *tbc_delta(slot) = at - (*th).tbc;
            (*th).tbc = at;
            Ok(())
        }
    }

    /// Unmarks the topmost to-be-closed variable at or above `level` and returns its slot.
    unsafe fn pop_tbc(&mut self, level: *mut Value) -> Option<*mut Value> {
        // SAFETY: the list holds slots of the running stack.
        unsafe {
            let th = self.lua.thread;
            if (*th).tbc == 0 {
                return None;
            }
            let slot = (*th).stack.add((*th).tbc as usize);
            if slot < level {
                return None;
            }
            let delta = *tbc_delta(slot);
            (*th).tbc = if delta == 0 { 0 } else { (*th).tbc.saturating_sub(delta) };
            Some(slot)
        }
    }

    /// Leaves the block whose variables start at register `a`: closes upvalues and variables, without an
    /// error.
    pub(crate) unsafe fn close_level(&mut self, a: usize) -> LuaResult<()> {
        // SAFETY: the running frame; the stack may move in every call, so the level is recomputed.
        unsafe {
            loop {
                let level = self.lua.base.add(a);
                // All of them before the first method: what it assigns to a variable of the block is not what
                // the block returns.
                self.close_upvalues(level);
                let Some(slot) = self.pop_tbc(level) else { return Ok(()) };
                let v = *slot;
                let f = self.metamethod(v, Event::Close);
                self.call_close(f, v, Value::NIL)?;
            }
        }
    }

    fn call_close(&mut self, f: Value, v: Value, error: Value) -> LuaResult<()> {
        if f.is_nil() {
            let kind = f.type_name();
            return Err(self.error(format!("attempt to call a {kind} value (metamethod 'close')")));
        }
        // SAFETY: the top is above everything in use.
        let mark = unsafe { self.lua.top.offset_from((*self.lua.thread).stack) };
        self.call_multi(f, &[v, error], 0)?;
        // SAFETY: back to where it was, in the stack as it is now.
        unsafe { self.lua.top = (*self.lua.thread).stack.offset(mark) };
        Ok(())
    }

    /// Returns `n` values from `first` out of a frame that has something to close.
    pub(crate) unsafe fn return_closing(&mut self, base: *mut Value, first: *mut Value, n: usize) -> Flow {
        // SAFETY: the running frame; offsets survive a move of the stack.
        unsafe {
            if (*self.lua.thread).tbc != 0
                && (*self.lua.thread).stack.add((*self.lua.thread).tbc as usize) >= base
            {
                let offset = first.offset_from(base);
                let end = first.add(n);
                let ceiling = crate::interp::frame_ceiling(base);
                self.lua.top = if end > ceiling { end } else { ceiling };
                self.close_level(0)?;
                let base = self.lua.base;
                return self.return_hooked(base.offset(offset), n);
            }
            self.close_upvalues(base);
            self.return_hooked(first, n)
        }
    }

    /// Returns from the running frame, which has closed its variables.
    unsafe fn return_hooked(&mut self, mut first: *mut Value, n: usize) -> Flow {
        // SAFETY: as `return_closing`.
        unsafe {
            if self.hooks_active() {
                first = self.hook_return(first, n)?;
            }
            self.finish_return(self.lua.base, first, n)
        }
    }

    /// An error or a cancellation passes `level`: closes what is above it, with the error as argument; an
    /// error in a closing method replaces it. `base` is already the frame that stays.
    ///
    /// # Errors
    /// What is on its way from now on, if that is no longer what it was: a closing method was cancelled, or
    /// discarded.
    pub(crate) unsafe fn close_after_error(&mut self, level: *mut Value) -> LuaResult<()> {
        // SAFETY: offsets survive moves of the stack.
        unsafe {
            if self.lua.errors.is_discarding() {
                // Only native frames are made to return; the variables are closed by `close_coroutine`, or
                // never.
                return Ok(());
            }
            // The methods run as if nothing was on its way.
            let outer = self.lua.errors.set_aside();
            match self.close_with(level, Some(outer.value), outer.signal) {
                Ok(error) => {
                    self.lua.errors =
                        ErrorState { value: error.unwrap_or(Value::NIL), handled: true, ..outer };
                    Ok(())
                }
                Err(thrown) => Err(thrown),
            }
        }
    }

    /// Closes all variables of the main coroutine, as the end of the state does; errors in their methods go
    /// to the next method, and nowhere in the end. Nothing of the program may run afterwards.
    pub fn close_main_variables(&mut self) {
        // SAFETY: the frames that are still there are given up; the lowest record becomes that of a native
        // that stays.
        unsafe {
            if self.lua.thread != self.lua.roots.main_thread {
                self.switch_to(self.lua.roots.main_thread);
            }
            self.lua.base = (*self.lua.thread).stack.add(CALL_GAP);
            *frame(self.lua.base) = Frame::native(0, 0);
            self.lua.no_yield += 1;
            (*self.lua.thread).closing = true;
            // Nobody is left to be told.
            let _ = self.close_with((*self.lua.thread).stack, None, Signal::None);
            self.lua.errors = ErrorState::NONE;
            (*self.lua.thread).closing = false;
            self.lua.no_yield -= 1;
            self.lua.top = self.lua.base;
        }
    }

    /// Closes what is at `level` and above, with `error` as the methods' argument if there is one; the error
    /// in the end: that of the last method that failed, or `error`. `passing`: what is on its way in place of
    /// an error. Nobody gets the error of a method that fails while a cancellation is: the host is told.
    ///
    /// # Errors
    /// A cancellation that hit a method: the other methods have run undisturbed. That the coroutine is being
    /// discarded: nothing more has run.
    pub(crate) unsafe fn close_with(
        &mut self,
        level: *mut Value,
        mut error: Option<Value>,
        passing: Signal,
    ) -> LuaResult<Option<Value>> {
        // SAFETY: offsets survive moves of the stack.
        unsafe {
            let level = level.offset_from((*self.lua.thread).stack);
            let mut cancelled = false;
            loop {
                let at = (*self.lua.thread).stack.offset(level);
                self.close_upvalues(at);
                let Some(slot) = self.pop_tbc(at) else {
                    if cancelled {
                        self.lua.errors.value = error.unwrap_or(Value::NIL);
                        self.lua.errors.handled = true;
                        return Err(self.set_signal(Signal::Cancel));
                    }
                    return Ok(error);
                };
                let v = *slot;
                // Keep the error alive above the variable while the method runs.
                let argument = error.unwrap_or(Value::NIL);
                *slot.add(1) = argument;
                self.lua.top = slot.add(2);
                let f = self.metamethod(v, Event::Close);
                let base = self.lua.base.offset_from((*self.lua.thread).stack);
                let c_calls = self.lua.c_calls;
                self.lua.errors.handled = false;
                match self.call_close(f, v, argument) {
                    Ok(()) => {}
                    Err(thrown @ Thrown::Discard(_)) => return Err(thrown),
                    Err(thrown) => {
                        let signal = thrown.signal();
                        cancelled |= signal == Signal::Cancel;
                        self.lua.errors.signal = Signal::None;
                        self.lua.c_calls = c_calls;
                        let value = self.lua.errors.take_value();
                        if signal == Signal::None && passing == Signal::Cancel {
                            self.error_is_lost(value);
                        }
                        error = Some(value);
                    }
                }
                self.lua.base = (*self.lua.thread).stack.offset(base);
                self.lua.errors.handled = true;
            }
        }
    }

    #[cold]
    fn error_is_lost(&mut self, value: Value) {
        let fiber = self.current_fiber().map(|fiber| self.fiber_tag(fiber));
        if let Some(host) = self.lua.hosting.host.clone() {
            host.error_is_lost(fiber, value);
        }
    }

    /// The name of the local variable at `slot` of the running frame.
    unsafe fn local_name_at(&self, slot: *mut Value) -> Option<String> {
        // SAFETY: the running frame is a Lua frame; its pc was stored.
        unsafe {
            let base = self.lua.base;
            let register = slot.offset_from(base) as u8;
            let inst = (*crate::interp::frame_closure(base)).inst();
            let pc = inst.position((*frame(base)).pc) as u32;
            inst.proto()
                .locals
                .iter()
                .rev()
                .find(|l| l.register == register && l.start_pc <= pc + 1 && pc <= l.end_pc)
                .map(|l| String::from_utf8_lossy(&l.name).into_owned())
        }
    }
}
