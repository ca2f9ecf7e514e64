//! A connection without Lua: a descriptor, what has come and was not taken, what was written and has not
//! gone.
//!
//! # Reading
//! Bytes come into a buffer and are handed out from there, so whatever ends a read early (a timeout, a limit,
//! a cancellation) leaves in the buffer what was not handed out. A read from a stream that returned less than
//! there was room for has taken all there was: until the next edge the next attempt is saved, unless the peer
//! has hung up. The last attempt, when a time is over, is never saved ([`Stream::doubt`]): on a machine that
//! stood still the timer may have been quicker than the poller, and what has come in time must not be lost.
//!
//! # Writing
//! A write is taken whole into the buffer, or not at all; it goes out at [`FLUSH_AT`] bytes, when this
//! connection is read, and when the domain has nothing better to do (`sched/deferred.rs`). What the system
//! does not take then is written by the poller as soon as there is room. An error is kept and told by the
//! next write, flush or close. Nothing more is taken while more than the *high-water mark* waits: the writer
//! waits before its bytes are taken, so several may wait, and no message is ever torn.
//!
//! # TLS
//! With a session (`tls/`) the buffers still hold what programs read and write. What comes is opened at once;
//! what goes is sealed when the system takes bytes, into a buffer of its own that goes first. A failure of
//! the session ends both directions, after what was received before it.
//!
//! # Closing
//! The descriptor is counted by the two directions and by whoever is in a call with it; its number is free
//! when the last of them has let go. Closing takes it from both directions, and then wakes all who wait. The
//! poller is told before: it might keep open what it watches (`poller/ring.rs`).
//!
//! # Locks
//! Lines that lie in the buffer are taken without one by the domain that took the last one (`input_briefly`;
//! `perilune_stdlib::io::bias`).
//!
//! One for each direction, held for system calls that do not wait. Who needs both (to copy from one
//! connection to another, to answer in a handshake) takes that of the input first. The session's is the last.
//! Under them nothing is called but slots, the session and the system.
//!
//! Nobody is woken under them: who is woken may be the pump of remote calls (`rpc/link.rs`), which runs at
//! once and takes the lock of the input. What is to be told to all who wait for a session is therefore noted
//! in the input ([`Input::announces`]), and whoever lets go of its lock ([`InputGuard`]) tells it.

mod files;
mod input;
mod sealed;

pub use input::Input;

use crate::address;
use crate::buffer::{Buffer, ROOM};
use crate::failure::{Broken, Failure};
use crate::poller::{self, Backlog, Registration, Source};
use crate::seen::{Before, Talk};
use crate::slot::Wakes;
use crate::tls::Session;
use crate::waiting::{Side, Timeouts, Waited};
use parking_lot::{Mutex, MutexGuard};
use perilune_domain::outside::Awaited;
use perilune_domain::sched::deferred::Later;
use perilune_stdlib::io::bias::Bias;
use perilune_stdlib::sigpipe;
use perilune_trace::ObjectKind;
use perilune_vm::shared::{SharedKind, SharedObject};
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketType, sockopt};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// So many bytes are written out at once.
pub const FLUSH_AT: usize = 64 << 10;
/// Strings from here on are offered to the system before they are copied.
const DIRECT: usize = 16 << 10;
/// The high-water mark if nobody says otherwise.
const HIGH_WATER: usize = 256 << 10;
/// Read at a time at most, of what is asked for.
const MOST_ROOM: usize = 1 << 20;

/// Why no more comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The peer has ended the stream.
    Eof,
    /// The connection is broken.
    Failed(Broken),
}

/// What a look for more bytes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    /// There are more.
    Some,
    /// Not now.
    Wait,
    /// Never: see [`Input::end`].
    End,
    /// There is no memory for them.
    NoMemory,
}

/// What the system has for a connection.
enum Received {
    Bytes(usize),
    Nothing,
    End(End),
    NoMemory,
}

