//! What traces say of connections and servers beyond their waits (category `io`): why a wait for a peer was
//! long, writes in small pieces, requests.
//!
//! # Why a wait was long
//! A wait by itself says who waited for whom, and not whose fault it was. So a wait is looked at twice
//! ([`Before`]): when it begins, for what is known only then, and when it is over, if it lasted.
//!
//! | said | because |
//! |---|---|
//! | `Held` | Nagle's algorithm is on, the system has bytes that it has not sent, and others that are not acknowledged, fewer than the window: 39 of 40 waits behind a delayed acknowledgement look so, and none of 10,000 others |
//! | `Lost` | segments were sent again while it lasted, more than the peer has said it had already |
//! | `Pieces` | a part of what is read was there already |
//! | `Peer` | the program has connected, has written something since it last received, and all of it had gone |
//! | `Full` | a write waited for room |
//!
//! That a segment was sent again says not that it was lost: if a peer delays its acknowledgement, the system
//! sends the last segment again after some 8 ms to find out (a *tail loss probe*, RFC 8985), and every third
//! wait for a peer that is busy for 100 ms has one, over loopback too. A peer that gets a segment twice says
//! so in its acknowledgement (D-SACK, RFC 2883), and the system counts these.
//!
//! A server that waits for its client's next request is not told: that is nobody's fault.
//!
//! # Small writes
//! Pieces of less than [`SMALL`] bytes, sent without anything received and no more than [`PAUSE`] apart,
//! could have gone together. So many of them are told at a time.
//!
//! # Requests
//! A fiber answers one request at a time. Its parts are told by what happens to the fiber between its events;
//! the room of tools has the books (`analyse/requests.rs`).
//!
//! All of it costs a test while the category is off.

use crate::stream::Stream;
use crate::sys::tcp;
use parking_lot::Mutex;
use perilune_domain::outside::Awaited;
use perilune_trace::event::{self, Bytes, Few, Name, Ns, Protocol, Slowness, Stack};
use perilune_trace::{Category, FiberRef, ObjectRef, emit, names, on};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shorter waits are not told.
const LONG: Duration = Duration::from_millis(5);
/// A piece of fewer bytes is small.
const SMALL: usize = 512;
/// Small pieces that are further apart than this could not have gone together.
const PAUSE: Duration = Duration::from_millis(1);
/// Fewer are not told.
const FEW: u32 = 4;
/// So many are told at a time.
const MANY: u32 = 64;
/// Names of remote functions come from peers: no more are remembered.
const MOST_NAMES: usize = 1024;

/// Whether any of it is wanted.
pub fn is_on() -> bool {
    on(Category::Io)
}

/// What events call something that is waited for.
pub fn object(of: &dyn Awaited) -> ObjectRef {
    names::called(of.kind(), of.name().as_bytes())
}

// -- Conversations ------------------------------------------------------------------------------------------

/// What is kept of a conversation. Both directions write to it; what they miss of each other makes a figure
/// wrong by one.
#[derive(Default)]
pub struct Talk {
    /// Nagle's algorithm is on, as far as is known.
    nagle: AtomicBool,
    /// Something was sent since something was received.
    asked: AtomicBool,
    pieces: AtomicU32,
    bytes: AtomicU32,
    /// Where the program had the last piece sent, if that is known.
    place: AtomicU32,
    /// When that was, in nanoseconds.
    last: AtomicU64,
}

impl Talk {
    /// Nagle's algorithm has been turned on or off.
    pub fn set_nagle(&self, on: bool) {
        self.nagle.store(on, Ordering::Relaxed);
    }

    /// The program asks for what it has written to be sent now, at this call path.
    pub fn at(&self, stack: u32) {
        self.place.store(stack, Ordering::Relaxed);
    }

    /// The system has taken a piece of so many bytes.
    pub fn sent(&self, n: usize, of: &dyn Awaited) {
        self.asked.store(true, Ordering::Relaxed);
        if !is_on() {
            return;
        }
        let now = perilune_trace::clock::monotonic_ns();
        let since = now.saturating_sub(self.last.swap(now, Ordering::Relaxed));
        if n >= SMALL || u128::from(since) > PAUSE.as_nanos() {
            self.tell(of);
        }
        if n < SMALL {
            self.bytes.fetch_add(n as u32, Ordering::Relaxed);
            if self.pieces.fetch_add(1, Ordering::Relaxed) + 1 >= MANY {
                self.tell(of);
            }
        }
    }

    /// Something has come.
    pub fn received(&self, of: &dyn Awaited) {
        // Mostly it is false already, or the cache line is ours.
        if self.asked.load(Ordering::Relaxed) {
            self.asked.store(false, Ordering::Relaxed);
        }
        if self.pieces.load(Ordering::Relaxed) > 0 {
            self.tell(of);
        }
    }

