//! The replay: turns events, in order of time, into the states of domains, fibers and tasks. Every tool that
//! says what a program did at a moment, or how long something lasted, subscribes to it; nobody else keeps
//! such books.
//!
//! # A domain
//! ```text
//!   absent ──DomainBegin──▶ left ◀──DomainLeave── entered ──▶ ... ──DomainEnd──▶ absent
//!                             └──────DomainEnter────▲
//! ```
//! *Entered*: a thread owns it. Every event that a domain writes itself implies that. Within it the innermost
//! *span* decides (a phase of the collector, a blocking call), else whether a fiber runs ([`State::Lua`]) or
//! none ([`State::Scheduler`]). *Left*, it is `Ready` if something has been given to it, else `Blocked` if a
//! fiber of it is in a blocking call, else `Waiting` if it has fibers, else `Idle`. At each moment it is in
//! exactly one [`State`], and [`Change::Interval`] tells each of them once.
//!
//! # A fiber
//! ```text
//!   FiberBegin ──▶ ready ──FiberRun──▶ running ──FiberPark──▶ waiting (WaitBegin said for what) ──Wake──▶ ready
//!                                         │  └──FiberPark, blocked──▶ in a call ──FiberRun──▶ running
//!                                         └──FiberPark, ended──▶ gone
//! ```
//! The code that is in no fiber is one, too: the *root*. A wait lasts from the moment that its fiber parks to
//! the moment that it runs again ([`Change::WaitOver`]); what lies between the wake and the run is its
//! *delay*. A blocking call lasts from `BlockBegin` to its own `BlockEnd` ([`Change::CallOver`]); a call
//! within a call is part of it. Spans nest within one fiber's run; each fiber has a stack of those that it is
//! in, since a finaliser may block while other fibers run.
//!
//! # A task
//! `TaskCreated` ──▶ queued ──`TaskStart`──▶ started ──`TaskEnd`──▶ over. Created and started are told by
//! different domains.
//!
//! # For what a domain waits
//! A domain may have many fibers that wait for different things. Time of waiting is ascribed to the wait
//! whose fiber runs first afterwards: that is the one that would have had to be over sooner. If a new fiber
//! runs first, to the wait that had begun last. So intervals of `Waiting` are told when that is known: no
//! later than the next run of a fiber of the domain.
//!
//! # Gaps
//! Rings overwrite what nobody has read. The reader writes down where: [`Kind::Lost`] stands behind the last
//! event of a writer that is left. There is one answer to it, for all tools: **from there on nothing is known
//! of that writer** until its next event. Its state is [`State::Unknown`]; its fibers, spans, waits, calls
//! and phases under way are forgotten, so nothing is measured across a gap, neither as a duration nor as an
//! open end; [`Change::Gap`] tells subscribers to forget what they keep of it. Its next event says that it is
//! entered; whether a fiber runs is learnt from the next `FiberRun`, and until a fiber is seen to wait, or a
//! `DomainLeave` tells how many fibers there are, a domain that is left is `Unknown` and not idle. What other
//! writers said of it (that it was made ready) counts. Tasks created before a gap are not known to be still
//! queued after it.
//!
//! An event that does not fit what went before, without a gap that says why (a tool attached late, a file is
//! damaged), changes the state to what it implies, and is counted in [`Domain::misfits`].
//!
//! # Order
//! For each event a subscriber first gets the changes that it brings, those that end something first, then
//! the event itself; by then the replay is in the state after the event. Events of a live program come ring
//! by ring: a time before the last one counts as that.
//!
//! *Rejected.* A state machine in each tool (they disagreed about lost events, and each fault had to be
//! mended in several); durations as differences of begin and end events (nested ones count twice, and one
//! that is lost leaves a hole that nobody notices); a list of intervals made beforehand (as large as the
//! trace, and useless to a live view).

mod domain;

pub use domain::{Domain, Fiber};

use crate::analyse::state::State;
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::*;
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// A domain was in one state.
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

/// Who ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// Nobody has.
    Nobody,
    /// Its own call returned.
    Kernel,
    /// The thread of the timers.
    Timer,
    /// A thread of the runtime, outside of all domains.
    Runtime,
    /// A fiber of a domain that runs this function (0: not known).
    Fiber(u32, u64),
    /// The code of a domain that is in no fiber.
    Root(u32),
}

