//! The map of a chunk, and the address arithmetic on it.
//!
//! A *chunk* is 2 MiB, aligned to 2 MiB, so that one huge page backs it and masking an address finds it. Its
//! first 64 KiB are metadata, the rest 62 *blocks* of 32 KiB, each 256 *lines* of 128 bytes, each 8
//! *granules* of 16 bytes. Objects start at granules.
//!
//! ```text
//! 0        16 KiB    32 KiB    48 KiB    64 KiB                       2 MiB
//! | starts | marks 0 | marks 1 | lines   | block 2 | block 3 | ... | block 63 |
//! ```
//!
//! *starts* has one bit per granule (an object begins here), so have the two *mark* bitmaps, of which one is
//! current and the other belongs to the major collection in progress. A line is exactly one byte of each
//! bitmap: "an object starts in this line" needs no table of its own. *lines* has one byte per line and says
//! which lines are covered by a marked object that starts in an earlier line; bit 0 belongs to mark bitmap 0,
//! bit 1 to mark bitmap 1.
//!
//! Since blocks 0 and 1 are the metadata themselves, the first 512 bytes of each table describe nothing; the
//! [`Chunk`] header lives there, in the table of starts. In chunks of large objects the table of lines holds
//! page records instead (`large.rs`). Marking never asks which sort of chunk it is in: bits are at the same
//! place in all of them.

use crate::sys::bytes_not_zero;
use crate::{Header, Obj};
use core::cell::Cell;

/// Bytes of a chunk, and its alignment.
pub const CHUNK: usize = 2 << 20;
/// Bytes of a block.
pub const BLOCK: usize = 32 << 10;
/// Bytes of a line.
pub const LINE: usize = 128;
/// Bytes of a granule.
pub const GRANULE: usize = 16;
/// Lines of a block.
pub const LINES_PER_BLOCK: usize = BLOCK / LINE;
/// Bytes of metadata at the start of a chunk; the first usable byte.
pub const META: usize = 64 << 10;
/// Index of the first block that holds objects.
pub const FIRST_BLOCK: usize = META / BLOCK;
/// One bit for every usable block of a chunk.
pub const ALL_BLOCKS: u64 = !0 << FIRST_BLOCK;
/// 64-bit words of a bitmap that describe one block.
pub const WORDS_PER_BLOCK: usize = BLOCK / GRANULE / 64;

/// Offset of the bitmap of object starts.
pub const STARTS: usize = 0;
/// Offset of mark bitmap 0; mark bitmap 1 follows.
pub const MARKS: usize = 16 << 10;
/// Offset of the line bytes.
pub const LINES: usize = 48 << 10;

/// One of the two mark bitmaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side(pub u8);

impl Side {
    /// The other bitmap.
    pub fn other(self) -> Side {
        Side(self.0 ^ 1)
    }
    /// Offset of the bitmap in a chunk.
    #[inline(always)]
    pub fn offset(self) -> usize {
        MARKS + (self.0 as usize) * (16 << 10)
    }
    /// The bit of a line byte that goes with the bitmap.
    #[inline(always)]
    pub fn line_bit(self) -> u8 {
        1 << self.0
    }
}

/// Base address of the chunk that `at` lies in.
#[inline(always)]
pub fn chunk_base(at: usize) -> usize {
    at & !(CHUNK - 1)
}

/// The word and the bit within it that describe `at` in the bitmap at offset `table`.
#[inline(always)]
pub fn bit_of(at: usize, table: usize) -> (*mut u64, u64) {
    let granule = (at & (CHUNK - 1)) / GRANULE;
    let word = (chunk_base(at) + table + granule / 64 * 8) as *mut u64;
    (word, 1 << (granule % 64))
}

/// Reads the bit that describes `at`.
///
/// # Safety
/// `at` lies in a mapped chunk.
#[inline(always)]
pub unsafe fn get_bit(at: usize, table: usize) -> bool {
    let (word, bit) = bit_of(at, table);
    // SAFETY: the tables of a mapped chunk are mapped.
    unsafe { *word & bit != 0 }
}

