//! The `utf8` library (manual 6.5).
//!
//! UTF-8 here is the original one, up to 2^31 in six bytes; unless a function is told to be *lax*, it takes
//! only Unicode's code points: up to 10FFFF, no surrogates. Overlong forms are never accepted.
//!
//! Counting the characters of a whole string is what programs do most: [`count_valid`] validates with SIMD
//! and counts bytes that are not continuations; only if that fails is the string decoded step by step, to
//! tell the place.

use crate::string::scratch;
use crate::sys;
use perilune_vm::{LuaResult, Native, Value, Vm};

static CHAR: Native = Native::leaf("char", char);
static CODEPOINT: Native = Native::leaf("codepoint", codepoint);
static CODES: Native = Native::leaf("codes", codes);
static LEN: Native = Native::leaf("len", len);
static OFFSET: Native = Native::leaf("offset", offset);
static STEP_STRICT: Native = Native::leaf("for iterator", |vm| step(vm, Rule::Strict));
static STEP_LAX: Native = Native::leaf("for iterator", |vm| step(vm, Rule::Lax));

/// Matches one character, assuming the subject is valid.
const CHARPATTERN: &[u8] = b"[\0-\x7F\xC2-\xFD][\x80-\xBF]*";
const INVALID: &str = "invalid UTF-8 code";
/// Largest code that UTF-8 can express.
const MAX_CODE: u64 = 0x7fff_ffff;

/// Opens the library: the global `utf8` and `package.loaded.utf8`.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let table = vm.new_table(0, 6)?;
    vm.set_global("utf8", Value::from(table))?;
    vm.register(table, &[&OFFSET, &CODEPOINT, &CHAR, &LEN, &CODES])?;
    let pattern = vm.value_str(CHARPATTERN)?;
    vm.set_field(table, "charpattern", pattern)?;
    vm.set_loaded("utf8", Value::from(table))
}

/// Which codes are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Strict,
    Lax,
}

impl Rule {
    fn of(lax: Value) -> Rule {
        if lax.is_truthy() { Rule::Lax } else { Rule::Strict }
    }
}

fn is_continuation(b: u8) -> bool {
    b & 0xc0 == 0x80
}

fn continues(s: &[u8], i: usize) -> bool {
    s.get(i).is_some_and(|&b| is_continuation(b))
}

/// Decodes the character at the start of `s`, which is not empty: its code and its length.
#[inline]
fn decode(s: &[u8], rule: Rule) -> Option<(u32, usize)> {
    let first = *s.first()?;
    if first < 0x80 {
        return Some((u32::from(first), 1));
    }
    let length = first.leading_ones() as usize;
    if !(2..=6).contains(&length) {
        return None;
    }
    let mut code = u32::from(first) & (0x7f >> length);
    for &b in s.get(1..length)? {
        if !is_continuation(b) {
            return None;
        }
        code = code << 6 | u32::from(b & 0x3f);
    }
    const LEAST: [u32; 7] = [0, 0, 0x80, 0x800, 0x1_0000, 0x20_0000, 0x400_0000];
    let strict = rule == Rule::Strict;
    if code < LEAST[length] || strict && (code > 0x10_ffff || (0xd800..=0xdfff).contains(&code)) {
        return None;
    }
    Some((code, length))
}

/// Appends the UTF-8 form of a code, which is at most [`MAX_CODE`].
pub(crate) fn encode(code: u32, out: &mut Vec<u8>) {
    if code < 0x80 {
        out.push(code as u8);
        return;
    }
    // A sequence of n bytes has 5n + 1 bits of payload.
    let bits = 32 - code.leading_zeros();
    let length = (bits.max(7) + 3) / 5;
    let mark = !(0xffu32 >> length);
    out.push((mark | code >> (6 * (length - 1))) as u8);
    for i in (0..length - 1).rev() {
        out.push(0x80 | (code >> (6 * i) & 0x3f) as u8);
    }
}

