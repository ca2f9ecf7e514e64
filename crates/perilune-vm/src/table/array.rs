//! The array part: kinds, growth, taking keys over from the hash part, and giving them back.
//!
//! Elements beyond `array_len` are garbage. Capacity is counted in elements of the present kind; an empty array changes its kind for free,
//! reading its capacity anew. Growth doubles. An array that is full and mostly nil (a queue whose head has moved on) is not doubled but moved to the
//! hash part, so that a long-lived queue needs memory for what it holds rather than for what went through it.

use super::{TABLE_INT_NODES, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, Table};
use crate::value::{Gc, Tag, Value};

/// Longest array part.
pub(super) const MAX_ARRAY: usize = (1 << 31) - 1;
/// An array shorter than this is never considered mostly nil.
const MIN_SPARSE: u32 = 64;
/// Bytes from which on the heap is asked to grow storage where it is.
const LARGE: usize = 8 << 10;

impl ArrayKind {
    /// Bytes of an element.
    #[inline(always)]
    pub(crate) const fn element_size(self) -> usize {
        match self {
            ArrayKind::General => 16,
            _ => 8,
        }
    }

    /// The tag of the elements of an array of numbers.
    #[inline(always)]
    pub(crate) const fn number_tag(self) -> Tag {
        debug_assert!(!matches!(self, ArrayKind::General));
        Tag(Tag::INT.0 - 1 + self as u8)
    }

    /// The kind that fits `v` most tightly.
    #[inline]
    pub(crate) fn of(v: Value) -> ArrayKind {
        match v.tag() {
            Tag::INT => ArrayKind::Int,
            Tag::FLOAT => ArrayKind::Float,
            _ => ArrayKind::General,
        }
    }
}

impl Table {
    /// Element `at` (from 0).
    ///
    /// # Safety
    /// `at < array_len`
    #[inline(always)]
    pub(crate) unsafe fn element(&self, at: usize) -> Value {
        debug_assert!(at < self.array_len as usize);
        // SAFETY: within the array, whose elements have the size that the kind says.
        unsafe {
            match self.kind {
                ArrayKind::General => *self.array.cast::<Value>().add(at),
                kind => Value::raw(kind.number_tag(), *self.array.cast::<u64>().add(at)),
            }
        }
    }

    /// Whether the array can hold `v` as it is. Nil is never accepted, since at the end it must shrink the array.
    #[inline(always)]
    pub(crate) fn accepts(&self, v: Value) -> bool {
        match self.kind {
            ArrayKind::General => !v.is_nil(),
            kind => v.tag() == kind.number_tag(),
        }
    }

    /// Writes element `at` (from 0).
    ///
    /// # Safety
    /// `at < array_cap`, and the kind fits `v`; the barrier has run.
    #[inline(always)]
    pub(crate) unsafe fn set_element(&mut self, at: usize, v: Value) {
        debug_assert!(at < self.array_cap as usize);
        debug_assert!(self.kind == ArrayKind::General || self.accepts(v));
        // SAFETY: as the caller says.
        unsafe {
            match self.kind {
                ArrayKind::General => *self.array.cast::<Value>().add(at) = v,
                _ => *self.array.cast::<u64>().add(at) = v.payload(),
            }
        }
    }

    /// Gives an empty array another kind.
    pub(super) fn choose_kind(&mut self, kind: ArrayKind) {
        debug_assert_eq!(self.array_len, 0);
        let bytes = self.array_cap as usize * self.kind.element_size();
        self.array_cap = (bytes / kind.element_size()).min(MAX_ARRAY) as u32;
        self.kind = kind;
    }

    /// Moves `array_len` down past trailing nils.
    pub(super) fn trim(&mut self) {
        if self.kind == ArrayKind::General {
            while self.array_len > 0 {
                // SAFETY: within `array_len`.
                if !unsafe { self.element(self.array_len as usize - 1) }.is_nil() {
                    break;
                }
                self.array_len -= 1;
                self.header.flags |= super::TABLE_TRIMMED;
            }
        }
    }
}

impl Vm {
    /// Gives the array room for `want` elements of its kind or more. The elements stay.
    pub(super) fn reserve_array(&mut self, t: Gc<Table>, want: usize) -> LuaResult<()> {
        self.resize_array(t, want, t.kind)
    }

