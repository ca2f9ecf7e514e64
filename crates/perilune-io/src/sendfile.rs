//! `c:send_file(file [, offset [, n]])`: a file's bytes to a connection, from the system's memory to the
//! socket without passing through the program (`stream/files.rs`).
//!
//! What was written before goes first. A connection with a TLS session, and one that is no socket, gets the
//! bytes by way of its buffer, as a write would.
//!
//! # Disks
//! `sendfile` waits for the disk if the system does not have the bytes in memory, and so would the domain.
//! Therefore each piece is asked for before, a byte in every [`STEP`] (`RWF_NOWAIT`): the system reads ahead
//! in larger pieces than that as a rule. What is not there is *fetched*: a helper reads the piece, which
//! brings it into the system's memory, and the fiber parks. That is done once for each piece; what has left
//! the memory again by then is waited for. Rejected: `cachestat`, which would say it exactly, but is younger
//! than the kernels that this runs on; a helper for each piece, which costs more than to send one.

use crate::connection::{CONNECTION, Stop, established, results};
use crate::failure::Failure;
use crate::file::{FILE, File, read_at};
use crate::fs::FILES;
use crate::stream::{Origin, Stream};
use crate::waiting::{Progress, Side, turn, wait};
use perilune_domain::outside::{self, Reason, Turn};
use perilune_domain::surplus::{self, Limit};
use perilune_stdlib::io::{is_slow_pretended, pretend_to_be_slow};
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Native, Vm};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags};
use std::sync::Arc;
use std::time::Instant;

/// The system is asked for so many bytes at once.
const PIECE: u64 = 1 << 20;
/// What passes through the buffer does so in pieces of this size.
const COPIED: usize = 64 << 10;
/// In each so many bytes one is asked for.
const STEP: u64 = 128 << 10;

/// `c:send_file(file [, offset [, n]])`: how many bytes were sent: fewer, if the file is shorter.
pub static SEND_FILE: Native = Native::leaf("send_file", |vm| {
    let stream: Arc<Stream> = surplus::this(vm, &CONNECTION, 4, Limit::WriteTimeout)?;
    let file: Arc<File> = vm.check_shared_arc(2, &FILE)?;
    let (from, most) = (check(vm, 3, 0)?, check(vm, 4, i64::MAX)?);
    let outcome = match resume(vm, &stream) {
        Ok(sending) => file
            .descriptor()
            .map_err(Stop::from)
            .and_then(|fd| send(vm, &stream, (&file, &fd), (from, most), sending)),
        Err(stop) => Err(stop),
    };
    match outcome {
        Ok(n) => vm.ret(n as i64),
        Err(stop) => results(vm, Err(stop)),
    }
});

fn check(vm: &mut Vm, n: u32, default: i64) -> LuaResult<u64> {
    let number = vm.opt_int(n, default)?;
    u64::try_from(number).map_err(|_| vm.arg_error(n, "a number of bytes must not be negative"))
}

/// Where the native is.
struct Sending {
    progress: Progress,
    /// What is before this has been fetched.
    fetched: u64,
}

/// What is put aside while a helper fetches.
struct Fetching {
    done: u64,
    deadline: Option<Instant>,
    fetched: u64,
}

/// The beginning of a turn.
fn resume(vm: &mut Vm, stream: &Arc<Stream>) -> Result<Sending, Stop> {
    if let Turn::Woken(reason, _) = outside::woken(vm)?
        && let Some(fetching) = outside::take_data::<Fetching>(vm)
    {
        outside::finish(vm);
        return match reason {
            Reason::Timeout => Err(Failure::Timeout.into()),
            _ => Ok(fetching.over()),
        };
    }
    Ok(Sending { progress: turn(vm, stream, Side::Write)?, fetched: 0 })
}

impl Fetching {
    fn over(&self) -> Sending {
        let progress = Progress { is_first: false, deadline: self.deadline, is_over: false, done: self.done };
        Sending { progress, fetched: self.fetched }
    }
}

