//! Fibers that programs start: `pl.fiber`, `s:spawn`, their handles, `pl.yield`.
//!
//! The essay is in `mod.rs`. A fiber in no scope belongs to its domain, as a timer's does: it is cancelled
//! when the domain ends, and its failure is told on standard error if nobody awaits it. A pool's domains live
//! longer than what runs in them, so there a fiber needs a scope.

use super::{Scope, domain, metatable, scope_of};
use crate::domain::{Domain, Finishes, running_fiber};
use crate::module::error_text;
use crate::outcome::{End, Failure, Outcome};
use crate::outside::Doing;
use crate::races;
use crate::sched::{Reason, Waiter};
use crate::select::Selectable;
use crate::surplus;
use crate::time::{opt_limit, refuse_late};
use crate::untold;
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_trace::event::Verb;
use perilune_trace::{ObjectKind, names};
use perilune_vm::{FiberEnd, Gc, LuaResult, Native, Table, Thrown, Type, Userdata, Value, Vm};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Key of the metatable of fibers in the registry.
const FIBER: &str = "perilune.fiber";
/// Field of the registry: the handles of fibers that have not ended, by their numbers in the domain.
const RUNNING: &str = "perilune.fibers";
/// User value of a fiber: a list of its results with their number, or its error.
const VALUES: i64 = 1;
/// User value of a fiber: the scope that it is in; nil: none.
const SCOPE: i64 = 2;

/// How a fiber ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum How {
    Pending,
    Done,
    Failed,
    Cancelled,
}

/// What reports call a fiber.
pub(crate) enum Place {
    Unnamed,
    Named(String),
    /// The body of this.
    Body(Cow<'static, str>),
    /// It works for a module, which says what it does.
    Module(Doing),
}

/// A fiber that a program has started.
pub(crate) struct Fiber {
    domain: Weak<Domain>,
    id: AtomicU64,
    pub is_daemon: bool,
    scope: Option<Arc<Scope>>,
    /// As how many-th the scope has started it.
    place_in_scope: AtomicU64,
    /// Known when it has ended. It tells a failure if that is nobody else's.
    outcome: Arc<Outcome>,
    how: AtomicU8,
    is_cancelled: AtomicBool,
    /// Another one has won its race: it is no case of the `select` of that any more, however it ends.
    has_lost: AtomicBool,
    why: Mutex<Option<Arc<str>>>,
    place: Mutex<Place>,
    /// Where the error was raised.
    traceback: Mutex<Vec<u8>>,
    /// Somebody has got the error.
    is_heard: AtomicBool,
}

impl Fiber {
    /// Its number in the domain.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// As how many-th its scope has started it.
    pub fn place_in_scope(&self) -> u64 {
        self.place_in_scope.load(Ordering::Relaxed)
    }

    /// Said by its scope, once.
    pub fn set_place_in_scope(&self, place: u64) {
        self.place_in_scope.store(place, Ordering::Relaxed);
    }

    /// How it ended.
    pub fn how(&self) -> How {
        match self.how.load(Ordering::Relaxed) {
            0 => How::Pending,
            1 => How::Done,
            2 => How::Failed,
            _ => How::Cancelled,
        }
    }

    /// It has not ended.
    pub fn is_pending(&self) -> bool {
        self.how() == How::Pending
    }

    /// Has it cancelled. False: it was, or has ended.
    pub fn cancel(&self, why: Option<Arc<str>>) -> bool {
        Fiber::cancel_all(std::iter::once(self), &why, Finishes::First)
    }

    /// Has these of one domain cancelled, in their order. They are told all at once: one that awaits another
    /// is not to be told first that this was cancelled. False: all were, or have ended.
    pub fn cancel_all<'a>(
        fibers: impl Iterator<Item = &'a Fiber>,
        why: &Option<Arc<str>>,
        finishes: Finishes,
    ) -> bool {
        let mut domain = None;
        let mut told = Vec::new();
        for fiber in fibers {
            if fiber.how() == How::Pending && !fiber.is_cancelled.swap(true, Ordering::Relaxed) {
                fiber.has_lost.store(finishes == Finishes::Nothing, Ordering::Relaxed);
                fiber.why.lock().clone_from(why);
                told.push(fiber.id());
                domain.get_or_insert(&fiber.domain);
            }
        }
        if let Some(domain) = domain.and_then(Weak::upgrade) {
            domain.cancel(&told, finishes);
        }
        !told.is_empty()
    }

