//! Completion: what the word before the cursor may become, and what that is.
//!
//! Names are the session's locals, globals and keywords; behind `a.b.` the fields of that table, behind
//! `a.b:` its functions; inside a string behind `require` modules, inside other strings files. Completion
//! looks at tables without calling anything: `a.b.c` follows raw fields and plain `__index` tables, so that
//! pressing Tab never runs the user's code.

use super::session::Session;
use perilune_vm::{Gc, Table, Value, Vm};

/// `__index` tables followed while a name is completed; longer chains are not worth a pause.
const MAX_INDEX_CHAIN: usize = 20;

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Something that the word may become.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// What replaces the word.
    pub text: String,
    /// What it is, for the list.
    pub what: String,
}

/// Where the word begins that ends at `end` of the line, and what it may become.
pub fn complete(vm: Option<&mut Vm>, line: &str, end: usize) -> (usize, Vec<Candidate>) {
    let before = &line[..end];
    if let Some((start, opened_after)) = open_string(before) {
        let prefix = &before[start..];
        let is_module = opened_after.trim_end().trim_end_matches('(').trim_end().ends_with("require");
        let mut found = match (is_module, vm) {
            (true, Some(vm)) => modules(vm, prefix),
            (true, None) => Vec::new(),
            (false, _) => files(prefix),
        };
        found.sort();
        found.dedup_by(|a, b| a.text == b.text);
        return (start, found);
    }
    let part_of_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
    let start = before.rfind(|c| !part_of_path(c)).map_or(0, |at| at + 1);
    let path = &before[start..];
    let (tables, prefix) = match path.rfind(['.', ':']) {
        Some(at) => (Some(&path[..at]), &path[at + 1..]),
        None => (None, path),
    };
    let mut found = Vec::new();
    if let Some(vm) = vm {
        if tables.is_none() {
            for name in Session::names(vm).unwrap_or_default() {
                if name.starts_with(prefix) {
                    let value = Session::value(vm, &name).ok().flatten().unwrap_or(Value::NIL);
                    found.push(Candidate { text: name, what: format!("local {}", what(value)) });
                }
            }
        }
        collect(vm, tables, prefix, path[..path.len() - prefix.len()].ends_with(':'), &mut found);
    }
    if tables.is_none() {
        let keywords = KEYWORDS.iter().filter(|k| k.starts_with(prefix));
        found.extend(keywords.map(|k| Candidate { text: (*k).to_owned(), what: String::new() }));
    }
    // A local hides a global of its name.
    found.sort_by(|a, b| {
        a.text.cmp(&b.text).then(b.what.starts_with("local").cmp(&a.what.starts_with("local")))
    });
    found.dedup_by(|a, b| a.text == b.text);
    (end - prefix.len(), found)
}

/// If the text ends inside a string of one line: where its contents begin, and what stands before its quote.
fn open_string(text: &str) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, None);
    while at < bytes.len() {
        match (open, bytes[at]) {
            (None, b'-') if bytes[at..].starts_with(b"--") => return None,
            (None, quote @ (b'"' | b'\'')) => open = Some((quote, at)),
            (Some((quote, _)), b) if b == quote => open = None,
            (Some(_), b'\\') => at += 1,
            _ => {}
        }
        at += 1;
    }
    open.map(|(_, at)| (at + 1, &text[..at]))
}

fn files(prefix: &str) -> Vec<Candidate> {
    let (folder, name) = match prefix.rfind('/') {
        Some(at) => (&prefix[..=at], &prefix[at + 1..]),
        None => ("", prefix),
    };
    let entries = std::fs::read_dir(if folder.is_empty() { "." } else { folder });
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten().flatten() {
        let Ok(file) = entry.file_name().into_string() else { continue };
        if file.starts_with(name) && (!file.starts_with('.') || name.starts_with('.')) {
            let is_folder = entry.path().is_dir();
            let end = if is_folder { "/" } else { "" };
            let what = if is_folder { "folder" } else { "file" };
            found.push(Candidate { text: format!("{folder}{file}{end}"), what: what.to_owned() });
        }
    }
    found
}