/// A wait that a fiber has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// What it does.
    pub verb: Verb,
    /// For what.
    pub object: ObjectRef,
    /// Where: number of a call path, 0 if it is not known.
    pub stack: u32,
    /// When it began.
    pub since: u64,
}

/// A fiber's wait is over, or the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitOver {
    /// Whose.
    pub fiber: FiberRef,
    /// For what.
    pub wait: Wait,
    /// When the fiber stopped running.
    pub parked: u64,
    /// When it was woken, by whom; nobody has if it found out by itself, or if the wake is lost.
    pub woken: Option<(u64, Waker)>,
    /// When it ran again, or when the trace ended.
    pub to: u64,
    /// The trace ended first.
    pub is_open: bool,
}

/// A blocking call is over, or the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallOver {
    /// The fiber that called.
    pub fiber: FiberRef,
    /// Number of the native's name.
    pub name: u64,
    /// Where: number of a call path, 0 if it is not known.
    pub stack: u32,
    /// When it began.
    pub from: u64,
    /// When it returned, or when the trace ended.
    pub to: u64,
    /// The trace ended first.
    pub is_open: bool,
}

/// A phase of the collector, or another span that a domain writes, is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhaseOver {
    /// Whose.
    pub who: Who,
    /// The kind that began it.
    pub phase: Kind,
    /// When.
    pub from: u64,
    /// When it ended.
    pub to: u64,
}

/// A task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Task {
    /// Number of its function's name.
    pub name: u64,
    /// When it was made, if that is known.
    pub made: Option<u64>,
    /// When its function began, if that is known.
    pub started: Option<u64>,
}

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A domain was in a state.
    Interval(Interval),
    /// A wait is over.
    WaitOver(WaitOver),
    /// A fiber that was woken runs. In contrast to [`Change::WaitOver`] it need not be known for what it
    /// waited.
    WakeOver {
        /// Whose.
        fiber: FiberRef,
        /// What it was woken for.
        object: ObjectRef,
        /// Where it waited.
        stack: u32,
        /// When it was woken.
        from: u64,
        /// When it ran.
        to: u64,
    },
    /// A blocking call is over.
    CallOver(CallOver),
    /// A phase is over.
    PhaseOver(PhaseOver),
    /// A domain that had something to do was taken over.
    ReadyOver {
        /// Which.
        domain: u32,
        /// Since when it had.
        from: u64,
        /// When it was.
        to: u64,
    },
    /// A task's function begins.
    TaskStarted(ObjectRef, FiberRef, Task),
    /// A task is over.
    TaskEnded {
        /// Which.
        task: ObjectRef,
        /// The fiber that ran it.
        fiber: FiberRef,
        /// What was known of it.
        of: Task,
        /// When.
        to: u64,
    },
    /// From here on nothing is known of a writer.
    Gap {
        /// Whose events are lost.
        who: Who,
        /// How many.
        events: u64,
    },
}

/// What wants to know.
pub trait Subscriber {
    /// Something has changed.
    fn change(&mut self, _change: &Change, _replay: &Replay) {}
    /// Something has happened; its changes have been told.
    fn event(&mut self, _e: &Event, _what: &What, _replay: &Replay) {}
}

/// Replays a trace to subscribers; what the states are at its end.
pub fn run(trace: &Trace, subscribers: &mut [&mut dyn Subscriber]) -> Replay {
    let mut replay = Replay::ahead(trace);
    let mut changes = Vec::new();
    for e in &trace.events {
        let what = e.what();
        replay.step(e, &what, &mut changes);
        for change in changes.drain(..) {
            subscribers.iter_mut().for_each(|s| s.change(&change, &replay));
        }
        subscribers.iter_mut().for_each(|s| s.event(e, &what, &replay));
    }
    replay.close(trace.end_ns, &mut changes);
    for change in changes.drain(..) {
        subscribers.iter_mut().for_each(|s| s.change(&change, &replay));
    }
    replay
}

/// Tasks that are remembered as over before they were told to be made, at most.
const EARLY: usize = 1 << 16;

