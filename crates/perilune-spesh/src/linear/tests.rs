//! Random functions: the code that is made of one does what the form says.
//!
//! A function is known by its seed. An interpreter of the form runs it, and so does the processor; results, the
//! memory that it works on, and the registers that it has to leave alone are compared for some inputs. Of floats
//! all bits are: the sign of what is no number is printed.
//!
//! - `PERILUNE_LINEAR_SEEDS=from..to` tries other seeds. One that fails is written down; one that is asked for
//!   alone is written down before it is run, which may stop the process.
//! - `PERILUNE_LINEAR_REDUCE=seed` writes down the smallest function that is wrong as that one is.

mod broken;
pub(crate) mod interpret;
mod make;
mod operations;
mod outside;
mod plan;
mod random;
mod reduce;

use crate::backend::{Backend, Options};
use crate::memory::tests::free_at_once;
use crate::memory::{Code, CodeMemory, Kind as Of};
use crate::ssa::{Builder, Data, Def, Function, Opcode, Type, Value, Variables};
use interpret::interpret;
use make::Given;
use outside::{KEPT, Left, Memory, leave, run};
use random::{Kind, Random};
use reduce::Ended;
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The generator, and where functions are run.
struct Bench {
    backend: Backend,
    code: Arc<CodeMemory>,
    memory: Memory,
    /// What was in the functions.
    seen: HashSet<(What, Option<Type>)>,
}

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
        let backend = Backend::new(Options::default());
        let mut backend = backend.expect("the processor has all we need");
        backend.leave_by(leave);
        Bench {
            backend,
            code: CodeMemory::reserve(1 << 20).expect("there is room"),
            memory: Memory::new(),
            seen: HashSet::new(),
        }
    }

    /// The function of this seed.
    fn function(&self, seed: u64) -> Function {
        let (mut function, given) = (Function::default(), given(seed));
        let mut variables = Variables::default();
        let mut builder = Builder::new(&mut function, &mut variables, given.signature());
        make::make(&mut builder, &given, Random::new(!seed), self.memory.address());
        function
    }

    /// Compiles a function in place of the one of this seed. `Err` says why it is not.
    fn compile(&mut self, seed: u64, function: &Function) -> Result<Code, String> {
        let backend = &mut self.backend;
        let compile = || backend.compile(given(seed).signature(), |b| *b.func = function.clone());
        let compiled = catch_unwind(AssertUnwindSafe(compile));
        let compiled = compiled.map_err(|_| "it panics".to_owned())?.map_err(|error| error.to_string())?;
        // The code has the address.
        compiled.departures.map(Box::leak);
        Ok(self.code.install(&compiled.bytes, Of::Function).expect("there is room"))
    }

    /// Compiles the function of this seed, and compares what is done. `Err` says what is wrong.
    fn try_seed(&mut self, seed: u64) -> Result<(), String> {
        let (given, function) = (given(seed), self.function(seed));
        function.verify().map_err(|error| error.to_string())?;
        let code = self.compile(seed, &function)?;
        self.seen.extend(operations_of(&function));
        let mut result = Ok(());
        for input in inputs(seed) {
            let said = self.interpret(&function, &input, &given)?;
            let done = self.run(&code, &input, &given);
            if done != said {
                result = Err(difference(&input, &done, &said));
                break;
            }
        }
        free_at_once(code);
        result
    }

    /// What the code does.
    fn run(&mut self, code: &Code, input: &Input, given: &Given) -> Done {
        let words = self.begin(input);
        let left = run(code.address(), &words, &input.floats, given.jumps());
        self.done(left, given)
    }

    /// What the form says. `Err` says that it makes no sense.
    fn interpret(&mut self, function: &Function, input: &Input, given: &Given) -> Result<Done, String> {
        let words = self.begin(input);
        let left = interpret(function, &words, &input.floats)?;
        Ok(self.done(left, given))
    }

    /// Fills memory; what the function is given.
    fn begin(&mut self, input: &Input) -> [u64; 6] {
        self.memory.fill(&mut Random::new(input.filled));
        let mut words = input.words;
        words[0] = self.memory.address();
        words
    }

    fn done(&self, mut left: Left, given: &Given) -> Done {
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

    /// How a function ends that is in place of the one of this seed.
    fn ended(&mut self, seed: u64, function: &Function) -> Ended {
        reduce::apart(|ours_begins| {
            // A child installs no code where its parent does.
            self.code = CodeMemory::reserve(1 << 20).expect("there is room");
            if function.verify().is_err() {
                return Ended::Well;
            }
            let mut said = Vec::new();
            for input in inputs(seed) {
                match self.interpret(function, &input, &given(seed)) {
                    Ok(done) => said.push(done),
                    Err(_) => return Ended::Well,
                }
            }
            ours_begins();
            let code = match self.compile(seed, function) {
                Ok(code) => code,
                Err(error) if error == "it panics" => return Ended::Panicking,
                Err(_) => return Ended::Well,
            };
            let is_same = |(input, said): (&Input, &Done)| self.run(&code, input, &given(seed)) == *said;
            match inputs(seed).iter().zip(&said).all(is_same) {
                true => Ended::Well,
                false => Ended::Differently,
            }
        })
    }
}

