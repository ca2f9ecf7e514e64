//! The specialiser that programs run with: one thread beside theirs, which says when time has passed, and
//! compiles.
//!
//! # Ticks
//! The thread sets a bit in the interrupt word of each domain, now and then; the domain acts on it where it
//! polls, and clears it (`perilune_vm::machine`). A domain that sleeps does not clear it. When no domain has
//! cleared its bit, nothing runs: the thread waits, until one does ([`Specializer::ticked`]). So a program
//! that does nothing is never woken, and no signal is sent to anybody, but one for the first tick.
//!
//! The first tick needs no thread (`alarm.rs`): the thread begins when it is seen, or with a second domain. A
//! program that ends within [`FIRST`] has none.
//!
//! A tick costs some twenty microseconds, as waking a thread does, and all that follows from it has to be
//! worth something in the time that is left. So ticks begin after [`FIRST`], and get rarer as the program's
//! processor time grows: one comes after one part in [`PERIODS`] of it, at least [`SHORTEST`], at most
//! [`LONGEST`].
//!
//! Waking the thread costs more than the tick: some fifty microseconds on a virtual machine, a percent of a
//! processor with a tick each [`LONGEST`]. So while no domain waits for a tick ([`Specializer::awaited`]: what
//! runs is machine code, or has been recorded for nothing and is not looked at for a while) they come more
//! rarely ([`Calm`]), and each stands for as many as have been left out.
//!
//! Where machine code comes back to the interpreter a tick comes [`SOON`], though it be calm
//! (`perilune_vm::machine`, `ticks.rs`).
//!
//! The thread sleeps by the clock, but where others run too, or the program waits for most of the time,
//! little of its processor time goes by meanwhile, and each tick would cost it several times as much of that.
//! So where too little goes by a tick is put off, once, for as long as the rest is expected to take
//! ([`Rate`]). How much goes by is known of some time together only: the system adds what a thread takes that
//! is running to the process's time when its timer ticks, each 1 to 10 ms. (Asked of a single period, one run
//! in eight of a short program had its first code 10 to 40 ms later than the others.)
//!
//! # Compiling
//! Recordings go to the thread, in the order in which they were made; while it compiles there are no ticks.
//! What it spends is limited (`budget.rs`), and nothing that compiling needs is made before something is
//! compiled. Machine code is for all domains: each gets it in its mailbox, and a bit in its interrupt word. A
//! domain that has no instance of the function by then finds the code when it makes one
//! ([`Specializer::code_of`]).
//!
//! Recordings wait in a queue of [`QUEUE`]; what does not fit is dropped: the function gets hot again.
//!
//! # After `fork`
//! A child has no such thread. Nothing that runs Lua forks without `exec`; a host that does has to leave this
//! specialiser out, because its locks may be held by a thread that the child lacks.
//!
//! Rejected: signals (they interrupt system calls of C code), counting in loops and calls (programs of which
//! nothing was compiled ran 5 to 12% slower with `blocking`, its recordings included), ticks each millisecond
//! from a thread of their own (programs ran 2 to 3% slower by them alone).

use crate::Setup;
use crate::alarm::Alarm;
use crate::budget::Budget;
use crate::compiler::Compiler;
use perilune_syntax::Proto;
use perilune_vm::interrupt::{INSTALL, InterruptHandle, TICK};
use perilune_vm::machine::{Log, MachineCode, Recording, Specializer, Unexpected};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the compiling thread's stack.
const STACK: usize = 2 << 20;
/// Processor time from the program's beginning to its first tick.
const FIRST: Duration = Duration::from_micros(2500);
/// From new machine code, or its return to the interpreter, to the next tick: what the program does now, or soon,
/// has none yet, often as not.
const SOON: Duration = Duration::from_millis(1);
/// The least time from one tick to the next.
const SHORTEST: Duration = Duration::from_micros(1500);
/// The most.
const LONGEST: Duration = Duration::from_millis(5);
/// In between: this part of what the program has taken.
const PERIODS: u32 = 8;
/// While nobody waits for a tick, they come more rarely: after so many half as often,
const CALM: u32 = 3;
/// and at most doubled so often.
const MOST_CALM: u32 = 2;
/// A tick is put off by at most so many periods.
const MOST_PUT_OFF: u32 = 8;
/// How much of the processor the program has is asked of so much time by the clock.
const TOGETHER: Duration = Duration::from_millis(25);
/// As many recordings wait to be compiled.
const QUEUE: usize = 4;
/// After so many ticks in a row that nobody saw the thread waits.
const UNSEEN: u32 = 1;

