//! What tables refer to, whole, in portions and in ranges; and the clearing of weak entries.
//!
//! Dead keys are not reported: nothing looks behind them (`table/nodes.rs`). Names of shape fields are roots
//! of the domain (`shape.rs`), so slots are traced for their values only. Strings count as values rather than
//! objects in weak tables (manual 2.5.4): they are reported as strong and never cleared.

use crate::edge::{Edge, EdgeVisitor};
use crate::object::{ArrayKind, Node, Table};
use crate::shape;
use crate::value::{Tag, Value};

/// Which references of a table are weak (`__mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weak {
    pub keys: bool,
    pub values: bool,
}

/// Whether a weak reference to `v` is treated as strong.
fn is_strong(v: Value) -> bool {
    !v.is_collectable() || v.tag() == Tag::STRING
}

/// Addresses from and to (exclusive) that are of interest in a table's array, fields and hash part.
pub(crate) type Range = (usize, usize);
/// All addresses.
pub(crate) const WHOLE: Range = (0, usize::MAX);

/// Entries in a portion. Each may be a miss in every cache, and the collector looks at the clock between
/// portions.
const PORTION: usize = 256;
/// Bit of portions of the hash part.
const NODE_PORTION: usize = 1 << 63;

fn visit_nodes(nodes: &[Node], visitor: &mut impl EdgeVisitor) {
    for n in nodes {
        if n.is_live() {
            visitor.value(Edge::Key, n.key());
            visitor.value(Edge::Entry(n.key()), n.value());
        }
    }
}

