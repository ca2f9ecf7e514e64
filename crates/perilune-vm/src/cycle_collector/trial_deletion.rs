//! The graph of counted things, and trial deletion on it; the module's essay has the argument.
//!
//! A [`CountedGraph`] owns one count of everything that is in it, so nothing disappears while it is looked
//! at; these counts are never taken for external ones. Nodes are numbered as they are met, which makes the
//! list of nodes the queue of those whose edges are still to be listed.

use super::{Freeze, Frozen, Holder, Share};
use crate::shared::SharedArc;
use perilune_heap::IslandRef;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A counted thing, by a count of the table's own.
pub(super) enum Counted {
    Shared(SharedArc),
    Island(IslandRef),
    Other(Arc<dyn Holder>),
}

impl Counted {
    /// Its identity: an address, or the number of an island. Addresses are even.
    fn key(&self) -> usize {
        match self {
            Counted::Shared(o) => o.address(),
            Counted::Other(o) => Arc::as_ptr(o).cast::<()>() as usize,
            Counted::Island(i) => island_key(i.number()),
        }
    }

    /// How many counts it has but for this one. What happened before a count was given up that this does not
    /// see any more, has happened for the caller.
    fn count(&self) -> usize {
        let count = match self {
            Counted::Shared(o) => o.count(),
            Counted::Other(o) => Arc::strong_count(o),
            Counted::Island(i) => i.count(),
        };
        fence(Ordering::Acquire);
        count - 1
    }

    fn freeze(&self) -> Freeze<'_> {
        match self {
            Counted::Shared(o) => o.holder().map_or(Freeze::Constant, Holder::freeze),
            Counted::Other(o) => o.freeze(),
            Counted::Island(_) => Freeze::Constant,
        }
    }
}

fn island_key(number: u32) -> usize {
    (number as usize) << 1 | 1
}

type Index = HashMap<usize, u32, foldhash::fast::FixedState>;

/// Is told what a holder holds.
pub struct Held<'a>(&'a mut dyn FnMut(Found<'_>));

/// A count that a holder owns.
enum Found<'a> {
    Shared(&'a SharedArc),
    Island(&'a IslandRef),
    Other(&'a dyn Share),
}

impl Held<'_> {
    /// A count of a shared object.
    pub fn shared(&mut self, object: &SharedArc) {
        (self.0)(Found::Shared(object));
    }

    /// A count of an island.
    pub fn island(&mut self, island: &IslandRef) {
        (self.0)(Found::Island(island));
    }

    /// A count of a holder that is no shared object.
    pub fn counted<T: Holder + 'static>(&mut self, holder: &Arc<T>) {
        (self.0)(Found::Other(holder));
    }
}

impl Found<'_> {
    fn key(&self) -> usize {
        match self {
            Found::Shared(o) => o.address(),
            Found::Island(i) => island_key(i.number()),
            Found::Other(o) => o.address(),
        }
    }

    fn counted(&self) -> Counted {
        match self {
            Found::Shared(o) => Counted::Shared(SharedArc::clone(o)),
            Found::Island(i) => Counted::Island(IslandRef::clone(i)),
            Found::Other(o) => Counted::Other(o.share()),
        }
    }
}

/// Edges of nodes that are listed one after the other.
#[derive(Default)]
pub(super) struct Edges {
    /// Where those of each node end.
    ends: Vec<usize>,
    pub to: Vec<u32>,
}

impl Edges {
    pub fn of(&self, node: usize) -> &[u32] {
        let start = if node == 0 { 0 } else { self.ends[node - 1] };
        &self.to[start..self.ends[node]]
    }

    /// The edges told since belong to the next node.
    pub fn end_node(&mut self) {
        self.ends.push(self.to.len());
    }
}

/// All that was found from the registered holders.
#[derive(Default)]
pub(super) struct CountedGraph {
    nodes: Vec<Counted>,
    index: Index,
    edges: Edges,
    /// Nodes that somebody else had access to.
    busy: Vec<u32>,
}

impl CountedGraph {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Enters a counted thing, unless it is there: its number.
    pub fn add(&mut self, counted: Counted) -> u32 {
        let next = self.nodes.len() as u32;
        let at = *self.index.entry(counted.key()).or_insert(next);
        if at == next {
            self.nodes.push(counted);
        }
        at
    }

    /// Enters all that is reachable, with the edges.
    pub fn list(&mut self) {
        let mut found: Vec<Counted> = Vec::new();
        let mut at = 0;
        while at < self.nodes.len() {
            let (index, edges) = (&mut self.index, &mut self.edges);
            let first_new = self.nodes.len() as u32;
            let mut note = |key: usize, counted: &dyn Fn() -> Counted| {
                let next = first_new + found.len() as u32;
                let to = *index.entry(key).or_insert(next);
                if to == next {
                    found.push(counted());
                }
                edges.to.push(to);
            };
            let node = &self.nodes[at];
            let mut take = |f: Found<'_>| note(f.key(), &|| f.counted());
            let mut held = Held(&mut take);
            match (node, node.freeze()) {
                (_, Freeze::Frozen(frozen)) => frozen.held(&mut held),
                (_, Freeze::Busy) => self.busy.push(at as u32),
                (Counted::Shared(o), Freeze::Constant) => {
                    if let Some(holder) = o.holder() {
                        holder.held(&mut held);
                    }
                }
                (Counted::Other(o), Freeze::Constant) => o.held(&mut held),
                (Counted::Island(island), Freeze::Constant) => {
                    for object in crate::island::shared_objects(island) {
                        held.shared(object);
                    }
                    for (n, &number) in island.refs().iter().enumerate() {
                        note(island_key(number), &|| Counted::Island(island.referred(n)));
                    }
                }
            }
            self.nodes.append(&mut found);
            self.edges.end_node();
            at += 1;
            stall();
        }
    }

