//! Operations that park instead of sleeping: reading, writing and closing where others can use the domain
//! meanwhile.
//!
//! A native of this file is called again after each wait, from its beginning
//! (`perilune_vm::host::Descriptors`). So
//! * a *read* that finds too little is rolled back (`stream.rs`): the bytes stay in the buffer, and the
//!   results that were pushed are dropped;
//! * a *write* takes all its arguments into the buffer, unless another one waits, and then only waits for
//!   them to go: who is called again takes nothing twice;
//! * a *close* takes the stream away at once, so that the file is closed for everybody, writes out what had
//!   been taken, and then waits for the end of the child (`ended.rs`).
//!
//! Whoever has taken something lets the others that wait for the same file look again. If the file is closed
//! meanwhile, its watch goes, which wakes them all: a read finds it closed, and a write has been taken, so it
//! is written by the closer. The waiter is left under the stream's lock, under which the attempt was made:
//! nobody else can take the edge for which it waits.
//!
//! A file on a disk cannot be watched. What would wait for the disk is done by a helper, and waited for by a
//! bell (`stream/disk.rs`): each read has one, and the stream has one for the bytes that are in flight.
//! Closing such a file never forgets what was written.
//!
//! Where a descriptor cannot be watched, or the native must not wait, all is as without fibers: the thread
//! sleeps and the domain is given up.

use super::open as opening;
use super::read::{self, Outcome};
use super::standard::{File, Operation};
use super::stream::{self, Arrival, Debt, Stream};
use crate::asked::Asked;
use crate::ended::Ended;
use crate::errno::{self, Failure, c_bytes};
use perilune_vm::host::{Aside, Descriptors, Direction, Doing, Subject, Watch, Watchable};
use perilune_vm::{LuaResult, Vm};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a native has put aside.
struct Waits {
    how: How,
    /// For a file on a disk: tells that somebody has parked (`Stream::has_sleepers`).
    #[allow(dead_code, reason = "it is counted")]
    sleeper: Option<Arc<()>>,
}

enum How {
    /// It has taken nothing: it begins again.
    Begins,
    /// The same, with what a helper reads.
    Reads(Asked<Arrival>),
    /// Its arguments have been taken.
    Taken(Option<WritingOut>),
}

/// A write that waits for its bytes to go. Dropped with a wait that was given up, it says so to the stream,
/// and to those who wait for it: the edge that it has not seen was theirs as well.
struct WritingOut {
    given_up: Arc<AtomicBool>,
    watch: Arc<dyn Watch>,
}

impl Drop for How {
    fn drop(&mut self) {
        if let How::Taken(Some(writing)) = self {
            writing.given_up.store(true, Ordering::Release);
            writing.watch.give_up(Direction::Write);
        }
    }
}

/// What a native has waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// Nothing: this is its first turn.
    No,
    /// It begins again.
    Begins,
    /// What it has taken goes.
    Taken,
}

/// The end of the wait of a read or write, if there was one.
#[cold]
pub(super) fn waited(vm: &mut Vm) -> LuaResult<Waited> {
    Ok(vm.wait_over()?.map_or(Waited::No, disarm))
}

/// The wait goes on, or has come to its end.
fn disarm(aside: Aside) -> Waited {
    disarm_with(aside, None)
}

/// The same for an operation on `stream`, which gets what a helper has read.
fn disarm_with(mut aside: Aside, stream: Option<&mut Stream>) -> Waited {
    match aside.downcast_mut::<Waits>().map(|waits| &mut waits.how) {
        Some(How::Taken(writing)) => {
            *writing = None;
            Waited::Taken
        }
        Some(How::Reads(asked)) => {
            if let (Some(stream), Some(arrival)) = (stream, asked.answer()) {
                stream.take_delivery(arrival);
            }
            Waited::Begins
        }
        _ => Waited::Begins,
    }
}

/// Whether an operation of `vm` on this stream has to come here: it may wait, or has waited.
#[inline]
pub(super) fn concerns(vm: &Vm, stream: &Stream) -> bool {
    if stream.is_quick() { stream.has_sleepers() } else { vm.host().is_some() && may_wait(vm, stream) }
}

