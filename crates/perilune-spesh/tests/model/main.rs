//! Model checks of what has no lock around it: every interleaving of a few threads, within a bound on
//! preemptions, under C11's memory model.
//!
//! The files are compiled here a second time, with `sync.rs` of this folder in place of the crate's: loom's
//! types work only inside a model, so the library itself cannot be built with them.

#![allow(dead_code, missing_docs)]

#[path = "../../src/ranges.rs"]
mod ranges;
#[path = "../../src/reclaim.rs"]
mod reclaim;
mod sync;

mod readers;
mod seats;

/// Runs `f` under every interleaving with at most `preemptions` switches that nothing forces.
fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}
