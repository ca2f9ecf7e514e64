//! The executable model: epochs, log, sticky marks, regreying and slices on abstract objects, checked against
//! naive reachability. It says in a page what the collector does; `heap.rs` runs the same operations against
//! the real one.

mod world;

use proptest::prelude::*;
use std::collections::BTreeMap;
use world::*;

struct Object {
    node: Node,
    epoch: u32,
    /// Sticky mark: old.
    current: bool,
    /// Mark of the major in progress.
    next: bool,
    finaliser_queued: bool,
    /// Scopes that it is inside of, as long as it is young.
    depth: usize,
}

/// What was so when a scope began.
struct Scope {
    epoch: u32,
    log: Vec<Id>,
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<Id, Object>,
    epoch: u32,
    log: Vec<Id>,
    major: Option<Vec<Id>>,
    regrey: Vec<Id>,
    queue: Vec<Id>,
    scopes: Vec<Scope>,
    /// The open scopes are not to be ended any more.
    spoilt: bool,
    /// Scopes that were asked for; the first `dead` of them are closed, or never were open.
    asked: usize,
    dead: usize,
    /// Depth of the scope that ends just now; 0: none.
    ending: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Current,
    Next,
}

impl Model {
    fn marked(&self, id: Id, which: Which) -> bool {
        let o = &self.objects[&id];
        if which == Which::Current { o.current || o.depth < self.ending } else { o.next }
    }

    fn mark(&mut self, id: Id, which: Which, stack: &mut Vec<Id>) {
        let o = self.objects.get_mut(&id).expect("only allocated objects are marked");
        if which == Which::Current && o.depth < self.ending {
            return;
        }
        let mark = if which == Which::Current { &mut o.current } else { &mut o.next };
        if !core::mem::replace(mark, true) {
            stack.push(id);
        }
    }

    fn trace(&mut self, id: Id, which: Which, stack: &mut Vec<Id>) {
        let node = self.objects[&id].node.clone();
        if matches!(node.kind, Kind::Plain | Kind::Finalised) {
            for child in node.children.into_iter().flatten() {
                self.mark(child, which, stack);
            }
        }
    }

    fn drain(&mut self, which: Which, stack: &mut Vec<Id>, most: u32) {
        for _ in 0..most {
            let Some(id) = stack.pop() else { return };
            self.trace(id, which, stack);
        }
    }

    /// Ephemerons, finalisers, weak references.
    fn settle(&mut self, which: Which, stack: &mut Vec<Id>) {
        self.ephemerons(which, stack);
        let dead = |m: &Model, id: &Id| !m.marked(*id, which);
        let pending: Vec<Id> = self
            .objects
            .iter()
            .filter(|(id, o)| o.node.kind == Kind::Finalised && !o.finaliser_queued && dead(self, id))
            .map(|(id, _)| *id)
            .collect();
        // Weak references are cut before resurrection, ephemeron keys after it.
        self.cut(which, Kind::Weak);
        for id in pending {
            self.objects.get_mut(&id).unwrap().finaliser_queued = true;
            self.objects.get_mut(&id).unwrap().node.kind = Kind::Plain;
            self.queue.push(id);
            self.mark(id, which, stack);
        }
        self.ephemerons(which, stack);
        self.cut(which, Kind::Ephemeron);
        // Weak references from resurrected weak objects.
        self.cut(which, Kind::Weak);
    }

    fn ephemerons(&mut self, which: Which, stack: &mut Vec<Id>) {
        loop {
            self.drain(which, stack, u32::MAX);
            let mut values = Vec::new();
            for (id, o) in &self.objects {
                if o.node.kind == Kind::Ephemeron && self.marked(*id, which) {
                    for pair in o.node.children.chunks(2) {
                        if let [Some(key), Some(value)] = pair
                            && self.marked(*key, which)
                            && !self.marked(*value, which)
                        {
                            values.push(*value);
                        }
                    }
                }
            }
            if values.is_empty() {
                return;
            }
            for value in values {
                self.mark(value, which, stack);
            }
        }
    }

