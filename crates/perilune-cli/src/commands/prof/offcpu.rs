//! `perilune prof offcpu`: where a program waits, for what, and who woke it.
//!
//! Nothing is sampled: every wait and every call that sleeps is an event. Sums go over all fibers, so they
//! may exceed the time that was observed many times over; the table says for each line what it would be with
//! one fiber waiting all the time (`at once`).
//!
//! Below the waits stand shared objects that processors waited for each other at: the program runs then, and
//! gets nowhere.
//!
//! With `--sched` the kernel is asked too: who displaced domains that could go on, and who had the processors
//! while one was late.

use super::{Format, percent, write_profile};
use crate::commands::observe::{self, Request};
use perilune_measure::json::Json;
use perilune_see::analyse::contention::{Contended, contended};
use perilune_see::analyse::domains::{Accounts, account};
use perilune_see::analyse::offcpu::{Entry, OffCpu};
use perilune_see::analyse::sched::{Other, Sched};
use perilune_see::profile::flame::amount;
use perilune_see::profile::{Measure, Profile, Sample, Unit};
use perilune_see::trace::Trace;
use perilune_trace::event::Category;
use perilune_trace::layout::StackNode;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let (mut top, mut domain, mut files) = (20, None, Vec::<PathBuf>::new());
    let request = observe::read("prof offcpu", &words[3..], &mut |name, parser| {
        match name {
            "--top" => top = super::number(parser, name)? as usize,
            "--domain" => domain = Some(super::number(parser, name)? as u32),
            "--output" => files.push(parser.value()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    if let Err(code) = super::check_names("prof offcpu", &files) {
        return code;
    }
    let result = carry_out(&request, top, domain, &files);
    request.finish(result)
}

fn carry_out(request: &Request, top: usize, domain: Option<u32>, files: &[PathBuf]) -> io::Result<u8> {
    let mut session = request.session();
    let needed = [
        Category::Life,
        Category::Wait,
        Category::Timer,
        Category::Block,
        Category::Task,
        Category::Contention,
    ];
    session.categories = needed.iter().fold(request.events.unwrap_or(0), |mask, c| mask | *c as u32);
    let seen = request.trace(&session)?;
    request.remarks(&seen.trace);
    let mut waits = OffCpu::new(&seen.trace);
    let mut objects = Objects { list: contended(&seen.trace), accounts: account(&seen.trace) };
    if let Some(domain) = domain {
        waits.entries.retain(|e| e.domain == domain);
        objects.list.retain(|o| o.domains.contains_key(&domain));
    }
    let document = |as_json: bool| match as_json {
        true => format!("{}\n", json(&seen.trace, &waits, &objects)),
        false => {
            text(&seen.trace, &waits, top)
                + &objects_text(&seen.trace, &waits, &objects, top)
                + &kernel_text(&seen.trace, &waits)
        }
    };
    for file in files {
        match super::format_of(file) {
            // A profile would lose who woke whom, and the kernel's view.
            Some(format @ (Format::Json | Format::Text)) => {
                observe::create(file)?.write_all(document(format == Format::Json).as_bytes())?;
                eprintln!("perilune: wrote {}", file.display());
            }
            _ => {
                let profile = as_profile(&seen.trace, &waits);
                let title = format!("waiting of {}", seen.trace.title);
                write_profile(&profile, file, &title, &summary(&waits), top)?;
            }
        }
    }
    if files.is_empty() {
        let mut out = io::stdout().lock();
        out.write_all(document(request.json).as_bytes())?;
        out.flush()?;
    }
    Ok(seen.code)
}

fn summary(waits: &OffCpu) -> String {
    let ns = |n| amount(n, Unit::Nanoseconds);
    let count: u64 = waits.entries.iter().map(|e| e.count).sum();
    format!("{} of waiting in {}, {count} waits", ns(waits.total_ns()), ns(waits.wall_ns))
}

/// Lines of this many wakers name them.
const WAKERS: usize = 3;

fn wakers(trace: &Trace, waits: &OffCpu, e: &Entry) -> String {
    let mut list: Vec<String> = e
        .wakers
        .iter()
        .take(WAKERS)
        .map(|(waker, n)| {
            let who = waits.describe_waker(trace, *waker);
            if e.wakers.len() == 1 { who } else { format!("{who} ({n})") }
        })
        .collect();
    if e.wakers.len() > WAKERS {
        list.push(format!("{} others", e.wakers.len() - WAKERS));
    }
    list.join(", ")
}

fn domain_name(waits: &OffCpu, n: u32) -> String {
    waits.domains.get(&n).cloned().unwrap_or_else(|| format!("domain {n}"))
}

/// The table for people, and the call paths of its first lines.
fn text(trace: &Trace, waits: &OffCpu, top: usize) -> String {
    let mut s = format!("{}\n\n", summary(waits));
    let ns = |n| amount(n, Unit::Nanoseconds);
    let _ = writeln!(
        s,
        "     total  share  at once    count      mean   longest   delayed  what, where, woken by"
    );
    let total = waits.total_ns();
    for e in waits.entries.iter().take(top) {
        let place = trace.definitions.place(e.stack).map_or_else(String::new, |place| format!(" at {place}"));
        let _ = writeln!(
            s,
            "{:>10} {:>5.1}% {:>7.2}x {:>8} {:>9} {:>9} {:>9}  {}{place} in '{}'; woken by {}",
            ns(e.ns),
            percent(e.ns, total),
            e.ns as f64 / waits.wall_ns.max(1) as f64,
            e.count,
            ns(e.ns / e.count.max(1)),
            ns(e.longest),
            ns(e.delay),
            waits.describe(trace, e),
            domain_name(waits, e.domain),
            wakers(trace, waits, e),
        );
    }
    if waits.entries.len() > top {
        let _ = writeln!(s, "  (and {} more; --top N shows N)", waits.entries.len() - top);
    }
    let _ = writeln!(s, "\ncall paths, what waits first:");
    for e in waits.entries.iter().filter(|e| e.stack != 0).take(top.min(8)) {
        let _ = writeln!(s, "{:>10} {:>5.1}%  {}", ns(e.ns), percent(e.ns, total), waits.describe(trace, e));
        for node in trace.definitions.frames(e.stack).take(12) {
            let _ = writeln!(s, "                    {}", trace.definitions.frame(node));
        }
    }
    s
}

/// Shared objects that were contended for, and the times of the domains that did.
struct Objects {
    list: Vec<Contended>,
    accounts: Accounts,
}

/// Objects with less than this part of their domains' processor time are not worth a line for people.
const WORTH: f64 = 0.001;

fn objects_text(trace: &Trace, waits: &OffCpu, objects: &Objects, top: usize) -> String {
    let ns = |n| amount(n, Unit::Nanoseconds);
    let running = |o: &Contended| o.running(&objects.accounts).max(1);
    let worth: Vec<_> =
        objects.list.iter().filter(|o| o.ns as f64 / running(o) as f64 >= WORTH).take(top).collect();
    if worth.is_empty() {
        return String::new();
    }
    let mut s = "\nshared objects that domains had to wait for, running:\n      lost  of their time     in \
        all  object, domains\n"
        .to_owned();
    for o in worth {
        let mut by: Vec<_> = o.domains.iter().collect();
        by.sort_by_key(|(n, ns)| (std::cmp::Reverse(**ns), **n));
        let by: Vec<_> =
            by.iter().take(6).map(|(n, of)| format!("'{}' {}", domain_name(waits, **n), ns(**of))).collect();
        let _ = writeln!(
            s,
            "{:>10} {:>13.1}% {:>10}  {}: {}{}",
            ns(o.ns),
            percent(o.ns, running(o)),
            ns(running(o)),
            object_name(trace, o),
            by.join(", "),
            if o.domains.len() > by.len() { ", ..." } else { "" },
        );
    }
    s
}

/// `atomic made at a.lua:3`: objects that have no name of their own are called by the place.
fn object_name(trace: &Trace, o: &Contended) -> String {
    match trace.definitions.label(o.object) {
        Some(label) => format!("{} '{}'", o.object.kind().name(), trace.definitions.string(label as u64)),
        None => trace.definitions.object(o.object),
    }
}

fn objects_json(trace: &Trace, waits: &OffCpu, objects: &Objects) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let list = objects.list.iter().map(|o| {
        let by = o.domains.iter().map(|(n, ns)| {
            Json::object([
                ("domain", number(*n as u64)),
                ("name", Json::Text(domain_name(waits, *n))),
                ("lost_ns", number(*ns)),
            ])
        });
        let label = trace.definitions.label(o.object).map(|n| trace.definitions.string(n as u64));
        Json::object([
            ("object", Json::Text(object_name(trace, o))),
            ("kind", Json::Text(o.object.kind().name().to_owned())),
            ("made_at", label.map_or(Json::Null, Json::Text)),
            ("lost_ns", number(o.ns)),
            ("operations", number(o.operations)),
            ("running_ns", number(o.running(&objects.accounts))),
            ("domains", Json::List(by.collect())),
        ])
    });
    Json::List(list.collect())
}

/// What the kernel did, if it was asked.
fn kernel_text(trace: &Trace, waits: &OffCpu) -> String {
    let sched = Sched::new(trace);
    if !sched.is_known && sched.domains.is_empty() {
        return String::new();
    }
    let ns = |n| amount(n, Unit::Nanoseconds);
    let others = |list: &[Other]| {
        let named = list.iter().take(5).map(|o| match o.pid {
            0 => format!("{} {}", o.name, ns(o.ns)),
            pid => format!("{} ({pid}) {}", o.name, ns(o.ns)),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let mut s =
        "\nready but displaced by others:\n       ran  displaced    times    moved  domain, by whom\n"
            .to_owned();
    let mut domains: Vec<_> = sched.domains.iter().collect();
    domains.sort_by_key(|(n, d)| (std::cmp::Reverse(d.displaced), **n));
    for (n, d) in domains {
        let _ = writeln!(
            s,
            "{:>10} {:>10} {:>8} {:>8}  '{}'{}{}",
            ns(d.ran),
            ns(d.displaced),
            d.displacements,
            d.migrations,
            domain_name(waits, *n),
            if d.by.is_empty() { "" } else { ": " },
            others(&d.by),
        );
    }
    if !sched.latest.is_empty() {
        s.push_str("\nlatest to run after being woken, and who had the processors meanwhile:\n");
    }
    for late in &sched.latest {
        let _ = writeln!(
            s,
            "{:>10}  '{}' at {}: {}",
            ns(late.to - late.from),
            domain_name(waits, late.domain),
            ns(late.from),
            if late.busy.is_empty() { "not known".to_owned() } else { others(&late.busy) },
        );
    }
    s
}

/// The same as JSON.
fn kernel_json(trace: &Trace, waits: &OffCpu) -> Json {
    let sched = Sched::new(trace);
    if !sched.is_known && sched.domains.is_empty() {
        return Json::Null;
    }
    let number = |n: u64| Json::Number(n as f64);
    let others = |list: &[Other]| {
        let list = list.iter().map(|o| {
            Json::object([
                ("name", Json::Text(o.name.clone())),
                ("pid", number(o.pid as u64)),
                ("ns", number(o.ns)),
                ("count", number(o.count)),
            ])
        });
        Json::List(list.collect())
    };
    let mut domains: Vec<_> = sched.domains.iter().collect();
    domains.sort_by_key(|(n, _)| **n);
    let domains = domains.into_iter().map(|(n, d)| {
        Json::object([
            ("domain", number(*n as u64)),
            ("name", Json::Text(domain_name(waits, *n))),
            ("ran_ns", number(d.ran)),
            ("displaced_ns", number(d.displaced)),
            ("displacements", number(d.displacements)),
            ("migrations", number(d.migrations)),
            ("by", others(&d.by)),
        ])
    });
    let domains = domains.collect();
    let latest = sched.latest.iter().map(|late| {
        Json::object([
            ("domain", number(late.domain as u64)),
            ("from_ns", number(late.from)),
            ("late_ns", number(late.to - late.from)),
            ("processors", others(&late.busy)),
        ])
    });
    Json::object([("domains", Json::List(domains)), ("latest", Json::List(latest.collect()))])
}

fn json(trace: &Trace, waits: &OffCpu, objects: &Objects) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let list = waits.entries.iter().map(|e| {
        let frames = trace.definitions.frames(e.stack).map(|node| Json::Text(trace.definitions.frame(node)));
        let woken = e.wakers.iter().map(|(waker, n)| {
            Json::object([("by", Json::Text(waits.describe_waker(trace, *waker))), ("count", number(*n))])
        });
        let place = trace.definitions.place(e.stack);
        Json::object([
            ("what", Json::Text(waits.describe(trace, e))),
            ("place", place.map_or(Json::Null, Json::Text)),
            ("domain", number(e.domain as u64)),
            ("domain_name", Json::Text(domain_name(waits, e.domain))),
            ("count", number(e.count)),
            ("total_ns", number(e.ns)),
            ("longest_ns", number(e.longest)),
            ("delayed_ns", number(e.delay)),
            ("unfinished", number(e.open)),
            ("woken", Json::List(woken.collect())),
            ("frames", Json::List(frames.collect())),
        ])
    });
    Json::object([
        ("title", Json::Text(trace.title.clone())),
        ("wall_ns", number(waits.wall_ns)),
        ("total_ns", number(waits.total_ns())),
        ("lost_events", number(trace.lost)),
        ("waits", Json::List(list.collect())),
        ("contended", objects_json(trace, waits, objects)),
        ("kernel", kernel_json(trace, waits)),
    ])
}

/// Waiting as a profile: each call path ends in a frame that says what for.
fn as_profile(trace: &Trace, waits: &OffCpu) -> Profile {
    let mut definitions = trace.definitions.clone();
    let samples = waits.entries.iter().map(|e| {
        let function = definitions.add_string(&format!("[{}]", waits.describe(trace, e)));
        let node = StackNode { parent: e.stack, function, source: 0, line: 0, defined: 0, kind: 1 };
        Sample { stack: definitions.add_stack(node), domain: e.domain, values: vec![e.ns, e.count] }
    });
    let samples = samples.collect();
    Profile {
        measures: vec![
            Measure { name: "waiting", unit: Unit::Nanoseconds },
            Measure { name: "waits", unit: Unit::Count },
        ],
        samples,
        definitions,
        domains: waits.domains.clone(),
        wall_ns: waits.wall_ns,
        start_real_ns: trace.start_real_ns,
        count: waits.entries.iter().map(|e| e.count).sum(),
        lost: trace.lost,
        title: trace.title.clone(),
    }
}
