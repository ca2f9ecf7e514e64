//! Who owns a domain, and what is ready to run in it.
//!
//! # Phases
//!
//! *idle*: nobody owns the domain and nothing is ready. *ready*: something is, and an activation has been
//! asked for (the callback given to [`Ownership::new`], which hands the domain's pump to a worker thread).
//! *owned*: one thread may touch the domain. Beside the phase the state has flags: `WORK` (fibers are ready),
//! `POKED` (there may be tasks), `RETURNING` (detached threads want the domain back), `TURN` (a returning
//! thread has been served while something was ready: that goes next), `CLOSED`.
//!
//! # Invariants
//!
//! 1. Whoever brings the phase to owned (by compare-and-swap from idle or ready, or because an owner granted
//!    it) is the only one to bring it out again. Bringing it out releases what the owner did to the domain;
//!    bringing it in acquires it.
//! 2. Ready implies that an activation has been asked for since the phase became ready. An activation that
//!    comes too late (a returning thread was faster) finds the domain not ready and does nothing; any
//!    activation may serve.
//! 3. `WORK` is set if and only if the queue is not empty; both change under the queue's lock. `WORK` implies
//!    not idle.
//! 4. `RETURNING` is set if and only if the list of returning threads is not empty; both change under its
//!    lock. `RETURNING` implies not idle: an owner leaves by granting the domain to the first of the list, or
//!    makes it ready for what has its turn; and then only the activation takes it.
//! 5. `POKED` implies not idle. It is cleared when the pump is told that no fiber is ready, before it looks
//!    for tasks, so a task queued before a poke is seen after it. A poke is always a read-modify-write, even
//!    if the flag is set already, so that the pump's clearing acquires what came before it.
//!
//! No wake is lost: a flag is raised together with a look at the phase, in one compare-and-swap, and idle is
//! entered by one that expects no flag.
//!
//! # Leaving and returning
//!
//! A call that may block *detaches*: one compare-and-swap if nothing else is ready, else the domain goes to
//! whoever wants it. Afterwards it *attaches*: one compare-and-swap if the domain is idle or not yet begun.
//! If it is owned, the thread joins the list and sleeps; the owner's next [`Ownership::next`] says
//! [`Next::HandOver`], and the domain is granted directly, without a moment in which somebody else could take
//! it.
//!
//! Returning threads go before ready fibers, first come, first served: they hold a stack and often a pipe.
//! But a few that read from pipes that never run dry come back for ever, and fibers would wait as long. So
//! they take turns: after a returning thread that went before ready fibers, one fiber goes next (`TURN`).
//!
//! If a fiber's turn comes while all threads of the cache wait to return, nobody is left to run the pump. Who
//! waits longer than [`RESCUE`] for a domain that is ready but not begun therefore takes it for the first of
//! the list.
//!
//! # The proof
//!
//! Whoever brings the phase to owned gets an [`Owned`], and every step that only an owner may take asks for
//! it: by value if the step brings the phase out of owned. It cannot be copied or made otherwise, so of one
//! ownership there is at most one, and who holds `&mut Owned` is alone with what the ownership guards. While
//! code of the domain runs, its Lua state stands for the proof (`domain.rs`): [`Ownership::reclaim`], which
//! is unsafe, is the way back, for the calls in which such code gives the domain up.
//!
//! # Units
//!
//! An owned or ready domain has one unit of [`Quiescence`]. A detached thread has one too: it is in a call
//! that will end. So an uncontended detach hands the domain's unit to the thread and attach hands it back: no
//! shared counter is touched. The main program that waits gives its unit up while it sleeps
//! ([`Ownership::wait`]), and who wakes it takes it first.
//!
//! # Rejected
//!
//! A mutex around everything: a blocking call would cost two lock pairs, and the kernel's queue of a mutex is
//! not fair. A lock-free queue of fibers: the lock is held for a push or a pop, is nearly never contended,
//! and costs less than the allocation of a node. A proof that borrows the ownership: the pump holds it while
//! fibers run, which may be where the domain, and so the ownership, is dropped last.

