//! Makes random functions.
//!
//! A function gets a pointer, words and floats; it computes with them and with what it loads, stores some of
//! it, and gives back what is made of the rest. Each value has a kind. A block may use what the blocks that
//! dominate it have made. Addresses are known to lie between two bounds from the pointer, so that no access
//! reaches beyond memory, and divisors are known not to be 0.
//!
//! What is read once, by the next instruction, is more common than chance makes it: it may become part of
//! that. So are the forms in which instructions are written in another way: operands that are constants, or
//! loaded, or the same twice.

mod ways;

use super::outside::{CALLEES, Callee, FILLS, FUEL, POINTED, REACH, TABLE};
use super::plan::Plan;
use super::random::{INTEGERS, KINDS, Kind, Random};
use crate::backend::clif::condcodes::{FloatCC, IntCC};
use crate::backend::clif::{
    AbiParam, Block, BlockArg, CallConv, FunctionBuilder, InstBuilder, MemFlagsData, Opcode, Signature,
    StackSlot, StackSlotData, StackSlotKind, TrapCode, Value, Variable, types,
};
use crate::backend::{JUMPING, constant_at_start};
use crate::target;
use std::collections::HashSet;

/// What a function gets and gives back.
pub(super) struct Given {
    parameters: Vec<Kind>,
    pub results: Vec<Kind>,
    convention: CallConv,
}

impl Given {
    pub(super) fn new(random: &mut Random) -> Given {
        use Kind::{F64, I8, I16, I32, I64};
        let convention = if random.one_in(3) { JUMPING } else { CallConv::SystemV };
        let mut parameters = vec![Kind::Pointer];
        let mut free = if convention == JUMPING { [3, 4] } else { [5, 8] };
        for _ in 0..random.below(14) {
            let kind = random.kind(false);
            let free = &mut free[(kind == F64) as usize];
            if *free > 0 {
                *free -= 1;
                parameters.push(kind);
            }
        }
        let all: [&[Kind]; 9] =
            [&[I64], &[I64], &[I64], &[F64], &[I32], &[I8], &[I16], &[I64, I64], &[F64, I64]];
        let results = match convention == JUMPING {
            true => random.one_of(&all[2..4]),
            false => random.one_of(&all),
        };
        Given { parameters, results: results.to_vec(), convention }
    }

    pub(super) fn signature(&self) -> Signature {
        signature(self.convention, &self.parameters, &self.results)
    }
}

fn signature(convention: CallConv, parameters: &[Kind], results: &[Kind]) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = parameters.iter().map(|kind| AbiParam::new(kind.ty())).collect();
    signature.returns = results.iter().map(|kind| AbiParam::new(kind.ty())).collect();
    signature
}

/// What leads into memory, between these from the pointer that the function is given.
#[derive(Clone, Copy)]
struct Pointer {
    value: Value,
    from: i64,
    to: i64,
}

/// Pointers that are parameters of blocks lie between these.
const PASSED: std::ops::RangeInclusive<i64> = 0..=64;

/// What may be used.
#[derive(Clone, Default)]
struct AtHand {
    values: [Vec<Value>; KINDS],
    pointers: Vec<Pointer>,
    /// Small integers of 64 bits, and what they lie between.
    small: Vec<(Value, i64, i64)>,
    /// What lies in slots of the stack.
    in_slots: Vec<(StackSlot, i32, Kind)>,
}

pub(super) struct Maker<'a, 'f> {
    random: Random,
    b: &'a mut FunctionBuilder<'f>,
    given: &'a Given,
    /// The memory that functions work on.
    memory: u64,
    plan: Plan,
    blocks: Vec<Block>,
    at_hand: AtHand,
    /// What was at hand at the end of each block.
    behind: Vec<AtHand>,
    variables: Vec<(Variable, Kind)>,
    used: HashSet<Value>,
    /// How often functions are called: one statement of so many.
    calls: usize,
    /// How many values of each class live from the beginning to the end.
    live: [usize; 2],
    /// How deep statements are in others.
    depth: u8,
}

fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Makes the function's body.
pub(super) fn make(b: &mut FunctionBuilder<'_>, given: &Given, mut random: Random, memory: u64) {
    let plan = Plan::new(&mut random);
    let calls = random.one_of(&[usize::MAX >> 33, 40, 12, 5]);
    let live = [0; 2].map(|_| random.one_of(&[0, 0, 2, 6, 15, 30, 60]));
    let blocks: Vec<Block> = plan.blocks.iter().map(|_| b.create_block()).collect();
    for &n in &plan.layout {
        b.func.layout.append_block(blocks[n]);
    }
    let maker = Maker {
        random,
        b,
        given,
        memory,
        plan,
        blocks,
        at_hand: AtHand::default(),
        behind: Vec::new(),
        variables: Vec::new(),
        used: HashSet::new(),
        calls,
        live,
        depth: 0,
    };
    maker.function();
}

impl Maker<'_, '_> {
    fn function(mut self) {
        for n in 1..self.blocks.len() {
            let shape = &self.plan.blocks[n];
            if shape.rounds.is_some() {
                self.b.append_block_param(self.blocks[n], types::I64);
            }
            for kind in &shape.parameters {
                self.b.append_block_param(self.blocks[n], kind.ty());
            }
        }
        for n in 0..self.blocks.len() {
            let block = self.blocks[n];
            if n != 0 {
                self.at_hand = self.behind[self.plan.blocks[n].above].clone();
            }
            self.b.switch_to_block(block);
            if self.plan.blocks[n].is_cold {
                self.b.set_cold_block(block);
            }
            match n {
                0 => self.begin(),
                _ => self.take_parameters(n),
            }
            if !self.plan.blocks[n].is_empty {
                for _ in 0..self.plan.blocks[n].statements {
                    self.statement();
                }
            }
            self.end(n);
            let at_hand = std::mem::take(&mut self.at_hand);
            self.behind.push(at_hand);
        }
        if self.blocks.len() > 1 && self.random.one_in(8) {
            self.add_unreachable();
        }
        self.b.seal_all_blocks();
    }

    fn begin(&mut self) {
        self.b.append_block_params_for_function_params(self.blocks[0]);
        let parameters = self.b.block_params(self.blocks[0]).to_vec();
        self.at_hand.pointers.push(Pointer { value: parameters[0], from: 0, to: 0 });
        for (value, &kind) in parameters.into_iter().zip(&self.given.parameters).skip(1) {
            self.have(kind, value);
        }
        for _ in 0..self.live[0] {
            let kind = self.random.integer_kind();
            let value = self.integer_operation(kind);
            self.have(kind, value);
        }
        for _ in 0..self.live[1] {
            let value = match self.random.one_in(2) {
                true => self.float_operation(),
                false => self.load(Kind::F64),
            };
            self.have(Kind::F64, value);
        }
        for _ in 0..self.random.below(4) {
            let kind = self.random.kind(false);
            let variable = self.b.declare_var(kind.ty());
            let value = self.value(kind);
            self.b.def_var(variable, value);
            self.variables.push((variable, kind));
        }
    }

    fn take_parameters(&mut self, n: usize) {
        let shape = &self.plan.blocks[n];
        let parameters = self.b.block_params(self.blocks[n]);
        let counter = shape.rounds.map(|_| Kind::I64);
        for (kind, &value) in counter.iter().chain(&shape.parameters).zip(parameters) {
            match *kind {
                Kind::Pointer => {
                    self.at_hand.pointers.push(Pointer { value, from: *PASSED.start(), to: *PASSED.end() });
                }
                kind => self.at_hand.values[kind as usize].push(value),
            }
        }
    }

