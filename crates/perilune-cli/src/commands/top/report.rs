//! An interval in lines of text, and as one line of JSON.

use super::model::{Interval, Row};
use crate::commands::trace::describe::{bytes, time};
use perilune_measure::json;
use std::fmt::Write;

/// Lines of text: about the program, one for each domain, the busiest functions.
///
/// `CPU%` is what the domain got of a processor, `LATE%` what it could have got and others did, `RUN%` what
/// it had a thread for, `GC%` what the collector took of that; the second `RUN`, and `WAIT`, count fibers.
pub fn lines(i: &Interval) -> Vec<String> {
    let seconds = i.length_ns as f64 / 1e9;
    let per_second = |n: u64| n as f64 / seconds;
    let mut lines = vec![format!("{}", i.title)];
    let mut head = format!("process {}, {:.1} s", i.pid, i.at_ns as f64 / 1e9);
    if let Some(share) = i.processor {
        _ = write!(head, ", {:.0}% processor", share * 100.0);
    }
    if let Some(resident) = i.resident {
        _ = write!(head, ", {} resident", bytes(resident));
    }
    let tasks: u64 = i.domains.iter().map(|d| d.tasks).sum();
    _ = write!(head, ", {} tasks queued, {:.0}/s started", i.queued, per_second(tasks));
    _ = write!(head, ", {:.0} events/s", per_second(i.events));
    if i.lost > 0 {
        _ = write!(head, ", {} lost", i.lost);
    }
    lines.push(head);
    lines.push(String::new());
    lines.push(format!(
        "{:<16} {:<8} {:>6} {:>6} {:>6} {:>6} {:>9} {:>10} {:>10} {:>12} {:>5} {:>5} {:>8}  {}",
        "DOMAIN",
        "STATE",
        "CPU%",
        "LATE%",
        "RUN%",
        "GC%",
        "WORST",
        "HEAP",
        "MAPPED",
        "ALLOC/S",
        "RUN",
        "WAIT",
        "TASKS/S",
        "WAITS FOR"
    ));
    for d in &i.domains {
        let heap = d.heap.map_or(["-".into(), "-".into()], |(live, mapped)| [bytes(live), bytes(mapped)]);
        let worst = if d.worst_ns == 0 { "-".into() } else { time(d.worst_ns) };
        let line = format!(
            "{:<16} {:<8} {:>6} {:>6} {:>6.1} {:>6.1} {:>9} {:>10} {:>10} {:>12} {:>5} {:>5} {:>8.0}  {}",
            name(d),
            d.state,
            percent(d.processor),
            percent(d.delayed),
            d.run * 100.0,
            d.gc * 100.0,
            worst,
            heap[0],
            heap[1],
            bytes(per_second(d.allocated) as u64),
            d.running,
            d.waiting,
            per_second(d.tasks),
            d.waits_for,
        );
        lines.push(line.trim_end().to_owned());
    }
    if !i.functions.is_empty() {
        lines.push(String::new());
        lines.push("  CPU%  FUNCTION".into());
        lines.extend(i.functions.iter().map(|(name, share)| format!("{:>6.1}  {name}", share * 100.0)));
    }
    lines
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.1}", share * 100.0))
}

fn name(d: &Row) -> String {
    let mut name = match (d.number, d.name.as_str()) {
        (1, _) => "main".to_owned(),
        (n, "") => format!("domain {n}"),
        (n, name) => format!("{n} {name}"),
    };
    if let Some((at, _)) = name.char_indices().nth(16) {
        name.truncate(at);
    }
    name
}

/// One line of JSON. Times are in nanoseconds, sizes in bytes, shares parts of 1.
pub fn json(i: &Interval) -> String {
    let mut line = String::new();
    _ = write_json(i, &mut line);
    line
}

fn write_json(i: &Interval, out: &mut String) -> std::fmt::Result {
    write!(out, "{{\"pid\":{},\"title\":", i.pid)?;
    json::write_text(out, &i.title)?;
    write!(out, ",\"at_ns\":{},\"length_ns\":{}", i.at_ns, i.length_ns)?;
    if let Some(share) = i.processor {
        write!(out, ",\"processor\":{share:.4}")?;
    }
    if let Some(resident) = i.resident {
        write!(out, ",\"resident\":{resident}")?;
    }
    write!(out, ",\"tasks_queued\":{},\"events\":{},\"lost\":{},\"domains\":[", i.queued, i.events, i.lost)?;
    for (n, d) in i.domains.iter().enumerate() {
        write!(out, "{}{{\"domain\":{},\"name\":", if n > 0 { "," } else { "" }, d.number)?;
        json::write_text(out, &d.name)?;
        write!(out, ",\"state\":\"{}\",\"run\":{:.4},\"gc\":{:.4}", d.state, d.run, d.gc)?;
        if let Some((processor, delayed)) = d.processor.zip(d.delayed) {
            write!(out, ",\"processor\":{processor:.4},\"delayed\":{delayed:.4}")?;
        }
        write!(out, ",\"worst_pause_ns\":{}", d.worst_ns)?;
        if let Some((live, mapped)) = d.heap {
            write!(out, ",\"heap\":{live},\"mapped\":{mapped}")?;
        }
        write!(out, ",\"allocated\":{},\"fibers_running\":{}", d.allocated, d.running)?;
        write!(out, ",\"fibers_waiting\":{},\"tasks_started\":{},\"waits_for\":", d.waiting, d.tasks)?;
        json::write_text(out, &d.waits_for)?;
        out.push('}');
    }
    out.push_str("],\"functions\":[");
    for (n, (name, share)) in i.functions.iter().enumerate() {
        out.push_str(if n > 0 { ",{\"function\":" } else { "{\"function\":" });
        json::write_text(out, name)?;
        write!(out, ",\"share\":{share:.4}}}")?;
    }
    out.push_str("]}");
    Ok(())
}
