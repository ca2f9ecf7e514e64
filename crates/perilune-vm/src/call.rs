//! Calls, returns and errors outside the handlers' fast paths: everything that pushes or pops a frame record in Rust.
//!
//! [`Vm::start_call`] begins a call whose function and arguments are on the stack and leaves the state ready to reload: either a new Lua
//! frame on top, or (a native) the results already delivered. [`Vm::finish_return`] is the other half: it takes the results
//! of the frame at hand to wherever its record says. Both work without recursion: a chain of `pcall`s, of tail calls or of coroutine switches
//! costs no native stack.
//!
//! Native code that calls Lua ([`Vm::finish_call`]) runs a nested `execute`; its depth is bounded by [`MAX_C_CALLS`].

use crate::Vm;
use crate::frame::*;
use crate::interp::{Exit, Flow, Step, copy, execute, frame_ceiling, frame_closure};
use crate::meta::Event;
use crate::native::{Kind, LuaResult, Native, Signal, Thrown};
use crate::object::LuaClosure;
use crate::value::{Gc, Tag, Type, Value};

/// Slots a native function may use beyond its arguments without asking (`LUA_MINSTACK`).
pub(crate) const NATIVE_STACK: usize = 20;
/// Nested native calls and calls of `pcall` (`LUAI_MAXCCALLS`). The latter need no native stack, but an error that passes through that many hands
/// has got a long message.
pub(crate) const MAX_C_CALLS: u32 = 200;
/// Nested calls beyond that for message handlers after a "C stack overflow". So a depth of more than [`MAX_C_CALLS`] means that one runs
/// ([`Vm::call_message_handler`]), and the error comes at exactly that depth, as in PUC Lua.
pub(crate) const HANDLER_C_CALLS: u32 = 20;
/// Largest stack of a coroutine, in slots.
pub(crate) const MAX_STACK: usize = 1_000_000;
/// Slots beyond that for message handlers after a stack overflow.
const ERROR_STACK: usize = 4096;
/// Slots above `stack_limit` that are always there.
pub(crate) const STACK_EXTRA: usize = 16;

