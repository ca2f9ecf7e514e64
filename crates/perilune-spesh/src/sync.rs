//! The synchronisation primitives of the files that are model-checked: `tests/model` compiles those a second
//! time with loom's under the same names. `Arc` is not among them: its count is not what the models are
//! about.

pub use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};

#[cfg(machine_code)]
pub use crate::fork::{Lineage, changing};

/// Without machine code nothing is shared that a fork could tear apart.
#[cfg(not(machine_code))]
#[derive(Clone, Copy)]
pub struct Lineage;

#[cfg(not(machine_code))]
impl Lineage {
    pub fn current() -> Lineage {
        Lineage
    }

    pub fn is_inherited(self) -> bool {
        false
    }
}

/// As [`Lineage`].
#[cfg(not(machine_code))]
pub struct Changing;

/// As [`Lineage`].
#[cfg(not(machine_code))]
pub fn changing() -> Changing {
    Changing
}

/// Locks, also after a panic of another holder: what these locks protect is consistent between any two
/// statements.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
