//! Values that live outside all heaps and cross by reference.
//!
//! Shared objects are `SHARED` values (`shared.rs`). What lies in an island is told by its address.

use crate::Vm;
use crate::value::Value;

/// A count of an island, and a value in it.
#[derive(Clone)]
pub(super) enum IslandHold {}

impl Vm {
    /// A count of the island that `v` lies in, if it lies in one.
    #[inline(always)]
    pub(super) fn hold_island(&self, _v: Value) -> Option<IslandHold> {
        None
    }

    /// The value, whose island this domain holds a count of from now on.
    pub(super) fn adopt_island(&mut self, hold: &IslandHold) -> Value {
        match *hold {}
    }
}
