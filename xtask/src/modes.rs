//! `cargo xtask modes`: programs do the same in every mode of machine code and of the collector.
//!
//! What is run are the recorded scripts (`tests/lua`, `tests/parallel`), the files of Lua's own suite if
//! `--suite` says where they are, and random programs beside the reference for a while. The modes are those
//! of
//! [`perilune_test::script::MODES`]: from everything interpreted to machine code that leaves at every opportunity, and
//! both with a collection at every allocation, a heap that is verified and memory that is overwritten when it
//! is freed.
//!
//! A run takes hours where the heap is verified at every allocation, so it can be stopped at any time: each
//! case that ends is a line in `target/modes/state`, and the next run begins behind them. Cases that failed
//! are run again; `--again` runs all. The lines are of one executable: another begins from the start. The
//! executable and all scripts are copied before the first case, so what is built or edited meanwhile changes
//! nothing.
//!
//! A case under the verifier that is out of time is run again with one collection in [`SELDOM`] verified,
//! then with none, since a heap that is walked at every allocation takes a time that is quadratic in its
//! size. One that is out of time all the same is counted apart where each allocation collects, and has failed
//! where it does not: there every case ends within seconds.

use crate::chore::{self, Error, Outcome};
use crate::{peers, suite};
use lexopt::prelude::*;
use perilune_test::script::{MODES, Mode, Script, on_all_cores};
use perilune_test::{Folder, Limited, text};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Listing line.
pub const SUMMARY: &str = "recorded scripts, Lua's suite and random programs in every mode of machine code \
    and of the collector; goes on where it was stopped";
/// Arguments.
pub const USAGE: &str = "[--suite DIR] [--fuzz SECONDS] [--reference LUA] [--mode NAME]... [--only PART] \
    [--timeout SECONDS] [--bin PATH] [--profile P] [--again]";

/// What walks the heap at every collection.
const VERIFIER: &str = "PERILUNE_GC_VERIFY";
/// What it is set to for a heap that is too large to be walked at each: one collection in so many. A prime,
/// which falls in with no loop.
const SELDOM: &str = "97";
/// Who knows better, unless `--reference` names another. Messages differ between releases: ours are those of
/// 5.4.8.
const REFERENCE: &str = "lua5.4";

/// Files of the suite that measure how much is freed by which collection, which means nothing where each
/// allocation collects; `all.lua` has the two others in it.
const MEASURE_COLLECTIONS: &[&str] = &["gc.lua", "gengc.lua", "all.lua"];

/// What is run.
enum What {
    Script(Script),
    Suite(String),
    Fuzz,
}

/// One thing to run in one mode.
struct Case {
    name: String,
    mode: Mode,
    what: What,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Passed,
    /// It passed with few collections verified, and was out of time with all.
    Sampled,
    /// It passed without the verifier, and was out of time with it.
    Unverified,
    /// It was out of time, as it may be where each allocation collects.
    OutOfTime,
    Failed,
}

const ENDS: [(End, &str); 5] = [
    (End::Passed, "passed"),
    (End::Sampled, "sampled"),
    (End::Unverified, "unverified"),
    (End::OutOfTime, "out-of-time"),
    (End::Failed, "failed"),
];

impl End {
    fn word(self) -> &'static str {
        ENDS.iter().find(|(end, _)| *end == self).expect("every end has a word").1
    }

    fn of(word: &str) -> Option<End> {
        ENDS.iter().find(|(_, name)| *name == word).map(|(end, _)| *end)
    }
}

/// What has ended, in all runs of one executable.
struct State {
    ends: BTreeMap<String, End>,
    file: File,
}

impl State {
    /// Reads what earlier runs came to; what another executable came to is forgotten.
    fn load(path: &Path, executable: &str, again: bool) -> std::io::Result<State> {
        let old = if again { String::new() } else { std::fs::read_to_string(path).unwrap_or_default() };
        let mut lines = old.lines();
        let ends = if lines.next() == Some(executable) {
            lines
                .filter_map(|line| line.rsplit_once(' '))
                .filter_map(|(n, e)| Some((n.to_owned(), End::of(e)?)))
                .collect()
        } else {
            BTreeMap::new()
        };
        if ends.is_empty() {
            std::fs::write(path, format!("{executable}\n"))?;
        }
        Ok(State { ends, file: File::options().append(true).open(path)? })
    }

