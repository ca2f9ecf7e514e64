//! Addresses, options and errors, in LuaSocket's words.

use super::{Sock, fail, sock};
use crate::address;
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketAddrUnix, sockopt};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What kind of addresses a socket has. Unspecified: it is made when the first address is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Unspec,
    Inet,
    Inet6,
    Unix,
}

impl Family {
    /// Argument `n`.
    pub fn check(vm: &mut Vm, n: u32) -> LuaResult<Family> {
        let at = vm.check_option(n, None, &["unspec", "inet", "inet6", "unix"])?;
        Ok([Family::Unspec, Family::Inet, Family::Inet6, Family::Unix][at])
    }

    /// That of an address.
    pub fn of(address: &SocketAddr) -> Family {
        if address.is_ipv6() { Family::Inet6 } else { Family::Inet }
    }

    fn name(self) -> &'static str {
        match self {
            Family::Unspec => "unspec",
            Family::Inet => "inet",
            Family::Inet6 => "inet6",
            Family::Unix => "unix",
        }
    }
}

/// An error as LuaSocket calls it.
pub fn words(error: Errno) -> String {
    match error {
        Errno::PIPE | Errno::CONNRESET | Errno::CONNABORTED => "closed".into(),
        Errno::TIMEDOUT => "timeout".into(),
        Errno::ADDRINUSE => "address already in use".into(),
        Errno::ISCONN => "already connected".into(),
        Errno::ACCESS => "permission denied".into(),
        Errno::CONNREFUSED => "connection refused".into(),
        other => crate::failure::text_of(other),
    }
}

/// The same, of datagrams.
pub fn of_datagrams(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED | Errno::PIPE => "refused".into(),
        other => words(other),
    }
}

/// Arguments `n` and `n + 1` as an address and a port, both numbers.
pub fn check_address(vm: &mut Vm, n: u32) -> LuaResult<SocketAddr> {
    let ip = vm.check_str(n)?.to_text();
    let port = vm.check_int(n + 1)?;
    let Ok(port) = u16::try_from(port) else {
        return Err(vm.arg_error(n + 1, "a port is a number from 0 to 65535"));
    };
    match ip.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, port)),
        Err(_) => Err(vm.arg_error(n, &format!("'{ip}' is no IP address"))),
    }
}

/// Where a socket is bound or connected to.
pub enum Place {
    Ip(SocketAddr),
    Unix(SocketAddrUnix),
}

impl Place {
    pub fn family(&self) -> Family {
        match self {
            Place::Ip(address) => Family::of(address),
            Place::Unix(_) => Family::Unix,
        }
    }
    pub fn bind(&self, fd: &OwnedFd) -> Result<(), Errno> {
        match self {
            Place::Ip(address) => rustix::net::bind(fd, address),
            Place::Unix(path) => rustix::net::bind(fd, path),
        }
    }
    pub fn connect(&self, fd: &OwnedFd) -> Result<(), Errno> {
        match self {
            Place::Ip(address) => rustix::net::connect(fd, address),
            Place::Unix(path) => rustix::net::connect(fd, path),
        }
    }
}

/// Calls `f` with the socket and the address that the arguments behind it name: a path, or an IP address and
/// a port.
pub fn with_address(
    vm: &mut Vm,
    f: impl FnOnce(&mut Sock, &Place) -> Result<(), Errno>,
) -> LuaResult<Result<(), Errno>> {
    let place = if sock(vm)?.family == Family::Unix {
        match address::unix(vm.check_str(2)?.bytes()) {
            Ok(path) => Place::Unix(path),
            Err(error) => return Ok(Err(error)),
        }
    } else {
        Place::Ip(check_address(vm, 2)?)
    };
    Ok(f(sock(vm)?, &place))
}

