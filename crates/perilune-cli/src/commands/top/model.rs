//! What a stream of events says about a program now, and about the last interval.
//!
//! The states are those of the replay (`perilune_see::replay`), to which this subscribes; it adds up what an
//! interval shows. Rings are read one after the other, so each batch is put in order first; between batches
//! events of different domains may still come out of order by the length of a drain, which the replay allows
//! for.
//!
//! What processor time a domain got is asked of the kernel: that of each thread
//! (`/proc/PID/task/TID/schedstat`) is divided among the domains that the thread had in the interval, by how
//! long it had each. The same file says how long the thread could have run and did not.

use crate::sys::process::{self, Used};
use perilune_see::analyse::state::State;
use perilune_see::replay::{Change, Domain, PhaseOver, Replay, Subscriber, Wait, Why};
use perilune_see::{Definitions, Event, Reader, Who};
use perilune_trace::Kind;
use perilune_trace::event::What;
use perilune_trace::layout::StackNode;
use perilune_trace::read::RawEvent;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// The model.
pub struct Model {
    pid: u32,
    title: String,
    replay: Replay,
    changes: Vec<Change>,
    books: Books,
    events: u64,
    /// What the threads had used before the interval.
    threads: HashMap<u32, Used>,
    /// The main program has written something.
    main_seen: bool,
    /// When the interval began, in ns of `CLOCK_MONOTONIC`; 0: not yet.
    from: u64,
    processor: Option<u64>,
}

/// What is added up in an interval.
#[derive(Default)]
struct Books {
    domains: HashMap<u32, Book>,
    /// Processor time of functions by the node of the call path, in ns.
    functions: HashMap<u32, u64>,
}

/// Of a domain.
#[derive(Default)]
struct Book {
    /// The thread that has it.
    owner: u32,
    /// How long which threads had it in this interval.
    owned: Vec<(u32, u64)>,
    heap: Option<(u64, u64)>,
    sums: Sums,
}

/// Sums of an interval; times in ns.
#[derive(Default, Clone, Copy)]
struct Sums {
    run: u64,
    gc: u64,
    worst: u64,
    allocated: u64,
    tasks: u64,
}

/// What one interval was like.
pub struct Interval {
    /// The program.
    pub pid: u32,
    pub title: String,
    /// Since the session began, and the interval's length, in ns.
    pub at_ns: u64,
    pub length_ns: u64,
    /// Of one processor.
    pub processor: Option<f64>,
    pub resident: Option<u64>,
    /// Tasks that wait to be started.
    pub queued: usize,
    pub events: u64,
    pub lost: u64,
    pub domains: Vec<Row>,
    /// Name, and its part of all processor time that was sampled.
    pub functions: Vec<(String, f64)>,
}

/// A domain in an interval; shares are of the interval.
pub struct Row {
    pub number: u32,
    pub name: String,
    pub state: &'static str,
    /// It had a thread; the thread had a processor; it could have had one and had not.
    pub run: f64,
    pub processor: Option<f64>,
    pub delayed: Option<f64>,
    pub gc: f64,
    pub worst_ns: u64,
    pub heap: Option<(u64, u64)>,
    pub allocated: u64,
    pub running: usize,
    pub waiting: usize,
    pub tasks: u64,
    pub waits_for: String,
}

impl Model {
    /// Of a program that nothing is known of.
    pub fn new(pid: u32, title: String) -> Model {
        Model {
            pid,
            title,
            replay: Replay::live(),
            changes: Vec::new(),
            books: Books::default(),
            events: 0,
            threads: process::threads(pid),
            main_seen: false,
            from: 0,
            processor: process::processor_time(pid),
        }
    }

    /// Takes new events in.
    pub fn add(&mut self, reader: &Reader, batch: &[RawEvent]) {
        let start = reader.mapping().header().start_mono_ns.load(Ordering::Relaxed);
        if self.from == 0 {
            self.from = start;
        }
        if batch.is_empty() {
            return;
        }
        self.events += batch.len() as u64;
        let scale = reader.scale();
        let mut events: Vec<Event> =
            batch.iter().filter_map(|e| Event::from_raw(e, scale.ns(e.ticks))).collect();
        // Ring came after ring.
        events.sort_by_key(|e| e.ns);
        for e in &events {
            self.event(e);
        }
    }

