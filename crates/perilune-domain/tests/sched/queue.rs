use perilune_domain::sched::Queue;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn quiet() -> perilune_domain::sched::queue::Poke {
    Box::new(|_| {})
}

#[test]
fn the_owner_takes_the_newest_and_a_thief_the_oldest() {
    let (_, mut seats) = Queue::new(2, quiet());
    for i in 0..4 {
        seats[0].push(i).unwrap();
    }
    assert_eq!(seats[0].take(), Some(3));
    assert_eq!(seats[1].take(), Some(0));
    assert_eq!(seats[0].take_own(), Some(2));
    assert_eq!(seats[1].take_own(), None);
    assert_eq!(seats[1].take(), Some(1));
    assert_eq!(seats[1].take(), None);
}

#[test]
fn tasks_from_outside_are_taken_in_order_by_one_worker() {
    let (queue, mut seats) = Queue::new(1, quiet());
    (0..3).for_each(|i| queue.inject(i).unwrap());
    assert_eq!(queue.len(), 3);
    assert_eq!(seats[0].take(), Some(0));
}

#[test]
fn whoever_gives_way_lets_the_oldest_go_first() {
    let (queue, mut seats) = Queue::new(1, quiet());
    assert!(!seats[0].could_take_oldest());
    for i in 0..3 {
        seats[0].push(i).unwrap();
    }
    queue.inject(9).unwrap();
    assert!(seats[0].could_take_oldest());
    let order: Vec<_> = std::iter::from_fn(|| seats[0].take_oldest()).collect();
    assert_eq!(order, [9, 0, 1, 2]);
    assert_eq!(seats[0].stolen_from(), None);
}

#[test]
fn a_worker_with_endless_tasks_of_its_own_looks_outside_now_and_then() {
    let (queue, mut seats) = Queue::new(1, quiet());
    seats[0].push(0).unwrap();
    queue.inject(1).unwrap();
    let taken = (0..200).find(|_| {
        let task = seats[0].take().unwrap();
        seats[0].push(0).unwrap();
        task == 1
    });
    assert!(taken.is_some());
}

#[test]
fn a_closed_pool_takes_nothing_in_and_gives_out_what_it_has() {
    let pokes = Arc::new(Mutex::new(Vec::new()));
    let list = pokes.clone();
    let (queue, mut seats) = Queue::new(3, Box::new(move |w| list.lock().unwrap().push(w)));
    seats[1].push(1).unwrap();
    queue.inject(2).unwrap();
    assert!(!seats[2].settle(), "tasks are queued");
    assert_eq!(*pokes.lock().unwrap(), []);
    queue.close();
    assert_eq!(*pokes.lock().unwrap(), [2], "the idle one is told");
    assert_eq!(queue.inject(3), Err(3));
    assert_eq!(seats[0].push(4), Err(4));
    seats[0].push_part(5);
    let mut rest = queue.drain();
    rest.sort_unstable();
    assert_eq!(rest, [1, 2, 5]);
    assert!(queue.is_empty());
}

#[test]
fn a_flood_pokes_one_worker_until_it_has_found_something() {
    let pokes = Arc::new(Mutex::new(Vec::new()));
    let list = pokes.clone();
    let (_, mut seats) = Queue::new(3, Box::new(move |w| list.lock().unwrap().push(w)));
    assert!(seats[1].settle());
    assert!(!seats[2].lend());
    assert!(seats[0].hungry());
    (0..1_000_000).for_each(|i| seats[0].push(i).unwrap());
    assert!(!seats[0].hungry(), "what was pushed has not been taken");
    assert_eq!(*pokes.lock().unwrap(), [1], "the idle one before the one that is lent");
    assert!(seats[1].take().is_some());
    assert_eq!(*pokes.lock().unwrap(), [1, 2]);
    // The lent one was called, but its call returns and it goes on with that: nobody is left to call.
    seats[2].busy();
    assert_eq!(*pokes.lock().unwrap(), [1, 2]);
    assert!(!seats[0].queue().hungry());
}

#[test]
fn a_called_worker_that_finds_nothing_may_be_called_again() {
    let pokes = Arc::new(AtomicUsize::new(0));
    let counter = pokes.clone();
    let (queue, mut seats) = Queue::new(2, Box::new(move |_| _ = counter.fetch_add(1, Ordering::SeqCst)));
    for round in 1..=3 {
        assert!(seats[1].settle());
        queue.inject(round).unwrap();
        assert_eq!(pokes.load(Ordering::SeqCst), round);
        assert_eq!(seats[0].take(), Some(round), "another worker was faster");
        assert_eq!(seats[1].take(), None);
    }
}

#[test]
fn a_worker_that_ends_passes_its_call_and_its_tasks_on() {
    let pokes = Arc::new(Mutex::new(Vec::new()));
    let list = pokes.clone();
    let (queue, mut seats) = Queue::new(3, Box::new(move |w| list.lock().unwrap().push(w)));
    let (mut last, mut middle) = (seats.pop().unwrap(), seats.pop().unwrap());
    assert!(middle.settle() && last.settle());
    queue.inject(1).unwrap();
    assert_eq!(*pokes.lock().unwrap(), [2]);
    drop(last);
    assert_eq!(*pokes.lock().unwrap(), [2, 1]);
    seats[0].push(2).unwrap();
    drop(seats);
    let mut tasks = [middle.take(), middle.take()];
    tasks.sort_unstable();
    assert_eq!(tasks, [Some(1), Some(2)]);
}

#[test]
fn every_task_is_taken_once() {
    const TASKS: usize = 200_000;
    let (queue, seats) = Queue::new(4, quiet());
    let seen: Vec<AtomicUsize> = (0..TASKS).map(|_| AtomicUsize::new(0)).collect();
    let taken = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for mut seat in seats {
            let (seen, taken) = (&seen, &taken);
            s.spawn(move || {
                let mut own = seat.number();
                while taken.load(Ordering::Relaxed) < TASKS {
                    // Half of all tasks come from the workers, a few at a time.
                    for _ in 0..4 {
                        if own < TASKS / 2 {
                            seat.push(own).unwrap();
                            own += 4;
                        }
                    }
                    match seat.take() {
                        Some(task) => {
                            seen[task].fetch_add(1, Ordering::Relaxed);
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                        None => std::thread::yield_now(),
                    }
                }
            });
        }
        (TASKS / 2..TASKS).for_each(|i| queue.inject(i).unwrap());
    });
    assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1));
}
