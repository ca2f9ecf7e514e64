//! `require "mime.core"`: LuaSocket's filters for mail, which its own Lua files build on.
//!
//! Each takes a piece of a stream with what was left over of the piece before, and returns what it has made
//! of both, and what is left over now. Nil is the end of the stream.

use perilune_vm::{LuaResult, Native, Value, Vm};

/// The module's functions.
pub static ALL: &[&Native] = &[&B64, &UNB64, &QP, &UNQP, &QPWRP, &WRP, &EOL, &DOT];

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn text(vm: &mut Vm, n: u32) -> LuaResult<Option<Vec<u8>>> {
    Ok(vm.opt_str(n)?.map(|s| s.bytes().to_vec()))
}

/// The frame of the filters with two texts: `step` takes bytes one by one and keeps some, `last` deals with
/// those at the end.
fn filter(
    vm: &mut Vm,
    mut step: impl FnMut(u8, &mut Vec<u8>, &mut Vec<u8>),
    last: impl FnOnce(&[u8], &mut Vec<u8>),
) -> LuaResult<u32> {
    let Some(first) = text(vm, 1)? else {
        vm.push(Value::NIL);
        vm.push(Value::NIL);
        return Ok(2);
    };
    let (mut kept, mut made) = (Vec::with_capacity(4), Vec::with_capacity(first.len() * 2));
    for byte in first {
        step(byte, &mut kept, &mut made);
    }
    match text(vm, 2)? {
        None => {
            last(&kept, &mut made);
            if made.is_empty() {
                vm.push(Value::NIL);
            } else {
                vm.push_str(&made)?;
            }
            vm.push(Value::NIL);
        }
        Some(second) => {
            for byte in second {
                step(byte, &mut kept, &mut made);
            }
            vm.push_str(&made)?;
            vm.push_str(&kept)?;
        }
    }
    Ok(2)
}

// -- Base64 -------------------------------------------------------------------------------------------------

fn b64_group(group: &[u8], made: &mut Vec<u8>) {
    let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
    let value = byte(0) << 16 | byte(1) << 8 | byte(2);
    for n in 0..4 {
        let digit = DIGITS[(value >> (18 - 6 * n) & 63) as usize];
        made.push(if n <= group.len() { digit } else { b'=' });
    }
}

/// `b64(piece, next)`
static B64: Native = Native::leaf("b64", |vm| {
    let step = |byte, kept: &mut Vec<u8>, made: &mut Vec<u8>| {
        kept.push(byte);
        if kept.len() == 3 {
            b64_group(kept, made);
            kept.clear();
        }
    };
    filter(vm, step, |kept, made| {
        if !kept.is_empty() {
            b64_group(kept, made);
        }
    })
});

fn b64_value(byte: u8) -> Option<u32> {
    match byte {
        b'=' => Some(0),
        _ => DIGITS.iter().position(|&d| d == byte).map(|n| n as u32),
    }
}

/// `unb64(piece, next)`: what is no digit is skipped.
static UNB64: Native = Native::leaf("unb64", |vm| {
    let step = |byte, kept: &mut Vec<u8>, made: &mut Vec<u8>| {
        if b64_value(byte).is_none() {
            return;
        }
        kept.push(byte);
        if kept.len() == 4 {
            let value = kept.iter().fold(0, |v, &b| v << 6 | b64_value(b).unwrap_or(0));
            let n = if kept[2] == b'=' {
                1
            } else if kept[3] == b'=' {
                2
            } else {
                3
            };
            made.extend_from_slice(&value.to_be_bytes()[1..=n]);
            kept.clear();
        }
    };
    filter(vm, step, |_, _| ())
});

// -- Quoted-printable ---------------------------------------------------------------------------------------

