//! `string.byte`, `char`, `dump`, `len`, `lower`, `rep`, `reverse`, `sub`, `upper`.
//!
//! Letters are those of the C locale: bytes above 127 are never letters.

use super::{MAX_SIZE, end_position, scratch, start_position};
use perilune_vm::{Call, Effect, Intrinsic, LuaResult, Native, Type, Value, Vm};

pub(super) static BYTE: Native =
    Native::leaf("byte", byte).known_as(Intrinsic::Byte).quick_or_none(Effect::Nothing, quick_byte);
pub(super) static CHAR: Native = Native::leaf("char", char).quick(Effect::Allocates, quick_char);
pub(super) static DUMP: Native = Native::leaf("dump", dump);
pub(super) static LEN: Native = Native::leaf("len", len).known_as(Intrinsic::Len);
pub(super) static LOWER: Native = Native::leaf("lower", lower).quick(Effect::Allocates, quick_lower);
pub(super) static REP: Native = Native::leaf("rep", rep).quick(Effect::Allocates, quick_rep);
pub(super) static REVERSE: Native = Native::leaf("reverse", reverse).quick(Effect::Allocates, quick_reverse);
pub(super) static SUB: Native =
    Native::leaf("sub", sub).known_as(Intrinsic::Sub).quick(Effect::Allocates, quick_sub);
pub(super) static UPPER: Native = Native::leaf("upper", upper).quick(Effect::Allocates, quick_upper);

/// `string.len(s)`
fn len(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    vm.ret(Value::int(s.len() as i64))
}

/// `string.sub(s, i [, j])`
fn sub(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    let start = start_position(vm.check_int(2)?, s.len());
    let end = end_position(vm.opt_int(3, -1)?, s.len());
    if start == 1 && end == s.len() {
        return vm.ret(Value::from(s));
    }
    let part = vm.new_text(s.bytes().get(start - 1..end).unwrap_or_default())?;
    vm.ret(part)
}

/// [`sub`] of a string and numbers.
fn quick_sub(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let (s, i, j) = match call.arguments {
        [s, i] => (s.as_string(), i.as_integral(), Some(-1)),
        [s, i, j] => (s.as_string(), i.as_integral(), j.as_integral()),
        _ => return Ok(None),
    };
    let (Some(s), Some(i), Some(j)) = (s, i, j) else { return Ok(None) };
    let (start, end) = (start_position(i, s.len()), end_position(j, s.len()));
    if start == 1 && end == s.len() {
        return Ok(Some(s.into()));
    }
    let text = s.bytes().get(start - 1..end).unwrap_or_default();
    Ok(Some(vm.new_text(text)?.into()))
}

/// [`byte`] of a string and perhaps an integer.
fn quick_byte(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let (s, i) = match call.arguments {
        [s] => (s.as_string(), Some(1)),
        [s, i] => (s.as_string(), i.as_integral()),
        _ => return Ok(None),
    };
    let (Some(s), Some(i)) = (s, i) else { return Ok(None) };
    let (start, end) = (start_position(i, s.len()), end_position(i, s.len()));
    let byte = s.bytes().get(start - 1..end).and_then(|bytes| bytes.first());
    Ok(Some(byte.map_or(Value::NIL, |&b| Value::int(i64::from(b)))))
}

/// [`char`] of a few integers.
fn quick_char(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let mut bytes = [0; 16];
    let Some(text) = bytes.get_mut(..call.arguments.len()) else { return Ok(None) };
    for (byte, v) in text.iter_mut().zip(call.arguments) {
        let Some(b) = v.as_integral().and_then(|b| u8::try_from(b).ok()) else { return Ok(None) };
        *byte = b;
    }
    Ok(Some(vm.new_str(text)?.into()))
}

/// `string.byte(s [, i [, j]])`
fn byte(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?.bytes();
    let i = vm.opt_int(2, 1)?;
    let start = start_position(i, s.len());
    let end = end_position(vm.opt_int(3, i)?, s.len());
    let Some(slice) = s.get(start - 1..end) else { return Ok(0) };
    if slice.len() >= MAX_SIZE {
        return Err(vm.error("string slice too long"));
    }
    if slice.len() > 20 && !vm.check_stack(slice.len()) {
        return Err(vm.error("stack overflow (string slice too long)"));
    }
    for &b in slice {
        vm.push(Value::int(i64::from(b)));
    }
    Ok(slice.len() as u32)
}

