//! Snapshots of heaps: what the program writes of its live objects, references and roots. Tools read it
//! elsewhere (`perilune-see`).
//!
//! | file | |
//! |---|---|
//! | `format.rs` | the file: records, kinds, labels |
//! | `write.rs` | writing it |

pub mod format;
pub mod write;

pub use format::{Label, NodeKind, RootKind};
pub use write::Writer;
