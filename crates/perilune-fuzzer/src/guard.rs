//! What keeps an input when the process does not survive it, and what ends a case that takes too long.
//!
//! The running case's input is *published*: a pointer and a length that the signal handler can read. On
//! SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT the handler writes it to a file that was opened beforehand,
//! with nothing but `write`, and lets the signal take its course. It runs on the alternate stack that Rust
//! gives each of its threads, so it also works after a stack overflow.
//!
//! A thread watches the clock. A case that runs Lua code says so with [`Guard::bounded`]: after its time it
//! is interrupted, again and again, because the code may catch the error. A case that is still there after
//! [`HANG`] is a hang: the input is written and the process ends. Time that is spent on other processes does
//! not count ([`Guard::waiting`]).

use crate::sys;
use perilune_vm::{InterruptHandle, Vm};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A case that has not ended after this much processor time is a hang.
pub const HANG: Duration = Duration::from_secs(20);

/// A case that has not ended after so many times that, on any machine, waits for ever.
const PATIENCE: u32 = 10;

/// The process's exit code after a hang.
pub const HANG_EXIT: i32 = 3;

static INPUT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static INPUT_LENGTH: AtomicUsize = AtomicUsize::new(0);
static CRASH_FILE: AtomicI32 = AtomicI32::new(-1);

#[derive(Default)]
struct Watched {
    /// When the case began, and the process's processor time then.
    started: Option<(Instant, Duration)>,
    lua: Option<(InterruptHandle, Instant)>,
}

/// The guard of one run.
pub struct Guard {
    watched: Arc<Mutex<Watched>>,
    crash_path: Option<PathBuf>,
}

impl Guard {
    /// Sets the guard up; a crash's input goes to a file in `artifacts` named after the target. Without a
    /// folder only time is watched.
    ///
    /// # Errors
    /// The folder or the file cannot be made.
    pub fn new(artifacts: Option<&Path>, target: &str) -> std::io::Result<Guard> {
        let mut crash_path = None;
        if let Some(dir) = artifacts {
            std::fs::create_dir_all(dir)?;
            let path = dir.join(format!("{target}-crash-{}", std::process::id()));
            CRASH_FILE.store(std::fs::File::create(&path)?.into_raw_fd(), Ordering::SeqCst);
            crash_path = Some(path);
            sys::on_crash(on_crash);
        }
        let watched = Arc::new(Mutex::new(Watched::default()));
        let weak = Arc::downgrade(&watched);
        let hang_path = artifacts.map(|dir| dir.join(format!("{target}-hang-{}", std::process::id())));
        std::thread::spawn(move || {
            while let Some(watched) = weak.upgrade() {
                watch(&watched, hang_path.as_deref());
                drop(watched);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Ok(Guard { watched, crash_path })
    }

    /// Runs one case with `input` published.
    pub fn case<T>(&self, input: &[u8], run: impl FnOnce() -> T) -> T {
        INPUT_LENGTH.store(0, Ordering::SeqCst);
        INPUT.store(input.as_ptr().cast_mut(), Ordering::SeqCst);
        INPUT_LENGTH.store(input.len(), Ordering::SeqCst);
        self.watched.lock().expect("no one panics holding it").started =
            Some((Instant::now(), sys::processor_time()));
        let result = run();
        self.watched.lock().expect("no one panics holding it").started = None;
        INPUT_LENGTH.store(0, Ordering::SeqCst);
        result
    }

    /// Waits, in the middle of a case, for processes that have time limits of their own: what that takes is
    /// not the case's.
    pub fn waiting<T>(&self, run: impl FnOnce() -> T) -> T {
        let started = self.watched.lock().expect("no one panics holding it").started.take();
        let begin = Instant::now();
        let result = run();
        self.watched.lock().expect("no one panics holding it").started =
            started.map(|(at, used)| (at + begin.elapsed(), used));
        result
    }

    /// Runs Lua code, which is interrupted after `time`, and every 2 ms from then on.
    pub fn bounded<T>(&self, vm: &mut Vm, time: Duration, run: impl FnOnce(&mut Vm) -> T) -> T {
        self.interrupt_after(vm, time);
        let result = run(vm);
        self.watched.lock().expect("no one panics holding it").lua = None;
        vm.clear_interrupt();
        result
    }

    /// From now on the code is interrupted when `time` has passed. In a frame of its own, for no collection
    /// to see: half a word of a time and half of one that lay there before are the address of any object, now
    /// and then.
    #[inline(never)]
    fn interrupt_after(&self, vm: &Vm, time: Duration) {
        let handle = vm.interrupt_handle();
        self.watched.lock().expect("no one panics holding it").lua = Some((handle, Instant::now() + time));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(path) = &self.crash_path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn watch(watched: &Mutex<Watched>, hang_path: Option<&Path>) {
    let watched = watched.lock().expect("no one panics holding it");
    if let Some((handle, end)) = &watched.lua
        && Instant::now() > *end
    {
        handle.raise();
    }
    let is_over = |(at, used): (Instant, Duration)| {
        let passed = at.elapsed();
        passed > HANG && sys::processor_time() - used > HANG || passed > HANG * PATIENCE
    };
    if watched.started.is_some_and(is_over) {
        // SAFETY: the case is still running, so its input is alive.
        let input = unsafe {
            std::slice::from_raw_parts(INPUT.load(Ordering::SeqCst), INPUT_LENGTH.load(Ordering::SeqCst))
        };
        if let Some(path) = hang_path {
            let _ = std::fs::write(path, input);
            eprintln!("hang: input in {}", path.display());
        }
        std::process::exit(HANG_EXIT);
    }
}

extern "C" fn on_crash(signal: i32) {
    let (file, input, length) = (
        CRASH_FILE.load(Ordering::SeqCst),
        INPUT.load(Ordering::SeqCst),
        INPUT_LENGTH.load(Ordering::SeqCst),
    );
    if file >= 0 && length != 0 {
        // SAFETY: a published input is alive as long as its case.
        unsafe { sys::write_for_good(file, input, length) };
    }
    sys::raise(signal);
}
