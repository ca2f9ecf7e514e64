//! The verifier: walks everything and checks what the collector takes for granted.
//!
//! * Objects do not overlap, end within their block or run, and bear marks only where they start.
//! * Everything a live object or root refers to is an object that is neither freed nor found dead.
//! * **Generations**: an old object refers to a newborn only if it was logged, that is, bears the current
//!   epoch.
//! * **Tri-colour**: during a major, an object that is marked and neither waits on the stack nor has been
//!   logged refers to marked objects only.
//! * Free blocks have no metadata; the idle side of the mark bitmaps is clean where it must be.
//! * The client finds no fault with an object ([`Client::fault`]).
//! * The accounts agree with the sum of all sizes as far as garbage permits.
//!
//! To learn an object's children the verifier borrows the idle mark bitmap: it wipes it, lets the client
//! trace one object, pops what was pushed and wipes those bits again; in the end the bitmap is restored.
//! Clients see [`crate::Marker::is_verifying`].

use crate::heap::Heap;
use crate::layout::*;
use crate::mark::Marker;
use crate::{Client, Cycle, Obj};
use std::collections::HashSet;

/// Objects by what the collector has noted about them.
struct Sets {
    /// Marked for the major, or sure to be.
    black: HashSet<Obj>,
    /// On a list of the major.
    waiting: HashSet<Obj>,
    logged: HashSet<Obj>,
    /// Owners of large buffers with marked cards. Which of their slots may refer to newborns is not checked.
    carded: HashSet<Obj>,
    /// Roots that change without a barrier; every collection traces them again.
    restless: HashSet<Obj>,
}

/// Which collections and ends of scopes are followed by a look at the whole heap.
pub(crate) struct Verifying {
    /// One in so many; 0: none.
    every: u32,
    /// How many have gone by since the last look.
    since: u32,
}

impl Verifying {
    pub(crate) fn new(on: bool, every: u32) -> Verifying {
        Verifying { every: if on { every.max(1) } else { 0 }, since: 0 }
    }

    /// Whether the one that has just ended is to be followed by a look.
    fn is_due(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        self.since += 1;
        if self.since < self.every {
            return false;
        }
        self.since = 0;
        true
    }
}

impl Heap {
    /// At the end of a collection or of a scope.
    ///
    /// # Panics
    /// An invariant is violated.
    pub(crate) fn verify_if_due<C: Client>(&mut self, client: &mut C) {
        if self.verifying.is_due()
            && let Err(e) = self.verify(client)
        {
            panic!("heap verifier: {e}");
        }
    }

