//! The form of values on their way: 64-bit words that belong to no domain, and counts of what is shared by
//! reference.
//!
//! A *value* is a word whose lowest byte is one of [`code`], its argument above; numbers and addresses take a
//! second word, strings their bytes in words. A table, closure, long string or upvalue gets the next number
//! where it is first met and is referred to by it from then on ([`code::REF`]). Where it is first met stands
//! only what it takes to make the object; *contents* follow later, object by object in the order of their
//! numbers. So neither side needs recursion, nor a stack: the list of objects is the queue of what is still
//! to be written or filled.
//!
//! ```text
//! words:  root values, contents of the objects met so far and in them, and so on until none is left;
//!         then for each entry (a global of an environment, a field of a changed module or of a table that crosses in part): its value, contents as before
//! contents of a table:    slots of its shape; array; (key, value) pairs; metatable if it has one
//! contents of a closure:  upvalues
//! ```

use crate::cycle_collector::{Held, Holder};
use crate::shared::SharedArc;
use perilune_syntax::Proto;
use perilune_trace::event::{Bytes, Few, Stack};
use std::sync::Arc;

/// First byte of a value. The numbers up to NATIVE are those of [`crate::Tag`].
pub(super) mod code {
    /// Number or address in the next word (above `TRUE`, up to here).
    pub const NATIVE: u8 = 6;
    /// A string: length in the argument, bytes in the next words.
    pub const STRING: u8 = 8;
    /// A table met for the first time: [`super::TableHead`].
    pub const TABLE: u8 = 9;
    /// A Lua function met for the first time: number of its prototype.
    pub const CLOSURE: u8 = 10;
    /// As `STRING`, and it gets a number.
    pub const LONG_STRING: u8 = 11;
    /// An object by its number.
    pub const REF: u8 = 12;
    /// A shared object by its number.
    pub const SHARED: u8 = 13;
    /// A value in an island: its tag; its address is the next word.
    pub const ISLAND: u8 = 14;
    /// Something that the receiver finds by name, by its number.
    pub const KNOWN: u8 = 15;
    /// An upvalue met for the first time: its value follows.
    pub const UPVALUE: u8 = 16;
    /// An upvalue that holds an environment. In a root graph: number of the snapshot. In a snapshot: of the
    /// environment.
    pub const ENVIRONMENT: u8 = 17;
    /// The same in a root graph that has environments of its own: number of the environment.
    pub const OWN_ENVIRONMENT: u8 = 18;
    /// A table met for the first time whose contents, or some of them, come as entries.
    pub const PARTIAL: u8 = 19;
    /// A table or function in a picture: number of the picture; its number there in the next word.
    pub const PICTURE: u8 = 20;
    /// As `LONG_STRING`; its number in [`super::Refs::strings`] in the argument.
    pub const LARGE_STRING: u8 = 21;
}

/// What it takes to make a table, in two words.
#[derive(Clone, Copy)]
pub(super) struct TableHead {
    pub shape: u32,
    pub array: u32,
    pub nodes: u32,
    pub kind: u8,
    pub has_metatable: bool,
    pub has_holes: bool,
}

impl TableHead {
    pub fn words(self) -> [u64; 2] {
        [
            code::TABLE as u64
                | (self.kind as u64) << 8
                | (self.has_metatable as u64) << 16
                | (self.has_holes as u64) << 17
                | (self.nodes as u64) << 32,
            self.shape as u64 | (self.array as u64) << 32,
        ]
    }

    pub fn from_words(first: u64, second: u64) -> TableHead {
        TableHead {
            shape: second as u32,
            array: (second >> 32) as u32,
            nodes: (first >> 32) as u32,
            kind: (first >> 8) as u8,
            has_metatable: first >> 16 & 1 != 0,
            has_holes: first >> 17 & 1 != 0,
        }
    }
}

/// Something found again by name: a module, or what it has in a field, or in a field of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Number of the module in [`Refs::modules`].
    pub module: u32,
    pub fields: [Option<Arc<[u8]>>; 2],
}

/// A module that a graph refers to.
#[derive(Clone, Debug)]
pub(super) struct ModuleRef {
    pub name: Arc<[u8]>,
}

