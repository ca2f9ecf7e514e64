//! What shared objects hold, for whoever looks for cycles (`perilune_vm::cycle_collector`).
//!
//! All of them keep what can change behind a `Mutex`. Its guard is the right of a search to be alone with it.

use parking_lot::{Mutex, MutexGuard};
use perilune_vm::cycle_collector::{Freeze, Frozen, Held};
use std::any::Any;

/// What a lock protects, as an owner of counts.
pub(crate) trait Contents {
    /// As [`Frozen::held`].
    fn held(&self, to: &mut Held<'_>);
    /// As [`Frozen::empty`].
    fn empty(&mut self) -> Box<dyn Any>;
}

/// Freezes a holder that is one lock.
pub(crate) fn freeze<T: Contents>(lock: &Mutex<T>) -> Freeze<'_> {
    match lock.try_lock() {
        Some(guard) => Freeze::Frozen(Box::new(Guard(guard))),
        None => Freeze::Busy,
    }
}

struct Guard<'a, T>(MutexGuard<'a, T>);

impl<T: Contents> Frozen for Guard<'_, T> {
    fn held(&self, to: &mut Held<'_>) {
        self.0.held(to);
    }
    fn empty(&mut self) -> Box<dyn Any> {
        self.0.empty()
    }
}
