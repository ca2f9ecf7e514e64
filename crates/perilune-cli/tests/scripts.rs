//! The end-to-end suites: every `tests/lua/NAME.lua` and `tests/parallel/NAME.lua` is run by the built
//! command and must print `NAME.out`. The recordings of `tests/lua` come from the reference implementation;
//! those of `tests/parallel`, which use `require "perilune"`, are ours.
//!
//! A script is copied into a directory of its own, which is the working directory while it runs, so that
//! messages say `NAME.lua:3:` and temporary files harm nobody. Standard output and the exit code count;
//! standard error is shown when a script fails. What a run may not reproduce, addresses of objects, is
//! written `0xADDR` in the recordings and in what is compared.
//!
//! A script's first lines may hold directives:
//! - `-- exit: N`: the exit code that is expected (0 without it);
//! - `-- stress: no`: too slow, or meaningless, when the collector runs at every allocation.
//!
//! Environment: `PERILUNE_ONLY=part` runs the scripts whose name contains `part`;
//! `PERILUNE_TEST_BIN=/path/to/lua` runs another implementation (that is how the recordings are checked);
//! `PERILUNE_BLESS=1` writes the recordings, to be read before they are committed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Ends a script that hangs; a busy machine makes one that does not take minutes under stress.
const TIME_LIMIT: Duration = Duration::from_secs(900);

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Plain,
    Stress,
    /// Every function is entered as machine code that leaves each instruction to the interpreter.
    Step,
    /// Loops are compiled after two rounds.
    Compiled,
}

struct Script {
    name: String,
    path: PathBuf,
    exit: i32,
    stress: bool,
}

struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<i32>,
    time: Duration,
}

fn suite_dir(suite: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(suite)
}

fn binary() -> PathBuf {
    std::env::var_os("PERILUNE_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perilune").into(), PathBuf::from)
}

fn scripts(suite: &str) -> Vec<Script> {
    let only = std::env::var("PERILUNE_ONLY").unwrap_or_default();
    let mut found: Vec<Script> = fs::read_dir(suite_dir(suite))
        .expect("the suite's folder exists")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|path| path.extension().is_some_and(|e| e == "lua"))
        .map(|path| {
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            let source = fs::read(&path).expect("readable script");
            let head = String::from_utf8_lossy(&source[..source.len().min(300)]).into_owned();
            let directive =
                |key: &str| head.lines().find_map(|l| l.strip_prefix(key).map(|v| v.trim().to_owned()));
            Script {
                name,
                path,
                exit: directive("-- exit:").map_or(0, |v| v.parse().expect("a number after `-- exit:`")),
                stress: directive("-- stress:").is_none_or(|v| v != "no"),
            }
        })
        .filter(|script| script.name.contains(&only))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!only.is_empty() || !found.is_empty(), "no scripts in {suite}");
    found
}

