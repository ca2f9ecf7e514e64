//! Pictures: copies of captured tables that are kept until one of them is written to.
//!
//! What crosses frozen would be copied at each crossing that takes it, and again in each domain that receives
//! it. Mostly it is the same as last time: classes, module tables, configurations, large data that many tasks
//! read. So a captured table, all that it reaches included, is packed once into a *picture*: a graph of its
//! own, which belongs to no domain and which parcels refer to. A domain that receives one unpacks it once
//! (`received.rs`), so it has one frozen copy of each table in it, whichever parcel brings it:
//! `getmetatable(o) == P` holds for an object that came in a message and a class that came as a capture.
//!
//! # Terms
//! - The *members* of a picture are the tables and functions that it shows. Each is a member of one valid
//!   picture at most: what reaches a member of an older picture refers to that one, which the new one then
//!   *leans on*.
//! - A picture is *stale* from when something has changed that it shows. It is never used again, nor is one
//!   that leans on it; the copies that it has led to stay what they are.
//! - The *root* of a picture is what it was made for: the value of a captured variable or named global, a
//!   function found in one, or a metatable. Classes are pictures of their own, also where a list of instances
//!   leads to them, so that a store into the list makes no other class of them.
//!
//! # When a picture holds
//! Three kinds of changes end it.
//! - *Stores into tables.* All its tables are watched: a bit of the epoch word ([`perilune_heap::WATCHED`])
//!   makes every way to store take the slow way ([`Vm::check_writable`]), which takes the bit away, marks the
//!   picture stale, and goes on. So it costs the first store into each table a look-up, and no other store
//!   anything.
//! - *Variables and globals* have no such bit: assigning a local is a move between registers. What can change
//!   is listed, with its value, and compared at each use: captured variables that may still be assigned,
//!   globals that functions name, fields of tables that cross in part, fingerprints of modules. Values that a
//!   collection frees cannot be there any more, so the picture is stale.
//! - *Functions of `debug`* that change variables behind the program's back are counted; so are newly known
//!   modules. After either no picture holds.
//!
//! # One copy in a crossing
//! A table has one copy in a crossing, so a parcel must not have a picture and a copy of one of its members
//! beside it. What is sent to be written to is looked up when it is met, too, if it is watched. If its
//! picture comes later, or a picture that is being made would show what the parcel has already, the packer
//! begins once more with that picture in use from the start; then what is met refers to it. Where even that
//! does not help, tables are copied as if there were no pictures.
//!
//! A list whose elements have crossed one by one would lean on as many pictures as it has elements. Beyond a
//! few, those that are no classes are taken into the new picture, and are stale themselves.
//!
//! # What decides nothing
//! No collector and no schedule decides what a copy is. A picture is kept as long as one member of it is
//! alive (or one that leans on it), not as long as it is used, so a class is the same class over there until
//! it is written to or cannot be sent any more. In a receiver, a copy is the same as long as it is alive;
//! what has been freed there is made again beside what has not. Originals that copies may come home as are
//! kept as those of other crossings are (`origin.rs`): by tokens, which are not part of the picture, or the
//! cache would keep them for ever.
//!
//! # Rejected
//! - *Islands* for what is large: what is in one belongs to no domain, but captured tables lead to modules,
//!   files, functions with globals; then each of these needs a second mechanism inside the first. The price
//!   is one copy in each domain instead of one for all; a program that minds calls `pl.share`.
//! - *A limit of size*, below which tables are copied afresh: whether two crossings bring the same table
//!   would depend on its size.
//! - *An epoch that says "watched"* in place of a bit: the barrier and the ends of scopes write epochs.
//! - *Comparing contents* (a hash of all that is reached): costs what packing costs.
//! - *Watching variables*: each assignment of a captured local would pay for it.
//! - *Dropping pictures that were not used lately*: which class a task has would depend on the collector.

use super::graph::{Graph, Sent};
use super::origin::{Crossing, Held};
use super::pack::Taken;
use crate::Vm;
use crate::object::{LuaString, Table, Upval};
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_trace::event::PictureMade;
use perilune_trace::{Category, emit, on};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

