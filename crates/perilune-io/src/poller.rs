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

use crate::lease::{Bell, Lease};
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
/// The key of the bell.
const BELL: u64 = u64::MAX;

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
    lease: Lease<EventFd>,
}

/// The bell of the lease: an event descriptor in the set. Reading it waits while it is silent, which is never for long (`lease.rs`).
struct EventFd(OwnedFd);

impl Bell for EventFd {
    fn ring(&self) {
        while let Err(Errno::INTR) = rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {}
    }
    fn silence(&self) {
        let mut count = [0; 8];
        while let Err(Errno::INTR) = rustix::io::read(&self.0, &mut count) {}
    }
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
        let poller = Poller::new()?;
        std::thread::Builder::new()
            .name("perilune-io".into())
            .stack_size(256 << 10)
            .spawn(|| POLLER.wait().watch())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
        let poller = POLLER.get_or_init(|| poller);
        if BY_WORKERS.load(Ordering::Relaxed) {
            threads::set_idler(poller);
        }
        Ok(poller)
    }

    fn new() -> Result<Poller, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = EventFd(eventfd(0, EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &bell.0, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Poller { epoll, slab: Mutex::default(), lease: Lease::new(bell) })
    }

    /// What the thread does, for ever.
    fn watch(&self) {
        self.lease.set_thread();
        loop {
            self.lease.wait();
            while self.lease.is_threads() {
                self.poll(None);
            }
        }
    }

    /// Waits for events, and deals with them. It ends also when the bell sounds.
    fn poll(&self, at_most: Option<Duration>) {
        let at_most = at_most.and_then(|span| Timespec::try_from(span).ok());
        let mut room = [MaybeUninit::<Event>::uninit(); BATCH];
        // A signal ends it early. Nothing else can be wrong with a descriptor that is ours.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room[..], at_most.as_ref()) else { return };
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == BELL {
                continue;
            }
            let source = self.slab.lock().find(key).cloned();
            if let Some(source) = source {
                source.happened(flags);
            }
        }
    }
}

/// A worker that has nothing else to do.
impl Idler for Poller {
    fn take(&self) -> bool {
        self.lease.take()
    }
    fn idle(&self, at_most: Option<Duration>) {
        self.poll(at_most);
    }
    fn give_back(&self) {
        self.lease.give_back();
    }
    fn call(&self) {
        self.lease.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

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

    /// A worker's seat, as in `sched/threads.rs`.
    #[derive(Default)]
    struct Seat(Mutex<(Option<Instant>, bool)>);

    impl Seat {
        fn give(&self, poller: &Poller) {
            let mut given = self.0.lock();
            given.0 = Some(Instant::now());
            let idling = given.1;
            drop(given);
            if idling {
                poller.call();
            }
        }

        /// Waits for a job; how long the job has waited for the worker.
        fn take(&self, poller: &Poller, at_most: Duration) -> Duration {
            loop {
                if let Some(since) = self.0.lock().0.take() {
                    return since.elapsed();
                }
                if !poller.lease.take() {
                    std::thread::yield_now();
                    continue;
                }
                let mut given = self.0.lock();
                if given.0.is_none() {
                    given.1 = true;
                    drop(given);
                    poller.idle(Some(at_most));
                    given = self.0.lock();
                    given.1 = false;
                }
                drop(given);
                poller.give_back();
            }
        }
    }

    /// Workers take the lease from the thread and from one another while events come and jobs are given: no call is lost. One that is would show as a job that waits until its worker
    /// leaves the kernel's set for lack of events.
    #[test]
    fn no_job_waits_for_a_worker_in_the_kernels_set() {
        const JOBS: u32 = 20_000;
        let poller: &'static Poller = Box::leak(Box::new(Poller::new().unwrap()));
        std::thread::spawn(|| poller.watch());
        // Something that happens: an edge of this wakes one in the set.
        let noise = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let key = poller.slab.lock().add(Source::new());
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poller.epoll, &noise, EventData::new_u64(key), flags).unwrap();
        let seats: [Seat; 2] = Default::default();
        let longest = Mutex::new(Duration::ZERO);
        std::thread::scope(|s| {
            for seat in &seats {
                let (given, gives) = std::sync::mpsc::channel();
                let longest = &longest;
                s.spawn(move || {
                    for n in 0..JOBS {
                        let waited = seat.take(poller, Duration::from_secs(20));
                        let mut longest = longest.lock();
                        *longest = waited.max(*longest);
                        if given.send(n).is_err() {
                            return;
                        }
                    }
                });
                let noise = &noise;
                s.spawn(move || {
                    for n in 0..JOBS {
                        seat.give(poller);
                        if n % 3 == 0 {
                            let _ = rustix::io::write(noise, &1_u64.to_ne_bytes());
                        }
                        if n % 1000 == 0 {
                            // Long enough for the thread to come and take the lease.
                            std::thread::sleep(Duration::from_millis(4));
                        }
                        gives.recv().unwrap();
                    }
                });
            }
        });
        let longest = *longest.lock();
        assert!(longest < Duration::from_secs(10), "a job waited for {longest:?}");
    }
}
