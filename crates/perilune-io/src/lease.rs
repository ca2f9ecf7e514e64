//! Who waits for descriptors: the poller's own thread, or, while there is much to be told
//! (`poller/traffic.rs`; always, if the program is run with `PERILUNE_IO_POLL=lease`), a worker thread that
//! has nothing else to do.
//!
//! A thread that hands an event over to another one pays two switches. A worker that waits for events itself
//! runs the fiber that an event has made ready, and goes back to waiting: no switch at all. So a worker that
//! becomes idle takes the *lease* and sleeps in the kernel's set instead of on its seat (`sched/threads.rs`).
//! While it runs what it has found, nobody waits for events; if that takes long, the poller's thread does.
//!
//! # The word
//! All that the lease is lies in one word, and every change of it is one step:
//!
//! * *who holds it*: nobody (`FREE`), a worker (`WORKER`), a worker to whom the bell has been rung
//!   (`CALLED`), or the poller's thread (`THREAD`);
//! * *who is to be woken*: the thread sleeps until the worker gives the lease back (`WATCHED`). Only beside a
//!   worker;
//! * *how often it has changed hands*, in the other bits: who looks twice and finds the same number knows
//!   that nobody has had it in between.
//!
//! A worker takes it from anybody but another worker; the thread takes it when it has been free and untouched
//! for a tick. A worker that knows that none will want it gives it to the thread and wakes that, as nobody
//! else would look before the tick is over.
//!
//! # The bell
//! A worker in the kernel's set may be given a job by another thread, which then *calls* it. The bell is an
//! event descriptor in the set. Its rule:
//!
//! > The bell sounds only while the word says `CALLED`, and only the worker that holds the lease silences it, before it gives the lease back.
//!
//! Who calls changes `WORKER` to `CALLED`, and rings if that was its own change. The worker gives the lease
//! back by one change from `WORKER` to `FREE` (or `THREAD`). If it finds `CALLED` instead, the bell has been
//! rung once or is about to be: it reads the descriptor, which waits for that, and then changes `CALLED` to
//! that. Nobody rings meanwhile, since the word says that somebody has. So ringing and silencing come in
//! pairs, one after the other, by one thread each.
//!
//! The descriptor is level-triggered. Another thread that is in the set too, and is woken by the bell, need
//! do nothing: the kernel wakes the next one for as long as the bell sounds. The thread never touches the
//! bell. If it hears it, a worker has the lease, and the thread leaves the set.
//!
//! A call when no worker has the lease is none, and says so. That is no loss: who has a job puts it on the
//! worker's seat first, and a worker that has given the lease back looks there. A call that was meant for the
//! worker before wakes the present one for nothing.
//!
//! # The thread
//! It is in one of three places:
//!
//! 1. in the kernel's set, when it has the lease. It stays there until the next event, also after a worker
//!    has taken the lease from it. Nothing depends on there being one in the set: two get an event each;
//! 2. ticking, while the lease goes round: it looks once in a tick whether anybody has touched it since. A
//!    tick that found nothing is followed by one that is twice as long, up to [`LONGEST`]: the more regularly
//!    workers come back, the less they are looked after;
//! 3. asleep, when a worker has had the lease for a whole tick: then the worker sleeps in the kernel. It sets
//!    `WATCHED`, and the worker that gives the lease back wakes it.
//!
//! So an event waits two ticks at most for workers that compute, and an idle program makes no wakeups: in the
//! end the worker retires, the thread takes the lease, and sleeps in the kernel.
//!
//! # Where a deadline is told
//! Not here. Deadlines of programs are the timer thread's (`sched/timer.rs`): its alarm wakes a fiber, whose
//! domain is given to a seat, and if that is the holder's, it is called. The only time that the holder sleeps
//! with is the one after which it retires, and nobody moves that. So no deadline has to reach a thread that
//! sleeps in the kernel.
//!
//! # Rejected
//! * *A bell that any holder empties* (what was here before). The thread, woken by a bell that was left over,
//!   finds that it has the lease and empties the bell; between the two steps a worker takes the lease and is
//!   called, and the call is read away. The worker sleeps with a job on its seat until it would retire: two
//!   seconds.
//! * *An edge-triggered bell.* The edge goes to one of those in the set, perhaps to the thread, which would
//!   have to pass it on, and to whom is a second word.
//! * *A bell for each worker.* No confusion, but a descriptor for each thread, and two system calls for each
//!   time a worker takes the lease.
//! * *To call the thread out of the set when a worker takes the lease.* Two switches, at just the moment at
//!   which there is nothing to do. It finds out with the next event.
//! * *The timer thread in the kernel's set, with the next deadline as its time.* A new earliest deadline, of
//!   each operation with a limit, would ring the bell.
//! * *A tick of fixed length.* A thousand wakeups a second while the lease goes round, however slowly: half
//!   of one for each message at 2,000 messages a second.
//!
//! `tests/model` checks all of this with loom: this file is compiled there a second time.

