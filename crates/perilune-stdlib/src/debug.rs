//! The `debug` library (manual 6.10): what programs see of the machine's debug interface.
//!
//! Most functions take a coroutine as an optional first argument; [`subject`] sorts that out. All but
//! `debug.debug` are leaves: level 0 is the library function itself, level 1 whoever called it. A hook is
//! kept by its coroutine; the registry's `_HOOKKEY` table lists hooks by coroutine, weakly, because programs
//! look for it there.

use crate::io;
use perilune_vm::{
    Gc, HOOK_CALL, HOOK_COUNT, HOOK_LINE, HOOK_RETURN, LoadMode, LuaResult, Native, Table, Thread, Thrown,
    Type, Value, Vm,
};

static DEBUG: Native = Native::reentrant("debug", debug);
static GETHOOK: Native = Native::leaf("gethook", gethook);
static GETINFO: Native = Native::leaf("getinfo", getinfo);
static GETLOCAL: Native = Native::leaf("getlocal", getlocal);
static GETMETATABLE: Native = Native::leaf("getmetatable", getmetatable);
static GETREGISTRY: Native = Native::leaf("getregistry", getregistry);
static GETUPVALUE: Native = Native::leaf("getupvalue", getupvalue);
static GETUSERVALUE: Native = Native::leaf("getuservalue", getuservalue);
static SETCSTACKLIMIT: Native = Native::leaf("setcstacklimit", setcstacklimit);
static SETHOOK: Native = Native::leaf("sethook", sethook);
static SETLOCAL: Native = Native::leaf("setlocal", setlocal);
static SETMETATABLE: Native = Native::leaf("setmetatable", setmetatable);
static SETUPVALUE: Native = Native::leaf("setupvalue", setupvalue);
static SETUSERVALUE: Native = Native::leaf("setuservalue", setuservalue);
static TRACEBACK: Native = Native::leaf("traceback", traceback);
static UPVALUEID: Native = Native::leaf("upvalueid", upvalueid);
static UPVALUEJOIN: Native = Native::leaf("upvaluejoin", upvaluejoin);

/// What `setcstacklimit` answers, whatever it is asked for: the limit cannot be changed.
const NATIVE_CALLS: i64 = 200;
/// Field of the registry with the table of hooks.
const HOOKS: &str = "_HOOKKEY";

/// Opens the library: the global `debug` and `package.loaded.debug`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let table = vm.new_table(0, 18)?;
    vm.set_global("debug", Value::from(table))?;
    vm.register(
        table,
        &[
            &DEBUG,
            &GETHOOK,
            &GETINFO,
            &GETLOCAL,
            &GETMETATABLE,
            &GETREGISTRY,
            &GETUPVALUE,
            &GETUSERVALUE,
            &SETCSTACKLIMIT,
            &SETHOOK,
            &SETLOCAL,
            &SETMETATABLE,
            &SETUPVALUE,
            &SETUSERVALUE,
            &TRACEBACK,
            &UPVALUEID,
            &UPVALUEJOIN,
        ],
    )?;
    vm.set_loaded("debug", Value::from(table))
}

/// The coroutine a function is asked about, and how many arguments that took.
fn subject(vm: &Vm) -> (Gc<Thread>, u32) {
    match vm.arg(1).as_thread() {
        Some(th) => (th, 1),
        None => (vm.thread(), 0),
    }
}

/// Argument `i` as C's `int`.
fn check_c_int(vm: &mut Vm, i: u32) -> LuaResult<i32> {
    Ok(vm.check_int(i)? as i32)
}

/// A level that may be out of range; no stack has as many as the one that stands for negative numbers.
fn check_level(vm: &mut Vm, i: u32) -> LuaResult<u32> {
    Ok(u32::try_from(check_c_int(vm, i)?).unwrap_or(u32::MAX))
}

/// What a level argument must be an active function.
fn check_active(vm: &mut Vm, th: Gc<Thread>, i: u32) -> LuaResult<u32> {
    let level = check_level(vm, i)?;
    match vm.function_at(th, level) {
        Some(_) => Ok(level),
        None => Err(vm.arg_error(i, "level out of range")),
    }
}

fn set_str(vm: &mut Vm, t: Gc<Table>, name: &str, text: &[u8]) -> LuaResult<()> {
    let v = vm.value_str(text)?;
    vm.set_field(t, name, v)
}

