//! The private heap of one domain: allocation, collection, accounts. It knows no Lua; a [`Client`] tells it
//! what objects refer to.
//!
//! # Terms
//!
//! *Chunks* of 2 MiB hold *blocks* of 32 KiB, these *lines* of 128 bytes, these *granules* of 16
//! (`layout.rs`). An object starts with a [`Header`] at a granule and never moves. An object is *young* until
//! it has survived a collection, then *old*; a *minor* collection frees young objects, a *major* all. The
//! *epoch* is a number that every collection advances; an object carries the epoch of its birth or of the
//! last time it was logged.
//!
//! # The scheme
//!
//! **Allocation** bumps a cursor through free lines, as in Immix: no free lists, no touching of the dead, and
//! what is allocated together lies together (`heap.rs`, `blocks.rs`). Over 8 KiB objects have a space of
//! their own (`large.rs`), where buffers can grow (`resize.rs`).
//!
//! **Sticky marks.** A bitmap beside the objects says which are old. A minor collection does not clear it:
//! it marks from the roots and the log until it meets marked objects, and whatever is marked then is old.
//! Nothing is copied, so any native code may hold addresses. While nearly all survives, most minor
//! collections mark all that is young without a look at it (`promote.rs`).
//!
//! **The barrier** is one comparison: the container's epoch with the current one. If they differ, the
//! container goes into the log and is stamped. Newborns carry the current epoch, so initialising stores and
//! stores into young objects are free of charge, and an object that is stored into a million times between
//! two collections is logged once. The one log serves both collections: for a minor it names the old objects
//! that may refer to young ones, for a major in progress the marked ones that must be looked at again
//! (`collect.rs` has the argument). A bit in the header would do for that; the epoch also serves scopes
//! (`arena.rs`), where an object that is young but older than the scope must be logged too.
//!
//! **Majors** mark in slices into the second bitmap, always right after a minor collection; at the end the
//! bitmaps change places. Sweeping is lazy and works on bitmaps alone (`blocks.rs`).
//!
//! **When and how much**: `pace.rs`. **Conservative words**: `table.rs`, then the last start bit at or before
//! the address ([`Heap::find_object`]).
//!
//! # What the client must know
//!
//! * Collections happen inside [`Heap::step`], [`Heap::collect_minor`], [`Heap::collect_full`], nowhere else.
//!   Then every object must be initialised and every value that is needed must be reachable from
//!   [`Client::roots`].
//! * Every store of a reference into an object that may be old needs [`Heap::barrier`] on the object that
//!   `trace` reports it for (the owner of a buffer, not the buffer).
//! * Stores into buffers that may be large should say where, with [`Heap::barrier_at`], and big objects be
//!   traced in portions ([`Marker::trace_later`]): otherwise one store costs a look at the whole object, and
//!   pauses grow with it.
//! * Objects that hold weak references are logged like others, on every insertion; an old one that was not
//!   logged refers to no young object, so a minor collection need not look at it. Lists gathered while
//!   tracing (weak tables met) must be kept apart by [`Marker::cycle`]: minors run between the slices of a
//!   major.
//! * What is referred to only weakly may be freed; [`Marker::is_marked`] in [`Client::finish`] says so in
//!   time.
//! * There are no destructors: `finish` is the moment to notice what has died.
//!
//! **Islands** (`island/`) are frozen objects outside every heap's chunks, in an address range of their own:
//! the marker compares with that range and marks an island instead of an object. Their headers carry an epoch
//! that is never current, so that the barrier's comparison fails for every store into one, and the client can
//! refuse.
//!
//! # Room left
//!
//! *Several heaps per program* share islands and nothing else; a shared pool of warm chunks
//! belongs into `os.rs`.
//!
//! # Rejected
//!
//! A copying nursery: addresses must be stable for natives and conservative stacks. Marks in headers:
//! sweeping would touch the dead, and minors would have to clear them. Slices at arbitrary times: see
//! `collect.rs`. Free lists by size class: allocation is slower than a bump and neighbours are strangers.

