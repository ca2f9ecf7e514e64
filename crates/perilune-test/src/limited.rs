//! Processes with a time limit.
//!
//! A test that starts a process and waits for it hangs when the process does. [`Limited`] waits so long and
//! no longer, and that is true of all that can stand still: the end of the process, a line of its output, and
//! the end of its pipes, which a grandchild may hold open. Both pipes are read by threads while the process
//! runs, so none can fill up. When the time is over, every process below it is shown with what its threads
//! wait for, and the group is killed.
//!
//! A process that is dropped before its end is killed with its group, so a test that fails leaves nothing
//! behind. A test that is killed itself, or interrupted from a terminal, takes the process along: the system
//! kills it when the thread that started it ends, which therefore has to be one that lasts.

use crate::processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_parent_process_death_signal,
};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take unless [`Limited::within`] says otherwise: far above any that does not hang,
/// on a machine that has other things to do.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A process took too long. It is killed; this is what it did.
#[derive(Debug)]
pub struct Hang {
    limit: Duration,
    waited_for: String,
    command: String,
    tree: String,
    /// What it wrote until then.
    pub stdout: Vec<u8>,
    /// What it said on standard error until then.
    pub stderr: Vec<u8>,
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {:?}: {}", self.waited_for, self.limit, self.command)?;
        write!(f, "what ran:\n{}", self.tree)?;
        for (name, bytes) in [("output", &self.stdout), ("error", &self.stderr)] {
            let text = crate::text(bytes);
            let from = text.char_indices().rev().nth(1999).map_or(0, |(at, _)| at);
            writeln!(f, "standard {name} so far, {} bytes: {}", bytes.len(), &text[from..])?;
        }
        Ok(())
    }
}

/// What has come out of a pipe.
#[derive(Default)]
struct Collected {
    state: Mutex<Bytes>,
    changed: Condvar,
}

#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    ended: bool,
}

