use perilune_domain::sched::{Next, Owned, Rest, Token};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts activations.
fn counter() -> (Arc<AtomicUsize>, Box<dyn Fn() + Send + Sync>) {
    let activations = Arc::new(AtomicUsize::new(0));
    let counter = activations.clone();
    (activations, Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst)))
}

fn idle() -> (Token<u32>, Arc<AtomicUsize>, Arc<Rest>) {
    let rest = Rest::new(Box::new(|_| {}));
    let (activations, activate) = counter();
    (Token::new(rest.clone(), activate), activations, rest)
}

fn owned() -> (Token<u32>, Owned, Arc<AtomicUsize>, Arc<Rest>) {
    let rest = Rest::new(Box::new(|_| {}));
    let (activations, activate) = counter();
    let (token, owned) = Token::owned(rest.clone(), activate);
    (token, owned, activations, rest)
}

#[test]
fn many_posts_are_one_activation_and_come_out_in_order() {
    let (token, activations, rest) = idle();
    assert!(token.begin().is_none(), "nothing is ready");
    (0..3).for_each(|f| token.post(f).unwrap());
    token.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 1);
    let mut owned = token.begin().unwrap();
    assert!(token.begin().is_none(), "a second activation has nothing to do");
    (0..3).for_each(|f| assert_eq!(token.next(&mut owned), Next::Fiber(f)));
    assert_eq!(token.next(&mut owned), Next::Empty);
    token.poke();
    owned = token.try_leave(owned).expect_err("there may be tasks");
    assert_eq!(token.next(&mut owned), Next::Empty);
    assert!(token.try_leave(owned).is_ok());
    assert_eq!(rest.units(), 0);
    token.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 2);
}

#[test]
fn detaching_with_work_activates_and_the_caller_may_still_be_faster() {
    let (token, mut owned, activations, rest) = owned();
    token.post(1).unwrap();
    assert_eq!(activations.load(Ordering::SeqCst), 0, "the owner will see it");
    token.detach(owned);
    assert_eq!((activations.load(Ordering::SeqCst), rest.units()), (1, 2));
    owned = token.attach().unwrap();
    assert_eq!(rest.units(), 1);
    assert!(token.begin().is_none());
    token.detach(owned);
    assert_eq!(activations.load(Ordering::SeqCst), 2);
    owned = token.begin().unwrap();
    assert_eq!(token.next(&mut owned), Next::Fiber(1));
}

#[test]
fn returning_threads_go_first_and_in_order() {
    let (token, mut owned, _, rest) = owned();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for i in 0..3 {
            rest.enter(); // as if thread i had been in a call
            let (token, order, rest) = (&token, &order, &rest);
            s.spawn(move || {
                let owned = token.attach().unwrap();
                order.lock().unwrap().push(i);
                assert_eq!(token.is_wanted(), i < 2);
                token.detach(owned);
                rest.leave();
            });
            // In the list before the next one comes.
            let before = std::time::Instant::now();
            while token.next(&mut owned) != Next::HandOver {
                assert!(before.elapsed().as_secs() < 30);
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        token.post(9).unwrap();
        assert_eq!(token.next(&mut owned), Next::HandOver, "before the fiber");
        token.hand_over(owned);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    let mut owned = token.begin().expect("the last one has detached: the fiber's turn");
    assert_eq!(token.next(&mut owned), Next::Fiber(9));
    assert!(token.try_leave(owned).is_ok());
    assert_eq!(rest.units(), 0);
}

/// Two threads whose calls end at once and for ever, and a fiber: it gets its turn.
#[test]
fn calls_that_return_for_ever_do_not_starve_a_fiber() {
    let (token, owned, activations, rest) = owned();
    let (stop, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..2 {
            rest.enter();
            s.spawn(|| {
                while stop.load(Ordering::SeqCst) == 0 {
                    let owned = token.attach().unwrap();
                    served.fetch_add(1, Ordering::SeqCst);
                    // Until the other one is there too: the flood.
                    while !token.is_wanted() && stop.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    token.detach(owned);
                }
                rest.leave();
            });
        }
        while !token.is_wanted() {
            std::thread::yield_now();
        }
        token.post(1).unwrap();
        token.detach(owned);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut owned = loop {
            if let Some(owned) = token.begin() {
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
        assert_eq!(token.next(&mut owned), Next::Fiber(1));
        token.post(2).unwrap();
        assert_eq!(token.next(&mut owned), Next::HandOver, "now a thread again");
        stop.store(1, Ordering::SeqCst);
        token.hand_over(owned);
    });
    // The fiber is still ready, and the threads are gone: it has been activated again, or will not have to be.
    let mut owned = token.begin().unwrap();
    assert_eq!(token.next(&mut owned), Next::Fiber(2));
    token.poke();
    assert_eq!(token.next(&mut owned), Next::Empty);
    assert!(token.try_leave(owned).is_ok(), "the pump was told to look for tasks after the poke");
    rest.leave();
    assert_eq!(rest.units(), 0);
}

#[test]
fn a_closed_domain_gives_back_what_it_gets() {
    let (token, owned, _, rest) = owned();
    token.post(1).unwrap();
    token.post(2).unwrap();
    assert_eq!(token.close(owned), [1, 2]);
    assert_eq!(token.post(3), Err(3));
    token.poke();
    assert!(token.begin().is_none());
    rest.enter();
    assert!(token.attach().is_none());
    rest.leave();
    assert_eq!(rest.units(), 0);
    assert!(token.is_closed());
}

/// A proof of one domain is none of another.
#[test]
#[should_panic = "a proof of another token"]
fn a_proof_is_of_one_token() {
    let ((one, _mine, ..), (_other, theirs, ..)) = (owned(), owned());
    one.detach(theirs);
}
