//! A short run of every target: they work, and find nothing. The long runs are `cargo xtask fuzz`'s.

use perilune_fuzzer::calls::{Calls, Kind};
use perilune_fuzzer::guard::Guard;
use perilune_fuzzer::limits::{Limits, programs};
use perilune_fuzzer::numeral::Numeral;
use perilune_fuzzer::parse::Parse;
use perilune_fuzzer::runner::{Options, Tally, Target, run};
use perilune_fuzzer::sandbox::Outcome;
use perilune_fuzzer::trace::Trace;
use perilune_fuzzer::undump::Undump;
use perilune_fuzzer::{corpus, program, rng::Rng, sandbox};
use perilune_heap::HeapOptions;
use perilune_vm::LoadMode;
use std::time::Duration;

fn clean(target: &mut dyn Target, cases: u64) -> Tally {
    let options = Options {
        cases,
        time: None,
        seed: 20,
        first: 0,
        corpus: Vec::new(),
        artifacts: None,
        perilune: "perilune".into(),
        reference: None,
        progress: None,
        max_failures: 3,
    };
    let tally = run(target, &options).expect("the guard needs no files");
    assert_eq!((tally.cases, tally.failures), (cases, 0), "{}", target.name());
    // Neither everything nor nothing gets through, or the target tests little.
    assert!(tally.accepted > cases / 20 && tally.accepted < cases, "{}: {tally:?}", target.name());
    tally
}

#[test]
fn sources() {
    clean(&mut Parse::new(&corpus::default_folders()), 3000);
}

#[test]
fn binary_chunks() {
    clean(&mut Undump::new(&[]), 1500);
}

#[test]
fn recordings() {
    // One of three hundred is refused.
    clean(&mut Trace, 3000);
}

#[test]
fn string_library() {
    for kind in [Kind::Pattern, Kind::Format, Kind::Pack] {
        clean(&mut Calls::new(kind, None), 4000);
    }
}

#[test]
fn numerals() {
    clean(&mut Numeral, 20_000);
}

/// Programs run in this process, with a collection at every safepoint and the heap verified after each.
#[test]
fn programs_under_stress() {
    let guard = Guard::new(None, "programs").expect("no files");
    for case in 0..6 {
        let options =
            HeapOptions { stress: case % 2 == 0, verify: true, poison: true, ..HeapOptions::default() };
        let source = program::generate(&mut Rng::new(3, case)).source();
        let mut vm = sandbox::state(options);
        let f = vm.load(source.as_bytes(), b"=program", LoadMode::Text, None).expect("compiles");
        sandbox::call(&guard, &mut vm, f, Duration::from_secs(3));
        vm.verify_heap().expect("sound");
        sandbox::still_works(&guard, &mut vm).expect("works afterwards");
    }
}

/// Every want of `limits`, in one state, each size once.
#[test]
fn limits_end_in_errors() {
    let guard = Guard::new(None, "limits").expect("no files");
    let mut limits = Limits::default();
    let mut errors = 0;
    for (n, source) in programs(250).enumerate() {
        match limits.check(&guard, source.as_bytes()) {
            Ok(Outcome::Error(_)) => errors += 1,
            Ok(Outcome::Results(_)) => {}
            Err(what) => panic!("program {n}, {source}: {what}"),
        }
    }
    assert!(errors > 25, "only {errors} of the wants were refused");
}
