//! Fibers: coroutines that the host runs, and that wait without holding a thread.
//!
//! A *fiber* is a coroutine that Rust code (a *pump*) runs with [`Vm::run_fiber`], together with the chain of
//! coroutines that it has resumed itself. Its *root* is the first coroutine of the chain. Whoever is not in a
//! fiber is in the *root chain*: the code that the host called on its own thread.
//!
//! # Parking
//! A native that has to wait tells whoever will wake it, pushes nothing, and returns `Err(vm.park())`, which
//! is [`Thrown::Park`]: the native's frame stays on top of its stack, and the whole chain of coroutines is
//! put aside, from the running one down to the root. [`Vm::run_fiber`] returns [`FiberStep::Parked`]. Its
//! next call puts the chain back and *calls the native again*, with the same arguments. The native finds that
//! what it waited for is there and finishes, or parks again. So each native that can be interrupted like this
//! may wait, and none is split in two.
//!
//! ```text
//! pump's stack:      run_fiber: execute ... F resumes T, inline ... T calls sort --> resume_native_stack -+          +-> resume_native_stack(T) ...
//! T's native stack:                                          sort -> execute -> comparator -> recv parks +  parked  + recv is called again
//! ```
//! Native stacks of the chain are suspended from the inside out: each hands [`Step::Park`] to the `execute`
//! below, which suspends its own native stack, until the pump's native stack is reached. To go on, each is
//! resumed by the one below (`Vm::pass_park`).
//!
//! A parked chain keeps its links (`resumer`), and all its coroutines have the status "normal": nobody can
//! resume or close them.
//!
//! In the root chain nothing is put aside: the host makes the thread sleep (`host.rs`), then the native is
//! called again.
//!
//! Where native frames that belong to no native stack are in the way, there is no waiting: in finalisers,
//! hooks, message handlers. Those are the calls that count in `no_yield`, so the chain is looked through for
//! it.
//!
//! # Cancellation
//! A cancellation is on its way as [`Thrown::Cancel`]: `pcall`, `xpcall`, `coroutine.resume` and natives that
//! catch errors let it pass, to-be-closed variables are closed. Their methods run as usual, may call `pcall`,
//! may wait. A cancellation that would hit a finaliser, hook or message handler waits until it is over. What
//! an operation has brought is not taken from the code that is about to use it: see `fiber/cancel.rs`.
//!
//! # What the collector sees
//! Live fibers form a list, linked through their states; the collector marks the head, and tracing a fiber
//! marks the next one. A fiber that has not run since the last collection is not looked at. Ended fibers
//! whose coroutine nobody can have got hold of wait in a second such list to be used again.
//!
//! # Files
//! Here: life and runs of a fiber. `fiber/park.rs`: waiting; `fiber/cancel.rs`: cancellation;
//! `fiber/look.rs`: tracebacks and positions; `host.rs`: the root chain's waits, and threads.
//!
//! Rejected: waking a fiber by passing values in place of calling the native again (each native would need a
//! second half for what comes after); a vector of live fibers as root (200,000 marks at each minor
//! collection, or an order that removing has to keep).

mod cancel;
mod look;
mod park;

use crate::Vm;
use crate::call::{NATIVE_STACK, STACK_EXTRA};
use crate::edge::{Edge, EdgeVisitor};
use crate::error::ErrorState;
use crate::frame::{CALL_GAP, Frame, frame};
use crate::interp::{Exit, Flow, Step, copy, execute_with, proceed};
use crate::native::{LuaResult, Signal, Thrown};
use crate::object::{Status, Thread};
use crate::value::{Gc, Value};
use perilune_trace::event::Parking;
use std::any::Any;
use std::ptr::null_mut;

/// Ended fibers kept for the next ones.
const MOST_SPARE: usize = 1024;
/// Of these, those that a full collection leaves.
const SPARE_AFTER_FULL: usize = 16;

/// What a fiber does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    New,
    Running,
    Parked,
    Ended,
}

/// Whether a fiber is to be cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cancel {
    No,
    Requested,
    /// The error has been raised; it is not raised twice.
    Raised,
}

