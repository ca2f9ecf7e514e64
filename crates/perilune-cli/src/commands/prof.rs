//! `perilune prof cpu`, `prof alloc`, `prof offcpu`: where processor time goes, who allocates, where a
//! program waits.
//!
//! The program is sampled (`perilune-vm`'s sampler); the samples are added up by call path
//! (`perilune_see::profile`) and written as tables for people, as JSON, or to files in the formats that their
//! names end in. Shares are of all samples; the table says how many there were, since with few of them small
//! shares mean little.

pub mod offcpu;

use super::observe::{self, Request};
use perilune_see::profile::flame::{self, amount};
use perilune_see::profile::tree::{Grain, paths, table};
use perilune_see::profile::{Profile, formats};
use perilune_trace::event::Category;
use perilune_trace::session::Options;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is profiled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Cpu,
    Alloc,
}

/// How it is shown.
#[derive(Default)]
struct Shown {
    top: usize,
    lines: bool,
    domain: Option<u32>,
    files: Vec<PathBuf>,
    hz: u32,
    rate: u64,
}

/// Carries out `prof cpu`.
pub fn cpu(words: &[Vec<u8>]) -> ExitCode {
    profile(What::Cpu, &words[3..])
}

/// Carries out `prof alloc`.
pub fn alloc(words: &[Vec<u8>]) -> ExitCode {
    profile(What::Alloc, &words[3..])
}

