//! What is Linux and x86-64: all that this crate asks of the system and of the processor beyond the language
//! and its library. A test (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

pub(crate) mod memory;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use rustix::process::{Resource, getrlimit};

/// Processor time of this thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Bytes of the second cache of a core; `None` if nobody tells.
pub(crate) fn cache_of_core() -> Option<usize> {
    #[cfg(target_env = "gnu")]
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
    #[cfg(not(target_env = "gnu"))]
    let bytes = 0;
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// The limit of the process's address space, in bytes; `None` if there is none.
pub(crate) fn address_space_limit() -> Option<usize> {
    getrlimit(Resource::As).current.map(|bytes| bytes.try_into().unwrap_or(usize::MAX))
}

/// Bytes of address space that the process has taken, as the kernel counts them; `None` if it does not tell.
pub(crate) fn address_space_taken() -> Option<usize> {
    // Opened each time: a file that is kept would count for the parent after a fork.
    let file = open("/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 64];
    let read = pread(file, &mut text, 0).ok()?;
    let pages: usize = str::from_utf8(&text[..read]).ok()?.split_once(' ')?.0.parse().ok()?;
    pages.checked_mul(rustix::param::page_size())
}

/// So many arenas at most for the C library's allocator. To be called before there are threads.
pub(crate) fn limit_arenas(arenas: usize) {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator's; any is allowed.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, arenas as libc::c_int)
    };
    #[cfg(not(target_env = "gnu"))]
    let _ = arenas;
}

/// Has the processor fetch the line of its cache that `at` lies in, whatever that is.
#[inline(always)]
pub(crate) fn prefetch_line(at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<{ _MM_HINT_T0 }>(at as *const i8);
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The word at `at`, which lies on a native stack: whatever has been left there, a live value, half of one,
/// the gap between two variables. A load in assembly, as the language has no meaning for that, and sanitizers
/// report it.
///
/// # Safety
/// `at` is aligned and readable.
#[inline(always)]
pub unsafe fn stack_word(at: usize) -> usize {
    let word;
    // SAFETY: reads one word that the caller vouches for.
    unsafe {
        std::arch::asm!(
            "mov {}, [{}]", out(reg) word, in(reg) at,
            options(nostack, readonly, preserves_flags)
        );
    }
    word
}

/// One bit for each of 16 bytes of `m | (l & select)`: set if it is not zero.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn bytes_not_zero(m: &[u64; 2], l: &[u64; 2], select: u64) -> u16 {
    use core::arch::x86_64::*;
    // SAFETY: every x86-64 processor has SSE2, and the arrays have the 16 bytes that are loaded.
    unsafe {
        let (m, l) = (_mm_loadu_si128(m.as_ptr().cast()), _mm_loadu_si128(l.as_ptr().cast()));
        let bytes = _mm_or_si128(m, _mm_and_si128(l, _mm_set1_epi64x(select as i64)));
        !_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())) as u16
    }
}

/// One bit for each of 16 bytes of `m | (l & select)`: set if it is not zero.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn bytes_not_zero(m: &[u64; 2], l: &[u64; 2], select: u64) -> u16 {
    let eight = |m: u64, l: u64| {
        let bytes = m | (l & select);
        let tops =
            (bytes | ((bytes & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f)) & 0x8080_8080_8080_8080;
        ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16
    };
    eight(m[0], l[0]) | eight(m[1], l[1]) << 8
}
