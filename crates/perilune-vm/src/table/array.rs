//! The array part: kinds, storage, elements, holes.
//!
//! The array part has room for the keys `1..=array_cap`, and every one of these keys lives there. It is in
//! one of two states.
//!
//! * **Dense**: elements `1..=array_len` have values, the others have none, and what their storage holds is
//!   garbage. The elements may be bare numbers, or the tags of booleans ([`ArrayKind`]).
//! * **With holes** ([`TABLE_HOLES`]): any element may be nil. All are 16-byte values, all storage up to
//!   `array_cap` is initialised, and `array_len` is the *hint* of `table/border.rs`: where a border was found
//!   or an element was used last. Between the two, elements have to be looked for in slow paths, which move
//!   the hint.
//!
//! An array becomes one with holes when nil is stored before its end or a value behind it, which initialises
//! the rest of its storage. It becomes dense again when all or none of its elements have values, or when its
//! border turns out to be their number. A large one does so only after as many changes as pay for
//! initialising it once more ([`Tally`]).
//!
//! # Young arrays
//! How many keys belong to the array part matters for borders, and `table/rehash.rs` says it: one, two, four
//! and so on while a table is filled. The first storage has room for four, and so as not to leave the fast
//! path at the second and third element, `array_cap` is four at once, with
//! [`TABLE_YOUNG`]: until something else than an append happens, the true size is `array_len` rounded up to a power of two
//! ([`Table::settle_size`]).

use super::{TABLE_HOLES, TABLE_UNMEASURED, TABLE_YOUNG, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, Table};
use crate::value::{Gc, Stores, Tag, Value};

/// Longest array part.
pub(super) const MAX_ARRAY: usize = (1 << 31) - 1;
/// Arrays up to this size are gone through rather than kept account of.
pub(crate) const SMALL_ARRAY: usize = 64;
/// Bytes from which on the heap is asked to grow storage where it is.
const LARGE: usize = 8 << 10;
/// Bytes of storage that are not worth giving back.
const SMALL_STORAGE: usize = 128;
/// So many elements of a constructor are stored one by one.
const FEW: usize = 8;
/// Elements of the first storage.
const FIRST: usize = 4;

impl ArrayKind {
    /// All kinds, each at its number.
    pub const ALL: [ArrayKind; 4] = [ArrayKind::General, ArrayKind::Int, ArrayKind::Float, ArrayKind::Bool];

    /// Bytes of an element.
    #[inline(always)]
    pub const fn element_size(self) -> usize {
        match self {
            ArrayKind::General => 16,
            ArrayKind::Int | ArrayKind::Float => 8,
            ArrayKind::Bool => 1,
        }
    }

    /// Whether the elements are bare numbers of one kind.
    #[inline(always)]
    pub const fn is_number(self) -> bool {
        match self {
            ArrayKind::Int | ArrayKind::Float => true,
            ArrayKind::General | ArrayKind::Bool => false,
        }
    }

    /// The tag of the elements of an array of numbers.
    #[inline(always)]
    pub(crate) const fn number_tag(self) -> Tag {
        debug_assert!(self.is_number());
        Tag(Tag::INT.0 - 1 + self as u8)
    }

    /// The kind that fits `v` most tightly.
    #[inline]
    pub(crate) fn of(v: Value) -> ArrayKind {
        ArrayKind::of_tag(v.tag())
    }

    /// The kind that fits values of this tag most tightly.
    #[inline]
    pub fn of_tag(tag: Tag) -> ArrayKind {
        match tag {
            Tag::INT => ArrayKind::Int,
            Tag::FLOAT => ArrayKind::Float,
            Tag::FALSE | Tag::TRUE => ArrayKind::Bool,
            _ => ArrayKind::General,
        }
    }

    /// The kind that fits all of `values` most tightly, nil among them or not.
    pub(super) fn of_all(values: &[Value]) -> ArrayKind {
        let kind = values.first().map_or(ArrayKind::General, |&v| ArrayKind::of(v));
        match kind == ArrayKind::General || values.iter().all(|&v| kind.accepts(v)) {
            true => kind,
            false => ArrayKind::General,
        }
    }

