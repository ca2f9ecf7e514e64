//! `fs.watch`: changes of a file, or of what is in a directory, as they come (`inotify`).
//!
//! A file is watched by its name and not by its inode: the directory that it is in is, and what concerns
//! other names is passed over. So a file may be absent, be replaced by another one (as editors, `fs.write`
//! with `atomic` and rotation of logs do) and come back, and is watched all the time.
//!
//! Changes are told in order. What the program does not fetch waits in the system, which drops changes when
//! there are too many (16,384 as a rule) and says so: the program is told that some were missed. Nothing is
//! copied from there before somebody asks.
//!
//! Rejected: a channel with the changes (whoever does not receive would have them pile up here, or lose them
//! unheard); whole trees (a watch for each directory, with races between a new one and what is put into it; a
//! program that wants them watches what it finds).

use crate::cases::Ready;
use crate::failure::Failure;
use crate::fs::operate;
use crate::poller::{self, Registration, Source};
use crate::slot::{Left, Wakes};
use crate::waiting::{Side, Waited, read_already, reader, turn, wait};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Waiter};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_trace::ObjectKind;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The kind of watches.
pub static WATCH: SharedKind = SharedKind::new("watch", open);

/// Bytes that are fetched from the system at a time. One change with the longest name takes 272.
const FETCHED: usize = 4096;

/// What is watched for.
const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// The directory itself is gone, or is somewhere else.
const GONE: ReadFlags =
    ReadFlags::DELETE_SELF.union(ReadFlags::MOVE_SELF).union(ReadFlags::IGNORED).union(ReadFlags::UNMOUNT);

/// What a program has asked for.
struct Asked {
    fd: OwnedFd,
    folder: PathBuf,
    /// The one name in it that matters.
    only: Option<Vec<u8>>,
}

/// A change.
struct Change {
    kind: &'static str,
    path: Vec<u8>,
    is_directory: bool,
}

struct Inner {
    fd: Option<OwnedFd>,
    /// Fetched and not handed out.
    changes: VecDeque<Change>,
}

/// A file or directory that is watched.
pub struct Watch {
    registration: Registration,
    inner: Mutex<Inner>,
    folder: PathBuf,
    only: Option<Vec<u8>>,
}

impl Watch {
    /// The next change, under the lock.
    fn next(&self, inner: &mut Inner) -> Result<Option<Change>, Failure> {
        loop {
            if let Some(change) = inner.changes.pop_front() {
                return Ok(Some(change));
            }
            if !self.fetch(inner)? {
                return Ok(None);
            }
        }
    }

    /// Fetches what the system has. False: nothing.
    fn fetch(&self, inner: &mut Inner) -> Result<bool, Failure> {
        let Some(fd) = &inner.fd else { return Err(Failure::Closed) };
        self.source().read.clear();
        let mut bytes = [MaybeUninit::uninit(); FETCHED];
        let mut events = inotify::Reader::new(fd, &mut bytes);
        let mut is_gone = false;
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            is_gone |= flags.intersects(GONE);
            if let Some(change) = self.change(flags, event.file_name().map(|name| name.to_bytes())) {
                inner.changes.push_back(change);
            }
            if events.is_buffer_empty() {
                break;
            }
        }
        if is_gone {
            let path = self.folder.clone().into_os_string().into_vec();
            inner.changes.push_back(Change { kind: "removed", path, is_directory: true });
            // Before its descriptor is closed, as a ring wants it.
            self.registration.end();
            inner.fd = None;
        }
        Ok(true)
    }

    /// What a program is told of an event, if it is.
    fn change(&self, flags: ReadFlags, name: Option<&[u8]>) -> Option<Change> {
        let kind = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            "missed"
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            "created"
        } else if flags.contains(ReadFlags::MODIFY) {
            "changed"
        } else if flags.contains(ReadFlags::CLOSE_WRITE) {
            "written"
        } else if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            "removed"
        } else {
            return None;
        };
        let is_of_all = kind == "missed";
        if !is_of_all && self.only.as_deref().is_some_and(|only| name != Some(only)) {
            return None;
        }
        let path = match (name, &self.only) {
            (Some(name), _) => self.folder.join(OsStr::from_bytes(name)),
            (None, Some(only)) => self.folder.join(OsStr::from_bytes(only)),
            (None, None) => self.folder.clone(),
        };
        let is_directory = flags.contains(ReadFlags::ISDIR);
        Some(Change { kind, path: path.into_os_string().into_vec(), is_directory })
    }

    fn close(&self) -> bool {
        self.registration.end();
        let fd = self.inner.lock().fd.take();
        let first = fd.is_some();
        drop(fd);
        self.source().read.wake(Wakes::All);
        first
    }
}

impl Waited for Watch {
    const NAME: &'static str = "watch";
    fn source(&self) -> &Source {
        &self.registration.source
    }
    fn deadline(&self, _: Side) -> Option<Instant> {
        None
    }
}

