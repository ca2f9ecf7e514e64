//! Snapshots of heaps: what was alive, who held it, what became more between two of them.
//!
//! The program writes what it has (objects with sizes and descriptions, labelled references, roots:
//! [`perilune_trace::heapshot`]); everything that takes thought is done here, by the tool.
//!
//! | file | |
//! |---|---|
//! | `read.rs` | reading it: [`Snapshot`] |
//! | `dominators.rs` | who retains what |
//! | `graph.rs` | shortest paths from roots, retained sizes |
//! | `names.rs` | paths and types for people |
//! | `summary.rs` | groups, largest retainers |
//! | `compare.rs` | growth |
//!
//! # Terms
//! An object's *own* bytes are its memory with the buffers that nobody else refers to (a table's parts, a
//! coroutine's stack) and memory outside the heap that it is charged for. What it *retains* would be freed if
//! it went: its own bytes and those of all objects that can be reached from roots only through it, which are
//! those that it dominates. Weak references retain nothing.

pub mod compare;
pub mod dominators;
pub mod graph;
pub mod names;
pub mod read;
pub mod summary;

pub use graph::Graph;
pub use perilune_trace::heapshot::{Label, NodeKind, RootKind};
pub use read::{Snapshot, is_snapshot};
