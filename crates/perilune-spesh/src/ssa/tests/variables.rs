//! Random ways between blocks that assign to variables, and read them: what comes of that is what it is when
//! the variables are kept in a table.
//!
//! What is read becomes part of a sum in memory, in order. Ways are chosen by a number in memory that changes
//! each time, until there have been enough of them.

use super::*;
use crate::backend::{Backend, Options};
use crate::memory::tests::free_at_once;
use crate::memory::{CodeMemory, Kind};
use proptest::prelude::*;

const TYPES: [Type; 6] = [Type::I64, Type::I64, Type::I64, Type::F64, Type::F64, Type::I8];
/// Parameters that blocks are given: words.
const GIVEN: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Act {
    Set(usize, i64),
    /// The first one becomes the other, if that has its type.
    Copy(usize, usize),
    /// It becomes the sum of itself and the other, if that has its type.
    Add(usize, usize),
    /// It becomes a parameter that the block was given.
    Take(usize, usize),
    Read(usize),
}

#[derive(Clone, Debug)]
struct Part {
    acts: Vec<Act>,
    /// Where it goes on; the last of them if there are no more.
    ways: Vec<usize>,
    /// How many parameters it has been given.
    given: usize,
    /// The words that it passes, all of which are variables.
    passes: [usize; 2 * GIVEN],
}

#[derive(Clone, Debug)]
struct Plan {
    parts: Vec<Part>,
    /// Which one is built next, among those that are left.
    picks: Vec<prop::sample::Index>,
    /// A block is sealed as soon as all ways to it are there.
    seals_early: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let of = 0..TYPES.len();
    let act = prop_oneof![
        (of.clone(), -3i64..3).prop_map(|(to, n)| Act::Set(to, n)),
        (of.clone(), of.clone()).prop_map(|(to, from)| Act::Copy(to, from)),
        (of.clone(), of.clone()).prop_map(|(to, by)| Act::Add(to, by)),
        (of.clone(), 0..GIVEN).prop_map(|(to, n)| Act::Take(to, n)),
        of.prop_map(Act::Read),
    ];
    (1usize..9).prop_flat_map(move |count| {
        // Nothing leads to where the function begins.
        let ways = match count {
            1 => Just(Vec::new()).boxed(),
            _ => prop::collection::vec(1..count, 0..3).boxed(),
        };
        let part = (prop::collection::vec(act.clone(), 0..5), ways, 0..=GIVEN, [0usize..3, 0..3, 0..3, 0..3]);
        let part = part.prop_map(|(acts, ways, given, passes)| Part { acts, ways, given, passes });
        let picks = prop::collection::vec(any::<prop::sample::Index>(), count);
        (prop::collection::vec(part, count), picks, any::<bool>())
            .prop_map(|(parts, picks, seals_early)| Plan { parts, picks, seals_early })
    })
}

/// What lies in memory: the sum, the number that chooses, how many blocks are left.
const START: [u64; 3] = [0, 0x1234_5678_9ABC, 40];
const TIMES: i64 = 0x5DEE_CE66D;

impl Act {
    /// Whether types fit.
    fn fits(self, part: &Part) -> bool {
        match self {
            Act::Copy(a, b) | Act::Add(a, b) => TYPES[a] == TYPES[b],
            Act::Take(to, n) => TYPES[to] == Type::I64 && n < part.given,
            Act::Set(..) | Act::Read(_) => true,
        }
    }
}

// -- In a table ---------------------------------------------------------------------------------------------

/// The bits that a constant has.
fn bits(ty: Type, n: i64) -> u64 {
    match ty {
        Type::F64 => (n as f64).to_bits(),
        Type::I8 => u64::from(n as u8),
        _ => n as u64,
    }
}

fn mixed(sum: u64, value: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(value)
}

