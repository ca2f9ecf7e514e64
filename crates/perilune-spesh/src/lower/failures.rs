//! How often code has been left because something was not as expected.

use super::{Lowering, TRUSTED};
use perilune_syntax::Proto;
use perilune_vm::machine::{Exits, Reason};
use std::sync::Arc;

/// Where earlier code of a function has been left, as it was at one moment. Other domains run that code, and
/// count, while this one is made: passes that asked anew would not agree on what an instruction is, and one
/// would take for stored what the other has left in a processor register.
pub struct Failures {
    exits: Arc<Exits>,
    unexpected: Box<[u32]>,
    of_results: Box<[u32]>,
    unseen: Box<[u32]>,
}

impl Failures {
    /// As it is now.
    pub fn of(exits: Arc<Exits>, proto: &Proto) -> Failures {
        let counts = |reason| (0..proto.code.len()).map(|at| exits.at(at, reason)).collect();
        let [unexpected, of_results, unseen] =
            [Reason::Unexpected, Reason::Result, Reason::Unseen].map(counts);
        Failures { exits, unexpected, of_results, unseen }
    }

    /// How often instruction `at` had been the reason.
    pub(super) fn at(&self, at: usize) -> u32 {
        self.unexpected[at]
    }

    /// How often the type of what instruction `at` had come to had been the reason.
    pub(super) fn of_result(&self, at: usize) -> u32 {
        self.of_results[at]
    }

    /// How often code had come to instruction `at`, which had not been recorded when it was made.
    pub(super) fn unseen(&self, at: usize) -> u32 {
        self.unseen[at]
    }

    /// What goes on counting.
    pub fn exits(&self) -> &Arc<Exits> {
        &self.exits
    }
}

impl<'a> Lowering<'a, '_> {
    /// Where machine code of the function that place `at` is in has been left, and which of its instructions
    /// that is. One that is inlined in several functions, or runs by itself, has one count for all: what it
    /// has met is not known better by one of them.
    pub(super) fn failures_at(&self, at: usize) -> (&'a Failures, usize) {
        let frame = &self.frames[self.frame_of(at) as usize];
        let inside = (at - frame.first).min(frame.log.proto().code.len() - 1);
        match frame.call {
            None => (self.failures, inside),
            Some(_) => (&self.task.failures_of_callees[&frame.log.function()], inside),
        }
    }

    /// Earlier code has exited to instruction `at`. If that was because it had not been recorded, and by now
    /// it is, that says nothing against it.
    pub(super) fn is_suspect(&self, at: usize) -> bool {
        let (failures, inside) = self.failures_at(at);
        let is_new = || failures.unseen(inside) >= TRUSTED && !self.is_recorded(at);
        failures.at(inside) >= TRUSTED || is_new()
    }

    /// The log has seen instruction `at`.
    pub(super) fn is_recorded(&self, at: usize) -> bool {
        let frame = &self.frames[self.frame_of(at) as usize];
        let site = frame.log.site((at - frame.first).min(frame.log.proto().code.len() - 1));
        site.times() != 0 || site.calls != 0
    }

    /// Earlier code has exited where a loop of the compiled function, or that itself, begins, because
    /// something was not as expected there.
    pub(super) fn is_suspect_head(&self, at: usize) -> bool {
        self.failures.of_result(self.stands_for(at)) >= TRUSTED
            || at == 0 && self.failures.of_result(0) >= TRUSTED
    }

    /// The instruction for whose results those exits are counted that are taken because something was not as
    /// expected on a way to this head: they say nothing against the instruction that stands there. A jump
    /// back has no results of its own.
    pub(super) fn stands_for(&self, head: usize) -> usize {
        self.loops.iter().find(|l| l.head == head).map_or(head, |l| l.back)
    }

    /// Earlier code has exited because what instruction `at` came to was of another type than that of all
    /// results before.
    pub(super) fn has_other_results(&self, at: usize) -> bool {
        let (failures, inside) = self.failures_at(at);
        failures.of_result(inside) >= TRUSTED
    }
}
