//! The block space: where free lines come from, and how blocks are swept.
//!
//! Every usable block is in exactly one of these places:
//!
//! * `chunk.free`: free, cold. All its metadata is zero.
//! * `warm`: free, emptied by a recent minor collection, probably still in a cache; taken last-in first-out,
//!   so that a program whose objects die young runs in the same few blocks.
//! * `holey`: swept, partly occupied, with enough free lines to be worth a visit.
//! * `touched`: allocated into since the last collection; one or two of them are the current targets.
//! * `chunk.unswept`: survived the last major marking, start bits not yet reconciled with marks.
//! * in no list: swept and as good as full; it comes back after the next major.
//!
//! Blocks are taken in the order warm, holey, unswept (sweeping them on the way), cold, idle chunk, new
//! chunk. Whole free blocks come first although Immix would fill holes first: minor collections return mostly
//! empty blocks, and as the order never maps a chunk while a hole is left, fragmentation stays bounded by the
//! last major's.
//!
//! Cold blocks are taken from the fullest chunk (`avail` is sorted when a sweep ends), so that sparse chunks
//! drain and become *idle*. Idle chunks are given to the system when they have rested: `MADV_FREE` after a
//! second, unmapped after ten. Chunks that stay half empty for ten seconds have the pages of their free
//! blocks returned, which splits the huge page: rejected as a general policy, accepted for the valley after a
//! spike.

use crate::layout::*;
use crate::sys::memory;
use crate::table::ChunkTable;
use crate::warm::{self, Warm};

/// A swept block with fewer free lines is left alone until the next major.
const WORTH_A_VISIT: u32 = 16;
/// Nanoseconds after which an idle chunk's pages may be taken by the system.
const RELEASE_AFTER: u64 = 1_000_000_000;
/// Nanoseconds after which idle memory is returned.
const RETURN_AFTER: u64 = 10_000_000_000;
/// Blocks that the end of a scope leaves warm.
const MOST_WARM: usize = 256;
/// What free memory is filled with when poisoning is on.
pub const POISON: u8 = 0xA5;

/// An empty chunk, waiting. It is in no other list and not in the chunk table, since the system may take its
/// header.
struct Idle {
    chunk: ChunkRef,
    huge_pages: bool,
    since: u64,
    released: bool,
}

/// The chunks of small objects and the lists of their blocks.
pub struct BlockSpace {
    /// All chunks but the idle ones.
    pub chunks: Vec<ChunkRef>,
    /// Chunks with cold free blocks, fullest last.
    avail: Vec<ChunkRef>,
    idle: Vec<Idle>,
    warm: Vec<BlockRef>,
    holey: Vec<BlockRef>,
    pub touched: Vec<BlockRef>,
    /// While a scope ends: its blocks without survivors.
    pub scope_freed: Vec<BlockRef>,
    /// Index into `chunks` where the sweep goes on; `None` when everything is swept.
    sweep_at: Option<usize>,
    /// Lines found used, and lines seen, by the sweep in progress.
    swept_lines: (usize, usize),
    /// Percentage of used lines in used blocks after the last complete sweep.
    pub occupancy_percent: u32,
    /// The first chunks are backed by small pages: a small heap must not pay for huge ones.
    small_page_chunks: usize,
    poison: bool,
    /// A mapping kept for the moment when the system refuses more.
    reserve: Option<usize>,
    /// The system has refused a chunk and the reserve has not been replaced since.
    pub refused: bool,
}

/// What a sweep found in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swept {
    Free,
    Holey,
    Full,
}

impl BlockSpace {
    pub fn new(small_page_chunks: usize, poison: bool) -> BlockSpace {
        BlockSpace {
            chunks: Vec::new(),
            avail: Vec::new(),
            idle: Vec::new(),
            warm: Vec::new(),
            holey: Vec::new(),
            touched: Vec::new(),
            scope_freed: Vec::new(),
            sweep_at: None,
            swept_lines: (0, 0),
            occupancy_percent: 100,
            small_page_chunks,
            poison,
            reserve: None,
            refused: false,
        }
    }

    /// A block with at least one free line; `None` only if the system refuses memory and the reserve is used
    /// up.
    pub fn acquire(&mut self, table: &mut ChunkTable, side: Side, now: impl Fn() -> u64) -> Option<BlockRef> {
        let block = if let Some(b) = self.warm.pop() {
            b
        } else if let Some(b) = self.holey.pop() {
            b
        } else if let Some(b) = self.sweep_for_room(side) {
            b
        } else {
            self.cold_block(table, now)?
        };
        self.touched.push(block);
        Some(block)
    }

