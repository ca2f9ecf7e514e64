//! Finalisers (manual 2.5.3): registering objects, calling `__gc` of those found dead.

use crate::Vm;
use crate::frame::{F_FIN, frame};
use crate::meta::Event;
use crate::object::TABLE_FINALIZE;
use crate::value::Value;
use perilune_trace::emit;
use perilune_trace::event::{self, Count};

impl Vm {
    /// Lists `v` for finalisation, once.
    pub(crate) fn register_finalizer(&mut self, v: Value) {
        let Some(o) = v.obj() else { return };
        // SAFETY: a live object; its client flags belong to this thread.
        unsafe {
            let h = o.as_ptr();
            if (*h).flags & TABLE_FINALIZE == 0 {
                (*h).flags |= TABLE_FINALIZE;
                self.lua.gc.finalizable.push(v);
            }
        }
    }

    /// Calls the finalisers of the objects found dead. An error in one is a warning. Before that the stacks
    /// shrink, whose moving is like a call.
    pub(crate) fn run_finalizers(&mut self) {
        if self.lua.gc.finalizing || self.lua.errors.is_discarding() {
            return;
        }
        self.shrink_stacks();
        if !self.lua.gc.cancelled.is_empty() || !self.lua.gc.pending.is_empty() {
            self.lua.gc.disturbances = self.lua.gc.disturbances.wrapping_add(1);
        }
        self.cancel_dead_native_stacks();
        if self.lua.gc.pending.is_empty() {
            return;
        }
        self.lua.gc.finalizing = true;
        emit(event::FinalizeBegin {});
        let mut count = 0;
        self.lua.no_yield += 1;
        let outer = self.lua.errors.set_aside();
        // SAFETY: the running frame is complete; what finalisers push goes above its ceiling.
        unsafe {
            let stack = (*self.lua.thread).stack;
            let top = self.lua.top.offset_from(stack);
            self.set_top_for_call();
            // The error that was on its way stays reachable.
            *self.lua.top = outer.value;
            self.lua.top = self.lua.top.add(1);
            while let Some(v) = self.lua.gc.pending.pop() {
                count += 1;
                if let Some(o) = v.obj() {
                    (*o.as_ptr()).flags &= !TABLE_FINALIZE;
                }
                let f = self.metamethod(v, Event::Gc);
                // Whatever it is: what cannot be called is an error, and so a warning.
                if !f.is_nil() {
                    self.finalize(f, v);
                }
            }
            self.lua.top = (*self.lua.thread).stack.offset(top);
        }
        self.lua.errors = outer;
        self.lua.no_yield -= 1;
        emit(event::FinalizeEnd { run: Count(count) });
        self.lua.gc.finalizing = false;
    }

    fn finalize(&mut self, f: Value, v: Value) {
        if let Err(e) = self.protected_call_flagged(f, v) {
            let text = match e.as_string() {
                Some(s) => s.to_text(),
                None => "error object is not a string".to_string(),
            };
            self.warning(&format!("error in __gc ({text})"));
        }
    }

    fn protected_call_flagged(&mut self, f: Value, v: Value) -> Result<(), Value> {
        // SAFETY: offsets into the running stack.
        let top = unsafe { self.lua.top.offset_from((*self.lua.thread).stack) };
        // SAFETY: base is the running frame before and after, wherever the stack has moved. No hook sees a
        // finaliser.
        unsafe {
            let in_hook = std::mem::replace(&mut (*self.lua.thread).in_hook, true);
            (*frame(self.lua.base)).flags |= F_FIN;
            let result = match self.protected_call(f, &[v]) {
                Ok(outcome) => outcome.map(|_| ()),
                // Nothing else reaches a finaliser: the state begins with nothing on its way, waits and
                // cancellations wait until it is over.
                Err(thrown) => Err(self.host_error(thrown)),
            };
            (*frame(self.lua.base)).flags &= !F_FIN;
            (*self.lua.thread).in_hook = in_hook;
            self.lua.top = (*self.lua.thread).stack.offset(top);
            result
        }
    }

    /// Calls all finalisers that are left, in reverse order of registration (`lua_close`).
    pub fn close(&mut self) {
        self.lua.gc.old.finalizable = 0;
        let mut all = std::mem::take(&mut self.lua.gc.finalizable);
        all.append(&mut self.lua.gc.pending);
        self.lua.gc.pending = all;
        self.lua.gc.finalizing = false;
        self.run_finalizers();
    }
}