fn set_int(vm: &mut Vm, t: Gc<Table>, name: &str, n: i64) -> LuaResult<()> {
    vm.set_field(t, name, Value::int(n))
}

/// `debug.getinfo([thread,] f [, what])`
fn getinfo(vm: &mut Vm) -> LuaResult<u32> {
    let (th, at) = subject(vm);
    let options = match vm.opt_str(at + 2)? {
        Some(s) => s.bytes().to_vec(),
        None => b"flnSrtu".to_vec(),
    };
    if options.first() == Some(&b'>') {
        return Err(vm.arg_error(at + 2, "invalid option '>'"));
    }
    let (f, level) = if vm.arg(at + 1).is_function() {
        (vm.arg(at + 1), None)
    } else {
        let level = check_level(vm, at + 1)?;
        match vm.function_at(th, level) {
            Some(f) => (f, Some(level)),
            None => return vm.ret(Value::NIL),
        }
    };
    if options.iter().any(|o| !b"SlnrutLf".contains(o)) {
        return Err(vm.arg_error(at + 2, "invalid option"));
    }
    let asked = |o: u8| options.contains(&o);
    let Some(info) = vm.function_info(f) else { return vm.ret(Value::NIL) };
    let t = vm.new_table(0, 16)?;
    vm.push(t.into());
    if asked(b'S') {
        set_str(vm, t, "source", &info.source)?;
        set_str(vm, t, "short_src", &info.short_source)?;
        set_int(vm, t, "linedefined", info.line_defined)?;
        set_int(vm, t, "lastlinedefined", info.last_line_defined)?;
        set_str(vm, t, "what", info.what.as_bytes())?;
    }
    if asked(b'l') {
        let line = level.and_then(|level| vm.line_at(th, level));
        set_int(vm, t, "currentline", line.map_or(-1, i64::from))?;
    }
    if asked(b'u') {
        set_int(vm, t, "nups", i64::from(info.upvalues))?;
        set_int(vm, t, "nparams", i64::from(info.params))?;
        vm.set_field(t, "isvararg", Value::bool(info.is_vararg))?;
    }
    if asked(b'n') {
        let name = level.and_then(|level| vm.call_name_at(th, level));
        if let Some((_, name)) = &name {
            set_str(vm, t, "name", name)?;
        }
        set_str(vm, t, "namewhat", name.map_or("", |(kind, _)| kind).as_bytes())?;
    }
    if asked(b'r') {
        let (first, count) = level.map_or((0, 0), |level| vm.transfer_at(th, level));
        set_int(vm, t, "ftransfer", i64::from(first))?;
        set_int(vm, t, "ntransfer", i64::from(count))?;
    }
    if asked(b't') {
        let tail = level.is_some_and(|level| vm.is_tail_call_at(th, level));
        vm.set_field(t, "istailcall", Value::bool(tail))?;
    }
    if asked(b'L')
        && let Some(lines) = vm.active_lines(f)
    {
        let set = vm.new_table(0, 0)?;
        vm.set_field(t, "activelines", set.into())?;
        for line in lines {
            vm.raw_set_int(set, i64::from(line), Value::TRUE)?;
        }
    }
    if asked(b'f') {
        vm.set_field(t, "func", f)?;
    }
    Ok(1)
}

/// `debug.getlocal([thread,] f, local)`
fn getlocal(vm: &mut Vm) -> LuaResult<u32> {
    let (th, at) = subject(vm);
    let n = i64::from(check_c_int(vm, at + 2)?);
    let f = vm.arg(at + 1);
    if f.is_function() {
        return match vm.parameter_name(f, n) {
            Some(name) => vm.ret_str(&name),
            None => vm.ret(Value::NIL),
        };
    }
    let level = check_active(vm, th, at + 1)?;
    match vm.local_at(th, level, n) {
        Some((name, v)) => {
            vm.push_str(&name)?;
            vm.push(v);
            Ok(2)
        }
        None => vm.ret(Value::NIL),
    }
}

