//! How natives wait.
//!
//! A native that has to wait follows one pattern, because it is called again after each wait
//! (`perilune_vm::Vm::park`):
//!
//! ```text
//! loop {
//!     if what it waits for is there { wait::finish(vm); return it }
//!     match wait::woken(vm)? {     // a cancellation that is due strikes here in the first turn; what the native returns is safe from it (`perilune_vm::Vm::has_delivered`)
//!         Turn::First => { let w = wait::begin(vm, ...)?; leave w with the sources; if wait::sleeps(vm) { return Err(vm.park()) } }
//!         Turn::Asleep => return Err(vm.park()),
//!         Turn::Woken(reason, case) => what the reason says
//!     }
//! }
//! ```
//!
//! The wait of a fiber is kept in its slot of the domain, that of the root chain beside them; there is at
//! most one at a time of each. A wait that ends by a standstill is an error, raised by [`woken`] for all
//! natives alike.

use crate::channel::Channel;
use crate::domain::{Domain, running_fiber};
use crate::module::PRELUDE_NAME;
use crate::outcome::Outcome;
use crate::outside::Awaited;
use crate::sched::ownership::{Facts, Root};
use crate::sched::{Hold, Reason, Sleeper, TimerId, Waiter, timer};
use crate::scope::Scope;
use crate::scope::fiber::Fiber;
use crate::semaphore::Semaphore;
use crate::time::Timer;
use parking_lot::Mutex;
use perilune_trace::event::{self, Ns, Parking, Stack, Verb};
use perilune_trace::{Category, FiberRef, ObjectKind, ObjectRef, clock, emit, names, on};
use perilune_vm::debug::Site;
use perilune_vm::parcel::Parcel;
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
    /// When it ends at the latest.
    until: Option<Instant>,
    /// The unit of a wait that somebody outside the program ends (`outside.rs`).
    pub hold: Option<Hold>,
    /// What the native that waits has put aside for its next turn.
    pub data: Option<Box<dyn Any + Send>>,
    /// Whom events call by it.
    fiber: FiberRef,
    object: ObjectRef,
}

impl Wait {
    /// To a session that has not seen it begin; `stack` is where the fiber is.
    pub fn report(&self, fiber: FiberRef, stack: u32) {
        let (verb, object) =
            self.what().map_or((Verb::WaitsFor, self.object), |what| (what.verb, what.object.reference()));
        emit(event::FiberRun { fiber });
        emit(event::WaitBegin { verb, object, stack: Stack(stack) });
        emit(event::FiberPark { fiber, why: Parking::Waits });
    }

    fn what(&self) -> Option<&What> {
        self.waiter.sleeper().facts()?.downcast_ref()
    }

    /// What there is to say of it, for a list of fibers.
    pub fn seen(&self) -> Option<Seen> {
        let What { verb, object, place, since, .. } = self.what()?;
        Some(Seen {
            verb: *verb,
            kind: object.reference_kind(),
            object: object.to_string(),
            place: place.as_ref().map(|site| site.to_string()),
            since: *since,
            left: self.until.map(|until| until.saturating_duration_since(Instant::now())),
            is_over: self.waiter.woken().is_some(),
        })
    }
}

/// A wait as a list of fibers says it.
pub(crate) struct Seen {
    /// What it does.
    pub verb: Verb,
    /// What it is for.
    pub kind: ObjectKind,
    /// The same in words.
    pub object: String,
    /// The line that waits.
    pub place: Option<String>,
    /// When it began, in ticks.
    pub since: u64,
    /// How long it lasts at most from now on.
    pub left: Option<Duration>,
    /// It has ended, and its fiber has not run since.
    pub is_over: bool,
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
    /// A timer that calls a function.
    Timer(Arc<Timer>),
    /// A channel. The waiting native's argument keeps it; a reference from here would be a cycle through the
    /// channel's list of waits when this one has ended.
    Channel(Weak<Channel>),
    /// The outcome of something.
    Outcome(Arc<Outcome>),
    /// A fiber that a program has started.
    Fiber(Arc<Fiber>),
    /// The same, of the scope of the one that waits, which is older: so no two wait for each other like this.
    Sibling(Arc<Fiber>),
    /// The end of a scope that the waiting code has called.
    Scope(Arc<Scope>),
    /// A semaphore.
    Semaphore(Arc<Semaphore>),
    /// Something outside the program.
    Outside(Arc<dyn Awaited>),
}

impl Object {
    /// What events call it. What has no number of its own is looked up by its name, so this is for when
    /// somebody looks.
    fn reference(&self) -> ObjectRef {
        let kind = self.reference_kind();
        match self {
            Object::Text(_) => ObjectRef::new(kind, 0),
            Object::Words(text) => names::called(kind, text.as_bytes()),
            Object::Timer(timer) => names::called(kind, timer.words().as_bytes()),
            Object::Outside(o) => names::called(kind, o.name().as_bytes()),
            _ => self.numbered(),
        }
    }

