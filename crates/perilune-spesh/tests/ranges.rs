//! Which code an address belongs to: against a model, and with readers that look while it changes.

use perilune_spesh::ranges::Ranges;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BASE: usize = 0x7000_0000;
/// What one list covers, so that tests cross its borders.
const SECTOR: usize = 16 << 10;

fn ranges() -> Ranges<u64> {
    Ranges::new(BASE..BASE + 8 * SECTOR)
}

#[test]
fn an_address_finds_the_code_that_it_lies_in() {
    let ranges = ranges();
    ranges.insert(BASE + 64..BASE + 100, 1);
    ranges.insert(BASE + 128..BASE + 3 * SECTOR + 32, 2);
    ranges.insert(BASE + 3 * SECTOR + 32..BASE + 3 * SECTOR + 33, 3);
    let at = |offset: usize| ranges.find(BASE + offset, |start, of| (start - BASE, *of));
    assert_eq!(at(63), None);
    assert_eq!(at(64), Some((64, 1)));
    assert_eq!(at(99), Some((64, 1)));
    assert_eq!(at(100), None);
    assert_eq!(at(2 * SECTOR), Some((128, 2)));
    assert_eq!(at(3 * SECTOR + 31), Some((128, 2)));
    assert_eq!(at(3 * SECTOR + 32), Some((3 * SECTOR + 32, 3)));
    assert_eq!(at(3 * SECTOR + 33), None);
    ranges.remove(BASE + 128..BASE + 3 * SECTOR + 32);
    assert_eq!(at(2 * SECTOR), None);
    assert_eq!(at(64), Some((64, 1)));
    assert_eq!(ranges.find(BASE - 1, |_, _| ()), None);
    assert_eq!(ranges.find(BASE + 8 * SECTOR, |_, _| ()), None);
}

#[test]
#[should_panic = "two codes at one address"]
fn overlapping_code_is_found() {
    let ranges = ranges();
    ranges.insert(BASE..BASE + 64, 1);
    ranges.insert(BASE + 48..BASE + 80, 2);
}

#[test]
fn what_a_reader_sees_is_not_dropped_before_it_is_done() {
    let ranges: Ranges<Arc<()>> = Ranges::new(BASE..BASE + SECTOR);
    let token = Arc::new(());
    ranges.insert(BASE..BASE + 64, Arc::clone(&token));
    ranges.find(BASE, |_, _| {
        ranges.remove(BASE..BASE + 64);
        assert!(!ranges.sweep());
        assert_eq!(Arc::strong_count(&token), 2);
    });
    assert!(ranges.sweep());
    assert_eq!(Arc::strong_count(&token), 1);
}

proptest! {
    /// Against an ordered map, on units of 512 bytes, so that codes cross sectors.
    #[test]
    fn agrees_with_an_ordered_map(steps in vec((0usize..256, 1usize..80, any::<bool>()), 1..120)) {
        let ranges = ranges();
        let mut model: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
        for (index, (at, len, add)) in steps.into_iter().enumerate() {
            let (start, end) = (BASE + at * 512, BASE + (at + len).min(256) * 512);
            let free = model.range(..end).next_back().is_none_or(|(_, &(behind, _))| behind <= start);
            if add && free {
                ranges.insert(start..end, index as u64);
                model.insert(start, (end, index as u64));
            } else if let Some((&start, &(end, _))) = model.range(start..).next() {
                ranges.remove(start..end);
                model.remove(&start);
            }
            for address in (BASE..BASE + 8 * SECTOR).step_by(512) {
                let last = model.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
                let expected = last.map(|(&start, &(_, of))| (start, of));
                prop_assert_eq!(ranges.find(address, |start, &of| (start, of)), expected);
            }
        }
        prop_assert!(ranges.sweep());
    }
}

/// What is entered says where it lies, so a reader that gets something else, or something dropped, notices.
struct Tagged {
    start: usize,
    alive: AtomicBool,
    drops: Arc<AtomicU64>,
}

impl Drop for Tagged {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, Ordering::Relaxed));
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets a flag when it goes, also by a failed assertion: the readers end then.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_whole_lists_while_writers_change_them() {
    let ranges: Ranges<Tagged> = Ranges::new(BASE..BASE + 4 * SECTOR);
    let (done, drops) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            let (ranges, done) = (&ranges, &done);
            scope.spawn(move || {
                let mut random = seed + 1;
                while !done.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let address = BASE + (random >> 33) as usize % (4 * SECTOR);
                    ranges.find(address, |start, of| {
                        assert!(of.alive.load(Ordering::Relaxed) && of.start == start);
                        assert!(start <= address && address < start + 1024);
                    });
                }
            });
        }
        let _done = SetAtEnd(&done);
        for round in 0..200 {
            for start in (BASE..BASE + 4 * SECTOR).step_by(2048) {
                let start = start + round % 1024;
                let (alive, drops) = (AtomicBool::new(true), Arc::clone(&drops));
                ranges.insert(start..start + 1024, Tagged { start, alive, drops });
            }
            for start in (BASE..BASE + 4 * SECTOR).step_by(2048) {
                let start = start + round % 1024;
                ranges.remove(start..start + 1024);
            }
        }
    });
    assert!(ranges.sweep());
    assert_eq!(drops.load(Ordering::Relaxed), 200 * 32);
}
