//! Connections as programs see them: the natives on a [`Stream`].

use crate::address;
use crate::cases::Ready;
use crate::failure::Failure;
use crate::lines;
use crate::seen;
use crate::slot::Left;
use crate::stream::{End, Input, More, Origin, Stream};
use crate::tls::{self, Setup};
use crate::waiting::{Progress, Side, Waited, read_already, reader, turn, wait};
use perilune_domain::objects::{array, fill};
use perilune_domain::outside::{self, Waiter};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_stdlib::io::separators::newline;
use perilune_vm::shared::{Element, SharedKind};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::sync::Arc;
use std::time::Duration;

/// The kind of connections.
pub static CONNECTION: SharedKind = SharedKind::new("connection", open);

/// A line, or what comes before a separator, is no longer unless the program says so.
const LINE_LIMIT: usize = 1 << 20;
/// The same of all that comes.
const ALL_LIMIT: usize = 64 << 20;
/// `read()` hands out so much at a time.
const SOME: usize = 64 << 10;
/// How long what was written may take to go after a connection went out of scope.
const LINGER: Duration = Duration::from_secs(10);

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[
            &READ,
            &READ_EXACT,
            &READ_LINE,
            &READ_UNTIL,
            &READ_ALL,
            &READ_INTO,
            &LINES,
            &PEEK,
            &WRITE,
            &FLUSH,
            &CLOSE_WRITE,
            &CLOSE,
            &ABORT,
            &COPY_TO,
            &crate::sendfile::SEND_FILE,
            &START_TLS,
            &SET,
            &INFO,
            &PEER,
            &PEER_ENDPOINT,
            &ADDRESS,
            &ENDPOINT,
            &IS_CLOSED,
        ],
        &[("__close", &AT_SCOPE_END)],
    )
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Stream>> {
    surplus::this(vm, &CONNECTION, last, limit)
}

