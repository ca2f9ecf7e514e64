//! WebSocket (RFC 6455): `require "perilune.ws"`.
//!
//! # What is where
//! `frame.rs` is the protocol over bytes: frames to messages. `accept.rs` is the handshake's arithmetic.
//! `ws.lua` is the handshake itself, on `perilune.http`'s requests for another protocol, at both ends. This
//! file makes natives of them on a connection: what `perilune.http` hands over with whatever has come behind
//! the head in its buffer.
//!
//! # Reading
//! `recv` reads as other natives on connections do (`connection.rs`); bytes are unmasked on their way from
//! the buffer of the connection into the message. What is about the connection itself is dealt with on the
//! way: a ping is answered, a close is answered and ends it. So a program that wants pings answered has to
//! receive, as it has to anyway.
//!
//! # The end
//! Whoever closes first says so and waits for the answer. [`Socket::close`] waits for nothing: if no fiber
//! receives, a waiter that is no fiber is left in the read slot, which reads on until the peer has closed,
//! too; after [`PATIENCE`] the connection is closed in any case.
//!
//! What must not come (`frame.rs` says what that is) is answered with a close and its code, and ends the
//! connection.
//!
//! # What always holds
//! * A message is at most as long as the program allows; what is there of it is at most what has come.
//! * Frames of several fibers that send do not mix: each is given to the connection whole.
//! * Answers to pings do not pile up: none is sent while the peer does not read.
//!
//! Rejected: `permessage-deflate`, which keeps hundreds of kilobytes for each connection and lets a peer
//! choose how much a message becomes.

mod accept;
pub mod frame;

use crate::address;
use crate::connection::CONNECTION;
use crate::failure::Failure;
use crate::slot::Left;
use crate::stream::{self, Input, More, Stream};
use crate::waiting::{Side, Waited, turn, wait};
use crate::writing::{put, room};
use frame::{Broken, Came, End, Messages, Opcode};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Reason, Waiter};
use perilune_domain::sched::{Sleeper, timer};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_stdlib::string::scratch;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kind of WebSocket connections.
static SOCKET: SharedKind = SharedKind::new("websocket", open);

/// A message is no longer unless the program says so.
const LIMIT: i64 = 1 << 20;
/// How long a peer has for answering a close.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what was written may take to go after that.
const LINGER: Duration = Duration::from_secs(10);
/// Random bytes that are asked for at a time.
const RANDOM: usize = 256;

struct Socket {
    stream: Arc<Stream>,
    me: End,
    limit: usize,
    messages: Mutex<Messages>,
    /// A close has been sent.
    closes: AtomicBool,
    /// Why there will be no more messages.
    over: Mutex<Option<Over>>,
    /// The waiter that reads on after a close.
    drain: Mutex<Option<Left>>,
    masks: Mutex<Vec<u8>>,
}

#[derive(Clone)]
enum Over {
    /// The peer has closed, and what it said.
    Closed(Option<(u16, Vec<u8>)>),
    /// It has sent what it must not.
    Broken(Broken),
    /// The connection has ended without a close.
    Failed(Failure),
}

/// What a look at the connection's buffer came to.
enum Look {
    Message { is_text: bool, bytes: Vec<u8> },
    Over,
    More,
}

impl Socket {
    fn mask(&self) -> Option<[u8; 4]> {
        if self.me == End::Server {
            return None;
        }
        let mut masks = self.masks.lock();
        if masks.len() < 4 {
            *masks = random(RANDOM);
        }
        let at = masks.len().saturating_sub(4);
        masks.split_off(at).try_into().ok()
    }

