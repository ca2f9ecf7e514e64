//! How blocks of random functions end.

use super::*;

impl Maker<'_, '_> {
    pub(super) fn end(&mut self, n: usize) {
        if let Some(to) = self.plan.blocks[n].round_to {
            return self.end_round(n, to);
        }
        match self.plan.blocks[n].ways[..] {
            [] => self.leave(),
            [to] => {
                let args = self.passed(n, to);
                self.b.ins().jump(self.blocks[to], &args);
            }
            [a, b] => {
                let ahead = self.random.one_in(2);
                let mut condition = if ahead { Some(self.condition()) } else { None };
                let [to_a, to_b] = [a, b].map(|to| self.passed(n, to));
                let condition = match condition.take() {
                    Some(condition) => condition,
                    None => self.condition(),
                };
                self.b.ins().brif(condition, self.blocks[a], &to_a, self.blocks[b], &to_b);
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
                    0 => self.b.ins().icmp(IntCC::SignedLessThan, counter, rounds),
                    1 => self.b.ins().icmp(IntCC::UnsignedGreaterThan, rounds, counter),
                    _ => self.b.ins().icmp(IntCC::NotEqual, rounds, counter),
                }
            }
            None => {
                let pointer = self.at_hand.pointers[0].value;
                let [one, zero] = [1, 0].map(|n| self.integer(Kind::I64, n));
                let left = self.b.ins().load(types::I64, trusted(), pointer, FUEL);
                let left = self.b.ins().isub(left, one);
                self.b.ins().store(trusted(), left, pointer, FUEL);
                self.b.ins().icmp(IntCC::SignedGreaterThan, left, zero)
            }
        };
        if self.random.one_in(4) {
            let other = self.condition_of_8_bits();
            condition = self.b.ins().band(condition, other);
        }
        match self.random.one_in(4) {
            true => {
                let zero = self.integer(Kind::I8, 0);
                let condition = self.b.ins().icmp(IntCC::Equal, condition, zero);
                self.b.ins().brif(condition, self.blocks[b], &to_b, self.blocks[a], &to_a)
            }
            false => self.b.ins().brif(condition, self.blocks[a], &to_a, self.blocks[b], &to_b),
        };
    }

    /// What is passed from one block to another.
    fn passed(&mut self, from: usize, to: usize) -> Vec<BlockArg> {
        let shape = &self.plan.blocks[to];
        let goes_round = to <= from && self.plan.dominates(to, from);
        let own: Vec<Value> = self.b.block_params(self.blocks[to]).to_vec();
        let (mut args, kinds) = (Vec::<BlockArg>::new(), shape.parameters.clone());
        if shape.rounds.is_some() {
            let one = self.integer(Kind::I64, 1);
            args.push(match goes_round {
                true => self.b.ins().iadd(own[0], one).into(),
                false => one.into(),
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
                args.push(self.random.late(&pointers).value.into());
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
            args.push(value.into());
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
            let value = self.b.ins().band(value, bits);
            let eight = self.integer(Kind::I64, 8);
            let condition = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, value, eight);
            self.b.ins().brif(condition, never, &[], on, &[]);
            self.b.switch_to_block(never);
            self.b.set_cold_block(never);
            self.b.ins().trap(TrapCode::unwrap_user(1));
            self.b.switch_to_block(on);
        }
        if self.given.convention == JUMPING && self.random.one_in(3) {
            return self.jump_to_another();
        }
        let results: Vec<Value> = (0..self.given.results.len())
            .map(|n| match self.given.results[n] {
                Kind::I64 => self.sum_of_most(),
                kind => self.operand(kind),
            })
            .collect();
        self.b.ins().return_(&results);
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
        let callee = self.callee(n);
        let signature = signature(JUMPING, CALLEES[n].parameters, CALLEES[n].results);
        let signature = self.b.import_signature(signature);
        self.b.ins().return_call_indirect(signature, callee, &args);
    }
}
