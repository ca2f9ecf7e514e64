//! One owner at a time; no post, poke or returning thread is lost; the units add up.

use super::explore;
use super::sched::ownership::{Next, Owned, Ownership, Root};
use super::sched::quiescence::Quiescence;
use super::sched::waiter::{Reason, Sleeper, Waiter};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use perilune_trace::{FiberRef, ObjectRef};
use std::collections::VecDeque;
use std::sync::Arc;

/// A domain whose heap is one cell that loom watches.
struct Domain {
    ownership: Ownership<u32>,
    heap: loom::cell::UnsafeCell<u32>,
    /// Activations asked for: the model's threads run them.
    asked: Arc<Asked>,
    quiescence: Arc<Quiescence>,
    deadlocks: Arc<AtomicUsize>,
}

// SAFETY: the cell is touched by the ownership's owner only; loom checks that.
unsafe impl Sync for Domain {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Domain {}

/// Work for worker threads: each takes one activation, or ends when there will be none.
struct Asked {
    queue: loom::sync::Mutex<(u32, bool)>,
    changed: loom::sync::Condvar,
}

impl Asked {
    fn ask(&self) {
        self.queue.lock().unwrap().0 += 1;
        self.changed.notify_one();
    }

    /// False: the model is over.
    fn wait(&self) -> bool {
        let mut state = self.queue.lock().unwrap();
        loop {
            if state.0 > 0 {
                state.0 -= 1;
                return true;
            }
            if state.1 {
                return false;
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    fn end(&self) {
        self.queue.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Domain {
    /// An idle one. `outside` units are taken for the model's own threads.
    fn new(outside: usize) -> Arc<Domain> {
        Domain::make(outside, Ownership::new)
    }

    /// The same, owned by the caller, who has its unit.
    fn new_owned(outside: usize) -> (Arc<Domain>, Owned) {
        let mut proof = None;
        let domain = Domain::make(outside, |quiescence, activate| {
            let (ownership, owned) = Ownership::owned(quiescence, activate);
            proof = Some(owned);
            ownership
        });
        (domain, proof.unwrap())
    }

    fn make(
        outside: usize,
        ownership: impl FnOnce(Arc<Quiescence>, Box<dyn Fn() + Send + Sync>) -> Ownership<u32>,
    ) -> Arc<Domain> {
        let asked = Arc::new(Asked {
            queue: loom::sync::Mutex::new((0, false)),
            changed: loom::sync::Condvar::new(),
        });
        let deadlocks = Arc::new(AtomicUsize::new(0));
        let counter = deadlocks.clone();
        let quiescence = Quiescence::new(Box::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        for _ in 0..outside {
            quiescence.enter();
        }
        let ask = asked.clone();
        let activate: Box<dyn Fn() + Send + Sync> = Box::new(move || ask.ask());
        let ownership = ownership(quiescence.clone(), activate);
        Arc::new(Domain { ownership, heap: loom::cell::UnsafeCell::new(0), asked, quiescence, deadlocks })
    }

    fn touch(&self, owned: &mut Owned) {
        assert!(self.ownership.is_owned_by(owned));
        // SAFETY: the caller has the proof; loom reports a race if two threads do.
        self.heap.with_mut(|p| unsafe { *p += 1 });
    }

    /// The pump of one activation; what it ran is appended to `ran`.
    fn pump(&self, ran: &mut Vec<u32>, mut tasks: impl FnMut() -> Option<u32>) {
        let Some(mut owned) = self.ownership.begin() else { return };
        loop {
            self.touch(&mut owned);
            match self.ownership.next(&mut owned) {
                Next::Fiber(f) => ran.push(f),
                Next::HandOver => return self.ownership.hand_over(owned),
                Next::Empty => match tasks() {
                    Some(t) => ran.push(t),
                    None => match self.ownership.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    },
                },
            }
        }
    }

    fn worker(self: &Arc<Self>) -> thread::JoinHandle<Vec<u32>> {
        let domain = self.clone();
        thread::spawn(move || {
            let mut ran = Vec::new();
            while domain.asked.wait() {
                domain.pump(&mut ran, || None);
            }
            ran
        })
    }
}

#[test]
fn every_post_runs_once() {
    explore(3, || {
        let domain = Domain::new(2);
        let worker = domain.worker();
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.ownership.post(1).unwrap();
                domain.quiescence.leave();
            })
        };
        domain.ownership.post(2).unwrap();
        other.join().unwrap();
        domain.asked.end();
        let mut ran = worker.join().unwrap();
        ran.sort_unstable();
        assert_eq!(ran, [1, 2]);
        domain.quiescence.leave();
        assert_eq!(domain.quiescence.units(), 0);
    });
}

#[test]
fn a_poke_finds_its_task() {
    explore(3, || {
        let domain = Domain::new(1);
        let tasks = Arc::new(loom::sync::Mutex::new(VecDeque::new()));
        let worker = {
            let (domain, tasks) = (domain.clone(), tasks.clone());
            thread::spawn(move || {
                let mut ran = Vec::new();
                while domain.asked.wait() {
                    domain.pump(&mut ran, || tasks.lock().unwrap().pop_front());
                }
                ran
            })
        };
        for task in [5, 6] {
            tasks.lock().unwrap().push_back(task);
            domain.ownership.poke();
        }
        domain.asked.end();
        assert_eq!(worker.join().unwrap(), [5, 6]);
        domain.quiescence.leave();
        assert_eq!(domain.quiescence.units(), 0);
    });
}

/// The hand-off around a blocking call: the caller leaves while fibers are being posted, and comes back.
#[test]
fn a_blocking_call_gets_its_domain_back() {
    explore(2, || {
        let (domain, mut owned) = Domain::new_owned(1);
        let worker = domain.worker();
        let poster = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.ownership.post(1).unwrap();
                domain.quiescence.leave();
            })
        };
        domain.touch(&mut owned);
        domain.ownership.detach(owned);
        let mut owned = domain.ownership.attach().unwrap();
        domain.touch(&mut owned);
        poster.join().unwrap();
        // The fiber, if no worker has run it: the caller's pump goes on as the owner.
        let mut ran = Vec::new();
        loop {
            match domain.ownership.next(&mut owned) {
                Next::Fiber(f) => ran.push(f),
                Next::HandOver => unreachable!("nobody else has left"),
                Next::Empty => match domain.ownership.try_leave(owned) {
                    Ok(()) => break,
                    Err(back) => owned = back,
                },
            }
        }
        domain.asked.end();
        ran.extend(worker.join().unwrap());
        assert_eq!(ran, [1]);
        assert_eq!(domain.quiescence.units(), 0);
    });
}

