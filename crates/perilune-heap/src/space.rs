//! Address space under a limit (`ulimit -v`), and what is left of it to the C library.
//!
//! Where address space is limited, whoever maps the last of it decides who is refused next. That must not be
//! the C library: a thread that it cannot register a destructor for ends the process. So what this crate maps
//! leaves [`HEADROOM`], by the kernel's own count (`/proc/self/statm`), which is read with a lock held,
//! before anything is mapped: a trial with a mapping takes, for a moment, what it wants to know is there.
//! Pieces that the C library's allocator cuts are too many for that. They live on the headroom; their bytes
//! are added up, and each [`PIECES`] of them the kernel is asked. Rust code that is refused one lives on a
//! reserve of its own (`shortage.rs`), so they leave [`LAST`] to those who cannot be refused.
//!
//! A thread takes its stack before it runs, and more in its first instructions, where nobody can be told that
//! there is none. So threads are begun with [`spawn`], one at a time, and each has the whole headroom.
//!
//! An arena of the C library's allocator takes 64 MiB of address space, and twice that for a moment.
//! [`prepare`] leaves it as many as the limit has room for.
//!
//! Without a limit nothing is read, and nothing is locked. A system that refuses by another account
//! (`vm.overcommit_memory=2`) is not known beforehand.

use crate::sys::{self, memory};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What the C library and others are to find beside what a program takes, in bytes of address space.
const HEADROOM: usize = 6 << 20;
/// What is left to the C library alone. Its allocator takes a mebibyte at once where it cannot grow in place.
const LAST: usize = 2 << 20;
/// Bytes of small requests after which the kernel is asked what is left.
const PIECES: usize = 256 << 10;
/// Bytes of a limit for each arena of the C library's allocator.
const PER_ARENA: usize = 512 << 20;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// The limit when the program began; the largest number if there was none.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Bytes of small requests since the kernel was asked.
static ASKED_FOR: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread has the lock: what it allocates meanwhile is asked of the kernel as it is.
    static CLAIMS: Cell<bool> = const { Cell::new(false) };
}

/// The limit of the process's address space, in bytes; `None` if there is none.
pub fn limit() -> Option<usize> {
    sys::address_space_limit()
}

/// Fits the C library's allocator to the limit. To be called before there are threads.
pub fn prepare() {
    if let Some(limit) = limit() {
        sys::limit_arenas((limit / PER_ARENA).clamp(1, 64));
        LIMIT.store(limit, Relaxed);
    }
}

/// Whether so many bytes can be mapped, and some be left for others.
pub fn has_headroom(bytes: usize) -> bool {
    limit().is_none_or(|limit| leaves_headroom(bytes, limit))
}

/// Maps with `map`, which takes so many bytes, if that leaves some for others.
pub fn claim<R>(bytes: usize, map: impl FnOnce() -> Option<R>) -> Option<R> {
    let Some(limit) = limit() else { return map() };
    one_at_a_time(|| leaves_headroom(bytes, limit).then(map).flatten())
}

/// Begins a thread with a stack of so many bytes, if that leaves some for others.
///
/// # Errors
/// The system has no thread, or too little is left.
pub fn spawn(name: String, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let begin = || std::thread::Builder::new().name(name).stack_size(stack).spawn(body).map(drop);
    claim(stack, || Some(begin())).unwrap_or_else(|| Err(io::ErrorKind::OutOfMemory.into()))
}

/// Whether the C library's allocator may cut another piece, of so many bytes, for Rust code.
#[inline]
pub(crate) fn allows_piece(bytes: usize) -> bool {
    let limit = LIMIT.load(Relaxed);
    limit == usize::MAX || counts_piece(bytes, limit)
}

#[cold]
fn counts_piece(bytes: usize, limit: usize) -> bool {
    if ASKED_FOR.fetch_add(bytes, Relaxed) + bytes < PIECES {
        return true;
    }
    let leaves_last =
        sys::address_space_taken().is_none_or(|taken| taken.saturating_add(bytes + PIECES + LAST) <= limit);
    // While there is too little, whoever comes asks again.
    ASKED_FOR.store(if leaves_last { 0 } else { PIECES }, Relaxed);
    leaves_last
}

fn one_at_a_time<R>(f: impl FnOnce() -> R) -> R {
    if CLAIMS.get() {
        return f();
    }
    /// The lock is given back, whatever happens.
    struct Claiming;
    impl Drop for Claiming {
        fn drop(&mut self) {
            CLAIMS.set(false);
        }
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    CLAIMS.set(true);
    let _claiming = Claiming;
    f()
}

fn leaves_headroom(bytes: usize, limit: usize) -> bool {
    match sys::address_space_taken() {
        Some(taken) => taken.saturating_add(bytes).saturating_add(HEADROOM) <= limit,
        None => memory::would_map(bytes.saturating_add(HEADROOM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_counted() {
        let before = sys::address_space_taken().unwrap();
        const LOTS: usize = 1 << 36;
        let at = memory::map(LOTS, false).unwrap();
        let after = sys::address_space_taken().unwrap();
        let (there, short) =
            (leaves_headroom(LOTS, after + 2 * LOTS), leaves_headroom(LOTS, after + LOTS / 2));
        memory::unmap(at, LOTS);
        assert!(after >= before + LOTS / 2, "{before} {after}");
        assert!(there && !short);
    }
}
