//! `string.format` (manual 6.4).
//!
//! The format string is walked once, text between conversions copied in runs. The argument is looked at
//! before the specification is checked, so that its error comes first, except where PUC Lua has it the other
//! way around (`%a`, `%c`, `%p`).
//!
//! Most calls are *plain*: all specifications are right, the arguments are there and are what they should be,
//! no metamethod is asked, and the result is not long. They are done by [`plain`], which looks at everything
//! once and checks little. At whatever is not so it gives up, and all is done again from the beginning.

use super::float;
use super::near;
use super::scratch;
use super::spec::{Conversion, Layout, Spec, flag};
use perilune_syntax::numeral;
use perilune_vm::{Call, Effect, LuaResult, Native, Thrown, Type, Value, Vm};
use std::io::Write;

pub(super) static FORMAT: Native = Native::hybrid("format", format).quick(Effect::Allocates, quick_format);

/// Longest format string, and longest argument, of a plain call.
const SHORT: usize = 1 << 10;
/// Most bytes of a plain call's result before its last conversion.
const ROOM: usize = 2 << 10;

/// [`format`] that is plain.
fn quick_format(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let Some(text) = call.arguments.first().and_then(|v| v.as_string()) else { return Ok(None) };
    let mut out = scratch::take();
    let done = plain(vm, text.bytes(), |_, i| call.arguments.get(i).copied(), &mut out);
    let result = if done { Some(vm.value_str(&out)?) } else { None };
    scratch::put(out);
    Ok(result)
}

/// Appends the result of a plain call, whose arguments `argument` gives by their index. False: it is none, and
/// `out` has what there is until then.
#[inline]
fn plain(
    vm: &mut Vm,
    text: &[u8],
    argument: impl Fn(&Vm, usize) -> Option<Value>,
    out: &mut Vec<u8>,
) -> bool {
    if text.len() > SHORT {
        return false;
    }
    let (mut text, mut i) = (text, 0);
    while let Some(specification) = near::copy_until(b'%', text, out) {
        text = specification;
        if let [b'%', rest @ ..] = text {
            out.push(b'%');
            text = rest;
            continue;
        }
        i += 1;
        let Some(conversion) = Conversion::read(text) else { return false };
        let Some(value) = argument(vm, i) else { return false };
        if out.len() > ROOM || !plain_item(vm, conversion, value, out) {
            return false;
        }
        text = &text[conversion.length..];
    }
    true
}

/// Appends an argument of a plain call. False: it is none.
#[inline]
fn plain_item(vm: &mut Vm, conversion: Conversion, value: Value, out: &mut Vec<u8>) -> bool {
    let Conversion { layout, letter, .. } = conversion;
    match letter {
        b'd' | b'u' | b'o' | b'x' | b'X' => {
            let Some(value) = value.as_integral() else { return false };
            if letter == b'd' && layout == Layout::default() {
                numeral::format_integer(value, out);
            } else if !layout.small_integer(value, letter, out) {
                layout.integer(value, letter, out);
            }
        }
        b's' => return plain_text(vm, layout, value, out),
        b'e' | b'E' | b'f' | b'g' | b'G' | b'a' | b'A' => {
            let Some(value) = value.as_number() else { return false };
            float::format(&layout, value, letter, out);
        }
        b'c' => {
            let Some(value) = value.as_integral() else { return false };
            layout.pad_text(&[value as u8], out);
        }
        b'q' => match value.as_string() {
            Some(string) if string.len() <= SHORT / 4 => quote(string.bytes(), out),
            _ => return false,
        },
        _ => return false,
    }
    true
}