    /// Whether an array of this kind without holes can hold `v`: nil is never accepted, since it makes holes.
    #[inline(always)]
    pub(crate) fn accepts(self, v: Value) -> bool {
        match self {
            ArrayKind::General => !v.is_nil(),
            ArrayKind::Int | ArrayKind::Float => v.tag() == self.number_tag(),
            ArrayKind::Bool => v.tag().is_boolean(),
        }
    }

    /// Bytes of storage for `cap` elements; a large array of values has a [`Tally`] behind them.
    pub(super) fn storage(self, cap: usize) -> usize {
        let tally = if self == ArrayKind::General && cap > SMALL_ARRAY { size_of::<Tally>() } else { 0 };
        cap * self.element_size() + tally
    }
}

const _: () = {
    let mut n = 0;
    while n < ArrayKind::ALL.len() {
        assert!(ArrayKind::ALL[n] as usize == n, "a kind is at its number");
        n += 1;
    }
};

/// The account of a large array with holes, behind its last element.
#[repr(C)]
pub(crate) struct Tally {
    /// Elements that are not nil.
    used: u32,
    /// Elements that have become nil or got a value since the array has had holes.
    changes: u32,
}

impl Tally {
    /// From one to [`Tally::used`].
    pub(crate) const USED: i32 = std::mem::offset_of!(Tally, used) as i32;
    /// From one to [`Tally::changes`].
    pub(crate) const CHANGES: i32 = std::mem::offset_of!(Tally, changes) as i32;
}

impl Table {
    /// Whether elements of the array part may be nil.
    #[inline(always)]
    pub(crate) fn has_holes(&self) -> bool {
        self.header.flags & TABLE_HOLES != 0
    }

    /// Number of elements of the array part that may have values.
    #[inline(always)]
    pub(crate) fn extent(&self) -> usize {
        if self.has_holes() { self.array_cap as usize } else { self.array_len as usize }
    }

    /// Element `at` (from 0).
    ///
    /// # Safety
    /// `at < extent()`
    #[inline(always)]
    pub(crate) unsafe fn element(&self, at: usize) -> Value {
        debug_assert!(at < self.extent());
        // SAFETY: within the array, whose elements have the size that the kind says.
        unsafe {
            match self.kind {
                ArrayKind::General => *self.array.cast::<Value>().add(at),
                kind @ (ArrayKind::Int | ArrayKind::Float) => {
                    Value::raw(kind.number_tag(), *self.array.cast::<u64>().add(at))
                }
                ArrayKind::Bool => {
                    let tag = Tag(*self.array.add(at));
                    debug_assert!(tag.is_boolean(), "an array of booleans holds the tag {tag:?}");
                    Value::raw(tag, 0)
                }
            }
        }
    }

    /// Whether element `at` (from 0) of the array part is nil; `at < array_cap`.
    #[inline]
    pub(super) fn is_hole(&self, at: usize) -> bool {
        // SAFETY: compared.
        at >= self.extent() || unsafe { self.element(at) }.is_nil()
    }

    /// Whether `v`, stored under the key `i`, makes a value of a hole of an array with holes, or a hole of a value.
    pub(crate) fn changes_hole(&self, i: i64, v: Value) -> bool {
        let at = (i as u64).wrapping_sub(1);
        self.has_holes() && at < self.array_cap as u64 && self.is_hole(at as usize) != v.is_nil()
    }

