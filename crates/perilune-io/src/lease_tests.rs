//! The lease with the system's threads; `tests/model` has every interleaving of a few steps.

use crate::lease::{Bell, Lease, To};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Sound(Mutex<bool>, Condvar);

impl Bell for Arc<Sound> {
    fn ring(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
    fn silence(&self) {
        let mut sounds = self.0.lock().unwrap();
        while !*sounds {
            sounds = self.1.wait(sounds).unwrap();
        }
        *sounds = false;
    }
}

fn lease() -> (Lease<Arc<Sound>>, Arc<Sound>) {
    let sound = Arc::new(Sound::default());
    (Lease::new(Arc::clone(&sound)), sound)
}

#[test]
fn a_worker_takes_it_from_anybody_but_another_worker() {
    let (lease, _) = lease();
    assert!(lease.is_threads() && lease.take());
    assert!(!lease.is_threads() && !lease.take());
    lease.give_back(To::Anybody);
    assert!(lease.take());
}

#[test]
fn one_that_is_given_to_the_thread_is_the_threads() {
    let (lease, sound) = lease();
    assert!(lease.take());
    lease.give_back(To::Thread);
    assert!(lease.is_threads() && lease.take());
    lease.call();
    lease.give_back(To::Thread);
    assert!(!*sound.0.lock().unwrap() && lease.is_threads());
}

#[test]
fn the_bell_sounds_for_a_worker_that_holds_it_and_once() {
    let (lease, sound) = lease();
    let sounds = || *sound.0.lock().unwrap();
    lease.call();
    assert!(!sounds(), "the thread is not called");
    assert!(lease.take());
    lease.call();
    lease.call();
    assert!(sounds() && !lease.take(), "called, it has the lease still");
    lease.give_back(To::Anybody);
    assert!(!sounds());
    lease.call();
    assert!(!sounds() && lease.take(), "nobody is there to be called");
    lease.give_back(To::Anybody);
}

/// However workers take it and give it back, the thread has it in the end.
#[test]
fn the_thread_gets_it_when_nobody_else_wants_it() {
    let lease = Arc::new(lease().0);
    assert!(lease.take());
    let (got, gets) = mpsc::channel();
    let thread = std::thread::spawn({
        let lease = Arc::clone(&lease);
        move || {
            lease.set_thread();
            for _ in 0..50 {
                lease.wait();
                got.send(()).unwrap();
                while lease.is_threads() {
                    std::thread::yield_now();
                }
            }
        }
    });
    for round in 0..50 {
        if round > 0 {
            assert!(lease.take());
        }
        for _ in 0..round % 7 {
            // Short, and long enough for the thread to fall asleep.
            std::thread::sleep(Duration::from_micros(700 * (round % 5)));
            lease.give_back(To::Anybody);
            assert!(lease.take());
        }
        lease.give_back(To::Anybody);
        gets.recv_timeout(LONG).expect("the thread has got it");
    }
    assert!(lease.take());
    thread.join().unwrap();
}
