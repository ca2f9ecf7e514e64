//! `cargo xtask suite DIR`: Lua's own test suite, file by file.
//!
//! The suite (folder `testes` of the reference implementation's repository) is not part of this project; the
//! caller says where it is. Each file runs in a process of its own, in a fresh copy of the folder, because
//! the files write to the current folder and to each other's temporary names. One process per file also means
//! that a crash or a hang costs one row of the table and not the run.
//!
//! By default a file gets the globals of the suite's portable mode (`_U`, and `_port`, `_soft`, `_nomsg`,
//! which `all.lua` derives from it). `--strict` sets none of them. Files that need the reference's internal
//! test library check for it themselves and skip those parts; `big.lua` yields, so it runs inside a coroutine
//! as `all.lua` does.

use crate::chore::{self, Error, Outcome};
use crate::peers;
use lexopt::prelude::*;
use perilune_measure::process::{self, End, Job};
use perilune_test::Folder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Listing line.
pub const SUMMARY: &str = "each file of Lua's own test suite in the folder DIR, one process each";
/// Arguments.
pub const USAGE: &str =
    "DIR [--bin PATH] [--profile P] [--only PATTERN] [--strict] [--timeout SECONDS] [--md FILE]";

/// Files that are loaded by others and are no test by themselves.
const HELPERS: &[&str] = &["bwcoercion.lua", "tracegc.lua"];

/// Takes all the memory that there is, by design: runs only when `--only` names it.
const HEAVY: &str = "heavy.lua";

const PORTABLE: &str = "_U=true _port=true _soft=true _nomsg=true";

const BIG: &str = "local f = coroutine.wrap(assert(loadfile('big.lua'))); while f() == 'b' do end";

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut dir, mut bin, mut only, mut md) = (None, None, None, None);
    let (mut profile, mut strict, mut limit) = ("release".to_string(), false, 120);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) if dir.is_none() => dir = Some(PathBuf::from(v).canonicalize()?),
            Long("bin") => bin = Some(parser.value()?.string()?),
            Long("profile") => profile = parser.value()?.string()?,
            Long("only") => only = Some(parser.value()?.string()?),
            Long("strict") => strict = true,
            Long("timeout") => limit = parser.value()?.parse()?,
            Long("md") => md = Some(PathBuf::from(parser.value()?)),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let dir = dir.ok_or("which folder? cargo xtask suite DIR")?;
    let ours = peers::ours(bin.as_deref(), &profile)?;
    let files = files(&dir, only.as_deref())?;
    let mut table =
        String::from("| file | outcome | CPU s | first line of the error |\n|---|---|---:|---|\n");
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        chore::progress(file);
        let scratch = Folder::new();
        scratch.copy(&dir);
        let job =
            Job::new(&ours.bin, arguments(file, strict), scratch.path()).timeout(Duration::from_secs(limit));
        let run = process::run(&job)?;
        let (outcome, error) = match run.end {
            End::Exit(0) => ("pass", String::new()),
            End::Timeout => ("timeout", String::new()),
            End::Signal(_) => ("crash", run.failure()),
            End::Exit(_) => ("fail", run.failure()),
        };
        if run.ok() {
            passed += 1;
        } else {
            failed += 1;
        }
        table.push_str(&format!("| {file} | {outcome} | {:.2} | {} |\n", run.cpu, error.replace('|', "\\|")));
    }
    chore::progress("");
    print!("{table}");
    if let Some(path) = md {
        std::fs::write(path, &table)?;
    }
    println!("{passed} passed, {failed} failed");
    Ok(Outcome::from_ok(failed == 0 && passed > 0))
}

/// The suite's files that are tests; those whose names contain `only`, if that is given.
///
/// # Errors
/// The folder cannot be read.
pub fn files(dir: &Path, only: Option<&str>) -> Result<Vec<String>, Error> {
    let mut files: Vec<String> = std::fs::read_dir(dir)?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".lua") && !HELPERS.contains(&n.as_str()))
        .filter(|n| only.map_or(n != HEAVY, |only| n.contains(only)))
        .collect();
    files.sort();
    Ok(files)
}

/// What the interpreter is told so that it runs a file.
pub fn arguments(file: &str, strict: bool) -> Vec<&str> {
    let mut args = Vec::new();
    if !strict {
        args.extend(["-e", PORTABLE]);
    }
    match file {
        "big.lua" => args.extend(["-e", BIG]),
        _ => args.push(file),
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_no_tests_and_the_heavy_one_is_asked_for_by_name() {
        let names = ["tracegc.lua", "heavy.lua", "math.lua", "all.lua", "ltests.h"];
        let folder = Folder::with(names.map(|name| (name, "")));
        let found = |only| files(folder.path(), only).expect("a folder");
        assert_eq!(found(None), ["all.lua", "math.lua"]);
        assert_eq!(found(Some("heavy")), ["heavy.lua"]);
    }

    #[test]
    fn strict_sets_no_globals() {
        assert_eq!(arguments("math.lua", true), ["math.lua"]);
        assert_eq!(arguments("math.lua", false), ["-e", PORTABLE, "math.lua"]);
        assert_eq!(arguments("big.lua", true), ["-e", BIG]);
    }
}
