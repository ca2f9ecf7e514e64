//! `require "perilune.fs"`: files by their names, without stopping a domain for a disk.
//!
//! The system has no way to be told when a file can be opened, renamed or read: such calls block until the
//! disk has answered. Where others can use the domain they are made by helper threads of their own
//! (`helpers.rs`), [`FILES`] at most; elsewhere at once, as a helper costs 50 us. What needs no disk is not
//! handed over: reading a file whose name and contents the system has in memory is tried first, with calls
//! that fail instead of blocking (`RESOLVE_CACHED`, `RWF_NOWAIT`), and writes are made at once while the
//! device has been quick (`pace.rs` of the standard library).
//!
//! An operation that is cancelled, or whose time is over, before a helper has begun with it does not happen;
//! one that has begun comes to its end, and nobody hears of it, but for one that waits for the other end of a
//! FIFO (`fifo.rs`). One with a time limit is made by a helper
//! wherever a wait is possible: the thread itself could not be called back.

use crate::cases;
use crate::failure::Failure;
use crate::fifo;
use crate::file::OPEN;
use crate::helpers::{self, Answer, Desk};
use crate::options;
use crate::watch::{self, WATCH, Watch};
use perilune_domain::outside::{self, Awaited};
use perilune_domain::surplus::{self, Limit};
use perilune_stdlib::io::pace::{self, Pace};
use perilune_stdlib::io::{is_slow_pretended, pretend_to_be_slow};
use perilune_stdlib::sigpipe;
use perilune_trace::ObjectKind;
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::OsStr;
use std::io::{IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Helper threads at most.
const MOST: usize = 48;
/// Operations that wait for one.
const LONGEST: usize = 10_000;
/// `fs.read` returns so much unless the program says otherwise.
const LIMIT: usize = 64 << 20;

pub static FILES: Desk = Desk::new("perilune-files", "operations on files wait", MOST, LONGEST);

/// The module.
pub static MODULE: Native = Native::leaf("perilune.fs", |vm| {
    outside::enter(vm);
    cases::register::<Watch>(&WATCH);
    let module = vm.new_table(0, 11)?;
    vm.push(module.into());
    vm.register(module, &[&READ, &WRITE, &STAT, &DIR, &MKDIR, &RENAME, &REMOVE, &SYNC, &TEMPORARY, &OPEN])?;
    vm.register(module, &[&watch::NEW])?;
    vm.ret(module)
});

/// What is waited for.
pub struct Operation {
    /// What is done to it.
    pub verb: &'static str,
    /// The file.
    pub path: PathBuf,
}

impl Awaited for Operation {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Operation
    }
    fn name(&self) -> String {
        format!("{} '{}'", self.verb, self.path.display())
    }
}

/// A path that is argument `n`.
pub fn check_path(vm: &mut Vm, n: u32) -> LuaResult<PathBuf> {
    let bytes = vm.check_str(n)?.bytes().to_vec();
    if bytes.contains(&0) {
        return Err(vm.arg_error(n, "a path has no zero bytes"));
    }
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// The system's number of an error.
pub fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The failure of an operation on a path.
fn failure(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::from(errno(error)).of(|| format!("cannot {verb} '{}'", path.display()))
}

/// What an operation comes to when its arguments have been looked at.
pub enum Order<T, W> {
    /// It needed no disk, and is done.
    Done(Result<T, Failure>),
    /// This is to be done, which may have to wait for one; until then, at most.
    Work(Arc<Operation>, Option<Instant>, W),
}

/// Argument `n`, the last one, as a table of options of an operation: `timeout`, and these others. The table,
/// and when the operation is over that begins now.
fn limits(vm: &mut Vm, n: u32, others: &[&str]) -> LuaResult<(Option<Gc<Table>>, Option<Instant>)> {
    surplus::none_behind(vm, n, Limit::Own)?;
    if vm.arg_is_none_or_nil(n) {
        return Ok((None, None));
    }
    let table = vm.check_table(n)?;
    let known: Vec<&str> = others.iter().copied().chain(["timeout"]).collect();
    options::check(vm, table, &known)?;
    Ok((Some(table), options::deadline(vm, table)?))
}

/// The same, of an operation that has no other option.
pub fn limit(vm: &mut Vm, n: u32) -> LuaResult<Option<Instant>> {
    limits(vm, n, &[]).map(|(_, deadline)| deadline)
}

/// Does what `order` makes of the arguments at the first turn, on a helper if others can use the domain.
pub fn operation<T: Send + 'static, W>(
    vm: &mut Vm,
    order: impl FnOnce(&mut Vm) -> LuaResult<Order<T, W>>,
) -> LuaResult<Result<T, Failure>>
where
    W: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    Ok(match helpers::answer::<Result<T, Failure>>(vm)? {
        Answer::Some(result) => result,
        Answer::Failed(failure) => Err(failure),
        Answer::None => {
            outside::give_way(vm)?;
            let (what, deadline, work) = match order(vm)? {
                Order::Done(result) => return Ok(result),
                Order::Work(what, deadline, work) => (what, deadline, work),
            };
            if deadline.is_none() && !vm.can_park() {
                return Ok(vm.blocking(work));
            }
            let work = move || {
                pretend_to_be_slow();
                work()
            };
            match helpers::ask(vm, &FILES, what, deadline, work)? {
                Answer::Some(result) => result,
                Answer::Failed(failure) => Err(failure),
                Answer::None => Err(Failure::Closed),
            }
        }
    })
}

