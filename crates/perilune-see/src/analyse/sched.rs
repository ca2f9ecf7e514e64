//! What the kernel's scheduler did to a program's domains, from a trace that has its records (`kernel.rs`).
//!
//! A domain's thread is *displaced* when it could go on but another runs on its processor; the time counts
//! for whoever displaced it until the thread runs again. A wake is *late* by the time from when a fiber was
//! woken, or a domain got something to do, to when it ran; for the latest of them it is said who had the
//! processors meanwhile.

use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{CpuBegin, CpuEnd, Off, Processor, What};
use std::collections::HashMap;

/// How many late wakes are kept.
const LATEST: usize = 10;

/// A process that was in the way, or had a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its name, or what is known.
    pub name: String,
    /// Its number; 0: not known.
    pub pid: u32,
    /// For how long.
    pub ns: u64,
    /// How often.
    pub count: u64,
}

/// What happened to a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainSched {
    /// Nanoseconds on a processor, as far as the kernel was watched.
    pub ran: u64,
    /// Nanoseconds ready but displaced.
    pub displaced: u64,
    /// How often.
    pub displacements: u64,
    /// Times that its code went on on another processor.
    pub migrations: u64,
    /// By whom, the worst first.
    pub by: Vec<Other>,
}

/// A wake that took long to take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// When it was woken.
    pub from: u64,
    /// When it ran.
    pub to: u64,
    /// Whose.
    pub domain: u32,
    /// Who had the processors meanwhile, the longest first; this program is among them.
    pub busy: Vec<Other>,
}

/// The scheduler's part in a trace.
#[derive(Clone, Debug, Default)]
pub struct Sched {
    /// The trace has records of switches.
    pub is_known: bool,
    /// By domain.
    pub domains: HashMap<u32, DomainSched>,
    /// The latest wakes, the worst first.
    pub latest: Vec<Late>,
}

/// Who has a processor: number and name of the process; of ours 0 and `None`.
type Occupant = (u32, Option<u32>);

#[derive(Default)]
struct Thread {
    domain: Option<u32>,
    since: Option<u64>,
    cpu: Option<Processor>,
    displaced: Option<(u64, u64, Option<u32>)>,
}

/// The books while a trace is replayed.
#[derive(Default)]
struct Books {
    found: Sched,
    threads: HashMap<u32, Thread>,
    /// By domain and process: for how long, how often.
    by: HashMap<u32, HashMap<u64, (u64, u64)>>,
    late: Vec<(u64, u64, u32)>,
    processors: Processors,
}

impl Subscriber for Books {
    fn change(&mut self, change: &Change, _: &Replay) {
        match *change {
            Change::ReadyOver { domain, from, to } => self.late.push((from, to, domain)),
            Change::WakeOver { fiber, from, to, .. } => self.late.push((from, to, fiber.domain())),
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        match *what {
            What::DomainEnter(of) => {
                let thread = self.threads.entry(of.thread.0).or_default();
                thread.domain = Some(of.domain.0);
                if thread.cpu.is_some() {
                    thread.since = Some(e.ns);
                }
            }
            What::DomainLeave(of) => self.left(of.domain.0, e.ns),
            What::Lost(_) => {
                if let Who::Domain(domain) = e.who {
                    self.left(domain, e.ns);
                }
            }
            What::CpuBegin(of) => self.runs(of, e.ns),
            What::CpuEnd(of) => self.stops(of, e.ns),
            What::CpuOther(of) => {
                let (pid, name) = ((of.process.0 >> 32) as u32, of.process.0 as u32);
                self.processors.occupy(of.processor, e.ns, (pid != 0).then_some((pid, Some(name))));
            }
            What::SchedStat(of) => {
                if let Who::Thread(tid) = e.who
                    && let Some(Thread { domain: Some(domain), .. }) = self.threads.get(&tid)
                {
                    let sums = self.found.domains.entry(*domain).or_default();
                    sums.ran += of.ran.0;
                    sums.displaced += of.waited.0;
                }
            }
            _ => {}
        }
    }
}

impl Books {
    /// Nobody owns the domain any more, or nobody knows.
    fn left(&mut self, domain: u32, ns: u64) {
        if let Some(thread) = self.threads.values_mut().find(|t| t.domain == Some(domain)) {
            if let Some(since) = thread.since.take() {
                self.found.domains.entry(domain).or_default().ran += ns.saturating_sub(since);
            }
            thread.domain = None;
        }
    }

    /// A thread has a processor.
    fn runs(&mut self, of: CpuBegin, ns: u64) {
        self.found.is_known = true;
        let thread = self.threads.entry(of.thread.0).or_default();
        if let Some((since, process, Some(domain))) = thread.displaced.take() {
            let lasted = ns.saturating_sub(since);
            let sums = self.found.domains.entry(domain).or_default();
            sums.displaced += lasted;
            sums.displacements += 1;
            let sum = self.by.entry(domain).or_default().entry(process).or_default();
            *sum = (sum.0 + lasted, sum.1 + 1);
        }
        if let Some(domain) = thread.domain
            && thread.cpu.is_some_and(|cpu| cpu != of.processor)
        {
            self.found.domains.entry(domain).or_default().migrations += 1;
        }
        (thread.cpu, thread.since) = (Some(of.processor), Some(ns));
        self.processors.occupy(of.processor, ns, Some((0, None)));
    }

    /// It has none.
    fn stops(&mut self, of: CpuEnd, ns: u64) {
        self.found.is_known = true;
        let thread = self.threads.entry(of.thread.0).or_default();
        if let (Some(since), Some(domain)) = (thread.since.take(), thread.domain) {
            self.found.domains.entry(domain).or_default().ran += ns.saturating_sub(since);
        }
        thread.displaced = (of.why == Off::Displaced).then_some((ns, of.by.0, thread.domain));
        if let Some(cpu) = thread.cpu {
            self.processors.occupy(cpu, ns, None);
        }
    }

