//! The `os` library (manual 6.9); dates are in `date.rs`.
//!
//! Locales: numbers, characters and collation are those of the "C" locale always, so that is the only locale
//! there is; asking for the native one ("") selects it.

use crate::asked;
use crate::child::{self, Foreground};
use crate::date;
use crate::ended::Ended;
use crate::errno::{self, c_bytes};
use crate::io;
use perilune_vm::host::{Doing, Subject};
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

static CLOCK: Native = Native::leaf("clock", clock);
static DATE: Native = Native::leaf("date", date::date);
static DIFFTIME: Native = Native::leaf("difftime", difftime);
static EXECUTE: Native = Native::leaf("execute", execute);
static EXIT: Native = Native::reentrant("exit", exit);
static GETENV: Native = Native::leaf("getenv", getenv);
static REMOVE: Native = Native::leaf("remove", remove);
static RENAME: Native = Native::leaf("rename", rename);
static SETLOCALE: Native = Native::leaf("setlocale", setlocale);
static TIME: Native = Native::hybrid("time", date::time);
static TMPNAME: Native = Native::leaf("tmpname", tmpname);

/// Makes the table `os`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let os = vm.new_table(0, 11)?;
    vm.set_loaded("os", os.into())?;
    vm.set_global("os", os.into())?;
    vm.register(
        os,
        &[&CLOCK, &DATE, &DIFFTIME, &EXECUTE, &EXIT, &GETENV, &REMOVE, &RENAME, &SETLOCALE, &TIME, &TMPNAME],
    )
}

fn clock(vm: &mut Vm) -> LuaResult<u32> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    vm.ret(time.tv_sec as f64 + (time.tv_nsec / 1000) as f64 / 1e6)
}

fn difftime(vm: &mut Vm) -> LuaResult<u32> {
    let (a, b) = (vm.check_int(1)?, vm.check_int(2)?);
    vm.ret((i128::from(a) - i128::from(b)) as f64)
}

fn execute(vm: &mut Vm) -> LuaResult<u32> {
    let Some(command) = vm.opt_str(1)? else {
        return vm.ret(child::has_shell());
    };
    let command = command.bytes().to_vec();
    if let Some(ended) = vm.wait_over()?.and_then(|aside| aside.downcast::<Ended>().ok()) {
        return ended.wait(vm);
    }
    io::flush_before_child(vm);
    let foreground = Foreground::new();
    let started = child::start(&command, None).map(|child| (child, foreground));
    match started {
        Ok((child, foreground)) => Ended::new(child, None).in_foreground(foreground).wait(vm),
        Err(error) => errno::failure(vm, error, None),
    }
}

/// Whether a command of `os.execute` runs. Signals that the terminal sends are meant for it then, and who
/// handles them for this process should leave them alone, as C's `system` does. Async-signal-safe.
pub fn runs_command() -> bool {
    child::in_foreground()
}

fn exit(vm: &mut Vm) -> LuaResult<u32> {
    let code = match vm.arg(1) {
        code if code.same(Value::TRUE) => 0,
        code if code.same(Value::FALSE) => 1,
        _ => vm.opt_int(1, 0)? as i32,
    };
    vm.write_snapshot_at_exit();
    if vm.arg(2).is_truthy() {
        vm.close_main_variables();
        vm.close();
    }
    vm.process_ends();
    std::process::exit(code)
}

fn getenv(vm: &mut Vm) -> LuaResult<u32> {
    let name = c_bytes(vm.check_str(1)?.bytes());
    // Names that no variable can have would panic.
    let value = if name.is_empty() || name.contains(&b'=') {
        None
    } else {
        std::env::var_os(OsStr::from_bytes(name))
    };
    match value {
        Some(value) => vm.ret_str(value.as_bytes()),
        None => vm.ret(Value::NIL),
    }
}

fn remove(vm: &mut Vm) -> LuaResult<u32> {
    let name = c_bytes(vm.check_str(1)?.bytes());
    let path = name.to_vec();
    let doing = || Doing { verb: "remove", what: Subject::Name(name.to_vec()) };
    let result = asked::ask(vm, doing, move || match rustix::fs::unlink(&*path) {
        Err(rustix::io::Errno::ISDIR) => rustix::fs::rmdir(&*path),
        result => result,
    })?;
    errno::file_result(vm, result, Some(name))
}

fn rename(vm: &mut Vm) -> LuaResult<u32> {
    let from = c_bytes(vm.check_str(1)?.bytes());
    let to = c_bytes(vm.check_str(2)?.bytes());
    let paths = (from.to_vec(), to.to_vec());
    let doing = || Doing { verb: "rename", what: Subject::Name(from.to_vec()) };
    let result = asked::ask(vm, doing, move || rustix::fs::rename(&*paths.0, &*paths.1))?;
    errno::file_result(vm, result, None)
}

fn setlocale(vm: &mut Vm) -> LuaResult<u32> {
    let locale = vm.opt_str(1)?;
    vm.check_option(2, Some("all"), &["all", "collate", "ctype", "monetary", "numeric", "time"])?;
    match locale.map(|locale| c_bytes(locale.bytes())) {
        None | Some(b"" | b"C" | b"POSIX") => vm.ret_str(b"C"),
        Some(_) => vm.ret(Value::NIL),
    }
}

fn tmpname(vm: &mut Vm) -> LuaResult<u32> {
    let doing = || Doing { verb: "make", what: Subject::Name(b"a temporary file".to_vec()) };
    match asked::ask(vm, doing, io::temporary_file)? {
        Ok((_, name)) => vm.ret_str(&name),
        Err(_) => Err(vm.error("unable to generate a unique filename")),
    }
}
