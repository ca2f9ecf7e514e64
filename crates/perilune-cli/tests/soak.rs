//! Some seconds of the soak (`cargo xtask soak` runs it for minutes): servers and clients with faults, after which nothing is lost and nothing left.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn nothing_is_lost_and_nothing_left() {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["tests/soak/io.lua", "3", "11"])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
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
