//! The side that asks: `c:add(2, 3)`, `c:call`, `c:try`, `c:notify`, `c:stream`.

use super::calls::{Calls, Step};
use super::frame::{Code, MOST, Told, kind, told};
use super::link::{Link, Role};
use super::natives::{
    Unsent, bad_values, draft, drop_draft, push_values, put, put_arguments, room, send_small, shaken, text_of,
};
use crate::address;
use crate::connection::CONNECTION;
use crate::failure::Failure;
use crate::options;
use crate::stream::Stream;
use crate::waiting::{Side, turn};
use parking_lot::Mutex;
use perilune_data::wire::{Malformed, Reader, put_string};
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Reason, Turn};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, LuaString, Native, Table, Thrown, Value, Vm};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kind of clients.
pub static CLIENT: SharedKind = SharedKind::new("rpc client", open);
/// The kind of streams.
static STREAM: SharedKind = SharedKind::new("rpc stream", open_stream);

/// Names of served functions for which a client keeps the function that calls them.
const MOST_NAMES: i64 = 4096;
/// Bytes of items that a stream may send ahead, if nobody says otherwise.
const WINDOW: i64 = 256 << 10;

/// A connection as a client handles it.
struct Client {
    link: Arc<Link>,
    timeout: Option<Duration>,
    window: u64,
}

impl Client {
    fn calls(&self) -> &Mutex<Calls> {
        calls(&self.link)
    }
}

fn calls(link: &Link) -> &Mutex<Calls> {
    match &link.role {
        Role::Client(calls) => calls,
        Role::Server(_) => unreachable!("a client's link"),
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.link.end(Failure::Closed);
    }
}

impl Awaited for Client {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Connection
    }
    fn name(&self) -> String {
        self.link.stream.name()
    }
}

impl SharedObject for Client {
    fn kind(&self) -> &'static SharedKind {
        &CLIENT
    }
    fn label(&self) -> Option<String> {
        let closed = if self.link.over().is_some() { " (closed)" } else { "" };
        Some(format!("{}{closed}", self.link.stream.peer))
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&CALL, &TRY, &NOTIFY, &OPEN_STREAM, &CLOSE, &IS_CLOSED, &PEER, &PEER_ENDPOINT, &INFO],
        &[("__close", &AT_SCOPE_END)],
    )?;
    // What is no method is a served function.
    let methods = vm.get_field(mt, "__index")?;
    if let Some(methods) = methods.as_table() {
        let others = vm.new_table(0, 2)?;
        vm.push(others.into());
        vm.set_field(others, "__index", Value::native(&SERVED))?;
        vm.set_metatable_of(methods.into(), Some(others))?;
        vm.pop();
    }
    Ok(())
}

fn this(vm: &mut Vm, last: u32) -> LuaResult<Arc<Client>> {
    surplus::this(vm, &CLIENT, last, Limit::Own)
}

/// `attach(connection, options)`: a client on a connection; or `nil, message, code` if its handshake has
/// failed. For `rpc.lua`.
pub static ATTACH: Native = Native::leaf("attach", |vm| {
    let stream: Arc<Stream> = vm.check_shared_arc(1, &CONNECTION)?;
    let (mut timeout, mut window) = (None, WINDOW);
    if let Some(table) = vm.arg(2).as_table() {
        options::check(vm, table, &["timeout", "window"])?;
        timeout = options::span(vm, table, "timeout")?.flatten();
        window = options::int(vm, table, "window", 1, 1 << 30)?.unwrap_or(WINDOW);
    }
    if let Err(failure) = shaken(vm, &stream)? {
        return failure.ret(vm);
    }
    let link = Link::new(stream, Role::Client(Mutex::default()));
    let client = vm.shared_ref(Arc::new(Client { link, timeout, window: window as u64 }));
    vm.ret(client)
});

/// `methods[name]`, which is no method: the function that calls what is served by this name.
static SERVED: Native = Native::leaf("index", |vm| {
    let (Some(methods), Some(name)) = (vm.arg(1).as_table(), vm.arg(2).as_string()) else {
        return vm.ret(Value::NIL);
    };
    // What every program asks of every value.
    if name.bytes().starts_with(b"__") {
        return vm.ret(Value::NIL);
    }
    let caller = vm.new_native_closure(&CALL_SERVED, &[name.into()])?;
    vm.push(caller);
    if let Some(mt) = vm.metatable_of(methods.into()) {
        let n = vm.get_field(mt, "names")?.as_int().unwrap_or(0);
        if n < MOST_NAMES {
            vm.set_field(mt, "names", Value::int(n + 1))?;
            vm.raw_set(methods, name.into(), caller)?;
        }
    }
    Ok(1)
});