    /// A first chunk, if there is none, and a reserve; false if the system refuses.
    pub fn prepare(&mut self, table: &mut ChunkTable) -> bool {
        if self.chunks.is_empty() {
            let Some(fresh) = self.fresh_chunk(table) else { return false };
            self.avail.push(fresh);
        }
        self.replenish();
        self.reserve.is_some()
    }

    /// Whether a block without any object is at hand.
    pub fn has_free(&self) -> bool {
        !self.warm.is_empty() || self.avail.iter().any(|c| c.head().free.get() != 0)
    }

    /// As [`BlockSpace::acquire_free`], for a scope.
    pub fn acquire_for(
        &mut self,
        depth: u8,
        table: &mut ChunkTable,
        now: impl Fn() -> u64,
    ) -> Option<BlockRef> {
        let block = self.acquire_free(table, now)?;
        block.chunk().head().depth[block.index()].set(depth);
        Some(block)
    }

    /// Overwrites the dead objects of a block if that is wanted.
    pub fn poison_dead(&self, block: BlockRef, side: Side) {
        if self.poison {
            poison_dead(block, side);
        }
    }

    /// Blocks that the end of a scope has emptied are free again: warm, so many as a cache may hold, the one
    /// that was filled first is taken first; the rest cold, so that chunks become idle.
    pub fn take_scope_freed(&mut self, table: &mut ChunkTable, now: impl Fn() -> u64) {
        let warm = MOST_WARM.saturating_sub(self.warm.len()).min(self.scope_freed.len());
        let cold = self.scope_freed.len() - warm;
        for block in self.scope_freed.drain(warm..) {
            raise(&block.chunk().head().free, block.bit());
        }
        self.warm.extend(self.scope_freed.drain(..).rev());
        if cold != 0 {
            // The sweep counts chunks by their place in the list.
            if self.sweep_at.is_none() {
                self.retire_empty(table, now());
            }
            self.sort_avail();
        }
    }

    /// A block without any object.
    pub fn acquire_free(&mut self, table: &mut ChunkTable, now: impl Fn() -> u64) -> Option<BlockRef> {
        let block = match self.warm.pop() {
            Some(b) => b,
            None => self.cold_block(table, now)?,
        };
        self.touched.push(block);
        Some(block)
    }

    fn cold_block(&mut self, table: &mut ChunkTable, now: impl Fn() -> u64) -> Option<BlockRef> {
        loop {
            let Some(&chunk) = self.avail.last() else {
                let fresh = self.fresh_chunk(table)?;
                self.avail.push(fresh);
                continue;
            };
            let head = chunk.head();
            let free = head.free.get();
            if free == 0 {
                self.avail.pop();
                continue;
            }
            let index = free.trailing_zeros() as usize;
            head.free.set(free & (free - 1));
            raise(&head.taken, 1 << index);
            clear(&head.returned, 1 << index);
            head.quiet_since.set(now());
            return Some(chunk.block(index));
        }
    }

    fn fresh_chunk(&mut self, table: &mut ChunkTable) -> Option<ChunkRef> {
        let (chunk, huge_pages, taken) = match self.idle.pop() {
            Some(idle) => (idle.chunk, idle.huge_pages, ALL_BLOCKS),
            None => self.mapped_chunk()?,
        };
        Self::write_head(chunk, huge_pages, taken);
        self.chunks.push(chunk);
        table.insert(chunk, CHUNK);
        Some(chunk)
    }

    /// A chunk from outside, whether it has huge pages, and the blocks that may have pages.
    fn mapped_chunk(&mut self) -> Option<(ChunkRef, bool, u64)> {
        let huge = self.chunks.len() >= self.small_page_chunks;
        let left = if self.chunks.is_empty() && !huge { warm::take() } else { None };
        let found = match left {
            Some(left) => {
                self.reserve = self.reserve.or(left.reserve);
                (left.chunk, false, warm::TAKEN)
            }
            None => {
                let base = memory::map(CHUNK, huge).or_else(|| {
                    self.refused = true;
                    self.reserve.take()
                })?;
                // SAFETY: just mapped, for this heap alone; the header is written before anybody else has it.
                (unsafe { ChunkRef::at(base) }, huge, 0)
            }
        };
        if !self.refused && self.reserve.is_none() {
            self.reserve = memory::map(CHUNK, false);
        }
        Some(found)
    }

    fn write_head(chunk: ChunkRef, huge_pages: bool, taken: u64) {
        let head = Chunk::new(ChunkKind::Small, huge_pages, CHUNK);
        head.free.set(ALL_BLOCKS);
        head.taken.set(taken);
        // SAFETY: the chunk is mapped and its header room is used for nothing else.
        unsafe { (chunk.base() as *mut Chunk).write(head) };
    }

