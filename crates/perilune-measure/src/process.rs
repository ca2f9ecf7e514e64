//! Runs one process and asks the kernel what it cost.
//!
//! CPU seconds are user + system time of the child alone, as `wait4` reports them: on a busy machine they
//! say far more than the clock on the wall. Peak memory is `ru_maxrss` of the same call.
//!
//! One trap: Linux carries the peak of the *forking* process over `exec`, so a child looks at least as big as
//! its parent did. With `posix_spawn` (which the standard library prefers) that is all of the parent; a plain
//! `fork` starts from the few pages that it copies. Hence the `pre_exec` hook, which makes the library fork,
//! and which also puts the child into its own process group so that a timeout ends everything it started.
//! What remains is a floor of some hundred KiB, below any Lua's start-up size.

use crate::sys::{self, Ended};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A process to run.
pub struct Job {
    /// The executable.
    pub bin: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its current folder.
    pub dir: PathBuf,
    /// Ended with SIGKILL after this long on the wall clock.
    pub timeout: Duration,
}

impl Job {
    /// A job for `bin` with `args` in `dir`, with two minutes of time.
    pub fn new<S: AsRef<OsStr>>(bin: &Path, args: impl IntoIterator<Item = S>, dir: &Path) -> Job {
        Job {
            bin: bin.to_path_buf(),
            args: args.into_iter().map(|a| a.as_ref().to_os_string()).collect(),
            dir: dir.to_path_buf(),
            timeout: Duration::from_secs(120),
        }
    }

    /// The same with another limit.
    pub fn timeout(mut self, limit: Duration) -> Job {
        self.timeout = limit;
        self
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// By us, because its time was over.
    Timeout,
}

/// What a process did and cost.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// User + system time, seconds.
    pub cpu: f64,
    /// Wall-clock time, seconds.
    pub wall: f64,
    /// Peak resident memory, bytes.
    pub peak: u64,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Run {
    /// Whether it ended with exit code 0.
    pub fn ok(&self) -> bool {
        self.end == End::Exit(0)
    }

    /// One line that says how it failed: the line of standard error that looks like Lua's message, else the
    /// first, or how it ended. Programs may write there as they go, so it is cut after 160 characters.
    pub fn failure(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let message =
            lines.iter().find(|l| l.contains(".lua:") || l.contains("perilune: ") || l.contains("lua: "));
        let first: String = message.or(lines.first()).map_or("", |l| l.trim()).chars().take(160).collect();
        match self.end {
            End::Exit(code) if first.is_empty() => format!("exit code {code}"),
            End::Exit(_) => first,
            End::Signal(n) => format!("signal {n} {first}").trim_end().to_string(),
            End::Timeout => "timeout".to_string(),
        }
    }
}

/// Runs `job` to its end.
///
/// # Errors
/// It could not be started.
pub fn run(job: &Job) -> io::Result<Run> {
    let mut command = Command::new(&job.bin);
    command.args(&job.args).current_dir(&job.dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    sys::in_own_group(&mut command);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("cannot run {}: {e}", job.bin.display())))?;
    let pid = child.id();
    let out = reader(child.stdout.take().expect("piped"));
    let err = reader(child.stderr.take().expect("piped"));
    // End of file on standard output is nearly always the end of the process: waiting for it costs no
    // polling.
    let mut stdout = out.recv_timeout(job.timeout).ok();
    let (ended, timed_out) = wait(pid, start + job.timeout)?;
    let wall = start.elapsed().as_secs_f64();
    if timed_out {
        // A grandchild may hold the pipes open: end the whole group before waiting for end of file.
        sys::kill_group(pid);
    }
    if stdout.is_none() {
        stdout = out.recv_timeout(Duration::from_secs(5)).ok();
    }
    let end = match ended.end {
        _ if timed_out => End::Timeout,
        Ok(code) => End::Exit(code),
        Err(signal) => End::Signal(signal),
    };
    Ok(Run {
        end,
        cpu: ended.cpu,
        wall,
        peak: ended.peak,
        stdout: stdout.unwrap_or_default(),
        stderr: err.recv_timeout(Duration::from_secs(5)).unwrap_or_default(),
    })
}

/// Reads a pipe on a thread of its own: a child that fills one pipe while we read the other must not block.
fn reader(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = tx.send(bytes);
    });
    rx
}

/// Waits for `pid` until `deadline`, kills its group then, and returns what it came to and whether it was
/// killed.
fn wait(pid: u32, deadline: Instant) -> io::Result<(Ended, bool)> {
    let mut killed = false;
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(ended) = sys::look_after(pid, killed)? {
            return Ok((ended, killed));
        }
        if Instant::now() >= deadline {
            // It is not reaped yet: the group is its own.
            sys::kill_group(pid);
            killed = true;
            continue;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Job {
        Job::new(Path::new("/bin/sh"), ["-c", script], Path::new("/"))
    }

    #[test]
    fn reports_output_exit_code_and_cost() {
        let r = run(&sh("echo out; echo bad >&2; exit 3")).unwrap();
        assert_eq!(r.end, End::Exit(3));
        assert_eq!(r.stdout, b"out\n");
        assert_eq!(r.failure(), "bad");
        assert!(r.peak > 100_000, "{}", r.peak);
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_block() {
        let r = run(&sh("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2")).unwrap();
        assert!(r.ok());
        assert_eq!((r.stdout.len(), r.stderr.len()), (300_000, 300_000));
    }

    #[test]
    fn a_timeout_ends_the_whole_group() {
        let start = Instant::now();
        let r = run(&sh("sleep 30 & sleep 30").timeout(Duration::from_millis(100))).unwrap();
        assert_eq!(r.end, End::Timeout);
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_signal_is_not_an_exit_code() {
        assert_eq!(run(&sh("kill -9 $$")).unwrap().end, End::Signal(9));
    }

    #[test]
    fn cpu_time_is_the_childs_own() {
        let idle = run(&sh("sleep 0.05")).unwrap();
        let busy = run(&sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).unwrap();
        assert!(busy.cpu > idle.cpu + 0.02, "{} {}", busy.cpu, idle.cpu);
        assert!(idle.wall >= 0.05);
    }
}