    /// What events call it if it has a number.
    fn numbered(&self) -> ObjectRef {
        match self {
            Object::Channel(c) => c.upgrade().map_or(ObjectRef::NONE, |c| c.reference()),
            Object::Outcome(o) => o.identity.get(),
            Object::Fiber(f) | Object::Sibling(f) => f.outcome().identity.get(),
            Object::Scope(s) => s.over().identity.get(),
            Object::Semaphore(s) => s.identity.get(),
            Object::Text(_) | Object::Words(_) | Object::Timer(_) | Object::Outside(_) => ObjectRef::NONE,
        }
    }

    fn reference_kind(&self) -> ObjectKind {
        match self {
            Object::Text(_) | Object::Timer(_) => ObjectKind::Timer,
            Object::Words(_) => ObjectKind::Several,
            Object::Outside(o) => o.kind(),
            Object::Channel(_) => ObjectKind::Channel,
            Object::Outcome(o) => o.identity.kind(),
            Object::Scope(s) => s.over().identity.kind(),
            Object::Fiber(_) | Object::Sibling(_) => ObjectKind::Fiber,
            Object::Semaphore(_) => ObjectKind::Semaphore,
        }
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Object::Text(text) => f.write_str(text),
            Object::Words(text) => f.write_str(text),
            Object::Timer(timer) => f.write_str(&timer.words()),
            Object::Channel(c) => match c.upgrade() {
                Some(c) => f.write_str(&c.describe()),
                None => f.write_str("a channel"),
            },
            Object::Outcome(o) => f.write_str(&o.describe()),
            Object::Fiber(fiber) | Object::Sibling(fiber) => f.write_str(&fiber.describe()),
            Object::Scope(scope) => f.write_str(&scope.over().describe()),
            Object::Semaphore(s) => f.write_str(&s.describe()),
            Object::Outside(o) => f.write_str(&o.kind().called(&o.name())),
        }
    }
}

/// Who waits for what, where, since when.
struct What {
    verb: Verb,
    object: Object,
    place: Option<Arc<Site>>,
    /// In ticks of the clock of events.
    since: u64,
    /// The domain, and the fiber in it; `None`: the root chain.
    domain: Arc<Domain>,
    fiber: Option<u64>,
    /// Where a sender that has claimed the wait leaves its message.
    letter: Mutex<Option<Parcel>>,
}

