//! Cancelling fibers, and interrupting the root chain.
//!
//! Any thread may have a fiber cancelled: its number goes to a list, the interrupt stops code that runs, and
//! the pump is made to look. The owner then serves the list ([`Domain::serve_cancels`]): a fiber that waits
//! is unwound at once, one that runs at its next call, loop iteration or wait. A fiber whose wait has ended
//! already finishes what it waited for, since that may be a message that nobody else gets; it is cancelled
//! *late*, when it has.
//!
//! Not so who has lost a race ([`Finishes::Nothing`]): nobody would get its message. It goes back to its
//! channel, bytes and connections stay with the system, and it is unwound ([`wait::give_back`]).
//!
//! The root chain cannot be cancelled. The user's interrupt ends its wait ([`Domain::interrupt_root`]), and
//! is kept until the root chain itself runs.

use super::Domain;
use crate::sched::Reason;
use crate::scope::Scope;
use crate::wait;
use perilune_vm::{Host, Vm};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What becomes of a fiber that is cancelled when its wait has ended already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finishes {
    /// It uses what it has waited for.
    First,
    /// Nobody wants that any more: it stays where it is, if it can.
    Nothing,
}

impl Domain {
    /// Unwinds the fibers that are to be cancelled and do not run.
    pub(super) fn serve_cancels(self: &Arc<Self>, vm: &mut Vm) {
        // Whoever has set it pokes afterwards: it is seen here before that poke is forgotten.
        while self.has_cancels.load(Ordering::Relaxed) && self.has_cancels.swap(false, Ordering::Acquire) {
            let list = std::mem::take(&mut *self.cancels.lock());
            for (id, finishes) in list {
                let Some(slot) = self.owner(vm).slot(id) else { continue };
                let (thread, started) = (slot.thread, slot.started);
                let is_over =
                    |wait| wait::give_up(wait) || finishes == Finishes::Nothing && wait::give_back(wait);
                if slot.wait.as_ref().is_some_and(|wait| !is_over(wait)) {
                    self.late_cancels.lock().push(id);
                    self.has_late_cancels.store(true, Ordering::Relaxed);
                    continue;
                }
                vm.cancel_fiber(thread);
                if !started || vm.is_parked(thread) {
                    self.withdraw(vm, Some(id));
                    self.run(vm, id);
                }
            }
        }
    }

    /// The user's interrupt has been raised: ends the root chain's wait, if it waits. It sees the interrupt
    /// when it runs.
    pub fn interrupt_root(&self) {
        let waiter = self.root_waiter.lock().clone();
        if let Some(waiter) = waiter {
            self.interrupted.store(true, Ordering::SeqCst);
            waiter.wake(Reason::Cancelled);
            let scope = self.root_scope.lock().upgrade();
            if let Some(scope) = scope {
                scope.cancel(Some("interrupted!".into()));
            }
        }
    }

    /// The root chain waits for this scope from now on.
    pub(crate) fn set_root_scope(&self, scope: &Arc<Scope>) {
        *self.root_scope.lock() = Arc::downgrade(scope);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
            || self.interrupt.lock().as_ref().is_some_and(|h| h.is_raised())
    }

    /// An interrupt that was kept for the root chain is raised again for whoever runs now.
    pub(super) fn pass_interrupt(&self) {
        if self.interrupted.swap(false, Ordering::SeqCst)
            && let Some(handle) = &*self.interrupt.lock()
        {
            handle.raise();
        }
    }

    /// Has fibers cancelled: they unwind at their next call, loop iteration or wait, but not before they have
    /// used what an operation has brought ([`Vm::has_delivered`]).
    pub(crate) fn cancel(&self, fibers: &[u64], finishes: Finishes) {
        self.cancels.lock().extend(fibers.iter().map(|id| (*id, finishes)));
        self.has_cancels.store(true, Ordering::Release);
        if let Some(handle) = &*self.interrupt.lock() {
            handle.raise_cause(perilune_vm::INTERRUPT_CANCEL);
        }
        self.ownership.poke();
    }

    /// Whether the fiber is cancelled when it has finished what it waited for.
    pub(super) fn is_to_be_cancelled_late(&self, id: u64) -> bool {
        self.has_late_cancels.load(Ordering::Relaxed) && self.late_cancels.lock().contains(&id)
    }
}
