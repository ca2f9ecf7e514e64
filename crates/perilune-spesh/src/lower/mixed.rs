//! Arithmetic and comparisons of numbers of which it is not known, or not always the same, whether they are
//! integers or floats.
//!
//! What the log has seen come out decides. If it was always an integer, the operands have to be integers; if
//! always a float, one of them, at least, is one. If both have been seen, the code looks at both tags, each
//! time, and nothing is known of the result. Anything but numbers is the interpreter's.

use super::control::Order;
use super::either::is_small;
use super::{Known, Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::{Constant, Op};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

/// An operand: a number that is known, or whatever is in a register.
#[derive(Clone, Copy)]
enum Operand {
    Known(Known),
    Slot(usize),
}

/// The operation, whatever its second operand is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    IDiv,
    Pow,
    Bits(Bits),
    Negate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
    Not,
}

/// The operation of an instruction, if it is arithmetic.
pub(super) fn operation(op: Op) -> Option<Operation> {
    Some(match op {
        Op::Add | Op::AddK | Op::AddI => Operation::Add,
        Op::Sub | Op::SubK => Operation::Sub,
        Op::Mul | Op::MulK => Operation::Mul,
        Op::Div | Op::DivK => Operation::Div,
        Op::Mod | Op::ModK => Operation::Mod,
        Op::IDiv | Op::IDivK => Operation::IDiv,
        Op::Pow | Op::PowK => Operation::Pow,
        Op::BAnd | Op::BAndK => Operation::Bits(Bits::And),
        Op::BOr | Op::BOrK => Operation::Bits(Bits::Or),
        Op::BXor | Op::BXorK => Operation::Bits(Bits::Xor),
        Op::BNot => Operation::Bits(Bits::Not),
        Op::Unm => Operation::Negate,
        _ => return None,
    })
}

/// Whether the second operand is a constant or a number in the instruction.
pub(super) fn with_constant(op: Op) -> bool {
    use Op::{AddI, AddK, BAndK, BOrK, BXorK, DivK, IDivK, ModK, MulK, PowK, SubK};
    matches!(op, AddI | AddK | SubK | MulK | DivK | IDivK | ModK | PowK | BAndK | BOrK | BXorK)
}

impl Lowering<'_, '_> {
    /// Lowers instruction `at`, of whose operands these are known numbers and one at least is not; whether it
    /// could.
    pub(super) fn mixed_arithmetic(&mut self, at: usize, op: Op, x: Option<Known>, y: Option<Known>) -> bool {
        let i = self.code(at);
        let (b, c) = (i.b() as usize, i.c() as usize);
        let Some(operation) = operation(op) else { return false };
        let operand = |this: &Self, known: Option<Known>, r: usize| match known {
            Some(known) => Some(Operand::Known(known)),
            None => (this.ty(r) == Ty::Any).then_some(Operand::Slot(r)),
        };
        let Some(x) = operand(self, x, b) else { return false };
        let unary = matches!(operation, Operation::Negate | Operation::Bits(Bits::Not));
        let y = match y {
            _ if unary => x,
            None if with_constant(op) => return false,
            y => match operand(self, y, c) {
                Some(y) => y,
                None => return false,
            },
        };
        let is_float = |x: Operand| matches!(x, Operand::Known(n) if n.ty == Ty::Float);
        let seen = self.site(at).result;
        match seen.only() {
            Some(Tag::INT) => self.integers(at, operation, x, y),
            Some(Tag::FLOAT) => self.floats(at, operation, x, y),
            // Before, it may have been an integer.
            _ if seen.is_all_of(&[Tag::INT, Tag::FLOAT]) && (is_float(x) || is_float(y)) => {
                self.floats(at, operation, x, y)
            }
            _ if seen.is_all_of(&[Tag::INT, Tag::FLOAT]) => self.either(at, operation, x, y),
            _ => false,
        }
    }

    /// The integer that an operand is, else goes to `slow`. That it is one is known from here on.
    fn integer(&mut self, x: Operand, slow: Block) -> Value {
        match x {
            Operand::Known(n) => n.val,
            Operand::Slot(r) => {
                let known = self.expect(r, Ty::Int, slow);
                self.found(r, known);
                known.val
            }
        }
    }

