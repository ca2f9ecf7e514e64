//! `perilune bench FILE|FOLDER... [-- ARGS]`: what Lua programs cost here, and beside other implementations.
//!
//! Every run is a process of its own: what an earlier run left in caches of the runtime, in its heap or in
//! the allocator must not count. The contenders (this executable, then those of `--against`) take turns on
//! one program, round after round, so that a machine that slows down for a while slows all of them; every
//! other round goes through them backwards, so that none always runs in the wake of the same neighbour. The
//! first rounds only warm the file cache and the processor up.
//!
//! A ratio is taken within a round, where both sides met the same conditions, and the median of the rounds'
//! ratios is reported with the interval in which it lies (see `perilune_measure::stats`). A difference whose
//! interval holds 1 is marked as none. What is *not* done: throwing outliers away, or repeating until the
//! figures look good; the spread is shown instead.
//!
//! Standard output carries the figures, standard error what there is to say about them. Programs read
//! nothing; what they print is kept out of the way and only compared.

mod report;

use super::manual;
use crate::sys;
use perilune_measure::on_path;
use perilune_measure::process::{self, Job};
use report::{Cell, Report, Row};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Something that runs `FILE ARGUMENTS` as `lua` does.
struct Contender {
    name: String,
    bin: PathBuf,
    options: Vec<OsString>,
}

impl Contender {
    /// From a command: a file, or a name on PATH; then options, separated by spaces.
    fn new(command: &OsStr) -> Result<Contender, String> {
        let name = command.to_string_lossy().into_owned();
        let whole = Path::new(command);
        if command.as_bytes().contains(&b'/') && whole.is_file() {
            return Ok(Contender { name, bin: whole.to_path_buf(), options: Vec::new() });
        }
        let mut words = name.split_whitespace();
        let bin = words.next().and_then(on_path);
        let bin = bin.ok_or_else(|| format!("--against {name}: no such command"))?;
        let options = words.map(OsString::from).collect();
        Ok(Contender { name, bin, options })
    }
}

struct Options {
    paths: Vec<PathBuf>,
    arguments: Vec<OsString>,
    against: Vec<OsString>,
    runs: u32,
    warmup: u32,
    timeout: Duration,
    json: bool,
}

impl Options {
    /// From the words after `bench`; `None` if help is asked for.
    fn parse(words: &[Vec<u8>]) -> Result<Option<Options>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut o = Options {
            paths: Vec::new(),
            arguments: Vec::new(),
            against: Vec::new(),
            runs: 7,
            warmup: 1,
            timeout: Duration::from_secs(600),
            json: false,
        };
        let end = words.iter().position(|w| w == b"--").unwrap_or(words.len());
        let text = |words: &[Vec<u8>]| -> Vec<OsString> {
            words.iter().map(|w| OsString::from_vec(w.clone())).collect()
        };
        o.arguments = text(words.get(end + 1..).unwrap_or(&[]));
        let mut parser = lexopt::Parser::from_args(text(&words[..end]));
        while let Some(word) = parser.next()? {
            let name = match word {
                Value(path) => {
                    o.paths.push(path.into());
                    continue;
                }
                Long("help") | Short('h') => return Ok(None),
                Long(name) => format!("--{name}"),
                Short(name) => format!("-{name}"),
            };
            manual::entry("bench").option(&name)?;
            match name.as_str() {
                "--against" => o.against.push(parser.value()?),
                "--runs" => {
                    o.runs = number(&name, &parser.value()?)?;
                    if o.runs == 0 {
                        return Err("--runs: a round is needed at least".into());
                    }
                }
                "--warmup" => o.warmup = number(&name, &parser.value()?)?,
                "--timeout" => o.timeout = Duration::from_secs(number(&name, &parser.value()?)?.into()),
                "--json" => o.json = true,
                _ => unreachable!("{name} is in the table, and nobody reads it"),
            }
        }
        if o.paths.is_empty() {
            return Err("no program is named".into());
        }
        Ok(Some(o))
    }
}

