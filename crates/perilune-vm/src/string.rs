//! Strings and interning.
//!
//! # Lazy interning
//! Making a string only copies its bytes. A string is *interned* when it is first used as a table key to
//! store under, or when it is a constant of a function: among interned strings of a domain, equal bytes mean
//! equal address. Hence the rule that tables rely on: **every string key of every table is interned**, so a
//! look-up compares addresses, and a string that has no interned twin is a key of no table at all. Programs
//! that build text and only print or concatenate it never pay for a hash. The alternative, interning every
//! short string at birth, costs a hash and a probe for each result of `..` and `sub`.
//!
//! Strings of one byte, and the empty one, are interned from the start and cached by that byte: loops over
//! the characters of a text allocate nothing.
//!
//! # The intern table
//! It is weak, and has two parts. *Young* holds what has been interned since the last minor collection, *old*
//! the rest: a minor collection visits the young part, and a few shards of the old one after a major
//! (`string/intern.rs`).
//!
//! # Hashes
//! foldhash with secrets of the process, 32 bits, never 0 (0 means "not computed"). Both of its inputs have
//! to be secret: what a text is mixed with first, and what the product is made with. With either of them
//! known, a text can be chosen that makes one factor zero, and so any number of texts with one hash. The
//! secrets come from the operating system. Who can watch the order of a traversal for many chosen keys could
//! work them out; against that only a cryptographic hash helps, at several times the price. One pair of
//! secrets serves all domains, since strings that domains share keep their hashes.

mod intern;

use crate::Vm;
use crate::native::{LuaResult, Thrown};
use crate::object::{LuaString, STRING_DATA, STRING_INTERNED};
use crate::value::{Gc, Tag, Value};
use foldhash::fast::FoldHasher;
use intern::{OldStrings, StringSet};
use perilune_heap::{Heap, Obj};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr::null_mut;
use std::sync::LazyLock;

/// Longest string, in bytes.
pub(crate) const MAX_STRING: usize = 0x7fff_ffff;

/// The heap's small allocations are infallible up to this size.
const SMALL: usize = 8192;

const POINTER_BITS: u32 = 48;
const POINTER_MASK: u64 = (1 << POINTER_BITS) - 1;

/// What the hashes of this process are made with.
struct Secrets {
    first: u64,
    others: foldhash::SharedSeed,
}

static SECRETS: LazyLock<Secrets> = LazyLock::new(|| {
    // The standard library's keys come from the operating system's generator.
    let random = || RandomState::new().hash_one(0);
    Secrets { first: random(), others: foldhash::SharedSeed::from_u64(random()) }
});

/// Hash of a string's bytes; never 0.
#[inline]
fn hash_bytes(bytes: &[u8]) -> u32 {
    let secrets = &*SECRETS;
    let mut h = FoldHasher::with_seed(secrets.first, &secrets.others);
    h.write(bytes);
    let h = h.finish();
    ((h ^ (h >> 32)) as u32).max(1)
}

/// Whether two strings have the same bytes.
#[inline(always)]
pub(crate) fn str_eq(a: Gc<LuaString>, b: Gc<LuaString>) -> bool {
    a == b || (a.len == b.len && a.header.flags & b.header.flags & STRING_INTERNED == 0 && same_bytes(a, b))
}

#[inline(never)]
fn same_bytes(a: Gc<LuaString>, b: Gc<LuaString>) -> bool {
    if a.len > 64 {
        return a.bytes() == b.bytes();
    }
    // SAFETY: both are live.
    unsafe { same_text(a.ptr(), b.ptr()) }
}

