//! Event files whose memory is gone: the traced program lives on.
//!
//! An event file is sparse and lies in shared memory. A store to a page that was not there yet raises SIGBUS when that memory is full, and so does every access when somebody has
//! shortened the file. The program has asked for nothing of the kind, so its handler puts a page of the process's own memory in the place of the one that is missing, ends the
//! session, and lets the instruction be repeated. Events that go there are lost; the tool finds the session ended and a writer refused.
//!
//! Faults elsewhere go to whoever had the signal before, by putting that action back and letting the fault happen again.
//!
//! *Rejected.* Allocating rings when they are taken (`MADV_POPULATE_WRITE`): two megabytes for each domain, however little it writes, and no help against files that are
//! shortened. Asking before each new page of a ring: the same, and a branch more in each probe.

use crate::emit;
use crate::layout::{PAGE, State};
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
/// The action that there was before.
static mut BEFORE: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();

/// From now on faults in this mapping do not end the program. Async-signal-safe. Does nothing if the mapping is guarded.
pub(crate) fn guard(base: *mut u8, bytes: usize) {
    if !INSTALLED.swap(true, Ordering::AcqRel) {
        // SAFETY: the action is a zeroed structure with valid fields; one thread comes here, once.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            // The header may be gone, too, when the handler looks at it.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            action.sa_mask = crate::attach::handlers_alone();
            let before = &raw mut BEFORE;
            libc::sigaction(libc::SIGBUS, &action, (*before).as_mut_ptr());
        }
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

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure; `errno` belongs to the interrupted code and is put back. What is replaced is a page of our own mapping that cannot be had.
    unsafe {
        let errno = *libc::__errno_location();
        let page = page_of((*info).si_addr() as usize);
        let mended = page.is_some_and(|page| {
            let at = libc::mmap(
                page.cast(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            );
            at != libc::MAP_FAILED
        });
        if mended {
            if let Some(map) = emit::mapping() {
                let h = map.header();
                h.writers_refused.fetch_add(1, Ordering::Relaxed);
                h.state.store(State::Ended as u32, Ordering::SeqCst);
            }
            emit::obey();
            crate::attach::tell_hooks();
        } else {
            let before = &raw const BEFORE;
            libc::sigaction(libc::SIGBUS, (*before).as_ptr(), std::ptr::null_mut());
        }
        *libc::__errno_location() = errno;
    }
}
