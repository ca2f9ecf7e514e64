//! One connection of remote calls, without Lua: the pump that cuts what comes into frames, and the end that
//! comes once.
//!
//! # The pump
//! Nobody reads from the connection. Its read slot holds a waiter that is no fiber: whoever rouses it (the
//! poller, or the worker that polls) runs [`Link::pump`], which takes what has come, cuts it into frames,
//! hands each to its call or job, leaves a new waiter, and then wakes those who have got something. So a
//! reply needs no reader between the socket and its caller; twelve replies that come together are one read;
//! and it does not matter which domain a caller is in, or whether the one that connected still lives.
//!
//! The pump does little: no decoding, no Lua; a copy of each frame. It reads at most [`ROUNDS`] times before
//! it lets the poller see to others. A server's pump stops while too much waits to be worked on (`jobs.rs`),
//! and the worker that has taken enough of it goes on with it.
//!
//! Over TLS the pump opens what comes, wherever it runs; the handshake it never sees, which the fiber of the
//! connection waits for before there is a pump. Whoever else tries to read from the connection may find its
//! end first, and then the pump is woken by it (`stream.rs`, "Locks").
//!
//! *Rejected*: a fiber that reads, which has to live in some domain and some scope, and is a switch more for
//! each batch; a caller that reads for all, which has to pass that on when its own reply has come, or when it
//! is cancelled.
//!
//! # The end
//! The first failure counts ([`Link::end`]): the connection is closed, and everybody who waits is woken and
//! finds it in [`Link::over`].
//!
//! # Locks
//! The lock of the stream's input is held while frames are cut, and under it the one of calls or jobs. That
//! of the output may be taken before the latter, never after. Nobody is woken under any of them.

use super::calls::Calls;
use super::frame::{self, GREETING, MOST};
use super::jobs::Jobs;
use crate::failure::Failure;
use crate::stream::{End, Input, More, Stream};
use crate::waiting::Waited;
use parking_lot::Mutex;
use perilune_data::wire::Malformed;
use perilune_domain::outside::{Reason, Waiter};
use perilune_domain::sched::{Sleeper, timer};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Reads of one pump before it is the turn of others.
const ROUNDS: usize = 32;
/// After so long it goes on.
const PAUSE: Duration = Duration::from_millis(1);
/// A peer greets within this time, and is done with its handshake before that in as much.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long what was written may take to go after the end.
const LINGER: Duration = Duration::from_secs(10);

/// What a connection is for on this side.
pub enum Role {
    /// It asks.
    Client(Mutex<Calls>),
    /// It answers.
    Server(Box<Mutex<Jobs>>),
}

/// A connection of remote calls.
pub struct Link {
    me: Weak<Link>,
    /// The connection.
    pub stream: Arc<Stream>,
    /// What it is for.
    pub role: Role,
    greeted: AtomicBool,
    over: OnceLock<Failure>,
}

/// What cutting came to.
enum Cut {
    /// So many bytes more are needed.
    Want(usize),
    /// Enough for now.
    Enough,
}

