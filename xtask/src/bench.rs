//! `cargo xtask bench`: our programs on perilune and its peers, side by side.
//!
//! For each program the implementations take turns (ours, first peer, second peer, ours, ...), so that a
//! machine that slows down for a while slows all of them. Cost is the minimum over the runs. Every program
//! checks its own result; beyond that all implementations must print the same bytes. A program that fails on
//! ours, or prints something else than a peer, makes the chore fail; one that fails on a peer is only
//! reported.

use crate::chore::{self, Error, Outcome};
use crate::peers::{self, Peer};
use crate::program::{self, Program, Scale};
use crate::report::{self, Cell, Report, Row, StartUp};
use lexopt::prelude::*;
use perilune_measure::process::{self, Job};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Listing line.
pub const SUMMARY: &str = "CPU time and peak memory of benches/programs on perilune, lua5.4 and luajit";
/// Arguments.
pub const USAGE: &str = "[--quick|--large] [--only PATTERN] [--runs N] [--json FILE] [--md FILE] [--peers \
    LIST] [--bin PATH] [--profile P]";

/// What the measuring chores take.
pub struct Options {
    /// Which size of each program.
    pub scale: Scale,
    /// Part of the names of the programs to run.
    pub only: Option<String>,
    /// Runs per program and implementation.
    pub runs: u32,
    /// Where to write the figures as JSON.
    pub json: Option<PathBuf>,
    /// Where to write the figures as Markdown, besides standard output.
    pub md: Option<PathBuf>,
    /// Names of peers, separated by commas.
    pub peers: String,
    /// An executable to measure in place of ours.
    pub bin: Option<String>,
    /// The cargo profile to build ours with.
    pub profile: String,
    /// Wall-clock limit of one run.
    pub timeout: Duration,
}

impl Options {
    /// Reads the arguments after the chore's name.
    pub fn parse(args: Vec<OsString>, runs: u32) -> Result<Options, Error> {
        let mut o = Options {
            scale: Scale::Normal,
            only: None,
            runs,
            json: None,
            md: None,
            peers: "lua5.4,luajit".into(),
            bin: None,
            profile: "release".into(),
            timeout: Duration::from_secs(120),
        };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("quick") => o.scale = Scale::Quick,
                Long("large") => o.scale = Scale::Large,
                Long("only") => o.only = Some(parser.value()?.string()?),
                Long("runs") => o.runs = parser.value()?.parse::<u32>()?.max(1),
                Long("json") => o.json = Some(parser.value()?.into()),
                Long("md") => o.md = Some(parser.value()?.into()),
                Long("peers") => o.peers = parser.value()?.string()?,
                Long("bin") => o.bin = Some(parser.value()?.string()?),
                Long("profile") => o.profile = parser.value()?.string()?,
                Long("timeout") => o.timeout = Duration::from_secs(parser.value()?.parse()?),
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(o)
    }

    /// Ours first, then the peers that exist.
    pub fn contenders(&self) -> Result<Vec<Peer>, Error> {
        let mut all = vec![peers::ours(self.bin.as_deref(), &self.profile)?];
        all.extend(peers::named(&self.peers));
        Ok(all)
    }
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let options = Options::parse(args, 3)?;
    let programs = program::find(&chore::root().join("benches/programs"), options.only.as_deref())?;
    let contenders = options.contenders()?;
    let mut rows = Vec::new();
    for (i, p) in programs.iter().enumerate() {
        chore::progress(&format!("[{}/{}] {}", i + 1, programs.len(), p.name));
        rows.push(measure_program(p, &contenders, &options)?);
    }
    chore::progress("");
    let start_up = contenders.iter().map(|c| start_up(c, &options)).collect::<Result<_, _>>()?;
    let report = Report { names: contenders.iter().map(|c| c.name.clone()).collect(), rows, start_up };
    let markdown = report::markdown(&report);
    print!("{markdown}");
    if let Some(path) = &options.md {
        std::fs::write(path, &markdown)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(&report).to_string())?;
    }
    Ok(Outcome::from_ok(report.rows.iter().all(Row::sound)))
}

fn measure_program(p: &Program, contenders: &[Peer], options: &Options) -> Result<Row, Error> {
    let mut cells: Vec<Option<Cell>> =
        contenders.iter().map(|c| (!c.is_luajit || p.header.luajit).then(Cell::default)).collect();
    let size = p.header.argument(options.scale).to_string();
    for _ in 0..options.runs {
        for (peer, cell) in contenders.iter().zip(&mut cells) {
            let Some(cell) = cell else { continue };
            if cell.failure.is_some() {
                continue;
            }
            let args = [p.path.as_os_str().to_os_string(), size.clone().into()];
            let run = process::run(&Job::new(&peer.bin, args, &chore::root()).timeout(options.timeout))?;
            cell.add(run);
        }
    }
    Ok(Row { name: p.name.clone(), group: p.header.group.clone(), cells })
}

/// The cost of doing nothing: the best of many runs of `-e ''`, and the resident peak that the process itself
/// sees in `/proc` (free of the floor that [`process`] explains).
fn start_up(peer: &Peer, options: &Options) -> Result<StartUp, Error> {
    let root = chore::root();
    let (mut wall, mut cpu) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..(options.runs * 10).max(20) {
        let run = process::run(&Job::new(&peer.bin, ["-e", ""], &root).timeout(options.timeout))?;
        if !run.ok() {
            return Ok(StartUp { name: peer.name.clone(), wall: None, cpu: None, resident: None });
        }
        wall = wall.min(run.wall);
        cpu = cpu.min(run.cpu);
    }
    let script = "for l in io.lines('/proc/self/status') do local kb = l:match('^VmHWM:%s*(%d+)') if kb then \
        print(kb) end end";
    let run = process::run(&Job::new(&peer.bin, ["-e", script], &root).timeout(options.timeout))?;
    let resident = String::from_utf8_lossy(&run.stdout).trim().parse::<u64>().ok().map(|kb| kb * 1024);
    Ok(StartUp { name: peer.name.clone(), wall: Some(wall), cpu: Some(cpu), resident })
}
