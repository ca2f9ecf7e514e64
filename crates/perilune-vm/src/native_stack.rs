//! Native stacks for coroutines, taken only while a native call lives in one.
//!
//! Lua frames of a coroutine need no native stack: whoever resumes it runs them on its own (`coroutine.rs`).
//! A native function that may call Lua (`sort` with a comparator, `gsub` with a function, `require`, ...) is
//! different: if the Lua code below it yields, the native's frame has to stay somewhere. So inside a
//! coroutine such a native runs on a *native stack* of the coroutine's own, from a pool, given back when the
//! native returns. 200,000 parked coroutines hold 200,000 value stacks, and native stacks only for those
//! parked inside a native.
//!
//! ```text
//! thread's stack:    execute E1 ... resumes co inline ... co calls gsub --> resume_native_stack -+
//! co's native stack:                                       gsub -> execute E2 -> callback yields -+ suspend: E1 goes on with the resumer
//! ```
//! While a coroutine owns a native stack, everything it runs runs there; a later resume, from whatever native
//! stack, switches to it. E2 returns to gsub, gsub returns, and the native stack is finished: its outcome is
//! handled by the `execute` that resumed it last.
//!
//! # What the collector sees
//! The running native stack from the stack pointer up; every native stack that waits for the running one,
//! from where it switched (`chain`); every suspended native stack of a reachable coroutine, from where it
//! suspended.
//!
//! # Discarding
//! A suspended native stack is never just dropped: Rust frames on it may own memory. It is resumed while the
//! state says [`Signal::Discard`](crate::native::Signal), and everything on it returns that, whatever it does
//! ([`Vm::call_native`]); no Lua frame is entered on the way.
//!
//! Rejected: a native stack per coroutine from the start (4 KiB resident each against 1 KiB for the whole
//! coroutine, and a switch through memory for every resume); continuations in every native, as PUC Lua's
//! `lua_callk` (it splits each native in two and `sort` and `gsub` never got theirs).

mod told;

use self::told::Told;
use crate::Vm;
use crate::call::{HANDLER_C_CALLS, MAX_C_CALLS};
use crate::error::ErrorState;
use crate::interp::{Flow, Step};
use crate::native::{Native, Thrown};
use crate::object::{Status, Thread};
use crate::sys::stack::{self, spill_registers};
use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::num::NonZeroUsize;
use std::ptr::null_mut;

/// Bytes of address space of a native stack. Pages are touched as they are needed.
const NATIVE_STACK_SIZE: usize = 512 << 10;
/// Native stacks reserved in one piece.
const SLAB: usize = 32;
/// Free native stacks that keep their pages.
const WARM: usize = 64;
/// No nested call starts with less native stack than this left.
pub(crate) const NATIVE_RESERVE: usize = 192 << 10;

/// A piece of address space used as a native stack.
struct Memory {
    low: usize,
}

// SAFETY: `low` is the start of SEGMENT_SIZE mapped bytes, page-aligned, used by one coroutine at a time.
unsafe impl Stack for Memory {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(self.low + NATIVE_STACK_SIZE).unwrap_or(NonZeroUsize::MIN)
    }
    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.low).unwrap_or(NonZeroUsize::MIN)
    }
}

/// A native stack on which a native call of a coroutine runs.
pub struct NativeStack {
    run: Option<Coroutine<(), (), Flow, Memory>>,
    yielder: *const Yielder<(), ()>,
    /// Lowest address in use while suspended; 0 while it runs.
    suspended_at: usize,
    low: usize,
    /// The native that runs here; `None`: the machine itself closes variables.
    native: Option<&'static Native>,
    /// `NativeStacks::scan_from` of this stack while suspended.
    scan_from: usize,
    /// What the resumer's `execute` is to do after a yield.
    hand_off: Option<Flow>,
    told: Told,
}

/// Native stacks: which are in use, which are free.
pub(crate) struct NativeStacks {
    free: Vec<usize>,
    slabs: Vec<usize>,
    /// What is known of those that the running thread is on.
    pub running: Running,
    /// The coroutine whose native stack has just handed on [`Step::Park`]; null: the native parked on the
    /// pump's own stack.
    pub parked: *mut Thread,
}

impl NativeStacks {
    /// Reports the native stacks in use: the running one, and those that wait for it.
    pub fn scan(&self, range: &mut dyn FnMut(usize, usize)) {
        let low = if self.running.scan_from != 0 { self.running.scan_from } else { stack::pointer() };
        range(low, self.running.end);
        for n in 0..self.running.chain.len() {
            let (low, end) = self.running.chain[n];
            range(low, end);
        }
    }
}