/// What is to go.
pub struct Output {
    fd: Option<Arc<OwnedFd>>,
    buffer: Buffer,
    /// What the session has sealed already. Goes before the buffer.
    sealed: Buffer,
    failed: Option<Broken>,
    /// The poller tells when there is room.
    is_told_of_room: bool,
    /// `MSG_MORE`, while more is sure to follow.
    more: SendFlags,
    /// The system has taken a large piece of a file at once lately.
    takes_pieces: bool,
    /// It is in a domain's list of what is put off.
    deferred: bool,
    /// No more may be written.
    ended: bool,
    /// The peer is to be told, as soon as all has gone.
    shut_down: bool,
    /// To be closed as soon as all has gone, or at this time.
    closing: Option<Arc<Stream>>,
}

/// How a connection has come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The program has connected to somebody.
    Dialled,
    /// Somebody has connected to the program.
    Accepted,
    /// It is one end of a pipe: one of the directions is closed from the beginning.
    Pipe,
}

/// A connection.
pub struct Stream {
    me: Weak<Stream>,
    registration: Registration,
    input: Mutex<Input>,
    /// Beside the lock of the input.
    bias: Bias,
    output: Mutex<Output>,
    closed: AtomicBool,
    timeouts: Timeouts,
    high_water: AtomicUsize,
    received: AtomicU64,
    sent: AtomicU64,
    /// For traces.
    pub talk: Talk,
    is_tcp: bool,
    /// How it has come about.
    pub origin: Origin,
    /// The name or address that a program has connected to.
    host: OnceLock<Box<str>>,
    tls: OnceLock<Box<Mutex<Session>>>,
    /// The session is not there for the program's bytes yet.
    handshaking: AtomicBool,
    /// Our end and the peer's, as one connects to them.
    pub endpoint: String,
    /// As above.
    pub peer: String,
    kind: &'static SharedKind,
}

impl Stream {
    /// A connection around a socket that was accepted and does not block.
    ///
    /// # Errors
    /// The poller cannot watch it.
    pub fn accepted(fd: OwnedFd, kind: &'static SharedKind, nodelay: bool) -> Result<Arc<Stream>, Errno> {
        let registration = poller::register_for_input(&fd)?;
        Ok(Stream::with(fd, registration, kind, nodelay, Origin::Accepted))
    }

    /// The same, of a socket that is registered already.
    pub fn with(
        fd: OwnedFd,
        registration: Registration,
        kind: &'static SharedKind,
        nodelay: bool,
        origin: Origin,
    ) -> Arc<Stream> {
        let local = rustix::net::getsockname(&fd).ok();
        let is_tcp = local.as_ref().is_some_and(|a| a.address_family() != rustix::net::AddressFamily::UNIX);
        debug_assert_eq!(sockopt::socket_type(&fd), Ok(SocketType::STREAM));
        if is_tcp && nodelay {
            // What cannot be set is done without.
            let _ = sockopt::set_tcp_nodelay(&fd, true);
        }
        let peer = rustix::net::getpeername(&fd).ok().flatten();
        let fd = Arc::new(fd);
        let ends = (Some(Arc::clone(&fd)), Some(fd));
        let names = (address::text(local), address::text(peer));
        let stream = Stream::of(ends, registration, kind, names, is_tcp, origin);
        stream.talk.set_nagle(is_tcp && !nodelay);
        stream
    }

    /// One end of a pipe, which does not block, as a connection that has one direction only.
    ///
    /// # Errors
    /// The poller cannot watch it.
    pub fn pipe(
        fd: OwnedFd,
        side: Side,
        kind: &'static SharedKind,
        names: (String, String),
    ) -> Result<Arc<Stream>, Errno> {
        let registration = poller::register_for_input(&fd)?;
        let fd = Some(Arc::new(fd));
        let ends = match side {
            Side::Read => (fd, None),
            Side::Write => (None, fd),
        };
        Ok(Stream::of(ends, registration, kind, names, false, Origin::Pipe))
    }

