//! How natives wait.
//!
//! A native that has to wait follows one pattern, because it is called again after each wait (`perilune_vm::Vm::park`):
//!
//! ```text
//! loop {
//!     if what it waits for is there { wait::finish(vm); return it }
//!     match wait::woken(vm)? {
//!         Turn::First => { let w = wait::begin(vm, ...)?; leave w with the sources; if wait::sleeps(vm) { return Err(vm.park()) } }
//!         Turn::Asleep => return Err(vm.park()),
//!         Turn::Woken(reason, case) => what the reason says
//!     }
//! }
//! ```
//!
//! The wait of a fiber is kept in its slot of the domain, that of the root chain beside them; there is at most one at a time of each. A wait that ends by a
//! standstill is an error, raised by [`woken`] for all natives alike.

use crate::channel::Channel;
use crate::domain::{Domain, running_fiber};
use crate::module::PRELUDE_NAME;
use crate::outcome::Outcome;
use crate::outside::Awaited;
use crate::sched::token::Root;
use crate::sched::{Hold, Reason, Sleeper, TimerId, Waiter, timer};
use crate::scope::fiber::Fiber;
use crate::semaphore::Semaphore;
use perilune_trace::event::{self, Ns, Parking, Stack, Verb};
use perilune_trace::{Category, FiberRef, ObjectKind, ObjectRef, emit, on};
use perilune_vm::debug::Site;
use perilune_vm::{LuaResult, Thrown, Vm};
use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A wait that has begun.
pub(crate) struct Wait {
    pub waiter: Arc<Waiter>,
    /// The same, if it is the root chain's.
    pub root: Option<Arc<Waiter<Root>>>,
    slot: u32,
    timer: Option<TimerId>,
    /// The unit of a wait that somebody outside the program ends (`outside.rs`).
    pub hold: Option<Hold>,
    /// What the native that waits has put aside for its next turn.
    pub data: Option<Box<dyn Any + Send>>,
    /// What events say of it.
    events: (FiberRef, ObjectRef),
    verb: Verb,
}

impl Wait {
    /// To a session that has not seen it begin.
    pub fn report(&self, fiber: FiberRef) {
        emit(event::FiberRun { fiber });
        emit(event::WaitBegin { verb: self.verb, object: self.events.1, stack: Stack(0) });
        emit(event::FiberPark { fiber, why: Parking::Waits });
    }
}

/// Where a waiting native is.
pub enum Turn {
    /// It has not begun to wait.
    First,
    /// It waits still, and was called without reason.
    Asleep,
    /// The wait has ended for this reason, by the source of this number.
    Woken(Reason, u32),
}

/// A fiber as a sleeper.
struct Parked {
    id: u64,
    what: What,
    events: (FiberRef, ObjectRef),
}

/// What is waited for, to be put into words if somebody asks.
pub(crate) enum Object {
    /// In these words.
    Text(&'static str),
    /// In these words.
    Words(String),
    /// A channel. The waiting native's argument keeps it; a reference from here would be a cycle through the channel's list of waits when this one has ended.
    Channel(Weak<Channel>),
    /// The outcome of something.
    Outcome(Arc<Outcome>),
    /// A fiber that a program has started.
    Fiber(Arc<Fiber>),
    /// A semaphore.
    Semaphore(Arc<Semaphore>),
    /// Something outside the program.
    Outside(Arc<dyn Awaited>),
}

impl Object {
    /// What events call it.
    fn reference(&self) -> ObjectRef {
        match self {
            Object::Text(_) => ObjectRef::new(ObjectKind::Timer, 0),
            Object::Words(_) | Object::Outside(_) => ObjectRef::new(ObjectKind::Several, 0),
            Object::Channel(c) => c.upgrade().map_or(ObjectRef::NONE, |c| c.reference()),
            Object::Outcome(o) => o.identity.get(),
            Object::Fiber(f) => f.outcome().identity.get(),
            Object::Semaphore(s) => s.identity.get(),
        }
    }
}

/// How reports of waits say it: `waits to receive from channel 'in'`.
fn words(verb: Verb) -> &'static str {
    match verb {
        Verb::WaitsFor | Verb::Awaits => "waits for",
        Verb::Receives => "waits to receive from",
        Verb::Sends => "waits to send to",
        Verb::Joins => "waits for the end of",
        Verb::Sleeps => "sleeps",
        Verb::Selects => "waits for one of",
        Verb::Closes => "waits for the work of",
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Object::Text(text) => f.write_str(text),
            Object::Words(text) => f.write_str(text),
            Object::Channel(c) => match c.upgrade() {
                Some(c) => f.write_str(&c.describe()),
                None => f.write_str("a channel"),
            },
            Object::Outcome(o) => f.write_str(&o.whose),
            Object::Fiber(fiber) => f.write_str(&fiber.describe()),
            Object::Semaphore(s) => f.write_str(&s.describe()),
            Object::Outside(o) => f.write_str(&o.words()),
        }
    }
}