/// What a fiber has beyond its root coroutine; owned by that, in a box.
pub(crate) struct FiberState {
    phase: Phase,
    cancel: Cancel,
    tag: u64,
    data: Option<Box<dyn Any + Send>>,
    /// Neighbours in the list of live fibers; `next` alone in that of spare ones.
    prev: *mut Thread,
    next: *mut Thread,
    /// While parked: the coroutine that ran.
    top: *mut Thread,
    /// While parked: the coroutine whose native stack the pump's native stack resumes; null: none.
    inner: *mut Thread,
    /// While it runs: `NativeStacks::scan_from` of the pump's `execute`.
    entry: usize,
    /// While parked: what the `Vm` had.
    c_calls: u32,
    errors: ErrorState,
    /// How it ended.
    end: Option<FiberEnd>,
    /// Taken where an error was raised that nothing will catch.
    traceback: Vec<u8>,
}

/// The fibers of a `Vm`.
pub(crate) struct Fibers {
    /// Live fibers.
    head: *mut Thread,
    /// Ended ones to be used again.
    spare: *mut Thread,
    spare_count: usize,
    /// Root of the fiber that runs; null: the root chain does, or nothing.
    pub current: *mut Thread,
    live: usize,
    /// So many calls and loop iterations of the running fiber a cancellation that is due waits for
    /// (`fiber/cancel.rs`).
    grace: u32,
    /// They have been granted since the fiber was run, and a cancellation is due: they are not granted again.
    grace_is_used: bool,
}

impl Fibers {
    /// What a collection starts from.
    pub fn roots(&self) -> [*mut Thread; 3] {
        [self.head, self.spare, self.current]
    }
}

impl Default for Fibers {
    fn default() -> Fibers {
        Fibers {
            head: null_mut(),
            spare: null_mut(),
            spare_count: 0,
            current: null_mut(),
            live: 0,
            grace: 0,
            grace_is_used: false,
        }
    }
}

/// What [`Vm::run_fiber`] came to.
#[derive(Debug)]
pub enum FiberStep {
    /// It waits. Run it again when its waiter has been woken.
    Parked,
    /// It is over; the handle of the fiber means nothing any more.
    Done(FiberEnd),
}

/// How a fiber ended.
#[derive(Debug)]
pub enum FiberEnd {
    /// Its function returned. The results are the topmost values of the stack, that many; the caller pops
    /// them ([`Vm::truncate`]).
    Returned(u32),
    /// An error left it. The error's value is the topmost value of the stack; the caller pops it. The
    /// traceback was taken where the error was raised.
    Failed {
        /// As `debug.traceback` writes it.
        traceback: Vec<u8>,
    },
    /// It was cancelled, and has unwound.
    Cancelled,
}

impl Vm {
    // -- Life -----------------------------------------------------------------------------------------------

    /// A new fiber that will call `f` with `args`. It is kept alive until it ends or is dropped
    /// ([`Vm::drop_fiber`]).
    ///
    /// # Errors
    /// Out of memory.
    pub fn new_fiber(&mut self, f: Value, args: &[Value]) -> LuaResult<Gc<Thread>> {
        let th = self.lua.fibers.spare;
        let th = if th.is_null() { self.make_fiber()? } else { th };
        // SAFETY: a fiber of the spare list or a new one: no frames, nobody else knows it.
        unsafe {
            let state = (*th).fiber;
            if th == self.lua.fibers.spare {
                self.lua.fibers.spare = (*state).next;
                self.lua.fibers.spare_count -= 1;
                (*state).next = null_mut();
                self.heap.barrier(Gc::from_ptr(th).obj());
            }
            let need = CALL_GAP + args.len() + NATIVE_STACK + STACK_EXTRA;
            if need > (*th).stack_size
                && let Err(e) = self.resize_stack(th, need * 2)
            {
                self.spare_fiber(th);
                return Err(e);
            }
            let base = (*th).stack.add(CALL_GAP);
            *base.sub(CALL_GAP) = f;
            *frame(base) = Frame::native(-1, 0);
            for (n, v) in args.iter().enumerate() {
                copy(base.add(n), v);
            }
            (*th).base = base;
            (*th).top = base.add(args.len());
            let head = self.lua.fibers.head;
            (*state).next = head;
            if !head.is_null() {
                (*(*head).fiber).prev = th;
            }
            self.lua.fibers.head = th;
            self.lua.fibers.live += 1;
            Ok(Gc::from_ptr(th))
        }
    }