    fn of(
        (input, output): (Option<Arc<OwnedFd>>, Option<Arc<OwnedFd>>),
        registration: Registration,
        kind: &'static SharedKind,
        (endpoint, peer): (String, String),
        is_tcp: bool,
        origin: Origin,
    ) -> Arc<Stream> {
        let stream = Arc::new_cyclic(|me| Stream {
            me: me.clone(),
            registration,
            input: Mutex::new(Input {
                fd: input,
                buffer: Buffer::default(),
                end: None,
                drained: false,
                searched: (Vec::new(), 0),
                announces: false,
                lends: false,
            }),
            bias: Bias::new(),
            output: Mutex::new(Output {
                fd: output,
                buffer: Buffer::default(),
                sealed: Buffer::default(),
                failed: None,
                is_told_of_room: false,
                more: SendFlags::empty(),
                takes_pieces: false,
                deferred: false,
                ended: false,
                shut_down: false,
                closing: None,
            }),
            closed: AtomicBool::new(false),
            timeouts: Timeouts::default(),
            high_water: AtomicUsize::new(HIGH_WATER),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            talk: Talk::default(),
            is_tcp,
            origin,
            endpoint,
            peer,
            host: OnceLock::new(),
            tls: OnceLock::new(),
            handshaking: AtomicBool::new(false),
            kind,
        });
        let weak: Weak<Stream> = stream.me.clone();
        stream.source().set_owner(weak);
        stream
    }

