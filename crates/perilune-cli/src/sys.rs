//! What is Linux: all that this crate asks of the system beyond `rustix` and the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.
//!
//! | file | |
//! |---|---|
//! | `sys/signal.rs` | what the process does about signals, sending them |
//! | `sys/process.rs` | what the system says of a process, its end, what it leaves to process 1 |
//! | `sys/terminal.rs` | the modes of terminals, their size, keys |

pub mod process;
pub mod signal;
pub mod terminal;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// This executable, also where its name has gone to another file.
pub const THIS_EXECUTABLE: &str = "/proc/self/exe";

/// How many processes want a processor, averaged over a minute.
pub fn load() -> Option<f64> {
    let mut average = [0.0; 1];
    // SAFETY: the pointer is to one element, as many as the call is told to write.
    let got = unsafe { libc::getloadavg(average.as_mut_ptr(), 1) };
    (got == 1).then_some(average[0])
}

/// What is said of a file that is not there.
pub fn no_such_file() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

/// Standard input is this file from now on.
///
/// # Errors
/// The system refuses.
pub fn read_standard_input_from(file: &File) -> io::Result<()> {
    // SAFETY: two descriptors, of which the first is open.
    if unsafe { libc::dup2(file.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has a function called at the process's exit. A refusal leaves what it does undone.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a plain function that does not unwind.
    let _ = unsafe { libc::atexit(f) };
}
