//! Numbers that are integers at one time and floats at another.
//!
//! `local s = 0`, and then `s = s + x` with floats: where the loop begins `s` has been both. Such a register
//! is [`Ty::Number`]: the float that is just the number is in one register of the processor, and its *kind*,
//! the tag that its slot would have, in another. Arithmetic with a float takes the float and does not ask for
//! the kind; what else there is asks for it where it matters.
//!
//! An integer becomes one only if its magnitude is below 2^53, so that the float is just that, and the code
//! exits if there is another: where that has happened often enough, the register is [`Ty::Any`] in the next
//! code. A zero that is an integer is never the one below zero.
//!
//! Where a loop begins, a register is one if the log has seen both kinds there and the loop changes it;
//! elsewhere, if ways meet of which one has it. Only arithmetic, comparisons and copies know of it: whatever
//! else reads one gets it in its slot ([`Lowering::settle`]).

use super::control::{Comparison, Order};
use super::mixed::{self, Operation};
use super::numbers::SMALL;
use super::{EXITED, Known, Lowering, Register, Ty};
use crate::live;
use crate::ssa::{Block, FloatCC, IntCC, Type, Value};
use perilune_syntax::operands::Registers;
use perilune_syntax::{Constant, Instr, Op};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

/// The number that an operand is, as a float.
#[derive(Clone, Copy)]
struct Number {
    float: Value,
    kind: Kind,
}

/// Which kind of number it is.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Float,
    /// The one whose tag this is, as a word.
    Either(Value),
}

/// The registers that an instruction reads, or steps.
fn read(i: Instr) -> Registers {
    live::read(i).or(i.changed())
}

/// Whether a number is below 2^53 in magnitude.
pub(super) fn is_small(n: i64) -> bool {
    n.unsigned_abs() < SMALL as u64
}

impl Lowering<'_, '_> {
    /// Lowers instruction `at` if it copies a number of either kind, or is arithmetic with one. If it is not:
    /// those that it reads are in their slots afterwards, unless it knows of them itself.
    pub(super) fn with_either(&mut self, at: usize, op: Op) -> bool {
        let i = self.code(at);
        let read = read(i);
        let is_either = |r: &usize| read.contains(*r as u8) && self.ty(*r) == Ty::Number;
        let either: Vec<usize> = (0..self.registers()).filter(is_either).collect();
        if either.is_empty() {
            return false;
        }
        let calls = self.site(at).calls > 0;
        if op == Op::Move && self.copy_number(i.a() as usize, i.b() as usize)
            || !calls && self.arithmetic_of_either(at, op)
        {
            return true;
        }
        let compares = Comparison::of(op).is_some() || matches!(op, Op::JumpEqK | Op::JumpNeK);
        // Whatever number it is, it is true.
        let asks_for_truth = matches!(op, Op::JumpIf | Op::JumpIfNot | Op::Not);
        if calls || !compares && !asks_for_truth {
            either.into_iter().for_each(|r| self.settle(r));
        }
        false
    }

    /// Register `r` is in its slot, and nothing else is known of it.
    fn settle(&mut self, r: usize) {
        let dirty = self.register(r).is_some_and(|own| own.dirty);
        let base = self.b.use_var(self.base);
        let written = dirty.then(|| self.write_number(r, base));
        self.set(r, Register::UNKNOWN);
        if let Some([payload, tag]) = written {
            self.holds(r, payload, tag);
        }
    }

    /// Writes register `r`, a number of either kind, into its slot: payload and tag.
    pub(super) fn write_number(&mut self, r: usize, base: Value) -> [Value; 2] {
        let (float, kind) = (self.b.use_var(self.floats[r]), self.b.use_var(self.ints[r]));
        let is_int = self.is_kind(kind, Tag::INT);
        let int = self.b.fcvt_to_sint(float);
        let bits = self.b.bitcast(Type::I64, float);
        let payload = self.b.select(is_int, int, bits);
        let tag = self.b.ireduce(Type::I8, kind);
        self.store(payload, base, Self::slot(r) + layout::PAYLOAD);
        self.store(tag, base, Self::slot(r) + layout::TAG);
        [payload, tag]
    }

