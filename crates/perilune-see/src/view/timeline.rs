//! From a trace to rows of bars: one pass over the events, in order of time.
//!
//! Each fiber is in one state at a time: running, ready, waiting or blocked. Events move it from state to
//! state, and each move ends a bar and begins the next:
//!
//! ```text
//!              FiberRun                    FiberPark 0                Wake
//!   (nothing) ─────────▶ running ────────────────────▶ waiting ─────────────▶ ready ──▶ running
//!                           │ BlockBegin, FiberPark 4      (for what: WaitBegin before)
//!                           └──────────▶ blocked ─── BlockEnd, FiberRun ──▶ running
//! ```
//! The domain as a whole has a row as well, which says whose bar it is at the moment, or that the collector
//! has stopped it.
//!
//! Events may be missing, at the beginning of a session or where a ring has been overwritten. What ends
//! without a beginning is left out; what begins and does not end lasts until the end of the trace or until
//! something else shows that it cannot have lasted; nothing is invented to make up for the rest.

mod arrange;
mod collector;
mod kernel;

use self::kernel::Kernel;
use super::model::*;
use super::names::{HashMap, Names};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, Field, Kind, ObjectRef, Slowness, Verb};
use std::collections::BTreeSet;

/// A bar that has begun.
#[derive(Clone, Copy)]
struct Open {
    start: u64,
    class: Class,
    label: Label,
    stack: u32,
    x: u64,
}

/// What opened a bar above level 0.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(Kind, u64, u64);

struct OpenSpan {
    key: Key,
    level: usize,
    open: Open,
}

/// A fiber's place, or a thread.
struct Place {
    row: u32,
    generation: u32,
    state: Option<Open>,
    /// Wait that was begun in this run.
    wait: Option<Open>,
    spans: Vec<OpenSpan>,
    /// Name of the fiber, and of the task that it runs.
    name: Label,
    task: Option<(Label, u64)>,
}

#[derive(Default)]
struct Domain {
    activity: u32,
    collector: u32,
    owner: u32,
    /// Fiber that runs, by its index.
    current: Option<u32>,
    owned: Option<Open>,
    shown: Option<Open>,
    /// What `shown` is when the collector has done.
    under: Option<Open>,
    phases: Vec<(Kind, Open)>,
}

struct Builder<'a> {
    trace: &'a Trace,
    names: Names,
    rows: Vec<Row>,
    domains: HashMap<u32, Domain>,
    domain_names: HashMap<u32, Label>,
    places: HashMap<(u32, u32), Place>,
    threads: HashMap<u32, Place>,
    curves: HashMap<(u32, u64), u32>,
    samples: HashMap<u32, u32>,
    created: HashMap<u64, (u64, u32, Label)>,
    links: Vec<Link>,
    /// Row and level of the part of a loop that has just ended.
    ended_part: Option<(Who, u32, usize)>,
    kernel: Kernel,
}

/// Threads outside of domains, among domains' numbers.
const THREADS: u32 = u32::MAX;
/// Processors, likewise.
const PROCESSORS: u32 = u32::MAX - 1;

impl Timeline {
    /// Makes rows of a trace.
    pub fn new(trace: &Trace) -> Timeline {
        let mut b = Builder {
            trace,
            names: Names::new(),
            rows: Vec::new(),
            domains: HashMap::default(),
            domain_names: HashMap::default(),
            places: HashMap::default(),
            threads: HashMap::default(),
            curves: HashMap::default(),
            samples: HashMap::default(),
            created: HashMap::default(),
            links: Vec::new(),
            ended_part: None,
            kernel: Kernel::default(),
        };
        for (at, event) in trace.events.iter().enumerate() {
            b.event(at, event);
        }
        b.finish()
    }
}

fn push(row: &mut Row, level: usize, open: Open, end: u64, y: u64) {
    if row.levels.len() <= level {
        row.levels.resize_with(level + 1, Level::default);
    }
    let bars = &mut row.levels[level].bars;
    // A clock may stand still, never go back.
    let start = open.start.max(bars.last().map_or(0, |b| b.end));
    let end = end.max(start);
    bars.push(Bar { start, end, x: open.x, y, label: open.label, stack: open.stack, class: open.class });
}

