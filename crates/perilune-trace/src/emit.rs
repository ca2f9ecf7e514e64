//! Probes: what the rooms above call when something happens.
//!
//! # Cost
//! A probe that is off is a load of one word, a test, a branch that is never taken ([`on`]). One that is on
//! reads the clock and stores four words; no lock, no system call, no other processor's cache line, unless a
//! reader looks at the slot just then.
//!
//! # Who writes where
//! A domain has a [`Writer`], which the thread that owns the domain makes current ([`enter`]) and gives back
//! ([`leave`]); at any time at most one thread uses it, by the same hand-over that guards the domain's heap.
//! What a thread does outside of all domains goes to a writer of its own. A writer takes a ring at its first
//! event of a session and gives it back when it is dropped.
//!
//! # Sessions
//! A *session* is one event file that is written to, from its start to its end; they are counted. A writer
//! notices by the count that its ring belongs to an earlier one. What a session's file was mapped at stays
//! mapped, with anonymous memory in place of the file from the beginning of the next session on, because a
//! thread may have stopped just before its store.
//!
//! # Rejected
//! Handing a writer to each function with a probe (the scheduler has none at hand, and thread-local lookups
//! cost a nanosecond); rings of threads alone (what a domain did would lie in pieces, and a busy domain would
//! push an idle one's history out); one ring for all (contention); text (ten times the bytes, and parsing).

use crate::clock;
use crate::event::{self, Bytes, Category, Kind, More, ObjectRef, Probe, Raw, Raw16};
use crate::layout::*;
use crate::map::Mapping;
use crate::names;
use crate::sys;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// Categories that are on.
pub(crate) static ENABLED: AtomicU32 = AtomicU32::new(0);
/// Counts sessions; 0: there has been none.
pub(crate) static SESSION: AtomicU32 = AtomicU32::new(0);
static BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// A session begins.
static BEGINNING: AtomicBool = AtomicBool::new(false);

/// Is the category on?
#[inline(always)]
pub fn on(category: Category) -> bool {
    ENABLED.load(Ordering::Relaxed) & category as u32 != 0
}

/// Is anything on?
#[inline(always)]
pub fn is_live() -> bool {
    ENABLED.load(Ordering::Relaxed) != 0
}

/// Something has happened: `emit(event::MinorEnd { allocated, promoted })`. The arguments are computed
/// whether the category is on or not; if that costs something, ask [`on`] first.
#[inline(always)]
pub fn emit<E: Probe>(event: E) {
    if on(E::KIND.category()) {
        let words = event.encode();
        record(E::KIND, words.c as u16, words.a, words.b);
    }
}

/// `pl.trace.log`: a text of at most 4 KiB (cut if it is longer).
pub fn log(text: &[u8]) {
    with_text(|length| event::Log { length }, text);
}

/// An error has left the program, a task or a domain.
pub fn error(object: ObjectRef, text: &[u8]) {
    with_text(|length| event::Error { length, object }, text);
}

fn with_text<E: Probe>(event: impl FnOnce(Bytes) -> E, text: &[u8]) {
    if !on(E::KIND.category()) {
        return;
    }
    let text = &text[..text.len().min(4096)];
    emit(event(Bytes::from(text.len())));
    for piece in text.chunks(18) {
        let mut bytes = [0; 18];
        bytes[..piece.len()].copy_from_slice(piece);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        emit(More {
            first: Raw(word(0)),
            second: Raw(word(8)),
            third: Raw16(u16::from_le_bytes([bytes[16], bytes[17]])),
        });
    }
}

/// Where a domain's events go. Made with the domain, dropped with it.
pub struct Writer {
    ring: *const RingHeader,
    slots: *const Slot,
    mask: u64,
    /// Number of the next event.
    next: u64,
    /// The session that the ring belongs to.
    session: u32,
    /// Times that no ring was to be had in this session.
    refused: bool,
    /// A domain's number, or [`THREAD`] and a thread's.
    who: u64,
}

// SAFETY: one thread at a time uses it, and rings are shared memory.
unsafe impl Send for Writer {}

