//! File handles: userdata with the metatable "FILE*", and their methods.
//!
//! A handle shares its file with the handles in other domains, and with the list of open files. Whoever
//! closes the file, by `close` or at the end of a block, closes it for all of them; a handle that is
//! collected only lets go of it, and the last one closes it. The three standard files cannot be closed.

use super::lines;
use super::park::{self, Until, Waited};
use super::read;
use super::standard::{File, Operation, briefly, operate};
use super::stream::{Buffering, Stream};
use super::{NUMBER, append_number, write_value};
use crate::errno::{self, Failure};
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Userdata, Value, Vm};
use rustix::fs::SeekFrom;
use std::cell::Cell;
use std::sync::Arc;

/// Name of the metatable in the registry, and in messages.
const FILE: &str = "FILE*";

static READ: Native = Native::leaf("read", read_method);
static WRITE: Native = Native::leaf("write", write);
static LINES: Native = Native::leaf("lines", lines_method);
static FLUSH: Native = Native::leaf("flush", flush);
static SEEK: Native = Native::leaf("seek", seek);
static CLOSE: Native = Native::leaf("close", close);
static SETVBUF: Native = Native::leaf("setvbuf", setvbuf);
static GC: Native = Native::leaf("__gc", collected);
static CLOSE_VARIABLE: Native = Native::leaf("__close", close_variable);
static TOSTRING: Native = Native::leaf("__tostring", tostring);

/// The content of the userdata.
pub(super) struct FileHandle {
    /// Held until the userdata is freed: an operation that waits in the kernel has the userdata on its stack,
    /// and uses the file through it.
    file: Arc<File>,
    /// The finaliser has run. It stays at hand for programs that resurrect it, or call the finaliser
    /// themselves.
    collected: Cell<bool>,
}

impl FileHandle {
    pub(super) fn new(stream: Stream) -> FileHandle {
        FileHandle::of(File::new(stream))
    }

    pub(super) fn of(file: Arc<File>) -> FileHandle {
        FileHandle { file, collected: Cell::new(false) }
    }

    /// The file, unless it is closed.
    #[inline]
    pub(super) fn file(&self) -> Option<&File> {
        if self.collected.get() || self.file.is_closed() { None } else { Some(&self.file) }
    }
}

/// A file on its way to another domain, which gets a handle of its own.
struct Carried(Arc<File>);

static CARRIED: SharedKind = SharedKind::carrier("file", |vm, object| {
    let object: &dyn std::any::Any = &**object;
    let Some(Carried(file)) = object.downcast_ref() else { return Ok(Value::NIL) };
    new_handle(vm, FileHandle::of(Arc::clone(file))).map(Value::from)
});

impl SharedObject for Carried {
    fn kind(&self) -> &'static SharedKind {
        &CARRIED
    }
}

/// What carries an open file to another domain.
pub(super) fn carry(file: Gc<Userdata>) -> Option<SharedArc> {
    let handle = handle_of(file)?;
    handle.file()?;
    Some(Arc::new(Carried(Arc::clone(&handle.file))).into())
}

/// Makes the metatable.
pub(super) fn create_metatable(vm: &mut Vm) -> LuaResult<()> {
    let (metatable, _) = vm.new_metatable(FILE)?;
    vm.register(metatable, &[&GC, &CLOSE_VARIABLE, &TOSTRING])?;
    let methods = vm.new_table(0, 8)?;
    vm.register(methods, &[&READ, &WRITE, &LINES, &FLUSH, &SEEK, &CLOSE, &SETVBUF])?;
    vm.set_field(metatable, "__index", methods.into())
}

/// A userdata for `handle`.
pub(super) fn new_handle(vm: &mut Vm, handle: FileHandle) -> LuaResult<Gc<Userdata>> {
    let file = vm.new_userdata(handle, 0)?;
    let metatable = vm.metatable_named(FILE)?;
    vm.set_metatable_of(file.into(), metatable)?;
    Ok(file)
}

/// The handle in a userdata, if it is a file.
#[inline]
pub(super) fn handle_of<'a>(file: Gc<Userdata>) -> Option<&'a FileHandle> {
    // SAFETY: natives ask for handles that are their arguments or upvalues, or in the registry, for the time
    // they run. Nobody borrows one mutably.
    unsafe { file.data::<FileHandle>() }
}

