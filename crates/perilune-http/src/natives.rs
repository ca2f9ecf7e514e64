//! What the Lua part calls for each message: natives on connections.
//!
//! A native that waits is called again with the same arguments, so each takes from the connection only when
//! it has all that it returns.

use crate::chunked::Decoder;
use crate::compose::{self, Body};
use crate::framing::Framing;
use crate::head::{self, Limits, MOST_FIELDS, Parsed, Wishes};
use crate::refused::Refused;
use httparse::Header;
use perilune_io::protocol::{CONNECTION, More, Side, Step, Stop, Stream, read, results, write};
use perilune_io::protocol::{is_seen, request_begins, request_ends, request_handled};
use perilune_trace::FiberRef;
use perilune_trace::event::Protocol;
use perilune_vm::{Gc, Guess, LuaResult, Native, Table, Value, Vm};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// The natives of this file.
pub static ALL: &[&Native] = &[
    &READ_REQUEST,
    &READ_RESPONSE,
    &READ_CHUNKS,
    &SEND_RESPONSE,
    &SEND_REQUEST,
    &WRITE_CHUNK,
    &END_CHUNKS,
    &IS_FRESH,
    &HAS_UNREAD,
    &READ_WITHIN,
    &REQUEST_BEGINS,
    &REQUEST_HANDLED,
    &REQUEST_ENDS,
];

/// The code of what a peer says that is no HTTP.
const PROTOCOL: &[u8] = b"protocol";

fn this(vm: &mut Vm) -> LuaResult<Arc<Stream>> {
    vm.check_shared_arc(1, &CONNECTION)
}

/// Argument `n`, seconds, is how long reads from the connection may take from now on; nil: for ever.
fn set_time(vm: &mut Vm, stream: &Stream, n: u32) -> LuaResult<()> {
    let span = if vm.arg_is_none_or_nil(n) {
        None
    } else {
        Duration::try_from_secs_f64(vm.check_num(n)?.max(0.0)).ok()
    };
    stream.set_timeout(Side::Read, span);
    Ok(())
}

fn limits(vm: &mut Vm, n: u32) -> LuaResult<Limits> {
    let number = |n: i64| usize::try_from(n).unwrap_or(0);
    Ok(Limits { bytes: number(vm.check_int(n)?), fields: number(vm.check_int(n + 1)?).min(MOST_FIELDS) })
}

// -- Reading ------------------------------------------------------------------------------------------------

/// `read_request(c, seconds, bytes, fields)`: waits for a head.
///
/// * `method, path, headers, left, wishes, query, target, minor, host`: the target only if it is not the
///   path, the host only if the target says it;
/// * `true`: some of it has come, and the time for that part has to be another one: to be called again;
/// * `nil, message, code`;
/// * `false, message, status`: it is refused.
static READ_REQUEST: Native = Native::leaf("read_request", |vm| {
    let stream = this(vm)?;
    let limits = limits(vm, 3)?;
    let begun = !vm.arg_is_none_or_nil(5);
    set_time(vm, &stream, 2)?;
    let outcome = read(vm, &stream, |vm, input| {
        let bytes = input.buffer.bytes();
        if bytes.is_empty() {
            return Ok(Step::More(0));
        }
        let (mut few, mut many) = ([httparse::EMPTY_HEADER; FEW], Vec::new());
        let parsed = match head::request(bytes, limits, &mut few) {
            Err(refused) if refused.status == 431 => head::request(bytes, limits, room(&mut many)),
            parsed => parsed,
        };
        let (request, fields, length) = match parsed {
            Ok(Parsed::Complete((request, fields), length)) => (request, fields, length),
            Ok(Parsed::Partial) if begun || input.end.is_some() => return Ok(Step::More(0)),
            Ok(Parsed::Partial) => {
                vm.push(Value::TRUE);
                return Ok(Step::Done(1));
            }
            Err(refused) => return push_refused(vm, refused),
        };
        vm.push_str(request.method.as_bytes())?;
        vm.push_str(request.path.as_bytes())?;
        let headers = headers(vm, fields)?;
        vm.push(headers.into());
        vm.push(Value::int(left(request.framing)));
        vm.push(Value::int(wishes(request.wishes)));
        push_opt(vm, request.query)?;
        // Mostly they are the path and the field: no strings are made for what is there already.
        let is_path = request.target.starts_with('/');
        push_opt(vm, Some(request.target).filter(|_| !is_path || request.query.is_some()))?;
        vm.push(Value::int(request.minor.into()));
        push_opt(vm, request.host.filter(|_| !is_path))?;
        input.consume(length);
        Ok(Step::Done(9))
    });
    results(vm, outcome)
});