/// Whether two strings, short as a rule, have the same length and bytes.
///
/// # Safety
/// Both are live strings.
#[inline(always)]
pub(crate) unsafe fn same_text(a: *const LuaString, b: *const LuaString) -> bool {
    // SAFETY: the last word to be compared may begin in the four bytes before the text: there the length is,
    // which is the same in both.
    unsafe {
        let len = (*a).len as usize;
        if len != (*b).len as usize {
            return false;
        }
        let (a, b) = (a.cast::<u8>().add(STRING_DATA), b.cast::<u8>().add(STRING_DATA));
        let word = |p: *const u8, at: isize| p.offset(at).cast::<u64>().read_unaligned();
        if len < 4 {
            let last = |p: *const u8| p.offset(len as isize - 4).cast::<u32>().read_unaligned();
            return last(a) == last(b);
        }
        let end = len as isize - 8;
        let mut at = 0;
        while at < end {
            if word(a, at) != word(b, at) {
                return false;
            }
            at += 8;
        }
        word(a, end) == word(b, end)
    }
}

impl Gc<LuaString> {
    /// The hash of its bytes, computed at the first call.
    #[inline(always)]
    pub(crate) fn hash(self) -> u32 {
        match self.hash {
            0 => self.compute_hash(),
            h => h,
        }
    }

    #[inline(never)]
    fn compute_hash(self) -> u32 {
        let h = hash_bytes(self.bytes());
        debug_assert!(!self.is_frozen(), "strings of islands have their hash");
        // SAFETY: the string is alive and only this thread touches the heap it is in.
        unsafe { (*self.ptr()).hash = h };
        h
    }

    /// Whether it is the interned string of its text.
    #[inline(always)]
    pub(crate) fn is_interned(self) -> bool {
        self.header.flags & STRING_INTERNED != 0
    }

    /// Whether it is in an island: nothing may be written to it.
    #[inline(always)]
    pub(crate) fn is_frozen(self) -> bool {
        self.header.epoch & perilune_heap::FROZEN != 0
    }

    /// Whether it begins with two underscores, as the names of metamethods do.
    #[inline(always)]
    pub(crate) fn is_dunder(self) -> bool {
        // SAFETY: at least two bytes follow `STRING_DATA` in every string: sizes are rounded up to 16.
        unsafe { (self.ptr() as *const u8).add(STRING_DATA).cast::<u16>().read_unaligned() == 0x5f5f }
    }
}

/// Most strings whose twins are known at a time.
const MAX_TWINS: usize = 1 << 15;

/// The interned twins of strings that are used as keys again and again without being interned themselves:
/// what the texts in some list are, when they are counted or looked up. Such a string keeps the index of its
/// entry where an interned one has its atom; the entry proves that it is right by pointing back. Forgotten at
/// every collection, which may reuse the addresses.
#[derive(Default)]
struct Twins {
    /// (string, its interned twin)
    entries: Vec<(*mut LuaString, *mut LuaString)>,
    /// Which entry to replace next, once there are [`MAX_TWINS`].
    oldest: usize,
    /// For strings of islands, which cannot keep an index: direct-mapped by address; empty until first used.
    frozen: Vec<(*mut LuaString, *mut LuaString)>,
}

/// Size of the table of twins of strings in islands.
const FROZEN_TWINS: usize = 4096;

impl Twins {
    fn put(&mut self, s: Gc<LuaString>, twin: Gc<LuaString>) {
        let entry = (s.ptr(), twin.ptr());
        if s.is_frozen() {
            self.frozen.resize(FROZEN_TWINS, (null_mut(), null_mut()));
            self.frozen[Self::frozen_place(s)] = entry;
            return;
        }
        let at = if self.entries.len() < MAX_TWINS {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let at = self.oldest % MAX_TWINS;
            self.oldest = at + 1;
            self.entries[at] = entry;
            at
        };
        // SAFETY: the string is alive, this thread owns its heap, and as long as it is not interned the field
        // is ours.
        unsafe { (*s.ptr()).atom = at as u32 };
    }

    fn frozen_place(s: Gc<LuaString>) -> usize {
        (s.address() >> 4 ^ s.address() >> 16) % FROZEN_TWINS
    }

