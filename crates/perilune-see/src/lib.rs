//! Tools: what reads the events and snapshots of a running program. The command is the one that uses it;
//! nothing here runs in the program that is looked at.
//!
//! | file | |
//! |---|---|
//! | `tool.rs` | programs started or attached to |
//! | `reader.rs`, `definitions.rs` | rings of a live program, and the names that its events refer to |
//! | `recording.rs` | files that last, read |
//! | `trace.rs` | a whole trace in order of time |
//! | `kernel.rs` | what the kernel did with the threads |
//! | `replay/` | the states of domains, fibers and tasks that events imply; what all tools below subscribe to |
//! | `analyse/` | what a trace says: times of domains, collectors, delays |
//! | `profile/` | samples added up by call path: tables, flame graphs, pprof, speedscope |
//! | `heapshot/` | snapshots of heaps: dominators, paths, growth |
//! | `view/`, `export/` | a trace as rows of bars: our viewer, pictures, other people's formats |
//!
//! What events are, and how programs write them, is in `perilune-trace`. The design as a whole is in
//! `docs/tracing-design.md`.

pub mod analyse;
pub mod definitions;
pub mod export;
pub mod heapshot;
pub mod kernel;
pub mod profile;
mod protobuf;
pub mod reader;
pub mod recording;
pub mod replay;
mod sys;
pub mod tool;
pub mod trace;
pub mod view;

pub use definitions::Definitions;
pub use reader::Reader;
pub use trace::{Event, Trace, Who};
