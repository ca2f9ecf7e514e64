//! OS threads from a cache, for the whole process.
//!
//! A [`Job`] gets a thread at once: the one that became idle last (its stack is warm), or a new one. Whether
//! there should be so many is not decided here: a job is a domain that has something to run. An idle thread
//! ends after two seconds, counted from its last job; since the one that became idle last is taken first, a
//! light load keeps one or two threads and lets the others go. When all have ended nothing wakes any more.
//! Before it sleeps, a thread has a moment of patience (`spin.rs`): to a program that waits for one short job
//! after another, two switches by the kernel would be most of the price.
//!
//! If the cap is reached, or the kernel refuses a thread, the job waits in a queue that every thread looks
//! into before it becomes idle; a refusal is tried again a little later. If the kernel refuses and no thread
//! is left that could, the caller tries for [`PATIENCE`], and then tells the job ([`Job::refused`]), which
//! may fail in the caller's hands. A job that cannot (it has a state, with fibers in the middle of something)
//! is tried until it succeeds: the alternatives would be to lose it or to run it on a stack that is not meant
//! for it.
//!
//! Where something outside the program is waited for, one idle thread waits for that instead ([`Idler`]).
//!
//! A job that panics ends itself, not the thread; the panic hook has reported it.

use super::spin::{Spin, core};
use super::timer;
use perilune_trace::emit;
use perilune_trace::emit::thread_id;
use perilune_trace::event::{Tid, WorkerBegin, WorkerEnd};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Address space of a worker thread's stack; pages are only backed when they are touched.
const STACK: usize = 2 << 20;
/// How long an idle thread is kept.
const KEEP: Duration = Duration::from_secs(2);
/// How long after a refusal by the kernel it is asked again.
const RETRY: Duration = Duration::from_millis(20);
/// How long a job without any thread is tried before it is told; while the last refusal is no older than
/// [`REMEMBER`], not at all.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long a refusal of the only thread is taken for the state of things.
const REMEMBER: Duration = Duration::from_secs(1);
/// How many threads there may be if nobody says otherwise.
pub const DEFAULT_CAP: usize = 4096;

/// Something to be run on a worker thread.
pub trait Job: Send + Sync {
    /// Runs it. The thread goes back to the cache afterwards.
    fn run(self: Arc<Self>);
    /// There is no thread to run it on, because of this: whether that is the end of the job. Called by
    /// whoever wanted it to be run, with no lock held.
    fn refused(self: Arc<Self>, why: &io::Error) -> bool {
        let _ = why;
        false
    }
}

/// What one idle thread at a time does instead of sleeping on its seat: it waits for what is outside the
/// program, and wakes whom that concerns. If that is a job, the thread gets it itself.
pub trait Idler: Sync {
    /// Takes the right to it. False: another thread has it.
    fn take(&self) -> bool;
    /// Waits for something to happen and deals with it, no longer than this. The caller has the right.
    fn idle(&self, at_most: Option<Duration>);
    /// Gives the right back.
    fn give_back(&self);
    /// Ends the wait that is under way, or is about to be, of whoever has the right. From any thread.
    fn call(&self);
}

static IDLER: OnceLock<&'static dyn Idler> = OnceLock::new();

/// From now on idle threads do this. Once.
pub fn set_idler(idler: &'static dyn Idler) {
    let _ = IDLER.set(idler);
}

thread_local! {
    /// The seat of the running thread while it is in [`Idler::idle`].
    static IDLING: Cell<*const Seat> = const { Cell::new(std::ptr::null()) };
}

