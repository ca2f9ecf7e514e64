//! How long something had to wait for the program or the program for something, and the slowest of it.
//!
//! | delay | from | to | where |
//! |---|---|---|---|
//! | pause | the collector stops a domain | it goes on | `PauseAt`, else the last known place of the fiber that ran |
//! | finalizers | finalisers begin | they are done | as for a pause |
//! | task queue | a task is made | its function begins | the function's name |
//! | wake | a fiber's wait is ended by another | it runs | where it waited |
//! | ready | a domain gets something to do | a thread has taken it over | |
//! | timer | a deadline | the timer rings | where the wait began that it limits |
//! | task | a task's function begins | it ends | the function's name |
//!
//! The slowest of each kind are kept, so that a thousand late timers do not hide the one long pause;
//! [`Latency::slowest`] mixes them. What a task took is a duration and no delay, so it is not among the
//! slowest.

use crate::analyse::histogram::Histogram;
use crate::replay::{self, Change, PhaseOver, Replay, Subscriber, Task};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, Kind, ObjectRef, What};
use std::collections::HashMap;

/// Kinds of delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Delay {
    /// The collector stopped a domain.
    Pause = 0,
    /// Finalisers ran.
    Finalizers = 1,
    /// A task lay in a queue.
    TaskQueue = 2,
    /// A fiber that was woken waited for its turn.
    Wake = 3,
    /// A domain that had something to do waited for a thread.
    Ready = 4,
    /// A timer rang late.
    Timer = 5,
    /// What tasks took from their beginning to their end, waits included.
    Task = 6,
}

impl Delay {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All of them, in order.
    pub const ALL: [Delay; Delay::COUNT] = [
        Delay::Pause,
        Delay::Finalizers,
        Delay::TaskQueue,
        Delay::Wake,
        Delay::Ready,
        Delay::Timer,
        Delay::Task,
    ];

    /// Its name, for keys and tables: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        ["pause", "finalizers", "task-queue", "wake-to-run", "ready-to-run", "timer-late", "task-time"]
            [self as usize]
    }

    /// What it is, for people.
    pub fn describe(self) -> &'static str {
        [
            "stopped by the collector",
            "finalisers ran",
            "a task lay in the queue",
            "a woken fiber waited for its turn",
            "a domain with work waited for a thread",
            "a timer rang late",
            "a task, from its beginning to its end",
        ][self as usize]
    }
}

/// One of the slowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slow {
    /// Which kind of delay.
    pub delay: Delay,
    /// When it began, in nanoseconds since the trace began.
    pub at: u64,
    /// How long it lasted, in nanoseconds.
    pub ns: u64,
    /// Of a pause: so long the thread had no processor, in nanoseconds.
    pub away: u64,
    /// The domain that had to wait, or whose timer it was.
    pub domain: u32,
    /// The fiber that ran or waited, if it is known.
    pub fiber: Option<FiberRef>,
    /// The object that was waited for, or the task.
    pub object: ObjectRef,
    /// Call path: where it was; 0: not known.
    pub stack: u32,
    /// Number of the name of the function that the fiber or task runs; 0: not known.
    pub name: u64,
}

/// Delays of a program.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// By kind, in nanoseconds.
    pub histograms: [Histogram; Delay::COUNT],
    slowest: [Vec<Slow>; Delay::COUNT],
}

impl Latency {
    /// How long delays of a kind were.
    pub fn of(&self, delay: Delay) -> &Histogram {
        &self.histograms[delay as usize]
    }

    /// The slowest of a kind, the slowest first.
    pub fn slowest_of(&self, delay: Delay) -> &[Slow] {
        &self.slowest[delay as usize]
    }

    /// The slowest of all delays, the slowest first; what tasks took does not count.
    pub fn slowest(&self, most: usize) -> Vec<Slow> {
        let delays = self.slowest.iter().take(Delay::Task as usize);
        let mut all: Vec<Slow> = delays.flatten().copied().collect();
        all.sort_by_key(|s| (std::cmp::Reverse(s.ns), s.at));
        all.truncate(most);
        all
    }
}

struct Look {
    most: usize,
    found: Latency,
    /// By domain: the step of the collector that has just ended.
    steps: HashMap<u32, (u64, u64)>,
    /// By domain: the pause that has just ended, until it is known where.
    pauses: HashMap<u32, Slow>,
}

/// Evaluates a trace; keeps the slowest `most` of each kind.
pub fn latency(trace: &Trace, most: usize) -> Latency {
    let mut look = Look { most, found: Latency::default(), steps: HashMap::new(), pauses: HashMap::new() };
    let replay = replay::run(trace, &mut [&mut look]);
    look.close(&replay)
}

