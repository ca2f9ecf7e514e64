//! What is to be started: the table that `run` and `spawn` take, and starting it.

use super::Process;
use crate::failure::Failure;
use crate::options;
use crate::stream::Stream;
use crate::waiting::Side;
use perilune_stdlib::child::{Connection, Program};
use perilune_vm::shared::SharedKind;
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

/// The options of both.
const COMMON: [&str; 6] = ["cwd", "env", "clear_env", "group", "stderr", "stdin"];

/// What a function makes of its table.
pub struct Manner {
    /// Further options.
    more: &'static [&'static str],
    /// Without a word it is this.
    stdin: Wanted,
    stdout: Wanted,
    stderr: Wanted,
}

/// `process.run`
pub static RUN: Manner =
    Manner { more: &["timeout", "limit"], stdin: Wanted::Null, stdout: Wanted::Pipe, stderr: Wanted::Pipe };
/// `process.spawn`
pub static SPAWN: Manner =
    Manner { more: &["stdout"], stdin: Wanted::Pipe, stdout: Wanted::Pipe, stderr: Wanted::Pipe };

/// What a standard stream is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wanted {
    /// A pipe whose other end is ours.
    Pipe,
    /// Nothing is there, and what is written vanishes.
    Null,
    /// Ours.
    Inherit,
    /// Where standard output goes.
    Stdout,
    /// It has these bytes.
    Text(Vec<u8>),
}

/// What is to be started.
pub struct Order {
    arguments: Vec<CString>,
    environment: Option<Vec<CString>>,
    directory: Option<CString>,
    leads_group: bool,
    streams: [Wanted; 3],
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How much it may say.
    pub limit: Option<usize>,
}

/// Argument 1 as an order.
///
/// # Errors
/// It is none: the message names what is wrong.
pub fn order(vm: &mut Vm, manner: &Manner) -> LuaResult<Order> {
    let table = vm.check_table(1)?;
    let known: Vec<&str> = COMMON.iter().chain(manner.more).copied().collect();
    let count = vm.raw_len(table);
    options::check_beside_list(vm, table, &known, count)?;
    if count == 0 {
        return Err(vm.arg_error(1, "the program is missing: {\"name\", \"argument\", ...}"));
    }
    let mut arguments = Vec::new();
    for n in 1..=count {
        let value = vm.raw_get_int(table, n);
        let text = match value.as_string() {
            Some(text) => text.bytes().to_vec(),
            None if value.is_number() => vm.tostring(value)?.bytes().to_vec(),
            None => return Err(vm.arg_error(1, &format!("argument {n} of the program must be a string"))),
        };
        arguments.push(c_string(vm, text, &format!("argument {n}"))?);
    }
    let directory = match options::text(vm, table, "cwd")? {
        Some(text) => Some(c_string(vm, text, "option 'cwd'")?),
        None => None,
    };
    let stdin = wanted(vm, table, "stdin", &manner.stdin)?;
    let stdout = wanted(vm, table, "stdout", &manner.stdout)?;
    let stderr = wanted(vm, table, "stderr", &manner.stderr)?;
    let timed = manner.more.contains(&"timeout");
    Ok(Order {
        arguments,
        environment: environment(vm, table)?,
        directory,
        leads_group: options::flag(vm, table, "group")?.unwrap_or(true),
        streams: [stdin, stdout, stderr],
        timeout: if timed { options::span(vm, table, "timeout")?.flatten() } else { None },
        limit: if timed {
            options::int(vm, table, "limit", 0, i64::MAX)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        } else {
            None
        },
    })
}

fn c_string(vm: &mut Vm, text: Vec<u8>, what: &str) -> LuaResult<CString> {
    CString::new(text).map_err(|_| vm.arg_error(1, &format!("{what} has a zero byte")))
}

fn wanted(vm: &mut Vm, table: Gc<Table>, name: &str, default: &Wanted) -> LuaResult<Wanted> {
    let value = vm.get_field(table, name)?;
    if value.is_nil() {
        return Ok(default.clone());
    }
    let text = value.as_string().map(|s| s.bytes().to_vec());
    // What `run` is to hand over is the text itself: nobody else could write to the pipe.
    if name == "stdin" && *default == Wanted::Null {
        return match text {
            Some(text) => Ok(Wanted::Text(text)),
            None if value.same(Value::TRUE) => Ok(Wanted::Inherit),
            None => Err(vm.arg_error(
                1,
                "option 'stdin' must be a string, which the program reads, or true for the standard input of \
                 this one",
            )),
        };
    }
    match (text.as_deref(), name) {
        (Some(b"pipe"), _) => Ok(Wanted::Pipe),
        (Some(b"null"), _) => Ok(Wanted::Null),
        (Some(b"inherit"), _) => Ok(Wanted::Inherit),
        (Some(b"stdout"), "stderr") => Ok(Wanted::Stdout),
        _ => {
            let more = if name == "stderr" { ", \"stdout\"" } else { "" };
            let text = format!("option '{name}' must be \"pipe\", \"null\", \"inherit\"{more}");
            Err(vm.arg_error(1, &text))
        }
    }
}

