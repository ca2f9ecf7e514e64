//! Shared objects that hold data: typed arrays, atomics, maps, values that each domain has for itself.
//!
//! They are the places where domains may change the same thing at the same time, so each is made so that nothing worse than a
//! lost update can come of it, and each has operations that lose none. What they may hold is [`plain::Plain`]: values that are the same in
//! every domain.

pub mod array;
pub mod atomic;
mod frozen;
pub mod map;
pub mod per_domain;
pub mod plain;

pub(crate) use frozen::{Contents, freeze};
use perilune_trace::{Category, Identity, names, on};
use perilune_vm::cycles::Registered;
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

/// An object has just been made: events call it by the place.
pub(crate) fn report_made(vm: &Vm, identity: &Identity) {
    if on(Category::Contention)
        && let Some(site) = vm.running_site(None)
    {
        let object = identity.get();
        names::label(object, site.to_string().as_bytes());
    }
}