/// Number of characters, if the whole of `s` is strictly valid.
fn count_valid(s: &[u8]) -> Option<usize> {
    if s.is_ascii() {
        return Some(s.len());
    }
    simdutf8::basic::from_utf8(s).ok()?;
    Some(sys::leading_bytes(s))
}

/// A position counted from 1, where negative ones count from the end; before the start is 0.
fn position(i: i64, len: usize) -> i64 {
    if i >= 0 {
        i
    } else if i.unsigned_abs() > len as u64 {
        0
    } else {
        len as i64 + i + 1
    }
}

/// `utf8.len(s [, i [, j [, lax]]])`
fn len(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?.bytes();
    let mut from = position(vm.opt_int(2, 1)?, s.len()) - 1;
    let to = position(vm.opt_int(3, -1)?, s.len()) - 1;
    let rule = Rule::of(vm.arg(4));
    if from < 0 || from > s.len() as i64 {
        return Err(vm.arg_error(2, "initial position out of bounds"));
    }
    if to >= s.len() as i64 {
        return Err(vm.arg_error(3, "final position out of bounds"));
    }
    if to == s.len() as i64 - 1
        && let Some(n) = count_valid(&s[from as usize..])
    {
        return vm.ret(Value::int(n as i64));
    }
    let mut n = 0;
    while from <= to {
        let Some((_, length)) = decode(&s[from as usize..], rule) else {
            vm.push(Value::NIL);
            vm.push(Value::int(from + 1));
            return Ok(2);
        };
        from += length as i64;
        n += 1;
    }
    vm.ret(Value::int(n))
}

/// `utf8.codepoint(s [, i [, j [, lax]]])`
fn codepoint(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?.bytes();
    let from = position(vm.opt_int(2, 1)?, s.len());
    let to = position(vm.opt_int(3, from)?, s.len());
    let rule = Rule::of(vm.arg(4));
    if from < 1 {
        return Err(vm.arg_error(2, "out of bounds"));
    }
    if to > s.len() as i64 {
        return Err(vm.arg_error(3, "out of bounds"));
    }
    if from > to {
        return Ok(0);
    }
    let bound = (to - from + 1) as usize;
    if bound > i32::MAX as usize || bound > 20 && vm.ensure_stack(bound).is_err() {
        return Err(vm.error("string slice too long"));
    }
    let (mut at, mut n) = (from as usize - 1, 0);
    while at < to as usize {
        let Some((code, length)) = decode(&s[at..], rule) else { return Err(vm.error(INVALID)) };
        vm.push(Value::int(i64::from(code)));
        at += length;
        n += 1;
    }
    Ok(n)
}

/// `utf8.char(...)`
fn char(vm: &mut Vm) -> LuaResult<u32> {
    let mut out = scratch::take();
    for i in 1..=vm.nargs() {
        let code = vm.check_int(i)? as u64;
        if code > MAX_CODE {
            return Err(vm.arg_error(i, "value out of range"));
        }
        encode(code as u32, &mut out);
    }
    scratch::ret(vm, out)
}

/// `utf8.offset(s, n [, i])`
fn offset(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?.bytes();
    let mut n = vm.check_int(2)?;
    let default = if n >= 0 { 1 } else { s.len() as i64 + 1 };
    let start = position(vm.opt_int(3, default)?, s.len()) - 1;
    if start < 0 || start > s.len() as i64 {
        return Err(vm.arg_error(3, "position out of bounds"));
    }
    let mut at = start as usize;
    if n == 0 {
        while at > 0 && continues(s, at) {
            at -= 1;
        }
    } else if continues(s, at) {
        return Err(vm.error("initial position is a continuation byte"));
    } else if n < 0 {
        while n < 0 && at > 0 {
            at -= 1;
            while at > 0 && continues(s, at) {
                at -= 1;
            }
            n += 1;
        }
    } else {
        n -= 1;
        while n > 0 && at < s.len() {
            at += 1;
            while continues(s, at) {
                at += 1;
            }
            n -= 1;
        }
    }
    vm.ret(if n == 0 { Value::int(at as i64 + 1) } else { Value::NIL })
}

