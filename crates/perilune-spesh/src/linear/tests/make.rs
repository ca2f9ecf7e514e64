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

use super::outside::{CALLEES, Callee, FUEL, REACH};
use super::plan::Plan;
use super::random::{INTEGERS, KINDS, Kind, Random};
use crate::backend::stored_at;
use crate::ssa::{Block, Builder, Convention, IntCC, Signature, Slot, Type, Value, Variable};
use std::collections::HashSet;

/// What a function gets and gives back.
pub(super) struct Given {
    parameters: Vec<Kind>,
    pub results: Vec<Kind>,
    convention: Convention,
}

impl Given {
    pub(super) fn new(random: &mut Random) -> Given {
        use Kind::{F64, I8, I16, I32, I64};
        let convention = if random.one_in(3) { Convention::Machine } else { Convention::C };
        let mut parameters = vec![Kind::Pointer];
        let mut free = if convention == Convention::Machine { [3, 4] } else { [5, 8] };
        for _ in 0..random.below(14) {
            let kind = random.kind(false);
            let free = &mut free[(kind == F64) as usize];
            if *free > 0 {
                *free -= 1;
                parameters.push(kind);
            }
        }
        let others: [&[Kind]; 4] = [&[], &[I64, I64], &[F64, I64], &[F64, F64]];
        let single: [&[Kind]; 6] = [&[I64], &[I64], &[F64], &[I32], &[I8], &[I16]];
        let results = match (convention == Convention::Machine, random.below(3)) {
            (true, _) => random.one_of(&single[1..3]),
            (_, 0) => random.one_of(&others),
            _ => random.one_of(&single),
        };
        Given { parameters, results: results.to_vec(), convention }
    }

    pub(super) fn jumps(&self) -> bool {
        self.convention == Convention::Machine
    }

    pub(super) fn signature(&self) -> Signature {
        signature(self.convention, &self.parameters, &self.results)
    }
}

pub(super) fn signature(convention: Convention, parameters: &[Kind], results: &[Kind]) -> Signature {
    let types = |kinds: &[Kind]| kinds.iter().map(|kind| kind.ty()).collect();
    Signature { convention, params: types(parameters), returns: types(results) }
}

/// What leads into memory, between these from the pointer that the function is given.
#[derive(Clone, Copy)]
pub(super) struct Pointer {
    pub value: Value,
    pub from: i64,
    pub to: i64,
}

/// Pointers that are parameters of blocks lie between these.
const PASSED: std::ops::RangeInclusive<i64> = 0..=64;

/// What may be used.
#[derive(Clone, Default)]
pub(super) struct AtHand {
    pub values: [Vec<Value>; KINDS],
    pub pointers: Vec<Pointer>,
    /// Small integers of 64 bits, and what they lie between.
    pub small: Vec<(Value, i64, i64)>,
    /// What lies in slots of the stack.
    pub in_slots: Vec<(Slot, i32, Kind)>,
}

pub(super) struct Maker<'a, 'f> {
    pub random: Random,
    pub b: &'a mut Builder<'f>,
    pub given: &'a Given,
    /// A parameter.
    pub given_word: Option<Value>,
    /// The memory that functions work on.
    pub memory: u64,
    plan: Plan,
    blocks: Vec<Block>,
    pub at_hand: AtHand,
    /// What was at hand at the end of each block.
    behind: Vec<AtHand>,
    /// Blocks are sealed as soon as all ways to them are there; else all are, at the end.
    seals_early: bool,
    variables: Vec<(Variable, Kind)>,
    pub used: HashSet<Value>,
    /// How often functions are called: one statement of so many.
    calls: usize,
    /// How many values of each class live from the beginning to the end.
    live: [usize; 2],
    /// How deep statements are in others.
    pub depth: u8,
}

