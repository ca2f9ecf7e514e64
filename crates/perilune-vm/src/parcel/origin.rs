//! Where frozen copies come from, so that they come home as what they are copies of.
//!
//! What crosses frozen (`pack.rs` decides what) has an *origin*: the table or function that it was copied
//! from. Where such a copy comes back to the strand that it was sent from, in a result, an error or a
//! message, it becomes the original again, so `getmetatable(q) == Point` holds for what a task has made.
//!
//! # How it is known
//! All that one crossing freezes of a domain's own is one [`Crossing`], and each original has an index there.
//! The domain keeps the originals, by the crossing's number, as long as anybody has a count of the crossing:
//! a parcel on its way, or a domain in which one of the copies is alive. So whether a copy comes home never
//! depends on a collector. A copy in a receiver has, in place of its epoch, the index of an [`Arrived`]
//! entry, and that has the crossing. Entries whose copies are dead are found by the next collection that
//! would free these.
//!
//! # Strands
//! A *strand* is a task or a part of a loop; or everything else that a domain runs, its main program and the
//! fibers of that. Home is a strand, not a domain: which domain of a pool runs a task is up to the scheduler,
//! and a task's messages must not mean something else where it happens to run in the domain that they come
//! from.
//!
//! Rejected: weak lists of originals in the home domain, because a copy would come home as what the original
//! is by now, or as what it was when it crossed, by whether a collection has come meanwhile.

use crate::Vm;
use crate::object::Upval;
use crate::value::{Tag, Value};
use perilune_heap::Obj;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How what is frozen was named where it crossed.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The variable's name; `None`: a metatable.
    pub name: Option<Box<[u8]>>,
    /// It is a global.
    pub is_global: bool,
    /// Where it is captured or named: the chunk and a line; 0 if unknown.
    pub source: Arc<[u8]>,
    pub line: u32,
}

/// What one crossing has frozen of a domain's own.
#[derive(Debug)]
pub(super) struct Crossing {
    /// The domain.
    home: u64,
    /// The strand that it left.
    strand: u64,
    /// No other crossing of the process has it.
    number: u64,
    /// The variables that lead to what is frozen.
    pub held: Arc<[Held]>,
    /// By index of the original: the variable that led there first.
    pub by: Arc<[u32]>,
}

/// The strand of a picture's token: those that have sent the picture are with it (`cache.rs`).
const PICTURE: u64 = u64::MAX;

impl Crossing {
    /// The token of a picture.
    pub fn of_picture(home: u64, number: u64, held: Arc<[Held]>, by: Arc<[u32]>) -> Arc<Crossing> {
        Arc::new(Crossing { home, strand: PICTURE, number, held, by })
    }

    pub fn is_of_picture(&self) -> bool {
        self.strand == PICTURE
    }
}

/// A copy in this domain.
struct Arrived {
    crossing: Arc<Crossing>,
    index: u32,
    /// Null: the entry is free.
    object: *mut perilune_heap::Header,
}

/// Originals of this domain's, by the number of the crossing.
struct Originals {
    /// Gone when no copy is left.
    crossing: Weak<Crossing>,
    /// Address and tag, by index. Roots while the crossing is there.
    objects: Box<[(u64, u8)]>,
}

/// What a domain knows of origins.
#[derive(Default)]
pub(super) struct Origins {
    /// Which domain it is; 0: not known yet.
    me: u64,
    /// Entry 0 is nobody's: what is frozen without an origin has that number.
    arrived: Vec<Arrived>,
    free: Vec<u32>,
    /// Entries since the last collection.
    young: Vec<u32>,
    originals: HashMap<u64, Originals, foldhash::fast::FixedState>,
    resting: Resting,
    /// Fibers that are strands of their own.
    strands: HashSet<u64, foldhash::fast::FixedState>,
}

/// A domain without work that collects, for the sake of those who keep the originals of its copies.
#[derive(Default)]
struct Resting {
    /// How many copies there may be without that.
    limit: usize,
    /// What there was when it was seen without work: parcels with pictures so far, copies. And when that was.
    brought: (u64, usize),
    since: Option<Instant>,
    /// It is collecting: when so many majors are completed, it has.
    majors: Option<u64>,
}

/// What [`Vm::let_go_of_copies`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// There is nothing to be let go of.
    Nothing,
    /// There will be, if nothing has come by then: it is to be called again.
    Later(Instant),
    /// A step has been done, and there may be more: it is to be called again, unless there is other work.
    Step,
}

/// The least that makes a domain without work collect, in copies.
const MANY: usize = 4096;

/// How long copies are kept that nothing has come for, at least.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

