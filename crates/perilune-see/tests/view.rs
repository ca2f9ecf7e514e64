//! Rows of bars: what they say of a trace that is known, and what must hold whatever the events are.

mod common;

use common::Maker;
use perilune_see::trace::Event;
use perilune_see::view::model::*;
use perilune_see::view::{Timeline, query, tiles};
use perilune_see::{Trace, Who};
use perilune_trace::event::{KINDS, Notation, Slot};
use perilune_trace::{FiberRef, Kind, ObjectKind, ObjectRef};

fn row(t: &Timeline, kind: RowKind, group: u32, number: u64) -> &Row {
    let found = t.rows.iter().find(|r| (r.kind, r.group, r.number) == (kind, group, number));
    found.unwrap_or_else(|| panic!("no {kind:?} {number} in group {group}"))
}

/// Bars of a level: class, from, to, text.
fn bars(t: &Timeline, row: &Row, level: usize) -> Vec<(Class, u64, u64, String)> {
    row.levels[level].bars.iter().map(|b| (b.class, b.start, b.end, t.text(b.label, b.x))).collect()
}

#[test]
fn fibers_go_from_state_to_state() {
    let t = Timeline::new(&common::small());
    let names: Vec<_> = t.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["domain 1: main", "domain 2: worker \"1\""]);
    let say = |list: &[(Class, u64, u64, &str)]| -> Vec<(Class, u64, u64, String)> {
        list.iter().map(|b| (b.0, b.1, b.2, b.3.to_owned())).collect()
    };
    use Class::*;
    let work = "work (jobs.lua:12)";
    assert_eq!(
        bars(&t, row(&t, RowKind::Fiber, 1, 1), 0),
        say(&[
            (Run, 420, 510, work),
            (Wait, 510, 950, "receives from channel 'jobs'"),
            (Ready, 950, 1010, "woken, waits for its turn"),
            (Run, 1010, 1300, work),
        ])
    );
    assert_eq!(
        bars(&t, row(&t, RowKind::Activity, 1, 0), 0),
        say(&[
            (Own, 130, 160, "between fibers"),
            (Run, 160, 200, work),
            (Gc, 200, 210, "collection"),
            (Minor, 210, 260, "minor"),
            (Gc, 260, 270, "collection"),
            (Run, 270, 400, work),
            (Own, 400, 420, "between fibers"),
            (Run, 420, 510, work),
            (Own, 510, 520, "between fibers"),
            (Own, 1000, 1010, "between fibers"),
            (Run, 1010, 1300, work),
            (Own, 1300, 1310, "between fibers"),
        ])
    );
    let root = row(&t, RowKind::Root, 0, 0);
    assert_eq!(
        bars(&t, root, 0),
        say(&[(Run, 20, 600, "main code"), (Block, 600, 900, "io.read"), (Run, 900, 1400, "main code")])
    );
    assert_eq!(bars(&t, root, 1), say(&[(Span, 30, 1200, "phase <one>")]));
    assert_eq!(bars(&t, row(&t, RowKind::Owner, 1, 0), 0).len(), 2);
    // Why the wait has ended, and where it was.
    let wait = row(&t, RowKind::Fiber, 1, 1).levels[0].bars[1];
    assert_eq!((wait.y, wait.stack, t.object(wait.x)), (1, 2, "channel 'jobs'".to_owned()));
}

#[test]
fn the_kernel_speaks_of_threads_and_rows_of_domains() {
    let mut m = Maker::default();
    let name = m.string("neighbour");
    m.trace.pid = 77;
    m.at(100, 1, Kind::DomainEnter, 0, 1, 11);
    m.at(800, 1, Kind::DomainLeave, 0, 1, 0);
    m.at(900, 2, Kind::DomainEnter, 0, 2, 11);
    for (ns, kind, c, a, b) in [
        (50, Kind::CpuBegin, 0, 11, 3),
        (300, Kind::CpuEnd, 1, 11, 42 << 32 | name),
        (300, Kind::CpuOther, 0, 3, 42 << 32 | name),
        (500, Kind::CpuBegin, 0, 11, 3),
        (600, Kind::CpuEnd, 1, 11, 77 << 32 | name),
        (700, Kind::CpuBegin, 0, 11, 4),
        (950, Kind::CpuEnd, 0, 11, 0),
    ] {
        m.trace.events.push(Event { ns, who: Who::Thread(11), kind, c, a, b });
    }
    let t = Timeline::new(&m.done(1000));
    let say = |r: &Row| -> String {
        let bars = bars(&t, r, 0).into_iter().map(|b| format!("{}-{} {}", b.1, b.2, b.3));
        bars.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        say(row(&t, RowKind::Kernel, 0, 0)),
        "100-300 on processor 3, 300-500 displaced by neighbour (42), 500-600 on processor 3, \
         600-700 displaced by another thread of the program, 700-800 on processor 4"
    );
    assert_eq!(say(row(&t, RowKind::Kernel, 1, 0)), "900-950 on processor 4");
    assert_eq!(
        say(row(&t, RowKind::Processor, 2, 3)),
        "50-100 a thread of the program, 100-300 domain 1, 300-500 neighbour (42), 500-600 domain 1"
    );
    assert_eq!(t.groups[2].name, "processors");
}

