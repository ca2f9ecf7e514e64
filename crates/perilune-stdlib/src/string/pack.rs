//! `string.pack`, `string.packsize`, `string.unpack`: values to and from bytes by a format (`packing.rs`).

use super::packing::{self, FormatError, Kind, MAX_INTEGER_SIZE, Reader};
use super::{MAX_SIZE, scratch, start_position};
use perilune_vm::{LuaResult, Native, Thrown, Value, Vm};

pub(super) static PACK: Native = Native::leaf("pack", pack);
pub(super) static PACKSIZE: Native = Native::leaf("packsize", packsize);
pub(super) static UNPACK: Native = Native::leaf("unpack", unpack);

#[cold]
fn format_error(vm: &mut Vm, e: FormatError) -> Thrown {
    match e {
        FormatError::Size(n) => vm.error(format!("integral size ({n}) out of limits [1,{MAX_INTEGER_SIZE}]")),
        FormatError::MissingSize => vm.error("missing size for format option 'c'"),
        FormatError::Option(b) => {
            let mut text = b"invalid format option '".to_vec();
            text.extend_from_slice(&[b, b'\'']);
            vm.error(text)
        }
        FormatError::AfterX => vm.arg_error(1, "invalid next option for option 'X'"),
        FormatError::Alignment => vm.arg_error(1, "format asks for alignment not power of 2"),
    }
}

/// `string.pack(fmt, v1, v2, ...)`
fn pack(vm: &mut Vm) -> LuaResult<u32> {
    let mut reader = Reader::new(vm.check_str(1)?.bytes());
    // A missing argument is reported as nil, as PUC Lua does.
    vm.push(Value::NIL);
    let mut out = scratch::take();
    let mut arg = 1;
    while let Some(item) = reader.next(out.len()).map_err(|e| format_error(vm, e))? {
        out.resize(out.len() + item.padding, 0);
        let size = item.size;
        arg += 1;
        match item.kind {
            Kind::Signed | Kind::Unsigned => {
                let signed = item.kind == Kind::Signed;
                let value = vm.check_int(arg)?;
                if !packing::fits(value, size, signed) {
                    return Err(
                        vm.arg_error(arg, if signed { "integer overflow" } else { "unsigned overflow" })
                    );
                }
                packing::put_integer(value as u64, size, reader.little, signed && value < 0, &mut out);
            }
            Kind::Float => {
                let bits = (vm.check_num(arg)? as f32).to_bits();
                packing::put_integer(u64::from(bits), size, reader.little, false, &mut out);
            }
            Kind::Double => {
                let bits = vm.check_num(arg)?.to_bits();
                packing::put_integer(bits, size, reader.little, false, &mut out);
            }
            Kind::Fixed => {
                let text = vm.check_str(arg)?.bytes();
                if text.len() > size {
                    return Err(vm.arg_error(arg, "string longer than given size"));
                }
                scratch::reserve(vm, &mut out, size)?;
                let end = out.len() + size;
                out.extend_from_slice(text);
                out.resize(end, 0);
            }
            Kind::Counted => {
                let text = vm.check_str(arg)?.bytes();
                if !packing::fits(text.len() as i64, size, false) {
                    return Err(vm.arg_error(arg, "string length does not fit in given size"));
                }
                packing::put_integer(text.len() as u64, size, reader.little, false, &mut out);
                scratch::append(vm, &mut out, text)?;
            }
            Kind::Zero => {
                let text = vm.check_str(arg)?.bytes();
                if text.contains(&0) {
                    return Err(vm.arg_error(arg, "string contains zeros"));
                }
                scratch::append(vm, &mut out, text)?;
                out.push(0);
            }
            Kind::Padding => {
                out.push(0);
                arg -= 1;
            }
            Kind::Align | Kind::Nothing => arg -= 1,
        }
    }
    scratch::ret(vm, out)
}

/// `string.packsize(fmt)`
fn packsize(vm: &mut Vm) -> LuaResult<u32> {
    let mut reader = Reader::new(vm.check_str(1)?.bytes());
    let mut total = 0usize;
    while let Some(item) = reader.next(total).map_err(|e| format_error(vm, e))? {
        if matches!(item.kind, Kind::Counted | Kind::Zero) {
            return Err(vm.arg_error(1, "variable-length format"));
        }
        let size = item.size + item.padding;
        if total + size > MAX_SIZE {
            return Err(vm.arg_error(1, "format result too large"));
        }
        total += size;
    }
    vm.ret(Value::int(total as i64))
}

/// `string.unpack(fmt, s [, pos])`
fn unpack(vm: &mut Vm) -> LuaResult<u32> {
    let mut reader = Reader::new(vm.check_str(1)?.bytes());
    let data = vm.check_str(2)?.bytes();
    let mut at = start_position(vm.opt_int(3, 1)?, data.len()) - 1;
    if at > data.len() {
        return Err(vm.arg_error(3, "initial position out of string"));
    }
    let mut count = 0;
    while let Some(item) = reader.next(at).map_err(|e| format_error(vm, e))? {
        if item.padding + item.size > data.len() - at {
            return Err(vm.arg_error(2, "data string too short"));
        }
        at += item.padding;
        let (bytes, rest) = data[at..].split_at(item.size);
        at += item.size;
        let little = reader.little;
        let value = match item.kind {
            Kind::Signed | Kind::Unsigned => {
                match packing::get_integer(bytes, little, item.kind == Kind::Signed) {
                    Some(value) => Value::int(value),
                    None => return Err(too_wide(vm, item.size)),
                }
            }
            Kind::Float => {
                let bits = packing::get_integer(bytes, little, false).unwrap_or(0);
                Value::float(f64::from(f32::from_bits(bits as u32)))
            }
            Kind::Double => {
                let bits = packing::get_integer(bytes, little, false).unwrap_or(0);
                Value::float(f64::from_bits(bits as u64))
            }
            Kind::Fixed => vm.value_str(bytes)?,
            Kind::Counted => {
                let Some(length) = packing::get_integer(bytes, little, false) else {
                    return Err(too_wide(vm, item.size));
                };
                if length as u64 > rest.len() as u64 {
                    return Err(vm.arg_error(2, "data string too short"));
                }
                at += length as usize;
                vm.value_str(&rest[..length as usize])?
            }
            Kind::Zero => {
                let Some(length) = memchr::memchr(0, rest) else {
                    return Err(vm.arg_error(2, "unfinished string for format 'z'"));
                };
                at += length + 1;
                vm.value_str(&rest[..length])?
            }
            Kind::Padding | Kind::Align | Kind::Nothing => continue,
        };
        vm.ensure_stack(2)?;
        vm.push(value);
        count += 1;
    }
    vm.push(Value::int(at as i64 + 1));
    Ok(count + 1)
}

#[cold]
fn too_wide(vm: &mut Vm, size: usize) -> Thrown {
    vm.error(format!("{size}-byte integer does not fit into Lua Integer"))
}
