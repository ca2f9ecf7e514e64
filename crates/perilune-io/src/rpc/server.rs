//! The side that answers: natives for the fibers of `rpc.lua`.

use super::frame::{Asked, Code, MOST, asked, kind};
use super::jobs::{Event, Jobs, Next};
use super::link::{Link, Role};
use super::natives::{
    Unsent, bad_values, draft, drop_draft, error_frame, push_values, put, put_arguments, room, shaken,
};
use crate::connection::CONNECTION;
use crate::seen;
use crate::stream::Stream;
use crate::waiting::{Progress, Side, turn};
use parking_lot::Mutex;
use perilune_data::wire::{self, Malformed, Reader, Refused};
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Turn, Waiter};
use perilune_trace::ObjectKind;
use perilune_trace::event::{Protocol, Verb};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kind of connections that are served.
static SERVED: SharedKind = SharedKind::new("rpc connection", open);

/// A connection as its fibers handle it.
struct Served {
    link: Arc<Link>,
}

impl Served {
    fn jobs(&self) -> &Mutex<Jobs> {
        jobs(&self.link)
    }
}

fn jobs(link: &Link) -> &Mutex<Jobs> {
    match &link.role {
        Role::Server(jobs) => jobs,
        Role::Client(_) => unreachable!("a server's link"),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.link.end(crate::failure::Failure::Closed);
    }
}

impl Awaited for Served {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Connection
    }
    fn name(&self) -> String {
        self.link.stream.name()
    }
}

impl SharedObject for Served {
    fn kind(&self) -> &'static SharedKind {
        &SERVED
    }
    fn label(&self) -> Option<String> {
        Some(self.link.stream.peer.clone())
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&NEXT, &DRAIN, &LEFT, &IS_NOTIFIED, &REPLY, &FAIL, &ITEM, &EVENT, &GONE, &CLOSE],
        &[("__close", &CLOSE)],
    )
}

fn this(vm: &mut Vm) -> LuaResult<Arc<Served>> {
    vm.check_shared_arc(1, &SERVED)
}

/// `serve(connection, most)`: the connection, to be served by at most so many workers; or
/// `nil, message, code` if its handshake has failed.
pub static SERVE: Native = Native::leaf("serve", |vm| {
    let stream: Arc<Stream> = vm.check_shared_arc(1, &CONNECTION)?;
    let most = usize::try_from(vm.check_int(2)?).unwrap_or(1).max(1);
    if let Err(failure) = shaken(vm, &stream)? {
        return failure.ret(vm);
    }
    let link = Link::new(stream, Role::Server(Box::new(Mutex::new(Jobs::new(most)))));
    let served = vm.shared_ref(Arc::new(Served { link }));
    vm.ret(served)
});

/// A worker that waits for a request.
struct Idle {
    link: Arc<Link>,
    waiter: Arc<Waiter>,
    /// It has its turn.
    came: bool,
}

impl Drop for Idle {
    fn drop(&mut self) {
        if self.came {
            return;
        }
        let other = {
            let mut jobs = jobs(&self.link).lock();
            jobs.take_back(&self.waiter);
            // It was summoned, and does not come.
            if self.waiter.woken().is_some_and(|(reason, _)| reason == outside::Reason::Ready) {
                jobs.replace()
            } else {
                None
            }
        };
        self.link.wake(other.into_iter().collect());
    }
}

