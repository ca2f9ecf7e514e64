//! Shared objects that hold data: typed arrays, atomics, maps, values that each domain has for itself.
//!
//! They are the places where domains may change the same thing at the same time, so each is made so that
//! nothing worse than a lost update can come of it, and each has operations that lose none. What they may
//! hold is [`plain::Plain`]: values that are the same in every domain.

pub mod array;
pub mod atomic;
mod frozen;
pub mod map;
pub mod per_domain;
pub mod plain;
pub mod records;
pub mod strings;

use crate::nearest::nearest;
pub(crate) use frozen::{Contents, freeze};
use perilune_trace::{Category, Identity, names, on};
use perilune_vm::cycle_collector::Registered;
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};

/// The shared object that is argument 1 is going to hold `held`.
pub(crate) fn register(vm: &mut Vm, registered: &Registered, held: &plain::Plain) {
    if held.holds_counts()
        && let Some(this) = vm.arg(1).as_shared()
    {
        registered.shared(|| this.object().downgrade());
    }
}

/// Fills a metatable: `methods` become the fields of `__index`, `events` those of the metatable.
///
/// # Errors
/// "not enough memory"
pub fn fill(
    vm: &mut Vm,
    mt: Gc<Table>,
    methods: &[&'static Native],
    events: &[(&str, &'static Native)],
) -> LuaResult<()> {
    let index = vm.new_table(0, methods.len())?;
    vm.set_field(mt, "__index", index.into())?;
    for m in methods {
        vm.set_field(index, m.name, Value::native(m))?;
    }
    for (name, native) in events {
        vm.set_field(mt, name, Value::native(native))?;
    }
    Ok(())
}

/// Reading a name that is none of the methods of a metatable which [`fill`] has made becomes an error. `what`
/// is what messages call the object ("a map"), `otherwise` what to write for anything else ("m:get(k) reads a
/// key").
pub(crate) fn refuse_other_names(vm: &mut Vm, mt: Gc<Table>, what: &str, otherwise: &str) -> LuaResult<()> {
    let methods = vm.get_field(mt, "__index")?;
    let beyond = vm.new_table(0, 1)?;
    vm.push(beyond.into());
    let what = vm.value_str(what.as_bytes())?;
    vm.push(what);
    let otherwise = vm.value_str(otherwise.as_bytes())?;
    vm.push(otherwise);
    let other = vm.new_native_closure(&OTHER_NAME, &[what, otherwise])?;
    vm.set_field(beyond, "__index", other)?;
    vm.set_metatable_of(methods, Some(beyond))?;
    vm.pop();
    vm.pop();
    vm.pop();
    Ok(())
}

/// Raises that the object has no such name. Argument 1: the methods. Upvalues: what the object is called;
/// what to write for anything else.
static OTHER_NAME: Native = Native::leaf("index", |vm| {
    let key = vm.arg(2);
    let text = |v: Value| v.as_string().map_or(String::new(), |s| s.to_text());
    let (what, otherwise) = (text(vm.upvalue(1)), text(vm.upvalue(2)));
    let Some(name) = key.as_string().map(|s| s.to_text()) else {
        // Beyond the ends of an array nothing is found, as beyond those of a table.
        if key.is_number() && otherwise.is_empty() {
            return vm.ret(Value::NIL);
        }
        let found = key.type_name();
        return Err(vm.error(format!("{what} cannot be indexed by a {found}{}", then(&otherwise))));
    };
    let mut names = Vec::new();
    if let Some(methods) = vm.arg(1).as_table() {
        let mut at = Value::NIL;
        while let Some((k, _)) = vm.raw_next(methods, at)? {
            names.push(text(k));
            at = k;
        }
    }
    names.sort();
    Err(vm.error(format!("{what} has no method '{name}'{}", meant(&name, &names, &otherwise))))
});

/// `; did you mean 'get'?`, or `otherwise`, or all there are.
pub(crate) fn meant(name: &str, names: &[String], otherwise: &str) -> String {
    match nearest(name, names.iter().map(String::as_str)).first() {
        Some(near) => format!("; did you mean '{near}'?"),
        None if otherwise.is_empty() => format!("; there are {}", quoted(names)),
        None => then(otherwise),
    }
}

fn then(otherwise: &str) -> String {
    if otherwise.is_empty() { String::new() } else { format!(": {otherwise}") }
}

/// `'a', 'b'`
pub(crate) fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{}'", name.as_ref())).collect();
    names.join(", ")
}

/// Argument `n`, which replaces a value by what it returns.
///
/// # Errors
/// It cannot be called.
pub(crate) fn check_changer(vm: &mut Vm, n: u32) -> LuaResult<Value> {
    let f = vm.arg(n);
    if f.is_function() || !vm.metafield(f, "__call")?.is_nil() {
        return Ok(f);
    }
    let got = if vm.nargs() < n { "no value" } else { f.type_name() };
    Err(vm.arg_error(n, &format!("function expected, got {got}")))
}

/// An object has just been made: events call it by the place.
pub(crate) fn report_made(vm: &Vm, identity: &Identity) {
    if on(Category::Contention)
        && let Some(site) = vm.running_site(None)
    {
        let object = identity.get();
        names::label(object, site.to_string().as_bytes());
    }
}
