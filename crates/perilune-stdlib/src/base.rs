//! The basic functions (manual 6.1).
//!
//! `pcall`, `xpcall`, `next` and the iterator of `ipairs` are *special* natives: the interpreter does their
//! work itself (`Kind`), and the functions here serve whoever calls them from Rust. `type` is a closure over
//! the nine type names, so that a call allocates nothing and its result is the interned string that programs
//! compare it with.

use crate::chunk;
use crate::io;
use crate::string::scratch;
use perilune_heap::Mode;
use perilune_syntax::numeral::{Number, parse_integer_base, parse_number};
use perilune_vm::{
    Call, Effect, Gc, Intrinsic, Kind, LuaClosure, LuaResult, Native, Results, Table, Thrown, Type, Value, Vm,
};

static ASSERT: Native =
    Native::leaf("assert", assert).known_as(Intrinsic::Assert).quick_or_none(Effect::Nothing, quick_assert);
static COLLECTGARBAGE: Native = Native::reentrant("collectgarbage", collectgarbage);
static DOFILE: Native = Native::reentrant("dofile", dofile);
static ERROR: Native = Native::leaf("error", error);
static GETMETATABLE: Native =
    Native::leaf("getmetatable", getmetatable).quick(Effect::Nothing, quick_getmetatable);
static IPAIRS: Native = Native::leaf("ipairs", ipairs).known_as(Intrinsic::Ipairs(&IPAIRS_STEP));
/// The iterator of `ipairs`: for objects whose `__pairs` is `ipairs`.
pub static IPAIRS_STEP: Native = Native::special("ipairs_aux", Kind::IpairsStep, ipairs_step);
static LOADFILE: Native = Native::leaf("loadfile", loadfile);
static LOAD: Native = Native::hybrid("load", load);
static NEXT: Native = Native::special("next", Kind::Next, next)
    .quick_or_none(Effect::Nothing, quick_next)
    .several(Effect::Nothing, quick_entry);
static PAIRS: Native = Native::hybrid("pairs", pairs).known_as(Intrinsic::Pairs(&NEXT));
static PCALL: Native = Native::special("pcall", Kind::Pcall, pcall);
static PRINT: Native = Native::hybrid("print", print);
static WARN: Native = Native::leaf("warn", warn);
static RAWEQUAL: Native = Native::leaf("rawequal", rawequal).quick(Effect::Nothing, quick_rawequal);
static RAWLEN: Native = Native::leaf("rawlen", rawlen).quick(Effect::Nothing, quick_rawlen);
static RAWGET: Native = Native::leaf("rawget", rawget).quick(Effect::Nothing, quick_rawget);
static RAWSET: Native = Native::leaf("rawset", rawset).quick(Effect::Stores, quick_rawset);
static SELECT: Native =
    Native::leaf("select", select).known_as(Intrinsic::Select).quick_or_none(Effect::Nothing, quick_select);
static SETMETATABLE: Native = Native::leaf("setmetatable", setmetatable)
    .known_as(Intrinsic::SetMetatable)
    .quick(Effect::Stores, quick_setmetatable);
static TONUMBER: Native = Native::leaf("tonumber", tonumber).quick(Effect::Nothing, quick_tonumber);
static TOSTRING: Native = Native::hybrid("tostring", tostring).quick(Effect::Allocates, quick_tostring);
static TYPE: Native =
    Native::leaf("type", type_).known_as(Intrinsic::Type).quick(Effect::Nothing, quick_type);
static XPCALL: Native = Native::special("xpcall", Kind::Xpcall, xpcall);

