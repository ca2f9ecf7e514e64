//! `require "lfs"`: the functions of LuaFileSystem 1.8, with its messages and results.
//!
//! Programs know this library from LuaRocks; the real one is a C module, which cannot be loaded. It is in
//! `package.preload`, and costs nothing before it is required. What it names "mode" of a file for Windows
//! (`setmode`) is accepted and means nothing, as there.
//!
//! What may have to wait for a disk is done by a helper where others can use the domain (`asked.rs`);
//! attributes that the system has in memory are there at once. Changing the directory of the process is not,
//! as who is cancelled would not know where it is; nor is anything about locks and links that exist, which
//! the system has just looked at.
//!
//! An iterator over a directory owns a descriptor, which is closed when the last entry was read, by
//! `dir:close()`, at the end of the `for` loop, or when it is collected.

use crate::asked::{ask, ask_or, ask_unless};
use crate::errno::{self, c_bytes};
use crate::io::descriptor_of;
use crate::sys::{self, Lock};
use perilune_vm::host::{Doing, Subject};
use perilune_vm::{Gc, LuaResult, Native, Userdata, Value, Vm};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::cell::RefCell;

/// Names of the metatables, as the original has them.
const DIRECTORY: &str = "directory metatable";
const LOCK: &str = "lock metatable";
/// The file that `lock_dir` makes.
const LOCK_FILE: &[u8] = b"/lockfile.lfs";

/// Makes `require "lfs"` work.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let package = vm.get_field(vm.globals(), "package")?;
    if let Some(package) = package.as_table()
        && let Some(preload) = vm.get_field(package, "preload")?.as_table()
    {
        vm.set_field(preload, "lfs", Value::native(&MODULE))?;
    }
    Ok(())
}

static MODULE: Native = Native::leaf("lfs", |vm| {
    let lfs = vm.new_table(0, 16)?;
    vm.push(lfs.into());
    vm.register(
        lfs,
        &[
            &ATTRIBUTES,
            &CHDIR,
            &CURRENTDIR,
            &DIR,
            &LINK,
            &LOCK_FILE_PART,
            &LOCK_DIR,
            &MKDIR,
            &RMDIR,
            &SETMODE,
            &SYMLINKATTRIBUTES,
            &TOUCH,
            &UNLOCK,
        ],
    )?;
    let version = vm.value_str(b"LuaFileSystem 1.8.0 (perilune)")?;
    vm.set_field(lfs, "_VERSION", version)?;
    let (directory, _) = vm.new_metatable(DIRECTORY)?;
    vm.register(directory, &[&DIR_GC, &DIR_END])?;
    let methods = vm.new_table(0, 2)?;
    vm.register(methods, &[&DIR_NEXT, &DIR_CLOSE])?;
    vm.set_field(directory, "__index", methods.into())?;
    let (lock, _) = vm.new_metatable(LOCK)?;
    vm.register(lock, &[&LOCK_GC, &LOCK_END])?;
    let methods = vm.new_table(0, 1)?;
    vm.register(methods, &[&LOCK_FREE])?;
    vm.set_field(lock, "__index", methods.into())?;
    vm.ret(lfs)
});

static ATTRIBUTES: Native = Native::leaf("attributes", |vm| attributes(vm, true));
static SYMLINKATTRIBUTES: Native = Native::leaf("symlinkattributes", |vm| attributes(vm, false));
static CHDIR: Native = Native::leaf("chdir", chdir);
static CURRENTDIR: Native = Native::leaf("currentdir", currentdir);
static DIR: Native = Native::leaf("dir", dir);
static DIR_NEXT: Native = Native::leaf("next", dir_next);
static DIR_CLOSE: Native = Native::leaf("close", dir_close);
static DIR_GC: Native = Native::leaf("__gc", dir_close);
static DIR_END: Native = Native::leaf("__close", dir_close);
static LINK: Native = Native::leaf("link", link);
static LOCK_FILE_PART: Native = Native::leaf("lock", lock);
static UNLOCK: Native = Native::leaf("unlock", unlock);
static LOCK_DIR: Native = Native::leaf("lock_dir", lock_dir);
static LOCK_FREE: Native = Native::leaf("free", lock_free);
static LOCK_GC: Native = Native::leaf("__gc", lock_free);
static LOCK_END: Native = Native::leaf("__close", lock_free);
static MKDIR: Native = Native::leaf("mkdir", mkdir);
static RMDIR: Native = Native::leaf("rmdir", rmdir);
static SETMODE: Native = Native::leaf("setmode", setmode);
static TOUCH: Native = Native::leaf("touch", touch);