/// A graph of frozen tables that parcels refer to. Its first object is what it was made for.
pub(super) struct Picture {
    pub graph: Graph,
    /// No other picture or crossing of the process has it.
    pub number: u64,
    /// Older ones of what it was made for: nothing sends them again.
    pub replaces: Box<[u64]>,
    home: u64,
    held: Arc<[Held]>,
    by: Arc<[u32]>,
}

impl Picture {
    fn token(&self) -> Arc<Crossing> {
        Crossing::of_picture(self.home, self.number, self.held.clone(), self.by.clone())
    }

    /// Whether it owns counts of what may own counts itself.
    pub fn holds_counts(&self) -> bool {
        self.graph.refs.as_ref().is_some_and(|refs| refs.hold_counts())
    }

    /// The pictures that it leans on, those first that others lean on.
    pub fn leans_on(&self) -> &[Sent] {
        self.graph.refs.as_ref().map_or(&[], |refs| &refs.pictures)
    }
}

/// Something that a picture shows and that changes without a store into a table of it.
#[derive(Clone, Copy)]
pub(super) enum Listed {
    Variable(*mut Upval, Value),
    Global(Taken),
    Field(Gc<Table>, Gc<LuaString>, Value),
    Metatable(Gc<Table>, *mut Table),
}

/// What making a picture gives.
pub(super) struct Shown {
    pub graph: Graph,
    pub held: Vec<Held>,
    pub by: Vec<u32>,
    /// Address, tag and number in the graph of each member.
    pub members: Vec<(u64, u8, u32)>,
    /// Those that come home, by their index: positions in `members`.
    pub originals: Vec<u32>,
    pub listed: Vec<Listed>,
    /// Modules with their fingerprints.
    pub modules: Vec<(u32, u64)>,
    /// The pictures that it leans on, those first that others lean on.
    pub leans_on: Vec<u64>,
    /// It was made for a metatable.
    pub is_class: bool,
}

/// A picture of this domain's tables.
struct Entry {
    /// `None`: it is stale. Then nothing matters but what copies come home as.
    picture: Option<Arc<Picture>>,
    /// Alive as long as a parcel or a domain has a copy that may come home.
    token: Weak<Crossing>,
    /// The strands that have sent it.
    strands: Vec<u64>,
    /// As [`Shown::members`]; those that are dead have no address.
    members: Vec<(u64, u8, u32)>,
    originals: Vec<u32>,
    listed: Vec<Listed>,
    modules: Vec<(u32, u64)>,
    leans_on: Vec<u64>,
    is_class: bool,
    /// Entries that lean on this one.
    leaning: Vec<u64>,
    /// What [`Cache::unseen`] was.
    unseen: u64,
}

/// A domain's pictures, by their numbers.
#[derive(Default)]
pub(super) struct Cache {
    /// Members by address: the picture, the number in its graph. Other addresses that have been in the list
    /// may lead to pictures that are stale or gone.
    at: HashMap<u64, (u64, u32), foldhash::fast::FixedState>,
    entries: HashMap<u64, Entry, foldhash::fast::FixedState>,
    /// Members of pictures that are not stale.
    shown: usize,
    /// Entries with members that no collection has made old.
    young: Vec<u64>,
    /// Stale entries whose copies may come home, the oldest first.
    stale: VecDeque<u64>,
    /// Changes that nothing else tells.
    unseen: u64,
    /// How many pictures have been made, used again, and become stale.
    pub counts: [u64; 3],
}

/// So many addresses that lead nowhere are no reason to look for them.
const FEW: usize = 4096;
/// How many of a picture's strands are kept before those that have ended are looked for.
const MANY_STRANDS: usize = 64;

impl Cache {
    fn entry(&self, number: u64) -> &Entry {
        self.entries.get(&number).expect("an entry is there as long as something names it")
    }

    /// The picture and number of a member. Whether the picture holds is another question.
    #[inline]
    pub fn find(&self, v: Value) -> Option<(u64, u32)> {
        // Most tables are no members, and a table that is has the bit, or is frozen.
        if v.tag() == Tag::TABLE && !v.gc::<Table>().minds_stores() {
            return None;
        }
        let &(number, object) = self.at.get(&v.payload())?;
        self.entries.get(&number)?.picture.is_some().then_some((number, object))
    }

