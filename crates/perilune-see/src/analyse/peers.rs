//! Connections: what kept a program and its peers from each other, and whose fault it was.
//!
//! Of most of it the program's own events tell the cause (`SlowWait`, `SmallWrites`; the room of sockets says
//! what they are told from). A *starved loop* is found here: fibers whose waits for the outside were over had
//! to wait for their turn while one fiber of their domain ran, and ran. What had to wait less than
//! [`STARVED`] for it does not count.
//!
//! Findings are by cause and place, those that cost most first.

use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, ObjectKind, ObjectRef, Slowness, What};
use std::collections::{HashMap, HashSet, VecDeque};

/// Shorter delays are not ascribed to anybody, in nanoseconds.
pub const STARVED: u64 = 1_000_000;
/// A delayed acknowledgement is sent after so long at the latest, as a rule: more of a wait is not Nagle's.
const ACKNOWLEDGED: u64 = 40_000_000;
/// Runs of a domain that are remembered.
const RUNS: usize = 64;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// A wait for a peer was long.
    Slow(Slowness),
    /// Much was written in small pieces.
    SmallWrites,
    /// Others could not run.
    Starved,
}

impl Trouble {
    /// Its name, for keys: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Slow(Slowness::Peer) => "slow-peer",
            Trouble::Slow(Slowness::Held) => "nagle",
            Trouble::Slow(Slowness::Pieces) => "message-in-pieces",
            Trouble::Slow(Slowness::Lost) => "lost-segments",
            Trouble::Slow(Slowness::Full) => "peer-does-not-read",
            Trouble::SmallWrites => "small-writes",
            Trouble::Starved => "starved-loop",
        }
    }
}

/// Trouble of one kind at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which.
    pub trouble: Trouble,
    /// Where it was waited or written; of a starved loop, where the one that ran was last. Number of a call
    /// path, 0 if it is not known.
    pub stack: u32,
    /// The function of the fiber that waited, or ran; 0: not known.
    pub name: u64,
    /// Whose domain.
    pub domain: u32,
    /// How many waits, or pieces.
    pub count: u64,
    /// Nanoseconds that it cost in all; of small writes nothing is known.
    pub ns: u64,
    /// The longest; of a starved loop, how long the one ran at most.
    pub longest: u64,
    /// Bytes of the pieces.
    pub bytes: u64,
    /// One of the connections.
    pub object: ObjectRef,
    /// How many there are.
    pub objects: u64,
}

struct Run {
    fiber: FiberRef,
    from: u64,
    to: u64,
    stack: u32,
    name: u64,
}

#[derive(Default)]
struct Look {
    at: HashMap<(Trouble, u32, u64, u32), usize>,
    found: Vec<Finding>,
    met: HashMap<usize, HashSet<ObjectRef>>,
    /// The last ones of each domain.
    runs: HashMap<u32, VecDeque<Run>>,
    /// Small writes whose place follows.
    pieces: HashMap<Who, (ObjectRef, u64, u64)>,
}

/// Evaluates a trace.
pub fn peers(trace: &Trace) -> Vec<Finding> {
    let mut look = Look::default();
    replay::run(trace, &mut [&mut look]);
    let mut found = look.found;
    found.sort_by_key(|f| (std::cmp::Reverse(f.ns), std::cmp::Reverse(f.count), f.stack));
    found
}

