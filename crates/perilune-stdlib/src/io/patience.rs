//! How a system call that may take long is made: whether the domain is given up meanwhile, what ends it, what
//! it must not do.

use super::diversion;
use crate::sigpipe;
use perilune_vm::Blocker;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Would a call not sleep?
fn is_ready_now(fd: BorrowedFd<'_>, what: PollFlags) -> bool {
    matches!(
        rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, what)], Some(&Timespec::default())),
        Ok(1..)
    )
}

/// How a system call that may take long is made.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub blocker: Option<Blocker>,
    /// It may sleep for any time: the domain is given up meanwhile.
    pub slow: bool,
    /// It must not sleep: `EAGAIN` instead.
    pub parks: bool,
    /// It may write to a pipe that nobody reads, and must not end the process.
    pub signal_free: bool,
}

/// So much can be written without sleeping if anything can.
const PIPE_BUF: usize = 4096;

impl Patience {
    /// For what may sleep for any time.
    pub fn of(blocker: Blocker) -> Patience {
        Patience { blocker: Some(blocker), slow: true, parks: false, signal_free: false }
    }

    /// Makes a call that reads from `fd`. The domain is given up only if it would sleep: whoever holds the
    /// stream may have to wait until it is free again.
    pub fn read<T>(mut self, fd: BorrowedFd<'_>, call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        if self.parks {
            if !is_ready_now(fd, PollFlags::IN) {
                return Err(Errno::AGAIN);
            }
            self.slow = false;
        }
        self.slow = self.slow && !self.is_ready(fd, PollFlags::IN);
        self.repeat(call)
    }

    /// Writes some of `bytes` to `fd`, giving up the domain as [`Patience::read`] does.
    pub fn write(mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        if diversion::takes(fd, bytes) {
            return Ok(bytes.len());
        }
        let mut count = bytes.len();
        if self.parks {
            if !is_ready_now(fd, PollFlags::OUT) {
                return Err(Errno::AGAIN);
            }
            self.slow = false;
            count = count.min(PIPE_BUF);
        } else if self.slow && self.is_ready(fd, PollFlags::OUT) {
            self.slow = false;
            count = count.min(PIPE_BUF);
        }
        self.repeat(|| {
            let piece = &bytes[..count];
            if self.signal_free { sigpipe::write(fd, piece) } else { rustix::io::write(fd, piece) }
        })
    }

    /// Would others have the domain if the call slept, but it would not?
    fn is_ready(self, fd: BorrowedFd<'_>, what: PollFlags) -> bool {
        self.blocker.is_some_and(Blocker::detaches) && is_ready_now(fd, what)
    }

    /// Repeats a system call that a signal ended, unless the signal was an interrupt.
    pub fn repeat<T, E: From<Errno> + PartialEq>(
        self,
        mut call: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            if self.blocker.is_some_and(Blocker::is_interrupted) {
                return Err(Errno::INTR.into());
            }
            let result = match self.blocker {
                Some(blocker) if self.slow => blocker.blocking(&mut call),
                _ => call(),
            };
            match result {
                Err(error) if error == Errno::INTR.into() => {}
                result => return result,
            }
        }
    }
}
