//! Lua on all cores: domains, what they share, and what runs them.
//!
//! A *domain* is a heap, globals and fibers, owned by at most one thread at a time. This room decides which
//! thread that is, lets fibers and main programs wait without holding one, and notices when nothing can
//! happen any more. The design as a whole is in `docs/parallel-design.md`.
//!
//! * [`sched`] knows no Lua: threads, ownership, waiting, timers, task queues, rest.
//! * [`outside`]: how rooms above this one make natives that wait.
//! * [`objects`]: shared objects. [`module`]: what `require "perilune"` returns.

mod actor;
mod asking;
pub mod bundle;
mod channel;
mod contention;
pub mod domain;
pub mod inspect;
mod io;
mod lane;
mod listing;
mod loops;
pub mod module;
pub mod nearest;
pub mod objects;
mod options;
mod outcome;
pub mod outside;
mod pool;
mod races;
pub mod runtime;
pub mod sched;
mod scope;
pub mod select;
mod semaphore;
pub mod signal;
mod snapshot;
mod spawn;
pub mod surplus;
mod sys;
mod time;
mod trace;
mod untold;
mod wait;

pub use module::open;
pub use runtime::{Config, Module, Runtime};
