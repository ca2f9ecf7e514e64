//! The moment when the system has no memory left: an allocator that survives it, and who is told.
//!
//! Heaps ask the system for chunks, and a chunk that is refused becomes a Lua error at the next safepoint.
//! But Rust code allocates too, in small pieces and at places where nothing can fail: a name, a list that
//! grows by one. There the end of memory would be the end of the process. So the command's allocator
//! is [`Allocator`]: when the system refuses, requests of up to [`LARGEST`] bytes are served from a *reserve*
//! that is part of the program itself. From then on memory is *short*: every heap has a collection due, and
//! its program gets "not enough memory" if a complete collection does not help. The reserve only has to last
//! until then.
//!
//! Larger requests are refused. What a program decides the size of asks in a way that can fail
//! (`try_reserve`), or does without:
//!
//! | what grows | when it cannot |
//! |---|---|
//! | the marker's stack, the logs of stores, what a major is to look at again | it is forgotten, and found by tracing all that is marked once more (`mark.rs`) |
//! | the set of young interned strings | it is filled further; the collection that is due empties it |
//! | the shards of the old ones | they are not split, and grow one by one |
//! | shapes, atoms | there is no transition: the table becomes a dictionary |
//! | a text that is compiled | "not enough memory", before its tree doubles (`perilune_syntax::Bounds`) |
//!
//! What is left, and ends the process beyond a mebibyte: roots and finalised objects that a collection marks
//! at once, the log of a scope that is open (`arena.rs`), the lists of chunks and large objects of a heap of
//! some hundred gigabytes.
//!
//! Small pieces come from what threads keep (`small.rs`), and from the system only if there are none.
//!
//! # The reserve
//! A region of zeroed static memory, which costs address space but no memory until it is used. Pieces are
//! powers of two, each size with a list of free ones; a lock is held for a few instructions. Nobody gets
//! there while the system gives memory.
//!
//! # The end of a shortage
//! After a complete collection somebody tries whether the system gives a notable piece again ([`is_over`]).
//!
//! Where address space is limited, requests are refused while there is still something left for the C library
//! (`space.rs`).
//!
//! *Rejected.* A hook for refused allocations: not in stable Rust, and it could only end the process in
//! another way. Unwinding from wherever an allocation fails: nothing in between is made for that.

use crate::{small, space};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of the reserve.
const SIZE: usize = 8 << 20;
/// Largest request that is served from it.
pub const LARGEST: usize = 1 << 20;
const LEAST_SHIFT: u32 = 5;
const CLASSES: usize = (LARGEST.trailing_zeros() - LEAST_SHIFT) as usize + 1;
/// What the system has to give for a shortage to be over.
const PROBE: usize = 2 << 20;

/// From here on a request is asked of the limit of address space first: the C library maps what is larger by
/// itself, and its own requests are smaller.
const COUNTED: usize = 128 << 10;

/// What the system gives for a request that takes so many bytes more; null, if that would leave the C library
/// too little of a limited address space.
#[inline]
fn of_system(bytes: usize, give: impl FnOnce() -> *mut u8) -> *mut u8 {
    if bytes >= COUNTED {
        space::claim(bytes, || Some(give())).unwrap_or(null_mut())
    } else if space::allows_piece(bytes) {
        give()
    } else {
        null_mut()
    }
}

/// The allocator of a program that is to survive the end of memory; see the module's essay.
pub struct Allocator;

#[repr(align(4096))]
struct Region(UnsafeCell<[u8; SIZE]>);

/// What the lock protects: the end of what has been handed out, and free pieces by size, each with the
/// address of the next in its first word.
struct Pieces {
    used: usize,
    free: [usize; CLASSES],
}

struct Reserve {
    region: Region,
    locked: AtomicBool,
    pieces: UnsafeCell<Pieces>,
    /// Bytes that are handed out.
    taken: AtomicUsize,
}

// SAFETY: the pieces are touched with the lock held, the region only by those who have been given parts of
// it.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve {
    region: Region(UnsafeCell::new([0; SIZE])),
    locked: AtomicBool::new(false),
    pieces: UnsafeCell::new(Pieces { used: 0, free: [0; CLASSES] }),
    taken: AtomicUsize::new(0),
};

static SHORT: AtomicBool = AtomicBool::new(false);

/// Whether the system has refused memory to this program's Rust code and nobody has found since that it gives
/// some again.
#[inline]
pub fn is_short() -> bool {
    SHORT.load(Ordering::Relaxed)
}

/// Tries whether memory is still short; to be asked after a complete collection.
pub fn is_over() -> bool {
    if !is_short() {
        return true;
    }
    let Ok(layout) = Layout::from_size_align(PROBE, 16) else { return false };
    // SAFETY: the layout is not empty; the piece is given back at once.
    let there = unsafe {
        let p = of_system(PROBE, || System.alloc(layout));
        if !p.is_null() {
            System.dealloc(p, layout);
        }
        !p.is_null()
    };
    if there && RESERVE.taken.load(Ordering::Relaxed) < SIZE / 2 {
        SHORT.store(false, Ordering::Relaxed);
    }
    !is_short()
}

impl Reserve {
    fn contains(&self, p: *mut u8) -> bool {
        (p as usize).wrapping_sub(self.region.0.get() as usize) < SIZE
    }

