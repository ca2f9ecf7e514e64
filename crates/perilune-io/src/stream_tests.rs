//! What the poller has told, and what the system knows.

use crate::connection::CONNECTION;
use crate::stream::{More, Stream};
use crate::sys::tcp::unsent;
use crate::waiting::Waited;
use rustix::fd::OwnedFd;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

fn connected() -> (Arc<Stream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::accepted(ours.into(), &CONNECTION, false).unwrap(), theirs)
}

fn attempt(stream: &Stream) -> More {
    stream.more(&mut stream.input(), 0)
}

/// Bytes have come, and the poller has not told so: as on a machine that stood still. Returns what the peer's
/// end is.
fn untold(stream: &Stream, mut theirs: UnixStream) -> UnixStream {
    assert_eq!(attempt(stream), More::Wait);
    theirs.write_all(b"in time").unwrap();
    while !stream.source().read.may_be_ready() {
        std::thread::yield_now();
    }
    stream.source().read.clear();
    theirs
}

#[test]
fn the_last_attempt_of_a_read_asks_the_system() {
    let (stream, theirs) = connected();
    let _theirs = untold(&stream, theirs);
    assert_eq!(attempt(&stream), More::Wait, "as far as it has been told there is nothing");
    stream.is_late();
    assert_eq!(attempt(&stream), More::Some);
    assert_eq!(stream.input().buffer.bytes(), b"in time");
}

#[test]
fn what_nobody_has_read_is_seen_without_being_taken() {
    let (stream, theirs) = connected();
    assert!(!stream.has_unread());
    let theirs = untold(&stream, theirs);
    assert!(stream.has_unread() && stream.has_unread());
    stream.doubt();
    assert_eq!(attempt(&stream), More::Some);
    assert!(stream.has_unread(), "it is in the buffer");
    stream.input().consume(7);
    assert!(!stream.has_unread());
    drop(theirs);
    assert!(!stream.has_unread(), "the end is nothing to be read");
}

fn connected_by_tcp() -> (Arc<Stream>, OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    let fd = OwnedFd::from(ours.try_clone().unwrap());
    (Stream::accepted(ours.into(), &CONNECTION, true).unwrap(), fd, theirs)
}

#[test]
fn what_was_written_waits_for_a_file_that_follows_and_for_nothing_else() {
    let (stream, fd, mut theirs) = connected_by_tcp();
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let (file, text) = (OwnedFd::from(std::fs::File::open(name).unwrap()), std::fs::read(name).unwrap());
    let mut expected = Vec::new();
    for (at, most) in [(0, 10), (text.len(), 10), (5, text.len()), (text.len(), 1 << 20)] {
        let mut output = stream.output();
        stream.take(&mut output, b"head");
        let sent = stream.send_file(&mut output, &file, at as u64, most).unwrap();
        let part = &text[at..text.len().min(at + most)];
        assert_eq!(sent, Some(part.len()));
        assert_eq!(unsent(&fd), 0, "from {at} on, {most}");
        expected.extend_from_slice(b"head");
        expected.extend_from_slice(part);
    }
    let mut got = vec![0; expected.len()];
    theirs.read_exact(&mut got).unwrap();
    assert!(got == expected);
}

#[test]
fn a_file_that_cannot_be_sent_keeps_nothing_back() {
    let (stream, fd, mut theirs) = connected_by_tcp();
    let folder = OwnedFd::from(std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap());
    let mut output = stream.output();
    stream.take(&mut output, b"head");
    assert!(stream.send_file(&mut output, &folder, 0, 10).is_err());
    assert_eq!(unsent(&fd), 0);
    let mut got = [0; 4];
    theirs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"head");
}
