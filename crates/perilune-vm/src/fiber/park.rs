//! Parking: how a wait leaves the running code, and how it comes back. The essay is in `fiber.rs`.
//!
//! [`Vm::park`] only says that the native waits. What happens next depends on who called it: the interpreter
//! ([`Vm::park_here`], from where errors are handled), or another native ([`Vm::park_nested`]).

use super::{Cancel, Phase};
use crate::Vm;
use crate::frame::CALL_GAP;
use crate::interp::{Flow, Step};
use crate::native::{Kind, LuaResult, Native, Signal, Thrown};
use crate::object::Status;
use crate::value::Gc;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

impl Vm {
    /// For a native that has to wait and has told somebody to wake the running fiber: return
    /// `Err(vm.park())`, with nothing pushed. The native is called again, with the same arguments, when the
    /// fiber is run again; or never, if the wait ends by a cancellation or an interrupt: then the host's
    /// [`crate::Host::withdraw`] is called.
    ///
    /// Where nothing can wait (a finaliser, a hook, a message handler) the result is an ordinary error: then
    /// the native must take its waiter back. Better ask [`Vm::may_wait`] first.
    pub fn park(&mut self) -> Thrown {
        if self.lua.errors.signal != Signal::None {
            return self.lua.errors.signal.thrown();
        }
        if let Err(e) = self.may_wait() {
            return e;
        }
        self.set_signal(Signal::Park)
    }

    /// Whether a native that is called now may wait.
    ///
    /// # Errors
    /// "attempt to wait inside a finalizer" and the like.
    pub fn may_wait(&mut self) -> LuaResult<()> {
        match self.wait_obstacle() {
            None => Ok(()),
            Some(text) => Err(self.error(text)),
        }
    }

    /// Is a finaliser, hook or message handler running, which a cancellation has to wait for?
    pub(crate) fn in_uncancellable(&self) -> bool {
        self.frames_in_the_way().is_some()
    }

