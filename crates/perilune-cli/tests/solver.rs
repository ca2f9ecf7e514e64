//! The package solver of `examples/solver`: the tests of its parts, its independent checker, and that it
//! finds the same however its requests are distributed.

use perilune_test::{Folder, Limited};
use std::path::Path;
use std::process::{Command, Output};

fn solver(script: &str, args: &[&str]) -> Output {
    let mut command = Command::new(perilune_test::under_test(env!("CARGO_BIN_EXE_perilune")));
    command.arg(script).args(args);
    Limited::run(command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/solver")))
}

/// What a run prints, which has to succeed.
fn printed(script: &str, args: &[&str]) -> String {
    let output = solver(script, args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{script} {args:?}: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn its_parts_do_what_brute_force_does() {
    assert!(printed("test.lua", &[]).contains(" 0 failed"));
}

#[test]
fn an_independent_checker_finds_nothing_wrong() {
    let indices = ["sample/bookworm.Packages", "sample/security.Packages", "sample/vendor.Packages"];
    for together in ["1", "3"] {
        let args = [&indices[..], &["--solves", "150", "--together", together]].concat();
        assert!(printed("check.lua", &args).contains(" 0 faults"));
    }
}

#[test]
fn domains_and_processes_find_what_one_finds() {
    let args = ["--solves", "301", "--together", "2"];
    let alone = printed("main.lua", &args);
    let digest = alone.lines().last().expect("a result");
    assert!(digest.starts_with("301 requests, ") && digest.contains("digest "), "{alone}");
    for way in ["--domains", "--processes"] {
        let several = printed("main.lua", &[&args[..], &[way, "3"]].concat());
        assert_eq!(several.lines().last(), Some(digest), "{way}");
    }
    let compared = printed("main.lua", &[&args[..], &["--compare", "2", "--rounds", "1"]].concat());
    assert_eq!(compared.lines().last(), Some(digest));
    assert!(compared.contains("domains against processes"), "{compared}");
}

#[test]
fn a_cut_archive_is_closed() {
    let folder = Folder::new();
    let cut = folder.path().to_str().expect("a path in UTF-8");
    printed(
        "cut.lua",
        &["--out", cut, "sample/bookworm.Packages", "sample/security.Packages", "--", "git", "postfix"],
    );
    let index = |name: &str| format!("{cut}/{name}.Packages");
    let (main, security) = (index("bookworm"), index("security"));
    let checked = printed("check.lua", &[&main, &security, "--solves", "100"]);
    assert!(
        checked.starts_with("100 requests, 0 without a solution") && checked.contains(" 0 faults"),
        "{checked}"
    );
    let whole = std::fs::metadata(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/solver/sample/bookworm.Packages"),
    );
    assert!(std::fs::metadata(&main).expect("the cut").len() < whole.expect("the sample").len());
}

#[test]
fn what_has_no_solution_ends_with_a_status_and_an_explanation() {
    let output = solver("main.lua", &["exim4-daemon-light", "postfix"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("clashes with exim4-daemon-light"), "{text}");
}

#[test]
fn wrong_use_is_said_in_one_line() {
    for (args, message) in [
        (&["--solves"][..], "--solves needs a value"),
        (&["--solves", "x"], "not a number"),
        (&["--solves", "2", "--domains", "1", "--processes", "1"], "exclude each other"),
        (&["--domains", "2"], "--solves"),
        (&["--index", "no-such-index", "git"], "no-such-index"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let output = solver("main.lua", args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(errors.contains(message) && errors.lines().count() == 1, "{args:?}: {errors}");
    }
}
