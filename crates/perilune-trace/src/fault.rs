//! Event files whose memory is gone: the traced program lives on.
//!
//! An event file is sparse and lies in shared memory. A store to a page that was not there yet raises SIGBUS
//! when that memory is full, and so does every access when somebody has shortened the file. The program has
//! asked for nothing of the kind, so its handler puts a page of the process's own memory in the place of the
//! one that is missing, ends the session, and lets the instruction be repeated. Events that go there are
//! lost; the tool finds the session ended and a writer refused.
//!
//! Faults elsewhere go to whoever had the signal before, by putting that action back and letting the fault
//! happen again.
//!
//! *Rejected.* Allocating rings when they are taken (`MADV_POPULATE_WRITE`): two megabytes for each domain,
//! however little it writes, and no help against files that are shortened. Asking before each new page of a
//! ring: the same, and a branch more in each probe.

use crate::emit;
use crate::layout::{PAGE, State};
use crate::sys::{self, SignalInfo};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Mappings that this process writes events to: the session's, and those that handlers are looking at.
struct Guarded {
    base: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

/// More than there can be sessions and signal handlers at work at a time.
const PLACES: usize = 16;
static GUARDED: [Guarded; PLACES] =
    [const { Guarded { base: AtomicPtr::new(std::ptr::null_mut()), bytes: AtomicUsize::new(0) } }; PLACES];

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// From now on faults in this mapping do not end the program. Async-signal-safe. Does nothing if the mapping
/// is guarded.
pub(crate) fn guard(base: *mut u8, bytes: usize) {
    if !INSTALLED.swap(true, Ordering::AcqRel) {
        // SAFETY: one thread comes here, once.
        unsafe { sys::on_missing_memory(on_fault) };
    }
    if GUARDED.iter().any(|g| g.base.load(Ordering::Acquire) == base) {
        return;
    }
    for place in &GUARDED {
        if place
            .base
            .compare_exchange(std::ptr::null_mut(), base, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            place.bytes.store(bytes, Ordering::Release);
            return;
        }
    }
}

/// The mapping is about to go, or is ordinary memory now. Async-signal-safe.
pub(crate) fn forget(base: *mut u8) {
    for place in &GUARDED {
        if place.base.load(Ordering::Acquire) == base {
            place.bytes.store(0, Ordering::Release);
            place.base.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// The page of a guarded mapping that this address lies in.
fn page_of(address: usize) -> Option<*mut u8> {
    GUARDED.iter().find_map(|g| {
        let (base, bytes) = (g.base.load(Ordering::Acquire), g.bytes.load(Ordering::Acquire));
        let within = address.wrapping_sub(base as usize);
        (!base.is_null() && within < bytes).then(|| base.wrapping_add(within / PAGE * PAGE))
    })
}

extern "C" fn on_fault(_: i32, info: *mut SignalInfo, _: *mut c_void) {
    sys::keeping_errno(|| {
        // SAFETY: the kernel passes a valid structure.
        let page = page_of(unsafe { sys::fault_address(info) });
        // SAFETY: a page of our own mapping that cannot be had.
        let mended = page.is_some_and(|page| unsafe { sys::replace(page, PAGE) });
        if mended {
            if let Some(map) = emit::mapping() {
                let h = map.header();
                h.writers_refused.fetch_add(1, Ordering::Relaxed);
                h.state.store(State::Ended as u32, Ordering::SeqCst);
            }
            emit::obey();
            crate::attach::tell_hooks();
        } else {
            // SAFETY: this is the handler that has taken the signal.
            unsafe { sys::give_missing_memory_back() };
        }
    });
}
