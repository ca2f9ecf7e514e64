//! What the kernel's scheduler did to a program's domains, from a trace that has its records (`kernel.rs`).
//!
//! A domain's thread is *displaced* when it could go on but another runs on its processor; the time counts for whoever displaced it until the thread runs again. A wake is *late* by the time
//! from when a fiber was woken, or a domain got something to do, to when it ran; for the latest of them it is said who had the processors meanwhile.

use crate::trace::{Trace, Who};
use perilune_trace::event::{FiberRef, Kind};
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
    cpu: Option<u64>,
    displaced: Option<(u64, u64, Option<u32>)>,
}

impl Sched {
    /// Reads a trace.
    pub fn new(trace: &Trace) -> Sched {
        let mut sched = Sched::default();
        let mut threads: HashMap<u64, Thread> = HashMap::new();
        let mut by: HashMap<u32, HashMap<u64, (u64, u64)>> = HashMap::new();
        let mut woken: HashMap<u64, u64> = HashMap::new();
        let mut ready: HashMap<u32, u64> = HashMap::new();
        let mut late: Vec<(u64, u64, u32)> = Vec::new();
        let mut occupied: HashMap<u64, (u64, Occupant)> = HashMap::new();
        let mut segments: Vec<(u64, u64, Occupant)> = Vec::new();
        for e in &trace.events {
            match e.kind {
                Kind::DomainEnter => {
                    let thread = threads.entry(e.b).or_default();
                    thread.domain = Some(e.a as u32);
                    if thread.cpu.is_some() {
                        thread.since = Some(e.ns);
                    }
                    if let Some(from) = ready.remove(&(e.a as u32)) {
                        late.push((from, e.ns, e.a as u32));
                    }
                }
                Kind::DomainLeave => {
                    let owner = threads.values_mut().find(|t| t.domain == Some(e.a as u32));
                    if let Some(thread) = owner {
                        if let Some(since) = thread.since.take() {
                            sched.domains.entry(e.a as u32).or_default().ran += e.ns.saturating_sub(since);
                        }
                        thread.domain = None;
                    }
                }
                Kind::DomainReady => _ = ready.entry(e.a as u32).or_insert(e.ns),
                Kind::Wake => _ = woken.entry(e.a).or_insert(e.ns),
                Kind::FiberRun => {
                    if let Some(from) = woken.remove(&e.a) {
                        late.push((from, e.ns, FiberRef(e.a).domain()));
                    }
                }
                Kind::CpuBegin => {
                    sched.is_known = true;
                    let thread = threads.entry(e.a).or_default();
                    if let Some((since, process, Some(domain))) = thread.displaced.take() {
                        let ns = e.ns.saturating_sub(since);
                        let of = sched.domains.entry(domain).or_default();
                        of.displaced += ns;
                        of.displacements += 1;
                        let sum = by.entry(domain).or_default().entry(process).or_default();
                        *sum = (sum.0 + ns, sum.1 + 1);
                    }
                    if let Some(domain) = thread.domain
                        && thread.cpu.is_some_and(|cpu| cpu != e.b)
                    {
                        sched.domains.entry(domain).or_default().migrations += 1;
                    }
                    thread.cpu = Some(e.b);
                    thread.since = Some(e.ns);
                    occupy(&mut occupied, &mut segments, e.b, e.ns, Some((0, None)));
                }
                Kind::CpuEnd => {
                    sched.is_known = true;
                    let thread = threads.entry(e.a).or_default();
                    if let (Some(since), Some(domain)) = (thread.since.take(), thread.domain) {
                        sched.domains.entry(domain).or_default().ran += e.ns.saturating_sub(since);
                    }
                    thread.displaced = (e.c == 1).then_some((e.ns, e.b, thread.domain));
                    if let Some(cpu) = thread.cpu {
                        occupy(&mut occupied, &mut segments, cpu, e.ns, None);
                    }
                }
                Kind::CpuOther => {
                    let (pid, name) = ((e.b >> 32) as u32, e.b as u32);
                    let who = (pid != 0).then_some((pid, Some(name)));
                    occupy(&mut occupied, &mut segments, e.a, e.ns, who);
                }
                Kind::SchedStat => {
                    if let Who::Thread(tid) = e.who
                        && let Some(Thread { domain: Some(domain), .. }) = threads.get(&(tid as u64))
                    {
                        let of = sched.domains.entry(*domain).or_default();
                        of.ran += e.a;
                        of.displaced += e.b;
                    }
                }
                _ => {}
            }
        }
        let end = trace.end_ns;
        let cpus: Vec<u64> = occupied.keys().copied().collect();
        for cpu in cpus {
            occupy(&mut occupied, &mut segments, cpu, end, None);
        }
        for thread in threads.values() {
            if let (Some(since), Some(domain)) = (thread.since, thread.domain) {
                sched.domains.entry(domain).or_default().ran += end.saturating_sub(since);
            }
        }
        let name = |process: u64| match (process >> 32, process & 0xffff_ffff) {
            (0, _) => "somebody".to_owned(),
            (pid, _) if pid as u32 == trace.pid => "this program".to_owned(),
            (pid, 0) => format!("process {pid}"),
            (_, name) => trace.definitions.string(name),
        };
        for (domain, others) in by {
            let mut list: Vec<Other> = others
                .into_iter()
                .map(|(process, (ns, count))| Other {
                    name: name(process),
                    pid: (process >> 32) as u32,
                    ns,
                    count,
                })
                .collect();
            list.sort_by_key(|o| (std::cmp::Reverse(o.ns), o.pid));
            sched.domains.entry(domain).or_default().by = list;
        }
        late.sort_by_key(|(from, to, domain)| (std::cmp::Reverse(to.saturating_sub(*from)), *from, *domain));
        // A fiber's wake and its domain's are one delay.
        late.dedup_by_key(|(_, to, domain)| (*to / 1000, *domain));
        late.truncate(LATEST);
        segments.sort_unstable_by_key(|s| s.0);
        for (from, to, domain) in late {
            let mut sums: HashMap<Occupant, (u64, u64)> = HashMap::new();
            for &(begin, end, who) in segments.iter().filter(|s| s.0 < to && s.1 > from) {
                let sum = sums.entry(who).or_default();
                *sum = (sum.0 + end.min(to) - begin.max(from), sum.1 + 1);
            }
            let mut busy: Vec<Other> = sums
                .into_iter()
                .map(|((pid, who), (ns, count))| {
                    let name = match who {
                        None => "this program".to_owned(),
                        Some(text) => name((pid as u64) << 32 | text as u64),
                    };
                    Other { name, pid, ns, count }
                })
                .collect();
            busy.sort_by_key(|o| (std::cmp::Reverse(o.ns), o.pid));
            sched.latest.push(Late { from, to, domain, busy });
        }
        sched
    }
}

/// Somebody has the processor from now on, or nobody.
fn occupy(
    occupied: &mut HashMap<u64, (u64, Occupant)>,
    segments: &mut Vec<(u64, u64, Occupant)>,
    cpu: u64,
    ns: u64,
    who: Option<Occupant>,
) {
    if let Some((since, before)) = occupied.remove(&cpu)
        && ns > since
    {
        segments.push((since, ns, before));
    }
    if let Some(who) = who {
        occupied.insert(cpu, (ns, who));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Event;

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
