//! Event files that are damaged under a program that writes them, and under a reader. One session at a time,
//! so one test for the writer.

use perilune_see::Reader;
use perilune_see::Trace;
use perilune_test::Folder;
use perilune_trace::layout::{FileHeader, PAGE, State};
use perilune_trace::map::Mapping;
use perilune_trace::session::{self, Options};
use perilune_trace::{Kind, emit as probes, names, on};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Writes an event by its words.
fn emit(kind: Kind, c: u16, a: u64, b: u64) {
    if on(kind.category()) {
        probes::record(kind, c, a, b);
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.geometry.ring_events = 1 << 12;
    options.geometry.rings = 8;
    options.geometry.definitions = 1 << 16;
    options
}

#[test]
fn a_program_outlives_a_file_that_is_shortened() {
    for length in [PAGE as u64, 0, 64 << 10] {
        let folder = Folder::new();
        let file = folder.join("shortened");
        session::start(&file, &options()).unwrap();
        emit(Kind::Mark, 0, names::string(b"before") as u64, 0);
        assert_eq!(Trace::from_ring_file(&file).unwrap().events.len(), 1);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length).unwrap();
        for n in 0..10_000 {
            emit(Kind::Mark, 0, 0, n);
        }
        names::string(format!("after {length}").as_bytes());
        assert!(!probes::has_session() && !probes::is_live(), "the session has ended");
        session::stop();
    }
    // The next one is as good as any.
    let folder = Folder::new();
    let file = folder.join("whole");
    session::start(&file, &options()).unwrap();
    emit(Kind::Mark, 0, names::string(b"before") as u64, 7);
    session::stop();
    let trace = Trace::from_ring_file(&file).unwrap();
    assert_eq!(trace.events.len(), 1);
    assert_eq!((trace.definitions.string(trace.events[0].a).as_str(), trace.events[0].b), ("before", 7));
}

/// Overwrites 8 bytes of the file.
fn poke(file: &Path, at: usize, word: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
}

#[test]
fn readers_outlive_nonsense_that_appears_under_them() {
    let folder = Folder::new();
    let file = folder.join("nonsense");
    let map = Mapping::create(&file, &options().geometry).unwrap();
    map.header().definitions_used.store(64, Ordering::Relaxed);
    map.header().rings_used.store(u32::MAX, Ordering::Relaxed);
    let mut reader = Reader::new(map);
    reader.drain(&mut |_| {});
    // What was checked when the file was opened is not looked at again.
    poke(&file, std::mem::offset_of!(FileHeader, rings_at), u64::MAX / 2);
    poke(&file, std::mem::offset_of!(FileHeader, ring_stride), u64::MAX / 3);
    poke(&file, std::mem::offset_of!(FileHeader, definitions_at), u64::MAX / 4);
    poke(&file, std::mem::offset_of!(FileHeader, rings), u64::MAX);
    for ring in 0..8 {
        let ring = reader.mapping().ring(ring);
        ring.head.store(u64::MAX - 3, Ordering::Relaxed);
        ring.owner_count.store(u64::MAX, Ordering::Relaxed);
    }
    reader.drain(&mut |_| {});
    assert_eq!(reader.lost(), u64::MAX);
    // Definitions cannot become fewer, nor more than there is room for.
    for used in [8, u64::MAX] {
        reader.mapping().header().definitions_used.store(used, Ordering::Relaxed);
        reader.drain(&mut |_| {});
    }
    // A program that was killed while it wrote the second pair of the clock.
    let h = reader.mapping().header();
    h.clock.store(2, Ordering::Relaxed);
    h.calibration.store(1, Ordering::Relaxed);
    h.state.store(State::Ended as u32, Ordering::Relaxed);
    reader.scale();
    assert!(Reader::open(&file).is_err(), "it is damaged for who opens it now");
}