impl Collected {
    /// Reads a pipe to its end on a thread of its own.
    fn from(mut pipe: impl Read + Send + 'static) -> Arc<Collected> {
        let collected = Arc::new(Collected::default());
        let ours = Arc::clone(&collected);
        thread::spawn(move || {
            let mut buffer = [0; 16384];
            loop {
                let read = pipe.read(&mut buffer);
                let mut state = ours.lock();
                match read {
                    Ok(n @ 1..) => state.bytes.extend_from_slice(&buffer[..n]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Ok(_) | Err(_) => state.ended = true,
                }
                ours.changed.notify_all();
                if state.ended {
                    return;
                }
            }
        });
        collected
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `found` finds something in what is there; nothing when the time is over.
    fn wait<T>(&self, until: Instant, mut found: impl FnMut(&mut Bytes) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(it) = found(&mut state) {
                return Some(it);
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A process with a time limit, in a process group of its own.
pub struct Limited {
    child: Child,
    command: String,
    input: Option<ChildStdin>,
    out: Arc<Collected>,
    err: Arc<Collected>,
    began: Instant,
    limit: Duration,
    /// Readable once it has ended.
    handle: OwnedFd,
    /// Whether its end was collected. Until then neither its number nor its group's can be another's.
    is_collected: bool,
}

impl Limited {
    /// Starts a program that the test talks with: its standard input is open until [`Limited::close`] or the
    /// end.
    #[track_caller]
    pub fn start(command: &mut Command) -> Limited {
        Limited::start_with(command, Stdio::piped())
    }

    /// Starts a program with a standard input of the caller's.
    #[track_caller]
    pub fn start_with(command: &mut Command, input: Stdio) -> Limited {
        let began = Instant::now();
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec one system call is made, which touches no memory.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let mut child = spawn(command, began + PATIENCE)
            .unwrap_or_else(|e| panic!("{}: {e}", command.get_program().display()));
        let pid = Pid::from_child(&child);
        Limited {
            handle: pidfd_open(pid, PidfdFlags::empty()).expect("a handle of a child"),
            input: child.stdin.take(),
            out: Collected::from(child.stdout.take().expect("piped")),
            err: Collected::from(child.stderr.take().expect("piped")),
            child,
            command: format!("{command:?}"),
            began,
            limit: PATIENCE,
            is_collected: false,
        }
    }

    /// Runs a program with nothing on its standard input to its end.
    #[track_caller]
    pub fn run(command: &mut Command) -> Output {
        Limited::start_with(command, Stdio::null()).finish()
    }

    /// Runs a program with a text on its standard input to its end. A program that does not read it is free
    /// not to.
    #[track_caller]
    pub fn feed(command: &mut Command, input: impl Into<Vec<u8>>) -> Output {
        let mut running = Limited::start(command);
        let (mut pipe, input) = (running.input.take().expect("piped"), input.into());
        thread::spawn(move || pipe.write_all(&input));
        running.finish()
    }

    /// The same with another limit, counted from the start.
    pub fn within(mut self, limit: Duration) -> Limited {
        self.limit = limit;
        self
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        !self.is_over(Instant::now())
    }

    /// Writes to its standard input. What a program does not read any more is lost, as in a pipe of a shell.
    pub fn write(&mut self, text: impl AsRef<[u8]>) {
        let pipe = self.input.as_mut().expect("a standard input that is not closed");
        match pipe.write_all(text.as_ref()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => panic!("{}: {e}", self.command),
            _ => {}
        }
    }

    /// Ends its standard input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Takes the next line of its standard output, without the newline; nothing at the end.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        let out = Arc::clone(&self.out);
        self.next_line(&out, "no line of output")
    }

    /// Takes the next line of its standard error, without the newline; nothing at the end.
    #[track_caller]
    pub fn error_line(&mut self) -> Option<String> {
        let err = Arc::clone(&self.err);
        self.next_line(&err, "no line on standard error")
    }

    /// Waits for a line of its standard output that is `ready`, which has to be the next.
    #[track_caller]
    pub fn ready(mut self) -> Limited {
        let line = self.line();
        assert_eq!(
            line.as_deref(),
            Some("ready"),
            "{}: {}",
            self.command,
            crate::text(&self.err.lock().bytes)
        );
        self
    }

    /// Waits for its end; what it wrote but for lines that were taken.
    #[track_caller]
    pub fn finish(self) -> Output {
        match self.ended() {
            Ok(output) => output,
            Err(hang) => panic!("{hang}"),
        }
    }

    /// The same for those who go on when it hangs.
    ///
    /// # Errors
    /// It took longer than it may, and is killed.
    pub fn ended(mut self) -> Result<Output, Box<Hang>> {
        self.close();
        let until = self.began + self.limit;
        if !self.is_over(until) {
            return Err(self.hang("no end"));
        }
        let mut rest = Vec::new();
        for pipe in [Arc::clone(&self.out), Arc::clone(&self.err)] {
            match pipe.wait(until, |it| it.ended.then(|| std::mem::take(&mut it.bytes))) {
                Some(bytes) => rest.push(bytes),
                None => return Err(self.hang("ended, and a process that it started holds its output open")),
            }
        }
        let status = self.child.wait().expect("a child");
        self.is_collected = true;
        let stderr = rest.pop().unwrap_or_default();
        Ok(Output { status, stdout: rest.pop().unwrap_or_default(), stderr })
    }

    /// Kills it with all that is in its group, and waits for its end.
    pub fn kill(&mut self) {
        if !self.is_collected {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
            self.is_collected = true;
        }
    }

    #[track_caller]
    fn next_line(&mut self, pipe: &Collected, missing: &str) -> Option<String> {
        let line = pipe.wait(self.began + self.limit, |it| match it.bytes.iter().position(|&b| b == b'\n') {
            Some(end) => {
                let line: Vec<u8> = it.bytes.drain(..=end).collect();
                Some(Some(crate::text(&line[..end])))
            }
            None if it.ended && !it.bytes.is_empty() => {
                Some(Some(crate::text(&std::mem::take(&mut it.bytes))))
            }
            None => it.ended.then_some(None),
        });
        line.unwrap_or_else(|| panic!("{}", self.hang(missing)))
    }

    /// Waits for its end; false if it does not come in time.
    fn is_over(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).expect("a time of this world");
            match poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&left)) {
                Ok(ready) => return ready > 0,
                Err(Errno::INTR) => {}
                Err(e) => panic!("poll: {e}"),
            }
        }
    }

