//! The sizes of value stacks.
//!
//! A thread begins with a small stack ([`INITIAL_STACK`]). Whoever needs room asks for it ([`Vm::reserve`]),
//! and the stack doubles: it *moves*, since it is one piece. So an address of a slot is good until the next
//! call. Three things in the thread and the state refer to slots by address, base, top and open upvalues, and
//! are adjusted; frames refer to each other by distances.
//!
//! A stack that a recursion has made large is given back at the end of a major collection, if it is used for
//! less than a quarter ([`Vm::shrink_stack`]; which threads may be asked is in `gc/stacks.rs`). It keeps
//! twice what is in use: between two majors it then doubles as often as it takes to grow to what it was,
//! which costs no more than it did the first time.

use super::NATIVE_STACK;
use crate::Vm;
use crate::frame::{CALL_GAP, frame};
use crate::interp::frame_ceiling;
use crate::native::{Kind, LuaResult};
use crate::object::{Thread, Upval};
use crate::value::{Gc, Tag, Value};

/// Largest stack of a coroutine, in slots.
pub(crate) const MAX_STACK: usize = 1_000_000;
/// Slots beyond that for message handlers after a stack overflow.
const ERROR_STACK: usize = 4096;
/// Slots above `stack_limit` that are always there.
pub(crate) const STACK_EXTRA: usize = 16;
/// Slots of a new coroutine's stack: room for a small function and a native below it.
pub(crate) const INITIAL_STACK: usize = 56;
/// Stacks of more slots give back what they do not use. Their buffers are large objects, which are freed at
/// once.
pub(crate) const DEEP: usize = 512;
/// Bytes before the first slot of a buffer.
const HEADER: usize = size_of::<perilune_heap::Header>();

/// The size, in slots, that a stack of `size` slots is given when `used` are needed.
pub(crate) fn grown(size: usize, used: usize) -> usize {
    match used + STACK_EXTRA {
        need if need <= size => size,
        need => (size * 2).max(need).min(MAX_STACK),
    }
}

impl Vm {
    /// Makes sure that `n` slots from `at` on may be used; returns where `at` is now (the stack may move;
    /// `base`, `top` follow).
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
        // SAFETY: the running thread owns its stack; everything that points into it is adjusted here: base,
        // top, open upvalues.
        unsafe {
            let th = self.lua.thread;
            let used = at.offset_from((*th).stack) as usize;
            let size = (*th).stack_size;
            if used + n + STACK_EXTRA > MAX_STACK {
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
            self.resize_stack(th, grown(size, used + n))?;
            Ok((*th).stack.add(used))
        }
    }

    /// Gives a thread a stack of `size` slots, which has room for what is on the one that it has. The old one
    /// is left to the collector.
    ///
    /// # Safety
    /// `th` is a live thread of this domain, and who holds an address of its stack expects it to move, or is
    /// told by what is adjusted here: base, top, open upvalues. The running thread's moves in calls, and
    /// where finalisers may run.
    pub(crate) unsafe fn resize_stack(&mut self, th: *mut Thread, size: usize) -> LuaResult<()> {
        let new = self.alloc_stack(size)?;
        // SAFETY: the caller's promise.
        unsafe { self.move_stack(th, new, size) };
        Ok(())
    }

