//! `require "socket.core"`, `"socket.unix"` and `"mime.core"`: what LuaSocket's own Lua files build on, so
//! that programs written for it run.
//!
//! LuaSocket's objects change their class in the course of their lives (master, client, server), have
//! timeouts of two kinds, and return what has come when they fail. All of that is here, on the poller of this
//! room: a call that waits parks its fiber, and `select` knows no largest descriptor.
//!
//! # Parts
//! * This file: sockets, from their making to their end.
//! * `transfer.rs`: receiving and sending; `select.rs`: the wait for many.
//! * `names.rs`: addresses, options, errors in LuaSocket's words.
//! * `ssl.lua`, `https.lua`: what programs use of LuaSec, `require "ssl"` and `"ssl.https"`, on the TLS of
//!   this room's connections.
//! * `socket.lua`: the modules; what needs no loop of attempts is written there (connecting to one address
//!   after the other, `select`'s lists, `protect`).
//! * `mime.rs`: filters, which know nothing of sockets.
//!
//! # A socket
//! A userdata ([`Sock`]) of one domain. Its descriptor ([`Handle`]) is counted by those who wait for it, so
//! it stays open until they have been woken. What was received and not returned is in the userdata; a call
//! that fails returns it as its third result, as LuaSocket does.
//!
//! # Timeouts
//! `block` limits each wait: it begins again whenever bytes have gone or come. `total` limits the call. A
//! limit of zero never waits.

mod mime;
mod names;
mod select;
mod transfer;

use crate::buffer::Buffer;
use crate::connection::CONNECTION;
use crate::poller::{self, Registration, Source as Polled};
use crate::seen::{Before, Talk};
use crate::slot::Wakes;
use crate::stream::{Origin, Stream};
use crate::waiting::{Progress, Side, Waited, turn, wait};
use names::{Family, words};
use parking_lot::Mutex;
use perilune_domain::outside::{self, Awaited, Source, Turn};
use perilune_trace::ObjectKind;
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A descriptor.
struct Handle {
    // Before the descriptor: nobody is told of it any more when that is closed.
    registration: Registration,
    fd: OwnedFd,
    reads: Mutex<()>,
    writes: Mutex<()>,
    /// For traces.
    talk: Talk,
    /// The program has connected it to somebody.
    dialled: AtomicBool,
    /// A part of what is being received is there.
    has_some: AtomicBool,
}

/// All that are open, for `select`.
static OPEN: Mutex<Option<HashMap<i32, Weak<Handle>>>> = Mutex::new(None);

impl Handle {
    fn new(fd: OwnedFd) -> Result<Arc<Handle>, Errno> {
        let registration = poller::register(&fd)?;
        let number = fd.as_raw_fd();
        let handle = Arc::new(Handle {
            registration,
            fd,
            reads: Mutex::new(()),
            writes: Mutex::new(()),
            talk: Talk::default(),
            dialled: AtomicBool::new(false),
            has_some: AtomicBool::new(false),
        });
        // As the system has it until the option tcp-nodelay.
        handle.talk.set_nagle(true);
        OPEN.lock().get_or_insert_default().insert(number, Arc::downgrade(&handle));
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The number is this one's until the descriptor is dropped, which comes later.
        if let Some(open) = &mut *OPEN.lock() {
            open.remove(&self.fd.as_raw_fd());
        }
    }
}

impl Waited for Handle {
    fn source(&self) -> &Polled {
        &self.registration.source
    }
    fn deadline(&self, _: Side) -> Option<Instant> {
        None
    }
    fn look(&self, side: Side) -> Option<Before> {
        match side {
            Side::Read => {
                let has_some = self.has_some.load(Ordering::Relaxed);
                Some(self.talk.reads(&self.fd, has_some, self.dialled.load(Ordering::Relaxed)))
            }
            // Who connects waits for room too.
            Side::Write if rustix::net::getpeername(&self.fd).is_err() => None,
            Side::Write => Some(self.talk.writes()),
        }
    }
    fn tell(&self, before: &Before) {
        before.tell(&self.fd, self);
    }
    const NAME: &'static str = "socket";
}

