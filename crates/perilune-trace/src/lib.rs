//! Events of a running program, and what reads them. Used by all rooms; knows none of them.
//!
//! | file | |
//! |---|---|
//! | `event.rs` | what can happen: kinds, arguments, categories |
//! | `emit.rs` | probes, and the writer behind them |
//! | `names.rs`, `identity.rs` | strings and call paths that events refer to; numbers of objects |
//! | `clock.rs`, `cputime.rs` | ticks and nanoseconds; processor time of threads |
//! | `layout.rs`, `map.rs` | the event file: what lies where, mapping it |
//! | `fault.rs` | event files whose memory is gone |
//! | `session.rs`, `attach.rs` | sessions from within; how a tool begins one in a program that runs |
//! | `tool.rs` | the tool's side: programs started or attached to |
//! | `read.rs`, `definitions.rs`, `trace.rs` | reading: live rings, names, a whole trace in order |
//! | `kernel.rs` | what the kernel did with the threads |
//! | `recording.rs` | files that last: written as events arrive, read as a trace |
//! | `view/`, `export/` | a trace as rows of bars: our viewer, pictures, other people's formats |
//! | `profile/` | samples added up by call path: tables, flame graphs, pprof, speedscope |
//! | `analyse/` | what a trace says: times of domains, collectors, delays |
//!
//! The design as a whole is in `docs/tracing-design.md`.

pub mod analyse;
pub mod attach;
pub mod clock;
pub mod cputime;
pub mod definitions;
pub mod emit;
pub mod event;
pub mod export;
mod fault;
pub mod heapshot;
pub mod identity;
pub mod kernel;
pub mod layout;
pub mod map;
pub mod names;
pub mod profile;
mod protobuf;
pub mod read;
pub mod recording;
pub mod session;
pub mod tool;
pub mod trace;
pub mod view;

pub use definitions::Definitions;
pub use emit::{Writer, emit, emit_text, is_live, on};
pub use event::{Category, FiberRef, Kind, ObjectKind, ObjectRef};
pub use identity::Identity;
pub use trace::{Event, Trace, Who};
