//! What the process does about signals: the one place that says so, as libraries do not.
//!
//! | signal | action |
//! |---|---|
//! | SIGPIPE | the default one, which ends a filter whose reader is gone (`| head`) quietly, as it ends C programs; ignored if it was when the program began, as under a service manager |
//! | SIGCHLD | the default one, whatever it was: the system forgets the status of children whose parent ignores it |
//! | SIGINT | while Lua code runs, the error "interrupted!"; in a command that watches files, its end; else the default one |
//!
//! While `os.execute` runs a command, SIGINT is the command's affair, as it is while C's `system` runs.

use crate::sys::signal::{self, Action, set_action};
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
    if signal::is_ignored(signal::PIPE) {
        PIPE_IGNORED.store(true, Ordering::Relaxed);
    }
}

/// Sets what the essay says. Called first of all.
pub fn set_up() {
    let pipe = if PIPE_IGNORED.load(Ordering::Relaxed) { Action::Ignore } else { Action::Default };
    set_action(signal::PIPE, pipe);
    set_action(signal::CHLD, Action::Default);
}

/// SIGINT is an error in the state of `handle` while `f` runs. A second one ends the program, should the
/// first not have come to a poll.
pub fn with_interrupts<T>(handle: InterruptHandle, f: impl FnOnce() -> T) -> T {
    let _ = INTERRUPT.set(handle);
    set_action(signal::INT, Action::Call(on_interrupt));
    let result = f();
    set_action(signal::INT, Action::Default);
    result
}

/// Does nothing but loads, stores, `sigaction` and writing to a descriptor, all safe in a handler.
extern "C" fn on_interrupt(_: i32) {
    if perilune_stdlib::os::runs_command() {
        return;
    }
    set_action(signal::INT, Action::Call(on_last_interrupt));
    if let Some(handle) = INTERRUPT.get() {
        handle.raise();
    }
    perilune_domain::signal::notify_interrupt();
}

/// The second one: what the default action does, once the terminal is what it was.
extern "C" fn on_last_interrupt(signal: i32) {
    perilune_io::restore_terminal();
    set_action(signal, Action::Default);
    // It is blocked here, and happens when this returns.
    signal::raise(signal);
}

static TOLD: AtomicI32 = AtomicI32::new(-1);

/// SIGINT does nothing here while `f` waits for a process that hears of it itself, as both do from a
/// terminal.
pub fn while_interrupts_are_anothers<T>(f: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: i32) {}
    // A handler, and not SIG_IGN, which the other process would inherit.
    set_action(signal::INT, Action::Call(nothing));
    let result = f();
    set_action(signal::INT, Action::Default);
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
    for signal in [signal::INT, signal::TERM] {
        set_action(signal, Action::Call(tell));
    }
    Ok(reader)
}

/// Does nothing but a load, `sigaction` and `write`, all safe in a handler; `errno` is as it was.
extern "C" fn tell(signal: i32) {
    set_action(signal, Action::Default);
    signal::write_byte(TOLD.load(Ordering::SeqCst), b'!');
}
