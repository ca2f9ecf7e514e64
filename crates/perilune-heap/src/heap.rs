//! The heap as the program sees it: allocation. The write barrier is in `heap/barrier.rs`, limits are in
//! `heap/limits.rs`.
//!
//! Allocation bumps a cursor through a *span* of free lines and sets the object's start bit. When the span is
//! used up, the slow path takes the next run of free lines of the block, or the next block. A *medium* object
//! (over one line) that does not fit into a hole goes to a second target, the *overflow* span in a block that
//! was free, so that it neither wastes the hole nor searches. When no block is free, holes are skipped
//! instead: mapping a chunk for each medium object that meets a short hole would let a fragmented heap grow
//! without bound.
//!
//! The *budget* counts down by what is handed out (spans, large objects, external memory). When it is used
//! up, `due` is set; the next safepoint calls [`Heap::step`].

mod barrier;
mod limits;

use crate::account::{PORTION, Reported};
use crate::blocks::{BlockSpace, POISON};
use crate::clock::ProcessorClock;
use crate::large::{LargeSpace, size_of_large};
use crate::layout::*;
use crate::pace::Pace;
use crate::stats::HeapStats;
use crate::table::ChunkTable;
use crate::verify::Verifying;
use crate::{Header, HeapOptions, Obj, OutOfMemory, Params, shortage};
use std::time::Instant;

/// Larger objects live in the large-object space.
pub(crate) const LARGEST_SMALL: usize = 8 << 10;
/// A hole with fewer bytes left is given up when an object does not fit.
const WORTH_KEEPING: usize = 1 << 10;
/// When the current epoch reaches this, all headers are stamped anew. The epochs of what is watched or
/// frozen, islands among it, are above it and never current.
pub(crate) const LAST_EPOCH: u32 = crate::WATCHED - 16;

/// A run of free lines being filled.
#[derive(Clone, Copy, Default)]
pub(crate) struct Span {
    cursor: usize,
    end: usize,
    start: usize,
}

/// What is being filled: what a scope puts aside.
pub(crate) struct Targets {
    main: Span,
    overflow: Span,
    block: Option<BlockRef>,
    used: [u64; 4],
}

/// What a major marking carries from slice to slice.
#[derive(Default)]
pub(crate) struct Major {
    /// A marking is in progress.
    pub active: bool,
    /// Marked, not traced.
    pub stack: Vec<Obj>,
    /// Unfinished parts of objects.
    pub parts: Vec<(Obj, usize)>,
    /// Objects changed after they were marked; their marks have been taken back.
    pub regrey: Vec<Obj>,
    /// Ranges of addresses changed in large buffers of marked owners.
    pub ranges: Vec<(Obj, usize, usize)>,
    /// Bytes of the objects marked so far.
    pub bytes: usize,
    /// Times the roots were scanned with marking left to do.
    pub rescans: u32,
    /// A marked object may refer to one that is not marked, though neither waits (`mark.rs`).
    pub lost: bool,
}

