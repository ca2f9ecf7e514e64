//! Memory from the operating system, 2 MiB-aligned, and its way back.
//!
//! Huge pages must be asked for before the first touch of a chunk, its metadata included: a later request is
//! silently without effect. Returned memory costs a fault per page when it is used again (about 85 us for a
//! huge page, 670 us for 512 small ones), so the callers of [`release`] and [`discard`] wait before they give
//! anything back.

use crate::layout::CHUNK;
use crate::space;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap,
    mremap_fixed, munmap,
};

/// Maps `bytes` (a multiple of 4096), aligned to [`CHUNK`] and filled with zeros. `None` if the system
/// refuses.
pub fn map(bytes: usize, huge_pages: bool) -> Option<usize> {
    let mut base = reserve(bytes)?;
    if !base.is_multiple_of(CHUNK) {
        unmap(base, bytes);
        base = reserve_aligned(bytes)?;
    }
    choose_pages(base, bytes, huge_pages);
    Some(base)
}

fn reserve(len: usize) -> Option<usize> {
    space::claim(len, || reserve_all(len))
}

/// Whether the system gives so many bytes just now.
pub fn would_map(len: usize) -> bool {
    reserve_all(len).is_some_and(|at| {
        unmap(at, len);
        true
    })
}

/// As [`reserve`], even if nothing is left for others.
fn reserve_all(len: usize) -> Option<usize> {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let at = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    at.ok().map(|p| p as usize)
}

/// Maps too much and returns what lies before and behind an aligned range.
fn reserve_aligned(bytes: usize) -> Option<usize> {
    let room = bytes.checked_add(CHUNK)?;
    let wide = reserve(room)?;
    let base = wide.next_multiple_of(CHUNK);
    if base > wide {
        unmap(wide, base - wide);
    }
    let end = base + bytes;
    if wide + room > end {
        unmap(end, wide + room - end);
    }
    Some(base)
}

/// Makes a mapping of `old` bytes at `base` one of `new` bytes, more than before, and returns where it is
/// now: its pages move along with their contents. What comes to it has huge pages or not, as [`map`] would
/// give it. `None` if the system refuses; then nothing has changed.
pub fn remap(base: usize, old: usize, new: usize, huge_pages: bool) -> Option<usize> {
    let base = remapped(base, old, new)?;
    if huge_pages {
        // For all of it, though what is there keeps its pages: the system moves a mapping only if it is of
        // one kind.
        advise(base, new, Advice::LinuxHugepage);
    }
    Some(base)
}

fn remapped(base: usize, old: usize, new: usize) -> Option<usize> {
    // SAFETY: a mapping of ours; without permission to move it, it grows into unused addresses or not at all.
    if unsafe { mremap(base as *mut _, old, new, MremapFlags::empty()) }.is_ok() {
        return Some(base);
    }
    let target = reserve_aligned(new)?;
    // SAFETY: as above; the target has just been mapped and is used for nothing else. The caller forgets the
    // old address.
    let moved = unsafe { mremap_fixed(base as *mut _, old, new, MremapFlags::MAYMOVE, target as *mut _) };
    // If it fails, the target is left alone: the system may have given part of it to another thread already.
    moved.ok().map(|_| target)
}

fn advise(at: usize, bytes: usize, advice: Advice) {
    // SAFETY: the range belongs to a mapping of ours, and none of the advice used here changes memory that
    // holds an object: callers of `release` and `discard` pass free memory. A kernel without the advice
    // refuses, which is harmless.
    let _ = unsafe { madvise(at as *mut _, bytes, advice) };
}

/// Lets the system take the pages when it needs them; until then they keep their contents.
pub fn release(at: usize, bytes: usize) {
    advise(at, bytes, Advice::LinuxFree);
}

/// Returns the pages now; they read as zeros afterwards.
pub fn discard(at: usize, bytes: usize) {
    advise(at, bytes, Advice::LinuxDontNeed);
}

