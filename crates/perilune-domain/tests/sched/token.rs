use perilune_domain::sched::{Next, Rest, Token};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn counted(owned: bool) -> (Token<u32>, Arc<AtomicUsize>, Arc<Rest>) {
    let rest = Rest::new(Box::new(|_| {}));
    let activations = Arc::new(AtomicUsize::new(0));
    let counter = activations.clone();
    let activate = Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst));
    let token = if owned { Token::owned(rest.clone(), activate) } else { Token::new(rest.clone(), activate) };
    (token, activations, rest)
}

#[test]
fn many_posts_are_one_activation_and_come_out_in_order() {
    let (token, activations, rest) = counted(false);
    assert!(!token.begin(), "nothing is ready");
    (0..3).for_each(|f| token.post(f).unwrap());
    token.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 1);
    assert!(token.begin());
    assert!(!token.begin(), "a second activation has nothing to do");
    (0..3).for_each(|f| assert_eq!(token.next(), Next::Fiber(f)));
    assert_eq!(token.next(), Next::Empty);
    token.poke();
    assert!(!token.try_leave(), "there may be tasks");
    assert_eq!(token.next(), Next::Empty);
    assert!(token.try_leave());
    assert_eq!(rest.units(), 0);
    token.poke();
    assert_eq!(activations.load(Ordering::SeqCst), 2);
}

#[test]
fn detaching_with_work_activates_and_the_caller_may_still_be_faster() {
    let (token, activations, rest) = counted(true);
    token.post(1).unwrap();
    assert_eq!(activations.load(Ordering::SeqCst), 0, "the owner will see it");
    token.detach();
    assert_eq!((activations.load(Ordering::SeqCst), rest.units()), (1, 2));
    assert!(token.attach());
    assert_eq!(rest.units(), 1);
    assert!(!token.begin());
    token.detach();
    assert_eq!(activations.load(Ordering::SeqCst), 2);
    assert!(token.begin());
    assert_eq!(token.next(), Next::Fiber(1));
}

#[test]
fn returning_threads_go_first_and_in_order() {
    let (token, _, rest) = counted(true);
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for i in 0..3 {
            rest.enter(); // as if thread i had been in a call
            let (token, order, rest) = (&token, &order, &rest);
            s.spawn(move || {
                assert!(token.attach());
                order.lock().unwrap().push(i);
                assert_eq!(token.is_wanted(), i < 2);
                token.detach();
                rest.leave();
            });
            // In the list before the next one comes.
            let before = std::time::Instant::now();
            while token.next() != Next::HandOver {
                assert!(before.elapsed().as_secs() < 30);
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        token.post(9).unwrap();
        assert_eq!(token.next(), Next::HandOver, "before the fiber");
        token.hand_over();
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    assert!(token.begin(), "the last one has detached: the fiber's turn");
    assert_eq!(token.next(), Next::Fiber(9));
    assert!(token.try_leave());
    assert_eq!(rest.units(), 0);
}

/// Two threads whose calls end at once and for ever, and a fiber: it gets its turn.
#[test]
fn calls_that_return_for_ever_do_not_starve_a_fiber() {
    let (token, activations, rest) = counted(true);
    let (stop, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..2 {
            rest.enter();
            s.spawn(|| {
                while stop.load(Ordering::SeqCst) == 0 {
                    assert!(token.attach());
                    served.fetch_add(1, Ordering::SeqCst);
                    // Until the other one is there too: the flood.
                    while !token.is_wanted() && stop.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    token.detach();
                }
                rest.leave();
            });
        }
        while !token.is_wanted() {
            std::thread::yield_now();
        }
        token.post(1).unwrap();
        token.detach();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !token.begin() {
            assert!(std::time::Instant::now() < end, "the fiber never had its turn");
            std::thread::yield_now();
        }
        assert!(served.load(Ordering::SeqCst) <= 2);
        assert_eq!(activations.load(Ordering::SeqCst), 1);
        assert_eq!(token.next(), Next::Fiber(1));
        token.post(2).unwrap();
        assert_eq!(token.next(), Next::HandOver, "now a thread again");
        stop.store(1, Ordering::SeqCst);
        token.hand_over();
    });
    // The fiber is still ready, and the threads are gone: it has been activated again, or will not have to be.
    assert!(token.begin());
    assert_eq!(token.next(), Next::Fiber(2));
    token.poke();
    assert_eq!(token.next(), Next::Empty);
    assert!(token.try_leave(), "the pump was told to look for tasks after the poke");
    rest.leave();
    assert_eq!(rest.units(), 0);
}

#[test]
fn a_closed_domain_gives_back_what_it_gets() {
    let (token, _, rest) = counted(true);
    token.post(1).unwrap();
    token.post(2).unwrap();
    assert_eq!(token.close(), [1, 2]);
    assert_eq!(token.post(3), Err(3));
    token.poke();
    assert!(!token.begin());
    rest.enter();
    assert!(!token.attach());
    rest.leave();
    assert_eq!(rest.units(), 0);
    assert!(token.is_closed());
}
