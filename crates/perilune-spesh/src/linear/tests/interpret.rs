//! Does what a function of the form says, instruction by instruction: what the code is compared with.
//!
//! Memory is that of the process, and callees are called. A value has as many bits as its type says; the others
//! are 0.
//!
//! # What is no number
//! Bits of such floats are those that the processor makes: of two operands the first one that is no number, and
//! of what has no answer the same one always, whose sign is set. One that signals does not any more. All of it
//! is said here, as it would be anybody's guess what the compiler makes of operands that change places.

use super::outside::{KEPT, Left, called, leave};
use crate::backend::apart;
use crate::ssa::{
    Block, Convention, Data, Def, Edge, FloatCC, Function, Inst, List, Opcode, Sig, Type, Value,
};
use std::ptr::with_exposed_provenance_mut;

/// How many instructions are done at most.
const MOST: u32 = 10_000_000;

/// What there is no answer to.
const NO_NUMBER: u64 = 0xFFF8_0000_0000_0000;
/// The bit that those have which do not signal.
const QUIET: u64 = 1 << 51;

struct Interpreter<'f> {
    func: &'f Function,
    values: Vec<u64>,
    /// What is in slots of the stack.
    slots: Vec<Box<[u64]>>,
}

/// Where it goes on behind an instruction.
enum Next {
    Inst,
    Way(Edge),
    Left(Left),
}

/// Runs a function of at most six words and eight floats; it gives back what it leaves in registers. `Err` says
/// why it does not end.
pub(crate) fn interpret(func: &Function, words: &[u64; 6], floats: &[u64; 8]) -> Result<Left, &'static str> {
    let slots = func.slots().iter().map(|&size| vec![0; size.div_ceil(8) as usize].into()).collect();
    let mut interpreter = Interpreter { func, values: vec![0; func.num_values()], slots };
    interpreter.find_constants();
    let (mut words, mut floats) = (words.iter(), floats.iter());
    for param in func.params(func.entry()) {
        let of = if func.ty(param.value).is_float() {
            &mut floats as &mut dyn Iterator<Item = &u64>
        } else {
            &mut words
        };
        let bits = *of.next().expect("six words, and eight floats");
        interpreter.set(param.value, bits);
    }
    let (mut block, mut left) = (func.entry(), MOST);
    loop {
        let next = interpreter.block(block, &mut left)?;
        match next {
            Next::Left(left) => return Ok(left),
            Next::Way(way) => block = interpreter.pass(way),
            Next::Inst => return Err("a block does not end"),
        }
    }
}

/// Of these bits as many as the type has.
fn masked(ty: Type, bits: u64) -> u64 {
    bits & u64::MAX >> (64 - ty.bits())
}

