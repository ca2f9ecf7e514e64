//! Receiving and sending: bytes by pattern, bytes in pieces, datagrams. What has come is not lost when a call
//! fails: it is the call's third result.

use super::names::{self, Family, words};
use super::{Sock, begin, fail, is_open, of_class, renew, sock};
use crate::seen;
use crate::waiting::{Side, Waited, wait};
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Received at a time.
const ROOM: usize = 64 << 10;
/// The longest datagram.
const LONGEST: usize = 65536;

// -- Receiving ----------------------------------------------------------------------------------------------

enum Pattern {
    Line,
    All,
    Bytes(usize),
}

fn pattern(vm: &mut Vm, prefix: usize) -> LuaResult<Pattern> {
    if vm.arg_is_none_or_nil(2) {
        return Ok(Pattern::Line);
    }
    if let Some(n) = Vm::string_to_number(vm.arg(2)).and_then(Value::as_number) {
        if n < 0.0 || n.is_nan() {
            return Err(vm.arg_error(2, "invalid receive pattern"));
        }
        return Ok(Pattern::Bytes((n as usize).saturating_sub(prefix)));
    }
    match vm.check_str(2)?.bytes() {
        [b'*', b'l', ..] => Ok(Pattern::Line),
        [b'*', b'a', ..] => Ok(Pattern::All),
        _ => Err(vm.arg_error(2, "invalid receive pattern")),
    }
}

/// What there is of what is wanted: how many bytes of the buffer are the result, and how many go with it.
fn cut(sock: &mut Sock, pattern: &Pattern) -> Option<(usize, usize)> {
    let bytes = sock.input.bytes();
    match *pattern {
        Pattern::Bytes(n) => (bytes.len() >= n).then_some((n, n)),
        Pattern::Line => memchr::memchr(b'\n', bytes).map(|at| (at, at + 1)),
        Pattern::All => (sock.ended && !bytes.is_empty()).then_some((bytes.len(), bytes.len())),
    }
}

/// Takes bytes out of the buffer, behind the prefix that the program has given.
fn take(vm: &mut Vm, pattern: &Pattern, (n, gone): (usize, usize)) -> LuaResult<Vec<u8>> {
    let mut text = if vm.arg_is_none_or_nil(3) { Vec::new() } else { vm.check_str(3)?.bytes().to_vec() };
    let sock = sock(vm)?;
    let bytes = &sock.input.bytes()[..n];
    match pattern {
        Pattern::Line => text.extend(bytes.iter().filter(|&&b| b != b'\r')),
        _ => text.extend_from_slice(bytes),
    }
    sock.input.consume(gone);
    sock.received += gone as f64;
    Ok(text)
}