/// The same on a path: what is to be done there, and until when. `deliver` pushes its result.
pub fn operate<T: Send + 'static, W>(
    vm: &mut Vm,
    verb: &'static str,
    order: impl FnOnce(&mut Vm) -> LuaResult<(PathBuf, Option<Instant>, W)>,
    deliver: impl FnOnce(&mut Vm, T) -> LuaResult<u32>,
) -> LuaResult<u32>
where
    W: FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
{
    let order = |vm: &mut Vm| order(vm).map(|(path, deadline, work)| (path, deadline, None, work));
    operate_at_once(vm, verb, order, deliver)
}

/// The same, where the result may be there already.
fn operate_at_once<T: Send + 'static, W>(
    vm: &mut Vm,
    verb: &'static str,
    order: impl FnOnce(&mut Vm) -> LuaResult<(PathBuf, Option<Instant>, Option<std::io::Result<T>>, W)>,
    deliver: impl FnOnce(&mut Vm, T) -> LuaResult<u32>,
) -> LuaResult<u32>
where
    W: FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
{
    let order = |vm: &mut Vm| {
        let (path, deadline, there, work) = order(vm)?;
        if let Some(result) = there {
            return Ok(Order::Done(result.map_err(|error| failure(verb, &path, &error))));
        }
        let what = Arc::new(Operation { verb, path: path.clone() });
        let work = move || work(&path).map_err(|error| failure(verb, &path, &error));
        Ok(Order::Work(what, deadline, work))
    };
    match operation(vm, order)? {
        Ok(result) => deliver(vm, result),
        Err(failure) => failure.ret(vm),
    }
}

fn done(vm: &mut Vm, (): ()) -> LuaResult<u32> {
    vm.ret(true)
}

// -- Contents -----------------------------------------------------------------------------------------------

/// What `fs.read` is asked for.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    /// At most so many bytes.
    length: Option<usize>,
    /// More than so many are a failure.
    limit: usize,
    deadline: Option<Instant>,
}

/// Argument `n`: a limit, or a table of options.
fn check_part(vm: &mut Vm, n: u32) -> LuaResult<Part> {
    let mut part = Part { offset: 0, length: None, limit: LIMIT, deadline: None };
    let bytes = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
    surplus::none_behind(vm, n, Limit::Table)?;
    if let Some(table) = vm.arg(n).as_table() {
        options::check(vm, table, &["limit", "offset", "length", "timeout"])?;
        part.deadline = options::deadline(vm, table)?;
        part.offset = options::int(vm, table, "offset", 0, i64::MAX)?.unwrap_or(0) as u64;
        part.length = options::int(vm, table, "length", 0, i64::MAX)?.map(bytes);
        part.limit = options::int(vm, table, "limit", 0, i64::MAX)?.map_or(LIMIT, bytes);
        return Ok(part);
    }
    match vm.opt_int(n, LIMIT as i64)? {
        limit if limit < 0 => return Err(vm.arg_error(n, "a limit must not be negative")),
        limit => part.limit = bytes(limit),
    }
    Ok(part)
}

