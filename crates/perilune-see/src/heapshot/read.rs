//! Reading snapshots. Whatever the bytes are, the result is a snapshot in which all numbers refer to
//! something, or an error; memory stays in proportion to the file.
//!
//! Several domains, in one file or in several, become one [`Snapshot`]. An island that several of them refer
//! to is one node.

use perilune_trace::heapshot::format::*;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// A snapshot of one or more domains.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Whose heaps these are.
    pub domains: Vec<Domain>,
    /// All objects.
    pub nodes: Vec<Node>,
    /// `edges[first[n]..first[n + 1]]` are those of node `n`.
    pub edges: Vec<Edge>,
    /// See `edges`.
    pub first: Vec<u32>,
    /// What is alive by itself.
    pub roots: Vec<Root>,
    /// Names of fields by shape: numbers of texts.
    pub shapes: Vec<Vec<u32>>,
    texts: Texts,
    islands: HashMap<u64, u32>,
}

/// A domain that took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Number of the process.
    pub process: u32,
    /// When it began; with the number, tells processes apart.
    pub started: u64,
    /// When the snapshot was taken: nanoseconds since 1970.
    pub taken: u64,
    /// Its number in the process.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// What its heap says that the program holds, garbage included, in bytes.
    pub live: u64,
}

/// An object.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Where it lies.
    pub address: u64,
    /// Bytes in the heap, with buffers.
    pub own: u64,
    /// Bytes outside that it is charged for.
    pub external: u64,
    /// See [`NodeKind`].
    pub x: u64,
    /// Number of a text.
    pub text: u32,
    /// See [`NodeKind`].
    pub y: u32,
    /// See [`NodeKind`].
    pub z: u32,
    /// Index of the domain.
    pub domain: u32,
    /// What it is.
    pub kind: NodeKind,
}

impl Node {
    /// All bytes that go if it goes.
    pub fn bytes(&self) -> u64 {
        self.own.saturating_add(self.external)
    }
}

/// A reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// To which node.
    pub to: u32,
    /// What it is.
    pub label: Label,
    /// It keeps nothing alive.
    pub weak: bool,
    /// See [`Label`]: number of a text, of a node, an index.
    pub argument: u64,
}

/// Something that is alive by itself.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    /// Why.
    pub kind: RootKind,
    /// Number of a text.
    pub text: u32,
    /// The node.
    pub to: u32,
    /// Index of the domain.
    pub domain: u32,
}

/// Texts, one behind the other.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// Ends.
    ends: Vec<u32>,
}

impl Texts {
    fn add(&mut self, text: &[u8]) -> Result<u32, String> {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).map_err(|_| "too much text")?);
        Ok(self.ends.len() as u32 - 1)
    }

    fn get(&self, n: u32) -> &[u8] {
        let end = self.ends.get(n as usize).copied().unwrap_or(0) as usize;
        let start = match n {
            0 => 0,
            _ => self.ends.get(n as usize - 1).copied().unwrap_or(0) as usize,
        };
        self.bytes.get(start..end).unwrap_or(&[])
    }
}

/// Does the file begin as a snapshot does?
pub fn is_snapshot(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 8];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut start)).is_ok() && start == MAGIC
}

/// What is left of the bytes.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, String> {
        let (&b, rest) = self.0.split_first().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(b)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, String> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            n |= (b as u64 & 0x7f) << shift;
            if b < 0x80 {
                return Ok(n);
            }
        }
        Err("a number is too long".into())
    }

    fn small(&mut self) -> Result<u32, String> {
        u32::try_from(self.number()?).map_err(|_| "a number is too large".into())
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let n = self.number()?;
        if n > self.0.len() as u64 {
            return Err("it ends too early".into());
        }
        let (bytes, rest) = self.0.split_at(n as usize);
        self.0 = rest;
        Ok(bytes)
    }
}