impl Awaited for Handle {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Socket
    }
    fn name(&self) -> String {
        format!("{} (descriptor)", self.fd.as_raw_fd())
    }
}

/// A socket as programs have it.
struct Sock {
    handle: Option<Arc<Handle>>,
    family: Family,
    kind: SocketType,
    /// LuaSocket's class: `tcp{master}` ...
    class: String,
    /// Seconds; negative: none.
    block: f64,
    total: f64,
    /// When the call that reads, or the one that writes, began.
    began: [Instant; 2],
    input: Buffer,
    ended: bool,
    received: f64,
    sent: f64,
    birthday: f64,
}

impl Sock {
    fn new(handle: Option<Arc<Handle>>, family: Family, kind: SocketType, class: &str) -> Sock {
        Sock {
            handle,
            family,
            kind,
            class: class.to_owned(),
            block: -1.0,
            total: -1.0,
            began: [Instant::now(); 2],
            input: Buffer::default(),
            ended: false,
            received: 0.0,
            sent: 0.0,
            birthday: now(),
        }
    }

    /// When the next wait of this call is over.
    fn deadline(&self, side: Side) -> Option<Instant> {
        let add = |from: Instant, span: f64| {
            (span >= 0.0)
                .then(|| Duration::try_from_secs_f64(span).ok().and_then(|s| from.checked_add(s)))
                .flatten()
        };
        let block = add(Instant::now(), self.block);
        let total = add(self.began[side as usize], self.total);
        [block, total].into_iter().flatten().min()
    }

