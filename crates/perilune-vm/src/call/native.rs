//! Calls that native code makes: `execute` within `execute`.
//!
//! A native pushes the function with room for a frame record ([`Vm::begin_call`]), then the arguments, and
//! calls ([`Vm::finish_call`]). A Lua function runs in a nested `execute`, whose first frame has `F_ENTRY`;
//! so errors of the callee come back as `Err`, with the frames that failed still on the value stack. A native
//! is called directly. `pcall`, `resume` and their like are no functions that one could call: a stub of Lua
//! code calls them.
//!
//! The depth of the nesting is bounded by [`MAX_C_CALLS`](super::MAX_C_CALLS), since each level takes native
//! stack.
//!
//! Who catches errors in native code does it here, too: with the program's message handler seeing them
//! ([`Vm::observed_call`]) or not ([`Vm::protected_call`]), or as the host, around everything
//! ([`Vm::host_call`]).

use super::{NATIVE_STACK, deliver_results};
use crate::Vm;
use crate::frame::*;
use crate::interp::{Exit, execute};
use crate::native::{Kind, LuaResult, Native, Signal, Thrown};
use crate::value::{Gc, Tag, Value};

/// The host's own; [`Role`](crate::debug::Role) tells its frames from those of the program's `xpcall`.
pub(crate) static HOST_XPCALL: Native = Native::special("xpcall", Kind::Xpcall, |vm| {
    Err(vm.error_plain("xpcall is called by the interpreter only"))
});

impl Vm {
    /// Pushes `f` and room for a frame record; push the arguments after it, then [`Vm::finish_call`].
    pub fn begin_call(&mut self, f: Value) -> LuaResult<()> {
        // SAFETY: top is the end of the running native's values.
        unsafe {
            let at = self.reserve(self.lua.top, CALL_GAP + NATIVE_STACK)?;
            *at = f;
            *frame(at.add(CALL_GAP)) = Frame::native(0, 0);
            self.lua.top = at.add(CALL_GAP);
        }
        Ok(())
    }

    /// Calls the function begun with [`Vm::begin_call`] with the topmost `nargs` values; replaces all that by
    /// its results, `nresults` of them (-1: all), and returns how many.
    pub fn finish_call(&mut self, nargs: u32, nresults: i32) -> LuaResult<u32> {
        // SAFETY: begin_call put function and record below the arguments.
        unsafe {
            let func = self.lua.top.sub(nargs as usize + CALL_GAP);
            self.call_at(func, nresults)
        }
    }

    /// Whether `f(a, b)` is neither nil nor false: a call in one piece, for natives that make many.
    ///
    /// # Errors
    /// Those of the callee, and "stack overflow".
    #[inline]
    pub fn call_test(&mut self, f: Value, a: Value, b: Value) -> LuaResult<bool> {
        // SAFETY: top is the end of the running native's values; the result takes the function's place there.
        unsafe {
            let at = self.reserve(self.lua.top, CALL_GAP + NATIVE_STACK)?;
            let base = at.add(CALL_GAP);
            *at = f;
            *frame(base) = Frame::native(0, 0);
            (*base, *base.add(1)) = (a, b);
            self.lua.top = base.add(2);
            self.call_at(at, 1)?;
            self.lua.top = self.lua.top.sub(1);
            Ok((*self.lua.top).is_truthy())
        }
    }

    /// Calls the function at `func`, whose arguments end at the top, from native code; the results replace
    /// it.
    pub(crate) unsafe fn call_at(&mut self, func: *mut Value, nresults: i32) -> LuaResult<u32> {
        if self.lua.errors.leaf && self.lua.errors.signal == Signal::None {
            return Err(self.set_signal(Signal::RunAgain));
        }
        if self.lua.errors.signal != Signal::None {
            return Err(self.lua.errors.signal.thrown());
        }
        if self.too_deep() {
            return Err(self.c_stack_overflow());
        }
        let calls = self.lua.c_calls;
        self.lua.c_calls += 1;
        // SAFETY: the caller's promise.
        let result = unsafe { self.call_at_counted(func, nresults) };
        self.lua.c_calls = calls;
        result
    }

    #[inline]
    unsafe fn call_at_counted(&mut self, func: *mut Value, nresults: i32) -> LuaResult<u32> {
        // SAFETY: function and arguments are on the running stack.
        unsafe {
            let offset = func.offset_from((*self.lua.thread).stack) as usize;
            match crate::machine::call_compiled(self, func, nresults as i16) {
                Some(Exit::Error) => return Err(self.lua.errors.signal.thrown()),
                Some(_) => {}
                None => self.call_plainly(func, nresults)?,
            }
            let dest = (*self.lua.thread).stack.add(offset);
            if nresults >= 0 {
                self.lua.top = dest.add(nresults as usize);
            }
            Ok(self.lua.top.offset_from(dest) as u32)
        }
    }

