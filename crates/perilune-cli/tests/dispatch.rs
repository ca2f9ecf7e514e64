//! Are the interpreter's dispatches jumps? Read from the built command's disassembly.
//!
//! A handler ends in a call of the next one in tail position, which the language does not promise to turn
//! into a jump. If one were a real call, every instruction that it runs would cost native stack, and a long
//! loop would overflow it. Such a call is recognised by what it goes through: a handler's address is loaded
//! from the dispatch table, by an index times eight; a slow path is called by its name.
//!
//! Needs `objdump`; without it the test says so and checks nothing.

use perilune_test::{Limited, text};
use std::collections::BTreeSet;
use std::process::Command;

/// A function of the disassembly: its name, and its instructions as text.
type Function<'a> = (&'a str, Vec<&'a str>);

fn functions(listing: &str) -> Vec<Function<'_>> {
    let mut all: Vec<Function> = Vec::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once('<')) {
            all.push((name.1, Vec::new()));
        } else if let (Some((_, text)), Some(f)) = (line.split_once(":\t"), all.last_mut()) {
            f.1.push(text.trim());
        }
    }
    all
}

/// Does the name belong to a handler (as against other functions of the interpreter's module)?
fn is_handler(name: &str) -> bool {
    let kinds = ["op_", "slow_", "other_", "after_native", "quick_"];
    name.contains("6interp")
        && !name.contains("flow")
        && kinds.iter().any(|k| {
            name.match_indices(k).any(|(at, _)| name.as_bytes()[at.saturating_sub(1)].is_ascii_digit())
        })
}

/// The register that an instruction loads from a table of pointers: `mov (%r9,%rax,8),%rax` gives `%rax`.
fn loaded_from_table(text: &str) -> Option<&str> {
    let (from, to) = text.strip_prefix("mov ")?.trim().rsplit_once(',')?;
    from.ends_with(",8)").then_some(to)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "builds with assertions dispatch in a loop")]
fn every_dispatch_is_a_jump() {
    if Command::new("objdump").arg("--version").output().is_err() {
        eprintln!("objdump is not installed: nothing was checked");
        return;
    }
    let mut objdump = Command::new("objdump");
    objdump.args(["--disassemble", "--no-show-raw-insn", env!("CARGO_BIN_EXE_perilune")]);
    let listing = text(&Limited::run(&mut objdump).stdout);
    let functions = functions(&listing);
    let (mut jumping, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, code) in functions.iter().filter(|f| is_handler(f.0)) {
        for (n, text) in code.iter().enumerate() {
            let words: Vec<&str> = text.split_whitespace().collect();
            let &[what, target, ..] = words.as_slice() else { continue };
            let through_table = target.starts_with('*')
                && (target.ends_with(",8)")
                    || code[n.saturating_sub(6)..n]
                        .iter()
                        .filter_map(|t| loaded_from_table(t))
                        .any(|r| target == format!("*{r}")));
            let by_name = words.get(2).is_some_and(|symbol| is_handler(symbol.trim_matches(['<', '>'])));
            match what {
                "call" | "callq" if through_table || by_name => wrong.push(format!("{name}: {text}")),
                "jmp" | "jmpq" if through_table => drop(jumping.insert(*name)),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "calls where jumps are needed:\n{}", wrong.join("\n"));
    assert!(jumping.len() > 60, "only {} handlers recognised", jumping.len());
}
