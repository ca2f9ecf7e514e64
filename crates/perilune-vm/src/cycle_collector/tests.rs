//! Holders of all sorts under several threads while searches run one after the other.

use super::*;
use crate::island::test_contents;
use crate::shared::{SharedArc, SharedKind};
use perilune_heap::{IslandBuilder, IslandRef};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::SeqCst};

/// Called by a search where others may come in between; seldom it lets them.
pub(super) fn stall() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    if CALLS.fetch_add(1, SeqCst) % 7 == 3 {
        std::thread::yield_now();
    }
}

static KIND: SharedKind = SharedKind::new("box", |_, _| Ok(()));

/// What a thread of these tests or a box may have.
#[derive(Clone)]
enum Thing {
    Box(Arc<Changing>),
    Island(IslandRef),
}

/// A holder that changes.
struct Changing {
    things: Mutex<Vec<Thing>>,
    registered: Registered,
    emptied: AtomicBool,
    alive: Arc<AtomicIsize>,
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, SeqCst);
    }
}

impl SharedObject for Changing {
    fn kind(&self) -> &'static SharedKind {
        &KIND
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

struct Open<'a>(MutexGuard<'a, Vec<Thing>>, &'a AtomicBool);

impl Holder for Changing {
    fn freeze(&self) -> Freeze<'_> {
        match self.things.try_lock() {
            Ok(guard) => Freeze::Frozen(Box::new(Open(guard, &self.emptied))),
            Err(_) => Freeze::Busy,
        }
    }
}

impl Frozen for Open<'_> {
    fn held(&self, to: &mut Held<'_>) {
        for thing in self.0.iter() {
            match thing {
                Thing::Box(b) => to.shared(&SharedArc::from(Arc::clone(b))),
                Thing::Island(i) => to.island(i),
            }
        }
    }
    fn empty(&mut self) -> Box<dyn Any> {
        self.1.store(true, SeqCst);
        Box::new(std::mem::take(&mut *self.0))
    }
}

impl Changing {
    fn new(alive: &Arc<AtomicIsize>) -> Arc<Changing> {
        alive.fetch_add(1, SeqCst);
        Arc::new(Changing {
            things: Mutex::default(),
            registered: Registered::default(),
            emptied: AtomicBool::new(false),
            alive: Arc::clone(alive),
        })
    }

    fn put(self: &Arc<Self>, thing: Thing) {
        self.registered.shared(|| SharedArc::from(Arc::clone(self)).downgrade());
        self.things.lock().unwrap().push(thing);
    }
}

/// An island that holds boxes and refers to islands.
fn island(things: &[Thing]) -> IslandRef {
    let mut builder = IslandBuilder::new().unwrap();
    builder.alloc(1, 16).unwrap();
    let mut shared: Vec<SharedArc> = Vec::new();
    for thing in things {
        match thing {
            Thing::Box(b) => shared.push(b.clone().into()),
            // SAFETY: the reference counts.
            Thing::Island(i) => unsafe { builder.refer(i.number()) },
        }
    }
    builder.seal(Some(test_contents(shared)))
}

