//! A domain: a `Vm` with its fibers, and the pump that runs them.
//!
//! # Who touches what
//! The `Vm` and [`Local`] belong to the domain's owner, of which there is at most one at a time: the pump on a worker thread, or the root
//! chain on its own thread (`sched/token.rs`). Everything else may be used by any thread.
//!
//! # Proofs
//! Whoever touches what is the owner's shows that it is the owner. There are two proofs. The token's [`Owned`] is the pump's, while no code of the domain runs. To run code the pump
//! borrows the `Vm` *from its proof* ([`Domain::state_of`]): as long as `&mut Vm` is about, the proof is out of reach, and `&mut Vm` of the domain's own state is the other proof. Natives have
//! that one. Either makes an [`Owner`], which borrows what it was made of: so there is never a second reference to [`Local`], nor one beside running code.
//! Code that blocks gives the domain up although `&mut Vm` exists further up its stack: that is what makes `Host::detach` and `Host::wait_root` unsafe.
//!
//! # Life
//! The main domain exists before this room does: its `Vm` is the command's, and it becomes a [`Domain`] when the module is first required. A spawned domain
//! makes its `Vm` at its first activation, on the worker thread, so that the spawning domain goes on at once.
//! It *ends* when its body has: the outcome is delivered, its other fibers are cancelled, and when the last of them has unwound the `Vm` is freed. A fiber in a
//! blocking call keeps it until the call returns.

use crate::asking::{Asked, Part};
use crate::listing;
use crate::module::PRELUDE_NAME;
use crate::outcome::Lack;
use crate::pool::{self, Work};
use crate::races::{self, Strand};
use crate::runtime::{self, Runtime};
use crate::sched::deferred::{Deferred, Later};
use crate::sched::{Next, Owned, Reason, Seat, Token, WaitList, Waiter, threads};
use crate::scope::Scope;
use crate::scope::fiber::Fiber;
use crate::spawn;
use crate::untold::Sweeps;
use crate::wait::{self, Seen, Sites, Wait};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use perilune_trace::event::{self, Bytes, DomainId, Name};
use perilune_trace::fibers::Line;
use perilune_trace::{Category, FiberRef, clock, emit, names, on};
use perilune_vm::host::Descriptors;
use perilune_vm::parcel::{ModuleSearch, Parcel};
use perilune_vm::{FiberEnd, FiberStep, Gc, Host, InterruptHandle, LuaResult, Thread, Value, Vm};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Called when a fiber has ended, by the owner, with the results or the error on top of the stack.
pub(crate) type Done = Box<dyn FnOnce(&Arc<Domain>, &mut Vm, FiberEnd) + Send>;
/// The first thing that a spawned domain does in its fresh state. `Err`: it cannot have one, for lack of this.
pub(crate) type Start = Box<dyn FnOnce(&Arc<Domain>, Result<&mut Vm, (&mut Owned, &Lack)>) + Send>;

/// What a hybrid native has taken from somewhere and could not hand on yet: a message, and the case of a `select` that it came by.
pub(crate) type Stash = (u32, Parcel);

/// A fiber of a domain.
struct Slot {
    thread: Gc<Thread>,
    /// When it was made, in ticks.
    born: u64,
    done: Done,
    wait: Option<Wait>,
    stash: Option<Stash>,
    started: bool,
    generation: u32,
    /// Its own, if it is one: in a pool's domain.
    strand: Option<Box<Strand>>,
    /// Where its `require` looks.
    modules: Option<ModuleSearch>,
}