mod account;
mod arena;
mod blocks;
mod clock;
mod collect;
mod heap;
mod island;
mod large;
mod layout;
mod mark;
mod pace;
mod promote;
mod resize;
mod sample;
pub mod shortage;
mod small;
pub mod space;
mod stats;
mod sys;
mod table;
mod verify;
mod warm;

pub use account::{
    LEAST_PROGRAM_LIMIT, ProgramBytes, charge_arrays, charge_messages, limit_program_from_env, program_bytes,
    program_has_room, program_limit, set_program_limit,
};
pub use heap::Heap;
pub use island::{
    Builder as IslandBuilder, Contents as IslandContents, FROZEN, ISLAND_CHUNK, ISLAND_PAGE, IslandRef,
    IslandStats, WATCHED, all_islands, is_island, island_bytes, island_number, island_stats, protect_islands,
};
pub use mark::Marker;
pub use sample::Notify;
pub use small::give_back as give_back_pieces;
pub use stats::{HeapStats, Histogram};
pub use sys::stack_word;
pub use warm::release_warm_chunks;

use core::ptr::NonNull;

/// First word of every heap object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Epoch of birth or of the last entry into the log, with the bit [`WATCHED`] if the client wants to know
    /// of the next store; with the bit [`FROZEN`], a number that means nothing to the heap, in objects that
    /// are never stored into; what the client likes, below [`FROZEN`], if [`Client::owns_epoch`] says so.
    pub epoch: u32,
    /// The client's kind of object.
    pub kind: u8,
    /// The client's flags.
    pub flags: u8,
    /// Size in units of 16 bytes, header included; 0 for a large object.
    pub granules: u16,
}

impl Header {
    /// The epoch of an object that is not frozen, watched or not.
    #[inline(always)]
    pub fn stamp(&self) -> u32 {
        self.epoch & !WATCHED
    }

    /// Gives an object that is not frozen another epoch. One that is watched stays so.
    #[inline(always)]
    pub(crate) fn set_stamp(&mut self, epoch: u32) {
        self.epoch = epoch | self.epoch & WATCHED;
    }

    /// No store may come to it any more.
    #[inline(always)]
    pub fn is_frozen(&self) -> bool {
        self.epoch & FROZEN != 0
    }

    /// The client wants to know of the next store.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.epoch & (FROZEN | WATCHED) == WATCHED
    }
}

/// A heap object, by its header.
pub type Obj = NonNull<Header>;

/// The byte limit or the operating system refused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Which collection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycle {
    /// Only objects born since the last collection can die.
    Minor,
    /// Everything unreachable dies.
    Major,
}

/// Generational or purely incremental.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Minor collections, and majors when the old generation has grown.
    Generational,
    /// Majors in slices only.
    Incremental,
}

/// Settings of a heap.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// Byte limit of what the program may hold.
    pub limit: Option<usize>,
    /// A collection is due at every safepoint, and majors follow each other in short slices.
    pub stress: bool,
    /// Freed and fresh memory is overwritten with a pattern.
    pub poison: bool,
    /// Collections end with [`Heap::verify`], and a violation with a panic.
    pub verify: bool,
    /// With `verify`: one collection in so many, 1 and 0 for each. A look takes time in proportion to the
    /// heap.
    pub verify_every: u32,
    /// First size of the nursery in bytes (at least 64 KiB). It tunes itself unless `fixed_nursery`.
    pub nursery: usize,
    /// The nursery keeps its first size.
    pub fixed_nursery: bool,
    /// The first chunks of 2 MiB that are backed by small pages, so that a small heap stays small.
    pub small_page_chunks: usize,
    /// The first epoch: for tests of the wrap.
    pub first_epoch: u32,
}

impl Default for HeapOptions {
    fn default() -> Self {
        HeapOptions {
            limit: None,
            stress: false,
            poison: cfg!(debug_assertions),
            verify: false,
            verify_every: 1,
            nursery: 128 << 10,
            fixed_nursery: false,
            small_page_chunks: 2,
            first_epoch: 1,
        }
    }
}

