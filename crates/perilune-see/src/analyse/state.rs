//! The parts that a domain's time is divided into.
//!
//! At every moment a domain is in exactly one [`State`]. Those of *running* ([`State::is_running`]) are spent
//! by a thread that owns the domain; of these, two are not work: [`State::CollectorWaiting`] and
//! [`State::Displaced`] are time in which that thread did not have a processor.

use std::ops::{AddAssign, Index, IndexMut};

/// What a domain does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Runs the program's code: Lua and natives.
    Lua = 0,
    /// The runtime chooses what to run next.
    Scheduler = 1,
    /// Minor collection.
    Minor = 2,
    /// Marks for a major collection.
    Slice = 3,
    /// Sweeps after a major collection.
    Sweep = 4,
    /// Ends a scope (arena).
    Scope = 5,
    /// Runs finalisers.
    Finalizers = 6,
    /// What else a step of the collector does.
    Collector = 7,
    /// Is in the collector, and its thread has no processor.
    CollectorWaiting = 8,
    /// Would run code, and its thread has no processor.
    Displaced = 9,
    /// Has something to run, and no thread has taken it over yet.
    Ready = 10,
    /// Is in a call that sleeps in the kernel.
    Blocked = 11,
    /// All its fibers wait.
    Waiting = 12,
    /// Has no fiber.
    Idle = 13,
    /// Does not exist yet, or no more.
    Absent = 14,
    /// Nothing is known: the events of that time are lost, or were before the trace.
    Unknown = 15,
}

impl State {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// All of them, in order.
    pub const ALL: [State; State::COUNT] = [
        State::Lua,
        State::Scheduler,
        State::Minor,
        State::Slice,
        State::Sweep,
        State::Scope,
        State::Finalizers,
        State::Collector,
        State::CollectorWaiting,
        State::Displaced,
        State::Ready,
        State::Blocked,
        State::Waiting,
        State::Idle,
        State::Absent,
        State::Unknown,
    ];

    /// Its name, for keys and tables: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        [
            "lua",
            "scheduler",
            "minor",
            "major-slice",
            "sweep",
            "scope-end",
            "finalizers",
            "collector",
            "collector-waiting",
            "displaced",
            "ready",
            "blocked",
            "waiting",
            "idle",
            "absent",
            "unknown",
        ][self as usize]
    }

    /// A thread owns the domain.
    pub fn is_running(self) -> bool {
        (self as u8) <= State::Displaced as u8
    }

    /// The collector works.
    pub fn is_collecting(self) -> bool {
        (State::Minor as u8..=State::Collector as u8).contains(&(self as u8))
    }

    /// Its thread works on a processor, as far as is known.
    pub fn is_working(self) -> bool {
        (self as u8) < State::CollectorWaiting as u8
    }
}

/// Nanoseconds in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times([u64; State::COUNT]);

impl Times {
    /// All together.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Together in those states that `f` chooses.
    pub fn sum_of(&self, f: impl Fn(State) -> bool) -> u64 {
        State::ALL.iter().filter(|s| f(**s)).map(|s| self[*s]).sum()
    }

    /// Time as a domain: all but [`State::Absent`] and [`State::Unknown`].
    pub fn existing(&self) -> u64 {
        self.sum_of(|s| !matches!(s, State::Absent | State::Unknown))
    }

    /// Collector's work.
    pub fn collecting(&self) -> u64 {
        self.sum_of(State::is_collecting)
    }

    /// Processor time, as far as is known.
    pub fn cpu(&self) -> u64 {
        self.sum_of(State::is_working)
    }

    /// Takes `amount` (at most the sum) off the states in proportion, without a rest: what was taken off
    /// each.
    pub(crate) fn shares(&self, amount: u64) -> Times {
        let all = self.sum();
        let mut taken = Times::default();
        if all == 0 {
            return taken;
        }
        let mut left = amount.min(all);
        for s in State::ALL {
            let part = (self[s] as u128 * amount.min(all) as u128 / all as u128) as u64;
            taken[s] = part;
            left -= part;
        }
        // What rounding has left goes to whoever has something left, a nanosecond each.
        for s in State::ALL.iter().cycle().take(State::COUNT * 2) {
            if left > 0 && taken[*s] < self[*s] {
                taken[*s] += 1;
                left -= 1;
            }
        }
        debug_assert_eq!(left, 0);
        taken
    }
}

impl Index<State> for Times {
    type Output = u64;
    fn index(&self, s: State) -> &u64 {
        &self.0[s as usize]
    }
}

impl IndexMut<State> for Times {
    fn index_mut(&mut self, s: State) -> &mut u64 {
        &mut self.0[s as usize]
    }
}

impl AddAssign<&Times> for Times {
    fn add_assign(&mut self, other: &Times) {
        for (to, n) in self.0.iter_mut().zip(other.0) {
            *to += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_their_places_and_names() {
        for (at, s) in State::ALL.iter().enumerate() {
            assert_eq!(*s as usize, at);
            assert!(!s.is_collecting() || s.is_working());
            assert!(!s.is_working() || s.is_running());
            assert_eq!(State::ALL.iter().filter(|o| o.name() == s.name()).count(), 1);
        }
    }

    #[test]
    fn shares_leave_no_rest() {
        let mut t = Times::default();
        (t[State::Lua], t[State::Minor], t[State::Sweep]) = (10, 7, 1);
        for amount in 0..20 {
            let taken = t.shares(amount);
            assert_eq!(taken.sum(), amount.min(18));
            assert!(State::ALL.iter().all(|s| taken[*s] <= t[*s]));
        }
        assert_eq!(Times::default().shares(5).sum(), 0);
        let mut large = Times::default();
        (large[State::Lua], large[State::Slice]) = (u64::MAX / 3, u64::MAX / 5);
        assert_eq!(large.shares(u64::MAX / 7).sum(), u64::MAX / 7);
    }
}
