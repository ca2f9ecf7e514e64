//! Running a program in two implementations and comparing; running it under stress in one.
//!
//! The programs run as processes of their own, with limits of address space and time set between fork and
//! exec: a crash is then an outcome like any other. Standard output must be the same byte by byte, addresses
//! aside; of an error that ends the program, the first line of standard error and whether there was one.

use crate::guard::Guard;
use crate::program::{self, Program};
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::script;
use crate::sys;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Processor time for one run.
const TIME: Duration = Duration::from_secs(15);
/// Processor time for one run under stress: verifying the heap thirty thousand times takes that long.
const STRESS_TIME: Duration = Duration::from_secs(60);
/// So many times that may pass, on a machine that has other things to do, before a run is one that waits for
/// ever.
const PATIENCE: u32 = 6;
/// How the end of a run says that there was not enough of it.
const TIME_LIMIT: &str = "the time limit";
/// Time for making a failing program smaller.
const SHRINKING: Duration = Duration::from_secs(120);
/// Address space of a run.
const ADDRESS_SPACE: u64 = 8 << 30;

/// What a run printed and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub out: Vec<u8>,
    /// First line of standard error, the command's name taken off.
    pub error: String,
    /// All of standard error.
    pub errors: String,
    /// Exit code, or what ended it.
    pub end: Result<i32, String>,
}

impl Output {
    /// Lines of standard output.
    pub fn lines(&self) -> Vec<String> {
        self.out.split(|&b| b == b'\n').map(|l| String::from_utf8_lossy(l).into_owned()).collect()
    }
}

/// Two implementations.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The perilune command.
    pub perilune: PathBuf,
    /// The other.
    pub reference: PathBuf,
    /// A folder for the program's file.
    pub scratch: PathBuf,
}

impl Pair {
    /// Runs a program in both; errors are crashes and time limits.
    ///
    /// # Errors
    /// One of them cannot be run, or does not end by itself.
    pub fn run_both(&self, source: &[u8]) -> Result<(Output, Output), String> {
        let text = String::from_utf8_lossy(source);
        let ours = run(&self.perilune, &self.scratch, source, &script::variables(&text), TIME)?;
        if let Err(end) = &ours.end {
            return Err(format!("perilune ends by {end}: {}", ours.errors));
        }
        let theirs = run(&self.reference, &self.scratch, source, &[], TIME)?;
        if let Err(end) = &theirs.end {
            return Err(format!("the reference ends by {end}"));
        }
        Ok((ours, theirs))
    }
}

/// Runs a program, for at most `time` of a processor.
///
/// # Errors
/// It cannot be started.
pub fn run(
    bin: &Path,
    scratch: &Path,
    source: &[u8],
    environment: &[(&str, &str)],
    time: Duration,
) -> Result<Output, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", bin.display());
    let file = scratch.join("p.lua");
    std::fs::File::create(&file).and_then(|mut f| f.write_all(source)).map_err(fail)?;
    let mut command = Command::new(bin);
    command.arg("p.lua").current_dir(scratch).envs(environment.iter().copied());
    command.env_remove("LUA_INIT").env_remove("LUA_INIT_5_4");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // AddressSanitizer reserves terabytes.
    let address_space = (!cfg!(feature = "sanitizer")).then_some(ADDRESS_SPACE);
    sys::limit(&mut command, time, address_space);
    let mut child = command.spawn().map_err(fail)?;
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        bytes
    });
    let start = Instant::now();
    let mut pause = Duration::from_micros(300);
    let end = loop {
        match child.try_wait().map_err(fail)? {
            Some(status) => {
                break status.code().ok_or_else(|| match status.signal() {
                    Some(sys::TIME_IS_SPENT) => TIME_LIMIT.into(),
                    signal => format!("signal {}", signal.unwrap_or(0)),
                });
            }
            None if start.elapsed() > time * PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("{TIME_LIMIT}, waiting"));
            }
            None => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
    };
    let out = out.join().unwrap_or_default();
    let errors = String::from_utf8_lossy(&err.join().unwrap_or_default()).into_owned();
    let first = errors.lines().next().unwrap_or_default();
    let error = first.split_once(": ").map_or(first, |(_, rest)| rest).to_string();
    // A panic is a crash, whatever the exit code.
    let end = if errors.contains("panicked at") { Err("a panic".into()) } else { end };
    Ok(Output { out, error, errors, end })
}

