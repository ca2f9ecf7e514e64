//! The blocks of a random function, before anything is in them: which ways lead where, and why it ends.
//!
//! Blocks have numbers, and every one but the first has a way to it from a lower one. A way to a block that
//! is not higher goes round. Where the block that it leads to dominates it, that has a counter as its first
//! parameter, which comes in as a constant, and goes round as one more; else a number in memory becomes less.
//! Both are looked at by a block that has another way to go on.

use super::random::{Kind, Random};

pub(super) struct Shape {
    pub ways: Vec<usize>,
    /// What its parameters are, without the counter.
    pub parameters: Vec<Kind>,
    /// The block that dominates it most closely.
    pub above: usize,
    /// Its first parameter counts rounds, up to this.
    pub rounds: Option<i64>,
    /// The first of its two ways leads round, maybe by another block, to this one.
    pub round_to: Option<usize>,
    pub is_cold: bool,
    /// It only leads on.
    pub is_empty: bool,
    pub statements: usize,
}

pub(super) struct Plan {
    pub blocks: Vec<Shape>,
    /// In which order the blocks lie.
    pub layout: Vec<usize>,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Plan {
        let count = match random.below(10) {
            0 | 1 => 1,
            2..=5 => 2 + random.below(5),
            6..=8 => 5 + random.below(10),
            _ => 10 + random.below(20),
        };
        let mut plan = Plan { blocks: Vec::new(), layout: Vec::new() };
        let [cold, parameters, statements] = [
            random.one_of(&[0, 2, 5, 9]),
            random.one_of(&[0, 3, 3, 8, 20]),
            random.one_of(&[2, 5, 10, 10, 30]),
        ];
        for n in 0..count {
            // A way that leads to it.
            if n > 0 {
                let mut from = if random.one_in(2) { n - 1 } else { random.below(n) };
                while plan.blocks[from].ways.len() == 2 {
                    from = random.below(n);
                }
                plan.blocks[from].ways.push(n);
            }
            plan.add(random, [cold, parameters, statements]);
        }
        plan.add_ways(random);
        for n in 0..count {
            if let Some(to) = plan.blocks[n].round_to
                && random.one_in(3)
            {
                // By a block of its own.
                let own = plan.blocks.len();
                plan.add(random, [cold, parameters, statements]);
                plan.blocks[n].ways[0] = own;
                plan.blocks[own].ways = vec![to];
            }
        }
        plan.find_dominators();
        let rounds = random.range(2, 5);
        for n in 0..count {
            if let Some(to) = plan.blocks[n].round_to
                && plan.dominates(to, n)
            {
                plan.blocks[to].rounds = Some(rounds);
            }
        }
        for n in 1..plan.blocks.len() {
            let shape = &mut plan.blocks[n];
            if shape.ways.len() == 1 && shape.rounds.is_none() && random.one_in(6) {
                shape.is_empty = true;
                shape.parameters.clear();
            }
        }
        plan.layout = (0..plan.blocks.len()).collect();
        match random.below(4) {
            0 => random.shuffle(&mut plan.layout[1..]),
            1 => {
                let len = plan.layout.len();
                for _ in 0..3.min(len - 1) {
                    let [a, b] = [0; 2].map(|_| 1 + random.below(len - 1));
                    plan.layout.swap(a, b);
                }
            }
            _ => {}
        }
        plan
    }

    fn add(&mut self, random: &mut Random, [cold, parameters, statements]: [usize; 3]) {
        let parameters = match self.blocks.is_empty() || random.one_in(4) {
            true => 0,
            false => random.below(parameters + 1),
        };
        self.blocks.push(Shape {
            ways: Vec::new(),
            parameters: (0..parameters).map(|_| random.kind(true)).collect(),
            above: 0,
            rounds: None,
            round_to: None,
            is_cold: random.below(10) < cold,
            is_empty: false,
            statements: random.below(statements + 1),
        });
    }

    /// More ways: to where many meet, round, or both to one block.
    fn add_ways(&mut self, random: &mut Random) {
        let count = self.blocks.len();
        let meeting = [0; 2].map(|_| random.below(count));
        let mut left = random.below(6);
        for n in 0..count - 1 {
            let on = |random: &mut Random| match meeting.iter().find(|&&to| to > n) {
                Some(&to) if random.one_in(2) => to,
                _ => {
                    let near = 1 + random.below(count);
                    n + 1 + random.below(near.min(count - n - 1))
                }
            };
            if self.blocks[n].ways.is_empty() && !random.one_in(3) {
                let to = on(random);
                self.blocks[n].ways.push(to);
            }
            if self.blocks[n].ways.len() != 1 || random.one_in(3) {
                continue;
            }
            if n > 0 && left > 0 && random.one_in(2) {
                left -= 1;
                let to = 1 + random.below(n);
                self.blocks[n].round_to = Some(to);
                self.blocks[n].ways.insert(0, to);
                continue;
            }
            let to = if random.one_in(6) { self.blocks[n].ways[0] } else { on(random) };
            self.blocks[n].ways.push(to);
        }
    }

    /// Whether all ways to block `n` lead through `above`.
    pub(super) fn dominates(&self, above: usize, mut n: usize) -> bool {
        while n > above {
            n = self.blocks[n].above;
        }
        n == above
    }

    fn find_dominators(&mut self) {
        let count = self.blocks.len();
        let mut above = vec![usize::MAX; count];
        above[0] = 0;
        loop {
            let mut changed = false;
            for from in 0..count {
                for &to in &self.blocks[from].ways {
                    let mut common = from;
                    if to == 0 || above[from] == usize::MAX {
                        continue;
                    }
                    if above[to] != usize::MAX {
                        let mut other = above[to];
                        while common != other {
                            match common > other {
                                true => common = above[common],
                                false => other = above[other],
                            }
                        }
                    }
                    changed |= above[to] != common;
                    above[to] = common;
                }
            }
            if !changed {
                break;
            }
        }
        for (shape, above) in self.blocks.iter_mut().zip(above) {
            shape.above = above;
        }
    }
}