/// `fs.read(path [, limit or {limit=, offset=, length=, timeout=}])`: the contents.
static READ: Native = Native::leaf("read", |vm| {
    let part = check_part(vm, 2)?;
    let deliver = |vm: &mut Vm, contents: Option<Vec<u8>>| match contents {
        Some(contents) => vm.ret_str(&contents),
        None => {
            let is_part = part.offset > 0 || part.length.is_some();
            let what = if is_part { "the part" } else { "the file" };
            Failure::Limit(format!("{what} is longer than {} bytes", part.limit)).ret(vm)
        }
    };
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let whole = part.offset == 0 && part.length.is_none();
        let now = if vm.can_park() && whole { read_now(&path, part.limit) } else { Now::Unknown };
        let (there, fifo) = match now {
            Now::Contents(contents) => (Some(Ok(Some(contents))), None),
            Now::Fifo(fd) => (None, Some(fd)),
            Now::Unknown => (None, None),
        };
        Ok((path, part.deadline, there, move |path: &Path| read(path, fifo, part)))
    };
    operate_at_once(vm, "read", order, deliver)
});

/// What of a file can be had at once.
enum Now {
    Contents(Vec<u8>),
    /// It is a FIFO, and open now: to open it twice would let a writer begin that nobody reads from.
    Fifo(OwnedFd),
    Unknown,
}

/// The contents of a file, or of a FIFO that is open already. `None`: it is longer.
fn read(path: &Path, fifo: Option<OwnedFd>, part: Part) -> std::io::Result<Option<Vec<u8>>> {
    let mut contents = Vec::new();
    let most = u64::try_from(part.limit).unwrap_or(u64::MAX).saturating_add(1);
    let length = part.length.and_then(|length| u64::try_from(length).ok());
    let fd = match fifo {
        Some(fd) => fifo::opened(fd)?,
        None => fifo::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
    };
    let mut file = std::fs::File::from(fd);
    if part.offset > 0 {
        file.seek(SeekFrom::Start(part.offset))?;
    }
    file.take(length.map_or(most, |length| length.min(most))).read_to_end(&mut contents)?;
    Ok((contents.len() <= part.limit).then_some(contents))
}

/// The contents of a file that the system has in memory.
fn read_now(path: &Path, limit: usize) -> Now {
    if is_slow_pretended() {
        return Now::Unknown;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(fd) = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) else {
        return Now::Unknown;
    };
    match rustix::fs::fstat(&fd) {
        Ok(stat) => match (FileType::from_raw_mode(stat.st_mode), usize::try_from(stat.st_size)) {
            (FileType::Fifo, _) => Now::Fifo(fd),
            (FileType::RegularFile, Ok(size)) if size > 0 && size <= limit => {
                read_size_now(&fd, size).map_or(Now::Unknown, Now::Contents)
            }
            _ => Now::Unknown,
        },
        Err(_) => Now::Unknown,
    }
}

fn read_size_now(fd: &OwnedFd, size: usize) -> Option<Vec<u8>> {
    let mut contents = vec![0; size];
    let mut there = 0;
    while there < size {
        let mut piece = [IoSliceMut::new(&mut contents[there..])];
        match rustix::io::preadv2(fd, &mut piece, there as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) | Err(_) => return None,
            Ok(n) => there += n,
        }
    }
    Some(contents)
}

/// `fs.write(path, text [, {append=, atomic=, sync=, timeout=}])`
static WRITE: Native = Native::leaf("write", |vm| {
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let text = vm.check_str(2)?.bytes().to_vec();
        let (mut append, mut atomic, mut sync) = (false, false, false);
        let (table, deadline) = limits(vm, 3, &["append", "atomic", "sync"])?;
        if let Some(table) = table {
            append = options::flag(vm, table, "append")?.unwrap_or(false);
            atomic = options::flag(vm, table, "atomic")?.unwrap_or(false);
            sync = options::flag(vm, table, "sync")?.unwrap_or(false);
            if append && atomic {
                return Err(vm.arg_error(3, "options 'append' and 'atomic' exclude each other"));
            }
        }
        let now = if vm.can_park() && append && !sync { append_now(&path, &text) } else { Err(None) };
        let (there, fifo) = match now {
            Ok(done) => (Some(done), None),
            Err(fifo) => (None, fifo),
        };
        let work = move |path: &Path| match fifo {
            Some(fifo) => write_to_reader(&fifo::waiting(fifo)?, &text),
            None if atomic => replace(path, &text, sync),
            None => write(path, &text, append, sync),
        };
        Ok((path, deadline, there, work))
    };
    operate_at_once(vm, "write", order, done)
});