/// A disk is waited for only where somebody else can use the domain.
fn may_wait(vm: &Vm, stream: &Stream) -> bool {
    stream.is_slow() || stream.has_sleepers() || vm.detaches()
}

/// Reads as [`read::read`] does, after `prepare` has pushed what that needs on top of `arguments` values.
#[cold]
pub(super) fn read(
    vm: &mut Vm,
    stream: &mut Operation<'_>,
    (first, count): (u32, u32),
    arguments: u32,
    prepare: impl Fn(&mut Vm) -> LuaResult<()>,
) -> LuaResult<Outcome> {
    let waited = vm.wait_over()?.map_or(Waited::No, |aside| disarm_with(aside, Some(stream)));
    let mut parks = vm.can_park();
    if stream.is_on_disk()
        && stream.has_output()
        && let Err(failure) = write_after(vm, stream, arguments, Until::Empty, waited, |_, _| Ok(Ok(())))?
    {
        return Ok(Outcome::Failed(failure));
    }
    loop {
        prepare(vm)?;
        if parks {
            stream.set_mark();
        }
        let outcome = read::read(vm, stream, first, count);
        if parks && matches!(outcome, Ok(Outcome::Failed(Failure::System(Errno::AGAIN)))) {
            stream.roll_back();
            stream.pass_on(Direction::Read);
            vm.truncate(arguments);
            parks = if stream.is_on_disk() {
                ask_disk(vm, stream)?
            } else {
                sleep(vm, stream, Direction::Read, |_| How::Begins)?
            };
            continue;
        }
        stream.drop_mark();
        stream.pass_on(Direction::Read);
        return outcome;
    }
}

/// Waits for the descriptor, with nothing pushed. True: try again; false: it cannot be watched.
fn sleep(
    vm: &mut Vm,
    stream: &mut Operation<'_>,
    direction: Direction,
    how: impl FnOnce(&Arc<dyn Watch>) -> How,
) -> LuaResult<bool> {
    let was_watched = stream.is_watched();
    match watch(vm, stream) {
        None => Ok(false),
        // What has happened before it was watched is found by another look.
        Some(_) if !was_watched => Ok(true),
        Some(watch) => {
            let sleeper = stream.is_on_disk().then(|| stream.sleeper());
            let waits = Box::new(Waits { how: how(&watch), sleeper });
            let aside = watch.wait(vm, direction, waits)?;
            aside.map(disarm);
            Ok(true)
        }
    }
}

/// Has a helper read, and waits for that, with nothing pushed. True: try again; false: there is no helper.
fn ask_disk(vm: &mut Vm, stream: &mut Operation<'_>) -> LuaResult<bool> {
    let Ok(order) = stream.order() else { return Ok(false) };
    let doing = Doing { verb: "read", what: Subject::Descriptor(stream.number()) };
    let Some(asked) = Asked::new(vm, doing, move || order.carry_out()) else { return Ok(false) };
    let bell = asked.bell();
    let waits = Box::new(Waits { how: How::Reads(asked), sleeper: Some(stream.sleeper()) });
    if let Some(aside) = bell.wait(vm, Direction::Read, waits)? {
        disarm_with(aside, Some(stream));
    }
    Ok(true)
}

/// Who tells when the descriptor is ready; none if it cannot be watched. Of a file on a disk: when what is in
/// flight has landed.
fn watch(vm: &Vm, stream: &mut Stream) -> Option<Arc<dyn Watch>> {
    let descriptors = vm.descriptors()?;
    let (on_disk, number) = (stream.is_on_disk(), stream.number());
    stream.watch(|fd| {
        if on_disk {
            Some(descriptors.bell(Doing { verb: "write", what: Subject::Descriptor(number) }))
        } else {
            descriptors.watch(fd, Watchable::Stream).ok()
        }
    })
}

/// Has a helper write what is in the output buffer, if it has not gone yet. If there is none it is done here.
fn launch(vm: &mut Vm, stream: &mut Stream) {
    if !stream.is_on_disk() {
        return;
    }
    let _ = watch(vm, stream);
    let Some(work) = stream.take_off() else { return };
    let refused = match vm.descriptors() {
        Some(descriptors) => descriptors.put(work).err(),
        None => Some(work),
    };
    if let Some(work) = refused {
        vm.blocking(work);
    }
}