/// Puts the basic functions, `_G` and `_VERSION` into the table of globals.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let globals = vm.globals();
    vm.register(
        globals,
        &[
            &ASSERT,
            &COLLECTGARBAGE,
            &DOFILE,
            &ERROR,
            &GETMETATABLE,
            &IPAIRS,
            &LOADFILE,
            &LOAD,
            &NEXT,
            &PAIRS,
            &PCALL,
            &PRINT,
            &WARN,
            &RAWEQUAL,
            &RAWLEN,
            &RAWGET,
            &RAWSET,
            &SELECT,
            &SETMETATABLE,
            &TONUMBER,
            &TOSTRING,
            &XPCALL,
        ],
    )?;
    let mut names = [Value::NIL; Type::ALL.len()];
    for (name, kind) in names.iter_mut().zip(Type::ALL) {
        *name = vm.value_str(kind.name().as_bytes())?;
    }
    let type_function = vm.new_native_closure(&TYPE, &names)?;
    vm.set_field(globals, "type", type_function)?;
    vm.set_field(globals, "_G", globals.into())?;
    let version = vm.value_str(b"Lua 5.4")?;
    vm.set_field(globals, "_VERSION", version)?;
    vm.set_loaded("_G", globals.into())
}

fn type_(vm: &mut Vm) -> LuaResult<u32> {
    if vm.arg_is_none(1) {
        return Err(vm.arg_error(1, "value expected"));
    }
    let kind = vm.arg(1).type_of();
    let name = vm.upvalue(kind as u32 + 1);
    vm.push(name);
    Ok(1)
}

/// [`type_`] of a value.
fn quick_type(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    Ok(call.arguments.first().map(|v| call.upvalue(v.type_of() as usize + 1)))
}

/// [`assert`] of what is true.
fn quick_assert(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    Ok(call.arguments.first().copied().filter(|v| v.is_truthy()))
}

fn assert(vm: &mut Vm) -> LuaResult<u32> {
    if vm.arg(1).is_truthy() {
        return Ok(vm.nargs());
    }
    vm.check_any(1)?;
    let message = if vm.arg_is_none(2) { vm.value_str(b"assertion failed!")? } else { vm.arg(2) };
    Err(raise(vm, message, 1))
}

fn error(vm: &mut Vm) -> LuaResult<u32> {
    let level = vm.opt_int(2, 1)?;
    let value = vm.arg(1);
    Err(raise(vm, value, level))
}

/// Raises `value`; a string gets the position of the function at `level` in front.
fn raise(vm: &mut Vm, value: Value, level: i64) -> Thrown {
    if let Some(text) = value.as_string()
        && level > 0
        && let Some(message) = vm.at_position(level.min(i64::from(u32::MAX)) as u32, text.bytes())
    {
        return vm.error_plain(message);
    }
    vm.throw(value)
}

fn getmetatable(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let shown = vm.shown_metatable(vm.arg(1));
    vm.ret(shown)
}

/// [`getmetatable`] of a value.
fn quick_getmetatable(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[value] = call.arguments else { return Ok(None) };
    Ok(Some(vm.shown_metatable(value)))
}

fn setmetatable(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(1, Type::Table)?;
    let (object, metatable) = (vm.arg(1), vm.arg(2));
    if vm.arg_is_none(2) || !(metatable.is_nil() || metatable.as_table().is_some()) {
        return Err(vm.type_error(2, "nil or table"));
    }
    if vm.metatable_of(object).is_some() && !vm.metafield(object, "__metatable")?.is_nil() {
        return Err(vm.error("cannot change a protected metatable"));
    }
    vm.set_metatable_of(object, metatable.as_table())?;
    vm.ret(object)
}

/// [`setmetatable`] of a table that has none: what constructors do. Copies of what has none get none.
fn quick_setmetatable(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[object, metatable] = call.arguments else { return Ok(None) };
    let Some(table) = object.as_table() else { return Ok(None) };
    if metatable.is_nil() && vm.may_store_quickly(table) {
        return Ok(Some(object));
    }
    let Some(metatable) = metatable.as_table() else { return Ok(None) };
    if !vm.may_get_metatable_quickly(table, metatable) {
        return Ok(None);
    }
    vm.set_metatable_of(object, Some(metatable))?;
    Ok(Some(object))
}

fn rawequal(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    vm.check_any(2)?;
    let (a, b) = (vm.arg(1), vm.arg(2));
    vm.ret(Vm::raw_equals(a, b))
}

fn rawlen(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    let length = if let Some(table) = value.as_table() {
        vm.raw_len(table)
    } else if let Some(text) = value.as_string() {
        text.len() as i64
    } else {
        return Err(vm.type_error(1, "table or string"));
    };
    vm.ret(length)
}

