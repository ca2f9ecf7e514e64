//! The poller with each way to be told, on threads of its own for each test.

use super::*;
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Only a hang comes to it.
const LONG: Duration = Duration::from_secs(60);

/// Pollers with their threads: with a set, and with a ring that has so much room. That of the ring is left
/// out where the kernel has none.
fn pollers(requests: u32, told: u32) -> Vec<&'static Poller> {
    let mut pollers = vec![start(Poller::new(false).unwrap())];
    match ring_of(requests, told) {
        Ok(both) => pollers.push(start(both)),
        Err(error) => println!("skipped with io_uring: {error}"),
    }
    pollers
}

fn ring_of(requests: u32, told: u32) -> Result<(Poller, Option<Ring>), Errno> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let ring = Ring::with(Arc::clone(&bell), requests, told)?;
    Ok((Poller::with(bell, true)?, Some(ring)))
}

fn start((poller, ring): (Poller, Option<Ring>)) -> &'static Poller {
    let poller: &'static Poller = Box::leak(Box::new(poller));
    std::thread::spawn(move || poller.watch(ring));
    poller
}

/// Waits until something is so.
fn until(what: &str, so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < LONG, "nothing came: {what}");
        std::thread::yield_now();
    }
}

/// Counts what it is told by the poller's thread.
#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
}

