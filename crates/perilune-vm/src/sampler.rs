//! Samplers: where processor time goes and who allocates, as events (`docs/tracing-design.md`).
//!
//! # A sample
//! Something that may happen at any moment (a tick of the thread's clock, in a signal handler) or deep inside
//! of an operation (an allocation) asks for a look at the running code. It cannot look itself: registers of
//! handlers are not in the frames, stacks move. So it notes what it knows ([`Sampler::note_tick`]) and
//! *springs* the domain's dispatch table: every entry becomes `op_sampled`. Whatever instruction comes next
//! lands there, with all registers at hand ([`Vm::take_samples`]), and goes on as if nothing had been.
//!
//! A domain that is being sampled runs on a table of its own for this, a copy of the plain one. The static
//! table is in use otherwise, so nobody pays who is not sampled. While a hook is set the table of hooks is in
//! use; it asks.
//!
//! # What is noted
//! How much time has passed, and whether it went to Lua, a native, or the collector: `Vm::base` is the base
//! of a native's frame while that runs, and [`Sampler::collecting`] is set while the collector does. The
//! native is noted too: when the sample is taken it has probably returned. What machine code calls without a
//! frame says so by itself (`Machine::quick`). If several ticks come before the
//! next instruction (a native that runs for long) their time adds up.
//!
//! | file | |
//! |---|---|
//! | `clock.rs` | the ticks, and which thread runs which domain |
//! | `paths.rs` | frames to numbers |
//! | `natives.rs` | where natives lie in memory |
//! | `named.rs` | what functions are called where they are defined |
//! | `interp/sampled.rs` | the handler |

mod clock;
mod named;
mod natives;
mod paths;

use crate::Vm;
use crate::frame::{F_CONT, F_NATIVE, F_PCALL, frame};
use crate::interp::{HANDLERS, Handler, Handlers};
use crate::machine::STRETCH;
use crate::native::Kind as NativeKind;
use crate::value::{Tag, Value};
use paths::{Copying, Innermost, Leaf, Paths};
use perilune_heap::Notify;
use perilune_syntax::Op;
use perilune_trace::event::{Activity, CpuSample, Ns, Stack};
use perilune_trace::{emit, event};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Time that went to one of [`Activity`].
#[derive(Default)]
struct Spent {
    ns: AtomicU64,
    /// Where machine code was interrupted, or has called what was; 0: it was not.
    address: AtomicUsize,
    leaf_base: AtomicUsize,
    leaf_native: AtomicUsize,
}

/// What a domain keeps for its samplers. Signal handlers of the thread that runs the domain come in between
/// at any time, hence the atomics.
pub(crate) struct Sampler {
    paths: Paths,
    /// Whom the sampler belongs to; null until a thread has entered.
    vm: AtomicPtr<Vm>,
    /// The domain's own tables: made when it is first sampled, and there as long as the domain, because the
    /// interpreter may hold one in a register.
    tables: AtomicPtr<Tables>,
    /// The domain runs on its own table.
    on: AtomicBool,
    /// `op_sampled` is in the table.
    sprung: AtomicBool,
    /// The collector is at work.
    collecting: AtomicBool,
    /// As [`Activity::ALL`].
    spent: [Spent; Activity::ALL.len()],
    /// For each sample of allocation that has not been taken: which native ran.
    allocations: Vec<Leaf>,
    /// The mean distance of such samples; 0: off.
    interval: u64,
    /// What is being copied.
    copying: Option<Copying>,
}

/// Copies of the tables that the interpreter runs by.
struct Tables {
    plain: Handlers,
    /// That of short stretches between machine code.
    stretch: Handlers,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler {
            paths: Paths::default(),
            vm: AtomicPtr::new(null_mut()),
            tables: AtomicPtr::new(null_mut()),
            on: AtomicBool::new(false),
            sprung: AtomicBool::new(false),
            collecting: AtomicBool::new(false),
            spent: Default::default(),
            allocations: Vec::new(),
            interval: 0,
            copying: None,
        }
    }
}

const RELAXED: Ordering = Ordering::Relaxed;
/// [`crate::machine::ENTER`]
const ENTER: usize = crate::machine::ENTER as usize;

