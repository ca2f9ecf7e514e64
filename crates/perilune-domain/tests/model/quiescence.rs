//! Quiescence is noticed, once, and never while something is under way.

use super::explore;
use super::sched::quiescence::{Quiescence, WaitList};
use super::sched::waiter::{Reason, Sleeper, Waiter};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

/// A fiber of a domain that becomes ready when woken: its unit is taken, and given up by who ran it.
struct Fiber {
    quiescence: Arc<Quiescence>,
    roused: AtomicUsize,
}

impl Sleeper for Fiber {
    fn rouse(&self, _: Reason) {
        self.quiescence.enter();
        self.roused.fetch_add(1, Ordering::SeqCst);
    }
    fn describe(&self) -> String {
        String::new()
    }
}

fn program() -> (Arc<Quiescence>, Arc<WaitList>, Arc<AtomicUsize>) {
    let reports = Arc::new(AtomicUsize::new(0));
    let counter = reports.clone();
    let quiescence = Quiescence::new(Box::new(move |waits| {
        assert!(!waits.is_empty());
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let list = WaitList::new();
    quiescence.register(&list);
    (quiescence, list, reports)
}

fn fiber(quiescence: &Arc<Quiescence>) -> Arc<Waiter<Fiber>> {
    Waiter::new(Fiber { quiescence: quiescence.clone(), roused: AtomicUsize::new(0) })
}

/// One domain sends to a fiber of another that parks at the same time: whoever is last, there is no alarm.
#[test]
fn a_message_in_flight_is_no_deadlock() {
    explore(3, || {
        let (quiescence, list, reports) = program();
        let waiter = fiber(&quiescence);
        quiescence.enter();
        quiescence.enter();
        let sender = {
            let (quiescence, waiter) = (quiescence.clone(), waiter.clone());
            thread::spawn(move || {
                assert!(waiter.wake(Reason::Ready));
                quiescence.leave();
            })
        };
        list.add(waiter.clone());
        let slept = waiter.sleep();
        quiescence.leave();
        sender.join().unwrap();
        assert_eq!(reports.load(Ordering::SeqCst), 0);
        assert_eq!(waiter.woken(), Some((Reason::Ready, 0)));
        assert_eq!(quiescence.units(), usize::from(slept));
    });
}

/// Two domains park for ever at the same time: one report, both woken.
#[test]
fn two_who_wait_for_each_other_are_told_once() {
    explore(3, || {
        let (quiescence, list, reports) = program();
        let waiters = [fiber(&quiescence), fiber(&quiescence)];
        quiescence.enter();
        quiescence.enter();
        let park = |waiter: &Arc<Waiter<Fiber>>| {
            let (quiescence, list, waiter) = (quiescence.clone(), list.clone(), waiter.clone());
            move || {
                list.add(waiter.clone());
                assert!(waiter.sleep());
                quiescence.leave();
            }
        };
        let other = thread::spawn(park(&waiters[1]));
        park(&waiters[0])();
        other.join().unwrap();
        assert_eq!(reports.load(Ordering::SeqCst), 1);
        for waiter in &waiters {
            assert_eq!(waiter.woken(), Some((Reason::Deadlock, 0)));
            assert_eq!(waiter.sleeper().roused.load(Ordering::SeqCst), 1);
        }
        assert_eq!(quiescence.units(), 2);
    });
}

/// A guest without a unit wakes somebody at the moment of rest: the wait ends once, the count stays right.
#[test]
fn a_guest_at_the_last_moment_does_no_harm() {
    explore(3, || {
        let (quiescence, list, reports) = program();
        let waiter = fiber(&quiescence);
        quiescence.enter();
        list.add(waiter.clone());
        let guest = {
            let (quiescence, waiter) = (quiescence.clone(), waiter.clone());
            thread::spawn(move || {
                let hold = quiescence.hold();
                let won = waiter.wake(Reason::Ready);
                drop(hold);
                won
            })
        };
        let slept = waiter.sleep();
        quiescence.leave();
        let won = guest.join().unwrap();
        let reason = if won { Reason::Ready } else { Reason::Deadlock };
        assert_eq!(waiter.woken(), Some((reason, 0)));
        if !won {
            assert_eq!(reports.load(Ordering::SeqCst), 1);
        }
        assert_eq!(waiter.sleeper().roused.load(Ordering::SeqCst), usize::from(slept));
        assert_eq!(quiescence.units(), usize::from(slept));
    });
}