    /// Native frames in the running chain that belong to no native stack.
    fn frames_in_the_way(&self) -> Option<&'static str> {
        // SAFETY: the chain of running coroutines.
        unsafe {
            let mut th = self.lua.thread;
            let mut no_yield = self.lua.no_yield;
            let stop = if self.lua.fibers.current.is_null() {
                null_mut()
            } else {
                (*self.lua.fibers.current).resumer
            };
            while th != stop {
                if no_yield > (*th).closing as u32 {
                    return Some(if self.lua.gc.finalizing {
                        "attempt to wait inside a finalizer"
                    } else if (*th).in_hook {
                        "attempt to wait inside a hook"
                    } else if th == self.lua.roots.base_thread && th != self.lua.roots.main_thread {
                        "attempt to wait outside a fiber"
                    } else {
                        "attempt to wait inside a message handler"
                    });
                }
                th = (*th).resumer;
                if !th.is_null() {
                    no_yield = (*th).no_yield;
                }
            }
        }
        None
    }

    /// What keeps the running chain of coroutines from being put aside.
    pub(crate) fn wait_obstacle(&self) -> Option<&'static str> {
        let in_the_way = self.frames_in_the_way();
        if in_the_way.is_some() {
            return in_the_way;
        }
        // SAFETY: the running fiber's state.
        unsafe {
            if self.lua.fibers.current.is_null() {
                return if self.lua.hosting.host.is_none() {
                    Some("attempt to wait where nothing else can run")
                } else {
                    None
                };
            }
            let entry = (*(*self.lua.fibers.current).fiber).entry;
            if self.lua.stacks.running.current.is_null() && self.lua.stacks.running.scan_from != entry {
                return Some("attempt to wait across a native call");
            }
            None
        }
    }

    /// A native that the interpreter called has parked; its frame is the running one. Comes back when it has
    /// been called again, with what became of that; or with [`Step::Park`] if this native stack is the
    /// pump's.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn park_here(&mut self) -> Flow {
        // SAFETY: as described.
        unsafe {
            self.before_wait()?;
            if self.lua.fibers.current.is_null() {
                self.wait_in_root()?;
            } else {
                self.suspend_fiber();
                if self.lua.stacks.running.current.is_null() {
                    return Ok(Step::Park);
                }
                self.suspend_parked();
                self.woken()?;
            }
            self.call_again()
        }
    }

    /// A native that another native called has parked; its frame is the running one. Comes back when it is to
    /// be called again.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn park_nested(&mut self) -> LuaResult<()> {
        // SAFETY: as described. `may_wait` has seen to it that a fiber is on a native stack.
        unsafe {
            self.before_wait()?;
            if self.lua.fibers.current.is_null() {
                return self.wait_in_root();
            }
            self.suspend_fiber();
            self.suspend_parked();
            self.woken()
        }
    }

    /// An interrupt that has come by now must not be slept over.
    unsafe fn before_wait(&mut self) -> LuaResult<()> {
        self.take_samples_of_native();
        self.lua.errors.signal = Signal::None;
        self.lua.fibers.grace = 0;
        if self.lua.interrupt.load(Ordering::Relaxed) & crate::interrupt::CANCEL != 0
            && self.cancellation_due()
            && !self.in_uncancellable()
            && !self.gives_up()
        {
            self.lua.interrupt.fetch_and(!crate::interrupt::CANCEL, Ordering::Relaxed);
        }
        if self.lua.interrupt.load(Ordering::Relaxed) != 0 {
            let outcome = self.handle_interrupt();
            if outcome.is_err() {
                self.withdraw();
            }
            return outcome;
        }
        Ok(())
    }

    /// The running fiber or root chain is to be cancelled or interrupted in its wait: whether that ends it.
    /// If not, what has come is the native's, or will be soon.
    fn gives_up(&mut self) -> bool {
        let Some(host) = self.lua.hosting.host.clone() else { return true };
        let tag = self.current_fiber().map(|f| self.fiber_tag(f));
        host.gives_up(self, tag)
    }

    /// The wait of the running fiber or root chain has ended without its native being called again.
    fn withdraw(&mut self) {
        if let Some(host) = self.lua.hosting.host.clone() {
            let tag = self.current_fiber().map(|f| self.fiber_tag(f));
            host.withdraw(self, tag);
        }
    }

    /// The root chain waits.
    unsafe fn wait_in_root(&mut self) -> LuaResult<()> {
        let Some(host) = self.lua.hosting.host.clone() else {
            return Err(self.error("attempt to wait where nothing else can run"));
        };
        // SAFETY: this thread owns the Vm, whose state is put aside for the time of the call.
        self.put_aside(perilune_trace::event::Parking::Waits, || unsafe { host.wait_root() });
        let causes = self.lua.interrupt.load(Ordering::Relaxed);
        // What has come is taken first: the user's interrupt strikes behind it.
        if causes != 0 && (causes & crate::interrupt::USER == 0 || self.gives_up()) {
            let outcome = self.handle_interrupt();
            if outcome.is_err() {
                self.withdraw();
            }
            return outcome;
        }
        Ok(())
    }

    /// Puts the running chain aside: the pump's base coroutine becomes the running one.
    unsafe fn suspend_fiber(&mut self) {
        // SAFETY: a fiber runs; its chain ends at its root.
        unsafe {
            let root = self.lua.fibers.current;
            let state = (*root).fiber;
            let top = self.lua.thread;
            let mut th = top;
            loop {
                // Native stacks of the chain have changed since they were last looked at.
                self.heap.barrier(Gc::from_ptr(th).obj());
                if th == root {
                    break;
                }
                th = (*th).resumer;
            }
            (*top).standing.set(Status::Normal);
            (*state).top = top;
            (*state).phase = Phase::Parked;
            (*state).c_calls = self.lua.c_calls;
            (*state).errors = self.lua.errors.set_aside();
            self.lua.stacks.parked = null_mut();
            self.leave_fiber(root);
        }
    }

    /// The `execute` at hand has got [`Step::Park`] from a native stack that it resumed: suspends its own
    /// native stack, and resumes that one when the fiber goes on. `None`: this is the pump's native stack.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn pass_park(&mut self) -> Option<Flow> {
        // SAFETY: a fiber has just parked.
        unsafe {
            let inner = self.lua.stacks.parked;
            if self.lua.stacks.running.current.is_null() {
                (*(*self.lua.fibers.current).fiber).inner = inner;
                return None;
            }
            self.suspend_parked();
            Some(self.resume_native_stack(inner))
        }
    }

    /// The fiber goes on where it parked: is it to be cancelled?
    pub(super) unsafe fn woken(&mut self) -> LuaResult<()> {
        if self.lua.errors.is_discarding() {
            return Err(self.lua.errors.signal.thrown());
        }
        // SAFETY: a fiber runs.
        let state = unsafe { (*self.lua.fibers.current).fiber };
        // SAFETY: as above.
        if unsafe { (*state).cancel } == Cancel::Requested {
            if self.gives_up() {
                self.withdraw();
                return Err(self.throw_cancellation());
            }
            // The host asks again when that is finished.
            // SAFETY: as above.
            unsafe { (*state).cancel = Cancel::No };
            self.lua.interrupt.fetch_or(crate::interrupt::CANCEL, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Calls the native whose frame is the running one again, and delivers its results.
    pub(super) unsafe fn call_again(&mut self) -> Flow {
        // SAFETY: the frame of a native that has pushed nothing.
        unsafe {
            let Some(native) = (*self.lua.base.sub(CALL_GAP)).as_native() else {
                return Err(self.error("attempt to wait in a function that is none"));
            };
            let nargs = self.lua.top.offset_from(self.lua.base) as usize;
            match native.kind {
                Kind::Hybrid | Kind::IpairsStep if self.needs_native_stack() => {
                    self.as_leaf_first(native, nargs)
                }
                Kind::Reentrant if self.needs_native_stack() => self.on_native_stack(native),
                _ => self.call_again_here(native),
            }
        }
    }

    unsafe fn call_again_here(&mut self, native: &'static Native) -> Flow {
        let n = self.call_native(native)? as usize;
        // SAFETY: the native's results are the topmost n values.
        unsafe { self.finish_native(n) }
    }
}
