//! Interrupts from outside: SIGINT, and later cancellation and profiling.

use crate::Vm;
use crate::native::LuaResult;
use std::sync::atomic::{AtomicU32, Ordering};

/// A way to interrupt a running state from another thread or a signal handler.
#[derive(Clone, Copy)]
pub struct InterruptHandle(*const AtomicU32);

// SAFETY: the handle only stores to an atomic; its owner keeps the Vm alive (documented at `Vm::interrupt_handle`).
unsafe impl Send for InterruptHandle {}
// SAFETY: as above.
unsafe impl Sync for InterruptHandle {}

impl InterruptHandle {
    /// Makes the running Lua code raise "interrupted!" at its next call or loop iteration. Async-signal-safe.
    pub fn raise(self) {
        // SAFETY: the Vm is alive (documented at `Vm::interrupt_handle`).
        unsafe { (*self.0).store(1, Ordering::Relaxed) }
    }

    /// An interrupt is pending: what long work that has no `Vm` at hand asks now and then, to give up.
    #[inline]
    pub fn is_raised(self) -> bool {
        // SAFETY: the Vm is alive (documented at `Vm::interrupt_handle`).
        unsafe { (*self.0).load(Ordering::Relaxed) != 0 }
    }
}

impl Vm {
    /// A handle to interrupt this state. The state must outlive all uses of the handle.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle(&raw const self.interrupt)
    }

    /// The interrupt flag was seen: clears it and raises the error.
    #[cold]
    pub(crate) fn handle_interrupt(&mut self) -> LuaResult<()> {
        self.interrupt.store(0, Ordering::Relaxed);
        Err(self.error("interrupted!"))
    }

    /// For natives with loops that may be long and call no Lua code: an interrupt is pending.
    ///
    /// # Errors
    /// "interrupted!", if one is.
    #[inline]
    pub fn poll_interrupt(&mut self) -> LuaResult<()> {
        if self.interrupt.load(Ordering::Relaxed) != 0 { self.handle_interrupt() } else { Ok(()) }
    }

    /// Forgets an interrupt that nobody saw.
    pub fn clear_interrupt(&self) {
        self.interrupt.store(0, Ordering::Relaxed);
    }
}