    /// Whether a case need not be run again.
    fn has(&self, name: &str) -> bool {
        self.ends.get(name).is_some_and(|end| *end != End::Failed)
    }

    /// One write for a line: a run that is stopped leaves whole lines.
    fn note(&mut self, name: &str, end: End) -> std::io::Result<()> {
        self.ends.insert(name.to_owned(), end);
        self.file.write_all(format!("{name} {}\n", end.word()).as_bytes())
    }
}

struct Options {
    binary: PathBuf,
    /// What has the folders of recorded scripts.
    scripts: PathBuf,
    /// Empty where no random programs are run.
    fuzzer: PathBuf,
    suite: Option<PathBuf>,
    fuzz: u64,
    reference: Option<PathBuf>,
    limit: Duration,
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut suite, mut fuzz, mut limit, mut only) = (None, 0, 120, String::new());
    let mut reference = REFERENCE.to_string();
    let (mut modes, mut bin, mut profile, mut again) = (BTreeSet::new(), None, "fast".to_string(), false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("suite") => suite = Some(PathBuf::from(parser.value()?).canonicalize()?),
            Long("fuzz") => fuzz = parser.value()?.parse()?,
            Long("reference") => reference = parser.value()?.string()?,
            Long("mode") => modes.extend([parser.value()?.string()?]),
            Long("only") => only = parser.value()?.string()?,
            Long("timeout") => limit = parser.value()?.parse()?,
            Long("bin") => bin = Some(parser.value()?.string()?),
            Long("profile") => profile = parser.value()?.string()?,
            Long("again") => again = true,
            _ => return Err(arg.unexpected().into()),
        }
    }
    if let Some(unknown) = modes.iter().find(|name| MODES.iter().all(|mode| mode.name != name.as_str())) {
        let known: Vec<&str> = MODES.iter().map(|mode| mode.name).collect();
        return Err(format!("there is no mode '{unknown}'; there are {}", known.join(", ")).into());
    }
    let binary = peers::ours(bin.as_deref(), &profile)?.bin;
    if fuzz > 0 {
        build_fuzzer()?;
    }
    let folder = chore::target_dir().join("modes");
    std::fs::create_dir_all(&folder)?;
    let binary = keep(&binary, &folder)?;
    let fuzzer = if fuzz > 0 {
        keep(&chore::target_dir().join("fast/perilune-fuzzer"), &folder)?
    } else {
        PathBuf::new()
    };
    let executable: String =
        Sha256::digest(std::fs::read(&binary)?).iter().map(|b| format!("{b:02x}")).collect();
    let state = State::load(&folder.join("state"), &executable, again)?;
    let reference = perilune_measure::on_path(&reference);
    let scripts = copied(&chore::root().join("tests"));
    let suite = suite.as_deref().map(copied);
    let options = Options {
        binary,
        scripts: scripts.path().into(),
        fuzzer,
        suite: suite.as_ref().map(|folder| folder.path().into()),
        fuzz,
        reference,
        limit: Duration::from_secs(limit),
    };
    let mut cases = cases(&options, &only)?;
    cases.retain(|case| modes.is_empty() || modes.contains(case.mode.name));
    if cases.is_empty() {
        return Err("nothing to run has such a name".into());
    }
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let before = names.iter().filter(|name| state.has(name)).count();
    cases.retain(|case| !state.has(&case.name));
    let state = Mutex::new(state);
    let broken = on_all_cores(&cases, |case| {
        chore::progress(&case.name);
        let (end, report) = run_case(case, &options);
        if end != End::Passed {
            chore::progress("");
            println!("{} {}", case.name, end.word());
            if !report.is_empty() {
                println!("{report}");
            }
        }
        let mut state = state.lock().expect("nobody panics holding it");
        state.note(&case.name, end).map_err(|e| format!("the state cannot be written: {e}"))
    });
    if let Some(why) = broken.first() {
        return Err(why.clone().into());
    }
    chore::progress("");
    let state = state.into_inner().expect("nobody panics holding it");
    let ends: Vec<End> = names.iter().filter_map(|name| state.ends.get(name).copied()).collect();
    println!("{}", closing(&ends, before));
    Ok(Outcome::from_ok(!ends.contains(&End::Failed)))
}

