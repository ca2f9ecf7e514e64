//! `perilune top`: what a program does just now, renewed every second.
//!
//! Events become a model of the program (`top/model.rs`); every interval the model says what the interval was
//! like, and that is drawn on the terminal (`top/screen.rs`), written as a block of text, or as a line of
//! JSON (`top/report.rs`). Nothing is kept but the state of domains, fibers and tasks, so a program can be
//! watched for days.
//!
//! The data are written while the program runs. So that they do not mix with what a script prints, its output
//! goes to standard error, or, if the terminal is drawn on, to a file that is shown afterwards.

mod model;
mod report;
mod screen;

use super::observe::{self, Request, Source};
use model::{Interval, Model};
use perilune_trace::clock;
use screen::Screen;
use std::fs::File;
use std::io::{self, IsTerminal, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

struct Own {
    interval: Duration,
    times: u64,
    batch: bool,
    cpu_hz: u32,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut own = Own { interval: Duration::from_secs(1), times: u64::MAX, batch: false, cpu_hz: 97 };
    let request = observe::read("top", &words[2..], &mut |name, parser| {
        use lexopt::ValueExt;
        match name {
            "--interval" => {
                let interval = observe::time("--interval", &parser.value()?)?;
                own.interval = interval.max(Duration::from_millis(20));
            }
            "-n" => own.times = parser.value()?.parse::<u64>()?.max(1),
            "--batch" => own.batch = true,
            "--cpu" => own.cpu_hz = parser.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    match request {
        Ok(request) => request.finish(watch(&request, &own)),
        Err(code) => code,
    }
}

fn watch(request: &Request, own: &Own) -> io::Result<u8> {
    let on_screen = !own.batch && !request.json && request.output.is_none() && io::stdout().is_terminal();
    let mut options = request.session();
    options.cpu_hz = own.cpu_hz;
    // What the script prints meanwhile.
    let aside = match &request.source {
        Source::Script(_) if on_screen => Some(temporary()?),
        _ => None,
    };
    let mut observation = request.begin_with(&options, |command| {
        if request.output.is_none() {
            redirect(command, aside.as_ref());
        }
    })?;
    let mut screen = if on_screen { Some(Screen::begin()) } else { None };
    let mut out = if on_screen { None } else { Some(request.output()?) };
    let (pid, title) = (observation.target.pid, observation.title.clone());
    let mut model = Model::new(pid, title);
    let write = |out: &mut Box<dyn Write>, interval: &Interval| {
        if request.json {
            writeln!(out, "{}", report::json(interval))?;
        } else {
            writeln!(out, "{}\n", report::lines(interval).join("\n"))?;
        }
        out.flush()
    };
    let (mut shown, mut times) = (Instant::now(), 0);
    // Everything before the last look has been read.
    let mut looked = clock::monotonic_ns();
    let result = observation.run(&mut |reader, batch| {
        model.add(reader, batch);
        let until = std::mem::replace(&mut looked, clock::monotonic_ns());
        if screen.as_ref().is_some_and(Screen::is_quit) {
            return Ok(ControlFlow::Break(()));
        }
        if shown.elapsed() < own.interval {
            return Ok(ControlFlow::Continue(()));
        }
        shown = Instant::now();
        times += 1;
        let interval = model.interval(reader, until);
        match (&mut screen, &mut out) {
            (Some(screen), _) => screen.draw(&report::lines(&interval))?,
            (_, Some(out)) => write(out, &interval)?,
            _ => {}
        }
        Ok(if times >= own.times { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    // What was over before the first interval is shown as well.
    let result = match (result, &mut out) {
        (Ok(code), Some(out)) if times == 0 => {
            write(out, &model.interval(&observation.target.reader, looked)).map(|()| code)
        }
        (result, _) => result,
    };
    drop(screen);
    if let Some(mut aside) = aside {
        aside.rewind()?;
        io::copy(&mut aside, &mut io::stdout())?;
    }
    match result {
        // Whoever read what was written has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            // What is left in the buffer has nowhere to go.
            std::mem::forget(out);
            Ok(0)
        }
        other => other,
    }
}

fn redirect(command: &mut Command, aside: Option<&File>) {
    let streams = match aside {
        Some(file) => file.try_clone().and_then(|out| Ok((out, file.try_clone()?))),
        None => {
            let both = || io::stderr().as_fd().try_clone_to_owned().map(File::from);
            both().and_then(|out| Ok((out, both()?)))
        }
    };
    if let Ok((out, err)) = streams {
        command.stdout(out).stderr(err);
    }
    if aside.is_some() {
        // Keys are the tool's.
        command.stdin(Stdio::null());
    }
}

/// A file without a name.
fn temporary() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("perilune-top-{}", std::process::id()));
    let file = File::options().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
