//! loom's primitives under the names of `src/island/sync.rs`.

pub use loom::sync::atomic::{AtomicUsize, Ordering, fence};

pub struct Cell<T>(loom::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub fn new(value: T) -> Cell<T> {
        Cell(loom::cell::UnsafeCell::new(value))
    }
    pub fn to_read(&self) -> *const T {
        self.0.with(|p| p)
    }
    pub fn to_write(&self) -> *mut T {
        self.0.with_mut(|p| p)
    }
}
