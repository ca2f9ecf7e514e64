//! Parallel loops, written: the part of `perilune latency` that says how well domains shared the work of each
//! loop, and what to change.
//!
//! The figures are those of `perilune_see::analyse::loops`.

use super::table::{Table, percent};
use super::trace::describe::{Describe, time};
use perilune_measure::json::Json;
use perilune_see::Trace;
use perilune_see::analyse::loops::Site;
use std::io::{self, Write};

/// Loops whose busiest domain did this much more than the mean are commented on.
const UNEVEN: f64 = 1.3;
/// Shorter loops are not, in nanoseconds.
const SHORT: u64 = 1_000_000;

fn place(trace: &Trace, site: &Site) -> String {
    trace.definitions.place(site.stack).unwrap_or_else(|| "?".to_owned())
}

/// What to change, if anything is to be.
pub fn hint(trace: &Trace, site: &Site) -> Option<String> {
    let domains = site.domains();
    if domains < 2 || site.ns < SHORT || site.imbalance() < UNEVEN {
        return None;
    }
    let (&busiest, share) = site.shares.iter().max_by_key(|(_, s)| s.occupied())?;
    let mut text = format!(
        "{}: {} did {} of the work: ",
        place(trace, site),
        Describe::new(trace).domain(busiest),
        percent(share.occupied(), site.occupied()),
    );
    if site.is_chunk_too_large() {
        text += &format!(
            "chunk = {} makes {} of {} iterations for {domains} domains; a smaller chunk, or none, lets them \
             share",
            site.chunk,
            match site.pieces() {
                Some(1) => "one piece".to_owned(),
                pieces => format!("{} pieces", pieces.unwrap_or(0)),
            },
            site.iterations / site.loops.max(1),
        );
    } else {
        let p = &site.longest;
        text += &format!("its longest part, {} to {}, took {}", p.first, p.next.wrapping_sub(1), time(p.ns));
    }
    Some(text)
}

/// The section for people; nothing if there were no loops.
pub fn text(trace: &Trace, sites: &[Site], top: usize, out: &mut dyn Write) -> io::Result<()> {
    if sites.is_empty() {
        return Ok(());
    }
    let names = Describe::new(trace);
    writeln!(
        out,
        "\nparallel loops (idle: no part that could run; uneven: the busiest domain's time by the mean)"
    )?;
    let head =
        ["where", "loops", "iterations", "chunk", "took", "idle", "uneven", "time and parts by domain"];
    let mut table = Table::new(head);
    for site in sites.iter().take(top) {
        let mut by: Vec<String> = site
            .shares
            .iter()
            .map(|(n, s)| format!("{} {} ({})", names.domain(*n), time(s.occupied()), s.parts))
            .collect();
        match site.domains() - site.shares.len() as u64 {
            0 => {}
            1 => by.push("1 domain none".to_owned()),
            n => by.push(format!("{n} domains none")),
        }
        table.row([
            place(trace, site),
            site.loops.to_string(),
            site.iterations.to_string(),
            if site.chunk == 0 { "-".to_owned() } else { site.chunk.to_string() },
            time(site.ns),
            percent(site.idle(), site.ns * site.domains()),
            format!("{:.2}", site.imbalance()),
            by.join(", "),
        ]);
    }
    table.write(out, 1)?;
    if sites.len() > top {
        writeln!(out, "  (and {} more; --top N shows N)", sites.len() - top)?;
    }
    for hint in sites.iter().take(top).filter_map(|site| hint(trace, site)) {
        writeln!(out, "  {hint}")?;
    }
    Ok(())
}

/// The same as JSON.
pub fn json(trace: &Trace, sites: &[Site]) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let names = Describe::new(trace);
    let list = sites.iter().map(|site| {
        let shares = site.shares.iter().map(|(n, s)| {
            Json::object([
                ("domain", number(*n as u64)),
                ("domain_name", Json::Text(names.domain(*n))),
                ("worked_ns", number(s.worked)),
                ("displaced_ns", number(s.displaced)),
                ("parts", number(s.parts)),
                ("iterations", number(s.iterations)),
            ])
        });
        let longest = Json::object([
            ("first", Json::Number(site.longest.first as f64)),
            ("last", Json::Number(site.longest.next.wrapping_sub(1) as f64)),
            ("domain", number(site.longest.domain as u64)),
            ("ns", number(site.longest.ns)),
        ]);
        Json::object([
            ("where", Json::Text(place(trace, site))),
            ("loops", number(site.loops)),
            ("unfinished", number(site.open)),
            ("iterations", number(site.iterations)),
            ("chunk", number(site.chunk)),
            ("domains", number(site.domains())),
            ("ns", number(site.ns)),
            ("occupied_ns", number(site.occupied())),
            ("idle_ns", number(site.idle())),
            ("imbalance", Json::Number(site.imbalance())),
            ("longest_part", longest),
            ("by_domain", Json::List(shares.collect())),
            ("hint", hint(trace, site).map_or(Json::Null, Json::Text)),
        ])
    });
    Json::List(list.collect())
}
