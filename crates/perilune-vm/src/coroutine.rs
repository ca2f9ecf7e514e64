//! Coroutines: switching value stacks.
//!
//! `coroutine.resume`, `yield` and the function of `coroutine.wrap` are not called as natives: the
//! interpreter itself pushes their frame and then goes on with another coroutine's stack, in the same
//! `execute`, on the same native stack. A coroutine whose frames are all Lua (and `pcall`) costs its value
//! stack and nothing else. Only when a native function that may call Lua runs inside a coroutine does the
//! coroutine get a native stack, for as long as that call lasts (`native_stack.rs`); so any code may yield.
//!
//! While a coroutine is suspended its top frame is that of `yield` (or its body's function has not started);
//! while it waits for another its top frame is that of `resume`. Values go from one frame to the other by
//! `finish_return`.

use crate::Vm;
use crate::call::NATIVE_STACK;
use crate::error::ErrorState;
use crate::frame::{CALL_GAP, CONT_COROUTINE, F_CONT, frame};
use crate::interp::{Flow, copy};
use crate::native::{Call, Effect, Kind, LuaResult, Native, Signal};
use crate::object::{LuaString, Status, Thread};
use crate::value::{Gc, Type, Value};
use perilune_trace::event;

impl Vm {
    /// Makes `th` the running coroutine: stores the registers of the one that ran, loads those of `th`.
    pub(crate) unsafe fn switch_to(&mut self, th: *mut Thread) {
        // SAFETY: both are live coroutines of this domain.
        unsafe {
            let old = self.lua.thread;
            (*old).base = self.lua.base;
            (*old).top = self.lua.top;
            (*old).no_yield = self.lua.no_yield;
            self.heap.barrier(Gc::from_ptr(old).obj());
            self.heap.barrier(Gc::from_ptr(th).obj());
            self.lua.thread = th;
            self.lua.base = (*th).base;
            self.lua.top = (*th).top;
            self.lua.no_yield = (*th).no_yield;
            self.lua.stack_limit = (*th).stack.add((*th).stack_size - crate::call::STACK_EXTRA);
            self.update_dispatch();
        }
    }

    /// `resume` (or a wrap function) was called; its frame is at `base`, with `nargs` arguments.
    pub(crate) unsafe fn resume_from(&mut self, base: *mut Value, nargs: usize, wrap: bool) -> Flow {
        // SAFETY: the native frame of resume is the running one.
        unsafe {
            let (co, first) =
                if wrap { (self.upvalue(1), 0) } else { (if nargs > 0 { *base } else { Value::NIL }, 1) };
            let Some(co) = co.as_thread() else {
                return Err(self.type_error(1, "thread"));
            };
            let th = co.ptr();
            let n = nargs - first;
            let refusal = match (*th).standing.status() {
                Status::Dead => Some("cannot resume dead coroutine"),
                Status::Suspended => None,
                _ => Some("cannot resume non-suspended coroutine"),
            };
            if let Some(text) = refusal {
                return self.resume_refused(text, wrap);
            }
            if self.lua.c_calls + (*th).depth >= crate::call::MAX_C_CALLS {
                return self.resume_refused("C stack overflow", wrap);
            }
            let from = base.add(first);
            // Room on the coroutine's stack.
            let used = (*th).top.offset_from((*th).stack) as usize;
            if used + n + NATIVE_STACK + crate::call::STACK_EXTRA > (*th).stack_size {
                if used + n > crate::call::MAX_STACK - 1000 {
                    return self.resume_refused("too many arguments to resume", wrap);
                }
                self.resize_stack(th, (used + n + NATIVE_STACK) * 2)?;
            }
            let to = (*th).top;
            for j in 0..n {
                copy(to.add(j), from.add(j));
            }
            (*th).top = to.add(n);
            // Nested coroutines count as nested native calls do, so that endless nesting ends in an error.
            (*th).calls_below = self.lua.c_calls;
            self.lua.c_calls += 1 + (*th).depth;
            (*self.lua.thread).standing.set(Status::Normal);
            (*th).resumer = self.lua.thread;
            (*th).standing.set(Status::Running);
            perilune_trace::emit(event::Resume { coroutine: event::Coroutine(th as u64) });
            self.switch_to(th);
            if !(*th).native_stack.is_null() {
                return self.resume_native_stack(th);
            }
            if !(*th).started {
                (*th).started = true;
                return self.start_body();
            }
            self.finish_yield()
        }
    }

