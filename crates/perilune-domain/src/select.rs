//! `pl.select`: waiting for the first of several things.
//!
//! # What can be waited for
//! Channels, to receive from or send to, and whatever is [`Selectable`]: tasks, fibers, timers without a
//! function, and kinds of other crates, which make themselves known by [`register_kind`].
//!
//! # How
//! One waiter is left with all cases. A channel's case hands the message over by the waiter's claim, so that
//! no message is lost when another case was faster. The other things only say that they may be ready: whoever
//! is woken asks ([`Selectable::take`]), and if somebody else was faster it waits again, for what is left of
//! the time. Tasks and fibers end once and for all, so asking one always tells. What is outside of the
//! program ([`Selectable::is_outside`]) keeps the wait from being taken for a deadlock.
//!
//! Cases are numbered from 1 where they are left: a wake that names none (0) says that something may be
//! ready, and all are asked.
//!
//! Of several ready cases the first is taken, so a program decides what matters most.
//!
//! *Rejected*: handing over by claim for everything (a socket's readiness belongs to the kernel, which takes
//! no claims); polling all cases at intervals.

use crate::channel::{Ask, Channel, Offer, Received, Sent, as_channel, refuse, stashed, unpack};
use crate::options;
use crate::outside;
use crate::pool::Task;
use crate::races;
use crate::sched::{Reason, Waiter};
use crate::scope::fiber::{Fiber, fiber_of};
use crate::surplus;
use crate::time::Timer;
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_trace::event::Verb;
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedArc, SharedKind, downcast_arc};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::sync::Arc;
use std::time::Instant;

/// Something that `pl.select` can wait for.
pub trait Selectable: Send + Sync {
    /// If it is ready: takes what there is to take, pushes it, and says how many values that are; or raises
    /// the error that it has come to. `case` is the value that the program has named it by. It is not called
    /// while a wait is on.
    ///
    /// # Errors
    /// What it has come to.
    fn take(&self, vm: &mut Vm, case: Value) -> LuaResult<Option<u32>>;
    /// Leaves the waiter until the thing may be ready: then `waiter.claim(Reason::Ready, case)`. False: it
    /// may be ready already. A waiter that has been woken by something else is to be forgotten some time.
    fn watch(&self, waiter: &Arc<Waiter>, case: u32) -> bool;
    /// When it is going to be ready by itself, without a claim.
    fn due(&self) -> Option<Instant> {
        None
    }
    /// Whether what makes it ready is no part of the program (`outside.rs`).
    fn is_outside(&self) -> bool {
        false
    }
    /// What reports call it: "task 'parse'".
    fn describe(&self) -> String;
}

/// Makes a case of an object. `rest` is what follows it in a table (`{socket, "write"}`). `Err`: what is
/// wrong with that.
pub type MakeCase = fn(object: &SharedArc, rest: &[Value]) -> Result<Arc<dyn Selectable>, String>;