/// How two runs differ.
fn difference(input: &Input, done: &Done, said: &Done) -> String {
    let mut text = format!("words {:x?}, floats {:x?}\n", &input.words[1..], input.floats);
    if done.left != said.left {
        text += &format!("  done {:x?}\n  said {:x?}\n", done.left, said.left);
    }
    if done.left.kept != KEPT {
        text += "  registers are not as they were\n";
    }
    for (n, (a, b)) in done.memory.iter().zip(&said.memory).enumerate().filter(|(_, (a, b))| a != b) {
        text += &format!("  word {n}: done {a:#x}, said {b:#x}\n");
    }
    text
}

/// What is done with values, or what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Does(Opcode),
    Integer,
    Float,
    StackAddress,
    StackPointer,
}

/// What a function does, and with what; and the values that it uses of those which are made by nobody.
fn operations_of(function: &Function) -> HashSet<(What, Option<Type>)> {
    let mut all = HashSet::new();
    let mut uses = |value: Value| {
        let what = match function.def(value) {
            Def::Integer(_) => What::Integer,
            Def::Float(_) => What::Float,
            Def::Stack(..) => What::StackAddress,
            Def::StackPointer => What::StackPointer,
            Def::Inst(_) | Def::Param(_) | Def::Same(_) => return,
        };
        all.insert((what, Some(function.ty(value))));
    };
    let insts = || function.blocks().iter().flat_map(|&block| function.block_insts(block));
    for inst in insts() {
        function.args(function.data(inst)).iter().copied().for_each(&mut uses);
        function.edges(inst).iter().for_each(|&way| function.passed(way).for_each(&mut uses));
    }
    all.extend(insts().map(|inst| {
        let data = function.data(inst);
        let args = function.args(data);
        let value = match data {
            Data::Load { .. } => function.result(inst),
            Data::Select { .. } => args.last().copied(),
            _ => args.first().copied().or(function.result(inst)),
        };
        (What::Does(data.opcode()), value.map(|value| function.ty(value)))
    }));
    all
}

/// All that our generator knows, as [`operations_of`] says it.
fn known() -> impl Iterator<Item = (What, Option<Type>)> {
    use Opcode::*;
    use Type::{F64, I8, I16, I32, I64};
    let done: [(&[Opcode], &[Type]); 10] = [
        (&[Iadd, Isub, Band, Bor, Bxor, Bnot, Ineg, Icmp, Brif], &[I8, I16, I32, I64]),
        (&[Load, Store, Select, Return], &[I8, I16, I32, I64, F64]),
        (&[Imul, Ishl, Ushr, Sshr, Udiv, Urem, FcvtFromSint], &[I32, I64]),
        (&[Uextend, Sextend], &[I8, I16, I32]),
        (&[Ireduce], &[I16, I32, I64]),
        (&[Fcmp, Fadd, Fsub, Fmul, Fdiv, Fneg, Fabs, Sqrt, Floor, Ceil], &[F64]),
        (&[FcvtToSint, Fdemote], &[F64]),
        (&[Fpromote], &[I32]),
        (&[Bitcast], &[I64, F64]),
        (&[Umulhi, FloorDiv, FloorMod, CallIndirect, ReturnCallIndirect, Depart], &[I64]),
    ];
    let done = done.into_iter().flat_map(|(opcodes, types)| {
        opcodes.iter().flat_map(move |&opcode| types.iter().map(move |&ty| (What::Does(opcode), Some(ty))))
    });
    let constants = [I8, I16, I32, I64].map(|ty| (What::Integer, Some(ty)));
    let others = [(What::Float, F64), (What::StackAddress, I64), (What::StackPointer, I64)];
    let ends = [Jump, Trap].map(|opcode| (What::Does(opcode), None));
    done.chain(constants).chain(others.map(|(what, ty)| (what, Some(ty)))).chain(ends)
}

/// Seeds to try, and whether they are those that are asked for.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(asked) = std::env::var("PERILUNE_LINEAR_SEEDS") else { return (0..1500, false) };
    let seeds = asked.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    (seeds.expect("PERILUNE_LINEAR_SEEDS is from..to"), true)
}

#[test]
fn random_functions_do_what_the_form_says() {
    let (seeds, is_asked) = seeds();
    let (mut bench, mut failed) = (Bench::new(), 0);
    if is_asked && seeds.end - seeds.start == 1 {
        eprintln!("{}", bench.function(seeds.start));
    }
    for seed in seeds {
        if is_asked {
            // One that stops the process is the last that is told.
            eprint!("{seed} \r");
        }
        if let Err(what) = bench.try_seed(seed) {
            failed += 1;
            eprintln!("seed {seed}: {what}\n{}", bench.function(seed));
            assert!(failed < 10, "more functions do something else than can be looked at");
        }
    }
    assert_eq!(failed, 0, "functions do something else");
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
        eprintln!("seed {seed} ends {first:?}\n{function}");
    }
}