fn rawget(vm: &mut Vm) -> LuaResult<u32> {
    let table = vm.check_table(1)?;
    vm.check_any(2)?;
    let key = vm.arg(2);
    let value = vm.raw_get(table, key);
    vm.ret(value)
}

/// [`rawequal`] of two values.
fn quick_rawequal(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[a, b] = call.arguments else { return Ok(None) };
    Ok(Some(Value::from(Vm::raw_equals(a, b))))
}

/// [`rawlen`] of a table or a string.
fn quick_rawlen(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[v] = call.arguments else { return Ok(None) };
    let of_table = v.as_table().map(|t| vm.raw_len(t));
    Ok(of_table.or_else(|| v.as_string().map(|s| s.len() as i64)).map(Value::int))
}

/// [`rawget`] of a table.
fn quick_rawget(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[table, key] = call.arguments else { return Ok(None) };
    Ok(table.as_table().map(|t| vm.raw_get(t, key)))
}

/// [`rawset`] of a table whose stores nobody minds, and a key that cannot be refused.
fn quick_rawset(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[table, key, value] = call.arguments else { return Ok(None) };
    let Some(t) = table.as_table().filter(|t| vm.may_store_raw(*t)) else { return Ok(None) };
    if key.is_nil() || key.as_float().is_some() {
        return Ok(None);
    }
    vm.raw_set(t, key, value)?;
    Ok(Some(table))
}

fn rawset(vm: &mut Vm) -> LuaResult<u32> {
    let table = vm.check_table(1)?;
    vm.check_any(2)?;
    vm.check_any(3)?;
    let (key, value) = (vm.arg(2), vm.arg(3));
    if vm.is_task_environment(table) {
        return Err(vm.global_error(Some(key)));
    }
    vm.raw_set(table, key, value)?;
    vm.ret(table)
}

fn select(vm: &mut Vm) -> LuaResult<u32> {
    let count = i64::from(vm.nargs());
    let selector = vm.arg(1);
    if let Some(text) = selector.as_string()
        && text.bytes().first() == Some(&b'#')
    {
        return vm.ret(count - 1);
    }
    let index = match selector.as_int() {
        Some(i) => i,
        None => vm.check_int(1)?,
    };
    let index = if index < 0 { count.saturating_add(index) } else { index.min(count) };
    if index < 1 {
        return Err(vm.arg_error(1, "index out of range"));
    }
    Ok((count - index) as u32)
}

/// [`select`] of how many there are, or of one that there is and of which no other is wanted, by its number.
fn quick_select(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let Some((selector, others)) = call.arguments.split_first() else { return Ok(None) };
    if let Some(text) = selector.as_string() {
        return Ok((text.bytes().first() == Some(&b'#')).then(|| Value::int(others.len() as i64)));
    }
    let Some(i) = selector.as_int().filter(|i| *i != 0) else { return Ok(None) };
    let place = match usize::try_from(i.unsigned_abs()) {
        Ok(i) if selector.as_int() > Some(0) => Some(i - 1),
        Ok(i) => others.len().checked_sub(i),
        Err(_) => None,
    };
    Ok(place.map(|place| others.get(place).copied().unwrap_or(Value::NIL)))
}

/// [`tonumber`] of whatever, or of a string in a base that there is.
fn quick_tonumber(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    if let &[value, base] = call.arguments
        && !base.is_nil()
    {
        let (Some(text), Some(base @ 2..=36)) = (value.as_string(), base.as_int()) else { return Ok(None) };
        return Ok(Some(parse_integer_base(text.bytes(), base as u32).map_or(Value::NIL, Value::int)));
    }
    let (&[value] | &[value, _]) = call.arguments else { return Ok(None) };
    if value.is_number() {
        return Ok(Some(value));
    }
    Ok(Some(match value.as_string().and_then(|text| parse_number(text.bytes())) {
        Some(Number::Integer(i)) => Value::int(i),
        Some(Number::Float(f)) => Value::float(f),
        None => Value::NIL,
    }))
}

