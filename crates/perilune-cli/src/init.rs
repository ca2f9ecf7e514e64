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

use std::io::Error;

/// Goes on as a child of process 1, if this is process 1. What cannot be is done without: then the program is
/// process 1.
pub fn set_up() {
    if std::process::id() != 1 {
        return;
    }
    // SAFETY: the process has one thread, so the child may do whatever it likes; the sets are valid places.
    let child = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        let child = libc::fork();
        if child <= 0 {
            libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        child
    };
    if child > 0 {
        std::process::exit(serve(child));
    }
}

/// Collects and passes on until the program has ended; its exit code.
fn serve(program: libc::pid_t) -> i32 {
    loop {
        // SAFETY: valid places for the set and for what is told of the signal. All signals are blocked, so
        // each waits to be taken here.
        let (signal, code) = unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            let mut told: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(&all, &mut told), told.si_code)
        };
        match signal {
            -1 if Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            -1 => return 1,
            libc::SIGCHLD => {
                if let Some(code) = collect(program) {
                    return code;
                }
            }
            _ if code == SI_KERNEL => {}
            // SAFETY: a signal to a child that has not been collected.
            signal => drop(unsafe { libc::kill(program, signal) }),
        }
    }
}

/// What `si_code` is of signals from the system itself.
const SI_KERNEL: i32 = 0x80;

/// Collects all that have ended; the exit code, if the program is among them.
fn collect(program: libc::pid_t) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: a valid place for the status.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            ended if ended == program => {
                return Some(if libc::WIFSIGNALED(status) {
                    128 + libc::WTERMSIG(status)
                } else {
                    libc::WEXITSTATUS(status)
                });
            }
            ended if ended > 0 => {}
            _ => return None,
        }
    }
}
