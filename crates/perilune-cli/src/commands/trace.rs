//! `perilune trace ...`: recordings, and what can be done with one.
//!
//! | word | file | |
//! |---|---|---|
//! | `record` | `trace/record.rs`, `trace/spool.rs`, `trace/flight.rs` | writes what happens to a file; or the last moments only, when something has happened |
//! | `run` | `trace/record.rs` | records, then shows |
//! | `dump` | `trace/dump.rs`, `trace/describe.rs` | one line for each event |
//! | `show` | `trace/show.rs` | the viewer, in a browser |
//! | `render` | `trace/render.rs` | a page or a picture that needs nothing else |
//! | `export` | `trace/export.rs` | other viewers' formats |
//!
//! Each is a command of its own behind a common word (`manual/entries.rs` has them all), and works like those
//! in `commands/`.

pub mod describe;
pub mod dump;
pub mod export;
mod flight;
pub mod record;
pub mod render;
pub mod show;
mod spool;
