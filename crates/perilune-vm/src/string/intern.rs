//! Sets of interned strings: one for the young, and one for the old that grows and is swept a little at a
//! time.
//!
//! A [`StringSet`] is an open-addressing set of words that carry a pointer in the lower 48 bits and 16 bits
//! of the hash above, so that a probe rarely touches a string that is another one. Nothing is deleted from
//! it; a sweep rebuilds it.
//!
//! A program may have millions of keys, and neither a collection that interns one more nor the end of a major
//! may stop it for as long as it takes to visit them all. So the old strings ([`OldStrings`]) are spread over
//! *shards* of a few hundred by the upper bits of their hashes, with a directory that doubles (extendible
//! hashing): a shard that is full becomes two. Not all are full at the same number, so that not all become
//! two at the same time.
//!
//! After a major every shard is *stale*: it may name strings that are dead. Each collection sweeps a few of
//! them. Until a shard's turn has come, the memory of a dead string may be used for something else, or
//! unmapped; so what a look-up finds in a stale shard counts only if the heap knows an object at that address
//! and it is an interned string of that text. Then it is the right one, whatever was there before. For the
//! same reason a sweep keeps an entry if there is a marked, interned string with that part of the hash. Such
//! a string may have got its own entry when it was interned: a duplicate does no harm.
//!
//! Where memory for growing is refused, a set is filled beyond what is good for it, and a shard that should
//! be two stays one: a collection is due then (`heap/shortage.rs`), which empties the set of the young.
//!
//! Rejected: to sweep before memory is reused. The heap would have to wait for the table, or the table to be
//! done when the marking is.

use super::{POINTER_BITS, POINTER_MASK, same_short};
use crate::object::{LuaString, STRING_INTERNED};
use crate::value::{Gc, Tag};
use perilune_heap::{Heap, Obj};

/// A shard is full when it has so many strings, and up to twice as many.
const FULL: usize = 400;
/// Slots of a shard that has been split.
const SLOTS: usize = 1024;
/// Least slots of a set that is not empty.
const SMALLEST: usize = 64;
/// Stale shards swept by a collection.
const AT_A_TIME: usize = 12;
/// Most bits of a hash that choose a shard.
const MOST_BITS: u32 = 24;

/// An open-addressing set of interned strings.
#[derive(Default)]
pub(super) struct StringSet {
    /// Power-of-two number of slots; 0: empty. Upper 16 bits: upper bits of the hash.
    slots: Vec<u64>,
    len: usize,
}

impl StringSet {
    /// An empty set with room for two thirds of `slots` strings, a power of two.
    pub(super) fn with_slots(slots: usize) -> StringSet {
        debug_assert!(slots.is_power_of_two());
        StringSet { slots: vec![0; slots], len: 0 }
    }

    /// The string of that text, if it is there. `may_be` tells whether an address can be taken for that of an
    /// interned string.
    #[inline(always)]
    fn find_if(&self, hash: u32, bytes: &[u8], may_be: impl Fn(Obj) -> bool) -> Option<Gc<LuaString>> {
        let mask = self.slots.len().wrapping_sub(1);
        if self.slots.is_empty() {
            return None;
        }
        let mut i = hash as usize & mask;
        loop {
            let slot = self.slots[i & mask];
            if slot == 0 {
                return None;
            }
            if slot >> POINTER_BITS == (hash >> 16) as u64 {
                let s = Self::string(slot);
                if may_be(s.obj()) && s.hash == hash && same_short(s.bytes(), bytes) {
                    return Some(s);
                }
            }
            i += 1;
        }
    }

    #[inline]
    pub(super) fn find(&self, hash: u32, bytes: &[u8]) -> Option<Gc<LuaString>> {
        self.find_if(hash, bytes, |_| true)
    }

    fn string(slot: u64) -> Gc<LuaString> {
        // SAFETY: not null. Whether the string is alive is for the caller to know.
        unsafe { Gc::from_ptr((slot & POINTER_MASK) as *mut LuaString) }
    }

