//! Waiting for what is outside the program: the interface through which rooms above this one make natives
//! that wait, for sockets, for helper threads.
//!
//! A native follows the pattern of `wait.rs`: it tries; if it has to wait it begins a wait, leaves the waiter
//! where somebody will wake it, looks once more, and parks; then it is called again. What differs from waits
//! inside the program:
//!
//! * Who ends the wait is no part of the program, so the wait itself has a unit of the count of what can
//!   happen (`sched/quiescence.rs`), from [`begin`] to its end: a program with such a wait is not at rest.
//!   The unit is given up by the domain's owner, who has another one.
//! * What the native has left somewhere has to be taken back however the wait ends, also when the native is
//!   not called again because its fiber is cancelled. So what it puts aside with [`set_data`] is dropped with
//!   the wait: a guard whose `drop` takes the waiter back.
//!
//! What of a module is written in Lua is a [`Source`]; fibers that a module starts for a program are daemons
//! of the program's scope ([`start_daemon`]).
//!
//! A native that finds what it wants at once, again and again, would never let its neighbours run: it calls
//! [`give_way`] first.

use crate::channel::{Channel, Sent};
use crate::domain::{Domain, running_fiber};
use crate::sched::Hold;
use crate::sched::deferred::Later;
use crate::wait::{self, Object};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::parcel::Parcel;
use perilune_vm::{LuaResult, Value, Vm};
use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

pub use crate::sched::{Reason, Waiter};
pub use crate::wait::Turn;

/// How many operations a fiber does without waiting while others are ready.
const TURN: u32 = 16;

/// What is waited for, for events and reports: `connection 127.0.0.1:4711 -> 127.0.0.1:80`.
pub trait Awaited: Send + Sync {
    /// What it is.
    fn kind(&self) -> ObjectKind;
    /// What it is called: the ends of a connection, number and command of a process. Asked for when somebody
    /// looks.
    fn name(&self) -> String;
}

/// What a fiber of a module does: tools call it so, since a line of the module's source means nothing to
/// whoever looks at a program.
pub struct Doing {
    /// In few words, the same for all that do the same: tools count these as one.
    pub what: &'static str,
    /// With whom.
    pub with: Option<Arc<dyn Awaited>>,
}

impl Doing {
    /// Both.
    pub(crate) fn describe(&self) -> String {
        match &self.with {
            Some(with) => format!("{} {}", self.what, with.name()),
            None => self.what.to_owned(),
        }
    }
}

/// The running fiber does this from now on. Code that is in no fiber is the main program, whatever it does.
///
/// # Errors
/// [`enter`] was not called.
pub fn does(vm: &mut Vm, doing: Doing) -> LuaResult<()> {
    if let Some(id) = running_fiber(vm) {
        let domain = Domain::of(vm)?.domain.counted();
        domain.does(vm, id, doing);
    }
    Ok(())
}

/// Makes the running state a domain if it is none yet, as `require "perilune"` does: natives that wait need
/// it.
pub fn enter(vm: &mut Vm) {
    if vm.host().is_none() {
        Domain::adopt(vm);
        vm.seal_modules();
    }
}

/// Begins to wait. `verb` and `object` say for what.
///
/// # Errors
/// Nothing can wait here (a finaliser, a hook); or [`enter`] was not called.
pub fn begin(vm: &mut Vm, verb: Verb, object: Arc<dyn Awaited>) -> LuaResult<Arc<Waiter>> {
    let waiter = wait::begin(vm, verb, Object::Outside(object))?;
    hold(vm)?;
    Ok(waiter)
}

/// The wait that has begun is for something outside the program. The caller runs, so there is no rest before
/// this.
pub(crate) fn hold(vm: &mut Vm) -> LuaResult<()> {
    let owner = Domain::of(vm)?;
    let hold = owner.domain.runtime().quiescence().hold();
    if let Some(wait) = owner.wait() {
        wait.hold = Some(hold);
    }
    Ok(())
}

/// Lets the wait that has begun end at this time; `None`: never.
///
/// # Errors
/// As [`begin`].
pub fn limit_at(vm: &mut Vm, deadline: Option<Instant>) -> LuaResult<()> {
    wait::limit_at(vm, deadline)
}

/// When the time of the running code is over, if a `pl.timeout` is around it: for code that tells others how
/// long it waits.
///
/// # Errors
/// "not enough memory"
pub fn deadline(vm: &mut Vm) -> LuaResult<Option<Instant>> {
    crate::scope::deadline(vm)
}

/// Where the running native is with its wait.
///
/// # Errors
/// The wait has been given up because nothing can end it, or by an interrupt.
pub fn woken(vm: &mut Vm) -> LuaResult<Turn> {
    wait::woken(vm)
}

/// Puts something aside for the native's next turn. It is dropped when the wait ends.
pub fn set_data<T: Any + Send>(vm: &mut Vm, data: T) {
    wait::set_data(vm, data);
}

/// What the native has put aside, if it is a `T`; it is put aside no more.
pub fn take_data<T: 'static>(vm: &mut Vm) -> Option<Box<T>> {
    wait::take_data(vm)
}

/// The waiter has been left with all sources. True: return `Err(vm.park())`. False: the wait has ended
/// already.
pub fn sleeps(vm: &mut Vm) -> bool {
    wait::sleeps(vm)
}

/// The wait is over, if there was one.
pub fn finish(vm: &mut Vm) {
    wait::finish(vm);
}