    fn make_fiber(&mut self) -> LuaResult<*mut Thread> {
        let th = self.alloc_thread(crate::call::INITIAL_STACK)?;
        let state = Box::new(FiberState {
            phase: Phase::New,
            cancel: Cancel::No,
            tag: 0,
            data: None,
            prev: null_mut(),
            next: null_mut(),
            top: null_mut(),
            inner: null_mut(),
            entry: 0,
            c_calls: 0,
            errors: ErrorState::NONE,
            end: None,
            traceback: Vec::new(),
        });
        // SAFETY: freshly allocated.
        unsafe { (*th).fiber = Box::into_raw(state) };
        Ok(th)
    }

    /// Puts a fiber without frames in the spare list.
    unsafe fn spare_fiber(&mut self, th: *mut Thread) {
        // SAFETY: the caller's promise.
        unsafe {
            let state = (*th).fiber;
            (*th).standing.set(Status::Suspended);
            (*th).started = false;
            (*th).resumer = null_mut();
            (*th).failure = None;
            (*th).handler_floor = 0;
            (*th).handler_search = (0, 0);
            (*th).no_yield = 0;
            (*th).depth = 0;
            (*th).pcalls = 0;
            (*state).phase = Phase::New;
            (*state).cancel = Cancel::No;
            (*state).tag = 0;
            (*state).prev = null_mut();
            (*state).next = self.lua.fibers.spare;
            self.heap.barrier(Gc::from_ptr(th).obj());
            self.lua.fibers.spare = th;
            self.lua.fibers.spare_count += 1;
        }
    }

    /// The fiber has no frames any more: it leaves the list of live ones.
    unsafe fn retire_fiber(&mut self, th: *mut Thread) {
        // SAFETY: a live fiber that does not run.
        unsafe {
            let state = (*th).fiber;
            let (prev, next) = ((*state).prev, (*state).next);
            if prev.is_null() {
                self.lua.fibers.head = next;
            } else {
                (*(*prev).fiber).next = next;
                self.heap.barrier(Gc::from_ptr(prev).obj());
            }
            if !next.is_null() {
                (*(*next).fiber).prev = prev;
            }
            self.lua.fibers.live -= 1;
            (*state).data = None;
            (*state).top = null_mut();
            (*state).inner = null_mut();
            (*state).errors = ErrorState::NONE;
            let reusable = !(*th).escaped
                && (*th).hook_mask == 0
                && (*th).open_upvals.is_null()
                && (*th).tbc == 0
                && (*th).native_stack.is_null()
                && (*th).stack_size <= 4 * crate::call::INITIAL_STACK
                && self.lua.fibers.spare_count < MOST_SPARE;
            if reusable {
                (*th).base = (*th).stack.add(CALL_GAP);
                (*th).top = (*th).base;
                *frame((*th).base) = Frame::native(0, 0);
                // The function that it has run is nobody's any more.
                *(*th).stack = Value::NIL;
                self.spare_fiber(th);
            } else {
                (*th).standing.set(Status::Dead);
                (*th).fiber = null_mut();
                drop(Box::from_raw(state));
            }
        }
    }

    /// Gives up most of the spare fibers.
    pub(crate) fn trim_fibers(&mut self) {
        while self.lua.fibers.spare_count > SPARE_AFTER_FULL {
            let th = self.lua.fibers.spare;
            // SAFETY: a spare fiber; the collector finds it dead.
            unsafe {
                let state = (*th).fiber;
                self.lua.fibers.spare = (*state).next;
                self.lua.fibers.spare_count -= 1;
                (*th).fiber = null_mut();
                drop(Box::from_raw(state));
            }
        }
    }

    /// Number of fibers that have not ended.
    pub fn live_fibers(&self) -> usize {
        self.lua.fibers.live
    }

    // -- The host's data ------------------------------------------------------------------------------------

