//! `cargo xtask dispatch`: no handler of the interpreter calls the next one.
//!
//! A handler ends in a jump through the dispatch table. The language does not promise that a call in tail
//! position becomes a jump, and a local whose address escapes quietly makes it a call: everything still works
//! until a long loop has used up the native stack. So the disassembly of an optimised build is searched for
//! calls through a table of eight-byte entries inside the interpreter, be it directly or by a register that
//! was loaded from one.

use crate::chore::{self, Error, Outcome};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Listing line.
pub const SUMMARY: &str =
    "whether every handler of the interpreter jumps to the next (reads a build's disassembly by objdump)";
/// Arguments.
pub const USAGE: &str = "[BINARY]";

/// Runs the chore on `BINARY`, else on the newest optimised build there is.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let bin = match args.as_slice() {
        [] => newest_build().ok_or("no optimised build: run `cargo build --release` first")?,
        [bin] => PathBuf::from(bin),
        _ => return Err("one binary at most".into()),
    };
    let Some(objdump) = perilune_measure::on_path("objdump") else {
        println!("dispatch: skipped, there is no objdump");
        return Ok(Outcome::Passed);
    };
    let out = Command::new(objdump).args(["-d", "--no-show-raw-insn", "-C"]).arg(&bin).output()?;
    if !out.status.success() {
        return Err(format!("objdump: {}", String::from_utf8_lossy(&out.stderr)).into());
    }
    let found = inspect(&String::from_utf8_lossy(&out.stdout));
    if found.handlers == 0 {
        return Err(format!("{}: no handlers found; has it been stripped?", bin.display()).into());
    }
    for call in &found.calls {
        println!("{call}");
    }
    println!("dispatch: {} handlers, {} calls", found.handlers, found.calls.len());
    Ok(Outcome::from_ok(found.calls.is_empty()))
}

fn newest_build() -> Option<PathBuf> {
    let name = format!("perilune{}", std::env::consts::EXE_SUFFIX);
    let built = |profile: &str| {
        let bin = chore::target_dir().join(profile).join(&name);
        let time = bin.metadata().and_then(|m| m.modified()).ok()?;
        Some((time, bin))
    };
    ["release", "fast"].into_iter().filter_map(built).max().map(|(_, bin)| bin)
}

/// What a disassembly says.
#[derive(Default)]
struct Found {
    /// Functions of the interpreter that are named as handlers are.
    handlers: usize,
    /// Lines with a call through the dispatch table, each with its function.
    calls: Vec<String>,
}

fn inspect(disassembly: &str) -> Found {
    let mut found = Found::default();
    let mut function = None;
    // The register that an entry of a table was last loaded into.
    let mut entry = None;
    for line in disassembly.lines() {
        if line.ends_with(">:") {
            let name = line.split_once('<').map_or("", |(_, rest)| rest.trim_end_matches(">:"));
            entry = None;
            function = name.contains("::interp::").then_some(name);
            if name.contains("::op_") && function.is_some() {
                found.handlers += 1;
            }
            continue;
        }
        let Some(name) = function else { continue };
        let mut words = line.split_whitespace().skip_while(|word| word.ends_with(':'));
        let operation = words.next().unwrap_or("");
        let operand = words.next().unwrap_or("");
        if matches!(operation, "call" | "callq")
            && let Some(target) = operand.strip_prefix('*')
            && (target.ends_with(",8)") || Some(target) == entry)
        {
            found.calls.push(format!("{name}: {}", line.trim()));
        }
        if operation.starts_with("mov") {
            match operand.rsplit_once(',') {
                Some((source, to)) if source.ends_with(",8)") => entry = Some(to),
                Some((_, to)) if Some(to) == entry => entry = None,
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_calls_through_the_table_from_jumps_and_other_calls() {
        let good = "0010 <vm::interp::moves::op_move>:\n 10:\tjmp    *(%r9,%rax,8)\n 18:\tcall   20 <vm::f>\n\
                    0030 <vm::other::f>:\n 30:\tcall   *(%r9,%rax,8)\n";
        let found = inspect(good);
        assert_eq!((found.handlers, found.calls.len()), (1, 0));
        let bad = "0010 <vm::interp::moves::op_move>:\n 10:\tcall   *(%r9,%rax,8)\n";
        assert_eq!(inspect(bad).calls, ["vm::interp::moves::op_move: 10:\tcall   *(%r9,%rax,8)"]);
        let loaded =
            "0010 <vm::interp::moves::op_move>:\n 10:\tmov    (%r9,%rax,8),%rax\n 18:\tcall   *%rax\n";
        assert_eq!(inspect(loaded).calls.len(), 1);
        let native = "0010 <vm::interp::calls::op_call>:\n 10:\tmov    (%r9,%rax,8),%rcx\n 14:\tmov    \
            0x10(%rax),%rcx\n 18:\tcall   *%rcx\n";
        assert_eq!(inspect(native).calls.len(), 0);
    }
}
