//! Which value stacks give back what they do not use, and when.
//!
//! A stack moves when its size changes (`call/stack.rs`), so it may be shrunk only while nobody holds an
//! address of it. That is so of
//!
//! - *coroutines that are suspended or dead* and have no native stack: the interpreter has gone on with
//!   another stack, and reads everything anew from the thread when it comes back;
//! - *those of a parked fiber*, likewise;
//! - *the running thread* where finalisers may run. A finaliser is called on its stack, which moves if it has
//!   no room for that; so whoever comes to such a place expects it. Its old stack is left to the collector
//!   all the same.
//!
//! [`Unheld`] is made for these three alone. A coroutine with a native stack has natives on it, which may
//! have asked for more than they use by now; one that waits for another that it has resumed has machine code,
//! which may wait for that on the native stack. These keep what they have.
//!
//! The moment is behind a major collection, which has set the slots above the top to nil. The threads are in
//! a list ([`GcState::deep`](super::GcState)) from when their stack grows beyond [`DEEP`]: others are not
//! worth a look.
//!
//! Under `PERILUNE_GC_STRESS` small stacks move at these moments, and what was theirs is overwritten.

use crate::Vm;
use crate::call::DEEP;
use crate::fiber;
use crate::object::{Status, Thread};
use std::collections::HashSet;

/// A thread whose stack nobody holds an address of, for as long as nothing runs.
struct Unheld(*mut Thread);

impl Unheld {
    /// The running thread, where finalisers may run.
    fn running(vm: &mut Vm) -> Unheld {
        Unheld(vm.lua.thread)
    }

    /// One that does not run; `None`: something may wait on its stack. `parked`: those of parked fibers.
    ///
    /// # Safety
    /// A live thread.
    unsafe fn resting(vm: &Vm, th: *mut Thread, parked: &HashSet<*mut Thread>) -> Option<Unheld> {
        // SAFETY: the caller's promise.
        let (status, native_stack) = unsafe { ((*th).standing.status(), (*th).native_stack) };
        let rests = match status {
            Status::Suspended | Status::Dead => true,
            Status::Normal => parked.contains(&th),
            Status::Running => false,
        };
        (rests && native_stack.is_null() && th != vm.lua.thread).then_some(Unheld(th))
    }
}

impl Vm {
    /// After a collection, where finalisers may run: if a major has ended, large stacks of which little is
    /// used are shrunk.
    #[inline]
    pub(super) fn shrink_stacks(&mut self) {
        if std::mem::take(&mut self.lua.gc.stacks_due) {
            self.shrink_stacks_now();
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn shrink_stacks_now(&mut self) {
        if self.lua.gc.finalizing || self.lua.errors.is_discarding() {
            return;
        }
        if self.heap.is_stress() {
            self.shift_stacks();
        }
        if self.lua.gc.deep.is_empty() {
            return;
        }
        let mut deep = std::mem::take(&mut self.lua.gc.deep);
        // SAFETY: a collection has taken those that it found dead out of the list.
        let waits = deep.iter().any(|&th| unsafe { (*th).standing.status() } == Status::Normal);
        let parked = if waits {
            fiber::parked_without_native_stacks(self).into_iter().collect()
        } else {
            HashSet::new()
        };
        deep.retain(|&th| {
            // SAFETY: as above.
            unsafe {
                let unheld = if th == self.lua.thread {
                    Some(Unheld::running(self))
                } else {
                    Unheld::resting(self, th, &parked)
                };
                if let Some(Unheld(th)) = unheld {
                    let before = (*th).stack;
                    self.shrink_stack(th);
                    if (*th).stack != before {
                        // Open upvalues are elsewhere.
                        self.lua.gc.disturbances = self.lua.gc.disturbances.wrapping_add(1);
                    }
                }
                (*th).stack_size > DEEP
            }
        });
        debug_assert!(self.lua.gc.deep.is_empty(), "shrinking does not make a stack deep");
        self.lua.gc.deep = deep;
    }

    /// Moves what may be moved, so that who has kept an address is found: the running stack, and those of
    /// parked fibers.
    fn shift_stacks(&mut self) {
        let running = Unheld::running(self);
        let parked: HashSet<_> = fiber::parked_without_native_stacks(self).into_iter().collect();
        // SAFETY: live threads.
        let resting = parked.iter().filter_map(|&th| unsafe { Unheld::resting(self, th, &parked) });
        for Unheld(th) in resting.chain([running]).collect::<Vec<_>>() {
            // SAFETY: nobody holds an address.
            unsafe {
                if (*th).stack_size <= 2 * DEEP {
                    self.shift_stack(th);
                }
            }
        }
    }
}