fn simulated(plan: &Plan) -> u64 {
    let [mut sum, mut chooses, mut left] = START;
    let (mut table, mut given, mut at) = ([0u64; TYPES.len()], [0; GIVEN], 0);
    loop {
        let part = &plan.parts[at];
        for act in part.acts.iter().filter(|act| at != 0 || !matches!(act, Act::Take(..))) {
            match *act {
                act if !act.fits(part) => {}
                Act::Set(to, n) => table[to] = bits(TYPES[to], n),
                Act::Copy(to, from) => table[to] = table[from],
                Act::Add(to, by) => {
                    table[to] = match TYPES[to] {
                        Type::F64 => (f64::from_bits(table[to]) + f64::from_bits(table[by])).to_bits(),
                        Type::I8 => u64::from((table[to] as u8).wrapping_add(table[by] as u8)),
                        _ => table[to].wrapping_add(table[by]),
                    };
                }
                Act::Take(to, n) => table[to] = given[n],
                Act::Read(of) => sum = mixed(sum, table[of]),
            }
        }
        left -= 1;
        let way = match part.ways[..] {
            _ if left == 0 => None,
            [] => None,
            [_] => Some(0),
            _ => {
                chooses = chooses.wrapping_mul(TIMES as u64).wrapping_add(11);
                Some(usize::from(chooses >> 40 & 1 == 0))
            }
        };
        let Some(way) = way else { break };
        given = std::array::from_fn(|n| table[part.passes[GIVEN * way + n]]);
        at = part.ways[way];
    }
    table.into_iter().fold(sum, mixed)
}

// -- In the form --------------------------------------------------------------------------------------------

struct Maker<'a, 'f> {
    b: &'a mut Builder<'f>,
    plan: &'a Plan,
    memory: Value,
    blocks: Vec<Block>,
    variables: Vec<Variable>,
    out: Block,
}

fn make(b: &mut Builder<'_>, plan: &Plan) {
    let variables = TYPES.map(|ty| b.declare_var(ty)).to_vec();
    let blocks: Vec<Block> = plan.parts.iter().map(|_| b.create_block()).collect();
    let out = b.create_block();
    b.append_block_params_for_function_params(blocks[0]);
    for (&block, part) in blocks.iter().zip(&plan.parts).skip(1) {
        for _ in 0..part.given {
            b.append_block_param(block, Type::I64);
        }
    }
    let memory = b.block_params(blocks[0])[0];
    let mut maker = Maker { b, plan, memory, blocks, variables, out };
    let (mut open, mut built) = ((1..plan.parts.len()).collect::<Vec<_>>(), Vec::new());
    for pick in &plan.picks {
        let n = match built.is_empty() {
            true => 0,
            false => open.remove(pick.index(open.len())),
        };
        maker.part(n);
        built.push(n);
        if plan.seals_early {
            maker.seal(&built);
        }
    }
    maker.end();
    maker.b.seal_all_blocks();
}

impl Maker<'_, '_> {
    /// The blocks to which the last one that has been built was the last to lead are sealed.
    fn seal(&mut self, built: &[usize]) {
        let leads = |from: usize, to: usize| self.plan.parts[from].ways.contains(&to);
        let all: Vec<usize> = (0..self.blocks.len())
            .filter(|&to| (0..self.blocks.len()).all(|from| built.contains(&from) || !leads(from, to)))
            .collect();
        for to in all {
            if !self.b.func.blocks[self.blocks[to].index()].is_sealed {
                self.b.seal_block(self.blocks[to]);
            }
        }
    }

    fn read(&mut self, of: usize) {
        let value = self.b.use_var(self.variables[of]);
        let value = match TYPES[of] {
            Type::F64 => self.b.bitcast(Type::I64, value),
            Type::I8 => self.b.uextend(Type::I64, value),
            _ => value,
        };
        let sum = self.b.load(Type::I64, self.memory, 0);
        let by = int(self.b, 31);
        let sum = self.b.imul(sum, by);
        let sum = self.b.iadd(sum, value);
        self.b.store(sum, self.memory, 0);
    }

