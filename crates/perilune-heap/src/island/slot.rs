//! The count of an island, and what it guards.
//!
//! A slot is empty, or it is *published* with a body and a count of one. Holders of a count read the body and
//! take further counts. Whoever gives up the last one has the slot for itself: it takes the body out, and the
//! slot may be published again. One who holds nothing may ask for a count of whatever is published
//! ([`Slot::raise_if_alive`]).
//!
//! # Order
//! Publishing releases the body; a count taken from another holder has acquired it with whatever brought the
//! news, and [`Slot::raise_if_alive`] acquires it by itself. Each lowering releases what its holder has read,
//! and the last one acquires all of them. `tests/loom` looks at every interleaving.

use super::sync::{AtomicUsize, Cell, Ordering::*, fence};

/// A place for an island's body `B`.
pub struct Slot<B> {
    count: AtomicUsize,
    body: Cell<B>,
}

// SAFETY: the body is written before it is published and taken after the last count is gone; in between it is
// read only.
unsafe impl<B: Send + Sync> Sync for Slot<B> {}

impl<B> Slot<B> {
    /// An empty one.
    pub fn new(empty: B) -> Slot<B> {
        Slot { count: AtomicUsize::new(0), body: Cell::new(empty) }
    }

    /// Fills the slot; the caller has the first count.
    ///
    /// # Safety
    /// The slot is empty, and the caller's alone.
    pub unsafe fn publish(&self, body: B) {
        // SAFETY: nobody else looks at it.
        unsafe { *self.body.to_write() = body };
        self.count.store(1, Release);
    }

    /// A further count.
    ///
    /// # Safety
    /// The caller has one.
    #[inline]
    pub unsafe fn raise(&self) {
        let before = self.count.fetch_add(1, Relaxed);
        debug_assert!(before > 0, "the island is dead");
    }

    /// A count, if there is something published.
    pub fn raise_if_alive(&self) -> bool {
        let mut now = self.count.load(Relaxed);
        while now > 0 {
            match self.count.compare_exchange_weak(now, now + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Gives up a count. True: it was the last, and the slot is the caller's.
    ///
    /// # Safety
    /// The caller has one, and does not use it again.
    pub unsafe fn lower(&self) -> bool {
        if self.count.fetch_sub(1, Release) != 1 {
            return false;
        }
        fence(Acquire);
        true
    }

    /// What is published.
    ///
    /// # Safety
    /// The caller has a count for as long as the reference is used.
    pub unsafe fn body(&self) -> &B {
        // SAFETY: nobody writes while there are counts.
        unsafe { &*self.body.to_read() }
    }

    /// Takes the body out.
    ///
    /// # Safety
    /// [`Slot::lower`] has given the slot to the caller.
    pub unsafe fn take(&self, empty: B) -> B {
        // SAFETY: zero is final until the slot is published again, which the caller decides: nobody else
        // looks.
        unsafe { std::mem::replace(&mut *self.body.to_write(), empty) }
    }

    /// How many counts there are, for figures.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}
