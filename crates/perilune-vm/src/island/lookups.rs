//! What a domain remembers of look-ups by computed names in dictionaries of islands.
//!
//! The keys of such a dictionary are strings of the island, and what the program has in hand is mostly a
//! string of its own, so a look-up compares their texts. For that it has to touch the island's string, which
//! in a large dictionary is a cache miss that a private look-up does not have, and which cannot begin before
//! the node is there. But nothing in an island ever changes: for a table at one address and a key at one
//! address the answer is always the same. So answers are kept, and a look-up whose answer is known touches
//! the key's header and the answer, where a private one touches the header and the node.
//!
//! # Where an answer is found
//! A string carries the number of its answer in place of its epoch, which nobody else looks at: strings refer
//! to nothing, so they are never logged. The answer proves that it is right by pointing back at the key, so
//! any other epoch does no harm. A key that has been looked up in several tables has a chain of answers, the
//! latest first. If they are more than [`LONGEST_CHAIN`], the key is the name of a field rather than of a
//! thing: a mark takes their place, and its text is compared. So are keys that are strings of islands
//! themselves, which cannot carry a number. They are mostly of the same island as the table, where equal
//! texts have equal addresses.
//!
//! # How long an answer holds
//! As long as both addresses mean what they meant.
//! * *Young* keys may die in any collection: their answers are listed and crossed out by the next one.
//! * Old keys and islands go only in majors. Each of these forgets everything.
//!
//! # What is worth remembering
//! A string that is looked up once and dropped is not. For interned strings the first answer is kept, for
//! others the second; a flag of the string remembers the first. That a table lacks a name is an answer, too,
//! unless there is a metatable to be asked. When there are [`MOST`], no more are taken for a while: to
//! displace old ones would be of no use to a loop over more keys than that. After several times as many
//! look-ups that might have been remembered, all are forgotten, as they may be about tables that nobody reads
//! any more.
//!
//! # Rejected
//! A cache with sets by hash: keys that lie at equal distances, as names made in a loop do, displace each
//! other, and it takes several times the memory to have few enough conflicts. To keep the island's twin of a
//! key in the key: it has twins in many islands.

use crate::Vm;
use crate::object::{LuaString, STRING_INTERNED, STRING_MET, Table};
use crate::value::{Gc, Tag, Value};
use perilune_heap::FROZEN;
use std::ptr::null_mut;

/// What a table has under a key.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Lookup {
    /// Null: none, the place is free.
    key: *mut LuaString,
    /// Null: the key has been looked up in too many.
    table: *mut Table,
    pub payload: u64,
    /// Nil: the table has neither the key nor a metatable.
    pub tag: Tag,
    /// The answer for the same key in another table, if there is one at this number.
    next: u32,
}

/// Most answers: 4 MiB.
const MOST: usize = 1 << 17;
/// Most answers for one key.
const LONGEST_CHAIN: usize = 4;
/// Answers refused before all are forgotten.
const PATIENCE: usize = 4 * MOST;
/// No number.
const NO: u32 = u32::MAX;

/// What to do when the latest answer for a key is not about the table in question.
pub(crate) enum Otherwise {
    /// This is the one.
    Answer(*const Lookup),
    /// Texts have to be compared.
    Compare,
    /// [`Vm::look_up_frozen`] is to be asked.
    Ask,
}

/// The answers that a domain remembers.
#[derive(Default)]
pub(crate) struct Lookups {
    answers: Vec<Lookup>,
    /// Numbers of answers with young keys.
    young: Vec<u32>,
    /// Numbers of places that are free.
    free: Vec<u32>,
    /// How many were refused for want of room.
    refused: usize,
}

impl Lookups {
    /// The latest answer for `key` if it is about table `t`, or null.
    ///
    /// # Safety
    /// `key` is a live string.
    #[inline(always)]
    pub(crate) unsafe fn find(&self, t: *mut Table, key: *mut LuaString) -> *const Lookup {
        // SAFETY: the caller's promise. Numbers of islands' strings are larger than any of an answer.
        match self.answers.get(unsafe { (*key).header.epoch } as usize) {
            Some(e) if e.key == key && e.table == t => e,
            _ => std::ptr::null(),
        }
    }

