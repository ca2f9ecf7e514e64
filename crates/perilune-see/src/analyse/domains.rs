//! The time of each domain, divided up without a rest.
//!
//! [`account`] follows the events of a trace and knows at each moment in which [`State`] every domain is. All times are integers, every moment belongs to one
//! state, so the parts of a domain add up to the time of the trace exactly, whatever the events say: an event that does not fit what went before
//! (because some were lost in between) changes the state to what it implies, and is counted in [`Account::misfits`].
//!
//! # Terms
//! * A domain is *entered* from `DomainEnter` to `DomainLeave`: a thread owns it. Every event that a domain writes itself implies that.
//! * A *span* is what lies between a begin and an end within a fiber's run: phases of the collector, blocking calls. Each fiber has a stack of those that it is in, since a
//!   finaliser may block, and other fibers run meanwhile. What happens while no fiber runs has a stack, too.
//! * A domain that is left is `Ready` if something has been given to it, else `Blocked` if a fiber of it is in a blocking call, `Waiting` if it has
//!   fibers, or `Idle`.
//!
//! # For what it waits
//! A domain may have many fibers that wait for different things. Time of waiting is ascribed to the wait whose fiber runs first afterwards: that is the
//! one that would have had to be over sooner. If a new fiber runs first, to the wait that had begun last.
//!
//! # Processor time
//! `CpuTime` events say how much processor time a thread has used. Between two of them the domains that the thread owned should have run that long in all.
//! If they were entered longer, the thread had no processor for the rest: that is taken off their working states in proportion, as `Displaced` or (from the collector's states)
//! `CollectorWaiting`. The collector measures its longer steps itself (`StepEnd`); those are exact. Calls that sleep in the kernel are
//! not counted as entered time here, though they use some processor time: so what is called displaced is rather too little than too much.
//! Where it happened within the interval is not known, so [`Interval`]s show the states as if nobody had been displaced.
//!
//! *Rejected.* Sums of durations of span events, as tools that know only spans do: nested ones count twice, and one that is lost leaves a
//! hole or an overlap that nobody notices.

use crate::analyse::state::{State, Times};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, Field, Kind, ObjectRef, Verb};
use std::collections::{BTreeMap, HashMap};

/// Nanoseconds by which two clocks may differ before somebody counts as displaced.
const SLACK: u64 = 5_000;
/// `c` of `DomainBegin`: the domain had begun before the session.
const THERE: u16 = 1;
/// `c` of `DomainLeave`: somebody else takes over at once.
const HANDED_OVER: u16 = 1;
/// `c` of `FiberPark`: in a blocking call.
const DETACHED: u16 = 4;

/// What a domain waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Why {
    /// A fiber's wait: what it does, and the object.
    Wait(Verb, ObjectRef),
    /// A blocking call: number of its name.
    Call(u64),
    /// Not known.
    Unknown,
}

/// A domain is in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The domain's number.
    pub domain: u32,
    /// Nanoseconds since the trace began.
    pub from: u64,
    /// When it ended.
    pub to: u64,
    /// The state.
    pub state: State,
    /// The fiber that ran, or whose wait this was.
    pub fiber: Option<FiberRef>,
    /// Of `Blocked` and `Waiting`.
    pub why: Option<Why>,
}

/// Where a domain's time went.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The domain's number.
    pub domain: u32,
    /// Its name, empty if it is not known.
    pub name: String,
    /// Nanoseconds in each state. Their sum is the length of the trace.
    pub times: Times,
    /// Nanoseconds of `Waiting` and `Blocked` by what for; adds up to the two.
    pub whys: BTreeMap<Why, u64>,
    /// Nanoseconds of running that clocks of processor time have confirmed.
    pub measured: u64,
    /// Nanoseconds of waiting for other processors in operations on shared objects. Part of `Lua`.
    pub contended: u64,
    /// When it began, if that was seen.
    pub begun: Option<u64>,
    /// When it ended, if that was seen.
    pub ended: Option<u64>,
    /// Events that did not fit what had gone before.
    pub misfits: u64,
}

/// The accounts of all domains of a trace.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// By number.
    pub domains: Vec<Account>,
    /// Length of the trace in nanoseconds.
    pub elapsed: u64,
    /// Events that were lost.
    pub lost: u64,
}

impl Accounts {
    /// The account of a domain.
    pub fn domain(&self, number: u32) -> Option<&Account> {
        self.domains.binary_search_by_key(&number, |a| a.domain).ok().map(|at| &self.domains[at])
    }