impl Backlog for Counts {
    fn read_backlog(&self) {
        self.reads.fetch_add(1, Ordering::AcqRel);
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

fn write(fd: &impl AsFd) {
    assert_eq!(rustix::io::write(fd, b"x"), Ok(1));
}

fn read_all(fd: &impl AsFd) -> usize {
    let mut bytes = [0; 64];
    let mut all = 0;
    while let Ok(n @ 1..) = rustix::io::read(fd, &mut bytes) {
        all += n;
    }
    all
}

/// Waits until something may be read since the flag was cleared.
fn readable(registration: &Registration) {
    until("an edge", || registration.source.read.may_be_ready());
}

#[test]
fn what_is_there_is_told_and_then_each_edge() {
    for poller in pollers(8, 16) {
        let (reads, writes) = pipe();
        write(&writes);
        let reader = poller.register(reads.as_fd(), BITS).unwrap();
        let writer = poller.register(writes.as_fd(), BITS).unwrap();
        readable(&reader);
        until("room", || writer.source.write.may_be_ready());
        for _ in 0..3 {
            reader.source.read.clear();
            assert_eq!(read_all(&reads), 1);
            assert!(!reader.source.read.may_be_ready(), "nothing has come");
            write(&writes);
            readable(&reader);
        }
        drop((writer, writes));
        reader.source.read.clear();
        until("the end", || {
            reader.source.read.clear();
            reader.source.read.may_be_ready()
        });
    }
}

/// What the other end of a Unix socket takes makes room, which nobody is told who has not found that there
/// was none.
#[test]
fn room_is_told_to_those_who_had_none() {
    let poller = pollers(8, 16).remove(0);
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let registration = poller.register(ours.as_fd(), INPUT).unwrap();
    let source = &registration.source;
    for _ in 0..10 {
        source.read.clear();
        write(&ours);
        assert_eq!(read_all(&theirs), 1);
        write(&theirs);
        // Told behind the other, if that were told.
        readable(&registration);
        assert_eq!(read_all(&ours), 1);
        assert!(!source.write.may_be_ready());
    }
    let bytes = [0; 4096];
    while rustix::io::write(&ours, &bytes).is_ok() {}
    let mut is_told = false;
    registration.awaits_room(&ours, &mut is_told).unwrap();
    assert!(is_told && !source.write.may_be_ready());
    while read_all(&theirs) > 0 {}
    until("room", || source.write.may_be_ready());
    source.write.clear();
    write(&ours);
    read_all(&theirs);
    until("room again", || source.write.may_be_ready());
}

/// Each byte is waited for as natives do: cleared, tried, and then an edge is waited for. A lost edge is a
/// hang.
#[test]
fn nobody_misses_an_edge() {
    const BYTES: usize = 20_000;
    for poller in pollers(8, 16) {
        let (reads, writes) = pipe();
        let reader = poller.register(reads.as_fd(), BITS).unwrap();
        let writer = std::thread::spawn(move || {
            for n in 0..BYTES {
                write(&writes);
                if n % 3 == 0 {
                    std::thread::yield_now();
                }
            }
            writes
        });
        let mut got = 0;
        while got < BYTES {
            reader.source.read.clear();
            match read_all(&reads) {
                0 => readable(&reader),
                n => got += n,
            }
        }
        writer.join().unwrap();
    }
}

/// More becomes ready at once than the ring has room to tell; requests end by that, and are made again.
#[test]
fn more_is_told_than_there_is_room_for() {
    const MANY: usize = 200;
    for poller in pollers(2, 4) {
        let pipes: Vec<_> = (0..MANY).map(|_| pipe()).collect();
        let registrations: Vec<_> =
            pipes.iter().map(|(reads, _)| poller.register(reads.as_fd(), BITS).unwrap()).collect();
        for _ in 0..20 {
            for (registration, (reads, _)) in registrations.iter().zip(&pipes) {
                registration.source.read.clear();
                read_all(reads);
            }
            for (_, writes) in &pipes {
                write(writes);
            }
            registrations.iter().for_each(readable);
        }
    }
}

#[test]
fn what_has_ended_is_told_of_no_more_and_its_place_is_used_again() {
    for poller in pollers(8, 16) {
        let (reads, writes) = pipe();
        for round in 0..100 {
            let first = poller.register(reads.as_fd(), BITS).unwrap();
            if round % 2 == 0 {
                write(&writes);
                readable(&first);
            }
            first.end_now();
            first.source.read.clear();
            write(&writes);
            let second = poller.register(reads.as_fd(), BITS).unwrap();
            assert_eq!(first.key as u32, second.key as u32, "its place");
            assert_ne!(first.key, second.key);
            readable(&second);
            assert!(!first.source.read.may_be_ready());
            second.end_now();
            second.end_now();
            read_all(&reads);
        }
    }
}

/// A ring keeps files open: the peer hears of the end only because the request is taken back. Nobody holds
/// this thread up for it, and nobody waits.
#[test]
fn a_peer_reads_the_end_when_a_descriptor_is_closed() {
    for poller in pollers(8, 16) {
        for by_drop in [true, false] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_read_timeout(Some(LONG)).unwrap();
            let registration = poller.register(ours.as_fd(), BITS).unwrap();
            until("it is watched", || registration.source.write.may_be_ready());
            if by_drop {
                drop(registration);
            } else {
                registration.end();
            }
            drop(ours);
            assert_eq!(rustix::io::read(&theirs, &mut [0; 1]), Ok(0));
        }
    }
}

/// After `end_now` closing has its consequences before it returns.
#[test]
fn what_is_ended_now_is_let_go_of() {
    for poller in pollers(8, 16) {
        for _ in 0..100 {
            let (reads, writes) = pipe();
            let registration = poller.register(reads.as_fd(), BITS).unwrap();
            registration.end_now();
            drop(reads);
            let broken = perilune_stdlib::sigpipe::without(|| rustix::io::write(&writes, b"x"));
            assert_eq!(broken, Err(Errno::PIPE));
        }
    }
}

/// Who ends a registration in what the poller calls does not wait for the poller.
#[test]
fn the_thread_does_not_wait_for_itself() {
    struct Ends(OnceLock<Registration>, AtomicBool);
    impl Backlog for Ends {
        fn read_backlog(&self) {
            self.0.get().unwrap().end_now();
            self.1.store(true, Ordering::Release);
        }
    }
    for poller in pollers(8, 16) {
        let (reads, writes) = pipe();
        let ends = Arc::new(Ends(OnceLock::new(), AtomicBool::new(false)));
        let _ = ends.0.set(poller.register(reads.as_fd(), BITS).unwrap());
        let source = Arc::clone(&ends.0.get().unwrap().source);
        let owner: Weak<Ends> = Arc::downgrade(&ends);
        source.set_owner(owner);
        source.read.clear();
        assert!(source.read.set_backlog());
        write(&writes);
        until("it is told", || ends.1.load(Ordering::Acquire));
    }
}

#[test]
fn a_plain_file_cannot_be_watched() {
    for poller in pollers(8, 16) {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(poller.register(file.as_fd(), BITS).err(), Some(Errno::PERM));
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(poller.register(null.as_fd(), BITS).err(), Some(Errno::PERM));
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let registration = poller.register(event.as_fd(), BITS).unwrap();
        rustix::io::write(&event, &1_u64.to_ne_bytes()).unwrap();
        readable(&registration);
    }
}

#[test]
fn a_ring_waits_no_longer_than_it_may() {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
    let Ok(mut ring_of_this) = Ring::with(Arc::clone(&bell), 8, 16) else {
        return println!("skipped: the kernel refuses a ring");
    };
    ring_of_this.begin().unwrap();
    ring_of_this.wait(Some(Duration::from_millis(1)), |told| panic!("{told:?}")).unwrap();
    // And comes out when the bell is rung.
    for _ in 0..3 {
        ring(&bell);
        ring_of_this.wait(None, |told| panic!("{told:?}")).unwrap();
    }
}

// -- A ring that works no more ------------------------------------------------------------------------------

/// Forbids the calling thread a system call from now on: it fails with `EPERM`. False: it cannot be
/// forbidden.
fn forbid(call: libc::c_long) -> bool {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let allow = 0x7fff_0000;
    let refuse = 0x0005_0000 | libc::EPERM as u32;
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, allow),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: numbers, and a program that outlives the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) == 0
    }
}