/// `string.char(...)`
fn char(vm: &mut Vm) -> LuaResult<u32> {
    let n = vm.nargs();
    let mut out = scratch::take();
    for i in 1..=n {
        match u8::try_from(vm.check_int(i)?) {
            Ok(b) => out.push(b),
            Err(_) => return Err(vm.arg_error(i, "value out of range")),
        }
    }
    scratch::ret(vm, out)
}

/// `string.lower(s)`
fn lower(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    let mut out = scratch::take();
    scratch::append(vm, &mut out, s.bytes())?;
    out.make_ascii_lowercase();
    scratch::ret(vm, out)
}

/// `string.upper(s)`
fn upper(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    let mut out = scratch::take();
    scratch::append(vm, &mut out, s.bytes())?;
    out.make_ascii_uppercase();
    scratch::ret(vm, out)
}

/// `string.reverse(s)`
fn reverse(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    let mut out = scratch::take();
    scratch::append(vm, &mut out, s.bytes())?;
    out.reverse();
    scratch::ret(vm, out)
}

/// As long as these strings are, they are made without a buffer by the quick forms.
const SHORT: usize = 64;

/// A string of one that is short, with its bytes changed in place.
fn quick_change(vm: &mut Vm, call: Call<'_>, change: impl FnOnce(&mut [u8])) -> LuaResult<Option<Value>> {
    let &[s] = call.arguments else { return Ok(None) };
    let mut bytes = [0; SHORT];
    let Some(s) = s.as_string().filter(|s| s.len() <= SHORT) else { return Ok(None) };
    let text = &mut bytes[..s.len()];
    text.copy_from_slice(s.bytes());
    change(text);
    Ok(Some(vm.new_str(text)?.into()))
}

/// [`lower`] of a short string.
fn quick_lower(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_change(vm, call, <[u8]>::make_ascii_lowercase)
}

/// [`upper`] of a short string.
fn quick_upper(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_change(vm, call, <[u8]>::make_ascii_uppercase)
}

/// [`reverse`] of a short string.
fn quick_reverse(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_change(vm, call, <[u8]>::reverse)
}

/// [`rep`] of a string to a short one.
fn quick_rep(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[s, n] = call.arguments else { return Ok(None) };
    let (Some(s), Some(n)) = (s.as_string(), n.as_integral()) else { return Ok(None) };
    let n = usize::try_from(n).unwrap_or(0);
    let mut bytes = [0; SHORT];
    let length = s.len().checked_mul(n).filter(|length| *length <= SHORT);
    let Some(text) = length.map(|length| &mut bytes[..length]) else { return Ok(None) };
    match s.bytes() {
        [] => {}
        &[byte] => text.fill(byte),
        bytes => text.chunks_exact_mut(bytes.len()).for_each(|part| part.copy_from_slice(bytes)),
    }
    Ok(Some(vm.new_str(text)?.into()))
}

/// `string.rep(s, n [, sep])`
fn rep(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    let n = vm.check_int(2)?;
    let separator = vm.opt_str(3)?;
    let separator = separator.as_ref().map_or(&b""[..], |s| s.bytes());
    let s = s.bytes();
    if n <= 0 || s.is_empty() && separator.is_empty() {
        return vm.ret_str(b"");
    }
    let n = n as usize;
    let unit = s.len() + separator.len();
    if unit > MAX_SIZE / n {
        return Err(vm.error("resulting string too large"));
    }
    let total = unit * n - separator.len();
    let mut out = scratch::take();
    // Room for the last separator as well: it is written, then cut off.
    scratch::reserve(vm, &mut out, total + separator.len())?;
    if let (&[byte], []) = (s, separator) {
        out.resize(total, byte);
        return scratch::ret(vm, out);
    }
    out.extend_from_slice(s);
    out.extend_from_slice(separator);
    while out.len() < total {
        let more = out.len().min(unit * n - out.len());
        out.extend_from_within(..more);
    }
    out.truncate(total);
    scratch::ret(vm, out)
}

/// `string.dump(function [, strip])`
fn dump(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(1, Type::Function)?;
    let function = match vm.arg(1).as_shared_function() {
        Some(f) => vm.own_function(f)?,
        None => vm.arg(1),
    };
    let Some(function) = function.as_closure() else {
        return Err(vm.error("unable to dump given function"));
    };
    let strip = vm.arg(2).is_truthy();
    let bytes = vm.dump(function, strip);
    vm.ret_str(&bytes)
}
