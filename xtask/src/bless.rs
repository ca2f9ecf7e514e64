//! `cargo xtask bless`: writes the recorded outputs anew.
//!
//! What a Lua program prints is recorded from a *reference* Lua, never from perilune: blessing our own
//! mistakes must take more than one command. Golden files of our own forms (bytecode listings) have no
//! reference; the test that owns them rewrites them when `PERILUNE_BLESS` is set, and what changed is to be
//! read before it is committed.

use crate::chore::{self, Error, Outcome};
use crate::diff;
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "records what lua5.4 prints for tests/lua and examples, and rewrites the golden \
    listings and the dictionary of events";
/// Arguments.
pub const USAGE: &str = diff::USAGE;

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let recorded = diff::recordings(args, true)?;
    let golden = chore::cargo()
        .args(["test", "--package", "perilune-syntax", "--profile", "fast", "--test", "golden"])
        .env("PERILUNE_BLESS", "1")
        .status()?;
    let dictionary = chore::cargo()
        .args(["test", "--package", "perilune-trace", "--profile", "fast", "--test", "dictionary"])
        .env("PERILUNE_BLESS", "1")
        .status()?;
    let written = golden.success() && dictionary.success();
    Ok(Outcome::from_ok(recorded == Outcome::Passed && written))
}
