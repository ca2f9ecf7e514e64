//! The benchmark programs as tests: each checks its own result, so at its quick size it is a test of the
//! whole.
//!
//! Every file under `benches/` runs in a process of its own with the `quick=` size of its header; exit code 0
//! is a pass. Programs beneath `benches/programs` assert the value that the reference Lua computes, or an
//! invariant (energy is kept, a model satisfies its clauses, what was packed unpacks). `PERILUNE_ONLY=part`
//! runs those whose path contains `part`, `PERILUNE_TEST_BIN=/path/to/lua` runs another implementation.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The test profile may be without optimisation, and machines are shared: far above any healthy run.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn binary() -> PathBuf {
    std::env::var_os("PERILUNE_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perilune").into(), PathBuf::from)
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable directory") {
        let path = entry.expect("readable directory").path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "lua") {
            into.push(path);
        }
    }
}

fn quick_size(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("readable program");
    let header = text.lines().find_map(|l| l.strip_prefix("-- bench:")).expect("a '-- bench:' line");
    let size = header.split_whitespace().find_map(|w| w.strip_prefix("quick="));
    size.expect("a quick= size").to_string()
}

/// Runs one program; `Err` says how it failed.
fn run(path: &Path) -> Result<(), String> {
    let mut child = Command::new(binary())
        .arg(path)
        .arg(quick_size(path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let start = Instant::now();
    // A program prints one line and at most one error, so neither pipe can fill up while we wait.
    while child.try_wait().expect("child can be waited for").is_none() {
        if start.elapsed() > TIME_LIMIT {
            child.kill().expect("child can be killed");
            child.wait().expect("child can be waited for");
            return Err(format!("no end after {TIME_LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("readable output");
    if !output.status.success() {
        let message =
            String::from_utf8_lossy(&output.stderr).lines().take(4).collect::<Vec<_>>().join("\n    ");
        return Err(format!("{}\n    {message}", output.status));
    }
    if output.stdout.is_empty() {
        return Err("printed nothing".into());
    }
    Ok(())
}

fn run_all(folder: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches").join(folder);
    let only = std::env::var("PERILUNE_ONLY").unwrap_or_default();
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(!files.is_empty(), "benches/{folder} holds programs");
    files.retain(|f| f.to_string_lossy().contains(&only));
    files.sort();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = run(path) {
                        let name = path.strip_prefix(&root).unwrap_or(path).display();
                        failures.lock().expect("no worker panics holding it").push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no worker panics holding it");
    failures.sort();
    assert!(failures.is_empty(), "{} of {} failed\n{}", failures.len(), files.len(), failures.join("\n"));
}

#[test]
fn every_benchmark_program_finds_its_result_right() {
    run_all("programs");
}

#[test]
fn every_micro_benchmark_runs() {
    run_all("micro");
}
