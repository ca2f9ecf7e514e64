//! What random functions compute: values, memory, operations, conditions and calls.

use super::make::{Maker, Pointer, signature};
use super::outside::{CALLEES, Callee, FILLS, POINTED, REACH, TABLE, thorough};
use super::random::{INTEGERS, Kind};
use crate::ssa::{Convention, FloatCC, IntCC, Opcode, Slot, Type, Value};
use crate::target;

impl Maker<'_, '_> {
    // -- Values ---------------------------------------------------------------------------------------------

    pub(super) fn have(&mut self, kind: Kind, value: Value) {
        self.at_hand.values[kind as usize].push(value);
    }

    pub(super) fn constant(&mut self, kind: Kind) -> Value {
        if kind == Kind::F64 {
            let n = self.random.float();
            return self.b.f64const(n);
        }
        let n = self.random.integer();
        self.integer(kind, n)
    }

    pub(super) fn integer(&mut self, kind: Kind, n: i64) -> Value {
        let n = match kind {
            Kind::I8 => i64::from(n as u8),
            Kind::I16 => i64::from(n as u16),
            Kind::I32 => i64::from(n as u32),
            _ => n,
        };
        self.b.iconst(kind.ty(), n)
    }

    /// One that is at hand, rather one that nobody has used yet; else a constant.
    pub(super) fn value(&mut self, kind: Kind) -> Value {
        let values = &self.at_hand.values[kind as usize];
        if values.is_empty() {
            return self.constant(kind);
        }
        let mut value = self.random.late(values);
        for _ in 0..self.random.below(4) {
            if self.used.contains(&value) {
                value = self.random.late(values);
            }
        }
        self.used.insert(value);
        value
    }

    /// An operand: what is at hand, or is made for this.
    pub(super) fn operand(&mut self, kind: Kind) -> Value {
        if self.depth > 3 {
            return self.value(kind);
        }
        self.depth += 1;
        let value = match self.random.below(16) {
            0..=2 => self.load(kind),
            3 => {
                let value = self.load(kind);
                self.statement();
                value
            }
            4 | 5 => self.constant(kind),
            6 if kind == Kind::F64 => self.float_operation(),
            6 => self.integer_operation(kind),
            7 if kind != Kind::F64 => self.converted(kind),
            _ => self.value(kind),
        };
        self.depth -= 1;
        value
    }

    /// An integer as one of another width.
    pub(super) fn converted(&mut self, kind: Kind) -> Value {
        let from = self.random.one_of(&INTEGERS);
        let value = match from == Kind::I8 && self.random.one_in(2) {
            true => self.condition_of_8_bits(),
            false => self.operand(from),
        };
        let b = &mut *self.b;
        match kind.bytes() - from.bytes() {
            0 => value,
            1.. if self.random.one_in(2) => b.sextend(kind.ty(), value),
            1.. => b.uextend(kind.ty(), value),
            _ => b.ireduce(kind.ty(), value),
        }
    }

    // -- Memory ---------------------------------------------------------------------------------------------

    /// A small integer, and what it lies between.
    pub(super) fn small(&mut self) -> (Value, i64, i64) {
        if !self.at_hand.small.is_empty() && self.random.one_in(2) {
            return self.random.late(&self.at_hand.small);
        }
        let small = match self.random.below(6) {
            0 => {
                let n = self.random.range(-9, 9);
                (self.integer(Kind::I64, n), n, n)
            }
            1 => {
                let [value, below] = [self.operand(Kind::I64), self.integer(Kind::I64, -8)];
                (self.b.bor(value, below), -8, -1)
            }
            2 => {
                let kind = self.random.one_of(&INTEGERS[..3]);
                let [value, bits] = [self.operand(kind), self.integer(kind, 7)];
                let value = self.b.band(value, bits);
                (self.b.uextend(Type::I64, value), 0, 7)
            }
            _ => {
                let [value, bits] = [self.operand(Kind::I64), self.integer(Kind::I64, 7)];
                (self.b.band(value, bits), 0, 7)
            }
        };
        if self.random.one_in(2) {
            self.at_hand.small.push(small);
        }
        small
    }

    /// The sum of a pointer and something else.
    pub(super) fn sum(&mut self, pointer: Pointer) -> Pointer {
        let Pointer { value, from, to } = pointer;
        let (more, least, most) = match self.random.below(5) {
            0 | 1 => {
                let n = self.random.range(-40, 40);
                (self.integer(Kind::I64, n), n, n)
            }
            2 => self.small(),
            _ => {
                let (value, least, most) = self.small();
                let shift = self.random.one_of(&[0, 1, 2, 3, 3, 4]);
                let kind = self.random.integer_kind();
                let by = self.integer(kind, shift);
                (self.b.ishl(value, by), least << shift, most << shift)
            }
        };
        let [a, b] = if self.random.one_in(4) { [more, value] } else { [value, more] };
        Pointer { value: self.b.iadd(a, b), from: from + least, to: to + most }
    }

