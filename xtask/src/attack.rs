//! `cargo xtask attack --hours H`: everything that looks for faults by chance, for as long as one likes.
//!
//! The targets are the fuzzer's; those that run Lua code do so once more with machine code, and some with
//! AddressSanitizer. They take turns, a slice of time each, so that hours are spread over all of them however
//! long the whole run is. Each case has a number, and each target goes through the numbers of one seed: where
//! it has come to lies in a file, so an attack that is stopped, by hand or by a crash of the machine, goes on
//! where it was. Nothing is run twice, and the figures are those of all runs together.
//!
//! A case that crashes or hangs ends its slice; its input lies in `fuzz/artifacts` and the next slice begins
//! behind it.

use crate::chore::{self, Error, Outcome};
use crate::sanitize;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Listing line.
pub const SUMMARY: &str =
    "all fuzz targets in turn for hours, going on where the last attack stopped; cases and hours of each";
/// Arguments.
pub const USAGE: &str =
    "[--hours H] [--slice SECONDS] [--only TARGET]... [--seed S] [--no-sanitizer] [--restart] [--report]";

/// Targets, and whether the reference is needed.
const PLAIN: &[(&str, bool)] = &[
    ("dropped", false),
    ("keys", false),
    ("domains", false),
    ("undump", false),
    ("programs", true),
    ("classes", true),
    ("paths", true),
    ("numbers", true),
    ("control", true),
    ("lists", true),
    ("stress", false),
    ("parse", false),
    ("limits", false),
    ("pattern", true),
    ("format", true),
    ("pack", true),
    ("numeral", false),
    ("trace", false),
    ("heap", false),
    ("json", false),
    ("http", false),
    ("rpc", false),
    ("ws", false),
    ("text", false),
];
/// Those that run with AddressSanitizer too, and machine code where they run Lua code.
const SANITIZED: &[&str] =
    &["dropped", "keys", "domains", "undump", "parse", "limits", "pattern", "json", "text", "http"];
/// Those that run Lua code: with machine code too.
const COMPILED: &[&str] = &["programs", "stress", "keys", "dropped", "domains", "undump", "limits"];
/// What they are run with: functions and loops are compiled after two rounds and a recording of sixty
/// instructions, while the program waits for it.
const MACHINE: (&str, &str) = ("PERILUNE_SPESH", "blocking:2:60");
/// Who knows better.
const REFERENCE: &str = "lua5.4";

/// How far one target has come, in all attacks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Progress {
    name: String,
    next: u64,
    cases: u64,
    seconds: f64,
    failures: u64,
}

impl Progress {
    fn parse(line: &str) -> Option<Progress> {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_string();
        let mut number = || words.next()?.parse::<f64>().ok();
        Some(Progress {
            name,
            next: number()? as u64,
            cases: number()? as u64,
            seconds: number()?,
            failures: number()? as u64,
        })
    }

    fn line(&self) -> String {
        format!("{} {} {} {:.1} {}\n", self.name, self.next, self.cases, self.seconds, self.failures)
    }
}

/// What all targets have come to, in a file.
struct State {
    file: PathBuf,
    targets: Vec<Progress>,
}

impl State {
    fn load(file: PathBuf) -> State {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        State { file, targets: text.lines().filter_map(Progress::parse).collect() }
    }

    fn of(&mut self, name: &str) -> &mut Progress {
        let at = match self.targets.iter().position(|p| p.name == name) {
            Some(at) => at,
            None => {
                self.targets.push(Progress { name: name.into(), ..Progress::default() });
                self.targets.len() - 1
            }
        };
        &mut self.targets[at]
    }

    /// How long a target has run.
    fn seconds(&self, name: &str) -> f64 {
        self.targets.iter().find(|p| p.name == name).map_or(0.0, |p| p.seconds)
    }

    /// Writes the file anew; one that is stopped meanwhile leaves the old one.
    fn save(&self) -> std::io::Result<()> {
        let new = self.file.with_extension("new");
        std::fs::write(&new, self.targets.iter().map(Progress::line).collect::<String>())?;
        std::fs::rename(new, &self.file)
    }

    fn table(&self) -> String {
        let mut text = format!("{:<18} {:>12} {:>8} {:>9}\n", "target", "cases", "hours", "failures");
        let mut all = Progress { name: "all".into(), ..Progress::default() };
        let mut line = |p: &Progress| {
            text.push_str(&format!(
                "{:<18} {:>12} {:>8.2} {:>9}\n",
                p.name,
                p.cases,
                p.seconds / 3600.0,
                p.failures
            ));
        };
        for p in &self.targets {
            line(p);
            all.cases += p.cases;
            all.seconds += p.seconds;
            all.failures += p.failures;
        }
        line(&all);
        text
    }
}

