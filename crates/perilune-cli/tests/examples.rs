//! The examples as tests: each `examples/NAME/main.lua`, run on its default input, prints `expected.txt`.
//!
//! An example runs in its own folder without arguments, as its README shows. The recordings of those that run
//! on any Lua come from a reference (`PERILUNE_TEST_BIN=/path/to/lua PERILUNE_BLESS=1`), so the test also
//! says that we agree with it. The parallel ones check their results themselves; here they have to print the
//! same however many domains they use.

use perilune_test::{Limited, recording};
use std::path::{Path, PathBuf};
use std::process::Command;

fn binary() -> PathBuf {
    perilune_test::under_test(env!("CARGO_BIN_EXE_perilune"))
}

fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("examples exists")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|dir| dir.join("main.lua").is_file())
        .collect();
    found.sort();
    found
}

fn run(dir: &Path, args: &[&str]) -> std::process::Output {
    Limited::run(Command::new(binary()).arg("main.lua").args(args).current_dir(dir))
}

#[test]
fn every_example_prints_what_was_recorded() {
    let all = examples();
    assert!(all.len() >= 2, "examples exist");
    for dir in all {
        let output = run(&dir, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{errors}", dir.display(), output.status);
        let recording = dir.join("expected.txt");
        if let Err(difference) = recording::compare(&recording, &output.stdout) {
            panic!("{}: {difference}", dir.display());
        }
    }
}

#[test]
fn every_example_says_what_is_wrong_with_its_input() {
    for dir in examples() {
        let output = run(&dir, &["there-is-no-such-file"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}: {errors}", dir.display());
        assert!(errors.contains("there-is-no-such-file"), "{}: {errors}", dir.display());
        assert!(!errors.contains("traceback"), "{}: {errors}", dir.display());
    }
}

/// The lines that an example prints with `args`, which has to succeed.
fn lines(name: &str, args: &[&str]) -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let output = run(&dir, args);
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn the_allocator_loop_runs_on_domains_and_in_processes() {
    for way in ["--domains", "--processes"] {
        let printed = lines("allocator", &[way, "3", "--iterations", "100000"]);
        assert!(printed[0].contains(" made 300000 tables in "), "{printed:?}");
        let printed = lines("allocator", &[way, "2", "--seconds", "0.05"]);
        assert!(printed[0].starts_with("2 "), "{printed:?}");
    }
    let printed = lines("allocator", &["--compare", "2", "--iterations", "100000", "--rounds", "1"]);
    assert!(printed.len() == 2 && printed[1].trim_start().starts_with("2 "), "{printed:?}");
}

#[test]
fn binary_trees_have_the_same_nodes_on_domains() {
    assert_eq!(lines("binary_trees", &["9", "--domains", "3"]), lines("binary_trees", &["9"]));
}

#[test]
fn parallel_examples_print_the_same_on_any_number_of_domains() {
    for (name, flag, sizes) in [
        ("squares", "--domains", &["1001"][..]),
        ("matmul", "--workers", &["33"]),
        ("fib", "--workers", &["17", "5"]),
        ("float_init", "--workers", &["12345"]),
        ("distributor", "--domains", &["101"]),
        ("pipeline", "--workers", &["1234"]),
        ("prefix_sum", "--workers", &["4321"]),
        ("life", "--workers", &["20", "23"]),
    ] {
        let on = |domains| lines(name, &[sizes, &[flag, domains]].concat());
        let alone = on("1");
        assert!(!alone.is_empty(), "{name}");
        for domains in ["2", "5"] {
            assert_eq!(on(domains), alone, "{name} on {domains}");
        }
    }
}

#[test]
fn parallel_examples_take_sizes_at_their_edges() {
    let squares: Vec<String> = lines("squares", &["1", "--domains", "3"]);
    assert_eq!(squares, ["1", "sum\t1"]);
    assert_eq!(lines("matmul", &["1"]), ["1 x 1: corners 32 32, sum 32"]);
    assert_eq!(lines("fib", &["2", "1"]), ["fib(2) = 1"]);
    assert_eq!(lines("distributor", &["1"]), ["1 tasks done, 1! = 1 (mod 1000000007)"]);
    assert_eq!(lines("pipeline", &["1", "--workers", "3"]), ["of 1 numbers 1 takes the most steps: 0"]);
    assert_eq!(lines("prefix_sum", &["1"])[0], "the sums of 1 numbers end with 919");
    assert!(lines("float_init", &["1"])[0].starts_with("1 numbers, "));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/life");
    let output = run(&dir, &["15"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "life: a board has at least 16 cells a side, not 15\n"
    );
}

#[test]
fn measuring_programs_print_figures() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/parallel");
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).expect("benches/parallel exists") {
        let path = entry.expect("readable directory").path();
        let text = std::fs::read_to_string(&path).expect("readable program");
        let quick = text.split("quick=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let output = Limited::run(Command::new(binary()).arg(&path).arg(quick.expect("a quick size")));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", path.display());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.lines().count() > 0, "{}", path.display());
        for line in printed.lines() {
            let value = line.rsplit_once(": ").and_then(|(_, rest)| rest.split(' ').next());
            let value: f64 =
                value.and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{}: {line}", path.display()));
            assert!(value.is_finite(), "{}: {line}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}

/// The index names every example, with a line that it prints.
#[test]
fn the_index_lists_every_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let index = std::fs::read_to_string(root.join("README.md")).expect("examples/README.md");
    for dir in examples() {
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        let row = index.lines().find(|l| l.starts_with(&format!("| [{name}]({name}/README.md) |")));
        let row = row.unwrap_or_else(|| panic!("examples/README.md has no row for {name}"));
        assert!(row.contains(&format!("`perilune examples/{name}/main.lua")), "how to run it: {row}");
        let printed = row.trim_end_matches("` |").rsplit_once('`').expect("what it prints").1;
        let recorded = std::fs::read_to_string(dir.join("expected.txt")).expect("expected.txt");
        assert!(recorded.lines().any(|l| l == printed), "{name} does not print: {printed}");
    }
}

/// The programs of a guide (the sequential one, the parallel one, a server that is its own client) print the
/// same.
#[test]
fn the_guides_programs_print_what_was_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guides");
    let mut seen = 0;
    for entry in std::fs::read_dir(root).expect("examples/guides exists") {
        let dir = entry.expect("readable directory").path();
        let want = std::fs::read_to_string(dir.join("expected.txt")).expect("expected.txt");
        let programs =
            std::fs::read_dir(&dir).expect("readable directory").map(|e| e.expect("readable").path());
        for program in programs.filter(|p| p.extension().is_some_and(|e| e == "lua")) {
            let output = Limited::run(Command::new(binary()).arg(&program));
            let got = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {errors}", program.display());
            assert_eq!(got, want, "{}: {errors}", program.display());
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} programs found");
}