impl Subscriber for Look {
    fn change(&mut self, change: &Change, replay: &Replay) {
        match *change {
            Change::WakeOver { fiber, object, stack, from, to } => {
                let domain = fiber.domain();
                self.keep(Slow { object, stack, ..slow(Delay::Wake, from, to, domain, Some(fiber)) }, replay);
            }
            Change::ReadyOver { domain, from, to } => {
                self.keep(slow(Delay::Ready, from, to, domain, None), replay);
            }
            Change::PhaseOver(PhaseOver { who: Who::Domain(domain), phase, from, to }) => match phase {
                // What part of it the thread had no processor is told by the event that ends it.
                Kind::StepBegin => _ = self.steps.insert(domain, (from, to)),
                Kind::CloseBegin | Kind::CycleBegin => self.pause(from, to, domain, 0, replay),
                Kind::FinalizeBegin => {
                    let running = replay.running(Who::Domain(domain));
                    self.keep(slow(Delay::Finalizers, from, to, domain, running), replay);
                }
                _ => {}
            },
            Change::TaskEnded { task: object, fiber, of: Task { name, started: Some(from), .. }, to } => {
                let slow = slow(Delay::Task, from, to, fiber.domain(), Some(fiber));
                self.keep(Slow { object, name, ..slow }, replay);
            }
            Change::TaskStarted(object, fiber, Task { name, made: Some(made), started: Some(at) }) => {
                let slow = slow(Delay::TaskQueue, made, at, fiber.domain(), Some(fiber));
                self.keep(Slow { object, name, ..slow }, replay);
            }
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, replay: &Replay) {
        match *what {
            What::StepEnd(of) => {
                if let Who::Domain(domain) = e.who
                    && let Some((from, to)) = self.steps.remove(&domain)
                {
                    let share = of.processor.0.unwrap_or(10_000) as u64;
                    self.pause(from, to, domain, 10_000 - share, replay);
                }
            }
            What::PauseAt(of) => {
                if let Who::Domain(domain) = e.who
                    && let Some(pause) = self.pauses.get_mut(&domain)
                {
                    pause.stack = of.stack.0;
                }
            }
            What::TimerFired(of) => {
                let at = e.ns.saturating_sub(of.late.0);
                // Lateness is what the program measured, not a difference of events.
                let mut slow = slow(Delay::Timer, at, e.ns, of.fiber.domain(), Some(of.fiber));
                slow.ns = of.late.0;
                if let Some(wait) = replay.fiber(of.fiber).and_then(|fiber| fiber.wait) {
                    (slow.object, slow.stack) = (wait.object, wait.stack);
                }
                self.keep(slow, replay);
            }
            _ => {}
        }
    }
}

impl Look {
    /// A pause has ended, in which the thread had no processor for so many ten-thousandths of the time; an
    /// event may follow that says where it was.
    fn pause(&mut self, from: u64, to: u64, domain: u32, away: u64, replay: &Replay) {
        let mut next = slow(Delay::Pause, from, to, domain, replay.running(Who::Domain(domain)));
        next.away = (next.ns as u128 * away as u128 / 10_000) as u64;
        if let Some(fiber) = next.fiber {
            next.name = replay.name_of(fiber);
            next.stack = replay.fiber(fiber).map_or(0, |of| of.stack);
        }
        if let Some(before) = self.pauses.insert(domain, next) {
            self.keep(before, replay);
        }
    }

    fn keep(&mut self, mut slow: Slow, replay: &Replay) {
        self.found.histograms[slow.delay as usize].add(slow.ns);
        let list = &mut self.found.slowest[slow.delay as usize];
        if self.most == 0 || list.len() == self.most && list.last().is_some_and(|last| last.ns >= slow.ns) {
            return;
        }
        if let Some(fiber) = slow.fiber {
            if slow.name == 0 {
                slow.name = replay.name_of(fiber);
            }
            if slow.stack == 0 {
                slow.stack = replay.fiber(fiber).map_or(0, |of| of.stack);
            }
        }
        let at = list.partition_point(|other| other.ns >= slow.ns);
        list.insert(at, slow);
        list.truncate(self.most);
    }

