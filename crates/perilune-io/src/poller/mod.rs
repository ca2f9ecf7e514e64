//! The poller: the one thread of the process that waits for descriptors, unless a worker does it for it
//! (`lease.rs`), which is so while there is much to be told (`traffic.rs`).
//!
//! Each descriptor is registered once, for edges in both directions and the peer's hanging up, and is
//! forgotten when its owner says so ([`Registration::end`]) or drops the [`Registration`]. What the kernel
//! tells has a key that means one descriptor (`slab.rs`).
//!
//! The thread begins with the first registration; a program that opens no socket has neither the thread nor
//! its descriptors. It sleeps in the kernel without a timeout, so an idle program makes no wakeups. It does
//! no more than raise flags, wake, and write out what a connection could not write (`stream.rs`).
//!
//! # Two ways to be told
//! The kernel is asked through [`Watches`]: by a set of `epoll` (`set.rs`), or by a ring of `io_uring`
//! (`ring.rs`) if the program is run so (`backend.rs`). What is told is the same. What differs:
//!
//! * A set is everybody's: who registers adds to it. A ring is the thread's, so who registers leaves word at
//!   the [`Door`] and rings if the thread sleeps. What it cannot watch is found out before.
//! * A ring keeps what is closed open until the thread has taken its request back. So an owner ends a
//!   registration *before* it closes the descriptor, by [`Registration::end`]; or by
//!   [`Registration::end_now`] where the next thing that a program does may depend on it: a listener's port
//!   is to be free when `close` has returned.
//! * A set forgets what is closed, but not always in time. Who waits in it has, for a moment, a reference of
//!   its own to each file that it looks at (seen with Linux 6.18). If the descriptor is closed in that
//!   moment, that reference is the last one, and the kernel puts off what closing does until the waiting
//!   thread returns from its call: for as long as nothing else happens. The peer is not told of the end
//!   meanwhile. So a registration that is ended is taken out of the set, which waits until nobody looks at
//!   it; then the descriptor's reference is the last.
//! * A ring can fail while it is in use: the system may forbid it then, and is not bound to tell everything.
//!   The thread then moves all that is registered into the set, which tells first what is there, and uses
//!   that for ever after ([`Poller::move_out`]).
//!
//! # Locks
//! The slab's is held for look-ups, never while anything is called but the kernel. Who waits for the thread
//! to take a request back must hold no lock that what the thread calls may ask for (wakes, [`Backlog`]).
//!
//! Rejected: a set of descriptors per domain (an idle domain has no thread that could sit in it, and ten
//! thousand domains cannot have two descriptors each); level-triggered events (each wait would be a system
//! call to arm it); registration per wait (1.2 us each). `docs/decisions/0027-one-poller.md` and
//! `0040-io-uring-beside-epoll.md` have the measurements.

mod backend;
mod ring;
mod set;
mod slab;
#[cfg(test)]
mod tests;
mod traffic;

use crate::lease::{Bell, Lease, To};
use crate::slot::{Slot, Wake, Wakes};
use parking_lot::{Condvar, Mutex};
use perilune_domain::outside::{Reason, Waiter};
use perilune_domain::sched::threads::{self, Idler};
use ring::Ring;
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use set::Set;
use slab::{Entry, Slab};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::Duration;

pub use backend::{Wish, name as backend, wish};
use traffic::Traffic;
pub use traffic::Who;

/// The key of the bell.
const BELL: u64 = u64::MAX;
/// What is wanted to be told of a descriptor. Breaks are told always.
const BITS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP);
/// The same, as long as it has room.
const INPUT: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
/// How long who ends a registration waits for the poller at most. It is there at once, unless the machine has
/// better to do; and what is closed is closed all the same.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often those are looked at that the kernel does not watch after a ring has failed.
const LOOK: Duration = Duration::from_millis(20);

static POLLER: OnceLock<Poller> = OnceLock::new();

/// A way to be told of descriptors by the kernel. Each also wakes whoever waits when the bell is rung that it
/// was made with.
trait Watches {
    /// Tells of a descriptor from now on: first of what is there already, then of edges.
    ///
    /// # Errors
    /// It cannot.
    fn add(&mut self, key: u64, fd: BorrowedFd<'_>) -> Result<(), Errno>;
    /// Tells no more of it.
    ///
    /// # Errors
    /// It works no more.
    fn remove(&mut self, key: u64) -> Result<(), Errno>;
    /// Waits until there is something to be told, and tells it.
    ///
    /// # Errors
    /// A signal, or it works no more.
    fn wait(&mut self, at_most: Option<Duration>, tell: impl FnMut(Told)) -> Result<(), Errno>;
}

/// What the kernel tells of a descriptor.
#[derive(Clone, Copy, Debug)]
struct Told {
    key: u64,
    /// What has happened.
    flags: EventFlags,
    /// And what will be.
    watched: Watched,
}

/// Whether the kernel tells more of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watched {
    /// It does.
    Still,
    /// Unless it is asked again.
    NoMore,
    /// It cannot.
    Never(Errno),
}

