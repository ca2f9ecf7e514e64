//! What the compiler did: time, machine code, and what became of it.

use crate::trace::Trace;
use perilune_trace::event::What;

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compiling {
    /// Recordings that were handed to it.
    pub recordings: u64,
    /// Functions, or loops of them, that were compiled.
    pub compiled: u64,
    /// Those with which it failed.
    pub failed: u64,
    /// Nanoseconds of processor time that these took.
    pub ns: u64,
    /// Bytes of machine code.
    pub bytes: u64,
    /// How often a function was looked at and not compiled.
    pub refused: u64,
    /// How often a domain got machine code.
    pub installed: u64,
    /// How often machine code was left because something was not as expected.
    pub left: u64,
    /// How often a domain gave machine code up.
    pub given_up: u64,
}

/// What the compiler did.
pub fn report(trace: &Trace) -> Compiling {
    let mut sum = Compiling::default();
    for event in &trace.events {
        match event.what() {
            What::CompileQueued(_) => sum.recordings += 1,
            What::CompileEnd(end) => {
                *(if end.failed { &mut sum.failed } else { &mut sum.compiled }) += 1;
                sum.ns += end.used.0;
                sum.bytes += end.size.0;
            }
            What::NotCompiled(_) => sum.refused += 1,
            What::CodeInstalled(_) => sum.installed += 1,
            What::CodeLeft(_) => sum.left += 1,
            What::CodeGivenUp(_) => sum.given_up += 1,
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Who};
    use perilune_trace::event::{Bytes, CodeGivenUp, CompileEnd, Count, Name, Ns};

    #[test]
    fn what_compiling_took_is_added_up() {
        let end =
            |size, used, failed| What::CompileEnd(CompileEnd { size: Bytes(size), used: Ns(used), failed });
        let given_up = What::CodeGivenUp(CodeGivenUp { name: Name(0), exits: Count(201) });
        let events = [end(100, 5, false), end(0, 7, true), given_up];
        let events = events.map(|what| Event::new(1, Who::Thread(3), what)).to_vec();
        let sum = report(&Trace { events, ..Trace::default() });
        assert_eq!((sum.compiled, sum.failed, sum.ns, sum.bytes, sum.given_up), (1, 1, 12, 100, 1));
    }
}