fn profile(what: What, words: &[Vec<u8>]) -> ExitCode {
    let mut own = Shown { top: 20, lines: false, domain: None, files: Vec::new(), hz: 997, rate: 512 << 10 };
    let command = if what == What::Cpu { "prof cpu" } else { "prof alloc" };
    let request = observe::read(command, words, &mut |name, parser| {
        match name {
            "--top" => own.top = number(parser, name)? as usize,
            "--lines" => own.lines = true,
            "--domain" => own.domain = Some(number(parser, name)? as u32),
            "--hz" if what == What::Cpu => own.hz = number(parser, name)?.clamp(1, 20_000) as u32,
            "--rate" if what == What::Alloc => own.rate = number(parser, name)?.max(1),
            "--output" => own.files.push(parser.value()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    if let Err(code) = check_names(command, &own.files) {
        return code;
    }
    let result = carry_out(what, &request, &own);
    request.finish(result)
}

fn number(parser: &mut lexopt::Parser, option: &str) -> Result<u64, lexopt::Error> {
    let word = parser.value()?;
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{option}: '{text}' is no number").into())
}

fn carry_out(what: What, request: &Request, own: &Shown) -> io::Result<u8> {
    let mut session: Options = request.session();
    // Who runs when is asked for by nobody here; names of domains are.
    session.categories = Category::Life as u32 | request.events.unwrap_or(0);
    match what {
        What::Cpu => session.cpu_hz = own.hz,
        What::Alloc => session.alloc_interval = own.rate,
    }
    let seen = request.trace(&session)?;
    request.remarks(&seen.trace);
    let mut profile = match what {
        What::Cpu => Profile::cpu(&seen.trace),
        What::Alloc => Profile::alloc(&seen.trace),
    };
    if let Some(domain) = own.domain {
        profile = profile.of_domain(domain);
    }
    if profile.count == 0 {
        eprintln!(
            "perilune: no samples: {}",
            match what {
                What::Cpu => "the program used too little processor time (--hz takes more samples)",
                What::Alloc => "the program allocated too little (--rate takes more samples)",
            }
        );
    }
    for file in &own.files {
        let mut out = io::BufWriter::new(observe::create(file)?);
        write_as(
            &profile,
            &title(&profile, what),
            &summary(&profile, what),
            own,
            format_of(file).unwrap_or(Format::Text),
            &mut out,
        )?;
        out.flush()?;
        eprintln!("perilune: wrote {}", file.display());
    }
    if own.files.is_empty() {
        let format = if request.json { Format::Json } else { Format::Text };
        let mut out = io::stdout().lock();
        write_as(&profile, "", &summary(&profile, what), own, format, &mut out)?;
        out.flush()?;
    }
    Ok(seen.code)
}

/// How a profile is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
    Folded,
    Svg,
    Html,
    Pprof,
    Speedscope,
}

fn format_of(file: &Path) -> Option<Format> {
    let name = file.file_name()?.to_str()?;
    let ends = [
        (".speedscope.json", Format::Speedscope),
        (".json", Format::Json),
        (".folded", Format::Folded),
        (".svg", Format::Svg),
        (".html", Format::Html),
        (".pb", Format::Pprof),
        (".txt", Format::Text),
    ];
    ends.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format)
}

fn title(p: &Profile, what: What) -> String {
    match what {
        What::Cpu => format!("processor time of {}", p.title),
        What::Alloc => format!("allocation of {}", p.title),
    }
}

/// The exit code if one of the files' names says no format.
fn check_names(command: &str, files: &[PathBuf]) -> Result<(), ExitCode> {
    match files.iter().find(|f| format_of(f).is_none()) {
        None => Ok(()),
        Some(file) => {
            let ends = ".svg, .html, .folded, .pb, .speedscope.json, .json or .txt";
            eprintln!("perilune {command}: {}: the name must end in {ends}", file.display());
            Err(ExitCode::from(2))
        }
    }
}

/// Writes a profile to a file, as its name says.
fn write_profile(p: &Profile, file: &Path, title: &str, summary: &str, top: usize) -> io::Result<()> {
    let own = Shown { top, ..Shown::default() };
    let mut out = io::BufWriter::new(observe::create(file)?);
    write_as(p, title, summary, &own, format_of(file).unwrap_or(Format::Text), &mut out)?;
    out.flush()?;
    eprintln!("perilune: wrote {}", file.display());
    Ok(())
}

fn write_as(
    p: &Profile,
    title: &str,
    summary: &str,
    own: &Shown,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Text => out.write_all(text(p, summary, own).as_bytes()),
        Format::Json => json(p, own, out),
        Format::Folded => formats::folded(p, out),
        Format::Pprof => formats::pprof(p, out),
        Format::Speedscope => formats::speedscope(p, out),
        Format::Svg => out.write_all(flame::svg(p, title).as_bytes()),
        Format::Html => out.write_all(flame::html(p, title, summary).as_bytes()),
    }
}

fn summary(p: &Profile, what: What) -> String {
    let total = amount(p.total(0), p.measures[0].unit);
    let wall = amount(p.wall_ns, perilune_see::profile::Unit::Nanoseconds);
    match what {
        What::Cpu => format!("{total} of processor time in {wall}, {} samples", p.count),
        What::Alloc => format!("{total} allocated in {wall}, {} samples", p.count),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Tables for people.
fn text(p: &Profile, summary: &str, own: &Shown) -> String {
    let grain = if own.lines { Grain::Lines } else { Grain::Functions };
    let (total, unit) = (p.total(0), p.measures[0].unit);
    let mut s = format!("{summary}\n\n");
    // Only allocation is followed further.
    let fate = p.measures.iter().position(|m| m.name == "survived");
    let survived = if fate.is_some() { "  survived" } else { "" };
    let _ = writeln!(
        s,
        "    self            with calls       {survived}  {}",
        if own.lines { "line" } else { "function" }
    );
    let entries = table(p, grain);
    for e in entries.iter().take(own.top) {
        let survived = match fate {
            None => String::new(),
            Some(at) => format!("  {:>7.1}%", percent(e.own[at], e.own[0])),
        };
        let place = match (own.lines, e.example.source) {
            (_, 0) => String::new(),
            (true, source) => format!("  {}:{}", p.definitions.string(source as u64), e.example.line),
            (false, _) => format!("  {}", p.defined(&e.example)),
        };
        let _ = writeln!(
            s,
            "{:>10} {:>5.1}%  {:>10} {:>5.1}%{survived}  {}{place}",
            amount(e.own[0], unit),
            percent(e.own[0], total),
            amount(e.total[0], unit),
            percent(e.total[0], total),
            p.function(&e.example),
        );
    }
    if entries.len() > own.top {
        let _ = writeln!(s, "  (and {} more; --top N shows N)", entries.len() - own.top);
    }
    let all = paths(p);
    let _ = writeln!(s, "\ncall paths, what runs first:");
    for (stack, values) in all.iter().take(own.top.min(10)) {
        let _ = writeln!(s, "{:>10} {:>5.1}%", amount(values[0], unit), percent(values[0], total));
        let frames: Vec<_> = p.path(*stack).into_iter().rev().collect();
        for (n, node) in frames.iter().enumerate() {
            if n == 12 && frames.len() > 14 {
                let _ = writeln!(s, "                    ... {} more", frames.len() - n);
                break;
            }
            let frame = if node.function == 0 { p.function(node) } else { p.definitions.frame(node) };
            let _ = writeln!(s, "                    {frame}");
        }
    }
    s
}

/// The same as JSON: `unit` of the first measure, `total`, `functions`, `paths`.
fn json(p: &Profile, own: &Shown, out: &mut dyn Write) -> io::Result<()> {
    use perilune_measure::json::Json;
    let grain = if own.lines { Grain::Lines } else { Grain::Functions };
    let number = |n: u64| Json::Number(n as f64);
    let values = |values: &[u64]| {
        let named = p.measures.iter().zip(values).map(|(m, v)| (m.name.to_owned(), number(*v)));
        Json::Object(named.collect())
    };
    let functions = table(p, grain).into_iter().map(|e| {
        let source = match e.example.source {
            0 => Json::Null,
            source => Json::Text(p.definitions.string(source as u64)),
        };
        let line = if own.lines { e.example.line } else { e.example.defined };
        Json::Object(vec![
            ("function".into(), Json::Text(p.function(&e.example))),
            ("source".into(), source),
            ("line".into(), number(line as u64)),
            ("self".into(), values(&e.own)),
            ("total".into(), values(&e.total)),
        ])
    });
    let all = paths(p).into_iter().map(|(stack, v)| {
        let frames = p.path(stack).into_iter().rev().map(|node| {
            Json::Text(if node.function == 0 { p.function(&node) } else { p.definitions.frame(&node) })
        });
        Json::Object(vec![("values".into(), values(&v)), ("frames".into(), Json::List(frames.collect()))])
    });
    let units = p.measures.iter().map(|m| {
        let unit = match m.unit {
            perilune_see::profile::Unit::Count => "count",
            perilune_see::profile::Unit::Nanoseconds => "ns",
            perilune_see::profile::Unit::Bytes => "bytes",
        };
        (m.name.to_owned(), Json::Text(unit.into()))
    });
    let totals: Vec<u64> = (0..p.measures.len()).map(|m| p.total(m)).collect();
    let document = Json::Object(vec![
        ("title".into(), Json::Text(p.title.clone())),
        ("units".into(), Json::Object(units.collect())),
        ("wall_ns".into(), number(p.wall_ns)),
        ("samples".into(), number(p.count)),
        ("lost_events".into(), number(p.lost)),
        ("total".into(), values(&totals)),
        ("functions".into(), Json::List(functions.collect())),
        ("paths".into(), Json::List(all.collect())),
    ]);
    writeln!(out, "{document}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_says_the_format() {
        assert_eq!(format_of(Path::new("/x/a.b.svg")), Some(Format::Svg));
        assert_eq!(format_of(Path::new("a.speedscope.json")), Some(Format::Speedscope));
        assert_eq!(format_of(Path::new("a.json")), Some(Format::Json));
        assert_eq!(format_of(Path::new("svg")), None);
    }
}