    /// A block that nothing leads to leads somewhere.
    fn add_unreachable(&mut self) {
        let block = self.b.create_block();
        self.b.switch_to_block(block);
        let to = 1 + self.random.below(self.blocks.len() - 1);
        let parameters = self.b.block_params(self.blocks[to]).to_vec();
        let args: Vec<BlockArg> = parameters
            .into_iter()
            .map(|parameter| match self.b.func.dfg.value_type(parameter) {
                types::F64 => self.b.ins().f64const(0.0).into(),
                ty => self.b.ins().iconst(ty, 0).into(),
            })
            .collect();
        self.b.ins().jump(self.blocks[to], &args);
    }

    // -- Values ---------------------------------------------------------------------------------------------

    fn have(&mut self, kind: Kind, value: Value) {
        self.at_hand.values[kind as usize].push(value);
    }

    fn constant(&mut self, kind: Kind) -> Value {
        if kind == Kind::F64 {
            let n = self.random.float();
            return self.b.ins().f64const(n);
        }
        let n = self.random.integer();
        self.integer(kind, n)
    }

    fn integer(&mut self, kind: Kind, n: i64) -> Value {
        let n = match kind {
            Kind::I8 => i64::from(n as u8),
            Kind::I16 => i64::from(n as u16),
            Kind::I32 => i64::from(n as u32),
            _ => n,
        };
        match self.random.one_in(4) {
            true => constant_at_start(self.b, kind.ty(), n),
            false => self.b.ins().iconst(kind.ty(), n),
        }
    }

    /// One that is at hand, rather one that nobody has used yet; else a constant.
    fn value(&mut self, kind: Kind) -> Value {
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
    fn operand(&mut self, kind: Kind) -> Value {
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
    fn converted(&mut self, kind: Kind) -> Value {
        let from = self.random.one_of(&INTEGERS);
        let value = match from == Kind::I8 && self.random.one_in(2) {
            true => self.condition_of_8_bits(),
            false => self.operand(from),
        };
        let ins = self.b.ins();
        match kind.bytes() - from.bytes() {
            0 => value,
            1.. if self.random.one_in(2) => ins.sextend(kind.ty(), value),
            1.. => ins.uextend(kind.ty(), value),
            _ => ins.ireduce(kind.ty(), value),
        }
    }

    // -- Memory ---------------------------------------------------------------------------------------------

    /// A small integer, and what it lies between.
    fn small(&mut self) -> (Value, i64, i64) {
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
                (self.b.ins().bor(value, below), -8, -1)
            }
            2 => {
                let kind = self.random.one_of(&INTEGERS[..3]);
                let [value, bits] = [self.operand(kind), self.integer(kind, 7)];
                let value = self.b.ins().band(value, bits);
                (self.b.ins().uextend(types::I64, value), 0, 7)
            }
            _ => {
                let [value, bits] = [self.operand(Kind::I64), self.integer(Kind::I64, 7)];
                (self.b.ins().band(value, bits), 0, 7)
            }
        };
        if self.random.one_in(2) {
            self.at_hand.small.push(small);
        }
        small
    }

