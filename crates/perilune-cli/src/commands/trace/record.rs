//! `perilune trace record` and `perilune trace run`: events to a file as they happen.

use super::flight::{Flight, Trigger};
use super::show::{self, Show};
use super::spool::Spool;
use crate::commands::observe::{self, Request};
use perilune_see::Trace;
use perilune_trace::recording::{self, Chunk, Recorder};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often what was recorded reaches the file, should the tool be killed.
const FLUSH: Duration = Duration::from_millis(500);

struct Own {
    cpu_hz: u32,
    alloc_interval: u64,
    triggers: Vec<Trigger>,
    keep: Duration,
    snapshots: u32,
    show: Show,
}

fn read(command: &'static str, words: &[Vec<u8>]) -> Result<(Request, Own), ExitCode> {
    let mut own = Own {
        cpu_hz: 0,
        alloc_interval: 0,
        triggers: Vec::new(),
        keep: Duration::from_secs(10),
        snapshots: 1,
        show: Show::default(),
    };
    let flight = command == "trace record";
    let request = observe::read(command, &words[3..], &mut |name, parser| {
        use lexopt::ValueExt;
        match name {
            "--cpu" => own.cpu_hz = parser.value()?.parse()?,
            "--alloc" => own.alloc_interval = parser.value()?.parse()?,
            "--snapshot-when" if flight => {
                let text = parser.value()?.to_string_lossy().into_owned();
                own.triggers.push(Trigger::parse(&text).map_err(|e| format!("--snapshot-when: {e}"))?);
            }
            "--keep" if flight => {
                own.keep = observe::time("--keep", &parser.value()?)?;
            }
            "--snapshots" if flight => own.snapshots = parser.value()?.parse::<u32>()?.max(1),
            "--no-open" if !flight => own.show.open = false,
            "--link" if !flight => own.show.page.link = parser.value()?.to_string_lossy().into_owned(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((request, own))
}

/// Carries out `trace record`.
pub fn record(words: &[Vec<u8>]) -> ExitCode {
    let (request, own) = match read("trace record", words) {
        Ok(read) => read,
        Err(code) => return code,
    };
    let Some(file) = request.output.clone() else {
        return request.refuse("name a file with -o");
    };
    let result = match own.triggers.is_empty() {
        true => record_to(&request, &own, &file),
        false => keep(&request, own, &file),
    };
    request.finish(result)
}

/// Carries out `trace run`.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let (request, own) = match read("trace run", words) {
        Ok(read) => read,
        Err(code) => return code,
    };
    let file = match &request.output {
        Some(file) => file.clone(),
        None => std::env::temp_dir().join(format!("perilune-{}.rec", std::process::id())),
    };
    let recorded = record_to(&request, &own, &file).and_then(|code| Ok((Trace::load(&file)?, code)));
    if request.output.is_none() {
        let _ = std::fs::remove_file(&file);
    }
    request.finish(recorded.and_then(|(trace, code)| {
        request.remarks(&trace);
        show::serve(request.command, trace, own.show)?;
        Ok(code)
    }))
}

fn session(request: &Request, own: &Own) -> perilune_trace::session::Options {
    let mut options = request.session();
    (options.cpu_hz, options.alloc_interval) = (own.cpu_hz, own.alloc_interval);
    options
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

fn record_to(request: &Request, own: &Own, file: &Path) -> io::Result<u8> {
    // Before the program is started: a file that cannot be made is to cost nothing.
    let out = recording::create(file).and_then(|file| Spool::new(file.into_inner()?)).map_err(named(file))?;
    let mut observation = request.begin(&session(request, own))?;
    let mut recorder = Recorder::new(out, &observation.title).map_err(named(file))?;
    let (mut events, mut flushed) = (0, Instant::now());
    let code = observation.run(&mut |reader, batch| {
        events += batch.len() as u64;
        recorder.add(reader, batch).map_err(named(file))?;
        if flushed.elapsed() > FLUSH {
            flushed = Instant::now();
            recorder.flush().map_err(named(file))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let reader = &observation.target.reader;
    if let Some(kernel) = &observation.kernel {
        recorder.chunk(Chunk::Sched as u32, 0, &kernel.borrow().encode()).map_err(named(file))?;
    }
    recorder.finish(reader).and_then(Spool::finish).map_err(named(file))?;
    let bytes = std::fs::metadata(file).map_or(0, |m| m.len());
    let lost = match reader.lost() {
        0 => String::new(),
        n => format!(", {n} lost (--ring N makes room for more)"),
    };
    let size = super::describe::bytes(bytes);
    eprintln!("perilune {}: {events} events{lost}, {size} in {}", request.command, file.display());
    Ok(code)
}

/// The flight recorder.
fn keep(request: &Request, own: Own, file: &Path) -> io::Result<u8> {
    let options = session(request, &own);
    let mut observation = request.begin(&options)?;
    let mut flight = Flight::new(own.triggers, own.keep, observation.kernel.clone());
    let title = observation.title.clone();
    let mut written = 0;
    let mut write = |flight: &mut Flight, reader: &_| -> io::Result<()> {
        written += 1;
        let file = numbered(file, written);
        let why = flight.write(reader, recording::create(&file).map_err(named(&file))?, &title);
        let why = why.map_err(named(&file))?;
        eprintln!("perilune {}: {why}: {}", request.command, file.display());
        Ok(())
    };
    let mut count = 0;
    let code = observation.run(&mut |reader, batch| {
        flight.add(reader, batch);
        if flight.is_due() {
            count += 1;
            write(&mut flight, reader)?;
            if count >= own.snapshots {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // What happened just before the end.
    if flight.has_fired() && count < own.snapshots {
        write(&mut flight, &observation.target.reader)?;
    } else if count == 0 {
        eprintln!("perilune {}: nothing of the kind happened; no snapshot was written", request.command);
    }
    let _ = io::stderr().flush();
    Ok(code)
}

/// `FILE`, `FILE-2`, ... before the ending.
fn numbered(file: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return file.to_path_buf();
    }
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(ending) = file.extension() {
        name.push(".");
        name.push(ending);
    }
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots() {
        let name = |n| numbered(Path::new("dir.d/late.rec"), n).display().to_string();
        assert_eq!((name(1), name(2)), ("dir.d/late.rec".into(), "dir.d/late-2.rec".into()));
        assert_eq!(numbered(Path::new("late"), 3), Path::new("late-3"));
    }
}