/// Forbids the poller's thread the use of its ring.
#[derive(Default)]
struct Forbids(OnceLock<bool>);

impl Backlog for Forbids {
    fn read_backlog(&self) {
        let _ = self.0.set(forbid(libc::SYS_io_uring_enter));
    }
}

/// The system may forbid the ring while it is in use: everything goes on with the set.
#[test]
fn a_ring_that_is_forbidden_in_use_is_given_up() {
    let Ok(both) = ring_of(8, 16) else {
        return println!("skipped: the kernel refuses a ring");
    };
    let poller = start(both);
    let pipes: Vec<_> = (0..20).map(|_| pipe()).collect();
    let register = |(reads, _): &(OwnedFd, OwnedFd)| poller.register(reads.as_fd(), BITS).unwrap();
    let registrations: Vec<_> = pipes.iter().map(register).collect();
    let counts = Arc::new(Counts::default());
    let owner: Weak<Counts> = Arc::downgrade(&counts);
    registrations[3].source.set_owner(owner);
    registrations[3].source.read.clear();
    assert!(registrations[3].source.read.set_backlog());

    let forbids = Arc::new(Forbids::default());
    let owner: Weak<Forbids> = Arc::downgrade(&forbids);
    registrations[0].source.set_owner(owner);
    registrations[0].source.read.clear();
    assert!(registrations[0].source.read.set_backlog());
    assert!(poller.has_ring());
    write(&pipes[0].1);
    until("it is forbidden", || forbids.0.get().is_some());
    if !forbids.0.get().unwrap() {
        return println!("skipped: nothing can be forbidden here");
    }
    // Some while it is being found out, some after.
    for (_, writes) in &pipes[1..10] {
        write(writes);
    }
    registrations[1..10].iter().for_each(readable);
    until("it is given up", || !poller.has_ring());
    for (_, writes) in &pipes[10..] {
        write(writes);
    }
    registrations[10..].iter().for_each(readable);
    until("the owner is told", || counts.reads.load(Ordering::Acquire) == 1);
    // And what is registered from now on.
    let (reads, writes) = pipe();
    let late = poller.register(reads.as_fd(), BITS).unwrap();
    write(&writes);
    readable(&late);
    late.end_now();
}

