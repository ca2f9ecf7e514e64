//! Operations that park instead of sleeping: reading, writing and closing of pipes, FIFOs and terminals where others can use the domain meanwhile.
//!
//! A native of this file is called again after each wait, from its beginning (`perilune_vm::host::Descriptors`). So
//! * a *read* that finds too little is rolled back (`stream.rs`): the bytes stay in the buffer, and the results that were pushed are dropped;
//! * a *write* takes all its arguments into the buffer, unless another one waits, and then only waits for them to go: who is called again takes nothing twice;
//! * a *close* takes the stream away at once, so that the file is closed for everybody, writes out what had been taken, and then waits for the end of the child (`ended.rs`).
//!
//! Whoever has taken something lets the others that wait for the same file look again. If the file is closed meanwhile, its watch goes, which wakes them all: a read finds it
//! closed, and a write has been taken, so it is written by the closer.
//! The waiter is left under the stream's lock, under which the attempt was made: nobody else can take the edge for which it waits.
//!
//! Where a descriptor cannot be watched, or the native must not wait, all is as without fibers: the thread sleeps and the domain is given up.

use super::read::{self, Outcome};
use super::standard::{File, Operation};
use super::stream::Stream;
use crate::ended::Ended;
use crate::errno::{self, Failure, c_bytes};
use perilune_vm::host::{Aside, Direction, Watch, Watchable};
use perilune_vm::{LuaResult, Vm};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a native has put aside.
enum Waits {
    /// It has taken nothing: it begins again.
    Begins,
    /// Its arguments have been taken.
    Taken(Option<WritingOut>),
}