/// `%s` of a plain call: text, numbers, booleans and nil, without metamethods. False: it is something else.
fn plain_text(vm: &mut Vm, layout: Layout, value: Value, out: &mut Vec<u8>) -> bool {
    if vm.has_tostring(value) {
        return false;
    }
    let mut number = [0; 80];
    let text = match value.type_of() {
        Type::Number => Vm::number_text(value, &mut number),
        Type::Boolean if value.is_truthy() => b"true",
        Type::Boolean => b"false",
        Type::Nil => b"nil",
        _ => match value.as_string() {
            Some(string) if string.len() <= SHORT => string.bytes(),
            _ => return false,
        },
    };
    if layout == Layout::default() {
        out.extend_from_slice(text);
        return true;
    }
    if text.contains(&0) {
        return false;
    }
    layout.pad_text(&text[..layout.precision.map_or(text.len(), |p| text.len().min(p.into()))], out);
    true
}

/// `string.format(formatstring, ...)`
fn format(vm: &mut Vm) -> LuaResult<u32> {
    if let Some(text) = vm.arg(1).as_string() {
        let mut out = scratch::take();
        let argument = |vm: &Vm, i| (i < vm.nargs() as usize).then(|| vm.arg(i as u32 + 1));
        if plain(vm, text.bytes(), argument, &mut out) {
            return scratch::ret(vm, out);
        }
        scratch::put(out);
    }
    let mut text = vm.check_str(1)?.bytes();
    let nargs = vm.nargs();
    let mut out = scratch::take();
    let mut arg = 1;
    while let Some(i) = near::find(b'%', text) {
        scratch::append(vm, &mut out, &text[..i])?;
        text = &text[i + 1..];
        if text.first() == Some(&b'%') {
            out.push(b'%');
            text = &text[1..];
            continue;
        }
        arg += 1;
        if arg > nargs {
            return Err(vm.arg_error(arg, "no value"));
        }
        let Ok((spec, length)) = Spec::scan(text) else {
            return Err(vm.error("invalid format (too long)"));
        };
        text = text.get(length..).unwrap_or_default();
        item(vm, spec, arg, &mut out)?;
    }
    scratch::append(vm, &mut out, text)?;
    scratch::ret(vm, out)
}

/// Appends one converted argument.
#[inline]
fn item(vm: &mut Vm, spec: Spec<'_>, arg: u32, out: &mut Vec<u8>) -> LuaResult<()> {
    match spec.letter {
        b'd' | b'i' => {
            let value = vm.check_int(arg)?;
            if spec.is_bare() {
                numeral::format_integer(value, out);
            } else {
                layout(vm, spec, flag::SIGNED, true)?.integer(value, b'd', out);
            }
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = vm.check_int(arg)?;
            let flags = if spec.letter == b'u' { flag::UNSIGNED } else { flag::BASED };
            layout(vm, spec, flags, true)?.integer(value, spec.letter, out);
        }
        b's' => return text(vm, spec, arg, out),
        b'e' | b'E' | b'f' | b'g' | b'G' => {
            let value = vm.check_num(arg)?;
            let layout = layout(vm, spec, flag::FLOAT, true)?;
            float::format(&layout, value, spec.letter, out);
        }
        b'a' | b'A' => {
            let layout = layout(vm, spec, flag::FLOAT, true)?;
            let value = vm.check_num(arg)?;
            float::format(&layout, value, spec.letter, out);
        }
        b'c' => {
            let layout = layout(vm, spec, flag::TEXT, false)?;
            let byte = vm.check_int(arg)? as u8;
            layout.pad_text(&[byte], out);
        }
        b'p' => {
            let layout = layout(vm, spec, flag::TEXT, false)?;
            match identity(vm, arg)? {
                Some(address) => layout.pad_text(format!("{address:#x}").as_bytes(), out),
                None => layout.pad_text(b"(null)", out),
            }
        }
        b'q' => {
            if !spec.is_bare() {
                return Err(vm.error("specifier '%q' cannot have modifiers"));
            }
            return literal(vm, arg, out);
        }
        _ => return Err(complaint(vm, b"invalid conversion '", spec, b"' to 'format'")),
    }
    Ok(())
}