/// What counts within a section.
#[derive(Default)]
struct Section {
    /// Numbers of texts and shapes of the whole snapshot; those of the section count from 1.
    texts: Vec<u32>,
    shapes: Vec<u32>,
    nodes: Vec<u32>,
    /// Edges with the section's numbers of nodes, by the whole snapshot's node.
    edges: Vec<(u32, Edge)>,
    roots: Vec<Root>,
    address: u64,
}

impl Section {
    fn text(&self, n: u64) -> Result<u32, String> {
        match n {
            0 => Ok(0),
            n => self.texts.get(n as usize - 1).copied().ok_or_else(|| "there is no such text".into()),
        }
    }

    fn node(&self, n: u64) -> Result<u32, String> {
        let n = (n as usize).checked_sub(1).and_then(|n| self.nodes.get(n));
        n.copied().ok_or_else(|| "there is no such object".into())
    }

    fn edge(&self, input: &mut Input) -> Result<Edge, String> {
        let byte = input.byte()?;
        let label = Label::from_number(byte & !WEAK).ok_or("an unknown reference")?;
        let argument = match label.argument() {
            Argument::Nothing => 0,
            Argument::Text => {
                let n = input.number()?;
                self.text(n)? as u64
            }
            Argument::Folded => unfold(input.number()?) as u64,
            Argument::Node | Argument::Number => input.number()?,
        };
        Ok(Edge { to: input.small()?, label, weak: byte & WEAK != 0, argument })
    }
}

