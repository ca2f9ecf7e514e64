//! What the kernel did with a program's threads: running, displaced by whom, moved to another processor. On
//! the clock of the events.
//!
//! | source | needs | tells |
//! |---|---|---|
//! | switches of all processors | root, `CAP_PERFMON`, or `kernel.perf_event_paranoid` at most 0 | when each thread runs, where, who displaced it, who had the processors |
//! | switches of the program's threads | `perf_event_paranoid` at most 2 | when each thread runs, where, whether it was displaced |
//! | `/proc/PID/task/*/schedstat` | nothing | how long each thread ran and how long it was ready to run, every now and then |
//!
//! The first that the kernel permits is used ([`Kernel::remark`] says so if it is not the first). The perf
//! events are of the kind that counts nothing and reports context switches; they are read from rings that the
//! kernel fills, 1 MiB a processor, by whoever drains the program's rings anyway.
//!
//! A thread of the program that begins while it is watched is found at the next look ([`Kernel::poll`]) by
//! the two lower sources; the first sees it from its beginning.
//!
//! *Rejected.* The tracepoints `sched_switch` and `sched_wakeup`: they need tracefs, which containers do not
//! have, and their formats have to be parsed; when a thread became ready to run is known from our own events
//! for all that matters (wakes of fibers and domains).

use crate::sys::{self, PAGE, SwitchRing, schedstat, threads};
use crate::trace::{Event, Trace, Who};
use perf_event_open_sys as perf;
use perilune_trace::event::Kind;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of a processor's ring, and of a thread's.
const WIDE_PAGES: usize = 256;
const THREAD_PAGES: usize = 16;
/// Bytes of an encoded record.
const RECORD: usize = 32;
/// Bits of a record's `misc` (`perf_event.h`).
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Something that the kernel did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, by `CLOCK_MONOTONIC`.
    pub ns: u64,
    /// What.
    pub what: What,
    /// The program's thread; 0 if another process is meant.
    pub tid: u32,
    /// The processor.
    pub cpu: u32,
    /// The other process, or a number.
    pub other: u32,
    /// A second number.
    pub more: u32,
}

/// Kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum What {
    /// The thread runs.
    In = 1,
    /// It sleeps.
    Sleeps = 2,
    /// It was displaced by process `other` (0: it is not known by whom).
    Displaced = 3,
    /// Another process, `other`, runs on the processor (0: nobody).
    Busy = 4,
    /// By `schedstat`: the thread has run `other` microseconds since the last such record, and was ready to
    /// run, without running, for `more`.
    Stat = 5,
}

impl What {
    fn from_number(n: u16) -> Option<What> {
        [What::In, What::Sleeps, What::Displaced, What::Busy, What::Stat]
            .get((n as usize).wrapping_sub(1))
            .copied()
    }
}

enum Source {
    /// A ring for each processor.
    Wide(Vec<SwitchRing>),
    /// A ring for each thread.
    Threads(HashMap<u32, SwitchRing>),
    /// What `schedstat` said last: nanoseconds running and ready.
    Stat(HashMap<u32, (u64, u64)>),
}

/// The kernel's view of a program that is being watched.
pub struct Kernel {
    pid: u32,
    source: Source,
    records: Vec<Record>,
    names: HashMap<u32, String>,
    lost: u64,
    /// Why a better source was refused.
    refused: Option<io::Error>,
}

impl Kernel {
    /// Begins to watch the threads of a process.
    pub fn watch(pid: u32) -> Kernel {
        let mut kernel = Kernel {
            pid,
            source: Source::Stat(HashMap::new()),
            records: Vec::new(),
            names: HashMap::new(),
            lost: 0,
            refused: None,
        };
        match open_all_processors() {
            Ok(rings) => kernel.source = Source::Wide(rings),
            Err(e) => {
                kernel.refused = Some(e);
                if let Some(first) = threads(pid).first()
                    && SwitchRing::open(*first as i32, -1, THREAD_PAGES).is_ok()
                {
                    kernel.source = Source::Threads(HashMap::new());
                }
            }
        }
        kernel.poll();
        kernel
    }