impl Interpreter<'_> {
    fn find_constants(&mut self) {
        for value in self.func.values() {
            let bits = match self.func.def(value) {
                Def::Integer(n) => n as u64,
                Def::Float(bits) => bits,
                Def::Stack(slot, offset) => {
                    let start = self.slots[slot.index()].as_mut_ptr().expose_provenance() as u64;
                    start.wrapping_add_signed(offset.into())
                }
                // Somewhere on the stack.
                Def::StackPointer => std::ptr::from_ref(self).addr() as u64,
                Def::Inst(_) | Def::Param(_) | Def::Same(_) => continue,
            };
            self.set(value, bits);
        }
    }

    // -- Values ---------------------------------------------------------------------------------------------

    fn get(&self, value: Value) -> u64 {
        self.values[self.func.resolve(value).index()]
    }

    fn float(&self, value: Value) -> f64 {
        f64::from_bits(self.get(value))
    }

    fn signed(&self, value: Value) -> i64 {
        self.func.ty(value).signed(self.get(value) as i64)
    }

    fn set(&mut self, value: Value, bits: u64) {
        let value = self.func.resolve(value);
        self.values[value.index()] = masked(self.func.ty(value), bits);
    }

    fn list(&self, list: List) -> Vec<u64> {
        self.func.list(list).iter().map(|&value| self.get(value)).collect()
    }

    // -- Blocks ---------------------------------------------------------------------------------------------

    fn block(&mut self, block: Block, left: &mut u32) -> Result<Next, &'static str> {
        for inst in self.func.block_insts(block) {
            *left = left.checked_sub(1).ok_or("it does not end")?;
            match self.inst(inst)? {
                Next::Inst => {}
                next => return Ok(next),
            }
        }
        Ok(Next::Inst)
    }

    /// The parameters of the block that the way leads to get what it passes, all at once.
    fn pass(&mut self, way: Edge) -> Block {
        let to = self.func.leads_to(way);
        let passed: Vec<u64> = self.func.passed(way).map(|value| self.get(value)).collect();
        for (param, bits) in self.func.params(to).iter().zip(passed) {
            self.set(param.value, bits);
        }
        to
    }

    fn inst(&mut self, inst: Inst) -> Result<Next, &'static str> {
        let func = self.func;
        let bits = match *func.data(inst) {
            Data::Load { arg, offset } => {
                let bytes = func.ty(func.result(inst).expect("it loads something")).bytes();
                load(self.get(arg).wrapping_add_signed(offset.into()), bytes)
            }
            Data::Store { args, offset } => {
                let bytes = func.ty(args[0]).bytes();
                let to = self.get(args[1]).wrapping_add_signed(offset.into());
                store(to, self.get(args[0]), bytes);
                return Ok(Next::Inst);
            }
            Data::Unary { opcode, arg } => self.unary(opcode, arg),
            Data::Binary { opcode, args } if func.ty(args[0]).is_float() => {
                of_two_floats(opcode, args.map(|arg| self.get(arg)))
            }
            Data::Binary { opcode, args } => self.binary(opcode, args)?,
            Data::Select { args: [condition, a, b] } => match self.get(condition) {
                0 => self.get(b),
                _ => self.get(a),
            },
            Data::CompareInts { cond, args } => {
                let [a, b] = args.map(|arg| self.signed(arg));
                cond.holds(a, b).into()
            }
            Data::CompareFloats { cond, args } => {
                let [a, b] = args.map(|arg| self.float(arg));
                holds(cond, a, b).into()
            }
            Data::Call { opcode, sig, args } => {
                let left = self.call(sig, args);
                if opcode == Opcode::ReturnCallIndirect {
                    return Ok(Next::Left(left));
                }
                self.take(inst, &left);
                return Ok(Next::Inst);
            }
            Data::Depart { args } => return Ok(Next::Left(self.depart(args))),
            Data::Jump { way } => return Ok(Next::Way(way)),
            Data::Branch { arg, ways } => {
                let way = if self.get(arg) != 0 { ways[0] } else { ways[1] };
                return Ok(Next::Way(way));
            }
            Data::Return { args } => return Ok(Next::Left(self.give_back(args))),
            Data::Trap => return Err("somebody comes where nobody does"),
        };
        self.set(func.result(inst).expect("it makes something"), bits);
        Ok(Next::Inst)
    }

    // -- Operations -----------------------------------------------------------------------------------------

    fn binary(&self, opcode: Opcode, args: [Value; 2]) -> Result<u64, &'static str> {
        let bits = self.func.ty(args[0]).bits();
        let [a, b] = args.map(|arg| self.get(arg));
        let [x, y] = args.map(|arg| self.signed(arg));
        let by = b as u32 & (bits - 1);
        let divided = "by that nothing is divided";
        Ok(match opcode {
            Opcode::Iadd => a.wrapping_add(b),
            Opcode::Isub => a.wrapping_sub(b),
            Opcode::Imul => a.wrapping_mul(b),
            Opcode::Umulhi => ((u128::from(a) * u128::from(b)) >> 64) as u64,
            Opcode::Udiv => a.checked_div(b).ok_or(divided)?,
            Opcode::Urem => a.checked_rem(b).ok_or(divided)?,
            Opcode::FloorDiv | Opcode::FloorMod if y <= 0 => return Err(divided),
            Opcode::FloorDiv => x.div_euclid(y) as u64,
            Opcode::FloorMod => x.rem_euclid(y) as u64,
            Opcode::Band => a & b,
            Opcode::Bor => a | b,
            Opcode::Bxor => a ^ b,
            Opcode::Ishl => a << by,
            Opcode::Ushr => a >> by,
            Opcode::Sshr => (x >> by) as u64,
            _ => unreachable!("{opcode:?} of two integers"),
        })
    }

    fn unary(&self, opcode: Opcode, arg: Value) -> u64 {
        let (bits, float) = (self.get(arg), self.float(arg));
        match opcode {
            Opcode::Bnot => !bits,
            Opcode::Ineg => bits.wrapping_neg(),
            Opcode::Uextend | Opcode::Ireduce | Opcode::Bitcast => bits,
            Opcode::Sextend => self.signed(arg) as u64,
            Opcode::Fneg => bits ^ 1 << 63,
            Opcode::Fabs => bits & !(1 << 63),
            Opcode::Sqrt if float < 0.0 => NO_NUMBER,
            Opcode::Sqrt => quiet_or(float, f64::sqrt),
            Opcode::Floor => quiet_or(float, f64::floor),
            Opcode::Ceil => quiet_or(float, f64::ceil),
            Opcode::FcvtFromSint => (self.signed(arg) as f64).to_bits(),
            // 2^63 and more are no integers, but saturate.
            Opcode::FcvtToSint if float.is_nan() || float >= -(i64::MIN as f64) => i64::MIN as u64,
            Opcode::FcvtToSint => float as i64 as u64,
            Opcode::Fpromote => promoted(bits as u32),
            Opcode::Fdemote => demoted(bits).into(),
            _ => unreachable!("{opcode:?} of one operand"),
        }
    }

    // -- Calls ----------------------------------------------------------------------------------------------

    fn call(&self, sig: Sig, args: List) -> Left {
        let func = self.func;
        let (mut words, mut floats) = (Vec::new(), Vec::new());
        for &arg in &func.list(args)[1..] {
            let of = if func.ty(arg).is_float() { &mut floats } else { &mut words };
            of.push(self.get(arg));
        }
        words.resize(7, 0);
        floats.resize(8, 0);
        let callee = self.get(func.list(args)[0]) as usize;
        let jumps = func.signature_of(sig).convention == Convention::Machine;
        let [words, floats]: [&[u64]; 2] = [&words, &floats];
        called(
            callee,
            words.try_into().expect("seven words at most"),
            floats.try_into().expect("eight floats at most"),
            jumps,
        )
    }

    /// What a call has left is its results.
    fn take(&mut self, inst: Inst, left: &Left) {
        let (mut words, mut floats) = (left.words.iter(), left.floats.iter());
        for result in self.func.results(inst) {
            let bits = match self.func.ty(result).is_float() {
                true => floats.next(),
                false => words.next(),
            };
            self.set(result, *bits.expect("two results of a class"));
        }
    }

    fn give_back(&self, args: List) -> Left {
        let mut left = Left { kept: KEPT, ..Left::default() };
        let (mut words, mut floats) = (left.words.iter_mut(), left.floats.iter_mut());
        for &value in self.func.list(args) {
            let to = if self.func.ty(value).is_float() { floats.next() } else { words.next() };
            *to.expect("two results of a class") = self.get(value);
        }
        left
    }

    /// The code is left: values are stored, and what goes on from there says what is given back.
    fn depart(&self, args: List) -> Left {
        assert_eq!(self.func.signature.convention, Convention::Machine, "machine code is left");
        let vm = self.get(self.func.params(self.func.entry())[0].value);
        let bits = self.list(args);
        let (base, values) = (bits[1], self.func.list(args));
        for n in (2..bits.len()).step_by(2) {
            let (offset, is_byte) = apart(bits[n] as i64);
            let bytes = if is_byte { 1 } else { self.func.ty(values[n + 1]).bytes() };
            store(base.wrapping_add_signed(offset.into()), bits[n + 1], bytes);
        }
        let [vm, base, point] = [vm, base, bits[0]].map(|bits| bits as usize);
        // SAFETY: it looks at the addresses alone.
        let word = unsafe {
            leave(
                std::ptr::without_provenance_mut(vm),
                std::ptr::without_provenance_mut(base),
                std::ptr::without_provenance(point),
            )
        };
        Left { words: [word, 0], kept: KEPT, ..Left::default() }
    }
}

