//! File handles: userdata with the metatable "FILE*", and their methods.
//!
//! A handle shares its stream with the list of open streams, and lets go of it when it is closed. The handles
//! of the three standard streams cannot be closed. A handle that is collected closes its file.

use super::lines;
use super::read;
use super::standard::{Shared, operate, share};
use super::stream::{Buffering, Stream};
use super::write_value;
use crate::errno;
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Userdata, Value, Vm};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, TryLockError};

/// Name of the metatable in the registry, and in messages.
const FILE: &str = "FILE*";

static READ: Native = Native::leaf("read", read_method);
static WRITE: Native = Native::leaf("write", write);
static LINES: Native = Native::leaf("lines", lines_method);
static FLUSH: Native = Native::leaf("flush", flush);
static SEEK: Native = Native::leaf("seek", seek);
static CLOSE: Native = Native::leaf("close", close);
static SETVBUF: Native = Native::leaf("setvbuf", setvbuf);
static GC: Native = Native::leaf("__gc", finalize);
static CLOSE_VARIABLE: Native = Native::leaf("__close", finalize);
static TOSTRING: Native = Native::leaf("__tostring", tostring);

/// The content of the userdata.
pub(super) struct FileHandle {
    /// `None`: closed.
    stream: Option<Shared>,
    standard: bool,
}

impl FileHandle {
    pub(super) fn new(stream: Stream) -> FileHandle {
        FileHandle { stream: Some(share(stream)), standard: false }
    }

    pub(super) fn standard(stream: Shared) -> FileHandle {
        FileHandle { stream: Some(stream), standard: true }
    }

    /// The stream, unless the handle is closed.
    #[inline]
    pub(super) fn stream(&self) -> Option<&Mutex<Stream>> {
        self.stream.as_deref()
    }
}

/// A stream on its way to another domain, which gets a handle of its own: the stream is closed when all
/// handles are.
struct Carried(Shared);

static CARRIED: SharedKind = SharedKind::carrier("file", |vm, object| {
    let object: &dyn std::any::Any = &**object;
    let Some(Carried(stream)) = object.downcast_ref() else { return Ok(Value::NIL) };
    let handle = FileHandle { stream: Some(Arc::clone(stream)), standard: false };
    new_handle(vm, handle).map(Value::from)
});

impl SharedObject for Carried {
    fn kind(&self) -> &'static SharedKind {
        &CARRIED
    }
}

/// What carries an open file to another domain.
pub(super) fn carry(file: Gc<Userdata>) -> Option<SharedArc> {
    let stream = handle_of(file)?.stream.clone()?;
    Some(Arc::new(Carried(stream)).into())
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
    let file = vm.new_userdata(Box::new(handle), 0)?;
    let metatable = vm.metatable_named(FILE)?;
    vm.set_metatable_of(file.into(), metatable)?;
    Ok(file)
}

/// The handle in a userdata, if it is a file.
#[inline]
pub(super) fn handle_of<'a>(file: Gc<Userdata>) -> Option<&'a mut FileHandle> {
    file.data::<FileHandle>()
}

/// The stream in a userdata, if it is a file that is open.
#[inline]
pub(super) fn stream_of<'a>(file: Gc<Userdata>) -> Option<&'a Mutex<Stream>> {
    let handle: &'a FileHandle = handle_of(file)?;
    handle.stream()
}

fn check_handle<'a>(vm: &mut Vm, i: u32) -> LuaResult<&'a mut FileHandle> {
    match vm.arg(i).as_userdata().and_then(handle_of) {
        Some(handle) => Ok(handle),
        None => Err(vm.type_error(i, FILE)),
    }
}

/// The stream of the file handle that argument `i` has to be.
#[inline]
pub(super) fn check_stream<'a>(vm: &mut Vm, i: u32) -> LuaResult<&'a Mutex<Stream>> {
    let handle: &'a FileHandle = check_handle(vm, i)?;
    match handle.stream() {
        Some(stream) => Ok(stream),
        None => Err(vm.error("attempt to use a closed file")),
    }
}

/// Closes the stream of a handle; the wait status if it is a process. A stream that another handle shares
/// stays open; one that is in use, by code that waits in the kernel, cannot be closed.
pub(super) fn close_handle(vm: &Vm, handle: &mut FileHandle) -> Result<Option<i32>, Errno> {
    if handle.stream.as_ref().is_some_and(|stream| matches!(stream.try_lock(), Err(TryLockError::WouldBlock)))
    {
        // Other code of this domain is in the middle of reading or writing.
        return Err(Errno::BUSY);
    }
    let Some(stream) = handle.stream.take() else { return Ok(None) };
    match Arc::into_inner(stream) {
        Some(stream) => {
            let mut stream = stream.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            stream.blocker = Some(vm.blocker());
            stream.close()
        }
        None => Ok(None),
    }
}