/// `peer:next(n, is_new)`: what worker `n` is to do: id, kind, name, arguments. Nothing: it is to end.
/// `id` is false for what nobody waits for; `kind` is "call" or "stream".
static NEXT: Native = Native::leaf("next", |vm| {
    let served = this(vm)?;
    let link = &served.link;
    let n = vm.check_int(2)?;
    let mut came = vm.arg(3).is_truthy();
    match outside::woken(vm)? {
        Turn::First => outside::give_way(vm)?,
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {
            if let Some(mut idle) = outside::take_data::<Idle>(vm) {
                idle.came = true;
                came = true;
            }
            outside::finish(vm);
        }
    }
    let mut waiter = None;
    loop {
        if link.over().is_some() {
            outside::finish(vm);
            return Ok(0);
        }
        let mut wakes = Vec::new();
        let next = served.jobs().lock().next(n, came, waiter.clone(), &mut wakes);
        came = false;
        link.wake(wakes);
        if !matches!(next, Next::Job { .. }) {
            end_if_drained(link);
        }
        match next {
            Next::Job { frame, came, cancelled, pump } => {
                outside::finish(vm);
                if pump {
                    link.pump();
                }
                if let Some(count) = begin(vm, link, &frame, came, cancelled)? {
                    return Ok(count);
                }
                waiter = None;
            }
            Next::Leave => {
                outside::finish(vm);
                return Ok(0);
            }
            Next::Wait => match waiter.take() {
                // Looked for without leaving a waiter: now with one.
                None => waiter = Some(outside::begin(vm, Verb::Serves, Arc::clone(&served) as _)?),
                Some(waiter) => {
                    outside::set_data(vm, Idle { link: Arc::clone(link), waiter, came: false });
                    if link.over().is_none() && outside::sleeps(vm) {
                        return Err(vm.park());
                    }
                    if let Some(mut idle) = outside::take_data::<Idle>(vm) {
                        idle.came = true;
                        served.jobs().lock().take_back(&idle.waiter);
                    }
                    outside::finish(vm);
                    came = true;
                }
            },
        }
    }
});

/// The connection ends if it is to, and nothing is to be done any more.
fn end_if_drained(link: &Link) {
    if jobs(link).lock().is_drained() {
        link.end(crate::failure::Failure::Closed);
    }
}

/// `peer:drain()`: the connection ends as soon as everything that it was asked for has been answered.
static DRAIN: Native = Native::leaf("drain", |vm| {
    let served = this(vm)?;
    served.jobs().lock().drain();
    end_if_drained(&served.link);
    Ok(0)
});

/// `peer:left()`: the connection is over: the next notification that nobody has taken, as `next` gives it; or
/// nothing.
static LEFT: Native = Native::leaf("left", |vm| {
    let served = this(vm)?;
    if served.link.over().is_none() {
        return Ok(0);
    }
    loop {
        let Some(frame) = served.jobs().lock().left() else { return Ok(0) };
        if let Some(count) = begin(vm, &served.link, &frame, None, None)? {
            return Ok(count);
        }
    }
});

/// `peer:is_notified(n)`: whether worker `n` carries out a notification.
static IS_NOTIFIED: Native = Native::leaf("is_notified", |vm| {
    let n = vm.check_int(2)?;
    let notified = this(vm)?.jobs().lock().is_notified(n);
    vm.ret(notified)
});

/// Pushes what a request says; `None`: there is nothing to do for it.
fn begin(
    vm: &mut Vm,
    link: &Link,
    frame: &[u8],
    came: Option<Instant>,
    cancelled: Option<Code>,
) -> LuaResult<Option<u32>> {
    let below = vm.nargs();
    match read_request(vm, link, frame, cancelled) {
        Ok(n) => {
            if n.is_some()
                && seen::is_on()
                && let Some(name) = vm.arg(below + 3).as_string()
            {
                let queued = came.map_or(Duration::ZERO, |at| at.elapsed());
                let fiber = vm.running_fiber_ref();
                seen::request_begins(fiber, name.bytes(), Protocol::Rpc, &link.stream, queued);
            }
            Ok(n)
        }
        Err(malformed) => {
            vm.truncate(below);
            bad_values(vm, link, malformed)?;
            Ok(None)
        }
    }
}

