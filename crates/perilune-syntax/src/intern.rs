//! The chunk's names and string literals, each distinct one once.
//!
//! An open-addressing table of ids beside the strings themselves. The hash has a random seed: a chunk comes
//! from anywhere, and names that collide must not be something one can prepare. (The standard library's keyed
//! hash takes a third of the lexer's time.)

use crate::ast::StrId;
use crate::text::Text;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// A set of byte strings, each with a small number.
pub struct Interner {
    strings: Vec<Text>,
    /// Upper half: the hash's upper half; lower half: id + 1, or the whole 0 if free. A power of two long, at
    /// most 3/4 full.
    table: Vec<u64>,
    keys: RandomState,
}

impl Interner {
    /// An empty set.
    pub fn new() -> Interner {
        Interner { strings: Vec::new(), table: vec![0; 32], keys: RandomState::default() }
    }

    /// The id of `s`, new or not.
    pub fn intern(&mut self, s: &[u8]) -> StrId {
        let hash = self.keys.hash_one(s) & !0xffff_ffff;
        let mask = self.table.len() - 1;
        let mut at = home(hash, mask);
        loop {
            let entry = self.table[at];
            if entry == 0 {
                break;
            }
            let id = entry as u32 - 1;
            if entry & !0xffff_ffff == hash && *self.strings[id as usize] == *s {
                return StrId(id);
            }
            at = (at + 1) & mask;
        }
        let id = self.strings.len() as u32;
        self.strings.push(s.into());
        self.table[at] = hash | u64::from(id + 1);
        if self.strings.len() * 4 > self.table.len() * 3 {
            self.grow();
        }
        StrId(id)
    }

    fn grow(&mut self) {
        let mut table = vec![0u64; self.table.len() * 2];
        let mask = table.len() - 1;
        for &entry in self.table.iter().filter(|&&entry| entry != 0) {
            let mut at = home(entry, mask);
            while table[at] != 0 {
                at = (at + 1) & mask;
            }
            table[at] = entry;
        }
        self.table = table;
    }

    /// The string of an id.
    pub fn get(&self, id: StrId) -> &[u8] {
        &self.strings[id.index()]
    }

    /// The strings by their ids, for somebody to borrow: to be put back before the next is interned.
    pub fn strings_mut(&mut self) -> &mut Vec<Text> {
        &mut self.strings
    }

    /// All strings, in the order of their ids.
    pub fn into_strings(self) -> Vec<Text> {
        self.strings
    }
}

/// Where the search for an entry with this hash starts.
#[inline]
fn home(hash: u64, mask: usize) -> usize {
    (hash >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_equal_ids() {
        let mut set = Interner::new();
        let ids: Vec<StrId> = (0..1000).map(|i| set.intern(format!("n{i}").as_bytes())).collect();
        for (i, &id) in ids.iter().enumerate() {
            let name = format!("n{i}");
            assert_eq!(set.intern(name.as_bytes()), id);
            assert_eq!(set.get(id), name.as_bytes());
        }
        assert_eq!(set.into_strings().len(), 1000);
    }
}
