//! Objects over 8 KiB.
//!
//! Up to 1 MiB they are *runs* of 4 KiB pages, first fit in address order, in chunks of their own; beyond
//! that each has a mapping of its own that begins like a chunk (*huge*). Either way start and mark bits lie
//! where those of small objects lie, so marking knows no difference; the size is in a page record, as the
//! header's `granules` is 0.
//!
//! Large objects are listed, young and old apart: a minor collection looks at the young list only, a major's
//! sweep walks the old one in portions. An old object without a current mark is dead and waits for that walk.
//!
//! **Cards.** Tracing a big array again because one element changed would make filling an array quadratic. So
//! stores into large buffers ([`crate::Heap::barrier_at`]) mark a card of 64 bytes, log the card, and do not
//! stamp the owner: it stays unlogged, every store takes the slow path, and the next collection traces the
//! logged cards only. (The log saves a walk over all cards, so they can be small.) That pays while stores are
//! few compared with the size; after one store for every four slots the owner is logged whole, and further
//! stores are as fast as any. Whatever a program does, it pays at most about twice what the better way would
//! have cost.
//!
//! Freed huge mappings are kept for a moment: a program that builds one big string after another would
//! otherwise pay for page faults each time.

use crate::blocks::POISON;
use crate::layout::*;
use crate::sys::memory;
use crate::table::ChunkTable;
use crate::{Header, Obj};

const PAGE: usize = 4096;
const PAGES: usize = CHUNK / PAGE;
const FIRST_PAGE: usize = META / PAGE;
/// Larger objects get their own mapping.
const LARGEST_RUN: usize = 1 << 20;
/// Nanoseconds that empty memory waits before it is unmapped.
const REST: u64 = 1_000_000_000;

/// Where a large object is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Age {
    /// No object here.
    None = 0,
    /// In the young list.
    Young = 1,
    /// In the old list: alive only if marked.
    Old = 2,
}

/// What is known about a page of a chunk of large objects; of a huge object, only the first page has one.
#[repr(C)]
struct PageRecord {
    /// Bytes of the object that begins here.
    size: usize,
    /// One byte for every [`CARD`] bytes of the object, made when first needed: 1 if stored into since the
    /// last collection.
    cards: *mut u8,
    /// Stores that took the slow path of the barrier since the last collection.
    hits: u32,
    /// Index of the page where the run begins.
    first: u16,
    /// Pages of the run that begins here.
    pages: u16,
    age: Age,
    /// While it is young: the number of scopes that were open when it was allocated (`arena.rs`).
    depth: u8,
    spare: [u8; 6],
}

const _: () = assert!(size_of::<PageRecord>() == (META - LINES) / PAGES);

fn record(at: usize) -> *mut PageRecord {
    (chunk_base(at) + LINES + (at & (CHUNK - 1)) / PAGE * size_of::<PageRecord>()) as *mut PageRecord
}

/// Bytes of a large object, header included.
///
/// # Safety
/// `obj` is a large object that has not been freed.
#[inline]
pub unsafe fn size_of_large(obj: Obj) -> usize {
    // SAFETY: a large object begins on a page that has a record.
    unsafe { (*record(obj.as_ptr() as usize)).size }
}

/// Bytes that a card describes.
pub const CARD: usize = 64;

fn card_count(size: usize) -> usize {
    size / CARD + 1
}

/// What to do about a store into a large buffer.
pub enum CardMark {
    /// The card, newly marked, must be logged.
    New(u32),
    /// Nothing more.
    Known,
    /// There were so many stores that the owner had better be logged whole.
    TooMany,
}

/// Marks the card of the large object `buffer` that covers `offset`.
///
/// # Safety
/// `buffer` is a large object that has not been freed.
pub unsafe fn mark_card(buffer: Obj, offset: usize) -> CardMark {
    // SAFETY: a live large object has a record on its first page; its card table has an entry for every
    // offset.
    unsafe {
        let r = &mut *record(buffer.as_ptr() as usize);
        debug_assert!(r.age != Age::None && offset < r.size);
        if r.cards.is_null() {
            r.cards = Box::into_raw(vec![0u8; card_count(r.size)].into_boxed_slice()) as *mut u8;
        }
        r.hits += 1;
        if r.hits as usize > r.size / 64 {
            return CardMark::TooMany;
        }
        let card = offset / CARD;
        match core::mem::replace(&mut *r.cards.add(card), 1) {
            0 => CardMark::New(card as u32),
            _ => CardMark::Known,
        }
    }
}

