//! The `io` library and file handles (manual 6.8).
//!
//! | file | what |
//! |---|---|
//! | `stream.rs`, `stream/` | buffered streams over file descriptors; files on disks |
//! | `closable.rs`, `sync.rs` | the lock of a file: one user at a time, until somebody closes it for all |
//! | `bias.rs` | the domain that used a file or connection last uses it again without its lock |
//! | `standard.rs` | files, the three standard ones, flushing at exit |
//! | `open.rs` | opening files, processes and temporary files |
//! | `read.rs`, `lines.rs` | read formats; iterators over lines |
//! | `park.rs` | reading, writing and closing without a thread while others use the domain |
//! | `separators.rs` | where lines end |
//! | `input.rs` | files that others take apart |
//! | `diversion.rs` | what is written to a terminal while somebody types there |
//! | `handle.rs` | file handles: the userdata with metatable "FILE*" and their methods |
//!
//! Functions that use the default files are closures over one table, which has the default input at index 1
//! and the default output at index 2.

pub mod bias;
mod closable;
mod diversion;
mod handle;
mod input;
mod lines;
mod open;
mod park;
mod patience;
mod read;
pub mod separators;
mod standard;
mod stream;
mod sync;

pub(crate) use crate::sys::temporary_file;
pub use diversion::{divert, set_diversion, takes_error};
pub use input::Input;
pub use open::{open_for_reading, read_standard_input, read_whole};
pub use standard::flush_all;
pub use stream::pace;
pub use stream::{is_slow_pretended, pretend_that_disks_are_slow, pretend_to_be_slow};

use crate::asked;
use crate::errno;
use handle::{FileHandle, check_file, file_of, handle_of, new_handle};
use perilune_syntax::numeral::{format_float, format_integer};
use perilune_vm::host::{Doing, Subject};
use perilune_vm::{Gc, LuaResult, Native, Table, Userdata, Value, Vm};
use rustix::io::Errno;
use standard::{STDERR, STDIN, STDOUT, operate};
use std::sync::Arc;
use stream::Stream;

static CLOSE: Native = Native::leaf("close", close);
static FLUSH: Native = Native::leaf("flush", flush);
static INPUT: Native = Native::leaf("input", input);
static LINES: Native = Native::leaf("lines", io_lines);
static OPEN: Native = Native::leaf("open", io_open);
static OUTPUT: Native = Native::leaf("output", output);
static POPEN: Native = Native::leaf("popen", popen);
static READ: Native = Native::leaf("read", io_read);
static TMPFILE: Native = Native::leaf("tmpfile", tmpfile);
static TYPE: Native = Native::leaf("type", type_);
static WRITE: Native = Native::leaf("write", io_write);

/// Index of a default file in the table that the natives share.
#[derive(Clone, Copy)]
enum Default {
    Input = 1,
    Output = 2,
}

/// Makes the table `io` and the metatable of file handles.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    standard::flush_at_exit();
    handle::create_metatable(vm)?;
    vm.set_userdata_carrier(handle::carry);
    let io = vm.new_table(0, 14)?;
    vm.set_loaded("io", io.into())?;
    vm.set_global("io", io.into())?;
    vm.register(io, &[&OPEN, &POPEN, &TMPFILE, &TYPE])?;
    let defaults = vm.new_table(2, 0)?;
    for native in [&CLOSE, &FLUSH, &INPUT, &LINES, &OUTPUT, &READ, &WRITE] {
        let function = vm.new_native_closure(native, &[defaults.into()])?;
        vm.set_field(io, native.name, function)?;
    }
    let stdin = new_handle(vm, FileHandle::of(Arc::clone(&STDIN)))?;
    vm.set_field(io, "stdin", stdin.into())?;
    vm.raw_set_int(defaults, Default::Input as i64, stdin.into())?;
    let stdout = new_handle(vm, FileHandle::of(Arc::clone(&STDOUT)))?;
    vm.set_field(io, "stdout", stdout.into())?;
    vm.raw_set_int(defaults, Default::Output as i64, stdout.into())?;
    let stderr = new_handle(vm, FileHandle::of(Arc::clone(&STDERR)))?;
    vm.set_field(io, "stderr", stderr.into())
}

/// Writes a value of `print` alone, after a tab if it is not the first.
pub(crate) fn print_text(vm: &Vm, tab: bool, text: &[u8]) {
    let Ok(mut stdout) = operate(vm, &STDOUT) else { return };
    if tab {
        let _ = stdout.write(b"\t");
    }
    let _ = stdout.write(text);
}

