//! Pools of domains and their tasks: `pl.pool`, `pool:async`, `task:await`.
//!
//! A pool is a number of seats at one queue of work (`sched/queue.rs`). A seat's domain is made when there is
//! more work than the domains that exist can start at once, so a pool of a thousand with little to do is one
//! domain. A task that has started stays in its domain; while it waits, its domain starts others, so no
//! number of waiting tasks stops a pool. A task in a blocking call leaves its domain to others likewise.
//!
//! # Life of a task
//! Packed by whoever calls `async`; queued: in the seat's own queue if a task of the pool queued it, else in
//! the common one; unpacked and run as a fiber by the domain that takes it; its outcome wakes those who wait
//! for it. Work may also be a part of a loop (`loops.rs`).
//!
//! # Closing
//! A closed pool refuses work and finishes what it has; then its domains end. `close` waits for that. A pool
//! that no program can reach any more is closed.

use crate::actor;
use crate::channel::with_values;
use crate::domain::{Domain, Done, Finishes, Owner, named_after};
use crate::lane::{self, LaneKey};
use crate::loops::{self, Part};
use crate::objects::fill;
use crate::options;
use crate::outcome::{self, End, Failure, Lack, Outcome};
use crate::races::{self, Order, Orders};
use crate::runtime::Runtime;
use crate::sched::{Lanes, Priority, Queue, Reason, Seat, Waiter, threads};
use crate::select::Selectable;
use crate::spawn::{conclude, conclude_by};
use crate::surplus;
use crate::time::{Limit, opt_limit, refuse_late};
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_heap::charge_messages;
use perilune_trace::event::{self, Ending, Few, Name, Verb};
use perilune_trace::{Category, FiberRef, ObjectKind, emit, on};
use perilune_vm::cycle_collector::{Held, Holder};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject, downcast_arc};
use perilune_vm::{FiberEnd, Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// The kind of pools.
pub static POOL: SharedKind = SharedKind::new("pool", open_pool);
/// The kind of tasks.
pub static TASK: SharedKind = SharedKind::new("task", open_task);

/// Most workers of a pool.
const MOST_WORKERS: i64 = 4096;

/// What a pool's domains do.
pub(crate) enum Work {
    Task(Arc<Task>),
    Part(Part),
}

/// The part of a pool that its domains know.
pub(crate) struct Inner {
    runtime: Weak<Runtime>,
    queue: OnceLock<Arc<Queue<Work>>>,
    seats: Mutex<Vec<Option<Seat<Work>>>>,
    domains: Box<[OnceLock<Arc<Domain>>]>,
    name: String,
    /// Tasks and parts that have been queued and are not finished.
    unfinished: AtomicUsize,
    /// Tasks that are queued.
    waiting_tasks: AtomicUsize,
    /// Who waits for the last of them.
    closers: Mutex<Vec<Arc<Waiter>>>,
    /// Tasks that must wait for the one before them.
    pub(crate) lanes: Lanes<Arc<LaneKey>, Arc<Task>>,
    /// Tasks of a lane come after each other.
    pub(crate) lane_orders: Orders<Arc<LaneKey>>,
    /// All tasks come before the end of `close`.
    order: Order,
}

/// A pool as programs handle it.
pub struct Pool {
    inner: Arc<Inner>,
}

impl SharedObject for Pool {
    fn kind(&self) -> &'static SharedKind {
        &POOL
    }
    fn label(&self) -> Option<String> {
        Some(self.inner.name.clone())
    }
}

impl Pool {
    /// The part that its domains know.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.inner.queue().close();
    }
}

