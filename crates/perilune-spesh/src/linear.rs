//! The code generator: instructions of the processor for what the builder of the form (`ssa.rs`) has made.
//!
//! Most programs end, or have changed what they do, before a function has run for a hundred times what it took
//! to compile; so code has to be made quickly, and most of the time went into the last step. With this one a
//! function of 300 instructions of the form took 0.42 of the time that it took with Cranelift's, from the
//! builder to bytes, and what it makes is as fast ([decision 72]).
//!
//! | step | file | what |
//! |---|---|---|
//! | form | `form.rs`, `form/operands.rs` | blocks in an order, instructions numbered; which are parts of those that use them |
//! | intervals | `intervals.rs` | where each value is needed |
//! | scan | `scan.rs` | which register it is in, or its slot of the frame |
//! | emit | `emit.rs`, `moves.rs` | instructions, and moves where values are somewhere else than they are wanted |
//! | assemble | `assemble.rs` | bytes; jumps that need not lead far are short |
//! | check | `check.rs` | in tests: whether each value is where it is read |
//!
//! # What it is given
//! A function in SSA whose blocks have parameters (`ssa.rs`). The verifier looks at it in builds with assertions,
//! and in tests. One of more instructions than are numbered, or with a larger frame than a function may have, is
//! given back.
//!
//! # Selection
//! One pass, from the last instruction to the first, finds out what is part of what: constants and addresses
//! wherever they are used; a load that is used once, by an operation that takes memory, with no store between;
//! a comparison behind which a jump is taken or a value chosen. All other values are named, and have a
//! register or a slot. A parameter that is the same as another, or always one value, stands for that.
//!
//! # Where values are
//! A linear scan over the blocks as they have been built, those that are hardly ever run behind all others.
//! A value may be in one register here and in another, or in the frame, there: its interval is split, and the
//! costs that decide are counted by loops. SSA makes stores cheap: a value that has to be in the frame is
//! stored once, where it is made, unless it goes there more rarely than it is made. A function of the convention
//! of machine code saves no register, and one has its first parameter for good; where it is left, nothing is moved,
//! and where values are is told (`perilune_vm::machine`, `run.rs` and `departures.rs`).
//!
//! # What keeps it right
//! Random functions are compiled and run, and compared with what an interpreter of the form makes of them
//! (`tests.rs`); every recorded script is run in several ways; and the fuzzers' programs are compared with the
//! reference. A checker goes through the bytes and looks for each value where it is read
//! (`check.rs`): of random functions, of scripts in one of these ways, of all that a build with assertions
//! compiles, and where `PERILUNE_SPESH_GENERATOR=checked` says so. Assertions hold where a mistake would be a
//! wrong value: a move that is not due, a part of an interval without a place, a label that is not bound. One
//! that fails is caught by who compiles, and the function stays with the interpreter.
//!
//! # Rejected
//! - *Cranelift's generator*, with which this began: it takes twice as long, and with its single-pass allocator its
//!   code is 2 to 10 times slower.
//! - *Another tier above this one*, Cranelift's for what runs long: its code is not faster.
//! - *A graph of interferences.* Splitting is what matters here: most values live from a hot way into many cold
//!   ones, and are to be in registers on the first alone.
//! - *An assembler of a crate.* Cranelift's own has a type for each instruction and form of operands, a
//!   thousand; we write some sixty, nearly all by one function that knows how operands are encoded.
//! - *Calls relative to the code*: helpers may lie anywhere, and code runs wherever it lies.
//!
//! [decision 72]: ../../../docs/decisions/0072-a-code-generator-of-our-own.md

mod assemble;
mod check;
mod emit;
mod form;
mod intervals;
mod moves;
mod scan;

use crate::backend::Compiled;
use crate::ssa::Function;
use assemble::{Base, Mem, RBP};
use perilune_vm::machine::{Departures, Leave};

/// Compiles the function; `None` if it has what this does not know. Panics if it is to be `checked`, and the
/// code reads a value where it is not.
pub(crate) fn compile(func: &Function, checked: bool, leave: Leave) -> Option<Compiled> {
    let form = form::Form::of(func)?;
    let needed = intervals::needed(&form);
    let intervals = intervals::intervals(&form, &needed);
    let taken = intervals::taken(&form);
    let found = scan::allocate(&form, &needed.sets, intervals, &taken);
    let departures = Box::new(Departures::to(leave));
    let emit::Written { bytes, positions, frame, traps, mut departures, trace } =
        emit::emit(&form, &needed.sets, &found, (checked, departures))?;
    if let Some(trace) = trace {
        let is_right = check::check(&form, &found, &bytes, &trace);
        is_right.unwrap_or_else(|wrong| panic!("registers are given out wrongly: {wrong}"));
    }
    departures.close();
    let departures = (!departures.is_empty()).then_some(departures);
    Some(Compiled { bytes, positions, frame, traps, departures })
}

/// A place in the frame, so far from its base.
fn slot(offset: i32) -> Mem {
    Mem::at(RBP, offset)
}

/// The constant of this number.
fn constant(n: u32) -> Mem {
    Mem { base: Base::Constant(n), index: None, offset: 0 }
}

#[cfg(test)]
pub(crate) mod tests;