    fn is_kind(&mut self, kind: Value, tag: Tag) -> Value {
        self.icmp_imm(IntCC::Equal, kind, tag.0 as i64)
    }

    fn kind(&mut self, tag: Tag) -> Value {
        self.b.iconst(Type::I64, tag.0 as i64)
    }

    /// Register `r` has this number.
    fn hold_number(&mut self, r: usize, number: Number, dirty: bool) {
        let kind = match number.kind {
            Kind::Int => self.kind(Tag::INT),
            Kind::Float => self.kind(Tag::FLOAT),
            Kind::Either(kind) => kind,
        };
        self.b.def_var(self.floats[r], number.float);
        self.b.def_var(self.ints[r], kind);
        self.set(r, Register { ty: Ty::Number, slot: Ty::Any, dirty });
    }

    /// Register `a` becomes a number.
    fn define_number(&mut self, a: usize, number: Number) {
        if let Kind::Float = number.kind {
            return self.define(a, Known { ty: Ty::Float, val: number.float });
        }
        self.hold_number(a, number, true);
        if self.captured.contains(a as u8) {
            let base = self.b.use_var(self.base);
            self.write_number(a, base);
        }
        self.renew(a);
    }

    /// Register `a` becomes what `b` is, if that is a number of either kind.
    pub(super) fn copy_number(&mut self, a: usize, b: usize) -> bool {
        let Some(number) = self.held_number(b).filter(|_| self.ty(b) == Ty::Number) else { return false };
        let name = self.name_of(b);
        self.define_number(a, number);
        self.is_copy(a, name);
        true
    }

    /// Register `r`, an integer or a float, becomes a number of either kind, else the code exits to
    /// instruction `to`. Its slot has to hold it if it is to be `clean`.
    pub(super) fn widen(&mut self, r: usize, clean: bool, to: usize) {
        if clean {
            self.flush(r);
        }
        let Some(own) = self.register(r) else { return };
        let exit = self.exit_block(to, EXITED);
        if let Some(number) = self.operand(r, exit) {
            self.hold_number(r, number, own.dirty);
        }
    }

    /// Register `r`, a number of either kind, becomes one of this type, else the code exits to instruction
    /// `to`. Its slot has to hold it if it is to be `clean`.
    pub(super) fn narrow(&mut self, r: usize, ty: Ty, clean: bool, to: usize) {
        if clean {
            self.flush(r);
        }
        let Some(own) = self.register(r) else { return };
        let (float, kind) = (self.b.use_var(self.floats[r]), self.b.use_var(self.ints[r]));
        let exit = self.exit_block(to, EXITED);
        let is = self.is_kind(kind, ty.tag().expect("a kind of number"));
        self.unless(is, exit);
        let val = match ty {
            Ty::Float => float,
            _ => self.b.fcvt_to_sint(float),
        };
        self.hold(r, Known { ty, val }, Register { ty, slot: own.slot, dirty: own.dirty });
    }

    /// The slot of register `r`, of which nothing is known, has to hold a number, else the code exits to
    /// instruction `at`.
    pub(super) fn guard_number(&mut self, r: usize, at: usize) {
        let exit = self.exit_block(at, EXITED);
        let number = self.number_in_slot(r, exit);
        self.hold_number(r, number, false);
    }

    /// The number that register `r` is known to be.
    fn held_number(&mut self, r: usize) -> Option<Number> {
        let kind = match self.ty(r) {
            Ty::Number => Kind::Either(self.b.use_var(self.ints[r])),
            Ty::Float => Kind::Float,
            _ => return None,
        };
        Some(Number { float: self.b.use_var(self.floats[r]), kind })
    }