fn write(path: &Path, text: &[u8], append: bool, sync: bool) -> std::io::Result<()> {
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | if append { OFlags::APPEND } else { OFlags::TRUNC };
    let mut file = std::fs::File::from(fifo::open(path, flags, Mode::from_raw_mode(0o666))?);
    // How long a FIFO takes says nothing of a device.
    match file.metadata()?.is_file() {
        true => patiently(Pace::of(file.as_fd()), text, |piece| file.write_all(piece))?,
        false => write_to_reader(&file, text)?,
    }
    if sync { file.sync_all() } else { Ok(()) }
}

/// Writes to what is no file on a disk, and may be a FIFO that has lost its reader.
fn write_to_reader(fd: impl AsFd, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match sigpipe::write(&fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes in pieces, each of which says something of the device.
pub fn patiently<E>(
    pace: &Pace,
    bytes: &[u8],
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    bytes.chunks(pace::LARGEST).try_for_each(|piece| pace.patiently(|| write(piece)))
}

/// Appends to a file that is there, whose name the system has in memory, if its device takes writes quickly.
/// An error: a helper has to do it, and if it is a FIFO that has a reader, with this, since a second writer
/// would be one too many.
fn append_now(path: &Path, text: &[u8]) -> Result<std::io::Result<()>, Option<OwnedFd>> {
    if text.len() > pace::LARGEST || is_slow_pretended() {
        return Err(None);
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).map_err(|_| None)?;
    let stat = rustix::fs::fstat(&fd).map_err(|_| None)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Fifo => return Err(Some(fd)),
        _ => return Err(None),
    }
    let mut file = std::fs::File::from(fd);
    Pace::of_device(stat.st_dev).at_once(|| file.write_all(text)).ok_or(None)
}

/// Whoever reads it finds the old contents or the new ones, whole.
fn replace(path: &Path, text: &[u8], sync: bool) -> std::io::Result<()> {
    let old = std::fs::metadata(path).ok();
    // A new file has what the user wants new files to have (`umask`); one that takes another's place has its
    // permissions, and until then those of nobody else.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (mut file, name) = temporary(folder, mode)?;
    let written = || -> std::io::Result<()> {
        file.write_all(text)?;
        if let Some(old) = &old {
            file.set_permissions(old.permissions())?;
        }
        if sync {
            file.sync_all()?;
        }
        std::fs::rename(&name, path)
    };
    let mut written = written;
    written().inspect_err(|_| drop(std::fs::remove_file(&name)))
}

/// `fs.sync(path [, {timeout=}])`: what was written to a file, or done to a directory, is on the disk.
static SYNC: Native = Native::leaf("sync", |vm| {
    let order = |vm: &mut Vm| {
        let (path, deadline) = (check_path(vm, 1)?, limit(vm, 2)?);
        Ok((path, deadline, |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all())))
    };
    operate(vm, "sync", order, done)
});

/// A new file with a name of its own.
fn temporary(folder: &Path, mode: u32) -> std::io::Result<(std::fs::File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let clock = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| u64::from(since.subsec_nanos()));
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ clock;
        let name = folder.join(format!(".{:x}-{number:x}.tmp", std::process::id()));
        match std::fs::OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((file, name)),
        }
    }
}

/// `fs.temporary([folder [, {timeout=}]])`: the name of a new, empty file that is this user's alone.
static TEMPORARY: Native = Native::leaf("temporary", |vm| {
    let order = |vm: &mut Vm| {
        let folder = if vm.arg_is_none_or_nil(1) { std::env::temp_dir() } else { check_path(vm, 1)? };
        Ok((folder, limit(vm, 2)?, |folder: &Path| {
            temporary(folder, 0o600).map(|(_, name)| name.into_os_string().into_vec())
        }))
    };
    operate(vm, "make a file in", order, |vm, name: Vec<u8>| vm.ret_str(&name))
});

// -- Names --------------------------------------------------------------------------------------------------

