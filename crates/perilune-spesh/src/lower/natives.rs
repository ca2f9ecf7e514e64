//! Calls of natives of which it is known what they do ([`Intrinsic`]). All others are the interpreter's.

use super::{Known, Lowering, Ty};
use crate::backend::clif::{Block, InstBuilder, Value, condcodes::FloatCC, condcodes::IntCC, types};
use perilune_vm::machine::layout;
use perilune_vm::{Intrinsic, Native, Tag};

impl Lowering<'_, '_> {
    /// `CALL` of what is no Lua function.
    pub(super) fn call_native(&mut self, at: usize) {
        let (i, site) = (self.code(at), self.site(at));
        let known = site.native.filter(|_| !site.natives && i.c() == 2 && i.b() > 1 && !self.is_suspect(at));
        let Some((native, intrinsic)) = known.and_then(|n| Some((n, n.intrinsic?))) else {
            return self.step_and_guard(at);
        };
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        let count = i.b() as usize - 1;
        let slow = self.slow(at);
        let before = self.now.clone();
        let arguments = Arguments { first, count, slow: slow.block };
        // Nothing is built before it is clear that all of it can be.
        let result = match self.can_do(at, intrinsic, &arguments) {
            true => {
                self.is_native(a, native, slow.block);
                self.do_native(intrinsic, &arguments)
            }
            false => None,
        };
        let Some(result) = result else {
            self.now = before;
            return self.step_and_guard(at);
        };
        // Whatever the call would have left above is nobody's to see.
        if let Some(now) = &mut self.now {
            for r in (a..now.registers.len()).filter(|r| i.changes(*r as u8)) {
                now.registers[r] = super::Register::UNKNOWN;
                now.renew(r, super::Name::Made(at, r));
            }
        }
        self.define(a, result);
        self.join(at, slow, Some((a, self.ty(a))));
    }

    /// Register `r` has this native, else goes to `slow`.
    fn is_native(&mut self, r: usize, native: &'static Native, slow: Block) {
        let base = self.b.use_var(self.base);
        let tag = self.load(types::I8, base, Self::slot(r) + layout::TAG);
        let is = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::NATIVE.0 as i64);
        self.unless(is, slow);
        let own = self.load(types::I64, base, Self::slot(r) + layout::PAYLOAD);
        let wanted = self.b.ins().iconst(types::I64, std::ptr::from_ref(native) as i64);
        let same = self.b.ins().icmp(IntCC::Equal, own, wanted);
        self.unless(same, slow);
    }

    /// Whether [`Lowering::do_native`] knows how.
    fn can_do(&mut self, at: usize, intrinsic: Intrinsic, arguments: &Arguments) -> bool {
        let types: Vec<Ty> = (0..arguments.count).map(|n| self.ty(arguments.first + n)).collect();
        let result = self.site(at).result.only();
        let number = types[0].is_number();
        match intrinsic {
            Intrinsic::Abs => number,
            Intrinsic::Sqrt | Intrinsic::Float(_) => types[0] != Ty::Table && result == Some(Tag::FLOAT),
            Intrinsic::Floor | Intrinsic::Ceil => {
                types[0] == Ty::Int || (types[0] == Ty::Float && result == Some(Tag::INT))
            }
            Intrinsic::Max | Intrinsic::Min => types.len() == 2 && number && types[0] == types[1],
            Intrinsic::Len => types[0] == Ty::Any,
            Intrinsic::Byte => {
                let position = types.len() == 1 || (types.len() == 2 && types[1] == Ty::Int);
                types[0] == Ty::Any && position && result == Some(Tag::INT)
            }
        }
    }

    fn do_native(&mut self, intrinsic: Intrinsic, arguments: &Arguments) -> Option<Known> {
        let &Arguments { first, count, slow } = arguments;
        let float = |val| Some(Known { ty: Ty::Float, val });
        let int = |val| Some(Known { ty: Ty::Int, val });
        match intrinsic {
            Intrinsic::Abs => match self.known(first)? {
                Known { ty: Ty::Int, val } => {
                    let negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, val, 0);
                    let other = self.b.ins().ineg(val);
                    int(self.b.ins().select(negative, other, val))
                }
                x => float(self.b.ins().fabs(x.val)),
            },
            Intrinsic::Sqrt => {
                let x = self.argument(first, slow);
                float(self.b.ins().sqrt(x))
            }
            Intrinsic::Float(function) => {
                let x = self.argument(first, slow);
                let address = self.b.ins().iconst(types::I64, function as usize as i64);
                let call = self.b.ins().call_indirect(self.float_to_float, address, &[x]);
                float(self.b.inst_results(call)[0])
            }
            Intrinsic::Floor | Intrinsic::Ceil => match self.known(first)? {
                x if x.ty == Ty::Int => Some(x),
                x => {
                    let b = self.b.ins();
                    let whole =
                        if matches!(intrinsic, Intrinsic::Floor) { b.floor(x.val) } else { b.ceil(x.val) };
                    int(self.whole(whole, slow))
                }
            },
            Intrinsic::Max | Intrinsic::Min => {
                let (x, y) = (self.known(first)?, self.known(first + 1)?);
                let greater = matches!(intrinsic, Intrinsic::Max);
                // The first one, unless the second is better: that decides which of two zeros, and what a NaN does.
                let better = match x.ty {
                    Ty::Int => {
                        let order = if greater { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
                        self.b.ins().icmp(order, y.val, x.val)
                    }
                    _ => {
                        let order = if greater { FloatCC::GreaterThan } else { FloatCC::LessThan };
                        self.b.ins().fcmp(order, y.val, x.val)
                    }
                };
                Some(Known { ty: x.ty, val: self.b.ins().select(better, y.val, x.val) })
            }
            Intrinsic::Len => {
                let string = self.string(first, slow);
                let length = self.load(types::I32, string, layout::STRING_LENGTH);
                int(self.b.ins().uextend(types::I64, length))
            }
            Intrinsic::Byte => {
                let string = self.string(first, slow);
                let length = self.load(types::I32, string, layout::STRING_LENGTH);
                let length = self.b.ins().uextend(types::I64, length);
                let index = match count {
                    1 => self.b.ins().iconst(types::I64, 0),
                    _ => {
                        let position = self.known(first + 1)?.val;
                        self.b.ins().iadd_imm_s(position, -1)
                    }
                };
                let within = self.b.ins().icmp(IntCC::UnsignedLessThan, index, length);
                self.unless(within, slow);
                let address = self.b.ins().iadd(string, index);
                let byte = self.load(types::I8, address, layout::STRING_BYTES);
                int(self.b.ins().uextend(types::I64, byte))
            }
        }
    }

    /// The float of a number that is an argument; else goes to `slow`.
    fn argument(&mut self, r: usize, slow: Block) -> Value {
        match self.known(r) {
            Some(n) => self.float(n),
            None => self.any_float(r, slow),
        }
    }

    /// The integer that a float without a fraction is; goes to `slow` if there is none.
    fn whole(&mut self, x: Value, slow: Block) -> Value {
        let [low, high] = [-(2f64.powi(63)), 2f64.powi(63)].map(|f| self.b.ins().f64const(f));
        let above = self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, x, low);
        self.unless(above, slow);
        let below = self.b.ins().fcmp(FloatCC::LessThan, x, high);
        self.unless(below, slow);
        self.b.ins().fcvt_to_sint_sat(types::I64, x)
    }
}

/// Where the arguments of a call are, and where to go if they do not suit.
struct Arguments {
    first: usize,
    count: usize,
    slow: Block,
}