/// `debug.setlocal([thread,] level, local, value)`
fn setlocal(vm: &mut Vm) -> LuaResult<u32> {
    let (th, at) = subject(vm);
    let level = check_level(vm, at + 1)?;
    let n = i64::from(check_c_int(vm, at + 2)?);
    if vm.function_at(th, level).is_none() {
        return Err(vm.arg_error(at + 1, "level out of range"));
    }
    vm.check_any(at + 3)?;
    vm.truncate(at + 3);
    match vm.set_local_at(th, level, n, vm.arg(at + 3)) {
        Some(name) => vm.ret_str(&name),
        None => vm.ret(Value::NIL),
    }
}

/// `debug.getupvalue(f, up)`
fn getupvalue(vm: &mut Vm) -> LuaResult<u32> {
    let n = i64::from(check_c_int(vm, 2)?);
    vm.check_type(1, Type::Function)?;
    match vm.upvalue_of(vm.arg(1), n) {
        Some((name, v)) => {
            vm.push_str(&name)?;
            vm.push(v);
            Ok(2)
        }
        None => Ok(0),
    }
}

/// Refuses a function of an island as argument 1.
fn check_private(vm: &mut Vm) -> LuaResult<()> {
    match vm.arg(1).as_shared_function() {
        Some(_) => Err(vm.error("attempt to modify a shared function")),
        None => Ok(()),
    }
}

/// `debug.setupvalue(f, up, value)`
fn setupvalue(vm: &mut Vm) -> LuaResult<u32> {
    check_private(vm)?;
    vm.check_any(3)?;
    let n = i64::from(check_c_int(vm, 2)?);
    vm.check_type(1, Type::Function)?;
    vm.check_upvalue_writable(vm.arg(1), n)?;
    match vm.set_upvalue_of(vm.arg(1), n, vm.arg(3)) {
        Some(name) => vm.ret_str(&name),
        None => Ok(0),
    }
}

/// Number and identity of the upvalue that arguments `f` and `n` name.
fn check_upvalue(vm: &mut Vm, f: u32, n: u32) -> LuaResult<(i64, Option<usize>)> {
    let index = i64::from(check_c_int(vm, n)?);
    vm.check_type(f, Type::Function)?;
    Ok((index, vm.upvalue_identity(vm.arg(f), index)))
}

/// `debug.upvalueid(f, n)`
fn upvalueid(vm: &mut Vm) -> LuaResult<u32> {
    let (_, id) = check_upvalue(vm, 1, 2)?;
    vm.ret(id.map_or(Value::NIL, Value::light))
}

/// `debug.upvaluejoin(f1, n1, f2, n2)`
fn upvaluejoin(vm: &mut Vm) -> LuaResult<u32> {
    check_private(vm)?;
    let mut numbers = [0; 2];
    for (n, number) in (0..2).zip(&mut numbers) {
        let (index, id) = check_upvalue(vm, 2 * n + 1, 2 * n + 2)?;
        if id.is_none() {
            return Err(vm.arg_error(2 * n + 2, "invalid upvalue index"));
        }
        *number = index;
    }
    let mut lua = |i: u32| -> Result<_, Thrown> {
        match vm.arg(i).as_closure() {
            Some(c) => Ok(c),
            None => Err(vm.arg_error(i, "Lua function expected")),
        }
    };
    let (f, g) = (lua(1)?, lua(3)?);
    vm.check_upvalue_writable(f.into(), numbers[0])?;
    vm.join_upvalues(f, numbers[0], g, numbers[1]);
    Ok(0)
}

/// `debug.getmetatable(value)`
fn getmetatable(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_any(1)?;
    let mt = vm.metatable_of(vm.arg(1));
    vm.ret(mt.map_or(Value::NIL, Value::from))
}

/// `debug.setmetatable(value, table)`
fn setmetatable(vm: &mut Vm) -> LuaResult<u32> {
    let mt = vm.arg(2).as_table();
    if mt.is_none() && (vm.arg_is_none(2) || !vm.arg(2).is_nil()) {
        return Err(vm.type_error(2, "nil or table"));
    }
    vm.set_metatable_of(vm.arg(1), mt)?;
    vm.ret(vm.arg(1))
}

/// `debug.getregistry()`
fn getregistry(vm: &mut Vm) -> LuaResult<u32> {
    vm.ret(vm.registry())
}

/// `debug.getuservalue(u, n)`
fn getuservalue(vm: &mut Vm) -> LuaResult<u32> {
    let n = vm.opt_int(2, 1)?;
    match vm.arg(1).as_userdata().and_then(|u| vm.user_value(u, n)) {
        Some(v) => {
            vm.push(v);
            vm.push(Value::TRUE);
            Ok(2)
        }
        None => vm.ret(Value::NIL),
    }
}