/// What only the owner touches.
#[derive(Default)]
struct Local {
    fibers: Vec<Result<Slot, u32>>,
    free: Vec<u32>,
    root_wait: Option<Wait>,
    /// Lines that have waited lately.
    sites: Sites,
    root_stash: Option<Stash>,
    start: Option<Start>,
    /// Byte limit of the heap.
    limit: Option<usize>,
    /// The domain's place in a pool.
    seat: Option<(Arc<pool::Inner>, Seat<Work>)>,
    /// All fibers', outside of pools; in one, that of the fiber that has just ended.
    strand: Option<Box<Strand>>,
    /// Collections because of failures that nobody has been told of.
    sweeps: Sweeps,
    /// The pool's work comes before the next ready fiber: somebody gives way to it.
    work_first: bool,
    /// Operations of the running fiber since it last waited (`outside::give_way`).
    operations: u32,
}

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
    token: Token<u64>,
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
    cancels: Mutex<Vec<u64>>,
    /// Whether there are any.
    has_cancels: AtomicBool,
    /// Fibers whose wait had ended when they were to be cancelled: they finish what they waited for, and are cancelled after that.
    late_cancels: Mutex<Vec<u64>>,
    /// Fibers that reports call by more than their numbers.
    labels: Mutex<HashMap<u64, Arc<Fiber>, RandomState>>,
    interrupt: Mutex<Option<InterruptHandle>>,
    /// The root chain's wait, for whoever interrupts it.
    root_waiter: Mutex<Option<Arc<Waiter>>>,
    /// The scope that the root chain waits for: an interrupt cancels it, since its fibers may not let the root chain have the domain otherwise.
    root_scope: Mutex<Weak<Scope>>,
    /// Whether there are any. Changed and asked by the owner.
    has_late_cancels: AtomicBool,
    /// The root chain is to be interrupted as soon as it runs.
    interrupted: AtomicBool,
    /// It may have handles of tasks or domains.
    has_handles: AtomicBool,
    /// Dead ones among them are to be looked for.
    looks_for_dead: AtomicBool,
    /// What has been put off.
    deferred: Deferred,
    /// What other domains ask.
    asked: Asked,
}

// SAFETY: `local` is reached through an `Owner` and the Vm through the token's proof only, of which there is one at a time (module essay).
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// A domain in the hands of its owner, for as long as it borrows the proof (module essay).
///
/// ```compile_fail,E0499
/// # use perilune_domain::domain::Domain;
/// # fn f(vm: &mut perilune_vm::Vm) -> perilune_vm::LuaResult<()> {
/// let one = Domain::of(vm)?;
/// let other = Domain::of(vm)?; // while the first may still be used
/// let both = (one, other);
/// # Ok(()) }
/// ```
/// ```compile_fail,E0502
/// # use perilune_domain::domain::Domain;
/// # fn f(vm: &mut perilune_vm::Vm) -> perilune_vm::LuaResult<()> {
/// let owner = Domain::of(vm)?;
/// let n = vm.nargs(); // code of the domain, beside its owner
/// drop((owner, n));
/// # Ok(()) }
/// ```
pub struct Owner<'a> {
    /// The domain, for what needs no proof.
    pub domain: &'a Domain,
    fiber: Option<u64>,
    proof: PhantomData<&'a mut Vm>,
}