    fn close(mut self, replay: &Replay) -> Latency {
        let mut pauses: Vec<Slow> = self.pauses.drain().map(|(_, pause)| pause).collect();
        pauses.sort_by_key(|p| p.at);
        pauses.into_iter().for_each(|p| self.keep(p, replay));
        self.found
    }
}

fn slow(delay: Delay, from: u64, to: u64, domain: u32, fiber: Option<FiberRef>) -> Slow {
    let ns = to.saturating_sub(from);
    Slow { delay, at: from, ns, away: 0, domain, fiber, object: ObjectRef::NONE, stack: 0, name: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::event::ObjectKind;

    #[test]
    fn delays_and_their_places() {
        let (root, fiber) = (FiberRef::root(1), FiberRef::new(2, 0, 0));
        let (task, jobs) = (ObjectRef::new(ObjectKind::Task, 5), ObjectRef::new(ObjectKind::Channel, 6));
        let mut trace = Trace::default();
        let mut add = |ns, domain, kind, a, b| {
            // Of the first step, a tenth was on a processor.
            let c = if ns == 80 { 1001 } else { 0 };
            trace.events.push(Event { ns, who: Who::Domain(domain), kind, c, a, b });
        };
        add(0, 1, Kind::FiberRun, root.0, 0);
        add(10, 1, Kind::TaskCreated, task.0, 77);
        add(11, 1, Kind::DomainReady, 2, 0);
        add(12, 1, Kind::DomainReady, 2, 0);
        add(20, 2, Kind::DomainEnter, 2, 0);
        add(21, 1, Kind::DomainReady, 2, 0);
        add(24, 2, Kind::FiberBegin, fiber.0, 78);
        add(25, 2, Kind::TaskStart, task.0, fiber.0);
        add(26, 2, Kind::FiberRun, fiber.0, 0);
        add(30, 2, Kind::StepBegin, 0, 0);
        add(80, 2, Kind::StepEnd, 0, 0);
        add(81, 2, Kind::PauseAt, 4, 50);
        add(90, 2, Kind::WaitBegin, jobs.0, 3);
        add(91, 2, Kind::FiberPark, fiber.0, 0);
        add(92, 2, Kind::DomainLeave, 2, 0);
        add(100, 1, Kind::Wake, fiber.0, jobs.0);
        add(101, 1, Kind::Wake, fiber.0, jobs.0);
        add(101, 1, Kind::DomainReady, 2, 0);
        add(131, 2, Kind::DomainEnter, 2, 0);
        add(140, 2, Kind::FiberRun, fiber.0, 0);
        add(141, 2, Kind::WaitEnd, jobs.0, fiber.0);
        add(150, 2, Kind::StepBegin, 0, 0);
        add(157, 2, Kind::StepEnd, 0, 0);
        add(165, 2, Kind::TaskEnd, task.0, fiber.0);
        add(170, 0, Kind::TimerFired, 8, root.0);
        trace.finish(200);
        let found = latency(&trace, 5);
        let all = |delay| {
            let one = |s: &Slow| (s.at, s.ns, s.stack, s.name, s.object);
            found.slowest_of(delay).iter().map(one).collect::<Vec<_>>()
        };
        let none = ObjectRef::NONE;
        assert_eq!(all(Delay::Pause), [(30, 50, 4, 78, none), (150, 7, 3, 78, none)]);
        assert_eq!(all(Delay::TaskQueue), [(10, 15, 0, 77, task)]);
        assert_eq!(all(Delay::Task), [(25, 140, 3, 77, task)]);
        assert_eq!(all(Delay::Wake), [(100, 40, 3, 78, jobs)]);
        assert_eq!(all(Delay::Ready), [(101, 30, 0, 0, none), (11, 9, 0, 0, none)]);
        assert_eq!(all(Delay::Timer), [(162, 8, 0, 0, none)]);
        let worst: Vec<u64> = found.slowest(4).iter().map(|s| s.ns).collect();
        assert_eq!(worst, [50, 40, 30, 15], "what a task took is no delay");
        assert_eq!(found.of(Delay::Pause).count(), 2);
        assert_eq!(found.slowest_of(Delay::Pause).iter().map(|s| s.away).collect::<Vec<_>>(), [45, 0]);
    }

    #[test]
    fn only_the_slowest_are_kept() {
        let mut trace = Trace::default();
        for n in 0..100u64 {
            let ns = n * 1000;
            let event = |ns, kind| Event { ns, who: Who::Domain(1), kind, c: 0, a: 0, b: 0 };
            trace.events.push(event(ns, Kind::StepBegin));
            trace.events.push(event(ns + n * 37 % 100, Kind::StepEnd));
        }
        trace.finish(200_000);
        let found = latency(&trace, 3);
        let worst: Vec<u64> = found.slowest_of(Delay::Pause).iter().map(|s| s.ns).collect();
        assert_eq!(worst, [99, 98, 97]);
        assert_eq!(found.of(Delay::Pause).count(), 100);
    }
}