    /// The state of a live fiber.
    #[inline]
    fn fiber_state(&self, fiber: Gc<Thread>) -> &FiberState {
        assert!(!fiber.fiber.is_null(), "not a live fiber");
        // SAFETY: the box lives as long as the fiber; whoever changes it borrows the `Vm` mutably.
        unsafe { &*fiber.fiber }
    }
    fn fiber_state_mut(&mut self, fiber: Gc<Thread>) -> &mut FiberState {
        assert!(!fiber.fiber.is_null(), "not a live fiber");
        // SAFETY: as above.
        unsafe { &mut *fiber.fiber }
    }

    /// The host's number for a live fiber; 0 until it is set.
    #[inline]
    pub fn fiber_tag(&self, fiber: Gc<Thread>) -> u64 {
        self.fiber_state(fiber).tag
    }
    /// Sets [`Vm::fiber_tag`].
    pub fn set_fiber_tag(&mut self, fiber: Gc<Thread>, tag: u64) {
        self.fiber_state_mut(fiber).tag = tag;
    }
    /// A place for whatever the host keeps with a live fiber; dropped when the fiber ends.
    pub fn fiber_data(&mut self, fiber: Gc<Thread>) -> &mut Option<Box<dyn Any + Send>> {
        &mut self.fiber_state_mut(fiber).data
    }
    /// The fiber that runs; `None` in the root chain.
    #[inline]
    pub fn current_fiber(&self) -> Option<Gc<Thread>> {
        let th = self.lua.fibers.current;
        // SAFETY: live fibers are roots.
        if th.is_null() { None } else { Some(unsafe { Gc::from_ptr(th) }) }
    }
    /// Is the fiber parked (as against new or running)?
    #[inline]
    pub fn is_parked(&self, fiber: Gc<Thread>) -> bool {
        self.fiber_state(fiber).phase == Phase::Parked
    }

    // -- Running --------------------------------------------------------------------------------------------

    /// Runs a new fiber or continues a parked one until it parks or ends. The native that it parked in is
    /// called again.
    ///
    /// For a pump: Rust code that no Lua function has called, in the base coroutine of its thread
    /// ([`Vm::enter_thread`]) or the main one.
    pub fn run_fiber(&mut self, fiber: Gc<Thread>) -> FiberStep {
        let th = fiber.ptr();
        assert!(
            !fiber.fiber.is_null() && self.lua.fibers.current.is_null(),
            "not a fiber, or one is running"
        );
        let state = fiber.fiber;
        if self.heap.scope_owner().is_some() {
            // Whoever opened it is parked, or waits for this fiber.
            self.heap.spoil_scopes();
        }
        // Fibers may be made and ended by the thousand without a safepoint. If memory is short, the next one
        // in a fiber says so.
        if self.heap.gc_due() {
            let _ = self.safepoint();
        }
        // SAFETY: a live fiber that does not run; its state and coroutines are roots' children.
        unsafe {
            let parked = match (*state).phase {
                Phase::New => false,
                Phase::Parked => true,
                p => panic!("run_fiber of a fiber that is {p:?}"),
            };
            if !parked && (*state).cancel != Cancel::No {
                self.forget_fiber(th);
                return FiberStep::Done(FiberEnd::Cancelled);
            }
            let outside = (self.lua.thread, self.lua.c_calls, self.lua.errors.set_aside());
            (*outside.0).standing.set(Status::Normal);
            (*th).resumer = outside.0;
            (*state).phase = Phase::Running;
            self.lua.fibers.current = th;
            self.lua.fibers.grace = 0;
            self.lua.fibers.grace_is_used = false;
            self.drop_stale_hint();
            self.report_run();
            let exit = if parked {
                self.lua.c_calls = (*state).c_calls;
                self.lua.errors = (*state).errors.set_aside();
                // The link is one while the fiber is parked only: its coroutines may end.
                let top = std::mem::replace(&mut (*state).top, null_mut());
                self.switch_to(top);
                (*top).standing.set(Status::Running);
                execute_with(self, |vm| vm.continue_fiber())
            } else {
                self.lua.c_calls = 0;
                (*th).standing.set(Status::Running);
                (*th).started = true;
                self.switch_to(th);
                execute_with(self, |vm| vm.start_fiber())
            };
            if perilune_trace::is_live() {
                self.report_park(parking(exit, &*state));
                self.abandon_samples();
            }
            self.lua.fibers.current = null_mut();
            if exit == Exit::Error {
                // Its end could not be delivered: memory is short, or an interrupt hit the call of its
                // function, before there was a frame.
                let failed = self.lua.errors;
                if self.lua.thread != outside.0 {
                    self.switch_to(outside.0);
                }
                (*state).phase = Phase::Ended;
                (*state).end = Some(if failed.signal == Signal::Cancel {
                    FiberEnd::Cancelled
                } else {
                    self.push(failed.value);
                    FiberEnd::Failed { traceback: std::mem::take(&mut (*state).traceback) }
                });
            }
            debug_assert!(self.lua.thread == outside.0);
            (_, self.lua.c_calls, self.lua.errors) = outside;
            if (*state).phase == Phase::Parked {
                return FiberStep::Parked;
            }
            let end = (*state).end.take().unwrap_or(FiberEnd::Cancelled);
            self.retire_fiber(th);
            FiberStep::Done(end)
        }
    }

