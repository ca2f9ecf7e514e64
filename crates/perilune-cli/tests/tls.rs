//! TLS: every `tests/tls/NAME.lua` is run in a folder with fresh certificates (`support/certificates.rs`) and must print `NAME.out`.
//!
//! `PERILUNE_ONLY=part` runs the scripts whose name contains `part`; `PERILUNE_BLESS=1` writes the recordings, to be read before they are committed.
#![cfg(feature = "tls")]

#[path = "support/certificates.rs"]
mod certificates;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn folder() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("perilune-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    certificates::write_all(&dir);
    dir
}

#[test]
fn scripts_print_what_is_recorded() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tls");
    let only = std::env::var("PERILUNE_ONLY").unwrap_or_default();
    let dir = folder();
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
        std::fs::copy(&path, dir.join(&name)).expect("a copy");
        let output = Command::new("timeout")
            .args(["300", env!("CARGO_BIN_EXE_perilune"), &name])
            .current_dir(&dir)
            .env("SSLKEYLOGFILE", dir.join("keys.log"))
            .env("SSL_CERT_FILE", dir.join("ca.pem"))
            .env_remove("SSL_CERT_DIR")
            .stdin(Stdio::null())
            .output()
            .expect("the command starts");
        let got = String::from_utf8_lossy(&output.stdout).into_owned();
        let recording = path.with_extension("out");
        if std::env::var_os("PERILUNE_BLESS").is_some() {
            std::fs::write(&recording, &got).expect("a recording");
        }
        let want = std::fs::read_to_string(&recording).unwrap_or_default();
        if got != want || !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let first = want.lines().zip(got.lines()).position(|(w, g)| w != g);
            failures.push(format!(
                "{name}: {}, first difference in line {first:?}\n{got}{errors}",
                output.status
            ));
        }
    }
    std::fs::remove_dir_all(&dir).expect("the folder can be removed");
    assert!(run > 0, "no script was run");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