static KINDS: Mutex<Vec<(&'static SharedKind, MakeCase)>> = Mutex::new(Vec::new());

/// Lets `pl.select` wait for objects of this kind, in all programs of the process.
pub fn register_kind(kind: &'static SharedKind, make: MakeCase) {
    let mut kinds = KINDS.lock();
    if !kinds.iter().any(|(known, _)| std::ptr::eq(*known, kind)) {
        kinds.push((kind, make));
    }
}

/// One case.
enum Case {
    Receive(Arc<Channel>),
    /// The message is with the channel while it is `None`.
    Send(Arc<Channel>, Option<Parcel>),
    Other(Arc<dyn Selectable>),
}

/// A `select` between its turns.
struct Selection {
    cases: Vec<Case>,
    deadline: Option<Instant>,
}

impl Case {
    fn describe(&self) -> String {
        match self {
            Case::Receive(c) | Case::Send(c, _) => c.describe(),
            Case::Other(thing) => thing.describe(),
        }
    }

    fn is_outside(&self) -> bool {
        matches!(self, Case::Other(thing) if thing.is_outside())
    }
}

/// `pl.select{ c1, {c2, value...}, task, fiber, timer, socket, timeout = seconds }`: waits until one of the
/// channels can be received from, or sent to, or one of the other things is ready. Returns the case's number,
/// and what `recv` or `await` would. A case whose channel is closed is ready. Of several ready cases the
/// first is taken. `nil, "timeout"` when the time is over; a timeout of 0 never waits.
pub(crate) static SELECT: Native = Native::hybrid("select", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let list = vm.check_table(1)?;
    if let Some((case, message)) = stashed(vm)? {
        let v = vm.raw_get_int(list, case as i64 + 1);
        let Some(c) = as_channel(v) else { return Err(vm.arg_error(1, "the cases have changed")) };
        return selected(vm, case as usize, Received::Message(message), &c);
    }
    let (mut cases, deadline) = match wait::woken(vm)? {
        Turn::Asleep => return Err(vm.park()),
        Turn::First => begin(vm, list)?,
        Turn::Woken(reason, case) => {
            let selection = wait::take_data::<Selection>(vm);
            let letter = wait::take_letter(vm);
            wait::finish(vm);
            let Some(selection) = selection else { return Err(vm.error("the wait was cancelled")) };
            let Selection { mut cases, deadline } = *selection;
            let case = (case as usize).wrapping_sub(1);
            match (reason, cases.get(case)) {
                (Reason::Timeout, _) | (_, Some(Case::Other(_)) | None) => {}
                (Reason::Closed, Some(Case::Send(c, _))) => {
                    c.closing.enter(vm);
                    return Err(vm.error("the channel was closed while a send waited"));
                }
                (_, Some(Case::Send(c, _))) => {
                    c.found_room(vm);
                    let c = Arc::clone(c);
                    return selected(vm, case, Received::Empty, &c);
                }
                (_, Some(Case::Receive(c))) => {
                    let c = Arc::clone(c);
                    if letter.is_none() {
                        c.closing.enter(vm);
                    }
                    let received = letter.map_or(Received::Closed, Received::Message);
                    return selected(vm, case, received, &c);
                }
            }
            pack_again(vm, list, &mut cases)?;
            (cases, deadline)
        }
    };
    loop {
        if let Some(n) = try_cases(vm, list, &mut cases)? {
            return Ok(n);
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            return refuse(vm, "timeout");
        }
        let names: Vec<String> = cases.iter().map(Case::describe).collect();
        let waiter = wait::begin(vm, Verb::Selects, Object::Words(names.join(", ")))?;
        if cases.iter().any(Case::is_outside) {
            outside::hold(vm)?;
        }
        let left = (1..).zip(&mut cases).all(|(n, case)| leave(case, &waiter, n));
        if !left && let Some(claim) = waiter.claim(Reason::Cancelled, 0) {
            // One became ready meanwhile, and nobody has taken another case.
            std::mem::forget(claim);
            wait::finish(vm);
            pack_again(vm, list, &mut cases)?;
            continue;
        }
        let dues = cases.iter().filter_map(|case| match case {
            Case::Other(thing) => thing.due(),
            _ => None,
        });
        let first = dues.chain(deadline).min();
        wait::set_data(vm, Selection { cases, deadline });
        wait::limit_at(vm, first)?;
        if wait::sleeps(vm) {
            return Err(vm.park());
        }
        return SELECT.run(vm);
    }
});

/// The cases of the program's table, and when the time is over.
fn begin(vm: &mut Vm, list: Gc<Table>) -> LuaResult<(Vec<Case>, Option<Instant>)> {
    let options = options::list(vm, 1, &["timeout"])?;
    let deadline = options.span(vm, "timeout")?.deadline();
    let len = vm.raw_len(list);
    if len == 0 {
        return Err(vm.arg_error(
            1,
            "no cases: a select needs at least one channel, {channel, value}, task, fiber, timer or socket",
        ));
    }
    let mut cases = Vec::new();
    for i in 1..=len {
        let v = vm.raw_get_int(list, i);
        cases.push(case(vm, v, i)?);
    }
    Ok((cases, deadline))
}

/// What has been offered and not taken is packed again: the offer went with its wait.
fn pack_again(vm: &mut Vm, list: Gc<Table>, cases: &mut [Case]) -> LuaResult<()> {
    for (i, case) in cases.iter_mut().enumerate() {
        if matches!(case, Case::Send(_, None)) {
            let v = vm.raw_get_int(list, i as i64 + 1);
            *case = self::case(vm, v, i as i64 + 1)?;
        }
    }
    Ok(())
}

/// Leaves the waiter with a case; false: it is ready already.
fn leave(case: &mut Case, waiter: &Arc<Waiter>, n: u32) -> bool {
    match case {
        Case::Receive(c) => c.ask(Ask { waiter: Arc::clone(waiter), case: n }),
        Case::Send(c, message) => match message.take() {
            None => true,
            Some(m) => match c.offer(Offer { waiter: Arc::clone(waiter), case: n, message: m }) {
                Ok(()) => true,
                Err(offer) => {
                    *message = Some(offer.message);
                    false
                }
            },
        },
        Case::Other(thing) => thing.watch(waiter, n),
    }
}