/// The private heap of one domain.
#[repr(C)]
pub struct Heap {
    cursor: usize,
    end: usize,
    epoch: u32,
    due: bool,
    pub(crate) stress: bool,
    running: bool,
    poison: bool,
    start: usize,
    /// Bytes that have not been allocated, though the program has asked for them ([`Heap::count_unmade`]).
    unmade: u64,
    /// Bytes that may be handed out before a collection is due.
    pub(crate) budget: isize,
    overflow: Span,
    /// The block that `cursor` is in, if any.
    block: Option<BlockRef>,
    /// Lines of `block` that are used or have been handed out.
    used: [u64; 4],
    /// Bytes of spans that were filled since the last collection.
    pub(crate) filled: usize,
    /// Bytes of large objects allocated since the last collection.
    pub(crate) young_large: usize,
    /// Bytes of objects that have survived a collection and have not been found dead.
    pub(crate) old_bytes: usize,
    external: usize,
    limit: usize,
    /// The current mark bitmap.
    pub(crate) side: Side,
    pub(crate) blocks: BlockSpace,
    pub(crate) large: LargeSpace,
    pub(crate) table: ChunkTable,
    /// Old objects stored into since the last collection.
    pub(crate) log: Vec<Obj>,
    /// Parts of large buffers stored into since the last collection: old owner, buffer, card.
    pub(crate) card_log: Vec<(Obj, Obj, u32)>,
    /// An old object may have been stored into without being in either: they could not grow (`mark.rs`).
    pub(crate) log_lost: bool,
    /// Entries that lists of the collector may have: all, but in tests.
    pub(crate) list_limit: usize,
    pub(crate) minor_stack: Vec<Obj>,
    pub(crate) major: Major,
    pub(crate) pace: Pace,
    pub(crate) verifying: Verifying,
    pub(crate) params: Params,
    pub(crate) stats: HeapStats,
    pub(crate) clock: Instant,
    pub(crate) processor: ProcessorClock,
    pub(crate) last_trim: u64,
    /// Processor time when the step in progress began.
    pub(crate) step_began_cpu: u64,
    /// Processor time when the last minor collection ended.
    pub(crate) last_minor: u64,
    /// The thread that did it, and when, in nanoseconds of the heap's clock: a heap may go from thread to
    /// thread.
    pub(crate) last_minor_by: usize,
    pub(crate) last_minor_at: u64,
    pub(crate) islands: crate::island::held::Held,
    pub(crate) scopes: crate::arena::Scopes,
    pub(crate) sampling: crate::sample::Sampling,
    /// Nanoseconds that the last step took.
    pub(crate) last_pause: u64,
    /// Live and mapped bytes when they were last reported to a trace.
    pub(crate) reported: (usize, usize),
    /// What the whole program's account has of this heap.
    pub(crate) account: Reported,
    /// See [`Heap::stay_mapped`].
    stays_mapped: bool,
}

// SAFETY: the raw addresses inside refer to memory that this heap owns; it may move to another thread as a
// whole.
unsafe impl Send for Heap {}

impl Heap {
    /// Byte offset of the current epoch (a `u32`) in [`Heap`].
    pub const EPOCH_OFFSET: usize = core::mem::offset_of!(Heap, epoch);
    /// Byte offset of the flag (a `bool`) that [`Heap::gc_due`] reads.
    pub const DUE_OFFSET: usize = core::mem::offset_of!(Heap, due);

    /// An empty heap; maps nothing before the first allocation.
    pub fn new(options: HeapOptions) -> Heap {
        let pace = Pace::new(&options);
        Heap {
            cursor: 0,
            end: 0,
            epoch: options.first_epoch,
            due: options.stress,
            unmade: 0,
            stress: options.stress,
            running: true,
            poison: options.poison,
            verifying: Verifying::new(options.verify, options.verify_every),
            start: 0,
            budget: pace.nursery as isize,
            overflow: Span::default(),
            block: None,
            used: [!0; 4],
            filled: 0,
            young_large: 0,
            old_bytes: 0,
            external: 0,
            limit: options.limit.unwrap_or(usize::MAX),
            side: Side(0),
            blocks: BlockSpace::new(options.small_page_chunks, options.poison),
            large: LargeSpace::new(options.poison),
            table: ChunkTable::new(),
            log: Vec::new(),
            card_log: Vec::new(),
            log_lost: false,
            list_limit: usize::MAX,
            minor_stack: Vec::new(),
            major: Major::default(),
            pace,
            params: Params::default(),
            stats: HeapStats::default(),
            clock: Instant::now(),
            processor: ProcessorClock::default(),
            last_trim: 0,
            step_began_cpu: 0,
            last_minor: 0,
            last_minor_by: 0,
            last_minor_at: 0,
            stays_mapped: false,
            islands: Default::default(),
            scopes: Default::default(),
            sampling: Default::default(),
            last_pause: 0,
            reported: (0, 0),
            account: Reported::default(),
        }
    }

