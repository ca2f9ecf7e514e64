//! What a naive pool of threads gets wrong, as Lua programs (`tests/parallel/rows`), and random use of
//! everything at once (`tests/parallel/stress`).
//!
//! Each program checks itself and fails by its exit code. They look at the process's threads, memory and
//! times, so they run one after another, and their limits leave room for a machine with other things to do;
//! given as arguments, some take stricter ones.

use perilune_test::{Limited, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const TIME_LIMIT: Duration = Duration::from_secs(120);

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel").join(name)
}

/// Runs a script where it is; the report of what went wrong, if anything did.
fn run(folder: &Path, script: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg(script).args(args).envs(env.iter().copied()).current_dir(folder);
    let ended = Limited::start_with(&mut command, Stdio::null()).within(TIME_LIMIT).ended();
    let output = ended.map_err(|hang| format!("{script} {args:?}: {hang}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = text(&output.stderr);
    let head: Vec<&str> = text.lines().take(12).collect();
    Err(format!("{script} {args:?}: {}\n{}", output.status, head.join("\n")))
}

#[test]
fn rows_and_random_programs_pass() {
    let rows = folder("rows");
    let mut scripts: Vec<String> = std::fs::read_dir(&rows)
        .expect("the folder of rows")
        .map(|e| e.expect("readable folder").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("row"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 10, "rows are missing: {scripts:?}");
    let mut failures: Vec<String> = scripts.iter().filter_map(|s| run(&rows, s, &[], &[]).err()).collect();
    let stress = folder("stress");
    for (seed, env) in [
        ("1", &[][..]),
        ("2", &[("PERILUNE_GC_VERIFY", "1")][..]),
        ("3", &[("PERILUNE_GC_VERIFY", "1"), ("PERILUNE_GC_POISON", "1")][..]),
        ("4", &[("PERILUNE_GC_STRESS", "1")][..]),
    ] {
        failures.extend(run(&stress, "random.lua", &["3", seed], env).err());
        failures.extend(run(&stress, "scopes.lua", &[seed], env).err());
    }
    assert!(failures.is_empty(), "{} failed\n\n{}", failures.len(), failures.join("\n\n"));
}