// -- Calls --------------------------------------------------------------------------------------------------

/// What a call has come to.
enum Outcome {
    /// So many results were pushed.
    Values(u32),
    /// An error over there; value and traceback.
    Refused(Code, Value, Vec<u8>),
    /// There is no answer.
    Failed(Failure),
}

/// An answer that is waited for.
struct Pending {
    link: Arc<Link>,
    id: u64,
    /// It has a time of its own, beside that of a `pl.timeout`.
    is_timed: bool,
    /// It came, or was given up.
    done: bool,
}

/// The server has seen before the caller's `pl.timeout` that its time is over: that ends the wait.
struct Expired;

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            abandon(&self.link, self.id);
        }
    }
}

/// Nobody waits for it any more.
fn abandon(link: &Link, id: u64) {
    let tell = calls(link).lock().abandon(id);
    if tell && link.over().is_none() {
        send_small(link, kind::CANCEL, &[id]);
    }
}

/// Calls `name` with the arguments from `first` on.
fn call(vm: &mut Vm, client: &Arc<Client>, name: Gc<LuaString>, first: u32) -> LuaResult<Outcome> {
    if let Turn::Woken(reason, _) = outside::woken(vm)? {
        if let Some(pending) = outside::take_data::<Pending>(vm) {
            outside::finish(vm);
            return conclude(vm, client, *pending, reason);
        }
        if outside::take_data::<Expired>(vm).is_some() {
            outside::finish(vm);
            return Ok(Outcome::Failed(Failure::Timeout));
        }
    }
    let link = &client.link;
    let mut progress = turn(vm, &link.stream, Side::Write)?;
    if progress.is_first {
        progress.deadline = deadline(client);
    }
    if let Err(failure) = room(vm, link, &progress)? {
        return Ok(Outcome::Failed(failure));
    }
    let mut draft = draft();
    put_string(draft.body(), name.bytes());
    if let Err(unsent) = put_arguments(vm, &mut draft, first) {
        return Err(refuse(vm, name, unsent));
    }
    let around = outside::deadline(vm)?;
    let micros = match [progress.deadline, around].into_iter().flatten().min() {
        Some(at) => (at.saturating_duration_since(Instant::now()).as_micros() as u64).max(1),
        None => 0,
    };
    let waiter = outside::begin(vm, Verb::Asks, Arc::clone(client) as _)?;
    let id = client.calls().lock().begin(waiter);
    let is_timed = progress.deadline.is_some();
    let mut pending = Pending { link: Arc::clone(link), id, is_timed, done: false };
    let Some(frame) = draft.finish(kind::CALL, &[id, micros], MOST) else {
        pending.done = true;
        client.calls().lock().forget(id);
        outside::finish(vm);
        let unsent = Unsent::Value(1, "more than 16 MiB cannot be sent".into());
        return Err(refuse(vm, name, unsent));
    };
    if let Err(thrown) = put(vm, link, frame) {
        outside::finish(vm);
        return Err(thrown);
    }
    drop_draft(draft);
    outside::set_data(vm, pending);
    if progress.deadline.is_some() {
        outside::limit_at(vm, progress.deadline)?;
    }
    // It was over before the waiter was there to be woken.
    if link.over().is_none() && outside::sleeps(vm) {
        return Err(vm.park());
    }
    let pending = outside::take_data::<Pending>(vm);
    outside::finish(vm);
    match pending {
        Some(pending) => conclude(vm, client, *pending, Reason::Closed),
        None => Err(vm.error("internal error: what was put aside for a wait is gone")),
    }
}

/// When a call that begins now is over.
fn deadline(client: &Client) -> Option<Instant> {
    client.timeout.and_then(|span| Instant::now().checked_add(span))
}

fn refuse(vm: &mut Vm, name: Gc<LuaString>, unsent: Unsent) -> Thrown {
    match unsent {
        Unsent::Thrown(thrown) => thrown,
        Unsent::Value(n, what) => {
            let name = name.to_text();
            vm.error(format!("bad argument #{n} to remote function '{name}' ({what})"))
        }
    }
}