fn quote(byte: u8, made: &mut Vec<u8>) {
    made.extend([b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

fn is_plain(byte: u8) -> bool {
    (33..=126).contains(&byte) && byte != b'='
}

/// `qp(piece, next [, marker])`: `marker` stands for the ends of lines. Blanks before them are quoted.
static QP: Native = Native::leaf("qp", |vm| {
    let marker = text(vm, 3)?.unwrap_or_else(|| b"\r\n".to_vec());
    let step = |byte, kept: &mut Vec<u8>, made: &mut Vec<u8>| {
        kept.push(byte);
        while let Some(&first) = kept.first() {
            match first {
                b'\r' if kept.len() < 2 => return,
                b'\r' if kept[1] == b'\n' => {
                    made.extend_from_slice(&marker);
                    kept.clear();
                    return;
                }
                b' ' | b'\t' if kept.len() < 3 => return,
                b' ' | b'\t' if kept[1] == b'\r' && kept[2] == b'\n' => {
                    quote(first, made);
                    made.extend_from_slice(&marker);
                    kept.clear();
                    return;
                }
                b' ' | b'\t' => made.push(first),
                _ if is_plain(first) => made.push(first),
                _ => quote(first, made),
            }
            kept.remove(0);
        }
    };
    filter(vm, step, |kept, made| {
        for &byte in kept {
            if is_plain(byte) { made.push(byte) } else { quote(byte, made) }
        }
        if !kept.is_empty() {
            made.extend_from_slice(b"=\r\n");
        }
    })
});

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|d| d as u8)
}

/// `unqp(piece, next)`
static UNQP: Native = Native::leaf("unqp", |vm| {
    let step = |byte, kept: &mut Vec<u8>, made: &mut Vec<u8>| {
        kept.push(byte);
        match kept[0] {
            b'=' if kept.len() < 3 => return,
            b'=' if kept[1..] == *b"\r\n" => {}
            b'=' => match (hex(kept[1]), hex(kept[2])) {
                (Some(high), Some(low)) => made.push(high << 4 | low),
                _ => made.extend_from_slice(kept),
            },
            b'\r' if kept.len() < 2 => return,
            b'\r' if kept[1] == b'\n' => made.extend_from_slice(kept),
            b'\r' => {}
            b'\t' | 32..=126 => made.push(kept[0]),
            _ => {}
        }
        kept.clear();
    };
    filter(vm, step, |_, _| ())
});

// -- Lines --------------------------------------------------------------------------------------------------

/// The frame of the two that break lines: how many bytes are left in the line, a piece, the length of lines.
fn wrap(vm: &mut Vm, end: &[u8], mut add: impl FnMut(u8, i64, &mut Vec<u8>) -> bool) -> LuaResult<u32> {
    let mut left = vm.check_int(1)?;
    let piece = text(vm, 2)?;
    let length = vm.opt_int(3, 76)?;
    let Some(piece) = piece else {
        if left < length {
            vm.push_str(end)?;
        } else {
            vm.push(Value::NIL);
        }
        vm.push(Value::int(length));
        return Ok(2);
    };
    let mut made = Vec::with_capacity(piece.len() + piece.len() / 32 + 8);
    for byte in piece {
        match byte {
            b'\r' => {}
            b'\n' => {
                made.extend_from_slice(b"\r\n");
                left = length;
            }
            _ => {
                if add(byte, left, &mut made) {
                    made.extend_from_slice(end);
                    left = length;
                }
                made.push(byte);
                left -= 1;
            }
        }
    }
    vm.push_str(&made)?;
    vm.push(Value::int(left));
    Ok(2)
}

/// `wrp(left, piece [, length])`
static WRP: Native = Native::leaf("wrp", |vm| wrap(vm, b"\r\n", |_, left, _| left <= 0));

/// `qpwrp(left, piece [, length])`: no quoted byte is torn.
static QPWRP: Native =
    Native::leaf("qpwrp", |vm| wrap(vm, b"=\r\n", |byte, left, _| left <= if byte == b'=' { 3 } else { 1 }));

/// `eol(context, piece [, marker])`: whatever ends lines becomes the marker.
static EOL: Native = Native::leaf("eol", |vm| {
    let mut last = vm.check_int(1)?;
    let piece = text(vm, 2)?;
    let marker = text(vm, 3)?.unwrap_or_else(|| b"\r\n".to_vec());
    let Some(piece) = piece else {
        vm.push(Value::NIL);
        vm.push(Value::int(0));
        return Ok(2);
    };
    let is_end = |c: i64| c == i64::from(b'\r') || c == i64::from(b'\n');
    let mut made = Vec::with_capacity(piece.len() + 16);
    for byte in piece {
        let c = i64::from(byte);
        if !is_end(c) {
            made.push(byte);
            last = 0;
        } else if is_end(last) {
            if c == last {
                made.extend_from_slice(&marker);
            }
            last = 0;
        } else {
            made.extend_from_slice(&marker);
            last = c;
        }
    }
    vm.push_str(&made)?;
    vm.push(Value::int(last));
    Ok(2)
});

/// `dot(state, piece)`: a dot at the beginning of a line is doubled. 0: within a line; 1: behind CR; 2: at
/// the beginning.
static DOT: Native = Native::leaf("dot", |vm| {
    let mut state = vm.check_int(1)?;
    let Some(piece) = text(vm, 2)? else {
        vm.push(Value::NIL);
        vm.push(Value::int(2));
        return Ok(2);
    };
    let mut made = Vec::with_capacity(piece.len() + 16);
    for byte in piece {
        made.push(byte);
        state = match byte {
            b'\r' => 1,
            b'\n' if state == 1 => 2,
            b'.' if state == 2 => {
                made.push(b'.');
                0
            }
            _ => 0,
        };
    }
    vm.push_str(&made)?;
    vm.push(Value::int(state));
    Ok(2)
});
