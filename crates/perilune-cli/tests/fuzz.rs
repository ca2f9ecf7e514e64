//! A fixed number of cases of the fuzz targets whose programs judge themselves. `cargo xtask attack` runs the
//! others.

use perilune_fuzzer::runner::{Options, run};
use perilune_fuzzer::script::{Kind, Scripts};

fn clean(kind: Kind, cases: u64) {
    let perilune = std::path::Path::new(env!("CARGO_BIN_EXE_perilune"));
    let options = Options {
        cases,
        time: None,
        seed: 54,
        first: 0,
        corpus: Vec::new(),
        artifacts: None,
        perilune: perilune.into(),
        reference: None,
        progress: None,
        max_failures: 3,
    };
    let mut target = Scripts::new(kind, perilune).expect("a folder for scratch files");
    let tally = run(&mut target, &options).expect("the guard needs no files");
    assert_eq!((tally.cases, tally.failures), (cases, 0), "{kind:?}");
}

#[test]
fn coroutines_that_are_dropped_in_natives_never_run_again() {
    clean(Kind::Dropped, 40);
}

#[test]
fn results_of_natives_are_found_as_keys() {
    clean(Kind::Keys, 12);
}

#[test]
fn programs_of_many_domains_come_to_their_end() {
    clean(Kind::Domains, 6);
}
