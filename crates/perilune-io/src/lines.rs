//! Iterators over the lines of files and connections: closures with the object and the longest line as
//! upvalues.

use perilune_vm::shared::{SharedObject, downcast_arc};
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::sync::Arc;

/// `x:lines([limit])`: an iterator over the lines of the first argument, whose steps are `step`'s.
pub fn iterator(vm: &mut Vm, step: &'static Native, limit: usize) -> LuaResult<u32> {
    let this = vm.arg(1);
    let next = vm.new_native_closure(step, &[this, Value::int(limit as i64)])?;
    vm.ret(next)
}

/// What the iterator goes over whose step runs, and the longest line.
pub fn of_step<T: SharedObject>(vm: &mut Vm) -> LuaResult<(Arc<T>, usize)> {
    let object = vm.upvalue(1).as_shared().map(|r| r.object().clone());
    let object = object.and_then(|object| downcast_arc::<T>(object).ok());
    match (object, vm.upvalue(2).as_int()) {
        (Some(object), Some(limit)) => Ok((object, usize::try_from(limit).unwrap_or(usize::MAX))),
        _ => Err(vm.error("not an iterator over lines")),
    }
}