thread_local! {
    /// The writer of the domain that this thread owns.
    static CURRENT: Cell<*mut Writer> = const { Cell::new(null_mut()) };
    /// For what the thread does outside of domains.
    static OWN: UnsafeCell<Writer> = const { UnsafeCell::new(Writer::new(0)) };
}

/// The calling thread's events belong to this writer's domain from here on. The writer must live and stay
/// where it is until [`leave`].
///
/// # Safety
/// No other thread uses the writer until this one has called [`leave`] or [`enter`] with another.
#[inline(never)]
pub unsafe fn enter(writer: *mut Writer) {
    CURRENT.set(writer);
}

/// The calling thread's events are its own again.
#[inline(never)]
pub fn leave() {
    CURRENT.set(null_mut());
}

/// As [`leave`], if this writer is the current one: it is about to go.
#[inline(never)]
pub fn leave_if(writer: *mut Writer) {
    if CURRENT.get() == writer {
        CURRENT.set(null_mut());
    }
}

/// Writes an event by its words, whatever is on.
#[inline(never)]
pub fn record(kind: Kind, c: u16, a: u64, b: u64) {
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: set by `enter`; only this thread uses it.
        unsafe { (*current).write(kind, c, a, b) };
    } else {
        // A thread that ends has no writer any more.
        let _ = OWN.try_with(|own| {
            // SAFETY: only this thread uses it, and `write` does not come back here.
            let own = unsafe { &mut *own.get() };
            if own.who == 0 {
                own.who = THREAD | thread_id() as u64;
            }
            own.write(kind, c, a, b);
        });
    }
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    sys::thread_id()
}

impl Writer {
    /// For the domain of this number.
    pub const fn new(domain: u32) -> Writer {
        Writer {
            ring: null(),
            slots: null(),
            mask: 0,
            next: 0,
            session: 0,
            refused: false,
            who: domain as u64,
        }
    }

    /// Tells whose events come from now on.
    pub fn set_domain(&mut self, domain: u32) {
        self.release();
        self.who = domain as u64;
    }

    #[inline]
    fn write(&mut self, kind: Kind, c: u16, a: u64, b: u64) {
        if self.session != SESSION.load(Ordering::Relaxed) && !self.renew() || self.refused {
            return;
        }
        let n = self.next;
        self.next = n + 1;
        // SAFETY: the ring of this session (`renew`) stays mapped, and is this writer's alone.
        let (ring, slot) = unsafe { (&*self.ring, &*self.slots.add((n & self.mask) as usize)) };
        slot.stamp.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.ticks.store(clock::ticks(), Ordering::Relaxed);
        slot.a.store(a, Ordering::Relaxed);
        slot.b.store(b, Ordering::Relaxed);
        let stamp = (n.wrapping_add(1) & 0xffff_ffff) << 32 | (kind as u64) << 16 | c as u64;
        slot.stamp.store(stamp, Ordering::Release);
        ring.head.store(n + 1, Ordering::Release);
    }

    /// Takes a ring of the session that there is now.
    #[cold]
    #[inline(never)]
    fn renew(&mut self) -> bool {
        self.ring = null();
        self.refused = false;
        let session = SESSION.load(Ordering::Acquire);
        self.session = session;
        let Some(map) = mapping().filter(|map| map.is_valid()) else {
            self.refused = true;
            return false;
        };
        names::bring_up_to_date();
        let (h, parts) = (map.header(), map.parts());
        for n in 0..parts.rings {
            let ring = map.ring(n);
            if ring.taken.load(Ordering::Relaxed) == 0
                && ring.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                // A number that only damage explains must not run over.
                self.next = ring.head.load(Ordering::Relaxed).min(u64::MAX / 2);
                let count = ring.owner_count.load(Ordering::Relaxed);
                let owner = &ring.owners[(count % OWNERS as u64) as usize];
                owner.first.store(self.next, Ordering::Relaxed);
                owner.writer.store(self.who, Ordering::Relaxed);
                ring.owner_count.store(count.wrapping_add(1), Ordering::Release);
                h.rings_used.fetch_max(n + 1, Ordering::AcqRel);
                self.mask = parts.ring_events as u64 - 1;
                self.slots = map.slots(n).as_ptr();
                self.ring = ring;
                return true;
            }
        }
        h.writers_refused.fetch_add(1, Ordering::Relaxed);
        self.refused = true;
        false
    }

    /// Gives the ring back.
    fn release(&mut self) {
        if !self.ring.is_null() {
            if self.session == SESSION.load(Ordering::Acquire) {
                // SAFETY: the session's file is still mapped.
                unsafe { (*self.ring).taken.store(0, Ordering::Release) };
            }
            self.ring = null();
        }
        self.session = 0;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.release();
    }
}

