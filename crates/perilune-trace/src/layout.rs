//! The file that events are written to, and that any process of the same user can map.
//!
//! ```text
//! 0               FileHeader   what this is, the clock, switches and rates, how much is used     one page
//! definitions_at  definitions  strings and call paths, appended, never overwritten
//! rings_at        ring 0       RingHeader (one page), then slots: `ring_events` of 32 bytes
//!                 ring 1       ...
//! ```
//! The file is sparse: what nobody has written to takes no memory. All numbers are in the machine's order; a
//! tool on another machine reads a recording ([`crate::recording`]), not this.
//!
//! # A ring
//! One writer, the thread that owns the domain (or the thread itself, for what threads do outside of
//! domains). Event number `n` (from 0) lies in slot `n mod ring_events`; the newest overwrite the oldest, the
//! writer never waits. A slot's first word is `n + 1` cut to 32 bits, kind, and `c`; the writer stores 0
//! there first, then the other words, then the first word (release). A reader that finds the number it
//! expects before and after it has copied the slot has an event; otherwise it was overwritten, and counts as
//! lost. `head` is how many have been written.
//!
//! When a domain has ended its ring goes to the next. The ring's header lists who owned it from which event
//! on, the last [`OWNERS`] of them.
//!
//! # Definitions
//! Records of a [`DefinitionHeader`] and bytes, padded to 8. Whoever appends holds a lock of the process, and
//! moves `definitions_used` (release) when the record is complete. When the room is used up, the rest is
//! counted in `definitions_lost`: readers show numbers for names.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"PLTRACE\0";
/// Version of this layout and of the meaning of kinds.
pub const VERSION: u32 = 2;
/// Unit of the file's parts.
pub const PAGE: usize = 4096;
/// Bytes of a slot.
pub const SLOT: usize = 32;
/// Owners that a ring remembers.
pub const OWNERS: usize = 128;
/// `writer` of an owner that is a thread, not a domain; the rest is the kernel's number of the thread.
pub const THREAD: u64 = 1 << 40;

/// A session's state, in [`FileHeader::state`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// A tool has made the file for a program that has not mapped it.
    Offered = 1,
    /// A program writes to it.
    Live = 2,
    /// The program has ended, or has stopped writing.
    Ended = 3,
}

/// The first page.
#[repr(C)]
pub struct FileHeader {
    /// [`MAGIC`]
    pub magic: [u8; 8],
    /// [`VERSION`]
    pub version: u32,
    /// The writer's process.
    pub pid: AtomicU32,
    /// A [`State`].
    pub state: AtomicU32,
    /// What ticks are: a [`crate::clock::Clock`].
    pub clock: AtomicU32,
    /// How many rings there is room for.
    pub rings: u32,
    /// Slots of a ring, a power of two.
    pub ring_events: u32,
    /// Where definitions begin.
    pub definitions_at: u64,
    /// Room for them in bytes.
    pub definitions_bytes: u64,
    /// Where the first ring begins.
    pub rings_at: u64,
    /// From one ring to the next.
    pub ring_stride: u64,
    /// Ticks when the session began.
    pub start_ticks: AtomicU64,
    /// `CLOCK_MONOTONIC` then.
    pub start_mono_ns: AtomicU64,
    /// Time of day then, nanoseconds since 1970.
    pub start_real_ns: AtomicU64,
    /// Odd while the next two are written.
    pub calibration: AtomicU32,
    /// Rings that have been used.
    pub rings_used: AtomicU32,
    /// A later pair of ticks ...
    pub later_ticks: AtomicU64,
    /// ... and `CLOCK_MONOTONIC`.
    pub later_mono_ns: AtomicU64,
    /// Mask of categories that are on. A tool may change it and then send the signal ([`crate::attach`]).
    pub enabled: AtomicU32,
    /// Samples of processor time per second and thread; 0: none. May be changed likewise.
    pub cpu_hz: AtomicU32,
    /// Mean bytes between two samples of allocation; 0: none. May be changed likewise.
    pub alloc_interval: AtomicU64,
    /// Bytes of definitions.
    pub definitions_used: AtomicU64,
    /// Definitions that had no room.
    pub definitions_lost: AtomicU64,
    /// Writers that found no free ring.
    pub writers_refused: AtomicU64,
    /// A tool's wish, counted up by it; what it is about lies in `request_kind`.
    pub request: AtomicU32,
    /// See [`crate::attach::Request`].
    pub request_kind: AtomicU32,
    /// The last request that has been answered.
    pub answered: AtomicU32,
}