    /// Whether the array can hold `v` as it is. Nil is never accepted, since it makes holes.
    #[inline(always)]
    pub(crate) fn accepts(&self, v: Value) -> bool {
        self.kind.accepts(v)
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
                ArrayKind::Int | ArrayKind::Float => *self.array.cast::<u64>().add(at) = v.payload(),
                ArrayKind::Bool => *self.array.add(at) = v.tag().0,
            }
        }
    }

    /// Writes the elements from `at` (from 0) on.
    ///
    /// # Safety
    /// As [`Table::set_element`], for each of them.
    unsafe fn set_elements(&mut self, at: usize, values: &[Value]) {
        debug_assert!(at + values.len() <= self.array_cap as usize);
        debug_assert!(self.kind == ArrayKind::General || values.iter().all(|&v| self.accepts(v)));
        let values = values.iter().enumerate();
        // SAFETY: as the caller says.
        unsafe {
            match self.kind {
                ArrayKind::General => {
                    let to = self.array.cast::<Value>().add(at);
                    values.for_each(|(i, &v)| *to.add(i) = v);
                }
                ArrayKind::Int | ArrayKind::Float => {
                    let to = self.array.cast::<u64>().add(at);
                    values.for_each(|(i, v)| *to.add(i) = v.payload());
                }
                ArrayKind::Bool => {
                    let to = self.array.add(at);
                    values.for_each(|(i, v)| *to.add(i) = v.tag().0);
                }
            }
        }
    }

    /// Gives a young array its true size.
    #[inline]
    pub(super) fn settle_size(&mut self) {
        if self.header.flags & TABLE_YOUNG != 0 {
            debug_assert!(!self.has_holes() && self.array_len > 0);
            self.header.flags &= !TABLE_YOUNG;
            self.array_cap = self.array_len.next_power_of_two();
        }
    }

    /// The account of a large array of values.
    fn tally(&mut self) -> &mut Tally {
        debug_assert!(self.kind == ArrayKind::General && self.array_cap as usize > SMALL_ARRAY);
        // SAFETY: `ArrayKind::storage` has room for it behind the elements, aligned as they are.
        unsafe { &mut *self.array.cast::<Value>().add(self.array_cap as usize).cast() }
    }

    /// Number of elements that are not nil.
    pub(super) fn used(&mut self) -> usize {
        if !self.has_holes() {
            self.array_len as usize
        } else if self.array_cap as usize > SMALL_ARRAY {
            self.tally().used as usize
        } else {
            (0..self.array_cap as usize).filter(|&at| !self.is_hole(at)).count()
        }
    }

    /// Makes a dense array one with holes. It is General.
    pub(super) fn make_holes(&mut self) {
        debug_assert!(self.kind == ArrayKind::General && !self.has_holes() && self.array_cap > 0);
        self.settle_size();
        let (len, cap) = (self.array_len as usize, self.array_cap as usize);
        super::count_work(cap - len);
        for at in len..cap {
            // SAFETY: within the storage, which has room for values.
            unsafe { self.array.cast::<Value>().add(at).write(Value::NIL) };
        }
        self.header.flags |= TABLE_HOLES;
        self.array_len = self.dense_hint();
        if cap > SMALL_ARRAY {
            *self.tally() = Tally { used: len as u32, changes: 0 };
        }
    }

    /// Makes an array all of whose elements have been written one with holes.
    pub(super) fn count_holes(&mut self) {
        self.make_holes();
        let cap = self.array_cap as usize;
        let used = (0..cap).filter(|&at| !self.is_hole(at)).count();
        if cap > SMALL_ARRAY {
            self.tally().used = used as u32;
        }
    }

    /// Makes an array with holes dense: its first `len` elements are not nil, the others are.
    pub(super) fn make_dense(&mut self, len: usize) {
        debug_assert!(
            self.has_holes() && (0..self.array_cap as usize).all(|at| self.is_hole(at) == (at >= len))
        );
        self.header.flags &= !(TABLE_HOLES | TABLE_UNMEASURED);
        if self.array_len == self.array_cap {
            self.header.flags |= TABLE_UNMEASURED;
        }
        self.array_len = len as u32;
    }

    /// Makes an array with holes that has `len` values dense, if they are its first elements and it is paid
    /// for.
    pub(super) fn fill_up(&mut self, len: usize) {
        let cap = self.array_cap as usize;
        if cap > SMALL_ARRAY {
            if (self.tally().changes as usize) < cap / 4 {
                return;
            }
            self.tally().changes = 0;
        }
        super::count_work(len);
        if (0..len).all(|at| !self.is_hole(at)) {
            self.make_dense(len);
        }
    }

    /// Stores over element `at` (from 0) of an array with holes. The barrier has run.
    #[inline]
    pub(super) fn set_with_holes(&mut self, at: usize, v: Value) {
        debug_assert!(self.has_holes() && at < self.array_cap as usize);
        self.array_len = self.array_len.max(at as u32 + 1);
        // SAFETY: within the array, which is General.
        let slot = unsafe { &mut *self.array.cast::<Value>().add(at) };
        let (was_nil, is_nil) = (slot.is_nil(), v.is_nil());
        *slot = v;
        if was_nil != is_nil {
            self.after_change(at, is_nil);
        }
    }

    /// Stores into element `at` (from 0) while a resize puts keys where they belong: a dense array gets as
    /// many as there are behind its end, in any order, and has room and the kind for them.
    pub(super) fn place(&mut self, at: usize, v: Value) {
        if self.has_holes() {
            return self.set_with_holes(at, v);
        }
        // SAFETY: `Vm::grow_array` made room and chose the kind.
        unsafe { self.set_element(at, v) };
        self.array_len += 1;
    }

    /// Forgets the elements beyond the first `size`, of which `moved` had values, before the array is made
    /// that small.
    pub(super) fn cut(&mut self, size: usize, moved: usize) {
        if !self.has_holes() {
            self.array_len = self.array_len.min(size as u32);
        } else if self.array_cap as usize > SMALL_ARRAY {
            self.tally().used -= moved as u32;
        }
    }

    /// Element `at` has become nil (`removed`) or got a value.
    fn after_change(&mut self, at: usize, removed: bool) {
        let cap = self.array_cap as usize;
        if cap > SMALL_ARRAY {
            let tally = self.tally();
            tally.changes = tally.changes.saturating_add(1);
            if removed {
                tally.used -= 1;
                if tally.used == 0 {
                    self.fill_up(0);
                }
            } else {
                tally.used += 1;
                if tally.used as usize == cap {
                    self.make_dense(cap);
                }
            }
            return;
        }
        // Nearly always a neighbour tells that the array is neither full nor empty.
        let agrees = |at: usize| self.is_hole(at) == removed;
        let (below, above) = (at.saturating_sub(1), (at + 1).min(cap - 1));
        if agrees(below) && agrees(above) && (0..cap).all(agrees) {
            self.make_dense(if removed { 0 } else { cap });
        }
    }
}

