//! What all commands share that watch a program: options, the program itself, draining its rings, exit codes.
//!
//! Such a command watches a script that it starts, or a process that runs (`--attach PID`), or reads what was
//! recorded before (a file). A script is run by this same executable; standard input, output and error are
//! the script's, so a command writes its own data to standard output only when the script has ended (or to
//! `-o FILE`), and what it has to say about them to standard error.
//!
//! ```ignore
//! pub fn run(words: &[Vec<u8>]) -> ExitCode {
//!     let mut top = 30;
//!     let request = match observe::read("latency", &words[2..], &mut |name, parser| {
//!         match name {
//!             "--top" => top = parser.value()?.parse()?,
//!             _ => return Ok(false),
//!         }
//!         Ok(true)
//!     }) {
//!         Ok(request) => request,
//!         Err(code) => return code,
//!     };
//!     request.finish(request.trace(&request.session()).and_then(|seen| {
//!         let mut out = request.output()?;
//!         write!(out, "{} events", seen.trace.events.len())?;
//!         out.flush()?;
//!         Ok(seen.code)
//!     }))
//! }
//! ```
//!
//! # Draining
//! One thread sleeps on the process's file descriptor, so that it notices the end at once, wakes up every 1
//! to 20 ms, and copies what is new. How long it sleeps depends on how full the fullest ring had become: a
//! ring of 2^18 events lasts 260 ms at a million events per second, and is read when an eighth of it is new.
//! Nothing is allocated for an event; the batch is one vector that is used again.
//!
//! # Signals
//! Ctrl-C on a terminal reaches the tool and the script alike: the script decides what it means, and the tool
//! reports when the script has ended. A signal that was sent to the tool alone is passed on to the script. A
//! process that was attached to gets nothing of all this: the observation ends and is reported.

use crate::commands::manual;
use crate::sys::signal::{self, Action, Info, set_action};
use crate::sys::{self, process};
use lexopt::Parser;
use perilune_see::Reader;
use perilune_see::kernel::{self, Kernel};
use perilune_see::tool::Target;
use perilune_see::trace::Trace;
use perilune_trace::event::{CATEGORIES, DEFAULT_CATEGORIES, parse_categories};
use perilune_trace::layout::Geometry;
use perilune_trace::read::RawEvent;
use perilune_trace::session::Options;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString, c_void};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Events that a ring holds when a tool reads it.
const RING_EVENTS: u32 = 1 << 18;

/// What is to be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A process that runs.
    Attach(u32),
    /// A recording, an event file, or a snapshot of a heap.
    File(PathBuf),
    /// Two snapshots of heaps.
    Files(PathBuf, PathBuf),
    /// A script and its arguments. If the first word begins with `-` the words are options of the
    /// interpreter.
    Script(Vec<OsString>),
}

/// A command line of an observing command, read.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command, as messages name it.
    pub command: &'static str,
    /// What is observed.
    pub source: Source,
    /// How long at most.
    pub duration: Option<Duration>,
    /// `--events`, as a mask of categories.
    pub events: Option<u32>,
    /// `--ring`
    pub ring: Option<u32>,
    /// `--json`
    pub json: bool,
    /// `--sched`
    pub sched: bool,
    /// `-o`
    pub output: Option<PathBuf>,
    /// What the executable was called as.
    arg0: OsString,
}

/// What was seen.
pub struct Seen {
    /// All events.
    pub trace: Trace,
    /// The script's exit code, for the command to pass on; 0 if no script was run.
    pub code: u8,
}