/// The file in a userdata, if it is one that is open.
#[inline]
pub(super) fn file_of<'a>(file: Gc<Userdata>) -> Option<&'a File> {
    let handle: &'a FileHandle = handle_of(file)?;
    handle.file()
}

fn check_handle<'a>(vm: &mut Vm, i: u32) -> LuaResult<&'a FileHandle> {
    match vm.arg(i).as_userdata().and_then(handle_of) {
        Some(handle) => Ok(handle),
        None => Err(vm.type_error(i, FILE)),
    }
}

/// The file of the handle that argument `i` has to be.
#[inline]
pub(super) fn check_file<'a>(vm: &mut Vm, i: u32) -> LuaResult<&'a File> {
    let handle: &'a FileHandle = check_handle(vm, i)?;
    match handle.file() {
        Some(file) => Ok(file),
        None => Err(vm.error("attempt to use a closed file")),
    }
}

/// Method `close` and, with an argument, `io.close`.
pub(super) fn close(vm: &mut Vm) -> LuaResult<u32> {
    if let Some(results) = park::close_again(vm)? {
        return Ok(results);
    }
    let file = check_file(vm, 1)?;
    let arguments = vm.nargs();
    close_file(vm, file, arguments)
}

/// Closes a file for all its handles and returns what `close` returns. The handle is on the stack, perhaps on
/// top of so many arguments.
pub(super) fn close_file(vm: &mut Vm, file: &File, arguments: u32) -> LuaResult<u32> {
    if file.is_standard() {
        vm.push(Value::NIL);
        vm.push_str(b"cannot close standard file")?;
        return Ok(2);
    }
    if let Some(results) = park::close(vm, file, arguments)? {
        return Ok(results);
    }
    match file.close(vm) {
        Some(Ok(Some(status))) => errno::exec_result(vm, status),
        Some(result) => errno::file_result(vm, result.map(|_| ()), None),
        // Another domain was faster.
        None => Err(vm.error("attempt to use a closed file")),
    }
}

/// The end of a block whose variable has the file.
fn close_variable(vm: &mut Vm) -> LuaResult<u32> {
    // The end of a block has no place for what closing says.
    if park::close_again(vm)?.is_some() {
        return Ok(0);
    }
    if let Some(file) = check_handle(vm, 1)?.file()
        && !file.is_standard()
    {
        let arguments = vm.nargs();
        if park::close(vm, file, arguments)?.is_none() {
            let _ = file.close(vm);
        }
    }
    Ok(0)
}

/// The handle is collected: it is of no use any more, and if it is the only one, neither is the file.
fn collected(vm: &mut Vm) -> LuaResult<u32> {
    let handle = check_handle(vm, 1)?;
    if handle.file.is_standard() || handle.collected.replace(true) {
        return Ok(0);
    }
    if Arc::strong_count(&handle.file) == 1 {
        // A collection has no place for what closing says. Where another handle goes at the same time,
        // whoever drops the stream writes out what is buffered.
        if !park::let_go(vm, &handle.file) {
            let _ = handle.file.close(vm);
        }
    }
    Ok(0)
}

fn tostring(vm: &mut Vm) -> LuaResult<u32> {
    match check_handle(vm, 1)?.file() {
        Some(file) => {
            let text = format!("file ({:p})", std::ptr::from_ref(file));
            vm.ret_str(text.as_bytes())
        }
        None => vm.ret_str(b"file (closed)"),
    }
}

/// A file that somebody has closed while this native waited for it is "closed", and no mistake of the
/// caller's.
fn was_closed(vm: &mut Vm) -> LuaResult<Waited> {
    if check_handle(vm, 1)?.file().is_some() {
        return Ok(Waited::No);
    }
    park::waited(vm)
}

fn read_method(vm: &mut Vm) -> LuaResult<u32> {
    if let Some(file) = vm.arg(1).as_userdata().and_then(file_of)
        && let Some(count) = read_at_hand(vm, file, 2)
    {
        return Ok(count);
    }
    if was_closed(vm)? != Waited::No {
        return errno::failure(vm, Failure::Closed, None);
    }
    check_file(vm, 1)?;
    match vm.arg(1).as_userdata() {
        Some(file) => read_arguments(vm, file, 2),
        None => Ok(0),
    }
}

