//! The process of one test file.
//!
//! It is this executable again. Its standard input is a socket: settings come from there, lines between tabs,
//! ended by an empty one, and what happens goes there. Before any Lua code runs the socket gets a number that
//! programs do not know, and standard input becomes empty.

use super::fields::{fields, line};
use crate::{protected, sys};
use perilune_domain::bundle::Files;
use perilune_domain::inspect::INSPECT;
use perilune_stdlib::chunk;
use perilune_stdlib::used::{self, Use};
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Says to the process that it is a worker.
pub const VARIABLE: &str = "PERILUNE_TEST_WORKER";

static PARENT: OnceLock<Mutex<File>> = OnceLock::new();
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Is this process a worker?
pub fn is_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Carries out the process.
pub fn run() -> ExitCode {
    // SAFETY: the process has one thread yet. What it starts is no worker.
    unsafe { std::env::remove_var(VARIABLE) };
    let (socket, settings) = match take_socket() {
        Ok(taken) => taken,
        Err(e) => {
            protected::write_error(format!("perilune test: {VARIABLE} is not for people ({e})\n").as_bytes());
            return ExitCode::from(2);
        }
    };
    if settings.iter().any(|(name, _)| name == "coverage") {
        perilune_vm::count_instructions();
    }
    let _ = PARENT.set(Mutex::new(socket));
    let _ = BEGAN.set(Instant::now());
    if settings.iter().any(|(name, _)| name == "watch") {
        used::listen(tell_use);
    }
    crate::run_program(b"perilune".to_vec(), false, false, Files::default(), |vm, runtime| {
        perilune_stdlib::open_libs_with(vm, &runtime.config().paths)?;
        perilune_domain::open(vm, runtime)?;
        run_file(vm, &settings)
    })
}

/// Names and values.
type Settings = Vec<(String, Vec<u8>)>;

/// Takes the socket from standard input, and the settings from the socket.
fn take_socket() -> std::io::Result<(File, Settings)> {
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // Nobody has read from standard input yet.
    sys::read_standard_input_from(&nothing)?;
    let mut reader = BufReader::new(File::from(socket.try_clone()?));
    let mut settings = Vec::new();
    loop {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        if line.pop().is_none() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.is_empty() {
            return Ok((File::from(socket), settings));
        }
        let mut fields = fields(&line).into_iter();
        let name = fields.next().unwrap_or_default();
        settings.push((String::from_utf8_lossy(&name).into_owned(), fields.next().unwrap_or_default()));
    }
}

/// `emit(...)`: tells the parent a line.
static EMIT: Native = Native::leaf("emit", |vm| {
    let mut fields = Vec::new();
    for i in 1..=vm.nargs() {
        fields.push(vm.check_str(i)?.bytes().to_vec());
    }
    // What has been covered is told last; nobody listens after "done".
    let is_done = fields.first().is_some_and(|f| f == b"done");
    let mut lines = if is_done { super::coverage::tell() } else { Vec::new() };
    lines.extend(line(fields.iter().map(Vec::as_slice)));
    if let Some(parent) = PARENT.get() {
        let mut parent = parent.lock().unwrap_or_else(PoisonError::into_inner);
        if parent.write_all(&lines).is_err() {
            return Err(vm.error("nobody listens to this test"));
        }
    }
    Ok(0)
});

/// Tells the parent of a file that the program uses, once.
fn tell_use(used: Use) {
    static KNOWN: Mutex<BTreeSet<(bool, PathBuf)>> = Mutex::new(BTreeSet::new());
    let (what, is_written) = match used {
        Use::Written(_) => (&b"written"[..], true),
        Use::Module { .. } | Use::Code(_) | Use::Read(_) | Use::Asset { .. } => (&b"looked-at"[..], false),
    };
    let path = used.path();
    let line = line([what, path.as_os_str().as_bytes()]);
    if !KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert((is_written, path)) {
        return;
    }
    if let Some(parent) = PARENT.get() {
        // A parent that is gone has no use for it.
        let _ = parent.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

/// `now()`: seconds since the process began.
static NOW: Native = Native::leaf("now", |vm| {
    let seconds = BEGAN.get().map_or(0.0, |began| began.elapsed().as_secs_f64());
    vm.ret(Value::float(seconds))
});

/// Where modules of a project are found, before everything else.
const LPATH: &str = "./src/?.lua;./src/?/?.lua;./src/?/init.lua";

fn run_file(vm: &mut Vm, settings: &[(String, Vec<u8>)]) -> LuaResult<bool> {
    let config = vm.new_table(0, settings.len())?;
    vm.push(config.into());
    let mut file = Value::NIL;
    let mut lpath = LPATH.as_bytes().to_vec();
    for (name, value) in settings {
        let text = vm.value_str(value)?;
        match name.as_str() {
            "file" => {
                file = text;
                vm.push(file);
                let arg = vm.new_table(0, 1)?;
                vm.raw_set_int(arg, 0, file)?;
                vm.set_global("arg", arg.into())?;
            }
            "lpath" => lpath.clone_from(value),
            _ => vm.set_field(config, name, text)?,
        }
    }
    if let Some(package) = vm.get_field(vm.globals(), "package")?.as_table() {
        let path = vm.get_field(package, "path")?.as_string().map(|s| s.bytes().to_vec()).unwrap_or_default();
        let path = vm.value_str(&[&lpath[..], b";", &path[..]].concat())?;
        vm.set_field(package, "path", path)?;
    }
    let inspect = Value::native(&INSPECT);
    let lib = load(vm, include_bytes!("assert.lua"))?;
    let depth = vm.stack_top() as u32;
    if protected::call_reporting(vm, lib, &[inspect]).is_none() {
        return Ok(false);
    }
    let lib = vm.stack_get(depth + 1);
    let blocks = load(vm, include_bytes!("blocks.lua"))?;
    let args = [Value::native(&EMIT), Value::native(&NOW), config.into(), lib, inspect, file];
    Ok(protected::call_reporting(vm, blocks, &args).is_some())
}

fn load(vm: &mut Vm, text: &[u8]) -> LuaResult<Value> {
    match chunk::load(vm, text, b"=[test]", b"t", None)? {
        Ok(f) => Ok(f.into()),
        Err(message) => Err(vm.error(Vm::plain_text(message).unwrap_or_default())),
    }
}
