//! `perilune test [PATH...]`: runs test files, in parallel, each in a process of its own.
//!
//! | file | |
//! |---|---|
//! | `test/find.rs` | which files, and what `.busted` says |
//! | `test/pool.rs` | processes: starting them, reading what they tell, ending those that hang |
//! | `test/worker.rs` | what runs in such a process |
//! | `test/fields.rs` | lines in which processes tell each other things |
//! | `test/blocks.lua`, `test/assert.lua` | the words that test files are written in |
//! | `test/coverage.rs` | which lines were executed: adding up, the table, lcov's format |
//! | `test/report.rs` | what is written: for people, TAP, JUnit |
//! | `test/watch.rs` | running again what a changed file concerns |
//!
//! # Isolation
//! A file gets a process: its globals, `package.loaded`, current folder, limits and exit are its own, its
//! output is kept and shown if something failed, and a file that loops in a native, exhausts memory or calls
//! `os.exit` takes no other with it. A process starts in 1.5 ms, which is less than most files take to load.
//! Files run side by side, as many as there are cores; the tests of a file run in order, since they share
//! what their file has set up.
//!
//! Rejected: a pool of domains in one process (no way to end a hanging native, one current folder, one
//! standard output, `os.exit` ends all); one process for several files (nothing is saved but the start, and
//! order would matter again).
//!
//! # What a worker tells
//! Lines of fields between tabs on a socket, which is the worker's standard input until it has taken it for
//! itself: the program's own output cannot be mistaken for it. The parent waits for each line as long as a
//! test may take. If none comes it sends SIGINT, which is an error in the test with a traceback of where it
//! hangs, and the file goes on; if that does not help (a loop that catches errors), it ends the process, and
//! says which tests were not run.
//!
//! # Coverage
//! With `--coverage` each worker has the interpreter count instructions (`perilune-vm`, `interp/counted.rs`),
//! in all domains of the file's program, and tells the counts of lines before it is done. Here they are added
//! up (`coverage.rs`). Rejected: line hooks, which make programs several times slower and see other lines
//! than those that were compiled; counters written into the source text, which would change its columns,
//! messages and limits.

mod coverage;
pub mod fields;
mod find;
mod pool;
mod report;
mod watch;
mod worker;

use super::manual;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How tests are run and told.
pub struct Options {
    paths: Vec<PathBuf>,
    jobs: usize,
    timeout: Duration,
    format: String,
    output: Option<PathBuf>,
    fail_fast: bool,
    verbose: bool,
    /// The file for the coverage of lines, if that is wanted.
    coverage: Option<PathBuf>,
    /// Run again what changes concern.
    watch: bool,
    /// What goes to workers as it is: `filter`, `tags`, `helper`, `lpath`...
    settings: Vec<(String, Vec<u8>)>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// An assertion did not hold.
    Failed,
    /// Something else was raised.
    Error,
    /// It took too long.
    TimedOut,
    /// It is not there yet.
    Pending,
}

impl Outcome {
    fn is_bad(self) -> bool {
        !matches!(self, Outcome::Passed | Outcome::Pending)
    }
}

/// A test that has been run.
#[derive(Debug)]
pub struct Test {
    name: String,
    outcome: Outcome,
    seconds: f64,
    /// Line where it is written, or empty.
    line: String,
    /// Why it failed, or is pending.
    message: String,
    trace: String,
}

/// A file that has been run.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    tests: Vec<Test>,
    assertions: u64,
    seconds: f64,
    /// What it wrote to standard output and standard error.
    output: Vec<u8>,
    /// What its process told of the lines that were executed.
    covered: Vec<coverage::Told>,
    /// The files that it looked at, and those that it wrote, if that is asked for.
    looked_at: Vec<PathBuf>,
    written: Vec<PathBuf>,
}

impl File {
    fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|t| t.outcome == outcome).count()
    }

    fn bad(&self) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(|t| t.outcome.is_bad())
    }
}

