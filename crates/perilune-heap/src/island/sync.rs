//! What the counts of islands are made of. The model check puts loom's in their place (`tests/loom`).

pub use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A cell of which it is known who reads and who writes.
pub struct Cell<T>(std::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub fn new(value: T) -> Cell<T> {
        Cell(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    pub fn to_read(&self) -> *const T {
        self.0.get()
    }
    #[inline(always)]
    pub fn to_write(&self) -> *mut T {
        self.0.get()
    }
}
