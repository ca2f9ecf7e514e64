//! Write barriers of tables.
//!
//! The fast part is the heap's: one comparison of epochs. The slow part knows what the heap does not:
//!
//! * an array of numbers has no reference, so tracing its table again costs nothing;
//! * a plain value stored into a table with large parts has nothing to report, and a table that is not reported is not traced again;
//! * a reference stored into a large buffer is reported by its address, so that a collection looks at the surroundings of the
//!   store instead of the whole table.
//!
//! In a small table any store reports the table, so that the next one takes the fast part. What replaces or moves storage uses the plain
//! [`perilune_heap::Heap::barrier`].

use super::BUFFER_DATA;
use crate::Vm;
use crate::object::{ArrayKind, Node, Table};
use crate::value::{Gc, Value};
use perilune_heap::Obj;

/// A General array or a hash part with more entries than this makes its table a large one.
const LARGE: usize = 512;

impl Vm {
    /// The barrier for a store of `v` into a slot.
    #[inline(always)]
    pub(crate) fn slot_barrier(&mut self, t: Gc<Table>, v: Value) {
        if t.header.epoch != self.heap.epoch() {
            self.slot_barrier_slow(t, v);
        }
    }

    /// The barrier for a store of `v` into element `at` (from 0) of the array.
    #[inline(always)]
    pub(crate) fn element_barrier(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if t.header.epoch != self.heap.epoch() {
            self.element_barrier_slow(t, at, v);
        }
    }

    /// The barrier for a store of `v` in `node`.
    #[inline(always)]
    pub(crate) fn node_barrier(&mut self, t: Gc<Table>, node: *mut Node, v: Value) {
        if t.header.epoch != self.heap.epoch() {
            self.node_barrier_slow(t, node, v);
        }
    }

    /// The barrier for a node that has got its key and value from elsewhere.
    #[inline(always)]
    pub(super) fn new_node_barrier(&mut self, t: Gc<Table>, node: *mut Node) {
        if t.header.epoch != self.heap.epoch() {
            // SAFETY: one of the table's nodes.
            let (key, v) = unsafe { ((*node).key(), (*node).value()) };
            self.node_barrier_slow(t, node, if key.is_collectable() { key } else { v });
        }
    }

    #[cold]
    #[inline(never)]
    fn slot_barrier_slow(&mut self, t: Gc<Table>, v: Value) {
        if v.is_collectable() || !is_large(&t) {
            self.heap.barrier(t.obj());
        }
    }

    #[cold]
    #[inline(never)]
    fn element_barrier_slow(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if t.kind == ArrayKind::General && !t.array_is_inline() {
            self.buffer_barrier(t, t.array, at * size_of::<Value>(), v);
        } else {
            self.slot_barrier_slow(t, v);
        }
    }

    #[cold]
    #[inline(never)]
    fn node_barrier_slow(&mut self, t: Gc<Table>, node: *mut Node, v: Value) {
        self.buffer_barrier(t, t.nodes.cast(), node as usize - t.nodes as usize, v);
    }

    /// The store was `offset` bytes into the data of a buffer.
    fn buffer_barrier(&mut self, t: Gc<Table>, data: *mut u8, offset: usize, v: Value) {
        if v.is_collectable() {
            // SAFETY: the data of a buffer starts that far behind its header, and is never at null.
            let buffer = unsafe { Obj::new_unchecked(data.sub(BUFFER_DATA).cast()) };
            self.heap.barrier_at(t.obj(), buffer, data as usize + offset);
        } else {
            self.slot_barrier_slow(t, v);
        }
    }
}

/// Whether tracing the table takes long.
fn is_large(t: &Table) -> bool {
    t.ref_nodes().len() > LARGE || (t.kind == ArrayKind::General && t.array_len as usize > LARGE)
}