    fn event(&mut self, e: &Event) {
        let what = e.what();
        self.replay.step(e, &what, &mut self.changes);
        for change in self.changes.drain(..) {
            self.books.change(&change, &self.replay);
        }
        self.books.event(e, &what, &self.replay);
    }

    /// All that lasts has lasted until then.
    fn advance(&mut self, until: u64) {
        self.replay.advance(until, &mut self.changes);
        for change in self.changes.drain(..) {
            self.books.change(&change, &self.replay);
        }
    }

    /// The main program as the kernel sees it: it has been in a call since before the tool attached, or has
    /// nothing to tell.
    fn silent_main(&self, used: &HashMap<u32, Used>, length: u64) -> Option<Row> {
        let sleeps = !process::main_thread_runs(self.pid)?;
        let before = self.threads.get(&self.pid).copied().unwrap_or_default();
        let now = used.get(&self.pid);
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / length as f64;
        Some(Row {
            number: 1,
            name: "main".into(),
            state: if sleeps { "blocked" } else { "runs" },
            run: 0.0,
            processor: now.map(|now| share(now.processor, before.processor)),
            delayed: now.map(|now| share(now.delayed, before.delayed)),
            gc: 0.0,
            worst_ns: 0,
            heap: None,
            allocated: 0,
            running: 0,
            waiting: 0,
            tasks: 0,
            waits_for: if sleeps { "in a call that began before".into() } else { String::new() },
        })
    }

    /// What happened since the last call, up to `until` (`CLOCK_MONOTONIC`); the next interval begins then.
    pub fn interval(&mut self, reader: &Reader, until: u64) -> Interval {
        let from = std::mem::replace(&mut self.from, until);
        let length = until.saturating_sub(from).max(1);
        let d = reader.definitions();
        let mut rows = Vec::new();
        self.advance(until);
        let used = process::threads(self.pid);
        // By thread: what it used in this interval, and how long it had domains.
        let mut had: HashMap<u32, (Used, u64)> = HashMap::new();
        for &(thread, ns) in self.books.domains.values().flat_map(|book| &book.owned) {
            let before = self.threads.get(&thread).copied().unwrap_or_default();
            let Some(now) = used.get(&thread) else { continue };
            let delta = Used {
                processor: now.processor.saturating_sub(before.processor),
                delayed: now.delayed.saturating_sub(before.delayed),
            };
            had.entry(thread).or_insert((delta, 0)).1 += ns;
        }
        self.main_seen |= self.replay.domain(1).is_some();
        if !self.main_seen
            && let Some(main) = self.silent_main(&used, length)
        {
            rows.push(main);
        }
        self.threads = used;
        for domain in self.replay.domains() {
            let number = domain.number;
            let book = self.books.domains.entry(number).or_default();
            let owned = std::mem::take(&mut book.owned);
            let mut got = owned.is_empty().then_some((0.0, 0.0));
            for (thread, ns) in owned {
                let Some((used, all)) = had.get(&thread) else { continue };
                let part = ns as f64 / (*all).max(1) as f64 / length as f64;
                let (processor, delayed) = got.unwrap_or_default();
                let (more, later) = (used.processor as f64 * part, used.delayed as f64 * part);
                got = Some((processor + more, delayed + later));
            }
            let sums = std::mem::take(&mut book.sums);
            let share = |ns: u64| (ns as f64 / length as f64).min(1.0);
            let waits = waits(domain);
            rows.push(Row {
                number,
                name: match (number, domain.name) {
                    (1, _) => "main".into(),
                    (_, 0) => String::new(),
                    (_, name) => d.string(name as u64),
                },
                state: state(domain),
                run: share(sums.run),
                processor: got.map(|(processor, _)| processor),
                delayed: got.map(|(_, delayed)| delayed),
                gc: share(sums.gc),
                worst_ns: sums.worst,
                heap: book.heap,
                allocated: sums.allocated,
                running: domain.running.is_some() as usize,
                waiting: domain.fibers.keys().filter(|f| domain.running != Some(**f)).count(),
                tasks: sums.tasks,
                waits_for: match (domain.state(), waits.first()) {
                    (State::Blocked, _) => match domain.blocked_in() {
                        Why::Call(call) => format!("in {}", d.string(call)),
                        _ => String::new(),
                    },
                    (_, None) => String::new(),
                    (_, Some(wait)) => {
                        let others = waits.len() - 1;
                        let others = if others > 0 { format!(" (+{others})") } else { String::new() };
                        format!("{}{others}", d.wait(wait.verb, wait.object))
                    }
                },
            });
        }
        // Those that have ended have been shown once more.
        self.replay.retain(|domain| !domain.has_ended());
        let mut functions: Vec<(String, u64)> = Vec::new();
        let sampled: u64 = self.books.functions.values().sum();
        for (node, ns) in self.books.functions.drain() {
            let name = d.stack(node).map_or_else(|| "?".into(), |node| function(d, node));
            match functions.iter_mut().find(|(n, _)| *n == name) {
                Some((_, sum)) => *sum += ns,
                None => functions.push((name, ns)),
            }
        }
        functions.sort_by(|x, y| y.1.cmp(&x.1).then_with(|| x.0.cmp(&y.0)));
        functions.truncate(10);
        let processor = process::processor_time(self.pid);
        let before = std::mem::replace(&mut self.processor, processor);
        let start = reader.mapping().header().start_mono_ns.load(Ordering::Relaxed);
        Interval {
            pid: self.pid,
            title: self.title.clone(),
            at_ns: until.saturating_sub(start),
            length_ns: length,
            processor: processor
                .zip(before)
                .map(|(now, before)| now.saturating_sub(before) as f64 / length as f64),
            resident: process::resident(self.pid),
            queued: self.replay.queued(),
            events: std::mem::take(&mut self.events),
            lost: reader.lost(),
            domains: rows,
            functions: functions.into_iter().map(|(name, ns)| (name, ns as f64 / sampled as f64)).collect(),
        }
    }
}

