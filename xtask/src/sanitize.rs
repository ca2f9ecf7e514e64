//! `cargo xtask asan`: the recorded scripts under AddressSanitizer.
//!
//! The sanitizer is LLVM's, which needs the compiler's unstable flags; the standard library stays as it is,
//! without instrumentation. What is built goes to a folder of its own under `target/`, with assertions, which
//! also means that the interpreter dispatches in a loop: a tail call would leave variables of the caller
//! behind in the sanitizer's eyes.
//!
//! What the sanitizer has to be told is in the code: switches between native stacks (the feature `sanitizer`
//! of `perilune-vm`), and the collector's look at native stacks (`perilune_heap::stack_word`).
//!
//! Each script runs interpreted, and with machine code as soon as there can be some, in a folder of its own.
//!
//! First the chore looks whether the sanitizer is at work: it has to find faults that are planted, on the
//! thread's own stack and on a coroutine's.

use crate::chore::{self, Error, Outcome};
use lexopt::prelude::*;
use perilune_test::script::{INTERPRETED, SOON, Script};
use perilune_test::{Hang, Limited, text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Listing line.
pub const SUMMARY: &str = "recorded scripts under AddressSanitizer, interpreted and as machine code, after \
    it has found what is planted";
/// Arguments.
pub const USAGE: &str = "[--only NAME]";

/// The processor and system that sanitizers are built for: naming it keeps build scripts without them.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Faults that are planted: what the fuzzer calls them.
const PLANTED: &[&str] = &["planted-overflow", "planted-overflow-on-native-stack"];
/// What every report says.
const REPORT: &str = "AddressSanitizer";
/// A script that takes longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(600);

/// How programs run under the sanitizer. Frames of its own, for use after return, would hide values from the
/// collector; what is never freed at exit is left to the system.
pub const ENVIRONMENT: (&str, &str) = (
    "ASAN_OPTIONS",
    "abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:\
     handle_segv=0:handle_sigbus=0",
);

/// Builds the command and the fuzzer with the sanitizer; the folder with both.
///
/// # Errors
/// They do not build.
pub fn build() -> Result<PathBuf, Error> {
    let folder = chore::target_dir().join("address");
    let built = chore::cargo()
        .args(["build", "--quiet", "--profile", "fast", "--target", TRIPLE, "--target-dir"])
        .arg(&folder)
        .args(["--package", "perilune-cli", "--package", "perilune-fuzzer"])
        .args(["--features", "perilune-fuzzer/sanitizer"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address -Cforce-frame-pointers=yes -Cdebug-assertions=yes")
        .status()?;
    if !built.success() {
        return Err("the command does not build with the sanitizer".into());
    }
    Ok(folder.join(TRIPLE).join("fast"))
}

/// Whether the sanitizer finds what is planted.
///
/// # Errors
/// The fuzzer cannot be run, or a fault goes unnoticed.
pub fn finds_what_is_planted(bin: &Path) -> Result<(), Error> {
    for planted in PLANTED {
        let mut command = Command::new(bin.join("perilune-fuzzer"));
        command.arg(planted).env(ENVIRONMENT.0, ENVIRONMENT.1);
        let output = Limited::start_with(&mut command, Stdio::null()).within(PATIENCE).ended();
        let (said, _) = outcome(output);
        if !said.contains(REPORT) {
            return Err(format!("the sanitizer does not find '{planted}'").into());
        }
        println!("{planted}: found");
    }
    Ok(())
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let mut only = String::new();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("only") => only = parser.value()?.string()?,
            _ => return Err(arg.unexpected().into()),
        }
    }
    let bin = build()?;
    finds_what_is_planted(&bin)?;
    let (mut ran, mut found) = (0, 0);
    for mode in [INTERPRETED, SOON] {
        for folder in ["lua", "parallel"] {
            for script in Script::all(&chore::root().join("tests").join(folder), &only) {
                chore::progress(&format!("{}/{folder}/{}", mode.name, script.name));
                let environment: Vec<_> = mode.environment.iter().copied().chain([ENVIRONMENT]).collect();
                let (said, ended) = outcome(script.output(&bin.join("perilune"), &environment, PATIENCE));
                ran += 1;
                if said.contains(REPORT) || !ended {
                    found += 1;
                    let what = if ended { "reported" } else { "does not end" };
                    println!("{}/{folder}/{}: {what}\n{said}", mode.name, script.name);
                }
            }
        }
    }
    chore::progress("");
    println!("{ran} scripts under AddressSanitizer, {found} with reports");
    Ok(Outcome::from_ok(found == 0))
}

/// What a program says on standard error, and whether it has ended by itself.
fn outcome(output: Result<Output, Box<Hang>>) -> (String, bool) {
    match output {
        Ok(output) => (text(&output.stderr), true),
        Err(hang) => (hang.to_string(), false),
    }
}