impl Sampler {
    /// A tick of the clock of the thread that runs the domain, which it has interrupted at this address and
    /// stack pointer: this much of its time has passed. False: the domain is not sampled. Async-signal-safe.
    ///
    /// # Safety
    /// The calling thread runs the domain.
    unsafe fn note_tick(&self, ns: u64, (address, stack): (usize, usize)) -> bool {
        if !self.on.load(RELAXED) {
            return false;
        }
        let Some((base, native)) = self.running_native() else { return false };
        let in_machine_code = crate::machine::is_machine_code(address);
        // SAFETY: the thread runs the domain, whose state lives.
        let for_machine_code = || unsafe { (*self.vm.load(RELAXED)).lua.machine.running };
        let quick = if in_machine_code { None } else { self.running_quick() };
        let (activity, native) = match (self.collecting.load(RELAXED), native) {
            (true, _) => (Activity::Collector, quick.unwrap_or(native)),
            // The base may be that of a native that has returned.
            (false, _) if in_machine_code => (Activity::Machine, 0),
            (false, _) if quick.is_some() => (Activity::Native, quick.unwrap_or_default()),
            (false, 0) if for_machine_code() => (Activity::Helper, 0),
            (false, 0) => (Activity::Lua, 0),
            (false, _) => (Activity::Native, native),
        };
        let spent = &self.spent[activity as usize];
        let address = match activity {
            Activity::Machine => address,
            Activity::Helper => match self.called_from(stack) {
                // What is interpreted in between has its own frames.
                Some((_, at)) if (stack..at).contains(&self.stretch()) => 0,
                from => from.map_or(0, |(address, _)| address),
            },
            Activity::Native if quick.is_some() => self.called_from(stack).map_or(0, |(address, _)| address),
            _ => 0,
        };
        spent.address.store(address, RELAXED);
        spent.leaf_base.store(base, RELAXED);
        spent.leaf_native.store(native, RELAXED);
        spent.ns.fetch_add(ns, RELAXED);
        self.spring();
        true
    }

    /// Where a stretch of the interpreter runs for machine code, on the native stack; 0: none does.
    fn stretch(&self) -> usize {
        // SAFETY: the thread runs the domain, whose state lives.
        unsafe { (*self.vm.load(RELAXED)).lua.machine.stretch.load(RELAXED) }
    }

    /// Where machine code has called what it leaves to others, whose frames begin at this stack pointer: the
    /// first word above it that is an address in machine code, and where that lies. `None`: there is none near.
    /// Something older may lie in between, and then it is that.
    fn called_from(&self, stack: usize) -> Option<(usize, usize)> {
        /// So many words are looked at.
        const NEAR: usize = 1024;
        // SAFETY: the thread runs the domain, whose state lives.
        let end = unsafe { (*self.vm.load(RELAXED)).lua.stacks.running.end };
        let words = end.saturating_sub(stack) / size_of::<usize>();
        // At rest, or on another stack than is said to run.
        if stack == 0 || !stack.is_multiple_of(size_of::<usize>()) || end == usize::MAX || words > 1 << 24 {
            return None;
        }
        let place = |n: usize| stack + n * size_of::<usize>();
        // SAFETY: the words of the running native stack, from where it is in use to its end.
        let word = |at: usize| unsafe { perilune_heap::stack_word(at) };
        let mut places = (0..words.min(NEAR)).map(place);
        let at = places.find(|&at| crate::machine::is_machine_code(word(at)))?;
        // What a call returns to may belong to the next instruction.
        Some((word(at) - 1, at))
    }

    /// The heap has sampled an object.
    fn note_allocation(&mut self) {
        let (base, native) = self.running_native().unwrap_or_default();
        self.allocations.push(Leaf { base, native, collector: false });
        self.spring();
    }

    /// The native whose quick form machine code has called, and that runs.
    fn running_quick(&self) -> Option<usize> {
        // SAFETY: the thread runs the domain, whose state lives.
        let quick = unsafe { (*self.vm.load(RELAXED)).lua.machine.quick.load(RELAXED) };
        natives::may_lie_at(quick).then_some(quick)
    }

    /// The native that runs: the base of its frame, and which one it is; zeros if it is Lua code. `None`: it
    /// is the host, between two calls into Lua.
    fn running_native(&self) -> Option<(usize, usize)> {
        // SAFETY: the thread runs the domain, and `Vm::base` is the base of a frame (`clock.rs`).
        unsafe {
            let base = (&raw const (*self.vm.load(RELAXED)).lua.base).read_volatile();
            if base.is_null() {
                return None;
            }
            let f = *frame(base);
            if f.tag0 != Tag::FRAME || f.flags & F_NATIVE == 0 || f.flags & F_PCALL != 0 {
                return Some((0, 0));
            }
            if f.flags & F_CONT == 0 && f.delta == 0 {
                return None;
            }
            let function: Value = *base.sub(crate::frame::CALL_GAP);
            // Results go to where the function lies, word by word: what has the tag of a native may have
            // another value's payload by now.
            if !natives::may_lie_at(function.payload() as usize) {
                return Some((0, 0));
            }
            Some(match function.as_native() {
                // These switch frames and coroutines without storing a base: it may be an old one.
                Some(native) => match native.kind {
                    NativeKind::Pcall
                    | NativeKind::Xpcall
                    | NativeKind::Resume
                    | NativeKind::Wrap
                    | NativeKind::Yield => (0, 0),
                    _ => (base as usize, std::ptr::from_ref(native) as usize),
                },
                None => (0, 0),
            })
        }
    }

