//! The front end: source text to verified bytecode. Imports nothing of the runtime.
//!
//! ```text
//! source --lexer--> tokens --parser (scopes resolved)--> ast::Chunk --codegen--> Arc<Proto>
//!                                             Arc<Proto> --dump--> bytes --undump, verify--> Arc<Proto>
//! ```

pub mod ast;
pub mod bytecode;
pub mod codegen;
pub mod error;
mod intern;
pub mod lexer;
pub mod numeral;
mod parser;
pub mod proto;
pub mod token;

pub use bytecode::{Instr, Op};
pub use error::SyntaxError;
pub use parser::parse;
pub use proto::{Constant, LocalVar, Proto, UpvalueDesc, VarKind};
