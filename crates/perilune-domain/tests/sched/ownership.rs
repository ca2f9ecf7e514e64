use perilune_domain::sched::{Next, Owned, Ownership, Quiescence};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts activations.
fn counter() -> (Arc<AtomicUsize>, Box<dyn Fn() + Send + Sync>) {
    let activations = Arc::new(AtomicUsize::new(0));
    let counter = activations.clone();
    (activations, Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst)))
}

fn idle() -> (Ownership<u32>, Arc<AtomicUsize>, Arc<Quiescence>) {
    let quiescence = Quiescence::new(Box::new(|_| {}));
    let (activations, activate) = counter();
    (Ownership::new(quiescence.clone(), activate), activations, quiescence)
}

fn owned() -> (Ownership<u32>, Owned, Arc<AtomicUsize>, Arc<Quiescence>) {
    let quiescence = Quiescence::new(Box::new(|_| {}));
    let (activations, activate) = counter();
    let (ownership, owned) = Ownership::owned(quiescence.clone(), activate);
    (ownership, owned, activations, quiescence)
}

#[test]
fn many_posts_are_one_activation_and_come_out_in_order() {
    let (ownership, activations, quiescence) = idle();
    assert!(ownership.begin().is_none(), "nothing is ready");
    (0..3).for_each(|f| ownership.post(f).unwrap());
    ownership.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 1);
    let mut owned = ownership.begin().unwrap();
    assert!(ownership.begin().is_none(), "a second activation has nothing to do");
    (0..3).for_each(|f| assert_eq!(ownership.next(&mut owned), Next::Fiber(f)));
    assert_eq!(ownership.next(&mut owned), Next::Empty);
    ownership.poke();
    owned = ownership.try_leave(owned).expect_err("there may be tasks");
    assert_eq!(ownership.next(&mut owned), Next::Empty);
    assert!(ownership.try_leave(owned).is_ok());
    assert_eq!(quiescence.units(), 0);
    ownership.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 2);
}

#[test]
fn detaching_with_work_activates_and_the_caller_may_still_be_faster() {
    let (ownership, mut owned, activations, quiescence) = owned();
    ownership.post(1).unwrap();
    assert_eq!(activations.load(Ordering::SeqCst), 0, "the owner will see it");
    ownership.detach(owned);
    assert_eq!((activations.load(Ordering::SeqCst), quiescence.units()), (1, 2));
    owned = ownership.attach().unwrap();
    assert_eq!(quiescence.units(), 1);
    assert!(ownership.begin().is_none());
    ownership.detach(owned);
    assert_eq!(activations.load(Ordering::SeqCst), 2);
    owned = ownership.begin().unwrap();
    assert_eq!(ownership.next(&mut owned), Next::Fiber(1));
}

#[test]
fn returning_threads_go_first_and_in_order() {
    let (ownership, mut owned, _, quiescence) = owned();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for i in 0..3 {
            quiescence.enter(); // as if thread i had been in a call
            let (ownership, order, quiescence) = (&ownership, &order, &quiescence);
            s.spawn(move || {
                let owned = ownership.attach().unwrap();
                order.lock().unwrap().push(i);
                assert_eq!(ownership.is_wanted(), i < 2);
                ownership.detach(owned);
                quiescence.leave();
            });
            // In the list before the next one comes.
            let before = std::time::Instant::now();
            while ownership.next(&mut owned) != Next::HandOver {
                assert!(before.elapsed().as_secs() < 30);
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        ownership.post(9).unwrap();
        assert_eq!(ownership.next(&mut owned), Next::HandOver, "before the fiber");
        ownership.hand_over(owned);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    let mut owned = ownership.begin().expect("the last one has detached: the fiber's turn");
    assert_eq!(ownership.next(&mut owned), Next::Fiber(9));
    assert!(ownership.try_leave(owned).is_ok());
    assert_eq!(quiescence.units(), 0);
}

/// Two threads whose calls end at once and for ever, and a fiber: it gets its turn.
#[test]
fn calls_that_return_for_ever_do_not_starve_a_fiber() {
    let (ownership, owned, activations, quiescence) = owned();
    let (stop, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..2 {
            quiescence.enter();
            s.spawn(|| {
                while stop.load(Ordering::SeqCst) == 0 {
                    let owned = ownership.attach().unwrap();
                    served.fetch_add(1, Ordering::SeqCst);
                    // Until the other one is there too: the flood.
                    while !ownership.is_wanted() && stop.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    ownership.detach(owned);
                }
                quiescence.leave();
            });
        }
        while !ownership.is_wanted() {
            std::thread::yield_now();
        }
        ownership.post(1).unwrap();
        ownership.detach(owned);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut owned = loop {
            if let Some(owned) = ownership.begin() {
                break owned;
            }
            assert!(std::time::Instant::now() < end, "the fiber never had its turn");
            std::thread::yield_now();
        };
        assert!(served.load(Ordering::SeqCst) <= 2);
        // Whoever has given it back activates a moment later: this thread may be faster.
        while activations.load(Ordering::SeqCst) == 0 && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(activations.load(Ordering::SeqCst), 1);
        assert_eq!(ownership.next(&mut owned), Next::Fiber(1));
        ownership.post(2).unwrap();
        assert_eq!(ownership.next(&mut owned), Next::HandOver, "now a thread again");
        stop.store(1, Ordering::SeqCst);
        ownership.hand_over(owned);
    });
    // The fiber is still ready, and the threads are gone: it has been activated again, or will not have to
    // be.
    let mut owned = ownership.begin().unwrap();
    assert_eq!(ownership.next(&mut owned), Next::Fiber(2));
    ownership.poke();
    assert_eq!(ownership.next(&mut owned), Next::Empty);
    assert!(ownership.try_leave(owned).is_ok(), "the pump was told to look for tasks after the poke");
    quiescence.leave();
    assert_eq!(quiescence.units(), 0);
}

#[test]
fn a_closed_domain_gives_back_what_it_gets() {
    let (ownership, owned, _, quiescence) = owned();
    ownership.post(1).unwrap();
    ownership.post(2).unwrap();
    assert_eq!(ownership.close(owned), [1, 2]);
    assert_eq!(ownership.post(3), Err(3));
    ownership.poke();
    assert!(ownership.begin().is_none());
    quiescence.enter();
    assert!(ownership.attach().is_none());
    quiescence.leave();
    assert_eq!(quiescence.units(), 0);
    assert!(ownership.is_closed());
}

/// A proof of one domain is none of another.
#[test]
#[should_panic = "a proof of another ownership"]
fn a_proof_is_of_one_token() {
    let ((one, _mine, ..), (_other, theirs, ..)) = (owned(), owned());
    one.detach(theirs);
}
