//! Programs that judge themselves: they print "ok" and nothing else, or something is wrong.
//!
//! They run as processes of the command, so that a crash, a hang, and a program that ends before its end are
//! outcomes like others. The first line of an input says with which variables it runs.
//!
//! | target | programs | what must hold |
//! |---|---|---|
//! | `dropped` | coroutines in the middle of natives, with closing variables, that are dropped, closed, collected | nothing of them runs afterwards, everything else does |
//! | `keys` | every native with random arguments, called in many ways | its results are found as keys of tables |
//! | `domains` | `tests/parallel/stress/random.lua`, under limits of memory or with collections everywhere | it comes to its end; what fails says "not enough memory" |

mod dropped;

use crate::differential::{self, scratch};
use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processor time for a program.
const TIME: Duration = Duration::from_secs(120);
/// What the line of an input starts with that says with which variables it runs.
pub(crate) const WITH: &str = "-- with:";

/// Which programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Coroutines that are dropped.
    Dropped,
    /// Results as keys.
    Keys,
    /// Many domains.
    Domains,
}

/// The target.
pub struct Scripts {
    kind: Kind,
    perilune: PathBuf,
    scratch: PathBuf,
}

impl Scripts {
    /// With the command to run.
    ///
    /// # Errors
    /// There is no folder for scratch files.
    pub fn new(kind: Kind, perilune: &Path) -> std::io::Result<Scripts> {
        Ok(Scripts { kind, perilune: perilune.into(), scratch: scratch()? })
    }

    fn judge(&self, input: &[u8]) -> Result<End, String> {
        let text = String::from_utf8_lossy(input);
        let variables = variables(&text);
        let output = differential::run(&self.perilune, &self.scratch, input, &variables, TIME)?;
        let said = String::from_utf8_lossy(&output.out);
        match output.end {
            Err(end) => Err(format!("ends by {end}: {said}{}", output.errors)),
            Ok(0) if said == "ok\n" => Ok(End::Accepted),
            Ok(code) => Err(format!("ends with {code}, and says: {said}{}", output.errors)),
        }
    }
}

/// The variables that a line of the input names.
pub(crate) fn variables(input: &str) -> Vec<(&str, &str)> {
    let line = input.lines().find_map(|line| line.strip_prefix(WITH)).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.split_once('=')).collect()
}

/// Collections at every safepoint, with the heap verified, poisoned.
const STRESS: &str = " PERILUNE_GC_STRESS=1 PERILUNE_GC_VERIFY=1 PERILUNE_GC_POISON=1";

/// A program of this kind.
pub fn program(kind: Kind, rng: &mut Rng) -> String {
    match kind {
        Kind::Dropped => {
            let stress = if rng.one_in(4) { STRESS } else { " PERILUNE_GC_POISON=1" };
            format!("{WITH}{stress}\n{}", dropped::program(rng))
        }
        Kind::Keys => {
            let (stress, rounds) = if rng.one_in(4) { (STRESS, 100) } else { ("", 3000) };
            let seed = rng.below(1 << 30);
            format!("{WITH}{stress}\nlocal seed, rounds = {seed}, {rounds}\n{}", include_str!("keys.lua"))
        }
        Kind::Domains => {
            let seed = rng.below(1 << 30);
            let (variables, rounds) = match rng.below(6) {
                0 => (STRESS.to_string(), 2),
                1 => (String::new(), 60),
                2 => (" PERILUNE_CHECK=races".to_string(), 30),
                _ => (format!(" PERILUNE_MEMORY={}K", rng.range(4 << 10, 40 << 10)), 60),
            };
            let script = include_str!("../../../../tests/parallel/stress/random.lua");
            format!("{WITH}{variables}\narg = {{ 'rounds={rounds}', '{seed}' }}\n{script}")
        }
    }
}

impl Target for Scripts {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Dropped => "dropped",
            Kind::Keys => "keys",
            Kind::Domains => "domains",
        }
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        program(self.kind, rng).into_bytes()
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        guard.waiting(|| self.judge(input))
    }

    fn shrink(&mut self, guard: &Guard, input: &[u8]) -> Option<Vec<u8>> {
        if self.kind != Kind::Dropped {
            return None;
        }
        // The statements of the main program are lines of their own, which can be left out one by one.
        let mut lines: Vec<String> = String::from_utf8_lossy(input).lines().map(String::from).collect();
        let first = lines.iter().position(|line| line == dropped::BEGIN)? + 1;
        let mut at = lines.len().saturating_sub(1);
        while at > first {
            at -= 1;
            let mut fewer = lines.clone();
            fewer.remove(at);
            let source = fewer.join("\n") + "\n";
            let fails = guard.waiting(|| self.judge(source.as_bytes()));
            if fails.is_err_and(|what| !what.contains("syntax") && !what.contains("expected")) {
                lines = fewer;
            }
        }
        Some((lines.join("\n") + "\n").into_bytes())
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_syntax::compile;

    #[test]
    fn programs_compile() {
        for kind in [Kind::Dropped, Kind::Keys, Kind::Domains] {
            for case in 0..50 {
                let source = program(kind, &mut Rng::new(5, case));
                if let Err(e) = compile(source.as_bytes(), b"=program") {
                    panic!("{kind:?}, case {case}: {e:?}\n{source}");
                }
            }
        }
    }
}