/// Writes what `print` writes of plain values (others have been converted to strings) and ends the line. Then
/// all of it goes out, to whatever standard output is: another program may wait for the line, and a program
/// that is killed has said it. Errors are ignored, as `print` has no way to report them.
pub(crate) fn print_values(vm: &Vm, values: impl Iterator<Item = Value>) {
    let Ok(mut stdout) = operate(vm, &STDOUT) else { return };
    for (i, value) in values.enumerate() {
        if i > 0 {
            let _ = stdout.write(b"\t");
        }
        let _ = if let Some(text) = value.as_string() {
            stdout.write(text.bytes())
        } else if let Some(integer) = value.as_int() {
            stdout.write_short(|out| format_integer(integer, out))
        } else if let Some(float) = value.as_float() {
            stdout.write_short(|out| format_float(float, out))
        } else {
            stdout.write(if value.is_nil() {
                b"nil"
            } else if value.is_falsy() {
                b"false"
            } else {
                b"true"
            })
        };
    }
    let _ = stdout.write(b"\n");
    let _ = stdout.flush();
}

/// Reads a line of standard input, with its newline, into `line`; false at the end of the input, or if it
/// cannot be read.
pub(crate) fn read_line(vm: &Vm, line: &mut Vec<u8>) -> bool {
    line.clear();
    let read =
        operate(vm, &STDIN).and_then(|mut stdin| stdin.line(true, |text| line.extend_from_slice(text)));
    matches!(read, Ok(Some(())))
}

/// Writes to standard error, past all buffers.
pub fn write_error(text: &[u8]) {
    let _ = standard::write_error(text);
}

/// Calls `f` with the descriptor of the open file in argument `i`. What is buffered has been written out.
///
/// # Errors
/// It is no open file. Within: what writing says.
pub fn descriptor_of<R>(vm: &mut Vm, i: u32, f: impl FnOnce(i32) -> R) -> LuaResult<Result<R, Errno>> {
    let file = check_file(vm, i)?;
    match operate(vm, file) {
        Ok(mut stream) => Ok(stream.flush().map(|()| f(stream.number()))),
        Err(_) => Ok(Err(Errno::BADF)),
    }
}

fn defaults(vm: &mut Vm) -> Option<Gc<Table>> {
    vm.upvalue(1).as_table()
}

/// The default input or output.
fn default_file(vm: &mut Vm, which: Default) -> LuaResult<Gc<Userdata>> {
    let file = defaults(vm).map_or(Value::NIL, |table| vm.raw_get_int(table, which as i64));
    match file.as_userdata() {
        Some(file) if file_of(file).is_some() => Ok(file),
        _ if park::waited(vm)? != park::Waited::No => Err(vm.error("closed")),
        _ => Err(vm.error(match which {
            Default::Input => "default input file is closed",
            Default::Output => "default output file is closed",
        })),
    }
}

/// `io.input` and `io.output`: sets a default file if there is an argument; returns it.
fn default_function(vm: &mut Vm, which: Default) -> LuaResult<u32> {
    let table = defaults(vm);
    let argument = vm.arg(1);
    if !argument.is_nil() {
        let file = if argument.as_string().is_some() || argument.is_number() {
            let mode = match which {
                Default::Input => b"r",
                Default::Output => b"w",
            };
            open_or_raise(vm, mode)?.into()
        } else {
            check_file(vm, 1)?;
            argument
        };
        if let Some(table) = table {
            vm.raw_set_int(table, which as i64, file)?;
        }
    }
    let file = table.map_or(Value::NIL, |table| vm.raw_get_int(table, which as i64));
    vm.ret(file)
}

/// Opens the file named by argument 1, or raises what the system says.
fn open_or_raise(vm: &mut Vm, mode: &[u8]) -> LuaResult<Gc<Userdata>> {
    let name = vm.check_str(1)?.bytes();
    let stream = match park::open(vm, name, mode)? {
        Some(stream) => stream,
        None => open::file(name, mode),
    };
    match stream {
        Ok(stream) => new_handle(vm, FileHandle::new(stream)),
        Err(error) => {
            let text =
                [b"cannot open file '", errno::c_bytes(name), b"' (", &errno::message(error), b")"].concat();
            Err(vm.error(text))
        }
    }
}

/// Returns a new handle, or `nil`, message and number.
fn opened(vm: &mut Vm, stream: Result<Stream, Errno>, name: Option<&[u8]>) -> LuaResult<u32> {
    match stream {
        Ok(stream) => {
            let file = new_handle(vm, FileHandle::new(stream))?;
            vm.ret(file)
        }
        Err(error) => errno::failure(vm, error, name),
    }
}

fn io_open(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?.bytes();
    let mode = vm.opt_str(2)?;
    let mode = mode.map_or(b"r".as_slice(), |mode| errno::c_bytes(mode.bytes()));
    if !open::is_mode(mode) {
        return Err(vm.arg_error(2, "invalid mode"));
    }
    let stream = match park::open(vm, name, mode)? {
        Some(stream) => stream,
        None => open::file(name, mode),
    };
    opened(vm, stream, Some(errno::c_bytes(name)))
}