/// A value behind the roots.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A global of an environment.
    Global { environment: u32, name: Arc<[u8]> },
    /// A field of a module that has been written to: the receiver's gets the same value.
    Patch { module: u32, field: Arc<[u8]> },
    /// A table inside a module that has been written to: the number of its fields that differ from what they
    /// were, the pairs, whether its metatable does, and that or nil.
    Inside { module: u32, path: super::inside::Path },
    /// A field of a table that crosses in part.
    Field { object: u32, name: Arc<[u8]> },
    /// Keys and values of a table that has crossed in part, or is weak: their number, the pairs, its
    /// metatable or nil.
    Rest { object: u32 },
}

impl Entry {
    /// The number of the module that it changes.
    pub fn module(&self) -> Option<u32> {
        match self {
            Entry::Patch { module, .. } | Entry::Inside { module, .. } => Some(*module),
            _ => None,
        }
    }
}

/// A picture that a graph refers to (`cache.rs`).
pub(super) struct Sent {
    pub picture: Arc<super::cache::Picture>,
    /// What its copies come home by. Only in parcels.
    pub token: Option<Arc<super::origin::Crossing>>,
    /// Objects of the picture that the graph's own words name, some of them more than once.
    pub objects: Vec<u32>,
}

/// [`Origin::crossing`] of a picture's own members.
pub(super) const OWN: u32 = u32::MAX;

/// What an object is a copy of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub object: u32,
    /// Number of the crossing in [`Refs::crossings`]; [`OWN`]: what the picture's token says.
    pub crossing: u32,
    /// Of the original, there.
    pub index: u32,
}

/// What a graph refers to beside its words.
#[derive(Default)]
pub(super) struct Refs {
    pub protos: Vec<Arc<Proto>>,
    pub shared: Vec<SharedArc>,
    pub islands: Vec<perilune_heap::IslandRef>,
    /// Large strings, each in an island of its own, which refers to nothing.
    pub strings: Vec<super::strings::SentString>,
    pub known: Vec<Known>,
    pub modules: Vec<ModuleRef>,
    /// Some of the modules are no part of the standard library.
    pub has_own_modules: bool,
    /// What they, and others, are found by.
    pub search: Option<Arc<super::search::Search>>,
    pub snapshots: Vec<Arc<super::snapshot::Snapshot>>,
    /// Those that others lean on come first.
    pub pictures: Vec<Sent>,
    pub entries: Vec<Entry>,
    /// Number of environments of a snapshot, or of a root graph's own.
    pub environments: u32,
    /// Numbers of the objects that are frozen over there, ascending.
    pub frozen: Vec<u32>,
    /// What objects are copies of, by their numbers, ascending.
    pub origins: Vec<Origin>,
    pub crossings: Vec<Arc<super::origin::Crossing>>,
}

impl Refs {
    /// Whether there are counts of what may own counts itself.
    pub fn hold_counts(&self) -> bool {
        !self.shared.is_empty()
            || !self.islands.is_empty()
            || self.snapshots.iter().any(|s| s.holds_counts())
            || self.pictures.iter().any(|s| s.picture.holds_counts())
            || self.search.as_ref().is_some_and(|s| s.holds_counts())
    }

    fn held(&self, to: &mut Held<'_>) {
        self.shared.iter().for_each(|o| to.shared(o));
        self.islands.iter().for_each(|i| to.island(i));
        self.snapshots.iter().for_each(|s| to.counted(s));
        self.pictures.iter().for_each(|s| to.counted(&s.picture));
        self.search.iter().for_each(|s| to.counted(s));
    }

    /// Whether modules may have to be loaded.
    pub fn needs_search(&self) -> bool {
        let inside =
            |s: &Arc<super::snapshot::Snapshot>| s.graph.refs.as_ref().is_some_and(|r| r.has_own_modules);
        let shown = |s: &Sent| s.picture.graph.refs.as_ref().is_some_and(|r| r.has_own_modules);
        self.has_own_modules || self.snapshots.iter().any(inside) || self.pictures.iter().any(shown)
    }
}

impl Holder for Graph {
    fn held(&self, to: &mut Held<'_>) {
        if let Some(refs) = &self.refs {
            refs.held(to);
        }
    }
}

impl Holder for super::snapshot::Snapshot {
    fn held(&self, to: &mut Held<'_>) {
        self.graph.held(to);
    }
}

