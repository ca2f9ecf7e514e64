//! Buffers that grow, and buffers freed at once.
//!
//! A *buffer* is a leaf object that one owner refers to: the storage of an array, the nodes of a hash part.
//! When the owner replaces it, the old one is known to be dead without any marking. For a small one that is
//! not worth knowing. A large one left to the collector costs fresh zeroed pages for each doubling, hence
//! more page faults than the contents are worth; so it grows where it is if the pages behind it are free, a
//! huge one by moving its pages to other addresses (`mremap`), and what has been copied is freed on the spot.
//!
//! The collector must not be left with the old address. It may be in three places: in the lists of large
//! objects; in the log of cards, where entries are dropped, since a change of storage logs the whole owner
//! anyway; on the stack of a major in progress, where it is replaced or removed. (Regreyed objects, parts and
//! ranges name owners, not buffers; a range of stale addresses is compared with the buffers that the owner
//! has when it is traced.) A buffer that grows without a copy, with its contents where they were, need not
//! cost a look at all of them: it keeps its cards, and whatever names its old addresses is corrected
//! ([`Heap::try_extend`]). A stale word on a native stack finds no object, or another one, which then lives a
//! little longer. Only code that holds on to the *data* of a buffer across a store into its owner would
//! notice, and it would have read stale data before.

use crate::heap::{Heap, LARGEST_SMALL};
use crate::layout::*;
use crate::{Obj, OutOfMemory};

impl Heap {
    /// Gives `buffer` room for `bytes` bytes (header included, not fewer than it has): it stays, moves, or is
    /// copied, and then the old one is freed. The new bytes are uninitialised.
    ///
    /// `buffer` must have no references that `trace` reports for *it*, and one owner, which is told the new
    /// address and logged with [`Heap::barrier`] before the next safepoint. Nothing else may use the old
    /// address.
    ///
    /// # Errors
    /// [`OutOfMemory`] as for [`Heap::try_alloc`]; the contents of `buffer` are unchanged, but its owner must
    /// be logged.
    ///
    /// # Safety
    /// `buffer` is an object of this heap that has not been freed, and refers to nothing by itself: its
    /// owner's trace does. What is said above about its owner and its old address.
    pub unsafe fn try_grow(&mut self, buffer: Obj, bytes: usize) -> Result<Obj, OutOfMemory> {
        // SAFETY: the caller's promise.
        let old = unsafe { self.size_of(buffer) };
        assert!(bytes >= old, "a buffer does not shrink");
        if old > LARGEST_SMALL {
            let size = bytes.checked_next_multiple_of(GRANULE).ok_or(OutOfMemory)?;
            let more = size - old;
            if !self.has_room(more) {
                return Err(self.refuse(more));
            }
            // A card table would have the wrong length. The owner is logged as a whole anyway.
            self.forget_cards(buffer);
            // SAFETY: a large object of this heap.
            if let Some(grown) = unsafe { self.large.grow(&mut self.table, buffer, size) } {
                self.after_growth(buffer, grown, more);
                return Ok(grown);
            }
        }
        // SAFETY: `buffer` is a live object.
        let kind = unsafe { (*buffer.as_ptr()).kind };
        let new = self.try_alloc(kind, bytes)?;
        // SAFETY: two live objects, the new one not smaller; headers stay as they are.
        unsafe {
            let skip = size_of::<crate::Header>();
            let from = buffer.as_ptr().cast::<u8>().add(skip);
            core::ptr::copy_nonoverlapping(from, new.as_ptr().cast::<u8>().add(skip), old - skip);
            self.free_buffer(buffer);
        }
        Ok(new)
    }

    /// As [`Heap::try_grow`], but only if the contents need not be copied, else `None`; and the owner need
    /// not be logged: it is told the new address, and what has been said with [`Heap::barrier_at`] about the
    /// old one holds for the new one.
    ///
    /// # Safety
    /// As for [`Heap::try_grow`], but that the owner need not be logged.
    pub unsafe fn try_extend(&mut self, buffer: Obj, bytes: usize) -> Option<Obj> {
        // SAFETY: the caller's promise.
        let old = unsafe { self.size_of(buffer) };
        assert!(bytes >= old, "a buffer does not shrink");
        let size = bytes.checked_next_multiple_of(GRANULE)?;
        if old <= LARGEST_SMALL || !self.has_room(size - old) {
            return None;
        }
        // SAFETY: a large object of this heap.
        let grown = unsafe { self.large.grow(&mut self.table, buffer, size)? };
        // SAFETY: the same object where it is now.
        unsafe { crate::large::extend_cards(grown, old) };
        self.after_growth(buffer, grown, size - old);
        if grown != buffer {
            for (_, b, _) in self.card_log.iter_mut().filter(|c| c.1 == buffer) {
                *b = grown;
            }
            let (from, to) = (buffer.as_ptr() as usize, grown.as_ptr() as usize);
            for (_, lo, hi) in self.major.ranges.iter_mut().filter(|r| (from..from + old).contains(&r.1)) {
                (*lo, *hi) = (*lo - from + to, *hi - from + to);
            }
        }
        Some(grown)
    }

    /// Frees `buffer` now if it is large; a small one is left to the collector. As for [`Heap::try_grow`],
    /// only its owner, which no longer does, has referred to it, and the owner is logged before the next
    /// safepoint.
    ///
    /// # Safety
    /// `buffer` is an object of this heap that has not been freed; it is not used again, and nobody refers to
    /// it.
    pub unsafe fn free_buffer(&mut self, buffer: Obj) {
        // SAFETY: the caller's promise.
        let (size, is_young) = unsafe { (self.size_of(buffer), self.is_young(buffer)) };
        if size <= LARGEST_SMALL {
            return;
        }
        self.forget_cards(buffer);
        self.move_sample(buffer, None);
        if is_young {
            self.young_large -= size;
            self.budget += size as isize;
        } else {
            self.old_bytes -= size;
        }
        if self.marked_by_major(buffer) {
            match self.major.stack.iter().rposition(|o| *o == buffer) {
                Some(at) => {
                    self.major.stack.swap_remove(at);
                }
                None => self.major.bytes = self.major.bytes.wrapping_sub(size),
            }
        }
        let now = self.now();
        self.large.release(&mut self.table, buffer, now);
    }

    /// The accounts, after `old` has become `new` with `more` bytes. Its mark bits have gone with it.
    fn after_growth(&mut self, old: Obj, new: Obj, more: usize) {
        // SAFETY: the object that has just grown.
        if unsafe { self.is_young(new) } {
            self.young_large += more;
        } else {
            self.old_bytes += more;
        }
        if self.marked_by_major(new) {
            match self.major.stack.iter_mut().rfind(|o| **o == old) {
                Some(entry) => *entry = new,
                None => self.major.bytes = self.major.bytes.wrapping_add(more),
            }
        }
        self.spend(more);
        self.move_sample(old, Some(new));
        if self.is_sampling() {
            self.count_for_samples(new, more);
        }
    }

    fn marked_by_major(&self, obj: Obj) -> bool {
        // SAFETY: a live object's chunk is mapped.
        self.major.active && unsafe { get_bit(obj.as_ptr() as usize, self.side.other().offset()) }
    }

    fn forget_cards(&mut self, buffer: Obj) {
        // SAFETY: the large object that grows or goes.
        if unsafe { crate::large::forget_cards(buffer) } {
            self.card_log.retain(|(_, b, _)| *b != buffer);
        }
    }
}
