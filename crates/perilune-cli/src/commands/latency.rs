//! `perilune latency`: how long something had to wait, in percentiles, and the slowest of it with where it
//! was.
//!
//! The figures are computed by `perilune_see::analyse::latency`, which says what is measured from where to
//! where. Parallel loops, whose slowest domain makes all others wait, have a section of their own
//! (`loops.rs`), and so have the requests of servers and what went wrong between the program and its peers
//! (`requests.rs`).

use super::loops;
use super::observe;
use super::requests;
use super::table::Table;
use super::trace::describe::{Describe, time};
use perilune_measure::json::Json;
use perilune_see::analyse::latency::{Delay, Latency, Slow, latency};
use perilune_see::analyse::loops::{Site, loops as loops_of};
use perilune_see::analyse::peers::{Finding, peers};
use perilune_see::analyse::requests::{Requests, requests as requests_of};
use perilune_see::{Trace, Who};
use perilune_trace::{Category, ObjectRef};
use std::io::{self, Write};
use std::process::ExitCode;

/// What is recorded unless `--events` says otherwise.
const EVENTS: u32 = Category::Life as u32
    | Category::Task as u32
    | Category::Wait as u32
    | Category::Timer as u32
    | Category::Gc as u32
    | Category::Block as u32
    | Category::Io as u32;

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut top = 30usize;
    let request = match observe::read("latency", &words[2..], &mut |name, parser| match name {
        "--top" => {
            let word = parser.value()?;
            let text = word.to_string_lossy();
            top = text.parse().map_err(|_| format!("--top: '{text}' is no number"))?;
            Ok(true)
        }
        _ => Ok(false),
    }) {
        Ok(request) => request,
        Err(code) => return code,
    };
    let mut session = request.session();
    session.categories = request.events.unwrap_or(EVENTS);
    request.finish(request.trace(&session).and_then(|seen| {
        request.remarks(&seen.trace);
        let found = latency(&seen.trace, top);
        let sites = loops_of(&seen.trace);
        let requests = (requests_of(&seen.trace, top), peers(&seen.trace));
        let mut out = request.output()?;
        if request.json {
            writeln!(out, "{}", json(&seen.trace, &found, &sites, &requests, top))?;
        } else {
            text(&seen.trace, &found, top, &mut out)?;
            loops::text(&seen.trace, &sites, top.min(20), &mut out)?;
            requests::text(&seen.trace, &requests.0, top.min(20), &mut out)?;
            requests::findings(&seen.trace, &requests.1, top, &mut out)?;
        }
        out.flush()?;
        Ok(seen.code)
    }))
}

const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Where it was, as well as is known: the place that ran, else the function.
fn place(trace: &Trace, s: &Slow) -> Option<String> {
    let d = &trace.definitions;
    let path = || Some(d.frame(d.frames(s.stack).next()?));
    d.frames(s.stack)
        .find(|node| node.source != 0 && !d.is_own(node))
        .map(|node| d.frame(node))
        .or_else(path)
        .or_else(|| (s.name != 0).then(|| d.string(s.name)))
}

fn text(trace: &Trace, found: &Latency, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let names = Describe::new(trace);
    if !trace.title.is_empty() {
        writeln!(out, "program   {}", trace.title)?;
    }
    writeln!(out, "elapsed   {}\n", time(trace.end_ns))?;
    let mut table = Table::new(["", "count", "mean", "p50", "p90", "p99", "p99.9", "max", ""]);
    for delay in Delay::ALL {
        let h = found.of(delay);
        if h.count() == 0 {
            continue;
        }
        let mut cells = vec![delay.name().to_owned(), h.count().to_string(), time(h.mean())];
        cells.extend(SHARES.map(|share| time(h.percentile(share))));
        cells.extend([time(h.max()), delay.describe().to_owned()]);
        table.row(cells);
    }
    if table.is_empty() {
        return writeln!(out, "nothing had to wait");
    }
    table.write(out, 1)?;
    let slowest = found.slowest(top);
    if slowest.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nthe slowest {}", slowest.len())?;
    let mut table = Table::new(["what", "took", "no processor", "at", "domain", "fiber", "for", "where"]);
    for s in &slowest {
        table.row([
            s.delay.name().to_owned(),
            time(s.ns),
            if s.away == 0 { String::new() } else { time(s.away) },
            format!("{:.6} s", s.at as f64 / 1e9),
            if s.domain == 0 { String::new() } else { names.domain(s.domain) },
            s.fiber.map_or(String::new(), |f| names.fiber(f, Who::Domain(s.domain))),
            if s.object == ObjectRef::NONE { String::new() } else { trace.definitions.object(s.object) },
            place(trace, s).unwrap_or_default(),
        ]);
    }
    table.write(out, 4)
}

fn json(
    trace: &Trace,
    found: &Latency,
    sites: &[Site],
    (requests, peers): &(Requests, Vec<Finding>),
    top: usize,
) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let names = Describe::new(trace);
    let text = |t: Option<String>| t.map_or(Json::Null, Json::Text);
    let delays = Delay::ALL.map(|delay| {
        let h = found.of(delay);
        let mut members =
            vec![("count", number(h.count())), ("sum_ns", number(h.sum())), ("mean_ns", number(h.mean()))];
        let names = ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns"];
        members.extend(names.into_iter().zip(SHARES.map(|share| number(h.percentile(share)))));
        members.push(("max_ns", number(h.max())));
        (delay.name(), Json::object(members))
    });
    let slowest = found.slowest(top).into_iter().map(|s| {
        let fiber = s.fiber.map(|f| names.fiber(f, Who::Domain(s.domain)));
        let d = &trace.definitions;
        let path = d.frames(s.stack).map(|node| Json::Text(d.frame(node))).collect();
        Json::object([
            ("what", Json::Text(s.delay.name().to_owned())),
            ("ns", number(s.ns)),
            ("no_processor_ns", number(s.away)),
            ("at_ns", number(s.at)),
            ("domain", number(s.domain as u64)),
            ("domain_name", text((s.domain != 0).then(|| names.domain(s.domain)))),
            ("fiber", text(fiber)),
            ("for", text((s.object != ObjectRef::NONE).then(|| d.object(s.object)))),
            ("where", text(place(trace, &s))),
            ("stack", Json::List(path)),
        ])
    });
    Json::object([
        ("program", Json::Text(trace.title.clone())),
        ("elapsed_ns", number(trace.end_ns)),
        ("lost_events", number(trace.lost)),
        ("delays", Json::object(delays)),
        ("slowest", Json::List(slowest.collect())),
        ("loops", loops::json(trace, sites)),
        ("requests", requests::json(trace, requests)),
        ("connections", requests::findings_json(trace, peers)),
    ])
}