    fn is_full(&self) -> bool {
        (self.len + 1) * 3 > self.slots.len() * 2
    }

    /// Adds a string that is not there yet and whose hash is known.
    pub(super) fn insert(&mut self, s: Gc<LuaString>) {
        if self.is_full() {
            self.grow();
        }
        self.place(s);
        self.len += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let capacity = (self.slots.len() * 2).max(SMALLEST);
        // One slot stays free in any case: it ends every search.
        if !self.try_resize(capacity) && self.len + 2 > self.slots.len() {
            self.resize(capacity);
        }
    }

    /// As [`StringSet::resize`]; false, and nothing is changed, if memory for it is refused.
    fn try_resize(&mut self, capacity: usize) -> bool {
        let mut slots = Vec::new();
        if slots.try_reserve_exact(capacity).is_err() {
            return false;
        }
        slots.resize(capacity, 0);
        self.refill(slots);
        true
    }

    /// Removes a string that is there. All strings of the set are alive.
    pub(super) fn remove(&mut self, s: Gc<LuaString>) {
        let mask = self.slots.len() - 1;
        let mut hole = s.hash as usize & mask;
        while self.slots[hole] & POINTER_MASK != s.address() as u64 {
            debug_assert_ne!(self.slots[hole], 0);
            hole = (hole + 1) & mask;
        }
        // Those behind the hole move up unless that would put them before their place.
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let slot = self.slots[next];
            if slot == 0 {
                break;
            }
            let home = Self::string(slot).hash as usize & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = next;
            }
        }
        self.slots[hole] = 0;
        self.len -= 1;
    }

    fn place(&mut self, s: Gc<LuaString>) {
        let mask = self.slots.len() - 1;
        let mut i = s.hash as usize & mask;
        while self.slots[i] != 0 {
            i = (i + 1) & mask;
        }
        debug_assert_eq!(s.address() as u64 >> POINTER_BITS, 0);
        self.slots[i] = s.address() as u64 | ((s.hash >> 16) as u64) << POINTER_BITS;
    }

    fn resize(&mut self, capacity: usize) {
        self.refill(vec![0; capacity]);
    }

    /// Goes over to these slots, all 0.
    fn refill(&mut self, slots: Vec<u64>) {
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old {
            if slot != 0 {
                self.place(Self::string(slot));
            }
        }
    }

    /// Keeps the strings for which `keep` holds, given the address and the upper half of the hash.
    fn retain(&mut self, mut keep: impl FnMut(Obj, u32) -> bool) {
        self.len = 0;
        for slot in &mut self.slots {
            if *slot != 0 {
                if keep(Self::string(*slot).obj(), (*slot >> POINTER_BITS) as u32) {
                    self.len += 1;
                } else {
                    *slot = 0;
                }
            }
        }
        // Placing anew closes the gaps that the dropped ones left in probe sequences.
        self.resize(if self.len == 0 { 0 } else { (self.len * 2).next_power_of_two().max(SMALLEST) });
    }

    pub(super) fn strings(&self) -> impl Iterator<Item = Gc<LuaString>> {
        self.slots.iter().filter(|&&s| s != 0).map(|&s| Self::string(s))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Empties the set; its storage is kept if the next cycle is likely to need it.
    pub(super) fn clear(&mut self) {
        if self.len * 8 >= self.slots.len() {
            self.slots.fill(0);
            self.len = 0;
        } else {
            *self = StringSet::default();
        }
    }
}

/// Whether the object at `o` is an interned string.
fn is_interned(o: Obj) -> bool {
    // SAFETY: callers know that there is an object.
    let header = unsafe { *o.as_ptr() };
    header.kind == Tag::STRING.0 && header.flags & STRING_INTERNED != 0
}

struct Shard {
    set: StringSet,
    /// How many upper bits of the hash all strings in here have in common.
    bits: u32,
    stale: bool,
}