/// Sets the bit that describes `at`; true if it was clear.
///
/// # Safety
/// As for [`get_bit`], and nobody else accesses the chunk.
#[inline(always)]
pub unsafe fn set_bit(at: usize, table: usize) -> bool {
    let (word, bit) = bit_of(at, table);
    // SAFETY: the tables of a mapped chunk are mapped.
    unsafe {
        let old = *word;
        if old & bit != 0 {
            return false;
        }
        *word = old | bit;
    }
    true
}

/// Clears the bit that describes `at`.
///
/// # Safety
/// As for [`set_bit`].
#[inline(always)]
pub unsafe fn clear_bit(at: usize, table: usize) {
    let (word, bit) = bit_of(at, table);
    // SAFETY: the tables of a mapped chunk are mapped.
    unsafe { *word &= !bit };
}

/// The object at `at`.
///
/// # Safety
/// `at` is not null.
#[inline(always)]
pub unsafe fn obj_at(at: usize) -> Obj {
    // SAFETY: not null, says the caller.
    unsafe { Obj::new_unchecked(at as *mut Header) }
}

/// What the objects of a chunk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ChunkKind {
    /// Blocks and lines.
    Small = 1,
    /// Runs of pages, one large object each.
    Large = 2,
    /// One object that begins at [`META`] and may reach into the following chunks.
    Huge = 3,
}

/// The header of a chunk. Plain data in cells, because whoever has a [`ChunkRef`] may look at it and change
/// it: the spaces that own the chunks keep it true.
#[repr(C)]
pub struct Chunk {
    /// What lives here.
    pub kind: ChunkKind,
    /// Huge pages were asked for.
    pub huge_pages: bool,
    /// Bytes mapped from the base on.
    pub mapped: Cell<usize>,
    /// Small: blocks that are free and in no list. Invariant: all their metadata is zero.
    pub free: Cell<u64>,
    /// Small: blocks whose starts and marks have not been reconciled since the last major. Dead objects in
    /// them still have their start bits, so an object there is valid only if it is marked.
    pub unswept: Cell<u64>,
    /// Small: free blocks whose pages were handed back.
    pub returned: Cell<u64>,
    /// Small: blocks that may have pages, used or not.
    pub taken: Cell<u64>,
    /// Nanoseconds on the heap's clock when `free` last shrank.
    pub quiet_since: Cell<u64>,
    /// Large: pages in use.
    pub pages: [Cell<u64>; 8],
    /// Small: the number of scopes that were open when a block that is touched now was taken (`arena.rs`).
    pub depth: [Cell<u8>; CHUNK / BLOCK],
}

const _: () = assert!(size_of::<Chunk>() <= 512);

impl Chunk {
    /// The header of a chunk that nothing has happened in, of which so much is mapped.
    pub fn new(kind: ChunkKind, huge_pages: bool, mapped: usize) -> Chunk {
        Chunk {
            kind,
            huge_pages,
            mapped: Cell::new(mapped),
            free: Cell::new(0),
            unswept: Cell::new(0),
            returned: Cell::new(0),
            taken: Cell::new(0),
            quiet_since: Cell::new(0),
            pages: [const { Cell::new(0) }; 8],
            depth: [const { Cell::new(0) }; CHUNK / BLOCK],
        }
    }

    /// Large: the set of pages in use.
    pub fn pages_in_use(&self) -> [u64; 8] {
        core::array::from_fn(|n| self.pages[n].get())
    }
}

/// Sets these bits of a set.
#[inline(always)]
pub fn raise(set: &Cell<u64>, bits: u64) {
    set.set(set.get() | bits);
}

/// Clears these bits of a set.
#[inline(always)]
pub fn clear(set: &Cell<u64>, bits: u64) {
    set.set(set.get() & !bits);
}

/// A mapped chunk of this heap, by its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChunkRef(usize);