    /// It is to be cancelled, and has not ended.
    pub fn is_being_cancelled(&self) -> bool {
        self.how() == How::Pending && self.is_cancelled.load(Ordering::Relaxed)
    }

    /// What reports call it.
    pub fn describe(&self) -> String {
        match &*self.place.lock() {
            Place::Named(name) => format!("fiber '{name}'"),
            Place::Unnamed => format!("fiber {}", self.id() as u32),
            Place::Body(whose) => whose.clone().into_owned(),
            Place::Module(doing) => doing.describe(),
        }
    }

    /// It does this, unless the program has given it a name.
    pub fn does(&self, doing: Doing) {
        let mut place = self.place.lock();
        if !matches!(*place, Place::Named(_)) {
            *place = Place::Module(doing);
        }
    }

    /// It has ended: what it did that with is not held any longer.
    fn is_done_with(&self) {
        if let Place::Module(doing) = &mut *self.place.lock() {
            doing.with = None;
        }
    }

    /// What it does for a module, in few words.
    pub fn doing(&self) -> Option<&'static str> {
        match &*self.place.lock() {
            Place::Module(doing) => Some(doing.what),
            _ => None,
        }
    }

    /// Tells standard error that it has failed, and when.
    fn say_failed(&self, domain: &Domain, when: &str, error: Value) {
        let (who, whence, text) = (self.describe(), domain.name(), error_text(error));
        let traceback = String::from_utf8_lossy(&self.traceback.lock()).into_owned();
        untold::say(&format!("perilune: {who} of '{whence}' has failed {when}: {text}\n{traceback}\n"));
    }

    /// What it has become, for whoever waits.
    pub fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }
}

impl Selectable for Fiber {
    fn take(&self, vm: &mut Vm, case: Value) -> LuaResult<Option<u32>> {
        if !self.outcome.is_done() || self.has_lost.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.outcome.dismiss();
        case.as_userdata().map(|handle| deliver(vm, handle)).transpose()
    }
    fn watch(&self, waiter: &Arc<Waiter>, case: u32) -> bool {
        self.outcome.watch(waiter, case)
    }
    fn describe(&self) -> String {
        Fiber::describe(self)
    }
}

/// A fiber as programs handle it.
struct Handle(Arc<Fiber>);

/// The fiber in a userdata, if it is one.
pub(crate) fn fiber_of(v: Value) -> Option<Arc<Fiber>> {
    // SAFETY: what is asked for is an argument, or the user value of one. Nobody borrows it mutably.
    unsafe { v.as_userdata()?.data::<Handle>() }.map(|handle| Arc::clone(&handle.0))
}

fn this(vm: &mut Vm) -> LuaResult<(Gc<Userdata>, Arc<Fiber>)> {
    match (vm.arg(1).as_userdata(), fiber_of(vm.arg(1))) {
        (Some(handle), Some(fiber)) => Ok((handle, fiber)),
        _ => Err(vm.type_error(1, "fiber")),
    }
}

/// The handles of the domain's fibers that have not ended, by number.
fn running(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    let registry = vm.registry();
    if let Some(known) = vm.get_field(registry, RUNNING)?.as_table() {
        return Ok(known);
    }
    let table = vm.new_table(0, 0)?;
    vm.set_field(registry, RUNNING, table.into())?;
    Ok(table)
}

