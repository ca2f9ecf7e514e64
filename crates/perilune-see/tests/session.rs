//! One session after the other in this process (there is one at a time, so this is one test), with readers
//! beside the writers.

use perilune_see::Reader;
use perilune_see::{Trace, Who};
use perilune_test::Folder;
use perilune_trace::event::Category;
use perilune_trace::session::{self, Options};
use perilune_trace::{Kind, Writer, emit as probes, names, on};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes an event by its words.
fn emit(kind: Kind, c: u16, a: u64, b: u64) {
    if on(kind.category()) {
        probes::record(kind, c, a, b);
    }
}

fn options(ring_events: u32) -> Options {
    let mut options = Options::default();
    options.geometry.ring_events = ring_events;
    options.geometry.rings = 8;
    options.geometry.definitions = 1 << 20;
    options
}

#[test]
fn sessions() {
    let folder = Folder::new();
    let early = names::string(b"known before the session");

    // Nothing is on: nothing is written, nothing breaks.
    emit(Kind::Mark, 0, 1, 2);

    let file = folder.join("first");
    session::start(&file, &options(1 << 10)).unwrap();
    assert!(session::start(&folder.join("second"), &options(1 << 10)).is_err(), "one at a time");
    let meta = std::fs::metadata(&file).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o600);

    // A domain's writer, then the thread's own.
    let mut writer = Box::new(Writer::new(7));
    // SAFETY: used by this thread alone, until `leave`.
    unsafe { probes::enter(&mut *writer) };
    emit(Kind::Mark, 0, early as u64, 0);
    probes::log("a text that does not fit into one event, nor two: ä".as_bytes());
    probes::leave();
    emit(Kind::Counter, 3, names::string(b"late") as u64, 4.5f64.to_bits());
    emit(Kind::CpuSample, 0, 0, 0); // its category is off

    let trace = Trace::from_ring_file(&file).unwrap();
    assert_eq!((trace.lost, trace.unknown), (0, 0));
    assert_eq!(trace.events[0].who, Who::Domain(7));
    assert_eq!(trace.definitions.string(trace.events[0].a), "known before the session");
    assert_eq!(trace.text(1), "a text that does not fit into one event, nor two: ä");
    let last = trace.events.last().unwrap();
    assert!(matches!(last.who, Who::Thread(_)));
    assert_eq!((last.kind, last.c, f64::from_bits(last.b)), (Kind::Counter, 3, 4.5));
    assert!(last.ns <= trace.end_ns && trace.end_ns < 60_000_000_000);

    // The newest overwrite the oldest, and the reader knows how many.
    // SAFETY: as above.
    unsafe { probes::enter(&mut *writer) };
    let mut reader = Reader::open(&file).unwrap();
    reader.drain(&mut |_| {});
    for n in 0..5000u64 {
        emit(Kind::Mark, 0, 0, n);
    }
    let mut seen = Vec::new();
    let mut gaps = Vec::new();
    let drained = reader.drain(&mut |e| match Kind::from_number(e.kind) {
        Some(Kind::Lost) => gaps.push((e.writer, e.a)),
        _ => seen.push(e.b),
    });
    assert_eq!(gaps, [(7, 5000 - 1024)], "where events are missing is said");
    assert_eq!((drained.events, drained.lost), (1024, 5000 - 1024));
    assert_eq!((seen[0], seen[1023]), (5000 - 1024, 4999));

    // A reader that keeps up loses nothing, and never sees half an event.
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let collector = s.spawn(|| {
            let (mut next, mut events, mut lost) = (0, 0, 0);
            loop {
                let last = done.load(Ordering::Acquire);
                let d = reader.drain(&mut |e| {
                    if e.kind == Kind::Lost as u16 {
                        return;
                    }
                    assert_eq!(e.a, e.b.wrapping_mul(0x9e37_79b9_7f4a_7c15), "a torn event");
                    assert!(e.b >= next, "out of order");
                    next = e.b + 1;
                });
                events += d.events;
                lost += d.lost;
                if last {
                    return (events, lost, next);
                }
            }
        });
        for n in 0..2_000_000u64 {
            emit(Kind::Mark, 0, n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n);
        }
        done.store(true, Ordering::Release);
        let (events, lost, next) = collector.join().unwrap();
        assert_eq!((events + lost, next), (2_000_000, 2_000_000));
    });
    probes::leave();
    drop(writer);

    // The ring goes to the next domain, and old events keep their owner.
    let mut other = Box::new(Writer::new(8));
    // SAFETY: as above.
    unsafe { probes::enter(&mut *other) };
    emit(Kind::Mark, 0, 0, 1);
    probes::leave();
    session::stop();
    emit(Kind::Mark, 0, 0, 99);
    let trace = Trace::from_ring_file(&file).unwrap();
    assert_eq!(trace.events.iter().filter(|e| e.who == Who::Domain(8)).count(), 1);
    assert!(trace.events.iter().filter(|e| e.who == Who::Domain(7)).count() > 1000);
    assert!(trace.events.iter().all(|e| e.b != 99));

    // A second session: old writers take rings of it, names are there again.
    let file = folder.join("third");
    let mut o = options(256);
    o.categories = Category::User as u32;
    session::start(&file, &o).unwrap();
    // SAFETY: as above.
    unsafe { probes::enter(&mut *other) };
    emit(Kind::Mark, 0, early as u64, 0);
    emit(Kind::StepBegin, 0, 0, 0); // off
    probes::leave();
    session::stop();
    let trace = Trace::from_ring_file(&file).unwrap();
    assert_eq!(trace.events.len(), 1);
    assert_eq!(trace.definitions.string(trace.events[0].a), "known before the session");

    // What is no event file is refused.
    assert!(Reader::open(&folder.write("junk", vec![0u8; 10_000])).is_err());
}
