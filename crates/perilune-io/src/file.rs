//! Open files: `fs.open`. A file object reads and writes in pieces, at its position or anywhere, and a fiber
//! that waits for the disk stops nobody else.
//!
//! # Reading
//! What the disk gives goes into the file's buffer and is handed out from there, as with connections: a read
//! that is cancelled leaves there what it had asked for. The *position* is that of the next byte that is
//! handed out. What the system has in memory is taken at once (`RWF_NOWAIT`); for the rest a helper reads
//! (`helpers.rs`), or in programs that have nothing else to run, the thread itself. A helper reads without
//! any lock and adds what it got if the buffer still ends where it began; otherwise another fiber has moved
//! it, and the reader asks again. So fibers that read one file at once share its bytes, and none comes twice.
//!
//! # Writing
//! A write takes its place first: the position goes behind it, and the buffer is dropped. Then the bytes go
//! there: at once while the device takes writes quickly (`pace.rs` of the standard library), else by a
//! helper. Writers at the same time have places of their own; with `"a"` the system finds the place. A write
//! that is cancelled before a helper has begun does not happen; one that has begun comes to its end.
//!
//! # Without a position
//! FIFOs and terminals are read and written where they are. Their bytes come once, and a read may take for
//! ever. So one read is under way at a time, and whoever wants bytes waits for it, whoever has asked for it:
//! a fiber may have been cancelled meanwhile. Rejected: a read for each fiber that waits; bytes that came to
//! the read of a cancelled one woke nobody.
//!
//! `close` takes the descriptor away from operations that have not begun; its number is free when the
//! last of the others has ended.

mod lock;

use crate::buffer::{Buffer, ROOM};
use crate::failure::Failure;
use crate::fifo;
use crate::fs::{FILES, Operation, Order, check_path, limit, operate, operation, patiently};
use crate::helpers::{self, Answer, Place};
use crate::lines;
use crate::options;
use crate::waiting::{Side, Timeouts};
use parking_lot::{Condvar, Mutex};
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Reason, Waiter};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_stdlib::io::pace::{self, Pace};
use perilune_stdlib::io::{is_slow_pretended, pretend_to_be_slow};
use perilune_stdlib::sigpipe;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The kind of open files.
pub static FILE: SharedKind = SharedKind::new("file", open_kind);

/// A line is no longer unless the program says so.
const LINE_LIMIT: usize = 1 << 20;
/// The same of all that comes.
const ALL_LIMIT: usize = 64 << 20;
/// Read at a time at most, of what is asked for.
const MOST_ROOM: usize = 1 << 20;

/// An open file.
pub struct File {
    fd: Mutex<Option<Arc<OwnedFd>>>,
    state: Mutex<State>,
    path: PathBuf,
    appends: bool,
    has_position: bool,
    pace: OnceLock<&'static Pace>,
    timeouts: Timeouts,
    /// A read of what has no position has ended.
    filled: Condvar,
}

#[derive(Default)]
struct State {
    /// Of the first byte of the buffer.
    position: u64,
    buffer: Buffer,
    /// The last read found no more.
    is_at_end: bool,
    /// Without a position: a read is under way.
    is_filling: bool,
    /// How many have ended.
    fills: u64,
    /// Who waits for its end.
    readers: Vec<(Arc<Waiter>, Place<Filled>)>,
}

/// What became of a read: false, if only that was wanted which is in memory, and there was nothing.
type Filled = Result<bool, Failure>;

impl State {
    fn end(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }

    fn move_to(&mut self, position: u64) {
        self.position = position;
        self.buffer.clear();
        self.is_at_end = false;
    }
}

impl SharedObject for File {
    fn kind(&self) -> &'static SharedKind {
        &FILE
    }
    fn label(&self) -> Option<String> {
        let closed = if self.fd.lock().is_none() { " (closed)" } else { "" };
        Some(format!("{}{closed}", self.path.display()))
    }
    fn held_bytes(&self) -> usize {
        self.state.lock().buffer.len()
    }
}