    fn cut(&mut self, which: Which, kind: Kind) {
        let tables: Vec<Id> = self
            .objects
            .iter()
            .filter(|(id, o)| o.node.kind == kind && self.marked(**id, which))
            .map(|(id, _)| *id)
            .collect();
        for id in tables {
            let mut children = self.objects[&id].node.children.clone();
            let width = if kind == Kind::Weak { 1 } else { 2 };
            for entry in children.chunks_mut(width) {
                if entry[0].is_some_and(|key| !self.marked(key, which)) {
                    entry.fill(None);
                } else if width == 2 && entry[1].is_some_and(|value| !self.marked(value, which)) {
                    // Only possible without a key.
                    entry[1] = None;
                }
            }
            self.objects.get_mut(&id).unwrap().node.children = children;
        }
    }

    /// What the scope allocated and nobody outside can reach goes, the rest belongs to the scope around.
    fn end_scope(&mut self, roots: &[Option<Id>]) {
        let depth = self.scopes.len();
        self.ending = depth;
        let mut stack = Vec::new();
        for id in roots.iter().flatten().chain(&self.queue.clone()) {
            self.mark(*id, Which::Current, &mut stack);
        }
        let log = core::mem::take(&mut self.log);
        for id in &log {
            self.trace(*id, Which::Current, &mut stack);
        }
        self.settle(Which::Current, &mut stack);
        self.ending = 0;
        let scope = self.scopes.pop().unwrap();
        self.objects.retain(|_, o| o.depth < depth || o.current);
        for o in self.objects.values_mut().filter(|o| o.depth == depth) {
            o.current = false;
            o.depth -= 1;
            o.epoch = scope.epoch;
        }
        self.log = scope.log;
        self.epoch = scope.epoch;
        for id in log {
            let o = self.objects.get_mut(&id).expect("logged objects are from outside");
            o.epoch = self.epoch;
            if o.current || o.depth < depth - 1 {
                self.log.push(id);
            }
        }
    }

    fn dissolve_scopes(&mut self) {
        for scope in core::mem::take(&mut self.scopes) {
            self.log.extend(scope.log);
        }
        let objects = &mut self.objects;
        self.log.retain(|id| objects[id].current);
        objects.values_mut().for_each(|o| o.depth = 0);
        self.spoilt = false;
        self.dead = self.asked;
    }

    fn collect_minor(&mut self, roots: &[Option<Id>]) {
        self.dissolve_scopes();
        let mut stack = Vec::new();
        for id in roots.iter().flatten().chain(&self.queue.clone()) {
            self.mark(*id, Which::Current, &mut stack);
        }
        let log = core::mem::take(&mut self.log);
        for id in &log {
            self.trace(*id, Which::Current, &mut stack);
        }
        self.settle(Which::Current, &mut stack);
        self.objects.retain(|_, o| o.current);
        self.take_over(log);
    }

    /// What is young becomes old as it is.
    fn promote_all(&mut self) {
        self.dissolve_scopes();
        self.objects.values_mut().for_each(|o| o.current = true);
        let log = core::mem::take(&mut self.log);
        self.take_over(log);
    }

    /// A minor collection ends: a major in progress hears of what has changed.
    fn take_over(&mut self, log: Vec<Id>) {
        if self.major.is_some() {
            for id in log {
                let o = self.objects.get_mut(&id).expect("logged objects are old");
                if core::mem::replace(&mut o.next, false) {
                    self.regrey.push(id);
                }
            }
        }
        self.epoch += 1;
    }

