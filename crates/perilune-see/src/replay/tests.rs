//! What a gap does: nothing is measured across it, and what is not known is called so.

use super::*;
use crate::analyse::domains::account;
use crate::analyse::latency::{Delay, latency};
use crate::analyse::offcpu::OffCpu;

fn trace(domain: u32, events: Vec<(u64, What)>, end: u64) -> Trace {
    let events = events.into_iter().map(|(ns, what)| Event::new(ns, Who::Domain(domain), what)).collect();
    let mut t = Trace { events, ..Trace::default() };
    t.finish(end);
    t
}

const FIBER: FiberRef = FiberRef(2 << 40);
const JOBS: ObjectRef = ObjectRef::new(ObjectKind::Channel, 4);

fn enter() -> What {
    What::DomainEnter(DomainEnter { domain: DomainId(2), thread: Tid(7) })
}

fn leave(fibers: u64) -> What {
    What::DomainLeave(DomainLeave { domain: DomainId(2), fibers: Count(fibers), why: Leaving::Idle })
}

fn run() -> What {
    What::FiberRun(FiberRun { fiber: FIBER })
}

fn park(why: Parking) -> What {
    What::FiberPark(FiberPark { fiber: FIBER, why })
}

fn wait() -> What {
    What::WaitBegin(WaitBegin { verb: Verb::Receives, object: JOBS, stack: Stack(3) })
}

fn lost() -> What {
    What::Lost(Lost { events: Count(9) })
}

fn beginning() -> Vec<(u64, What)> {
    let begin = DomainBegin { domain: DomainId(2), name: Name(0), existed: false };
    vec![
        (0, What::DomainBegin(begin)),
        (0, enter()),
        (0, What::FiberBegin(FiberBegin { fiber: FIBER, name: Name(0) })),
        (10, run()),
    ]
}

#[test]
fn a_gap_is_unknown_and_not_waiting() {
    let mut events = beginning();
    // In the gap the fiber waits, runs, ends; the domain is left and idle.
    events.extend([(20, wait()), (21, park(Parking::Waits)), (30, leave(1)), (40, lost())]);
    events.extend([(70, enter()), (80, leave(0))]);
    let t = trace(2, events, 100);
    let times = account(&t).domains[0].times;
    assert_eq!((times[State::Waiting], times[State::Unknown], times[State::Idle]), (10, 30, 20));
    assert_eq!(times.sum(), 100);
    let waits = OffCpu::new(&t);
    assert!(waits.entries.is_empty(), "the wait's end is not known: {:?}", waits.entries);
}

#[test]
fn after_a_gap_a_domain_that_is_left_waits_if_it_says_so() {
    let mut events = beginning();
    events.extend([(20, lost()), (50, enter()), (60, leave(3))]);
    let times = account(&trace(2, events, 100)).domains[0].times;
    assert_eq!((times[State::Unknown], times[State::Waiting], times[State::Idle]), (30, 40, 0));
}

#[test]
fn nothing_is_measured_across_a_gap() {
    let mut events = beginning();
    let step = |alive| What::StepBegin(StepBegin { alive: Bytes(alive), cause: StepCause::Budget });
    let end = || What::StepEnd(StepEnd { alive: Bytes(1), mapped: Bytes(1), processor: Share(None) });
    events.extend([(20, step(1)), (25, lost()), (90, end()), (91, step(1)), (94, end())]);
    let found = latency(&trace(2, events, 100), 5);
    let pauses: Vec<u64> = found.slowest_of(Delay::Pause).iter().map(|s| s.ns).collect();
    assert_eq!(pauses, [3]);
}

#[test]
fn a_call_within_a_call_is_part_of_it() {
    let mut events = beginning();
    let begin = |name| What::BlockBegin(BlockBegin { name: Name(name), stack: Stack(5) });
    let end = |name| What::BlockEnd(BlockEnd { name: Name(name) });
    events.extend([(20, begin(1)), (22, begin(2)), (24, end(2)), (60, end(1))]);
    let seen = OffCpu::new(&trace(2, events, 100));
    assert_eq!(seen.entries.len(), 1);
    assert_eq!((seen.total_ns(), seen.entries[0].count), (40, 1));
}

#[test]
fn a_join_waits_for_the_domain_that_it_names() {
    let d = crate::Definitions::default();
    assert_eq!(d.wait(Verb::Joins, ObjectRef::new(ObjectKind::Domain, 3)), "joins domain 3");
}
