//! Small pieces of memory, kept by the threads that free them.
//!
//! What goes from domain to domain is made by one thread and freed by another: messages, tasks, waits. The C
//! library's allocator keeps seven pieces of each size for a thread; beyond that it takes the lock of the
//! arena that the piece is from, joins pieces and cuts them again. A quarter of the time of a task that does
//! nothing was that.
//!
//! So each thread keeps *batches* of pieces for each size up to [`LARGEST`], in steps of [`STEP`] bytes: the
//! one in use, and a full one. A thread that frees more than it takes leaves full batches on a *shelf* that
//! all threads have in common; one that takes more than it frees gets them there, whole. A piece costs a few
//! loads and stores then, and a batch one exchange of a word.
//!
//! Nobody waits for a shelf: whoever finds it in use asks the C library, as for what no shelf has. So a
//! thread that the system has put aside in the middle, or that forks, stops nobody.
//!
//! Each piece is one of the C library's, with its own size rounded up, and can go back by itself at any time.
//! What threads and shelves keep is bounded ([`BATCH`], [`MOST`]); a thread's end gives its own back, and a
//! program that comes to rest what is on the shelves ([`give_back`]).
//!
//! Builds with assertions do without ([`ON`]): there the C library, or a sanitizer in its place, is to see
//! each piece come and go.
//!
//! *Rejected.* Free lists in each kind of object (waiters, parcels, tasks): several mechanisms for one thing,
//! and most of the cost is in lists and closures that nobody would think of. Pieces cut from blocks of our
//! own: they could not go back to the system one by one. Another allocator for all: it would have to survive
//! the end of memory as this one does (`shortage.rs`), and is a dependency.

use crate::space;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether threads keep pieces in this build.
pub(crate) const ON: bool = !cfg!(debug_assertions);
/// Largest piece that is kept, in bytes.
pub(crate) const LARGEST: usize = 512;
/// What sizes are rounded up to; also the alignment of all pieces.
const STEP: usize = 16;
const CLASSES: usize = LARGEST / STEP;
/// Bytes of a batch, as far as that makes between 8 and 64 pieces.
const BATCH: usize = 2 << 10;
/// Batches on the shelf of one size.
const MOST: usize = 64;

/// Whether pieces of this layout are kept.
#[inline(always)]
pub(crate) fn fits(layout: Layout) -> bool {
    ON && layout.size() <= LARGEST && layout.align() <= STEP
}

#[inline(always)]
fn class_of(size: usize) -> usize {
    size.saturating_sub(1) / STEP
}

/// What the C library is asked for.
fn layout_of(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, the size a small multiple of it.
    unsafe { Layout::from_size_align_unchecked((class + 1) * STEP, STEP) }
}

/// Pieces of a full batch.
fn full(class: usize) -> u32 {
    (BATCH / ((class + 1) * STEP)).clamp(8, 64) as u32
}

/// A piece that nobody uses.
struct Piece {
    next: *mut Piece,
    /// Of the first one of a batch on a shelf: the batch below.
    below: *mut Piece,
}

/// Pieces of one size that a thread keeps.
#[derive(Clone, Copy)]
struct Place {
    /// The batch in use.
    head: *mut Piece,
    count: u32,
    /// How many it may have; 0: the thread keeps none yet, or none any more.
    most: u32,
    /// Another one, which is full; null: none.
    spare: *mut Piece,
}

/// What a thread keeps.
struct Kept {
    places: [Place; CLASSES],
    /// It is about to end.
    ended: bool,
}

/// Full batches of one size, for all threads.
#[repr(align(64))]
struct Shelf {
    in_use: AtomicBool,
    /// How many; changed by who uses it.
    count: AtomicUsize,
    top: Cell<*mut Piece>,
}

/// The shelves of all sizes.
struct Shelves([Shelf; CLASSES]);

// SAFETY: the cells are touched by who has set `in_use`.
unsafe impl Sync for Shelves {}

static SHELVES: Shelves = Shelves::new();

