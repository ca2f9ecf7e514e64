//! What a message costs a server: 64 bytes echoed over loopback, processor time of the server's process per
//! message.
//!
//! ```text
//! cargo run --profile fast -p perilune-io --example echo [-- COMMAND]
//! ```
//!
//! Runs a bare server of this file (one thread, `epoll`, no buffers) and `COMMAND` (`target/fast/perilune`)
//! with the server below, told by `epoll` and by `io_uring`, in turn, with 1, 12 and 100 connections. The
//! client is one thread that answers each answer with the next message. What counts are the ratios within one
//! run (of `epoll` to the bare one, of `io_uring` to `epoll`): machines differ, and so do their moods.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SIZE: usize = 64;
const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_millis(700);

const LUA: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local l = assert(net.listen("127.0.0.1:0"))
print(l:endpoint()) io.stdout:flush()
local function serve(c)
  while true do
    local s = c:read()
    if not s then break end
    c:write(s)
  end
  c:close()
end
for c in l do pl.after(0, serve, c) end
"#;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if args.first().is_some_and(|a| a == "server") {
        return bare_server();
    }
    let command = args.first().cloned().unwrap_or_else(|| "target/fast/perilune".into());
    println!(
        "{:>12} {:>12} {:>12} {:>12} {:>8} {:>8}",
        "connections", "bare us", "epoll us", "uring us", "e/b", "u/e"
    );
    for connections in [1, 12, 100] {
        let (mut bare, mut epoll, mut uring) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let this = std::env::current_exe().expect("a path");
            bare.push(measure(Command::new(this).arg("server"), connections));
            for (backend, times) in [("epoll", &mut epoll), ("uring", &mut uring)] {
                let mut lua = Command::new(&command);
                times.push(measure(lua.args(["-e", LUA]).env("PERILUNE_IO", backend), connections));
            }
        }
        let (bare, epoll, uring) = (least(&bare), least(&epoll), least(&uring));
        let (to_bare, to_epoll) = (epoll / bare, uring / epoll);
        println!("{connections:>12} {bare:>12.2} {epoll:>12.2} {uring:>12.2} {to_bare:>8.2} {to_epoll:>8.2}");
    }
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Processor time of the server per message, in microseconds.
fn measure(command: &mut Command, connections: usize) -> f64 {
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().expect("the server starts");
    let mut address = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("its address");
    let clients: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let client = TcpStream::connect(address.trim()).expect("a connection");
            client.set_nodelay(true).expect("an option");
            client
        })
        .collect();
    load(&clients, Duration::from_millis(150));
    let before = cpu(&child);
    let messages = load(&clients, SPAN);
    let spent = cpu(&child) - before;
    drop(clients);
    child.kill().expect("a live server");
    child.wait().expect("a child");
    spent / messages as f64 * 1e6
}

/// Processor time of a process so far, in seconds.
fn cpu(child: &Child) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads");
    tasks
        .map(|task| {
            let text = std::fs::read_to_string(task.expect("a thread").path().join("schedstat"));
            let nanos = text.unwrap_or_default();
            nanos.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
        })
        .sum()
}

/// Sends a message on each connection, and the next one for each answer; how many came back.
fn load(clients: &[TcpStream], span: Duration) -> usize {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    for (n, client) in clients.iter().enumerate() {
        epoll::add(&set, client, EventData::new_u64(n as u64), EventFlags::IN).expect("watched");
        (&*client).write_all(&[7; SIZE]).expect("sent");
    }
    let end = Instant::now() + span;
    let mut events: Vec<Event> = Vec::with_capacity(128);
    let (mut messages, mut open) = (0, clients.len());
    let mut answer = [0; SIZE];
    while open > 0 {
        events.clear();
        epoll::wait(&set, spare_capacity(&mut events), None).expect("events");
        let over = Instant::now() >= end;
        for event in &events {
            let mut client = &clients[event.data.u64() as usize];
            client.read_exact(&mut answer).expect("an answer");
            messages += 1;
            if over {
                open -= 1;
            } else {
                client.write_all(&answer).expect("sent");
            }
        }
    }
    messages
}

fn bare_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("an option");
    println!("{}", listener.local_addr().expect("its address"));
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    epoll::add(&set, &listener, EventData::new_u64(u64::MAX), EventFlags::IN).expect("watched");
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(128);
    let mut buffer = [0; 4096];
    loop {
        events.clear();
        if epoll::wait(&set, spare_capacity(&mut events), None).is_err() {
            continue;
        }
        for event in &events {
            if event.data.u64() == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).expect("an option");
                    let _ = sockopt::set_tcp_nodelay(&stream, true);
                    let flags = EventFlags::IN | EventFlags::ET;
                    epoll::add(&set, &stream, EventData::new_u64(streams.len() as u64), flags)
                        .expect("watched");
                    streams.push(stream);
                }
                continue;
            }
            let stream = streams[event.data.u64() as usize].as_fd();
            while let Ok((n, _)) = recv(stream, &mut buffer[..], RecvFlags::empty()) {
                if n == 0 {
                    break;
                }
                let _ = send(stream, &buffer[..n], SendFlags::NOSIGNAL);
                if n < buffer.len() {
                    break;
                }
            }
        }
    }
}