/// The addresses that a logged card covers.
///
/// # Safety
/// `buffer` is a large object that has not been freed.
pub unsafe fn card_range(buffer: Obj, card: u32) -> (usize, usize) {
    let at = buffer.as_ptr() as usize;
    let first = card as usize * CARD;
    // SAFETY: a live large object has a record on its first page.
    (at + first, at + (first + CARD).min(unsafe { (*record(at)).size }))
}

/// The number of scopes that were open when a young large object was allocated.
///
/// # Safety
/// `obj` is a large object that has not been freed.
pub unsafe fn depth_of(obj: Obj) -> u8 {
    // SAFETY: as above.
    unsafe { (*record(obj.as_ptr() as usize)).depth }
}

/// Takes back the mark of a logged card: the addresses that it covers.
///
/// # Safety
/// `buffer` is a large object that has not been freed.
pub unsafe fn take_card(buffer: Obj, card: u32) -> (usize, usize) {
    let at = buffer.as_ptr() as usize;
    let first = card as usize * CARD;
    // SAFETY: as above; a logged card has an entry.
    unsafe {
        let r = &mut *record(at);
        r.hits = 0;
        *r.cards.add(card as usize) = 0;
        (at + first, at + (first + CARD).min(r.size))
    }
}

/// Drops all marks of the object's cards; true if there may have been some.
///
/// # Safety
/// `buffer` is a large object that has not been freed.
pub unsafe fn forget_cards(buffer: Obj) -> bool {
    let at = buffer.as_ptr() as usize;
    // SAFETY: as above.
    let r = unsafe { &mut *record(at) };
    r.hits = 0;
    let any = !r.cards.is_null();
    drop_cards(at);
    any
}

/// Gives the card table of an object that had `old` bytes, if it has one, the length that goes with its size
/// now.
///
/// # Safety
/// `buffer` is a large object that has not been freed.
pub unsafe fn extend_cards(buffer: Obj, old: usize) {
    // SAFETY: as above; the table was made from a box of this length.
    unsafe {
        let r = &mut *record(buffer.as_ptr() as usize);
        if !r.cards.is_null() {
            let cards =
                Box::from_raw(core::ptr::slice_from_raw_parts_mut(r.cards, card_count(old))).into_vec();
            r.cards = core::ptr::null_mut();
            let mut longer = vec![0u8; card_count(r.size)];
            longer[..cards.len()].copy_from_slice(&cards);
            r.cards = Box::into_raw(longer.into_boxed_slice()) as *mut u8;
        }
    }
}

/// Frees the card table of an object that is going away, or whose size is about to change.
fn drop_cards(at: usize) {
    // SAFETY: as above; the table was made from a box of this length.
    unsafe {
        let r = &mut *record(at);
        let cards = core::mem::replace(&mut r.cards, core::ptr::null_mut());
        if !cards.is_null() {
            drop(Box::from_raw(core::ptr::slice_from_raw_parts_mut(cards, card_count(r.size))));
        }
    }
}

/// The space of large objects.
pub struct LargeSpace {
    chunks: Vec<ChunkRef>,
    pub young: Vec<Obj>,
    pub old: Vec<Obj>,
    /// Old objects whose fate after the last major is not settled.
    pub unswept: Vec<Obj>,
    /// Empty chunks and huge mappings: (base, mapped bytes, since).
    resting: Vec<(ChunkRef, usize, u64)>,
    /// Bytes of all objects here.
    pub bytes: usize,
    /// Bytes mapped, resting ones included.
    pub mapped: usize,
    poison: bool,
}

