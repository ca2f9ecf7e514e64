//! Accounts of histories that are known: written by hand, made up by a simulation that keeps books of its
//! own, and mangled.

use super::*;
use perilune_trace::event::{FiberRef, Kind, ObjectKind, ObjectRef, Verb};

fn event(ns: u64, domain: u32, kind: Kind, c: u16, a: u64, b: u64) -> Event {
    Event { ns, who: Who::Domain(domain), kind, c, a, b }
}

fn trace(events: Vec<Event>, end_ns: u64) -> Trace {
    let mut t = Trace { events, ..Trace::default() };
    t.finish(end_ns);
    t
}

fn check_sums(t: &Trace) -> Accounts {
    let mut seen: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    let found = account_with(t, &mut |i| {
        assert!(i.from < i.to);
        seen.entry(i.domain).or_default().push((i.from, i.to));
    });
    for a in &found.domains {
        assert_eq!(a.times.sum(), t.end_ns, "{a:?}");
        let whys: u64 = a.whys.values().sum();
        assert_eq!(whys, a.times[State::Waiting] + a.times[State::Blocked], "{a:?}");
        // The intervals cover everything once.
        let mut spans = seen.remove(&a.domain).unwrap_or_default();
        spans.sort_unstable();
        let mut at = 0;
        for (from, to) in spans {
            assert_eq!(from, at, "{a:?}");
            at = to;
        }
        assert_eq!(at, t.end_ns);
    }
    assert_eq!(found.total().sum(), t.end_ns * found.domains.len() as u64);
    found
}

fn times(parts: &[(State, u64)]) -> Times {
    let mut t = Times::default();
    parts.iter().for_each(|(s, ns)| t[*s] += ns);
    t
}

#[test]
fn a_life() {
    let (fiber, root) = (FiberRef::new(2, 0, 0).0, FiberRef::root(2).0);
    let jobs = ObjectRef::new(ObjectKind::Channel, 4);
    let e = |ns, kind, c, a, b| event(ns, 2, kind, c, a, b);
    let t = trace(
        vec![
            event(10, 1, Kind::DomainBegin, 0, 2, 0),
            event(15, 1, Kind::DomainReady, 0, 2, 0),
            e(20, Kind::DomainEnter, 0, 2, 77),
            e(22, Kind::FiberBegin, 0, fiber, 0),
            e(25, Kind::FiberRun, 0, fiber, 0),
            e(30, Kind::StepBegin, 0, 0, 0),
            e(31, Kind::MinorBegin, 0, 0, 0),
            e(35, Kind::MinorEnd, 0, 0, 0),
            e(36, Kind::StepEnd, 0, 0, 0),
            e(40, Kind::WaitBegin, 1, jobs.0, 0),
            e(41, Kind::FiberPark, 0, fiber, 0),
            e(43, Kind::DomainLeave, 0, 2, 0),
            event(60, 1, Kind::DomainReady, 0, 2, 0),
            e(66, Kind::DomainEnter, 0, 2, 78),
            e(67, Kind::FiberRun, 0, fiber, 0),
            e(68, Kind::WaitEnd, 0, jobs.0, fiber),
            e(70, Kind::BlockBegin, 0, 9, 0),
            e(71, Kind::FiberPark, 4, fiber, 0),
            e(72, Kind::DomainLeave, 2, 2, 0),
            e(80, Kind::DomainEnter, 0, 2, 78),
            e(81, Kind::FiberRun, 0, fiber, 0),
            e(82, Kind::BlockEnd, 0, 9, 0),
            e(85, Kind::FiberPark, 1, fiber, 0),
            e(86, Kind::DomainLeave, 0, 2, 0),
            Event { who: Who::Thread(78), ..e(95, Kind::DomainEnd, 0, 2, 0) },
            event(96, 1, Kind::FiberRun, 0, root, 0),
        ],
        100,
    );
    let found = check_sums(&t);
    let a = found.domain(2).unwrap();
    use State::*;
    let expected = times(&[
        (Absent, 10 + 5),
        (Idle, 5 + 9),
        (Ready, 5 + 6),
        (Scheduler, 5 + 2 + 1 + 1 + 1 + 1),
        (Lua, 5 + 5 + 3 + 3),
        (Collector, 1 + 1),
        (Minor, 4),
        (Waiting, 17),
        (Blocked, 1 + 8 + 1),
    ]);
    assert_eq!(a.times, expected);
    assert_eq!(a.misfits, 0);
    assert_eq!(a.whys, BTreeMap::from([(Why::Wait(Verb::Receives, jobs), 17), (Why::Call(9), 10)]));
    assert_eq!((a.begun, a.ended), (Some(10), Some(95)));
}

