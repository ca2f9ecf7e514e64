//! Which code an address belongs to: a map that signal handlers read and compiling threads change.
//!
//! A sampler's signal handler has the address at which it interrupted a thread, and wants to know which
//! compiled function that is and which bytecode. It must not lock (the thread below it may hold the lock),
//! allocate, or wait.
//!
//! # Structure
//! The region is divided into sectors of 16 KiB, and each has a pointer to an immutable, sorted list of the
//! codes that lie in it in whole or in part; null if there are none. A reader takes the sector of the
//! address, loads one pointer and searches the list by halving. A writer, under a lock, makes a new list and
//! swaps the pointer: a sector holds a few dozen codes at most, so that is a short copy however much code
//! there is in all.
//!
//! # When old lists are freed
//! Readers count themselves in before they load a pointer and out when they are done with what it leads to. A
//! writer that has swapped pointers looks at the count: if it is zero, nobody reads a list, and what it has
//! replaced, now and before, is freed. If it is not, the old lists wait for the next writer (or
//! [`Ranges::sweep`]). Nobody waits for anybody: readers take a fixed number of steps, writers postpone.
//!
//! Why zero is enough. Both sides have a sequentially consistent fence between their store and their load:
//!
//! ```text
//!  reader: count += 1;    FENCE; list = sector      writer: sector = new; FENCE; count == 0?
//! ```
//!
//! One of the two fences comes first. If it is the reader's, the writer's load sees the increment: it finds a
//! count of one or more, unless the reader has counted itself out already, which it does with a release that
//! the writer's load acquires, so that all its reads of the list are over. If the writer's comes first, the
//! reader's load sees the new pointer, and never the old list. `tests/model/readers.rs` checks this under all
//! interleavings.
//!
//! A signal handler that interrupts a writer between any two steps is a reader like others; one that
//! interrupts a reader counts itself in and out in between.
//!
//! # Rejected
//! *One sorted array for all code, copied at each change*: simpler, but a program that compiles all the time
//! copies it all the time. *A word per 32 bytes of code* finds in one load, at an eighth of the memory, and
//! needs the same care for what the word leads to. *Epochs instead of a count*: a handler would need to know
//! its thread's slot.

use crate::sync::{AtomicPtr, AtomicUsize, Lineage, Mutex, Ordering, changing, fence, lock};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

/// The base-2 logarithm of a sector's bytes.
const SECTOR_SHIFT: u32 = 14;

/// A map from the addresses of a region to a `T` for each code in it.
pub struct Ranges<T> {
    region: Range<usize>,
    sectors: Box<[AtomicPtr<Sector<T>>]>,
    /// How many readers there are at the moment. Readers: fences as in the essay above.
    readers: AtomicUsize,
    lineage: Lineage,
    /// Lists that are in no sector any more, but that a reader may still be in. The lock is that of all
    /// writers.
    #[allow(clippy::vec_box)] // readers have the address of what is in the box
    replaced: Mutex<Vec<Box<Sector<T>>>>,
}

/// The codes of a sector, by address. Never changed once it is in a sector.
struct Sector<T> {
    codes: Vec<Entry<T>>,
}

struct Entry<T> {
    range: Range<usize>,
    of: Arc<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Entry<T> {
        Entry { range: self.range.clone(), of: Arc::clone(&self.of) }
    }
}

// SAFETY: readers get shared references to `T` on any thread (`Sync`), and writers drop it on any thread
// (`Send`). The pointers lead to lists that are freed as the essay says.
unsafe impl<T: Send + Sync> Sync for Ranges<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Ranges<T> {}

/// Counts a reader out, also when its function panics.
struct Reading<'a>(&'a AtomicUsize);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Ranges<T> {
    /// An empty map for the addresses of `region`.
    pub fn new(region: Range<usize>) -> Ranges<T> {
        let count = region.len().div_ceil(1 << SECTOR_SHIFT);
        let sectors = (0..count).map(|_| AtomicPtr::new(null_mut())).collect();
        let (readers, replaced) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        Ranges { region, sectors, readers, lineage: Lineage::current(), replaced }
    }