impl LargeSpace {
    pub fn new(poison: bool) -> LargeSpace {
        LargeSpace {
            chunks: Vec::new(),
            young: Vec::new(),
            old: Vec::new(),
            unswept: Vec::new(),
            resting: Vec::new(),
            bytes: 0,
            mapped: 0,
            poison,
        }
    }

    /// Room for an object of `size` bytes (a multiple of 16), listed as young, its start bit set, header
    /// uninitialised.
    pub fn alloc(&mut self, table: &mut ChunkTable, size: usize, depth: u8) -> Option<*mut Header> {
        let pages = size.div_ceil(PAGE);
        let at = if size > LARGEST_RUN { self.huge(table, size)? } else { self.run(table, pages)? };
        // SAFETY: the chunk is mapped and the run belongs to nobody else.
        unsafe {
            if self.poison {
                core::ptr::write_bytes(at as *mut u8, POISON, size);
            }
            let r = record(at);
            (*r).size = size;
            (*r).cards = core::ptr::null_mut();
            (*r).hits = 0;
            (*r).age = Age::Young;
            (*r).depth = depth;
            set_bit(at, STARTS);
            self.young.push(obj_at(at));
        }
        self.bytes += size;
        Some(at as *mut Header)
    }

    fn run(&mut self, table: &mut ChunkTable, pages: usize) -> Option<usize> {
        let found =
            self.chunks.iter().find_map(|c| find_run(&c.head().pages_in_use(), pages).map(|p| (*c, p)));
        let (chunk, first) = match found {
            Some(x) => x,
            None => {
                let chunk = self.map(table, CHUNK, ChunkKind::Large)?;
                let head = chunk.head();
                head.pages[0].set((1 << FIRST_PAGE) - 1);
                self.chunks.push(chunk);
                (chunk, FIRST_PAGE)
            }
        };
        let head = chunk.head();
        let at = chunk.base() + first * PAGE;
        for page in first..first + pages {
            raise(&head.pages[page / 64], 1 << (page % 64));
            // SAFETY: pages of a chunk of large objects have records.
            unsafe { (*record(chunk.base() + page * PAGE)).first = first as u16 };
        }
        // SAFETY: as above.
        unsafe { (*record(at)).pages = pages as u16 };
        Some(at)
    }

    fn huge(&mut self, table: &mut ChunkTable, size: usize) -> Option<usize> {
        let mapped = size.checked_add(META)?.checked_next_multiple_of(PAGE)?;
        let chunk = self.map(table, mapped, ChunkKind::Huge)?;
        Some(chunk.base() + META)
    }

    /// Whether a chunk of so many bytes is to have huge pages: programs that need little memory get no more
    /// than they touch.
    fn has_huge_pages(&self, mapped: usize) -> bool {
        self.mapped >= 2 * CHUNK || mapped >= 2 * CHUNK
    }

    fn map(&mut self, table: &mut ChunkTable, mapped: usize, kind: ChunkKind) -> Option<ChunkRef> {
        let fits = |have: usize| match kind {
            ChunkKind::Huge => have >= mapped && have - mapped <= mapped / 4,
            _ => have == mapped,
        };
        let rested = self.resting.iter().rposition(|(c, have, _)| c.head().kind == kind && fits(*have));
        let (chunk, mapped) = match rested {
            Some(i) => {
                let (chunk, have, _) = self.resting.swap_remove(i);
                (chunk, have)
            }
            None => {
                let huge_pages = self.has_huge_pages(mapped);
                // SAFETY: just mapped, for this heap alone; the header is written below.
                let chunk = unsafe { ChunkRef::at(memory::map(mapped, huge_pages)?) };
                self.mapped += mapped;
                (chunk, mapped)
            }
        };
        let head = Chunk::new(kind, false, mapped);
        // SAFETY: the chunk is mapped and nobody else uses it.
        unsafe { (chunk.base() as *mut Chunk).write(head) };
        table.insert(chunk, mapped);
        Some(chunk)
    }