/// Reads the words after a command's name. `own` is asked about each option that the table has for the
/// command, under the last of its names, and answers whether it is one of those that are not common to all;
/// it takes the option's value, if it has one, from the parser. A mistake is reported.
///
/// # Errors
/// The exit code: 0 after `--help`, 2 if the words make no sense.
pub fn read(
    command: &'static str,
    words: &[Vec<u8>],
    own: &mut dyn FnMut(&str, &mut Parser) -> Result<bool, lexopt::Error>,
) -> Result<Request, ExitCode> {
    let entry = manual::entry(command);
    match parse(entry, words, own) {
        Ok(Some(request)) => match request.missing_script() {
            Some(message) => Err(entry.refuse(&message)),
            None => Ok(request),
        },
        Ok(None) => Err(manual::print(&entry.help())),
        Err(e) => Err(entry.refuse(&e.to_string())),
    }
}

fn parse(
    entry: &'static manual::Command,
    words: &[Vec<u8>],
    own: &mut dyn FnMut(&str, &mut Parser) -> Result<bool, lexopt::Error>,
) -> Result<Option<Request>, lexopt::Error> {
    let command = entry.words;
    let (mut attach, mut files, mut script) = (None, Vec::new(), None);
    let mut request = Request {
        command,
        source: Source::Script(Vec::new()),
        duration: None,
        events: None,
        ring: None,
        json: false,
        sched: false,
        output: None,
        arg0: std::env::args_os().next().unwrap_or_else(|| "perilune".into()),
    };
    let mut parser = Parser::from_args(words.iter().map(|w| OsString::from_vec(w.clone())));
    loop {
        // What follows `--` is the program's, whatever it looks like.
        if parser.try_raw_args().is_some_and(|mut raw| raw.next_if(|w| w == "--").is_some()) {
            let rest: Vec<OsString> = parser.raw_args()?.collect();
            script = (!rest.is_empty()).then_some(rest);
            break;
        }
        let name = match parser.next()? {
            None => break,
            // Options may follow a file that is read; what follows a script is the script's.
            Some(lexopt::Arg::Value(word)) if !files.is_empty() || is_data(Path::new(&word)) => {
                files.push(PathBuf::from(word));
                continue;
            }
            Some(lexopt::Arg::Value(word)) => {
                let mut rest = vec![word];
                let mut words = parser.raw_args()?;
                // `FILE -- ARGS` is `FILE ARGS`; who wants to have the script see a `--` writes one more
                // before it.
                words.next_if(|w| w == "--");
                rest.extend(words);
                script = Some(rest);
                break;
            }
            Some(lexopt::Arg::Long(name)) => format!("--{name}"),
            Some(lexopt::Arg::Short(name)) => format!("-{name}"),
        };
        if matches!(name.as_str(), "--help" | "-h") {
            return Ok(None);
        }
        let names = entry.option(&name)?.names;
        let name = names[names.len() - 1];
        match name {
            _ if own(name, &mut parser)? => {}
            "--attach" => attach = Some(pid(&parser.value()?)?),
            "--duration" => {
                request.duration = Some(time(name, &parser.value()?)?);
            }
            "--events" => request.events = Some(categories(&parser.value()?)?),
            "--ring" => request.ring = Some(number(&parser.value()?, "--ring")?),
            "--from-file" => files.push(PathBuf::from(parser.value()?)),
            "--json" => request.json = true,
            "--sched" => request.sched = true,
            "--output" => request.output = Some(parser.value()?.into()),
            _ => unreachable!("perilune {command}: {name} is in the table, and nobody reads it"),
        }
    }
    request.source = match (attach, &files[..], script) {
        (Some(pid), [], None) => Source::Attach(pid),
        (None, [file], None) => Source::File(file.clone()),
        (None, [old, new], None) if command == "heap" => Source::Files(old.clone(), new.clone()),
        (None, [], Some(words)) => Source::Script(words),
        (None, [], None) if command == "fibers" => {
            return Err("name a process that runs: --attach PID".into());
        }
        (None, [], None) => return Err("name a script, or --attach PID, or a recording".into()),
        _ => return Err("only one of a script, --attach PID, and a recording".into()),
    };
    Ok(Some(request))
}

