//! Calls, returns and errors outside the handlers' fast paths: everything that pushes or pops a frame record
//! in Rust.
//!
//! [`Vm::start_call`] begins a call whose function and arguments are on the stack and leaves the state ready
//! to reload: either a new Lua frame on top, or (a native) the results already delivered.
//! [`Vm::finish_return`] is the other half: it takes the results of the frame at hand to wherever its record
//! says. Both work without recursion: a chain of `pcall`s, of tail calls or of coroutine switches costs no
//! native stack.
//!
//! How value stacks get room is in `call/stack.rs`, calls that native code makes are in `call/native.rs`.

mod native;
mod stack;

pub(crate) use self::native::HOST_XPCALL;
pub(crate) use self::stack::{DEEP, INITIAL_STACK, MAX_STACK, STACK_EXTRA, grown};
use crate::Vm;
use crate::frame::*;
use crate::interp::{Flow, Step, copy, frame_ceiling, frame_closure};
use crate::meta::Event;
use crate::native::{Kind, LuaResult, Native, Signal, Thrown};
use crate::object::LuaClosure;
use crate::value::{Gc, Tag, Type, Value};

/// Slots a native function may use beyond its arguments without asking (`LUA_MINSTACK`).
pub(crate) const NATIVE_STACK: usize = 20;
/// Nested native calls and calls of `pcall` (`LUAI_MAXCCALLS`). The latter need no native stack, but an error
/// that passes through that many hands has got a long message.
pub(crate) const MAX_C_CALLS: u32 = 200;
/// Nested calls beyond that for message handlers after a "C stack overflow". So a depth of more than
/// [`MAX_C_CALLS`] means that one runs ([`Vm::call_message_handler`]), and the error comes at exactly that
/// depth, as in PUC Lua.
pub(crate) const HANDLER_C_CALLS: u32 = 20;

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
    /// Pushes the frame record of the Lua function at `func`, whose arguments end at `top`. `parent` is the
    /// caller's base; `None`: first frame of the stack.
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

    /// Begins the call of the value at `func` (arguments from `func + 3` to the top), made by the frame at
    /// `base`.
    pub(crate) unsafe fn start_call(
        &mut self,
        mut func: *mut Value,
        mut nresults: i16,
        mut flags: u8,
        mut cont: u8,
        mut aux: u16,
    ) -> Flow {
        // SAFETY: function and arguments are on the running stack; every path re-derives pointers after what
        // may move it.
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
                        if self.needs_native_stack() {
                            return self.as_leaf_first(native, nargs);
                        }
                        return self.run_native(native);
                    }
                    Kind::Reentrant => {
                        if self.needs_native_stack() {
                            return self.on_native_stack(native);
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

    /// Runs a native function in its frame, the running one. If something is on its way that the native ought
    /// to have passed on, it has.
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

    /// Runs the native function whose frame is at `base`, in a coroutine without a native stack: as a leaf,
    /// and on a native stack if it wants to call Lua.
    pub(crate) unsafe fn as_leaf_first(&mut self, native: &'static Native, nargs: usize) -> Flow {
        // SAFETY: as `run_native`; a native that was stopped has left its arguments in place.
        unsafe {
            if self.hooks_active() {
                return self.on_native_stack(native);
            }
            self.lua.errors.leaf = true;
            let result = self.call_native(native);
            self.lua.errors.leaf = false;
            if self.lua.errors.signal == Signal::RunAgain {
                self.lua.errors.signal = Signal::None;
                self.lua.top = self.lua.base.add(nargs);
                return self.on_native_stack(native);
            }
            self.finish_native(result? as usize)
        }
    }

    /// Delivers the `n` topmost values as the results of the running native.
    #[inline(never)]
    pub(crate) unsafe fn finish_native(&mut self, n: usize) -> Flow {
        // Before it returns: if it has made more than there is memory for, that is its own error, which a
        // `pcall` of it catches.
        if self.heap.gc_due() {
            self.safepoint_open()?;
        }
        // SAFETY: the native's results are the topmost n values.
        unsafe { self.finish_return(self.lua.base, self.lua.top.sub(n), n) }
    }

    /// Puts the `__call` metamethod of the value at `func` before it, and so on until there is a function; in
    /// place of a function in an island, this domain's own.
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
            if self.lua.seen.last.is_some() && (*frame(base)).flags & F_NATIVE == 0 {
                self.ends(base);
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

    /// The return event of the frame at `base`, which is no longer one that catches errors; base and results
    /// as they are afterwards.
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

    /// An error is on its way from the frame at `base`: finds the `pcall` that catches it among the frames of
    /// this run of the interpreter. `Ok(None)`: it left the entry frame, and is what `errors` says.
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
                    self.lua.machine.caught = true;
                    // Loops that do nothing but fail need a safepoint too. It does not fail: that error would
                    // leave the `pcall` that has just caught one.
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

    /// Calls the message handler of the nearest `xpcall`, once per error, while the frames that failed are
    /// still there.
    unsafe fn run_message_handler(&mut self) {
        if self.lua.errors.handled || self.lua.errors.signal != Signal::None {
            return;
        }
        self.lua.errors.handled = true;
        // SAFETY: walks the frames of the running stack.
        unsafe {
            let th = self.lua.thread;
            let stack = (*th).stack;
            let search = (*th).handler_search;
            let mut base = self.lua.base;
            let began = base.offset_from(stack) as u32;
            let floor = stack.add((*th).handler_floor as usize);
            while base > floor {
                if base.offset_from(stack) as u32 == search.0 {
                    base = stack.add(search.1 as usize);
                }
                let f = *frame(base);
                if f.flags & F_PCALL != 0 {
                    if f.aux == 1 {
                        (*th).handler_search = (began, base.offset_from(stack) as u32);
                        self.call_message_handler(*base);
                        (*th).handler_search = search;
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

    /// An error in the handler goes to the handler too (the nested run of the interpreter calls it), until
    /// the nesting is too deep.
    fn call_message_handler(&mut self, handler: Value) {
        let calls = self.lua.c_calls;
        if calls >= MAX_C_CALLS + HANDLER_C_CALLS {
            // Each error in the handler has been handled by the handler. That ends here.
            let _ = self.error_in_handling();
            return;
        }
        if calls <= MAX_C_CALLS {
            // SAFETY: there is always a running coroutine.
            let depth = calls + unsafe { (*self.lua.thread).pcalls } + 1;
            if depth == MAX_C_CALLS {
                // This call is the one too many: the handler hears of that in place of the error.
                let _ = self.run_error("C stack overflow");
            }
            if depth >= MAX_C_CALLS {
                self.lua.c_calls = MAX_C_CALLS + 1;
            }
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

    /// Stores a new Lua function of prototype number `n` of the running frame's function in register `a`;
    /// false if memory is short: then the error is raised already.
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
