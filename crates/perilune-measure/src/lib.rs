//! The core of measuring: run a process and learn what it cost, and the few formulas and formats around that.
//!
//! Two harnesses stand on it: `perilune bench`, with which people measure their own programs, and
//! `cargo xtask bench`, which measures the project's. Both must mean the same by "CPU seconds" and by "peak
//! memory", so what decides that is here, once.
//!
//! | file | |
//! |---|---|
//! | `process.rs` | runs one process to its end: wall clock, CPU time, peak memory, output |
//! | `stats.rs` | least, median, geometric mean; what a median of so many runs is worth |
//! | `json.rs` | writes reports |
//! | `sys.rs` | what is Linux |
//! | [`on_path`] | finds an executable |

pub mod json;
pub mod process;
pub mod stats;
mod sys;

use std::path::PathBuf;

/// Looks `name` up on PATH; a name with a slash is a path itself.
pub fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let p = PathBuf::from(name);
        return p.is_file().then(|| p.canonicalize().unwrap_or(p));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|d| d.join(name)).find(|p| p.is_file())
}
