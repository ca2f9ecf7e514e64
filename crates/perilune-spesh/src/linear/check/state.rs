//! What registers and words of the frame hold.

use super::super::assemble::Reg;
use super::super::form::Name;
use super::super::moves::Spot;
use std::fmt::{self, Display};

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Name(Name),
    Constant(u64),
    /// The address so far from the frame's base.
    Address(i32),
    /// What a register held when the function was called.
    Kept(Reg),
    /// A call has given it back: the first word is 0, the first float is 2.
    Result(u8),
    /// Something that the instruction at hand has written.
    New,
}

/// What is where.
#[derive(Clone)]
pub(super) struct State {
    pub held: Vec<(Spot, What)>,
    /// From the frame's base to where the stack ends.
    pub stack: i32,
    /// The flags say how two operands compare.
    pub compared: bool,
}

impl State {
    pub(super) fn holds(&self, spot: Spot, what: What) -> bool {
        self.held.contains(&(spot, what))
    }

    pub(super) fn at(&self, spot: Spot) -> Vec<What> {
        self.held.iter().filter(|held| held.0 == spot).map(|held| held.1).collect()
    }

    pub(super) fn add(&mut self, spot: Spot, what: What) {
        if !self.holds(spot, what) {
            self.held.push((spot, what));
        }
    }

    pub(super) fn forget(&mut self, spot: Spot) {
        self.held.retain(|held| held.0 != spot);
    }

    pub(super) fn drop_what(&mut self, is: impl Fn(What) -> bool) {
        self.held.retain(|held| !is(held.1));
    }

    /// What is true of both is; whether that is less.
    pub(super) fn meet(&mut self, other: &State) -> bool {
        let before = (self.held.len(), self.compared);
        self.held.retain(|held| other.held.contains(held));
        self.compared &= other.compared;
        before != (self.held.len(), self.compared)
    }
}

/// A place, as people know it.
pub(super) struct Shown(pub Spot);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"];
        match self.0 {
            Spot::Integer(r) if r < 8 => f.write_str(NAMES[r as usize]),
            Spot::Integer(r) => write!(f, "R{r}"),
            Spot::Float(r) => write!(f, "XMM{r}"),
            Spot::Slot(offset) => write!(f, "[RBP{offset:+}]"),
        }
    }
}