#[inline]
fn layout(vm: &mut Vm, spec: Spec<'_>, flags: u8, precision: bool) -> LuaResult<Layout> {
    match spec.check(flags, precision) {
        Some(layout) => Ok(layout),
        None => Err(complaint(vm, b"invalid conversion specification: '", spec, b"'")),
    }
}

#[cold]
fn complaint(vm: &mut Vm, before: &[u8], spec: Spec<'_>, after: &[u8]) -> Thrown {
    let text = [before, &spec.text(), after].concat();
    vm.error(text)
}

/// `%s`: any value, as `tostring` gives it.
fn text(vm: &mut Vm, spec: Spec<'_>, arg: u32, out: &mut Vec<u8>) -> LuaResult<()> {
    let value = vm.arg(arg);
    if spec.is_bare() && value.is_number() && !vm.has_tostring(value) {
        Vm::write_number(value, out);
        return Ok(());
    }
    let string = vm.tostring(value)?;
    let bytes = string.bytes();
    if spec.is_bare() {
        return scratch::append(vm, out, bytes);
    }
    if bytes.contains(&0) {
        return Err(vm.arg_error(arg, "string contains zeros"));
    }
    let layout = layout(vm, spec, flag::TEXT, true)?;
    let shown = layout.precision.map_or(bytes.len(), |p| bytes.len().min(p.into()));
    scratch::reserve(vm, out, shown)?;
    layout.pad_text(&bytes[..shown], out);
    Ok(())
}

/// The address that `%p` shows. Short strings with equal bytes are one object to a program, as PUC Lua
/// interns them; here a string becomes the one of its text when it is a table key.
fn identity(vm: &mut Vm, arg: u32) -> LuaResult<Option<usize>> {
    const SHORT: usize = 40;
    let value = vm.arg(arg);
    if value.as_string().is_some_and(|s| s.len() <= SHORT) {
        let keys = vm.new_table(0, 1)?;
        vm.raw_set(keys, value, Value::TRUE)?;
        if let Some((key, _)) = vm.raw_next(keys, Value::NIL)? {
            return Ok(key.address());
        }
    }
    Ok(value.address())
}

/// `%q`: the value as Lua source text.
fn literal(vm: &mut Vm, arg: u32, out: &mut Vec<u8>) -> LuaResult<()> {
    let value = vm.arg(arg);
    match value.type_of() {
        Type::String => {
            if let Some(string) = value.as_string() {
                // Four bytes for each is the worst case; it does not matter for what is small.
                scratch::reserve(vm, out, string.len() * if string.len() < 1 << 20 { 1 } else { 4 })?;
                quote(string.bytes(), out);
            }
        }
        Type::Number => match (value.as_int(), value.as_float()) {
            (Some(i64::MIN), _) => out.extend_from_slice(b"0x8000000000000000"),
            (Some(i), _) => numeral::format_integer(i, out),
            (_, f) => float::quote(f.unwrap_or(0.0), out),
        },
        // Their metamethods too are heard, as in PUC Lua.
        Type::Nil | Type::Boolean => {
            let string = vm.tostring(value)?;
            out.extend_from_slice(string.bytes());
        }
        _ => return Err(vm.arg_error(arg, "value has no literal form")),
    }
    Ok(())
}

/// Appends a string literal: quotes, backslashes and newlines escaped, other control characters as decimal
/// escapes, of three digits where a digit follows.
pub(super) fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut kept = 0;
    for (i, &b) in text.iter().enumerate() {
        if !b.is_ascii_control() && b != b'"' && b != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[kept..i]);
        kept = i + 1;
        if matches!(b, b'"' | b'\\' | b'\n') {
            out.extend_from_slice(&[b'\\', b]);
            continue;
        }
        let _ = match text.get(i + 1) {
            Some(next) if next.is_ascii_digit() => write!(out, "\\{b:03}"),
            _ => write!(out, "\\{b}"),
        };
    }
    out.extend_from_slice(&text[kept..]);
    out.push(b'"');
}
