//! TLS in connections: `tls=` of `net.connect` and `net.listen`, `c:start_tls{}`.
//!
//! The protocol and its cryptography are `rustls` on `ring`; this folder joins them to connections and to the
//! words of programs.
//!
//! # Terms
//! * A *setup* is what handshakes begin from: certificates, trusted authorities, protocols ([`Setup`]).
//!   Programs write tables; equal tables mean one setup (`setup.rs`), as what can be resumed belongs to it.
//! * A *session* is the state of one connection's two directions ([`Session`]). It does no input or output:
//!   bytes go in and out of it.
//! * *Sealed* bytes are those of records, *plain* ones those of programs.
//!
//! # The session in its connection (`stream.rs`)
//! The buffers of a connection hold plain bytes. What is received is opened into the input's buffer at once;
//! what was written is sealed only when the system takes bytes, 64 KiB at a time, so small writes still share
//! a record. Sealed bytes that the system does not take stay in a second buffer, which goes first.
//!
//! A session has a lock of its own, as both directions need it: it is taken last. What receiving makes it say
//! (the rest of a handshake, alerts, new keys) goes through the output, so the order of locks is input,
//! output, session.
//!
//! # Handshakes
//! A client's handshake is part of `connect`. A server's begins when the connection is accepted, and goes on
//! in the first operation on it: `accept` waits for no client's bytes, so a client that says nothing keeps
//! nobody out. Operations that write wait until it is over, therefore nothing is in the buffer of plain bytes
//! before. Several fibers may wait for the end of one handshake: whoever is woken does the next step, and the
//! one who ends it wakes all.
//!
//! # What always holds
//! * The end of a stream without the peer's word for it (`close_notify`) is a failure, never an end.
//! * Certificates are verified unless the program has written `insecure=true`.
//! * Bytes that came before `start_tls` was called are the beginning of the peer's handshake. They are never
//!   handed out as plain ones of the session: nobody can slip commands in.
//! * A program without TLS reads no certificates.
//!
//! # Rejected
//! * `aws-lc-rs`: five times as long to build, and C that needs `cmake`.
//! * Sealing at `write`: a record for each small string.
//! * Handshakes on the poller's thread: a third of a millisecond of arithmetic each.

mod certificate;
mod options;
mod setup;
mod trouble;

pub use options::{client_setup, server_setup};
pub use setup::Setup;

use crate::buffer::Buffer;
use crate::failure::Failure;
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// One connection's.
pub struct Session {
    connection: Connection,
    /// What messages call the other end.
    peer: Arc<str>,
    /// `close_notify` has been said.
    has_said_goodbye: bool,
    /// The other end has said it.
    peer_has_ended: bool,
}

/// Why a session takes no more.
pub enum Fault {
    /// What is wrong, for people.
    Tls(Arc<str>),
    /// There is no memory for plain bytes.
    NoMemory,
}

impl Session {
    /// A session at its beginning.
    ///
    /// # Errors
    /// The setup cannot be used.
    pub fn new(setup: &Setup) -> Result<Session, Failure> {
        let (connection, peer): (_, Arc<str>) = match setup {
            Setup::Client { config, name } => {
                let connection = ClientConnection::new(Arc::clone(config), name.clone());
                (connection.map(Connection::from), name.to_str().as_ref().into())
            }
            Setup::Server(config) => {
                (ServerConnection::new(Arc::clone(config)).map(Connection::from), "the client".into())
            }
        };
        let mut connection = connection.map_err(|e| Failure::Tls(trouble::words(&e, &peer)))?;
        // How much is gathered is the connection's business.
        connection.set_buffer_limit(None);
        Ok(Session { connection, peer, has_said_goodbye: false, peer_has_ended: false })
    }

    /// Whether the handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the other end has ended its direction, as it should.
    pub fn peer_has_ended(&self) -> bool {
        self.peer_has_ended
    }

