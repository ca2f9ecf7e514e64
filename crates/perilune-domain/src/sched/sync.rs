//! The synchronisation primitives of the files that are model-checked.
//!
//! `tests/model` compiles those files a second time with loom's types under the same names. `Arc` is not
//! among them: its count is not what the models are about, and loom's cannot hold an unsized value.

pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::{Thread, current, park};

/// Locks, also after a panic of another holder: what these locks protect is consistent between any two
/// statements.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Parks, but not for longer than `at_most`. Whether it may have been that long.
pub fn park_for(at_most: std::time::Duration) -> bool {
    let start = std::time::Instant::now();
    std::thread::park_timeout(at_most);
    start.elapsed() >= at_most
}
