//! What a task or a domain comes to, for whoever waits for it.
//!
//! An outcome is set once and may be asked for any number of times, by any number of waiters. If it is an
//! error and nobody ever asks, it is reported on standard error: no failure is lost. `untold.rs` says by whom
//! and when.

use crate::objects::{Contents, freeze};
use crate::races::Order;
use crate::runtime::Runtime;
use crate::sched::{Reason, Waiter};
use crate::time::{Limit, refuse_late};
use crate::untold;
use crate::wait::{self, Object};
use parking_lot::Mutex;
use perilune_trace::event::{CopyBegin, CopyEnd, Verb};
use perilune_trace::{Identity, ObjectKind, emit, names};
use perilune_vm::cycle_collector::{Freeze, Held, Holder, Registered};
use perilune_vm::parcel::{ErrorParcel, Parcel};
use perilune_vm::{LuaResult, Value, Vm};
use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How something ended.
#[derive(Clone)]
pub enum End {
    /// It returned these values.
    Returned(Parcel),
    /// An error left it.
    Failed(Arc<Failure>),
    /// It was cancelled.
    Cancelled,
}

/// An error that has left a task or a domain.
pub struct Failure {
    /// Its value and traceback.
    pub error: ErrorParcel,
    /// Where it was raised, for people: "domain 'x'".
    pub whence: String,
    /// The value as text.
    pub text: String,
}

impl Failure {
    /// The error whose value is `v`.
    pub fn new(vm: &mut Vm, v: Value, traceback: &[u8], whence: String) -> Failure {
        let text = crate::module::error_text(v);
        Failure { error: vm.pack_error(v, traceback), whence, text }
    }

    /// This domain lacks what it needs to begin.
    pub fn lacking(domain: &str, what: &Lack) -> Failure {
        let text = what.to_string();
        Failure { error: ErrorParcel::from_text(&text), whence: format!("domain '{domain}'"), text }
    }
}

/// What a domain may lack to begin.
pub(crate) enum Lack {
    /// Memory for its state.
    Memory,
    /// A thread, because of this.
    Thread(std::io::Error),
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lack::Memory => f.write_str("not enough memory for a domain"),
            Lack::Thread(why) if why.kind() == std::io::ErrorKind::OutOfMemory => {
                f.write_str("not enough memory for the stack of a worker thread")
            }
            Lack::Thread(why) => {
                write!(f, "no worker thread can be started: {why} (a limit on threads: ")?;
                match crate::sys::most_threads() {
                    Some(most) => write!(f, "ulimit -u is {most}; or pids.max of a control group)"),
                    None => f.write_str("ulimit -u, or pids.max of a control group)"),
                }
            }
        }
    }
}

impl Holder for Failure {
    fn held(&self, to: &mut Held<'_>) {
        self.error.held(to);
    }
}

impl End {
    /// As [`Parcel::holds_counts`].
    fn holds_counts(&self) -> bool {
        match self {
            End::Returned(parcel) => parcel.holds_counts(),
            End::Failed(failure) => failure.error.holds_counts(),
            End::Cancelled => false,
        }
    }
}

enum State {
    Pending(Vec<(Arc<Waiter>, u32)>),
    Done(End),
}

/// The outcome of a task or a domain.
pub struct Outcome {
    state: Mutex<State>,
    /// Somebody has been given the outcome, or it has been reported.
    observed: AtomicBool,
    /// Nobody will ever ask: the call that made it wanted no handle.
    is_nobodys: AtomicBool,
    /// The number of the failure, once it is one.
    number: AtomicU64,
    /// What has an outcome comes before what learns of it.
    pub(crate) order: Order,
    /// Whose it is: "task 'parse'".
    pub whose: Cow<'static, str>,
    registered: Registered,
    /// What events call it.
    pub identity: Identity,
    /// The number of the name of the function that it is the outcome of; 0: not known yet.
    function: AtomicU32,
}

impl Outcome {
    /// It has begun to run: the function with this number.
    pub(crate) fn set_function(&self, number: u32) {
        self.function.store(number, Ordering::Relaxed);
    }

    /// The number of its function's name; 0: it is not known.
    pub(crate) fn function(&self) -> u32 {
        self.function.load(Ordering::Relaxed)
    }

    /// Whose it is, with its function if that is known: "task 'work.lua:12'".
    pub(crate) fn describe(&self) -> String {
        let function = names::text(self.function());
        match (function, self.whose.strip_prefix("a task")) {
            (Some(function), Some(rest)) => format!("task '{function}'{rest}"),
            _ => self.whose.clone().into_owned(),
        }
    }