impl Holder for super::cache::Picture {
    fn held(&self, to: &mut Held<'_>) {
        self.graph.held(to);
    }
}

/// Values on their way.
#[derive(Default)]
pub(super) struct Graph {
    pub words: Vec<u64>,
    /// How many values it is.
    pub roots: u32,
    pub refs: Option<Box<Refs>>,
    /// How many objects it is.
    pub objects: u32,
    /// The call path that sent it, as events call it; 0: nobody looked.
    pub sent_at: u32,
    /// It is one function, which the sender may send once more (`again.rs`).
    pub comes_again: bool,
    charge: Charge,
}

/// What the program's account has of a graph, in bytes.
#[derive(Default)]
struct Charge(usize);

impl Drop for Charge {
    fn drop(&mut self) {
        perilune_heap::charge_messages(-(self.0 as isize));
    }
}

impl Graph {
    /// A graph, entered into the program's account.
    pub fn new(words: Vec<u64>, roots: u32, refs: Option<Box<Refs>>) -> Graph {
        let mut graph =
            Graph { words, roots, refs, objects: 0, sent_at: 0, comes_again: false, charge: Charge(0) };
        graph.charge.0 = graph.bytes();
        perilune_heap::charge_messages(graph.charge.0 as isize);
        graph
    }

    /// Whether the table of globals is among its values.
    pub fn names_globals(&self) -> bool {
        let Some(refs) = &self.refs else { return false };
        let is_globals =
            |k: &Known| k.fields == [None, None] && *refs.modules[k.module as usize].name == *b"_G";
        refs.known.iter().any(is_globals)
    }

    /// What events say of it.
    #[cold]
    pub fn told(&self) -> (Bytes, Stack, Few) {
        let bytes = self.bytes() + self.to_copy();
        (Bytes(bytes as u64), Stack(self.sent_at), Few::of(u64::from(self.objects)))
    }

    /// Bytes of large strings that whoever unpacks it next copies (`strings.rs`).
    pub fn to_copy(&self) -> usize {
        self.refs.as_ref().map_or(0, |refs| refs.strings.iter().map(|s| s.to_copy()).sum())
    }

    /// The least room that it takes to unpack it, in bytes: half of the words, whatever they are, and large
    /// strings. 0 if that is not worth looking for.
    pub fn room(&self) -> usize {
        const LARGE: usize = 8 << 10;
        let bytes = self.bytes();
        if bytes > LARGE { bytes / 2 + self.to_copy() } else { self.to_copy() }
    }

    /// Bytes that it takes, what it refers to left out.
    pub fn bytes(&self) -> usize {
        size_of::<Graph>()
            + self.words.capacity() * 8
            + if self.refs.is_some() { size_of::<Refs>() } else { 0 }
    }
}

/// Longest string that is copied each time it occurs, in bytes; a longer one gets a number.
pub(super) const SHORT_STRING: usize = 64;

/// Appends bytes, filled up to whole words with zeros.
pub(super) fn put_bytes(words: &mut Vec<u64>, bytes: &[u8]) {
    let count = bytes.len().div_ceil(8);
    words.reserve(count);
    let at = words.len();
    // SAFETY: room for `count` words has been reserved; all of them are written.
    unsafe {
        let to = words.as_mut_ptr().add(at);
        if count > 0 {
            to.add(count - 1).write(0);
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len());
        words.set_len(at + count);
    }
}

/// Reads words from left to right.
pub(super) struct Cursor<'g> {
    words: &'g [u64],
    at: usize,
}

impl<'g> Cursor<'g> {
    pub fn new(words: &'g [u64]) -> Cursor<'g> {
        Cursor { words, at: 0 }
    }

    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        let word = self.words[self.at];
        self.at += 1;
        word
    }

    #[inline]
    pub fn words(&mut self, count: usize) -> &'g [u64] {
        let words = &self.words[self.at..self.at + count];
        self.at += count;
        words
    }

    #[inline]
    pub fn bytes(&mut self, len: usize) -> &'g [u8] {
        let words = self.words(len.div_ceil(8));
        // SAFETY: that many words hold at least `len` bytes, and bytes may have any value.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) }
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.words.len()
    }
}
