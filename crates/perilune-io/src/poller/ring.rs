//! `io_uring`: a request for each descriptor, to tell whenever something happens (`POLL_ADD` with `MULTI`),
//! and a queue in which the kernel tells.
//!
//! # What a request tells
//! What has changed, once: as the edges of `epoll`. The first look is at what is there already, so nothing is
//! lost between a descriptor's making and its request. What is told names the direction that has changed;
//! `epoll` tells of the other one too, if it is ready.
//!
//! A request may end by itself: when there was no room in the queue, or the kernel had reasons. The last
//! thing that it tells lacks `MORE`, and whoever owns the ring makes another one. If there is no room for
//! what is told, the kernel keeps it and puts it there later; where it cannot even do that, `enter` fails
//! ([`Errno::BADR`]) and the ring is given up (`mod.rs`).
//!
//! A request holds the file. While it lasts, closing the descriptor closes nothing: no peer reads the end of
//! a stream, and no port becomes free. So it has to be taken back, by a request of another kind, which takes
//! effect when the thread of the ring is in the kernel next; then the request tells its end (`ECANCELED`).
//!
//! # Whose it is
//! The thread's that waits for it. With `SINGLE_ISSUER` and `DEFER_TASKRUN` what has happened is looked at
//! when this thread waits, and interrupts nobody. The ring is made by another thread, so that who registers
//! the first descriptor knows whether there can be one, and is asleep until its thread enables it
//! (`R_DISABLED`).
//!
//! # Rejected
//! * *A ring to which every thread submits, under a lock.* What comes of a request is the business of the
//!   thread that has made it: while that computes, nothing is told. Measured, a message to a descriptor whose
//!   request a computing thread had made was told after 2.9 ms (up to 6.9), against 9 to 40 µs. And what a
//!   thread has requested is cancelled when it ends.
//! * *`MSG_RING` to wake the thread of the ring.* No cheaper than an event descriptor (4.6 against 4.2 µs for
//!   both threads, the least of six runs), and possible without a ring of one's own only since Linux 6.13.
//! * *To receive and send by requests.* No cheaper than calls (decision 27), and each read that waits would
//!   hold a buffer, or share a ring of them.

use super::{BELL, BITS, Told, Watched, Watches};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// Requests that are gathered at most.
const REQUESTS: u32 = 256;
/// Room for what is told: more than descriptors become ready at once in most programs.
const TOLD: u32 = 4096;
/// In a key: this is about the taking back of a request, not the request. It is set in no key of a descriptor
/// (`slab.rs`).
const TAKEN_BACK: u64 = 1 << 63;

/// See the module's essay.
pub struct Ring {
    ring: IoUring,
    /// Wakes the thread.
    bell: Arc<OwnedFd>,
}

impl Ring {
    /// One that its thread has to [`Ring::begin`].
    ///
    /// # Errors
    /// The kernel has none, or none for this program.
    pub fn new(bell: Arc<OwnedFd>) -> Result<Ring, Errno> {
        Ring::with(bell, REQUESTS, TOLD)
    }

    pub(super) fn with(bell: Arc<OwnedFd>, requests: u32, told: u32) -> Result<Ring, Errno> {
        let mut builder = IoUring::builder();
        builder.setup_r_disabled().setup_single_issuer().setup_defer_taskrun();
        // One request that is refused does not keep back those behind it.
        builder.setup_submit_all().setup_cqsize(told).dontfork();
        let ring = builder.build(requests).map_err(errno)?;
        Ok(Ring { ring, bell })
    }

    /// The calling thread waits for it from now on.
    ///
    /// # Errors
    /// It may not.
    pub fn begin(&mut self) -> Result<(), Errno> {
        self.ring.submitter().register_enable_rings().map_err(errno)?;
        self.add_bell()
    }

    /// Each stroke is told; nobody has to read them.
    fn add_bell(&mut self) -> Result<(), Errno> {
        let bell = Arc::clone(&self.bell);
        self.request(&poll(BELL, bell.as_raw_fd(), EventFlags::IN))
    }

    /// As [`Watches::add`], of a number that may be nobody's by now, or another one's: then it is refused, or
    /// watched to no effect.
    pub fn request_for(&mut self, key: u64, fd: RawFd) -> Result<(), Errno> {
        debug_assert!(key & TAKEN_BACK == 0);
        self.request(&poll(key, fd, BITS))
    }

    fn request(&mut self, request: &squeue::Entry) -> Result<(), Errno> {
        loop {
            // SAFETY: requests to watch and to end that. They refer to no memory.
            if unsafe { self.ring.submission().push(request) }.is_ok() {
                return Ok(());
            }
            match self.ring.submit().map_err(errno) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn poll(key: u64, fd: RawFd, bits: EventFlags) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(fd), bits.bits()).multi(true).build().user_data(key)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// What an entry of the queue means.
fn told(entry: &cqueue::Entry) -> Told {
    let key = entry.user_data() & !TAKEN_BACK;
    let (flags, watched) = match entry.result() {
        bits @ 0.. => {
            let watched = if cqueue::more(entry.flags()) { Watched::Still } else { Watched::NoMore };
            (EventFlags::from_bits_retain(bits as u32), watched)
        }
        failed => match Errno::from_raw_os_error(-failed) {
            // It was taken back, or there was nothing to be.
            Errno::CANCELED | Errno::NOENT => (EventFlags::empty(), Watched::NoMore),
            error => (EventFlags::empty(), Watched::Never(error)),
        },
    };
    Told { key, flags, watched }
}

impl Watches for Ring {
    fn add(&mut self, key: u64, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.request_for(key, fd.as_raw_fd())
    }

    fn remove(&mut self, key: u64) -> Result<(), Errno> {
        let cancel = opcode::AsyncCancel::new(key).build().user_data(key | TAKEN_BACK);
        // The request that is cancelled tells so.
        self.request(&cancel.flags(squeue::Flags::SKIP_SUCCESS))
    }

    fn wait(&mut self, at_most: Option<Duration>, mut tell: impl FnMut(Told)) -> Result<(), Errno> {
        let waited = match at_most {
            None => self.ring.submit_and_wait(1),
            Some(span) => {
                let span = types::Timespec::from(span);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&span))
            }
        };
        match waited.map_err(errno) {
            // What does not fit in the queue is there after what is in it has been fetched.
            Ok(_) | Err(Errno::INTR | Errno::BUSY | Errno::TIME) => {}
            Err(error) => return Err(error),
        }
        let mut is_bell_over = false;
        for entry in self.ring.completion() {
            if entry.user_data() == BELL {
                is_bell_over |= !cqueue::more(entry.flags());
            } else {
                tell(told(&entry));
            }
        }
        if is_bell_over { self.add_bell() } else { Ok(()) }
    }
}
