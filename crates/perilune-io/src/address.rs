//! Addresses as programs write them: `"host:port"`, `"[::1]:80"`, `"*:80"`, `"unix:/path"`, `"unix:@name"`
//! (Linux's names that are no files).

use perilune_vm::{LuaResult, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::net::{SocketAddrAny, SocketAddrUnix, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// An address that needs no look-up.
    Ip(SocketAddr),
    /// A name and a port.
    Name(String, u16),
    /// Any address of this machine (to listen).
    Any(u16),
    /// A socket in the file system; with `@` in front, beside it.
    Unix(Vec<u8>),
}

/// Reads an address.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &[u8]) -> Result<Target, String> {
    if let Some(path) = text.strip_prefix(b"unix:") {
        return match path {
            [] | [b'@'] => Err("the path after 'unix:' is missing".into()),
            _ => Ok(Target::Unix(path.to_vec())),
        };
    }
    let text = std::str::from_utf8(text).map_err(|_| "an address must be text".to_owned())?;
    if text.contains("://") {
        return Err(format!(
            "'{text}' is a URL: expected 'host:port', '[ipv6]:port' or 'unix:/path' (perilune.http takes \
             URLs)"
        ));
    }
    let wanted = || format!("'{text}' is no address: expected 'host:port', '[ipv6]:port' or 'unix:/path'");
    let (host, port) = text.rsplit_once(':').ok_or_else(|| without_port(text))?;
    let port: u16 =
        port.parse().map_err(|_| format!("'{port}' is no port: expected a number from 0 to 65535"))?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(wanted)?,
        None if host.contains(':') => {
            return Err(format!("an IPv6 address stands in brackets: '[{host}]:{port}'"));
        }
        None => host,
    };
    of_host(host, port)
}

/// The address that is argument `n`: one text, or a host with its port as the next argument, as `address()`
/// gives them.
///
/// # Errors
/// It is neither.
pub fn check(vm: &mut Vm, n: u32) -> LuaResult<Target> {
    let text = vm.check_str(n)?.bytes().to_vec();
    if vm.arg_is_none_or_nil(n + 1) {
        return parse(&text).map_err(|e| vm.arg_error(n, &e));
    }
    if vm.arg(n + 1).as_table().is_some() {
        let wanted =
            "expected a port; options stand beside the address, in one table: {host=, port=, timeout=}";
        return Err(vm.arg_error(n + 1, wanted));
    }
    let port = vm.check_int(n + 1)?;
    let Ok(port) = u16::try_from(port) else {
        return Err(vm.arg_error(n + 1, &format!("'{port}' is no port: expected a number from 0 to 65535")));
    };
    let host = String::from_utf8_lossy(&text);
    // An address with a port has one already.
    if host.contains(':') && host.parse::<IpAddr>().is_err() && !host.contains('%') {
        return Err(vm.arg_error(n, &format!("'{host}' is no host name, and there is a port beside it")));
    }
    of_host(&host, port).map_err(|e| vm.arg_error(n, &e))
}

/// What is said of an address without a port, by what it seems to be.
fn without_port(text: &str) -> String {
    if text.starts_with(['/', '@']) {
        return format!("'{text}' is no address: a path is written 'unix:{text}'");
    }
    let host = !text.is_empty() && !text.contains(char::is_whitespace);
    let hint = if host { " (address() gives host and port, endpoint() both in one text)" } else { "" };
    format!("'{text}' has no port: expected 'host:port', '[ipv6]:port' or 'unix:/path'{hint}")
}

/// A host and a port.
///
/// # Errors
/// What is wrong with the host.
pub fn of_host(host: &str, port: u16) -> Result<Target, String> {
    if host.is_empty() || host == "*" {
        return Ok(Target::Any(port));
    }
    if host.contains('\0') || host.contains(char::is_whitespace) {
        return Err(format!("'{}' is no host name", host.escape_debug()));
    }
    Ok(match host.parse::<IpAddr>() {
        Ok(ip) => Target::Ip(SocketAddr::new(ip, port)),
        Err(_) => Target::Name(host.to_owned(), port),
    })
}

impl Target {
    /// Where one connects to: this machine, if no host is given.
    pub fn for_connecting(self) -> Target {
        match self {
            Target::Any(port) => Target::Ip(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
            other => other,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Ip(address) => address.fmt(f),
            Target::Name(name, port) => write!(f, "{name}:{port}"),
            Target::Any(port) => write!(f, "*:{port}"),
            Target::Unix(path) => write!(f, "unix:{}", String::from_utf8_lossy(path)),
        }
    }
}

/// A path as the system wants it.
///
/// # Errors
/// It is too long, or has a NUL in it.
pub fn unix(path: &[u8]) -> rustix::io::Result<SocketAddrUnix> {
    match path.strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path),
    }
}

