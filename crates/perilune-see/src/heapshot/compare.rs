//! Two snapshots: what became more, and who holds it.
//!
//! Objects do not move, so within a process an object of the second snapshot that has the address and kind of
//! one in the first is the same (or has taken its place: all the same for this purpose). Between two runs of
//! a program objects are the same if the shortest paths to them are.
//!
//! **Growth** belongs to the nearest dominator that was there before: a cache that gains entries, not each
//! entry, nor `_G`. So the growths add up to the difference of the whole, but for what no object of both
//! holds.

use super::dominators::NONE;
use super::graph::{Graph, Step};
use super::summary::{Group, types};
use std::collections::HashMap;

/// A type in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is called.
    pub name: String,
    /// How many there were, and are.
    pub count: [u64; 2],
    /// Their own bytes.
    pub bytes: [u64; 2],
}

impl Change {
    /// Bytes that have been added.
    pub fn grown(&self) -> i128 {
        self.bytes[1] as i128 - self.bytes[0] as i128
    }
}

/// The types of both, those that have grown most first.
pub fn changes(old: &Graph, new: &Graph) -> Vec<Change> {
    let mut all: HashMap<String, Change> = HashMap::new();
    for (at, g) in [old, new].into_iter().enumerate() {
        for Group { name, count, bytes, .. } in types(g) {
            let change = all.entry(name.clone()).or_insert(Change { name, count: [0; 2], bytes: [0; 2] });
            change.count[at] = count;
            change.bytes[at] = bytes;
        }
    }
    let mut all: Vec<Change> =
        all.into_values().filter(|c| c.count[0] != c.count[1] || c.bytes[0] != c.bytes[1]).collect();
    all.sort_by(|a, b| b.grown().cmp(&a.grown()).then_with(|| a.name.cmp(&b.name)));
    all
}

/// An object that holds more than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The object, in the second snapshot; `None`: what no object of both holds.
    pub node: Option<u32>,
    /// Bytes that it holds more, without what other objects of both hold.
    pub bytes: i64,
    /// Objects that it holds and that are new.
    pub objects: u64,
    /// The type of most of these bytes, and how many there are.
    pub mostly: Option<(String, u64)>,
    /// A new object that retains at least half of them: another table, not more entries of one.
    pub through: Option<u32>,
}

/// Are these of one process?
pub fn same_process(old: &Graph, new: &Graph) -> bool {
    let process = |g: &Graph| g.snapshot.domains.first().map(|d| (d.process, d.started));
    process(old) == process(new)
}

/// For each node of `new`, the node of `old` that it is.
fn partners(old: &Graph, new: &Graph) -> Vec<Option<u32>> {
    if same_process(old, new) {
        let key = |g: &Graph, n: u32| {
            let node = &g.snapshot.nodes[n as usize];
            let at = if node.kind == super::NodeKind::Island { node.x } else { node.address };
            (at, node.kind)
        };
        let known: HashMap<_, u32> = (0..old.snapshot.nodes.len() as u32).map(|n| (key(old, n), n)).collect();
        return (0..new.snapshot.nodes.len() as u32).map(|n| known.get(&key(new, n)).copied()).collect();
    }
    let known: HashMap<u64, u32> =
        hashes(old).into_iter().enumerate().filter_map(|(n, h)| Some((h?, n as u32))).collect();
    hashes(new).into_iter().map(|h| known.get(&h?).copied()).collect()
}

/// A number for the path of each node.
fn hashes(g: &Graph) -> Vec<Option<u64>> {
    let mut all: Vec<Option<u64>> = vec![None; g.snapshot.nodes.len()];
    let mut way = Vec::new();
    for n in 0..all.len() as u32 {
        let mut at = n;
        way.clear();
        let mut h = loop {
            if let Some(h) = all[at as usize] {
                break h;
            }
            match g.last_step(at) {
                Some(step @ Step::Edge(from, _)) => {
                    way.push((at, step));
                    at = from;
                }
                Some(step) => {
                    way.push((at, step));
                    break 0;
                }
                None => break 1,
            }
        };
        while let Some((node, step)) = way.pop() {
            h = g.step_hash(h, &step);
            all[node as usize] = Some(h);
        }
    }
    all
}

