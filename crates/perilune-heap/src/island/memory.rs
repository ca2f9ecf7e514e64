//! The memory of islands: an address range of its own, its pages, and which island a page belongs to.
//!
//! The range is 1 TiB from [`BASE`] on, so that "is this address in an island?" is a shift and a comparison.
//! It is not reserved: what is needed is mapped in *chunks* of 2 MiB, at their fixed places, where nothing
//! else is mapped (otherwise the place is given up).
//!
//! A chunk is either used whole (segments of big islands, backed by huge pages) or divided into blocks of
//! `4 KiB << order` by a buddy system, so that an island of a few objects takes one page. Blocks are reused
//! last in, first out. A chunk all of whose blocks are free is free as a whole; a few of those stay mapped,
//! the others go back to the system.
//!
//! A page knows its island's number ([`owner`]). That table is read without a lock (`owners.rs`) by
//! collectors with words that may be addresses: whoever reads it then asks whether it holds that island, and
//! only such an answer means something.

use super::owners::Owners;
use super::sync::{CHUNKS, PAGES};
use crate::OutOfMemory;
pub use crate::sys::memory::protect;
use crate::sys::memory::{self as pages, Place, map_at};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// First address of the range: 2^45.
pub const BASE: usize = 1 << 45;
/// The range has `1 << RANGE_BITS` bytes.
pub const RANGE_BITS: u32 = 40;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a chunk.
pub const CHUNK: usize = 2 << 20;
const _: () = assert!(PAGES == CHUNK / PAGE && CHUNKS == 1 << (RANGE_BITS - 21));
/// Order of the block that is a whole chunk.
const WHOLE: usize = 9;
/// Free chunks that stay mapped.
const WARM: usize = 4;

/// Whether an address lies in the range of islands.
#[inline(always)]
pub fn is_island(at: usize) -> bool {
    at >> RANGE_BITS == BASE >> RANGE_BITS
}

static OWNERS: Owners = Owners::new();

/// Number of the island that the page at `at` belongs to, an address in the range; 0: none.
#[inline]
pub fn owner(at: usize) -> u32 {
    debug_assert!(is_island(at));
    OWNERS.of((at - BASE) / PAGE)
}

fn set_owner(at: usize, bytes: usize, number: u32) {
    let first = (at - BASE) / PAGE;
    OWNERS.set(first..first + bytes.div_ceil(PAGE), number);
}

/// The state of a page, counted from `BASE`.
fn state(page: u32) -> &'static AtomicU32 {
    OWNERS.state(page)
}

static USED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that belong to islands.
pub fn used() -> usize {
    USED.load(Relaxed)
}

/// Which parts of the range are mapped and free. Behind the mutex of `island.rs`.
pub struct Memory {
    /// Runs of chunks that are not mapped: first chunk -> number.
    unmapped: BTreeMap<u32, u32>,
    /// Mapped chunks that are free as a whole.
    warm: Vec<u32>,
    /// Free blocks by order, as numbers of pages from `BASE` on.
    free: [Vec<u32>; WHOLE],
    /// Bytes that belong to islands; [`used`] for those who do not have the mutex.
    pub used: usize,
    /// Bytes that are mapped.
    pub mapped: usize,
}

impl Memory {
    pub fn new() -> Memory {
        Memory {
            unmapped: BTreeMap::from([(0, CHUNKS as u32)]),
            warm: Vec::new(),
            free: [const { Vec::new() }; WHOLE],
            used: 0,
            mapped: 0,
        }
    }

    /// Memory for island `number`: at least `bytes` bytes, a power of two of pages or whole chunks. Returns
    /// address and size.
    pub fn take(&mut self, bytes: usize, number: u32) -> Result<(usize, usize), OutOfMemory> {
        let pages = bytes.div_ceil(PAGE).checked_next_power_of_two().ok_or(OutOfMemory)?;
        let (at, size) = if pages < PAGES {
            (self.take_block(pages.trailing_zeros() as usize)?, pages * PAGE)
        } else {
            let size = bytes.next_multiple_of(CHUNK);
            (self.take_chunks((size / CHUNK) as u32, true)?, size)
        };
        set_owner(at, size, number);
        self.used += size;
        USED.fetch_add(size, Relaxed);
        Ok((at, size))
    }

    /// Gives back what [`Memory::take`] has returned, or the upper half of it.
    pub fn give(&mut self, at: usize, size: usize) {
        set_owner(at, size, 0);
        self.used -= size;
        USED.fetch_sub(size, Relaxed);
        if size < CHUNK {
            return self.give_block(((at - BASE) / PAGE) as u32, (size / PAGE).trailing_zeros() as usize);
        }
        for chunk in (at - BASE) / CHUNK..(at - BASE + size) / CHUNK {
            self.give_chunk(chunk as u32);
        }
    }

    fn take_block(&mut self, order: usize) -> Result<usize, OutOfMemory> {
        let mut have = order;
        while have < WHOLE && self.free[have].is_empty() {
            have += 1;
        }
        let page = if have == WHOLE {
            let at = self.take_chunks(1, false)?;
            let chunk = ((at - BASE) / CHUNK) as u32;
            chunk * PAGES as u32
        } else {
            let page = self.free[have][self.free[have].len() - 1];
            self.remove(page, have);
            page
        };
        while have > order {
            have -= 1;
            self.insert(page + (1 << have), have);
        }
        Ok(BASE + page as usize * PAGE)
    }

