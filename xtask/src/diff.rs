//! `cargo xtask diff`: are the recorded outputs still what PUC Lua prints?
//!
//! The recordings of `tests/lua` and `examples` are what perilune is tested against, so they must themselves be
//! checked against an installed reference Lua. This module also finds the recordings for [`crate::bless`], which
//! writes them.

use crate::chore::{self, Error, Outcome};
use crate::measure::{self, Job};
use crate::peers;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Listing line.
pub const SUMMARY: &str = "the recorded outputs of tests/lua and examples against an installed lua5.4";
/// Arguments.
pub const USAGE: &str = "[--lua lua5.4] [--only PATTERN]";

/// A program and the file that holds what it prints.
pub struct Recording {
    /// Where to run it.
    pub dir: PathBuf,
    /// The program, in `dir`.
    pub script: PathBuf,
    /// Recorded standard output.
    pub output: PathBuf,
}

/// All recordings whose path contains `only`.
pub fn recordings(only: Option<&str>) -> Result<Vec<Recording>, Error> {
    let root = chore::root();
    let mut found = Vec::new();
    for path in entries(&root.join("tests/lua"))? {
        let output = path.with_extension("out");
        if path.extension().is_some_and(|e| e == "lua") && output.exists() {
            let script = path.file_name().expect("a file").into();
            found.push(Recording { dir: root.join("tests/lua"), script, output });
        }
    }
    for dir in entries(&root.join("examples"))? {
        let output = dir.join("expected.txt");
        if output.exists() {
            found.push(Recording { dir, script: "main.lua".into(), output });
        }
    }
    found.retain(|r| only.is_none_or(|o| r.output.to_string_lossy().contains(o)));
    Ok(found)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// What `lua` prints for a recording's program; `Err` with the reason if it fails.
pub fn produce(lua: &Path, r: &Recording) -> Result<Vec<u8>, Error> {
    let run = measure::run(&Job::new(lua, [&r.script], &r.dir))?;
    if run.ok() { Ok(run.stdout) } else { Err(run.failure().into()) }
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut lua, mut only) = ("lua5.4".to_string(), None);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("lua") => lua = parser.value()?.string()?,
            Long("only") => only = Some(parser.value()?.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let bin = peers::on_path(&lua).ok_or_else(|| format!("{lua} is not installed"))?;
    let root = chore::root();
    let (mut passed, mut failed) = (0, 0);
    for r in recordings(only.as_deref())? {
        let name = r.output.strip_prefix(&root)?.display();
        match produce(&bin, &r) {
            Ok(text) if text == std::fs::read(&r.output)? => passed += 1,
            Ok(text) => {
                failed += 1;
                println!("{name}: {}", first_difference(&std::fs::read(&r.output)?, &text));
            }
            Err(e) => {
                failed += 1;
                println!("{name}: {e}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(Outcome::from_ok(failed == 0 && passed > 0))
}

/// The first line in which two texts differ.
fn first_difference(recorded: &[u8], printed: &[u8]) -> String {
    let (mut a, mut b) = (recorded.split(|&c| c == b'\n'), printed.split(|&c| c == b'\n'));
    for line in 1.. {
        let (x, y) = (a.next(), b.next());
        if x != y {
            let show = |l: Option<&[u8]>| {
                l.map_or("end of file".into(), |l| format!("`{}`", String::from_utf8_lossy(l)))
            };
            return format!("line {line}: recorded {}, printed {}", show(x), show(y));
        }
        if x.is_none() {
            break;
        }
    }
    "no difference".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_first_line_that_differs() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nc\n"), "line 2: recorded `b`, printed `c`");
        assert_eq!(first_difference(b"a", b"a\nb"), "line 2: recorded end of file, printed `b`");
        assert_eq!(first_difference(b"a", b"a"), "no difference");
    }
}
