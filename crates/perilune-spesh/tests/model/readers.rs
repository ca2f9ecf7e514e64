//! A reader of ranges sees what is entered as long as it reads, whatever a writer does meanwhile.

use crate::explore;
use crate::ranges::Ranges;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// loom watches the cell: dropping it writes, so that a reader which is not ordered before that is reported.
struct Watched(UnsafeCell<u32>);

// SAFETY: written when it is made and when it is dropped; loom reports it if a read can meet one of these.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new(value: u32) -> Watched {
        Watched(UnsafeCell::new(value))
    }

    fn get(&self) -> u32 {
        // SAFETY: see above.
        self.0.with(|value| unsafe { *value })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: see above.
        self.0.with_mut(|value| unsafe { *value = u32::MAX });
    }
}

const CODE: std::ops::Range<usize> = 0x10000..0x10040;

#[test]
fn what_is_removed_is_dropped_behind_its_readers() {
    explore(3, || {
        let ranges = Arc::new(Ranges::<Watched>::new(0x10000..0x14000));
        ranges.insert(CODE, Watched::new(1));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let ranges = Arc::clone(&ranges);
                thread::spawn(move || {
                    let found = ranges.find(0x10020, |_, of| of.get());
                    assert!(matches!(found, None | Some(1)));
                })
            })
            .collect();
        ranges.remove(CODE);
        ranges.sweep();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(ranges.sweep());
    });
}

#[test]
fn the_same_place_is_used_again() {
    explore(3, || {
        let ranges = Arc::new(Ranges::<Watched>::new(0x10000..0x14000));
        ranges.insert(CODE, Watched::new(1));
        let reader = {
            let ranges = Arc::clone(&ranges);
            thread::spawn(move || {
                for _ in 0..2 {
                    let found = ranges.find(0x10020, |_, of| of.get());
                    assert!(matches!(found, None | Some(1 | 2)));
                }
            })
        };
        ranges.remove(CODE);
        ranges.insert(CODE, Watched::new(2));
        reader.join().unwrap();
        assert!(ranges.sweep());
        assert_eq!(ranges.find(0x10020, |_, of| of.get()), Some(2));
    });
}