/// The interned strings that have survived a collection.
pub(super) struct OldStrings {
    /// Indices of shards, by the upper `bits` bits of a hash.
    directory: Vec<u32>,
    bits: u32,
    shards: Vec<Shard>,
    /// The shard that is looked at next, and how many may still be stale.
    next: usize,
    left: usize,
}

impl Default for OldStrings {
    fn default() -> Self {
        let first = Shard { set: StringSet::default(), bits: 0, stale: false };
        OldStrings { directory: vec![0], bits: 0, shards: vec![first], next: 0, left: 0 }
    }
}

impl OldStrings {
    #[inline(always)]
    fn shard_of(&self, hash: u32) -> usize {
        self.directory[((hash as u64) << self.bits >> 32) as usize] as usize
    }

    #[inline]
    pub(super) fn find(&self, heap: &Heap, hash: u32, bytes: &[u8]) -> Option<Gc<LuaString>> {
        let shard = &self.shards[self.shard_of(hash)];
        if shard.stale {
            return shard.set.find_if(hash, bytes, |o| heap.is_allocated(o) && is_interned(o));
        }
        shard.set.find(hash, bytes)
    }

    /// Adds a string that is not there yet and whose hash is known. `is_alive` is as for
    /// [`OldStrings::sweep_some`].
    pub(super) fn insert(&mut self, s: Gc<LuaString>, is_alive: &mut impl FnMut(Obj) -> bool) {
        loop {
            let at = self.shard_of(s.hash);
            let shard = &mut self.shards[at];
            let full = FULL + at * 61 % FULL;
            if shard.set.is_full() || shard.set.len >= full {
                // Growing looks into the strings.
                Self::sweep(shard, is_alive);
                if shard.set.len >= full && shard.bits < MOST_BITS && self.can_split(at) {
                    self.split(at);
                    continue;
                }
            }
            return self.shards[at].set.insert(s);
        }
    }

    /// Makes room in the lists for one more shard; false if it is refused.
    fn can_split(&mut self, at: usize) -> bool {
        let doubles = self.shards[at].bits == self.bits;
        let more = if doubles { self.directory.len() } else { 0 };
        self.directory.try_reserve_exact(more).is_ok() && self.shards.try_reserve(1).is_ok()
    }

    /// Makes two of a shard that is not stale, for which there is room.
    fn split(&mut self, at: usize) {
        let bits = self.shards[at].bits;
        if bits == self.bits {
            // In place, from the end: each entry becomes two.
            let count = self.directory.len();
            self.directory.resize(2 * count, 0);
            for i in (0..count).rev() {
                let entry = self.directory[i];
                self.directory[2 * i] = entry;
                self.directory[2 * i + 1] = entry;
            }
            self.bits += 1;
        }
        let old = std::mem::take(&mut self.shards[at].set);
        let half = || StringSet { slots: vec![0; SLOTS], len: 0 };
        let mut halves = [half(), half()];
        for s in old.strings() {
            halves[(s.hash >> (31 - bits)) as usize & 1].insert(s);
        }
        let [lower, upper] = halves;
        self.shards[at] = Shard { set: lower, bits: bits + 1, stale: false };
        let new = self.shards.len() as u32;
        self.shards.push(Shard { set: upper, bits: bits + 1, stale: false });
        let step = self.bits - bits - 1;
        for (i, entry) in self.directory.iter_mut().enumerate() {
            if *entry == at as u32 && i >> step & 1 == 1 {
                *entry = new;
            }
        }
    }

    fn sweep(shard: &mut Shard, is_alive: &mut impl FnMut(Obj) -> bool) {
        if std::mem::take(&mut shard.stale) {
            shard.set.retain(|o, half| {
                // SAFETY: an interned string has a hash.
                is_alive(o)
                    && is_interned(o)
                    && unsafe { (*o.as_ptr().cast::<LuaString>()).hash } >> 16 == half
            });
        }
    }

