//! Model checks of the parts of the scheduler that have no lock around them: every interleaving of a few
//! threads, within a bound on preemptions, under C11's memory model.
//!
//! The files are compiled here a second time, with `sync.rs` of this folder in place of the scheduler's:
//! loom's types work only inside a model, so the library itself cannot be built with them.

#![allow(dead_code, missing_docs)]

#[path = "../../src/sched"]
mod sched {
    #[path = "course.rs"]
    pub mod course;
    #[path = "idle_workers.rs"]
    pub mod idle_workers;
    #[path = "ownership.rs"]
    pub mod ownership;
    #[path = "quiescence.rs"]
    pub mod quiescence;
    #[path = "../../tests/model/spin.rs"]
    pub mod spin;
    #[path = "../../tests/model/sync.rs"]
    pub mod sync;
    #[path = "waiter.rs"]
    pub mod waiter;
}

mod course;
mod idle_workers;
mod ownership;
mod pool;
mod quiescence;
mod waiter;

/// Runs `f` under every interleaving with at most `preemptions` switches that nothing forces.
fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_duration = Some(std::time::Duration::from_secs(20));
    model.check(f);
}