    /// New storage for the array: of `kind`, for `want` elements or a few more.
    fn resize_array(&mut self, t: Gc<Table>, want: usize, kind: ArrayKind) -> LuaResult<()> {
        if want > MAX_ARRAY {
            return Err(self.out_of_memory());
        }
        // Objects come in units of 16 bytes: use what rounding up would waste.
        let bytes = ((want * kind.element_size() + super::BUFFER_DATA + 15) & !15) - super::BUFFER_DATA;
        let own = !t.array.is_null() && !t.array_is_inline();
        let grows =
            own && kind == t.kind && want > t.array_cap as usize && want * kind.element_size() > LARGE;
        let extended = if grows { self.extend_buffer(t.array, bytes) } else { None };
        if extended.is_none() {
            self.heap.barrier(t.obj());
        }
        if grows {
            let new = match extended {
                Some(new) => new,
                None => self.grow_buffer(t.array, bytes)?,
            };
            let table = edit(t);
            table.array = new;
            table.array_cap = (bytes / kind.element_size()).min(MAX_ARRAY) as u32;
            return Ok(());
        }
        let new = self.alloc_buffer(bytes)?;
        let table = edit(t);
        let len = table.array_len as usize;
        debug_assert!(len <= want);
        let old = table.array;
        // SAFETY: both buffers hold `len` elements of their kinds and do not overlap.
        unsafe {
            if kind == table.kind {
                std::ptr::copy_nonoverlapping(table.array, new, len * kind.element_size());
            } else {
                debug_assert_eq!(kind, ArrayKind::General);
                for at in 0..len {
                    new.cast::<Value>().add(at).write(table.element(at));
                }
            }
        }
        table.array = new;
        // Widening must not change the capacity: `next` tells removed elements from foreign keys by it.
        table.array_cap = if kind == table.kind {
            (bytes / kind.element_size()).min(MAX_ARRAY) as u32
        } else {
            want as u32
        };
        table.kind = kind;
        if own {
            self.drop_buffer(old);
        }
        Ok(())
    }

    /// Makes the array General. Room for one more element stays if there was any.
    pub(super) fn widen(&mut self, t: Gc<Table>) -> LuaResult<()> {
        if t.kind == ArrayKind::General {
            return Ok(());
        }
        if t.array_len == 0 {
            edit(t).choose_kind(ArrayKind::General);
            return Ok(());
        }
        // Elements take twice the bytes now. Keeping the number of elements would double the storage each time a table is emptied and filled anew with
        // another kind; keeping the bytes does not.
        let want = (t.array_len + 1).max(t.array_cap / 2).min(t.array_cap) as usize;
        self.resize_array(t, want, ArrayKind::General)
    }

    /// Stores any value over element `at` (from 0), which exists.
    pub(super) fn replace_element(&mut self, t: Gc<Table>, at: usize, v: Value) -> LuaResult<()> {
        let table = edit(t);
        if v.is_nil() && at + 1 == table.array_len as usize {
            table.array_len -= 1;
            table.header.flags |= super::TABLE_TRIMMED;
            table.trim();
            return Ok(());
        }
        if !table.accepts(v) {
            self.widen(t)?;
        }
        self.element_barrier(t, at, v);
        // SAFETY: the element exists, and the array is General or accepts `v`.
        unsafe { edit(t).set_element(at, v) };
        Ok(())
    }

    /// Stores `v`, not nil, at `array_len + 1`.
    #[inline(never)]
    pub(super) fn append(&mut self, t: Gc<Table>, v: Value) -> LuaResult<()> {
        if t.array_len == t.array_cap && self.is_sparse(t) {
            let key = t.array_len as i64 + 1;
            self.array_to_nodes(t)?;
            return self.raw_set_int(t, key, v);
        }
        self.push_element(t, v)?;
        if t.header.flags & TABLE_INT_NODES != 0 {
            edit(t).bury_int(t.array_len as i64);
            self.take_over(t)?;
        }
        Ok(())
    }

    /// Stores `v` at `array_len + 1`, growing or widening as needed, and nothing else. A nil breaks invariant 1 until the caller
    /// has stored something behind it.
    pub(super) fn push_element(&mut self, t: Gc<Table>, v: Value) -> LuaResult<()> {
        let table = edit(t);
        let len = table.array_len as usize;
        if len == 0 {
            table.choose_kind(ArrayKind::of(v));
        }
        if len == table.array_cap as usize {
            self.reserve_array(t, (len * 2).max(4))?;
        }
        let table = edit(t);
        if table.kind != ArrayKind::General && !table.accepts(v) {
            self.widen(t)?;
        }
        self.element_barrier(t, len, v);
        let table = edit(t);
        // SAFETY: there is room, and the array is General or accepts `v`.
        unsafe { table.set_element(len, v) };
        table.array_len += 1;
        Ok(())
    }

    /// Restores invariant 1 after the array has grown: moves the keys that follow it over from the hash part.
    pub(super) fn take_over(&mut self, t: Gc<Table>) -> LuaResult<()> {
        loop {
            let node = t.find_int(t.array_len as i64 + 1);
            let v = t.node_value(node);
            if v.is_nil() {
                return Ok(());
            }
            self.push_element(t, v)?;
            edit(t).bury(node);
        }
    }