impl HeapOptions {
    /// The defaults, with the debugging aids that the environment asks for: `PERILUNE_GC_STRESS`,
    /// `PERILUNE_GC_POISON`, `PERILUNE_GC_VERIFY`, each on if set and neither empty nor `0`.
    /// `PERILUNE_GC_VERIFY=N` verifies one collection in N.
    pub fn from_env() -> HeapOptions {
        let on = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        let verify_every = std::env::var("PERILUNE_GC_VERIFY").ok().and_then(|v| v.parse().ok()).unwrap_or(1);
        let default = HeapOptions::default();
        HeapOptions {
            stress: on("PERILUNE_GC_STRESS"),
            poison: default.poison || on("PERILUNE_GC_POISON"),
            verify: on("PERILUNE_GC_VERIFY"),
            verify_every,
            ..default
        }
    }
}

/// Tuning parameters, as `collectgarbage` sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Generational or incremental.
    pub mode: Mode,
    /// A major is to be complete when the heap has reached this percentage of what the last one left.
    pub pause: usize,
    /// Percentage of marking effort per allocation.
    pub stepmul: usize,
    /// Logarithm of the step size (manual 2.5.1).
    pub stepsize: usize,
    /// Minor multiplier in percent (manual 2.5.2).
    pub minor_mul: usize,
    /// Major multiplier in percent (manual 2.5.2).
    pub major_mul: usize,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            mode: Mode::Generational,
            pause: 200,
            stepmul: 100,
            stepsize: 13,
            minor_mul: 20,
            major_mul: 100,
        }
    }
}

/// How the heap learns about the client's objects.
pub trait Client {
    /// Reports every child of `obj` with [`Marker::mark`].
    ///
    /// # Safety
    /// `obj` is a live, initialised object of the heap that calls.
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>);
    /// Traces the portion of `obj` that begins at `at`, asked for with [`Marker::trace_later`]; the program
    /// may have changed the object since. By default the whole object.
    ///
    /// # Safety
    /// As for [`Client::trace`].
    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        let _ = at;
        // SAFETY: the caller's promise is the same.
        unsafe { self.trace(obj, m) }
    }
    /// Traces what `owner` keeps at addresses in `lo..hi`, a part of one of its large buffers that was stored
    /// into under [`Heap::barrier_at`]. A slot that straddles a border belongs to both sides. The buffer may
    /// have been replaced since, under a `barrier`: then there is nothing to do. By default all of `owner` is
    /// traced.
    ///
    /// # Safety
    /// As for [`Client::trace`]. The addresses are not to be read unless they lie in a buffer that `owner`
    /// has now.
    unsafe fn trace_range(&mut self, owner: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        let _ = (lo, hi);
        // SAFETY: the caller's promise is the same.
        unsafe { self.trace(owner, m) }
    }
    /// Reports the roots. A major asks for them several times.
    fn roots(&mut self, m: &mut Marker<'_>, cycle: Cycle);
    /// Ephemerons: marks more and returns true if anything was marked; called until false.
    fn converge(&mut self, m: &mut Marker<'_>, cycle: Cycle) -> bool;
    /// Marking has reached its fixpoint; the sweep follows.
    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle);
    /// Whether objects of this kind refer to nothing, so that the heap need not know their epochs and the
    /// client may write something else there. The heap may still write: an epoch, at the end of a scope or
    /// when epochs begin anew.
    fn owns_epoch(&self, kind: u8) -> bool {
        let _ = kind;
        false
    }
    /// For the verifier ([`Heap::verify`]): what is wrong with an object by the client's own rules; `None`:
    /// nothing.
    ///
    /// # Safety
    /// An initialised object of the heap that calls.
    unsafe fn fault(&self, obj: Obj) -> Option<String> {
        let _ = obj;
        None
    }
}
