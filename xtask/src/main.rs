//! The developer's door: `cargo xtask` lists every chore of the project, `cargo xtask <chore>` runs it.
//!
//! CI calls the same chores as people do, so there is no second description of how the project is
//! tested or measured. Each chore is one module with a `SUMMARY` of one line and a `run` that takes the
//! remaining arguments; this file only finds the chore and prints its error.
//!
//! The chores that measure (`bench`, `micro`, `parallel`) share small modules: [`program`] finds Lua programs
//! and reads their headers, [`peers`] knows which other Lua implementations are there, [`figure`] reads what
//! a program says about itself. What a process costs, and the formulas, are those of [`perilune_measure`],
//! which `perilune bench` uses too.

mod attack;
mod bench;
mod bless;
mod cargo_jobs;
mod chore;
mod diff;
mod dispatch;
mod dist;
mod figure;
mod fuzz;
mod io;
mod layout;
mod lint;
mod micro;
mod modes;
mod parallel;
mod peers;
mod program;
mod reference;
mod report;
mod sanitize;
mod soak;
mod suite;
mod talk;
mod test;
mod watchdog;

use chore::{Chore, Outcome};
use std::process::ExitCode;

/// Every chore: what one types, what it does, where it is.
const CHORES: &[Chore] = &[
    Chore { name: "test", summary: test::SUMMARY, usage: test::USAGE, run: test::run },
    Chore { name: "lint", summary: lint::SUMMARY, usage: lint::USAGE, run: lint::run },
    Chore { name: "bench", summary: bench::SUMMARY, usage: bench::USAGE, run: bench::run },
    Chore { name: "micro", summary: micro::SUMMARY, usage: micro::USAGE, run: micro::run },
    Chore { name: "parallel", summary: parallel::SUMMARY, usage: parallel::USAGE, run: parallel::run },
    Chore { name: "io", summary: io::SUMMARY, usage: io::USAGE, run: io::run },
    Chore { name: "soak", summary: soak::SUMMARY, usage: soak::USAGE, run: soak::run },
    Chore { name: "talk", summary: talk::SUMMARY, usage: talk::USAGE, run: talk::run },
    Chore { name: "reference", summary: reference::SUMMARY, usage: reference::USAGE, run: reference::run },
    Chore { name: "suite", summary: suite::SUMMARY, usage: suite::USAGE, run: suite::run },
    Chore { name: "modes", summary: modes::SUMMARY, usage: modes::USAGE, run: modes::run },
    Chore { name: "dispatch", summary: dispatch::SUMMARY, usage: dispatch::USAGE, run: dispatch::run },
    Chore { name: "layout", summary: layout::SUMMARY, usage: layout::USAGE, run: layout::run },
    Chore { name: "dist", summary: dist::SUMMARY, usage: dist::USAGE, run: dist::run },
    Chore { name: "diff", summary: diff::SUMMARY, usage: diff::USAGE, run: diff::run },
    Chore { name: "bless", summary: bless::SUMMARY, usage: bless::USAGE, run: bless::run },
    Chore { name: "attack", summary: attack::SUMMARY, usage: attack::USAGE, run: attack::run },
    Chore { name: "asan", summary: sanitize::SUMMARY, usage: sanitize::USAGE, run: sanitize::run },
    Chore { name: "fuzz", summary: fuzz::SUMMARY, usage: fuzz::USAGE, run: fuzz::run },
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(name) = args.next() else {
        print!("{}", listing());
        return ExitCode::SUCCESS;
    };
    let name = name.to_string_lossy().into_owned();
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", listing());
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|c| c.name == name) else {
        eprint!("xtask: there is no chore '{name}'\n\n{}", listing());
        return ExitCode::from(2);
    };
    let rest: Vec<_> = args.collect();
    if rest.iter().any(|a| a == "--help" || a == "-h") {
        println!("cargo xtask {} {}\n\n{}", chore.name, chore.usage, chore.summary);
        return ExitCode::SUCCESS;
    }
    match (chore.run)(rest) {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("xtask {}: {e}", chore.name);
            ExitCode::from(2)
        }
    }
}

fn listing() -> String {
    let mut s = String::from("usage: cargo xtask CHORE [OPTIONS]\n\n");
    for c in CHORES {
        s.push_str(&format!("  {:<8} {}\n           {}\n", c.name, c.usage, c.summary));
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chore_is_listed_once_with_its_summary() {
        let text = listing();
        for c in CHORES {
            assert_eq!(text.matches(c.summary).count(), 1, "{}", c.name);
        }
        let names: std::collections::BTreeSet<_> = CHORES.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), CHORES.len());
    }
}
