//! JSONTestSuite, whose files are not part of this project: what is accepted and what is refused is recorded
//! by name in `json_test_suite.txt`.

use perilune_heap::HeapOptions;
use perilune_vm::{LoadMode, Vm};
use std::path::PathBuf;

const SCRIPT: &[u8] = b"local json = require 'perilune.json' return function(text) return \
    (pcall(json.decode, text, {depth = 600})) end";

fn recorded() -> Vec<(bool, &'static str)> {
    let lines = include_str!("json_test_suite.txt").lines();
    lines
        .filter_map(|l| l.strip_prefix("+ ").map(|n| (true, n)).or(l.strip_prefix("- ").map(|n| (false, n))))
        .collect()
}

#[test]
fn the_record_has_what_must_be_accepted_and_refused() {
    let recorded = recorded();
    assert_eq!(recorded.len(), 318);
    for (accepted, name) in recorded {
        assert!(if accepted { !name.starts_with('n') } else { !name.starts_with('y') }, "{name}");
    }
}

#[test]
#[ignore = "needs the suite: PERILUNE_JSON_SUITE=.../test_parsing"]
fn the_suite_is_taken_as_recorded() {
    let folder = PathBuf::from(std::env::var_os("PERILUNE_JSON_SUITE").expect("PERILUNE_JSON_SUITE"));
    let mut vm = Vm::with_options(HeapOptions::default());
    perilune_stdlib::open_libs(&mut vm).expect("memory");
    perilune_data::open(&mut vm).expect("memory");
    let main = vm.load(SCRIPT, b"=suite", LoadMode::Text, None).expect("compiles");
    vm.host_call(main.into(), &[]).expect("runs");
    let decode = vm.stack_get(vm.nargs());
    for (accepted, name) in recorded() {
        let text = std::fs::read(folder.join(format!("{name}.json"))).expect("a file of the suite");
        let text = vm.value_str(&text).expect("memory");
        vm.host_call(decode, &[text]).expect("pcall catches");
        assert_eq!(vm.pop().is_truthy(), accepted, "{name}");
    }
}
