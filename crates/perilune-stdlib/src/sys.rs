//! What is Linux: all that this crate asks of the C library beyond `rustix`. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.
//!
//! `sys/child.rs` starts processes and waits for them, `sys/sigpipe.rs` writes without SIGPIPE.
//!
//! One search is here, too, in instructions of the processor.

pub mod child;
pub mod sigpipe;

use crate::errno;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Which of these bytes are newlines, the first one as the lowest bit.
#[inline(always)]
pub(crate) fn newlines(bytes: &[u8; 64]) -> u64 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let sixteen = |at: usize| {
        // SAFETY: the load takes 16 of the 64 bytes, at any address, and every processor of x86-64 has SSE2.
        let mask = unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\n' as i8)))
        };
        u64::from(mask as u16) << at
    };
    // The second half is looked at for longer lines only.
    match sixteen(0) | sixteen(16) {
        0 => sixteen(32) | sixteen(48),
        found => found,
    }
}

/// How many bytes do not continue a character of UTF-8.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn leading_bytes(text: &[u8]) -> usize {
    text.iter().filter(|b| **b as i8 > -65).count()
}

/// How many bytes do not continue a character of UTF-8.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn leading_bytes(text: &[u8]) -> usize {
    use core::arch::x86_64::{
        __m128i, _mm_add_epi64, _mm_cmpgt_epi8, _mm_cvtsi128_si64, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_sad_epu8, _mm_set1_epi8, _mm_setzero_si128, _mm_sub_epi8, _mm_unpackhi_epi64,
    };
    let Some(last) = text.last_chunk::<16>() else {
        return text.iter().filter(|b| **b as i8 > -65).count();
    };
    let (chunks, rest) = text.as_chunks::<16>();
    // SAFETY: each load takes 16 bytes that are there, at any address, and every processor of x86-64 has SSE2.
    unsafe {
        let zero = _mm_setzero_si128();
        // Continuations are -128..=-65.
        let leads = |bytes: &[u8; 16]| -> __m128i {
            _mm_cmpgt_epi8(_mm_loadu_si128(bytes.as_ptr().cast()), _mm_set1_epi8(-65))
        };
        let mut sums = zero;
        for chunk in chunks {
            sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_sub_epi8(zero, leads(chunk)), zero));
        }
        let of_chunks = _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums))) as usize;
        let of_rest = ((_mm_movemask_epi8(leads(last)) as u32) >> (16 - rest.len())).count_ones();
        of_chunks + of_rest as usize
    }
}

/// A time by the calendar.
pub(crate) use libc::tm as Calendar;

/// Most bytes that one conversion specifier of [`format`] gives.
pub(crate) const SPECIFIER_MAX: usize = 256;

/// The calendar's view of `time`; `None` if the year does not fit.
pub(crate) fn broken_down(time: i64, utc: bool) -> Option<Calendar> {
    let mut calendar = MaybeUninit::<Calendar>::zeroed();
    // SAFETY: both calls read the time and fill the structure, or return null.
    let filled = unsafe {
        if utc {
            libc::gmtime_r(&time, calendar.as_mut_ptr())
        } else {
            libc::localtime_r(&time, calendar.as_mut_ptr())
        }
    };
    // SAFETY: zeroed to start with, which is valid for integers and a pointer.
    if filled.is_null() { None } else { Some(unsafe { calendar.assume_init() }) }
}

