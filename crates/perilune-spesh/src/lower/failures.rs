//! How often code has been left because something was not as expected.

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