/// A domain, as far as it is known here.
struct Domain {
    handle: InterruptHandle,
    /// What it has not fetched yet.
    codes: Vec<Arc<MachineCode>>,
}

/// What the compiling thread does next.
enum Next {
    Compile(Recording),
    Tick {
        /// Sooner than it would be due.
        hurried: bool,
    },
}

/// What the threads of domains tell the compiling thread.
#[derive(Default)]
struct Mail {
    recordings: VecDeque<Recording>,
    /// A domain is to have its next tick soon ([`Specializer::resumed`]).
    hurries: bool,
    /// Nobody wants machine code any more.
    over: bool,
}

/// What domains and the thread have in common.
struct Shared {
    compiler: Compiler,
    /// Taken alone, or before `mail`.
    domains: Mutex<Vec<Domain>>,
    mail: Mutex<Mail>,
    /// There is mail, or a tick has been seen after all.
    news: Condvar,
    /// How many ticks have been seen by domains.
    seen: AtomicU64,
    /// The next one is waited for ([`Specializer::awaited`]).
    awaited: AtomicBool,
    /// As many ticks as the last one stands for.
    each: AtomicU32,
    /// There are no ticks, until one is seen.
    stopped: AtomicBool,
    /// What runs is to be recorded.
    due: AtomicBool,
    /// All has been spent that compiling may cost for now: recordings would be in vain.
    spent: AtomicBool,
}

/// Compiles on a thread of its own.
pub struct Background {
    shared: Arc<Shared>,
    /// It has begun.
    thread: OnceLock<()>,
    /// Until then: the first tick.
    alarm: Mutex<Option<Alarm>>,
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").field("stopped", &self.shared.stopped).finish_non_exhaustive()
    }
}

impl Background {
    /// Of what is hot, `quota` instructions are recorded.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(quota: u32, setup: Setup) -> Result<Arc<Background>, String> {
        let shared = Shared {
            compiler: Compiler::new(quota, setup)?,
            domains: Mutex::default(),
            mail: Mutex::default(),
            news: Condvar::new(),
            seen: AtomicU64::new(0),
            awaited: AtomicBool::new(false),
            each: AtomicU32::new(1),
            stopped: AtomicBool::new(false),
            due: AtomicBool::new(false),
            spent: AtomicBool::new(false),
        };
        Ok(Arc::new(Background {
            shared: Arc::new(shared),
            thread: OnceLock::new(),
            alarm: Mutex::default(),
        }))
    }
}

impl Background {
    /// Ticks, and compiling, begin.
    fn begin(&self) {
        self.thread.get_or_init(|| {
            drop(self.alarm.lock().unwrap_or_else(PoisonError::into_inner).take());
            let shared = Arc::clone(&self.shared);
            // Without a thread recordings go nowhere, and everything is interpreted.
            let _ = perilune_heap::space::spawn("compiler".into(), STACK, move || shared.work());
        });
    }