impl Vm {
    /// Bytes of storage that the array has.
    pub(super) fn array_storage(&self, t: Gc<Table>) -> usize {
        if t.array.is_null() {
            0
        } else if t.array_is_inline() {
            t.inline_array as usize
        } else {
            // SAFETY: an array that is not behind the table is in a buffer of its own.
            (unsafe { self.heap.size_of(super::buffer_of(t.array)) }) - super::BUFFER_DATA
        }
    }

    /// Changes the size of the array part. Only the array changes: keys that now belong elsewhere have been,
    /// or will be, moved by the caller, who keeps `array_len` within bounds.
    pub(super) fn set_array_size(&mut self, t: Gc<Table>, cap: usize) -> LuaResult<()> {
        self.set_array_size_with_room(t, cap, cap)
    }

    /// As [`Vm::set_array_size`], with storage for `room` elements if it has to be moved.
    pub(super) fn set_array_size_with_room(
        &mut self,
        t: Gc<Table>,
        cap: usize,
        room: usize,
    ) -> LuaResult<()> {
        debug_assert!(t.header.flags & TABLE_YOUNG == 0 && room >= cap);
        if cap > MAX_ARRAY {
            return Err(self.out_of_memory());
        }
        let old = t.array_cap as usize;
        let used = if t.has_holes() { edit(&mut self.heap, t).used() } else { 0 };
        let (need, have) = (t.kind.storage(cap), self.array_storage(t));
        if need > have {
            self.move_array(t, t.kind, t.extent(), room)?;
        } else if cap < old && need.max(SMALL_STORAGE) <= have / 2 && !t.array_is_inline() {
            // Storage that cannot be had for less is kept.
            let _ = self.move_array(t, t.kind, t.extent().min(cap), cap);
        }
        let table = edit(&mut self.heap, t);
        table.array_cap = cap as u32;
        if table.has_holes() {
            for at in old..cap {
                // SAFETY: within the storage of a General array.
                unsafe { table.array.cast::<Value>().add(at).write(Value::NIL) };
            }
            if cap > SMALL_ARRAY {
                *table.tally() = Tally { used: used as u32, changes: (cap / 4) as u32 };
            }
            table.array_len = cap as u32;
        } else {
            table.header.flags |= TABLE_UNMEASURED;
        }
        Ok(())
    }