/// Is it a file that tools read, though perhaps a damaged one, and no script? A script is text or a binary
/// chunk.
fn is_data(path: &Path) -> bool {
    let mut head = [0; 256];
    // A pipe would lose what is read here.
    let is_file = std::fs::metadata(path).is_ok_and(|m| m.is_file());
    let Some(n) = is_file.then(|| File::open(path).and_then(|mut f| f.read(&mut head)).ok()).flatten() else {
        return false;
    };
    let head = &head[..n];
    // Of an empty file only the name says what it was to be.
    if head.is_empty() {
        return path.extension().is_none_or(|end| end != "lua");
    }
    let is_ours = ["PLTRA", "PLTRE", "PLHEA"].iter().any(|magic| head.starts_with(magic.as_bytes()));
    is_ours || head.contains(&0) && !head.starts_with(b"\x1b") && !head.starts_with(b"#")
}

/// An option's time, in seconds if no unit is said.
///
/// # Errors
/// A message for people that names the option.
pub fn time(option: &str, word: &OsStr) -> Result<Duration, lexopt::Error> {
    read_duration(&word.to_string_lossy(), "s").map_err(|e| format!("{option}: {e}").into())
}

fn number(word: &OsStr, option: &str) -> Result<u32, lexopt::Error> {
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{option}: '{text}' is no number").into())
}

fn pid(word: &OsStr) -> Result<u32, lexopt::Error> {
    match number(word, "--attach") {
        Ok(pid) if pid > 0 && pid <= i32::MAX as u32 => Ok(pid),
        _ => Err(format!("--attach: '{}' is no number of a process", word.to_string_lossy()).into()),
    }
}

fn categories(word: &OsStr) -> Result<u32, lexopt::Error> {
    parse_categories(&word.to_string_lossy()).map_err(|word| {
        let all: Vec<_> = CATEGORIES.iter().map(|(_, name)| *name).collect();
        format!("--events: there is no category '{word}' (there are: all, default, {})", all.join(", "))
            .into()
    })
}

/// Reads a time like `10`, `1.5s`, `250ms`, `50us`, `2m`; a number alone is in `unit`s.
///
/// # Errors
/// A message for people.
pub fn read_duration(text: &str, unit: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let scale = match (&text[digits..], unit) {
        ("ns", _) | ("", "ns") => 1e-9,
        ("us" | "µs", _) | ("", "us") => 1e-6,
        ("ms", _) | ("", "ms") => 1e-3,
        ("s", _) | ("", "s") => 1.0,
        ("m", _) => 60.0,
        ("h", _) => 3600.0,
        _ => -1.0,
    };
    let seconds = text[..digits].parse::<f64>().unwrap_or(-1.0) * scale;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if scale > 0.0 && seconds < 1e9 => Ok(time),
        _ => Err(format!("'{text}' is no time (write 250ms, 10s, 2m)")),
    }
}

impl Request {
    /// What the session is to record: `--events` or else the default categories. Commands that need others
    /// change it.
    pub fn session(&self) -> Options {
        Options {
            categories: self.events.unwrap_or(DEFAULT_CATEGORIES),
            geometry: Geometry { ring_events: self.ring.unwrap_or(RING_EVENTS), ..Geometry::default() },
            ..Options::default()
        }
    }

    /// What is wrong if the script is not there: before anything is made or shown that would be about
    /// nothing.
    fn missing_script(&self) -> Option<String> {
        let Source::Script(words) = &self.source else { return None };
        let script = Path::new(&words[0]);
        // `fibers` takes no script, and says so.
        if self.command == "fibers" || words[0].as_bytes().starts_with(b"-") || script.exists() {
            return None;
        }
        Some(manual::cannot_open(script, &sys::no_such_file()))
    }

    /// Starts the script or attaches to the process.
    ///
    /// # Errors
    /// It cannot be started or attached to; the source is a file.
    pub fn begin(&self, options: &Options) -> io::Result<Observation> {
        self.begin_with(options, |_| {})
    }

