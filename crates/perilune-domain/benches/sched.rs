//! What the scheduler's elements cost, in ns: `cargo bench --profile fast -p perilune-domain --bench sched`.
//!
//! Each figure is the median of several runs: processor time of what one thread does alone, elapsed time
//! where threads wait for each other, which depends on how the kernel places them.

use perilune_domain::sched::ownership::Root;
use perilune_domain::sched::waiter::Sleeper;
use perilune_domain::sched::{
    Lanes, Next, Ownership, Queue, Quiescence, Reason, WaitList, Waiter, threads, timer,
};
use perilune_trace::{FiberRef, ObjectRef};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

/// The median over `runs` of `f`, which does something `n` times and returns how long that took.
fn report(name: &str, runs: usize, n: u32, mut f: impl FnMut(u32) -> Duration) {
    let mut times: Vec<f64> = (0..runs).map(|_| f(n).as_nanos() as f64 / f64::from(n)).collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<52} {:>10.1} ns", times[runs / 2]);
}

/// Processor time of this thread: what one thread does alone costs that, whatever else runs on the machine.
fn cpu() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call, which writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn spent(n: u32, mut f: impl FnMut(u32)) -> Duration {
    let start = cpu();
    for i in 0..n {
        f(i);
    }
    cpu() - start
}

fn timed(n: u32, mut f: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        f(i);
    }
    start.elapsed()
}

struct Nobody;
impl Sleeper for Nobody {
    fn rouse(&self, _: Reason) {}
    fn describe(&self) -> String {
        String::new()
    }
}

fn quiescence() -> Arc<Quiescence> {
    Quiescence::new(Box::new(|_| {}))
}

fn main() {
    tokens();
    waits();
    queues();
    timers();
    wakes();
}

fn tokens() {
    let (ownership, mut owned) = Ownership::<u32>::owned(quiescence(), Box::new(|| {}));
    report("post + next, same thread", 9, 1_000_000, |n| {
        spent(n, |i| {
            ownership.post(i).unwrap();
            assert_eq!(ownership.next(&mut owned), Next::Fiber(i));
        })
    });
    let mut owned = Some(owned);
    report("detach + attach, uncontended", 9, 1_000_000, |n| {
        spent(n, |_| {
            ownership.detach(owned.take().unwrap());
            owned = ownership.attach();
        })
    });
    let mut owned = owned.unwrap();
    let idle: Ownership<u32> = Ownership::new(quiescence(), Box::new(|| {}));
    report("post to idle + begin + next + try_leave", 9, 1_000_000, |n| {
        spent(n, |i| {
            idle.post(i).unwrap();
            let mut owned = idle.begin().unwrap();
            black_box(idle.next(&mut owned));
            assert!(idle.try_leave(owned).is_ok());
        })
    });
    let ownership = Arc::new(ownership);
    report("post from another thread + next", 9, 200_000, |n| {
        let poster = ownership.clone();
        let start = Instant::now();
        let thread = std::thread::spawn(move || (0..n).for_each(|i| poster.post(i).unwrap()));
        let mut got = 0;
        while got < n {
            if let Next::Fiber(_) = ownership.next(&mut owned) {
                got += 1;
            }
        }
        let time = start.elapsed();
        thread.join().unwrap();
        time
    });
}

fn waits() {
    report("waiter: new + sleep + wake", 9, 1_000_000, |n| {
        spent(n, |_| {
            let waiter = Waiter::new(Nobody);
            waiter.sleep();
            black_box(waiter.wake(Reason::Ready));
        })
    });
    let list = WaitList::new();
    let waiter: Arc<Waiter> = Waiter::new(Nobody);
    report("wait list: add + remove", 9, 1_000_000, |n| {
        spent(n, |_| {
            let slot = list.add(waiter.clone());
            list.remove(slot);
        })
    });
}

fn queues() {
    let (queue, mut seats) = Queue::<u32>::new(2, Box::new(|_| {}));
    let mut other = seats.pop().unwrap();
    let mut seat = seats.pop().unwrap();
    report("push + take, own seat", 9, 1_000_000, |n| {
        spent(n, |i| {
            seat.push(i).unwrap();
            black_box(seat.take());
        })
    });
    report("inject + take", 9, 1_000_000, |n| {
        spent(n, |i| {
            queue.inject(i).unwrap();
            black_box(seat.take());
        })
    });
    report("steal, victim on the same thread", 9, 100_000, |n| {
        (0..n).for_each(|i| seat.push(i).unwrap());
        spent(n, |_| assert!(other.take().is_some()))
    });
    report("hungry", 9, 1_000_000, |n| {
        spent(n, |_| {
            black_box(seat.hungry());
        })
    });
    other.settle();
    report("push beside a searching worker (1 poke in all)", 9, 1_000_000, |n| {
        let time = spent(n, |i| seat.push(i).unwrap());
        while seat.take_own().is_some() {}
        time
    });
    let lanes = Lanes::new();
    report("lanes: push + next, busy", 9, 1_000_000, |n| {
        let _ = lanes.push(7, 0);
        spent(n, |i| {
            black_box(lanes.push(7, i));
            black_box(lanes.next(&7));
        })
    });
}

