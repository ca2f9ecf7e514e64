//! `cargo xtask io`: what a server pays for a request, on perilune, Go and Node.js, side by side.
//!
//! The servers are in `benches/io`, one program each, which prints where it serves: HTTP, and lines that are
//! sent back. The client is one thread of this process with 64 connections that stay open; each answer is
//! followed by the next request. All of it is on the loopback interface, and bounded: so many rounds of so
//! many seconds.
//!
//! The figure is processor time of the server's process for each request, user and system, all threads. For
//! each case the servers take turns in a round, and the least of the rounds counts. Who is not installed is
//! left out, and said to be. Beside the figures stands how busy the machine was: with other work on the same
//! cores caches are cold, and all figures grow.

use crate::chore::{self, Error, Outcome};
use lexopt::prelude::*;
use perilune_measure::on_path;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Listing line.
pub const SUMMARY: &str = "CPU time per request of servers on perilune, Go and Node.js: HTTP, files, lines";
/// Arguments.
pub const USAGE: &str =
    "[--rounds N] [--seconds S] [--connections N] [--only CASE] [--bin PATH] [--profile P]";

/// The files of the cases `static`.
const FILES: [(&str, usize); 2] = [("file.bin", 1 << 20), ("small.bin", 16 << 10)];
/// No answer takes longer, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client sends, and where.
struct Case {
    name: &'static str,
    /// Part of the line that a server prints: 0 is HTTP, 1 lines.
    port: usize,
    request: String,
}

fn cases() -> Vec<Case> {
    let item = |n: u32| format!(r#"{{"price":{}.5,"count":{n}}}"#, n * 3);
    let items: Vec<String> = (1..=10).map(item).collect();
    let order = format!(r#"{{"id":4711,"name":"Ada Lovelace","items":[{}]}}"#, items.join(","));
    let head = "Host: localhost\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n";
    let length = order.len();
    vec![
        Case { name: "HTTP hello", port: 0, request: format!("GET /hello HTTP/1.1\r\n{head}\r\n") },
        Case {
            name: "JSON in and out",
            port: 0,
            request: format!(
                "POST /json HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\
                 \r\n{order}"
            ),
        },
        Case {
            name: "static 1 MiB",
            port: 0,
            request: format!("GET /static/file.bin HTTP/1.1\r\n{head}\r\n"),
        },
        Case {
            name: "static 16 KiB",
            port: 0,
            request: format!("GET /static/small.bin HTTP/1.1\r\n{head}\r\n"),
        },
        Case { name: "line echo", port: 1, request: format!("{}\n", "x".repeat(63)) },
    ]
}

/// Whose server, and how it is started.
struct Peer {
    name: String,
    command: Vec<OsString>,
}

/// A running server. It ends with this.
struct Server {
    child: Child,
    addresses: Vec<String>,
}

impl Server {
    fn start(peer: &Peer) -> Result<Server, Error> {
        let mut child = Command::new(&peer.command[0])
            .args(&peer.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", peer.name))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no pipe")?;
        let read = BufReader::new(out).read_line(&mut line);
        let server = Server { child, addresses: line.split_whitespace().map(str::to_owned).collect() };
        if read.is_err() || server.addresses.len() != 2 {
            return Err(format!("{} has not said where it serves: {line:?}", peer.name).into());
        }
        Ok(server)
    }

    /// Processor time of all its threads so far, those that have ended included.
    fn cpu(&self) -> Result<Duration, Error> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = text.rsplit(") ").next().unwrap_or_default();
        let ticks: u64 = after_name.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        // SAFETY: takes a number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        Ok(Duration::from_micros(ticks * 1_000_000 / per_second))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client's connection, and what is missing of the answer.
struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    /// Bytes of the body that have not come; `None`: the head is not there yet.
    left: Option<usize>,
}

impl Connection {
    /// Reads what is there. True: an answer is complete.
    fn advance(&mut self, is_http: bool, buffer: &mut [u8]) -> Result<bool, Error> {
        let n = self.stream.read(buffer)?;
        if n == 0 {
            return Err("the server has closed a connection".into());
        }
        let mut bytes = &buffer[..n];
        if !is_http {
            return Ok(bytes.last() == Some(&b'\n'));
        }
        if self.left.is_none() {
            self.head.extend_from_slice(bytes);
            let Some(end) = self.head.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(false) };
            let head = String::from_utf8_lossy(&self.head[..end]).to_ascii_lowercase();
            if !head.starts_with("http/1.1 200") {
                return Err(format!("the server has answered: {head}").into());
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = length.and_then(|n| n.trim().parse().ok()).ok_or("an answer without a length")?;
            self.left = Some(length);
            let body = self.head.len() - end - 4;
            bytes = &bytes[bytes.len() - body..];
            self.head.clear();
        }
        let left = self.left.get_or_insert(0);
        *left = left.checked_sub(bytes.len()).ok_or("more than one answer")?;
        Ok(*left == 0)
    }
}

/// Sends requests on all connections for this time; how many were answered.
fn load(connections: &mut [Connection], case: &Case, span: Duration) -> Result<u64, Error> {
    let is_http = case.port == 0;
    let mut buffer = vec![0; 256 << 10];
    let mut polled: Vec<libc::pollfd> = connections
        .iter()
        .map(|c| libc::pollfd { fd: c.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    for c in connections.iter_mut() {
        c.stream.write_all(case.request.as_bytes())?;
    }
    let (end, mut answers, mut open) = (Instant::now() + span, 0, connections.len());
    while open > 0 {
        // SAFETY: an array of this length, of descriptors that the connections keep open.
        let ready =
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, PATIENCE.as_millis() as i32) };
        if ready <= 0 {
            return Err("no answer came".into());
        }
        let over = Instant::now() >= end;
        for (c, polled) in connections.iter_mut().zip(&polled) {
            if polled.revents == 0 || !c.advance(is_http, &mut buffer)? {
                continue;
            }
            c.left = None;
            answers += 1;
            if over {
                open -= 1;
            } else {
                c.stream.write_all(case.request.as_bytes())?;
            }
        }
    }
    Ok(answers)
}

/// Processor time of a server for each request, in microseconds.
fn measure(peer: &Peer, case: &Case, connections: usize, span: Duration) -> Result<f64, Error> {
    let server = Server::start(peer)?;
    let mut all = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(&server.addresses[case.port])?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        all.push(Connection { stream, head: Vec::new(), left: None });
    }
    // Warm: machine code where there is some, buffers, threads.
    load(&mut all, case, span / 3)?;
    let before = server.cpu()?;
    let answers = load(&mut all, case, span)?;
    let spent = server.cpu()?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / answers.max(1) as f64)
}

