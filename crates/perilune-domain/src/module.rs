//! `require "perilune"`: the module through which programs reach this room.
//!
//! The module is made when it is first required; a program that never does so pays for one entry in
//! `package.preload`.

use crate::domain::Domain;
use crate::objects::{array, atomic, map, per_domain};
use crate::runtime::Runtime;
use crate::{channel, loops, options, pool, scope, select, semaphore, spawn, time, trace};
use perilune_heap::{LEAST_PROGRAM_LIMIT, program_bytes, program_limit, set_program_limit};
use perilune_vm::{LuaResult, Native, Thrown, Value, Vm};
use std::sync::{Arc, OnceLock};

/// Makes `require "perilune"` work in a state whose standard library is open: as part of this program.
///
/// # Errors
/// "not enough memory"
pub fn open(vm: &mut Vm, runtime: &Arc<Runtime>) -> LuaResult<()> {
    vm.set_embedder(runtime.clone());
    let package = vm.get_field(vm.globals(), "package")?;
    if let Some(package) = package.as_table()
        && let Some(preload) = vm.get_field(package, "preload")?.as_table()
    {
        vm.set_field(preload, "perilune", Value::native(&OPEN))?;
        for module in &runtime.config().modules {
            vm.set_field(preload, module.0.name, Value::native(module.0))?;
        }
    }
    perilune_data::open(vm)?;
    crate::bundle::open(vm, runtime)
}

static OPEN: Native = Native::leaf("perilune", |vm| {
    if vm.host().is_none() {
        Domain::adopt(vm);
    }
    if Domain::of(vm)?.domain.runtime().config().check_races {
        crate::races::begin();
    }
    vm.seal_modules();
    let pl = vm.new_table(0, 30)?;
    vm.push(pl.into());
    vm.register(
        pl,
        &[
            &SHARE,
            &IS_SHARED,
            &LIMIT,
            &MEMORY,
            &crate::inspect::INSPECT,
            &crate::bundle::ASSET,
            &perilune_vm::ARENA,
            &array::NEW,
            &atomic::NEW,
            &map::NEW,
            &per_domain::NEW,
            &time::NOW,
            &time::SLEEP,
            &time::AFTER,
            &time::EVERY,
            &semaphore::NEW,
            &crate::listing::FIBERS,
        ],
    )?;
    spawn::register(vm, pl)?;
    channel::register(vm, pl)?;
    pool::register(vm, pl)?;
    scope::register(vm, pl)?;
    trace::register(vm, pl)?;
    crate::io::register(vm, pl)?;
    vm.ret(pl)
});

/// Bytes of address space that a fresh state takes.
const LEAST_STATE: usize = 6 << 20;

/// A fresh state with all libraries, for a domain whose heap may hold so many bytes; `None`: the system has
/// no memory for one.
pub(crate) fn new_state(runtime: &Arc<Runtime>, limit: Option<usize>) -> Option<Box<Vm>> {
    let config = runtime.config();
    let limit = limit.or(config.heap.limit);
    if !perilune_heap::space::has_headroom(LEAST_STATE) {
        return None;
    }
    let options = perilune_heap::HeapOptions { limit, ..config.heap.clone() };
    let mut vm = Vm::try_with_options(options).ok()?;
    // The program's limit has to wait for what the domain is for: that is refused with an error of its own.
    vm.heap().set_exempt(true);
    if let Some(specializer) = &config.specializer {
        vm.set_specializer(Arc::clone(specializer));
    }
    perilune_stdlib::open_libs_with(&mut vm, &config.paths).and_then(|()| open(&mut vm, runtime)).ok()?;
    vm.heap().set_exempt(false);
    Some(vm)
}

/// A function of the module's part that is written in Lua.
pub(crate) fn prelude(vm: &mut Vm, name: &str) -> LuaResult<Value> {
    const KEY: &str = "perilune.prelude";
    let registry = vm.registry();
    let known = vm.get_field(registry, KEY)?;
    let table = if known.is_nil() {
        let table = vm.new_table(0, 48)?;
        vm.push(table.into());
        vm.register(
            table,
            &[
                &pool::AWAIT_ALL,
                &IS_SHARED,
                &ARRAY_LIKE,
                &COUNT,
                &pool::AWAIT_ANY,
                &loops::CROSSED,
                &loops::IS_HUNGRY,
                &time::NOW,
                &scope::OPEN,
                &scope::RUN,
                &select::SELECT,
                &select::IS_AWAITABLE,
                &options::TROUBLE,
                &RAISE,
            ],
        )?;
        for proto in PRELUDE.get_or_init(|| PRELUDE_SOURCES.map(compile_prelude)) {
            let env = vm.globals().into();
            let chunk = vm.new_main_closure(Arc::clone(proto), env)?;
            vm.call(chunk.into(), &[table.into()])?;
        }
        vm.set_field(registry, KEY, table.into())?;
        vm.pop();
        Value::from(table)
    } else {
        known
    };
    match table.as_table() {
        Some(t) => vm.get_field(t, name),
        None => Ok(Value::NIL),
    }
}

/// `raise(message)`: an error with the position of the program's code. For the prelude.
static RAISE: Native = Native::leaf("raise", |vm| {
    let text = vm.check_str(1)?.to_text();
    Err(program_error(vm, &text))
});

