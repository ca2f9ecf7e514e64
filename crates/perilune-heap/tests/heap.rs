//! The heap under the same random operations as the model (`model.rs`), verified after every collection.

mod world;

use perilune_heap::{Client, Cycle, Heap, HeapOptions, Marker, Obj};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

/// An object of the toy client: header, id, number of slots, slots; then padding up to its size, which must
/// keep its fill.
const SLOTS_AT: usize = 2;

/// # Safety
/// `obj` is an object of the toy client.
unsafe fn word(obj: Obj, index: usize) -> *mut u64 {
    // SAFETY: within the object, says the caller.
    unsafe { (obj.as_ptr() as *mut u64).add(index) }
}

#[derive(Default)]
struct Toy {
    roots: Vec<Obj>,
    /// Words that may point into objects.
    conservative: Vec<usize>,
    /// Weak and ephemeron objects met in a minor and in a major.
    weak: [Vec<Obj>; 2],
    /// All objects with a finaliser.
    pending: Vec<Obj>,
    queue: Vec<Obj>,
}

fn kind_of(obj: Obj) -> Kind {
    // SAFETY: an object of the toy client.
    match unsafe { (*obj.as_ptr()).kind } {
        0 => Kind::Plain,
        1 => Kind::Weak,
        2 => Kind::Ephemeron,
        3 => Kind::Finalised,
        k => panic!("an object of kind {k}"),
    }
}

fn slot_count(obj: Obj) -> usize {
    // SAFETY: an object of the toy client, initialised.
    unsafe { *word(obj, SLOTS_AT) as usize }
}

/// Word index of a slot. Large objects spread theirs over all their bytes; small ones have them in front.
fn slot_index(obj: Obj, slot: usize, bytes: usize) -> usize {
    // SAFETY: an object of the toy client.
    let large = unsafe { (*obj.as_ptr()).granules } == 0;
    let stride = if large { (bytes / 8 - SLOTS_AT - 1) / slot_count(obj) } else { 1 };
    SLOTS_AT + 1 + slot * stride
}

/// Bytes of a large object stand in the word after the header's, above the id.
fn bytes_of(obj: Obj) -> usize {
    // SAFETY: an object of the toy client.
    unsafe { (*word(obj, 1) >> 32) as usize }
}

fn id_of(obj: Obj) -> Id {
    // SAFETY: an object of the toy client.
    unsafe { *word(obj, 1) as Id }
}

fn slot(obj: Obj, i: usize) -> &'static mut u64 {
    // SAFETY: within an object of the toy client.
    unsafe { &mut *word(obj, slot_index(obj, i, bytes_of(obj))) }
}

fn slots(obj: Obj) -> impl Iterator<Item = Option<Obj>> {
    (0..slot_count(obj)).map(move |i| as_obj(*slot(obj, i)))
}

fn as_obj(slot: u64) -> Option<Obj> {
    Obj::new(slot as *mut _)
}

impl Toy {
    fn cut(&mut self, m: &Marker<'_>, kind: Kind) {
        for table in &self.weak[m.cycle() as usize] {
            let width = match kind_of(*table) {
                k if k != kind => continue,
                Kind::Weak => 1,
                _ => 2,
            };
            for at in (0..slot_count(*table)).step_by(width) {
                // SAFETY: a live object of the test's own heap.
                let is_dead = |i: usize| as_obj(*slot(*table, i)).is_some_and(|o| !unsafe { m.is_marked(o) });
                if is_dead(at) {
                    (at..at + width).for_each(|i| *slot(*table, i) = 0);
                } else if width == 2 && is_dead(at + 1) {
                    *slot(*table, at + 1) = 0;
                }
            }
        }
    }
}

