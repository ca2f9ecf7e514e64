//! The command where the system gives little: a small native stack, little address space. Programs then fail with an error that Lua code can
//! catch; the process never dies by a signal.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name)
}

/// Runs the command on a script under a limit that `ulimit` sets.
fn limited(limit: &str, script: &Path, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_perilune")])
        .arg(script)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("a shell")
}

#[test]
fn chains_and_deep_values_need_no_native_stack() {
    for name in ["chains", "deep"] {
        let out = limited("ulimit -s 256", &script(&format!("parallel/{name}.lua")), &[]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.signal(), None, "{name}: {stderr}");
        let expected = std::fs::read(script(&format!("parallel/{name}.out"))).expect("a recording");
        assert!(out.stdout == expected, "{name}: {stderr}{}", String::from_utf8_lossy(&out.stdout));
    }
}
