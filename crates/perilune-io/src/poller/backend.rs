//! Which way the poller is told (`mod.rs`): what the program is run with, and what the kernel allows.

use super::{POLLER, Poller};
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the program is run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// What is better as a rule: `epoll` (`docs/decisions/0040-io-uring-beside-epoll.md`).
    Auto,
    /// `epoll`.
    Epoll,
    /// `io_uring`, if the kernel lets the program have it.
    Uring,
}

impl Wish {
    /// All words for it.
    pub const WORDS: [(&str, Wish); 3] =
        [("auto", Wish::Auto), ("epoll", Wish::Epoll), ("uring", Wish::Uring)];
}

/// What is called with a sentence for people.
pub type Tell = fn(&str);

/// What is to be used, and who is told if it cannot.
static WISHES: OnceLock<(Wish, Tell)> = OnceLock::new();

/// What the poller is to use. `tell` is called once if it cannot. To be called before the first socket, once.
pub fn wish(wish: Wish, tell: Tell) {
    let _ = WISHES.set((wish, tell));
}

/// Whether the program wants a ring.
pub(super) fn wants_ring() -> bool {
    WISHES.get().is_some_and(|(wish, _)| *wish == Wish::Uring)
}

/// There is no ring, or no more.
#[cold]
pub(super) fn refused(error: Errno) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if let Some((Wish::Uring, tell)) = WISHES.get()
        && !TOLD.swap(true, Ordering::Relaxed)
    {
        let why = match error {
            Errno::PERM | Errno::ACCESS => "the system does not permit io_uring here".to_owned(),
            Errno::NOSYS => "the kernel has no io_uring".to_owned(),
            Errno::INVAL => "the kernel's io_uring is older than that of Linux 6.1".to_owned(),
            error => format!("io_uring does not work here: {error}"),
        };
        tell(&format!("{why}; epoll is used instead"));
    }
}

/// What is in use, or would be: "epoll" or "uring".
pub fn name() -> &'static str {
    static CAN_BE: OnceLock<bool> = OnceLock::new();
    let has_ring = match POLLER.get() {
        Some(poller) => poller.has_ring(),
        None => {
            wants_ring() && *CAN_BE.get_or_init(|| Poller::new(true).is_ok_and(|(_, ring)| ring.is_some()))
        }
    };
    if has_ring { "uring" } else { "epoll" }
}