/// The wait for an answer has ended.
fn conclude(vm: &mut Vm, client: &Arc<Client>, mut pending: Pending, reason: Reason) -> LuaResult<Outcome> {
    let mut answer = calls(&pending.link).lock().answer(pending.id);
    if answer.is_none() && reason == Reason::Timeout {
        pending.link.glance();
        answer = calls(&pending.link).lock().answer(pending.id);
    }
    let Some(frame) = answer else {
        return Ok(Outcome::Failed(match pending.link.over() {
            Some(failure) => failure.clone(),
            None if reason == Reason::Timeout => Failure::Timeout,
            None => Failure::Closed,
        }));
    };
    pending.done = true;
    let below = vm.nargs();
    let outcome = read_answer(vm, &pending.link, &frame)?;
    if !matches!(outcome, Outcome::Refused(Code::Timeout, ..)) {
        return Ok(outcome);
    }
    vm.truncate(below);
    if !pending.is_timed && outside::deadline(vm)?.is_some() {
        outside::begin(vm, Verb::Asks, Arc::clone(client) as _)?;
        outside::set_data(vm, Expired);
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        outside::finish(vm);
    }
    Ok(Outcome::Failed(Failure::Timeout))
}

fn read_answer(vm: &mut Vm, link: &Link, frame: &[u8]) -> LuaResult<Outcome> {
    let below = vm.nargs();
    let outcome = match told(frame) {
        Ok((Told::Error { .. }, at)) => read_error(vm, &frame[at..]),
        Ok((_, at)) => push_values(vm, &mut Reader::new(&frame[at..])).map(Outcome::Values),
        Err(malformed) => Err(malformed),
    };
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(malformed) => {
            vm.truncate(below);
            bad_values(vm, link, malformed).map(Outcome::Failed)
        }
    }
}

fn read_error(vm: &mut Vm, body: &[u8]) -> Result<Outcome, Malformed> {
    let mut reader = Reader::new(body);
    let code = Code::of(reader.byte()?).ok_or(Malformed::Bytes("an unknown code of an error"))?;
    let value = reader.value(vm)?;
    let traceback = reader.string()?.to_vec();
    if !reader.is_at_end() {
        return Err(Malformed::Bytes("a frame is longer than what it says"));
    }
    vm.push(value);
    Ok(Outcome::Refused(code, value, traceback))
}

/// Results, or the error raised.
fn raise(vm: &mut Vm, client: &Client, name: &[u8], outcome: Outcome) -> LuaResult<u32> {
    match outcome {
        Outcome::Values(n) => Ok(n),
        Outcome::Refused(code, value, traceback) => {
            Err(raise_refused(vm, client, name, code, value, &traceback))
        }
        Outcome::Failed(failure) => {
            let name = String::from_utf8_lossy(name);
            Err(vm.error(format!("rpc: no answer to '{name}': {}", failure.message())))
        }
    }
}

fn raise_refused(
    vm: &mut Vm,
    client: &Client,
    name: &[u8],
    code: Code,
    value: Value,
    traceback: &[u8],
) -> Thrown {
    let text = match (code, value.as_string()) {
        (Code::Error, None) => return vm.throw(value),
        (Code::Error, Some(text)) => text,
        _ => return vm.error(format!("rpc: {}", text_of(value))),
    };
    if traceback.is_empty() {
        return vm.error_plain(text.bytes());
    }
    let (name, peer) = (String::from_utf8_lossy(name), &client.link.stream.peer);
    let whence = format!("\nin remote function '{name}' of {peer}: ");
    let text = [text.bytes(), whence.as_bytes(), traceback].concat();
    vm.error_plain(text)
}

fn code_word(code: Code) -> &'static [u8] {
    match code {
        Code::Error => b"error",
        Code::Unknown => b"unknown",
        Code::Cancelled => b"cancelled",
        Code::Timeout => b"timeout",
    }
}

/// `c:name(...)`: calls what is served as `name`.
static CALL_SERVED: Native = Native::leaf("call", |vm| {
    let Some(name) = vm.upvalue(1).as_string() else { return Err(vm.error("no remote function")) };
    let client = this(vm, ANY)?;
    let outcome = call(vm, &client, name, 2)?;
    raise(vm, &client, name.bytes(), outcome)
});

