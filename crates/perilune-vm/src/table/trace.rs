//! What the collector needs from tables: tracing, and clearing of weak entries.
//!
//! Dead keys are not reported: nothing looks behind them (`table/nodes.rs`). Names of shape fields are roots of the domain
//! (`shape.rs`), so slots are traced for their values only. Strings count as values rather than objects in weak tables
//! (manual 2.5.4): they are reported as strong and never cleared.

use super::BUFFER_DATA;
use crate::object::{ArrayKind, Node, Table};
use crate::shape;
use crate::value::{Tag, Value};
use perilune_heap::Obj;

/// Which references of a table are weak (`__mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weak {
    pub keys: bool,
    pub values: bool,
}

#[inline(always)]
fn mark_value(v: Value, mark: &mut impl FnMut(Obj)) {
    if let Some(o) = v.obj() {
        mark(o);
    }
}

/// Whether a weak reference to `v` is treated as strong.
fn is_strong(v: Value) -> bool {
    !v.is_collectable() || v.tag() == Tag::STRING
}

/// Addresses from and to (exclusive) that are of interest in a table's array, fields and hash part.
pub(crate) type Range = (usize, usize);
/// All addresses.
pub(crate) const WHOLE: Range = (0, usize::MAX);

/// Entries in a portion. Each may be a miss in every cache, and the collector looks at the clock between portions.
const PORTION: usize = 256;
/// Bit of portions of the hash part.
const NODE_PORTION: usize = 1 << 63;

fn trace_nodes(nodes: &[Node], mark: &mut impl FnMut(Obj)) {
    for n in nodes {
        if n.is_live() {
            mark_value(n.key(), mark);
            mark_value(n.value(), mark);
        }
    }
}

/// The items of `all` that lie, if only in part, at addresses in `lo..hi`.
fn overlap<T>(all: &[T], lo: usize, hi: usize) -> &[T] {
    all.get(overlap_indices(all, (lo, hi))).unwrap_or(&[])
}

fn overlap_indices<T>(all: &[T], (lo, hi): Range) -> std::ops::Range<usize> {
    let start = all.as_ptr() as usize;
    let from = (lo.saturating_sub(start) / size_of::<T>()).min(all.len());
    let to = hi.saturating_sub(start).div_ceil(size_of::<T>()).min(all.len());
    from..to.max(from)
}

impl Table {
    pub(crate) fn general_elements(&self) -> &[Value] {
        let len = self.extent();
        if self.kind != ArrayKind::General || len == 0 {
            return &[];
        }
        // SAFETY: a General array of `len` values.
        unsafe { std::slice::from_raw_parts(self.array.cast(), len) }
    }

    pub(crate) fn field_values(&self) -> &[Value] {
        let count = shape::field_count(self.shape) as usize;
        if count == 0 {
            return &[];
        }
        // SAFETY: a table has a slot for each field of its shape.
        unsafe { std::slice::from_raw_parts(self.slots, count) }
    }

    /// Whether slots and array lie within the table's own object.
    pub(crate) fn inline_parts(&self) -> (bool, bool) {
        (self.slots_are_inline(), self.array_is_inline())
    }

    /// Reports the metatable and the table's own buffers.
    fn trace_parts(&self, mark: &mut impl FnMut(Obj)) {
        Obj::new(self.metatable.cast()).map(&mut *mark);
        let buffers = [
            (self.slots.cast::<u8>(), self.slots_are_inline()),
            (self.array, self.array_is_inline()),
            (self.nodes.cast(), false),
        ];
        for (data, inline) in buffers {
            if !data.is_null() && !inline {
                // SAFETY: the data of a buffer starts that far behind its header.
                Obj::new(unsafe { data.sub(BUFFER_DATA) }.cast()).map(&mut *mark);
            }
        }
    }

    /// Reports everything that a table without weak references refers to, in one go.
    ///
    /// # Safety
    /// The table is initialised and nothing writes to it meanwhile.
    #[cfg(test)]
    pub(crate) unsafe fn trace(&self, mark: &mut impl FnMut(Obj)) {
        let mut at = Some(0);
        while let Some(from) = at {
            // SAFETY: the caller's promise.
            at = unsafe { self.trace_portion(from, mark) };
        }
    }

    /// Reports all that the table refers to, if it consists of fields and inline elements alone; else nothing, and false.
    ///
    /// # Safety
    /// As [`Table::trace`].
    #[inline(always)]
    pub(crate) unsafe fn trace_record(&self, mark: &mut impl FnMut(Obj)) -> bool {
        if !self.nodes.is_null()
            || !(self.array.is_null() || self.array_is_inline())
            || !(self.slots.is_null() || self.slots_are_inline())
        {
            return false;
        }
        Obj::new(self.metatable.cast()).map(&mut *mark);
        if !self.slots.is_null() {
            self.field_values().iter().for_each(|&v| mark_value(v, mark));
        }
        self.general_elements().iter().for_each(|&v| mark_value(v, mark));
        true
    }