    /// What people should know about where this comes from: one line, or nothing if it is the best source.
    pub fn remark(&self) -> Option<String> {
        let e = self.refused.as_ref()?;
        let remedy = "as root: sysctl kernel.perf_event_paranoid=0";
        Some(match &self.source {
            Source::Wide(_) => return None,
            Source::Threads(_) => {
                format!("the kernel does not permit to see other processes ({e}); {remedy}")
            }
            Source::Stat(_) => {
                format!("the kernel does not permit to see switches ({e}), sums of /proc are used; {remedy}")
            }
        })
    }

    /// Takes in what is new. To be called every few milliseconds.
    pub fn poll(&mut self) {
        let (pid, records, lost) = (self.pid, &mut self.records, &mut self.lost);
        let before = records.len();
        match &mut self.source {
            Source::Wide(rings) => {
                for ring in rings {
                    drain(ring, lost, &mut |r| records.extend(wide(pid, r)));
                }
            }
            Source::Threads(rings) => {
                for tid in threads(pid) {
                    if let std::collections::hash_map::Entry::Vacant(place) = rings.entry(tid)
                        && let Ok(ring) = SwitchRing::open(tid as i32, -1, THREAD_PAGES)
                    {
                        place.insert(ring);
                    }
                }
                for ring in rings.values_mut() {
                    drain(ring, lost, &mut |r| records.extend(own(r)));
                }
            }
            Source::Stat(known) => {
                let now = perilune_trace::clock::monotonic_ns();
                for tid in threads(pid) {
                    let Some(stat) = schedstat(pid, tid) else { continue };
                    let last = known.insert(tid, stat).unwrap_or(stat);
                    let (ran, ready) = (stat.0.saturating_sub(last.0), stat.1.saturating_sub(last.1));
                    if ran + ready > 0 {
                        let micros = |ns: u64| (ns / 1000).min(u32::MAX as u64) as u32;
                        let (other, more) = (micros(ran), micros(ready));
                        records.push(Record { ns: now, what: What::Stat, tid, cpu: 0, other, more });
                    }
                }
            }
        }
        // Processes may be gone by the time somebody asks for their names.
        for r in &self.records[before..] {
            if matches!(r.what, What::Displaced | What::Busy)
                && r.other != 0
                && !self.names.contains_key(&r.other)
            {
                self.names.insert(r.other, name_of(r.other));
            }
        }
    }

    /// Lets records go that are older than this moment (`CLOCK_MONOTONIC`), now and then: when they are at
    /// least half of all.
    pub fn forget_before(&mut self, ns: u64) {
        if self.records.len() >= 1 << 12 && self.records[self.records.len() / 2].ns < ns {
            self.records.retain(|r| r.ns >= ns);
        }
    }

    /// Records that the kernel had no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All records, for a recording.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.records.len() * RECORD + 64);
        out.extend_from_slice(&(self.names.len() as u64).to_ne_bytes());
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort();
        for (pid, name) in names {
            let name = &name.as_bytes()[..name.len().min(24)];
            out.extend_from_slice(&pid.to_ne_bytes());
            out.extend_from_slice(&(name.len() as u32).to_ne_bytes());
            out.extend_from_slice(name);
            out.resize(out.len() + 24 - name.len(), 0);
        }
        for r in &self.records {
            out.extend_from_slice(&r.ns.to_ne_bytes());
            for word in [r.what as u32, r.tid, r.cpu, r.other, r.more, 0] {
                out.extend_from_slice(&word.to_ne_bytes());
            }
        }
        out
    }
}