/// Reads by the formats that are the arguments from `first` on, if all is in the buffer, without the file's
/// lock; how many values were pushed. `None`: nothing has been done.
#[inline]
pub(super) fn read_at_hand(vm: &mut Vm, file: &File, first: u32) -> Option<u32> {
    briefly(vm, file, |vm, stream| match park::concerns(vm, stream) {
        true => None,
        false => read::at_hand(vm, stream, first),
    })?
}

/// Reads by the formats that are the arguments from `first` on, and returns what `read` returns.
pub(super) fn read_arguments(vm: &mut Vm, file: Gc<Userdata>, first: u32) -> LuaResult<u32> {
    let Some(open) = file_of(file) else { return Err(vm.error("attempt to use a closed file")) };
    let arguments = vm.nargs();
    let count = arguments + 1 - first;
    // The default file may be another one before this is over.
    let keep = |vm: &mut Vm| {
        vm.push(file.into());
        Ok(())
    };
    let stream = operate(vm, open).inspect(|stream| stream.give_bias(vm));
    let outcome = match stream {
        Ok(mut stream) if park::concerns(vm, &stream) => {
            park::read(vm, &mut stream, (first, count), arguments, keep)?
        }
        Ok(mut stream) => {
            keep(vm)?;
            read::read(vm, &mut stream, first, count)?
        }
        Err(failure) => {
            park::waited(vm)?;
            read::Outcome::Failed(failure)
        }
    };
    read::results(vm, outcome)
}

fn lines_method(vm: &mut Vm) -> LuaResult<u32> {
    check_file(vm, 1)?;
    let Some(file) = vm.arg(1).as_userdata() else { return Ok(0) };
    let iterator = lines::iterator(vm, file, false)?;
    vm.ret(iterator)
}

fn write(vm: &mut Vm) -> LuaResult<u32> {
    if let Some(file) = vm.arg(1).as_userdata().and_then(file_of)
        && write_at_hand(vm, file, 2)
    {
        let file = vm.arg(1);
        return vm.ret(file);
    }
    match was_closed(vm)? {
        Waited::No => {}
        Waited::Begins => return errno::failure(vm, Failure::Closed, None),
        // Whoever closed it writes them.
        Waited::Taken => {
            let file = vm.arg(1);
            return vm.ret(file);
        }
    }
    check_file(vm, 1)?;
    match vm.arg(1).as_userdata() {
        Some(file) => write_arguments(vm, file, 2),
        None => Ok(0),
    }
}

/// Writes the arguments from `first` on, if they fit the buffer, without the file's lock. False: nothing has
/// been done.
#[inline]
pub(super) fn write_at_hand(vm: &mut Vm, file: &File, first: u32) -> bool {
    let write = |vm: &mut Vm, stream: &mut Stream| {
        if park::concerns(vm, stream) {
            return false;
        }
        let Some((out, capacity)) = stream.buffer_at_hand() else { return false };
        let before = out.len();
        for i in first..=vm.nargs() {
            if !append_value(vm.arg(i), out, capacity) {
                out.truncate(before);
                return false;
            }
        }
        true
    };
    briefly(vm, file, write) == Some(true)
}

/// Appends what `write` writes of a value. False: it is too long, or cannot be written.
#[inline]
fn append_value(value: Value, out: &mut Vec<u8>, capacity: usize) -> bool {
    if let Some(text) = value.as_string() {
        if out.len() + text.len() > capacity {
            return false;
        }
        out.extend_from_slice(text.bytes());
        return true;
    }
    value.is_number() && out.len() + NUMBER <= capacity && {
        append_number(value, out);
        true
    }
}

