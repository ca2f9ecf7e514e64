//! What `closable.rs` and `bias.rs` are made of: an atomic on which threads can sleep, and barriers of which one
//! side is free.
//!
//! `tests/model` compiles those files a second time with loom's types under the same names.

use crate::sys;
use std::sync::atomic::AtomicU8;

pub(super) use rustix::io::Errno as Interrupted;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Pairs with [`heavy_barrier`], and costs nothing: the processor's part is done there.
#[inline(always)]
pub(super) fn light_barrier() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full barrier of all threads of the process. [`barriers`] has said yes.
pub(super) fn heavy_barrier() {
    sys::barrier_everywhere();
}

/// How often [`barriers`] is asked before the system is told that there will be some.
const PATIENCE: u8 = 32;
/// The system is being told.
const ASKED: u8 = 254;
/// It has been told.
const READY: u8 = 255;

/// Questions so far, or one of the two above.
static BARRIERS: AtomicU8 = AtomicU8::new(0);

/// Whether there are heavy barriers. To have them ready takes the system milliseconds, so a thread has it done
/// once this has been asked for often enough.
#[inline]
pub(super) fn barriers() -> bool {
    // Acquires nothing: who asks has nothing but the answer.
    BARRIERS.load(Ordering::Relaxed) == READY || prepare_barriers()
}

#[cold]
#[inline(never)]
fn prepare_barriers() -> bool {
    let asked = BARRIERS.load(Ordering::Relaxed);
    if asked >= ASKED {
        return false;
    }
    // Counts that are lost do not matter, but the thread is started once.
    let next = if asked + 1 < PATIENCE { asked + 1 } else { ASKED };
    if BARRIERS.compare_exchange(asked, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() && next == ASKED {
        // Where there is no thread, or no such barrier, all is as it is.
        let _ = perilune_heap::space::spawn("barriers".into(), 64 << 10, || {
            if sys::prepare_barriers() {
                BARRIERS.store(READY, Ordering::Relaxed);
            }
        });
    }
    false
}

/// Between two looks at what another thread is about to finish.
pub(super) fn pause(times: u32) {
    match times {
        0..100 => std::hint::spin_loop(),
        100..200 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}

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
