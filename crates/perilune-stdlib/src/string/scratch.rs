//! A buffer to build results in, kept from call to call.
//!
//! Results are put together in a `Vec` and then copied into one string. Taking the `Vec` from here and putting it back saves an allocation
//! per call. Whoever has taken it owns it, so nested calls get buffers of their own, and a call that ends in an error just loses it.

use perilune_vm::{LuaResult, Vm};
use std::cell::Cell;

/// Bigger buffers are not kept.
const MAX_KEPT: usize = 1 << 16;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer.
#[inline]
pub(crate) fn take() -> Vec<u8> {
    BUFFER.take()
}

/// Puts a buffer back.
#[inline]
pub(crate) fn put(mut buffer: Vec<u8>) {
    if buffer.capacity() <= MAX_KEPT {
        buffer.clear();
        BUFFER.set(buffer);
    }
}

/// Returns the buffer's content as the one string result.
#[inline]
pub(crate) fn ret(vm: &mut Vm, buffer: Vec<u8>) -> LuaResult<u32> {
    let results = vm.ret_str(&buffer);
    put(buffer);
    results
}
