//! `perilune trace dump`: events as text, one line each.
//!
//! A line of text has the time since the session began in seconds, who wrote the event, its name, how long
//! what it ends has lasted, and its arguments. A line of JSON is an object that holds the same, numbers as
//! they are and names beside them.

use super::describe::{Describe, Durations, time};
use crate::commands::observe;
use perilune_measure::json;
use perilune_see::{Event, Trace, Who};
use perilune_trace::event::{Notation, Phase};
use perilune_trace::{FiberRef, Kind, ObjectRef};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let request = match observe::read("trace dump", &words[3..], &mut |_, _| Ok(false)) {
        Ok(request) => request,
        Err(code) => return code,
    };
    request.finish(request.trace(&request.session()).and_then(|seen| {
        request.remarks(&seen.trace);
        let mut out = request.output()?;
        // A recording may hold more than is asked for.
        let wanted = request.events.unwrap_or(u32::MAX);
        let write = if request.json { lines_of_json } else { text };
        write(&seen.trace, wanted, &mut out)?;
        out.flush()?;
        Ok(seen.code)
    }))
}

fn text(trace: &Trace, wanted: u32, out: &mut dyn Write) -> io::Result<()> {
    let names = Describe::new(trace);
    let mut durations = Durations::default();
    let writers: HashSet<Who> = trace.events.iter().map(|e| e.who).collect();
    let width = writers.into_iter().map(|who| names.who(who).chars().count()).max().unwrap_or(0).min(24);
    for (at, e) in trace.events.iter().enumerate() {
        let lasted = durations.of(e);
        if e.kind == Kind::More || e.kind.category() as u32 & wanted == 0 {
            continue;
        }
        let lasted = lasted.map(time).unwrap_or_default();
        let (s, ns) = (e.ns / 1_000_000_000, e.ns % 1_000_000_000);
        let (who, what) = (names.who(e.who), e.kind.info().name);
        let line = format!("{s:>5}.{ns:09} {who:<width$} {what:<15} {lasted:>10}  {}", names.arguments(at));
        writeln!(out, "{}", line.trim_end().replace('\n', "\\n"))?;
    }
    Ok(())
}

fn lines_of_json(trace: &Trace, wanted: u32, out: &mut dyn Write) -> io::Result<()> {
    let mut durations = Durations::default();
    let mut line = String::new();
    for (at, e) in trace.events.iter().enumerate() {
        let lasted = durations.of(e);
        if e.kind == Kind::More || e.kind.category() as u32 & wanted == 0 {
            continue;
        }
        line.clear();
        object(trace, at, e, lasted, &mut line).map_err(io::Error::other)?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn object(
    trace: &Trace,
    at: usize,
    e: &Event,
    lasted: Option<u64>,
    line: &mut String,
) -> Result<(), std::fmt::Error> {
    let (writer, number) = match e.who {
        Who::Domain(n) => ("domain", n),
        Who::Thread(n) => ("thread", n),
    };
    let info = e.kind.info();
    let phase = match info.phase {
        Phase::Instant => "instant",
        Phase::Begin => "begin",
        Phase::End => "end",
        Phase::Counter => "counter",
        Phase::More => "more",
    };
    write!(
        line,
        "{{\"ns\":{},\"{writer}\":{number},\"event\":\"{}\",\"phase\":\"{phase}\"",
        e.ns, info.name
    )?;
    write!(line, ",\"a\":{},\"b\":{},\"c\":{}", e.a, e.b, e.c)?;
    if let Some(ns) = lasted {
        write!(line, ",\"duration_ns\":{ns}")?;
    }
    let d = &trace.definitions;
    for field in info.fields {
        let value = e.word(field.slot);
        match field.notation {
            Notation::Name if value != 0 => named(line, "name", &d.string(value))?,
            Notation::Process if value & 0xffff_ffff != 0 => {
                named(line, "process", &d.string(value & 0xffff_ffff))?;
            }
            Notation::Object if value != 0 => named(line, "object", &d.object(ObjectRef(value)))?,
            Notation::Float => {
                let value = f64::from_bits(value);
                let text = if value.is_finite() { value.to_string() } else { "null".to_owned() };
                write!(line, ",\"value\":{text}")?;
            }
            Notation::Fiber => {
                let fiber = FiberRef(value);
                write!(line, ",\"fiber\":{{\"domain\":{},\"index\":", fiber.domain())?;
                match fiber.index() {
                    FiberRef::ROOT => line.push_str("\"root\""),
                    n => write!(line, "{n}")?,
                }
                write!(line, ",\"generation\":{}}}", fiber.generation())?;
            }
            Notation::Stack if value != 0 => {
                line.push_str(",\"stack\":[");
                for (n, node) in d.frames(value as u32).enumerate() {
                    if n > 0 {
                        line.push(',');
                    }
                    json::write_text(line, &d.frame(node))?;
                }
                line.push(']');
            }
            _ => {}
        }
    }
    if matches!(e.kind, Kind::Log | Kind::Error) {
        named(line, "text", &trace.text(at))?;
    }
    line.push('}');
    Ok(())
}

fn named(line: &mut String, name: &str, value: &str) -> std::fmt::Result {
    write!(line, ",\"{name}\":")?;
    json::write_text(line, value)
}
