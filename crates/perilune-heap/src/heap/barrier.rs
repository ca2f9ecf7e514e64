//! The write barrier: which old objects have been stored into since the last collection.
//!
//! Every store of a reference into an object comes with a call of [`Heap::barrier`]. It compares the object's
//! epoch with the heap's: a newborn, and an object that is logged already, carry the current one, and that is
//! all. Others go to the log and get the current epoch, so that an object is logged once between two
//! collections. Minor collections trace what is in the log, and a marking takes back the marks of what it has
//! logged (`mark.rs`).
//!
//! Large buffers are logged by cards ([`Heap::barrier_at`]): their owner keeps its epoch, so each store comes
//! here, and marks the card that it went to.
//!
//! Two kinds of objects have epochs that are never current. *Watched* ones have a flag in theirs, so that
//! whoever stores into one comes the cold way, and can tell; the rest of the epoch is as in others. *Frozen*
//! ones are never stored into; a number of the client's stands in place of their epoch.

use super::Heap;
use crate::Obj;
use crate::large::{CardMark, mark_card};
use crate::mark::grow;

impl Heap {
    /// Must be called with every store of a reference into `obj`, before or after it, with no safepoint in
    /// between. Logs an object that is older than the current epoch, once per epoch.
    ///
    /// ```compile_fail,E0133
    /// # fn f(heap: &mut perilune_heap::Heap, obj: perilune_heap::Obj) {
    /// heap.barrier(obj); // whose?
    /// # }
    /// ```
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed. Islands are none of a heap.
    #[inline(always)]
    pub unsafe fn barrier(&mut self, obj: Obj) {
        // SAFETY: the caller's promise.
        unsafe {
            if (*obj.as_ptr()).epoch != self.epoch {
                self.barrier_slow(obj);
            }
        }
    }

    /// The cold half of [`Heap::barrier`]: logs `obj` and stamps it with the current epoch.
    ///
    /// # Safety
    /// As for [`Heap::barrier`].
    #[cold]
    #[inline(never)]
    pub unsafe fn barrier_slow(&mut self, obj: Obj) {
        debug_assert!(!crate::island::held::is_island_object(obj), "a store into an island");
        // SAFETY: the caller's promise.
        unsafe {
            let header = &mut *obj.as_ptr();
            debug_assert!(!header.is_frozen(), "a store into a frozen object");
            if header.is_watched() && header.stamp() == self.epoch {
                return;
            }
            if self.log.len() == self.log.capacity()
                && self.scopes.depth() == 0
                && (self.log_lost || !grow(&mut self.log, self.list_limit))
            {
                // Until the next collection, which is due: memory is short. Without the stamp the next store
                // comes here, too.
                self.log_lost = true;
                return;
            }
            header.set_stamp(self.epoch);
            debug_assert!(
                self.scopes.depth() != 0 || !self.is_young(obj),
                "a newborn carries the current epoch"
            );
        }
        self.log.push(obj);
    }

    /// As [`Heap::barrier`], for a store at the address `slot` within `buffer`, which belongs to `owner` (and
    /// may be `owner`). If the buffer is over 8 KiB, collections then look at the part of it that was stored
    /// into, through [`Client::trace_range`](crate::Client::trace_range), instead of all of it. An operation
    /// that stores into several places of a buffer (a hash insertion that moves an entry) needs one call for
    /// each, or one `barrier`.
    ///
    /// # Safety
    /// `owner` and `buffer` are objects of this heap that have not been freed; `slot` lies in `buffer`.
    #[inline(always)]
    pub unsafe fn barrier_at(&mut self, owner: Obj, buffer: Obj, slot: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if (*owner.as_ptr()).epoch != self.epoch {
                self.barrier_at_slow(owner, buffer, slot);
            }
        }
    }

    /// The cold half of [`Heap::barrier_at`].
    ///
    /// # Safety
    /// As for [`Heap::barrier_at`].
    #[cold]
    #[inline(never)]
    pub unsafe fn barrier_at_slow(&mut self, owner: Obj, buffer: Obj, slot: usize) {
        // SAFETY: the caller's promise; without a size in its header the buffer is a large object.
        unsafe {
            if (*owner.as_ptr()).is_watched() && (*owner.as_ptr()).stamp() == self.epoch {
                return;
            }
            if (*buffer.as_ptr()).granules != 0 || self.is_young(buffer) {
                return self.barrier_slow(owner);
            }
            if self.card_log.len() == self.card_log.capacity() && !grow(&mut self.card_log, self.list_limit) {
                return self.barrier_slow(owner);
            }
            match mark_card(buffer, slot - buffer.as_ptr() as usize) {
                CardMark::New(card) => self.card_log.push((owner, buffer, card)),
                CardMark::Known => {}
                CardMark::TooMany => self.barrier_slow(owner),
            }
        }
    }

    /// Watches an object: whoever stores into it finds [`WATCHED`](crate::WATCHED) in its epoch first, until
    /// [`Heap::unwatch`].
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed, and neither frozen nor of a kind whose epochs
    /// are the client's.
    #[inline]
    pub unsafe fn watch(&mut self, obj: Obj) {
        // SAFETY: the caller's promise.
        unsafe {
            debug_assert!(!(*obj.as_ptr()).is_frozen());
            (*obj.as_ptr()).epoch |= crate::WATCHED;
        }
    }

    /// Ends what [`Heap::watch`] began.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn unwatch(&mut self, obj: Obj) {
        // SAFETY: the caller's promise.
        unsafe {
            debug_assert!(!(*obj.as_ptr()).is_frozen());
            (*obj.as_ptr()).epoch &= !crate::WATCHED;
        }
    }

    /// Freezes an object: no store may come to it any more, so it is never logged and its epoch means nothing
    /// to the heap. `number`, below [`WATCHED`](crate::WATCHED), is kept in its place.
    ///
    /// # Safety
    /// `obj` is an object of this heap that has not been freed. What it refers to has been stored with the
    /// barrier, or the object is newborn.
    #[inline]
    pub unsafe fn freeze(&mut self, obj: Obj, number: u32) {
        debug_assert!(number < crate::WATCHED);
        // SAFETY: the caller's promise.
        unsafe { (*obj.as_ptr()).epoch = crate::FROZEN | number };
    }
}