    fn part(&mut self, n: usize) {
        let part = &self.plan.parts[n];
        self.b.switch_to_block(self.blocks[n]);
        let given = if n == 0 { Vec::new() } else { self.b.block_params(self.blocks[n]) };
        for act in part.acts.iter().filter(|act| n != 0 || !matches!(act, Act::Take(..))) {
            let (to, value) = match *act {
                act if !act.fits(part) => continue,
                Act::Set(to, n) => match TYPES[to] {
                    Type::F64 => (to, self.b.f64const(n as f64)),
                    ty => (to, self.b.iconst(ty, n)),
                },
                Act::Copy(to, from) => (to, self.b.use_var(self.variables[from])),
                Act::Add(to, by) => {
                    let [a, b] = [to, by].map(|of| self.b.use_var(self.variables[of]));
                    let sum = if TYPES[to].is_float() { self.b.fadd(a, b) } else { self.b.iadd(a, b) };
                    (to, sum)
                }
                Act::Take(to, n) => (to, given[n]),
                Act::Read(of) => {
                    self.read(of);
                    continue;
                }
            };
            self.b.def_var(self.variables[to], value);
        }
        let (left, one) = (self.b.load(Type::I64, self.memory, 16), int(self.b, 1));
        let left = self.b.isub(left, one);
        self.b.store(left, self.memory, 16);
        let on = self.b.create_block();
        self.b.brif(left, on, &[], self.out, &[]);
        if self.plan.seals_early {
            self.b.seal_block(on);
        }
        self.b.switch_to_block(on);
        match part.ways[..] {
            [] => self.b.jump(self.out, &[]),
            [to] => {
                let passed = self.passed(n, 0, to);
                self.b.jump(self.blocks[to], &passed);
            }
            [a, b, ..] => {
                let chooses = self.b.load(Type::I64, self.memory, 8);
                let [times, more, by, bit] = [TIMES, 11, 40, 1].map(|n| int(self.b, n));
                let chooses = self.b.imul(chooses, times);
                let chooses = self.b.iadd(chooses, more);
                self.b.store(chooses, self.memory, 8);
                let chosen = self.b.ushr(chooses, by);
                let chosen = self.b.band(chosen, bit);
                let [to_a, to_b] = [self.passed(n, 0, a), self.passed(n, 1, b)];
                self.b.brif(chosen, self.blocks[a], &to_a, self.blocks[b], &to_b);
            }
        }
    }

    fn passed(&mut self, n: usize, way: usize, to: usize) -> Vec<Value> {
        let passes = &self.plan.parts[n].passes[GIVEN * way..][..self.plan.parts[to].given];
        passes.iter().map(|&of| self.b.use_var(self.variables[of])).collect()
    }

    fn end(&mut self) {
        self.b.switch_to_block(self.out);
        (0..TYPES.len()).for_each(|of| self.read(of));
        let sum = self.b.load(Type::I64, self.memory, 0);
        self.b.return_(&[sum]);
    }
}

fn signature() -> Signature {
    Signature { convention: Convention::C, params: vec![Type::I64], returns: vec![Type::I64] }
}

/// What the code of the function gives back.
fn compiled(func: &Function, memory: &mut [u64; 3]) -> u64 {
    let mut backend = Backend::new(Options::default()).expect("the processor has all we need");
    let compiled = backend.compile(signature(), |b| *b.func = func.clone()).expect("it compiles");
    let room = CodeMemory::reserve(1 << 20).expect("there is room");
    let code = room.install(&compiled.bytes, Kind::Function).expect("there is room");
    // SAFETY: the code has this signature, and touches nothing but its frame and the three words.
    let f: extern "C" fn(*mut u64) -> u64 = unsafe { std::mem::transmute(code.address()) };
    let sum = f(memory.as_mut_ptr());
    free_at_once(code);
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn variables_are_what_has_been_assigned(plan in plan()) {
        let (mut func, mut variables) = (Function::default(), Variables::default());
        let mut texts = Vec::new();
        // The second time where the function has been before.
        for _ in 0..2 {
            make(&mut Builder::new(&mut func, &mut variables, signature()), &plan);
            texts.push(func.to_string());
        }
        prop_assert_eq!(&texts[0], &texts[1]);
        prop_assert_eq!(func.verify(), Ok(()), "{}", func);
        let expected = simulated(&plan);
        let mut memory = START;
        let words = [memory.as_mut_ptr().expose_provenance() as u64, 0, 0, 0, 0, 0];
        let left = interpret(&func, &words, &[0; 8]).expect("it ends");
        prop_assert_eq!(left.words[0], expected, "{}", func);
        prop_assert_eq!(compiled(&func, &mut START.clone()), expected, "{}", func);
    }
}