    /// Drops the start bits of unmarked objects in a block, poisons what they covered, counts the free lines.
    /// After a major (`major`), the other side's marks, which are the superseded ones, are wiped as well.
    fn sweep_block(&mut self, block: BlockRef, side: Side, major: bool) -> (Swept, u32) {
        if self.poison {
            poison_dead(block, side);
        }
        // SAFETY: the tables of a mapped chunk are mapped, distinct, and only this thread uses them.
        unsafe {
            let starts = &mut *block.words(STARTS);
            let marks = &*block.words(side.offset());
            for (s, m) in starts.iter_mut().zip(marks) {
                *s &= m;
            }
            if major {
                (*block.words(side.other().offset())).fill(0);
                for l in (*block.lines()).iter_mut() {
                    *l &= side.line_bit();
                }
            }
        }
        let used: u32 = block.occupancy(side).iter().map(|w| w.count_ones()).sum();
        let free = LINES_PER_BLOCK as u32 - used;
        let found = match free {
            256 => Swept::Free,
            WORTH_A_VISIT.. => Swept::Holey,
            _ => Swept::Full,
        };
        (found, used)
    }

    /// After a minor collection: sweeps the blocks allocated into since the last one.
    pub fn sweep_touched(&mut self, side: Side) {
        let touched = core::mem::take(&mut self.touched);
        for &block in &touched {
            match self.sweep_block(block, side, false).0 {
                Swept::Free => self.warm.push(block),
                Swept::Holey => self.holey.push(block),
                Swept::Full => {}
            }
        }
        self.touched = touched;
        self.touched.clear();
    }

    /// After a major marking: every used block awaits its sweep. No block is touched at this moment.
    pub fn begin_sweep(&mut self) {
        debug_assert!(self.touched.is_empty() && self.sweep_at.is_none());
        for block in self.warm.drain(..) {
            raise(&block.chunk().head().free, block.bit());
        }
        self.holey.clear();
        for chunk in &self.chunks {
            let head = chunk.head();
            head.unswept.set(ALL_BLOCKS & !head.free.get());
        }
        self.swept_lines = (0, 0);
        self.sweep_at = Some(0);
        self.sort_avail();
    }

    /// Whether blocks await their sweep.
    pub fn is_sweeping(&self) -> bool {
        self.sweep_at.is_some()
    }

    fn next_unswept(&mut self) -> Option<BlockRef> {
        let mut at = self.sweep_at?;
        while let Some(chunk) = self.chunks.get(at) {
            let head = chunk.head();
            let unswept = head.unswept.get();
            if unswept != 0 {
                let index = unswept.trailing_zeros() as usize;
                head.unswept.set(unswept & (unswept - 1));
                self.sweep_at = Some(at);
                return Some(chunk.block(index));
            }
            at += 1;
        }
        self.sweep_at = Some(at);
        None
    }

    /// Sweeps blocks until one has room; that one is taken.
    fn sweep_for_room(&mut self, side: Side) -> Option<BlockRef> {
        while let Some(block) = self.next_unswept() {
            let (found, used) = self.sweep_block(block, side, true);
            if found != Swept::Free {
                self.swept_lines.0 += used as usize;
                self.swept_lines.1 += LINES_PER_BLOCK;
            }
            if found != Swept::Full {
                return Some(block);
            }
        }
        None
    }

    /// Sweeps up to `blocks` blocks; true when none is left.
    pub fn sweep_some(&mut self, table: &mut ChunkTable, blocks: usize, side: Side, now: u64) -> bool {
        for _ in 0..blocks {
            let Some(block) = self.next_unswept() else {
                if self.sweep_at.take().is_some() {
                    let (used, all) = self.swept_lines;
                    self.occupancy_percent = (used * 100).checked_div(all).unwrap_or(100) as u32;
                    self.retire_empty(table, now);
                    self.sort_avail();
                }
                return true;
            };
            let (found, used) = self.sweep_block(block, side, true);
            match found {
                Swept::Free => {
                    raise(&block.chunk().head().free, block.bit());
                    continue;
                }
                Swept::Holey => self.holey.push(block),
                Swept::Full => {}
            }
            self.swept_lines.0 += used as usize;
            self.swept_lines.1 += LINES_PER_BLOCK;
        }
        false
    }

    /// Refills the reserve after a refusal, if there is memory again.
    pub fn replenish(&mut self) {
        if self.refused || self.reserve.is_none() {
            let idle = || {
                let at = self.idle.pop()?.chunk.base();
                memory::discard(at, CHUNK);
                Some(at)
            };
            self.reserve = self.reserve.or_else(idle).or_else(|| memory::map(CHUNK, false));
            self.refused = self.reserve.is_none();
        }
    }