/// [`tostring`] of what has no metamethod for it.
fn quick_tostring(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[value] = call.arguments else { return Ok(None) };
    if vm.has_tostring(value) {
        return Ok(None);
    }
    Ok(Some(vm.tostring(value)?.into()))
}

fn tonumber(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    if vm.arg_is_none_or_nil(2) {
        if value.is_number() {
            return vm.ret(value);
        }
        if let Some(text) = value.as_string() {
            return match parse_number(text.bytes()) {
                Some(Number::Integer(i)) => vm.ret(i),
                Some(Number::Float(f)) => vm.ret(f),
                None => vm.ret(Value::NIL),
            };
        }
        vm.check_any(1)?;
        return vm.ret(Value::NIL);
    }
    let base = vm.check_int(2)?;
    vm.check_type(1, Type::String)?;
    if !(2..=36).contains(&base) {
        return Err(vm.arg_error(2, "base out of range"));
    }
    let result = value.as_string().and_then(|text| parse_integer_base(text.bytes(), base as u32));
    vm.ret(result.map_or(Value::NIL, Value::int))
}

fn tostring(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let value = vm.arg(1);
    let text = vm.tostring(value)?;
    vm.ret(text)
}

fn print(vm: &mut Vm) -> LuaResult<u32> {
    let count = vm.nargs();
    for i in 1..=count {
        let value = vm.arg(i);
        if vm.has_tostring(value) {
            return print_each(vm);
        }
        if !matches!(value.type_of(), Type::Nil | Type::Boolean | Type::Number | Type::String) {
            let text = vm.tostring(value)?;
            vm.set_arg(i, text.into());
        }
    }
    io::print_values(vm, (1..=count).map(|i| vm.arg(i)));
    Ok(0)
}

/// `print` of values whose metamethods may write too, or fail: each is written before the next is converted.
#[cold]
fn print_each(vm: &mut Vm) -> LuaResult<u32> {
    vm.begin_effects()?;
    for i in 1..=vm.nargs() {
        let value = vm.arg(i);
        let text = vm.tostring(value)?;
        io::print_text(vm, i > 1, text.bytes());
    }
    io::print_values(vm, std::iter::empty());
    Ok(0)
}

fn warn(vm: &mut Vm) -> LuaResult<u32> {
    let count = vm.nargs();
    vm.check_str(1)?;
    for i in 2..=count {
        vm.check_str(i)?;
    }
    for i in 1..=count {
        let piece = vm.check_str(i)?;
        vm.warn_piece(piece.bytes(), i < count);
    }
    Ok(0)
}

fn next(vm: &mut Vm) -> LuaResult<u32> {
    let table = vm.check_table(1)?;
    let key = vm.arg(2);
    match vm.raw_next(table, key)? {
        Some((key, value)) => {
            vm.push(key);
            vm.push(value);
            Ok(2)
        }
        None => vm.ret(Value::NIL),
    }
}

/// The table and the key that [`next`] is called with.
#[inline]
fn table_and_key(call: Call<'_>) -> Option<(Gc<Table>, Value)> {
    match *call.arguments {
        [table] => Some((table.as_table()?, Value::NIL)),
        [table, key] => Some((table.as_table()?, key)),
        _ => None,
    }
}

/// The key that [`next`] gives.
fn quick_next(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let Some((table, key)) = table_and_key(call) else { return Ok(None) };
    Ok(Some(vm.raw_next(table, key)?.map_or(Value::NIL, |(key, _)| key)))
}

/// All that it gives.
fn quick_entry(vm: &mut Vm, call: Call<'_>, results: &mut Results) -> LuaResult<bool> {
    let Some((table, key)) = table_and_key(call) else { return Ok(false) };
    Ok(match vm.raw_next(table, key)? {
        Some((key, value)) => results.push(key) && results.push(value),
        None => results.push(Value::NIL),
    })
}

fn pairs(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let object = vm.arg(1);
    let metamethod = vm.pairs_metamethod(object);
    if !metamethod.is_nil() {
        return vm.call_multi(metamethod, &[object], 3);
    }
    vm.push(Value::native(&NEXT));
    vm.push(object);
    vm.push(Value::NIL);
    Ok(3)
}

