//! `cargo xtask soak`: a server and its clients for minutes, with everything that goes wrong.
//!
//! The program is `tests/soak/io.lua`, which also judges: connections are reset, half closed, given up;
//! readers are slow; waits are cancelled and go on; bursts use up the server's descriptors. No byte may be
//! lost, changed or delivered twice, memory has to stay where it was after the first fifth of the time, and
//! in the end neither thread nor descriptor may be left. What was random comes from a seed, which is printed.
//! A short run of the same is among the tests.

use crate::chore::{self, Error, Outcome};
use crate::peers;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Listing line.
pub const SUMMARY: &str =
    "servers and clients for minutes, with faults: nothing may be lost, grow or be left";
/// Arguments.
pub const USAGE: &str = "[--minutes M] [--seed N] [--bin PATH] [--profile P]";

/// Runs it.
///
/// # Errors
/// The arguments make no sense, or it cannot be built or started.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut minutes, mut seed, mut bin, mut profile) = (10.0f64, None, None, "fast".to_owned());
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("minutes") => minutes = parser.value()?.parse()?,
            Long("seed") => seed = Some(parser.value()?.parse::<u32>()?),
            Long("bin") => bin = Some(PathBuf::from(parser.value()?)),
            Long("profile") => profile = parser.value()?.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    if !(0.01..=100_000.0).contains(&minutes) {
        return Err("--minutes: a number from 0.01 to 100000".into());
    }
    let bin = match bin {
        Some(bin) => bin.canonicalize()?,
        None => peers::build(&profile)?,
    };
    let mut command = Command::new(bin);
    command.current_dir(chore::root()).arg("tests/soak/io.lua").arg((minutes * 60.0).to_string());
    command.args(seed.map(|seed| seed.to_string()));
    Ok(Outcome::from_ok(command.status()?.success()))
}
