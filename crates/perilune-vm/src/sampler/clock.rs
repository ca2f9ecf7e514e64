//! What makes a thread take a look at itself every so many nanoseconds of its processor time.
//!
//! Each thread that runs Lua is a [`Runner`]: it has a clock that sends it SIGPROF, and says which domain it
//! runs. Runners are in a list that only grows, in memory that is never freed, so that signal handlers may go
//! through it.
//!
//! # Two clocks
//! A POSIX timer of the thread's processor time goes off with the kernel's tick, 250 times a second at most
//! on most systems; higher rates come out as fewer, longer samples, and their weights, which are measured,
//! still add up. The kernel's performance events have a finer clock, where they are permitted and may look at
//! the kernel's part of the time, too: one that stands still there would charge system calls to whoever runs
//! after them.
//!
//! # Who may look at what
//! The handler runs on the thread that owns the domain, in between two machine instructions of it. It reads
//! `Vm::base`, which always is the base of a frame, perhaps of one that is not the running one any more but
//! whose memory has not been freed since: that happens in collections, before which `base` is stored.
//!
//! Switches change in a signal handler on any thread ([`changed`]), which raises an interrupt in each domain
//! that runs. A domain is not freed while such a handler is at work ([`Runner::forget`] waits).

use super::Sampler;
use crate::sys::clock;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// A thread that runs Lua.
pub(super) struct Runner {
    next: *const Runner,
    /// A thread that lives has it.
    taken: AtomicBool,
    /// The interrupt word of the domain that the thread runs; null: none.
    interrupt: AtomicPtr<AtomicU32>,
    /// The sampler of that domain.
    sampler: AtomicPtr<Sampler>,
    /// Ticks per second of its clock.
    hz: AtomicU32,
    /// The thread's processor time at the last tick.
    last: AtomicU64,
    /// Processor time that was used outside of domains and nobody has been told of.
    outside: AtomicU64,
    /// The performance event, if that is the clock; else -1.
    event: AtomicI32,
    /// The timer, if that is.
    timer: AtomicPtr<c_void>,
    has_timer: AtomicBool,
}

/// All of them.
static RUNNERS: AtomicPtr<Runner> = AtomicPtr::new(null_mut());
/// Handlers that go through the list.
static RAISING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static OWN: Cell<*const Runner> = const { Cell::new(null()) };
    static GUARD: Guard = const { Guard };
}

/// Gives a thread's runner back when the thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let own = OWN.replace(null());
        if !own.is_null() {
            // SAFETY: runners are never freed.
            let own = unsafe { &*own };
            own.forget(null_mut());
            own.stop();
            own.taken.store(false, Ordering::Release);
        }
    }
}

/// The calling thread's. Not inlined: what calls it may go on in another thread.
#[inline(never)]
pub(super) fn own() -> &'static Runner {
    let own = OWN.get();
    // SAFETY: runners are never freed.
    if own.is_null() { register() } else { unsafe { &*own } }
}

#[cold]
fn register() -> &'static Runner {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| perilune_trace::attach::on_change(changed));
    let mut at: *const Runner = RUNNERS.load(Ordering::Acquire);
    let mut found = None;
    while !at.is_null() {
        // SAFETY: runners are never freed.
        let r = unsafe { &*at };
        if r.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            found = Some(r);
            break;
        }
        at = r.next;
    }
    let own = found.unwrap_or_else(|| {
        let new = Box::leak(Box::new(Runner {
            next: null(),
            taken: AtomicBool::new(true),
            interrupt: AtomicPtr::new(null_mut()),
            sampler: AtomicPtr::new(null_mut()),
            hz: AtomicU32::new(0),
            last: AtomicU64::new(0),
            outside: AtomicU64::new(0),
            event: AtomicI32::new(-1),
            timer: AtomicPtr::new(null_mut()),
            has_timer: AtomicBool::new(false),
        }));
        let mut head = RUNNERS.load(Ordering::Acquire);
        loop {
            new.next = head;
            match RUNNERS.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break new,
                Err(now) => head = now,
            }
        }
    });
    OWN.set(own);
    // A thread that is ending has no guard any more; its runner stays taken.
    let _ = GUARD.try_with(|_| ());
    own
}

