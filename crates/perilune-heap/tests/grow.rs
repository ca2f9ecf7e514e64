//! Buffers that grow and that are freed at once, while majors are in progress and cards are marked.

use perilune_heap::{Client, Cycle, Heap, HeapOptions, Marker, Obj};

/// Objects of kind 1 own one buffer, of kind 0, which ends with its owner's number.
struct Owners(Vec<Obj>);

fn slot(owner: Obj) -> *mut Obj {
    // SAFETY: owners are a header and one address.
    unsafe { owner.as_ptr().cast::<Obj>().add(1) }
}

impl Client for Owners {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: an object of this test, initialised.
        unsafe {
            if (*obj.as_ptr()).kind == 1 {
                m.mark(*slot(obj));
            }
        }
    }
    fn roots(&mut self, m: &mut Marker<'_>, _cycle: Cycle) {
        for &o in &self.0 {
            // SAFETY: a live object of the test's own heap.
            unsafe { m.mark(o) };
        }
    }
    fn converge(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) -> bool {
        false
    }
    fn finish(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) {}
}

fn fill(buffer: Obj, from: usize, to: usize, with: u8) {
    // SAFETY: within the buffer, behind its header.
    unsafe { buffer.as_ptr().cast::<u8>().add(from).write_bytes(with, to - from) }
}

fn check(heap: &Heap, buffer: Obj, with: u8) {
    // SAFETY: a live object of the test's own heap.
    let size = unsafe { heap.size_of(buffer) };
    // SAFETY: within the buffer, which is filled.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>().add(8), size - 8) };
    assert!(bytes.iter().all(|b| *b == with));
}

#[test]
fn growth_and_release_agree_with_the_collector() {
    let options = HeapOptions {
        poison: true,
        verify: true,
        nursery: 256 << 10,
        fixed_nursery: true,
        ..Default::default()
    };
    let mut heap = Heap::new(options);
    let mut owners = Owners(Vec::new());
    for n in 0..12u8 {
        let buffer = heap.alloc(0, 64);
        fill(buffer, 8, 64, n);
        let owner = heap.alloc(1, 16);
        // SAFETY: fresh.
        unsafe { slot(owner).write(buffer) };
        owners.0.push(owner);
    }
    let mut seed = 7u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    let (mut stayed, mut moved) = (0, 0);
    for _ in 0..3000 {
        let n = random(owners.0.len());
        let owner = owners.0[n];
        // SAFETY: an owner has its buffer.
        let buffer = unsafe { *slot(owner) };
        // SAFETY: a live object of the test's own heap.
        let size = unsafe { heap.size_of(buffer) };
        match random(8) {
            choice @ 0..4 if size < 6 << 20 => {
                let more = size + 16 + random(size);
                // SAFETY: a live object of the test's own heap.
                let extended = if choice < 2 { unsafe { heap.try_extend(buffer, more) } } else { None };
                let grown = extended.unwrap_or_else(|| {
                    // SAFETY: a live object of the test's own heap.
                    unsafe { heap.barrier(owner) };
                    // SAFETY: a live object of the test's own heap.
                    unsafe { heap.try_grow(buffer, more) }.unwrap()
                });
                *if grown == buffer { &mut stayed } else { &mut moved } += 1;
                // SAFETY: a live object of the test's own heap.
                fill(grown, size, unsafe { heap.size_of(grown) }, n as u8);
                // SAFETY: as above.
                unsafe { slot(owner).write(grown) };
            }
            0..5 if size > 1 << 20 => {
                let small = heap.try_alloc(0, 32 + random(64 << 10)).unwrap();
                // SAFETY: a live object of the test's own heap.
                fill(small, 8, unsafe { heap.size_of(small) }, n as u8);
                // SAFETY: as above.
                unsafe { slot(owner).write(small) };
                // SAFETY: a live object of the test's own heap.
                unsafe { heap.barrier(owner) };
                // SAFETY: a live object of the test's own heap.
                unsafe { heap.free_buffer(buffer) };
            }
            // SAFETY: a live object of the test's own heap.
            5 => unsafe { heap.barrier_at(owner, buffer, buffer.as_ptr() as usize + 8 + random(size - 8)) },
            6 => heap.force_major(),
            _ => heap.step_objects(&mut owners, 1 + random(6) as u32),
        }
    }
    for (n, &owner) in owners.0.iter().enumerate() {
        // SAFETY: as above.
        check(&heap, unsafe { *slot(owner) }, n as u8);
    }
    assert!(stayed > 50 && moved > 50, "{stayed} {moved}");
    assert!(heap.stats().majors > 10);
    owners.0.clear();
    heap.collect_full(&mut owners);
    assert_eq!(heap.live_bytes(), 0);
    assert_eq!(heap.stats().large_objects, 0);
}