/// Adds what [`Kernel::encode`] has written to a trace, as events.
pub fn add_to(trace: &mut Trace, encoded: &[u8]) {
    let word = |at: usize| encoded.get(at..at + 4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    let count = word(0).unwrap_or(0) as usize;
    let mut names = HashMap::new();
    let mut at = 8usize;
    for _ in 0..count {
        let (Some(pid), Some(length), Some(bytes)) = (word(at), word(at + 4), encoded.get(at + 8..at + 32))
        else {
            return;
        };
        let text = String::from_utf8_lossy(&bytes[..(length as usize).min(24)]).into_owned();
        names.insert(pid, trace.definitions.add_string(&text));
        at += 32;
    }
    while let (Some(low), Some(high), Some(what), Some(tid), Some(cpu), Some(other), Some(more)) =
        (word(at), word(at + 4), word(at + 8), word(at + 12), word(at + 16), word(at + 20), word(at + 24))
    {
        at += RECORD;
        let ns = low as u64 | (high as u64) << 32;
        // What happened before the session began is nobody's.
        let Some(ns) = ns.checked_sub(trace.start_mono_ns) else { continue };
        let Some(what) = What::from_number(what as u16) else { continue };
        let name = names.get(&other).copied().unwrap_or(0) as u64;
        let process = (other as u64) << 32 | name;
        let (kind, c, a, b) = match what {
            What::In => (Kind::CpuBegin, 0, tid as u64, cpu as u64),
            What::Sleeps => (Kind::CpuEnd, 0, tid as u64, 0),
            What::Displaced => (Kind::CpuEnd, 1, tid as u64, process),
            What::Busy => (Kind::CpuOther, 0, cpu as u64, process),
            What::Stat => (Kind::SchedStat, 0, other as u64 * 1000, more as u64 * 1000),
        };
        trace.events.push(Event { ns, who: Who::Thread(tid), kind, c, a, b });
    }
    let end = trace.end_ns;
    // What comes after the session's end says nothing about it.
    trace.events.retain(|e| e.ns <= end);
    trace.finish(end);
}

/// A process's name, as `ps` shows it.
fn name_of(pid: u32) -> String {
    match sys::name_of(pid) {
        name if name.is_empty() => format!("process {pid}"),
        name => name,
    }
}

fn open_all_processors() -> io::Result<Vec<SwitchRing>> {
    let mut rings = Vec::new();
    for cpu in 0..sys::processors() {
        match SwitchRing::open(-1, cpu, WIDE_PAGES) {
            Ok(ring) => rings.push(ring),
            // A processor that is switched off.
            Err(e) if sys::is_absent(&e) => {}
            Err(e) => return Err(e),
        }
    }
    if rings.is_empty() { Err(io::Error::other("no processors")) } else { Ok(rings) }
}

/// A record of the kernel's: type, `misc`, body.
struct Raw<'a> {
    kind: u32,
    misc: u16,
    body: &'a [u8],
}

impl Raw<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.body.get(at..at + 4).map_or(0, |w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
    }
    fn u64(&self, at: usize) -> u64 {
        self.u32(at) as u64 | (self.u32(at + 4) as u64) << 32
    }
}

fn drain(ring: &mut SwitchRing, lost: &mut u64, f: &mut dyn FnMut(Raw)) {
    let page = ring.base.cast::<perf::bindings::perf_event_mmap_page>();
    // SAFETY: the kernel's page is mapped; `data_head` is written by it and read with acquire, `data_tail`
    // the other way round.
    let (head, tail) = unsafe {
        (
            &*(&raw const (*page).data_head).cast::<AtomicU64>(),
            &*(&raw const (*page).data_tail).cast::<AtomicU64>(),
        )
    };
    let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
    let mut buffer = Vec::new();
    while at < end {
        let copy = |from: u64, n: usize, to: &mut Vec<u8>| {
            to.clear();
            for k in 0..n {
                let offset = (from as usize + k) % ring.bytes;
                // SAFETY: below `data_head`: written; within the ring.
                to.push(unsafe { *ring.base.add(PAGE + offset) });
            }
        };
        copy(at, 8, &mut buffer);
        let kind = u32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
        let misc = u16::from_ne_bytes([buffer[4], buffer[5]]);
        let size = u16::from_ne_bytes([buffer[6], buffer[7]]) as usize;
        if size < 8 {
            break;
        }
        copy(at + 8, size - 8, &mut buffer);
        at += size as u64;
        let raw = Raw { kind, misc, body: &buffer };
        if kind == perf::bindings::PERF_RECORD_LOST {
            *lost += raw.u64(8);
        } else {
            f(raw);
        }
    }
    tail.store(end, Ordering::Release);
}

