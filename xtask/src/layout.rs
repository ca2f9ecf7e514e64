//! `cargo xtask layout`: which functions lie side by side in the executable.
//!
//! Of two megabytes of code a small program runs some hundred kilobytes, but these lie scattered, and the
//! kernel maps file pages sixteen at a time: nearly all of the code becomes resident. So the functions that
//! programs do run are put next to each other, in the order of how many programs run them; those that an
//! empty one runs come last, next to the entry point.
//!
//! The chore runs `-e ''` and the programs of `benches/programs` at their quick size, notes which functions
//! are entered ([`entered`]), and writes `crates/perilune-cli/layout.ld`, an addition to the linker's own
//! script, which `build.rs` hands to the linker. Names are written as patterns without the hashes that
//! compilers add, so that the list outlives changes; a function that it does not know lies where it would
//! have lain anyway, and a pattern without a function is ignored. It need not be made anew often: when
//! start-up takes noticeably more memory than this documentation says.
//!
//! Such a name does not tell the instances of a generic function apart, of which a large program has
//! hundreds. Where most of them are not run, those of a crate that runs one are told by the file that they
//! come from.
//!
//! Constants are put side by side by the crates that a start reads them of.

mod entered;

use crate::chore::{self, Error, Outcome};
use crate::peers;
use crate::program;
use entered::Function;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

/// Listing line.
pub const SUMMARY: &str = "records which functions programs run, so that the linker puts them side by side \
    (crates/perilune-cli/layout.ld)";
/// Arguments.
pub const USAGE: &str = "[BINARY]...";

/// The crates whose constants a start reads.
const CONSTANTS: [&str; 12] = [
    "core",
    "alloc",
    "std",
    "hashbrown",
    "perilune_trace",
    "perilune_heap",
    "perilune_syntax",
    "perilune_vm",
    "perilune_stdlib",
    "perilune_domain",
    "perilune_spesh",
    "perilune",
];

/// A pattern, and the crate that has the functions, if only those of that one are meant.
type Key = (String, Option<String>);

/// What is known of the functions that one pattern names.
#[derive(Default, Debug, Clone)]
struct Pattern {
    /// The length of those that an empty program enters, bytes.
    started: u64,
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
        [] => vec![build()?],
        bins => bins.iter().map(|b| PathBuf::from(b).canonicalize()).collect::<Result<_, _>>()?,
    };
    let programs = program::find(&chore::root().join("benches/programs"), None)?;
    let mut runs = vec![vec!["-e".to_string(), String::new()]];
    for p in &programs {
        runs.push(vec![p.path.display().to_string(), p.header.argument(program::Scale::Quick).to_string()]);
    }
    let mut patterns = BTreeMap::new();
    for bin in &bins {
        let map = std::fs::read_to_string(bin.with_extension("map")).unwrap_or_default();
        let functions = entered::functions(bin, &map)?;
        let mut counts = vec![(0, false); functions.len()];
        for (i, args) in runs.iter().enumerate() {
            chore::progress(&format!("[{}/{}] {}", i + 1, runs.len(), args[0]));
            let entered = match i {
                0 => entered::run_at_full_speed(bin, args, &chore::root(), &functions),
                _ => entered::run(bin, args, &chore::root(), &functions, &BTreeSet::new()),
            };
            for f in entered? {
                counts[f].0 += 1;
                counts[f].1 |= i == 0;
            }
        }
        chore::progress("");
        gather(&mut patterns, &functions, &counts);
    }
    let (script, size) = script(&patterns);
    let file = chore::root().join("crates/perilune-cli/layout.ld");
    std::fs::write(&file, &script)?;
    println!(
        "layout: {} patterns, {} KiB of code in each binary",
        script.matches("*(").count(),
        size / 1024 / bins.len() as u64
    );
    Ok(Outcome::Passed)
}

/// Builds a release, with the linker's map beside it, named as [`run`] looks for it.
fn build() -> Result<PathBuf, Error> {
    let map = chore::target_dir().join("release/perilune.map");
    // SAFETY: the chore has one thread.
    unsafe { std::env::set_var("PERILUNE_MAP", &map) };
    peers::build("release")
}