    /// The call of [`Vm::call_at`], of whatever it is.
    #[inline(never)]
    unsafe fn call_plainly(&mut self, func: *mut Value, nresults: i32) -> LuaResult<()> {
        // SAFETY: function and arguments are on the running stack.
        unsafe {
            let mut func = func;
            if !(*func).is_function() || (*func).tag() == Tag::SHARED_FUNCTION {
                func = self.resolve_call(func)?;
            }
            let offset = func.offset_from((*self.lua.thread).stack) as usize;
            match (*func).as_native() {
                None => {
                    self.enter_lua(func, Some(self.lua.base), nresults as i16, F_ENTRY, CONT_NONE, 0)?;
                    if execute(self) == Exit::Error {
                        return Err(self.lua.errors.signal.thrown());
                    }
                }
                Some(native)
                    if matches!(
                        native.kind,
                        Kind::Leaf
                            | Kind::Reentrant
                            | Kind::Hybrid
                            | Kind::Next
                            | Kind::IpairsStep
                            | Kind::ElementAt
                            | Kind::ElementPut
                    ) =>
                {
                    let nargs = self.lua.top.offset_from(func) as usize - CALL_GAP;
                    let func = self.reserve(func, CALL_GAP + nargs + NATIVE_STACK)?;
                    let base = func.add(CALL_GAP);
                    let caller = self.lua.base.offset_from((*self.lua.thread).stack) as usize;
                    let delta = base.offset_from(self.lua.base) as u32;
                    *frame(base) = Frame::native(nresults as i16, delta);
                    self.lua.base = base;
                    if self.hooks_active() {
                        self.hook_call()?;
                    }
                    // The native that calls this one lies on the native stack too, and no `execute` between
                    // them marks where.
                    let scan_from = std::mem::replace(&mut self.lua.stacks.running.scan_from, 0);
                    let mut outcome = self.call_native(native);
                    while let Err(Thrown::Park(_)) = outcome {
                        outcome = self.park_nested().and_then(|()| self.call_native(native));
                    }
                    self.lua.stacks.running.scan_from = scan_from;
                    let n = outcome? as usize;
                    if self.hooks_active() {
                        self.hook_return(self.lua.top.sub(n), n)?;
                    }
                    let stack = (*self.lua.thread).stack;
                    deliver_results(self, stack.add(offset), self.lua.top.sub(n), n, nresults);
                    self.lua.base = stack.add(caller);
                }
                Some(native) if native.kind == Kind::Yield && self.called_by_native() => {
                    return Err(self.error_plain(self.why_not_yieldable()));
                }
                Some(_) => {
                    // pcall, coroutine.resume and the like need the interpreter: a stub of Lua code makes the
                    // call.
                    let nargs = self.lua.top.offset_from(func) as usize - CALL_GAP;
                    let func = self.reserve(func, 2 * CALL_GAP + nargs + NATIVE_STACK)?;
                    std::ptr::copy(
                        func as *const [u8; 16],
                        func.add(CALL_GAP) as *mut [u8; 16],
                        CALL_GAP + nargs,
                    );
                    *func = Value::from(Gc::from_ptr(self.lua.roots.call_stub));
                    self.lua.top = func.add(CALL_GAP);
                    self.enter_lua(func, Some(self.lua.base), nresults as i16, F_ENTRY, CONT_NONE, 0)?;
                    let stack = (*self.lua.thread).stack;
                    self.lua.top = stack.add(offset + 2 * CALL_GAP + nargs);
                    if execute(self) == Exit::Error {
                        return Err(self.lua.errors.signal.thrown());
                    }
                }
            }
            Ok(())
        }
    }

    /// Calls `f` with `args`; pushes `nresults` results (-1: all) and returns how many.
    pub fn call_multi(&mut self, f: Value, args: &[Value], nresults: i32) -> LuaResult<u32> {
        self.ensure_stack(args.len() + CALL_GAP + 1)?;
        self.begin_call(f)?;
        self.ensure_stack(args.len() + 1)?;
        for &v in args {
            self.push(v);
        }
        self.finish_call(args.len() as u32, nresults)
    }

    /// Calls `f` with `args` and returns its first result, or nil.
    pub fn call(&mut self, f: Value, args: &[Value]) -> LuaResult<Value> {
        self.call_multi(f, args, 1)?;
        Ok(self.pop())
    }