    /// Nothing more is sent.
    pub fn ended(&self, of: &dyn Awaited) {
        if self.pieces.load(Ordering::Relaxed) > 0 {
            self.tell(of);
        }
    }

    /// Tells the pieces that have gone so far, if they are many.
    fn tell(&self, of: &dyn Awaited) {
        let pieces = self.pieces.swap(0, Ordering::Relaxed);
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if pieces < FEW || !is_on() {
            return;
        }
        let (size, pieces) = (Bytes(bytes.into()), Few::of(pieces.into()));
        emit(event::SmallWrites { object: object(of), size, pieces });
        emit(event::SmallWritesAt { stack: Stack(self.place.load(Ordering::Relaxed)) });
    }

    /// A read begins to wait. `has_some`: a part of what it wants is there. `dialled`: the program has
    /// connected.
    pub fn reads(&self, fd: &OwnedFd, has_some: bool, dialled: bool) -> Before {
        let tcp = tcp::info(fd);
        let holds = self.nagle.load(Ordering::Relaxed)
            && tcp.is_some_and(|tcp| 0 < tcp.unacked && tcp.unacked < tcp.window)
            && tcp::unsent(fd) > 0;
        let why = match () {
            () if holds => Some(Slowness::Held),
            () if has_some => Some(Slowness::Pieces),
            () if dialled && self.asked.load(Ordering::Relaxed) => Some(Slowness::Peer),
            () => None,
        };
        Before { since: Instant::now(), why, tcp }
    }

    /// A write begins to wait. (To a peer that takes nothing the system sends the same bytes again now and
    /// then, to ask: that is no loss.)
    pub fn writes(&self) -> Before {
        Before { since: Instant::now(), why: Some(Slowness::Full), tcp: None }
    }
}

/// What was known when a wait began.
#[derive(Clone, Copy)]
pub struct Before {
    since: Instant,
    why: Option<Slowness>,
    /// What the system knew by then, if it matters.
    tcp: Option<tcp::Info>,
}

impl Before {
    /// The wait is over.
    pub fn tell(&self, fd: &OwnedFd, of: &dyn Awaited) {
        let waited = self.since.elapsed();
        let Some(mut why) = self.why.filter(|_| waited >= LONG && is_on()) else { return };
        if let Some(before) = self.tcp
            && tcp::info(fd).is_some_and(|now| now.has_lost_since(before))
        {
            why = Slowness::Lost;
        }
        let waited = Ns(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
        emit(event::SlowWait { object: object(of), waited, why });
    }
}

// -- Requests -----------------------------------------------------------------------------------------------

/// A fiber begins to answer a request, which came by this connection and has lain here for so long.
pub fn request_begins(
    fiber: FiberRef,
    name: &[u8],
    protocol: Protocol,
    connection: &Stream,
    queued: Duration,
) {
    emit(event::RequestBegin { fiber, name: bounded(name), protocol });
    let queued = Ns(u64::try_from(queued.as_nanos()).unwrap_or(u64::MAX));
    emit(event::RequestCame { queued, object: object(connection) });
}

/// Its handler has returned.
pub fn request_handled(fiber: FiberRef) {
    emit(event::RequestHandled { fiber });
}

/// It has been answered.
pub fn request_ends(fiber: FiberRef, status: u16) {
    emit(event::RequestEnd { fiber, status: Few(status) });
}

/// The number of a name; 0 if there are too many.
fn bounded(name: &[u8]) -> Name {
    static KNOWN: Mutex<Option<HashMap<Box<[u8]>, u32>>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if let Some(&number) = known.get(name) {
        return Name(number);
    }
    if known.len() >= MOST_NAMES || name.len() > SMALL {
        return Name(0);
    }
    let number = names::string(name);
    known.insert(name.into(), number);
    Name(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_had_already_was_not_lost() {
        let tcp = |resent, needless| tcp::Info { unacked: 0, window: 10, resent, needless };
        let before = tcp(5, 4);
        assert!(!tcp(5, 4).has_lost_since(before), "nothing was sent again");
        assert!(tcp(6, 4).has_lost_since(before), "a segment was lost");
        assert!(!tcp(6, 5).has_lost_since(before), "a probe, for which there was no need");
        assert!(tcp(8, 6).has_lost_since(before), "two probes, and a loss");
        assert!(!tcp(5, 5).has_lost_since(before), "what the peer says of an older probe is no loss");
        assert!(!tcp(0, 0).has_lost_since(tcp(u32::MAX, u32::MAX)), "the counts wrap");
        assert!(tcp(1, 0).has_lost_since(tcp(u32::MAX, u32::MAX)), "the counts wrap");
    }
}
