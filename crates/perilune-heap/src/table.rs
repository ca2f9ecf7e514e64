//! Which addresses are ours: the first filter for conservative words.
//!
//! A hash set of chunk numbers (address / 2 MiB) with linear probing, in front of it the range of addresses
//! ever mapped. A huge object enters every chunk number it covers, each leading to the chunk it begins in.
//! Most words on a native stack fail the range test.

use crate::layout::{CHUNK, ChunkRef, chunk_base};

/// The chunks of a heap, by address.
pub struct ChunkTable {
    lowest: usize,
    highest: usize,
    /// (chunk base, base of the chunk that the object begins in); (0, 0) is empty. The length is a power of
    /// two.
    slots: Vec<(usize, usize)>,
    used: usize,
}

impl ChunkTable {
    /// An empty table.
    pub fn new() -> ChunkTable {
        ChunkTable { lowest: usize::MAX, highest: 0, slots: Vec::new(), used: 0 }
    }

    /// What has ever been mapped lies in here.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.lowest..self.highest
    }

    fn home(&self, base: usize) -> usize {
        let hash = (base / CHUNK).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) & (self.slots.len() - 1)
    }

    /// The chunk that `word` points into.
    #[inline]
    pub fn find(&self, word: usize) -> Option<ChunkRef> {
        if word < self.lowest || word >= self.highest {
            return None;
        }
        let base = chunk_base(word);
        let mut i = self.home(base);
        loop {
            match self.slots[i] {
                // SAFETY: a chunk that was entered, and is mapped until it has been removed.
                (b, owner) if b == base => return Some(unsafe { ChunkRef::at(owner) }),
                (0, _) => return None,
                _ => i = (i + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Enters `chunk`, which covers `bytes` from its base.
    pub fn insert(&mut self, chunk: ChunkRef, bytes: usize) {
        self.lowest = self.lowest.min(chunk.base());
        self.highest = self.highest.max(chunk.base() + bytes);
        for base in (chunk.base()..chunk.base() + bytes).step_by(CHUNK) {
            if (self.used + 1) * 2 > self.slots.len() {
                let bigger = vec![(0, 0); (self.slots.len() * 2).max(16)];
                for (b, owner) in core::mem::replace(&mut self.slots, bigger) {
                    if b != 0 {
                        self.put(b, owner);
                    }
                }
            }
            self.put(base, chunk.base());
            self.used += 1;
        }
    }

    fn put(&mut self, base: usize, owner: usize) {
        let mut i = self.home(base);
        while self.slots[i].0 != 0 {
            i = (i + 1) & (self.slots.len() - 1);
        }
        self.slots[i] = (base, owner);
    }

    /// Removes `chunk`, entered with the same `bytes`.
    pub fn remove(&mut self, chunk: ChunkRef, bytes: usize) {
        let mask = self.slots.len() - 1;
        for base in (chunk.base()..chunk.base() + bytes).step_by(CHUNK) {
            let mut hole = self.home(base);
            while self.slots[hole].0 != base {
                hole = (hole + 1) & mask;
            }
            // Entries after the hole move up unless that would put them before their home.
            let mut next = hole;
            loop {
                next = (next + 1) & mask;
                let (b, _) = self.slots[next];
                if b == 0 {
                    break;
                }
                let home = self.home(b);
                if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                    self.slots[hole] = self.slots[next];
                    hole = next;
                }
            }
            self.slots[hole] = (0, 0);
            self.used -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map_under_insertion_and_removal() {
        let mut table = ChunkTable::new();
        let mut model = BTreeMap::new();
        let mut seed = 88172645463325252u64;
        for _ in 0..4000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let base = (1 + (seed % 61) as usize * 4) * CHUNK;
            let bytes = 4096 + (seed >> 32) as usize % (3 * CHUNK);
            // SAFETY: nobody looks into the chunk; addresses are all that the table knows.
            let chunk = unsafe { ChunkRef::at(base) };
            if let Some(bytes) = model.remove(&base) {
                table.remove(chunk, bytes);
            } else {
                model.insert(base, bytes);
                table.insert(chunk, bytes);
            }
            for probe in 0..260 {
                let word = probe * CHUNK + 12345;
                let want = model.range(..=word).next_back().filter(|(b, n)| chunk_base(word) < *b + **n);
                assert_eq!(table.find(word).map(|c| c.base()), want.map(|(b, _)| *b));
            }
        }
    }
}