    /// Opens what was received; plain bytes go to the end of `plain`.
    ///
    /// # Errors
    /// The session is over. What it has to say to the other end about that is to be fetched still.
    pub fn open(&mut self, mut sealed: &[u8], plain: &mut Buffer) -> Result<(), Fault> {
        while !sealed.is_empty() && !self.peer_has_ended {
            let read = self.connection.read_tls(&mut sealed);
            let state = self.connection.process_new_packets();
            self.hand_over(plain)?;
            match (read, state) {
                (_, Err(error)) => return Err(Fault::Tls(trouble::words(&error, &self.peer).into())),
                (Err(error), _) => return Err(Fault::Tls(error.to_string().into())),
                (Ok(read), Ok(state)) => {
                    self.peer_has_ended = state.peer_has_closed();
                    if read == 0 {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, plain: &mut Buffer) -> Result<(), Fault> {
        let mut reader = self.connection.reader();
        loop {
            // An error here is "not now": the end of the stream is asked for elsewhere.
            let Ok(bytes) = reader.fill_buf() else { return Ok(()) };
            if bytes.is_empty() {
                return Ok(());
            }
            if !plain.add(bytes) {
                return Err(Fault::NoMemory);
            }
            let n = bytes.len();
            reader.consume(n);
        }
    }

    /// Seals bytes; how many.
    pub fn seal(&mut self, plain: &[u8]) -> usize {
        self.connection.writer().write(plain).unwrap_or(0)
    }

    /// Fetches what is sealed and has not gone.
    pub fn fetch(&mut self, sealed: &mut Buffer) {
        while self.connection.wants_write() {
            let Some(end) = sealed.end(0) else { return };
            if self.connection.write_tls(end).is_err() {
                return;
            }
        }
    }

    /// Says that no more comes from here. Once.
    pub fn say_goodbye(&mut self) {
        if !std::mem::replace(&mut self.has_said_goodbye, true) && !self.is_handshaking() {
            self.connection.send_close_notify();
        }
    }

    /// What it means that the other end's bytes end here.
    pub fn truncated(&self) -> Arc<str> {
        let peer = &self.peer;
        if self.is_handshaking() {
            format!(
                "{peer} has ended the connection during the TLS handshake: does it speak TLS on this port?"
            )
        } else {
            format!(
                "{peer} has ended the connection without saying so in TLS: what came may have been cut off"
            )
        }
        .into()
    }

    /// What there is to know, as a table.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn info(&self, vm: &mut Vm) -> LuaResult<Gc<Table>> {
        let c = &self.connection;
        let info = vm.new_table(0, 8)?;
        vm.push(info.into());
        if let Some(version) = c.protocol_version() {
            // As everybody writes it: TLSv1.3.
            let version = version.as_str().unwrap_or("?").replace('_', ".");
            set(vm, info, "protocol", version.as_bytes())?;
        }
        if let Some(suite) = c.negotiated_cipher_suite() {
            set(vm, info, "cipher", suite.suite().as_str().unwrap_or("?").as_bytes())?;
        }
        if let Some(alpn) = c.alpn_protocol() {
            set(vm, info, "alpn", alpn)?;
        }
        let name = match c {
            Connection::Client(_) => Some(&*self.peer),
            Connection::Server(server) => server.server_name(),
        };
        if let Some(name) = name {
            set(vm, info, "name", name.as_bytes())?;
        }
        let resumed = c.handshake_kind() == Some(HandshakeKind::Resumed);
        vm.set_field(info, "resumed", resumed.into())?;
        vm.set_field(info, "handshaking", c.is_handshaking().into())?;
        if let Some(certificate) = c.peer_certificates().and_then(<[_]>::first) {
            let names = certificate::names(certificate);
            let list = vm.new_table(names.len(), 0)?;
            vm.set_field(info, "peer_names", list.into())?;
            for (n, name) in names.iter().enumerate() {
                let name = vm.value_str(name.as_bytes())?;
                vm.raw_set_int(list, n as i64 + 1, name)?;
            }
            if let Some(subject) = certificate::common_name(certificate) {
                set(vm, info, "peer_name", subject.as_bytes())?;
            }
            set(vm, info, "peer_certificate", certificate)?;
        }
        vm.pop();
        Ok(info)
    }
}

fn set(vm: &mut Vm, table: Gc<Table>, name: &str, text: &[u8]) -> LuaResult<()> {
    let text: Value = vm.value_str(text)?;
    vm.set_field(table, name, text)
}
