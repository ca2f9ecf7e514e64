//! Tables made to measure: for values that arrive from elsewhere with their structure known.

use super::{MAX_INLINE_ARRAY, edit, edit_raw};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};

impl Vm {
    /// An empty table of a shape whose names are adopted here, with room for `array` elements of `kind` and
    /// `nodes` keys in the hash part, neither more nor less than needed.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn new_table_of(
        &mut self,
        shape: u32,
        kind: ArrayKind,
        array: usize,
        nodes: usize,
    ) -> LuaResult<Gc<Table>> {
        let slots = shape::field_count(shape) as usize;
        let values = (array * kind.element_size()).div_ceil(size_of::<Value>());
        let inline = if values <= MAX_INLINE_ARRAY { values } else { 0 };
        let t = self.alloc_table(shape, slots, inline);
        if array > 0 {
            edit(&mut self.heap, t).kind = kind;
            self.set_array_size(t, array)?;
        }
        if nodes > 0 {
            self.rebuild_nodes(t, nodes)?;
        }
        Ok(t)
    }
}

impl Gc<Table> {
    /// Writes the slots of a new table from left to right.
    ///
    /// # Safety
    /// The table was made by [`Vm::new_table_of`], nothing has been collected since, and `slot` is below the
    /// number of its shape's fields.
    #[inline(always)]
    pub(crate) unsafe fn init_slot(self, slot: usize, v: Value) {
        // SAFETY: the caller's promise; a newborn needs no barrier.
        unsafe { *self.slots.add(slot) = v };
    }

    /// Writes element `at` (from 0) of a new table; they come in order.
    ///
    /// # Safety
    /// As [`Gc::init_slot`]; there is room for the element, and the kind is General.
    #[inline(always)]
    pub(crate) unsafe fn init_element(self, at: usize, v: Value) {
        // SAFETY: the caller's promise; nothing else refers to a new table.
        unsafe { edit_raw(self).set_element(at, v) };
    }

    /// Copies elements of 8 bytes from `words` to a new table of numbers.
    ///
    /// # Safety
    /// As [`Gc::init_slot`]; there is room, and the words are numbers of the table's kind.
    pub(crate) unsafe fn init_numbers(self, words: &[u64]) {
        debug_assert!(self.kind.is_number() && words.len() <= self.array_cap as usize);
        // SAFETY: the caller's promise; the storage is the table's own.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), self.array.cast(), words.len()) };
    }

    /// Copies the elements of an array of booleans, as [`Gc::boolean_tags`] has them, to a new table.
    ///
    /// # Safety
    /// As [`Gc::init_slot`]; there is room, and the table's kind is Bool.
    pub(crate) unsafe fn init_booleans(self, tags: &[u8]) {
        debug_assert!(self.kind == ArrayKind::Bool && tags.len() <= self.array_cap as usize);
        debug_assert!(tags.iter().all(|&tag| Tag(tag).is_boolean()));
        // SAFETY: the caller's promise; the storage is the table's own.
        unsafe { std::ptr::copy_nonoverlapping(tags.as_ptr(), self.array, tags.len()) };
    }

    /// Says that all elements that there is room for have been written.
    ///
    /// # Safety
    /// They have been; none is nil unless `holes`, and then the kind is General.
    pub(crate) unsafe fn init_length(self, holes: bool) {
        // SAFETY: nothing else refers to a new table.
        let table = unsafe { edit_raw(self) };
        debug_assert!(!holes || table.kind == ArrayKind::General);
        table.array_len = table.array_cap;
        if holes {
            table.count_holes();
        }
    }

    /// Puts a key that belongs to the hash part into a new table that has room for it.
    ///
    /// # Safety
    /// As [`Gc::init_slot`]; the key is new, strings are interned, and the value is not nil.
    pub(crate) unsafe fn init_node(self, key: Value, v: Value) {
        // SAFETY: nothing else refers to a new table.
        unsafe { edit_raw(self) }.insert_into_free(key, v);
    }

    /// The numbers of an array of numbers as words.
    pub(crate) fn number_words<'a>(self) -> &'a [u64] {
        debug_assert!(self.kind.is_number());
        if self.array_len == 0 {
            return &[];
        }
        // SAFETY: `array_len` elements of 8 bytes; used at once, before anything can change the table.
        unsafe { std::slice::from_raw_parts(self.array.cast(), self.array_len as usize) }
    }

    /// The tags of an array of booleans.
    pub(crate) fn boolean_tags<'a>(self) -> &'a [u8] {
        debug_assert!(self.kind == ArrayKind::Bool && !self.has_holes());
        if self.array_len == 0 {
            return &[];
        }
        // SAFETY: `array_len` elements of a byte; used at once, before anything can change the table.
        unsafe { std::slice::from_raw_parts(self.array, self.array_len as usize) }
    }
}