    /// Counted.
    pub fn counted(&self) -> Arc<Stream> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("whoever has a reference has it through a count"),
        }
    }

    /// What is to go.
    pub fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock()
    }

    /// Whether somebody has closed it here.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How long reads or writes may take from now on.
    pub fn set_timeout(&self, side: Side, span: Option<Duration>) {
        self.timeouts.set(side, span);
    }

    /// Above so many bytes in the buffer, writers wait.
    pub fn set_high_water(&self, bytes: usize) {
        self.high_water.store(bytes, Ordering::Relaxed);
    }

    /// The high-water mark.
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }

    /// Nagle's algorithm off or on.
    ///
    /// # Errors
    /// The system's, or that it is closed.
    pub fn set_nodelay(&self, on: bool) -> Result<(), Failure> {
        let fd = self.output().fd.clone().ok_or(Failure::Closed)?;
        if self.is_tcp {
            sockopt::set_tcp_nodelay(&fd, on)?;
            self.talk.set_nagle(!on);
        }
        Ok(())
    }

    /// Bytes received and sent so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }

    // -- Reading --------------------------------------------------------------------------------------------

    /// Reads more into the buffer; `want`: so many bytes are hoped for.
    pub fn more(&self, input: &mut Input, want: usize) -> More {
        if input.end.is_some() {
            return More::End;
        }
        let room = want.clamp(ROOM, MOST_ROOM);
        if let Some(tls) = self.tls.get() {
            return self.more_sealed(tls, input, room);
        }
        let mut buffer = std::mem::take(&mut input.buffer);
        let more = self.receive(input, &mut buffer, room);
        if let Received::Bytes(n) = more {
            self.received.fetch_add(n as u64, Ordering::Relaxed);
        } else if buffer.is_empty() {
            buffer.clear(); // gives its memory back
        }
        input.buffer = buffer;
        match more {
            Received::Bytes(_) => More::Some,
            Received::Nothing => More::Wait,
            Received::NoMemory => More::NoMemory,
            Received::End(end) => {
                input.end = Some(end);
                More::End
            }
        }
    }

    /// The next attempt asks the system, whatever the poller has told so far.
    pub fn doubt(&self) {
        self.doubt_in(&mut self.input());
    }

    /// The same, under the lock.
    pub fn doubt_in(&self, input: &mut Input) {
        input.drained = false;
    }

    /// Whether something has come that nobody has taken, which stays where it is. The end of the stream is
    /// nothing.
    pub fn has_unread(&self) -> bool {
        let input = self.input();
        if !input.buffer.is_empty() {
            return true;
        }
        let Some(fd) = &input.fd else { return false };
        let mut byte = [0; 1];
        matches!(rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((n, _)) if n > 0)
    }

    /// Takes what the system has.
    fn receive(&self, input: &mut Input, buffer: &mut Buffer, room: usize) -> Received {
        let Some(fd) = &input.fd else { return Received::End(End::Eof) };
        let slot = &self.source().read;
        if input.drained && !slot.may_be_ready() {
            return Received::Nothing;
        }
        slot.clear();
        loop {
            let Some(end) = buffer.end(room) else { return Received::NoMemory };
            let room = end.capacity() - end.len();
            match rustix::io::read(fd, spare_capacity(end)) {
                Ok(0) => return Received::End(End::Eof),
                Ok(n) => {
                    input.drained = n < room;
                    self.talk.received(self);
                    return Received::Bytes(n);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    input.drained = true;
                    return Received::Nothing;
                }
                Err(error) => return Received::End(End::Failed(Broken::System(error))),
            }
        }
    }

    // -- Writing --------------------------------------------------------------------------------------------

    /// Whether a write may be taken now: an error that is to be told first, or false if too much waits.
    pub fn may_write(&self, output: &mut Output) -> Result<bool, Failure> {
        self.check_output(output)?;
        if output.ended {
            return Err(Failure::Closed);
        }
        if output.buffer.len() > self.high_water() {
            self.write_out(output);
            self.check_output(output)?;
        }
        Ok(output.buffer.len() <= self.high_water())
    }

    /// Whether it can be written to.
    ///
    /// # Errors
    /// It is closed or broken.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_output(&self.output())
    }

    fn check_output(&self, output: &Output) -> Result<(), Failure> {
        match &output.failed {
            Some(error) => Err(error.clone().into()),
            None if output.fd.is_none() => Err(Failure::Closed),
            None => Ok(()),
        }
    }

    /// Makes room for bytes that are going to be taken. False: there is no memory.
    pub fn reserve(&self, output: &mut Output, n: usize) -> bool {
        output.buffer.end(n).is_some()
    }

    /// Takes bytes, for which there is room. To be flushed later ([`Stream::is_to_be_deferred`]) unless they
    /// are many.
    pub fn take(&self, output: &mut Output, bytes: &[u8]) {
        let mut bytes = bytes;
        if bytes.len() >= DIRECT {
            // What is there goes in one packet with the first of them.
            output.more = self.what_goes_on();
            self.write_out(output);
            output.more = SendFlags::empty();
            if output.is_all_gone() && output.failed.is_none() {
                bytes = &bytes[self.send_some(output, bytes)..];
            }
        }
        if output.failed.is_some() {
            return; // told by the next one
        }
        if !output.buffer.add(bytes) {
            // The room was lent to somebody else meanwhile: what follows would be a torn message.
            output.failed = Some(Broken::System(Errno::NOMEM));
        }
        if output.buffer.len() >= FLUSH_AT {
            self.write_out(output);
        }
    }

    /// Whether the caller has to see to it that the buffer is written later. Only once until then.
    pub fn is_to_be_deferred(&self, output: &mut Output) -> bool {
        !output.buffer.is_empty() && !std::mem::replace(&mut output.deferred, true)
    }

    /// One system call. The signal of a pipe that nobody reads is no way to tell it.
    fn send_once(origin: Origin, fd: &OwnedFd, bytes: &[u8], more: SendFlags) -> Result<usize, Errno> {
        if origin == Origin::Pipe {
            sigpipe::write(fd, bytes)
        } else {
            rustix::net::send(fd, bytes, SendFlags::NOSIGNAL | more)
        }
    }

    /// What is said to the system when more is sure to follow.
    fn what_goes_on(&self) -> SendFlags {
        if self.is_tcp && self.tls.get().is_none() { SendFlags::MORE } else { SendFlags::empty() }
    }

    /// Sends what the system takes at once; how much that was.
    fn send(&self, output: &mut Output, bytes: &[u8]) -> usize {
        let Some(fd) = &output.fd else { return 0 };
        let slot = &self.source().write;
        let mut done = 0;
        while done < bytes.len() {
            slot.clear();
            match Stream::send_once(self.origin, fd, &bytes[done..], output.more) {
                Ok(n) => {
                    done += n;
                    self.talk.sent(n, self);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if let Err(error) = self.registration.awaits_room(fd, &mut output.is_told_of_room) {
                        output.failed = Some(Broken::System(error));
                        break;
                    }
                    if slot.set_backlog() {
                        break;
                    }
                }
                Err(error) => {
                    output.failed = Some(Broken::System(error));
                    break;
                }
            }
        }
        done
    }

    /// Sends a program's bytes as they are, or sealed; how many the system, or the session, has taken.
    fn send_some(&self, output: &mut Output, bytes: &[u8]) -> usize {
        let done = match self.tls.get() {
            None => self.send(output, bytes),
            Some(_) if self.is_handshaking() => 0,
            Some(tls) => self.send_sealed(tls, output, bytes),
        };
        self.sent.fetch_add(done as u64, Ordering::Relaxed);
        done
    }

    /// Writes what can be written. What is left is the poller's to write.
    pub fn write_out(&self, output: &mut Output) {
        if let Some(tls) = self.tls.get() {
            // What is sealed, and what the session has to say, goes first.
            self.send_sealed(tls, output, &[]);
            if !output.sealed.is_empty() {
                return;
            }
        }
        if output.buffer.is_empty() {
            return;
        }
        let mut buffer = std::mem::take(&mut output.buffer);
        let done = self.send_some(output, buffer.bytes());
        buffer.consume(done);
        if output.failed.is_some() {
            buffer.clear();
        }
        output.buffer = buffer;
    }

    /// Whether all has gone, after an attempt.
    ///
    /// # Errors
    /// It never will.
    pub fn flush(&self, output: &mut Output) -> Result<bool, Failure> {
        self.write_out(output);
        self.check_output(output)?;
        Ok(output.is_all_gone())
    }

    /// Bytes that wait to go.
    pub fn unsent(&self, output: &Output) -> usize {
        output.buffer.len() + output.sealed.len()
    }

    /// Writes what can be written, if there is something.
    pub fn flush_some(&self) {
        let mut output = self.output();
        self.write_out(&mut output);
    }

    /// No more is written: the peer reads the end of the stream. Everything has been flushed.
    ///
    /// # Errors
    /// The system's, or that it is closed.
    pub fn end_output(&self, output: &mut Output) -> Result<(), Failure> {
        self.check_output(output)?;
        if self.origin == Origin::Pipe {
            // Its other end reads the end of the stream when this one is closed.
            self.registration.end();
            output.fd = None;
            return Ok(());
        }
        if std::mem::replace(&mut output.ended, true) {
            return Ok(());
        }
        if let Some(mut session) = self.session() {
            session.say_goodbye();
        }
        output.shut_down = true;
        self.write_out(output);
        self.shut_down(output)
    }

    /// Tells the system's peer that no more comes, once all has gone.
    fn shut_down(&self, output: &mut Output) -> Result<(), Failure> {
        if output.shut_down
            && output.is_all_gone()
            && let Some(fd) = &output.fd
        {
            output.shut_down = false;
            match rustix::net::shutdown(fd, Shutdown::Write) {
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    // -- The end --------------------------------------------------------------------------------------------

    /// Closes it at once; what has not gone is dropped. False: it was closed.
    pub fn close_now(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.farewell();
        self.let_go();
        true
    }

    /// Takes the descriptor from both directions, and wakes who waits.
    fn let_go(&self) {
        self.talk.ended(self);
        self.registration.end();
        let (fd, buffer) = {
            let mut input = self.input();
            (input.fd.take(), std::mem::take(&mut input.buffer))
        };
        drop((fd, buffer));
        let (fd, buffer, closing) = {
            let mut output = self.output();
            let buffers = (std::mem::take(&mut output.buffer), std::mem::take(&mut output.sealed));
            (output.fd.take(), buffers, output.closing.take())
        };
        drop((fd, buffer));
        self.source().read.wake(Wakes::All);
        self.source().write.wake(Wakes::All);
        drop(closing);
    }

    /// Closes it as soon as what was written has gone, which nobody waits for. What has not gone after
    /// `patience` is dropped.
    pub fn close_later(&self, patience: Duration) {
        let mut output = self.output();
        self.write_out(&mut output);
        if output.is_all_gone() || output.fd.is_none() {
            drop(output);
            self.close_now();
            return;
        }
        output.ended = true;
        let me = self.counted();
        output.closing = Some(Arc::clone(&me));
        drop(output);
        if let Some(at) = Instant::now().checked_add(patience) {
            perilune_domain::sched::timer::after(at, move || {
                me.close_now();
            });
        }
    }

    /// Closes it such that the peer's calls fail.
    pub fn abort(&self) -> bool {
        if self.is_tcp
            && let Some(fd) = self.output().fd.clone()
        {
            let _ = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
        let first = !self.closed.swap(true, Ordering::AcqRel);
        if first {
            self.let_go();
        }
        first
    }
}

impl Output {
    /// Whether nothing waits to go.
    fn is_all_gone(&self) -> bool {
        self.buffer.is_empty() && self.sealed.is_empty()
    }
}

impl Backlog for Stream {
    fn write_backlog(&self) {
        let mut output = self.output();
        self.write_out(&mut output);
        // The peer hears of it otherwise, if this fails.
        let _ = self.shut_down(&mut output);
        let over = output.closing.is_some() && (output.is_all_gone() || output.failed.is_some());
        drop(output);
        if over {
            self.close_now();
        }
    }
}

impl Later for Stream {
    fn now(self: Arc<Self>) {
        let mut output = self.output();
        output.deferred = false;
        self.write_out(&mut output);
    }
}

impl Waited for Stream {
    const NAME: &'static str = "connection";
    fn source(&self) -> &Source {
        &self.registration.source
    }
    fn deadline(&self, side: Side) -> Option<Instant> {
        self.timeouts.deadline(side)
    }
    fn is_shared(&self) -> bool {
        self.is_handshaking()
    }
    fn is_late(&self) {
        self.doubt();
    }
    fn look(&self, side: Side) -> Option<Before> {
        if self.is_handshaking() {
            return None;
        }
        match side {
            Side::Read => {
                let input = self.input();
                let fd = input.fd.clone()?;
                let has_some = !input.buffer.is_empty();
                drop(input);
                Some(self.talk.reads(&fd, has_some, self.origin == Origin::Dialled))
            }
            Side::Write => Some(self.talk.writes()),
        }
    }
    fn tell(&self, before: &Before) {
        let fd = self.input().fd.clone().or_else(|| self.output().fd.clone());
        if let Some(fd) = fd {
            before.tell(&fd, self);
        }
    }
}

impl Awaited for Stream {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Connection
    }
    fn name(&self) -> String {
        format!("{} -> {}", self.endpoint, self.peer)
    }
}

impl SharedObject for Stream {
    fn kind(&self) -> &'static SharedKind {
        self.kind
    }
    fn label(&self) -> Option<String> {
        let closed = if self.is_closed() { " (closed)" } else { "" };
        Some(format!("{} -> {}{closed}", self.endpoint, self.peer))
    }
    fn held_bytes(&self) -> usize {
        self.input().buffer.len() + self.output().buffer.len()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Nobody can ask for it any more; what it has gathered goes if there is room.
        if !*self.closed.get_mut() {
            self.flush_some();
            self.farewell();
        }
    }
}