fn read_request(
    vm: &mut Vm,
    link: &Link,
    frame: &[u8],
    cancelled: Option<Code>,
) -> Result<Option<u32>, Malformed> {
    let (request, at) = asked(frame)?;
    let mut reader = Reader::new(&frame[at..]);
    let (id, word): (Option<u64>, &[u8]) = match request {
        Asked::Call { id, .. } => (Some(id), b"call"),
        Asked::Stream { id, .. } => (Some(id), b"stream"),
        _ => (None, b"call"),
    };
    if let (Some(id), Some(why)) = (id, cancelled) {
        refuse(link, id, why, end_words(why));
        return Ok(None);
    }
    // The id goes through Lua as an integer of the same bits.
    vm.push(id.map_or(Value::FALSE, |id| Value::int(id as i64)));
    vm.push_str(word)?;
    let name = vm.new_str(reader.string()?)?;
    vm.push(name.into());
    Ok(Some(3 + push_values(vm, &mut reader)?))
}

/// What the error says of a job that was cancelled.
fn end_words(why: Code) -> &'static str {
    if why == Code::Timeout { "the time is over" } else { "the call was cancelled" }
}

/// The answer is an error of ours.
fn refuse(link: &Link, id: u64, code: Code, text: &str) {
    if jobs(link).lock().finish(id) {
        link.send(&error_frame(id, code, text));
    }
}

fn check_id(vm: &mut Vm, n: u32) -> LuaResult<Option<u64>> {
    Ok(vm.arg(n).as_int().map(|id| id as u64))
}

/// The end of what [`begin`] has begun.
fn answered(vm: &Vm, failed: bool) {
    if seen::is_on() {
        seen::request_ends(vm.running_fiber_ref(), failed.into());
    }
}

/// The function has returned.
fn handled(vm: &Vm, progress: &Progress) {
    if progress.is_first && seen::is_on() {
        seen::request_handled(vm.running_fiber_ref());
    }
}

/// `peer:reply(id, ...)`: the results of a call, or nothing at the end of a stream.
static REPLY: Native = Native::leaf("reply", |vm| {
    let served = this(vm)?;
    let link = &served.link;
    let Some(id) = check_id(vm, 2)? else {
        answered(vm, false);
        return Ok(0);
    };
    let progress = turn(vm, &link.stream, Side::Write)?;
    handled(vm, &progress);
    if room(vm, link, &progress)?.is_err() {
        served.jobs().lock().finish(id);
        answered(vm, true);
        return Ok(0);
    }
    let mut draft = draft();
    match put_arguments(vm, &mut draft, 3) {
        Ok(()) => {}
        Err(Unsent::Thrown(thrown)) => return Err(thrown),
        Err(Unsent::Value(n, what)) => {
            refuse(link, id, Code::Error, &format!("result #{n}: {what}"));
            answered(vm, true);
            return Ok(0);
        }
    }
    if served.jobs().lock().finish(id) {
        match draft.finish(kind::RESULT, &[id], MOST) {
            Some(frame) => put(vm, link, frame)?,
            None => link.send(&error_frame(id, Code::Error, "the results are longer than 16 MiB")),
        }
    }
    drop_draft(draft);
    answered(vm, false);
    Ok(0)
});

/// `peer:fail(id, code, value, traceback)`: the error of a call.
static FAIL: Native = Native::leaf("fail", |vm| {
    let served = this(vm)?;
    let link = &served.link;
    answered(vm, true);
    let Some(id) = check_id(vm, 2)? else { return Ok(0) };
    let code = u8::try_from(vm.check_int(3)?).ok().and_then(Code::of).unwrap_or(Code::Error);
    let mut draft = draft();
    draft.body().push(code.byte());
    let value = vm.arg(4);
    match wire::encode(vm, value, draft.body()) {
        Ok(()) => {}
        Err(Refused::Thrown(thrown)) => return Err(thrown),
        Err(Refused::Value(_)) => {
            let text = format!("(error object is a {} value)", value.type_name());
            refuse(link, id, code, &text);
            return Ok(0);
        }
    }
    let traceback = vm.opt_str(5)?;
    wire::put_string(draft.body(), traceback.as_ref().map_or(&b""[..], |s| s.bytes()));
    if served.jobs().lock().finish(id) {
        match draft.finish(kind::ERROR, &[id], MOST) {
            Some(frame) => put(vm, link, frame)?,
            None => link.send(&error_frame(id, code, "an error that is longer than 16 MiB")),
        }
    }
    drop_draft(draft);
    Ok(0)
});

