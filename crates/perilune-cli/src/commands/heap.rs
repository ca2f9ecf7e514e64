//! `perilune heap`: what is alive, who holds it, what has grown.
//!
//! Snapshots come from files (`pl.trace.heap(file)` writes one, `--save` keeps one), from a script (at its
//! end, or at given times), or from a program that runs. One is described, two are compared; of more, the
//! first and the last. What snapshots are and how they are looked at is in `perilune_see::heapshot`; here
//! they are got (`heap/take.rs`) and written for people and programs (`heap/report.rs`).

mod report;
mod take;

use super::observe::{self, Request, Source};
use perilune_see::heapshot::{Graph, Snapshot};
use perilune_see::profile::Profile;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Options of this command.
struct Own {
    top: usize,
    /// What paths are asked for.
    retainers: Vec<String>,
    /// When snapshots are taken, after the beginning; none: at the end.
    at: Vec<Duration>,
    /// Alive bytes by allocation site.
    sites: bool,
    /// Mean bytes between two samples of allocation.
    rate: u64,
    save: Option<PathBuf>,
}

/// What was got.
struct Taken {
    /// Snapshots with what they are called.
    snapshots: Vec<(String, Snapshot)>,
    sites: Option<Profile>,
    code: u8,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut own =
        Own { top: 20, retainers: Vec::new(), at: Vec::new(), sites: false, rate: 64 << 10, save: None };
    let request = observe::read("heap", &words[2..], &mut |name, parser| {
        match name {
            "--top" => own.top = number(parser, name)? as usize,
            "--retainers" => own.retainers.push(parser.value()?.to_string_lossy().into_owned()),
            "--at" => own.at.push(observe::read_duration(&parser.value()?.to_string_lossy(), "s")?),
            "--sites" => own.sites = true,
            "--rate" => own.rate = number(parser, name)?.max(1),
            "--save" => own.save = Some(parser.value()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    });
    match request {
        Ok(request) => {
            own.at.sort();
            request.finish(carry_out(&request, &own))
        }
        Err(code) => code,
    }
}

fn number(parser: &mut lexopt::Parser, option: &str) -> Result<u64, lexopt::Error> {
    let word = parser.value()?;
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{option}: '{text}' is no number").into())
}

/// The snapshots that are named, if the words name such files and nothing else.
fn files(request: &Request) -> Option<Vec<PathBuf>> {
    match &request.source {
        Source::File(path) => Some(vec![path.clone()]),
        Source::Files(old, new) => Some(vec![old.clone(), new.clone()]),
        _ => None,
    }
}

fn carry_out(request: &Request, own: &Own) -> io::Result<u8> {
    let taken = match files(request) {
        Some(files) => {
            let load = |f: PathBuf| Ok((f.display().to_string(), Snapshot::load(&f)?));
            let snapshots = files.into_iter().map(load).collect::<io::Result<_>>()?;
            Taken { snapshots, sites: None, code: 0 }
        }
        None => take::take(request, own)?,
    };
    let graphs: Vec<(&str, Graph)> =
        taken.snapshots.iter().map(|(name, s)| (name.as_str(), Graph::new(s))).collect();
    let Some((name, last)) = graphs.last() else {
        return Err(io::Error::other("there is no snapshot"));
    };
    let mut out = request.output()?;
    let report = report::Report { top: own.top, out: &mut *out };
    match graphs.first() {
        _ if request.json => {
            let first = graphs.first().filter(|_| graphs.len() > 1);
            report.json(first.map(|(_, g)| g), last, taken.sites.as_ref(), &own.retainers)?;
        }
        _ if !own.retainers.is_empty() => report.retainers(last, &own.retainers)?,
        Some((old_name, old)) if graphs.len() > 1 => report.comparison(old_name, old, name, last)?,
        _ => report.snapshot(name, last)?,
    }
    if let (Some(sites), false) = (&taken.sites, request.json) {
        report::Report { top: own.top, out: &mut *out }.sites(sites)?;
    }
    out.flush()?;
    Ok(taken.code)
}
