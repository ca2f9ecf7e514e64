//! Opening by a helper (`helpers.rs`), where the file may be a FIFO: that waits for the other end for ever, and
//! whoever has asked may have given up.
//!
//! A call of the system that waits cannot be ended from outside. So a FIFO is opened by calls that do not
//! wait, with looks in between whether somebody still wants it:
//! * A reader is open at once, as it is for writers while a plain call waits. It is handed out when there is a
//!   writer, or has been one: there are bytes or an end to be read, or to look for bytes says "not yet" where
//!   it would say "end" without a writer (`tee`, which takes none).
//! * A writer fails as long as there is no reader.
//!
//! The looks are a millisecond apart at first and [`LONGEST`] in the end, so helpers that nobody waits for any
//! more are free again after that time.
//!
//! Rejected: a signal that interrupts the call (the process's signals are the program's); opening the other
//! end for a moment (other processes that wait for it would take that for their peer).

use crate::helpers;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use std::path::Path;
use std::time::Duration;

/// Between two looks, at most.
const LONGEST: Duration = Duration::from_millis(50);

/// As `open` of the system, but for how long it takes to end if nobody waits for it any more: then it fails,
/// and that is no answer ([`helpers::give_up`]).
///
/// # Errors
/// The system's.
pub fn open(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let both = flags & OFlags::RWMODE == OFlags::RDWR;
    if both || flags.contains(OFlags::EXCL) || !helpers::can_be_given_up() || !is_fifo(path) {
        return rustix::fs::open(path, flags, mode);
    }
    let fd = if flags & OFlags::RWMODE == OFlags::RDONLY {
        let fd = rustix::fs::open(path, flags | OFlags::NONBLOCK, mode)?;
        return opened(fd);
    } else {
        repeat(|span| match rustix::fs::open(path, flags | OFlags::NONBLOCK, mode) {
            Err(Errno::NXIO) => {
                std::thread::sleep(span);
                Ok(None)
            }
            opened => opened.map(Some),
        })?
    };
    waiting(fd)
}

/// A FIFO that is open for reading, and does not wait: as if it had been opened as any file, as above.
///
/// # Errors
/// The system's.
pub fn opened(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let scratch = pipe_with(PipeFlags::CLOEXEC)?;
    repeat(|span| has_writer(&fd, &scratch.1, span).map(|has| has.then_some(())))?;
    waiting(fd)
}

/// Reads and writes wait from now on.
///
/// # Errors
/// The system's.
pub fn waiting(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let status = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, status - OFlags::NONBLOCK)?;
    Ok(fd)
}

fn is_fifo(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo)
}

/// Until it gives something: each look may last as long as it is told.
fn repeat<T>(mut look: impl FnMut(Duration) -> Result<Option<T>, Errno>) -> Result<T, Errno> {
    let mut span = Duration::from_millis(1);
    loop {
        if let Some(found) = look(span)? {
            return Ok(found);
        }
        if !helpers::is_wanted() {
            helpers::give_up();
            return Err(Errno::CANCELED);
        }
        span = (span * 2).min(LONGEST);
    }
}

/// Whether a FIFO that is open for reading has or had a writer; waits so long for its bytes.
fn has_writer(fifo: &OwnedFd, scratch: &OwnedFd, span: Duration) -> Result<bool, Errno> {
    match tee(fifo, scratch, 1, SpliceFlags::NONBLOCK) {
        Ok(0) => {}
        Ok(_) | Err(Errno::AGAIN) => return Ok(true),
        Err(Errno::INTR) => return Ok(false),
        Err(error) => return Err(error),
    }
    let nanoseconds = span.subsec_nanos().into();
    let span = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    match poll(&mut [PollFd::from_borrowed_fd(fifo.as_fd(), PollFlags::IN)], Some(&span)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
