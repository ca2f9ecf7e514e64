//! Operations with small constants.
//!
//! A constant stands nowhere: it is part of the instruction that uses it, or is made there.

use super::{Lowering, Val};
use crate::ssa::{IntCC, Opcode, Type};

impl Lowering<'_, '_> {
    fn with_constant(&mut self, opcode: Opcode, x: Val, n: i64) -> Val {
        let ty = self.b.func.ty(x);
        let n = self.b.iconst(ty, n);
        self.b.binary(opcode, x, n)
    }

    /// Of what is a constant itself it is known what comes of it.
    pub(super) fn icmp_imm(&mut self, order: IntCC, x: Val, n: i64) -> Val {
        let ty = self.b.func.ty(x);
        if let Some(x) = self.b.func.integer(x) {
            return self.b.iconst(Type::I8, order.holds(x, ty.signed(n)) as i64);
        }
        let n = self.b.iconst(ty, n);
        self.b.icmp(order, x, n)
    }

    /// The same where either may be one.
    pub(super) fn icmp(&mut self, order: IntCC, x: Val, y: Val) -> Val {
        match self.b.func.integer(y) {
            Some(y) => self.icmp_imm(order, x, y),
            None => self.b.icmp(order, x, y),
        }
    }

    pub(super) fn iadd_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Iadd, x, n)
    }

    pub(super) fn imul_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Imul, x, n)
    }

    pub(super) fn band_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Band, x, n)
    }

    pub(super) fn bor_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Bor, x, n)
    }

    pub(super) fn bxor_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Bxor, x, n)
    }

    pub(super) fn ishl_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Ishl, x, n)
    }

    pub(super) fn ushr_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Ushr, x, n)
    }

    pub(super) fn sshr_imm(&mut self, x: Val, n: i64) -> Val {
        self.with_constant(Opcode::Sshr, x, n)
    }
}
