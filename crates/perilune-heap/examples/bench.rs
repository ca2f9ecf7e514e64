//! Small measurements of the heap by itself: `cargo run --release -p perilune-heap --example bench [name]`.
//!
//! * `alloc`: ns per object that dies at once, collections included.
//! * `trees`: the binary trees benchmark, depth 18, without an interpreter around it.
//! * `mark`: ns per object of a full marking, for a list, a tree, and a random graph.
//! * `live`: pauses while a program mutates a big graph.
//! * `array`: filling a large array with new objects.

use perilune_heap::{Client, Cycle, Heap, HeapOptions, Marker, Obj};

const NODE: u8 = 0;
/// Fields of the arrays that hold the random graph together.
const WIDTH: usize = 60;

/// Objects are a header and nothing but references, null ones included.
#[derive(Default)]
struct Bench {
    roots: Vec<Obj>,
}

fn fields(obj: Obj, count: usize) -> &'static mut [Option<Obj>] {
    // SAFETY: objects here have `count` fields after the header.
    unsafe { core::slice::from_raw_parts_mut(obj.as_ptr().add(1).cast(), count) }
}

fn count_of(obj: Obj) -> usize {
    // SAFETY: an object of this client; large ones have their count in the first field.
    unsafe {
        match (*obj.as_ptr()).granules {
            0 => *(obj.as_ptr().add(1) as *const usize),
            g => g as usize * 2 - 1,
        }
    }
}

impl Client for Bench {
    #[inline(always)]
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        let n = count_of(obj);
        // SAFETY: as above.
        if unsafe { (*obj.as_ptr()).granules == 0 } {
            // SAFETY: a live object of the test's own heap.
            return unsafe { m.trace_later(obj, 1) };
        }
        for child in fields(obj, n).iter().flatten() {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*child) };
        }
    }
    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        let n = count_of(obj);
        let end = (at + 1024).min(n);
        for child in fields(obj, n)[at..end].iter().flatten() {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*child) };
        }
        if end < n {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.trace_later(obj, end) };
        }
    }
    unsafe fn trace_range(&mut self, obj: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        let n = count_of(obj);
        let first = obj.as_ptr() as usize + 8;
        let (lo, hi) = (lo.saturating_sub(first) / 8, (hi.saturating_sub(first) / 8).min(n));
        for child in fields(obj, n)[lo.max(1)..hi].iter().flatten() {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*child) };
        }
    }
    fn roots(&mut self, m: &mut Marker<'_>, _cycle: Cycle) {
        for root in &self.roots {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(*root) };
        }
    }
    fn converge(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) -> bool {
        false
    }
    fn finish(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) {}
}

struct Run {
    heap: Heap,
    client: Bench,
    seed: u64,
    /// Processor time of every step.
    pauses: Vec<u64>,
    /// The arrays of the random graph; the heap knows them through a large object, the only root.
    spines: Vec<Obj>,
}

impl Run {
    fn new() -> Run {
        Run {
            heap: Heap::new(HeapOptions::default()),
            client: Bench::default(),
            seed: 0x2545F4914F6CDD1D,
            pauses: Vec::new(),
            spines: Vec::new(),
        }
    }
    fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) as usize % below
    }
    #[inline(always)]
    fn node(&mut self, bytes: usize) -> Obj {
        if self.heap.gc_due() {
            let t = cpu_ns();
            self.heap.step(&mut self.client);
            self.pauses.push(cpu_ns() - t);
        }
        let obj = self.heap.alloc(NODE, bytes);
        fields(obj, bytes / 8 - 1).fill(None);
        obj
    }
    fn tree<const BYTES: usize>(&mut self, depth: u32) -> Obj {
        if depth == 0 {
            return self.node(BYTES);
        }
        let left = self.tree::<BYTES>(depth - 1);
        self.client.roots.push(left);
        let right = self.tree::<BYTES>(depth - 1);
        self.client.roots.push(right);
        let obj = self.node(BYTES);
        self.client.roots.truncate(self.client.roots.len() - 2);
        fields(obj, 2).copy_from_slice(&[Some(left), Some(right)]);
        obj
    }
    /// A large object with `n` slots.
    fn array(&mut self, n: usize) -> Obj {
        let big = self.heap.try_alloc(NODE, 16 + n * 8).unwrap();
        fields(big, n + 1).fill(None);
        // SAFETY: the first field is the count.
        unsafe { *(big.as_ptr().add(1) as *mut usize) = n + 1 };
        self.client.roots.push(big);
        big
    }
    fn set(&mut self, big: Obj, i: usize, obj: Obj) {
        let n = count_of(big);
        let slot = &mut fields(big, n)[i + 1];
        // SAFETY: a live object of the test's own heap.
        unsafe { self.heap.barrier_at(big, big, slot as *mut _ as usize) };
        *slot = Some(obj);
    }
    fn report(&mut self, name: &str) {
        let s = self.heap.stats();
        let mut p = std::mem::take(&mut self.pauses);
        p.sort();
        if let Some(last) = p.last() {
            let at = |permille: usize| p[(p.len() * permille / 1000).min(p.len() - 1)] / 1000;
            println!(
                "{name}: steps in CPU us: p50 {} p99 {} p99.9 {} max {}",
                at(500),
                at(990),
                at(999),
                last / 1000
            );
        }
        println!(
            "{name}: minors {} majors {} slices {}; minor p50 {} p99 {} p99.9 {} max {} us; step p99 {} \
             p99.9 {} max {} us",
            s.minors,
            s.majors,
            s.slices,
            s.minor_pauses.percentile_ns(0.5) / 1000,
            s.minor_pauses.percentile_ns(0.99) / 1000,
            s.minor_pauses.percentile_ns(0.999) / 1000,
            s.minor_pauses.max_ns() / 1000,
            s.step_pauses.percentile_ns(0.99) / 1000,
            s.step_pauses.percentile_ns(0.999) / 1000,
            s.step_pauses.max_ns() / 1000,
        );
        println!(
            "{name}: minor {} ms major {} ms sweep {} ms; live {} MB mapped {} MB nursery {} KB occupancy \
             {}% rss {} MB",
            s.minor_ns / 1_000_000,
            s.major_ns / 1_000_000,
            s.sweep_ns / 1_000_000,
            s.live_bytes >> 20,
            s.mapped_bytes >> 20,
            s.nursery_bytes >> 10,
            s.occupancy_percent,
            rss_kb() / 1024,
        );
    }
}

