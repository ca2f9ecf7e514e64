//! The scheduler: who runs when, on which thread, and how one waits. It knows no Lua; a fiber is an id to it.
//!
//! # The parts
//!
//! | file | |
//! |---|---|
//! | `threads.rs` | OS threads from a cache, started on demand, retired when idle |
//! | `ownership.rs` | who owns a domain; ready fibers; leaving and taking it back around a blocking call |
//! | `waiter.rs` | one wait, ended exactly once by whoever comes first |
//! | `timer.rs` | deadlines |
//! | `spin.rs` | a moment of patience before sleeping |
//! | `queue.rs`, `idle_workers.rs` | tasks of a pool: deques, stealing; which sleeping worker is told of a new one |
//! | `course.rs` | what the parts of a parallel loop tell each other: bites, errors, the end |
//! | `ordered.rs` | events that must stay in order, without a worker waiting for its turn |
//! | `quiescence.rs` | the count of what can still happen, and what follows when it is zero |
//! | `deferred.rs` | what a domain has put off until it has nothing better to do |
//! | `sync.rs` | the primitives, so that the models in `tests/model` can put loom's in their place |
//!
//! # How a pump uses them
//!
//! A pump is what a worker thread does with a domain. Written out, without Lua, for a domain with a seat in a
//! pool:
//!
//! ```text
//! if !ownership.begin() { return }                   // somebody else took it meanwhile
//! loop {
//!     match ownership.next() {
//!         Next::Fiber(f) => { seat.busy(); resume(f) }
//!         Next::HandOver => return ownership.hand_over(owned),   // the returning thread calls seat.busy()
//!         Next::Empty => match seat.take() {
//!             Some(task) => start(task),
//!             None => if seat.settle() {
//!                 match ownership.try_leave(owned) { Ok(()) => return, Err(back) => owned = back }
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! # Supervision without a supervisor
//!
//! A pool that guesses from outside whether its threads are stuck has to look now and then, for ever. Here
//! nothing is guessed: a call that may block says so by detaching, its domain is at once available to another
//! thread, and a thread is taken from the cache or started only for a domain that has something to run. So
//! the number of threads is the number of running domains plus the number of blocked calls, and an idle
//! process does not wake.
//!
//! # Locks
//!
//! No function here calls a callback (activation, poke, report, alarm) while it holds a lock, and no two
//! locks are held at once, except in [`ownership::Ownership::close`], which says in which order, and while a
//! loop's part takes a bite, where what is asked only looks.

pub(crate) mod course;
pub mod deferred;
pub mod idle_workers;
pub mod ordered;
pub mod ownership;
pub mod queue;
pub mod quiescence;
mod spin;
mod sync;
pub mod threads;
pub mod timer;
pub mod waiter;

pub use ordered::Lanes;
pub use ownership::{Next, Owned, Ownership};
pub use queue::{Priority, Queue, Seat};
pub use quiescence::{Hold, Quiescence, WaitList};
pub use timer::TimerId;
pub use waiter::{Reason, Sleeper, Waiter};
