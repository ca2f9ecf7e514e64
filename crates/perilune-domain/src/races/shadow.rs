//! Who touched which element last: the memory beside an array's memory.
//!
//! Of each element are kept the last plain store, the last atomic change and two plain loads, each as strand,
//! time and place. An access is in order with one that is kept if the running strand's clock knows that one's
//! time. Pairs that need an order: a store with anything; a load or an atomic change with a store. Two loads,
//! two atomic changes, and a load beside an atomic change do not: nothing is lost.
//!
//! Of loads without an order between them two are kept, the oldest and the newest. A store that is in order
//! with both but not with one between them goes unseen; a third place for each element of a large array costs
//! more than that is worth.
//!
//! Elements lie in blocks, each with a lock, and made when it is first touched.

use super::clock::{Clock, History};
use parking_lot::Mutex;
use std::collections::HashMap;

const BLOCK: usize = 256;

/// How an element is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Load,
    Store,
    /// `add`, `cas`.
    Change,
}

/// An access that was.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// 0: there was none.
    pub strand: u32,
    pub time: u32,
    pub site: u32,
}

impl Mark {
    /// Whether this is in order with what the strand of `now` does, which knows so much of others.
    fn is_before(&self, now: Mark, clock: &Clock) -> bool {
        self.strand == 0 || self.strand == now.strand || clock.get(self.strand) >= self.time
    }
}

#[derive(Clone, Default)]
struct Cell {
    store: Mark,
    change: Mark,
    loads: [Mark; 2],
}

impl Cell {
    /// Notes an access; gives an earlier one that it has no order with.
    fn access(&mut self, access: Access, mark: Mark, clock: &Clock) -> Option<(Access, Mark)> {
        let unordered = |kind, m: &Mark| (!m.is_before(mark, clock)).then_some((kind, *m));
        let mut found = unordered(Access::Store, &self.store);
        if access == Access::Store {
            found = found
                .or_else(|| unordered(Access::Change, &self.change))
                .or_else(|| self.loads.iter().find_map(|m| unordered(Access::Load, m)));
        }
        match access {
            Access::Store => *self = Cell { store: mark, ..Cell::default() },
            Access::Change => self.change = mark,
            Access::Load => {
                let at = self.loads.iter().position(|m| m.is_before(mark, clock)).unwrap_or(1);
                self.loads[at] = mark;
            }
        }
        found
    }
}

type Block = Mutex<Option<Box<[Cell]>>>;

/// The marks of an array's elements.
pub(crate) struct Shadow {
    blocks: Box<[Block]>,
    /// What happened before the last atomic changes of elements that have had any.
    changes: Mutex<HashMap<usize, Clock>>,
    /// The array, for people.
    pub whose: String,
}

impl Shadow {
    /// For this many elements.
    pub fn new(len: usize, whose: String) -> Shadow {
        Shadow {
            blocks: (0..len.div_ceil(BLOCK)).map(|_| Mutex::new(None)).collect(),
            changes: Mutex::default(),
            whose,
        }
    }

    /// Notes an access to element `at`; gives an earlier one that it has no order with.
    pub fn access(&self, at: usize, access: Access, mark: Mark, clock: &Clock) -> Option<(Access, Mark)> {
        let mut block = self.blocks[at / BLOCK].lock();
        let cells = block.get_or_insert_with(|| vec![Cell::default(); BLOCK].into());
        cells[at % BLOCK].access(access, mark, clock)
    }

    /// Before an atomic change: what was before it comes before what is after later ones.
    pub fn leave(&self, at: usize, told: &History) {
        self.changes.lock().entry(at).or_default().learn(told);
    }

    /// What was before atomic changes of an element.
    pub fn changes(&self, at: usize) -> Option<Clock> {
        self.changes.lock().get(&at).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(strand: u32) -> Mark {
        Mark { strand, time: 1, site: strand }
    }

    /// What a second access of another strand finds, if the strands are in order or not.
    fn found(first: Access, second: Access, ordered: bool) -> Option<(Access, Mark)> {
        let shadow = Shadow::new(1000, String::new());
        let mut clock = Clock::default();
        clock.set(1, 1);
        assert_eq!(shadow.access(999, first, mark(1), &clock), None);
        let mut clock = Clock::default();
        clock.set(2, 1);
        if ordered {
            clock.set(1, 1);
        }
        assert_eq!(shadow.access(998, second, mark(2), &clock), None, "another element");
        shadow.access(999, second, mark(2), &clock)
    }

    #[test]
    fn pairs_with_a_store_need_an_order() {
        use Access::*;
        for first in [Load, Store, Change] {
            for second in [Load, Store, Change] {
                assert_eq!(found(first, second, true), None);
                let bad = first == Store || second == Store;
                assert_eq!(
                    found(first, second, false),
                    bad.then_some((first, mark(1))),
                    "{first:?} {second:?}"
                );
            }
        }
    }

    #[test]
    fn a_store_is_compared_with_loads_of_several() {
        let shadow = Shadow::new(1, String::new());
        for strand in 1..=3 {
            let mut clock = Clock::default();
            clock.set(strand, 1);
            assert_eq!(shadow.access(0, Access::Load, mark(strand), &clock), None);
        }
        let mut clock = Clock::default();
        clock.set(3, 1);
        clock.set(4, 1);
        assert_eq!(shadow.access(0, Access::Store, mark(4), &clock), Some((Access::Load, mark(1))));
    }
}
