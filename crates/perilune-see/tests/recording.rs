//! Recordings hold what was drained, and any bytes at all give a trace or an error.

use perilune_see::{Event, Trace, Who};
use perilune_see::{Reader, recording};
use perilune_test::Folder;
use perilune_trace::event::ObjectKind;
use perilune_trace::read::RawEvent;
use perilune_trace::recording::{Recorder, snapshot};
use perilune_trace::session::{self, Options};
use perilune_trace::{Kind, ObjectRef, Writer, emit as probes, names, on};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// Writes an event by its words.
fn emit(kind: Kind, c: u16, a: u64, b: u64) {
    if on(kind.category()) {
        probes::record(kind, c, a, b);
    }
}

/// All tests share it: it goes with the process.
static FOLDER: Mutex<Option<Folder>> = Mutex::new(None);

extern "C" fn remove_folder() {
    *FOLDER.lock().unwrap() = None;
}

fn path(name: &str) -> PathBuf {
    let mut folder = FOLDER.lock().unwrap();
    let folder = folder.get_or_insert_with(|| {
        // SAFETY: registers a function that takes nothing.
        unsafe { libc::atexit(remove_folder) };
        Folder::new()
    });
    folder.join(name)
}

/// A recording in two portions, and the trace of the same events as a reader of the rings has it.
fn recorded() -> &'static (Vec<u8>, Trace) {
    static MADE: OnceLock<(Vec<u8>, Trace)> = OnceLock::new();
    MADE.get_or_init(|| {
        let mut options = Options::default();
        options.geometry.ring_events = 256;
        options.geometry.rings = 4;
        let file = path("events");
        session::start(&file, &options).unwrap();
        let mut reader = Reader::open(&file).unwrap();
        let mut recorder = Recorder::new(Vec::new(), "a title").unwrap();
        let mut raw: Vec<RawEvent> = Vec::new();
        let mut writer = Box::new(Writer::new(3));
        for portion in 0..2u64 {
            // SAFETY: used by this thread alone, until `leave`.
            unsafe { probes::enter(&mut *writer) };
            for n in 0..20 {
                emit(Kind::Mark, 7, names::string(format!("mark {portion}").as_bytes()) as u64, n);
            }
            probes::log(b"some text of more than eighteen bytes");
            probes::leave();
            let jobs = ObjectRef::new(ObjectKind::Channel, 5);
            names::label(jobs, b"jobs");
            emit(Kind::ChannelSend, 0, jobs.0, 1);
            let from = raw.len();
            reader.drain(&mut |e| raw.push(e));
            recorder.add(&reader, &raw[from..]).unwrap();
        }
        recorder.chunk(1000, 0, b"of a later version").unwrap();

        // What is there now, written by the program itself.
        let own = path("own");
        snapshot(&own).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o600);
        let own = Trace::load(&own).unwrap();
        assert_eq!(own.events.len(), raw.len());
        assert!(own.remarks.is_empty());

        session::stop();
        assert!(snapshot(&path("none")).is_err(), "nothing is traced any more");
        let bytes = recorder.finish(&reader).unwrap();
        (bytes, Trace::from_raw(&reader, raw))
    })
}

#[test]
fn a_recording_is_the_trace() {
    let (bytes, trace) = recorded();
    let file = path("recording");
    std::fs::write(&file, bytes).unwrap();
    let loaded = Trace::load(&file).unwrap();
    assert_eq!((loaded.pid, loaded.title.as_str()), (std::process::id(), "a title"));
    assert_eq!((loaded.start_real_ns, loaded.start_mono_ns), (trace.start_real_ns, trace.start_mono_ns));
    assert_eq!(loaded.events.len(), trace.events.len());
    for (ours, theirs) in loaded.events.iter().zip(&trace.events) {
        assert_eq!(Event { ns: 0, ..*ours }, Event { ns: 0, ..*theirs });
        assert!(ours.ns.abs_diff(theirs.ns) < 1000, "{} and {}", ours.ns, theirs.ns);
    }
    assert!(loaded.end_ns.abs_diff(trace.end_ns) < 1000);
    assert_eq!(loaded.definitions.string(loaded.events[0].a), "mark 0");
    assert_eq!(loaded.definitions.object(ObjectRef::new(ObjectKind::Channel, 5)), "channel 'jobs'");
    assert_eq!(loaded.text(20), "some text of more than eighteen bytes");
    assert!(loaded.events.iter().any(|e| e.who == Who::Domain(3)));
    assert_eq!(loaded.chunks, [(1000, b"of a later version".as_slice().into())]);
    assert!(loaded.remarks.is_empty(), "{:?}", loaded.remarks);
}

#[test]
fn every_beginning_of_a_recording_can_be_read() {
    let (bytes, trace) = recorded();
    let mut most = 0;
    for length in 0..bytes.len() {
        match recording::read(&mut &bytes[..length]) {
            Ok(cut) => {
                assert!(length >= 24 && cut.events.len() >= most, "{length} bytes");
                most = cut.events.len();
                assert_eq!(cut.remarks.len(), 1, "{length} bytes");
            }
            Err(_) => assert!(length < 24, "{length} bytes"),
        }
    }
    assert_eq!(most, trace.events.len());
}

#[test]
fn what_is_no_recording_of_this_machine_is_refused() {
    let (bytes, _) = recorded();
    let refused = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        recording::read(&mut &bytes[..]).expect_err("refused").to_string()
    };
    assert!(refused(8, &0x0102_0304u32.swap_bytes().to_ne_bytes()).contains("order of bytes"));
    assert!(refused(12, &99u32.to_ne_bytes()).contains("version 99"));
    assert!(refused(16, &99u32.to_ne_bytes()).contains("99; this tool reads"));
    assert!(refused(0, b"PLTREC\n\n").contains("not a recording"));
    let file = path("text");
    std::fs::write(&file, "print 'hello'").unwrap();
    let message = Trace::load(&file).unwrap_err().to_string();
    assert!(message.contains("text: neither an event file nor a recording"), "{message}");
    assert!(Trace::load(&path("absent")).unwrap_err().to_string().contains("absent: "));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn damaged_recordings_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = recorded().0.clone();
        for (at, to) in changes {
            // The head would only be refused.
            let at = 24 + at.index(bytes.len() - 24);
            bytes[at] = to;
        }
        if is_cut {
            bytes.truncate(24 + cut.index(bytes.len() - 24));
        }
        let trace = recording::read(&mut &bytes[..]).unwrap();
        for at in 0..trace.events.len() {
            let event = trace.events[at];
            trace.definitions.string(event.a);
            trace.definitions.object(ObjectRef(event.a));
            trace.definitions.place(event.a as u32);
            trace.text(at);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let head = &recorded().0[..24];
        let _ = recording::read(&mut &bytes[..]);
        let _ = recording::read(&mut &[head, &bytes].concat()[..]);
    }
}
