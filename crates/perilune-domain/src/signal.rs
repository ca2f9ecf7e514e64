//! What signal handlers cannot do themselves, done by a thread: SIGINT while the main program waits, sessions
//! of events that begin while domains sleep, and what tools ask for.
//!
//! A handler writes to an event descriptor ([`notify_interrupt`]); a thread that sleeps in reading it wakes
//! the main program, or pokes the domains so that each says to the session that it exists and what it waits
//! for. The thread is started when the main program becomes a domain.

use crate::domain::Domain;
use crate::runtime::domains_of_process;
use crate::sys;
use parking_lot::Mutex;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static EVENT: AtomicI32 = AtomicI32::new(-1);
/// The main program is to be interrupted.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// A session of events has begun, ended, or changed its switches.
static SESSION: AtomicBool = AtomicBool::new(false);

/// Tells the main domain that its interrupt flag is set. Async-signal-safe.
pub fn notify_interrupt() {
    INTERRUPTED.store(true, Ordering::Release);
    ring();
}

/// Called when a session has changed, perhaps by a signal handler.
fn notify_session() {
    SESSION.store(true, Ordering::Release);
    ring();
}

fn ring() {
    let fd = EVENT.load(Ordering::Relaxed);
    if fd >= 0 {
        sys::ring(fd);
    }
}

/// The domain that is told of interrupts.
static MAIN: Mutex<Weak<Domain>> = Mutex::new(Weak::new());

/// Starts the thread that passes interrupts on, to `main` if that is one that takes them, and tools'
/// requests. Without it an interrupt is seen when the main program runs.
pub(crate) fn watch(main: Option<Weak<Domain>>) {
    if let Some(main) = main {
        *MAIN.lock() = main;
    }
    let Some(fd) = sys::make_bell() else { return };
    if EVENT.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    perilune_trace::attach::on_change(notify_session);
    let _ = perilune_heap::space::spawn("perilune-signals".into(), 64 << 10, move || {
        loop {
            if !sys::wait_for(fd) {
                continue;
            }
            let main = MAIN.lock().upgrade();
            if INTERRUPTED.swap(false, Ordering::AcqRel)
                && let Some(main) = main
            {
                main.interrupt_root();
            }
            if SESSION.swap(false, Ordering::AcqRel) && perilune_trace::is_live() {
                for domain in domains_of_process() {
                    domain.poke();
                }
                crate::snapshot::serve_tools();
            }
        }
    });
}
