//! The host: who else may run a domain while its code blocks, and the hand-over of a state between OS
//! threads.
//!
//! A [`Vm`] is owned by one OS thread at a time; who that is, is the host's affair ([`Host`]). What is here
//! is the other half: what has to be put aside when an owner leaves in the middle of something, and what a
//! new owner needs.
//!
//! # Terms
//! * An owner *enters* ([`Vm::enter_thread`]) to run fibers: it gets a *base coroutine*, on whose stack it
//!   finds results, and the `Vm` learns where the native stack ends. It *leaves* when no fiber of it is in
//!   the middle of anything.
//! * Code that may sleep in the kernel *detaches* ([`Vm::blocking`]): what the `Vm` knows of the running code
//!   is put in a record ([`Detached`]) on the blocked thread's own native stack, other threads may enter, and
//!   the record is loaded again when the call is over. The root chain detaches too when it waits.
//! * While nobody is in, the `Vm` *rests*: on the main coroutine if the root chain is not put aside, else on
//!   a coroutine that stands for nobody.
//!
//! # What the collector sees
//! Collections go on while records exist. Of each one: the chain of coroutines from the one that ran down to
//! its base, precisely, and the thread's native stack from where it detached, with spilled registers, as well
//! as those native stacks that wait for it, conservatively.
//!
//! # Thread-locals
//! A native that calls Lua may go on in another OS thread than the one it began in. So natives keep no
//! reference to a thread-local across such a call, and functions that use one are not inlined, so that its
//! address is not kept.
//!
//! Rejected: one native stack per domain, on which its code always runs (a blocked fiber would block its
//! neighbours); giving the host the state in pieces to keep.

mod descriptors;

pub use descriptors::{Aside, Descriptors, Direction, Doing, Subject, Watch, Watchable, Work};

use crate::Vm;
use crate::edge::{Root, RootVisitor};
use crate::error::ErrorState;
use crate::native_stack::NATIVE_RESERVE;
use crate::object::{Status, Thread};
use crate::sys::stack::{self, spill_registers};
use crate::value::{Gc, Value};
use perilune_trace::event::Parking;
use perilune_trace::fibers::Line;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

/// What the runtime around a `Vm` does for it. Methods are called by the thread that owns the `Vm`, except
/// where they say otherwise.
pub trait Host: std::any::Any + Send + Sync {
    /// May anybody else want this domain while the running code blocks? Called before each call that may
    /// sleep, so it should cost no more than a load.
    fn is_wanted(&self) -> bool;
    /// Gives the domain up. From here on another thread may [`Vm::enter_thread`].
    ///
    /// # Safety
    /// The caller owns the `Vm`, has put the running code aside, and touches neither the `Vm` nor what
    /// belongs to it until [`Host::attach`] has returned.
    unsafe fn detach(&self);
    /// Sleeps until the caller owns the domain again, and nobody else is in.
    ///
    /// # Safety
    /// The calling thread has detached, and goes on where it was with the `Vm`.
    unsafe fn attach(&self);
    /// A native of the root chain has parked: gives the domain up as `detach` does, sleeps until the root
    /// chain's waiter has been woken (or an interrupt is pending), takes the domain again as `attach` does.
    /// The native is called again afterwards, and may park again: waking too often does no harm.
    ///
    /// # Safety
    /// As of [`Host::detach`], for the time of the call.
    unsafe fn wait_root(&self);
    /// The wait of the fiber with this tag ([`Vm::fiber_tag`]; `None`: of the root chain) is over without its
    /// native being called again. Its waiter must be taken back from whatever it waits for, or ignored when
    /// it is woken.
    fn withdraw(&self, vm: &mut Vm, fiber: Option<u64>);
    /// The cause `CANCEL` of an interrupt has been seen: is the fiber with this tag, which runs (`None`: the
    /// root chain), to be cancelled?
    fn is_cancelled(&self, fiber: Option<u64>) -> bool;
    /// The fiber with this tag (`None`: the root chain) is to be cancelled or interrupted in a wait that it
    /// has begun. True: the wait has ended by that, and is withdrawn next. False: it has ended otherwise, and
    /// what came with that is nowhere else; or it ends by itself soon. The native is called again then, and
    /// the host cancels the fiber afterwards.
    fn gives_up(&self, _vm: &mut Vm, _fiber: Option<u64>) -> bool {
        true
    }
    /// A fiber has seen the cause `USER` of an interrupt. True: the host passes it on to whom it is meant
    /// for, and the fiber goes on.
    fn takes_interrupt(&self) -> bool {
        false
    }
    /// The fiber with this tag (`None`: the root chain) is being cancelled, and a closing method of it has
    /// failed with this error, which nobody gets.
    fn error_is_lost(&self, _fiber: Option<u64>, _error: Value) {}
    /// The process is about to end: the last moment to say what has to be said.
    fn process_ends(&self) {}
    /// A session of events has begun that knows nothing of this domain: writes, for each fiber that waits,
    /// that it does.
    fn report_waits(&self, _vm: &mut Vm) {}
    /// Others of the program may have asked something: answers, without a collection.
    fn answer_questions(&self, _vm: &mut Vm) {}
    /// The domain's fibers, for a tool that lists them.
    fn list_fibers(&self, _vm: &mut Vm) -> Vec<Line> {
        Vec::new()
    }
    /// What lets natives wait for descriptors.
    fn descriptors(&self) -> Option<&'static dyn Descriptors> {
        None
    }
    /// For events: how many fibers there are.
    fn live_fibers(&self) -> usize {
        0
    }
}

