//! SIGINT while the main program waits: its handler may do next to nothing, and the thread that it should wake sleeps on a futex.
//!
//! The handler writes to an event descriptor ([`notify_interrupt`]); a thread that sleeps in reading it wakes the main program. The thread
//! is started when the main program becomes a domain.

use crate::domain::Domain;
use std::sync::Weak;
use std::sync::atomic::{AtomicI32, Ordering};

static EVENT: AtomicI32 = AtomicI32::new(-1);

/// Tells the main domain that its interrupt flag is set. Async-signal-safe.
pub fn notify_interrupt() {
    let fd = EVENT.load(Ordering::Relaxed);
    if fd >= 0 {
        let one = 1u64;
        // SAFETY: writes eight bytes to an open descriptor; a full counter is no matter, the reader will come.
        unsafe { libc::write(fd, (&raw const one).cast(), 8) };
    }
}

/// Starts the thread that passes interrupts on to the main domain. Without it an interrupt is seen when the main program runs.
pub(crate) fn watch(domain: Weak<Domain>) {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 || EVENT.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let thread = std::thread::Builder::new().name("perilune-signals".into()).stack_size(64 << 10);
    let _ = thread.spawn(move || {
        let mut count = 0u64;
        loop {
            // SAFETY: reads eight bytes into a local variable.
            let n = unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
            match domain.upgrade() {
                Some(domain) if n == 8 => domain.interrupt_root(),
                Some(_) => {}
                None => return,
            }
        }
    });
}
