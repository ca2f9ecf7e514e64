//! What a chore is, and the few things every chore needs: the project's root and a way to fail.
//!
//! A chore ends in one of three ways: it passed, it ran and found failures, or it could not run at all
//! (an `Err`, exit code 2). CI and people tell the last two apart by the exit code alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a chore could not run. Text is enough: nobody but a person reads it.
pub type Error = Box<dyn std::error::Error>;

/// How a chore that did run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything held: exit code 0.
    Passed,
    /// It ran and found failures: exit code 1.
    Failed,
}

impl Outcome {
    /// `Passed` when `ok`.
    pub fn from_ok(ok: bool) -> Self {
        if ok { Outcome::Passed } else { Outcome::Failed }
    }
}

/// One chore of the list.
pub struct Chore {
    /// What one types after `cargo xtask`.
    pub name: &'static str,
    /// One line, shown in the listing.
    pub summary: &'static str,
    /// Its arguments.
    pub usage: &'static str,
    /// Runs it with the arguments after its name.
    pub run: fn(Vec<OsString>) -> Result<Outcome, Error>,
}

/// The workspace's root folder, known at compile time: chores work from any current folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace").to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that started us, or the one on PATH, in the environment that it has without us.
///
/// `cargo run` tells a program about the package that it is of. Build scripts of dependencies ask to run
/// again when such a variable changes: if the inner cargo inherited them, each change between `cargo xtask`
/// and plain `cargo` would build these dependencies anew, and all that stands on them.
pub fn cargo() -> std::process::Command {
    let mut c = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    c.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_cargo_run) {
            c.env_remove(name);
        }
    }
    c
}

/// Whether `cargo run` sets a variable for the program that it runs. What people set for cargo itself, as
/// `CARGO_TARGET_DIR`, is none of them.
fn is_of_cargo_run(name: &str) -> bool {
    matches!(
        name,
        "CARGO_MANIFEST_DIR"
            | "CARGO_MANIFEST_PATH"
            | "CARGO_MANIFEST_LINKS"
            | "CARGO_CRATE_NAME"
            | "CARGO_BIN_NAME"
            | "CARGO_PRIMARY_PACKAGE"
            | "OUT_DIR"
    ) || name.starts_with("CARGO_PKG_")
}

/// Shows on a terminal what is being done now; the empty text wipes the line. Nothing in a pipe or a log.
pub fn progress(what: &str) {
    use std::io::{IsTerminal, Write};
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test itself runs below cargo, which has set them.
    #[test]
    fn the_inner_cargo_hears_nothing_of_our_package() {
        assert!(
            std::env::var_os("CARGO_PKG_NAME").is_some() && std::env::var_os("CARGO_MANIFEST_DIR").is_some()
        );
        let command = cargo();
        let removed = |name: &str| command.get_envs().any(|(n, value)| n == name && value.is_none());
        for name in ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR", "CARGO_MANIFEST_DIR"] {
            assert!(removed(name), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_HOME", "CARGO_PROFILE_FAST_LTO", "PATH"] {
            assert!(!is_of_cargo_run(name), "{name}");
        }
    }
}
