//! `perilune explain`: what ran as machine code, line by line, and why the rest did not.
//!
//! # Where it comes from
//! The program runs in a process of its own, as with all commands that watch one, and in two ways says what
//! it does:
//! * its processor time is sampled, and each sample says whether it went to machine code, the interpreter,
//!   the interpreter on behalf of machine code, the library, or the collector;
//! * its compiler keeps what it decides ([`perilune_spesh::report`]) and the program writes that down when it
//!   ends (`explain/tell.rs`), however it does.
//!
//! Both know functions by source and line of definition; put together (`explain/model.rs`) they are the
//! report (`explain/report.rs`), with the words of `explain/words.rs`.
//!
//! # Which mode
//! `auto`, unless something else is asked for: what is explained is a run like all runs, with what it takes
//! until something is hot, and with what is not worth compiling in the time that the program goes on. Of a
//! program that is over before that, `--mode blocking` says what would come of it if it went on: what is hot
//! is compiled at once, whatever it costs.
//!
//! # What it costs
//! Nothing where nobody asks. A program that is explained takes samples, and each exit of machine code looks
//! at the types that were there. That machine code is given up after some hundred exits bounds it.

mod model;
mod report;
pub mod tell;
mod words;

use super::observe::{self, Source};
use model::Run;
use perilune_trace::event::Category;
use perilune_trace::session::Options;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of this command.
struct Own {
    mode: Option<String>,
    /// Only these functions.
    function: Option<String>,
    all: bool,
    hz: u32,
    top: usize,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut own = Own { mode: None, function: None, all: false, hz: 997, top: 20 };
    let request = observe::read("explain", &words[2..], &mut |name, parser| {
        match name {
            "--mode" => {
                let word = parser.value()?.to_string_lossy().into_owned();
                if !matches!(word.as_str(), "auto" | "blocking") && !word.starts_with("blocking:") {
                    return Err(format!("--mode: '{word}' is neither auto nor blocking").into());
                }
                own.mode = Some(word);
            }
            "--function" => own.function = Some(parser.value()?.to_string_lossy().into_owned()),
            "--all" => own.all = true,
            "--hz" => own.hz = number(parser, name)?.clamp(1, 20_000) as u32,
            "--top" => own.top = number(parser, name)? as usize,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    if !matches!(request.source, Source::Script(_)) {
        return request
            .refuse("name a script: what a recording holds, or a process that runs, has not kept decisions");
    }
    let result = carry_out(&request, &own);
    request.finish(result)
}

fn number(parser: &mut lexopt::Parser, option: &str) -> Result<u64, lexopt::Error> {
    let word = parser.value()?;
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{option}: '{text}' is no number").into())
}

/// A file for the program to tell its decisions in, which goes with this.
struct Told(PathBuf);

impl Told {
    fn new() -> io::Result<Told> {
        let folder = std::env::temp_dir();
        for n in 0..100 {
            let path = folder.join(format!("perilune-explain-{}-{n}", std::process::id()));
            let mut options = std::fs::File::options();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Told(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
            }
        }
        Err(io::Error::other(format!("{}: no name is free", folder.display())))
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The mode that is explained.
fn mode(own: &Own) -> String {
    let environment = || std::env::var("PERILUNE_SPESH").ok();
    let asked = own.mode.clone().or_else(|| environment().filter(|m| m.starts_with("blocking")));
    asked.unwrap_or_else(|| "auto".into())
}

fn carry_out(request: &observe::Request, own: &Own) -> io::Result<u8> {
    let told = Told::new()?;
    let mode = mode(own);
    let mut session: Options = request.session();
    session.categories = Category::Life as u32;
    session.cpu_hz = own.hz;
    let seen = request
        .begin_with(&session, |command| {
            command.env(tell::VARIABLE, &told.0).env("PERILUNE_SPESH", &mode);
        })?
        .collect()?;
    request.remarks(&seen.trace);
    let text = std::fs::read(&told.0)?;
    let run = Run::new(&text, &seen.trace)?;
    if !run.is_told {
        eprintln!(
            "perilune explain: the program was killed before it could tell what was compiled: only its \
             samples are shown"
        );
    }
    let report = report::Report::new(&run, own, &mode, &seen.trace.title);
    let mut out = request.output()?;
    match request.json {
        true => report.json(&mut *out)?,
        false => report.text(&mut *out)?,
    }
    out.flush()?;
    Ok(seen.code)
}

/// The lines of a source, if it is a file that can be read.
fn lines_of(source: &str) -> Vec<String> {
    let text = std::fs::read(Path::new(source)).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}