    /// Stores `v`, not nil, as element `at` (from 0) beyond the end: the gap is filled from the hash part and with nil.
    pub(super) fn store_far(&mut self, t: Gc<Table>, at: usize, v: Value) -> LuaResult<()> {
        let int_nodes = t.header.flags & TABLE_INT_NODES != 0;
        let stored = self.fill_and_push(t, at, v, int_nodes);
        if stored.is_err() {
            edit(t).trim();
        }
        stored
    }

    fn fill_and_push(&mut self, t: Gc<Table>, at: usize, v: Value, int_nodes: bool) -> LuaResult<()> {
        if at >= t.array_cap as usize {
            self.reserve_array(t, at + 1)?;
        }
        if !int_nodes && t.array_len as usize != at {
            self.widen(t)?;
        }
        for _ in t.array_len as usize..at {
            let key = t.array_len as i64 + 1;
            let v = if int_nodes { t.node_value(t.find_int(key)) } else { Value::NIL };
            self.push_element(t, v)?;
            if int_nodes {
                edit(t).bury_int(key);
            }
        }
        self.push_element(t, v)?;
        if int_nodes {
            edit(t).bury_int(at as i64 + 1);
            self.take_over(t)?;
        }
        Ok(())
    }

    /// Stores `values` under the integer keys from `first` on, as a constructor does (manual 3.4.9): nils leave holes in the array part
    /// rather than sending what follows to the hash part, so that the length of `{f()}` is that of the list unless it ends in nil.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn raw_set_list(&mut self, t: Gc<Table>, first: i64, values: &[Value]) -> LuaResult<()> {
        self.check_writable(t)?;
        self.heap.barrier(t.obj());
        if first != t.array_len as i64 + 1 || t.header.flags & TABLE_INT_NODES != 0 {
            for (i, &v) in values.iter().enumerate() {
                let key = first + i as i64;
                let at = (key - 1) as usize;
                if v.is_nil() || key < 1 || at < t.array_len as usize {
                    self.raw_set_int(t, key, v)?;
                } else {
                    self.store_far(t, at, v)?;
                }
            }
            return Ok(());
        }
        let used = values.iter().rposition(|v| !v.is_nil()).map_or(0, |at| at + 1);
        let values = &values[..used];
        let Some(&head) = values.first() else { return Ok(()) };
        let len = t.array_len as usize;
        let kind = ArrayKind::of(head);
        let uniform = (len == 0 || t.kind == kind) && values.iter().all(|v| v.tag() == head.tag());
        if len == 0 {
            edit(t).choose_kind(if uniform { kind } else { ArrayKind::General });
        } else if !uniform {
            self.widen(t)?;
        }
        if len + used > t.array_cap as usize {
            self.reserve_array(t, len + used)?;
        }
        let table = edit(t);
        for (i, &v) in values.iter().enumerate() {
            // SAFETY: room was made, and the kind fits all values.
            unsafe { table.set_element(len + i, v) };
        }
        table.array_len += used as u32;
        Ok(())
    }

    /// Whether a full array is so empty that it is better kept in the hash part.
    fn is_sparse(&self, t: Gc<Table>) -> bool {
        if t.kind != ArrayKind::General || t.array_len < MIN_SPARSE {
            return false;
        }
        // SAFETY: all within `array_len`.
        let used = (0..t.array_len as usize).filter(|&at| !unsafe { t.element(at) }.is_nil()).count();
        used * 4 < t.array_len as usize
    }

    /// Moves the elements of a sparse array to the hash part, but for the longest prefix that is more than half used.
    fn array_to_nodes(&mut self, t: Gc<Table>) -> LuaResult<()> {
        let len = t.array_len as usize;
        let mut census = super::nodes::Census::default();
        census.add_array(&t);
        let keep = census.best_size();
        // SAFETY: all within `array_len`.
        let moving = (keep..len).filter(|&at| !unsafe { t.element(at) }.is_nil()).count();
        self.rebuild_nodes(t, t.live_nodes() + moving + 1)?;
        let table = edit(t);
        for at in keep..len {
            // SAFETY: within the old `array_len`; the kind is General.
            let v = unsafe { *table.array.cast::<Value>().add(at) };
            if !v.is_nil() {
                table.insert_into_free(Value::int(at as i64 + 1), v);
            }
        }
        table.array_len = keep as u32;
        table.trim();
        self.take_over(t)?;
        // Give the storage back.
        self.resize_array(t, (t.array_len as usize).max(4), ArrayKind::General)
    }
}