/// The native stacks of the OS thread that owns the `Vm`.
pub(crate) struct Running {
    /// Stacks that wait for the running one: (lowest address in use, end).
    pub chain: Vec<(usize, usize)>,
    /// End (highest address) of the running native stack.
    pub end: usize,
    /// From where the running native stack is scanned: where its innermost `execute` was entered. What the
    /// interpreter itself keeps on the native stack is of no interest: its values are in registers of Lua
    /// frames. 0: no `execute` on this stack yet, scan from the stack pointer.
    pub scan_from: usize,
    /// A nested call may not start below this address.
    pub limit: usize,
    /// The coroutine whose native stack is the running stack; null: it is the OS thread's own.
    pub current: *mut Thread,
}

impl Default for Running {
    fn default() -> Running {
        Running { chain: Vec::new(), end: 0, scan_from: 0, limit: 0, current: null_mut() }
    }
}

impl Running {
    /// The native stacks, each from where it is in use to its end: those that wait, and the running one.
    pub fn in_use(&self) -> Vec<(usize, usize)> {
        // At rest there is no running stack.
        let running = (self.end != usize::MAX).then(|| (stack::pointer(), self.end));
        self.chain.iter().copied().chain(running).collect()
    }

    /// The running stack is an OS thread's own, and nothing runs on it yet.
    pub fn set_bounds(&mut self, low: usize, end: usize) {
        self.chain.clear();
        self.end = end;
        self.limit = low + NATIVE_RESERVE;
        self.scan_from = 0;
        self.current = null_mut();
    }
}

impl Default for NativeStacks {
    fn default() -> NativeStacks {
        NativeStacks { free: Vec::new(), slabs: Vec::new(), running: Running::default(), parked: null_mut() }
    }
}

impl NativeStacks {
    fn take(&mut self) -> Option<usize> {
        if let Some(low) = self.free.pop() {
            return Some(low);
        }
        let bytes = NATIVE_STACK_SIZE * SLAB;
        let slab = perilune_heap::space::claim(bytes, || stack::map(bytes))?;
        self.slabs.push(slab);
        for n in (0..SLAB).rev() {
            self.free.push(slab + n * NATIVE_STACK_SIZE);
        }
        self.free.pop()
    }

    fn give_back(&mut self, low: usize) {
        if self.free.len() >= WARM {
            // SAFETY: nothing lives on a free native stack.
            unsafe { stack::release(low, NATIVE_STACK_SIZE) };
        }
        self.free.push(low);
    }
}

impl Drop for NativeStacks {
    fn drop(&mut self) {
        for &slab in &self.slabs {
            // SAFETY: mapped by `take`; no coroutine lives on it any more.
            unsafe { stack::unmap(slab, NATIVE_STACK_SIZE * SLAB) };
        }
    }
}

impl Vm {
    /// Is the running code called by a native that PUC Lua cannot yield across?
    pub(crate) fn in_native_callback(&self) -> bool {
        // SAFETY: there is always a running coroutine.
        unsafe {
            let native_stack = (*self.lua.thread).native_stack;
            !native_stack.is_null() && (*native_stack).native.is_some_and(|n| n.name != "dofile")
        }
    }

    /// Must a native that may call Lua run on a native stack? Yes in a coroutine that could yield and has
    /// none yet.
    #[inline]
    pub(crate) fn needs_native_stack(&self) -> bool {
        // SAFETY: there is always a running coroutine.
        self.lua.thread != self.lua.roots.main_thread
            && self.lua.no_yield == 0
            && unsafe { (*self.lua.thread).native_stack.is_null() }
    }

    /// Is there too little native stack left for a nested call?
    #[inline]
    pub(crate) fn native_stack_low(&self) -> bool {
        stack::pointer() < self.lua.stacks.running.limit
    }

    /// Whether half of the native stack that may be used is.
    pub(crate) fn native_stack_half_used(&self) -> bool {
        let running = &self.lua.stacks.running;
        stack::pointer() < running.limit + running.end.saturating_sub(running.limit) / 2
    }

    /// Runs the native whose frame is at `base` on a native stack of the running coroutine's own.
    pub(crate) unsafe fn on_native_stack(&mut self, native: &'static Native) -> Flow {
        // SAFETY: as the caller's promise.
        unsafe { self.run_on_native_stack(Some(native), move |vm| vm.run_native(native)) }
    }

