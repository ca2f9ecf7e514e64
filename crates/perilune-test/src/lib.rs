//! What the tests of all crates share, so that no test file needs a way of its own.
//!
//! | | |
//! |---|---|
//! | [`Folder`] | a temporary folder, removed at the end |
//! | [`Limited`] | a process that may take so long, and says what it waits for when it takes longer |
//! | [`processes`] | who runs below a process, and what each thread does |
//! | [`recording`] | output against what was recorded |
//! | [`script`] | the recorded Lua scripts, and the modes they are run in |
//! | [`json`] | values of JSON by a path of keys |
//!
//! It is for tests and for the chores alone: no crate that is part of the command depends on it except in
//! `[dev-dependencies]`, and a test of this crate looks that this is so.
//!
//! # Which parts are other people's
//!
//! Folders are `tempfile`'s, JSON is `serde_json`'s, system calls are `rustix`'s. Considered and not taken
//! for processes: `wait-timeout` waits for one process and leaves its pipes, its children and the report to
//! the caller, and it installs a handler of SIGCHLD in the test's process; `assert_cmd` has a time limit,
//! kills one process of the group and says nothing about where it stood; `duct` and `command-group` have no
//! time limits. What [`Limited`] adds to the standard library is what none of them does: the limit covers the
//! pipes and the whole process group, and the place where a process hangs is shown before it is killed.

mod folder;
pub mod json;
mod limited;
pub mod processes;
pub mod recording;
pub mod script;
mod sys;

pub use folder::Folder;
pub use json::Json;
pub use limited::{Hang, Limited, PATIENCE};

use std::path::PathBuf;

/// The program that a test is about: `ours`, or what `PERILUNE_TEST_BIN` names. That is how recordings are
/// checked against another implementation.
pub fn under_test(ours: &str) -> PathBuf {
    std::env::var_os("PERILUNE_TEST_BIN").map_or_else(|| ours.into(), PathBuf::from)
}

/// The part of a name that `PERILUNE_ONLY` asks for; the empty text, which is part of every name, without it.
pub fn only() -> String {
    std::env::var("PERILUNE_ONLY").unwrap_or_default()
}

/// Bytes as text; what is not UTF-8 is replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Whether the manifest names this crate in a section that is not for tests.
    fn ships(manifest: &str) -> bool {
        let mut section = "";
        manifest.lines().any(|line| {
            if line.starts_with('[') {
                section = line;
            }
            let here = line.starts_with("perilune-test") || line.contains(".perilune-test]");
            here && !section.contains("dev-dependencies")
        })
    }

    #[test]
    fn no_crate_of_the_command_depends_on_this_one() {
        assert!(ships("[dependencies]\nperilune-test.workspace = true"));
        assert!(ships("[dependencies.perilune-test]"));
        assert!(!ships("[dependencies]\nlibc = \"1\"\n[dev-dependencies]\nperilune-test.workspace = true"));
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
        let mut seen = 0;
        for entry in std::fs::read_dir(crates).expect("a folder") {
            let manifest = entry.expect("an entry").path().join("Cargo.toml");
            let text = std::fs::read_to_string(&manifest).expect("a manifest");
            assert!(!ships(&text), "{} depends on perilune-test outside tests", manifest.display());
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }
}
