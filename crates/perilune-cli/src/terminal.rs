//! Lines from a terminal: editing, history that lasts, completion of keywords, globals and fields.
//!
//! History is a text file in the user's state directory, one entry a line; a newline inside an entry is
//! written `\n`, a backslash `\\`. Completion looks at tables without calling anything: `a.b.c` follows raw
//! fields and plain `__index` tables, so that pressing Tab never runs the user's code.

use perilune_vm::{Gc, Table, Value, Vm};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{History, MemHistory};
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use std::fs;
use std::path::PathBuf;
use std::ptr::NonNull;

const HISTORY_LENGTH: usize = 2000;
/// `__index` tables followed while a name is completed; longer chains are not worth a pause.
const MAX_INDEX_CHAIN: usize = 20;

/// A terminal with a line editor.
pub struct Terminal {
    editor: Editor<LuaNames, MemHistory>,
    file: Option<PathBuf>,
}

impl Terminal {
    /// `None` if the terminal cannot be edited on.
    pub fn open() -> Option<Terminal> {
        let config =
            Config::builder().max_history_size(HISTORY_LENGTH).ok()?.history_ignore_dups(true).ok()?.build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).ok()?;
        editor.set_helper(Some(LuaNames { vm: None }));
        let file = history_file();
        if let Some(text) = file.as_ref().and_then(|file| fs::read_to_string(file).ok()) {
            for line in text.lines() {
                let _ = editor.add_history_entry(unescape(line));
            }
        }
        Some(Terminal { editor, file })
    }

    /// The next line, without its newline; an empty one if it was abandoned with Ctrl-C; `None` at the end.
    pub fn read_line(&mut self, vm: &mut Vm, prompt: &[u8]) -> Option<Vec<u8>> {
        if let Some(names) = self.editor.helper_mut() {
            names.vm = Some(NonNull::from(vm));
        }
        let line = self.editor.readline(String::from_utf8_lossy(prompt).as_ref());
        if let Some(names) = self.editor.helper_mut() {
            names.vm = None;
        }
        match line {
            Ok(line) => Some(line.into_bytes()),
            Err(ReadlineError::Interrupted) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    /// Puts a chunk into the history.
    pub fn remember(&mut self, text: &[u8]) {
        if !text.trim_ascii().is_empty() {
            let _ = self.editor.add_history_entry(String::from_utf8_lossy(text));
        }
    }

    /// Writes the history to its file; a failure is not worth a message at the end of a session.
    pub fn save(&mut self) {
        let Some(file) = &self.file else { return };
        let history = self.editor.history();
        let text: String = (0..history.len()).map(|i| escape(&history[i]) + "\n").collect();
        if let Some(dir) = file.parent() {
            let _ = fs::create_dir_all(dir);
        }
        let _ = fs::write(file, text);
    }
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

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

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
    type Candidate = String;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let part_of_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
        let start = line[..end].rfind(|c| !part_of_path(c)).map_or(0, |at| at + 1);
        let path = &line[start..end];
        let (tables, prefix) = match path.rfind(['.', ':']) {
            Some(at) => (Some(&path[..at]), &path[at + 1..]),
            None => (None, path),
        };
        let mut names = Vec::new();
        if let Some(vm) = self.vm {
            // SAFETY: `read_line` has the only reference to the state, lends it out through this field for
            // the time of the call, and does not use it until the editor returns.
            collect(unsafe { &mut *vm.as_ptr() }, tables, prefix, path.contains(':'), &mut names);
        }
        if tables.is_none() {
            names.extend(KEYWORDS.iter().filter(|k| k.starts_with(prefix)).map(|&k| k.to_owned()));
        }
        names.sort();
        names.dedup();
        Ok((end - prefix.len(), names))
    }
}

/// Adds the names that start with `prefix` in the table that `path` leads to (`None`: the globals).
fn collect(vm: &mut Vm, path: Option<&str>, prefix: &str, only_functions: bool, names: &mut Vec<String>) {
    let mut value: Value = vm.globals().into();
    for step in path.into_iter().flat_map(|p| p.split(['.', ':'])) {
        value = lookup(vm, value, step);
    }
    for table in index_chain(vm, value) {
        let mut key = Value::NIL;
        while let Ok(Some((next, field))) = vm.raw_next(table, key) {
            key = next;
            let Some(name) = key.as_string() else { continue };
            let Ok(name) = std::str::from_utf8(name.bytes()) else { continue };
            if name.starts_with(prefix) && is_name(name) && (!only_functions || field.is_function()) {
                names.push(name.to_owned());
            }
        }
    }
}

fn lookup(vm: &mut Vm, value: Value, name: &str) -> Value {
    let Ok(key) = vm.value_str(name.as_bytes()) else { return Value::NIL };
    index_chain(vm, value)
        .into_iter()
        .map(|table| vm.raw_get(table, key))
        .find(|v| !v.is_nil())
        .unwrap_or(Value::NIL)
}

/// The tables in which a field of `value` is looked for.
fn index_chain(vm: &mut Vm, mut value: Value) -> Vec<Gc<Table>> {
    let mut chain = Vec::new();
    while chain.len() < MAX_INDEX_CHAIN && !value.is_nil() {
        chain.extend(value.as_table());
        value = vm.metafield(value, "__index").unwrap_or(Value::NIL);
        if value.as_table().is_none() {
            break;
        }
    }
    chain
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
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
