//! `os.date` and `os.time`.
//!
//! Calendar arithmetic and time zones are the C library's (`localtime_r`, `gmtime_r`, `mktime`, `strftime`).
//! Conversion specifiers are checked first: C leaves it open what an unknown one does.

use crate::string::scratch;
use crate::sys::{self, Calendar};
use perilune_syntax::numeral::float_to_integer;
use perilune_vm::{Gc, Guess, LuaResult, Table, Type, Value, Vm};

/// Conversion specifiers without a modifier.
const PLAIN: &[u8] = b"aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%";
/// Those that the modifier `E` allows.
const WITH_E: &[u8] = b"cCxXyY";
/// Those that the modifier `O` allows.
const WITH_O: &[u8] = b"deHImMSuUVwWy";

/// The clock that `time` of the C library reads, which takes half the time of the exact one.
fn now() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse).tv_sec
}

/// Length of the valid conversion specifier at the start of `text`, which follows a `%`.
fn specifier(text: &[u8]) -> Option<usize> {
    match text {
        [b'E', c, ..] if WITH_E.contains(c) => Some(2),
        [b'O', c, ..] if WITH_O.contains(c) => Some(2),
        [c, ..] if PLAIN.contains(c) => Some(1),
        _ => None,
    }
}

/// `os.date([format [, time]])`
pub(crate) fn date(vm: &mut Vm) -> LuaResult<u32> {
    let format = vm.opt_str(1)?;
    let format = format.map_or(b"%c".as_slice(), |format| format.bytes());
    let time = if vm.arg_is_none_or_nil(2) { now() } else { vm.check_int(2)? };
    let (format, utc) = match format.strip_prefix(b"!") {
        Some(format) => (format, true),
        None => (format, false),
    };
    let Some(calendar) = sys::broken_down(time, utc) else {
        return Err(vm.error("date result cannot be represented in this installation"));
    };
    if crate::errno::c_bytes(format) == b"*t" {
        let table = date_table(vm, &calendar)?;
        return vm.ret(table);
    }
    let mut text = Vec::new();
    let mut rest = format;
    while let Some(at) = memchr::memchr(b'%', rest) {
        scratch::append(vm, &mut text, &rest[..at])?;
        scratch::reserve(vm, &mut text, sys::SPECIFIER_MAX)?;
        rest = &rest[at + 1..];
        let Some(length) = specifier(rest) else {
            let shown = String::from_utf8_lossy(crate::errno::c_bytes(rest)).into_owned();
            return Err(vm.arg_error(1, &format!("invalid conversion specifier '%{shown}'")));
        };
        sys::format(&mut text, &rest[..length], &calendar);
        rest = &rest[length..];
    }
    scratch::append(vm, &mut text, rest)?;
    vm.ret_str(&text)
}