/// How a thread is started: its number and what it does. Replaced in tests by one that refuses.
type Start = fn(usize, Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// A cache of threads.
struct Cache {
    state: Mutex<State>,
    start: Start,
    keep: Duration,
}

struct State {
    /// Threads without a job; the last one became idle last.
    idle: Vec<Arc<Seat>>,
    /// Jobs that found no thread.
    queue: VecDeque<Arc<dyn Job>>,
    live: usize,
    peak: usize,
    started: usize,
    cap: usize,
    /// When a job was last told that there is no thread for it.
    gave_up: Option<Instant>,
}

/// Where an idle thread waits.
#[derive(Default)]
struct Seat {
    given: Mutex<Given>,
    /// A job has been given.
    news: AtomicBool,
    /// On which core (`spin.rs`).
    giver: AtomicU32,
    arrived: Condvar,
}

#[derive(Default)]
struct Given {
    job: Option<Arc<dyn Job>>,
    /// The thread sleeps, and has to be woken.
    sleeping: bool,
    /// It waits for what is outside, and has to be called.
    idling: bool,
}

static CACHE: Cache = Cache::new(start_thread, KEEP);

/// Runs a job on a worker thread.
pub fn run(job: Arc<dyn Job>) {
    CACHE.run(job);
}

/// Runs a closure on a worker thread.
pub fn run_once(f: impl FnOnce() + Send + 'static) {
    run(Once::job(f));
}

/// How many worker threads there are.
pub fn live() -> usize {
    lock(&CACHE.state).live
}

/// How many worker threads have nothing to do.
pub fn idle() -> usize {
    lock(&CACHE.state).idle.len()
}

/// The largest number of worker threads there has been since the last [`reset_peak`].
pub fn peak() -> usize {
    lock(&CACHE.state).peak
}

/// Starts the measurement of [`peak`] anew.
pub fn reset_peak() {
    let mut state = lock(&CACHE.state);
    state.peak = state.live;
}

/// Sets how many worker threads there may be, at least 1.
pub fn set_cap(cap: usize) {
    CACHE.set_cap(cap);
}

/// The number of cores that this process may use, at least 1: the affinity mask and the quotas of its control
/// groups (versions 1 and 2) are respected; a fraction of a core is dropped.
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static REFUSES: AtomicBool = AtomicBool::new(false);

/// From now on no thread can be started, or they can again: for tests.
#[doc(hidden)]
pub fn refuse_threads(on: bool) {
    REFUSES.store(on, Ordering::SeqCst);
}

fn start_thread(number: usize, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    if REFUSES.load(Ordering::Relaxed) {
        return Err(crate::sys::too_many_threads());
    }
    let name = format!("perilune-worker-{number}");
    // A new thread that lacks memory for what the C library needs in it ends the process. The first one is
    // worth the risk: nothing runs without it.
    if live() == 1 {
        return std::thread::Builder::new().name(name).stack_size(STACK).spawn(body).map(drop);
    }
    perilune_heap::space::spawn(name, STACK, body)
}

/// A closure as a job.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Once<F> {
    fn job(f: F) -> Arc<dyn Job> {
        Arc::new(Once(Mutex::new(Some(f))))
    }
}

impl<F: FnOnce() + Send> Job for Once<F> {
    fn run(self: Arc<Self>) {
        let f = lock(&self.0).take();
        drop(self);
        if let Some(f) = f {
            f();
        }
    }
}

impl Cache {
    const fn new(start: Start, keep: Duration) -> Cache {
        let state = State {
            idle: Vec::new(),
            queue: VecDeque::new(),
            live: 0,
            peak: 0,
            started: 0,
            cap: DEFAULT_CAP,
            gave_up: None,
        };
        Cache { state: Mutex::new(state), start, keep }
    }

    fn run(&'static self, job: Arc<dyn Job>) {
        let mut state = lock(&self.state);
        if let Some(seat) = state.take_idle() {
            drop(state);
            return seat.give(job);
        }
        if state.live >= state.cap {
            return state.queue.push_back(job);
        }
        let number = state.count_one();
        drop(state);
        self.start(number, job);
    }

