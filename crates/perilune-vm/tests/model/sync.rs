//! loom's primitives under the names of `src/shape/sync.rs`, and a tree of eight shapes.

pub use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

pub const CHUNK_BITS: u32 = 1;
pub const CHUNKS: usize = 4;

pub struct Cell<T>(loom::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub fn new(value: T) -> Cell<T> {
        Cell(loom::cell::UnsafeCell::new(value))
    }
    pub fn to_read(&self) -> *const T {
        self.0.with(|p| p)
    }
}

pub fn null_pointers<T, const N: usize>() -> [AtomicPtr<T>; N] {
    std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()))
}

macro_rules! constant {
    ($($all:tt)*) => { $($all)* };
}
pub(crate) use constant;