/// Who waits for what, where.
struct What {
    verb: Verb,
    object: Object,
    place: Option<Site>,
    /// The domain, and the fiber in it; `None`: the root chain.
    domain: Arc<Domain>,
    fiber: Option<u64>,
}

impl What {
    fn describe(&self) -> String {
        let What { verb, object, place, domain, fiber } = self;
        let (who, verb) = (domain.who(*fiber), words(*verb));
        match place {
            Some(place) => format!("{who} {verb} {object} ({place})"),
            None => format!("{who} {verb} {object}"),
        }
    }
}

impl Sleeper for Parked {
    fn rouse(&self, reason: Reason) {
        let (fiber, object) = self.events;
        emit(event::Wake { fiber, object, reason: reason.into() });
        // A domain that has ended has no fibers left.
        let _ = self.what.domain.post(self.id);
    }
    fn describe(&self) -> String {
        self.what.describe()
    }
}

/// Begins to wait. `verb` and `object` say for what.
///
/// # Errors
/// Nothing can wait here (a finaliser, a hook); or the module was not loaded.
pub(crate) fn begin(vm: &mut Vm, verb: Verb, object: Object) -> LuaResult<Arc<Waiter>> {
    vm.may_wait()?;
    let domain = Domain::of(vm)?.domain.counted();
    let fiber = running_fiber(vm);
    let events = (vm.running_fiber_ref(), object.reference());
    if on(Category::Wait) {
        emit(event::WaitBegin { verb, object: events.1, stack: Stack(vm.event_stack()) });
    }
    let place = vm.running_site(Some(PRELUDE_NAME)).or_else(|| vm.running_site(None));
    let what = What { verb, object, place, domain: Arc::clone(&domain), fiber };
    let (waiter, root): (Arc<Waiter>, _) = match fiber {
        Some(id) => (Waiter::new(Parked { id, what, events }), None),
        None => {
            let root =
                Root::new(Arc::clone(domain.runtime().rest()), events, Box::new(move || what.describe()));
            let root = Waiter::new(root);
            (root.clone(), Some(root))
        }
    };
    let slot = domain.waits().add(Arc::clone(&waiter));
    let wait =
        Wait { waiter: Arc::clone(&waiter), root, slot, timer: None, hold: None, data: None, events, verb };
    domain.owner(vm).set_wait(wait);
    Ok(waiter)
}

/// Lets the wait that has begun end after this time.
pub(crate) fn limit(vm: &mut Vm, timeout: Duration) -> LuaResult<()> {
    let deadline = Instant::now().checked_add(timeout);
    limit_at(vm, deadline)
}

/// Lets the wait that has begun end at this time; `None` is too far away to matter.
pub(crate) fn limit_at(vm: &mut Vm, deadline: Option<Instant>) -> LuaResult<()> {
    let owner = Domain::of(vm)?;
    let domain = owner.domain;
    if let (Some(wait), Some(deadline)) = (owner.wait(), deadline) {
        let waiter = Arc::clone(&wait.waiter);
        let hold = domain.runtime().rest().hold();
        let fiber = wait.events.0;
        if on(Category::Timer) {
            let span = deadline.saturating_duration_since(Instant::now());
            emit(event::TimerSet { span: Ns(span.as_nanos() as u64), fiber });
        }
        wait.timer = Some(timer::after(deadline, move || {
            if on(Category::Timer) {
                let late = Instant::now().saturating_duration_since(deadline);
                emit(event::TimerFired { late: Ns(late.as_nanos() as u64), fiber });
            }
            waiter.wake(Reason::Timeout);
            drop(hold);
        }));
    }
    Ok(())
}

