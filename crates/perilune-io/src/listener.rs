//! Listeners: `net.listen`, `l:accept()`, `for c in l do`.
//!
//! With `tls=` each connection has a session when it is handed out, whose handshake has not begun: the first
//! operation on the connection waits for it (`tls/`).
//!
//! Any number of fibers, in any domains, may accept from one listener. An edge wakes one of them; who has
//! accepted a connection wakes the next one, since there may be more, and who is woken but cancelled before
//! it could try passes the wake on.
//!
//! # No descriptors left
//! A server that has used up its descriptors must not end for that. `accept` tries again after a while
//! ([`BACK_OFF`], doubled up to [`MOST_BACK_OFF`]); `l:info().starved` counts such occasions. Clients wait in
//! the system's queue meanwhile, which is right for a moment and wrong for long: they cannot tell a server
//! that is full from one that is slow. So the process keeps a *spare* descriptor. When the longest time has
//! passed without success, its number is lent to those who wait, one after the other, to be closed at once
//! (`l:info().refused`).
//!
//! Rejected: refusing at once (most shortages last for milliseconds, as connections that end give theirs
//! back); a spare for each listener (they compete for one number anyway).

use crate::address::{self, Target};
use crate::cases::Ready;
use crate::connection::CONNECTION;
use crate::dial;
use crate::failure::Failure;
use crate::keep::{self, Kept};
use crate::options;
use crate::poller::{self, Registration, Source};
use crate::serve;
use crate::slot::{Left, Wakes};
use crate::stream::Stream;
use crate::tls::{self, Setup};
use crate::waiting::{Side, Waited};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Turn, Waiter};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kind of listeners.
pub static LISTENER: SharedKind = SharedKind::new("listener", open);

/// Connections that wait to be accepted, if nobody says otherwise.
const BACKLOG: i64 = 1024;
/// When it is tried again if there are no descriptors.
const BACK_OFF: Duration = Duration::from_millis(10);
/// The longest such time.
const MOST_BACK_OFF: Duration = Duration::from_secs(1);

/// So many who have connected are accepted for the servers of a listener that is closed.
const MOST_KEPT: usize = 4096;

/// So many who wait are refused at a time.
const MOST_REFUSED: usize = 256;

/// A socket that listens.
pub struct Listener {
    registration: Registration,
    fd: Mutex<Option<Arc<OwnedFd>>>,
    endpoint: String,
    /// The socket's file, which goes with it.
    file: Option<PathBuf>,
    /// Connections that are accepted begin TLS sessions from this.
    tls: Option<Setup>,
    closed: AtomicBool,
    /// When a `select` that has found no descriptor tries again.
    again: Mutex<Option<Instant>>,
    /// Its servers (`keep.rs`).
    pub kept: Kept,
    accepted: AtomicU64,
    starved: AtomicU64,
    refused: AtomicU64,
}

impl Listener {
    /// Its address is free when this returns. Its servers are told, with the seconds that there are for what
    /// is going on, if somebody says so. Under no lock.
    fn close(&self, grace: Option<f64>) -> bool {
        // More of them than the queue has room for come without end.
        let mut left = if self.kept.is_kept() { MOST_KEPT } else { 0 };
        while left > 0
            && let Attempt::Accepted(stream) = self.attempt()
        {
            self.kept.put(stream);
            left -= 1;
        }
        self.registration.end_now();
        let first = self.shut();
        self.kept.tell(grace);
        first
    }

    /// Accepts who is there.
    fn attempt(&self) -> Attempt {
        let slot = &self.registration.source.read;
        loop {
            let fd = self.fd.lock().clone();
            let Some(fd) = fd else {
                return self.kept.take().map_or(Attempt::Failed(Failure::Closed), Attempt::Accepted);
            };
            slot.clear();
            match rustix::net::accept_with(&fd, FLAGS) {
                Ok(connection) => {
                    // There may be more.
                    slot.raise(false, Wakes::One);
                    return match Stream::accepted(connection, &CONNECTION, true) {
                        Ok(stream) => {
                            if let Some(setup) = &self.tls
                                && let Err(failure) = stream.start_tls(setup)
                            {
                                return Attempt::Failed(failure);
                            }
                            self.accepted.fetch_add(1, Ordering::Relaxed);
                            Attempt::Accepted(stream)
                        }
                        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC) => Attempt::Starved,
                        Err(error) => Attempt::Failed(error.into()),
                    };
                }
                Err(Errno::AGAIN) => return Attempt::Nothing,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => return Attempt::Starved,
                Err(error) if is_of_connection(error) => {}
                Err(error) => return Attempt::Failed(error.into()),
            }
        }
    }

    /// Whether somebody has closed it.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn shut(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.registration.end();
        let fd = self.fd.lock().take();
        drop(fd);
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
        self.registration.source.read.wake(Wakes::All);
        true
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Awaited for Listener {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Listener
    }
    fn name(&self) -> String {
        self.endpoint.clone()
    }
}