/// A write that waits for its bytes to go. Dropped with a wait that was given up, it says so to the stream, and to those who wait for it: the edge that it has not seen was theirs as well.
struct WritingOut {
    given_up: Arc<AtomicBool>,
    watch: Arc<dyn Watch>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Waits::Taken(Some(writing)) = self {
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
fn disarm(mut aside: Aside) -> Waited {
    match aside.downcast_mut::<Waits>() {
        Some(Waits::Taken(writing)) => {
            *writing = None;
            Waited::Taken
        }
        _ => Waited::Begins,
    }
}

/// Whether an operation of `vm` on this stream has to come here: it may wait, or has waited.
#[inline]
pub(super) fn concerns(vm: &Vm, stream: &Stream) -> bool {
    !stream.is_quick() && vm.host().is_some() && stream.is_slow()
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
    waited(vm)?;
    let mut parks = vm.can_park();
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
            parks = sleep(vm, stream, Direction::Read, |_| Waits::Begins)?;
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
    waits: impl FnOnce(&Arc<dyn Watch>) -> Waits,
) -> LuaResult<bool> {
    let was_watched = stream.is_watched();
    match watch(vm, stream) {
        None => Ok(false),
        // What has happened before it was watched is found by another look.
        Some(_) if !was_watched => Ok(true),
        Some(watch) => {
            let waits = Box::new(waits(&watch));
            let aside = watch.wait(vm, direction, waits)?;
            aside.map(disarm);
            Ok(true)
        }
    }
}

/// Who tells when the descriptor is ready; none if it cannot be watched.
fn watch(vm: &Vm, stream: &mut Stream) -> Option<Arc<dyn Watch>> {
    let descriptors = vm.descriptors()?;
    stream.watch(|fd| descriptors.watch(fd, Watchable::Stream).ok())
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
    let mut parks = vm.can_park();
    let mut result = Ok(());
    if waited != Waited::Taken {
        // Another one comes first, whose bytes wait to go. It was woken by the edge that is cleared here, if there was one.
        while parks {
            stream.clear(Direction::Write);
            if !stream.is_writing() {
                break;
            }
            parks = sleep(vm, stream, Direction::Write, |_| Waits::Begins)?;
        }
        if parks {
            stream.set_mark();
        }
        result = take(vm, stream)?;
    }
    while stream.has_to_write(until == Until::Empty) {
        if parks {
            stream.set_mark();
        } else {
            stream.drop_mark();
        }
        match stream.flush() {
            Err(Errno::AGAIN) if parks => {
                stream.drop_mark();
                vm.truncate(arguments);
                let given_up = stream.begin_writing_out();
                parks = sleep(vm, stream, Direction::Write, |watch| {
                    Waits::Taken(Some(WritingOut { given_up, watch: Arc::clone(watch) }))
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
    if !vm.can_park() || file.is_slow() != Some(true) {
        return Ok(None);
    }
    match file.take(vm) {
        None => Ok(None),
        Some(Err(failure)) => errno::failure(vm, failure, None).map(Some),
        Some(Ok(stream)) => {
            vm.truncate(arguments);
            Box::new(Closing(Some(stream))).go_on(vm).map(Some)
        }
    }
}

/// Closes a file that nobody has any more, in a finaliser, which cannot wait: what its pipe does not take now is written by a thread of its own, and a child is reaped when the next one is
/// started. False: not here.
pub(super) fn let_go(vm: &Vm, file: &File) -> bool {
    if !(vm.descriptors().is_some() && vm.detaches() && file.is_slow() == Some(true)) {
        return false;
    }
    let Some(Ok(mut stream)) = file.take(vm) else { return true };
    drop(stream.take_child());
    if stream.was_given_up() || stream.flush_ready() != Err(Errno::AGAIN) {
        stream.forget_output();
        return true;
    }
    // Without a thread it is dropped here, which sleeps.
    let _ = std::thread::Builder::new()
        .name("perilune-flush".into())
        .stack_size(128 << 10)
        .spawn(|| drop(stream));
    true
}

/// The stream of a file that is closed for everybody, until what is in its buffer has gone. If nobody waits for that any more, it is dropped.
struct Closing(Option<Stream>);

impl Closing {
    fn go_on(mut self: Box<Closing>, vm: &mut Vm) -> LuaResult<u32> {
        loop {
            let Some(stream) = &mut self.0 else { return Ok(0) };
            if vm.can_park() {
                stream.set_mark();
                let flushed = stream.flush();
                stream.drop_mark();
                // Other errors are told by closing.
                if flushed == Err(Errno::AGAIN) {
                    let was_watched = stream.is_watched();
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
            let Some(mut stream) = self.0.take() else { return Ok(0) };
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
        if let Some(stream) = &mut self.0 {
            stream.forget_output();
        }
    }
}

// -- FIFOs -----------------------------------------------------------------------------------------------------------------------

/// How long one that waits for the other end of a FIFO rests between two attempts, but for the first two: the system has no way to be told. Those come one after the other, once everybody else has had a turn: that a rest is over before it
/// has begun happens by chance, too, on a busy machine.
const REST: Duration = Duration::from_millis(1);
/// At most.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// The last rest.
struct Rest(Duration);

/// Opens `name`, which may be a FIFO that nobody has opened at its other end. `None`: it is none, or nobody else could use the time.
pub(super) fn open(vm: &mut Vm, name: &[u8], mode: &[u8]) -> LuaResult<Option<Result<Stream, Errno>>> {
    if vm.host().is_none() {
        return Ok(None);
    }
    let rest = vm.wait_over()?.and_then(|aside| aside.downcast::<Rest>().ok());
    let flags = match (mode[0], mode.get(1)) {
        // One that is opened both ways waits for nobody.
        (_, Some(b'+')) => return Ok(None),
        (b'r', _) => OFlags::RDONLY,
        _ => OFlags::WRONLY,
    };
    let is_fifo = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if !(rest.is_some() || vm.can_park() && rustix::fs::stat(c_bytes(name)).is_ok_and(is_fifo)) {
        return Ok(None);
    }
    let longer = |Rest(last)| (last * 2).clamp(REST, LONGEST_REST);
    let mut span = rest.map_or(Duration::ZERO, |rest| longer(*rest));
    loop {
        let opened =
            rustix::fs::open(c_bytes(name), flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
        match (opened, vm.descriptors()) {
            (Ok(fd), _) => {
                // Its reader waits for a writer as it waits for bytes. It is ours alone, so this changes nothing for others.
                let blocks = rustix::fs::fcntl_setfl(&fd, flags);
                return Ok(Some(blocks.map(|()| Stream::owned(fd, flags))));
            }
            (Err(Errno::NXIO), Some(descriptors)) if flags == OFlags::WRONLY && vm.can_park() => {
                let what = format!("open FIFO '{}'", String::from_utf8_lossy(c_bytes(name)));
                descriptors.pause(vm, span, what, Box::new(Rest(span)))?;
                span = longer(Rest(span));
            }
            (Err(error), _) => return Ok(Some(Err(error))),
        }
    }
}
