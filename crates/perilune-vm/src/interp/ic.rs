//! Inline caches: what a field access remembers, per site and domain.
//!
//! A prototype's instance keeps its caches in front of its constants: cache d is the 32 bytes at
//! `k - 2 * (d + 1)`. So the constants register reaches both, and no two domains write the same cache.
//!
//! # What a hit proves
//! - `OWN`: the table's shape is `shape`, so the field is in `slot`. Shapes are immutable: valid for ever.
//! - `NODE`: the table is a dictionary and the key sits in node `slot` (checked against the node itself).
//! - `FROZEN_NODE`: the table is a dictionary in an island; node `slot` has the key if its key is the string
//!   at `loc`, as that string has the constant's text. It is valid while `aux == vm.proto_version`, since its
//!   address may be used again when the island is gone.
//! - `ADD` (stores): shape `shape` lacks the field and goes over to `aux`, which has it in `slot`.
//! - `PROTO_SLOT`, `PROTO_NODE`: the table's shape is `shape`, which lacks the field; its metatable is
//!   `meta`; and nothing of the structure of the tables looked through has changed since
//!   `aux == vm.proto_version`: then the field is at `loc`. The *place* is cached, not the value, so that
//!   assigning an existing field of a class invalidates nothing. A nil at the place means "look again".
//! - The same with the shape [`STRINGS`] (SELF): the object is a string, and the metatable that of strings.
//! - `INDEX_CALL`, `NEWINDEX_CALL`: as `PROTO_SLOT`, but `loc` is where the metatable has `__index` or
//!   `__newindex` itself, a function when last looked at.
//!
//! Behind the caches of the sites stands one for the whole domain, the *shared* cache: by shape, metatable
//! and key, in sets of two entries, it answers sites that meet many shapes or classes. A hit there now and
//! then refreshes the site's own cache, so that a site whose habits have changed gets quick again. A part of
//! it knows which fields are nowhere: `if self.next then` of objects of a class asks all its classes
//! otherwise, each time.
//!
//! Programs that make a metatable for each object, `setmetatable(object, { __index = Class })`, would have caches
//! for objects alone. Where a metatable comes by for the first time its `__index` is looked for in its place
//! ([`of_class`]): an entry for that says where all tables of a shape have the field that have the same class. A
//! metatable that a site meets twice in a row is taken for one of many objects.
//!
//! Tables looked through are flagged `TABLE_IS_PROTO`; a structural change of a flagged table (new key,
//! rehash, another metatable, a store to a key that starts with "__") bumps `proto_version`. So does a
//! collection in which a flagged table may have died, because its address may be used again.

use crate::Vm;
use crate::island::SharedFunction;
use crate::object::{LuaString, Node, TABLE_IS_PROTO, Table};
use crate::value::{Gc, Value};
use crate::{meta::Event, shape};
use perilune_syntax::bytecode::NO_IC;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// An inline cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Ic {
    /// Guard: the table's shape; [`EMPTY`]: nothing cached.
    pub shape: u32,
    /// One of the constants below.
    pub kind: u32,
    /// Slot or node.
    pub slot: u32,
    /// `ADD`: the new shape; `PROTO_*`: `proto_version`.
    pub aux: u32,
    /// `PROTO_*`: the metatable.
    pub meta: *mut Table,
    /// `PROTO_*`: where the value is.
    pub loc: *mut u8,
}

/// Slots of 16 bytes that a cache takes.
pub(crate) const IC_SLOTS: usize = 2;
/// Guard of an empty cache: no shape has this id.
pub(crate) const EMPTY: u32 = u32::MAX;
pub(crate) const OWN: u32 = 0;
pub(crate) const NODE: u32 = 1;
pub(crate) const ADD: u32 = 2;
pub(crate) const PROTO_SLOT: u32 = 3;
pub(crate) const PROTO_NODE: u32 = 4;
pub(crate) const INDEX_CALL: u32 = 5;
pub(crate) const NEWINDEX_CALL: u32 = 6;
pub(crate) const FROZEN_NODE: u32 = 7;

/// `Ic::meta` of a `FROZEN_NODE`: no table's metatable.
const NO_META: *mut Table = std::ptr::without_provenance_mut(8);

