//! `cargo xtask bless`: writes the recorded outputs anew.
//!
//! The recordings are what a *reference* Lua prints, never what perilune prints: blessing our own mistakes must
//! take more than one command. Golden files of our own forms (bytecode, syntax trees) are kept by the tests that
//! own them, which rewrite them when `PERILUNE_BLESS` is set; this chore sets it and runs those tests too.

use crate::chore::{self, Error, Outcome};
use crate::{diff, peers};
use lexopt::prelude::*;
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str =
    "records the outputs of tests/lua and examples with lua5.4, and rewrites golden files";
/// Arguments.
pub const USAGE: &str = "[--lua lua5.4] [--only PATTERN] [--recordings]";

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut lua, mut only, mut golden) = ("lua5.4".to_string(), None, true);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("lua") => lua = parser.value()?.string()?,
            Long("only") => only = Some(parser.value()?.string()?),
            Long("recordings") => golden = false,
            _ => return Err(arg.unexpected().into()),
        }
    }
    let bin = peers::on_path(&lua).ok_or_else(|| format!("{lua} is not installed"))?;
    let root = chore::root();
    let mut ok = true;
    for r in diff::recordings(only.as_deref())? {
        let name = r.output.strip_prefix(&root)?.display();
        match diff::produce(&bin, &r) {
            Ok(text) if text == std::fs::read(&r.output)? => {}
            Ok(text) => {
                std::fs::write(&r.output, text)?;
                println!("wrote {name}");
            }
            Err(e) => {
                println!("{name}: {e}");
                ok = false;
            }
        }
    }
    if golden {
        let status = chore::cargo()
            .args(["test", "--workspace", "--profile", "fast", "--no-fail-fast"])
            .env("PERILUNE_BLESS", "1")
            .status()?;
        ok &= status.success();
    }
    Ok(Outcome::from_ok(ok))
}