    /// Gives the live object `obj` room for `size` bytes (a multiple of 16), more than it has, without
    /// copying: `None` if that is impossible. Its address may change; all that is known about it is kept. A
    /// card table has the wrong length now.
    ///
    /// # Safety
    /// `obj` is a live object of this space.
    pub unsafe fn grow(&mut self, table: &mut ChunkTable, obj: Obj, size: usize) -> Option<Obj> {
        let at = obj.as_ptr() as usize;
        // SAFETY: the caller's promise.
        let chunk = unsafe { ChunkRef::of(obj) };
        let head = chunk.head();
        let (new, old) = match head.kind {
            ChunkKind::Huge => {
                let mapped = size.checked_add(META)?.checked_next_multiple_of(PAGE)?;
                let have = head.mapped.get();
                let base = match mapped <= have {
                    true => chunk.base(),
                    false => memory::remap(chunk.base(), have, mapped, self.has_huge_pages(mapped))?,
                };
                let mapped = mapped.max(have);
                table.remove(chunk, have);
                // SAFETY: the same chunk where it is mapped now.
                let chunk = unsafe { ChunkRef::at(base) };
                chunk.head().mapped.set(mapped);
                table.insert(chunk, mapped);
                self.mapped += mapped - have;
                let at = base + META;
                // SAFETY: the record has moved along with the object.
                (at, unsafe { (*record(at)).size })
            }
            _ => {
                let first = (at - chunk.base()) / PAGE;
                // SAFETY: a live large object has a record on its first page.
                let r = unsafe { &mut *record(at) };
                let (have, pages) = (r.pages as usize, size.div_ceil(PAGE));
                let end = first + pages;
                if size > LARGEST_RUN
                    || end > PAGES
                    || longest_clear(&head.pages_in_use(), first + have, pages - have).is_err()
                {
                    return None;
                }
                for page in first + have..end {
                    raise(&head.pages[page / 64], 1 << (page % 64));
                    // SAFETY: pages of a chunk of large objects have records.
                    unsafe { (*record(chunk.base() + page * PAGE)).first = first as u16 };
                }
                r.pages = pages as u16;
                (at, r.size)
            }
        };
        // SAFETY: as above; `new` is not null, and has `size` bytes now.
        let grown = unsafe {
            (*record(new)).size = size;
            if self.poison {
                core::ptr::write_bytes((new + old) as *mut u8, POISON, size - old);
            }
            obj_at(new)
        };
        self.bytes += size - old;
        if grown != obj {
            *self.entry(obj) = grown;
        }
        Some(grown)
    }

    /// The place of `obj` in its list.
    fn entry(&mut self, obj: Obj) -> &mut Obj {
        let lists = [&mut self.young, &mut self.old, &mut self.unswept];
        lists
            .into_iter()
            .find_map(|list| list.iter_mut().rfind(|o| **o == obj))
            .expect("every large object is listed")
    }

    /// Frees an object that is known to be dead.
    pub fn release(&mut self, table: &mut ChunkTable, obj: Obj, now: u64) {
        let list = [&mut self.young, &mut self.old, &mut self.unswept]
            .into_iter()
            .find_map(|list| list.iter().rposition(|o| *o == obj).map(|at| (list, at)));
        let (list, at) = list.expect("every large object is listed");
        list.swap_remove(at);
        self.free(table, obj, now);
    }

    fn free(&mut self, table: &mut ChunkTable, obj: Obj, now: u64) {
        let at = obj.as_ptr() as usize;
        // SAFETY: an object of this heap, whose chunk is mapped until after this.
        let chunk = unsafe { ChunkRef::of(obj) };
        drop_cards(at);
        // SAFETY: the object is dead and in no list; its chunk is mapped.
        unsafe {
            let r = record(at);
            let (size, pages) = ((*r).size, (*r).pages as usize);
            self.bytes -= size;
            if self.poison {
                core::ptr::write_bytes(at as *mut u8, POISON, size);
            }
            (*r).age = Age::None;
            clear_bit(at, STARTS);
            clear_bit(at, Side(0).offset());
            clear_bit(at, Side(1).offset());
            let head = chunk.head();
            let empty = match head.kind {
                ChunkKind::Huge => true,
                _ => {
                    let first = (at - chunk.base()) / PAGE;
                    for page in first..first + pages {
                        clear(&head.pages[page / 64], 1 << (page % 64));
                    }
                    head.pages[0].get() == (1 << FIRST_PAGE) - 1
                        && head.pages[1..].iter().all(|w| w.get() == 0)
                }
            };
            if empty {
                self.chunks.retain(|c| *c != chunk);
                table.remove(chunk, head.mapped.get());
                self.resting.push((chunk, head.mapped.get(), now));
            }
        }
    }

