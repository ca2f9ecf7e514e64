//! The front end: source text to verified bytecode. Imports nothing of the runtime.
//!
//! ```text
//! source --lexer--> tokens --parser (scopes resolved)--> ast::Chunk --codegen--> Arc<Proto>
//!                                             Arc<Proto> --dump--> bytes --undump, verify--> Arc<Proto>
//! ```

pub mod ast;
pub mod bytecode;
pub mod codegen;
pub mod disasm;
pub mod dump;
pub mod error;
mod intern;
pub mod lexer;
pub mod mentions;
pub mod numeral;
mod parser;
pub mod proto;
pub mod token;
pub mod undump;
pub mod verify;

pub use bytecode::{Instr, Op};
pub use error::SyntaxError;
pub use parser::parse;
pub use proto::{Constant, LocalVar, Proto, UpvalueDesc, VarKind};

/// Compiles source text to the prototype of its main function.
///
/// `source` is text in any bytes (a first line with `#` is the caller's to skip), `chunk_name` is as given to `load`, with its
/// `=` or `@`; it is what messages and [`Proto::source`] say.
///
/// # Errors
/// The first thing wrong with it, worded as PUC Lua does.
pub fn compile(source: &[u8], chunk_name: &[u8]) -> Result<std::sync::Arc<Proto>, SyntaxError> {
    codegen::generate(&parse(source, chunk_name)?, chunk_name)
}
