//! Where a program does not use the processor: waits and calls that sleep, for what, how long, and who ended them.
//!
//! A wait is measured from the moment that its fiber stopped running to the moment that it runs again; what lies between being woken and running is its *delay*, which
//! is nobody's wait but a matter of threads and processors. A call that sleeps in the kernel is measured from begin to end. Waits and calls that had not ended
//! when the trace did count up to there.
//!
//! The replay (`replay/mod.rs`) knows when waits and calls are over, and leaves out what spans lost events. Who ended a wait is the code that ran when the wake was written: a fiber, known by its function, or a thread of the runtime such as the timers'.

pub use crate::replay::Waker;
use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::Trace;
use perilune_trace::event::{ObjectRef, Verb};
use std::collections::HashMap;

/// Why code did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A wait: what it does, and the object.
    Wait(Verb, ObjectRef),
    /// A call that may sleep in the kernel: number of the native's name.
    Call(u64),
}

/// Waits of one kind at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What for.
    pub cause: Cause,
    /// Where: number of a call path, 0 if it is not known.
    pub stack: u32,
    /// Whose.
    pub domain: u32,
    /// How many.
    pub count: u64,
    /// Nanoseconds in all.
    pub ns: u64,
    /// The longest.
    pub longest: u64,
    /// Of the nanoseconds, those after the wake: it could have run.
    pub delay: u64,
    /// Of them, those that had not ended when the trace did.
    pub open: u64,
    /// Who ended them, how often; the most frequent first.
    pub wakers: Vec<(Waker, u64)>,
}

/// What a trace says about waiting.
#[derive(Clone, Debug, Default)]
pub struct OffCpu {
    /// By cause, place and domain; the greatest sum first.
    pub entries: Vec<Entry>,
    /// Names of domains.
    pub domains: HashMap<u32, String>,
    /// Nanoseconds of the trace.
    pub wall_ns: u64,
}

struct Sums {
    at: HashMap<(Cause, u32, u32), usize>,
    entries: Vec<Entry>,
}

impl Sums {
    fn add(&mut self, cause: Cause, stack: u32, domain: u32, ns: u64, delay: u64, waker: Waker) {
        // Sleeps and calls have no object to tell them apart by; timers have no names.
        let entries = &mut self.entries;
        let at = *self.at.entry((cause, stack, domain)).or_insert_with(|| {
            entries.push(Entry {
                cause,
                stack,
                domain,
                count: 0,
                ns: 0,
                longest: 0,
                delay: 0,
                open: 0,
                wakers: Vec::new(),
            });
            entries.len() - 1
        });
        let entry = &mut self.entries[at];
        entry.count += 1;
        entry.ns += ns;
        entry.longest = entry.longest.max(ns);
        entry.delay += delay.min(ns);
        entry.open += (waker == Waker::Nobody) as u64;
        match entry.wakers.iter_mut().find(|(w, _)| *w == waker) {
            Some((_, n)) => *n += 1,
            None => entry.wakers.push((waker, 1)),
        }
    }
}

/// Objects of which there is one for each use (tasks, loops) are counted together: by kind, unless they have a name.
fn common(trace: &Trace, object: ObjectRef) -> ObjectRef {
    if trace.definitions.has_label(object) { object } else { ObjectRef::new(object.kind(), 0) }
}

/// The books while a trace is replayed.
struct Books<'t> {
    trace: &'t Trace,
    sums: Sums,
}

impl Subscriber for Books<'_> {
    fn change(&mut self, change: &Change, _: &Replay) {
        match *change {
            Change::WaitOver(over) => {
                let cause = Cause::Wait(over.wait.verb, common(self.trace, over.wait.object));
                let (delay, waker) = match over.woken {
                    _ if over.is_open => (0, Waker::Nobody),
                    Some((at, waker)) => (over.to.saturating_sub(at), waker),
                    // It found out by itself, or the wake is lost.
                    None => (0, Waker::Runtime),
                };
                let ns = over.to - over.parked;
                self.sums.add(cause, over.wait.stack, over.fiber.domain(), ns, delay, waker);
            }
            Change::CallOver(over) => {
                let waker = if over.is_open { Waker::Nobody } else { Waker::Kernel };
                let cause = Cause::Call(over.name);
                self.sums.add(cause, over.stack, over.fiber.domain(), over.to - over.from, 0, waker);
            }
            _ => {}
        }
    }
}