    /// All domains together: adds up to the length of the trace times the number of domains.
    pub fn total(&self) -> Times {
        let mut sum = Times::default();
        self.domains.iter().for_each(|a| sum += &a.times);
        sum
    }
}

/// Divides up the time of each domain.
pub fn account(trace: &Trace) -> Accounts {
    account_with(trace, &mut |_| {})
}

/// As [`account`]; `f` gets every interval. Those of a domain come in order of time but for `Waiting`, which comes when it is known what for: no later than the
/// next time that a fiber of the domain runs.
pub fn account_with(trace: &Trace, f: &mut dyn FnMut(Interval)) -> Accounts {
    let mut book = Book { domains: BTreeMap::new(), threads: HashMap::new(), f };
    book.prepare(trace);
    for e in &trace.events {
        book.event(e, trace);
    }
    let domains = book.close(trace.end_ns);
    Accounts { domains, elapsed: trace.end_ns, lost: trace.lost }
}

/// A fiber that exists.
#[derive(Default)]
struct Fiber {
    spans: Vec<(State, u64)>,
    /// It is in a blocking call, outside of the domain.
    detached: bool,
    wait: Option<Why>,
    /// Calls that it is in, innermost last.
    calls: Vec<u64>,
}

#[derive(Default)]
struct Domain {
    account: Account,
    /// Which thread owns it; or owned it last. 0: not known.
    thread: u64,
    since: u64,
    known: bool,
    exists: bool,
    entered: bool,
    /// It was found entered, so some fiber may run of which nothing is known.
    found: bool,
    ready: bool,
    running: Option<FiberRef>,
    /// Spans that the running fiber is in, or those that are in none.
    spans: Vec<(State, u64)>,
    /// Those outside of fibers, while one runs.
    outer: Vec<(State, u64)>,
    fibers: HashMap<FiberRef, Fiber>,
    detached: usize,
    /// The step of the collector in progress.
    step: Option<Times>,
    last_wait: Option<(FiberRef, Why)>,
    /// Waiting that nobody has been named for.
    unresolved: Vec<(u64, u64)>,
}

/// What a thread has worked since its processor time was read.
#[derive(Default)]
struct Thread {
    cpu: Option<u64>,
    /// By domain: time that may turn out to be displaced.
    open: Vec<(u32, Times)>,
    /// Time that is known to have been on a processor.
    firm: u64,
}

struct Book<'a> {
    domains: BTreeMap<u32, Domain>,
    threads: HashMap<u64, Thread>,
    f: &'a mut dyn FnMut(Interval),
}

