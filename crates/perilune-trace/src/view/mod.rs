//! The viewer: a trace as a page with rows of bars, and as a picture.
//!
//! | file | |
//! |---|---|
//! | `model.rs` | what is drawn: groups, rows, bars, moments, curves, links |
//! | `timeline.rs` | from a trace to that |

pub mod model;
mod timeline;

pub use model::Timeline;
