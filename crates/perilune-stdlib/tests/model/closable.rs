//! One user at a time; nobody sleeps for ever; the closer gets the value once, and nobody enters afterwards.

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
        if let Some(value) = lock.try_enter()? {
            // SAFETY: the model fails if somebody else is here.
            value.with_mut(|value| unsafe { *value += 1 });
            return Ok(());
        }
        let Ok(()) = lock.sleep();
    }
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