    /// The picture shows what is no more, and so do those that lean on it.
    pub fn spoil(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number).filter(|e| e.picture.is_some()) else { return };
        entry.picture = None;
        (entry.listed, entry.modules) = (Vec::new(), Vec::new());
        self.shown -= entry.members.len();
        let (leaning, leans_on) = (std::mem::take(&mut entry.leaning), std::mem::take(&mut entry.leans_on));
        for other in leans_on {
            if let Some(other) = self.entries.get_mut(&other) {
                other.leaning.retain(|&l| l != number);
            }
        }
        self.counts[2] += 1;
        self.stale.push_back(number);
        for other in leaning {
            self.spoil(other);
        }
    }

    /// Stale entries that nothing comes home to go: with each picture that is made a few are looked at, so
    /// there are never many more than copies under way.
    fn forget_stale(&mut self, most: usize) {
        for _ in 0..most.min(self.stale.len()) {
            let Some(number) = self.stale.pop_front() else { break };
            match self.entries.get(&number) {
                Some(entry) if entry.token.strong_count() > 0 => self.stale.push_back(number),
                _ => _ = self.entries.remove(&number),
            }
        }
        if self.at.len() > 2 * self.shown + FEW {
            let entries = &self.entries;
            self.at.retain(|_, at| entries.get(&at.0).is_some_and(|e| e.picture.is_some()));
        }
    }

    /// Stale pictures of what has this address, or had it, as far as copies of them may be alive: the newest
    /// of a few.
    fn stale_of(&self, root: u64) -> Box<[u64]> {
        const FEW: usize = 16;
        let newest = self.stale.iter().rev().take(FEW);
        let is_of_it = |number: &&u64| {
            self.entries
                .get(number)
                .is_some_and(|e| e.members.first().is_some_and(|m| m.0 == root && m.0 != 0))
        };
        newest.filter(is_of_it).copied().collect()
    }

    /// Makes room for a picture that would lean on too many others: those of them that are no classes, and
    /// that `keeps` has nothing against, become stale, so that it shows their members itself. False: there
    /// are none.
    pub fn absorb(&mut self, leans_on: &[u64], keeps: impl Fn(u64) -> bool) -> bool {
        let mut any = false;
        for &number in leans_on {
            let is_class = self.entries.get(&number).is_none_or(|e| e.is_class || e.picture.is_none());
            if !is_class && !keeps(number) {
                self.spoil(number);
                any = true;
            }
        }
        any
    }

    /// Something has changed that no picture would notice.
    pub fn unseen_change(&mut self) {
        self.unseen += 1;
    }

    /// How many of these there have been.
    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    pub fn trace(&self, all: bool, mark: &mut impl FnMut(Obj)) {
        let mut entry = |entry: &Entry| {
            for l in &entry.listed {
                match l {
                    Listed::Global(taken) => mark(taken.name.obj()),
                    Listed::Field(_, name, _) => mark(name.obj()),
                    Listed::Variable(..) | Listed::Metatable(..) => {}
                }
            }
            if entry.token.strong_count() > 0 {
                for &at in &entry.originals {
                    match entry.members.get(at as usize) {
                        Some(&(address, tag, _)) if address != 0 => {
                            Value::raw(Tag(tag), address).obj().map(&mut *mark);
                        }
                        _ => {}
                    }
                }
            }
        };
        match all {
            true => self.entries.values().for_each(&mut entry),
            false => self.young.iter().filter_map(|number| self.entries.get(number)).for_each(&mut entry),
        }
    }

    /// At the end of a collection: what is dead is forgotten.
    pub fn collected(&mut self, major: bool, ageing: bool, is_marked: &impl Fn(Obj) -> bool) {
        let mut numbers: Vec<u64> = match major {
            true => self.entries.keys().copied().collect(),
            false => std::mem::take(&mut self.young),
        };
        for &number in &numbers {
            self.look_for_dead(number, is_marked);
        }
        // What others lean on goes after them.
        numbers.sort_unstable();
        for &number in numbers.iter().rev() {
            if self.entries.get(&number).is_some_and(Entry::is_useless) {
                self.spoil(number);
                self.counts[2] -= 1;
            }
        }
        self.forget_stale(usize::MAX);
        self.young.clear();
        if !ageing {
            self.young.append(&mut numbers);
        }
    }

    fn look_for_dead(&mut self, number: u64, is_marked: &impl Fn(Obj) -> bool) {
        let is_dead = |v: Value| v.obj().is_some_and(|o| !v.is_in_island() && !is_marked(o));
        // Of a stale one only what may come home counts, and that is alive as long as it may.
        let Some(entry) = self.entries.get_mut(&number).filter(|e| e.picture.is_some()) else { return };
        for member in &mut entry.members {
            let (address, tag, _) = *member;
            if address == 0 || !is_dead(Value::raw(Tag(tag), address)) {
                continue;
            }
            member.0 = 0;
            if self.at.get(&address).is_some_and(|at| at.0 == number) {
                self.at.remove(&address);
            }
        }
        let mut is_stale = false;
        entry.listed.retain(|l| {
            let (holder, value) = match *l {
                // SAFETY: an upvalue that was alive when this was last looked at; only its address is used.
                Listed::Variable(uv, v) => (unsafe { Gc::from_ptr(uv) }.obj(), v),
                Listed::Global(taken) => (taken.environment.obj(), taken.value),
                Listed::Field(t, _, v) => (t.obj(), v),
                Listed::Metatable(t, mt) => {
                    // SAFETY: as above.
                    let mt = if mt.is_null() { Value::NIL } else { unsafe { Gc::from_ptr(mt) }.into() };
                    (t.obj(), mt)
                }
            };
            let is_there = is_marked(holder);
            is_stale |= is_there && is_dead(value);
            is_there
        });
        if is_stale {
            self.spoil(number);
        }
    }

    /// The member that a copy comes home as in `strand`.
    pub fn original(&self, number: u64, strand: u64, index: u32) -> Option<Value> {
        let entry = self.entries.get(&number)?;
        if !entry.strands.contains(&strand) {
            return None;
        }
        let &(address, tag, _) = entry.members.get(*entry.originals.get(index as usize)? as usize)?;
        (address != 0).then(|| Value::raw(Tag(tag), address))
    }

    /// The pictures that come along with this one, itself last.
    pub fn with_all(&self, number: u64) -> impl Iterator<Item = u64> {
        self.entry(number).leans_on.iter().copied().chain([number])
    }

    pub fn count(&self) -> usize {
        self.entries.len() - self.stale.len()
    }
}

