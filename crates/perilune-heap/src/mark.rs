//! Marking: bits first, then a stack, then a short queue.
//!
//! [`Marker::mark`] tests and sets the child's bit and pushes the child if the bit was clear, so that every
//! object is pushed once. Popped objects pass through a queue of [`QUEUE`] entries; entering it prefetches
//! the object, so that its header and body are in a cache when it leaves. Only then is the object itself
//! touched: its size is charged, the lines it covers beyond its first are marked, and the client traces it.
//!
//! The same marker serves both collections, they differ in the bitmap (and in who calls). Minor: the current
//! side, so that old objects count as marked and stop the traversal. Major: the other side. Slices of a major
//! run right after a minor collection only, hence never meet a newborn.
//!
//! Tracing uses an explicit stack everywhere; a client that traces recursively defeats it.
//!
//! # When a list cannot grow
//! The stack may have to hold as many objects as there are, and the log of stores too, just when the system
//! gives no memory. Where they cannot grow the marker forgets: it takes the child's bit back, the barrier
//! does not log. Both come to the same: *a marked object may refer to one that is not marked*
//! ([`Marker::lost`]). So when the stack is empty, all marked objects are traced again, each until nothing
//! that it refers to is lost, in as many rounds as it takes. A mark is taken back only while a marked object
//! is being traced; roots are pushed whatever it costs. Each round marks something, since a stack that is
//! empty has room. Nothing is charged twice: a child is charged when it leaves the stack.
//!
//! *Rejected.* A list in pieces, which the reserve could serve (`shortage.rs`): it ends, too, and the stack
//! is the hottest part. Room for all objects in advance: half as much again of address space. A header bit
//! for what waits: there is none left.

use crate::heap::Heap;
use crate::island::held::is_island_object;
use crate::large::size_of_large;
use crate::layout::*;
use crate::sys::{cpu_ns, prefetch_line, stack_word};
use crate::{Client, Cycle, Obj};
use std::time::{Duration, Instant};

/// Objects between prefetch and trace.
const QUEUE: usize = 8;
/// Objects traced between two looks at the clock.
const BETWEEN_LOOKS: u32 = 64;
/// New marks that count as one more object traced.
const MARKS_PER_OBJECT: u32 = 8;

/// So much of its processor time a thread may take. That clock is asked of the system, which takes half a
/// microsecond, so it is asked only once that much has gone by on the wall's.
#[derive(Clone, Copy)]
pub(crate) struct Hard {
    by_wall: Instant,
    by_processor: u64,
}

impl Hard {
    /// So many nanoseconds from what was `began` and, no earlier, `began_cpu` (on the clock of [`cpu_ns`]).
    pub fn after(began: Instant, began_cpu: u64, nanos: u64) -> Hard {
        Hard { by_wall: began + Duration::from_nanos(nanos), by_processor: began_cpu.saturating_add(nanos) }
    }

    fn is_over(self, now: Instant) -> bool {
        now >= self.by_wall && cpu_ns() >= self.by_processor
    }
}

/// How much may be traced before the program goes on.
#[derive(Clone, Copy)]
pub(crate) enum Budget {
    Unlimited,
    /// Until `deadline`, but so many bytes at least: a process that shares its processor has less time than
    /// it seems. When `hard` is over, it is enough in any case.
    Until {
        deadline: Instant,
        least: usize,
        hard: Option<Hard>,
    },
    /// That many objects: for tests, which must be repeatable.
    Objects(u32),
}

impl Budget {
    /// Objects until the next look at the clock.
    fn looks(self) -> u32 {
        match self {
            Budget::Objects(n) => n.max(1),
            _ => BETWEEN_LOOKS,
        }
    }
    /// The bytes that must be marked, if possible.
    pub(crate) fn least(self) -> usize {
        match self {
            Budget::Until { least, .. } => least,
            _ => 0,
        }
    }
    /// What is left of it after `done` bytes.
    pub(crate) fn less(self, done: usize) -> Budget {
        match self {
            Budget::Until { deadline, least, hard } => {
                Budget::Until { deadline, least: least.saturating_sub(done), hard }
            }
            b => b,
        }
    }
    /// Whether it is time to stop, after `done` bytes.
    pub(crate) fn is_spent(self, done: usize) -> bool {
        match self {
            Budget::Unlimited => false,
            Budget::Until { deadline, least, .. } if done >= least => Instant::now() >= deadline,
            Budget::Until { hard, .. } => hard.is_some_and(|hard| hard.is_over(Instant::now())),
            Budget::Objects(_) => true,
        }
    }
}

