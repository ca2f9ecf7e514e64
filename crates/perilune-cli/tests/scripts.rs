//! The end-to-end suites: every `tests/lua/NAME.lua` and `tests/parallel/NAME.lua` is run by the built
//! command and must print `NAME.out`. The recordings of `tests/lua` come from the reference implementation;
//! those of `tests/parallel`, which use `require "perilune"`, are ours. How a script is run and judged is
//! told in [`perilune_test::script`]. `cargo xtask modes` runs them in every mode there is.
//!
//! Environment: `PERILUNE_ONLY=part` runs the scripts whose name contains `part`;
//! `PERILUNE_TEST_BIN=/path/to/lua` runs another implementation (that is how the recordings are checked);
//! `PERILUNE_BLESS=1` writes the recordings, to be read before they are committed.

use perilune_test::script::{GUARDS, INTERPRETED, LEAVE, Mode, SOON, STEP, Script, on_all_cores};
use std::path::Path;

/// As the environment of the test says.
const PLAIN: Mode = Mode { name: "plain", environment: &[] };
/// Each allocation collects. The heap is verified at length by `cargo xtask modes`.
const STRESS: Mode = Mode { name: "stress", environment: &[("PERILUNE_GC_STRESS", "1")] };
/// One call in three leaves machine code, so what it was at is known but in part.
const LEAVE_SOME: Mode = Mode {
    name: "leave some",
    environment: &[("PERILUNE_SPESH", "blocking:2:60"), ("PERILUNE_SPESH_LEAVE", "3")],
};
/// Loops and functions are compiled soon, and stacks move at collections, which are many.
const MOVED: Mode =
    Mode { name: "moved", environment: &[("PERILUNE_SPESH", "blocking:2:207"), ("PERILUNE_GC_STRESS", "2")] };

/// What is recorded is long enough for what is known of loops that come round often.
const LONG: Mode = Mode { name: "long", environment: &[("PERILUNE_SPESH", "blocking:50:2000")] };

fn run_all(suite: &str, mode: Mode) {
    run_those(suite, &perilune_test::only(), mode);
}

fn run_those(suite: &str, only: &str, mode: Mode) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(suite);
    let mut scripts = Script::all(&folder, only);
    assert!(!only.is_empty() || !scripts.is_empty(), "no scripts in {suite}");
    scripts.retain(|script| script.runs_in(&mode));
    let binary = perilune_test::under_test(env!("CARGO_BIN_EXE_perilune"));
    let failures = on_all_cores(&scripts, |script| script.run(&binary, mode.environment));
    assert!(
        failures.is_empty(),
        "{} of {} scripts failed\n\n{}",
        failures.len(),
        scripts.len(),
        failures.join("\n")
    );
}

#[test]
fn every_script_prints_what_was_recorded() {
    run_all("lua", PLAIN);
}

#[test]
fn every_script_prints_the_same_when_each_allocation_collects() {
    run_all("lua", STRESS);
}

#[test]
fn every_parallel_script_prints_what_was_recorded() {
    run_all("parallel", PLAIN);
}

#[test]
fn every_parallel_script_prints_the_same_when_each_allocation_collects() {
    run_all("parallel", STRESS);
}

#[test]
fn every_script_prints_the_same_where_all_is_interpreted() {
    run_all("lua", INTERPRETED);
    run_all("parallel", INTERPRETED);
}

#[test]
fn every_script_prints_the_same_where_machine_code_steps() {
    run_all("lua", STEP);
    run_all("parallel", STEP);
}

#[test]
fn every_script_prints_the_same_where_loops_are_compiled_soon() {
    run_all("lua", SOON);
    run_all("parallel", SOON);
}

#[test]
fn every_script_prints_the_same_where_guards_fail() {
    run_all("lua", GUARDS);
    run_all("parallel", GUARDS);
}

#[test]
fn every_script_prints_the_same_where_calls_leave_machine_code() {
    run_all("lua", LEAVE);
    run_all("parallel", LEAVE);
}

#[test]
fn scripts_for_machine_code_print_the_same_where_some_calls_leave_it() {
    run_those("lua", "machine_", LEAVE_SOME);
}

#[test]
fn scripts_for_machine_code_print_the_same_where_stacks_move() {
    run_those("lua", "machine_", MOVED);
}

#[test]
fn scripts_for_machine_code_print_the_same_where_much_is_recorded() {
    run_those("lua", "machine_", LONG);
}
