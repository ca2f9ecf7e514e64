//! One user at a time, with and without the lock; nobody sleeps for ever; the closer gets the value once, and nobody enters afterwards.

use super::bias::User;
use super::closable::{Closable, Closed};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// A value whose uses the model watches: two at once are a failure.
type Lock = Closable<UnsafeCell<u32>>;

fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_duration = Some(std::time::Duration::from_secs(20));
    model.check(f);
}

fn lock() -> Arc<Lock> {
    Arc::new(Closable::new(UnsafeCell::new(0)))
}

/// Enters, waiting if need be, and counts.
fn count(lock: &Lock) -> Result<(), Closed> {
    loop {
        if let Some(value) = lock.try_enter(None)? {
            // SAFETY: the model fails if somebody else is here.
            value.with_mut(|value| unsafe { *value += 1 });
            return Ok(());
        }
        let Ok(()) = lock.sleep();
    }
}

/// Counts as the domain `me`, without the lock if it has the bias. How often it needed none.
fn count_as(lock: &Lock, me: User, times: usize) -> Result<usize, Closed> {
    let mut without = 0;
    for _ in 0..times {
        // SAFETY: each domain of the model is one thread, and the use ends at once.
        if let Some(value) = unsafe { lock.briefly(me) } {
            // SAFETY: the model fails if somebody else is here.
            value.with_mut(|value| unsafe { *value += 1 });
            without += 1;
            continue;
        }
        loop {
            if let Some(value) = lock.try_enter(Some(me))? {
                // SAFETY: as above.
                value.with_mut(|value| unsafe { *value += 1 });
                value.give_bias(me);
                break;
            }
            let Ok(()) = lock.sleep();
        }
    }
    Ok(without)
}

/// Closes, waiting if need be; the count. `None`: it was closed already.
fn close(lock: &Lock) -> Option<u32> {
    let mut closing = lock.close()?;
    loop {
        if let Some(value) = closing.take() {
            // SAFETY: as above.
            return Some(value.with(|value| unsafe { *value }));
        }
        let Ok(()) = closing.sleep();
    }
}

#[test]
fn one_at_a_time() {
    explore(3, || {
        let lock = lock();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || count(&lock).unwrap())
            })
            .collect();
        count(&lock).unwrap();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(close(&lock), Some(3));
        assert_eq!(count(&lock), Err(Closed));
    });
}

#[test]
fn closing_waits_for_who_is_inside_and_sends_the_others_away() {
    explore(3, || {
        let lock = lock();
        let users: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || count(&lock).is_ok())
            })
            .collect();
        let counted = close(&lock).expect("nobody else closes");
        let entered = users.into_iter().map(|user| u32::from(user.join().unwrap())).sum::<u32>();
        assert_eq!(counted, entered, "whoever entered came before the closer");
    });
}

#[test]
fn one_of_two_closers_gets_it() {
    explore(3, || {
        let lock = lock();
        let user = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock).is_ok())
        };
        let closer = {
            let lock = lock.clone();
            thread::spawn(move || close(&lock))
        };
        let mine = close(&lock);
        let other = closer.join().unwrap();
        assert!(mine.is_some() != other.is_some());
        assert_eq!(mine.or(other), Some(u32::from(user.join().unwrap())));
    });
}

#[test]
fn a_closer_that_gives_up_leaves_it_open() {
    explore(3, || {
        let lock = lock();
        let user = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock).is_ok())
        };
        drop(lock.close());
        user.join().unwrap();
        assert!(count(&lock).is_ok());
    });
}

#[test]
fn who_has_the_bias_needs_no_lock() {
    explore(3, || {
        let lock = lock();
        assert_eq!(count_as(&lock, User(1), 3), Ok(2));
        assert_eq!(count_as(&lock, User(2), 2), Ok(0), "it is the other one's");
        // SAFETY: as in `count_as`.
        assert!(unsafe { lock.briefly(User(1)) }.is_none());
        assert_eq!(count_as(&lock, User(1), 2), Ok(1), "and becomes so again");
        assert_eq!(close(&lock), Some(7));
        assert_eq!(count_as(&lock, User(1), 1), Err(Closed));
    });
}

#[test]
fn a_bias_is_taken_from_who_uses_it() {
    explore(3, || {
        let lock = lock();
        assert_eq!(count_as(&lock, User(1), 1), Ok(0));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock).unwrap())
        };
        count_as(&lock, User(1), 2).unwrap();
        other.join().unwrap();
        assert_eq!(close(&lock), Some(4));
    });
}

#[test]
fn it_is_given_to_one_of_two_domains() {
    explore(3, || {
        let lock = lock();
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count_as(&lock, User(2), 2).unwrap())
        };
        count_as(&lock, User(1), 2).unwrap();
        other.join().unwrap();
        assert_eq!(close(&lock), Some(4));
    });
}

#[test]
fn closing_takes_the_bias_away() {
    explore(3, || {
        let lock = lock();
        assert_eq!(count_as(&lock, User(1), 1), Ok(0));
        let closer = {
            let lock = lock.clone();
            thread::spawn(move || close(&lock).expect("nobody else closes"))
        };
        let mut counted = 1;
        while counted < 3 && count_as(&lock, User(1), 1).is_ok() {
            counted += 1;
        }
        let closed = closer.join().unwrap();
        assert!(closed == counted, "{closed} of {counted}");
    });
}