/// How long pictures of so many bytes are kept that nothing has come for: several times as long as it takes
/// to copy them again.
fn patience(bytes: usize) -> Duration {
    const PER_BYTE: u64 = 10;
    LEAST_PATIENCE.max(Duration::from_nanos(bytes as u64 * PER_BYTE))
}

pub(super) fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl Origins {
    /// Whether a strand has not ended.
    pub fn is_strand(&self, strand: u64) -> bool {
        strand == 0 || self.strands.contains(&(strand - 1))
    }

    /// How many copies there are whose originals are kept for them.
    fn copies(&self) -> usize {
        self.arrived.len() - self.free.len()
    }

    pub fn trace(&self, mark: &mut impl FnMut(Obj)) {
        for (address, tag) in
            self.originals.values().filter(|o| o.crossing.strong_count() > 0).flat_map(|o| &o.objects)
        {
            Value::raw(Tag(*tag), *address).obj().map(&mut *mark);
        }
    }

    /// At the end of a collection: what is dead is forgotten.
    pub fn collected(&mut self, major: bool, ageing: bool, is_marked: impl Fn(Obj) -> bool) {
        self.originals.retain(|_, o| o.crossing.strong_count() > 0);
        let (arrived, free) = (&mut self.arrived, &mut self.free);
        let count = arrived.len() as u32;
        let mut look = |n: u32| {
            let entry = &mut arrived[n as usize];
            let Some(object) = Obj::new(entry.object) else { return false };
            if is_marked(object) {
                return true;
            }
            entry.object = std::ptr::null_mut();
            entry.crossing = none();
            free.push(n);
            false
        };
        if major {
            (1..count).for_each(|n| _ = look(n));
            self.young.clear();
        } else {
            let mut young = std::mem::take(&mut self.young);
            young.retain(|&n| look(n));
            if ageing {
                young.clear();
            }
            self.young = young;
        }
    }
}

/// The crossing of nothing.
fn none() -> Arc<Crossing> {
    static NONE: std::sync::LazyLock<Arc<Crossing>> = std::sync::LazyLock::new(|| {
        Arc::new(Crossing { home: 0, strand: 0, number: 0, held: Arc::new([]), by: Arc::new([]) })
    });
    NONE.clone()
}

impl Upval {
    /// Whether the variable has come from another domain: nobody may assign it.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.header.epoch & perilune_heap::FROZEN != 0
    }
}

/// Whether the object of a value of this domain's own is a frozen copy.
pub(crate) fn is_frozen_copy(v: Value) -> bool {
    // SAFETY: the object of a value is alive.
    !v.is_in_island() && v.obj().is_some_and(|o| unsafe { (*o.as_ptr()).epoch } & perilune_heap::FROZEN != 0)
}

impl Vm {
    /// The fiber with this tag is a strand of its own.
    pub fn begin_strand(&mut self, tag: u64) {
        self.lua.crossing.parcel.origins.strands.insert(tag);
    }

    /// A fiber has ended.
    pub fn end_strand(&mut self, tag: u64) {
        self.lua.crossing.parcel.origins.strands.remove(&tag);
    }

    /// The strand of the running code: 0, or a number that no other strand of the domain ever has.
    pub(super) fn strand(&self) -> u64 {
        let tag = self.current_fiber().map(|f| self.fiber_tag(f));
        // The tag of the first fiber of a domain is 0.
        tag.filter(|tag| self.lua.crossing.parcel.origins.strands.contains(tag)).map_or(0, |tag| tag + 1)
    }

    /// The origin of a frozen copy.
    pub(super) fn origin(&self, v: Value) -> Option<(&Arc<Crossing>, u32)> {
        if !is_frozen_copy(v) {
            return None;
        }
        // SAFETY: alive, as it is a value's.
        let number = unsafe { (*v.obj()?.as_ptr()).epoch } & !perilune_heap::FROZEN;
        let entry = self.lua.crossing.parcel.origins.arrived.get(number as usize).filter(|_| number != 0)?;
        debug_assert_eq!(entry.object as u64, v.payload(), "an entry belongs to one object");
        Some((&entry.crossing, entry.index))
    }

    /// Whether there may be frozen copies here.
    pub(super) fn has_copies(&self) -> bool {
        !self.lua.crossing.parcel.origins.arrived.is_empty()
    }

