//! Pictures that have arrived (`cache.rs` says what they are).
//!
//! A domain unpacks a picture when a parcel brings it first, and keeps the copies: all parcels that refer to
//! it find the same ones. They are kept for as long as parcels bring it, and two collections more; after that
//! a copy lives as long as anything refers to it, as everything does. If the picture comes again when some
//! copies are dead and others are not, the dead ones are made again, and lead to those that have lived on. So
//! no program can tell when a copy has been freed.
//!
//! What the sender writes to between two crossings is shown by a newer picture, which says which older ones
//! it replaces: their copies are let go when it arrives. Large ones are freed before the new one is made, if
//! that takes little ([`Vm::make_way`]), so the memory that the one copy has is the memory of the next, and
//! still in the cache. A picture itself is kept by its sender, and by parcels; what has been made of it needs
//! it no more.
//!
//! The copies hold the token that they come home by, so a domain that keeps them keeps the originals alive in
//! the domain that they come from. That is why pictures that have not come for a while are let go, and why a
//! domain that has had nothing to do for a while and has many copies collects
//! ([`crate::Vm::let_go_of_copies`]).

use super::cache::Picture;
use super::inside::Applied;
use crate::Vm;
use crate::value::{Tag, Value};
use perilune_heap::Obj;
use std::collections::HashMap;
use std::sync::Arc;

/// After so many collections without a parcel that brings it, what nothing refers to goes.
const PATIENCE: u8 = 2;

/// A picture's copies in this domain.
struct Instance {
    /// Bytes of the picture.
    bytes: usize,
    /// Numbers of the pictures that it leans on.
    leans_on: Box<[u64]>,
    /// Tag and address, by number in the graph. Dead, or neither a table nor a function: no address.
    objects: Box<[(u8, u64)]>,
    /// Collections since a parcel has brought it.
    idle: u8,
    /// No copy is dead.
    is_whole: bool,
    /// How many pictures here lean on it.
    leaning: u32,
    /// A newer picture of the same has come: this one is no root, even while a parcel is being unpacked.
    is_replaced: bool,
    /// What modules were when it had been made.
    applied: Option<Applied>,
}

impl Instance {
    fn is_useless(&self) -> bool {
        self.leaning == 0 && self.objects.iter().all(|o| o.1 == 0)
    }
}

/// A domain's arrived pictures.
#[derive(Default)]
pub(super) struct Received {
    instances: HashMap<u64, Instance, foldhash::fast::FixedState>,
    /// Since the last collection that made them old.
    young: Vec<u64>,
    /// Parcels that are being unpacked: whatever collections come meanwhile, what they have brought stays.
    unpacking: u32,
    /// Parcels that have brought pictures.
    brought: u64,
    bytes: usize,
}

impl Received {
    /// Bytes of the pictures here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Parcels that have brought pictures so far.
    pub fn brought(&self) -> u64 {
        self.brought
    }

    /// No parcel is expected.
    pub fn rest(&mut self) {
        self.instances.values_mut().for_each(|i| i.idle = PATIENCE);
    }

    /// The copies of a picture that are alive.
    pub fn objects(&self, number: u64) -> Option<&[(u8, u64)]> {
        self.instances.get(&number).map(|i| &*i.objects)
    }

    /// A parcel brings a picture. True: its copies are all here.
    pub fn meet(&mut self, picture: &Picture) -> bool {
        match self.instances.get_mut(&picture.number) {
            Some(instance) => {
                (instance.idle, instance.is_replaced) = (0, false);
                instance.is_whole
            }
            None => false,
        }
    }

    /// What modules were when a picture's copies had been made; it goes to the caller, who makes them again
    /// or gives it back.
    pub fn take_applied(&mut self, number: u64) -> Option<Applied> {
        self.instances.get_mut(&number)?.applied.take()
    }

    pub fn give_applied(&mut self, number: u64, applied: Applied) {
        if let Some(instance) = self.instances.get_mut(&number) {
            instance.applied = Some(applied);
        }
    }

    /// A parcel is being unpacked until [`Received::end`].
    pub fn begin(&mut self) {
        self.unpacking += 1;
        self.brought += 1;
    }

    pub fn end(&mut self) {
        self.unpacking -= 1;
    }