/// Longest that a test may take, unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    if worker::is_asked_for() {
        return worker::run();
    }
    let me = manual::entry("test");
    let read = match me.read(words) {
        Ok(Some(read)) => read,
        Ok(None) => return manual::print(&me.help()),
        Err(e) => return me.refuse(&e),
    };
    let options = match options(read) {
        Ok(options) => options,
        Err(e) => return me.refuse(&e),
    };
    match carry_out(options) {
        Ok(code) => code,
        Err(e) => {
            let e = crate::protected::in_words(&e.to_string());
            crate::protected::write_error(format!("perilune test: {e}\n").as_bytes());
            ExitCode::from(2)
        }
    }
}

fn options(read: manual::Words) -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut options = Options {
        paths: read.rest.into_iter().map(PathBuf::from).collect(),
        jobs: cores,
        timeout: TIMEOUT,
        format: "plain".to_owned(),
        output: None,
        fail_fast: false,
        verbose: false,
        coverage: None,
        watch: false,
        settings: Vec::new(),
    };
    for (name, argument) in read.options {
        let text = argument.as_ref().map(|a| a.to_string_lossy().into_owned()).unwrap_or_default();
        match name {
            "--jobs" => {
                let jobs = text.parse().ok().filter(|n| *n > 0);
                options.jobs = jobs.ok_or_else(|| format!("--jobs: '{text}' is no number from 1 on"))?;
            }
            "--timeout" => {
                options.timeout =
                    super::observe::read_duration(&text, "s").map_err(|e| format!("--timeout: {e}"))?
            }
            "--format" => options.format = text,
            "--output" => options.output = argument.map(PathBuf::from),
            "--fail-fast" => options.fail_fast = true,
            "--verbose" => options.verbose = true,
            "--coverage" => options.coverage = options.coverage.or_else(|| Some(PathBuf::from("lcov.info"))),
            "--watch" => options.watch = true,
            "--lcov" => options.coverage = argument.map(PathBuf::from),
            _ => {
                use std::os::unix::ffi::OsStringExt;
                let value = argument.map(OsString::into_vec).unwrap_or_default();
                options.settings.push((name.trim_start_matches('-').to_owned(), value));
            }
        }
    }
    if options.watch {
        // Reports for other programs have an end, and the lines of some files are not those of all.
        let other = match () {
            () if options.format != "plain" => Some("--format"),
            () if options.output.is_some() => Some("--output"),
            () if options.coverage.is_some() => Some("--coverage"),
            () => None,
        };
        if let Some(other) = other {
            return Err(format!("--watch does not go with {other}: leave one out"));
        }
    }
    Ok(options)
}

/// Adds what `.busted` says and the command line does not.
fn add_settings(settings: &mut Vec<(String, Vec<u8>)>, config: &mut find::Config) {
    for (name, value) in std::mem::take(&mut config.settings) {
        if !settings.iter().any(|(known, _)| *known == name) {
            settings.push((name, value));
        }
    }
}

fn carry_out(mut options: Options) -> Result<ExitCode, String> {
    if options.watch {
        return watch::watch(options);
    }
    let mut config = find::config()?;
    add_settings(&mut options.settings, &mut config);
    let files = find::files(&options.paths, &config)?;
    if files.is_empty() {
        return Err("there is no file whose name ends in _test.lua or _spec.lua".to_owned());
    }
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(super::observe::create(path).map_err(|e| e.to_string())?),
        None => Box::new(std::io::stdout()),
    };
    let mut reporter = report::reporter(&options.format, options.verbose);
    let mut failed = false;
    let mut result = reporter.begin(&mut *out);
    let began = std::time::Instant::now();
    let mut coverage = coverage::Coverage::of(&files);
    pool::run(&files, &options, &pool::Stop::default(), &mut |file| {
        failed |= file.bad().next().is_some();
        coverage.add(&file.covered);
        if result.is_ok() {
            result = reporter.file(&file, &mut *out);
        }
        // Whoever reads has seen enough, or it is enough for whoever asked.
        result.is_ok() && !(failed && options.fail_fast)
    })?;
    result
        .and_then(|()| reporter.end(began.elapsed(), &mut *out))
        .and_then(|()| out.flush())
        .map_err(|e| e.to_string())?;
    if let Some(path) = &options.coverage {
        // A report in another program's format has standard output for itself.
        crate::protected::write_error(coverage.table().as_bytes());
        std::fs::write(path, coverage.lcov()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