fn number(option: &str, word: &OsString) -> Result<u32, lexopt::Error> {
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{option}: '{text}' is no number").into())
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let options = match Options::parse(&words[2..]) {
        Ok(Some(options)) => options,
        Ok(None) => {
            return manual::print(&manual::entry("bench").help());
        }
        Err(e) => return manual::entry("bench").refuse(&e.to_string()),
    };
    let report = match measure(&options) {
        Ok(report) => report,
        Err(e) => return senseless(&format!("{}\n", crate::protected::in_words(&e))),
    };
    if options.json {
        print!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    eprint!("{}", report.remarks());
    if report.all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn senseless(message: &str) -> ExitCode {
    eprint!("perilune bench: {message}");
    ExitCode::from(2)
}

fn measure(options: &Options) -> Result<Report, String> {
    let mut programs = Vec::new();
    for path in &options.paths {
        find(path, &mut programs).map_err(|e| manual::cannot_open(path, &e))?;
    }
    if programs.is_empty() {
        return Err("no file whose name ends in .lua".into());
    }
    let us = std::env::current_exe().map_err(|e| format!("this executable cannot be found: {e}"))?;
    let mut contenders = vec![Contender { name: "perilune".into(), bin: us, options: Vec::new() }];
    for command in &options.against {
        contenders.push(Contender::new(command)?);
    }
    let load_before = sys::load();
    let mut rows = Vec::new();
    for (i, program) in programs.iter().enumerate() {
        rows.push(measure_program(
            program,
            &contenders,
            options,
            &format!("[{}/{}]", i + 1, programs.len()),
        )?);
    }
    progress("");
    Ok(Report {
        names: contenders.into_iter().map(|c| c.name).collect(),
        rows,
        warmup: options.warmup,
        rounds: options.runs,
        load: [load_before, sys::load()],
    })
}

fn measure_program(
    program: &Path,
    contenders: &[Contender],
    options: &Options,
    position: &str,
) -> Result<Row, String> {
    let here = std::env::current_dir().map_err(|e| format!("the current folder: {e}"))?;
    // A name that starts with `-` would be an option.
    let is_option = program.as_os_str().as_bytes().starts_with(b"-");
    let file = if is_option { Path::new(".").join(program) } else { program.to_path_buf() };
    let mut cells: Vec<Cell> = contenders.iter().map(|_| Cell::default()).collect();
    for round in 0..options.warmup + options.runs {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            let (contender, cell) = (&contenders[i], &mut cells[i]);
            if cell.failed() {
                continue;
            }
            progress(&format!("{position} {} round {} {}", program.display(), round + 1, contender.name));
            let args = contender.options.iter().map(OsString::as_os_str);
            let args =
                args.chain([file.as_os_str()]).chain(options.arguments.iter().map(OsString::as_os_str));
            let job = Job::new(&contender.bin, args, &here).timeout(options.timeout);
            let run = process::run(&job).map_err(|e| e.to_string())?;
            cell.add(run, round >= options.warmup);
        }
    }
    Ok(Row { name: program.display().to_string(), cells })
}

/// A file as it is; all that end in `.lua` below a folder, in the order of their names.
fn find(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.metadata()?.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    let mut entries = path.read_dir()?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|n| n.as_bytes().starts_with(b"."));
        if !hidden && (entry.is_dir() || entry.extension() == Some(OsStr::new("lua"))) {
            find(&entry, found)?;
        }
    }
    Ok(())
}

/// Shows on a terminal what is being done now; the empty text wipes the line. Nothing in a pipe or a log.
fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, String> {
        let words: Vec<Vec<u8>> = line.split(' ').map(|w| w.as_bytes().to_vec()).collect();
        Options::parse(&words).map_err(|e| e.to_string())
    }

    #[test]
    fn options_and_arguments() {
        let o = parse("--runs 3 a.lua --against lua5.4 --against=luajit b -- --runs x").unwrap().unwrap();
        assert_eq!(o.paths, [Path::new("a.lua"), Path::new("b")]);
        assert_eq!(o.against, ["lua5.4", "luajit"]);
        assert_eq!(o.arguments, ["--runs", "x"]);
        assert_eq!((o.runs, o.warmup, o.json), (3, 1, false));
        assert!(parse("--json --help").unwrap().is_none());
        for line in ["--runs", "--runs x a.lua", "--faster a.lua", "--json", "-- a.lua"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_contender_may_have_options() {
        let c = Contender::new(OsStr::new("sh -e -u")).unwrap();
        assert!(c.bin.ends_with("sh"));
        assert_eq!(c.options, ["-e", "-u"]);
        assert!(Contender::new(OsStr::new("there-is-no-such-lua")).is_err());
    }
}