    /// Newer pictures of what these showed have come: nothing asks for their copies again, but for parcels
    /// that are under way. Bytes of those that nothing keeps here any more.
    pub fn replace(&mut self, numbers: &[u64]) -> usize {
        // What calls us has brought one of the newer ones. A parcel around that may have brought any of
        // these.
        let is_alone = self.unpacking <= 1;
        let mut bytes = 0;
        for number in numbers {
            if let Some(instance) = self.instances.get_mut(number) {
                instance.idle = PATIENCE;
                if is_alone && !std::mem::replace(&mut instance.is_replaced, true) {
                    bytes += instance.bytes;
                }
            }
        }
        bytes
    }

    /// The copies that have been made of a picture.
    pub fn put(&mut self, picture: &Arc<Picture>, objects: Box<[(u8, u64)]>, applied: Option<Applied>) {
        let number = picture.number;
        self.young.push(number);
        if let Some(instance) = self.instances.get_mut(&number) {
            (instance.objects, instance.is_whole, instance.applied) = (objects, true, applied);
            (instance.idle, instance.is_replaced) = (0, false);
            return;
        }
        let leans_on: Box<[u64]> = picture.leans_on().iter().map(|sent| sent.picture.number).collect();
        for other in &leans_on {
            if let Some(other) = self.instances.get_mut(other) {
                other.leaning += 1;
            }
        }
        let bytes = picture.graph.bytes();
        self.bytes += bytes;
        let instance = Instance {
            bytes,
            leans_on,
            objects,
            idle: 0,
            is_whole: true,
            leaning: 0,
            is_replaced: false,
            applied,
        };
        self.instances.insert(number, instance);
    }

    fn remove(&mut self, number: u64) {
        let Some(instance) = self.instances.remove(&number) else { return };
        self.bytes -= instance.bytes;
        for &other in &instance.leans_on {
            if let Some(other) = self.instances.get_mut(&other) {
                other.leaning -= 1;
            }
            if self.instances.get(&other).is_some_and(Instance::is_useless) {
                self.remove(other);
            }
        }
    }

    pub fn trace(&self, all: bool, mark: &mut impl FnMut(Obj)) {
        let mut instance = |i: &Instance| {
            // The first object leads to all others, but for what has become part of a module; the parcel that
            // is being unpacked may name that, too.
            let count = match (self.unpacking > 0, i.idle < PATIENCE) {
                _ if i.is_replaced => 0,
                (true, _) => i.objects.len(),
                (false, true) => 1,
                (false, false) => 0,
            };
            for &(tag, address) in i.objects.iter().take(count).filter(|o| o.1 != 0) {
                Value::raw(Tag(tag), address).obj().map(&mut *mark);
            }
        };
        match all {
            true => self.instances.values().for_each(&mut instance),
            false => self.young.iter().filter_map(|n| self.instances.get(n)).for_each(&mut instance),
        }
    }

    /// At the end of a collection: what is dead is forgotten.
    pub fn collected(&mut self, major: bool, ageing: bool, is_marked: &impl Fn(Obj) -> bool) {
        let look = |instance: &mut Instance| {
            for (tag, address) in &mut instance.objects {
                let dead =
                    *address != 0 && Value::raw(Tag(*tag), *address).obj().is_none_or(|o| !is_marked(o));
                if dead {
                    *address = 0;
                    instance.is_whole = false;
                }
            }
        };
        let looked_at = match major {
            true => self.instances.keys().copied().collect(),
            false => self.young.clone(),
        };
        for &n in &looked_at {
            self.instances.get_mut(&n).into_iter().for_each(look);
        }
        for &n in &looked_at {
            if self.instances.get(&n).is_some_and(Instance::is_useless) {
                self.remove(n);
            }
        }
        if ageing {
            self.young.clear();
            self.instances.values_mut().for_each(|i| i.idle = i.idle.saturating_add(1));
        }
    }
}

impl Vm {
    /// A picture is about to be unpacked that replaces these: their copies go, and at once, if they are most
    /// of what a collection would have to look at.
    pub(super) fn make_way(&mut self, replaced: &[u64]) {
        /// Bytes that are worth it.
        const LARGE: usize = 256 << 10;
        /// So many times as many may be alive.
        const SHARE: usize = 4;
        let bytes = self.lua.crossing.parcel.received.replace(replaced);
        if bytes >= LARGE && self.heap.live_bytes() / SHARE <= bytes {
            self.collect_garbage_now();
        }
    }
}
