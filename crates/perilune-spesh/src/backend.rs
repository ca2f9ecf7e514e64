//! Instructions out of intermediate form.
//!
//! Whoever compiles is handed a builder ([`ssa::Builder`](crate::ssa::Builder)), makes the function with it, and
//! gets bytes that run wherever they lie. What optimises is above the form (`lower`), which is written as it is
//! but for what nobody uses.
//!
//! # What a function may refer to
//! Nothing by name. Helpers are called by their absolute addresses, constants of 64 bits, through a register:
//! they may lie anywhere, and no code has to change when it is put in its place.
//!
//! # Tail calls
//! A function of the convention [`Convention::Machine`](crate::ssa::Convention) may end in a call that takes its place on the native stack.
//!
//! # Panics and unwinding
//! There is no unwind information for machine code: a panic must not reach it, helpers return a status. Form
//! that makes no sense may panic here; whoever catches that around [`Backend::compile`] can go on with the same
//! backend.
//!
//! # Stack
//! Frames are as large as their spills and slots need, [`Compiled::frame`] says how large, and who enters
//! machine code checks that there is room. Frames of a page and more touch each of their pages in order when
//! they begin, so none reaches past a guard page.

use crate::linear;
use crate::positions::Positions;
use crate::ssa::{Builder, Function, Invalid, Signature, Variables};
use crate::target;
use perilune_vm::machine::{Departures, LEAVE_AT, Leave};
use std::cell::Cell;
use std::fmt;

/// Where a value is to be stored when code is left: so many bytes from the base of the frame; a byte of it, or
/// all.
pub fn stored_at(offset: i32, is_byte: bool) -> i64 {
    i64::from(offset) << 1 | i64::from(is_byte)
}

/// The same taken apart.
pub(crate) fn apart(at: i64) -> (i32, bool) {
    ((at >> 1) as i32, at & 1 != 0)
}

/// How much a backend checks, besides compiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Check the intermediate form of each function, and what the register allocator made of it. Builds with
    /// assertions always do so.
    pub verify: bool,
}

/// Why no backend could be made: what the processor lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub(crate) &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Why a function was not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The verifier found the intermediate form wrong: a fault of whoever built it. Its report.
    Invalid(Invalid),
    /// More instructions than are numbered, or a frame of more bytes than one may have.
    TooLarge,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Invalid(report) => write!(f, "invalid intermediate form: {report}"),
            CompileError::TooLarge => f.write_str("the function is too large"),
        }
    }
}

impl std::error::Error for CompileError {}

/// A function as bytes that run wherever they lie.
#[derive(Debug)]
pub struct Compiled {
    /// Instructions, and the constants that they read.
    pub bytes: Vec<u8>,
    /// Which instruction belongs to which place, as the builder was told.
    pub positions: Positions,
    /// Bytes of native stack that it takes for itself, without return address and saved frame pointer.
    pub frame: u32,
    /// Offsets of instructions that stop the process if they come to be executed with the wrong operands:
    /// traps, and divisions. No script may bring one about, so whoever compiles answers for each.
    pub traps: Vec<u32>,
    /// Where its values are where it is left: it has the address, and is not to be run without it.
    pub departures: Option<Box<Departures>>,
}

/// A code generator for the processor at hand. It keeps its buffers from one function to the next; each
/// compiling thread has one.
pub struct Backend {
    /// `None` while a function is compiled, and after one that panicked: what it left behind is not used
    /// again.
    buffers: Option<Box<Buffers>>,
    options: Options,
    /// What is called where code is left.
    leave: Leave,
}

/// What functions are built in.
#[derive(Default)]
struct Buffers {
    function: Function,
    variables: Variables,
}

impl Backend {
    /// A backend for this processor.
    pub fn new(options: Options) -> Result<Backend, Unsupported> {
        target::supported().map_err(Unsupported)?;
        Ok(Backend { buffers: Some(Box::default()), options, leave: LEAVE_AT })
    }

    /// Code that is left calls this.
    #[cfg(test)]
    pub(crate) fn leave_by(&mut self, leave: Leave) {
        self.leave = leave;
    }

    /// Compiles a function of this signature. `build` makes its body, and seals all blocks.
    ///
    /// Panics if the body has blocks that do not end, and on some bodies that the verifier would find invalid.
    pub fn compile(
        &mut self,
        signature: Signature,
        build: impl FnOnce(&mut Builder<'_>),
    ) -> Result<Compiled, CompileError> {
        let mut build = Some(build);
        self.compile_when(signature, |b| {
            build.take().into_iter().for_each(|build| build(b));
            true
        })
    }

    /// The same, of a body that `build` makes anew until it says `true`.
    pub fn compile_when(
        &mut self,
        signature: Signature,
        mut build: impl FnMut(&mut Builder<'_>) -> bool,
    ) -> Result<Compiled, CompileError> {
        let mut buffers = self.buffers.take().unwrap_or_default();
        let Buffers { function, variables } = &mut *buffers;
        while !build(&mut Builder::new(function, variables, signature.clone())) {}
        let checked = self.options.verify || cfg!(any(debug_assertions, test));
        let done = match if checked { function.verify() } else { Ok(()) } {
            Ok(()) => linear::compile(function, checked, self.leave).ok_or(CompileError::TooLarge),
            Err(report) => Err(CompileError::Invalid(report)),
        };
        self.buffers = Some(buffers);
        done
    }
}

thread_local! {
    /// Taken while it is in use, and lost to a panic.
    static SKETCH: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

/// Builds a function of this signature that nobody compiles, and returns what `build` does.
pub fn sketch<R>(signature: Signature, build: impl FnOnce(&mut Builder<'_>) -> R) -> R {
    let mut sketch = SKETCH.take().unwrap_or_default();
    let Buffers { function, variables } = &mut *sketch;
    let result = build(&mut Builder::new(function, variables, signature));
    SKETCH.set(Some(sketch));
    result
}

#[cfg(test)]
mod tests;
