//! `perilune gc-stats`: how much of each domain's time is collection, what the collectors did, what they
//! waited for.
//!
//! The figures are computed by `perilune_see::analyse`; this file writes them. Times of a domain are parts of
//! the time of the trace and add up to it, so every table can be checked by adding its columns: existing =
//! cpu + waiting of the collector + displaced + ready + blocked + waiting + idle, and cpu = lua + scheduler +
//! collector.

use super::observe;
use super::table::{Table, percent};
use super::trace::describe::{Describe, bytes, time};
use perilune_measure::json::Json;
use perilune_see::Trace;
use perilune_see::analyse::compile::{self, Compiling};
use perilune_see::analyse::domains::{Account, Why};
use perilune_see::analyse::gc::{self, Collections, Report, Sent};
use perilune_see::analyse::histogram::Histogram;
use perilune_see::analyse::state::{State, Times};
use perilune_trace::Category;
use std::io::{self, Write};
use std::process::ExitCode;

/// What is recorded unless `--events` says otherwise: all that times of domains are made of.
const EVENTS: u32 = Category::Life as u32
    | Category::Wait as u32
    | Category::Gc as u32
    | Category::Heap as u32
    | Category::Contention as u32
    | Category::Block as u32
    | Category::Compile as u32;

/// Domains that the tables for people show: those that existed longest.
const MOST_DOMAINS: usize = 32;
/// Places that are shown of those from which something was copied.
const MOST_PLACES: usize = 10;
/// Entries of a domain's list of waits.
const MOST_WAITS: usize = 20;

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let request = match observe::read("gc-stats", &words[2..], &mut |_, _| Ok(false)) {
        Ok(request) => request,
        Err(code) => return code,
    };
    let mut session = request.session();
    session.categories = request.events.unwrap_or(EVENTS);
    request.finish(request.trace(&session).and_then(|seen| {
        request.remarks(&seen.trace);
        let report = gc::report(&seen.trace);
        let mut out = request.output()?;
        if request.json {
            writeln!(out, "{}", json(&seen.trace, &report))?;
        } else {
            text(&seen.trace, &report, &mut out)?;
        }
        out.flush()?;
        Ok(seen.code)
    }))
}

/// Time of a domain in those states that `f` chooses.
fn all(times: &Times, f: impl Fn(State) -> bool) -> u64 {
    times.sum_of(f)
}

// -- For people ---------------------------------------------------------------------------------------------

/// A row of the tables.
struct Row<'a> {
    name: String,
    times: Times,
    collections: &'a Collections,
}

fn text(trace: &Trace, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let names = Describe::new(trace);
    let nothing = Collections::default();
    let accounts = &report.accounts;
    let mut shown: Vec<&Account> = accounts.domains.iter().collect();
    shown.sort_by_key(|a| (std::cmp::Reverse(a.times.existing()), a.domain));
    shown.truncate(MOST_DOMAINS);
    shown.sort_by_key(|a| a.domain);
    let mut rows: Vec<Row> = shown
        .iter()
        .map(|a| Row {
            name: names.domain(a.domain),
            times: a.times,
            collections: report.domains.get(&a.domain).unwrap_or(&nothing),
        })
        .collect();
    let hidden = accounts.domains.len() - rows.len();
    let total = Row { name: "total".into(), times: accounts.total(), collections: &report.total };
    if rows.len() != 1 || hidden > 0 {
        rows.push(total);
    }

    if !trace.title.is_empty() {
        writeln!(out, "program   {}", trace.title)?;
    }
    writeln!(out, "elapsed   {}", time(accounts.elapsed))?;
    let lost = if trace.lost > 0 { format!(", {} lost", trace.lost) } else { String::new() };
    writeln!(out, "domains   {}; {} events{lost}", accounts.domains.len(), trace.events.len())?;
    if hidden > 0 {
        writeln!(out, "          {hidden} domains that existed for the shortest time are in the total only")?;
    }

    writeln!(out, "\ntime")?;
    times(&rows, out)?;
    writeln!(out, "\ncollection")?;
    collection(&rows, out)?;
    writeln!(out, "\npauses")?;
    pauses(&rows, out)?;
    writeln!(out, "\nmemory")?;
    memory(&rows, out)?;
    let running = accounts.total().sum_of(State::is_running);
    let measured = accounts.domains.iter().map(|a| a.measured).sum::<u64>().min(running);
    if running - measured > running / 10 + 1_000_000 {
        let part = percent(running - measured, running);
        writeln!(
            out,
            "\n{part} of the time in which threads ran domains was not compared with clocks of processor \
             time: it counts as cpu"
        )?;
    }
    let mut table = Table::new(["scopes and islands"]);
    others(&rows, &mut table);
    if !table.is_empty() {
        writeln!(out)?;
        table.write(out, 0)?;
    }
    copies(&rows, report, out)?;
    compiler(&compile::report(trace), out)
}

