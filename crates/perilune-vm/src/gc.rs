//! What the heap needs to know about Lua: how to trace each kind, the roots, weak tables, ephemerons and finalisers.

/// The collector's Lua-side state.
#[derive(Default)]
pub(crate) struct GcState {}