impl Client for Toy {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        match kind_of(obj) {
            // SAFETY: a live object of the test's own heap.
            Kind::Plain | Kind::Finalised if slot_count(obj) > 3 => unsafe { m.trace_later(obj, 0) },
            Kind::Plain | Kind::Finalised => {
                for child in slots(obj).flatten() {
                    // SAFETY: a live object of the test's own heap.
                    unsafe { m.mark(child) };
                }
            }
            _ if m.is_verifying() => {}
            _ => self.weak[m.cycle() as usize].push(obj),
        }
    }
    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        for child in slots(obj).skip(at).take(2).flatten() {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(child) };
        }
        if at + 2 < slot_count(obj) {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.trace_later(obj, at + 2) };
        }
    }
    unsafe fn trace_range(&mut self, obj: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        if matches!(kind_of(obj), Kind::Weak | Kind::Ephemeron) {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.trace(obj, m) };
        }
        for i in 0..slot_count(obj) {
            let slot = slot(obj, i);
            if (lo..hi).contains(&(slot as *mut u64 as usize))
                && let Some(child) = as_obj(*slot)
            {
                // SAFETY: a live object of the test's own heap.
                unsafe { m.mark(child) };
            }
        }
    }
    fn roots(&mut self, m: &mut Marker<'_>, _cycle: Cycle) {
        for (i, root) in self.roots.iter().enumerate() {
            // SAFETY: a live object of the test's own heap.
            if i % 2 == 0 { unsafe { m.trace_again(*root) } } else { _ = unsafe { m.mark(*root) } }
        }
        for obj in &self.queue {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*obj) };
        }
        let range = self.conservative.as_ptr_range();
        // SAFETY: the range of a vector.
        unsafe { m.mark_conservative_range(range.start.cast(), range.end.cast()) };
    }
    fn converge(&mut self, m: &mut Marker<'_>, cycle: Cycle) -> bool {
        let mut any = false;
        for table in self.weak[cycle as usize].iter().filter(|t| kind_of(**t) == Kind::Ephemeron) {
            for at in (0..slot_count(*table)).step_by(2) {
                if let (Some(key), Some(value)) = (as_obj(*slot(*table, at)), as_obj(*slot(*table, at + 1)))
                    // SAFETY: a live object of the test's own heap.
                    && unsafe { m.is_marked(key) }
                {
                    // SAFETY: a live object of the test's own heap.
                    any |= unsafe { m.mark(value) };
                }
            }
        }
        any
    }
    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        self.cut(m, Kind::Weak);
        let pending = core::mem::take(&mut self.pending);
        // SAFETY: a live object of the test's own heap.
        let (dead, alive) = pending.into_iter().partition(|o| !unsafe { m.is_marked(*o) });
        self.pending = alive;
        for obj in Vec::<Obj>::clone(&dead) {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(obj) };
            // SAFETY: an object of the toy client; not freed, as it was just marked.
            unsafe { (*obj.as_ptr()).kind = 0 };
        }
        self.queue.extend(dead);
        m.drain(self);
        while self.converge(m, cycle) {
            m.drain(self);
        }
        self.cut(m, Kind::Ephemeron);
        self.cut(m, Kind::Weak);
        self.weak[cycle as usize].clear();
    }
}

struct Real {
    heap: Heap,
    toy: Toy,
    objects: BTreeMap<Id, Obj>,
    external: usize,
    /// The open scopes, and which collections have closed.
    scopes: Vec<(u32, bool)>,
    spoilt: bool,
    watched: BTreeSet<Id>,
}

impl Real {
    fn new(options: HeapOptions) -> Real {
        Real {
            heap: Heap::new(options),
            toy: Toy::default(),
            objects: BTreeMap::new(),
            external: 0,
            scopes: Vec::new(),
            spoilt: false,
            watched: BTreeSet::new(),
        }
    }

    fn set_roots(&mut self, roots: &[Option<Id>]) {
        self.toy.roots.clear();
        self.toy.conservative.clear();
        for (i, id) in roots.iter().enumerate() {
            let Some(id) = id else { continue };
            if i % 3 == 2 {
                // An interior pointer among noise.
                let at = self.objects[id].as_ptr() as usize;
                // SAFETY: a live object of the test's own heap.
                self.toy.conservative.extend([
                    i,
                    at + unsafe { self.heap.size_of(self.objects[id]) } - 1,
                    !0,
                ]);
            } else {
                self.toy.roots.push(self.objects[id]);
            }
        }
    }

    fn collected(&mut self) {
        self.scopes.iter_mut().for_each(|s| s.1 = false);
        self.spoilt = false;
        self.after();
    }