/// Makes the function's body.
pub(super) fn make(b: &mut Builder<'_>, given: &Given, mut random: Random, memory: u64) {
    let plan = Plan::new(&mut random);
    let calls = random.one_of(&[usize::MAX >> 33, 40, 12, 5]);
    let live = [0; 2].map(|_| random.one_of(&[0, 0, 2, 6, 15, 30, 60]));
    let seals_early = random.one_in(2);
    let blocks: Vec<Block> = plan.blocks.iter().map(|_| b.create_block()).collect();
    let maker = Maker {
        random,
        b,
        given,
        given_word: None,
        memory,
        plan,
        blocks,
        at_hand: AtHand::default(),
        behind: Vec::new(),
        seals_early,
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
                self.b.append_block_param(self.blocks[n], Type::I64);
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
            if self.seals_early {
                self.seal_behind(n);
            }
        }
        if self.blocks.len() > 1 && !self.seals_early && self.random.one_in(8) {
            self.add_unreachable();
        }
        self.b.seal_all_blocks();
        // They lie as the plan says, not as they have been built.
        let order: Vec<Block> = self.plan.layout.iter().map(|&n| self.blocks[n]).collect();
        self.b.func.set_order(&order);
    }

    /// The blocks that `n` is the last to lead to are sealed, as the first one is.
    fn seal_behind(&mut self, n: usize) {
        let all = &self.plan.blocks;
        let last = |to: usize| (0..all.len()).rev().find(|&from| all[from].ways.contains(&to));
        let sealed: Vec<usize> = (0..all.len()).filter(|&to| last(to).unwrap_or(0) == n).collect();
        for to in sealed {
            self.b.seal_block(self.blocks[to]);
        }
    }

    fn begin(&mut self) {
        self.b.append_block_params_for_function_params(self.blocks[0]);
        let parameters = self.b.block_params(self.blocks[0]).to_vec();
        self.at_hand.pointers.push(Pointer { value: parameters[0], from: 0, to: 0 });
        for (value, &kind) in parameters.into_iter().zip(&self.given.parameters).skip(1) {
            self.have(kind, value);
            if kind == Kind::I64 {
                self.given_word = Some(value);
            }
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
        for (kind, value) in counter.iter().chain(&shape.parameters).zip(parameters) {
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
        let shape = &self.plan.blocks[to];
        let counter = shape.rounds.map(|_| Kind::I64);
        let args: Vec<Value> = counter
            .iter()
            .chain(&shape.parameters)
            .map(|kind| match kind {
                Kind::F64 => self.b.f64const(0.0),
                kind => self.b.iconst(kind.ty(), 0),
            })
            .collect();
        self.b.jump(self.blocks[to], &args);
    }

    // -- Statements -----------------------------------------------------------------------------------------

    /// Computes something, stores something, or calls.
    pub(super) fn statement(&mut self) {
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
            21 | 22 if !self.variables.is_empty() => self.change_or_use(),
            _ => {
                let kind = self.random.kind(false);
                let value = self.operand(kind);
                self.have(kind, value);
            }
        }
        self.depth -= 1;
    }

    /// What is changed in one block and used in another gets there as the builder has it.
    fn change_or_use(&mut self) {
        let (variable, kind) = self.random.one_of(&self.variables);
        if self.random.one_in(2) {
            let value = self.operand(kind);
            return self.b.def_var(variable, value);
        }
        let value = self.b.use_var(variable);
        self.have(kind, value);
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
        self.b.store(sum, address, offset);
    }

    /// An integer made of all these.
    fn sum_of(&mut self, values: &[(Kind, Value)]) -> Value {
        let mut sum = self.value(Kind::I64);
        let three = self.integer(Kind::I64, 3);
        for &(kind, value) in values {
            let value = match kind {
                Kind::F64 => self.b.bitcast(Type::I64, value),
                Kind::I64 | Kind::Pointer => value,
                _ if self.random.one_in(2) => self.b.sextend(Type::I64, value),
                _ => self.b.uextend(Type::I64, value),
            };
            if self.random.one_in(2) {
                sum = self.b.imul(sum, three);
            }
            sum = match self.random.below(3) {
                0 => self.b.bxor(sum, value),
                1 => self.b.isub(sum, value),
                _ => self.b.iadd(value, sum),
            };
        }
        sum
    }

    // -- Where blocks end -----------------------------------------------------------------------------------

    fn end(&mut self, n: usize) {
        if let Some(to) = self.plan.blocks[n].round_to {
            return self.end_round(n, to);
        }
        match self.plan.blocks[n].ways[..] {
            [] => self.leave(),
            [to] => {
                let args = self.passed(n, to);
                self.b.jump(self.blocks[to], &args);
            }
            [a, b] => {
                // What is passed may come between the comparison and the jump.
                let before = self.random.one_in(2).then(|| self.condition());
                let [to_a, to_b] = [a, b].map(|to| self.passed(n, to));
                let condition = before.unwrap_or_else(|| self.condition());
                self.b.brif(condition, self.blocks[a], &to_a, self.blocks[b], &to_b);
            }
            _ => unreachable!("two ways at most"),
        }
    }

    /// Goes round, to this block, if that has not been done often enough.
    fn end_round(&mut self, n: usize, to: usize) {
        let [a, b] = [0, 1].map(|way| self.plan.blocks[n].ways[way]);
        let [to_a, to_b] = [a, b].map(|to| self.passed(n, to));
        let mut condition = match self.plan.blocks[to].rounds.filter(|_| self.plan.dominates(to, n)) {
            Some(rounds) => {
                let counter = self.b.block_params(self.blocks[to])[0];
                let rounds = self.integer(Kind::I64, rounds);
                match self.random.below(3) {
                    0 => self.b.icmp(IntCC::SignedLessThan, counter, rounds),
                    1 => self.b.icmp(IntCC::UnsignedGreaterThan, rounds, counter),
                    _ => self.b.icmp(IntCC::NotEqual, rounds, counter),
                }
            }
            None => {
                let pointer = self.at_hand.pointers[0].value;
                let [one, zero] = [1, 0].map(|n| self.integer(Kind::I64, n));
                let left = self.b.load(Type::I64, pointer, FUEL);
                let left = self.b.isub(left, one);
                self.b.store(left, pointer, FUEL);
                self.b.icmp(IntCC::SignedGreaterThan, left, zero)
            }
        };
        if self.random.one_in(4) {
            let other = self.condition_of_8_bits();
            condition = self.b.band(condition, other);
        }
        match self.random.one_in(4) {
            true => {
                let zero = self.integer(Kind::I8, 0);
                let condition = self.b.icmp(IntCC::Equal, condition, zero);
                self.b.brif(condition, self.blocks[b], &to_b, self.blocks[a], &to_a)
            }
            false => self.b.brif(condition, self.blocks[a], &to_a, self.blocks[b], &to_b),
        };
    }

    /// What is passed from one block to another.
    fn passed(&mut self, from: usize, to: usize) -> Vec<Value> {
        let shape = &self.plan.blocks[to];
        let goes_round = to <= from && self.plan.dominates(to, from);
        let own: Vec<Value> = self.b.block_params(self.blocks[to]).to_vec();
        let (mut args, kinds) = (Vec::<Value>::new(), shape.parameters.clone());
        if shape.rounds.is_some() {
            let one = self.integer(Kind::I64, 1);
            args.push(match goes_round {
                true => self.b.iadd(own[0], one),
                false => one,
            });
        }
        let own = &own[args.len()..];
        // How far its own parameters move on.
        let by = self.random.below(4);
        let mut before: [Option<Value>; KINDS] = [None; KINDS];
        for (n, &kind) in kinds.iter().enumerate() {
            if kind == Kind::Pointer {
                let passed = |of: &&Pointer| PASSED.contains(&of.from) && PASSED.contains(&of.to);
                let pointers: Vec<Pointer> = self.at_hand.pointers.iter().filter(passed).copied().collect();
                args.push(self.random.late(&pointers).value);
                continue;
            }
            let same: Vec<Value> =
                own.iter().zip(&kinds).filter(|of| *of.1 == kind).map(|of| *of.0).collect();
            let place = same.iter().position(|&value| value == own[n]).expect("it is one of them");
            let is_empty = self.plan.blocks[from].is_empty;
            let value = match self.random.below(10) {
                0..=4 if goes_round => same[(place + by) % same.len()],
                5 | 6 if let Some(value) = before[kind as usize] => value,
                7 if !is_empty => self.constant(kind),
                8 if !is_empty => self.operand(kind),
                _ => self.value(kind),
            };
            before[kind as usize] = Some(value);
            args.push(value);
        }
        args
    }

    /// Gives back what is made of much that is at hand.
    fn leave(&mut self) {
        if self.random.one_in(30) && self.behind.len() > 1 {
            // Where nobody comes.
            let never = self.b.create_block();
            let on = self.b.create_block();
            let [value, bits] = [self.value(Kind::I64), self.integer(Kind::I64, 7)];
            let value = self.b.band(value, bits);
            let eight = self.integer(Kind::I64, 8);
            let condition = self.b.icmp(IntCC::UnsignedGreaterThanOrEqual, value, eight);
            self.b.brif(condition, never, &[], on, &[]);
            self.b.switch_to_block(never);
            self.b.set_cold_block(never);
            self.b.trap();
            self.b.switch_to_block(on);
        }
        if self.given.convention == Convention::Machine
            && self.given.results == [Kind::I64]
            && self.random.one_in(2)
        {
            self.depart_rarely();
        }
        if self.given.convention == Convention::Machine && self.random.one_in(3) {
            return self.jump_to_another();
        }
        let results: Vec<Value> = (0..self.given.results.len())
            .map(|n| match self.given.results[n] {
                Kind::I64 => self.sum_of_most(),
                kind => self.operand(kind),
            })
            .collect();
        self.b.return_(&results);
    }

    /// The code is left if some bits of a value are what they hardly ever are.
    fn depart_rarely(&mut self) {
        for _ in 0..1 + self.random.below(3) {
            let (base, mut stores) = (self.at_hand.pointers[0].value, Vec::new());
            for _ in 0..self.random.below(9) {
                let kind = self.random.one_of(&[Kind::I64, Kind::I64, Kind::F64, Kind::I8]);
                let words = (REACH.end - REACH.start) / 8;
                let offset = REACH.start + 8 * self.random.below(words as usize) as i64;
                // A byte of what has more, too.
                let is_byte = kind == Kind::I8 || kind == Kind::I64 && self.random.one_in(6);
                stores.push((stored_at(offset as i32, is_byte), self.operand(kind)));
            }
            let [departs, on] = [(); 2].map(|()| self.b.create_block());
            let [value, bits] = [self.value(Kind::I64), self.integer(Kind::I64, 7)];
            let value = self.b.band(value, bits);
            let one = self.random.below(8) as i64;
            let one = self.integer(Kind::I64, one);
            let is_one = self.b.icmp(IntCC::Equal, value, one);
            self.b.brif(is_one, departs, &[], on, &[]);
            self.b.switch_to_block(departs);
            self.b.set_cold_block(departs);
            let point = self.random.next() as i64;
            let point = self.b.iconst(Type::I64, point);
            self.b.depart(point, base, &stores);
            self.b.switch_to_block(on);
        }
    }

    fn sum_of_most(&mut self) -> Value {
        let mut values = Vec::new();
        let but = self.random.one_of(&[1, 2, 10]);
        for kind in INTEGERS.into_iter().chain([Kind::F64]) {
            let mut all = self.at_hand.values[kind as usize].clone();
            all.retain(|_| self.random.one_in(but));
            all.truncate(80);
            values.extend(all.into_iter().map(|value| (kind, value)));
        }
        if self.random.one_in(2) {
            self.random.shuffle(&mut values);
        }
        self.sum_of(&values)
    }

    fn jump_to_another(&mut self) {
        let fits = |callee: &Callee| {
            let words = callee.parameters.iter().filter(|&&kind| kind == Kind::I64).count();
            callee.results == self.given.results
                && words <= 4
                && callee.parameters.iter().all(|kind| matches!(kind, Kind::I64 | Kind::F64))
                && callee.parameters.len() < 6
                && callee.parameters.first() == Some(&Kind::I64)
        };
        let fitting: Vec<usize> = (0..CALLEES.len()).filter(|&n| fits(&CALLEES[n])).collect();
        let n = self.random.one_of(&fitting);
        let mut args = self.arguments(CALLEES[n].parameters);
        if self.given.results == [Kind::I64]
            && let Some(last) = args.last_mut()
            && CALLEES[n].parameters.last() == Some(&Kind::I64)
        {
            *last = self.sum_of_most();
        }
        // What is kept for good is the callee's first parameter, too.
        args[0] = self.at_hand.pointers[0].value;
        let callee = self.callee(n);
        let signature = signature(Convention::Machine, CALLEES[n].parameters, CALLEES[n].results);
        let signature = self.b.import_signature(signature);
        self.b.return_call_indirect(signature, callee, &args);
    }
}
