//! Tables.
//!
//! A table has up to three parts; each key has exactly one home.
//!
//! * **Array part**: integer keys `1..=array_cap`. All-integer and all-float arrays store bare 8-byte
//!   elements, all-boolean ones a byte each ([`ArrayKind`]), a General one 16-byte values, nil allowed. The first element decides; a value
//!   that does not fit widens the array to General. See `table/array.rs`.
//! * **Slots**: string keys while the table has a shape (`shape.rs`). Slot *i* holds field *i* of the shape;
//!   nil means absent.
//! * **Hash part**: all other keys, and the string keys of a table without a shape (a *dictionary*). See
//!   `table/nodes.rs`.
//!
//! How large array part and hash part are is decided in `table/rehash.rs`, which also argues that n
//! insertions cost O(n).
//!
//! # Invariants
//! 1. No key in `1..=array_cap` is in the hash part. The elements beyond `array_len` are nil, and those up to
//!    it are not, unless the array has holes ([`TABLE_HOLES`]). So without holes and without integer keys in
//!    the hash part `array_len` is the border, and the length operator costs two loads (`table/border.rs`).
//! 2. String keys live all in the slots or all in the hash part: a shape that lacks a name proves that the
//!    table does.
//! 3. String keys are interned (`string.rs`), float keys with integral values are integers, and no key is nil
//!    or NaN.
//! 4. Where a key lives changes only when a new key is inserted. A removed key keeps its place with a nil
//!    value until then, so that `next` can go on from it: assigning to existing fields, nil included, during
//!    a traversal works as the manual says.
//! 5. [`TABLE_INT_NODES`] is set if the hash part has, or has had since it was last rebuilt, positive integer
//!    keys. While it is clear, positive integer look-ups need not look there. In the same way
//!    [`TABLE_REF_NODES`] stands for references.
//!
//! # Which tables become dictionaries
//! Shapes grow by stores of constant keys (`t.name = v`, constructors), which the text of a program bounds. A
//! store with a computed key (`t[k] = v`, `rawset`, natives) writes an existing field in place, or follows a
//! transition that is already known, so that copying a record field by field ends in the record's shape; a
//! name that would need a new transition makes the table a dictionary for good. Tables that are made from
//! data have rules of their own (`table/data.rs`).
//!
//! # Inline caches
//! Caches that look *through* a table (a class, a chain of `__index`) depend on where its fields are and
//! which are absent. Such a table carries `TABLE_IS_PROTO`; then a new key, a field that comes back from nil,
//! or moved storage bumps `Vm::proto_version`. Metatables also have the `absent` byte, which every store of a
//! name that begins with `__` clears.
//!
//! # Errors
//! Reading never allocates and never fails. Storing fails for the keys nil and NaN, and when memory is
//! refused; the table is then unchanged. Every store compares epochs for the write barrier, whatever the
//! value (`table/barrier.rs`).
//!
//! # Tables in islands
//! They have the same layout, so all reading goes through the same code, but for the string keys of
//! dictionaries (`FROZEN_DICT`): those are strings of the island and are compared by content. What stores
//! begins with [`Vm::check_writable`], or compares epochs and leaves the case to something that does.

mod array;
mod barrier;
mod border;
mod build;
pub(crate) mod data;
mod fields;
pub(crate) mod iterate;
pub(crate) mod nodes;
mod rehash;
mod shift;
pub(crate) mod trace;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work;

use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::native::{LuaResult, Thrown};
use crate::object::{ArrayKind, LuaString, TABLE_IS_PROTO, Table};
use crate::shape;
use crate::sys::prefetch;
use crate::value::{Gc, Tag, Value};
pub(crate) use array::{SMALL_ARRAY, Tally};
pub(crate) use iterate::Drained;
use perilune_heap::{Heap, Obj};
use std::ptr::null_mut;

/// Bytes that the processor fetches at a time.
const CACHE_LINE: usize = 64;