/// Runs one script in a fresh directory; kills it after [`TIME_LIMIT`], and then there is no exit code.
fn run(script: &Script, mode: Mode) -> Outcome {
    let dir = std::env::temp_dir().join(format!(
        "perilune-{}-{}-{}",
        std::process::id(),
        mode as u8,
        script.path.display().to_string().replace('/', "_")
    ));
    fs::create_dir_all(&dir).expect("temporary directory");
    let file = format!("{}.lua", script.name);
    fs::copy(&script.path, dir.join(&file)).expect("copy of the script");
    let mut command = Command::new(binary());
    command.arg(&file).current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_PATH_5_4", "LUA_CPATH", "LUA_CPATH_5_4"] {
        command.env_remove(variable);
    }
    if mode == Mode::Stress {
        command.env("PERILUNE_GC_STRESS", "1");
    }
    if mode == Mode::Step {
        command.env("PERILUNE_SPESH", "step");
    }
    if mode == Mode::Compiled {
        command.env("PERILUNE_SPESH", "blocking:2:60");
    }
    let start = Instant::now();
    let mut child = command.spawn().expect("the command starts");
    let mut out = child.stdout.take().expect("piped");
    let mut err = child.stderr.take().expect("piped");
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let exit = loop {
        if let Some(status) = child.try_wait().expect("child can be waited for") {
            break status.code();
        }
        if start.elapsed() > TIME_LIMIT {
            child.kill().expect("child can be killed");
            child.wait().expect("child can be waited for");
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let time = start.elapsed();
    let stdout = out.join().expect("reader").expect("readable output");
    let stderr = err.join().expect("reader").expect("readable output");
    fs::remove_dir_all(&dir).expect("temporary directory can be removed");
    Outcome { stdout, stderr, exit, time }
}

/// Replaces the address in `: 0x...` and `(0x...)`, as `tostring` writes them.
fn normalise(output: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(output.len());
    let mut i = 0;
    while i < output.len() {
        let rest = &output[i..];
        let prefix = [b": 0x".as_slice(), b"(0x"].into_iter().find(|p| rest.starts_with(p));
        if let Some(prefix) = prefix {
            let digits = rest[prefix.len()..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
            if digits >= 6 {
                result.extend_from_slice(prefix);
                result.extend_from_slice(b"ADDR");
                i += prefix.len() + digits;
                continue;
            }
        }
        result.push(output[i]);
        i += 1;
    }
    result
}

fn judge(script: &Script, outcome: &Outcome) -> Result<(), String> {
    let got = normalise(&outcome.stdout);
    let recording = script.path.with_extension("out");
    if std::env::var_os("PERILUNE_BLESS").is_some() {
        fs::write(&recording, &got).expect("recording can be written");
    }
    let want = fs::read(&recording).unwrap_or_default();
    let mut report = String::new();
    if got != want {
        let (got_lines, want_lines): (Vec<_>, Vec<_>) =
            (got.split(|&b| b == b'\n').collect(), want.split(|&b| b == b'\n').collect());
        let line = got_lines.iter().zip(&want_lines).take_while(|(g, w)| g == w).count();
        let show = |lines: &[&[u8]]| {
            lines.get(line).map_or("(nothing)".into(), |l| String::from_utf8_lossy(l).into_owned())
        };
        report += &format!(
            "  output differs from line {} on\n    want {}\n    got  {}\n",
            line + 1,
            show(&want_lines),
            show(&got_lines)
        );
    }
    if outcome.exit != Some(script.exit) {
        let got =
            outcome.exit.map_or_else(|| format!("none, after {:.0?}", outcome.time), |code| code.to_string());
        report += &format!("  exit code {} expected, got {got}\n", script.exit);
    }
    if report.is_empty() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    let tail: Vec<&str> = stderr.lines().take(8).collect();
    if !tail.is_empty() {
        report += &format!("  standard error:\n    {}\n", tail.join("\n    "));
    }
    Err(format!("{}\n{report}", script.name))
}

fn run_all(suite: &str, mode: Mode) {
    let scripts: Vec<Script> =
        scripts(suite).into_iter().filter(|s| mode != Mode::Stress || s.stress).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get()).min(scripts.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(report) = judge(script, &run(script, mode)) {
                        failures.lock().expect("no worker panics holding it").push(report);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no worker panics holding it");
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} of {} scripts failed\n\n{}",
        failures.len(),
        scripts.len(),
        failures.join("\n")
    );
}

#[test]
fn every_script_prints_what_was_recorded() {
    run_all("lua", Mode::Plain);
}

#[test]
fn every_script_prints_the_same_when_each_allocation_collects() {
    run_all("lua", Mode::Stress);
}

#[test]
fn every_parallel_script_prints_what_was_recorded() {
    run_all("parallel", Mode::Plain);
}

#[test]
fn every_parallel_script_prints_the_same_when_each_allocation_collects() {
    run_all("parallel", Mode::Stress);
}

#[test]
fn every_script_prints_the_same_where_machine_code_steps() {
    run_all("lua", Mode::Step);
    run_all("parallel", Mode::Step);
}

#[test]
fn every_script_prints_the_same_where_loops_are_compiled_soon() {
    run_all("lua", Mode::Compiled);
    run_all("parallel", Mode::Compiled);
}
