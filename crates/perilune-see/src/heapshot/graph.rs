//! A snapshot as a graph: who dominates whom, what each object retains, the shortest way to it from a root.
//!
//! Ways begin at globals and modules if there is such a way, else on stacks, else at roots of the runtime.
//! References that may be ones by chance (words of native stacks), keys of tables and the code of functions
//! lead on only where nothing else does: what a person wants to read is `_G.cache[17]`.

use super::dominators::{NONE, dominators};
use super::read::{Edge, Root, Snapshot};
use perilune_trace::heapshot::format::{Label, RootKind};
use std::cell::RefCell;
use std::collections::HashMap;

/// A snapshot with all that is computed from it.
pub struct Graph<'a> {
    /// What it is about.
    pub snapshot: &'a Snapshot,
    /// The immediate dominator of each node; [`NONE`]: roots, or it cannot be reached.
    pub dominator: Vec<u32>,
    /// Reachable nodes, each after its dominator.
    pub order: Vec<u32>,
    /// Bytes that each node retains.
    pub retained: Vec<u64>,
    /// How each node is reached: (from, edge), or (NONE, root); see [`Graph::way`].
    reached: Vec<(u32, u32)>,
    pub(super) class_names: RefCell<HashMap<u32, Option<String>>>,
}

/// A step of the way to a node.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// It is a root.
    Root(&'a Root),
    /// A reference from a node.
    Edge(u32, &'a Edge),
}

/// Queues of ways: which comes first.
const GLOBALS: usize = 0;
const STACKS: usize = 1;
const OBSCURE: usize = 2;
const RUNTIME: usize = 3;
const CHANCE: usize = 4;

/// The queue that a reference leads on in, if it is not in a later one already.
fn queue_of(label: Label) -> usize {
    match label {
        Label::NativeStack => CHANCE,
        Label::Key | Label::Code | Label::Constant | Label::Stack | Label::Resumer => OBSCURE,
        _ => GLOBALS,
    }
}

impl<'a> Graph<'a> {
    /// Computes everything.
    pub fn new(snapshot: &'a Snapshot) -> Graph<'a> {
        let n = snapshot.nodes.len();
        let top = n as u32;
        let tree = dominators(n + 1, top, |node, k| {
            if node == top {
                return snapshot.roots.get(k as usize).map(|r| r.to);
            }
            snapshot.edges_of(node).get(k as usize).map(|e| if e.weak { NONE } else { e.to })
        });
        let mut dominator = tree.parent;
        dominator.truncate(n);
        let mut retained: Vec<u64> = snapshot.nodes.iter().map(|n| n.bytes()).collect();
        for &node in tree.order.iter().skip(1).rev() {
            let d = dominator[node as usize];
            if d != top && d != NONE {
                retained[d as usize] = retained[d as usize].saturating_add(retained[node as usize]);
            }
        }
        dominator.iter_mut().filter(|d| **d == top).for_each(|d| *d = NONE);
        let order = tree.order[1..].to_vec();
        Graph {
            snapshot,
            dominator,
            order,
            retained,
            reached: ways(snapshot),
            class_names: RefCell::default(),
        }
    }

    /// The last step of the shortest way to a node; `None`: there is none.
    pub fn last_step(&self, n: u32) -> Option<Step<'a>> {
        let &(from, at) = self.reached.get(n as usize)?;
        match (from, at) {
            (NONE, NONE) => None,
            (NONE, root) => Some(Step::Root(&self.snapshot.roots[root as usize])),
            (from, edge) => Some(Step::Edge(from, &self.snapshot.edges[edge as usize])),
        }
    }

    /// The shortest way to a node, from a root.
    pub fn way(&self, n: u32) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        let mut at = n;
        while let Some(step) = self.last_step(at) {
            steps.push(step);
            match step {
                Step::Edge(from, _) => at = from,
                Step::Root(_) => break,
            }
        }
        steps.reverse();
        steps
    }

    /// All strong references to a node, and roots that it is.
    pub fn holders(&self, n: u32) -> Vec<Step<'a>> {
        let roots = self.snapshot.roots.iter().filter(|r| r.to == n).map(Step::Root);
        let mut all: Vec<Step<'a>> = roots.collect();
        for from in 0..self.snapshot.nodes.len() as u32 {
            let edges = self.snapshot.edges_of(from).iter().filter(|e| e.to == n && !e.weak);
            all.extend(edges.map(|e| Step::Edge(from, e)));
        }
        all
    }

    /// Can it be reached? Only what has been found by a strong reference is in a snapshot, so no only in
    /// damaged ones.
    pub fn is_reachable(&self, n: u32) -> bool {
        self.last_step(n).is_some()
    }
}