    /// Sends a frame about the connection at once. Not for a peer that does not read, unless it is the last
    /// one.
    fn send_control(&self, opcode: Opcode, body: &[u8]) {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, opcode, body, self.mask());
        let mut output = self.stream.output();
        let is_due = opcode == Opcode::Close || self.stream.unsent(&output) < self.stream.high_water();
        if is_due && self.stream.reserve(&mut output, bytes.len()) {
            self.stream.take(&mut output, &bytes);
            self.stream.write_out(&mut output);
        }
    }

    /// Sends a close, if none was sent. False: one was.
    fn send_close(&self, code: Option<u16>, text: &[u8]) -> bool {
        let first = !self.closes.swap(true, Ordering::AcqRel);
        if first {
            let code = code.map(u16::to_be_bytes);
            let body = [code.as_ref().map_or(&[][..], |c| c), text].concat();
            self.send_control(Opcode::Close, &body);
        }
        first
    }

    /// There will be no more.
    fn end(&self, over: Over) {
        self.over.lock().get_or_insert(over);
    }

    /// Reads what is in the buffer, up to a message. Under the lock of the input.
    fn look(&self, input: &mut Input) -> Look {
        if self.over.lock().is_some() {
            return Look::Over;
        }
        let mut messages = self.messages.lock();
        loop {
            let came = messages.read(input.buffer.bytes());
            let came = came.map(|(n, came)| {
                input.consume(n);
                came
            });
            match came {
                Ok(Came::Nothing) => return Look::More,
                Ok(Came::Message { is_text }) => return Look::Message { is_text, bytes: messages.take() },
                Ok(Came::Ping(body)) => self.send_control(Opcode::Pong, &body),
                Ok(Came::Pong) => {}
                Ok(Came::Close(said)) => {
                    self.send_close(said.as_ref().map(|(code, _)| *code), b"");
                    self.end(Over::Closed(said));
                    return Look::Over;
                }
                Err(broken) => {
                    self.send_close(Some(broken.code()), b"");
                    self.end(Over::Broken(broken));
                    return Look::Over;
                }
            }
        }
    }

    /// Reads on until the peer has closed, without anybody waiting for it.
    fn drain(self: &Arc<Self>) {
        *self.drain.lock() = None;
        let mut input = self.stream.input();
        loop {
            match self.look(&mut input) {
                Look::Over => break,
                Look::Message { .. } => continue,
                Look::More => {}
            }
            match self.stream.more(&mut input, 0) {
                More::Some => {}
                More::Wait => {
                    let waiter = Waiter::new(Drain(Arc::clone(self)));
                    waiter.sleep();
                    if let Ok(left) = self.stream.source().read.leave(waiter) {
                        *self.drain.lock() = Some(left);
                        return;
                    }
                }
                More::End | More::NoMemory => break,
            }
        }
        drop(input);
        self.stream.close_later(LINGER);
    }

    /// Begins the end. False: it had begun.
    fn close(self: &Arc<Self>, code: u16, text: &[u8]) -> bool {
        if !self.send_close(Some(code), text) {
            return false;
        }
        let me = Arc::clone(self);
        if let Some(at) = Instant::now().checked_add(PATIENCE) {
            timer::after(at, move || {
                me.stream.close_now();
            });
        }
        let is_read = self.stream.source().read.with_first(|w| w.woken().is_none()).unwrap_or(false);
        if !is_read {
            self.drain();
        }
        true
    }
}

/// What the read slot holds after a close. It keeps the socket until the connection is closed, which it is in
/// time.
struct Drain(Arc<Socket>);

impl Sleeper for Drain {
    fn rouse(&self, _: Reason) {
        self.0.drain();
    }
    fn describe(&self) -> String {
        format!("the end of {}", self.0.stream.peer)
    }
}

/// Bytes that nobody can foresee.
fn random(n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    let mut at = 0;
    while at < n {
        match rustix::rand::getrandom(&mut bytes[at..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => at += more,
            Err(Errno::INTR) => {}
            // A kernel without it: masks protect proxies from scripts in browsers, which is not at stake
            // here.
            Err(_) => break,
        }
    }
    bytes
}

impl SharedObject for Socket {
    fn kind(&self) -> &'static SharedKind {
        &SOCKET
    }
    fn label(&self) -> Option<String> {
        let closed = if self.stream.is_closed() { " (closed)" } else { "" };
        Some(format!("{} -> {}{closed}", self.stream.endpoint, self.stream.peer))
    }
}

/// The loader of the module.
pub static WS: Native = Native::reentrant("perilune.ws", |vm| {
    outside::enter(vm);
    let ws = vm.new_table(0, 3)?;
    vm.push(ws.into());
    let natives = vm.new_table(0, 3)?;
    vm.push(natives.into());
    vm.register(natives, &[&WRAP, &KEY, &ACCEPT])?;
    static SOURCE: outside::Source = outside::Source::new(include_bytes!("ws.lua"));
    SOURCE.run(vm, &[ws.into(), natives.into()])?;
    vm.ret(ws)
});

/// `key()`: a key for a handshake.
static KEY: Native = Native::leaf("key", |vm| {
    let key = accept::base64(&random(16));
    vm.ret_str(key.as_bytes())
});

/// `accept(key)`: the answer to it.
static ACCEPT: Native = Native::leaf("accept", |vm| {
    let key = vm.check_str(1)?.bytes().to_vec();
    vm.ret_str(accept::accept(&key).as_bytes())
});