    /// Calls the body of the running coroutine, which has not started: its function is below its arguments,
    /// and becomes the first frame.
    pub(crate) unsafe fn start_body(&mut self) -> Flow {
        // SAFETY: as described.
        unsafe {
            let func = self.lua.base.sub(CALL_GAP);
            let flow = self.start_call(func, -1, 0, CONT_COROUTINE, 0);
            if flow.is_err()
                && (*frame(self.lua.base)).flags & F_CONT == 0
                && (*frame(self.lua.base)).delta == 0
            {
                // An interrupt, or no memory: there is no frame yet that an unwinding would find.
                return self.coroutine_failed();
            }
            flow
        }
    }

    /// The values of a resume are on top of the yield's frame: they are its results.
    pub(crate) unsafe fn finish_yield(&mut self) -> Flow {
        // SAFETY: the running coroutine's top frame is that of `yield`, its base the first value.
        unsafe {
            let base = self.lua.base;
            let n = self.lua.top.offset_from(base) as usize;
            self.finish_return(base, base, n)
        }
    }

    unsafe fn resume_refused(&mut self, text: &str, wrap: bool) -> Flow {
        if wrap {
            return Err(self.error(text));
        }
        // SAFETY: the frame of resume is the running one.
        unsafe {
            let message = self.value_str(text.as_bytes())?;
            let base = self.lua.base;
            *base = Value::FALSE;
            *base.add(1) = message;
            self.lua.top = base.add(2);
            self.finish_return(base, base, 2)
        }
    }