impl Link {
    /// Begins on a connection that nobody has read from, and whose handshake is over (`natives::shaken`).
    pub fn new(stream: Arc<Stream>, role: Role) -> Arc<Link> {
        let link = Arc::new_cyclic(|me| Link {
            me: Weak::clone(me),
            stream,
            role,
            greeted: AtomicBool::new(false),
            over: OnceLock::new(),
        });
        link.send(&GREETING);
        let weak = Arc::downgrade(&link);
        if let Some(at) = Instant::now().checked_add(PATIENCE) {
            timer::after(at, move || {
                if let Some(link) = weak.upgrade()
                    && !link.greeted.load(Ordering::Acquire)
                {
                    link.end(Failure::Protocol("the peer does not greet".into()));
                }
            });
        }
        link.pump();
        link
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<&Failure> {
        self.over.get()
    }

    /// Sends bytes at once, whatever waits already: what is small and follows from something that the peer
    /// did, or ends something.
    pub fn send(&self, bytes: &[u8]) {
        let mut output = self.stream.output();
        if self.stream.reserve(&mut output, bytes.len()) {
            self.stream.take(&mut output, bytes);
            self.stream.write_out(&mut output);
        }
    }

    /// Takes what has come. Called by whoever is told of it.
    pub fn pump(&self) {
        let mut wakes = Vec::new();
        let failure = self.take(&mut wakes);
        self.wake(wakes);
        if let Some(failure) = failure {
            self.end(failure);
        }
    }

    /// Takes what the system has, for one whose time is over: the poller may not have told of it yet. The
    /// pump's own waiter stays where it is.
    pub fn glance(&self) {
        let mut wakes = Vec::new();
        let mut input = self.stream.input();
        if !input.is_open() {
            return;
        }
        self.stream.doubt_in(&mut input);
        let mut failure = None;
        for _ in 0..ROUNDS {
            // The pump is told of the end, too.
            if self.stream.more(&mut input, 0) != More::Some {
                break;
            }
            failure = self.cut(&mut input, &mut wakes).err().map(Failure::Protocol);
            if failure.is_some() {
                break;
            }
        }
        drop(input);
        self.wake(wakes);
        if let Some(failure) = failure {
            self.end(failure);
        }
    }

    fn take(&self, wakes: &mut Vec<Arc<Waiter>>) -> Option<Failure> {
        let mut input = self.stream.input();
        for _ in 0..ROUNDS {
            if !input.is_open() {
                return Some(Failure::Closed);
            }
            let want = match self.cut(&mut input, wakes) {
                Ok(Cut::Enough) => return None,
                Ok(Cut::Want(n)) => n,
                Err(what) => return Some(Failure::Protocol(what)),
            };
            match self.stream.more(&mut input, want) {
                More::Some => {}
                More::Wait => {
                    let waiter = Waiter::new(Pump(Weak::clone(&self.me)));
                    waiter.sleep();
                    if self.stream.source().read.leave(waiter).is_ok() {
                        return None;
                    }
                }
                More::End => {
                    return Some(match &input.end {
                        Some(End::Failed(error)) => error.clone().into(),
                        Some(End::Eof) | None => Failure::Closed,
                    });
                }
                More::NoMemory => return Some(Failure::System(Errno::NOMEM)),
            }
        }
        let me = Weak::clone(&self.me);
        if let Some(at) = Instant::now().checked_add(PAUSE) {
            timer::after(at, move || {
                if let Some(link) = me.upgrade() {
                    link.pump();
                }
            });
        }
        None
    }

    /// Hands out the frames in the buffer.
    fn cut(&self, input: &mut Input, wakes: &mut Vec<Arc<Waiter>>) -> Result<Cut, String> {
        if !self.greeted.load(Ordering::Relaxed) {
            let bytes = input.buffer.bytes();
            let n = bytes.len().min(GREETING.len());
            let name = n.min(GREETING.len() - 1);
            if bytes[..name] != GREETING[..name] {
                return Err("the peer does not speak this protocol".into());
            }
            if n < GREETING.len() {
                return Ok(Cut::Want(GREETING.len() - n));
            }
            let (theirs, ours) = (bytes[name], GREETING[name]);
            if theirs != ours {
                return Err(format!("the peer speaks version {theirs} of the protocol, this program {ours}"));
            }
            input.consume(n);
            self.greeted.store(true, Ordering::Release);
        }
        let mut at = 0;
        let cut = loop {
            match frame::split(&input.buffer.bytes()[at..], MOST)? {
                Err(n) => break Cut::Want(n),
                Ok(frame) => {
                    at += 4 + frame.len();
                    let goes_on = match &self.role {
                        Role::Client(calls) => calls.lock().take(frame, wakes),
                        Role::Server(jobs) => {
                            let taken = jobs.lock().take(frame, wakes);
                            taken.map(|(goes_on, alarm)| {
                                self.set_alarm(alarm);
                                goes_on
                            })
                        }
                    };
                    match goes_on {
                        Ok(true) => {}
                        Ok(false) => break Cut::Enough,
                        Err(Malformed::Bytes(what)) => return Err(what.into()),
                        Err(Malformed::Thrown(_)) => return Err("a frame cannot be read".into()),
                    }
                }
            }
        };
        input.consume(at);
        Ok(cut)
    }

    /// Looks at the times of jobs then.
    fn set_alarm(&self, at: Option<Instant>) {
        if let Some(at) = at {
            let me = Weak::clone(&self.me);
            timer::after(at, move || {
                if let Some(link) = me.upgrade()
                    && let Role::Server(jobs) = &link.role
                {
                    let mut wakes = Vec::new();
                    let next = jobs.lock().expire(&mut wakes);
                    link.wake(wakes);
                    link.set_alarm(next);
                }
            });
        }
    }

    /// Wakes those who have got something, or who are to work. One that was not to be woken any more is
    /// replaced.
    pub fn wake(&self, wakes: Vec<Arc<Waiter>>) {
        for waiter in wakes {
            let mut came = waiter.wake(Reason::Ready);
            while !came && let Role::Server(jobs) = &self.role {
                let other = jobs.lock().replace();
                came = other.is_none_or(|other| other.wake(Reason::Ready));
            }
        }
    }

    /// It is over. False: it was.
    pub fn end(&self, failure: Failure) -> bool {
        let is_local = failure == Failure::Closed;
        let mut first = false;
        self.over.get_or_init(|| {
            first = true;
            failure
        });
        if !first {
            return false;
        }
        let wakes = match &self.role {
            Role::Client(calls) => calls.lock().everybody(),
            Role::Server(jobs) => jobs.lock().everybody(),
        };
        for waiter in wakes {
            waiter.wake(Reason::Closed);
        }
        if is_local {
            self.stream.close_later(LINGER);
        } else {
            self.stream.close_now();
        }
        true
    }
}

/// What the read slot holds.
struct Pump(Weak<Link>);

impl Sleeper for Pump {
    fn rouse(&self, _: Reason) {
        if let Some(link) = self.0.upgrade() {
            link.pump();
        }
    }
    fn describe(&self) -> String {
        "a connection of remote calls".into()
    }
}
