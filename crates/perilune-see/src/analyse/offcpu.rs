//! Where a program does not use the processor: waits and calls that sleep, for what, how long, and who ended
//! them.
//!
//! A wait is measured from the moment that its fiber stopped running to the moment that it runs again; what
//! lies between being woken and running is its *delay*, which is nobody's wait but a matter of threads and
//! processors. A call that sleeps in the kernel is measured from begin to end. Waits and calls that had not
//! ended when the trace did count up to there.
//!
//! The replay (`replay/mod.rs`) knows when waits and calls are over, and leaves out what spans lost events.
//! Who ended a wait is the code that ran when the wake was written: a fiber, known by its function, or a
//! thread of the runtime such as the timers'.

pub use crate::replay::Waker;
use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::Trace;
use perilune_trace::event::{ObjectRef, Verb};
use std::collections::{HashMap, HashSet};

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
    /// What they were for, if that is of a kind of which there are many: some of it by name.
    pub objects: Vec<ObjectRef>,
    /// How many others.
    pub others: u64,
}

/// As many are named.
const NAMED: usize = 2;
/// As many are told apart.
const MOST_OBJECTS: usize = 4096;

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

#[derive(Default)]
struct Sums {
    at: HashMap<(Cause, u32, u32), usize>,
    entries: Vec<Entry>,
    /// Objects of each entry that have been met, or functions of tasks.
    met: HashMap<usize, HashSet<u64>>,
}

impl Sums {
    /// One of those that an entry counts together; `met` tells it apart from others.
    fn name(&mut self, cause: Cause, stack: u32, domain: u32, object: ObjectRef, met: u64) {
        let Some(&at) = self.at.get(&(cause, stack, domain)) else { return };
        let all = self.met.entry(at).or_default();
        if all.len() < MOST_OBJECTS && all.insert(met) {
            let entry = &mut self.entries[at];
            match entry.objects.len() < NAMED {
                true => entry.objects.push(object),
                false => entry.others += 1,
            }
        }
    }

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
                objects: Vec::new(),
                others: 0,
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

/// Objects of which there is one for each use (tasks, loops) are counted together: by kind, unless they have
/// a name. So are those that have one, but of which there are many.
pub(super) fn common(trace: &Trace, object: ObjectRef) -> ObjectRef {
    let is_one = trace.definitions.has_label(object) && !object.kind().is_fleeting();
    if is_one { object } else { ObjectRef::new(object.kind(), 0) }
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
                let (stack, domain, object) = (over.wait.stack, over.fiber.domain(), over.wait.object);
                self.sums.add(cause, stack, domain, ns, delay, waker);
                let definitions = &self.trace.definitions;
                if object.kind().is_fleeting() && definitions.has_label(object) {
                    self.sums.name(cause, stack, domain, object, object.0);
                } else if let Some(function) = definitions.function(object) {
                    // Tasks that call the same are one.
                    self.sums.name(cause, stack, domain, object, function.into());
                }
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
        let mut books = Books { trace, sums: Sums::default() };
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

    /// What an entry waits for, for people: `receives from channel 'jobs'`, `in read`.
    pub fn describe(&self, trace: &Trace, entry: &Entry) -> String {
        match (entry.cause, &entry.objects[..]) {
            (Cause::Call(name), _) => format!("in {}", trace.definitions.string(name)),
            (Cause::Wait(verb, object), []) => trace.definitions.wait(verb, object),
            (Cause::Wait(verb, _), objects) => {
                let others = match entry.others {
                    0 => String::new(),
                    n => format!(" and {n} others"),
                };
                let definitions = &trace.definitions;
                let name = |object: &ObjectRef| match definitions.function(*object) {
                    Some(function) => object.kind().called(&definitions.string(function as u64)),
                    None => definitions.object(*object),
                };
                let names: Vec<_> = objects.iter().map(name).collect();
                format!("{} {}{others}", verb.word(), names.join(", "))
            }
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
    fn what_there_is_much_of_is_counted_together_and_named() {
        let one = Who::Domain(1);
        let f = FiberRef::new(1, 0, 0).0;
        let mut events = vec![event(0, one, Kind::FiberRun, 0, f, 0)];
        for n in 0..5u64 {
            let connection = ObjectRef::new(ObjectKind::Connection, 1 + n % 4).0;
            let at = 10 + n * 100;
            events.push(event(at, one, Kind::WaitBegin, Verb::Reads as u16, connection, 7));
            events.push(event(at + 1, one, Kind::FiberPark, 0, f, 0));
            events.push(event(at + 51, one, Kind::FiberRun, 0, f, 0));
            events.push(event(at + 52, one, Kind::WaitEnd, 0, connection, f));
        }
        let mut trace = Trace { events, end_ns: 1000, ..Trace::default() };
        for n in 1..=4 {
            let name = trace.definitions.add_string(&format!("a -> b:{n}"));
            trace.definitions.add_label(ObjectRef::new(ObjectKind::Connection, n), name);
        }
        let seen = OffCpu::new(&trace);
        let [entry] = &seen.entries[..] else { panic!("{:?}", seen.entries) };
        assert_eq!((entry.count, entry.ns, entry.others), (5, 250, 2));
        assert_eq!(
            seen.describe(&trace, entry),
            "reads from connection a -> b:1, connection a -> b:2 and 2 others"
        );
    }

    #[test]
    fn tasks_are_called_by_their_functions() {
        let one = Who::Domain(1);
        let f = FiberRef::root(1).0;
        let mut trace = Trace::default();
        let names = ["parse", "render"].map(|name| trace.definitions.add_string(name));
        let mut events = vec![event(0, one, Kind::FiberRun, 0, f, 0)];
        for n in 0..4u64 {
            let task = ObjectRef::new(ObjectKind::Task, 1 + n).0;
            let at = 10 + n * 100;
            events.push(event(at, one, Kind::TaskCreated, 0, task, names[n as usize % 2].into()));
            events.push(event(at + 1, one, Kind::WaitBegin, Verb::Awaits as u16, task, 7));
            events.push(event(at + 2, one, Kind::FiberPark, 0, f, 0));
            events.push(event(at + 52, one, Kind::FiberRun, 0, f, 0));
            events.push(event(at + 53, one, Kind::WaitEnd, 0, task, f));
        }
        trace.events = events;
        trace.finish(1000);
        let seen = OffCpu::new(&trace);
        let [entry] = &seen.entries[..] else { panic!("{:?}", seen.entries) };
        assert_eq!((entry.count, entry.ns), (4, 200));
        assert_eq!(seen.describe(&trace, entry), "awaits task 'parse', task 'render'");
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