    /// What is wrong with a yield where it is refused.
    pub(crate) fn why_not_yieldable(&self) -> &'static str {
        // SAFETY: there is always a running coroutine.
        let is_fiber = unsafe { !(*self.lua.thread).fiber.is_null() };
        if self.lua.thread == self.lua.roots.main_thread || is_fiber {
            "attempt to yield from outside a coroutine"
        } else {
            "attempt to yield across a C-call boundary"
        }
    }

    /// `yield` was called; its frame is at `base`, with `nargs` arguments: they go to whoever resumed.
    pub(crate) unsafe fn yield_from(&mut self, base: *mut Value, nargs: usize) -> Flow {
        // SAFETY: the native frame of yield is the running one.
        unsafe {
            if !self.is_yieldable() {
                return Err(self.run_error(self.why_not_yieldable()));
            }
            let th = self.lua.thread;
            if self.heap.scope_owner() == Some(th as usize) {
                // It is left with a scope open, and may never come back.
                self.heap.spoil_scopes();
            }
            // What a resume brings is put from the base on.
            self.lua.top = base;
            (*th).standing.set(Status::Suspended);
            let outcome = self.hand_back(base, nargs, true);
            if !(*th).native_stack.is_null() {
                return self.suspend_native_stack(th, outcome);
            }
            outcome
        }
    }

    /// Ends the run of the current coroutine: its resumer goes on, with `n` values from `first` as results of
    /// `resume`.
    unsafe fn hand_back(&mut self, first: *mut Value, n: usize, ok: bool) -> Flow {
        // SAFETY: the resumer's top frame is that of `resume` or of a wrap function.
        unsafe {
            let th = self.lua.thread;
            let resumer = (*th).resumer;
            (*th).resumer = std::ptr::null_mut();
            (*th).depth = self.lua.c_calls - (*th).calls_below - 1;
            self.lua.c_calls = (*th).calls_below;
            let ended = (*th).standing.status() != Status::Suspended;
            perilune_trace::emit(event::Yield { coroutine: event::Coroutine(th as u64), ended });
            self.switch_to(resumer);
            (*resumer).standing.set(Status::Running);
            let base = self.lua.base;
            let wrap = (*base.sub(CALL_GAP)).as_native().is_some_and(|f| f.kind == Kind::Wrap);
            self.lua.top = base;
            let base = self.reserve(base, n + 2)?;
            let mut to = base;
            if !wrap {
                *to = Value::bool(ok);
                to = to.add(1);
            }
            for j in 0..n {
                copy(to.add(j), first.add(j));
            }
            self.lua.top = to.add(n);
            let total = self.lua.top.offset_from(base) as usize;
            self.finish_return(base, base, total)
        }
    }

    /// The body of the running coroutine returned `n` values.
    pub(crate) unsafe fn coroutine_finished(&mut self, first: *mut Value, n: usize) -> Flow {
        // SAFETY: the frame that returned was the first of its stack.
        unsafe {
            let th = self.lua.thread;
            if !(*th).fiber.is_null() {
                return self.fiber_finished(first, n);
            }
            (*th).standing.set(Status::Dead);
            self.lua.c_calls = (*th).calls_below + 1;
            self.lua.base = (*th).stack.add(CALL_GAP);
            *frame(self.lua.base) = crate::frame::Frame::native(0, 0);
            self.lua.top = self.lua.base;
            self.hand_back(first, n, true)
        }
    }

    /// An error left the body of the running coroutine.
    pub(crate) unsafe fn coroutine_failed(&mut self) -> Flow {
        // SAFETY: as `coroutine_finished`; the frames that failed stay, for `debug.traceback` and
        // `coroutine.close`.
        unsafe {
            let th = self.lua.thread;
            let resumer = (*th).resumer;
            if self.lua.errors.is_discarding() {
                // Native frames below are to be unwound too, if this is a fiber's.
                (*th).resumer = std::ptr::null_mut();
                self.switch_to(resumer);
                return Err(self.lua.errors.signal.thrown());
            }
            if !(*th).fiber.is_null() {
                return self.fiber_failed();
            }
            (*th).standing.set(Status::Dead);
            (*th).depth = 0;
            let failed = self.lua.errors.set_aside();
            let cancelled = failed.signal == Signal::Cancel;
            let wrap_frame = (*resumer).base;
            let wrap = (*wrap_frame.sub(CALL_GAP)).as_native().is_some_and(|f| f.kind == Kind::Wrap);
            let error = failed.value;
            if !wrap && !cancelled {
                (*th).failure = Some(error);
                return self.hand_back(&error as *const Value as *mut Value, 1, false);
            }
            (*th).resumer = std::ptr::null_mut();
            self.lua.c_calls = (*th).calls_below;
            self.switch_to(resumer);
            (*resumer).standing.set(Status::Running);
            // A wrap function closes the coroutine and passes the error on, with its own position before a
            // message.
            let closed = self.close_coroutine(Gc::from_ptr(th), Some(error), failed.signal)?;
            let error = closed.err().unwrap_or(Value::NIL);
            if cancelled {
                self.lua.errors = ErrorState { value: error, handled: true, ..failed };
                return Err(failed.signal.thrown());
            }
            if let Some(s) = error.as_string()
                && let Some(text) = self.at_position(1, s.bytes())
            {
                return Err(self.error_plain(text));
            }
            Err(self.throw(error))
        }
    }

    /// A new suspended coroutine with body `f`.
    pub fn new_coroutine(&mut self, f: Value) -> LuaResult<Gc<Thread>> {
        let th = self.alloc_thread(crate::call::INITIAL_STACK)?;
        // SAFETY: freshly made: the function goes below the first frame's record.
        unsafe {
            let base = (*th).base;
            *base.sub(CALL_GAP) = f;
            *frame(base) = crate::frame::Frame::native(-1, 0);
            Ok(Gc::from_ptr(th))
        }
    }

    /// Closes a suspended or dead coroutine: its to-be-closed variables are closed, with `error` if that is
    /// not nil. The error value comes back if there was one. `passing`: as for [`Vm::close_with`].
    ///
    /// # Errors
    /// A cancellation of the running fiber that hit one of the methods; or the running code is being
    /// discarded.
    pub(crate) fn close_coroutine(
        &mut self,
        co: Gc<Thread>,
        error: Option<Value>,
        passing: Signal,
    ) -> LuaResult<Result<(), Value>> {
        // SAFETY: a coroutine that does not run; it is made the running one while its variables are closed.
        unsafe {
            let th = co.ptr();
            // An error that left the coroutine's body may be unwinding it on its own native stack.
            if self.is_on_suspended_native_stack(th) {
                self.cancel_native_stack(th);
            }
            (*th).standing.set(Status::Dead);
            (*th).pcalls = 0;
            if (*th).tbc == 0 {
                let previous = self.lua.thread;
                if !(*th).open_upvals.is_null() {
                    self.switch_to(th);
                    let bottom = (*th).stack;
                    self.close_upvalues(bottom);
                    self.switch_to(previous);
                }
                (*th).base = (*th).stack.add(CALL_GAP);
                (*th).top = (*th).base;
                *frame((*th).base) = crate::frame::Frame::native(0, 0);
                return Ok(error.map_or(Ok(()), Err));
            }
            let previous = self.lua.thread;
            (*previous).standing.set(Status::Normal);
            (*th).standing.set(Status::Running);
            (*th).resumer = previous;
            let kept = self.lua.errors.set_aside();
            self.switch_to(th);
            self.lua.base = (*th).stack.add(CALL_GAP);
            *frame(self.lua.base) = crate::frame::Frame::native(0, 0);
            self.lua.no_yield += 1;
            (*th).closing = true;
            let closed = self.close_with((*th).stack, error, passing);
            (*th).closing = false;
            self.lua.no_yield -= 1;
            (*th).standing.set(Status::Dead);
            self.lua.base = (*th).stack.add(CALL_GAP);
            self.lua.top = self.lua.base;
            (*th).resumer = std::ptr::null_mut();
            self.switch_to(previous);
            (*previous).standing.set(Status::Running);
            let error = closed?;
            self.lua.errors = kept;
            Ok(error.map_or(Ok(()), Err))
        }
    }

    /// What `coroutine.status` says, as the string that is kept for it.
    fn status_name(&self, co: Gc<Thread>) -> Gc<LuaString> {
        // SAFETY: the names are roots, made with the state.
        unsafe { Gc::from_ptr(self.lua.roots.status_names[co.standing.status() as usize]) }
    }

    /// What `coroutine.status` says.
    pub fn coroutine_status(&self, co: Gc<Thread>) -> &'static str {
        co.standing.status().name()
    }
}