    /// An address and an offset of so many bytes of memory.
    pub(super) fn address(&mut self, bytes: i64) -> (Value, i32) {
        let mut pointer = match self.random.below(16) {
            0 => {
                let n = self.memory as i64;
                Pointer { value: self.integer(Kind::I64, n), from: 0, to: 0 }
            }
            _ => self.random.late(&self.at_hand.pointers),
        };
        for _ in 0..self.random.one_of(&[0, 0, 1, 1, 2, 3]) {
            let sum = self.sum(pointer);
            if sum.from < REACH.start || sum.to + bytes > REACH.end {
                break;
            }
            pointer = sum;
            if self.random.one_in(3) {
                self.at_hand.pointers.push(pointer);
            }
        }
        let mut offset = match self.random.one_in(3) {
            true => 0,
            false => self.random.range(REACH.start - pointer.from, REACH.end - bytes - pointer.to),
        };
        offset = if self.random.one_in(4) { offset } else { offset & !7 };
        offset = offset.clamp(REACH.start - pointer.from, REACH.end - bytes - pointer.to);
        if self.random.one_in(30) {
            return self.far_and_back(pointer.value, offset);
        }
        (pointer.value, offset as i32)
    }

    /// The same place, said with larger numbers.
    fn far_and_back(&mut self, pointer: Value, offset: i64) -> (Value, i32) {
        if self.random.one_in(3) {
            // So far that no offset brings it back.
            let (far, shift) = (self.random.range(1 << 30, 1 << 40), self.random.range(1, 3));
            let [away, far, by] = [-(far << shift), far, shift].map(|n| self.integer(Kind::I64, n));
            let [there, back] = [self.b.iadd(pointer, away), self.b.ishl(far, by)];
            return (self.b.iadd(there, back), offset as i32);
        }
        let far = self.random.one_of(&[1 << 23, (1 << 24) - 1, 1 << 24, 1 << 26, -(1 << 24), 0x7FFF_F000]);
        let by = self.integer(Kind::I64, far);
        (self.b.iadd(pointer, by), (offset - far) as i32)
    }

    pub(super) fn load(&mut self, kind: Kind) -> Value {
        if !self.at_hand.in_slots.is_empty() && self.random.one_in(10) {
            let (slot, offset, is) = self.random.late(&self.at_hand.in_slots);
            if kind.bytes() <= is.bytes() {
                return self.b.stack_load(kind.ty(), slot, offset);
            }
        }
        let (address, offset) = self.address(kind.bytes());
        self.b.load(kind.ty(), address, offset)
    }

    pub(super) fn store(&mut self) {
        let kind = self.random.kind(false);
        if self.random.one_in(4) {
            return self.change_in_memory(kind);
        }
        let value = self.operand(kind);
        let (address, offset) = self.address(kind.bytes());
        self.b.store(value, address, offset);
    }

    /// Loads, computes, and stores at the same place.
    pub(super) fn change_in_memory(&mut self, kind: Kind) {
        let (address, offset) = self.address(kind.bytes());
        let is = self.b.load(kind.ty(), address, offset);
        let value = match kind {
            Kind::F64 => {
                let by = self.value(kind);
                self.b.fsub(by, is)
            }
            _ => {
                let opcode = self.random.one_of(&[Opcode::Iadd, Opcode::Isub, Opcode::Band, Opcode::Bxor]);
                let by = self.operand(kind);
                self.binary(opcode, [is, by])
            }
        };
        self.b.store(value, address, offset);
    }

    // -- Operations -----------------------------------------------------------------------------------------

    pub(super) fn binary(&mut self, opcode: Opcode, [a, b]: [Value; 2]) -> Value {
        self.b.binary(opcode, a, b)
    }

    pub(super) fn unary(&mut self, opcode: Opcode, kind: Kind, a: Value) -> Value {
        self.b.unary(opcode, kind.ty(), a)
    }

    /// Two operands of one kind, which may be the same.
    pub(super) fn operands(&mut self, kind: Kind) -> [Value; 2] {
        let a = self.operand(kind);
        let b = if self.random.one_in(12) { a } else { self.operand(kind) };
        [a, b]
    }

