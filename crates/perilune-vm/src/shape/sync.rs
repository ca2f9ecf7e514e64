//! What the tree of shapes is made of. The model check puts loom's in its place, and a tree of a few shapes
//! (`tests/model`).

pub use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Shapes in a chunk, as a power of two.
pub const CHUNK_BITS: u32 = 10;
/// Most chunks.
pub const CHUNKS: usize = 64;

/// A cell that is written before it is published, then read.
pub struct Cell<T>(std::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub fn new(value: T) -> Cell<T> {
        Cell(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    pub fn to_read(&self) -> *const T {
        self.0.get()
    }
}

pub const fn null_pointers<T, const N: usize>() -> [AtomicPtr<T>; N] {
    [const { AtomicPtr::new(std::ptr::null_mut()) }; N]
}

/// A function that makes contents of a static.
macro_rules! constant {
    ($(#[$m:meta])* $v:vis fn $($rest:tt)*) => { $(#[$m])* $v const fn $($rest)* };
    ($(#[$m:meta])* $v:vis unsafe fn $($rest:tt)*) => { $(#[$m])* $v const unsafe fn $($rest)* };
}
pub(crate) use constant;