use super::sync::{AtomicU32, Mutex, Ordering, Thread, current, lock, park, park_for};
use std::time::Duration;

/// How long the lease may be free and untouched, at first.
const TICK: Duration = Duration::from_millis(1);
/// And at most, while it goes round.
const LONGEST: Duration = Duration::from_millis(8);

const HOLDER: u32 = 3;
const FREE: u32 = 0;
const WORKER: u32 = 1;
const CALLED: u32 = 2;
const THREAD: u32 = 3;
const WATCHED: u32 = 4;
/// Counts the changes of hands, in the bits above.
const CHANGE: u32 = 8;

/// What wakes a thread in the kernel's set.
pub trait Bell {
    /// Makes it sound. Once, until it is silenced.
    fn ring(&self);
    /// Waits until it has been rung, and ends that.
    fn silence(&self);
}

/// To whom a worker gives the lease back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// Whoever takes it first.
    Anybody,
    /// The thread.
    Thread,
}

/// See the module's essay.
pub struct Lease<B> {
    word: AtomicU32,
    bell: B,
    /// Whom `WATCHED` means.
    thread: Mutex<Option<Thread>>,
}

fn holder(word: u32) -> u32 {
    word & HOLDER
}

/// The word after a change of hands: nobody is watched any more.
fn passed_to(word: u32, holder: u32) -> u32 {
    (word & !(HOLDER | WATCHED) | holder).wrapping_add(CHANGE)
}

impl<B: Bell> Lease<B> {
    /// The thread has it.
    pub fn new(bell: B) -> Lease<B> {
        Lease { word: AtomicU32::new(THREAD), bell, thread: Mutex::new(None) }
    }

    /// The calling thread is the poller's.
    pub fn set_thread(&self) {
        *lock(&self.thread) = Some(current());
    }

    /// Changes the word by `new`, if that says to what. The word that was there.
    fn change(&self, new: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, new)
    }

    /// A worker takes it. False: another one has it.
    pub fn take(&self) -> bool {
        self.change(|word| match holder(word) {
            FREE | THREAD => Some(passed_to(word, WORKER)),
            _ => None,
        })
        .is_ok()
    }

    /// The worker that holds it is to come out of the kernel's set, or not to go there. From any thread.
    pub fn call(&self) {
        let called = self.change(|word| (holder(word) == WORKER).then_some(word & !HOLDER | CALLED));
        if called.is_ok() {
            self.bell.ring();
        }
    }

    /// The worker gives it back.
    pub fn give_back(&self, to: To) {
        let next = if to == To::Thread { THREAD } else { FREE };
        let back = |from| self.change(|word| (holder(word) == from).then(|| passed_to(word, next)));
        let word = match back(WORKER) {
            Err(word) if holder(word) == CALLED => {
                self.bell.silence();
                back(CALLED)
            }
            given => given,
        };
        let word = word.unwrap_or_else(|word| unreachable!("not the holder's ({word:#x})"));
        if (word & WATCHED != 0 || to == To::Thread)
            && let Some(thread) = &*lock(&self.thread)
        {
            thread.unpark();
        }
    }

    /// Whether the thread has it still.
    pub fn is_threads(&self) -> bool {
        holder(self.word.load(Ordering::Acquire)) == THREAD
    }

    /// The thread comes back when it has the lease.
    pub fn wait(&self) {
        let mut tick = TICK;
        while !self.is_threads() {
            let seen = self.word.load(Ordering::Acquire);
            park_for(tick);
            let now = self.word.load(Ordering::Acquire);
            if now & !HOLDER != seen & !HOLDER {
                tick = (tick * 2).min(LONGEST);
                continue;
            }
            match holder(now) {
                THREAD => return,
                FREE => {
                    let _ = self.change(|word| (word == now).then(|| passed_to(word, THREAD)));
                }
                _ => self.watch(now),
            }
        }
    }

    /// The thread sleeps until the worker that has the lease gives it back.
    fn watch(&self, seen: u32) {
        let still = |word: u32| word & !HOLDER == seen & !HOLDER && matches!(holder(word), WORKER | CALLED);
        if self.change(|word| still(word).then_some(word | WATCHED)).is_err() {
            return;
        }
        while self.word.load(Ordering::Acquire) & WATCHED != 0 {
            park();
        }
    }
}