/// The page before a ring's slots.
#[repr(C)]
pub struct RingHeader {
    /// Events written since the file was made.
    pub head: AtomicU64,
    /// 1 while somebody owns it.
    pub taken: AtomicU32,
    pad: u32,
    /// How many owners there have been.
    pub owner_count: AtomicU64,
    /// The last of them; number `n` lies at `n mod OWNERS`.
    pub owners: [Owner; OWNERS],
}

/// Whose events a ring holds from some number on.
#[repr(C)]
pub struct Owner {
    /// The first event.
    pub first: AtomicU64,
    /// A domain's number, or [`THREAD`] and a thread's.
    pub writer: AtomicU64,
}

/// An event's place.
#[repr(C)]
pub struct Slot {
    /// Number + 1 (low 32 bits) << 32, kind << 16, `c`.
    pub stamp: AtomicU64,
    /// When.
    pub ticks: AtomicU64,
    /// First argument.
    pub a: AtomicU64,
    /// Second argument.
    pub b: AtomicU64,
}

/// Before each definition.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionHeader {
    /// Bytes that follow, without padding.
    pub bytes: u32,
    /// A [`DefinitionKind`].
    pub kind: u16,
    /// Unused.
    pub pad: u16,
}

/// What a definition defines. Numbers count from 1 in each kind, in the order of the file; they are not
/// written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum DefinitionKind {
    /// A string: its bytes.
    String = 1,
    /// A node of call paths: [`StackNode`].
    Stack = 2,
    /// A label for an object: its [`crate::event::ObjectRef`] (8 bytes), then a string's number (4 bytes). A
    /// later one replaces it; it has no number.
    Label = 3,
    /// Where an object was made: its [`crate::event::ObjectRef`] (8 bytes), then a stack's number (4 bytes).
    /// It has no number.
    Origin = 4,
}

/// A frame, and the frames that it was called from.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The caller's node; 0: none.
    pub parent: u32,
    /// String: the function's name, as tracebacks call it.
    pub function: u32,
    /// String: the chunk's name; 0: native code.
    pub source: u32,
    /// Line that runs; 0: not known.
    pub line: u32,
    /// Line where the function is defined; 0: not known, or a main chunk.
    pub defined: u32,
    /// 0: Lua, 1: native, 2: collector, 3: a task's or coroutine's start.
    pub kind: u32,
}

/// What a session is made with.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// How many domains and threads may write at the same time.
    pub rings: u32,
    /// Events that a ring holds; rounded up to a power of two.
    pub ring_events: u32,
    /// Bytes of definitions.
    pub definitions: u64,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { rings: 1024, ring_events: 1 << 16, definitions: 64 << 20 }
    }
}

impl Geometry {
    /// The geometry as it will be: within the limits, powers of two.
    pub fn normal(&self) -> Geometry {
        Geometry {
            rings: self.rings.clamp(1, 1 << 16),
            ring_events: self.ring_events.clamp(256, 1 << 24).next_power_of_two(),
            definitions: self.definitions.clamp(1 << 16, 1 << 32).next_multiple_of(PAGE as u64),
        }
    }
    /// Bytes of a ring.
    pub fn ring_stride(&self) -> u64 {
        PAGE as u64 + self.ring_events as u64 * SLOT as u64
    }
    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        PAGE as u64 + self.definitions + self.rings as u64 * self.ring_stride()
    }
}

const _: () = assert!(size_of::<FileHeader>() <= PAGE);
const _: () = assert!(size_of::<RingHeader>() <= PAGE);
const _: () = assert!(size_of::<Slot>() == SLOT);
const _: () = assert!(size_of::<StackNode>() == 24);