fn push_name(vm: &mut Vm, name: Result<Option<SocketAddrAny>, Errno>) -> LuaResult<u32> {
    let family = sock(vm)?.family;
    let address = match name {
        Ok(Some(address)) => address,
        Ok(None) => return fail(vm, &words(Errno::NOTCONN)),
        Err(error) => return fail(vm, &words(error)),
    };
    match SocketAddr::try_from(address.clone()) {
        Ok(ip) => {
            vm.push_str(ip.ip().to_string().as_bytes())?;
            vm.push(Value::int(i64::from(ip.port())));
            vm.push_str(family.name().as_bytes())?;
            Ok(3)
        }
        Err(_) => {
            let text = address::text(Some(address));
            vm.ret_str(text.trim_start_matches("unix:").as_bytes())
        }
    }
}

/// `s:getsockname()`
pub static GETSOCKNAME: Native = Native::leaf("getsockname", |vm| {
    let name = match &sock(vm)?.handle {
        Some(handle) => rustix::net::getsockname(&handle.fd).map(Some),
        None => Err(Errno::BADF),
    };
    push_name(vm, name)
});

/// `s:getpeername()`
pub static GETPEERNAME: Native = Native::leaf("getpeername", |vm| {
    let name = match &sock(vm)?.handle {
        Some(handle) => rustix::net::getpeername(&handle.fd),
        None => Err(Errno::BADF),
    };
    push_name(vm, name)
});

// -- Options ------------------------------------------------------------------------------------------------

fn unsupported(vm: &mut Vm, name: &str) -> perilune_vm::Thrown {
    vm.arg_error(2, &format!("unsupported option '{name}'"))
}

fn check_flag(vm: &mut Vm) -> LuaResult<bool> {
    vm.check_type(3, perilune_vm::Type::Boolean)?;
    Ok(!vm.arg(3).is_falsy())
}

fn membership(vm: &mut Vm) -> LuaResult<(Ipv4Addr, Ipv4Addr)> {
    let table = vm.check_table(3)?;
    let mut found = [Ipv4Addr::UNSPECIFIED; 2];
    for (place, name) in found.iter_mut().zip(["multiaddr", "interface"]) {
        let text = vm.get_field(table, name)?.as_string().map(|s| s.to_text());
        match text.as_deref() {
            Some("*") => {}
            Some(text) => match text.parse() {
                Ok(ip) => *place = ip,
                Err(_) => return Err(vm.arg_error(3, &format!("invalid '{name}' ip address"))),
            },
            None => return Err(vm.arg_error(3, &format!("string '{name}' field expected"))),
        }
    }
    Ok((found[0], found[1]))
}

fn seconds(vm: &mut Vm) -> LuaResult<Duration> {
    Ok(Duration::from_secs(u64::try_from(vm.check_int(3)?).unwrap_or(0)))
}

/// `s:setoption(name, value)`
pub static SETOPTION: Native = Native::leaf("setoption", |vm| {
    let name = vm.check_str(2)?.to_text();
    let Some(handle) = sock(vm)?.handle.clone() else { return fail(vm, "setsockopt failed") };
    let fd = &handle.fd;
    let done = match &*name {
        "reuseaddr" => sockopt::set_socket_reuseaddr(fd, check_flag(vm)?),
        "reuseport" => sockopt::set_socket_reuseport(fd, check_flag(vm)?),
        "keepalive" => sockopt::set_socket_keepalive(fd, check_flag(vm)?),
        "broadcast" => sockopt::set_socket_broadcast(fd, check_flag(vm)?),
        "tcp-nodelay" => {
            let on = check_flag(vm)?;
            handle.talk.set_nagle(!on);
            sockopt::set_tcp_nodelay(fd, on)
        }
        "ipv6-v6only" => sockopt::set_ipv6_v6only(fd, check_flag(vm)?),
        "ip-multicast-loop" => sockopt::set_ip_multicast_loop(fd, check_flag(vm)?),
        "ipv6-multicast-loop" => sockopt::set_ipv6_multicast_loop(fd, check_flag(vm)?),
        "ip-multicast-ttl" => sockopt::set_ip_multicast_ttl(fd, vm.check_int(3)? as u32),
        "tcp-keepidle" => sockopt::set_tcp_keepidle(fd, seconds(vm)?),
        "tcp-keepintvl" => sockopt::set_tcp_keepintvl(fd, seconds(vm)?),
        "tcp-keepcnt" => sockopt::set_tcp_keepcnt(fd, vm.check_int(3)? as u32),
        "recv-buffer-size" => sockopt::set_socket_recv_buffer_size(fd, vm.check_int(3)?.max(0) as usize),
        "send-buffer-size" => sockopt::set_socket_send_buffer_size(fd, vm.check_int(3)?.max(0) as usize),
        "linger" => {
            let table = vm.check_table(3)?;
            let on = vm.get_field(table, "on")?;
            let seconds = vm.get_field(table, "timeout")?.as_int().unwrap_or(0).max(0);
            let linger = (!on.is_falsy()).then(|| Duration::from_secs(seconds as u64));
            sockopt::set_socket_linger(fd, linger)
        }
        "ip-add-membership" => {
            let (group, interface) = membership(vm)?;
            sockopt::set_ip_add_membership(fd, &group, &interface)
        }
        "ip-drop-membership" => {
            let (group, interface) = membership(vm)?;
            sockopt::set_ip_drop_membership(fd, &group, &interface)
        }
        _ => return Err(unsupported(vm, &name)),
    };
    match done {
        Ok(()) => vm.ret(Value::int(1)),
        Err(_) => fail(vm, "setsockopt failed"),
    }
});

