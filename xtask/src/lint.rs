//! `cargo xtask lint`: formatting and clippy, warnings denied.

use crate::chore::{self, Error, Outcome};
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "cargo fmt --check, and clippy over all targets with warnings denied";
/// Arguments.
pub const USAGE: &str = "";

/// Runs the chore. Both steps run even if the first finds something: one call shows everything.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    if let Some(extra) = args.first() {
        return Err(format!("unexpected argument {}", extra.to_string_lossy()).into());
    }
    let fmt = chore::cargo().args(["fmt", "--all", "--check"]).status()?;
    let clippy = chore::cargo()
        .args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
        .status()?;
    Ok(Outcome::from_ok(fmt.success() && clippy.success()))
}