    /// As [`Request::begin`]; `adjust` may give the script other streams.
    ///
    /// # Errors
    /// As there.
    pub fn begin_with(
        &self,
        options: &Options,
        adjust: impl FnOnce(&mut Command),
    ) -> io::Result<Observation> {
        let (target, title) = match &self.source {
            Source::Attach(pid) => {
                let target = Target::attach(*pid, options)?;
                (target, command_line(*pid))
            }
            Source::Script(words) => {
                let mut command = Command::new(sys::THIS_EXECUTABLE);
                command.arg0(&self.arg0);
                // A script is marked as one: it may be called as a subcommand is.
                if !words[0].as_bytes().starts_with(b"-") {
                    command.arg("--");
                }
                command.args(words);
                if self.json && self.output.is_none() {
                    // Standard output is the report's: what the script prints must not be in the middle of
                    // it.
                    command.stdout(std::io::stderr());
                }
                adjust(&mut command);
                let target = Target::spawn(command, options)?;
                let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
                (target, words.join(" "))
            }
            Source::File(file) | Source::Files(file, _) => {
                return Err(io::Error::other(format!(
                    "{}: this command watches a program, it does not read files",
                    file.display()
                )));
            }
        };
        let script = matches!(self.source, Source::Script(_));
        CHILD.store(if script { target.pid as i32 } else { 0 }, Ordering::Release);
        catch_signals(true);
        let kernel = self.sched.then(|| Kernel::watch(target.pid));
        if let Some(remark) = kernel.as_ref().and_then(Kernel::remark) {
            eprintln!("perilune {}: {remark}", self.command);
        }
        Ok(Observation {
            kernel: kernel.map(|kernel| Rc::new(RefCell::new(kernel))),
            process: process::open(target.pid),
            target,
            title,
            script,
            until: self.duration.map(|d| Instant::now() + d),
        })
    }

    /// Everything there is to see: reads the file, or watches until the program or the time is over.
    ///
    /// # Errors
    /// The file cannot be read, the program not be watched.
    pub fn trace(&self, options: &Options) -> io::Result<Seen> {
        match &self.source {
            Source::File(path) => Ok(Seen { trace: Trace::load(path)?, code: 0 }),
            _ => self.begin(options)?.collect(),
        }
    }

    /// Where the command's data go: `-o FILE`, which only this user can read, or standard output.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn output(&self) -> io::Result<Box<dyn Write>> {
        Ok(match &self.output {
            Some(path) => Box::new(BufWriter::new(create(path)?)),
            None => Box::new(BufWriter::new(io::stdout().lock())),
        })
    }

    /// Says on standard error that the words make no sense; the exit code.
    pub fn refuse(&self, message: &str) -> ExitCode {
        manual::entry(self.command).refuse(message)
    }

    /// The exit code; says on standard error what went wrong.
    pub fn finish(&self, result: io::Result<u8>) -> ExitCode {
        finish(self.command, result)
    }

    /// Says on standard error what the trace lacks.
    pub fn remarks(&self, trace: &Trace) {
        if trace.lost > 0 {
            eprintln!(
                "perilune {}: {} events were overwritten before they were read (--ring N makes room for more)",
                self.command, trace.lost
            );
        }
        if trace.unknown > 0 {
            eprintln!("perilune {}: {} events of unknown kinds", self.command, trace.unknown);
        }
        for remark in &trace.remarks {
            eprintln!("perilune {}: {remark}", self.command);
        }
    }
}