impl Inner {
    fn new(runtime: &Arc<Runtime>, workers: usize, name: String) -> Arc<Inner> {
        let inner = Arc::new(Inner {
            runtime: Arc::downgrade(runtime),
            queue: OnceLock::new(),
            seats: Mutex::new(Vec::new()),
            domains: (0..workers).map(|_| OnceLock::new()).collect(),
            name,
            unfinished: AtomicUsize::new(0),
            waiting_tasks: AtomicUsize::new(0),
            closers: Mutex::new(Vec::new()),
            lanes: Lanes::new(),
            lane_orders: Orders::new(),
            order: Order::new(),
        });
        let me: Weak<Inner> = Arc::downgrade(&inner);
        let (queue, mut seats) = Queue::new(
            workers,
            Box::new(move |worker| {
                if let Some(inner) = me.upgrade() {
                    inner.poke(worker);
                }
            }),
        );
        // All idle from the start; the last to settle is called first.
        for seat in seats.iter_mut().rev() {
            seat.settle();
        }
        *inner.seats.lock() = seats.into_iter().map(Some).collect();
        let _ = inner.queue.set(queue);
        inner
    }

    pub(crate) fn queue(&self) -> &Arc<Queue<Work>> {
        match self.queue.get() {
            Some(queue) => queue,
            None => unreachable!("set when the pool is made"),
        }
    }

    /// Its name, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many domains the pool may have.
    pub(crate) fn workers(&self) -> usize {
        self.domains.len()
    }

    /// Makes a worker look for work; its domain is made if it does not exist.
    fn poke(self: &Arc<Self>, worker: usize) {
        if self.queue().is_closed() && !self.queue().has_tasks() && self.domains[worker].get().is_none() {
            // Nobody will sit here: a seat that is dropped passes its call on.
            drop(self.seats.lock()[worker].take());
            return;
        }
        // Nobody of the program is left to have called.
        let Some(runtime) = self.runtime.upgrade() else { return };
        // Whoever comes while another thread makes the domain waits for it: its pump may have looked for work
        // already.
        let domain = self.domains[worker].get_or_init(|| {
            let seat = self.seats.lock()[worker].take();
            let pool = Arc::clone(self);
            let start: crate::domain::Start = Box::new(move |domain, proof| {
                if let Some(seat) = seat {
                    match proof {
                        Ok(vm) => {
                            domain.owner(vm).take_seat(pool, seat);
                            vm.guard_loaded_globals();
                        }
                        Err((owned, _)) => domain.holder(owned).take_seat(pool, seat),
                    }
                }
            });
            Domain::spawn(&runtime, Some(format!("{}/{}", self.name, worker + 1)), None, start)
        });
        domain.poke();
    }

    /// Queues work, from a domain of the pool or any other. It comes back if the pool is closed.
    pub(crate) fn submit(self: &Arc<Self>, vm: &mut Vm, work: Work) -> Result<(), Work> {
        self.submit_as(vm, work, Priority::Normal)
    }

    /// As [`Inner::submit`], with this priority.
    fn submit_as(self: &Arc<Self>, vm: &mut Vm, work: Work, priority: Priority) -> Result<(), Work> {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        let is_task = matches!(work, Work::Task(_)) as usize;
        self.waiting_tasks.fetch_add(is_task, Ordering::Relaxed);
        let refused = match Domain::of(vm).ok().and_then(|owner| owner.seat_in(self)) {
            Some(seat) if priority == Priority::Normal => seat.push(work),
            _ => self.queue().inject_as(work, priority),
        };
        if refused.is_err() {
            self.waiting_tasks.fetch_sub(is_task, Ordering::Relaxed);
            self.finished();
        }
        refused
    }

    /// Queues the next task of a lane behind all others, also if the pool is closed. By one of its domains.
    pub(crate) fn queue_next(&self, task: Arc<Task>) {
        self.waiting_tasks.fetch_add(1, Ordering::Relaxed);
        self.queue().inject_next(Work::Task(task));
    }

    /// How many tasks are queued; a hint.
    pub(crate) fn waiting_tasks(&self) -> usize {
        self.waiting_tasks.load(Ordering::Relaxed)
    }

