//! `PERILUNE_CHECK=races`: programs with races have each reported once (`tests/parallel/races`), and programs
//! without do not: the examples, the documentation's, the end-to-end scripts.

use perilune_test::{Folder, Limited};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(dir: &Path, script: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    Limited::run(command.arg(script).current_dir(dir).env("PERILUNE_CHECK", "races"))
}

/// The files of a folder with this extension, in order.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the folder exists")
        .map(|entry| entry.expect("readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    found.sort();
    found
}

type Pairs = BTreeSet<(u32, u32)>;

/// The pairs of lines in comments that begin so.
fn announced(source: &str, word: &str) -> Pairs {
    let lines = source.lines().filter_map(|l| l.strip_prefix(word));
    lines
        .map(|l| {
            let numbers: Vec<u32> =
                l.split_whitespace().map(|n| n.parse().expect("a number of a line")).collect();
            (numbers[0].min(numbers[1]), numbers[0].max(numbers[1]))
        })
        .collect()
}

/// The pairs of lines that reports name, and each report must have its parts.
fn reported(errors: &str, script: &str) -> Vec<(u32, u32)> {
    let reports = errors.split("perilune: race on ").skip(1);
    reports
        .map(|report| {
            let head = report.lines().next().unwrap_or("");
            if head.starts_with("element ") {
                assert!(head.contains(" elements, made at "), "{report}");
                assert!(report.contains("Nothing orders the two: "), "{report}");
            } else {
                assert!(head.contains(" made at "), "{report}");
                assert!(report.contains("Only these operations themselves order the two: "), "{report}");
            }
            let at = format!(" at {script}:");
            let sites: Vec<u32> = report
                .lines()
                .skip(1)
                .take(2)
                .map(|l| {
                    assert!(l.contains(" by "), "{report}");
                    let number = l.split(&at).nth(1).unwrap_or_else(|| panic!("no place in {report}"));
                    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
                    number[..end].parse().expect("a line")
                })
                .collect();
            (sites[0].min(sites[1]), sites[0].max(sites[1]))
        })
        .collect()
}

#[test]
fn each_race_is_reported_once() {
    let dir = root().join("tests/parallel/races");
    for path in files(&dir, "lua") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).expect("a readable program");
        let (sure, maybe) = (announced(&source, "-- race:"), announced(&source, "-- maybe:"));
        for _ in 0..3 {
            let output = run(&dir, &name);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {errors}");
            let list = reported(&errors, &name);
            let got: Pairs = list.iter().copied().collect();
            assert_eq!(got.len(), list.len(), "{name} reports a pair twice\n{errors}");
            let missing: Vec<_> = sure.difference(&got).collect();
            let extra: Vec<_> = got.iter().filter(|p| !sure.contains(p) && !maybe.contains(p)).collect();
            assert!(
                missing.is_empty() && extra.is_empty(),
                "{name}: {missing:?} missing, {extra:?} extra\n{errors}"
            );
        }
    }
}

#[test]
fn nothing_is_reported_by_default() {
    let dir = root().join("tests/parallel/races");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let output = Limited::run(command.arg("tasks.lua").current_dir(&dir).env_remove("PERILUNE_CHECK"));
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Fails if a program reported a race.
fn expect_none(what: &str, output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("perilune: race"), "{what}\n{errors}");
}

#[test]
fn examples_have_none() {
    let mut examples = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("examples") {
        let dir = entry.expect("readable folder").path();
        if dir.join("main.lua").is_file() {
            let output = run(&dir, "main.lua");
            expect_none(&dir.display().to_string(), &output);
            let want = std::fs::read_to_string(dir.join("expected.txt")).expect("a recording");
            assert_eq!(String::from_utf8_lossy(&output.stdout), want, "{}", dir.display());
            examples += 1;
        }
    }
    assert!(examples >= 10, "only {examples} examples found");
}

#[test]
fn end_to_end_scripts_have_none() {
    let dir = root().join("tests/parallel");
    for path in files(&dir, "lua") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let copy = Folder::with([(&name, std::fs::read(&path).expect("a script"))]);
        expect_none(&name, &run(copy.path(), &name));
    }
    expect_none("random.lua", &run(&dir.join("stress"), "random.lua"));
}

#[test]
fn programs_in_the_documentation_have_none() {
    let docs = root().join("docs");
    let mut pages = files(&docs.join("parallel"), "md");
    pages.push(docs.join("parallel.md"));
    let mut programs = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a readable page");
        for (n, block) in text.split("```lua\n").skip(1).enumerate() {
            let dir = Folder::with([("guide.lua", block.split("```").next().unwrap_or(""))]);
            let output = run(dir.path(), "guide.lua");
            expect_none(&format!("{}, program {}", page.display(), n + 1), &output);
            programs += 1;
        }
    }
    assert!(programs >= 15, "only {programs} programs found");
}
