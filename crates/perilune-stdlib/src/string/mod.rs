//! The `string` library (manual 6.4) and the metatable of strings.
//!
//! | file | what |
//! |---|---|
//! | `basic.rs` | `byte char dump len lower rep reverse sub upper` |
//! | `pattern.rs`, `matcher.rs`, `cache.rs` | patterns: compiling, matching, keeping |
//! | `search.rs`, `gsub.rs` | `find match gmatch`; `gsub` |
//! | `spec.rs`, `float.rs`, `format.rs` | `format`: specifications, floats, the function |
//! | `packing.rs`, `pack.rs` | `pack packsize unpack`: formats, the functions |
//! | `arith.rs` | arithmetic on strings that are numerals |
//!
//! The engines (patterns, specifications and floats, packing formats) are pure functions over byte slices
//! without `unsafe`: they are tested on their own and cannot be harmed by any input. Results are built in a
//! `Vec` and become one string at the end.

mod arith;
mod basic;
mod cache;
mod float;
mod format;
mod gsub;
mod matcher;
mod near;
mod pack;
mod packing;
mod pattern;
pub mod scratch;
mod search;
mod spec;
#[cfg(test)]
mod tests;

use perilune_vm::{LuaResult, Value, Vm};

/// Longest string that the functions here make: what a C `int` counts, as in PUC Lua.
const MAX_SIZE: usize = i32::MAX as usize;

/// Opens the library: the global `string`, `package.loaded.string`, and the metatable of strings.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let table = vm.new_table(0, 17)?;
    vm.set_global("string", Value::from(table))?;
    vm.register(
        table,
        &[
            &basic::BYTE,
            &basic::CHAR,
            &basic::DUMP,
            &search::FIND,
            &format::FORMAT,
            &search::GMATCH,
            &gsub::GSUB,
            &basic::LEN,
            &basic::LOWER,
            &search::MATCH,
            &basic::REP,
            &basic::REVERSE,
            &basic::SUB,
            &basic::UPPER,
            &pack::PACK,
            &pack::PACKSIZE,
            &pack::UNPACK,
        ],
    )?;
    vm.set_loaded("string", Value::from(table))?;
    let metatable = vm.new_table(0, 9)?;
    let text = vm.value_str(b"")?;
    vm.set_metatable_of(text, Some(metatable))?;
    vm.register(metatable, arith::METAMETHODS)?;
    vm.set_field(metatable, "__index", Value::from(table))
}

/// A start position counted from 1, where negative ones count from the end, clipped to 1 and up.
#[inline]
fn start_position(position: i64, len: usize) -> usize {
    if position > 0 {
        position as usize
    } else if position == 0 || position < -(len as i64) {
        1
    } else {
        (len as i64 + position + 1) as usize
    }
}

/// An end position counted from 1, where negative ones count from the end, clipped to 0..=len.
#[inline]
fn end_position(position: i64, len: usize) -> usize {
    if position > len as i64 {
        len
    } else if position >= 0 {
        position as usize
    } else if position < -(len as i64) {
        0
    } else {
        (len as i64 + position + 1) as usize
    }
}