impl Awaited for Watch {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Operation
    }
    fn name(&self) -> String {
        let only = self.only.as_deref().map_or(OsStr::new(""), OsStr::from_bytes);
        format!("watch '{}'", self.folder.join(only).display())
    }
}

impl SharedObject for Watch {
    fn kind(&self) -> &'static SharedKind {
        &WATCH
    }
    fn label(&self) -> Option<String> {
        Some(self.folder.display().to_string())
    }
}

impl Change {
    fn push(&self, vm: &mut Vm) -> LuaResult<u32> {
        let table = vm.new_table(0, 3)?;
        vm.push(table.into());
        let kind = vm.value_str(self.kind.as_bytes())?;
        vm.set_field(table, "kind", kind)?;
        let path = vm.value_str(&self.path)?;
        vm.set_field(table, "path", path)?;
        vm.set_field(table, "directory", self.is_directory.into())?;
        Ok(1)
    }
}

impl Ready for Watch {
    fn take_case(self: &Arc<Self>, vm: &mut Vm, _: Side) -> LuaResult<Option<u32>> {
        if let Some(other) = reader(&**self) {
            return Err(read_already::<Watch>(vm, &other));
        }
        let next = self.next(&mut self.inner.lock());
        match next {
            Ok(Some(change)) => change.push(vm).map(Some),
            Ok(None) => Ok(None),
            Err(failure) => failure.ret(vm).map(Some),
        }
    }

    fn leave_case(&self, _: Side, waiter: Arc<Waiter>) -> Option<Left> {
        let mut inner = self.inner.lock();
        if !inner.changes.is_empty() || !matches!(self.fetch(&mut inner), Ok(false)) {
            return None;
        }
        self.source().read.leave(waiter).ok()
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&RECV, &CLOSE], &[("__call", &NEXT), ("__close", &AT_SCOPE_END)])
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Watch>> {
    surplus::this(vm, &WATCH, last, limit)
}

/// `fs.watch(path [, {timeout=}])`: what tells of changes of a file, or in a directory.
pub static NEW: Native = Native::leaf("watch", |vm| {
    let order =
        |vm: &mut Vm| Ok((crate::fs::check_path(vm, 1)?, crate::fs::limit(vm, 2)?, begin as fn(&Path) -> _));
    operate(vm, "watch", order, |vm, asked: Asked| {
        let registration = match poller::register(&asked.fd) {
            Ok(registration) => registration,
            Err(error) => return Failure::from(error).of(|| "cannot watch files".to_owned()).ret(vm),
        };
        let Asked { fd, folder, only } = asked;
        let inner = Mutex::new(Inner { fd: Some(fd), changes: VecDeque::new() });
        let watch = vm.shared_ref(Arc::new(Watch { registration, inner, folder, only }));
        vm.ret(watch)
    })
});

fn begin(path: &Path) -> std::io::Result<Asked> {
    let (folder, only) = if path.is_dir() {
        (path.to_owned(), None)
    } else {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or(std::io::ErrorKind::NotFound)?;
        (folder.to_owned(), Some(name.as_bytes().to_vec()))
    };
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, &folder, WANTED)?;
    Ok(Asked { fd, folder, only })
}

/// The next change; waits for it, for as long as the argument of number `span` says.
fn next(vm: &mut Vm, span: Option<u32>) -> LuaResult<Result<Change, Failure>> {
    let watch = this(vm, span.unwrap_or(ANY), Limit::Own)?;
    let mut progress = turn(vm, &watch, Side::Read)?;
    if progress.is_first
        && let Some(n) = span
    {
        progress.deadline = outside::opt_deadline(vm, n)?;
    }
    loop {
        let mut inner = watch.inner.lock();
        match watch.next(&mut inner) {
            Ok(Some(change)) => return Ok(Ok(change)),
            Err(failure) => return Ok(Err(failure)),
            Ok(None) if progress.is_over => return Ok(Err(Failure::Timeout)),
            Ok(None) => wait(vm, &watch, inner, Side::Read, &progress)?,
        }
    }
}

/// `w:recv([limit])`: the next change.
static RECV: Native = Native::leaf("recv", |vm| match next(vm, Some(2))? {
    Ok(change) => change.push(vm),
    Err(failure) => failure.ret(vm),
});

/// `for change in w do`: ends when it is closed, or the directory is gone.
static NEXT: Native = Native::leaf("recv", |vm| match next(vm, None)? {
    Ok(change) => change.push(vm),
    Err(Failure::Closed) => vm.ret(Value::NIL),
    Err(failure) => Err(vm.error(failure.message())),
});

/// `w:close()`: true if it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let first = this(vm, 1, Limit::Own)?.close();
    vm.ret(first)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY, Limit::Own)?.close();
    Ok(0)
});
