//! What the process does about signals: the one place that says so, as libraries do not.
//!
//! | signal | action |
//! |---|---|
//! | SIGPIPE | the default one, which ends a filter whose reader is gone (`| head`) quietly, as it ends C programs; ignored if it was when the program began, as under a service manager |
//! | SIGCHLD | the default one, whatever it was: the system forgets the status of children whose parent ignores it |
//! | SIGINT | while Lua code runs, the error "interrupted!"; in a command that watches files, its end; else the default one |
//!
//! While `os.execute` runs a command, SIGINT is the command's affair, as it is while C's `system` runs.

use perilune_vm::InterruptHandle;
use std::io::PipeReader;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static INTERRUPT: OnceLock<InterruptHandle> = OnceLock::new();
/// SIGPIPE was ignored when the program began.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Has the C library call [`note`] before anything of Rust's runs: its start-up ignores SIGPIPE.
#[used]
// SAFETY: the section holds addresses of functions that are called once, before `main`, by the initial
// thread.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    if action(libc::SIGPIPE) == libc::SIG_IGN {
        PIPE_IGNORED.store(true, Ordering::Relaxed);
    }
}

/// Sets what the essay says. Called first of all.
pub fn set_up() {
    let pipe = if PIPE_IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    set_action(libc::SIGPIPE, pipe);
    set_action(libc::SIGCHLD, libc::SIG_DFL);
}

/// SIGINT is an error in the state of `handle` while `f` runs. A second one ends the program, should the
/// first not have come to a poll.
pub fn with_interrupts<T>(handle: InterruptHandle, f: impl FnOnce() -> T) -> T {
    let _ = INTERRUPT.set(handle);
    set_action(libc::SIGINT, on_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t);
    let result = f();
    set_action(libc::SIGINT, libc::SIG_DFL);
    result
}

/// Does nothing but loads, stores, `sigaction` and writing to a descriptor, all safe in a handler.
extern "C" fn on_interrupt(_: libc::c_int) {
    if perilune_stdlib::os::runs_command() {
        return;
    }
    set_action(libc::SIGINT, on_last_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t);
    if let Some(handle) = INTERRUPT.get() {
        handle.raise();
    }
    perilune_domain::signal::notify_interrupt();
}

/// The second one: what the default action does, once the terminal is what it was.
extern "C" fn on_last_interrupt(signal: libc::c_int) {
    perilune_io::restore_terminal();
    set_action(signal, libc::SIG_DFL);
    // SAFETY: async-signal-safe. The signal is blocked here, and happens when this returns.
    unsafe { libc::raise(signal) };
}

static TOLD: AtomicI32 = AtomicI32::new(-1);

/// SIGINT does nothing here while `f` waits for a process that hears of it itself, as both do from a
/// terminal.
pub fn while_interrupts_are_anothers<T>(f: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: libc::c_int) {}
    // A handler, and not SIG_IGN, which the other process would inherit.
    set_action(libc::SIGINT, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t);
    let result = f();
    set_action(libc::SIGINT, libc::SIG_DFL);
    result
}

/// From now on SIGINT and SIGTERM are bytes of a pipe, for commands that wait for several things. A second
/// one of a kind ends the process. Called at most once.
///
/// # Errors
/// The system gives no pipe.
pub fn interrupts_as_bytes() -> std::io::Result<PipeReader> {
    let (reader, writer) = std::io::pipe()?;
    // Open for as long as the process lives: a handler cannot know when it may be closed.
    TOLD.store(OwnedFd::from(writer).into_raw_fd(), Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        set_action(signal, tell as extern "C" fn(libc::c_int) as libc::sighandler_t);
    }
    Ok(reader)
}

/// Does nothing but a load, `sigaction` and `write`, all safe in a handler; `errno` is as it was.
extern "C" fn tell(signal: libc::c_int) {
    set_action(signal, libc::SIG_DFL);
    // SAFETY: the thread's own `errno`; one byte that is there, to a descriptor that stays open.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(TOLD.load(Ordering::SeqCst), b"!".as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

fn set_action(signal: libc::c_int, action: libc::sighandler_t) {
    // SAFETY: zero is a valid `sigaction`: no flags, and the mask is emptied; the action is the default one,
    // to ignore the signal, or `on_interrupt`, which is async-signal-safe.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = action;
        libc::sigemptyset(&mut new.sa_mask);
        libc::sigaction(signal, &new, std::ptr::null_mut());
    }
}

fn action(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: zero is a valid `sigaction`, and a valid place for one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction
    }
}
