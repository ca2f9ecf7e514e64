//! What is Linux: all that this crate asks of the system beyond the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a process came to, and what it cost.
pub(crate) struct Ended {
    /// Its exit code, or the signal that ended it.
    pub end: Result<i32, i32>,
    /// Processor time in seconds.
    pub cpu: f64,
    /// The most memory that it had, in bytes.
    pub peak: u64,
}

/// Has the process that is to be started lead a group of its own.
pub(crate) fn in_own_group(command: &mut Command) {
    // SAFETY: between fork and exec only `setpgid` runs, which is async-signal-safe and touches no memory of
    // ours.
    unsafe {
        command.pre_exec(|| {
            libc::setpgid(0, 0);
            Ok(())
        });
    }
}

/// Ends all processes of a group that this process made.
pub(crate) fn kill_group(leader: u32) {
    // SAFETY: a system call without pointers.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}

/// What became of a child; `None`: it runs, and `waits` was not asked for, or a signal came between.
///
/// # Errors
/// It is no child.
pub(crate) fn look_after(child: u32, waits: bool) -> io::Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: `rusage` is plain old data for which all-zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = if waits { 0 } else { libc::WNOHANG };
    // SAFETY: both pointers are to live locals of the types that the call expects.
    let got = unsafe { libc::wait4(child as libc::pid_t, &mut status, flags, &mut usage) };
    if got != child as libc::pid_t {
        return match io::Error::last_os_error() {
            e if got < 0 && e.kind() != io::ErrorKind::Interrupted => Err(e),
            _ => Ok(None),
        };
    }
    let exited = libc::WIFEXITED(status);
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    Ok(Some(Ended {
        end: if exited { Ok(libc::WEXITSTATUS(status)) } else { Err(libc::WTERMSIG(status)) },
        cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak: usage.ru_maxrss as u64 * 1024,
    }))
}
