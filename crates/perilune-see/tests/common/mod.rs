//! Traces made up for tests: two domains, a pool's tasks, a channel, collections, spans.

use perilune_see::trace::{Event, Trace, Who};
use perilune_trace::event::{Kind, ObjectKind};
use perilune_trace::layout::DefinitionKind;
use perilune_trace::{FiberRef, ObjectRef};

/// A trace in the making.
#[derive(Default)]
pub struct Maker {
    pub trace: Trace,
    definitions: Vec<u8>,
    strings: u32,
}

impl Maker {
    fn define(&mut self, kind: DefinitionKind, body: &[u8]) {
        self.definitions.extend_from_slice(&(body.len() as u32).to_ne_bytes());
        self.definitions.extend_from_slice(&(kind as u16).to_ne_bytes());
        self.definitions.extend_from_slice(&[0; 2]);
        self.definitions.extend_from_slice(body);
        self.definitions.resize(self.definitions.len().next_multiple_of(8), 0);
    }

    pub fn string(&mut self, text: &str) -> u64 {
        self.define(DefinitionKind::String, text.as_bytes());
        self.strings += 1;
        self.strings as u64
    }

    /// A node of call paths; they are numbered from 1 in the order of the calls.
    pub fn stack(&mut self, words: [u32; 6]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.define(DefinitionKind::Stack, &bytes);
    }

    pub fn label(&mut self, object: ObjectRef, text: &str) {
        let name = self.string(text) as u32;
        let mut body = object.0.to_ne_bytes().to_vec();
        body.extend_from_slice(&name.to_ne_bytes());
        self.define(DefinitionKind::Label, &body);
    }

    pub fn at(&mut self, ns: u64, domain: u32, kind: Kind, c: u16, a: u64, b: u64) {
        self.trace.events.push(Event { ns, who: Who::Domain(domain), kind, c, a, b });
    }

    pub fn done(mut self, end_ns: u64) -> Trace {
        self.trace.definitions.parse(&self.definitions);
        self.trace.finish(end_ns);
        self.trace
    }
}

/// Domain 1 makes two tasks, which domain 2 runs; the second waits for a channel that the main code sends to.
pub fn small() -> Trace {
    let mut m = Maker::default();
    let main = m.string("main");
    let worker = m.string("worker \"1\"");
    let f = m.string("work (jobs.lua:12)");
    let inner = m.string("inner") as u32;
    let source = m.string("jobs.lua") as u32;
    let span = m.string("phase <one>");
    let counter = m.string("jobs done");
    let fread = m.string("io.read");
    m.stack([0, f as u32, source, 14, 12, 0]);
    m.stack([1, inner, source, 3, 2, 0]);
    let channel = ObjectRef::new(ObjectKind::Channel, 5);
    m.label(channel, "jobs");
    let (t1, t2) = (ObjectRef::new(ObjectKind::Task, 1), ObjectRef::new(ObjectKind::Task, 2));
    let (root, f0, f1) = (FiberRef::root(1), FiberRef::new(2, 0, 0), FiberRef::new(2, 0, 1));
    m.trace.pid = 4242;
    m.trace.title = "jobs.lua".into();
    (m.trace.start_mono_ns, m.trace.start_real_ns) = (1_000_000, 1_700_000_000_000_000_000);
    use Kind::*;
    m.at(0, 1, DomainBegin, 0, 1, main);
    m.at(10, 1, DomainEnter, 0, 1, 4242);
    m.at(20, 1, FiberRun, 0, root.0, 0);
    m.at(30, 1, SpanBegin, 0, span, 0);
    m.at(100, 1, TaskCreated, 0, t1.0, f);
    m.at(110, 1, TaskCreated, 0, t2.0, f);
    m.at(120, 2, DomainBegin, 0, 2, worker);
    m.at(130, 2, DomainEnter, 0, 2, 4243);
    m.at(140, 2, FiberBegin, 0, f0.0, 0);
    m.at(150, 2, TaskStart, 0, t1.0, f0.0);
    m.at(160, 2, FiberRun, 0, f0.0, 0);
    m.at(200, 2, StepBegin, 0, 0, 0);
    m.at(210, 2, MinorBegin, 0, 0, 0);
    m.at(260, 2, MinorEnd, 0, 4096, 512);
    m.at(270, 2, StepEnd, 0, 10_000, 20_000);
    m.at(400, 2, FiberPark, 1, f0.0, 0);
    m.at(401, 2, TaskEnd, 1, t1.0, f0.0);
    m.at(410, 2, TaskStart, 0, t2.0, f1.0);
    m.at(420, 2, FiberRun, 0, f1.0, 0);
    m.at(500, 2, WaitBegin, 1, channel.0, 2);
    m.at(510, 2, FiberPark, 0, f1.0, 0);
    m.at(520, 2, DomainLeave, 0, 2, 0);
    m.at(600, 1, BlockBegin, 0, fread, 1);
    m.at(900, 1, BlockEnd, 0, fread, 0);
    m.at(950, 1, Wake, 0, f1.0, channel.0);
    m.at(960, 1, Counter, 0, counter, 2.5f64.to_bits());
    m.at(1000, 2, DomainEnter, 0, 2, 4244);
    m.at(1010, 2, FiberRun, 0, f1.0, 0);
    m.at(1011, 2, WaitEnd, 0, channel.0, f1.0);
    m.at(1200, 1, SpanEnd, 0, span, 0);
    m.at(1210, 1, Mark, 0, f, 0);
    m.at(1250, 1, CpuSample, 0, 2, 1000);
    m.at(1300, 2, FiberPark, 1, f1.0, 0);
    m.at(1310, 2, DomainLeave, 0, 2, 0);
    m.at(1400, 1, FiberPark, 1, root.0, 0);
    m.at(1410, 1, DomainLeave, 0, 1, 0);
    m.done(1500)
}
