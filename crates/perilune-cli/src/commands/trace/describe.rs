//! Events in words: who, what, and arguments by the notations of the dictionary (`perilune_trace::event`);
//! durations of what has ended.

use perilune_see::{Event, Trace, Who};
use perilune_trace::event::{Field, FieldInfo, Notation, Phase, Share, Slot};
use perilune_trace::{FiberRef, Kind, ObjectKind, ObjectRef};
use std::collections::HashMap;
use std::fmt::Write;

/// Bytes for people: `17 B`, `12.3 KiB`.
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.95 {
            return if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A time in nanoseconds for people: `85 ns`, `1.25 ms`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// The names of a trace's domains, threads and fibers.
pub struct Describe<'t> {
    trace: &'t Trace,
    domains: HashMap<u32, u64>,
    threads: HashMap<u32, u64>,
    fibers: HashMap<u64, u64>,
}

impl<'t> Describe<'t> {
    /// Gathers names.
    pub fn new(trace: &'t Trace) -> Describe<'t> {
        let mut names =
            Describe { trace, domains: HashMap::new(), threads: HashMap::new(), fibers: HashMap::new() };
        for e in trace.events.iter().filter(|e| e.b != 0) {
            match e.kind {
                Kind::DomainBegin => _ = names.domains.insert(e.a as u32, e.b),
                Kind::ThreadName => _ = names.threads.insert(e.a as u32, e.b),
                Kind::FiberBegin => _ = names.fibers.insert(e.a, e.b),
                _ => {}
            }
        }
        names
    }

    fn named(&self, name: Option<&u64>, what: &str, number: u64) -> String {
        match name {
            Some(&name) => format!("{what} {number} '{}'", self.trace.definitions.string(name)),
            None => format!("{what} {number}"),
        }
    }

    /// A domain: `domain 2 'reader'`; the first is `main`.
    pub fn domain(&self, n: u32) -> String {
        if n == 1 { "main".into() } else { self.named(self.domains.get(&n), "domain", n as u64) }
    }

    /// Who wrote an event.
    pub fn who(&self, who: Who) -> String {
        match who {
            Who::Domain(n) => self.domain(n),
            Who::Thread(0) => "kernel".to_owned(),
            Who::Thread(n) => self.named(self.threads.get(&n), "thread", n as u64),
        }
    }

    /// A fiber; the domain is said if it is not the one that `of` is.
    pub fn fiber(&self, fiber: FiberRef, of: Who) -> String {
        let mut text = match fiber.index() {
            FiberRef::ROOT => "root".to_owned(),
            n => self.named(self.fibers.get(&fiber.0), "fiber", n as u64),
        };
        if of != Who::Domain(fiber.domain()) {
            _ = write!(text, " of {}", self.domain(fiber.domain()));
        }
        text
    }

    /// A field by its notation; `None` if it says nothing.
    fn argument(&self, e: &Event, field: &FieldInfo) -> Option<String> {
        let d = &self.trace.definitions;
        let value = e.word(field.slot);
        match field.notation {
            Notation::Name => (value != 0).then(|| format!("'{}'", d.string(value))),
            Notation::Stack => {
                // Natives have no place, and the event itself says what they do.
                let node = d.frames(value as u32).find(|node| node.source != 0 && node.line != 0);
                let node = node.or_else(|| d.frames(value as u32).next())?;
                Some(format!("at {}", d.frame(node)))
            }
            Notation::Domain => Some(self.domain(value as u32)),
            Notation::Fiber => Some(self.fiber(FiberRef(value), e.who)),
            // A sleep is no timer of anybody's.
            Notation::Object if value == ObjectRef::new(ObjectKind::Timer, 0).0 => None,
            Notation::Object => (value != 0).then(|| d.object(ObjectRef(value))),
            Notation::Process => match (value >> 32, value & 0xffff_ffff) {
                (0, 0) => Some("nobody".to_owned()),
                (pid, 0) => Some(format!("process {pid}")),
                (pid, name) => Some(format!("process {pid} '{}'", d.string(name))),
            },
            Notation::Thread => Some(format!("thread {value}")),
            Notation::Processor => Some(format!("processor {value}")),
            Notation::Float => Some(format!("= {}", f64::from_bits(value))),
            Notation::Coroutine => Some(format!("coroutine {value:#x}")),
            Notation::Bytes => Some(format!("{} {}", bytes(value), field.name)),
            Notation::Nanoseconds => Some(format!("{} {}", time(value), field.name)),
            Notation::Share => {
                Share::decode(value).0.map(|share| format!("{:.1}% on a processor", share as f64 / 100.0))
            }
            Notation::Words(words) => match words.iter().find(|(n, _)| *n as u64 == value) {
                Some((_, "")) => None,
                Some((_, word)) => Some((*word).to_owned()),
                None => Some(format!("({value})")),
            },
            Notation::Flag => (value != 0).then(|| field.name.to_owned()),
            Notation::Index => Some(format!("{} {}", field.name, value as i64)),
            Notation::Count | Notation::Raw => Some(format!("{} {value}", field.name)),
        }
    }

    /// The arguments of event number `at`, and the text that it begins.
    pub fn arguments(&self, at: usize) -> String {
        let e = &self.trace.events[at];
        let info = e.kind.info();
        // The length of a text is seen, and the first field of a beginning has the name already.
        let says = |f: &&FieldInfo| match e.kind {
            Kind::Log | Kind::Error => f.slot == Slot::B,
            Kind::DomainBegin | Kind::FiberBegin => f.slot == Slot::A,
            _ => true,
        };
        let fields = info.fields.iter().filter(says);
        let mut parts: Vec<String> = fields.filter_map(|field| self.argument(e, field)).collect();
        if matches!(e.kind, Kind::Log | Kind::Error) {
            parts.push(self.trace.text(at));
        }
        parts.join(" ")
    }
}

/// What has begun and not ended, by what tells them apart.
#[derive(Default)]
pub struct Durations {
    open: HashMap<(Who, Kind, u64, u64), Vec<u64>>,
    /// The fiber that runs.
    running: HashMap<Who, u64>,
}

impl Durations {
    /// How long what this event ends has lasted, in ns. Events in the order of a trace.
    pub fn of(&mut self, e: &Event) -> Option<u64> {
        match e.kind {
            Kind::FiberRun => _ = self.running.insert(e.who, e.a),
            Kind::FiberPark => _ = self.running.remove(&e.who),
            _ => {}
        }
        let begins = match e.kind.info().phase {
            Phase::Begin => true,
            Phase::End => false,
            _ => return None,
        };
        // What may end elsewhere than it began is told apart by itself alone.
        let anybody = Who::Domain(0);
        let begin = if begins { Some(e.kind) } else { Kind::from_number(e.kind as u16 - 1) }?;
        let key = match begin {
            Kind::WaitBegin if begins => {
                (anybody, begin, self.running.get(&e.who).copied().unwrap_or_default(), 0)
            }
            Kind::WaitBegin => (anybody, begin, e.b, 0),
            Kind::LoopBegin => (anybody, begin, e.a, 0),
            Kind::SpanBegin | Kind::PartBegin => (anybody, begin, e.a, e.b),
            Kind::RequestBegin => (anybody, begin, e.a, 0),
            _ => (e.who, begin, 0, 0),
        };
        if begins {
            self.open.entry(key).or_default().push(e.ns);
            return None;
        }
        let open = self.open.get_mut(&key)?;
        let begun = open.pop()?;
        if open.is_empty() {
            self.open.remove(&key);
        }
        Some(e.ns.saturating_sub(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(
            (bytes(1023), bytes(1536), bytes(5 << 30)),
            ("1023 B".into(), "1.5 KiB".into(), "5.0 GiB".into())
        );
        assert_eq!(
            (time(999), time(1500), time(2_000_000)),
            ("999 ns".into(), "1.50 us".into(), "2.00 ms".into())
        );
    }

    #[test]
    fn durations_of_what_nests_and_what_does_not() {
        let mut durations = Durations::default();
        let (one, two) = (Who::Domain(1), Who::Domain(2));
        let mut at = |ns, who, kind, a, b| durations.of(&Event { ns, who, kind, c: 0, a, b });
        assert_eq!(at(0, one, Kind::StepBegin, 0, 0), None);
        assert_eq!(at(1, one, Kind::MinorBegin, 0, 0), None);
        assert_eq!(at(2, two, Kind::MinorBegin, 0, 0), None);
        assert_eq!(at(5, one, Kind::MinorEnd, 0, 0), Some(4));
        assert_eq!(at(6, one, Kind::StepEnd, 0, 0), Some(6));
        assert_eq!(at(7, two, Kind::MinorEnd, 0, 0), Some(5));
        assert_eq!(at(7, two, Kind::MinorEnd, 0, 0), None, "its beginning is not there");
        // A wait begins in one run of a fiber and ends in a later one; another fiber waits meanwhile.
        at(10, one, Kind::FiberRun, 5, 0);
        at(11, one, Kind::WaitBegin, 77, 0);
        assert_eq!(at(12, one, Kind::FiberPark, 5, 0), Some(2));
        at(13, one, Kind::FiberRun, 6, 0);
        at(14, one, Kind::WaitBegin, 77, 0);
        at(15, one, Kind::FiberPark, 6, 0);
        at(16, one, Kind::FiberRun, 5, 0);
        assert_eq!(at(21, one, Kind::WaitEnd, 77, 5), Some(10));
        assert_eq!(at(24, one, Kind::WaitEnd, 77, 6), Some(10));
        // Spans of one name overlap.
        at(30, one, Kind::SpanBegin, 1, 1);
        at(31, two, Kind::SpanBegin, 1, 2);
        assert_eq!(at(40, one, Kind::SpanEnd, 1, 1), Some(10));
        assert_eq!(at(42, two, Kind::SpanEnd, 1, 2), Some(11));
    }
}