/// Bit of `Header::flags` of a table: the hash part may have positive integer keys.
pub(crate) const TABLE_INT_NODES: u8 = 4;
/// Bit of `Header::flags` of a table: elements of the array part may be nil.
pub(crate) const TABLE_HOLES: u8 = 8;
/// Bit of `Header::flags` of a table: the hash part may have references, as keys or values. While it is
/// clear, the collector need not look there.
pub(crate) const TABLE_REF_NODES: u8 = 16;
/// Bit of `Header::flags` of a table: its border has not been asked for since its array part got its present
/// size (`table/border.rs`).
pub(crate) const TABLE_UNMEASURED: u8 = 32;
/// Bit of `Header::flags` of a table: the size of its array part is yet to be settled (`table/array.rs`).
pub(crate) const TABLE_YOUNG: u8 = 64;

/// The bits of `Header::flags` of a table are declared in two files: each has one of its own.
const _: () = {
    let all = [
        TABLE_IS_PROTO,
        crate::object::TABLE_FINALIZE,
        crate::object::TABLE_GUARDED,
        TABLE_INT_NODES,
        TABLE_HOLES,
        TABLE_REF_NODES,
        TABLE_UNMEASURED,
        TABLE_YOUNG,
    ];
    let (mut n, mut taken) = (0, 0u8);
    while n < all.len() {
        assert!(all[n].is_power_of_two() && taken & all[n] == 0, "two flags of tables are the same bit");
        taken |= all[n];
        n += 1;
    }
};

/// Largest object that the heap allocates without a chance of failure, in bytes.
const SMALL: usize = 8192;
/// Most fields that a constructor's hint keeps in slots.
const MAX_HINTED_SLOTS: usize = 32;
/// Longest array that a constructor's hint keeps in the table's own object, in elements.
const MAX_INLINE_ARRAY: usize = 64;

/// The table's fields, for writing. Whoever writes borrows the heap: so there is one such reference at a
/// time, and nothing is collected while there is.
#[inline(always)]
fn edit(_owner: &mut Heap, t: Gc<Table>) -> &mut Table {
    // SAFETY: a Gc is of a live object of the domain whose heap is borrowed, and this is the only way to it
    // for as long as the borrow lasts.
    unsafe { &mut *t.ptr() }
}

/// As [`edit`], where there is no heap at hand.
///
/// # Safety
/// Nothing else refers to the table's fields while the reference is used.
#[inline(always)]
unsafe fn edit_raw<'a>(t: Gc<Table>) -> &'a mut Table {
    // SAFETY: a Gc is of a live object, which belongs to the calling thread; the caller's promise.
    unsafe { &mut *t.ptr() }
}

/// Counts nodes and elements that are gone through, for the tests of `table/work.rs`.
#[inline(always)]
fn count_work(_units: usize) {
    #[cfg(test)]
    work::count(_units);
}

/// The buffer with its data at `data`.
///
/// # Safety
/// `data` is the address of a buffer's data.
unsafe fn buffer_of(data: *mut u8) -> Obj {
    // SAFETY: the data of a buffer starts that far behind its header, and is never at null.
    unsafe { Obj::new_unchecked(data.sub(BUFFER_DATA).cast()) }
}

/// The integer that a float key stands for, if it has an integral value in range.
#[inline]
pub(crate) fn float_to_key(f: f64) -> Option<i64> {
    let i = f as i64;
    // `as` saturates: 2^63 would become i64::MAX, which as a float is 2^63 again.
    if i as f64 == f && f < 9_223_372_036_854_775_808.0 { Some(i) } else { None }
}

impl Table {
    /// Whether the slots are behind the table in the same object.
    #[inline]
    fn slots_are_inline(&self) -> bool {
        // SAFETY: one past the struct is still within (or at the end of) its object.
        self.slots.cast_const().cast() == unsafe { (self as *const Table).add(1) }
    }

