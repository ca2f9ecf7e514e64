//! Reading rings while somebody writes to them.
//!
//! A [`RingReader`] remembers how far it has read each ring. Every [`RingReader::drain`] copies what is new,
//! checks each slot by its number before and after the copy (`layout.rs`), and counts what was overwritten.
//! Where events are missing it gives a [`Kind::Lost`] to each writer that they may have been of, at the time
//! of the last event before them: whoever follows the events must know where its knowledge ends. Within a
//! ring events come in order; between rings the order is that of their times.

use crate::clock::Scale;
use crate::event::Kind;
use crate::layout::*;
use crate::map::Mapping;
use std::io;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// An event as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// When.
    pub ticks: u64,
    /// The ring.
    pub ring: u32,
    /// Number of its kind, which this reader may not know.
    pub kind: u16,
    /// Third argument.
    pub c: u16,
    /// A domain's number, or [`THREAD`] and a thread's.
    pub writer: u64,
    /// First argument.
    pub a: u64,
    /// Second argument.
    pub b: u64,
}

/// What a [`RingReader::drain`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events read.
    pub events: u64,
    /// Events that were overwritten before they could be read.
    pub lost: u64,
}

/// Reads a file's rings.
pub struct RingReader {
    map: Mapping,
    rings: Vec<Place>,
}

#[derive(Default)]
struct Place {
    next: u64,
    lost: u64,
    /// Ticks of the last event that was read.
    ticks: u64,
    /// First event and writer, oldest first.
    owners: Vec<(u64, u64)>,
}

impl RingReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened or is no event file.
    pub fn open(path: &Path) -> io::Result<RingReader> {
        Ok(RingReader::new(Mapping::open(path)?))
    }

    /// Reads a mapped file.
    pub fn new(map: Mapping) -> RingReader {
        RingReader { map, rings: Vec::new() }
    }

    /// Gives the file back.
    pub fn into_mapping(self) -> Mapping {
        self.map
    }

    /// The file.
    pub fn mapping(&self) -> &Mapping {
        &self.map
    }

    /// How ticks become nanoseconds, as far as is known now. While the program is live, the rate is measured
    /// anew first.
    pub fn scale(&self) -> Scale {
        let h = self.map.header();
        if h.state.load(Ordering::Acquire) == State::Live as u32
            && h.clock.load(Ordering::Relaxed) == crate::clock::clock() as u32
        {
            self.map.calibrate();
        }
        self.map.scale()
    }

    /// Events lost in each ring so far.
    pub fn lost(&self) -> u64 {
        self.rings.iter().fold(0, |sum, r| sum.saturating_add(r.lost))
    }

    /// Gives everything new to `f`: ring after ring, in each in order.
    pub fn drain(&mut self, f: &mut dyn FnMut(RawEvent)) -> Drained {
        let used = self.map.header().rings_used.load(Ordering::Acquire).min(self.map.parts().rings);
        self.rings.resize_with(used as usize, Place::default);
        let mut sum = Drained::default();
        for (n, place) in self.rings.iter_mut().enumerate() {
            let d = drain_ring(&self.map, n as u32, place, f);
            sum.events += d.events;
            sum.lost = sum.lost.saturating_add(d.lost);
        }
        sum
    }

    /// What is new in the definitions since `from`: raw. Whoever wrote an event had written before what it
    /// refers to, so ask after [`RingReader::drain`].
    pub fn raw_definitions(&self, from: usize) -> &[u8] {
        self.map.definitions().get(from..).unwrap_or_default()
    }
}

fn drain_ring(map: &Mapping, n: u32, place: &mut Place, f: &mut dyn FnMut(RawEvent)) -> Drained {
    let (ring, slots) = (map.ring(n), map.slots(n));
    let room = slots.len() as u64;
    let head = ring.head.load(Ordering::Acquire);
    let mut d = Drained::default();
    let mut gap = Gap::default();
    if place.ticks == 0 {
        place.ticks = map.header().start_ticks.load(Ordering::Relaxed);
    }
    if head.saturating_sub(place.next) > room {
        let first = head - room;
        gap.add(place.next, first - place.next);
        place.next = first;
    }
    if place.next < head {
        read_owners(ring, place);
    }
    while place.next < head {
        let number = place.next;
        place.next += 1;
        let slot = &slots[(number & (room - 1)) as usize];
        let stamp = slot.stamp.load(Ordering::Acquire);
        let mut event = RawEvent {
            ticks: slot.ticks.load(Ordering::Relaxed),
            a: slot.a.load(Ordering::Relaxed),
            b: slot.b.load(Ordering::Relaxed),
            ring: n,
            kind: (stamp >> 16) as u16,
            c: stamp as u16,
            writer: 0,
        };
        fence(Ordering::Acquire);
        if stamp >> 32 != (number + 1) & 0xffff_ffff || slot.stamp.load(Ordering::Relaxed) != stamp {
            gap.add(number, 1);
            continue;
        }
        d.lost += gap.close(n, place, number, f);
        event.writer =
            place.owners.iter().rev().find(|(first, _)| *first <= number).map_or(0, |(_, writer)| *writer);
        d.events += 1;
        place.ticks = event.ticks;
        f(event);
    }
    d.lost += gap.close(n, place, head, f);
    place.lost = place.lost.saturating_add(d.lost);
    d
}

/// Events that are missing one after the other.
#[derive(Default)]
struct Gap {
    from: u64,
    events: u64,
}

impl Gap {
    fn add(&mut self, number: u64, events: u64) {
        if self.events == 0 {
            self.from = number;
        }
        self.events = self.events.saturating_add(events);
    }

    /// Tells all writers that owned the ring between the gap's beginning and the event of number `to`. How
    /// many events were missing.
    fn close(&mut self, ring: u32, place: &Place, to: u64, f: &mut dyn FnMut(RawEvent)) -> u64 {
        let Gap { from, events } = std::mem::take(self);
        if events == 0 {
            return 0;
        }
        for (n, (first, writer)) in place.owners.iter().enumerate() {
            let end = place.owners.get(n + 1).map_or(u64::MAX, |next| next.0);
            // Who owns the ring at the end of the gap may have written its first events in it.
            if *first <= to && end > from {
                let kind = Kind::Lost as u16;
                f(RawEvent { ticks: place.ticks, ring, kind, c: 0, writer: *writer, a: events, b: 0 });
            }
        }
        events
    }
}

/// Who owned the ring. Entries that are overwritten while they are read belong to events that are lost by
/// then.
fn read_owners(ring: &RingHeader, place: &mut Place) {
    let count = ring.owner_count.load(Ordering::Acquire);
    place.owners.clear();
    for n in count.saturating_sub(OWNERS as u64)..count {
        let owner = &ring.owners[(n % OWNERS as u64) as usize];
        place.owners.push((owner.first.load(Ordering::Relaxed), owner.writer.load(Ordering::Relaxed)));
    }
}
