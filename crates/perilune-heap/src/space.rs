//! Address space under a limit (`ulimit -v`), and what is left of it to the C library.
//!
//! Where address space is limited, whoever maps the last of it decides who is refused next. That must not be
//! the C library: a thread that it cannot register a destructor for ends the process. So what this crate maps
//! leaves [`HEADROOM`], by the kernel's own count (`/proc/self/statm`), which is read with a lock held,
//! before anything is mapped: a trial with a mapping takes, for a moment, what it wants to know is there.
//! Small requests to the C library are not counted; they live on the headroom, and who allocates without end
//! meets a refusal of a chunk first.
//!
//! An arena of the C library's allocator takes 64 MiB of address space, and twice that for a moment.
//! [`prepare`] leaves it as many as the limit has room for.
//!
//! Without a limit nothing is read, and nothing is locked. A system that refuses by another account
//! (`vm.overcommit_memory=2`) is not known beforehand.

use crate::sys::{self, memory};
use std::sync::{Mutex, PoisonError};

/// What the C library and others are to find beside what a program takes, in bytes of address space.
const HEADROOM: usize = 4 << 20;
/// Bytes of a limit for each arena of the C library's allocator.
const PER_ARENA: usize = 512 << 20;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The limit of the process's address space, in bytes; `None` if there is none.
pub fn limit() -> Option<usize> {
    sys::address_space_limit()
}

/// Fits the C library's allocator to the limit. To be called before there are threads.
pub fn prepare() {
    if let Some(limit) = limit() {
        sys::limit_arenas((limit / PER_ARENA).clamp(1, 64));
    }
}

/// Whether so many bytes can be mapped, and some be left for others.
pub fn has_headroom(bytes: usize) -> bool {
    limit().is_none_or(|limit| leaves_headroom(bytes, limit))
}

/// Maps with `map`, which takes so many bytes, if that leaves some for others.
pub(crate) fn claim<R>(bytes: usize, map: impl FnOnce() -> Option<R>) -> Option<R> {
    let Some(limit) = limit() else { return map() };
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    leaves_headroom(bytes, limit).then(map).flatten()
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