    /// Whether the array is behind the slots in the same object.
    #[inline]
    fn array_is_inline(&self) -> bool {
        // SAFETY: the inline slots lie within the object.
        let at = unsafe { (self as *const Table).add(1).cast::<u8>().add(self.inline_slots as usize) };
        self.inline_array != 0 && self.array.cast_const() == at
    }

    /// The value of the string key `key` (interned).
    #[inline(always)]
    pub(crate) fn get_str(&self, key: Gc<LuaString>) -> Value {
        debug_assert!(key.is_interned());
        if self.shape == shape::DICT {
            return self.node_value(self.find_str(key));
        }
        match shape::lookup(self.shape, key) {
            // SAFETY: a table has a slot for each field of its shape.
            Some(slot) => unsafe { *self.slots.add(slot as usize) },
            None if self.shape == shape::FROZEN_DICT => self.node_value(self.find_frozen_str(key)),
            None => Value::NIL,
        }
    }

    /// Whether the table is in an island: then its keys are found in other ways (see the essay), and not even
    /// what is lazy may be written to it.
    #[inline(always)]
    pub(crate) fn is_in_island(&self) -> bool {
        perilune_heap::is_island(self as *const Table as usize)
    }

    /// Whether the table is in an island, or a frozen copy of another domain's: no program may write to it.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.header.epoch & perilune_heap::FROZEN != 0
    }

    /// Whether a store into the table has to be told or refused: it is watched (`parcel/cache.rs`) or frozen.
    /// Every way to change a table asks this first.
    #[inline(always)]
    pub(crate) fn minds_stores(&self) -> bool {
        self.header.epoch >= perilune_heap::WATCHED
    }

    /// Whether the table stands for the globals of a task: nothing may be written to it.
    #[inline(always)]
    pub(crate) fn is_guarded(&self) -> bool {
        self.header.flags & crate::object::TABLE_GUARDED != 0
    }

    /// Whether the table cannot have string keys: spares the look-up of an interned twin.
    #[inline(always)]
    pub(crate) fn has_no_strings(&self) -> bool {
        self.shape == shape::ROOT || (shape::is_dict(self.shape) && self.nodes.is_null())
    }
}

impl Gc<Table> {
    /// The value of the integer key `i`.
    #[inline(always)]
    pub(crate) fn get_int(self, i: i64) -> Value {
        let at = (i as u64).wrapping_sub(1);
        if at < self.array_len as u64 {
            // SAFETY: within `array_len`.
            unsafe { self.element(at as usize) }
        } else if self.has_holes() && at < self.array_cap as u64 {
            self.get_beyond_hint(at as usize)
        } else if self.nodes.is_null() {
            Value::NIL
        } else {
            self.get_int_node(i)
        }
    }

    #[inline(never)]
    fn get_int_node(self, i: i64) -> Value {
        if i > 0 && self.header.flags & TABLE_INT_NODES == 0 {
            return Value::NIL;
        }
        self.node_value(self.find_int(i))
    }

    /// The element `at` (from 0) of an array with holes, behind the hint, which moves.
    #[cold]
    fn get_beyond_hint(self, at: usize) -> Value {
        if !self.is_frozen() {
            // SAFETY: a table of this domain, and the reference is used up here.
            unsafe { edit_raw(self) }.array_len = at as u32 + 1;
        }
        // SAFETY: below `array_cap`, in an array with holes.
        unsafe { self.element(at) }
    }
}