    /// The known twin of a string in an island, or null.
    fn frozen_twin(&self, s: Gc<LuaString>) -> *mut LuaString {
        match self.frozen.get(Self::frozen_place(s)) {
            Some(&(of, twin)) if of == s.ptr() => twin,
            _ => null_mut(),
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.frozen.clear();
    }
}

/// The interned strings of a domain: weak references.
pub struct StringTable {
    young: StringSet,
    /// Those of `young` that were interned while a scope was open.
    in_scope: Vec<*mut LuaString>,
    old: OldStrings,
    /// Strings of one byte, by that byte, and the empty one at the end; null until first needed.
    short: [*mut LuaString; 257],
    twins: Twins,
    reuse: Reuse,
}

/// Slots for what is interned first: the names of the standard library, some 230.
const AT_FIRST: usize = 512;

impl StringTable {
    /// Where [`StringTable::short`] lies: machine code looks there.
    pub(crate) const SHORT: usize = std::mem::offset_of!(StringTable, short);
}

impl Default for StringTable {
    fn default() -> Self {
        StringTable {
            young: StringSet::with_slots(AT_FIRST),
            in_scope: Vec::new(),
            old: OldStrings::default(),
            short: [null_mut(); 257],
            twins: Twins::default(),
            reuse: Reuse::default(),
        }
    }
}

impl StringTable {
    /// After the marking of a minor collection: strings interned since the last one are kept if marked.
    /// `is_marked` is asked about objects, `is_alive` about addresses where a string once was: whether a
    /// marked object is there.
    pub(crate) fn sweep_minor(
        &mut self,
        mut is_marked: impl FnMut(Obj) -> bool,
        mut is_alive: impl FnMut(Obj) -> bool,
    ) {
        self.sweep_short(&mut is_marked);
        for s in self.young.strings() {
            if is_marked(s.obj()) {
                self.old.insert(s, &mut is_alive);
            }
        }
        self.young.clear();
        self.in_scope.clear();
        self.old.sweep_some(&mut is_alive);
    }

    /// After the marking of the end of a scope, in which the strings of `in_scope` from `from` on were
    /// interned: those that are marked stay, and stay young.
    pub(crate) fn sweep_scope(&mut self, from: usize, mut is_marked: impl FnMut(Obj) -> bool) {
        self.sweep_short(&mut is_marked);
        let mut to = from;
        for at in from..self.in_scope.len() {
            let s = self.in_scope[at];
            // SAFETY: a string that nothing has freed yet.
            let s = unsafe { Gc::from_ptr(s) };
            if is_marked(s.obj()) {
                self.in_scope[to] = s.ptr();
                to += 1;
            } else {
                self.young.remove(s);
            }
        }
        self.in_scope.truncate(to);
    }

    /// Adds a string that is not there yet; `scoped`: a scope is open.
    fn enter(&mut self, s: Gc<LuaString>, scoped: bool) {
        self.young.insert(s);
        if scoped {
            self.in_scope.push(s.ptr());
        }
    }

    /// How many strings were interned in the scopes that are open.
    #[inline]
    pub(crate) fn count_in_scope(&self) -> usize {
        self.in_scope.len()
    }

    /// The outermost scope has ended.
    #[inline]
    pub(crate) fn leave_scopes(&mut self) {
        self.in_scope.clear();
    }

    /// After the marking of a major collection: all strings that are not marked are to be forgotten.
    pub(crate) fn sweep_major(
        &mut self,
        mut is_marked: impl FnMut(Obj) -> bool,
        is_alive: impl FnMut(Obj) -> bool,
    ) {
        self.sweep_short(&mut is_marked);
        debug_assert!(self.young.strings().next().is_none(), "a major ends right after a minor collection");
        self.old.begin_sweep();
        self.sweep_minor(is_marked, is_alive);
    }

    fn sweep_short(&mut self, is_marked: &mut impl FnMut(Obj) -> bool) {
        self.twins.clear();
        for s in &mut self.short {
            if Obj::new(s.cast()).is_some_and(|o| !is_marked(o)) {
                *s = null_mut();
            }
        }
    }

