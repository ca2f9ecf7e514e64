//! Which machine code has not run for longest: it makes room for other code when there is no more.
//!
//! Ticks see what runs, one every few milliseconds; so code that takes a hundredth of the time is seen about
//! twice a second. Nothing is counted in between. Code that is *retired* counts as given up: nobody gets it
//! any more, and each domain lets go of it when it is told of new code ([`crate::interrupt::INSTALL`]). Its
//! memory is free once the last one has. A domain that waits keeps what it has until it goes on.
//!
//! Rejected: the time of each entry (a store in what takes two nanoseconds, and calls between codes are no
//! entries), and the order in which codes were made (what a server began with runs for longest).

use super::{MachineCode, ticks};
use crate::Vm;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// When code was used, and whether it still may be.
#[derive(Debug)]
pub(super) struct Use {
    /// When a tick has seen it run, or it was made, in ticks of the clock.
    seen: AtomicU64,
    retired: AtomicBool,
}

impl Use {
    /// It has been made.
    pub fn new() -> Use {
        Use { seen: AtomicU64::new(ticks()), retired: AtomicBool::new(false) }
    }

    /// It runs.
    pub fn note(&self) {
        self.seen.store(ticks(), Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

impl MachineCode {
    /// A tick sees it run.
    pub(super) fn runs(&self) {
        self.uses.note();
    }

    /// When a tick has seen it run for the last time, or else when it was made, in ticks of the clock.
    pub fn last_seen(&self) -> u64 {
        self.uses.seen.load(Ordering::Relaxed)
    }

    /// How many bytes of code it has.
    pub fn size(&self) -> usize {
        self.length
    }

    /// Nobody is to run it any more.
    pub fn retire(&self) {
        self.uses.retired.store(true, Ordering::Relaxed);
    }
}

impl Vm {
    /// Lets go of all code that has been retired since that was last done.
    pub(super) fn leave_retired_code(&mut self) {
        let retirements = self.lua.machine.specializer.as_ref().map_or(0, |s| s.retirements());
        if std::mem::replace(&mut self.lua.machine.retirements, retirements) == retirements {
            return;
        }
        for n in 0..self.lua.gc.protos.len() {
            let inst = self.lua.gc.protos[n];
            // SAFETY: the list has instances that live, each with a count of its machine code.
            unsafe {
                if (*inst).machine.as_ref().is_some_and(|code| code.uses.is_over()) {
                    self.take_machine_code(inst);
                }
            }
        }
        self.lua.machine.bury(|| self.lua.stacks.running.in_use());
    }
}
