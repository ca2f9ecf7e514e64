//! The Lua 5.4 standard library (manual, section 6).
//!
//! One file or folder per library; each has `open`, which makes its table and records it in `package.loaded`. Natives are plain Rust functions over
//! the interface of [`perilune_vm::api`].

pub mod string;
pub mod utf8;

use perilune_vm::{LuaResult, Vm};

/// Opens all standard libraries, as `lua` does at its start.
///
/// # Errors
/// Only when memory runs out.
pub fn open_libs(vm: &mut Vm) -> LuaResult<()> {
    string::open(vm)?;
    utf8::open(vm)
}