impl Snapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// What is wrong with the bytes, in words.
    pub fn read(bytes: &[u8]) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot::default();
        snapshot.add(bytes)?;
        Ok(snapshot)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no snapshot.
    pub fn load(path: &Path) -> io::Result<Snapshot> {
        let text = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| io::Error::new(e.kind(), text(&e)))?;
        Snapshot::read(&bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, text(&format!("no snapshot: {e}"))))
    }

    /// Adds the domains of another file. After an error the snapshot is of no use.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut input = Input(bytes);
        let mut edges: Vec<(u32, Edge)> = Vec::new();
        for n in 0..self.nodes.len() {
            edges.extend(self.edges_of(n as u32).iter().map(|&e| (n as u32, e)));
        }
        if input.0.is_empty() {
            return Err("it is empty".into());
        }
        while !input.0.is_empty() {
            self.section(&mut input, &mut edges)?;
        }
        if edges.len() > u32::MAX as usize {
            return Err("too many references".into());
        }
        // By node, in their order: a sort by counting.
        let mut first = vec![0u32; self.nodes.len() + 1];
        for (from, _) in &edges {
            first[*from as usize + 1] += 1;
        }
        for n in 0..self.nodes.len() {
            first[n + 1] += first[n];
        }
        let mut next = first.clone();
        let none = Edge { to: 0, label: Label::Other, weak: false, argument: 0 };
        self.edges = vec![none; edges.len()];
        for (from, edge) in edges {
            let at = &mut next[from as usize];
            self.edges[*at as usize] = edge;
            *at += 1;
        }
        self.first = first;
        Ok(())
    }

    fn section(&mut self, input: &mut Input, edges: &mut Vec<(u32, Edge)>) -> Result<(), String> {
        let start = input.0.get(..12).ok_or("it is too short")?;
        if start[..8] != MAGIC {
            return Err("it does not begin as one".into());
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if version != VERSION {
            return Err(format!("it has version {version} of the format, this is for {VERSION}"));
        }
        input.0 = &input.0[12..];
        let mut s = Section::default();
        let domain = self.domains.len() as u32;
        let mut head = None;
        let live = loop {
            match input.byte()? {
                HEAD if head.is_none() => {
                    head = Some(Domain {
                        process: input.small()?,
                        started: input.number()?,
                        taken: input.number()?,
                        number: input.small()?,
                        name: String::from_utf8_lossy(input.bytes()?).into_owned(),
                        live: 0,
                    });
                }
                TEXT => {
                    let n = self.texts.add(input.bytes()?)?;
                    s.texts.push(n);
                }
                SHAPE => {
                    let mut fields = Vec::new();
                    for _ in 0..input.number()? {
                        let n = input.number()?;
                        fields.push(s.text(n)?);
                    }
                    s.shapes.push(self.shapes.len() as u32 + 1);
                    self.shapes.push(fields);
                }
                NODE => self.node(input, &mut s, domain)?,
                LATE => {
                    let n = input.number()?;
                    let from = s.node(n)?;
                    let edge = s.edge(input)?;
                    s.edges.push((from, edge));
                }
                ROOT => {
                    let kind = RootKind::from_number(input.byte()?).ok_or("an unknown root")?;
                    let text = input.number()?;
                    let text = s.text(text)?;
                    s.roots.push(Root { kind, text, to: input.small()?, domain });
                }
                END => {
                    if input.number()? != s.nodes.len() as u64 {
                        return Err("objects are missing".into());
                    }
                    break input.number()?;
                }
                _ => return Err("an unknown record".into()),
            }
        };
        let head = head.ok_or("it does not say whose it is")?;
        self.domains.push(Domain { live, ..head });
        for (_, edge) in &mut s.edges {
            edge.to = index(&s.nodes, edge.to as u64)?;
            if edge.label.argument() == Argument::Node {
                edge.argument = index(&s.nodes, edge.argument)? as u64;
            }
        }
        edges.append(&mut s.edges);
        for mut root in s.roots {
            root.to = index(&s.nodes, root.to as u64)?;
            self.roots.push(root);
        }
        Ok(())
    }

    fn node(&mut self, input: &mut Input, s: &mut Section, domain: u32) -> Result<(), String> {
        let kind = NodeKind::from_number(input.byte()?).ok_or("an unknown kind of object")?;
        s.address = s.address.wrapping_add(unfold(input.number()?) as u64);
        let (own, external) = (input.number()?, input.number()?);
        let text = input.number()?;
        let mut text = s.text(text)?;
        let mut x = input.number()?;
        let (y, z) = (input.small()?, input.small()?);
        match kind {
            NodeKind::String => text = self.texts.add(input.bytes()?)?,
            NodeKind::Table if x != 0 => {
                x = *s.shapes.get(x as usize - 1).ok_or("there is no such shape")? as u64;
            }
            _ => {}
        }
        let known = if kind == NodeKind::Island { self.islands.get(&x).copied() } else { None };
        let number = match known {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.nodes.len()).map_err(|_| "too many objects")?;
                self.nodes.push(Node { address: s.address, own, external, x, text, y, z, domain, kind });
                if kind == NodeKind::Island {
                    self.islands.insert(x, number);
                }
                number
            }
        };
        s.nodes.push(number);
        for _ in 0..input.number()? {
            let edge = s.edge(input)?;
            if known.is_none() {
                s.edges.push((number, edge));
            }
        }
        Ok(())
    }

    /// The references of a node.
    pub fn edges_of(&self, n: u32) -> &[Edge] {
        let (from, to) = (self.first.get(n as usize), self.first.get(n as usize + 1));
        match (from, to) {
            (Some(&from), Some(&to)) => &self.edges[from as usize..to as usize],
            _ => &[],
        }
    }

    /// A text, by number.
    pub fn text(&self, n: u32) -> &[u8] {
        self.texts.get(n)
    }

    /// The number of a text, if there is one like it: the first.
    pub fn find_text(&self, text: &[u8]) -> Vec<u32> {
        (1..self.texts.ends.len() as u32).filter(|&n| self.texts.get(n) == text).collect()
    }

    /// The sum of all objects' bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, n| sum.saturating_add(n.bytes()))
    }
}

