//! `pl.io`: what a program may know of how it waits for the outside world (`outside.rs`).

use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};

/// Adds `pl.io`.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    let io = vm.new_table(0, 1)?;
    vm.set_field(pl, "io", io.into())?;
    vm.register(io, &[&BACKEND])
}

/// `pl.io.backend()`: "epoll" or "uring"; nil in a program that cannot wait for descriptors.
static BACKEND: Native = Native::leaf("backend", |vm| match vm.descriptors() {
    Some(descriptors) => vm.ret_str(descriptors.backend().as_bytes()),
    None => vm.ret(Value::NIL),
});
