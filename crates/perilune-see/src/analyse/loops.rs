//! Parallel loops: how well the domains of a pool shared the work, and why not better.
//!
//! A loop lasts from its begin to the end of its last part. In that time each domain of its pool can have
//! been *occupied*: a part's fiber ran in it, with a processor (`worked`) or without (`displaced`);
//! collections that stopped a part count as its work. What is left of the time that the pool offered (length
//! of the loop times domains) is *idle*: there was no part to run, or the part waited for something.
//!
//! The *imbalance* is the time that the busiest domain was occupied, divided by the mean of all: 1 is
//! perfect, and with `n` domains `n` is the worst, when one does everything. It is what a loop takes longer
//! than it need to.
//!
//! Loops of one place, with equal chunks, on equal pools are one row.

use super::state::State;
use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, Kind, ObjectRef, What};
use std::collections::{BTreeMap, HashMap};

/// What a domain did for the loops of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Nanoseconds in which a part ran and had a processor.
    pub worked: u64,
    /// Nanoseconds in which a part could have run and had none.
    pub displaced: u64,
    /// How many parts it began.
    pub parts: u64,
    /// Iterations that it did.
    pub iterations: u64,
}

impl Share {
    /// Nanoseconds that parts took.
    pub fn occupied(&self) -> u64 {
        self.worked + self.displaced
    }
}

/// A part of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The first index.
    pub first: i64,
    /// The index after the last that was done.
    pub next: i64,
    /// The domain that ran it.
    pub domain: u32,
    /// Nanoseconds that it was running.
    pub ns: u64,
}

/// Loops of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Where: number of a call path, 0 if it is not known.
    pub stack: u32,
    /// How many loops.
    pub loops: u64,
    /// Iterations that they had.
    pub iterations: u64,
    /// The size of a chunk that the program asked for; 0: none.
    pub chunk: u64,
    /// Domains of the pool; 0: not known.
    pub seats: u64,
    /// Nanoseconds from begins to ends.
    pub ns: u64,
    /// Of these loops, those that had not ended when the trace did.
    pub open: u64,
    /// By domain. Those that ran no part are not there.
    pub shares: BTreeMap<u32, Share>,
    /// The part that ran longest.
    pub longest: Part,
}

impl Site {
    /// How many domains there were to do the work.
    pub fn domains(&self) -> u64 {
        self.seats.max(self.shares.len() as u64)
    }

    /// Nanoseconds that parts took.
    pub fn occupied(&self) -> u64 {
        self.shares.values().map(Share::occupied).sum()
    }

    /// Nanoseconds in which domains had no part that could run.
    pub fn idle(&self) -> u64 {
        (self.ns * self.domains()).saturating_sub(self.occupied())
    }

    /// Nanoseconds that the busiest domain was occupied.
    pub fn busiest(&self) -> u64 {
        self.shares.values().map(Share::occupied).max().unwrap_or(0)
    }

    /// The busiest domain's time divided by the mean: from 1 to the number of domains.
    pub fn imbalance(&self) -> f64 {
        let all = self.occupied();
        if all == 0 { 1.0 } else { self.busiest() as f64 * self.domains() as f64 / all as f64 }
    }

    /// Into how many pieces the chunk divides a loop at most; nothing if there is no chunk.
    pub fn pieces(&self) -> Option<u64> {
        (self.chunk != 0).then(|| (self.iterations / self.loops.max(1)).div_ceil(self.chunk))
    }

    /// Are there too few pieces for all domains to have something to do to the end?
    pub fn is_chunk_too_large(&self) -> bool {
        self.pieces().is_some_and(|pieces| pieces < 2 * self.domains())
    }
}

/// A loop while it is looked at.
struct Loop {
    from: u64,
    to: u64,
    ended: bool,
    stack: u32,
    iterations: u64,
    chunk: u64,
    seats: u64,
    shares: BTreeMap<u32, Share>,
    longest: Part,
}

/// A part of a loop while it is looked at.
#[derive(Clone, Copy)]
struct Running {
    part: Part,
    of: usize,
    from: u64,
    to: u64,
}

