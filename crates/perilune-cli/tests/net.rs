//! Sockets, where a script alone cannot see it: limits of descriptors, wakeups of an idle program, threads.

use perilune_test::Limited;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program that serves, with what it has printed: its address first.
struct Server {
    child: Limited,
    address: String,
}

impl Server {
    /// Runs `source` by a shell that does `before` first.
    fn start(before: &str, source: &str) -> Server {
        let line = format!("{before} exec \"$0\" -e \"$1\"");
        let mut command = Command::new("sh");
        let mut child = Limited::start(command.args(["-c", &line, env!("CARGO_BIN_EXE_perilune"), source]));
        let address = child.line().expect("a line");
        Server { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    /// Voluntary and other switches of all threads: how often something ran.
    fn switches(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        tasks
            .map(|task| {
                let status = std::fs::read_to_string(task.expect("a thread").path().join("status"));
                let numbers = status.unwrap_or_default();
                let of =
                    |line: &str| line.rsplit('\t').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
                numbers.lines().filter(|l| l.contains("ctxt_switches")).map(of).sum::<u64>()
            })
            .sum()
    }
}

const SERVER: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local l = assert(net.listen("127.0.0.1:0"))
print(l:endpoint()) io.stdout:flush()
for c in l do
  pl.after(0, function()
    for line in c:lines() do
      if line == "info" then c:write(l:info().starved, "\n") else c:write(line, "\n") end
    end
    c:close()
  end)
end
"#;

fn echo(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(format!("{text}\n").as_bytes()).expect("a write");
    let mut line = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).expect("an answer") == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text")
}

/// A server that runs out of descriptors goes on serving those it has, and takes the others as soon as it
/// can.
#[test]
fn a_server_without_descriptors_waits_for_some() {
    let server = Server::start("ulimit -n 24;", SERVER);
    let mut clients: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    assert_eq!(echo(&mut clients[0], "one"), "one");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while echo(&mut clients[0], "info").parse::<u64>().expect("a number") == 0 {
        assert!(std::time::Instant::now() < end, "there were descriptors for all");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The last ones have not been accepted; they are when the first ones have gone.
    clients.drain(..30);
    for client in &mut clients {
        assert_eq!(echo(client, "late"), "late");
    }
}

/// When there are none for long, those who wait are told so by the end of their connections, and who comes
/// when there are some again is served.
#[test]
fn a_server_without_descriptors_refuses_those_who_wait_for_long() {
    let server = Server::start("ulimit -n 24;", SERVER);
    let mut clients: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let mut ended = 0;
    for client in clients.iter_mut().rev() {
        let mut byte = [0];
        match client.read(&mut byte) {
            Ok(0) => ended += 1,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => ended += 1,
            other => panic!("{other:?}"),
        }
        if ended == 20 {
            break;
        }
    }
    assert_eq!(echo(&mut clients[0], "one"), "one");
    clients.clear();
    assert_eq!(echo(&mut server.connect(), "after"), "after");
}

/// Connections that nothing happens on cost no wakeups.
#[test]
fn an_idle_server_makes_no_wakeups() {
    let start = |before| {
        let server = Server::start(before, SERVER);
        let mut clients: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(echo(client, "x"), "x");
        }
        (server, clients)
    };
    let mut servers = [start("export PERILUNE_IO=epoll;"), start("export PERILUNE_IO=uring;")];
    // Idle worker threads end after two seconds, or later where the machine is busy: that is in one of these
    // spans. Who looks again and again does so in each.
    let mut switches: [Vec<i64>; 2] = [Vec::new(), Vec::new()];
    let is_idle = |spans: &Vec<i64>| spans.iter().any(|n| (0..=2).contains(n));
    for _ in 0..30 {
        let before = servers.each_ref().map(|(server, _)| server.switches());
        std::thread::sleep(Duration::from_secs(2));
        for (n, (server, _)) in servers.iter().enumerate() {
            switches[n].push(server.switches() as i64 - before[n] as i64);
        }
        if switches.iter().all(is_idle) {
            break;
        }
    }
    assert!(
        switches.iter().all(is_idle),
        "{switches:?} switches in two seconds each, by epoll and by io_uring"
    );
    for (_, clients) in &mut servers {
        assert_eq!(echo(&mut clients[50], "still there"), "still there");
    }
}

/// A program that opens no socket has no thread for them.
#[test]
fn the_poller_begins_with_the_first_socket() {
    let count = r#"
local function threads()
  local n = 0
  for name in io.popen("cat /proc/" .. PID .. "/task/*/comm"):lines() do
    if name == "perilune-io" then n = n + 1 end
  end
  return n
end
local f = io.open("/proc/self/stat")
PID = f:read("n")
f:close()
local net = require "perilune.net"
print(threads())
net.listen("127.0.0.1:0")
-- A thread gives itself its name when it begins to run.
local begun, n = os.time()
repeat n = threads() until n > 0 or os.time() > begun + 30
print(n)
"#;
    let mut server = Server::start("", count);
    assert_eq!(server.address, "0");
    assert_eq!(server.child.line().as_deref(), Some("1"));
}

const CREW: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local l = assert(net.listen("127.0.0.1:0"))
print(l:endpoint()) io.stdout:flush()
l:serve(function(c)
  c:write(pl.domain.self():name(), "\n")
  for line in c:lines() do
    if line == "close" then l:close() end
    c:write(line, "\n")
  end
end, { domains = 3, grace = 60 })
print(pl.domain.count())
"#;

/// Connections that come at once go to the domains in equal parts, and those that come later to whoever has
/// the fewest.
#[test]
fn connections_are_spread_over_domains() {
    let mut server = Server::start("", CREW);
    let name = |stream: &TcpStream| {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a line");
        line.trim().to_owned()
    };
    let streams: Vec<TcpStream> = (0..30).map(|_| server.connect()).collect();
    let mut of: Vec<(String, TcpStream)> = streams.into_iter().map(|s| (name(&s), s)).collect();
    let count =
        |of: &[(String, TcpStream)], domain: &str| of.iter().filter(|(name, _)| name == domain).count();
    for domain in ["serve 1", "serve 2", "serve 3"] {
        assert_eq!(count(&of, domain), 10, "{domain}");
    }
    // All of the second one's end; who comes next is its.
    of.retain(|(name, _)| name != "serve 2");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let stream = server.connect();
        if name(&stream) == "serve 2" {
            of.push(("serve 2".into(), stream));
            break;
        }
        assert!(std::time::Instant::now() < end, "the domain without connections gets none");
    }
    // Closed in one domain, it is closed for all, and what is going on ends by itself.
    let mut closing = &of[0].1;
    closing.write_all(b"close\n").expect("sent");
    assert_eq!(name(closing), "close");
    let mut other = &of[1].1;
    other.write_all(b"still there\n").expect("sent");
    assert_eq!(name(other), "still there");
    drop(of);
    assert_eq!(server.child.line().as_deref(), Some("1"));
    assert!(server.child.finish().status.success());
}