/// `s:getoption(name)`
pub static GETOPTION: Native = Native::leaf("getoption", |vm| {
    let name = vm.check_str(2)?.to_text();
    let Some(handle) = sock(vm)?.handle.clone() else { return fail(vm, "getsockopt failed") };
    let fd = &handle.fd;
    let flag = |on: Result<bool, Errno>| on.map(Value::from);
    let number = |n: Result<u64, Errno>| n.map(|n| Value::int(n as i64));
    let found = match &*name {
        "reuseaddr" => flag(sockopt::socket_reuseaddr(fd)),
        "reuseport" => flag(sockopt::socket_reuseport(fd)),
        "keepalive" => flag(sockopt::socket_keepalive(fd)),
        "broadcast" => flag(sockopt::socket_broadcast(fd)),
        "tcp-nodelay" => flag(sockopt::tcp_nodelay(fd)),
        "ipv6-v6only" => flag(sockopt::ipv6_v6only(fd)),
        "ip-multicast-loop" => flag(sockopt::ip_multicast_loop(fd)),
        "ipv6-multicast-loop" => flag(sockopt::ipv6_multicast_loop(fd)),
        "tcp-keepidle" => number(sockopt::tcp_keepidle(fd).map(|d| d.as_secs())),
        "tcp-keepintvl" => number(sockopt::tcp_keepintvl(fd).map(|d| d.as_secs())),
        "tcp-keepcnt" => number(sockopt::tcp_keepcnt(fd).map(u64::from)),
        "recv-buffer-size" => number(sockopt::socket_recv_buffer_size(fd).map(|n| n as u64)),
        "send-buffer-size" => number(sockopt::socket_send_buffer_size(fd).map(|n| n as u64)),
        "error" => match sockopt::socket_error(fd) {
            Ok(Ok(())) => Ok(Value::NIL),
            Ok(Err(error)) => return vm.ret_str(words(error).as_bytes()),
            Err(error) => Err(error),
        },
        "linger" => match sockopt::socket_linger(fd) {
            Ok(linger) => {
                let table = vm.new_table(0, 2)?;
                vm.push(table.into());
                vm.set_field(table, "on", linger.is_some().into())?;
                let seconds = linger.map_or(0, |d| d.as_secs() as i64);
                vm.set_field(table, "timeout", Value::int(seconds))?;
                return Ok(1);
            }
            Err(error) => Err(error),
        },
        _ => return Err(unsupported(vm, &name)),
    };
    match found {
        Ok(value) => vm.ret(value),
        Err(_) => fail(vm, "getsockopt failed"),
    }
});