/// The books of loops while a trace is replayed.
#[derive(Default)]
struct Books {
    loops: Vec<Loop>,
    numbers: HashMap<ObjectRef, usize>,
    parts: Vec<Running>,
    /// Parts by fiber: a fiber runs one after the other.
    of_fiber: HashMap<FiberRef, Vec<usize>>,
    /// What a `PartRange` or `LoopShape` of this writer belongs to.
    last: HashMap<Who, (Kind, usize)>,
}

/// The loops of a trace: those that left most time idle first. The events needed are those of the categories
/// `life` and `task`; with `wait` the places are known.
pub fn loops(trace: &Trace) -> Vec<Site> {
    let mut books = Books::default();
    replay::run(trace, &mut [&mut books]);
    for running in &books.parts {
        let of = &mut books.loops[running.of];
        if running.part.ns > of.longest.ns {
            of.longest = running.part;
        }
    }
    sites(trace, books.loops)
}

impl Subscriber for Books {
    fn change(&mut self, change: &Change, _: &Replay) {
        let Change::Interval(i) = change else { return };
        let Some(fiber) = i.fiber.filter(|_| i.state.is_running()) else { return };
        let Some(list) = self.of_fiber.get(&fiber) else { return };
        // The last one that had begun by then.
        let at = list.partition_point(|&at| self.parts[at].from < i.to);
        let Some(running) = at.checked_sub(1).map(|at| &mut self.parts[list[at]]) else { return };
        let ns = i.to.min(running.to).saturating_sub(i.from.max(running.from));
        running.part.ns += ns;
        let share = self.loops[running.of].shares.entry(i.domain).or_default();
        match i.state {
            State::Displaced | State::CollectorWaiting => share.displaced += ns,
            _ => share.worked += ns,
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        match *what {
            What::LoopBegin(of) => {
                self.numbers.insert(of.object, self.loops.len());
                self.last.insert(e.who, (e.kind, self.loops.len()));
                self.loops.push(Loop {
                    from: e.ns,
                    to: e.ns,
                    ended: false,
                    stack: 0,
                    iterations: of.iterations.0,
                    chunk: 0,
                    seats: 0,
                    shares: BTreeMap::new(),
                    longest: Part::default(),
                });
            }
            What::LoopShape(of) => {
                if let Some((Kind::LoopBegin, at)) = self.last.remove(&e.who) {
                    (self.loops[at].seats, self.loops[at].chunk) = (of.domains.0, of.chunk.0);
                }
            }
            What::WaitBegin(of) => {
                if let Some(&at) = self.numbers.get(&of.object)
                    && self.loops[at].stack == 0
                {
                    self.loops[at].stack = of.stack.0;
                }
            }
            What::LoopEnd(of) => {
                if let Some(&at) = self.numbers.get(&of.object) {
                    self.loops[at].ended = true;
                }
            }
            What::PartBegin(of) => {
                let (Some(&number), Who::Domain(domain)) = (self.numbers.get(&of.object), e.who) else {
                    return;
                };
                self.loops[number].shares.entry(domain).or_default().parts += 1;
                self.of_fiber.entry(of.fiber).or_default().push(self.parts.len());
                self.last.insert(e.who, (e.kind, self.parts.len()));
                let part = Part { domain, ..Part::default() };
                self.parts.push(Running { part, of: number, from: e.ns, to: u64::MAX });
            }
            What::PartEnd(of) => {
                if let Some(&at) = self.of_fiber.get(&of.fiber).and_then(|list| list.last()) {
                    self.parts[at].to = e.ns;
                    let of = &mut self.loops[self.parts[at].of];
                    of.to = of.to.max(e.ns);
                    self.last.insert(e.who, (e.kind, at));
                }
            }
            What::PartRange(of) => match self.last.remove(&e.who) {
                Some((Kind::PartBegin, at)) => self.parts[at].part.first = of.first.0,
                Some((Kind::PartEnd, at)) => {
                    let part = &mut self.parts[at];
                    (part.part.first, part.part.next) = (of.first.0, of.last.0);
                    let done = (of.last.0 as u64).wrapping_sub(of.first.0 as u64);
                    let share = self.loops[part.of].shares.entry(part.part.domain).or_default();
                    share.iterations = share.iterations.saturating_add(done);
                }
                _ => {}
            },
            // What a part did after that is not known; what it did until then counts.
            What::Lost(_) => {
                let open = self.parts.iter_mut().filter(|p| p.to == u64::MAX);
                open.filter(|p| e.who == Who::Domain(p.part.domain)).for_each(|p| p.to = e.ns);
                self.last.remove(&e.who);
            }
            _ => {}
        }
    }
}

fn sites(trace: &Trace, loops: Vec<Loop>) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    let mut at = HashMap::new();
    for of in loops {
        let n = *at.entry((of.stack, of.chunk, of.seats)).or_insert_with(|| {
            sites.push(Site { stack: of.stack, chunk: of.chunk, seats: of.seats, ..Site::default() });
            sites.len() - 1
        });
        let site = &mut sites[n];
        site.loops += 1;
        site.iterations = site.iterations.saturating_add(of.iterations);
        site.open += !of.ended as u64;
        site.ns += (if of.ended { of.to } else { trace.end_ns }).saturating_sub(of.from);
        if of.longest.ns > site.longest.ns {
            site.longest = of.longest;
        }
        for (domain, share) in of.shares {
            let sum = site.shares.entry(domain).or_default();
            sum.worked += share.worked;
            sum.displaced += share.displaced;
            sum.parts += share.parts;
            sum.iterations = sum.iterations.saturating_add(share.iterations);
        }
    }
    sites.sort_by_key(|s| (std::cmp::Reverse(s.idle()), s.stack, s.chunk));
    sites
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::event::ObjectKind;