    /// A domain has seen a tick, or begins.
    fn see(&self) {
        self.begin();
        self.shared.seen.fetch_add(1, Ordering::SeqCst);
        if self.shared.stopped.load(Ordering::SeqCst) {
            // Under the lock: the thread is either before its look at the count, or waiting.
            let _mail = self.shared.mail();
            self.shared.news.notify_one();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.mail().over = true;
        self.shared.news.notify_all();
    }
}

impl Shared {
    fn domains(&self) -> MutexGuard<'_, Vec<Domain>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All domains may run this code from now on.
    fn publish(&self, codes: &[Arc<MachineCode>]) {
        for domain in self.domains().iter_mut() {
            domain.codes.extend(codes.iter().cloned());
            domain.handle.raise_cause(INSTALL);
        }
    }

    /// Waits for a recording, for so long, or while there are no ticks for as long as it takes. `Err`: there
    /// will be none.
    fn next(&self, period: Duration, seen: u64) -> Result<Next, ()> {
        let (mut hurried, mut until) = (false, None);
        let mut mail = self.mail();
        loop {
            if mail.over {
                return Err(());
            }
            if let Some(recording) = mail.recordings.pop_front() {
                return Ok(Next::Compile(recording));
            }
            // Whoever sees a tick from here on rings; one that was seen before shows in the count.
            if self.stopped.load(Ordering::SeqCst) && self.seen.load(Ordering::SeqCst) == seen {
                mail = self.news.wait(mail).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if self.stopped.swap(false, Ordering::SeqCst) {
                // It has only just begun to run again.
                return Ok(Next::Tick { hurried });
            }
            let now = Instant::now();
            let mut end = *until.get_or_insert(now + period);
            if std::mem::take(&mut mail.hurries) && now + SOON < end {
                hurried = true;
                end = now + SOON;
                until = Some(end);
            }
            if now >= end {
                return Ok(Next::Tick { hurried });
            }
            mail = self.news.wait_timeout(mail, end - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sets the bit of each domain; those that are gone are forgotten.
    fn tick(&self) {
        let mut domains = self.domains();
        domains.retain(|domain| !domain.handle.is_alone());
        domains.iter().for_each(|domain| domain.handle.raise_cause(TICK));
    }

    /// The thread.
    fn work(&self) {
        let mut budget = Budget::new();
        let (mut before, mut unseen) = (0, 0);
        let begun = Duration::from_nanos(budget.program());
        let mut period = FIRST.saturating_sub(begun).max(SHORTEST);
        let mut rate = Rate::new(Instant::now(), budget.program());
        // The next tick has been put off.
        let mut late = false;
        let mut stopped = false;
        let mut calm = Calm::default();
        loop {
            match self.next(period, before) {
                Err(()) => return,
                Ok(Next::Compile(recording)) => {
                    // All at once: code whose callers, or coroutines, are interpreted for a millisecond more
                    // is entered for next to nothing meanwhile, and given up.
                    let retirements = self.compiler.retirements();
                    let codes = self.compiler.compile(recording, Some(&mut budget));
                    let codes: Vec<_> = codes.into_iter().map(|(_, code)| code).collect();
                    budget.program();
                    self.spent.store(budget.is_spent(), Ordering::Relaxed);
                    if !codes.is_empty() || retirements != self.compiler.retirements() {
                        self.publish(&codes);
                    }
                    if !codes.is_empty() {
                        (period, calm) = (SOON, Calm::default());
                    }
                }
                Ok(Next::Tick { hurried }) => {
                    let (now, program) = (Instant::now(), budget.program());
                    let regular = regular(program);
                    let seen = self.seen.load(Ordering::SeqCst);
                    if std::mem::take(&mut stopped) {
                        // The last tick has only just been seen.
                        (before, period, rate) = (seen, regular, Rate::new(now, program));
                        calm = Calm::default();
                        continue;
                    }
                    rate.learn(now, program);
                    if let Some(more) = rate.puts_off(period.max(regular)).filter(|_| !late && !hurried) {
                        (period, late) = (more, true);
                        continue;
                    }
                    late = false;
                    unseen = if seen == before { unseen + 1 } else { 0 };
                    before = seen;
                    self.spent.store(budget.is_spent(), Ordering::Relaxed);
                    if budget.is_due() {
                        self.due.store(true, Ordering::Relaxed);
                    }
                    let awaited = self.awaited.swap(false, Ordering::Relaxed);
                    self.each.store(if hurried { 1 } else { calm.each() }, Ordering::Relaxed);
                    if awaited || !hurried {
                        calm.goes_on(awaited);
                    }
                    self.tick();
                    if unseen >= UNSEEN {
                        (unseen, stopped) = (0, true);
                        self.stopped.store(true, Ordering::SeqCst);
                    }
                    period = regular * calm.each();
                }
            }
        }
    }
}

/// For how many ticks in a row nobody has waited.
#[derive(Default)]
struct Calm(u32);

impl Calm {
    /// As many regular ticks as the next one stands for.
    fn each(&self) -> u32 {
        1 << (self.0 / CALM).min(MOST_CALM)
    }

    /// There is one more, since somebody waits for it or not.
    fn goes_on(&mut self, awaited: bool) {
        self.0 = if awaited { 0 } else { self.0.saturating_add(1) };
    }
}

/// From one tick to the next, of a program that has taken so many nanoseconds.
fn regular(program: u64) -> Duration {
    Duration::from_nanos(program / PERIODS as u64).clamp(SHORTEST, LONGEST)
}

/// How much of the processor the program has had lately.
struct Rate {
    /// The time by the clock, and the program's processor time in nanoseconds, from which on it is asked.
    since: (Instant, u64),
    /// Processor time for each unit of the clock; more than 1 of several threads.
    known: f64,
}

impl Rate {
    /// Of a program that has taken so many nanoseconds by `now`, and is expected to have a processor for
    /// itself.
    fn new(now: Instant, program: u64) -> Rate {
        Rate { since: (now, program), known: 1.0 }
    }

    /// What it has taken by `now`.
    fn learn(&mut self, now: Instant, program: u64) {
        let passed = now.saturating_duration_since(self.since.0);
        if passed >= TOGETHER {
            let taken = Duration::from_nanos(program.saturating_sub(self.since.1));
            self.known = taken.as_secs_f64() / passed.as_secs_f64();
            self.since = (now, program);
        }
    }

    /// For how long a tick is put off that is due after `period`: half of that is to be the program's
    /// processor time.
    fn puts_off(&self, period: Duration) -> Option<Duration> {
        let more = 0.5 / self.known - 1.0;
        (more > 0.0).then(|| period.mul_f64(more.min(MOST_PUT_OFF as f64)))
    }
}

impl Specializer for Background {
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        self.shared.compiler.code_of(proto)
    }

    fn quota(&self) -> u32 {
        self.shared.compiler.quota()
    }

    fn attach(&self, handle: InterruptHandle) {
        let first = {
            let mut domains = self.shared.domains();
            domains.push(Domain { handle: handle.clone(), codes: Vec::new() });
            domains.len() == 1
        };
        if first && self.thread.get().is_none() {
            let alarm = Alarm::set(handle, FIRST);
            if alarm.is_some() {
                *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = alarm;
                return;
            }
        }
        // It has no tick yet that it could see.
        self.see();
    }

    fn ticked(&self) -> u32 {
        self.see();
        self.shared.each.load(Ordering::Relaxed)
    }

    fn awaited(&self) {
        self.shared.awaited.store(true, Ordering::Relaxed);
    }

    fn resumed(&self) {
        self.shared.mail().hurries = true;
        self.shared.news.notify_one();
    }

    fn may_compile(&self) -> bool {
        !self.shared.spent.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        self.shared.due.swap(false, Ordering::Relaxed)
    }

    fn fetch(&self, handle: &InterruptHandle) -> Vec<Arc<MachineCode>> {
        let mut domains = self.shared.domains();
        let domain = domains.iter_mut().find(|domain| domain.handle.is_same(handle));
        domain.map_or_else(Vec::new, |domain| std::mem::take(&mut domain.codes))
    }

    fn retirements(&self) -> u32 {
        self.shared.compiler.retirements()
    }

    fn locate(&self, address: usize) -> Vec<(Arc<Proto>, usize)> {
        self.shared.compiler.locate(address)
    }

    fn wants_exits(&self) -> bool {
        self.shared.compiler.decisions().are_kept()
    }

    fn exited(&self, exit: &Unexpected) {
        self.shared.compiler.decisions().unexpected(exit);
    }

    fn exited_again(&self, proto: &Arc<Proto>, at: usize) {
        self.shared.compiler.decisions().unexpected_again(proto, at);
    }

    fn learn(&self, logs: Vec<Log>) {
        self.shared.compiler.learn(logs);
    }

    fn compile(&self, recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        let mut mail = self.shared.mail();
        if mail.recordings.len() < QUEUE {
            mail.recordings.push_back(recording);
            self.shared.news.notify_one();
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(4);

    /// The rate of a program that takes this part of a processor.
    fn rate(part: f64) -> Rate {
        let begun = Instant::now();
        let mut rate = Rate::new(begun, 7);
        let taken = |n: u32| 7 + (PERIOD * n).mul_f64(part).as_nanos() as u64;
        (1..=20).for_each(|n| rate.learn(begun + PERIOD * n, taken(n)));
        rate
    }

    #[test]
    fn where_machine_code_comes_back_a_tick_comes_soon() {
        let background = Background::new(1000, Setup::default()).expect("machine code");
        let long = Duration::from_secs(600);
        background.resumed();
        assert!(matches!(background.shared.next(long, 0), Ok(Next::Tick { hurried: true })));
        // Later than a tick that is due anyway.
        background.resumed();
        let due = SOON / 1000;
        assert!(matches!(background.shared.next(due, 0), Ok(Next::Tick { hurried: false })));
        // While somebody waits.
        std::thread::scope(|scope| {
            let next = scope.spawn(|| background.shared.next(long, 0));
            while !next.is_finished() {
                background.resumed();
                std::thread::sleep(SOON);
            }
            assert!(matches!(next.join(), Ok(Ok(Next::Tick { hurried: true }))));
        });
    }

    #[test]
    fn ticks_come_at_their_time_if_the_program_has_a_processor() {
        assert_eq!(rate(1.0).puts_off(PERIOD), None);
        assert_eq!(rate(0.51).puts_off(PERIOD), None);
        // Several domains.
        assert_eq!(rate(3.0).puts_off(PERIOD), None);
    }

    #[test]
    fn ticks_are_put_off_where_others_run() {
        // A quarter of the time: half a period has been taken after as much time again.
        let more = rate(0.25).puts_off(PERIOD).unwrap();
        assert!(more > PERIOD * 9 / 10 && more < PERIOD * 11 / 10, "{more:?}");
        assert_eq!(rate(0.001).puts_off(PERIOD), Some(PERIOD * MOST_PUT_OFF));
        assert_eq!(rate(0.0).puts_off(PERIOD), Some(PERIOD * MOST_PUT_OFF));
    }

    #[test]
    fn ticks_that_nobody_waits_for_get_rarer() {
        let mut calm = Calm::default();
        let each: Vec<u32> = (0..10)
            .map(|_| {
                let each = calm.each();
                calm.goes_on(false);
                each
            })
            .collect();
        assert_eq!(each, [1, 1, 1, 2, 2, 2, 4, 4, 4, 4]);
        calm.goes_on(true);
        assert_eq!(calm.each(), 1);
    }

    #[test]
    fn processor_time_that_is_added_late_puts_nothing_off() {
        let begun = Instant::now();
        let mut rate = Rate::new(begun, 0);
        // All of it is the program's, but known at each eighth millisecond only.
        for n in 1..=100 {
            rate.learn(begun + PERIOD / 2 * n, n as u64 / 4 * 8_000_000);
            assert_eq!(rate.puts_off(PERIOD / 2), None, "after {n}");
        }
    }
}
