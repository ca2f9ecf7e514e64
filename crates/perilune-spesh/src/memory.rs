//! Executable memory: one region, mapped twice, from which pieces of code are cut and to which they come
//! back.
//!
//! # Two views
//! The pages of a region are mapped at two addresses: one view can be read and written, the other read and
//! executed. No address is ever both writable and executable. Installing code writes through the first view
//! and hands out an address in the second; no mapping changes, so no other thread is disturbed and no system
//! call is made. `memory/views.rs` has the mappings.
//!
//! # Pieces
//! Who installs gets a [`Code`], which is the right to its piece: there is one, it cannot be copied, and only
//! [`Code::free`] gives the piece back. Dropping a `Code` keeps its piece (and the region) for good:
//! forgetting code is safe, running freed code is not. That nobody runs it any more is for the caller of
//! `free` to know; `reclaim.rs` finds that out. `memory/free_list.rs` keeps what is free. What was freed is
//! filled with `target::TRAP`.
//!
//! # Forks
//! A child goes on running what it inherited, and installs and frees nothing: [`fork`] has how. While a child
//! has no copies yet, pieces that are freed are held back.
//!
//! # Errors
//! Where the system refuses executable memory, [`CodeMemory::reserve`] says which step was refused and why;
//! where there is no room, or in a child, [`CodeMemory::install`] does. Either way the caller interprets.

mod free_list;
mod views;

use crate::fork::{self, Lineage};
use crate::sync::lock;
use crate::target;
use free_list::{FreeList, Span};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex};
pub use views::Refused;
use views::Views;

/// The most that a process takes for code, in bytes of address space per view.
pub const MAX_CAPACITY: usize = 64 << 20;

/// What a process whose address space is limited takes for code, of the limit and per view.
const SHARE_OF_LIMIT: usize = 32;

/// What this process takes for code, in bytes of address space per view: [`MAX_CAPACITY`], or a thirty-second
/// of the limit of its address space.
pub fn capacity() -> usize {
    let share = perilune_heap::space::limit().map_or(MAX_CAPACITY, |limit| limit / SHARE_OF_LIMIT);
    (share & !0xFFFF).clamp(64 << 10, MAX_CAPACITY)
}

/// Free parts that are smaller than this keep their memory.
const TRIM_FROM: usize = 64 << 10;

/// What a piece of code is, which decides how it is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A compiled function: aligned to 32 bytes, what the processor fetches at a time.
    Function,
    /// A few instructions between others, such as an entry or an exit: 16 bytes.
    Stub,
}

impl Kind {
    fn alignment(self) -> u32 {
        match self {
            Kind::Function => target::FUNCTION_ALIGNMENT,
            Kind::Stub => free_list::GRANULE,
        }
    }
}

/// Why code could not be installed. It runs interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// No free piece is large enough.
    Full {
        /// Bytes that were asked for.
        wanted: usize,
        /// The bytes of the largest free piece.
        largest: usize,
    },
    /// The memory belongs to a process of which this one is a child by `fork`.
    Inherited,
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::Full { wanted, largest } => {
                write!(f, "no room for {wanted} bytes of machine code: the largest free piece has {largest}")
            }
            InstallError::Inherited => f.write_str("a forked process installs no machine code"),
        }
    }
}

impl std::error::Error for InstallError {}

/// What a region is used for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The whole region.
    pub capacity: usize,
    /// Pieces that are installed, padding included.
    pub installed: usize,
    /// How many these are.
    pub pieces: usize,
    /// Pieces that were freed while a child of a fork had no copies yet, and are not used again before it
    /// has.
    pub held_back: usize,
}

/// A region of executable memory.
pub struct CodeMemory {
    views: Views,
    lineage: Lineage,
    space: Mutex<Space>,
}

/// What is free and what is not; under the lock of the region.
struct Space {
    free: FreeList,
    /// Freed, but perhaps still run by a child.
    held_back: Vec<Span>,
    installed: usize,
    pieces: usize,
    /// Bytes from the start of the region that have ever held code.
    used: usize,
}

impl CodeMemory {
    /// Reserves `capacity` bytes of address space, twice; a multiple of 64 KiB up to [`MAX_CAPACITY`]. Memory
    /// is taken page by page as code is installed.
    pub fn reserve(capacity: usize) -> Result<Arc<CodeMemory>, Refused> {
        assert!(capacity > 0 && capacity <= MAX_CAPACITY && capacity.is_multiple_of(64 << 10));
        let (views, lineage) = (Views::map(capacity)?, Lineage::current());
        let free = FreeList::new(capacity as u32);
        let space = Space { free, held_back: Vec::new(), installed: 0, pieces: 0, used: 0 };
        Ok(Arc::new(CodeMemory { views, lineage, space: Mutex::new(space) }))
    }

