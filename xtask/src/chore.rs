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

/// The cargo that started us, or the one on PATH.
pub fn cargo() -> std::process::Command {
    let mut c = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    c.current_dir(root());
    c
}

/// Shows on a terminal what is being done now; the empty text wipes the line. Nothing in a pipe or a log.
pub fn progress(what: &str) {
    use std::io::{IsTerminal, Write};
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{what}");
    }
}
