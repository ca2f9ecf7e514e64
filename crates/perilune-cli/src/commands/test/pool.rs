//! Processes of test files: as many at a time as there are jobs, told about in the order of the files.

use super::fields;
use super::worker::VARIABLE;
use super::{File, Options, Outcome, Test};
use crate::sys::{self, signal};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What a test that takes too long has to end by itself, once it has been asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of output that are kept of a file: the first ones.
const MOST_OUTPUT: usize = 1 << 20;

/// How a run comes to an end before its time.
#[derive(Default)]
pub struct Stop {
    /// No further file is begun.
    asked: AtomicBool,
    /// Processes are ended.
    now: AtomicBool,
    /// Those that run.
    children: Mutex<Vec<Arc<Mutex<Child>>>>,
}

impl Stop {
    /// Ends all processes of the run and begins no other.
    pub fn now(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.now.store(true, Ordering::SeqCst);
        for child in &*locked(&self.children) {
            // One that has been waited for is left alone.
            let _ = locked(child).kill();
        }
    }

    /// Has [`Stop::now`] been called?
    pub fn was_asked_now(&self) -> bool {
        self.now.load(Ordering::SeqCst)
    }

    /// Keeps a process until the guard is dropped.
    fn keep(&self, child: Child) -> Kept<'_> {
        let child = Arc::new(Mutex::new(child));
        locked(&self.children).push(Arc::clone(&child));
        // Who asks from here on sees it; who has asked before has not.
        if self.was_asked_now() {
            let _ = locked(&child).kill();
        }
        Kept { stop: self, child }
    }
}

/// A process that [`Stop`] knows.
struct Kept<'a> {
    stop: &'a Stop,
    child: Arc<Mutex<Child>>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        locked(&self.stop.children).retain(|child| !Arc::ptr_eq(child, &self.child));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the files and hands each to `done`, in their order, until it answers false.
///
/// # Errors
/// A process cannot be started.
pub fn run(
    files: &[PathBuf],
    options: &Options,
    stop: &Stop,
    done: &mut dyn FnMut(File) -> bool,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(files.len()) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while !stop.asked.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(n) else { break };
                    let ran = run_file(file, options, stop).map_err(|e| format!("{}: {e}", file.display()));
                    if sender.send((n, ran)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut turn) = (BTreeMap::new(), 0);
        let mut result = Ok(());
        for (n, ran) in receiver {
            waiting.insert(n, ran);
            while let Some(ran) = waiting.remove(&turn) {
                turn += 1;
                let goes_on = match ran {
                    Ok(file) => !stop.asked.load(Ordering::Relaxed) && done(file),
                    Err(e) => {
                        result = Err(e);
                        false
                    }
                };
                if !goes_on {
                    stop.asked.store(true, Ordering::Relaxed);
                }
            }
        }
        result
    })
}

/// What was told, as it comes in.
struct Told {
    tests: Vec<Test>,
    /// The test that runs.
    running: Option<String>,
    /// It was asked to end, since it took too long.
    is_late: bool,
    is_done: bool,
    assertions: u64,
    covered: Vec<super::coverage::Told>,
    looked_at: Vec<PathBuf>,
    written: Vec<PathBuf>,
}

fn run_file(path: &Path, options: &Options, stop: &Stop) -> std::io::Result<File> {
    let began = Instant::now();
    let (socket, theirs) = UnixStream::pair()?;
    let (output, their_output) = std::io::pipe()?;
    let mut command = Command::new(sys::THIS_EXECUTABLE);
    command.arg0("perilune").arg("test").env(VARIABLE, "1");
    command.stdin(OwnedFd::from(theirs)).stdout(their_output.try_clone()?).stderr(their_output);
    let child = command.spawn()?;
    let pid = child.id();
    let child = stop.keep(child);
    // It alone has the other sides from here on.
    drop(command);
    let heard = keep_output(output);
    let mut told = Told {
        tests: Vec::new(),
        running: None,
        is_late: false,
        is_done: false,
        assertions: 0,
        covered: Vec::new(),
        looked_at: Vec::new(),
        written: Vec::new(),
    };
    let mut settings = fields::line([&b"file"[..], path.as_os_str().as_bytes()]);
    for (name, value) in &options.settings {
        settings.extend(fields::line([name.as_bytes(), value]));
    }
    if options.coverage.is_some() {
        settings.extend(fields::line([&b"coverage"[..], b"yes"]));
    }
    if options.watch {
        settings.extend(fields::line([&b"watch"[..], b"yes"]));
    }
    settings.push(b'\n');
    // If it has ended already, there is nobody to tell, and it will be said how it ended.
    let _ = (&socket).write_all(&settings);
    listen(&socket, pid, options.timeout, &mut told)?;
    let status =
        if told.is_done { wait(&child.child, GRACE + options.timeout)? } else { wait(&child.child, GRACE)? };
    drop(socket);
    drop(child);
    let output = heard.finish();
    let seconds = began.elapsed().as_secs_f64();
    if !told.is_done || !status.success() {
        let what = ended(status, told.is_late);
        let message = match &told.running {
            _ if told.is_done => format!("after its tests, {what}"),
            Some(_) => format!("in this test, {what}; what comes after it in the file was not run"),
            None => format!("before all tests were run, {what}"),
        };
        let name = told.running.take().unwrap_or_else(|| path.display().to_string());
        let outcome = if told.is_late { Outcome::TimedOut } else { Outcome::Error };
        told.tests.push(Test { name, outcome, seconds, line: String::new(), message, trace: String::new() });
    }
    let Told { tests, assertions, covered, looked_at, written, .. } = told;
    Ok(File { path: path.to_path_buf(), tests, assertions, seconds, output, covered, looked_at, written })
}