    /// How many strings are interned.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    #[inline]
    fn find(&self, heap: &Heap, hash: u32, bytes: &[u8]) -> Option<Gc<LuaString>> {
        self.old.find(heap, hash, bytes).or_else(|| self.young.find(hash, bytes))
    }

    /// As [`StringTable::known_twin`], also for a string in an island.
    ///
    /// # Safety
    /// As [`StringTable::known_twin`].
    #[inline(always)]
    pub(crate) unsafe fn known_twin_anywhere(&self, s: *mut LuaString) -> *mut LuaString {
        // SAFETY: the caller's promise.
        unsafe {
            match Gc::from_ptr(s) {
                s if s.is_frozen() => self.twins.frozen_twin(s),
                s => self.known_twin(s.ptr()),
            }
        }
    }

    /// The interned twin of a string that is not interned itself, if it has been looked up since the last
    /// collection; else null.
    ///
    /// # Safety
    /// `s` is a live string, and not interned.
    #[inline(always)]
    pub(crate) unsafe fn known_twin(&self, s: *mut LuaString) -> *mut LuaString {
        // SAFETY: the caller's promise.
        match self.twins.entries.get(unsafe { (*s).atom } as usize) {
            Some(&(of, twin)) if of == s => twin,
            _ => null_mut(),
        }
    }
}

/// Longest text that is looked for before it is made a string ([`Vm::new_text`]), in bytes.
pub(crate) const SHORT_TEXT: usize = 40;

/// Longest text that is copied without a call.
const COPIED_HERE: usize = 128;

/// Whether two texts, short as a rule, are the same: a call of `memcmp` takes longer than most texts do.
#[inline(always)]
fn same_short(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(x), Some(y)) => {
            x == y
                && (a.len() == 8 || a.chunks_exact(8).zip(b.chunks_exact(8)).all(|(x, y)| word(x) == word(y)))
        }
        _ => match (a.first_chunk::<4>(), b.first_chunk::<4>()) {
            (Some(x), Some(y)) => x == y && a.last_chunk::<4>() == b.last_chunk::<4>(),
            _ => a.iter().zip(b).all(|(x, y)| x == y),
        },
    }
}

/// Eight bytes as a number.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Copies a few bytes: a call of `memcpy` takes longer than most texts do.
///
/// # Safety
/// Both have room for `len` bytes, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The last words that are copied end where the text does, and may overlap
    // those before.
    unsafe {
        let word =
            |at: usize| to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_unaligned());
        let half =
            |at: usize| to.add(at).cast::<u32>().write_unaligned(from.add(at).cast::<u32>().read_unaligned());
        let two = |at: usize| {
            to.add(at).cast::<u128>().write_unaligned(from.add(at).cast::<u128>().read_unaligned())
        };
        if len >= 16 {
            let mut at = 0;
            while at + 16 < len {
                two(at);
                at += 16;
            }
            two(len - 16);
        } else if len >= 8 {
            word(0);
            word(len - 8);
        } else if len >= 4 {
            half(0);
            half(len - 4);
        } else if len != 0 {
            *to = *from;
            *to.add(len / 2) = *from.add(len / 2);
            *to.add(len - 1) = *from.add(len - 1);
        }
    }
}

/// Whether short texts that a program puts together are likely to be keys of its tables already, as in a loop
/// over `t["k" .. i]`. Then it is worth looking a text up before a string is made of it: what the program
/// keeps is one string for many, and using it as a key finds nothing new.
///
/// Look-ups that had to search for the twin of a string are the evidence for it; texts that are not there the
/// evidence against. Who is wrong is believed later the next time.
struct Reuse {
    on: bool,
    credit: i32,
    /// The credit at which it is tried.
    enough: i32,
}

impl Default for Reuse {
    fn default() -> Self {
        Reuse { on: false, credit: 0, enough: Reuse::AT_FIRST }
    }
}

