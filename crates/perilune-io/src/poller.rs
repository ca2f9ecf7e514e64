//! The poller: the one thread of the process that waits for descriptors, unless a worker does it for it (`lease.rs`).
//!
//! Each descriptor is registered once, for edges in both directions and the peer's hanging up, and is forgotten when its owner drops the [`Registration`]. The kernel hands back a key of
//! index and generation: an event that was fetched before a descriptor was closed, and is looked at after another one has taken its number or its place, means nothing.
//!
//! The thread begins with the first registration; a program that opens no socket has neither the thread nor the descriptor. It sleeps in the kernel without a timeout, so an idle
//! program makes no wakeups. It does no more than raise flags, wake, and write out what a connection could not write (`stream.rs`).
//!
//! Locks: the slab's is held for a look-up, never while anything is called.
//!
//! Rejected: a set of descriptors per domain (an idle domain has no thread that could sit in it, and ten thousand domains cannot have two descriptors each); level-triggered
//! events (each wait would be a system call to arm it); registration per wait (1.2 us each).

use crate::lease::Lease;
use crate::slot::{Slot, Wake, Wakes};
use parking_lot::Mutex;
use perilune_domain::outside::{Reason, Waiter};
use perilune_domain::sched::threads::{self, Idler};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Events fetched at a time.
const BATCH: usize = 64;
/// The key of the event descriptor that wakes the holder of the lease.
const KICK: u64 = u64::MAX;

/// Idle workers wait for events too (`lease.rs`).
static BY_WORKERS: AtomicBool = AtomicBool::new(false);

/// From the first socket on, idle workers wait for events too. To be called before that.
pub fn poll_by_workers() {
    BY_WORKERS.store(true, Ordering::Relaxed);
}

/// A wait of a native.
impl Wake for Arc<Waiter> {
    fn wake(&self) -> bool {
        Waiter::wake(self, Reason::Ready)
    }
}

/// Whom the poller tells itself: an owner with something left to do when the next edge comes (`Slot::set_backlog`). Nothing here may wait.
pub trait Backlog: Send + Sync {
    /// There is room: writes what can be written.
    fn write_backlog(&self) {}
    /// There is something to read.
    fn read_backlog(&self) {}
}

/// A descriptor as the poller knows it: two slots.
pub struct Source {
    /// Readable, or something to accept.
    pub read: Slot<Arc<Waiter>>,
    /// Writable, or connected.
    pub write: Slot<Arc<Waiter>>,
    owner: OnceLock<Weak<dyn Backlog>>,
}

impl Source {
    fn new() -> Arc<Source> {
        Arc::new(Source { read: Slot::default(), write: Slot::default(), owner: OnceLock::new() })
    }

    /// Says whose backlog it is. Once.
    pub fn set_owner(&self, owner: Weak<dyn Backlog>) {
        let _ = self.owner.set(owner);
    }

    fn happened(&self, flags: EventFlags) {
        let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
            self.read.raise(broken || flags.contains(EventFlags::RDHUP), Wakes::One);
            if self.read.take_backlog()
                && let Some(owner) = self.owner.get().and_then(Weak::upgrade)
            {
                owner.read_backlog();
            }
        }
        if broken || flags.contains(EventFlags::OUT) {
            self.write.raise(broken, Wakes::All);
            if self.write.take_backlog()
                && let Some(owner) = self.owner.get().and_then(Weak::upgrade)
            {
                owner.write_backlog();
            }
        }
    }
}

/// A descriptor is known to the poller for as long as this lives.
pub struct Registration {
    /// What the poller tells.
    pub source: Arc<Source>,
    key: u64,
    poller: &'static Poller,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.poller.slab.lock().remove(self.key);
        self.source.read.wake(Wakes::All);
        self.source.write.wake(Wakes::All);
    }
}

struct Poller {
    epoll: OwnedFd,
    slab: Mutex<Slab>,
    lease: Lease,
    /// Wakes the holder of the lease.
    kick: OwnedFd,
}

#[derive(Default)]
struct Slab {
    entries: Vec<(u32, Option<Arc<Source>>)>,
    free: Vec<u32>,
}