    /// Runs `f`, which may close variables and so call Lua, where a yield can suspend it: on a native stack
    /// if the running coroutine needs one.
    pub(crate) unsafe fn closing_on_native_stack(&mut self, f: impl FnOnce(&mut Vm) -> Flow) -> Flow {
        // SAFETY: the running coroutine.
        unsafe {
            if (*self.lua.thread).tbc != 0 && self.needs_native_stack() {
                self.run_on_native_stack(None, f)
            } else {
                f(self)
            }
        }
    }

    /// Runs `f` on a native stack of the running coroutine's own.
    unsafe fn run_on_native_stack(
        &mut self,
        native: Option<&'static Native>,
        f: impl FnOnce(&mut Vm) -> Flow,
    ) -> Flow {
        let Some(low) = self.lua.stacks.take() else {
            return Err(self.out_of_memory());
        };
        let th = self.lua.thread;
        let vm: *mut Vm = self;
        let native_stack = Box::into_raw(Box::new(NativeStack {
            run: None,
            yielder: std::ptr::null(),
            suspended_at: 0,
            low,
            native,
            scan_from: 0,
            hand_off: None,
            told: Told::new(),
        }));
        // SAFETY: the closure runs on the native stack while `vm` and `native_stack` live: it is freed only
        // after the call has finished.
        unsafe {
            (*native_stack).run = Some(Coroutine::with_stack_unchecked(
                Memory { low },
                move |yielder: &Yielder<(), ()>, ()| {
                    (*native_stack).yielder = yielder;
                    let flow = f(&mut *vm);
                    (*native_stack).told.leave();
                    flow
                },
            ));
            (*th).native_stack = native_stack;
            self.lua.gc.native_stacks.push(th);
            self.resume_native_stack(th)
        }
    }

    /// Switches to the native stack of `th`, the running coroutine, until it yields or finishes.
    pub(crate) unsafe fn resume_native_stack(&mut self, th: *mut Thread) -> Flow {
        // SAFETY: `th` owns a native stack that does not run.
        unsafe {
            let native_stack = (*th).native_stack;
            let Some(mut run) = (*native_stack).run.take() else {
                return Err(self.error("cannot resume non-suspended coroutine"));
            };
            let (end, limit, scan_from) = (
                self.lua.stacks.running.end,
                self.lua.stacks.running.limit,
                self.lua.stacks.running.scan_from,
            );
            self.lua.stacks.running.end = (*native_stack).low + NATIVE_STACK_SIZE;
            self.lua.stacks.running.limit = (*native_stack).low + NATIVE_RESERVE;
            (*native_stack).suspended_at = 0;
            let outer = std::mem::replace(&mut self.lua.stacks.running.current, th);
            let machine = self.set_machine_running(false);
            let mut outcome = None;
            let vm: *mut Vm = self;
            spill_registers(vm, |vm, here| {
                let low = if scan_from != 0 { scan_from } else { here };
                (*vm).lua.stacks.running.chain.push((low, end));
                (*vm).lua.stacks.running.scan_from = (*native_stack).scan_from;
                (*native_stack).told.enter();
                outcome = Some(run.resume(()));
                (*vm).lua.stacks.running.chain.pop();
            });
            self.lua.stacks.running.end = end;
            self.lua.stacks.running.limit = limit;
            self.lua.stacks.running.scan_from = scan_from;
            self.lua.stacks.running.current = outer;
            self.set_machine_running(machine);
            match outcome {
                Some(CoroutineResult::Return(flow)) => {
                    let memory = run.into_stack();
                    self.lua.stacks.give_back(memory.low);
                    (*th).native_stack = null_mut();
                    self.lua.gc.native_stacks.retain(|&t| t != th);
                    drop(Box::from_raw(native_stack));
                    flow
                }
                _ => {
                    (*native_stack).run = Some(run);
                    let flow = (*native_stack).hand_off.take().unwrap_or(Ok(Step::Continue));
                    if matches!(flow, Ok(Step::Park)) {
                        self.lua.stacks.parked = th;
                    }
                    flow
                }
            }
        }
    }

