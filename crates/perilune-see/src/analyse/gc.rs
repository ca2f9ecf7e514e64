//! What the collectors of a program did: how often, how long it stopped for them, how much went through their
//! hands.
//!
//! # Terms
//! * A *pause* is a step of the collector, from `StepBegin` to `StepEnd`, the end of a scope that had
//!   allocated something, or a search for cycles. Finalisers run after a step and are the program's code:
//!   they are counted apart.
//! * *Allocated* is what collections and ends of scopes found to have been allocated, and what the domain had
//!   allocated since when it ended. What a domain that lives has allocated since its last collection is not
//!   known: at most a nursery.
//! * *Survival* is the part of what was allocated that minor collections have kept.
//!
//! Spans are paired by the replay: what has no beginning or no end, because it was lost, is not counted as a
//! pause. How much time went to the collector is in the accounts ([`super::domains`]), which have no such
//! gaps.

use crate::analyse::domains::{self, Accounts};
use crate::analyse::histogram::Histogram;
use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::*;
use std::collections::BTreeMap;

/// What a collector did.
#[derive(Clone, Debug, Default)]
pub struct Collections {
    /// Pauses, in nanoseconds.
    pub pauses: Histogram,
    /// Minor collections, in nanoseconds.
    pub minors: Histogram,
    /// Slices of major collections, in nanoseconds.
    pub slices: Histogram,
    /// Ends of scopes, in nanoseconds.
    pub scopes: Histogram,
    /// Runs of finalisers, in nanoseconds.
    pub finalizers: Histogram,
    /// Searches for cycles of islands and shared objects, in nanoseconds.
    pub searches: Histogram,
    /// Major collections begun.
    pub majors_begun: u64,
    /// Major collections completed.
    pub majors: u64,
    /// Whole collections on request or for want of memory.
    pub full: u64,
    /// Finalisers called.
    pub finalized: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Of these, bytes that minor collections have looked at.
    pub examined: u64,
    /// Bytes that they have kept.
    pub promoted: u64,
    /// Bytes marked by slices.
    pub marked: u64,
    /// Bytes freed by ends of scopes.
    pub scope_freed: u64,
    /// Bytes that ends of scopes have kept.
    pub scope_kept: u64,
    /// Times that a collection came while scopes were open, and closed them.
    pub dissolved: u64,
    /// Times that values were copied out of the domain for another one, their bytes.
    pub copied_out: u64,
    /// Their bytes, outside of all heaps.
    pub copied_out_bytes: u64,
    /// Times that values were copied into it.
    pub copied_in: u64,
    /// Their bytes, as they were outside.
    pub copied_in_bytes: u64,
    /// Captured tables that were packed for many crossings.
    pub pictures: u64,
    /// Their bytes.
    pub picture_bytes: u64,
    /// Islands made here.
    pub islands_made: u64,
    /// Their bytes.
    pub islands_made_bytes: u64,
    /// Islands freed here.
    pub islands_freed: u64,
    /// Their bytes.
    pub islands_freed_bytes: u64,
    /// Most bytes alive that were seen. For all domains together, at the same time.
    pub peak_live: u64,
    /// Most bytes mapped that were seen. For all domains together, at the same time.
    pub peak_mapped: u64,
    /// Bytes alive when last seen.
    pub live: u64,
    /// Anything was seen of how many bytes are alive.
    pub is_known: bool,
    /// Bytes given back to the system.
    pub trimmed: u64,
    /// Size of the nursery when last seen; 0: it has not changed.
    pub nursery: u64,
    /// Allocations refused.
    pub refused: u64,
}

impl Collections {
    /// The part that minor collections have kept of what they looked at, 0.0 to 1.0.
    pub fn survival(&self) -> f64 {
        if self.examined == 0 { 0.0 } else { self.promoted as f64 / self.examined as f64 }
    }