#[test]
fn nobody_on_the_processor() {
    let root = FiberRef::root(1).0;
    let e = |ns, kind, c, a, b| event(ns, 1, kind, c, a, b);
    let ms = 1_000_000;
    let t = trace(
        vec![
            e(0, Kind::DomainEnter, 0, 1, 5),
            e(0, Kind::CpuTime, 0, 3 * ms, 5),
            e(0, Kind::DomainBegin, 0, 1, 0),
            e(0, Kind::FiberRun, 0, root, 0),
            // A step that says itself that it was on a processor for a quarter of its time.
            e(10 * ms, Kind::StepBegin, 0, 0, 0),
            e(10 * ms, Kind::MinorBegin, 0, 0, 0),
            e(14 * ms, Kind::MinorEnd, 0, 0, 0),
            e(14 * ms, Kind::StepEnd, 2501, 0, 0),
            // A call that nobody had to leave the domain for.
            e(15 * ms, Kind::BlockBegin, 0, 9, 0),
            e(35 * ms, Kind::BlockEnd, 0, 9, 0),
            // 20 ms of the program, 1 of the collector: 5 are missing.
            e(44 * ms, Kind::CpuTime, 0, 19 * ms, 5),
            // Nothing is known of the rest.
        ],
        50 * ms,
    );
    let found = check_sums(&t);
    use State::*;
    let expected = times(&[
        (Lua, (15 + 6) * ms),
        (Displaced, 5 * ms),
        (Minor, ms),
        (CollectorWaiting, 3 * ms),
        (Blocked, 20 * ms),
    ]);
    assert_eq!(found.domains[0].times, expected);
    assert_eq!(found.domains[0].measured, (20 + 4) * ms);
    assert_eq!(found.domains[0].times.cpu(), 22 * ms);
}

#[test]
fn what_came_before_is_unknown() {
    let fiber = FiberRef::new(3, 1, 1).0;
    let t = trace(
        vec![
            event(50, 3, Kind::MinorEnd, 0, 0, 0),
            event(60, 3, Kind::StepEnd, 0, 0, 0),
            event(70, 3, Kind::FiberPark, 0, fiber, 0),
            event(80, 3, Kind::DomainLeave, 0, 3, 0),
            event(90, 7, Kind::Mark, 0, 0, 0),
        ],
        100,
    );
    let found = check_sums(&t);
    let a = found.domain(3).unwrap();
    assert_eq!(a.times[State::Unknown], 50);
    assert_eq!(a.times[State::Waiting], 20);
    assert_eq!((a.times[State::Collector], a.times[State::Lua], a.times[State::Scheduler]), (0, 20, 10));
    assert_eq!(a.begun, None);
    assert_eq!(found.domain(7).unwrap().times[State::Unknown], 90);
}

#[test]
fn one_that_was_there_tells_of_itself() {
    let (waits, runs) = (FiberRef::new(2, 0, 0).0, FiberRef::new(2, 0, 1).0);
    let e = |ns, kind, c, a| event(ns, 2, kind, c, a, 0);
    let t = trace(
        vec![
            e(30, Kind::DomainBegin, 1, 2),
            e(30, Kind::FiberBegin, 0, waits),
            e(30, Kind::FiberRun, 0, waits),
            e(30, Kind::WaitBegin, 2, 5),
            e(30, Kind::FiberPark, 0, waits),
            e(30, Kind::DomainEnter, 0, 2),
            e(30, Kind::FiberRun, 0, runs),
            e(50, Kind::FiberPark, 1, runs),
            e(50, Kind::DomainLeave, 0, 2),
        ],
        100,
    );
    let found = check_sums(&t);
    let a = found.domain(2).unwrap();
    assert_eq!(a.times, times(&[(State::Unknown, 30), (State::Lua, 20), (State::Waiting, 50)]));
    assert_eq!((a.misfits, a.begun), (0, None));
    assert_eq!(a.whys, BTreeMap::from([(Why::Wait(Verb::Sends, ObjectRef(5)), 50)]));
}