impl Entry {
    /// Nothing can lead to it any more.
    fn is_useless(&self) -> bool {
        self.leaning.is_empty() && self.members.iter().all(|m| m.0 == 0)
    }
}

impl Vm {
    /// A store comes to a watched table.
    #[cold]
    pub(crate) fn watched_store(&mut self, t: Gc<Table>) {
        // SAFETY: a live table of this heap, which is not frozen.
        unsafe { self.heap.unwatch(t.obj()) };
        self.search_may_change();
        self.inside_store(t);
        let cache = &mut self.lua.crossing.parcel.cache;
        if let Some((number, _)) = cache.at.remove(&(t.address() as u64)) {
            cache.spoil(number);
        }
    }

    /// Something has been done to variables or functions that no picture of them would notice.
    pub(crate) fn changed_unseen(&mut self) {
        self.lua.crossing.parcel.cache.unseen_change();
    }

    /// Pictures of captured tables that are kept here; how many have been made, used once more, and become
    /// stale.
    pub fn picture_counts(&self) -> (usize, [u64; 3]) {
        let cache = &self.lua.crossing.parcel.cache;
        (cache.count(), cache.counts)
    }

    /// Whether making a picture again would give the same. If not, it is stale from now on.
    pub(super) fn picture_holds(&mut self, number: u64) -> bool {
        let mut at = 0;
        loop {
            let part = self.lua.crossing.parcel.cache.with_all(number).nth(at);
            let Some(part) = part else { return true };
            if !self.shows_what_is(part) {
                self.lua.crossing.parcel.cache.spoil(part);
                return false;
            }
            at += 1;
        }
    }