/// `read_response(c, seconds, bytes, fields, method)`: `status, reason, headers, left, wishes, minor`;
/// `nil, message, code`.
static READ_RESPONSE: Native = Native::leaf("read_response", |vm| {
    let stream = this(vm)?;
    let limits = limits(vm, 3)?;
    let method = vm.check_str(5)?;
    set_time(vm, &stream, 2)?;
    let outcome = read(vm, &stream, |vm, input| {
        let bytes = input.buffer.bytes();
        if bytes.is_empty() {
            return Ok(Step::More(0));
        }
        let (mut few, mut many) = ([httparse::EMPTY_HEADER; FEW], Vec::new());
        let parsed = match head::response(bytes, method.bytes(), limits, &mut few) {
            Err(refused) if refused.status == 431 => {
                head::response(bytes, method.bytes(), limits, room(&mut many))
            }
            parsed => parsed,
        };
        let (response, fields, length) = match parsed {
            Ok(Parsed::Complete((response, fields), length)) => (response, fields, length),
            Ok(Parsed::Partial) => return Ok(Step::More(0)),
            Err(refused) => return push_protocol(vm, refused),
        };
        vm.push(Value::int(response.status.into()));
        vm.push_str(response.reason.as_bytes())?;
        let headers = headers(vm, fields)?;
        vm.push(headers.into());
        vm.push(Value::int(left(response.framing)));
        vm.push(Value::int(wishes(response.wishes)));
        vm.push(Value::int(response.minor.into()));
        input.consume(length);
        Ok(Step::Done(6))
    });
    results(vm, outcome)
});

/// `read_chunks(c, seconds, state, most)`: `data, state`; the state is -3 when the body has ended.
/// `nil, message, code`.
static READ_CHUNKS: Native = Native::leaf("read_chunks", |vm| {
    let stream = this(vm)?;
    let before = Decoder::unpack(vm.check_int(3)?);
    let most = usize::try_from(vm.check_int(4)?).unwrap_or(0).max(1);
    set_time(vm, &stream, 2)?;
    let outcome = read(vm, &stream, |vm, input| {
        let (mut decoder, mut data) = (before, Vec::new());
        let taken = match decoder.take(input.buffer.bytes(), most, &mut data) {
            Ok(taken) => taken,
            Err(refused) => return push_protocol(vm, refused),
        };
        if data.is_empty() && !decoder.is_done() {
            return Ok(Step::More(0));
        }
        vm.push_str(&data)?;
        vm.push(Value::int(decoder.pack()));
        input.consume(taken);
        Ok(Step::Done(2))
    });
    results(vm, outcome)
});

/// `read_within(c, seconds, most)`: what is there, at least one byte.
static READ_WITHIN: Native = Native::leaf("read_within", |vm| {
    let stream = this(vm)?;
    let most = usize::try_from(vm.check_int(3)?).unwrap_or(0).max(1);
    set_time(vm, &stream, 2)?;
    let outcome = read(vm, &stream, |vm, input| {
        let bytes = input.buffer.bytes();
        if bytes.is_empty() {
            return Ok(Step::More(0));
        }
        let n = bytes.len().min(most);
        vm.push_str(&bytes[..n])?;
        input.consume(n);
        Ok(Step::Done(1))
    });
    results(vm, outcome)
});

/// `is_fresh(c)`: nothing has come, and it is open: the next request may use it.
static IS_FRESH: Native = Native::leaf("is_fresh", |vm| {
    let stream = this(vm)?;
    let mut input = stream.input();
    let fresh = input.is_open() && input.buffer.is_empty() && stream.more(&mut input, 0) == More::Wait;
    drop(input);
    vm.ret(fresh)
});

