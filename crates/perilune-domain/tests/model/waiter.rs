//! A wait ends once, and its sleeper is roused once if it slept and never if it did not.

use super::explore;
use super::sched::waiter::{Reason, Sleeper, Waiter};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

struct Slot(loom::cell::UnsafeCell<u32>);

// SAFETY: the claim decides who touches it, and loom reports a race if it does not.
unsafe impl Sync for Slot {}

struct Counting(AtomicUsize);

impl Sleeper for Counting {
    fn rouse(&self, _: Reason) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn describe(&self) -> String {
        String::new()
    }
}

#[test]
fn one_source_wins_and_rouses_only_who_sleeps() {
    explore(3, || {
        let waiter = Waiter::new(Counting(AtomicUsize::new(0)));
        let sources: Vec<_> = [Reason::Ready, Reason::Timeout]
            .into_iter()
            .map(|reason| {
                let waiter: Arc<Waiter<Counting>> = waiter.clone();
                thread::spawn(move || waiter.wake(reason).then_some(reason))
            })
            .collect();
        let slept = waiter.sleep();
        let winners: Vec<_> = sources.into_iter().filter_map(|s| s.join().unwrap()).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(waiter.woken(), Some((winners[0], 0)));
        assert_eq!(waiter.sleeper().0.load(Ordering::SeqCst), usize::from(slept));
    });
}

#[test]
fn a_claimed_message_is_there_when_the_sleeper_runs() {
    explore(3, || {
        let slot = Arc::new(Slot(loom::cell::UnsafeCell::new(0)));
        let waiter = Waiter::new(Counting(AtomicUsize::new(0)));
        let (w, s) = (waiter.clone(), slot.clone());
        let sender = thread::spawn(move || {
            if let Some(claim) = w.claim(Reason::Ready, 7) {
                // SAFETY: the claim is exclusive, and the receiver looks only after it was roused; loom
                // checks it.
                s.0.with_mut(|p| unsafe { *p = 42 });
                drop(claim);
            }
        });
        if waiter.sleep() {
            while waiter.sleeper().0.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            // SAFETY: roused, so the claim is gone.
            slot.0.with(|p| assert_eq!(unsafe { *p }, 42));
            assert_eq!(waiter.woken(), Some((Reason::Ready, 7)));
        }
        sender.join().unwrap();
    });
}
