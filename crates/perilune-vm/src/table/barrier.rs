//! Write barriers of tables.
//!
//! The fast part is the heap's: one comparison of epochs. The slow part knows what the heap does not: a table whose array is all numbers has no
//! reference there; a store of a plain value into a large buffer has nothing to report; and a reference stored into a large buffer is reported by
//! its address, so that a collection looks at the surroundings of the store instead of the whole table. What replaces or
//! moves storage uses the plain [`perilune_heap::Heap::barrier`].

use super::BUFFER_DATA;
use crate::Vm;
use crate::object::{ArrayKind, Node, Table};
use crate::value::{Gc, Value};
use perilune_heap::Obj;

impl Vm {
    /// The barrier for a store of `v` into element `at` (from 0) of the array.
    #[inline(always)]
    pub(crate) fn element_barrier(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if t.header.epoch != self.heap.epoch() {
            self.element_barrier_slow(t, at, v);
        }
    }

    #[cold]
    #[inline(never)]
    fn element_barrier_slow(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if t.kind != ArrayKind::General {
            return self.heap.barrier(t.obj());
        }
        let slot = t.array as usize + at * size_of::<Value>();
        self.store_barrier_slow(t, t.array as usize, slot, v);
    }

    /// The barrier for a store of `v` in `node`.
    #[inline(always)]
    pub(crate) fn node_barrier(&mut self, t: Gc<Table>, node: *mut Node, v: Value) {
        if t.header.epoch != self.heap.epoch() {
            self.store_barrier_slow(t, t.nodes as usize, node as usize, v);
        }
    }

    /// `data`: start of the storage that `slot` is in.
    #[cold]
    #[inline(never)]
    fn store_barrier_slow(&mut self, t: Gc<Table>, data: usize, slot: usize, v: Value) {
        let inline_bytes = t.inline_slots as usize + t.inline_array as usize;
        if data.wrapping_sub(t.address() + size_of::<Table>()) < inline_bytes {
            return self.heap.barrier(t.obj());
        }
        let Some(buffer) = Obj::new((data - BUFFER_DATA) as *mut _) else { return };
        // SAFETY: storage that is not inline is in a buffer, whose header lies in front of it.
        let is_large = unsafe { buffer.as_ref() }.granules == 0;
        if is_large && !v.is_collectable() {
            return;
        }
        self.heap.barrier_at(t.obj(), buffer, slot);
    }
}