    /// Puts `bytes` (at least one), which run wherever they lie, into executable memory. The address is fit
    /// to be called when this returns; other threads may call it once they have it from a release store, a
    /// lock or the like.
    pub fn install(self: &Arc<Self>, bytes: &[u8], kind: Kind) -> Result<Code, InstallError> {
        assert!(!bytes.is_empty(), "code of no length");
        // Before the lock, which may be locked for ever in a child.
        if self.lineage.is_inherited() {
            return Err(InstallError::Inherited);
        }
        let span = self.take(bytes.len(), kind, fork::copies_pending())?;
        // SAFETY: the span is ours alone until it is given back, and nobody has its address yet.
        unsafe { self.views.write(span.start() as usize, bytes, span.len() as usize) };
        let start = self.views.executable() + span.start() as usize;
        target::publish(start, bytes.len());
        Ok(Code { start, len: bytes.len(), span, memory: ManuallyDrop::new(Arc::clone(self)) })
    }

    /// Takes a piece that nobody runs. `pending`: a child may still run what was freed.
    fn take(&self, wanted: usize, kind: Kind, pending: bool) -> Result<Span, InstallError> {
        let mut guard = lock(&self.space);
        let space = &mut *guard;
        if !pending {
            space.held_back.drain(..).for_each(|span| self.clear(&mut space.free, span));
        }
        let len = u32::try_from(wanted).unwrap_or(u32::MAX);
        let Some(span) = space.free.take(len, kind.alignment()) else {
            return Err(InstallError::Full { wanted, largest: space.free.largest() as usize });
        };
        space.installed += span.len() as usize;
        space.pieces += 1;
        let end = (span.start() + span.len()) as usize;
        if end > space.used {
            space.used = end;
            self.views.set_used(end);
        }
        Ok(span)
    }

    /// Takes a piece back that nobody of this process runs. `pending` as above.
    fn put_back(&self, span: Span, pending: bool) {
        let mut guard = lock(&self.space);
        let space = &mut *guard;
        space.installed -= span.len() as usize;
        space.pieces -= 1;
        if pending { space.held_back.push(span) } else { self.clear(&mut space.free, span) }
    }

    /// Makes a piece free that nobody runs, not even a child.
    fn clear(&self, free: &mut FreeList, span: Span) {
        // SAFETY: the span is owned and run by nobody; `install` and `free` have asked whether this process
        // is the one.
        unsafe { self.views.write(span.start() as usize, &[], span.len() as usize) };
        free.give_back(span);
    }

    /// Returns memory of large free parts to the system; where code was freed page by page it stays
    /// otherwise, for the next. Costs a system call for each such part, so it is for moments of rest after
    /// much was freed. Bytes of memory are returned that may have been in use.
    pub fn trim(&self) -> usize {
        if self.lineage.is_inherited() {
            return 0;
        }
        let space = lock(&self.space);
        let parts = space.free.parts().filter(|part| part.len() >= TRIM_FROM && part.start < space.used);
        // SAFETY: nobody owns what is free, and nobody, not even a child, runs it: that is held back.
        parts.map(|part| unsafe { self.views.discard(part.start..part.end.min(space.used)) }).sum()
    }

    /// The addresses that code of this region can have.
    pub fn range(&self) -> Range<usize> {
        self.views.executable()..self.views.executable() + self.views.len()
    }

    /// How much of the region is used for what. `None` in a child, which cannot know.
    pub fn usage(&self) -> Option<Usage> {
        if self.lineage.is_inherited() {
            return None;
        }
        let space = lock(&self.space);
        let held_back = space.held_back.iter().map(|span| span.len() as usize).sum();
        let (installed, pieces) = (space.installed, space.pieces);
        Some(Usage { capacity: self.views.len(), installed, pieces, held_back })
    }

    /// One line for people: what is in use, or that this process has what it inherited.
    pub fn status(&self) -> String {
        let Some(usage) = self.usage() else { return "inherited by a fork: nothing is added".into() };
        let kib = |bytes: usize| bytes.div_ceil(1024);
        let (installed, capacity) = (kib(usage.installed), kib(usage.capacity));
        let pieces = usage.pieces;
        format!("{installed} KiB of {capacity} KiB in {pieces} piece{}", if pieces == 1 { "" } else { "s" })
    }
}

impl fmt::Debug for CodeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeMemory({:#x}, {})", self.views.executable(), self.status())
    }
}

/// A piece of installed code. Dropping it leaves the code where it is, for good.
#[derive(Debug)]
pub struct Code {
    start: usize,
    len: usize,
    span: Span,
    /// Never dropped unless the code is freed: a region with code in it stays mapped.
    memory: ManuallyDrop<Arc<CodeMemory>>,
}

impl Code {
    /// Where it is executed: the address of its first byte.
    pub fn address(&self) -> usize {
        self.start
    }

    /// Its bytes, without padding.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: there is no code without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The addresses it has.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// The bytes as they lie in memory.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the executable view can be read, and the piece does not change until it is freed, which
        // takes `self`.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }
    }

    /// Gives the piece back. In a child of a fork nothing happens: the memory is its parent's to manage.
    ///
    /// # Safety
    /// No thread is in the code, none will return into it, and none has its address to jump to.
    pub unsafe fn free(self) {
        let Code { span, memory, .. } = self;
        if memory.lineage.is_inherited() {
            return;
        }
        let memory = ManuallyDrop::into_inner(memory);
        memory.put_back(span, fork::copies_pending());
    }
}

#[cfg(test)]
pub(crate) mod tests;