/// `peer:item(id, ...)`: a step of a stream; waits until the peer wants one. False: nobody wants more.
static ITEM: Native = Native::leaf("item", |vm| {
    let served = this(vm)?;
    let link = &served.link;
    let Some(id) = check_id(vm, 2)? else { return vm.ret(false) };
    let progress = turn(vm, &link.stream, Side::Write)?;
    let mut waiter = None;
    loop {
        if link.over().is_some() {
            outside::finish(vm);
            return vm.ret(false);
        }
        let may = served.jobs().lock().may_send(id, waiter.clone());
        match may {
            None => {
                outside::finish(vm);
                return vm.ret(false);
            }
            Some(true) => break,
            Some(false) => match waiter.take() {
                None => waiter = Some(outside::begin(vm, Verb::Writes, Arc::clone(&served) as _)?),
                Some(_) => {
                    if link.over().is_none() && outside::sleeps(vm) {
                        return Err(vm.park());
                    }
                    outside::finish(vm);
                }
            },
        }
    }
    outside::finish(vm);
    if room(vm, link, &progress)?.is_err() {
        return vm.ret(false);
    }
    let mut draft = draft();
    match put_arguments(vm, &mut draft, 3) {
        Ok(()) => {}
        Err(Unsent::Thrown(thrown)) => return Err(thrown),
        Err(Unsent::Value(n, what)) => {
            refuse(link, id, Code::Error, &format!("result #{n} of a step: {what}"));
            return vm.ret(false);
        }
    }
    let Some(frame) = draft.finish(kind::ITEM, &[id], MOST) else {
        refuse(link, id, Code::Error, "a step is longer than 16 MiB");
        return vm.ret(false);
    };
    served.jobs().lock().sent(id, frame.len() - 4);
    put(vm, link, frame)?;
    drop_draft(draft);
    vm.ret(true)
});

/// `peer:event()`: what the control fiber is to do: "start" or "cancel", and the number of the worker.
/// Nothing: the connection is over.
static EVENT: Native = Native::leaf("event", |vm| {
    let served = this(vm)?;
    let link = &served.link;
    match outside::woken(vm)? {
        Turn::First => {}
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => outside::finish(vm),
    }
    let mut waiter = None;
    loop {
        if link.over().is_some() {
            outside::finish(vm);
            return Ok(0);
        }
        let event = served.jobs().lock().event(waiter.clone());
        let (word, n): (&[u8], i64) = match event {
            Some(Event::Start(n)) => (b"start", n),
            Some(Event::Cancel(n)) => (b"cancel", n),
            None => {
                if waiter.is_none() {
                    waiter = Some(outside::begin(vm, Verb::Serves, Arc::clone(&served) as _)?);
                    continue;
                }
                waiter = None;
                if link.over().is_none() && outside::sleeps(vm) {
                    return Err(vm.park());
                }
                outside::finish(vm);
                continue;
            }
        };
        outside::finish(vm);
        vm.push_str(word)?;
        vm.push(Value::int(n));
        return Ok(2);
    }
});

/// `peer:gone(n)`: worker `n` ends, however it does. What it has not answered was cancelled.
static GONE: Native = Native::leaf("gone", |vm| {
    let served = this(vm)?;
    let n = vm.check_int(2)?;
    let left = served.jobs().lock().gone(n);
    if let Some((id, why)) = left {
        answered(vm, true);
        served.link.send(&error_frame(id, why, end_words(why)));
    }
    end_if_drained(&served.link);
    Ok(0)
});

/// The connection is over.
static CLOSE: Native = Native::leaf("close", |vm| {
    let first = this(vm)?.link.end(crate::failure::Failure::Closed);
    vm.ret(first)
});
