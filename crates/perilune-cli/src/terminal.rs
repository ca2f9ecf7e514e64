//! Lines from a terminal: editing, history that lasts, completion (`repl/complete.rs`).
//!
//! History is a text file in the user's state directory, one entry a line; a newline inside an entry is
//! written `\n`, a backslash `\\`. An entry is appended when it has been read, so that none is lost however the process
//! ends, and sessions side by side keep what the others wrote; at the start of a session the file is cut to its last
//! entries.

use crate::repl::complete;
use perilune_vm::Vm;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::ptr::NonNull;

const HISTORY_LENGTH: usize = 2000;
/// Columns of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// A terminal with a line editor.
pub struct Terminal {
    editor: Editor<LuaNames, MemHistory>,
    file: Option<PathBuf>,
}

impl Terminal {
    /// `None` if the terminal cannot be edited on.
    pub fn open() -> Option<Terminal> {
        let config =
            Config::builder().max_history_size(HISTORY_LENGTH).ok()?.history_ignore_dups(true).ok()?;
        let config = config.completion_type(CompletionType::List).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).ok()?;
        editor.set_helper(Some(LuaNames { vm: None }));
        let file = history_file();
        if let Some(text) = file.as_ref().and_then(|file| fs::read_to_string(file).ok()) {
            let lines: Vec<&str> = text.lines().collect();
            let kept = &lines[lines.len().saturating_sub(HISTORY_LENGTH)..];
            for line in kept {
                let _ = editor.add_history_entry(unescape(line));
            }
            // A failure to write history is not worth a message.
            if let (Some(file), true) = (&file, kept.len() < lines.len()) {
                let _ = fs::write(file, kept.iter().map(|l| format!("{l}\n")).collect::<String>());
            }
        }
        Some(Terminal { editor, file })
    }

    /// The next line, without its newline.
    pub fn read_line(&mut self, vm: &mut Vm, prompt: &[u8]) -> Line {
        if let Some(names) = self.editor.helper_mut() {
            names.vm = Some(NonNull::from(vm));
        }
        let line = self.editor.readline(String::from_utf8_lossy(prompt).as_ref());
        if let Some(names) = self.editor.helper_mut() {
            names.vm = None;
        }
        match line {
            Ok(line) => Line::Text(line.into_bytes()),
            Err(ReadlineError::Interrupted) => Line::Abandoned,
            Err(_) => Line::End,
        }
    }

    /// Puts a chunk into the history, and into its file.
    pub fn remember(&mut self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        let entry = String::from_utf8_lossy(text);
        // What was there already is not written again.
        if !matches!(self.editor.add_history_entry(entry.as_ref()), Ok(true)) {
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
        match self.editor.dimensions() {
            Some((columns, _)) if columns > 0 => usize::from(columns),
            _ => USUAL_WIDTH,
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

/// Completes names; has the state only while a line is being read.
struct LuaNames {
    vm: Option<NonNull<Vm>>,
}

impl Helper for LuaNames {}
impl Highlighter for LuaNames {}
impl Validator for LuaNames {}
impl Hinter for LuaNames {
    type Hint = String;
}

impl Completer for LuaNames {
    type Candidate = Pair;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        // SAFETY: `read_line` has the only reference to the state, lends it out through this field for the time of
        // the call, and does not use it until the editor returns.
        let vm = self.vm.map(|vm| unsafe { &mut *vm.as_ptr() });
        let (start, found) = complete::complete(vm, line, end);
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
