//! `cargo xtask fuzz TARGET`: builds the fuzzer and the command, and runs one target.
//!
//! The options are the fuzzer's own (`crates/perilune-fuzzer/src/main.rs`). Without a target each of them
//! runs for a short time, those that need a reference Lua only if there is one.

use crate::chore::{self, Error, Outcome};
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "random inputs to parse, undump, pattern, format, pack, numeral, programs, \
    classes, paths, numbers, control, lists, stress, limits, trace, heap, dropped, keys, domains, json, text, http, rpc or ws; all in short \
    without TARGET";
/// Arguments.
pub const USAGE: &str = "[TARGET [--cases N] [--seconds S] [--seed S] [--corpus DIR] [--replay FILE] ...]";

const TARGETS: &[&str] = &[
    "parse", "undump", "pattern", "format", "pack", "numeral", "programs", "classes", "paths", "numbers",
    "control", "lists", "stress", "limits", "trace", "heap", "dropped", "keys", "domains", "json", "text",
    "http", "rpc", "ws",
];

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let built = chore::cargo()
        .args([
            "build",
            "--quiet",
            "--profile",
            "fast",
            "--package",
            "perilune-fuzzer",
            "--package",
            "perilune-cli",
        ])
        .status()?;
    if !built.success() {
        return Err("the fuzzer does not build".into());
    }
    let bin = chore::target_dir().join("fast/perilune-fuzzer");
    let fuzz = |args: &[OsString]| -> Result<bool, Error> {
        Ok(std::process::Command::new(&bin).args(args).current_dir(chore::root()).status()?.success())
    };
    if !args.is_empty() {
        return Ok(Outcome::from_ok(fuzz(&args)?));
    }
    let mut clean = true;
    for &target in TARGETS {
        if matches!(target, "programs" | "classes" | "paths" | "numbers" | "control" | "lists")
            && perilune_measure::on_path("lua5.4").is_none()
        {
            println!("{target}: skipped, there is no lua5.4");
            continue;
        }
        clean &= fuzz(&[target, "--seconds", "10", "--cases", "1000000"].map(OsString::from))?;
    }
    Ok(Outcome::from_ok(clean))
}
