//! Structured concurrency: `pl.scope`, `pl.timeout`, `pl.shield`, and the fibers in them (`fiber.rs`).
//!
//! # Terms
//! A *fiber* here is a fiber of the running domain that a program has started and has a handle of. A *scope*
//! is a call whose fibers do not outlive it. Its *body* is the function that it was given; the body is a
//! fiber as well. *Workers* are the body and what was spawned; *daemons* are fibers that the scope does not
//! wait for.
//!
//! # How
//! Whatever can be cancelled is a fiber. So the body of a scope, of a timeout, of a shield is one, and the
//! caller only waits for the scope's end ([`RUN`]). A cancellation of the body unwinds it up to its own root
//! and no further, whether the caller is a fiber or the main program, and needs no marks on the caller's
//! stack.
//!
//! ```text
//! caller:  pl.scope(f) --- open --- run: waits ............................ results or error
//! body:                             f(s) --- s:spawn(g) --- returns         |
//! g:                                              +--- ... -- ends ---------+
//! ```
//!
//! The functions that programs call are in Lua (`concurrent.lua`) for one reason: they hold the scope in a
//! to-be-closed variable. So however the caller leaves the call (an error, an interrupt, a cancellation of
//! the caller itself), [`CLOSE`] cancels what still runs and waits until it has unwound. Closing methods may
//! wait, also those that a cancellation calls.
//!
//! # What happens when
//! * A fiber fails: it is the scope's failure if it is the first; all others are cancelled. The caller gets
//!   its error, with the traceback of the fiber in a text.
//! * The last worker ends: daemons are cancelled.
//! * One that takes part in a race ends: the others are cancelled before any of them runs again. What they
//!   have waited for and not yet used stays where it is ([`Finishes::Nothing`]), so a race of reads loses
//!   nothing.
//! * The last fiber ends: the scope is over. The caller gets the failure; else what the body has returned;
//!   else, if the body was cancelled, `nil` and why.
//! * The time of a timeout is over: as if the scope was cancelled because of "timeout". A body that has
//!   returned by then has returned.
//! * The caller is cancelled while it waits: the scope is; that of a shield is not, and only waited for. If
//!   the body has returned something all the same, that is the caller's, who is cancelled after it has used
//!   it ([`Vm::has_delivered`]): what the body has read is nowhere else any more. If the scope has failed,
//!   the caller does not get the error; should nobody else have got it, standard error is told when the
//!   variable is closed.
//!
//! # Who touches what
//! A scope, its fibers and their values belong to one domain; handles are userdata, which do not cross.
//! Everything here is done by the domain's owner, except that an interrupt by the user cancels the scope that
//! the main program waits for, on the thread that has seen it, and that the time of a timeout ends on the
//! timers' thread, which cancels the scope as [`Scope::cancel`] says. So a body that computes without waiting
//! is cancelled as well: the owner could not come to it. Hence the locks.
//!
//! Values (results, errors) are kept where the collector sees them: as user values of handles. The registry
//! has the handles of all fibers that run ([`fiber::running`]), so an end finds its handle, and running code
//! its scope. A scope has the handle of the fiber that failed, and of its body.
//!
//! # Rejected
//! See `docs/parallel-design.md`, section 10.

pub(crate) mod fiber;
mod live;

use crate::domain::{Domain, Finishes, running_fiber};
use crate::module::PRELUDE_NAME;
use crate::outcome::Outcome;
use crate::sched::{TimerId, timer};
use crate::surplus;
use crate::time::check_span;
use crate::wait::{self, Object, Turn};
use fiber::{Fiber, How, Place};
use live::Live;
use parking_lot::Mutex;
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Userdata, Value, Vm};
use std::sync::Arc;
use std::time::Instant;

/// Key of the metatable of scopes in the registry.
const SCOPE: &str = "perilune.scope";
/// User value of a scope: the handle of the fiber whose failure is the scope's.
const FAILED: i64 = 1;
/// User value of a scope: the handle of its body.
const BODY: i64 = 2;

/// What a scope is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// `pl.scope`
    Scope,
    /// `pl.timeout`
    Timeout,
    /// `pl.shield`: a cancellation of the caller does not reach it.
    Shield,
    /// `pl.race`: the first of its daemons that ends has the others cancelled, and what these were about to
    /// get is left to others.
    Race,
}