impl Book<'_> {
    /// Looks ahead: which domains and fibers there were before the first event that says so.
    fn prepare(&mut self, trace: &Trace) {
        let mut begun: std::collections::HashSet<FiberRef> = Default::default();
        for e in &trace.events {
            let named = match e.kind {
                Kind::DomainBegin | Kind::DomainEnd | Kind::DomainReady => Some(e.a as u32),
                _ => None,
            };
            let own = match e.who {
                Who::Domain(d) => Some(d),
                Who::Thread(_) => None,
            };
            for number in named.into_iter().chain(own) {
                let d = self.domains.entry(number).or_insert_with(|| Domain {
                    account: Account { domain: number, ..Account::default() },
                    exists: true,
                    ..Domain::default()
                });
                if e.kind == Kind::DomainBegin && named == Some(number) {
                    // Domains tell of themselves what others have told already.
                    d.exists &= e.c == THERE;
                    d.account.name = trace.definitions.string(e.b);
                }
            }
            let fiber = FiberRef(e.a);
            match (e.kind, own) {
                (Kind::FiberBegin, _) => _ = begun.insert(fiber),
                (Kind::FiberRun | Kind::FiberPark, Some(number)) if !begun.contains(&fiber) => {
                    begun.insert(fiber);
                    // If the domain's beginning was seen, so would have been the fiber's; the root begins with its first run.
                    if let Some(d) = self.domains.get_mut(&number).filter(|d| d.exists) {
                        d.fibers.insert(fiber, Fiber::default());
                    }
                }
                _ => {}
            }
        }
    }

    fn event(&mut self, e: &Event, trace: &Trace) {
        match e.kind {
            Kind::DomainBegin => {
                let number = e.a as u32;
                self.advance(number, e.ns);
                if let Some(d) = self.domains.get_mut(&number) {
                    if e.c != THERE {
                        d.account.begun.get_or_insert(e.ns);
                    }
                    if e.who == Who::Domain(number) && !d.entered {
                        // It tells of itself, so somebody owns it.
                        (d.entered, d.found, d.ready) = (true, true, false);
                    }
                    (d.known, d.exists) = (true, true);
                    if d.account.name.is_empty() {
                        d.account.name = trace.definitions.string(e.b);
                    }
                }
                return;
            }
            Kind::DomainEnd => {
                let number = e.a as u32;
                self.advance(number, e.ns);
                if let Some(d) = self.domains.get_mut(&number) {
                    d.account.ended = Some(e.ns);
                    d.account.misfits += d.entered as u64;
                    (d.known, d.exists, d.entered, d.running, d.ready) = (true, false, false, None, false);
                    d.spans.clear();
                    d.step = None;
                }
                return;
            }
            Kind::DomainReady => {
                let number = e.a as u32;
                self.advance(number, e.ns);
                if let Some(d) = self.domains.get_mut(&number) {
                    if !d.known {
                        // Whoever is made ready had been left.
                        (d.known, d.exists) = (true, true);
                    }
                    d.ready |= !d.entered;
                }
                return;
            }
            _ => {}
        }
        let Who::Domain(number) = e.who else {
            if e.kind == Kind::CpuTime {
                self.cpu(e.b, e.a);
            }
            return;
        };
        match e.kind {
            Kind::DomainEnter
            | Kind::DomainLeave
            | Kind::FiberBegin
            | Kind::FiberRun
            | Kind::FiberPark
            | Kind::StepBegin
            | Kind::StepEnd
            | Kind::MinorBegin
            | Kind::MinorEnd
            | Kind::SliceBegin
            | Kind::SliceEnd
            | Kind::SweepBegin
            | Kind::SweepEnd
            | Kind::FinalizeBegin
            | Kind::FinalizeEnd
            | Kind::CloseBegin
            | Kind::CloseEnd
            | Kind::CycleBegin
            | Kind::CycleEnd
            | Kind::BlockBegin
            | Kind::BlockEnd
            | Kind::CpuTime => self.advance(number, e.ns),
            Kind::WaitBegin | Kind::WaitEnd | Kind::Contended => {}
            // Nothing else changes the state of a domain whose state is known.
            _ if self.domains.get(&number).is_some_and(|d| d.known && d.entered) => return,
            _ => self.advance(number, e.ns),
        }
        let Some(d) = self.domains.get_mut(&number) else { return };
        if e.kind != Kind::DomainEnter && !d.entered {
            // Whatever a domain writes, it writes while somebody owns it.
            d.account.misfits += d.known as u64;
            (d.entered, d.found, d.ready) = (true, true, false);
        }
        (d.known, d.exists) = (true, true);
        match e.kind {
            Kind::DomainEnter => {
                d.account.misfits += (d.entered && d.running.is_some()) as u64;
                (d.entered, d.found, d.ready) = (true, false, false);
                d.thread = e.b;
            }
            Kind::DomainLeave => {
                d.account.misfits += d.running.is_some() as u64;
                d.park(None);
                (d.entered, d.ready) = (false, e.c == HANDED_OVER);
                d.spans.clear();
                d.step = None;
            }
            Kind::FiberBegin => _ = d.fibers.entry(FiberRef(e.a)).or_default(),
            Kind::FiberRun => {
                d.account.misfits += d.running.is_some() as u64;
                d.park(None);
                d.run(FiberRef(e.a), self.f);
            }
            Kind::FiberPark => {
                let fiber = FiberRef(e.a);
                if d.running != Some(fiber) {
                    d.account.misfits += !d.found as u64;
                    d.park(None);
                    d.run(fiber, self.f);
                }
                d.park(Some(e.c));
            }
            Kind::StepBegin => {
                d.step = Some(Times::default());
                d.spans.push((State::Collector, 0));
            }
            Kind::StepEnd => {
                d.close_span(State::Collector);
                let Some(step) = d.step.take() else { return };
                let share = e.c;
                let thread = self.threads.entry(d.thread_key()).or_default();
                if share == 0 {
                    thread.add(number, &step);
                } else {
                    let away = step.sum() as u128 * 10_000u128.saturating_sub(share as u128 - 1) / 10_000;
                    let waited = step.shares(away as u64);
                    d.displace(&waited);
                    thread.firm += step.sum() - waited.sum();
                    d.account.measured += step.sum();
                }
            }
            Kind::MinorBegin => d.spans.push((State::Minor, 0)),
            Kind::MinorEnd => d.close_span(State::Minor),
            Kind::SliceBegin => d.spans.push((State::Slice, 0)),
            Kind::SliceEnd => d.close_span(State::Slice),
            Kind::SweepBegin => d.spans.push((State::Sweep, 0)),
            Kind::SweepEnd => d.close_span(State::Sweep),
            Kind::FinalizeBegin => d.spans.push((State::Finalizers, 0)),
            Kind::FinalizeEnd => d.close_span(State::Finalizers),
            Kind::CloseBegin => d.spans.push((State::Scope, 0)),
            Kind::CloseEnd => d.close_span(State::Scope),
            Kind::CycleBegin => d.spans.push((State::Collector, 0)),
            Kind::CycleEnd => d.close_span(State::Collector),
            Kind::BlockBegin => {
                // Whoever calls does not wait, even if that was not said.
                if let Some(of) = d.running.and_then(|fiber| d.fibers.get_mut(&fiber)) {
                    of.wait = None;
                }
                d.spans.push((State::Blocked, e.a));
            }
            Kind::BlockEnd => d.close_span(State::Blocked),
            Kind::WaitBegin => {
                let Some(fiber) = d.running else { return };
                let why = Why::Wait(Verb::decode(e.c as u64), ObjectRef(e.a));
                d.fibers.entry(fiber).or_default().wait = Some(why);
                d.last_wait = Some((fiber, why));
            }
            Kind::WaitEnd => {
                let fiber = FiberRef(e.b);
                if let Some(of) = d.fibers.get_mut(&fiber) {
                    of.wait = None;
                }
                if d.last_wait.is_some_and(|(of, _)| of == fiber) {
                    d.last_wait = None;
                }
            }
            Kind::Contended => d.account.contended += e.b,
            Kind::CpuTime => {
                d.thread = e.b;
                self.cpu(e.b, e.a);
            }
            _ => {}
        }
    }

    /// The time until `ns` belongs to the state that the domain is in.
    fn advance(&mut self, number: u32, ns: u64) {
        let Some(d) = self.domains.get_mut(&number) else { return };
        let from = d.since;
        if ns <= from {
            return;
        }
        d.since = ns;
        let state = d.state();
        let time = ns - from;
        d.account.times[state] += time;
        let mut interval = Interval { domain: number, from, to: ns, state, fiber: None, why: None };
        match state {
            State::Waiting => return d.unresolved.push((from, ns)),
            State::Blocked => {
                let why = d.blocked_in();
                *d.account.whys.entry(why).or_default() += time;
                (interval.fiber, interval.why) = (d.running, Some(why));
            }
            s if s.is_running() => {
                interval.fiber = d.running;
                match &mut d.step {
                    Some(step) => step[s] += time,
                    None => {
                        let mut times = Times::default();
                        times[s] = time;
                        self.threads.entry(d.thread_key()).or_default().add(number, &times);
                    }
                }
            }
            _ => {}
        }
        (self.f)(interval);
    }

    /// A thread has used so much processor time.
    fn cpu(&mut self, tid: u64, cpu: u64) {
        let thread = self.threads.entry(tid).or_default();
        let last = thread.cpu.replace(cpu);
        let firm = std::mem::take(&mut thread.firm);
        let open = std::mem::take(&mut thread.open);
        // A number of a thread may be used again.
        let Some(used) = last.and_then(|last| cpu.checked_sub(last)) else { return };
        let mut all = Times::default();
        open.iter().for_each(|(_, times)| all += times);
        let mut missing = (all.sum() + firm).saturating_sub(used).min(all.sum());
        if missing <= SLACK {
            missing = 0;
        }
        let mut left = all.sum();
        for (number, times) in &open {
            let Some(d) = self.domains.get_mut(number) else { continue };
            let part = times.sum();
            d.account.measured += part;
            let share = (missing as u128 * part as u128 / left.max(1) as u128) as u64;
            d.displace(&times.shares(share));
            (missing, left) = (missing - share, left - part);
        }
    }

    fn close(mut self, end: u64) -> Vec<Account> {
        let numbers: Vec<u32> = self.domains.keys().copied().collect();
        for number in numbers {
            self.advance(number, end);
            if let Some(d) = self.domains.get_mut(&number) {
                let (fiber, why) = d.last_wait.map_or((None, Why::Unknown), |(f, w)| (Some(f), w));
                d.resolve(fiber, why, self.f);
            }
        }
        self.domains.into_values().map(|d| d.account).collect()
    }
}