/// The output of a process, read by a thread of its own.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

fn keep_output(mut output: PipeReader) -> Heard {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (sender, ended) = mpsc::channel();
    let kept = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(n @ 1..) = output.read(&mut buffer) {
            let mut kept = locked(&kept);
            // Whoever writes more than is kept must not have to wait.
            let room = MOST_OUTPUT - kept.len();
            kept.extend_from_slice(&buffer[..n.min(room)]);
        }
        let _ = sender.send(());
    });
    Heard { bytes, ended }
}

impl Heard {
    /// What has been written. A process that was left behind may keep the pipe open: it is not waited for.
    fn finish(self) -> Vec<u8> {
        let _ = self.ended.recv_timeout(GRACE);
        std::mem::take(&mut *locked(&self.bytes))
    }
}

/// Reads what the worker tells until there is no more, and ends tests that take too long.
fn listen(socket: &UnixStream, pid: u32, timeout: Duration, told: &mut Told) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket);
    let mut line = Vec::new();
    let mut limit = timeout;
    // A timeout of zero would mean none.
    let at_least = |time: Duration| Some(time.max(Duration::from_millis(1)));
    socket.set_read_timeout(at_least(limit))?;
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                line.pop();
                let said = fields::fields(&line);
                line.clear();
                // Which files are used says nothing of how a test goes on.
                if take_use(&said, told) {
                    continue;
                }
                take(&said, told, timeout);
                if told.is_done {
                    return Ok(());
                }
                if limit != timeout {
                    (limit, told.is_late) = (timeout, false);
                    socket.set_read_timeout(at_least(limit))?;
                }
            }
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                let signal = if told.is_late { signal::KILL } else { signal::INT };
                // It has not been waited for.
                signal::send(pid as i32, signal);
                told.is_late = true;
                limit = GRACE;
                socket.set_read_timeout(at_least(limit))?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            // The other side has gone away in the middle of it.
            Err(_) => return Ok(()),
        }
    }
}

/// A line that tells of a file.
fn take_use(fields: &[Vec<u8>], told: &mut Told) -> bool {
    let [what, path] = fields else { return false };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    match what.as_slice() {
        b"looked-at" => told.looked_at.push(path),
        b"written" => told.written.push(path),
        _ => return false,
    }
    true
}

fn take(fields: &[Vec<u8>], told: &mut Told, timeout: Duration) {
    let text = |n: usize| fields.get(n).map(|f| String::from_utf8_lossy(f).into_owned()).unwrap_or_default();
    let outcome = match text(0).as_str() {
        "begin" => {
            told.running = Some(text(1));
            return;
        }
        // It was the file's own code that ran.
        "body" => {
            told.running = None;
            return;
        }
        "covered" => {
            told.covered.extend(super::coverage::Told::read(fields));
            return;
        }
        "done" => {
            (told.is_done, told.assertions) = (true, text(1).parse().unwrap_or(0));
            return;
        }
        "passed" => Outcome::Passed,
        "failed" => Outcome::Failed,
        "pending" => Outcome::Pending,
        _ if told.is_late => Outcome::TimedOut,
        _ => Outcome::Error,
    };
    told.running = None;
    let mut message = text(4);
    if outcome == Outcome::TimedOut {
        message = format!("it takes more than {:.3} s\n{message}", timeout.as_secs_f64());
    }
    told.tests.push(Test {
        name: text(1),
        outcome,
        seconds: text(2).parse().unwrap_or(0.0),
        line: text(3),
        message,
        trace: text(5),
    });
}

/// Waits for the end, and brings it about if it does not come.
fn wait(child: &Mutex<Child>, at_most: Duration) -> std::io::Result<ExitStatus> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(200);
    while began.elapsed() < at_most {
        if let Some(status) = locked(child).try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let mut child = locked(child);
    child.kill()?;
    child.wait()
}

fn ended(status: ExitStatus, is_late: bool) -> String {
    match (status.signal(), status.code()) {
        (Some(_), _) if is_late => {
            "the process was ended, since it took too long and could not be stopped".to_owned()
        }
        (Some(signal), _) => format!("signal {signal} ended the process"),
        (None, Some(code)) => format!("the process ended with exit code {code}"),
        (None, None) => "the process ended".to_owned(),
    }
}