    /// The socket of this family, made if there is none, or one of another family.
    fn open(&mut self, family: Family) -> Result<Arc<Handle>, Errno> {
        if let Some(handle) = &self.handle
            && self.family == family
        {
            return Ok(Arc::clone(handle));
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let address = match family {
            Family::Inet6 => AddressFamily::INET6,
            Family::Unix => AddressFamily::UNIX,
            Family::Inet | Family::Unspec => AddressFamily::INET,
        };
        let fd = rustix::net::socket_with(address, self.kind, flags, None)?;
        if family == Family::Inet6 {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        let handle = Handle::new(fd)?;
        self.family = family;
        self.handle = Some(Arc::clone(&handle));
        Ok(handle)
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn sock(vm: &mut Vm) -> LuaResult<&mut Sock> {
    match vm.arg(1).as_userdata().filter(|u| u.is::<Sock>()) {
        Some(userdata) => match vm.userdata_mut::<Sock>(userdata) {
            Some(sock) => Ok(sock),
            None => unreachable!("its type has been tested"),
        },
        None => Err(vm.type_error(1, "socket")),
    }
}

/// The socket, which must be of this class.
fn of_class<'a>(vm: &'a mut Vm, class: &str) -> LuaResult<&'a mut Sock> {
    if !sock(vm)?.class.ends_with(class) {
        let prefix = sock(vm)?.class.split('{').next().unwrap_or_default().to_owned();
        return Err(vm.arg_error(1, &format!("{prefix}{class} expected")));
    }
    sock(vm)
}

fn fail(vm: &mut Vm, message: &str) -> LuaResult<u32> {
    vm.push(Value::NIL);
    vm.push_str(message.as_bytes())?;
    Ok(2)
}

/// The beginning of each turn of a native that tries and waits: its descriptor, and where it is.
fn begin(vm: &mut Vm, side: Side) -> LuaResult<Option<(Arc<Handle>, Progress)>> {
    let Some(handle) = sock(vm)?.handle.clone() else {
        // Perhaps it was closed while this native waited: that wait is over.
        match outside::woken(vm)? {
            Turn::First => {}
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(..) => outside::finish(vm),
        }
        return Ok(None);
    };
    let mut progress = turn(vm, &handle, side)?;
    if progress.is_first {
        let sock = sock(vm)?;
        sock.began[side as usize] = Instant::now();
        progress.deadline = sock.deadline(side);
        progress.is_over = progress.deadline.is_some_and(|d| d <= Instant::now());
    }
    Ok(Some((handle, progress)))
}

/// Something has gone or come: the time for a wait begins again.
fn renew(vm: &mut Vm, side: Side, progress: &mut Progress) -> LuaResult<()> {
    let sock = sock(vm)?;
    if sock.block != 0.0 {
        progress.deadline = sock.deadline(side);
        progress.is_over = progress.deadline.is_some_and(|d| d <= Instant::now());
    }
    Ok(())
}

/// Whether this is the socket's descriptor still.
fn is_open(vm: &mut Vm, handle: &Arc<Handle>) -> LuaResult<bool> {
    Ok(sock(vm)?.handle.as_ref().is_some_and(|h| Arc::ptr_eq(h, handle)))
}

// -- Beginning and accepting --------------------------------------------------------------------------------

/// `new(kind, family, class)`: a socket; with a family it has a descriptor at once.
static NEW: Native = Native::leaf("new", |vm| {
    let kind = if vm.check_option(1, None, &["stream", "dgram"])? == 0 {
        SocketType::STREAM
    } else {
        SocketType::DGRAM
    };
    let family = Family::check(vm, 2)?;
    let class = vm.check_str(3)?.to_text();
    let mut new = Sock::new(None, family, kind, &class);
    if family != Family::Unspec
        && let Err(error) = new.open(family)
    {
        return fail(vm, &words(error));
    }
    let userdata = vm.new_userdata(new, 0)?;
    vm.ret(userdata)
});

/// `bind(s, ip, port)`, `bind(s, path)`
static BIND: Native = Native::leaf("bind", |vm| {
    let bound = names::with_address(vm, |sock, address| {
        let handle = sock.open(address.family())?;
        address.bind(&handle.fd)
    })?;
    match bound {
        Ok(()) => vm.ret(Value::int(1)),
        Err(error) => fail(vm, &words(error)),
    }
});

/// `connect(s, ip, port)`, `connect(s, path)`: true, or nil and what is wrong, or nil and "wait".
static CONNECT: Native = Native::leaf("connect", |vm| {
    let connected = names::with_address(vm, |sock, address| {
        let handle = sock.open(address.family())?;
        sock.began = [Instant::now(); 2];
        handle.dialled.store(true, Ordering::Relaxed);
        address.connect(&handle.fd)
    })?;
    match connected {
        Ok(()) => vm.ret(true),
        Err(Errno::INPROGRESS | Errno::AGAIN | Errno::INTR) => fail(vm, "wait"),
        Err(error) => fail(vm, &words(error)),
    }
});

/// `wait_connected(s)`: true, or nil and what is wrong.
static WAIT_CONNECTED: Native = Native::leaf("wait_connected", |vm| {
    let Some((handle, progress)) = begin(vm, Side::Write)? else { return fail(vm, "closed") };
    loop {
        if !is_open(vm, &handle)? {
            return fail(vm, "closed");
        }
        let guard = handle.writes.lock();
        handle.source().write.clear();
        if let Ok(Err(error)) | Err(error) = sockopt::socket_error(&handle.fd) {
            return fail(vm, &words(error));
        }
        match rustix::net::getpeername(&handle.fd) {
            Ok(_) => {
                drop(guard);
                return vm.ret(true);
            }
            Err(Errno::NOTCONN) if progress.is_over => return fail(vm, "timeout"),
            Err(Errno::NOTCONN) => wait(vm, &handle, guard, Side::Write, &progress)?,
            Err(error) => return fail(vm, &words(error)),
        }
    }
});

/// `disconnect(u)`: datagrams of everybody are received again.
static DISCONNECT: Native = Native::leaf("disconnect", |vm| {
    if let Some(handle) = &sock(vm)?.handle {
        // As LuaSocket: systems that refuse this are not asked why.
        let _ = rustix::net::connect_unspec(&handle.fd);
    }
    vm.ret(Value::int(1))
});

/// `listen(s [, backlog])`
static LISTEN: Native = Native::leaf("listen", |vm| {
    of_class(vm, "{master}")?;
    let backlog = vm.opt_num(2, 32.0)? as i32;
    let listening = match &sock(vm)?.handle {
        Some(handle) => rustix::net::listen(&handle.fd, backlog),
        None => Err(Errno::BADF),
    };
    match listening {
        Ok(()) => {
            set_class(sock(vm)?, "server");
            vm.ret(Value::int(1))
        }
        Err(error) => fail(vm, &words(error)),
    }
});

/// `accept(s)`: a socket without a metatable.
static ACCEPT: Native = Native::leaf("accept", |vm| {
    let class = of_class(vm, "{server}")?.class.replace("server", "client");
    let Some((handle, progress)) = begin(vm, Side::Read)? else { return fail(vm, "closed") };
    loop {
        if !is_open(vm, &handle)? {
            return fail(vm, "closed");
        }
        let guard = handle.reads.lock();
        handle.source().read.clear();
        match rustix::net::accept_with(&handle.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(fd) => {
                drop(guard);
                // There may be more.
                handle.source().read.raise(false, Wakes::One);
                let family = sock(vm)?.family;
                return match Handle::new(fd) {
                    Ok(handle) => {
                        let new = Sock::new(Some(handle), family, SocketType::STREAM, &class);
                        let userdata = vm.new_userdata(new, 0)?;
                        vm.ret(userdata)
                    }
                    Err(error) => fail(vm, &words(error)),
                };
            }
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::AGAIN) if progress.is_over => return fail(vm, "timeout"),
            Err(Errno::AGAIN) => wait(vm, &handle, guard, Side::Read, &progress)?,
            Err(error) => return fail(vm, &words(error)),
        }
    }
});

fn set_class(sock: &mut Sock, class: &str) {
    let prefix = sock.class.split('{').next().unwrap_or_default();
    sock.class = format!("{prefix}{{{class}}}");
}

// -- Everything else on sockets -----------------------------------------------------------------------------

/// `class(s [, new])`
static CLASS: Native = Native::leaf("class", |vm| {
    if !vm.arg_is_none_or_nil(2) {
        let new = vm.check_str(2)?.to_text();
        set_class(sock(vm)?, &new);
    }
    let class = sock(vm)?.class.clone();
    vm.ret_str(class.as_bytes())
});

/// `s:close()`: who waits for it gets "closed".
static CLOSE: Native = Native::leaf("close", |vm| {
    let this = sock(vm)?;
    let is_client = this.class.ends_with("{client}");
    if let Some(handle) = this.handle.take() {
        // Nobody else has it: its peer is told of the end at once, and the address of one that is no client
        // is to be free for others when this returns.
        if Arc::strong_count(&handle) == 1 {
            match is_client {
                true => handle.registration.end(),
                false => handle.registration.end_now(),
            }
        }
        handle.source().read.wake(Wakes::All);
        handle.source().write.wake(Wakes::All);
    }
    vm.ret(Value::int(1))
});

/// `c:shutdown([how])`
static SHUTDOWN: Native = Native::leaf("shutdown", |vm| {
    of_class(vm, "{client}")?;
    let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both]
        [vm.check_option(2, Some("both"), &["receive", "send", "both"])?];
    if let Some(handle) = &sock(vm)?.handle {
        let _ = rustix::net::shutdown(&handle.fd, how);
    }
    vm.ret(Value::int(1))
});

