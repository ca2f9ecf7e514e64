//! Profiles: samples added up by call path.
//!
//! | file | |
//! |---|---|
//! | `tree.rs` | call paths as a tree of functions; tables of functions and lines |
//! | `flame.rs` | flame graphs: SVG, and a page with one |
//! | `formats.rs` | folded stacks, pprof, speedscope |
//!
//! A [`Profile`] knows for each call path how much of each of its *measures* it stands for: nanoseconds of
//! processor time, bytes allocated, and so on. The first measure is the one that tables and graphs are
//! ordered by. Paths are kept as the numbers that the trace's definitions give them, so a profile is small
//! whatever the trace was.

pub mod flame;
pub mod formats;
pub mod tree;

use crate::definitions::Definitions;
use crate::trace::{Trace, Who};
use perilune_trace::event::Kind;
use perilune_trace::layout::StackNode;
use std::collections::HashMap;

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// One word: `cpu`, `allocated`.
    pub name: &'static str,
    /// In what.
    pub unit: Unit,
}

/// A profile.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What is counted; the first is what matters most.
    pub measures: Vec<Measure>,
    /// For each call path (0: none is known) and domain (0: outside of all) its values, as many as there are
    /// measures.
    pub samples: Vec<Sample>,
    /// Names.
    pub definitions: Definitions,
    /// Names of domains.
    pub domains: HashMap<u32, String>,
    /// Nanoseconds that were observed.
    pub wall_ns: u64,
    /// Nanoseconds since 1970 at the beginning.
    pub start_real_ns: u64,
    /// Samples that this is made of.
    pub count: u64,
    /// Events that were lost.
    pub lost: u64,
    /// What was observed.
    pub title: String,
}

/// A call path and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the path.
    pub stack: u32,
    /// Where it ran.
    pub domain: u32,
    /// One for each measure.
    pub values: Vec<u64>,
}

/// Adds up samples.
struct Sum {
    width: usize,
    at: HashMap<(u32, u32), usize>,
    samples: Vec<Sample>,
}

impl Sum {
    fn new(width: usize) -> Sum {
        Sum { width, at: HashMap::new(), samples: Vec::new() }
    }
    fn values(&mut self, stack: u32, who: Who) -> &mut [u64] {
        let domain = match who {
            Who::Domain(domain) => domain,
            Who::Thread(_) => 0,
        };
        let (samples, width) = (&mut self.samples, self.width);
        let at = *self.at.entry((stack, domain)).or_insert_with(|| {
            samples.push(Sample { stack, domain, values: vec![0; width] });
            samples.len() - 1
        });
        &mut self.samples[at].values
    }
}

impl Profile {
    /// Processor time.
    pub fn cpu(trace: &Trace) -> Profile {
        let mut sum = Sum::new(2);
        for e in trace.events.iter().filter(|e| e.kind == Kind::CpuSample) {
            let values = sum.values(e.a as u32, e.who);
            values[0] += e.b;
            values[1] += 1;
        }
        let cpu = Measure { name: "cpu", unit: Unit::Nanoseconds };
        Profile::new(trace, vec![cpu, Measure { name: "samples", unit: Unit::Count }], sum)
    }

    /// Allocation, and what became of it.
    pub fn alloc(trace: &Trace) -> Profile {
        let mut sum = Sum::new(4);
        for e in &trace.events {
            let (stack, bytes) = (e.a as u32, e.b);
            match (e.kind, e.c) {
                (Kind::AllocSample, _) => {
                    let values = sum.values(stack, e.who);
                    values[0] += bytes;
                    values[1] += 1;
                }
                // Survived a collection; later it may die old.
                (Kind::AllocFate, 1) => sum.values(stack, e.who)[2] += bytes,
                (Kind::AllocFate, 2) => sum.values(stack, e.who)[3] += bytes,
                _ => {}
            }
        }
        let bytes = |name| Measure { name, unit: Unit::Bytes };
        let samples = Measure { name: "samples", unit: Unit::Count };
        let measures = vec![bytes("allocated"), samples, bytes("survived"), bytes("died_old")];
        Profile::new(trace, measures, sum)
    }

    fn new(trace: &Trace, measures: Vec<Measure>, sum: Sum) -> Profile {
        let mut samples = sum.samples;
        samples.sort_by_key(|s| (std::cmp::Reverse(s.values[0]), s.stack, s.domain));
        let count = measures.iter().position(|m| m.name == "samples");
        let count = count.map_or(0, |at| samples.iter().map(|s| s.values[at]).sum());
        let named = trace.events.iter().filter(|e| e.kind == Kind::DomainBegin);
        Profile {
            measures,
            count,
            samples,
            domains: named.map(|e| (e.a as u32, trace.definitions.string(e.b))).collect(),
            definitions: trace.definitions.clone(),
            wall_ns: trace.end_ns,
            start_real_ns: trace.start_real_ns,
            lost: trace.lost,
            title: trace.title.clone(),
        }
    }