    /// Unmaps what has rested long enough, and what rests beyond `keep` bytes; about `left` bytes at most,
    /// from which it takes off what it has unmapped. Of a mapping that is larger than that the end goes
    /// first.
    pub fn trim(&mut self, keep: usize, now: u64, left: &mut usize) {
        let mut kept = 0;
        let mapped = &mut self.mapped;
        self.resting.reverse();
        self.resting.retain_mut(|(chunk, bytes, since)| {
            if (now.saturating_sub(*since) < REST && kept + *bytes <= keep) || *left == 0 {
                kept += *bytes;
                return true;
            }
            let gone = (*left).min(*bytes);
            let rest = *bytes - gone;
            memory::unmap(chunk.base() + rest, gone);
            *left -= gone;
            *mapped -= gone;
            *bytes = rest;
            kept += rest;
            rest != 0
        });
        self.resting.reverse();
    }

    /// At the end of a scope of that depth, after its marking: its objects are `stamp`ed, and belong to the
    /// scope around, or are gone. How many stay, their bytes, and the bytes freed.
    pub fn end_scope(
        &mut self,
        table: &mut ChunkTable,
        side: Side,
        depth: u8,
        stamp: impl Fn(Obj),
        now: u64,
    ) -> (usize, usize, usize) {
        let (mut count, mut kept, mut freed) = (0, 0, 0);
        let mut young = core::mem::take(&mut self.young);
        young.retain(|&obj| {
            let at = obj.as_ptr() as usize;
            // SAFETY: a listed object's chunk is mapped.
            unsafe {
                let r = record(at);
                if (*r).depth != depth {
                    return true;
                }
                if !get_bit(at, side.offset()) {
                    freed += (*r).size;
                    self.free(table, obj, now);
                    return false;
                }
                clear_bit(at, side.offset());
                (*r).depth = depth - 1;
                count += 1;
                kept += (*r).size;
                stamp(obj);
            }
            true
        });
        self.young = young;
        (count, kept, freed)
    }

    /// After a minor marking: young objects are old now, or gone.
    pub fn sweep_young(&mut self, table: &mut ChunkTable, side: Side, now: u64) {
        for obj in core::mem::take(&mut self.young) {
            let at = obj.as_ptr() as usize;
            // SAFETY: a listed object's chunk is mapped.
            unsafe {
                if get_bit(at, side.offset()) {
                    (*record(at)).age = Age::Old;
                    self.old.push(obj);
                } else {
                    self.free(table, obj, now);
                }
            }
        }
    }

    /// After a major marking: every object awaits its verdict.
    pub fn begin_sweep(&mut self) {
        debug_assert!(self.young.is_empty() && self.unswept.is_empty());
        core::mem::swap(&mut self.old, &mut self.unswept);
    }

    /// Settles the fate of up to `count` objects; true when none is left.
    pub fn sweep_some(&mut self, table: &mut ChunkTable, count: usize, side: Side, now: u64) -> bool {
        for _ in 0..count {
            let Some(obj) = self.unswept.pop() else { return true };
            let at = obj.as_ptr() as usize;
            // SAFETY: a listed object's chunk is mapped.
            unsafe {
                if get_bit(at, side.offset()) {
                    clear_bit(at, side.other().offset());
                    self.old.push(obj);
                } else {
                    self.free(table, obj, now);
                }
            }
        }
        self.unswept.is_empty()
    }

