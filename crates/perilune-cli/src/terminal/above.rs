//! What the program writes while somebody types: it appears above the prompt.
//!
//! While the editor reads a line ([`begin`] to [`end`]), what the program writes to standard output and
//! standard error, as far as they are terminals, comes here instead ([`perilune_stdlib::io::divert`]). It
//! lies in a queue until the *printer*, a thread of its own, hands it to the editor, which takes the prompt
//! away, writes, and draws the prompt anew. Whoever writes never waits for the editor: the printer does,
//! since a line may have ended just before.
//!
//! A batch that the editor was handed when a line ended is written by it at the next prompt; if there is
//! none, at the end ([`settle`]).

use crate::sys;
use crate::sys::terminal::{self, Modes};
use rustyline::ExternalPrinter;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of a line, or of the process, waits for what is being written above it.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long the rest of a line is waited for.
const PIECES: Duration = Duration::from_millis(50);

static ABOVE: Above = Above { state: Mutex::new(State::new()), changed: Condvar::new() };

struct Above {
    state: Mutex<State>,
    /// Something was queued, handed over or written.
    changed: Condvar,
}

struct State {
    queue: Vec<u8>,
    /// What the editor has been handed and has not written yet, as far as is known.
    handed: Vec<u8>,
    /// The printer is handing something over.
    is_busy: bool,
    /// What the terminal was before it was made raw, while a line is being read.
    cooked: Option<Modes>,
}

impl State {
    const fn new() -> State {
        State { queue: Vec::new(), handed: Vec::new(), is_busy: false, cooked: None }
    }

    fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.handed.is_empty() && !self.is_busy
    }
}

fn lock() -> MutexGuard<'static, State> {
    ABOVE.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the printer. What is written is written as ever if there is none.
pub fn open(mut printer: impl ExternalPrinter + Send + 'static) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = move || {
            loop {
                let mut state = lock();
                while state.queue.is_empty() {
                    state = ABOVE.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                // The editor ends each batch with a newline, so a line that is written in pieces is waited
                // for.
                let until = Instant::now() + PIECES;
                while !state.queue.ends_with(b"\n") && state.cooked.is_some() {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    state = ABOVE.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                let batch = std::mem::take(&mut state.queue);
                let text = String::from_utf8_lossy(&batch).into_owned();
                // While no line is read it is written at once.
                state.handed = if state.cooked.is_some() { batch } else { Vec::new() };
                state.is_busy = true;
                drop(state);
                let _ = printer.print(text);
                lock().is_busy = false;
                ABOVE.changed.notify_all();
            }
        };
        if std::thread::Builder::new().name("above".to_owned()).spawn(print).is_ok() {
            // Without it the terminal stays raw after `os.exit` in a timer, which is all.
            sys::at_exit(at_exit);
            perilune_stdlib::io::set_diversion(put);
        }
    });
}

/// What the program has written.
fn put(bytes: &[u8]) {
    lock().queue.extend_from_slice(bytes);
    ABOVE.changed.notify_all();
}

/// A line is going to be read.
pub fn begin() {
    let cooked = Modes::now();
    lock().cooked = cooked;
    perilune_stdlib::io::divert(true);
}

/// The editor has drawn the prompt anew, as it does behind what it has written.
pub fn drawn() {
    let mut state = lock();
    if !state.handed.is_empty() {
        state.handed.clear();
        ABOVE.changed.notify_all();
    }
}

/// The line has been read. What was written meanwhile comes before what is written from now on.
pub fn end() {
    perilune_stdlib::io::divert(false);
    let mut state = lock();
    state.cooked = None;
    ABOVE.changed.notify_all();
    // What the editor was handed last it writes at the next prompt.
    let until = Instant::now() + PATIENCE;
    while !state.queue.is_empty() || state.is_busy {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        state = ABOVE.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// There is no further prompt: writes what the editor has not.
pub fn settle() {
    let mut state = lock();
    let mut rest = std::mem::take(&mut state.handed);
    rest.append(&mut state.queue);
    drop(state);
    if !rest.is_empty() {
        let mut out = std::io::stdout();
        let _ = out.write_all(&rest).and_then(|()| out.flush());
    }
}

/// The process ends, by `os.exit` in a timer perhaps: what is on its way is written, and the terminal is what
/// it was.
extern "C" fn at_exit() {
    perilune_stdlib::io::divert(false);
    let Ok(mut state) = ABOVE.state.lock() else { return };
    let Some(cooked) = state.cooked else { return };
    let until = Instant::now() + PATIENCE;
    while !state.is_settled() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let Ok((again, _)) = ABOVE.changed.wait_timeout(state, left) else { return };
        state = again;
    }
    cooked.set();
    // The editor has asked the terminal to mark what is pasted; the shell's prompt begins a line.
    terminal::write(b"\x1b[?2004l\r\n");
}
