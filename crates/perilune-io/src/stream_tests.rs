//! What the poller has told, and what the system knows.

use crate::connection::CONNECTION;
use crate::stream::{More, Stream};
use crate::waiting::Waited;
use std::io::Write;
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

/// Bytes have come, and the poller has not told so: as on a machine that stood still. Returns what the peer's end is.
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
