//! A file's bytes to a socket by way of a pipe of the thread: one `splice` from the file, one to the socket.
//!
//! `sendfile` does the same with a pipe of its own that holds 16 pages, so a MiB passes it in 16 rounds,
//! between each two of which the peer may have read all there was, and has to be woken anew. A pipe that
//! holds the whole piece hands it over at once: two thirds of the processor time, and a fourth of the wakeups
//! (docs/benchmarks.md).
//!
//! That holds if the socket takes the piece whole. What it does not take is dropped with the pipe, since the
//! next piece is another connection's: so who uses a conduit has seen before that the peer takes as much
//! (`stream.rs`).
//!
//! Rejected: a pipe for each connection that keeps what has not gone, which would be two descriptors and 256
//! pages held for each slow client.

use perilune_stdlib::sigpipe;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::Cell;

/// So many bytes pass at once: what the system lets any user's pipe hold, unless it is told otherwise.
pub const CAPACITY: usize = 1 << 20;

/// What a thread knows about its pipe.
enum Pipe {
    /// It has not needed one.
    Unknown,
    /// An empty one.
    Empty { output: OwnedFd, input: OwnedFd },
    /// It may not have one that holds so much.
    Refused,
}

thread_local! {
    static PIPE: Cell<Pipe> = const { Cell::new(Pipe::Unknown) };
}

/// How a piece has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The socket has taken so many bytes.
    pub taken: usize,
    /// Of so many that the file had.
    pub offered: usize,
}

/// Sends at most `most` bytes of `file` from `at` on to a socket that does not block. `None`: there is no
/// such pipe here, or the file cannot be read into one, and nothing has happened.
///
/// # Errors
/// The socket's; it has taken nothing.
pub fn send(socket: impl AsFd, file: impl AsFd, at: u64, most: usize) -> Option<Result<Passed, Errno>> {
    let (output, input) = match PIPE.replace(Pipe::Unknown) {
        Pipe::Empty { output, input } => (output, input),
        Pipe::Unknown => match open() {
            Ok(pipe) => pipe,
            // Descriptors come back.
            Err(Errno::MFILE | Errno::NFILE) => return None,
            Err(_) => {
                PIPE.set(Pipe::Refused);
                return None;
            }
        },
        Pipe::Refused => {
            PIPE.set(Pipe::Refused);
            return None;
        }
    };
    let mut at = at;
    let filled = rustix::io::retry_on_intr(|| {
        splice(
            &file,
            Some(&mut at),
            &input,
            None,
            most.min(CAPACITY),
            SpliceFlags::MOVE | SpliceFlags::NONBLOCK,
        )
    });
    let Ok(offered) = filled else {
        PIPE.set(Pipe::Empty { output, input });
        return None;
    };
    let mut taken = 0;
    let outcome = sigpipe::without(|| {
        while taken < offered {
            match splice(
                &output,
                None,
                &socket,
                None,
                offered - taken,
                SpliceFlags::MOVE | SpliceFlags::NONBLOCK,
            ) {
                Ok(0) => break,
                Ok(n) => taken += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    if taken == offered {
        PIPE.set(Pipe::Empty { output, input });
    }
    match outcome {
        // What has gone counts; the error comes again.
        Err(error) if taken == 0 => Some(Err(error)),
        _ => Some(Ok(Passed { taken, offered })),
    }
}

/// An empty pipe with the read end first.
fn open() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    match fcntl_setpipe_size(&input, CAPACITY)? {
        there if there < CAPACITY => Err(Errno::PERM),
        _ => Ok((output, input)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read, Seek, Write};

    /// Both ends; the first does not block.
    fn ends() -> (OwnedFd, std::fs::File) {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("two sockets");
        rustix::io::ioctl_fionbio(&one, true).expect("it does not block");
        (one, std::fs::File::from(other))
    }

    /// An open file that has no name any more.
    fn file(bytes: &[u8]) -> std::fs::File {
        let fd = rustix::fs::memfd_create("conduit", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let mut file = std::fs::File::from(fd);
        file.write_all(bytes).expect("written");
        file.rewind().expect("there");
        file
    }

    fn text(n: usize) -> Vec<u8> {
        (0..n).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn what_a_socket_has_not_taken_reaches_nobody_else() {
        let bytes = text(CAPACITY);
        let file = file(&bytes);
        let (one, mut reader) = ends();
        let passed = send(&one, &file, 0, CAPACITY).expect("a pipe").expect("sent");
        assert_eq!(passed.offered, CAPACITY);
        assert!(passed.taken < CAPACITY, "a socket of this kind holds less than a MiB");
        assert_eq!(send(&one, &file, 0, CAPACITY), Some(Err(Errno::AGAIN)));
        // The next one, of another socket, begins with its own bytes.
        let (other, mut other_reader) = ends();
        let next = send(&other, &file, 7, 1000).expect("a pipe").expect("sent");
        assert_eq!(next, Passed { taken: 1000, offered: 1000 });
        let mut got = vec![0; 1000];
        other_reader.read_exact(&mut got).expect("it came");
        assert_eq!(got, bytes[7..1007]);
        // The first one has what it was said to have taken, and goes on from there.
        let mut got = vec![0; passed.taken];
        reader.read_exact(&mut got).expect("it came");
        assert!(got == bytes[..passed.taken]);
        let rest = send(&one, &file, passed.taken as u64, 10).expect("a pipe").expect("sent");
        assert_eq!(rest.taken, 10);
        let mut got = [0; 10];
        reader.read_exact(&mut got).expect("it came");
        assert_eq!(got, bytes[passed.taken..passed.taken + 10]);
    }

    #[test]
    fn the_end_of_a_file_offers_nothing() {
        let file = file(b"12345");
        let (one, _reader) = ends();
        assert_eq!(send(&one, &file, 3, 100), Some(Ok(Passed { taken: 2, offered: 2 })));
        assert_eq!(send(&one, &file, 5, 100), Some(Ok(Passed { taken: 0, offered: 0 })));
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_and_no_signal() {
        let file = file(&text(5000));
        let (one, reader) = ends();
        drop(reader);
        assert_eq!(send(&one, &file, 0, 5000), Some(Err(Errno::PIPE)));
        // The pipe had bytes then, and is not used again.
        let (other, mut reader) = ends();
        assert_eq!(send(&other, &file, 4999, 1), Some(Ok(Passed { taken: 1, offered: 1 })));
        let mut got = [0; 1];
        reader.read_exact(&mut got).expect("it came");
        assert_eq!(got[0], (4999 % 251) as u8);
    }

    #[test]
    fn what_cannot_be_spliced_is_left_to_others() {
        let (one, _reader) = ends();
        let folder = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).expect("it is there");
        assert_eq!(send(&one, &folder, 0, 100), None);
    }
}