    fn shows_what_is(&mut self, number: u64) -> bool {
        let cache = &self.lua.crossing.parcel.cache;
        let entry = cache.entry(number);
        if entry.picture.is_none() || entry.unseen != cache.unseen {
            return false;
        }
        let is_same = |l: &Listed| match *l {
            // SAFETY: an upvalue is listed as long as it is alive; its value is on a live stack or its own.
            Listed::Variable(uv, v) => unsafe { (*(*uv).v).same(v) },
            Listed::Global(taken) => self.environment_get(taken.environment, taken.name).same(taken.value),
            Listed::Field(t, name, v) => self.raw_get_str(t, name).same(v),
            Listed::Metatable(t, mt) => t.metatable == mt,
        };
        if !entry.listed.iter().all(is_same) {
            return false;
        }
        let modules = entry.modules.len();
        (0..modules).all(|n| {
            let (module, print) = self.lua.crossing.parcel.cache.entry(number).modules[n];
            self.module_changes(module).0 == print
        })
    }

    /// A picture that has been made is kept, and its tables are watched.
    pub(super) fn keep_picture(&mut self, mut shown: Shown) -> u64 {
        if super::is_told() {
            shown.graph.sent_at = self.event_stack();
        }
        if on(Category::Gc) {
            let (size, stack, objects) = shown.graph.told();
            emit(PictureMade { size, stack, objects });
        }
        let (home, number) = (self.home_number(), super::origin::next_number());
        let root = shown.members.first().map_or(0, |m| m.0);
        let replaces = self.lua.crossing.parcel.cache.stale_of(root);
        let picture = Picture {
            graph: shown.graph,
            number,
            replaces,
            home,
            held: shown.held.into(),
            by: shown.by.into(),
        };
        for &(address, tag, _) in &shown.members {
            let v = Value::raw(Tag(tag), address);
            if v.tag() == Tag::TABLE && !v.gc::<Table>().is_frozen() {
                // SAFETY: a live table of this heap that is not frozen.
                unsafe { self.heap.watch(v.gc::<Table>().obj()) };
            }
        }
        let cache = &mut self.lua.crossing.parcel.cache;
        cache.forget_stale(4);
        for &(address, _, object) in &shown.members {
            cache.at.insert(address, (number, object));
        }
        cache.shown += shown.members.len();
        for other in &shown.leans_on {
            cache.entries.get_mut(other).expect("it holds").leaning.push(number);
        }
        let entry = Entry {
            picture: Some(Arc::new(picture)),
            token: Weak::new(),
            strands: Vec::new(),
            members: shown.members,
            originals: shown.originals,
            listed: shown.listed,
            modules: shown.modules,
            leans_on: shown.leans_on,
            is_class: shown.is_class,
            leaning: Vec::new(),
            unseen: cache.unseen,
        };
        cache.entries.insert(number, entry);
        cache.young.push(number);
        cache.counts[0] += 1;
        number
    }

    /// A count of a picture that holds, for a parcel (`with_token`: its members may come home) or another
    /// picture.
    pub(super) fn send_picture(&mut self, number: u64, with_token: bool) -> Sent {
        let strand = self.strand();
        let origins = &self.lua.crossing.parcel.origins;
        let entry = self.lua.crossing.parcel.cache.entries.get_mut(&number).expect("it holds");
        let picture = entry.picture.clone().expect("it holds");
        let token = with_token.then(|| {
            if !entry.strands.contains(&strand) {
                if entry.strands.len() >= MANY_STRANDS {
                    entry.strands.retain(|&s| origins.is_strand(s));
                }
                entry.strands.push(strand);
            }
            entry.token.upgrade().unwrap_or_else(|| {
                let token = picture.token();
                entry.token = Arc::downgrade(&token);
                token
            })
        });
        debug_assert!(token.as_ref().is_none_or(|t| t.is_of_picture()));
        Sent { picture, token, objects: Vec::new() }
    }
}
