//! The heap of a state as libraries and hosts see it: parameters, limits, figures.
//!
//! Allocation, barriers and marking are not for them: a store that misses its barrier, or an object that is
//! not initialised, is memory that the collector frees too early. So nobody outside of this crate gets at a
//! `Vm`'s `Heap`.

use crate::Vm;
use perilune_heap::{Heap, HeapStats, IslandRef, Params};

/// See the module; made by [`Vm::heap`].
pub struct HeapControl<'a>(&'a mut Heap);

impl Vm {
    /// The heap, for its parameters, limits and figures.
    #[inline]
    pub fn heap(&mut self) -> HeapControl<'_> {
        HeapControl(&mut self.heap)
    }
}

impl HeapControl<'_> {
    /// When to collect, and how much at a time.
    pub fn params(&self) -> Params {
        self.0.params()
    }
    /// Changes [`HeapControl::params`].
    pub fn set_params(&mut self, params: Params) {
        self.0.set_params(params);
    }
    /// Stops automatic collection.
    pub fn stop(&mut self) {
        self.0.stop();
    }
    /// Restarts automatic collection.
    pub fn restart(&mut self) {
        self.0.restart();
    }
    /// Whether automatic collection is on.
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }
    /// Turns the stress mode on or off: a collection is due at every safepoint.
    pub fn set_stress(&mut self, on: bool) {
        self.0.set_stress(on);
    }
    /// Bytes that the program holds: what was allocated and has not been found dead, external memory
    /// included.
    pub fn live_bytes(&self) -> usize {
        self.0.live_bytes()
    }
    /// Bytes allocated since the last collection.
    pub fn bytes_since_collection(&self) -> usize {
        self.0.bytes_since_collection()
    }
    /// The limit of [`HeapControl::live_bytes`], if there is one.
    #[inline]
    pub fn limit(&self) -> Option<usize> {
        self.0.limit()
    }
    /// Whether there is any limit that the heap may meet: its own, or the program's.
    pub fn is_limited(&self) -> bool {
        self.0.is_limited()
    }
    /// Whether memory is short: beyond a limit, or refused by the system. What goes on allocating for long
    /// without a safepoint asks now and then.
    pub fn is_over_limit(&self) -> bool {
        self.0.over_limit()
    }
    /// Sets the limit, in bytes; `None`: no limit.
    pub fn set_limit(&mut self, bytes: Option<usize>) {
        self.0.set_limit(bytes);
    }
    /// The bytes that may be added, as far as can be said now.
    pub fn room(&self) -> usize {
        self.0.room()
    }
    /// The program's limit is not for this heap, or is again: for libraries that are being opened, whose
    /// failure nobody could catch.
    pub fn set_exempt(&mut self, exempt: bool) {
        self.0.set_exempt(exempt);
    }
    /// The domain has given so many bytes away: into messages, maps.
    pub fn note_given(&mut self, bytes: usize) {
        self.0.note_given(bytes);
    }
    /// The islands that the domain holds.
    pub fn islands(&self) -> Vec<IslandRef> {
        self.0.islands()
    }
    /// What the collector has done.
    pub fn stats(&self) -> HeapStats {
        self.0.stats()
    }
}