    fn integers(&mut self, at: usize, operation: Operation, x: Operand, y: Operand) -> bool {
        let is_float = |x: Operand| matches!(x, Operand::Known(n) if n.ty != Ty::Int);
        // Of those a metamethod has made integers. Nothing is built before it is clear that all of it can be.
        if matches!(operation, Operation::Div | Operation::Pow) || is_float(x) || is_float(y) {
            return false;
        }
        let a = self.code(at).a() as usize;
        let slow = self.slow(at);
        let [x, y] = [x, y].map(|x| self.integer(x, slow.block));
        let val = match operation {
            Operation::Mod | Operation::IDiv => self.quotient(at, operation, x, y, slow.block),
            _ => self.on_integers(operation, x, y).expect("these are defined on integers"),
        };
        self.define(a, Known { ty: Ty::Int, val });
        self.join(at, slow, Some((a, self.ty(a))));
        true
    }

    fn on_integers(&mut self, operation: Operation, x: Value, y: Value) -> Option<Value> {
        let b = &mut *self.b;
        Some(match operation {
            Operation::Add => b.iadd(x, y),
            Operation::Sub => b.isub(x, y),
            Operation::Mul => b.imul(x, y),
            Operation::Bits(Bits::And) => b.band(x, y),
            Operation::Bits(Bits::Or) => b.bor(x, y),
            Operation::Bits(Bits::Xor) => b.bxor(x, y),
            Operation::Bits(Bits::Not) => b.bnot(x),
            Operation::Negate => b.ineg(x),
            Operation::Div | Operation::Mod | Operation::IDiv | Operation::Pow => return None,
        })
    }

    /// Remainder or quotient of integers, by a constant if instruction `at` has one.
    fn quotient(&mut self, at: usize, operation: Operation, x: Value, y: Value, slow: Block) -> Value {
        let remainder = operation == Operation::Mod;
        let given = self.b.func.integer(y).filter(|&divisor| divisor > 0);
        match self.divisor(at).or(given) {
            Some(divisor) => {
                let op = if remainder { Op::ModK } else { Op::IDivK };
                self.divide(op, Known { ty: Ty::Int, val: x }, divisor).val
            }
            None => self.divided(remainder, x, y, slow),
        }
    }

    /// Remainder or quotient by a positive number (manual 3.4.1); others go to `slow`.
    pub(super) fn divided(&mut self, remainder: bool, x: Value, y: Value, slow: Block) -> Value {
        let positive = self.icmp_imm(IntCC::SignedGreaterThan, y, 0);
        self.unless(positive, slow);
        match remainder {
            true => self.b.floor_mod(x, y),
            false => self.b.floor_div(x, y),
        }
    }

    pub(super) fn on_floats(&mut self, at: usize, operation: Operation, x: Value, y: Value) -> Option<Value> {
        let b = &mut *self.b;
        Some(match operation {
            Operation::Add => b.fadd(x, y),
            Operation::Sub => b.fsub(x, y),
            Operation::Mul => b.fmul(x, y),
            Operation::Div => b.fdiv(x, y),
            Operation::Negate => b.fneg(x),
            Operation::IDiv => {
                let quotient = b.fdiv(x, y);
                self.b.floor(quotient)
            }
            Operation::Mod => self.float_remainder(at, x, y),
            Operation::Pow => self.by_function(layout::pow(), &[x, y]),
            Operation::Bits(_) => return None,
        })
    }

    /// The float of the number that an operand is, else goes to `slow`.
    fn as_float(&mut self, x: Operand, slow: Block) -> Value {
        match x {
            Operand::Known(n) => self.float(n),
            Operand::Slot(r) => self.any_float(r, slow),
        }
    }

    /// Whether an operand is an integer, by its tag.
    fn is_integer(&mut self, x: Operand) -> Value {
        match x {
            Operand::Known(n) => self.b.iconst(Type::I8, (n.ty == Ty::Int) as i64),
            Operand::Slot(r) => {
                let tag = self.tag_of(r);
                self.icmp_imm(IntCC::Equal, tag, Tag::INT.0 as i64)
            }
        }
    }