    /// Adds what another one did. Peaks are left alone: they are not at the same time.
    fn merge(&mut self, o: &Collections) {
        self.pauses.merge(&o.pauses);
        self.minors.merge(&o.minors);
        self.slices.merge(&o.slices);
        self.scopes.merge(&o.scopes);
        self.finalizers.merge(&o.finalizers);
        self.searches.merge(&o.searches);
        self.is_known |= o.is_known;
        for (to, n) in [
            (&mut self.majors_begun, o.majors_begun),
            (&mut self.majors, o.majors),
            (&mut self.full, o.full),
            (&mut self.finalized, o.finalized),
            (&mut self.allocated, o.allocated),
            (&mut self.examined, o.examined),
            (&mut self.promoted, o.promoted),
            (&mut self.marked, o.marked),
            (&mut self.scope_freed, o.scope_freed),
            (&mut self.scope_kept, o.scope_kept),
            (&mut self.dissolved, o.dissolved),
            (&mut self.copied_out, o.copied_out),
            (&mut self.copied_out_bytes, o.copied_out_bytes),
            (&mut self.copied_in, o.copied_in),
            (&mut self.copied_in_bytes, o.copied_in_bytes),
            (&mut self.pictures, o.pictures),
            (&mut self.picture_bytes, o.picture_bytes),
            (&mut self.islands_made, o.islands_made),
            (&mut self.islands_made_bytes, o.islands_made_bytes),
            (&mut self.islands_freed, o.islands_freed),
            (&mut self.islands_freed_bytes, o.islands_freed_bytes),
            (&mut self.live, o.live),
            (&mut self.trimmed, o.trimmed),
            (&mut self.refused, o.refused),
        ] {
            add(to, n);
        }
    }
}

/// What the collectors of a program did, and where its time went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Times of the domains.
    pub accounts: Accounts,
    /// By domain. Domains of the accounts that are missing here had nothing to do with a collector.
    pub domains: BTreeMap<u32, Collections>,
    /// What threads did outside of all domains: freeing islands.
    pub outside: Collections,
    /// All of it.
    pub total: Collections,
    /// What was copied into domains, by the place that had sent it; the most bytes first. Without a place:
    /// `None`.
    pub sent: Vec<(Option<String>, Sent)>,
}

/// What came from a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How often something came.
    pub times: u64,
    /// Bytes as they were outside of all heaps.
    pub bytes: u64,
    /// Objects; of a crossing with very many, the most that an event can say.
    pub objects: u64,
}

impl Sent {
    fn merge(&mut self, o: Sent) {
        add(&mut self.times, o.times);
        add(&mut self.bytes, o.bytes);
        add(&mut self.objects, o.objects);
    }
}

/// The program's own place of a call path: behind what is written in Lua of the runtime itself.
fn place(trace: &Trace, stack: u32) -> Option<String> {
    let d = &trace.definitions;
    let node = d
        .frames(stack)
        .find(|node| node.source != 0 && node.line != 0 && d.string(node.source as u64) != "perilune")?;
    Some(format!("{}:{}", d.string(node.source as u64), node.line))
}

/// The books of collectors while a trace is replayed.
#[derive(Default)]
struct Books {
    /// What was copied in, by the call path that had sent it.
    sent: BTreeMap<u32, Sent>,
    domains: BTreeMap<u32, (Collections, Seen)>,
    outside: (Collections, Seen),
    live: Level,
    mapped: Level,
}

/// What was last seen of a heap.
#[derive(Default)]
struct Seen {
    live: u64,
    mapped: u64,
}

/// Evaluates a trace.
pub fn report(trace: &Trace) -> Report {
    let (mut books, mut times) = (Books::default(), domains::Books::default());
    let replay = replay::run(trace, &mut [&mut times, &mut books]);
    let mut total = books.outside.0.clone();
    books.domains.values().for_each(|(of, _)| total.merge(of));
    (total.peak_live, total.peak_mapped) = (books.live.peak, books.mapped.peak);
    let mut places: BTreeMap<Option<String>, Sent> = BTreeMap::new();
    for (stack, of) in &books.sent {
        places.entry(place(trace, *stack)).or_default().merge(*of);
    }
    let mut sent: Vec<_> = places.into_iter().collect();
    sent.sort_by_key(|(_, of)| std::cmp::Reverse(of.bytes));
    Report {
        sent,
        accounts: times.close(trace, &replay),
        domains: books.domains.into_iter().map(|(number, (of, _))| (number, of)).collect(),
        outside: books.outside.0,
        total,
    }
}

impl Books {
    fn of(&mut self, who: Who) -> &mut (Collections, Seen) {
        match who {
            Who::Domain(number) => self.domains.entry(number).or_default(),
            Who::Thread(_) => &mut self.outside,
        }
    }