    /// Checks every invariant. Slow; only at safepoints.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn verify<C: Client>(&mut self, client: &mut C) -> Result<(), String> {
        self.verify_blocks()?;
        let mut all = Vec::new();
        self.for_each_object(|obj| all.push(obj));
        if !self.major.active {
            let total: usize = all
                .iter()
                // SAFETY: an object of this heap.
                .map(|o| unsafe { self.size_of(*o) })
                .sum();
            let counted = self.live_bytes() - self.external_bytes();
            if total != counted {
                return Err(format!("objects take {total} bytes, the accounts say {counted}"));
            }
        }
        let regrey = self.major.regrey.clone();
        let parts = self.major.parts.iter().map(|(o, _)| o);
        let waiting: HashSet<Obj> = self.major.stack.iter().chain(parts).chain(&regrey).copied().collect();
        let logged: HashSet<Obj> = self.log.iter().copied().collect();
        let carded: HashSet<Obj> = self
            .card_log
            .iter()
            .map(|(o, ..)| o)
            .chain(self.major.ranges.iter().map(|r| &r.0))
            .copied()
            .collect();
        let next = self.side.other().offset();
        // SAFETY: objects lie in mapped chunks.
        let is_next = |obj: Obj| unsafe { get_bit(obj.as_ptr() as usize, next) };
        let black: HashSet<Obj> = match self.major.active {
            // Regreyed objects are as good as marked: they will be, whatever happens.
            true => all.iter().copied().filter(|o| is_next(*o)).chain(regrey).collect(),
            false => HashSet::new(),
        };
        self.islands.stray = None;
        let saved = self.swap_side(next, None);
        let found = self.verify_edges(
            client,
            &all,
            Sets { black, waiting, logged, carded, restless: HashSet::new() },
        );
        self.swap_side(next, Some(&saved));
        if let Some(at) = self.islands.stray {
            return Err(format!("something refers to {at:#x} in an island that is not held"));
        }
        found
    }

    fn verify_edges<C: Client>(&mut self, client: &mut C, all: &[Obj], mut sets: Sets) -> Result<(), String> {
        let (roots, restless) = self.children(client, None);
        sets.restless.extend(restless);
        let in_scope = self.scopes.depth() != 0;
        for child in roots {
            if !self.is_allocated(child) {
                return Err(format!(
                    "a root refers to no object: {}",
                    self.describe(child.as_ptr() as usize)
                ));
            }
        }
        for &obj in all {
            // SAFETY: an object of this heap.
            let (header, young) = unsafe { (*obj.as_ptr(), self.is_young(obj)) };
            let fresh = header.stamp() == self.epoch();
            let frozen = header.is_frozen();
            let stamped = !in_scope && !frozen && !client.owns_epoch(header.kind);
            if young && !fresh && stamped {
                return Err(format!("newborn {obj:?} has epoch {}, now is {}", header.epoch, self.epoch()));
            }
            if !young && stamped && fresh != sets.logged.contains(&obj) {
                return Err(format!("{obj:?} is old; its epoch and the log disagree"));
            }
            // SAFETY: as above.
            if let Some(fault) = unsafe { client.fault(obj) } {
                return Err(format!("{obj:?} (kind {}): {fault}", header.kind));
            }
            let (children, _) = self.children(client, Some(obj));
            for child in children {
                let edge = |what| format!("{obj:?} (kind {}) refers to {child:?}: {what}", header.kind);
                if !self.is_allocated(child) {
                    return Err(edge(format!("no object: {}", self.describe(child.as_ptr() as usize))));
                }
                // The epochs of scopes differ.
                if in_scope {
                    continue;
                }
                // SAFETY: just found to be an object.
                let young_child = unsafe { self.is_young(child) };
                let exempt = sets.carded.contains(&obj) || sets.restless.contains(&obj);
                if !young && !fresh && !exempt && !self.log_lost && young_child {
                    return Err(edge("an unlogged store of a newborn into an old object".into()));
                }
                let is_black = !self.major.lost
                    && !self.log_lost
                    && sets.black.contains(&obj)
                    && !sets.waiting.contains(&obj);
                if is_black && !fresh && !exempt && !sets.black.contains(&child) && !young_child {
                    return Err(edge("an unlogged store of a white object into a black one".into()));
                }
            }
        }
        Ok(())
    }

    /// What the client reports for an object, or for the roots, and which roots it wants traced again.
    fn children<C: Client>(&mut self, client: &mut C, of: Option<Obj>) -> (Vec<Obj>, Vec<Obj>) {
        let kept = core::mem::take(&mut self.major);
        let mut m = Marker::open(self, Cycle::Major);
        m.verifying = true;
        match of {
            // SAFETY: an object of this heap; at a safepoint it is initialised.
            Some(obj) => unsafe { client.trace(obj, &mut m) },
            None => client.roots(&mut m, Cycle::Major),
        }
        let mut children = core::mem::take(&mut m.stack);
        let mut rest = Vec::new();
        while let Some((obj, at)) = m.next_part() {
            // SAFETY: as above.
            unsafe { client.trace_part(obj, at, &mut m) };
            rest.append(&mut m.stack);
        }
        children.append(&mut rest);
        let again = core::mem::take(&mut m.again);
        m.close();
        self.major = kept;
        let next = self.side.other().offset();
        for child in &children {
            // SAFETY: the marker has just set this bit.
            unsafe { clear_bit(child.as_ptr() as usize, next) };
        }
        (children, again)
    }

    /// Saves and wipes the bitmap at offset `table` everywhere, or restores it.
    fn swap_side(&mut self, table: usize, saved: Option<&Vec<Vec<u64>>>) -> Vec<Vec<u64>> {
        let mut bases: Vec<usize> = self.blocks.chunks.iter().map(|c| c.base()).collect();
        let mut large: Vec<usize> = self.large.all().map(|o| chunk_base(o.as_ptr() as usize)).collect();
        large.sort();
        large.dedup();
        bases.append(&mut large);
        let mut old = Vec::new();
        for (i, base) in bases.into_iter().enumerate() {
            // SAFETY: the tables of a mapped chunk are mapped; the first words of a bitmap describe nothing.
            let words = unsafe { &mut *((base + table) as *mut [u64; CHUNK / GRANULE / 64]) };
            match saved {
                Some(s) => words.copy_from_slice(&s[i]),
                None => {
                    old.push(words.to_vec());
                    words.fill(0);
                }
            }
        }
        old
    }

    fn verify_blocks(&self) -> Result<(), String> {
        for chunk in &self.blocks.chunks {
            let head = chunk.head();
            if head.free.get() & head.unswept.get() != 0 {
                return Err(format!("chunk {:#x} has free blocks that await their sweep", chunk.base()));
            }
            for index in FIRST_BLOCK..CHUNK / BLOCK {
                self.verify_block(
                    chunk.block(index),
                    head.free.get() >> index & 1 == 1,
                    head.unswept.get() >> index & 1 == 1,
                )
                .map_err(|e| format!("block {index} of chunk {:#x}: {e}", chunk.base()))?;
            }
        }
        Ok(())
    }

    fn verify_block(&self, block: BlockRef, free: bool, unswept: bool) -> Result<(), String> {
        // SAFETY: the tables of a mapped chunk are mapped.
        let (starts, marks, next, lines) = unsafe {
            (
                &*block.words(STARTS),
                &*block.words(self.side.offset()),
                &*block.words(self.side.other().offset()),
                &*block.lines(),
            )
        };
        let any = |w: &[u64]| w.iter().any(|w| *w != 0);
        if free && (any(starts) || any(marks) || any(next) || lines.iter().any(|l| *l != 0)) {
            return Err("free, but not clean".into());
        }
        let idle_bits = lines.iter().any(|l| l & self.side.other().line_bit() != 0);
        if !unswept && !self.major.active && (any(next) || idle_bits) {
            return Err("swept, but the superseded marks are still there".into());
        }
        let mut end = 0;
        for granule in 0..BLOCK / GRANULE {
            let bit = |w: &[u64; WORDS_PER_BLOCK]| w[granule / 64] >> (granule % 64) & 1 == 1;
            if bit(marks) && !bit(starts) {
                return Err(format!("granule {granule} is marked, but nothing starts there"));
            }
            if self.major.active && bit(next) && !bit(marks) {
                return Err(format!("granule {granule} is marked for the major only"));
            }
            if !bit(starts) || (unswept && !bit(marks)) {
                continue;
            }
            if granule < end {
                return Err(format!("the object at granule {granule} overlaps its predecessor"));
            }
            // SAFETY: an object with a start bit has an intact header.
            let size = unsafe { (*obj_at(block.at() + granule * GRANULE).as_ptr()).granules as usize };
            end = granule + size;
            if size == 0 || end > BLOCK / GRANULE {
                return Err(format!("the object at granule {granule} has {size} granules"));
            }
            let covered = granule / 8 + 1..=(end - 1) / 8;
            if bit(marks) && covered.clone().any(|l| lines[l] & self.side.line_bit() == 0) {
                return Err(format!("the marked object at granule {granule} has unmarked lines"));
            }
        }
        Ok(())
    }

    /// What is at an address, in words, for messages about broken invariants.
    pub fn describe(&self, word: usize) -> String {
        let Some(chunk) = self.table.find(word) else { return format!("{word:#x} is outside the heap") };
        let head = chunk.head();
        if head.kind != ChunkKind::Small {
            return format!("{word:#x} is in chunk {:#x} of large objects", chunk.base());
        }
        let block = chunk.block((word & (CHUNK - 1)) / BLOCK);
        // SAFETY: the tables of a mapped chunk are mapped.
        let bits = [STARTS, Side(0).offset(), Side(1).offset()].map(|t| unsafe { get_bit(word, t) } as u8);
        format!(
            "{word:#x} is in block {} of chunk {:#x} (free {}, unswept {}), start {} marks {} {}, side {}",
            block.index(),
            chunk.base(),
            head.free.get() & block.bit() != 0,
            head.unswept.get() & block.bit() != 0,
            bits[0],
            bits[1],
            bits[2],
            self.side.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Verifying;

    #[test]
    fn a_look_is_due_after_so_many_collections() {
        let due = |on, every| {
            let mut verifying = Verifying::new(on, every);
            (0..7).filter(|_| verifying.is_due()).count()
        };
        assert_eq!([due(false, 1), due(true, 0), due(true, 1), due(true, 3), due(true, 8)], [0, 7, 7, 2, 0]);
    }
}