    /// The first step of a fiber: calls its function.
    unsafe fn start_fiber(&mut self) -> Exit {
        // SAFETY: the fiber is the running coroutine; its function lies below its arguments.
        unsafe {
            (*(*self.lua.fibers.current).fiber).entry = self.lua.stacks.running.scan_from;
            let flow = self.start_body();
            proceed(self, flow)
        }
    }

    /// The first step of a parked fiber that goes on.
    unsafe fn continue_fiber(&mut self) -> Exit {
        // SAFETY: the coroutine that parked is the running one.
        unsafe {
            let state = (*self.lua.fibers.current).fiber;
            (*state).entry = self.lua.stacks.running.scan_from;
            let inner = std::mem::replace(&mut (*state).inner, null_mut());
            let flow = if inner.is_null() {
                match self.woken() {
                    Ok(()) => self.call_again(),
                    Err(e) => Err(e),
                }
            } else {
                self.resume_native_stack(inner)
            };
            proceed(self, flow)
        }
    }

    /// The function of the running fiber has returned `n` values.
    pub(crate) unsafe fn fiber_finished(&mut self, first: *mut Value, n: usize) -> Flow {
        // SAFETY: the running coroutine is the fiber's root; its resumer is the pump's base coroutine.
        unsafe {
            let th = self.lua.thread;
            let state = (*th).fiber;
            (*th).standing.set(Status::Dead);
            (*state).phase = Phase::Ended;
            self.leave_fiber(th);
            if (*state).cancel == Cancel::Requested {
                // Native code has caught the cancellation, and nothing came after it.
                return Ok(Step::Return);
            }
            let to = self.reserve(self.lua.top, n + 2)?;
            for j in 0..n {
                copy(to.add(j), first.add(j));
            }
            self.lua.top = to.add(n);
            (*state).end = Some(FiberEnd::Returned(n as u32));
            Ok(Step::Return)
        }
    }

    /// An error has left the function of the running fiber.
    pub(crate) unsafe fn fiber_failed(&mut self) -> Flow {
        // SAFETY: as `fiber_finished`.
        unsafe {
            let th = self.lua.thread;
            let state = (*th).fiber;
            let failed = self.lua.errors.set_aside();
            let closed = self.close_fiber(th, failed);
            if let Err(discard @ Thrown::Discard(_)) = closed {
                return Err(discard);
            }
            self.lua.errors = ErrorState::NONE;
            (*th).standing.set(Status::Dead);
            (*state).phase = Phase::Ended;
            self.leave_fiber(th);
            let error = match closed {
                Ok(error) if failed.signal == Signal::None => error,
                // A cancellation has hit the fiber, or what it closed at its end.
                _ => {
                    (*state).end = Some(FiberEnd::Cancelled);
                    return Ok(Step::Return);
                }
            };
            let to = self.reserve(self.lua.top, 2)?;
            *to = error;
            self.lua.top = to.add(1);
            let traceback = std::mem::take(&mut (*state).traceback);
            (*state).end = Some(FiberEnd::Failed { traceback });
            Ok(Step::Return)
        }
    }