use super::quiescence::Quiescence;
use super::spin::{Spin, core};
use super::sync::{AtomicBool, AtomicU32, Mutex, Ordering, Thread, current, lock, park, park_for};
use super::waiter::{Reason, Sleeper, Waiter};
use perilune_trace::event::Wake;
use perilune_trace::{FiberRef, ObjectRef, emit};
use std::any::Any;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const PHASE: u32 = 3;
const IDLE: u32 = 0;
const READY: u32 = 1;
const OWNED: u32 = 2;
const WORK: u32 = 4;
const POKED: u32 = 8;
const RETURNING: u32 = 16;
const TURN: u32 = 32;
const CLOSED: u32 = 64;
/// What keeps the pump from leaving.
const NEWS: u32 = WORK | POKED | RETURNING;

/// How long a returning thread waits before it looks whether the domain has been forgotten by a cache without
/// threads.
const RESCUE: Duration = Duration::from_secs(1);

/// Hands the domain's pump to a worker thread. It must not run the pump itself.
pub type Activate = Box<dyn Fn() + Send + Sync>;

/// What the pump does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<F> {
    /// Run this fiber.
    Fiber(F),
    /// A detached thread wants the domain back: put everything in order, then [`Ownership::hand_over`] and
    /// leave.
    HandOver,
    /// No fiber is ready: look for tasks, then [`Ownership::try_leave`].
    Empty,
}

/// Proof that the calling code owns the domain of one ownership. Moved, never copied, and never to another
/// thread: who gives the domain up gives this up.
///
/// ```compile_fail,E0382
/// # fn f(ownership: &perilune_domain::sched::Ownership<u64>) {
/// if let Some(owned) = ownership.begin() {
///     ownership.detach(owned);
///     let _ = ownership.try_leave(owned); // owned no more
/// }
/// # }
/// ```
/// ```compile_fail,E0277
/// # fn f(ownership: &perilune_domain::sched::Ownership<u64>) {
/// let owned = ownership.begin();
/// std::thread::scope(|s| s.spawn(move || drop(owned)).join()).ok();
/// # }
/// ```
#[must_use = "the domain stays owned: give it up by one of the ownership's methods"]
#[derive(Debug)]
pub struct Owned {
    ownership: u64,
    here: PhantomData<*mut ()>,
}

impl Owned {
    /// The domain's state stands for the proof from here on: code that has `&mut` to the state owns the
    /// domain.
    pub fn lend(self) {}
}

/// The right to touch a domain, and its queue of ready fibers `F`.
pub struct Ownership<F> {
    /// Which ownership a proof is of.
    id: u64,
    state: AtomicU32,
    ready: Mutex<VecDeque<F>>,
    returning: Mutex<VecDeque<Arc<Returning>>>,
    quiescence: Arc<Quiescence>,
    activate: Activate,
    /// The pump's patience before it leaves, and the main program's before it sleeps.
    pump: Spin,
    root: Spin,
}

/// A thread in [`Ownership::attach`].
struct Returning {
    thread: Thread,
    granted: AtomicBool,
}

/// What raising a flag led to.
struct Raised {
    activate: bool,
    /// A unit was taken for the domain and turned out not to be needed.
    surplus: bool,
}

/// Whether an owner that leaves should grant the domain to a returning thread.
fn returning_goes_next(state: u32) -> bool {
    state & RETURNING != 0 && !(state & TURN != 0 && state & (WORK | POKED) != 0)
}

/// Whether a thread that wants the domain may take it past the list: nobody has it and nobody is in the list.
/// (Or it has ended.)
fn may_take(state: u32) -> bool {
    state & CLOSED != 0 || (state & PHASE != OWNED && state & RETURNING == 0)
}

impl<F> Ownership<F> {
    /// One that is owned by the calling thread, which has entered `quiescence` for it: the domain's unit is
    /// taken here.
    pub fn owned(quiescence: Arc<Quiescence>, activate: Activate) -> (Ownership<F>, Owned) {
        quiescence.enter();
        let ownership = Ownership::in_state(OWNED, quiescence, activate);
        let owned = ownership.proof();
        (ownership, owned)
    }

