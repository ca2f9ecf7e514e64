//! Write barriers of tables.
//!
//! The fast part is the heap's: one comparison of epochs, and in a table that fails it, one of the value's
//! tag, since a plain value has nothing to report. Tables in islands never get here: their stores have been
//! refused before.
//!
//! The slow part tells the heap where in a large buffer a reference has been stored, so that a collection
//! looks at the surroundings of the store instead of the whole table. What replaces or moves storage uses the
//! plain [`perilune_heap::Heap::barrier`].

use crate::Vm;
use crate::object::{ArrayKind, Node, Table};
use crate::value::{Gc, Stores, Value};

impl Vm {
    /// The barrier for a store of `v` into a slot.
    #[inline(always)]
    pub(crate) fn slot_barrier(&mut self, t: Gc<Table>, v: Value) {
        if t.header.epoch != self.heap.epoch() && v.is_collectable() {
            // SAFETY: a Gc is of a live object.
            unsafe { self.heap.barrier_slow(t.obj()) };
        }
    }

    /// The barrier for a store of `v` into element `at` (from 0) of the array.
    #[inline(always)]
    pub(crate) fn element_barrier(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if t.header.epoch != self.heap.epoch() && v.is_collectable() {
            self.element_barrier_slow(t, at);
        }
    }

    /// The barrier for a store of `v` in `node`.
    #[inline(always)]
    pub(crate) fn node_barrier(&mut self, t: Gc<Table>, node: *mut Node, v: Value) {
        if t.header.epoch != self.heap.epoch() && v.is_collectable() {
            self.node_barrier_slow(t, node);
        }
    }

    /// The barrier for a node that has got its key and value from elsewhere.
    #[inline(always)]
    pub(super) fn new_node_barrier(&mut self, t: Gc<Table>, node: *mut Node) {
        // SAFETY: one of the table's nodes.
        let (key, v) = unsafe { ((*node).key(), (*node).value()) };
        self.node_barrier(t, node, if key.is_collectable() { key } else { v });
    }

    /// The cold half of [`Vm::slot_barrier`].
    #[cold]
    #[inline(never)]
    pub(crate) fn field_barrier_slow(&mut self, t: Gc<Table>) {
        // SAFETY: a Gc is of a live object.
        unsafe { self.heap.barrier_slow(t.obj()) };
    }

    /// The cold half of [`Vm::element_barrier`].
    #[cold]
    #[inline(never)]
    pub(crate) fn element_barrier_slow(&mut self, t: Gc<Table>, at: usize) {
        debug_assert!(t.kind == ArrayKind::General, "no other array holds references");
        if t.array_is_inline() {
            self.heap.stored_into(t);
        } else {
            // SAFETY: the table's array, which has the element, is in a buffer of its own.
            unsafe { self.buffer_barrier(t, t.array, at * size_of::<Value>()) };
        }
    }

    #[cold]
    #[inline(never)]
    fn node_barrier_slow(&mut self, t: Gc<Table>, node: *mut Node) {
        // SAFETY: the table's nodes, of which this is one, are in a buffer of their own.
        unsafe { self.buffer_barrier(t, t.nodes.cast(), node as usize - t.nodes as usize) };
    }

    /// The store was `offset` bytes into the data of a buffer.
    ///
    /// # Safety
    /// `data` is the data of a buffer that `t` owns, and has more than `offset` bytes.
    unsafe fn buffer_barrier(&mut self, t: Gc<Table>, data: *mut u8, offset: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.heap.barrier_at(t.obj(), super::buffer_of(data), data as usize + offset) };
    }
}
