//! The deep copy into an island.
//!
//! The copy is breadth first: `entries` lists the objects met so far with their copies, `unfilled` those
//! among them that refer to others. It is the queue of what is still to be filled, so nesting costs no native
//! stack. Most objects are strings, copied when they are met; nobody looks at them again but to put their
//! headers right.
//!
//! # Forwarding
//! While the copy is made, nothing else runs in the domain, and nothing is allocated in its heap. So an
//! object that has been met carries the number of its entry in its header, in place of its epoch, with the
//! bit that says "frozen"; the entry keeps the epoch, and all are put back at the end, also when the copy
//! fails. Rejected: a hash table by address. It would cost a cache miss per object where the header is looked
//! at anyway.
//!
//! # Strings
//! They are copied once: by address as everything else, and those that are not interned by their text too
//! (interned ones have no twin but among those). All get their hash.

use super::Contents;
use super::function::{ENV, SharedFunction};
use super::refuse::{Refusal, Why};
use super::scratch::{Entries, Entry, NO_PARENT, Texts};
use crate::Vm;
use crate::meta::Event;
use crate::native::LuaResult;
use crate::object::{LuaClosure, LuaString, NativeClosure, Node, STRING_DATA, Table, Upval};
use crate::shape;
use crate::shared::{SharedArc, SharedRef};
use crate::sys::prefetch;
use crate::table::{TABLE_HOLES, TABLE_INT_NODES};
use crate::value::{Gc, Tag, Value};
use perilune_heap::{FROZEN, Header, IslandBuilder, IslandRef, OutOfMemory, is_island, island_number};
use perilune_syntax::Proto;
use perilune_syntax::proto::VarKind;
use std::collections::HashSet;
use std::ptr::null_mut;
use std::sync::Arc;

/// Why a copy came to nothing.
pub(super) enum Failure {
    Memory,
    Refused(Refusal),
}

impl From<OutOfMemory> for Failure {
    fn from(_: OutOfMemory) -> Failure {
        Failure::Memory
    }
}

type Attempt<T> = Result<T, Failure>;

/// Metamethods that need a heap of their own.
const REFUSED: [Event; 3] = [Event::Gc, Event::Close, Event::Mode];
const REFUSED_BITS: u8 = 1 << Event::Gc as u8 | 1 << Event::Close as u8 | 1 << Event::Mode as u8;

const SHAPES: usize = 64;

/// Bytes of the longest string object that is copied by granules.
const SHORT: usize = 128;

type Granule = [std::mem::MaybeUninit<u8>; 16];

/// Copies the granules of an object of `bytes` bytes: quicker than a call for the few of a name.
///
/// # Safety
/// Both take so many whole granules and do not overlap.
#[inline(always)]
unsafe fn copy_granules(to: *mut Granule, from: *const Granule, bytes: usize) {
    let mut at = 0;
    loop {
        // SAFETY: the caller's promise. Padding is copied as what it is.
        unsafe { *to.add(at) = *from.add(at) };
        at += 1;
        if at * size_of::<Granule>() >= bytes {
            return;
        }
    }
}

/// The positions of the bits that are set.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (at < u32::BITS).then_some(at as usize)
    })
}

struct Copier<'a> {
    vm: &'a mut Vm,
    island: IslandBuilder,
    entries: Entries,
    /// Numbers of the entries that refer to others: what is still to be filled, and has been.
    unfilled: Vec<u32>,
    /// The entry being filled.
    at: u32,
    /// Copies of strings that are not interned, by hash.
    texts: Texts,
    protos: Vec<Arc<Proto>>,
    known_protos: HashSet<*const Proto>,
    shared: Vec<SharedArc>,
    shapes: Vec<u32>,
    known_shapes: HashSet<u32>,
    /// (shape, absent metamethods), direct-mapped.
    absent: [(u32, u8); SHAPES],
}

/// Copies `v` into a new island.
pub(super) fn copy(vm: &mut Vm, v: Value) -> LuaResult<(Value, IslandRef)> {
    try_copy(vm, v).map_err(|failure| match failure {
        Failure::Memory => vm.out_of_memory(),
        Failure::Refused(refusal) => vm.error(refusal.message),
    })
}