/// What is told of a file.
struct Facts {
    kind: &'static str,
    numbers: [(&'static str, i64); 6],
    times: [(&'static str, f64); 3],
}

/// `fs.stat(path [, {follow=, timeout=}])`
static STAT: Native = Native::leaf("stat", |vm| {
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let mut follow = true;
        let (table, deadline) = limits(vm, 2, &["follow"])?;
        if let Some(table) = table {
            follow = options::flag(vm, table, "follow")?.unwrap_or(true);
        }
        Ok((path, deadline, move |path: &Path| {
            let found = if follow { std::fs::metadata(path)? } else { std::fs::symlink_metadata(path)? };
            Ok(facts(&found))
        }))
    };
    operate(vm, "stat", order, |vm, facts: Facts| {
        let table = vm.new_table(0, 10)?;
        vm.push(table.into());
        let kind = vm.value_str(facts.kind.as_bytes())?;
        vm.set_field(table, "type", kind)?;
        for (name, number) in facts.numbers {
            vm.set_field(table, name, Value::int(number))?;
        }
        for (name, time) in facts.times {
            vm.set_field(table, name, Value::float(time))?;
        }
        Ok(1)
    })
});

fn facts(found: &std::fs::Metadata) -> Facts {
    let kind = match FileType::from_raw_mode(found.mode()) {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Socket => "socket",
        FileType::Fifo => "fifo",
        _ => "device",
    };
    let time = |seconds: i64, nanos: i64| seconds as f64 + nanos as f64 / 1e9;
    Facts {
        kind,
        numbers: [
            ("size", found.size() as i64),
            ("permissions", i64::from(found.mode() & 0o7777)),
            ("links", found.nlink() as i64),
            ("inode", found.ino() as i64),
            ("uid", i64::from(found.uid())),
            ("gid", i64::from(found.gid())),
        ],
        times: [
            ("modified", time(found.mtime(), found.mtime_nsec())),
            ("accessed", time(found.atime(), found.atime_nsec())),
            ("changed", time(found.ctime(), found.ctime_nsec())),
        ],
    }
}

/// `fs.dir(path [, {timeout=}])`: the names in a directory, sorted.
static DIR: Native = Native::leaf("dir", |vm| {
    let order = |vm: &mut Vm| {
        let (path, deadline) = (check_path(vm, 1)?, limit(vm, 2)?);
        Ok((path, deadline, |path: &Path| {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(path)? {
                names.push(entry?.file_name().into_vec());
            }
            names.sort_unstable();
            Ok(names)
        }))
    };
    operate(vm, "list", order, |vm, names: Vec<Vec<u8>>| {
        let list = vm.new_table(names.len(), 0)?;
        vm.push(list.into());
        for (n, name) in names.iter().enumerate() {
            let name = vm.value_str(name)?;
            vm.raw_set_int(list, n as i64 + 1, name)?;
        }
        Ok(1)
    })
});

/// `fs.mkdir(path [, {parents=, timeout=}])`
static MKDIR: Native = Native::leaf("mkdir", |vm| {
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let mut parents = false;
        let (table, deadline) = limits(vm, 2, &["parents"])?;
        if let Some(table) = table {
            parents = options::flag(vm, table, "parents")?.unwrap_or(false);
        }
        let work = move |path: &Path| {
            if parents { std::fs::create_dir_all(path) } else { std::fs::create_dir(path) }
        };
        Ok((path, deadline, work))
    };
    operate(vm, "make", order, done)
});

/// `fs.rename(from, to [, {timeout=}])`
static RENAME: Native = Native::leaf("rename", |vm| {
    let order = |vm: &mut Vm| {
        let (from, to) = (check_path(vm, 1)?, check_path(vm, 2)?);
        Ok((from, limit(vm, 3)?, move |from: &Path| std::fs::rename(from, to)))
    };
    operate(vm, "rename", order, done)
});

/// `fs.remove(path [, {recursive=, timeout=}])`: a file or an empty directory, or everything in it.
static REMOVE: Native = Native::leaf("remove", |vm| {
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let mut recursive = false;
        let (table, deadline) = limits(vm, 2, &["recursive"])?;
        if let Some(table) = table {
            recursive = options::flag(vm, table, "recursive")?.unwrap_or(false);
        }
        Ok((path, deadline, move |path: &Path| match std::fs::symlink_metadata(path)?.is_dir() {
            true if recursive => std::fs::remove_dir_all(path),
            true => std::fs::remove_dir(path),
            false => std::fs::remove_file(path),
        }))
    };
    operate(vm, "remove", order, done)
});
