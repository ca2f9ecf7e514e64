//! What is Linux: all that this crate asks of the system beyond `rustix` and the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.
//!
//! | file | |
//! |---|---|
//! | `sys/signal.rs` | signals: names, handlers, sending |
//! | `sys/terminal.rs` | the modes of terminals, their size |
//! | `sys/tcp.rs` | what the system knows of a TCP socket |
//! | `sys/process.rs` | what processes came to, their words and descriptors |

pub mod process;
pub mod signal;
pub mod tcp;
pub mod terminal;

use rustix::io::Errno;

/// Why the last call of the C library has failed; `unknown`, should it not say.
fn last_error(unknown: Errno) -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(unknown)
}