/// Modules that are loaded or preloaded, and those that lie where `package.path` says.
fn modules(vm: &mut Vm, prefix: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    let globals: Value = vm.globals().into();
    let package = lookup(vm, globals, "package");
    for (field, what) in [("loaded", "loaded"), ("preload", "module")] {
        let Some(table) = lookup(vm, package, field).as_table() else { continue };
        let mut key = Value::NIL;
        while let Ok(Some((next, _))) = vm.raw_next(table, key) {
            key = next;
            let Some(name) = key.as_string().map(|s| s.to_text()) else { continue };
            if name.starts_with(prefix) {
                found.push(Candidate { text: name, what: what.to_owned() });
            }
        }
    }
    let path = lookup(vm, package, "path").as_string().map(|s| s.to_text()).unwrap_or_default();
    // `a.b.` looks into the folder a/b of each place.
    let (folder, name) = match prefix.rfind('.') {
        Some(at) => (&prefix[..=at], &prefix[at + 1..]),
        None => ("", prefix),
    };
    for template in path.split(';') {
        let Some((place, ending)) = template.split_once('?') else { continue };
        let dir = format!("{place}{}", folder.replace('.', "/"));
        let entries = std::fs::read_dir(if dir.is_empty() { "." } else { &dir });
        for entry in entries.into_iter().flatten().flatten() {
            let Ok(file) = entry.file_name().into_string() else { continue };
            let module = match ending.strip_prefix('/') {
                // `?/init.lua`
                Some(inside) => entry.path().join(inside).is_file().then_some(file.as_str()),
                None => file.strip_suffix(ending),
            };
            if let Some(module) = module.filter(|m| m.starts_with(name) && !m.starts_with('.')) {
                found.push(Candidate { text: format!("{folder}{module}"), what: "file".to_owned() });
            }
        }
    }
    found
}

/// Adds the names that start with `prefix` in the table that `path` leads to (`None`: the globals).
fn collect(vm: &mut Vm, path: Option<&str>, prefix: &str, only_functions: bool, found: &mut Vec<Candidate>) {
    let value = match path {
        Some(path) => resolve(vm, path),
        None => vm.globals().into(),
    };
    for table in index_chain(vm, value) {
        let mut key = Value::NIL;
        while let Ok(Some((next, field))) = vm.raw_next(table, key) {
            key = next;
            let Some(name) = key.as_string() else { continue };
            let Ok(name) = std::str::from_utf8(name.bytes()) else { continue };
            if name.starts_with(prefix) && is_name(name) && (!only_functions || field.is_function()) {
                found.push(Candidate { text: name.to_owned(), what: what(field) });
            }
        }
    }
}

/// What `a.b.c` is, nothing being called.
pub fn resolve(vm: &mut Vm, path: &str) -> Value {
    let mut steps = path.split(['.', ':']);
    let first = steps.next().unwrap_or("");
    let globals: Value = vm.globals().into();
    let mut value = match Session::value(vm, first).ok().flatten() {
        Some(value) => value,
        None => lookup(vm, globals, first),
    };
    for step in steps {
        value = lookup(vm, value, step);
    }
    value
}

/// What a value is, in a word.
pub fn what(value: Value) -> String {
    match value.as_string() {
        Some(s) if s.len() <= 20 => perilune_domain::inspect::quote(s.bytes(), 20),
        _ if value.is_number() => {
            String::from_utf8_lossy(&Vm::plain_text(value).unwrap_or_default()).into_owned()
        }
        _ => value.type_name().to_owned(),
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
    fn where_strings_are_open() {
        assert_eq!(open_string("require \"a"), Some((9, "require ")));
        assert_eq!(open_string("io.open('x/'"), None);
        assert_eq!(open_string("f('a\\'b"), Some((3, "f(")));
        assert_eq!(open_string("x = 1 -- don't"), None);
        assert_eq!(open_string("f(\"it's"), Some((3, "f(")));
    }
}