impl Subscriber for Books {
    fn change(&mut self, change: &Change, _: &Replay) {
        match *change {
            Change::Interval(i) if i.state.is_running() => {
                let book = self.domains.entry(i.domain).or_default();
                let ns = i.to - i.from;
                book.sums.run += ns;
                if i.state.is_collecting() {
                    book.sums.gc += ns;
                }
                match book.owned.iter_mut().find(|(thread, _)| *thread == book.owner) {
                    Some((_, sum)) => *sum += ns,
                    None => book.owned.push((book.owner, ns)),
                }
            }
            Change::PhaseOver(PhaseOver { who: Who::Domain(domain), phase: Kind::StepBegin, from, to }) => {
                let sums = &mut self.domains.entry(domain).or_default().sums;
                sums.worst = sums.worst.max(to - from);
            }
            Change::TaskStarted(_, fiber, _) => {
                self.domains.entry(fiber.domain()).or_default().sums.tasks += 1;
            }
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        if let What::CpuSample(of) = what {
            *self.functions.entry(of.stack.0).or_default() += of.used.0;
        }
        let Who::Domain(number) = e.who else { return };
        let book = self.domains.entry(number).or_default();
        match what {
            What::DomainEnter(of) => book.owner = of.thread.0,
            What::StepEnd(of) => book.heap = Some((of.alive.0, of.mapped.0)),
            What::HeapLive(of) => book.heap = Some((of.alive.0, of.mapped.0)),
            What::MinorEnd(of) => book.sums.allocated += of.allocated.0,
            _ => {}
        }
    }
}

/// What a domain is at, in a word.
fn state(domain: &Domain) -> &'static str {
    match domain.state() {
        _ if domain.has_ended() => "ended",
        s if s.is_collecting() => "collects",
        s if s.is_running() => "runs",
        State::Blocked => "blocked",
        State::Ready => "ready",
        State::Waiting => "waits",
        State::Unknown => "unknown",
        _ => "idle",
    }
}

/// What fibers wait for, the main code first, then who has waited longest.
fn waits(domain: &Domain) -> Vec<Wait> {
    let waiting = domain.fibers.iter().filter_map(|(fiber, of)| Some((!fiber.is_root(), of.wait?)));
    let mut waits: Vec<(bool, Wait)> = waiting.collect();
    waits.sort_unstable_by_key(|(is_fiber, wait)| (*is_fiber, wait.since, wait.object));
    waits.into_iter().map(|(_, wait)| wait).collect()
}

