//! Which parts of a region are free: best fit, with splitting and coalescing.
//!
//! Code comes in pieces from some dozens of bytes to some hundred kilobytes, a few thousand at most, and each
//! costs hundreds of microseconds to compile. So what counts is little fragmentation and code that lies close
//! together, and two ordered maps will do: one by address, to find neighbours, one by size, to find the
//! smallest part that is large enough, the lowest of several.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pieces begin at multiples of this and are as long, in bytes.
pub const GRANULE: u32 = 16;

/// A piece that was taken. There is no way to copy one, so it can be given back once.
#[derive(Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Bytes from the start of the region.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Bytes, a multiple of [`GRANULE`].
    pub fn len(&self) -> u32 {
        self.len
    }
}

/// The free parts of a region.
#[derive(Debug)]
pub struct FreeList {
    capacity: u32,
    /// Start to length. No two touch: they would be one.
    by_start: BTreeMap<u32, u32>,
    /// The same as length and start.
    by_len: BTreeSet<(u32, u32)>,
}

impl FreeList {
    /// All of `capacity` bytes (a multiple of [`GRANULE`]) is free.
    pub fn new(capacity: u32) -> FreeList {
        assert!(capacity.is_multiple_of(GRANULE));
        let mut list = FreeList { capacity, by_start: BTreeMap::new(), by_len: BTreeSet::new() };
        list.insert(0, capacity);
        list
    }

    /// Takes `len` bytes, rounded up to granules, at a multiple of `alignment` (a power of two, not below
    /// [`GRANULE`]).
    pub fn take(&mut self, len: u32, alignment: u32) -> Option<Span> {
        debug_assert!(alignment.is_power_of_two() && alignment >= GRANULE);
        let len = len.max(1).checked_next_multiple_of(GRANULE)?;
        // What is long enough fails only by its alignment, so the search seldom goes past the first.
        let fits = |&&(free, at): &&(u32, u32)| at.next_multiple_of(alignment) + len <= at + free;
        let &(free, at) = self.by_len.range((len, 0)..).find(fits)?;
        let start = at.next_multiple_of(alignment);
        self.remove(at, free);
        self.insert(at, start - at);
        self.insert(start + len, at + free - (start + len));
        Some(Span { start, len })
    }

    /// Takes a piece back and joins it with free neighbours.
    pub fn give_back(&mut self, span: Span) {
        let Span { mut start, mut len } = span;
        assert!(start + len <= self.capacity, "a piece of another region");
        if let Some((&at, &free)) = self.by_start.range(..=start).next_back() {
            assert!(at + free <= start, "a piece that is free already");
            if at + free == start {
                self.remove(at, free);
                (start, len) = (at, free + len);
            }
        }
        if let Some((&at, &free)) = self.by_start.range(start..).next() {
            assert!(at >= start + len, "a piece that is free in part");
            if at == start + len {
                self.remove(at, free);
                len += free;
            }
        }
        self.insert(start, len);
    }

    /// The length of the largest free part.
    pub fn largest(&self) -> u32 {
        self.by_len.last().map_or(0, |&(len, _)| len)
    }

    /// The free parts, by address.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.by_start.iter().map(|(&start, &len)| start as usize..(start + len) as usize)
    }

    fn insert(&mut self, start: u32, len: u32) {
        if len > 0 {
            self.by_start.insert(start, len);
            self.by_len.insert((len, start));
        }
    }

    fn remove(&mut self, start: u32, len: u32) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const CAPACITY: u32 = 4096;

    impl FreeList {
        /// The granules that are free, each once, after a look at whether the two maps agree and nothing is
        /// left to join.
        fn granules(&self) -> Vec<u32> {
            let by_len: BTreeMap<u32, u32> = self.by_len.iter().map(|&(len, start)| (start, len)).collect();
            assert_eq!(by_len, self.by_start);
            let mut end = None;
            let mut granules = Vec::new();
            for (&start, &len) in &self.by_start {
                assert!(len > 0 && end.is_none_or(|end| start > end), "overlapping, or not joined");
                end = Some(start + len);
                granules.extend((start..start + len).step_by(GRANULE as usize));
            }
            granules
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take { len: u32, alignment: u32 },
        GiveBack(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let alignment = prop_oneof![Just(16), Just(32)];
        let take = (1u32..700, alignment).prop_map(|(len, alignment)| Step::Take { len, alignment });
        prop_oneof![3 => take, 2 => any::<usize>().prop_map(Step::GiveBack)]
    }

    proptest! {
        /// Against a model that knows of each granule whether it is free: pieces are free when they are
        /// taken, aligned and long enough; taking fails only if nothing fits; in the end all is one.
        #[test]
        fn takes_what_is_free_and_only_then(steps in vec(step(), 1..200)) {
            let mut list = FreeList::new(CAPACITY);
            let mut free: BTreeSet<u32> = (0..CAPACITY).step_by(GRANULE as usize).collect();
            let mut taken: Vec<Span> = Vec::new();
            let granules = |start: u32, len: u32| (start..start + len).step_by(GRANULE as usize);
            for step in steps {
                match step {
                    Step::Take { len, alignment } => {
                        let rounded = len.next_multiple_of(GRANULE);
                        let mut places =
                            (0..CAPACITY.saturating_sub(rounded - 1)).step_by(alignment as usize);
                        let possible = places.any(|at| granules(at, rounded).all(|g| free.contains(&g)));
                        let span = list.take(len, alignment);
                        prop_assert_eq!(span.is_some(), possible);
                        if let Some(span) = span {
                            prop_assert!(span.start().is_multiple_of(alignment));
                            prop_assert_eq!(span.len(), rounded);
                            for granule in granules(span.start(), span.len()) {
                                prop_assert!(free.remove(&granule));
                            }
                            taken.push(span);
                        }
                    }
                    Step::GiveBack(_) if taken.is_empty() => {}
                    Step::GiveBack(index) => {
                        let span = taken.swap_remove(index % taken.len());
                        free.extend(granules(span.start(), span.len()));
                        list.give_back(span);
                    }
                }
                prop_assert_eq!(list.granules(), free.iter().copied().collect::<Vec<_>>());
            }
            taken.into_iter().for_each(|span| list.give_back(span));
            prop_assert_eq!(list.by_start, BTreeMap::from([(0, CAPACITY)]));
        }
    }

    #[test]
    fn the_smallest_part_that_fits_is_taken() {
        let mut list = FreeList::new(CAPACITY);
        let parts: Vec<Span> = [256, 16, 64, 16, 128, 16].map(|len| list.take(len, 16).unwrap()).into();
        for (index, span) in parts.into_iter().enumerate() {
            if index % 2 == 0 {
                list.give_back(span);
            }
        }
        assert_eq!(list.take(60, 16).unwrap(), Span { start: 272, len: 64 });
        assert_eq!(list.take(100, 32).unwrap(), Span { start: 352, len: 112 });
    }

    #[test]
    fn lengths_that_no_region_has_are_refused() {
        let mut list = FreeList::new(CAPACITY);
        assert_eq!(list.take(u32::MAX, 16), None);
        assert_eq!(list.take(CAPACITY + 1, 16), None);
        assert!(list.take(CAPACITY, 32).is_some());
        assert_eq!(list.largest(), 0);
    }

    #[test]
    #[should_panic = "free already"]
    fn giving_back_twice_is_found() {
        let mut list = FreeList::new(CAPACITY);
        let span = list.take(64, 16).unwrap();
        let again = Span { ..span };
        list.give_back(span);
        list.give_back(again);
    }
}