impl Slab {
    fn add(&mut self, source: Arc<Source>) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[at as usize];
        entry.1 = Some(source);
        u64::from(entry.0) << 32 | u64::from(at)
    }

    fn find(&self, key: u64) -> Option<&Arc<Source>> {
        let (generation, source) = self.entries.get(key as u32 as usize)?;
        source.as_ref().filter(|_| *generation == (key >> 32) as u32)
    }

    fn remove(&mut self, key: u64) {
        let at = key as u32;
        if self.find(key).is_some() {
            let entry = &mut self.entries[at as usize];
            *entry = (entry.0.wrapping_add(1), None);
            self.free.push(at);
        }
    }
}

/// Makes a descriptor known. It is removed from the kernel's set when it is closed: nobody else has it (all are `CLOEXEC`).
///
/// # Errors
/// There are no descriptors or threads left, or the user may watch no more.
pub fn register(fd: &impl AsFd) -> Result<Registration, Errno> {
    let poller = Poller::get()?;
    let source = Source::new();
    let key = poller.slab.lock().add(Arc::clone(&source));
    let registration = Registration { source, key, poller };
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(&poller.epoll, fd, EventData::new_u64(key), flags)?;
    Ok(registration)
}

impl Poller {
    /// The poller, begun if it has not been. What fails now is tried again the next time.
    fn get() -> Result<&'static Poller, Errno> {
        static POLLER: OnceLock<Poller> = OnceLock::new();
        static BEGIN: Mutex<()> = Mutex::new(());
        if let Some(poller) = POLLER.get() {
            return Ok(poller);
        }
        let _one = BEGIN.lock();
        if let Some(poller) = POLLER.get() {
            return Ok(poller);
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), EventFlags::IN)?;
        std::thread::Builder::new()
            .name("perilune-io".into())
            .stack_size(256 << 10)
            .spawn(|| POLLER.wait().watch())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
        let poller =
            POLLER.get_or_init(|| Poller { epoll, slab: Mutex::default(), lease: Lease::new(), kick });
        if BY_WORKERS.load(Ordering::Relaxed) {
            threads::set_idler(poller);
        }
        Ok(poller)
    }

    /// What the thread does, for ever.
    fn watch(&self) {
        self.lease.set_thread();
        loop {
            self.lease.wait();
            while self.lease.is_threads() {
                let kicked = self.poll(None);
                // A holder that is meant has to find it.
                if kicked && self.lease.is_threads() {
                    self.was_kicked();
                }
            }
        }
    }

    /// Waits for events, and deals with them. Whether somebody has kicked the holder of the lease.
    fn poll(&self, at_most: Option<Duration>) -> bool {
        let at_most = at_most.and_then(|span| Timespec::try_from(span).ok());
        let mut room = [MaybeUninit::<Event>::uninit(); BATCH];
        // A signal ends it early. Nothing else can be wrong with a descriptor that is ours.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room[..], at_most.as_ref()) else { return false };
        let mut kicked = false;
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == KICK {
                kicked = true;
                continue;
            }
            let source = self.slab.lock().find(key).cloned();
            if let Some(source) = source {
                source.happened(flags);
            }
        }
        kicked
    }

    /// Empties the event descriptor.
    fn was_kicked(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.kick, &mut count);
    }
}

/// A worker that has nothing else to do.
impl Idler for Poller {
    fn take(&self) -> bool {
        self.lease.take()
    }
    fn idle(&self, at_most: Option<Duration>) {
        if self.poll(at_most) {
            self.was_kicked();
        }
    }
    fn give_back(&self) {
        self.lease.give_back();
    }
    fn kick(&self) {
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_means_one_descriptor_also_when_its_place_is_used_again() {
        let mut slab = Slab::default();
        let (first, second) = (Source::new(), Source::new());
        let key = slab.add(Arc::clone(&first));
        assert!(Arc::ptr_eq(slab.find(key).unwrap(), &first));
        slab.remove(key);
        let other = slab.add(Arc::clone(&second));
        assert_eq!(key as u32, other as u32, "the place is used again");
        assert!(slab.find(key).is_none());
        slab.remove(key);
        assert!(Arc::ptr_eq(slab.find(other).unwrap(), &second));
        assert!(slab.find(u64::from(u32::MAX)).is_none());
    }
}