#[test]
fn a_finaliser_that_blocks_lets_others_run() {
    let (one, two) = (FiberRef::new(2, 0, 0).0, FiberRef::new(2, 0, 1).0);
    let e = |ns, kind, c, a| event(ns, 2, kind, c, a, 0);
    let t = trace(
        vec![
            e(0, Kind::DomainBegin, 0, 2),
            e(0, Kind::DomainEnter, 0, 2),
            e(0, Kind::FiberBegin, 0, one),
            e(0, Kind::FiberBegin, 0, two),
            e(0, Kind::FiberRun, 0, one),
            e(10, Kind::FinalizeBegin, 0, 0),
            e(20, Kind::BlockBegin, 0, 4),
            e(20, Kind::FiberPark, 4, one),
            e(20, Kind::DomainLeave, 2, 2),
            e(20, Kind::DomainEnter, 0, 2),
            e(20, Kind::FiberRun, 0, two),
            e(50, Kind::FiberPark, 1, two),
            e(50, Kind::DomainLeave, 1, 2),
            e(55, Kind::DomainEnter, 0, 2),
            e(55, Kind::FiberRun, 0, one),
            e(55, Kind::BlockEnd, 0, 4),
            e(60, Kind::FinalizeEnd, 0, 1),
            e(70, Kind::FiberPark, 1, one),
            e(70, Kind::DomainLeave, 0, 2),
        ],
        80,
    );
    use State::*;
    let found = check_sums(&t);
    assert_eq!(
        found.domains[0].times,
        times(&[(Lua, 10 + 30 + 10), (Finalizers, 15), (Ready, 5), (Idle, 10)])
    );
    assert_eq!(found.domains[0].misfits, 0);
}

/// A source of numbers that is the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Makes up the history of some domains, and what its times are.
fn simulate(dice: &mut Dice) -> (Vec<Event>, u64, BTreeMap<u32, Times>) {
    let mut events = Vec::new();
    let mut expected = BTreeMap::new();
    let mut last = 0;
    for domain in 1..=1 + dice.next(3) as u32 {
        let mut now = 0;
        let mut t = Times::default();
        let mut pass = |dice: &mut Dice, now: &mut u64, s: State| {
            let ns = dice.next(40);
            t[s] += ns;
            *now += ns;
        };
        pass(dice, &mut now, State::Absent);
        events.push(event(now, 99, Kind::DomainBegin, 0, domain as u64, 0));
        let mut parked: Vec<u64> = Vec::new();
        let mut made = 0;
        for _ in 0..dice.next(12) {
            pass(dice, &mut now, if parked.is_empty() { State::Idle } else { State::Waiting });
            events.push(event(now, 99, Kind::DomainReady, 0, domain as u64, 0));
            pass(dice, &mut now, State::Ready);
            events.push(event(now, domain, Kind::DomainEnter, 0, domain as u64, 0));
            for _ in 0..1 + dice.next(3) {
                pass(dice, &mut now, State::Scheduler);
                let mut out = |now: u64, kind, c, a| events.push(event(now, domain, kind, c, a, 0));
                let fiber = match dice.next(2) {
                    0 if !parked.is_empty() => parked.swap_remove(dice.next(parked.len() as u64) as usize),
                    _ => {
                        made += 1;
                        let fiber = FiberRef::new(domain, 0, made).0;
                        out(now, Kind::FiberBegin, 0, fiber);
                        fiber
                    }
                };
                out(now, Kind::FiberRun, 0, fiber);
                events.push(event(now, domain, Kind::WaitEnd, 0, 0, fiber));
                let mut out = |now: u64, kind, c, a| events.push(event(now, domain, kind, c, a, 0));
                for _ in 0..dice.next(4) {
                    pass(dice, &mut now, State::Lua);
                    match dice.next(4) {
                        0 => {
                            out(now, Kind::StepBegin, 0, 0);
                            pass(dice, &mut now, State::Collector);
                            for (begin, end, s) in [
                                (Kind::MinorBegin, Kind::MinorEnd, State::Minor),
                                (Kind::SliceBegin, Kind::SliceEnd, State::Slice),
                                (Kind::SweepBegin, Kind::SweepEnd, State::Sweep),
                            ] {
                                if dice.next(2) == 0 {
                                    out(now, begin, 0, 0);
                                    pass(dice, &mut now, s);
                                    out(now, end, 0, 0);
                                }
                            }
                            out(now, Kind::StepEnd, 0, 0);
                        }
                        1 => {
                            out(now, Kind::CloseBegin, 0, 0);
                            pass(dice, &mut now, State::Scope);
                            out(now, Kind::CloseEnd, 0, 0);
                        }
                        2 => {
                            out(now, Kind::BlockBegin, 0, 8);
                            pass(dice, &mut now, State::Blocked);
                            if dice.next(2) == 0 {
                                out(now, Kind::FiberPark, 4, fiber);
                                pass(dice, &mut now, State::Scheduler);
                                out(now, Kind::DomainLeave, 2, domain as u64);
                                pass(dice, &mut now, State::Blocked);
                                out(now, Kind::DomainEnter, 0, domain as u64);
                                pass(dice, &mut now, State::Scheduler);
                                out(now, Kind::FiberRun, 0, fiber);
                            }
                            out(now, Kind::BlockEnd, 0, 8);
                        }
                        _ => out(now, Kind::Mark, 0, 0),
                    }
                }
                pass(dice, &mut now, State::Lua);
                if dice.next(2) == 0 {
                    parked.push(fiber);
                    out(now, Kind::WaitBegin, 4, ObjectRef::new(ObjectKind::Task, dice.next(3)).0);
                    out(now, Kind::FiberPark, 0, fiber);
                } else {
                    out(now, Kind::FiberPark, 1 + dice.next(3) as u16, fiber);
                }
            }
            pass(dice, &mut now, State::Scheduler);
            events.push(event(now, domain, Kind::DomainLeave, 0, domain as u64, 0));
        }
        last = last.max(now);
        expected.insert(domain, (t, now, parked.is_empty()));
    }
    let end = last + dice.next(50);
    let expected = expected
        .into_iter()
        .map(|(domain, (mut t, now, idle))| {
            t[if idle { State::Idle } else { State::Waiting }] += end - now;
            (domain, t)
        })
        .collect();
    (events, end, expected)
}