// -- Memory -------------------------------------------------------------------------------------------------

fn load(from: u64, bytes: u32) -> u64 {
    let mut bits = [0; 8];
    // SAFETY: functions load from memory that the test owns, or the interpreter.
    unsafe {
        let from = with_exposed_provenance_mut::<u8>(from as usize);
        std::ptr::copy_nonoverlapping(from, bits.as_mut_ptr(), bytes as usize);
    }
    u64::from_le_bytes(bits)
}

fn store(to: u64, bits: u64, bytes: u32) {
    let bits = bits.to_le_bytes();
    // SAFETY: as above.
    unsafe {
        let to = with_exposed_provenance_mut::<u8>(to as usize);
        std::ptr::copy_nonoverlapping(bits.as_ptr(), to, bytes as usize);
    }
}

// -- Floats -------------------------------------------------------------------------------------------------

/// What comes of a float that is a number; of another, itself, which does not signal.
fn quiet_or(float: f64, of: fn(f64) -> f64) -> u64 {
    if float.is_nan() { float.to_bits() | QUIET } else { of(float).to_bits() }
}

fn of_two_floats(opcode: Opcode, bits: [u64; 2]) -> u64 {
    let [a, b] = bits.map(f64::from_bits);
    if let Some(other) = [a, b].into_iter().find(|float| float.is_nan()) {
        return other.to_bits() | QUIET;
    }
    let result = match opcode {
        Opcode::Fadd => a + b,
        Opcode::Fsub => a - b,
        Opcode::Fmul => a * b,
        Opcode::Fdiv => a / b,
        _ => unreachable!("{opcode:?} of two floats"),
    };
    if result.is_nan() { NO_NUMBER } else { result.to_bits() }
}