    /// New storage for the array, of `kind`, with room for `room` elements or a few more. The first `len`
    /// elements stay.
    fn move_array(&mut self, t: Gc<Table>, kind: ArrayKind, len: usize, room: usize) -> LuaResult<()> {
        let bytes = kind.storage(room.clamp(FIRST, MAX_ARRAY));
        let have = self.array_storage(t);
        let own = !t.array.is_null() && !t.array_is_inline();
        if own && kind == t.kind && bytes > have && have > LARGE {
            // SAFETY: the table's own buffer, whose new address it gets below.
            let new = match unsafe { self.extend_buffer(t.array, bytes) } {
                Some(new) => new,
                None => {
                    self.heap.stored_into(t);
                    // SAFETY: as above.
                    unsafe { self.grow_buffer(t.array, bytes)? }
                }
            };
            super::count_work(len);
            self.lua.caches.drained.forget();
            edit(&mut self.heap, t).array = new;
            return Ok(());
        }
        let new = self.alloc_buffer(bytes)?;
        self.lua.caches.drained.forget();
        self.heap.stored_into(t);
        super::count_work(len);
        let table = edit(&mut self.heap, t);
        let old = table.array;
        // SAFETY: both buffers hold `len` elements of their kinds and do not overlap.
        unsafe {
            if kind == table.kind {
                std::ptr::copy_nonoverlapping(table.array, new, len * kind.element_size());
            } else {
                debug_assert!(kind == ArrayKind::General || len == 0, "elements of one kind become values");
                for at in 0..len {
                    new.cast::<Value>().add(at).write(table.element(at));
                }
            }
        }
        table.array = new;
        table.kind = kind;
        if own {
            // SAFETY: the table has another one by now.
            unsafe { self.drop_buffer(old) };
        }
        Ok(())
    }

