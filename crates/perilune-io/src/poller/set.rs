//! `epoll`: a set of descriptors in the kernel. Any thread may add to it and wait for it.

use super::{BELL, BITS, Told, Watched, Watches};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Events fetched at a time.
const BATCH: usize = 64;

/// See the module's essay.
pub struct Set(OwnedFd);

impl Set {
    /// An empty one, but for the bell, which is told for as long as it sounds.
    pub fn new(bell: &impl AsFd) -> Result<Set, Errno> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Set(set))
    }

    /// Tells of a descriptor from now on, but only this of it.
    ///
    /// # Errors
    /// It cannot.
    pub fn add_for(&self, key: u64, fd: BorrowedFd<'_>, bits: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.0, fd, EventData::new_u64(key), bits | EventFlags::ET)
    }

    /// Tells this of it: first what is there already.
    ///
    /// # Errors
    /// It is not known.
    pub fn change(&self, key: u64, fd: BorrowedFd<'_>, bits: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.0, fd, EventData::new_u64(key), bits | EventFlags::ET)
    }

    /// Tells no more of a descriptor. When this returns nobody who waits here has it in hand.
    pub fn take_out(&self, fd: BorrowedFd<'_>) {
        // It is not there if it could not be added.
        let _ = epoll::delete(&self.0, fd);
    }

    /// Whether the kernel knows a way to wait for such a descriptor.
    ///
    /// # Errors
    /// It does not, or there is no memory for another one.
    pub fn tries(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.0, fd, EventData::new_u64(BELL), EventFlags::empty())?;
        epoll::delete(&self.0, fd)
    }
}

impl Watches for &Set {
    fn add(&mut self, key: u64, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.add_for(key, fd, BITS)
    }

    /// See [`Set::take_out`], for which the descriptor is needed.
    fn remove(&mut self, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn wait(&mut self, at_most: Option<Duration>, mut tell: impl FnMut(Told)) -> Result<(), Errno> {
        let at_most = at_most.and_then(|span| Timespec::try_from(span).ok());
        let mut room = [MaybeUninit::<Event>::uninit(); BATCH];
        let (events, _) = epoll::wait(&self.0, &mut room[..], at_most.as_ref())?;
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key != BELL {
                tell(Told { key, flags, watched: Watched::Still });
            }
        }
        Ok(())
    }
}
