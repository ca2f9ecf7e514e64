//! `cargo xtask layout`: which functions lie side by side in the executable.
//!
//! Of two megabytes of code a small program runs some hundred kilobytes, but these lie scattered, and the
//! kernel maps file pages sixteen at a time: nearly all of the code becomes resident. So the functions that
//! programs do run are put next to each other, in the order of how many programs run them; those that all
//! need come last, next to the entry point.
//!
//! The chore runs `-e ''` and the programs of `benches/programs` at their quick size, notes which functions
//! are entered ([`entered`]), and writes `crates/perilune-cli/layout.ld`, an addition to the linker's own
//! script, which `build.rs` hands to the linker. Names are written as patterns without the hashes that
//! compilers add, so that the list outlives changes; a function that it does not know lies where it would
//! have lain anyway, and a pattern without a function is ignored. It need not be made anew often: when
//! start-up takes noticeably more memory than this documentation says.

mod entered;

use crate::chore::{self, Error, Outcome};
use crate::peers;
use crate::program;
use entered::Function;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

/// Listing line.
pub const SUMMARY: &str = "records which functions programs run, so that the linker puts them side by side (crates/perilune-cli/layout.ld)";
/// Arguments.
pub const USAGE: &str = "[BINARY]...";

/// What is known of the functions that one pattern names.
#[derive(Default, Debug)]
struct Pattern {
    /// The most runs that entered one of them.
    runs: usize,
    /// The length of those that were entered, bytes.
    entered: u64,
    /// The length of all, bytes.
    size: u64,
}

/// Runs the chore on the binaries, else on a release build.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let bins = match args.as_slice() {
        [] => vec![peers::build("release")?],
        bins => bins.iter().map(|b| PathBuf::from(b).canonicalize()).collect::<Result<_, _>>()?,
    };
    let programs = program::find(&chore::root().join("benches/programs"), None)?;
    let mut runs = vec![vec!["-e".to_string(), String::new()]];
    for p in &programs {
        runs.push(vec![p.path.display().to_string(), p.header.argument(program::Scale::Quick).to_string()]);
    }
    let mut patterns = BTreeMap::new();
    for bin in &bins {
        let functions = entered::functions(bin)?;
        let mut counts = vec![0; functions.len()];
        for (i, args) in runs.iter().enumerate() {
            chore::progress(&format!("[{}/{}] {}", i + 1, runs.len(), args[0]));
            for f in entered::run(bin, args, &chore::root(), &functions)? {
                counts[f] += 1;
            }
        }
        chore::progress("");
        gather(&mut patterns, &functions, &counts);
    }
    let (script, size) = script(&patterns, runs.len());
    let file = chore::root().join("crates/perilune-cli/layout.ld");
    std::fs::write(&file, &script)?;
    println!(
        "layout: {} patterns, {} KiB of code in each binary",
        script.matches("*(").count(),
        size / 1024 / bins.len() as u64
    );
    Ok(Outcome::Passed)
}

fn gather(patterns: &mut BTreeMap<String, Pattern>, functions: &[Function], counts: &[usize]) {
    for (f, &runs) in functions.iter().zip(counts) {
        let p = patterns.entry(pattern(&f.name)).or_default();
        p.size += f.size;
        p.runs = p.runs.max(runs);
        p.entered += if runs > 0 { f.size } else { 0 };
    }
}

/// A function's name with stars where compilers put hashes: of the function (`17h...E`), of its crate
/// (`Cs..._`), of a part that optimisation split off (`.llvm.N`).
fn pattern(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    if let Some(at) = name.rfind("17h").filter(|at| name.len() == at + 20 && name.ends_with('E')) {
        return format!("{}*", &name[..at + 3]);
    }
    let mut pattern = String::new();
    let mut rest = name;
    while name.starts_with("_R")
        && let Some(at) = rest.find("Cs")
        && let Some(length) = rest[at + 2..].find('_')
        && rest[at + 2..at + 2 + length].bytes().all(|b| b.is_ascii_alphanumeric())
    {
        pattern.push_str(&rest[..at]);
        pattern.push_str("Cs*_");
        rest = &rest[at + 3 + length..];
    }
    pattern + rest + "*"
}

/// The linker script for patterns recorded in so many `runs`, and how many bytes it puts together.
///
/// Old-style names do not tell the instances of a generic function apart. A pattern that names much more than
/// was entered is left out, unless every run enters some of it: then one of its functions elsewhere would
/// cost more.
fn script(patterns: &BTreeMap<String, Pattern>, runs: usize) -> (String, u64) {
    let vague = |p: &Pattern| p.size > 4 * p.entered + 8192;
    let mut chosen: Vec<(&String, &Pattern)> =
        patterns.iter().filter(|(_, p)| p.runs == runs || (p.runs > 0 && !vague(p))).collect();
    chosen.sort_by_key(|(name, p)| (p.runs, !vague(p), *name));
    let mut s = String::from(
        "/* Written by `cargo xtask layout`: code that programs run, what more of them run first. */\nSECTIONS {\n  .text.ordered : {\n",
    );
    for (name, _) in &chosen {
        writeln!(s, "    *(.text.{name} .text.unlikely.{name})").expect("a string takes everything");
    }
    s.push_str("  }\n}\nINSERT BEFORE .text;\n");
    (s, chosen.iter().map(|(_, p)| p.size).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_know_no_hashes() {
        for (name, expected) in [
            ("_ZN4core3fmt5write17h0123456789abcdefE", "_ZN4core3fmt5write17h*"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.77", "_ZN4core3fmt5write17h*"),
            ("_RNvNtCsjrHSEGnQ3l9_3std2rt4init", "_RNvNtCs*_3std2rt4init*"),
            ("_RINvCs1_1aNtCs2_1b1cE", "_RINvCs*_1aNtCs*_1b1cE*"),
            ("main", "main*"),
        ] {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn what_more_programs_run_comes_later() {
        // The section before which all this goes starts with the entry point, so what is run first is last.
        let function = |name: &str, size| Function { start: 0, size, name: name.into() };
        let all = [
            function("rare", 10),
            function("never", 10),
            function("always", 10),
            function("main", 90_000),
            function("start", 90_000),
        ];
        let mut patterns = BTreeMap::new();
        gather(&mut patterns, &all, &[1, 0, 5, 0, 0]);
        // Two functions of one pattern, of which the small one was entered: by some runs, by all.
        gather(&mut patterns, &[function("main", 10), function("start", 10)], &[4, 5]);
        let (script, size) = script(&patterns, 5);
        let names: Vec<&str> = script.lines().filter_map(|l| l.trim().strip_prefix("*(.text.")).collect();
        let expected = ["rare", "start", "always"].map(|n| format!("{n}* .text.unlikely.{n}*)"));
        assert_eq!(names, expected);
        assert_eq!(size, 90_030);
    }
}
