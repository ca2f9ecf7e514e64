//! The synchronisation primitives of the files that are model-checked: `tests/model` compiles them a second
//! time with loom's under the same names.

pub use std::sync::atomic::{AtomicU32, Ordering};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::{Thread, current, park};

/// Locks, also after a panic of another holder: what these locks protect is consistent between any two
/// statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Parks, but not for longer than `at_most`.
pub fn park_for(at_most: std::time::Duration) {
    std::thread::park_timeout(at_most);
}
