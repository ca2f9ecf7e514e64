//! Interrupts from outside: a word that running code polls at calls, backward jumps, and in natives that may
//! take long.
//!
//! Each bit of the word is a cause. Setting one is a hint that there is something to look at; whoever sees it
//! clears it and acts.
//!
//! | cause | set by | effect |
//! |---|---|---|
//! | [`USER`] | SIGINT, a time limit | the error "interrupted!" in the code that runs |
//! | [`TRACE`] | whoever changes a trace's switches | samplers begin or end (`sampler.rs`), snapshots of the heap are written (`snapshot/request.rs`) |
//! | [`CANCEL`] | the host | if the running fiber (or root chain) is to be cancelled, it unwinds (`fiber.rs`) |
//!
//! | [`SAMPLE`] | a sampler, while machine code runs | the samples are taken here |
//! | [`TICK`] | the specializer, now and then while code runs | what runs is counted, and recorded if it is hot (`machine/ticks.rs`) |
//! | [`INSTALL`] | the specializer | new machine code is taken into use |
//!
//! The other bits are ignored and kept for what comes: requests to give way.

use crate::Vm;
use crate::machine::Finds;
use crate::native::LuaResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The user wants the running code to stop.
pub const USER: u32 = 1;
/// The host may want the running fiber to be cancelled: it is asked, [`crate::Host::is_cancelled`].
pub const CANCEL: u32 = 2;
/// The switches of the trace have changed.
pub const TRACE: u32 = 4;
/// A sample is to be taken of machine code.
pub const SAMPLE: u32 = 8;

/// Time has passed: whatever runs now takes long.
pub const TICK: u32 = 16;
/// There is new machine code.
pub const INSTALL: u32 = 32;

/// A way to interrupt a running state from another thread or a signal handler. It may outlive the state; then
/// it does nothing.
#[derive(Clone)]
pub struct InterruptHandle(Arc<AtomicU32>);

impl InterruptHandle {
    /// Makes the running Lua code raise "interrupted!" at its next call or loop iteration. Async-signal-safe.
    pub fn raise(&self) {
        self.raise_cause(USER);
    }

    /// Sets these causes. Async-signal-safe.
    pub fn raise_cause(&self, causes: u32) {
        self.0.fetch_or(causes, Ordering::Relaxed);
    }

    /// The user wants the running code to stop: what long work that has no `Vm` at hand asks now and then, to
    /// give up.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.is_raised_by(USER)
    }

    /// One of `causes` is pending. [`CANCEL`] may concern another fiber: who gives up for it must be able to
    /// begin again.
    #[inline]
    pub fn is_raised_by(&self, causes: u32) -> bool {
        self.0.load(Ordering::Relaxed) & causes != 0
    }

    /// Whether two handles are of the same state.
    pub fn is_same(&self, other: &InterruptHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there is nothing else that refers to the word: no state, and no other handle.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Is this a handle of `vm`?
    #[inline]
    pub fn is_of(&self, vm: &Vm) -> bool {
        Arc::ptr_eq(&self.0, &vm.lua.interrupt)
    }
}

impl Vm {
    /// A handle to interrupt this state.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle(Arc::clone(&self.lua.interrupt))
    }

    /// The interrupt word was seen to be set, or ticks to be put off, where a native begins a function: acts
    /// on what concerns machine code, and leaves the other causes. A closing method that begins because its
    /// fiber is cancelled is not to be cancelled before its first instruction.
    #[cold]
    pub(crate) fn handle_ticks(&mut self) {
        let causes = self.lua.interrupt.fetch_and(!(INSTALL | TICK), Ordering::Relaxed);
        if causes & INSTALL != 0 {
            self.install_machine_code();
        }
        if causes & TICK != 0 {
            self.tick(Finds::Beginning);
        } else if self.lua.machine.ticks.are_put_off() {
            self.look_at_running(Finds::Beginning);
        }
    }

    /// The interrupt word was seen to be set: clears it and acts on its causes.
    #[cold]
    pub(crate) fn handle_interrupt(&mut self) -> LuaResult<()> {
        let causes = self.lua.interrupt.swap(0, Ordering::Relaxed);
        if causes & TRACE != 0 {
            self.follow_switches();
            self.report_presence();
            self.answer_request();
        }
        if causes & INSTALL != 0 {
            self.install_machine_code();
        }
        if causes & TICK != 0 {
            self.tick(Finds::Running);
        }
        if causes & SAMPLE != 0 && self.lua.seen.sampler.is_sprung() {
            self.take_samples();
        }
        if causes & CANCEL != 0 && self.cancellation_due() {
            if !self.in_uncancellable() && !self.uses_grace() {
                self.lua.interrupt.fetch_or(causes & !(CANCEL | TRACE), Ordering::Relaxed);
                return Err(self.throw_cancellation());
            }
            self.lua.interrupt.fetch_or(CANCEL, Ordering::Relaxed);
        }
        if causes & USER != 0 {
            if self.current_fiber().is_some()
                && self.lua.hosting.host.as_ref().is_some_and(|h| h.takes_interrupt())
            {
                return Ok(());
            }
            return Err(self.error("interrupted!"));
        }
        Ok(())
    }

    /// Another fiber runs now: a hint at a cancellation that does not concern it would only make natives give
    /// up for nothing.
    #[inline]
    pub(crate) fn drop_stale_hint(&mut self) {
        if self.lua.interrupt.load(Ordering::Relaxed) & CANCEL != 0 && !self.cancellation_due() {
            self.lua.interrupt.fetch_and(!CANCEL, Ordering::Relaxed);
        }
    }

    /// Is there an interrupt that concerns the running code? For natives that block: they give up then, and
    /// nothing holds a cancellation back any more.
    pub fn interrupt_pending(&mut self) -> bool {
        let causes = self.lua.interrupt.load(Ordering::Relaxed);
        causes != 0 && {
            self.drop_stale_hint();
            self.forgo_grace();
            self.lua.interrupt.load(Ordering::Relaxed) & (USER | CANCEL) != 0
        }
    }

    /// For natives with loops that may be long and call no Lua code: an interrupt is pending.
    ///
    /// # Errors
    /// "interrupted!", or a cancellation, if one is.
    #[inline]
    pub fn poll_interrupt(&mut self) -> LuaResult<()> {
        if self.lua.interrupt.load(Ordering::Relaxed) != 0 { self.handle_interrupt() } else { Ok(()) }
    }

    /// Forgets an interrupt that nobody saw.
    pub fn clear_interrupt(&self) {
        self.lua.interrupt.fetch_and(TRACE, Ordering::Relaxed);
    }
}