    /// The running code of `th`, on its native stack, has yielded and the state is the resumer's: lets that
    /// of the resumer go on with `outcome`. Returns when `th` is resumed.
    pub(crate) unsafe fn suspend_native_stack(&mut self, th: *mut Thread, outcome: Flow) -> Flow {
        // SAFETY: called on the native stack of `th`.
        unsafe {
            self.switch_away((*th).native_stack, outcome);
            if self.lua.errors.is_discarding() {
                return Err(self.lua.errors.signal.thrown());
            }
            self.finish_yield()
        }
    }

    /// Lets whoever has switched to this native stack, which runs here, go on with `outcome`. Returns when it
    /// is switched to again.
    unsafe fn switch_away(&mut self, native_stack: *mut NativeStack, outcome: Flow) {
        // SAFETY: the callers': it is the one that runs here, and lives.
        unsafe {
            (*native_stack).hand_off = Some(outcome);
            let machine = self.lua.machine.running;
            let vm: *mut Vm = self;
            spill_registers(vm, |vm, here| {
                (*native_stack).scan_from = (*vm).lua.stacks.running.scan_from;
                (*native_stack).suspended_at =
                    if (*native_stack).scan_from != 0 { (*native_stack).scan_from } else { here };
                (*native_stack).told.leave();
                (*(*native_stack).yielder).suspend(());
                (*native_stack).suspended_at = 0;
            });
            self.set_machine_running(machine);
        }
    }

    /// A fiber has parked: lets the native stack below go on with that. Returns when the native stack that
    /// runs here is resumed.
    pub(crate) unsafe fn suspend_parked(&mut self) {
        // SAFETY: called on the native stack of a coroutine.
        unsafe {
            self.switch_away((*self.lua.stacks.running.current).native_stack, Ok(Step::Park));
        }
    }

    /// Does a native call of `th` wait on a native stack?
    pub(crate) unsafe fn is_on_suspended_native_stack(&self, th: *mut Thread) -> bool {
        // SAFETY: a live coroutine.
        unsafe { !(*th).native_stack.is_null() && (*(*th).native_stack).suspended_at != 0 }
    }

    /// Makes everything on the native stack of `th`, which is suspended, return.
    pub(crate) unsafe fn cancel_native_stack(&mut self, th: *mut Thread) {
        // SAFETY: a suspended coroutine; the state is put back as it was.
        unsafe {
            let previous = self.lua.thread;
            let kept = std::mem::replace(&mut self.lua.errors, ErrorState::discarding());
            let c_calls = self.lua.c_calls;
            (*th).resumer = previous;
            self.switch_to(th);
            self.discard_on_native_stack(th);
            self.lua.errors = kept;
            self.lua.c_calls = c_calls;
            (*th).resumer = null_mut();
            (*th).standing.set(Status::Dead);
            self.switch_to(previous);
        }
    }

    /// Lets the native frames on the native stack of `th` return, down to the last: the state says that they
    /// are being discarded.
    pub(crate) unsafe fn discard_on_native_stack(&mut self, th: *mut Thread) {
        // SAFETY: a suspended native stack; its coroutine, or one that it waits for, is the running one.
        unsafe {
            let end = self.resume_native_stack(th);
            assert!(
                matches!(end, Err(Thrown::Discard(_))) && (*th).native_stack.is_null(),
                "native code of a coroutine that is being discarded goes on: {end:?}"
            );
        }
    }

    /// Discards the native stacks of coroutines that the collector found dead.
    pub(crate) fn cancel_dead_native_stacks(&mut self) {
        while let Some(th) = self.lua.gc.cancelled.pop() {
            // SAFETY: the collector kept these coroutines for one more cycle.
            unsafe {
                if self.is_on_suspended_native_stack(th) {
                    self.cancel_native_stack(th);
                }
            }
        }
    }

    /// Raises "C stack overflow" if one more nested call is too many.
    #[inline]
    pub(crate) fn too_deep(&self) -> bool {
        self.lua.c_calls == MAX_C_CALLS
            || self.lua.c_calls >= MAX_C_CALLS + HANDLER_C_CALLS
            || self.native_stack_low()
    }
}

/// From where to where the native stack of a suspended coroutine is in use, if it has one.
///
/// # Safety
/// A live coroutine.
pub(crate) unsafe fn suspended_words(th: *mut Thread) -> Option<(usize, usize)> {
    // SAFETY: the caller's promise; the coroutine owns its native stack.
    unsafe {
        let native_stack = (*th).native_stack.as_ref()?;
        (native_stack.suspended_at != 0)
            .then(|| (native_stack.suspended_at, native_stack.low + NATIVE_STACK_SIZE))
    }
}