/// What the compiler took, if there was one at work: on a thread beside the domains, unless it is told to
/// work on theirs.
fn compiler(c: &Compiling, out: &mut dyn Write) -> io::Result<()> {
    if c.recordings + c.compiled + c.failed + c.refused == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\ncompiler  {} for {} of machine code in {} pieces; {} recordings, {} times not compiled, left {} \
         times, given up {} times",
        time(c.ns),
        bytes(c.bytes),
        c.compiled,
        c.recordings,
        c.refused,
        c.left,
        c.given_up
    )
}

/// Values that went from domain to domain, if any did.
fn copies(rows: &[Row], report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let any = |c: &Collections| c.copied_out + c.copied_in + c.pictures != 0;
    if !any(&report.total) {
        return Ok(());
    }
    let mut table = Table::new(["copies", "out", "bytes", "in", "bytes", "captured tables packed", "bytes"]);
    for row in rows.iter().filter(|row| any(row.collections)) {
        let c = row.collections;
        table.row([
            row.name.clone(),
            c.copied_out.to_string(),
            bytes(c.copied_out_bytes),
            c.copied_in.to_string(),
            bytes(c.copied_in_bytes),
            c.pictures.to_string(),
            bytes(c.picture_bytes),
        ]);
    }
    writeln!(out)?;
    table.write(out, 0)?;
    if report.sent.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["copied in, sent by", "times", "bytes", "objects"]);
    for (place, sent) in report.sent.iter().take(MOST_PLACES) {
        let place = place.clone().unwrap_or_else(|| "(results of tasks)".to_owned());
        table.row([place, sent.times.to_string(), bytes(sent.bytes), sent.objects.to_string()]);
    }
    writeln!(out)?;
    table.write(out, 0)
}

fn times(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let parts: [(&str, &dyn Fn(State) -> bool); 9] = [
        ("lua", &|s| s == State::Lua),
        ("scheduler", &|s| s == State::Scheduler),
        ("collector", &State::is_collecting),
        ("gc waits", &|s| s == State::CollectorWaiting),
        ("displaced", &|s| s == State::Displaced),
        ("ready", &|s| s == State::Ready),
        ("blocked", &|s| s == State::Blocked),
        ("waiting", &|s| s == State::Waiting),
        ("idle", &|s| s == State::Idle),
    ];
    let unknown = rows.iter().any(|r| r.times[State::Unknown] > 0);
    let mut head = vec!["", "existing", "cpu"];
    head.extend(parts.iter().map(|p| p.0));
    if unknown {
        head.push("unknown");
    }
    let mut table = Table::new(head);
    for row in rows {
        let t = &row.times;
        let mut cells = vec![row.name.clone(), time(t.existing()), time(t.cpu())];
        cells.extend(parts.iter().map(|p| time(all(t, p.1))));
        if unknown {
            cells.push(time(t[State::Unknown]));
        }
        table.row(cells);
        let mut cells = vec![String::new(), String::new(), percent(t.cpu(), t.existing())];
        cells.extend(parts.iter().map(|p| percent(all(t, p.1), t.existing())));
        table.row(cells);
    }
    table.write(out, 0)
}

fn collection(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let states = [
        State::Minor,
        State::Slice,
        State::Sweep,
        State::Scope,
        State::Finalizers,
        State::Collector,
        State::CollectorWaiting,
    ];
    let mut head =
        vec!["", "in all", "of existing", "minor", "slices", "sweep", "scopes", "finalizers", "other"];
    head.push("waiting");
    let mut table = Table::new(head);
    for row in rows {
        let t = &row.times;
        let in_all = t.collecting() + t[State::CollectorWaiting];
        let mut cells = vec![row.name.clone(), time(in_all), percent(in_all, t.existing())];
        cells.extend(states.iter().map(|s| time(t[*s])));
        table.row(cells);
    }
    table.write(out, 0)
}