    /// Whether tasks are queued; a hint.
    pub(crate) fn has_waiting_tasks(&self) -> bool {
        self.waiting_tasks.load(Ordering::Relaxed) != 0
    }

    /// Queues a part of work that runs in this domain, also if the pool is closed.
    pub(crate) fn submit_part(self: &Arc<Self>, owner: Owner<'_>, part: Part) {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        if let Some(seat) = owner.seat_in(self) {
            seat.push_part(Work::Part(part));
        } else {
            debug_assert!(false, "parts are split off by the pool's domains");
        }
    }

    /// Work has been queued beside the pool's queue, and is not finished before [`Inner::finished`].
    pub(crate) fn expect(&self) {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
    }

    /// A task or part is finished.
    pub(crate) fn finished(&self) {
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            for waiter in std::mem::take(&mut *self.closers.lock()) {
                waiter.wake(Reason::Ready);
            }
        }
    }

    /// Whether one of its domains has a state to work in.
    pub(crate) fn has_state(&self) -> bool {
        self.domains.iter().any(|d| d.get().is_some_and(|d| d.has_state()))
    }

    /// Work fails because no domain of the pool has a state to do it in.
    #[cold]
    pub(crate) fn refuse(self: &Arc<Self>, work: Work, runtime: &Runtime, lack: &Lack) {
        let failure = End::Failed(Arc::new(Failure::lacking(&self.name, lack)));
        match work {
            Work::Part(part) => loops::refuse(part, self, failure),
            Work::Task(task) => {
                self.waiting_tasks.fetch_sub(1, Ordering::Relaxed);
                let lane = task.lane.clone();
                task.outcome.complete(failure.clone(), runtime);
                self.finished();
                while let Some(task) = lane.as_ref().and_then(|lane| self.lanes.next(lane)) {
                    task.outcome.complete(failure.clone(), runtime);
                    self.finished();
                }
            }
        }
    }

    /// Starts work in a domain of the pool.
    pub(crate) fn start(self: &Arc<Self>, domain: &Arc<Domain>, vm: &mut Vm, work: Work) {
        match work {
            Work::Task(task) => {
                self.waiting_tasks.fetch_sub(1, Ordering::Relaxed);
                task.start(self, domain, vm);
            }
            Work::Part(part) => loops::start(part, self, domain, vm),
        }
    }
}

// -- Tasks --------------------------------------------------------------------------------------------------

/// A call that a pool makes.
pub struct Task {
    parcel: Mutex<Option<Parcel>>,
    outcome: Arc<Outcome>,
    /// It is to stop; said before `running` is looked at, and looked at after `running` has been said.
    cancelled: AtomicBool,
    /// Where it runs.
    running: Mutex<Option<(Weak<Domain>, u64)>>,
    /// The lane that goes on when it has ended.
    lane: Option<Arc<LaneKey>>,
    /// How its results cross.
    results: PackRules,
}

impl SharedObject for Task {
    fn kind(&self) -> &'static SharedKind {
        &TASK
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

/// What it is to be called with is not told: while there is such a thing, some queue has the task.
impl Holder for Task {
    fn held(&self, to: &mut Held<'_>) {
        to.counted(&self.outcome);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        charge_messages(-Task::BYTES);
    }
}

impl Task {
    /// What the program's account has of each, in bytes, its parcel and results left out: or a queue of tasks
    /// that bring nothing would cost nothing.
    const BYTES: isize = (size_of::<Task>() + size_of::<Outcome>() + 4 * size_of::<usize>()) as isize;

    /// A task that has not been queued. `lane` and `whose` say whose outcome it has.
    pub(crate) fn new(
        vm: &mut Vm,
        parcel: Parcel,
        lane: Option<Arc<LaneKey>>,
        whose: Cow<'static, str>,
    ) -> Arc<Task> {
        Task::with_results(vm, parcel, lane, whose, PackRules::RESULT)
    }

