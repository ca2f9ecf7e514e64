//! The programs of `tests/parallel/outcomes`: what crosses a domain and what does not.
//!
//! `PERILUNE_BLESS=1` writes the outputs instead of comparing them; look at the difference before committing
//! it. `PERILUNE_ONLY=name` runs one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// After this long a program hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn programs_have_the_outcomes_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel/outcomes");
    let bless = std::env::var_os("PERILUNE_BLESS").is_some_and(|v| v == "1");
    let only = std::env::var("PERILUNE_ONLY").ok();
    let mut programs: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of outcomes")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "lua"))
        .filter(|p| only.as_ref().is_none_or(|only| p.to_string_lossy().contains(only.as_str())))
        .collect();
    programs.sort();
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.file_name().expect("a file").to_string_lossy().into_owned();
        let recorded = program.with_extension("out");
        let output = output_of(&folder, &name);
        if bless {
            std::fs::write(&recorded, &output).expect("an output can be written");
        } else if std::fs::read_to_string(&recorded).ok().as_ref() != Some(&output) {
            wrong.push(format!("{name} gives:\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a program prints, with the message of the error that ended it.
fn output_of(folder: &Path, name: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(name)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let start = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().expect("a child that runs");
            return format!("{name} hangs\n");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("a child that has ended");
    let errors = String::from_utf8_lossy(&output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned() + errors.lines().next().unwrap_or_default()
}