/// A function for people, wherever in it the sample was taken: what has no name is called by its place
/// already.
fn function(d: &Definitions, node: &StackNode) -> String {
    let name = d.string(node.function as u64);
    match (node.source, node.defined) {
        (0, _) | (_, 0) => name,
        _ if name.contains('<') => name,
        (source, line) => format!("{name} ({}:{line})", d.string(source as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::FiberRef;
    use perilune_trace::event::Verb;

    fn model(events: &[(u64, u32, Kind, u16, u64, u64)]) -> Model {
        let mut model = Model::new(0, String::new());
        for &(ns, domain, kind, c, a, b) in events {
            model.event(&Event { ns, who: Who::Domain(domain), kind, c, a, b });
        }
        model
    }

    #[test]
    fn times_of_domains() {
        let mut m = model(&[
            (100, 1, Kind::DomainEnter, 0, 1, 7),
            (110, 1, Kind::StepBegin, 0, 0, 0),
            (115, 1, Kind::MinorEnd, 0, 4096, 64),
            (130, 1, Kind::StepEnd, 0, 500, 900),
            (150, 1, Kind::DomainLeave, 0, 1, 0),
            (170, 1, Kind::DomainEnter, 0, 1, 7),
            (180, 1, Kind::StepBegin, 0, 0, 0),
        ]);
        m.advance(200);
        let book = m.books.domains.get_mut(&1).unwrap();
        let s = book.sums;
        assert_eq!((s.run, s.gc, s.worst, s.allocated), (80, 40, 20, 4096));
        assert_eq!((book.heap, state(m.replay.domain(1).unwrap())), (Some((500, 900)), "collects"));
        // The next interval goes on where this one ended.
        book.sums = Sums::default();
        m.advance(230);
        let book = &m.books.domains[&1];
        assert_eq!((book.sums.run, book.sums.gc), (30, 30));
        assert_eq!(book.owned, [(7, 110)]);
    }

    #[test]
    fn fibers_and_what_they_wait_for() {
        let root = FiberRef::root(2).0;
        let (one, two) = (FiberRef::new(2, 0, 1).0, FiberRef::new(2, 0, 2).0);
        let m = model(&[
            (1, 2, Kind::FiberRun, 0, one, 0),
            (2, 2, Kind::WaitBegin, 1, 77, 0),
            (3, 2, Kind::FiberPark, 0, one, 0),
            (4, 2, Kind::FiberRun, 0, root, 0),
            (5, 2, Kind::WaitBegin, 4, 78, 0),
            (6, 2, Kind::FiberPark, 0, root, 0),
            (7, 2, Kind::FiberRun, 0, two, 0),
            (8, 2, Kind::FiberPark, 1, two, 0),
            (9, 2, Kind::DomainLeave, 0, 2, 0),
        ]);
        let d = m.replay.domain(2).unwrap();
        assert_eq!(state(d), "waits");
        let found: Vec<_> = waits(d).iter().map(|w| (w.object.0, w.verb, w.since)).collect();
        assert_eq!(found, [(78, Verb::Awaits, 5), (77, Verb::Receives, 2)]);
        assert_eq!(d.fibers.len(), 2);
    }

    #[test]
    fn tasks_are_counted_in_either_order() {
        let f = FiberRef::new(2, 0, 1).0;
        let mut m = model(&[
            (1, 1, Kind::TaskCreated, 0, 10, 0),
            (2, 1, Kind::TaskCreated, 0, 11, 0),
            (3, 2, Kind::TaskStart, 0, 11, f),
            (4, 2, Kind::TaskStart, 0, 12, f),
            (5, 2, Kind::TaskEnd, 1, 12, f),
        ]);
        assert_eq!(m.replay.queued(), 1);
        m.event(&Event { ns: 4, who: Who::Domain(1), kind: Kind::TaskCreated, c: 0, a: 12, b: 0 });
        assert_eq!((m.replay.queued(), m.books.domains[&2].sums.tasks), (1, 2));
    }

    #[test]
    fn lost_events_are_not_idleness() {
        let m = model(&[
            (1, 2, Kind::DomainEnter, 0, 2, 7),
            (2, 2, Kind::DomainLeave, 0, 2, 0),
            (2, 2, Kind::Lost, 0, 50, 0),
        ]);
        assert_eq!(state(m.replay.domain(2).unwrap()), "unknown");
    }

    #[test]
    fn what_the_kernel_says_of_this_process() {
        assert!(process::processor_time(std::process::id()).is_some());
        assert!(process::resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 20 {}
        // Some kernels keep no such account.
        if std::path::Path::new("/proc/self/schedstat").exists() {
            let own = perilune_trace::emit::thread_id();
            assert!(process::threads(std::process::id())[&own].processor > 0);
        }
    }
}
