//! Perfetto's format: a protobuf message `Trace` of `TracePacket`s with track events, for
//! <https://ui.perfetto.dev> and `trace_processor`.
//!
//! | here | there |
//! |---|---|
//! | the process | a track with a process descriptor |
//! | a domain | a track below it |
//! | a level of a row | a track below the domain's. Levels of a row have the same name: the viewer draws such tracks as one |
//! | a curve | a track with a counter descriptor |
//! | a bar | a slice: begin and end |
//! | a moment | an instant |
//! | a link | a flow: an instant where it is caused, and one where it takes effect |
//!
//! Names, categories and argument names are interned: defined in the first packet that uses them, referred to
//! by number after. Packets of a track are in order of time; packets of the file as a whole are not, which
//! the format allows. Times are `CLOCK_MONOTONIC`, tied to the time of day by a clock snapshot.
//!
//! The format is written by hand: the few messages that are needed are a few lines each, and no crate for it
//! is kept well. Field numbers are those of Perfetto's public `.proto` files.

use crate::protobuf::Message;
use crate::view::Timeline;
use crate::view::model::*;
use perilune_trace::event::{Phase, Slot};
use std::collections::HashMap;
use std::io::{self, Write};

mod field {
    //! Field numbers, by message.
    pub const TRACE_PACKET: u32 = 1;

    pub const PACKET_CLOCK_SNAPSHOT: u32 = 6;
    pub const PACKET_TIMESTAMP: u32 = 8;
    pub const PACKET_SEQUENCE: u32 = 10;
    pub const PACKET_EVENT: u32 = 11;
    pub const PACKET_INTERNED: u32 = 12;
    pub const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub const PACKET_CLOCK: u32 = 58;
    pub const PACKET_DESCRIPTOR: u32 = 60;

    pub const SNAPSHOT_CLOCKS: u32 = 1;
    pub const SNAPSHOT_PRIMARY: u32 = 2;
    pub const CLOCK_ID: u32 = 1;
    pub const CLOCK_TIMESTAMP: u32 = 2;

    pub const TRACK_UUID: u32 = 1;
    pub const TRACK_NAME: u32 = 2;
    pub const TRACK_PROCESS: u32 = 3;
    pub const TRACK_PARENT: u32 = 5;
    pub const TRACK_COUNTER: u32 = 8;
    pub const TRACK_CHILD_ORDER: u32 = 11;
    pub const TRACK_RANK: u32 = 12;
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    pub const COUNTER_UNIT: u32 = 3;

    pub const EVENT_CATEGORY: u32 = 3;
    pub const EVENT_ANNOTATION: u32 = 4;
    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_NAME: u32 = 10;
    pub const EVENT_TRACK: u32 = 11;
    pub const EVENT_DOUBLE: u32 = 44;
    pub const EVENT_FLOW: u32 = 47;
    pub const EVENT_LAST_FLOW: u32 = 48;

    pub const INTERNED_CATEGORY: u32 = 1;
    pub const INTERNED_NAME: u32 = 2;
    pub const INTERNED_ARGUMENT: u32 = 3;
    pub const IID: u32 = 1;
    pub const IID_NAME: u32 = 2;

    pub const ANNOTATION_NAME: u32 = 1;
    pub const ANNOTATION_UINT: u32 = 3;
    pub const ANNOTATION_STRING: u32 = 6;
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

const CLEARED: u64 = 1;
const NEEDS: u64 = 2;

const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

const UNIT_BYTES: u64 = 3;
const EXPLICIT: u64 = 3;

/// The process's track.
const PROCESS: u64 = 1;
/// Tracks of groups, of rows, and of levels.
fn group_track(group: u32) -> u64 {
    1 << 32 | group as u64
}
fn track(row: usize, level: usize) -> u64 {
    2 << 48 | (level as u64) << 32 | row as u64
}

#[derive(Default)]
struct Interned {
    numbers: HashMap<(u32, String), u64>,
    counts: [u64; 4],
    new: Message,
}

impl Interned {
    fn number(&mut self, kind: u32, text: &str) -> u64 {
        if let Some(&n) = self.numbers.get(&(kind, text.to_owned())) {
            return n;
        }
        let count = &mut self.counts[kind as usize];
        *count += 1;
        let n = *count;
        let mut entry = Message::default();
        entry.uint(field::IID, n).text(field::IID_NAME, text);
        self.new.message(kind, &entry);
        self.numbers.insert((kind, text.to_owned()), n);
        n
    }
}

struct Writer<'a, W: Write> {
    out: W,
    timeline: &'a Timeline,
    interned: Interned,
}