impl Thread {
    fn add(&mut self, domain: u32, times: &Times) {
        match self.open.iter_mut().rev().find(|(d, _)| *d == domain) {
            Some((_, to)) => *to += times,
            None => self.open.push((domain, *times)),
        }
    }
}

impl Domain {
    /// Where what a thread of unknown number does for this domain is gathered.
    fn thread_key(&self) -> u64 {
        if self.thread != 0 { self.thread } else { 1 << 32 | self.account.domain as u64 }
    }

    fn state(&self) -> State {
        if !self.exists {
            State::Absent
        } else if !self.known {
            State::Unknown
        } else if self.entered {
            match (self.spans.last(), self.running) {
                (Some((state, _)), _) => *state,
                (None, Some(_)) => State::Lua,
                (None, None) if self.found => State::Lua,
                (None, None) => State::Scheduler,
            }
        } else if self.ready {
            State::Ready
        } else if self.detached > 0 {
            State::Blocked
        } else if !self.fibers.is_empty() {
            State::Waiting
        } else {
            State::Idle
        }
    }

    /// The call that a blocked domain is in.
    fn blocked_in(&self) -> Why {
        if self.entered {
            return self.spans.last().map_or(Why::Unknown, |(_, name)| Why::Call(*name));
        }
        // One of several is as good as another.
        let calls = self.fibers.values().filter(|f| f.detached).filter_map(|f| f.calls.last());
        calls.max().map_or(Why::Unknown, |name| Why::Call(*name))
    }