    pub(super) fn integer_operation(&mut self, kind: Kind) -> Value {
        use Opcode::*;
        let is_wide = kind.bytes() >= 4;
        match self.random.below(if is_wide { 21 } else { 12 }) {
            0..=8 => {
                let opcode = self.random.one_of(&[Iadd, Iadd, Isub, Isub, Band, Bor, Bxor]);
                let args = self.operands(kind);
                self.binary(opcode, args)
            }
            9 => {
                let opcode = self.random.one_of(&[Bnot, Ineg]);
                let a = self.operand(kind);
                self.unary(opcode, kind, a)
            }
            10 => self.select(kind),
            11 => self.converted(kind),
            12 | 13 => {
                let args = self.operands(kind);
                self.b.imul(args[0], args[1])
            }
            14..=16 => {
                let opcode = self.random.one_of(&[Ishl, Ushr, Sshr]);
                let by = self.random.integer_kind();
                let a = self.operand(kind);
                let by = if self.random.one_in(2) { self.constant(by) } else { self.operand(by) };
                self.binary(opcode, [a, by])
            }
            17 | 18 => self.divide(kind),
            19 if kind == Kind::I32 => {
                let a = self.operand(Kind::F64);
                self.b.fdemote(a)
            }
            _ if kind == Kind::I64 => match self.random.below(4) {
                0 => {
                    let args = self.operands(kind);
                    self.b.umulhi(args[0], args[1])
                }
                1 => {
                    let a = self.operand(Kind::F64);
                    self.b.bitcast(Type::I64, a)
                }
                _ => {
                    let a = self.operand(Kind::F64);
                    self.b.fcvt_to_sint(a)
                }
            },
            _ => self.value(kind),
        }
    }

    /// Divides by something that is not 0, and by what is above it where signs count.
    pub(super) fn divide(&mut self, kind: Kind) -> Value {
        use Opcode::*;
        let opcode = match kind {
            Kind::I32 => self.random.one_of(&[Udiv, Urem]),
            _ => self.random.one_of(&[Udiv, Urem, FloorDiv, FloorMod]),
        };
        let has_sign = matches!(opcode, FloorDiv | FloorMod);
        let a = match self.random.below(3) {
            // Most that is divided is small.
            0 => {
                let [a, few] = [self.operand(kind), self.integer(kind, 0xffff)];
                self.b.band(a, few)
            }
            _ => self.operand(kind),
        };
        let by = match self.random.below(4) {
            0 => {
                let by = self.random.integer();
                let fits = if kind == Kind::I32 { by as i32 as i64 } else { by };
                let is_bad = fits == 0 || fits < 0 && has_sign;
                self.integer(kind, if is_bad { 3 } else { by })
            }
            1 => {
                let by = self.operand(kind);
                let [zero, other] = [0, 5].map(|n| self.integer(kind, n));
                let cc = if has_sign { IntCC::SignedLessThanOrEqual } else { IntCC::Equal };
                let is_bad = self.b.icmp(cc, by, zero);
                self.b.select(is_bad, other, by)
            }
            _ => {
                let most = self.random.one_of(&[0xffff, i64::from(u32::MAX), 1 << 32, i64::MAX]);
                let [by, one] = [self.operand(kind), self.integer(kind, 1)];
                let by = match kind {
                    Kind::I32 => by,
                    _ => {
                        let most = self.integer(kind, most);
                        self.b.band(by, most)
                    }
                };
                self.b.bor(by, one)
            }
        };
        self.binary(opcode, [a, by])
    }

    pub(super) fn float_operation(&mut self) -> Value {
        use Opcode::*;
        match self.random.below(13) {
            0..=5 => {
                let opcode = self.random.one_of(&[Fadd, Fsub, Fmul, Fdiv]);
                let args = self.operands(Kind::F64);
                self.binary(opcode, args)
            }
            6 | 7 => {
                let opcode = self.random.one_of(&[Fneg, Fabs, Sqrt, Floor, Ceil]);
                let a = self.operand(Kind::F64);
                self.unary(opcode, Kind::F64, a)
            }
            8 => self.select(Kind::F64),
            10 => {
                let a = self.single();
                self.b.fpromote(a)
            }
            9 => {
                let a = self.operand(Kind::I64);
                self.b.bitcast(Type::F64, a)
            }
            _ => {
                let kind = self.random.one_of(&[Kind::I32, Kind::I64]);
                let a = self.operand(kind);
                self.b.fcvt_from_sint(a)
            }
        }
    }

