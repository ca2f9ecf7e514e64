//! Native stacks for coroutines, taken only while a native call lives in one.

/// A native stack on which a native call of a coroutine runs.
pub struct Segment {}
