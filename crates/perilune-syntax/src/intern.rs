//! The chunk's names and string literals, each distinct one once.
//!
//! An open-addressing table of ids beside the strings themselves. The hash has a random seed: a chunk comes
//! from anywhere, and names that collide must not be something one can prepare. (The standard library's keyed
//! hash takes a third of the lexer's time.)
//!
//! Most names are short, and looking at a string that has been met before would be a wait for memory. So each
//! has a *key* beside it: its length and its first eight bytes, which are all there is of many.

use crate::ast::StrId;
use crate::text::{Shared, Text};
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// A set of byte strings, each with a small number.
pub struct Interner {
    strings: Vec<Shared>,
    /// Of each string.
    prefixes: Vec<Prefix>,
    /// Upper half: the hash's upper half; lower half: id + 1, or the whole 0 if free. A power of two long, at
    /// most 3/4 full.
    table: Vec<u64>,
    keys: RandomState,
}

/// Places of the first table.
const FIRST: usize = 32;
/// Strings whose room is kept.
const FEW: usize = 64;

/// What most strings differ in.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Prefix {
    bytes: u64,
    length: usize,
}

/// Bytes in a [`Prefix`].
const SHORT: usize = 8;

/// The first eight bytes, zeros behind a shorter string.
#[inline]
pub fn prefix(s: &[u8]) -> u64 {
    if let Some(bytes) = s.first_chunk() {
        return u64::from_le_bytes(*bytes);
    }
    if let (Some(first), Some(last)) = (s.first_chunk(), s.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        // What both have is the same.
        return u64::from(first) | u64::from(last) << (8 * (s.len() - 4));
    }
    match *s {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, ..] => u64::from(u32::from_le_bytes([a, b, c, 0])),
    }
}

impl Default for Interner {
    fn default() -> Interner {
        Interner {
            strings: Vec::new(),
            prefixes: Vec::new(),
            table: vec![0; FIRST],
            keys: RandomState::default(),
        }
    }
}

impl Interner {
    /// The id of `s`, new or not.
    #[inline]
    pub fn intern(&mut self, s: &[u8]) -> StrId {
        self.intern_with(s, prefix(s))
    }

    /// As [`Interner::intern`], for those who have the [`prefix`].
    pub fn intern_with(&mut self, s: &[u8], bytes: u64) -> StrId {
        let prefix = Prefix { bytes, length: s.len() };
        let hash = self.hash(s, bytes);
        let mask = self.table.len() - 1;
        let mut at = home(hash, mask);
        loop {
            let entry = self.table[at];
            if entry == 0 {
                break;
            }
            let id = (entry as u32 - 1) as usize;
            if entry & !0xffff_ffff == hash
                && self.prefixes[id] == prefix
                && (s.len() <= SHORT || self.strings[id][SHORT..] == s[SHORT..])
            {
                return StrId(id as u32);
            }
            at = (at + 1) & mask;
        }
        self.add(s, prefix, hash, at)
    }

    /// The upper half of a string's hash.
    #[inline]
    fn hash(&self, s: &[u8], bytes: u64) -> u64 {
        let hash = if s.len() <= SHORT {
            self.keys.hash_one((bytes, s.len() as u64))
        } else {
            self.keys.hash_one(s)
        };
        hash & !0xffff_ffff
    }

    /// Adds what is not there, at a free place of the table.
    #[cold]
    #[inline(never)]
    fn add(&mut self, s: &[u8], prefix: Prefix, hash: u64, at: usize) -> StrId {
        let id = self.prefixes.len() as u32;
        self.strings.push(s.into());
        self.prefixes.push(prefix);
        self.table[at] = hash | u64::from(id + 1);
        if self.prefixes.len() * 4 > self.table.len() * 3 {
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

    /// Forgets all strings but the first `count`, and gives back what it took to have many.
    pub fn truncate(&mut self, count: usize) {
        self.strings.truncate(count);
        self.prefixes.truncate(count);
        if self.table.len() > FEW * 2 {
            self.strings.shrink_to(FEW);
            self.prefixes.shrink_to(FEW);
            self.table = vec![0; FIRST];
        } else {
            self.table.fill(0);
        }
        let mask = self.table.len() - 1;
        for (id, string) in self.strings.iter().enumerate() {
            let hash = self.hash(string, self.prefixes[id].bytes);
            let mut at = home(hash, mask);
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = hash | (id as u64 + 1);
        }
    }

    /// The string of an id.
    pub fn get(&self, id: StrId) -> &[u8] {
        &self.strings[id.index()]
    }

    /// The strings by their ids, for somebody to borrow: to be put back before the next is interned.
    pub fn strings_mut(&mut self) -> &mut Vec<Shared> {
        &mut self.strings
    }

    /// All strings, in the order of their ids.
    pub fn into_strings(self) -> Vec<Text> {
        self.strings.into_iter().map(Shared::into_text).collect()
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.strings.len()
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        use crate::parser::workspace::bytes;
        bytes(&self.strings) + bytes(&self.prefixes) + bytes(&self.table)
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
        let mut set = Interner::default();
        let ids: Vec<StrId> = (0..1000).map(|i| set.intern(format!("n{i}").as_bytes())).collect();
        for (i, &id) in ids.iter().enumerate() {
            let name = format!("n{i}");
            assert_eq!(set.intern(name.as_bytes()), id);
            assert_eq!(set.get(id), name.as_bytes());
        }
        assert_eq!(set.into_strings().len(), 1000);
    }

    #[test]
    fn strings_differ_by_any_byte_and_by_their_length() {
        let mut set = Interner::default();
        let mut count = 0;
        for length in 0..20 {
            let zeros = vec![0; length];
            assert_eq!(set.intern(&zeros), StrId(count), "zeros behind a string are not part of it");
            count += 1;
            for at in 0..length {
                let mut other = zeros.clone();
                other[at] = b'x';
                assert_eq!(set.intern(&other), StrId(count));
                count += 1;
            }
        }
    }

    #[test]
    fn strings_that_were_forgotten_are_new_again() {
        let mut set = Interner::default();
        for count in [3, 40, 1000, 3] {
            let name = |n: usize| format!("a rather long name {n}");
            for n in 0..count {
                assert_eq!(set.intern(name(n).as_bytes()), StrId(n as u32));
            }
            set.truncate(2);
            assert_eq!(set.len(), 2);
            for n in [1, 0, 2] {
                assert_eq!(set.intern(name(n).as_bytes()), StrId(n as u32));
            }
            set.truncate(0);
            assert!(set.heap_bytes() <= 8 << 10, "{} bytes after {count} strings", set.heap_bytes());
        }
    }

    #[test]
    fn prefixes_are_the_first_bytes() {
        let bytes = b"abcdefghij";
        for length in 0..=bytes.len() {
            let mut expected = [0; 8];
            let most = length.min(8);
            expected[..most].copy_from_slice(&bytes[..most]);
            assert_eq!(prefix(&bytes[..length]), u64::from_le_bytes(expected), "{length}");
        }
    }
}
