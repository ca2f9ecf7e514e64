//! Memory taken and handed back, limits, the stress mode, and the figures: the heap from outside.

use perilune_heap::{Client, Cycle, Heap, HeapOptions, Marker, Obj, OutOfMemory};
use perilune_test::Limited;
use std::sync::Mutex;
use std::time::Duration;

/// The tests look at the memory of the process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> impl Sized {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Objects of kind 0 hold no references, those of kind 1 only references.
#[derive(Default)]
struct Roots(Vec<Obj>);

impl Client for Roots {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: an object of this test.
        unsafe {
            if (*obj.as_ptr()).kind == 1 {
                for i in 1..(*obj.as_ptr()).granules as usize * 2 {
                    if let Some(child) = *(obj.as_ptr() as *mut Option<Obj>).add(i) {
                        m.mark(child);
                    }
                }
            }
        }
    }
    fn roots(&mut self, m: &mut Marker<'_>, _cycle: Cycle) {
        for root in &self.0 {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*root) };
        }
    }
    fn converge(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) -> bool {
        false
    }
    fn finish(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) {}
}

/// A pair (kind 1, 32 bytes).
fn pair(heap: &mut Heap, a: Option<Obj>, b: Option<Obj>) -> Obj {
    let obj = heap.alloc(1, 32);
    // SAFETY: room for three references after the header.
    unsafe { *(obj.as_ptr().add(1) as *mut [Option<Obj>; 3]) = [a, b, None] };
    obj
}

/// Kilobytes of a field, summed over the mappings that intersect `lo..hi`.
fn smaps(field: &str, lo: usize, hi: usize) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    let mut sum = 0;
    for line in text.lines() {
        let first = line.split(' ').next().unwrap();
        if let Some((a, b)) = first.split_once('-')
            && let (Ok(a), Ok(b)) = (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16))
        {
            inside = a < hi && b > lo;
        } else if inside && first == format!("{field}:") {
            sum += line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
        }
    }
    sum
}

#[test]
fn big_heaps_are_backed_by_huge_pages() {
    let _alone = alone();
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if mode.is_empty() || mode.contains("[never]") {
        eprintln!("this system has no transparent huge pages");
        return;
    }
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    let mut last = None;
    for _ in 0..1_000_000 {
        last = Some(pair(&mut heap, last, None));
    }
    roots.0.push(last.unwrap());
    heap.collect_full(&mut roots);
    let chunk = last.unwrap().as_ptr() as usize & !((2 << 20) - 1);
    let around = smaps("AnonHugePages", chunk, chunk + 1);
    let all = smaps("AnonHugePages", 0, usize::MAX);
    // The 32 MB lie in 16 chunks, of which four are on small pages; a fragmented system may refuse some.
    assert!(all >= 8 * 2048, "{all} KB on huge pages, {around} KB around the last chunk");
}

#[test]
fn an_empty_heap_is_small() {
    let _alone = alone();
    // What other tests' heaps have left may have more pages than this one touches.
    perilune_heap::release_warm_chunks(Duration::ZERO);
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut last = None;
    for _ in 0..2_000 {
        last = Some(pair(&mut heap, last, None));
    }
    let chunk = last.unwrap().as_ptr() as usize & !((2 << 20) - 1);
    let rss = smaps("Rss", chunk, chunk + 1);
    assert!(rss <= 64 + 64, "64 KB of objects take {rss} KB");
}

/// Allocates so many pairs, each of which takes its turn in the ring, if there is one, and lets the heap step.
fn turn(heap: &mut Heap, roots: &mut Roots, ring: usize, count: usize) {
    for at in 0..count {
        let inner = heap.alloc(0, 16);
        let new = pair(heap, Some(inner), None);
        if ring != 0 {
            roots.0[at % ring] = new;
        }
        if heap.gc_due() {
            heap.step(roots);
        }
    }
}

#[test]
fn what_outlives_each_nursery_is_promoted_untraced_until_less_survives() {
    let _alone = alone();
    let options =
        HeapOptions { nursery: 64 << 10, fixed_nursery: true, verify: true, ..HeapOptions::default() };
    let mut heap = Heap::new(options);
    let mut roots = Roots::default();
    let first = pair(&mut heap, None, None);
    const RING: usize = 10_000;
    roots.0.resize(RING, first);
    turn(&mut heap, &mut roots, RING, 40 * RING);
    let stats = heap.stats();
    assert!(stats.majors > 0 && stats.promotions > 7 && stats.promotions < stats.minors, "{stats:?}");
    for &obj in &roots.0 {
        // SAFETY: a live pair of this test, and what it refers to.
        unsafe {
            let inner = (*(obj.as_ptr().add(1) as *mut [Option<Obj>; 3]))[0].expect("a child");
            assert!(heap.is_allocated(obj) && heap.is_allocated(inner));
            assert_eq!((heap.size_of(obj), heap.size_of(inner)), (32, 16));
        }
    }
    // Nothing survives now: whatever was to be promoted, one collection finds that out.
    let before = heap.stats();
    turn(&mut heap, &mut roots, 0, 20 * RING);
    let after = heap.stats();
    assert!(after.promotions - before.promotions <= 7, "{after:?}");
    assert!(after.minors - before.minors > 50);
    heap.collect_full(&mut roots);
    assert_eq!(heap.live_bytes(), RING * 48);
}

