//! What runs inside a program that is looked at: its events and heap snapshots, written where another process
//! can read them. Used by all rooms; knows none of them.
//!
//! | file | |
//! |---|---|
//! | `event.rs`, `event/fields.rs` | what can happen: the dictionary of events; what their fields hold |
//! | `emit.rs` | probes, and the writer behind them |
//! | `names.rs`, `identity.rs` | strings and call paths that events refer to; numbers of objects |
//! | `clock.rs`, `cputime.rs` | ticks and nanoseconds; processor time of threads |
//! | `layout.rs`, `map.rs` | the event file: what lies where, mapping it |
//! | `fault.rs` | event files whose memory is gone |
//! | `session.rs`, `attach.rs` | sessions from within; how a tool begins one in a program that runs |
//! | `read.rs`, `recording.rs` | draining rings; writing files that last, for tools and for `pl.trace.snapshot` |
//! | `fibers.rs` | lists of fibers: the format |
//! | `heapshot/` | snapshots of heaps: the format, writing it |
//!
//! What reads all this is in `perilune-see`. The design as a whole is in `docs/tracing-design.md`.

pub mod attach;
pub mod clock;
pub mod cputime;
pub mod emit;
pub mod event;
mod fault;
pub mod fibers;
pub mod heapshot;
pub mod identity;
pub mod layout;
pub mod map;
pub mod names;
pub mod read;
pub mod recording;
pub mod session;
mod sys;

pub use emit::{Writer, emit, is_live, on};
pub use event::{Category, FiberRef, Kind, ObjectKind, ObjectRef, What};
pub use identity::Identity;