    /// As [`Task::new`]; its results cross by these rules.
    fn with_results(
        vm: &mut Vm,
        mut parcel: Parcel,
        lane: Option<Arc<LaneKey>>,
        whose: Cow<'static, str>,
        results: PackRules,
    ) -> Arc<Task> {
        races::sent(vm, &mut parcel);
        charge_messages(Task::BYTES);
        Arc::new(Task {
            parcel: Mutex::new(Some(parcel)),
            outcome: Outcome::new(whose, ObjectKind::Task),
            cancelled: AtomicBool::new(false),
            running: Mutex::new(None),
            lane,
            results,
        })
    }

    /// What follows from it comes after it.
    fn ended(&self, vm: &mut Vm, pool: &Inner) {
        self.outcome.order.leave(vm);
        pool.order.leave(vm);
        if let Some(lane) = &self.lane {
            pool.lane_orders.leave(vm, lane);
        }
    }

    /// It comes after what started it, and after the tasks of its lane before it.
    #[cold]
    #[inline(never)]
    fn begin_strand(&self, pool: &Inner, owner: Owner<'_>, fiber: u64, parcel: &Parcel) {
        let mut strand = races::started(&races::moment(parcel), races::Kind::Task);
        if let Some(lane) = &self.lane {
            pool.lane_orders.begin(&mut strand, lane);
        }
        owner.begin_strand(fiber, strand);
    }

    /// The running call has made it: if it wants no results, the task is nobody's. Before it is queued.
    pub(crate) fn is_for(&self, vm: &Vm) {
        if vm.results_are_discarded() {
            self.outcome.is_nobodys();
        }
    }

    /// What the call that made it returns.
    pub(crate) fn hand_out(self: Arc<Task>, vm: &mut Vm) -> LuaResult<u32> {
        if vm.results_are_discarded() {
            return Ok(0);
        }
        let task = vm.shared_ref(self);
        vm.ret(task)
    }

    /// What it comes to.
    pub(crate) fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// It will never run, and nobody is going to ask.
    pub(crate) fn dismiss(&self) {
        self.outcome.dismiss();
    }

    /// It will never run.
    pub(crate) fn abandon(&self) {
        self.outcome.cancel();
    }

    /// It has been made by the running code, to call `f`.
    pub(crate) fn report_created(&self, vm: &mut Vm, f: Value) {
        if on(Category::Task) {
            let name = Name(vm.function_number(f));
            emit(event::TaskCreated { task: self.outcome.identity.get(), name });
        }
    }

    /// It has been taken from the queue of another seat.
    pub(crate) fn report_stolen(&self, victim: usize) {
        if on(Category::Task) {
            let seat = Few::of(victim as u64);
            emit(event::TaskStolen { task: self.outcome.identity.get(), seat });
        }
    }

    fn start(self: Arc<Task>, pool: &Arc<Inner>, domain: &Arc<Domain>, vm: &mut Vm) {
        let lane = self.lane.clone();
        match self.launch(pool, domain, vm, 0) {
            Some(id) => domain.run(vm, id),
            None => {
                if let Some(lane) = lane {
                    lane::go_on(&lane, pool, domain, vm, 0);
                }
            }
        }
    }