/// Who waits for descriptors, if somebody has said so.
static WHO: OnceLock<Who> = OnceLock::new();

/// Who is to wait for descriptors where there is no ring. To be called before the first socket, once; without
/// it, [`Who::Either`].
pub fn wait_by(who: Who) {
    let _ = WHO.set(who);
}

/// A wait of a native.
impl Wake for Arc<Waiter> {
    fn wake(&self) -> bool {
        Waiter::wake(self, Reason::Ready)
    }
}

/// Whom the poller tells itself: an owner with something left to do when the next edge comes
/// (`Slot::set_backlog`). Nothing here may wait.
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

/// A descriptor is known to the poller until this is ended or dropped.
pub struct Registration {
    /// What the poller tells.
    pub source: Arc<Source>,
    key: u64,
    poller: &'static Poller,
}

impl Registration {
    /// Nothing is told of the descriptor any more. To be called before it is closed, from anywhere.
    pub fn end(&self) {
        self.poller.forget(self.key, None, true);
    }

    /// The same, and the kernel has let go of the descriptor when this returns: closing it has its
    /// consequences at once. Under no lock that the poller's thread may ask for.
    pub fn end_now(&self) {
        let gone = Arc::new(Gone::default());
        if self.poller.forget(self.key, Some(Arc::clone(&gone)), true) && !self.poller.is_thread() {
            gone.wait();
        }
    }
}

impl Registration {
    /// There was no room: it has to be told when there is some, which `is_told` says is so already. For one
    /// that was registered for input.
    ///
    /// # Errors
    /// The kernel does not watch it any more.
    pub fn awaits_room(&self, fd: &impl AsFd, is_told: &mut bool) -> Result<(), Errno> {
        // A ring tells always.
        if !*is_told && !self.poller.has_ring() {
            self.poller.set.change(self.key, fd.as_fd(), BITS)?;
        }
        *is_told = true;
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Perhaps behind the descriptor.
        self.poller.forget(self.key, None, false);
        self.source.read.wake(Wakes::All);
        self.source.write.wake(Wakes::All);
    }
}

struct Poller {
    set: Set,
    state: Mutex<State>,
    lease: Lease<EventFd>,
    traffic: Traffic,
    /// Of the ring's thread, while there is one.
    bell: Arc<OwnedFd>,
    thread: OnceLock<ThreadId>,
}

/// What is known, and to whom it is told.
struct State {
    slab: Slab,
    /// There is a ring in use.
    door: Option<Door>,
}

/// Where word is left for the thread that has the ring.
#[derive(Default)]
struct Door {
    word: Vec<Word>,
    /// It has taken all that was there, and will not look here again before it is rung for.
    is_asleep: bool,
}

/// What the thread that has the ring is to do.
enum Word {
    Add(u64, RawFd),
    Remove(u64, Option<Arc<Gone>>),
}

impl Door {
    /// Leaves word. True: the bell has to be rung.
    #[must_use]
    fn leave(&mut self, word: Word) -> bool {
        self.word.push(word);
        std::mem::take(&mut self.is_asleep)
    }
}

/// That the kernel has let go of a descriptor.
#[derive(Default)]
struct Gone(Mutex<bool>, Condvar);

impl Gone {
    fn tell(&self) {
        *self.0.lock() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        self.1.wait_while_for(&mut self.0.lock(), |gone| !*gone, PATIENCE);
    }
}

/// The bell of the lease: an event descriptor in the set. Reading it waits while it is silent, which is never
/// for long (`lease.rs`).
struct EventFd(OwnedFd);

impl Bell for EventFd {
    fn ring(&self) {
        ring(&self.0);
    }
    fn silence(&self) {
        let mut count = [0; 8];
        while let Err(Errno::INTR) = rustix::io::read(&self.0, &mut count) {}
    }
}

fn ring(bell: &OwnedFd) {
    while let Err(Errno::INTR) = rustix::io::write(bell, &1_u64.to_ne_bytes()) {}
}

/// Makes a descriptor known.
///
/// # Errors
/// It is one that nobody can wait for, a plain file; there are no descriptors or threads left; or the user
/// may watch no more.
pub fn register(fd: &impl AsFd) -> Result<Registration, Errno> {
    Poller::get()?.register(fd.as_fd(), BITS)
}