    /// Gives a dense array without elements the kind that fits `v`, not nil, most tightly.
    #[inline(always)]
    fn choose_kind(&mut self, t: Gc<Table>, v: Value) -> LuaResult<()> {
        let kind = ArrayKind::of(v);
        debug_assert!(!t.has_holes() && t.array_len == 0 && !v.is_nil());
        // What has room for large elements has room for smaller ones.
        if kind.element_size() > t.kind.element_size() {
            return self.enlarge_elements(t, kind);
        }
        edit(&mut self.heap, t).kind = kind;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn enlarge_elements(&mut self, t: Gc<Table>, kind: ArrayKind) -> LuaResult<()> {
        let cap = t.array_cap as usize;
        if kind.storage(cap) > self.array_storage(t) {
            return self.move_array(t, kind, 0, cap);
        }
        edit(&mut self.heap, t).kind = kind;
        Ok(())
    }

    /// Makes the array General.
    pub(super) fn widen(&mut self, t: Gc<Table>) -> LuaResult<()> {
        if t.kind == ArrayKind::General {
            return Ok(());
        }
        let (len, cap) = (t.array_len as usize, t.array_cap as usize);
        if ArrayKind::General.storage(cap) > self.array_storage(t) {
            return self.move_array(t, ArrayKind::General, len, cap);
        }
        super::count_work(len);
        let table = edit(&mut self.heap, t);
        for at in (0..len).rev() {
            // SAFETY: there is storage for `cap` values. Elements are no larger than values: those below `at`
            // lie below what is written.
            unsafe {
                let v = table.element(at);
                table.array.cast::<Value>().add(at).write(v);
            }
        }
        table.kind = ArrayKind::General;
        Ok(())
    }

    /// Makes the array one that may have nils.
    pub(super) fn open_holes(&mut self, t: Gc<Table>) -> LuaResult<()> {
        self.lua.caches.drained.forget();
        if !t.has_holes() {
            edit(&mut self.heap, t).settle_size();
            self.widen(t)?;
            edit(&mut self.heap, t).make_holes();
        }
        Ok(())
    }

    /// Stores any value as element `at` (from 0), which belongs to the array part.
    pub(super) fn set_any_element(&mut self, t: Gc<Table>, at: usize, v: Value) -> LuaResult<()> {
        debug_assert!(at < t.array_cap as usize);
        let len = t.array_len as usize;
        if !t.has_holes() {
            if at == len && !v.is_nil() {
                return self.push_element(t, v);
            }
            edit(&mut self.heap, t).settle_size();
            if at >= t.array_cap as usize {
                return self.raw_set_int(t, at as i64 + 1, v);
            }
            if at >= len && v.is_nil() {
                return Ok(());
            }
            if v.is_nil() && at + 1 == len {
                edit(&mut self.heap, t).pop();
                return Ok(());
            }
            if at < len && !v.is_nil() {
                if !t.accepts(v) {
                    self.widen(t)?;
                }
                self.element_barrier(t, at, v);
                // SAFETY: the element exists, and the array is General or accepts `v`.
                unsafe { edit(&mut self.heap, t).set_element(at, v) };
                return Ok(());
            }
            self.open_holes(t)?;
        }
        self.set_among_holes(t, at, v);
        Ok(())
    }

    /// Stores any value as element `at` (from 0), which belongs to the array part of a table with holes.
    #[inline]
    pub(super) fn set_among_holes(&mut self, t: Gc<Table>, at: usize, v: Value) {
        if !v.is_nil() {
            self.lua.caches.drained.filled(t.array);
        }
        self.element_barrier(t, at, v);
        edit(&mut self.heap, t).set_with_holes(at, v);
    }

    /// Stores `v`, not nil, behind the last element of a dense array that has room for it.
    #[inline]
    pub(super) fn push_element(&mut self, t: Gc<Table>, v: Value) -> LuaResult<()> {
        let len = t.array_len as usize;
        debug_assert!(!t.has_holes() && len < t.array_cap as usize && !v.is_nil());
        if len == 0 {
            self.choose_kind(t, v)?;
        } else if !t.accepts(v) {
            self.widen(t)?;
        }
        self.element_barrier(t, len, v);
        let table = edit(&mut self.heap, t);
        // SAFETY: there is room, and the array is General or accepts `v`.
        unsafe { table.set_element(len, v) };
        table.array_len += 1;
        Ok(())
    }

    /// Stores `v`, not nil, behind a dense array that is full, while no key that would belong to a larger one
    /// is in the hash part.
    pub(super) fn append_to_full(&mut self, t: Gc<Table>, v: Value) -> LuaResult<()> {
        let len = t.array_len as usize;
        debug_assert!(!t.has_holes() && len == t.array_cap as usize);
        edit(&mut self.heap, t).header.flags &= !TABLE_YOUNG;
        if len == 0 {
            edit(&mut self.heap, t).kind = ArrayKind::of(v);
        } else if !t.accepts(v) {
            self.widen(t)?;
        }
        if len == 0 {
            self.set_array_size(t, FIRST)?;
            edit(&mut self.heap, t).header.flags |= TABLE_YOUNG;
        } else {
            self.set_array_size(t, (len + 1).next_power_of_two())?;
        }
        self.push_element(t, v)
    }

    /// Stores `values` under the integer keys from `first` on, as a constructor does (manual 3.4.9): the
    /// array part gets room for all of them, nil or not.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn raw_set_list(&mut self, t: Gc<Table>, first: i64, values: &[Value]) -> LuaResult<()> {
        self.check_writable(t)?;
        self.heap.stored_into(t);
        if first == 1 && self.set_first_few(t, values) {
            return Ok(());
        }
        edit(&mut self.heap, t).settle_size();
        let Some(start) = usize::try_from(first - 1).ok().filter(|&start| start <= MAX_ARRAY) else {
            return self.set_each(t, first, values);
        };
        if t.array_cap == 0 && start == 0 && t.node_count() == 0 && self.set_first_list(t, values)? {
            return Ok(());
        }
        let last = start + values.len();
        if last > t.array_cap as usize {
            if t.node_count() > 0 {
                self.resize(t, last, t.node_count(), None)?;
            } else {
                // The batches of a long constructor come one after the other.
                let room = if start > 0 { last.max(t.array_cap as usize * 2) } else { last };
                self.set_array_size_with_room(t, last, room)?;
            }
        }
        let len = t.array_len as usize;
        if t.has_holes() || len != start {
            return self.set_each(t, first, values);
        }
        let used = values.iter().rposition(|v| !v.is_nil()).map_or(0, |at| at + 1);
        edit(&mut self.heap, t).header.flags |= TABLE_UNMEASURED;
        if used == 0 {
            return Ok(());
        }
        let fits = len == 0 && ArrayKind::of_all(&values[..used]) != ArrayKind::General;
        if fits {
            self.choose_kind(t, values[0])?;
        } else if !values[..used].iter().all(|&v| t.accepts(v)) {
            self.widen(t)?;
            if values[..used].iter().any(|v| v.is_nil()) {
                self.open_holes(t)?;
                return self.set_each(t, first, values);
            }
        }
        let table = edit(&mut self.heap, t);
        // SAFETY: room was made, and the kind fits all values.
        unsafe { table.set_elements(len, &values[..used]) };
        table.array_len += used as u32;
        if table.array_len == table.array_cap {
            table.header.flags &= !TABLE_UNMEASURED;
        }
        Ok(())
    }

