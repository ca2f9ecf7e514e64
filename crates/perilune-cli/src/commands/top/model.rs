//! What a stream of events says about a program now, and about the last interval.
//!
//! Rings are read one after the other, so events of different domains come out of order by the length of a drain; everything here concerns one domain at a time, except
//! tasks, whose creation and start are counted so that either may come first. A tool that attaches has not seen how anything began: a domain that writes an event
//! counts as running since then, and fibers are known from their first event on.
//!
//! What processor time a domain got is asked of the kernel: that of each thread (`/proc/PID/task/TID/schedstat`) is divided among the domains that the thread had in the
//! interval, by how long it had each. The same file says how long the thread could have run and did not.

use perilune_see::Definitions;
use perilune_see::Reader;
use perilune_trace::clock::Scale;
use perilune_trace::event::{Field, Verb};
use perilune_trace::layout::{StackNode, THREAD};
use perilune_trace::read::RawEvent;
use perilune_trace::{FiberRef, Kind, ObjectKind, ObjectRef};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

/// Tasks of which only the creation or only the start has been seen, at most.
const TASKS: usize = 1 << 20;

/// The model.
pub struct Model {
    pid: u32,
    title: String,
    domains: BTreeMap<u32, Domain>,
    /// 1: created, not started; -1: the other way round.
    tasks: HashMap<u64, i8>,
    /// Processor time of functions by the node of the call path, in ns.
    functions: HashMap<u32, u64>,
    events: u64,
    /// What the threads had used before the interval.
    threads: HashMap<u32, Used>,
    /// The main program has written something.
    main_seen: bool,
    /// When the interval began, in ns of `CLOCK_MONOTONIC`; 0: not yet.
    from: u64,
    processor: Option<u64>,
}

/// What is known of a domain.
#[derive(Default)]
struct Domain {
    name: u64,
    has_ended: bool,
    /// Since when, as far as it is not accounted for yet, code of the domain runs, or the collector.
    running: Option<u64>,
    collecting: Option<u64>,
    /// When the collector's step began.
    step: u64,
    /// The thread that has it.
    owner: u32,
    /// How long which threads had it in this interval.
    owned: Vec<(u32, u64)>,
    current: u64,
    fibers: HashMap<u64, Fiber>,
    heap: Option<(u64, u64)>,
    /// The name of the call that the domain blocks in.
    blocked: Option<u64>,
    sums: Sums,
}