/// `c:call(name, ...)`
static CALL: Native = Native::leaf("call", |vm| {
    let client = this(vm, ANY)?;
    let name = vm.check_str(2)?;
    let outcome = call(vm, &client, name, 3)?;
    raise(vm, &client, name.bytes(), outcome)
});

/// `c:try(name, ...)`: true and the results, or `nil, message, code`.
static TRY: Native = Native::leaf("try", |vm| {
    let client = this(vm, ANY)?;
    let name = vm.check_str(2)?;
    // Where the results are going to begin.
    let outcome = call(vm, &client, name, 3)?;
    match outcome {
        Outcome::Values(n) => {
            let first = vm.nargs() - n;
            vm.ensure_stack(n as usize + 1)?;
            vm.push(Value::TRUE);
            for i in 1..=n {
                let value = vm.stack_get(first + i);
                vm.push(value);
            }
            Ok(n + 1)
        }
        Outcome::Refused(code, value, _) => {
            vm.push(Value::NIL);
            vm.push(value);
            vm.push_str(code_word(code))?;
            Ok(3)
        }
        Outcome::Failed(failure) => failure.ret(vm),
    }
});

/// `c:notify(name, ...)`: calls it, and waits for nothing.
static NOTIFY: Native = Native::leaf("notify", |vm| {
    let client = this(vm, ANY)?;
    let name = vm.check_str(2)?;
    let progress = turn(vm, &client.link.stream, Side::Write)?;
    if let Err(failure) = room(vm, &client.link, &progress)? {
        return failure.ret(vm);
    }
    let mut draft = draft();
    put_string(draft.body(), name.bytes());
    if let Err(unsent) = put_arguments(vm, &mut draft, 3) {
        return Err(refuse(vm, name, unsent));
    }
    match draft.finish(kind::NOTIFY, &[], MOST) {
        Some(frame) => put(vm, &client.link, frame)?,
        None => return Err(refuse(vm, name, Unsent::Value(1, "more than 16 MiB cannot be sent".into()))),
    }
    drop_draft(draft);
    vm.ret(true)
});

// -- Streams ------------------------------------------------------------------------------------------------

/// Results that come one by one.
struct Incoming {
    client: Arc<Client>,
    id: u64,
    name: Vec<u8>,
    done: AtomicBool,
}

impl Incoming {
    /// Nobody wants more of it.
    fn close(&self) {
        if !self.done.swap(true, Ordering::Relaxed) {
            abandon(&self.client.link, self.id);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedObject for Incoming {
    fn kind(&self) -> &'static SharedKind {
        &STREAM
    }
    fn label(&self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.name).into_owned())
    }
}

fn open_stream(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&CLOSE_STREAM], &[("__call", &NEXT), ("__close", &STREAM_AT_SCOPE_END)])
}

/// `c:stream(name, ...)`: for a loop: each step is one of those of the iterator that the served function
/// returns.
static OPEN_STREAM: Native = Native::leaf("stream", |vm| {
    let client = this(vm, ANY)?;
    let name = vm.check_str(2)?;
    let mut progress = turn(vm, &client.link.stream, Side::Write)?;
    if progress.is_first {
        progress.deadline = deadline(&client);
    }
    if let Err(failure) = room(vm, &client.link, &progress)? {
        return raise(vm, &client, name.bytes(), Outcome::Failed(failure));
    }
    let mut draft = draft();
    put_string(draft.body(), name.bytes());
    if let Err(unsent) = put_arguments(vm, &mut draft, 3) {
        return Err(refuse(vm, name, unsent));
    }
    let window = client.window;
    let id = client.calls().lock().begin_stream(window);
    // A time is for a step, which the server does not know.
    let Some(frame) = draft.finish(kind::STREAM, &[id, 0, window], MOST) else {
        client.calls().lock().forget(id);
        return Err(refuse(vm, name, Unsent::Value(1, "more than 16 MiB cannot be sent".into())));
    };
    let name = name.bytes().to_vec();
    let incoming = Arc::new(Incoming { client: Arc::clone(&client), id, name, done: AtomicBool::new(false) });
    put(vm, &client.link, frame)?;
    drop_draft(draft);
    let stream = vm.shared_ref(incoming);
    for value in [Value::from(stream), Value::NIL, Value::NIL, Value::from(stream)] {
        vm.push(value);
    }
    Ok(4)
});