/// See [`Vm::blocker`].
#[derive(Clone, Copy)]
pub struct Blocker(*mut Vm);

// SAFETY: it is used by the thread that owns the Vm only; whoever made it has promised that.
unsafe impl Send for Blocker {}
// SAFETY: as above.
unsafe impl Sync for Blocker {}

impl Blocker {
    /// As [`Vm::blocking`].
    pub fn blocking<R>(self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the promise of `Vm::blocker`.
        unsafe { (*self.0).blocking(f) }
    }

    /// As [`Vm::detaches`].
    pub fn detaches(self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.0).detaches() }
    }

    /// As [`Vm::interrupt_pending`].
    pub fn is_interrupted(self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.0).interrupt_pending() }
    }
}

/// What the `Vm` knew of the running code when it detached.
pub(crate) struct Detached {
    thread: *mut Thread,
    base_thread: *mut Thread,
    fiber: *mut Thread,
    c_calls: u32,
    errors: ErrorState,
    stacks: crate::native_stack::Running,
    /// From where the blocked native stack is scanned.
    low: usize,
}

/// Who is in, who waits outside.
pub(crate) struct Owners {
    /// Records of those that have detached; each lies on its thread's native stack.
    aside: Vec<*mut Detached>,
    /// Base coroutines that nobody uses.
    bases: Vec<*mut Thread>,
    /// The coroutine that stands for nobody; null until there is a host or somebody enters.
    idle: *mut Thread,
    /// The root chain is in `aside`: the coroutine that ran.
    root: *mut Thread,
    /// The native stack of the thread that made the `Vm`.
    pub home: (usize, usize),
}

impl Owners {
    /// Tells of what detached code holds: coroutines, values, ranges of native stacks.
    pub fn visit_aside(&self, v: &mut impl RootVisitor) {
        fn thread(v: &mut impl RootVisitor, th: *mut Thread) {
            if !th.is_null() {
                // SAFETY: coroutines in these lists are live.
                v.busy(Root::Aside, unsafe { Gc::from_ptr(th) });
            }
        }
        for &base in &self.bases {
            thread(v, base);
        }
        thread(v, self.idle);
        for &record in &self.aside {
            // SAFETY: the record lies on the native stack of a thread that waits; its coroutines are kept
            // alive by this.
            unsafe {
                let mut th = (*record).thread;
                while !th.is_null() {
                    thread(v, th);
                    th = (*th).resumer;
                }
                thread(v, (*record).base_thread);
                thread(v, (*record).fiber);
                v.root_value(Root::AsideError, (*record).errors.value);
                v.words((*record).low, (*record).stacks.end);
                for &(low, end) in &(*record).stacks.chain {
                    v.words(low, end);
                }
            }
        }
    }