/// `true`, or `nil`, the system's words, its number.
fn result(vm: &mut Vm, result: Result<(), Errno>) -> LuaResult<u32> {
    errno::file_result(vm, result, None)
}

/// `nil` and a text of its own, and the number.
fn refuse(vm: &mut Vm, text: &[u8], error: Option<Errno>) -> LuaResult<u32> {
    vm.push(Value::NIL);
    vm.push_str(text)?;
    match error {
        Some(error) => {
            vm.push(Value::int(i64::from(error.raw_os_error())));
            Ok(3)
        }
        None => Ok(2),
    }
}

// -- Attributes ---------------------------------------------------------------------------------------------

/// The fields, in the original's order.
const FIELDS: [&str; 14] = [
    "mode",
    "dev",
    "ino",
    "nlink",
    "uid",
    "gid",
    "rdev",
    "access",
    "modification",
    "change",
    "size",
    "permissions",
    "blocks",
    "blksize",
];

fn field(vm: &mut Vm, stat: &Stat, name: &str) -> LuaResult<Value> {
    let mode = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Socket => "socket",
        FileType::Fifo => "named pipe",
        FileType::CharacterDevice => "char device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "other",
    };
    let number = match name {
        "mode" => return vm.value_str(mode.as_bytes()),
        "permissions" => {
            let mut text = *b"rwxrwxrwx";
            for (n, letter) in text.iter_mut().enumerate() {
                if stat.st_mode >> (8 - n) & 1 == 0 {
                    *letter = b'-';
                }
            }
            return vm.value_str(&text);
        }
        "dev" => stat.st_dev as i64,
        "ino" => stat.st_ino as i64,
        "nlink" => stat.st_nlink as i64,
        "uid" => i64::from(stat.st_uid),
        "gid" => i64::from(stat.st_gid),
        "rdev" => stat.st_rdev as i64,
        "access" => stat.st_atime,
        "modification" => stat.st_mtime,
        "change" => stat.st_ctime,
        "size" => stat.st_size,
        "blocks" => stat.st_blocks,
        _ => stat.st_blksize,
    };
    Ok(Value::int(number))
}

/// What is asked of a helper.
fn doing(verb: &'static str, path: &[u8]) -> impl FnOnce() -> Doing + use<> {
    let what = Subject::Name(path.to_vec());
    move || Doing { verb, what }
}

/// What the system has in memory of a file, if it has.
fn stat_at_hand(path: &[u8], follow: bool) -> Option<Result<Stat, Errno>> {
    let kind = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | kind;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
        Ok(file) => Some(rustix::fs::fstat(&file)),
        Err(Errno::NOENT) => Some(Err(Errno::NOENT)),
        Err(_) => None,
    }
}

fn attributes(vm: &mut Vm, follow: bool) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let look = {
        let path = path.clone();
        move || if follow { rustix::fs::stat(path.as_slice()) } else { rustix::fs::lstat(path.as_slice()) }
    };
    let stat = match ask_unless(vm, doing("look at", &path), || stat_at_hand(&path, follow), look)? {
        Ok(stat) => stat,
        Err(error) => {
            let text =
                [b"cannot obtain information from file '", path.as_slice(), b"': ", &errno::message(error)]
                    .concat();
            return refuse(vm, &text, Some(error));
        }
    };
    let is_link = !follow && FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    if let Some(name) = vm.arg(2).as_string() {
        let name = name.to_text();
        if name == "target" && !follow {
            let target = if is_link { target(vm, &path)? } else { Value::NIL };
            return vm.ret(target);
        }
        if !FIELDS.contains(&&*name) {
            return Err(vm.error(format!("invalid attribute name '{name}'")));
        }
        let value = field(vm, &stat, &name)?;
        return vm.ret(value);
    }
    let table = match vm.arg(2).as_table() {
        Some(table) => table,
        None => vm.new_table(0, FIELDS.len() + 1)?,
    };
    vm.push(table.into());
    for name in FIELDS {
        let value = field(vm, &stat, name)?;
        vm.set_field(table, name, value)?;
    }
    if is_link {
        let target = target(vm, &path)?;
        vm.set_field(table, "target", target)?;
    }
    Ok(1)
}

fn target(vm: &mut Vm, path: &[u8]) -> LuaResult<Value> {
    match rustix::fs::readlink(path, Vec::new()) {
        Ok(target) => vm.value_str(target.as_bytes()),
        Err(_) => Ok(Value::NIL),
    }
}