/// A switch of a processor: of a thread of the program, or of somebody else who comes.
fn wide(pid: u32, r: Raw) -> Option<Record> {
    if r.kind != perf::bindings::PERF_RECORD_SWITCH_CPU_WIDE {
        return None;
    }
    // next_prev_pid, next_prev_tid, then pid, tid, time, cpu of the thread in question.
    let (next, mine, tid, ns, cpu) = (r.u32(0), r.u32(8), r.u32(12), r.u64(16), r.u32(24));
    let record = |what, tid, other| Some(Record { ns, what, tid, cpu, other, more: 0 });
    match (mine == pid, r.misc & SWITCH_OUT != 0) {
        (true, false) => record(What::In, tid, 0),
        (true, true) if r.misc & SWITCH_OUT_PREEMPT != 0 => record(What::Displaced, tid, next),
        (true, true) => record(What::Sleeps, tid, 0),
        (false, false) => record(What::Busy, 0, mine),
        (false, true) => None,
    }
}

/// A switch of a thread of the program.
fn own(r: Raw) -> Option<Record> {
    if r.kind != perf::bindings::PERF_RECORD_SWITCH {
        return None;
    }
    let (tid, ns, cpu) = (r.u32(4), r.u64(8), r.u32(16));
    let what = match (r.misc & SWITCH_OUT != 0, r.misc & SWITCH_OUT_PREEMPT != 0) {
        (false, _) => What::In,
        (true, true) => What::Displaced,
        (true, false) => What::Sleeps,
    };
    Some(Record { ns, what, tid, cpu, other: 0, more: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_events_on_the_traces_clock() {
        let kernel = Kernel {
            pid: 1,
            source: Source::Stat(HashMap::new()),
            records: vec![
                Record { ns: 900, what: What::In, tid: 7, cpu: 1, other: 0, more: 0 },
                Record { ns: 1500, what: What::Displaced, tid: 7, cpu: 1, other: 42, more: 0 },
                Record { ns: 1500, what: What::Busy, tid: 0, cpu: 1, other: 42, more: 0 },
                Record { ns: 1600, what: What::Stat, tid: 7, cpu: 0, other: 5, more: 6 },
                Record { ns: 9000, what: What::In, tid: 7, cpu: 0, other: 0, more: 0 },
            ],
            names: HashMap::from([(42, "a neighbour with a very long name".to_owned())]),
            lost: 0,
            refused: None,
        };
        let mut trace = Trace { start_mono_ns: 1000, end_ns: 2000, ..Trace::default() };
        add_to(&mut trace, &kernel.encode());
        let seen: Vec<_> = trace.events.iter().map(|e| (e.ns, e.kind, e.c)).collect();
        assert_eq!(
            seen,
            [(500, Kind::CpuEnd, 1), (500, Kind::CpuOther, 0), (600, Kind::SchedStat, 0)],
            "outside of the session: left out"
        );
        assert_eq!(trace.events[0].b >> 32, 42);
        assert_eq!(trace.definitions.string(trace.events[0].b & 0xffff_ffff), "a neighbour with a very ");
        // Damage is no reason to panic.
        let bytes = kernel.encode();
        for n in 0..bytes.len() {
            add_to(&mut Trace::default(), &bytes[..n]);
        }
    }

    /// Whatever the kernel permits here, something is known of a thread that runs.
    #[test]
    fn this_process_is_seen_running() {
        let mut kernel = Kernel::watch(std::process::id());
        let until = std::time::Instant::now() + std::time::Duration::from_millis(60);
        let mut n = 0u64;
        while std::time::Instant::now() < until {
            n = std::hint::black_box(n + 1);
            if n.is_multiple_of(1 << 16) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        kernel.poll();
        assert!(kernel.records.iter().any(|r| r.tid != 0), "{:?}", kernel.remark());
    }
}