/// The owner of one buffer of addresses, some null.
struct List {
    owner: Obj,
    /// Addresses looked at by the collector.
    looked: usize,
}

fn addresses(heap: &Heap, buffer: Obj) -> &'static [usize] {
    // SAFETY: buffers of this test hold addresses behind their headers, all initialised.
    unsafe {
        std::slice::from_raw_parts(buffer.as_ptr().add(1) as *const usize, heap.size_of(buffer) / 8 - 1)
    }
}

impl Client for List {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: an object of this test, initialised.
        unsafe { self.trace_range(obj, 0, usize::MAX, m) }
    }
    unsafe fn trace_range(&mut self, obj: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        if obj != self.owner {
            return;
        }
        // SAFETY: the owner is a header and one address; its buffer is large, and its second word has its
        // number of words.
        unsafe {
            let buffer = *slot(obj);
            m.mark(buffer);
            let words = buffer.as_ptr() as *const usize;
            for at in 2..*words.add(1) {
                let word = words.add(at);
                if (lo..hi).contains(&(word as usize)) {
                    self.looked += 1;
                    Obj::new(*word as *mut _).map(|o| m.mark(o));
                }
            }
        }
    }
    fn roots(&mut self, m: &mut Marker<'_>, _cycle: Cycle) {
        // SAFETY: a live object of the test's own heap.
        unsafe { m.mark(self.owner) };
    }
    fn converge(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) -> bool {
        false
    }
    fn finish(&mut self, _m: &mut Marker<'_>, _cycle: Cycle) {}
}

#[test]
fn a_buffer_that_is_extended_keeps_its_cards() {
    for marking in [false, true] {
        let options = HeapOptions { poison: true, fixed_nursery: true, ..Default::default() };
        let mut heap = Heap::new(options);
        let owner = heap.alloc(1, 16);
        let mut list = List { owner, looked: 0 };
        let init = |heap: &Heap, buffer: Obj, from: usize| {
            // SAFETY: a live object of the test's own heap.
            let words = unsafe { heap.size_of(buffer) } / 8;
            // SAFETY: within the buffer.
            unsafe {
                let first = buffer.as_ptr() as *mut usize;
                first.add(1).write(words);
                first.add(from).write_bytes(0, words - from);
            }
        };
        let mut buffer = heap.try_alloc(0, 2 << 20).unwrap();
        init(&heap, buffer, 2);
        // SAFETY: fresh.
        unsafe { slot(owner).write(buffer) };
        heap.collect_minor(&mut list);
        heap.collect_full(&mut list);
        if marking {
            heap.force_major();
            heap.step_objects(&mut list, 1);
            heap.collect_minor(&mut list);
        }
        let mut stored = Vec::new();
        for round in 0..5usize {
            let (child, at) = (heap.alloc(0, 64), 1000 + 30_000 * round);
            let word = buffer.as_ptr() as usize + at * 8;
            // SAFETY: a live object of the test's own heap.
            unsafe { heap.barrier_at(owner, buffer, word) };
            // SAFETY: within the buffer.
            unsafe { *(word as *mut usize) = child.as_ptr() as usize };
            stored.push((at, child));
            // SAFETY: a live object of the test's own heap.
            let before = unsafe { heap.size_of(buffer) };
            // SAFETY: a live object of the test's own heap.
            buffer =
                unsafe { heap.try_extend(buffer, before * 2) }.expect("huge buffers move with their pages");
            // SAFETY: an owner has its buffer.
            unsafe { slot(owner).write(buffer) };
            init(&heap, buffer, before / 8);
            list.looked = 0;
            heap.collect_minor(&mut list);
            assert!(list.looked <= 16, "{} words looked at", list.looked);
            for &(at, child) in &stored {
                assert_eq!(addresses(&heap, buffer)[at - 1], child.as_ptr() as usize);
                assert!(heap.is_allocated(child));
            }
            heap.verify(&mut list).unwrap();
        }
        if marking {
            heap.force_major();
            heap.step_objects(&mut list, 1000);
        }
        heap.collect_full(&mut list);
        assert!(stored.iter().all(|(_, child)| heap.is_allocated(*child)));
    }
}
