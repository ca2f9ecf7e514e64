//! Chunks of heaps that have gone, kept for the next heap.
//!
//! A program that starts a domain for each small job makes a heap and drops it a moment later. To map its
//! first chunk, take a page fault for each page of it, and unmap it again, which interrupts all processors
//! that run the process, costs more than all the rest of a domain's life. So a heap that goes leaves its
//! first chunk here, with the pages of its first blocks, and the next heap begins in them. The mapping that
//! every heap holds in reserve goes along.
//!
//! Invariant: the metadata of a kept chunk are zero but for its header; what its blocks hold is rubbish, as
//! in any free block.
//!
//! Few are kept, and not for long: those that have not been needed for a while go back to the system when
//! others come or are taken, and when threads retire ([`release_warm_chunks`]). The chunk left last is taken
//! first.
//!
//! *Rejected.* To keep all chunks of a heap: a domain of many megabytes is not ended often enough for the
//! mapping to matter. A cache for each thread: domains that follow each other run on different threads.

use crate::layout::*;
use crate::sys::memory;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most chunks that are kept.
const MOST: usize = 16;
/// Blocks of a kept chunk that keep their pages.
const BLOCKS_KEPT: usize = 6;
/// Blocks of a kept chunk that may have pages.
pub const TAKEN: u64 = ALL_BLOCKS & ((1 << (FIRST_BLOCK + BLOCKS_KEPT)) - 1);
/// How long a chunk is kept that nobody needs.
const REST: Duration = Duration::from_secs(1);

/// A chunk of small objects on small pages, and a mapping of the same size that has never been used.
pub struct Warm {
    pub chunk: ChunkRef,
    pub reserve: Option<usize>,
}

struct Kept {
    warm: Warm,
    since: Instant,
}

/// Those left first come first.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The chunk left last, if there is one.
pub fn take() -> Option<Warm> {
    kept().pop().map(|k| k.warm)
}

/// Leaves a chunk whose heap is going. `poison` is what its blocks are filled with, if anything.
pub fn leave(warm: Warm, poison: Option<u8>) {
    let now = Instant::now();
    if kept().len() >= MOST {
        return unmap(warm);
    }
    clean(warm.chunk, poison);
    let mut list = kept();
    let spare = if list.len() < MOST {
        let rested = list.first().is_some_and(|k| now.saturating_duration_since(k.since) >= REST);
        list.push(Kept { warm, since: now });
        rested.then(|| list.remove(0).warm)
    } else {
        Some(warm)
    };
    drop(list);
    if let Some(spare) = spare {
        unmap(spare);
    }
}

/// Returns to the system the chunks of ended heaps that have not been needed for at least `rested`.
pub fn release_warm_chunks(rested: Duration) {
    let now = Instant::now();
    let mut list = kept();
    let n = list.iter().take_while(|k| now.saturating_duration_since(k.since) >= rested).count();
    let gone: Vec<Kept> = list.drain(..n).collect();
    drop(list);
    for k in gone {
        unmap(k.warm);
    }
}

fn unmap(warm: Warm) {
    memory::unmap(warm.chunk.base(), CHUNK);
    if let Some(base) = warm.reserve {
        memory::unmap(base, CHUNK);
    }
}

/// Makes the metadata of all blocks zero, and returns the pages of most.
fn clean(chunk: ChunkRef, poison: Option<u8>) {
    let head = chunk.head();
    let mut used = ALL_BLOCKS & !head.free.get();
    while used != 0 {
        let block = chunk.block(used.trailing_zeros() as usize);
        used &= used - 1;
        // SAFETY: the tables of a mapped chunk are mapped, distinct, and nobody else uses them; the blocks
        // hold nothing that is needed any more.
        unsafe {
            for table in [STARTS, Side(0).offset(), Side(1).offset()] {
                (*block.words(table)).fill(0);
            }
            (*block.lines()).fill(0);
            if let Some(pattern) = poison {
                core::ptr::write_bytes(block.at() as *mut u8, pattern, BLOCK);
            }
        }
    }
    let first = FIRST_BLOCK + BLOCKS_KEPT;
    if head.taken.get() & !TAKEN != 0 {
        memory::discard(chunk.block(first).at(), CHUNK - first * BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heap, HeapOptions};

    /// Fills a heap with `n` objects of 64 bytes, all of them `with`.
    fn filled(n: usize, with: u64) -> (Heap, usize) {
        let mut heap = Heap::new(HeapOptions::default());
        let mut first = 0;
        for i in 0..n {
            let at = heap.alloc(1, 64).as_ptr() as usize;
            if i == 0 {
                first = at;
            }
            // SAFETY: an object of 64 bytes.
            unsafe { *((at + 8) as *mut u64) = with };
        }
        (heap, first)
    }

    #[test]
    fn what_a_heap_leaves_is_free_for_the_next() {
        // Others use the list at the same time: whose chunk comes back is not known, but whatever comes is
        // clean.
        for n in [1, 600, 20_000] {
            drop(filled(n, 3));
            let left = (0..MOST).map_while(|_| take()).collect::<Vec<_>>();
            for warm in &left {
                let base = warm.chunk.base();
                // SAFETY: a mapped chunk that nobody else knows any more.
                let meta = unsafe { core::slice::from_raw_parts(base as *const u64, META / 8) };
                assert!(meta[size_of::<Chunk>().div_ceil(8)..].iter().all(|w| *w == 0));
                let beyond = base + (FIRST_BLOCK + BLOCKS_KEPT) * BLOCK;
                // SAFETY: as above.
                let rest =
                    unsafe { core::slice::from_raw_parts(beyond as *const u64, (base + CHUNK - beyond) / 8) };
                assert!(rest.iter().all(|w| *w == 0), "pages of later blocks are returned");
            }
            left.into_iter().for_each(|warm| leave(warm, None));
        }
    }

    #[test]
    fn a_heap_that_begins_in_a_warm_chunk_knows_its_own_objects_only() {
        for _ in 0..50 {
            let (old, at) = filled(700, 5);
            assert!(old.find_object(at).is_some());
            drop(old);
            let (heap, first) = filled(3, 6);
            for word in (first..first + BLOCK).step_by(GRANULE) {
                assert_eq!(heap.find_object(word).is_some(), word < first + 3 * 64, "{word:x} of {first:x}");
            }
        }
    }

    #[test]
    fn few_are_kept_and_rested_ones_go() {
        let heaps: Vec<_> = (0..3 * MOST).map(|_| filled(1, 1)).collect();
        drop(heaps);
        assert!(kept().len() <= MOST);
        release_warm_chunks(Duration::from_secs(3600));
        release_warm_chunks(Duration::ZERO);
        // Other tests may have left some since, but those that were here are gone.
        assert!(kept().iter().all(|k| k.since.elapsed() < Duration::from_secs(1)));
    }
}