/// The targets `programs`, `classes`, `paths`, `numbers`, `control`, `lists` and `stress`.
pub struct Programs {
    pair: Option<Pair>,
    perilune: PathBuf,
    scratch: PathBuf,
    last: Option<Program>,
    name: &'static str,
    generate: fn(&mut Rng) -> Program,
}

impl Programs {
    /// With a pair: compares. Without: runs the programs in `perilune` with collections at every safepoint
    /// and the heap verified.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn new(perilune: &Path, reference: Option<&Path>) -> std::io::Result<Programs> {
        let scratch = scratch()?;
        let pair = reference.map(|reference| Pair {
            perilune: perilune.into(),
            reference: reference.into(),
            scratch: scratch.clone(),
        });
        let name = if pair.is_some() { "programs" } else { "stress" };
        Ok(Programs {
            pair,
            perilune: perilune.into(),
            scratch,
            last: None,
            name,
            generate: program::generate,
        })
    }

    /// The same with a reference, for programs about classes.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn of_classes(perilune: &Path, reference: &Path) -> std::io::Result<Programs> {
        let mut programs = Programs::new(perilune, Some(reference))?;
        (programs.name, programs.generate) = ("classes", program::classes::generate);
        Ok(programs)
    }

    /// The same for programs about ways through functions.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn of_paths(perilune: &Path, reference: &Path) -> std::io::Result<Programs> {
        let mut programs = Programs::new(perilune, Some(reference))?;
        (programs.name, programs.generate) = ("paths", program::paths::generate);
        Ok(programs)
    }

    /// The same for programs about numbers.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn of_numbers(perilune: &Path, reference: &Path) -> std::io::Result<Programs> {
        let mut programs = Programs::new(perilune, Some(reference))?;
        (programs.name, programs.generate) = ("numbers", program::numbers::generate);
        Ok(programs)
    }

    /// The same for programs about short lists.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn of_lists(perilune: &Path, reference: &Path) -> std::io::Result<Programs> {
        let mut programs = Programs::new(perilune, Some(reference))?;
        (programs.name, programs.generate) = ("lists", program::lists::generate);
        Ok(programs)
    }

    /// The same for programs about control.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn of_control(perilune: &Path, reference: &Path) -> std::io::Result<Programs> {
        let mut programs = Programs::new(perilune, Some(reference))?;
        (programs.name, programs.generate) = ("control", program::control::generate);
        Ok(programs)
    }

    fn judge(&self, source: &[u8]) -> Result<End, String> {
        let Some(pair) = &self.pair else {
            let stress =
                [("PERILUNE_GC_STRESS", "1"), ("PERILUNE_GC_POISON", "1"), ("PERILUNE_GC_VERIFY", "1")];
            let mut stressed = run(&self.perilune, &self.scratch, source, &stress, STRESS_TIME)?;
            if stressed.end.as_ref().is_err_and(|end| end == TIME_LIMIT) {
                // A large heap, verified some hundred thousand times. Verified now and then, or not at all,
                // it must end.
                let seldom = [stress[0], stress[1], ("PERILUNE_GC_VERIFY", "97")];
                stressed = run(&self.perilune, &self.scratch, source, &seldom, STRESS_TIME)?;
            }
            if stressed.end.as_ref().is_err_and(|end| end == TIME_LIMIT) {
                stressed = run(&self.perilune, &self.scratch, source, &stress[..2], STRESS_TIME)?;
            }
            let plain = run(&self.perilune, &self.scratch, source, &[], TIME)?;
            return match (&stressed.end, &plain.end) {
                (Err(end), _) => Err(format!("under stress it ends by {end}: {}", stressed.errors)),
                (_, Err(end)) => Err(format!("ends by {end}: {}", plain.errors)),
                _ if stressed != plain => Err(format!("stress changes it:{}", difference(&stressed, &plain))),
                _ => Ok(End::Accepted),
            };
        };
        let (ours, theirs) = pair.run_both(source)?;
        if !same_lines(&ours.lines(), &theirs.lines()) || ours.error != theirs.error || ours.end != theirs.end
        {
            return Err(format!("differs:{}", difference(&ours, &theirs)));
        }
        Ok(if ours.end == Ok(0) { End::Accepted } else { End::Refused })
    }
}