/// The states.
#[derive(Default)]
pub struct Replay {
    domains: BTreeMap<u32, Domain>,
    tasks: HashMap<ObjectRef, Task>,
    /// Phases under way of threads outside of domains.
    outside: HashMap<u32, Vec<(Kind, u64)>>,
    /// Tasks that are over, whose making has not been told: it was before the trace, or it is in a ring that
    /// is read later.
    early: HashSet<ObjectRef>,
    /// Threads that rang a timer.
    timers: HashSet<Who>,
}

impl Replay {
    /// For a live program, of which nothing is known.
    pub fn live() -> Replay {
        Replay::default()
    }

    /// Looks ahead: which domains and fibers there were before the first event that says so.
    pub fn ahead(trace: &Trace) -> Replay {
        let mut replay = Replay::default();
        let mut begun: HashSet<FiberRef> = HashSet::new();
        let mut gaps: HashSet<u32> = HashSet::new();
        for e in &trace.events {
            let what = e.what();
            let named = match what {
                What::DomainBegin(DomainBegin { domain, .. })
                | What::DomainEnd(DomainEnd { domain, .. })
                | What::DomainReady(DomainReady { domain }) => Some(domain.0),
                _ => None,
            };
            let own = match e.who {
                Who::Domain(d) => Some(d),
                Who::Thread(_) => None,
            };
            for number in named.into_iter().chain(own) {
                let d = replay.domains.entry(number).or_insert_with(|| Domain::before(number));
                if let What::DomainBegin(begin) = what
                    && named == Some(number)
                {
                    // Domains tell of themselves what others have told already.
                    d.exists &= begin.existed;
                    d.name = begin.name.0;
                }
            }
            match (what, own) {
                (What::Lost(_), Some(number)) => _ = gaps.insert(number),
                (What::FiberBegin(of), _) => _ = begun.insert(of.fiber),
                (
                    What::FiberRun(FiberRun { fiber }) | What::FiberPark(FiberPark { fiber, .. }),
                    Some(number),
                ) if begun.insert(fiber) && !gaps.contains(&number) => {
                    // If the domain's beginning was seen, so would have been the fiber's; the root begins
                    // with its first run.
                    if let Some(d) = replay.domains.get_mut(&number).filter(|d| d.exists) {
                        d.fibers.insert(fiber, Fiber::default());
                    }
                }
                _ => {}
            }
        }
        replay
    }

    /// All domains that there are or were, by number.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }

    /// A domain.
    pub fn domain(&self, number: u32) -> Option<&Domain> {
        self.domains.get(&number)
    }

    /// Forgets domains.
    pub fn retain(&mut self, mut keep: impl FnMut(&Domain) -> bool) {
        self.domains.retain(|_, d| keep(d));
    }

    /// What is known of a fiber.
    pub fn fiber(&self, fiber: FiberRef) -> Option<&Fiber> {
        self.domains.get(&fiber.domain())?.fibers.get(&fiber)
    }

    /// Number of the name of a fiber's function; 0: not known.
    pub fn name_of(&self, fiber: FiberRef) -> u64 {
        self.domains.get(&fiber.domain()).map_or(0, |d| d.name_of(fiber))
    }

    /// The fiber on whose behalf a writer's events are at the moment.
    pub fn running(&self, who: Who) -> Option<FiberRef> {
        match who {
            Who::Domain(n) => self.domains.get(&n)?.running,
            Who::Thread(_) => None,
        }
    }

    /// Tasks that have been made and not started, as far as is known.
    pub fn queued(&self) -> usize {
        self.tasks.values().filter(|t| t.started.is_none()).count()
    }