    /// Moves a thread to the stack at `new`, of `size` slots.
    ///
    /// # Safety
    /// As for [`Vm::resize_stack`]; `new` is a fresh buffer, all nil.
    unsafe fn move_stack(&mut self, th: *mut Thread, new: *mut Value, size: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let old = (*th).stack;
            let old_size = (*th).stack_size;
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
            (*th).standing.stack_has_moved();
            (*th).stack = new;
            (*th).stack_size = size;
            self.heap.barrier(Gc::from_ptr(th).obj());
            // Without room in the list it does not shrink.
            if size > DEEP && old_size <= DEEP && self.lua.gc.deep.try_reserve(1).is_ok() {
                self.lua.gc.deep.push(th);
            }
        }
    }

    /// A buffer of `size` slots, all nil.
    pub(crate) fn alloc_stack(&mut self, size: usize) -> LuaResult<*mut Value> {
        match self.try_stack(size) {
            Some(stack) => Ok(stack),
            None => Err(self.out_of_memory()),
        }
    }

    fn try_stack(&mut self, size: usize) -> Option<*mut Value> {
        let obj = self.heap.try_alloc(Tag::BUFFER.0, HEADER + size * size_of::<Value>()).ok()?;
        // SAFETY: the buffer has room for `size` slots after its header.
        unsafe {
            let stack = (obj.as_ptr() as *mut u8).add(HEADER) as *mut Value;
            std::ptr::write_bytes(stack, 0, size);
            Some(stack)
        }
    }

    /// Slots of its stack that a thread may use without asking; `None`: that is not known.
    ///
    /// A function of Lua may use its registers, though the top may be below their end while it has called
    /// something. A native may use what it has asked for, which nobody has written down: of natives that have
    /// called something that is known of those alone that are not functions at all (`pcall`, `yield` and
    /// their like), and of a thread's first frame, which asks for nothing.
    ///
    /// # Safety
    /// A live thread of this domain; the running one's frame is complete.
    unsafe fn stack_in_use(&self, th: *mut Thread) -> Option<usize> {
        // SAFETY: the records of a thread's frames are intact from its base down.
        unsafe {
            let top_frame = if th == self.lua.thread { self.lua.base } else { (*th).base };
            let top = if th == self.lua.thread { self.lua.top } else { (*th).top };
            let mut end = top.max(top_frame).add(NATIVE_STACK);
            let mut base = top_frame;
            loop {
                let f = *frame(base);
                let function = *base.sub(CALL_GAP);
                if !f.pc.is_null() && function.tag() == Tag::CLOSURE {
                    end = end.max(frame_ceiling(base));
                } else if base != top_frame && f.delta != 0 {
                    match function.as_native()?.kind {
                        Kind::Pcall | Kind::Xpcall | Kind::Resume | Kind::Wrap | Kind::Yield => {}
                        _ => return None,
                    }
                }
                if f.delta == 0 {
                    return Some(end.offset_from((*th).stack) as usize);
                }
                base = base.sub(f.delta as usize);
            }
        }
    }

    /// Gives back what a thread's stack has too much: it keeps twice what is in use, if that is less than
    /// half of what it has.
    ///
    /// # Safety
    /// As for [`Vm::resize_stack`]. Nobody holds an address of the stack of a thread that does not run: it is
    /// freed.
    pub(crate) unsafe fn shrink_stack(&mut self, th: *mut Thread) {
        // SAFETY: the caller's promise.
        unsafe {
            let size = (*th).stack_size;
            if size <= DEEP {
                return;
            }
            let Some(used) = self.stack_in_use(th) else { return };
            let enough = (2 * used + STACK_EXTRA).max(INITIAL_STACK);
            if enough > size / 2 {
                return;
            }
            let Some(new) = self.try_stack(enough) else { return };
            let old = (*th).stack;
            self.move_stack(th, new, enough);
            if th != self.lua.thread {
                let buffer = std::ptr::NonNull::new_unchecked((old as *mut u8).sub(HEADER));
                self.heap.free_buffer(buffer.cast());
            }
        }
    }

    /// Gives a thread another stack of the size that it has, so that who has kept an address of it is found.
    ///
    /// # Safety
    /// As for [`Vm::resize_stack`].
    pub(crate) unsafe fn shift_stack(&mut self, th: *mut Thread) {
        // SAFETY: the caller's promise.
        unsafe {
            let (old, size) = ((*th).stack, (*th).stack_size);
            let Some(new) = self.try_stack(size) else { return };
            self.move_stack(th, new, size);
            // What is found there from now on is no value.
            std::ptr::write_bytes(old as *mut u8, 0xDB, size * size_of::<Value>());
        }
    }

    /// Overwrites what an error has left above the top: those slots may become registers, and keep what
    /// memory was refused for.
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

    /// After an overflow has been caught, gives the reserve back so that the next one is reported as "stack
    /// overflow" again.
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
