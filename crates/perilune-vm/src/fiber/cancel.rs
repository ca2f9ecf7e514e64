//! Cancelling fibers, and giving them up. The essay is in `fiber.rs`.
//!
//! A fiber is cancelled by itself, so to speak: somebody asks for it, and the fiber's own next step raises
//! the error that nothing catches. One that is given up ([`Vm::drop_fiber`]) runs no more Lua code at all:
//! only the native calls in it are made to return.
//!
//! # Grace
//! Code that does not wait is cancelled too, at its next call or loop iteration. If it has just been given
//! something that is nowhere else any more (a line of a connection, a message), that would be lost between
//! the operation and its use. So each operation that may wait grants *grace* when it ends
//! ([`Vm::has_delivered`]): a cancellation that comes after it, or that came while it ended, strikes at the
//! next operation that may wait ([`Vm::end_grace`]), or after [`GRACE`] calls and loop iterations. A loop
//! that computes is cancelled all the same, and nothing depends on how fast a machine is. Grace is granted
//! once after a cancellation has become due: a loop over what is there already gets no more of it.
//!
//! Rejected: cancelling code only where it waits (a loop that computes would go on for ever); a time in place
//! of the count (a thread that does not get its core uses it up by doing nothing).

use super::{Cancel, FiberState, Phase};
use crate::Vm;
use crate::error::ErrorState;
use crate::frame::{CALL_GAP, Frame, frame};
use crate::native::{LuaResult, Signal, Thrown};
use crate::object::{Status, Thread};
use crate::value::Gc;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Calls and loop iterations that code gets to use what it was given, when a cancellation is due.
const GRACE: u32 = 1000;

impl Vm {
    /// The running native, which may wait, ends now: what it returns is used before a cancellation strikes
    /// (module essay).
    #[inline]
    pub fn has_delivered(&mut self) {
        if self.lua.fibers.grace_is_used {
            return;
        }
        self.lua.fibers.grace = GRACE;
        if self.lua.interrupt.load(Ordering::Relaxed) & crate::interrupt::CANCEL != 0 {
            self.lua.fibers.grace_is_used = self.cancellation_due();
        }
    }

    /// A native that may wait begins: a cancellation that has waited strikes now.
    ///
    /// # Errors
    /// The cancellation, or another interrupt.
    #[inline]
    pub fn end_grace(&mut self) -> LuaResult<()> {
        self.lua.fibers.grace = 0;
        if self.lua.fibers.grace_is_used { self.poll_interrupt() } else { Ok(()) }
    }

    /// Nothing holds a cancellation back: the running code asks for one itself, or a native blocks. It
    /// strikes at the next call or loop iteration.
    pub fn forgo_grace(&mut self) {
        self.lua.fibers.grace = 0;
    }

    /// What the running native has waited for was cancelled. If the running fiber is to be cancelled too,
    /// that says it all.
    ///
    /// # Errors
    /// The cancellation, or another interrupt.
    pub fn give_in(&mut self) -> LuaResult<()> {
        self.forgo_grace();
        self.poll_interrupt()
    }

    /// Whether a cancellation that is due waits still. Counts.
    pub(crate) fn uses_grace(&mut self) -> bool {
        let fibers = &mut self.lua.fibers;
        fibers.grace_is_used = true;
        let left = fibers.grace.checked_sub(1);
        fibers.grace = left.unwrap_or(0);
        left.is_some()
    }

    /// Asks for a fiber to be cancelled: its next run unwinds it. A new one ends without having run. Whoever
    /// calls this runs the fiber soon: it need not be woken.
    pub fn cancel_fiber(&mut self, fiber: Gc<Thread>) {
        let state = self.fiber_state_mut(fiber);
        if state.cancel == Cancel::No {
            state.cancel = Cancel::Requested;
        }
        if self.lua.fibers.current == fiber.ptr() {
            self.lua.interrupt.fetch_or(crate::interrupt::CANCEL, Ordering::Relaxed);
        }
    }

    /// Is the running fiber, or the root chain, to be cancelled?
    pub(crate) fn cancellation_due(&mut self) -> bool {
        let Some(fiber) = self.current_fiber() else {
            return self.lua.hosting.host.as_ref().is_some_and(|h| h.is_cancelled(None));
        };
        let state = self.fiber_state(fiber);
        match state.cancel {
            Cancel::Raised => false,
            Cancel::Requested => true,
            Cancel::No => self.lua.hosting.host.as_ref().is_some_and(|h| h.is_cancelled(Some(state.tag))),
        }
    }