impl Ic {
    pub const CLEAR: Ic = Ic {
        shape: EMPTY,
        kind: OWN,
        slot: 0,
        aux: 0,
        meta: std::ptr::null_mut(),
        loc: std::ptr::null_mut(),
    };
}

/// Inline cache `d` of the instance whose constants are at `k`.
///
/// # Safety
/// `d` is in range of the instance's caches.
#[inline(always)]
pub(crate) unsafe fn ic(k: *const Value, d: u16) -> *mut Ic {
    // SAFETY: the caller's promise.
    unsafe { k.sub(IC_SLOTS * (d as usize + 1)) as *mut Ic }
}

/// An entry of the shared cache: what an [`Ic`] of kind `OWN` or `PROTO_*` says, for a key.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SharedEntry {
    pub ic: Ic,
    /// The interned key; null: nothing cached.
    pub key: *mut LuaString,
}

/// Sets of the shared cache, of two entries each.
const SHARED: usize = 512;

/// Entries of its part for own fields.
const OWN_ENTRIES: usize = 1024;

/// In front of the sets: where tables of a shape have a field of their own, whatever their metatable.
#[derive(Clone, Copy)]
#[repr(C)]
struct OwnEntry {
    /// The interned key; null: nothing cached.
    key: *mut LuaString,
    shape: u32,
    slot: u32,
}

/// In [`OwnEntry::shape`]: tables of this shape lack the field.
const LACKS: u32 = 1 << 31;
const _: () = assert!(shape::MAX_SHAPES < LACKS);

/// Beside them: tables of a shape, with this metatable or none, that have nothing for a key, and none of the
/// tables along `__index` has, as of a version.
#[derive(Clone, Copy)]
#[repr(C)]
struct AbsentEntry {
    /// The interned key; null: nothing cached.
    key: *mut LuaString,
    meta: *mut Table,
    shape: u32,
    /// Where tables of the shape would have the field themselves; [`NOWHERE`]: the shape lacks it.
    slot: u32,
    version: u32,
}

/// See [`AbsentEntry`].
const NOWHERE: u32 = u32::MAX;

/// Entries for what is absent.
const ABSENT_ENTRIES: usize = 256;

/// What a shared cache remembers. Zeros are valid, and remember nothing: an entry without a key is found for
/// none.
#[repr(C)]
struct Entries {
    sets: [[SharedEntry; 2]; SHARED],
    own: [OwnEntry; OWN_ENTRIES],
    absent: [AbsentEntry; ABSENT_ENTRIES],
}

/// The entries of the domain that is made first.
///
/// They are zeros of the executable: a program has memory for those pages of them that it touches, and most
/// touch few. What the allocator gives has been used and is cleared, all of it. Domains that come and go get
/// theirs from there, as it is warm.
static FIRST: First =
    First { is_taken: AtomicBool::new(false), entries: UnsafeCell::new(MaybeUninit::zeroed()) };

struct First {
    /// For good.
    is_taken: AtomicBool,
    entries: UnsafeCell<MaybeUninit<Entries>>,
}

// SAFETY: whoever takes them has them alone.
unsafe impl Sync for First {}

/// Entries, and who gives them back.
struct Owned(NonNull<Entries>);

