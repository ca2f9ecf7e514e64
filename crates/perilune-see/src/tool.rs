//! The tool's side of a session: a program started under observation, or one that runs already.
//!
//! ```no_run
//! # use perilune_see::tool::Target;
//! # use perilune_trace::session::Options;
//! # fn main() -> std::io::Result<()> {
//! let mut target = Target::attach(1234, &Options::default())?;
//! while target.is_alive() {
//!     target.reader.drain(&mut |event| println!("{event:?}"));
//!     target.wait(std::time::Duration::from_millis(10));
//! }
//! # Ok(()) }
//! ```
//!
//! # Tools that die
//! While a tool lives it holds a lock (`flock`) of its event file, which the kernel takes away when it dies.
//! A file without a lock is abandoned: the next tool removes it, and if it is the one of the program that it
//! wants to watch, ends that session first.

use crate::reader::Reader;
use crate::sys;
use perilune_trace::attach::{COOKIE, Request, SIGNAL, path_for};
use perilune_trace::layout::State;
use perilune_trace::map::Mapping;
use perilune_trace::session::Options;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a program may take to answer the signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program under observation. Dropping it ends the session and removes the event file; a program that was
/// attached to goes on.
pub struct Target {
    /// Its events.
    pub reader: Reader,
    /// Its process.
    pub pid: u32,
    path: PathBuf,
    child: Option<Child>,
    status: Option<ExitStatus>,
    /// The session was begun by this tool.
    began: bool,
    /// Locked: somebody watches.
    _lock: File,
}

fn other(text: String) -> io::Error {
    io::Error::other(text)
}

/// Makes the directory where tools and programs meet, and checks that it belongs to this user alone.
fn meeting_place(pid: u32) -> io::Result<PathBuf> {
    let path = path_for(pid);
    let dir = path.parent().unwrap_or(Path::new("/"));
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let meta = std::fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != sys::user_id() || meta.mode() & 0o077 != 0 {
        return Err(other(format!("{} must be a directory of this user with mode 0700", dir.display())));
    }
    Ok(path)
}

/// Takes the lock, unless somebody keeps it. A tool that looks whether a file is abandoned has the lock for a
/// moment ([`clear`]).
fn take(file: &File) -> bool {
    const TRIES: u32 = 50;
    (0..TRIES).any(|n| {
        if n > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        file.try_lock().is_ok()
    })
}

/// Tells other tools that this file is watched.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if take(&file) { Ok(file) } else { Err(other(format!("{}: another tool uses it", path.display()))) }
}

/// Removes what dead tools have left, and ends the session that one of them has begun in this process.
///
/// # Errors
/// A tool that lives watches the process.
fn clear(dir: &Path, pid: u32) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)?.flatten() {
        let path = entry.path();
        if path.extension() != Some("events".as_ref()) {
            continue;
        }
        let Ok(map) = Mapping::open(&path) else { continue };
        let h = map.header();
        let writer = h.pid.load(Ordering::Relaxed);
        let is_live = h.state.load(Ordering::Acquire) == State::Live as u32;
        let is_ours = pid != 0 && (writer == pid || path == path_for(pid));
        let is_kept = |file: File| if is_ours { !take(&file) } else { file.try_lock().is_err() };
        let watched = File::open(&path).is_ok_and(is_kept);
        if watched {
            if is_ours {
                return Err(other(format!("process {pid} is being traced already")));
            }
            continue;
        }
        // Made a moment ago: its tool is about to lock it.
        let age = entry.metadata().and_then(|m| m.modified()).map(|t| t.elapsed().unwrap_or_default());
        if !is_ours && (sys::process_exists(writer) || age.is_ok_and(|age| age < PATIENCE)) {
            continue;
        }
        if is_ours && is_live && sys::process_exists(pid) {
            h.enabled.store(0, Ordering::Release);
            h.state.store(State::Ended as u32, Ordering::Release);
        }
        let _ = std::fs::remove_file(&path);
    }
    Ok(())
}

impl Target {
    /// Starts a program that writes events from its beginning. `command` gets the variable that tells it
    /// where.
    ///
    /// # Errors
    /// The file cannot be made, the program not be started.
    pub fn spawn(mut command: Command, options: &Options) -> io::Result<Target> {
        let dir = meeting_place(0)?;
        let path = dir.with_file_name(format!(
            "{}-{}.events",
            std::process::id(),
            perilune_trace::clock::monotonic_ns()
        ));
        clear(path.parent().unwrap_or(Path::new("/")), 0)?;
        let map = Mapping::create(&path, &options.geometry)?;
        let lock = lock(&path)?;
        options.apply(&map);
        command.env("PERILUNE_TRACE", &path);
        match command.spawn() {
            Ok(child) => Ok(Target {
                reader: Reader::new(map),
                pid: child.id(),
                path,
                child: Some(child),
                status: None,
                began: true,
                _lock: lock,
            }),
            Err(e) => {
                let _ = std::fs::remove_file(&path);
                Err(e)
            }
        }
    }