/// A copy that stays as it is while the run lasts, whatever is built meanwhile. An earlier run may have the
/// old one open.
fn keep(executable: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    let kept = folder.join(executable.file_name().unwrap_or_default());
    let new = kept.with_extension("new");
    std::fs::copy(executable, &new)?;
    std::fs::rename(&new, &kept)?;
    Ok(kept)
}

/// The same of a folder, for as long as the value lives.
fn copied(folder: &Path) -> Folder {
    let copy = Folder::new();
    copy.copy(folder);
    copy
}

/// The closing line.
fn closing(ends: &[End], before: usize) -> String {
    let count = |end: End| ends.iter().filter(|e| **e == end).count();
    format!(
        "{} cases: {} passed, {} passed with some collections verified, {} passed without the verifier \
         alone, {} out of time, {} failed; {before} of them in earlier runs",
        ends.len(),
        count(End::Passed),
        count(End::Sampled),
        count(End::Unverified),
        count(End::OutOfTime),
        count(End::Failed)
    )
}

/// Everything there is to run, mode by mode, those that collect at every allocation last.
fn cases(options: &Options, only: &str) -> Result<Vec<Case>, Error> {
    let mut found = Vec::new();
    for &mode in MODES {
        let mut add =
            |name: String, what| found.push(Case { name: format!("{}/{name}", mode.name), mode, what });
        for folder in ["lua", "parallel"] {
            for script in Script::all(&options.scripts.join(folder), "") {
                if script.runs_in(&mode) {
                    add(format!("{folder}/{}", script.name), What::Script(script));
                }
            }
        }
        if let Some(suite) = &options.suite {
            for file in suite::files(suite, None)? {
                if mode.is_stress() && MEASURE_COLLECTIONS.contains(&file.as_str()) {
                    continue;
                }
                add(format!("suite/{file}"), What::Suite(file));
            }
        }
        if options.fuzz > 0 {
            add(format!("programs/{}s", options.fuzz), What::Fuzz);
        }
    }
    found.retain(|case| case.name.contains(only));
    if options.suite.is_none() {
        println!("Lua's own suite is left out: --suite DIR says where it is");
    }
    if options.fuzz == 0 {
        println!("random programs are left out: --fuzz SECONDS runs them in each mode");
    } else if options.reference.is_none() {
        println!(
            "random programs are left out where nothing is collected at every allocation: the reference is \
             not installed"
        );
        found.retain(|case| case.mode.is_stress() || !matches!(case.what, What::Fuzz));
    }
    Ok(found)
}

/// Runs a case, if need be without the verifier; how it ended, and what is to be said about it.
fn run_case(case: &Case, options: &Options) -> (End, String) {
    judge(&case.mode, |environment| attempt(case, environment, options))
}

fn judge(
    mode: &Mode,
    attempt: impl Fn(&[(&str, &str)]) -> Result<Result<(), String>, String>,
) -> (End, String) {
    let (all, slow) = (mode.environment, if mode.is_stress() { End::OutOfTime } else { End::Failed });
    let report = match attempt(all) {
        Ok(Ok(())) => return (End::Passed, String::new()),
        Ok(Err(report)) => return (End::Failed, report),
        Err(report) => report,
    };
    if all.iter().all(|(name, _)| *name != VERIFIER) {
        return (slow, report);
    }
    let others = || all.iter().copied().filter(|(name, _)| *name != VERIFIER);
    let seldom: Vec<_> = others().chain([(VERIFIER, SELDOM)]).collect();
    let never: Vec<_> = others().collect();
    for (environment, passed) in [(seldom, End::Sampled), (never, End::Unverified)] {
        match attempt(&environment) {
            Ok(Ok(())) => return (passed, String::new()),
            Ok(Err(report)) => return (End::Failed, report),
            Err(_) => {}
        }
    }
    (slow, report)
}