/// Starts a fiber that calls `f`. `args` are in the registers of the running native too.
pub(super) fn start(
    vm: &mut Vm,
    scope: Option<(Gc<Userdata>, &Arc<Scope>)>,
    place: Place,
    is_daemon: bool,
    f: Value,
    args: &[Value],
) -> LuaResult<Gc<Userdata>> {
    let domain = domain(vm)?;
    let stamp = races::stamp(vm);
    let fiber = Arc::new(Fiber {
        domain: Arc::downgrade(&domain),
        id: AtomicU64::new(0),
        is_daemon,
        scope: scope.map(|(_, scope)| Arc::clone(scope)),
        place_in_scope: AtomicU64::new(0),
        outcome: Outcome::new("a fiber".into(), ObjectKind::Fiber),
        how: AtomicU8::new(How::Pending as u8),
        is_cancelled: AtomicBool::new(false),
        has_lost: AtomicBool::new(false),
        why: Mutex::new(None),
        place: Mutex::new(place),
        traceback: Mutex::default(),
        is_heard: AtomicBool::new(false),
    });
    if scope.is_some() {
        fiber.outcome.dismiss();
    } else if vm.results_are_discarded() {
        fiber.outcome.is_nobodys();
    }
    let handle = vm.new_userdata(Handle(Arc::clone(&fiber)), 2)?;
    let mt = metatable(
        vm,
        FIBER,
        "fiber",
        &[&AWAIT, &CANCEL, &STATUS, &NAME],
        &[("__tostring", &TOSTRING), ("__close", &AT_SCOPE_END)],
    )?;
    vm.set_metatable_of(handle.into(), Some(mt))?;
    let of = scope.map_or(Value::NIL, |(scope, _)| scope.into());
    vm.set_user_value(handle, SCOPE, of);
    let running = running(vm)?;
    let mine = Arc::clone(&fiber);
    let id = domain.add_fiber(vm, f, args, Box::new(move |domain, vm, end| ended(&mine, domain, vm, end)))?;
    fiber.id.store(id, Ordering::Relaxed);
    domain.label(id, &fiber);
    if let Place::Body(whose) = &*fiber.place.lock()
        && vm.is_own_function(f)
    {
        domain.name_after(vm, id, whose);
    }
    if stamp.is_some() {
        domain.owner(vm).begin_strand(id, races::started(&stamp, races::Kind::Fiber));
    }
    if let Some((_, scope)) = scope {
        scope.admit(&fiber);
    }
    let known = vm.raw_set_int(running, id as i64, handle.into());
    if known.is_err() {
        // It ends without having run, and without a handle.
        fiber.cancel(None);
    }
    let _ = domain.post(id);
    known.map(|()| handle)
}

/// The fiber has ended; its results or its error are on top of the stack.
fn ended(fiber: &Arc<Fiber>, domain: &Arc<Domain>, vm: &mut Vm, end: FiberEnd) {
    let id = fiber.id();
    let handle = running(vm).ok().and_then(|running| {
        let handle = vm.raw_get_int(running, id as i64).as_userdata();
        let _ = vm.raw_set_int(running, id as i64, Value::NIL);
        handle
    });
    let (how, values, traceback) = match end {
        FiberEnd::Returned(n) => match pack(vm, n) {
            Ok(list) => (How::Done, list.into(), Vec::new()),
            Err(e) => (How::Failed, vm.host_error(e), Vec::new()),
        },
        FiberEnd::Failed { traceback } => (How::Failed, vm.stack_get(vm.nargs()), traceback),
        FiberEnd::Cancelled => (How::Cancelled, Value::NIL, Vec::new()),
    };
    fiber.how.store(how as u8, Ordering::Relaxed);
    fiber.outcome.order.leave(vm);
    let mut end = End::Cancelled;
    if how == How::Failed && fiber.scope.is_none() {
        let whence = domain.who(Some(id));
        end = End::Failed(Arc::new(Failure::new(vm, values, &traceback, whence)));
    }
    *fiber.traceback.lock() = traceback;
    if let Some(handle) = handle {
        vm.set_user_value(handle, VALUES, values);
    }
    if let Some(scope) = &fiber.scope {
        let of = handle.and_then(|handle| vm.user_value(handle, SCOPE)).and_then(Value::as_userdata);
        if scope.child_ended(vm, of.zip(handle), fiber) {
            fiber.say_failed(domain, "after another fiber of its scope", values);
        }
        // Those of its scope that have waited are cancelled by now.
        if fiber.outcome.is_awaited() {
            fiber.is_heard.store(true, Ordering::Relaxed);
        }
    }
    domain.unlabel(id);
    fiber.is_done_with();
    fiber.outcome.complete(end, domain.runtime());
}

/// The topmost `n` values as a list with their number.
fn pack(vm: &mut Vm, n: u32) -> LuaResult<Gc<Table>> {
    let below = vm.nargs() - n;
    let list = vm.new_table(n as usize, 1)?;
    vm.push(list.into());
    for i in 1..=n {
        let v = vm.stack_get(below + i);
        vm.raw_set_int(list, i as i64, v)?;
    }
    vm.set_field(list, "n", Value::int(n as i64))?;
    vm.pop();
    Ok(list)
}