    /// Makes the fiber of a task; `None` if the task has ended without one. Its end lets its lane go on:
    /// `turns` events of that have begun here one after the other.
    pub(crate) fn launch(
        self: Arc<Task>,
        pool: &Arc<Inner>,
        domain: &Arc<Domain>,
        vm: &mut Vm,
        turns: u32,
    ) -> Option<u64> {
        let parcel = self.parcel.lock().take();
        let Some(parcel) = parcel.filter(|_| !self.cancelled.load(Ordering::Acquire)) else {
            self.outcome.cancel();
            pool.finished();
            return None;
        };
        let below = vm.nargs();
        let mut function = 0;
        let started = outcome::unpack(vm, &parcel).and_then(|n| {
            debug_assert_eq!(vm.nargs(), below + n);
            let (task, pool) = (Arc::clone(&self), Arc::clone(pool));
            let done: Done = Box::new(move |domain, vm, end| {
                let running = task.running.lock().take();
                if let Some((_, fiber)) = &running {
                    vm.end_strand(*fiber);
                }
                if on(Category::Task) {
                    let ending = match &end {
                        FiberEnd::Returned(_) => Ending::Returned,
                        FiberEnd::Failed { .. } => Ending::Failed,
                        FiberEnd::Cancelled => Ending::Cancelled,
                    };
                    let fiber = running.map_or(FiberRef(0), |(_, id)| vm.fiber_ref(id));
                    emit(event::TaskEnd { task: task.outcome.identity.get(), fiber, ending });
                }
                let function = task.outcome.function();
                let end = conclude_by(vm, end, domain, task.results, function);
                task.ended(vm, &pool);
                task.outcome.complete(end, domain.runtime());
                pool.finished();
                if let Some(lane) = &task.lane {
                    lane::go_on(lane, &pool, domain, vm, turns);
                }
            });
            let id = with_values(vm, below + 1, |vm, values| {
                function = match named_after(vm, values[0], &values[1..]) {
                    0 => vm.function_number(values[0]),
                    number => number,
                };
                domain.add_fiber(vm, values[0], &values[1..], done)
            });
            vm.truncate(below);
            id
        });
        if let Ok(id) = started
            && races::on()
        {
            self.begin_strand(pool, domain.owner(vm), id, &parcel);
        }
        drop(parcel);
        match started {
            Ok(id) => {
                vm.begin_strand(id);
                *self.running.lock() = Some((Arc::downgrade(domain), id));
                self.outcome.set_function(function);
                if on(Category::Task) {
                    emit(event::TaskStart { task: self.outcome.identity.get(), fiber: vm.fiber_ref(id) });
                }
                if self.cancelled.load(Ordering::Acquire) {
                    domain.cancel(&[id], Finishes::First);
                }
                Some(id)
            }
            Err(e) => {
                let value = vm.host_error(e);
                vm.push(value);
                let end = conclude(vm, FiberEnd::Failed { traceback: Vec::new() }, domain);
                vm.truncate(below);
                self.outcome.complete(end, domain.runtime());
                pool.finished();
                None
            }
        }
    }
}

/// The outcome of a task, if the object is one.
pub(crate) fn outcome(object: &dyn SharedObject) -> Option<&Outcome> {
    let object: &dyn Any = object;
    object.downcast_ref::<Task>().map(|task| &*task.outcome)
}

fn open_task(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    Domain::of(vm)?.domain.expect_handles();
    fill(vm, mt, &[&AWAIT, &CANCEL, &STATUS], &[("__close", &CANCEL)])
}

fn task(vm: &mut Vm, n: u32) -> LuaResult<Arc<Task>> {
    vm.check_shared_arc(n, &TASK)
}

impl Selectable for Task {
    fn take(&self, vm: &mut Vm, _: Value) -> LuaResult<Option<u32>> {
        match self.outcome.poll() {
            Some(end) => outcome::deliver(vm, &self.outcome, &end).map(Some),
            None => Ok(None),
        }
    }
    fn watch(&self, waiter: &Arc<Waiter>, case: u32) -> bool {
        self.outcome.watch(waiter, case)
    }
    fn describe(&self) -> String {
        self.outcome.whose.clone().into_owned()
    }
}

/// `task:await([seconds])`: all results of the task's function, or its error; `nil, "timeout"`.
static AWAIT: Native = Native::hybrid("await", |vm| {
    let t = task(vm, 1)?;
    let limit = opt_limit(vm, 2)?;
    outcome::wait_for(vm, &t.outcome, Verb::Awaits, limit)
});

/// `task:cancel()`: true if the task was not finished. It stops at its next call, loop iteration or wait.
static CANCEL: Native = Native::leaf("cancel", |vm| {
    let t = task(vm, 1)?;
    let pending = !t.outcome.is_done();
    if pending {
        t.cancelled.store(true, Ordering::Release);
        if let Some((domain, id)) = t.running.lock().clone() {
            if let Some(domain) = domain.upgrade() {
                domain.cancel(&[id], Finishes::First);
            }
        } else if t.parcel.lock().is_some() {
            // Still queued: its outcome is known, and whoever takes it drops it.
            t.outcome.cancel();
        }
    }
    vm.ret(pending)
});

/// `task:status()`: "pending", "done", "failed", "cancelled".
static STATUS: Native = Native::leaf("status", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let t = task(vm, 1)?;
    let end = t.outcome.peek();
    if end.is_some() {
        t.outcome.order.enter(vm);
    }
    let status = match end {
        None => "pending",
        Some(End::Returned(_)) => "done",
        Some(End::Failed(..)) => "failed",
        Some(End::Cancelled) => "cancelled",
    };
    vm.ret_str(status.as_bytes())
});