    fn give_block(&mut self, mut page: u32, mut order: usize) {
        while order < WHOLE {
            let buddy = page ^ 1 << order;
            let state = state(buddy).load(Relaxed);
            if state == 0 || (state >> 28) as usize != order {
                return self.insert(page, order);
            }
            self.remove(buddy, order);
            page &= !(1 << order);
            order += 1;
        }
        self.give_chunk(page / PAGES as u32);
    }

    fn insert(&mut self, page: u32, order: usize) {
        self.free[order].push(page);
        state(page).store((order as u32) << 28 | self.free[order].len() as u32, Relaxed);
    }

    fn remove(&mut self, page: u32, order: usize) {
        let position = (state(page).load(Relaxed) & 0x0fff_ffff) as usize - 1;
        state(page).store(0, Relaxed);
        self.free[order].swap_remove(position);
        if let Some(&moved) = self.free[order].get(position) {
            state(moved).store((order as u32) << 28 | (position as u32 + 1), Relaxed);
        }
    }

    /// Mapped chunks in a row.
    fn take_chunks(&mut self, count: u32, huge: bool) -> Result<usize, OutOfMemory> {
        if count == 1
            && let Some(chunk) = self.warm.pop()
        {
            let at = BASE + chunk as usize * CHUNK;
            pages::choose_pages(at, CHUNK, huge);
            return Ok(at);
        }
        // One chunk after the other comes from the lowest place that has room; what other mappings occupy is
        // given up.
        for _ in 0..64 {
            let run = self.unmapped.iter().find(|(_, n)| **n >= count).map(|(&start, &n)| (start, n));
            let Some((start, n)) = run else { break };
            self.unmapped.remove(&start);
            if n > count {
                self.unmapped.insert(start + count, n - count);
            }
            let at = BASE + start as usize * CHUNK;
            let bytes = count as usize * CHUNK;
            match map_at(at, bytes) {
                Place::Mapped => {
                    self.mapped += bytes;
                    pages::choose_pages(at, bytes, huge);
                    return Ok(at);
                }
                Place::Occupied => continue,
                Place::Refused => {
                    self.add_unmapped(start, count);
                    break;
                }
            }
        }
        Err(OutOfMemory)
    }

    fn give_chunk(&mut self, chunk: u32) {
        if self.warm.len() < WARM {
            return self.warm.push(chunk);
        }
        // No island has a page here any more.
        if pages::unmap(BASE + chunk as usize * CHUNK, CHUNK) {
            self.mapped -= CHUNK;
            self.add_unmapped(chunk, 1);
        }
    }

    fn add_unmapped(&mut self, mut start: u32, mut count: u32) {
        if let Some((&s, &n)) = self.unmapped.range(..start).next_back()
            && s + n == start
        {
            self.unmapped.remove(&s);
            start = s;
            count += n;
        }
        if let Some(n) = self.unmapped.remove(&(start + count)) {
            count += n;
        }
        self.unmapped.insert(start, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes and gives back blocks at random; nothing overlaps, and in the end nothing but the warm chunks is
    /// mapped.
    #[test]
    fn blocks_do_not_overlap_and_all_come_back() {
        let mut m = Memory::new();
        // Places that other tests of this process do not use.
        m.unmapped = BTreeMap::from([(CHUNKS as u32 / 2, 1 << 12)]);
        let mut held: BTreeMap<usize, usize> = BTreeMap::new();
        let mut seed = 3u64;
        for step in 0..20_000u32 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let r = (seed >> 33) as usize;
            if r % 100 < 52 && held.len() < 400 {
                let bytes = match r % 7 {
                    0 => 1 + r % (5 << 20),
                    1 | 2 => 1 + r % (300 << 10),
                    _ => 1 + r % (9 << 10),
                };
                let number = step + 1;
                let Ok((at, size)) = m.take(bytes, number) else { panic!("no memory") };
                assert!(size >= bytes && at % PAGE == 0 && is_island(at));
                if let Some((&a, &n)) = held.range(..at + size).next_back() {
                    assert!(a + n <= at, "overlap");
                }
                assert_eq!(owner(at), number);
                assert_eq!(owner(at + size - 1), number);
                // SAFETY: mapped for us.
                unsafe { *((at + size - 8) as *mut u64) = 1 };
                held.insert(at, size);
            } else if let Some((&at, &size)) = held.iter().nth(r % held.len().max(1)) {
                held.remove(&at);
                m.give(at, size);
                assert_eq!(owner(at), 0);
            }
            assert_eq!(m.used, held.values().sum::<usize>());
        }
        for (at, size) in std::mem::take(&mut held) {
            m.give(at, size);
        }
        assert_eq!((m.used, m.mapped), (0, m.warm.len() * CHUNK));
        assert!(m.warm.len() <= WARM && m.free.iter().all(Vec::is_empty));
        for chunk in std::mem::take(&mut m.warm) {
            pages::unmap(BASE + chunk as usize * CHUNK, CHUNK);
        }
    }

    #[test]
    fn places_taken_by_others_are_skipped() {
        let mut m = Memory::new();
        let first = CHUNKS as u32 / 2 + 20_000;
        m.unmapped = BTreeMap::from([(first, 3)]);
        let taken = BASE + first as usize * CHUNK;
        assert!(matches!(map_at(taken, PAGE), Place::Mapped));
        let Ok((at, size)) = m.take(CHUNK, 7) else { panic!("no memory") };
        assert_eq!((at, size), (taken + CHUNK, CHUNK));
        assert!(m.take(2 * CHUNK, 7).is_err());
        pages::unmap(taken, PAGE);
        pages::unmap(at, CHUNK);
    }
}
