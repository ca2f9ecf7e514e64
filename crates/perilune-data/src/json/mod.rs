//! `perilune.json`: JSON (RFC 8259) to values and back.
//!
//! | file | what |
//! |---|---|
//! | `decode.rs` | text to values: the parser |
//! | `number.rs`, `string.rs` | numbers and strings in the text |
//! | `fault.rs` | what is wrong with a text, and where |
//! | `encode.rs` | values to text |
//! | `stream.rs` | texts that come in pieces: where a value ends |
//! | `reading.rs` | decoders and iterators over pieces and files |
//! | `options.rs` | tables of options |
//!
//! # What stands for what
//! `null` is [`null`], a light userdata, since a table cannot hold nil; it is the same in every domain. A
//! number without point and exponent is an integer, every other one a float, and floats are written so that
//! they read back as the same float: `1.0` stays one. A table is an array if its keys are the integers from 1
//! to their number, an object if they are strings. An empty table is an object unless it carries the mark, a
//! metatable, which `json.array` gives and `decode` gives to `[]`, so that empty arrays survive a round trip.
//!
//! # Errors
//! A text that is not JSON raises an error with line, column, and what was expected there; a value that JSON
//! cannot express one with its path. Both raise: nil and a message in its place would be taken for a `null`
//! by whoever does not look.

mod decode;
mod encode;
mod fault;
mod number;
mod options;
mod reading;
mod stream;
mod string;

use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};

/// Deepest nesting unless an option says otherwise.
const DEPTH: usize = 100;
/// Deepest nesting that the option may ask for: the encoder looks through all that is open for each table.
const MAX_DEPTH: usize = 10_000;
/// Bytes between two looks at interrupts and at the memory's limits.
const STRIDE: usize = 1 << 16;

/// What stands for `null`.
pub fn null() -> Value {
    Value::light(0)
}

/// Field of the registry with the metatable that marks arrays.
const MARK: &str = "perilune.json.array";

/// The loader of the module.
pub static OPEN: Native = Native::leaf("perilune.json", |vm| {
    let json = vm.new_table(0, 10)?;
    vm.push(json.into());
    vm.register(json, &[&encode::ENCODE, &decode::DECODE, &ARRAY, &IS_ARRAY])?;
    reading::register(vm, json)?;
    vm.set_field(json, "null", null())?;
    let mark = array_mark(vm)?;
    vm.set_field(json, "array_mt", mark.into())?;
    vm.ret(json)
});

/// The metatable that marks arrays: one in each domain, and found by name where a marked table arrives.
fn array_mark(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    Ok(vm.new_metatable(MARK)?.0)
}

/// Whether a table carries the mark; in an island it is a frozen copy, which is known by its name.
fn is_marked(vm: &mut Vm, t: Gc<Table>, mark: Gc<Table>) -> LuaResult<bool> {
    match vm.metatable_of(t.into()) {
        None => Ok(false),
        Some(mt) if mt == mark => Ok(true),
        Some(mt) => {
            let name = vm.get_field(mt, "__name")?;
            Ok(name.as_string().is_some_and(|name| name.bytes() == MARK.as_bytes()))
        }
    }
}

/// `json.array(t)`: marks `t` as an array and returns it; without an argument a new one.
static ARRAY: Native = Native::leaf("array", |vm| {
    vm.check_none_behind(1)?;
    let t = if vm.arg_is_none(1) { vm.new_table(0, 0)? } else { vm.check_table(1)? };
    let mark = array_mark(vm)?;
    match vm.metatable_of(t.into()) {
        None => vm.set_metatable_of(t.into(), Some(mark))?,
        Some(mt) if mt == mark => {}
        Some(_) => return Err(vm.arg_error(1, "the table has a metatable already")),
    }
    vm.ret(t)
});

/// `json.is_array(v)`: would `v` be written as an array?
static IS_ARRAY: Native = Native::leaf("is_array", |vm| {
    vm.check_any(1)?;
    vm.check_none_behind(1)?;
    let Some(t) = vm.arg(1).as_table() else { return vm.ret(false) };
    let mark = array_mark(vm)?;
    let is = is_marked(vm, t, mark)? || matches!(vm.form(t), perilune_vm::Form::List(_));
    vm.ret(is)
});
