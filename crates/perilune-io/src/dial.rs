//! `net.connect` and `net.resolve`: natives that wait for answers to names and for attempts to connect.
//!
//! A name can mean several addresses, of two kinds. They are tried in turn ([`resolve::in_turn`]); if an
//! attempt has led nowhere after [`STAGGER`], the next one begins beside it, and the first that succeeds wins
//! (RFC 8305). All attempts of one call are one wait: its waiter is left with each. The state is put aside
//! with the wait, so a cancellation drops it, and that closes what had been begun. With `tls=` the handshake
//! follows, within the same time; who gets the connection gets it with a session.

use crate::address::{self, Target};
use crate::connection::{self, CONNECTION, Stop};
use crate::failure::Failure;
use crate::options;
use crate::poller::{self, Registration};
use crate::resolve::{self, Place};
use crate::slot::Left;
use crate::stream::{Origin, Stream};
use crate::tls::{self, Setup};
use crate::waiting::{self, Progress};
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_domain::surplus::{self, Limit};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Native, Thrown, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an attempt is alone.
const STAGGER: Duration = Duration::from_millis(250);
/// When a socket of the file system whose queue is full is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// What a wait of these natives is for.
struct Called(String);

impl Awaited for Called {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Address
    }
    fn name(&self) -> String {
        format!("'{}'", self.0)
    }
}

// -- Names --------------------------------------------------------------------------------------------------

/// A name that is being looked up.
struct LookUp {
    place: Place,
    deadline: Option<Instant>,
}

/// The addresses of a name, by and by: the beginning of each turn of a native that wants them. `None`: this
/// is a turn for something else.
///
/// # Errors
/// The park.
pub fn addresses(
    vm: &mut Vm,
    name: &str,
    deadline: Option<Instant>,
) -> LuaResult<Result<Vec<IpAddr>, Failure>> {
    match outside::woken(vm)? {
        Turn::First => {}
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(reason, _) => {
            let look_up = outside::take_data::<LookUp>(vm);
            outside::finish(vm);
            let answer = look_up.and_then(|l| l.place.lock().take());
            return Ok(match (answer, reason) {
                (Some(answer), _) => answer,
                (None, Reason::Timeout) => Err(Failure::Timeout),
                (None, _) => Err(Failure::Closed),
            });
        }
    }
    if let Ok(ip) = name.parse() {
        return Ok(Ok(vec![ip]));
    }
    let waiter = outside::begin(vm, Verb::Resolves, Arc::new(Called(name.to_owned())))?;
    let place = Place::default();
    if let Err(failure) = resolve::ask(name.to_owned(), Arc::clone(&place), waiter) {
        outside::finish(vm);
        return Ok(Err(failure));
    }
    outside::set_data(vm, LookUp { place: Arc::clone(&place), deadline });
    if deadline.is_some() {
        outside::limit_at(vm, deadline)?;
    }
    if outside::sleeps(vm) {
        return Err(vm.park());
    }
    outside::finish(vm);
    let answer = place.lock().take();
    Ok(answer.unwrap_or(Err(Failure::Timeout)))
}

/// Whether this turn is one of [`addresses`].
pub fn looks_up(vm: &mut Vm) -> bool {
    match outside::take_data::<LookUp>(vm) {
        Some(look_up) => {
            outside::set_data(vm, *look_up);
            true
        }
        None => false,
    }
}

/// `net.resolve(name [, {timeout=}])`: a list of addresses.
pub static RESOLVE: Native = Native::leaf("resolve", |vm| {
    let name = vm.check_str(1)?.to_text();
    surplus::none_behind(vm, 2, Limit::Own)?;
    let deadline = timeout_of(vm, 2)?;
    match addresses(vm, &name, deadline)? {
        Err(failure) => failure.ret(vm),
        Ok(found) => {
            let list = vm.new_table(found.len(), 0)?;
            vm.push(list.into());
            for (n, ip) in found.iter().enumerate() {
                let text = vm.value_str(ip.to_string().as_bytes())?;
                vm.raw_set_int(list, n as i64 + 1, text)?;
            }
            Ok(1)
        }
    }
});

