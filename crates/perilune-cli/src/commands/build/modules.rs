//! Which modules a script needs, by its text.

use crate::app::payload::{Entry, Kind};
use crate::commands::manual;
use perilune_domain::Runtime;
use perilune_domain::bundle::Files;
use perilune_stdlib::Paths;
use perilune_syntax::ast::{Chunk, Expr};
use perilune_vm::{LuaResult, Value, Vm};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All that belongs to a program.
pub struct Found {
    /// The script and its modules.
    pub entries: Vec<Entry>,
    /// Places where names of modules are computed.
    pub computed: Vec<String>,
    /// Modules that are not there, and that the program may do without: what is wrong with each.
    pub absent: Vec<String>,
    /// Modules that are there because a run required them.
    pub by_runs: Vec<String>,
}

/// What has been found so far.
pub struct Modules {
    paths: Paths,
    /// Modules that every program has without a file.
    own: BTreeSet<String>,
    without: Vec<String>,
    entries: Vec<Entry>,
    /// Where runs have found modules: the file as the program called it, and its path.
    traced: BTreeMap<String, (Vec<u8>, PathBuf)>,
    /// Modules that are known, wherever they are.
    known: BTreeMap<String, ()>,
    /// Texts in which to look for more.
    waiting: VecDeque<usize>,
    computed: Vec<String>,
    absent: Vec<String>,
    problems: Vec<String>,
}

impl Modules {
    /// None yet. `without` names those that are left out, `traced` those that runs have required.
    ///
    /// # Errors
    /// There is no memory for a Lua state.
    pub fn new(
        without: Vec<String>,
        traced: BTreeMap<String, (Vec<u8>, PathBuf)>,
    ) -> Result<Modules, String> {
        Ok(Modules {
            paths: Paths::from_env(),
            own: own_modules()?,
            traced,
            without,
            entries: Vec::new(),
            known: BTreeMap::new(),
            waiting: VecDeque::new(),
            computed: Vec::new(),
            absent: Vec::new(),
            problems: Vec::new(),
        })
    }

    /// Adds the script.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn script(&mut self, file: &Path) -> Result<(), String> {
        self.add(Kind::Main, "", file.as_os_str().as_bytes(), file)
    }

    /// Adds a module, named by the user.
    ///
    /// # Errors
    /// It is not found, or cannot be read.
    pub fn include(&mut self, name: &str) -> Result<(), String> {
        self.module(name, "--include", false)?;
        Ok(())
    }

    /// All that belongs to the program.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(mut self) -> Result<Found, String> {
        let mut by_runs = Vec::new();
        loop {
            // What reading finds is found first, so that only the rest is told.
            while let Some(n) = self.waiting.pop_front() {
                self.search(n)?;
            }
            let is_new = |name: &&String| {
                !self.known.contains_key(*name)
                    && !self.own.contains(*name)
                    && !self.without.iter().any(|w| w == *name)
            };
            let Some(name) = self.traced.keys().find(is_new).cloned() else { break };
            by_runs.push(name.clone());
            self.module(&name, "--trace", false)?;
        }
        if self.problems.is_empty() {
            return Ok(Found {
                entries: self.entries,
                computed: self.computed,
                absent: self.absent,
                by_runs,
            });
        }
        self.problems.push("(--without NAME leaves a module out)".to_owned());
        Err(self.problems.join("\nperilune build: "))
    }

    /// Adds what is read from `path`, and called `file` in messages.
    fn add(&mut self, kind: Kind, name: &str, file: &[u8], path: &Path) -> Result<(), String> {
        let mut text = std::fs::read(path).map_err(|e| manual::cannot_open(path, &e))?;
        if text.starts_with(b"\x1b") {
            return Err(format!("{}: it is a binary chunk, source text is needed", path.display()));
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
        self.entries.push(Entry { kind, name: name.into(), file: file.to_vec(), contents: text });
        self.waiting.push_back(self.entries.len() - 1);
        Ok(())
    }

    /// Looks for calls of `require` in a text.
    fn search(&mut self, n: usize) -> Result<(), String> {
        let entry = self.entries[n].clone();
        let file = String::from_utf8_lossy(&entry.file).into_owned();
        let tree = perilune_syntax::parse(&entry.contents, &[b"@", &entry.file[..]].concat())
            .map_err(|e| String::from_utf8_lossy(&e.message).into_owned())?;
        for Required { name, line, may_be_absent } in required(&tree) {
            let place = format!("{file}:{line}");
            match name {
                Some(name) => self.module(&String::from_utf8_lossy(&name), &place, may_be_absent)?,
                None => self.computed.push(place),
            }
        }
        Ok(())
    }

    /// A module that `place` asks for. That it is missing is a problem to be told with the others, unless the
    /// program may do without.
    fn module(&mut self, name: &str, place: &str, may_be_absent: bool) -> Result<(), String> {
        if self.known.contains_key(name) || self.own.contains(name) || self.without.iter().any(|w| w == name)
        {
            return Ok(());
        }
        self.known.insert(name.to_owned(), ());
        if let Some((file, path)) = self.traced.get(name).cloned() {
            return self.add(Kind::Module, name, &file, &path);
        }
        if let Some(file) = find(name, &self.paths.path) {
            return self.add(Kind::Module, name, file.as_os_str().as_bytes(), &file);
        }
        let problem = match find(name, &self.paths.cpath) {
            Some(file) => format!(
                "{place}: module '{name}' is a C module ({}), which cannot be part of an executable",
                file.display()
            ),
            None => format!(
                "{place}: module '{name}' is not found in {}",
                String::from_utf8_lossy(&self.paths.path)
            ),
        };
        if may_be_absent {
            // Another place may insist.
            self.known.remove(name);
            self.absent.push(problem);
        } else {
            self.problems.push(problem);
        }
        Ok(())
    }
}