/// A target of this attack.
struct Job {
    /// Its name in the figures.
    name: String,
    target: &'static str,
    sanitized: bool,
    compiled: bool,
    reference: bool,
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut hours, mut slice, mut seed) = (1.0, 60, 1u64);
    let (mut only, mut sanitizer, mut restart, mut report) = (Vec::new(), true, false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("hours") => hours = parser.value()?.parse()?,
            Long("slice") => slice = parser.value()?.parse()?,
            Long("seed") => seed = parser.value()?.parse()?,
            Long("only") => only.push(parser.value()?.string()?),
            Long("no-sanitizer") => sanitizer = false,
            Long("restart") => restart = true,
            Long("report") => report = true,
            _ => return Err(arg.unexpected().into()),
        }
    }
    let folder = chore::target_dir().join("attack");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("seed-{seed}"));
    if restart && file.exists() {
        std::fs::remove_file(&file)?;
    }
    let mut state = State::load(file);
    if report {
        print!("{}", state.table());
        return Ok(Outcome::Passed);
    }
    let jobs = jobs(&only, sanitizer);
    if jobs.is_empty() {
        return Err("there is no such target".into());
    }
    build()?;
    let address = if jobs.iter().any(|job| job.sanitized) {
        let bin = sanitize::build()?;
        sanitize::finds_what_is_planted(&bin)?;
        Some(bin)
    } else {
        None
    };
    let plain = chore::target_dir().join("fast");
    let end = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let failures = |state: &State| state.targets.iter().map(|p| p.failures).sum::<u64>();
    let before = failures(&state);
    // Whoever has had the least time is next: also when attacks are short.
    while let left @ 1.. = end.saturating_duration_since(Instant::now()).as_secs()
        && let Some(job) =
            jobs.iter().min_by(|a, b| state.seconds(&a.name).total_cmp(&state.seconds(&b.name)))
    {
        let bin = if job.sanitized { address.as_deref().unwrap_or(&plain) } else { &plain };
        one_slice(job, bin, &folder, seed, slice.min(left), state.of(&job.name))?;
        state.save()?;
    }
    print!("{}", state.table());
    Ok(Outcome::from_ok(failures(&state) == before))
}

fn jobs(only: &[String], sanitizer: bool) -> Vec<Job> {
    let has_reference = perilune_measure::on_path(REFERENCE).is_some();
    let plain = PLAIN.iter().filter(|(target, needs)| {
        let there = !needs || has_reference;
        if !there {
            println!("{target}: skipped, there is no {REFERENCE}");
        }
        there
    });
    let mut jobs: Vec<Job> = plain
        .flat_map(|&(target, reference)| {
            let job = |name, compiled| Job { name, target, sanitized: false, compiled, reference };
            let machine = COMPILED.contains(&target).then(|| job(format!("{target}+machine"), true));
            [Some(job(target.into(), false)), machine].into_iter().flatten()
        })
        .collect();
    if sanitizer {
        jobs.extend(SANITIZED.iter().map(|&target| Job {
            name: format!("{target}+asan"),
            target,
            sanitized: true,
            compiled: COMPILED.contains(&target),
            reference: false,
        }));
    }
    jobs.retain(|job| only.is_empty() || only.contains(&job.name));
    jobs
}

fn build() -> Result<(), Error> {
    let built = chore::cargo()
        .args(["build", "--quiet", "--profile", "fast", "--package", "perilune-fuzzer"])
        .args(["--package", "perilune-cli"])
        .status()?;
    if built.success() { Ok(()) } else { Err("the fuzzer does not build".into()) }
}

/// Runs one target for a while and notes how far it has come.
fn one_slice(
    job: &Job,
    bin: &Path,
    folder: &Path,
    seed: u64,
    seconds: u64,
    progress: &mut Progress,
) -> Result<(), Error> {
    let at = folder.join(format!("running-{}", job.name));
    let _ = std::fs::remove_file(&at);
    let mut command = Command::new(bin.join("perilune-fuzzer"));
    command.arg(job.target).current_dir(chore::root());
    command.args(["--seed", &seed.to_string(), "--first", &progress.next.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--cases", "1000000000", "--progress"]).arg(&at);
    command.arg("--perilune").arg(bin.join("perilune"));
    if job.reference {
        command.args(["--reference", REFERENCE]);
    }
    if job.compiled {
        command.env(MACHINE.0, MACHINE.1);
    }
    if job.sanitized {
        command.env(sanitize::ENVIRONMENT.0, sanitize::ENVIRONMENT.1);
    }
    let start = Instant::now();
    let status = command.status()?;
    progress.seconds += start.elapsed().as_secs_f64();
    let case = std::fs::read_to_string(&at).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let Some(case) = case else {
        return Err(format!("{}: the fuzzer cannot be run", job.name).into());
    };
    // One that has ended by itself says which case is next, one that has not, which was the last.
    let next = match status.code() {
        Some(0 | 1) => case,
        _ => case + 1,
    };
    if !status.success() {
        progress.failures += 1;
        println!("{}: failed before case {next} of seed {seed} ({status})", job.name);
    }
    progress.cases += next.saturating_sub(progress.next);
    progress.next = next;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_survives() {
        let folder = std::env::temp_dir().join(format!("attack-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut state = State::load(folder.join("state"));
        *state.of("keys") = Progress { name: "keys".into(), next: 12, cases: 11, seconds: 2.5, failures: 1 };
        state.of("parse").next = 3;
        state.save().unwrap();
        let again = State::load(folder.join("state"));
        assert_eq!(again.targets, state.targets);
        assert!(again.table().lines().last().unwrap().starts_with("all"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn targets_can_be_chosen() {
        let names = |only: &[&str], sanitizer| -> Vec<String> {
            let only: Vec<String> = only.iter().map(|s| s.to_string()).collect();
            jobs(&only, sanitizer).into_iter().map(|job| job.name).collect()
        };
        assert_eq!(names(&["keys", "undump+asan"], true), ["keys", "undump+asan"]);
        assert_eq!(names(&["keys+machine"], false), ["keys+machine"]);
        assert!(names(&[], false).iter().all(|name| !name.contains("asan")));
    }
}