/// What a fiber does.
#[derive(Clone, Copy)]
enum Fiber {
    Runs,
    /// For an object, with a verb, since.
    Waits(u64, Verb, u64),
    Parked,
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
            domains: BTreeMap::new(),
            tasks: HashMap::new(),
            functions: HashMap::new(),
            events: 0,
            threads: threads(pid),
            main_seen: false,
            from: 0,
            processor: processor_time(pid),
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
        for e in batch {
            self.event(e, &scale);
        }
    }

    fn event(&mut self, e: &RawEvent, scale: &Scale) {
        let Some(kind) = Kind::from_number(e.kind) else { return };
        let now = || scale.ns(e.ticks);
        match kind {
            Kind::TaskCreated => self.task(e.a, 1),
            Kind::TaskStart => {
                self.task(e.a, -1);
                self.domain(e, scale).sums.tasks += 1;
            }
            Kind::TaskEnd if self.tasks.get(&e.a) == Some(&1) => _ = self.tasks.remove(&e.a),
            Kind::CpuSample => {
                *self.functions.entry(e.a as u32).or_default() += e.b;
                self.domain(e, scale);
            }
            Kind::DomainBegin => self.domains.entry(e.a as u32).or_default().name = e.b,
            Kind::DomainEnd => self.domains.entry(e.a as u32).or_default().has_ended = true,
            Kind::DomainReady | Kind::Wake | Kind::WorkerBegin | Kind::WorkerEnd | Kind::ThreadName => {}
            _ if e.writer & THREAD != 0 => {}
            Kind::DomainEnter => {
                let domain = self.domains.entry(e.writer as u32).or_default();
                domain.running.get_or_insert_with(now);
                domain.owner = e.b as u32;
            }
            Kind::DomainLeave => {
                let domain = self.domain(e, scale);
                domain.account(now());
                domain.running = None;
            }
            Kind::FiberBegin => {
                self.domain(e, scale).fibers.entry(e.a).or_insert(Fiber::Parked);
            }
            Kind::FiberRun => {
                let domain = self.domain(e, scale);
                domain.current = e.a;
                domain.fibers.insert(e.a, Fiber::Runs);
            }
            Kind::FiberPark => {
                let domain = self.domain(e, scale);
                match (e.c, domain.fibers.get_mut(&e.a)) {
                    (1..=3, _) => _ = domain.fibers.remove(&e.a),
                    (_, Some(fiber @ Fiber::Runs)) => *fiber = Fiber::Parked,
                    _ => {}
                }
            }
            Kind::WaitBegin => {
                let domain = self.domain(e, scale);
                domain.fibers.insert(domain.current, Fiber::Waits(e.a, Verb::decode(e.c as u64), now()));
            }
            Kind::WaitEnd => {
                let domain = self.domain(e, scale);
                if let Some(fiber) = domain.fibers.get_mut(&e.b) {
                    *fiber = if e.b == domain.current { Fiber::Runs } else { Fiber::Parked };
                }
            }
            Kind::BlockBegin => self.domain(e, scale).blocked = Some(e.a),
            Kind::BlockEnd => self.domain(e, scale).blocked = None,
            Kind::StepBegin => {
                let domain = self.domain(e, scale);
                domain.step = now();
                domain.collecting = Some(domain.step);
            }
            Kind::StepEnd => {
                let domain = self.domain(e, scale);
                domain.account(now());
                if domain.collecting.take().is_some() {
                    domain.sums.worst = domain.sums.worst.max(now().saturating_sub(domain.step));
                }
                domain.heap = Some((e.a, e.b));
            }
            Kind::HeapLive => self.domain(e, scale).heap = Some((e.a, e.b)),
            Kind::MinorEnd => self.domain(e, scale).sums.allocated += e.a,
            _ => {}
        }
    }

    /// The domain that wrote the event; it runs.
    fn domain(&mut self, e: &RawEvent, scale: &Scale) -> &mut Domain {
        let domain = self.domains.entry(e.writer as u32).or_default();
        domain.running.get_or_insert_with(|| scale.ns(e.ticks));
        domain
    }

    /// The main program as the kernel sees it: it has been in a call since before the tool attached, or has nothing to tell.
    fn silent_main(&self, used: &HashMap<u32, Used>, length: u64) -> Option<Row> {
        let stat = std::fs::read_to_string(format!("/proc/{0}/task/{0}/stat", self.pid)).ok()?;
        let sleeps = !stat.get(stat.rfind(')')? + 1..)?.trim_start().starts_with('R');
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

    fn task(&mut self, task: u64, by: i8) {
        if self.tasks.len() >= TASKS {
            self.tasks.clear();
        }
        let count = self.tasks.entry(task).or_default();
        *count += by;
        if *count == 0 {
            self.tasks.remove(&task);
        }
    }

    /// What happened since the last call, up to `until` (`CLOCK_MONOTONIC`); the next interval begins then.
    pub fn interval(&mut self, reader: &Reader, until: u64) -> Interval {
        let from = std::mem::replace(&mut self.from, until);
        let length = until.saturating_sub(from).max(1);
        let d = reader.definitions();
        let mut rows = Vec::new();
        self.domains.values_mut().for_each(|domain| domain.account(until));
        let used = threads(self.pid);
        // By thread: what it used in this interval, and how long it had domains.
        let mut had: HashMap<u32, (Used, u64)> = HashMap::new();
        for &(thread, ns) in self.domains.values().flat_map(|domain| &domain.owned) {
            let before = self.threads.get(&thread).copied().unwrap_or_default();
            let Some(now) = used.get(&thread) else { continue };
            let delta = Used {
                processor: now.processor.saturating_sub(before.processor),
                delayed: now.delayed.saturating_sub(before.delayed),
            };
            had.entry(thread).or_insert((delta, 0)).1 += ns;
        }
        self.main_seen |= self.domains.contains_key(&1);
        if !self.main_seen
            && let Some(main) = self.silent_main(&used, length)
        {
            rows.push(main);
        }
        self.threads = used;
        for (&number, domain) in &mut self.domains {
            let owned = std::mem::take(&mut domain.owned);
            let mut got = owned.is_empty().then_some((0.0, 0.0));
            for (thread, ns) in owned {
                let Some((used, all)) = had.get(&thread) else { continue };
                let part = ns as f64 / (*all).max(1) as f64 / length as f64;
                let (processor, delayed) = got.unwrap_or_default();
                let (more, later) = (used.processor as f64 * part, used.delayed as f64 * part);
                got = Some((processor + more, delayed + later));
            }
            let sums = std::mem::take(&mut domain.sums);
            let share = |ns: u64| (ns as f64 / length as f64).min(1.0);
            let waits: Vec<_> = domain.waits().collect();
            rows.push(Row {
                number,
                name: match (number, domain.name) {
                    (1, _) => "main".into(),
                    (_, 0) => String::new(),
                    (_, name) => d.string(name),
                },
                state: domain.state(),
                run: share(sums.run),
                processor: got.map(|(processor, _)| processor),
                delayed: got.map(|(_, delayed)| delayed),
                gc: share(sums.gc),
                worst_ns: sums.worst,
                heap: domain.heap,
                allocated: sums.allocated,
                running: domain.fibers.values().filter(|f| matches!(f, Fiber::Runs)).count(),
                waiting: domain.fibers.values().filter(|f| !matches!(f, Fiber::Runs)).count(),
                tasks: sums.tasks,
                waits_for: match (domain.blocked, waits.first()) {
                    (Some(call), _) => format!("in {}", d.string(call)),
                    (_, None) => String::new(),
                    (_, Some((object, verb, _))) => {
                        let verb = verb.word();
                        let object = ObjectRef(*object);
                        // A sleep is no timer of anybody's.
                        let is_sleep = object.number() == 0 && object.kind() == ObjectKind::Timer;
                        let is_named = object != ObjectRef::NONE && !is_sleep;
                        let object = if is_named { format!(" {}", d.object(object)) } else { String::new() };
                        let others = waits.len() - 1;
                        let others = if others > 0 { format!(" (+{others})") } else { String::new() };
                        format!("{verb}{object}{others}")
                    }
                },
            });
        }
        // Those that have ended have been shown once more.
        self.domains.retain(|_, domain| !domain.has_ended);
        let mut functions: Vec<(String, u64)> = Vec::new();
        let sampled: u64 = self.functions.values().sum();
        for (node, ns) in self.functions.drain() {
            let name = d.stack(node).map_or_else(|| "?".into(), |node| function(d, node));
            match functions.iter_mut().find(|(n, _)| *n == name) {
                Some((_, sum)) => *sum += ns,
                None => functions.push((name, ns)),
            }
        }
        functions.sort_by(|x, y| y.1.cmp(&x.1).then_with(|| x.0.cmp(&y.0)));
        functions.truncate(10);
        let processor = processor_time(self.pid);
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
            resident: resident(self.pid),
            queued: self.tasks.values().filter(|n| **n > 0).count(),
            events: std::mem::take(&mut self.events),
            lost: reader.lost(),
            domains: rows,
            functions: functions.into_iter().map(|(name, ns)| (name, ns as f64 / sampled as f64)).collect(),
        }
    }
}