/// The option `timeout` of the table that may be argument `n`, as a point in time.
fn timeout_of(vm: &mut Vm, n: u32) -> LuaResult<Option<Instant>> {
    if vm.arg_is_none_or_nil(n) {
        return Ok(None);
    }
    let table = vm.check_table(n)?;
    options::check(vm, table, &["timeout"])?;
    options::deadline(vm, table)
}

// -- Connecting ---------------------------------------------------------------------------------------------

/// An attempt that is under way.
struct Attempt {
    // Before the descriptor: nobody is told of it any more when that is closed.
    registration: Registration,
    fd: OwnedFd,
    to: String,
    left: Option<Left>,
}

impl Attempt {
    /// What has become of it; `None`: nothing yet.
    fn outcome(&self) -> Option<Result<(), Errno>> {
        if let Ok(Err(error)) | Err(error) = sockopt::socket_error(&self.fd) {
            return Some(Err(error));
        }
        match rustix::net::getpeername(&self.fd) {
            Ok(_) => Some(Ok(())),
            Err(Errno::NOTCONN) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// A call of `connect` under way.
struct Dial {
    left: VecDeque<Goal>,
    attempts: Vec<Attempt>,
    /// When the next one begins in any case.
    next_at: Instant,
    deadline: Option<Instant>,
    last: Failure,
    nodelay: bool,
    target: String,
    /// What the program has called it.
    host: Option<String>,
    tls: Option<Setup>,
}

/// Where to, without names.
enum Goal {
    Ip(SocketAddr),
    Unix(Vec<u8>),
}

impl Goal {
    /// Begins an attempt. `Ok(None)`: to be asked again.
    fn begin(&self) -> Result<Option<(Attempt, bool)>, Failure> {
        let what = |to: &str| {
            let text = format!("cannot connect to {to}");
            move || text
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (family, to) = match self {
            Goal::Ip(a) => {
                (if a.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }, a.to_string())
            }
            Goal::Unix(path) => (AddressFamily::UNIX, Target::Unix(path.clone()).to_string()),
        };
        let attempt = || -> Result<Option<(OwnedFd, bool)>, Errno> {
            let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
            let connected = match self {
                Goal::Ip(a) => {
                    address::unpace(&fd, a);
                    rustix::net::connect(&fd, a)
                }
                Goal::Unix(path) => rustix::net::connect(&fd, &address::unix(path)?),
            };
            match connected {
                Ok(()) => Ok(Some((fd, true))),
                Err(Errno::INPROGRESS | Errno::INTR) => Ok(Some((fd, false))),
                Err(Errno::AGAIN) if family == AddressFamily::UNIX => Ok(None),
                Err(error) => Err(error),
            }
        };
        match attempt() {
            Ok(None) => Ok(None),
            Ok(Some((fd, connected))) => {
                // That it has connected is told as room.
                let known = if connected { poller::register_for_input(&fd) } else { poller::register(&fd) };
                let registration = known.map_err(|e| Failure::from(e).of(what(&to)))?;
                Ok(Some((Attempt { registration, fd, to, left: None }, connected)))
            }
            Err(Errno::ADDRNOTAVAIL) => {
                let text = format!(
                    "cannot connect to {to}: no port of this machine is free for it, or the machine has no \
                     address of that kind; connections that are kept and used again need fewer ports"
                );
                Err(Failure::Of(text, Errno::ADDRNOTAVAIL))
            }
            Err(error) => Err(Failure::from(error).of(what(&to))),
        }
    }
}

impl Dial {
    /// Goes on as far as that is possible without waiting: a connection, a failure, or nothing yet.
    fn go_on(&mut self) -> Option<Result<Attempt, Failure>> {
        let now = Instant::now();
        let mut at = 0;
        while at < self.attempts.len() {
            match self.attempts[at].outcome() {
                None => at += 1,
                Some(Ok(())) => return Some(Ok(self.attempts.swap_remove(at))),
                Some(Err(error)) => {
                    let attempt = self.attempts.swap_remove(at);
                    self.last = Failure::from(error).of(|| format!("cannot connect to {}", attempt.to));
                    self.next_at = now;
                }
            }
        }
        while self.attempts.is_empty() || self.next_at <= now {
            let Some(goal) = self.left.pop_front() else { break };
            match goal.begin() {
                Ok(Some((attempt, true))) => return Some(Ok(attempt)),
                Ok(Some((attempt, false))) => {
                    self.attempts.push(attempt);
                    self.next_at = now + STAGGER;
                }
                Ok(None) => {
                    self.left.push_front(goal);
                    self.next_at = now + ASK_AGAIN;
                    return None;
                }
                Err(failure) => self.last = failure,
            }
        }
        (self.attempts.is_empty() && self.left.is_empty())
            .then(|| Err(std::mem::replace(&mut self.last, Failure::Closed)))
    }

    /// Takes the waiters of the last turn back.
    fn take_back(&mut self) {
        for attempt in &mut self.attempts {
            if let Some(left) = attempt.left.take() {
                attempt.registration.source.write.take_back(left);
            }
        }
    }

    /// Leaves the waiter with all attempts. False: something has happened.
    fn leave(&mut self, waiter: &Arc<Waiter>) -> bool {
        self.attempts.iter_mut().all(|attempt| {
            attempt.left = attempt.registration.source.write.leave(Arc::clone(waiter)).ok();
            attempt.left.is_some()
        })
    }
}

/// What the program wants to connect to, and how.
struct Wish {
    target: Target,
    span: Option<Duration>,
    nodelay: bool,
    tls: Value,
}

impl Wish {
    /// Whom a certificate has to be for.
    fn host(&self) -> Option<String> {
        match &self.target {
            Target::Ip(address) => Some(address.ip().to_string()),
            Target::Name(name, _) => Some(name.clone()),
            Target::Any(_) => Some("localhost".into()),
            Target::Unix(_) => None,
        }
    }
}

fn wish(vm: &mut Vm) -> LuaResult<Wish> {
    let Some(table) = vm.arg(1).as_table() else {
        let target = address::check(vm, 1)?;
        surplus::none_behind(vm, 2, Limit::Address)?;
        return Ok(Wish { target, span: None, nodelay: true, tls: Value::NIL });
    };
    surplus::none_behind(vm, 1, Limit::Address)?;
    options::check(vm, table, &["host", "port", "path", "timeout", "nodelay", "tls"])?;
    let host = options::text(vm, table, "host")?;
    let port = options::int(vm, table, "port", 0, 65535)?;
    let path = options::text(vm, table, "path")?;
    let target = match (host, port, path) {
        (Some(host), Some(port), None) => {
            address::of_host(&String::from_utf8_lossy(&host), port as u16).map_err(|e| vm.arg_error(1, &e))?
        }
        (None, None, Some(path)) if !path.is_empty() => Target::Unix(path),
        _ => return Err(vm.arg_error(1, "expected {host=, port=} or {path=}")),
    };
    let span = options::span(vm, table, "timeout")?.flatten();
    let nodelay = options::flag(vm, table, "nodelay")?.unwrap_or(true);
    let tls = vm.get_field(table, "tls")?;
    Ok(Wish { target, span, nodelay, tls })
}

/// `net.connect(address)`, `net.connect(host, port)`, `net.connect{host=, port=, timeout=, nodelay=, tls=}`,
/// `net.connect{path=}`.
pub static CONNECT: Native = Native::leaf("connect", |vm| {
    let waits = match outside::woken(vm)? {
        Turn::Asleep => return Err(vm.park()),
        Turn::First => None,
        Turn::Woken(reason, _) if !looks_up(vm) => {
            if let Some((stream, progress)) = waiting::resume::<Stream>(vm, reason) {
                outside::finish(vm);
                return shake_hands(vm, &stream, &progress);
            }
            let dial = outside::take_data::<Dial>(vm);
            outside::finish(vm);
            dial.map(|mut dial| {
                dial.take_back();
                (*dial, reason)
            })
        }
        Turn::Woken(..) => None,
    };
    match waits {
        Some((dial, _)) => wait_for(vm, dial),
        None => begin(vm),
    }
});

fn begin(vm: &mut Vm) -> LuaResult<u32> {
    let wish = wish(vm)?;
    let host = wish.host();
    let tls = match wish.tls.is_falsy() {
        true => None,
        false => match tls::client_setup(vm, wish.tls, host.as_deref(), &[])? {
            Ok(setup) => Some(setup),
            Err(failure) => return failure.ret(vm),
        },
    };
    let target = wish.target.to_string();
    let mut deadline = wish.span.and_then(|s| Instant::now().checked_add(s));
    let left: VecDeque<Goal> = match wish.target.for_connecting() {
        Target::Ip(a) => [Goal::Ip(a)].into(),
        Target::Unix(path) => [Goal::Unix(path)].into(),
        Target::Name(name, port) => {
            // The time began with the first turn.
            if let Some(look_up) = outside::take_data::<LookUp>(vm) {
                deadline = look_up.deadline;
                outside::set_data(vm, *look_up);
            }
            match addresses(vm, &name, deadline)? {
                Err(failure) => return failure.ret(vm),
                Ok(found) => resolve::in_turn(found)
                    .into_iter()
                    .map(|ip| Goal::Ip(SocketAddr::new(ip, port)))
                    .collect(),
            }
        }
        Target::Any(_) => unreachable!("for_connecting names an address"),
    };
    let dial = Dial {
        left,
        attempts: Vec::new(),
        next_at: Instant::now(),
        deadline,
        last: Failure::Name("the name has no address".into()),
        nodelay: wish.nodelay,
        target,
        host,
        tls,
    };
    wait_for(vm, dial)
}

fn wait_for(vm: &mut Vm, mut dial: Dial) -> LuaResult<u32> {
    loop {
        for attempt in &dial.attempts {
            attempt.registration.source.write.clear();
        }
        match dial.go_on() {
            Some(Ok(attempt)) => {
                let stream = Stream::with(
                    attempt.fd,
                    attempt.registration,
                    &CONNECTION,
                    dial.nodelay,
                    Origin::Dialled,
                );
                if let Some(host) = &dial.host {
                    stream.set_host(host);
                }
                if let Some(setup) = &dial.tls
                    && let Err(failure) = stream.start_tls(setup)
                {
                    return failure.ret(vm);
                }
                let progress = Progress { is_first: false, deadline: dial.deadline, is_over: false, done: 0 };
                return shake_hands(vm, &stream, &progress);
            }
            Some(Err(failure)) => return failure.ret(vm),
            None => {}
        }
        let now = Instant::now();
        if dial.deadline.is_some_and(|d| d <= now) {
            return Failure::Timeout.ret(vm);
        }
        let waiter = outside::begin(vm, Verb::Connects, Arc::new(Called(dial.target.clone())))?;
        if !dial.leave(&waiter) {
            dial.take_back();
            outside::finish(vm);
            continue;
        }
        let next = (!dial.left.is_empty()).then_some(dial.next_at);
        let until = [next, dial.deadline].into_iter().flatten().min();
        outside::set_data(vm, dial);
        if until.is_some() {
            outside::limit_at(vm, until)?;
        }
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        let Some(back) = outside::take_data::<Dial>(vm) else { return Err(lost(vm)) };
        outside::finish(vm);
        dial = *back;
        dial.take_back();
    }
}

/// Connected: the connection is handed out when its handshake, if it has one, is over.
fn shake_hands(vm: &mut Vm, stream: &Arc<Stream>, progress: &Progress) -> LuaResult<u32> {
    let established = connection::established(vm, stream, progress);
    match established.and_then(|()| Ok(stream.check()?)) {
        Ok(()) => {
            let stream = vm.shared_ref(Arc::clone(stream));
            vm.ret(stream)
        }
        Err(Stop::Thrown(thrown)) => Err(thrown),
        Err(Stop::Failure(failure)) => {
            stream.abort();
            failure.ret(vm)
        }
    }
}

#[cold]
fn lost(vm: &mut Vm) -> Thrown {
    vm.error("internal error: what was put aside for a wait is gone")
}

/// What of this file `require "perilune.net"` returns.
pub fn register(vm: &mut Vm, net: perilune_vm::Gc<perilune_vm::Table>) -> LuaResult<()> {
    for native in [&CONNECT, &RESOLVE] {
        vm.set_field(net, native.name, Value::native(native))?;
    }
    Ok(())
}