/// The variables: those of this process, changed as `env` says.
fn environment(vm: &mut Vm, table: Gc<Table>) -> LuaResult<Option<Vec<CString>>> {
    let clear = options::flag(vm, table, "clear_env")?.unwrap_or(false);
    let changes = vm.get_field(table, "env")?;
    if changes.is_nil() && !clear {
        return Ok(None);
    }
    let mut variables: Vec<(OsString, OsString)> =
        if clear { Vec::new() } else { std::env::vars_os().collect() };
    if !changes.is_nil() {
        let Some(changes) = changes.as_table() else {
            return Err(vm.arg_error(1, "option 'env' must be a table of variables"));
        };
        let mut at = Value::NIL;
        while let Some((key, value)) = vm.raw_next(changes, at)? {
            at = key;
            let name = key.as_string().map(|s| s.bytes().to_vec()).unwrap_or_default();
            if name.is_empty() || name.contains(&b'=') {
                return Err(vm.arg_error(1, "option 'env': a variable's name is a string without '='"));
            }
            let name = OsString::from_vec(name);
            variables.retain(|(other, _)| *other != name);
            if value.is_falsy() {
                continue;
            }
            let text = match value.as_string() {
                Some(text) => text.bytes().to_vec(),
                None if value.is_number() => vm.tostring(value)?.bytes().to_vec(),
                None => {
                    let text = format!(
                        "option 'env': variable '{}' must be a string, or false to be absent",
                        name.to_string_lossy()
                    );
                    return Err(vm.arg_error(1, &text));
                }
            };
            variables.push((name, OsString::from_vec(text)));
        }
    }
    let mut list = Vec::with_capacity(variables.len());
    for (name, value) in variables {
        let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
        list.push(c_string(vm, text, "option 'env'")?);
    }
    Ok(Some(list))
}

/// One standard stream of a child that is going to be: its end, and ours.
struct Ends {
    /// `None`: it inherits ours.
    theirs: Option<OwnedFd>,
    ours: Option<Arc<Stream>>,
}

impl Order {
    fn name(&self) -> String {
        self.arguments.first().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Starts it. Our ends of its streams are connections of this kind.
    ///
    /// # Errors
    /// There is no such program, or nothing left of what it needs.
    pub fn start(&self, kind: &'static SharedKind, kept: bool) -> Result<Arc<Process>, Failure> {
        let name = self.name();
        let what = || match &self.directory {
            Some(directory) => format!("cannot start '{name}' in '{}'", directory.to_string_lossy()),
            None => format!("cannot start '{name}'"),
        };
        self.try_start(kind, kept, &name).map_err(|error| Failure::from(error).of(what))
    }

    fn try_start(&self, kind: &'static SharedKind, kept: bool, name: &str) -> Result<Arc<Process>, Errno> {
        if self.streams.contains(&Wanted::Inherit) {
            // What was written before comes before.
            perilune_stdlib::io::flush_all();
        }
        // A descriptor for watching it: without one it must not begin.
        let reserve = null()?;
        let ends = [self.ends(0, kind, name)?, self.ends(1, kind, name)?, self.ends(2, kind, name)?];
        let places = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
        let mut connections = Vec::with_capacity(3);
        for (n, becomes) in places.into_iter().enumerate() {
            match &ends[n].theirs {
                Some(fd) => connections.push(Connection { end: fd.as_fd(), becomes }),
                None if self.streams[n] == Wanted::Stdout => {
                    connections.push(Connection { end: stdio::stdout(), becomes });
                }
                None => {}
            }
        }
        let program = Program {
            arguments: &self.arguments,
            environment: self.environment.as_deref(),
            directory: self.directory.as_deref(),
            connections: &connections,
            leads_group: self.leads_group,
        };
        let child = program.start()?;
        drop(connections);
        drop(reserve);
        let [stdin, stdout, stderr] = ends.map(|e| e.ours);
        if let (Wanted::Text(text), Some(stream)) = (&self.streams[0], &stdin) {
            feed(stream, text);
        }
        Process::watch(child, name.to_owned(), self.leads_group, [stdin, stdout, stderr], kept)
    }

    fn ends(&self, n: usize, kind: &'static SharedKind, name: &str) -> Result<Ends, Errno> {
        match &self.streams[n] {
            Wanted::Inherit | Wanted::Stdout => Ok(Ends { theirs: None, ours: None }),
            Wanted::Null => Ok(Ends { theirs: Some(null()?), ours: None }),
            Wanted::Pipe | Wanted::Text(_) => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                let (ours, theirs, side) =
                    if n == 0 { (write, read, Side::Write) } else { (read, write, Side::Read) };
                rustix::io::ioctl_fionbio(&ours, true)?;
                let peer =
                    format!("{} of {name}", ["standard input", "standard output", "standard error"][n]);
                let ours = Stream::pipe(ours, side, kind, ("pipe".to_owned(), peer))?;
                Ok(Ends { theirs: Some(theirs), ours: Some(ours) })
            }
        }
    }
}

/// Has a text written to the pipe, which is closed after it. The poller does what cannot be done at once.
fn feed(stream: &Arc<Stream>, text: &[u8]) {
    let mut output = stream.output();
    stream.take(&mut output, text);
    drop(output);
    stream.close_later(Duration::MAX);
}

fn null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}