/// The snapshot's number of the section's node `n`.
fn index(nodes: &[u32], n: u64) -> Result<u32, String> {
    let n = (n as usize).checked_sub(1).and_then(|n| nodes.get(n));
    n.copied().ok_or_else(|| "there is no such object".into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use perilune_trace::heapshot::write::{Description, Head, Writer};
    use proptest::prelude::*;

    pub fn writer() -> Writer<Vec<u8>> {
        let head = Head { process: 7, started: 8, taken: 9, domain: 1, name: b"main" };
        Writer::new(Vec::new(), &head)
    }

    fn sample() -> Vec<u8> {
        let mut w = writer();
        let name = w.text(b"items");
        let shape = w.shape(&[name]);
        w.edge(Label::Field, name as u64, false, 2);
        w.edge(Label::Index, -5i64 as u64, true, 3);
        let d = Description { x: shape as u64, y: 3, ..Default::default() };
        w.node(NodeKind::Table, 0x7f00_0000_1000, 64, 0, &d);
        w.edge(Label::StringKey, 3, false, 1);
        w.node(NodeKind::Table, 0x7f00_0000_0800, 32, 5, &Description::default());
        let d = Description { x: 11, bytes: b"hello world", ..Default::default() };
        w.node(NodeKind::String, 0x7f00_0000_0900, 48, 0, &d);
        w.late(2, Label::Ephemeron, 1, false, 3);
        w.root(RootKind::Globals, b"_G", 1);
        w.finish(200).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let s = Snapshot::read(&sample()).unwrap();
        assert_eq!((s.nodes.len(), s.bytes(), s.domains[0].live), (3, 149, 200));
        let e = s.edges_of(0);
        assert_eq!((s.text(e[0].argument as u32), e[0].to, e[0].weak), (&b"items"[..], 1, false));
        assert_eq!((e[1].argument as i64, e[1].to, e[1].weak), (-5, 2, true));
        let e = s.edges_of(1);
        assert_eq!((e[0].argument, e[0].to, e[1].label, e[1].argument), (2, 0, Label::Ephemeron, 0));
        assert_eq!(s.text(s.nodes[2].text), b"hello world");
        assert_eq!(s.text(s.shapes[s.nodes[0].x as usize - 1][0]), b"items");
        assert_eq!(s.nodes[1].address, 0x7f00_0000_0800);
        assert_eq!((s.roots[0].to, s.text(s.roots[0].text)), (0, &b"_G"[..]));
    }

    #[test]
    fn islands_of_several_domains_are_one() {
        let section = || {
            let mut w = writer();
            w.edge(Label::Island, 0, false, 2);
            w.node(NodeKind::Table, 16, 10, 0, &Description::default());
            w.node(NodeKind::Island, 0, 1000, 0, &Description { x: 77, ..Default::default() });
            w.finish(0).unwrap()
        };
        let mut s = Snapshot::read(&[section(), section()].concat()).unwrap();
        assert_eq!((s.domains.len(), s.nodes.len(), s.bytes()), (2, 3, 1020));
        assert_eq!((s.edges_of(0)[0].to, s.edges_of(2)[0].to), (1, 1));
        s.add(&section()).unwrap();
        assert_eq!((s.nodes.len(), s.edges_of(3)[0].to), (4, 1));
    }

    #[test]
    fn half_a_snapshot_is_none() {
        let bytes = sample();
        for end in 0..bytes.len() {
            Snapshot::read(&bytes[..end]).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_snapshot_or_an_error(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            tail in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = sample();
            for (at, to) in changes {
                let at = at.index(bytes.len());
                bytes[at] = to;
            }
            bytes.extend(tail);
            if let Ok(s) = Snapshot::read(&bytes) {
                let graph = super::super::Graph::new(&s);
                for n in 0..s.nodes.len() as u32 {
                    graph.path(n);
                    graph.type_name(n);
                }
                super::super::summary::types(&graph);
                super::super::compare::growth(&graph, &graph);
            }
        }
    }
}