    /// `pcall` from Rust, for natives: pushes all results and returns how many, or gives the error's value.
    ///
    /// # Errors
    /// What is no error, which the native passes on.
    pub fn protected_call(&mut self, f: Value, args: &[Value]) -> LuaResult<Result<u32, Value>> {
        // SAFETY: the running thread; it is the same after the call.
        unsafe {
            let th = self.lua.thread;
            let here = self.lua.base.offset_from((*th).stack) as u32;
            let floor = std::mem::replace(&mut (*th).handler_floor, here);
            let result = self.observed_call(f, args);
            (*th).handler_floor = floor;
            result
        }
    }

    /// As [`Vm::protected_call`], for code that no Lua function has called: a cancellation is an error like
    /// others.
    ///
    /// # Errors
    /// The error's value.
    pub fn host_call(&mut self, f: Value, args: &[Value]) -> Result<u32, Value> {
        match self.protected_call(f, args) {
            Ok(outcome) => outcome,
            Err(thrown) => Err(self.host_error(thrown)),
        }
    }

    /// The value of an error that the running native itself has raised and catches, after the message handler
    /// of an `xpcall` around it has seen it.
    ///
    /// # Errors
    /// `thrown`, if it is no error.
    pub fn observed_error(&mut self, thrown: Thrown) -> LuaResult<Value> {
        // SAFETY: the running native's frame is intact.
        unsafe { self.run_message_handler() };
        self.lua.errors.handled = false;
        self.catch(thrown)
    }

    /// As [`Vm::protected_call`], but the message handler of an `xpcall` around it sees the error, and may
    /// replace its value.
    ///
    /// # Errors
    /// As there.
    pub fn observed_call(&mut self, f: Value, args: &[Value]) -> LuaResult<Result<u32, Value>> {
        match self.unwound_call(f, args) {
            Ok(n) => Ok(Ok(n)),
            Err(thrown) => {
                self.lua.errors.handled = false;
                self.catch(thrown).map(Err)
            }
        }
    }

    /// As [`Vm::call_multi`] with all results; an error that comes out has been seen by the message handler
    /// and has unwound everything that the call made, so that a collection may run before it is passed on.
    pub(crate) fn unwound_call(&mut self, f: Value, args: &[Value]) -> LuaResult<u32> {
        // SAFETY: offsets into the running stack; the thread is the same after the call.
        unsafe {
            let stack = (*self.lua.thread).stack;
            let (base, top) = (self.lua.base.offset_from(stack), self.lua.top.offset_from(stack));
            let (c_calls, no_yield) = (self.lua.c_calls, self.lua.no_yield);
            let thrown = match self.call_multi(f, args, -1) {
                Err(thrown @ (Thrown::Error(_) | Thrown::Cancel(_))) => thrown,
                other => return other,
            };
            // If a native was called directly, nobody has unwound its error yet.
            self.run_message_handler();
            let stack = (*self.lua.thread).stack;
            self.lua.base = stack.offset(base);
            self.lua.top = stack.offset(top);
            let closed = self.close_after_error(self.lua.top);
            self.lua.top = (*self.lua.thread).stack.offset(top);
            self.lua.c_calls = c_calls;
            self.lua.no_yield = no_yield;
            self.lua.errors.handled = true;
            Err(closed.err().unwrap_or(thrown))
        }
    }

    /// As [`Vm::host_call`], with a message handler that is called where the error is raised.
    ///
    /// # Errors
    /// What the handler has made of the error's value.
    pub fn host_call_with_handler(&mut self, f: Value, args: &[Value], handler: Value) -> Result<u32, Value> {
        let mut all = vec![f, handler];
        all.extend_from_slice(args);
        let n = self.host_call(Value::native(&HOST_XPCALL), &all)?;
        // xpcall's own first result says how it went.
        let first = self.nargs() - n + 1;
        if self.stack_get(first).is_truthy() {
            for i in first..self.nargs() {
                let v = self.stack_get(i + 1);
                self.stack_set(i, v);
            }
            self.pop();
            Ok(n - 1)
        } else {
            let error = self.stack_get(first + 1);
            self.truncate(first - 1);
            Err(error)
        }
    }

    /// Is the running frame that of a native function (`pcall` not counted, whose frame may be on top while
    /// the machine closes variables)?
    fn called_by_native(&self) -> bool {
        // SAFETY: base is a frame of the running stack.
        unsafe {
            let f = *frame(self.lua.base);
            f.flags & F_NATIVE != 0 && f.flags & F_PCALL == 0 && f.delta != 0
        }
    }
}