/// `has_unread(c)`: something has come that nobody has read: closing it now would be a reset for the client.
static HAS_UNREAD: Native = Native::leaf("has_unread", |vm| {
    let has = this(vm)?.has_unread();
    vm.ret(has)
});

// -- Traces -------------------------------------------------------------------------------------------------

/// `request_begins(c, name)`: tells traces that the running fiber begins to answer a request; the fiber, for
/// the other two, or false if nobody wants to know.
static REQUEST_BEGINS: Native = Native::leaf("request_begins", |vm| {
    if !is_seen() {
        return vm.ret(false);
    }
    let (stream, name) = (this(vm)?, vm.check_str(2)?);
    let fiber = vm.running_fiber_ref();
    request_begins(fiber, name.bytes(), Protocol::Http, &stream, Duration::ZERO);
    // The same bits.
    vm.ret(fiber.0 as i64)
});

/// `request_handled(fiber)`: its handler has returned.
static REQUEST_HANDLED: Native = Native::leaf("request_handled", |vm| {
    request_handled(FiberRef(vm.check_int(1)? as u64));
    Ok(0)
});

/// `request_ends(fiber, status)`: it has been answered.
static REQUEST_ENDS: Native = Native::leaf("request_ends", |vm| {
    let status = u16::try_from(vm.check_int(2)?).unwrap_or(0);
    request_ends(FiberRef(vm.check_int(1)? as u64), status);
    Ok(0)
});

fn push_opt(vm: &mut Vm, text: Option<&str>) -> LuaResult<()> {
    match text {
        Some(text) => vm.push_str(text.as_bytes()),
        None => {
            vm.push(Value::NIL);
            Ok(())
        }
    }
}

fn push_refused(vm: &mut Vm, refused: Refused) -> LuaResult<Step> {
    vm.push(Value::FALSE);
    vm.push_str(refused.text.as_bytes())?;
    vm.push(Value::int(refused.status.into()));
    Ok(Step::Done(3))
}

fn push_protocol(vm: &mut Vm, refused: Refused) -> LuaResult<Step> {
    vm.push(Value::NIL);
    vm.push_str(refused.text.as_bytes())?;
    vm.push_str(PROTOCOL)?;
    Ok(Step::Done(3))
}

/// Nearly all heads have no more fields: room for many is made when they have come.
const FEW: usize = 32;

fn room<'v, 'b>(many: &'v mut Vec<Header<'b>>) -> &'v mut [Header<'b>] {
    many.resize(MOST_FIELDS, httparse::EMPTY_HEADER);
    many
}

/// Bytes of the body; -1: in chunks; -4: until the end.
fn left(framing: Framing) -> i64 {
    match framing {
        Framing::Length(n) => n as i64,
        Framing::Chunked => Decoder::default().pack(),
        Framing::UntilEnd => -4,
    }
}

/// 1: the connection stays open; 2: a `100 Continue` is expected; 4: another protocol is.
fn wishes(wishes: Wishes) -> i64 {
    i64::from(wishes.keep) | i64::from(wishes.expects) << 1 | i64::from(wishes.upgrade) << 2
}

/// Header fields as a table: names in lower case; what is repeated is joined with commas, but `set-cookie`,
/// which is a list always.
fn headers(vm: &mut Vm, fields: &[Header<'_>]) -> LuaResult<Gc<Table>> {
    let mut entries: Vec<Value> = Vec::with_capacity(2 * fields.len());
    let mut lower = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let same = |other: &Header<'_>| other.name.eq_ignore_ascii_case(field.name);
        if fields[..at].iter().any(same) {
            continue;
        }
        lower.clear();
        lower.extend(field.name.bytes().map(|b| b.to_ascii_lowercase()));
        let name = vm.new_name(&lower)?;
        let later = || fields[at..].iter().filter(|other| same(other));
        let value: Value = if lower == b"set-cookie" {
            let list = vm.new_table(1, 0)?;
            for (n, other) in later().enumerate() {
                let value = vm.value_str(other.value)?;
                vm.raw_set_int(list, n as i64 + 1, value)?;
            }
            list.into()
        } else if later().nth(1).is_none() {
            vm.value_str(field.value)?
        } else {
            let all: Vec<&[u8]> = later().map(|other| other.value).collect();
            vm.value_str(&all.join(b", ".as_slice()))?
        };
        entries.extend([Value::from(name), value]);
    }
    Ok(vm.new_record(&entries, Guess::default(), 0)?.table)
}