/// The tasks in argument 1, a list, and how long to wait for them.
fn tasks(vm: &mut Vm) -> LuaResult<(Vec<Arc<Task>>, Limit)> {
    let options = options::list(vm, 1, &["timeout"])?;
    let (list, limit) = (options.table(), options.span(vm, "timeout")?);
    let mut tasks = Vec::new();
    for i in 1..=vm.raw_len(list) {
        let v = vm.raw_get_int(list, i);
        match v.as_shared().and_then(|r| downcast_arc(r.object().clone()).ok()) {
            Some(task) => tasks.push(task),
            None => {
                let text = format!("element {i} is no task (a {} value)", v.type_name());
                return Err(vm.arg_error(1, &text));
            }
        }
    }
    Ok((tasks, limit))
}

/// `pl.await_all{t1, t2, ..., timeout = seconds}`: the first result of each task, in order, after all have
/// ended; the error of the first that failed; `nil, "timeout"`.
pub static AWAIT_ALL: Native = Native::hybrid("await_all", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let (tasks, limit) = tasks(vm)?;
    // All waits of the call end at one time.
    let mut deadline = None;
    while let Some(pending) = tasks.iter().find(|t| !t.outcome.is_done()) {
        match wait::woken(vm)? {
            Turn::First => {
                let at = *deadline.get_or_insert_with(|| limit.deadline());
                if at.is_some_and(|at| at <= Instant::now()) {
                    return refuse_late(vm);
                }
                let waiter = wait::begin(vm, Verb::Awaits, Object::Outcome(Arc::clone(&pending.outcome)))?;
                wait::set_data(vm, at);
                wait::limit_at(vm, at)?;
                if pending.outcome.watch(&waiter, 0) && wait::sleeps(vm) {
                    return Err(vm.park());
                }
                wait::finish(vm);
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(..) => {
                deadline = wait::data::<Option<Instant>>(vm).map(|at| *at);
                wait::finish(vm);
            }
        }
    }
    wait::finish(vm);
    let ends: Vec<_> = tasks.iter().map(|t| (t, t.outcome.poll())).collect();
    for (task, end) in &ends {
        task.outcome.order.enter(vm);
        if let Some(end @ (End::Failed(..) | End::Cancelled)) = end {
            return outcome::deliver(vm, &task.outcome, end);
        }
    }
    for (task, end) in &ends {
        let Some(end) = end else { continue };
        let below = vm.nargs();
        let n = outcome::deliver(vm, &task.outcome, end)?;
        vm.truncate(below + n.min(1));
        if n == 0 {
            vm.ensure_stack(1)?;
            vm.push(Value::NIL);
        }
    }
    Ok(ends.len() as u32)
});