impl<'a> Owner<'a> {
    /// What only the owner touches.
    fn local(self) -> &'a mut Local {
        // SAFETY: this is made of an exclusive borrow of the only proof, for as long as that lasts; and there is one reference for each that is made.
        unsafe { &mut *self.domain.local.get() }
    }

    fn slot(self, id: u64) -> Option<&'a mut Slot> {
        self.local().slot(id)
    }

    fn wait_place(self, fiber: Option<u64>) -> Option<&'a mut Option<Wait>> {
        match fiber {
            None => Some(&mut self.local().root_wait),
            Some(id) => self.slot(id).map(|s| &mut s.wait),
        }
    }

    fn my_wait_place(self) -> Option<&'a mut Option<Wait>> {
        let fiber = self.fiber;
        self.wait_place(fiber)
    }

    /// The wait of what runs.
    pub(crate) fn wait(self) -> Option<&'a mut Wait> {
        self.my_wait_place()?.as_mut()
    }

    pub(crate) fn set_wait(self, wait: Wait) {
        if let Some(place) = self.my_wait_place() {
            debug_assert!(place.is_none(), "one wait at a time");
            *place = Some(wait);
        }
    }

    /// Lines that have waited lately.
    pub(crate) fn sites(self) -> &'a mut Sites {
        &mut self.local().sites
    }

    pub(crate) fn take_wait(self) -> Option<Wait> {
        self.my_wait_place()?.take()
    }

    /// Where a native that is called again keeps what it must not lose.
    pub(crate) fn stash(self) -> Option<&'a mut Option<Stash>> {
        match self.fiber {
            None => Some(&mut self.local().root_stash),
            Some(id) => self.slot(id).map(|s| &mut s.stash),
        }
    }

    /// Counts an operation that needed no wait. True: that was the `most`th, and the count begins anew.
    pub(crate) fn count_operation(self, most: u32) -> bool {
        let operations = &mut self.local().operations;
        *operations += 1;
        let over = *operations >= most;
        if over {
            *operations = 0;
        }
        over
    }

    /// The domain works for a pool from now on.
    pub(crate) fn take_seat(self, pool: Arc<pool::Inner>, seat: Seat<Work>) {
        self.domain.interested.fetch_add(1, Ordering::Relaxed);
        self.local().seat = Some((pool, seat));
    }

    /// What the pool has to do comes before fibers that are ready, once.
    pub(crate) fn work_first(self) {
        self.local().work_first = true;
    }

    /// Whether the domain works for a pool.
    pub(crate) fn works_for_a_pool(self) -> bool {
        self.local().seat.is_some()
    }

    /// The domain's seat in this pool.
    pub(crate) fn seat_in(self, pool: &Arc<pool::Inner>) -> Option<&'a mut Seat<Work>> {
        match &mut self.local().seat {
            Some((mine, seat)) if Arc::ptr_eq(mine, pool) => Some(seat),
            _ => None,
        }
    }

    /// Whether a fiber of the domain is ready, or a task could begin here that has waited: for a loop of this pool that could let it go first.
    pub(crate) fn others_wait(self, pool: &Arc<pool::Inner>) -> bool {
        if self.domain.token.has_ready() || self.domain.token.is_wanted() {
            return true;
        }
        pool.has_waiting_tasks() && self.seat_in(pool).is_some_and(|seat| seat.could_take_oldest())
    }

    /// The strand that runs (`races`).
    pub(crate) fn strand(self) -> &'a mut Strand {
        let (domain, fiber) = (self.domain, self.fiber);
        let local = self.local();
        if local.seat.is_some()
            && let Some(at) = fiber.and_then(|id| local.place(id))
            && let Ok(slot) = &mut local.fibers[at]
        {
            return slot.strand.get_or_insert_with(|| Box::new(Strand::first(races::Kind::Timer)));
        }
        local.strand.get_or_insert_with(|| {
            let kind = if domain.is_main { races::Kind::Main } else { races::Kind::Domain(domain.name()) };
            Box::new(Strand::first(kind))
        })
    }

    /// A fiber of a pool's domain is this strand.
    pub(crate) fn begin_strand(self, fiber: u64, strand: Strand) {
        let local = self.local();
        if local.seat.is_some()
            && let Some(slot) = local.slot(fiber)
        {
            slot.strand = Some(Box::new(strand));
        }
    }

    /// A domain that is in no pool is this strand.
    pub(crate) fn begin_own_strand(self, strand: Strand) {
        self.local().strand = Some(Box::new(strand));
    }
}

impl Local {
    /// Where the fiber is, if it has not ended.
    fn place(&self, id: u64) -> Option<usize> {
        let at = id as u32 as usize;
        match self.fibers.get(at) {
            Some(Ok(slot)) if slot.generation == (id >> 32) as u32 => Some(at),
            _ => None,
        }
    }

    fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        let at = self.place(id)?;
        self.fibers[at].as_mut().ok()
    }
}

/// The id of the fiber that runs; `None`: the root chain does.
pub(crate) fn running_fiber(vm: &Vm) -> Option<u64> {
    vm.current_fiber().map(|f| vm.fiber_tag(f))
}

impl Domain {
    /// Makes the running state the main domain, owned by the calling thread.
    pub fn adopt(vm: &mut Vm) -> Arc<Domain> {
        let runtime = Runtime::of_state(vm);
        let domain = Domain::make(&runtime, "main".into(), Some(vm), Local::default(), |activate| {
            let (token, owned) = Token::owned(Arc::clone(runtime.rest()), activate);
            owned.lend();
            token
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
            Token::new(Arc::clone(runtime.rest()), activate)
        });
        domain.token.poke();
        domain
    }

