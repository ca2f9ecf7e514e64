//! What is Linux: all that this crate asks of the system beyond the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The signal that ends a process whose processor time is spent.
pub(crate) const TIME_IS_SPENT: i32 = libc::SIGXCPU;

/// What the process has used of processors.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Has the process that is to be started end with this one, use no more processor time than this, no more
/// address space, and leave no memory image.
pub(crate) fn limit(command: &mut Command, time: Duration, address_space: Option<u64>) {
    // SAFETY: `prctl` and `setrlimit` may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if let Some(most) = address_space {
                let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                libc::setrlimit(libc::RLIMIT_AS, &limit);
            }
            let processor = libc::rlimit { rlim_cur: time.as_secs(), rlim_max: time.as_secs() + 1 };
            libc::setrlimit(libc::RLIMIT_CPU, &processor);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            Ok(())
        });
    }
}

/// Has `handler`, which is async-signal-safe, called once when the process crashes.
pub(crate) fn on_crash(handler: extern "C" fn(i32)) {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        // SAFETY: zero is a valid `sigaction`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Writes bytes to an open file, for good. Async-signal-safe.
///
/// # Safety
/// So many bytes can be read there.
pub(crate) unsafe fn write_for_good(file: i32, bytes: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::write(file, bytes.cast(), length);
        libc::fsync(file);
    }
}

/// Sends the calling thread a signal. Async-signal-safe.
pub(crate) fn raise(signal: i32) {
    // SAFETY: a call without pointers.
    unsafe { libc::raise(signal) };
}
