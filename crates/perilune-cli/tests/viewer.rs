//! `perilune trace show`, `render` and `export`: what they write, what the server answers, and the page in a
//! real browser.

mod browser;

use browser::Browser;
use perilune_test::{Folder, Limited};
use perilune_trace::layout::{self, DefinitionKind};
use perilune_trace::read::RawEvent;
use perilune_trace::{FiberRef, Kind, ObjectKind, ObjectRef, recording};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_perilune");

/// A folder of its own.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::new())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        Limited::run(Command::new(BIN).args(words).current_dir(&self.0))
    }

    /// Runs a command that must succeed.
    fn done(&self, words: &[&str]) {
        let out = self.run(words);
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// A server, ended at the end.
struct Server {
    _running: Limited,
    url: String,
}

impl Server {
    fn start(place: &Place, file: &str) -> Server {
        let mut command = Command::new(BIN);
        command.args(["trace", "show", "--no-open", file]).current_dir(&place.0);
        let mut running = Limited::start_with(&mut command, Stdio::null());
        let url = running.line().unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Server { _running: running, url }
    }

    /// Address and path with the token.
    fn parts(&self) -> (&str, &str) {
        self.url.strip_prefix("http://").and_then(|u| u.split_once('/')).unwrap()
    }

    fn get(&self, path: &str, host: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.parts().0).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(n) = line.strip_prefix("Content-Length: ") {
                length = n.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (head.lines().next().unwrap().to_owned(), body)
    }
}

const PROGRAM: &str = r#"
local pl = require "perilune"
local pool = pl.pool.default()
local function job(k)
  local t = {}
  for i = 1, 2000 do t[i] = { i, tostring(i * k) } end
  return #t
end
local span <close> = pl.trace.span("phase one")
pl.trace.mark("halfway <b>")
local tasks = {}
for i = 1, 6 do tasks[i] = pool:async(job, i) end
local sum = 0
for i = 1, 6 do sum = sum + tasks[i]:await(); pl.trace.counter("jobs done", i) end
local jobs = pl.channel.new(2, "jobs")
local task = pool:async(function(jobs) local n = 0 for j in jobs do n = n + j end return n end, jobs)
for i = 1, 20 do jobs:send(i) end
jobs:close()
pl.sleep(0.01)
pl.trace.log("the sum is " .. task:await())
print(sum)
"#;

/// A recording of a program that does a bit of everything.
fn recorded() -> Place {
    let place = Place::new();
    fs::write(place.file("work.lua"), PROGRAM).unwrap();
    place.done(&["trace", "record", "-o", "work.rec", "work.lua"]);
    place
}

#[test]
fn exports_and_pictures_are_written() {
    let place = recorded();
    place.done(&["trace", "export", "--to", "perfetto", "-o", "out.pftrace", "work.rec"]);
    place.done(&["trace", "export", "--to", "chrome", "-o", "out.json", "work.rec"]);
    place.done(&["trace", "render", "-o", "out.svg", "work.rec"]);
    place.done(&["trace", "render", "-o", "part.svg", "--from", "1ms", "--show", "2ms", "work.rec"]);
    let perfetto = fs::read(place.file("out.pftrace")).unwrap();
    assert!(perfetto.len() > 1000 && perfetto[0] == 0x0a, "packets");
    let chrome = fs::read_to_string(place.file("out.json")).unwrap();
    for part in ["\"phase one\"", "\"halfway \\u003cb>\"", "work.lua", "the sum is 210", "\"jobs done\""] {
        assert!(chrome.contains(part), "{part}");
    }
    let svg = fs::read_to_string(place.file("out.svg")).unwrap();
    for part in ["phase one", "halfway &lt;b&gt;", "jobs done", "domain 1: main"] {
        assert!(svg.contains(part), "{part}");
    }
    balanced(&svg);
    balanced(&fs::read_to_string(place.file("part.svg")).unwrap());
    // What makes no sense is said.
    assert_eq!(place.run(&["trace", "export", "work.rec"]).status.code(), Some(2));
    assert_eq!(place.run(&["trace", "export", "--to", "x", "work.rec"]).status.code(), Some(2));
    assert_eq!(place.run(&["trace", "render", "work.rec"]).status.code(), Some(2));
    let late = place.run(&["trace", "render", "-o", "out.html", "--from", "1h", "work.rec"]);
    assert!(String::from_utf8_lossy(&late.stderr).contains("the trace ends after"), "{late:?}");
}

/// Every element of XML is closed.
fn balanced(xml: &str) {
    let mut open = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_server_tells_only_who_knows_the_address() {
    let place = recorded();
    fs::write(place.file("secret"), "nobody's business").unwrap();
    let server = Server::start(&place, "work.rec");
    let (host, path) = server.parts();
    let ok = "HTTP/1.1 200 OK";
    assert_eq!(server.get(path, host).0, ok);
    assert_eq!(server.get("", host).0, "HTTP/1.1 404 Not Found");
    assert_eq!(server.get("0123/", host).0, "HTTP/1.1 404 Not Found");
    assert_eq!(server.get(path, "elsewhere.example").0, "HTTP/1.1 403 Forbidden");
    assert_eq!(server.get(&format!("{path}source?file=secret&line=1"), host).0, "HTTP/1.1 404 Not Found");
    let (status, body) = server.get(&format!("{path}source?file=work.lua&line=5"), host);
    assert_eq!(status, ok);
    assert!(String::from_utf8(body).unwrap().contains("local t = {}"));
    assert_eq!(
        server.get(&format!("{path}tile?from=0&to=9&resolution=0&rows=0-99999"), host).0,
        "HTTP/1.1 404 Not Found"
    );
    let (status, body) = server.get(&format!("{path}statistics?from=0&to=99999999999"), host);
    assert_eq!(status, ok);
    let statistics = String::from_utf8(body).unwrap();
    assert!(statistics.contains("[\"phase one\",10,") && statistics.contains("[\"mark\",1]"), "{statistics}");
    let (_, body) = server.get(&format!("{path}search?word=CHANNEL+%27jobs"), host);
    assert!(!String::from_utf8(body).unwrap().contains("\"total\":0"));
}

/// The page does what its help says. `rows` must be there.
fn try_page(b: &mut Browser, url: &str, name: &str) {
    b.open(url);
    b.settle();
    assert!(b.js("document.title").starts_with("work.lua"));
    let names = b.js("[...document.querySelectorAll('.name')].map(e => e.textContent).join('|')");
    for row in ["domain 1: main", "main code", "jobs done", "collections", "fiber 0"] {
        assert!(names.contains(row), "{row} in {names}");
    }
    assert_eq!(b.js("document.getElementById('remark').hidden"), "true");
    b.screenshot(&format!("{name}-whole"));

    // Something has been drawn: not all of the canvas is of one colour.
    let colours = "(() => { const c = document.getElementById('canvas'), d = \
        c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set(); \
        for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; \
        })()";
    assert!(b.number(colours) > 8.0);

    // The wheel zooms in where the pointer is, and out again.
    let (x, y) = (600.0, 300.0);
    let left = b.number("document.getElementById('canvas').getBoundingClientRect().left");
    let under =
        format!("(v => v.from + ({x} - {left}) / __perilune.width * (v.to - v.from))(__perilune.view)");
    let (span, before) = (b.number("__perilune.view.to - __perilune.view.from"), b.number(&under));
    b.wheel(x, y, -400.0);
    let (zoomed, after) = (b.number("__perilune.view.to - __perilune.view.from"), b.number(&under));
    assert!(zoomed < span * 0.7, "{zoomed} of {span}");
    assert!((after - before).abs() < zoomed * 0.01, "the pointer stays where it was: {before} {after}");
    // Dragging moves.
    let from = b.number("__perilune.view.from");
    b.drag((600.0, 400.0), (500.0, 400.0));
    let moved = b.number("__perilune.view.from") - from;
    let width = b.number("__perilune.width");
    assert!((moved / zoomed - 100.0 / width).abs() < 0.02, "{moved} of {zoomed}");
    // Keys.
    b.key("d");
    assert!(b.number("__perilune.view.from") > from + moved);
    b.key("f");
    assert_eq!(b.number("__perilune.view.to - __perilune.view.from"), span);

    // Dragging in the ruler selects, and statistics appear.
    let ruler = b.number("document.getElementById('axis').getBoundingClientRect().top") + 10.0;
    b.drag((left + 50.0, ruler), (left + width - 50.0, ruler));
    b.wait_for("!!__perilune.stretch.statistics");
    let text = b.js("document.getElementById('details').textContent");
    for part in ["Statistics of", "Time of each domain", "domain 1: main", "What was waited for", "phase one"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    b.screenshot(&format!("{name}-statistics"));
    let share = b.js("(s => { const [g, sums] = s.groups[0]; return sums.reduce((a, b) => a + b) <= s.to - \
        s.from; })(__perilune.stretch.statistics)");
    assert_eq!(share, "true", "no domain has more time than there was");

    // Searching jumps to the hit and shows what it is.
    b.key("/");
    for c in "phase".chars() {
        b.key(&c.to_string());
    }
    b.key("Enter");
    b.wait_for("__perilune.found.hits.length > 0 && !!__perilune.chosen");
    assert_eq!(b.js("__perilune.describe(__perilune.chosen)"), "phase one");
    assert_eq!(b.js("document.getElementById('hits').textContent"), "1 of 1");
    b.js("document.getElementById('canvas').focus()");
    b.key("Escape");
    assert_eq!(b.js("__perilune.chosen"), "null");

    // A click on a waiting bar says what it waits for, where, and who ended it.
    b.js("document.getElementById('word').value = ''");
    b.key("f");
    let bar = "(() => { const p = __perilune, rows = p.store.whole.rows; let best = null; \
        for (const line of p.lines) { const l = !line.group && rows.get(line.row) && \
        rows.get(line.row).levels[0]; if (!l) continue; \
        for (let i = 0; i < l.n; i++) if (l.cls[i] === 2 && (!best || l.end[i] - l.start[i] > best[2])) best \
        = [(l.start[i] + l.end[i]) / 2, line.y, l.end[i] - l.start[i]]; } return best; })()";
    let at = b.js(&format!("(b => __perilune.xOf(b[0]) + ' ' + b[1])({bar})"));
    let (bar_x, bar_y) = at.split_once(' ').unwrap();
    let top = b.number(
        "document.getElementById('canvas').getBoundingClientRect().top - \
         document.getElementById('scroll').scrollTop",
    );
    b.click(left + bar_x.parse::<f64>().unwrap(), top + bar_y.parse::<f64>().unwrap() + 10.0);
    b.wait_for("!!__perilune.chosen && !!__perilune.chosen.links");
    b.settle();
    let text = b.js("document.getElementById('details').textContent");
    for part in ["state", "waiting", "duration", "work.lua:", "Where"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    b.screenshot(&format!("{name}-chosen"));
    // On to the bar behind it.
    let start = b.number("__perilune.chosen.start");
    b.key(".");
    assert!(b.number("__perilune.chosen.start") > start);
    b.key("Enter");
    assert!(b.number("__perilune.view.to - __perilune.view.from") < span);

    // A group is closed and opened by its name.
    let rows = b.number("__perilune.lines.length");
    b.js("document.querySelector('.name.group').click()");
    b.settle();
    assert!(b.number("__perilune.lines.length") < rows);
    b.js("document.querySelector('.name.group').click()");
    // The help is a dialog.
    b.key("?");
    assert_eq!(b.js("document.getElementById('keys').open"), "true");
    b.key("Escape");
    b.js("document.getElementById('keys').close()");

    // At night.
    b.call("Emulation.setEmulatedMedia", r#"{"features":[{"name":"prefers-color-scheme","value":"dark"}]}"#);
    b.key("f");
    b.screenshot(&format!("{name}-dark"));
    b.call("Emulation.setEmulatedMedia", r#"{"features":[]}"#);
    assert!(b.complaints.is_empty(), "{:#?}", b.complaints);
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(mut b) = Browser::start(1500, 900) else { return };
    let place = recorded();
    place.done(&["trace", "render", "-o", "work.html", "work.rec"]);
    try_page(&mut b, &format!("file://{}", place.file("work.html").display()), "embedded");
    let server = Server::start(&place, "work.rec");
    try_page(&mut b, &server.url, "served");
    // The source is at hand.
    b.wait_for("document.querySelectorAll('pre.source').length >= 0");
}

/// A recording that nobody has to wait for: `domains` of them for ten seconds, `events` in all.
fn made_up(file: &Path, domains: u32, events: u64) {
    let mut out = recording::MAGIC.to_vec();
    for word in [0x0102_0304, recording::VERSION, layout::VERSION, 0] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    let chunk = |out: &mut Vec<u8>, kind: recording::Chunk, body: &[u8]| {
        out.extend_from_slice(&(kind as u32).to_ne_bytes());
        out.extend_from_slice(&0u32.to_ne_bytes());
        out.extend_from_slice(&(body.len() as u64).to_ne_bytes());
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(8), 0);
    };
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    chunk(&mut out, recording::Chunk::Session, &words(&[1, 1, 0, 0, 1_700_000_000_000_000_000]));
    chunk(&mut out, recording::Chunk::Title, b"made-up.lua");
    let mut names = Vec::new();
    for n in 1..=20 {
        let text = format!("function{n} (made-up.lua:{n})");
        names.extend_from_slice(&(text.len() as u32).to_ne_bytes());
        names.extend_from_slice(&(DefinitionKind::String as u32).to_ne_bytes());
        names.extend_from_slice(text.as_bytes());
        names.resize(names.len().next_multiple_of(8), 0);
    }
    chunk(&mut out, recording::Chunk::Definitions, &names);
    let each = events / domains as u64;
    for d in 1..=domains {
        let (mut batch, mut seed, mut ns) = (Vec::new(), d as u64, 0u64);
        let step = 7_400_000_000 / each;
        let add = |batch: &mut Vec<RawEvent>, ns: &mut u64, part: u64, kind: Kind, c: u16, a: u64, b: u64| {
            *ns += part;
            batch.push(RawEvent { ticks: *ns, ring: d, kind: kind as u16, c, writer: d as u64, a, b });
        };
        add(&mut batch, &mut ns, 0, Kind::DomainBegin, 0, d as u64, 0);
        add(&mut batch, &mut ns, 0, Kind::DomainEnter, 0, d as u64, 100 + d as u64);
        while (batch.len() as u64) < each {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let fiber = FiberRef::new(d, 0, (seed >> 60) as u32 & 7).0;
            let task = ObjectRef::new(ObjectKind::Task, batch.len() as u64).0;
            let channel = ObjectRef::new(ObjectKind::Channel, seed >> 62).0;
            let part = |n: u64| step * n * ((seed >> 50 & 7) + 1) / 4;
            add(&mut batch, &mut ns, 0, Kind::TaskCreated, 0, task, seed >> 33 & 15);
            add(&mut batch, &mut ns, part(1), Kind::FiberRun, 0, fiber, 0);
            add(&mut batch, &mut ns, 0, Kind::TaskStart, 0, task, fiber);
            if seed >> 40 & 15 == 0 {
                add(&mut batch, &mut ns, part(2), Kind::StepBegin, 0, 0, 0);
                add(&mut batch, &mut ns, part(1), Kind::MinorBegin, 0, 0, 0);
                add(&mut batch, &mut ns, part(3), Kind::MinorEnd, 0, 1 << 20, 1 << 10);
                add(&mut batch, &mut ns, 1, Kind::StepEnd, 0, 1 << 22 | seed >> 44, 1 << 23);
            }
            add(&mut batch, &mut ns, part(5), Kind::WaitBegin, 1, channel, 0);
            add(&mut batch, &mut ns, 1, Kind::FiberPark, 0, fiber, 0);
            add(&mut batch, &mut ns, part(1), Kind::Wake, 0, fiber, channel);
        }
        recording::encode(&batch, &mut out);
    }
    chunk(&mut out, recording::Chunk::End, &words(&[10_000_000_000]));
    fs::write(file, out).unwrap();
}

/// Ten seconds of eight domains. `PERILUNE_VIEWER_EVENTS` makes it larger: 15000000 are half a gigabyte.
#[test]
fn a_large_trace_opens_at_once() {
    let Some(mut b) = Browser::start(1400, 900) else { return };
    let place = Place::new();
    let events = std::env::var("PERILUNE_VIEWER_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(800_000);
    made_up(&place.file("large.rec"), 8, events);
    let began = Instant::now();
    let server = Server::start(&place, "large.rec");
    let ready = began.elapsed();
    let painted = b.open(&server.url);
    eprintln!("{events} events: served after {ready:?}, drawn {painted:?} later");
    // Debug builds on busy machines are slow; what is guarded against is work that grows with the trace where
    // it must not.
    assert!(painted < Duration::from_secs(300), "{painted:?}");
    b.settle();
    b.screenshot("large-whole");
    // Looking closer costs the same at every depth.
    for n in 0..8 {
        let began = Instant::now();
        b.wheel(700.0, 300.0, -240.0);
        b.wheel(700.0, 300.0, -240.0);
        assert!(began.elapsed() < Duration::from_secs(300), "{n}: {:?}", began.elapsed());
    }
    assert!(b.number("__perilune.view.to - __perilune.view.from") < 1e8);
    assert!(b.number("__perilune.store.detail.resolution") < 1e5);
    b.screenshot("large-deep");
    b.key("v");
    b.wait_for("!!__perilune.stretch.statistics");
    assert!(b.js("document.getElementById('details').textContent").contains("function"));
    // The page of a file keeps to its budget and says so.
    place.done(&["trace", "render", "--bars", "60000", "-o", "large.html", "large.rec"]);
    let size = fs::metadata(place.file("large.html")).unwrap().len();
    assert!(size < 4 << 20, "{size}");
    b.open(&format!("file://{}", place.file("large.html").display()));
    assert!(b.js("document.getElementById('remark').textContent").contains("shorter ones are added up"));
    b.screenshot("large-embedded");
    assert!(b.complaints.is_empty(), "{:#?}", b.complaints);
}