    /// What code `address` lies in: calls `f` with the address at which the code starts and with what was
    /// given to [`insert`](Ranges::insert) for it. `None` if no code is there. For the address to which a
    /// call returns, ask one byte before it.
    ///
    /// Fit for signal handlers if `f` is. `f` should be short: while it runs, no list is freed.
    pub fn find<R>(&self, address: usize, f: impl FnOnce(usize, &T) -> R) -> Option<R> {
        if !self.region.contains(&address) {
            return None;
        }
        let sector = &self.sectors[(address - self.region.start) >> SECTOR_SHIFT];
        self.readers.fetch_add(1, Ordering::Relaxed);
        let reading = Reading(&self.readers);
        fence(Ordering::SeqCst);
        // SAFETY: a list that was in the sector after this reader was counted is freed only after it is
        // counted out.
        let list = unsafe { sector.load(Ordering::Acquire).as_ref() }?;
        let next = list.codes.partition_point(|code| code.range.start <= address);
        let code = list.codes[..next].last().filter(|code| address < code.range.end)?;
        let found = f(code.range.start, &code.of);
        drop(reading);
        Some(found)
    }

    /// Enters code that lies at `range`, before anything leads to it. In a child of a fork nothing happens.
    pub fn insert(&self, range: Range<usize>, of: T) {
        assert!(self.region.start <= range.start && range.end <= self.region.end && !range.is_empty());
        let entry = Entry { range: range.clone(), of: Arc::new(of) };
        self.change(range, |codes| {
            let at = codes.partition_point(|code| code.range.start < entry.range.start);
            let before = codes[..at].last().is_none_or(|code| code.range.end <= entry.range.start);
            let behind = codes.get(at).is_none_or(|code| entry.range.end <= code.range.start);
            assert!(before && behind, "two codes at one address");
            codes.insert(at, entry.clone());
        });
    }

    /// Takes code out that was entered with this range. What was entered with it is dropped as soon as no
    /// reader can see it. In a child of a fork nothing happens.
    pub fn remove(&self, range: Range<usize>) {
        self.change(range.clone(), |codes| {
            let at = codes.iter().position(|code| code.range == range).expect("no such code");
            codes.remove(at);
        });
    }

    /// Frees what waits for readers that were there when it was replaced. Whether nothing is left.
    pub fn sweep(&self) -> bool {
        if self.lineage.is_inherited() {
            return true;
        }
        let _changing = changing();
        self.free_replaced(&mut lock(&self.replaced))
    }

    /// Replaces the lists of all sectors of `range` by what `edit` makes of copies.
    fn change(&self, range: Range<usize>, edit: impl Fn(&mut Vec<Entry<T>>)) {
        if self.lineage.is_inherited() {
            return;
        }
        let sector_of = |address: usize| (address - self.region.start) >> SECTOR_SHIFT;
        // A child reads the lists as they are when the process divides.
        let _changing = changing();
        let mut replaced = lock(&self.replaced);
        for sector in &self.sectors[sector_of(range.start)..=sector_of(range.end - 1)] {
            let old = sector.load(Ordering::Relaxed);
            // SAFETY: lists in sectors are alive, and only who holds the lock takes them out.
            let mut codes = unsafe { old.as_ref() }.map_or(Vec::new(), |list| list.codes.clone());
            edit(&mut codes);
            let new = if codes.is_empty() { null_mut() } else { Box::into_raw(Box::new(Sector { codes })) };
            sector.store(new, Ordering::Release);
            if !old.is_null() {
                // SAFETY: made by `Box::into_raw` above, and in no sector any more.
                replaced.push(unsafe { Box::from_raw(old) });
            }
        }
        self.free_replaced(&mut replaced);
    }

    #[allow(clippy::vec_box)] // as at the field
    fn free_replaced(&self, replaced: &mut Vec<Box<Sector<T>>>) -> bool {
        fence(Ordering::SeqCst);
        if self.readers.load(Ordering::Acquire) == 0 {
            replaced.clear();
        }
        replaced.is_empty()
    }
}

impl<T> Drop for Ranges<T> {
    fn drop(&mut self) {
        for sector in &self.sectors {
            let list = sector.load(Ordering::Relaxed);
            if !list.is_null() {
                // SAFETY: made by `Box::into_raw`; nobody reads any more, since we are the only owner.
                drop(unsafe { Box::from_raw(list) });
            }
        }
    }
}