impl Facts for What {
    fn describe(&self) -> String {
        let What { verb, object, place, domain, fiber, .. } = self;
        let (who, verb) = (domain.who(*fiber), verb.waits());
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
    fn facts(&self) -> Option<&dyn Any> {
        Some(&self.what)
    }
}

/// Begins to wait. `verb` and `object` say for what.
///
/// # Errors
/// Nothing can wait here (a finaliser, a hook); or the module was not loaded.
pub(crate) fn begin(vm: &mut Vm, verb: Verb, object: Object) -> LuaResult<Arc<Waiter>> {
    vm.may_wait()?;
    let fiber = running_fiber(vm);
    let mut events = (vm.running_fiber_ref(), object.numbered());
    if on(Category::Wait) {
        events.1 = object.reference();
        emit(event::WaitBegin { verb, object: events.1, stack: Stack(vm.event_stack()) });
    }
    let place = place(vm)?;
    let since = clock::ticks();
    let owner = Domain::of(vm)?;
    let domain = owner.domain;
    let what = What { verb, object, place, since, domain: domain.counted(), fiber, letter: Mutex::new(None) };
    let (waiter, root): (Arc<Waiter>, _) = match fiber {
        Some(id) => (Waiter::new(Parked { id, what, events }), None),
        None => {
            let root = Root::new(Arc::clone(domain.runtime().quiescence()), events, Box::new(what));
            let root = Waiter::new(root);
            (root.clone(), Some(root))
        }
    };
    let slot = domain.waits().add(Arc::clone(&waiter));
    let wait = Wait {
        waiter: Arc::clone(&waiter),
        root,
        slot,
        timer: None,
        until: None,
        hold: None,
        data: None,
        fiber: events.0,
        object: events.1,
    };
    owner.set_wait(wait);
    Ok(waiter)
}

/// Lines that have waited lately, by function and instruction: whoever waits at one of them again takes a
/// count that is the domain's own. That of the function would be written by all domains that run it, at each
/// wait.
#[derive(Default)]
pub(crate) struct Sites([Option<Arc<Site>>; 16]);

impl Sites {
    /// The place for a line.
    fn place(&mut self, (function, instruction): (usize, usize)) -> &mut Option<Arc<Site>> {
        let count = self.0.len();
        &mut self.0[((function >> 4) ^ instruction) % count]
    }
}

/// The line of the program that waits.
fn place(vm: &mut Vm) -> LuaResult<Option<Arc<Site>>> {
    let Some(key) = vm.running_site_key(Some(PRELUDE_NAME)) else {
        return Ok(vm.running_site(None).map(Arc::new));
    };
    let place = Domain::of(vm)?.sites().place(key);
    if let Some(site) = place.as_ref().filter(|site| site.key() == key) {
        return Ok(Some(Arc::clone(site)));
    }
    let site = vm.running_site(Some(PRELUDE_NAME)).map(Arc::new);
    Domain::of(vm)?.sites().place(key).clone_from(&site);
    Ok(site)
}

/// Where whoever has claimed the wait leaves its message. A receiver that has not gone to sleep yet sees at
/// once that its wait has ended: it must find this locked until the message is there.
pub(crate) fn letter(waiter: &Waiter) -> &Mutex<Option<Parcel>> {
    let what: Option<&What> = waiter.sleeper().facts().and_then(|facts| facts.downcast_ref());
    match what {
        Some(what) => &what.letter,
        None => unreachable!("all waits of programs are made by `begin`"),
    }
}

/// The message that has come by the running wait.
pub(crate) fn take_letter(vm: &mut Vm) -> Option<Parcel> {
    let wait = Domain::of(vm).ok()?.wait()?;
    letter(&wait.waiter).lock().take()
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
        let hold = domain.runtime().quiescence().hold();
        let fiber = wait.fiber;
        wait.until = Some(deadline);
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
    let Some(wait) = owner.wait() else {
        vm.end_grace()?;
        vm.has_delivered();
        return Ok(Turn::First);
    };
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
        Some((reason, case)) => {
            vm.has_delivered();
            Ok(Turn::Woken(reason, case))
        }
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

/// The waiter has been left with all sources. True: return `Err(vm.park())`. False: the wait has ended
/// already.
pub(crate) fn sleeps(vm: &mut Vm) -> bool {
    match Domain::of(vm).ok().and_then(|owner| owner.wait()) {
        // The root chain's is put to sleep when its thread is.
        Some(Wait { root: Some(_), waiter, .. }) => waiter.woken().is_none(),
        Some(wait) => wait.waiter.sleep(),
        None => false,
    }
}

/// The wait is over, if there was one: the native returns what there is, or begins another wait.
pub(crate) fn finish(vm: &mut Vm) {
    vm.has_delivered();
    if let Ok(owner) = Domain::of(vm) {
        let domain = owner.domain;
        if let Some(wait) = owner.take_wait() {
            end(domain, wait);
        }
    }
}

/// Lets whatever else the domain can do come first, once: what a native returns as its error in its first
/// turn. In the next one the wait is over.
///
/// # Errors
/// Those of [`begin`].
pub(crate) fn give_way(vm: &mut Vm) -> LuaResult<Thrown> {
    let waiter = begin(vm, Verb::Yields, Object::Text("to others"))?;
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

/// Whether what a cancelled fiber waits for is cancelled with it, or is shielded: it ends soon, and may have
/// results.
fn ends_itself(wait: &Wait) -> bool {
    match wait.what().map(|what| &what.object) {
        Some(Object::Scope(scope)) => {
            scope.leave();
            true
        }
        Some(Object::Sibling(fiber)) => fiber.is_being_cancelled(),
        _ => false,
    }
}

/// Ends a wait because the fiber is cancelled. True: the caller takes it back and runs the fiber. False: what
/// it waits for is finished first, since the wait has ended, or will end because what it is for is cancelled
/// as well: that may be in the midst of finishing something too, whose results this fiber passes on.
pub(crate) fn give_up(wait: &Wait) -> bool {
    if ends_itself(wait) {
        return false;
    }
    match wait.waiter.claim(Reason::Cancelled, 0) {
        Some(claim) => {
            // Whoever cancels runs the fiber: it is not to be roused.
            std::mem::forget(claim);
            true
        }
        None => wait.waiter.woken().is_some_and(|(reason, _)| reason == Reason::Cancelled),
    }
}

/// Ends a wait whose results nobody wants, though what it waits for may be there: that is left to others.
/// True: the caller takes the wait back and runs the fiber. False: it is nowhere else.
pub(crate) fn give_back(wait: &Wait) -> bool {
    if ends_itself(wait) {
        return false;
    }
    let mut letter = letter(&wait.waiter).lock();
    let Some(message) = letter.take() else {
        // Outside the program, what has been told is there still.
        return wait.hold.is_some();
    };
    let channel = match wait.what().map(|what| &what.object) {
        Some(Object::Channel(channel)) => channel.upgrade(),
        _ => None,
    };
    match channel {
        Some(channel) => {
            drop(letter);
            channel.put_back(message);
            true
        }
        None => {
            *letter = Some(message);
            false
        }
    }
}

/// Takes a wait back from whatever may still end it.
pub(crate) fn end(domain: &Domain, wait: Wait) {
    if on(Category::Wait) {
        let reason = wait.waiter.woken().map_or(event::Reason::Other, |(reason, _)| reason.into());
        emit(event::WaitEnd { object: wait.object, fiber: wait.fiber, reason });
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