    /// The trace is over.
    fn close(mut self, trace: &Trace) -> Sched {
        self.processors.close(trace.end_ns);
        for thread in self.threads.values() {
            if let (Some(since), Some(domain)) = (thread.since, thread.domain) {
                self.found.domains.entry(domain).or_default().ran += trace.end_ns.saturating_sub(since);
            }
        }
        let other = |process: u64, (ns, count): (u64, u64)| Other {
            name: name(trace, process),
            pid: (process >> 32) as u32,
            ns,
            count,
        };
        for (domain, others) in self.by {
            let mut list: Vec<Other> = others.into_iter().map(|(process, sum)| other(process, sum)).collect();
            list.sort_by_key(|o| (std::cmp::Reverse(o.ns), o.pid));
            self.found.domains.entry(domain).or_default().by = list;
        }
        let mut late = self.late;
        late.sort_by_key(|(from, to, domain)| (std::cmp::Reverse(to.saturating_sub(*from)), *from, *domain));
        // A fiber's wake and its domain's are one delay.
        late.dedup_by_key(|(_, to, domain)| (*to / 1000, *domain));
        late.truncate(LATEST);
        for (from, to, domain) in late {
            let busy = self.processors.between(trace, from, to);
            self.found.latest.push(Late { from, to, domain, busy });
        }
        self.found
    }
}

/// A process, for people.
fn name(trace: &Trace, process: u64) -> String {
    match (process >> 32, process & 0xffff_ffff) {
        (0, _) => "somebody".to_owned(),
        (pid, _) if pid as u32 == trace.pid => "this program".to_owned(),
        (pid, 0) => format!("process {pid}"),
        (_, name) => trace.definitions.string(name),
    }
}

impl Sched {
    /// Reads a trace.
    pub fn new(trace: &Trace) -> Sched {
        let mut books = Books::default();
        replay::run(trace, &mut [&mut books]);
        books.close(trace)
    }
}

/// Who had which processor, and when.
#[derive(Default)]
struct Processors {
    occupied: HashMap<Processor, (u64, Occupant)>,
    segments: Vec<(u64, u64, Occupant)>,
}

impl Processors {
    /// Somebody has the processor from now on, or nobody.
    fn occupy(&mut self, cpu: Processor, ns: u64, who: Option<Occupant>) {
        if let Some((since, before)) = self.occupied.remove(&cpu)
            && ns > since
        {
            self.segments.push((since, ns, before));
        }
        if let Some(who) = who {
            self.occupied.insert(cpu, (ns, who));
        }
    }

    fn close(&mut self, end: u64) {
        for cpu in self.occupied.keys().copied().collect::<Vec<_>>() {
            self.occupy(cpu, end, None);
        }
        self.segments.sort_unstable_by_key(|s| s.0);
    }

    /// Who had processors in this time, the longest first.
    fn between(&self, trace: &Trace, from: u64, to: u64) -> Vec<Other> {
        let mut sums: HashMap<Occupant, (u64, u64)> = HashMap::new();
        for &(begin, end, who) in self.segments.iter().filter(|s| s.0 < to && s.1 > from) {
            let sum = sums.entry(who).or_default();
            *sum = (sum.0 + end.min(to) - begin.max(from), sum.1 + 1);
        }
        let other = |((pid, who), (ns, count)): (Occupant, (u64, u64))| {
            let name = match who {
                None => "this program".to_owned(),
                Some(text) => name(trace, (pid as u64) << 32 | text as u64),
            };
            Other { name, pid, ns, count }
        };
        let mut busy: Vec<Other> = sums.into_iter().map(other).collect();
        busy.sort_by_key(|o| (std::cmp::Reverse(o.ns), o.pid));
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::event::{FiberRef, Kind};

    #[test]
    fn who_displaced_a_domain_and_who_ran_while_it_was_late() {
        let mut trace = Trace { pid: 1, end_ns: 1000, ..Trace::default() };
        let name = trace.definitions.add_string("hog") as u64;
        let hog = 42u64 << 32 | name;
        let event = |ns, who, kind, c, a, b| Event { ns, who, kind, c, a, b };
        let (d, t) = (Who::Domain(1), Who::Thread(7));
        let f = FiberRef::root(1).0;
        trace.events = vec![
            event(10, t, Kind::CpuBegin, 0, 7, 0),
            event(20, d, Kind::DomainEnter, 0, 1, 7),
            event(100, t, Kind::CpuEnd, 1, 7, hog),
            event(100, Who::Thread(0), Kind::CpuOther, 0, 0, hog),
            event(150, Who::Thread(9), Kind::Wake, 0, f, 0),
            event(400, t, Kind::CpuBegin, 0, 7, 1),
            event(410, d, Kind::FiberRun, 0, f, 0),
            event(600, d, Kind::DomainLeave, 0, 1, 0),
            event(650, t, Kind::CpuEnd, 0, 7, 0),
        ];
        let sched = Sched::new(&trace);
        let of = &sched.domains[&1];
        assert!(sched.is_known);
        assert_eq!((of.ran, of.displaced, of.displacements, of.migrations), (80 + 200, 300, 1, 1));
        assert_eq!(of.by, [Other { name: "hog".into(), pid: 42, ns: 300, count: 1 }]);
        let late = &sched.latest[0];
        assert_eq!((late.from, late.to), (150, 410));
        assert_eq!(late.busy[0], Other { name: "hog".into(), pid: 42, ns: 260, count: 1 });
        assert_eq!((late.busy[1].name.as_str(), late.busy[1].ns), ("this program", 10));
    }
}