    /// Shows what runs, and kills it.
    fn hang(&mut self, waited_for: &str) -> Box<Hang> {
        let tree = processes::of_group(processes::number(self.child.id()), processes::all());
        let shown = processes::shown(&tree);
        // Those that have left the group go too. Itself, it is collected and not only killed.
        for (_, process) in tree.iter().filter(|(_, p)| p.group != processes::number(self.child.id())) {
            processes::kill(process.pid);
        }
        self.kill();
        Box::new(Hang {
            limit: self.limit,
            waited_for: waited_for.into(),
            command: self.command.clone(),
            tree: shown,
            stdout: std::mem::take(&mut self.out.lock().bytes),
            stderr: std::mem::take(&mut self.err.lock().bytes),
        })
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a process. A file that was just written cannot be run while anybody has it open for writing, and a
/// thread that starts another process at that moment hands it the open file until that one has become its own
/// program: so "text file busy" is waited out.
fn spawn(command: &mut Command, until: Instant) -> io::Result<Child> {
    loop {
        match command.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::process::ExitStatusExt;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn more_output_than_pipes_hold() {
        let ran = Limited::run(&mut sh("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3"));
        assert_eq!((ran.stdout.len(), ran.stderr.len(), ran.status.code()), (300_000, 300_000, Some(3)));
    }

    #[test]
    fn more_input_than_a_pipe_holds() {
        let ran = Limited::feed(&mut Command::new("cat"), vec![b'x'; 300_000]);
        assert_eq!((ran.stdout.len(), ran.status.success()), (300_000, true));
        assert!(Limited::feed(&mut Command::new("true"), vec![b'x'; 300_000]).status.success());
    }

    #[test]
    fn a_process_that_hangs_is_shown_and_killed_with_what_it_started() {
        let script =
            "sleep 1234.5 & setsid sleep 1234.5 & printf 'x\\nbad\\n' >&2; printf 'x\\nout\\n'; wait";
        let mut running = Limited::start(&mut sh(script));
        // What comes with a line is there when the line is.
        assert_eq!((running.line().as_deref(), running.error_line().as_deref()), (Some("x"), Some("x")));
        let hang = running.within(Duration::ZERO).ended().expect_err("it hangs");
        let said = hang.to_string();
        for part in ["no end after 0ns", "sleep 1234.5", "system call", "4 bytes: out", "4 bytes: bad"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(left_of(&said), []);
    }

    /// The processes that a report lists and that go on. One that was killed may take a while to be gone.
    fn left_of(report: &str) -> Vec<processes::Process> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut left = processes::all();
            // Those that nobody has collected yet have no words.
            left.retain(|p| !p.command.is_empty() && report.contains(&format!(" {} {}", p.pid, p.command)));
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_pipe_that_a_grandchild_holds_is_limited_too() {
        let mut running = Limited::start(&mut sh("sleep 1235.5 & exit 0"));
        while running.is_running() {
            thread::sleep(Duration::from_millis(5));
        }
        let hang = running.within(Duration::ZERO).ended();
        let hang = hang.expect_err("its output has no end").to_string();
        assert!(hang.contains("holds its output open") && hang.contains("sleep 1235.5"), "{hang}");
        assert_eq!(left_of(&hang), []);
    }

    #[test]
    fn a_conversation() {
        let mut cat = Limited::start(&mut sh("echo ready; cat; echo over >&2")).ready();
        cat.write("one\ntwo\nthr");
        assert_eq!(cat.line().as_deref(), Some("one"));
        assert_eq!(cat.line().as_deref(), Some("two"));
        assert!(cat.is_running());
        cat.close();
        assert_eq!(cat.line().as_deref(), Some("thr"));
        assert_eq!(cat.line(), None);
        assert_eq!(cat.error_line().as_deref(), Some("over"));
        assert!(cat.finish().status.success());
    }

    #[test]
    fn a_process_that_is_dropped_is_killed() {
        let pid = processes::number(Limited::start(&mut Command::new("cat")).id());
        let me = processes::number(std::process::id());
        assert!(processes::all().iter().all(|p| p.pid != pid || p.parent != me));
    }

    #[test]
    fn a_process_goes_with_the_thread_that_started_it() {
        let thread = thread::spawn(|| Limited::start(&mut Command::new("cat")));
        let mut cat = thread.join().expect("a process");
        assert_eq!(cat.line(), None);
        assert_eq!(cat.finish().status.signal(), Some(9));
    }

    #[test]
    fn an_executable_that_is_being_written_is_waited_for() {
        let folder = Folder::new();
        let path = folder.join("true");
        std::fs::copy("/bin/true", &path).expect("a copy");
        let writer = std::fs::OpenOptions::new().write(true).mode(0o755).open(&path).expect("the copy");
        let mut command = Command::new(&path);
        let busy = command.spawn().expect_err("it is open for writing");
        assert_eq!(busy.kind(), ErrorKind::ExecutableFileBusy);
        let closer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(writer);
        });
        assert!(Limited::run(&mut command).status.success());
        closer.join().expect("closed");
    }
}
