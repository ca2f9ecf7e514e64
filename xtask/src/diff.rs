//! `cargo xtask diff`: are the recorded outputs still what PUC Lua prints?
//!
//! The recordings of `tests/lua` and `examples` are what perilune is tested against, so they must themselves
//! be checked against an installed reference Lua. The tests that compare recordings can run any
//! implementation (`PERILUNE_TEST_BIN`); this chore names the reference to them, so that there is one runner
//! and not two.

use crate::chore::{self, Error, Outcome};
use lexopt::prelude::*;
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "the recorded outputs of tests/lua and examples against an installed lua5.4";
/// Arguments.
pub const USAGE: &str = "[--lua lua5.4] [--only PATTERN]";

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    recordings(args, false)
}

/// Runs the tests that own recordings with a reference Lua; `write` makes them record instead of compare.
pub fn recordings(args: Vec<OsString>, write: bool) -> Result<Outcome, Error> {
    let (mut lua, mut only) = ("lua5.4".to_string(), None);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("lua") => lua = parser.value()?.string()?,
            Long("only") => only = Some(parser.value()?.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let bin = perilune_measure::on_path(&lua).ok_or_else(|| format!("{lua} is not installed"))?;
    let mut command = chore::cargo();
    command.args(["test", "--package", "perilune-cli", "--profile", "fast", "--no-fail-fast"]);
    command.args(["--test", "scripts", "--test", "examples", "--", "what_was_recorded"]);
    command.env("PERILUNE_TEST_BIN", bin);
    if let Some(part) = only {
        command.env("PERILUNE_ONLY", part);
    }
    if write {
        command.env("PERILUNE_BLESS", "1");
    }
    Ok(Outcome::from_ok(command.status()?.success()))
}
