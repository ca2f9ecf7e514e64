//! Random functions, compiled by our generator and by Cranelift: both do the same.
//!
//! A function is known by its seed. Its results, the memory that it works on, and the registers that it has to
//! leave alone are compared for some inputs. Of floats all bits are: the sign of what is no number is printed.
//!
//! - `PERILUNE_LINEAR_SEEDS=from..to` tries other seeds. One that fails is written down; one that is asked for
//!   alone is written down before it is run, which may stop the process.
//! - `PERILUNE_LINEAR_REDUCE=seed` writes down the smallest function that is wrong as that one is.

mod broken;
mod make;
mod operations;
mod outside;
mod plan;
mod random;
mod reduce;

use crate::backend::clif::{Function, FunctionBuilder, InstructionData, Opcode, Type, types};
use crate::backend::{Backend, Generator, Options};
use crate::memory::tests::free_at_once;
use crate::memory::{Code, CodeMemory, Kind as Of};
use make::Given;
use outside::{KEPT, Left, Memory, leave, run};
use random::{Kind, Random};
use reduce::Ended;
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Both generators, and where functions are run.
struct Bench {
    backends: [Backend; 2],
    code: Arc<CodeMemory>,
    memory: Memory,
    /// How many functions were compiled.
    compiled: u32,
    /// Of these, those that our generator left to the other one.
    unknown: u32,
    /// What was in them.
    seen: HashSet<(Opcode, Type)>,
}

const OURS: usize = 0;
const THEIRS: usize = 1;

/// What a function is given.
struct Input {
    words: [u64; 6],
    floats: [u64; 8],
    /// What memory is filled with: a seed.
    filled: u64,
}

/// What a function did.
#[derive(PartialEq)]
struct Done {
    left: Left,
    memory: Vec<u64>,
}

/// What the function of this seed is given, each time that it is run.
fn inputs(seed: u64) -> Vec<Input> {
    let mut random = Random::new(seed ^ 0x5555);
    let input = |_| Input {
        words: [(); 6].map(|()| random.integer() as u64),
        floats: [(); 8].map(|()| random.float().to_bits()),
        filled: random.next(),
    };
    (0..6).map(input).collect()
}

fn given(seed: u64) -> Given {
    Given::new(&mut Random::new(seed))
}

impl Bench {
    fn new() -> Bench {
        let backend = |generator| {
            let backend = Backend::new(Options { generator, ..Options::default() });
            let mut backend = backend.expect("the processor has all we need");
            backend.leave_by(leave);
            backend
        };
        Bench {
            backends: [Generator::Linear, Generator::Cranelift].map(backend),
            code: CodeMemory::reserve(1 << 20).expect("there is room"),
            memory: Memory::new(),
            compiled: 0,
            unknown: 0,
            seen: HashSet::new(),
        }
    }