// -- Writing ------------------------------------------------------------------------------------------------

/// What a head is for, in the last argument of the natives that send one.
mod mode {
    /// The request was a HEAD: no body, but what would be said of it.
    pub const HEAD: i64 = 1;
    /// The connection ends with the message.
    pub const CLOSE: i64 = 2;
    /// The peer speaks HTTP/1.0.
    pub const OLD: i64 = 4;
    /// The body comes in pieces.
    pub const PIECES: i64 = 8;
    /// The head of an upgrade.
    pub const UPGRADE: i64 = 16;
}

/// Composes in a buffer that the thread keeps.
fn scratch<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! {
        static SCRATCH: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
    }
    let mut buffer = SCRATCH.take();
    buffer.clear();
    let result = f(&mut buffer);
    if buffer.capacity() <= 64 << 10 {
        SCRATCH.set(buffer);
    }
    result
}

/// Argument `n` as a body: a string or nil.
fn body_of(vm: &mut Vm, n: u32) -> LuaResult<Option<Gc<perilune_vm::LuaString>>> {
    if vm.arg_is_none_or_nil(n) { Ok(None) } else { vm.check_str(n).map(Some) }
}

/// What a program asked for and what became of it.
enum Sent {
    Length(Option<u64>, bool),
    Stop(Stop),
}

fn send(
    vm: &mut Vm,
    stream: &Arc<Stream>,
    body: Option<Gc<perilune_vm::LuaString>>,
    compose: impl FnOnce(&mut Vm, &mut Vec<u8>) -> LuaResult<(Option<u64>, bool)>,
) -> LuaResult<u32> {
    let sent = scratch(|out| {
        let (length, closes) = match compose(vm, out) {
            Ok(said) => said,
            Err(thrown) => return Sent::Stop(Stop::Thrown(thrown)),
        };
        let bytes = out.len() + body.map_or(0, |body| body.bytes().len());
        let outcome = write(vm, stream, bytes, |_, take| {
            take(out);
            if let Some(body) = body {
                take(body.bytes());
            }
            Ok(())
        });
        match outcome {
            Ok(()) => Sent::Length(length, closes),
            Err(stop) => Sent::Stop(stop),
        }
    });
    match sent {
        Sent::Length(length, closes) => {
            vm.push(closes.into());
            vm.push(length.map_or(Value::NIL, |n| Value::int(n as i64)));
            Ok(2)
        }
        Sent::Stop(stop) => results(vm, Err(stop)),
    }
}