    /// Addresses are reused: an object is the one we mean only if its id is.
    fn after(&mut self) {
        let heap = &self.heap;
        self.objects.retain(|id, obj| heap.is_allocated(*obj) && id_of(*obj) == *id);
    }
}

impl Machine for Real {
    fn alloc(&mut self, id: Id, node: &Node) {
        let kind = node.kind as u8;
        let bytes = node.bytes.max((SLOTS_AT + 1 + node.children.len()) * 8);
        let obj = if bytes > 8192 || id.is_multiple_of(3) {
            self.heap.try_alloc(kind, bytes).unwrap()
        } else {
            self.heap.alloc(kind, bytes)
        };
        // SAFETY: a live object of the test's own heap.
        assert!(unsafe { self.heap.size_of(obj) } == bytes.next_multiple_of(16));
        // SAFETY: a new object with room for all this.
        unsafe {
            *word(obj, 1) = id as u64 | (bytes as u64) << 32;
            *word(obj, SLOTS_AT) = node.children.len() as u64;
            for i in SLOTS_AT + 1..self.heap.size_of(obj) / 8 {
                *word(obj, i) = id as u64;
            }
            for i in 0..node.children.len() {
                *slot(obj, i) = 0;
            }
        }
        if kind == 3 {
            self.toy.pending.push(obj);
        }
        self.objects.insert(id, obj);
    }
    fn store(&mut self, id: Id, at: usize, child: Option<Id>) {
        let obj = self.objects[&id];
        let slot = slot(obj, at);
        if id.is_multiple_of(4) {
            // SAFETY: a live object of the test's own heap.
            unsafe { self.heap.barrier(obj) };
        } else {
            // SAFETY: a live object of the test's own heap.
            unsafe { self.heap.barrier_at(obj, obj, slot as *mut u64 as usize) };
        }
        *slot = child.map_or(0, |c| self.objects[&c].as_ptr() as u64);
        // Some are watched from then on, some not any more; the store came before, so both meet objects that
        // are logged and objects that are not.
        let what = (id as usize + at) % 5;
        if what < 2 {
            // SAFETY: a live object of the test's own heap.
            unsafe { self.heap.watch(obj) };
            self.watched.insert(id);
        } else if what == 2 {
            // SAFETY: as above.
            unsafe { self.heap.unwatch(obj) };
            self.watched.remove(&id);
        }
    }
    fn load(&self, id: Id, at: usize) -> Option<Id> {
        as_obj(*slot(self.objects[&id], at)).map(id_of)
    }
    fn minor(&mut self, roots: &[Option<Id>]) {
        self.set_roots(roots);
        self.heap.collect_minor(&mut self.toy);
        self.collected();
    }
    fn step(&mut self, roots: &[Option<Id>], objects: u32) {
        self.set_roots(roots);
        self.heap.set_params(Default::default());
        self.heap.force_major();
        self.heap.step_objects(&mut self.toy, objects);
        self.collected();
    }
    fn promote(&mut self, roots: &[Option<Id>], objects: u32) {
        self.set_roots(roots);
        self.heap.set_params(Default::default());
        self.heap.force_major();
        self.heap.step_promoting(&mut self.toy, objects);
        self.collected();
    }
    fn full(&mut self, roots: &[Option<Id>]) {
        self.set_roots(roots);
        self.heap.collect_full(&mut self.toy);
        self.collected();
    }
    fn enter(&mut self) {
        let serial = self.heap.open_scope(7);
        self.scopes.push((serial, serial != 0));
    }
    fn leave(&mut self, roots: &[Option<Id>]) -> bool {
        let Some((serial, open)) = self.scopes.pop() else { return false };
        self.set_roots(roots);
        self.heap.close_scope(&mut self.toy, serial);
        self.after();
        open && !self.spoilt
    }
    fn leave_outermost(&mut self, roots: &[Option<Id>]) {
        let (serial, open) = self.scopes.remove(0);
        // If no inner scope could be opened this is a scope's end like any other.
        self.set_roots(roots);
        self.heap.close_scope(&mut self.toy, serial);
        self.after();
        self.spoilt |= open && self.scopes.iter().any(|(_, inner)| *inner);
    }
    fn is_allocated(&self, id: Id) -> bool {
        self.objects.contains_key(&id)
    }
    fn finalised(&mut self) -> Vec<Id> {
        self.toy.queue.drain(..).map(id_of).collect()
    }
    fn check(&mut self, roots: &[Option<Id>], held: Option<usize>) {
        self.set_roots(roots);
        self.heap.verify(&mut self.toy).unwrap();
        let mut sum = 0;
        for (id, obj) in &self.objects {
            // SAFETY: a live object of the test's own heap.
            let size = unsafe { self.heap.size_of(*obj) };
            sum += size;
            // Whatever has stamped it, it is watched as long as it was.
            // SAFETY: as above.
            let header = unsafe { *obj.as_ptr() };
            assert_eq!(header.is_watched(), self.watched.contains(id), "{id}");
            let is_slot = |i| (0..slot_count(*obj)).any(|s| slot_index(*obj, s, bytes_of(*obj)) == i);
            for i in (SLOTS_AT + 1..size / 8).filter(|i| !is_slot(*i)) {
                // SAFETY: within the object.
                assert_eq!(unsafe { *word(*obj, i) }, *id as u64, "the contents of {id} changed");
            }
            let inside = obj.as_ptr() as usize + size / 2;
            assert_eq!(self.heap.find_object(inside), Some(*obj));
        }
        if held.is_some() {
            assert_eq!(self.heap.live_bytes(), sum + self.external);
            self.external += 1000;
            self.heap.charge_external(1000);
        }
    }
}