    fn with_pieces<R>(&self, f: impl FnOnce(&mut Pieces) -> R) -> R {
        while self.locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.pieces.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    /// The class of a request, and the bytes of its pieces.
    fn class(layout: Layout) -> Option<(usize, usize)> {
        let size = layout.size().max(layout.align()).max(1 << LEAST_SHIFT).next_power_of_two();
        (size <= LARGEST).then(|| ((size.trailing_zeros() - LEAST_SHIFT) as usize, size))
    }

    #[cold]
    #[inline(never)]
    fn alloc(&self, layout: Layout) -> *mut u8 {
        SHORT.store(true, Ordering::Relaxed);
        let Some((class, size)) = Self::class(layout) else { return null_mut() };
        let base = self.region.0.get() as usize;
        let at = self.with_pieces(|pieces| {
            let free = pieces.free[class];
            if free != 0 {
                // SAFETY: a free piece of ours, whose first word is the next one's address.
                pieces.free[class] = unsafe { *(free as *const usize) };
                return free;
            }
            // Pieces are aligned to their size, as far as the region is.
            let at = pieces.used.next_multiple_of(size.min(4096));
            if at + size > SIZE {
                return 0;
            }
            pieces.used = at + size;
            base + at
        });
        if at != 0 {
            self.taken.fetch_add(size, Ordering::Relaxed);
        }
        at as *mut u8
    }

    #[cold]
    #[inline(never)]
    fn dealloc(&self, p: *mut u8, layout: Layout) {
        let Some((class, size)) = Self::class(layout) else { return };
        self.with_pieces(|pieces| {
            // SAFETY: a piece of at least 32 bytes that nobody uses any more.
            unsafe { *p.cast::<usize>() = pieces.free[class] };
            pieces.free[class] = p as usize;
        });
        self.taken.fetch_sub(size, Ordering::Relaxed);
    }

    /// Room of `new` bytes with the contents of `p`, after the system has refused to resize it or because it
    /// is not the system's to resize: a piece of the reserve, or of those that threads keep.
    #[inline(never)]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(new, layout.align()) else { return null_mut() };
        // SAFETY: the caller's promises are those of `GlobalAlloc::realloc`.
        unsafe {
            let to = Allocator.alloc(wanted);
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(p, to, layout.size().min(new));
                Allocator.dealloc(p, layout);
            }
            to
        }
    }
}

// SAFETY: what the system gives goes back to the system, what the reserve gives to the reserve; an address
// tells which.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if small::fits(layout) {
            let p = small::alloc(layout.size());
            return if p.is_null() { RESERVE.alloc(layout) } else { p };
        }
        // SAFETY: the caller's promise.
        let p = of_system(layout.size(), || unsafe { System.alloc(layout) });
        if p.is_null() { RESERVE.alloc(layout) } else { p }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        if RESERVE.contains(p) {
            return RESERVE.dealloc(p, layout);
        }
        // SAFETY: the caller's promise; it is none of the reserve's.
        unsafe {
            if small::fits(layout) { small::dealloc(p, layout.size()) } else { System.dealloc(p, layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if small::fits(layout) {
            // SAFETY: the caller's promise; what comes has at least this size.
            return unsafe {
                let p = self.alloc(layout);
                if !p.is_null() {
                    p.write_bytes(0, layout.size());
                }
                p
            };
        }
        // SAFETY: the caller's promise.
        let p = of_system(layout.size(), || unsafe { System.alloc_zeroed(layout) });
        if !p.is_null() {
            return p;
        }
        let p = RESERVE.alloc(layout);
        if !p.is_null() {
            // SAFETY: a piece of at least this size.
            unsafe { p.write_bytes(0, layout.size()) };
        }
        p
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let wanted = unsafe { Layout::from_size_align_unchecked(new, layout.align()) };
        if !RESERVE.contains(p) {
            match (small::fits(layout), small::fits(wanted)) {
                (true, true) if small::is_same(layout.size(), new) => return p,
                (false, false) => {
                    let more = new.saturating_sub(layout.size());
                    // SAFETY: the caller's promise; it is the system's.
                    let to = of_system(more, || unsafe { System.realloc(p, layout, new) });
                    if !to.is_null() {
                        return to;
                    }
                }
                _ => {}
            }
        }
        // SAFETY: the caller's promise.
        unsafe { RESERVE.realloc(p, layout, new) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_gives_and_takes() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let mut held = Vec::new();
        for round in 0..50 {
            for size in [1, 31, 32, 33, 100, 4096, 70_000] {
                let p = RESERVE.alloc(layout(size));
                assert!(RESERVE.contains(p) && (p as usize).is_multiple_of(32), "{round} {size}");
                // SAFETY: just given.
                unsafe { p.write_bytes(round, size) };
                held.push((p, size, round));
            }
            if round % 3 == 2 {
                for (p, size, with) in held.drain(..) {
                    // SAFETY: still ours.
                    assert!((0..size).all(|i| unsafe { *p.add(i) } == with));
                    RESERVE.dealloc(p, layout(size));
                }
            }
        }
        for (p, size, _) in held {
            RESERVE.dealloc(p, layout(size));
        }
        assert_eq!(RESERVE.taken.load(Ordering::Relaxed), 0);
        assert!(RESERVE.alloc(layout(LARGEST + 1)).is_null());
        let all = (0..).map(|_| RESERVE.alloc(layout(LARGEST))).take_while(|p| !p.is_null()).count();
        assert!((4..=8).contains(&all), "{all}");
        assert!(is_short());
    }
}