thread_local! {
    static KEPT: UnsafeCell<Kept> = const { UnsafeCell::new(Kept::new()) };
    static END: End = const { End };
}

/// Gives back what the thread keeps, when it ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: this thread's own; nothing that is called here comes back to it.
        KEPT.with(|kept| unsafe { (*kept.get()).end() });
    }
}

/// A piece of a size that [fits](fits); null: the system has none.
// Not inlined: what calls it may go on in another thread, and would keep the address of what is this one's.
#[inline(never)]
pub(crate) fn alloc(size: usize) -> *mut u8 {
    // SAFETY: this thread's own; nothing that is called here comes back to it.
    KEPT.with(|kept| unsafe { (*kept.get()).alloc(class_of(size), &SHELVES) })
}

/// A piece that [`alloc`] gave for this size is not used any more.
///
/// # Safety
/// As it says, and only once.
// Not inlined: as above.
#[inline(never)]
pub(crate) unsafe fn dealloc(p: *mut u8, size: usize) {
    KEPT.with(|kept| {
        let kept = kept.get();
        let class = class_of(size);
        // SAFETY: this thread's own. What registers its end may come back here, so nothing is borrowed then.
        unsafe {
            if (*kept).places[class].most == 0 && !(*kept).ended {
                (*kept).begin();
                END.with(|_| {});
            }
            (*kept).dealloc(p.cast(), class, &SHELVES);
        }
    });
}

/// Whether two sizes are served by the same pieces.
#[inline]
pub(crate) fn is_same(one: usize, other: usize) -> bool {
    class_of(one) == class_of(other)
}

/// Gives the system back what is on the shelves: for a program that has come to rest.
pub fn give_back() {
    for (class, shelf) in SHELVES.0.iter().enumerate() {
        loop {
            let batch = shelf.take();
            if batch.is_null() {
                break;
            }
            // SAFETY: a batch of this size, which nobody else has any more.
            unsafe { free(batch, class) };
        }
    }
}

/// Gives the pieces of a list back to the system.
///
/// # Safety
/// They are of this size, and nobody uses them.
unsafe fn free(mut piece: *mut Piece, class: usize) {
    while !piece.is_null() {
        // SAFETY: the caller's promise; each is one of the C library's.
        unsafe {
            let next = (*piece).next;
            System.dealloc(piece.cast(), layout_of(class));
            piece = next;
        }
    }
}

impl Kept {
    const fn new() -> Kept {
        let none = Place { head: null_mut(), count: 0, most: 0, spare: null_mut() };
        Kept { places: [none; CLASSES], ended: false }
    }

    fn begin(&mut self) {
        for (class, place) in self.places.iter_mut().enumerate() {
            place.most = full(class);
        }
    }

    #[inline(always)]
    fn alloc(&mut self, class: usize, shelves: &Shelves) -> *mut u8 {
        let place = &mut self.places[class];
        let piece = place.head;
        if piece.is_null() {
            return place.refill(class, shelves);
        }
        // SAFETY: a free piece of this thread's.
        place.head = unsafe { (*piece).next };
        place.count -= 1;
        piece.cast()
    }

    /// # Safety
    /// `piece` is of this size, and nobody uses it any more.
    #[inline(always)]
    unsafe fn dealloc(&mut self, piece: *mut Piece, class: usize, shelves: &Shelves) {
        let place = &mut self.places[class];
        if place.count >= place.most && !place.put_aside(class, shelves) {
            // SAFETY: one of the C library's, see `refill`.
            return unsafe { System.dealloc(piece.cast(), layout_of(class)) };
        }
        // SAFETY: nobody else uses it.
        unsafe { (*piece).next = place.head };
        place.head = piece;
        place.count += 1;
    }

    fn end(&mut self) {
        self.ended = true;
        for (class, place) in self.places.iter_mut().enumerate() {
            let kept =
                std::mem::replace(place, Place { head: null_mut(), count: 0, most: 0, spare: null_mut() });
            // SAFETY: free pieces of this size.
            unsafe {
                free(kept.head, class);
                free(kept.spare, class);
            }
        }
    }
}

