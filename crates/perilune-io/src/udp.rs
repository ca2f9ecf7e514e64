//! `net.udp`: datagrams. Each is sent and received whole; nothing is gathered.

use crate::address::{self, Target};
use crate::buffer::Buffer;
use crate::cases::Ready;
use crate::failure::Failure;
use crate::options;
use crate::poller::{self, Registration, Source};
use crate::slot::{Left, Wakes};
use crate::waiting::{Side, Timeouts, Waited, read_already, reader, turn, wait};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Waiter};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_trace::ObjectKind;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// The kind of sockets for datagrams.
pub static UDP: SharedKind = SharedKind::new("udp", open);

/// The longest datagram.
const LONGEST: usize = 65536;

/// A socket for datagrams.
pub struct Udp {
    registration: Registration,
    // Two locks, as a waiter is left under that of its direction.
    reads: Mutex<Option<Arc<OwnedFd>>>,
    writes: Mutex<Option<Arc<OwnedFd>>>,
    timeouts: Timeouts,
    endpoint: String,
    is_ipv6: bool,
}

impl Udp {
    /// Its address is free when this returns. Under no lock.
    fn close(&self) -> bool {
        self.registration.end_now();
        let (read, write) = (self.reads.lock().take(), self.writes.lock().take());
        let first = read.is_some();
        drop((read, write));
        self.source().read.wake(Wakes::All);
        self.source().write.wake(Wakes::All);
        first
    }
}

impl Waited for Udp {
    const NAME: &'static str = "socket";
    fn source(&self) -> &Source {
        &self.registration.source
    }
    fn deadline(&self, side: Side) -> Option<Instant> {
        self.timeouts.deadline(side)
    }
}

impl Awaited for Udp {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Socket
    }
    fn name(&self) -> String {
        self.endpoint.clone()
    }
}

impl SharedObject for Udp {
    fn kind(&self) -> &'static SharedKind {
        &UDP
    }
    fn label(&self) -> Option<String> {
        Some(self.endpoint.clone())
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&SEND, &RECV, &SET, &ADDRESS, &ENDPOINT, &CLOSE], &[("__close", &AT_SCOPE_END)])
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Udp>> {
    surplus::this(vm, &UDP, last, limit)
}

/// An address without a name.
fn check_address(vm: &mut Vm, n: u32) -> LuaResult<Target> {
    match address::check(vm, n)? {
        target @ (Target::Ip(_) | Target::Any(_)) => Ok(target),
        Target::Name(name, _) => {
            Err(vm.arg_error(n, &format!("'{name}' is a name: look it up first (net.resolve)")))
        }
        Target::Unix(_) => Err(vm.arg_error(n, "expected an IP address and a port")),
    }
}

/// `net.udp([address])`: a socket at this address; at any, with a port that is free.
pub static NEW: Native = Native::leaf("udp", |vm| {
    let target = if vm.arg_is_none_or_nil(1) { Target::Any(0) } else { check_address(vm, 1)? };
    surplus::none_behind(vm, 2, Limit::Own)?;
    let addresses = match &target {
        Target::Ip(address) => vec![*address],
        Target::Any(port) => address::any(*port).to_vec(),
        _ => unreachable!("checked above"),
    };
    let mut last = Errno::ADDRNOTAVAIL;
    for address in addresses {
        match bind(address) {
            Ok(udp) => {
                let udp = vm.shared_ref(Arc::new(udp));
                return vm.ret(udp);
            }
            Err(error) => last = error,
        }
    }
    Failure::from(last).of(|| format!("cannot receive at {target}")).ret(vm)
});

fn bind(address: SocketAddr) -> Result<Udp, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        sockopt::set_ipv6_v6only(&fd, false)?;
    }
    rustix::net::bind(&fd, &address)?;
    let registration = poller::register(&fd)?;
    let endpoint = address::text(rustix::net::getsockname(&fd).ok());
    let fd = Arc::new(fd);
    Ok(Udp {
        registration,
        reads: Mutex::new(Some(Arc::clone(&fd))),
        writes: Mutex::new(Some(fd)),
        timeouts: Timeouts::default(),
        endpoint,
        is_ipv6: address.is_ipv6(),
    })
}

/// `u:send(bytes, address)`, `u:send(bytes, host, port)`: true. It may still be lost on its way.
static SEND: Native = Native::leaf("send", |vm| {
    let udp = this(vm, 4, Limit::WriteTimeout)?;
    let text = vm.check_str(2)?;
    let to = match check_address(vm, 3)?.for_connecting() {
        Target::Ip(SocketAddr::V4(to)) if udp.is_ipv6 => {
            SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port())
        }
        Target::Ip(to) => to,
        _ => unreachable!("checked above"),
    };
    let progress = turn(vm, &udp, Side::Write)?;
    loop {
        let fd = udp.writes.lock();
        let Some(socket) = &*fd else {
            drop(fd);
            return Failure::Closed.ret(vm);
        };
        udp.source().write.clear();
        match rustix::net::sendto(socket, text.bytes(), SendFlags::NOSIGNAL, &to) {
            Ok(_) => {
                drop(fd);
                return vm.ret(true);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if progress.is_over => {
                drop(fd);
                return Failure::Timeout.ret(vm);
            }
            Err(Errno::AGAIN) => wait(vm, &udp, fd, Side::Write, &progress)?,
            Err(error) => {
                drop(fd);
                return Failure::from(error).ret(vm);
            }
        }
    }
});

