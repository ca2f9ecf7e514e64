//! The viewer: a trace as a page with rows of bars, and as a picture.
//!
//! | file | |
//! |---|---|
//! | `model.rs` | what is drawn: groups, rows, bars, moments, curves, links |
//! | `timeline.rs`, `names.rs` | from a trace to that |
//! | `tiles.rs` | levels of detail: a stretch of it at a resolution, in few bytes |
//! | `query.rs` | statistics, searching |
//! | `page.rs`, `page/` | the page: its frame, style and scripts |
//! | `serve.rs` | what a server of the page answers |
//! | `svg.rs` | a picture |
//!
//! # How a page stays quick with millions of bars
//! Nobody can see more than a few thousand bars at a time. So the page never has more: it asks for what lies
//! between two moments at the resolution of its pixels, and what is finer than that comes added up
//! (`tiles.rs`). Adding up is cheap at any scale because of the sums that `model.rs` keeps. A trace of few
//! bars comes whole, and a page that is written to a file has as much in it as is reasonable; it says so if
//! that is not all.
//!
//! *Rejected.* A pyramid of levels made beforehand: as much memory again, and a pause before anything is
//! shown. Everything in the browser: 15 million events are 500 MB there before the first one is drawn. A
//! framework, and WebGL: a canvas draws ten thousand bars in a few milliseconds, and has text.

pub mod model;
mod names;
pub mod page;
pub mod query;
pub mod serve;
pub mod svg;
pub mod tiles;
mod timeline;

pub use model::Timeline;