// -- Directories --------------------------------------------------------------------------------------------

fn chdir(vm: &mut Vm) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    match rustix::process::chdir(path.as_slice()) {
        Ok(()) => vm.ret(true),
        Err(error) => {
            let text = [
                b"Unable to change working directory to '",
                path.as_slice(),
                b"'\n",
                &errno::message(error),
                b"\n",
            ]
            .concat();
            refuse(vm, &text, None)
        }
    }
}

fn currentdir(vm: &mut Vm) -> LuaResult<u32> {
    match rustix::process::getcwd(Vec::new()) {
        Ok(path) => vm.ret_str(path.as_bytes()),
        Err(error) => result(vm, Err(error)),
    }
}

fn mkdir(vm: &mut Vm) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let doing = doing("make", &path);
    let made = ask(vm, doing, move || rustix::fs::mkdir(path.as_slice(), Mode::from_raw_mode(0o775)))?;
    result(vm, made)
}

fn rmdir(vm: &mut Vm) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let removed = ask(vm, doing("remove", &path), move || rustix::fs::rmdir(path.as_slice()))?;
    result(vm, removed)
}

/// What an iterator over a directory has open.
struct Directory(RefCell<Option<Entries>>);

enum Entries {
    /// They are read when they are wanted.
    Open(Dir),
    /// A helper has read them.
    Read(std::vec::IntoIter<Entry>),
}

/// A name, or why there is none.
type Entry = Result<Vec<u8>, Errno>;

impl Entries {
    fn open(path: &[u8]) -> Result<Dir, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).and_then(Dir::new)
    }

    /// All of them.
    fn read(path: &[u8]) -> Result<Entries, Errno> {
        let entries = Entries::open(path)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
        Ok(Entries::Read(entries.collect::<Vec<Entry>>().into_iter()))
    }

    fn next(&mut self) -> Option<Entry> {
        match self {
            Entries::Open(open) => open.read().map(|entry| Ok(entry?.file_name().to_bytes().to_vec())),
            Entries::Read(read) => read.next(),
        }
    }
}

fn dir(vm: &mut Vm) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let read = {
        let path = path.clone();
        move || Entries::read(&path)
    };
    let open = || Entries::open(&path).map(Entries::Open);
    let opened = ask_or(vm, doing("list", &path), || None, read, open)?;
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let text = [b"cannot open ", path.as_slice(), b": ", &errno::message(error)].concat();
            return Err(vm.error(text));
        }
    };
    let next = Value::native(&DIR_NEXT);
    let directory = vm.new_userdata(Directory(RefCell::new(Some(opened))), 0)?;
    vm.push(next);
    vm.push(directory.into());
    let metatable = vm.metatable_named(DIRECTORY)?;
    vm.set_metatable_of(directory.into(), metatable)?;
    vm.push(Value::NIL);
    vm.push(directory.into());
    Ok(4)
}

/// The value in argument 1, if it is of this kind.
fn check<'a, T: 'static>(vm: &mut Vm, name: &str) -> LuaResult<&'a T> {
    let userdata: Option<Gc<Userdata>> = vm.arg(1).as_userdata();
    // SAFETY: it is an argument for the time the native runs, and nobody borrows one mutably.
    match userdata.and_then(|u| unsafe { u.data::<T>() }) {
        Some(data) => Ok(data),
        None => Err(vm.type_error(1, name)),
    }
}

fn dir_next(vm: &mut Vm) -> LuaResult<u32> {
    let directory: &Directory = check(vm, DIRECTORY)?;
    let mut open = directory.0.borrow_mut();
    let Some(entries) = &mut *open else { return Err(vm.arg_error(1, "closed directory")) };
    match entries.next() {
        Some(Ok(name)) => {
            let name = vm.value_str(&name)?;
            vm.ret(name)
        }
        Some(Err(error)) => Err(vm.error(errno::message(error))),
        None => {
            *open = None;
            vm.ret(Value::NIL)
        }
    }
}

fn dir_close(vm: &mut Vm) -> LuaResult<u32> {
    let directory: &Directory = check(vm, DIRECTORY)?;
    let closed = directory.0.borrow_mut().take();
    drop(closed);
    Ok(0)
}

// -- Locks --------------------------------------------------------------------------------------------------