impl<W: Write> Writer<'_, W> {
    fn packet(&mut self, mut packet: Message, flags: u64) -> io::Result<()> {
        packet.uint(field::PACKET_SEQUENCE, 1).uint(field::PACKET_SEQUENCE_FLAGS, flags);
        let new = std::mem::take(&mut self.interned.new);
        if !new.0.is_empty() {
            packet.message(field::PACKET_INTERNED, &new);
        }
        let mut outer = Message::default();
        outer.message(field::TRACE_PACKET, &packet);
        self.out.write_all(&outer.0)
    }

    fn describe(&mut self, descriptor: &Message) -> io::Result<()> {
        let mut packet = Message::default();
        packet.message(field::PACKET_DESCRIPTOR, descriptor);
        self.packet(packet, NEEDS)
    }

    fn event(&mut self, ns: u64, kind: u64, track: u64, rest: Message) -> io::Result<()> {
        let mut event = Message::default();
        event.uint(field::EVENT_TYPE, kind).uint(field::EVENT_TRACK, track);
        event.0.extend_from_slice(&rest.0);
        let mut packet = Message::default();
        packet
            .uint(field::PACKET_TIMESTAMP, self.timeline.start_mono_ns + ns)
            .uint(field::PACKET_CLOCK, MONOTONIC);
        packet.message(field::PACKET_EVENT, &event);
        self.packet(packet, NEEDS)
    }

    fn named(&mut self, name: &str, category: &str) -> Message {
        let mut event = Message::default();
        let category = self.interned.number(field::INTERNED_CATEGORY, category);
        let name = self.interned.number(field::INTERNED_NAME, name);
        event.uint(field::EVENT_CATEGORY, category).uint(field::EVENT_NAME, name);
        event
    }

    fn argument(&mut self, event: &mut Message, name: &str, value: Argument) {
        let mut annotation = Message::default();
        annotation.uint(field::ANNOTATION_NAME, self.interned.number(field::INTERNED_ARGUMENT, name));
        match value {
            Argument::Number(n) => annotation.uint(field::ANNOTATION_UINT, n),
            Argument::Text(text) => annotation.text(field::ANNOTATION_STRING, &text),
        };
        event.message(field::EVENT_ANNOTATION, &annotation);
    }

    fn tracks(&mut self) -> io::Result<()> {
        let t = self.timeline;
        let mut snapshot = Message::default();
        for (id, ns) in
            [(BOOTTIME, t.start_mono_ns), (MONOTONIC, t.start_mono_ns), (REALTIME, t.start_real_ns)]
        {
            let mut clock = Message::default();
            clock.uint(field::CLOCK_ID, id).uint(field::CLOCK_TIMESTAMP, ns);
            snapshot.message(field::SNAPSHOT_CLOCKS, &clock);
        }
        snapshot.uint(field::SNAPSHOT_PRIMARY, MONOTONIC);
        let mut packet = Message::default();
        packet.message(field::PACKET_CLOCK_SNAPSHOT, &snapshot);
        self.packet(packet, CLEARED)?;

        let mut process = Message::default();
        let name = if t.title.is_empty() { "perilune" } else { &t.title };
        process.uint(field::PROCESS_PID, t.pid as u64).text(field::PROCESS_NAME, name);
        let mut descriptor = Message::default();
        descriptor.uint(field::TRACK_UUID, PROCESS).message(field::TRACK_PROCESS, &process);
        descriptor.uint(field::TRACK_CHILD_ORDER, EXPLICIT);
        self.describe(&descriptor)?;
        for (n, group) in t.groups.iter().enumerate() {
            let mut descriptor = Message::default();
            descriptor.uint(field::TRACK_UUID, group_track(n as u32)).text(field::TRACK_NAME, &group.name);
            descriptor.uint(field::TRACK_PARENT, PROCESS).uint(field::TRACK_RANK, n as u64);
            descriptor.uint(field::TRACK_CHILD_ORDER, EXPLICIT);
            self.describe(&descriptor)?;
        }
        for (n, row) in t.rows.iter().enumerate() {
            for level in 0..row.levels.len().max(1) {
                let mut descriptor = Message::default();
                descriptor.uint(field::TRACK_UUID, track(n, level)).text(field::TRACK_NAME, &row.name);
                descriptor
                    .uint(field::TRACK_PARENT, group_track(row.group))
                    .uint(field::TRACK_RANK, n as u64);
                if row.kind == RowKind::Counter {
                    let mut counter = Message::default();
                    if row.unit == Unit::Bytes {
                        counter.uint(field::COUNTER_UNIT, UNIT_BYTES);
                    }
                    descriptor.message(field::TRACK_COUNTER, &counter);
                }
                self.describe(&descriptor)?;
            }
        }
        Ok(())
    }

    fn bars(&mut self, n: usize, row: &Row) -> io::Result<()> {
        let t = self.timeline;
        for (l, level) in row.levels.iter().enumerate() {
            for bar in &level.bars {
                let mut begin = self.named(&t.text(bar.label, bar.x), bar.class.name());
                for (name, value) in arguments(t, bar) {
                    self.argument(&mut begin, name, value);
                }
                self.event(bar.start, SLICE_BEGIN, track(n, l), begin)?;
                self.event(bar.end, SLICE_END, track(n, l), Message::default())?;
            }
        }
        for m in &row.moments {
            let mut event = self.named(&t.text(m.label, m.x), m.kind.info().name);
            if m.stack != 0 {
                let text = stack_text(t, m.stack);
                self.argument(&mut event, "stack", Argument::Text(text));
            }
            if m.kind.info().field(Slot::A).is_some() && m.kind.info().phase == Phase::Instant {
                self.argument(&mut event, "value", Argument::Number(m.x));
            }
            self.event(m.ns, INSTANT, track(n, 0), event)?;
        }
        for &(ns, value) in &row.points {
            let mut event = Message::default();
            event.double(field::EVENT_DOUBLE, value);
            self.event(ns, COUNTER, track(n, 0), event)?;
        }
        Ok(())
    }

    fn links(&mut self) -> io::Result<()> {
        for (n, link) in self.timeline.links.iter().enumerate() {
            let (from, to, category) = match link.kind {
                LinkKind::Wake => ("wakes", "is woken", "wait"),
                LinkKind::Create => ("creates a task", "task begins", "task"),
            };
            let flow = n as u64 + 1;
            let mut event = self.named(from, category);
            event.fixed64(field::EVENT_FLOW, flow);
            self.event(link.from_ns, INSTANT, track(link.from_row as usize, 0), event)?;
            let mut event = self.named(to, category);
            event.fixed64(field::EVENT_LAST_FLOW, flow);
            self.event(link.to_ns, INSTANT, track(link.to_row as usize, 0), event)?;
        }
        Ok(())
    }
}