fn open_kind(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    let methods: &[&'static Native] = &[
        &READ,
        &READ_LINE,
        &READ_ALL,
        &READ_AT,
        &LINES,
        &WRITE,
        &WRITE_AT,
        &SEEK,
        &SIZE,
        &TRUNCATE,
        &SYNC,
        &lock::LOCK,
        &lock::UNLOCK,
        &SET,
        &CLOSE,
    ];
    fill(vm, mt, methods, &[("__close", &AT_SCOPE_END)])
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<File>> {
    surplus::this(vm, &FILE, last, limit)
}

impl File {
    /// A file that is open already.
    pub fn new(fd: OwnedFd, path: PathBuf, appends: bool) -> Arc<File> {
        let has_position = rustix::fs::tell(&fd).is_ok();
        File::with(fd, path, appends, has_position)
    }

    /// The same of one that is known to have a position, or not.
    pub fn with(fd: OwnedFd, path: PathBuf, appends: bool, has_position: bool) -> Arc<File> {
        let fd = Mutex::new(Some(Arc::new(fd)));
        Arc::new(File {
            fd,
            state: Mutex::default(),
            path,
            appends,
            has_position,
            pace: OnceLock::new(),
            timeouts: Timeouts::default(),
            filled: Condvar::new(),
        })
    }

    /// Its descriptor.
    ///
    /// # Errors
    /// It is closed.
    pub fn descriptor(&self) -> Result<Arc<OwnedFd>, Failure> {
        self.fd.lock().clone().ok_or(Failure::Closed)
    }

    fn failure(&self, verb: &str, error: Errno) -> Failure {
        Failure::from(error).of(|| format!("cannot {verb} '{}'", self.path.display()))
    }

    /// What is waited for when something is done to it.
    pub fn waits(&self, verb: &'static str) -> Arc<Operation> {
        Arc::new(Operation { verb, path: self.path.clone() })
    }

    /// Adds to the buffer. `now`: only what the system has in memory; false, if that is nothing.
    fn fill(&self, want: usize, now: bool) -> Filled {
        if now && is_slow_pretended() {
            return Ok(false);
        }
        let fd = self.descriptor()?;
        let from = self.state.lock().end();
        let mut bytes = Vec::new();
        let room = want.clamp(ROOM, MOST_ROOM);
        if bytes.try_reserve_exact(room).is_err() {
            return Err(Failure::System(Errno::NOMEM));
        }
        let n = if !self.has_position {
            if now {
                return Ok(false);
            }
            rustix::io::retry_on_intr(|| rustix::io::read(&fd, spare_capacity(&mut bytes)))
        } else if now {
            bytes.resize(room, 0);
            let read =
                rustix::io::preadv2(&fd, &mut [IoSliceMut::new(&mut bytes)], from, ReadWriteFlags::NOWAIT);
            match read {
                // Whether that is the end is for a read to say that may wait.
                Ok(0) | Err(_) => return Ok(false),
                Ok(n) => {
                    bytes.truncate(n);
                    Ok(n)
                }
            }
        } else {
            rustix::io::retry_on_intr(|| rustix::io::pread(&fd, spare_capacity(&mut bytes), from))
        };
        let n = n.map_err(|error| self.failure("read", error))?;
        let mut state = self.state.lock();
        // Bytes of a FIFO come once: they are added whatever has happened meanwhile.
        if !self.has_position || state.end() == from {
            state.is_at_end = n == 0;
            if !state.buffer.add(&bytes) {
                return Err(Failure::System(Errno::NOMEM));
            }
        }
        Ok(true)
    }

    /// Without a position: has a helper read, or waits for the read that is under way. `seen`: so many had
    /// ended when the buffer had too little.
    fn fill_for(
        self: &Arc<File>,
        want: usize,
        seen: u64,
        waiter: Arc<Waiter>,
        place: Place<Filled>,
    ) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if state.fills != seen {
            drop(state);
            *place.lock() = Some(Ok(true));
            waiter.wake(Reason::Ready);
            return Ok(());
        }
        state.readers.retain(|(waiter, _)| waiter.woken().is_none());
        if !state.is_filling {
            let this = Arc::clone(self);
            // Nobody may hear of it before the reader is in the list, so the lock is kept.
            FILES.put(Box::new(move || this.tell(this.fill(want, false))))?;
            state.is_filling = true;
        }
        state.readers.push((waiter, place));
        Ok(())
    }

    /// The same on the thread itself.
    fn fill_here(&self, want: usize, seen: u64) -> Filled {
        if self.has_position {
            return self.fill(want, false);
        }
        let mut state = self.state.lock();
        if state.fills != seen || state.is_filling {
            while state.is_filling {
                self.filled.wait(&mut state);
            }
            return Ok(true);
        }
        state.is_filling = true;
        drop(state);
        let filled = self.fill(want, false);
        self.tell(filled.clone());
        filled
    }

    /// The read that was under way has ended.
    fn tell(&self, filled: Filled) {
        let readers = {
            let mut state = self.state.lock();
            state.is_filling = false;
            state.fills += 1;
            std::mem::take(&mut state.readers)
        };
        self.filled.notify_all();
        for (waiter, place) in readers {
            *place.lock() = Some(filled.clone());
            waiter.wake(Reason::Ready);
        }
    }

    /// Takes a place for so many bytes at the position.
    fn place(&self, length: usize) -> u64 {
        let mut state = self.state.lock();
        let at = state.position;
        state.move_to(at.saturating_add(length as u64));
        at
    }

    /// Writes all of it there; with `"a"`, and to what has no position, where the system says.
    fn put(&self, fd: &OwnedFd, mut at: u64, mut bytes: &[u8]) -> Result<(), Failure> {
        let anywhere = self.appends || !self.has_position;
        while !bytes.is_empty() {
            let written = match anywhere {
                // A FIFO may have lost its reader.
                _ if !self.has_position => sigpipe::write(fd, bytes),
                true => rustix::io::write(fd, bytes),
                false => rustix::io::pwrite(fd, bytes, at),
            };
            match written {
                Ok(n) => (bytes, at) = (&bytes[n..], at + n as u64),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failure("write", error)),
            }
        }
        Ok(())
    }

    /// How its device takes writes. `None`: it is no file on a device.
    fn pace(&self, fd: &OwnedFd) -> Option<&'static Pace> {
        self.has_position.then(|| *self.pace.get_or_init(|| Pace::of(fd.as_fd())))
    }

    /// Writes at once, if that can be expected to be quick; `None` at `at`: at the position.
    fn write_now(&self, at: Option<u64>, bytes: &[u8]) -> Option<Result<(), Failure>> {
        if bytes.len() > pace::LARGEST || is_slow_pretended() {
            return None;
        }
        let fd = self.descriptor().ok()?;
        self.pace(&fd)?.at_once(|| self.put(&fd, at.unwrap_or_else(|| self.place(bytes.len())), bytes))
    }

    /// The same, however long it takes.
    fn write(&self, at: Option<u64>, bytes: &[u8]) -> Result<(), Failure> {
        let fd = self.descriptor()?;
        let mut at = at.unwrap_or_else(|| self.place(bytes.len()));
        match self.pace(&fd) {
            None => self.put(&fd, at, bytes),
            Some(pace) => patiently(pace, bytes, |piece| {
                self.put(&fd, at, piece)?;
                at += piece.len() as u64;
                Ok(())
            }),
        }
    }
}

