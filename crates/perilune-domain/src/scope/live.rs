//! The fibers of a scope that have not ended, in the order in which they were started.
//!
//! Whoever ends may be the one whose end all others are told of. Each is told once: a scope of many fibers
//! would take a time that is quadratic in their number if each end looked at all that are left.

use std::collections::BTreeMap;

/// Fibers that have not ended. `T` is a fiber.
pub(super) struct Live<T> {
    fibers: BTreeMap<u64, T>,
    /// How many have been started.
    started: u64,
    /// Up to which they have been told.
    told: u64,
}

impl<T> Default for Live<T> {
    fn default() -> Live<T> {
        Live { fibers: BTreeMap::new(), started: 0, told: 0 }
    }
}

impl<T: Clone> Live<T> {
    /// One is started; as how many-th.
    pub fn add(&mut self, fiber: T) -> u64 {
        self.started += 1;
        self.fibers.insert(self.started, fiber);
        self.started
    }

    /// The one that was started so has ended. False: it had.
    pub fn remove(&mut self, place: u64) -> bool {
        self.fibers.remove(&place).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.fibers.is_empty()
    }

    /// All of them, the youngest first, as variables are closed.
    pub fn all(&self) -> Vec<T> {
        self.fibers.values().rev().cloned().collect()
    }

    /// Those that were started since this was called last, in the same order. They are told now.
    pub fn untold(&mut self) -> Vec<T> {
        let from = std::mem::replace(&mut self.told, self.started) + 1;
        self.fibers.range(from..).rev().map(|(_, fiber)| fiber.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_however_many_end() {
        let mut live = Live::default();
        for n in 1..=1000 {
            assert_eq!(live.add(n), n);
        }
        assert_eq!(live.all(), (1..=1000).rev().collect::<Vec<_>>());
        let mut told = 0;
        for n in 1..=1000 {
            assert!(live.remove(n) && !live.remove(n));
            told += live.untold().len();
        }
        assert_eq!(told, 999);
        assert!(live.is_empty());
    }

    #[test]
    fn those_that_are_started_later_are_told_later() {
        let mut live = Live::default();
        live.add('a');
        live.add('b');
        assert_eq!(live.untold(), ['b', 'a']);
        assert!(live.untold().is_empty());
        live.add('c');
        assert!(live.remove(1));
        live.add('d');
        assert_eq!((live.untold(), live.all()), (vec!['d', 'c'], vec!['d', 'c', 'b']));
    }
}
