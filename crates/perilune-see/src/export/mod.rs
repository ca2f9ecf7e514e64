//! Traces for other people's viewers.
//!
//! Both exporters write what our own viewer draws ([`crate::view::model`]): the same rows, bars and links, so
//! that no two tools disagree about what a program did.

pub mod chrome;
pub mod perfetto;