    /// The sum of a pointer and something else.
    fn sum(&mut self, pointer: Pointer) -> Pointer {
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
                (self.b.ins().ishl(value, by), least << shift, most << shift)
            }
        };
        let [a, b] = if self.random.one_in(4) { [more, value] } else { [value, more] };
        Pointer { value: self.b.ins().iadd(a, b), from: from + least, to: to + most }
    }

    /// An address and an offset of so many bytes of memory.
    fn address(&mut self, bytes: i64) -> (Value, i32) {
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
            // Far away, and back.
            let far =
                self.random.one_of(&[1 << 23, (1 << 24) - 1, 1 << 24, 1 << 26, -(1 << 24), 0x7FFF_F000]);
            let by = self.integer(Kind::I64, far);
            return (self.b.ins().iadd(pointer.value, by), (offset - far) as i32);
        }
        (pointer.value, offset as i32)
    }

    fn load(&mut self, kind: Kind) -> Value {
        if !self.at_hand.in_slots.is_empty() && self.random.one_in(10) {
            let (slot, offset, is) = self.random.late(&self.at_hand.in_slots);
            if kind.bytes() <= is.bytes() {
                return self.b.ins().stack_load(types::I64, kind.ty(), slot, offset);
            }
        }
        let (address, offset) = self.address(kind.bytes());
        self.b.ins().load(kind.ty(), trusted(), address, offset)
    }

    fn store(&mut self) {
        let kind = self.random.kind(false);
        if matches!(kind, Kind::I16 | Kind::I32 | Kind::I64) && self.random.one_in(4) {
            let value = self.operand(kind);
            let (address, offset) = self.address(1);
            self.b.ins().istore8(trusted(), value, address, offset);
            return;
        }
        if self.random.one_in(4) {
            return self.change_in_memory(kind);
        }
        let value = self.operand(kind);
        let (address, offset) = self.address(kind.bytes());
        self.b.ins().store(trusted(), value, address, offset);
    }

    /// Loads, computes, and stores at the same place.
    fn change_in_memory(&mut self, kind: Kind) {
        let (address, offset) = self.address(kind.bytes());
        let is = self.b.ins().load(kind.ty(), trusted(), address, offset);
        let value = match kind {
            Kind::F64 => {
                let by = self.value(kind);
                self.b.ins().fsub(by, is)
            }
            _ => {
                let opcode = self.random.one_of(&[Opcode::Iadd, Opcode::Isub, Opcode::Band, Opcode::Bxor]);
                let by = self.operand(kind);
                self.binary(opcode, kind, [is, by])
            }
        };
        self.b.ins().store(trusted(), value, address, offset);
    }

    // -- Operations -----------------------------------------------------------------------------------------

    fn binary(&mut self, opcode: Opcode, kind: Kind, [a, b]: [Value; 2]) -> Value {
        let (inst, dfg) = self.b.ins().Binary(opcode, kind.ty(), a, b);
        dfg.first_result(inst)
    }

    fn unary(&mut self, opcode: Opcode, kind: Kind, a: Value) -> Value {
        let (inst, dfg) = self.b.ins().Unary(opcode, kind.ty(), a);
        dfg.first_result(inst)
    }

    /// Two operands of one kind, which may be the same.
    fn operands(&mut self, kind: Kind) -> [Value; 2] {
        let a = self.operand(kind);
        let b = if self.random.one_in(12) { a } else { self.operand(kind) };
        [a, b]
    }

    fn integer_operation(&mut self, kind: Kind) -> Value {
        use Opcode::*;
        let is_wide = kind.bytes() >= 4;
        match self.random.below(if is_wide { 20 } else { 12 }) {
            0..=8 => {
                let opcode = self.random.one_of(&[Iadd, Iadd, Isub, Isub, Band, Bor, Bxor]);
                let args = self.operands(kind);
                self.binary(opcode, kind, args)
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
                self.b.ins().imul(args[0], args[1])
            }
            14..=16 => {
                let opcode = self.random.one_of(&[Ishl, Ushr, Sshr]);
                let by = self.random.integer_kind();
                let a = self.operand(kind);
                let by = if self.random.one_in(2) { self.constant(by) } else { self.operand(by) };
                self.binary(opcode, kind, [a, by])
            }
            17 | 18 => self.divide(kind),
            _ if kind == Kind::I64 => match self.random.below(4) {
                0 => {
                    let args = self.operands(kind);
                    self.b.ins().umulhi(args[0], args[1])
                }
                1 => {
                    let a = self.operand(Kind::F64);
                    self.b.ins().bitcast(types::I64, MemFlagsData::new(), a)
                }
                _ => {
                    let a = self.operand(Kind::F64);
                    self.b.ins().fcvt_to_sint_sat(types::I64, a)
                }
            },
            _ => self.value(kind),
        }
    }

    /// Divides by something that is not 0, nor the least integer by -1.
    fn divide(&mut self, kind: Kind) -> Value {
        use Opcode::*;
        let opcode = self.random.one_of(&[Udiv, Urem, Sdiv, Srem]);
        let a = self.operand(kind);
        let most = if kind == Kind::I32 { i64::from(i32::MAX) } else { i64::MAX };
        let by = match self.random.below(4) {
            0 => {
                let by = self.random.integer();
                let fits = if kind == Kind::I32 { by as i32 as i64 } else { by };
                self.integer(kind, if matches!(fits, 0 | -1) { 3 } else { by })
            }
            1 => {
                let by = self.operand(kind);
                let [zero, other] = [0, 5].map(|n| self.integer(kind, n));
                let is_zero = self.b.ins().icmp(IntCC::Equal, by, zero);
                self.b.ins().select(is_zero, other, by)
            }
            _ => {
                let [by, one] = [self.operand(kind), self.integer(kind, 1)];
                self.b.ins().bor(by, one)
            }
        };
        let a = match opcode == Sdiv {
            true => {
                let most = self.integer(kind, most);
                self.b.ins().band(a, most)
            }
            false => a,
        };
        self.binary(opcode, kind, [a, by])
    }

    fn float_operation(&mut self) -> Value {
        use Opcode::*;
        match self.random.below(12) {
            0..=5 => {
                let opcode = self.random.one_of(&[Fadd, Fsub, Fmul, Fdiv]);
                let [mut a, b] = self.operands(Kind::F64);
                // Cranelift exchanges what it adds and multiplies to have the loaded one second, and takes the
                // bits of the other, of two that are no numbers.
                if matches!(opcode, Fadd | Fmul) && self.made_by(a) == Some(Load) {
                    a = self.b.ins().fabs(a);
                }
                self.binary(opcode, Kind::F64, [a, b])
            }
            6 | 7 => {
                let opcode = self.random.one_of(&[Fneg, Fabs, Sqrt, Floor, Ceil, Trunc]);
                let a = self.operand(Kind::F64);
                self.unary(opcode, Kind::F64, a)
            }
            8 => self.select(Kind::F64),
            9 => {
                let a = self.operand(Kind::I64);
                self.b.ins().bitcast(types::F64, MemFlagsData::new(), a)
            }
            _ => {
                let kind = self.random.one_of(&[Kind::I32, Kind::I64]);
                let a = self.operand(kind);
                self.b.ins().fcvt_from_sint(types::F64, a)
            }
        }
    }

    fn made_by(&self, value: Value) -> Option<Opcode> {
        let dfg = &self.b.func.dfg;
        dfg.value_def(value).inst().map(|inst| dfg.insts[inst].opcode())
    }

    // -- Conditions -----------------------------------------------------------------------------------------

    fn select(&mut self, kind: Kind) -> Value {
        let condition = self.condition();
        let [a, b] = self.operands(kind);
        self.b.ins().select(condition, a, b)
    }

    /// What a jump or a choice asks: an integer of any kind.
    fn condition(&mut self) -> Value {
        let kind = self.random.integer_kind();
        match self.random.below(8) {
            0..=3 => self.condition_of_8_bits(),
            4 => self.value(Kind::I8),
            5 => {
                let args = self.operands(kind);
                self.b.ins().band(args[0], args[1])
            }
            6 => self.load(kind),
            _ => self.operand(kind),
        }
    }

    fn condition_of_8_bits(&mut self) -> Value {
        let value = match self.random.below(12) {
            0..=5 => self.compare(),
            6..=8 => self.compare_floats(),
            9 => {
                let args = self.operands(Kind::I8);
                self.b.ins().band(args[0], args[1])
            }
            10 => {
                // Whether there is room, on a stack that lies neither here nor there.
                let pointer = self.b.ins().get_stack_pointer(types::I64);
                let limit = self.random.one_of(&[0, 1, 4096, -1, i64::MIN, i64::MAX]);
                let limit = self.integer(Kind::I64, limit);
                let args = if self.random.one_in(2) { [pointer, limit] } else { [limit, pointer] };
                let condition = self.random.one_of(&CONDITIONS);
                self.b.ins().icmp(condition, args[0], args[1])
            }
            _ => {
                let [value, zero] = [self.value(Kind::I8), self.integer(Kind::I8, 0)];
                self.b.ins().icmp(IntCC::Equal, value, zero)
            }
        };
        if self.random.one_in(4) {
            self.have(Kind::I8, value);
        }
        value
    }

    fn compare(&mut self) -> Value {
        let kind = self.random.integer_kind();
        let condition = self.random.one_of(&CONDITIONS);
        let [a, b] = match self.random.below(8) {
            0..=2 => self.operands(kind),
            3 | 4 => [self.operand(kind), self.constant(kind)],
            5 => [self.constant(kind), self.operand(kind)],
            6 => {
                let args = self.operands(kind);
                [self.b.ins().band(args[0], args[1]), self.integer(kind, 0)]
            }
            _ => [self.load(kind), self.constant(kind)],
        };
        self.b.ins().icmp(condition, a, b)
    }

    fn compare_floats(&mut self) -> Value {
        let condition = self.random.one_of(&FLOAT_CONDITIONS);
        let [a, b] = self.operands(Kind::F64);
        self.b.ins().fcmp(condition, a, b)
    }

    // -- Calls ----------------------------------------------------------------------------------------------

    /// Calls a function; the rare way is that which changes no register.
    fn call(&mut self) {
        let n = self.random.below(CALLEES.len());
        let callee = &CALLEES[n];
        let words = callee.parameters.iter().filter(|&&kind| kind != Kind::F64).count();
        if words <= 5 && self.random.one_in(2) {
            return self.call_rarely(callee);
        }
        let args = self.arguments(callee.parameters);
        let address = self.callee(n);
        let signature = signature(CallConv::SystemV, callee.parameters, callee.results);
        let signature = self.b.import_signature(signature);
        let call = self.b.ins().call_indirect(signature, address, &args);
        let results = self.b.inst_results(call).to_vec();
        for (&kind, value) in callee.results.iter().zip(results) {
            self.have(kind, value);
        }
    }

    /// Its address: a constant, or from memory.
    fn callee(&mut self, n: usize) -> Value {
        match self.random.one_in(3) {
            true => {
                let pointer = self.at_hand.pointers[0].value;
                self.b.ins().load(types::I64, trusted(), pointer, TABLE + 8 * n as i32)
            }
            false => self.integer(Kind::I64, (CALLEES[n].address)() as i64),
        }
    }

    fn arguments(&mut self, kinds: &[Kind]) -> Vec<Value> {
        kinds
            .iter()
            .map(|&kind| match kind {
                Kind::Pointer => self.pointed(),
                kind => self.operand(kind),
            })
            .collect()
    }

    /// Some bytes of memory or of the stack.
    fn pointed(&mut self) -> Value {
        if !self.at_hand.in_slots.is_empty() && self.random.one_in(3) {
            let (slot, offset, _) = self.random.late(&self.at_hand.in_slots);
            if offset == 0 {
                return self.b.ins().stack_addr(types::I64, slot, 0);
            }
        }
        match self.address(POINTED) {
            (address, 0) => address,
            (address, offset) => {
                let offset = self.integer(Kind::I64, offset.into());
                self.b.ins().iadd(address, offset)
            }
        }
    }

    fn call_rarely(&mut self, callee: &Callee) {
        let slot = self.slot();
        let mut args = vec![
            self.integer(Kind::I64, (callee.address)() as i64),
            self.b.ins().stack_addr(types::I64, slot, 0),
        ];
        args.extend(self.arguments(callee.parameters));
        let parameters = [&[Kind::I64, Kind::I64], callee.parameters].concat();
        let signature = self.b.import_signature(signature(CallConv::PreserveAll, &parameters, &[]));
        let by = self.integer(Kind::I64, target::preserving as *const () as i64);
        self.b.ins().call_indirect(signature, by, &args);
        for (&kind, at) in callee.results.iter().zip([0, 8]) {
            let at = if kind == Kind::F64 { target::FLOAT_RESULT } else { at };
            let value = self.b.ins().stack_load(types::I64, kind.ty(), slot, at);
            self.have(kind, value);
            // Some of what is there is what the callee had no use for.
            self.at_hand.in_slots.push((slot, at, kind));
        }
    }

    fn slot(&mut self) -> StackSlot {
        let size = target::RESULTS_SIZE + self.random.below(3) as u32 * 8;
        self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3))
    }

    /// A slot, filled by a function.
    fn fill_slot(&mut self) {
        let slot = self.slot();
        let callee = &CALLEES[FILLS];
        let signature = signature(CallConv::SystemV, callee.parameters, callee.results);
        let signature = self.b.import_signature(signature);
        let args = [self.b.ins().stack_addr(types::I64, slot, 0), self.operand(Kind::I64)];
        let address = self.callee(FILLS);
        self.b.ins().call_indirect(signature, address, &args);
        self.at_hand.in_slots.extend([0, 8, 16].map(|at| (slot, at, Kind::I64)));
    }

    // -- Statements -----------------------------------------------------------------------------------------

    fn statement(&mut self) {
        self.depth += 1;
        if self.random.one_in(self.calls) {
            match self.random.one_in(6) {
                true => self.fill_slot(),
                false => self.call(),
            }
        }
        match self.random.below(24) {
            0..=7 => {
                let kind = self.random.integer_kind();
                let value = self.integer_operation(kind);
                self.have(kind, value);
            }
            8..=12 => {
                let value = self.float_operation();
                self.have(Kind::F64, value);
            }
            13 | 14 => {
                self.condition_of_8_bits();
            }
            15..=17 => self.store(),
            18 | 19 => {
                let kind = self.random.kind(false);
                let value = self.load(kind);
                self.have(kind, value);
            }
            20 if self.depth < 3 && self.random.one_in(4) => self.burst(),
            21 | 22 if !self.variables.is_empty() => {
                let (variable, kind) = self.random.one_of(&self.variables);
                if self.random.one_in(2) {
                    let value = self.operand(kind);
                    return self.set(variable, value);
                }
                let value = self.b.use_var(variable);
                self.have(kind, value);
            }
            _ => {
                let kind = self.random.kind(false);
                let value = self.operand(kind);
                self.have(kind, value);
            }
        }
        self.depth -= 1;
    }

    fn set(&mut self, variable: Variable, value: Value) {
        self.b.def_var(variable, value);
        self.depth -= 1;
    }

    /// Many values that live a short while.
    fn burst(&mut self) {
        let is_float = self.random.one_in(2);
        let mut values = Vec::new();
        for _ in 0..self.random.range(5, 30) {
            let kind = if is_float { Kind::F64 } else { self.random.integer_kind() };
            let value = match (kind, self.random.one_in(2)) {
                (kind, true) => self.load(kind),
                (Kind::F64, _) => self.float_operation(),
                (kind, _) => self.integer_operation(kind),
            };
            values.push((kind, value));
        }
        for _ in 0..self.random.below(3) {
            self.statement();
        }
        self.random.shuffle(&mut values);
        let sum = self.sum_of(&values);
        self.have(Kind::I64, sum);
        let (address, offset) = self.address(8);
        self.b.ins().store(trusted(), sum, address, offset);
    }

    /// An integer made of all these.
    fn sum_of(&mut self, values: &[(Kind, Value)]) -> Value {
        let mut sum = self.value(Kind::I64);
        let three = self.integer(Kind::I64, 3);
        for &(kind, value) in values {
            let value = match kind {
                Kind::F64 => self.b.ins().bitcast(types::I64, MemFlagsData::new(), value),
                Kind::I64 | Kind::Pointer => value,
                _ if self.random.one_in(2) => self.b.ins().sextend(types::I64, value),
                _ => self.b.ins().uextend(types::I64, value),
            };
            if self.random.one_in(2) {
                sum = self.b.ins().imul(sum, three);
            }
            sum = match self.random.below(3) {
                0 => self.b.ins().bxor(sum, value),
                1 => self.b.ins().isub(sum, value),
                _ => self.b.ins().iadd(value, sum),
            };
        }
        sum
    }

    // -- Where blocks end -----------------------------------------------------------------------------------
}

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
