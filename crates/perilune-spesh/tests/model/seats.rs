//! Code is freed only when no domain can be in it.

use crate::explore;
use crate::reclaim::{Participant, Reclaimer, Retired};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicPtr, Ordering};
use loom::thread;
use std::ptr::null_mut;
use std::sync::Arc;

/// "Machine code": running it reads the cell, freeing it writes the cell, and loom reports what is not
/// ordered.
struct Body(UnsafeCell<bool>);

// SAFETY: loom watches the cell.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

struct Code(Arc<Body>);

impl Retired for Code {
    fn addresses(&self) -> std::ops::Range<usize> {
        let at = Arc::as_ptr(&self.0) as usize;
        at..at + 1
    }
}

impl Code {
    fn free(self) {
        // SAFETY: that nobody reads is what is checked.
        self.0.0.with_mut(|freed| unsafe { *freed = true });
    }
}

/// What leads to the code: null once it is retired.
struct World {
    cell: AtomicPtr<Body>,
    code: Arc<Body>,
    reclaimer: Arc<Reclaimer<Code>>,
}

impl World {
    fn new() -> Arc<World> {
        let code = Arc::new(Body(UnsafeCell::new(false)));
        let cell = AtomicPtr::new(Arc::as_ptr(&code).cast_mut());
        Arc::new(World { cell, code, reclaimer: Reclaimer::new() })
    }

    /// Loads the address, if there still is one.
    fn address(&self) -> Option<&Body> {
        // SAFETY: the world keeps the allocation; whether its content may be read is what is checked.
        unsafe { self.cell.load(Ordering::Relaxed).as_ref() }
    }

    fn call(&self) {
        self.address().inspect(|code| run(code));
    }

    fn retire(&self) {
        self.cell.store(null_mut(), Ordering::Relaxed);
        // SAFETY: the only cell is null now.
        unsafe { self.reclaimer.retire(Code(Arc::clone(&self.code))) };
    }

    fn collect(&self) -> usize {
        let free = self.reclaimer.collect();
        free.into_iter().map(Code::free).count()
    }
}

fn run(code: &Body) {
    // SAFETY: that it is not freed is what is checked.
    code.0.with(|freed| assert!(!unsafe { *freed }));
}

fn pass(participant: &mut Participant<Code>, named: &[usize]) {
    // SAFETY: callers keep no address but those that they name.
    unsafe { participant.pass(named) }
}

fn leave(participant: &mut Participant<Code>) {
    // SAFETY: callers keep no address.
    unsafe { participant.leave(&[]) }
}

#[test]
fn domains_that_come_and_go() {
    explore(3, || {
        let world = World::new();
        let mut participant = world.reclaimer.register(1);
        let domain = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..2 {
                    participant.enter();
                    world.call();
                    leave(&mut participant);
                }
            })
        };
        world.retire();
        let early = world.collect();
        domain.join().unwrap();
        assert_eq!(early + world.collect(), 1);
    });
}

#[test]
fn domains_that_pass() {
    explore(3, || {
        let world = World::new();
        let domains: Vec<_> = (0..2)
            .map(|tag| {
                let world = Arc::clone(&world);
                let mut participant = world.reclaimer.register(tag);
                thread::spawn(move || {
                    participant.enter();
                    world.call();
                    pass(&mut participant, &[]);
                    world.call();
                    participant
                })
            })
            .collect();
        world.retire();
        let early = world.collect();
        let mut participants: Vec<_> = domains.into_iter().map(|domain| domain.join().unwrap()).collect();
        participants.iter_mut().for_each(leave);
        assert_eq!(early + world.collect(), 1);
    });
}

#[test]
fn what_is_named_is_kept() {
    explore(4, || {
        let world = World::new();
        let mut participant = world.reclaimer.register(1);
        let domain = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                participant.enter();
                if let Some(code) = world.address() {
                    // A native called from this code polls: its caller is still below.
                    pass(&mut participant, &[std::ptr::from_ref(code) as usize]);
                    run(code);
                }
                leave(&mut participant);
            })
        };
        world.retire();
        let early = world.collect();
        domain.join().unwrap();
        assert_eq!(early + world.collect(), 1);
    });
}

#[test]
fn a_seat_that_is_taken_late() {
    explore(3, || {
        let world = World::new();
        let domain = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut participant = world.reclaimer.register(1);
                participant.enter();
                world.call();
                leave(&mut participant);
            })
        };
        world.retire();
        let early = world.collect();
        domain.join().unwrap();
        assert_eq!(early + world.collect(), 1);
    });
}