impl ChunkRef {
    /// The chunk at this address.
    ///
    /// # Safety
    /// As long as this or a copy of it is used, the chunk is mapped, one thread at a time uses it, and before
    /// [`ChunkRef::head`] is called, a header has been written.
    #[inline(always)]
    pub unsafe fn at(base: usize) -> ChunkRef {
        ChunkRef(base)
    }
    /// The chunk that `obj` begins in.
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed, and [`ChunkRef::at`]'s promise holds for its
    /// chunk.
    #[inline(always)]
    pub unsafe fn of(obj: Obj) -> ChunkRef {
        ChunkRef(chunk_base(obj.as_ptr() as usize))
    }
    /// Its address.
    #[inline(always)]
    pub fn base(self) -> usize {
        self.0
    }
    /// The header.
    #[inline(always)]
    pub fn head(&self) -> &Chunk {
        // SAFETY: mapped, written and this thread's, as whoever made the ChunkRef has promised; everything
        // that changes is in cells.
        unsafe { &*(self.0 as *const Chunk) }
    }
    /// The block of that index.
    pub fn block(self, index: usize) -> BlockRef {
        debug_assert!(index < CHUNK / BLOCK);
        BlockRef(self.0 + index * BLOCK)
    }
}

/// A block of a small chunk of this heap, by its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef(usize);

impl BlockRef {
    /// Its address.
    #[inline(always)]
    pub fn at(self) -> usize {
        self.0
    }
    /// The chunk.
    #[inline(always)]
    pub fn chunk(self) -> ChunkRef {
        ChunkRef(chunk_base(self.0))
    }
    /// The index in the chunk.
    #[inline(always)]
    pub fn index(self) -> usize {
        (self.0 & (CHUNK - 1)) / BLOCK
    }
    /// The bit of the block in the chunk's sets of blocks.
    #[inline(always)]
    pub fn bit(self) -> u64 {
        1 << self.index()
    }
    /// The part of the bitmap at offset `table` that describes this block.
    #[inline(always)]
    pub fn words(self, table: usize) -> *mut [u64; WORDS_PER_BLOCK] {
        (self.chunk().0 + table + self.index() * (WORDS_PER_BLOCK * 8)) as *mut _
    }
    /// The line bytes of this block.
    #[inline(always)]
    pub fn lines(self) -> *mut [u8; LINES_PER_BLOCK] {
        (self.chunk().0 + LINES + self.index() * LINES_PER_BLOCK) as *mut _
    }

    /// One bit per line that holds (part of) an object marked in `side`.
    pub fn occupancy(self, side: Side) -> [u64; 4] {
        let select = side.line_bit() as u64 * 0x0101_0101_0101_0101;
        let mut used = [0u64; 4];
        // SAFETY: a block is made of a ChunkRef: the tables of its chunk are mapped, aligned, and this
        // thread's.
        let (marks, lines) =
            unsafe { (&*self.words(side.offset()), &*(self.lines() as *const [u64; WORDS_PER_BLOCK])) };
        for (i, (m, l)) in marks.as_chunks().0.iter().zip(lines.as_chunks().0).enumerate() {
            used[i / 4] |= (bytes_not_zero(m, l, select) as u64) << (i % 4 * 16);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_byte_of_each_bitmap() {
        assert_eq!(LINE / GRANULE, 8);
        assert_eq!(CHUNK / GRANULE / 8, MARKS - STARTS);
        assert_eq!(CHUNK / LINE, META - LINES);
        assert_eq!(WORDS_PER_BLOCK * 8 % 64, 0);
    }

    #[test]
    fn occupancy_gathers_marks_and_covered_lines() {
        let mut room = vec![0u8; 2 * CHUNK];
        let base = (room.as_mut_ptr() as usize).next_multiple_of(CHUNK);
        // SAFETY: `room` covers the chunk, and is this function's. The header is not asked for.
        let block = unsafe { ChunkRef::at(base) }.block(5);
        for side in [Side(0), Side(1)] {
            // SAFETY: `room` covers the chunk.
            unsafe {
                set_bit(block.0 + 3 * LINE + 112, side.offset());
                set_bit(block.0 + 255 * LINE, side.offset());
                (*block.lines())[4] |= side.line_bit();
                (*block.lines())[100] |= side.other().line_bit();
            }
            let want = [1 << 3 | 1 << 4, 0, 0, 1 << 63];
            assert_eq!(block.occupancy(side), want);
            // SAFETY: as above.
            unsafe { (*block.lines()).fill(0) };
        }
    }
}