fn pump_with_blocking_fibers(domain: &Domain, mut owned: Owned) {
    loop {
        match domain.ownership.next(&mut owned) {
            Next::Fiber(_) => {
                domain.touch(&mut owned);
                domain.ownership.detach(owned);
                owned = domain.ownership.attach().unwrap();
                domain.touch(&mut owned);
            }
            Next::HandOver => return domain.ownership.hand_over(owned),
            Next::Empty => match domain.ownership.try_leave(owned) {
                Ok(()) => return,
                Err(back) => owned = back,
            },
        }
    }
}

/// Two calls of one domain block at the same time: both get it back, one after the other, beside its fibers.
#[test]
fn two_blocking_calls_return_one_after_the_other() {
    explore(2, || {
        let (domain, mut owned) = Domain::new_owned(0);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                while domain.asked.wait() {
                    if let Some(owned) = domain.ownership.begin() {
                        pump_with_blocking_fibers(&domain, owned);
                    }
                }
            })
        };
        domain.ownership.post(1).unwrap();
        domain.touch(&mut owned);
        domain.ownership.detach(owned);
        let mut owned = domain.ownership.attach().unwrap();
        domain.touch(&mut owned);
        domain.ownership.detach(owned);
        domain.quiescence.leave();
        domain.asked.end();
        other.join().unwrap();
        assert_eq!(domain.quiescence.units(), 0);
        assert!(!domain.ownership.is_owned());
    });
}

/// A call returns while another is out and a fiber ready: whoever's turn it is, all are served.
#[test]
fn returning_threads_and_fibers_take_turns() {
    explore(2, || {
        let (domain, mut owned) = Domain::new_owned(1);
        let worker = domain.worker();
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                let mut owned = domain.ownership.attach().unwrap();
                domain.touch(&mut owned);
                domain.ownership.detach(owned);
                domain.quiescence.leave();
            })
        };
        domain.ownership.post(1).unwrap();
        domain.touch(&mut owned);
        domain.ownership.detach(owned);
        let mut owned = domain.ownership.attach().unwrap();
        domain.touch(&mut owned);
        domain.ownership.post(2).unwrap();
        domain.ownership.detach(owned);
        domain.quiescence.leave();
        other.join().unwrap();
        domain.asked.end();
        assert_eq!(worker.join().unwrap(), [1, 2]);
        assert_eq!(domain.quiescence.units(), 0);
        assert!(!domain.ownership.is_owned());
    });
}