/// An error with the position of the program's code, also if it is a function of the prelude that called the
/// native.
pub(crate) fn program_error(vm: &mut Vm, text: &str) -> Thrown {
    let caller = vm.running_site(None).filter(|site| site.source() == PRELUDE_NAME);
    match caller.and_then(|_| vm.running_site(Some(PRELUDE_NAME))) {
        Some(site) => vm.error_plain(format!("{site}: {text}")),
        None => vm.error(text),
    }
}

/// Name of the prelude's chunk.
pub(crate) const PRELUDE_NAME: &[u8] = perilune_vm::parcel::OWN_SOURCE;

/// What of the module is written in Lua. Each adds its functions to the table that it gets.
const PRELUDE_SOURCES: [&[u8]; 2] = [include_bytes!("prelude.lua"), include_bytes!("scope/concurrent.lua")];

static PRELUDE: OnceLock<[Arc<perilune_syntax::Proto>; PRELUDE_SOURCES.len()]> = OnceLock::new();

pub(crate) fn compile_prelude(source: &[u8]) -> Arc<perilune_syntax::Proto> {
    perilune_syntax::compile(source, PRELUDE_NAME)
        .unwrap_or_else(|e| unreachable!("the prelude compiles: {}", String::from_utf8_lossy(&e.message)))
}

/// `pl.share(v)`: a frozen deep copy that all domains read.
static SHARE: Native = Native::leaf("share", |vm| {
    vm.check_any(1)?;
    vm.check_none_behind(1)?;
    let v = vm.arg(1);
    let shared = vm.share(v)?;
    vm.ret(shared)
});

/// `pl.is_shared(v)`: can `v` be used by another domain without being copied?
static IS_SHARED: Native = Native::leaf("is_shared", |vm| {
    vm.check_none_behind(1)?;
    let v = vm.arg(1);
    let shared = v.as_shared().is_some() || vm.is_shared(v);
    vm.ret(shared)
});

/// `pl.limit{memory = bytes}`: from now on all domains, islands, arrays and messages together may hold so
/// many bytes; `memory = false`: as many as there are. Returns the limit before, or nil.
static LIMIT: Native = Native::leaf("limit", |vm| {
    vm.check_table(1)?;
    vm.check_none_behind(1)?;
    let options = options::opt(vm, 1, &["memory"])?;
    let memory = options.map_or(Ok(Value::NIL), |options| options.get(vm, "memory"))?;
    let limit = match memory.as_int() {
        Some(bytes) if bytes >= LEAST_PROGRAM_LIMIT as i64 => Some(bytes as usize),
        None if memory.is_falsy() && !memory.is_nil() => None,
        None if memory.is_nil() => {
            let now = program_limit();
            return ret_bytes(vm, now);
        }
        _ => {
            let text = format!(
                "'memory' must be an integer, the bytes that the program may hold, at least \
                 {LEAST_PROGRAM_LIMIT}, or false"
            );
            return Err(vm.arg_error(1, &text));
        }
    };
    ret_bytes(vm, set_program_limit(limit))
});

fn ret_bytes(vm: &mut Vm, bytes: Option<usize>) -> LuaResult<u32> {
    vm.ret(bytes.map_or(Value::NIL, |bytes| Value::int(bytes as i64)))
}

/// `pl.memory()`: what the program holds, in bytes, and of that what heaps, islands, arrays and messages do;
/// and its limit.
static MEMORY: Native = Native::leaf("memory", |vm| {
    vm.check_none_behind(0)?;
    let bytes = program_bytes();
    let parts = vm.new_table(0, 6)?;
    vm.push(parts.into());
    let limit = program_limit().map_or(Value::NIL, |limit| Value::int(limit as i64));
    vm.set_field(parts, "limit", limit)?;
    for (name, bytes) in [
        ("total", bytes.total()),
        ("heaps", bytes.heaps),
        ("islands", bytes.islands),
        ("arrays", bytes.arrays),
        ("messages", bytes.messages),
    ] {
        vm.set_field(parts, name, Value::int(bytes as i64))?;
    }
    Ok(1)
});

/// `prelude.count(t)`: how many entries a table has.
static COUNT: Native = Native::leaf("count", |vm| {
    let table = vm.check_table(1)?;
    let (mut key, mut count) = (Value::NIL, 0i64);
    while let Some((k, _)) = vm.raw_next(table, key)? {
        (key, count) = (k, count + 1);
    }
    vm.ret(count)
});

/// `prelude.array_like(a, n)`: a new array of the kind of `a`, if that is one.
static ARRAY_LIKE: Native = Native::leaf("array_like", |vm| {
    let n = vm.check_int(2)?;
    let like = vm.arg(1);
    let array = array::alike(vm, like, n as usize)?;
    vm.ret(array.unwrap_or(Value::NIL))
});

/// An error value as text, for reports.
pub(crate) fn error_text(v: Value) -> String {
    if let Some(s) = v.as_string() {
        return s.to_text();
    }
    if v.is_number() {
        return format!("{v:?}");
    }
    format!("(error object is a {} value)", v.type_name())
}