/// What is there for a receiver.
enum Received {
    Datagram(Datagram),
    Nothing,
    NoMemory,
    Failed(Failure),
}

/// A datagram, and who has sent it.
struct Datagram {
    bytes: Buffer,
    from: String,
}

impl Datagram {
    /// Pushes both. Under no lock: what is allocated may be collected for, and that may call anything.
    fn push(mut self, vm: &mut Vm) -> LuaResult<u32> {
        let text = vm.new_str(self.bytes.bytes())?;
        vm.push(text.into());
        self.bytes.clear();
        vm.push_str(self.from.as_bytes())?;
        Ok(2)
    }
}

/// Takes a datagram, if there is one, under the lock of the direction.
fn receive(udp: &Udp, fd: Option<&OwnedFd>) -> Received {
    let Some(fd) = fd else { return Received::Failed(Failure::Closed) };
    let mut buffer = Buffer::default();
    let Some(room) = buffer.end(LONGEST) else { return Received::NoMemory };
    loop {
        udp.source().read.clear();
        return match rustix::net::recvfrom(fd, spare_capacity(room), RecvFlags::empty()) {
            Ok((_, _, from)) => Received::Datagram(Datagram { bytes: buffer, from: address::text(from) }),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                buffer.clear();
                Received::Nothing
            }
            Err(error) => Received::Failed(error.into()),
        };
    }
}

/// `u:recv([limit])`: a datagram, and who has sent it.
static RECV: Native = Native::leaf("recv", |vm| {
    let udp = this(vm, 2, Limit::Own)?;
    let mut progress = turn(vm, &udp, Side::Read)?;
    if progress.is_first && !vm.arg_is_none_or_nil(2) {
        progress.deadline = outside::opt_deadline(vm, 2)?;
    }
    loop {
        let fd = udp.reads.lock();
        match receive(&udp, fd.as_deref()) {
            Received::Datagram(datagram) => {
                drop(fd);
                return datagram.push(vm);
            }
            Received::NoMemory => {
                drop(fd);
                return Err(vm.out_of_memory());
            }
            Received::Nothing if progress.is_over => {
                drop(fd);
                return Failure::Timeout.ret(vm);
            }
            Received::Nothing => wait(vm, &udp, fd, Side::Read, &progress)?,
            Received::Failed(failure) => {
                drop(fd);
                return failure.ret(vm);
            }
        }
    }
});

impl Ready for Udp {
    fn take_case(self: &Arc<Self>, vm: &mut Vm, _: Side) -> LuaResult<Option<u32>> {
        if let Some(other) = reader(&**self) {
            return Err(read_already::<Udp>(vm, &other));
        }
        let fd = self.reads.lock();
        match receive(self, fd.as_deref()) {
            Received::Datagram(datagram) => {
                drop(fd);
                datagram.push(vm).map(Some)
            }
            Received::Nothing => Ok(None),
            Received::NoMemory => {
                drop(fd);
                Err(vm.out_of_memory())
            }
            Received::Failed(failure) => {
                drop(fd);
                failure.ret(vm).map(Some)
            }
        }
    }

    fn leave_case(&self, _: Side, waiter: Arc<Waiter>) -> Option<Left> {
        let fd = self.reads.lock();
        let slot = &self.source().read;
        slot.clear();
        // Another receiver may have cleared the flag since the attempt.
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recvfrom(fd.as_deref()?, &mut [0_u8; 1][..], flags) {
            Err(Errno::AGAIN) => slot.leave(waiter).ok(),
            _ => None,
        }
    }
}

/// `u:set{read_timeout=, write_timeout=}`: the socket.
static SET: Native = Native::leaf("set", |vm| {
    let udp = this(vm, 2, Limit::Own)?;
    let options = vm.check_table(2)?;
    options::check(vm, options, &["read_timeout", "write_timeout"])?;
    for (name, side) in [("read_timeout", Side::Read), ("write_timeout", Side::Write)] {
        if let Some(span) = options::span(vm, options, name)? {
            udp.timeouts.set(side, span);
        }
    }
    let this: Value = vm.arg(1);
    vm.ret(this)
});

/// `u:address()`: host and port.
static ADDRESS: Native = Native::leaf("address", |vm| {
    let udp = this(vm, 1, Limit::Own)?;
    address::ret_halves(vm, &udp.endpoint)
});

/// `u:endpoint()`: the same as one text.
static ENDPOINT: Native = Native::leaf("endpoint", |vm| {
    let udp = this(vm, 1, Limit::Own)?;
    vm.ret_str(udp.endpoint.as_bytes())
});

/// `u:close()`: true if it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let first = this(vm, 1, Limit::Own)?.close();
    vm.ret(first)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY, Limit::Own)?.close();
    Ok(0)
});