    fn floats(&mut self, at: usize, operation: Operation, x: Operand, y: Operand) -> bool {
        if matches!(operation, Operation::Bits(_)) {
            return false;
        }
        let a = self.code(at).a() as usize;
        let slow = self.slow(at);
        let is_float = |x: Operand| matches!(x, Operand::Known(n) if n.ty == Ty::Float);
        if !is_float(x) && !is_float(y) && !matches!(operation, Operation::Div | Operation::Pow) {
            let [first, second] = [x, y].map(|x| self.is_integer(x));
            let both = self.both(first, second);
            let not_both = self.icmp_imm(IntCC::Equal, both, 0);
            self.unless(not_both, slow.block);
        }
        let [x, y] = [x, y].map(|x| self.as_float(x, slow.block));
        let Some(val) = self.on_floats(at, operation, x, y) else { return false };
        self.define(a, Known { ty: Ty::Float, val });
        self.join(at, slow, Some((a, self.ty(a))));
        true
    }

    /// Whether both conditions hold, of which one may be known to.
    fn both(&mut self, first: Value, second: Value) -> Value {
        let is_known = |condition: Value| self.b.func.integer(condition) == Some(1);
        match () {
            () if is_known(first) => second,
            () if is_known(second) => first,
            () => self.b.band(first, second),
        }
    }

    /// Sometimes an integer comes out, sometimes a float.
    fn either(&mut self, at: usize, operation: Operation, x: Operand, y: Operand) -> bool {
        if matches!(operation, Operation::Bits(_) | Operation::Div | Operation::Pow) {
            return false;
        }
        let a = self.code(at).a() as usize;
        let slow = self.slow(at);
        let [ints, floats, done] = [(); 3].map(|()| self.b.create_block());
        let tag = self.b.append_block_param(done, Type::I8);
        let payload = self.b.append_block_param(done, Type::I64);
        let [first, second] = [x, y].map(|x| self.is_integer(x));
        let both = self.both(first, second);
        self.b.brif(both, ints, &[], floats, &[]);
        self.go_to(ints);
        let known_float = |x: Operand| matches!(x, Operand::Known(n) if n.ty == Ty::Float);
        if known_float(x) || known_float(y) {
            // Never.
            self.b.jump(slow.block, &[]);
        } else {
            let [x, y] = [x, y].map(|x| match x {
                Operand::Known(n) => n.val,
                Operand::Slot(r) => self.payload_of(r),
            });
            let val = match operation {
                Operation::Mod | Operation::IDiv => self.quotient(at, operation, x, y, slow.block),
                _ => self.on_integers(operation, x, y).expect("these are defined on integers"),
            };
            let int = self.b.iconst(Type::I8, Tag::INT.0 as i64);
            self.b.jump(done, &[int, val]);
        }
        self.go_to(floats);
        let [x, y] = [x, y].map(|x| self.as_float(x, slow.block));
        let val = self.on_floats(at, operation, x, y).expect("these are defined on floats");
        let bits = self.b.bitcast(Type::I64, val);
        let float = self.b.iconst(Type::I8, Tag::FLOAT.0 as i64);
        self.b.jump(done, &[float, bits]);
        self.go_to(done);
        self.put(a, tag, payload);
        self.join(at, slow, Some((a, Ty::Any)));
        true
    }