    /// The sum of a measure.
    pub fn total(&self, measure: usize) -> u64 {
        self.samples.iter().map(|s| s.values[measure]).sum()
    }

    /// The same, of one domain only.
    pub fn of_domain(&self, domain: u32) -> Profile {
        let mut profile = self.clone();
        profile.samples.retain(|s| s.domain == domain);
        profile
    }

    /// A call path from its root to the innermost frame; one nameless frame if it is not known.
    pub fn path(&self, stack: u32) -> Vec<StackNode> {
        let mut frames: Vec<StackNode> = self.definitions.frames(stack).copied().collect();
        frames.reverse();
        if frames.is_empty() {
            frames.push(StackNode { parent: 0, function: 0, source: 0, line: 0, defined: 0, kind: 1 });
        }
        frames
    }

    /// A function's name for people.
    pub fn function(&self, node: &StackNode) -> String {
        if node.function == 0 {
            "(unknown)".to_owned()
        } else {
            self.definitions.string(node.function as u64)
        }
    }

    /// Where a function is defined, `source:line`; empty for natives.
    pub fn defined(&self, node: &StackNode) -> String {
        match node.source {
            0 => String::new(),
            source => format!("{}:{}", self.definitions.string(source as u64), node.defined),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trace::Event;
    use perilune_trace::layout::DefinitionKind;

    /// Definitions as a program would have written them: `(parent, function, source, line)` for each call
    /// path.
    pub fn definitions(paths: &[(u32, &str, &str, u32)]) -> Definitions {
        let mut bytes = Vec::new();
        let mut add = |kind: DefinitionKind, body: &[u8]| {
            bytes.extend_from_slice(&(body.len() as u32).to_ne_bytes());
            bytes.extend_from_slice(&(kind as u16).to_ne_bytes());
            bytes.extend_from_slice(&[0, 0]);
            bytes.extend_from_slice(body);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        };
        let mut strings: Vec<&str> = Vec::new();
        for &(parent, function, source, line) in paths {
            for text in [function, source] {
                if !text.is_empty() && !strings.contains(&text) {
                    strings.push(text);
                    add(DefinitionKind::String, text.as_bytes());
                }
            }
            let of = |text: &str| strings.iter().position(|s| *s == text).map_or(0, |at| at as u32 + 1);
            let words = [parent, of(function), of(source), line, line / 10 * 10, source.is_empty() as u32];
            let body: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            add(DefinitionKind::Stack, &body);
        }
        let mut definitions = Definitions::default();
        assert_eq!(definitions.parse(&bytes), bytes.len());
        definitions
    }

    /// main calls `work` (75 of 100 ns), which calls itself and a native.
    pub fn example() -> Profile {
        let paths = [
            (0, "main chunk", "a.lua", 5),
            (1, "work", "a.lua", 12),
            (2, "work", "a.lua", 13),
            (3, "string.rep", "", 0),
            (1, "rest <&\"'>", "a.lua", 25),
        ];
        let sample = |stack: u64, ns: u64, domain: u32| Event {
            ns: 1,
            who: Who::Domain(domain),
            kind: Kind::CpuSample,
            c: 0,
            a: stack,
            b: ns,
        };
        let trace = Trace {
            events: vec![
                sample(2, 30, 1),
                sample(4, 40, 1),
                sample(2, 5, 2),
                sample(5, 20, 1),
                sample(1, 5, 1),
            ],
            definitions: definitions(&paths),
            end_ns: 1000,
            title: "a.lua".into(),
            ..Trace::default()
        };
        Profile::cpu(&trace)
    }

    #[test]
    fn samples_of_a_path_are_added_up_for_each_domain() {
        let p = example();
        assert_eq!((p.total(0), p.count), (100, 5));
        assert_eq!(p.samples[0], Sample { stack: 4, domain: 1, values: vec![40, 1] });
        assert_eq!(p.of_domain(2).total(0), 5);
        let path: Vec<_> = p.path(4).iter().map(|n| p.function(n)).collect();
        assert_eq!(path, ["main chunk", "work", "work", "string.rep"]);
        assert_eq!(p.path(99).len(), 1);
    }

    #[test]
    fn allocation_knows_what_survived() {
        let event = |kind, c, bytes| Event { ns: 0, who: Who::Domain(1), kind, c, a: 1, b: bytes };
        let trace = Trace {
            events: vec![
                event(Kind::AllocSample, 5, 100),
                event(Kind::AllocSample, 5, 100),
                event(Kind::AllocFate, 0, 100),
                event(Kind::AllocFate, 1, 100),
                event(Kind::AllocFate, 2, 100),
            ],
            definitions: definitions(&[(0, "f", "a.lua", 1)]),
            ..Trace::default()
        };
        assert_eq!(Profile::alloc(&trace).samples[0].values, [200, 2, 100, 100]);
    }
}