    /// The bits of a float of 32 bits: of any, or of one that is no number.
    fn single(&mut self) -> Value {
        match self.random.below(4) {
            0 => {
                let a = self.operand(Kind::F64);
                self.b.fdemote(a)
            }
            1 => {
                let bits = self.random.one_of(&SINGLES);
                self.integer(Kind::I32, bits)
            }
            _ => self.operand(Kind::I32),
        }
    }

    // -- Conditions -----------------------------------------------------------------------------------------

    pub(super) fn select(&mut self, kind: Kind) -> Value {
        let condition = self.condition();
        let [a, b] = self.operands(kind);
        self.b.select(condition, a, b)
    }

    /// What a jump or a choice asks: an integer of any kind.
    pub(super) fn condition(&mut self) -> Value {
        let kind = self.random.integer_kind();
        match self.random.below(8) {
            0..=3 => self.condition_of_8_bits(),
            4 => self.value(Kind::I8),
            5 => {
                let args = self.operands(kind);
                self.b.band(args[0], args[1])
            }
            6 => self.load(kind),
            _ => self.operand(kind),
        }
    }

    pub(super) fn condition_of_8_bits(&mut self) -> Value {
        let value = match self.random.below(12) {
            0..=5 => self.compare(),
            6..=8 => self.compare_floats(),
            9 => {
                let args = self.operands(Kind::I8);
                self.b.band(args[0], args[1])
            }
            10 => {
                // Whether there is room. No limit is near the stack.
                let pointer = self.b.get_stack_pointer();
                let limit = self.random.one_of(&[0, 1, 4096, -1, i64::MIN, i64::MAX]);
                let limit = match self.given_word {
                    Some(given) if self.random.one_in(2) => given,
                    _ => self.integer(Kind::I64, limit),
                };
                let args = if self.random.one_in(2) { [pointer, limit] } else { [limit, pointer] };
                let condition = self.random.one_of(&CONDITIONS);
                self.b.icmp(condition, args[0], args[1])
            }
            _ => {
                let [value, zero] = [self.value(Kind::I8), self.integer(Kind::I8, 0)];
                self.b.icmp(IntCC::Equal, value, zero)
            }
        };
        if self.random.one_in(4) {
            self.have(Kind::I8, value);
        }
        value
    }

    pub(super) fn compare(&mut self) -> Value {
        let kind = self.random.integer_kind();
        let condition = self.random.one_of(&CONDITIONS);
        let [a, b] = match self.random.below(8) {
            0..=2 => self.operands(kind),
            3 | 4 => [self.operand(kind), self.constant(kind)],
            5 => [self.constant(kind), self.operand(kind)],
            6 => {
                let args = self.operands(kind);
                [self.b.band(args[0], args[1]), self.integer(kind, 0)]
            }
            _ => [self.load(kind), self.constant(kind)],
        };
        self.b.icmp(condition, a, b)
    }

    pub(super) fn compare_floats(&mut self) -> Value {
        let condition = self.random.one_of(&FLOAT_CONDITIONS);
        let [a, b] = self.operands(Kind::F64);
        self.b.fcmp(condition, a, b)
    }

    // -- Calls ----------------------------------------------------------------------------------------------

    /// Calls a function; the rare way is that which changes no register.
    pub(super) fn call(&mut self) {
        if self.given.jumps() && self.random.one_in(3) {
            return self.call_by_own_convention();
        }
        let n = self.random.below(CALLEES.len());
        let callee = &CALLEES[n];
        let words = callee.parameters.iter().filter(|&&kind| kind != Kind::F64).count();
        if words <= 5 && self.random.one_in(2) {
            return self.call_rarely(callee);
        }
        let args = self.arguments(callee.parameters);
        let address = self.callee(n);
        let signature = signature(Convention::C, callee.parameters, callee.results);
        let signature = self.b.import_signature(signature);
        let call = self.b.call_indirect(signature, address, &args);
        let results = self.b.func.results(call).collect::<Vec<_>>();
        for (&kind, value) in callee.results.iter().zip(results) {
            self.have(kind, value);
        }
    }

    /// Calls a function that changes all registers but the one that is kept for good.
    fn call_by_own_convention(&mut self) {
        let mut args = self.arguments(&[Kind::I64; 4]);
        args[0] = self.at_hand.pointers[0].value;
        let signature = signature(Convention::Machine, &[Kind::I64; 4], &[Kind::I64]);
        let signature = self.b.import_signature(signature);
        let address = self.integer(Kind::I64, thorough as *const () as i64);
        let call = self.b.call_indirect(signature, address, &args);
        let result = self.b.func.result(call).expect("it gives something back");
        self.have(Kind::I64, result);
    }