    /// Raises the error that nothing catches.
    pub(crate) fn throw_cancellation(&mut self) -> Thrown {
        if let Some(fiber) = self.current_fiber() {
            self.fiber_state_mut(fiber).cancel = Cancel::Raised;
        }
        // Its value is what closing methods get as the error, and hosts.
        let _ = self.error_plain("cancelled");
        self.lua.errors.handled = true;
        self.set_signal(Signal::Cancel)
    }

    /// Gives up a fiber that will never run again: native code in it is made to return, variables are not
    /// closed. For the end of a domain; whoever wants variables closed cancels the fiber and runs it.
    pub fn drop_fiber(&mut self, fiber: Gc<Thread>) {
        let th = fiber.ptr();
        let state: *mut FiberState = self.fiber_state_mut(fiber);
        // SAFETY: a live fiber that does not run; the state of the Vm is put back as it was.
        unsafe {
            match (*state).phase {
                Phase::New => {}
                Phase::Parked => {
                    let top = (*state).top;
                    let inner = (*state).inner;
                    let previous = self.lua.thread;
                    let kept = (self.lua.c_calls, self.lua.fibers.current);
                    if !inner.is_null() {
                        (*th).resumer = previous;
                        self.lua.fibers.current = th;
                        self.lua.c_calls = (*state).c_calls;
                        let errors = std::mem::replace(&mut self.lua.errors, ErrorState::discarding());
                        self.switch_to(top);
                        self.discard_on_native_stack(inner);
                        self.lua.errors = errors;
                        self.switch_to(previous);
                    }
                    (self.lua.c_calls, self.lua.fibers.current) = kept;
                    let mut co = top;
                    while !co.is_null() && co != previous {
                        (*co).standing.set(Status::Dead);
                        let below = std::mem::replace(&mut (*co).resumer, null_mut());
                        self.abandon_frames(co);
                        if co == th {
                            break;
                        }
                        co = below;
                    }
                }
                p => panic!("drop_fiber of a fiber that is {p:?}"),
            }
            self.forget_fiber(th);
        }
    }

    /// A coroutine's frames will never run: upvalues keep their values, the rest goes.
    unsafe fn abandon_frames(&mut self, th: *mut Thread) {
        // SAFETY: a coroutine that does not run.
        unsafe {
            (*th).tbc = 0;
            (*th).pcalls = 0;
            (*th).depth = 0;
            (*th).no_yield = 0;
            (*th).closing = false;
            let previous = self.lua.thread;
            if !(*th).open_upvals.is_null() {
                self.switch_to(th);
                let bottom = (*th).stack;
                self.close_upvalues(bottom);
                self.switch_to(previous);
            }
            (*th).base = (*th).stack.add(CALL_GAP);
            (*th).top = (*th).base;
            *frame((*th).base) = Frame::native(0, 0);
            self.heap.barrier(Gc::from_ptr(th).obj());
        }
    }

    /// Ends a fiber that has no frames.
    pub(super) unsafe fn forget_fiber(&mut self, th: *mut Thread) {
        // SAFETY: the caller's promise.
        unsafe {
            (*(*th).fiber).phase = Phase::Ended;
            (*(*th).fiber).traceback = Vec::new();
            self.retire_fiber(th);
        }
    }

    /// All live fibers.
    pub fn fibers(&self) -> Vec<Gc<Thread>> {
        let mut all = Vec::with_capacity(self.lua.fibers.live);
        let mut th = self.lua.fibers.head;
        while !th.is_null() {
            // SAFETY: live fibers are roots, linked through their states.
            unsafe {
                all.push(Gc::from_ptr(th));
                th = (*(*th).fiber).next;
            }
        }
        all
    }

    /// Gives up all fibers: the state is going away.
    pub(crate) fn release_fibers(&mut self) {
        for fiber in self.fibers() {
            if self.fiber_state(fiber).phase != Phase::Running {
                self.drop_fiber(fiber);
            }
        }
        while !self.lua.fibers.spare.is_null() {
            let th = self.lua.fibers.spare;
            // SAFETY: spare fibers own their states.
            unsafe {
                let state = Box::from_raw((*th).fiber);
                (*th).fiber = null_mut();
                self.lua.fibers.spare = state.next;
            }
        }
        self.lua.fibers.spare_count = 0;
    }
}