impl Purpose {
    /// What programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Scope => "scope",
            Purpose::Timeout => "timeout",
            Purpose::Shield => "shield",
            Purpose::Race => "race",
        }
    }
}

/// A scope.
pub(crate) struct Scope {
    purpose: Purpose,
    /// Known when the last fiber has ended.
    over: Arc<Outcome>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Live<Arc<Fiber>>,
    /// Of them, those that are no daemons.
    workers: usize,
    /// Its body has been started.
    begun: bool,
    /// What ends its time.
    timer: Option<TimerId>,
    /// When its time is over, or that of one around it.
    deadline: Option<Instant>,
    /// It is cancelled, because of this.
    cancelled: Option<Option<Arc<str>>>,
    /// One of its fibers has failed.
    failed: bool,
}

/// A scope as programs handle it.
struct Handle(Arc<Scope>);

impl Scope {
    /// Has nothing more to wait for: it is over, or has never begun.
    fn is_idle(&self) -> bool {
        !self.state.lock().begun || self.over.is_done()
    }

    /// When the last fiber has ended.
    pub(crate) fn over(&self) -> &Arc<Outcome> {
        &self.over
    }

    /// Its caller is cancelled, or leaves it.
    pub(crate) fn leave(&self) {
        if self.purpose != Purpose::Shield {
            self.cancel(Some("the scope was left".into()));
        }
    }

    /// Cancels what runs, and whatever is started from now on. False: it was cancelled.
    pub(crate) fn cancel(&self, why: Option<Arc<str>>) -> bool {
        let mut state = self.state.lock();
        if state.cancelled.is_some() {
            return false;
        }
        state.cancelled = Some(why.clone());
        let live = state.live.all();
        drop(state);
        Fiber::cancel_all(live.iter().map(Arc::as_ref), &why, Finishes::First);
        true
    }

    /// A fiber has been made and not begun.
    fn admit(&self, fiber: &Arc<Fiber>) {
        let mut state = self.state.lock();
        state.begun = true;
        state.workers += !fiber.is_daemon as usize;
        let place = state.live.add(Arc::clone(fiber));
        fiber.set_place_in_scope(place);
        let cancelled = state.cancelled.clone();
        drop(state);
        if let Some(why) = cancelled {
            fiber.cancel(why);
        }
    }

    /// One has ended. `handles`: the scope's and the fiber's. True: it has failed after another one, whose
    /// error is the scope's; nobody gets its own.
    fn child_ended(&self, vm: &mut Vm, handles: Option<(Gc<Userdata>, Gc<Userdata>)>, fiber: &Fiber) -> bool {
        self.over.order.leave(vm);
        let mut state = self.state.lock();
        let known = state.live.remove(fiber.place_in_scope());
        debug_assert!(known, "each ends once");
        state.workers -= !fiber.is_daemon as usize;
        let is_lost = fiber.how() == How::Failed && state.failed;
        let is_failure = fiber.how() == How::Failed && !is_lost;
        state.failed |= is_failure;
        let (idle, done) = (state.workers == 0, state.live.is_empty());
        let timer = if done { state.timer.take() } else { None };
        // Before any of them runs again.
        let is_won = self.purpose == Purpose::Race && fiber.is_daemon;
        let mut lost = if is_won { state.live.untold() } else { Vec::new() };
        lost.retain(|other| other.is_daemon);
        // What is left are daemons.
        let daemons = if idle && !is_failure { state.live.untold() } else { Vec::new() };
        drop(state);
        let why = Some("another one was faster".into());
        Fiber::cancel_all(lost.iter().map(Arc::as_ref), &why, Finishes::Nothing);
        if is_failure {
            if let Some((scope, failed)) = handles {
                vm.set_user_value(scope, FAILED, failed.into());
            }
            self.cancel(Some("another fiber of the scope failed".into()));
        }
        let why = Some("the scope was done".into());
        Fiber::cancel_all(daemons.iter().map(Arc::as_ref), &why, Finishes::First);
        if let Some(timer) = timer {
            timer::cancel(timer);
        }
        if done {
            self.over.cancel();
        }
        is_lost
    }
}