// -- Opening ------------------------------------------------------------------------------------------------

/// What a mode of `fs.open` means: those of `io.open`, and `x`: the file is not there yet.
fn flags_of(mode: &[u8]) -> Option<OFlags> {
    let (first, rest) = mode.split_first()?;
    let mut flags = match first {
        b'r' => OFlags::empty(),
        b'w' => OFlags::CREATE | OFlags::TRUNC,
        b'a' => OFlags::CREATE | OFlags::APPEND,
        _ => return None,
    };
    let (mut both, mut new, mut binary) = (false, false, false);
    for b in rest {
        let seen = match b {
            b'+' => &mut both,
            b'x' if *first == b'w' => &mut new,
            b'b' => &mut binary,
            _ => return None,
        };
        if std::mem::replace(seen, true) {
            return None;
        }
    }
    if new {
        flags |= OFlags::EXCL;
    }
    flags |= match (first, both) {
        (_, true) => OFlags::RDWR,
        (b'r', false) => OFlags::RDONLY,
        _ => OFlags::WRONLY,
    };
    Some(flags | OFlags::CLOEXEC)
}

/// `fs.open(path [, mode [, {timeout=}]])`: a file object.
pub static OPEN: Native = Native::leaf("open", |vm| {
    let order = |vm: &mut Vm| {
        let path = check_path(vm, 1)?;
        let mode = if vm.arg_is_none_or_nil(2) { b"r".to_vec() } else { vm.check_str(2)?.bytes().to_vec() };
        let Some(flags) = flags_of(&mode) else {
            let text = format!(
                "'{}' is no mode: expected 'r', 'w', 'a', with '+' for both directions, 'wx' for a file that \
                 is not there yet",
                String::from_utf8_lossy(&mode).escape_debug()
            );
            return Err(vm.arg_error(2, &text));
        };
        Ok((path, limit(vm, 3)?, move |path: &Path| {
            let fd = fifo::open(path, flags, Mode::from_raw_mode(0o666))?;
            Ok(File::new(fd, path.to_path_buf(), flags.contains(OFlags::APPEND)))
        }))
    };
    operate(vm, "open", order, |vm, file: Arc<File>| {
        let file = vm.shared_ref(file);
        vm.ret(file)
    })
});