    /// Takes what a heap needs to begin with: memory for its first objects, and the reserve for the moment
    /// when there is no more. After that small objects can be allocated until the next safepoint, whatever
    /// the system says.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn prepare(&mut self) -> Result<(), OutOfMemory> {
        if self.blocks.prepare(&mut self.table) { Ok(()) } else { Err(self.refuse(2 * CHUNK)) }
    }

    /// From now on the collector's lists do not grow beyond about so many entries, as if the system gave no
    /// memory for them: for tests.
    #[doc(hidden)]
    pub fn limit_lists(&mut self, entries: usize) {
        self.list_limit = entries;
    }

    /// Nanoseconds on the heap's clock, at least 1.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64 + 1
    }

    /// Allocates `bytes` (header included) and initialises the header: current epoch, `kind`, no flags. The
    /// caller initialises the body before the next allocation or safepoint. Never collects, takes no notice
    /// of the limit (see [`Heap::over_limit`]); aborts only if the system gives none and the reserve
    /// ([`Heap::prepare`]) is used up too.
    #[inline(always)]
    pub fn alloc(&mut self, kind: u8, bytes: usize) -> Obj {
        let at = self.cursor;
        // Cursor and end are multiples of 16: what fits, fits rounded up. Zero goes the slow way.
        if bytes.wrapping_sub(1) < self.end - at {
            let size = (bytes + (GRANULE - 1)) & !(GRANULE - 1);
            self.cursor = at + size;
            // SAFETY: `at..at + size` lies in the current span, which belongs to nobody else.
            return unsafe { self.init_small(at, kind, size) };
        }
        self.alloc_slow(kind, bytes)
    }

    /// Writes header and start bit.
    ///
    /// # Safety
    /// `at..at + size` is free memory in a block of this heap.
    #[inline(always)]
    unsafe fn init_small(&mut self, at: usize, kind: u8, size: usize) -> Obj {
        let header = Header { epoch: self.epoch, kind, flags: 0, granules: (size / GRANULE) as u16 };
        let byte = (chunk_base(at) + STARTS + (at & (CHUNK - 1)) / LINE) as *mut u8;
        // SAFETY: free memory of ours, says the caller, and the table of starts of its chunk.
        unsafe {
            *byte |= 1 << (at / GRANULE % 8);
            (at as *mut Header).write(header);
            obj_at(at)
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, kind: u8, bytes: usize) -> Obj {
        self.put_end_back();
        match self.alloc_anywhere(kind, bytes) {
            Some(obj) => {
                if self.is_sampling() && bytes <= LARGEST_SMALL {
                    self.count_for_samples(obj, bytes.max(1).next_multiple_of(GRANULE));
                }
                obj
            }
            None => std::alloc::handle_alloc_error(
                core::alloc::Layout::from_size_align(bytes.min(isize::MAX as usize / 2), GRANULE)
                    .expect("16 is a power of two"),
            ),
        }
    }

    fn alloc_anywhere(&mut self, kind: u8, bytes: usize) -> Option<Obj> {
        if bytes > LARGEST_SMALL {
            return self.alloc_large(kind, bytes);
        }
        let size = bytes.max(1).next_multiple_of(GRANULE);
        let at = loop {
            if size <= self.end - self.cursor {
                self.cursor += size;
                break self.cursor - size;
            }
            let left = self.end - self.cursor;
            if size > LINE {
                if size <= self.overflow.end - self.overflow.cursor {
                    break self.take_overflow(size);
                }
                // A hole that has room for small objects is worth keeping if a free block is at hand;
                // otherwise it is skipped until the next sweep finds it again.
                if left >= WORTH_KEEPING && self.blocks.has_free() {
                    self.open_overflow()?;
                    continue;
                }
            }
            self.next_span(size)?;
        };
        // SAFETY: taken from a span just now.
        Some(unsafe { self.init_small(at, kind, size) })
    }

    fn alloc_large(&mut self, kind: u8, bytes: usize) -> Option<Obj> {
        let size = bytes.checked_next_multiple_of(GRANULE).filter(|s| *s < isize::MAX as usize / 2)?;
        let at = self.large.alloc(&mut self.table, size, self.scopes.depth())?;
        self.scopes.count_large();
        self.young_large += size;
        self.spend(size);
        // SAFETY: fresh room for an object.
        unsafe {
            at.write(Header { epoch: self.epoch, kind, flags: 0, granules: 0 });
            let obj = Obj::new_unchecked(at);
            if self.is_sampling() {
                self.count_for_samples(obj, size);
            }
            Some(obj)
        }
    }

    fn take_overflow(&mut self, size: usize) -> usize {
        self.overflow.cursor += size;
        self.overflow.cursor - size
    }

    /// Replaces the overflow span by one in a free block.
    fn open_overflow(&mut self) -> Option<()> {
        let clock = self.clock;
        let now = || clock.elapsed().as_nanos() as u64 + 1;
        let block = match self.scopes.depth() {
            0 => self.blocks.acquire_free(&mut self.table, now)?,
            depth => self.blocks.acquire_for(depth, &mut self.table, now)?,
        };
        self.filled += self.overflow.cursor - self.overflow.start;
        self.budget += (self.overflow.end - self.overflow.cursor) as isize;
        self.overflow = Span { cursor: block.at(), start: block.at(), end: block.at() + BLOCK };
        self.open_span(block.at(), BLOCK);
        Some(())
    }

    /// Moves the cursor to the next run of free lines that holds `size` bytes.
    fn next_span(&mut self, size: usize) -> Option<()> {
        self.filled += self.cursor - self.start;
        // What is skipped has not been handed out.
        self.budget += (self.end - self.cursor) as isize;
        self.start = self.cursor;
        self.end = self.cursor;
        loop {
            if let (Some(block), Some((first, lines))) = (self.block, take_hole(&mut self.used)) {
                if lines * LINE < size {
                    continue;
                }
                self.cursor = block.at() + first * LINE;
                self.start = self.cursor;
                self.end = self.cursor + lines * LINE;
                self.open_span(self.cursor, lines * LINE);
                return Some(());
            }
            let clock = self.clock;
            let now = || clock.elapsed().as_nanos() as u64 + 1;
            let block = match self.scopes.depth() {
                0 => self.blocks.acquire(&mut self.table, self.side, now)?,
                depth => self.blocks.acquire_for(depth, &mut self.table, now)?,
            };
            self.used = block.occupancy(self.side);
            self.block = Some(block);
        }
    }

    fn open_span(&mut self, at: usize, bytes: usize) {
        if self.poison {
            // SAFETY: free lines of a block of ours.
            unsafe { core::ptr::write_bytes(at as *mut u8, POISON, bytes) };
        }
        self.spend(bytes);
    }

    /// Takes the current spans away: nothing is being filled.
    pub(crate) fn take_targets(&mut self) -> Targets {
        self.put_end_back();
        self.filled += (self.cursor - self.start) + (self.overflow.cursor - self.overflow.start);
        let main = Span { cursor: self.cursor, start: self.cursor, end: self.end };
        let overflow = Span { start: self.overflow.cursor, ..self.overflow };
        (self.cursor, self.start, self.end) = (0, 0, 0);
        self.overflow = Span::default();
        self.put_end_forward();
        Targets {
            main,
            overflow,
            block: self.block.take(),
            used: core::mem::replace(&mut self.used, [!0; 4]),
        }
    }

    /// Puts back what [`Heap::take_targets`] took.
    pub(crate) fn put_targets(&mut self, targets: Targets) {
        self.put_end_back();
        self.filled += (self.cursor - self.start) + (self.overflow.cursor - self.overflow.start);
        (self.cursor, self.start, self.end) = (targets.main.cursor, targets.main.start, targets.main.end);
        self.overflow = targets.overflow;
        self.block = targets.block;
        self.used = targets.used;
        self.put_end_forward();
    }

    /// Gives up the current spans: their blocks take part in the sweep. Returns the bytes allocated since the
    /// last collection.
    pub(crate) fn retire_spans(&mut self) -> usize {
        let young = self.young_bytes();
        self.put_end_back();
        self.cursor = 0;
        self.start = 0;
        self.end = 0;
        self.block = None;
        self.used = [!0; 4];
        self.overflow = Span::default();
        self.filled = 0;
        self.young_large = 0;
        self.put_end_forward();
        young
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Where the span ends, or the next sample point is.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    pub(crate) fn set_end(&mut self, end: usize) {
        self.end = end;
    }

    /// Bytes allocated since the last collection, those freed by ends of scopes not counted.
    pub fn bytes_since_collection(&self) -> usize {
        self.young_bytes()
    }

    /// Nanoseconds for which the last step stopped the program.
    pub fn last_pause_ns(&self) -> u64 {
        self.last_pause
    }

    fn young_bytes(&self) -> usize {
        self.filled
            + (self.cursor - self.start)
            + (self.overflow.cursor - self.overflow.start)
            + self.young_large
    }

    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.budget = self.budget.saturating_sub(bytes as isize);
        if self.budget <= 0 {
            self.due = self.running;
        }
        if self.blocks.refused || shortage::is_short() {
            self.due = true;
        }
        self.account.since += bytes;
        if self.account.since >= PORTION {
            self.report();
        }
    }

    /// So many bytes would have been allocated, but for somebody who has found out that nobody would see the
    /// objects. For when the next collection is due they count as if they had been: who waits for one makes
    /// garbage until it comes.
    pub fn count_unmade(&mut self, bytes: usize) {
        self.unmade += bytes as u64;
        self.budget = self.budget.saturating_sub(bytes as isize);
        if self.budget <= 0 {
            self.due = self.running;
        }
    }

    /// All bytes that have been allocated until the last collection, or would have been
    /// ([`Heap::count_unmade`]).
    pub(crate) fn all_bytes(&self) -> u64 {
        self.stats.allocated_bytes + self.unmade
    }

    pub(crate) fn set_due(&mut self, due: bool) {
        self.due = due;
    }

    /// Fixes when the next collection is due.
    pub(crate) fn refill_budget(&mut self, bytes: usize) {
        self.budget = bytes as isize;
        self.due = self.stress && self.running;
    }

    /// Like [`Heap::alloc`] for sizes that come from the program.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the heap would hold more than its byte limit, or the program more than its, or the
    /// system refuses.
    pub fn try_alloc(&mut self, kind: u8, bytes: usize) -> Result<Obj, OutOfMemory> {
        if !self.has_room(bytes) {
            return Err(self.refuse(bytes));
        }
        if bytes <= LARGEST_SMALL {
            return Ok(self.alloc(kind, bytes));
        }
        self.alloc_large(kind, bytes).ok_or_else(|| self.refuse(bytes))
    }

    /// The current epoch. Changes with every collection.
    #[inline(always)]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Whether [`Heap::step`] has something to do.
    #[inline(always)]
    pub fn gc_due(&self) -> bool {
        self.due
    }

    /// Bytes of `obj`, header included, rounded up to 16.
    ///
    /// # Safety
    /// `obj` is an object of this heap or of an island that has not been freed.
    #[inline]
    pub unsafe fn size_of(&self, obj: Obj) -> usize {
        // SAFETY: the caller's promise; without a size in its header it is a large object.
        unsafe {
            match (*obj.as_ptr()).granules {
                0 => size_of_large(obj),
                g => g as usize * GRANULE,
            }
        }
    }

    /// Whether `obj` was born since the last collection.
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed.
    #[inline]
    pub unsafe fn is_young(&self, obj: Obj) -> bool {
        // SAFETY: `obj` is a live object of this heap.
        !unsafe { get_bit(obj.as_ptr() as usize, self.side.offset()) }
    }

    /// Bytes mapped from the system now, resting ones included.
    pub fn mapped_bytes(&self) -> usize {
        (self.blocks.chunks.len() + self.blocks.idle_chunks()) * CHUNK + self.large.mapped
    }

    /// Bytes that the program holds: what was allocated and has not been found dead, external memory
    /// included. Exact to the 16 bytes that sizes are rounded to.
    pub fn live_bytes(&self) -> usize {
        self.old_bytes + self.young_bytes() + self.external
    }

    /// A step is due at the next safepoint.
    pub fn make_due(&mut self) {
        self.due |= self.running;
    }

    /// Stops automatic collection: [`Heap::gc_due`] stays false.
    pub fn stop(&mut self) {
        self.running = false;
        self.due = false;
    }

    /// Restarts automatic collection.
    pub fn restart(&mut self) {
        self.running = true;
        self.due = self.stress || self.budget <= 0 || self.scopes.is_spoilt();
    }

    /// Whether automatic collection is on.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Turns the stress mode on or off: a collection is due at every safepoint.
    pub fn set_stress(&mut self, on: bool) {
        self.stress = on;
        self.due = self.running && (on || self.budget <= 0);
    }

    /// Whether the stress mode is on.
    #[inline]
    pub fn is_stress(&self) -> bool {
        self.stress
    }

    /// The parameters.
    pub fn params(&self) -> Params {
        self.params
    }

    /// Changes the parameters.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
        self.pace.set_threshold(self.old_bytes + self.external, &params, self.limit_or_max());
    }

    /// Sets the nursery's size in bytes (at least 64 KiB) and stops tuning it; `None` goes back to tuning.
    pub fn set_nursery(&mut self, bytes: Option<usize>) {
        self.pace.fix_nursery(bytes);
    }

    /// The object that `word` points to or into, if any. Interior pointers count, one past the end does not.
    pub fn find_object(&self, word: usize) -> Option<Obj> {
        let chunk = self.table.find(word)?;
        let head = chunk.head();
        if head.kind != ChunkKind::Small {
            return self.large.find(chunk, word, self.side);
        }
        let offset = word - chunk.base();
        if offset < META {
            return None;
        }
        let block = chunk.block(offset / BLOCK);
        // Dead objects of an unswept block still have start bits.
        let unswept = head.unswept.get() & block.bit() != 0;
        // SAFETY: the tables of a mapped chunk are mapped.
        let (starts, marks) = unsafe { (&*block.words(STARTS), &*block.words(self.side.offset())) };
        let granule = offset % BLOCK / GRANULE;
        let mut at = granule / 64;
        let mut mask = !0u64 >> (63 - granule % 64);
        loop {
            let valid = if unswept { starts[at] & marks[at] } else { starts[at] } & mask;
            if valid != 0 {
                let start = block.at() + (at * 64 + 63 - valid.leading_zeros() as usize) * GRANULE;
                // SAFETY: an object with a start bit has an intact header.
                let (obj, size) = unsafe { (obj_at(start), self.size_of(obj_at(start))) };
                return (word < start + size).then_some(obj);
            }
            if at == 0 {
                return None;
            }
            at -= 1;
            mask = !0;
        }
    }

    /// Whether `obj` is an object of this heap, neither freed nor found dead. For assertions.
    pub fn is_allocated(&self, obj: Obj) -> bool {
        self.find_object(obj.as_ptr() as usize) == Some(obj)
    }

    /// The heap's memory is not given back when it is dropped: the process is about to end, and the system
    /// takes all at once.
    pub fn stay_mapped(&mut self) {
        self.stays_mapped = true;
    }

    /// Figures about this heap.
    pub fn stats(&self) -> HeapStats {
        let (used_blocks, free_blocks, idle_chunks) = self.blocks.census();
        let small_chunks = self.blocks.chunks.len() + idle_chunks;
        HeapStats {
            live_bytes: self.live_bytes(),
            external_bytes: self.external,
            small_chunks,
            idle_chunks,
            used_blocks,
            free_blocks,
            large_bytes: self.large.bytes,
            large_objects: self.large.all().count(),
            mapped_bytes: self.mapped_bytes(),
            occupancy_percent: self.blocks.occupancy_percent,
            nursery_bytes: self.pace.nursery,
            ..self.stats.clone()
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.release_islands();
        if !self.stays_mapped {
            self.blocks.give_up();
            self.large.unmap_all();
        }
    }
}