/// Argument `n` as a number of bytes.
fn check_bytes(vm: &mut Vm, n: u32, least: i64) -> LuaResult<usize> {
    let bytes = vm.check_int(n)?;
    if bytes < least {
        return Err(vm.arg_error(n, &format!("a number of bytes must be at least {least}")));
    }
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn opt_bytes(vm: &mut Vm, n: u32, default: usize) -> LuaResult<usize> {
    if vm.arg_is_none_or_nil(n) { Ok(default) } else { check_bytes(vm, n, 1) }
}

// -- Reading ------------------------------------------------------------------------------------------------

/// What a look at the buffer came to.
pub enum Step {
    /// These results have been pushed.
    Done(u32),
    /// So many bytes more are hoped for.
    More(usize),
    /// It cannot be.
    Fail(Failure),
}

/// Reads until `step` finds in the buffer what it wants, the stream ends, or the time is over. What was
/// written to the connection goes out before the system is asked for more: answers to requests that have come
/// together go together.
///
/// # Errors
/// The park, to be passed on; a failure; what `step` says.
pub fn read(
    vm: &mut Vm,
    stream: &Arc<Stream>,
    mut step: impl FnMut(&mut Vm, &mut Input) -> LuaResult<Step>,
) -> Result<u32, Stop> {
    let progress = turn(vm, stream, Side::Read)?;
    let mut to_flush = progress.is_first;
    loop {
        let mut input = stream.input_of(vm);
        if !input.is_open() {
            return Err(Failure::Closed.into());
        }
        let want = match step(vm, &mut input)? {
            Step::Done(n) => return Ok(n),
            Step::Fail(failure) => return Err(failure.into()),
            Step::More(want) => want,
        };
        match &input.end {
            Some(End::Eof) => return Err(Failure::Closed.into()),
            Some(End::Failed(error)) => return Err(Failure::from(error.clone()).into()),
            None => {}
        }
        if std::mem::take(&mut to_flush) {
            drop(input);
            stream.flush_some();
            continue;
        }
        match stream.more(&mut input, want) {
            More::Some | More::End => {}
            More::NoMemory => {
                drop(input);
                return Err(Stop::Thrown(vm.out_of_memory()));
            }
            More::Wait if progress.is_over => return Err(Failure::Timeout.into()),
            More::Wait => wait(vm, stream, input, Side::Read, &progress)?,
        }
    }
}

/// Why a native does not return what it was to: an error or a park, or something that is told as a result.
pub enum Stop {
    /// It raises, or waits.
    Thrown(perilune_vm::Thrown),
    /// It fails without anybody's mistake.
    Failure(Failure),
}

impl From<perilune_vm::Thrown> for Stop {
    fn from(thrown: perilune_vm::Thrown) -> Stop {
        Stop::Thrown(thrown)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

/// The results of a native.
///
/// # Errors
/// What it raises.
pub fn results(vm: &mut Vm, outcome: Result<u32, Stop>) -> LuaResult<u32> {
    match outcome {
        Ok(n) => Ok(n),
        Err(Stop::Thrown(thrown)) => Err(thrown),
        Err(Stop::Failure(failure)) => failure.ret(vm),
    }
}

/// Hands out the first `n` bytes as a string; `more` behind them are dropped.
#[inline]
fn hand_out(vm: &mut Vm, input: &mut Input, n: usize, more: usize) -> LuaResult<Step> {
    let text = vm.new_str(&input.buffer.bytes()[..n])?;
    input.consume(n + more);
    vm.push(text.into());
    Ok(Step::Done(1))
}

/// `c:read([n])`: what is there, at least one byte, at most `n`.
static READ: Native = Native::leaf("read", |vm| {
    let most = if vm.arg_is_none_or_nil(2) { SOME } else { check_bytes(vm, 2, 0)? };
    let stream = this(vm, 2, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| match input.buffer.len() {
        0 if most > 0 => Ok(Step::More(0)),
        there => hand_out(vm, input, there.min(most), 0),
    });
    results(vm, outcome)
});

/// `c:read_exact(n)`: n bytes; if the stream ends before, they stay there.
static READ_EXACT: Native = Native::leaf("read_exact", |vm| {
    let n = check_bytes(vm, 2, 0)?;
    let stream = this(vm, 2, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| match input.buffer.len() {
        there if there < n => Ok(Step::More(n - there)),
        _ => hand_out(vm, input, n, 0),
    });
    results(vm, outcome)
});

/// `c:read_into(array [, i [, n]])`: what is there, at most `n` bytes, into the elements from `i` on of an
/// array of `u8`; how many that were.
static READ_INTO: Native = Native::leaf("read_into", |vm| {
    let array = array::check(vm, 2)?;
    let len = array.view().len();
    if array.view().element() != Element::U8 {
        return Err(vm.arg_error(2, "an array of 'u8' expected"));
    }
    let first = vm.opt_int(3, 1)?;
    if first < 1 || first > len as i64 + 1 {
        return Err(vm.arg_error(3, &format!("index {first} is out of range (array of {len} elements)")));
    }
    let at = first as usize - 1;
    let most = if vm.arg_is_none_or_nil(4) { len - at } else { check_bytes(vm, 4, 0)? };
    if most > len - at {
        return Err(
            vm.arg_error(4, &format!("{most} bytes from index {first} on are more than there is room for"))
        );
    }
    let stream = this(vm, 4, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| match input.buffer.len() {
        0 if most > 0 => Ok(Step::More(most)),
        there => {
            let n = there.min(most);
            array.put_bytes(vm, at, &input.buffer.bytes()[..n]);
            input.consume(n);
            vm.push(Value::int(n as i64));
            Ok(Step::Done(1))
        }
    });
    results(vm, outcome)
});

/// `c:peek(n)`: the next n bytes, which stay there; fewer, if the stream ends.
static PEEK: Native = Native::leaf("peek", |vm| {
    let n = check_bytes(vm, 2, 1)?;
    let stream = this(vm, 2, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| {
        let there = input.buffer.len();
        if there < n && (input.end.is_none() || there == 0) {
            return Ok(Step::More(n - there));
        }
        let text = vm.new_str(&input.buffer.bytes()[..there.min(n)])?;
        vm.push(text.into());
        Ok(Step::Done(1))
    });
    results(vm, outcome)
});

/// `goes_on`: it is asked for lines, and not for one.
fn read_line(vm: &mut Vm, stream: &Arc<Stream>, limit: usize, goes_on: bool) -> Result<u32, Stop> {
    read(vm, stream, |vm, input| match input.find(b"\n") {
        Some(at) if at <= limit => {
            input.lends = goes_on;
            let ends = at > 0 && input.buffer.bytes()[at - 1] == b'\r';
            let text = at - usize::from(ends);
            hand_out(vm, input, text, at + 1 - text)
        }
        None if input.buffer.len() <= limit => match (&input.end, input.buffer.len()) {
            // The last line needs no end.
            (Some(End::Eof), n) if n > 0 => hand_out(vm, input, n, 0),
            _ => Ok(Step::More(0)),
        },
        _ => Ok(Step::Fail(Failure::Limit(format!("a line is longer than {limit} bytes")))),
    })
}

/// `c:read_line([limit])`: a line without its end, which is LF or CRLF.
static READ_LINE: Native = Native::leaf("read_line", |vm| {
    let limit = opt_bytes(vm, 2, LINE_LIMIT)?;
    let stream = this(vm, 2, Limit::ReadTimeout)?;
    let outcome = read_line(vm, &stream, limit, false);
    results(vm, outcome)
});

/// `c:read_until(separator [, limit])`: what comes before the separator, which is taken too.
static READ_UNTIL: Native = Native::leaf("read_until", |vm| {
    let separator = vm.check_str(2)?.bytes().to_vec();
    if separator.is_empty() {
        return Err(vm.arg_error(2, "the separator must not be empty"));
    }
    let limit = opt_bytes(vm, 3, LINE_LIMIT)?;
    let stream = this(vm, 3, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| match input.find(&separator) {
        Some(at) if at <= limit => hand_out(vm, input, at, separator.len()),
        None if input.buffer.len() < limit.saturating_add(separator.len()) => Ok(Step::More(0)),
        _ => Ok(Step::Fail(Failure::Limit(format!("no separator within {limit} bytes")))),
    });
    results(vm, outcome)
});

/// `c:read_all([limit])`: everything until the end of the stream.
static READ_ALL: Native = Native::leaf("read_all", |vm| {
    let limit = opt_bytes(vm, 2, ALL_LIMIT)?;
    let stream = this(vm, 2, Limit::ReadTimeout)?;
    let outcome = read(vm, &stream, |vm, input| {
        let there = input.buffer.len();
        if there > limit {
            let text = format!("more than {limit} bytes have come");
            return Ok(Step::Fail(Failure::Limit(text)));
        }
        match input.end {
            Some(End::Eof) => hand_out(vm, input, there, 0),
            _ => Ok(Step::More(there)),
        }
    });
    results(vm, outcome)
});

/// `c:lines([limit])`: an iterator over lines.
static LINES: Native = Native::leaf("lines", |vm| {
    let limit = opt_bytes(vm, 2, LINE_LIMIT)?;
    this(vm, 2, Limit::ReadTimeout)?;
    lines::iterator(vm, &NEXT_LINE, limit)
});

/// One step of it. What is not the end of the stream is an error, as with `io.lines`: a loop could not tell.
static NEXT_LINE: Native = Native::leaf("next_line", |vm| {
    if line_at_hand(vm)? {
        return Ok(1);
    }
    next_line(vm)
});

#[inline(never)]
fn next_line(vm: &mut Vm) -> LuaResult<u32> {
    let (stream, limit) = lines::of_step::<Stream>(vm)?;
    match read_line(vm, &stream, limit, true) {
        Ok(n) => Ok(n),
        Err(Stop::Thrown(thrown)) => Err(thrown),
        Err(Stop::Failure(Failure::Closed)) => vm.ret(Value::NIL),
        Err(Stop::Failure(failure)) => Err(vm.error(failure.message())),
    }
}

/// Pushes a line that lies in the buffer, if nobody else has a turn before and it needs no lock. Whether it
/// has.
#[inline(always)]
fn line_at_hand(vm: &mut Vm) -> LuaResult<bool> {
    if !outside::may_take(vm)? {
        return Ok(false);
    }
    let Some(shared) = vm.upvalue(1).as_shared() else { return Ok(false) };
    let object: &dyn std::any::Any = &**shared.object();
    let (Some(stream), Some(limit)) = (object.downcast_ref::<Stream>(), vm.upvalue(2).as_int()) else {
        return Ok(false);
    };
    // SAFETY: a string is made of some of it, which neither waits nor runs anything.
    let Some(mut input) = (unsafe { stream.input_briefly(vm) }) else { return Ok(false) };
    let bytes = input.buffer.bytes();
    let Some(at) = newline(bytes) else { return Ok(false) };
    if at as u64 > limit as u64 {
        return Ok(false);
    }
    let ends = at > 0 && bytes[at - 1] == b'\r';
    let text = vm.new_str(&bytes[..at - usize::from(ends)])?;
    input.consume(at + 1);
    drop(input);
    vm.push(text.into());
    outside::took(vm);
    Ok(true)
}

/// Whether a read would return at once, though it may be with a failure; looks for more if nothing is there.
fn is_readable(stream: &Stream, input: &mut Input) -> bool {
    loop {
        if !input.is_open() || !input.buffer.is_empty() || input.end.is_some() {
            return true;
        }
        match stream.more(input, 0) {
            More::Some | More::End => {}
            More::Wait => return false,
            // The read says so.
            More::NoMemory => return true,
        }
    }
}

impl Ready for Stream {
    const WRITES: bool = true;

    fn take_case(self: &Arc<Self>, vm: &mut Vm, side: Side) -> LuaResult<Option<u32>> {
        let is_ready = match side {
            Side::Read => {
                if let Some(other) = reader(&**self) {
                    return Err(read_already::<Stream>(vm, &other));
                }
                self.flush_some();
                is_readable(self, &mut self.input())
            }
            // A failure is told by the write.
            Side::Write => self.may_write(&mut self.output()).unwrap_or(true),
        };
        Ok(is_ready.then_some(0))
    }

    fn leave_case(&self, side: Side, waiter: Arc<Waiter>) -> Option<Left> {
        match side {
            Side::Read => {
                let mut input = self.input();
                if is_readable(self, &mut input) { None } else { self.source().read.leave(waiter).ok() }
            }
            Side::Write => {
                let mut output = self.output();
                let is_ready = self.may_write(&mut output).unwrap_or(true);
                if is_ready { None } else { self.source().write.leave(waiter).ok() }
            }
        }
    }
}

// -- Writing ------------------------------------------------------------------------------------------------

/// `c:write(...)`: strings and numbers, taken whole or not at all.
static WRITE: Native = Native::leaf("write", |vm| {
    let stream = this(vm, ANY, Limit::WriteTimeout)?;
    let mut bytes = 0;
    for n in 2..=vm.nargs() {
        bytes += surplus::check_piece(vm, n)?.bytes().len();
    }
    let n = vm.nargs();
    let outcome = write(vm, &stream, bytes, |vm, take| {
        for n in 2..=n {
            take(vm.check_str(n)?.bytes());
        }
        Ok(())
    });
    match outcome {
        Ok(()) => vm.ret(true),
        Err(stop) => results(vm, Err(stop)),
    }
});

/// Writes so many bytes, whole or not at all: waits while too much waits to go, then has `give` pass the
/// pieces to the function that it gets.
///
/// # Errors
/// The park, to be passed on; a failure; what `give` says.
pub fn write(
    vm: &mut Vm,
    stream: &Arc<Stream>,
    bytes: usize,
    give: impl FnOnce(&mut Vm, &mut dyn FnMut(&[u8])) -> LuaResult<()>,
) -> Result<(), Stop> {
    let progress = turn(vm, stream, Side::Write)?;
    established(vm, stream, &progress)?;
    loop {
        let mut output = stream.output();
        if stream.may_write(&mut output)? {
            if !stream.reserve(&mut output, bytes) {
                drop(output);
                return Err(Stop::Thrown(vm.out_of_memory()));
            }
            give(vm, &mut |piece| stream.take(&mut output, piece))?;
            let defer = stream.is_to_be_deferred(&mut output);
            drop(output);
            if defer {
                outside::defer(vm, Arc::clone(stream) as _)?;
            }
            return Ok(());
        }
        if progress.is_over {
            return Err(Failure::Timeout.into());
        }
        wait(vm, stream, output, Side::Write, &progress)?;
    }
}

/// Waits for the end of a handshake, if one is under way; how it ended is for the caller to find out. What
/// comes is dealt with by whoever is woken, for all.
pub fn established(vm: &mut Vm, stream: &Arc<Stream>, progress: &Progress) -> Result<(), Stop> {
    while stream.is_handshaking() {
        let mut input = stream.input();
        if !input.is_open() {
            return Err(Failure::Closed.into());
        }
        // It may be over by now: what came then is not to be looked for here.
        if !stream.is_handshaking() {
            break;
        }
        match stream.more(&mut input, 0) {
            More::Some | More::End => {}
            More::NoMemory => {
                drop(input);
                return Err(Stop::Thrown(vm.out_of_memory()));
            }
            More::Wait if !stream.is_handshaking() => {}
            More::Wait if progress.is_over => return Err(Failure::Timeout.into()),
            More::Wait => wait(vm, stream, input, Side::Read, progress)?,
        }
    }
    Ok(())
}

/// `c:start_tls(options)`: from now on a TLS session; waits for its handshake, for `timeout` seconds at most.
/// Who has accepted the connection is the server.
static START_TLS: Native = Native::leaf("start_tls", |vm| {
    let stream = this(vm, 2, Limit::Own)?;
    let outcome = start_tls(vm, &stream);
    done(vm, outcome)
});

fn start_tls(vm: &mut Vm, stream: &Arc<Stream>) -> Result<(), Stop> {
    let mut progress = turn(vm, stream, Side::Read)?;
    if progress.is_first {
        if stream.session().is_some() {
            return Err(Failure::Tls("the connection has a TLS session already".into()).into());
        }
        if let Some(options) = vm.arg(2).as_table()
            && let Some(span) = crate::options::span(vm, options, "timeout")?
        {
            progress.deadline = span.and_then(|span| std::time::Instant::now().checked_add(span));
        }
    }
    while stream.session().is_none() {
        let setup = setup(vm, stream)??;
        let mut output = stream.output();
        if stream.flush(&mut output)? {
            drop(output);
            stream.start_tls(&setup)?;
        } else if progress.is_over {
            return Err(Failure::Timeout.into());
        } else {
            wait(vm, stream, output, Side::Write, &progress)?;
        }
    }
    established(vm, stream, &progress)?;
    Ok(stream.check()?)
}

/// What the argument of `start_tls` may say beside what sessions are made of.
const BESIDE: &[&str] = &["server", "timeout"];

/// What the argument of `start_tls` means for this connection.
fn setup(vm: &mut Vm, stream: &Stream) -> LuaResult<Result<Setup, Failure>> {
    let mut is_server = stream.origin == Origin::Accepted;
    let options = if vm.arg_is_none_or_nil(2) { Value::TRUE } else { vm.check_table(2)?.into() };
    if let Some(table) = options.as_table()
        && let Some(server) = crate::options::flag(vm, table, "server")?
    {
        is_server = server;
    }
    if is_server {
        tls::server_setup(vm, options, BESIDE)
    } else {
        tls::client_setup(vm, options, stream.host(), BESIDE)
    }
}

/// Waits until all that was written has gone.
fn flush(vm: &mut Vm, stream: &Arc<Stream>) -> Result<(), Stop> {
    let progress = turn(vm, stream, Side::Write)?;
    loop {
        let mut output = stream.output();
        if stream.flush(&mut output)? {
            return Ok(());
        }
        if stream.is_handshaking() {
            drop(output);
            established(vm, stream, &progress)?;
            continue;
        }
        if progress.is_over {
            return Err(Failure::Timeout.into());
        }
        wait(vm, stream, output, Side::Write, &progress)?;
    }
}

/// `c:flush()`: waits until the system has all that was written.
static FLUSH: Native = Native::leaf("flush", |vm| {
    let stream = this(vm, 1, Limit::WriteTimeout)?;
    if seen::is_on() {
        stream.talk.at(vm.event_stack());
    }
    let outcome = flush(vm, &stream);
    done(vm, outcome)
});

fn done(vm: &mut Vm, outcome: Result<(), Stop>) -> LuaResult<u32> {
    match outcome {
        Ok(()) => vm.ret(true),
        Err(stop) => results(vm, Err(stop)),
    }
}

/// `c:close_write()`: the peer reads the end of the stream after what was written; reading goes on.
static CLOSE_WRITE: Native = Native::leaf("close_write", |vm| {
    let stream = this(vm, 1, Limit::WriteTimeout)?;
    let outcome = flush(vm, &stream).and_then(|()| Ok(stream.end_output(&mut stream.output())?));
    done(vm, outcome)
});

/// `c:close()`: waits until what was written has gone, then closes. Whatever it returns, the connection is
/// closed.
static CLOSE: Native = Native::leaf("close", |vm| {
    let stream = this(vm, 1, Limit::WriteTimeout)?;
    let outcome = flush(vm, &stream);
    if let Err(Stop::Thrown(thrown)) = outcome {
        return Err(thrown);
    }
    stream.close_now();
    match outcome {
        Err(Stop::Failure(Failure::Closed)) => vm.ret(true),
        outcome => done(vm, outcome),
    }
});

/// The connection goes out of scope: as `close`, but nobody waits.
static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY, Limit::Own)?.close_later(LINGER);
    Ok(0)
});

