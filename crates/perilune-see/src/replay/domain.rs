//! One domain and its fibers: what each event does to their states. The machines are drawn in `mod.rs`.

use super::{CallOver, Change, Interval, Wait, WaitOver, Waker, Why, phase};
use crate::analyse::state::State;
use crate::trace::{Event, Who};
use perilune_trace::event::*;
use std::collections::HashMap;

/// A fiber that exists, or of which something is known.
#[derive(Debug, Default)]
pub struct Fiber {
    /// What it waits for.
    pub wait: Option<Wait>,
    /// When it stopped running, if it does not run.
    pub parked: Option<u64>,
    /// The last known place of it: number of a call path.
    pub stack: u32,
    pub(super) woken: Option<(u64, Waker, ObjectRef)>,
    /// The outermost blocking call that it is in: name, place, since when.
    call: Option<(u64, u32, u64)>,
    spans: Vec<(State, u64)>,
    /// It is in a blocking call, outside of the domain.
    detached: bool,
}

/// A domain.
#[derive(Debug, Default)]
pub struct Domain {
    /// Its number.
    pub number: u32,
    /// Number of its name; 0: not known.
    pub name: u32,
    /// When it began, if that was seen.
    pub begun: Option<u64>,
    /// When it ended, if that was seen.
    pub ended: Option<u64>,
    /// The fiber that runs.
    pub running: Option<FiberRef>,
    /// Its fibers, as far as they are known.
    pub fibers: HashMap<FiberRef, Fiber>,
    /// Events that did not fit what had gone before.
    pub misfits: u64,
    /// The kernel's number of the thread that owns it, or did last; 0: not known.
    pub thread: u32,
    pub(super) exists: bool,
    since: u64,
    known: bool,
    entered: bool,
    /// It was found entered, so some fiber may run of which nothing is known.
    found: bool,
    /// Events were lost: there may be fibers of which nothing is known. How many there were when it was left
    /// last.
    doubt: Option<Option<u64>>,
    ready: Option<u64>,
    /// Spans that the running fiber is in, or those that are in none.
    spans: Vec<(State, u64)>,
    /// Those outside of fibers, while one runs.
    outer: Vec<(State, u64)>,
    detached: usize,
    phases: Vec<(Kind, u64)>,
    /// Numbers of the names of its fibers' functions.
    names: HashMap<FiberRef, u64>,
    last_wait: Option<(FiberRef, Why)>,
    /// Waiting that nobody has been named for.
    unresolved: Vec<(u64, u64)>,
}

impl Domain {
    /// One that has not been heard of yet, and may have existed all the time.
    pub(super) fn before(number: u32) -> Domain {
        Domain { number, exists: true, ..Domain::default() }
    }

