//! A domain: a `Vm` with its fibers, and the pump that runs them.
//!
//! # Who touches what
//! The `Vm` and [`Local`] belong to the domain's owner, of which there is at most one at a time: the pump on
//! a worker thread, or the root chain on its own thread (`sched/ownership.rs`). Everything else may be used
//! by any thread.
//!
//! # Proofs
//! Whoever touches what is the owner's shows that it is the owner. There are two proofs. The ownership's
//! [`Owned`] is the pump's, while no code of the domain runs. To run code the pump borrows the `Vm` *from its
//! proof* ([`Domain::state_of`]): as long as `&mut Vm` is about, the proof is out of reach, and `&mut Vm` of
//! the domain's own state is the other proof. Natives have that one. Either makes an [`Owner`], which borrows
//! what it was made of: so there is never a second reference to [`Local`], nor one beside running code. Code
//! that blocks gives the domain up although `&mut Vm` exists further up its stack: that is what makes
//! `Host::detach` and `Host::wait_root` unsafe.
//!
//! # Life
//! The main domain exists before this room does: its `Vm` is the command's, and it becomes a [`Domain`] when
//! the module is first required. A spawned domain makes its `Vm` at its first activation, on the worker
//! thread, so that the spawning domain goes on at once. It *ends* when its body has: the outcome is
//! delivered, its other fibers are cancelled, and when the last of them has unwound the `Vm` is freed. A
//! fiber in a blocking call keeps it until the call returns.

mod cancel;
mod host;
mod owner;
mod pump;

pub(crate) use self::cancel::Finishes;
pub use self::owner::Owner;
use self::owner::{Local, Slot};
use crate::asking::{Asked, Part};
use crate::listing;
use crate::outcome::Lack;
use crate::outside::Doing;
use crate::pool;
use crate::runtime::{self, Runtime};
use crate::sched::deferred::{Deferred, Later};
use crate::sched::{Owned, Ownership, WaitList, Waiter, threads};
use crate::scope::Scope;
use crate::scope::fiber::Fiber;
use crate::untold;
use crate::wait::{Seen, Wait};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use perilune_trace::event::{self, DomainId, Name};
use perilune_trace::{Category, clock, emit, names, on};
use perilune_vm::{FiberEnd, Gc, Host, InterruptHandle, LuaResult, Thread, Value, Vm};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Called when a fiber has ended, by the owner, with the results or the error on top of the stack.
pub(crate) type Done = Box<dyn FnOnce(&Arc<Domain>, &mut Vm, FiberEnd) + Send>;
/// The first thing that a spawned domain does in its fresh state. `Err`: it cannot have one, for lack of
/// this.
pub(crate) type Start = Box<dyn FnOnce(&Arc<Domain>, Result<&mut Vm, (&mut Owned, &Lack)>) + Send>;

/// A domain.
pub struct Domain {
    me: Weak<Domain>,
    runtime: Arc<Runtime>,
    /// Its number in events: no other domain of the process has it.
    pub id: u32,
    /// Its number as the program sees it: 1 is the main one.
    pub number: u32,
    /// The runtime's first, which has the program's own thread.
    is_main: bool,
    name: Mutex<String>,
    ownership: Ownership<u64>,
    vm: AtomicPtr<Vm>,
    /// The `Vm` is freed with the domain.
    owned: bool,
    local: UnsafeCell<Local>,
    waits: Arc<WaitList>,
    /// Others than the running code may want the domain: fibers, timers, a pool.
    interested: AtomicUsize,
    ending: AtomicBool,
    /// Fibers that have not ended. Changed by the owner.
    live: AtomicUsize,
    /// Fibers that are to be cancelled.
    cancels: Mutex<Vec<(u64, Finishes)>>,
    /// Whether there are any.
    has_cancels: AtomicBool,
    /// Fibers whose wait had ended when they were to be cancelled: they finish what they waited for, and are
    /// cancelled after that.
    late_cancels: Mutex<Vec<u64>>,
    /// Fibers that reports call by more than their numbers.
    labels: Mutex<HashMap<u64, Arc<Fiber>, RandomState>>,
    /// Fibers that serve somebody and belong to no scope, with what is said of them if the program ends
    /// before they do.
    services: Mutex<Vec<(Weak<Fiber>, String)>>,
    interrupt: Mutex<Option<InterruptHandle>>,
    /// The root chain's wait, for whoever interrupts it.
    root_waiter: Mutex<Option<Arc<Waiter>>>,
    /// The scope that the root chain waits for: an interrupt cancels it, since its fibers may not let the
    /// root chain have the domain otherwise.
    root_scope: Mutex<Weak<Scope>>,
    /// Whether there are any. Changed and asked by the owner.
    has_late_cancels: AtomicBool,
    /// The root chain is to be interrupted as soon as it runs.
    interrupted: AtomicBool,
    /// It may have handles of tasks or domains.
    has_handles: AtomicBool,
    /// Dead ones among them are to be looked for.
    looks_for_dead: AtomicBool,
    /// A timer is set that makes the pump look whether copies are to be let go of.
    rests: AtomicBool,
    /// What has been put off.
    deferred: Deferred,
    /// What other domains ask.
    asked: Asked,
}