/// `s:settimeout(seconds [, mode])`
static SETTIMEOUT: Native = Native::leaf("settimeout", |vm| {
    sock(vm)?;
    let seconds = vm.opt_num(2, -1.0)?;
    let mode =
        if vm.arg_is_none_or_nil(3) { b'b' } else { vm.check_str(3)?.bytes().first().copied().unwrap_or(0) };
    match mode {
        b'b' => sock(vm)?.block = seconds,
        b'r' | b't' => sock(vm)?.total = seconds,
        _ => return Err(vm.arg_error(3, "invalid timeout mode")),
    }
    vm.ret(Value::int(1))
});

/// `s:gettimeout()`
static GETTIMEOUT: Native = Native::leaf("gettimeout", |vm| {
    let (block, total) = (sock(vm)?.block, sock(vm)?.total);
    vm.push(Value::float(block));
    vm.push(Value::float(total));
    Ok(2)
});

/// `c:getstats()`
static GETSTATS: Native = Native::leaf("getstats", |vm| {
    let this = sock(vm)?;
    let stats = [this.received, this.sent, now() - this.birthday];
    for n in stats {
        vm.push(Value::float(n));
    }
    Ok(3)
});

/// `c:setstats(received, sent, age)`
static SETSTATS: Native = Native::leaf("setstats", |vm| {
    let (received, sent) = (sock(vm)?.received, sock(vm)?.sent);
    let received = vm.opt_num(2, received)?;
    let sent = vm.opt_num(3, sent)?;
    let age = if vm.arg_is_none_or_nil(4) { None } else { Some(vm.check_num(4)?) };
    let this = sock(vm)?;
    (this.received, this.sent) = (received, sent);
    if let Some(age) = age {
        this.birthday = now() - age;
    }
    vm.ret(Value::int(1))
});

