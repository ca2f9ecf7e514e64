//! The synchronisation primitives of the file that is model-checked: `tests/model` compiles it a second time with loom's under the same names.

pub use std::sync::atomic::{AtomicU32, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks, also after a panic of another holder: what these locks protect is consistent between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
