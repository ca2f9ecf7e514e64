//! The slot, one step after another; `tests/model` has what threads may do to it.

use crate::slot::{Slot, Wake, Wakes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

struct Flag(Arc<AtomicBool>, bool);
impl Wake for Flag {
    fn wake(&self) -> bool {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        self.1
    }
}

fn flag(lives: bool) -> (Flag, impl Fn() -> bool) {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    (Flag(flag, lives), move || seen.load(std::sync::atomic::Ordering::SeqCst))
}

#[test]
fn an_edge_since_the_attempt_is_seen() {
    let slot = Slot::default();
    slot.clear();
    slot.raise(false, Wakes::One);
    let (waiter, woken) = flag(true);
    let Err(waiter) = slot.leave(waiter) else { panic!("the edge came first") };
    assert!(!woken() && slot.with_first(|_| ()).is_none());
    slot.clear();
    assert!(slot.leave(waiter).is_ok());
    slot.raise(false, Wakes::One);
    assert!(woken() && slot.with_first(|_| ()).is_none());
}

#[test]
fn one_edge_wakes_one_that_still_waits() {
    let slot = Slot::default();
    let (dead, _) = flag(false);
    let (first, first_woken) = flag(true);
    let (second, second_woken) = flag(true);
    let (third, third_woken) = flag(true);
    for w in [dead, first, second] {
        assert!(slot.leave(w).is_ok());
    }
    let left = slot.leave(third).ok().expect("nothing has happened");
    slot.raise(true, Wakes::One);
    assert!(first_woken() && !second_woken());
    slot.take_back(left);
    slot.take_back(left);
    slot.wake(Wakes::All);
    assert!(second_woken() && !third_woken() && slot.with_first(|_| ()).is_none() && slot.may_be_ready());
    slot.clear();
    assert!(slot.may_be_ready(), "what is sticky stays");
}

#[test]
fn a_backlog_is_told_once() {
    let slot: Slot<Flag> = Slot::default();
    slot.clear();
    assert!(slot.set_backlog());
    slot.raise(false, Wakes::All);
    assert!(slot.take_backlog() && !slot.take_backlog());
    assert!(!slot.set_backlog(), "an edge has come");
}