/// `s:getfd()`: the descriptor, or -1.
static GETFD: Native = Native::leaf("getfd", |vm| {
    let fd = sock(vm)?.handle.as_ref().map_or(-1, |h| h.fd.as_raw_fd());
    vm.ret(Value::int(i64::from(fd)))
});

fn open_handle(number: Option<i64>) -> Option<Arc<Handle>> {
    let number = i32::try_from(number?).ok()?;
    OPEN.lock().as_ref().and_then(|open| open.get(&number)?.upgrade())
}

/// `s:setfd(n)`: from now on it has another object's descriptor too; with a negative number none.
static SETFD: Native = Native::leaf("setfd", |vm| {
    sock(vm)?;
    let number = vm.check_num(2)?;
    let handle = if number < 0.0 { None } else { open_handle(Some(number as i64)) };
    if number >= 0.0 && handle.is_none() {
        return Err(vm.arg_error(2, "the descriptor of another socket expected"));
    }
    sock(vm)?.handle = handle;
    Ok(0)
});

/// `wrap(s)`: a client's socket as a connection of `perilune.net`, for TLS; another socket of this module
/// with its descriptor, for `select`; its timeouts. `s` has none any more.
static WRAP: Native = Native::leaf("wrap", |vm| {
    of_class(vm, "{client}")?;
    let this = sock(vm)?;
    let Some(handle) = this.handle.clone() else { return fail(vm, "closed") };
    let connection = rustix::io::fcntl_dupfd_cloexec(&handle.fd, 3).and_then(|fd| {
        let registration = poller::register(&fd)?;
        let nodelay = sockopt::tcp_nodelay(&fd).unwrap_or(false);
        let dialled = handle.dialled.load(Ordering::Relaxed);
        let origin = if dialled { Origin::Dialled } else { Origin::Accepted };
        Ok(Stream::with(fd, registration, &CONNECTION, nodelay, origin))
    });
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => return fail(vm, &words(error)),
    };
    let this = sock(vm)?;
    // What has come already is the beginning of the other end's handshake.
    if !connection.input().buffer.add(this.input.bytes()) {
        return Err(vm.out_of_memory());
    }
    this.handle = None;
    this.input = Buffer::default();
    let (family, class, block, total) = (this.family, this.class.clone(), this.block, this.total);
    let connection = vm.shared_ref(connection);
    vm.push(connection.into());
    let other = vm.new_userdata(Sock::new(Some(handle), family, SocketType::STREAM, &class), 0)?;
    vm.push(other.into());
    vm.push(Value::float(block));
    vm.push(Value::float(total));
    Ok(4)
});

/// `s:dirty()`: whether something was received and not returned.
static DIRTY: Native = Native::leaf("dirty", |vm| {
    let dirty = !sock(vm)?.input.is_empty();
    vm.ret(dirty)
});

/// `s:getfamily()`
static GETFAMILY: Native = Native::leaf("getfamily", |vm| {
    let name: &[u8] = if sock(vm)?.family == Family::Inet6 { b"inet6" } else { b"inet4" };
    vm.ret_str(name)
});

// -- Functions ----------------------------------------------------------------------------------------------

