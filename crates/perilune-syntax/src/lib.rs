//! The front end: source text to verified bytecode. Imports nothing of the runtime.
//!
//! ```text
//! source --lexer--> tokens --parser (scopes resolved)--> ast::Chunk --codegen--> Arc<Proto>
//!                                             Arc<Proto> --dump--> bytes --undump, verify--> Arc<Proto>
//! ```

pub mod ast;
pub mod bytecode;
mod class;
pub mod codegen;
pub mod disasm;
pub mod dump;
pub mod error;
mod intern;
pub mod lexer;
pub mod lines;
pub mod mentions;
pub mod numeral;
pub mod operands;
mod parser;
pub mod proto;
mod sys;
pub mod text;
pub mod token;
pub mod undump;
pub mod verify;

pub use bytecode::{Instr, Op};
pub use error::SyntaxError;
pub use parser::parse;
pub use proto::{Constant, LocalVar, Proto, UpvalueDesc, VarKind};
pub use text::Text;

/// Compiles source text to the prototype of its main function.
///
/// `source` is text in any bytes (a first line with `#` is the caller's to skip), `chunk_name` is as given to
/// `load`, with its `=` or `@`; it is what messages and [`Proto::source`] say.
///
/// # Errors
/// The first thing wrong with it, worded as PUC Lua does.
pub fn compile(source: &[u8], chunk_name: &[u8]) -> Result<std::sync::Arc<Proto>, SyntaxError> {
    compile_within(source, chunk_name, Bounds::NONE)
}

/// As [`compile`], giving up at `bounds`.
///
/// # Errors
/// As those of [`compile`]; "interrupted!"; "not enough memory".
pub fn compile_within(
    source: &[u8],
    chunk_name: &[u8],
    bounds: Bounds<'_>,
) -> Result<std::sync::Arc<Proto>, SyntaxError> {
    compile_from(Source::Whole(source), chunk_name, bounds)
}

/// As [`compile_within`], of a text that may still be on its way. What can be refused is refused before more
/// of it is asked for.
///
/// # Errors
/// As those of [`compile_within`].
pub fn compile_from<'s>(
    source: Source<'s>,
    chunk_name: &'s [u8],
    bounds: Bounds<'s>,
) -> Result<std::sync::Arc<Proto>, SyntaxError> {
    parser::compile(source, chunk_name, bounds, parser::PORTION)
}

/// As [`compile`], making code of at least `portion` expressions of the main function at a time: for tests.
///
/// # Errors
/// As those of [`compile`].
#[doc(hidden)]
pub fn compile_in_portions(
    source: &[u8],
    chunk_name: &[u8],
    portion: usize,
) -> Result<std::sync::Arc<Proto>, SyntaxError> {
    parser::compile(Source::Whole(source), chunk_name, Bounds::NONE, portion)
}

/// A text to compile.
pub enum Source<'s> {
    /// All of it.
    Whole(&'s [u8]),
    /// Its beginning, and who appends the next piece: true if there was one, false at the end, after which it
    /// is not asked again. Whoever cannot go on says that this is the end, and forgets about the result.
    Pieces(Vec<u8>, &'s mut dyn FnMut(&mut Vec<u8>) -> bool),
}

/// What ends the compilation of a text that is too long for somebody.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// Asked every few thousand tokens or statements: true ends it.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Bytes that the syntax tree may take, at [`BYTES_PER_TOKEN`] for each token of the text.
    pub memory: usize,
    /// Whether the system would give so many bytes. It is asked for as many as the tree has taken, every few
    /// thousand tokens: its lists double.
    pub has_room: &'a dyn Fn(usize) -> bool,
}

impl Bounds<'_> {
    /// Nothing does.
    pub const NONE: Bounds<'static> =
        Bounds { interrupted: &|| false, memory: usize::MAX, has_room: &|_| true };
}

/// What a token costs in the syntax tree, in bytes: 40 to 140 were measured for texts that repeat one thing.
pub const BYTES_PER_TOKEN: usize = 128;
