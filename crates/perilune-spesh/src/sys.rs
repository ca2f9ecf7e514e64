//! What is Linux and x86-64: all that this crate asks of the system and of the processor beyond the
//! language's library.
//!
//! | file | |
//! |---|---|
//! | `sys/target.rs` | the processor: what it can do, the bytes and registers that machine code has to know |
//! | `sys/memory.rs` | pages: mapped twice, made executable, copied in their place |
//! | `sys/clock.rs` | clocks, and timers that raise a signal |
//!
//! Nothing here knows Lua. A test (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

pub mod clock;
pub mod memory;
pub mod target;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The system's number of the calling thread.
pub fn thread() -> u32 {
    // SAFETY: asks for a number.
    (unsafe { libc::gettid() }) as u32
}

/// Creates a file that was not there, for this user only, and follows no link to it.
///
/// # Errors
/// There is one, or it cannot be created.
pub fn create_private(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

/// Whether a file is a plain one and belongs to the user whose rights the process has.
pub fn is_own_file(file: &fs::Metadata) -> bool {
    // SAFETY: asks for a number.
    file.is_file() && file.uid() == unsafe { libc::geteuid() }
}

/// Has `prepare` called before the process divides, then `parent` in the parent and `child` in the child before
/// `fork` returns there. All do only what a handler of signals may do, and never go away.
///
/// # Errors
/// The C library has no memory for that.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> io::Result<()> {
    // SAFETY: functions without parameters, which the caller vouches for.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// What is said where a table of fixed size is full.
pub fn no_room() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// What is said where there is no memory.
pub fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