/// As [`Request::finish`], for commands that observe nothing.
pub fn finish(command: &str, result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("perilune {command}: {}", crate::protected::in_words(&e.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Makes a file that only this user can read, or empties the one that is there.
///
/// # Errors
/// The file's name is part of the message.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

/// The command line of a process, for people.
fn command_line(pid: u32) -> String {
    let words = process::words(pid).unwrap_or_default();
    let words: Vec<_> = words.split(|&b| b == 0).map(String::from_utf8_lossy).collect();
    format!("{} (process {pid})", words.join(" ").trim_end())
}

/// What is done with a batch of new events, which may be empty; breaking off ends the observation, not the
/// program.
pub type OnBatch<'a> = &'a mut dyn FnMut(&Reader, &[RawEvent]) -> io::Result<ControlFlow<()>>;

/// A program under observation.
pub struct Observation {
    /// The program and its events.
    pub target: Target,
    /// What is observed, for people: its command line.
    pub title: String,
    /// The kernel's view, if it was asked for. Nobody else uses it while `on_batch` runs.
    pub kernel: Option<Rc<RefCell<Kernel>>>,
    /// Readable when the process has ended.
    process: Option<OwnedFd>,
    script: bool,
    until: Option<Instant>,
}

impl Observation {
    /// When the observation ends at the latest, instead of what `--duration` says; `None`: with the program.
    pub fn set_end(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Drains the rings until the program or the time is over, or `on_batch` breaks off; a script is waited
    /// for in any case. The exit code to pass on.
    ///
    /// # Errors
    /// Those of `on_batch`.
    pub fn run(&mut self, on_batch: OnBatch) -> io::Result<u8> {
        let result = self.drain_all(on_batch);
        self.target.end();
        // A script whose observation is over goes on, and its exit code counts.
        while self.script && !self.has_ended(Duration::from_secs(1)) {}
        catch_signals(false);
        result?;
        let status = self.target.status();
        Ok(if self.script { status.map_or(1, exit_code) } else { 0 })
    }

    fn drain_all(&mut self, on_batch: OnBatch) -> io::Result<()> {
        let mut batch = Vec::new();
        let mut pause = Pause::default();
        let mut over = false;
        while !over {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            over = self.has_ended(left.map_or(pause.time, |left| left.min(pause.time)))
                || left.is_some_and(|left| left.is_zero())
                || !self.script && STOP.load(Ordering::Acquire);
            if over {
                self.target.end();
            }
            batch.clear();
            self.target.reader.drain(&mut |event| batch.push(event));
            if let Some(kernel) = &self.kernel {
                kernel.borrow_mut().poll();
            }
            pause.adapt(&batch, self.target.reader.mapping().header().ring_events);
            if on_batch(&self.target.reader, &batch)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Sleeps so long, or until the process has ended or a signal came. Has it ended?
    fn has_ended(&mut self, at_most: Duration) -> bool {
        if let Some(process) = &self.process {
            let ended = process::wait_for_end(process, at_most);
            if ended {
                // Takes the exit code of a script in.
                self.target.is_alive();
            }
            return ended;
        }
        self.target.wait(at_most);
        !self.target.is_alive()
    }

    /// The whole trace.
    ///
    /// # Errors
    /// The program cannot be watched.
    pub fn collect(mut self) -> io::Result<Seen> {
        let mut raw = Vec::new();
        let code = self.run(&mut |_, batch| {
            raw.extend_from_slice(batch);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut trace = Trace::from_raw(&self.target.reader, raw);
        trace.title = self.title;
        if let Some(kernel) = &self.kernel {
            kernel::add_to(&mut trace, &kernel.borrow().encode());
        }
        Ok(Seen { trace, code })
    }
}

/// A script's exit code as a shell would have it.
pub fn exit_code(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

/// How long to sleep between two looks.
struct Pause {
    time: Duration,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { time: Duration::from_millis(2) }
    }
}

impl Pause {
    const RANGE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

    /// By how full the fullest ring was.
    fn adapt(&mut self, batch: &[RawEvent], ring_events: u32) {
        // A batch lists one ring after the other.
        let fullest = batch.chunk_by(|x, y| x.ring == y.ring).map(<[_]>::len).max().unwrap_or(0);
        if fullest > ring_events as usize / 8 {
            self.time /= 2;
        } else if fullest < ring_events as usize / 32 {
            self.time = self.time * 5 / 4;
        }
        self.time = self.time.clamp(Self::RANGE[0], Self::RANGE[1]);
    }
}

/// The observation shall end.
static STOP: AtomicBool = AtomicBool::new(false);
/// The script's process; 0: attached.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The signals that would end the tool are handled from now on, or no more.
fn catch_signals(on: bool) {
    // Sleeping ends with a signal.
    let action = if on { Action::CallInformed(on_signal) } else { Action::Default };
    for signal in [signal::INT, signal::TERM, signal::HUP] {
        set_action(signal, action);
    }
    // A reader that is gone must not end the tool before it has detached: writing fails instead. The child
    // that was started before has its own action.
    set_action(signal::PIPE, if on { Action::Ignore } else { Action::Default });
}

extern "C" fn on_signal(signal: i32, info: &Info, _: *mut c_void) {
    match CHILD.load(Ordering::Acquire) {
        0 => STOP.store(true, Ordering::Release),
        // What the terminal sends has reached the script already.
        child if info.is_from_process() => signal::send(child, signal),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Option<Request>, String> {
        let words: Vec<Vec<u8>> =
            text.split(' ').filter(|w| !w.is_empty()).map(|w| w.as_bytes().to_vec()).collect();
        parse(manual::entry("latency"), &words, &mut |name, parser| {
            if name == "--top" {
                parser.value()?;
            }
            Ok(name == "--top")
        })
        .map_err(|e| e.to_string())
    }

    fn source(text: &str) -> Source {
        line(text).unwrap().unwrap().source
    }

    #[test]
    fn what_is_observed() {
        let script = |words: &[&str]| Source::Script(words.iter().map(OsString::from).collect());
        assert_eq!(source("--json a.lua --json -x"), script(&["a.lua", "--json", "-x"]));
        assert_eq!(source("--top 3 -- a.lua -- b"), script(&["a.lua", "--", "b"]));
        assert_eq!(source("--json a.lua -- --json -- b"), script(&["a.lua", "--json", "--", "b"]));
        assert_eq!(source("-- -e x"), script(&["-e", "x"]));
        assert_eq!(source("--attach 12 --duration 1.5"), Source::Attach(12));
        assert_eq!(source("--from-file x"), Source::File("x".into()));
        let r = line("--duration=250ms --events gc,user --ring 1000 -o out a").unwrap().unwrap();
        assert_eq!(r.duration, Some(Duration::from_millis(250)));
        assert_eq!((r.session().categories.count_ones(), r.session().geometry.ring_events), (2, 1000));
        assert_eq!(r.output, Some("out".into()));
        assert!(line("--json -h").unwrap().is_none());
    }

    #[test]
    fn words_that_make_no_sense() {
        for (text, part) in [
            ("", "name a script"),
            ("--attach 1 a.lua", "only one"),
            ("--attach x", "no number of a process"),
            ("--attach -1", "no number of a process"),
            ("--attach 0", "no number of a process"),
            ("--duration", "missing argument"),
            ("--duration 3x a", "is no time"),
            ("--duration . a", "is no time"),
            ("--events gx a", "no category 'gx'"),
            ("--top", "missing argument"),
            ("--bottom 3 a", "unknown option '--bottom'"),
        ] {
            let message = line(text).expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn pauses_follow_the_load() {
        let event = RawEvent { ticks: 0, ring: 0, kind: 0, c: 0, writer: 0, a: 0, b: 0 };
        let mut pause = Pause::default();
        for _ in 0..50 {
            pause.adapt(&[], 256);
        }
        assert_eq!(pause.time, Duration::from_millis(20));
        for _ in 0..50 {
            pause.adapt(&[event; 200], 256);
        }
        assert_eq!(pause.time, Duration::from_millis(1));
        let two: Vec<_> = (0..200).map(|n| RawEvent { ring: n % 100, ..event }).collect();
        pause.adapt(&two, 256);
        assert!(pause.time > Duration::from_millis(1));
    }
}
