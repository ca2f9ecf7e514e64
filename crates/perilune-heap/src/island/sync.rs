//! What the counts of islands and the owners of pages are made of. The model check puts loom's in their
//! place, and a range of four pages (`tests/loom`).

pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// Pages of a chunk.
pub const PAGES: usize = 512;
/// Chunks of the range.
pub const CHUNKS: usize = 1 << 19;

pub const fn null_pointers<T, const N: usize>() -> [AtomicPtr<T>; N] {
    [const { AtomicPtr::new(std::ptr::null_mut()) }; N]
}

pub const fn zeros<const N: usize>() -> [AtomicU32; N] {
    [const { AtomicU32::new(0) }; N]
}

/// A function that makes the contents of a static.
macro_rules! constant {
    ($(#[$m:meta])* $v:vis fn $($rest:tt)*) => { $(#[$m])* $v const fn $($rest)* };
}
pub(crate) use constant;

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