#[test]
fn made_up_histories_are_accounted_for_exactly() {
    for seed in 0..400 {
        let (events, end, expected) = simulate(&mut Dice(seed));
        let found = check_sums(&trace(events, end));
        for (domain, times) in expected {
            let a = found.domain(domain).unwrap();
            assert_eq!((a.times, a.misfits), (times, 0), "seed {seed}, domain {domain}");
        }
    }
}

#[test]
fn mangled_histories_add_up_too() {
    for seed in 0..600 {
        let mut dice = Dice(seed * 31 + 7);
        let (mut events, end, _) = simulate(&mut dice);
        // The beginning overwritten, some lost, some changed, clocks that do not agree.
        let lost = dice.next(events.len() as u64 + 1) as usize;
        if seed % 2 == 0 {
            events.drain(..lost);
        }
        events.retain(|_| dice.next(10) != 0);
        for _ in 0..dice.next(events.len() as u64 + 1) {
            let at = dice.next(events.len() as u64) as usize;
            match dice.next(4) {
                0 => {
                    events[at].kind = perilune_trace::event::KINDS
                        [dice.next(perilune_trace::event::KINDS.len() as u64) as usize]
                        .kind
                }
                1 => events[at].c = dice.next(12_000) as u16,
                2 => (events[at].a, events[at].b) = (dice.next(u64::MAX >> 1), dice.next(100)),
                _ => {
                    events[at].who =
                        if dice.next(2) == 0 { Who::Thread(4) } else { Who::Domain(dice.next(4) as u32) }
                }
            }
        }
        check_sums(&trace(events, end));
    }
}

#[test]
fn nonsense_adds_up_too() {
    let kinds = perilune_trace::event::KINDS;
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let events = (0..dice.next(400))
            .map(|_| {
                let who = if dice.next(5) == 0 {
                    Who::Thread(dice.next(2) as u32)
                } else {
                    Who::Domain(dice.next(3) as u32)
                };
                let kind = kinds[dice.next(kinds.len() as u64) as usize].kind;
                let a =
                    if dice.next(2) == 0 { dice.next(4) } else { FiberRef::new(1, 0, dice.next(3) as u32).0 };
                Event { ns: dice.next(1 << 24), who, kind, c: dice.next(10_100) as u16, a, b: dice.next(3) }
            })
            .collect();
        check_sums(&trace(events, 1 << 24));
    }
}