impl Subscriber for Look {
    fn change(&mut self, change: &Change, replay: &Replay) {
        match *change {
            Change::Interval(of) if of.state.is_running() => {
                let Some(fiber) = of.fiber else { return };
                let runs = self.runs.entry(of.domain).or_default();
                match runs.back_mut() {
                    Some(last) if last.fiber == fiber && last.to == of.from => last.to = of.to,
                    last => {
                        // Who gives way soon starves nobody.
                        if last.is_some_and(|last| last.to - last.from < STARVED) {
                            runs.pop_back();
                        }
                        if runs.len() >= RUNS {
                            runs.pop_front();
                        }
                        let stack = replay.fiber(fiber).map_or(0, |f| f.stack);
                        let name = replay.name_of(fiber);
                        runs.push_back(Run { fiber, from: of.from, to: of.to, stack, name });
                    }
                }
            }
            Change::WakeOver { fiber, object, from, to, .. } => {
                if to - from < STARVED || !is_outside(object.kind()) {
                    return;
                }
                let overlap = |run: &Run| run.to.min(to).saturating_sub(run.from.max(from));
                let runs = self.runs.get(&fiber.domain());
                let others = runs.into_iter().flatten().filter(|run| run.fiber != fiber);
                let Some(run) = others.max_by_key(|run| overlap(run)) else { return };
                let (ns, ran) = (overlap(run), run.to - run.from);
                if ns * 2 < to - from || ran < STARVED {
                    return;
                }
                let (stack, name) = (run.stack, run.name);
                let finding = self.finding(Trouble::Starved, stack, name, fiber.domain(), object);
                finding.count += 1;
                finding.ns += to - from;
                finding.longest = finding.longest.max(ran);
            }
            Change::Gap { who: Who::Domain(domain), .. } => _ = self.runs.remove(&domain),
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, replay: &Replay) {
        let domain = match e.who {
            Who::Domain(domain) => domain,
            Who::Thread(_) => 0,
        };
        match *what {
            What::SlowWait(of) => {
                let fiber = replay.running(e.who);
                let stack = fiber.and_then(|fiber| replay.fiber(fiber)).map_or(0, |f| f.stack);
                let name = fiber.map_or(0, |fiber| replay.name_of(fiber));
                let finding = self.finding(Trouble::Slow(of.why), stack, name, domain, of.object);
                let ns = match of.why {
                    Slowness::Held => of.waited.0.min(ACKNOWLEDGED),
                    _ => of.waited.0,
                };
                finding.count += 1;
                finding.ns += ns;
                finding.longest = finding.longest.max(ns);
            }
            What::SmallWrites(of) => {
                self.pieces.insert(e.who, (of.object, of.size.0, of.pieces.0.into()));
            }
            What::SmallWritesAt(of) => {
                let Some((object, bytes, pieces)) = self.pieces.remove(&e.who) else { return };
                let name = replay.running(e.who).map_or(0, |fiber| replay.name_of(fiber));
                let finding = self.finding(Trouble::SmallWrites, of.stack.0, name, domain, object);
                finding.count += pieces;
                finding.bytes += bytes;
            }
            _ => {}
        }
    }
}

impl Look {
    fn finding(
        &mut self,
        trouble: Trouble,
        stack: u32,
        name: u64,
        domain: u32,
        object: ObjectRef,
    ) -> &mut Finding {
        let found = &mut self.found;
        let at = *self.at.entry((trouble, stack, name, domain)).or_insert_with(|| {
            let (count, ns, longest, bytes, objects) = (0, 0, 0, 0, 0);
            found.push(Finding { trouble, stack, name, domain, count, ns, longest, bytes, object, objects });
            found.len() - 1
        });
        if self.met.entry(at).or_default().insert(object) {
            self.found[at].objects += 1;
        }
        &mut self.found[at]
    }
}

/// Is it something that others than the program bring about?
fn is_outside(kind: ObjectKind) -> bool {
    use ObjectKind::*;
    matches!(kind, Connection | Listener | Process | Address | Operation | Socket | Stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::event::{Kind, Verb};

    #[test]
    fn who_runs_for_long_starves_those_whose_waits_are_over() {
        const MS: u64 = 1_000_000;
        let (hog, one) = (FiberRef::new(1, 0, 2), FiberRef::new(1, 0, 3));
        let peer = ObjectRef::new(ObjectKind::Connection, 5);
        let mut trace = Trace::default();
        let mut add = |ns, kind, c, a, b| {
            trace.events.push(Event { ns, who: Who::Domain(1), kind, c, a, b });
        };
        add(0, Kind::DomainEnter, 0, 1, 0);
        add(0, Kind::FiberBegin, 0, hog.0, 70);
        for n in 0..3 {
            let t = n * 30 * MS;
            add(t + 1, Kind::FiberRun, 0, one.0, 0);
            add(t + 2, Kind::WaitBegin, Verb::Reads as u16, peer.0, 4);
            add(t + 3, Kind::FiberPark, 0, one.0, 0);
            add(t + 4, Kind::FiberRun, 0, hog.0, 0);
            // Of the collector's time within it, it is the reason too.
            add(t + 5, Kind::StepBegin, 0, 0, 0);
            add(t + MS, Kind::StepEnd, 0, 0, 0);
            add(t + 10 * MS, Kind::Wake, 0, one.0, peer.0);
            add(t + 30 * MS, Kind::FiberPark, 0, hog.0, 0);
        }
        add(90 * MS + 1, Kind::FiberRun, 0, one.0, 0);
        trace.finish(100 * MS);
        let found = peers(&trace);
        let [finding] = &found[..] else { panic!("{found:?}") };
        let of = (finding.trouble, finding.name, finding.count, finding.objects);
        assert_eq!(of, (Trouble::Starved, 70, 3, 1));
        assert!(finding.longest >= 29 * MS && finding.longest < 31 * MS, "{finding:?}");
    }

    #[test]
    fn causes_are_told_apart_by_place() {
        let one = FiberRef::new(1, 0, 3);
        let (a, b) = (ObjectRef::new(ObjectKind::Connection, 5), ObjectRef::new(ObjectKind::Connection, 6));
        let mut trace = Trace::default();
        let mut add = |ns, kind, c, a, b| {
            trace.events.push(Event { ns, who: Who::Domain(1), kind, c, a, b });
        };
        add(0, Kind::FiberRun, 0, one.0, 0);
        add(1, Kind::WaitBegin, Verb::Reads as u16, a.0, 4);
        add(2, Kind::SlowWait, Slowness::Held as u16, a.0, 45_000_000);
        add(3, Kind::SlowWait, Slowness::Held as u16, b.0, 30_000_000);
        add(4, Kind::SlowWait, Slowness::Peer as u16, b.0, 90_000_000);
        add(5, Kind::SmallWrites, 64, a.0, 640);
        add(5, Kind::SmallWritesAt, 0, 9, 0);
        trace.finish(10);
        let found = peers(&trace);
        let all: Vec<_> =
            found.iter().map(|f| (f.trouble.name(), f.stack, f.count, f.ns, f.objects)).collect();
        assert_eq!(
            all,
            [
                ("slow-peer", 4, 1, 90_000_000, 1),
                // More than an acknowledgement is delayed is not Nagle's.
                ("nagle", 4, 2, 70_000_000, 2),
                ("small-writes", 9, 64, 0, 1),
            ]
        );
    }
}