/// What a write is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// As much goes as the kind of buffering wants.
    Buffered,
    /// All goes.
    Empty,
}

/// Has `take` give its arguments to the stream, once, and waits until they have gone.
#[cold]
pub(super) fn write(
    vm: &mut Vm,
    stream: &mut Operation<'_>,
    arguments: u32,
    until: Until,
    take: impl FnOnce(&mut Vm, &mut Stream) -> LuaResult<Result<(), Failure>>,
) -> LuaResult<Result<(), Failure>> {
    let waited = waited(vm)?;
    write_after(vm, stream, arguments, until, waited, take)
}

/// The same, after this wait.
fn write_after(
    vm: &mut Vm,
    stream: &mut Operation<'_>,
    arguments: u32,
    until: Until,
    waited: Waited,
    take: impl FnOnce(&mut Vm, &mut Stream) -> LuaResult<Result<(), Failure>>,
) -> LuaResult<Result<(), Failure>> {
    let mut parks = vm.can_park();
    let mut result = Ok(());
    // What it has waited for may be what went on its behalf.
    let mut is_ours = waited == Waited::Taken;
    if waited != Waited::Taken {
        // Another one comes first, whose bytes wait to go. It was woken by the edge that is cleared here, if
        // there was one.
        while parks {
            stream.clear(Direction::Write);
            if !stream.is_writing() {
                break;
            }
            parks = sleep(vm, stream, Direction::Write, |_| How::Begins)?;
        }
        if parks {
            stream.set_mark();
        }
        result = take(vm, stream)?;
    }
    while is_ours && stream.is_in_flight() || stream.has_to_write(until == Until::Empty) {
        if parks {
            stream.set_mark();
        } else {
            stream.drop_mark();
        }
        match stream.flush() {
            Err(Errno::AGAIN) if parks => {
                stream.drop_mark();
                vm.truncate(arguments);
                launch(vm, stream);
                is_ours = true;
                let given_up = stream.begin_writing_out();
                parks = sleep(vm, stream, Direction::Write, |watch| {
                    How::Taken(Some(WritingOut { given_up, watch: Arc::clone(watch) }))
                })?;
            }
            Ok(()) => break,
            Err(error) => {
                result = result.and(Err(error.into()));
                break;
            }
        }
    }
    stream.drop_mark();
    stream.end_writing_out();
    stream.pass_on(Direction::Write);
    Ok(result)
}

/// The beginning of a native that closes: its results, if the file is closed and the child has ended by now.
pub(super) fn close_again(vm: &mut Vm) -> LuaResult<Option<u32>> {
    if vm.host().is_none() {
        return Ok(None);
    }
    let Some(aside) = vm.wait_over()? else { return Ok(None) };
    let aside = match aside.downcast::<Closing>() {
        Ok(closing) => return closing.go_on(vm).map(Some),
        Err(aside) => aside,
    };
    match aside.downcast::<Ended>() {
        Ok(ended) => ended.wait(vm).map(Some),
        Err(aside) => {
            disarm(aside);
            Ok(None)
        }
    }
}

/// Closes a file that may take time to be written, or has a child: what `close` returns. `None`: not here.
pub(super) fn close(vm: &mut Vm, file: &File, arguments: u32) -> LuaResult<Option<u32>> {
    if !vm.can_park() || !file.may_take_long_to_close() {
        return Ok(None);
    }
    match file.take(vm) {
        None => Ok(None),
        Some(Err(failure)) => errno::failure(vm, failure, None).map(Some),
        Some(Ok(stream)) => {
            vm.truncate(arguments);
            let descriptors = vm.descriptors();
            Box::new(Closing { stream: Some(stream), descriptors }).go_on(vm).map(Some)
        }
    }
}