// -- Reading ------------------------------------------------------------------------------------------------

/// What a look at the buffer came to.
enum Look {
    /// The first so many bytes, without those behind them.
    Take(usize, usize),
    /// There is nothing more.
    End,
    /// So many bytes more are hoped for.
    More(usize),
    Fail(Failure),
}

/// Reads until `look` finds what it wants.
fn reading(vm: &mut Vm, file: &Arc<File>, mut look: impl FnMut(&State) -> Look) -> LuaResult<u32> {
    let (mut answer, mut deadline) = helpers::answer_and_deadline::<Filled>(vm)?;
    if matches!(answer, Answer::None) {
        outside::give_way(vm)?;
        deadline = file.timeouts.deadline(Side::Read);
    }
    loop {
        match answer {
            Answer::Some(Err(failure)) | Answer::Failed(failure) => return failure.ret(vm),
            Answer::Some(Ok(_)) | Answer::None => {}
        }
        let (want, seen) = {
            let mut state = file.state.lock();
            match look(&state) {
                Look::Take(n, more) => {
                    let text = vm.new_str(&state.buffer.bytes()[..n])?;
                    state.buffer.consume(n + more);
                    state.position += (n + more) as u64;
                    drop(state);
                    return vm.ret(text);
                }
                Look::End => {
                    // A file may grow: the next read looks again.
                    state.is_at_end = false;
                    drop(state);
                    return vm.ret(Value::NIL);
                }
                Look::Fail(failure) => {
                    drop(state);
                    return failure.ret(vm);
                }
                Look::More(want) => (want, state.fills),
            }
        };
        answer = match file.fill(want, true) {
            Ok(true) => Answer::None,
            Err(failure) => Answer::Failed(failure),
            Ok(false) if deadline.is_none() && !vm.can_park() => {
                Answer::Some(vm.blocking(|| file.fill_here(want, seen)))
            }
            Ok(false) if !file.has_position => {
                helpers::ask_with(vm, file.waits("read"), deadline, |waiter, place| {
                    file.fill_for(want, seen, waiter, place)
                })?
            }
            Ok(false) => {
                let this = Arc::clone(file);
                helpers::ask(vm, &FILES, file.waits("read"), deadline, move || {
                    pretend_to_be_slow();
                    this.fill(want, false)
                })?
            }
        };
    }
}