    /// `main`: the state of a main domain, which exists already.
    fn make(
        runtime: &Arc<Runtime>,
        name: String,
        main: Option<&mut Vm>,
        local: Local,
        token: impl FnOnce(crate::sched::token::Activate) -> Token<u64>,
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
                token: token(Box::new(move || {
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
                late_cancels: Mutex::new(Vec::new()),
                has_late_cancels: AtomicBool::new(false),
                labels: Mutex::default(),
                interrupt: Mutex::new(None),
                root_waiter: Mutex::new(None),
                root_scope: Mutex::new(Weak::new()),
                interrupted: AtomicBool::new(false),
                has_handles: AtomicBool::new(false),
                looks_for_dead: AtomicBool::new(false),
                deferred: Deferred::default(),
                asked: Asked::default(),
            }
        });
        runtime.rest().register(&domain.waits);
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
        assert!(self.token.is_owned_by(owned), "another domain's proof");
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
    pub(crate) fn is_fiber_ready(&self) -> bool {
        self.token.has_ready()
    }

    /// Makes a parked fiber run.
    pub(crate) fn post(&self, fiber: u64) -> Result<(), u64> {
        self.token.post(fiber)
    }

    // -- By the owner --------------------------------------------------------------------------------------------------------

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
        let _ = self.token.post(id);
        Ok(id)
    }

    pub(crate) fn add_fiber(&self, vm: &mut Vm, f: Value, args: &[Value], done: Done) -> LuaResult<u64> {
        let thread = vm.new_fiber(f, args)?;
        let modules = vm.module_search();
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
            strand: None,
            modules,
        };
        *place = Ok(slot);
        self.live.fetch_add(1, Ordering::Relaxed);
        let id = (generation as u64) << 32 | at as u64;
        vm.set_fiber_tag(thread, id);
        if on(Category::Life) {
            // Parts of loops and timers run a function of ours, which calls the program's: that is what people know.
            let is_ours = vm.function_info(f).is_some_and(|info| info.source.as_slice() == PRELUDE_NAME);
            let known = args.iter().copied().find(|v| is_ours && v.is_function());
            let name = Name(vm.function_number(known.unwrap_or(f)));
            emit(event::FiberBegin { fiber: vm.fiber_ref(id), name });
        }
        self.interested.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Runs a fiber until it parks or ends.
    pub(crate) fn run(self: &Arc<Self>, vm: &mut Vm, id: u64) {
        let Some(slot) = self.owner(vm).slot(id) else { return };
        // A wake that came after its wait had been taken back.
        if slot.wait.as_ref().is_some_and(|w| w.waiter.woken().is_none()) {
            return;
        }
        let (thread, started) = (slot.thread, std::mem::replace(&mut slot.started, true));
        let modules = slot.modules.clone();
        // Or it is in a blocking call by now.
        if started && !vm.is_parked(thread) {
            return;
        }
        if self.is_to_be_cancelled_late(id)
            && let Some(handle) = &*self.interrupt.lock()
        {
            handle.raise_cause(perilune_vm::INTERRUPT_CANCEL);
        }
        // Another task may have brought its own meanwhile.
        if let Some(modules) = modules {
            vm.set_module_search(&modules);
        }
        self.owner(vm).local().operations = 0;
        match vm.run_fiber(thread) {
            FiberStep::Parked => {}
            FiberStep::Done(end) => {
                let local = self.owner(vm).local();
                let at = id as u32;
                let next = Err(((id >> 32) as u32).wrapping_add(1));
                let Ok(slot) = std::mem::replace(&mut local.fibers[at as usize], next) else { return };
                local.free.push(at);
                self.live.fetch_sub(1, Ordering::Relaxed);
                self.interested.fetch_sub(1, Ordering::Relaxed);
                if let Some(wait) = slot.wait {
                    wait::end(self, wait);
                }
                if self.is_to_be_cancelled_late(id) {
                    let mut late = self.late_cancels.lock();
                    late.retain(|late| *late != id);
                    self.has_late_cancels.store(!late.is_empty(), Ordering::Relaxed);
                }
                if slot.strand.is_some() {
                    local.strand = slot.strand;
                }
                let keep = match end {
                    FiberEnd::Returned(n) => n,
                    FiberEnd::Failed { .. } => 1,
                    FiberEnd::Cancelled => 0,
                };
                let below = vm.nargs() - keep;
                (slot.done)(self, vm, end);
                vm.truncate(below);
            }
        }
    }

