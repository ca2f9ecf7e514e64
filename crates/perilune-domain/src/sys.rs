//! What is Linux: all that this crate asks of the system beyond the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

use std::io;

/// Lets the calling thread go on on another core than this one. False: it may use no other.
#[cold]
pub(crate) fn leave_core(core: u32) -> bool {
    const SIZE: usize = std::mem::size_of::<libc::cpu_set_t>();
    if core as usize >= SIZE * 8 {
        return false;
    }
    // SAFETY: a set of bits, none of which is set.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes no more than the set; the calling thread is 0.
    if unsafe { libc::sched_getaffinity(0, SIZE, &raw mut all) } != 0 {
        return false;
    }
    let mut others = all;
    // SAFETY: the core is within the set.
    let left = unsafe {
        libc::CPU_CLR(core as usize, &mut others);
        libc::CPU_COUNT(&others)
    };
    if left == 0 {
        return false;
    }
    // SAFETY: reads the sets. The second one is what the thread had.
    unsafe {
        let moved = libc::sched_setaffinity(0, SIZE, &raw const others) == 0;
        moved && libc::sched_setaffinity(0, SIZE, &raw const all) == 0
    }
}

/// One more than the number of the core that the calling thread runs on; 0: not known.
#[inline]
pub(crate) fn core() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::sched_getcpu() }.wrapping_add(1) as u32
}

/// Asks the kernel to wake this thread in time. What it refuses is done without.
pub(crate) fn be_punctual() {
    const SIZE: libc::c_uint = size_of::<libc::sched_attr>() as libc::c_uint;
    const SLICE: u64 = 100_000; // ns
    // SAFETY: the first call takes numbers only and changes nothing but the calling thread's slack. The
    // structure is plain numbers, and valid for the calls that fill and read it; they are told its size.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let got = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0);
        if got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
            attributes.sched_runtime = SLICE;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// What the system says if it starts no more threads.
pub(crate) fn too_many_threads() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

/// How many threads the user may have, if that is limited.
pub(crate) fn most_threads() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a pointer to a structure of this type.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Has the C library's allocator give back what it does not use.
pub(crate) fn trim_allocator() {
    // SAFETY: may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Asks for huge pages for what lies within an allocation of so many bytes.
pub(crate) fn ask_for_huge_pages(data: &mut [u8]) {
    const PAGE: usize = 4096;
    let at = data.as_mut_ptr() as usize;
    let start = at.next_multiple_of(PAGE);
    let bytes = data.len().saturating_sub(start - at) & !(PAGE - 1);
    // SAFETY: advice about pages that lie within the slice.
    unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_HUGEPAGE) };
}

/// Makes a descriptor at which a thread waits until signal handlers ring.
pub(crate) fn make_bell() -> Option<i32> {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    (fd >= 0).then_some(fd)
}

/// Wakes who waits at a bell, or spares it the next wait. Async-signal-safe.
pub(crate) fn ring(bell: i32) {
    let one = 1u64;
    // SAFETY: writes eight bytes to an open descriptor; a full counter is no matter, the reader will come.
    unsafe { libc::write(bell, (&raw const one).cast(), 8) };
}

/// Waits until a bell has been rung. False: something else has ended the wait.
pub(crate) fn wait_for(bell: i32) -> bool {
    let mut count = 0u64;
    // SAFETY: reads eight bytes into a local variable.
    unsafe { libc::read(bell, (&raw mut count).cast(), 8) == 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_leaves_a_core_may_use_it_afterwards() {
        let mask = || {
            // SAFETY: as in `leave_core`.
            let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: as there.
            unsafe { libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &raw mut all) };
            // SAFETY: within the set.
            (0..1024).filter(|&n| unsafe { libc::CPU_ISSET(n, &all) }).collect::<Vec<_>>()
        };
        let before = mask();
        for core in 0..4 {
            let has_others = before.iter().any(|&n| n != core);
            assert_eq!(leave_core(core as u32), has_others);
            assert_eq!(mask(), before);
        }
        assert!(!leave_core(u32::MAX));
        assert_eq!(mask(), before);
    }
}