/// Runs a case once: whether it passed, or that it was out of time.
fn attempt(
    case: &Case,
    environment: &[(&str, &str)],
    options: &Options,
) -> Result<Result<(), String>, String> {
    match &case.what {
        What::Script(script) => script
            .output(&options.binary, environment, options.limit)
            .map(|output| script.judge(&output))
            .map_err(|hang| hang.to_string()),
        What::Suite(file) => {
            let folder = Folder::new();
            folder.copy(options.suite.as_deref().expect("there are files of it"));
            let mut command = Command::new(&options.binary);
            command.args(suite::arguments(file, false)).current_dir(&folder);
            ended(command, environment, options.limit)
        }
        What::Fuzz => {
            let mut command = Command::new(&options.fuzzer);
            command.current_dir(chore::root()).arg(if case.mode.is_stress() { "stress" } else { "programs" });
            command.args(["--cases", "1000000000", "--seconds", &options.fuzz.to_string()]);
            command.arg("--perilune").arg(&options.binary);
            if let Some(reference) = options.reference.as_ref().filter(|_| !case.mode.is_stress()) {
                command.arg("--reference").arg(reference);
            }
            // The target `stress` compares with what happens without: it sets those variables itself.
            let mode: Vec<_> =
                environment.iter().copied().filter(|(name, _)| !name.starts_with("PERILUNE_GC")).collect();
            // The last program may take its own limits, and what fails is made smaller.
            ended(command, &mode, Duration::from_secs(options.fuzz) + options.limit)
        }
    }
}

fn ended(
    mut command: Command,
    environment: &[(&str, &str)],
    limit: Duration,
) -> Result<Result<(), String>, String> {
    command.envs(environment.iter().copied());
    let output = Limited::start_with(&mut command, Stdio::null()).within(limit).ended();
    let output = output.map_err(|hang| hang.to_string())?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let last = |bytes: &[u8]| {
        let said = text(bytes);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n    ")
    };
    Ok(Err(format!("  {}\n    {}\n    {}", output.status, last(&output.stdout), last(&output.stderr))))
}