/// Unmaps a range that no object, list or table refers to any more. False: the system refuses, and it stays
/// mapped.
pub fn unmap(at: usize, bytes: usize) -> bool {
    // SAFETY: the caller has dropped every reference into the range, which was mapped by `map` or `map_at`.
    unsafe { munmap(at as *mut _, bytes) }.is_ok()
}

/// Whether a mapping is to have huge pages or not, from its first touch on.
pub fn choose_pages(at: usize, bytes: usize, huge: bool) {
    advise(at, bytes, if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage });
}

/// Lets the processor refuse stores into a range of a mapping, or allow them again.
pub fn protect(at: usize, size: usize, frozen: bool) {
    let flags = if frozen { MprotectFlags::READ } else { MprotectFlags::READ | MprotectFlags::WRITE };
    // SAFETY: pages of ours, which nobody writes to while they are frozen.
    let done = unsafe { mprotect(at as *mut _, size, flags) };
    assert!(done.is_ok(), "mprotect: {done:?}");
}

/// What came of [`map_at`].
pub enum Place {
    Mapped,
    /// Something else is there.
    Occupied,
    /// The system has no memory, or none for us.
    Refused,
}

/// Maps a range at this address, unless something is there.
pub fn map_at(at: usize, bytes: usize) -> Place {
    // SAFETY: the system refuses to put the mapping where one is already.
    let result = unsafe {
        mmap_anonymous(
            at as *mut _,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
        )
    };
    match result {
        Ok(p) if p as usize == at => Place::Mapped,
        Ok(p) => {
            // A kernel that does not know the flag takes the address as a wish.
            // SAFETY: just mapped and of no use.
            let _ = unsafe { munmap(p, bytes) };
            Place::Occupied
        }
        Err(rustix::io::Errno::EXIST) => Place::Occupied,
        Err(_) => Place::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_move_with_a_mapping() {
        let at = map(3 * CHUNK, true).unwrap();
        // SAFETY: freshly mapped, large enough.
        unsafe {
            *((at + 8) as *mut u64) = 5;
            *((at + 3 * CHUNK - 8) as *mut u64) = 6;
        }
        let new = remap(at, 3 * CHUNK, 9 * CHUNK + 4096, true).unwrap();
        assert!(new.is_multiple_of(CHUNK));
        // SAFETY: mapped now, nine chunks and a page.
        unsafe {
            assert_eq!(*((new + 8) as *const u64), 5);
            assert_eq!(*((new + 3 * CHUNK - 8) as *const u64), 6);
            assert_eq!(*((new + 9 * CHUNK + 4088) as *const u64), 0);
        }
        unmap(new, 9 * CHUNK + 4096);
    }

    #[test]
    fn a_mapping_that_gets_huge_pages_as_it_grows_grows_on() {
        let mut at = map(CHUNK, false).unwrap();
        for chunks in [1, 3, 9, 27] {
            // SAFETY: mapped, and as large.
            unsafe { *((at + chunks * CHUNK - 8) as *mut u64) = chunks as u64 };
            at = remap(at, chunks * CHUNK, 3 * chunks * CHUNK, true).expect("of one kind");
            // SAFETY: as above.
            assert_eq!(unsafe { *((at + chunks * CHUNK - 8) as *const u64) }, chunks as u64);
        }
        unmap(at, 81 * CHUNK);
    }

    #[test]
    fn mappings_are_aligned_and_zero() {
        for bytes in [CHUNK, 4096, 3 * CHUNK + 8192] {
            let at = map(bytes, false).unwrap();
            assert!(at.is_multiple_of(CHUNK));
            // SAFETY: freshly mapped, large enough.
            unsafe {
                assert_eq!(*(at as *const u64), 0);
                *((at + bytes - 8) as *mut u64) = 7;
            }
            unmap(at, bytes);
        }
    }
}
