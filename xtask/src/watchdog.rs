//! A test that hangs fails by itself, and the others go on.
//!
//! A test run can stand still: a program under test waits for what never comes, and the test waits for the
//! program. A time limit from outside then ends everything, and says nothing about the place. So whoever runs
//! tests tells a watchdog of each line they print. When no line came for [`SILENCE`], the watchdog shows
//! every process below this one, with each thread's state and what it waits for in the kernel, and kills
//! those that have no children: the programs under test, or the test itself if it is alone. The test that
//! waited for one sees it fail, and says so.
//!
//! Tests that start programs through `perilune_test::Limited` have a limit of their own, which ends first and
//! names the test. This one is for all others: a test that hangs without a program, and one whose program has
//! none.

use perilune_test::processes;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long nothing may be printed. The slowest test takes two minutes on a busy machine.
pub const SILENCE: Duration = Duration::from_secs(600);

/// Shows what is below this process and kills what has no children.
fn strike() {
    let tree = processes::below(processes::number(std::process::id()), processes::all());
    eprintln!("no test ended for {} s; what runs:\n{}", SILENCE.as_secs(), processes::shown(&tree));
    for (_, process) in tree.iter().filter(|(_, p)| tree.iter().all(|(_, other)| other.parent != p.pid)) {
        eprintln!("killed: {} {}", process.pid, process.command);
        processes::kill(process.pid);
    }
}

/// Somebody who has to hear something at least once in [`SILENCE`].
#[derive(Debug)]
pub struct Watchdog {
    heard: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to listen.
    pub fn new() -> Watchdog {
        let (heard, listen) = mpsc::channel();
        let thread = thread::spawn(move || {
            loop {
                match listen.recv_timeout(SILENCE) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => strike(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Watchdog { heard: Some(heard), thread: Some(thread) }
    }

    /// Something was printed.
    pub fn hear(&self) {
        if let Some(heard) = &self.heard {
            let _ = heard.send(());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.heard = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