impl Reuse {
    const AT_FIRST: i32 = 64;
    const MOST_ENOUGH: i32 = 1 << 20;
    /// Credit that a trial begins with, and the most that it gets.
    const TRIAL: i32 = 64;
    const MOST: i32 = 512;
    /// What a failure costs, where a success brings one.
    const PRICE: i32 = 3;

    /// A string that is not interned was used as a key: whether an interned one of its text was found.
    #[inline]
    fn key_was_met(&mut self, found: bool) {
        if self.on {
            return;
        }
        self.credit = if found { self.credit + 1 } else { (self.credit - Self::PRICE).max(0) };
        if self.credit >= self.enough {
            (self.on, self.credit) = (true, Self::TRIAL);
        }
    }

    /// A text has been looked for.
    #[inline]
    fn text_was_met(&mut self, found: bool) {
        if found {
            self.credit = (self.credit + 1).min(Self::MOST);
            return;
        }
        self.credit -= Self::PRICE;
        if self.credit < 0 {
            (self.on, self.credit) = (false, 0);
            self.enough = (self.enough * 4).min(Self::MOST_ENOUGH);
        }
    }
}

impl Vm {
    /// A string of the text `bytes`: perhaps an interned one that is there already, as long as such texts are
    /// likely to be keys of tables.
    ///
    /// # Errors
    /// As [`Vm::new_str`].
    #[inline]
    pub fn new_text(&mut self, bytes: &[u8]) -> LuaResult<Gc<LuaString>> {
        if self.lua.interned.strings.reuse.on && (2..=SHORT_TEXT).contains(&bytes.len()) {
            return self.reuse_text(bytes);
        }
        self.new_str(bytes)
    }

    #[inline(never)]
    fn reuse_text(&mut self, bytes: &[u8]) -> LuaResult<Gc<LuaString>> {
        let hash = hash_bytes(bytes);
        let found = self.lua.interned.strings.find(&self.heap, hash, bytes);
        self.lua.interned.strings.reuse.text_was_met(found.is_some());
        if let Some(s) = found {
            return Ok(s);
        }
        let s = self.new_str(bytes)?;
        // SAFETY: a new string of this thread's heap, and its hash.
        unsafe { (*s.ptr()).hash = hash };
        Ok(s)
    }

    /// A string with a copy of `bytes`.
    ///
    /// # Errors
    /// "not enough memory" for more than 2 GiB - 1, or when the heap refuses.
    #[inline]
    pub fn new_str(&mut self, bytes: &[u8]) -> LuaResult<Gc<LuaString>> {
        if bytes.len() <= 1 {
            return Ok(self.short_str(bytes));
        }
        // SAFETY: all bytes are written below.
        let s = unsafe { self.alloc_str_uninit(bytes.len())? };
        // SAFETY: the new string has room for `len` bytes and overlaps nothing.
        unsafe {
            let data = s.ptr().cast::<u8>().add(STRING_DATA);
            if bytes.len() <= COPIED_HERE {
                copy_short(bytes.as_ptr(), data, bytes.len());
            } else {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            }
        };
        Ok(s)
    }

    #[inline]
    fn short_str(&mut self, bytes: &[u8]) -> Gc<LuaString> {
        let at = bytes.first().map_or(256, |&b| b as usize);
        let s = self.lua.interned.strings.short[at];
        if s.is_null() {
            return self.make_short_str(at, bytes);
        }
        // SAFETY: not null, and the sweeps remove the dead.
        unsafe { Gc::from_ptr(s) }
    }

