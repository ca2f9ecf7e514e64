//! Random functions, compiled by our generator and by Cranelift: both do the same.
//!
//! `PERILUNE_LINEAR_SEEDS=from..to` runs those of other seeds than a few. One that fails is written down with
//! its seed; one that is asked for alone is written down before it is run, which may stop the process.

mod make;
mod outside;
mod plan;
mod random;

use crate::backend::clif::FunctionBuilder;
use crate::backend::{Backend, Generator, Options};
use crate::memory::tests::free_at_once;
use crate::memory::{CodeMemory, Kind as Of};
use make::Given;
use outside::{KEPT, Left, Memory, run};
use random::{Kind, Random};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Both generators, and where functions are run.
struct Bench {
    backends: [Backend; 2],
    code: Arc<CodeMemory>,
    memory: Memory,
    /// How many functions were compiled, and how many of them our generator did not know.
    compiled: [u32; 2],
}

/// What a function did.
#[derive(PartialEq)]
struct Done {
    left: Left,
    memory: Vec<u64>,
}

impl Bench {
    fn new() -> Bench {
        let backend = |generator| {
            Backend::new(Options { generator, ..Options::default() }).expect("the processor has all we need")
        };
        Bench {
            backends: [Generator::Linear, Generator::Cranelift].map(backend),
            code: CodeMemory::reserve(1 << 20).expect("there is room"),
            memory: Memory::new(),
            compiled: [0; 2],
        }
    }

    /// Compiles the function of this seed in both ways, and runs it. `Err` says what is wrong.
    fn try_seed(&mut self, seed: u64) -> Result<(), String> {
        let given = Given::new(&mut Random::new(seed));
        let address = self.memory.address();
        let (mut codes, mut bytes) = (Vec::new(), Vec::new());
        for backend in &mut self.backends {
            let make = |b: &mut FunctionBuilder<'_>| make::make(b, &given, Random::new(!seed), address);
            let compiled = catch_unwind(AssertUnwindSafe(|| backend.compile(given.signature(), make)));
            let compiled = compiled.map_err(|_| "it panics".to_owned())?.map_err(|e| e.to_string())?;
            bytes.push(compiled.bytes);
            codes.push(self.code.install(&bytes[bytes.len() - 1], Of::Function).expect("there is room"));
        }
        self.compiled[0] += 1;
        self.compiled[1] += (bytes[0] == bytes[1]) as u32;
        let mut inputs = Random::new(seed ^ 0x5555);
        let mut result = Ok(());
        for _ in 0..6 {
            let words = [(); 6].map(|_| inputs.integer() as u64);
            let floats = [(); 8].map(|_| inputs.float().to_bits());
            let filled = inputs.next();
            let mut done = codes.iter().map(|code| self.run(code.address(), filled, words, floats, &given));
            let [ours, theirs] = [(); 2].map(|_| done.next().expect("two codes"));
            if ours != theirs {
                let words = [&[self.memory.address()], &words[1..]].concat();
                result = Err(difference(&words, &floats, &ours, &theirs));
                break;
            }
        }
        codes.into_iter().for_each(free_at_once);
        result
    }

    fn run(
        &mut self,
        code: usize,
        filled: u64,
        mut words: [u64; 6],
        floats: [u64; 8],
        given: &Given,
    ) -> Done {
        self.memory.fill(&mut Random::new(filled));
        words[0] = self.memory.address();
        let mut left = run(code, &words, &floats);
        // What is not said of results is anything.
        let (mut words, mut floats) = (left.words.iter_mut(), left.floats.iter_mut());
        for kind in &given.results {
            match kind {
                Kind::F64 => drop(floats.next()),
                kind => {
                    let word = words.next().expect("two words");
                    *word &= u64::MAX >> (64 - 8 * kind.bytes());
                }
            }
        }
        words.chain(floats).for_each(|rest| *rest = 0);
        Done { left, memory: self.memory.words().to_vec() }
    }

    /// The function of this seed, as text.
    fn text(&mut self, seed: u64) -> String {
        let given = Given::new(&mut Random::new(seed));
        let (address, mut text) = (self.memory.address(), String::new());
        let make = |b: &mut FunctionBuilder<'_>| {
            make::make(b, &given, Random::new(!seed), address);
            text = b.func.display().to_string();
        };
        drop(catch_unwind(AssertUnwindSafe(|| self.backends[1].compile(given.signature(), make))));
        text
    }
}

/// How two runs differ.
fn difference(words: &[u64], floats: &[u64], ours: &Done, theirs: &Done) -> String {
    let mut text = format!("words {words:x?}, floats {floats:x?}\n");
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

/// Seeds to try: some, or those that are asked for.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(asked) = std::env::var("PERILUNE_LINEAR_SEEDS") else { return (0..600, false) };
    let seeds = asked.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    (seeds.expect("PERILUNE_LINEAR_SEEDS is from..to"), true)
}

#[test]
fn random_functions_do_what_cranelift_makes_them_do() {
    let (seeds, is_long) = seeds();
    let (mut bench, mut failed) = (Bench::new(), 0);
    if is_long && seeds.end - seeds.start == 1 {
        eprintln!("{}", bench.text(seeds.start));
    }
    for seed in seeds {
        if is_long {
            // A function that stops the process is the last one that is told.
            eprint!("\r{seed} ");
        }
        if let Err(what) = bench.try_seed(seed) {
            failed += 1;
            eprintln!("seed {seed}: {what}\n{}", bench.text(seed));
        }
        assert!(failed < 10, "no more");
    }
    assert_eq!(failed, 0, "functions do something else");
    let [all, not_ours] = bench.compiled;
    assert!(not_ours * 10 < all, "{not_ours} of {all} functions are not known to our generator");
}