/// `wrap(connection, "client"|"server", options)`: what speaks WebSocket on a connection from now on.
static WRAP: Native = Native::leaf("wrap", |vm| {
    let stream: Arc<Stream> = vm.check_shared_arc(1, &CONNECTION)?;
    let me = [End::Client, End::Server][vm.check_option(2, None, &["client", "server"])?];
    let mut limit = LIMIT;
    if let Some(options) = vm.arg(3).as_table() {
        limit = crate::options::int(vm, options, "limit", 1, i64::from(i32::MAX))?.unwrap_or(LIMIT);
        if let Some(span) = crate::options::span(vm, options, "read_timeout")? {
            stream.set_timeout(Side::Read, span);
        }
    }
    let limit = limit as usize;
    let socket = Arc::new(Socket {
        stream,
        me,
        limit,
        messages: Mutex::new(Messages::new(me, limit)),
        closes: AtomicBool::new(false),
        over: Mutex::new(None),
        drain: Mutex::new(None),
        masks: Mutex::default(),
    });
    let socket = vm.shared_ref(socket);
    vm.ret(socket)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&RECV, &SEND, &PING, &CLOSE, &PEER, &PEER_ENDPOINT, &IS_CLOSED],
        &[("__call", &NEXT), ("__close", &AT_SCOPE_END)],
    )
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Socket>> {
    surplus::this(vm, &SOCKET, last, limit)
}

/// Waits for a message, for as long as the argument of number `span` says.
fn recv(vm: &mut Vm, socket: &Arc<Socket>, span: Option<u32>) -> LuaResult<Result<(bool, Vec<u8>), Over>> {
    let stream = &socket.stream;
    if let Some(left) = socket.drain.lock().take() {
        stream.source().read.take_back(left);
    }
    let mut progress = turn(vm, stream, Side::Read)?;
    if progress.is_first {
        stream.flush_some();
        if let Some(n) = span
            && !vm.arg_is_none_or_nil(n)
        {
            progress.deadline = outside::opt_deadline(vm, n)?;
        }
    }
    loop {
        let mut input = stream.input();
        match socket.look(&mut input) {
            Look::Message { is_text, bytes } => return Ok(Ok((is_text, bytes))),
            Look::Over => {
                drop(input);
                stream.close_later(LINGER);
                let over = socket.over.lock().clone();
                return Ok(Err(over.unwrap_or(Over::Failed(Failure::Closed))));
            }
            Look::More => {}
        }
        let failure = match stream.more(&mut input, 0) {
            More::Some => continue,
            More::Wait if progress.is_over => return Ok(Err(Over::Failed(Failure::Timeout))),
            More::Wait => {
                wait(vm, stream, input, Side::Read, &progress)?;
                continue;
            }
            More::NoMemory => {
                drop(input);
                return Err(vm.out_of_memory());
            }
            More::End => match &input.end {
                Some(stream::End::Failed(error)) => error.clone().into(),
                Some(stream::End::Eof) | None => Failure::Closed,
            },
        };
        drop(input);
        socket.end(Over::Failed(failure));
        stream.close_later(LINGER);
    }
}

fn push_message(vm: &mut Vm, is_text: bool, bytes: Vec<u8>) -> LuaResult<u32> {
    vm.ensure_room(bytes.len())?;
    vm.push_str(&bytes)?;
    vm.push_str(if is_text { b"text" } else { b"binary" })?;
    Ok(2)
}

/// `nil, message, code`, and for a close the peer's code and text.
fn push_over(vm: &mut Vm, socket: &Socket, over: Over) -> LuaResult<u32> {
    match over {
        Over::Failed(Failure::Closed) => {
            Failure::Closed.ret(vm)?;
            vm.push(Value::int(1006));
            Ok(4)
        }
        Over::Failed(failure) => failure.ret(vm),
        Over::Broken(Broken::Limit) => {
            let text = format!("a message is longer than {} bytes", socket.limit);
            Failure::Limit(text).ret(vm)
        }
        Over::Broken(Broken::Utf8) => Failure::Protocol("a text is not UTF-8".into()).ret(vm),
        Over::Broken(Broken::Protocol(what)) => Failure::Protocol(what.into()).ret(vm),
        Over::Closed(said) => {
            Failure::Closed.ret(vm)?;
            let (code, text) = said.unwrap_or((1005, Vec::new()));
            vm.push(Value::int(i64::from(code)));
            vm.push_str(&text)?;
            Ok(5)
        }
    }
}

/// `c:recv([limit])`: a message and its kind, "text" or "binary".
static RECV: Native = Native::leaf("recv", |vm| {
    let socket = this(vm, 2, Limit::Own)?;
    match recv(vm, &socket, Some(2))? {
        Ok((is_text, bytes)) => push_message(vm, is_text, bytes),
        Err(over) => push_over(vm, &socket, over),
    }
});