/// `debug.setuservalue(udata, value, n)`
fn setuservalue(vm: &mut Vm) -> LuaResult<u32> {
    let n = vm.opt_int(3, 1)?;
    let Some(u) = vm.arg(1).as_userdata() else {
        return Err(vm.type_error(1, "userdata"));
    };
    vm.check_any(2)?;
    let done = vm.set_user_value(u, n, vm.arg(2));
    vm.ret(if done { Value::from(u) } else { Value::NIL })
}

/// `debug.sethook([thread,] hook, mask [, count])`
fn sethook(vm: &mut Vm) -> LuaResult<u32> {
    let (th, at) = subject(vm);
    let (mut hook, mut mask, mut count) = (Value::NIL, 0, 0);
    if !vm.arg_is_none_or_nil(at + 1) {
        let events = vm.check_str(at + 2)?;
        vm.check_type(at + 1, Type::Function)?;
        hook = vm.arg(at + 1);
        count = vm.opt_int(at + 3, 0)? as i32;
        for (letter, bit) in [(b'c', HOOK_CALL), (b'r', HOOK_RETURN), (b'l', HOOK_LINE)] {
            if events.bytes().contains(&letter) {
                mask |= bit;
            }
        }
        if count > 0 {
            mask |= HOOK_COUNT;
        }
    }
    let registry = vm.registry();
    let hooks = match vm.get_field(registry, HOOKS)?.as_table() {
        Some(t) => t,
        None => {
            let t = vm.new_table(0, 2)?;
            vm.set_field(registry, HOOKS, t.into())?;
            set_str(vm, t, "__mode", b"k")?;
            vm.set_metatable_of(t.into(), Some(t))?;
            t
        }
    };
    vm.raw_set(hooks, th.into(), hook)?;
    vm.set_hook(th, hook, mask, count);
    Ok(0)
}

/// `debug.gethook([thread])`
fn gethook(vm: &mut Vm) -> LuaResult<u32> {
    let (th, _) = subject(vm);
    let Some((hook, mask, count)) = vm.hook_of(th) else { return vm.ret(Value::NIL) };
    vm.push(hook);
    let letters = [(b'c', HOOK_CALL), (b'r', HOOK_RETURN), (b'l', HOOK_LINE)];
    let events: Vec<u8> =
        letters.iter().filter(|(_, bit)| mask & bit != 0).map(|(letter, _)| *letter).collect();
    vm.push_str(&events)?;
    vm.push(Value::int(i64::from(count)));
    Ok(3)
}

/// `debug.traceback([thread,] [message [, level]])`
fn traceback(vm: &mut Vm) -> LuaResult<u32> {
    let (th, at) = subject(vm);
    let message = vm.arg(at + 1);
    if !message.is_nil() && message.as_string().is_none() && !message.is_number() {
        return vm.ret(message);
    }
    let own = th == vm.thread();
    let level = if vm.arg_is_none_or_nil(at + 2) { own as u32 } else { check_level(vm, at + 2)? };
    let message = if message.is_nil() { None } else { Some(vm.check_str(at + 1)?) };
    let text = vm.traceback(th, message.as_ref().map(|s| s.bytes()), level);
    vm.ret_str(&text)
}

/// `debug.setcstacklimit(limit)`
fn setcstacklimit(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_int(1)?;
    vm.ret(Value::int(NATIVE_CALLS))
}

/// `debug.debug()`
fn debug(vm: &mut Vm) -> LuaResult<u32> {
    let mut line = Vec::new();
    loop {
        io::write_error(b"lua_debug> ");
        if !io::read_line(vm, &mut line) || line == b"cont\n" {
            return Ok(0);
        }
        let outcome = match vm.load(&line, b"=(debug command)", LoadMode::Both, None) {
            Ok(f) => vm.protected_call(f.into(), &[])?.map(|_| ()),
            Err(e) => Err(e),
        };
        vm.truncate(0);
        if let Err(e) = outcome {
            vm.push(e);
            let text = vm.tostring(e)?;
            let mut text = text.bytes().to_vec();
            text.push(b'\n');
            io::write_error(&text);
            vm.truncate(0);
        }
    }
}