fn ipairs(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let object = vm.arg(1);
    vm.push(Value::native(&IPAIRS_STEP));
    vm.push(object);
    vm.push(Value::int(0));
    Ok(3)
}

fn ipairs_step(vm: &mut Vm) -> LuaResult<u32> {
    let index = vm.check_int(2)?.wrapping_add(1);
    let object = vm.arg(1);
    let value = vm.index_int(object, index)?;
    if value.is_nil() {
        return vm.ret(Value::NIL);
    }
    vm.push(Value::int(index));
    vm.push(value);
    Ok(2)
}

fn pcall(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let function = vm.arg(1);
    // The arguments stay in their stack slots meanwhile, which is what keeps them alive.
    let arguments: Vec<Value> = (2..=vm.nargs()).map(|i| vm.arg(i)).collect();
    vm.push(Value::TRUE);
    match vm.protected_call(function, &arguments)? {
        Ok(count) => Ok(count + 1),
        Err(error) => {
            vm.push(Value::FALSE);
            vm.push(error);
            Ok(2)
        }
    }
}

fn xpcall(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(2, Type::Function)?;
    let (function, handler) = (vm.arg(1), vm.arg(2));
    let arguments: Vec<Value> = (3..=vm.nargs()).map(|i| vm.arg(i)).collect();
    vm.push(Value::TRUE);
    match vm.protected_call(function, &arguments)? {
        Ok(count) => Ok(count + 1),
        Err(error) => {
            let handled = vm.call(handler, &[error])?;
            vm.push(Value::FALSE);
            vm.push(handled);
            Ok(2)
        }
    }
}

/// What `load` and `loadfile` return: the function, or `nil` and a message.
fn loaded(vm: &mut Vm, result: Result<Gc<LuaClosure>, Value>) -> LuaResult<u32> {
    match result {
        Ok(function) => vm.ret(function),
        Err(message) => {
            vm.push(Value::NIL);
            vm.push(message);
            Ok(2)
        }
    }
}

/// The environment argument `i`; `nil` is one too. Without one, that of a task that calls; `None`: the table
/// of globals.
fn environment(vm: &mut Vm, i: u32) -> Option<Value> {
    if vm.arg_is_none(i) { vm.caller_environment() } else { Some(vm.arg(i)) }
}

fn load(vm: &mut Vm) -> LuaResult<u32> {
    let source = vm.arg(1);
    let mode = vm.opt_str(3)?;
    let mode = mode.map_or(b"bt".as_slice(), |m| m.bytes());
    let env = environment(vm, 4);
    if source.as_string().is_some() || source.is_number() {
        let source = vm.check_str(1)?;
        let name = vm.opt_str(2)?.unwrap_or(source);
        let result = chunk::load(vm, source.bytes(), name.bytes(), mode, env)?;
        return loaded(vm, result);
    }
    let name = vm.opt_str(2)?;
    let name = name.map_or(b"=(load)".as_slice(), |n| n.bytes());
    vm.check_type(1, Type::Function)?;
    let mut text = Vec::new();
    let mut ended = match read_piece(vm, source, &mut text)? {
        Ok(more) => !more,
        Err(message) => return loaded(vm, Err(message)),
    };
    // The compiler asks for what it needs. If the reader fails, the text ends there, and what it failed with
    // counts.
    let mut failure = None;
    let mut more = |vm: &mut Vm, text: &mut Vec<u8>| {
        if !ended {
            match read_piece(vm, source, text) {
                Ok(Ok(more)) => ended = !more,
                failed => {
                    failure = Some(failed);
                    ended = true;
                }
            }
        }
        !ended
    };
    let result = chunk::load_pieces(vm, text, &mut more, name, mode, env);
    match failure {
        None => loaded(vm, result?),
        Some(failed) => loaded(vm, failed?.and(result?)),
    }
}

