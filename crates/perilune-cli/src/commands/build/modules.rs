//! Which modules a script needs, by its text.

use crate::app::payload::{Entry, Kind};
use perilune_stdlib::Paths;
use perilune_syntax::ast::{Chunk, Expr};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Modules that are there without a file.
const OWN: [&str; 11] =
    ["_G", "coroutine", "debug", "io", "math", "os", "package", "perilune", "string", "table", "utf8"];

/// What has been found.
pub struct Modules {
    paths: Paths,
    without: Vec<String>,
    entries: Vec<Entry>,
    /// Modules that are known, wherever they are.
    known: BTreeMap<String, ()>,
    /// Texts in which to look for more.
    waiting: VecDeque<usize>,
    computed: Vec<String>,
    problems: Vec<String>,
}

impl Modules {
    /// None yet. `without` names those that are left out.
    pub fn new(without: Vec<String>) -> Modules {
        Modules {
            paths: Paths::from_env(),
            without,
            entries: Vec::new(),
            known: BTreeMap::new(),
            waiting: VecDeque::new(),
            computed: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Adds the script.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn script(&mut self, file: &Path) -> Result<(), String> {
        self.add(Kind::Main, "", file)
    }

    /// Adds a module, named by the user.
    ///
    /// # Errors
    /// It is not found, or cannot be read.
    pub fn include(&mut self, name: &str) -> Result<(), String> {
        self.module(name, "--include")?;
        Ok(())
    }

    /// All that belongs to the program, and the places where names are computed.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(mut self) -> Result<(Vec<Entry>, Vec<String>), String> {
        while let Some(n) = self.waiting.pop_front() {
            self.search(n)?;
        }
        if self.problems.is_empty() {
            return Ok((self.entries, self.computed));
        }
        self.problems.push("(--without NAME leaves a module out)".to_owned());
        Err(self.problems.join("\nperilune build: "))
    }

    fn add(&mut self, kind: Kind, name: &str, file: &Path) -> Result<(), String> {
        let mut text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        if text.starts_with(b"\x1b") {
            return Err(format!("{}: it is a binary chunk, source text is needed", file.display()));
        }
        if let Some(rest) = text.strip_prefix(b"\xef\xbb\xbf") {
            text = rest.to_vec();
        }
        // A first line for the shell; its newline stays, so that lines are right.
        if text.starts_with(b"#") {
            let end = text.iter().position(|b| *b == b'\n').unwrap_or(text.len());
            text.drain(..end);
        }
        // As `require` would name it, so that messages are the same.
        let file = file.as_os_str().as_bytes().to_vec();
        self.entries.push(Entry { kind, name: name.into(), file, contents: text });
        self.waiting.push_back(self.entries.len() - 1);
        Ok(())
    }

    /// Looks for calls of `require` in a text.
    fn search(&mut self, n: usize) -> Result<(), String> {
        let entry = self.entries[n].clone();
        let file = String::from_utf8_lossy(&entry.file).into_owned();
        let tree = perilune_syntax::parse(&entry.contents, &[b"@", &entry.file[..]].concat())
            .map_err(|e| String::from_utf8_lossy(&e.message).into_owned())?;
        for (name, line) in required(&tree) {
            let place = format!("{file}:{line}");
            match name {
                Some(name) => self.module(&String::from_utf8_lossy(&name), &place)?,
                None => self.computed.push(place),
            }
        }
        Ok(())
    }

    /// A module that `place` asks for. That it is missing is a problem to be told with the others.
    fn module(&mut self, name: &str, place: &str) -> Result<(), String> {
        let is_known = self.known.insert(name.to_owned(), ()).is_some();
        if is_known || OWN.contains(&name) || self.without.iter().any(|w| w == name) {
            return Ok(());
        }
        if let Some(file) = find(name, &self.paths.path) {
            return self.add(Kind::Module, name, &file);
        }
        self.problems.push(match find(name, &self.paths.cpath) {
            Some(file) => format!(
                "{place}: module '{name}' is a C module ({}), which cannot be part of an executable",
                file.display()
            ),
            None => format!(
                "{place}: module '{name}' is not found in {}",
                String::from_utf8_lossy(&self.paths.path)
            ),
        });
        Ok(())
    }
}

/// The names that are given to calls of the global `require`, with their lines; `None`: the name is computed.
fn required(tree: &Chunk) -> Vec<(Option<Vec<u8>>, u32)> {
    let mut found = Vec::new();
    for (n, expr) in tree.exprs.iter().enumerate() {
        let Expr::Call { func, args } = expr else { continue };
        let Expr::Global { name, .. } = tree.exprs[func.index()] else { continue };
        if *tree.strings[name.index()] != *b"require" {
            continue;
        }
        let name = match tree.list(*args) {
            [arg] => match tree.exprs[arg.index()] {
                Expr::String(text) => Some(tree.strings[text.index()].to_vec()),
                _ => None,
            },
            _ => None,
        };
        found.push((name, tree.lines[n]));
    }
    found
}

fn find(name: &str, path: &[u8]) -> Option<PathBuf> {
    let name = name.replace('.', "/");
    let path = String::from_utf8_lossy(path);
    path.split(';').map(|template| PathBuf::from(template.replace('?', &name))).find(|file| file.is_file())
}
