//! Some seconds of the soak (`cargo xtask soak` runs it for minutes): servers and clients with faults, after
//! which nothing is lost and nothing left.

use perilune_test::{Limited, text};
use std::path::Path;
use std::process::Command;

#[test]
fn nothing_is_lost_and_nothing_left() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = Limited::run(command.args(["tests/soak/io.lua", "3", "11"]));
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.ends_with("nothing lost, nothing left\n"), "{out}{errors}");
    // Each kind of trouble was there.
    for kind in [
        "bursts",
        "cancelled",
        "children",
        "given_up",
        "half_closed",
        "lines",
        "requests",
        "resets",
        "rude",
        "slow",
    ] {
        assert!(out.contains(&format!("{kind} ")), "no {kind}:\n{out}");
    }
}