/// The main program waits for something that a fiber on another thread does: it is woken, and nobody sees a
/// deadlock.
#[test]
fn the_main_program_is_woken() {
    explore(2, || {
        let (domain, owned) = Domain::new_owned(0);
        let waiter = Waiter::new(Root::new(
            domain.quiescence.clone(),
            (FiberRef(0), ObjectRef::NONE),
            Box::new(String::new),
        ));
        let list = super::sched::quiescence::WaitList::new();
        domain.quiescence.register(&list);
        let slot = list.add(waiter.clone());
        domain.ownership.post(1).unwrap();
        let worker = {
            let (domain, waiter) = (domain.clone(), waiter.clone());
            thread::spawn(move || {
                if !domain.asked.wait() {
                    return;
                }
                let Some(mut owned) = domain.ownership.begin() else { return };
                loop {
                    match domain.ownership.next(&mut owned) {
                        Next::Fiber(_) => assert!(waiter.wake(Reason::Ready)),
                        Next::HandOver => return domain.ownership.hand_over(owned),
                        Next::Empty => match domain.ownership.try_leave(owned) {
                            Ok(()) => return,
                            Err(back) => owned = back,
                        },
                    }
                    domain.touch(&mut owned);
                }
            })
        };
        let mut owned = domain.ownership.wait(owned, &waiter).unwrap();
        domain.touch(&mut owned);
        assert_eq!(waiter.woken(), Some((Reason::Ready, 0)));
        list.remove(slot);
        worker.join().unwrap();
        assert!(domain.ownership.try_leave(owned).is_ok());
        assert_eq!(domain.quiescence.units(), 0);
        assert_eq!(domain.deadlocks.load(Ordering::SeqCst), 0);
    });
}

/// A post to an idle domain, which a guest takes and is done with before the poster goes on: the poster still
/// has something to say, so nobody waits in vain.
#[test]
fn a_unit_is_there_before_the_domain_is_ready() {
    explore(3, || {
        let domain = Domain::new(2);
        let waiter: Arc<Waiter> = Waiter::new(Parked(domain.quiescence.clone()));
        let list = super::sched::quiescence::WaitList::new();
        domain.quiescence.register(&list);
        list.add(waiter.clone());
        assert!(waiter.sleep());
        let guest = {
            let domain = domain.clone();
            thread::spawn(move || {
                let mut owned = domain.ownership.attach().unwrap();
                domain.touch(&mut owned);
                let ran = domain.ownership.next(&mut owned) == Next::Fiber(1);
                domain.ownership.detach(owned);
                domain.quiescence.leave();
                ran
            })
        };
        domain.ownership.post(1).unwrap();
        assert!(waiter.wake(Reason::Ready), "nobody else can have ended the wait");
        domain.quiescence.leave();
        let ran = guest.join().unwrap();
        assert_eq!(domain.deadlocks.load(Ordering::SeqCst), 0);
        // The woken fiber's unit, and the domain's if the guest came before the post.
        assert_eq!(domain.quiescence.units(), 2 - usize::from(ran));
    });
}

struct Parked(Arc<Quiescence>);

impl Sleeper for Parked {
    fn rouse(&self, _: Reason) {
        self.0.enter();
    }
    fn describe(&self) -> String {
        String::new()
    }
}

/// A domain ends while somebody posts and somebody wants to return: each is either served or told.
#[test]
fn closing_refuses_or_hands_out_what_is_left() {
    explore(3, || {
        let (domain, mut owned) = Domain::new_owned(2);
        let poster = {
            let domain = domain.clone();
            thread::spawn(move || {
                let refused = domain.ownership.post(1).is_err();
                domain.quiescence.leave();
                refused
            })
        };
        let guest = {
            let domain = domain.clone();
            thread::spawn(move || {
                if let Some(mut owned) = domain.ownership.attach() {
                    domain.touch(&mut owned);
                    domain.ownership.detach(owned);
                }
                domain.quiescence.leave();
            })
        };
        domain.touch(&mut owned);
        // The guest may be there already: it goes first, as the pump would let it.
        if domain.ownership.next(&mut owned) == Next::HandOver {
            domain.ownership.detach(owned);
            owned = domain.ownership.attach().unwrap();
        }
        let left = domain.ownership.close(owned);
        let refused = poster.join().unwrap();
        guest.join().unwrap();
        assert_eq!(left.len() + usize::from(refused), 1);
        assert_eq!(domain.quiescence.units(), 0);
    });
}
