//! `cargo xtask test`: every test of the project.
//!
//! That is `cargo test` over the workspace: unit tests, the recorded Lua scripts of `tests/lua`, the examples
//! and the benchmark programs at their quick size, each of which checks its own result. The last line is the
//! total. A test that hangs for ten minutes is killed and fails.

use crate::cargo_jobs;
use crate::chore::{Error, Outcome};
use lexopt::prelude::*;
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "every test; the last line is 'N passed, N failed'";
/// Arguments.
pub const USAGE: &str = "[--profile fast|dev|release] [-p PACKAGE]";

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut profile, mut package) = ("fast".to_string(), None);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("profile") => profile = parser.value()?.string()?,
            Short('p') | Long("package") => package = Some(parser.value()?.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let mut command = vec!["--no-fail-fast", "--profile", &profile];
    match &package {
        Some(p) => command.extend(["--package", p]),
        None => command.push("--workspace"),
    }
    let tally = cargo_jobs::test(&command)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(Outcome::from_ok(tally.failed == 0 && tally.passed > 0))
}