/// Argument `n` as a number of bytes.
fn check_bytes(vm: &mut Vm, n: u32, default: usize) -> LuaResult<usize> {
    if vm.arg_is_none_or_nil(n) {
        return Ok(default);
    }
    match vm.check_int(n)? {
        bytes if bytes < 1 => Err(vm.arg_error(n, "a number of bytes must be at least 1")),
        bytes => Ok(usize::try_from(bytes).unwrap_or(usize::MAX)),
    }
}

/// `f:read([n])`: what there is, at least a byte, at most n; nil at the end.
static READ: Native = Native::leaf("read", |vm| {
    let file = this(vm, 2, Limit::ReadTimeout)?;
    let most = check_bytes(vm, 2, ROOM)?;
    reading(vm, &file, |state| match state.buffer.len() {
        0 if state.is_at_end => Look::End,
        there if there >= most.min(MOST_ROOM) || there > 0 && state.is_at_end => {
            Look::Take(there.min(most), 0)
        }
        there => Look::More(most.min(MOST_ROOM) - there),
    })
});

fn look_for_line(state: &State, limit: usize) -> Look {
    let bytes = state.buffer.bytes();
    let length = |at: usize| at - usize::from(at > 0 && bytes[at - 1] == b'\r');
    match memchr::memchr(b'\n', bytes) {
        Some(at) if length(at) <= limit => Look::Take(length(at), at + 1 - length(at)),
        None if bytes.len() <= limit => match bytes.len() {
            0 if state.is_at_end => Look::End,
            there if state.is_at_end => Look::Take(there, 0),
            there => Look::More(there.max(1)),
        },
        _ => Look::Fail(Failure::Limit(format!("a line is longer than {limit} bytes"))),
    }
}

/// `f:read_line([limit])`: a line without its end; nil at the end.
static READ_LINE: Native = Native::leaf("read_line", |vm| {
    let file = this(vm, 2, Limit::ReadTimeout)?;
    let limit = check_bytes(vm, 2, LINE_LIMIT)?;
    reading(vm, &file, |state| look_for_line(state, limit))
});

/// `f:lines([limit])`: an iterator over lines.
static LINES: Native = Native::leaf("lines", |vm| {
    let limit = check_bytes(vm, 2, LINE_LIMIT)?;
    this(vm, 2, Limit::ReadTimeout)?;
    lines::iterator(vm, &NEXT_LINE, limit)
});

/// One step of it. What is not the end of the file is an error, as with `io.lines`: a loop could not tell.
static NEXT_LINE: Native = Native::leaf("next_line", |vm| {
    let (file, limit) = lines::of_step::<File>(vm)?;
    let n = reading(vm, &file, |state| look_for_line(state, limit))?;
    if n == 1 {
        return Ok(n);
    }
    // `nil, message, code`
    let message = vm.stack_get(vm.nargs() - n + 2).as_string().map(|text| text.to_text());
    Err(vm.error(message.unwrap_or_else(|| format!("cannot read '{}'", file.path.display()))))
});

/// `f:read_all([limit])`: everything from the position to the end.
static READ_ALL: Native = Native::leaf("read_all", |vm| {
    let file = this(vm, 2, Limit::ReadTimeout)?;
    let limit = check_bytes(vm, 2, ALL_LIMIT)?;
    reading(vm, &file, |state| match state.buffer.len() {
        there if there > limit => {
            Look::Fail(Failure::Limit(format!("the file is longer than {limit} bytes")))
        }
        there if state.is_at_end => Look::Take(there, 0),
        there => Look::More(there.max(1)),
    })
});