impl Place {
    /// A piece, when there is none in use.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize, shelves: &Shelves) -> *mut u8 {
        let mut batch = std::mem::replace(&mut self.spare, null_mut());
        if batch.is_null() && self.most != 0 {
            batch = shelves.0[class].take();
        }
        if batch.is_null() {
            let layout = layout_of(class);
            if !space::allows_piece(layout.size()) {
                return null_mut();
            }
            // SAFETY: the layout is not empty.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the first piece of a full batch, which is this thread's now.
        self.head = unsafe { (*batch).next };
        self.count = full(class) - 1;
        batch.cast()
    }

    /// Makes room for one more piece. False: the thread keeps none.
    #[cold]
    #[inline(never)]
    fn put_aside(&mut self, class: usize, shelves: &Shelves) -> bool {
        if self.most == 0 {
            return false;
        }
        let batch = std::mem::replace(&mut self.spare, self.head);
        (self.head, self.count) = (null_mut(), 0);
        if !batch.is_null() && !shelves.0[class].put(batch) {
            // SAFETY: a batch of this thread's.
            unsafe { free(batch, class) };
        }
        true
    }
}

impl Shelves {
    const fn new() -> Shelves {
        Shelves(
            [const {
                Shelf {
                    in_use: AtomicBool::new(false),
                    count: AtomicUsize::new(0),
                    top: Cell::new(null_mut()),
                }
            }; CLASSES],
        )
    }
}

impl Shelf {
    /// Leaves a full batch here. False: there is no room, or somebody else is here.
    fn put(&self, batch: *mut Piece) -> bool {
        if self.count.load(Ordering::Relaxed) >= MOST || self.in_use.swap(true, Ordering::Acquire) {
            return false;
        }
        // SAFETY: the caller's batch.
        unsafe { (*batch).below = self.top.get() };
        self.top.set(batch);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.in_use.store(false, Ordering::Release);
        true
    }