    /// The nodes that seem to have no external counts and to be reachable from none that has: a guess.
    pub fn candidates(&self) -> Vec<u32> {
        let mut internal = vec![0usize; self.nodes.len()];
        for &to in &self.edges.to {
            internal[to as usize] += 1;
        }
        let mut live: Vec<bool> =
            self.nodes.iter().zip(&internal).map(|(node, &known)| node.count() > known).collect();
        for &n in &self.busy {
            live[n as usize] = true;
        }
        spread(&mut live, &self.edges);
        (0..self.nodes.len() as u32).filter(|&n| !live[n as usize]).collect()
    }

    /// Empties those of the candidates that nobody can reach. What they held is to be dropped by the caller,
    /// before the table.
    pub fn prove(&self, candidates: &[u32]) -> Vec<Box<dyn Any>> {
        const NONE: u32 = u32::MAX;
        // From here on nodes are numbered by their position among the candidates.
        let mut position = vec![NONE; self.nodes.len()];
        for (at, &n) in candidates.iter().enumerate() {
            position[n as usize] = at as u32;
        }
        let mut live = vec![false; candidates.len()];
        let mut frozen: Vec<Option<Box<dyn Frozen + '_>>> = Vec::with_capacity(candidates.len());
        for (at, &n) in candidates.iter().enumerate() {
            frozen.push(match self.nodes[n as usize].freeze() {
                Freeze::Frozen(frozen) => Some(frozen),
                Freeze::Constant => None,
                Freeze::Busy => {
                    live[at] = true;
                    None
                }
            });
        }
        let mut edges = Edges::default();
        for (at, &n) in candidates.iter().enumerate() {
            if let Some(frozen) = &frozen[at] {
                let to = &mut edges.to;
                let mut take = |f: Found<'_>| {
                    if let Some(&known) = self.index.get(&f.key()) {
                        to.push(position[known as usize]);
                    }
                };
                frozen.held(&mut Held(&mut take));
            } else if !live[at] {
                edges.to.extend(self.edges.of(n as usize).iter().map(|&to| position[to as usize]));
            }
            let start = edges.ends.last().copied().unwrap_or(0);
            let mut kept = start;
            for from in start..edges.to.len() {
                if edges.to[from] != NONE {
                    edges.to[kept] = edges.to[from];
                    kept += 1;
                }
            }
            edges.to.truncate(kept);
            edges.end_node();
        }
        let mut internal = vec![0usize; candidates.len()];
        for &to in &edges.to {
            internal[to as usize] += 1;
        }
        let changes: Vec<bool> = (0..candidates.len()).map(|at| frozen[at].is_some() || live[at]).collect();
        let order = downwards(&changes, &edges);
        // Constant holders form no cycles; one that does is not understood.
        let mut read = vec![false; candidates.len()];
        for &at in &order {
            let at = at as usize;
            read[at] = true;
            stall();
            if self.nodes[candidates[at] as usize].count() != internal[at] {
                live[at] = true;
            }
        }
        for at in 0..candidates.len() {
            live[at] |= !read[at];
        }
        spread(&mut live, &edges);
        let mut contents = Vec::new();
        for (frozen, live) in frozen.iter_mut().zip(&live) {
            if !live && let Some(frozen) = frozen {
                contents.push(frozen.empty());
            }
        }
        contents
    }
}

/// Lets others come in between, in tests.
#[inline(always)]
fn stall() {
    #[cfg(test)]
    super::tests::stall();
}

/// Whatever is reachable from something alive is alive.
fn spread(live: &mut [bool], edges: &Edges) {
    let mut todo: Vec<u32> = (0..live.len() as u32).filter(|&n| live[n as usize]).collect();
    while let Some(n) = todo.pop() {
        for &to in edges.of(n as usize) {
            if !std::mem::replace(&mut live[to as usize], true) {
                todo.push(to);
            }
        }
    }
}

/// The constant nodes, each before those that it holds, then those that change.
pub(super) fn downwards(changes: &[bool], edges: &Edges) -> Vec<u32> {
    let mut above = vec![0u32; changes.len()];
    let constant = || (0..changes.len()).filter(|&n| !changes[n]);
    for n in constant() {
        for &to in edges.of(n) {
            above[to as usize] += 1;
        }
    }
    let mut order: Vec<u32> = constant().filter(|&n| above[n] == 0).map(|n| n as u32).collect();
    let mut at = 0;
    while at < order.len() {
        for &to in edges.of(order[at] as usize) {
            above[to as usize] -= 1;
            if above[to as usize] == 0 && !changes[to as usize] {
                order.push(to);
            }
        }
        at += 1;
    }
    order.extend((0..changes.len()).filter(|&n| changes[n]).map(|n| n as u32));
    order
}