/// Argument `n`, the last one, as the longest time to wait, which begins now: nothing, seconds, or
/// `{timeout = seconds}`. `None`: for ever.
///
/// # Errors
/// It is something else.
pub fn opt_deadline(vm: &mut Vm, n: u32) -> LuaResult<Option<Instant>> {
    crate::time::opt_limit(vm, n).map(crate::time::Limit::deadline)
}

/// To be called by a native before it does something that needs no wait, when it is not waiting: now and then
/// other ready fibers go first.
///
/// # Errors
/// The park, to be passed on.
pub fn give_way(vm: &mut Vm) -> LuaResult<()> {
    let owner = Domain::of(vm)?;
    if !owner.domain.is_fiber_ready() || !owner.count_operation(TURN) {
        return Ok(());
    }
    // Where nothing can wait, nothing else has a turn.
    match wait::give_way(vm) {
        Ok(park) => Err(park),
        Err(_) => Ok(()),
    }
}

/// The beginning of a native that may find what it wants at hand. True: if it does, it takes it, and says so
/// ([`took`]). False, or there is nothing: what [`woken`] says and [`give_way`] does comes first.
///
/// # Errors
/// A cancellation that has waited for this, or another interrupt.
#[inline]
pub fn may_take(vm: &mut Vm) -> LuaResult<bool> {
    let Ok(owner) = Domain::of(vm) else { return Ok(false) };
    // A wait has to be ended, and who takes what is there again and again lets others have their turn.
    if owner.domain.is_fiber_ready() || owner.wait().is_some() {
        return Ok(false);
    }
    vm.end_grace()?;
    Ok(true)
}

/// The native has taken what was there.
#[inline]
pub fn took(vm: &mut Vm) {
    vm.has_delivered();
}

/// Has `later` called when the domain has nothing better to do (`sched/deferred.rs`).
///
/// # Errors
/// The state is no domain.
pub fn defer(vm: &mut Vm, later: Arc<dyn Later>) -> LuaResult<()> {
    Domain::of(vm)?.domain.defer(later);
    Ok(())
}

/// Starts a fiber of the running scope that is cancelled when the others have ended; in no scope, a fiber of
/// the domain. Argument 1 of the running native is its function, the others are what that gets. The fiber's
/// handle.
///
/// # Errors
/// Argument 1 is no function, or there is neither scope nor domain for it.
pub fn start_daemon(vm: &mut Vm) -> LuaResult<Value> {
    Ok(crate::scope::fiber::start_here(vm, true)?.into())
}

/// As [`start_daemon`], for a fiber that serves others. Argument 2 says what it serves: if the main program
/// ends while such a fiber of no scope runs, that is told ([`tell_services`]).
///
/// # Errors
/// As [`start_daemon`].
pub fn start_service(vm: &mut Vm) -> LuaResult<Value> {
    let what = vm.check_str(2)?.to_text();
    Ok(crate::scope::fiber::start_service(vm, what)?.into())
}

/// The main program has come to its end: tells on standard error what it was serving, since whoever writes a
/// server means it to go on.
pub fn tell_services(vm: &mut Vm) {
    if let Ok(owner) = Domain::of(vm) {
        owner.domain.tell_services();
    }
}

/// What of a module is written in Lua. It is compiled once, and no part of it is named in the positions of
/// errors.
pub struct Source {
    text: &'static [u8],
    proto: OnceLock<Arc<perilune_syntax::Proto>>,
}

impl Source {
    /// This text.
    pub const fn new(text: &'static [u8]) -> Source {
        Source { text, proto: OnceLock::new() }
    }

    /// Runs it with these arguments.
    ///
    /// # Errors
    /// Those of the text.
    pub fn run(&self, vm: &mut Vm, args: &[Value]) -> LuaResult<()> {
        let proto = self.proto.get_or_init(|| crate::module::compile_prelude(self.text));
        let env = vm.globals().into();
        let chunk = vm.new_main_closure(Arc::clone(proto), env)?;
        let below = vm.nargs();
        vm.call(chunk.into(), args)?;
        vm.truncate(below);
        Ok(())
    }
}

// -- Messages from outside ----------------------------------------------------------------------------------

/// The end of a channel into which something outside the program sends: a signal, a change of a file. For as
/// long as it lives, whoever waits for the channel waits for something that can happen.
pub struct Inlet {
    channel: Weak<Channel>,
    #[allow(dead_code, reason = "it is given back when this is dropped")]
    hold: Hold,
}

impl Inlet {
    /// Sends, unless the channel is full: then the message is dropped. False: nobody can receive any more.
    /// Never waits.
    pub fn send(&self, message: Parcel) -> bool {
        let Some(channel) = self.channel.upgrade() else { return false };
        !matches!(channel.try_send(message), Sent::Closed)
    }

    /// Whether somebody may still receive.
    pub fn is_open(&self) -> bool {
        self.channel.upgrade().is_some_and(|channel| !channel.is_closed())
    }
}

/// A channel for so many messages, as a value, and so many other ends of it.
///
/// # Errors
/// The state is no domain.
pub fn inlets(vm: &mut Vm, capacity: usize, name: String, count: usize) -> LuaResult<(Value, Vec<Inlet>)> {
    let quiescence = Arc::clone(Domain::of(vm)?.domain.runtime().quiescence());
    let channel = Channel::new(capacity, Some(name));
    let inlets =
        (0..count).map(|_| Inlet { channel: Arc::downgrade(&channel), hold: quiescence.hold() }).collect();
    Ok((vm.shared_ref(channel).into(), inlets))
}