#[test]
fn a_spike_is_handed_back() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    let mut last = None;
    for _ in 0..2_000_000 {
        last = Some(pair(&mut heap, last, None));
    }
    for _ in 0..4 {
        let large = heap.try_alloc(0, 5_000_000).unwrap();
        roots.0.push(large);
    }
    roots.0.push(last.unwrap());
    heap.collect_full(&mut roots);
    let peak = heap.stats();
    assert!(peak.mapped_bytes > 80_000_000 && peak.large_objects == 4);
    roots.0.clear();
    heap.collect_full(&mut roots);
    assert_eq!(heap.live_bytes(), 0);
    assert!(heap.stats().idle_chunks > 20, "{:?}", heap.stats());
    heap.trim_after(500_000_000);
    assert!(heap.stats().mapped_bytes > 60_000_000, "idle memory is kept for a moment");
    heap.trim_after(1_500_000_000);
    assert_eq!(heap.stats().large_bytes, 0);
    heap.trim_after(11_000_000_000);
    let left = heap.stats();
    assert!(left.mapped_bytes <= 4 << 20, "{left:?}");
    // And it is usable afterwards.
    let again = pair(&mut heap, None, None);
    roots.0.push(again);
    heap.collect_full(&mut roots);
    assert_eq!(heap.live_bytes(), 32);
    heap.verify(&mut roots).unwrap();
}

#[test]
fn a_sparse_heap_returns_the_pages_of_free_blocks() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    for i in 0..2_000_000 {
        let obj = pair(&mut heap, None, None);
        // One survivor for every 16 blocks.
        if i % 16_384 == 0 {
            roots.0.push(obj);
        }
    }
    heap.collect_full(&mut roots);
    let chunk = roots.0[60].as_ptr() as usize & !((2 << 20) - 1);
    let before = smaps("Rss", chunk, chunk + 1);
    heap.trim_after(11_000_000_000);
    let after = smaps("Rss", chunk, chunk + 1);
    assert!(after * 3 < before, "{before} KB before, {after} KB after");
    for root in &roots.0 {
        assert_eq!(heap.find_object(root.as_ptr() as usize + 31), Some(*root));
    }
    heap.verify(&mut roots).unwrap();
}

#[test]
fn the_limit_is_kept() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { limit: Some(1 << 20), ..HeapOptions::default() });
    let mut roots = Roots::default();
    assert_eq!(heap.try_alloc(0, 2 << 20), Err(OutOfMemory));
    assert_eq!(heap.try_alloc(0, usize::MAX), Err(OutOfMemory));
    assert_eq!(heap.try_alloc(0, usize::MAX / 2), Err(OutOfMemory));
    let large = heap.try_alloc(0, 1 << 19).unwrap();
    roots.0.push(large);
    assert!(heap.try_alloc(0, (1 << 19) + 16).is_err());
    assert!(heap.try_alloc(0, 1 << 18).is_ok());
    while !heap.over_limit() {
        pair(&mut heap, None, None);
    }
    heap.collect_full(&mut roots);
    assert!(!heap.over_limit());
    assert_eq!(heap.live_bytes(), 1 << 19);
    heap.charge_external(1 << 20);
    assert!(heap.over_limit());
    heap.set_limit(None);
    assert!(!heap.over_limit());
    assert_eq!(heap.try_alloc(0, isize::MAX as usize), Err(OutOfMemory), "the system refuses");
}

/// Runs in a process of its own, called by the test below.
#[test]
#[ignore = "lowers the limit of its whole process; run by the next test"]
fn under_an_address_space_limit() {
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let now: u64 = text.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    let limit = rustix::process::Rlimit { current: Some(now + (64 << 20)), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    for round in 0..3 {
        let mut last = None;
        let mut count = 0;
        while !heap.over_limit() {
            assert!(count < 4_000_000, "64 MB are full long before");
            last = Some(pair(&mut heap, last, None));
            count += 1;
        }
        assert!(heap.gc_due() && count > 1_000_000, "round {round}: {count}");
        assert_eq!(heap.try_alloc(0, 8 << 20), Err(OutOfMemory));
        roots.0.push(last.unwrap());
        heap.collect_full(&mut roots);
        assert!(heap.over_limit(), "all of it is reachable");
        roots.0.clear();
        heap.collect_full(&mut roots);
        assert!(!heap.over_limit());
    }
}

#[test]
fn a_refusal_by_the_system_is_no_catastrophe() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let out = Limited::run(command.args(["--exact", "under_an_address_space_limit", "--ignored"]));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn accounts_follow_every_allocation() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions::default());
    let mut roots = Roots::default();
    let mut held = 0;
    for i in 0..5000usize {
        let bytes = 8 + i * 37 % 9000;
        let obj = heap.try_alloc(0, bytes).unwrap();
        held += bytes.next_multiple_of(16);
        assert_eq!(heap.live_bytes(), held);
        // SAFETY: a live object of the test's own heap.
        assert_eq!(unsafe { heap.size_of(obj) }, bytes.next_multiple_of(16));
        if i % 3 == 0 {
            roots.0.push(obj);
        }
        // SAFETY: a live object of the test's own heap.
        assert!(unsafe { heap.is_young(obj) });
    }
    heap.collect_minor(&mut roots);
    // SAFETY: a live object of the test's own heap.
    let kept: usize = roots.0.iter().map(|o| unsafe { heap.size_of(*o) }).sum();
    assert_eq!(heap.live_bytes(), kept);
    // SAFETY: a live object of the test's own heap.
    assert!(roots.0.iter().all(|o| !unsafe { heap.is_young(*o) }));
    heap.verify(&mut roots).unwrap();
}