impl Domain {
    /// Adds up to this moment what runs.
    fn account(&mut self, now: u64) {
        if let Some(since) = self.running {
            let ns = now.saturating_sub(since);
            match self.owned.iter_mut().find(|(thread, _)| *thread == self.owner) {
                Some((_, sum)) => *sum += ns,
                None => self.owned.push((self.owner, ns)),
            }
        }
        for (since, sum) in
            [(&mut self.running, &mut self.sums.run), (&mut self.collecting, &mut self.sums.gc)]
        {
            if let Some(since) = since {
                *sum += now.saturating_sub(*since);
                *since = now.max(*since);
            }
        }
    }

    fn state(&self) -> &'static str {
        match self {
            Domain { has_ended: true, .. } => "ended",
            Domain { blocked: Some(_), .. } => "blocked",
            Domain { collecting: Some(_), .. } => "collects",
            Domain { running: Some(_), .. } => "runs",
            _ if self.waits().next().is_some() => "waits",
            _ => "idle",
        }
    }

    /// What fibers wait for, the main code first, then who has waited longest.
    fn waits(&self) -> impl Iterator<Item = (u64, Verb, u64)> {
        let mut waits: Vec<_> = self
            .fibers
            .iter()
            .filter_map(|(fiber, state)| match state {
                Fiber::Waits(object, verb, since) => {
                    Some((FiberRef(*fiber).index() != FiberRef::ROOT, *since, (*object, *verb)))
                }
                _ => None,
            })
            .collect();
        waits.sort_unstable();
        waits.into_iter().map(|(_, since, (object, verb))| (object, verb, since))
    }
}