/// Who holds more than before; most first.
pub fn growth(old: &Graph, new: &Graph) -> Vec<Growth> {
    let partner = partners(old, new);
    let in_both_old = {
        let mut set = vec![false; old.snapshot.nodes.len()];
        partner.iter().flatten().for_each(|&n| set[n as usize] = true);
        set
    };
    let (numbers, names) = super::summary::group_numbers(new);
    // What each keeps for itself: its own bytes, and those of what it dominates without another one of both
    // between.
    let now = shares(new, |n| partner[n as usize].is_some());
    let before = shares(old, |n| in_both_old[n as usize]);
    let mut bytes: HashMap<u32, i64> = HashMap::new();
    let mut objects: HashMap<u32, u64> = HashMap::new();
    let mut kinds: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    let add = |to: &mut i64, n: u64| *to = to.saturating_add_unsigned(n);
    for n in 0..new.snapshot.nodes.len() as u32 {
        let owner = now[n as usize];
        add(bytes.entry(owner).or_default(), new.snapshot.nodes[n as usize].bytes());
        if partner[n as usize].is_none() {
            *objects.entry(owner).or_default() += 1;
            let kind = kinds.entry((owner, numbers[n as usize])).or_default();
            kind.0 += 1;
            kind.1 = kind.1.saturating_add(new.snapshot.nodes[n as usize].bytes());
        }
    }
    let mut old_bytes: HashMap<u32, i64> = HashMap::new();
    for n in 0..old.snapshot.nodes.len() as u32 {
        add(old_bytes.entry(before[n as usize]).or_default(), old.snapshot.nodes[n as usize].bytes());
    }
    let mut through: HashMap<u32, u32> = HashMap::new();
    for &n in &new.order {
        if partner[n as usize].is_none() && new.dominator[n as usize] == now[n as usize] {
            let best = through.entry(now[n as usize]).or_insert(n);
            if new.retained[n as usize] > new.retained[*best as usize] {
                *best = n;
            }
        }
    }
    let mut mostly: HashMap<u32, (u32, u64, u64)> = HashMap::new();
    for ((owner, kind), (count, size)) in kinds {
        let best = mostly.entry(owner).or_insert((kind, count, size));
        if (size, kind) > (best.2, best.0) {
            *best = (kind, count, size);
        }
    }
    let mut all: Vec<Growth> = bytes
        .into_iter()
        .map(|(owner, now)| {
            let old_owner = if owner == NONE { NONE } else { partner[owner as usize].unwrap_or(NONE) };
            let before = old_bytes.get(&old_owner).copied().unwrap_or(0);
            let bytes = now.saturating_sub(before);
            let through = through.get(&owner).copied();
            Growth {
                node: (owner != NONE).then_some(owner),
                bytes,
                through: through.filter(|&n| bytes > 0 && new.retained[n as usize] >= bytes as u64 / 2),
                objects: objects.get(&owner).copied().unwrap_or(0),
                mostly: mostly.get(&owner).map(|&(kind, count, _)| (names[kind as usize].clone(), count)),
            }
        })
        .filter(|g| g.bytes != 0)
        .collect();
    all.sort_by_key(|g| (std::cmp::Reverse(g.bytes), g.node));
    all
}

/// For each node, itself or its nearest dominator that `is_owner`; [`NONE`]: there is none.
fn shares(g: &Graph, is_owner: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut owner = vec![NONE; g.snapshot.nodes.len()];
    for &n in &g.order {
        owner[n as usize] = match g.dominator[n as usize] {
            _ if is_owner(n) => n,
            NONE => NONE,
            d => owner[d as usize],
        };
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::writer;
    use super::super::{Label, NodeKind, RootKind, Snapshot};
    use super::*;
    use perilune_trace::heapshot::write::Description;

    /// A global `cache` with so many entries of 100 bytes each behind a table of 10; the addresses differ by
    /// `shift`.
    fn snapshot(entries: u64, started: u64, shift: u64) -> Snapshot {
        let head =
            perilune_trace::heapshot::write::Head { process: 1, started, taken: 0, domain: 1, name: b"main" };
        let mut w = perilune_trace::heapshot::Writer::new(Vec::new(), &head);
        let name = w.text(b"cache");
        let d = Description::default();
        w.edge(Label::Field, name as u64, false, 2);
        w.node(NodeKind::Table, 16 + shift, 50, 0, &d);
        for i in 0..entries {
            w.edge(Label::Index, i + 1, false, 3 + i as u32 * 2);
        }
        w.node(NodeKind::Table, 32 + shift, 16 * entries, 0, &d);
        for i in 0..entries {
            w.edge(Label::Field, name as u64, false, 4 + i as u32 * 2);
            w.node(NodeKind::Table, 1000 + i * 32 + shift, 10, 0, &d);
            w.node(
                NodeKind::String,
                1016 + i * 32 + shift,
                90,
                0,
                &Description { x: 5, bytes: b"entry", ..d },
            );
        }
        w.root(RootKind::Globals, b"", 1);
        Snapshot::read(&w.finish(0).unwrap()).unwrap()
    }

    #[test]
    fn the_table_that_grows_is_named() {
        let old = snapshot(10, 1, 0);
        // The same process, and another one.
        for (started, shift) in [(1, 0), (2, 0x1000)] {
            let new = snapshot(1000, started, shift);
            let (old, new) = (Graph::new(&old), Graph::new(&new));
            let all = growth(&old, &new);
            assert_eq!(all.len(), 1, "{all:?}");
            assert_eq!((all[0].bytes, all[0].objects), (990 * 116, 1980));
            assert_eq!(new.path(all[0].node.unwrap()), "_G.cache");
            assert_eq!((&all[0].mostly, all[0].through), (&Some(("string".into(), 990)), None));
            assert_eq!(growth(&new, &old)[0].bytes, -990 * 116);
            assert_eq!(growth(&new, &new), []);
        }
    }

    #[test]
    fn types_are_compared() {
        let (old, new) = (snapshot(10, 1, 0), snapshot(15, 1, 0));
        let all = changes(&Graph::new(&old), &Graph::new(&new));
        assert_eq!(all[0].name, "string");
        assert_eq!((all[0].count, all[0].grown()), ([10, 15], 450));
        assert!(writer().nodes() == 0);
    }
}