/// Whether outputs are the same. A native function that a program put in a global variable has two names, and
/// which one a message finds depends on the order of a table.
fn same_lines(a: &[String], b: &[String]) -> bool {
    let unnamed = |line: &str| {
        let (before, rest) = line.split_once(" to '")?;
        Some(format!("{before}{}", rest.split_once('\'')?.1))
    };
    let has_two = |line: &str| line.contains("bad argument #") && line.contains(" to 'gv");
    let same = |a: &String, b: &String| a == b || (has_two(a) || has_two(b)) && unnamed(a) == unnamed(b);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// A folder for scratch files that nobody else uses.
///
/// # Errors
/// It cannot be made.
pub fn scratch() -> std::io::Result<PathBuf> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("perilune-fuzzer-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// What kind of failure it is: a smaller program that fails in another way fails for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Slow,
    Crash,
    Overflow,
    Difference,
}

impl Failure {
    fn of(what: &str) -> Failure {
        match what {
            _ if what.contains(TIME_LIMIT) => Failure::Slow,
            _ if what.contains("ends by") => Failure::Crash,
            // The depths of recursions differ.
            _ if what.contains("stack overflow") => Failure::Overflow,
            _ => Failure::Difference,
        }
    }
}

fn difference(a: &Output, b: &Output) -> String {
    let (x, y) = (a.lines(), b.lines());
    let line = |l: &[String], n: usize| l.get(n).cloned().into_iter().collect::<Vec<_>>();
    let at = (0..x.len().max(y.len())).find(|&n| !same_lines(&line(&x, n), &line(&y, n)));
    match at {
        Some(n) => {
            let line = |l: &[String]| l.get(n).cloned().unwrap_or_default();
            format!("\n    - {}\n    + {}", line(&x), line(&y))
        }
        None => format!("\n    - {:?} {}\n    + {:?} {}", a.end, a.error, b.end, b.error),
    }
}

impl Target for Programs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let program = (self.generate)(rng);
        let source = program.source().into_bytes();
        self.last = Some(program);
        source
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        guard.waiting(|| self.judge(input))
    }

    fn shrink(&mut self, guard: &Guard, input: &[u8]) -> Option<Vec<u8>> {
        let program = self.last.clone().filter(|p| p.source().as_bytes() == input)?;
        let start = Instant::now();
        let original = Failure::of(&self.judge(input).err()?);
        let small = program.shrink(|p| {
            if start.elapsed() > SHRINKING {
                return false;
            }
            let source = p.source().into_bytes();
            // Without the statement that counts, a loop has no end, or a recursion: that is not what failed.
            let judged = guard.case(&source, || guard.waiting(|| self.judge(&source)));
            judged.is_err_and(|what| Failure::of(&what) == original)
        });
        let mut source = small.source().into_bytes();
        if let Err(what) = self.judge(&source) {
            for line in what.lines() {
                source.extend(format!("-- {line}\n").bytes());
            }
        }
        Some(source)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, TIME_LIMIT};

    #[test]
    fn failures_are_told_apart() {
        assert_eq!(Failure::of(&format!("perilune ends by {TIME_LIMIT}: ")), Failure::Slow);
        assert_eq!(Failure::of("perilune ends by signal 11: "), Failure::Crash);
        assert_eq!(
            Failure::of("differs:\n - \"stack overflow\"\n + \"C stack overflow\""),
            Failure::Overflow
        );
        assert_eq!(Failure::of("differs:\n - 1\n + 2"), Failure::Difference);
    }
}
