//! A code generator of our own for what Cranelift's builder has made: one pass selects instructions, a linear
//! scan allocates registers, one pass writes bytes.

mod assemble;
mod emit;
mod form;
mod intervals;
mod moves;
mod scan;

use crate::backend::Compiled;
use crate::backend::clif::Function;
use assemble::{Base, Mem, RBP};

/// Compiles the function; `None` if it has what this does not know.
pub(crate) fn compile(func: &Function) -> Option<Compiled> {
    let form = form::Form::of(func)?;
    let needed = intervals::needed(&form);
    let intervals = intervals::intervals(&form, &needed);
    let taken = intervals::taken(&form);
    let found = scan::allocate(&form, intervals, &taken);
    let emit::Written { bytes, positions, frame, traps } = emit::emit(&form, &needed, &found)?;
    Some(Compiled { bytes, positions, frame, traps, listing: None })
}

/// A place in the frame, so far from its base.
fn slot(offset: i32) -> Mem {
    Mem::at(RBP, offset)
}

/// The constant of this number.
fn constant(n: u32) -> Mem {
    Mem { base: Base::Constant(n), index: None, offset: 0 }
}
