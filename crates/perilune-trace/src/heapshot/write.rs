//! Writing a snapshot, a section at a time. The order of calls is that of the format; a text or shape is
//! defined when it is first asked for.
//!
//! Errors of the output are kept until [`Writer::finish`], so that whoever walks a heap need not look after
//! each step; nothing is written after the first.

use super::format::*;
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes one domain's section.
pub struct Writer<W: Write> {
    out: W,
    error: Option<io::Error>,
    /// The record being made.
    record: Vec<u8>,
    edges: Vec<u8>,
    edge_count: u64,
    texts: HashMap<Box<[u8]>, u32>,
    shapes: u32,
    nodes: u64,
    last_address: u64,
}

/// What the first record says.
pub struct Head<'a> {
    /// Number of the process.
    pub process: u32,
    /// When it began, in whatever unit: tells processes with one number apart.
    pub started: u64,
    /// Nanoseconds since 1970.
    pub taken: u64,
    /// Number of the domain.
    pub domain: u32,
    /// Its name.
    pub name: &'a [u8],
}

/// A node's description: see [`NodeKind`].
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Description<'a> {
    pub text: u32,
    pub x: u64,
    pub y: u64,
    pub z: u64,
    pub bytes: &'a [u8],
}

fn number(to: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

fn bytes(to: &mut Vec<u8>, b: &[u8]) {
    number(to, b.len() as u64);
    to.extend_from_slice(b);
}

impl<W: Write> Writer<W> {
    /// Begins a section.
    pub fn new(out: W, head: &Head) -> Writer<W> {
        let mut w = Writer {
            out,
            error: None,
            record: Vec::new(),
            edges: Vec::new(),
            edge_count: 0,
            texts: HashMap::new(),
            shapes: 0,
            nodes: 0,
            last_address: 0,
        };
        w.record.extend_from_slice(&MAGIC);
        w.record.extend_from_slice(&VERSION.to_le_bytes());
        w.record.push(HEAD);
        for n in [head.process as u64, head.started, head.taken, head.domain as u64] {
            number(&mut w.record, n);
        }
        bytes(&mut w.record, head.name);
        w.flush();
        w
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.record).err();
        }
        self.record.clear();
    }

    /// The number of a text; 0 is the empty one.
    pub fn text(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&n) = self.texts.get(text) {
            return n;
        }
        let n = self.texts.len() as u32 + 1;
        self.texts.insert(text.into(), n);
        let mut record = vec![TEXT];
        bytes(&mut record, text);
        if self.error.is_none() {
            self.error = self.out.write_all(&record).err();
        }
        n
    }

    /// Defines a shape by the texts of its fields' names.
    pub fn shape(&mut self, fields: &[u32]) -> u32 {
        let mut record = vec![SHAPE];
        number(&mut record, fields.len() as u64);
        fields.iter().for_each(|&f| number(&mut record, f as u64));
        if self.error.is_none() {
            self.error = self.out.write_all(&record).err();
        }
        self.shapes += 1;
        self.shapes
    }

    /// Adds a reference to the node that is written next. `argument`: see [`Label`]; an index as
    /// `i64 as u64`.
    #[inline]
    pub fn edge(&mut self, label: Label, argument: u64, weak: bool, to: u32) {
        put_edge(&mut self.edges, label, argument, weak, to);
        self.edge_count += 1;
    }

    /// Writes the next node, with the references that were added since the last one.
    pub fn node(&mut self, kind: NodeKind, address: u64, own: u64, external: u64, d: &Description) {
        let r = &mut self.record;
        r.push(NODE);
        r.push(kind as u8);
        number(r, fold(address.wrapping_sub(self.last_address) as i64));
        self.last_address = address;
        for n in [own, external, d.text as u64, d.x, d.y, d.z] {
            number(r, n);
        }
        if kind == NodeKind::String {
            bytes(r, &d.bytes[..d.bytes.len().min(STRING_BYTES)]);
        }
        number(r, self.edge_count);
        r.append(&mut self.edges);
        self.edge_count = 0;
        self.nodes += 1;
        self.flush();
    }

    /// Adds a reference to a node that has been written.
    pub fn late(&mut self, from: u32, label: Label, argument: u64, weak: bool, to: u32) {
        self.record.push(LATE);
        number(&mut self.record, from as u64);
        put_edge(&mut self.record, label, argument, weak, to);
        self.flush();
    }

    /// Says that a node is a root.
    pub fn root(&mut self, kind: RootKind, text: &[u8], to: u32) {
        let text = self.text(text);
        self.record.push(ROOT);
        self.record.push(kind as u8);
        number(&mut self.record, text as u64);
        number(&mut self.record, to as u64);
        self.flush();
    }

    /// Nodes written so far.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Ends the section. `live`: what the heap says that the program holds, in bytes.
    ///
    /// # Errors
    /// The first one that the output had.
    pub fn finish(mut self, live: u64) -> io::Result<W> {
        self.record.push(END);
        number(&mut self.record, self.nodes);
        number(&mut self.record, live);
        self.flush();
        match self.error {
            Some(e) => Err(e),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }
}

fn put_edge(to: &mut Vec<u8>, label: Label, argument: u64, weak: bool, node: u32) {
    to.push(label as u8 | if weak { WEAK } else { 0 });
    match label.argument() {
        Argument::Nothing => {}
        Argument::Folded => number(to, fold(argument as i64)),
        _ => number(to, argument),
    }
    number(to, node as u64);
}
