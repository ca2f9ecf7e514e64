//! A little world of objects, kept twice: as a plain graph, where reachability is computed naively, and in a
//! machine under test (the executable model, or the heap). After every collection the two are compared.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Objects are named by numbers that are never reused.
pub type Id = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Children are strong.
    Plain,
    /// Children are weak.
    Weak,
    /// Children alternate: key, value; a value lives if its key does.
    Ephemeron,
    /// As plain, and may be resurrected: a finaliser holds it once more.
    Finalised,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub bytes: usize,
    pub children: Vec<Option<Id>>,
}

/// A collector under test.
pub trait Machine {
    fn alloc(&mut self, id: Id, node: &Node);
    fn store(&mut self, id: Id, slot: usize, child: Option<Id>);
    fn load(&self, id: Id, slot: usize) -> Option<Id>;
    fn minor(&mut self, roots: &[Option<Id>]);
    /// A step that traces about so many objects for a major.
    fn step(&mut self, roots: &[Option<Id>], objects: u32);
    /// As a step, but what is young becomes old as it is.
    fn promote(&mut self, roots: &[Option<Id>], objects: u32);
    fn full(&mut self, roots: &[Option<Id>]);
    /// A scope begins.
    fn enter(&mut self);
    /// The innermost scope ends; false if a collection has closed it before.
    fn leave(&mut self, roots: &[Option<Id>]) -> bool;
    /// The outermost scope of several ends first.
    fn leave_outermost(&mut self, roots: &[Option<Id>]);
    fn is_allocated(&self, id: Id) -> bool;
    /// Objects whose finalisers were queued since the last call.
    fn finalised(&mut self) -> Vec<Id>;
    /// Checks of its own; `held` is what the world says is allocated, with sizes, if the collection was full.
    fn check(&mut self, roots: &[Option<Id>], held: Option<usize>);
}

#[derive(Clone, Debug)]
pub enum Op {
    Alloc { kind: u8, slots: usize, bytes: usize, root: usize },
    Store { from: usize, hops: u8, slot: usize, to: usize },
    Load { from: usize, slot: usize, root: usize },
    Drop { root: usize },
    Burst { count: usize, bytes: usize, root: usize },
    Minor,
    Step { objects: u32 },
    Promote { objects: u32 },
    Full,
    Enter,
    Leave,
    LeaveOutermost,
}

pub const ROOTS: usize = 12;

pub fn ops(count: usize) -> impl Strategy<Value = Vec<Op>> {
    let root = 0..ROOTS;
    let bytes = prop_oneof![6 => 16usize..200, 2 => 200usize..4000, 1 => 4000usize..30_000];
    let op = prop_oneof![
        12 => (0u8..8, 0usize..7, bytes.clone(), root.clone())
            .prop_map(|(kind, slots, bytes, root)| Op::Alloc { kind, slots, bytes, root }),
        12 => (root.clone(), 0u8..4, 0usize..7, root.clone())
            .prop_map(|(from, hops, slot, to)| Op::Store { from, hops, slot, to }),
        6 => (root.clone(), 0usize..7, root.clone())
            .prop_map(|(from, slot, root)| Op::Load { from, slot, root }),
        2 => root.clone().prop_map(|root| Op::Drop { root }),
        1 => (1usize..300, 16usize..300, root)
            .prop_map(|(count, bytes, root)| Op::Burst { count, bytes, root }),
        2 => Just(Op::Minor),
        4 => (1u32..12).prop_map(|objects| Op::Step { objects }),
        2 => (1u32..12).prop_map(|objects| Op::Promote { objects }),
        1 => Just(Op::Full),
        4 => Just(Op::Enter),
        5 => Just(Op::Leave),
        1 => (0..8).prop_map(|n| if n == 0 { Op::LeaveOutermost } else { Op::Leave }),
    ];
    prop::collection::vec(op, 1..count)
}

