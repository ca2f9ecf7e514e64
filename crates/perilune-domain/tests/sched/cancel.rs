use perilune_domain::sched::cancel::{CancelToken, Hook};
use perilune_domain::sched::{Reason, Sleeper, Waiter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Nobody;
impl Sleeper for Nobody {
    fn rouse(&self, _: Reason) {}
    fn describe(&self) -> String {
        String::new()
    }
}

fn counting(counter: &Arc<AtomicUsize>) -> Hook {
    let counter = counter.clone();
    Hook::Call(Box::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    }))
}

#[test]
fn hooks_are_called_once_and_late_ones_at_once() {
    let (calls, token) = (Arc::new(AtomicUsize::new(0)), CancelToken::new());
    token.add(counting(&calls));
    let removed = token.add(counting(&calls));
    assert!(token.remove(removed));
    assert!(!token.remove(removed));
    assert!(!token.is_cancelled());
    assert!(token.cancel());
    assert!(!token.cancel());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let late = token.add(counting(&calls));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(!token.remove(late));
}

#[test]
fn a_wait_and_a_child_are_cancelled_too() {
    let (parent, child) = (CancelToken::new(), CancelToken::new());
    let waiter: Arc<Waiter> = Waiter::new(Nobody);
    child.add(Hook::Wake(waiter.clone()));
    parent.add(Hook::Child(child.clone()));
    parent.clone().cancel();
    assert!(child.is_cancelled());
    assert_eq!(waiter.woken(), Some((Reason::Cancelled, 0)));
    assert!(!waiter.wake(Reason::Ready));
}

#[test]
fn a_hook_added_while_others_cancel_is_called_once() {
    for _ in 0..200 {
        let (calls, token) = (Arc::new(AtomicUsize::new(0)), CancelToken::new());
        let other = token.clone();
        std::thread::scope(|s| {
            s.spawn(move || other.cancel());
            token.add(counting(&calls));
        });
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}