    /// For a domain that has nothing to do: collects if many copies of others' tables have come since it last
    /// did so, which dead or alive keep the originals where these are. Not at once, or what a program
    /// captures again and again would be copied again after each pause; and then a step at each call, so that
    /// work which comes meanwhile waits for no more than that.
    pub fn let_go_of_copies(&mut self, now: impl FnOnce() -> Instant) -> LetGo {
        let state = &mut self.lua.crossing.parcel;
        let bytes = state.received.bytes() + state.strings.bytes();
        let copies = state.origins.copies();
        // A large table of numbers counts as many.
        let count = copies + bytes / MANY;
        let resting = &mut state.origins.resting;
        let majors = match resting.majors {
            Some(majors) => majors,
            None if count <= resting.limit.max(MANY) => return LetGo::Nothing,
            None => {
                let now = now();
                let brought = (state.received.brought(), copies);
                if resting.brought != brought {
                    (resting.brought, resting.since) = (brought, Some(now));
                }
                let due = *resting.since.get_or_insert(now) + patience(bytes);
                if now < due {
                    return LetGo::Later(due);
                }
                state.received.rest();
                state.strings.rest();
                self.collect_in_steps()
            }
        };
        let ended = self.collect_towards(majors);
        let state = &mut self.lua.crossing.parcel;
        let bytes = state.received.bytes() + state.strings.bytes();
        let count = state.origins.copies() + bytes / MANY;
        let resting = &mut state.origins.resting;
        resting.majors = (!ended).then_some(majors);
        if ended {
            resting.limit = 2 * count + MANY;
        }
        LetGo::Step
    }

    /// What crosses frozen from here.
    pub(super) fn new_crossing(
        &mut self,
        held: Vec<Held>,
        objects: Vec<(u64, u8)>,
        by: Vec<u32>,
    ) -> Arc<Crossing> {
        let (home, strand, number) = (self.home_number(), self.strand(), next_number());
        let origins = &mut self.lua.crossing.parcel.origins;
        let crossing = Arc::new(Crossing { home, strand, number, held: held.into(), by: by.into() });
        let originals = Originals { crossing: Arc::downgrade(&crossing), objects: objects.into() };
        origins.originals.insert(number, originals);
        crossing
    }

    /// Which domain this is, among those that anything has crossed frozen from.
    pub(super) fn home_number(&mut self) -> u64 {
        let me = &mut self.lua.crossing.parcel.origins.me;
        if *me == 0 {
            *me = next_number();
        }
        *me
    }

    /// The original, if it left the running strand.
    pub(super) fn original(&self, crossing: &Crossing, index: u32) -> Option<Value> {
        let origins = &self.lua.crossing.parcel.origins;
        if crossing.home != origins.me {
            return None;
        }
        let strand = self.strand();
        if crossing.strand == PICTURE {
            return self.lua.crossing.parcel.cache.original(crossing.number, strand, index);
        }
        if crossing.strand != strand {
            return None;
        }
        let &(address, tag) = origins.originals.get(&crossing.number)?.objects.get(index as usize)?;
        Some(Value::raw(Tag(tag), address))
    }

    /// Freezes a copy that is complete. Without an origin it stays frozen all the same.
    ///
    /// # Safety
    /// `object` is one that this domain has made since the last safepoint.
    pub(super) unsafe fn freeze_copy(&mut self, object: Obj, origin: Option<(&Arc<Crossing>, u32)>) {
        let number = match origin {
            None => 0,
            Some((crossing, index)) => {
                let origins = &mut self.lua.crossing.parcel.origins;
                if origins.arrived.is_empty() {
                    origins.arrived.push(Arrived {
                        crossing: none(),
                        index: 0,
                        object: std::ptr::null_mut(),
                    });
                }
                let entry = Arrived { crossing: crossing.clone(), index, object: object.as_ptr() };
                let n = match origins.free.pop() {
                    Some(n) => {
                        origins.arrived[n as usize] = entry;
                        n
                    }
                    None => {
                        origins.arrived.push(entry);
                        origins.arrived.len() as u32 - 1
                    }
                };
                origins.young.push(n);
                n
            }
        };
        // SAFETY: newborn, by the caller's promise.
        unsafe { self.heap.freeze(object, number) };
    }

    /// How messages call a frozen copy: its variable's name, and where that was captured.
    pub(crate) fn frozen_copy_text(&self, v: Value) -> Option<(String, String)> {
        let (crossing, index) = self.origin(v)?;
        let held = crossing.held.get(*crossing.by.get(index as usize)? as usize)?;
        let place = match held.line {
            0 => String::from_utf8_lossy(&held.source).into_owned(),
            line => format!("{}:{line}", String::from_utf8_lossy(&held.source)),
        };
        let name = held.name.as_ref().map(|n| String::from_utf8_lossy(n).into_owned());
        let what = match (&name, held.is_global) {
            (Some(name), false) => format!("'{name}', which was captured at {place}"),
            (Some(name), true) => format!("the global '{name}', which was named at {place}"),
            (None, _) => "a metatable that came along".into(),
        };
        Some((what, name.unwrap_or_else(|| "the table".into())))
    }
}
