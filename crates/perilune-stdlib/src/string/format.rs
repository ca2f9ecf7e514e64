//! `string.format` (manual 6.4).
//!
//! The format string is walked once, text between conversions copied in runs. The argument is looked at
//! before the specification is checked, so that its error comes first, except where PUC Lua has it the other
//! way around (`%a`, `%c`, `%p`).

use super::float;
use super::near;
use super::scratch;
use super::spec::{Layout, Spec, flag};
use perilune_syntax::numeral;
use perilune_vm::{LuaResult, Native, Thrown, Type, Value, Vm};
use std::io::Write;

pub(super) static FORMAT: Native = Native::hybrid("format", format);

/// `string.format(formatstring, ...)`
fn format(vm: &mut Vm) -> LuaResult<u32> {
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
    let shown = layout.precision.map_or(bytes.len(), |p| p.min(bytes.len()));
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