    /// An outcome that is not known yet.
    #[inline]
    pub fn new(whose: Cow<'static, str>, kind: ObjectKind) -> Arc<Outcome> {
        Arc::new(Outcome {
            state: Mutex::new(State::Pending(Vec::new())),
            observed: AtomicBool::new(false),
            is_nobodys: AtomicBool::new(false),
            number: AtomicU64::new(0),
            order: Order::new(),
            whose,
            registered: Registered::default(),
            identity: Identity::new(kind),
            function: AtomicU32::new(0),
        })
    }

    /// It was cancelled before it began, or is nothing that can fail.
    pub fn cancel(self: &Arc<Self>) {
        self.set(End::Cancelled, None);
    }

    /// Sets the outcome, unless it is set, and wakes whoever waits for it. A failure is the runtime's to
    /// tell, if nobody asks.
    pub fn complete(self: &Arc<Self>, end: End, runtime: &Runtime) -> bool {
        self.set(end, Some(runtime))
    }

    fn set(self: &Arc<Self>, end: End, runtime: Option<&Runtime>) -> bool {
        if end.holds_counts() {
            self.registered.holder(|| {
                let weak: Weak<Outcome> = Arc::downgrade(self);
                weak
            });
        }
        let failure = match &end {
            End::Failed(failure) => Some(Arc::clone(failure)),
            _ => None,
        };
        let mut state = self.state.lock();
        let State::Pending(waiters) = &mut *state else { return false };
        let waiters = std::mem::take(waiters);
        *state = State::Done(end);
        if let (Some(_), Some(runtime)) = (&failure, runtime) {
            self.number.store(runtime.untold().next_number(), Ordering::Relaxed);
        }
        drop(state);
        if let Some(failure) = failure {
            perilune_trace::emit::error(self.identity.get(), failure.text.as_bytes());
            match runtime {
                Some(runtime) if !self.is_nobodys.load(Ordering::Relaxed) => runtime.untold().enter(self),
                _ => self.tell(),
            }
        }
        for (waiter, case) in waiters {
            drop(waiter.claim(Reason::Ready, case));
        }
        true
    }

    /// The outcome, if it is known. Whoever gets it is responsible for it.
    pub fn poll(&self) -> Option<End> {
        match &*self.state.lock() {
            State::Pending(_) => None,
            State::Done(end) => {
                self.observed.store(true, Ordering::Relaxed);
                Some(end.clone())
            }
        }
    }

    /// The outcome, if it is known, for whoever only wants to know about it.
    pub fn peek(&self) -> Option<End> {
        match &*self.state.lock() {
            State::Pending(_) => None,
            State::Done(end) => Some(end.clone()),
        }
    }

    /// Whether the outcome is known.
    pub fn is_done(&self) -> bool {
        matches!(&*self.state.lock(), State::Done(_))
    }

    /// It is not known, and somebody waits for it.
    pub fn is_awaited(&self) -> bool {
        match &*self.state.lock() {
            State::Pending(waiters) => waiters.iter().any(|(waiter, _)| waiter.woken().is_none()),
            State::Done(_) => false,
        }
    }

    /// Ends the wait when the outcome is known; false if it is already.
    pub fn watch(&self, waiter: &Arc<Waiter>, case: u32) -> bool {
        match &mut *self.state.lock() {
            State::Done(_) => false,
            State::Pending(waiters) => {
                waiters.retain(|(w, _)| w.woken().is_none());
                waiters.push((Arc::clone(waiter), case));
                true
            }
        }
    }

    /// Nobody has a handle of it, and nobody will. To be called before it can be complete.
    pub fn is_nobodys(&self) {
        self.is_nobodys.store(true, Ordering::Relaxed);
    }

