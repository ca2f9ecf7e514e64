//! The session of a connection (`tls/`): what comes is opened, what goes is sealed. What is said of it and of
//! its locks is in the essay of `stream.rs`.

use super::{End, Input, More, Output, Received, Stream};
use crate::buffer::Buffer;
use crate::failure::{Broken, Failure};
use crate::tls::{Fault, Session, Setup};
use parking_lot::{Mutex, MutexGuard};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Plain bytes that are sealed at a time.
const SEALED_AT_ONCE: usize = 64 << 10;
/// What is read before a connection with a session is closed, so that its end is no reset (see
/// [`Stream::farewell`]).
const READ_AT_END: usize = 64 << 10;

impl Stream {
    /// Names what the program has connected to. Once.
    pub fn set_host(&self, host: &str) {
        let _ = self.host.set(host.into());
    }

    /// What the program has connected to.
    pub fn host(&self) -> Option<&str> {
        self.host.get().map(|host| &**host)
    }

    /// The session.
    pub fn session(&self) -> Option<MutexGuard<'_, Session>> {
        self.tls.get().map(|tls| tls.lock())
    }

    /// Whether a handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.handshaking.load(Ordering::Acquire)
    }

    /// From now on all bytes are those of a session; what has come and was not read is its beginning.
    /// Everything has been flushed. False: something has been written meanwhile.
    ///
    /// # Errors
    /// It is closed or broken, has a session already, or the setup cannot be used.
    pub fn start_tls(&self, setup: &Setup) -> Result<bool, Failure> {
        let session = Session::new(setup)?;
        let mut input = self.input();
        let mut output = self.output();
        self.check_output(&output)?;
        if self.tls.get().is_some() {
            return Err(Failure::Tls("the connection has a TLS session already".into()));
        }
        if !output.is_all_gone() {
            return Ok(false);
        }
        self.handshaking.store(true, Ordering::Release);
        let tls = self.tls.get_or_init(|| Box::new(Mutex::new(session)));
        self.write_out(&mut output);
        drop(output);
        let early = std::mem::take(&mut input.buffer);
        if !early.is_empty() {
            self.open(tls, &mut input, early.bytes());
        }
        Ok(true)
    }

    /// As [`Stream::more`], of a connection with a session.
    pub(super) fn more_sealed(&self, tls: &Mutex<Session>, input: &mut Input, room: usize) -> More {
        loop {
            let mut sealed = Buffer::default();
            let received = self.receive(input, &mut sealed, room);
            let more = match received {
                Received::Bytes(_) => self.open(tls, input, sealed.bytes()),
                Received::Nothing => Some(More::Wait),
                Received::NoMemory => Some(More::NoMemory),
                Received::End(End::Eof) => {
                    let why = tls.lock().truncated();
                    self.breaks(input, Broken::Tls(why));
                    Some(More::End)
                }
                Received::End(End::Failed(error)) => {
                    self.breaks(input, error);
                    Some(More::End)
                }
            };
            sealed.clear();
            if let Some(more) = more {
                return more;
            }
        }
    }

    /// Opens what has come, and answers if that is due. `None`: there are no bytes for the program yet.
    fn open(&self, tls: &Mutex<Session>, input: &mut Input, sealed: &[u8]) -> Option<More> {
        let before = input.buffer.len();
        let mut session = tls.lock();
        let opened = session.open(sealed, &mut input.buffer);
        let is_over = !session.is_handshaking() && self.is_handshaking();
        let peer_has_ended = session.peer_has_ended();
        drop(session);
        let n = input.buffer.len() - before;
        self.received.fetch_add(n as u64, Ordering::Relaxed);
        if input.buffer.is_empty() {
            input.buffer.clear();
        }
        if is_over {
            self.handshaking.store(false, Ordering::Release);
        }
        // What the session has to say, and what was written before it could be sealed.
        self.flush_some();
        match opened {
            Ok(()) if peer_has_ended => input.end = Some(End::Eof),
            Ok(()) => {}
            // It cannot be gone on with: bytes are lost.
            Err(Fault::NoMemory) => self.breaks(input, Broken::System(Errno::NOMEM)),
            Err(Fault::Tls(why)) => self.breaks(input, Broken::Tls(why)),
        }
        input.announces |= is_over;
        match &input.end {
            _ if n > 0 => Some(More::Some),
            Some(_) => Some(More::End),
            None => None,
        }
    }

    /// Neither direction goes on.
    fn breaks(&self, input: &mut Input, why: Broken) {
        let mut output = self.output();
        output.buffer.clear();
        output.failed.get_or_insert_with(|| why.clone());
        drop(output);
        input.end = Some(End::Failed(why));
        self.handshaking.store(false, Ordering::Release);
        input.announces = true;
    }

    /// Says goodbye, if all has gone that there was to say.
    ///
    /// What has come and was not read would make the system tell the peer that the connection is reset, and
    /// the peer's system might drop what it has not read. In TLS 1.3 there is always something: a server's
    /// tickets. So it is read here, as far as it is there.
    pub(super) fn farewell(&self) {
        let Some(tls) = self.tls.get() else { return };
        let mut output = self.output();
        if self.is_handshaking() || !output.is_all_gone() || output.failed.is_some() {
            return;
        }
        tls.lock().say_goodbye();
        self.write_out(&mut output);
        let fd = output.fd.clone();
        drop(output);
        let mut unread = Buffer::default();
        if let Some(fd) = fd
            && let Some(end) = unread.end(READ_AT_END)
        {
            let _ = rustix::io::read(&fd, spare_capacity(end));
        }
        unread.clear();
    }

    /// Seals and sends until the system takes no more. What it has not taken of that is in the buffer of
    /// sealed bytes.
    pub(super) fn send_sealed(&self, tls: &Mutex<Session>, output: &mut Output, bytes: &[u8]) -> usize {
        let mut done = 0;
        loop {
            {
                let mut session = tls.lock();
                if done < bytes.len() {
                    let most = bytes.len().min(done + SEALED_AT_ONCE);
                    done += session.seal(&bytes[done..most]);
                }
                session.fetch(&mut output.sealed);
            }
            if output.sealed.is_empty() {
                return done;
            }
            let sealed = std::mem::take(&mut output.sealed);
            let sent = self.send(output, sealed.bytes());
            output.sealed = sealed;
            output.sealed.consume(sent);
            if !output.sealed.is_empty() || output.failed.is_some() {
                return done;
            }
        }
    }
}
