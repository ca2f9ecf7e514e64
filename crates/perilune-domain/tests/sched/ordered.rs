use perilune_domain::sched::Lanes;
use std::sync::Mutex;

#[test]
fn a_lane_is_busy_from_its_first_event_until_its_turn_finds_none() {
    let lanes = Lanes::new();
    assert!(lanes.push("a", 1));
    assert!(!lanes.push("a", 2));
    assert!(lanes.push("b", 3));
    assert_eq!(lanes.next(&"a"), Some(1));
    assert!(!lanes.push("a", 4), "the first event is still being handled");
    assert_eq!(lanes.next(&"a"), Some(2));
    assert_eq!(lanes.next(&"a"), Some(4));
    assert!(!lanes.push("a", 5), "the last one is");
    assert_eq!(lanes.next(&"a"), Some(5));
    assert_eq!(lanes.next(&"a"), None);
    assert_eq!(lanes.busy(), 1);
    assert!(lanes.push("a", 6));
    assert_eq!((lanes.len(&"a"), lanes.len(&"c")), (1, 0));
}

#[test]
fn two_threads_push_and_whoever_is_told_handles() {
    const EACH: u32 = 20_000;
    let lanes = Lanes::new();
    let seen: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for thread in 0..2 {
            let (lanes, seen) = (&lanes, &seen);
            s.spawn(move || {
                for i in 0..EACH {
                    if lanes.push(0, (thread, i)) {
                        while let Some(event) = lanes.next(&0) {
                            seen.try_lock().expect("one event at a time").push(event);
                        }
                    }
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 2 * EACH as usize);
    for thread in 0..2 {
        let own = seen.iter().filter(|e| e.0 == thread).map(|e| e.1);
        assert!(own.eq(0..EACH), "the order of thread {thread}");
    }
}