    /// Ends the innermost span of this kind, and those inside of it, whose ends were lost.
    fn close_span(&mut self, state: State) {
        match self.spans.iter().rposition(|(s, _)| *s == state) {
            Some(at) => {
                self.account.misfits += (self.spans.len() - at - 1) as u64;
                self.spans.truncate(at);
            }
            None => self.account.misfits += 1,
        }
    }

    fn run(&mut self, fiber: FiberRef, f: &mut dyn FnMut(Interval)) {
        let of = self.fibers.entry(fiber).or_default();
        if std::mem::take(&mut of.detached) {
            self.detached -= 1;
        }
        of.calls.clear();
        let why = of.wait;
        if std::mem::take(&mut self.found) {
            // What was begun until now was begun by this one, as likely as not.
            of.spans = std::mem::take(&mut self.spans);
        }
        self.outer = std::mem::replace(&mut self.spans, std::mem::take(&mut of.spans));
        self.running = Some(fiber);
        if !self.unresolved.is_empty() {
            let (fiber, why) = match (why, self.last_wait) {
                (Some(why), _) => (Some(fiber), why),
                (None, Some((of, why))) => (Some(of), why),
                (None, None) => (None, Why::Unknown),
            };
            self.resolve(fiber, why, f);
        }
    }

    /// The running fiber, if there is one, runs no more; `None`: nobody has said why.
    fn park(&mut self, why: Option<u16>) {
        let Some(fiber) = self.running.take() else { return };
        let spans = std::mem::replace(&mut self.spans, std::mem::take(&mut self.outer));
        if matches!(why, Some(1..=3)) {
            if let Some(of) = self.fibers.remove(&fiber) {
                self.detached -= of.detached as usize;
            }
            return;
        }
        let of = self.fibers.entry(fiber).or_default();
        of.calls = spans.iter().filter(|(s, _)| *s == State::Blocked).map(|(_, name)| *name).collect();
        of.spans = spans;
        // The code that is in no fiber detaches when it waits.
        if why == Some(DETACHED) && of.wait.is_none() && !of.detached {
            of.detached = true;
            self.detached += 1;
        }
    }

    /// All waiting that nobody has been named for was for this.
    fn resolve(&mut self, fiber: Option<FiberRef>, why: Why, f: &mut dyn FnMut(Interval)) {
        for (from, to) in std::mem::take(&mut self.unresolved) {
            *self.account.whys.entry(why).or_default() += to - from;
            let domain = self.account.domain;
            f(Interval { domain, from, to, state: State::Waiting, fiber, why: Some(why) });
        }
    }

    /// So much of the working states was without a processor.
    fn displace(&mut self, times: &Times) {
        for s in State::ALL {
            let to = if s.is_collecting() { State::CollectorWaiting } else { State::Displaced };
            // What a step has already given up is not there any more.
            let taken = times[s].min(self.account.times[s]);
            self.account.times[s] -= taken;
            self.account.times[to] += taken;
        }
    }
}

#[cfg(test)]
#[path = "domains/tests.rs"]
mod tests;
