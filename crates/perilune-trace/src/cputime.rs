//! Processor time of threads in the trace.
//!
//! Who owned a domain and did not get a processor is found by comparing the clock on the wall with the
//! thread's own (`analyse/domains.rs` of `perilune-see`). Reading that one is a system call (a quarter of a
//! microsecond at best, several in a sandbox), so it is not done for each entry of a domain: a thread notes
//! when it did so last, and [`report`] does nothing for [`INTERVAL`] after that.

use crate::clock;
use crate::emit::{emit, on, thread_id};
use crate::event::{Category, CpuTime, Ns, Tid};
use std::cell::Cell;

/// Nanoseconds between two readings of a thread's clock, at least.
pub const INTERVAL: u64 = 500_000;

thread_local! {
    /// Ticks at the last reading.
    static LAST: Cell<u64> = const { Cell::new(0) };
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// Writes a `CpuTime` event, if the thread has not done so just now.
#[inline]
pub fn report() {
    if on(Category::Life) {
        report_if_due(clock::ticks());
    }
}

// Not inlined: what calls it may go on in another thread.
#[inline(never)]
fn report_if_due(now: u64) {
    // Two or three ticks of a counter are a nanosecond, which is as good for this purpose.
    let ticks = if clock::clock() == clock::Clock::Counter { 2 * INTERVAL } else { INTERVAL };
    if now.wrapping_sub(LAST.get()) < ticks {
        return;
    }
    LAST.set(now);
    let tid = match TID.get() {
        0 => {
            let tid = thread_id();
            TID.set(tid);
            tid
        }
        tid => tid,
    };
    emit(CpuTime { used: Ns(now_ns()), thread: Tid(tid) });
}

/// Processor time that the calling thread has used, in nanoseconds.
pub fn now_ns() -> u64 {
    crate::sys::thread_cpu_ns()
}
