//! Which island a page belongs to: a table that collectors read without a lock, with words that may be
//! anything.
//!
//! # What an answer means
//! Pages are given to islands and taken back under the mutex of the state, numbers too. So whoever *holds* an
//! island reads its number for each of its pages, and for no other page: a number that had other pages before
//! was free in between, and it came to its holder through the mutex and the publishing of the island. An
//! answer that names an island that the reader does not hold means nothing; it may be of yesterday.
//! `tests/loom` looks at every interleaving.

use super::sync::{AtomicPtr, AtomicU32, CHUNKS, Ordering::*, PAGES, constant, null_pointers, zeros};

/// What is known of the pages of a chunk.
struct Pages {
    /// Number of the island that each belongs to; 0: none.
    owners: [AtomicU32; PAGES],
    /// While the chunk is divided: for a page where a free block begins,
    /// `order << 28 | (position in its list + 1)`, else 0. Only touched under the mutex.
    states: [AtomicU32; PAGES],
}

/// The table: by chunk. Tables of chunks are made when a chunk is first used and kept for ever (4 KiB for 2
/// MiB).
pub struct Owners {
    chunks: [AtomicPtr<Pages>; CHUNKS],
}

impl Owners {
    constant! {
        /// No page has an owner.
        pub fn new() -> Owners {
            Owners { chunks: null_pointers() }
        }
    }

    /// The pages of a chunk that is being used. Under the mutex.
    fn pages_of(&self, chunk: usize) -> &Pages {
        let slot = &self.chunks[chunk];
        let mut pages = slot.load(Acquire);
        if pages.is_null() {
            // Nobody else makes one.
            pages = Box::into_raw(Box::new(Pages { owners: zeros(), states: zeros() }));
            slot.store(pages, Release);
        }
        // SAFETY: tables are never freed.
        unsafe { &*pages }
    }

    /// Number of the island that a page belongs to; 0: none.
    #[inline(always)]
    pub fn of(&self, page: usize) -> u32 {
        let pages = self.chunks[page / PAGES % CHUNKS].load(Acquire);
        if pages.is_null() {
            return 0;
        }
        // SAFETY: tables are never freed.
        unsafe { (&(*pages).owners)[page % PAGES].load(Relaxed) }
    }

    /// Gives pages to an island, or to none. Under the mutex.
    pub fn set(&self, pages: std::ops::Range<usize>, number: u32) {
        for page in pages {
            self.pages_of(page / PAGES).owners[page % PAGES].store(number, Relaxed);
        }
    }

    /// The state of a page of a divided chunk. Under the mutex.
    pub fn state(&self, page: u32) -> &AtomicU32 {
        &self.pages_of(page as usize / PAGES).states[page as usize % PAGES]
    }
}

#[cfg(test)]
impl Drop for Owners {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let pages = chunk.load(Acquire);
            if !pages.is_null() {
                // SAFETY: made by `Box::into_raw`; nobody else is left.
                drop(unsafe { Box::from_raw(pages) });
            }
        }
    }
}