/// Indices of the items of `all` that lie, if only in part, at addresses in `lo..hi`.
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

    /// Reports the metatable and the table's own buffers.
    fn visit_parts(&self, visitor: &mut impl EdgeVisitor) {
        // What else a table refers to lies in these parts. A new field has to be named here.
        let Table {
            header: _,
            shape: _,
            absent: _,
            kind: _,
            log2_nodes: _,
            slot_cap: _,
            metatable,
            slots,
            array,
            array_len: _,
            array_cap: _,
            nodes,
            last_free: _,
            inline_slots: _,
            inline_array: _,
        } = *self;
        visitor.pointer(Edge::Metatable, metatable);
        if !self.slots_are_inline() {
            visitor.buffer(slots);
        }
        if !self.array_is_inline() {
            visitor.buffer(array);
        }
        visitor.buffer(nodes);
    }

    #[inline(always)]
    fn visit_fields(&self, visitor: &mut impl EdgeVisitor) {
        self.field_values().iter().enumerate().for_each(|(n, &v)| visitor.value(Edge::Field(n), v));
    }

    /// Reports everything that a table without weak references refers to, in one go.
    ///
    /// # Safety
    /// The table is initialised and nothing writes to it meanwhile.
    #[cfg(test)]
    pub(crate) unsafe fn visit(&self, visitor: &mut impl EdgeVisitor) {
        let mut at = Some(0);
        while let Some(from) = at {
            // SAFETY: the caller's promise.
            at = unsafe { self.visit_portion(from, visitor) };
        }
    }

    /// Reports all that the table refers to, if it consists of fields and inline elements alone; else
    /// nothing, and false.
    ///
    /// # Safety
    /// As [`Table::visit`].
    #[inline(always)]
    pub(crate) unsafe fn visit_record(&self, visitor: &mut impl EdgeVisitor) -> bool {
        if !self.nodes.is_null()
            || !(self.array.is_null() || self.array_is_inline())
            || !(self.slots.is_null() || self.slots_are_inline())
        {
            return false;
        }
        visitor.pointer(Edge::Metatable, self.metatable);
        if !self.slots.is_null() {
            self.visit_fields(visitor);
        }
        let elements = self.general_elements();
        elements.iter().enumerate().for_each(|(n, &v)| visitor.value(Edge::Element(n + 1), v));
        true
    }

    /// Reports a portion of what a table without weak references refers to, beginning with portion 0, and
    /// returns the next portion, if there is one. Between portions the table may change under barriers.
    ///
    /// # Safety
    /// The table is initialised and nothing writes to it meanwhile.
    pub(crate) unsafe fn visit_portion(
        &self,
        portion: usize,
        visitor: &mut impl EdgeVisitor,
    ) -> Option<usize> {
        let (in_nodes, from) = (portion & NODE_PORTION != 0, portion & !NODE_PORTION);
        if in_nodes {
            let nodes = self.ref_nodes();
            let end = nodes.len().min(from + PORTION);
            visit_nodes(nodes.get(from..end).unwrap_or(&[]), visitor);
            return (end < nodes.len()).then_some(NODE_PORTION | end);
        }
        if from == 0 {
            self.visit_parts(visitor);
            self.visit_fields(visitor);
        }
        let elements = self.general_elements();
        let end = elements.len().min(from + PORTION);
        for (n, &v) in elements.get(from..end).unwrap_or(&[]).iter().enumerate() {
            visitor.value(Edge::Element(from + n + 1), v);
        }
        if end < elements.len() {
            return Some(end);
        }
        let nodes = self.ref_nodes();
        if nodes.len() > PORTION {
            return Some(NODE_PORTION);
        }
        visit_nodes(nodes, visitor);
        None
    }

    /// Reports what the array or hash part keeps at addresses in `range`, which are not looked at unless they
    /// lie in one of the buffers that the table has now. What straddles a border is reported. For tables
    /// without weak references.
    ///
    /// # Safety
    /// As [`Table::visit_portion`].
    pub(crate) unsafe fn visit_range(&self, range: Range, visitor: &mut impl EdgeVisitor) {
        let elements = self.general_elements();
        overlap_indices(elements, range).for_each(|n| visitor.value(Edge::Element(n + 1), elements[n]));
        let fields = self.field_values();
        overlap_indices(fields, range).for_each(|n| visitor.value(Edge::Field(n), fields[n]));
        let nodes = self.ref_nodes();
        visit_nodes(nodes.get(overlap_indices(nodes, range)).unwrap_or(&[]), visitor);
    }

    /// Reports what a table with weak references keeps in `range`, strongly or weakly.
    ///
    /// # Safety
    /// As [`Table::visit_portion`].
    pub(crate) unsafe fn visit_weak(&self, weak: Weak, range: Range, visitor: &mut impl EdgeVisitor) {
        if range == WHOLE {
            self.visit_parts(visitor);
        }
        fn report(edge: Edge, v: Value, strong: bool, visitor: &mut impl EdgeVisitor) {
            match v.obj() {
                Some(to) if strong => visitor.edge(edge, to),
                Some(to) => visitor.weak(edge, to),
                None => {}
            }
        }
        let elements = self.general_elements();
        for n in overlap_indices(elements, range) {
            report(Edge::Element(n + 1), elements[n], !weak.values || is_strong(elements[n]), visitor);
        }
        let fields = self.field_values();
        for n in overlap_indices(fields, range) {
            report(Edge::Field(n), fields[n], !weak.values || is_strong(fields[n]), visitor);
        }
        let nodes = self.ref_nodes();
        for at in overlap_indices(nodes, range) {
            let n = &nodes[at];
            if !n.is_live() {
                continue;
            }
            let (key, v) = (n.key(), n.value());
            let strong_key = !weak.keys || is_strong(key);
            if !strong_key && !weak.values {
                // SAFETY: within the nodes.
                visitor.mortal(unsafe { self.nodes.add(at) });
            }
            if is_strong(v) {
                visitor.value(if strong_key { Edge::Entry(key) } else { Edge::UnderWeakKey }, v);
            } else if strong_key || weak.values {
                report(Edge::Entry(key), v, !weak.values, visitor);
            } else {
                visitor.ephemeron(n);
                continue;
            }
            report(Edge::Key, key, strong_key, visitor);
        }
    }

    /// Calls `f` with every entry in `range` whose key is an object that could be weak: with weak keys only,
    /// its value is reachable through the table if the key is.
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
