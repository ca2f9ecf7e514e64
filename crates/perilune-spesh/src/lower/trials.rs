//! Guards that fail on purpose, and calls before which machine code leaves (`crate::trials`).

use super::Lowering;
use crate::ssa::{Block, IntCC, Type};
use crate::trials::{self, Guards};

impl Lowering<'_, '_> {
    /// A guard that leads to `otherwise` comes here: perhaps it fails.
    pub(super) fn try_guard(&mut self, otherwise: Block) {
        let Some(guards) = self.task.trials.guards.filter(|_| self.guarded.contains(&otherwise)) else {
            return;
        };
        let fails = match guards {
            Guards::Fail(often) => self.is_due(trials::guards(), often),
            Guards::Random => {
                let address = self.b.iconst(Type::I64, trials::chance() as i64);
                let chance = self.load(Type::I64, address, 0);
                let multiplier = self.b.iconst(Type::I64, trials::MULTIPLIER as i64);
                let increment = self.b.iconst(Type::I64, trials::INCREMENT as i64);
                let chance = self.b.imul(chance, multiplier);
                let chance = self.b.iadd(chance, increment);
                self.store(chance, address, 0);
                let few = self.b.iconst(Type::I64, (1u64 << 58) as i64);
                self.b.icmp(IntCC::UnsignedLessThan, chance, few)
            }
        };
        self.go_if(fails, otherwise);
    }

    /// A call is about to be made: perhaps machine code leaves.
    pub(super) fn try_leaving(&mut self, leave: Block) {
        let Some(often) = self.task.trials.leave else { return };
        let leaves = self.is_due(trials::calls(), often);
        self.go_if(leaves, leave);
    }

    fn go_if(&mut self, condition: super::Val, to: Block) {
        let on = self.b.create_block();
        self.b.brif(condition, to, &[], on, &[]);
        self.go_to(on);
    }

    /// Counts at an address: whether it is one in so many.
    fn is_due(&mut self, address: usize, often: u32) -> super::Val {
        let address = self.b.iconst(Type::I64, address as i64);
        let count = self.load(Type::I32, address, 0);
        let one = self.b.iconst(Type::I32, 1);
        let count = self.b.iadd(count, one);
        let often = self.b.iconst(Type::I32, often as i32 as i64 & 0xffff_ffff);
        let due = self.b.icmp(IntCC::UnsignedGreaterThanOrEqual, count, often);
        let none = self.b.iconst(Type::I32, 0);
        let count = self.b.select(due, none, count);
        self.store(count, address, 0);
        due
    }
}