    /// Moves empty chunks to the idle ones.
    fn retire_empty(&mut self, table: &mut ChunkTable, now: u64) {
        let idle = &mut self.idle;
        self.chunks.retain(|&chunk| {
            let head = chunk.head();
            let empty = head.free.get() == ALL_BLOCKS;
            if empty {
                table.remove(chunk, CHUNK);
                idle.push(Idle { chunk, huge_pages: head.huge_pages, since: now, released: false });
            }
            !empty
        });
    }

    /// Finds the chunks that have cold blocks.
    fn sort_avail(&mut self) {
        self.avail.clear();
        self.avail.extend(self.chunks.iter().filter(|c| c.head().free.get() != 0));
        // Cached: the headers of a thousand chunks compete for one set of a cache.
        self.avail.sort_by_cached_key(|c| core::cmp::Reverse(c.head().free.get().count_ones()));
    }

    /// Gives rested memory back, about `left` bytes at most, from which it takes off what it has given. `now`
    /// is on the clock of the `now` given to [`BlockSpace::acquire`].
    pub fn trim(&mut self, now: u64, left: &mut usize) {
        self.idle.retain_mut(|idle| {
            let age = now.saturating_sub(idle.since);
            if *left == 0 || age < RELEASE_AFTER || (age < RETURN_AFTER && idle.released) {
                return true;
            }
            *left = left.saturating_sub(CHUNK);
            if age >= RETURN_AFTER {
                memory::unmap(idle.chunk.base(), CHUNK);
                return false;
            }
            memory::release(idle.chunk.base(), CHUNK);
            idle.released = true;
            true
        });
        for chunk in &self.avail {
            let head = chunk.head();
            let rested = now.saturating_sub(head.quiet_since.get()) >= RETURN_AFTER;
            if *left == 0 {
                break;
            }
            if !rested || head.free.get().count_ones() < 31 || head.free.get() & !head.returned.get() == 0 {
                continue;
            }
            let mut blocks = head.free.get() & !head.returned.get();
            while blocks != 0 {
                let first = blocks.trailing_zeros();
                let run = (blocks >> first).trailing_ones();
                memory::discard(chunk.block(first as usize).at(), run as usize * BLOCK);
                *left = left.saturating_sub(run as usize * BLOCK);
                blocks &= !(((1u128 << run) - 1) << first) as u64;
            }
            head.returned.set(head.free.get());
        }
    }

    /// (blocks in use, free blocks outside idle chunks, idle chunks)
    pub fn census(&self) -> (usize, usize, usize) {
        let free: usize = self.chunks.iter().map(|c| c.head().free.get().count_ones() as usize).sum();
        let all = self.chunks.len() * ALL_BLOCKS.count_ones() as usize;
        (all - free - self.warm.len(), free + self.warm.len(), self.idle.len())
    }

    /// Chunks that hold no object.
    pub fn idle_chunks(&self) -> usize {
        self.idle.len()
    }

    /// Gives up all memory: the first chunk is left to other heaps, the rest is unmapped.
    pub fn give_up(&mut self) {
        // An idle chunk would not do: its header may be gone. A panic may have left anything behind.
        if !std::thread::panicking()
            && !self.refused
            && self.chunks.first().is_some_and(|c| !c.head().huge_pages)
        {
            let warm = Warm { chunk: self.chunks.swap_remove(0), reserve: self.reserve.take() };
            warm::leave(warm, self.poison.then_some(POISON));
        }
        let idle = self.idle.drain(..).map(|i| i.chunk);
        for chunk in self.chunks.drain(..).chain(idle) {
            memory::unmap(chunk.base(), CHUNK);
        }
        if let Some(base) = self.reserve.take() {
            memory::unmap(base, CHUNK);
        }
    }
}

/// Overwrites the objects of a block that have a start bit but no mark.
fn poison_dead(block: BlockRef, side: Side) {
    for word in 0..WORDS_PER_BLOCK {
        // SAFETY: the tables of a mapped chunk are mapped.
        let mut dead = unsafe { (&*block.words(STARTS))[word] & !(&*block.words(side.offset()))[word] };
        while dead != 0 {
            let at = block.at() + (word * 64 + dead.trailing_zeros() as usize) * GRANULE;
            dead &= dead - 1;
            // SAFETY: an unmarked object with a start bit is intact, dead, and ends within its block.
            unsafe {
                let bytes = (*obj_at(at).as_ptr()).granules as usize * GRANULE;
                core::ptr::write_bytes(at as *mut u8, POISON, bytes);
            }
        }
    }
}