// SAFETY: `local` is reached through an `Owner` and the Vm through the ownership's proof only, of which there
// is one at a time (module essay).
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// The id of the fiber that runs; `None`: the root chain does.
#[inline]
pub(crate) fn running_fiber(vm: &Vm) -> Option<u64> {
    vm.current_fiber().map(|f| vm.fiber_tag(f))
}

impl Domain {
    /// Makes the running state the main domain, owned by the calling thread.
    pub fn adopt(vm: &mut Vm) -> Arc<Domain> {
        let runtime = Runtime::of_state(vm);
        let domain = Domain::make(&runtime, "main".into(), Some(vm), Local::default(), |activate| {
            let (ownership, owned) = Ownership::owned(Arc::clone(runtime.quiescence()), activate);
            owned.lend();
            ownership
        });
        vm.set_domain_number(domain.id);
        vm.set_host(domain.clone());
        listing::begin();
        *domain.interrupt.lock() = Some(vm.interrupt_handle());
        crate::signal::watch(runtime.config().takes_interrupts.then(|| Arc::downgrade(&domain)));
        domain
    }

    /// A domain that runs `start` in a fresh state as soon as a thread takes it.
    pub(crate) fn spawn(
        runtime: &Arc<Runtime>,
        name: Option<String>,
        limit: Option<usize>,
        start: Start,
    ) -> Arc<Domain> {
        let local = Local { start: Some(start), limit, ..Local::default() };
        let domain = Domain::make(runtime, name.unwrap_or_default(), None, local, |activate| {
            Ownership::new(Arc::clone(runtime.quiescence()), activate)
        });
        domain.ownership.poke();
        domain
    }

    /// `main`: the state of a main domain, which exists already.
    fn make(
        runtime: &Arc<Runtime>,
        name: String,
        main: Option<&mut Vm>,
        local: Local,
        ownership: impl FnOnce(crate::sched::ownership::Activate) -> Ownership<u64>,
    ) -> Arc<Domain> {
        let (id, number) = (runtime::new_id(), runtime.new_number());
        let (is_main, owned) = (main.is_some(), main.is_none());
        let vm = main.map_or(std::ptr::null_mut(), |vm| vm as *mut Vm);
        let name = if name.is_empty() { format!("domain {number}") } else { name };
        let domain = Arc::new_cyclic(|weak: &Weak<Domain>| {
            let me = weak.clone();
            Domain {
                me: weak.clone(),
                runtime: Arc::clone(runtime),
                id,
                number,
                is_main,
                name: Mutex::new(name),
                ownership: ownership(Box::new(move || {
                    if let Some(domain) = me.upgrade() {
                        emit(event::DomainReady { domain: DomainId(domain.id) });
                        threads::run(domain);
                    }
                })),
                vm: AtomicPtr::new(vm),
                owned,
                local: UnsafeCell::new(local),
                waits: WaitList::new(),
                interested: AtomicUsize::new(0),
                ending: AtomicBool::new(false),
                live: AtomicUsize::new(0),
                cancels: Mutex::new(Vec::new()),
                has_cancels: AtomicBool::new(false),
                services: Mutex::default(),
                late_cancels: Mutex::new(Vec::new()),
                has_late_cancels: AtomicBool::new(false),
                labels: Mutex::default(),
                interrupt: Mutex::new(None),
                root_waiter: Mutex::new(None),
                root_scope: Mutex::new(Weak::new()),
                interrupted: AtomicBool::new(false),
                has_handles: AtomicBool::new(false),
                looks_for_dead: AtomicBool::new(false),
                rests: AtomicBool::new(false),
                deferred: Deferred::default(),
                asked: Asked::default(),
            }
        });
        runtime.quiescence().register(&domain.waits);
        runtime.enlist(&domain);
        if owned && perilune_trace::is_live() {
            let name = Name(names::string(domain.name.lock().as_bytes()));
            emit(event::DomainBegin { domain: DomainId(id), name, existed: false });
        }
        domain
    }

