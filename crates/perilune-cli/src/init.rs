//! What is to be done as process 1, in a container say, whose only process a program often is.
//!
//! Process 1 inherits the children of whoever ends before them, and has to collect their ends, or they stay
//! as zombies until no process can begin any more. It has no default actions for signals either: SIGTERM,
//! which is how a container is stopped, would be nothing. A runtime that collected every child would take the
//! ends from those who wait for them. So before anything else begins, the program becomes a process of its
//! own, which is as any other: signals end it, and it waits for its own children. Process 1 collects what it
//! inherits, passes on the signals that it gets, and ends as the program has.
//!
//! Signals that the system sends to all processes of a terminal (Ctrl-C) are not passed on: the program has
//! them already. When process 1 ends the system ends all others.

use crate::sys::{process, signal};

/// Goes on as a child of process 1, if this is process 1. What cannot be is done without: then the program is
/// process 1.
pub fn set_up() {
    if std::process::id() != 1 {
        return;
    }
    if let Some(child) = process::go_on_as_child() {
        std::process::exit(serve(child));
    }
}

/// Collects and passes on until the program has ended; its exit code. All signals are blocked, so each waits
/// to be taken here.
fn serve(program: i32) -> i32 {
    loop {
        match signal::next() {
            Ok(None) => {}
            Err(_) => return 1,
            Ok(Some(came)) if came.signal == signal::CHLD => {
                if let Some(code) = collect(program) {
                    return code;
                }
            }
            Ok(Some(came)) if came.is_from_terminal => {}
            Ok(Some(came)) => signal::send(program, came.signal),
        }
    }
}

/// Collects all that have ended; the exit code, if the program is among them.
fn collect(program: i32) -> Option<i32> {
    loop {
        let (ended, code) = process::collect()?;
        if ended == program {
            return Some(code);
        }
    }
}