    fn ended(&mut self, domain: u32, young: u64) {
        if let Some((of, seen)) = self.domains.get_mut(&domain) {
            add(&mut of.allocated, young);
            of.peak_live = of.peak_live.max(of.live.saturating_add(young));
            of.live = 0;
            self.live.set(&mut seen.live, 0);
            self.mapped.set(&mut seen.mapped, 0);
        } else if young > 0 {
            // It has never collected.
            let of = &mut self.domains.entry(domain).or_default().0;
            (of.allocated, of.peak_live) = (young, young);
        }
    }

    /// So many bytes are alive, and mapped if that is known.
    fn alive(&mut self, who: Who, alive: u64, mapped: Option<u64>) {
        let (of, seen) = match who {
            Who::Domain(number) => self.domains.entry(number).or_default(),
            Who::Thread(_) => &mut self.outside,
        };
        self.live.set(&mut seen.live, alive);
        of.peak_live = of.peak_live.max(alive);
        of.is_known = true;
        if let Some(mapped) = mapped {
            self.mapped.set(&mut seen.mapped, mapped);
            of.live = alive;
            of.peak_mapped = of.peak_mapped.max(mapped);
        }
    }
}

impl Subscriber for Books {
    fn change(&mut self, change: &Change, _: &Replay) {
        let Change::PhaseOver(over) = change else { return };
        let of = &mut self.of(over.who).0;
        let ns = over.to - over.from;
        match over.phase {
            Kind::StepBegin => of.pauses.add(ns),
            Kind::MinorBegin => of.minors.add(ns),
            Kind::SliceBegin => of.slices.add(ns),
            Kind::FinalizeBegin => of.finalizers.add(ns),
            Kind::CloseBegin => {
                of.scopes.add(ns);
                of.pauses.add(ns);
            }
            Kind::CycleBegin => {
                of.searches.add(ns);
                of.pauses.add(ns);
            }
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        match what {
            What::DomainEnd(of) => return self.ended(of.domain.0, of.young.0),
            What::StepBegin(of) => self.alive(e.who, of.alive.0, None),
            What::StepEnd(of) => self.alive(e.who, of.alive.0, Some(of.mapped.0)),
            What::HeapLive(of) => self.alive(e.who, of.alive.0, Some(of.mapped.0)),
            _ => {}
        }
        if !(Kind::StepBegin..=Kind::MemoryRefused).contains(&e.kind) {
            return;
        }
        let of = &mut self.of(e.who).0;
        match *what {
            What::StepBegin(StepBegin { cause, .. }) => of.full += (cause == StepCause::Full) as u64,
            What::MinorEnd(MinorEnd { allocated, promoted }) => {
                add(&mut of.allocated, allocated.0);
                add(&mut of.examined, allocated.0);
                add(&mut of.promoted, promoted.0);
            }
            What::SliceEnd(SliceEnd { marked, complete }) => {
                add(&mut of.marked, marked.0);
                of.majors += complete as u64;
            }
            What::CloseEnd(CloseEnd { freed, kept }) => {
                add(&mut of.allocated, freed.0);
                add(&mut of.scope_freed, freed.0);
                add(&mut of.scope_kept, kept.0);
            }
            What::FinalizeEnd(FinalizeEnd { run }) => add(&mut of.finalized, run.0),
            What::MajorBegin(_) => of.majors_begun += 1,
            What::ScopeDissolved(_) => of.dissolved += 1,
            What::CopiedOut(CopiedOut { size, .. }) => {
                of.copied_out += 1;
                add(&mut of.copied_out_bytes, size.0);
            }
            What::CopiedIn(CopiedIn { size, stack, objects }) => {
                of.copied_in += 1;
                add(&mut of.copied_in_bytes, size.0);
                let sent = self.sent.entry(stack.0).or_default();
                sent.times += 1;
                add(&mut sent.bytes, size.0);
                add(&mut sent.objects, u64::from(objects.0));
            }
            What::PictureMade(PictureMade { size, .. }) => {
                of.pictures += 1;
                add(&mut of.picture_bytes, size.0);
            }
            What::IslandMade(IslandMade { size, .. }) => {
                of.islands_made += 1;
                add(&mut of.islands_made_bytes, size.0);
            }
            What::IslandFreed(IslandFreed { size, .. }) => {
                of.islands_freed += 1;
                add(&mut of.islands_freed_bytes, size.0);
            }
            What::Trimmed(Trimmed { returned }) => add(&mut of.trimmed, returned.0),
            What::Nursery(Nursery { size }) => of.nursery = size.0,
            What::MemoryRefused(_) => of.refused += 1,
            _ => {}
        }
    }
}

/// Damaged files hold any numbers.
fn add(to: &mut u64, n: u64) {
    *to = to.saturating_add(n);
}

/// What all domains have together, and the most that it was.
#[derive(Default)]
struct Level {
    now: u64,
    peak: u64,
}

impl Level {
    /// One of them has so much now, instead of what it had.
    fn set(&mut self, had: &mut u64, has: u64) {
        self.now = self.now.saturating_sub(*had).saturating_add(has);
        self.peak = self.peak.max(self.now);
        *had = has;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_added_up() {
        let mut trace = Trace::default();
        let mut add = |ns, domain, kind, c, a, b| {
            trace.events.push(Event { ns, who: Who::Domain(domain), kind, c, a, b });
        };
        // What has lost its beginning is no pause, but its bytes count.
        add(5, 1, Kind::MinorEnd, 0, 100, 10);
        add(6, 1, Kind::StepEnd, 0, 500, 4000);
        add(10, 1, Kind::StepBegin, 2, 900, 0);
        add(11, 1, Kind::MinorBegin, 0, 0, 0);
        add(15, 1, Kind::MinorEnd, 0, 300, 90);
        add(16, 1, Kind::MajorBegin, 0, 0, 0);
        add(16, 1, Kind::SliceBegin, 0, 0, 0);
        add(19, 1, Kind::SliceEnd, 1, 77, 0);
        add(20, 1, Kind::StepEnd, 0, 400, 3000);
        add(20, 2, Kind::StepBegin, 0, 200, 0);
        add(22, 2, Kind::StepEnd, 0, 150, 1000);
        add(30, 2, Kind::CloseBegin, 0, 0, 0);
        add(37, 2, Kind::CloseEnd, 0, 1000, 24);
        add(40, 2, Kind::FinalizeBegin, 0, 0, 0);
        add(41, 2, Kind::FinalizeEnd, 0, 3, 0);
        add(42, 2, Kind::IslandMade, 0, 4096, 1);
        add(42, 1, Kind::CopiedOut, 3, 700, 0);
        add(42, 2, Kind::CopiedIn, 3, 700, 0);
        add(42, 2, Kind::CopiedIn, 1, 300, 0);
        add(42, 2, Kind::PictureMade, 9, 500, 0);
        add(43, 1, Kind::DomainEnd, 0, 2, 64);
        add(44, 1, Kind::HeapLive, 0, 1000, 3000);
        trace.events.push(Event {
            ns: 50,
            who: Who::Thread(9),
            kind: Kind::IslandFreed,
            c: 0,
            a: 4096,
            b: 1,
        });
        trace.finish(60);
        let r = report(&trace);
        let (one, two) = (&r.domains[&1], &r.domains[&2]);
        assert_eq!((one.pauses.count(), one.pauses.sum(), one.minors.count()), (1, 10, 1));
        assert_eq!((one.allocated, one.promoted, one.marked, one.majors, one.full), (400, 100, 77, 1, 1));
        assert_eq!((two.pauses.count(), two.pauses.max(), two.scopes.count()), (2, 7, 1));
        assert_eq!((two.allocated, two.scope_kept, two.finalized, two.live), (1064, 24, 3, 0));
        assert_eq!((one.peak_live, two.peak_live), (1000, 150 + 64));
        // 900, then 400 + 200, then 400 + 150, then 1000 alone.
        assert_eq!((r.total.peak_live, r.total.peak_mapped), (1000, 4000));
        assert_eq!((r.total.islands_made, r.total.islands_freed_bytes), (1, 4096));
        assert_eq!((r.total.copied_out_bytes, r.total.copied_in, r.total.copied_in_bytes), (700, 2, 1000));
        assert_eq!((r.domains[&2].pictures, r.domains[&2].picture_bytes), (1, 500));
        assert_eq!(r.sent, [(None, Sent { times: 2, bytes: 1000, objects: 4 })]);
        assert_eq!((r.total.pauses.count(), r.total.allocated), (3, 1464));
        assert_eq!((r.total.survival() * 100.0).round(), 25.0);
    }
}