    /// Lets the next instruction land in `op_sampled`.
    fn spring(&self) {
        let tables = self.tables.load(RELAXED);
        if tables.is_null() || self.sprung.swap(true, RELAXED) {
            return;
        }
        fill(
            tables,
            |n| match n {
                // Its position is none in the function.
                ENTER => self.plain().0[ENTER],
                _ => crate::interp::sampled::op_sampled,
            },
            |_| crate::interp::sampled::op_sampled_in_stretch,
        );
        // SAFETY: the thread runs the domain.
        unsafe {
            let vm = self.vm.load(RELAXED);
            if !vm.is_null() && (*vm).lua.machine.running {
                // Machine code does not dispatch; it polls.
                (*vm).lua.interrupt.fetch_or(crate::interrupt::SAMPLE, RELAXED);
            }
        }
    }

    /// Undoes that.
    fn restore(&self) {
        // In this order: a tick that comes in between is noted, and springs the table again.
        fill(self.tables.load(RELAXED), |n| self.plain().0[n], |n| STRETCH.0[n]);
        self.sprung.store(false, RELAXED);
    }

    /// The table that the domain's own one is a copy of.
    pub fn plain(&self) -> &'static Handlers {
        let vm = self.vm.load(RELAXED);
        // SAFETY: the thread runs the domain.
        if vm.is_null() { &HANDLERS } else { unsafe { (*vm).lua.machine.table() } }
    }

    /// The table that the domain's own one is a copy of has changed: the domain begins or ends to record what
    /// it meets, or has its first machine code.
    pub fn follow_plain(&self) {
        // A tick that comes in between is noted, and taken with the next one.
        if !self.sprung.swap(true, RELAXED) {
            self.restore();
        }
    }

    /// Whether allocations are sampled.
    pub fn samples_allocations(&self) -> bool {
        self.interval != 0
    }

    /// Is there something to be taken?
    #[inline]
    pub fn is_sprung(&self) -> bool {
        self.sprung.load(RELAXED)
    }

    /// The domain's own table if it is in use; else null.
    pub fn table(&self) -> *const Handlers {
        match self.own_tables() {
            // SAFETY: the domain's own tables live as long as it does.
            Some(tables) => unsafe { &raw const (*tables).plain },
            None => null(),
        }
    }

    /// The table of stretches.
    pub fn stretch_table(&self) -> *const Handlers {
        match self.own_tables() {
            // SAFETY: as above.
            Some(tables) => unsafe { &raw const (*tables).stretch },
            None => &raw const STRETCH,
        }
    }

    fn own_tables(&self) -> Option<*const Tables> {
        let tables = self.tables.load(RELAXED).cast_const();
        (self.on.load(RELAXED) && !tables.is_null()).then_some(tables)
    }

    /// The collector begins or ends. Returns what was before.
    pub fn set_collecting(&self, yes: bool) -> bool {
        let before = self.collecting.load(RELAXED);
        self.collecting.store(yes, RELAXED);
        before
    }
}

