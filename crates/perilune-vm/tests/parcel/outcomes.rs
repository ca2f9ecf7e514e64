//! The programs of `tests/parallel/outcomes`, as far as the stand-in can run them: those that neither wait
//! nor use arrays.
//!
//! `PERILUNE_BLESS=1` writes the outputs instead of comparing them; look at the difference before committing
//! it. `PERILUNE_ONLY=name` runs one.

use crate::stand_in::{new_vm, run};
use perilune_vm::{Native, Value};
use std::cell::RefCell;
use std::path::Path;

/// Programs that need what the stand-in has not got: arrays, loops, waiting, workers that have more than one
/// task.
const NOT_HERE: [&str; 7] = ["02-", "05-", "06-", "31-", "32-", "33-", "34-"];

#[test]
fn programs_have_the_outcomes_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel/outcomes");
    // Programs require modules and are named by messages relative to their folder. No other test of this
    // process depends on it.
    std::env::set_current_dir(&folder).expect("the folder of outcomes");
    let bless = std::env::var_os("PERILUNE_BLESS").is_some_and(|v| v == "1");
    let only = std::env::var("PERILUNE_ONLY").ok();
    let mut names: Vec<String> = std::fs::read_dir(".")
        .expect("the folder of outcomes")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|n| n.ends_with(".lua") && only.as_ref().is_none_or(|only| n.contains(only.as_str())))
        .filter(|n| !NOT_HERE.iter().any(|not| n.starts_with(not)))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let mut wrong = Vec::new();
    for name in names {
        let output = output_of(&name);
        let recorded = name.replace(".lua", ".out");
        if bless {
            std::fs::write(&recorded, &output).expect("an output can be written");
        } else if std::fs::read_to_string(&recorded).ok().as_ref() != Some(&output) {
            wrong.push(format!("{name} gives:\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

thread_local! {
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// `print` that can be looked at afterwards.
static PRINT: Native = Native::reentrant("print", |vm| {
    for i in 1..=vm.nargs() {
        let text = vm.tostring(vm.arg(i))?;
        OUTPUT.with_borrow_mut(|o| {
            o.extend_from_slice(if i > 1 { b"\t" } else { b"" });
            o.extend_from_slice(text.bytes());
        });
    }
    OUTPUT.with_borrow_mut(|o| o.push(b'\n'));
    Ok(0)
});

/// What a program prints, with the error that ended it.
fn output_of(name: &str) -> String {
    let mut vm = new_vm();
    vm.set_global("print", Value::native(&PRINT)).expect("memory for a field");
    OUTPUT.with_borrow_mut(Vec::clear);
    let source = std::fs::read_to_string(name).expect("a program");
    let result = run(&mut vm, &source, name);
    let mut output = OUTPUT.with_borrow(|o| String::from_utf8_lossy(o).into_owned());
    if let Err(e) = result {
        output.push_str(&format!("error: {}\n", e.lines().next().unwrap_or_default()));
    }
    output
}