/// `f:read_at(offset, n)`: what is there, at most n bytes; the position stays. Nil at the end.
static READ_AT: Native = Native::leaf("read_at", |vm| {
    let order = |vm: &mut Vm| {
        let file = this(vm, 3, Limit::ReadTimeout)?;
        let from = check_offset(vm, 2)?;
        let most = check_bytes(vm, 3, ROOM)?;
        if vm.can_park()
            && let Ok(fd) = file.descriptor()
            && let Some(bytes) = read_at_now(&fd, from, most)
        {
            return Ok(Order::Done(Ok(bytes)));
        }
        let (what, deadline) = (file.waits("read"), file.timeouts.deadline(Side::Read));
        let job = move || {
            let fd = file.descriptor()?;
            read_at(&fd, from, most).map_err(|error| file.failure("read", error))
        };
        Ok(Order::Work(what, deadline, job))
    };
    match operation(vm, order)? {
        Ok(bytes) if bytes.is_empty() => vm.ret(Value::NIL),
        Ok(bytes) => vm.ret_str(&bytes),
        Err(failure) => failure.ret(vm),
    }
});

/// What is in a file from there on, at most so many bytes.
pub fn read_at(fd: &OwnedFd, from: u64, most: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let room = (most - bytes.len()).min(MOST_ROOM);
        if bytes.try_reserve(room).is_err() {
            return Err(Errno::NOMEM);
        }
        let mut piece = vec![0; room];
        match rustix::io::pread(fd, &mut piece[..], from.saturating_add(bytes.len() as u64)) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The same of what the system has in memory. `None`: there may be more.
fn read_at_now(fd: &OwnedFd, from: u64, most: usize) -> Option<Vec<u8>> {
    if most > MOST_ROOM || is_slow_pretended() {
        return None;
    }
    let size = u64::try_from(rustix::fs::fstat(fd).ok()?.st_size).unwrap_or(0);
    let there = usize::try_from(size.saturating_sub(from)).unwrap_or(usize::MAX).min(most);
    // The end is for a read to say that may wait: what is no file has no size.
    if there == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(there).ok()?;
    bytes.resize(there, 0);
    let read = rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut bytes)], from, ReadWriteFlags::NOWAIT);
    (read == Ok(there)).then_some(bytes)
}

fn check_offset(vm: &mut Vm, n: u32) -> LuaResult<u64> {
    let offset = vm.check_int(n)?;
    u64::try_from(offset).map_err(|_| vm.arg_error(n, "an offset must not be negative"))
}

// -- Writing ------------------------------------------------------------------------------------------------

fn done(vm: &mut Vm, outcome: Result<(), Failure>) -> LuaResult<u32> {
    match outcome {
        Ok(()) => vm.ret(true),
        Err(failure) => failure.ret(vm),
    }
}

/// Writes arguments from `first` on; `at`: there, and the position stays.
fn writing(vm: &mut Vm, first: u32, at: Option<u32>) -> LuaResult<u32> {
    let order = |vm: &mut Vm| {
        let file = this(vm, ANY, Limit::WriteTimeout)?;
        let at = at.map(|n| check_offset(vm, n)).transpose()?;
        let mut bytes = Vec::new();
        for n in first..=vm.nargs() {
            bytes.extend_from_slice(surplus::check_piece(vm, n)?.bytes());
        }
        if vm.can_park()
            && let Some(outcome) = file.write_now(at, &bytes)
        {
            return Ok(Order::Done(outcome));
        }
        let (what, deadline) = (file.waits("write"), file.timeouts.deadline(Side::Write));
        Ok(Order::Work(what, deadline, move || file.write(at, &bytes)))
    };
    let outcome = operation(vm, order)?;
    done(vm, outcome)
}

/// `f:write(...)`: strings and numbers, at the position.
static WRITE: Native = Native::leaf("write", |vm| writing(vm, 2, None));

/// `f:write_at(offset, ...)`: there; the position stays.
static WRITE_AT: Native = Native::leaf("write_at", |vm| writing(vm, 3, Some(2)));

