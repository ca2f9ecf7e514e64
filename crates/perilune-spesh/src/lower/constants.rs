//! Small constants that are part of instructions.
//!
//! In intermediate form each constant is an instruction, and a quarter of all were constants. Most of these
//! are what something is compared with, added to, or what is stored: the processor's instructions have them
//! in themselves, and nothing is made of the constant itself. So the function has each of them once, where it
//! begins, for all that use it.
//!
//! What goes into a register of the processor is made where it is used: it would be in one from the start.

use super::{Lowering, Val};
use crate::backend;
use crate::backend::clif::{InstBuilder, Type, condcodes::IntCC, types};

impl Lowering<'_, '_> {
    /// A constant for an instruction that has room for it.
    pub(super) fn small(&mut self, ty: Type, n: i64) -> Val {
        let is_small = i32::try_from(n).is_ok() && (n >= 0 || ty == types::I64);
        if !is_small {
            return self.b.ins().iconst(ty, n);
        }
        let b = &mut *self.b;
        *self.small.entry((ty, n)).or_insert_with(|| backend::constant_at_start(b, ty, n))
    }

    /// The same for an instruction whose other operand is `x`. If that is loaded, a constant, too, or a sum,
    /// the instruction may have that one in itself, and this one in a register.
    pub(super) fn small_for(&mut self, x: Val, n: i64) -> Val {
        let ty = self.b.func.dfg.value_type(x);
        match backend::may_be_operand_in_place(self.b.func, x) {
            true => self.b.ins().iconst(ty, n),
            false => self.small(ty, n),
        }
    }

    /// Comparisons have the constant in themselves whatever the other operand is.
    pub(super) fn icmp_imm(&mut self, order: IntCC, x: Val, n: i64) -> Val {
        let ty = self.b.func.dfg.value_type(x);
        let n = match backend::integer(self.b.func, x) {
            Some(_) => self.b.ins().iconst(ty, n),
            None => self.small(ty, n),
        };
        self.b.ins().icmp(order, x, n)
    }

    /// An address may be the sum of this sum and something else, which has the constant in a register.
    pub(super) fn iadd_imm(&mut self, x: Val, n: i64) -> Val {
        self.b.ins().iadd_imm_s(x, n)
    }

    pub(super) fn band_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().band(x, n)
    }

    pub(super) fn bor_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().bor(x, n)
    }

    pub(super) fn bxor_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().bxor(x, n)
    }

    pub(super) fn ishl_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().ishl(x, n)
    }

    pub(super) fn ushr_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().ushr(x, n)
    }

    pub(super) fn sshr_imm(&mut self, x: Val, n: i64) -> Val {
        let n = self.small_for(x, n);
        self.b.ins().sshr(x, n)
    }
}
