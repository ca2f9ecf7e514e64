//! The loop that all targets share: make an input, run it, keep what failed, count.

use crate::guard::Guard;
use crate::rng::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cases at most.
    pub cases: u64,
    /// Time at most.
    pub time: Option<Duration>,
    /// With the number of a case, what determines it.
    pub seed: u64,
    /// Number of the first case.
    pub first: u64,
    /// Folders with Lua programs to start from.
    pub corpus: Vec<PathBuf>,
    /// Where failing inputs go; `None` keeps none (tests).
    pub artifacts: Option<PathBuf>,
    /// The perilune command, for targets that start processes.
    pub perilune: PathBuf,
    /// The reference Lua to compare with.
    pub reference: Option<PathBuf>,
    /// A file that holds the number of the running case, and of the next one at the end.
    pub progress: Option<PathBuf>,
    /// After this many failures the run ends.
    pub max_failures: usize,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The input got past the first checks: it compiled, was accepted, gave a result.
    Accepted,
    /// It was refused in the way it should be.
    Refused,
}

/// Something to fuzz.
pub trait Target {
    /// What one types.
    fn name(&self) -> &'static str;
    /// An input.
    fn generate(&mut self, rng: &mut Rng) -> Vec<u8>;
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong: a promise is broken.
    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String>;
    /// A smaller input that fails too, if the target knows how to find one.
    fn shrink(&mut self, _guard: &Guard, _input: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// The target may have been left in any state by a panic.
    fn reset(&mut self) {}
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases run.
    pub cases: u64,
    /// Those that were accepted.
    pub accepted: u64,
    /// Those that broke a promise.
    pub failures: u64,
}

/// Runs a target.
///
/// # Errors
/// The guard cannot be set up.
pub fn run(target: &mut dyn Target, options: &Options) -> std::io::Result<Tally> {
    let guard = Guard::new(options.artifacts.as_deref(), target.name())?;
    let (start, mut tally) = (Instant::now(), Tally::default());
    let progress = options.progress.as_deref().map(std::fs::File::create).transpose()?;
    let report = |case: u64| match &progress {
        Some(file) => std::os::unix::fs::FileExt::write_all_at(file, format!("{case:<20}\n").as_bytes(), 0),
        None => Ok(()),
    };
    let end = options.first.saturating_add(options.cases);
    for case in options.first..end {
        report(case)?;
        if options.time.is_some_and(|limit| start.elapsed() > limit) {
            break;
        }
        let input = target.generate(&mut Rng::new(options.seed, case));
        tally.cases += 1;
        match one(target, &guard, &input) {
            Ok(End::Accepted) => tally.accepted += 1,
            Ok(End::Refused) => {}
            Err(what) => {
                tally.failures += 1;
                // First of all, as shrinking may take long, or not survive.
                eprintln!("{}: case {case} of seed {}: {what}", target.name(), options.seed);
                let input = target.shrink(&guard, &input).unwrap_or(input);
                keep(target.name(), options, case, &input);
                if tally.failures as usize >= options.max_failures {
                    break;
                }
            }
        }
    }
    report(options.first + tally.cases)?;
    Ok(tally)
}

/// Runs one input that is given.
///
/// # Errors
/// The guard cannot be set up.
pub fn replay(
    target: &mut dyn Target,
    options: &Options,
    input: &[u8],
) -> std::io::Result<Result<End, String>> {
    let guard = Guard::new(options.artifacts.as_deref(), target.name())?;
    Ok(one(target, &guard, input))
}

fn one(target: &mut dyn Target, guard: &Guard, input: &[u8]) -> Result<End, String> {
    let result = guard.case(input, || catch_unwind(AssertUnwindSafe(|| target.run(guard, input))));
    result.unwrap_or_else(|panic| {
        target.reset();
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

fn keep(name: &str, options: &Options, case: u64, input: &[u8]) {
    match &options.artifacts {
        Some(dir) => {
            let path = dir.join(format!("{name}-{}-{case}", options.seed));
            match std::fs::write(&path, input) {
                Ok(()) => eprintln!("  input in {}", path.display()),
                Err(e) => eprintln!("  input not kept: {e}"),
            }
        }
        None => eprintln!("  input: {}", input.escape_ascii()),
    }
}