    #[cold]
    fn make_short_str(&mut self, at: usize, bytes: &[u8]) -> Gc<LuaString> {
        let hash = hash_bytes(bytes);
        let s = match self.lua.interned.strings.find(&self.heap, hash, bytes) {
            Some(s) => s,
            None => {
                let s = self.alloc_small_str(bytes.len());
                // SAFETY: the new string has room for its bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        s.ptr().cast::<u8>().add(STRING_DATA),
                        bytes.len(),
                    )
                };
                self.intern(s)
            }
        };
        self.lua.interned.strings.short[at] = s.ptr();
        s
    }

    /// A string of `len` bytes that the caller fills at once; the NUL behind them is in place.
    ///
    /// # Safety
    /// All `len` bytes from `STRING_DATA` on are written before anything looks at the string.
    ///
    /// # Errors
    /// As [`Vm::new_str`].
    #[inline]
    pub(crate) unsafe fn alloc_str_uninit(&mut self, len: usize) -> LuaResult<Gc<LuaString>> {
        if STRING_DATA + len < SMALL {
            return Ok(self.alloc_small_str(len));
        }
        self.alloc_large_str(len)
    }

    #[inline(always)]
    fn alloc_small_str(&mut self, len: usize) -> Gc<LuaString> {
        let o = self.heap.alloc(Tag::STRING.0, STRING_DATA + len + 1);
        Self::init_str(o, len)
    }

    #[cold]
    fn alloc_large_str(&mut self, len: usize) -> LuaResult<Gc<LuaString>> {
        if len > MAX_STRING {
            return Err(self.out_of_memory());
        }
        match self.heap.try_alloc(Tag::STRING.0, STRING_DATA + len + 1) {
            Ok(o) => Ok(Self::init_str(o, len)),
            Err(_) => Err(self.out_of_memory()),
        }
    }

    #[inline(always)]
    fn init_str(o: Obj, len: usize) -> Gc<LuaString> {
        let p: *mut LuaString = o.as_ptr().cast();
        // SAFETY: `o` is a fresh object with room for the fields, `len` bytes and a NUL.
        unsafe {
            (*p).hash = 0;
            (*p).atom = 0;
            (*p).len = len as u32;
            p.cast::<u8>().add(STRING_DATA + len).write(0);
            Gc::from_ptr(p)
        }
    }

    /// The interned string with the same bytes: `s` itself if there was none.
    #[inline]
    pub(crate) fn intern(&mut self, s: Gc<LuaString>) -> Gc<LuaString> {
        if s.is_interned() { s } else { self.intern_slow(s) }
    }

    #[inline(never)]
    fn intern_slow(&mut self, s: Gc<LuaString>) -> Gc<LuaString> {
        if let Some(twin) = self.find_twin(s) {
            return twin;
        }
        if s.is_frozen() {
            return self.intern_copy(s);
        }
        // SAFETY: the string is alive; flags may change at any time. What it knew of a twin that is gone is
        // no atom.
        unsafe {
            (*s.ptr()).header.flags |= STRING_INTERNED;
            (*s.ptr()).atom = 0;
        }
        self.lua.interned.strings.enter(s, self.heap.in_scope());
        s
    }

    /// Interns a copy of a string of an island.
    fn intern_copy(&mut self, s: Gc<LuaString>) -> Gc<LuaString> {
        let o = self.heap.alloc(Tag::STRING.0, STRING_DATA + s.len() + 1);
        let copy = Self::init_str(o, s.len());
        // SAFETY: the new string has room for the bytes; its flags and hash are this thread's.
        unsafe {
            let data = copy.ptr().cast::<u8>().add(STRING_DATA);
            std::ptr::copy_nonoverlapping(s.bytes().as_ptr(), data, s.len());
            (*copy.ptr()).hash = s.hash;
            (*copy.ptr()).header.flags |= STRING_INTERNED;
        }
        self.lua.interned.strings.enter(copy, self.heap.in_scope());
        copy
    }

    /// The interned string with these bytes.
    ///
    /// # Errors
    /// As [`Vm::new_str`].
    pub(crate) fn intern_bytes(&mut self, bytes: &[u8]) -> LuaResult<Gc<LuaString>> {
        match self.lua.interned.strings.find(&self.heap, hash_bytes(bytes), bytes) {
            Some(s) => Ok(s),
            None => {
                let s = self.new_str(bytes)?;
                Ok(self.intern(s))
            }
        }
    }

    /// The interned string with the same bytes, if there is one; without it, no table has such a key.
    #[inline]
    pub(crate) fn find_interned(&self, s: Gc<LuaString>) -> Option<Gc<LuaString>> {
        if s.is_interned() {
            return Some(s);
        }
        // SAFETY: a live string that is not interned.
        let mut twin = unsafe { self.lua.interned.strings.known_twin(s.ptr()) };
        if twin.is_null() && s.is_frozen() {
            twin = self.lua.interned.strings.twins.frozen_twin(s);
        }
        if twin.is_null() {
            return self.lua.interned.strings.find(&self.heap, s.hash(), s.bytes());
        }
        // SAFETY: not null, and no collection has come since it was entered.
        Some(unsafe { Gc::from_ptr(twin) })
    }

    /// As [`Vm::find_interned`] for a string that is not interned, and remembers the twin.
    #[inline(never)]
    pub(crate) fn find_twin(&mut self, s: Gc<LuaString>) -> Option<Gc<LuaString>> {
        debug_assert!(!s.is_interned());
        // SAFETY: a live string that is not interned.
        let mut known = unsafe { self.lua.interned.strings.known_twin(s.ptr()) };
        if s.is_frozen() {
            known = self.lua.interned.strings.twins.frozen_twin(s);
        }
        if !known.is_null() {
            // SAFETY: not null, and no collection has come since it was entered.
            return Some(unsafe { Gc::from_ptr(known) });
        }
        let found = self.lua.interned.strings.find(&self.heap, s.hash(), s.bytes());
        if s.len() <= SHORT_TEXT {
            self.lua.interned.strings.reuse.key_was_met(found.is_some());
        }
        let twin = found?;
        self.lua.interned.strings.twins.put(s, twin);
        Some(twin)
    }

    /// How often memory has been refused: whether an error that has just been raised was such a refusal.
    #[inline]
    pub fn memory_refusals(&self) -> u32 {
        self.lua.gc.refusals
    }

    /// Raises "not enough memory".
    #[cold]
    pub fn out_of_memory(&mut self) -> Thrown {
        self.heap.want_full();
        self.lua.gc.refusals = self.lua.gc.refusals.wrapping_add(1);
        let text = b"not enough memory";
        let s = self.alloc_small_str(text.len());
        // SAFETY: the new string has room for its bytes. Small allocations do not fail.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), s.ptr().cast::<u8>().add(STRING_DATA), text.len())
        };
        self.throw(Value::from(s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::bare_vm;

    /// Texts that have one hash if the first secret is the constant it once was.
    #[test]
    fn chosen_texts_do_not_collide() {
        let first = 0x9e37_79b9_7f4a_7c15u64.rotate_right(16).to_le_bytes();
        let mut hashes: Vec<u32> = (0..1000u64)
            .map(|i| hash_bytes(&[first, i.wrapping_mul(0x9e37_79b9).to_le_bytes()].concat()))
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        // Of a thousand random hashes, two are hardly ever the same.
        assert!(hashes.len() > 990, "{} different", hashes.len());
    }

    #[test]
    fn interning() {
        let vm = &mut bare_vm();
        let a = vm.new_str(b"hello").unwrap();
        let b = vm.new_str(b"hello").unwrap();
        assert!(a != b && str_eq(a, b));
        assert!(vm.find_interned(a).is_none());
        let a1 = vm.intern(a);
        assert!(a1 == a && vm.intern(b) == a && vm.find_interned(b) == Some(a));
        assert!(vm.intern_bytes(b"hello").unwrap() == a);
        assert!(!str_eq(a, vm.intern_bytes(b"hellp").unwrap()));
        let x = vm.new_str(b"x").unwrap();
        assert!(x == vm.new_str(b"x").unwrap() && x.is_interned());
        assert!(vm.new_str(b"").unwrap() == vm.intern_bytes(b"").unwrap());
        assert_eq!(vm.new_str(b"a\0b").unwrap().bytes(), b"a\0b");
    }

    #[test]
    fn short_copies() {
        let from: Vec<u8> = (1..=100).collect();
        for len in 0..=100 {
            let mut to = [0u8; 100];
            // SAFETY: both have a hundred bytes.
            unsafe { copy_short(from.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!(to[..len], from[..len]);
            assert!(to[len..].iter().all(|&b| b == 0), "{len}");
        }
    }

    #[test]
    fn short_comparisons() {
        let text: Vec<u8> = (1..=60).collect();
        for len in 0..=text.len() {
            assert!(same_short(&text[..len], &[&text[..len]].concat()));
            assert!(!same_short(&text[..len], &[&text[..len], b"x"].concat()));
            for at in 0..len {
                let mut other = text[..len].to_vec();
                other[at] ^= 1;
                assert!(!same_short(&text[..len], &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn texts_that_are_keys_are_not_made_again() {
        let vm = &mut bare_vm();
        let key = vm.intern_bytes(b"key").unwrap();
        assert!(vm.new_text(b"key").unwrap() != key);
        for _ in 0..Reuse::AT_FIRST {
            let s = vm.new_str(b"key").unwrap();
            assert!(vm.find_twin(s) == Some(key));
        }
        assert!(vm.new_text(b"key").unwrap() == key);
        let other = vm.new_text(b"other").unwrap();
        assert!(!other.is_interned() && other.hash == hash_bytes(b"other"));
        for n in 0..Reuse::TRIAL {
            vm.new_text(format!("text {n}").as_bytes()).unwrap();
        }
        assert!(vm.new_text(b"key").unwrap() != key, "most texts are no keys");
        // It takes more to be tried again.
        for _ in 0..Reuse::AT_FIRST {
            let s = vm.new_str(b"key").unwrap();
            vm.find_twin(s);
        }
        assert!(vm.new_text(b"key").unwrap() != key);
    }

    #[test]
    fn sweeps_forget_the_unmarked() {
        let vm = &mut bare_vm();
        let strings: Vec<_> =
            (0..1000).map(|i| vm.intern_bytes(format!("key {i}").as_bytes()).unwrap()).collect();
        let keep = |o: Obj| {
            // SAFETY: all objects here are strings of this test.
            let s = unsafe { Gc::<LuaString>::from_ptr(o.as_ptr().cast()) };
            s.bytes().ends_with(b"7")
        };
        vm.lua.interned.strings.sweep_minor(keep, keep);
        assert_eq!(vm.lua.interned.strings.len(), 100);
        for (i, &s) in strings.iter().enumerate() {
            let found = vm.lua.interned.strings.find(&vm.heap, s.hash(), s.bytes());
            assert_eq!(found == Some(s), i % 10 == 7, "{i}");
        }
        let again = vm.intern_bytes(b"key 3").unwrap();
        assert!(again != strings[3]);
        // Old strings survive a minor collection that knows nothing of them, not a major one.
        vm.lua.interned.strings.sweep_minor(|_| false, |_| false);
        assert_eq!(vm.lua.interned.strings.len(), 100);
        let only = |o| o == strings[17].obj();
        vm.lua.interned.strings.sweep_major(only, only);
        assert_eq!(vm.lua.interned.strings.len(), 1);
        assert!(vm.lua.interned.strings.find(&vm.heap, strings[17].hash(), b"key 17") == Some(strings[17]));
    }

    #[test]
    fn too_long() {
        let vm = &mut bare_vm();
        // SAFETY: the allocation is refused, so there is nothing to write.
        let e = unsafe { vm.alloc_str_uninit(MAX_STRING + 1) }.err().unwrap();
        assert_eq!(vm.host_error(e).as_string().unwrap().bytes(), b"not enough memory");
    }
}