    /// The ownership of an idle domain.
    pub fn new(quiescence: Arc<Quiescence>, activate: Activate) -> Ownership<F> {
        Ownership::in_state(IDLE, quiescence, activate)
    }

    fn in_state(state: u32, quiescence: Arc<Quiescence>, activate: Activate) -> Ownership<F> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ownership {
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            state: AtomicU32::new(state),
            ready: Mutex::new(VecDeque::new()),
            returning: Mutex::new(VecDeque::new()),
            quiescence,
            activate,
            pump: Spin::that_moves(),
            root: Spin::default(),
        }
    }

    fn proof(&self) -> Owned {
        Owned { ownership: self.id, here: PhantomData }
    }

    /// The proof that was lent to the domain's state ([`Owned::lend`]).
    ///
    /// # Safety
    /// The calling code owns the domain through its state, and uses nothing that the state stands for as long
    /// as the proof exists.
    pub unsafe fn reclaim(&self) -> Owned {
        self.proof()
    }

    /// Whether the proof is of this ownership.
    #[inline]
    pub fn is_owned_by(&self, owned: &Owned) -> bool {
        owned.ownership == self.id
    }

    #[track_caller]
    fn check(&self, owned: &Owned) {
        assert!(self.is_owned_by(owned), "a proof of another ownership");
        debug_assert_eq!(self.state.load(Ordering::Relaxed) & PHASE, OWNED);
    }

    /// The count of the program that the domain belongs to.
    pub fn quiescence(&self) -> &Arc<Quiescence> {
        &self.quiescence
    }

    // From any thread.

    /// Makes a fiber ready to run. The fiber comes back if the domain has ended.
    pub fn post(&self, fiber: F) -> Result<(), F> {
        let mut queue = lock(&self.ready);
        let state = self.state.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            return Err(fiber);
        }
        queue.push_back(fiber);
        if state & WORK != 0 {
            return Ok(());
        }
        let raised = self.raise(WORK);
        drop(queue);
        self.follow_up(raised);
        Ok(())
    }

    /// Says that there may be tasks: the pump will look for them before it leaves, and is activated if the
    /// domain is idle.
    pub fn poke(&self) {
        let raised = self.raise(POKED);
        self.follow_up(raised);
    }

    fn raise(&self, flag: u32) -> Raised {
        let mut unit = false;
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & CLOSED != 0 {
                return Raised { activate: false, surplus: unit };
            }
            let idle = state & PHASE == IDLE;
            if idle && !unit {
                // Before the domain is ready: a returning thread could take it and be done with it at once.
                self.quiescence.enter();
                unit = true;
                // The wait brought nothing: where not to spin next time. (By an owner of the domain it would
                // not have been idle.)
                self.pump.brought();
            }
            let new = if idle { state | READY | flag } else { state | flag };
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Raised { activate: idle, surplus: unit && !idle },
                Err(now) => state = now,
            }
        }
    }

    fn follow_up(&self, raised: Raised) {
        if raised.activate {
            (self.activate)();
        }
        if raised.surplus {
            self.quiescence.leave();
        }
    }

    /// Whether a detached thread wants the domain back. For long-running owners; costs a load.
    pub fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) & RETURNING != 0
    }

    /// Whether a fiber is ready; out of date when it is read, unless the caller owns the domain and it is.
    /// Costs a load.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WORK != 0
    }

    /// Whether the domain has ended.
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether some thread owns the domain: out of date when it is read, unless it is the caller.
    pub fn is_owned(&self) -> bool {
        self.state.load(Ordering::Acquire) & PHASE == OWNED
    }

    // On a worker thread that an activation has brought.

    /// Takes the domain if it is still ready. `None`: somebody else has taken it; there is nothing to do.
    pub fn begin(&self) -> Option<Owned> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & PHASE != READY {
                return None;
            }
            let new = (state & !PHASE) | OWNED;
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(self.proof()),
                Err(now) => state = now,
            }
        }
    }

    // By the owner.

    /// What the pump does next.
    pub fn next(&self, owned: &mut Owned) -> Next<F> {
        self.check(owned);
        let state = self.state.load(Ordering::Acquire);
        if returning_goes_next(state) {
            return Next::HandOver;
        }
        if state & WORK == 0 {
            if state & (POKED | TURN) != 0 {
                self.state.fetch_and(!(POKED | TURN), Ordering::AcqRel);
            }
            return Next::Empty;
        }
        let mut queue = lock(&self.ready);
        let fiber = queue.pop_front();
        let over = (state & TURN) | if queue.is_empty() { WORK } else { 0 };
        if over != 0 {
            self.state.fetch_and(!over, Ordering::AcqRel);
        }
        // Not empty: `WORK` was set, and only the owner takes out.
        fiber.map_or(Next::Empty, Next::Fiber)
    }

    /// Grants the domain to the first returning thread, after [`Next::HandOver`].
    pub fn hand_over(&self, owned: Owned) {
        self.check(&owned);
        self.grant();
        // The thread came with a unit and the domain keeps its own. Never the last: those two are left.
        self.quiescence.leave();
    }

    /// Leaves the domain idle, if nothing is ready, nobody returning, and nobody has poked. Before it leaves
    /// it may wait for a moment (`spin.rs`).
    ///
    /// # Errors
    /// The caller owns the domain still, and must look again, for tasks too.
    pub fn try_leave(&self, owned: Owned) -> Result<(), Owned> {
        self.check(&owned);
        if self.pump.until(|| self.state.load(Ordering::Relaxed) & NEWS != 0) {
            return Err(owned);
        }
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            debug_assert_eq!(state & PHASE, OWNED);
            if state & NEWS != 0 {
                return Err(owned);
            }
            let new = (state & !(PHASE | TURN)) | IDLE;
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.quiescence.leave();
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
    }

    /// Leaves the domain to others for the time of a call that may block. The caller owns a unit until
    /// [`Ownership::attach`].
    pub fn detach(&self, owned: Owned) {
        self.check(&owned);
        let mut unit = false;
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            debug_assert_eq!(state & PHASE, OWNED);
            if returning_goes_next(state) {
                self.grant();
                // The returning thread's unit stays with the caller, the domain's with the domain.
                if unit {
                    self.quiescence.leave();
                }
                return;
            }
            let busy = state & (WORK | POKED) != 0;
            if busy && !unit {
                self.quiescence.enter();
                unit = true;
            }
            let new = (state & !PHASE) | if busy { READY } else { IDLE };
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if busy {
                        (self.activate)();
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }

    fn grant(&self) {
        let first = {
            let mut list = lock(&self.returning);
            let first = list.pop_front();
            let mut state = self.state.load(Ordering::Relaxed);
            loop {
                let turn = if state & (WORK | POKED) != 0 { TURN } else { 0 };
                let over = if list.is_empty() { RETURNING } else { 0 };
                let new = (state | turn) & !over;
                match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => state = now,
                }
            }
            first
        };
        if let Some(first) = first {
            first.grant();
        }
    }

    /// Ends the domain: nothing runs in it any more. What was still ready is returned. Later posts are
    /// refused, and threads that want to return are told ([`Ownership::attach`] is `None`).
    ///
    /// The one place where two locks are held: the queue's, then the list's.
    pub fn close(&self, owned: Owned) -> VecDeque<F> {
        self.check(&owned);
        let (left, threads) = {
            let mut queue = lock(&self.ready);
            let mut list = lock(&self.returning);
            let state = self.state.swap(CLOSED | IDLE, Ordering::AcqRel);
            debug_assert_eq!(state & PHASE, OWNED);
            (std::mem::take(&mut *queue), std::mem::take(&mut *list))
        };
        for thread in threads {
            thread.grant();
        }
        self.quiescence.leave();
        left
    }

    // By a thread that has detached, or by a host that wants to use the domain.

    /// Takes the domain, and waits for it if it is owned. The caller brings a unit, which the domain then
    /// has. `None`: the domain has ended; the caller keeps its unit.
    pub fn attach(&self) -> Option<Owned> {
        let mut state = self.state.load(Ordering::Relaxed);
        while may_take(state) {
            match self.take(state) {
                Ok(taken) => return taken,
                Err(now) => state = now,
            }
        }
        self.attach_slowly()
    }

    /// Takes a domain that was seen to be free.
    fn take(&self, state: u32) -> Result<Option<Owned>, u32> {
        if state & CLOSED != 0 {
            return Ok(None);
        }
        let new = (state & !PHASE) | OWNED;
        self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed)?;
        if state & PHASE == READY {
            self.quiescence.leave(); // the domain had one of its own; never the last
        }
        Ok(Some(self.proof()))
    }

    #[cold]
    fn attach_slowly(&self) -> Option<Owned> {
        let me = Arc::new(Returning { thread: current(), granted: AtomicBool::new(false) });
        let mut list = lock(&self.returning);
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if may_take(state) {
                match self.take(state) {
                    Ok(taken) => return taken,
                    Err(now) => state = now,
                }
                continue;
            }
            match self.state.compare_exchange_weak(
                state,
                state | RETURNING,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        list.push_back(me.clone());
        drop(list);
        while !me.granted.load(Ordering::Acquire) {
            if park_for(RESCUE)
                && let Some(owned) = self.begin()
            {
                self.hand_over(owned);
            }
        }
        (!self.is_closed()).then(|| self.proof())
    }

    /// The main program waits: sleeps without the domain until `waiter` is woken, and returns with the
    /// domain. The caller has left the waiter with whatever may wake it. `None`: the domain has ended
    /// meanwhile.
    pub fn wait(&self, owned: Owned, waiter: &Waiter<Root>) -> Option<Owned> {
        if !waiter.sleep() {
            return Some(owned);
        }
        self.detach(owned);
        self.quiescence.leave();
        let roused = || waiter.sleeper().roused.load(Ordering::Acquire);
        if !self.root.until(roused) {
            while !roused() {
                park();
            }
        }
        self.root.brought_by(waiter.sleeper().rouser.load(Ordering::Relaxed));
        let taken = self.attach();
        if taken.is_none() {
            self.quiescence.leave();
        }
        taken
    }
}