impl SharedObject for Listener {
    fn kind(&self) -> &'static SharedKind {
        &LISTENER
    }
    fn label(&self) -> Option<String> {
        let closed = if self.closed.load(Ordering::Acquire) { " (closed)" } else { "" };
        Some(format!("{}{closed}", self.endpoint))
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&ACCEPT, &CLOSE, &ADDRESS, &ENDPOINT, &INFO, &serve::SERVE],
        &[("__call", &NEXT), ("__close", &AT_SCOPE_END)],
    )
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Listener>> {
    surplus::this(vm, &LISTENER, last, limit)
}

// -- Listening ----------------------------------------------------------------------------------------------

/// `net.listen(address [, {backlog=, tls=}])`, `net.listen(host, port [, {..}])`
pub static LISTEN: Native = Native::leaf("listen", |vm| {
    let text = vm.check_str(1)?.bytes().to_vec();
    // As `address()` gives them.
    let has_port = vm.arg(2).as_number().is_some();
    let options_at = if has_port { 3 } else { 2 };
    surplus::none_behind(vm, options_at, Limit::Own)?;
    let mut backlog = BACKLOG;
    let mut setup = None;
    if !vm.arg_is_none_or_nil(options_at) {
        let table = vm.check_table(options_at)?;
        options::check(vm, table, &["backlog", "tls"])?;
        backlog = options::int(vm, table, "backlog", 1, 1 << 20)?.unwrap_or(BACKLOG);
        let tls = vm.get_field(table, "tls")?;
        if !tls.is_falsy() {
            match tls::server_setup(vm, tls, &[])? {
                Ok(found) => setup = Some(found),
                Err(failure) => return failure.ret(vm),
            }
        }
    }
    let target = match has_port {
        true => address::check(vm, 1)?,
        false => address::parse(&text).map_err(|e| vm.arg_error(1, &e))?,
    };
    let addresses: Vec<SocketAddr> = match &target {
        Target::Ip(a) => vec![*a],
        Target::Any(port) => address::any(*port).to_vec(),
        Target::Unix(_) => Vec::new(),
        // A server for this machine alone is found under both kinds by clients that try both.
        Target::Name(name, port) if name == "localhost" => {
            vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port)]
        }
        Target::Name(name, port) => match dial::addresses(vm, name, None)? {
            Ok(found) => found.into_iter().map(|ip| SocketAddr::new(ip, *port)).collect(),
            Err(failure) => return failure.ret(vm),
        },
    };
    let listener = match &target {
        Target::Unix(path) => listen_unix(path, backlog as i32),
        _ => listen_ip(&addresses, backlog as i32),
    };
    match listener {
        Ok(mut listener) => {
            listener.tls = setup;
            let listener = vm.shared_ref(Arc::new(listener));
            vm.ret(listener)
        }
        Err(error) => Failure::from(error).of(|| format!("cannot listen at {target}")).ret(vm),
    }
});

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Listens at the first address that it can.
fn listen_ip(addresses: &[SocketAddr], backlog: i32) -> Result<Listener, Errno> {
    let mut last = Errno::ADDRNOTAVAIL;
    for address in addresses {
        let attempt = || {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            if address.is_ipv6() && address.ip().is_unspecified() {
                sockopt::set_ipv6_v6only(&fd, false)?;
            }
            address::unpace(&fd, address);
            rustix::net::bind(&fd, address)?;
            listener(fd, backlog, None)
        };
        match attempt() {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_unix(path: &[u8], backlog: i32) -> Result<Listener, Errno> {
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::bind(&fd, &address::unix(path)?)?;
    let file = (!path.starts_with(b"@")).then(|| {
        let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path);
        // The working directory may be another one when it is removed.
        std::path::absolute(path).unwrap_or_else(|_| path.into())
    });
    listener(fd, backlog, file)
}

/// A socket that listens already, and was somebody else's (`service.rs`).
///
/// # Errors
/// It is none, or the poller cannot watch it.
pub fn inherited(fd: OwnedFd) -> Result<Arc<Listener>, Errno> {
    if !sockopt::socket_acceptconn(&fd)? || sockopt::socket_type(&fd)? != SocketType::STREAM {
        return Err(Errno::INVAL);
    }
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    of_socket(fd, None).map(Arc::new)
}

fn listener(fd: OwnedFd, backlog: i32, file: Option<PathBuf>) -> Result<Listener, Errno> {
    rustix::net::listen(&fd, backlog)?;
    of_socket(fd, file)
}

fn of_socket(fd: OwnedFd, file: Option<PathBuf>) -> Result<Listener, Errno> {
    keep_spare(&mut SPARE.lock());
    let registration = poller::register(&fd)?;
    Ok(Listener {
        registration,
        endpoint: address::text(rustix::net::getsockname(&fd).ok()),
        fd: Mutex::new(Some(Arc::new(fd))),
        file,
        tls: None,
        closed: AtomicBool::new(false),
        again: Mutex::new(None),
        kept: Kept::default(),
        accepted: AtomicU64::new(0),
        starved: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    })
}

// -- The spare descriptor -----------------------------------------------------------------------------------

/// A descriptor that is there to be given up. See the module's essay.
static SPARE: Mutex<Option<OwnedFd>> = Mutex::new(None);

fn keep_spare(spare: &mut Option<OwnedFd>) {
    if spare.is_none() {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        *spare = rustix::fs::open("/", flags, Mode::empty()).ok();
    }
}

/// Accepts who waits, only to close the connection: with the spare's number, as there is no other.
fn refuse_those_who_wait(listener: &Listener) {
    let Some(fd) = listener.fd.lock().clone() else { return };
    let mut spare = SPARE.lock();
    keep_spare(&mut spare);
    // Without a number of our own, or with one that somebody else has got meanwhile, nothing is accepted
    // here: that is all right.
    drop(spare.take());
    for _ in 0..MOST_REFUSED {
        match rustix::net::accept_with(&fd, FLAGS) {
            Ok(connection) => drop(connection),
            Err(error) if is_of_connection(error) => continue,
            Err(_) => break,
        }
        listener.refused.fetch_add(1, Ordering::Relaxed);
    }
    keep_spare(&mut spare);
}

// -- Accepting ----------------------------------------------------------------------------------------------

/// What is put aside by one who waits for a connection.
struct Aside {
    listener: Arc<Listener>,
    left: Option<Left>,
    /// It has had its turn, or passes the wake on.
    tried: bool,
    back_off: Duration,
    /// When whoever accepts has waited for long enough.
    deadline: Option<Instant>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let slot = &self.listener.registration.source.read;
        if let Some(left) = self.left {
            slot.take_back(left);
        }
        if !self.tried && slot.may_be_ready() {
            slot.wake(Wakes::One);
        }
    }
}

/// What an attempt came to.
enum Attempt {
    Accepted(Arc<Stream>),
    Nothing,
    Starved,
    Failed(Failure),
}

/// What is wrong with the connection that would have been accepted, and not with the listener.
fn is_of_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
    )
}