fn ways(s: &Snapshot) -> Vec<(u32, u32)> {
    let mut reached = vec![(NONE, NONE); s.nodes.len()];
    // Queues by how far they are put off.
    let mut queues: [Vec<(u32, (u32, u32))>; 5] = Default::default();
    let mut registries = Vec::new();
    for (at, root) in s.roots.iter().enumerate() {
        let queue = match root.kind {
            RootKind::Globals | RootKind::Registry => GLOBALS,
            RootKind::Stack => STACKS,
            RootKind::Runtime | RootKind::Finalizer => RUNTIME,
            RootKind::NativeStack => CHANCE,
        };
        if root.kind == RootKind::Registry {
            registries.push(root.to);
        }
        queues[queue].push((root.to, (NONE, at as u32)));
    }
    queues[GLOBALS].sort_by_key(|(_, (_, at))| s.roots[*at as usize].kind);
    for level in 0..queues.len() {
        let mut queue = std::collections::VecDeque::from(std::mem::take(&mut queues[level]));
        while let Some((node, how)) = queue.pop_front() {
            let place = &mut reached[node as usize];
            if place.1 != NONE {
                continue;
            }
            *place = how;
            let from = s.first[node as usize];
            for (k, e) in s.edges_of(node).iter().enumerate() {
                if e.weak || reached[e.to as usize].1 != NONE {
                    continue;
                }
                let next = (e.to, (node, from + k as u32));
                let mut own = queue_of(e.label);
                // Of the registry programs know the modules.
                if registries.contains(&node) {
                    let modules = e.label == Label::Field && s.text(e.argument as u32) == b"_LOADED"
                        || e.label == Label::StringKey
                            && s.text(s.nodes[e.argument as usize].text) == b"_LOADED";
                    own = own.max(if modules { GLOBALS } else { OBSCURE });
                }
                if own > level { queues[own].push(next) } else { queue.push_back(next) }
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::NodeKind;
    use super::super::read::tests::writer;
    use super::*;
    use perilune_trace::heapshot::write::Description;

    #[test]
    fn retained_bytes_and_ways() {
        let mut w = writer();
        let field = w.text(b"cache");
        let d = Description::default();
        w.edge(Label::Field, field as u64, false, 2);
        w.node(NodeKind::Table, 16, 10, 0, &d);
        w.edge(Label::Index, 1, false, 3);
        w.edge(Label::Index, 2, false, 4);
        w.node(NodeKind::Table, 32, 100, 0, &d);
        w.edge(Label::Metatable, 0, false, 1);
        w.node(NodeKind::Table, 48, 1000, 0, &d);
        w.node(NodeKind::Table, 64, 10_000, 0, &d);
        w.root(RootKind::NativeStack, b"", 4);
        w.root(RootKind::Globals, b"", 1);
        let s = Snapshot::read(&w.finish(0).unwrap()).unwrap();
        let g = Graph::new(&s);
        // The last one is held by two.
        assert_eq!(g.retained, [1110, 1100, 1000, 10_000]);
        assert_eq!(g.dominator, [NONE, 0, 1, NONE]);
        assert_eq!(g.path(3), "_G.cache[2]");
        assert_eq!(g.holders(3).len(), 2);
        assert_eq!(g.path(2), "_G.cache[1]");
    }
}