fn timers() {
    let far = Instant::now() + Duration::from_secs(3600);
    report("timer: arm + cancel", 9, 100_000, |n| {
        spent(n, |_| assert!(timer::cancel(timer::after(far, || {}))))
    });
    let crowd: Vec<_> =
        (0..100_000).map(|i| timer::after(far + Duration::from_micros(i * 7919 % 100_000), || {})).collect();
    report("timer: arm + cancel beside 100,000", 9, 100_000, |n| {
        spent(n, |i| assert!(timer::cancel(timer::after(far + Duration::from_micros(u64::from(i)), || {}))))
    });
    report("timer: cancel of 100,000", 1, 100_000, |_| {
        let start = Instant::now();
        crowd.iter().for_each(|&id| assert!(timer::cancel(id)));
        start.elapsed()
    });
    let mut late: Vec<f64> = (0..300)
        .map(|_| {
            let (sender, receiver) = mpsc::channel();
            let deadline = Instant::now() + Duration::from_millis(2);
            timer::after(deadline, move || sender.send(Instant::now()).unwrap());
            (receiver.recv().unwrap() - deadline).as_nanos() as f64
        })
        .collect();
    late.sort_by(f64::total_cmp);
    println!("{:<52} {:>10.1} ns (p99 {:.1})", "timer: lateness, median", late[150], late[297]);
}

fn wakes() {
    report("job to an idle worker thread, there and back", 5, 10_000, |n| {
        let (sender, receiver) = mpsc::channel();
        timed(n, |_| {
            let sender = sender.clone();
            threads::run_once(move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        })
    });
    report("job to a new worker thread (128 at once)", 1, 128, |n| {
        let barrier = Arc::new(Barrier::new(n as usize + 1));
        let start = Instant::now();
        for _ in 0..n {
            let barrier = barrier.clone();
            threads::run_once(move || {
                barrier.wait();
            });
        }
        barrier.wait();
        start.elapsed()
    });
    report("root wait: detach, sleep, woken, attach", 5, 10_000, |n| {
        let quiescence = quiescence();
        let (ownership, owned) = Ownership::<u32>::owned(quiescence.clone(), Box::new(|| {}));
        let mut owned = Some(owned);
        let guard = quiescence.hold();
        let (sender, receiver) = mpsc::channel::<Arc<Waiter<Root>>>();
        let waker = std::thread::spawn(move || {
            for waiter in receiver {
                waiter.wake(Reason::Ready);
            }
        });
        let time = timed(n, |_| {
            let waiter = Waiter::new(Root::new(
                quiescence.clone(),
                (FiberRef(0), ObjectRef::NONE),
                Box::new(String::new),
            ));
            sender.send(waiter.clone()).unwrap();
            owned = ownership.wait(owned.take().unwrap(), &waiter);
        });
        drop(sender);
        waker.join().unwrap();
        drop(guard);
        time
    });
    report("two domains, one fiber each, in turns (per turn)", 5, 10_000, ping_pong);
}

/// A domain with nothing but a ownership, pumped by worker threads.
struct Domain {
    ownership: Ownership<u32>,
    peer: std::sync::OnceLock<std::sync::Weak<Domain>>,
    left: Arc<AtomicU32>,
    done: Arc<AtomicBool>,
    main: std::thread::Thread,
}

impl threads::Job for Domain {
    fn run(self: Arc<Self>) {
        let Some(mut owned) = self.ownership.begin() else { return };
        loop {
            match self.ownership.next(&mut owned) {
                Next::Fiber(f) => {
                    if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        self.done.store(true, Ordering::Release);
                        self.main.unpark();
                    } else if let Some(peer) = self.peer.get().and_then(std::sync::Weak::upgrade) {
                        peer.ownership.post(f).unwrap();
                    }
                }
                Next::HandOver => return self.ownership.hand_over(owned),
                Next::Empty => match self.ownership.try_leave(owned) {
                    Ok(()) => return,
                    Err(back) => owned = back,
                },
            }
        }
    }
}

fn ping_pong(n: u32) -> Duration {
    let quiescence = quiescence();
    let left = Arc::new(AtomicU32::new(n));
    let done = Arc::new(AtomicBool::new(false));
    let make = || {
        Arc::new_cyclic(|me: &std::sync::Weak<Domain>| {
            let me = me.clone();
            let activate = move || {
                if let Some(domain) = me.upgrade() {
                    threads::run(domain);
                }
            };
            Domain {
                ownership: Ownership::new(quiescence.clone(), Box::new(activate)),
                peer: std::sync::OnceLock::new(),
                left: left.clone(),
                done: done.clone(),
                main: std::thread::current(),
            }
        })
    };
    let (a, b) = (make(), make());
    a.peer.set(Arc::downgrade(&b)).unwrap();
    b.peer.set(Arc::downgrade(&a)).unwrap();
    let start = Instant::now();
    a.ownership.post(1).unwrap();
    while !done.load(Ordering::Acquire) {
        std::thread::park();
    }
    start.elapsed()
}