    /// Takes an event in; what it changes is appended.
    pub fn step(&mut self, e: &Event, what: &What, out: &mut Vec<Change>) {
        match *what {
            What::TaskCreated(of) => {
                let has_started = self.early.remove(&of.task);
                if !has_started {
                    let task = self.tasks.entry(of.task).or_default();
                    (task.made, task.name) = (Some(e.ns), of.name.0 as u64);
                }
            }
            What::TaskStart(of) => {
                let task = self.tasks.entry(of.task).or_default();
                task.started = Some(e.ns);
                out.push(Change::TaskStarted(of.task, of.fiber, *task));
            }
            What::TaskEnd(of) => {
                let task = self.tasks.remove(&of.task).unwrap_or_default();
                if task.made.is_none() {
                    if self.early.len() >= EARLY {
                        self.early.clear();
                    }
                    self.early.insert(of.task);
                }
                out.push(Change::TaskEnded { task: of.task, fiber: of.fiber, of: task, to: e.ns });
            }
            What::TimerFired(_) => _ = self.timers.insert(e.who),
            What::Lost(of) => {
                // Starts may be among them.
                self.tasks.retain(|_, task| task.started.is_some());
                if let Who::Thread(tid) = e.who {
                    self.outside.remove(&tid);
                }
                out.push(Change::Gap { who: e.who, events: of.events.0 });
            }
            What::Wake(of) => self.wake(e, of),
            _ => {}
        }
        let named = match *what {
            What::DomainBegin(DomainBegin { domain, .. })
            | What::DomainEnd(DomainEnd { domain, .. })
            | What::DomainReady(DomainReady { domain }) => Some(domain.0),
            _ => None,
        };
        if let Some(number) = named {
            let d = self.domains.entry(number).or_insert_with(|| Domain::before(number));
            d.advance(e.ns, out);
            d.told(e, what);
        } else if let Who::Domain(number) = e.who {
            let d = self.domains.entry(number).or_insert_with(|| Domain::before(number));
            d.tells(e, what, out);
        } else if let Who::Thread(tid) = e.who {
            phase(self.outside.entry(tid).or_default(), e, out);
        }
    }

    /// Somebody's wait is ended.
    fn wake(&mut self, e: &Event, of: Wake) {
        let waker = match (e.who, self.running(e.who)) {
            (Who::Thread(_), _) if self.timers.contains(&e.who) => Waker::Timer,
            (Who::Thread(_), _) => Waker::Runtime,
            (Who::Domain(domain), Some(f)) if f.is_root() => Waker::Root(domain),
            (Who::Domain(domain), Some(f)) => Waker::Fiber(domain, self.name_of(f)),
            // Between two runs: the end of a fiber delivers its outcome there.
            (Who::Domain(domain), None) => Waker::Fiber(domain, 0),
        };
        let fiber = self.domains.get_mut(&of.fiber.domain()).and_then(|d| d.fibers.get_mut(&of.fiber));
        if let Some(fiber) = fiber {
            fiber.woken.get_or_insert((e.ns, waker, of.object));
        }
    }

    /// Brings all domains up to a moment without an event.
    pub fn advance(&mut self, ns: u64, out: &mut Vec<Change>) {
        self.domains.values_mut().for_each(|d| d.advance(ns, out));
    }

    /// The trace ends: what is under way lasts until then.
    fn close(&mut self, end: u64, out: &mut Vec<Change>) {
        for d in self.domains.values_mut() {
            d.close(end, out);
        }
    }
}

/// The kinds whose pairs are told as [`Change::PhaseOver`].
fn is_phase(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::StepBegin
            | Kind::MinorBegin
            | Kind::SliceBegin
            | Kind::SweepBegin
            | Kind::FinalizeBegin
            | Kind::CloseBegin
            | Kind::CycleBegin
    )
}

/// Begins or ends a phase, if the event does. What was begun within a phase and not ended ends with it,
/// untold.
fn phase(open: &mut Vec<(Kind, u64)>, e: &Event, out: &mut Vec<Change>) {
    if is_phase(e.kind) {
        // Phases of a kind do not nest: the end of the one before has been lost.
        open.retain(|(kind, _)| *kind != e.kind);
        open.push((e.kind, e.ns));
        return;
    }
    let begin = Kind::from_number(e.kind as u16 - 1).filter(|k| is_phase(*k));
    if let Some(begin) = begin
        && let Some(at) = open.iter().rposition(|(kind, _)| *kind == begin)
    {
        let (phase, from) = open[at];
        open.remove(at);
        out.push(Change::PhaseOver(PhaseOver { who: e.who, phase, from, to: e.ns.max(from) }));
    }
}

#[cfg(test)]
mod tests;