/// Writes the arguments from `first` on and returns the file; after an error the rest is still checked, but
/// what is returned is the error.
pub(super) fn write_arguments(vm: &mut Vm, file: Gc<Userdata>, first: u32) -> LuaResult<u32> {
    let Some(open) = file_of(file) else { return Err(vm.error("attempt to use a closed file")) };
    let last = vm.nargs();
    let take = |vm: &mut Vm, stream: &mut Stream| {
        // The default file may be another one before this is over.
        vm.push(file.into());
        let mut result = Ok(());
        for i in first..=last {
            let written = match write_value(stream, vm.arg(i)) {
                Some(written) => written,
                None => return Err(vm.type_error(i, "string")),
            };
            result = result.and(written.map_err(Failure::from));
        }
        Ok(result)
    };
    let stream = operate(vm, open).inspect(|stream| stream.give_bias(vm));
    let result = match stream {
        Ok(mut stream) if park::concerns(vm, &stream) => {
            park::write(vm, &mut stream, last, Until::Buffered, take)?
        }
        Ok(mut stream) => take(vm, &mut stream)?,
        Err(failure) => {
            park::waited(vm)?;
            Err(failure)
        }
    };
    match result {
        Ok(()) => vm.ret(file),
        Err(failure) => errno::failure(vm, failure, None),
    }
}

fn flush(vm: &mut Vm) -> LuaResult<u32> {
    if was_closed(vm)? != Waited::No {
        return vm.ret(true);
    }
    let file = check_file(vm, 1)?;
    let arguments = vm.nargs();
    flush_file(vm, file, arguments)
}

/// Writes out what is buffered and returns what `flush` returns. The handle is on the stack, perhaps on top
/// of so many arguments.
pub(super) fn flush_file(vm: &mut Vm, file: &File, arguments: u32) -> LuaResult<u32> {
    let result = match operate(vm, file) {
        Ok(mut stream) if park::concerns(vm, &stream) => {
            park::write(vm, &mut stream, arguments, Until::Empty, |_, _| Ok(Ok(())))?
        }
        Ok(mut stream) => stream.flush().map_err(Failure::from),
        Err(failure) => {
            park::waited(vm)?;
            Err(failure)
        }
    };
    errno::file_result(vm, result, None)
}

/// Writes out what is in the buffer of a file on a disk before something that needs it written, without
/// sleeping where others can use the domain.
fn write_out(vm: &mut Vm, stream: &mut Operation<'_>) -> LuaResult<Result<(), Failure>> {
    if !(stream.is_on_disk() && park::concerns(vm, stream)) {
        return Ok(Ok(()));
    }
    let arguments = vm.nargs();
    park::write(vm, stream, arguments, Until::Empty, |_, _| Ok(Ok(())))
}

fn seek(vm: &mut Vm) -> LuaResult<u32> {
    if was_closed(vm)? != Waited::No {
        return errno::failure(vm, Failure::Closed, None);
    }
    let file = check_file(vm, 1)?;
    let whence = vm.check_option(2, Some("cur"), &["set", "cur", "end"])?;
    let offset = vm.opt_int(3, 0)?;
    let to = match whence {
        // A negative offset becomes a huge one, which the stream refuses.
        0 => SeekFrom::Start(offset as u64),
        1 => SeekFrom::Current(offset),
        _ => SeekFrom::End(offset),
    };
    let result = match operate(vm, file) {
        Ok(mut stream) => write_out(vm, &mut stream)?.and_then(|()| Ok(stream.seek(to)?)),
        Err(failure) => {
            park::waited(vm)?;
            Err(failure)
        }
    };
    match result {
        Ok(position) => vm.ret(position as i64),
        Err(failure) => errno::failure(vm, failure, None),
    }
}

fn setvbuf(vm: &mut Vm) -> LuaResult<u32> {
    if was_closed(vm)? != Waited::No {
        return errno::failure(vm, Failure::Closed, None);
    }
    const MODES: [Buffering; 3] = [Buffering::No, Buffering::Full, Buffering::Line];
    let file = check_file(vm, 1)?;
    let mode = vm.check_option(2, None, &["no", "full", "line"])?;
    let size = vm.opt_int(3, 1024)?.clamp(0, 1 << 30) as usize;
    let result = match operate(vm, file) {
        Ok(mut stream) => {
            write_out(vm, &mut stream)?.and_then(|()| Ok(stream.set_buffering(MODES[mode], size)?))
        }
        Err(failure) => {
            park::waited(vm)?;
            Err(failure)
        }
    };
    errno::file_result(vm, result, None)
}