    /// After the marking of a major: any entry may be that of a dead string.
    pub(super) fn begin_sweep(&mut self) {
        self.shards.iter_mut().for_each(|s| s.stale = true);
        self.left = self.shards.len();
    }

    /// Sweeps some of the stale shards; all of a small set. `is_alive` says of any address whether an object
    /// is there that has been marked by the collection that is about to end.
    pub(super) fn sweep_some(&mut self, is_alive: &mut impl FnMut(Obj) -> bool) {
        for _ in 0..AT_A_TIME.min(self.left) {
            self.next = (self.next + 1) % self.shards.len();
            self.left -= 1;
            Self::sweep(&mut self.shards[self.next], is_alive);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.set.len).sum()
    }

    #[cfg(test)]
    pub(super) fn is_swept(&self) -> bool {
        self.shards.iter().all(|s| !s.stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::bare_vm;

    #[test]
    fn shards_split_and_are_swept_a_few_at_a_time() {
        let vm = &mut bare_vm();
        let strings: Vec<_> =
            (0..50_000).map(|i| vm.intern_bytes(format!("key {i}").as_bytes()).unwrap()).collect();
        let mut old = OldStrings::default();
        let sevenths = |o: Obj| {
            // SAFETY: all objects here are strings of this test.
            let s = unsafe { Gc::<LuaString>::from_ptr(o.as_ptr().cast()) };
            s.bytes().ends_with(b"7")
        };
        for &s in &strings {
            old.insert(s, &mut |_| true);
        }
        assert!(old.len() == strings.len() && old.shards.len() > 64, "{} shards", old.shards.len());
        assert!(strings.iter().all(|&s| old.find(&vm.heap, s.hash, s.bytes()) == Some(s)));
        assert!(old.find(&vm.heap, super::super::hash_bytes(b"key"), b"key").is_none());
        old.begin_sweep();
        let mut rounds = 0;
        while !old.is_swept() {
            let before = old.len();
            old.sweep_some(&mut { sevenths });
            assert!(before - old.len() <= AT_A_TIME * 2 * FULL);
            // Nothing has really died: what is not swept yet is found.
            assert!(
                strings.iter().skip(7).step_by(10).all(|&s| old.find(&vm.heap, s.hash, s.bytes()) == Some(s))
            );
            rounds += 1;
        }
        assert!(rounds > 10 && old.len() == strings.len() / 10);
        for (i, &s) in strings.iter().enumerate() {
            assert_eq!(old.find(&vm.heap, s.hash, s.bytes()).is_some(), i % 10 == 7, "{i}");
        }
    }

    #[test]
    fn shards_stay_small_though_majors_come_while_they_grow() {
        let vm = &mut bare_vm();
        let strings: Vec<_> =
            (0..50_000).map(|i| vm.intern_bytes(format!("key {i}").as_bytes()).unwrap()).collect();
        let mut old = OldStrings::default();
        for (i, &s) in strings.iter().enumerate() {
            old.insert(s, &mut |_| true);
            if i % 500 == 0 {
                old.begin_sweep();
            }
        }
        assert!(old.shards.iter().all(|s| s.set.len <= 2 * FULL && s.set.slots.len() <= 2 * SLOTS));
        assert!(strings.iter().all(|&s| old.find(&vm.heap, s.hash, s.bytes()) == Some(s)));
    }

    #[test]
    fn what_has_taken_the_place_of_a_dead_string_is_not_found() {
        let vm = &mut bare_vm();
        let dead = vm.intern_bytes(b"once").unwrap();
        let (hash, mut old) = (dead.hash, OldStrings::default());
        old.insert(dead, &mut |_| true);
        old.begin_sweep();
        assert!(old.find(&vm.heap, hash, b"once") == Some(dead));
        // SAFETY: the string is ours; as if it were another one now, not interned.
        unsafe { (*dead.ptr()).header.flags &= !STRING_INTERNED };
        assert!(old.find(&vm.heap, hash, b"once").is_none());
        old.sweep_some(&mut |_| true);
        assert_eq!(old.len(), 0);
    }
}