/// Raises the error of a fiber that has failed: a text with the traceback of where it was raised.
pub(super) fn raise(vm: &mut Vm, handle: Gc<Userdata>) -> Thrown {
    let value = vm.user_value(handle, VALUES).unwrap_or(Value::NIL);
    let Some(fiber) = fiber_of(handle.into()) else { return vm.throw(value) };
    fiber.is_heard.store(true, Ordering::Relaxed);
    let traceback = fiber.traceback.lock().clone();
    match value.as_string() {
        Some(text) if !traceback.is_empty() => {
            let whence = fiber.describe();
            let text = [text.bytes(), b"\nin ", whence.as_bytes(), b": ", &traceback].concat();
            vm.error_plain(text)
        }
        _ => vm.throw(value),
    }
}

/// Nobody waits any more for the scope whose failure is that of this fiber: unless somebody has got the error
/// by other ways, standard error is told.
pub(super) fn tell_unheard(vm: &mut Vm, handle: Gc<Userdata>) -> LuaResult<()> {
    if let Some(fiber) = fiber_of(handle.into())
        && !fiber.is_heard.swap(true, Ordering::Relaxed)
    {
        let value = vm.user_value(handle, VALUES).unwrap_or(Value::NIL);
        fiber.say_failed(&*domain(vm)?, "while its caller is being cancelled", value);
    }
    Ok(())
}

/// Pushes the results of a fiber that has ended, or raises its error.
pub(super) fn deliver(vm: &mut Vm, handle: Gc<Userdata>) -> LuaResult<u32> {
    let Some(fiber) = fiber_of(handle.into()) else { return Ok(0) };
    fiber.outcome.order.enter(vm);
    match fiber.how() {
        How::Failed => Err(raise(vm, handle)),
        How::Cancelled | How::Pending => {
            vm.give_in()?;
            let (who, why) = (fiber.describe(), fiber.why.lock().clone());
            Err(vm.error(match why {
                Some(why) => format!("{who} was cancelled: {why}"),
                None => format!("{who} was cancelled"),
            }))
        }
        How::Done => {
            let Some(list) = vm.user_value(handle, VALUES).and_then(Value::as_table) else { return Ok(0) };
            let n = vm.get_field(list, "n")?.as_int().unwrap_or(0);
            vm.ensure_stack(n as usize)?;
            for i in 1..=n {
                let v = vm.raw_get_int(list, i);
                vm.push(v);
            }
            Ok(n as u32)
        }
    }
}

/// Whether a fiber is one of the running fiber's scope, and was started after it.
fn is_younger_sibling(vm: &mut Vm, fiber: &Fiber) -> LuaResult<bool> {
    let (Some(id), Some(scope)) = (running_fiber(vm), &fiber.scope) else { return Ok(false) };
    let running = running(vm)?;
    let me = fiber_of(vm.raw_get_int(running, id as i64));
    Ok(me.is_some_and(|me| {
        me.scope.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, scope))
            && me.place_in_scope() < fiber.place_in_scope()
    }))
}

/// The scope of the running code.
pub(super) fn current_scope(vm: &mut Vm) -> LuaResult<Option<Gc<Userdata>>> {
    let Some(id) = running_fiber(vm) else { return Ok(None) };
    let running = running(vm)?;
    let handle = vm.raw_get_int(running, id as i64).as_userdata();
    Ok(handle.and_then(|handle| vm.user_value(handle, SCOPE)).and_then(Value::as_userdata))
}

/// Starts a fiber of the current scope, or of the domain if there is none: argument 1 of the running native
/// is its function, the others are what that gets.
pub(crate) fn start_here(vm: &mut Vm, is_daemon: bool) -> LuaResult<Gc<Userdata>> {
    vm.check_type(1, Type::Function)?;
    let args: Vec<Value> = (2..=vm.nargs()).map(|n| vm.arg(n)).collect();
    let f = vm.arg(1);
    let current = current_scope(vm)?;
    let scope = current.and_then(|handle| Some((handle, scope_of(handle.into())?)));
    if scope.is_none() && Domain::of(vm)?.works_for_a_pool() {
        return Err(vm.error(
            "pl.fiber: a task has no scope of its own, and its domain outlives it; start the fiber in a \
             pl.scope",
        ));
    }
    let scope = scope.as_ref().map(|(handle, scope)| (*handle, scope));
    start(vm, scope, Place::Unnamed, is_daemon, f, &args)
}

