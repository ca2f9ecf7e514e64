//! Bytes of files that go without passing through the program.

use super::{Output, Stream};
use crate::conduit::{self, Passed};
use crate::failure::{Broken, Failure};
use crate::waiting::Waited;
use perilune_stdlib::sigpipe;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use std::sync::atomic::Ordering;

/// A piece is large from here on.
const LARGE: usize = conduit::CAPACITY / 2;

impl Stream {
    /// Has the system send bytes of a file, after all that was written; how many it has taken. `None`: there
    /// is no room now. There is no session.
    ///
    /// # Errors
    /// The connection is closed or broken.
    pub fn send_file(
        &self,
        output: &mut Output,
        file: &OwnedFd,
        at: u64,
        most: usize,
    ) -> Result<Option<usize>, Failure> {
        // What was written goes with the first bytes of the file in one packet.
        let has_some = !output.is_all_gone();
        if has_some {
            output.more = self.what_goes_on();
        }
        let gone = self.flush(output);
        let more = std::mem::replace(&mut output.more, SendFlags::empty());
        if !gone? {
            return Ok(None);
        }
        let sent = self.send_piece(output, file, at, most);
        if !more.is_empty()
            && !matches!(sent, Ok(Some(1..)))
            && let Some(fd) = &output.fd
        {
            // Nothing has followed, so it is not to wait for more.
            let _ = sockopt::set_tcp_cork(fd, false);
        }
        sent
    }

    fn send_piece(
        &self,
        output: &mut Output,
        file: &OwnedFd,
        at: u64,
        most: usize,
    ) -> Result<Option<usize>, Failure> {
        let Some(fd) = &output.fd else { return Err(Failure::Closed) };
        loop {
            self.source().write.clear();
            let is_large = most >= LARGE;
            let through =
                (is_large && output.takes_pieces).then(|| conduit::send(fd, file, at, most)).flatten();
            let passed = through.unwrap_or_else(|| {
                let mut at = at;
                sigpipe::without(|| rustix::fs::sendfile(fd, file, Some(&mut at), most))
                    .map(|taken| Passed { taken, offered: most })
            });
            // A peer that takes less than it is offered gets pieces by `sendfile`, which takes no more from
            // the file than there is room for.
            if is_large {
                output.takes_pieces = passed.is_ok_and(|passed| passed.taken >= passed.offered);
            }
            match passed {
                Ok(Passed { taken, .. }) => {
                    self.sent.fetch_add(taken as u64, Ordering::Relaxed);
                    return Ok(Some(taken));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.registration.awaits_room(fd, &mut output.is_told_of_room)?;
                    return Ok(None);
                }
                Err(error) => {
                    output.failed = Some(Broken::System(error));
                    return Err(error.into());
                }
            }
        }
    }
}
