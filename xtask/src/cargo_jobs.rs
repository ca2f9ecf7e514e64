//! Runs cargo's test command and counts what it reports.
//!
//! cargo prints one `test result:` line per test binary and no total. We pass its output through as it comes
//! and add the lines up. A run that fails without a failed test (it did not compile, a test binary crashed)
//! counts as one failure, so that the total can never look clean when cargo's exit code does not. A test that
//! hangs is ended by the [`watchdog`](crate::watchdog).

use crate::chore::{self, Error};
use crate::watchdog::Watchdog;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
}

impl Tally {
    /// Adds a `test result:` line; any other line changes nothing.
    fn take(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result:") else { return };
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            if let (Some(n), Some(what)) = (words.next().and_then(|n| n.parse::<u64>().ok()), words.next()) {
                match what {
                    "passed" => self.passed += n,
                    "failed" => self.failed += n,
                    _ => {}
                }
            }
        }
    }
}

/// Runs `cargo test ARGS`, passes its output through, and returns the sum of its test results.
pub fn test(args: &[&str]) -> Result<Tally, Error> {
    // Building is silent and may take long, so it is done first, and the watchdog hears tests alone.
    if !chore::cargo()
        .arg("test")
        .args(args)
        .arg("--no-run")
        .status()
        .map_err(|e| format!("cargo: {e}"))?
        .success()
    {
        return Ok(Tally { passed: 0, failed: 1 });
    }
    let watchdog = Watchdog::new();
    let mut child = chore::cargo()
        .arg("test")
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo: {e}"))?;
    let mut tally = Tally::default();
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        watchdog.hear();
        tally.take(&line);
    }
    if !child.wait()?.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_result_lines_only() {
        let mut t = Tally::default();
        t.take("running 7 tests");
        t.take(
            "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished in 0.01s",
        );
        t.take(
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in \
             1.50s",
        );
        assert_eq!(t, Tally { passed: 8, failed: 1 });
    }
}