    /// Turns tracing on in a program that runs.
    ///
    /// # Errors
    /// There is no such process, it belongs to somebody else, it is no Perilune program, it is being traced
    /// already.
    pub fn attach(pid: u32, options: &Options) -> io::Result<Target> {
        if !catches(pid)? {
            return Err(other(format!("process {pid} is no Perilune program")));
        }
        let path = meeting_place(pid)?;
        clear(path.parent().unwrap_or(Path::new("/")), pid)?;
        let _ = std::fs::remove_file(&path);
        let map = Mapping::create(&path, &options.geometry)?;
        let lock = lock(&path)?;
        options.apply(&map);
        let target = Target {
            reader: Reader::new(map),
            pid,
            path,
            child: None,
            status: None,
            began: true,
            _lock: lock,
        };
        target.signal()?;
        let until = Instant::now() + PATIENCE;
        loop {
            match target.reader.mapping().header().state.load(Ordering::Acquire) {
                s if s == State::Live as u32 => return Ok(target),
                s if s == State::Ended as u32 => {
                    return Err(other(format!("process {pid} is being traced already")));
                }
                _ if Instant::now() > until => {
                    return Err(other(format!(
                        "process {pid} does not answer (is it stopped, or another version?)"
                    )));
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Tells the program to look at the header.
    fn signal(&self) -> io::Result<()> {
        signal(self.pid)
    }

    /// Has other switches take effect.
    ///
    /// # Errors
    /// The program is gone.
    pub fn set(&self, options: &Options) -> io::Result<()> {
        options.apply(self.reader.mapping());
        self.signal()
    }

    /// Asks for something; [`Target::is_answered`] tells when it is done.
    ///
    /// # Errors
    /// The program is gone.
    pub fn request(&self, what: Request) -> io::Result<u32> {
        request(&self.reader, self.pid, what)
    }

    /// Has this request been answered?
    pub fn is_answered(&self, request: u32) -> bool {
        is_answered(&self.reader, request)
    }

    /// The event file; requested files lie beside it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does the program run?
    pub fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => {
                if self.status.is_none() {
                    self.status = child.try_wait().ok().flatten();
                }
                self.status.is_none()
            }
            None => sys::process_exists(self.pid),
        }
    }

    /// Waits so long, or until the program has ended.
    pub fn wait(&mut self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while self.is_alive() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(2)));
        }
    }

    /// How a program that was started here has ended.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Ends the session; what has been written can still be read.
    pub fn end(&mut self) {
        if !std::mem::take(&mut self.began) {
            return;
        }
        let h = self.reader.mapping().header();
        if h.state.load(Ordering::Acquire) == State::Live as u32 {
            self.reader.mapping().calibrate();
            h.enabled.store(0, Ordering::Release);
            h.state.store(State::Ended as u32, Ordering::Release);
            if self.child.is_none() || self.status.is_none() {
                let _ = self.signal();
            }
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let attached = self.child.is_none();
        self.end();
        if attached {
            self.reader.mapping().discard();
        }
    }
}

fn signal(pid: u32) -> io::Result<()> {
    sys::send(pid, SIGNAL, COOKIE as usize).map_err(|e| match e {
        e if sys::is_foreign(&e) => other(format!("process {pid} belongs to another user")),
        e => e,
    })
}

/// As [`Target::request`], for who has the program's events only.
///
/// # Errors
/// The program is gone.
pub fn request(reader: &Reader, pid: u32, what: Request) -> io::Result<u32> {
    let h = reader.mapping().header();
    h.request_kind.store(what as u32, Ordering::Relaxed);
    let n = h.request.fetch_add(1, Ordering::AcqRel) + 1;
    signal(pid)?;
    Ok(n)
}

/// As [`Target::is_answered`], for who has the program's events only.
pub fn is_answered(reader: &Reader, request: u32) -> bool {
    reader.mapping().header().answered.load(Ordering::Acquire) >= request
}

/// Does the process expect our signal?
fn catches(pid: u32) -> io::Result<bool> {
    let caught = sys::caught_signals(pid).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => other(format!("there is no process {pid}")),
        _ => e,
    })?;
    Ok(caught & 1 << (SIGNAL - 1) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Who looks whether anybody has the lock does not keep others from it; who keeps it does.
    #[test]
    fn a_glance_does_not_keep_the_lock() {
        let folder = perilune_test::Folder::new();
        folder.write("x.events", "");
        let path = folder.join("x.events");
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let looking = File::open(&path).expect("is there");
                        let _ = looking.try_lock();
                        drop(looking);
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..100 {
                drop(lock(&path).expect("nobody keeps it"));
            }
            over.store(true, Ordering::Relaxed);
        });
        let kept = lock(&path).expect("nobody has it");
        assert!(lock(&path).expect_err("somebody has").to_string().contains("another tool"));
        drop(kept);
        drop(lock(&path).expect("nobody has it any more"));
    }
}