/// What is known of a bar beside its name.
pub(super) enum Argument {
    Number(u64),
    Text(String),
}

/// A call path, innermost frame first.
pub(super) fn stack_text(t: &Timeline, stack: u32) -> String {
    let frames: Vec<String> = t.definitions.frames(stack).map(|node| t.definitions.frame(node)).collect();
    frames.join(" < ")
}

/// Names and values of what a bar has beside its label.
pub(super) fn arguments(t: &Timeline, bar: &Bar) -> Vec<(&'static str, Argument)> {
    let mut list = Vec::new();
    if bar.stack != 0 {
        list.push(("stack", Argument::Text(stack_text(t, bar.stack))));
    }
    match bar.class {
        Class::Run | Class::Ready | Class::Wait | Class::Part if bar.x != 0 => {
            list.push(("object", Argument::Text(t.object(bar.x))));
        }
        Class::Minor => {
            list.push(("bytes allocated", Argument::Number(bar.x)));
            list.push(("bytes promoted", Argument::Number(bar.y)));
        }
        Class::Major => list.push(("bytes marked", Argument::Number(bar.x))),
        Class::Gc => {
            list.push(("bytes alive", Argument::Number(bar.x)));
            if bar.y > 0 {
                list.push(("on a processor, ten-thousandths", Argument::Number(bar.y - 1)));
            }
        }
        Class::Final => list.push(("finalizers", Argument::Number(bar.x))),
        Class::Load => list.push(("bytes", Argument::Number(bar.x))),
        _ => {}
    }
    list
}

/// Writes a trace in Perfetto's format.
///
/// # Errors
/// Those of the writer.
pub fn write(timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let mut w = Writer { out, timeline, interned: Interned::default() };
    w.tracks()?;
    for (n, row) in timeline.rows.iter().enumerate() {
        w.bars(n, row)?;
    }
    w.links()?;
    w.out.flush()
}