    /// The domain of a state, in the hands of whoever has the state.
    ///
    /// # Errors
    /// It has none: the module has not been required in it.
    #[inline]
    pub fn of(vm: &mut Vm) -> LuaResult<Owner<'_>> {
        match vm.host_as::<Domain>() {
            Some(domain) => {
                let domain: *const Domain = domain;
                // SAFETY: the state is borrowed for as long as the reference lives, so it keeps its host.
                Ok(unsafe { &*domain }.owner(vm))
            }
            None => Err(vm.error("require \"perilune\" first: this state is not a domain")),
        }
    }

    /// The proof of code that runs in the domain.
    #[inline]
    pub(crate) fn owner<'a>(&'a self, vm: &'a mut Vm) -> Owner<'a> {
        assert!(std::ptr::eq(self.vm.load(Ordering::Relaxed), vm), "another domain's state");
        Owner { domain: self, fiber: running_fiber(vm), proof: PhantomData }
    }

    /// The proof of the pump.
    pub(crate) fn holder<'a>(&'a self, owned: &'a mut Owned) -> Owner<'a> {
        assert!(self.ownership.is_owned_by(owned), "another domain's proof");
        Owner { domain: self, fiber: None, proof: PhantomData }
    }

    /// The program that it is part of.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The domain, counted.
    pub(crate) fn counted(&self) -> Arc<Domain> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("whoever has a reference to a domain has it through a count"),
        }
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Gives it another name.
    pub fn rename(&self, name: String) {
        *self.name.lock() = name;
    }

    /// Whether its body is over.
    pub fn has_ended(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(crate) fn waits(&self) -> &WaitList {
        &self.waits
    }

    /// Puts something off. Code that blocks has to give the domain up meanwhile, so that it is done.
    pub(crate) fn defer(&self, later: Arc<dyn Later>) {
        if self.deferred.add(later) {
            self.interested.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does what has been put off.
    fn do_deferred(&self) {
        if self.deferred.run() {
            self.interested.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a fiber waits for its turn.
    #[inline]
    pub(crate) fn is_fiber_ready(&self) -> bool {
        self.ownership.has_ready()
    }

    /// Makes a parked fiber run.
    pub(crate) fn post(&self, fiber: u64) -> Result<(), u64> {
        self.ownership.post(fiber)
    }

    // -- By the owner ---------------------------------------------------------------------------------------

    /// A fiber of the domain, or its root chain, for reports.
    pub(crate) fn who(&self, fiber: Option<u64>) -> String {
        let name = self.name();
        match fiber {
            None if self.is_main => "the main program".into(),
            None => format!("'{name}'"),
            Some(id) => match self.labels.lock().get(&id) {
                Some(fiber) => format!("{} of '{name}'", fiber.describe()),
                None => format!("fiber {} of '{name}'", id as u32),
            },
        }
    }

    /// Reports call a fiber what this says.
    pub(crate) fn label(&self, id: u64, fiber: &Arc<Fiber>) {
        self.labels.lock().insert(id, Arc::clone(fiber));
    }

    /// A fiber works for a module, and does this.
    pub(crate) fn does(&self, vm: &mut Vm, id: u64, doing: Doing) {
        if on(Category::Life) {
            let name = Name(names::string_often(doing.what.as_bytes()));
            emit(event::FiberBegin { fiber: vm.fiber_ref(id), name });
        }
        if let Some(fiber) = self.labels.lock().get(&id) {
            fiber.does(doing);
        }
    }

    /// Tools call a fiber so, whose function is one of the runtime's own.
    pub(crate) fn name_after(&self, vm: &mut Vm, id: u64, what: &str) {
        let number = names::string_often(what.as_bytes());
        if let Some(slot) = self.owner(vm).slot(id) {
            slot.named_after = number;
        }
        if on(Category::Life) {
            emit(event::FiberBegin { fiber: vm.fiber_ref(id), name: Name(number) });
        }
    }

    /// The number of what tools call a fiber: what it does for a module, or its function, or the program's
    /// that this works for.
    pub(crate) fn name_of_fiber(&self, vm: &mut Vm, id: u64, thread: Gc<Thread>) -> u32 {
        let doing = self.labels.lock().get(&id).and_then(|fiber| fiber.doing());
        match doing {
            Some(what) => names::string_often(what.as_bytes()),
            None => match self.owner(vm).slot(id).map_or(0, |slot| slot.named_after) {
                0 => {
                    let function = vm.fiber_function(thread);
                    vm.function_number(function)
                }
                number => number,
            },
        }
    }

    /// A fiber of no scope serves somebody: `what` is said of it if the program ends before it does.
    pub(crate) fn enter_service(&self, fiber: &Arc<Fiber>, what: String) {
        let mut services = self.services.lock();
        services.retain(|(fiber, _)| fiber.upgrade().is_some_and(|fiber| fiber.is_pending()));
        services.push((Arc::downgrade(fiber), what));
    }

    /// The main program has come to its end, and so have these.
    pub(crate) fn tell_services(&self) {
        for (fiber, what) in std::mem::take(&mut *self.services.lock()) {
            if fiber.upgrade().is_some_and(|fiber| fiber.is_pending()) {
                untold::say(&format!("perilune: the program has ended, and with it {what}\n"));
            }
        }
    }

    /// It has ended.
    pub(crate) fn unlabel(&self, id: u64) {
        self.labels.lock().remove(&id);
    }

    /// Whether the domain has fibers that have not ended.
    pub(crate) fn has_fibers(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// Starts a fiber that calls `f`; `done` is called when it has ended. It runs when its turn comes.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn start_fiber(&self, vm: &mut Vm, f: Value, args: &[Value], done: Done) -> LuaResult<u64> {
        let id = self.add_fiber(vm, f, args, done)?;
        let _ = self.ownership.post(id);
        Ok(id)
    }

    pub(crate) fn add_fiber(&self, vm: &mut Vm, f: Value, args: &[Value], done: Done) -> LuaResult<u64> {
        let thread = vm.new_fiber(f, args)?;
        let modules = vm.module_search();
        let named_after = named_after(vm, f, args);
        let local = self.owner(vm).local();
        let at = local.free.pop().unwrap_or_else(|| {
            local.fibers.push(Err(0));
            local.fibers.len() as u32 - 1
        });
        let place = &mut local.fibers[at as usize];
        let generation = match place {
            Err(g) => *g,
            Ok(s) => s.generation,
        };
        let slot = Slot {
            thread,
            born: clock::ticks(),
            done,
            wait: None,
            stash: None,
            started: false,
            generation,
            named_after,
            strand: None,
            modules,
        };
        *place = Ok(slot);
        self.live.fetch_add(1, Ordering::Relaxed);
        let id = (generation as u64) << 32 | at as u64;
        vm.set_fiber_tag(thread, id);
        if on(Category::Life) {
            let name = Name(if named_after == 0 { vm.function_number(f) } else { named_after });
            emit(event::FiberBegin { fiber: vm.fiber_ref(id), name });
        }
        self.interested.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Whether its state has been made, and is there still.
    pub(crate) fn has_state(&self) -> bool {
        !self.vm.load(Ordering::Relaxed).is_null()
    }

    /// The domain had nothing to run in: its body is over.
    pub(crate) fn end_without_state(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// The domain has met handles of tasks or domains: from now on somebody may want to look through them
    /// while its code blocks.
    pub(crate) fn expect_handles(&self) {
        if !self.has_handles.swap(true, Ordering::Relaxed) {
            self.interested.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There are failures that nobody has been told of: an idle domain that may have handles of them is to
    /// look for dead ones.
    pub(crate) fn look_for_dead_handles(&self) {
        if self.has_handles.load(Ordering::Relaxed) && !self.ownership.is_owned() {
            self.looks_for_dead.store(true, Ordering::Relaxed);
            self.ownership.poke();
        }
    }

    /// The state, which has been made.
    fn state_of<'a>(&self, owned: &'a mut Owned) -> &'a mut Vm {
        assert!(self.ownership.is_owned_by(owned), "another domain's proof");
        let vm = self.vm.load(Ordering::Relaxed);
        assert!(!vm.is_null(), "no state has been made");
        // SAFETY: a state lives until the owner closes the domain, which consumes the proof; and the proof is
        // borrowed for as long as the reference lives.
        unsafe { &mut *vm }
    }

    /// Its fibers that have not ended.
    pub(crate) fn fibers(&self, vm: &mut Vm) -> Vec<(u64, Gc<Thread>)> {
        let slots = self.owner(vm).local().fibers.iter().enumerate();
        slots
            .filter_map(|(at, slot)| {
                slot.as_ref().ok().map(|s| ((s.generation as u64) << 32 | at as u64, s.thread))
            })
            .collect()
    }

    /// What a list says of a fiber: what it is called, since when it exists, in ticks, whether it has begun,
    /// its wait.
    pub(crate) fn look_at(&self, vm: &mut Vm, id: u64) -> Option<(Option<String>, u64, bool, Option<Seen>)> {
        let label = self.labels.lock().get(&id).map(|fiber| fiber.describe());
        let slot = self.owner(vm).slot(id)?;
        Some((label, slot.born, slot.started, slot.wait.as_ref().and_then(Wait::seen)))
    }

    /// The same of the root chain, if it is the program's: its wait.
    pub(crate) fn look_at_root(&self, vm: &mut Vm) -> Option<Option<Seen>> {
        self.is_main.then(|| self.owner(vm).local().root_wait.as_ref().and_then(Wait::seen))
    }

    /// The pool that the domain works for.
    pub(crate) fn pool(&self, vm: &mut Vm) -> Option<Arc<pool::Inner>> {
        self.owner(vm).local().seat.as_ref().map(|(pool, _)| Arc::clone(pool))
    }

    /// The body is over: what else runs in the domain is cancelled, and the domain freed when it has unwound.
    pub(crate) fn end(&self, vm: &mut Vm) {
        self.ending.store(true, Ordering::Release);
        for (id, thread) in self.fibers(vm) {
            vm.cancel_fiber(thread);
            self.withdraw(vm, Some(id));
            let _ = self.ownership.post(id);
        }
    }

    /// A tool wants something: whoever runs the domain is to look at it, and somebody is to run it.
    pub(crate) fn look_at_tools(&self) {
        if let Some(handle) = &*self.interrupt.lock() {
            handle.raise_cause(perilune_vm::INTERRUPT_TRACE);
        }
        self.ownership.poke();
    }

    /// Another domain of the program asks something.
    pub(crate) fn ask(&self, part: Part) {
        self.asked.leave(part);
        self.look_at_tools();
    }

    /// Makes the pump look for work.
    pub(crate) fn poke(&self) {
        self.ownership.poke();
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.is_main {
            self.runtime.main_has_gone();
        }
    }
}

/// The number of the program's function that `f` is started for with these arguments, where `f` is one of the
/// runtime's own: of a part of a loop, of a timer, of `pl.each`. 0: there is none.
pub(crate) fn named_after(vm: &mut Vm, f: Value, args: &[Value]) -> u32 {
    if !vm.is_own_function(f) {
        return 0;
    }
    let known = args.iter().copied().find(|v| v.is_function() && !vm.is_own_function(*v));
    known.map_or(0, |f| vm.function_number(f))
}