/// Adds up what is known of a binary's functions: by how many runs each was entered, and whether by the empty
/// program.
fn gather(patterns: &mut BTreeMap<Key, Pattern>, functions: &[Function], counts: &[(usize, bool)]) {
    for (f, &(runs, starts)) in functions.iter().zip(counts) {
        let name = pattern(&f.name);
        for from in [None, f.from.clone()].into_iter().take(1 + usize::from(f.from.is_some())) {
            let p = patterns.entry((name.clone(), from)).or_default();
            p.started += if starts { f.size } else { 0 };
            p.size += f.size;
            p.runs = p.runs.max(runs);
            p.entered += if runs > 0 { f.size } else { 0 };
        }
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

/// The linker script for patterns, and how many bytes of code it puts together.
///
/// A pattern that names much more than was entered, or than a start enters, is *vague*: then those of its
/// functions are meant that are of crates of which one was entered. What is vague even so is left out, unless
/// every start enters some of it: then one of its functions elsewhere would cost more.
fn script(patterns: &BTreeMap<Key, Pattern>) -> (String, u64) {
    let starts = |p: &Pattern| p.started > 0;
    let vague = |p: &Pattern| {
        let entered = if starts(p) { p.started } else { p.entered };
        p.size > 4 * entered + 8192
    };
    let is_chosen = |((name, from), p): &(&Key, &Pattern)| {
        let whole = patterns.get(&(name.clone(), None));
        let parts =
            patterns.range((name.clone(), Some(String::new()))..).take_while(|(key, _)| key.0 == *name);
        let is_divided = whole.is_some_and(vague) && parts.count() > 0;
        p.runs > 0 && from.is_some() == is_divided && (starts(p) || !vague(p))
    };
    let mut chosen: Vec<(&Key, &Pattern)> = patterns.iter().filter(is_chosen).collect();
    chosen.sort_by_key(|(key, p)| (starts(p), if starts(p) { 0 } else { p.runs }, !vague(p), *key));
    let mut s = String::from(
        "/* Written by `cargo xtask layout`: code that programs run, what more of them run first. */\n\
         SECTIONS {\n  .text.ordered : {\n",
    );
    for ((name, from), _) in &chosen {
        let file = from.as_ref().map_or_else(|| "*".to_owned(), |of| file(of));
        writeln!(s, "    {file}(.text.{name} .text.unlikely.{name})").expect("a string takes everything");
    }
    s.push_str("  }\n}\nINSERT BEFORE .text;\nSECTIONS {\n  .rodata.ordered : {\n");
    for of in CONSTANTS {
        writeln!(s, "    {}(.rodata .rodata.*)", file(of)).expect("a string takes everything");
    }
    s.push_str("  }\n}\nINSERT BEFORE .rodata;\n");
    (s, chosen.iter().map(|(_, p)| p.size).sum())
}

/// The files that a crate's code comes in.
fn file(of: &str) -> String {
    format!("*.{of}.*-cgu.*")
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

    fn function(name: &str, size: u64, from: Option<&str>) -> Function {
        Function { start: 0, size, name: name.into(), from: from.map(str::to_owned) }
    }

    fn code(script: &str) -> Vec<&str> {
        let lines = script.lines().map(str::trim).take_while(|l| !l.starts_with("INSERT"));
        lines.filter(|l| l.contains("(.text.")).map(|l| l.split(' ').next().unwrap_or_default()).collect()
    }

    #[test]
    fn what_more_programs_run_comes_later_and_what_starts_last() {
        // The section before which all this goes starts with the entry point, so what is run first is last.
        let function = |name: &str, size| function(name, size, None);
        let all = [
            function("rare", 10),
            function("never", 10),
            function("always", 10),
            function("main", 90_000),
            function("start", 90_000),
            function("empty", 10),
        ];
        let mut patterns = BTreeMap::new();
        let counts = [(1, false), (0, false), (5, true), (0, false), (0, false), (1, true)];
        gather(&mut patterns, &all, &counts);
        // Two functions of one pattern, of which the small one was entered: by some runs, by all.
        let small = [function("main", 10), function("start", 10)];
        gather(&mut patterns, &small, &[(4, false), (5, true)]);
        let (script, size) = script(&patterns);
        assert_eq!(code(&script), ["rare", "start", "always", "empty"].map(|n| format!("*(.text.{n}*")));
        assert_eq!(size, 90_040);
    }

    #[test]
    fn instances_of_generic_functions_are_told_apart_by_their_crates() {
        let all = [
            function("insert", 90_000, Some("large")),
            function("insert", 100, Some("small")),
            function("get", 100, Some("large")),
            function("get", 100, Some("small")),
        ];
        let mut patterns = BTreeMap::new();
        gather(&mut patterns, &all, &[(0, false), (3, false), (1, false), (0, false)]);
        let (script, _) = script(&patterns);
        assert_eq!(code(&script), ["*(.text.get*", "*.small.*-cgu.*(.text.insert*"]);
    }
}