/// As [`start_here`], for a daemon that serves others: in no scope it ends with the program, which says
/// `what` then.
pub(crate) fn start_service(vm: &mut Vm, what: String) -> LuaResult<Gc<Userdata>> {
    let handle = start_here(vm, true)?;
    if let Some(fiber) = fiber_of(handle.into()).filter(|fiber| fiber.scope.is_none()) {
        Domain::of(vm)?.domain.enter_service(&fiber, what);
    }
    Ok(handle)
}

/// `pl.fiber(f, ...)`: a fiber of the current scope, or of the domain if there is none.
pub(crate) static NEW: Native = Native::leaf("fiber", |vm| {
    let fiber = start_here(vm, false)?;
    vm.ret(Value::from(fiber))
});

/// `fiber:await([seconds])`: its results, or its error; `nil, "timeout"`.
static AWAIT: Native = Native::leaf("await", |vm| {
    let (handle, fiber) = this(vm)?;
    loop {
        if fiber.outcome.is_done() {
            wait::finish(vm);
            fiber.outcome.dismiss();
            return deliver(vm, handle);
        }
        match wait::woken(vm)? {
            Turn::First => {
                let limit = opt_limit(vm, 2)?;
                if running_fiber(vm) == Some(fiber.id()) {
                    return Err(vm.error("a fiber cannot await itself"));
                }
                if limit.is_over() {
                    return refuse_late(vm);
                }
                let object = if is_younger_sibling(vm, &fiber)? { Object::Sibling } else { Object::Fiber };
                let waiter = wait::begin(vm, Verb::Awaits, object(Arc::clone(&fiber)))?;
                limit.set(vm)?;
                if fiber.outcome.watch(&waiter, 0) && wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(Reason::Timeout, _) => {
                wait::finish(vm);
                return refuse_late(vm);
            }
            Turn::Woken(..) => wait::finish(vm),
        }
    }
});

/// `fiber:cancel([why])`: true if it had not ended and was not cancelled.
static CANCEL: Native = Native::leaf("cancel", |vm| {
    surplus::none_behind(vm, 2, surplus::Limit::Own)?;
    let (_, fiber) = this(vm)?;
    let why = vm.opt_str(2)?.map(|why| why.to_text().into());
    vm.forgo_grace();
    vm.ret(fiber.cancel(why))
});

/// The fiber's handle goes out of scope: it is cancelled if it has not ended.
static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let (_, fiber) = this(vm)?;
    fiber.cancel(Some("its variable was closed".into()));
    Ok(0)
});

/// `fiber:status()`: "pending", "done", "failed", "cancelled".
static STATUS: Native = Native::leaf("status", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let (_, fiber) = this(vm)?;
    let status: &[u8] = match fiber.how() {
        How::Pending => b"pending",
        How::Done => b"done",
        How::Failed => b"failed",
        How::Cancelled => b"cancelled",
    };
    vm.ret_str(status)
});

/// `fiber:name([name])`: the name that reports call it by; with one, gives it, and returns the fiber.
static NAME: Native = Native::leaf("name", |vm| {
    surplus::none_behind(vm, 2, surplus::Limit::Own)?;
    let (handle, fiber) = this(vm)?;
    if vm.arg_is_none(2) {
        return match &*fiber.place.lock() {
            Place::Named(name) => vm.ret_str(name.as_bytes()),
            _ => vm.ret(Value::NIL),
        };
    }
    let name = vm.check_str(2)?.to_text();
    names::label(fiber.outcome.identity.get(), name.as_bytes());
    *fiber.place.lock() = Place::Named(name);
    vm.ret(Value::from(handle))
});

static TOSTRING: Native = Native::leaf("tostring", |vm| {
    let (_, fiber) = this(vm)?;
    let text = fiber.describe();
    vm.ret_str(text.as_bytes())
});

/// `pl.yield()`: whatever else can run in the domain runs first, once.
pub(crate) static YIELD: Native = Native::leaf("yield", |vm| match wait::woken(vm)? {
    Turn::First if running_fiber(vm).is_none() && !Domain::of(vm)?.domain.has_fibers() => Ok(0),
    Turn::First => Err(wait::give_way(vm)?),
    Turn::Asleep => Err(vm.park()),
    Turn::Woken(..) => {
        wait::finish(vm);
        Ok(0)
    }
});