impl OffCpu {
    /// Reads a trace.
    pub fn new(trace: &Trace) -> OffCpu {
        let mut books = Books { trace, sums: Sums { at: HashMap::new(), entries: Vec::new() } };
        let replay = replay::run(trace, &mut [&mut books]);
        let mut entries = books.sums.entries;
        for entry in &mut entries {
            entry.wakers.sort_by_key(|(waker, n)| (std::cmp::Reverse(*n), *waker));
        }
        entries.sort_by_key(|e| (std::cmp::Reverse(e.ns), e.domain, e.stack, e.cause));
        let name = |d: &replay::Domain| (d.number, trace.definitions.string(d.name as u64));
        let domains = replay.domains().filter(|d| d.name != 0).map(name).collect();
        OffCpu { entries, domains, wall_ns: trace.end_ns }
    }

    /// Nanoseconds of all waits and calls together.
    pub fn total_ns(&self) -> u64 {
        self.entries.iter().map(|e| e.ns).sum()
    }

    /// A cause for people: `receives from channel 'jobs'`, `calls read`.
    pub fn describe(&self, trace: &Trace, cause: Cause) -> String {
        match cause {
            Cause::Call(name) => format!("in {}", trace.definitions.string(name)),
            Cause::Wait(verb, object) => trace.definitions.wait(verb, object),
        }
    }

    /// Who ended a wait, for people.
    pub fn describe_waker(&self, trace: &Trace, waker: Waker) -> String {
        let domain =
            |n: u32| self.domains.get(&n).map_or_else(|| format!("domain {n}"), |name| format!("'{name}'"));
        match waker {
            Waker::Nobody => "nobody yet".to_owned(),
            Waker::Kernel => "its end".to_owned(),
            Waker::Timer => "a timer".to_owned(),
            Waker::Runtime => "the runtime".to_owned(),
            Waker::Root(1) => "the main program".to_owned(),
            Waker::Root(n) => domain(n),
            Waker::Fiber(n, 0) => format!("a fiber's end in {}", domain(n)),
            Waker::Fiber(n, name) => format!("{} in {}", trace.definitions.string(name), domain(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Who};
    use perilune_trace::event::{FiberRef, Kind, ObjectKind};

    fn event(ns: u64, who: Who, kind: Kind, c: u16, a: u64, b: u64) -> Event {
        Event { ns, who, kind, c, a, b }
    }

    #[test]
    fn a_wait_lasts_until_its_fiber_runs_and_knows_who_ended_it() {
        let (one, two) = (Who::Domain(1), Who::Domain(2));
        let (f, g) = (FiberRef::new(2, 0, 0).0, FiberRef::root(1).0);
        let channel = ObjectRef::new(ObjectKind::Channel, 4).0;
        let trace = Trace {
            events: vec![
                event(0, one, Kind::FiberRun, 0, g, 0),
                event(10, two, Kind::FiberRun, 0, f, 0),
                event(20, two, Kind::WaitBegin, 1, channel, 7),
                event(21, two, Kind::FiberPark, 0, f, 0),
                event(100, one, Kind::Wake, 0, f, channel),
                event(130, two, Kind::FiberRun, 0, f, 0),
                event(131, two, Kind::WaitEnd, 0, channel, f),
                event(140, two, Kind::WaitBegin, 1, channel, 7),
                event(141, two, Kind::WaitEnd, 0, channel, f),
                event(150, one, Kind::BlockBegin, 0, 3, 9),
                event(151, one, Kind::FiberPark, 4, g, 0),
                event(190, one, Kind::FiberRun, 0, g, 0),
                event(192, one, Kind::BlockEnd, 0, 3, 0),
                event(195, two, Kind::WaitBegin, 5, 0, 8),
                event(196, two, Kind::FiberPark, 0, f, 0),
            ],
            end_ns: 300,
            ..Trace::default()
        };
        let seen = OffCpu::new(&trace);
        let one_of = |stack| seen.entries.iter().find(|e| e.stack == stack).unwrap();
        let wait = one_of(7);
        assert_eq!((wait.count, wait.ns, wait.delay, wait.domain), (1, 109, 30, 2));
        assert_eq!(wait.wakers, [(Waker::Root(1), 1)]);
        let call = one_of(9);
        assert_eq!((call.cause, call.ns, call.open), (Cause::Call(3), 42, 0));
        let sleep = one_of(8);
        assert_eq!((sleep.ns, sleep.open), (104, 1));
        assert_eq!(seen.total_ns(), 109 + 42 + 104);
    }
}