    /// The live object of a chunk of large objects that covers `word`.
    pub fn find(&self, chunk: ChunkRef, word: usize, side: Side) -> Option<Obj> {
        let head = chunk.head();
        let at = match head.kind {
            ChunkKind::Huge => chunk.base() + META,
            _ => {
                let page = (word - chunk.base()) / PAGE;
                if page < FIRST_PAGE || head.pages[page / 64].get() >> (page % 64) & 1 == 0 {
                    return None;
                }
                // SAFETY: a page in use has a record.
                chunk.base() + unsafe { (*record(word)).first } as usize * PAGE
            }
        };
        // SAFETY: `at` begins a run or a huge object of a mapped chunk.
        unsafe {
            let r = record(at);
            let alive = match (*r).age {
                Age::None => false,
                Age::Young => true,
                Age::Old => get_bit(at, side.offset()),
            };
            (alive && word >= at && word < at + (*r).size).then(|| obj_at(at))
        }
    }

    /// One listed object after the other, by number.
    pub fn nth(&self, n: usize) -> Option<Obj> {
        let (young, old) = (self.young.len(), self.young.len() + self.old.len());
        let list = match n {
            n if n < young => self.young.get(n),
            n if n < old => self.old.get(n - young),
            n => self.unswept.get(n - old),
        };
        list.copied()
    }

    /// Every listed object.
    pub fn all(&self) -> impl Iterator<Item = Obj> + '_ {
        self.young.iter().chain(&self.old).chain(&self.unswept).copied()
    }

    /// Unmaps everything.
    pub fn unmap_all(&mut self) {
        for obj in core::mem::take(&mut self.young)
            .into_iter()
            .chain(self.old.drain(..))
            .chain(self.unswept.drain(..))
        {
            drop_cards(obj.as_ptr() as usize);
            // SAFETY: as in `free`.
            let chunk = unsafe { ChunkRef::of(obj) };
            if chunk.head().kind == ChunkKind::Huge {
                memory::unmap(chunk.base(), chunk.head().mapped.get());
            }
        }
        for chunk in self.chunks.drain(..) {
            memory::unmap(chunk.base(), CHUNK);
        }
        for (chunk, bytes, _) in self.resting.drain(..) {
            memory::unmap(chunk.base(), bytes);
        }
    }
}

/// The first of `pages` consecutive clear bits.
fn find_run(used: &[u64; 8], pages: usize) -> Option<usize> {
    let mut at = FIRST_PAGE;
    while at + pages <= PAGES {
        let rest = used[at / 64] >> (at % 64);
        if rest == 0 {
            let end = (at / 64 + 1) * 64;
            if end - at >= pages {
                return Some(at);
            }
            match longest_clear(used, at, pages) {
                Ok(()) => return Some(at),
                Err(next) => at = next,
            }
        } else {
            let clear = rest.trailing_zeros() as usize;
            if clear >= pages {
                return Some(at);
            }
            at += clear;
            at += (used[at / 64] >> (at % 64)).trailing_ones() as usize;
        }
    }
    None
}

/// Whether `pages` bits from `at` on are clear; if not, the index of the first set one.
fn longest_clear(used: &[u64; 8], at: usize, pages: usize) -> Result<(), usize> {
    let mut i = at;
    while i < at + pages {
        let rest = used[i / 64] >> (i % 64);
        if rest == 0 {
            i = (i / 64 + 1) * 64;
        } else {
            i += rest.trailing_zeros() as usize;
            return if i >= at + pages { Ok(()) } else { Err(i) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_first_fit() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut used = [0u64; 8];
            for w in &mut used {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *w = match seed >> 62 {
                    0 => 0,
                    1 => !0 << (seed >> 56 & 63),
                    2 => !0 >> (seed >> 56 & 63),
                    _ => seed & seed >> 9,
                };
            }
            used[0] |= (1 << FIRST_PAGE) - 1;
            let pages = 3 + (seed >> 40) as usize % 150;
            let clear = |p: usize| used[p / 64] >> (p % 64) & 1 == 0;
            let want = (FIRST_PAGE..=PAGES - pages).find(|&p| (p..p + pages).all(clear));
            assert_eq!(find_run(&used, pages), want);
        }
    }
}