/// `c:abort()`: closes at once, drops what has not gone, and tells the peer that something is wrong.
static ABORT: Native = Native::leaf("abort", |vm| {
    let first = this(vm, 1, Limit::Own)?.abort();
    vm.ret(first)
});

/// `c:copy_to(other)`: writes all that comes to the other connection, until the stream ends; how many bytes
/// that were.
static COPY_TO: Native = Native::leaf("copy_to", |vm| {
    let from = this(vm, 2, Limit::ReadTimeout)?;
    let to: Arc<Stream> = vm.check_shared_arc(2, &CONNECTION)?;
    let mut progress = turn(vm, &from, Side::Read)?;
    if let Err(stop) = established(vm, &to, &progress) {
        return results(vm, Err(stop));
    }
    loop {
        let mut output = to.output();
        match to.may_write(&mut output) {
            Ok(true) => {}
            Ok(false) if progress.is_over => {
                drop(output);
                return Failure::Timeout.ret(vm);
            }
            Ok(false) => {
                wait(vm, &to, output, Side::Write, &progress)?;
                continue;
            }
            Err(failure) => {
                drop(output);
                return failure.ret(vm);
            }
        }
        drop(output);
        let mut input = from.input();
        let more = match input.buffer.is_empty() {
            true if !input.is_open() => {
                drop(input);
                return Failure::Closed.ret(vm);
            }
            true => from.more(&mut input, SOME),
            false => More::Some,
        };
        match more {
            More::Some => {
                let mut output = to.output();
                let n = input.buffer.len();
                if !to.reserve(&mut output, n) {
                    drop((output, input));
                    return Err(vm.out_of_memory());
                }
                to.take(&mut output, input.buffer.bytes());
                to.write_out(&mut output);
                input.consume(n);
                progress.done += n as u64;
                // Each piece has its time.
                progress.deadline = from.deadline(Side::Read);
                progress.is_over = false;
            }
            More::NoMemory => {
                drop(input);
                return Err(vm.out_of_memory());
            }
            More::End => {
                let end = input.end.clone();
                drop(input);
                return match end {
                    Some(End::Failed(error)) => Failure::from(error).ret(vm),
                    Some(End::Eof) => vm.ret(progress.done as i64),
                    None => Failure::Closed.ret(vm),
                };
            }
            More::Wait if progress.is_over => {
                drop(input);
                return Failure::Timeout.ret(vm);
            }
            More::Wait => wait(vm, &from, input, Side::Read, &progress)?,
        }
    }
});

