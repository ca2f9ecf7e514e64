//! Tables of options: each is what it has to be, and none is misspelt.

use perilune_vm::{Gc, LuaResult, Table, Type, Value, Vm};
use std::time::{Duration, Instant};

/// All keys of the table are among these.
///
/// # Errors
/// One is not.
pub fn check(vm: &mut Vm, options: Gc<Table>, known: &[&str]) -> LuaResult<()> {
    check_beside_list(vm, options, known, 0)
}

/// All keys of the table are among these, or places of a list of `count` elements.
///
/// # Errors
/// One is not.
pub fn check_beside_list(vm: &mut Vm, options: Gc<Table>, known: &[&str], count: i64) -> LuaResult<()> {
    let mut at = Value::NIL;
    while let Some((key, _)) = vm.raw_next(options, at)? {
        if key.as_int().is_some_and(|n| (1..=count).contains(&n)) {
            at = key;
            continue;
        }
        let name = key.as_string().map(|s| s.to_text());
        if !name.as_deref().is_some_and(|name| known.contains(&name)) {
            let name = name.unwrap_or_else(|| format!("{key:?}"));
            return Err(vm.error(format!("unknown option '{name}' (there are: {})", known.join(", "))));
        }
        at = key;
    }
    Ok(())
}

/// A time in seconds; `Some(None)`: none, which is written `false`; `None`: nothing is said.
///
/// # Errors
/// It is neither.
pub fn span(vm: &mut Vm, options: Gc<Table>, name: &str) -> LuaResult<Option<Option<Duration>>> {
    let value = vm.get_field(options, name)?;
    if value.is_nil() {
        return Ok(None);
    }
    if value.is_falsy() {
        return Ok(Some(None));
    }
    match value.as_number() {
        Some(seconds) if seconds.is_nan() => {
            Err(vm.error(format!("option '{name}' must be a number of seconds, or false, not nan")))
        }
        Some(seconds) => Ok(Some(Duration::try_from_secs_f64(seconds.max(0.0)).ok())),
        None => Err(vm.error(format!("option '{name}' must be a number of seconds, or false"))),
    }
}

/// When what begins now is over, by the option `timeout`; `None`: never.
///
/// # Errors
/// It is no time.
pub fn deadline(vm: &mut Vm, options: Gc<Table>) -> LuaResult<Option<Instant>> {
    Ok(span(vm, options, "timeout")?.flatten().and_then(|span| Instant::now().checked_add(span)))
}

/// An integer.
///
/// # Errors
/// It is none, or out of bounds.
pub fn int(vm: &mut Vm, options: Gc<Table>, name: &str, least: i64, most: i64) -> LuaResult<Option<i64>> {
    let value = vm.get_field(options, name)?;
    match value.as_int() {
        _ if value.is_nil() => Ok(None),
        Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
        _ if most == i64::MAX => {
            Err(vm.error(format!("option '{name}' must be an integer, at least {least}")))
        }
        _ => Err(vm.error(format!("option '{name}' must be an integer from {least} to {most}"))),
    }
}

/// True or false.
///
/// # Errors
/// It is neither.
pub fn flag(vm: &mut Vm, options: Gc<Table>, name: &str) -> LuaResult<Option<bool>> {
    let value = vm.get_field(options, name)?;
    match value.type_of() {
        Type::Nil => Ok(None),
        Type::Boolean => Ok(Some(!value.is_falsy())),
        _ => Err(vm.error(format!("option '{name}' must be true or false"))),
    }
}

/// A string.
///
/// # Errors
/// It is none.
pub fn text(vm: &mut Vm, options: Gc<Table>, name: &str) -> LuaResult<Option<Vec<u8>>> {
    let value = vm.get_field(options, name)?;
    match value.as_string() {
        _ if value.is_nil() => Ok(None),
        Some(s) => Ok(Some(s.bytes().to_vec())),
        None => Err(vm.error(format!("option '{name}' must be a string"))),
    }
}
