//! Snapshots of heaps: graphs at random, in which everything refers to everything, and damaged ones.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use perilune_see::heapshot::compare::{changes, growth};
use perilune_see::heapshot::summary::{retainers, types};
use perilune_see::heapshot::{Graph, Label, NodeKind, RootKind, Snapshot};
use perilune_trace::heapshot::Writer;
use perilune_trace::heapshot::write::{Description, Head};

/// See the module.
pub struct Heap;

fn label(rng: &mut Rng) -> Label {
    Label::from_number(rng.below(21) as u8).unwrap_or(Label::Field)
}

fn section(rng: &mut Rng) -> Vec<u8> {
    let head = Head {
        process: 1,
        started: rng.below(2) as u64,
        taken: rng.next(),
        domain: rng.below(3) as u32,
        name: b"main",
    };
    let mut w = Writer::new(Vec::new(), &head);
    for name in [&b"__name"[..], b"_LOADED", b"cache", b"two words", b"x of f (a.lua:1)"] {
        w.text(name);
    }
    let shapes = rng.below(4) as u64;
    for n in 0..shapes {
        w.shape(&[1, n as u32 + 1, 3]);
    }
    let nodes = 1 + rng.below(40);
    // Where labels want texts and where they want nodes any small number may stand: what is too large for
    // either is refused.
    let most = nodes.min(5);
    for n in 0..nodes {
        let kind = NodeKind::from_number(1 + rng.below(11) as u8).unwrap_or(NodeKind::Other);
        for _ in 0..rng.below(6) {
            let argument = 1 + rng.below(most) as u64;
            let weak = rng.one_in(6);
            w.edge(label(rng), argument, weak, 1 + rng.below(nodes) as u32);
        }
        let d = Description {
            text: rng.below(6) as u32,
            x: if kind == NodeKind::Table {
                rng.below(shapes as usize + 1) as u64
            } else {
                rng.below(60) as u64
            },
            y: rng.below(3) as u64,
            z: rng.below(3) as u64,
            bytes: if rng.one_in(3) { b"\x00\xffkey" } else { b"name" },
        };
        let own = if rng.one_in(20) { rng.next() } else { 16 << rng.below(4) };
        w.node(kind, 0x1000 + 16 * n as u64, own, rng.below(2) as u64, &d);
    }
    for _ in 0..rng.below(5) {
        let from = 1 + rng.below(nodes) as u32;
        w.late(from, label(rng), 1 + rng.below(most) as u64, rng.one_in(2), 1 + rng.below(nodes) as u32);
    }
    for _ in 0..1 + rng.below(4) {
        let kind = RootKind::from_number(rng.below(6) as u8).unwrap_or(RootKind::Globals);
        w.root(kind, b"main program", 1 + rng.below(nodes) as u32);
    }
    w.finish(rng.next()).unwrap_or_default()
}

impl Target for Heap {
    fn name(&self) -> &'static str {
        "heap"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = section(rng);
        for _ in 0..rng.seldom(3, 2, 0) {
            bytes.extend(section(rng));
        }
        if rng.one_in(3) {
            for _ in 0..1 + rng.below(8) {
                let at = rng.below(bytes.len());
                bytes[at] = rng.byte();
            }
        }
        if rng.one_in(6) {
            bytes.truncate(rng.below(bytes.len()));
        }
        bytes
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        let Ok(mut both) = Snapshot::read(input) else { return Ok(End::Refused) };
        let snapshot = Snapshot::read(input)?;
        both.add(input)?;
        let (old, new) = (Graph::new(&snapshot), Graph::new(&both));
        for g in [&old, &new] {
            for n in 0..g.snapshot.nodes.len() as u32 {
                g.path(n);
                g.short_name(n);
                g.holders(n);
                let (d, own) = (g.dominator[n as usize], g.retained[n as usize]);
                if g.retained.get(d as usize).is_some_and(|&more| more < own) {
                    return Err(format!("{n} retains more than {d}, which dominates it"));
                }
            }
            types(g);
            retainers(g, 10);
        }
        changes(&old, &new);
        if !growth(&new, &new).is_empty() && unique(&new) {
            return Err("a snapshot has grown since itself".into());
        }
        growth(&old, &new);
        growth(&new, &old);
        Ok(End::Accepted)
    }
}

/// Do addresses tell all objects apart?
fn unique(g: &Graph) -> bool {
    let mut seen = std::collections::HashSet::new();
    g.snapshot.nodes.iter().all(|n| {
        n.own < 1 << 40 && seen.insert((if n.kind == NodeKind::Island { n.x } else { n.address }, n.kind))
    })
}
