//! The benchmark programs as tests: each checks its own result, so at its quick size it is a test of the
//! whole.
//!
//! Every file under `benches/` runs in a process of its own with the `quick=` size of its header; exit code 0
//! is a pass. Programs beneath `benches/programs` assert the value that the reference Lua computes, or an
//! invariant (energy is kept, a model satisfies its clauses, what was packed unpacks). `PERILUNE_ONLY=part`
//! runs those whose path contains `part`, `PERILUNE_TEST_BIN=/path/to/lua` runs another implementation.

use perilune_test::Limited;
use perilune_test::script::on_all_cores;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The test profile may be without optimisation, and machines are shared: far above any healthy run.
const TIME_LIMIT: Duration = Duration::from_secs(120);

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
fn run(path: &Path, workers: Option<&str>) -> Result<(), String> {
    let mut command = Command::new(perilune_test::under_test(env!("CARGO_BIN_EXE_perilune")));
    command.arg(path).arg(quick_size(path));
    if let Some(workers) = workers {
        command.env("WORKERS", workers);
    }
    let output = Limited::start_with(&mut command, Stdio::null())
        .within(TIME_LIMIT)
        .ended()
        .map_err(|e| e.to_string())?;
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
    run_all_with(folder, None);
}

/// `workers`: what the programs are told of how many domains to use.
fn run_all_with(folder: &str, workers: Option<&str>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches").join(folder);
    let only = perilune_test::only();
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(!files.is_empty(), "benches/{folder} holds programs");
    files.retain(|f| f.to_string_lossy().contains(&only));
    files.sort();
    let failures = on_all_cores(&files, |path| {
        run(path, workers)
            .map_err(|why| format!("{}: {why}", path.strip_prefix(&root).unwrap_or(path).display()))
    });
    assert!(failures.is_empty(), "{} of {} failed\n{}", failures.len(), files.len(), failures.join("\n"));
}

#[test]
fn every_benchmark_program_finds_its_result_right() {
    run_all("programs");
}

/// They know what the reference prints.
#[test]
fn programs_find_the_same_on_any_number_of_domains() {
    for workers in ["0", "1", "2", "8"] {
        run_all_with("cores", Some(workers));
    }
}

#[test]
fn every_micro_benchmark_runs() {
    run_all("micro");
}