    /// Jumps if the comparison of register a with b, a register or a constant, is `wanted`; not both are
    /// known numbers of one type.
    pub(super) fn compare_mixed(&mut self, at: usize, to: usize, order: Order, wanted: bool, constant: bool) {
        let i = self.code(at);
        let operand = |this: &mut Self, r: usize| match this.known(r) {
            Some(n) if n.ty.is_number() => Some(Operand::Known(n)),
            Some(_) => None,
            None => Some(Operand::Slot(r)),
        };
        let x = operand(self, i.a() as usize);
        let y = match constant {
            true => self.constant(i.b() as usize).map(Operand::Known),
            false => operand(self, i.b() as usize),
        };
        if matches!(order, Order::Eq) && !constant && (x.is_none() || y.is_none()) {
            return self.compare_any(at, to, wanted);
        }
        let (Some(x), Some(y)) = (x, y) else { return self.step_and_jump(at) };
        if matches!(order, Order::Eq) && matches!((x, y), (Operand::Slot(_), Operand::Slot(_))) {
            return self.compare_any(at, to, wanted);
        }
        let slow = self.b.create_block();
        let before = self.now.clone();
        let (x_of, y_of) = (x, y);
        let [floats, done] = [(); 2].map(|()| self.b.create_block());
        let holds = self.b.append_block_param(done, Type::I8);
        if [x, y].iter().any(|x| matches!(x, Operand::Known(n) if n.ty == Ty::Float)) {
            self.b.jump(floats, &[]);
        } else {
            let ints = self.b.create_block();
            let [first, second] = [x, y].map(|x| self.is_integer(x));
            let both = self.both(first, second);
            self.b.brif(both, ints, &[], floats, &[]);
            self.go_to(ints);
            let base = self.b.use_var(self.base);
            let [first, second] = [x, y].map(|x| match x {
                Operand::Known(n) => n.val,
                Operand::Slot(r) => self.load(Type::I64, base, Self::slot(r) + layout::PAYLOAD),
            });
            let answer = self.b.icmp(order.ints(), first, second);
            self.b.jump(done, &[answer]);
        }
        self.go_to(floats);
        let [x, y] = [x, y].map(|x| self.exact_float(x, slow));
        let answer = self.b.fcmp(order.floats(), x, y);
        self.b.jump(done, &[answer]);
        self.go_to(slow);
        self.b.set_cold_block(slow);
        let stepped = self.stepped;
        if let ((Operand::Slot(_), Operand::Slot(_)), true) =
            ((x_of, y_of), self.site(at).objects.contains(Tag::STRING) || self.is_suspect(at))
            && !matches!(order, Order::Eq)
        {
            self.compare_strings(at, order, done);
        }
        if self.is_suspect(at) {
            self.step_and_jump(at);
        } else {
            self.exit(at, perilune_vm::machine::EXITED);
        }
        self.stepped = stepped;
        self.now = before;
        self.go_to(done);
        self.branch_when(holds, wanted, to);
    }

    /// Goes to `done` with whether the order holds of the two registers of instruction `at`, if they are
    /// strings.
    fn compare_strings(&mut self, at: usize, order: Order, done: Block) {
        let i = self.code(at);
        let base = self.b.use_var(self.base);
        let [x, y] = [i.a() as usize, i.b() as usize].map(|r| self.iadd_imm(base, Self::slot(r) as i64));
        let answer = self.common(layout::order(), &[x, y]);
        let [strings, others] = [(); 2].map(|()| self.b.create_block());
        let unknown = self.icmp_imm(IntCC::Equal, answer, perilune_vm::machine::UNKNOWN as i64);
        self.b.brif(unknown, others, &[], strings, &[]);
        self.go_to(strings);
        let holds = self.icmp_imm(order.ints(), answer, 1);
        self.b.jump(done, &[holds]);
        self.go_to(others);
    }

