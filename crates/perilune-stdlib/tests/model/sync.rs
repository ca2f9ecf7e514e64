//! loom's primitives under the names that `src/io/sync.rs` gives to std's.

use loom::sync::{Condvar, Mutex};

pub(super) use loom::sync::atomic::Ordering;

/// No signals come in a model.
pub(super) type Interrupted = std::convert::Infallible;

/// A word with what the kernel keeps for those who sleep on it.
pub(super) struct Word {
    word: AtomicU32,
    kernel: Mutex<()>,
    woken: Condvar,
}

impl std::ops::Deref for Word {
    type Target = AtomicU32;
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

impl Word {
    pub(super) fn new(word: u32) -> Word {
        Word { word: AtomicU32::new(word), kernel: Mutex::new(()), woken: Condvar::new() }
    }

    pub(super) fn sleep(&self, expected: u32) -> Result<(), Interrupted> {
        let kernel = self.kernel.lock().unwrap();
        // The kernel looks at the word as it is, past all caches.
        if self.word.fetch_or(0, Ordering::SeqCst) == expected {
            drop(self.woken.wait(kernel).unwrap());
        }
        Ok(())
    }

    pub(super) fn wake_all(&self) {
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
    }
}

pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// What the two barriers do together: neither side passes without the other's words.
pub(super) fn light_barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

pub(super) fn heavy_barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

pub(super) fn barriers() -> bool {
    true
}

pub(super) fn pause(_: u32) {
    loom::thread::yield_now();
}
