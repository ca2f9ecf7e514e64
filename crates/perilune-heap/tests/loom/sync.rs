//! loom's primitives under the names of `src/island/sync.rs`, and a range of two chunks of two pages.

pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

pub const PAGES: usize = 2;
pub const CHUNKS: usize = 2;

pub fn null_pointers<T, const N: usize>() -> [AtomicPtr<T>; N] {
    std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()))
}

pub fn zeros<const N: usize>() -> [AtomicU32; N] {
    std::array::from_fn(|_| AtomicU32::new(0))
}

macro_rules! constant {
    ($($all:tt)*) => { $($all)* };
}
pub(crate) use constant;

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