// -- Everything else ----------------------------------------------------------------------------------------

/// `c:set{read_timeout=, write_timeout=, nodelay=, high_water=}`: the connection.
static SET: Native = Native::leaf("set", |vm| {
    let stream = this(vm, 2, Limit::Own)?;
    let options = vm.check_table(2)?;
    crate::options::check(vm, options, &["read_timeout", "write_timeout", "nodelay", "high_water"])?;
    for (name, side) in [("read_timeout", Side::Read), ("write_timeout", Side::Write)] {
        if let Some(span) = crate::options::span(vm, options, name)? {
            stream.set_timeout(side, span);
        }
    }
    if let Some(bytes) = crate::options::int(vm, options, "high_water", 0, i64::MAX)? {
        stream.set_high_water(bytes as usize);
    }
    if let Some(on) = crate::options::flag(vm, options, "nodelay")?
        && let Err(failure) = stream.set_nodelay(on)
    {
        return failure.ret(vm);
    }
    let this = vm.arg(1);
    vm.ret(this)
});

/// `c:info()`: what there is to know.
static INFO: Native = Native::leaf("info", |vm| {
    let stream = this(vm, 1, Limit::Own)?;
    let (received, sent) = stream.counts();
    let unread = stream.input().buffer.len();
    let unsent = {
        let output = stream.output();
        stream.unsent(&output)
    };
    let info = vm.new_table(0, 8)?;
    vm.push(info.into());
    for (name, n) in [
        ("received", received as i64),
        ("sent", sent as i64),
        ("unread", unread as i64),
        ("unsent", unsent as i64),
        ("high_water", stream.high_water().min(i64::MAX as usize) as i64),
    ] {
        vm.set_field(info, name, Value::int(n))?;
    }
    for (name, text) in [("endpoint", &stream.endpoint), ("peer_endpoint", &stream.peer)] {
        let text = vm.value_str(text.as_bytes())?;
        vm.set_field(info, name, text)?;
    }
    vm.set_field(info, "closed", stream.is_closed().into())?;
    if let Some(session) = stream.session() {
        let tls = session.info(vm)?;
        drop(session);
        vm.set_field(info, "tls", tls.into())?;
    }
    Ok(1)
});

/// `c:peer()`: the other end's host and port.
static PEER: Native = Native::leaf("peer", |vm| {
    let stream = this(vm, 1, Limit::Own)?;
    address::ret_halves(vm, &stream.peer)
});

/// `c:peer_endpoint()`: the same as one text.
static PEER_ENDPOINT: Native = Native::leaf("peer_endpoint", |vm| {
    let stream = this(vm, 1, Limit::Own)?;
    vm.ret_str(stream.peer.as_bytes())
});

/// `c:address()`: this end's host and port.
static ADDRESS: Native = Native::leaf("address", |vm| {
    let stream = this(vm, 1, Limit::Own)?;
    address::ret_halves(vm, &stream.endpoint)
});

/// `c:endpoint()`: the same as one text.
static ENDPOINT: Native = Native::leaf("endpoint", |vm| {
    let stream = this(vm, 1, Limit::Own)?;
    vm.ret_str(stream.endpoint.as_bytes())
});

/// `c:is_closed()`: whether somebody has closed it here.
static IS_CLOSED: Native = Native::leaf("is_closed", |vm| {
    let closed = this(vm, 1, Limit::Own)?.is_closed();
    vm.ret(closed)
});
