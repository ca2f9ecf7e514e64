//! The time of each domain, divided up without a rest.
//!
//! [`account`] subscribes to the replay (`replay/mod.rs`), which knows at each moment in which [`State`]
//! every domain is. All times are integers, every moment belongs to one state, so the parts of a domain add
//! up to the time of the trace exactly, whatever the events say.
//!
//! # Processor time
//! `CpuTime` events say how much processor time a thread has used. Between two of them the domains that the
//! thread owned should have run that long in all. If they were entered longer, the thread had no processor
//! for the rest: that is taken off their working states in proportion, as `Displaced` or (from the
//! collector's states) `CollectorWaiting`. The collector measures its longer steps itself (`StepEnd`); those
//! are exact. Calls that sleep in the kernel are not counted as entered time here, though they use some
//! processor time: so what is called displaced is rather too little than too much. Where it happened within
//! the interval is not known, so [`Interval`]s show the states as if nobody had been displaced.
//!
//! *Rejected.* Sums of durations of span events, as tools that know only spans do: nested ones count twice,
//! and one that is lost leaves a hole or an overlap that nobody notices.

use crate::analyse::state::{State, Times};
use crate::replay::{self, Change, Replay, Subscriber};
pub use crate::replay::{Interval, Why};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::What;
use std::collections::{BTreeMap, HashMap};

/// Nanoseconds by which two clocks may differ before somebody counts as displaced.
const SLACK: u64 = 5_000;

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

/// As [`account`]; `f` gets every interval. Those of a domain come in order of time but for `Waiting`, which
/// comes when it is known what for: no later than the next time that a fiber of the domain runs.
pub fn account_with(trace: &Trace, f: &mut dyn FnMut(Interval)) -> Accounts {
    let mut books = Books::default();
    let mut intervals = Intervals(f);
    let replay = replay::run(trace, &mut [&mut books, &mut intervals]);
    books.close(trace, &replay)
}

/// Gives intervals to a function.
struct Intervals<'a>(&'a mut dyn FnMut(Interval));

impl Subscriber for Intervals<'_> {
    fn change(&mut self, change: &Change, _: &Replay) {
        if let Change::Interval(interval) = change {
            (self.0)(*interval);
        }
    }
}

/// The books of all domains while a trace is replayed.
#[derive(Default)]
pub struct Books {
    domains: BTreeMap<u32, Book>,
    threads: HashMap<u64, Thread>,
}

#[derive(Default)]
struct Book {
    account: Account,
    /// The thread that owns it; or owned it last. 0: not known.
    thread: u64,
    /// The step of the collector in progress.
    step: Option<Times>,
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

impl Subscriber for Books {
    fn change(&mut self, change: &Change, _: &Replay) {
        let Change::Interval(i) = change else { return };
        let book = self.domains.entry(i.domain).or_default();
        let time = i.to - i.from;
        book.account.times[i.state] += time;
        if let Some(why) = i.why {
            *book.account.whys.entry(why).or_default() += time;
        }
        if i.state.is_running() {
            match &mut book.step {
                Some(step) => step[i.state] += time,
                None => {
                    let mut times = Times::default();
                    times[i.state] = time;
                    self.threads.entry(book.thread_key(i.domain)).or_default().add(i.domain, &times);
                }
            }
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        if let What::DomainEnd(of) = what {
            self.domains.entry(of.domain.0).or_default().step = None;
            return;
        }
        let Who::Domain(number) = e.who else {
            if let What::CpuTime(of) = what {
                self.cpu(of.thread.0 as u64, of.used.0);
            }
            return;
        };
        let book = self.domains.entry(number).or_default();
        match what {
            What::DomainEnter(of) => book.thread = of.thread.0 as u64,
            What::DomainLeave(_) | What::Lost(_) => book.step = None,
            What::StepBegin(_) => book.step = Some(Times::default()),
            What::StepEnd(of) => {
                let Some(step) = book.step.take() else { return };
                let thread = self.threads.entry(book.thread_key(number)).or_default();
                let Some(share) = of.processor.0 else { return thread.add(number, &step) };
                let away = step.sum() as u128 * (10_000 - share as u128) / 10_000;
                let waited = step.shares(away as u64);
                book.displace(&waited);
                thread.firm += step.sum() - waited.sum();
                book.account.measured += step.sum();
            }
            What::Contended(of) => {
                book.account.contended = book.account.contended.saturating_add(of.waited.0);
            }
            What::CpuTime(of) => {
                book.thread = of.thread.0 as u64;
                self.cpu(of.thread.0 as u64, of.used.0);
            }
            _ => {}
        }
    }
}

impl Books {
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
            let Some(book) = self.domains.get_mut(number) else { continue };
            let part = times.sum();
            book.account.measured += part;
            let share = (missing as u128 * part as u128 / left.max(1) as u128) as u64;
            book.displace(&times.shares(share));
            (missing, left) = (missing - share, left - part);
        }
    }

    /// The trace has been replayed.
    pub fn close(mut self, trace: &Trace, replay: &Replay) -> Accounts {
        let account = |d: &replay::Domain| Account {
            domain: d.number,
            name: if d.name == 0 { String::new() } else { trace.definitions.string(d.name as u64) },
            begun: d.begun,
            ended: d.ended,
            misfits: d.misfits,
            ..self.domains.remove(&d.number).unwrap_or_default().account
        };
        Accounts { domains: replay.domains().map(account).collect(), elapsed: trace.end_ns, lost: trace.lost }
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

impl Book {
    /// Where what a thread of unknown number does for this domain is gathered.
    fn thread_key(&self, domain: u32) -> u64 {
        if self.thread != 0 { self.thread } else { 1 << 32 | domain as u64 }
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