/// Method `close` and, with an argument, `io.close`.
pub(super) fn close(vm: &mut Vm) -> LuaResult<u32> {
    check_stream(vm, 1)?;
    match vm.arg(1).as_userdata() {
        Some(file) => close_file(vm, file),
        None => Ok(0),
    }
}

/// Closes an open file and returns what `close` returns.
pub(super) fn close_file(vm: &mut Vm, file: Gc<Userdata>) -> LuaResult<u32> {
    let Some(handle) = handle_of(file) else { return Ok(0) };
    if handle.standard {
        vm.push(Value::NIL);
        vm.push_str(b"cannot close standard file")?;
        return Ok(2);
    }
    match close_handle(vm, handle) {
        Ok(Some(status)) => errno::exec_result(vm, status),
        result => errno::file_result(vm, result.map(|_| ()), None),
    }
}

fn finalize(vm: &mut Vm) -> LuaResult<u32> {
    let handle = check_handle(vm, 1)?;
    if !handle.standard {
        // Neither a collection nor the end of a block can report what closing says.
        let _ = close_handle(vm, handle);
    }
    Ok(0)
}

fn tostring(vm: &mut Vm) -> LuaResult<u32> {
    match &check_handle(vm, 1)?.stream {
        Some(stream) => {
            let text = format!("file ({:p})", Arc::as_ptr(stream));
            vm.ret_str(text.as_bytes())
        }
        None => vm.ret_str(b"file (closed)"),
    }
}

fn read_method(vm: &mut Vm) -> LuaResult<u32> {
    let stream = check_stream(vm, 1)?;
    let count = vm.nargs() - 1;
    let mut stream = operate(vm, stream);
    let outcome = read::read(vm, &mut stream, 2, count)?;
    drop(stream);
    read::results(vm, outcome)
}

fn lines_method(vm: &mut Vm) -> LuaResult<u32> {
    check_stream(vm, 1)?;
    let Some(file) = vm.arg(1).as_userdata() else { return Ok(0) };
    let iterator = lines::iterator(vm, file, false)?;
    vm.ret(iterator)
}

fn write(vm: &mut Vm) -> LuaResult<u32> {
    check_stream(vm, 1)?;
    match vm.arg(1).as_userdata() {
        Some(file) => write_arguments(vm, file, 2),
        None => Ok(0),
    }
}

/// Writes the arguments from `first` on and returns the file; after an error the rest is still checked, but
/// what is returned is the error.
pub(super) fn write_arguments(vm: &mut Vm, file: Gc<Userdata>, first: u32) -> LuaResult<u32> {
    let Some(stream) = stream_of(file) else { return Ok(0) };
    let last = vm.nargs();
    // The default file may be another one before this is over.
    vm.push(file.into());
    let mut stream = operate(vm, stream);
    let mut result = Ok(());
    for i in first..=last {
        let written = match write_value(&mut stream, vm.arg(i)) {
            Some(written) => written,
            None => return Err(vm.type_error(i, "string")),
        };
        result = result.and(written);
    }
    drop(stream);
    match result {
        Ok(()) => vm.ret(file),
        Err(error) => errno::failure(vm, error, None),
    }
}

fn flush(vm: &mut Vm) -> LuaResult<u32> {
    let stream = check_stream(vm, 1)?;
    let result = operate(vm, stream).flush();
    errno::file_result(vm, result, None)
}

fn seek(vm: &mut Vm) -> LuaResult<u32> {
    let stream = check_stream(vm, 1)?;
    let whence = vm.check_option(2, Some("cur"), &["set", "cur", "end"])?;
    let offset = vm.opt_int(3, 0)?;
    let to = match whence {
        // A negative offset becomes a huge one, which the stream refuses.
        0 => SeekFrom::Start(offset as u64),
        1 => SeekFrom::Current(offset),
        _ => SeekFrom::End(offset),
    };
    let result = operate(vm, stream).seek(to);
    match result {
        Ok(position) => vm.ret(position as i64),
        Err(error) => errno::failure(vm, error, None),
    }
}

fn setvbuf(vm: &mut Vm) -> LuaResult<u32> {
    const MODES: [Buffering; 3] = [Buffering::No, Buffering::Full, Buffering::Line];
    let stream = check_stream(vm, 1)?;
    let mode = vm.check_option(2, None, &["no", "full", "line"])?;
    let size = vm.opt_int(3, 1024)?;
    let result = operate(vm, stream).set_buffering(MODES[mode], size.clamp(0, 1 << 30) as usize);
    errno::file_result(vm, result, None)
}
