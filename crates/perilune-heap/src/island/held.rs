//! The islands that one heap holds.
//!
//! A heap has one count of each island that its objects may refer to. It takes it when a reference arrives
//! ([`Heap::adopt_island`]), for that island and all those that it refers to, directly or not: whoever can
//! reach an object can reach what that object refers to. A major collection marks an island instead of the
//! object when it meets a pointer into the range, and with it the islands it refers to. At the end the counts
//! of the unmarked ones are given up. Minor collections take no notice of islands.
//!
//! An island that arrives while a major is under way counts as marked, with those that it refers to, which
//! may have been held before. So a count is always taken before another one is given up.
//!
//! # Accounts
//! The bytes of an island count as external memory of the heap that *made* it, as long as that heap holds it:
//! they are in its byte count, under its limit, and bring its next major nearer. For other heaps an island is
//! nothing that they could have avoided, and counting a large one in each of fifty heaps would let each of
//! them collect half that much garbage before it thinks a major worthwhile. There islands only bring a major
//! nearer: one is due when those that have arrived since the last one are as big as half of those held then,
//! and at least [`LEAST_ARRIVALS`].

use super::{IslandRef, body, lower, memory, raise};
use crate::heap::Heap;
use crate::mark::Marker;
use crate::{Cycle, Obj};

/// Bytes of foreign islands that do not bring a major about by themselves.
const LEAST_ARRIVALS: usize = 8 << 20;

/// A set of island numbers, sparse by portions of 4,096.
#[derive(Default)]
struct Numbers(Vec<Option<Box<[u64; 64]>>>);

impl Numbers {
    #[inline(always)]
    fn has(&self, n: u32) -> bool {
        match self.0.get(n as usize >> 12) {
            Some(Some(words)) => words[n as usize >> 6 & 63] >> (n & 63) & 1 != 0,
            _ => false,
        }
    }

    /// True if it was not there.
    fn add(&mut self, n: u32) -> bool {
        let portion = n as usize >> 12;
        if self.0.len() <= portion {
            self.0.resize_with(portion + 1, || None);
        }
        let words = self.0[portion].get_or_insert_with(|| Box::new([0; 64]));
        let (word, bit) = (&mut words[n as usize >> 6 & 63], 1 << (n & 63));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn remove(&mut self, n: u32) {
        if let Some(Some(words)) = self.0.get_mut(n as usize >> 12) {
            words[n as usize >> 6 & 63] &= !(1 << (n & 63));
        }
    }

    fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(|words| words.fill(0));
    }
}

struct HeldIsland {
    number: u32,
    /// This heap's program made it.
    made: bool,
}

/// A heap's islands.
#[derive(Default)]
pub(crate) struct Held {
    held: Numbers,
    /// Met in the major in progress, or arrived since it began.
    marked: Numbers,
    list: Vec<HeldIsland>,
    /// Bytes of all that are held.
    bytes: usize,
    /// Bytes of foreign ones that have arrived since the last major.
    arrived: usize,
    /// While the verifier runs: an address in an island that is not held.
    pub(crate) stray: Option<usize>,
    todo: Vec<u32>,
}

impl Held {
    /// Marks an island that is held, and those that it refers to. True if it was not marked before.
    fn mark(&mut self, number: u32) -> bool {
        if !self.marked.add(number) {
            return false;
        }
        debug_assert!(self.todo.is_empty());
        self.todo.push(number);
        while let Some(n) = self.todo.pop() {
            for &older in &body(n).refs {
                if self.marked.add(older) {
                    self.todo.push(older);
                }
            }
        }
        true
    }
}

impl Heap {
    /// Holds the island of `island` and all that it refers to from now on; `arrived` hears of those that were
    /// not held before. `made`: this heap's program has just made it.
    pub fn adopt_island(&mut self, island: IslandRef, made: bool, mut arrived: impl FnMut(&IslandRef)) {
        let number = island.into_number();
        if self.islands.held.has(number) {
            self.islands.mark(number);
            return lower(number);
        }
        self.hold(number, made, &mut arrived);
        while let Some(n) = self.islands.todo.pop() {
            for &older in &body(n).refs {
                if !self.islands.held.has(older) {
                    raise(older);
                    self.hold(older, false, &mut arrived);
                }
            }
        }
        self.islands.mark(number);
    }

    /// Takes over a count.
    fn hold(&mut self, number: u32, made: bool, arrived: &mut impl FnMut(&IslandRef)) {
        let bytes = body(number).bytes;
        let i = &mut self.islands;
        i.held.add(number);
        i.list.push(HeldIsland { number, made });
        i.todo.push(number);
        i.bytes += bytes;
        if made {
            self.charge_common(bytes as isize);
        } else {
            i.arrived += bytes;
            if i.arrived > (i.bytes / 2).max(LEAST_ARRIVALS) {
                i.arrived = 0;
                self.force_major();
            }
            self.spend(bytes);
        }
        let island = IslandRef { number };
        arrived(&island);
        let _ = island.into_number();
    }

    /// Whether this heap holds the island that `at` lies in, an address in the range of islands.
    pub fn holds_island_at(&self, at: usize) -> bool {
        self.islands.held.has(memory::owner(at))
    }

    /// A counted reference to the island that `at` lies in, an address within an object that this heap's
    /// program can reach; `None` if it is in no island.
    pub fn island_at(&self, at: usize) -> Option<IslandRef> {
        if !memory::is_island(at) {
            return None;
        }
        let number = memory::owner(at);
        self.islands.held.has(number).then(|| IslandRef::to(number))
    }