    /// Puts few values, none of them nil, into the array of a table that a constructor has just made, with room
    /// for them; whether it has: else nothing has been done.
    #[inline(always)]
    fn set_first_few(&mut self, t: Gc<Table>, values: &[Value]) -> bool {
        let Some(&head) = values.first().filter(|_| values.len() <= FEW) else { return false };
        let is_new = t.array_len == 0 && t.kind == ArrayKind::General;
        let has_room = values.len() <= t.array_cap as usize;
        if !is_new || !has_room || t.header.flags & (TABLE_YOUNG | TABLE_HOLES) != 0 {
            return false;
        }
        let first = ArrayKind::of(head);
        let mut kind = first;
        for &v in values {
            if v.is_nil() {
                return false;
            }
            if ArrayKind::of(v) != first {
                kind = ArrayKind::General;
            }
        }
        let table = edit(&mut self.heap, t);
        table.kind = kind;
        for (at, &v) in values.iter().enumerate() {
            // SAFETY: there is room for all of them, and the kind, whose elements are no larger, fits each.
            unsafe { table.set_element(at, v) };
        }
        table.array_len = values.len() as u32;
        if table.array_len == table.array_cap {
            table.header.flags &= !TABLE_UNMEASURED;
        } else {
            table.header.flags |= TABLE_UNMEASURED;
        }
        true
    }

    /// Makes the array of a table that has no elements of just these few values, if none is nil; whether it
    /// has.
    fn set_first_list(&mut self, t: Gc<Table>, values: &[Value]) -> LuaResult<bool> {
        debug_assert!(t.array_cap == 0 && t.header.flags & (TABLE_YOUNG | TABLE_HOLES) == 0);
        let Some(&head) = values.first().filter(|_| values.len() <= SMALL_ARRAY) else { return Ok(false) };
        let first = ArrayKind::of(head);
        let mut kind = first;
        for &v in values {
            if v.is_nil() {
                return Ok(false);
            }
            if ArrayKind::of(v) != first {
                kind = ArrayKind::General;
            }
        }
        let new = self.alloc_buffer(kind.storage(values.len().max(FIRST)))?;
        self.lua.caches.drained.forget();
        super::count_work(values.len());
        let table = edit(&mut self.heap, t);
        (table.array, table.kind) = (new, kind);
        table.array_cap = values.len() as u32;
        table.array_len = table.array_cap;
        table.header.flags &= !TABLE_UNMEASURED;
        for (at, &v) in values.iter().enumerate() {
            // SAFETY: there is room for all of them, and the kind fits each.
            unsafe { table.set_element(at, v) };
        }
        Ok(true)
    }

    fn set_each(&mut self, t: Gc<Table>, first: i64, values: &[Value]) -> LuaResult<()> {
        for (i, &v) in (0..).zip(values) {
            self.raw_set_int(t, first.wrapping_add(i), v)?;
        }
        Ok(())
    }
}

impl Table {
    /// Removes the last element of a dense array.
    #[inline]
    fn pop(&mut self) {
        if self.array_len == self.array_cap {
            self.header.flags |= TABLE_UNMEASURED;
        }
        self.array_len -= 1;
    }
}