/// In a network of its own that has four ports for clients: whoever finds none is told so, and gets one when
/// one is free again.
#[test]
fn a_client_without_a_port_is_told() {
    const SOURCE: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local l = assert(net.listen "127.0.0.1:30000")
local clients, message, code = {}, nil, nil
repeat
  local c
  c, message, code = net.connect "127.0.0.1:30000"
  clients[#clients + 1] = c
until not c
print(#clients, code)
print(message)
local _, _, none = net.listen "127.0.0.1:0"
print(none)
-- A connection that is reset leaves nothing behind.
clients[1]:abort()
local again
for _ = 1, 100 do
  again = net.connect "127.0.0.1:30000"
  if again then break end
  pl.sleep(0.01)
end
print(again ~= nil)
"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["-e", SOURCE]);
    // SAFETY: system calls that may be made between fork and exec; what they read is there.
    unsafe {
        command.pre_exec(|| {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) != 0 {
                libc::_exit(77);
            }
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            let mut loopback: libc::ifreq = std::mem::zeroed();
            loopback.ifr_name[0] = b'l' as libc::c_char;
            loopback.ifr_name[1] = b'o' as libc::c_char;
            loopback.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
            let range = libc::open(
                c"/proc/sys/net/ipv4/ip_local_port_range".as_ptr(),
                libc::O_WRONLY | libc::O_CLOEXEC,
            );
            let text = b"40000 40003";
            if libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const loopback) != 0
                || libc::write(range, text.as_ptr().cast(), text.len()) != text.len() as isize
            {
                libc::_exit(77);
            }
            Ok(())
        });
    }
    let output = Limited::start_with(&mut command, Stdio::null()).within(Duration::from_secs(60)).finish();
    if output.status.code() == Some(77) {
        // Past what catches the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: the system gives no network of its own");
        return;
    }
    let said = "cannot connect to 127.0.0.1:30000: no port of this machine is free for it, or the machine \
        has no address of that kind; connections that are kept and used again need fewer ports: Cannot \
        assign requested address";
    let expected = format!("4\tEADDRNOTAVAIL\n{said}\nEADDRINUSE\ntrue\n");
    assert_eq!(perilune_test::text(&output.stdout), expected, "{output:?}");
}