/// Takes the first run of clear bits out of `used`: (first line, lines).
fn take_hole(used: &mut [u64; 4]) -> Option<(usize, usize)> {
    let word = used.iter().position(|w| *w != !0)?;
    let bit = used[word].trailing_ones();
    let first = word * 64 + bit as usize;
    // Most holes of a fragmented heap are a few lines in the middle of a word.
    let rest = used[word] >> bit;
    if rest != 0 {
        let lines = rest.trailing_zeros();
        used[word] |= ((1 << lines) - 1) << bit;
        return Some((first, lines as usize));
    }
    let mut end = first;
    while end < LINES_PER_BLOCK {
        let rest = used[end / 64] >> (end % 64);
        if rest != 0 {
            end += rest.trailing_zeros() as usize;
            break;
        }
        end = (end / 64 + 1) * 64;
    }
    for (w, bits) in used.iter_mut().enumerate() {
        let (lo, hi) = (first.max(w * 64), end.min(w * 64 + 64));
        if lo < hi {
            *bits |= (!0 >> (64 - (hi - lo))) << (lo % 64);
        }
    }
    Some((first, end - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_taken_in_order_and_completely() {
        let mut seed = 7u64;
        for _ in 0..2000 {
            let mut used = [0u64; 4];
            for w in &mut used {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *w = match seed >> 61 {
                    0 => 0,
                    1 => !0,
                    _ => seed | seed >> 11,
                };
            }
            let free = |u: &[u64; 4], l: usize| u[l / 64] >> (l % 64) & 1 == 0;
            let before = used;
            let mut covered = [false; 256];
            let mut last = 0;
            while let Some((first, lines)) = take_hole(&mut used) {
                assert!(lines > 0 && first >= last);
                assert!((first..first + lines).all(|l| free(&before, l)));
                assert!(first + lines == 256 || !free(&before, first + lines));
                covered[first..first + lines].fill(true);
                last = first + lines;
            }
            assert!((0..256).all(|l| covered[l] == free(&before, l)));
        }
    }
}