// -- Sessions -----------------------------------------------------------------------------------------------

/// The file of the session that there is, or was last.
pub(crate) fn mapping() -> Option<ManuallyDrop<Mapping>> {
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() {
        return None;
    }
    // SAFETY: stays mapped, and is not unmapped by a `ManuallyDrop`.
    Some(ManuallyDrop::new(unsafe { Mapping::from_raw(base, BYTES.load(Ordering::Acquire)) }))
}

/// Why no session can begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// Another is live.
    Live,
    /// Another thread is beginning one.
    Beginning,
}

/// Begins a session that writes to a mapped file, whose header says what is on. Async-signal-safe.
///
/// # Safety
/// `base` is a checked mapping of `bytes` bytes that nobody unmaps.
///
/// # Errors
/// There is one.
pub(crate) unsafe fn begin(base: *mut u8, bytes: usize) -> Result<(), Busy> {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return Err(Busy::Beginning);
    }
    if has_session() {
        BEGINNING.store(false, Ordering::Release);
        return Err(Busy::Live);
    }
    let (old, old_bytes) = (BASE.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    crate::fault::guard(base, bytes);
    // SAFETY: the caller's promise.
    let map = ManuallyDrop::new(unsafe { Mapping::from_raw(base, bytes) });
    map.begin();
    // A reader of the two would need both to fit together; sessions begin one at a time, and writers look at
    // them after `SESSION`.
    BASE.store(base, Ordering::Release);
    BYTES.store(bytes, Ordering::Release);
    SESSION.fetch_add(1, Ordering::AcqRel);
    ENABLED.store(map.header().enabled.load(Ordering::Relaxed), Ordering::Release);
    if !old.is_null() && old != base {
        // Whoever is about to store there still may.
        // SAFETY: replaces our own mapping by one of the same size.
        unsafe { sys::replace(old.cast(), old_bytes) };
        crate::fault::forget(old);
    }
    BEGINNING.store(false, Ordering::Release);
    Ok(())
}

/// Is there a session that has not ended? (One whose switches are all off is still one.)
pub fn has_session() -> bool {
    mapping().is_some_and(|map| map.header().state.load(Ordering::Acquire) == State::Live as u32)
}

/// What the session's header wants to be on.
fn wish() -> u32 {
    match mapping() {
        Some(map) if map.header().state.load(Ordering::SeqCst) == State::Live as u32 => {
            map.header().enabled.load(Ordering::SeqCst)
        }
        _ => 0,
    }
}

/// The switches as the session's header has them now take effect. Async-signal-safe.
pub(crate) fn obey() {
    // Two threads may obey at the same time: whoever stored an older wish than there is now stores again.
    loop {
        let wish = wish();
        ENABLED.store(wish, Ordering::SeqCst);
        if wish == self::wish() {
            return;
        }
    }
}

/// Ends the session: nothing is on, the file stays as it is. Async-signal-safe.
pub fn end() {
    ENABLED.store(0, Ordering::Release);
    if let Some(map) = mapping() {
        map.calibrate();
        map.header().state.store(State::Ended as u32, Ordering::Release);
    }
}

/// How many sessions there have been: tells one from the next.
pub fn session_number() -> u32 {
    SESSION.load(Ordering::Acquire)
}

/// The rate of processor samples that the session wants, per second; 0: none.
pub fn cpu_hz() -> u32 {
    if on(Category::Cpu) { mapping().map_or(0, |m| m.header().cpu_hz.load(Ordering::Relaxed)) } else { 0 }
}

/// The mean bytes between samples of allocation that the session wants; 0: none.
pub fn alloc_interval() -> u64 {
    if on(Category::Alloc) {
        mapping().map_or(0, |m| m.header().alloc_interval.load(Ordering::Relaxed))
    } else {
        0
    }
}