/// Hands reachable objects to the collector. Given to the methods of [`Client`].
pub struct Marker<'a> {
    pub(crate) heap: &'a mut Heap,
    bits: usize,
    line_bit: u8,
    cycle: Cycle,
    pub(crate) verifying: bool,
    /// The depth of the scope that ends: only what belongs to it can be marked, all else is as good as
    /// marked. 0 in collections.
    pub(crate) scope: u8,
    /// Where the objects of that scope lie: most words of native stacks fail this test.
    pub(crate) scope_range: (usize, usize),
    /// Bytes of the objects traced for the first time in this cycle. Wraps below zero while a regreyed object
    /// waits.
    pub(crate) bytes: usize,
    /// Marked, not yet traced.
    pub(crate) stack: Vec<Obj>,
    /// To be traced without being charged: roots that are marked already. A slice may end with some left: a
    /// major cannot finish without another complete scan of the roots, which reports them again.
    pub(crate) again: Vec<Obj>,
    /// Objects with a part still to trace: the client's cursor.
    parts: Vec<(Obj, usize)>,
    /// A marked object may refer to one that is not marked, though nothing waits; see the module's essay.
    pub(crate) lost: bool,
    /// Marked objects are being traced once more, because of that.
    finds_lost: bool,
    /// What is being traced is a marked object: marks may be taken back.
    traces: bool,
    /// Bytes that the client has looked at though nothing new need be there ([`Marker::note_rescan`]).
    pub(crate) rescanned: usize,
}

/// How far a walk over the marked objects has come.
#[derive(Default)]
struct Place {
    chunk: usize,
    block: usize,
    word: usize,
    /// Bits of this word that are still to come.
    left: u64,
    large: usize,
}

/// Makes room for another entry in a list of the collector. False: there is none, and the caller must do
/// without. `limit` is for tests: more entries than that are refused.
#[cold]
#[inline(never)]
pub(crate) fn grow<T>(list: &mut Vec<T>, limit: usize) -> bool {
    let more = list.capacity().max(4);
    if list.capacity() >= limit {
        return false;
    }
    if (list.capacity() + more) * size_of::<T>() <= SMALL_LIST {
        list.reserve(more);
        return true;
    }
    list.try_reserve(more).is_ok()
}

/// Lists of so many bytes grow in any case: the reserve serves them, if need be.
const SMALL_LIST: usize = crate::shortage::LARGEST / 8;