/// One step.
static NEXT: Native = Native::leaf("next", |vm| {
    let incoming: Arc<Incoming> = vm.check_shared_arc(1, &STREAM)?;
    let client = &incoming.client;
    let link = &client.link;
    let name = incoming.name.as_slice();
    let mut is_over = false;
    match outside::woken(vm)? {
        Turn::First => outside::give_way(vm)?,
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(reason, _) => {
            is_over = reason == Reason::Timeout;
            outside::finish(vm);
        }
    }
    if is_over {
        link.glance();
    }
    let step = |waiter| client.calls().lock().step(incoming.id, client.window, waiter);
    loop {
        let mut now = step(None);
        if let Step::Wait = now {
            let failure = match link.over() {
                Some(failure) => Some(failure.clone()),
                None => is_over.then_some(Failure::Timeout),
            };
            if let Some(failure) = failure {
                incoming.close();
                return raise(vm, client, name, Outcome::Failed(failure));
            }
            let waiter = outside::begin(vm, Verb::Asks, Arc::clone(client) as _)?;
            now = step(Some(waiter));
            if let Step::Wait = now {
                if let Some(deadline) = deadline(client) {
                    outside::limit_at(vm, Some(deadline))?;
                }
                if link.over().is_none() && outside::sleeps(vm) {
                    return Err(vm.park());
                }
                outside::finish(vm);
                continue;
            }
            outside::finish(vm);
        }
        return match now {
            Step::Item(frame, due) => {
                if due > 0 {
                    send_small(link, kind::CREDIT, &[incoming.id, due]);
                }
                let outcome = read_answer(vm, link, &frame)?;
                raise(vm, client, name, outcome)
            }
            Step::End(frame) => {
                incoming.done.store(true, Ordering::Relaxed);
                match read_answer(vm, link, &frame)? {
                    Outcome::Values(_) => vm.ret(Value::NIL),
                    outcome => raise(vm, client, name, outcome),
                }
            }
            Step::Gone => vm.ret(Value::NIL),
            Step::Taken => Err(vm.error("the stream is being read already by another fiber")),
            Step::Wait => continue,
        };
    }
});

/// `stream:close()`: the served iterator is stopped.
static CLOSE_STREAM: Native = Native::leaf("close", |vm| {
    let incoming: Arc<Incoming> = surplus::this(vm, &STREAM, 1, Limit::Own)?;
    incoming.close();
    Ok(0)
});

static STREAM_AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let incoming: Arc<Incoming> = surplus::this(vm, &STREAM, ANY, Limit::Own)?;
    incoming.close();
    Ok(0)
});

// -- Everything else ----------------------------------------------------------------------------------------

/// `c:close()`: what waits for answers fails. True: it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let first = this(vm, 1)?.link.end(Failure::Closed);
    vm.ret(first)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY)?.link.end(Failure::Closed);
    Ok(0)
});

/// `c:is_closed()`: whether it is over, and why.
static IS_CLOSED: Native = Native::leaf("is_closed", |vm| {
    let client = this(vm, 1)?;
    match client.link.over() {
        None => vm.ret(false),
        Some(failure) => {
            vm.push(Value::TRUE);
            vm.push_str(failure.message().as_bytes())?;
            Ok(2)
        }
    }
});

/// `c:peer()`: the server's host and port.
static PEER: Native = Native::leaf("peer", |vm| {
    let client = this(vm, 1)?;
    address::ret_halves(vm, &client.link.stream.peer)
});

/// `c:peer_endpoint()`: the same as one text.
static PEER_ENDPOINT: Native = Native::leaf("peer_endpoint", |vm| {
    let client = this(vm, 1)?;
    vm.ret_str(client.link.stream.peer.as_bytes())
});

/// `c:info()`: what there is to know.
static INFO: Native = Native::leaf("info", |vm| {
    let client = this(vm, 1)?;
    let under_way = client.calls().lock().len();
    let (received, sent) = client.link.stream.counts();
    let info = vm.new_table(0, 3)?;
    vm.push(info.into());
    for (name, n) in [("calls", under_way as i64), ("received", received as i64), ("sent", sent as i64)] {
        vm.set_field(info, name, Value::int(n))?;
    }
    Ok(1)
});