/// A calendar whose fields are still to be set.
pub(crate) fn empty_calendar() -> Calendar {
    // SAFETY: zero is a value for integers and for the pointer to a zone's name.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The time that a calendar shows, whose fields become what they should be; -1 if there is none.
pub(crate) fn time_of(calendar: &mut Calendar) -> i64 {
    // SAFETY: all fields that the call reads are set.
    unsafe { libc::mktime(calendar) }
}

/// Appends what one conversion specifier, of three bytes at most and without its `%`, gives.
pub(crate) fn format(text: &mut Vec<u8>, specifier: &[u8], calendar: &Calendar) {
    let mut format = [0u8; 5];
    format[0] = b'%';
    format[1..1 + specifier.len()].copy_from_slice(specifier);
    assert_eq!(format[4], 0, "a longer specifier");
    let mut buffer = [0u8; SPECIFIER_MAX];
    // SAFETY: the format is terminated, the buffer as long as said, and `calendar` comes from the C library.
    let length =
        unsafe { libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr().cast(), calendar) };
    text.extend_from_slice(&buffer[..length]);
}

/// `strerror`; `None`: the C library does not know the number.
pub(crate) fn message(error: Errno) -> Option<Vec<u8>> {
    let mut buffer = [0 as libc::c_char; 256];
    // SAFETY: the buffer is as long as said; the call writes a terminated string into it or fails.
    let failed = unsafe { libc::strerror_r(error.raw_os_error(), buffer.as_mut_ptr(), buffer.len()) } != 0;
    // SAFETY: terminated, as `strerror_r` succeeded.
    (!failed).then(|| unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_bytes().to_vec())
}

/// What a wait status says.
pub(crate) enum Status {
    Exited(i32),
    Signalled(i32),
    /// Neither.
    Other(i32),
}

/// What a wait status says.
pub(crate) fn status(status: i32) -> Status {
    if libc::WIFSIGNALED(status) {
        Status::Signalled(libc::WTERMSIG(status))
    } else if libc::WIFEXITED(status) {
        Status::Exited(libc::WEXITSTATUS(status))
    } else {
        Status::Other(status)
    }
}

/// What becomes of the lock of a part of a file.
#[derive(Clone, Copy)]
pub(crate) enum Lock {
    Read,
    Write,
    None,
}

/// Locks or unlocks a part of an open file, without waiting. The number of the descriptor: whoever calls
/// keeps it open.
pub(crate) fn lock_part(fd: i32, lock: Lock, start: i64, length: i64) -> Result<(), Errno> {
    let kind = match lock {
        Lock::Read => libc::F_RDLCK,
        Lock::Write => libc::F_WRLCK,
        Lock::None => libc::F_UNLCK,
    };
    // SAFETY: zero is a valid `flock`, which the call reads.
    unsafe {
        let mut part: libc::flock = std::mem::zeroed();
        part.l_type = kind as libc::c_short;
        part.l_whence = libc::SEEK_SET as libc::c_short;
        part.l_start = start;
        part.l_len = length;
        match libc::fcntl(fd, libc::F_SETLK, &raw const part) {
            -1 => Err(errno::of(&std::io::Error::last_os_error())),
            _ => Ok(()),
        }
    }
}

/// A new file in the directory for temporary files, and its name.
pub(crate) fn temporary_file() -> Result<(OwnedFd, Vec<u8>), Errno> {
    use std::os::fd::FromRawFd;
    let mut name = *b"/tmp/lua_XXXXXX\0";
    // SAFETY: the template is terminated and ends in six Xs, which the call replaces.
    let fd = unsafe { libc::mkostemp(name.as_mut_ptr().cast(), libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(errno::of(&std::io::Error::last_os_error()));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok((fd, errno::c_bytes(&name).to_vec()))
}

/// Has a function called at the process's exit. A refusal leaves what it does to the program.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: a plain function; statics of Rust are never dropped.
    let _ = unsafe { libc::atexit(f) };
}

/// Tells the system that [`barrier_everywhere`] will be called. It has none, or does not let us: false.
pub(crate) fn prepare_barriers() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// A full barrier in every thread of the process that runs. [`prepare_barriers`] has said yes.
pub(crate) fn barrier_everywhere() {
    // Fails for nothing but an unknown or unprepared command.
    let answer = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert_eq!(answer, 0, "the barrier that was promised");
}

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: the call takes numbers only, and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}