#[test]
fn a_cycle_through_islands_is_emptied_when_nobody_has_it() {
    let alive = Arc::default();
    let b = Changing::new(&alive);
    let inner = island(&[Thing::Box(b.clone())]);
    let outer = island(&[Thing::Island(inner.clone()), Thing::Box(b.clone())]);
    b.put(Thing::Island(outer.clone()));
    b.put(Thing::Box(b.clone()));
    drop((inner, b));
    collect();
    assert_eq!(alive.load(SeqCst), 1, "the outer island is held");
    let contents = crate::island::shared_objects(&outer);
    let again: SharedArc = contents[0].clone();
    drop(outer);
    collect();
    let Ok(again) = crate::shared::downcast_arc::<Changing>(again) else { panic!("a box") };
    assert!(!again.emptied.load(SeqCst) && again.things.lock().unwrap().len() == 2);
    drop(again);
    collect();
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn whoever_holds_a_lock_is_alive() {
    let alive = Arc::default();
    let b = Changing::new(&alive);
    b.put(Thing::Box(b.clone()));
    let raw = Arc::as_ptr(&b);
    drop(b);
    // SAFETY: the cycle keeps it.
    let guard = unsafe { &(*raw).things }.lock().unwrap();
    collect();
    assert_eq!((alive.load(SeqCst), guard.len()), (1, 1));
    drop(guard);
    collect();
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_long_chain_that_ends_in_itself() {
    let alive: Arc<AtomicIsize> = Arc::default();
    let first = Changing::new(&alive);
    let mut last = first.clone();
    for n in 0..50_000 {
        let next = Changing::new(&alive);
        let thing = if n % 3 == 0 {
            Thing::Island(island(&[Thing::Box(next.clone())]))
        } else {
            Thing::Box(next.clone())
        };
        last.put(thing);
        last = next;
    }
    last.put(Thing::Box(first.clone()));
    drop(last);
    collect();
    assert_eq!(alive.load(SeqCst), 50_001);
    drop(first);
    collect();
    assert_eq!(alive.load(SeqCst), 0);
}

fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as usize
}

/// Moves things about at random; whatever the thread has must never have been emptied.
fn mutate(seed: &mut u64, mine: &mut Vec<Thing>, meeting: &Mutex<Vec<Thing>>, alive: &Arc<AtomicIsize>) {
    let r = random(seed);
    let which = random(seed) % mine.len().max(1);
    let Some(thing) = mine.get(which).cloned() else {
        return mine.push(Thing::Box(Changing::new(alive)));
    };
    match (r % 13, &thing) {
        (0, _) => mine.push(Thing::Box(Changing::new(alive))),
        (1 | 2, _) => {
            let other = mine[random(seed) % mine.len()].clone();
            mine.push(Thing::Island(island(&[thing.clone(), other])));
        }
        (3..=5, Thing::Box(b)) => {
            assert!(!b.emptied.load(SeqCst), "somebody has it");
            b.put(mine[random(seed) % mine.len()].clone());
        }
        (6 | 7, Thing::Box(b)) => {
            let mut things = b.things.lock().unwrap();
            let n = things.len();
            if n > 0 {
                let found = if r.is_multiple_of(2) {
                    things.swap_remove(r / 16 % n)
                } else {
                    things[r / 16 % n].clone()
                };
                mine.push(found);
            }
        }
        // What an island holds is read without a lock; the island is often given up at once.
        (3..=9, Thing::Island(i)) => {
            let boxes = crate::island::shared_objects(i);
            if boxes.is_empty() {
                if !i.refs().is_empty() {
                    mine.push(Thing::Island(i.referred(r / 16 % i.refs().len())));
                }
            } else if let Ok(b) = crate::shared::downcast_arc(boxes[r / 16 % boxes.len()].clone()) {
                mine.push(Thing::Box(b));
            }
            if r.is_multiple_of(3) {
                mine.swap_remove(which);
            }
        }
        (10, _) => meeting.lock().unwrap().push(mine.swap_remove(which)),
        (11, _) => mine.extend(meeting.lock().unwrap().pop()),
        _ => drop(mine.swap_remove(which)),
    }
    while mine.len() > 12 {
        mine.swap_remove(random(seed) % mine.len());
    }
}

#[test]
fn nothing_that_a_thread_has_is_emptied() {
    let alive: Arc<AtomicIsize> = Arc::default();
    let emptied = stats().emptied;
    for round in 0..3u64 {
        let meeting = Mutex::new(Vec::new());
        let working = AtomicUsize::new(3);
        std::thread::scope(|scope| {
            for t in 0..3u64 {
                let (meeting, working, alive) = (&meeting, &working, &alive);
                scope.spawn(move || {
                    let mut seed = round * 77 + t;
                    let mut mine = Vec::new();
                    for _ in 0..100_000 {
                        mutate(&mut seed, &mut mine, meeting, alive);
                    }
                    working.fetch_sub(1, SeqCst);
                });
            }
            while working.load(SeqCst) > 0 {
                collect();
            }
        });
        drop(meeting);
        collect();
        assert_eq!(alive.load(SeqCst), 0, "round {round}");
    }
    assert!(stats().emptied > emptied, "there was garbage");
}

/// The only external count of a ring goes around in it, so that a search that looks at one node after the
/// other may see none at all.
#[test]
fn a_walker_in_a_ring_keeps_it() {
    const BOXES: usize = 20;
    let alive: Arc<AtomicIsize> = Arc::default();
    for against in [false, true] {
        let boxes: Vec<_> = (0..BOXES).map(|_| Changing::new(&alive)).collect();
        for (n, b) in boxes.iter().enumerate() {
            let next = if against { n + BOXES - 1 } else { n + 1 } % BOXES;
            let mut thing = Thing::Box(boxes[next].clone());
            for _ in 0..n % 4 {
                thing = Thing::Island(island(&[thing]));
            }
            b.put(thing);
        }
        let mut at = Thing::Box(boxes[0].clone());
        drop(boxes);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(700);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while std::time::Instant::now() < end {
                    at = match &at {
                        Thing::Box(b) => {
                            let things = b.things.lock().unwrap();
                            assert!(!b.emptied.load(SeqCst) && things.len() == 1, "somebody has it");
                            things[0].clone()
                        }
                        Thing::Island(i) => match crate::island::shared_objects(i) {
                            [] => Thing::Island(i.referred(0)),
                            [b, ..] => Thing::Box(crate::shared::downcast_arc(b.clone()).ok().unwrap()),
                        },
                    };
                }
            });
            while std::time::Instant::now() < end {
                collect();
            }
        });
        collect();
        assert_eq!(alive.load(SeqCst), 0);
    }
}
