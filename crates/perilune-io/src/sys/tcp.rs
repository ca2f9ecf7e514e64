//! TCP sockets.

use rustix::fd::{AsRawFd, OwnedFd};
use std::mem::{self, MaybeUninit};

/// What the system knows of a TCP connection.
#[derive(Clone, Copy)]
pub struct Info {
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// How many of these there may be.
    pub window: u32,
    /// Segments that were sent again, in all.
    pub resent: u32,
    /// Of them, those that the peer has told it had already.
    pub needless: u32,
}

impl Info {
    /// Whether segments were sent again that the peer did not have. The counts may wrap.
    pub fn has_lost_since(self, before: Info) -> bool {
        let resent = self.resent.wrapping_sub(before.resent);
        let needless = self.needless.wrapping_sub(before.needless);
        resent > needless
    }
}

/// What there is to know of a TCP socket.
pub fn info(fd: &OwnedFd) -> Option<Info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the system writes at most `size` bytes, which there are.
    let result = unsafe {
        let at = info.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut size)
    };
    // SAFETY: it was zeroed, and consists of numbers.
    let info = unsafe { info.assume_init() };
    (result == 0).then_some(Info {
        unacked: info.tcpi_unacked,
        window: info.tcpi_snd_cwnd,
        resent: info.tcpi_total_retrans,
        // Systems that do not count them leave it 0.
        needless: info.tcpi_dsack_dups,
    })
}

/// Bytes that the system has and has not sent.
pub fn unsent(fd: &OwnedFd) -> usize {
    const SIOCOUTQNSD: libc::Ioctl = 0x894B;
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes an int, which there is.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCOUTQNSD, &mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}