fn check_coroutine(vm: &mut Vm) -> LuaResult<Gc<Thread>> {
    match vm.arg(1).as_thread() {
        Some(t) => Ok(t),
        None => Err(vm.type_error(1, "thread")),
    }
}

fn create(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(1, Type::Function)?;
    let co = vm.new_coroutine(vm.arg(1))?;
    vm.ret(co)
}

fn wrap(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(1, Type::Function)?;
    let co = vm.new_coroutine(vm.arg(1))?;
    let f = vm.new_native_closure(&WRAPPED, &[co.into()])?;
    vm.ret(f)
}

fn status(vm: &mut Vm) -> LuaResult<u32> {
    let co = check_coroutine(vm)?;
    let name = vm.status_name(co);
    vm.ret(name)
}

/// [`status`] of a coroutine.
fn quick_status(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    Ok(call.arguments.first().and_then(|v| v.as_thread()).map(|co| vm.status_name(co).into()))
}

fn running(vm: &mut Vm) -> LuaResult<u32> {
    let th = vm.thread();
    // SAFETY: the running coroutine. A fiber whose coroutine Lua code knows is not used again.
    unsafe { (*th.ptr()).escaped = true };
    vm.push(th.into());
    vm.push(Value::bool(vm.lua.thread == vm.lua.roots.main_thread));
    Ok(2)
}

/// Answers as PUC Lua would: false in a callback of `sort`, `gsub` and the like, although a yield works
/// there.
fn is_yieldable(vm: &mut Vm) -> LuaResult<u32> {
    let co = if vm.arg_is_none(1) { vm.thread() } else { check_coroutine(vm)? };
    let yes = if co.ptr() == vm.lua.thread {
        vm.is_yieldable() && !vm.in_native_callback()
    } else {
        co.ptr() != vm.lua.roots.main_thread && co.fiber.is_null()
    };
    vm.ret(yes)
}

fn close(vm: &mut Vm) -> LuaResult<u32> {
    let co = check_coroutine(vm)?;
    match co.standing.status() {
        Status::Suspended | Status::Dead => {
            // SAFETY: a coroutine that does not run.
            let pending = unsafe { (*co.ptr()).failure.take() };
            match vm.close_coroutine(co, pending, Signal::None)? {
                Ok(()) => vm.ret(true),
                Err(e) => {
                    vm.push(Value::FALSE);
                    vm.push(e);
                    Ok(2)
                }
            }
        }
        _ => {
            let text = format!("cannot close a {} coroutine", vm.coroutine_status(co));
            Err(vm.error(text))
        }
    }
}

fn unreachable_native(vm: &mut Vm) -> LuaResult<u32> {
    Err(vm.error("this function is called by the interpreter only"))
}

/// `coroutine.create`
pub static CREATE: Native = Native::leaf("create", create);
/// `coroutine.wrap`
pub static WRAP: Native = Native::leaf("wrap", wrap);
static WRAPPED: Native = Native::special("wrap", Kind::Wrap, unreachable_native);
/// `coroutine.resume`
pub static RESUME: Native = Native::special("resume", Kind::Resume, unreachable_native);
/// `coroutine.yield`
pub static YIELD: Native = Native::special("yield", Kind::Yield, unreachable_native);
/// `coroutine.status`
pub static STATUS: Native = Native::leaf("status", status).quick(Effect::Nothing, quick_status);
/// `coroutine.running`
pub static RUNNING: Native = Native::leaf("running", running);
/// `coroutine.isyieldable`
pub static IS_YIELDABLE: Native = Native::leaf("isyieldable", is_yieldable);
/// `coroutine.close`
pub static CLOSE: Native = Native::reentrant("close", close);

impl Vm {
    /// Opens the coroutine library.
    pub fn open_coroutine(&mut self) -> LuaResult<()> {
        let t = self.new_table(0, 16)?;
        self.register(t, &[&CREATE, &WRAP, &RESUME, &YIELD, &STATUS, &RUNNING, &IS_YIELDABLE, &CLOSE])?;
        self.set_global("coroutine", t.into())?;
        self.set_loaded("coroutine", t.into())?;
        Ok(())
    }
}