impl Owned {
    fn new() -> Owned {
        if !FIRST.is_taken.swap(true, Ordering::Relaxed) {
            return Owned(NonNull::from(&FIRST.entries).cast());
        }
        // SAFETY: zeros are valid.
        let entries: Box<Entries> = unsafe { Box::new_zeroed().assume_init() };
        Owned(NonNull::from(Box::leak(entries)))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 != NonNull::from(&FIRST.entries).cast() {
            // SAFETY: made of a box by `new`.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl Deref for Owned {
    type Target = Entries;

    #[inline(always)]
    fn deref(&self) -> &Entries {
        // SAFETY: they are valid, and this owner's alone.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Owned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Entries {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

/// The shared cache.
pub(crate) struct SharedCache {
    entries: Owned,
    /// The metatables that sites, by their caches' addresses, have met last and have no cache for: parts of addresses.
    newcomers: [u32; NEWCOMERS],
    /// Counts hits, to refresh a site's cache now and then.
    pub ticks: u32,
}

impl Default for SharedCache {
    fn default() -> Self {
        SharedCache { entries: Owned::new(), newcomers: [0; NEWCOMERS], ticks: 0 }
    }
}

impl SharedEntry {
    const NONE: SharedEntry = SharedEntry { ic: Ic::CLEAR, key: std::ptr::null_mut() };

    #[inline(always)]
    fn is_for(&self, shape: u32, meta: *mut Table, key: *mut LuaString) -> bool {
        self.key == key && self.ic.shape == shape && self.ic.meta == meta
    }
}

/// Sites whose last metatable is known.
const NEWCOMERS: usize = 512;

/// In place of a metatable: all those whose `__index` is this table. No table has that address.
fn of_class(class: Gc<Table>) -> *mut Table {
    class.ptr().map_addr(|address| address | 1)
}

/// Where machine code finds what is remembered of own fields.
impl SharedCache {
    /// Where the address of all entries is.
    pub const ENTRIES: usize = std::mem::offset_of!(SharedCache, entries);
    /// Where the own ones begin, from there.
    pub const OWN: usize = std::mem::offset_of!(Entries, own);
    /// Parts of one.
    pub const OWN_KEY: usize = std::mem::offset_of!(OwnEntry, key);
    pub const OWN_SHAPE: usize = std::mem::offset_of!(OwnEntry, shape);
    pub const OWN_SLOT: usize = std::mem::offset_of!(OwnEntry, slot);
    /// The logarithm of its size.
    pub const OWN_SIZE: u32 = size_of::<OwnEntry>().ilog2();
    /// The logarithm of how many there are.
    pub const OWN_COUNT: u32 = OWN_ENTRIES.ilog2();
    /// See [`SharedCache::mixed`].
    pub const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    /// By how much what has been multiplied is shifted, before all but [`SharedCache::OWN_COUNT`] bits go.
    pub const MIX_SHIFT: u32 = 48;
    /// By how much the address of a key is.
    pub const KEY_SHIFT: u32 = 4;
    /// See [`LACKS`].
    pub const LACKS: u32 = LACKS;
}

const _: () = assert!(OWN_ENTRIES.is_power_of_two() && size_of::<OwnEntry>().is_power_of_two());

impl SharedCache {
    /// Shapes are numbered one after the other, and the names of a record often lie so: pairs of them are not
    /// to meet by chance.
    #[inline(always)]
    fn mixed(shape: u32, key: *mut LuaString) -> usize {
        let both = (shape as u64) << 32 ^ key as u64 >> Self::KEY_SHIFT;
        (both.wrapping_mul(Self::MIX) >> Self::MIX_SHIFT) as usize
    }

    #[inline(always)]
    fn own_index(shape: u32, key: *mut LuaString) -> usize {
        Self::mixed(shape, key) % OWN_ENTRIES
    }

    /// The slot in which tables of `shape` have the field `key`, if that is remembered.
    #[inline(always)]
    pub fn find_own(&self, shape: u32, key: *mut LuaString) -> Option<u32> {
        let e = &self.entries.own[Self::own_index(shape, key)];
        if e.key == key && e.shape == shape { Some(e.slot) } else { None }
    }

    /// Remembers that tables of `shape` have the field `key` in `slot`.
    pub fn put_own(&mut self, shape: u32, key: Gc<LuaString>, slot: u32) {
        self.entries.own[Self::own_index(shape, key.ptr())] = OwnEntry { key: key.ptr(), shape, slot };
    }

    /// The slot in which tables of `shape`, which is no dictionary's, have the field `key`; `None`: they have
    /// none. For keys that come as values, as `t[name]` has them: what is found is remembered, and that there is
    /// nothing, too. (To look it up is six loads, each of which waits for the one before.)
    #[inline(always)]
    pub fn slot_of(&mut self, shape: u32, key: Gc<LuaString>) -> Option<u32> {
        if key.atom == 0 || shape <= shape::FROZEN_DICT {
            // Nothing has a field of that name, or nothing of this shape has any.
            return None;
        }
        let e = &self.entries.own[Self::own_index(shape, key.ptr())];
        if e.key == key.ptr() {
            if e.shape == shape {
                return Some(e.slot);
            }
            if e.shape == shape | LACKS {
                return None;
            }
        }
        self.look_up_slot(shape, key)
    }

    #[inline(never)]
    fn look_up_slot(&mut self, shape: u32, key: Gc<LuaString>) -> Option<u32> {
        let slot = shape::lookup(shape, key);
        let kind = if slot.is_some() { shape } else { shape | LACKS };
        let entry = OwnEntry { key: key.ptr(), shape: kind, slot: slot.unwrap_or(0) };
        self.entries.own[Self::own_index(shape, key.ptr())] = entry;
        slot
    }

    #[inline(always)]
    fn absent_index(shape: u32, key: *mut LuaString) -> usize {
        Self::mixed(shape, key) % ABSENT_ENTRIES
    }

    /// Whether it is remembered, as of this version, that neither `t` nor what is along its `__index` has
    /// anything under `key`.
    ///
    /// # Safety
    /// `t` is a live table.
    #[inline(always)]
    pub unsafe fn is_absent(&self, t: *const Table, key: *mut LuaString, version: u32) -> bool {
        // SAFETY: the caller's promise; a table has a slot for each field of its shape.
        unsafe {
            let e = &self.entries.absent[Self::absent_index((*t).shape, key)];
            e.key == key
                && e.shape == (*t).shape
                && e.meta == (*t).metatable
                && e.version == version
                && (e.slot == NOWHERE || (*(*t).slots.add(e.slot as usize)).is_nil())
        }
    }

    /// The set in which an entry for these would be.
    #[inline(always)]
    fn set(shape: u32, meta: *mut Table, key: *mut LuaString) -> usize {
        let mix = (shape as usize).wrapping_mul(0x9e37_79b1)
            ^ (meta as usize >> 6)
            ^ (key as usize >> 4).wrapping_mul(5);
        (mix ^ mix >> 9) % SHARED
    }

    /// The entry for these; null if there is none.
    #[inline(always)]
    pub fn find(&self, shape: u32, meta: *mut Table, key: *mut LuaString) -> *const SharedEntry {
        let set = &self.entries.sets[Self::set(shape, meta, key)];
        if set[0].is_for(shape, meta, key) {
            &raw const set[0]
        } else if set[1].is_for(shape, meta, key) {
            &raw const set[1]
        } else {
            std::ptr::null()
        }
    }

    /// Remembers `ic` for tables with its shape and `meta`, and for `key`; the older of two others makes
    /// room.
    pub fn put(&mut self, ic: Ic, meta: *mut Table, key: Gc<LuaString>) {
        if key.bytes().starts_with(b"__") {
            // Stores under such names must go the long way.
            return;
        }
        let set = &mut self.entries.sets[Self::set(ic.shape, meta, key.ptr())];
        if !set[0].is_for(ic.shape, meta, key.ptr()) {
            set[1] = set[0];
        }
        set[0] = SharedEntry { ic: Ic { meta, ..ic }, key: key.ptr() };
    }

    /// The same of what is along the `__index` of all tables of a shape that have this class; what the table itself has
    /// has been looked at.
    #[inline(always)]
    fn is_absent_in(&self, shape: u32, class: Gc<Table>, key: *mut LuaString, version: u32) -> bool {
        let e = &self.entries.absent[Self::absent_index(shape, key)];
        e.key == key && e.shape == shape && e.meta == of_class(class) && e.version == version
    }

    /// Whether this site, by its cache, or by the key if it has none, has met the metatable the last time, too, that
    /// it had no cache for one.
    #[inline(always)]
    fn is_again(&mut self, site: *const Ic, key: Gc<LuaString>, meta: *mut Table) -> bool {
        let site = if site.is_null() { key.ptr().addr() } else { site.addr() };
        let meta = (meta.addr() >> 4) as u32;
        std::mem::replace(&mut self.newcomers[(site >> 5) % NEWCOMERS], meta) == meta
    }

    /// Forgets everything: addresses may be used again after a collection.
    pub fn clear(&mut self) {
        self.entries.sets.fill([SharedEntry::NONE; 2]);
        self.entries.own.fill(OwnEntry { key: std::ptr::null_mut(), shape: EMPTY, slot: 0 });
        let (key, meta) = (std::ptr::null_mut(), std::ptr::null_mut());
        self.entries.absent.fill(AbsentEntry { key, meta, shape: EMPTY, slot: 0, version: 0 });
    }
}

/// What the search for a field along `__index` found.
pub(crate) enum Found {
    /// The value, which may be nil.
    Value(Value),
    /// A function to call with this receiver and the key.
    Call(Value, Value),
}

impl Vm {
    /// Looks up constant key `key` of table `t`, through `__index` tables, and fills cache `d` with what it
    /// learned.
    pub(crate) unsafe fn get_field_filling(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        k: *const Value,
        d: u16,
    ) -> crate::LuaResult<Found> {
        // SAFETY: the caller passes a cache of the running prototype.
        unsafe {
            let own = self.raw_get_str(t, key);
            if !own.is_nil() {
                if d != NO_IC {
                    let c = ic(k, d);
                    if !shape::is_dict(t.shape) {
                        if let Some(slot) = shape::lookup(t.shape, key) {
                            *c = Ic { shape: t.shape, kind: OWN, slot, ..Ic::CLEAR };
                            self.lua.caches.shared.put(*c, t.metatable, key);
                            self.lua.caches.shared.put_own(t.shape, key, slot);
                        }
                    } else if t.shape == shape::FROZEN_DICT {
                        if let Some(slot) = node_index(t, key) {
                            let loc = (*t.nodes.add(slot as usize)).key as *mut u8;
                            let (shape, aux) = (t.shape, self.lua.proto_version);
                            *c = Ic { shape, kind: FROZEN_NODE, slot, aux, meta: NO_META, loc };
                        }
                    } else if let Some(node) = node_index(t, key) {
                        *c = Ic { shape: shape::DICT, kind: NODE, slot: node, ..Ic::CLEAR };
                    }
                }
                return Ok(Found::Value(own));
            }
            if t.metatable.is_null() {
                if d != NO_IC
                    && !shape::is_dict(t.shape)
                    && let Some(slot) = shape::lookup(t.shape, key)
                {
                    *ic(k, d) = Ic { shape: t.shape, kind: OWN, slot, ..Ic::CLEAR };
                } else if !shape::is_dict(t.shape) {
                    let slot = shape::lookup(t.shape, key);
                    self.remember_absence(t, key, slot, true, null_mut());
                }
                return Ok(Found::Value(Value::NIL));
            }
            // A chain of plain tables can be cached, if none of them has a place for the key. What the
            // receiver itself has is asked first, each time.
            let dict = shape::is_dict(t.shape);
            if !dict
                && let Some(v) = self.get_from_class(t, key, if d == NO_IC { null_mut() } else { ic(k, d) })
            {
                return Ok(Found::Value(v));
            }
            let own_slot = if dict { None } else { shape::lookup(t.shape, key) };
            // The metatable is not looked through before it is known to be more than one object's.
            let is_new = self.is_newcomer(Gc::from_ptr(t.metatable));
            let mut lasting = true;
            let (mut at, mut first) = (t, None);
            for _ in 0..MAX_CHAIN {
                let meta = at.metatable;
                if meta.is_null() {
                    let class = first.filter(|_| is_new && !dict).map(of_class);
                    self.remember_absence(t, key, own_slot, lasting, class.unwrap_or(t.metatable));
                    return Ok(Found::Value(Value::NIL));
                }
                let meta = Gc::from_ptr(meta);
                let h = self.table_metamethod(meta, Event::Index);
                if h.is_nil() {
                    if lasting {
                        self.flag_proto(meta);
                    }
                    let class = first.filter(|_| is_new && !dict).map(of_class);
                    self.remember_absence(t, key, own_slot, lasting, class.unwrap_or(t.metatable));
                    return Ok(Found::Value(Value::NIL));
                }
                let Some(holder) = h.as_table() else {
                    if h.is_function() {
                        if at == t && d != NO_IC {
                            self.fill_meta_call(t, key, Event::Index, ic(k, d));
                        }
                        return Ok(Found::Call(h, at.into()));
                    }
                    return self.index_lookup(h, key.into());
                };
                if at == t {
                    first = Some(holder);
                }
                if lasting {
                    if at != t || !is_new || dict {
                        self.flag_proto(meta);
                    }
                    self.flag_proto(holder);
                }
                let v = self.raw_get_str(holder, key);
                if !v.is_nil() {
                    if lasting && own_slot.is_none() {
                        let (kind, loc) = if !shape::is_dict(holder.shape) {
                            match shape::lookup(holder.shape, key) {
                                Some(slot) => (PROTO_SLOT, holder.slots.add(slot as usize) as *mut u8),
                                None => return Ok(Found::Value(v)),
                            }
                        } else {
                            match node_index(holder, key) {
                                Some(node) => (PROTO_NODE, holder.nodes.add(node as usize) as *mut u8),
                                None => return Ok(Found::Value(v)),
                            }
                        };
                        let found = Ic {
                            shape: t.shape,
                            kind,
                            slot: 0,
                            aux: self.lua.proto_version,
                            meta: t.metatable,
                            loc,
                        };
                        if is_new && !dict {
                            let class = of_class(first.expect("the metatable has an `__index`"));
                            self.lua.caches.shared.put(found, class, key);
                            return Ok(Found::Value(v));
                        }
                        // The sites' caches take the shape as proof of absence, which a dictionary's is not.
                        if d != NO_IC && !dict {
                            *ic(k, d) = found;
                        }
                        self.lua.caches.shared.put(found, t.metatable, key);
                    }
                    return Ok(Found::Value(v));
                }
                // A deleted key may come back without a change of structure: then this table would answer
                // first.
                lasting &= if !shape::is_dict(holder.shape) {
                    shape::lookup(holder.shape, key).is_none()
                } else {
                    node_index(holder, key).is_none()
                };
                at = holder;
            }
            Err(self.error("'__index' chain too long; possible loop"))
        }
    }

    /// Whether caches have never looked through the metatable, and it may be one object's alone: it is not the class
    /// itself. What is recorded shall have caches.
    fn is_newcomer(&mut self, meta: Gc<Table>) -> bool {
        meta.header.flags & TABLE_IS_PROTO == 0
            && !meta.is_in_island()
            && self.lua.machine.logging.is_none()
            && self.table_metamethod(meta, Event::Index).as_table().is_some_and(|class| class != meta)
    }

    /// Where tables of this shape, which lacks the field, have it if the `__index` of their metatables is `class`: an
    /// entry of this version.
    fn place_in(&self, shape: u32, class: Gc<Table>, key: Gc<LuaString>) -> Option<Ic> {
        let e = self.lua.caches.shared.find(shape, of_class(class), key.ptr());
        // SAFETY: an entry of the cache, or null.
        let place = unsafe { e.as_ref() }?.ic;
        (place.aux == self.lua.proto_version).then_some(place)
    }

    /// The same for `t`. The site's cache is filled if it meets the metatable again.
    ///
    /// # Safety
    /// `t` is no dictionary and has a metatable; `site` is a cache of the running prototype, or null.
    pub(crate) unsafe fn place_by_class(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        site: *mut Ic,
    ) -> Option<Ic> {
        // SAFETY: the caller's promise.
        let meta = unsafe { Gc::from_ptr(t.metatable) };
        let class = self.table_metamethod(meta, Event::Index).as_table()?;
        let place = self.place_in(t.shape, class, key)?;
        let is_known = meta.header.flags & TABLE_IS_PROTO != 0 || self.lua.machine.logging.is_some();
        if is_known || self.lua.caches.shared.is_again(site, key, t.metatable) {
            self.flag_proto(meta);
            let own = Ic { meta: t.metatable, ..place };
            if !site.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *site = own };
            }
            self.lua.caches.shared.put(own, t.metatable, key);
        }
        Some(place)
    }

    /// What is there, or nil if nothing is; `None`: nobody knows. The site's cache is filled if it meets the metatable
    /// again.
    ///
    /// # Safety
    /// As [`Vm::place_by_class`], and what `t` itself has is nil; `site` is a cache of the running prototype, or null.
    pub(crate) unsafe fn get_from_class(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        site: *mut Ic,
    ) -> Option<Value> {
        // SAFETY: the caller's promises; what an entry of this version says is there.
        unsafe {
            if let Some(place) = self.place_by_class(t, key, site) {
                let v = match place.kind {
                    PROTO_SLOT => *(place.loc as *const Value),
                    _ => (*(place.loc as *const Node)).value(),
                };
                return (!v.is_nil()).then_some(v);
            }
            let class = self.table_metamethod(Gc::from_ptr(t.metatable), Event::Index).as_table()?;
            let (shape, version) = (t.shape, self.lua.proto_version);
            let is_absent = self.lua.caches.shared.is_absent_in(shape, class, key.ptr(), version);
            is_absent.then_some(Value::NIL)
        }
    }

    /// Fills `c` for accesses to constant key `key` of tables like `t` that end in the metamethod for
    /// `event`, which the metatable of `t` has.
    ///
    /// # Safety
    /// `c` is a cache of the running prototype, `t` has a metatable.
    pub(crate) unsafe fn fill_meta_call(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        event: Event,
        c: *mut Ic,
    ) {
        // SAFETY: the caller's promise; a table has a slot for each field of its shape.
        unsafe {
            let meta = Gc::from_ptr(t.metatable);
            if shape::is_dict(t.shape) || shape::lookup(t.shape, key).is_some() || shape::is_dict(meta.shape)
            {
                return;
            }
            let Some(slot) = shape::lookup(meta.shape, self.event_name(event)) else { return };
            self.flag_proto(meta);
            *c = Ic {
                shape: t.shape,
                kind: if event == Event::Index { INDEX_CALL } else { NEWINDEX_CALL },
                slot: 0,
                aux: self.lua.proto_version,
                meta: t.metatable,
                loc: meta.slots.add(slot as usize) as *mut u8,
            };
        }
    }

    /// After a method call's cache `d` was filled: if the method was found in an island, where it cannot be
    /// replaced, the cache leads to what this domain calls in its place. Only for method calls, where no
    /// program sees the function.
    ///
    /// # Safety
    /// `k` and `d` name a cache of the running prototype.
    #[cold]
    pub(crate) unsafe fn cache_own_method(&mut self, method: Gc<SharedFunction>, k: *const Value, d: u16) {
        if d == NO_IC {
            return;
        }
        // SAFETY: the caller's promise; caches of these kinds lead to a value or node that exists.
        unsafe {
            let c = ic(k, d);
            let is_it = match (*c).kind {
                PROTO_SLOT => (*((*c).loc as *const Value)).same(method.into()),
                PROTO_NODE => (*((*c).loc as *const Node)).value().same(method.into()),
                _ => return,
            };
            if is_it
                && perilune_heap::is_island((*c).loc as usize)
                && let Some(own) = self.lasting_own_function(method)
            {
                (*c).kind = PROTO_SLOT;
                (*c).loc = own as *mut u8;
            }
        }
    }

    /// Nothing has been found under `key`, in `t` or along its `__index`, all of which is flagged if that is
    /// `lasting`; a table of this shape would have it in `slot`. `meta` is the metatable, or all of a class.
    fn remember_absence(
        &mut self,
        t: Gc<Table>,
        key: Gc<LuaString>,
        slot: Option<u32>,
        lasting: bool,
        meta: *mut Table,
    ) {
        if lasting && !shape::is_dict(t.shape) {
            let (key, shape, version) = (key.ptr(), t.shape, self.lua.proto_version);
            let entry = &mut self.lua.caches.shared.entries.absent[SharedCache::absent_index(shape, key)];
            *entry = AbsentEntry { key, meta, shape, slot: slot.unwrap_or(NOWHERE), version };
        }
    }

    /// Marks a table as one that inline caches look through.
    pub(crate) fn flag_proto(&mut self, t: Gc<Table>) {
        if t.header.flags & TABLE_IS_PROTO == 0 && !t.is_in_island() {
            // SAFETY: the heap's one thread writes the header's client flags.
            unsafe { (*t.ptr()).header.flags |= TABLE_IS_PROTO };
            self.lua.gc.flagged_young = true;
        }
    }
}

/// `Ic::shape` of entries of the shared cache for methods of shared objects and userdata: no table's shape.
pub(super) const METHODS: u32 = u32::MAX - 1;

/// `Ic::shape` of a site's cache for methods of strings: no table's shape. Its metatable is that of strings;
/// the place is in the table that that has as `__index`.
pub(crate) const STRINGS: u32 = u32::MAX - 2;

impl Vm {
    /// The metatable of strings, or null.
    #[inline(always)]
    pub(crate) fn string_metatable(&self) -> *mut Table {
        self.lua.roots.type_metatables[crate::value::Type::String as usize]
    }

    /// Looks up constant key `key` of a string, and remembers in cache `d` where it was found, if that is
    /// where methods of strings usually are.
    ///
    /// # Safety
    /// `k` and `d` name a cache of the running prototype, or `d` is none.
    pub(crate) unsafe fn get_string_method_filling(
        &mut self,
        s: Value,
        key: Gc<LuaString>,
        k: *const Value,
        d: u16,
    ) -> crate::LuaResult<Found> {
        let meta = self.string_metatable();
        // SAFETY: metatables of types are roots; the slot and the node of a key that the table has.
        unsafe {
            if d != NO_IC
                && !meta.is_null()
                && let meta = Gc::from_ptr(meta)
                && let Some(methods) = self.table_metamethod(meta, Event::Index).as_table()
                && !methods.is_in_island()
                && !meta.is_in_island()
            {
                let v = self.raw_get_str(methods, key);
                if !v.is_nil() {
                    let place = if shape::is_dict(methods.shape) {
                        node_index(methods, key)
                            .map(|node| (PROTO_NODE, methods.nodes.add(node as usize) as *mut u8))
                    } else {
                        shape::lookup(methods.shape, key)
                            .map(|slot| (PROTO_SLOT, methods.slots.add(slot as usize) as *mut u8))
                    };
                    if let Some((kind, loc)) = place {
                        self.flag_proto(meta);
                        self.flag_proto(methods);
                        let aux = self.lua.proto_version;
                        *ic(k, d) = Ic { shape: STRINGS, kind, slot: 0, aux, meta: meta.ptr(), loc };
                    }
                    return Ok(Found::Value(v));
                }
            }
        }
        self.index_lookup(s, key.into())
    }

    /// Looks up constant key `key` of a shared object or userdata with metatable `meta`, and remembers where
    /// it was found if it is a method: in the table that the metatable has as `__index`.
    pub(crate) fn get_method_filling(
        &mut self,
        receiver: Value,
        meta: Option<Gc<Table>>,
        key: Gc<LuaString>,
    ) -> crate::LuaResult<Found> {
        if let Some(meta) = meta
            && let Some(methods) = self.table_metamethod(meta, Event::Index).as_table()
        {
            let v = self.raw_get_str(methods, key);
            if !v.is_nil() {
                self.flag_proto(meta);
                self.flag_proto(methods);
                // SAFETY: the slot and the node of a key that the table has.
                let place = unsafe {
                    if shape::is_dict(methods.shape) {
                        node_index(methods, key)
                            .map(|node| (PROTO_NODE, methods.nodes.add(node as usize) as *mut u8))
                    } else {
                        shape::lookup(methods.shape, key)
                            .map(|slot| (PROTO_SLOT, methods.slots.add(slot as usize) as *mut u8))
                    }
                };
                if let Some((kind, loc)) = place {
                    let aux = self.lua.proto_version;
                    let ic = Ic { shape: METHODS, kind, slot: 0, aux, meta: meta.ptr(), loc };
                    self.lua.caches.shared.put(ic, meta.ptr(), key);
                }
                return Ok(Found::Value(v));
            }
        }
        self.index_lookup(receiver, key.into())
    }
}

/// Index of the node of a string key (interned), dead or not.
pub(crate) fn node_index(t: Gc<Table>, key: Gc<LuaString>) -> Option<u32> {
    let node = if t.shape == shape::FROZEN_DICT { t.find_frozen_str(key) } else { t.find_str(key) };
    // SAFETY: a node of the table's own.
    if node.is_null() { None } else { Some(unsafe { node.offset_from(t.nodes) } as u32) }
}

/// Longest chain of `__index` or `__newindex` that is followed (PUC Lua's MAXTAGLOOP).
pub(crate) const MAX_CHAIN: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_the_executable_are_one_caches_and_once() {
        let first = NonNull::from(&FIRST.entries).cast();
        let both = [Owned::new(), Owned::new()];
        assert_ne!(both[0].0, both[1].0);
        assert!(both.iter().filter(|entries| entries.0 == first).count() <= 1);
        drop(both);
        // What one has left in them is not another's.
        assert_ne!(Owned::new().0, first);
    }

    #[test]
    fn size() {
        assert_eq!(size_of::<Ic>(), IC_SLOTS * size_of::<Value>());
    }
}