    /// Starts a thread that has been counted, for `job`.
    fn start(&'static self, number: usize, mut job: Arc<dyn Job>) {
        let mut pause = Duration::from_millis(1);
        let begun = Instant::now();
        loop {
            let first = job.clone();
            let Err(why) = (self.start)(number, Box::new(move || self.work(first))) else { return };
            let mut state = lock(&self.state);
            // A thread that is counted may be one that is being refused just now, like this one. They queue
            // their jobs one after another, and the last stays.
            if state.live > 1 {
                state.live -= 1;
                if let Some(seat) = state.idle.pop() {
                    drop(state);
                    return seat.give(job);
                }
                state.queue.push_back(job);
                drop(state);
                timer::after(Instant::now() + RETRY, move || self.retry());
                return;
            }
            let known = state.gave_up.is_some_and(|at| at.elapsed() < REMEMBER);
            drop(state);
            if (known || begun.elapsed() >= PATIENCE) && job.clone().refused(&why) {
                let mut state = lock(&self.state);
                state.gave_up = Some(Instant::now());
                // Nobody else is left to look into the queue.
                match state.queue.pop_front() {
                    Some(next) => job = next,
                    None => {
                        state.live -= 1;
                        return;
                    }
                }
                continue;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// A thread was refused a while ago: perhaps there is room now. All threads may be blocked, waiting for
    /// just that job.
    fn retry(&'static self) {
        let mut state = lock(&self.state);
        if state.live < state.cap
            && let Some(job) = state.queue.pop_front()
        {
            let number = state.count_one();
            drop(state);
            self.start(number, job);
        }
    }

    /// The life of a worker thread.
    fn work(&'static self, first: Arc<dyn Job>) {
        let (mut next, spin) = (Some(first), Spin::default());
        emit(WorkerBegin { thread: Tid(thread_id()) });
        while let Some(job) = next {
            // What a panicking job leaves behind is its own: the cache holds nothing of it.
            let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
            next = self.next_job(&spin);
        }
        emit(WorkerEnd { thread: Tid(thread_id()) });
    }

    /// The next job of a thread that has none; none when the thread is to end, and then it is not counted any
    /// more.
    fn next_job(&'static self, spin: &Spin) -> Option<Arc<dyn Job>> {
        let mut state = lock(&self.state);
        if let Some(job) = state.queue.pop_front() {
            if !state.queue.is_empty() && state.live < state.cap {
                // There is more, and the kernel may have changed its mind.
                let number = state.count_one();
                let other = state.queue.pop_front();
                drop(state);
                if let Some(other) = other {
                    self.start(number, other);
                }
            }
            return Some(job);
        }
        if state.live > state.cap {
            state.live -= 1;
            return None;
        }
        let seat = Arc::new(Seat::default());
        state.idle.push(seat.clone());
        drop(state);
        spin.until(|| seat.news.load(Ordering::Acquire));
        if let Some(job) = seat.wait(self.keep) {
            spin.brought_by(seat.giver.load(Ordering::Relaxed));
            return Some(job);
        }
        let mut state = lock(&self.state);
        match state.idle.iter().position(|s| Arc::ptr_eq(s, &seat)) {
            Some(at) => {
                state.idle.remove(at);
                state.live -= 1;
                let last = state.live == 0;
                drop(state);
                perilune_heap::release_warm_chunks(if last { Duration::ZERO } else { self.keep / 2 });
                if last {
                    // Domains that have ended leave holes in the allocator's arenas: their pages go back when
                    // all is quiet.
                    perilune_heap::give_back_pieces();
                    crate::sys::trim_allocator();
                }
                None
            }
            // Taken off the list at the last moment: a job is on its way.
            None => {
                drop(state);
                seat.wait(Duration::MAX)
            }
        }
    }

    fn set_cap(&'static self, cap: usize) {
        let mut state = lock(&self.state);
        state.cap = cap.max(1);
        while state.live < state.cap
            && let Some(job) = state.queue.pop_front()
        {
            let number = state.count_one();
            drop(state);
            self.start(number, job);
            state = lock(&self.state);
        }
    }
}

impl State {
    /// An idle thread: the running one if it is idle, else the one that became so last.
    fn take_idle(&mut self) -> Option<Arc<Seat>> {
        let mine = IDLING.get();
        if !mine.is_null()
            && let Some(at) = self.idle.iter().position(|seat| std::ptr::eq(Arc::as_ptr(seat), mine))
        {
            return Some(self.idle.remove(at));
        }
        self.idle.pop()
    }

    fn count_one(&mut self) -> usize {
        self.live += 1;
        self.started += 1;
        self.peak = self.peak.max(self.live);
        self.started
    }
}

impl Seat {
    fn give(&self, job: Arc<dyn Job>) {
        let mut given = lock(&self.given);
        given.job = Some(job);
        self.giver.store(core(), Ordering::Relaxed);
        self.news.store(true, Ordering::Release);
        // A thread that does not sleep yet looks before it does.
        if given.sleeping {
            drop(given);
            self.arrived.notify_one();
        } else if given.idling && !std::ptr::eq(IDLING.get(), self) {
            drop(given);
            if let Some(idler) = IDLER.get() {
                idler.call();
            }
        }
    }

    fn wait(&self, at_most: Duration) -> Option<Arc<dyn Job>> {
        let until = Instant::now().checked_add(at_most);
        let mut given = lock(&self.given);
        loop {
            if let Some(job) = given.job.take() {
                return Some(job);
            }
            if let Some(idler) = IDLER.get() {
                drop(given);
                let taken = idler.take();
                given = lock(&self.given);
                if taken {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    let over = left.is_some_and(|left| left.is_zero());
                    if !over && given.job.is_none() {
                        given.idling = true;
                        drop(given);
                        IDLING.set(self);
                        idler.idle(left);
                        IDLING.set(std::ptr::null());
                        given = lock(&self.given);
                        given.idling = false;
                    }
                    drop(given);
                    idler.give_back();
                    given = lock(&self.given);
                    if over && given.job.is_none() {
                        return None;
                    }
                    continue;
                }
                if given.job.is_some() {
                    continue;
                }
            }
            given.sleeping = true;
            given = match until {
                None => self.arrived.wait(given).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.arrived.wait_timeout(given, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            given.sleeping = false;
        }
    }
}

#[cfg(test)]
mod tests;