fn build_fuzzer() -> Result<(), Error> {
    let built = chore::cargo()
        .args(["build", "--quiet", "--profile", "fast", "--package", "perilune-fuzzer"])
        .args(["--package", "perilune-cli"])
        .status()?;
    if built.success() { Ok(()) } else { Err("the fuzzer does not build".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_behind_what_ended_and_runs_failures_again() {
        let folder = Folder::new();
        let path = folder.join("state");
        let mut state = State::load(&path, "one", false).expect("a state");
        state.note("off/lua/a b", End::Passed).expect("written");
        state.note("off/lua/c", End::Failed).expect("written");
        state.note("stress/lua/c", End::OutOfTime).expect("written");
        let state = State::load(&path, "one", false).expect("a state");
        assert!(state.has("off/lua/a b") && state.has("stress/lua/c") && !state.has("off/lua/c"));
        assert_eq!(state.ends.len(), 3);
        // Another executable, and --again.
        assert!(State::load(&path, "two", false).expect("a state").ends.is_empty());
        assert!(State::load(&path, "one", false).expect("a state").ends.is_empty(), "it was forgotten");
        let mut state = State::load(&path, "one", false).expect("a state");
        state.note("x", End::Passed).expect("written");
        assert!(State::load(&path, "one", true).expect("a state").ends.is_empty());
    }

    #[test]
    fn what_is_run_stays_as_it_is_when_another_is_built() {
        let folder = Folder::with([("perilune", "one")]);
        let runs = Folder::new();
        let kept = keep(&folder.join("perilune"), runs.path()).expect("copied");
        std::fs::write(folder.join("perilune"), "two").expect("written");
        assert_eq!(std::fs::read_to_string(&kept).expect("there"), "one");
        assert_eq!(keep(&folder.join("perilune"), runs.path()).expect("copied"), kept);
        assert_eq!(std::fs::read_to_string(&kept).expect("there"), "two");
    }

    #[test]
    fn scripts_that_are_edited_meanwhile_are_run_as_they_were() {
        let tests = Folder::with([("lua/a.lua", "print(1)"), ("lua/a.out", "1\n"), ("parallel/b.lua", "")]);
        let copy = copied(tests.path());
        let options = Options {
            binary: "/bin/cat".into(),
            scripts: copy.path().into(),
            fuzzer: PathBuf::new(),
            suite: None,
            fuzz: 0,
            reference: None,
            limit: Duration::from_secs(60),
        };
        let cases = cases(&options, "off/lua/a").expect("cases");
        tests.write("lua/a.lua", "print(2)");
        tests.write("lua/a.out", "print(1)");
        let [Case { what: What::Script(script), .. }] = &cases[..] else { panic!("one script") };
        let output = script.output(&options.binary, &[], options.limit).expect("it ends");
        assert_eq!(output.stdout, b"print(1)", "what it was when the run began");
        assert!(script.judge(&output).is_err(), "nor has the recording changed");
    }

    #[test]
    fn out_of_time_is_no_failure_where_each_allocation_collects() {
        let (stress, verifier) = (("PERILUNE_GC_STRESS", "1"), (VERIFIER, "1"));
        let mode = |environment| Mode { name: "a", environment };
        let end = |mode, attempt: fn(&[(&str, &str)]) -> _| judge(&mode, attempt).0;
        let hangs = |_: &[(&str, &str)]| Err("slow".to_owned());
        let hangs_verified_always = |environment: &[(&str, &str)]| match environment {
            [.., (VERIFIER, "1")] => Err("slow".to_owned()),
            _ => Ok(Ok(())),
        };
        let fails_sampled = |environment: &[(&str, &str)]| match environment {
            [.., (VERIFIER, "1")] => Err("slow".to_owned()),
            [.., (VERIFIER, _)] => Ok(Err("wrong".to_owned())),
            _ => Ok(Ok(())),
        };
        let hangs_verified = |environment: &[(&str, &str)]| match environment {
            [.., (VERIFIER, _)] => Err("slow".to_owned()),
            _ => Ok(Ok(())),
        };
        let fails_unverified = |environment: &[(&str, &str)]| match environment {
            [.., (VERIFIER, _)] => Err("slow".to_owned()),
            _ => Ok(Err("wrong".to_owned())),
        };
        let plain = mode(&[]);
        let stress_alone = mode(const { &[("PERILUNE_GC_STRESS", "1")] });
        let both = mode(const { &[("PERILUNE_GC_STRESS", "1"), (VERIFIER, "1")] });
        assert_eq!(both.environment, [stress, verifier]);
        assert_eq!(end(plain, |_| Ok(Ok(()))), End::Passed);
        assert_eq!(end(both, |_| Ok(Err("wrong".to_owned()))), End::Failed);
        assert_eq!(end(plain, hangs), End::Failed);
        assert_eq!(end(stress_alone, hangs), End::OutOfTime);
        assert_eq!(end(both, hangs), End::OutOfTime);
        assert_eq!(end(both, hangs_verified_always), End::Sampled);
        assert_eq!(end(both, fails_sampled), End::Failed);
        assert_eq!(end(both, hangs_verified), End::Unverified);
        assert_eq!(end(both, fails_unverified), End::Failed);
    }

    #[test]
    fn each_mode_runs_every_script_and_the_closing_line_counts() {
        let options = Options {
            binary: PathBuf::new(),
            scripts: chore::root().join("tests"),
            fuzzer: PathBuf::new(),
            suite: None,
            fuzz: 0,
            reference: None,
            limit: Duration::ZERO,
        };
        let all = cases(&options, "").expect("cases");
        let names: BTreeSet<&str> = all.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        let of = |mode: &str| all.iter().filter(|case| case.mode.name == mode).count();
        assert!(of("off") > 100 && of("off") == of("leave") && of("stress") < of("off"));
        let suite = Folder::with(["gc.lua", "gengc.lua", "all.lua", "math.lua"].map(|name| (name, "")));
        let options = Options { suite: Some(suite.path().into()), ..options };
        let all = cases(&options, "suite/").expect("cases");
        let of = |mode: &str| all.iter().filter(|case| case.mode.name == mode).count();
        assert_eq!((of("off"), of("stress"), of("soon+stress")), (4, 1, 1));
        let line = closing(&[End::Passed, End::Passed, End::Sampled, End::Unverified, End::Failed], 2);
        assert!(line.starts_with(
            "5 cases: 2 passed, 1 passed with some collections verified, 1 passed without the verifier \
             alone, 0 out of time, 1 failed"
        ));
    }
}