/// The same, of one that has room nearly always: that there is room again has to be told only from
/// [`Registration::awaits_room`] on. Each byte that the other end of a Unix socket or a pipe takes would be
/// told otherwise.
///
/// # Errors
/// As of [`register`].
pub fn register_for_input(fd: &impl AsFd) -> Result<Registration, Errno> {
    Poller::get()?.register(fd.as_fd(), INPUT)
}

impl Poller {
    /// The poller, begun if it has not been. What fails now is tried again the next time.
    fn get() -> Result<&'static Poller, Errno> {
        static BEGIN: Mutex<()> = Mutex::new(());
        if let Some(poller) = POLLER.get() {
            return Ok(poller);
        }
        let _one = BEGIN.lock();
        if let Some(poller) = POLLER.get() {
            return Ok(poller);
        }
        let (poller, ring) = Poller::new(backend::wants_ring())?;
        let has_ring = ring.is_some();
        perilune_heap::space::spawn("perilune-io".into(), 256 << 10, || POLLER.wait().watch(ring))
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
        let poller = POLLER.get_or_init(|| poller);
        if poller.traffic.who() != Who::Thread && !has_ring {
            threads::set_idler(poller);
        }
        Ok(poller)
    }

    /// With a ring for its thread, if there is to be one and can be.
    fn new(wants_ring: bool) -> Result<(Poller, Option<Ring>), Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ring = if wants_ring {
            Ring::new(Arc::clone(&bell)).inspect_err(|error| backend::refused(*error)).ok()
        } else {
            None
        };
        Ok((Poller::with(bell, ring.is_some())?, ring))
    }

    fn with(bell: Arc<OwnedFd>, has_ring: bool) -> Result<Poller, Errno> {
        let leases = EventFd(eventfd(0, EventfdFlags::CLOEXEC)?);
        let set = Set::new(&leases.0)?;
        let state = State { slab: Slab::default(), door: has_ring.then(Door::default) };
        let state = Mutex::new(state);
        let traffic = Traffic::new(WHO.get().copied().unwrap_or(Who::Either));
        Ok(Poller { set, state, lease: Lease::new(leases), traffic, bell, thread: OnceLock::new() })
    }

    fn register(&'static self, fd: BorrowedFd<'_>, bits: EventFlags) -> Result<Registration, Errno> {
        let source = Source::new();
        let mut state = self.state.lock();
        if state.door.is_some() {
            drop(state);
            self.check(fd)?;
            state = self.state.lock();
        }
        let key = state.slab.add(Arc::clone(&source), fd.as_raw_fd());
        let registration = Registration { source, key, poller: self };
        let Some(door) = &mut state.door else {
            drop(state);
            self.set.add_for(key, fd, bits)?;
            return Ok(registration);
        };
        let rings = door.leave(Word::Add(key, fd.as_raw_fd()));
        drop(state);
        if rings {
            ring(&self.bell);
        }
        Ok(registration)
    }

    /// Whether one can wait for a descriptor: a ring would not say so here.
    fn check(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        match FileType::from_raw_mode(fstat(fd)?.st_mode) {
            FileType::Socket | FileType::Fifo => Ok(()),
            _ => self.set.tries(fd),
        }
    }

    /// A key means nothing any more, and its descriptor `is_open` certainly. True: there is a thread that
    /// will tell `gone`.
    fn forget(&self, key: u64, gone: Option<Arc<Gone>>, is_open: bool) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.slab.remove(key) else { return false };
        let has_door = state.door.is_some();
        if !has_door && is_open {
            // SAFETY: it is open: whoever closes it ends its entry first, as this one does; another one that
            // does so too finds out under this lock.
            self.set.take_out(unsafe { BorrowedFd::borrow_raw(entry.fd) });
        }
        let rings = state.door.as_mut().is_some_and(|door| door.leave(Word::Remove(key, gone)));
        drop(state);
        drop(entry);
        if rings {
            ring(&self.bell);
        }
        has_door
    }

    fn is_thread(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    /// Whether a ring is in use.
    fn has_ring(&self) -> bool {
        self.state.lock().door.is_some()
    }

    /// What the thread does, for ever.
    fn watch(&self, ring: Option<Ring>) {
        let _ = self.thread.set(std::thread::current().id());
        let mut deaf = match ring {
            Some(mut ring) => {
                let error = self.watch_ring(&mut ring);
                self.move_out(error)
            }
            None => Vec::new(),
        };
        self.lease.set_thread();
        loop {
            self.lease.wait();
            while self.lease.is_threads() {
                self.poll((!deaf.is_empty()).then_some(LOOK));
                deaf.retain(|source: &Weak<Source>| {
                    let source = source.upgrade();
                    source.inspect(|source| source.happened(BITS)).is_some()
                });
            }
        }
    }

    /// Waits for events, and deals with them. It ends also when the bell sounds.
    fn poll(&self, at_most: Option<Duration>) {
        let mut tells = false;
        // A signal ends it early. Nothing else can be wrong with a descriptor that is ours.
        let _ = (&self.set).wait(at_most, |Told { key, flags, .. }| {
            if !std::mem::replace(&mut tells, true) {
                self.traffic.happened();
            }
            let source = self.state.lock().slab.find(key).map(|entry| Arc::clone(&entry.source));
            if let Some(source) = source {
                source.happened(flags);
            }
        });
    }

    // -- With a ring ----------------------------------------------------------------------------------------

    /// Waits for events of the ring, and deals with them, for as long as that works: why it does not.
    fn watch_ring(&self, ring: &mut Ring) -> Errno {
        let mut visit = Visit::default();
        let mut works = ring.begin();
        while works.is_ok() {
            works = self.visit(ring, &mut visit);
        }
        for (_, gone) in visit.leaving {
            gone.tell();
        }
        works.err().unwrap_or(Errno::IO)
    }

    /// Does what it was left word of, waits, and deals with what it is told.
    fn visit(&self, ring: &mut Ring, visit: &mut Visit) -> Result<(), Errno> {
        if let Some(door) = &mut self.state.lock().door {
            visit.word.append(&mut door.word);
            door.is_asleep = true;
        }
        for word in visit.word.drain(..) {
            match word {
                Word::Add(key, fd) => ring.request_for(key, fd)?,
                Word::Remove(key, gone) => {
                    ring.remove(key)?;
                    visit.leaving.extend(gone.map(|gone| (key, gone)));
                }
            }
        }
        let mut works = Ok(());
        ring.wait(None, |told| {
            if let Err(error) = self.is_told(visit, told) {
                works = Err(error);
            }
        })?;
        works
    }

    fn is_told(&self, visit: &mut Visit, Told { key, flags, watched }: Told) -> Result<(), Errno> {
        let source = {
            let mut state = self.state.lock();
            if let Some(door) = &mut state.door {
                door.is_asleep = false;
            }
            state.slab.find(key).map(|entry| (Arc::clone(&entry.source), entry.fd))
        };
        match (source, watched) {
            (Some(_), Watched::Never(error)) => return Err(error),
            (Some((source, fd)), watched) => {
                if watched == Watched::NoMore {
                    // If it is closed meanwhile, and its number is another one's, that is watched until word
                    // is found of the end of this: it is at the door already.
                    visit.word.push(Word::Add(key, fd));
                }
                source.happened(flags);
            }
            (None, Watched::Still) => {}
            (None, Watched::NoMore | Watched::Never(_)) => {
                visit.leaving.retain(|(leaving, gone)| {
                    if *leaving == key {
                        gone.tell();
                    }
                    *leaving != key
                });
            }
        }
        Ok(())
    }

    /// Everything that is registered moves from the ring, which works no more, to the set. Those that the set
    /// does not take are looked at from time to time.
    #[cold]
    fn move_out(&self, error: Errno) -> Vec<Weak<Source>> {
        let mut deaf = Vec::new();
        let mut state = self.state.lock();
        let door = state.door.take();
        for (key, Entry { source, fd }) in state.slab.all() {
            // SAFETY: it is open: whoever closes it ends its entry first, for which this lock is needed.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            if (&self.set).add(key, fd).is_err() {
                deaf.push(Arc::downgrade(source));
            }
        }
        drop(state);
        for word in door.into_iter().flat_map(|door| door.word) {
            if let Word::Remove(_, Some(gone)) = word {
                gone.tell();
            }
        }
        backend::refused(error);
        deaf
    }
}

/// What the thread that has the ring is about.
#[derive(Default)]
struct Visit {
    /// To be done before it waits.
    word: Vec<Word>,
    /// Who waits for the end of a request that is being taken back.
    leaving: Vec<(u64, Arc<Gone>)>,
}

/// A worker that has nothing else to do.
impl Idler for Poller {
    fn take(&self) -> bool {
        self.traffic.wants_workers() && self.lease.take()
    }
    fn idle(&self, at_most: Option<Duration>) {
        self.poll(at_most);
    }
    fn give_back(&self) {
        // The thread need not find out that no worker wants it any more.
        self.lease.give_back(if self.traffic.wants_workers() { To::Anybody } else { To::Thread });
    }
    fn call(&self) {
        self.lease.call();
    }
}