    /// Runs the domain on a worker thread until there is nothing to do.
    fn pump(self: &Arc<Self>) {
        let Some(mut owned) = self.token.begin() else { return };
        let Some(vm) = self.make_state(&mut owned) else {
            return self.go_without_state(owned, &Lack::Memory);
        };
        vm.enter_thread();
        let start = self.owner(vm).local().start.take();
        if let Some(start) = start {
            start(self, Ok(vm));
        }
        loop {
            let vm = self.state_of(&mut owned);
            self.serve_cancels(vm);
            vm.serve_tools();
            if std::mem::take(&mut self.owner(vm).local().work_first) && self.serve_waiting_work(vm) {
                continue;
            }
            match self.token.next(&mut owned) {
                Next::Fiber(id) => {
                    if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat {
                        seat.busy();
                    }
                    self.run(self.state_of(&mut owned), id);
                    if self.deferred.is_due() {
                        self.do_deferred();
                    }
                }
                Next::HandOver => {
                    self.state_of(&mut owned).leave_thread();
                    return self.token.hand_over(owned);
                }
                Next::Empty => {
                    self.do_deferred();
                    // The pokes until now are forgotten by now: what they have been for is looked for after that.
                    if self.has_cancels.load(Ordering::Acquire) {
                        continue;
                    }
                    let vm = self.state_of(&mut owned);
                    vm.serve_tools();
                    // Also of one that was asked before it had a state.
                    self.answer_questions(vm);
                    if self.serve_pool(vm) {
                        continue;
                    }
                    if self.looks_for_dead.load(Ordering::Relaxed) {
                        self.collect_dead_handles(vm);
                        continue;
                    }
                    if self.live_fibers() == 0 && vm.let_go_of_copies() {
                        continue;
                    }
                    vm.leave_thread();
                    if self.has_ended() && self.live_fibers() == 0 {
                        return self.close(owned);
                    }
                    self.runtime.untold().domain_is_idle();
                    match self.token.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    }
                    self.state_of(&mut owned).enter_thread();
                }
            }
        }
    }

    /// There is no memory for a state, or no thread to run it on: what the domain was made for fails. One of a pool leaves the work to the others; the only one refuses it,
    /// and tries again when there is more.
    #[cold]
    fn go_without_state(self: &Arc<Self>, mut owned: Owned, lack: &Lack) {
        let start = self.holder(&mut owned).local().start.take();
        if let Some(start) = start {
            start(self, Err((&mut owned, lack)));
        }
        self.asked.end();
        loop {
            match self.token.next(&mut owned) {
                // There are no fibers; what is cancelled or wanted by tools is neither.
                Next::Fiber(_) => {}
                Next::HandOver => return self.token.hand_over(owned),
                Next::Empty => {
                    let local = self.holder(&mut owned).local();
                    if let Some((pool, seat)) = &mut local.seat {
                        if pool.has_state() {
                            self.ending.store(true, Ordering::Release);
                            local.seat = None;
                        } else if let Some(work) = seat.take() {
                            let pool = Arc::clone(pool);
                            pool.refuse(work, &self.runtime, lack);
                            continue;
                        } else if pool.queue().is_closed() {
                            self.ending.store(true, Ordering::Release);
                            local.seat = None;
                        } else if !seat.settle() {
                            continue;
                        }
                    }
                    if self.has_ended() {
                        return self.close(owned);
                    }
                    match self.token.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    }
                }
            }
        }
    }

    /// Whether its state has been made, and is there still.
    pub(crate) fn has_state(&self) -> bool {
        !self.vm.load(Ordering::Relaxed).is_null()
    }

    /// The domain had nothing to run in: its body is over.
    pub(crate) fn end_without_state(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Unwinds the fibers that are to be cancelled and do not run.
    fn serve_cancels(self: &Arc<Self>, vm: &mut Vm) {
        // Whoever has set it pokes afterwards: it is seen here before that poke is forgotten.
        while self.has_cancels.load(Ordering::Relaxed) && self.has_cancels.swap(false, Ordering::Acquire) {
            let list = std::mem::take(&mut *self.cancels.lock());
            for id in list {
                let Some(slot) = self.owner(vm).slot(id) else { continue };
                let (thread, started) = (slot.thread, slot.started);
                if slot.wait.as_ref().is_some_and(|wait| !wait::give_up(wait)) {
                    self.late_cancels.lock().push(id);
                    self.has_late_cancels.store(true, Ordering::Relaxed);
                    continue;
                }
                vm.cancel_fiber(thread);
                if !started || vm.is_parked(thread) {
                    self.withdraw(vm, Some(id));
                    self.run(vm, id);
                }
            }
        }
    }

    /// Starts what has waited longest for the pool. False: nothing does.
    fn serve_waiting_work(self: &Arc<Self>, vm: &mut Vm) -> bool {
        let Some((pool, seat)) = &mut self.owner(vm).local().seat else { return false };
        if !pool.has_waiting_tasks() {
            return false;
        }
        let Some(work) = seat.take_oldest() else { return false };
        let pool = Arc::clone(pool);
        pool.start(self, vm, work);
        true
    }

    /// Whether the fiber is cancelled when it has finished what it waited for.
    fn is_to_be_cancelled_late(&self, id: u64) -> bool {
        self.has_late_cancels.load(Ordering::Relaxed) && self.late_cancels.lock().contains(&id)
    }

    /// Does some of the pool's work. False: there is none; the domain is to be left.
    fn serve_pool(self: &Arc<Self>, vm: &mut Vm) -> bool {
        let local = self.owner(vm).local();
        let Some((pool, seat)) = &mut local.seat else { return false };
        if let Some(work) = seat.take() {
            if let (Work::Task(task), Some(victim)) = (&work, seat.stolen_from()) {
                task.report_stolen(victim);
            }
            let pool = Arc::clone(pool);
            pool.start(self, vm, work);
            return true;
        }
        if pool.queue().is_closed() && self.live_fibers() == 0 {
            self.ending.store(true, Ordering::Release);
            local.seat = None;
            return false;
        }
        !seat.settle()
    }

    /// The domain has met handles of tasks or domains: from now on somebody may want to look through them while its code blocks.
    pub(crate) fn expect_handles(&self) {
        if !self.has_handles.swap(true, Ordering::Relaxed) {
            self.interested.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There are failures that nobody has been told of: an idle domain that may have handles of them is to look for dead ones.
    pub(crate) fn look_for_dead_handles(&self) {
        if self.has_handles.load(Ordering::Relaxed) && !self.token.is_owned() {
            self.looks_for_dead.store(true, Ordering::Relaxed);
            self.token.poke();
        }
    }

    /// Collects if a handle of an untold failure may be dead.
    #[cold]
    fn collect_dead_handles(&self, vm: &mut Vm) {
        self.looks_for_dead.store(false, Ordering::Relaxed);
        let Some(newest) = newest_untold(vm) else { return };
        if self.owner(vm).local().sweeps.is_due(newest) {
            vm.collect_full();
            let left = newest_untold(vm);
            self.owner(vm).local().sweeps.done(left);
        }
    }

    /// The state, made if there is none yet; `None`: there is no memory for one.
    fn make_state<'a>(self: &Arc<Self>, owned: &'a mut Owned) -> Option<&'a mut Vm> {
        if !self.has_state() {
            let limit = self.holder(owned).local().limit;
            let mut vm = crate::module::new_state(&self.runtime, limit)?;
            vm.set_domain_number(self.id);
            vm.set_domain_name(self.name());
            vm.set_host(self.clone());
            *self.interrupt.lock() = Some(vm.interrupt_handle());
            self.vm.store(Box::into_raw(vm), Ordering::Relaxed);
        }
        Some(self.state_of(owned))
    }

    /// The state, which has been made.
    fn state_of<'a>(&self, owned: &'a mut Owned) -> &'a mut Vm {
        assert!(self.token.is_owned_by(owned), "another domain's proof");
        let vm = self.vm.load(Ordering::Relaxed);
        assert!(!vm.is_null(), "no state has been made");
        // SAFETY: a state lives until the owner closes the domain, which consumes the proof; and the proof is borrowed for as long as the reference lives.
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

    /// What a list says of a fiber: what it is called, since when it exists, in ticks, whether it has begun, its wait.
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
            let _ = self.token.post(id);
        }
    }

    /// Frees the domain's state. The owner's last act.
    fn close(self: &Arc<Self>, owned: Owned) {
        self.do_deferred();
        *self.interrupt.lock() = None;
        self.asked.end();
        let vm = self.vm.swap(std::ptr::null_mut(), Ordering::Relaxed);
        let mut young = 0;
        if self.owned && !vm.is_null() {
            // SAFETY: made by `make_state`; nothing runs in it, and only the owner frees it.
            let mut vm = unsafe { Box::from_raw(vm) };
            young = vm.heap().bytes_since_collection();
            drop(vm);
        }
        emit(event::DomainEnd { domain: DomainId(self.id), young: Bytes::from(young) });
        self.token.close(owned);
    }

    /// The user's interrupt has been raised: ends the root chain's wait, if it waits. It sees the interrupt when it runs.
    pub fn interrupt_root(&self) {
        let waiter = self.root_waiter.lock().clone();
        if let Some(waiter) = waiter {
            self.interrupted.store(true, Ordering::SeqCst);
            waiter.wake(Reason::Cancelled);
            let scope = self.root_scope.lock().upgrade();
            if let Some(scope) = scope {
                scope.cancel(Some("interrupted!".into()));
            }
        }
    }

    /// The root chain waits for this scope from now on.
    pub(crate) fn set_root_scope(&self, scope: &Arc<Scope>) {
        *self.root_scope.lock() = Arc::downgrade(scope);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
            || self.interrupt.lock().as_ref().is_some_and(|h| h.is_raised())
    }

    /// An interrupt that was kept for the root chain is raised again for whoever runs now.
    fn pass_interrupt(&self) {
        if self.interrupted.swap(false, Ordering::SeqCst)
            && let Some(handle) = &*self.interrupt.lock()
        {
            handle.raise();
        }
    }

    /// A tool wants something: whoever runs the domain is to look at it, and somebody is to run it.
    pub(crate) fn look_at_tools(&self) {
        if let Some(handle) = &*self.interrupt.lock() {
            handle.raise_cause(perilune_vm::INTERRUPT_TRACE);
        }
        self.token.poke();
    }

    /// Another domain of the program asks something.
    pub(crate) fn ask(&self, part: Part) {
        self.asked.leave(part);
        self.look_at_tools();
    }

    /// Makes the pump look for work.
    pub(crate) fn poke(&self) {
        self.token.poke();
    }

    /// Has fibers cancelled: they unwind at their next call, loop iteration or wait, but not before they have used what an operation has brought ([`Vm::has_delivered`]).
    pub(crate) fn cancel(&self, fibers: &[u64]) {
        self.cancels.lock().extend_from_slice(fibers);
        self.has_cancels.store(true, Ordering::Release);
        if let Some(handle) = &*self.interrupt.lock() {
            handle.raise_cause(perilune_vm::INTERRUPT_CANCEL);
        }
        self.token.poke();
    }
}

