//! Value stacks: how they grow.

use super::NATIVE_STACK;
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{Thread, Upval};
use crate::value::{Gc, Tag, Value};

/// Largest stack of a coroutine, in slots.
pub(crate) const MAX_STACK: usize = 1_000_000;
/// Slots beyond that for message handlers after a stack overflow.
const ERROR_STACK: usize = 4096;
/// Slots above `stack_limit` that are always there.
pub(crate) const STACK_EXTRA: usize = 16;

impl Vm {
    /// Makes sure that `n` slots from `at` on may be used; returns where `at` is now (the stack may move; `base`, `top` follow).
    #[inline]
    pub(crate) unsafe fn reserve(&mut self, at: *mut Value, n: usize) -> LuaResult<*mut Value> {
        if (at as usize) + n * size_of::<Value>() <= self.lua.stack_limit as usize {
            return Ok(at);
        }
        // SAFETY: `at` is on the running stack.
        unsafe { self.grow_stack(at, n) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn grow_stack(&mut self, at: *mut Value, n: usize) -> LuaResult<*mut Value> {
        // SAFETY: the running thread owns its stack; everything that points into it is adjusted here: base, top, open upvalues.
        unsafe {
            let th = self.lua.thread;
            let used = at.offset_from((*th).stack) as usize;
            let need = used + n + STACK_EXTRA;
            let size = (*th).stack_size;
            if need > MAX_STACK {
                if size > MAX_STACK {
                    // Overflow while an overflow is being handled: no message handler sees this one.
                    let v = self.intern_bytes(b"error in error handling")?;
                    let e = self.throw(v.into());
                    self.lua.errors.handled = true;
                    return Err(e);
                }
                self.resize_stack(th, MAX_STACK + ERROR_STACK)?;
                return Err(self.run_error("stack overflow"));
            }
            let new = (size * 2).max(need).min(MAX_STACK);
            self.resize_stack(th, new)?;
            Ok((*th).stack.add(used))
        }
    }

    /// Gives the running thread a stack of `size` slots.
    pub(crate) unsafe fn resize_stack(&mut self, th: *mut Thread, size: usize) -> LuaResult<()> {
        // SAFETY: as `grow_stack`.
        unsafe {
            let old = (*th).stack;
            let old_size = (*th).stack_size;
            let new = self.alloc_stack(size)?;
            let keep = old_size.min(size);
            std::ptr::copy_nonoverlapping(old as *const [u8; 16], new as *mut [u8; 16], keep);
            let moved = |p: *mut Value| new.add(p.offset_from(old) as usize);
            if th == self.lua.thread {
                self.lua.base = moved(self.lua.base);
                self.lua.top = moved(self.lua.top);
                self.lua.stack_limit = new.add(size - STACK_EXTRA);
            } else {
                (*th).base = moved((*th).base);
                (*th).top = moved((*th).top);
            }
            let mut uv = (*th).open_upvals;
            while !uv.is_null() {
                (*uv).v = moved((*uv).v);
                uv = (*uv).closed.payload() as *mut Upval;
            }
            (*th).stack = new;
            (*th).stack_size = size;
            self.heap.barrier(Gc::from_ptr(th).obj());
            Ok(())
        }
    }

    /// A buffer of `size` slots, all nil.
    pub(crate) fn alloc_stack(&mut self, size: usize) -> LuaResult<*mut Value> {
        let Ok(obj) = self.heap.try_alloc(Tag::BUFFER.0, 8 + size * size_of::<Value>()) else {
            return Err(self.out_of_memory());
        };
        // SAFETY: the buffer has room for `size` slots after its header.
        unsafe {
            let stack = (obj.as_ptr() as *mut u8).add(8) as *mut Value;
            std::ptr::write_bytes(stack, 0, size);
            Ok(stack)
        }
    }

    /// Overwrites what an error has left above the top: those slots may become registers, and keep what memory was refused for.
    pub(super) unsafe fn clear_up_to(&mut self, reached: usize) {
        // SAFETY: slots of the running stack above the top.
        unsafe {
            let end = (*self.lua.thread).stack.add(reached.min((*self.lua.thread).stack_size));
            let mut at = self.lua.top;
            while at < end {
                *at = Value::NIL;
                at = at.add(1);
            }
        }
    }

    /// After an overflow has been caught, gives the reserve back so that the next one is reported as "stack overflow" again.
    pub(super) unsafe fn shrink_after_overflow(&mut self) {
        // SAFETY: the running thread; only what is above the catching frame goes.
        unsafe {
            let th = self.lua.thread;
            let used = self.lua.base.offset_from((*th).stack) as usize + NATIVE_STACK;
            if (*th).stack_size > MAX_STACK && used < MAX_STACK / 2 {
                self.lua.top = self.lua.base.add(2);
                let _ = self.resize_stack(th, (used * 2).max(1024));
            }
        }
    }
}