/// An old weak object, itself referred to by a weak reference only, loses what it refers to; then it is
/// reached again.
pub fn a_weak_object_behind_a_weak_reference() -> Vec<Op> {
    let weak = |slots, root| Op::Alloc { kind: 0, slots, bytes: 16, root };
    vec![
        weak(1, 11),
        Op::Minor,
        weak(0, 0),
        weak(1, 11),
        Op::Store { from: 11, hops: 1, slot: 0, to: 0 },
        Op::Drop { root: 0 },
        Op::Minor,
        Op::Store { from: 11, hops: 2, slot: 0, to: 0 },
        Op::Load { from: 11, slot: 0, root: 1 },
        Op::Load { from: 1, slot: 0, root: 2 },
    ]
}

pub struct World<M> {
    pub machine: M,
    nodes: BTreeMap<Id, Node>,
    roots: Vec<Option<Id>>,
    next: Id,
    /// The first object of each open scope.
    scopes: Vec<Id>,
    /// Objects whose finalisers were queued by the last collection or end of a scope.
    resurrected: BTreeSet<Id>,
}

impl<M: Machine> World<M> {
    pub fn new(machine: M) -> Self {
        World {
            machine,
            nodes: BTreeMap::new(),
            roots: vec![None; ROOTS],
            next: 1,
            scopes: Vec::new(),
            resurrected: BTreeSet::new(),
        }
    }

    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
        self.apply(&Op::Full);
    }

    fn alloc(&mut self, kind: Kind, slots: usize, bytes: usize) -> Id {
        let id = self.next;
        self.next += 1;
        let slots = if kind == Kind::Ephemeron { slots & !1 } else { slots };
        let node = Node { kind, bytes, children: vec![None; slots] };
        self.machine.alloc(id, &node);
        self.nodes.insert(id, node);
        id
    }

    fn store(&mut self, id: Id, slot: usize, child: Option<Id>) {
        let children = &mut self.nodes.get_mut(&id).unwrap().children;
        if !children.is_empty() {
            let slot = slot % children.len();
            children[slot] = child;
            self.machine.store(id, slot, child);
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Alloc { kind, slots, bytes, root } => {
                let kind = match kind {
                    0 => Kind::Weak,
                    1 => Kind::Ephemeron,
                    2 => Kind::Finalised,
                    _ => Kind::Plain,
                };
                let id = self.alloc(kind, slots, bytes);
                // The newborn inherits what the root held, so that graphs grow deep.
                if let Some(old) = self.roots[root] {
                    self.store(id, 0, Some(old));
                }
                self.roots[root] = Some(id);
            }
            Op::Store { from, hops, slot, to } => {
                let Some(mut id) = self.roots[from] else { return };
                for hop in 0..hops {
                    let children = &self.nodes[&id].children;
                    match children.get(hop as usize % children.len().max(1)).copied().flatten() {
                        Some(next) => id = next,
                        None => break,
                    }
                }
                self.store(id, slot, self.roots[to]);
            }
            Op::Load { from, slot, root } => {
                let Some(id) = self.roots[from] else { return };
                let children = &self.nodes[&id].children;
                if !children.is_empty() {
                    let slot = slot % children.len();
                    assert_eq!(self.machine.load(id, slot), children[slot]);
                    self.roots[root] = children[slot];
                }
            }
            Op::Enter => {
                self.scopes.push(self.next);
                self.machine.enter();
            }
            Op::Leave => {
                let Some(first) = self.scopes.pop() else { return };
                let regular = self.machine.leave(&self.roots);
                self.compare(false);
                if regular {
                    self.nothing_useless_since(first);
                }
            }
            Op::LeaveOutermost => {
                if self.scopes.len() > 1 {
                    self.scopes.remove(0);
                    self.machine.leave_outermost(&self.roots);
                }
            }
            Op::Drop { root } => self.roots[root] = None,
            Op::Burst { count, bytes, root } => {
                for i in 0..count {
                    let id = self.alloc(Kind::Plain, 2, bytes);
                    if i % 7 == 0 {
                        let old = self.roots[root];
                        self.store(id, 1, old);
                        self.roots[root] = Some(id);
                    }
                }
            }
            Op::Minor => {
                self.machine.minor(&self.roots);
                self.compare(false);
            }
            Op::Step { objects } => {
                self.machine.step(&self.roots, objects);
                self.compare(false);
            }
            Op::Promote { objects } => {
                self.machine.promote(&self.roots, objects);
                self.compare(false);
            }
            Op::Full => {
                self.machine.full(&self.roots);
                self.compare(true);
            }
        }
    }

    /// Everything strongly reachable, ephemerons included, from the roots and `extra`.
    fn reachable(&self, extra: &BTreeSet<Id>) -> BTreeSet<Id> {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<Id> = self.roots.iter().flatten().chain(extra).copied().collect();
        loop {
            while let Some(id) = stack.pop() {
                let node = &self.nodes[&id];
                if seen.insert(id) && matches!(node.kind, Kind::Plain | Kind::Finalised) {
                    stack.extend(node.children.iter().flatten());
                }
            }
            for id in &seen {
                let node = &self.nodes[id];
                if node.kind == Kind::Ephemeron {
                    for pair in node.children.chunks(2) {
                        if let [Some(key), Some(value)] = pair
                            && seen.contains(key)
                            && !seen.contains(value)
                        {
                            stack.push(*value);
                        }
                    }
                }
            }
            if stack.is_empty() {
                return seen;
            }
        }
    }

    /// Whatever is left of the objects from `first` on is referred to by a root, or by an older object, which
    /// may be dead itself.
    fn nothing_useless_since(&mut self, first: Id) {
        let older: BTreeSet<Id> = self.nodes.keys().copied().filter(|id| *id < first).collect();
        let held = self.reachable(&older.union(&self.resurrected).copied().collect());
        for id in self.nodes.keys().filter(|id| **id >= first) {
            assert!(held.contains(id), "{id} was not freed with its scope, which began with {first}");
        }
    }

    fn compare(&mut self, full: bool) {
        let live = self.reachable(&BTreeSet::new());
        let resurrected: BTreeSet<Id> = self.machine.finalised().into_iter().collect();
        self.resurrected.clear();
        for id in &resurrected {
            assert!(!live.contains(id), "{id} is reachable, yet its finaliser was queued");
            // A finaliser runs once.
            self.resurrected.insert(*id);
            self.nodes.get_mut(id).unwrap().kind = Kind::Plain;
        }
        let held = self.reachable(&resurrected);
        for id in &held {
            assert!(self.machine.is_allocated(*id), "{id} is reachable, yet it was freed");
        }
        let machine = &self.machine;
        self.nodes.retain(|id, _| machine.is_allocated(*id));
        // The unreachable that is still there counts as well: a weak reference to it can bring it back.
        let nodes = &mut self.nodes;
        for id in nodes.keys().copied().collect::<Vec<Id>>() {
            let kind = nodes[&id].kind;
            let is_held = held.contains(&id);
            for slot in 0..nodes[&id].children.len() {
                let want = nodes[&id].children[slot];
                let have = self.machine.load(id, slot);
                if have == want {
                    if let Some(child) = want {
                        assert!(
                            self.machine.is_allocated(child),
                            "the reference {id} -> {child} to a freed object remains"
                        );
                        assert!(
                            !full || kind != Kind::Weak || !is_held || held.contains(&child),
                            "a weak reference survives a full collection"
                        );
                    }
                    continue;
                }
                assert!(have.is_none(), "slot {slot} of {id} changed from {want:?} to {have:?}");
                let child = want.unwrap();
                match kind {
                    Kind::Weak => {
                        assert!(!live.contains(&child), "the weak reference {id} -> {child} was cut")
                    }
                    Kind::Ephemeron => {
                        let key = if slot % 2 == 0 { Some(child) } else { nodes[&id].children[slot & !1] };
                        assert!(key.is_none_or(|k| !live.contains(&k)), "an ephemeron lost its pair");
                    }
                    _ => panic!("the strong reference {id} -> {child} was cut"),
                }
                if kind == Kind::Weak {
                    nodes.get_mut(&id).unwrap().children[slot] = None;
                }
            }
            if kind == Kind::Ephemeron {
                for slot in 0..nodes[&id].children.len() {
                    nodes.get_mut(&id).unwrap().children[slot] = self.machine.load(id, slot);
                }
            }
        }
        if full {
            let left: BTreeSet<Id> = self.nodes.keys().copied().collect();
            assert_eq!(left, held, "a full collection leaves exactly what is reachable");
        }
        let bytes = full.then(|| self.nodes.values().map(|n| n.bytes).sum());
        self.machine.check(&self.roots, bytes);
    }
}
