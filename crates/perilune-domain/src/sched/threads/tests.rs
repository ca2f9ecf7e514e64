//! A cache with a starter of its own, so that the kernel's refusals can be arranged.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};

const LONG: Duration = Duration::from_secs(30);

fn cache(start: Start, keep: Duration, cap: usize) -> &'static Cache {
    let cache: &'static Cache = Box::leak(Box::new(Cache::new(start, keep)));
    cache.set_cap(cap);
    cache
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn jobs_over_the_cap_wait_and_run() {
    let cache = cache(start_thread, KEEP, 2);
    let gate = Arc::new(Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    for i in 0..12 {
        let (sender, gate) = (sender.clone(), gate.clone());
        cache.run(Once::job(move || {
            if i < 2 {
                gate.wait();
            }
            sender.send(i).unwrap();
        }));
    }
    assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err(), "two threads, both blocked");
    gate.wait();
    let mut ran: Vec<i32> = (0..12).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..12).collect::<Vec<_>>());
    assert_eq!(lock(&cache.state).peak, 2);
}

#[test]
fn a_raised_cap_starts_what_waits() {
    let cache = cache(start_thread, KEEP, 1);
    let gate = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let gate = gate.clone();
        cache.run(Once::job(move || {
            gate.wait();
        }));
    }
    cache.set_cap(2);
    until("both run at once and become idle", || lock(&cache.state).idle.len() == 2);
}

static REFUSALS: AtomicUsize = AtomicUsize::new(0);

fn refuse_some(number: usize, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    if REFUSALS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    start_thread(number, body)
}

#[test]
fn a_refused_thread_loses_no_job() {
    let cache = cache(refuse_some, KEEP, 100);
    let (sender, receiver) = mpsc::channel();
    let ran = |n: usize| {
        for _ in 0..n {
            receiver.recv_timeout(LONG).expect("every job runs");
        }
    };
    let job = || {
        let sender = sender.clone();
        Once::job(move || sender.send(()).unwrap())
    };
    // No thread at all: the caller tries again.
    REFUSALS.store(3, Ordering::SeqCst);
    cache.run(job());
    ran(1);
    // The only thread waits for the job that was refused a thread.
    until("idle again", || lock(&cache.state).idle.len() == 1);
    let gate = Arc::new(Barrier::new(2));
    let (g, s) = (gate.clone(), sender.clone());
    cache.run(Once::job(move || {
        g.wait();
        s.send(()).unwrap();
    }));
    REFUSALS.store(2, Ordering::SeqCst);
    cache.run(Once::job(move || {
        gate.wait();
    }));
    ran(1);
    // Many at once.
    REFUSALS.store(20, Ordering::SeqCst);
    (0..50).for_each(|_| cache.run(job()));
    ran(50);
}

#[test]
fn the_last_idle_thread_is_taken_first_and_others_retire() {
    let cache = cache(start_thread, Duration::from_millis(60), 100);
    let gate = Arc::new(Barrier::new(9));
    for _ in 0..8 {
        let gate = gate.clone();
        cache.run(Once::job(move || {
            gate.wait();
        }));
    }
    gate.wait();
    assert_eq!(lock(&cache.state).started, 8);
    // On a busy machine the first of them may have retired before the last one is idle.
    until("none of them runs", || {
        let state = lock(&cache.state);
        state.idle.len() == state.live
    });
    // A light load keeps one thread alive, however many there were.
    until("seven retire", || {
        let (sender, receiver) = mpsc::channel();
        cache.run(Once::job(move || sender.send(()).unwrap()));
        receiver.recv_timeout(LONG).unwrap();
        lock(&cache.state).live <= 2
    });
    until("the last one retires too", || lock(&cache.state).live == 0);
    assert!(lock(&cache.state).idle.is_empty());
}

#[test]
fn a_job_that_panics_does_not_take_its_thread_along() {
    let cache = cache(start_thread, KEEP, 1);
    let (sender, receiver) = mpsc::channel();
    cache.run(Once::job(|| std::panic::resume_unwind(Box::new("on purpose"))));
    cache.run(Once::job(move || sender.send(()).unwrap()));
    receiver.recv_timeout(LONG).expect("the one thread still works");
    assert_eq!(lock(&cache.state).started, 1);
}

#[test]
fn there_is_a_core() {
    assert!(available_cores() >= 1);
}
