//! Islands: immutable objects outside all heaps, readable by every domain, counted and freed as a whole.
//!
//! This file knows what an island consists of: a *number* (reused), a count, memory segments, the older
//! islands that its objects refer to, and *contents*: whatever else it keeps alive, for the client. `slot.rs`
//! has the counts, `memory.rs` the pages, `owners.rs` whose they are, `held.rs` a heap's view. What the
//! objects are is the client's business: it fills a [`Builder`] and seals it.
//!
//! # Counts
//! An island is alive while its count is above zero. A count belongs to each heap that holds the island, to
//! each younger island that refers to it, and to each [`IslandRef`]. A count rises only by somebody who has
//! one, so zero is final. References go to older islands only; hence counts suffice, but for cycles through
//! the client's mutable objects.
//!
//! Freeing an island takes counts from others and drops contents, which may drop further `IslandRef`s. All of
//! it goes through a list of the freeing thread, so a chain of a million islands needs no native stack.
//!
//! # Headers
//! An object in an island has the epoch [`FROZEN`]` | number`. No heap's epoch ever gets there, so every
//! store's comparison of epochs fails and its slow path can refuse.
//!
//! The bit below, [`WATCHED`], stands beside an epoch instead of replacing it: whatever stamps an object
//! keeps it ([`Header::stamp`], `Header::set_stamp`), and only [`crate::Heap::unwatch`] takes it away.

pub(crate) mod held;
pub(crate) mod memory;
mod owners;
mod slot;
mod sync;

pub use memory::{CHUNK as ISLAND_CHUNK, PAGE as ISLAND_PAGE, is_island};

use crate::{Header, OutOfMemory};
use memory::Memory;
use perilune_trace::emit;
use perilune_trace::event::{self, Bytes, Count};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The bit of epochs that says that an object is frozen.
pub const FROZEN: u32 = 1 << 31;

/// The bit of epochs that says that an object is watched: the client wants to know of the next store. Epochs
/// stay below it, so one comparison tells what is neither watched nor frozen.
pub const WATCHED: u32 = 1 << 30;

/// What an island keeps besides its objects.
pub type Contents = Box<dyn Any + Send + Sync>;

struct Body {
    segments: Vec<(usize, usize)>,
    bytes: usize,
    /// Numbers of the islands that this one refers to; a count of each is held.
    refs: Box<[u32]>,
    contents: Option<Contents>,
}

type Slot = slot::Slot<Body>;

/// Slots of bucket 0; each bucket has twice as many as the one before.
const FIRST_BUCKET: usize = 64;
static BUCKETS: [AtomicPtr<Slot>; 26] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 26];

fn place(number: u32) -> (usize, usize) {
    let n = number as usize + FIRST_BUCKET;
    let bucket = (n / FIRST_BUCKET).ilog2() as usize;
    (bucket, n - (FIRST_BUCKET << bucket))
}

/// The slot of an island that has existed.
#[inline]
fn slot(number: u32) -> &'static Slot {
    let (bucket, at) = place(number);
    let slots = BUCKETS[bucket].load(Acquire);
    debug_assert!(!slots.is_null());
    // SAFETY: a number is given out after its bucket has been made; buckets are never freed.
    unsafe { &*slots.add(at) }
}

struct State {
    memory: Memory,
    free: Vec<u32>,
    next: u32,
    live: usize,
}

static STATE: LazyLock<Mutex<State>> =
    LazyLock::new(|| Mutex::new(State { memory: Memory::new(), free: Vec::new(), next: 1, live: 0 }));

fn state() -> MutexGuard<'static, State> {
    // A panic inside leaves a page or number unused at worst.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn take_number(&mut self) -> Result<u32, OutOfMemory> {
        self.live += 1;
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        let number = self.next;
        let (bucket, _) = place(number);
        if bucket >= BUCKETS.len() {
            self.live -= 1;
            return Err(OutOfMemory);
        }
        self.next += 1;
        if BUCKETS[bucket].load(Acquire).is_null() {
            let slots: Box<[Slot]> = (0..FIRST_BUCKET << bucket).map(|_| Slot::new(Body::empty())).collect();
            BUCKETS[bucket].store(Box::into_raw(slots).cast(), Release);
        }
        Ok(number)
    }
}

impl Body {
    fn empty() -> Body {
        Body { segments: Vec::new(), bytes: 0, refs: Box::new([]), contents: None }
    }
}

/// Figures about all islands of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IslandStats {
    /// Islands that exist.
    pub islands: usize,
    /// Bytes of their pages.
    pub bytes: usize,
    /// Bytes that are mapped for islands.
    pub mapped_bytes: usize,
}

/// Figures about all islands of the process.
pub fn island_stats() -> IslandStats {
    let s = state();
    IslandStats { islands: s.live, bytes: s.memory.used, mapped_bytes: s.memory.mapped }
}

