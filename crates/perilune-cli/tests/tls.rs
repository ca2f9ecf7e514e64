//! TLS: every `tests/tls/NAME.lua` is run in a folder with fresh certificates (`support/certificates.rs`) and
//! must print `NAME.out`, however the kernel tells what is ready (`PERILUNE_IO`).
//!
//! `PERILUNE_ONLY=part` runs the scripts whose name contains `part`; `PERILUNE_BLESS=1` writes the
//! recordings, to be read before they are committed.
#![cfg(feature = "tls")]

#[path = "support/certificates.rs"]
mod certificates;

use perilune_test::{Folder, Limited, recording, text};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn scripts_print_what_is_recorded() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tls");
    let only = perilune_test::only();
    let folder = Folder::new();
    certificates::write_all(folder.path());
    let mut failures = Vec::new();
    let mut run = 0;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&scripts)
        .expect("the suite's folder")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "lua"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    paths.sort();
    for path in paths {
        run += 1;
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        std::fs::copy(&path, folder.join(&name)).expect("a copy");
        // Where the kernel has no ring, the second is the first.
        for way in ["epoll", "uring"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
            command.arg(&name).current_dir(&folder).env_remove("SSL_CERT_DIR").env("PERILUNE_IO", way);
            command.env("SSLKEYLOGFILE", folder.join("keys.log")).env("SSL_CERT_FILE", folder.join("ca.pem"));
            let output = Limited::run(&mut command);
            let errors = text(&output.stderr);
            if let Err(difference) = recording::compare(&path.with_extension("out"), &output.stdout) {
                failures.push(format!("{name} with {way}: {difference}\n{}{errors}", text(&output.stdout)));
            }
            if !output.status.success() {
                failures.push(format!("{name} with {way}: {}\n{errors}", output.status));
            }
        }
    }
    assert!(run > 0, "no script was run");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