/// The float of 32 bits as one of 64.
fn promoted(bits: u32) -> u64 {
    let float = f32::from_bits(bits);
    if !float.is_nan() {
        return f64::from(float).to_bits();
    }
    let (sign, fraction) = (u64::from(bits >> 31), u64::from(bits & 0x7F_FFFF));
    sign << 63 | 0x7FF << 52 | fraction << 29 | QUIET
}

/// The float of 64 bits as one of 32.
fn demoted(bits: u64) -> u32 {
    let float = f64::from_bits(bits);
    if !float.is_nan() {
        return (float as f32).to_bits();
    }
    let (sign, fraction) = ((bits >> 63) as u32, (bits >> 29) as u32 & 0x7F_FFFF);
    sign << 31 | 0xFF << 23 | fraction | 1 << 22
}

fn holds(cond: FloatCC, a: f64, b: f64) -> bool {
    let is_ordered = !a.is_nan() && !b.is_nan();
    match cond {
        FloatCC::Ordered => is_ordered,
        FloatCC::Unordered => !is_ordered,
        FloatCC::Equal => a == b,
        FloatCC::NotEqual => a != b,
        FloatCC::OrderedNotEqual => is_ordered && a != b,
        FloatCC::UnorderedOrEqual => !is_ordered || a == b,
        FloatCC::LessThan => a < b,
        FloatCC::LessThanOrEqual => a <= b,
        FloatCC::GreaterThan => a > b,
        FloatCC::GreaterThanOrEqual => a >= b,
        FloatCC::UnorderedOrLessThan => !is_ordered || a < b,
        FloatCC::UnorderedOrLessThanOrEqual => !is_ordered || a <= b,
        FloatCC::UnorderedOrGreaterThan => !is_ordered || a > b,
        FloatCC::UnorderedOrGreaterThanOrEqual => !is_ordered || a >= b,
    }
}