/// `utf8.codes(s [, lax])`
fn codes(vm: &mut Vm) -> LuaResult<u32> {
    let s = vm.check_str(1)?;
    if continues(s.bytes(), 0) {
        return Err(vm.arg_error(1, INVALID));
    }
    vm.push(Value::native(if Rule::of(vm.arg(2)) == Rule::Lax { &STEP_LAX } else { &STEP_STRICT }));
    vm.push(Value::from(s));
    vm.push(Value::int(0));
    Ok(3)
}

/// The iterator of `codes`: from the position of the last character (0 at first) to the next one.
fn step(vm: &mut Vm, rule: Rule) -> LuaResult<u32> {
    let s = vm.check_str(1)?.bytes();
    // Not a valid place, or none at all, is the end.
    let mut at = usize::try_from(vm.arg_to_int(2).unwrap_or(0)).unwrap_or(usize::MAX);
    while continues(s, at) {
        at += 1;
    }
    if at >= s.len() {
        return Ok(0);
    }
    match decode(&s[at..], rule) {
        Some((code, length)) if !continues(s, at + length) => {
            vm.push(Value::int(at as i64 + 1));
            vm.push(Value::int(i64::from(code)));
            Ok(2)
        }
        _ => Err(vm.error(INVALID)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(code: u32) -> Vec<u8> {
        let mut out = Vec::new();
        encode(code, &mut out);
        out
    }

    #[test]
    fn codes_read_back() {
        for bits in 0..31 {
            for code in [1u32 << bits, (1 << bits) - 1, (1 << bits) + 1, !0 >> (31 - bits).max(1)] {
                let text = encoded(code);
                assert_eq!(decode(&text, Rule::Lax), Some((code, text.len())), "{code:x}");
                match char::from_u32(code) {
                    Some(c) => {
                        assert_eq!(text, c.to_string().as_bytes());
                        assert_eq!(decode(&text, Rule::Strict), Some((code, text.len())));
                    }
                    None => assert_eq!(decode(&text, Rule::Strict), None),
                }
            }
        }
        assert_eq!(encoded(0x7fff_ffff), [0xfd, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf]);
    }

    #[test]
    fn malformed_sequences() {
        for text in
            [&b"\x80"[..], b"\xbf", b"\xc3", b"\xe4\xb8", b"\xc3a", b"\xfe", b"\xff\x80\x80\x80\x80\x80\x80"]
        {
            assert_eq!(decode(text, Rule::Lax), None, "{text:x?}");
        }
        // Overlong forms.
        for text in
            [&b"\xc0\x80"[..], b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf8\x87\xbf\xbf\xbf"]
        {
            assert_eq!(decode(text, Rule::Lax), None, "{text:x?}");
        }
        assert_eq!(decode(b"\xed\xa0\x80", Rule::Lax), Some((0xd800, 3)));
        assert_eq!(decode(b"\xed\xa0\x80", Rule::Strict), None);
        assert_eq!(decode(b"\xf4\x90\x80\x80", Rule::Strict), None);
    }

    #[test]
    fn counting() {
        assert_eq!(count_valid(b""), Some(0));
        assert_eq!(count_valid("h\u{e9}llo \u{4e16}\u{1f600}".as_bytes()), Some(8));
        assert_eq!(count_valid(b"\xed\xa0\x80"), None);
        let text = "a\u{e9}\u{4e16}\u{1f600}z".repeat(12);
        for (n, (from, _)) in text.char_indices().enumerate() {
            let (before, behind) = text.split_at(from);
            assert_eq!(count_valid(before.as_bytes()), Some(n));
            assert_eq!(count_valid(behind.as_bytes()), Some(60 - n));
        }
    }
}