    /// What to do when [`Lookups::find`] does not find the answer.
    ///
    /// # Safety
    /// `key` is a live string.
    #[inline(always)]
    pub(crate) unsafe fn otherwise(&mut self, t: *mut Table, key: *mut LuaString) -> Otherwise {
        // SAFETY: the caller's promise.
        let mut at = unsafe { (*key).header.epoch };
        let is_known = match self.answers.get(at as usize) {
            Some(e) if e.key == key && e.table.is_null() => return Otherwise::Compare,
            Some(e) => e.key == key,
            None => false,
        };
        if !is_known {
            let compare = at & FROZEN != 0 || self.refuses();
            return if compare { Otherwise::Compare } else { Otherwise::Ask };
        }
        while let Some(e) = self.answers.get(at as usize) {
            if e.table == t {
                return Otherwise::Answer(e);
            }
            at = e.next;
        }
        Otherwise::Ask
    }

    /// Whether there is no room for an answer.
    #[inline(always)]
    fn refuses(&mut self) -> bool {
        if self.answers.len() < MOST || !self.free.is_empty() {
            return false;
        }
        self.refused += 1;
        self.refused < PATIENCE
    }

    /// The number of the latest answer for `key`, or [`NO`].
    fn first(&self, key: Gc<LuaString>) -> u32 {
        let at = key.header.epoch;
        if self.answers.get(at as usize).is_some_and(|e| e.key == key.ptr()) { at } else { NO }
    }

    /// Remembers that `t` has `v` under `key`, of which nothing is known yet. `key` is no string of an
    /// island.
    fn enter(&mut self, t: Gc<Table>, key: Gc<LuaString>, is_young: bool, v: Value) {
        let mut first = self.first(key);
        let (mut at, mut length) = (first, 0);
        while let Some(e) = self.answers.get(at as usize) {
            length += 1;
            at = e.next;
        }
        if length == LONGEST_CHAIN {
            self.answers[first as usize].table = null_mut();
            return;
        }
        let full = self.answers.len() == MOST && self.free.is_empty();
        if full && first != NO {
            let e = &mut self.answers[first as usize];
            (e.table, e.payload, e.tag) = (t.ptr(), v.payload(), v.tag());
            return;
        }
        if full {
            if self.refused < PATIENCE {
                return;
            }
            self.forget();
            first = NO;
        }
        let e = Lookup { key: key.ptr(), table: t.ptr(), payload: v.payload(), tag: v.tag(), next: first };
        let at = match self.free.pop() {
            Some(at) => {
                self.answers[at as usize] = e;
                at
            }
            None => {
                self.answers.push(e);
                self.answers.len() as u32 - 1
            }
        };
        // SAFETY: the string is alive, and its epoch is ours (`LuaClient::owns_epoch`).
        unsafe { (*key.ptr()).header.epoch = at };
        if is_young {
            self.young.push(at);
        }
    }

    fn forget(&mut self) {
        self.answers.clear();
        self.young.clear();
        self.free.clear();
        self.refused = 0;
    }

    /// A collection has decided what is dead: a major, or one that only young objects die in.
    pub(crate) fn collected(&mut self, major: bool) {
        if major {
            if self.answers.len() < self.answers.capacity() / 4 {
                self.answers = Vec::with_capacity(self.answers.len());
            }
            self.forget();
        }
        for &at in &self.young {
            self.answers[at as usize].key = null_mut();
        }
        self.free.append(&mut self.young);
    }
}

impl Vm {
    /// The value of a string key, interned or not, in a dictionary of an island; nil if it has none. To be
    /// asked when [`Lookups::otherwise`] says so.
    #[inline(never)]
    pub(crate) fn look_up_frozen(&mut self, t: Gc<Table>, key: Gc<LuaString>) -> Value {
        debug_assert!(t.is_frozen() && !key.is_frozen());
        let v = t.node_value(t.find_frozen_str(key));
        if v.is_nil() && !t.metatable.is_null() {
            return v;
        }
        if key.header.flags & (STRING_INTERNED | STRING_MET) != 0 {
            // SAFETY: not a frozen string, hence one of this heap.
            let is_young = unsafe { self.heap.is_young(key.obj()) };
            self.lua.islands.lookups.enter(t, key, is_young, v);
        } else {
            // SAFETY: a live string of this domain, whose flags only its thread touches.
            unsafe { (*key.ptr()).header.flags |= STRING_MET };
        }
        v
    }
}
