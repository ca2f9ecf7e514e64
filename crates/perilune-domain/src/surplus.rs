//! Arguments that a method does not have.
//!
//! Lua drops them, and so a time limit or an option that a method does not know would be without effect:
//! `c:read(5, {timeout = 1})` would wait for ever. Methods of what is waited for refuse them, and name what
//! limits their waits. To get at its object a method says here which argument is its last, so none can forget
//! it; functions of modules say so too. `nil` is no argument, as ever in Lua.

use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, LuaString, Thrown, Vm};
use std::sync::Arc;

/// In place of the number of the last argument: there may be any number, as of what the runtime calls, too.
pub const ANY: u32 = u32::MAX;

/// How a program limits the time that a method waits.
#[derive(Clone, Copy)]
pub enum Limit {
    /// By an option of the object, and around the call.
    ReadTimeout,
    /// By another one, and around the call.
    WriteTimeout,
    /// By an option of the table that stands in place of the address.
    Address,
    /// By an option of the table that is the last argument.
    Table,
    /// Around the call alone.
    Around,
    /// By its own argument, or it does not wait.
    Own,
}

/// The object that a method is called on. Argument `last` is the last one that the method has; the object is
/// the first.
///
/// # Errors
/// It is none of the kind, or there are more arguments.
#[inline]
pub fn this<T: SharedObject>(
    vm: &mut Vm,
    kind: &'static SharedKind,
    last: u32,
    limit: Limit,
) -> LuaResult<Arc<T>> {
    let object = vm.check_shared_arc(1, kind)?;
    none_behind(vm, last, limit)?;
    Ok(object)
}

/// Argument `n`, a string or number that is written, of a method that takes any number of them. A table among
/// them is taken for options, of which there are none.
///
/// # Errors
/// It is something else.
#[inline]
pub fn check_piece(vm: &mut Vm, n: u32) -> LuaResult<Gc<LuaString>> {
    if vm.arg(n).as_table().is_some() {
        return Err(refuse_options(vm, n));
    }
    vm.check_str(n)
}

#[cold]
fn refuse_options(vm: &mut Vm, n: u32) -> Thrown {
    let text = "string expected, got table; a write has no options: set{write_timeout = seconds} or pl.timeout(seconds, f) limits the wait";
    vm.arg_error(n, text)
}

/// Nothing but nil comes after argument `last`.
///
/// # Errors
/// Something does.
#[inline]
pub fn none_behind(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<()> {
    if vm.nargs() <= last { Ok(()) } else { refuse(vm, last, limit) }
}

#[cold]
fn refuse(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<()> {
    let remedy = match limit {
        Limit::ReadTimeout => "; set{read_timeout = seconds} or pl.timeout(seconds, f) limits the wait",
        Limit::WriteTimeout => "; set{write_timeout = seconds} or pl.timeout(seconds, f) limits the wait",
        Limit::Table => "; options stand in one table, the last argument",
        Limit::Address => "; options stand beside the address, in one table: {host=, port=, timeout=}",
        Limit::Around => "; pl.timeout(seconds, f) limits the wait",
        Limit::Own => "",
    };
    vm.refuse_surplus(last, remedy)
}