/// Where the running native is with its wait.
///
/// # Errors
/// The wait has been given up because nothing can end it, or by an interrupt.
pub(crate) fn woken(vm: &mut Vm) -> LuaResult<Turn> {
    let owner = Domain::of(vm)?;
    let domain = owner.domain;
    let Some(wait) = owner.wait() else { return Ok(Turn::First) };
    match wait.waiter.woken() {
        None => Ok(Turn::Asleep),
        Some((Reason::Deadlock, _)) => {
            let me = wait.waiter.sleeper().describe();
            let standstill = domain.runtime().standstill();
            finish(vm);
            let text =
                format!("deadlock: nothing can end this wait any more\n\t{me}\nall waits:{standstill}");
            Err(crate::module::program_error(vm, &text))
        }
        Some((Reason::Cancelled, _)) => {
            finish(vm);
            vm.poll_interrupt()?;
            Err(vm.error("the wait was cancelled"))
        }
        Some((reason, case)) => Ok(Turn::Woken(reason, case)),
    }
}

/// What the native has put aside for its next turn.
pub(crate) fn data<T: 'static>(vm: &mut Vm) -> Option<&mut T> {
    Domain::of(vm).ok()?.wait()?.data.as_mut()?.downcast_mut()
}

/// The same, which the wait has no more: what a native does with the state while it looks at it.
pub(crate) fn take_data<T: 'static>(vm: &mut Vm) -> Option<Box<T>> {
    let place = &mut Domain::of(vm).ok()?.wait()?.data;
    match place.take()?.downcast() {
        Ok(data) => Some(data),
        Err(other) => {
            *place = Some(other);
            None
        }
    }
}

/// Puts something aside for the native's next turn.
pub(crate) fn set_data<T: Any + Send>(vm: &mut Vm, data: T) {
    if let Ok(owner) = Domain::of(vm)
        && let Some(wait) = owner.wait()
    {
        wait.data = Some(Box::new(data));
    }
}

/// The waiter has been left with all sources. True: return `Err(vm.park())`. False: the wait has ended already.
pub(crate) fn sleeps(vm: &mut Vm) -> bool {
    match Domain::of(vm).ok().and_then(|owner| owner.wait()) {
        // The root chain's is put to sleep when its thread is.
        Some(Wait { root: Some(_), waiter, .. }) => waiter.woken().is_none(),
        Some(wait) => wait.waiter.sleep(),
        None => false,
    }
}

/// The wait is over, if there was one.
pub(crate) fn finish(vm: &mut Vm) {
    if let Ok(owner) = Domain::of(vm) {
        let domain = owner.domain;
        if let Some(wait) = owner.take_wait() {
            end(domain, wait);
        }
    }
}

/// Lets whatever else the domain can do come first, once: what a native returns as its error in its first turn. In the next one the wait is over.
///
/// # Errors
/// Those of [`begin`].
pub(crate) fn give_way(vm: &mut Vm) -> LuaResult<Thrown> {
    let waiter = begin(vm, Verb::WaitsFor, Object::Text("its turn"))?;
    Domain::of(vm)?.work_first();
    if running_fiber(vm).is_some() {
        // The pump has the fiber at the end of its queue when it gets the domain.
        waiter.sleep();
        waiter.wake(Reason::Ready);
    } else {
        limit(vm, Duration::ZERO)?;
    }
    Ok(vm.park())
}

/// Ends a wait because the fiber is cancelled. False: it has ended, and what it waited for is finished first. The caller takes it back and runs the fiber.
pub(crate) fn give_up(wait: &Wait) -> bool {
    match wait.waiter.claim(Reason::Cancelled, 0) {
        Some(claim) => {
            // Whoever cancels runs the fiber: it is not to be roused.
            std::mem::forget(claim);
            true
        }
        None => wait.waiter.woken().is_some_and(|(reason, _)| reason == Reason::Cancelled),
    }
}

/// Takes a wait back from whatever may still end it.
pub(crate) fn end(domain: &Domain, wait: Wait) {
    if on(Category::Wait) {
        let reason = wait.waiter.woken().map_or(event::Reason::Other, |(reason, _)| reason.into());
        emit(event::WaitEnd { object: wait.events.1, fiber: wait.events.0, reason });
    }
    domain.waits().remove(wait.slot);
    if let Some(timer) = wait.timer {
        timer::cancel(timer);
    }
    // Sources that still have the waiter must find it over; whoever had to be roused has been.
    if let Some(claim) = wait.waiter.claim(Reason::Cancelled, 0) {
        // It runs, or is made to run by whoever takes the wait back: nobody is to be roused.
        std::mem::forget(claim);
    }
}
