//! Processes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::time::Duration;

/// Goes on as a child of this process, which has one thread. Some: this is still the parent, and has all
/// signals blocked from now on; the child's number. A refusal leaves everything as it was.
pub fn go_on_as_child() -> Option<i32> {
    // SAFETY: the process has one thread, so the child may do whatever it likes; the sets are valid places.
    let child = unsafe {
        let mut all = zeroed();
        let mut before = zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        let child = libc::fork();
        if child <= 0 {
            libc::sigprocmask(libc::SIG_SETMASK, &before, null_mut());
        }
        child
    };
    (child > 0).then_some(child)
}

/// Fetches the status of a child that has ended, if there is one: its number, and its exit code as a shell
/// would have it.
pub fn collect() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: a valid place for the status.
    let ended = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    let code = match libc::WIFSIGNALED(status) {
        true => 128 + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    };
    (ended > 0).then_some((ended, code))
}

/// A descriptor that tells when a process has ended, if the kernel has such.
pub fn open(pid: u32) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor, which is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) as i32;
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// Waits so long, or until the process has ended or a signal came. Has it ended?
pub fn wait_for_end(process: &OwnedFd, at_most: Duration) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = at_most.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    // SAFETY: one valid structure.
    unsafe { libc::poll(&mut poll, 1, ms) > 0 }
}

/// The words that a process was started with, each with a zero behind it.
///
/// # Errors
/// There is no such process.
pub fn words(pid: u32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline"))
}

/// What stands behind the name in a file that describes a process or thread. The name may hold anything, also
/// parentheses.
fn behind_name(stat: &str) -> Option<&str> {
    stat.get(stat.rfind(')')? + 1..)
}

/// Whether the main thread of a process runs, or would if it had a processor.
pub fn main_thread_runs(pid: u32) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()?;
    Some(behind_name(&stat)?.trim_start().starts_with('R'))
}

/// Processor time of a process, in ns.
pub fn processor_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = behind_name(&stat)?.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // SAFETY: asks for a number.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Some((user + system) * (1_000_000_000 / hz))
}

/// What a thread has used, in ns.
#[derive(Default, Clone, Copy)]
pub struct Used {
    /// It has run for so long.
    pub processor: u64,
    /// It was ready, and did not run.
    pub delayed: u64,
}

/// What the threads of a process have used; those of which the kernel tells nothing are left out.
pub fn threads(pid: u32) -> HashMap<u32, Used> {
    let used = |thread: &fs::DirEntry| {
        let number = thread.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map_while(|field| field.parse().ok());
        Some((number, Used { processor: fields.next()?, delayed: fields.next()? }))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.map_or_else(|_| HashMap::new(), |all| all.flatten().filter_map(|t| used(&t)).collect())
}

/// Bytes of memory that a process has.
pub fn resident(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    Some(statm.split_whitespace().nth(1)?.parse::<u64>().ok()? * page)
}
