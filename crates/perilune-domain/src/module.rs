//! `require "perilune"`: the module through which programs reach this room.
//!
//! The module is made when it is first required; a program that never does so pays for one entry in `package.preload`.

use crate::objects::{array, atomic, map};
use perilune_vm::{LuaResult, Native, Value, Vm};

/// Makes `require "perilune"` work in a state whose standard library is open.
///
/// # Errors
/// "not enough memory"
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let package = vm.get_field(vm.globals(), "package")?;
    if let Some(package) = package.as_table()
        && let Some(preload) = vm.get_field(package, "preload")?.as_table()
    {
        vm.set_field(preload, "perilune", Value::native(&OPEN))?;
    }
    Ok(())
}

static OPEN: Native = Native::leaf("perilune", |vm| {
    let pl = vm.new_table(0, 24)?;
    vm.push(pl.into());
    vm.register(pl, &[&array::NEW, &atomic::NEW, &map::NEW])?;
    vm.ret(pl)
});
