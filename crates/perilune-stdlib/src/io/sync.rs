//! The word that `closable.rs` is made of: an atomic on which threads can sleep.
//!
//! `tests/model` compiles that file a second time with loom's types under the same names.

use std::sync::atomic::AtomicU32;

pub(super) use rustix::io::Errno as Interrupted;
pub(super) use std::sync::atomic::Ordering;

/// An atomic word on which threads can sleep.
pub(super) struct Word(AtomicU32);

impl std::ops::Deref for Word {
    type Target = AtomicU32;
    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

impl Word {
    pub(super) fn new(word: u32) -> Word {
        Word(AtomicU32::new(word))
    }

    /// Sleeps unless the word is another one than `expected`, until somebody wakes all; perhaps not so long.
    ///
    /// # Errors
    /// `EINTR`: a signal handler ran in this thread.
    pub(super) fn sleep(&self, expected: u32) -> Result<(), Interrupted> {
        match rustix::thread::futex::wait(&self.0, rustix::thread::futex::Flags::PRIVATE, expected, None) {
            Err(Interrupted::INTR) => Err(Interrupted::INTR),
            // It was another one already.
            _ => Ok(()),
        }
    }

    /// Wakes all who sleep on the word.
    pub(super) fn wake_all(&self) {
        // Cannot fail on a valid address.
        let _ = rustix::thread::futex::wake(&self.0, rustix::thread::futex::Flags::PRIVATE, i32::MAX as u32);
    }
}