/// `pl.await_any{t1, t2, ..., timeout = seconds}`: the number of a task that has ended, and its results, or
/// its error; `nil, "timeout"`.
pub static AWAIT_ANY: Native = Native::hybrid("await_any", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let (tasks, limit) = tasks(vm)?;
    if tasks.is_empty() {
        return Err(vm.arg_error(1, "there is no task to wait for"));
    }
    loop {
        if let Some(n) = tasks.iter().position(|t| t.outcome.is_done()) {
            wait::finish(vm);
            let Some(end) = tasks[n].outcome.poll() else { continue };
            vm.push(Value::int(n as i64 + 1));
            return Ok(outcome::deliver(vm, &tasks[n].outcome, &end)? + 1);
        }
        match wait::woken(vm)? {
            Turn::First if limit.is_over() => return refuse_late(vm),
            Turn::First => {
                let waiter = wait::begin(vm, Verb::Selects, Object::Words(format!("{} tasks", tasks.len())))?;
                limit.set(vm)?;
                let pending = tasks.iter().enumerate().all(|(n, t)| t.outcome.watch(&waiter, n as u32));
                if pending && wait::sleeps(vm) {
                    return Err(vm.park());
                }
                wait::finish(vm);
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(Reason::Timeout, _) => {
                wait::finish(vm);
                return refuse_late(vm);
            }
            Turn::Woken(..) => {}
        }
    }
});

// -- Pools --------------------------------------------------------------------------------------------------

/// Adds `pl.pool`.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    let t = vm.new_table(0, 2)?;
    vm.set_field(pl, "pool", t.into())?;
    vm.register(t, &[&NEW, &DEFAULT])?;
    vm.register(pl, &[&AWAIT_ALL, &AWAIT_ANY, &actor::NEW])
}

fn open_pool(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[
            &ASYNC,
            &lane::LANE,
            &actor::IN_POOL,
            &CLOSE,
            &WORKERS,
            &loops::PARALLEL_FOR,
            &loops::PARALLEL_REDUCE,
            &loops::PARALLEL_FIND,
        ],
        &[("__close", &AT_SCOPE_END)],
    )?;
    loops::add_prelude(vm, mt)
}

/// `pl.pool.new{workers =, name =}`
static NEW: Native = Native::leaf("new", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let mut workers = threads::available_cores() as i64;
    let mut name = "pool".to_owned();
    if let Some(options) = options::check(vm, 1, &["workers", "name"])? {
        workers = options.int(vm, "workers", 1, MOST_WORKERS)?.unwrap_or(workers);
        name = options.string(vm, "name")?.unwrap_or(name);
    }
    let runtime = Arc::clone(Domain::of(vm)?.domain.runtime());
    let pool = vm.shared_ref(Arc::new(Pool { inner: Inner::new(&runtime, workers as usize, name) }));
    vm.ret(pool)
});

/// `pl.pool.default()`: the program's common pool, one domain for each core that the process may use.
static DEFAULT: Native = Native::leaf("default", |vm| {
    surplus::none_behind(vm, 0, surplus::Limit::Own)?;
    let pool = default_pool(vm)?;
    let pool = vm.shared_ref(pool);
    vm.ret(pool)
});

fn default_pool(vm: &mut Vm) -> LuaResult<Arc<Pool>> {
    let runtime = Arc::clone(Domain::of(vm)?.domain.runtime());
    Ok(runtime.default_pool(|| {
        Arc::new(Pool { inner: Inner::new(&runtime, threads::available_cores(), "default".to_owned()) })
    }))
}

/// The inside of the program's common pool.
pub(crate) fn default(vm: &mut Vm) -> LuaResult<Arc<Inner>> {
    Ok(Arc::clone(&default_pool(vm)?.inner))
}

pub(crate) fn this(vm: &mut Vm) -> LuaResult<Arc<Inner>> {
    let pool: &Pool = vm.check_shared(1, &POOL)?;
    Ok(Arc::clone(&pool.inner))
}