    /// Reports a portion of what a table without weak references refers to, beginning with portion 0, and returns the next portion, if there is one. Between
    /// portions the table may change under barriers.
    ///
    /// # Safety
    /// The table is initialised and nothing writes to it meanwhile.
    pub(crate) unsafe fn trace_portion(&self, portion: usize, mark: &mut impl FnMut(Obj)) -> Option<usize> {
        let (in_nodes, from) = (portion & NODE_PORTION != 0, portion & !NODE_PORTION);
        if in_nodes {
            let nodes = self.ref_nodes();
            let end = nodes.len().min(from + PORTION);
            trace_nodes(nodes.get(from..end).unwrap_or(&[]), mark);
            return (end < nodes.len()).then_some(NODE_PORTION | end);
        }
        if from == 0 {
            self.trace_parts(mark);
            self.field_values().iter().for_each(|&v| mark_value(v, mark));
        }
        let elements = self.general_elements();
        let end = elements.len().min(from + PORTION);
        elements.get(from..end).unwrap_or(&[]).iter().for_each(|&v| mark_value(v, mark));
        if end < elements.len() {
            return Some(end);
        }
        let nodes = self.ref_nodes();
        if nodes.len() > PORTION {
            return Some(NODE_PORTION);
        }
        trace_nodes(nodes, mark);
        None
    }

    /// Reports what the array or hash part keeps at addresses in `lo..hi`, which are not looked at unless they lie in one of the buffers that
    /// the table has now. What straddles a border is reported. For tables without weak references.
    ///
    /// # Safety
    /// As [`Table::trace_portion`].
    pub(crate) unsafe fn trace_range(&self, lo: usize, hi: usize, mark: &mut impl FnMut(Obj)) {
        overlap(self.general_elements(), lo, hi).iter().for_each(|&v| mark_value(v, mark));
        overlap(self.field_values(), lo, hi).iter().for_each(|&v| mark_value(v, mark));
        trace_nodes(overlap(self.ref_nodes(), lo, hi), mark);
    }

    /// Reports the strong references that a table with weak ones keeps in `range`. A value whose key is a weak object is not reported, whatever it is: see
    /// [`Table::ephemerons`].
    ///
    /// # Safety
    /// As [`Table::trace_portion`].
    pub(crate) unsafe fn trace_weak(&self, weak: Weak, range: Range, mark: &mut impl FnMut(Obj)) {
        let (lo, hi) = range;
        if range == WHOLE {
            self.trace_parts(mark);
        }
        let (elements, fields) =
            (overlap(self.general_elements(), lo, hi), overlap(self.field_values(), lo, hi));
        for &v in elements.iter().chain(fields) {
            if !weak.values || is_strong(v) {
                mark_value(v, mark);
            }
        }
        for n in overlap(self.ref_nodes(), lo, hi) {
            if n.is_live() {
                let (key, v) = (n.key(), n.value());
                let strong_key = !weak.keys || is_strong(key);
                if strong_key {
                    mark_value(key, mark);
                }
                if is_strong(v) || (strong_key && !weak.values) {
                    mark_value(v, mark);
                }
            }
        }
    }

    /// Calls `f` with every entry in `range` whose key is an object that could be weak: with weak keys only, its value is reachable through the table if the key
    /// is.
    pub(crate) fn ephemerons(&self, range: Range, mut f: impl FnMut(*mut Node)) {
        let nodes = self.ref_nodes();
        for at in overlap_indices(nodes, range) {
            if nodes[at].is_live() && !is_strong(nodes[at].key()) {
                // SAFETY: within the nodes.
                f(unsafe { self.nodes.add(at) });
            }
        }
    }

    /// Removes the entries in `range` with a dead weak key or value. Strings are never asked about.
    pub(crate) fn clear_weak(&mut self, weak: Weak, range: Range, is_dead: impl Fn(Value) -> bool) {
        let gone = |v: Value| !is_strong(v) && is_dead(v);
        if weak.values {
            let elements = overlap_indices(self.general_elements(), range);
            let array: *mut Value = self.array.cast();
            let slots = overlap_indices(self.field_values(), range);
            // SAFETY: within the General array and the slots in use.
            unsafe {
                for at in elements {
                    if gone(*array.add(at)) {
                        if !self.has_holes() {
                            // Needs no memory, since the array is General.
                            self.make_holes();
                        }
                        let hint = self.array_len;
                        self.set_with_holes(at, Value::NIL);
                        if self.has_holes() {
                            self.array_len = hint;
                        }
                    }
                }
                for at in slots {
                    if gone(*self.slots.add(at)) {
                        *self.slots.add(at) = Value::NIL;
                    }
                }
            }
        }
        for at in overlap_indices(self.ref_nodes(), range) {
            // SAFETY: within the nodes.
            let n = unsafe { &mut *self.nodes.add(at) };
            if n.is_live() && ((weak.keys && gone(n.key())) || (weak.values && gone(n.value()))) {
                n.set_value(Value::NIL);
            }
        }
    }
}