impl Waited for Listener {
    const NAME: &'static str = "listener";
    fn source(&self) -> &Source {
        &self.registration.source
    }
    fn deadline(&self, _: Side) -> Option<Instant> {
        None
    }
}

impl Ready for Listener {
    fn take_case(self: &Arc<Self>, vm: &mut Vm, _: Side) -> LuaResult<Option<u32>> {
        *self.again.lock() = None;
        match self.attempt() {
            Attempt::Accepted(stream) => {
                let stream = vm.shared_ref(stream);
                vm.ret(stream).map(Some)
            }
            Attempt::Failed(failure) => failure.ret(vm).map(Some),
            Attempt::Nothing => Ok(None),
            Attempt::Starved => {
                self.starved.fetch_add(1, Ordering::Relaxed);
                *self.again.lock() = Instant::now().checked_add(BACK_OFF);
                Ok(None)
            }
        }
    }

    fn leave_case(&self, _: Side, waiter: Arc<Waiter>) -> Option<Left> {
        let slot = &self.registration.source.read;
        let left = slot.leave(waiter).ok()?;
        // It was closed before the waiter was there to be woken.
        if self.is_closed() {
            slot.take_back(left);
            return None;
        }
        Some(left)
    }

    fn again(&self) -> Option<Instant> {
        *self.again.lock()
    }
}