/// Closes a file that nobody has any more, in a finaliser, which cannot wait: what its pipe does not take now
/// is written by a thread of its own, and a child is reaped when the next one is started. False: not here.
pub(super) fn let_go(vm: &Vm, file: &File) -> bool {
    let Some(descriptors) = vm.descriptors() else { return false };
    if !vm.detaches() || !file.may_take_long_to_close() {
        return false;
    }
    let Some(Ok(mut stream)) = file.take(vm) else { return true };
    if stream.is_on_disk() {
        write_and_drop(descriptors, stream);
        return true;
    }
    drop(stream.take_child());
    if stream.was_given_up() || stream.flush_ready() != Err(Errno::AGAIN) {
        stream.forget_output();
        return true;
    }
    // Without a thread it is dropped here, which sleeps.
    let _ = perilune_heap::space::spawn("perilune-flush".into(), 128 << 10, || drop(stream));
    true
}

/// A helper writes what is in the buffer of a file on a disk, and closes it; without one it is done here.
fn write_and_drop(descriptors: &dyn Descriptors, stream: Stream) {
    let debt = Debt::new();
    let work = move || {
        drop(stream);
        drop(debt);
    };
    if let Err(work) = descriptors.put(Box::new(work)) {
        work();
    }
}

/// The stream of a file that is closed for everybody, until what is in its buffer has gone. If nobody waits
/// for that any more, it is dropped; a disk gets it all the same.
struct Closing {
    stream: Option<Stream>,
    descriptors: Option<&'static dyn Descriptors>,
}

impl Closing {
    fn go_on(mut self: Box<Closing>, vm: &mut Vm) -> LuaResult<u32> {
        loop {
            let Some(stream) = &mut self.stream else { return Ok(0) };
            if vm.can_park() {
                stream.set_mark();
                let flushed = stream.flush();
                stream.drop_mark();
                // Other errors are told by closing.
                if flushed == Err(Errno::AGAIN) {
                    let was_watched = stream.is_watched();
                    launch(vm, stream);
                    match watch(vm, stream) {
                        Some(_) if !was_watched => continue,
                        Some(watch) => {
                            match watch
                                .wait(vm, Direction::Write, self)?
                                .and_then(|aside| aside.downcast().ok())
                            {
                                Some(me) => self = me,
                                None => return Ok(0),
                            }
                            continue;
                        }
                        None => {}
                    }
                }
            }
            let Some(mut stream) = self.stream.take() else { return Ok(0) };
            let child = stream.take_child();
            // SAFETY: the native that `vm` runs closes the file; its stream goes with it.
            stream.blocker = Some(unsafe { vm.blocker() });
            let closed = stream.close().map(|_| ());
            return match child {
                Some(child) => Ended::new(child, closed.err()).wait(vm),
                None => errno::file_result(vm, closed, None),
            };
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        match self.descriptors {
            Some(descriptors) if stream.is_on_disk() => write_and_drop(descriptors, stream),
            _ => stream.forget_output(),
        }
    }
}

// -- FIFOs --------------------------------------------------------------------------------------------------

/// How long one that waits for the other end of a FIFO rests between two attempts, but for the first two: the
/// system has no way to be told. Those come one after the other, once everybody else has had a turn: that a
/// rest is over before it has begun happens by chance, too, on a busy machine.
const REST: Duration = Duration::from_millis(1);
/// At most.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// The last rest.
struct Rest(Duration);

/// What a helper has found out about a name.
type Found = Result<Opened, Errno>;

enum Opened {
    File(OwnedFd),
    /// A FIFO, which is opened without sleeping.
    Fifo,
}

/// Opens `name` where others can use the domain: what the system has in memory at once, else by a helper; and
/// a FIFO that nobody has opened at its other end without waiting for that in the system. `None`: nobody else
/// could use the time.
pub(super) fn open(vm: &mut Vm, name: &[u8], mode: &[u8]) -> LuaResult<Option<Result<Stream, Errno>>> {
    if vm.host().is_none() {
        return Ok(None);
    }
    let flags = opening::flags(mode);
    let name = c_bytes(name);
    let mut rest = None;
    if let Some(aside) = vm.wait_over()? {
        match aside.downcast::<Asked<Found>>() {
            Ok(asked) => match asked.wait(vm)? {
                Some(Ok(Opened::Fifo)) => {}
                Some(found) => return Ok(Some(stream_of(found, flags))),
                None => return Ok(None),
            },
            Err(aside) => rest = aside.downcast::<Rest>().ok(),
        }
    } else {
        if !vm.can_park() {
            return Ok(None);
        }
        opening::tell(name, flags);
        match open_now(name, flags) {
            Some(found) => return Ok(Some(found)),
            None => match ask_to_open(vm, name, flags)? {
                Some(Ok(Opened::Fifo)) => {}
                Some(found) => return Ok(Some(stream_of(found, flags))),
                None => return Ok(None),
            },
        }
    }
    open_fifo(vm, name, flags, rest).map(Some)
}

/// Opens what needs no disk, if it is there. `None`: a helper has to look.
fn open_now(name: &[u8], flags: OFlags) -> Option<Result<Stream, Errno>> {
    let (without, beneath) = (flags.difference(OFlags::CREATE) | OFlags::NONBLOCK, ResolveFlags::CACHED);
    if flags.contains(OFlags::TRUNC) || stream::is_slow_pretended() {
        return None;
    }
    match rustix::fs::openat2(CWD, name, without, Mode::empty(), beneath) {
        // Its reader waits for a writer as it waits for bytes. It is ours alone, so this changes nothing for
        // others.
        Ok(fd) => {
            let blocks = rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::CREATE));
            Some(blocks.map(|()| Stream::owned(fd, flags)))
        }
        Err(Errno::NOENT) if !flags.contains(OFlags::CREATE) => Some(Err(Errno::NOENT)),
        Err(_) => None,
    }
}