/// Moves `n` results to `dest` and adjusts them to `wanted` (-1: all, and sets the top).
///
/// # Safety
/// Both ranges are on the running stack, `dest` at or below `from`.
#[inline(always)]
pub(crate) unsafe fn deliver_results(
    vm: *mut Vm,
    dest: *mut Value,
    from: *const Value,
    n: usize,
    wanted: i32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let take = if wanted < 0 { n } else { n.min(wanted as usize) };
        for j in 0..take {
            copy(dest.add(j), from.add(j));
        }
        if wanted < 0 {
            (*vm).lua.top = dest.add(n);
        } else {
            for j in take..wanted as usize {
                *dest.add(j) = Value::NIL;
            }
        }
    }
}

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
    pub(crate) unsafe fn resize_stack(
        &mut self,
        th: *mut crate::object::Thread,
        size: usize,
    ) -> LuaResult<()> {
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
                uv = (*uv).closed.payload() as *mut crate::object::Upval;
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

    /// Pushes the frame record of the Lua function at `func`, whose arguments end at `top`. `parent` is the caller's base; `None`: first frame of the stack.
    #[inline]
    pub(crate) unsafe fn enter_lua(
        &mut self,
        func: *mut Value,
        parent: Option<*mut Value>,
        nresults: i16,
        flags: u8,
        cont: u8,
        aux: u16,
    ) -> LuaResult<()> {
        debug_assert!(
            !self.lua.errors.is_discarding(),
            "Lua code runs while native frames are being discarded"
        );
        // SAFETY: `func` holds a closure; arguments up to top; reserve keeps pointers fresh.
        unsafe {
            let p = (*((*func).payload() as *const LuaClosure)).proto;
            let delta_parent = parent.map(|b| func.offset_from(b) + CALL_GAP as isize);
            let nargs = self.lua.top.offset_from(func) as usize - CALL_GAP;
            let need = CALL_GAP + ((*p).max_stack as usize).max(nargs) + 1;
            let func = self.reserve(func, need)?;
            let base = func.add(CALL_GAP);
            for n in nargs..(*p).num_params as usize {
                *base.add(n) = Value::NIL;
            }
            self.lua.top = base.add(nargs.max((*p).num_params as usize));
            *frame(base) = Frame {
                pc: (*p).code,
                tag0: Tag::FRAME,
                flags,
                nresults,
                delta: delta_parent.unwrap_or(0) as u32,
                k: (*p).k,
                tag1: Tag::FRAME,
                cont,
                aux,
                shift: 0,
            };
            self.lua.base = base;
            Ok(())
        }
    }

    /// Begins the call of the value at `func` (arguments from `func + 3` to the top), made by the frame at `base`.
    pub(crate) unsafe fn start_call(
        &mut self,
        mut func: *mut Value,
        mut nresults: i16,
        mut flags: u8,
        mut cont: u8,
        mut aux: u16,
    ) -> Flow {
        // SAFETY: function and arguments are on the running stack; every path re-derives pointers after what may move it.
        unsafe {
            let mut parent_is_bottom = cont == CONT_COROUTINE;
            if cont != CONT_NONE {
                flags |= F_CONT;
            }
            loop {
                let tag = (*func).tag();
                if tag == Tag::CLOSURE {
                    if self.lua.interrupt.load(std::sync::atomic::Ordering::Relaxed) != 0 {
                        self.handle_interrupt()?;
                        // Nothing moves: the handler only raises or returns.
                    }
                    let parent = if parent_is_bottom { None } else { Some(self.lua.base) };
                    self.enter_lua(func, parent, nresults, flags, cont, aux)?;
                    return Ok(Step::Continue);
                }
                let Some(native) = (*func).as_native() else {
                    func = self.resolve_call(func)?;
                    continue;
                };
                let nargs = self.lua.top.offset_from(func) as usize - CALL_GAP;
                func = self.reserve(func, CALL_GAP + nargs + NATIVE_STACK + 4)?;
                let base = func.add(CALL_GAP);
                let delta = if parent_is_bottom { 0 } else { base.offset_from(self.lua.base) as u32 };
                *frame(base) = Frame { flags: flags | F_NATIVE, cont, aux, ..Frame::native(nresults, delta) };
                self.lua.base = base;
                parent_is_bottom = false;
                let mut base = base;
                if self.hooks_active()
                    && matches!(
                        native.kind,
                        Kind::Pcall | Kind::Xpcall | Kind::Resume | Kind::Wrap | Kind::Yield
                    )
                {
                    self.hook_call()?;
                    base = self.lua.base;
                }
                match native.kind {
                    Kind::Pcall | Kind::Xpcall => {
                        let handler = native.kind == Kind::Xpcall;
                        if handler {
                            self.check_type(2, Type::Function)?;
                        } else {
                            self.check_any(1)?;
                        }
                        let nested = (*self.lua.thread).pcalls;
                        let limit = if self.lua.c_calls > MAX_C_CALLS {
                            MAX_C_CALLS + HANDLER_C_CALLS
                        } else {
                            MAX_C_CALLS - self.lua.c_calls
                        };
                        if nested >= limit {
                            return Err(self.c_stack_overflow());
                        }
                        (*self.lua.thread).pcalls = nested + 1;
                        (*frame(base)).shift = nested;
                        (*frame(base)).flags |= F_PCALL;
                        let mut f = base;
                        if handler {
                            // handler, function, arguments
                            std::ptr::swap(base, base.add(1));
                            (*frame(base)).aux = 1;
                            f = base.add(1);
                        }
                        let n = self.lua.top.offset_from(f) as usize - 1;
                        std::ptr::copy(f.add(1) as *const [u8; 16], f.add(CALL_GAP) as *mut [u8; 16], n);
                        self.lua.top = f.add(CALL_GAP + n);
                        (func, nresults, flags, cont, aux) = (f, -1, F_CONT, CONT_PCALL, 0);
                    }
                    Kind::Resume => return self.resume_from(base, nargs, false),
                    Kind::Wrap => return self.resume_from(base, nargs, true),
                    Kind::Yield => return self.yield_from(base, nargs),
                    Kind::Leaf | Kind::Next | Kind::ElementAt | Kind::ElementPut => {
                        return self.run_native(native);
                    }
                    Kind::Hybrid | Kind::IpairsStep => {
                        if self.needs_segment() {
                            return self.as_leaf_first(native, nargs);
                        }
                        return self.run_native(native);
                    }
                    Kind::Reentrant => {
                        if self.needs_segment() {
                            return self.on_segment(native);
                        }
                        return self.run_native(native);
                    }
                }
            }
        }
    }

    /// Runs the native function whose frame is at `base`, and delivers its results.
    pub(crate) unsafe fn run_native(&mut self, native: &'static Native) -> Flow {
        if self.hooks_active() {
            self.hook_call()?;
        }
        let n = self.call_native(native)? as usize;
        // SAFETY: the native's results are the topmost n values.
        unsafe { self.finish_native(n) }
    }

    /// Runs a native function in its frame, the running one. If something is on its way that the native ought to have passed on, it has.
    pub(crate) fn call_native(&mut self, native: &'static Native) -> LuaResult<u32> {
        let result = native.run(self);
        if self.lua.errors.signal != Signal::None && result.is_ok() {
            return Err(self.passed_on(native));
        }
        result
    }

    #[cold]
    #[inline(never)]
    fn passed_on(&mut self, native: &'static Native) -> Thrown {
        let signal = self.lua.errors.signal;
        debug_assert!(
            matches!(signal, Signal::Cancel | Signal::Discard),
            "'{}' has dropped {signal:?} and returned",
            native.name
        );
        signal.thrown()
    }

    /// Runs the native function whose frame is at `base`, in a coroutine without a segment: as a leaf, and on a segment if it wants to call Lua.
    pub(crate) unsafe fn as_leaf_first(&mut self, native: &'static Native, nargs: usize) -> Flow {
        // SAFETY: as `run_native`; a native that was stopped has left its arguments in place.
        unsafe {
            if self.hooks_active() {
                return self.on_segment(native);
            }
            self.lua.errors.leaf = true;
            let result = self.call_native(native);
            self.lua.errors.leaf = false;
            if self.lua.errors.signal == Signal::RunAgain {
                self.lua.errors.signal = Signal::None;
                self.lua.top = self.lua.base.add(nargs);
                return self.on_segment(native);
            }
            self.finish_native(result? as usize)
        }
    }

    /// Delivers the `n` topmost values as the results of the running native.
    #[inline(never)]
    pub(crate) unsafe fn finish_native(&mut self, n: usize) -> Flow {
        // Before it returns: if it has made more than there is memory for, that is its own error, which a `pcall` of it catches.
        if self.heap.gc_due() {
            self.safepoint_open()?;
        }
        // SAFETY: the native's results are the topmost n values.
        unsafe { self.finish_return(self.lua.base, self.lua.top.sub(n), n) }
    }

    /// Puts the `__call` metamethod of the value at `func` before it, and so on until there is a function; in place of a function in an island, this
    /// domain's own.
    #[cold]
    pub(crate) unsafe fn resolve_call(&mut self, func: *mut Value) -> LuaResult<*mut Value> {
        // SAFETY: arguments from func + 3 to top are on the running stack.
        unsafe {
            let mut func = func;
            let mut depth = 0;
            while !(*func).is_function() {
                let f = self.metamethod(*func, Event::Call);
                if f.is_nil() {
                    return Err(self.call_error(func));
                }
                depth += 1;
                if depth > 100_000 {
                    return Err(self.error("'__call' chain too long"));
                }
                let nargs = self.lua.top.offset_from(func) as usize - CALL_GAP;
                func = self.reserve(func, CALL_GAP + nargs + 2)?;
                let first = func.add(CALL_GAP);
                std::ptr::copy(first as *const [u8; 16], first.add(1) as *mut [u8; 16], nargs);
                copy(first, func);
                self.lua.top = first.add(nargs + 1);
                *func = f;
            }
            if let Some(f) = (*func).as_shared_function() {
                *func = self.own_function(f)?;
            }
            Ok(func)
        }
    }

    /// Takes the `n` results at `first` of the frame at `base` to where its record says.
    pub(crate) unsafe fn finish_return(
        &mut self,
        mut base: *mut Value,
        mut first: *mut Value,
        mut n: usize,
    ) -> Flow {
        // SAFETY: `base` is the top frame of the running stack; results lie above it.
        unsafe {
            if self.hooks_active() && (*frame(base)).flags & F_NATIVE != 0 {
                (base, first) = self.hook_finished(base, first, n)?;
            }
            loop {
                let f = *frame(base);
                let dest = base.sub(CALL_GAP + f.shift_or_zero());
                let parent = base.sub(f.delta as usize);
                if f.flags & F_CONT == 0 {
                    deliver_results(self, dest, first, n, f.nresults as i32);
                    self.lua.base = parent;
                    return Ok(if f.flags & F_ENTRY != 0 { Step::Return } else { Step::Continue });
                }
                let value = if n > 0 { *first } else { Value::NIL };
                match f.cont {
                    CONT_ENTER => {
                        deliver_results(self, dest, first, n, f.nresults as i32);
                        self.lua.base = parent;
                        return Ok(Step::Enter);
                    }
                    CONT_STORE => {
                        self.lua.base = parent;
                        let i = *(*frame(parent)).pc.sub(1);
                        copy(parent.add(i.a() as usize), &value);
                        return Ok(Step::Continue);
                    }
                    CONT_COMPARE => {
                        self.lua.base = parent;
                        self.finish_compare(value.is_truthy() != (f.aux != 0));
                        return Ok(Step::Continue);
                    }
                    CONT_DISCARD => {
                        self.lua.base = parent;
                        return Ok(Step::Continue);
                    }
                    CONT_CONCAT => {
                        self.lua.base = parent;
                        let i = *(*frame(parent)).pc.sub(1);
                        let left = f.aux as usize;
                        copy(parent.add(i.a() as usize + left - 2), &value);
                        self.lua.top = frame_ceiling(parent);
                        return crate::interp::arith::concat_flow(self, parent, i, left - 1);
                    }
                    CONT_PCALL => {
                        std::ptr::copy(first as *const [u8; 16], dest.add(1) as *mut [u8; 16], n);
                        *dest = Value::TRUE;
                        first = dest;
                        n += 1;
                        base = parent;
                        (*self.lua.thread).pcalls = (*frame(base)).shift;
                        if self.hooks_active() {
                            (base, first) = self.hook_finished(base, first, n)?;
                        }
                    }
                    CONT_RETURN => {
                        base = parent;
                        if self.hooks_active() {
                            (base, first) = self.hook_finished(base, first, n)?;
                        }
                    }
                    _ => return self.coroutine_finished(first, n),
                }
            }
        }
    }

    /// The return event of the frame at `base`, which is no longer one that catches errors; base and results as they are afterwards.
    #[cold]
    unsafe fn hook_finished(
        &mut self,
        base: *mut Value,
        first: *mut Value,
        n: usize,
    ) -> LuaResult<(*mut Value, *mut Value)> {
        // SAFETY: as `finish_return`.
        unsafe {
            (*frame(base)).flags &= !F_PCALL;
            self.lua.base = base;
            let first = self.hook_return(first, n)?;
            Ok((self.lua.base, first))
        }
    }

    /// Ends a comparison whose metamethod has answered: jumps or not.
    pub(crate) unsafe fn finish_compare(&mut self, jump: bool) {
        // SAFETY: the frame at base is a Lua frame whose last instruction was a conditional jump.
        unsafe {
            let f = frame(self.lua.base);
            if jump {
                let i = *(*f).pc.sub(1);
                (*f).pc = (*f).pc.offset(i.sj() as isize);
            }
        }
    }

    /// Calls metamethod `f` at the top of the running Lua frame; `cont` says what becomes of its result.
    #[inline(never)]
    pub(crate) fn call_meta_general(&mut self, f: Value, args: &[Value], cont: u8, aux: u16) -> Flow {
        // SAFETY: top is the end of the frame's registers.
        unsafe {
            let func = self.reserve(self.lua.top, CALL_GAP + args.len() + 1)?;
            *func = f;
            for (n, v) in args.iter().enumerate() {
                copy(func.add(CALL_GAP + n), v);
            }
            self.lua.top = func.add(CALL_GAP + args.len());
            self.start_call(func, 1, 0, cont, aux)
        }
    }

    /// An error is on its way from the frame at `base`: finds the `pcall` that catches it among the frames of this run of the interpreter.
    /// `Ok(None)`: it left the entry frame, and is what `errors` says.
    pub(crate) unsafe fn unwind(&mut self, mut thrown: Thrown) -> Result<Option<Step>, Thrown> {
        // SAFETY: frames below base are intact: nothing pops them on the way of an error.
        unsafe {
            self.run_message_handler();
            let mut base = self.lua.base;
            let reached = self.lua.top.offset_from((*self.lua.thread).stack) as usize;
            loop {
                let f = *frame(base);
                if f.flags & F_PCALL != 0 {
                    (*self.lua.thread).pcalls = f.shift;
                    if let Thrown::Error(_) = &thrown {
                        self.lua.base = base;
                        if let Err(worse) = self.close_after_error(base.add(f.aux as usize)) {
                            thrown = worse;
                            base = self.lua.base;
                        }
                    }
                }
                if f.flags & F_PCALL != 0
                    && let Thrown::Error(raised) = thrown
                {
                    let base = self.lua.base;
                    self.lua.errors.handled = false;
                    *base = Value::FALSE;
                    *base.add(1) = self.take_error(raised);
                    self.shrink_after_overflow();
                    let base = self.lua.base;
                    self.lua.top = base.add(2);
                    if self.heap.gc_due() {
                        self.clear_up_to(reached);
                    }
                    let step = self.finish_return(base, base, 2)?;
                    // Loops that do nothing but fail need a safepoint too. It does not fail: that error would leave the `pcall` that has just caught one.
                    if step == Step::Continue && self.heap.gc_due() {
                        self.safepoint_after_error();
                    }
                    return Ok(Some(step));
                }
                if f.flags & F_ENTRY != 0 {
                    self.lua.base = base;
                    if let Err(worse) = self.close_after_error(base.sub(CALL_GAP + f.shift_or_zero())) {
                        debug_assert!(worse.signal() == self.lua.errors.signal);
                    }
                    let base = self.lua.base;
                    self.lua.top = base.sub(CALL_GAP + f.shift_or_zero());
                    self.lua.base = base.sub(f.delta as usize);
                    return Ok(None);
                }
                if f.flags & F_CONT != 0 && f.cont == CONT_COROUTINE {
                    return self.coroutine_failed().map(Some);
                }
                if f.delta == 0 {
                    return Ok(None);
                }
                base = base.sub(f.delta as usize);
            }
        }
    }

    /// Overwrites what an error has left above the top: those slots may become registers, and keep what memory was refused for.
    unsafe fn clear_up_to(&mut self, reached: usize) {
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
    unsafe fn shrink_after_overflow(&mut self) {
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

    /// Calls the message handler of the nearest `xpcall`, once per error, while the frames that failed are still there.
    unsafe fn run_message_handler(&mut self) {
        if self.lua.errors.handled || self.lua.errors.signal != Signal::None {
            return;
        }
        self.lua.errors.handled = true;
        // SAFETY: walks the frames of the running stack.
        unsafe {
            let mut base = self.lua.base;
            let floor = (*self.lua.thread).stack.add((*self.lua.thread).handler_floor as usize);
            while base > floor {
                let f = *frame(base);
                if f.flags & F_PCALL != 0 {
                    if f.aux == 1 {
                        self.call_message_handler(*base);
                    }
                    return;
                }
                if f.delta == 0 {
                    self.note_fiber_error();
                    return;
                }
                base = base.sub(f.delta as usize);
            }
        }
    }

    /// An error in the handler goes to the handler too (the nested run of the interpreter calls it), until the nesting is too deep.
    fn call_message_handler(&mut self, handler: Value) {
        let calls = self.lua.c_calls;
        if calls >= MAX_C_CALLS + HANDLER_C_CALLS {
            // Each error in the handler has been handled by the handler. That ends here.
            let _ = self.error_in_handling();
            return;
        }
        // SAFETY: there is always a running coroutine.
        if calls <= MAX_C_CALLS && calls + unsafe { (*self.lua.thread).pcalls } >= MAX_C_CALLS {
            self.lua.c_calls = MAX_C_CALLS + 1;
        }
        self.lua.no_yield += 1;
        let error = self.lua.errors.take_value();
        // SAFETY: the frame at base is the one that failed; everything above its registers is free.
        unsafe { self.set_top_for_call() };
        match self.call(handler, &[error]) {
            Ok(v) => self.lua.errors.value = v,
            Err(_) if !self.lua.errors.handled => {
                // The handler is a native function, whose error nobody has unwound yet.
                self.lua.c_calls += 1;
                self.call_message_handler(handler);
                self.lua.c_calls -= 1;
            }
            Err(_) => {}
        }
        self.lua.errors.handled = true;
        self.lua.no_yield -= 1;
        self.lua.c_calls = calls;
    }

    /// Puts the top where a call from Rust may push without overwriting the running frame.
    pub(crate) unsafe fn set_top_for_call(&mut self) {
        // SAFETY: base is a frame of the running stack.
        unsafe {
            if (*frame(self.lua.base)).flags & F_NATIVE == 0 {
                let ceiling = frame_ceiling(self.lua.base);
                if self.lua.top < ceiling {
                    self.lua.top = ceiling;
                }
            } else if self.lua.top < self.lua.base {
                self.lua.top = self.lua.base;
            }
        }
    }

    // -- Calls from native code ---------------------------------------------------------------------------------------------

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

    /// Calls the function begun with [`Vm::begin_call`] with the topmost `nargs` values; replaces all that by its results, `nresults` of
    /// them (-1: all), and returns how many.
    pub fn finish_call(&mut self, nargs: u32, nresults: i32) -> LuaResult<u32> {
        // SAFETY: begin_call put function and record below the arguments.
        unsafe {
            let func = self.lua.top.sub(nargs as usize + CALL_GAP);
            self.call_at(func, nresults)
        }
    }

    /// Calls the function at `func`, whose arguments end at the top, from native code; the results replace it.
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

    unsafe fn call_at_counted(&mut self, func: *mut Value, nresults: i32) -> LuaResult<u32> {
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
                    // The native that calls this one lies on the native stack too, and no `execute` between them marks where.
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
                    return Err(self.error_plain("attempt to yield across a C-call boundary"));
                }
                Some(_) => {
                    // pcall, coroutine.resume and the like need the interpreter: a stub of Lua code makes the call.
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
            let dest = (*self.lua.thread).stack.add(offset);
            if nresults >= 0 {
                self.lua.top = dest.add(nresults as usize);
            }
            Ok(self.lua.top.offset_from(dest) as u32)
        }
    }

    /// What is raised where one more nested call is too many.
    #[cold]
    fn c_stack_overflow(&mut self) -> Thrown {
        if self.lua.c_calls > MAX_C_CALLS {
            self.error_in_handling()
        } else {
            self.run_error("C stack overflow")
        }
    }

    /// A message handler has used up what it has beyond the limits. No handler sees this error.
    #[cold]
    fn error_in_handling(&mut self) -> Thrown {
        let thrown = self.error_plain("error in error handling");
        self.lua.errors.handled = true;
        thrown
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

    /// As [`Vm::protected_call`], for code that no Lua function has called: a cancellation is an error like others.
    ///
    /// # Errors
    /// The error's value.
    pub fn host_call(&mut self, f: Value, args: &[Value]) -> Result<u32, Value> {
        match self.protected_call(f, args) {
            Ok(outcome) => outcome,
            Err(thrown) => Err(self.host_error(thrown)),
        }
    }

    /// The value of an error that the running native itself has raised and catches, after the message handler of an `xpcall` around it has seen it.
    ///
    /// # Errors
    /// `thrown`, if it is no error.
    pub fn observed_error(&mut self, thrown: Thrown) -> LuaResult<Value> {
        // SAFETY: the running native's frame is intact.
        unsafe { self.run_message_handler() };
        self.lua.errors.handled = false;
        self.catch(thrown)
    }

    /// As [`Vm::protected_call`], but the message handler of an `xpcall` around it sees the error, and may replace its value.
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

    /// As [`Vm::call_multi`] with all results; an error that comes out has been seen by the message handler and has unwound everything that the call
    /// made, so that a collection may run before it is passed on.
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

    /// Stores a new Lua function of prototype number `n` of the running frame's function in register `a`; false if memory is short: then the
    /// error is raised already.
    #[inline(never)]
    pub(crate) unsafe fn make_closure(&mut self, base: *mut Value, a: usize, n: usize) -> bool {
        // SAFETY: verified code: the prototype and the upvalues exist.
        unsafe {
            let parent = frame_closure(base);
            let inst = self.child_instance((*parent).proto, n);
            if inst.is_null() {
                return false;
            }
            let count = (*inst).num_upvalues as usize;
            let obj = self.heap.alloc(Tag::CLOSURE.0, 16 + 8 * count);
            let cl = obj.as_ptr() as *mut LuaClosure;
            (*cl).proto = inst;
            let upvals = &raw mut (*cl).upvals as *mut *mut crate::object::Upval;
            let descs = &(&*(*inst).proto).upvalues;
            for (j, d) in descs.iter().enumerate() {
                *upvals.add(j) = if d.in_stack {
                    self.find_upvalue(base.add(d.index as usize))
                } else {
                    *(&raw const (*parent).upvals as *const *mut crate::object::Upval).add(d.index as usize)
                };
            }
            *base.add(a) = Value::from(Gc::from_ptr(cl));
            true
        }
    }

    /// Whether the running thread may be suspended.
    pub fn is_yieldable(&self) -> bool {
        // SAFETY: there is always a running coroutine.
        self.lua.thread != self.lua.roots.main_thread
            && self.lua.no_yield == 0
            && unsafe { (*self.lua.thread).fiber.is_null() }
    }
}

impl Vm {
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
}

/// The host's own; [`Role`](crate::debug::Role) tells its frames from those of the program's `xpcall`.
pub(crate) static HOST_XPCALL: Native = Native::special("xpcall", Kind::Xpcall, |vm| {
    Err(vm.error_plain("xpcall is called by the interpreter only"))
});

impl Vm {
    /// Is the running frame that of a native function (`pcall` not counted, whose frame may be on top while the machine closes variables)?
    fn called_by_native(&self) -> bool {
        // SAFETY: base is a frame of the running stack.
        unsafe {
            let f = *frame(self.lua.base);
            f.flags & F_NATIVE != 0 && f.flags & F_PCALL == 0 && f.delta != 0
        }
    }
}