impl Returning {
    fn grant(&self) {
        // The thread may return and drop its handle as soon as the flag is up.
        let thread = self.thread.clone();
        self.granted.store(true, Ordering::Release);
        thread.unpark();
    }
}

/// The main program as a sleeper: the thread that made it.
pub struct Root {
    thread: Thread,
    quiescence: Arc<Quiescence>,
    roused: AtomicBool,
    /// On which core that was done (`spin.rs`).
    rouser: AtomicU32,
    /// Who waits for what, for events.
    events: (FiberRef, ObjectRef),
    facts: Box<dyn Facts>,
}

/// Who waits for what and where.
pub trait Facts: Any + Send + Sync {
    /// In one line.
    fn describe(&self) -> String;
}

impl<F: Fn() -> String + Any + Send + Sync> Facts for F {
    fn describe(&self) -> String {
        self()
    }
}

impl Root {
    /// The calling thread, whose domain belongs to `quiescence`'s program.
    pub fn new(quiescence: Arc<Quiescence>, events: (FiberRef, ObjectRef), facts: Box<dyn Facts>) -> Root {
        Root {
            thread: current(),
            quiescence,
            roused: AtomicBool::new(false),
            rouser: AtomicU32::new(0),
            events,
            facts,
        }
    }
}

impl Sleeper for Root {
    fn rouse(&self, reason: Reason) {
        let (fiber, object) = self.events;
        emit(Wake { fiber, object, reason: reason.into() });
        self.quiescence.enter();
        let thread = self.thread.clone();
        self.rouser.store(core(), Ordering::Relaxed);
        self.roused.store(true, Ordering::Release);
        thread.unpark();
    }

    fn describe(&self) -> String {
        self.facts.describe()
    }

    fn facts(&self) -> Option<&dyn Any> {
        Some(&*self.facts)
    }
}