/// A function for people, wherever in it the sample was taken: what has no name is called by its place already.
fn function(d: &Definitions, node: &StackNode) -> String {
    let name = d.string(node.function as u64);
    match (node.source, node.defined) {
        (0, _) | (_, 0) => name,
        _ if name.contains('<') => name,
        (source, line) => format!("{name} ({}:{line})", d.string(source as u64)),
    }
}

/// Processor time of a process, in ns.
fn processor_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // SAFETY: asks for a number.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Some((user + system) * (1_000_000_000 / hz))
}

/// What a thread has used, in ns.
#[derive(Default, Clone, Copy)]
struct Used {
    processor: u64,
    delayed: u64,
}

/// What the threads of a process have used; those of which the kernel tells nothing are left out.
fn threads(pid: u32) -> HashMap<u32, Used> {
    let used = |thread: &std::fs::DirEntry| {
        let number = thread.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map_while(|field| field.parse().ok());
        Some((number, Used { processor: fields.next()?, delayed: fields.next()? }))
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.map_or_else(|_| HashMap::new(), |all| all.flatten().filter_map(|t| used(&t)).collect())
}

/// Bytes of memory that a process has.
fn resident(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    Some(statm.split_whitespace().nth(1)?.parse::<u64>().ok()? * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(events: &[(u64, u64, Kind, u16, u64, u64)]) -> Model {
        let mut model = Model::new(0, String::new());
        let scale = Scale { first: (0, 0), ratio: 1.0 };
        for &(ticks, writer, kind, c, a, b) in events {
            model.event(&RawEvent { ticks, ring: writer as u32, kind: kind as u16, c, writer, a, b }, &scale);
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
        let d = m.domains.get_mut(&1).unwrap();
        d.account(200);
        let s = d.sums;
        assert_eq!((s.run, s.gc, s.worst, s.allocated), (80, 40, 20, 4096));
        assert_eq!((d.heap, d.state()), (Some((500, 900)), "collects"));
        // The next interval goes on where this one ended.
        d.sums = Sums::default();
        d.account(230);
        assert_eq!((d.sums.run, d.sums.gc), (30, 30));
        assert_eq!(d.owned, [(7, 110)]);
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
        let d = &m.domains[&2];
        assert_eq!(d.state(), "waits");
        assert_eq!(d.waits().collect::<Vec<_>>(), [(78, Verb::Awaits, 5), (77, Verb::Receives, 2)]);
        assert_eq!(d.fibers.len(), 2);
    }

    #[test]
    fn tasks_are_counted_in_either_order() {
        let mut m = model(&[
            (1, 1, Kind::TaskCreated, 0, 10, 0),
            (2, 1, Kind::TaskCreated, 0, 11, 0),
            (3, 2, Kind::TaskStart, 0, 11, 0),
            (4, 2, Kind::TaskStart, 0, 12, 0),
        ]);
        assert_eq!(m.tasks.values().filter(|n| **n > 0).count(), 1);
        m.task(12, 1);
        assert_eq!(m.tasks.len(), 1);
        assert_eq!(m.domains[&2].sums.tasks, 2);
    }

    #[test]
    fn what_the_kernel_says_of_this_process() {
        assert!(processor_time(std::process::id()).is_some());
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 20 {}
        // Some kernels keep no such account.
        if std::path::Path::new("/proc/self/schedstat").exists() {
            let own = perilune_trace::emit::thread_id();
            assert!(threads(std::process::id())[&own].processor > 0);
        }
    }
}
