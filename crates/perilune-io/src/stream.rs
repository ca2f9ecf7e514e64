//! A connection without Lua: a descriptor, what has come and was not taken, what was written and has not gone.
//!
//! # Reading
//! Bytes come into a buffer and are handed out from there, so whatever ends a read early (a timeout, a limit, a cancellation) leaves in the buffer what was not handed out. A read from a
//! stream that returned less than there was room for has taken all there was: until the next edge the next attempt is saved, unless the peer has hung up.
//!
//! # Writing
//! A write is taken whole into the buffer, or not at all; it goes out at [`FLUSH_AT`] bytes, when this connection is read, and when the domain has nothing better to do
//! (`sched/deferred.rs`). What the system does not take then is written by the poller as soon as there is room. An error is kept and told by the next write, flush or close.
//! Nothing more is taken while more than the *high-water mark* waits: the writer waits before its bytes are taken, so several may wait, and no message is ever torn.
//!
//! # Closing
//! The descriptor is counted by the two directions and by whoever is in a call with it; its number is free when the last of them has let go. Closing takes it from both
//! directions, and then wakes all who wait.
//!
//! # Locks
//! One for each direction, held for system calls that do not wait. Who needs both (to copy from one connection to another) takes that of the input first. Under them
//! nothing is called but slots and the system.

use crate::address;
use crate::buffer::{Buffer, ROOM};
use crate::failure::Failure;
use crate::poller::{self, Backlog, Registration, Source};
use crate::slot::Wakes;
use crate::waiting::{Side, Timeouts, Waited};
use parking_lot::{Mutex, MutexGuard};
use perilune_domain::outside::Awaited;
use perilune_domain::sched::deferred::Later;
use perilune_stdlib::sigpipe;
use perilune_vm::shared::{SharedKind, SharedObject};
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, SocketType, sockopt};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// So many bytes are written out at once.
pub const FLUSH_AT: usize = 64 << 10;
/// Strings from here on are offered to the system before they are copied.
const DIRECT: usize = 16 << 10;
/// The high-water mark if nobody says otherwise.
const HIGH_WATER: usize = 256 << 10;
/// Read at a time at most, of what is asked for.
const MOST_ROOM: usize = 1 << 20;

/// What has come.
pub struct Input {
    fd: Option<Arc<OwnedFd>>,
    /// Not handed out yet.
    pub buffer: Buffer,
    /// No more will come.
    pub end: Option<End>,
    /// The last read has taken all there was.
    drained: bool,
    /// How far the buffer was searched, and for what.
    searched: (Vec<u8>, usize),
}

/// Why no more comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The peer has ended the stream.
    Eof,
    /// The connection is broken.
    Failed(Errno),
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

/// What is to go.
pub struct Output {
    fd: Option<Arc<OwnedFd>>,
    buffer: Buffer,
    failed: Option<Errno>,
    /// It is in a domain's list of what is put off.
    deferred: bool,
    /// No more may be written.
    ended: bool,
    /// To be closed as soon as all has gone, or at this time.
    closing: Option<Arc<Stream>>,
}

/// A connection.
pub struct Stream {
    me: Weak<Stream>,
    registration: Registration,
    input: Mutex<Input>,
    output: Mutex<Output>,
    closed: AtomicBool,
    timeouts: Timeouts,
    high_water: AtomicUsize,
    received: AtomicU64,
    sent: AtomicU64,
    is_tcp: bool,
    /// One end of a pipe: one of the directions is closed from the beginning.
    is_pipe: bool,
    /// Our address and the peer's.
    pub address: String,
    /// As above.
    pub peer: String,
    kind: &'static SharedKind,
}

impl Stream {
    /// A connection around a socket that is connected and does not block.
    ///
    /// # Errors
    /// The poller cannot watch it.
    pub fn new(fd: OwnedFd, kind: &'static SharedKind, nodelay: bool) -> Result<Arc<Stream>, Errno> {
        let registration = poller::register(&fd)?;
        Ok(Stream::with(fd, registration, kind, nodelay))
    }