    /// The number that register `r` is; goes to `otherwise` if it is none, or an integer that need not be a
    /// float.
    fn operand(&mut self, r: usize, otherwise: Block) -> Option<Number> {
        match self.ty(r) {
            Ty::Table | Ty::Unmade => None,
            Ty::Any => Some(self.number_in_slot(r, otherwise)),
            Ty::Int => {
                let int = self.b.use_var(self.ints[r]);
                Some(Number { float: self.exactly(int, otherwise), kind: Kind::Int })
            }
            Ty::Float | Ty::Number => self.held_number(r),
        }
    }

    /// The same for the second operand of instruction `at`, which may be a constant.
    fn second(&mut self, at: usize, r: usize, constant: bool, otherwise: Block) -> Option<Number> {
        if self.code(at).op() == Some(Op::AddI) {
            let n = self.code(at).c() as i16;
            return Some(Number { float: self.b.f64const(n as f64), kind: Kind::Int });
        }
        if !constant {
            return self.operand(r, otherwise);
        }
        match self.proto.constants[r] {
            Constant::Float(f) => Some(Number { float: self.b.f64const(f), kind: Kind::Float }),
            Constant::Integer(n) if is_small(n) => {
                Some(Number { float: self.b.f64const(n as f64), kind: Kind::Int })
            }
            _ => None,
        }
    }

