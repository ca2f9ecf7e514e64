//! Requests and peers, written: the parts of `perilune latency` that say what the time of a server's requests
//! went to, and what kept it and its peers from each other.
//!
//! The figures are those of `perilune_see::analyse::{requests, peers}`.

use super::table::{Table, percent};
use super::trace::describe::{Describe, bytes, time};
use perilune_measure::json::Json;
use perilune_see::analyse::offcpu::Cause;
use perilune_see::analyse::peers::{Finding, Trouble};
use perilune_see::analyse::requests::{Parts, Request, Requests, Waited};
use perilune_see::{Trace, Who};
use perilune_trace::ObjectRef;
use perilune_trace::event::Slowness;
use std::io::{self, Write};

/// A part that is so much of the whole is named.
const MOST: f64 = 0.5;

fn name(trace: &Trace, number: u64) -> String {
    if number == 0 { "?".to_owned() } else { trace.definitions.string(number) }
}

fn cause(trace: &Trace, waited: &Waited) -> String {
    let what = match waited.cause {
        Cause::Wait(verb, object) => trace.definitions.wait(verb, object),
        Cause::Call(name) => format!("in {}", trace.definitions.string(name)),
    };
    match trace.definitions.place(waited.stack) {
        Some(place) => format!("{what} at {place}"),
        None => what,
    }
}

/// What most of the time went to, in words; nothing if it is no one thing.
fn mostly(trace: &Trace, parts: &Parts, longest: Option<&Waited>) -> Option<String> {
    let (word, ns) = parts.all().into_iter().max_by_key(|(_, ns)| *ns)?;
    if ns == 0 || (ns as f64) < parts.total() as f64 * MOST {
        return None;
    }
    Some(match word {
        "queue" => "came while others ran".to_owned(),
        "ran" => "ran".to_owned(),
        "collected" => "stopped by the collector".to_owned(),
        "ready" => "could have run while others did".to_owned(),
        "writing" => "the client takes its answer slowly".to_owned(),
        _ => longest.map_or_else(|| "waited".to_owned(), |waited| cause(trace, waited)),
    })
}

/// The section about requests; nothing if there were none.
pub fn text(trace: &Trace, found: &Requests, top: usize, out: &mut dyn Write) -> io::Result<()> {
    if found.routes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nrequests (queue: had come, and nobody had begun; ready: could have run, and others did)"
    )?;
    let parts = ["queue", "ran", "collected", "waited", "ready", "writing"];
    let head = ["request", "count", "failed", "mean", "p50", "p99", "max"];
    let mut table = Table::new(head.into_iter().chain(parts).chain(["mostly"]));
    for route in found.routes.iter().take(top) {
        let took = &route.took;
        let mut cells = vec![
            name(trace, route.name),
            took.count().to_string(),
            if route.failed == 0 { String::new() } else { route.failed.to_string() },
        ];
        cells.extend([took.mean(), took.percentile(0.5), took.percentile(0.99), took.max()].map(time));
        cells.extend(route.parts.all().map(|(_, ns)| percent(ns, route.parts.total())));
        cells.push(mostly(trace, &route.parts, route.waits.first()).unwrap_or_default());
        table.row(cells);
    }
    table.write(out, 1)?;
    if found.routes.len() > top {
        writeln!(out, "  (and {} more; --top N shows N)", found.routes.len() - top)?;
    }
    if found.open > 0 {
        writeln!(out, "  ({} had not been answered at the end)", found.open)?;
    }
    writeln!(out, "\nthe slowest requests")?;
    let head = ["request", "took", "at", "status"];
    let mut table = Table::new(head.into_iter().chain(parts).chain(["connection", "mostly"]));
    for request in found.slowest.iter().take(top.min(10)) {
        let mut cells = vec![
            name(trace, request.name),
            time(request.parts.total()),
            format!("{:.6} s", request.at as f64 / 1e9),
            request.status.to_string(),
        ];
        cells.extend(request.parts.all().map(|(_, ns)| if ns == 0 { String::new() } else { time(ns) }));
        cells.push(connection(trace, request.object));
        cells.push(mostly(trace, &request.parts, request.longest.as_ref()).unwrap_or_default());
        table.row(cells);
    }
    table.write(out, 2)
}

/// Its two ends.
fn connection(trace: &Trace, object: ObjectRef) -> String {
    let text = if object == ObjectRef::NONE { String::new() } else { trace.definitions.object(object) };
    text.strip_prefix("connection ").map_or(text.clone(), str::to_owned)
}

/// Where it is, as well as is known.
fn place(trace: &Trace, finding: &Finding) -> String {
    match trace.definitions.place(finding.stack) {
        Some(place) => place,
        None if finding.name != 0 => format!("function {}", trace.definitions.string(finding.name)),
        None if finding.domain != 0 => Describe::new(trace).domain(finding.domain),
        None => connection(trace, finding.object),
    }
}