/// Writes all entries that can be reached: of the plain table, and of that of stretches.
fn fill(tables: *mut Tables, plain: impl Fn(usize) -> Handler, stretch: impl Fn(usize) -> Handler) {
    if tables.is_null() {
        return;
    }
    for n in (0..Op::ALL.len()).chain([ENTER]) {
        // SAFETY: the domain's own tables, which the thread that runs the domain alone touches; a handler of
        // signals may come in between two entries, and the interpreter reads whole entries.
        unsafe {
            (&raw mut (*tables).plain.0[n]).write_volatile(plain(n));
            (&raw mut (*tables).stretch.0[n]).write_volatile(stretch(n));
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let tables = self.tables.load(RELAXED);
        if !tables.is_null() {
            // SAFETY: made by `Vm::follow_switches` from a box; the interpreter does not run any more.
            drop(unsafe { Box::from_raw(tables) });
        }
    }
}

/// [`Notify`]
fn heap_has_sampled(sampler: *mut ()) {
    // SAFETY: the sampler of the domain whose heap this is; the thread that runs the domain allocates.
    unsafe { (*sampler.cast::<Sampler>()).note_allocation() }
}

impl Vm {
    /// The calling thread has become the domain's owner.
    pub(crate) fn sampler_enter(&mut self) {
        let runner = clock::own();
        let vm = &raw mut *self;
        self.lua.seen.sampler.vm.store(vm, RELAXED);
        runner.enter(&raw mut *self.lua.seen.sampler, Arc::as_ptr(&self.lua.interrupt).cast_mut());
        self.follow_switches();
        let outside = runner.take_outside();
        if outside != 0 && perilune_trace::on(event::Category::Cpu) {
            // SAFETY: the running frame; that of a native if a call that may sleep is over.
            let within = unsafe { (*frame(self.lua.base)).delta != 0 };
            let stack =
                if within { self.path(Innermost::Within, Leaf::default()) } else { self.runtime_path() };
            emit(CpuSample { stack: Stack(stack), used: Ns(outside), activity: Activity::Native });
        }
    }

    /// It gives the domain up.
    pub(crate) fn sampler_leave(&mut self) {
        clock::own().leave();
    }

    /// The domain is about to be freed.
    pub(crate) fn sampler_forget(&mut self) {
        if !self.lua.seen.sampler.vm.load(RELAXED).is_null() {
            clock::own().forget(&raw mut *self.lua.seen.sampler);
        }
    }

    /// Turns samplers on or off as the session wants it.
    pub(crate) fn follow_switches(&mut self) {
        let hz = perilune_trace::emit::cpu_hz();
        clock::own().set_rate(hz);
        let interval = perilune_trace::emit::alloc_interval();
        let on = hz != 0 || interval != 0;
        let other = self.lua.seen.sampler.interval != interval;
        if other {
            self.lua.seen.sampler.interval = interval;
            self.lua.seen.sampler.allocations.clear();
            let notify: Notify = (heap_has_sampled, (&raw mut *self.lua.seen.sampler).cast());
            let seed = (&raw const *self as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ perilune_trace::clock::ticks();
            self.heap.set_sampling(interval, seed, (interval != 0).then_some(notify));
        }
        if on == self.lua.seen.sampler.on.load(RELAXED) {
            if other {
                self.update_dispatch();
            }
            return;
        }
        if on && self.lua.seen.sampler.tables.load(RELAXED).is_null() {
            natives::find();
            let plain = Handlers(self.lua.seen.sampler.plain().0);
            let tables = Box::new(Tables { plain, stretch: Handlers(STRETCH.0) });
            self.lua.seen.sampler.tables.store(Box::into_raw(tables), RELAXED);
        }
        self.lua.seen.sampler.on.store(on, RELAXED);
        if !on {
            self.lua.seen.sampler.restore();
            for spent in &self.lua.seen.sampler.spent {
                spent.ns.store(0, RELAXED);
            }
        }
        self.update_dispatch();
        if on {
            self.learn_chunks();
        }
    }

    /// A chunk is about to be run for the first time.
    pub(crate) fn sampler_loads(&self, proto: &std::sync::Arc<perilune_syntax::Proto>) {
        if self.lua.seen.sampler.on.load(RELAXED) {
            named::learn(proto);
        }
    }

    /// The running native is about to park its fiber: what has been asked for is its time.
    pub(crate) fn take_samples_of_native(&mut self) {
        if self.lua.seen.sampler.is_sprung() {
            self.take(Innermost::Within);
        }
    }

    /// Calls `f`, which copies values for another domain: time that it takes is told as such.
    pub(crate) fn sample_copy_out<T>(&mut self, f: impl FnOnce(&mut Vm) -> T) -> T {
        self.sample_copy(Copying::OUT, f)
    }

    /// Calls `f`, which copies values that another domain has sent from a call path: time and memory that it
    /// takes are told as such.
    pub(crate) fn sample_copy_in<T>(&mut self, sent_at: u32, f: impl FnOnce(&mut Vm) -> T) -> T {
        self.sample_copy(Copying::into(sent_at), f)
    }

    #[inline]
    fn sample_copy<T>(&mut self, copying: Copying, f: impl FnOnce(&mut Vm) -> T) -> T {
        if !self.lua.seen.sampler.on.load(RELAXED) {
            return f(self);
        }
        self.take_copied();
        let outer = self.lua.seen.sampler.copying.replace(copying);
        let result = f(self);
        self.take_copied();
        self.lua.seen.sampler.copying = outer;
        result
    }

    /// Takes what has been noted: it belongs to what is being copied, or to whoever is about to begin.
    #[cold]
    fn take_copied(&mut self) {
        let outside = clock::own().take_outside();
        let is_sprung = self.lua.seen.sampler.is_sprung();
        if outside == 0 && !is_sprung {
            return;
        }
        // Before a fiber begins, and where a domain takes what has come, nothing runs.
        let runs = self.lua.seen.sampler.running_native().is_some();
        let within = if runs { self.path(Innermost::Within, Leaf::default()) } else { 0 };
        let stack = match self.lua.seen.sampler.copying {
            Some(copying) => self.copying_path(within, copying),
            None if runs => within,
            None => self.runtime_path(),
        };
        if is_sprung {
            self.lua.seen.sampler.restore();
        }
        let mut by = [outside, 0];
        for (kind, &(activity, _)) in Activity::ALL.iter().enumerate() {
            let ns = self.lua.seen.sampler.spent[kind].ns.swap(0, RELAXED);
            by[usize::from(activity == Activity::Collector)] += ns;
        }
        let [copied, collected] = by;
        if perilune_trace::on(event::Category::Cpu) {
            if copied != 0 {
                emit(CpuSample { stack: Stack(stack), used: Ns(copied), activity: Activity::Native });
            }
            if collected != 0 {
                let stack = self.collecting_path(stack);
                emit(CpuSample { stack: Stack(stack), used: Ns(collected), activity: Activity::Collector });
            }
        }
        for _ in std::mem::take(&mut self.lua.seen.sampler.allocations) {
            self.heap.name_sample(stack);
        }
    }

    /// A fiber is over, and so are its frames: what they used last counts as the runtime's.
    pub(crate) fn abandon_samples(&mut self) {
        if self.lua.seen.sampler.is_sprung() {
            self.lua.seen.sampler.restore();
            let ns = self.lua.seen.sampler.spent.iter().map(|s| s.ns.swap(0, RELAXED)).sum();
            clock::own().add_outside(ns);
            let stack = if self.lua.seen.sampler.allocations.is_empty() { 0 } else { self.runtime_path() };
            for _ in std::mem::take(&mut self.lua.seen.sampler.allocations) {
                self.heap.name_sample(stack);
            }
        }
    }

    /// The interpreter is before an instruction, with everything stored: takes the samples that were asked
    /// for.
    #[inline(never)]
    pub(crate) fn take_samples(&mut self) {
        let outside = clock::own().take_outside();
        if outside != 0 && perilune_trace::on(event::Category::Cpu) {
            let stack = self.runtime_path();
            emit(CpuSample { stack: Stack(stack), used: Ns(outside), activity: Activity::Native });
        }
        self.take(Innermost::Before);
    }

    fn take(&mut self, innermost: Innermost) {
        self.lua.seen.sampler.restore();
        for (kind, &(activity, _)) in Activity::ALL.iter().enumerate() {
            let spent = &self.lua.seen.sampler.spent[kind];
            if spent.ns.load(RELAXED) == 0 {
                continue;
            }
            let ns = spent.ns.swap(0, RELAXED);
            let leaf = Leaf {
                base: spent.leaf_base.load(RELAXED),
                native: spent.leaf_native.load(RELAXED),
                collector: activity == Activity::Collector,
            };
            let address = spent.address.load(RELAXED);
            if perilune_trace::on(event::Category::Cpu) {
                let located = match &self.lua.machine.specializer {
                    Some(specializer) if address != 0 && !leaf.collector => specializer.locate(address),
                    _ => Vec::new(),
                };
                let stack = self.path_through(innermost, leaf, &located);
                emit(CpuSample { stack: Stack(stack), used: Ns(ns), activity });
            }
        }
        if !self.lua.seen.sampler.allocations.is_empty() {
            self.take_allocations(innermost);
        }
    }

    #[cold]
    fn take_allocations(&mut self, innermost: Innermost) {
        // Looking names up may allocate, and be sampled: those are for the next time.
        let mut list = std::mem::take(&mut self.lua.seen.sampler.allocations);
        for leaf in list.drain(..) {
            let stack = self.path(innermost, leaf);
            self.heap.name_sample(stack);
        }
        if self.lua.seen.sampler.allocations.is_empty() {
            self.lua.seen.sampler.allocations = list;
        }
    }
}