/// The servers that can be run here. What cannot is said.
fn peers(bin: &Path, work: &Path) -> Result<Vec<Peer>, Error> {
    let sources = chore::root().join("benches/io");
    let ours = |name: &str, more: &[&str]| {
        let mut command: Vec<OsString> = vec![bin.into(), sources.join("perilune.lua").into(), work.into()];
        command.extend(more.iter().map(OsString::from));
        Peer { name: name.into(), command }
    };
    let mut found = vec![ours("perilune", &[]), ours("perilune, 2 domains", &["2"])];
    match on_path("go") {
        Some(go) => {
            let server = work.join("go-server");
            let built = Command::new(go)
                .args(["build", "-o"])
                .args([server.as_os_str(), sources.join("go.go").as_os_str()])
                .envs([("GOPROXY", "off"), ("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local")])
                .status()?;
            match built.success() {
                true => found.push(Peer { name: "Go".into(), command: vec![server.into(), work.into()] }),
                false => println!("Go's server was not built"),
            }
        }
        None => println!("Go is not installed"),
    }
    match on_path("node") {
        Some(node) => {
            let command = vec![node.into(), sources.join("node.js").into(), work.into()];
            found.push(Peer { name: "Node.js".into(), command });
        }
        None => println!("Node.js is not installed"),
    }
    Ok(found)
}

fn machine_load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut rounds, mut seconds, mut connections) = (5_u32, 1.5_f64, 64_usize);
    let (mut only, mut bin, mut profile) = (None::<String>, None::<PathBuf>, String::from("release"));
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("rounds") => rounds = parser.value()?.parse::<u32>()?.clamp(1, 100),
            Long("seconds") => seconds = parser.value()?.parse::<f64>()?.clamp(0.1, 60.0),
            Long("connections") => connections = parser.value()?.parse::<usize>()?.clamp(1, 512),
            Long("only") => only = Some(parser.value()?.string()?),
            Long("bin") => bin = Some(parser.value()?.into()),
            Long("profile") => profile = parser.value()?.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    let bin = match bin {
        Some(bin) => bin,
        None => {
            let built =
                chore::cargo().args(["build", "-q", "-p", "perilune-cli", "--profile", &profile]).status()?;
            if !built.success() {
                return Err("perilune does not build".into());
            }
            chore::target_dir().join(&profile).join("perilune")
        }
    };
    let work = chore::target_dir().join("io");
    std::fs::create_dir_all(&work)?;
    for (name, size) in FILES {
        std::fs::write(work.join(name), vec![7; size])?;
    }
    let peers = peers(&bin.canonicalize()?, &work.canonicalize()?)?;
    println!(
        "load of the machine: {}; {connections} connections, {rounds} rounds of {seconds} s",
        machine_load()
    );
    println!(
        "\n| µs of the server per request | {} |",
        peers.iter().map(|p| &*p.name).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|{}", "---|".repeat(peers.len()));
    let mut outcome = Outcome::Passed;
    for case in cases() {
        if only.as_ref().is_some_and(|only| !case.name.contains(&**only)) {
            continue;
        }
        let mut least = vec![f64::INFINITY; peers.len()];
        for round in 0..rounds {
            for (peer, least) in peers.iter().zip(&mut least) {
                chore::progress(&format!("{}, round {}: {}", case.name, round + 1, peer.name));
                match measure(peer, &case, connections, Duration::from_secs_f64(seconds)) {
                    Ok(cost) => *least = least.min(cost),
                    Err(e) => {
                        chore::progress("");
                        println!("{} failed at {}: {e}", peer.name, case.name);
                        outcome = Outcome::Failed;
                    }
                }
            }
        }
        chore::progress("");
        let cells: Vec<String> = least.iter().map(|cost| format!("{cost:.1}")).collect();
        println!("| {} | {} |", case.name, cells.join(" | "));
    }
    println!("\nload of the machine afterwards: {}", machine_load());
    Ok(outcome)
}