    /// Jumps if two registers, which may hold anything, being equal is `wanted`. Most are not of one type, or
    /// both integers; a leaf compares the others.
    fn compare_any(&mut self, at: usize, to: usize, wanted: bool) {
        let i = self.code(at);
        let registers = [i.a() as usize, i.b() as usize];
        registers.into_iter().for_each(|r| self.flush(r));
        let [slow, known, same, other, asks] = [(); 5].map(|()| self.b.create_block());
        [slow, asks].into_iter().for_each(|block| self.b.set_cold_block(block));
        let holds = self.b.append_block_param(known, Type::I64);
        let [x, y] = registers.map(|r| self.tag_of(r));
        let differ = self.b.bxor(x, y);
        self.b.brif(differ, other, &[], same, &[]);
        self.go_to(other);
        // An integer may equal a float.
        let numbers = self.icmp_imm(IntCC::Equal, differ, (Tag::INT.0 ^ Tag::FLOAT.0) as i64);
        let no = self.b.iconst(Type::I64, 0);
        self.b.brif(numbers, asks, &[], known, &[no]);
        self.go_to(same);
        // Nil and booleans are their tags, integers what they have besides.
        let plain = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, x, Tag::INT.0 as i64);
        let is_its_tag = self.icmp_imm(IntCC::UnsignedLessThan, x, Tag::INT.0 as i64);
        let [x, y] = registers.map(|r| self.payload_of(r));
        let equal = self.b.icmp(IntCC::Equal, x, y);
        let equal = self.b.bor(equal, is_its_tag);
        let equal = self.b.uextend(Type::I64, equal);
        self.b.brif(plain, known, &[equal], asks, &[]);
        self.go_to(asks);
        let base = self.b.use_var(self.base);
        let [x, y] = registers.map(|r| self.iadd_imm(base, Self::slot(r) as i64));
        let answer = self.common(layout::equal(), &[x, y]);
        let unknown = self.icmp_imm(IntCC::Equal, answer, perilune_vm::machine::UNKNOWN as i64);
        self.b.brif(unknown, slow, &[], known, &[answer]);
        self.go_to(slow);
        let before = self.now.clone();
        self.do_rarely(at);
        self.now = before;
        self.go_to(known);
        let order = if wanted { IntCC::NotEqual } else { IntCC::Equal };
        let condition = self.icmp_imm(order, holds, 0);
        self.branch(condition, to);
    }

    /// The float that is just the number that an operand is; goes to `slow` if there may be none.
    fn exact_float(&mut self, x: Operand, slow: Block) -> Value {
        let exact = |this: &mut Self, n: Value| {
            if let Some(n) = this.b.func.integer(n).filter(|n| is_small(*n)) {
                return this.b.f64const(n as f64);
            }
            let moved = this.iadd_imm(n, 1 << 53);
            let is = this.icmp_imm(IntCC::UnsignedLessThanOrEqual, moved, 1 << 54);
            this.unless(is, slow);
            this.b.fcvt_from_sint(n)
        };
        match x {
            Operand::Known(n) if n.ty == Ty::Float => n.val,
            Operand::Known(n) => exact(self, n.val),
            Operand::Slot(r) => self.any_number(r, slow, exact),
        }
    }

    /// Jumps if register `r` being the number `y`, a constant, is `wanted`.
    pub(super) fn jump_number(&mut self, at: usize, r: usize, to: usize, wanted: bool) {
        let n = self.code(at).b() as usize;
        let as_float = match self.proto.constants[n] {
            Constant::Float(f) => f,
            Constant::Integer(i) if i.unsigned_abs() <= 1 << 53 => i as f64,
            _ => return self.step_and_jump(at),
        };
        let as_int = match self.proto.constants[n] {
            Constant::Integer(i) => Some(i),
            // What is no integer, or out of their range, equals none.
            _ => {
                let is_integer =
                    as_float.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&as_float);
                is_integer.then_some(as_float as i64)
            }
        };
        let holds = match self.known(r) {
            Some(x) if x.ty == Ty::Int => match as_int {
                Some(i) => self.icmp_imm(IntCC::Equal, x.val, i),
                None => {
                    return if !wanted {
                        self.edge(to)
                    };
                }
            },
            Some(x) if x.ty == Ty::Float => {
                let y = self.b.f64const(as_float);
                self.b.fcmp(Order::Eq.floats(), x.val, y)
            }
            Some(_) => {
                return if !wanted {
                    self.edge(to)
                };
            }
            None => {
                let base = self.b.use_var(self.base);
                let tag = self.tag_of(r);
                let payload = self.payload_of(r);
                let val = self.load(Type::F64, base, Self::slot(r) + layout::PAYLOAD);
                let is_int = self.icmp_imm(IntCC::Equal, tag, Tag::INT.0 as i64);
                let is_float = self.icmp_imm(IntCC::Equal, tag, Tag::FLOAT.0 as i64);
                let y = self.b.f64const(as_float);
                let float = self.b.fcmp(Order::Eq.floats(), val, y);
                let float = self.b.band(is_float, float);
                match as_int {
                    Some(i) => {
                        let int = self.icmp_imm(IntCC::Equal, payload, i);
                        let int = self.b.band(is_int, int);
                        self.b.bor(int, float)
                    }
                    None => float,
                }
            }
        };
        self.branch_when(holds, wanted, to);
    }
}
