//! A model check of the lock of files and of its bias: every interleaving of a few threads, within a bound on preemptions,
//! under C11's memory model.
//!
//! The file is compiled here a second time, with `sync.rs` of this folder in place of the library's: loom's
//! types work only inside a model, so the library itself cannot be built with them.

#![allow(dead_code, missing_docs)]

#[path = "../../src/io"]
mod io {
    #[path = "bias.rs"]
    mod bias;
    #[path = "closable.rs"]
    mod closable;
    #[path = "../../tests/model/closable.rs"]
    mod model;
    #[path = "../../tests/model/sync.rs"]
    mod sync;
}
