//! Subcommands that `lua` does not have: one file each, and one line each in [`COMMANDS`].
//!
//! A subcommand gets all words of the command line (the name of the program at 0, its own at 1), since what
//! runs a program may want to hand the rest on as `arg`. It reads its options itself, writes what it found to
//! standard output and what it has to say about that to standard error, and chooses the exit code: 0 for
//! success, 1 if a program failed, 2 if its words make no sense.
//!
//! `options.rs` decides whether a first word is a subcommand at all.

mod bench;
mod gc_stats;
mod heap;
mod latency;
mod loops;
mod observe;
mod prof;
mod table;
mod top;
mod trace;

use std::process::ExitCode;

/// A subcommand.
pub struct Command {
    /// The word that calls it.
    pub name: &'static str,
    /// Carries it out.
    pub run: fn(&[Vec<u8>]) -> ExitCode,
}

/// All of them.
const COMMANDS: &[Command] = &[
    Command { name: "bench", run: bench::run },
    Command { name: "gc-stats", run: gc_stats::run },
    Command { name: "heap", run: heap::run },
    Command { name: "latency", run: latency::run },
    Command { name: "prof", run: prof::run },
    Command { name: "top", run: top::run },
    Command { name: "trace", run: trace::run },
];

/// The subcommand that `word` calls.
pub fn named(word: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.name.as_bytes() == word)
}

/// The words that call them.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|c| c.name)
}
