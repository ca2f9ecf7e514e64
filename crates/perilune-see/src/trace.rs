//! A trace in memory: all events of a session in order of time, with the names they refer to. What analysers
//! and exporters work on.

use crate::definitions::Definitions;
use crate::reader::Reader;
use perilune_trace::event::{Kind, Slot, What, Words};
use perilune_trace::layout::{State, THREAD};
use perilune_trace::read::RawEvent;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Who wrote an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The owner of this domain.
    Domain(u32),
    /// A thread outside of all domains, by the kernel's number.
    Thread(u32),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the session began.
    pub ns: u64,
    /// Who wrote it.
    pub who: Who,
    /// What happened.
    pub kind: Kind,
    /// Third argument.
    pub c: u16,
    /// First argument.
    pub a: u64,
    /// Second argument.
    pub b: u64,
}

impl Event {
    /// An event that says this.
    pub fn new(ns: u64, who: Who, what: What) -> Event {
        let (kind, words) = what.encode();
        Event { ns, who, kind, c: words.c as u16, a: words.a, b: words.b }
    }

    /// As it was written, if its kind is known, so many nanoseconds after whatever time is counted from.
    pub fn from_raw(e: &RawEvent, ns: u64) -> Option<Event> {
        let who = match e.writer & THREAD {
            0 => Who::Domain(e.writer as u32),
            _ => Who::Thread(e.writer as u32),
        };
        Some(Event { ns, who, kind: Kind::from_number(e.kind)?, c: e.c, a: e.a, b: e.b })
    }

    /// What lies in a slot.
    pub fn word(&self, slot: Slot) -> u64 {
        match slot {
            Slot::A => self.a,
            Slot::B => self.b,
            Slot::C => self.c as u64,
        }
    }

    /// What it says.
    #[inline]
    pub fn what(&self) -> What {
        What::decode(self.kind, Words { a: self.a, b: self.b, c: self.c as u64 })
    }
}

/// A trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The program's process.
    pub pid: u32,
    /// Nanoseconds since 1970 when the session began.
    pub start_real_ns: u64,
    /// `CLOCK_MONOTONIC` then, in nanoseconds.
    pub start_mono_ns: u64,
    /// Nanoseconds from the beginning of the session to its end, or to the last look at it.
    pub end_ns: u64,
    /// Events by time; those of one writer in the order in which they were written.
    pub events: Vec<Event>,
    /// Names.
    pub definitions: Definitions,
    /// Events that were overwritten before they were read.
    pub lost: u64,
    /// Events of kinds that this reader does not know.
    pub unknown: u64,
    /// The command line or whatever else says what was traced.
    pub title: String,
    /// What else people should know of it: that something is missing, and why.
    pub remarks: Vec<String>,
    /// What a recording holds of kinds that its reader does not know ([`crate::recording::Chunk`]).
    pub chunks: Vec<(u32, Box<[u8]>)>,
}

impl Trace {
    /// Everything that an event file still has.
    ///
    /// # Errors
    /// It cannot be opened or is none.
    pub fn from_ring_file(path: &Path) -> io::Result<Trace> {
        let mut reader = Reader::open(path)?;
        let mut raw = Vec::new();
        reader.drain(&mut |e| raw.push(e));
        Ok(Trace::from_raw(&reader, raw))
    }

    /// From events that a reader has gathered.
    pub fn from_raw(reader: &Reader, raw: Vec<RawEvent>) -> Trace {
        let h = reader.mapping().header();
        let scale = reader.scale();
        let start = h.start_mono_ns.load(Ordering::Relaxed);
        let mut trace = Trace {
            pid: h.pid.load(Ordering::Relaxed),
            start_real_ns: h.start_real_ns.load(Ordering::Relaxed),
            start_mono_ns: start,
            definitions: reader.definitions().clone(),
            lost: reader.lost(),
            ..Trace::default()
        };
        trace.events.reserve(raw.len());
        for e in raw {
            trace.add(&e, scale.ns(e.ticks).saturating_sub(start));
        }
        let lives = crate::sys::process_exists(trace.pid);
        let last = if lives && h.state.load(Ordering::Acquire) == State::Live as u32 {
            perilune_trace::clock::monotonic_ns()
        } else {
            // Of one that was killed nothing is known after the last event.
            h.later_mono_ns.load(Ordering::Relaxed)
        };
        trace.finish(last.saturating_sub(start));
        let refused = h.writers_refused.load(Ordering::Relaxed);
        trace.remark_losses(refused, h.definitions_lost.load(Ordering::Relaxed));
        trace
    }

    /// Says how many writers found no ring, and how many definitions no room.
    pub(crate) fn remark_losses(&mut self, writers: u64, definitions: u64) {
        if writers > 0 {
            self.remarks
                .push(format!("{writers} domains or threads found no free ring: their events are missing"));
        }
        if definitions > 0 {
            self.remarks
                .push(format!("{definitions} names or call paths found no room: they appear as numbers"));
        }
    }

    /// Adds an event that happened so many nanoseconds after the beginning.
    pub fn add(&mut self, e: &RawEvent, ns: u64) {
        match Event::from_raw(e, ns) {
            Some(event) => self.events.push(event),
            None => self.unknown += 1,
        }
    }

    /// All events have been added: orders them, and says when the session ended.
    pub fn finish(&mut self, end_ns: u64) {
        // Stable: events of a writer with equal times stay in order.
        self.events.sort_by_key(|e| e.ns);
        self.end_ns = end_ns.max(self.events.last().map_or(0, |e| e.ns));
        for e in &self.events {
            if let What::TaskCreated(of) = e.what()
                && of.name.0 != 0
            {
                self.definitions.add_function(of.task, of.name.0);
            }
        }
    }

    /// The text that event number `at` begins ([`Kind::Log`], [`Kind::Error`]).
    pub fn text(&self, at: usize) -> String {
        let Some(first) = self.events.get(at) else { return String::new() };
        let mut bytes = Vec::new();
        for e in &self.events[at + 1..] {
            if bytes.len() >= first.a as usize {
                break;
            }
            if e.who != first.who {
                continue;
            }
            if e.kind != Kind::More {
                break;
            }
            bytes.extend_from_slice(&e.a.to_le_bytes());
            bytes.extend_from_slice(&e.b.to_le_bytes());
            bytes.extend_from_slice(&e.c.to_le_bytes());
        }
        bytes.truncate(first.a as usize);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