/// Has a helper open it.
fn ask_to_open(vm: &mut Vm, name: &[u8], flags: OFlags) -> LuaResult<Option<Found>> {
    let doing = Doing { verb: "open", what: Subject::Name(name.to_vec()) };
    let path = name.to_vec();
    let look = move || {
        let is_fifo = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
        // One that is opened both ways waits for nobody.
        if flags & OFlags::RWMODE != OFlags::RDWR && rustix::fs::stat(&*path).is_ok_and(is_fifo) {
            return Ok(Opened::Fifo);
        }
        rustix::fs::open(&*path, flags, Mode::from_raw_mode(0o666)).map(Opened::File)
    };
    match Asked::new(vm, doing, look) {
        Some(asked) => Box::new(asked).wait(vm),
        None => Ok(None),
    }
}

fn stream_of(found: Found, flags: OFlags) -> Result<Stream, Errno> {
    match found? {
        Opened::File(fd) => Ok(Stream::owned(fd, flags)),
        Opened::Fifo => Err(Errno::NXIO),
    }
}

/// Opens a FIFO. One that is to be written looks for its reader again and again.
fn open_fifo(
    vm: &mut Vm,
    name: &[u8],
    flags: OFlags,
    rest: Option<Box<Rest>>,
) -> LuaResult<Result<Stream, Errno>> {
    let flags = flags & (OFlags::RWMODE | OFlags::CLOEXEC);
    let longer = |Rest(last)| (last * 2).clamp(REST, LONGEST_REST);
    let mut span = rest.map_or(Duration::ZERO, |rest| longer(*rest));
    loop {
        let opened = rustix::fs::open(name, flags | OFlags::NONBLOCK, Mode::empty());
        match (opened, vm.descriptors()) {
            (Ok(fd), _) => {
                // Its reader waits for a writer as it waits for bytes. It is ours alone, so this changes
                // nothing for others.
                let blocks = rustix::fs::fcntl_setfl(&fd, flags);
                return Ok(blocks.map(|()| Stream::owned(fd, flags)));
            }
            (Err(Errno::NXIO), Some(descriptors))
                if flags & OFlags::RWMODE == OFlags::WRONLY && vm.can_park() =>
            {
                let what = format!("open FIFO '{}'", String::from_utf8_lossy(name));
                descriptors.pause(vm, span, what, Box::new(Rest(span)))?;
                span = longer(Rest(span));
            }
            (Err(error), _) => return Ok(Err(error)),
        }
    }
}
