//! Many threads post to many domains, whose fibers now and then block: each post runs once, under one owner,
//! and in the end nothing is left.

use perilune_domain::sched::{Next, Ownership, Quiescence, threads};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const DOMAINS: usize = 20;
const POSTERS: u64 = 4;
const POSTS: u64 = 250_000;

struct Domain {
    ownership: Ownership<u64>,
    /// Sum of what ran, and how much: plain, for the owner only.
    heap: UnsafeCell<(u64, u64)>,
    ran: Arc<AtomicU64>,
}

// SAFETY: the cell is touched only by the ownership's owner.
unsafe impl Sync for Domain {}

impl Domain {
    fn touch(&self, fiber: u64) {
        // SAFETY: the caller owns the ownership.
        let heap = unsafe { &mut *self.heap.get() };
        heap.0 = heap.0.wrapping_add(fiber);
        heap.1 += 1;
    }
}

impl threads::Job for Domain {
    fn run(self: Arc<Self>) {
        let Some(mut owned) = self.ownership.begin() else { return };
        let mut n = 0u32;
        loop {
            match self.ownership.next(&mut owned) {
                Next::Fiber(fiber) => {
                    n += 1;
                    if fiber % 1000 == 1 {
                        self.ownership.detach(owned);
                        if fiber % 10_000 == 1 {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                        owned = self.ownership.attach().expect("never closed");
                    }
                    self.touch(fiber);
                    if n.is_multiple_of(64) || fiber % 1000 == 1 {
                        self.ran.fetch_add(u64::from(n), Ordering::AcqRel);
                        n = 0;
                    }
                }
                last => {
                    self.ran.fetch_add(u64::from(std::mem::take(&mut n)), Ordering::AcqRel);
                    if last == Next::HandOver {
                        return self.ownership.hand_over(owned);
                    }
                    match self.ownership.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    }
                }
            }
        }
    }
}

#[test]
fn a_million_posts_each_run_once() {
    let quiescence = Quiescence::new(Box::new(|_| {}));
    let ran = Arc::new(AtomicU64::new(0));
    let domains: Vec<Arc<Domain>> = (0..DOMAINS)
        .map(|_| {
            Arc::new_cyclic(|me: &Weak<Domain>| {
                let me = me.clone();
                let activate = move || threads::run(me.upgrade().expect("the test keeps it"));
                let ownership = Ownership::new(quiescence.clone(), Box::new(activate));
                Domain { ownership, heap: UnsafeCell::new((0, 0)), ran: ran.clone() }
            })
        })
        .collect();
    let main = quiescence.hold();
    std::thread::scope(|s| {
        for poster in 0..POSTERS {
            let domains = &domains;
            s.spawn(move || {
                let mut random = 0x9e37_79b9_7f4a_7c15 ^ (poster << 32 | 1);
                for i in 0..POSTS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    domains[random as usize % DOMAINS].ownership.post(poster * POSTS + i).unwrap();
                }
            });
        }
    });
    drop(main);
    let end = Instant::now() + Duration::from_secs(60);
    while quiescence.units() > 0 {
        assert!(Instant::now() < end, "{} ran, {} units", ran.load(Ordering::Acquire), quiescence.units());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(ran.load(Ordering::Acquire), POSTERS * POSTS);
    let (mut sum, mut count) = (0u64, 0);
    for domain in &domains {
        assert!(!domain.ownership.is_owned());
        // SAFETY: no domain is owned or ready: the count is nought and read after the last leave.
        let heap = unsafe { *domain.heap.get() };
        sum = sum.wrapping_add(heap.0);
        count += heap.1;
    }
    assert_eq!(count, POSTERS * POSTS);
    assert_eq!(sum, (0..POSTERS * POSTS).sum());
}