impl Vm {
    /// A new table with room for `array_hint` elements and `field_hint` string-keyed fields: with the empty
    /// shape if the fields are few, else a dictionary.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn new_table(&mut self, array_hint: usize, field_hint: usize) -> LuaResult<Gc<Table>> {
        let (shape, slots) =
            if field_hint <= MAX_HINTED_SLOTS { (shape::ROOT, field_hint) } else { (shape::DICT, 0) };
        let inline_array = if array_hint <= MAX_INLINE_ARRAY { array_hint } else { 0 };
        let t = self.alloc_table(shape, slots, inline_array);
        self.table_resize(t, array_hint, if shape == shape::DICT { field_hint } else { 0 })?;
        edit(&mut self.heap, t).header.flags |= TABLE_UNMEASURED;
        Ok(t)
    }

    /// A new table with room for `array_hint` elements and `key_hint` other keys, names among them, in the
    /// hash part. As these then count when the hash part is full, the table has the borders that programs
    /// know from the reference implementation.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn new_dictionary(&mut self, array_hint: usize, key_hint: usize) -> LuaResult<Gc<Table>> {
        let inline_array = if array_hint <= MAX_INLINE_ARRAY { array_hint } else { 0 };
        let t = self.alloc_table(shape::DICT, 0, inline_array);
        self.table_resize(t, array_hint, key_hint)?;
        edit(&mut self.heap, t).header.flags |= TABLE_UNMEASURED;
        Ok(t)
    }

    /// A new table of a shape, with its slots (all nil) and room for an array of `inline_array` values in the
    /// same object. The slots must be enough for the shape. At most 8 KiB in all; never fails.
    #[inline(always)]
    pub(crate) fn alloc_table(&mut self, shape: u32, inline_slots: usize, inline_array: usize) -> Gc<Table> {
        let bytes = size_of::<Table>() + (inline_slots + inline_array) * size_of::<Value>();
        debug_assert!(bytes <= SMALL && inline_slots <= shape::MAX_FIELDS as usize);
        debug_assert!(inline_slots >= shape::field_count(shape) as usize);
        let t: *mut Table = self.heap.alloc(Tag::TABLE.0, bytes).as_ptr().cast();
        // SAFETY: a fresh object of `bytes` bytes, all of whose fields and slots are written here.
        unsafe {
            let slots: *mut Value = t.add(1).cast();
            (*t).shape = shape;
            (*t).absent = 0;
            (*t).kind = ArrayKind::General;
            (*t).log2_nodes = 0;
            (*t).slot_cap = inline_slots as u8;
            (*t).metatable = null_mut();
            (*t).slots = if inline_slots == 0 { null_mut() } else { slots };
            (*t).array = if inline_array == 0 { null_mut() } else { slots.add(inline_slots).cast() };
            (*t).array_len = 0;
            (*t).array_cap = inline_array as u32;
            (*t).nodes = null_mut();
            (*t).last_free = 0;
            (*t).inline_slots = (inline_slots * size_of::<Value>()) as u16;
            (*t).inline_array = (inline_array * size_of::<Value>()) as u16;
            // Volatile keeps the compiler from calling `memset` for what is nearly always a handful of words.
            let words: *mut u64 = slots.cast();
            for i in 0..inline_slots * 2 {
                words.add(i).write_volatile(0);
            }
            Gc::from_ptr(t)
        }
    }

    /// The value of `key`, nil if it has none; no metamethods (manual 6.1, `rawget`).
    #[inline]
    pub fn raw_get(&self, t: Gc<Table>, key: Value) -> Value {
        match key.tag() {
            Tag::INT => t.get_int(key.int_bits()),
            Tag::STRING => self.raw_get_string(t, key.gc()),
            Tag::NIL => Value::NIL,
            Tag::FLOAT => match float_to_key(key.float_bits()) {
                Some(i) => t.get_int(i),
                None => t.node_value(t.find_other(key)),
            },
            Tag::SHARED if t.is_in_island() => t.node_value(t.find_frozen_shared(key.gc())),
            Tag::SHARED => match self.known_shared(key.gc()) {
                Some(known) => t.node_value(t.find_other(known.into())),
                None => Value::NIL,
            },
            _ => t.node_value(t.find_other(key)),
        }
    }

    /// The value of the integer key `i`.
    #[inline(always)]
    pub fn raw_get_int(&self, t: Gc<Table>, i: i64) -> Value {
        t.get_int(i)
    }

    /// What is at `i`, if that is an object in the array, will soon be looked at: has the processor fetch the
    /// beginning of it.
    #[inline]
    pub fn foresee(&self, t: Gc<Table>, i: i64) {
        let at = (i as u64).wrapping_sub(1);
        if t.kind == ArrayKind::General && at < t.array_len as u64 {
            // SAFETY: an element of the array.
            let value = unsafe { t.element(at as usize) };
            if value.is_collectable() {
                let address = value.payload() as *const u8;
                prefetch(address);
                prefetch(address.wrapping_add(CACHE_LINE));
            }
        }
    }

    /// The value of the string key `key`, interned or not.
    #[inline(always)]
    pub(crate) fn raw_get_string(&self, t: Gc<Table>, key: Gc<LuaString>) -> Value {
        if key.is_interned() {
            return t.get_str(key);
        }
        if t.has_no_strings() {
            return Value::NIL;
        }
        if t.shape == shape::FROZEN_DICT {
            return t.node_value(t.find_frozen_str(key));
        }
        match self.find_interned(key) {
            Some(key) => t.get_str(key),
            None => Value::NIL,
        }
    }

    /// The value of the string key `key`, which is interned.
    #[inline(always)]
    pub(crate) fn raw_get_str(&self, t: Gc<Table>, key: Gc<LuaString>) -> Value {
        t.get_str(key)
    }

    /// Stores without metamethods (manual 6.1, `rawset`); nil removes.
    ///
    /// # Errors
    /// "table index is nil", "table index is NaN", "not enough memory"
    #[inline]
    pub fn raw_set(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        match key.tag() {
            Tag::INT => self.raw_set_int(t, key.int_bits(), v),
            Tag::STRING => self.raw_set_string(t, key.gc(), v),
            _ => self.raw_set_other(t, key, v),
        }
    }

    #[inline(never)]
    fn raw_set_other(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        self.check_writable(t)?;
        match key.tag() {
            Tag::NIL => return Err(self.key_error("table index is nil")),
            Tag::FLOAT => {
                let f = key.float_bits();
                if let Some(i) = float_to_key(f) {
                    return self.raw_set_int(t, i, v);
                }
                if f.is_nan() {
                    return Err(self.key_error("table index is NaN"));
                }
            }
            Tag::SHARED => {
                let key = self.canonical_shared(key.gc()).into();
                return self.set_node(t, t.find_other(key), key, v);
            }
            _ => {}
        }
        self.set_node(t, t.find_other(key), key, v)
    }

    /// Stores under a string key, interned or not, computed at run time.
    #[inline]
    pub(crate) fn raw_set_string(&mut self, t: Gc<Table>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        if key.is_interned() {
            return self.raw_set_str(t, key, v);
        }
        self.check_writable(t)?;
        let key = if v.is_nil() {
            match self.find_interned(key) {
                Some(key) => key,
                None => return Ok(()),
            }
        } else {
            self.intern(key)
        };
        self.raw_set_str(t, key, v)
    }

    /// Stores under a string key (interned) that was computed at run time: takes no transition that would
    /// have to be made for it.
    #[inline]
    pub(crate) fn raw_set_str(&mut self, t: Gc<Table>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        debug_assert!(key.is_interned());
        self.check_writable(t)?;
        if t.shape == shape::DICT {
            return self.set_str_node(t, key, v);
        }
        match self.lua.caches.shared.slot_of(t.shape, key) {
            Some(slot) => {
                self.set_slot(t, slot, key, v);
                Ok(())
            }
            None => self.add_computed_field(t, key, v),
        }
    }

    /// Stores under a string key (interned) that is a constant of the program's text: the table's shape grows
    /// if it can.
    #[inline]
    pub(crate) fn raw_set_field_const(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        v: Value,
    ) -> LuaResult<()> {
        debug_assert!(key.is_interned());
        self.check_writable(t)?;
        if t.shape == shape::DICT {
            return self.set_str_node(t, key, v);
        }
        match shape::lookup(t.shape, key) {
            Some(slot) => {
                self.set_slot(t, slot, key, v);
                Ok(())
            }
            None => self.add_constant_field(t, key, v),
        }
    }

    /// Stores under the integer key `i`.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline(always)]
    pub fn raw_set_int(&mut self, t: Gc<Table>, i: i64, v: Value) -> LuaResult<()> {
        let at = (i as u64).wrapping_sub(1);
        self.check_writable(t)?;
        let len = t.array_len as u64;
        if at <= len && t.accepts(v) && !t.has_holes() {
            if at < len {
                self.element_barrier(t, at as usize, v);
                // SAFETY: within `array_len`, and the kind accepts the value.
                unsafe { edit(&mut self.heap, t).set_element(at as usize, v) };
                return Ok(());
            }
            if at < t.array_cap as u64 && at != 0 {
                self.element_barrier(t, at as usize, v);
                let table = edit(&mut self.heap, t);
                table.array_len += 1;
                // SAFETY: within `array_cap`, and the kind accepts the value.
                unsafe { table.set_element(at as usize, v) };
                return Ok(());
            }
        }
        if at < t.array_cap as u64 && t.has_holes() {
            // A list that begins at 2, as that of a sieve does, has one as long as it grows.
            self.set_among_holes(t, at as usize, v);
            return Ok(());
        }
        self.set_int_slow(t, i, v)
    }

    /// Stores under the integer key `i`, which has no node and lies beyond the array part and the place
    /// behind it.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn add_int(&mut self, t: Gc<Table>, i: i64, v: Value) -> LuaResult<()> {
        debug_assert!((i as u64).wrapping_sub(1) > t.array_cap as u64 && t.find_int(i).is_null());
        self.check_writable(t)?;
        self.set_node(t, std::ptr::null_mut(), Value::int(i), v)
    }

    #[inline(never)]
    fn set_int_slow(&mut self, t: Gc<Table>, i: i64, v: Value) -> LuaResult<()> {
        let at = (i as u64).wrapping_sub(1);
        let cap = t.array_cap as u64;
        if at < cap {
            return self.set_any_element(t, at as usize, v);
        }
        let node = t.find_int(i);
        if node.is_null() && at == cap && !v.is_nil() {
            // A full array doubles if nothing else has to move. One that is small and has a hash part beside
            // it is left to the rule of `table/rehash.rs`.
            let alone = t.has_no_nodes()
                || (cap >= array::SMALL_ARRAY as u64 && t.header.flags & TABLE_INT_NODES == 0);
            if alone && t.array_len as u64 == cap && !t.has_holes() {
                return self.append_to_full(t, v);
            }
        }
        self.set_node(t, node, Value::int(i), v)
    }

    /// Makes room for `array` elements in all and for `nodes` keys in the hash part.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn table_resize(&mut self, t: Gc<Table>, array: usize, nodes: usize) -> LuaResult<()> {
        edit(&mut self.heap, t).settle_size();
        if array > t.array_cap as usize {
            if t.nodes.is_null() {
                self.set_array_size(t, array)?;
            } else {
                self.resize(t, array, t.node_count(), None)?;
            }
        }
        if nodes > t.node_count() {
            self.rebuild_nodes(t, nodes)?;
        }
        Ok(())
    }

    /// A buffer of `bytes` bytes: the address of its data.
    fn alloc_buffer(&mut self, bytes: usize) -> LuaResult<*mut u8> {
        let size = BUFFER_DATA + bytes;
        // Small ones do not fail here: the byte limit is looked at where a collection could help, at the next
        // safepoint.
        let object = if size <= SMALL {
            self.heap.alloc(Tag::BUFFER.0, size)
        } else {
            match self.heap.try_alloc(Tag::BUFFER.0, size) {
                Ok(o) => o,
                Err(_) => return Err(self.no_room(size)),
            }
        };
        // SAFETY: the object has `bytes` bytes behind its header.
        Ok(unsafe { object.as_ptr().cast::<u8>().add(BUFFER_DATA) })
    }

    /// The buffer with its data at `data`, given `bytes` bytes of data, more than it has: the address of the
    /// data now. The owner must be logged.
    ///
    /// # Safety
    /// `data` is the data of a buffer with one owner, who is told the new address; the old one is not used
    /// again.
    unsafe fn grow_buffer(&mut self, data: *mut u8, bytes: usize) -> LuaResult<*mut u8> {
        // SAFETY: the caller's promise; what is in a table's buffer is traced for the table.
        match unsafe { self.heap.try_grow(buffer_of(data), BUFFER_DATA + bytes) } {
            // SAFETY: as in `alloc_buffer`.
            Ok(o) => Ok(unsafe { o.as_ptr().cast::<u8>().add(BUFFER_DATA) }),
            Err(_) => Err(self.no_room(BUFFER_DATA + bytes)),
        }
    }

    /// "not enough memory" for a table that wants so many bytes: the interpreter may try again after a
    /// collection (`interp/mod.rs`).
    #[cold]
    fn no_room(&mut self, bytes: usize) -> Thrown {
        let thrown = self.out_of_memory();
        self.lua.gc.wanted_room = bytes;
        thrown
    }

    /// As [`Vm::grow_buffer`], but only if nothing need be copied, else `None`; the owner need not be logged.
    ///
    /// # Safety
    /// As for [`Vm::grow_buffer`].
    unsafe fn extend_buffer(&mut self, data: *mut u8, bytes: usize) -> Option<*mut u8> {
        // SAFETY: the caller's promise; the data as in `alloc_buffer`.
        unsafe {
            let grown = self.heap.try_extend(buffer_of(data), BUFFER_DATA + bytes)?;
            Some(grown.as_ptr().cast::<u8>().add(BUFFER_DATA))
        }
    }

    /// Gives up the buffer with its data at `data`. Its owner, which must be logged, has another one.
    ///
    /// # Safety
    /// `data` is the data of a buffer that nobody refers to any more.
    unsafe fn drop_buffer(&mut self, data: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.heap.free_buffer(buffer_of(data)) };
    }

    /// Refuses a store into a table of an island, a frozen copy, or into the globals of a task; tells of one
    /// into a watched table. Every way to change a table that does not compare epochs itself begins with
    /// this.
    #[inline(always)]
    pub(crate) fn check_writable(&mut self, t: Gc<Table>) -> LuaResult<()> {
        if t.minds_stores() || t.is_guarded() { self.store_is_minded(t) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn store_is_minded(&mut self, t: Gc<Table>) -> LuaResult<()> {
        if t.is_frozen() || t.is_guarded() {
            return Err(self.frozen_error(t));
        }
        self.watched_store(t);
        Ok(())
    }

    /// To be called when a key appears in a table, or its storage moves.
    #[inline(always)]
    fn structure_changed(&mut self, t: Gc<Table>) {
        if t.header.flags & TABLE_IS_PROTO != 0 {
            self.lua.proto_version = self.lua.proto_version.wrapping_add(1);
        }
    }

    /// To be called with every store under a string key.
    #[inline(always)]
    fn name_stored(&mut self, t: Gc<Table>, key: Gc<LuaString>) {
        if key.is_dunder() {
            edit(&mut self.heap, t).absent = 0;
            self.structure_changed(t);
        }
    }

    /// Raises `message`, with a position if it was Lua code that used the key, not a native function.
    #[cold]
    fn key_error(&mut self, message: &str) -> Thrown {
        // SAFETY: the running function has a frame below its base.
        if unsafe { (*frame(self.lua.base)).flags } & F_NATIVE != 0 {
            self.error_plain(message)
        } else {
            self.error(message)
        }
    }
}

/// Bytes before a buffer's data.
pub(crate) const BUFFER_DATA: usize = 8;