/// The newest failure that nobody has been told of and that the state has a handle of.
fn newest_untold(vm: &Vm) -> Option<u64> {
    vm.shared_objects()
        .filter_map(|object| pool::outcome(object).or_else(|| spawn::outcome(object))?.untold())
        .max()
}

/// Ends the process if it is dropped: a pump that panics leaves a domain in the middle of something, and everybody who waits for it would wait for ever.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        eprintln!("perilune: internal error in a worker thread (see above); please report it");
        std::process::abort();
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.is_main {
            self.runtime.main_has_gone();
        }
    }
}

impl threads::Job for Domain {
    fn run(self: Arc<Self>) {
        let bomb = Bomb;
        self.pump();
        std::mem::forget(bomb);
    }
    fn refused(self: Arc<Self>, why: &std::io::Error) -> bool {
        // What is in the middle of something has to go on some time.
        if self.has_state() {
            return false;
        }
        if let Some(owned) = self.token.begin() {
            let why = why.raw_os_error().map_or(why.kind().into(), std::io::Error::from_raw_os_error);
            self.go_without_state(owned, &Lack::Thread(why));
        }
        true
    }
}

impl Host for Domain {
    fn is_wanted(&self) -> bool {
        self.interested.load(Ordering::Relaxed) != 0
    }
    unsafe fn detach(&self) {
        // SAFETY: the caller owns the domain, by its state, and uses neither before it has it again.
        let mut owned = unsafe { self.token.reclaim() };
        if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat
            && seat.lend()
        {
            self.token.poke();
        }
        self.do_deferred();
        self.runtime.untold().domain_is_idle();
        self.token.detach(owned);
    }
    unsafe fn attach(&self) {
        let Some(mut owned) = self.token.attach() else {
            unreachable!("a domain is not closed while a fiber of it is alive");
        };
        self.pass_interrupt();
        if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat {
            seat.busy();
        }
        owned.lend();
    }
    unsafe fn wait_root(&self) {
        // SAFETY: as in `detach`.
        let mut owned = unsafe { self.token.reclaim() };
        let wait = self.holder(&mut owned).local().root_wait.as_ref();
        let Some(root) = wait.and_then(|w| w.root.clone()) else { return owned.lend() };
        *self.root_waiter.lock() = Some(root.clone());
        // An interrupt that came before the waiter was there to be woken.
        if !self.is_interrupted() {
            self.do_deferred();
            self.runtime.untold().domain_is_idle();
            match self.token.wait(owned, &root) {
                Some(back) => owned = back,
                None => unreachable!("the main domain is not closed while its program runs"),
            }
        }
        owned.lend();
        *self.root_waiter.lock() = None;
        if self.is_interrupted() {
            root.wake(Reason::Cancelled);
        }
        self.pass_interrupt();
    }
    fn withdraw(&self, vm: &mut Vm, fiber: Option<u64>) {
        if let Some(wait) = self.owner(vm).wait_place(fiber).and_then(Option::take) {
            wait::end(self, wait);
        }
    }
    fn takes_interrupt(&self) -> bool {
        if self.is_main {
            self.interrupted.store(true, Ordering::SeqCst);
            self.interrupt_root();
        }
        self.is_main
    }
    fn descriptors(&self) -> Option<&'static dyn Descriptors> {
        self.runtime.config().descriptors
    }
    fn live_fibers(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
    fn process_ends(&self) {
        self.runtime.domains().iter().for_each(|d| d.do_deferred());
        self.runtime.untold().tell_all();
    }
    fn report_waits(&self, vm: &mut Vm) {
        // There may be very many, and a session that wants neither.
        if !on(Category::Life) && !on(Category::Wait) {
            return;
        }
        for (id, thread) in self.fibers(vm) {
            let (fiber, stack) = (vm.fiber_ref(id), vm.parked_stack(Some(thread)));
            let name = vm.fiber_function(thread);
            emit(event::FiberBegin { fiber, name: Name(vm.function_number(name)) });
            if let Some(wait) = self.owner(vm).slot(id).and_then(|slot| slot.wait.as_ref()) {
                wait.report(fiber, stack);
            }
        }
        let stack = vm.parked_stack(None);
        if let Some(wait) = &self.owner(vm).local().root_wait {
            wait.report(FiberRef::root(self.id), stack);
        }
    }
    fn answer_questions(&self, vm: &mut Vm) {
        for part in self.asked.take() {
            part.answer(self.name(), listing::seen(self, vm));
        }
    }
    fn list_fibers(&self, vm: &mut Vm) -> Vec<Line> {
        listing::fibers(self, vm)
    }
    fn lets_wait(&self, vm: &mut Vm, id: u64) -> bool {
        if !self.owner(vm).slot(id).and_then(|slot| slot.wait.as_ref()).is_some_and(wait::ends_itself) {
            return false;
        }
        self.cancels.lock().retain(|other| *other != id);
        if !self.is_to_be_cancelled_late(id) {
            self.late_cancels.lock().push(id);
            self.has_late_cancels.store(true, Ordering::Relaxed);
        }
        true
    }
    fn is_cancelled(&self, fiber: Option<u64>) -> bool {
        fiber.is_some_and(|id| self.cancels.lock().contains(&id) || self.is_to_be_cancelled_late(id))
    }
}
