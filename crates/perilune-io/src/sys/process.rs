//! Processes.

use std::io;
use std::path::PathBuf;

/// What a process came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
}

/// What a wait status of a process that has ended says.
pub fn end(status: i32) -> End {
    if libc::WIFSIGNALED(status) {
        End::Killed(libc::WTERMSIG(status))
    } else {
        End::Exited(libc::WEXITSTATUS(status))
    }
}

/// The words that a process was started with, each with a zero behind it.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn words(pid: i32) -> io::Result<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/cmdline"))
}

/// What the system calls the file with this descriptor.
///
/// # Errors
/// There is none.
pub fn path_of(descriptor: i32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}"))
}