/// A body of so many MiB goes to a server, and another one back, in pieces, and the program is as small as
/// before.
fn body_goes_through(mib: usize) {
    const SOURCE: &str = r#"
local pl, http = require "perilune", require "perilune.http"
local mib = tonumber((...))
local function peak() return tonumber(io.open("/proc/self/status"):read "a":match "VmHWM:%s*(%d+)") end
local piece = ("0123456789abcdef"):rep(1 << 14)   -- 256 KiB
local server = http.server()
local function check(part, got) assert(part == piece:sub(got % 16 + 1, got % 16 + #part)) return got + #part end
-- Counts what comes, and sends as much as is asked for.
server:post("/", function(req)
  local got = 0
  for part in req:pieces() do got = check(part, got) end
  return tostring(got)
end, { body_limit = 1 << 31 })
server:get("/:mib", function(req)
  local left = req.params.mib * 4
  return { body = function() left = left - 1 if left >= 0 then return piece end end }
end)
pl.scope(function(s)
  local l = server:listen "127.0.0.1:0"
  local base = "http://" .. l:endpoint() .. "/"
  local function round(mib)
    local left, got = mib * 4, 0
    local res = assert(http.request {
      url = base, method = "POST", timeout = 300, body = function() left = left - 1 if left >= 0 then return piece end end,
    })
    assert(res.body == tostring(mib << 20), res.body)
    local res <close> = assert(http.get(base .. mib, { stream = true, limit = 1 << 31, timeout = 300 }))
    for part in res:pieces() do got = check(part, got) end
    assert(got == mib << 20, got)
  end
  round(16)
  local before = peak()
  round(mib)
  local grown = peak() - before
  assert(grown < 32 << 10, grown .. " KiB more")
end)
print "through"
"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let folder = perilune_test::Folder::with([("body.lua", SOURCE)]);
    command.arg(folder.join("body.lua")).arg(mib.to_string());
    let output = Limited::start_with(&mut command, Stdio::null()).within(Duration::from_secs(300)).finish();
    assert_eq!(perilune_test::text(&output.stdout), "through\n", "{output:?}");
}

#[test]
fn a_long_body_takes_no_memory() {
    body_goes_through(128);
}

#[test]
#[ignore = "a gibibyte takes some seconds"]
fn a_very_long_body_takes_no_memory() {
    body_goes_through(1024);
}
