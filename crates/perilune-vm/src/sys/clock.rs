//! Clocks, and those of a thread's processor time that send it SIGPROF.

use std::ffi::c_void;
use std::ptr::null_mut;

/// What SIGPROF calls: with its number, what is known of its reason, and a context for [`interrupted_at`].
pub(crate) type Handler = extern "C" fn(i32, *mut c_void, *mut c_void);

/// A clock of the system, in nanoseconds.
#[inline]
pub(super) fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a local variable.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The calling thread's processor time in nanoseconds. Async-signal-safe.
#[inline]
pub(crate) fn thread_time() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Has `handler`, which is async-signal-safe, called at SIGPROF from now on.
pub(crate) fn on_tick(handler: Handler) {
    // SAFETY: the action is a zeroed structure with valid fields.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
        action.sa_mask = perilune_trace::attach::handlers_alone();
        libc::sigaction(libc::SIGPROF, &action, null_mut());
    }
}

/// Where the thread was interrupted, and its stack pointer then; zeros where that is not known.
///
/// # Safety
/// `context` is what the kernel has given a handler of signals.
pub(crate) unsafe fn interrupted_at(context: *mut c_void) -> (usize, usize) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        // SAFETY: the caller's promise.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize)
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = context;
        (0, 0)
    }
}

/// Starts a timer of the calling thread's processor time that goes off each `period` nanoseconds, but with
/// the kernel's tick. `None`: there is none.
pub(crate) fn start_timer(period: i64) -> Option<*mut c_void> {
    // SAFETY: structures are zeroed and filled.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = null_mut();
        if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
            return None;
        }
        let interval = libc::timespec { tv_sec: period / 1_000_000_000, tv_nsec: period % 1_000_000_000 };
        let setting = libc::itimerspec { it_interval: interval, it_value: interval };
        libc::timer_settime(timer, 0, &setting, null_mut());
        Some(timer)
    }
}

/// Ends a timer.
///
/// # Safety
/// It is what [`start_timer`] has returned, to the calling thread, and is forgotten with this.
pub(crate) unsafe fn stop_timer(timer: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::timer_delete(timer) };
}

/// Opens a performance event of the calling thread that goes off each `period` nanoseconds of its processor
/// time: a descriptor. `None`: that is not permitted.
pub(crate) fn open_event(period: u64) -> Option<i32> {
    let attr = EventAttr {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<EventAttr>() as u32,
        config: PERF_COUNT_SW_TASK_CLOCK,
        period,
        wakeup_events: 1,
        ..EventAttr::default()
    };
    // SAFETY: the structure is as the kernel wants it in its first version (64 bytes).
    unsafe {
        let fd = libc::syscall(libc::SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) as i32;
        if fd < 0 {
            return None;
        }
        let owner = Owner { kind: F_OWNER_TID, id: libc::gettid() };
        let ok = libc::fcntl(fd, F_SETOWN_EX, &owner) == 0
            && libc::fcntl(fd, F_SETSIG, libc::SIGPROF) == 0
            && libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == 0;
        if !ok {
            libc::close(fd);
            return None;
        }
        Some(fd)
    }
}

/// Closes a performance event.
///
/// # Safety
/// It is what [`open_event`] has returned, and is forgotten with this.
pub(crate) unsafe fn close_event(event: i32) {
    // SAFETY: the caller's promise.
    unsafe { libc::close(event) };
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const F_SETOWN_EX: i32 = 15;
const F_SETSIG: i32 = 10;
const F_OWNER_TID: i32 = 0;

/// `struct f_owner_ex`
#[repr(C)]
struct Owner {
    kind: i32,
    id: libc::pid_t,
}

/// `struct perf_event_attr` as far as its first version goes.
#[repr(C)]
#[derive(Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<EventAttr>() == 64);