    /// Counted references to all islands that this heap holds.
    pub fn islands(&self) -> Vec<IslandRef> {
        self.islands.list.iter().map(|h| IslandRef::to(h.number)).collect()
    }

    /// Bytes of the islands that this heap holds.
    pub fn island_bytes(&self) -> usize {
        self.islands.bytes
    }

    /// A major begins: no island has been met yet.
    pub(crate) fn unmark_islands(&mut self) {
        self.islands.marked.clear();
    }

    /// The marking of a major is complete: gives up the islands that were not met.
    pub(crate) fn release_unmarked_islands(&mut self) {
        let mut list = std::mem::take(&mut self.islands.list);
        let mut dead = Vec::new();
        list.retain(|h| {
            let keep = self.islands.marked.has(h.number);
            if !keep {
                dead.push((h.number, h.made));
            }
            keep
        });
        self.islands.list = list;
        self.islands.arrived = 0;
        for (number, made) in dead {
            self.islands.held.remove(number);
            let bytes = body(number).bytes;
            self.islands.bytes -= bytes;
            if made {
                self.charge_common(-(bytes as isize));
            }
            lower(number);
        }
    }

    /// Gives up all islands: nothing reads this heap's objects any more.
    pub(crate) fn release_islands(&mut self) {
        self.islands.marked.clear();
        self.release_unmarked_islands();
    }
}

impl Marker<'_> {
    /// Marks the island of the object at `at`. True if this call marked it.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark_island(&mut self, at: usize) -> bool {
        if self.cycle() == Cycle::Minor {
            return false;
        }
        let number = memory::owner(at);
        let islands = &mut self.heap.islands;
        if self.verifying {
            if !islands.held.has(number) {
                islands.stray = Some(at);
            }
            return false;
        }
        debug_assert!(islands.held.has(number), "marking {at:#x} in island {number}, which is not held");
        islands.held.has(number) && islands.mark(number)
    }

    /// As [`Marker::mark_island`], for a word in the range that may be anything.
    #[cold]
    pub(crate) fn mark_island_word(&mut self, word: usize) {
        if !self.verifying && self.heap.islands.held.has(memory::owner(word)) {
            self.mark_island(word);
        }
    }

    /// Whether the island of the object at `at` has been met in this cycle; minor collections take all for
    /// met.
    #[cold]
    pub(crate) fn is_island_marked(&self, at: usize) -> bool {
        self.cycle() == Cycle::Minor || self.heap.islands.marked.has(memory::owner(at))
    }
}

/// Whether `obj` is in an island.
#[inline(always)]
pub(crate) fn is_island_object(obj: Obj) -> bool {
    memory::is_island(obj.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, HeapOptions, IslandBuilder};

    /// Objects of one reference each; the roots are a list.
    struct Chain {
        roots: Vec<Obj>,
    }

    unsafe fn next(obj: Obj) -> *mut Option<Obj> {
        // SAFETY: objects of these tests have a word behind the header.
        unsafe { obj.as_ptr().add(1).cast() }
    }

    impl Client for Chain {
        unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
            // SAFETY: a live object of these tests.
            if let Some(child) = unsafe { *next(obj) } {
                // SAFETY: an object of the test's heap, or of an island that it holds.
                unsafe { m.mark(child) };
            }
        }
        fn roots(&mut self, m: &mut Marker<'_>, _: Cycle) {
            for &obj in &self.roots {
                // SAFETY: an object of the test's heap, or of an island that it holds.
                unsafe { m.mark(obj) };
            }
        }
        fn converge(&mut self, _: &mut Marker<'_>, _: Cycle) -> bool {
            false
        }
        fn finish(&mut self, _: &mut Marker<'_>, _: Cycle) {}
    }

    fn island(refers_to: &[&IslandRef]) -> (IslandRef, Obj) {
        let mut b = IslandBuilder::new().expect("a number");
        let obj = b.alloc(1, 16).expect("memory");
        // SAFETY: the references count.
        refers_to.iter().for_each(|r| unsafe { b.refer(r.number()) });
        (b.seal(None), Obj::new(obj).expect("an address"))
    }

    #[test]
    fn what_arrives_while_marking_keeps_what_it_refers_to() {
        let mut heap = Heap::new(HeapOptions::default());
        let (inner, inner_obj) = island(&[]);
        heap.adopt_island(inner.clone(), true, |_| ());
        let mut list = None;
        for _ in 0..200 {
            let obj = heap.alloc(1, 16);
            // SAFETY: a new object with room for a word.
            unsafe { *next(obj) = list };
            list = Some(obj);
        }
        let mut client = Chain { roots: vec![list.expect("a list"), inner_obj] };
        heap.collect_full(&mut client);
        client.roots.pop();
        heap.force_major();
        heap.step_objects(&mut client, 1);
        assert!(heap.major.active && !heap.islands.marked.has(inner.number()));
        let (outer, outer_obj) = island(&[&inner]);
        heap.adopt_island(outer, true, |_| ());
        client.roots.push(outer_obj);
        while heap.major.active {
            heap.step_objects(&mut client, 50);
        }
        assert_eq!(heap.islands().len(), 2);
        // Only the inner one is left.
        client.roots.pop();
        client.roots.push(inner_obj);
        heap.collect_full(&mut client);
        let left = heap.islands();
        assert!(left.len() == 1 && left[0].number() == inner.number());
        // Of the heap, of `left` and of the test itself.
        assert_eq!(inner.count(), 3);
        client.roots.pop();
        drop(left);
        heap.collect_full(&mut client);
        assert_eq!((heap.islands().len(), heap.external_bytes(), inner.count()), (0, 0, 1));
    }
}