/// What is wrong, what it cost, and what to do.
pub fn says(trace: &Trace, finding: &Finding) -> String {
    let Finding { count, objects, .. } = *finding;
    let (place, took, longest) = (place(trace, finding), time(finding.ns), time(finding.longest));
    let which = match objects {
        1 => connection(trace, finding.object),
        n => format!("{} and {} more", connection(trace, finding.object), n - 1),
    };
    let waits = if count == 1 { "1 wait".to_owned() } else { format!("{count} waits") };
    let cost = format!("{waits}, {took} in all, {longest} at most, {which}");
    let cost_of_others = format!("{waits}, {took} in all, {which}");
    match finding.trouble {
        Trouble::Slow(Slowness::Held) => format!(
            "{place}: Nagle's algorithm holds the rest of a message back until the peer's delayed \
             acknowledgement ({cost}): write a message with one call, or set nodelay = true"
        ),
        Trouble::Slow(Slowness::Peer) => format!(
            "{place}: the peer takes its time to answer ({cost}): all that was asked had been sent, so look \
             at the peer; ask for several things at once, or limit the wait with pl.timeout"
        ),
        Trouble::Slow(Slowness::Pieces) => format!(
            "{place}: the peer's messages come in pieces ({cost}): a part was here and the rest was not, so \
             the peer writes it late, or its Nagle's algorithm holds it back: let it write a message with \
             one call"
        ),
        Trouble::Slow(Slowness::Lost) => {
            format!("{place}: segments were lost and sent again ({cost}): the network drops them")
        }
        Trouble::Slow(Slowness::Full) => format!(
            "{place}: the peer does not read what is written ({cost}): its buffers and ours are full; give \
             it write_timeout, or send it less"
        ),
        Trouble::SmallWrites => format!(
            "{place}: {} in {count} pieces of {} on average, each a system call and a packet of its own \
             ({which}): leave flush out, or write what belongs together with one call",
            bytes(finding.bytes),
            bytes(finding.bytes / count.max(1)),
        ),
        Trouble::Starved => format!(
            "{place}: runs for up to {longest} without waiting; others whose waits were over had to wait for \
             it ({cost_of_others}): call pl.yield() in its loop, or give it to a pool"
        ),
    }
}

/// The section about peers; nothing if there is nothing to say.
pub fn findings(trace: &Trace, found: &[Finding], top: usize, out: &mut dyn Write) -> io::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nconnections: what made them slow")?;
    for finding in found.iter().take(top) {
        writeln!(out, "  {}: {}", finding.trouble.name(), says(trace, finding))?;
    }
    if found.len() > top {
        writeln!(out, "  (and {} more; --top N shows N)", found.len() - top)?;
    }
    Ok(())
}

fn number(n: u64) -> Json {
    Json::Number(n as f64)
}

fn parts(parts: &Parts) -> Json {
    Json::object(parts.all().map(|(name, ns)| (name, number(ns))))
}

fn waited(trace: &Trace, waited: &Waited) -> Json {
    let place = trace.definitions.place(waited.stack).map_or(Json::Null, Json::Text);
    let what = match waited.cause {
        Cause::Wait(verb, object) => trace.definitions.wait(verb, object),
        Cause::Call(name) => trace.definitions.string(name),
    };
    Json::object([("for", Json::Text(what)), ("where", place), ("ns", number(waited.ns))])
}

/// Requests as JSON.
pub fn json(trace: &Trace, found: &Requests) -> Json {
    let names = Describe::new(trace);
    let routes = found.routes.iter().map(|route| {
        let took = &route.took;
        Json::object([
            ("name", Json::Text(name(trace, route.name))),
            ("protocol", Json::Text(route.protocol.word().to_owned())),
            ("count", number(took.count())),
            ("failed", number(route.failed)),
            ("mean_ns", number(took.mean())),
            ("p50_ns", number(took.percentile(0.5))),
            ("p99_ns", number(took.percentile(0.99))),
            ("max_ns", number(took.max())),
            ("parts_ns", parts(&route.parts)),
            ("waits", Json::List(route.waits.iter().take(10).map(|w| waited(trace, w)).collect())),
        ])
    });
    let one = |request: &Request| {
        let fiber = names.fiber(request.fiber, Who::Domain(request.fiber.domain()));
        Json::object([
            ("name", Json::Text(name(trace, request.name))),
            ("ns", number(request.parts.total())),
            ("at_ns", number(request.at)),
            ("status", number(request.status as u64)),
            ("fiber", Json::Text(fiber)),
            ("connection", Json::Text(connection(trace, request.object))),
            ("parts_ns", parts(&request.parts)),
            ("longest_wait", request.longest.as_ref().map_or(Json::Null, |w| waited(trace, w))),
        ])
    };
    Json::object([
        ("by_name", Json::List(routes.collect())),
        ("slowest", Json::List(found.slowest.iter().map(one).collect())),
        ("open", number(found.open)),
    ])
}

/// Findings as JSON.
pub fn findings_json(trace: &Trace, found: &[Finding]) -> Json {
    let list = found.iter().map(|finding| {
        Json::object([
            ("finding", Json::Text(finding.trouble.name().to_owned())),
            ("where", Json::Text(place(trace, finding))),
            ("count", number(finding.count)),
            ("ns", number(finding.ns)),
            ("longest_ns", number(finding.longest)),
            ("bytes", number(finding.bytes)),
            ("connection", Json::Text(connection(trace, finding.object))),
            ("connections", number(finding.objects)),
            ("says", Json::Text(says(trace, finding))),
        ])
    });
    Json::List(list.collect())
}
