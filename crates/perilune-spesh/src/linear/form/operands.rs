//! What instructions read.

use super::{Form, Name, Need, Where};
use crate::ssa::{Data, Inst, Opcode, Value};

impl Form<'_> {
    /// Names what an instruction reads, but for what it passes to blocks.
    pub(in crate::linear) fn operands(&self, inst: Inst, each: &mut dyn FnMut(Name, Need)) {
        match *self.data(inst) {
            Data::Load { arg, .. } => self.address_parts(arg, Need::Must, each),
            Data::Store { args, .. } => {
                self.address_parts(args[1], Need::Must, each);
                self.parts(args[0], [Need::May, Need::Must], each);
            }
            Data::Binary { opcode, args } => {
                // The first one is moved to where the result will be before the second is read, unless that
                // can be the first just as well.
                let is_float = matches!(opcode, Opcode::Fadd | Opcode::Fsub | Opcode::Fmul | Opcode::Fdiv);
                let in_turn = opcode == Opcode::Isub || is_float && !self.has_avx;
                let second = if in_turn { Need::MayLate } else { Need::May };
                self.parts(args[0], [Need::May, Need::MustLate], each);
                self.parts(args[1], [second, Need::MustLate], each);
            }
            Data::Select { args } => {
                self.parts(args[0], [Need::May, Need::Must], each);
                self.parts(args[1], [Need::MayLate, Need::MustLate], each);
                self.parts(args[2], [Need::May, Need::Must], each);
            }
            Data::Branch { arg, .. } => self.parts(arg, [Need::May, Need::Must], each),
            Data::Jump { .. } => {}
            _ => {
                for &value in self.func.args(self.data(inst)) {
                    self.parts(value, [Need::May, Need::Must], each);
                }
            }
        }
    }

    /// What a value is made of where it is used: how it is needed itself, and the parts of an address.
    fn parts(&self, value: Value, needs: [Need; 2], each: &mut dyn FnMut(Name, Need)) {
        match self.at(value) {
            Where::Named(name) => each(name, needs[0]),
            Where::Within => match *self.within(value).expect("it is part of others") {
                Data::Load { arg, .. } => self.address_parts(arg, needs[1], each),
                Data::Binary { opcode: Opcode::Band, args }
                | Data::CompareInts { args, .. }
                | Data::CompareFloats { args, .. } => {
                    args.iter().for_each(|&arg| self.parts(arg, needs, each));
                }
                _ => self.address_parts(value, needs[1], each),
            },
            _ => {}
        }
    }

    fn address_parts(&self, value: Value, need: Need, each: &mut dyn FnMut(Name, Need)) {
        match self.within(value) {
            Some(Data::Binary { opcode: Opcode::Ishl, args }) => {
                self.address_parts(args[0], need, each);
            }
            Some(Data::Binary { args, .. }) => {
                args.iter().for_each(|&arg| self.address_parts(arg, need, each));
            }
            _ => {
                if let Where::Named(name) = self.at(value) {
                    each(name, need);
                }
            }
        }
    }
}