    /// Takes a batch; null: there is none, or somebody else is here.
    fn take(&self) -> *mut Piece {
        if self.count.load(Ordering::Relaxed) == 0 || self.in_use.swap(true, Ordering::Acquire) {
            return null_mut();
        }
        let batch = self.top.get();
        if !batch.is_null() {
            // SAFETY: a batch on the shelf, which nobody else touches.
            self.top.set(unsafe { (*batch).below });
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        self.in_use.store(false, Ordering::Release);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A piece and what it was filled with.
    struct Filled(*mut u8, usize, u8);
    // SAFETY: whoever has it is alone with the piece.
    unsafe impl Send for Filled {}

    impl Filled {
        fn new(kept: &mut Kept, shelves: &Shelves, size: usize, with: u8) -> Filled {
            let p = kept.alloc(class_of(size), shelves);
            assert!(!p.is_null() && (p as usize).is_multiple_of(STEP));
            // SAFETY: just given.
            unsafe { p.write_bytes(with, size) };
            Filled(p, size, with)
        }
        fn free(self, kept: &mut Kept, shelves: &Shelves) {
            let Filled(p, size, with) = self;
            // SAFETY: ours until it is freed.
            unsafe {
                assert!((0..size).all(|i| *p.add(i) == with), "somebody else has written into a piece");
                kept.dealloc(p.cast(), class_of(size), shelves);
            }
        }
    }

    fn kept() -> Kept {
        let mut kept = Kept::new();
        kept.begin();
        kept
    }

    #[test]
    fn pieces_come_back_in_batches() {
        let (mut kept, shelves) = (kept(), Shelves::new());
        for size in [1, 16, 17, 48, 100, 256, 511, 512] {
            let class = class_of(size);
            let batch = full(class) as usize;
            let held: Vec<_> =
                (0..5 * batch).map(|n| Filled::new(&mut kept, &shelves, size, n as u8)).collect();
            held.into_iter().for_each(|f| f.free(&mut kept, &shelves));
            let place = kept.places[class];
            assert_eq!((place.count as usize, place.spare.is_null()), (batch, false));
            assert_eq!(shelves.0[class].count.load(Ordering::Relaxed), 3);
            let mut known = std::collections::HashSet::new();
            let held: Vec<_> =
                (0..5 * batch).map(|n| Filled::new(&mut kept, &shelves, size, n as u8)).collect();
            assert!(held.iter().all(|f| known.insert(f.0 as usize)), "no piece is given twice");
            assert_eq!(shelves.0[class].count.load(Ordering::Relaxed), 0);
            held.into_iter().for_each(|f| f.free(&mut kept, &shelves));
        }
        kept.end();
        assert!(kept.places.iter().all(|p| p.head.is_null() && p.spare.is_null() && p.most == 0));
        // Afterwards it keeps nothing.
        let one = Filled::new(&mut kept, &shelves, 64, 7);
        one.free(&mut kept, &shelves);
        assert_eq!(kept.places[class_of(64)].count, 0);
        for (class, shelf) in shelves.0.iter().enumerate() {
            while shelf.count.load(Ordering::Relaxed) > 0 {
                // SAFETY: a batch that nobody else has.
                unsafe { free(shelf.take(), class) };
            }
        }
    }

    #[test]
    fn a_shelf_has_a_bound_and_nobody_waits_for_it() {
        let (mut kept, shelves) = (kept(), Shelves::new());
        let class = class_of(512);
        let count = (MOST + 10) * full(class) as usize;
        let held: Vec<_> = (0..count).map(|_| Filled::new(&mut kept, &shelves, 512, 1)).collect();
        held.into_iter().for_each(|f| f.free(&mut kept, &shelves));
        assert_eq!(shelves.0[class].count.load(Ordering::Relaxed), MOST);
        shelves.0[class].in_use.store(true, Ordering::Relaxed);
        assert!(shelves.0[class].take().is_null());
        let held: Vec<_> = (0..3 * full(class)).map(|_| Filled::new(&mut kept, &shelves, 512, 2)).collect();
        held.into_iter().for_each(|f| f.free(&mut kept, &shelves));
        shelves.0[class].in_use.store(false, Ordering::Relaxed);
        kept.end();
        for _ in 0..MOST {
            // SAFETY: a batch that nobody else has.
            unsafe { free(shelves.0[class].take(), class) };
        }
    }

    #[test]
    fn what_one_thread_makes_another_frees() {
        let shelves = Shelves::new();
        let (to, from) = mpsc::sync_channel::<Vec<Filled>>(4);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut kept = kept();
                for list in from {
                    list.into_iter().for_each(|f| f.free(&mut kept, &shelves));
                }
                kept.end();
            });
            let mut kept = kept();
            for round in 0..200u32 {
                let size = |n: u32| ((n * 37 + round) % LARGEST as u32) as usize + 1;
                to.send((0..300).map(|n| Filled::new(&mut kept, &shelves, size(n), n as u8)).collect())
                    .unwrap();
            }
            drop(to);
            kept.end();
        });
        for (class, shelf) in shelves.0.iter().enumerate() {
            while shelf.count.load(Ordering::Relaxed) > 0 {
                // SAFETY: a batch that nobody else has.
                unsafe { free(shelf.take(), class) };
            }
        }
    }

    #[test]
    fn threads_keep_pieces_of_the_common_shelves() {
        // Through the thread's own, as the allocator does; each thread's end gives back what it has kept.
        let all: Vec<_> = (0..4)
            .map(|t| {
                std::thread::spawn(move || {
                    for n in 0..1000usize {
                        let size = n % LARGEST + 1;
                        let p = alloc(size);
                        assert!(!p.is_null());
                        // SAFETY: just given, and freed once.
                        unsafe {
                            p.write_bytes(t, size);
                            dealloc(p, size);
                        }
                        let again = alloc(size);
                        assert_eq!(again, p, "the last one that was freed");
                        // SAFETY: as above.
                        unsafe { dealloc(again, size) };
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|t| t.join().unwrap());
        give_back();
    }
}
