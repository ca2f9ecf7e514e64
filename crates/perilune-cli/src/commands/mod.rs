//! Subcommands that `lua` does not have: one file each, and one entry each in `manual/entries.rs`.
//!
//! A subcommand gets all words of the command line (the name of the program at 0, its own from 1 on), since
//! what runs a program may want to hand the rest on as `arg`. It reads its options by the table of `manual/`,
//! writes what it found to standard output and what it has to say about that to standard error, and chooses
//! the exit code: 0 for success, 1 if a program failed, 2 if its words make no sense. Messages begin with
//! `perilune ` and its words.
//!
//! `options.rs` decides whether a first word is a subcommand at all.

mod answers;
mod bench;
pub mod build;
pub mod explain;
mod fibers;
mod gc_stats;
mod heap;
mod latency;
mod loops;
pub mod manual;
mod observe;
mod prof;
mod requests;
mod table;
mod test;
mod top;
mod trace;