/// The scope in a userdata, if it is one.
fn scope_of(v: Value) -> Option<Arc<Scope>> {
    // SAFETY: what is asked for is an argument, or the user value of one. Nobody borrows it mutably.
    unsafe { v.as_userdata()?.data::<Handle>() }.map(|handle| Arc::clone(&handle.0))
}

fn this(vm: &mut Vm) -> LuaResult<(Gc<Userdata>, Arc<Scope>)> {
    match (vm.arg(1).as_userdata(), scope_of(vm.arg(1))) {
        (Some(handle), Some(scope)) => Ok((handle, scope)),
        _ => Err(vm.type_error(1, "scope")),
    }
}

/// The metatable of a kind of handles, made when it is first asked for.
fn metatable(
    vm: &mut Vm,
    key: &str,
    name: &str,
    methods: &[&'static Native],
    events: &[(&str, &'static Native)],
) -> LuaResult<Gc<Table>> {
    let (mt, is_new) = vm.new_metatable(key)?;
    if is_new {
        crate::objects::fill(vm, mt, methods, events)?;
        let name = vm.value_str(name.as_bytes())?;
        vm.set_field(mt, "__name", name)?;
        vm.set_field(mt, "__metatable", Value::FALSE)?;
    }
    Ok(mt)
}

/// Adds what programs call.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    vm.register(pl, &[&fiber::NEW, &fiber::YIELD])?;
    for (name, prelude) in [
        ("scope", "scope"),
        ("timeout", "timeout"),
        ("shield", "shield"),
        ("all", "all"),
        ("race", "race"),
        ("each", "each_element"),
    ] {
        let f = crate::module::prelude(vm, prelude)?;
        vm.set_field(pl, name, f)?;
    }
    Ok(())
}

/// `open_scope(purpose)`: a scope that has not begun. For the prelude.
pub(crate) static OPEN: Native = Native::leaf("open_scope", |vm| {
    let purposes = [Purpose::Scope, Purpose::Timeout, Purpose::Shield, Purpose::Race];
    let purpose = purposes[vm.check_option(1, None, &purposes.map(Purpose::name))?];
    let place = vm.running_site(Some(PRELUDE_NAME));
    let whose = match place {
        Some(site) => format!("the {} at {site}", purpose.name()).into(),
        None => format!("a {}", purpose.name()).into(),
    };
    let scope = Scope { purpose, over: Outcome::new(whose, ObjectKind::Scope), state: Mutex::default() };
    let handle = vm.new_userdata(Handle(Arc::new(scope)), 2)?;
    let methods = [&SPAWN, &DAEMON, &CANCEL];
    let mt = metatable(vm, SCOPE, "scope", &methods, &[("__close", &CLOSE)])?;
    vm.set_metatable_of(handle.into(), Some(mt))?;
    vm.ret(Value::from(handle))
});

/// `run_scope(scope, seconds, f, ...)`: runs `f(...)` as the body and waits for the end. For the prelude,
/// which has checked the arguments.
pub(crate) static RUN: Native = Native::leaf("run_scope", |vm| {
    let (handle, scope) = this(vm)?;
    loop {
        if scope.over.is_done() {
            wait::finish(vm);
            scope.over.order.enter(vm);
            return conclude(vm, handle, &scope);
        }
        match wait::woken(vm)? {
            Turn::First => {
                if !scope.state.lock().begun {
                    vm.may_wait()?;
                    let span = if vm.arg_is_none_or_nil(2) { None } else { check_span(vm, 2)? };
                    let args: Vec<Value> = (4..=vm.nargs()).map(|n| vm.arg(n)).collect();
                    let f = vm.arg(3);
                    let own = span.and_then(|span| Instant::now().checked_add(span));
                    let around = if scope.purpose == Purpose::Shield { None } else { deadline(vm)? };
                    scope.state.lock().deadline = [own, around].into_iter().flatten().min();
                    let place = Place::Body(scope.over.whose.clone());
                    let body = fiber::start(vm, Some((handle, &scope)), place, false, f, &args)?;
                    vm.set_user_value(handle, BODY, body.into());
                    if let Some(deadline) = own {
                        let hold = domain(vm)?.runtime().quiescence().hold();
                        let late = Arc::clone(&scope);
                        let timer = timer::after(deadline, move || {
                            late.cancel(Some("timeout".into()));
                            drop(hold);
                        });
                        scope.state.lock().timer = Some(timer);
                    }
                }
                if running_fiber(vm).is_none() {
                    Domain::of(vm)?.domain.set_root_scope(&scope);
                }
                let waiter = wait::begin(vm, Verb::WaitsFor, Object::Scope(Arc::clone(&scope)))?;
                if !scope.over.watch(&waiter, 0) {
                    wait::finish(vm);
                    continue;
                }
                if wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(..) => wait::finish(vm),
        }
    }
});

/// When the time of the running code is over, if a timeout is around it.
pub(crate) fn deadline(vm: &mut Vm) -> LuaResult<Option<Instant>> {
    let scope = fiber::current_scope(vm)?.and_then(|handle| scope_of(handle.into()));
    Ok(scope.and_then(|scope| scope.state.lock().deadline))
}

/// What the caller of a scope that is over gets.
fn conclude(vm: &mut Vm, handle: Gc<Userdata>, scope: &Scope) -> LuaResult<u32> {
    if let Some(failed) = vm.user_value(handle, FAILED).and_then(Value::as_userdata) {
        vm.give_in()?;
        return Err(fiber::raise(vm, failed));
    }
    let Some(body) = vm.user_value(handle, BODY).and_then(Value::as_userdata) else { return Ok(0) };
    if let Some(fiber) = fiber::fiber_of(body.into())
        && fiber.how() == How::Cancelled
    {
        vm.give_in()?;
        let why = scope.state.lock().cancelled.clone().flatten();
        vm.push(Value::NIL);
        vm.push_str(why.as_deref().unwrap_or("cancelled").as_bytes())?;
        return Ok(2);
    }
    let n = fiber::deliver(vm, body)?;
    if n == 0 {
        // There is nothing to be lost.
        vm.give_in()?;
    }
    Ok(n)
}

/// The end of the variable that holds a scope: nothing of it outlives this.
static CLOSE: Native = Native::leaf("close", |vm| {
    let (handle, scope) = this(vm)?;
    loop {
        if scope.is_idle() {
            wait::finish(vm);
            if let Some(failed) = vm.user_value(handle, FAILED).and_then(Value::as_userdata) {
                fiber::tell_unheard(vm, failed)?;
            }
            return Ok(0);
        }
        match wait::woken(vm)? {
            Turn::First => {
                scope.leave();
                let waiter = wait::begin(vm, Verb::Closes, Object::Outcome(Arc::clone(&scope.over)))?;
                if scope.over.watch(&waiter, 0) && wait::sleeps(vm) {
                    return Err(vm.park());
                }
                wait::finish(vm);
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(..) => wait::finish(vm),
        }
    }
});

fn spawn(vm: &mut Vm, is_daemon: bool) -> LuaResult<u32> {
    let (handle, scope) = this(vm)?;
    vm.check_type(2, Type::Function)?;
    if scope.is_idle() {
        return Err(vm.error("the scope has ended: nothing can be started in it any more"));
    }
    let args: Vec<Value> = (3..=vm.nargs()).map(|n| vm.arg(n)).collect();
    let f = vm.arg(2);
    let fiber = fiber::start(vm, Some((handle, &scope)), Place::Unnamed, is_daemon, f, &args)?;
    vm.ret(Value::from(fiber))
}

/// `s:spawn(f, ...)`: a fiber that the scope waits for.
static SPAWN: Native = Native::leaf("spawn", |vm| spawn(vm, false));

/// `s:daemon(f, ...)`: a fiber that is cancelled when the others have ended.
static DAEMON: Native = Native::leaf("daemon", |vm| spawn(vm, true));

/// `s:cancel([why])`: cancels all fibers of the scope, its body too. True: it was not cancelled.
static CANCEL: Native = Native::leaf("cancel", |vm| {
    surplus::none_behind(vm, 2, surplus::Limit::Own)?;
    let (_, scope) = this(vm)?;
    let why = vm.opt_str(2)?.map(|why| why.to_text().into());
    vm.forgo_grace();
    let first = !scope.is_idle() && scope.cancel(why);
    vm.ret(first)
});

/// The domain that runs, counted.
fn domain(vm: &mut Vm) -> LuaResult<Arc<Domain>> {
    Ok(Domain::of(vm)?.domain.counted())
}