/// `socket.gettime()`
static GETTIME: Native = Native::leaf("gettime", |vm| vm.ret(Value::float(now())));

/// `lookup(name)`: a list of addresses, the numbers of their families' names behind them.
static LOOKUP: Native = Native::leaf("lookup", |vm| {
    let name = vm.check_str(1)?.to_text();
    match crate::dial::addresses(vm, &name, None)? {
        Err(_) => fail(vm, "host or service not provided, or not known"),
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

/// `socket.dns.gethostname()`
static GETHOSTNAME: Native = Native::leaf("gethostname", |vm| {
    let name = rustix::system::uname();
    vm.ret_str(name.nodename().to_bytes())
});

/// `socket.skip(n, ...)`
static SKIP: Native = Native::leaf("skip", |vm| {
    let n = vm.check_int(1)?;
    let results = i64::from(vm.nargs()) - 1 - n;
    Ok(u32::try_from(results).unwrap_or(0))
});

static CORE: Source = Source::new(include_bytes!("socket.lua"));
static LUASEC: Source = Source::new(include_bytes!("ssl.lua"));
static LUASEC_HTTPS: Source = Source::new(include_bytes!("https.lua"));

/// `require "socket.core"`
pub static SOCKET: Native = Native::reentrant("socket.core", |vm| load(vm, "core"));
/// `require "socket.unix"`
pub static UNIX: Native = Native::reentrant("socket.unix", |vm| load(vm, "unix"));
/// `require "ssl"`
pub static SSL: Native = Native::reentrant("ssl", |vm| {
    outside::enter(vm);
    let raw = vm.new_table(0, 4)?;
    vm.push(raw.into());
    vm.register(raw, &[&WRAP, &CLOSE, &GETFD, &GETSTATS])?;
    load_source(vm, &LUASEC, raw.into())
});
/// `require "ssl.https"`
pub static HTTPS: Native = Native::reentrant("ssl.https", |vm| {
    outside::enter(vm);
    load_source(vm, &LUASEC_HTTPS, Value::NIL)
});

/// Runs a source that returns its module.
fn load_source(vm: &mut Vm, source: &Source, arg: Value) -> LuaResult<u32> {
    let holder = vm.new_table(0, 2)?;
    vm.push(holder.into());
    vm.set_field(holder, "raw", arg)?;
    source.run(vm, &[holder.into()])?;
    let module = vm.get_field(holder, "module")?;
    vm.ret(module)
}

/// `require "mime.core"`
pub static MIME: Native = Native::leaf("mime.core", |vm| {
    let module = vm.new_table(0, 10)?;
    vm.push(module.into());
    vm.register(module, mime::ALL)?;
    let version = vm.value_str(b"MIME 1.0.3")?;
    vm.set_field(module, "_VERSION", version)?;
    vm.ret(module)
});

fn load(vm: &mut Vm, name: &str) -> LuaResult<u32> {
    outside::enter(vm);
    let raw = vm.new_table(0, 48)?;
    vm.push(raw.into());
    vm.register(
        raw,
        &[
            &transfer::RECEIVE,
            &transfer::SEND,
            &transfer::RECEIVE_DATAGRAM,
            &transfer::SEND_DATAGRAM,
            &NEW,
            &BIND,
            &CONNECT,
            &WAIT_CONNECTED,
            &DISCONNECT,
            &LISTEN,
            &ACCEPT,
            &CLASS,
            &CLOSE,
            &SHUTDOWN,
            &SETTIMEOUT,
            &GETTIMEOUT,
            &GETSTATS,
            &SETSTATS,
            &GETFD,
            &SETFD,
            &DIRTY,
            &GETFAMILY,
            &select::WAIT_FOR,
            &GETTIME,
            &LOOKUP,
            &GETHOSTNAME,
            &SKIP,
            &names::GETSOCKNAME,
            &names::GETPEERNAME,
            &names::SETOPTION,
            &names::GETOPTION,
        ],
    )?;
    CORE.run(vm, &[raw.into()])?;
    let module = vm.get_field(raw, name)?;
    vm.ret(module)
}