    /// The number of the failure, if it is one that nobody has been told of.
    pub fn untold(&self) -> Option<u64> {
        if self.observed.load(Ordering::Relaxed) {
            return None;
        }
        match &*self.state.lock() {
            State::Done(End::Failed(_)) => Some(self.number.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// Whether it is a failure that nobody has been told of.
    pub fn is_untold(&self) -> bool {
        self.untold().is_some()
    }

    /// Reports a failure that nobody has been told of.
    pub fn tell(&self) {
        let failure = match &*self.state.lock() {
            State::Done(End::Failed(failure)) => Arc::clone(failure),
            _ => return,
        };
        if !self.observed.swap(true, Ordering::Relaxed) {
            report(&self.whose, &failure);
        }
    }

    /// Nobody needs to be told of an error any more.
    pub fn dismiss(&self) {
        self.observed.store(true, Ordering::Relaxed);
    }
}

impl Holder for Outcome {
    fn freeze(&self) -> Freeze<'_> {
        freeze(&self.state)
    }
}

impl Contents for State {
    fn held(&self, to: &mut Held<'_>) {
        match self {
            State::Done(End::Returned(parcel)) => parcel.held(to),
            State::Done(End::Failed(failure)) => to.counted(failure),
            State::Done(End::Cancelled) | State::Pending(_) => {}
        }
    }
    fn empty(&mut self) -> Box<dyn Any> {
        match self {
            State::Done(End::Returned(parcel)) => Box::new(std::mem::take(parcel)),
            // It may still have to be reported.
            State::Done(End::Failed(failure)) => {
                let Failure { error, whence, text } = &**failure;
                let told =
                    Failure { error: error.without_value(), whence: whence.clone(), text: text.clone() };
                Box::new(std::mem::replace(failure, Arc::new(told)))
            }
            State::Done(End::Cancelled) | State::Pending(_) => Box::new(()),
        }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if let State::Done(End::Failed(failure)) = self.state.get_mut()
            && !*self.observed.get_mut()
        {
            report(&self.whose, failure);
        }
    }
}

fn report(whose: &str, Failure { error, whence, text }: &Failure) {
    let traceback = String::from_utf8_lossy(error.traceback());
    untold::say(&format!(
        "perilune: {whose} failed and nobody waited for it: {text}\nin {whence}: {traceback}\n"
    ));
}

/// For a native: waits for the outcome, and pushes the results or raises the error; `nil, "timeout"` if that
/// takes too long.
///
/// # Errors
/// The error of what ended, or of the wait: a standstill, a cancellation.
pub(crate) fn wait_for(vm: &mut Vm, outcome: &Arc<Outcome>, verb: Verb, limit: Limit) -> LuaResult<u32> {
    loop {
        if let Some(end) = outcome.poll() {
            wait::finish(vm);
            return deliver(vm, outcome, &end);
        }
        match wait::woken(vm)? {
            wait::Turn::First if limit.is_over() => return refuse_late(vm),
            wait::Turn::First => {
                let waiter = wait::begin(vm, verb, Object::Outcome(Arc::clone(outcome)))?;
                limit.set(vm)?;
                if outcome.watch(&waiter, 0) && wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            wait::Turn::Asleep => return Err(vm.park()),
            wait::Turn::Woken(Reason::Timeout, _) => {
                wait::finish(vm);
                return refuse_late(vm);
            }
            wait::Turn::Woken(..) => {}
        }
    }
}

/// Waits for the end alone, whatever that is: a failure is told as one that nobody has waited for.
pub(crate) fn wait_for_end(vm: &mut Vm, outcome: &Arc<Outcome>, verb: Verb) -> LuaResult<u32> {
    loop {
        if outcome.is_done() {
            wait::finish(vm);
            return Ok(0);
        }
        match wait::woken(vm)? {
            wait::Turn::First => {
                let waiter = wait::begin(vm, verb, Object::Outcome(Arc::clone(outcome)))?;
                if outcome.watch(&waiter, 0) && wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            wait::Turn::Asleep => return Err(vm.park()),
            wait::Turn::Woken(..) => {}
        }
    }
}

/// Copies what has come from another domain, outside of all fibers: for one that is about to begin. Events
/// tell it, so that the time counts as the program's.
///
/// # Errors
/// Those of [`Vm::unpack`].
pub(crate) fn unpack(vm: &mut Vm, parcel: &Parcel) -> LuaResult<u32> {
    emit(CopyBegin {});
    let result = vm.unpack(parcel);
    emit(CopyEnd {});
    result
}

/// As [`unpack`], for the functions of a loop.
///
/// # Errors
/// Those of [`Vm::unpack`].
pub(crate) fn unpack_once(vm: &mut Vm, parcel: &Parcel) -> LuaResult<u32> {
    emit(CopyBegin {});
    let result = vm.unpack_once(parcel);
    emit(CopyEnd {});
    result
}

/// Pushes the results, or raises the error.
///
/// # Errors
/// The error that ended it.
pub fn deliver(vm: &mut Vm, outcome: &Outcome, end: &End) -> LuaResult<u32> {
    outcome.order.enter(vm);
    match end {
        End::Returned(parcel) => vm.unpack(parcel),
        End::Failed(failure) => Err(vm.raise_from(&failure.error, &failure.whence)),
        End::Cancelled => Err(vm.error(format!("{} was cancelled", outcome.whose))),
    }
}