    /// Closes what an error leaves open in the root of a fiber; the error in the end.
    unsafe fn close_fiber(&mut self, th: *mut Thread, failed: ErrorState) -> LuaResult<Value> {
        // SAFETY: the running coroutine; no frame of it will run again.
        unsafe {
            (*th).pcalls = 0;
            let bottom = (*th).stack;
            self.lua.base = bottom.add(CALL_GAP);
            *frame(self.lua.base) = Frame::native(0, 0);
            self.lua.no_yield += 1;
            (*th).closing = true;
            let closed = self.close_with(bottom, Some(failed.value), failed.signal);
            (*th).closing = false;
            self.lua.no_yield -= 1;
            self.lua.base = (*th).stack.add(CALL_GAP);
            self.lua.top = self.lua.base;
            Ok(closed?.unwrap_or(Value::NIL))
        }
    }

    /// The pump's base coroutine becomes the running one.
    unsafe fn leave_fiber(&mut self, root: *mut Thread) {
        // SAFETY: the fiber's root knows it.
        unsafe {
            let pump = std::mem::replace(&mut (*root).resumer, null_mut());
            self.switch_to(pump);
            (*pump).standing.set(Status::Running);
        }
    }
}

/// Why a run of a fiber is over.
fn parking(exit: Exit, state: &FiberState) -> Parking {
    match (&state.end, state.phase) {
        (_, Phase::Parked) => Parking::Waits,
        (Some(FiberEnd::Returned(_)), _) => Parking::Returned,
        (Some(FiberEnd::Failed { .. }), _) => Parking::Failed,
        (None, _) if exit == Exit::Error => Parking::Failed,
        _ => Parking::Cancelled,
    }
}

/// Tells of what the root of a fiber refers to besides what all coroutines do.
///
/// # Safety
/// `th` is a live coroutine.
pub(crate) unsafe fn visit_fiber(th: *mut Thread, v: &mut impl EdgeVisitor) {
    // SAFETY: the state belongs to the coroutine.
    unsafe {
        if (*th).fiber.is_null() {
            return;
        }
        let FiberState {
            phase: _,
            cancel: _,
            tag: _,
            data: _,
            // Refers back.
            prev: _,
            next,
            top,
            // Between the top and the root.
            inner: _,
            entry: _,
            c_calls: _,
            errors,
            end: _,
            traceback: _,
        } = &*(*th).fiber;
        v.pointer(Edge::NextFiber, *next);
        v.pointer(Edge::FiberTop, *top);
        v.value(Edge::FiberError, errors.value);
    }
}

/// The coroutines of parked fibers that have no native stack, each chain whole: they are what their threads
/// say, and nothing of them is anywhere else.
pub(crate) fn parked_without_native_stacks(vm: &Vm) -> Vec<*mut Thread> {
    let mut all = Vec::new();
    for fiber in live_fibers_of(vm) {
        // SAFETY: a live fiber, and while it is parked the chain from its top to its root.
        unsafe {
            let state = fiber.fiber;
            if (*state).phase != Phase::Parked || !(*state).inner.is_null() {
                continue;
            }
            let mut th = (*state).top;
            while th != fiber.ptr() {
                all.push(th);
                th = (*th).resumer;
            }
            all.push(th);
        }
    }
    all
}

/// Live fibers, for whoever looks at everything.
pub(crate) fn live_fibers_of(vm: &Vm) -> Vec<Gc<Thread>> {
    // SAFETY: the list's members are live.
    unsafe { list(vm.lua.fibers.head) }
}

/// Ended fibers that are kept to be used again.
pub(crate) fn spare_fibers_of(vm: &Vm) -> Vec<Gc<Thread>> {
    // SAFETY: as above.
    unsafe { list(vm.lua.fibers.spare) }
}

unsafe fn list(head: *mut Thread) -> Vec<Gc<Thread>> {
    let mut all = Vec::new();
    let mut th = head;
    while !th.is_null() {
        // SAFETY: fibers in a list are live and have states.
        unsafe {
            all.push(Gc::from_ptr(th));
            th = (*(*th).fiber).next;
        }
    }
    all
}

/// The tag of a fiber. `None`: `th` is no fiber's root.
///
/// # Safety
/// `th` is a live coroutine.
pub(crate) unsafe fn tag_of_fiber(th: *mut Thread) -> Option<u64> {
    // SAFETY: the state belongs to the coroutine.
    unsafe { (*th).fiber.as_ref().map(|state| state.tag) }
}
