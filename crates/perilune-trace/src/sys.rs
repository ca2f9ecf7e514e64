//! What is Linux and x86-64: all that this crate asks of the system and of the processor beyond the
//! language's library. A test (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.
//!
//! What does not say otherwise is async-signal-safe: sessions begin and end in signal handlers.

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

pub(crate) use libc::siginfo_t as SignalInfo;

/// What a signal calls: with its number, what is known of its reason, what has been interrupted.
pub(crate) type Handler = extern "C" fn(i32, *mut SignalInfo, *mut c_void);

// -- Clocks --------------------------------------------------------------------------------------

/// Whether the processor's time stamp counter runs at one rate in all states and on all cores, and the kernel
/// keeps time by it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn counter_is_steady() -> bool {
    // Invariant TSC: CPUID 8000_0007h, EDX bit 8.
    let leaf = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    if leaf < 0x8000_0007 || core::arch::x86_64::__cpuid(0x8000_0007).edx & 1 << 8 == 0 {
        return false;
    }
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut text = [0u8; 16];
    // SAFETY: opens, reads into a local array, closes.
    let n = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let n = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        n
    };
    n >= 3 && text.starts_with(b"tsc")
}

/// There is none that is known.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn counter_is_steady() -> bool {
    false
}

/// The time stamp counter; where [`counter_is_steady`] is never true, nothing of use.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Processor time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local variable; the clocks exist on Linux.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

// -- Who is who ----------------------------------------------------------------------------------

/// The kernel's number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() as u32 }
}

/// The number of the user whose rights the process has.
pub(crate) fn user_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

/// Whether a process of this user's has this number.
pub(crate) fn process_exists(pid: u32) -> bool {
    // SAFETY: asks whether a process exists.
    pid != 0 && unsafe { libc::kill(pid as i32, 0) } == 0
}

/// The words that the process was started with, each with a zero behind it. Not async-signal-safe.
pub(crate) fn command_line() -> Vec<u8> {
    std::fs::read("/proc/self/cmdline").unwrap_or_default()
}

/// Has a function called when the process ends by `exit`. Not async-signal-safe.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: registers a function that takes nothing.
    let _ = unsafe { libc::atexit(f) };
}

// -- Files and mappings --------------------------------------------------------------------------

/// The flag for opening that refuses symbolic links.
pub(crate) const NO_LINK: i32 = libc::O_NOFOLLOW;

/// Bytes that are free where the file lies.
pub(crate) fn free_bytes(file: &File) -> u64 {
    // SAFETY: an open file and a local structure.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        match libc::fstatvfs(file.as_raw_fd(), &mut stat) {
            0 => stat.f_bavail as u64 * stat.f_frsize as u64,
            _ => u64::MAX,
        }
    }
}

/// Takes memory for the first `bytes` of a file.
///
/// # Errors
/// There is none. A system that cannot say is believed to have some.
pub(crate) fn allocate(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: an open file.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) } {
        refused @ libc::ENOSPC => Err(io::Error::from_raw_os_error(refused)),
        _ => Ok(()),
    }
}

/// Opens and maps a file of this user's alone, of `least` bytes or more: where, and how many bytes.
pub(crate) fn map_own(path: &CStr, least: usize) -> Option<(*mut u8, usize)> {
    // SAFETY: system calls on a path, and a descriptor that is closed here.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let mut meta: libc::stat = std::mem::zeroed();
        let own = libc::fstat(fd, &mut meta) == 0
            && meta.st_mode & libc::S_IFMT == libc::S_IFREG
            && meta.st_mode & 0o077 == 0
            && meta.st_uid == libc::geteuid()
            && meta.st_size as usize >= least;
        let base = if own { map_shared(fd, meta.st_size as usize) } else { null_mut() };
        libc::close(fd);
        (!base.is_null()).then_some((base, meta.st_size as usize))
    }
}

/// Maps a file for reading and writing, shared. Null if that fails.
///
/// # Safety
/// `fd` is an open file.
pub(crate) unsafe fn map_shared(fd: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the kernel chooses the address.
    let at = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd,
            0,
        )
    };
    if at == libc::MAP_FAILED { null_mut() } else { at.cast() }
}

/// Puts memory of the process's own, zeros, in the place of what is mapped. False: there is none.
///
/// # Safety
/// Whole pages of a mapping of ours; whoever reads them bears zeros.
pub(crate) unsafe fn replace(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    let got = unsafe {
        libc::mmap(
            at.cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    got != libc::MAP_FAILED
}

/// Gives the memory of a part of a shared mapping back, and of its file.
///
/// # Safety
/// As [`replace`].
pub(crate) unsafe fn discard(at: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.cast(), bytes, libc::MADV_REMOVE) };
}

/// Takes a mapping away.
///
/// # Safety
/// It is ours, and nobody refers to it any more.
pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.cast(), bytes) };
}

// -- Signals -------------------------------------------------------------------------------------

/// The signal by which tools ask.
pub(crate) const REQUEST: i32 = libc::SIGURG;

/// What handlers hold back: every signal but those of faults. The stack for signals is small, and has no room
/// for several of the frames that processors with wide registers make.
pub fn all_but_faults() -> libc::sigset_t {
    // SAFETY: fills a local variable.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for fault in [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(&mut set, fault);
        }
        set
    }
}

fn action(handler: Handler, flags: i32) -> libc::sigaction {
    // SAFETY: a structure of numbers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    action.sa_mask = all_but_faults();
    action
}

/// Has `handler`, which is async-signal-safe, called for requests of tools.
pub(crate) fn on_request(handler: Handler) {
    // SAFETY: an action with valid fields.
    unsafe { libc::sigaction(REQUEST, &action(handler, libc::SA_RESTART), null_mut()) };
}

/// The action for SIGBUS that there was before.
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Has `handler`, which is async-signal-safe, called when memory of a mapping is missing.
///
/// # Safety
/// Called once, by one thread.
pub(crate) unsafe fn on_missing_memory(handler: Handler) {
    // The header of an event file may be gone, too, when the handler looks at it.
    let action = action(handler, libc::SA_NODEFER);
    let before = &raw mut BEFORE;
    // SAFETY: an action with valid fields; the other one is written before a handler can read it.
    unsafe { libc::sigaction(libc::SIGBUS, &action, (*before).as_mut_ptr()) };
}

/// Lets whoever had SIGBUS before have it again.
///
/// # Safety
/// [`on_missing_memory`] has been called.
pub(crate) unsafe fn give_missing_memory_back() {
    let before = &raw const BEFORE;
    // SAFETY: the caller's promise: it has been written.
    unsafe { libc::sigaction(libc::SIGBUS, (*before).as_ptr(), null_mut()) };
}

/// The address that a fault was about.
///
/// # Safety
/// What the kernel has given a handler.
pub(crate) unsafe fn fault_address(info: *mut SignalInfo) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*info).si_addr() as usize }
}

/// The word that came with a signal, if it was sent by `sigqueue`.
///
/// # Safety
/// What the kernel has given a handler.
pub(crate) unsafe fn queued_word(info: *mut SignalInfo) -> Option<usize> {
    // SAFETY: the caller's promise.
    unsafe { ((*info).si_code == libc::SI_QUEUE).then(|| (*info).si_value().sival_ptr as usize) }
}

/// Runs what a handler does; `errno`, which belongs to the interrupted code, is put back.
pub(crate) fn keeping_errno(f: impl FnOnce()) {
    // SAFETY: a variable of the thread's.
    unsafe {
        let errno = *libc::__errno_location();
        f();
        *libc::__errno_location() = errno;
    }
}