/// `f:truncate([size])`: makes it that long; without a size, as long as the position is.
static TRUNCATE: Native = Native::leaf("truncate", |vm| {
    let order = |vm: &mut Vm| {
        let file = this(vm, 2, Limit::WriteTimeout)?;
        let size = if vm.arg_is_none_or_nil(2) { file.state.lock().position } else { check_offset(vm, 2)? };
        let job = {
            let file = Arc::clone(&file);
            move || {
                let fd = file.descriptor()?;
                let mut state = file.state.lock();
                let position = state.position;
                state.move_to(position);
                drop(state);
                rustix::fs::ftruncate(&fd, size).map_err(|error| file.failure("truncate", error))
            }
        };
        Ok(Order::Work(file.waits("truncate"), file.timeouts.deadline(Side::Write), job))
    };
    let outcome = operation(vm, order)?;
    done(vm, outcome)
});

/// `f:sync()`: what was written is on the disk.
static SYNC: Native = Native::leaf("sync", |vm| {
    let order = |vm: &mut Vm| {
        let file = this(vm, 1, Limit::WriteTimeout)?;
        let job = {
            let file = Arc::clone(&file);
            move || rustix::fs::fsync(&*file.descriptor()?).map_err(|error| file.failure("sync", error))
        };
        Ok(Order::Work(file.waits("sync"), file.timeouts.deadline(Side::Write), job))
    };
    let outcome = operation(vm, order)?;
    done(vm, outcome)
});

// -- Position, size, end ------------------------------------------------------------------------------------

/// The size, from what the system has in memory.
fn size(file: &File) -> Result<u64, Failure> {
    let fd = file.descriptor()?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| file.failure("stat", error))?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// `f:seek([whence [, offset]])`: as that of `io`: moves the position, and returns it.
static SEEK: Native = Native::leaf("seek", |vm| {
    let file = this(vm, 3, Limit::Own)?;
    let whence = if vm.arg_is_none_or_nil(2) { b"cur".to_vec() } else { vm.check_str(2)?.bytes().to_vec() };
    let offset = vm.opt_int(3, 0)?;
    if !file.has_position {
        return file.failure("seek in", Errno::SPIPE).ret(vm);
    }
    let from = match &whence[..] {
        b"set" => 0,
        b"cur" => file.state.lock().position,
        b"end" => match size(&file) {
            Ok(size) => size,
            Err(failure) => return failure.ret(vm),
        },
        _ => return Err(vm.arg_error(2, "expected 'set', 'cur' or 'end'")),
    };
    if let Err(failure) = file.descriptor() {
        return failure.ret(vm);
    }
    let Some(position) = from.checked_add_signed(offset).filter(|&at| i64::try_from(at).is_ok()) else {
        return file.failure("seek in", Errno::INVAL).ret(vm);
    };
    let mut state = file.state.lock();
    if state.position != position {
        state.move_to(position);
    }
    drop(state);
    vm.ret(position as i64)
});

/// `f:size()`: bytes.
static SIZE: Native = Native::leaf("size", |vm| {
    let file = this(vm, 1, Limit::Own)?;
    match size(&file) {
        Ok(size) => vm.ret(size as i64),
        Err(failure) => failure.ret(vm),
    }
});

/// `f:set{read_timeout=, write_timeout=}`: the file. The latter is also for `truncate` and `sync`.
static SET: Native = Native::leaf("set", |vm| {
    let file = this(vm, 2, Limit::Own)?;
    let options = vm.check_table(2)?;
    options::check(vm, options, &["read_timeout", "write_timeout"])?;
    for (name, side) in [("read_timeout", Side::Read), ("write_timeout", Side::Write)] {
        if let Some(span) = options::span(vm, options, name)? {
            file.timeouts.set(side, span);
        }
    }
    let this = vm.arg(1);
    vm.ret(this)
});

/// `f:close()`: true if it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let file = this(vm, 1, Limit::Own)?;
    let fd = file.fd.lock().take();
    file.state.lock().buffer.clear();
    let was_open = fd.is_some();
    drop(fd);
    vm.ret(was_open)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let file = this(vm, ANY, Limit::Own)?;
    let fd = file.fd.lock().take();
    file.state.lock().buffer.clear();
    drop(fd);
    Ok(0)
});

#[cfg(test)]
mod tests;