    /// The float that an integer is; goes to `otherwise` if its magnitude is too large.
    fn exactly(&mut self, int: Value, otherwise: Block) -> Value {
        if let Some(n) = self.b.func.integer(int).filter(|n| is_small(*n)) {
            return self.b.f64const(n as f64);
        }
        let moved = self.iadd_imm(int, SMALL - 1);
        let small = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, moved, 2 * (SMALL - 1));
        self.unless(small, otherwise);
        self.b.fcvt_from_sint(int)
    }

    /// The number in the slot of register `r`, of which nothing is known.
    fn number_in_slot(&mut self, r: usize, otherwise: Block) -> Number {
        let (tag, payload) = (self.tag_of(r), self.payload_of(r));
        let [float, other, int, done] = [(); 4].map(|()| self.b.create_block());
        let number = self.b.append_block_param(done, Type::F64);
        let kind = self.b.append_block_param(done, Type::I64);
        let [of_float, of_int] = [Tag::FLOAT, Tag::INT].map(|tag| self.kind(tag));
        let is_float = self.icmp_imm(IntCC::Equal, tag, Tag::FLOAT.0 as i64);
        self.b.brif(is_float, float, &[], other, &[]);
        self.go_to(float);
        let val = self.b.bitcast(Type::F64, payload);
        self.b.jump(done, &[val, of_float]);
        self.go_to(other);
        let is_int = self.icmp_imm(IntCC::Equal, tag, Tag::INT.0 as i64);
        self.b.brif(is_int, int, &[], otherwise, &[]);
        self.go_to(int);
        let val = self.exactly(payload, otherwise);
        self.b.jump(done, &[val, of_int]);
        self.go_to(done);
        Number { float: number, kind: Kind::Either(kind) }
    }

    /// Lowers instruction `at` if it is arithmetic of numbers of which one, at least, is of either kind.
    fn arithmetic_of_either(&mut self, at: usize, op: Op) -> bool {
        let Some(operation) = mixed::operation(op).filter(|_| !self.is_suspect(at)) else { return false };
        let i = self.code(at);
        let (a, b, c) = (i.a() as usize, i.b() as usize, i.c() as usize);
        let constant = mixed::with_constant(op);
        // What the instruction reads besides, a result's old value for one, may be of either kind while the
        // operands are not.
        let is_either = |r: usize| self.ty(r) == Ty::Number;
        let is_second = !constant && op != Op::AddI && operation != Operation::Negate;
        if !(is_either(b) || is_second && is_either(c)) {
            return false;
        }
        let has_float = self.ty(b) == Ty::Float
            || !constant && self.ty(c) == Ty::Float
            || constant && matches!(self.proto.constants.get(c), Some(Constant::Float(_)));
        let can = match operation {
            Operation::Add | Operation::Sub | Operation::Mul | Operation::Negate => true,
            Operation::Div | Operation::Pow => true,
            Operation::Mod => has_float || self.divisor(at).is_some(),
            Operation::IDiv => has_float,
            Operation::Bits(_) => false,
        };
        if !can {
            return false;
        }
        let slow = self.exit_block(at, EXITED);
        let Some(x) = self.operand(b, slow) else { return false };
        let y = match operation {
            Operation::Negate => x,
            _ => match self.second(at, c, constant, slow) {
                Some(y) => y,
                None => return false,
            },
        };
        let val = self.on_floats(at, operation, x.float, y.float).expect("these are defined on floats");
        let floats = matches!(operation, Operation::Div | Operation::Pow);
        let kind = match (x.kind, y.kind) {
            (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
            _ if floats => Kind::Float,
            (Kind::Int, kind) | (kind, Kind::Int) => kind,
            (Kind::Either(x), Kind::Either(y)) => {
                let first = self.is_kind(x, Tag::INT);
                Kind::Either(self.b.select(first, y, x))
            }
        };
        let Kind::Either(kind) = kind else {
            let ty =
                if matches!(kind, Kind::Float) { Ty::Float } else { unreachable!("one is of either kind") };
            self.define(a, Known { ty, val });
            return true;
        };
        let seen = self.site(at).result.only();
        if let Some(tag) = seen.filter(|tag| [Tag::INT, Tag::FLOAT].contains(tag)) {
            let is = self.is_kind(kind, tag);
            self.unless(is, slow);
        }
        if seen == Some(Tag::FLOAT) {
            self.define(a, Known { ty: Ty::Float, val });
            return true;
        }
        // What is left is larger than none of the operands.
        if matches!(operation, Operation::Add | Operation::Sub | Operation::Mul) {
            let is_float = self.is_kind(kind, Tag::FLOAT);
            let magnitude = self.b.fabs(val);
            let bound = self.b.f64const(SMALL as f64);
            let small = self.b.fcmp(FloatCC::LessThan, magnitude, bound);
            let fits = self.b.bor(is_float, small);
            self.unless(fits, slow);
        }
        if seen == Some(Tag::INT) {
            let val = self.b.fcvt_to_sint(val);
            self.define(a, Known { ty: Ty::Int, val });
            return true;
        }
        let float = match operation {
            Operation::Mul | Operation::Negate | Operation::Mod => self.without_sign_of_zero(val, kind),
            _ => val,
        };
        self.define_number(a, Number { float, kind: Kind::Either(kind) });
        true
    }

    /// The same number, of this kind: no integer is the zero below zero.
    fn without_sign_of_zero(&mut self, val: Value, kind: Value) -> Value {
        let is_int = self.is_kind(kind, Tag::INT);
        let [zero, nothing] = [0.0, -0.0].map(|zero| self.b.f64const(zero));
        // Of two zeros the sum is the one above, unless both are below; to what is none neither adds
        // anything.
        let added = self.b.select(is_int, zero, nothing);
        self.b.fadd(val, added)
    }

    /// Jumps if the comparison of register a with b, a register or a constant, is `wanted`, if one of them is
    /// a number of either kind. If not, or where that cannot be done, they are in their slots.
    pub(super) fn compare_either(
        &mut self,
        at: usize,
        to: usize,
        order: Order,
        wanted: bool,
        constant: bool,
    ) -> bool {
        let i = self.code(at);
        let (a, b) = (i.a() as usize, i.b() as usize);
        let either = [Some(a), (!constant).then_some(b)].into_iter().flatten();
        let either: Vec<usize> = either.filter(|&r| self.ty(r) == Ty::Number).collect();
        if either.is_empty() {
            return false;
        }
        if !self.is_suspect(at) {
            let slow = self.exit_block(at, EXITED);
            let x = self.operand(a, slow);
            let y = self.second(at, b, constant, slow);
            if let (Some(x), Some(y)) = (x, y) {
                let holds = self.b.fcmp(order.floats(), x.float, y.float);
                self.branch_when(holds, wanted, to);
                return true;
            }
        }
        either.into_iter().for_each(|r| self.settle(r));
        false
    }
}