/// Waits for a connection, for as long as the argument of number `span` says, if there is one.
fn accept(vm: &mut Vm, span: Option<u32>) -> LuaResult<Result<Arc<Stream>, Failure>> {
    let listener = this(vm, span.unwrap_or(ANY), Limit::Own)?;
    let mut back_off = BACK_OFF;
    let mut deadline = None;
    // Where it has waited: until when.
    let mut waited = None;
    match outside::woken(vm)? {
        Turn::First => outside::give_way(vm)?,
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {
            if let Some(mut aside) = outside::take_data::<Aside>(vm) {
                aside.tried = true;
                back_off = aside.back_off;
                waited = Some(aside.deadline);
            }
            outside::finish(vm);
        }
    }
    if let Some(until) = waited {
        deadline = until;
    } else if let Some(n) = span {
        deadline = outside::opt_deadline(vm, n)?;
    }
    loop {
        let starved = match listener.attempt() {
            Attempt::Accepted(stream) => return Ok(Ok(stream)),
            Attempt::Failed(failure) => return Ok(Err(failure)),
            Attempt::Nothing => false,
            Attempt::Starved => true,
        };
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(Err(Failure::Timeout));
        }
        let waiter = outside::begin(vm, Verb::Accepts, Arc::clone(&listener) as _)?;
        let mut aside =
            Aside { listener: Arc::clone(&listener), left: None, tried: false, back_off, deadline };
        if starved {
            listener.starved.fetch_add(1, Ordering::Relaxed);
            if back_off == MOST_BACK_OFF {
                refuse_those_who_wait(&listener);
            }
            aside.back_off = (back_off * 2).min(MOST_BACK_OFF);
            back_off = aside.back_off;
            // Nobody waits for an edge: what is there has come already.
            aside.tried = true;
            outside::set_data(vm, aside);
            let again = Instant::now().checked_add(back_off);
            outside::limit_at(vm, [again, deadline].into_iter().flatten().min())?;
        } else {
            match listener.registration.source.read.leave(waiter) {
                Ok(left) => aside.left = Some(left),
                Err(_) => {
                    aside.tried = true;
                    drop(aside);
                    outside::finish(vm);
                    continue;
                }
            }
            aside.back_off = BACK_OFF;
            outside::set_data(vm, aside);
            if deadline.is_some() {
                outside::limit_at(vm, deadline)?;
            }
            // It was closed before the waiter was there to be woken.
            if listener.closed.load(Ordering::Acquire) {
                outside::finish(vm);
                continue;
            }
        }
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        if let Some(mut aside) = outside::take_data::<Aside>(vm) {
            aside.tried = true;
        }
        outside::finish(vm);
    }
}

/// `l:accept([limit])`: a connection; waits for one.
static ACCEPT: Native = Native::leaf("accept", |vm| match accept(vm, Some(2))? {
    Ok(stream) => {
        let stream = vm.shared_ref(stream);
        vm.ret(stream)
    }
    Err(failure) => failure.ret(vm),
});

/// `for c in l do`: ends when the listener is closed; anything else is an error.
static NEXT: Native = Native::leaf("accept", |vm| match accept(vm, None)? {
    Ok(stream) => {
        let stream = vm.shared_ref(stream);
        vm.ret(stream)
    }
    Err(Failure::Closed) => vm.ret(Value::NIL),
    Err(failure) => Err(vm.error(failure.message())),
});

/// `l:close()`: true if it was open. Who waits gets `nil, "closed"`. `l:close(grace)`: waits for `l:serve`,
/// which has so many seconds; true if nothing had to be cancelled.
static CLOSE: Native = Native::leaf("close", |vm| {
    let listener = this(vm, 2, Limit::Own)?;
    if vm.arg_is_none_or_nil(2) {
        let first = listener.close(None);
        return vm.ret(first);
    }
    let grace = vm.check_num(2)?;
    if grace.is_nan() {
        return Err(vm.arg_error(2, "number of seconds expected, got nan"));
    }
    if grace < 0.0 {
        return Err(vm.arg_error(2, "a number of seconds must not be negative"));
    }
    if !keep::has_waited_for_keepers(vm)? {
        listener.close(Some(grace));
    }
    let by_themselves = keep::wait_for_keepers(vm, &listener)?;
    vm.ret(by_themselves)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY, Limit::Own)?.close(None);
    Ok(0)
});

/// `l:address()`: host and port.
static ADDRESS: Native = Native::leaf("address", |vm| {
    let listener = this(vm, 1, Limit::Own)?;
    address::ret_halves(vm, &listener.endpoint)
});

/// `l:endpoint()`: the same as one text.
static ENDPOINT: Native = Native::leaf("endpoint", |vm| {
    let listener = this(vm, 1, Limit::Own)?;
    vm.ret_str(listener.endpoint.as_bytes())
});

/// `l:info()`
static INFO: Native = Native::leaf("info", |vm| {
    let listener = this(vm, 1, Limit::Own)?;
    let info = vm.new_table(0, 5)?;
    vm.push(info.into());
    let counts =
        [("accepted", &listener.accepted), ("starved", &listener.starved), ("refused", &listener.refused)];
    for (name, n) in counts {
        vm.set_field(info, name, Value::int(n.load(Ordering::Relaxed) as i64))?;
    }
    let endpoint = vm.value_str(listener.endpoint.as_bytes())?;
    vm.set_field(info, "endpoint", endpoint)?;
    vm.set_field(info, "closed", listener.closed.load(Ordering::Acquire).into())?;
    Ok(1)
});