/// `for message, kind in c do`: ends when there are no more, for whatever reason, which `recv` tells.
static NEXT: Native = Native::leaf("recv", |vm| {
    let socket = this(vm, ANY, Limit::Own)?;
    match recv(vm, &socket, None)? {
        Ok((is_text, bytes)) => push_message(vm, is_text, bytes),
        Err(_) => vm.ret(Value::NIL),
    }
});

/// What is sent: a string is a text, `{binary = string}` bytes.
fn check_message(vm: &mut Vm) -> LuaResult<(Opcode, Gc<perilune_vm::LuaString>)> {
    let Some(table) = vm.arg(2).as_table() else {
        let text = vm.check_str(2)?;
        if simdutf8::basic::from_utf8(text.bytes()).is_err() {
            return Err(vm.arg_error(2, "a text is UTF-8; bytes are sent as {binary = string}"));
        }
        return Ok((Opcode::Text, text));
    };
    crate::options::check(vm, table, &["binary"])?;
    match vm.get_field(table, "binary")?.as_string() {
        Some(bytes) => Ok((Opcode::Binary, bytes)),
        None => Err(vm.arg_error(2, "a string, or {binary = string}, expected")),
    }
}

fn send(
    vm: &mut Vm,
    socket: &Arc<Socket>,
    opcode: Opcode,
    body: Gc<perilune_vm::LuaString>,
) -> LuaResult<u32> {
    let progress = turn(vm, &socket.stream, Side::Write)?;
    if socket.closes.load(Ordering::Acquire) {
        return Failure::Closed.ret(vm);
    }
    if let Err(failure) = room(vm, &socket.stream, &progress)? {
        return failure.ret(vm);
    }
    let mut bytes = scratch::take();
    scratch::reserve(vm, &mut bytes, body.bytes().len() + 14)?;
    frame::put(&mut bytes, opcode, body.bytes(), socket.mask());
    put(vm, &socket.stream, &bytes)?;
    scratch::put(bytes);
    vm.ret(true)
}

/// `c:send(message)`
static SEND: Native = Native::leaf("send", |vm| {
    let socket = this(vm, 2, Limit::Around)?;
    let (opcode, body) = check_message(vm)?;
    send(vm, &socket, opcode, body)
});

/// `c:ping([data])`
static PING: Native = Native::leaf("ping", |vm| {
    let socket = this(vm, 2, Limit::Around)?;
    let body = match vm.opt_str(2)? {
        Some(body) => body,
        None => vm.new_str(b"")?,
    };
    if body.bytes().len() > 125 {
        return Err(vm.arg_error(2, "a ping has at most 125 bytes"));
    }
    send(vm, &socket, Opcode::Ping, body)
});

/// `c:close([code [, text]])`: true if it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let socket = this(vm, 3, Limit::Own)?;
    let code = if vm.arg_is_none_or_nil(2) { 1000 } else { vm.check_int(2)? };
    let code = match u16::try_from(code) {
        Ok(code) if frame::is_code(code) => code,
        _ => {
            return Err(
                vm.arg_error(2, "no code of closing: 1000 to 1003, 1007 to 1014 and 3000 to 4999 are")
            );
        }
    };
    let text = vm.opt_str(3)?.map_or_else(Vec::new, |s| s.bytes().to_vec());
    if text.len() > 123 || std::str::from_utf8(&text).is_err() {
        return Err(vm.arg_error(3, "what a close says is UTF-8, at most 123 bytes"));
    }
    let first = socket.close(code, &text);
    vm.ret(first)
});

/// The end of the variable that holds it: "done", or because of an error.
static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let code = if vm.arg_is_none_or_nil(2) { 1000 } else { 1011 };
    this(vm, ANY, Limit::Own)?.close(code, b"");
    Ok(0)
});

/// `c:peer()`: the other end's host and port.
static PEER: Native = Native::leaf("peer", |vm| {
    let socket = this(vm, 1, Limit::Own)?;
    address::ret_halves(vm, &socket.stream.peer)
});

/// `c:peer_endpoint()`: the same as one text.
static PEER_ENDPOINT: Native = Native::leaf("peer_endpoint", |vm| {
    let socket = this(vm, 1, Limit::Own)?;
    vm.ret_str(socket.stream.peer.as_bytes())
});

/// `c:is_closed()`: nothing can be sent any more.
static IS_CLOSED: Native = Native::leaf("is_closed", |vm| {
    let socket = this(vm, 1, Limit::Own)?;
    vm.ret(socket.closes.load(Ordering::Acquire) || socket.stream.is_closed())
});