    fn slice(&mut self, roots: &[Option<Id>], objects: u32) {
        let mut stack = self.major.take().unwrap_or_default();
        self.drain(Which::Next, &mut stack, objects);
        if stack.is_empty() {
            for id in core::mem::take(&mut self.regrey) {
                self.mark(id, Which::Next, &mut stack);
            }
            for id in roots.iter().flatten().chain(&self.queue.clone()) {
                self.mark(*id, Which::Next, &mut stack);
            }
            self.drain(Which::Next, &mut stack, objects);
        }
        if !stack.is_empty() {
            self.major = Some(stack);
            return;
        }
        self.settle(Which::Next, &mut stack);
        self.objects.retain(|_, o| o.next);
        for o in self.objects.values_mut() {
            o.current = true;
            o.next = false;
        }
    }
}

impl Machine for Model {
    fn alloc(&mut self, id: Id, node: &Node) {
        let o = Object {
            node: node.clone(),
            epoch: self.epoch,
            current: false,
            next: false,
            finaliser_queued: false,
            depth: self.scopes.len(),
        };
        self.objects.insert(id, o);
    }
    fn store(&mut self, id: Id, slot: usize, child: Option<Id>) {
        let o = self.objects.get_mut(&id).unwrap();
        o.node.children[slot] = child;
        if o.epoch != self.epoch {
            o.epoch = self.epoch;
            self.log.push(id);
        }
    }
    fn load(&self, id: Id, slot: usize) -> Option<Id> {
        self.objects[&id].node.children[slot]
    }
    fn minor(&mut self, roots: &[Option<Id>]) {
        self.collect_minor(roots);
    }
    fn step(&mut self, roots: &[Option<Id>], objects: u32) {
        self.collect_minor(roots);
        self.slice(roots, objects);
    }
    fn promote(&mut self, roots: &[Option<Id>], objects: u32) {
        self.promote_all();
        self.slice(roots, objects);
    }
    fn full(&mut self, roots: &[Option<Id>]) {
        self.collect_minor(roots);
        if self.major.is_some() {
            self.slice(roots, u32::MAX);
        }
        self.slice(roots, u32::MAX);
    }
    fn enter(&mut self) {
        self.asked += 1;
        if self.spoilt {
            return;
        }
        self.scopes.push(Scope { epoch: self.epoch, log: core::mem::take(&mut self.log) });
        self.epoch += 1;
    }
    fn leave(&mut self, roots: &[Option<Id>]) -> bool {
        self.asked -= 1;
        let regular = self.asked >= self.dead && !self.spoilt;
        if regular {
            self.end_scope(roots);
        }
        self.dead = self.dead.min(self.asked);
        regular
    }
    fn leave_outermost(&mut self, _: &[Option<Id>]) {
        self.asked -= 1;
        if self.dead > 0 {
            self.dead -= 1;
        } else {
            self.spoilt = true;
        }
    }
    fn is_allocated(&self, id: Id) -> bool {
        self.objects.contains_key(&id)
    }
    fn finalised(&mut self) -> Vec<Id> {
        core::mem::take(&mut self.queue)
    }
    fn check(&mut self, _roots: &[Option<Id>], _held: Option<usize>) {
        let regrey = &self.regrey;
        for (id, o) in &self.objects {
            let scoped = !self.scopes.is_empty();
            assert!(o.current || scoped || o.epoch == self.epoch, "{id} is neither old nor a newborn");
            assert!(o.current || !o.next, "{id} is marked for the major only");
            let waits = self.major.as_ref().is_some_and(|s| s.contains(id)) || regrey.contains(id);
            if o.next && !scoped && !waits && o.epoch != self.epoch && o.node.kind == Kind::Plain {
                for child in o.node.children.iter().flatten() {
                    assert!(
                        self.objects[child].next || regrey.contains(child),
                        "black {id} refers to white {child}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_only_weak_references_hold_may_come_back() {
    World::new(Model::default()).run(&a_weak_object_behind_a_weak_reference());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_model_frees_nothing_reachable_and_all_the_rest(ops in ops(150)) {
        World::new(Model::default()).run(&ops);
    }
}
