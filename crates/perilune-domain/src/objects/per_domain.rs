//! Values that each domain has for itself: `pl.per_domain(make)`.
//!
//! The object holds the function that makes the value, packed where the object was made. A domain that asks
//! for its value the first time calls a copy of it, and keeps what it returns as long as the object is there:
//! caches, buffers and connections belong to a domain, not to a task.
//!
//! A domain keeps its values strongly, whether or not it has a reference to the object just now, so no
//! collection decides how often `make` is called. Those of objects that are gone are forgotten when the
//! domain makes the next one.

use super::fill;
use parking_lot::Mutex;
use perilune_vm::cycle_collector::{Held, Holder};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The kind of values for each domain.
pub static PER_DOMAIN: SharedKind = SharedKind::new("per-domain value", open);

/// Field of the registry with a domain's values, by the objects' numbers.
const VALUES: &str = "perilune.per_domain";

/// Numbers of the objects that there are.
static ALIVE: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());

/// A value for each domain.
struct PerDomain {
    /// No other one of the process ever has it.
    number: i64,
    make: Parcel,
}

impl Drop for PerDomain {
    fn drop(&mut self) {
        ALIVE.lock().remove(&self.number);
    }
}

impl SharedObject for PerDomain {
    fn kind(&self) -> &'static SharedKind {
        &PER_DOMAIN
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for PerDomain {
    fn held(&self, to: &mut Held<'_>) {
        self.make.held(to);
    }
}

/// `pl.per_domain(make)`: a value for each domain that asks for it.
pub(crate) static NEW: Native = Native::leaf("per_domain", |vm| {
    static NUMBERS: AtomicI64 = AtomicI64::new(1);
    vm.check_type(1, Type::Function)?;
    vm.check_none_behind(1)?;
    let make = vm.arg(1);
    let make = vm.pack_or_raise(&[make], PackRules::TASK)?;
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    ALIVE.lock().insert(number);
    let object = Arc::new(PerDomain { number, make });
    let r = vm.shared_ref(object);
    vm.ret(r)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&GET], &[])
}

/// `value:get()`: this domain's value.
static GET: Native = Native::reentrant("get", |vm| {
    vm.check_none_behind(1)?;
    let object: Arc<PerDomain> = vm.check_shared_arc(1, &PER_DOMAIN)?;
    let values = values(vm)?;
    let known = vm.raw_get_int(values, object.number);
    if !known.is_nil() {
        return vm.ret(known);
    }
    forget_dead(vm, values)?;
    let make = vm.unpack_one(&object.make)?;
    vm.push(make);
    let made = vm.call(make, &[])?;
    if made.is_nil() {
        return Err(vm.error("the function of a per-domain value must return one"));
    }
    // It may have waited, and another fiber may have been faster.
    let known = vm.raw_get_int(values, object.number);
    if !known.is_nil() {
        return vm.ret(known);
    }
    vm.raw_set_int(values, object.number, made)?;
    vm.ret(made)
});

/// The domain's values. The registry keeps the table.
fn values(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    let registry = vm.registry();
    if let Some(values) = vm.get_field(registry, VALUES)?.as_table() {
        return Ok(values);
    }
    let values = vm.new_table(0, 0)?;
    vm.set_field(registry, VALUES, values.into())?;
    Ok(values)
}

fn forget_dead(vm: &mut Vm, values: Gc<Table>) -> LuaResult<()> {
    let mut dead = Vec::new();
    let mut key = Value::NIL;
    while let Some((number, _)) = vm.raw_next(values, key)? {
        dead.extend(number.as_int());
        key = number;
    }
    {
        let alive = ALIVE.lock();
        dead.retain(|number| !alive.contains(number));
    }
    dead.into_iter().try_for_each(|number| vm.raw_set_int(values, number, Value::NIL))
}