fn case(vm: &mut Vm, v: Value, i: i64) -> LuaResult<Case> {
    let (subject, rest) = match v.as_table() {
        Some(t) => {
            let rest = (2..=vm.raw_len(t)).map(|n| vm.raw_get_int(t, n)).collect();
            (vm.raw_get_int(t, 1), Some(rest))
        }
        None => (v, None),
    };
    if let Some(c) = as_channel(subject) {
        let Some(values) = rest else {
            c.room.leave(vm);
            return Ok(Case::Receive(c));
        };
        let values: Vec<Value> = values;
        let mut message = vm.pack_or_raise(&values, PackRules::MESSAGE)?;
        races::sent(vm, &mut message);
        return Ok(Case::Send(c, Some(message)));
    }
    match selectable(subject, &rest.unwrap_or_default()) {
        Some(Ok(thing)) => Ok(Case::Other(thing)),
        Some(Err(why)) => Err(vm.arg_error(1, &format!("case {i}: {why}"))),
        None => {
            let kind = v.type_name();
            let text = format!(
                "case {i} is neither a channel nor {{channel, value}}, a task, a fiber, a timer or a socket, \
                 but a {kind} value"
            );
            Err(vm.arg_error(1, &text))
        }
    }
}

/// What can be waited for in a value, if it is such a thing.
fn selectable(v: Value, rest: &[Value]) -> Option<Result<Arc<dyn Selectable>, String>> {
    if let Some(fiber) = fiber_of(v) {
        let fiber: Arc<Fiber> = fiber;
        return Some(Ok(fiber));
    }
    let object = v.as_shared()?.object().clone();
    if let Ok(task) = downcast_arc::<Task>(object.clone()) {
        return Some(Ok(task));
    }
    if let Ok(timer) = downcast_arc::<Timer>(object.clone()) {
        return Some(match timer.is_alarm() {
            true => Ok(timer),
            false => {
                Err("a timer that has a function cannot be waited for; pl.after(seconds) can".to_owned())
            }
        });
    }
    let make =
        KINDS.lock().iter().find(|(kind, _)| std::ptr::eq(*kind, object.kind())).map(|(_, make)| *make)?;
    Some(make(&object, rest))
}

/// Takes the first case that is ready, if one is.
fn try_cases(vm: &mut Vm, list: Gc<Table>, cases: &mut [Case]) -> LuaResult<Option<u32>> {
    for (n, case) in cases.iter_mut().enumerate() {
        match case {
            Case::Receive(c) => match c.try_recv() {
                Received::Empty => {}
                received => {
                    if let Received::Closed = received {
                        c.closing.enter(vm);
                    }
                    return selected(vm, n, received, c).map(Some);
                }
            },
            Case::Send(c, message) => {
                let Some(m) = message.take() else { continue };
                match c.try_send(m) {
                    Sent::Done => {
                        c.found_room(vm);
                        return selected(vm, n, Received::Empty, c).map(Some);
                    }
                    Sent::Closed => return Err(vm.error(format!("{} is closed", c.describe()))),
                    Sent::Full(m) => *message = Some(m),
                    Sent::NoMemory => return Err(vm.out_of_memory()),
                }
            }
            Case::Other(thing) => {
                let v = vm.raw_get_int(list, n as i64 + 1);
                vm.push(Value::int(n as i64 + 1));
                if let Some(values) = thing.take(vm, v)? {
                    return Ok(Some(values + 1));
                }
                vm.pop();
            }
        }
    }
    Ok(None)
}

/// The results of `select`: the number of the case, then the message; or nothing after a send; or
/// `nil, "closed"`.
fn selected(vm: &mut Vm, case: usize, received: Received, c: &Arc<Channel>) -> LuaResult<u32> {
    vm.push(Value::int(case as i64 + 1));
    match received {
        Received::Message(m) => Ok(unpack(vm, c, m, case as u32)? + 1),
        Received::Empty => Ok(1),
        Received::Closed => Ok(refuse(vm, "closed")? + 1),
    }
}

/// `is_awaitable(v)`: is it a task or a fiber? For the prelude.
pub(crate) static IS_AWAITABLE: Native = Native::leaf("is_awaitable", |vm| {
    let v = vm.arg(1);
    let is_task = || v.as_shared().is_some_and(|r| r.downcast::<Task>().is_some());
    let is = fiber_of(v).is_some() || is_task();
    vm.ret(is)
});