    /// The code that is in no fiber is in the middle of something and put aside.
    pub(crate) fn has_root_aside(&self) -> bool {
        !self.root.is_null()
    }
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { aside: Vec::new(), bases: Vec::new(), idle: null_mut(), root: null_mut(), home: (0, 0) }
    }
}

thread_local! {
    /// This thread's native stack; asking the system costs microseconds.
    static NATIVE_STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The running thread's native stack: lowest address (as far as it may grow) and end.
// Not inlined: what calls it may go on in another thread.
#[inline(never)]
pub(crate) fn native_stack() -> (usize, usize) {
    let known = NATIVE_STACK.get();
    if known.1 != 0 {
        return known;
    }
    let found = stack::bounds();
    NATIVE_STACK.set(found);
    found
}

impl Vm {
    /// Sets the host. Without one, nothing detaches and the root chain cannot wait.
    pub fn set_host(&mut self, host: Arc<dyn Host>) {
        let any: &dyn std::any::Any = &*host;
        self.lua.hosting.host_type = Some(any.type_id());
        self.lua.hosting.host = Some(host);
        self.make_idle();
    }

    /// Keeps something for whoever made the state: what it is part of.
    pub fn set_embedder(&mut self, embedder: Arc<dyn std::any::Any + Send + Sync>) {
        self.lua.hosting.embedder = Some(embedder);
    }

    /// What [`Vm::set_embedder`] has been given.
    pub fn embedder(&self) -> Option<&Arc<dyn std::any::Any + Send + Sync>> {
        self.lua.hosting.embedder.as_ref()
    }

    /// To be called at each way out of the process, when no code of the program's runs any more.
    pub fn process_ends(&mut self) {
        if let Some(host) = self.lua.hosting.host.clone() {
            host.process_ends();
        }
    }

    /// The host, if it is of this type.
    #[inline]
    pub fn host_as<T: Host>(&self) -> Option<&T> {
        let host = self.lua.hosting.host.as_ref()?;
        if self.lua.hosting.host_type != Some(std::any::TypeId::of::<T>()) {
            return None;
        }
        // SAFETY: the host is of this type, and the state keeps it.
        Some(unsafe { &*Arc::as_ptr(host).cast::<T>() })
    }

    /// The host, if there is one.
    #[inline]
    pub fn host(&self) -> Option<&Arc<dyn Host>> {
        self.lua.hosting.host.as_ref()
    }

    /// Makes the coroutine that stands for nobody, and a base one to begin with.
    fn make_idle(&mut self) {
        if self.lua.hosting.owners.idle.is_null() {
            self.lua.hosting.owners.idle = self.new_base();
            let base = self.new_base();
            self.lua.hosting.owners.bases.push(base);
        }
    }

    fn new_base(&mut self) -> *mut Thread {
        let th = self.alloc_thread_always(crate::call::INITIAL_STACK);
        // SAFETY: freshly made.
        unsafe {
            // Nothing in a base coroutine can be suspended: native frames that belong to nobody else lie
            // below.
            (*th).no_yield = 1;
            (*th).standing.set(Status::Normal);
            *crate::frame::frame((*th).base) = crate::frame::Frame::native(0, 0);
        }
        th
    }

    // -- Entering and leaving -------------------------------------------------------------------------------

    /// The calling thread, which has just become the owner, is going to run fibers. Nobody is in: the last
    /// owner has left or detached, or the `Vm` is new, or its main coroutine is between two calls from the
    /// host.
    pub fn enter_thread(&mut self) {
        self.make_idle();
        assert!(
            self.lua.fibers.current.is_null() && self.lua.stacks.running.chain.is_empty(),
            "somebody is in"
        );
        let base = self.lua.hosting.owners.bases.pop().unwrap_or_else(|| self.new_base());
        let (low, end) = native_stack();
        // SAFETY: a base coroutine; the one that the Vm rested on keeps its registers.
        unsafe {
            self.switch_to(base);
            (*base).standing.set(Status::Running);
        }
        self.lua.roots.base_thread = base;
        self.lua.c_calls = 0;
        self.lua.stacks.running.set_bounds(low, end);
        self.report_enter();
    }

    /// The calling thread has no fiber in the middle of anything, and gives up what [`Vm::enter_thread`] gave
    /// it. What lies on the base coroutine's stack is gone.
    pub fn leave_thread(&mut self) {
        let base = self.lua.roots.base_thread;
        assert!(base != self.lua.roots.main_thread, "nobody has entered");
        assert!(
            self.lua.thread == base,
            "a coroutine is left running: {:?}, current {:?}",
            self.lua.thread,
            self.lua.fibers.current
        );
        self.report_leave(false);
        // SAFETY: the base coroutine of this thread.
        unsafe {
            self.lua.base = (*base).stack.add(crate::frame::CALL_GAP);
            self.lua.top = self.lua.base;
            self.rest();
            (*base).standing.set(Status::Normal);
        }
        self.lua.hosting.owners.bases.push(base);
    }

    /// Nobody is in any more.
    unsafe fn rest(&mut self) {
        // SAFETY: the coroutine that ran keeps its registers; the one rested on exists.
        unsafe {
            self.lua.fibers.current = null_mut();
            self.lua.errors = ErrorState::NONE;
            self.lua.c_calls = 0;
            let (low, end) = self.lua.hosting.owners.home;
            if self.lua.hosting.owners.root.is_null() {
                self.switch_to(self.lua.roots.main_thread);
                (*self.lua.roots.main_thread).standing.set(Status::Running);
                self.lua.roots.base_thread = self.lua.roots.main_thread;
                self.lua.stacks.running.set_bounds(low, end);
            } else {
                self.switch_to(self.lua.hosting.owners.idle);
                self.lua.roots.base_thread = self.lua.hosting.owners.idle;
                self.lua.stacks.running.set_bounds(usize::MAX - NATIVE_RESERVE, usize::MAX);
            }
        }
    }

    // -- Detaching ------------------------------------------------------------------------------------------

    /// Calls `f`, which may sleep in the kernel. If somebody else may want the domain, it is given up for the
    /// time: `f` must not touch it, nor anything that belongs to it. References into the heap that the caller
    /// holds on the native stack stay valid; what else natives may see has to be protected by the caller (a
    /// file in use, say).
    #[inline]
    pub fn blocking<R>(&mut self, f: impl FnOnce() -> R) -> R {
        if perilune_trace::on(perilune_trace::Category::Block) {
            return self.report_blocking(|vm| vm.blocking_silently(f));
        }
        self.blocking_silently(f)
    }

    fn blocking_silently<R>(&mut self, f: impl FnOnce() -> R) -> R {
        match &self.lua.hosting.host {
            Some(host) if self.detaches() => {
                let host = host.clone();
                self.put_aside(Parking::Detached, || {
                    // SAFETY: this thread owns the Vm, whose state is put aside; `put_aside` touches it again
                    // when this has returned.
                    unsafe { host.detach() };
                    let result = f();
                    // SAFETY: detached above.
                    unsafe { host.attach() };
                    result
                })
            }
            _ => f(),
        }
    }

    /// Would [`Vm::blocking`] give the domain up now?
    #[inline]
    pub fn detaches(&self) -> bool {
        // Whoever has detached wants it back.
        self.lua
            .hosting
            .host
            .as_ref()
            .is_some_and(|host| !self.lua.hosting.owners.aside.is_empty() || host.is_wanted())
    }

    /// A way to call [`Vm::blocking`] for code that has no `Vm` at hand.
    ///
    /// # Safety
    /// The blocker is used within the native that makes it only, by the thread that runs this native.
    #[inline]
    pub unsafe fn blocker(&self) -> Blocker {
        Blocker(self as *const Vm as *mut Vm)
    }

    /// Calls `f` with the running code put aside.
    #[inline(never)]
    pub(crate) fn put_aside<R>(&mut self, why: Parking, f: impl FnOnce() -> R) -> R {
        let vm: *mut Vm = self;
        spill_registers(vm, |vm, here| {
            // SAFETY: this thread owns the Vm until `f` gives it up, and after `f` has taken it again.
            unsafe {
                (*vm).report_park(why);
                (*vm).report_leave(true);
                let mut aside = (*vm).take_state(here);
                let record: *mut Detached = &raw mut aside;
                (*vm).lua.hosting.owners.aside.push(record);
                (*vm).rest();
                let result = f();
                (*vm).lua.hosting.owners.aside.retain(|&r| r != record);
                (*vm).load_state(&mut *record);
                (*vm).report_enter();
                (*vm).report_run();
                result
            }
        })
    }

    unsafe fn take_state(&mut self, low: usize) -> Detached {
        let th = self.lua.thread;
        // SAFETY: the running coroutine.
        unsafe {
            (*th).standing.set(Status::Normal);
            if self.lua.roots.base_thread == self.lua.roots.main_thread && self.lua.fibers.current.is_null() {
                self.lua.hosting.owners.root = th;
            }
        }
        Detached {
            thread: th,
            base_thread: self.lua.roots.base_thread,
            fiber: self.lua.fibers.current,
            c_calls: self.lua.c_calls,
            errors: self.lua.errors.set_aside(),
            stacks: std::mem::take(&mut self.lua.stacks.running),
            low,
        }
    }

    unsafe fn load_state(&mut self, aside: &mut Detached) {
        // SAFETY: the coroutine that ran when the state was taken; its registers are in it.
        unsafe {
            self.switch_to(aside.thread);
            (*aside.thread).standing.set(Status::Running);
            if self.lua.hosting.owners.root == aside.thread {
                self.lua.hosting.owners.root = null_mut();
            }
            self.lua.roots.base_thread = aside.base_thread;
            self.lua.fibers.current = aside.fiber;
            self.lua.c_calls = aside.c_calls;
            self.lua.errors = aside.errors.set_aside();
            self.lua.stacks.running = std::mem::take(&mut aside.stacks);
        }
        // A hint that came meanwhile was seen by others.
        if self.cancellation_due() {
            self.lua.interrupt.fetch_or(crate::interrupt::CANCEL, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The coroutine of the root chain that runs or waits.
    pub(crate) fn root_chain_top(&self) -> *mut Thread {
        if !self.lua.hosting.owners.root.is_null() {
            self.lua.hosting.owners.root
        } else if self.lua.roots.base_thread == self.lua.roots.main_thread
            && self.lua.fibers.current.is_null()
        {
            self.lua.thread
        } else {
            self.lua.roots.main_thread
        }
    }

    /// Whether the code that is in no fiber is in the middle of something and put aside: it waits, or is in a
    /// call that blocks.
    pub fn is_root_detached(&self) -> bool {
        self.lua.hosting.owners.has_root_aside()
    }

    /// Whether code of this state has detached on some thread.
    pub fn has_detached(&self) -> bool {
        !self.lua.hosting.owners.aside.is_empty()
    }

    /// The base coroutine of the thread that is in: on its stack [`Vm::run_fiber`] leaves results.
    pub fn base_coroutine(&self) -> Gc<Thread> {
        // SAFETY: there is always one.
        unsafe { Gc::from_ptr(self.lua.roots.base_thread) }
    }
}