/// Begins a bar above level 0, on the lowest level that is free.
fn open_in(place: &mut Place, key: Key, open: Open) {
    let level = (1..).find(|l| place.spans.iter().all(|s| s.level != *l)).unwrap_or(1);
    place.spans.push(OpenSpan { key, level, open });
}

impl Builder<'_> {
    fn row(&mut self, kind: RowKind, group: u32, number: u64, name: String) -> u32 {
        self.rows.push(Row {
            kind,
            group,
            number,
            name,
            levels: Vec::new(),
            moments: Vec::new(),
            points: Vec::new(),
            unit: Unit::None,
        });
        self.rows.len() as u32 - 1
    }

    fn domain(&mut self, n: u32) -> &mut Domain {
        if !self.domains.contains_key(&n) {
            let d = Domain {
                activity: self.row(RowKind::Activity, n, 0, "activity".into()),
                collector: self.row(RowKind::Collector, n, 0, "collections".into()),
                owner: self.row(RowKind::Owner, n, 0, "thread".into()),
                ..Domain::default()
            };
            self.domains.insert(n, d);
        }
        self.domains.entry(n).or_default()
    }

    fn place(&mut self, fiber: FiberRef) -> &mut Place {
        let key = (fiber.domain(), fiber.index());
        if !self.places.contains_key(&key) {
            let _ = self.domain(key.0);
            let row = match key.1 {
                FiberRef::ROOT => self.row(RowKind::Root, key.0, 0, "main code".into()),
                n => self.row(RowKind::Fiber, key.0, n as u64, format!("fiber {n}")),
            };
            let name = self.names.plain(if key.1 == FiberRef::ROOT { "main code" } else { "" });
            self.places.insert(
                key,
                Place {
                    row,
                    generation: fiber.generation(),
                    state: None,
                    wait: None,
                    spans: Vec::new(),
                    name,
                    task: None,
                },
            );
        }
        self.places.get_mut(&key).unwrap_or_else(|| unreachable!("it has just been put there"))
    }

    fn thread(&mut self, tid: u32) -> &mut Place {
        if !self.threads.contains_key(&tid) {
            let row = self.row(RowKind::Thread, THREADS, tid as u64, format!("thread {tid}"));
            self.threads.insert(
                tid,
                Place {
                    row,
                    generation: 0,
                    state: None,
                    wait: None,
                    spans: Vec::new(),
                    name: Label::default(),
                    task: None,
                },
            );
        }
        self.threads.get_mut(&tid).unwrap_or_else(|| unreachable!("it has just been put there"))
    }

    /// Whose events these are at the moment: the running fiber, the domain's root, or the thread.
    fn whose(&mut self, who: Who) -> &mut Place {
        match who {
            Who::Thread(tid) => self.thread(tid),
            Who::Domain(n) => {
                let index = self.domain(n).current.unwrap_or(FiberRef::ROOT);
                let generation = self.places.get(&(n, index)).map_or(0, |p| p.generation);
                self.place(FiberRef::new(n, generation, index))
            }
        }
    }

    /// The row of what happens now: the running fiber's, or the domain's own while none runs.
    fn row_of(&mut self, who: Who) -> u32 {
        match who {
            Who::Domain(n) if self.domain(n).current.is_none() => self.domain(n).activity,
            _ => self.whose(who).row,
        }
    }

    /// Moves a fiber or thread to another state.
    fn turn(&mut self, who: (u32, u32), to: Option<Open>, at: u64, y: u64) {
        let place = if who.0 == THREADS { self.threads.get_mut(&who.1) } else { self.places.get_mut(&who) };
        let Some(place) = place else { return };
        let old = std::mem::replace(&mut place.state, to);
        let row = place.row as usize;
        if let Some(old) = old
            && (at > old.start || old.class == Class::Run)
        {
            push(&mut self.rows[row], 0, old, at, y);
        }
    }

    /// What the domain is at.
    fn show(&mut self, domain: u32, what: Option<Open>, at: u64) {
        let d = self.domain(domain);
        let (old, row) = (std::mem::replace(&mut d.shown, what), d.activity as usize);
        if let Some(old) = old
            && at > old.start
        {
            push(&mut self.rows[row], 0, old, at, 0);
        }
    }

    /// The same, unless the collector has it: then later.
    fn show_under(&mut self, domain: u32, what: Option<Open>, at: u64) {
        let d = self.domain(domain);
        if d.phases.is_empty() {
            self.show(domain, what, at);
        } else {
            d.under = what;
        }
    }

    fn looks_for_work(&mut self, domain: u32, at: u64) -> Option<Open> {
        let owned = self.domain(domain).owned?;
        let label = self.names.plain("between fibers");
        Some(Open { start: at, class: Class::Own, label, stack: 0, x: owned.x })
    }

    fn moment(&mut self, row: u32, e: &Event, label: Label, stack: u32, x: u64) {
        self.rows[row as usize].moments.push(Moment { ns: e.ns, kind: e.kind, label, stack, x });
    }

    fn curve(&mut self, domain: u32, key: u64, name: &str, unit: Unit, ns: u64, value: f64) {
        let row = match self.curves.get(&(domain, key)) {
            Some(&row) => row,
            None => {
                let row = self.row(RowKind::Counter, domain, key, name.to_owned());
                self.rows[row as usize].unit = unit;
                self.curves.insert((domain, key), row);
                row
            }
        };
        let points = &mut self.rows[row as usize].points;
        if points.last().is_none_or(|p| p.1 != value) {
            points.push((ns, value));
        }
    }

    fn open_span(&mut self, who: Who, key: Key, open: Open) {
        let place = self.whose(who);
        open_in(place, key, open);
    }

    /// Ends the span of this key, which may have been begun by another fiber of the domain.
    fn close_span(&mut self, who: Who, key: Key, at: u64) {
        let find = |p: &mut Place| {
            let n = p.spans.iter().rposition(|s| s.key == key)?;
            Some((p.row, p.spans.remove(n)))
        };
        let mut found = find(self.whose(who));
        if found.is_none()
            && let Who::Domain(n) = who
            && matches!(key.0, Kind::SpanBegin | Kind::PartBegin)
        {
            found = self.places.iter_mut().filter(|(k, _)| k.0 == n).find_map(|(_, p)| find(p));
        }
        if let Some((row, span)) = found {
            push(&mut self.rows[row as usize], span.level, span.open, at, 0);
            if key.0 == Kind::PartBegin {
                self.ended_part = Some((who, row, span.level));
            }
        }
    }

    fn run(&mut self, domain: u32, fiber: FiberRef, at: u64) {
        if let Some(other) = self.domain(domain).current {
            // Its end has been lost.
            self.turn((domain, other), None, at, 0);
        }
        let place = self.place(fiber);
        if place.generation != fiber.generation() {
            (place.generation, place.task, place.wait) = (fiber.generation(), None, None);
            place.spans.clear();
            place.name = Label::default();
        }
        let (label, x) = place.task.unwrap_or((place.name, 0));
        let open = Open { start: at, class: Class::Run, label, stack: 0, x };
        self.turn((domain, fiber.index()), Some(open), at, 0);
        self.domain(domain).current = Some(fiber.index());
        self.show_under(domain, Some(open), at);
    }

    fn park(&mut self, domain: u32, fiber: FiberRef, why: u16, at: u64) {
        let wait = self.place(fiber).wait.take();
        let blocked = self.place(fiber).state.filter(|s| s.class == Class::Block && why == 4);
        let next = match why {
            0 => Some(wait.map_or(
                Open { start: at, class: Class::Wait, label: self.names.plain("waits"), stack: 0, x: 0 },
                |w| Open { start: at, ..w },
            )),
            4 if blocked.is_some() => blocked,
            4 => {
                let label = self.names.plain("in a blocking call");
                let blocked = Open { start: at, class: Class::Block, label, stack: 0, x: 0 };
                Some(wait.map_or(blocked, |w| Open { start: at, ..w }))
            }
            _ => None,
        };
        // A call that it is in already goes on.
        if blocked.is_none() {
            self.turn((domain, fiber.index()), next, at, why as u64 + 1);
        }
        if next.is_none() {
            let place = self.place(fiber);
            let (row, spans) = (place.row as usize, std::mem::take(&mut place.spans));
            place.task = None;
            for span in spans {
                push(&mut self.rows[row], span.level, span.open, at, 0);
            }
        }
        self.domain(domain).current = None;
        let between = self.looks_for_work(domain, at);
        self.show_under(domain, between, at);
    }

    fn event(&mut self, at: usize, e: &Event) {
        let trace = self.trace;
        let (ns, who) = (e.ns, e.who);
        let domain = match who {
            Who::Domain(n) => n,
            Who::Thread(_) => THREADS,
        };
        match e.kind {
            Kind::DomainBegin => {
                let name = self.names.defined(trace, e.b);
                self.domain_names.insert(e.a as u32, name);
                let _ = self.domain(e.a as u32);
            }
            Kind::DomainEnter if domain != THREADS => {
                let label = self.names.plain("thread");
                let label = Label::numbered(label.name());
                let open = Open { start: ns, class: Class::Own, label, stack: 0, x: e.b << 4 };
                self.domain(domain).owned = Some(open);
                self.kernel_enters(domain, e.b as u32, ns);
                let between = self.looks_for_work(domain, ns);
                self.show_under(domain, between, ns);
            }
            Kind::DomainLeave if domain != THREADS => {
                let d = self.domain(domain);
                let (row, owned) = (d.owner as usize, d.owned.take());
                if let Some(open) = owned {
                    push(&mut self.rows[row], 0, open, ns, 0);
                }
                self.kernel_leaves(domain, ns);
                self.show_under(domain, None, ns);
            }
            Kind::FiberBegin => {
                let name = self.names.defined(trace, e.b);
                let fiber = FiberRef(e.a);
                let place = self.place(fiber);
                if place.generation != fiber.generation() {
                    (place.task, place.wait) = (None, None);
                    place.spans.clear();
                }
                (place.name, place.generation) = (name, fiber.generation());
                let label = self.names.plain("waits for its turn");
                let open = Open { start: ns, class: Class::Ready, label, stack: 0, x: 0 };
                self.turn((fiber.domain(), fiber.index()), Some(open), ns, 0);
            }
            Kind::FiberRun if domain != THREADS => self.run(domain, FiberRef(e.a), ns),
            Kind::FiberPark if domain != THREADS => self.park(domain, FiberRef(e.a), e.c, ns),
            Kind::ThreadName => {
                let name = trace.definitions.string(e.b);
                let row = self.thread(e.a as u32).row as usize;
                self.rows[row].name = format!("{name} ({})", e.a);
            }
            Kind::WorkerBegin | Kind::WorkerEnd => {
                let row = self.thread(e.a as u32).row;
                let label = self.names.plain(e.kind.info().name);
                self.moment(row, e, label, 0, 0);
            }
            Kind::TaskCreated => {
                let label = self.names.defined(trace, e.b);
                let row = self.row_of(who);
                self.created.insert(e.a, (ns, row, label));
                self.moment(row, e, label, 0, compact(ObjectRef(e.a)));
            }
            Kind::TaskStart => {
                let x = compact(ObjectRef(e.a));
                let fiber = FiberRef(e.b);
                let created = self.created.remove(&e.a);
                let label = match created {
                    Some((_, _, label)) if label != Label::default() => label,
                    _ => self.names.object(trace, "", ObjectRef(e.a)),
                };
                let running =
                    self.domains.get(&fiber.domain()).is_some_and(|d| d.current == Some(fiber.index()));
                let place = self.place(fiber);
                place.task = Some((label, x));
                // It may run already.
                if let Some(state) = &mut place.state
                    && matches!(state.class, Class::Run | Class::Ready)
                {
                    (state.label, state.x) = (if state.class == Class::Run { label } else { state.label }, x);
                }
                let to_row = place.row;
                if running && let Some(d) = self.domains.get_mut(&fiber.domain()) {
                    let shown = if d.phases.is_empty() { &mut d.shown } else { &mut d.under };
                    if let Some(open) = shown {
                        (open.label, open.x) = (label, x);
                    }
                }
                if let Some((from_ns, from_row, _)) = created {
                    self.links.push(Link { from_ns, to_ns: ns, from_row, to_row, x, kind: LinkKind::Create });
                }
            }
            Kind::TaskEnd => {
                let fiber = FiberRef(e.b);
                if self.places.contains_key(&(fiber.domain(), fiber.index())) {
                    let place = self.place(fiber);
                    if place.state.is_none() {
                        place.task = None;
                    }
                }
            }
            Kind::LoopBegin => {
                let object = ObjectRef(e.a);
                let label = self.names.object(trace, "", object);
                let open =
                    Open { start: ns, class: Class::Part, label, stack: e.b as u32, x: compact(object) };
                self.open_span(who, Key(e.kind, e.a, 0), open);
            }
            Kind::LoopEnd => self.close_span(who, Key(Kind::LoopBegin, e.a, 0), ns),
            Kind::PartBegin => {
                let object = ObjectRef(e.a);
                let label = self.names.object(trace, "part of", object);
                let open = Open { start: ns, class: Class::Part, label, stack: 0, x: compact(object) };
                let fiber = FiberRef(e.b);
                let place = if fiber.0 == 0 { self.whose(who) } else { self.place(fiber) };
                open_in(place, Key(e.kind, e.a, e.b), open);
            }
            Kind::PartEnd => {
                self.ended_part = None;
                self.close_span(who, Key(Kind::PartBegin, e.a, e.b), ns);
            }
            Kind::PartRange => {
                // Behind an end: which iterations were done.
                if let Some((_, row, level)) = self.ended_part.take().filter(|p| p.0 == who)
                    && let Some(bar) = self.rows[row as usize].levels[level].bars.last_mut()
                {
                    bar.y = e.b.wrapping_sub(e.a);
                }
            }
            Kind::WaitBegin => {
                let object = ObjectRef(e.a);
                let label = self.names.wait(trace, Verb::decode(e.c as u64), object);
                let open =
                    Open { start: ns, class: Class::Wait, label, stack: e.b as u32, x: compact(object) };
                self.whose(who).wait = Some(open);
            }
            Kind::WaitEnd => {
                let fiber = FiberRef(e.b);
                let key = (fiber.domain(), fiber.index());
                if let Some(place) = self.places.get_mut(&key) {
                    place.wait = None;
                    // The wait that has ended is the bar before the one that is open, if the fiber waited at
                    // all.
                    let row = place.row as usize;
                    let bars = self.rows[row].levels.first_mut().map(|l| &mut l.bars);
                    if let Some(bar) =
                        bars.and_then(|b| b.iter_mut().rev().take(3).find(|b| b.class == Class::Wait))
                        && bar.x == compact(ObjectRef(e.a))
                    {
                        bar.y = e.c as u64 + 1;
                    }
                }
            }
            Kind::Wake => {
                let fiber = FiberRef(e.a);
                let x = compact(ObjectRef(e.b));
                let from_row = self.row_of(who);
                let key = (fiber.domain(), fiber.index());
                if fiber.0 == 0 || !self.places.contains_key(&key) {
                    return;
                }
                let label = self.names.plain("woken, waits for its turn");
                let place = self.place(fiber);
                let to_row = place.row;
                if let Some(state) = place.state
                    && state.class == Class::Wait
                {
                    let open = Open { start: ns, class: Class::Ready, label, ..state };
                    self.turn(key, Some(open), ns, 0);
                }
                self.links.push(Link { from_ns: ns, to_ns: ns, from_row, to_row, x, kind: LinkKind::Wake });
            }
            Kind::StepBegin
            | Kind::MinorBegin
            | Kind::SliceBegin
            | Kind::SweepBegin
            | Kind::FinalizeBegin => {
                self.phase_begins(domain, e);
            }
            Kind::StepEnd
            | Kind::MinorEnd
            | Kind::SliceEnd
            | Kind::SweepEnd
            | Kind::FinalizeEnd
            | Kind::CloseEnd => {
                self.phase_ends(domain, e);
            }
            Kind::PauseAt if domain != THREADS => {
                let row = self.domain(domain).collector as usize;
                if let Some(bar) = self.rows[row].levels.first_mut().and_then(|l| l.bars.last_mut()) {
                    bar.stack = e.a as u32;
                }
            }
            Kind::ScopeDissolved
            | Kind::IslandMade
            | Kind::IslandFreed
            | Kind::MajorBegin
            | Kind::Trimmed
            | Kind::MemoryRefused
                if domain != THREADS =>
            {
                let row = self.domain(domain).collector;
                let label = self.names.plain(e.kind.info().name);
                self.moment(row, e, label, 0, e.a);
            }
            Kind::HeapLive if domain != THREADS => {
                self.curve(domain, 0, "heap: alive", Unit::Bytes, ns, e.a as f64);
                self.curve(domain, 1, "heap: mapped", Unit::Bytes, ns, e.b as f64);
            }
            Kind::Nursery if domain != THREADS => {
                self.curve(domain, 2, "nursery", Unit::Bytes, ns, e.a as f64);
            }
            Kind::Counter => {
                let name = trace.definitions.string(e.a);
                self.curve(domain, 16 + e.a, &name, Unit::None, ns, f64::from_bits(e.b));
            }
            Kind::BlockBegin => {
                let label = self.names.defined(trace, e.a);
                let place = self.whose(who);
                let open = Open { start: ns, class: Class::Block, label, stack: e.b as u32, x: 0 };
                let key = match who {
                    Who::Domain(n) => (n, self.domain(n).current.unwrap_or(FiberRef::ROOT)),
                    Who::Thread(tid) => {
                        place.state = None;
                        (THREADS, tid)
                    }
                };
                self.turn(key, Some(open), ns, 0);
                if domain != THREADS {
                    self.show_under(domain, Some(open), ns);
                }
            }
            Kind::BlockEnd => {
                let key = match who {
                    Who::Domain(n) => (n, self.domain(n).current.unwrap_or(FiberRef::ROOT)),
                    Who::Thread(tid) => (THREADS, tid),
                };
                let place = self.whose(who);
                if place.state.is_some_and(|s| s.class == Class::Block) {
                    let (label, x) = place.task.unwrap_or((place.name, 0));
                    let open = (domain != THREADS).then_some(Open {
                        start: ns,
                        class: Class::Run,
                        label,
                        stack: 0,
                        x,
                    });
                    self.turn(key, open, ns, 0);
                    if domain != THREADS {
                        self.show_under(domain, open, ns);
                    }
                }
            }
            Kind::Lost => self.gap(e),
            Kind::CpuBegin | Kind::CpuEnd | Kind::CpuOther | Kind::SchedStat => self.kernel_event(e),
            Kind::Resume => {
                let label = Label::numbered(self.names.number("coroutine"));
                let open = Open { start: ns, class: Class::Coroutine, label, stack: 0, x: e.a << 4 };
                self.open_span(who, Key(e.kind, e.a, 0), open);
            }
            Kind::Yield => self.close_span(who, Key(Kind::Resume, e.a, 0), ns),
            Kind::LoadBegin => {
                let label = self.names.defined(trace, e.a);
                let open = Open { start: ns, class: Class::Load, label, stack: 0, x: e.b };
                self.open_span(who, Key(e.kind, e.a, 0), open);
            }
            Kind::LoadEnd => self.close_span(who, Key(Kind::LoadBegin, e.a, 0), ns),
            Kind::CompileBegin => {
                let label = self.names.defined(trace, e.a);
                let open = Open { start: ns, class: Class::Load, label, stack: 0, x: e.b };
                self.open_span(who, Key(e.kind, 0, 0), open);
            }
            Kind::CompileEnd => self.close_span(who, Key(Kind::CompileBegin, 0, 0), ns),
            Kind::CodeInstalled | Kind::CodeGivenUp => {
                let label = self.names.plain(e.kind.info().name);
                let row = self.row_of(who);
                self.moment(row, e, label, 0, e.b);
            }
            Kind::SpanBegin => {
                let label = self.names.defined(trace, e.a);
                let open = Open { start: ns, class: Class::Span, label, stack: 0, x: e.b };
                self.open_span(who, Key(e.kind, e.a, e.b), open);
            }
            Kind::SpanEnd => self.close_span(who, Key(Kind::SpanBegin, e.a, e.b), ns),
            Kind::RequestBegin => {
                let label = self.names.defined(trace, e.b);
                let open = Open { start: ns, class: Class::Span, label, stack: 0, x: 0 };
                self.open_span(who, Key(e.kind, e.a, 0), open);
            }
            Kind::RequestHandled => {
                let label = self.names.plain("writes the answer");
                let open = Open { start: ns, class: Class::Span, label, stack: 0, x: 0 };
                self.open_span(who, Key(e.kind, e.a, 0), open);
            }
            Kind::RequestEnd => {
                self.close_span(who, Key(Kind::RequestHandled, e.a, 0), ns);
                self.close_span(who, Key(Kind::RequestBegin, e.a, 0), ns);
            }
            Kind::SlowWait | Kind::SmallWrites => {
                let object = ObjectRef(e.a);
                let word = match e.kind {
                    Kind::SlowWait => Slowness::decode(e.c as u64).word(),
                    _ => e.kind.info().name,
                };
                let label = self.names.object(trace, word, object);
                let row = self.row_of(who);
                self.moment(row, e, label, 0, compact(object));
            }
            Kind::Mark => {
                let label = self.names.defined(trace, e.a);
                let row = self.row_of(who);
                self.moment(row, e, label, 0, 0);
            }
            Kind::Log | Kind::Error => {
                let text = trace.text(at);
                let label = self.names.plain(&text);
                let row = self.row_of(who);
                self.moment(row, e, label, 0, 0);
            }
            Kind::CpuSample => {
                let row = match self.samples.get(&domain) {
                    Some(&row) => row,
                    None => {
                        let row = self.row(RowKind::Samples, domain, 0, "samples".into());
                        self.samples.insert(domain, row);
                        row
                    }
                };
                let stack = e.a as u32;
                let name = match trace.definitions.frames(stack).next() {
                    Some(node) => trace.definitions.frame(node),
                    None => "no call path".to_owned(),
                };
                let label = self.names.plain(&name);
                self.moment(row, e, label, stack, e.b);
            }
            Kind::TimerFired | Kind::Contended | Kind::TaskStolen | Kind::ChannelSend | Kind::ChannelRecv => {
                let (word, object) = (e.kind.info().name, ObjectRef(e.a));
                let (label, x) = match e.kind {
                    Kind::TimerFired => (self.names.plain(word), e.a),
                    _ => (self.names.object(trace, word, object), compact(object)),
                };
                let fiber = FiberRef(e.b);
                let row = match e.kind {
                    Kind::TimerFired if self.places.contains_key(&(fiber.domain(), fiber.index())) => {
                        self.place(fiber).row
                    }
                    _ => self.row_of(who),
                };
                self.moment(row, e, label, 0, x);
            }
            _ => {}
        }
    }

    /// Events of this writer are lost from here on: what it was at is not known any more (`replay/mod.rs`),
    /// so its bars end.
    fn gap(&mut self, e: &Event) {
        let label = self.names.plain("events are lost");
        let row = match e.who {
            Who::Domain(n) => self.domain(n).activity,
            Who::Thread(_) => self.whose(e.who).row,
        };
        self.moment(row, e, label, 0, e.a);
        let is_its = |group: u32| e.who == Who::Domain(group);
        let threads = self.threads.iter_mut().filter(|(tid, _)| e.who == Who::Thread(**tid));
        let places = self.places.iter_mut().filter(|((domain, _), _)| is_its(*domain));
        for place in threads.map(|(_, p)| p).chain(places.map(|(_, p)| p)) {
            let row = &mut self.rows[place.row as usize];
            if let Some(open) = place.state.take() {
                push(row, 0, open, e.ns, 0);
            }
            for span in std::mem::take(&mut place.spans) {
                push(row, span.level, span.open, e.ns, 0);
            }
            (place.wait, place.task) = (None, None);
        }
        let Who::Domain(n) = e.who else { return };
        self.show(n, None, e.ns);
        self.kernel_leaves(n, e.ns);
        let d = self.domain(n);
        let (owner, collector) = (d.owner as usize, d.collector as usize);
        (d.current, d.under) = (None, None);
        let (owned, phases) = (d.owned.take(), std::mem::take(&mut d.phases));
        if let Some(open) = owned {
            push(&mut self.rows[owner], 0, open, e.ns, 0);
        }
        for (depth, (_, open)) in phases.into_iter().enumerate() {
            push(&mut self.rows[collector], depth, open, e.ns, 0);
        }
    }
}