/// Whether the system has this in memory, as far as can be seen.
fn is_at_hand(file: &OwnedFd, at: u64, length: u64) -> bool {
    let has = |at| {
        let mut byte = [0; 1];
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            // Some kernels say so of bytes that are not in memory, too: the end is found by sending.
            Ok(_) => true,
            Err(error) => error != Errno::AGAIN,
        }
    };
    !is_slow_pretended() && (0..length.div_ceil(STEP)).all(|n| has(at + n * STEP))
}

/// Has a helper bring this into memory, and waits for that.
///
/// # Errors
/// The park; or nothing can wait here.
fn fetch(
    vm: &mut Vm,
    file: &Arc<File>,
    fd: &Arc<OwnedFd>,
    (at, length): (u64, u64),
    progress: &Progress,
) -> Result<Sending, Stop> {
    let fetching = Fetching { done: progress.done, deadline: progress.deadline, fetched: at + length };
    let waiter = outside::begin(vm, Verb::WaitsFor, file.waits("read"))?;
    let fd = Arc::clone(fd);
    let work = move || {
        pretend_to_be_slow();
        // Whatever is wrong is found by sending.
        let _ = read_at(&fd, at, usize::try_from(length).unwrap_or(COPIED));
    };
    if FILES.ask(Box::new(work), waiter).is_err() {
        // Too much waits for disks already: so does this.
        outside::finish(vm);
        return Ok(fetching.over());
    }
    outside::set_data(vm, fetching);
    if progress.deadline.is_some() {
        outside::limit_at(vm, progress.deadline)?;
    }
    if outside::sleeps(vm) {
        return Err(vm.park().into());
    }
    let fetching = outside::take_data::<Fetching>(vm);
    outside::finish(vm);
    match fetching {
        Some(fetching) => Ok(fetching.over()),
        None => Err(Failure::Closed.into()),
    }
}

fn send(
    vm: &mut Vm,
    stream: &Arc<Stream>,
    (file, fd): (&Arc<File>, &Arc<OwnedFd>),
    (from, most): (u64, u64),
    Sending { mut progress, mut fetched }: Sending,
) -> Result<u64, Stop> {
    established(vm, stream, &progress)?;
    let is_copied = stream.session().is_some() || stream.origin == Origin::Pipe;
    loop {
        let left = most - progress.done;
        if left == 0 {
            return Ok(progress.done);
        }
        let at = from.saturating_add(progress.done);
        let length = left.min(if is_copied { COPIED as u64 } else { PIECE });
        if fetched < at.saturating_add(length) && vm.can_park() && !is_at_hand(fd, at, length) {
            Sending { progress, fetched } = fetch(vm, file, fd, (at, length), &progress)?;
        }
        let mut output = stream.output();
        let sent = if is_copied {
            match stream.may_write(&mut output)? {
                false => None,
                true => {
                    let bytes = read_at(fd, at, length as usize).map_err(Failure::from)?;
                    if !stream.reserve(&mut output, bytes.len()) {
                        drop(output);
                        return Err(Stop::Thrown(vm.out_of_memory()));
                    }
                    stream.take(&mut output, &bytes);
                    stream.write_out(&mut output);
                    Some(bytes.len())
                }
            }
        } else {
            // An end of the output is told by the first look, as for a write.
            stream.may_write(&mut output)?;
            stream.send_file(&mut output, fd, at, length as usize)?
        };
        match sent {
            Some(0) => return Ok(progress.done),
            Some(n) => {
                progress.done += n as u64;
                // Each piece has its time.
                progress.deadline = crate::waiting::Waited::deadline(&**stream, Side::Write);
                progress.is_over = false;
            }
            None if progress.is_over => return Err(Failure::Timeout.into()),
            None => wait(vm, stream, output, Side::Write, &progress)?,
        }
    }
}