/// A ring that is refused from the beginning: who has registered meanwhile is told by the set.
#[test]
fn a_ring_that_cannot_begin_is_given_up() {
    let Ok((poller, ring)) = ring_of(8, 16) else {
        return println!("skipped: the kernel refuses a ring");
    };
    let poller: &'static Poller = Box::leak(Box::new(poller));
    let (reads, writes) = pipe();
    let registration = poller.register(reads.as_fd(), BITS).unwrap();
    // A set takes a descriptor once only.
    let twin = poller.register(reads.as_fd(), BITS).unwrap();
    let (others, _ends) = pipe();
    let ended = poller.register(others.as_fd(), BITS).unwrap();
    let waits = std::thread::spawn(move || ended.end_now());
    std::thread::spawn(move || {
        assert!(forbid(libc::SYS_io_uring_register));
        poller.watch(ring);
    });
    waits.join().unwrap();
    write(&writes);
    readable(&registration);
    assert!(!poller.has_ring());
    for _ in 0..3 {
        twin.source.read.clear();
        readable(&twin);
    }
}

// -- The lease ----------------------------------------------------------------------------------------------

/// A worker's seat, as in `sched/threads.rs`.
#[derive(Default)]
struct Seat(Mutex<(Option<Instant>, bool)>);

impl Seat {
    fn give(&self, poller: &Poller) {
        let mut given = self.0.lock();
        given.0 = Some(Instant::now());
        let idling = given.1;
        drop(given);
        if idling {
            poller.call();
        }
    }

    /// Waits for a job; how long the job has waited for the worker.
    fn take(&self, poller: &Poller, at_most: Duration) -> Duration {
        loop {
            if let Some(since) = self.0.lock().0.take() {
                return since.elapsed();
            }
            if !poller.lease.take() {
                std::thread::yield_now();
                continue;
            }
            let mut given = self.0.lock();
            if given.0.is_none() {
                given.1 = true;
                drop(given);
                poller.idle(Some(at_most));
                given = self.0.lock();
                given.1 = false;
            }
            drop(given);
            poller.give_back();
        }
    }
}

/// Workers take the lease from the thread and from one another while events come and jobs are given: no call
/// is lost. One that is would show as a job that waits until its worker leaves the kernel's set for lack of
/// events.
#[test]
fn no_job_waits_for_a_worker_in_the_kernels_set() {
    const JOBS: u32 = 20_000;
    let poller = start(Poller::new(false).unwrap());
    // Something that happens: an edge of this wakes one in the set.
    let noise = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let _registration = poller.register(noise.as_fd(), BITS).unwrap();
    let seats: [Seat; 2] = Default::default();
    let longest = Mutex::new(Duration::ZERO);
    std::thread::scope(|s| {
        for seat in &seats {
            let (given, gives) = std::sync::mpsc::channel();
            let longest = &longest;
            s.spawn(move || {
                for n in 0..JOBS {
                    let waited = seat.take(poller, Duration::from_secs(20));
                    let mut longest = longest.lock();
                    *longest = waited.max(*longest);
                    if given.send(n).is_err() {
                        return;
                    }
                }
            });
            let noise = &noise;
            s.spawn(move || {
                for n in 0..JOBS {
                    seat.give(poller);
                    if n % 3 == 0 {
                        let _ = rustix::io::write(noise, &1_u64.to_ne_bytes());
                    }
                    if n % 1000 == 0 {
                        // Long enough for the thread to come and take the lease.
                        std::thread::sleep(Duration::from_millis(4));
                    }
                    gives.recv().unwrap();
                }
            });
        }
    });
    let longest = *longest.lock();
    assert!(longest < Duration::from_secs(10), "a job waited for {longest:?}");
}

/// Who waits in a set has what it looks at in hand for a moment; what is closed then is closed all the same,
/// at once.
#[test]
fn the_peer_of_what_is_closed_while_the_poller_looks_at_it_is_told() {
    use std::io::{Read, Write};
    for poller in pollers(64, 64) {
        for _ in 0..3000 {
            let (own, mut peer) = UnixStream::pair().unwrap();
            let own = OwnedFd::from(own);
            peer.set_read_timeout(Some(LONG)).unwrap();
            let registration = poller.register(own.as_fd(), BITS).unwrap();
            peer.write_all(b"x").unwrap();
            registration.end();
            drop(own);
            // There is something that was not read.
            match peer.read(&mut [0]) {
                Ok(0) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                other => panic!("it is not told: {other:?}"),
            }
        }
    }
}