pub(super) fn try_copy(vm: &mut Vm, v: Value) -> Attempt<(Value, IslandRef)> {
    let island = IslandBuilder::new()?;
    let (entries, texts) = vm.lua.islands.scratch.take();
    let mut c = Copier {
        vm,
        island,
        entries,
        unfilled: Vec::new(),
        at: NO_PARENT,
        texts,
        protos: Vec::new(),
        known_protos: HashSet::new(),
        shared: Vec::new(),
        shapes: Vec::new(),
        known_shapes: HashSet::new(),
        absent: [(shape::ROOT, 0xff); SHAPES],
    };
    let root = c.forward(v).and_then(|root| c.run().map(|()| root));
    let Copier { vm, island, entries, texts, protos, shared, shapes, .. } = c;
    vm.lua.islands.scratch.give(entries, texts);
    let root = root?;
    let none = protos.is_empty() && shared.is_empty() && shapes.is_empty();
    let contents = Contents { protos, shared, shapes };
    Ok((root, island.seal(if none { None } else { Some(Box::new(contents)) })))
}

impl Copier<'_> {
    fn run(&mut self) -> Attempt<()> {
        let mut next = 0;
        while next < self.unfilled.len() {
            if next.is_multiple_of(256) {
                self.check_limit()?;
            }
            self.at = self.unfilled[next];
            let Entry { src, dst, .. } = self.entries.0[self.at as usize];
            // SAFETY: an object and the copy of its kind that was made for it.
            unsafe {
                match Tag((*src).kind) {
                    Tag::TABLE => self.fill_table(src.cast(), dst.cast())?,
                    Tag::CLOSURE => self.fill_function(src.cast(), dst.cast())?,
                    _ => {}
                }
            }
            next += 1;
        }
        self.check_limit()
    }

    fn check_limit(&self) -> Attempt<()> {
        let Some(limit) = self.vm.heap.limit() else { return Ok(()) };
        if self.vm.heap.live_bytes() + self.island.bytes() > limit { Err(Failure::Memory) } else { Ok(()) }
    }

    fn refuse<T>(&self, v: Value, why: Why) -> Attempt<T> {
        Err(Failure::Refused(Refusal::new(&self.entries.0, self.at, v, why)))
    }

    /// What stands for `v` in the island.
    #[inline(always)]
    fn forward(&mut self, v: Value) -> Attempt<Value> {
        if v.is_collectable() { self.forward_object(v) } else { Ok(v) }
    }

    fn forward_object(&mut self, v: Value) -> Attempt<Value> {
        let src = v.payload() as *mut Header;
        if is_island(src as usize) {
            let number = island_number(src as usize);
            // SAFETY: what refers into an island keeps it, through this domain's heap.
            unsafe { self.island.refer(number) };
            return Ok(v);
        }
        // SAFETY: a live object.
        unsafe {
            // A frozen copy of another domain's table has the bit too, and a number that is none of an entry
            // of its own.
            if (*src).epoch & FROZEN != 0
                && let Some(&Entry { src: of, dst, .. }) =
                    self.entries.0.get(((*src).epoch & !FROZEN) as usize)
                && of == src
            {
                return Ok(Value::raw(Tag((*dst).kind), dst as u64));
            }
            let dst = match v.tag() {
                Tag::STRING => self.copy_string(v.gc())?.cast(),
                Tag::TABLE => {
                    self.unfilled.push(self.entries.0.len() as u32);
                    self.start_table(v.gc())?.cast()
                }
                Tag::CLOSURE => {
                    self.unfilled.push(self.entries.0.len() as u32);
                    self.start_function(v.gc())?.cast()
                }
                Tag::SHARED => self.copy_shared(v.gc())?.cast(),
                Tag::NATIVE_CLOSURE => self.copy_native(v)?.cast(),
                _ => return self.refuse(v, Why::Kind),
            };
            self.note(src, dst)?;
            Ok(Value::raw(Tag((*dst).kind), dst as u64))
        }
    }

    /// Lists an object and its copy.
    ///
    /// # Safety
    /// `src` is live and has not been met before.
    #[inline]
    unsafe fn note(&mut self, src: *mut Header, dst: *mut Header) -> Attempt<()> {
        let number = self.entries.0.len() as u32;
        if number >= FROZEN {
            return Err(Failure::Memory);
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.entries.0.push(Entry { src, dst, epoch: (*src).epoch, parent: self.at });
            (*src).epoch = FROZEN | number;
        }
        Ok(())
    }

    fn copy_string(&mut self, s: Gc<LuaString>) -> Attempt<*mut LuaString> {
        let hash = s.hash();
        let mut place = 0;
        if !s.is_interned() {
            let (at, known) = self.texts.find(hash, s);
            if !known.is_null() {
                return Ok(known);
            }
            place = at;
        }
        let size = STRING_DATA + s.len() + 1;
        let copy: *mut LuaString = self.island.alloc(Tag::STRING.0, size)?.cast();
        // SAFETY: room for a string of that length; the source has its NUL. Objects take whole granules.
        unsafe {
            let header = (*copy).header;
            if size <= SHORT {
                copy_granules(copy.cast(), s.ptr().cast(), size);
            } else {
                std::ptr::copy_nonoverlapping(s.ptr() as *const u8, copy.cast::<u8>(), size);
            }
            (*copy).header = header;
            (*copy).atom = 0;
        }
        if !s.is_interned() {
            self.texts.put(place, hash, copy);
        }
        Ok(copy)
    }

    /// Room for a table with its slots and its array; what it refers to is filled in later.
    fn start_table(&mut self, t: Gc<Table>) -> Attempt<*mut Table> {
        let slots = shape::field_count(t.shape) as usize;
        let array = t.extent();
        let bytes = size_of::<Table>() + slots * size_of::<Value>() + array * t.kind.element_size();
        let copy: *mut Table = self.island.alloc(Tag::TABLE.0, bytes)?.cast();
        // SAFETY: room for the table, its slots and its elements, in this order. Every field is written here.
        unsafe {
            let first: *mut Value = copy.add(1).cast();
            (*copy).shape = t.shape;
            (*copy).absent = 0;
            (*copy).kind = t.kind;
            (*copy).log2_nodes = 0;
            (*copy).slot_cap = slots as u8;
            (*copy).metatable = null_mut();
            (*copy).slots = if slots == 0 { null_mut() } else { first };
            (*copy).array = if array == 0 { null_mut() } else { first.add(slots).cast() };
            (*copy).array_len = array as u32;
            (*copy).array_cap = array as u32;
            (*copy).header.flags |= t.header.flags & TABLE_HOLES;
            (*copy).nodes = null_mut();
            (*copy).last_free = 0;
            (*copy).inline_slots = 0;
            (*copy).inline_array = 0;
        }
        Ok(copy)
    }

    /// # Safety
    /// `dst` is what [`Copier::start_table`] has made of `src`.
    unsafe fn fill_table(&mut self, src: *mut Table, dst: *mut Table) -> Attempt<()> {
        // SAFETY: both tables have the same slots and elements; nothing changes the source meanwhile.
        unsafe {
            for n in 0..(*dst).slot_cap as usize {
                *(*dst).slots.add(n) = self.forward(*(*src).slots.add(n))?;
            }
            let len = (*src).extent();
            if (*src).kind == crate::ArrayKind::General {
                let (from, to) = ((*src).array.cast::<Value>(), (*dst).array.cast::<Value>());
                self.expect_texts(len, from.as_ref().copied());
                for n in 0..len {
                    *to.add(n) = self.forward(*from.add(n))?;
                }
            } else if len > 0 {
                std::ptr::copy_nonoverlapping((*src).array, (*dst).array, len * (*src).kind.element_size());
            }
            let mut dunder = false;
            if !(*src).nodes.is_null() {
                dunder = self.fill_nodes(src, dst)?;
            } else if (*src).shape == shape::DICT {
                (*dst).shape = shape::ROOT;
            }
            (*dst).absent = self.absent_events(src, (*dst).shape, dunder);
            if !(*src).metatable.is_null() {
                (*dst).metatable = self.forward_metatable(Gc::from_ptr((*src).metatable))?;
            }
            Ok(())
        }
    }

    /// `n` values are about to be copied, of which `first` is one: if it is a text that nobody has seen, the
    /// others may be, too.
    fn expect_texts(&mut self, n: usize, first: Option<Value>) {
        const WORTH_EXPECTING: usize = 64;
        if n >= WORTH_EXPECTING
            && first.and_then(Value::as_string).is_some_and(|s| !s.is_interned() && !s.is_frozen())
        {
            self.texts.reserve(n);
        }
    }

    fn forward_metatable(&mut self, mt: Gc<Table>) -> Attempt<*mut Table> {
        if mt.absent & REFUSED_BITS != REFUSED_BITS {
            for event in REFUSED {
                if !self.vm.table_metamethod(mt, event).is_nil() {
                    return self.refuse(mt.into(), Why::Metamethod(event));
                }
            }
        }
        let copy = self.forward_object(mt.into())?;
        Ok(copy.gc::<Table>().ptr())
    }

    /// The first eight metamethods that the table `src`, whose copy has `shape`, does not have. `dunder`: a
    /// name in its hash part begins with two underscores.
    fn absent_events(&mut self, src: *mut Table, shape: u32, dunder: bool) -> u8 {
        let cached = self.absent[shape as usize % SHAPES];
        if cached.0 == shape {
            return cached.1;
        }
        // SAFETY: a live table.
        let t = unsafe { Gc::from_ptr(src) };
        if shape::is_dict(shape) {
            if !dunder {
                return 0xff;
            }
            return self.absent_names(|name| t.get_str(name).is_nil());
        }
        if shape > shape::FROZEN_DICT && self.known_shapes.insert(shape) {
            self.shapes.push(shape);
        }
        let bits = self.absent_names(|name| shape::lookup(shape, name).is_none());
        self.absent[shape as usize % SHAPES] = (shape, bits);
        bits
    }

    fn absent_names(&self, is_absent: impl Fn(Gc<LuaString>) -> bool) -> u8 {
        const FIRST: [Event; 8] = [
            Event::Index,
            Event::NewIndex,
            Event::Gc,
            Event::Mode,
            Event::Len,
            Event::Eq,
            Event::ToString,
            Event::Close,
        ];
        let bit = |e: &Event| (is_absent(self.vm.event_name(*e)) as u8) << *e as u8;
        FIRST.iter().map(bit).fold(0, |a, b| a | b)
    }

    /// Copies the hash part. True if a key is a string that begins with two underscores.
    ///
    /// # Safety
    /// As [`Copier::fill_table`]; the source has nodes.
    unsafe fn fill_nodes(&mut self, src: *mut Table, dst: *mut Table) -> Attempt<bool> {
        // SAFETY: the nodes of a live table, which nothing changes meanwhile; room for as many as the copy
        // gets.
        unsafe {
            let nodes = (*src).node_slice();
            let mut live = 0usize;
            let mut by_address = false;
            for n in nodes {
                live += n.is_live() as usize;
                by_address |= n.is_live() & (n.key_tag > Tag::STRING.0);
            }
            if (*src).shape == shape::DICT {
                (*dst).shape = if live == 0 { shape::ROOT } else { shape::FROZEN_DICT };
            }
            if live == 0 {
                return Ok(false);
            }
            // One for each key at least, as a rule.
            self.entries.0.reserve(live);
            self.expect_texts(live, nodes.iter().find(|n| n.is_live()).map(|n| n.value()));
            let tight = live.next_power_of_two();
            let copy: *mut Node = self.island.room(tight * size_of::<Node>())?.cast();
            (*dst).nodes = copy;
            (*dst).log2_nodes = tight.trailing_zeros() as u8;
            (*dst).header.flags = (*src).header.flags & (TABLE_INT_NODES | TABLE_HOLES);
            if !by_address && tight == nodes.len() {
                return self.fill_same_nodes(nodes, copy);
            }
            let mut dunder = false;
            (*dst).last_free = tight as u32;
            for at in 0..tight {
                copy.add(at).write(Node::FREE);
            }
            for n in nodes.iter().rev().filter(|n| n.is_live()) {
                dunder |= n.key_tag == Tag::STRING.0 && n.key().gc::<LuaString>().is_dunder();
                let (key, v) = (self.forward(n.key())?, self.forward(n.value())?);
                (*dst).insert_into_free(key, v);
            }
            (*dst).header.flags = (*src).header.flags & (TABLE_INT_NODES | TABLE_HOLES);
            Ok(dunder)
        }
    }

    /// Copies nodes whose keys have hashes that do not depend on addresses: each stays where it is. About
    /// every third of them is free, which no processor can guess: so a portion is copied as it is first, and
    /// then those that are in use are gone through. The keys of the portion behind it are fetched meanwhile.
    ///
    /// # Safety
    /// `nodes` are those of a live table; there is room for as many at `copy`.
    unsafe fn fill_same_nodes(&mut self, nodes: &[Node], copy: *mut Node) -> Attempt<bool> {
        const PORTION: usize = 32;
        let scan = |nodes: &[Node]| {
            let (mut live, mut dead) = (0u32, 0u32);
            for (at, n) in nodes.iter().enumerate() {
                live |= (n.is_live() as u32) << at;
                dead |= ((!n.is_live() & (n.key_tag != Tag::NIL.0)) as u32) << at;
            }
            for at in bits(live) {
                prefetch(nodes[at].key as *const Header);
                if nodes[at].value_tag >= Tag::STRING.0 {
                    prefetch(nodes[at].value as *const Header);
                }
            }
            (live, dead)
        };
        let mut dunder = false;
        let mut portions = nodes.chunks(PORTION);
        let mut portion = portions.next();
        let mut scanned = portion.map_or((0, 0), scan);
        let mut to = copy;
        while let Some(from) = portion {
            let (live, dead) = scanned;
            portion = portions.next();
            scanned = portion.map_or((0, 0), scan);
            // SAFETY: as many nodes as there are from `to` on; a live key is a live object.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
                for at in bits(live) {
                    let (n, own) = (&from[at], &mut *to.add(at));
                    dunder |= n.key_tag == Tag::STRING.0 && n.key().gc::<LuaString>().is_dunder();
                    own.key = self.forward(n.key())?.payload();
                    if n.value().is_collectable() {
                        own.set_value(self.forward_object(n.value())?);
                    }
                }
                bits(dead).for_each(|at| (*to.add(at)).bury());
                to = to.add(from.len());
            }
        }
        Ok(dunder)
    }

    fn start_function(&mut self, f: Gc<LuaClosure>) -> Attempt<*mut SharedFunction> {
        let count = f.inst().num_upvalues as usize;
        let proto = f.inst().proto;
        if self.known_protos.insert(proto) {
            // SAFETY: the instance owns a count; this is another one.
            self.protos.push(unsafe {
                Arc::increment_strong_count(proto);
                Arc::from_raw(proto)
            });
        }
        let bytes = size_of::<SharedFunction>() + count * size_of::<Value>();
        let copy: *mut SharedFunction = self.island.alloc(Tag::SHARED_FUNCTION.0, bytes)?.cast();
        // SAFETY: room for a function and its values, which `fill_function` writes before anyone looks.
        unsafe {
            (*copy).proto = proto;
            (*copy).native = std::ptr::null();
            (*copy).num_upvalues = count as u32;
        }
        Ok(copy)
    }

    /// # Safety
    /// `dst` is what [`Copier::start_function`] has made of `src`.
    unsafe fn fill_function(&mut self, src: *mut LuaClosure, dst: *mut SharedFunction) -> Attempt<()> {
        // SAFETY: a live closure, whose upvalues point at slots of stacks or at their own values.
        unsafe {
            let upvals = &raw const (*src).upvals as *const *mut Upval;
            let descs = &(&*(*dst).proto).upvalues;
            for (n, desc) in descs.iter().enumerate() {
                let v = *(**upvals.add(n)).v;
                let own = &raw mut (*dst).upvals as *mut Value;
                if self.vm.environment(v).is_some() {
                    *own.add(n) = ENV;
                    continue;
                }
                if desc.kind == VarKind::Mutable && !(**upvals.add(n)).is_frozen() {
                    return self.refuse(Gc::from_ptr(src).into(), Why::Assigned(desc.clone()));
                }
                if desc.kind == VarKind::Late && v.is_nil() {
                    return self.refuse(Gc::from_ptr(src).into(), Why::NotYetAssigned(desc.clone()));
                }
                *own.add(n) = self.forward(v)?;
            }
            Ok(())
        }
    }

    /// A native function with upvalues, if each domain has one of its own: it is in a table of the standard
    /// library.
    fn copy_native(&mut self, v: Value) -> Attempt<*mut SharedFunction> {
        let native = v.gc::<NativeClosure>().native;
        if self.vm.global_function_name(v).is_none() {
            return self.refuse(v, Why::Kind);
        }
        let copy: *mut SharedFunction =
            self.island.alloc(Tag::SHARED_FUNCTION.0, size_of::<SharedFunction>())?.cast();
        // SAFETY: room for a function without values.
        unsafe {
            (*copy).proto = std::ptr::null();
            (*copy).native = native;
            (*copy).num_upvalues = 0;
        }
        Ok(copy)
    }

    fn copy_shared(&mut self, r: Gc<SharedRef>) -> Attempt<*mut SharedRef> {
        let copy: *mut SharedRef = self.island.alloc(Tag::SHARED.0, size_of::<SharedRef>())?.cast();
        let object = r.object().clone();
        // SAFETY: room for a reference. It has the same `Arc` as the list, bit by bit, and is never dropped:
        // the count belongs to the list.
        unsafe { SharedRef::init(copy, std::ptr::read(&object)) };
        self.shared.push(object);
        Ok(copy)
    }
}