/// The fields of a date table that are numbers.
fn fields(calendar: &Calendar) -> [(&'static str, i64); 8] {
    [
        ("year", i64::from(calendar.tm_year) + 1900),
        ("month", i64::from(calendar.tm_mon) + 1),
        ("day", i64::from(calendar.tm_mday)),
        ("hour", i64::from(calendar.tm_hour)),
        ("min", i64::from(calendar.tm_min)),
        ("sec", i64::from(calendar.tm_sec)),
        ("yday", i64::from(calendar.tm_yday) + 1),
        ("wday", i64::from(calendar.tm_wday) + 1),
    ]
}

/// Whether it is daylight saving time, if the system knows.
fn is_dst(calendar: &Calendar) -> Option<Value> {
    (calendar.tm_isdst >= 0).then(|| Value::bool(calendar.tm_isdst > 0))
}

/// A new date table: a record, as a constructor would make it.
fn date_table(vm: &mut Vm, calendar: &Calendar) -> LuaResult<Gc<Table>> {
    let fields = fields(calendar).map(|(name, value)| (name, Value::int(value)));
    let mut entries = Vec::with_capacity(2 * fields.len() + 2);
    for (name, value) in fields.into_iter().chain(is_dst(calendar).map(|is| ("isdst", is))) {
        entries.extend([vm.new_name(name.as_bytes())?.into(), value]);
    }
    Ok(vm.new_record(&entries, Guess::default(), 0)?.table)
}

/// Sets all fields of a date table.
fn set_fields(vm: &mut Vm, table: Value, calendar: &Calendar) -> LuaResult<()> {
    for (name, value) in fields(calendar) {
        set(vm, table, name, Value::int(value))?;
    }
    match is_dst(calendar) {
        Some(is) => set(vm, table, "isdst", is),
        None => Ok(()),
    }
}

fn set(vm: &mut Vm, table: Value, name: &str, value: Value) -> LuaResult<()> {
    let name = vm.value_str(name.as_bytes())?;
    vm.set_index(table, name, value)
}

fn get(vm: &mut Vm, table: Gc<Table>, name: &str) -> LuaResult<Value> {
    let name = vm.value_str(name.as_bytes())?;
    vm.index(table.into(), name)
}

/// Converts what `math.tointeger` converts.
fn to_integer(value: Value) -> Option<i64> {
    let number = Vm::string_to_number(value)?;
    number.as_int().or_else(|| number.as_float().and_then(float_to_integer))
}

/// Integer field `name` less `delta`; `default` if it is absent.
fn field(vm: &mut Vm, table: Gc<Table>, name: &str, default: Option<i32>, delta: i64) -> LuaResult<i32> {
    let value = get(vm, table, name)?;
    match to_integer(value) {
        Some(integer) => match integer.checked_sub(delta).map(i32::try_from) {
            Some(Ok(integer)) => Ok(integer),
            _ => Err(vm.error(format!("field '{name}' is out-of-bound"))),
        },
        None if !value.is_nil() => Err(vm.error(format!("field '{name}' is not an integer"))),
        None => match default {
            Some(default) => Ok(default),
            None => Err(vm.error(format!("field '{name}' missing in date table"))),
        },
    }
}

/// `os.time([table])`
pub(crate) fn time(vm: &mut Vm) -> LuaResult<u32> {
    if vm.arg_is_none_or_nil(1) {
        return vm.ret(now());
    }
    vm.check_type(1, Type::Table)?;
    let table = vm.check_table(1)?;
    let mut calendar = sys::empty_calendar();
    calendar.tm_year = field(vm, table, "year", None, 1900)?;
    calendar.tm_mon = field(vm, table, "month", None, 1)?;
    calendar.tm_mday = field(vm, table, "day", None, 0)?;
    calendar.tm_hour = field(vm, table, "hour", Some(12), 0)?;
    calendar.tm_min = field(vm, table, "min", Some(0), 0)?;
    calendar.tm_sec = field(vm, table, "sec", Some(0), 0)?;
    let daylight = get(vm, table, "isdst")?;
    calendar.tm_isdst = if daylight.is_nil() { -1 } else { i32::from(daylight.is_truthy()) };
    let time = sys::time_of(&mut calendar);
    set_fields(vm, table.into(), &calendar)?;
    if time == -1 {
        return Err(vm.error("time result cannot be represented in this installation"));
    }
    vm.ret(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifiers() {
        assert_eq!(specifier(b"Y-%m"), Some(1));
        assert_eq!(specifier(b"Ec"), Some(2));
        assert_eq!(specifier(b"Oy rest"), Some(2));
        assert_eq!(specifier(b"Ez"), None);
        assert_eq!(specifier(b"E"), None);
        assert_eq!(specifier(b""), None);
        assert_eq!(specifier(b"Q"), None);
    }

    #[test]
    fn the_epoch() {
        let calendar = sys::broken_down(0, true).unwrap();
        let mut text = Vec::new();
        for specifier in ["Y", "m", "d", "H", "M", "S", "%"] {
            sys::format(&mut text, specifier.as_bytes(), &calendar);
        }
        assert_eq!(text, b"19700101000000%");
        assert!(sys::broken_down(i64::MAX, true).is_none());
    }
}