#[test]
fn stress_makes_a_collection_due_at_every_safepoint() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { stress: true, verify: true, ..HeapOptions::default() });
    let mut roots = Roots::default();
    for i in 0..3000 {
        assert!(heap.gc_due());
        heap.step(&mut roots);
        let tail = roots.0.pop();
        let obj = pair(&mut heap, tail, None);
        roots.0.push(obj);
        assert_eq!(heap.live_bytes(), (i + 1) * 32);
    }
    assert!(heap.stats().majors > 10 && heap.stats().slices > heap.stats().majors);
    heap.stop();
    assert!(!heap.gc_due());
    heap.restart();
    assert!(heap.gc_due());
}

#[test]
fn a_stopped_heap_is_never_due_and_a_restarted_one_catches_up() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions::default());
    heap.stop();
    for _ in 0..200_000 {
        pair(&mut heap, None, None);
    }
    assert!(!heap.gc_due());
    heap.restart();
    assert!(heap.gc_due());
    heap.step(&mut Roots::default());
    assert!(!heap.gc_due());
    assert_eq!(heap.live_bytes(), 0);
}

#[test]
fn garbage_that_outlives_its_youth_is_collected_in_slices() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    // A queue of 50,000 pairs: every object becomes old, then dies.
    let first = pair(&mut heap, None, None);
    roots.0.extend([first, first]);
    for i in 0..2_000_000 {
        if heap.gc_due() {
            heap.step(&mut roots);
        }
        let obj = pair(&mut heap, None, None);
        // SAFETY: a live object of the test's own heap.
        unsafe { heap.barrier(roots.0[1]) };
        // SAFETY: a pair.
        unsafe { *(roots.0[1].as_ptr().add(1) as *mut Option<Obj>) = Some(obj) };
        roots.0[1] = obj;
        if i >= 50_000 {
            // SAFETY: a pair with a successor.
            roots.0[0] = unsafe { *(roots.0[0].as_ptr().add(1) as *mut Option<Obj>) }.unwrap();
        }
    }
    let stats = heap.stats();
    assert!(stats.majors >= 3 && stats.slices >= stats.majors, "{stats:?}");
    assert!(stats.mapped_bytes < 24 << 20, "1.6 MB live, {stats:?}");
    heap.collect_full(&mut roots);
    assert_eq!(heap.live_bytes(), 50_001 * 32);
    assert!(heap.stats().logged > 0);
}

#[test]
fn long_lists_do_not_exhaust_the_native_stack() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots::default();
    let mut last = None;
    for _ in 0..3_000_000 {
        last = Some(pair(&mut heap, None, last));
    }
    roots.0.push(last.unwrap());
    heap.collect_full(&mut roots);
    assert_eq!(heap.live_bytes(), 3_000_000 * 32);
}

#[test]
fn fragmentation_does_not_grow_the_heap() {
    let _alone = alone();
    let mut heap = Heap::new(HeapOptions { poison: false, ..HeapOptions::default() });
    let mut roots = Roots(Vec::new());
    // Survivors of changing sizes, one in eight, replaced at random: every block keeps some.
    let mut seed = 1u64;
    let mut live = vec![None; 20_000];
    for round in 0..4_000_000u64 {
        if heap.gc_due() {
            roots.0.clear();
            roots.0.extend(live.iter().flatten());
            heap.step(&mut roots);
        }
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let obj = heap.alloc(0, 16 + (seed >> 33) as usize % 600);
        if round % 8 == 0 {
            live[(seed >> 20) as usize % 20_000] = Some(obj);
        }
    }
    let stats = heap.stats();
    let held = 20_000 * 316;
    assert!(stats.mapped_bytes < held * 5, "{held} bytes live, {stats:?}");
}

#[test]
fn layouts() {
    assert_eq!(size_of::<perilune_heap::Header>(), 8);
    let hot = [Heap::EPOCH_OFFSET, Heap::DUE_OFFSET];
    assert!(hot.iter().all(|o| *o < 64), "hot fields share the first cache line");
}
