//! loom's primitives under the names that `src/sched/sync.rs` gives to std's.

pub use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use loom::sync::{Mutex, MutexGuard};
pub use loom::thread::{Thread, current, park};

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// In a model no time passes: what depends on it is not needed for progress there.
pub fn park_for(_: std::time::Duration) -> bool {
    park();
    false
}