/// `send_response(c, status, headers, body, mode)`: `closes, length`: whether the connection ends with it,
/// and how long a body in pieces has to be, if the program said that; `nil, message, code`.
static SEND_RESPONSE: Native = Native::leaf("send_response", |vm| {
    let stream = this(vm)?;
    let status = vm.check_int(2)?;
    let headers = if vm.arg_is_none_or_nil(3) { None } else { Some(vm.check_table(3)?) };
    let body = body_of(vm, 4)?;
    let mode = vm.check_int(5)?;
    let least = if mode & mode::UPGRADE != 0 { 100 } else { 200 };
    if !(least..=999).contains(&status) {
        return Err(vm.error_plain(format!("a response's status must be from 200 to 999, not {status}")));
    }
    let status = status as u16;
    let has_none = status < 200 || status == 204 || status == 304;
    let framing = match body {
        _ if status == 304 => Body::Omitted(None),
        _ if has_none => Body::None,
        _ if mode & mode::PIECES != 0 && mode & mode::HEAD != 0 => Body::Omitted(None),
        _ if mode & mode::PIECES != 0 && mode & mode::OLD != 0 => Body::UntilEnd,
        _ if mode & mode::PIECES != 0 => Body::Pieces,
        body if mode & mode::HEAD != 0 => Body::Omitted(body.map(|body| body.bytes().len())),
        body => Body::Length(body.map_or(0, |body| body.bytes().len())),
    };
    let sent = body.filter(|_| matches!(framing, Body::Length(_)));
    send(vm, &stream, sent, |vm, out| {
        compose::status_line(out, status);
        let said = match headers {
            Some(headers) => compose::fields(vm, out, headers)?,
            None => compose::Said::default(),
        };
        let until_end = framing == Body::UntilEnd && said.length.is_none();
        let closes = mode & mode::CLOSE != 0 || said.closes || until_end;
        compose::date(out, said);
        if mode & mode::UPGRADE != 0 {
            out.extend_from_slice(b"connection: upgrade\r\n");
        } else if closes {
            out.extend_from_slice(b"connection: close\r\n");
        } else if mode & mode::OLD != 0 {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        let length = compose::end(vm, out, said, framing)?;
        Ok((length, closes))
    })
});

/// `send_request(c, method, target, host, headers, body, mode)`: results as above.
static SEND_REQUEST: Native = Native::leaf("send_request", |vm| {
    let stream = this(vm)?;
    let (method, target, host) = (vm.check_str(2)?, vm.check_str(3)?, vm.check_str(4)?);
    let headers = if vm.arg_is_none_or_nil(5) { None } else { Some(vm.check_table(5)?) };
    let body = body_of(vm, 6)?;
    let mode = vm.check_int(7)?;
    if !compose::is_token(method.bytes()) {
        return Err(vm.error_plain(format!("'{}' is no method", method.to_text())));
    }
    if target.bytes().is_empty() || !target.bytes().iter().all(|b| b.is_ascii_graphic()) {
        return Err(vm.error_plain(format!("'{}' is no target of a request", target.to_text())));
    }
    let has_body = matches!(method.bytes(), b"POST" | b"PUT" | b"PATCH");
    let framing = match body {
        _ if mode & mode::PIECES != 0 => Body::Pieces,
        Some(body) => Body::Length(body.bytes().len()),
        None if has_body => Body::Length(0),
        None => Body::None,
    };
    send(vm, &stream, body, |vm, out| {
        out.extend_from_slice(method.bytes());
        out.push(b' ');
        out.extend_from_slice(target.bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let said = match headers {
            Some(headers) => compose::fields(vm, out, headers)?,
            None => compose::Said::default(),
        };
        if !said.host {
            out.extend_from_slice(b"host: ");
            out.extend_from_slice(host.bytes());
            out.extend_from_slice(b"\r\n");
        }
        let closes = mode & mode::CLOSE != 0 || said.closes;
        if mode & mode::UPGRADE != 0 {
            out.extend_from_slice(b"connection: upgrade\r\n");
        } else if closes {
            out.extend_from_slice(b"connection: close\r\n");
        }
        let length = compose::end(vm, out, said, framing)?;
        Ok((length, closes))
    })
});

/// `write_chunk(c, piece)`: true; `nil, message, code`. An empty piece is none: it would end the body.
static WRITE_CHUNK: Native = Native::leaf("write_chunk", |vm| {
    let stream = this(vm)?;
    let piece = vm.check_str(2)?;
    let length = piece.bytes().len();
    if length == 0 {
        return vm.ret(true);
    }
    let mut size = [0; 18];
    let mut rest = &mut size[..];
    let _ = write!(rest, "{length:x}\r\n");
    let unused = rest.len();
    let line = size.len() - unused;
    let outcome = write(vm, &stream, line + length + 2, |_, take| {
        take(&size[..line]);
        take(piece.bytes());
        take(b"\r\n");
        Ok(())
    });
    done(vm, outcome)
});

/// `end_chunks(c)`: true; `nil, message, code`.
static END_CHUNKS: Native = Native::leaf("end_chunks", |vm| {
    let stream = this(vm)?;
    let outcome = write(vm, &stream, 5, |_, take| {
        take(b"0\r\n\r\n");
        Ok(())
    });
    done(vm, outcome)
});

fn done(vm: &mut Vm, outcome: Result<(), Stop>) -> LuaResult<u32> {
    match outcome {
        Ok(()) => vm.ret(true),
        Err(stop) => results(vm, Err(stop)),
    }
}