    /// Compiles a function with one of the generators. `Err` says why it did not.
    fn compile(
        &mut self,
        by: usize,
        seed: u64,
        make: impl FnOnce(&mut FunctionBuilder<'_>),
    ) -> Result<Code, String> {
        let backend = &mut self.backends[by];
        let compiled = catch_unwind(AssertUnwindSafe(|| backend.compile(given(seed).signature(), make)));
        let compiled = compiled.map_err(|_| "it panics".to_owned())?.map_err(|error| error.to_string())?;
        // The code has the address.
        compiled.departures.map(Box::leak);
        Ok(self.code.install(&compiled.bytes, Of::Function).expect("there is room"))
    }

    /// Compiles the function of this seed in both ways, and runs it. `Err` says what is wrong.
    fn try_seed(&mut self, seed: u64) -> Result<(), String> {
        let (given, address) = (given(seed), self.memory.address());
        let mut seen = HashSet::new();
        let ours = self.compile(OURS, seed, |b| {
            make::make(b, &given, Random::new(!seed), address);
            seen = operations_of(b.func);
        })?;
        let theirs = self.compile(THEIRS, seed, |b| make::make(b, &given, Random::new(!seed), address))?;
        self.compiled += 1;
        self.unknown += (ours.bytes() == theirs.bytes()) as u32;
        self.seen.extend(seen);
        let mut result = Ok(());
        for input in inputs(seed) {
            let done = [&theirs, &ours].map(|code| self.run(code, &input, &given));
            if done[0] != done[1] {
                result = Err(difference(&input, &done[1], &done[0]));
                break;
            }
        }
        [ours, theirs].into_iter().for_each(free_at_once);
        result
    }

    fn run(&mut self, code: &Code, input: &Input, given: &Given) -> Done {
        self.memory.fill(&mut Random::new(input.filled));
        let mut words = input.words;
        words[0] = self.memory.address();
        let mut left = run(code.address(), &words, &input.floats, given.jumps());
        // What is not said of results is anything.
        let (mut words, mut floats) = (left.words.iter_mut(), left.floats.iter_mut());
        for kind in &given.results {
            match kind {
                Kind::F64 => drop(floats.next()),
                kind => *words.next().expect("two words") &= u64::MAX >> (64 - 8 * kind.bytes()),
            }
        }
        words.chain(floats).for_each(|rest| *rest = 0);
        Done { left, memory: self.memory.words().to_vec() }
    }

    /// The function of this seed.
    fn function(&mut self, seed: u64) -> Function {
        let (given, address, mut function) = (given(seed), self.memory.address(), None);
        let compiled = self.compile(THEIRS, seed, |b| {
            make::make(b, &given, Random::new(!seed), address);
            function = Some(b.func.clone());
        });
        compiled.into_iter().for_each(free_at_once);
        function.expect("it has been made")
    }

    /// How a function ends that is in place of the one of this seed.
    fn ended(&mut self, seed: u64, function: &Function) -> Ended {
        reduce::apart(|ours_begins| {
            // A child installs no code where its parent does.
            self.code = CodeMemory::reserve(1 << 20).expect("there is room");
            let mut all = Vec::new();
            for by in [THEIRS, OURS] {
                if by == OURS {
                    ours_begins();
                }
                let code = match self.compile(by, seed, |b| *b.func = function.clone()) {
                    Ok(code) => code,
                    Err(error) if by == OURS && error == "it panics" => return Ended::Panicking,
                    Err(_) => return Ended::Well,
                };
                all.push(
                    inputs(seed).iter().map(|input| self.run(&code, input, &given(seed))).collect::<Vec<_>>(),
                );
                free_at_once(code);
            }
            if all[0] == all[1] { Ended::Well } else { Ended::Differently }
        })
    }
}

/// How two runs differ.
fn difference(input: &Input, ours: &Done, theirs: &Done) -> String {
    let mut text = format!("words {:x?}, floats {:x?}\n", &input.words[1..], input.floats);
    if ours.left != theirs.left {
        text += &format!("  ours   {:x?}\n  theirs {:x?}\n", ours.left, theirs.left);
    }
    if ours.left.kept != KEPT {
        text += "  registers are not as they were\n";
    }
    for (n, (a, b)) in ours.memory.iter().zip(&theirs.memory).enumerate().filter(|(_, (a, b))| a != b) {
        text += &format!("  word {n}: ours {a:#x}, theirs {b:#x}\n");
    }
    text
}

/// What a function does, and with what.
fn operations_of(function: &Function) -> HashSet<(Opcode, Type)> {
    let insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
    let operation = |inst| {
        let dfg = &function.dfg;
        let (args, results) = (dfg.inst_args(inst), dfg.inst_results(inst));
        let value = match dfg.insts[inst] {
            InstructionData::Load { .. } => results.first(),
            InstructionData::Ternary { .. } => args.last(),
            _ => args.first().or(results.first()),
        };
        (dfg.insts[inst].opcode(), value.map_or(types::INVALID, |&value| dfg.value_type(value)))
    };
    insts.map(operation).collect()
}

/// All that our generator knows, as [`operations_of`] says it.
fn known() -> impl Iterator<Item = (Opcode, Type)> {
    use Opcode::*;
    use types::{F64, I8, I16, I32, I64};
    let all: [(&[Opcode], &[Type]); 10] = [
        (&[Iconst, Iadd, Isub, Band, Bor, Bxor, Bnot, Ineg, Icmp, Brif], &[I8, I16, I32, I64]),
        (&[Load, Store, Select], &[I8, I16, I32, I64, F64]),
        (&[Imul, Ishl, Ushr, Sshr, Udiv, Urem, Sdiv, Srem, FcvtFromSint], &[I32, I64]),
        (&[Uextend, Sextend], &[I8, I16, I32]),
        (&[Ireduce, Istore8], &[I16, I32, I64]),
        (&[F64const, Fcmp, Fadd, Fsub, Fmul, Fdiv, Fneg, Fabs, Sqrt, Floor, Ceil, Trunc], &[F64]),
        (&[FcvtToSintSat], &[F64]),
        (&[Bitcast], &[I64, F64]),
        (&[Umulhi, StackAddr, GetStackPointer, CallIndirect, ReturnCallIndirect], &[I64]),
        (&[Jump, Trap], &[types::INVALID]),
    ];
    all.into_iter().flat_map(|(opcodes, types)| {
        opcodes.iter().flat_map(move |&opcode| types.iter().map(move |&ty| (opcode, ty)))
    })
}

/// Seeds to try, and whether they are those that are asked for.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(asked) = std::env::var("PERILUNE_LINEAR_SEEDS") else { return (0..1500, false) };
    let seeds = asked.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    (seeds.expect("PERILUNE_LINEAR_SEEDS is from..to"), true)
}

#[test]
fn random_functions_do_what_cranelift_makes_them_do() {
    let (seeds, is_asked) = seeds();
    let (mut bench, mut failed) = (Bench::new(), 0);
    if is_asked && seeds.end - seeds.start == 1 {
        eprintln!("{}", bench.function(seeds.start).display());
    }
    for seed in seeds {
        if is_asked {
            // One that stops the process is the last that is told.
            eprint!("{seed} \r");
        }
        if let Err(what) = bench.try_seed(seed) {
            failed += 1;
            eprintln!("seed {seed}: {what}\n{}", bench.function(seed).display());
            assert!(failed < 10, "more functions do something else than can be looked at");
        }
    }
    assert_eq!(failed, 0, "functions do something else");
    assert!(bench.unknown * 100 <= bench.compiled, "{} of {} are not known", bench.unknown, bench.compiled);
    let missing: Vec<_> = known().filter(|operation| !bench.seen.contains(operation)).collect();
    assert!(is_asked || missing.is_empty(), "nothing has {missing:?}");
}

#[test]
fn what_is_wrong_is_written_down_when_asked_for() {
    let Ok(seed) = std::env::var("PERILUNE_LINEAR_REDUCE") else { return };
    let seed = seed.parse().expect("PERILUNE_LINEAR_REDUCE is a seed");
    std::panic::set_hook(Box::new(|_| {}));
    let mut bench = Bench::new();
    let function = bench.function(seed);
    let first = bench.ended(seed, &function);
    let bench = RefCell::new(bench);
    let is_wrong = |function: &Function| bench.borrow_mut().ended(seed, function) == first;
    if first != Ended::Well {
        let function = reduce::reduce(function, &is_wrong);
        eprintln!("seed {seed} ends {first:?}\n{}", function.display());
    }
}
