//! Large strings that cross.
//!
//! A string never changes, so one copy of a large one is enough for all domains that it is brought to. A
//! string cannot leave the heap that it was made in: its text lies behind its header, and the heap's books
//! (who is young, what is held, what is freed when) are kept by its pages. So the first crossing copies it
//! into an island of its own, its *twin*, in place of copying it into the words of the graph, and the domain
//! remembers the twin. Each further crossing takes a count of it: 10 MB cost what 10 bytes do.
//!
//! # Who copies
//! The first to unpack a *fresh* twin copies it into its own heap, and does not hold the island. Most large
//! strings cross once (blocks of a file, answers); what is held of islands goes with major collections only,
//! while a string of the heap's own goes with the next minor one. Whoever comes after that holds the twin:
//! other domains that the same parcel is unpacked in, and all that it is sent to again. What belongs to a
//! picture or a snapshot, or to a loop's functions, is never fresh: many are to have it.
//!
//! # How long a twin stays
//! In the sender: until the string is dead, or until a collection finds that nobody else has a count of it.
//! One that has been sent again stays for [`PATIENCE`] collections more. In a receiver, a twin that has
//! arrived is a root for as many; without that, each task that brings it would need a major collection to
//! lose it. When memory is short, neither keeps any ([`Strings::let_go`]).
//!
//! Making an island costs more than copying into words does, by its hash and its pages. A sender whose twins
//! have been for nothing, [`TRIES`] in a row, copies large strings into words the first time, and makes a
//! twin when one comes again; then it makes them at once again.
//!
//! What the program's account has of a twin is an island's pages; the heap of nobody is charged for it, as
//! for messages. It outlives the domain that it was made in.
//!
//! # Rejected
//! - *Sharing from the first crossing*: a consumer of large messages had a major collection for every 8 MB of
//!   them, whatever it held.
//! - *Sharing from the second*: it would cost a second copy.
//! - *Large strings that are made in islands to begin with*: garbage of one's own would wait for major
//!   collections.
//! - *Text apart from the header*, counted: each look at a byte, in the library, in machine code and by C
//!   modules, would go through a pointer.

use super::graph::code;
use super::pack::{Packer, push};
use super::refusal::Role;
use crate::Vm;
use crate::value::{Tag, Value};
use perilune_heap::{IslandRef, Obj};
use std::sync::atomic::{AtomicBool, Ordering};

/// Shorter strings are copied each time, in bytes: islands take whole pages.
pub(super) const LARGE_STRING: usize = 64 << 10;
/// How many twins a domain remembers.
const MOST: usize = 32;
/// So many twins in a row that were not sent again, and the next string gets none at once.
const TRIES: u32 = 4;
/// So many collections what has been sent again, or has arrived, is kept.
const PATIENCE: u8 = 2;

/// A string of this domain that has crossed.
struct Twin {
    /// Its address.
    original: u64,
    /// `None`: it has been copied into words.
    island: Option<(Value, IslandRef)>,
    /// The crossing that came first; see [`Strings::begin`].
    first: u64,
    /// It has been sent since.
    again: bool,
    /// Collections since it was sent.
    idle: u8,
    /// The original may be younger than the last collection.
    is_young: bool,
}

/// A twin that has come here.
struct Arrived {
    copy: Value,
    bytes: usize,
    /// Collections since a parcel has brought it.
    idle: u8,
}

/// What a domain knows of large strings.
#[derive(Default)]
pub(super) struct Strings {
    twins: Vec<Twin>,
    arrived: Vec<Arrived>,
    /// Twins that were for nothing since one was not.
    wasted: u32,
    /// Crossings so far: packing that begins once more belongs to the same.
    crossings: u64,
    /// How many twins have been made, and how many crossings have taken one that was there.
    pub counts: [u64; 2],
}

/// A large string that a graph refers to.
pub(super) struct SentString {
    /// Holds the copy.
    island: IslandRef,
    /// Its address.
    at: u64,
    /// It is copied out of the island by whoever unpacks it first, who clears this.
    fresh: AtomicBool,
}

impl SentString {
    fn new(copy: Value, island: IslandRef, fresh: bool) -> SentString {
        SentString { island, at: copy.payload(), fresh: AtomicBool::new(fresh) }
    }

    /// The copy, for whoever has this, or holds the island by himself.
    fn copy(&self) -> Value {
        Value::raw(Tag::STRING, self.at)
    }

    /// Bytes that whoever unpacks it next copies.
    pub fn to_copy(&self) -> usize {
        if self.fresh.load(Ordering::Relaxed) { self.copy().as_string().map_or(0, |s| s.len()) } else { 0 }
    }
}

impl Strings {
    /// A crossing begins.
    pub fn begin(&mut self) {
        self.crossings += 1;
    }

    /// Bytes of the strings that have arrived and are kept.
    pub fn bytes(&self) -> usize {
        self.arrived.iter().map(|a| a.bytes).sum()
    }

    /// Memory is short, or no parcel is expected: nothing is kept here.
    pub fn let_go(&mut self) {
        (self.twins, self.arrived) = (Vec::new(), Vec::new());
    }

    /// No parcel is expected.
    pub fn rest(&mut self) {
        self.arrived.clear();
    }