/// Raises that the pool is closed.
pub(crate) fn closed(vm: &mut Vm, pool: &Inner) -> perilune_vm::Thrown {
    vm.error(format!("pool '{}' is closed", pool.name))
}

/// The option `priority` of a table of options.
fn priority(vm: &mut Vm, options: &options::Options) -> LuaResult<Priority> {
    let v = options.get(vm, "priority")?;
    Ok(match v.as_string().map(|s| s.to_text()).as_deref() {
        None if v.is_nil() => Priority::Normal,
        Some("high") => Priority::High,
        Some("normal") => Priority::Normal,
        Some("low") => Priority::Low,
        Some(other) => {
            let text = format!("option 'priority' must be 'high', 'normal' or 'low', not '{other}'");
            return Err(vm.arg_error(2, &text));
        }
        None => return Err(options.wrong(vm, "priority", "'high', 'normal' or 'low'", v)),
    })
}

/// `pool:async([{priority = p},] f, ...)`
static ASYNC: Native = Native::leaf("async", |vm| {
    let pool = this(vm)?;
    let (first, priority) = match options::opt(vm, 2, &["priority"])? {
        Some(options) => (3, priority(vm, &options)?),
        None => (2, Priority::Normal),
    };
    vm.check_type(first, Type::Function)?;
    if pool.queue().is_closed() {
        return Err(closed(vm, &pool));
    }
    let f = vm.arg(first);
    // The tasks of `map` and its like are waited for, and return what the program's function has returned.
    let (sent, results) = if vm.is_own_function(f) {
        (PackRules::PART, PackRules::COLLECTED)
    } else {
        (PackRules::TASK, PackRules::RESULT)
    };
    let parcel = with_values(vm, first, |vm, values| vm.pack_or_raise(values, sent))?;
    let task = Task::with_results(vm, parcel, None, "a task".into(), results);
    task.is_for(vm);
    task.report_created(vm, f);
    if pool.submit_as(vm, Work::Task(Arc::clone(&task)), priority).is_err() {
        task.dismiss();
        return Err(closed(vm, &pool));
    }
    task.hand_out(vm)
});

/// `pool:workers()`: how many domains the pool may have.
static WORKERS: Native = Native::leaf("workers", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let n = this(vm)?.workers() as i64;
    vm.ret(n)
});

/// `pool:close([{timeout = seconds}])`: refuses new work, and waits until all there is has been done: true,
/// or `nil, "timeout"`.
static CLOSE: Native = Native::leaf("close", |vm| {
    let limit = opt_limit(vm, 2)?;
    close(vm, limit)
});

/// The pool goes out of scope, by an error perhaps: as `pool:close()`.
static AT_SCOPE_END: Native = Native::leaf("close", |vm| close(vm, Limit::None));

fn close(vm: &mut Vm, limit: Limit) -> LuaResult<u32> {
    let pool = this(vm)?;
    pool.queue().close();
    if Domain::of(vm)?.seat_in(&pool).is_some() {
        return Err(vm.error("a task cannot close the pool that runs it"));
    }
    loop {
        match wait::woken(vm)? {
            Turn::First => {
                let waiter = wait::begin(vm, Verb::Closes, Object::Words(format!("pool '{}'", pool.name)))?;
                pool.closers.lock().push(Arc::clone(&waiter));
                if pool.unfinished.load(Ordering::Acquire) == 0 {
                    wait::finish(vm);
                    pool.order.enter(vm);
                    return vm.ret(true);
                }
                if limit.is_over() {
                    wait::finish(vm);
                    return refuse_late(vm);
                }
                limit.set(vm)?;
                if wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(Reason::Timeout, _) => {
                wait::finish(vm);
                return refuse_late(vm);
            }
            Turn::Woken(..) => {
                wait::finish(vm);
                pool.order.enter(vm);
                return vm.ret(true);
            }
        }
    }
}