/// Processor time of this thread: the machine may be busy.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn rss_kb() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|p| p.parse::<usize>().ok()).unwrap_or(0) * 4
}

fn alloc() {
    fn one<const BYTES: usize>() {
        let mut run = Run::new();
        let count = 4_000_000_000 / BYTES / 8;
        let t = cpu_ns();
        for _ in 0..count {
            std::hint::black_box(run.node(BYTES));
        }
        println!("alloc {BYTES} B: {:.2} ns", (cpu_ns() - t) as f64 / count as f64);
    }
    one::<16>();
    one::<32>();
    one::<64>();
    one::<128>();
    one::<512>();
}

fn trees() {
    fn one<const BYTES: usize>() {
        let mut run = Run::new();
        let max = 18;
        let t = cpu_ns();
        let mut nodes = 0u64;
        let long = run.tree::<BYTES>(max);
        run.client.roots.push(long);
        nodes += 2 << max;
        for depth in (4..=max).step_by(4) {
            for _ in 0..1u32 << (max - depth + 4) {
                std::hint::black_box(run.tree::<BYTES>(depth));
                nodes += 2 << depth;
            }
        }
        let ns = (cpu_ns() - t) as f64;
        println!("trees {BYTES} B: {:.2} s, {:.2} ns/node", ns / 1e9, ns / nodes as f64);
        run.report("trees");
    }
    one::<32>();
    one::<64>();
}

fn mark() {
    for (name, shape) in [("list", 0), ("tree", 1), ("random", 2)] {
        let mut run = Run::new();
        let n = 4_000_000usize;
        match shape {
            0 => {
                let first = run.node(64);
                run.client.roots.push(first);
                for _ in 1..n {
                    let obj = run.node(64);
                    fields(obj, 1)[0] = run.client.roots.pop();
                    run.client.roots.push(obj);
                }
            }
            1 => {
                let t = run.tree::<64>(21);
                run.client.roots.push(t);
            }
            _ => build_random(&mut run, n, 64),
        }
        run.heap.collect_full(&mut run.client);
        let live = run.heap.live_bytes() / 64;
        let before = cpu_ns();
        for _ in 0..3 {
            run.heap.collect_full(&mut run.client);
        }
        let ns = (cpu_ns() - before) as f64 / 3.0;
        println!("mark {name}: {:.2} ns/object ({live} objects)", ns / live as f64);
        run.report(name);
    }
}

/// Every object is held by a spine of arrays and refers to two others at random.
fn build_random(run: &mut Run, n: usize, bytes: usize) {
    let width = WIDTH;
    let all = run.array(n / width + 1);
    for i in 0..n {
        if i % width == 0 {
            let spine = run.node(width * 8 + 8);
            run.set(all, i / width, spine);
            run.spines.push(spine);
        }
        let obj = run.node(bytes);
        let spine = *run.spines.last().unwrap();
        // SAFETY: a live object of the test's own heap.
        unsafe { run.heap.barrier(spine) };
        fields(spine, width)[i % width] = Some(obj);
        for k in 0..2 {
            let other = run.random(i + 1);
            fields(obj, 2)[k] = fields(run.spines[other / width], width)[other % width];
        }
    }
}

fn live() {
    let mut run = Run::new();
    let n = 8_000_000;
    let t = cpu_ns();
    build_random(&mut run, n, 128);
    println!("live: built in {:.2} s", (cpu_ns() - t) as f64 / 1e9);
    run.report("live, building");
    let t = cpu_ns();
    let turns = 20_000_000;
    for _ in 0..turns {
        let obj = run.node(128);
        let at = run.random(n);
        fields(obj, 2)[0] = fields(run.spines[at / WIDTH], WIDTH)[run.seed as usize % WIDTH];
        if run.seed.is_multiple_of(8) {
            let spine = run.spines[at / WIDTH];
            // SAFETY: a live object of the test's own heap.
            unsafe { run.heap.barrier(spine) };
            fields(spine, WIDTH)[at % WIDTH] = Some(obj);
        }
    }
    println!("live: {:.2} ns/turn", (cpu_ns() - t) as f64 / turns as f64);
    run.report("live, mutating");
}

fn array() {
    let mut run = Run::new();
    let n = 4_000_000;
    let big = run.array(n);
    let t = cpu_ns();
    for i in 0..n {
        let obj = run.node(48);
        run.set(big, i, obj);
    }
    println!("array: {:.2} ns/element", (cpu_ns() - t) as f64 / n as f64);
    run.report("array");
}

fn main() {
    let wanted = std::env::args().nth(1);
    let all: [(&str, fn()); 5] =
        [("alloc", alloc), ("trees", trees), ("mark", mark), ("live", live), ("array", array)];
    for (name, f) in all {
        if wanted.as_ref().is_none_or(|w| w == name) {
            f();
        }
    }
}