#[test]
fn statistics_are_of_the_stretch_and_searching_finds_texts() {
    let t = Timeline::new(&common::small());
    let s = query::statistics(&t, 200, 600).replace(", ", ",");
    // Domain 2: 90 + 130 running, 20 stopped, 50 of it for the minor.
    assert!(s.contains("[1,[220,0,0,0,50,0,0,0,20,30,"), "{s}");
    assert!(s.contains(r#"["receives from channel 'jobs'",2,90,1,90]"#), "{s}");
    assert!(s.contains(r#""collections":[[4,50,1,50],[8,70,1,70]]"#), "{s}");
    let hits = query::search(&t, "CHANNEL");
    assert!(hits.starts_with(r#"{"total":1,"#) && hits.contains("510,950"), "{hits}");
    assert!(query::search(&t, "nobody").starts_with(r#"{"total":0,"#));
    let fiber = t.rows.iter().position(|r| r.kind == RowKind::Fiber && r.number == 1).unwrap();
    let links = query::links(&t, fiber as u32, 510, 1010, 10);
    let kinds: Vec<_> = links.iter().map(|l| (l.kind, l.from_ns, l.to_ns)).collect();
    assert_eq!(kinds, [(LinkKind::Create, 110, 410), (LinkKind::Wake, 950, 950)]);
}

#[test]
fn objects_without_names_share_a_string() {
    let mut m = Maker::default();
    let f = FiberRef::new(1, 0, 0);
    for n in 0..1000 {
        m.at(n * 10, 1, Kind::FiberRun, 0, f.0, 0);
        m.at(n * 10 + 1, 1, Kind::WaitBegin, 4, ObjectRef::new(ObjectKind::Task, n + 1).0, 0);
        m.at(n * 10 + 2, 1, Kind::FiberPark, 0, f.0, 0);
    }
    let t = Timeline::new(&m.done(10_000));
    assert!(t.names.len() < 10, "{:?}", t.names);
    let fiber = row(&t, RowKind::Fiber, 0, 0);
    assert_eq!(t.text(fiber.levels[0].bars[9].label, fiber.levels[0].bars[9].x), "awaits task 5");
}

/// Events without rhyme or reason, as rings that were overwritten leave them.
fn noise(seed: u64) -> Trace {
    let mut m = Maker::default();
    for n in 0..8 {
        m.string(&format!("name{n}"));
    }
    let (mut state, mut ns) = (seed, 0);
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for _ in 0..3000 {
        ns += next(20);
        let info = &KINDS[next(KINDS.len() as u64) as usize];
        let domain = 1 + next(3) as u32;
        let (fiber, object) = (FiberRef::new(domain, 0, next(4) as u32).0, (1 + next(13)) << 56 | next(5));
        let mut argument = |slot| match info.field(slot).map(|f| f.notation) {
            Some(Notation::Fiber) => fiber,
            Some(Notation::Object) => object,
            Some(Notation::Domain) => domain as u64,
            _ => next(9),
        };
        let (a, b) = (argument(Slot::A), argument(Slot::B));
        let c = next(9) as u16;
        m.at(ns, domain, info.kind, c, a, b);
    }
    m.done(ns + 5)
}

#[test]
fn bars_never_overlap_and_nothing_lasts_longer_than_the_trace() {
    for seed in 1..60 {
        let trace = noise(seed);
        let t = Timeline::new(&trace);
        for row in &t.rows {
            for level in &row.levels {
                assert!(level.bars.iter().all(|b| b.start <= b.end && b.end <= t.end_ns), "{}", row.name);
                assert!(level.bars.windows(2).all(|w| w[0].end <= w[1].start), "{}", row.name);
                let total: u64 = level.sums(0, t.end_ns).iter().sum();
                assert_eq!(total, level.bars.iter().map(|b| b.end - b.start).sum::<u64>());
            }
            assert!(row.moments.is_sorted_by_key(|m| m.ns) && row.points.is_sorted_by_key(|p| p.0));
        }
        assert!(t.links.is_sorted_by_key(|l| l.to_ns));
        assert!(t.links.iter().all(|l| l.from_ns <= l.to_ns && (l.to_row as usize) < t.rows.len()));
        // However little may be said, something is.
        assert!(tiles::within(&t, 0, t.end_ns, 10).1 > 0);
    }
}
