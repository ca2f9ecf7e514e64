//! What a request costs a server: "hello" on connections that stay open, processor time of the server's
//! process per request.
//!
//! ```text
//! cargo run --profile fast -p perilune-http --example hello [-- COMMAND]
//! ```
//!
//! Runs in turn: a bare server of this file (one thread, `epoll`, an answer that never changes to whatever
//! ends with an empty line), `COMMAND` (`target/fast/perilune`) with a server on `perilune.http`, and
//! `COMMAND` with a server on `perilune.net` that gives the bare server's answer, so that one sees what HTTP
//! adds to waiting. The client is one thread that answers each answer with the next request. What counts is
//! the ratio within one run: machines differ, and so do their moods.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_millis(700);
const REQUEST: &[u8] =
    b"GET /hello HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n\r\n";
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
      content-length: 5\r\n\r\nhello";

const HTTP: &str = r#"
local http = require "perilune.http"
local srv = http.server()
srv:get("/hello", function() return { status = 200, headers = { ["content-type"] = "text/plain" }, body = "hello" } end)
srv:run("127.0.0.1:0", function(l) print(l:endpoint()) io.stdout:flush() end)
"#;

const NET: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local l = assert(net.listen("127.0.0.1:0"))
print(l:endpoint()) io.stdout:flush()
local answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 5\r\n\r\nhello"
local function serve(c)
  while c:read_until("\r\n\r\n") do c:write(answer) end
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
    println!("{:>12} {:>10} {:>10} {:>10} {:>8}", "connections", "bare us", "net us", "http us", "ratio");
    for connections in [1, 64, 256] {
        let mut times = [f64::INFINITY; 3];
        for _ in 0..ROUNDS {
            let this = std::env::current_exe().expect("a path");
            let servers = [
                Command::new(this).arg("server"),
                Command::new(&command).args(["-e", NET]),
                Command::new(&command).args(["-e", HTTP]),
            ]
            .map(|server| measure(server, connections));
            for (least, time) in times.iter_mut().zip(servers) {
                *least = least.min(time);
            }
        }
        let [bare, net, http] = times;
        println!("{connections:>12} {bare:>10.2} {net:>10.2} {http:>10.2} {:>8.2}", http / bare);
    }
}

/// Processor time of the server per request, in microseconds.
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
    let requests = load(&clients, SPAN);
    let spent = cpu(&child) - before;
    drop(clients);
    child.kill().expect("a live server");
    child.wait().expect("a child");
    spent / requests as f64 * 1e6
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

/// Sends a request on each connection, and the next one for each answer; how many were answered.
fn load(clients: &[TcpStream], span: Duration) -> usize {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    for (n, client) in clients.iter().enumerate() {
        epoll::add(&set, client, EventData::new_u64(n as u64), EventFlags::IN).expect("watched");
        (&*client).write_all(REQUEST).expect("sent");
    }
    let end = Instant::now() + span;
    let mut events: Vec<Event> = Vec::with_capacity(256);
    let (mut requests, mut open) = (0, clients.len());
    let mut answer = [0; 4096];
    while open > 0 {
        events.clear();
        epoll::wait(&set, spare_capacity(&mut events), None).expect("events");
        let over = Instant::now() >= end;
        for event in &events {
            let mut client = &clients[event.data.u64() as usize];
            let n = client.read(&mut answer).expect("an answer");
            assert!(answer[..n].ends_with(b"\r\n\r\nhello"), "{}", String::from_utf8_lossy(&answer[..n]));
            requests += 1;
            if over {
                open -= 1;
            } else {
                client.write_all(REQUEST).expect("sent");
            }
        }
    }
    requests
}

fn bare_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("an option");
    println!("{}", listener.local_addr().expect("its address"));
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    epoll::add(&set, &listener, EventData::new_u64(u64::MAX), EventFlags::IN).expect("watched");
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(256);
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
                if buffer[..n].ends_with(b"\r\n\r\n") {
                    let _ = send(stream, ANSWER, SendFlags::NOSIGNAL);
                }
                if n < buffer.len() {
                    break;
                }
            }
        }
    }
}
