//! loom's primitives under the names that `src/sync.rs` gives to std's.

pub use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
pub use loom::sync::{Mutex, MutexGuard};

/// In a model nothing forks.
#[derive(Clone, Copy)]
pub struct Lineage;

impl Lineage {
    pub fn current() -> Lineage {
        Lineage
    }

    pub fn is_inherited(self) -> bool {
        false
    }
}

/// As [`Lineage`].
pub struct Changing;

/// As [`Lineage`].
pub fn changing() -> Changing {
    Changing
}

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
