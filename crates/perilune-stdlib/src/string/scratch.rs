//! A buffer to build results in, kept from call to call.
//!
//! Results are put together in a `Vec` and then copied into one string. Taking the `Vec` from here and
//! putting it back saves an allocation per call. Whoever has taken it owns it, so nested calls get buffers of
//! their own, and a call that ends in an error just loses it.
//!
//! What a program controls the size of is added with [`append`], which checks it against the longest string
//! and the memory limit: nobody else sees the buffer grow, and a `Vec` that cannot would end the process.

use perilune_vm::{LuaResult, Vm};
use std::cell::Cell;

/// Longest string of the VM.
const MAX_STRING: usize = i32::MAX as usize;
/// Up to so many bytes strings are allocated whether there is room or not; a safepoint follows.
const SMALL: usize = 4 << 10;
/// Bigger buffers are not kept.
const MAX_KEPT: usize = 1 << 16;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer.
// Not inlined: native code may go on in another OS thread after it has called Lua, so nothing about this
// thread may be remembered across a call.
#[inline(never)]
pub fn take() -> Vec<u8> {
    BUFFER.take()
}

/// Puts a buffer back.
#[inline(never)]
pub fn put(mut buffer: Vec<u8>) {
    if buffer.capacity() <= MAX_KEPT {
        buffer.clear();
        BUFFER.set(buffer);
    }
}

/// Appends `bytes`, or says that memory does not suffice for them.
#[inline]
pub fn append(vm: &mut Vm, buffer: &mut Vec<u8>, bytes: &[u8]) -> LuaResult<()> {
    if buffer.capacity() - buffer.len() < bytes.len() {
        reserve(vm, buffer, bytes.len())?;
    }
    // Single characters and separators are many: no call for one byte.
    match bytes {
        &[byte] => buffer.push(byte),
        _ => buffer.extend_from_slice(bytes),
    }
    Ok(())
}

/// Longest string that there is room for.
pub fn room(vm: &mut Vm) -> usize {
    let limit = vm.heap().limit().map_or(usize::MAX, |limit| limit.saturating_sub(vm.heap_bytes()));
    MAX_STRING.min(limit)
}

/// Makes room for `more` bytes.
///
/// # Errors
/// "not enough memory" if the result would be longer than a string can be, or than the memory limit leaves
/// room for.
#[cold]
pub fn reserve(vm: &mut Vm, buffer: &mut Vec<u8>, more: usize) -> LuaResult<()> {
    let total = buffer.len().saturating_add(more);
    if total > SMALL {
        vm.ensure_room(total)?;
    }
    if total > MAX_STRING || buffer.try_reserve(more).is_err() {
        return Err(vm.out_of_memory());
    }
    Ok(())
}

/// Returns the buffer's content as the one string result.
#[inline]
pub fn ret(vm: &mut Vm, buffer: Vec<u8>) -> LuaResult<u32> {
    if buffer.len() > SMALL {
        vm.ensure_room(buffer.len())?;
    }
    let results = vm.ret_str(&buffer);
    put(buffer);
    results
}
