//! What the copy into an island needs while it works: the objects met, and the texts among them.
//!
//! A domain that shares now and then keeps this memory, up to a bound, since pages that come from the system
//! anew cost as much as what is written to them. It goes when [`IDLE`] majors have passed without a copy.

use crate::object::LuaString;
use crate::sys::prefetch;
use crate::value::Gc;
use perilune_heap::Header;
use std::ptr::null_mut;

/// An object that has been met.
pub(super) struct Entry {
    pub src: *mut Header,
    pub dst: *mut Header,
    /// Of the source.
    pub epoch: u32,
    /// The entry that referred to it first; [`NO_PARENT`]: the root.
    pub parent: u32,
}

pub(super) const NO_PARENT: u32 = u32::MAX;

/// How many objects ahead headers are fetched that lie anywhere.
pub(super) const AHEAD: usize = 8;

/// Most bytes of each part that are kept.
const KEPT: usize = 1 << 20;
/// Majors without a copy after which nothing is kept.
const IDLE: u8 = 4;

/// The memory that a domain keeps between two copies.
#[derive(Default)]
pub(crate) struct Scratch {
    entries: Vec<Entry>,
    slots: Vec<u64>,
    idle: u8,
}

impl Scratch {
    pub(super) fn take(&mut self) -> (Entries, Texts) {
        self.idle = 0;
        let texts = Texts { slots: Vec::new(), len: 0, spare: std::mem::take(&mut self.slots) };
        (Entries(std::mem::take(&mut self.entries)), texts)
    }

    /// Puts the headers right, and keeps the memory.
    pub(super) fn give(&mut self, mut entries: Entries, texts: Texts) {
        entries.restore();
        let mut entries = std::mem::take(&mut entries.0);
        entries.clear();
        if entries.capacity() * size_of::<Entry>() <= KEPT {
            self.entries = entries;
        }
        let slots = if texts.slots.capacity() > texts.spare.capacity() { texts.slots } else { texts.spare };
        if slots.capacity() * size_of::<u64>() <= KEPT {
            self.slots = slots;
        }
    }

    /// A major is complete.
    pub(crate) fn collected(&mut self) {
        self.idle = self.idle.saturating_add(1);
        if self.idle == IDLE {
            *self = Scratch { idle: IDLE, ..Scratch::default() };
        }
    }
}

/// The objects met, whose headers are put right in the end.
pub(super) struct Entries(pub Vec<Entry>);

impl Entries {
    fn restore(&mut self) {
        for (n, e) in self.0.iter().enumerate() {
            if let Some(later) = self.0.get(n + AHEAD) {
                prefetch(later.src);
            }
            // SAFETY: the sources are alive: nothing has been collected since they were met.
            unsafe { (*e.src).epoch = e.epoch };
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The copies of strings that are not interned: an open-addressing set by text.
pub(super) struct Texts {
    /// A power of two, at most two thirds used; empty at first. An address in the lower 48 bits, the upper
    /// half of the hash above; 0: free.
    slots: Vec<u64>,
    len: usize,
    /// Storage to be used when the set grows.
    spare: Vec<u64>,
}

impl Texts {
    fn string(slot: u64) -> *mut LuaString {
        (slot & ((1 << 48) - 1)) as *mut LuaString
    }

    fn slot(hash: u32, s: *mut LuaString) -> u64 {
        s as u64 | ((hash >> 16) as u64) << 48
    }

    /// The copy of `s`, or null; and where it belongs: there is room for it.
    #[inline]
    pub fn find(&mut self, hash: u32, s: Gc<LuaString>) -> (usize, *mut LuaString) {
        if (self.len + 1) * 3 > self.slots.len() * 2 {
            self.grow((self.slots.len() * 4).max(64));
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return (at, null_mut());
            }
            let known = Self::string(slot);
            // SAFETY: the slots have strings of the island, and `s` is alive.
            if slot >> 48 == (hash >> 16) as u64 && unsafe { crate::string::same_text(known, s.ptr()) } {
                return (at, known);
            }
            at = (at + 1) & mask;
        }
    }

    pub fn put(&mut self, place: usize, hash: u32, s: *mut LuaString) {
        self.slots[place] = Self::slot(hash, s);
        self.len += 1;
    }

    /// Makes room for `more` strings: growing in the middle looks at all that are there.
    pub fn reserve(&mut self, more: usize) {
        let size = ((self.len + more) * 3 / 2 + 2).next_power_of_two();
        if size > self.slots.len() {
            self.grow(size);
        }
    }

    #[cold]
    fn grow(&mut self, size: usize) {
        std::mem::swap(&mut self.slots, &mut self.spare);
        self.slots.clear();
        if self.slots.capacity() >= size {
            self.slots.resize(size, 0);
        } else {
            self.slots = vec![0; size];
        }
        for &slot in &self.spare {
            if slot != 0 {
                // SAFETY: a string of the island.
                let mut at = unsafe { (*Self::string(slot)).hash } as usize & (size - 1);
                while self.slots[at] != 0 {
                    at = (at + 1) & (size - 1);
                }
                self.slots[at] = slot;
            }
        }
        self.spare.clear();
    }
}
