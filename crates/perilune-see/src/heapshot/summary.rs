//! Tables: what there is by type, and who retains most.

use super::graph::Graph;
use perilune_trace::heapshot::format::NodeKind;
use std::collections::HashMap;

/// Objects of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// What they are called.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// What they retain together: nothing is counted twice.
    pub retained: u64,
}

/// Groups of the nodes, by number: types are named once.
pub(super) fn group_numbers(g: &Graph) -> (Vec<u32>, Vec<String>) {
    let s = g.snapshot;
    let mut names: Vec<String> = Vec::new();
    let mut by_name: HashMap<String, u32> = HashMap::new();
    // What names of tables without a class depend on, and names of others.
    let mut by_look: HashMap<(NodeKind, u64, bool, bool, u32, u32), u32> = HashMap::new();
    let mut numbers = Vec::with_capacity(s.nodes.len());
    for n in 0..s.nodes.len() as u32 {
        let node = &s.nodes[n as usize];
        let look = match node.kind {
            NodeKind::Table => {
                let metatable = s
                    .edges_of(n)
                    .iter()
                    .find(|e| e.label == super::Label::Metatable)
                    .map_or(u32::MAX, |e| e.to);
                (node.kind, node.x, node.y > 0, node.z > 0, metatable, 0)
            }
            NodeKind::Thread => (node.kind, 0, node.y != 0, false, 0, 0),
            NodeKind::String | NodeKind::Upvalue | NodeKind::Island | NodeKind::Other | NodeKind::Code => {
                (node.kind, 0, false, false, 0, 0)
            }
            _ => (node.kind, 0, false, false, 0, node.text),
        };
        let number = *by_look.entry(look).or_insert_with(|| {
            let name = g.type_name(n);
            *by_name.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() as u32 - 1
            })
        });
        numbers.push(number);
    }
    (numbers, names)
}

/// All types, those with most bytes first.
pub fn types(g: &Graph) -> Vec<Group> {
    let (numbers, names) = group_numbers(g);
    let mut groups: Vec<Group> = names.into_iter().map(|name| Group { name, ..Group::default() }).collect();
    for (n, node) in g.snapshot.nodes.iter().enumerate() {
        let group = &mut groups[numbers[n] as usize];
        group.count += 1;
        group.bytes = group.bytes.saturating_add(node.bytes());
    }
    // A node counts if no dominator of it is of the same group. Dominators come first, so depth and what is
    // open can be kept on a stack.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let mut inside = vec![0u32; groups.len()];
    let children = Children::new(g);
    let mut todo: Vec<(u32, usize)> = children.roots.iter().rev().map(|&n| (n, 0)).collect();
    while let Some((n, depth)) = todo.pop() {
        while open.len() > depth {
            let Some((_, group)) = open.pop() else { break };
            inside[group as usize] -= 1;
        }
        let group = numbers[n as usize];
        if inside[group as usize] == 0 {
            let of = &mut groups[group as usize];
            of.retained = of.retained.saturating_add(g.retained[n as usize]);
        }
        inside[group as usize] += 1;
        open.push((n, group));
        todo.extend(children.of(n).iter().map(|&c| (c, depth + 1)));
    }
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// The tree of dominators, downwards.
pub struct Children {
    first: Vec<u32>,
    list: Vec<u32>,
    /// Nodes that nothing dominates.
    pub roots: Vec<u32>,
}

impl Children {
    /// Turns the tree round.
    pub fn new(g: &Graph) -> Children {
        let n = g.dominator.len();
        let mut first = vec![0u32; n + 1];
        let mut roots = Vec::new();
        for &node in &g.order {
            match g.dominator[node as usize] {
                super::dominators::NONE => roots.push(node),
                d => first[d as usize + 1] += 1,
            }
        }
        for i in 0..n {
            first[i + 1] += first[i];
        }
        let mut at = first.clone();
        let mut list = vec![0; first[n] as usize];
        for &node in &g.order {
            if let Some(at) = at.get_mut(g.dominator[node as usize] as usize)
                && g.dominator[node as usize] != super::dominators::NONE
            {
                list[*at as usize] = node;
                *at += 1;
            }
        }
        Children { first, list, roots }
    }

    /// What a node dominates immediately.
    pub fn of(&self, n: u32) -> &[u32] {
        &self.list[self.first[n as usize] as usize..self.first[n as usize + 1] as usize]
    }
}

/// The nodes that retain most, without those whose bytes nearly all belong to one other node: of a chain the
/// end is shown.
pub fn retainers(g: &Graph, most: usize) -> Vec<u32> {
    let children = Children::new(g);
    let mut all: Vec<u32> = g
        .order
        .iter()
        .copied()
        .filter(|&n| {
            let own = g.retained[n as usize];
            let largest = children.of(n).iter().map(|&c| g.retained[c as usize]).max().unwrap_or(0);
            largest < own - own / 10
        })
        .collect();
    all.sort_by_key(|&n| (std::cmp::Reverse(g.retained[n as usize]), n));
    all.truncate(most);
    all
}