fn options() -> HeapOptions {
    HeapOptions { poison: true, nursery: 64 << 10, ..HeapOptions::default() }
}

#[test]
fn what_only_weak_references_hold_may_come_back() {
    World::new(Real::new(options())).run(&a_weak_object_behind_a_weak_reference());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_heap_frees_nothing_reachable_and_all_the_rest(ops in ops(150)) {
        World::new(Real::new(options())).run(&ops);
    }

    #[test]
    fn the_epoch_may_wrap(ops in ops(100)) {
        let first_epoch = perilune_heap::WATCHED - 20;
        World::new(Real::new(HeapOptions { first_epoch, ..options() })).run(&ops);
    }
}

/// A real heap whose collector gets no memory for its lists.
fn short(options: HeapOptions) -> Real {
    let mut real = Real::new(options);
    real.heap.limit_lists(4);
    real
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lists_that_cannot_grow_lose_nothing(ops in ops(150)) {
        World::new(short(options())).run(&ops);
    }
}

/// Many old objects are stored into, each new one refers to many others, and majors go on meanwhile: with
/// room for four entries in each list.
#[test]
fn many_objects_and_many_stores_with_hardly_a_list() {
    let mut real = short(options());
    let node = |slots| Node { kind: Kind::Plain, bytes: 64, children: vec![None; slots] };
    const WIDE: usize = 400;
    real.alloc(0, &node(WIDE));
    let roots = [Some(0)];
    for i in 0..WIDE {
        real.alloc(1 + i as Id, &node(3));
        real.store(0, i, Some(1 + i as Id));
    }
    real.minor(&roots);
    let mut next = 1000;
    for round in 0..6 {
        for i in 0..WIDE {
            real.alloc(next, &node(2));
            real.store(1 + i as Id, round % 3, Some(next));
            next += 1;
        }
        real.step(&roots, 20);
        for i in 0..WIDE {
            assert!(real.load(1 + i as Id, round % 3).is_some_and(|id| real.is_allocated(id)), "{round} {i}");
        }
        real.check(&roots, None);
    }
    real.full(&roots);
    // The widest one, its children, three of each.
    assert_eq!(real.objects.len(), 1 + WIDE + 3 * WIDE);
    real.check(&roots, Some(0));
}

/// Near the last epoch the inner scope is refused, so that the outer one, which ends first, is the innermost
/// after all.
#[test]
fn a_scope_within_which_none_could_be_opened() {
    let alloc = |root| Op::Alloc { kind: 0, slots: 0, bytes: 16, root };
    let ops = [Op::Minor, Op::Minor, Op::Enter, alloc(0), Op::Enter, Op::LeaveOutermost, alloc(1)];
    for before in 16..24 {
        let first_epoch = perilune_heap::WATCHED - before;
        World::new(Real::new(HeapOptions { first_epoch, ..options() })).run(&ops);
    }
}