    /// What it is at.
    pub fn state(&self) -> State {
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
        } else if self.ready.is_some() {
            State::Ready
        } else if self.detached > 0 {
            State::Blocked
        } else if !self.fibers.is_empty() {
            State::Waiting
        } else {
            match self.doubt {
                None | Some(Some(0)) => State::Idle,
                Some(Some(_)) => State::Waiting,
                Some(None) => State::Unknown,
            }
        }
    }

    /// Has it ended?
    pub fn has_ended(&self) -> bool {
        self.ended.is_some() && !self.exists
    }

    /// Number of the name of a fiber's function; 0: not known.
    pub fn name_of(&self, fiber: FiberRef) -> u64 {
        self.names.get(&fiber).copied().unwrap_or(0)
    }

    /// The call that it is blocked in.
    pub fn blocked_in(&self) -> Why {
        if self.entered {
            return self.spans.last().map_or(Why::Unknown, |(_, name)| Why::Call(*name));
        }
        // One of several is as good as another.
        let calls = self.fibers.values().filter(|f| f.detached).filter_map(|f| f.call);
        calls.map(|(name, ..)| name).max().map_or(Why::Unknown, Why::Call)
    }

    /// The time until `ns` belongs to the state that it is in.
    pub(super) fn advance(&mut self, ns: u64, out: &mut Vec<Change>) {
        let from = self.since;
        if ns <= from {
            return;
        }
        self.since = ns;
        let state = self.state();
        let mut interval = Interval { domain: self.number, from, to: ns, state, fiber: None, why: None };
        match state {
            State::Waiting => {
                match self.unresolved.last_mut() {
                    Some(last) if last.1 == from => last.1 = ns,
                    _ => self.unresolved.push((from, ns)),
                }
                return;
            }
            State::Blocked => {
                interval.why = Some(self.blocked_in());
                interval.fiber = self.running;
            }
            s if s.is_running() => interval.fiber = self.running,
            _ => {}
        }
        out.push(Change::Interval(interval));
    }

    /// Something is told of it, by whomever.
    pub(super) fn told(&mut self, e: &Event, what: &What) {
        match *what {
            What::DomainBegin(of) => {
                if !of.existed {
                    self.begun.get_or_insert(e.ns);
                }
                if e.who == Who::Domain(self.number) && !self.entered {
                    // It tells of itself, so somebody owns it.
                    (self.entered, self.found, self.ready) = (true, true, None);
                }
                (self.known, self.exists) = (true, true);
                if of.name.0 != 0 {
                    self.name = of.name.0;
                }
            }
            What::DomainEnd(_) => {
                self.ended = Some(e.ns);
                self.misfits += self.entered as u64;
                (self.known, self.exists, self.entered) = (true, false, false);
                (self.running, self.ready, self.doubt, self.detached) = (None, None, None, 0);
                self.spans.clear();
                self.outer.clear();
                self.phases.clear();
                self.fibers.clear();
            }
            What::DomainReady(_) => {
                // Whoever is made ready had been left.
                if !self.known {
                    (self.known, self.exists) = (true, true);
                }
                if !self.entered {
                    self.ready.get_or_insert(e.ns);
                }
            }
            _ => {}
        }
    }

    /// It tells something itself.
    pub(super) fn tells(&mut self, e: &Event, what: &What, out: &mut Vec<Change>) {
        if let What::Lost(_) = what {
            self.advance(e.ns, out);
            self.forget(out);
            return;
        }
        // Nothing else changes the state of a domain whose state is known.
        if moves(e.kind) || !(self.known && self.entered) {
            self.advance(e.ns, out);
        }
        if e.kind != Kind::DomainEnter && !self.entered {
            // Whatever a domain writes, it writes while somebody owns it.
            self.misfits += self.known as u64;
            (self.entered, self.found, self.ready) = (true, true, None);
        }
        (self.known, self.exists) = (true, true);
        phase(&mut self.phases, e, out);
        match *what {
            What::DomainEnter(of) => {
                self.misfits += (self.entered && self.running.is_some()) as u64;
                if let Some(from) = self.ready.take() {
                    out.push(Change::ReadyOver { domain: self.number, from, to: e.ns });
                }
                (self.entered, self.found) = (true, false);
                self.thread = of.thread.0;
            }
            What::DomainLeave(of) => {
                self.misfits += self.running.is_some() as u64;
                self.park(None, e.ns);
                self.entered = false;
                self.ready = (of.why == Leaving::HandedOver).then_some(e.ns);
                self.spans.clear();
                self.phases.clear();
                if self.doubt.is_some() {
                    self.doubt = Some(Some(of.fibers.0));
                    if of.fibers.0 == 0 {
                        self.fibers.clear();
                        (self.detached, self.doubt) = (0, None);
                    }
                }
            }
            What::FiberBegin(of) => {
                self.fibers.entry(of.fiber).or_default();
                if of.name.0 != 0 {
                    self.names.insert(of.fiber, of.name.0 as u64);
                }
            }
            What::FiberRun(of) => {
                self.misfits += self.running.is_some() as u64;
                self.park(None, e.ns);
                self.run(of.fiber, e.ns, out);
            }
            What::FiberPark(of) => {
                if self.running != Some(of.fiber) {
                    self.misfits += !self.found as u64;
                    self.park(None, e.ns);
                    self.run(of.fiber, e.ns, out);
                }
                self.park(Some(of.why), e.ns);
            }
            What::StepBegin(_) | What::CycleBegin(_) => self.spans.push((State::Collector, 0)),
            What::StepEnd(_) | What::CycleEnd(_) => self.close_span(State::Collector),
            What::MinorBegin(_) => self.spans.push((State::Minor, 0)),
            What::MinorEnd(_) => self.close_span(State::Minor),
            What::SliceBegin(_) => self.spans.push((State::Slice, 0)),
            What::SliceEnd(_) => self.close_span(State::Slice),
            What::SweepBegin(_) => self.spans.push((State::Sweep, 0)),
            What::SweepEnd(_) => self.close_span(State::Sweep),
            What::FinalizeBegin(_) => self.spans.push((State::Finalizers, 0)),
            What::FinalizeEnd(_) => self.close_span(State::Finalizers),
            What::CloseBegin(_) => self.spans.push((State::Scope, 0)),
            What::CloseEnd(_) => self.close_span(State::Scope),
            What::BlockBegin(of) => {
                let is_inner = self.is_in_call();
                if let Some(fiber) = self.current() {
                    // Whoever calls does not wait, even if that was not said.
                    fiber.wait = None;
                    if !is_inner {
                        fiber.call = Some((of.name.0 as u64, of.stack.0, e.ns));
                    }
                    if of.stack.0 != 0 {
                        fiber.stack = of.stack.0;
                    }
                }
                self.spans.push((State::Blocked, of.name.0 as u64));
            }
            What::BlockEnd(_) => {
                self.close_span(State::Blocked);
                // A call within a call is part of it.
                if !self.is_in_call()
                    && let Some(of) = self.running
                    && let Some((name, stack, from)) = self.current().and_then(|f| f.call.take())
                {
                    let over = CallOver { fiber: of, name, stack, from, to: e.ns.max(from), is_open: false };
                    out.push(Change::CallOver(over));
                }
            }
            What::WaitBegin(of) => {
                let Some(running) = self.running else { return };
                let wait = Wait { verb: of.verb, object: of.object, stack: of.stack.0, since: e.ns };
                let fiber = self.fibers.entry(running).or_default();
                (fiber.wait, fiber.woken) = (Some(wait), None);
                if wait.stack != 0 {
                    fiber.stack = wait.stack;
                }
                self.last_wait = Some((running, Why::Wait(wait.verb, wait.object)));
            }
            What::WaitEnd(of) => {
                if let Some(fiber) = self.fibers.get_mut(&of.fiber) {
                    fiber.wait = None;
                }
                if self.last_wait.is_some_and(|(fiber, _)| fiber == of.fiber) {
                    self.last_wait = None;
                }
            }
            // What is copied for the program is the program's time.
            What::CopyBegin(_) => self.spans.push((State::Lua, 0)),
            What::CopyEnd(_) => self.close_span(State::Lua),
            What::CpuTime(of) => self.thread = of.thread.0,
            What::CpuSample(CpuSample { stack, .. }) | What::AllocSample(AllocSample { stack, .. }) => {
                if stack.0 != 0
                    && let Some(fiber) = self.current()
                {
                    fiber.stack = stack.0;
                }
            }
            _ => {}
        }
    }

    fn is_in_call(&self) -> bool {
        self.spans.iter().any(|(s, _)| *s == State::Blocked)
    }

    fn current(&mut self) -> Option<&mut Fiber> {
        self.running.map(|fiber| self.fibers.entry(fiber).or_default())
    }

    /// Events are lost from here on: nothing is known any more.
    fn forget(&mut self, out: &mut Vec<Change>) {
        let (fiber, why) = self.last_wait.map_or((None, Why::Unknown), |(f, w)| (Some(f), w));
        self.resolve(fiber, why, out);
        let was = std::mem::take(self);
        *self = Domain {
            number: was.number,
            name: was.name,
            begun: was.begun,
            ended: was.ended,
            misfits: was.misfits,
            thread: was.thread,
            // What did not exist may have begun meanwhile.
            exists: true,
            since: was.since,
            doubt: Some(None),
            // Names do not change.
            names: was.names,
            ..Domain::default()
        };
    }

    /// Ends the innermost span of this kind, and those inside of it, whose ends were lost.
    fn close_span(&mut self, state: State) {
        match self.spans.iter().rposition(|(s, _)| *s == state) {
            Some(at) => {
                self.misfits += (self.spans.len() - at - 1) as u64;
                self.spans.truncate(at);
            }
            None => self.misfits += 1,
        }
    }

    fn run(&mut self, fiber: FiberRef, ns: u64, out: &mut Vec<Change>) {
        let of = self.fibers.entry(fiber).or_default();
        if std::mem::take(&mut of.detached) {
            self.detached = self.detached.saturating_sub(1);
        }
        let (parked, wait, woken) = (of.parked.take(), of.wait, of.woken.take());
        if let (Some(parked), Some(wait)) = (parked, wait) {
            let woken = woken.map(|(at, waker, _)| (at, waker));
            let to = ns.max(parked);
            out.push(Change::WaitOver(WaitOver { fiber, wait, parked, woken, to, is_open: false }));
        }
        if let Some((from, _, object)) = woken {
            let stack = wait.map_or(0, |w| w.stack);
            out.push(Change::WakeOver { fiber, object, stack, from, to: ns.max(from) });
        }
        let of = self.fibers.entry(fiber).or_default();
        if std::mem::take(&mut self.found) {
            // What was begun until now was begun by this one, as likely as not.
            of.spans = std::mem::take(&mut self.spans);
        }
        self.outer = std::mem::replace(&mut self.spans, std::mem::take(&mut of.spans));
        self.running = Some(fiber);
        if !self.unresolved.is_empty() {
            let (fiber, why) = match (wait, self.last_wait) {
                (Some(wait), _) => (Some(fiber), Why::Wait(wait.verb, wait.object)),
                (None, Some((of, why))) => (Some(of), why),
                (None, None) => (None, Why::Unknown),
            };
            self.resolve(fiber, why, out);
        }
    }

    /// The running fiber, if there is one, runs no more; `None`: nobody has said why.
    fn park(&mut self, why: Option<Parking>, ns: u64) {
        let Some(fiber) = self.running.take() else { return };
        let spans = std::mem::replace(&mut self.spans, std::mem::take(&mut self.outer));
        if why.is_some_and(Parking::is_end) {
            self.names.remove(&fiber);
            if let Some(of) = self.fibers.remove(&fiber) {
                self.detached = self.detached.saturating_sub(of.detached as usize);
            }
            return;
        }
        let of = self.fibers.entry(fiber).or_default();
        of.spans = spans;
        of.parked = Some(ns);
        // The code that is in no fiber detaches when it waits.
        if why == Some(Parking::Detached) && of.wait.is_none() && !of.detached {
            of.detached = true;
            self.detached += 1;
        }
    }

    /// All waiting that nobody has been named for was for this.
    fn resolve(&mut self, fiber: Option<FiberRef>, why: Why, out: &mut Vec<Change>) {
        for (from, to) in std::mem::take(&mut self.unresolved) {
            let domain = self.number;
            let state = State::Waiting;
            out.push(Change::Interval(Interval { domain, from, to, state, fiber, why: Some(why) }));
        }
    }

    /// The trace ends.
    pub(super) fn close(&mut self, end: u64, out: &mut Vec<Change>) {
        self.advance(end, out);
        let (fiber, why) = self.last_wait.map_or((None, Why::Unknown), |(f, w)| (Some(f), w));
        self.resolve(fiber, why, out);
        let mut open: Vec<_> = self.fibers.iter().collect();
        open.sort_unstable_by_key(|(f, _)| **f);
        for (&fiber, of) in open {
            if let Some((name, stack, from)) = of.call {
                let over = CallOver { fiber, name, stack, from, to: end.max(from), is_open: true };
                out.push(Change::CallOver(over));
            } else if let (Some(wait), Some(parked)) = (of.wait, of.parked) {
                let (woken, to) = (of.woken.map(|(at, waker, _)| (at, waker)), end.max(parked));
                out.push(Change::WaitOver(WaitOver { fiber, wait, parked, woken, to, is_open: true }));
            }
        }
    }
}

/// May an event of this kind change the state of the domain that writes it?
fn moves(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        DomainEnter
            | DomainLeave
            | FiberBegin
            | FiberRun
            | FiberPark
            | CopyBegin
            | CopyEnd
            | CpuTime
            | StepBegin
            | StepEnd
            | MinorBegin
            | MinorEnd
            | SliceBegin
            | SliceEnd
            | SweepBegin
            | SweepEnd
            | FinalizeBegin
            | FinalizeEnd
            | CloseBegin
            | CloseEnd
            | CycleBegin
            | CycleEnd
            | BlockBegin
            | BlockEnd
            | PartBegin
            | PartEnd
            | RequestBegin
            | RequestHandled
            | RequestEnd
    )
}