/// An address of the system's in the words of programs.
pub fn text(address: Option<SocketAddrAny>) -> String {
    let Some(address) = address else { return "?".into() };
    if let Ok(ip) = SocketAddr::try_from(address.clone()) {
        return plain(ip).to_string();
    }
    match SocketAddrUnix::try_from(address) {
        Ok(unix) => match (unix.path_bytes(), unix.abstract_name()) {
            (Some(path), _) => format!("unix:{}", String::from_utf8_lossy(path)),
            (_, Some(name)) if !name.is_empty() => format!("unix:@{}", String::from_utf8_lossy(name)),
            // It has no name: the end that connects has none.
            _ => "unix:".into(),
        },
        Err(_) => "?".into(),
    }
}

/// Has a socket that is about to listen at this address, or to connect to it, send when it can, if it is the
/// loopback interface's. BBR would spread what goes over the time by a timer, for the sake of queues on the
/// way; here there is no way, and the timer is most of what a large message costs. A connection that has
/// begun with BBR keeps the timer. What cannot be set is done without.
pub fn unpace(fd: &OwnedFd, address: &SocketAddr) {
    if plain(*address).ip().is_loopback()
        && sockopt::tcp_congestion(fd).is_ok_and(|name| name.starts_with("bbr"))
    {
        let _ = sockopt::set_tcp_congestion(fd, "reno");
    }
}

/// The two halves of what [`text`] gives: the host, without brackets, and its port; or the path of a socket
/// of the file system, which has none.
pub fn halves(endpoint: &str) -> (&str, Option<u16>) {
    if let Some(path) = endpoint.strip_prefix("unix:") {
        return (path, None);
    }
    match endpoint.rsplit_once(':') {
        Some((host, port)) => {
            let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
            (bare.unwrap_or(host), port.parse().ok())
        }
        None => (endpoint, None),
    }
}

/// Returns host and port, as two results; of a socket of the file system, its path.
///
/// # Errors
/// There is no memory.
pub fn ret_halves(vm: &mut Vm, endpoint: &str) -> LuaResult<u32> {
    let (host, port) = halves(endpoint);
    vm.push_str(host.as_bytes())?;
    let Some(port) = port else { return Ok(1) };
    vm.push(Value::int(port.into()));
    Ok(2)
}

/// An IPv4 address that came through a socket for both kinds, as such.
fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), address.port()),
            None => address,
        },
        IpAddr::V4(_) => address,
    }
}

/// The addresses that stand for any of this machine's, in the order in which they are tried.
pub fn any(port: u16) -> [SocketAddr; 2] {
    [SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_interface_is_spared_a_timer() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        for (address, is_loopback) in [
            ("127.0.0.1:80", true),
            ("127.8.8.8:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("192.0.2.1:80", false),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let Ok(fd) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) else {
                continue; // no IPv6 here
            };
            // Where there is no BBR, what there is stays.
            let _ = sockopt::set_tcp_congestion(&fd, "bbr");
            let before = sockopt::tcp_congestion(&fd).expect("a name");
            unpace(&fd, &address);
            let now = sockopt::tcp_congestion(&fd).expect("a name");
            let expected = if is_loopback && before == "bbr" { "reno" } else { &before };
            assert_eq!(now, expected, "{address}");
        }
    }

    #[test]
    fn addresses_are_read() {
        let ip = |text: &str| Ok(Target::Ip(text.parse().unwrap()));
        assert_eq!(parse(b"127.0.0.1:80"), ip("127.0.0.1:80"));
        assert_eq!(parse(b"[::1]:80"), ip("[::1]:80"));
        assert_eq!(parse(b"example.org:443"), Ok(Target::Name("example.org".into(), 443)));
        assert_eq!(parse(b"*:0"), Ok(Target::Any(0)));
        assert_eq!(parse(b":7"), Ok(Target::Any(7)));
        assert_eq!(parse(b"unix:/tmp/s"), Ok(Target::Unix(b"/tmp/s".to_vec())));
        assert!(parse(b"http://x:1/").unwrap_err().contains("is a URL"));
        for bad in ["", "x", "x:y", "x:65536", "::1:80", "[::1:80", "a b:1", "unix:"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_have_two_halves() {
        assert_eq!(halves("127.0.0.1:80"), ("127.0.0.1", Some(80)));
        assert_eq!(halves("[::1]:0"), ("::1", Some(0)));
        assert_eq!(halves("[fe80::1%2]:65535"), ("fe80::1%2", Some(65535)));
        assert_eq!(halves("unix:/tmp/a:1"), ("/tmp/a:1", None));
        assert_eq!(halves("unix:@name"), ("@name", None));
        assert_eq!(halves("unix:"), ("", None));
        assert_eq!(halves("?"), ("?", None));
    }

    #[test]
    fn mapped_addresses_are_shown_plainly() {
        assert_eq!(plain("[::ffff:1.2.3.4]:5".parse().unwrap()).to_string(), "1.2.3.4:5");
        assert_eq!(plain("[::1]:5".parse().unwrap()).to_string(), "[::1]:5");
    }
}
