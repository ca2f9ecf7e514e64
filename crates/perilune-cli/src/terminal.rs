//! Lines from a terminal: editing, history that lasts, completion (`repl/complete.rs`).
//!
//! History is a text file in the user's state directory, one entry a line; a newline inside an entry is
//! written `\n`, a backslash `\\`. An entry is appended when it has been read, so that none is lost however
//! the process ends, and sessions side by side keep what the others wrote; at the start of a session the file
//! is cut to its last entries.
//!
//! The editor runs in a thread of its own: `terminal/desk.rs` says how it meets the owner of the state,
//! `terminal/above.rs` what happens to what the program writes meanwhile.

mod above;
mod desk;

use desk::Event;
use perilune_vm::Vm;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper, Prompt};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

const HISTORY_LENGTH: usize = 2000;
/// Columns of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;
/// How long Tab waits for the owner of the state, who may be computing.
const COMPLETION: Duration = Duration::from_secs(1);
/// Who computes for so long after Ctrl-C at the prompt does not let the session go on.
const GRACE: Duration = Duration::from_millis(300);

/// A terminal with a line editor.
pub struct Terminal {
    orders: Sender<Order>,
    file: Option<PathBuf>,
}

/// What the editor is told.
enum Order {
    /// Read a line behind this prompt.
    Read(String),
    /// Remember a chunk; whether it is new goes back.
    Remember(String, Sender<bool>),
    /// Say how wide the terminal is.
    Width(Sender<Option<usize>>),
}

impl Terminal {
    /// `None` if the terminal cannot be edited on.
    pub fn open() -> Option<Terminal> {
        let config =
            Config::builder().max_history_size(HISTORY_LENGTH).ok()?.history_ignore_dups(true).ok()?;
        // By way of `/dev/tty`, past what is diverted of the standard streams.
        let config = config.completion_type(CompletionType::List).behavior(Behavior::PreferTerm).build();
        let file = history_file();
        let mut entries = Vec::new();
        if let Some(text) = file.as_ref().and_then(|file| fs::read_to_string(file).ok()) {
            let lines: Vec<&str> = text.lines().collect();
            let kept = &lines[lines.len().saturating_sub(HISTORY_LENGTH)..];
            entries.extend(kept.iter().map(|line| unescape(line)));
            // A failure to write history is not worth a message.
            if let (Some(file), true) = (&file, kept.len() < lines.len()) {
                let _ = fs::write(file, kept.iter().map(|l| format!("{l}\n")).collect::<String>());
            }
        }
        let (orders, receiver) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let serve = move || {
            let history = MemHistory::with_config(&config);
            let Ok(mut editor) = Editor::with_history(config, history) else { return };
            editor.set_helper(Some(LuaNames));
            for entry in entries {
                let _ = editor.add_history_entry(entry);
            }
            if let Ok(printer) = editor.create_external_printer() {
                above::open(printer);
            }
            if ready.send(()).is_ok() {
                serve(&mut editor, &receiver);
            }
        };
        std::thread::Builder::new().name("editor".to_owned()).spawn(serve).ok()?;
        is_ready.recv().ok()?;
        Some(Terminal { orders, file })
    }

    /// The next line, without its newline. Timers and fibers run meanwhile.
    pub fn read_line(&mut self, vm: &mut Vm, prompt: &[u8]) -> Line {
        let prompt = String::from_utf8_lossy(prompt).into_owned();
        if self.orders.send(Order::Read(prompt)).is_err() {
            return Line::End;
        }
        desk::line(vm)
    }

    /// There is nothing more to be read.
    pub fn finish(&mut self) {
        above::settle();
    }

    /// Puts a chunk into the history, and into its file.
    pub fn remember(&mut self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        let entry = String::from_utf8_lossy(text).into_owned();
        // What was there already is not written again.
        if !self.ask(|answer| Order::Remember(entry.clone(), answer)).unwrap_or(false) {
            return;
        }
        let Some(file) = &self.file else { return };
        if let Some(dir) = file.parent() {
            let _ = fs::create_dir_all(dir);
        }
        if let Ok(mut file) = fs::File::options().append(true).create(true).open(file) {
            let _ = file.write_all((escape(&entry) + "\n").as_bytes());
        }
    }

    /// Columns.
    pub fn width(&mut self) -> usize {
        self.ask(Order::Width).flatten().unwrap_or(USUAL_WIDTH)
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (answer, receiver) = mpsc::channel();
        self.orders.send(order(answer)).ok()?;
        receiver.recv().ok()
    }
}

/// The editor's thread: carries orders out until the terminal is dropped.
fn serve(editor: &mut Editor<LuaNames, MemHistory>, orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Read(prompt) => {
                above::begin();
                let read = editor.readline(&Drawn(prompt));
                above::end();
                let line = match read {
                    Ok(line) => Line::Text(line.into_bytes()),
                    Err(ReadlineError::Interrupted) => Line::Abandoned,
                    Err(_) => Line::End,
                };
                let is_abandoned = matches!(line, Line::Abandoned);
                desk::put(Event::Line(line));
                // The terminal's keys send signals again, and this one has its default action.
                if is_abandoned && !desk::is_taken_within(GRACE) {
                    println!("(a timer or a fiber is still computing; Ctrl-C ends the session)");
                }
            }
            Order::Remember(entry, answer) => {
                let _ = answer.send(matches!(editor.add_history_entry(entry), Ok(true)));
            }
            Order::Width(answer) => {
                let columns = editor.dimensions().map(|(columns, _)| usize::from(columns));
                let _ = answer.send(columns.filter(|&n| n > 0));
            }
        }
    }
}

/// What somebody did at a prompt.
pub enum Line {
    /// Wrote a line.
    Text(Vec<u8>),
    /// Pressed Ctrl-C.
    Abandoned,
    /// Ended the input.
    End,
}

/// `$XDG_STATE_HOME/perilune/history`, or the place that stands for it when the variable is unset.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("perilune").join("history"))
}

fn escape(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => entry.push('\n'),
                Some(other) => entry.push(other),
                None => entry.push('\\'),
            },
            _ => entry.push(c),
        }
    }
    entry
}

/// Completes names, of which the owner of the state knows.
struct LuaNames;

impl Helper for LuaNames {}
impl Highlighter for LuaNames {}
impl Validator for LuaNames {}
impl Hinter for LuaNames {
    type Hint = String;
}

/// A prompt that tells when it is drawn.
struct Drawn(String);

impl Prompt for Drawn {
    fn raw(&self) -> &str {
        above::drawn();
        &self.0
    }
}

impl Completer for LuaNames {
    type Candidate = Pair;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (answer, receiver) = mpsc::channel();
        desk::put(Event::Complete(line.to_owned(), end, answer));
        let Ok((start, found)) = receiver.recv_timeout(COMPLETION) else { return Ok((end, Vec::new())) };
        let width = found.iter().map(|c| c.text.chars().count()).max().unwrap_or(0);
        let pairs = found.into_iter().map(|c| {
            let display = format!("{:width$}  {}", c.text, c.what).trim_end().to_owned();
            Pair { display, replacement: c.text }
        });
        Ok((start, pairs.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_entries_survive_the_file() {
        for entry in ["x = 1", "for i = 1, 2 do\nprint(i)\nend", "s = '\\n\\\\'", "\\"] {
            assert_eq!(unescape(&escape(entry)), entry);
            assert!(!escape(entry).contains('\n'));
        }
    }
}
