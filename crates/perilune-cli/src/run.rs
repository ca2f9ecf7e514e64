//! What `lua` does with its command line: version, libraries, `arg`, LUA_INIT, options in order, script,
//! interactive mode.

use crate::options::{self, Options, Script};
use crate::{protected, repl};
use perilune_domain::Runtime;
use perilune_stdlib::chunk;
use perilune_vm::{LuaResult, Value, Vm};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// The command proper: true if no Lua code failed.
///
/// # Errors
/// Those that have no report of their own: `arg` is no table, a prompt cannot be made, no memory.
pub fn main(vm: &mut Vm, runtime: &Arc<Runtime>, options: &Options) -> LuaResult<bool> {
    let flags = options.flags;
    if flags.version {
        print_version();
    }
    if flags.ignore_environment {
        let registry = vm.registry();
        vm.set_field(registry, "LUA_NOENV", Value::TRUE)?;
    }
    perilune_stdlib::open_libs_with(vm, &runtime.config().paths)?;
    perilune_domain::open(vm, runtime)?;
    set_arg_table(vm, options)?;
    let succeeded = (flags.ignore_environment || run_init(vm)?)
        && run_options(vm, options)?
        && match options.script {
            Script::At(n) => run_script(vm, options, n)?,
            Script::Absent => true,
        };
    if !succeeded {
        return Ok(false);
    }
    if flags.interactive {
        repl::run(vm, options::is_lua(&options.words[0]))?;
    } else if options.script == Script::Absent && !flags.execute && !flags.version {
        if std::io::stdin().is_terminal() {
            print_version();
            repl::run(vm, options::is_lua(&options.words[0]))?;
        } else {
            run_file(vm, None)?;
        }
    }
    Ok(true)
}

fn print_version() {
    println!(
        "Lua 5.4 (Perilune {}), a runtime for the language of Lua.org, PUC-Rio",
        env!("CARGO_PKG_VERSION")
    );
}

/// `arg`: the script's name at 0, its arguments above, everything before it below.
fn set_arg_table(vm: &mut Vm, options: &Options) -> LuaResult<()> {
    let zero = match options.script {
        Script::At(n) => n,
        Script::Absent => 0,
    };
    let table = vm.new_table(options.words.len() - zero, zero + 1)?;
    for (i, word) in options.words.iter().enumerate() {
        let word = vm.value_str(word)?;
        vm.raw_set_int(table, i as i64 - zero as i64, word)?;
    }
    vm.set_global("arg", table.into())
}

fn run_init(vm: &mut Vm) -> LuaResult<bool> {
    for name in ["LUA_INIT_5_4", "LUA_INIT"] {
        let Some(init) = std::env::var_os(name).map(OsStringExt::into_vec) else { continue };
        return match init.strip_prefix(b"@") {
            Some(file) => run_file(vm, Some(file)),
            None => run_string(vm, &init, format!("={name}").as_bytes()),
        };
    }
    Ok(true)
}

/// Carries out `-e`, `-l` and `-W`, in order; stops at the first that fails.
fn run_options(vm: &mut Vm, options: &Options) -> LuaResult<bool> {
    let mut words = options.words[..options.options_end].iter().skip(1);
    while let Some(word) = words.next() {
        let (letter, attached) = match word.as_slice() {
            [b'-', letter, attached @ ..] => (*letter, attached),
            _ => continue,
        };
        let succeeded = match letter {
            b'e' | b'l' => {
                let argument =
                    if attached.is_empty() { words.next().map_or(attached, |w| w) } else { attached };
                if letter == b'e' {
                    run_string(vm, argument, b"=(command line)")?
                } else {
                    require(vm, argument)?
                }
            }
            b'W' => {
                vm.warn_piece(b"@on", false);
                true
            }
            _ => true,
        };
        if !succeeded {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run_string(vm: &mut Vm, source: &[u8], name: &[u8]) -> LuaResult<bool> {
    let loaded = chunk::load(vm, source, name, b"bt", None)?;
    Ok(run_chunk(vm, loaded.map(Value::from)))
}

fn run_file(vm: &mut Vm, name: Option<&[u8]>) -> LuaResult<bool> {
    let loaded = chunk::load_file(vm, name, b"bt", None)?;
    Ok(run_chunk(vm, loaded.map(Value::from)))
}

fn run_chunk(vm: &mut Vm, loaded: Result<Value, Value>) -> bool {
    let depth = vm.stack_top() as u32;
    let succeeded = match loaded {
        Ok(f) => protected::call_reporting(vm, f, &[]).is_some(),
        Err(message) => {
            protected::report(message);
            false
        }
    };
    vm.truncate(depth);
    succeeded
}

/// `-l mod` and `-l g=mod`: the global is `mod` up to a `-`, or `g`.
fn require(vm: &mut Vm, argument: &[u8]) -> LuaResult<bool> {
    let (global, module) = match argument.iter().position(|&b| b == b'=') {
        Some(at) => (&argument[..at], &argument[at + 1..]),
        None => (argument.split(|&b| b == b'-').next().unwrap_or(argument), argument),
    };
    let globals: Value = vm.globals().into();
    let key = vm.value_str(b"require")?;
    let require = vm.index(globals, key)?;
    let module = vm.value_str(module)?;
    let depth = vm.stack_top() as u32;
    let Some(results) = protected::call_reporting(vm, require, &[module]) else { return Ok(false) };
    let value = if results == 0 { Value::NIL } else { vm.stack_get(depth + 1) };
    vm.truncate(depth);
    let name = vm.value_str(global)?;
    vm.set_index(globals, name, value)?;
    Ok(true)
}

/// Runs the script with what `arg` holds from 1 on: LUA_INIT and `-e` may have changed it.
fn run_script(vm: &mut Vm, options: &Options, n: usize) -> LuaResult<bool> {
    let name = options.words[n].as_slice();
    let is_stdin = name == b"-" && options.words[n - 1] != b"--";
    let loaded = chunk::load_file(vm, (!is_stdin).then_some(name), b"bt", None)?;
    let f = match loaded {
        Ok(f) => {
            vm.snapshot_when_over(f);
            Value::from(f)
        }
        Err(message) => {
            protected::report(message);
            if let Some(hint) = options::hint(options, n).filter(|_| !is_stdin) {
                protected::write_message(hint.as_bytes());
            }
            return Ok(false);
        }
    };
    let globals: Value = vm.globals().into();
    let key = vm.value_str(b"arg")?;
    let table = vm.index(globals, key)?;
    if table.as_table().is_none() {
        return Err(vm.error("'arg' is not a table"));
    }
    let count = vm.len_int(table)?;
    let mut args = Vec::new();
    for i in 1..=count {
        let table = table.as_table().expect("checked above");
        args.push(vm.raw_get_int(table, i));
    }
    let depth = vm.stack_top() as u32;
    let succeeded = protected::call_reporting(vm, f, &args).is_some();
    vm.truncate(depth);
    Ok(succeeded)
}
