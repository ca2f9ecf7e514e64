//! The programs of `tests/parallel/outcomes`: what crosses a domain and what does not.
//!
//! `PERILUNE_BLESS=1` writes the outputs instead of comparing them; look at the difference before committing
//! it. `PERILUNE_ONLY=name` runs one.

use perilune_test::{Limited, recording, text};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn programs_have_the_outcomes_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel/outcomes");
    let only = perilune_test::only();
    let mut programs: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of outcomes")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "lua"))
        .filter(|p| p.to_string_lossy().contains(&only))
        .collect();
    programs.sort();
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.file_name().expect("a file").to_string_lossy().into_owned();
        let output = output_of(&folder, &name);
        if let Err(difference) = recording::compare(&program.with_extension("out"), output.as_bytes()) {
            wrong.push(format!("{name}: {difference}\nit gives:\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The recording itself is compared by the suite `scripts`.
#[test]
fn the_table_of_idioms_says_what_they_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the project");
    let (design, idioms) = (read("docs/parallel-design.md"), read("tests/parallel/idioms.out"));
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit();
    let section = design.split_once("### A hundred idioms").expect("the section").1;
    let section = section.split_once("\n## ").expect("a section behind").0;
    let said: Vec<&str> = section.lines().filter(is_row).collect();
    let done: Vec<&str> = idioms.lines().filter(is_row).collect();
    assert!(done.len() >= 100, "{} idioms", done.len());
    for (said, done) in said.iter().zip(&done) {
        assert_eq!(said, done, "the table says one thing, tests/parallel/idioms.out another");
    }
    assert_eq!(said.len(), done.len());
}

/// What a program prints, with the message of the error that ended it.
fn output_of(folder: &Path, name: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let output = Limited::run(command.arg(name).current_dir(folder));
    text(&output.stdout) + text(&output.stderr).lines().next().unwrap_or_default()
}