/// `c:receive([pattern [, prefix]])`
pub(super) static RECEIVE: Native = Native::leaf("receive", |vm| {
    of_class(vm, "{client}")?;
    let prefix = if vm.arg_is_none_or_nil(3) { 0 } else { vm.check_str(3)?.bytes().len() };
    let pattern = pattern(vm, prefix)?;
    let why = match begin(vm, Side::Read)? {
        None => "closed".to_owned(),
        Some((handle, mut progress)) => loop {
            let guard = handle.reads.lock();
            let this = sock(vm)?;
            if let Some(found) = cut(this, &pattern) {
                drop(guard);
                let text = take(vm, &pattern, found)?;
                vm.push_str(&text)?;
                vm.push(Value::NIL);
                vm.push(Value::NIL);
                return Ok(3);
            }
            if this.ended || !this.handle.as_ref().is_some_and(|h| Arc::ptr_eq(h, &handle)) {
                break "closed".to_owned();
            }
            handle.source().read.clear();
            let Some(room) = this.input.end(ROOM) else { break "not enough memory".to_owned() };
            match rustix::net::recv(&handle.fd, spare_capacity(room), RecvFlags::empty()) {
                Ok((0, _)) => this.ended = true,
                Ok(_) => {
                    handle.talk.received(&*handle);
                    drop(guard);
                    renew(vm, Side::Read, &mut progress)?;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if progress.is_over => break "timeout".to_owned(),
                Err(Errno::AGAIN) => {
                    handle.has_some.store(!this.input.is_empty(), Ordering::Relaxed);
                    if this.input.is_empty() {
                        this.input.clear();
                    }
                    wait(vm, &handle, guard, Side::Read, &progress)?;
                }
                Err(error) => break words(error),
            }
        },
    };
    let n = sock(vm)?.input.len();
    let part = take(vm, &pattern, (n, n))?;
    vm.push(Value::NIL);
    vm.push_str(why.as_bytes())?;
    vm.push_str(&part)?;
    Ok(3)
});

// -- Sending ------------------------------------------------------------------------------------------------

/// `c:send(data [, from [, to]])`: the index of the last byte that has gone.
pub(super) static SEND: Native = Native::leaf("send", |vm| {
    of_class(vm, "{client}")?;
    let size = vm.check_str(2)?.bytes().len() as i64;
    let place = |n: i64| if n < 0 { size + n + 1 } else { n };
    let from = place(vm.opt_num(3, 1.0)? as i64).max(1);
    let to = place(vm.opt_num(4, -1.0)? as i64).min(size);
    let (outcome, done) = send(vm, from, to)?;
    match outcome {
        None => {
            vm.push(Value::int(from - 1 + done));
            vm.push(Value::NIL);
            vm.push(Value::NIL);
        }
        Some(why) => {
            vm.push(Value::NIL);
            vm.push_str(why.as_bytes())?;
            vm.push(Value::int(from - 1 + done));
        }
    }
    Ok(3)
});

fn send(vm: &mut Vm, from: i64, to: i64) -> LuaResult<(Option<String>, i64)> {
    if from > to {
        return Ok((None, 0));
    }
    let Some((handle, mut progress)) = begin(vm, Side::Write)? else { return Ok((Some("closed".into()), 0)) };
    loop {
        let done = progress.done as i64;
        if !is_open(vm, &handle)? {
            return Ok((Some("closed".into()), done));
        }
        let text = vm.check_str(2)?;
        let rest = &text.bytes()[(from - 1 + done) as usize..to as usize];
        if seen::is_on() {
            handle.talk.at(vm.event_stack());
        }
        let guard = handle.writes.lock();
        handle.source().write.clear();
        match rustix::net::send(&handle.fd, rest, SendFlags::NOSIGNAL) {
            Ok(n) => {
                handle.talk.sent(n, &*handle);
                drop(guard);
                progress.done += n as u64;
                sock(vm)?.sent += n as f64;
                if n == rest.len() {
                    return Ok((None, progress.done as i64));
                }
                renew(vm, Side::Write, &mut progress)?;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if progress.is_over => return Ok((Some("timeout".into()), done)),
            Err(Errno::AGAIN) => wait(vm, &handle, guard, Side::Write, &progress)?,
            Err(error) => return Ok((Some(words(error)), done)),
        }
    }
}

// -- Datagrams ----------------------------------------------------------------------------------------------

/// `receive_datagram(u, size)`: the datagram, and who has sent it.
pub(super) static RECEIVE_DATAGRAM: Native = Native::leaf("receive_datagram", |vm| {
    let most = vm.opt_num(2, 8192.0)?.clamp(0.0, LONGEST as f64) as usize;
    let Some((handle, progress)) = begin(vm, Side::Read)? else { return fail(vm, "closed") };
    loop {
        if !is_open(vm, &handle)? {
            return fail(vm, "closed");
        }
        let guard = handle.reads.lock();
        handle.source().read.clear();
        let mut room = vec![0; most];
        match rustix::net::recvfrom(&handle.fd, &mut room[..], RecvFlags::empty()) {
            Ok((n, _, from)) => {
                drop(guard);
                vm.push_str(&room[..n])?;
                if let Some(from) = from.and_then(|a| SocketAddr::try_from(a).ok()) {
                    vm.push_str(from.ip().to_string().as_bytes())?;
                    vm.push(Value::int(i64::from(from.port())));
                    return Ok(3);
                }
                return Ok(1);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if progress.is_over => return fail(vm, "timeout"),
            Err(Errno::AGAIN) => wait(vm, &handle, guard, Side::Read, &progress)?,
            Err(error) => return fail(vm, names::of_datagrams(error).as_str()),
        }
    }
});

/// `send_datagram(u, data [, ip, port])`
pub(super) static SEND_DATAGRAM: Native = Native::leaf("send_datagram", |vm| {
    let to = if vm.arg_is_none_or_nil(3) { None } else { Some(names::check_address(vm, 3)?) };
    if let Some(to) = to {
        let family = Family::of(&to);
        let this = sock(vm)?;
        if this.handle.is_none()
            && let Err(error) = this.open(family)
        {
            return fail(vm, &words(error));
        }
    }
    let Some((handle, progress)) = begin(vm, Side::Write)? else { return fail(vm, "closed") };
    loop {
        if !is_open(vm, &handle)? {
            return fail(vm, "closed");
        }
        let text = vm.check_str(2)?;
        let guard = handle.writes.lock();
        handle.source().write.clear();
        let sent = match &to {
            Some(to) => rustix::net::sendto(&handle.fd, text.bytes(), SendFlags::NOSIGNAL, to),
            None => rustix::net::send(&handle.fd, text.bytes(), SendFlags::NOSIGNAL),
        };
        match sent {
            Ok(n) => {
                drop(guard);
                return vm.ret(n as i64);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if progress.is_over => return fail(vm, "timeout"),
            Err(Errno::AGAIN) => wait(vm, &handle, guard, Side::Write, &progress)?,
            Err(error) => return fail(vm, names::of_datagrams(error).as_str()),
        }
    }
});