/// Appends what the reader function gives; false if that is nothing or an empty string. An error of the
/// reader is one of loading, but a message handler outside sees it.
fn read_piece(vm: &mut Vm, reader: Value, text: &mut Vec<u8>) -> LuaResult<Result<bool, Value>> {
    if let Err(thrown) = vm.poll_interrupt() {
        return vm.catch(thrown).map(Err);
    }
    let top = vm.stack_top() as u32;
    let count = match vm.observed_call(reader, &[])? {
        Ok(count) => count,
        Err(message) => return Ok(Err(message)),
    };
    let piece = if count == 0 { Value::NIL } else { vm.stack_get(top + 1) };
    let appended = if let Some(piece) = piece.as_string() {
        scratch::append(vm, text, piece.bytes()).map(|()| piece.len() > 0)
    } else if piece.is_number() {
        Vm::write_number(piece, text);
        Ok(true)
    } else if piece.is_nil() {
        Ok(false)
    } else {
        let thrown = vm.error("reader function must return a string");
        return vm.observed_error(thrown).map(Err);
    };
    vm.truncate(top);
    match appended {
        Ok(more) => Ok(Ok(more)),
        Err(thrown) => vm.catch(thrown).map(Err),
    }
}

fn loadfile(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.opt_str(1)?;
    let mode = vm.opt_str(2)?;
    let env = environment(vm, 3);
    let mode = mode.map_or(b"bt".as_slice(), |m| m.bytes());
    let result = chunk::load_file(vm, name.map(|n| n.bytes()), mode, env)?;
    loaded(vm, result)
}

fn dofile(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.opt_str(1)?;
    let env = vm.caller_environment();
    match chunk::load_file(vm, name.map(|n| n.bytes()), b"bt", env)? {
        Ok(function) => vm.call_multi(function.into(), &[], -1),
        Err(message) => Err(vm.throw(message)),
    }
}

const COLLECT_OPTIONS: [&str; 10] = [
    "stop",
    "restart",
    "collect",
    "count",
    "step",
    "setpause",
    "setstepmul",
    "isrunning",
    "generational",
    "incremental",
];

fn collectgarbage(vm: &mut Vm) -> LuaResult<u32> {
    let option = COLLECT_OPTIONS[vm.check_option(1, Some("collect"), &COLLECT_OPTIONS)?];
    if vm.is_finalizing() {
        return vm.ret(Value::NIL);
    }
    let mut settings = [0; 3];
    if matches!(option, "step" | "setpause" | "setstepmul" | "generational" | "incremental") {
        for (i, setting) in (2..).zip(&mut settings) {
            *setting = vm.opt_int(i, 0)?.max(0);
        }
    }
    match option {
        "stop" => vm.heap().stop(),
        "restart" => vm.heap().restart(),
        "collect" => vm.collect_full(),
        "count" => {
            let bytes = vm.heap_bytes();
            return vm.ret(bytes as f64 / 1024.0);
        }
        "step" => {
            let finished = vm.collect_step(settings[0]);
            return vm.ret(finished);
        }
        "isrunning" => {
            let running = vm.heap().is_running();
            return vm.ret(running);
        }
        _ => return set_collector(vm, option, settings),
    }
    vm.ret(0i64)
}

/// The options that change the collector's parameters; a setting of 0 leaves one as it is.
fn set_collector(vm: &mut Vm, option: &str, settings: [i64; 3]) -> LuaResult<u32> {
    let change = |parameter: &mut usize, setting: i64| {
        if setting != 0 {
            *parameter = setting as usize;
        }
    };
    let old = vm.heap().params();
    let mut new = old;
    let result = match option {
        "setpause" => {
            new.pause = settings[0] as usize;
            Value::int(old.pause as i64)
        }
        "setstepmul" => {
            new.stepmul = settings[0] as usize;
            Value::int(old.stepmul as i64)
        }
        _ => {
            if option == "generational" {
                new.mode = Mode::Generational;
                change(&mut new.minor_mul, settings[0]);
                change(&mut new.major_mul, settings[1]);
            } else {
                new.mode = Mode::Incremental;
                change(&mut new.pause, settings[0]);
                change(&mut new.stepmul, settings[1]);
                change(&mut new.stepsize, settings[2]);
            }
            vm.value_str(match old.mode {
                Mode::Generational => b"generational",
                Mode::Incremental => b"incremental",
            })?
        }
    };
    vm.heap().set_params(new);
    vm.ret(result)
}