impl<'a> Marker<'a> {
    /// A marker for `cycle` that continues with what the heap has kept.
    pub(crate) fn open(heap: &'a mut Heap, cycle: Cycle) -> Marker<'a> {
        let side = match cycle {
            Cycle::Minor => heap.side,
            Cycle::Major => heap.side.other(),
        };
        let (stack, parts, bytes, lost) = match cycle {
            Cycle::Minor => (core::mem::take(&mut heap.minor_stack), Vec::new(), 0, false),
            Cycle::Major => (
                core::mem::take(&mut heap.major.stack),
                core::mem::take(&mut heap.major.parts),
                heap.major.bytes,
                heap.major.lost,
            ),
        };
        Marker {
            bits: side.offset(),
            line_bit: side.line_bit(),
            heap,
            cycle,
            verifying: false,
            scope: 0,
            scope_range: (0, usize::MAX),
            bytes,
            stack,
            again: Vec::new(),
            parts,
            lost,
            finds_lost: false,
            traces: false,
            rescanned: 0,
        }
    }

    /// Puts back what is to be continued; the bytes charged so far.
    pub(crate) fn close(self) -> usize {
        match self.cycle {
            Cycle::Minor => {
                debug_assert!(self.is_idle());
                self.heap.minor_stack = self.stack;
            }
            Cycle::Major => {
                self.heap.major.stack = self.stack;
                self.heap.major.parts = self.parts;
                self.heap.major.bytes = self.bytes;
                self.heap.major.lost = self.lost;
            }
        }
        self.bytes
    }

    /// Marks `obj` and queues it for tracing unless it is marked already. True if this call marked it. Of an
    /// object in an island, the island is marked.
    ///
    /// ```compile_fail,E0133
    /// # fn f(m: &mut perilune_heap::Marker<'_>) {
    /// m.mark(std::ptr::NonNull::dangling());
    /// # }
    /// ```
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed, all written for [`Client::trace`]; or one of
    /// an island that the heap holds.
    #[inline(always)]
    pub unsafe fn mark(&mut self, obj: Obj) -> bool {
        if is_island_object(obj) {
            return self.mark_island(obj.as_ptr() as usize);
        }
        debug_assert!(
            self.heap.is_allocated(obj),
            "marking {obj:?}, which is no object: {:?}",
            self.heap.describe(obj.as_ptr() as usize)
        );
        // SAFETY: the object lies in a mapped chunk of this heap, and this thread is the only one to use its
        // tables.
        if !unsafe { set_bit(obj.as_ptr() as usize, self.bits) } {
            return false;
        }
        if self.scope != 0 && self.heap.is_outside(obj, self.scope) {
            // SAFETY: as above.
            unsafe { clear_bit(obj.as_ptr() as usize, self.bits) };
            return false;
        }
        if self.stack.len() == self.stack.capacity() && !self.make_room() {
            // SAFETY: as above.
            unsafe { clear_bit(obj.as_ptr() as usize, self.bits) };
            return false;
        }
        self.stack.push(obj);
        true
    }

    /// Makes room on the stack, which is full; false, if it cannot grow and the mark can be taken back.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        if grow(&mut self.stack, self.heap.list_limit) || !self.traces {
            return true;
        }
        self.lost = true;
        false
    }

    /// Has the client trace a marked object.
    ///
    /// # Safety
    /// The object is marked, or old in a minor collection, and initialised.
    #[inline(always)]
    unsafe fn trace<C: Client>(&mut self, client: &mut C, obj: Obj) {
        self.traces = true;
        // SAFETY: the caller's promise.
        unsafe { client.trace(obj, self) };
        self.traces = false;
    }

    /// As [`Marker::trace`], for objects that have been stored into.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn trace_logged<C: Client>(
        &mut self,
        client: &mut C,
        log: &[Obj],
        ranges: &[(Obj, usize, usize)],
    ) {
        self.traces = true;
        // They lie anywhere, and have left the caches since they were stored into.
        for &obj in &log[..log.len().min(QUEUE)] {
            prefetch(obj);
        }
        for (at, &obj) in log.iter().enumerate() {
            if let Some(&coming) = log.get(at + QUEUE) {
                prefetch(coming);
            }
            // SAFETY: the caller's promise.
            unsafe { client.trace(obj, self) };
        }
        for (at, &(owner, lo, hi)) in ranges.iter().enumerate() {
            if let Some(&(_, coming, _)) = ranges.get(at + QUEUE) {
                prefetch_line(coming);
            }
            // SAFETY: as above.
            unsafe { client.trace_range(owner, lo, hi, self) };
        }
        self.traces = false;
    }

    /// Traces all marked objects again, until none refers to one that is not marked.
    #[cold]
    #[inline(never)]
    fn find_lost<C: Client>(&mut self, client: &mut C) {
        self.finds_lost = true;
        while std::mem::take(&mut self.lost) {
            let (mut place, mut lost) = (Place::default(), false);
            while let Some(obj) = self.next_marked(&mut place) {
                loop {
                    // SAFETY: marked objects are live and, at a safepoint, initialised.
                    unsafe { self.trace(client, obj) };
                    let again = std::mem::take(&mut self.lost);
                    self.run_all(client, Budget::Unlimited);
                    lost |= again | std::mem::take(&mut self.lost);
                    if !again {
                        break;
                    }
                }
            }
            self.lost = lost;
        }
        self.finds_lost = false;
    }

    /// Whether all that is marked is traced again, since marks were taken back for want of memory: a client
    /// that traces an object once only, as long as nothing changes, has to do so now.
    pub fn finds_lost(&self) -> bool {
        self.finds_lost
    }

    /// The next marked object behind this place. Those that are marked meanwhile may come or not.
    fn next_marked(&self, place: &mut Place) -> Option<Obj> {
        while let Some(chunk) = self.heap.blocks.chunks.get(place.chunk) {
            let block = chunk.block(FIRST_BLOCK + place.block);
            if place.left != 0 {
                let at =
                    block.at() + ((place.word - 1) * 64 + place.left.trailing_zeros() as usize) * GRANULE;
                place.left &= place.left - 1;
                // SAFETY: not null.
                return Some(unsafe { obj_at(at) });
            }
            if place.word < WORDS_PER_BLOCK {
                // SAFETY: the tables of a mapped chunk are mapped.
                place.left =
                    unsafe { (*block.words(STARTS))[place.word] & (*block.words(self.bits))[place.word] };
                place.word += 1;
                continue;
            }
            place.word = 0;
            place.block += 1;
            if place.block == CHUNK / BLOCK - FIRST_BLOCK {
                (place.chunk, place.block) = (place.chunk + 1, 0);
            }
        }
        while let Some(obj) = self.heap.large.nth(place.large) {
            place.large += 1;
            // SAFETY: the object lies in a mapped chunk of this heap.
            if unsafe { get_bit(obj.as_ptr() as usize, self.bits) } {
                return Some(obj);
            }
        }
        None
    }

    /// Traces `obj` even if it is marked already (the running coroutine, whose stack changes without
    /// barriers).
    ///
    /// # Safety
    /// As for [`Marker::mark`].
    pub unsafe fn trace_again(&mut self, obj: Obj) {
        // SAFETY: the caller's promise.
        if !unsafe { self.mark(obj) } || self.verifying {
            self.again.push(obj);
        }
    }

    /// The client has looked at `bytes` of an object that every collection must look at (a deep stack).
    /// Collections come the more rarely: what they look at again and again is in proportion to what is
    /// allocated between them.
    pub fn note_rescan(&mut self, bytes: usize) {
        self.rescanned += bytes;
    }

    /// Asks for a call of [`Client::trace_part`] with `obj` and `at`, after what is queued. For objects whose
    /// contents take longer to trace than a slice may take: the client traces a portion and asks for the next
    /// one.
    ///
    /// # Safety
    /// As for [`Marker::mark`], as long as the object is reachable.
    pub unsafe fn trace_later(&mut self, obj: Obj, at: usize) {
        self.parts.push((obj, at));
    }

    /// Marks the objects that any aligned word in `lo..hi` may point to or into.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn mark_conservative_range(&mut self, lo: *const u8, hi: *const u8) {
        // Nothing is mapped meanwhile, nor comes from another thread, so nearly all words are done with by one
        // comparison: of a minor collection of little they are the most of it.
        let ours = self.heap.table.range();
        let (low, bytes) = (ours.start, ours.end.saturating_sub(ours.start));
        let islands = crate::island_bytes() > 0;
        let mut at = (lo as usize).next_multiple_of(size_of::<usize>());
        while at + size_of::<usize>() <= hi as usize {
            // SAFETY: within the range that the caller vouches for.
            let word = unsafe { stack_word(at) };
            if word.wrapping_sub(low) < bytes || (islands && crate::is_island(word)) {
                self.mark_conservative(word);
            }
            at += size_of::<usize>();
        }
    }

    /// Marks the object that `word` may point to or into.
    #[inline(never)]
    pub fn mark_conservative(&mut self, word: usize) {
        if word < self.scope_range.0 || word >= self.scope_range.1 {
            return;
        }
        if crate::is_island(word) {
            return self.mark_island_word(word);
        }
        if self.scope != 0 && !self.heap.is_scope_word(word, self.scope) {
            return;
        }
        if let Some(obj) = self.heap.find_object(word) {
            // SAFETY: the heap has just found it.
            unsafe { self.mark(obj) };
        }
    }

    /// Whether `obj` has been reached in this cycle; in a minor collection, old objects have.
    ///
    /// # Safety
    /// `obj` is an object of this heap that this collection has not freed, or one of an island.
    #[inline(always)]
    pub unsafe fn is_marked(&self, obj: Obj) -> bool {
        if is_island_object(obj) {
            return self.is_island_marked(obj.as_ptr() as usize);
        }
        // SAFETY: the object lies in a mapped chunk of this heap.
        let marked = unsafe { get_bit(obj.as_ptr() as usize, self.bits) };
        marked || (self.scope != 0 && self.heap.is_outside(obj, self.scope))
    }

    /// True if no collection calls, but the end of a scope ([`Heap::close_scope`]): the cycle is that of a
    /// minor collection, but what is marked does not become old. What a client notes about ages must stay as
    /// it is.
    #[inline(always)]
    pub fn is_scope_end(&self) -> bool {
        self.scope != 0
    }

    /// Whether there is an object at `address` that is not known to be dead: for those who remember addresses
    /// of the dead.
    pub fn is_object(&self, address: Obj) -> bool {
        self.heap.is_allocated(address)
    }

    /// The collection that this marker works for. A client that collects lists while it traces (weak tables)
    /// needs one list for each: minor collections run between the slices of a major.
    #[inline(always)]
    pub fn cycle(&self) -> Cycle {
        self.cycle
    }

    /// True if the verifier calls, not a collection: the client must report children and roots but remember
    /// nothing.
    #[inline(always)]
    pub fn is_verifying(&self) -> bool {
        self.verifying
    }

    /// As [`Heap::charge_common`], which cannot be called in the middle of a collection.
    pub fn charge_common(&mut self, bytes: isize) {
        self.heap.charge_common(bytes)
    }

    /// As [`Heap::charge_external`], which cannot be called in the middle of a collection.
    pub fn charge_external(&mut self, bytes: isize) {
        self.heap.charge_external(bytes)
    }

    /// Takes one unfinished part out.
    pub(crate) fn next_part(&mut self) -> Option<(Obj, usize)> {
        self.parts.pop()
    }

    /// Whether something is queued.
    pub(crate) fn is_idle(&self) -> bool {
        self.stack.is_empty() && self.again.is_empty() && self.parts.is_empty() && !self.lost
    }

    /// Traces everything queued and all that it leads to.
    pub fn drain<C: Client>(&mut self, client: &mut C) {
        self.run(client, Budget::Unlimited);
    }

    /// As [`Marker::drain`], but stops when the budget is spent; true if everything is traced.
    pub(crate) fn run<C: Client>(&mut self, client: &mut C, budget: Budget) -> bool {
        let done = self.run_all(client, budget);
        if done && self.lost {
            self.find_lost(client);
        }
        done
    }

    /// As [`Marker::run`], but what is lost stays so.
    fn run_all<C: Client>(&mut self, client: &mut C, budget: Budget) -> bool {
        let mut queue = [None::<Obj>; QUEUE];
        let mut at = 0;
        let mut looks = budget.looks();
        let began_at = self.bytes;
        loop {
            let leaving = match self.stack.pop() {
                Some(obj) => {
                    prefetch(obj);
                    queue[at % QUEUE].replace(obj)
                }
                None => {
                    // Nothing to prefetch: empty the queue from its oldest entry on.
                    let oldest = (0..QUEUE).find_map(|i| queue[(at + i) % QUEUE].take());
                    if oldest.is_none() {
                        if let Some(obj) = self.again.pop() {
                            // SAFETY: marked objects are live and, at a safepoint, initialised.
                            unsafe { self.trace(client, obj) };
                        } else if let Some((obj, part)) = self.parts.pop() {
                            self.traces = true;
                            // SAFETY: as above.
                            unsafe { client.trace_part(obj, part, self) };
                            self.traces = false;
                        } else {
                            return true;
                        }
                        if budget.is_spent(self.bytes.wrapping_sub(began_at)) {
                            return false;
                        }
                    }
                    oldest
                }
            };
            at += 1;
            let Some(obj) = leaving else { continue };
            self.account(obj);
            let before = self.stack.len();
            // SAFETY: as above.
            unsafe { self.trace(client, obj) };
            // An array of a thousand objects has a thousand mark bits, each in another cache line.
            let pushed = self.stack.len().saturating_sub(before) as u32;
            looks = looks.saturating_sub(1 + pushed / MARKS_PER_OBJECT);
            if looks == 0 {
                looks = BETWEEN_LOOKS;
                // What is in the queue must have a place on the stack.
                let fits = self.stack.len() + QUEUE <= self.stack.capacity() || !self.lost;
                if fits && budget.is_spent(self.bytes.wrapping_sub(began_at)) {
                    self.stack.extend(queue.iter_mut().filter_map(|o| o.take()));
                    return false;
                }
            }
        }
    }

    /// Charges the object's size and marks the lines it covers beyond its first.
    #[inline(always)]
    fn account(&mut self, obj: Obj) {
        let at = obj.as_ptr() as usize;
        // SAFETY: a marked object has an intact header and, if small, lies within a block.
        unsafe {
            let granules = (*obj.as_ptr()).granules as usize;
            if granules == 0 {
                self.bytes = self.bytes.wrapping_add(size_of_large(obj));
                return;
            }
            let bytes = granules * GRANULE;
            self.bytes = self.bytes.wrapping_add(bytes);
            let first = (at & (CHUNK - 1)) / LINE;
            let last = ((at & (CHUNK - 1)) + bytes - 1) / LINE;
            if last != first {
                let lines = (chunk_base(at) + LINES) as *mut u8;
                for line in first + 1..=last {
                    *lines.add(line) |= self.line_bit;
                }
            }
        }
    }
}

#[inline(always)]
fn prefetch(obj: Obj) {
    let at = obj.as_ptr() as usize;
    prefetch_line(at);
    // Few objects that refer to others end in the line in which they begin.
    prefetch_line(at.wrapping_add(64));
}