    /// The same, of a socket that is registered already.
    pub fn with(
        fd: OwnedFd,
        registration: Registration,
        kind: &'static SharedKind,
        nodelay: bool,
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
        Stream::of(ends, registration, kind, names, is_tcp, false)
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
        let registration = poller::register(&fd)?;
        let fd = Some(Arc::new(fd));
        let ends = match side {
            Side::Read => (fd, None),
            Side::Write => (None, fd),
        };
        Ok(Stream::of(ends, registration, kind, names, false, true))
    }

    fn of(
        (input, output): (Option<Arc<OwnedFd>>, Option<Arc<OwnedFd>>),
        registration: Registration,
        kind: &'static SharedKind,
        (address, peer): (String, String),
        is_tcp: bool,
        is_pipe: bool,
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
            }),
            output: Mutex::new(Output {
                fd: output,
                buffer: Buffer::default(),
                failed: None,
                deferred: false,
                ended: false,
                closing: None,
            }),
            closed: AtomicBool::new(false),
            timeouts: Timeouts::default(),
            high_water: AtomicUsize::new(HIGH_WATER),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            is_tcp,
            is_pipe,
            address,
            peer,
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

    /// What has come.
    pub fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock()
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
        }
        Ok(())
    }

    /// Bytes received and sent so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }

    // -- Reading ---------------------------------------------------------------------------------------------------------------

    /// Reads more into the buffer; `want`: so many bytes are hoped for.
    pub fn more(&self, input: &mut Input, want: usize) -> More {
        if input.end.is_some() {
            return More::End;
        }
        let Some(fd) = &input.fd else { return More::End };
        let slot = &self.source().read;
        if input.drained && !slot.may_be_ready() {
            return More::Wait;
        }
        slot.clear();
        let room = want.clamp(ROOM, MOST_ROOM);
        loop {
            let Some(end) = input.buffer.end(room) else { return More::NoMemory };
            let before = end.len();
            let room = end.capacity() - before;
            match rustix::io::read(fd, spare_capacity(end)) {
                Ok(0) => {
                    input.end = Some(End::Eof);
                    self.forget_empty(input);
                    return More::End;
                }
                Ok(n) => {
                    input.drained = n < room;
                    self.received.fetch_add(n as u64, Ordering::Relaxed);
                    return More::Some;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    input.drained = true;
                    self.forget_empty(input);
                    return More::Wait;
                }
                Err(error) => {
                    input.end = Some(End::Failed(error));
                    self.forget_empty(input);
                    return More::End;
                }
            }
        }
    }

    /// Gives the memory of an empty buffer back.
    fn forget_empty(&self, input: &mut Input) {
        if input.buffer.is_empty() {
            input.buffer.clear();
        }
    }

    // -- Writing ---------------------------------------------------------------------------------------------------------------

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

    fn check_output(&self, output: &Output) -> Result<(), Failure> {
        match output.failed {
            Some(error) => Err(Failure::System(error)),
            None if output.fd.is_none() => Err(Failure::Closed),
            None => Ok(()),
        }
    }

    /// Makes room for bytes that are going to be taken. False: there is no memory.
    pub fn reserve(&self, output: &mut Output, n: usize) -> bool {
        output.buffer.end(n).is_some()
    }

    /// Takes bytes, for which there is room. To be flushed later ([`Stream::is_to_be_deferred`]) unless they are many.
    pub fn take(&self, output: &mut Output, bytes: &[u8]) {
        let mut bytes = bytes;
        if bytes.len() >= DIRECT {
            self.write_out(output);
            if output.buffer.is_empty() && output.failed.is_none() {
                bytes = &bytes[self.send(output, bytes)..];
            }
        }
        if output.failed.is_some() {
            return; // told by the next one
        }
        if !output.buffer.add(bytes) {
            // The room was lent to somebody else meanwhile: what follows would be a torn message.
            output.failed = Some(Errno::NOMEM);
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
    fn send_once(is_pipe: bool, fd: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
        if is_pipe {
            sigpipe::without(|| rustix::io::write(fd, bytes))
        } else {
            rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)
        }
    }

    /// Sends what the system takes at once; how much that was.
    fn send(&self, output: &mut Output, bytes: &[u8]) -> usize {
        let Some(fd) = &output.fd else { return 0 };
        let slot = &self.source().write;
        let mut done = 0;
        while done < bytes.len() {
            slot.clear();
            match Stream::send_once(self.is_pipe, fd, &bytes[done..]) {
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if slot.set_backlog() {
                        break;
                    }
                }
                Err(error) => {
                    output.failed = Some(error);
                    break;
                }
            }
        }
        self.sent.fetch_add(done as u64, Ordering::Relaxed);
        done
    }

    /// Writes what can be written. What is left is the poller's to write.
    pub fn write_out(&self, output: &mut Output) {
        if output.buffer.is_empty() {
            return;
        }
        let mut buffer = std::mem::take(&mut output.buffer);
        let done = self.send(output, buffer.bytes());
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
        Ok(output.buffer.is_empty())
    }

    /// Bytes that wait to go.
    pub fn unsent(&self, output: &Output) -> usize {
        output.buffer.len()
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
        if self.is_pipe {
            // Its other end reads the end of the stream when this one is closed.
            output.fd = None;
            return Ok(());
        }
        if !std::mem::replace(&mut output.ended, true)
            && let Some(fd) = &output.fd
        {
            match rustix::net::shutdown(fd, Shutdown::Write) {
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    // -- The end ---------------------------------------------------------------------------------------------------------------

    /// Closes it at once; what has not gone is dropped. False: it was closed.
    pub fn close_now(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        let (fd, buffer) = {
            let mut input = self.input();
            (input.fd.take(), std::mem::take(&mut input.buffer))
        };
        drop((fd, buffer));
        let (fd, buffer, closing) = {
            let mut output = self.output();
            (output.fd.take(), std::mem::take(&mut output.buffer), output.closing.take())
        };
        drop((fd, buffer));
        self.source().read.wake(Wakes::All);
        self.source().write.wake(Wakes::All);
        drop(closing);
        true
    }

    /// Closes it as soon as what was written has gone, which nobody waits for. What has not gone after `patience` is dropped.
    pub fn close_later(&self, patience: Duration) {
        let mut output = self.output();
        self.write_out(&mut output);
        if output.buffer.is_empty() || output.fd.is_none() {
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
        self.close_now()
    }
}

impl Input {
    /// Where `wanted` begins in the buffer, if it is there. What was searched already is not searched again.
    pub fn find(&mut self, wanted: &[u8]) -> Option<usize> {
        if self.searched.0 != wanted {
            self.searched = (wanted.to_vec(), 0);
        }
        let bytes = self.buffer.bytes();
        let from = self.searched.1.min(bytes.len());
        let found = match wanted {
            [byte] => memchr::memchr(*byte, &bytes[from..]),
            _ => memchr::memmem::find(&bytes[from..], wanted),
        };
        if found.is_none() {
            self.searched.1 = (bytes.len() + 1).saturating_sub(wanted.len());
        }
        found.map(|at| at + from)
    }

    /// Hands the first `n` bytes out.
    pub fn consume(&mut self, n: usize) {
        self.buffer.consume(n);
        self.searched.1 = 0;
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.fd.is_some()
    }
}

impl Backlog for Stream {
    fn write_backlog(&self) {
        let mut output = self.output();
        self.write_out(&mut output);
        let over = output.closing.is_some() && (output.buffer.is_empty() || output.failed.is_some());
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
}

impl Awaited for Stream {
    fn words(&self) -> String {
        format!("connection {} -> {}", self.address, self.peer)
    }
}

impl SharedObject for Stream {
    fn kind(&self) -> &'static SharedKind {
        self.kind
    }
    fn label(&self) -> Option<String> {
        let closed = if self.is_closed() { " (closed)" } else { "" };
        Some(format!("{} -> {}{closed}", self.address, self.peer))
    }
    fn held_bytes(&self) -> usize {
        self.input().buffer.len() + self.output().buffer.len()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Nobody can ask for it any more; what it has gathered goes if there is room.
        let output = self.output.get_mut();
        let (fd, buffer) = (output.fd.take(), std::mem::take(&mut output.buffer));
        if let Some(fd) = fd
            && !buffer.is_empty()
            && output.failed.is_none()
        {
            let _ = Stream::send_once(self.is_pipe, &fd, buffer.bytes());
        }
    }
}