    /// Reports the roots of a major collection; a minor one frees no islands.
    pub fn trace(&self, mark: &mut impl FnMut(Obj)) {
        self.arrived.iter().filter_map(|a| a.copy.obj()).for_each(mark);
    }

    /// At the end of a collection.
    pub fn collected(&mut self, major: bool, ageing: bool, is_marked: &impl Fn(Obj) -> bool) {
        let mut wasted = 0;
        self.twins.retain_mut(|t| {
            let is_alive = || Value::raw(Tag::STRING, t.original).obj().is_some_and(is_marked);
            let mut stays = !(major || t.is_young) || is_alive();
            if stays && ageing {
                t.is_young = false;
                t.idle = t.idle.saturating_add(1);
                stays = match &t.island {
                    // What others have is not freed by letting go of it.
                    Some((_, island)) => (t.again && t.idle <= PATIENCE) || island.count() > 1,
                    None => t.idle <= PATIENCE,
                };
            }
            wasted += u32::from(!stays && t.is_wasted());
            stays
        });
        self.wasted = self.wasted.saturating_add(wasted);
        if ageing {
            self.arrived.retain_mut(|a| {
                a.idle += 1;
                a.idle <= PATIENCE
            });
        }
    }

    fn remember(&mut self, twin: Twin) {
        if self.twins.len() >= MOST {
            let at = self.twins.iter().position(|t| !t.again).unwrap_or(0);
            let gone = self.twins.remove(at);
            self.wasted = self.wasted.saturating_add(gone.is_wasted().into());
        }
        self.twins.push(twin);
    }
}

impl Twin {
    /// Nobody has had any use of the island.
    fn is_wasted(&self) -> bool {
        self.island.is_some() && !self.again
    }
}

impl Packer<'_> {
    /// Writes a large string that the packer has not met, and that has a number now. False: there is no
    /// memory for a twin.
    pub(super) fn large_string(&mut self, v: Value) -> bool {
        let is_for_many = self.is_snapshot || self.makes_picture() || self.role == Role::Loop;
        let Some(sent) = self.vm.sent_string(v, is_for_many) else { return false };
        let n = push(&mut self.refs().strings, sent);
        self.words.push(code::LARGE_STRING as u64 | n << 8);
        true
    }
}

impl Vm {
    /// How many large strings have been copied here to be sent, and how many have been sent without that.
    pub fn sent_string_counts(&self) -> [u64; 2] {
        self.lua.crossing.parcel.strings.counts
    }

    /// `None`: it is to be copied into words.
    fn sent_string(&mut self, v: Value, is_for_many: bool) -> Option<SentString> {
        let strings = &mut self.lua.crossing.parcel.strings;
        let crossing = strings.crossings;
        let at = strings.twins.iter().position(|t| t.original == v.payload()).unwrap_or_else(|| {
            let original = v.payload();
            let (again, idle, is_young) = (false, 0, true);
            strings.remember(Twin { original, island: None, first: crossing, again, idle, is_young });
            strings.twins.len() - 1
        });
        let twin = &mut strings.twins[at];
        let is_again = twin.first != crossing;
        twin.idle = 0;
        twin.again |= is_again;
        if is_again {
            strings.wasted = 0;
        }
        let (copy, island) = match twin.island.clone() {
            Some(known) => {
                strings.counts[1] += u64::from(is_again);
                known
            }
            None if !is_again && !is_for_many && strings.wasted >= TRIES => return None,
            None => {
                let made = self.share_string(v)?;
                self.heap.note_given(made.1.bytes());
                let strings = &mut self.lua.crossing.parcel.strings;
                strings.counts[0] += 1;
                strings.twins[at].island = Some(made.clone());
                made
            }
        };
        Some(SentString::new(copy, island, !is_again && !is_for_many))
    }

    /// The string of a graph as one of this domain's. No safepoint.
    pub(super) fn arrived_string(&mut self, sent: &SentString) -> Value {
        self.adopt(sent.island.clone());
        let strings = &mut self.lua.crossing.parcel.strings;
        match strings.arrived.iter_mut().find(|a| a.copy.payload() == sent.at) {
            Some(arrived) => arrived.idle = 0,
            None => {
                if strings.arrived.len() >= MOST {
                    strings.arrived.remove(0);
                }
                let bytes = sent.island.bytes();
                strings.arrived.push(Arrived { copy: sent.copy(), bytes, idle: 0 });
            }
        }
        sent.copy()
    }
}

impl super::unpack::Reader<'_, '_> {
    /// Makes a large string, or takes what there is, and gives it a number.
    pub(super) fn large_string(&mut self, n: usize) -> crate::native::LuaResult<Value> {
        let sent = &self.refs().strings[n];
        let v = match sent.fresh.swap(false, Ordering::Relaxed) {
            // The graph holds the island meanwhile.
            true => self.vm.new_str(sent.copy().as_string().map_or(&[][..], |s| s.bytes()))?.into(),
            false => self.vm.arrived_string(sent),
        };
        match v.obj() {
            Some(obj) => Ok(self.made(obj, Tag::STRING)),
            None => Ok(v),
        }
    }
}
