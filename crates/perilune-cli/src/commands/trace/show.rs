//! `perilune trace show`: the viewer, served to a browser of this machine.
//!
//! The server listens on the loopback address, at a port that the system chooses, and answers only below a
//! path with a random word in it: other users of the machine, and pages of other origins in the browser, do
//! not know it. It ends with Ctrl-C. Requests are short and answered from memory, so one thread for each
//! connection does.

use super::render::directory;
use crate::commands::observe;
use perilune_see::Trace;
use perilune_see::view::Timeline;
use perilune_see::view::page::PageOptions;
use perilune_see::view::serve::{Answer, Viewer};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to show.
pub struct Show {
    /// Opens a browser.
    pub open: bool,
    /// Of the page.
    pub page: PageOptions,
}

impl Default for Show {
    fn default() -> Show {
        Show { open: true, page: PageOptions { directory: directory(), ..PageOptions::default() } }
    }
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut show = Show::default();
    let request = observe::read("trace show", &words[3..], &mut |name, parser| {
        match name {
            "--no-open" => show.open = false,
            "--link" => show.page.link = parser.value()?.to_string_lossy().into_owned(),
            _ => return Ok(false),
        }
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    request.finish(request.trace(&request.session()).and_then(|seen| {
        request.remarks(&seen.trace);
        serve(request.command, seen.trace, show)?;
        Ok(seen.code)
    }))
}

/// Shows a trace until the process is ended.
///
/// # Errors
/// No port can be had.
pub fn serve(command: &str, trace: Trace, show: Show) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let token = token()?;
    let url = format!("http://127.0.0.1:{}/{token}/", listener.local_addr()?.port());
    let began = Instant::now();
    let timeline = Timeline::new(&trace);
    drop(trace);
    let (bars, took) = (timeline.bars(), began.elapsed());
    let viewer = Arc::new(Viewer::new(timeline, show.page));
    eprintln!("perilune {command}: {bars} bars ({:.1} s); Ctrl-C ends", took.as_secs_f64());
    // A line of its own on standard output: for whoever started this.
    println!("{url}");
    io::stdout().flush()?;
    if show.open {
        open(&url);
    }
    let token: Arc<str> = token.into();
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let (viewer, token) = (Arc::clone(&viewer), Arc::clone(&token));
        let connection = move || {
            // A browser that has gone away is no news.
            let _ = converse(&stream, &viewer, &token);
        };
        let _ = std::thread::Builder::new().spawn(connection);
    }
    Ok(())
}

/// A word that nobody guesses.
fn token() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Opens a browser, if there is a desktop to open it on.
fn open(url: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|v| std::env::var_os(v).is_some());
    if has_desktop && let Some(opener) = perilune_measure::on_path("xdg-open") {
        let mut command = Command::new(opener);
        let _ = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
}

/// Most bytes of a request's head.
const MOST_HEAD: u64 = 64 << 10;

/// Answers requests of a connection, one after the other.
fn converse(stream: &TcpStream, viewer: &Viewer, token: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        let mut line = String::new();
        let mut limited = (&mut reader).take(MOST_HEAD);
        loop {
            line.clear();
            if limited.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let answer = answer(&head, viewer, token);
        write(stream, answer)?;
    }
}

fn answer(head: &str, viewer: &Viewer, token: &str) -> Result<Answer, &'static str> {
    let mut words = head.split_whitespace();
    if words.next() != Some("GET") {
        return Err("405 Method Not Allowed");
    }
    // A page elsewhere whose name is made to mean this machine must not get in.
    let host = head.lines().skip(1).filter_map(|l| l.split_once(':'));
    let host = host.filter(|(n, _)| n.eq_ignore_ascii_case("host")).map(|(_, v)| v.trim()).next();
    if !host.is_some_and(|h| h.starts_with("127.0.0.1:") || h.starts_with("localhost:")) {
        return Err("403 Forbidden");
    }
    let target = words.next().unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix('/').and_then(|p| p.strip_prefix(token)).and_then(|p| p.strip_prefix('/'));
    path.and_then(|path| viewer.answer(path, query)).ok_or("404 Not Found")
}

fn write(mut stream: &TcpStream, answer: Result<Answer, &'static str>) -> io::Result<()> {
    let (status, content_type, body) = match &answer {
        Ok(answer) => ("200 OK", answer.content_type, &answer.body[..]),
        Err(status) => (*status, "text/plain", status.as_bytes()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