fn pauses(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(["", "count", "in all", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    for row in rows {
        let h = &row.collections.pauses;
        let mut cells = vec![row.name.clone(), h.count().to_string(), time(h.sum()), time(h.mean())];
        cells.extend([0.5, 0.9, 0.99, 0.999].map(|share| time(h.percentile(share))));
        cells.push(time(h.max()));
        table.row(cells);
    }
    table.write(out, 0)
}

fn memory(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new([
        "",
        "allocated",
        "promoted",
        "survival",
        "minors",
        "majors",
        "slices",
        "full",
        "peak alive",
        "peak mapped",
        "given back",
        "refused",
    ]);
    for row in rows {
        let c = row.collections;
        table.row([
            row.name.clone(),
            bytes(c.allocated),
            bytes(c.promoted),
            format!("{:.1}%", c.survival() * 100.0),
            c.minors.count().to_string(),
            c.majors.to_string(),
            c.slices.count().to_string(),
            c.full.to_string(),
            bytes(c.peak_live),
            bytes(c.peak_mapped),
            bytes(c.trimmed),
            c.refused.to_string(),
        ]);
    }
    table.write(out, 0)
}

/// What not every program has: only those that do get rows.
fn others(rows: &[Row], table: &mut Table) {
    let mut begun = false;
    for row in rows {
        let c = row.collections;
        let any = c.scopes.count() + c.dissolved + c.islands_made + c.islands_freed + c.finalized;
        if any + c.searches.count() == 0 {
            continue;
        }
        if !begun {
            *table = Table::new([
                "scopes and islands",
                "scopes",
                "freed",
                "kept",
                "given up",
                "islands made",
                "bytes",
                "freed",
                "bytes",
                "finalizers",
                "searches for cycles",
            ]);
            begun = true;
        }
        table.row([
            row.name.clone(),
            c.scopes.count().to_string(),
            bytes(c.scope_freed),
            bytes(c.scope_kept),
            c.dissolved.to_string(),
            c.islands_made.to_string(),
            bytes(c.islands_made_bytes),
            c.islands_freed.to_string(),
            bytes(c.islands_freed_bytes),
            c.finalized.to_string(),
            c.searches.count().to_string(),
        ]);
    }
}

// -- JSON ---------------------------------------------------------------------------------------------------

fn number(n: u64) -> Json {
    Json::Number(n as f64)
}

fn json(trace: &Trace, report: &Report) -> Json {
    let names = Describe::new(trace);
    let nothing = Collections::default();
    let domains = report.accounts.domains.iter().map(|a| {
        let mut members = vec![
            ("domain".to_owned(), number(a.domain as u64)),
            ("name".to_owned(), Json::Text(names.domain(a.domain))),
            ("begun_ns".to_owned(), a.begun.map_or(Json::Null, number)),
            ("ended_ns".to_owned(), a.ended.map_or(Json::Null, number)),
        ];
        members.extend(figures(&a.times, report.domains.get(&a.domain).unwrap_or(&nothing)));
        members.push(("contended_ns".to_owned(), number(a.contended)));
        members.push(("cpu_measured_ns".to_owned(), number(a.measured)));
        members.push(("misfitting_events".to_owned(), number(a.misfits)));
        members.push(("waits".to_owned(), waits(trace, a)));
        Json::Object(members)
    });
    let mut total = vec![("domains".to_owned(), number(report.accounts.domains.len() as u64))];
    total.extend(figures(&report.accounts.total(), &report.total));
    Json::object([
        ("program", Json::Text(trace.title.clone())),
        ("process", number(trace.pid as u64)),
        ("elapsed_ns", number(report.accounts.elapsed)),
        ("events", number(trace.events.len() as u64)),
        ("lost_events", number(trace.lost)),
        ("domains", Json::List(domains.collect())),
        ("total", Json::Object(total)),
        ("sent", Json::List(report.sent.iter().map(sent).collect())),
        ("compiler", compiling(&compile::report(trace))),
    ])
}

fn compiling(c: &Compiling) -> Json {
    Json::object([
        ("ns", number(c.ns)),
        ("bytes", number(c.bytes)),
        ("compiled", number(c.compiled)),
        ("failed", number(c.failed)),
        ("recordings", number(c.recordings)),
        ("not_compiled", number(c.refused)),
        ("installed", number(c.installed)),
        ("left", number(c.left)),
        ("given_up", number(c.given_up)),
    ])
}

/// What was copied from one place.
fn sent((place, of): &(Option<String>, Sent)) -> Json {
    Json::object([
        ("place", place.clone().map_or(Json::Null, Json::Text)),
        ("times", number(of.times)),
        ("bytes", number(of.bytes)),
        ("objects", number(of.objects)),
    ])
}

fn figures(t: &Times, c: &Collections) -> Vec<(String, Json)> {
    let times = Json::object(State::ALL.map(|s| (s.name(), number(t[s]))));
    let collection = Json::object([
        ("work_ns", number(t.collecting())),
        ("waiting_ns", number(t[State::CollectorWaiting])),
        ("pauses_ns", histogram(&c.pauses)),
        ("minors_ns", histogram(&c.minors)),
        ("slices_ns", histogram(&c.slices)),
        ("scope_ends_ns", histogram(&c.scopes)),
        ("finalizer_runs_ns", histogram(&c.finalizers)),
        ("cycle_searches_ns", histogram(&c.searches)),
        ("majors_begun", number(c.majors_begun)),
        ("majors", number(c.majors)),
        ("full", number(c.full)),
        ("finalizers", number(c.finalized)),
        ("scopes_given_up", number(c.dissolved)),
    ]);
    let memory = Json::object([
        ("allocated_bytes", number(c.allocated)),
        ("promoted_bytes", number(c.promoted)),
        ("survival_percent", Json::Number(c.survival() * 100.0)),
        ("marked_bytes", number(c.marked)),
        ("scope_freed_bytes", number(c.scope_freed)),
        ("scope_kept_bytes", number(c.scope_kept)),
        ("copied_out", number(c.copied_out)),
        ("copied_out_bytes", number(c.copied_out_bytes)),
        ("copied_in", number(c.copied_in)),
        ("copied_in_bytes", number(c.copied_in_bytes)),
        ("pictures", number(c.pictures)),
        ("picture_bytes", number(c.picture_bytes)),
        ("islands_made", number(c.islands_made)),
        ("islands_made_bytes", number(c.islands_made_bytes)),
        ("islands_freed", number(c.islands_freed)),
        ("islands_freed_bytes", number(c.islands_freed_bytes)),
        ("peak_alive_bytes", number(c.peak_live)),
        ("peak_mapped_bytes", number(c.peak_mapped)),
        ("last_alive_bytes", number(c.live)),
        ("given_back_bytes", number(c.trimmed)),
        ("refused_allocations", number(c.refused)),
    ]);
    let list = [
        ("time_ns", times),
        ("existing_ns", number(t.existing())),
        ("cpu_ns", number(t.cpu())),
        ("mutator_ns", number(t[State::Lua])),
        ("collection", collection),
        ("memory", memory),
    ];
    list.map(|(name, value)| (name.to_owned(), value)).into()
}

fn histogram(h: &Histogram) -> Json {
    Json::object([
        ("count", number(h.count())),
        ("sum", number(h.sum())),
        ("mean", number(h.mean())),
        ("p50", number(h.percentile(0.5))),
        ("p90", number(h.percentile(0.9))),
        ("p99", number(h.percentile(0.99))),
        ("p99_9", number(h.percentile(0.999))),
        ("max", number(h.max())),
    ])
}

/// What the domain waited for longest.
fn waits(trace: &Trace, a: &Account) -> Json {
    let mut list: Vec<(&Why, &u64)> = a.whys.iter().collect();
    list.sort_by_key(|(why, ns)| (std::cmp::Reverse(**ns), **why));
    let d = &trace.definitions;
    let one = |(why, ns): (&Why, &u64)| {
        let what = match *why {
            Why::Wait(verb, object) => d.wait(verb, object),
            Why::Call(0) | Why::Unknown => "unknown".to_owned(),
            Why::Call(name) => format!("calls {}", d.string(name)),
        };
        Json::object([("for", Json::Text(what)), ("ns", number(*ns))])
    };
    Json::List(list.into_iter().take(MOST_WAITS).map(one).collect())
}