/// Locks or unlocks a part of an open file, without waiting.
fn lock_part(vm: &mut Vm, lock: Lock, from: u32) -> LuaResult<u32> {
    let (start, length) = (vm.opt_int(from, 0)?, vm.opt_int(from + 1, 0)?);
    // Open for the time of the call.
    let locked = descriptor_of(vm, 1, |fd| sys::lock_part(fd, lock, start, length))?;
    match locked.and_then(|locked| locked) {
        Ok(()) => vm.ret(true),
        Err(error) => refuse(vm, &errno::message(error), None),
    }
}

fn lock(vm: &mut Vm) -> LuaResult<u32> {
    let kind = match vm.check_str(2)?.bytes().first() {
        Some(b'w') => Lock::Write,
        Some(b'r') => Lock::Read,
        _ => return Err(vm.error("lock: invalid mode")),
    };
    lock_part(vm, kind, 3)
}

fn unlock(vm: &mut Vm) -> LuaResult<u32> {
    lock_part(vm, Lock::None, 2)
}

/// The name of a lock file that exists.
struct DirectoryLock(RefCell<Option<Vec<u8>>>);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if let Some(name) = self.0.get_mut().take() {
            let _ = rustix::fs::unlink(name.as_slice());
        }
    }
}

fn lock_dir(vm: &mut Vm) -> LuaResult<u32> {
    let name = [c_bytes(vm.check_str(1)?.bytes()), LOCK_FILE].concat();
    let stale = if vm.arg_is_none_or_nil(2) { None } else { Some(vm.check_int(2)?) };
    // The link holds the number of the process, and nobody can make a second one.
    let make = || rustix::fs::symlink(std::process::id().to_string(), name.as_slice());
    let made = match (make(), stale) {
        (Err(Errno::EXIST), Some(seconds)) => match rustix::fs::lstat(name.as_slice()) {
            Ok(stat) => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
                if now - stat.st_mtime > seconds {
                    let _ = rustix::fs::unlink(name.as_slice());
                    make()
                } else {
                    Err(Errno::EXIST)
                }
            }
            Err(error) => Err(error),
        },
        (made, _) => made,
    };
    match made {
        Err(error) => refuse(vm, &errno::message(error), None),
        Ok(()) => {
            let lock = vm.new_userdata(DirectoryLock(RefCell::new(Some(name))), 0)?;
            vm.push(lock.into());
            let metatable = vm.metatable_named(LOCK)?;
            vm.set_metatable_of(lock.into(), metatable)?;
            Ok(1)
        }
    }
}

fn lock_free(vm: &mut Vm) -> LuaResult<u32> {
    let lock: &DirectoryLock = check(vm, LOCK)?;
    let name = lock.0.borrow_mut().take();
    if let Some(name) = name {
        let _ = rustix::fs::unlink(name.as_slice());
    }
    Ok(0)
}

// -- Everything else ----------------------------------------------------------------------------------------

fn link(vm: &mut Vm) -> LuaResult<u32> {
    let old = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let new = c_bytes(vm.check_str(2)?.bytes()).to_vec();
    let is_symbolic = vm.arg(3).is_truthy();
    let linked = ask(vm, doing("make", &new), move || match is_symbolic {
        true => rustix::fs::symlink(old.as_slice(), new.as_slice()),
        false => rustix::fs::link(old.as_slice(), new.as_slice()),
    })?;
    result(vm, linked)
}

fn setmode(vm: &mut Vm) -> LuaResult<u32> {
    if let Err(error) = descriptor_of(vm, 1, |_| ())? {
        return result(vm, Err(error));
    }
    vm.check_option(2, None, &["text", "binary"])?;
    vm.push(Value::TRUE);
    vm.push_str(b"binary")?;
    Ok(2)
}

/// Argument `n` as a point in time.
fn time(vm: &mut Vm, n: u32) -> LuaResult<Timespec> {
    let seconds = vm.check_num(n)?;
    let whole = seconds.floor();
    Ok(Timespec { tv_sec: whole as i64, tv_nsec: ((seconds - whole) * 1e9) as _ })
}

fn touch(vm: &mut Vm) -> LuaResult<u32> {
    let path = c_bytes(vm.check_str(1)?.bytes()).to_vec();
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW as _ };
    let access = if vm.arg_is_none_or_nil(2) { now } else { time(vm, 2)? };
    let modification = if vm.arg_is_none_or_nil(3) { access } else { time(vm, 3)? };
    let times = Timestamps { last_access: access, last_modification: modification };
    let doing = doing("touch", &path);
    let touched =
        ask(vm, doing, move || rustix::fs::utimensat(CWD, path.as_slice(), &times, AtFlags::empty()))?;
    result(vm, touched)
}
