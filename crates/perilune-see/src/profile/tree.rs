//! A profile as a tree of calls, and as tables.
//!
//! Frames of one function are one node, whatever lines they stand at ([`Grain::Functions`]), or one for each
//! line ([`Grain::Lines`]). In tables a function's *self* value is what its own instructions stand for, its
//! *total* also what it called; recursion counts once.

use super::Profile;
use perilune_trace::layout::StackNode;
use std::collections::{HashMap, HashSet};

/// What makes two frames the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// The function.
    Functions,
    /// Function and line.
    Lines,
}

/// What is the same frame: name, source, line of definition, and line or 0.
pub type Frame = (u32, u32, u32, u32);

fn frame(node: &StackNode, grain: Grain) -> Frame {
    let line = if grain == Grain::Lines { node.line } else { 0 };
    (node.function, node.source, node.defined, line)
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it stands for.
    pub frame: Frame,
    /// One of the frames.
    pub example: StackNode,
    /// First measure, with what it calls.
    pub total: u64,
    /// First measure, without.
    pub own: u64,
    /// Nodes that it calls, the greatest first.
    pub children: Vec<usize>,
}

/// Calls as a tree; node 0 is the root, above all paths.
#[derive(Clone, Debug)]
pub struct Tree {
    /// All nodes.
    pub nodes: Vec<Node>,
}

impl Tree {
    /// The tree of a profile's first measure.
    pub fn new(profile: &Profile, grain: Grain) -> Tree {
        let root = StackNode { parent: 0, function: 0, source: 0, line: 0, defined: 0, kind: 1 };
        let root = Node { frame: (0, 0, 0, 0), example: root, total: 0, own: 0, children: Vec::new() };
        let mut nodes = vec![root];
        let mut known: HashMap<(usize, Frame), usize> = HashMap::new();
        for sample in &profile.samples {
            let value = sample.values[0];
            nodes[0].total += value;
            let mut at = 0;
            for step in profile.path(sample.stack) {
                let frame = frame(&step, grain);
                let next = *known.entry((at, frame)).or_insert_with(|| {
                    nodes.push(Node { frame, example: step, total: 0, own: 0, children: Vec::new() });
                    nodes.len() - 1
                });
                if next == nodes.len() - 1 && nodes[next].total == 0 && !nodes[at].children.contains(&next) {
                    nodes[at].children.push(next);
                }
                nodes[next].total += value;
                at = next;
            }
            nodes[at].own += value;
        }
        let totals: Vec<u64> = nodes.iter().map(|n| n.total).collect();
        for node in &mut nodes {
            node.children.sort_by_key(|&child| (std::cmp::Reverse(totals[child]), child));
        }
        Tree { nodes }
    }

    /// How many frames the deepest path has.
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut stack = vec![(0, 0)];
        while let Some((node, depth)) = stack.pop() {
            deepest = deepest.max(depth);
            stack.extend(self.nodes[node].children.iter().map(|&child| (child, depth + 1)));
        }
        deepest
    }
}

/// A line of a table: a function, or a line of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One of the frames.
    pub example: StackNode,
    /// Values of its own instructions, for each measure.
    pub own: Vec<u64>,
    /// With what it called.
    pub total: Vec<u64>,
}

/// Functions or lines by what their own instructions stand for, the greatest first.
pub fn table(profile: &Profile, grain: Grain) -> Vec<Entry> {
    let width = profile.measures.len();
    let mut entries: HashMap<Frame, Entry> = HashMap::new();
    for sample in &profile.samples {
        let path = profile.path(sample.stack);
        let mut seen = HashSet::new();
        for (n, step) in path.iter().enumerate() {
            let frame = frame(step, grain);
            let entry = entries.entry(frame).or_insert_with(|| Entry {
                example: *step,
                own: vec![0; width],
                total: vec![0; width],
            });
            for (at, value) in sample.values.iter().enumerate() {
                if n == path.len() - 1 {
                    entry.own[at] += value;
                }
                if !seen.contains(&frame) {
                    entry.total[at] += value;
                }
            }
            seen.insert(frame);
        }
    }
    let mut entries: Vec<(Frame, Entry)> = entries.into_iter().collect();
    entries.sort_by_key(|(frame, e)| (std::cmp::Reverse((e.own[0], e.total[0])), *frame));
    entries.into_iter().map(|(_, e)| e).collect()
}

/// Call paths by what they stand for, the greatest first, domains added up.
pub fn paths(profile: &Profile) -> Vec<(u32, Vec<u64>)> {
    let mut sums: HashMap<u32, Vec<u64>> = HashMap::new();
    for sample in &profile.samples {
        let sum = sums.entry(sample.stack).or_insert_with(|| vec![0; profile.measures.len()]);
        for (to, value) in sum.iter_mut().zip(&sample.values) {
            *to += value;
        }
    }
    let mut paths: Vec<_> = sums.into_iter().collect();
    paths.sort_by_key(|(stack, values)| (std::cmp::Reverse(values[0]), *stack));
    paths
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_tree_of_functions() {
        let p = example();
        let tree = Tree::new(&p, Grain::Functions);
        assert_eq!((tree.nodes[0].total, tree.depth()), (100, 4));
        let main = &tree.nodes[tree.nodes[0].children[0]];
        assert_eq!((main.total, main.own, main.children.len()), (100, 5, 2));
        let work = &tree.nodes[main.children[0]];
        assert_eq!((p.function(&work.example), work.total, work.own), ("work".into(), 75, 35));
    }

    #[test]
    fn recursion_counts_once() {
        let p = example();
        let by_function = table(&p, Grain::Functions);
        let name = |e: &Entry| p.function(&e.example);
        assert_eq!(name(&by_function[0]), "string.rep");
        let work = by_function.iter().find(|e| name(e) == "work").unwrap();
        assert_eq!((work.own[0], work.total[0]), (35, 75));
        let lines = table(&p, Grain::Lines);
        assert_eq!(lines.iter().filter(|e| name(e) == "work").count(), 2);
        assert_eq!(by_function.iter().map(|e| e.own[0]).sum::<u64>(), 100);
    }
}