fn popen(vm: &mut Vm) -> LuaResult<u32> {
    let command = vm.check_str(1)?.bytes();
    let mode = vm.opt_str(2)?;
    let mode = mode.map_or(b"r".as_slice(), |mode| errno::c_bytes(mode.bytes()));
    if !matches!(mode, b"r" | b"w") {
        return Err(vm.arg_error(2, "invalid mode"));
    }
    flush_before_child(vm);
    opened(vm, open::process(command, mode == b"r"), Some(errno::c_bytes(command)))
}

/// Writes out what has to come before what a child is going to say.
pub(crate) fn flush_before_child(vm: &mut Vm) {
    if vm.can_park() {
        standard::flush_ready();
    } else if standard::has_unwritten() {
        vm.blocking(flush_all);
    }
}

fn tmpfile(vm: &mut Vm) -> LuaResult<u32> {
    let doing = || Doing { verb: "make", what: Subject::Name(b"a temporary file".to_vec()) };
    let stream = asked::ask(vm, doing, open::temporary)?;
    opened(vm, stream, None)
}

fn type_(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    match vm.arg(1).as_userdata().and_then(handle_of) {
        Some(handle) if handle.file().is_some() => vm.ret_str(b"file"),
        Some(_) => vm.ret_str(b"closed file"),
        None => vm.ret(Value::NIL),
    }
}

fn close(vm: &mut Vm) -> LuaResult<u32> {
    if vm.arg_is_none(1) {
        if let Some(results) = park::close_again(vm)? {
            return Ok(results);
        }
        let arguments = vm.nargs();
        let file = default_file(vm, Default::Output)?;
        // The default file may be another one before this is over.
        vm.push(file.into());
        return match file_of(file) {
            Some(file) => handle::close_file(vm, file, arguments),
            None => Ok(0),
        };
    }
    handle::close(vm)
}

fn flush(vm: &mut Vm) -> LuaResult<u32> {
    let arguments = vm.nargs();
    let file = default_file(vm, Default::Output)?;
    // The default file may be another one before this is over.
    vm.push(file.into());
    match file_of(file) {
        Some(file) => handle::flush_file(vm, file, arguments),
        None => vm.ret(true),
    }
}

fn input(vm: &mut Vm) -> LuaResult<u32> {
    default_function(vm, Default::Input)
}

fn output(vm: &mut Vm) -> LuaResult<u32> {
    default_function(vm, Default::Output)
}

fn io_read(vm: &mut Vm) -> LuaResult<u32> {
    let file = default_file(vm, Default::Input)?;
    if let Some(count) = file_of(file).and_then(|file| handle::read_at_hand(vm, file, 1)) {
        return Ok(count);
    }
    handle::read_arguments(vm, file, 1)
}

fn io_write(vm: &mut Vm) -> LuaResult<u32> {
    let file = default_file(vm, Default::Output)?;
    if file_of(file).is_some_and(|file| handle::write_at_hand(vm, file, 1)) {
        return vm.ret(file);
    }
    handle::write_arguments(vm, file, 1)
}

fn io_lines(vm: &mut Vm) -> LuaResult<u32> {
    if vm.arg(1).is_nil() {
        let table = defaults(vm);
        let file = table.map_or(Value::NIL, |table| vm.raw_get_int(table, Default::Input as i64));
        if vm.nargs() == 0 {
            vm.push(file);
        } else {
            vm.set_arg(1, file);
        }
        check_file(vm, 1)?;
        let Some(file) = file.as_userdata() else { return Ok(0) };
        let iterator = lines::iterator(vm, file, false)?;
        return vm.ret(iterator);
    }
    let file = open_or_raise(vm, b"r")?;
    let iterator = lines::iterator(vm, file, true)?;
    vm.push(iterator);
    vm.push(Value::NIL);
    vm.push(Value::NIL);
    vm.push(file.into());
    Ok(4)
}

/// Writes one value as `write` does: a string or a number.
#[inline]
fn write_value(stream: &mut Stream, value: Value) -> Option<Result<(), Errno>> {
    if let Some(text) = value.as_string() {
        return Some(stream.write(text.bytes()));
    }
    value.is_number().then(|| stream.write_short(|out| append_number(value, out)))
}

/// Most bytes of a number.
const NUMBER: usize = 32;

/// Appends a number as `write` writes it.
#[inline]
fn append_number(value: Value, out: &mut Vec<u8>) {
    match (value.as_int(), value.as_float()) {
        (Some(integer), _) => format_integer(integer, out),
        (_, float) => {
            // `%.14g`: what `tostring` adds to it goes again.
            format_float(float.unwrap_or(0.0), out);
            if out.ends_with(b".0") {
                out.truncate(out.len() - 2);
            }
        }
    }
}