/// The modules that a new state has: loaded, or in `package.preload`. It is asked, so that none is forgotten.
fn own_modules() -> Result<BTreeSet<String>, String> {
    let runtime = Runtime::new(crate::config::from_env(true, Files::default()));
    let memory = || "not enough memory".to_owned();
    let mut vm = Vm::try_with_options(runtime.config().heap.clone()).map_err(|_| memory())?;
    let mut names = BTreeSet::new();
    let listed = list_modules(&mut vm, &runtime, &mut names);
    vm.close();
    listed.map(|()| names).map_err(|_| memory())
}

fn list_modules(vm: &mut Vm, runtime: &Arc<Runtime>, names: &mut BTreeSet<String>) -> LuaResult<()> {
    perilune_stdlib::open_libs_with(vm, &runtime.config().paths)?;
    perilune_domain::open(vm, runtime)?;
    let Some(package) = vm.get_field(vm.globals(), "package")?.as_table() else { return Ok(()) };
    for field in ["loaded", "preload"] {
        let Some(table) = vm.get_field(package, field)?.as_table() else { continue };
        let mut key = Value::NIL;
        while let Some((next, _)) = vm.raw_next(table, key)? {
            key = next;
            names.extend(key.as_string().map(|s| s.to_text()));
        }
    }
    Ok(())
}

/// What a call asks for.
struct Required {
    /// `None`: it is computed.
    name: Option<Vec<u8>>,
    line: u32,
    /// It is asked for by `pcall`.
    may_be_absent: bool,
}

/// What is asked for by `require(name)` and `pcall(require, name)`, where both are the global functions.
fn required(tree: &Chunk) -> Vec<Required> {
    let is_global = |expr: &Expr, wanted: &[u8]| match expr {
        Expr::Global { name, .. } => *tree.strings[name.index()] == *wanted,
        _ => false,
    };
    let mut found = Vec::new();
    for (n, expr) in tree.exprs.iter().enumerate() {
        let Expr::Call { func, args } = expr else { continue };
        let func = &tree.exprs[func.index()];
        let (args, may_be_absent) = match tree.list(*args) {
            args if is_global(func, b"require") => (args, false),
            [called, args @ ..]
                if is_global(func, b"pcall") && is_global(&tree.exprs[called.index()], b"require") =>
            {
                (args, true)
            }
            _ => continue,
        };
        let name = match args {
            [arg] => match tree.exprs[arg.index()] {
                Expr::String(text) => Some(tree.strings[text.index()].to_vec()),
                _ => None,
            },
            _ => None,
        };
        found.push(Required { name, line: tree.lines[n], may_be_absent });
    }
    found
}

fn find(name: &str, path: &[u8]) -> Option<PathBuf> {
    let name = name.replace('.', "/");
    let path = String::from_utf8_lossy(path);
    path.split(';').map(|template| PathBuf::from(template.replace('?', &name))).find(|file| file.is_file())
}