/// The session's switches have changed: whoever runs is to look at them. Async-signal-safe.
fn changed() {
    RAISING.fetch_add(1, Ordering::SeqCst);
    let mut at: *const Runner = RUNNERS.load(Ordering::Acquire);
    while !at.is_null() {
        // SAFETY: runners are never freed; a domain's word is there as long as `RAISING` is not 0.
        unsafe {
            let word = (*at).interrupt.load(Ordering::SeqCst);
            if !word.is_null() {
                (*word).fetch_or(crate::interrupt::TRACE, Ordering::Relaxed);
            }
            at = (*at).next;
        }
    }
    RAISING.fetch_sub(1, Ordering::SeqCst);
}

impl Runner {
    /// The thread runs this domain from now on.
    pub fn enter(&self, sampler: *mut Sampler, interrupt: *mut AtomicU32) {
        self.sampler.store(sampler, Ordering::Relaxed);
        // Before the caller looks at the switches: a change after that finds the word.
        self.interrupt.store(interrupt, Ordering::SeqCst);
    }

    /// It runs none.
    pub fn leave(&self) {
        self.interrupt.store(null_mut(), Ordering::Release);
        self.sampler.store(null_mut(), Ordering::Relaxed);
    }

    /// The domain with this sampler (null: any) is about to be freed.
    pub fn forget(&self, sampler: *mut Sampler) {
        if sampler.is_null() || self.sampler.load(Ordering::Relaxed) == sampler {
            self.leave();
        }
        // With `changed`: either it finds the word gone, or it is seen here. A store of `leave` alone could
        // come after this load.
        fence(Ordering::SeqCst);
        while RAISING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }

    /// So much was used outside of domains.
    pub fn add_outside(&self, ns: u64) {
        self.outside.fetch_add(ns, Ordering::Relaxed);
    }

    /// Takes the processor time that was used outside of domains.
    pub fn take_outside(&self) -> u64 {
        match self.outside.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.outside.swap(0, Ordering::Relaxed),
        }
    }

    /// The calling thread's clock ticks this often per second from now on; 0: not at all.
    pub fn set_rate(&self, hz: u32) {
        if self.hz.load(Ordering::Relaxed) == hz {
            return;
        }
        self.stop();
        if hz == 0 {
            return;
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| clock::on_tick(on_tick));
        self.last.store(clock::thread_time(), Ordering::Relaxed);
        self.outside.store(0, Ordering::Relaxed);
        self.hz.store(hz, Ordering::Relaxed);
        if hz > TICKS && self.start_event(hz) {
            return;
        }
        self.start_timer(hz);
    }

    fn stop(&self) {
        self.hz.store(0, Ordering::Relaxed);
        let event = self.event.swap(-1, Ordering::Relaxed);
        if event >= 0 {
            // SAFETY: a descriptor of ours.
            unsafe { clock::close_event(event) };
        }
        if self.has_timer.swap(false, Ordering::Relaxed) {
            // SAFETY: a timer of ours.
            unsafe { clock::stop_timer(self.timer.load(Ordering::Relaxed)) };
        }
    }

    fn start_timer(&self, hz: u32) {
        let period = (1_000_000_000 / hz.max(1) as i64).max(10_000);
        if let Some(timer) = clock::start_timer(period) {
            self.timer.store(timer, Ordering::Relaxed);
            self.has_timer.store(true, Ordering::Relaxed);
        }
    }

    fn start_event(&self, hz: u32) -> bool {
        let period = (1_000_000_000 / hz as u64).max(10_000);
        let event = clock::open_event(period);
        self.event.store(event.unwrap_or(-1), Ordering::Relaxed);
        event.is_some()
    }
}

/// Rates above this are beyond any kernel's tick.
const TICKS: u32 = 1000;

extern "C" fn on_tick(_: i32, _: *mut c_void, context: *mut c_void) {
    let own = OWN.get();
    if own.is_null() {
        return;
    }
    // SAFETY: runners are never freed; the domain that the thread runs says goodbye before it goes
    // (`forget`).
    unsafe {
        if (*own).hz.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = clock::thread_time();
        let ns = now.saturating_sub((*own).last.swap(now, Ordering::Relaxed));
        let sampler = (*own).sampler.load(Ordering::Relaxed);
        if sampler.is_null() || !(*sampler).note_tick(ns, clock::interrupted_at(context)) {
            (*own).add_outside(ns);
        }
    }
}