/// Bytes of the pages of all islands of the process.
pub fn island_bytes() -> usize {
    memory::used()
}

static PROTECT: AtomicBool = AtomicBool::new(false);

/// From now on the pages of complete islands are read-only, so that a store that nothing has refused ends the
/// process: for tests. To be called before there are islands.
#[doc(hidden)]
pub fn protect_islands() {
    PROTECT.store(true, Relaxed);
}

/// Counted references to all islands of the process: for whoever looks for cycles that counts do not find,
/// and for figures.
pub fn all_islands() -> Vec<IslandRef> {
    let end = state().next;
    (1..end).filter_map(IslandRef::if_alive).collect()
}

/// Number of the island that `at` lies in, an address in the range of islands; 0 if none does. Only of use to
/// those who hold that island.
pub fn island_number(at: usize) -> u32 {
    memory::owner(at)
}

/// A counted reference to an island, for whatever is not inside a heap: messages on the way, queues.
pub struct IslandRef {
    number: u32,
}

impl IslandRef {
    /// A further count of an island that the caller has one of.
    pub(crate) fn to(number: u32) -> IslandRef {
        raise(number);
        IslandRef { number }
    }

    /// A further count of island `number` if it is alive.
    fn if_alive(number: u32) -> Option<IslandRef> {
        slot(number).raise_if_alive().then_some(IslandRef { number })
    }

    /// The island's number; of use only while it lives.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        body(self.number).bytes
    }

    /// Numbers of the islands that it refers to.
    pub fn refs(&self) -> &[u32] {
        &body(self.number).refs
    }

    /// A counted reference to the island at this place of [`IslandRef::refs`].
    pub fn referred(&self, at: usize) -> IslandRef {
        IslandRef::to(self.refs()[at])
    }

    /// What it keeps besides its objects.
    pub fn contents(&self) -> Option<&(dyn Any + Send + Sync)> {
        body(self.number).contents.as_deref()
    }

    /// How many counts it has, for figures: another thread may change it at any time.
    pub fn count(&self) -> usize {
        slot(self.number).count()
    }

    /// Gives up the reference but not its count.
    pub(crate) fn into_number(self) -> u32 {
        std::mem::ManuallyDrop::new(self).number
    }
}

impl Clone for IslandRef {
    fn clone(&self) -> IslandRef {
        IslandRef::to(self.number)
    }
}

impl Drop for IslandRef {
    fn drop(&mut self) {
        lower(self.number);
    }
}

impl std::fmt::Debug for IslandRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "island {} ({} bytes)", self.number, self.bytes())
    }
}

/// What an island is made of; the caller has a count of it.
fn body<'a>(number: u32) -> &'a Body {
    // SAFETY: the caller has a count.
    unsafe { slot(number).body() }
}

/// Takes a further count of an island that the caller has one of.
fn raise(number: u32) {
    // SAFETY: the caller has one.
    unsafe { slot(number).raise() }
}

thread_local! {
    /// Islands whose counts this thread has brought to zero and that it has not freed yet.
    static DEAD: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static FREEING: Cell<bool> = const { Cell::new(false) };
}

/// Gives up a count; the last one frees the island.
pub(crate) fn lower(number: u32) {
    // SAFETY: the caller has the count that it gives up.
    if !unsafe { slot(number).lower() } {
        return;
    }
    let queued = DEAD.try_with(|dead| dead.borrow_mut().push(number));
    if queued.is_err() {
        // The thread is ending.
        let mut dead = vec![number];
        while let Some(n) = dead.pop() {
            free(n, &mut |n| dead.push(n));
        }
        return;
    }
    if FREEING.replace(true) {
        return;
    }
    while let Some(n) = DEAD.with(|dead| dead.borrow_mut().pop()) {
        free(n, &mut |n| DEAD.with(|dead| dead.borrow_mut().push(n)));
    }
    FREEING.set(false);
}

/// Frees an island without counts; those that it was the last to refer to are passed to `dead`.
fn free(number: u32, dead: &mut dyn FnMut(u32)) {
    // SAFETY: the last count was the caller's.
    let body = unsafe { slot(number).take(Body::empty()) };
    // One that was never completed has no bytes. Before somebody else gets the number.
    if body.bytes != 0 {
        emit(event::IslandFreed { size: Bytes::from(body.bytes), island: Count(number as u64) });
    }
    {
        let mut s = state();
        for &(at, size) in &body.segments {
            if PROTECT.load(Relaxed) {
                memory::protect(at, size, false);
            }
            s.memory.give(at, size);
        }
        s.free.push(number);
        s.live -= 1;
    }
    for &n in &body.refs {
        // SAFETY: the count that the island had of it.
        if unsafe { slot(n).lower() } {
            dead(n);
        }
    }
    drop(body.contents);
}