    /// Its address: a constant, or from memory.
    pub(super) fn callee(&mut self, n: usize) -> Value {
        match self.random.one_in(3) {
            true => {
                let pointer = self.at_hand.pointers[0].value;
                self.b.load(Type::I64, pointer, TABLE + 8 * n as i32)
            }
            false => self.integer(Kind::I64, (CALLEES[n].address)() as i64),
        }
    }

    pub(super) fn arguments(&mut self, kinds: &[Kind]) -> Vec<Value> {
        kinds
            .iter()
            .map(|&kind| match kind {
                Kind::Pointer => self.pointed(),
                kind => self.operand(kind),
            })
            .collect()
    }

    /// Some bytes of memory or of the stack.
    pub(super) fn pointed(&mut self) -> Value {
        if !self.at_hand.in_slots.is_empty() && self.random.one_in(3) {
            let (slot, offset, _) = self.random.late(&self.at_hand.in_slots);
            if offset == 0 {
                return self.b.stack_addr(slot, 0);
            }
        }
        match self.address(POINTED) {
            (address, 0) => address,
            (address, offset) => {
                let offset = self.integer(Kind::I64, offset.into());
                self.b.iadd(address, offset)
            }
        }
    }

    pub(super) fn call_rarely(&mut self, callee: &Callee) {
        let slot = self.slot();
        let mut args = vec![self.integer(Kind::I64, (callee.address)() as i64), self.b.stack_addr(slot, 0)];
        args.extend(self.arguments(callee.parameters));
        let parameters = [&[Kind::I64, Kind::I64], callee.parameters].concat();
        let signature = self.b.import_signature(signature(Convention::Preserving, &parameters, &[]));
        let by = self.integer(Kind::I64, target::preserving as *const () as i64);
        self.b.call_indirect(signature, by, &args);
        for (&kind, at) in callee.results.iter().zip([0, 8]) {
            let at = if kind == Kind::F64 { target::FLOAT_RESULT } else { at };
            let value = self.b.stack_load(kind.ty(), slot, at);
            self.have(kind, value);
            // The rest of the slot is anything.
            self.at_hand.in_slots.push((slot, at, kind));
        }
    }

    pub(super) fn slot(&mut self) -> Slot {
        let size = target::RESULTS_SIZE + self.random.below(3) as u32 * 8;
        self.b.create_slot(size)
    }

    /// A slot, filled by a function.
    pub(super) fn fill_slot(&mut self) {
        let slot = self.slot();
        let callee = &CALLEES[FILLS];
        let signature = signature(Convention::C, callee.parameters, callee.results);
        let signature = self.b.import_signature(signature);
        let args = [self.b.stack_addr(slot, 0), self.operand(Kind::I64)];
        let address = self.callee(FILLS);
        self.b.call_indirect(signature, address, &args);
        self.at_hand.in_slots.extend([0, 8, 16].map(|at| (slot, at, Kind::I64)));
    }
}

/// Floats of 32 bits: some that are no numbers, one that signals, the least and the largest.
const SINGLES: [i64; 7] =
    [0x7FC0_0000, 0xFFC0_0001, 0x7F80_0001, 0xFFA0_1234, 0x0000_0001, 0x7F7F_FFFF, 0x3FC0_0000];

const CONDITIONS: [IntCC; 10] = [
    IntCC::Equal,
    IntCC::NotEqual,
    IntCC::SignedLessThan,
    IntCC::SignedGreaterThanOrEqual,
    IntCC::SignedGreaterThan,
    IntCC::SignedLessThanOrEqual,
    IntCC::UnsignedLessThan,
    IntCC::UnsignedGreaterThanOrEqual,
    IntCC::UnsignedGreaterThan,
    IntCC::UnsignedLessThanOrEqual,
];

const FLOAT_CONDITIONS: [FloatCC; 14] = [
    FloatCC::Ordered,
    FloatCC::Unordered,
    FloatCC::Equal,
    FloatCC::NotEqual,
    FloatCC::OrderedNotEqual,
    FloatCC::UnorderedOrEqual,
    FloatCC::LessThan,
    FloatCC::LessThanOrEqual,
    FloatCC::GreaterThan,
    FloatCC::GreaterThanOrEqual,
    FloatCC::UnorderedOrLessThan,
    FloatCC::UnorderedOrLessThanOrEqual,
    FloatCC::UnorderedOrGreaterThan,
    FloatCC::UnorderedOrGreaterThanOrEqual,
];
