//! Parts of a loop: each index is run once, nobody is forgotten when one fails, the end comes once and after
//! everything.

use super::explore;
use super::sched::course::{Cancel, Course, Portion};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

/// What runs a portion: a fiber, whose number in its domain says nothing.
#[derive(Clone)]
struct Fiber(Arc<AtomicUsize>);

impl Cancel for Fiber {
    fn cancel(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Fiber {
    fn new() -> Fiber {
        Fiber(Arc::new(AtomicUsize::new(0)))
    }
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A loop of a few indices, and what has become of it.
struct World {
    course: Course<Fiber, &'static str>,
    /// How often each index has been run, as weakly seen as an array of the program's would be.
    runs: Vec<AtomicUsize>,
    /// Portions that nobody has begun.
    queue: Mutex<Vec<(i64, i64)>>,
    /// What finds have found.
    found: Mutex<Vec<i64>>,
    ends: AtomicUsize,
}

impl World {
    fn new(indices: i64) -> Arc<World> {
        Arc::new(World {
            course: Course::new(),
            runs: (0..indices).map(|_| AtomicUsize::new(0)).collect(),
            queue: Mutex::new(vec![(0, indices - 1)]),
            found: Mutex::new(Vec::new()),
            ends: AtomicUsize::new(0),
        })
    }

    /// Runs what is queued, as a worker does, each index with `body`; gives something away before each bite.
    fn work(&self, body: impl Fn(&World, &Portion, i64, &Fiber)) {
        loop {
            let Some((lo, hi)) = self.queue.lock().unwrap().pop() else { return };
            if self.course.is_over(lo) {
                self.end();
                continue;
            }
            let (portion, fiber) = (Arc::new(Portion::new(lo, hi)), Fiber::new());
            self.course.enter(&portion, fiber.clone());
            while let Some(bite) = portion.take(&self.course, |_, _| 1, || true) {
                if let Some(upper) = bite.upper {
                    self.queue.lock().unwrap().push(upper);
                }
                for index in bite.lo..=bite.hi {
                    body(self, &portion, index, &fiber);
                }
            }
            portion.end();
            self.end();
        }
    }

    fn run(&self, index: i64) {
        self.runs[index as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        if self.course.portion_ended() {
            self.ends.fetch_add(1, Ordering::Relaxed);
            // Who is told sees what every portion has done.
            let failed = self.course.failure().is_some() || !self.found.lock().unwrap().is_empty();
            let runs = self.runs.iter().map(|r| r.load(Ordering::Relaxed));
            assert!(runs.into_iter().all(|n| n == 1 || failed && n == 0), "at the end");
        }
    }
}

#[test]
fn each_index_is_run_once_and_the_end_sees_it() {
    explore(2, || {
        let world = World::new(3);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.work(|w, _, index, _| w.run(index)))
        };
        world.work(|w, _, index, _| w.run(index));
        other.join().unwrap();
        assert_eq!(world.ends.load(Ordering::Relaxed), 1);
        assert!(!world.course.is_pending());
    });
}

/// The lower half fails while the upper one is on its way into the list: whoever has begun to wait there is
/// told.
#[test]
fn a_failure_forgets_nobody() {
    explore(3, || {
        let world = World::new(2);
        let whole = Arc::new(Portion::new(0, 1));
        let first = Fiber::new();
        world.course.enter(&whole, first.clone());
        let bite = whole.take(&world.course, |_, _| 1, || true).unwrap();
        let (lo, hi) = bite.upper.unwrap();
        assert_eq!((bite.lo, bite.hi, lo, hi), (0, 0, 1, 1));
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                if world.course.is_over(lo) {
                    return None;
                }
                let (portion, fiber) = (Arc::new(Portion::new(lo, hi)), Fiber::new());
                world.course.enter(&portion, fiber.clone());
                portion.take(&world.course, |_, _| 1, || false)?;
                // A body that waits for ever: it ends by being cancelled, now or later.
                Some((portion, fiber))
            })
        };
        world.course.fail(0, "x", Some(&whole));
        if let Some((_portion, fiber)) = other.join().unwrap() {
            assert!(fiber.is_cancelled(), "it waits, and nobody tells it");
        }
        assert!(!first.is_cancelled(), "who reports goes on");
        assert_eq!(world.course.failure(), Some("x"));
    });
}

/// Both find something: the lowest is among what was found, whoever was cancelled.
#[test]
fn the_lowest_is_found() {
    explore(2, || {
        let world = World::new(4);
        let body = |w: &World, _: &Portion, index: i64, fiber: &Fiber| {
            w.run(index);
            // A cancelled body ends at its next step.
            if !fiber.is_cancelled() && (index == 1 || index == 2) {
                w.found.lock().unwrap().push(index);
                w.course.found(index);
            }
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.work(body))
        };
        world.work(body);
        other.join().unwrap();
        assert_eq!(world.ends.load(Ordering::Relaxed), 1);
        assert_eq!(world.found.lock().unwrap().iter().min(), Some(&1));
    });
}