/// An island in the making: memory for its objects, of which nobody knows yet.
pub struct Builder {
    number: u32,
    cursor: usize,
    end: usize,
    segments: Vec<(usize, usize)>,
    bytes: usize,
    refs: HashSet<u32>,
    last_ref: u32,
}

/// The last segment of an island gets no bigger than this unless an object needs it.
const LARGEST_SEGMENT: usize = memory::CHUNK;
/// Alignment of objects.
const GRANULE: usize = 16;

impl Builder {
    /// A new island without objects.
    ///
    /// # Errors
    /// There are 2^31 islands.
    pub fn new() -> Result<Builder, OutOfMemory> {
        let number = state().take_number()?;
        Ok(Builder {
            number,
            cursor: 0,
            end: 0,
            segments: Vec::new(),
            bytes: 0,
            refs: HashSet::new(),
            last_ref: 0,
        })
    }

    /// The island's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Room for an object of `bytes` bytes, its header of 8 among them, which is written: frozen, of this
    /// kind, without flags. The caller writes the rest.
    ///
    /// # Errors
    /// The system refuses memory, or the program has reached its limit.
    ///
    /// # Panics
    /// No room for a header is asked for.
    #[inline(always)]
    pub fn alloc(&mut self, kind: u8, bytes: usize) -> Result<*mut Header, OutOfMemory> {
        assert!(bytes >= size_of::<Header>());
        let header: *mut Header = self.room(bytes)?.cast();
        let granules = bytes.div_ceil(GRANULE).try_into().unwrap_or(0);
        // SAFETY: memory of this island that no object has.
        unsafe { header.write(Header { epoch: FROZEN | self.number, kind, flags: 0, granules }) };
        Ok(header)
    }

    /// Room for `bytes` bytes that belong to an object, aligned to 16. The caller writes them.
    ///
    /// # Errors
    /// The system refuses memory, or the program has reached its limit.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        let size = bytes.checked_next_multiple_of(GRANULE).ok_or(OutOfMemory)?;
        let mut at = self.cursor;
        if size <= self.end - at {
            self.cursor = at + size;
        } else {
            at = self.alloc_slow(size)?;
        }
        Ok(at as *mut u8)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, size: usize) -> Result<usize, OutOfMemory> {
        let usual = self.bytes.clamp(memory::PAGE, LARGEST_SEGMENT);
        if !crate::program_has_room(size.max(usual)) {
            return Err(OutOfMemory);
        }
        let (at, got) = state().memory.take(size.max(usual), self.number)?;
        self.segments.push((at, got));
        self.bytes += got;
        // What a large object leaves is used for the next ones if it is more than what was left before.
        if got - size >= self.end - self.cursor {
            self.cursor = at + size;
            self.end = at + got;
        }
        Ok(at)
    }

    /// An object of this island refers to island `number`.
    ///
    /// # Safety
    /// The caller has a count of that island, by itself or through a heap.
    #[inline]
    pub unsafe fn refer(&mut self, number: u32) {
        if number != self.last_ref {
            self.last_ref = number;
            if self.refs.insert(number) {
                raise(number);
            }
        }
    }

    /// The island is complete: all its objects are written and refer to nothing outside but what
    /// [`Builder::refer`] was told and `contents` keeps.
    pub fn seal(mut self, contents: Option<Contents>) -> IslandRef {
        // The end of the last segment goes back.
        if let Some(last) = self.segments.last_mut()
            && (last.0..last.0 + last.1).contains(&(self.cursor.max(1) - 1))
            && last.1 <= memory::CHUNK / 2
        {
            let used = self.cursor - last.0;
            while used <= last.1 / 2 && last.1 > memory::PAGE {
                last.1 /= 2;
                self.bytes -= last.1;
                state().memory.give(last.0 + last.1, last.1);
            }
        }
        if PROTECT.load(Relaxed) {
            self.segments.iter().for_each(|&(at, size)| memory::protect(at, size, true));
        }
        let body = Body {
            segments: std::mem::take(&mut self.segments),
            bytes: self.bytes,
            refs: std::mem::take(&mut self.refs).into_iter().collect(),
            contents,
        };
        if body.bytes != 0 {
            emit(event::IslandMade { size: Bytes::from(body.bytes), island: Count(self.number as u64) });
        }
        // SAFETY: nobody else knows the number.
        unsafe { slot(self.number).publish(body) };
        IslandRef { number: std::mem::ManuallyDrop::new(self).number }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        // An empty body, then as any other; nobody was told of its bytes.
        let body = Body {
            segments: std::mem::take(&mut self.segments),
            bytes: 0,
            refs: std::mem::take(&mut self.refs).into_iter().collect(),
            contents: None,
        };
        // SAFETY: nobody else knows the number.
        unsafe { slot(self.number).publish(body) };
        lower(self.number);
    }
}