    #[test]
    fn one_domain_does_most() {
        let mut trace = Trace { end_ns: 1000, ..Trace::default() };
        let mut add = |ns, domain, kind, c, a, b| {
            trace.events.push(Event { ns, who: Who::Domain(domain), kind, c, a, b });
        };
        let of = ObjectRef::new(ObjectKind::Loop, 3).0;
        let (f, g) = (FiberRef::new(2, 0, 0).0, FiberRef::new(3, 0, 0).0);
        for domain in [1, 2, 3] {
            add(0, domain, Kind::DomainBegin, 0, domain as u64, 0);
            add(0, domain, Kind::DomainEnter, 0, domain as u64, 0);
        }
        add(10, 1, Kind::LoopBegin, 6, of, 8);
        add(10, 1, Kind::LoopShape, 0, 2, 6);
        add(11, 1, Kind::WaitBegin, 0, of, 77);
        add(20, 2, Kind::FiberBegin, 0, f, 0);
        add(20, 2, Kind::PartBegin, 0, of, f);
        add(20, 2, Kind::PartRange, 0, 1, 8);
        add(20, 2, Kind::FiberRun, 0, f, 0);
        add(22, 3, Kind::FiberBegin, 0, g, 0);
        add(22, 3, Kind::PartBegin, 0, of, g);
        add(22, 3, Kind::PartRange, 0, 7, 8);
        add(22, 3, Kind::FiberRun, 0, g, 0);
        add(122, 3, Kind::PartEnd, 0, of, g);
        add(122, 3, Kind::PartRange, 0, 7, 9);
        add(122, 3, Kind::FiberPark, 1, g, 0);
        add(320, 2, Kind::PartEnd, 0, of, f);
        add(320, 2, Kind::PartRange, 0, 1, 7);
        add(320, 2, Kind::FiberPark, 1, f, 0);
        add(330, 1, Kind::LoopEnd, 1, of, 0);
        let sites = loops(&trace);
        assert_eq!(sites.len(), 1);
        let s = &sites[0];
        assert_eq!(
            (s.stack, s.loops, s.iterations, s.chunk, s.seats, s.ns, s.open),
            (77, 1, 8, 6, 2, 310, 0)
        );
        assert_eq!(s.shares[&2], Share { worked: 300, displaced: 0, parts: 1, iterations: 6 });
        assert_eq!(s.shares[&3], Share { worked: 100, displaced: 0, parts: 1, iterations: 2 });
        assert_eq!((s.idle(), s.busiest(), s.imbalance()), (2 * 310 - 400, 300, 1.5));
        assert_eq!(s.longest, Part { first: 1, next: 7, domain: 2, ns: 300 });
        assert!(s.pieces() == Some(2) && s.is_chunk_too_large());
    }
}
