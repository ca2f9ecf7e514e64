//! Numbers to text and back, exactly as Lua does it.
//!
//! One home for the rules that the lexer, `tonumber`, `tostring`, coercions, `string.format` and
//! `io.read("n")` share, so that they cannot disagree (manual 3.1, 3.4.3, 6.1).
//!
//! # Reading
//! A numeral is, between optional white space, an optional sign and either decimal or hexadecimal digits.
//! Digits alone make an integer: decimal ones unless they overflow (then a float), hexadecimal ones always
//! (they wrap around modulo 2^64). A radix point or an exponent makes a float. A decimal float goes to the
//! standard library, which rounds correctly; what has at most 19 significant digits and a power of ten up to
//! 22 is computed with one exact multiplication or division (Clinger's fast path). A hexadecimal float of any
//! length keeps its first 64 significant bits and one sticky bit for the rest, and is rounded once, to
//! nearest even, at the place where the result's mantissa ends; so subnormals are rounded once as well. `inf`
//! and `nan` are not numerals.
//!
//! # Writing
//! Floats are written as C's `%.14g`, and get `.0` if that looks like an integer. Moderate ones are computed
//! exactly (`decimal.rs`). Of the others, the shortest digits that read back as the same float come fast; if
//! there are at most 14 of them they are also the 14 correctly rounded ones without trailing zeros. With more
//! of them, rounding the shortest to 14 is right unless what is cut off is within one unit of a half, because
//! the shortest digits are off by less than that unit; those, and the subnormals, are printed exactly.

pub mod decimal;

use decimal::{Buffer, Decimal};

/// A number as a numeral denotes it: the two subtypes of Lua's numbers (manual 2.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Float(f64),
}

/// Significant digits of a float's text.
const DIGITS: usize = 14;

/// White space of the C locale: space, `\t`, `\n`, `\v`, `\f`, `\r`.
#[inline]
pub fn is_space(b: u8) -> bool {
    b == b' ' || (b'\t'..=b'\r').contains(&b)
}

/// The value of a hexadecimal digit.
#[inline]
pub fn hex_value(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    }
}

fn trim(mut s: &[u8]) -> &[u8] {
    while let [b, rest @ ..] = s
        && is_space(*b)
    {
        s = rest;
    }
    while let [rest @ .., b] = s
        && is_space(*b)
    {
        s = rest;
    }
    s
}

/// Splits a sign off: true if it was a minus.
fn sign(s: &[u8]) -> (bool, &[u8]) {
    match s {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, s),
    }
}

/// Reads a whole string as a numeral (manual 3.4.3: "converted to an integer or a float, following its syntax
/// and the rules of the Lua lexer"; white space around it and a sign are allowed). `None` if it is not one.
pub fn parse_number(s: &[u8]) -> Option<Number> {
    let (negative, digits) = sign(trim(s));
    match digits {
        [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest, negative),
        _ => parse_decimal(digits, negative),
    }
}

/// Adds the digits that `s` has from `at` on to a number, which wraps around; returns where they end.
#[inline(always)]
fn read_digits(s: &[u8], mut at: usize, number: &mut u64) -> usize {
    while let Some(&b) = s.get(at)
        && b.is_ascii_digit()
    {
        *number = number.wrapping_mul(10).wrapping_add(u64::from(b - b'0'));
        at += 1;
    }
    at
}

/// What stands between a sign and the end: digits, at most one point, at most one exponent.
fn parse_decimal(s: &[u8], negative: bool) -> Option<Number> {
    let mut mantissa = 0;
    let integral = read_digits(s, 0, &mut mantissa);
    let (mut i, mut fraction) = (integral, 0);
    if s.get(i) == Some(&b'.') {
        i = read_digits(s, i + 1, &mut mantissa);
        fraction = i - integral - 1;
    }
    let digits = integral + fraction;
    if digits == 0 {
        return None;
    }
    // `mantissa` is exact if there are at most 19 digits, which leading zeros do not count for.
    let significant = if digits <= 19 { digits } else { digits - leading_zeros(&s[..i]) };
    let mut exponent = -(fraction as i64);
    let is_float = i > integral || i < s.len();
    if i < s.len() {
        if !matches!(s[i], b'e' | b'E') {
            return None;
        }
        exponent = exponent.saturating_add(parse_exponent(&s[i + 1..])?);
    }
    if !is_float && significant <= 19 && mantissa <= i64::MAX as u64 + u64::from(negative) {
        let value = mantissa as i64;
        return Some(Number::Integer(if negative { value.wrapping_neg() } else { value }));
    }
    let magnitude = if significant <= 19 && mantissa < 1 << 53 && (-22..=22).contains(&exponent) {
        let power = POWERS_OF_TEN[exponent.unsigned_abs() as usize];
        if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power }
    } else {
        std::str::from_utf8(s).ok()?.parse::<f64>().ok()?
    };
    Some(Number::Float(if negative { -magnitude } else { magnitude }))
}

/// How many zeros are before the first digit that is none.
#[cold]
fn leading_zeros(digits: &[u8]) -> usize {
    digits.iter().filter(|b| **b != b'.').take_while(|b| **b == b'0').count()
}

/// Powers of ten that a double holds exactly.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// An exponent's optional sign and digits, all of `s`; clamped far outside of what any mantissa can
/// compensate.
fn parse_exponent(s: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(s);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(i64::from(b - b'0')).min(i64::MAX / 4);
    }
    Some(if negative { -value } else { value })
}

/// What stands after `0x`.
fn parse_hexadecimal(s: &[u8], negative: bool) -> Option<Number> {
    let mut wrapped = 0u64;
    // The float is `mantissa * 2^exponent`, plus less than one unit of the mantissa if `sticky`.
    let (mut mantissa, mut sticky, mut exponent) = (0u64, false, 0i64);
    let (mut any, mut seen_point) = (false, false);
    let mut i = 0;
    while let Some(&b) = s.get(i) {
        if let Some(digit) = hex_value(b) {
            any = true;
            wrapped = wrapped << 4 | u64::from(digit);
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                exponent -= if seen_point { 4 } else { 0 };
            } else {
                sticky |= digit != 0;
                exponent += if seen_point { 0 } else { 4 };
            }
        } else if b == b'.' && !seen_point {
            seen_point = true;
        } else {
            break;
        }
        i += 1;
    }
    if !any {
        return None;
    }
    if !seen_point && i == s.len() {
        let value = wrapped as i64;
        return Some(Number::Integer(if negative { value.wrapping_neg() } else { value }));
    }
    if i < s.len() {
        if !matches!(s[i], b'p' | b'P') {
            return None;
        }
        exponent = exponent.saturating_add(parse_exponent(&s[i + 1..])?);
    }
    let magnitude = scale(mantissa, sticky, exponent);
    Some(Number::Float(if negative { -magnitude } else { magnitude }))
}

/// `mantissa * 2^exponent`, with `sticky` for bits below the mantissa, rounded once to nearest even.
fn scale(mantissa: u64, sticky: bool, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let shift = mantissa.leading_zeros();
    let mantissa = mantissa << shift;
    // The value is 0.mantissa * 2^top; a normal double has top in -1021..=1024 and keeps 53 bits.
    let top = exponent.saturating_sub(i64::from(shift)).saturating_add(64);
    if top > 1024 {
        return f64::INFINITY;
    }
    let kept = if top >= -1021 { 53 } else { 53 - (-1021 - top) };
    if kept < 0 {
        return 0.0;
    }
    let dropped = 64 - kept as u32;
    let (mut bits, rest, half) = if dropped == 64 {
        (0, mantissa, 1 << 63)
    } else {
        (mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1 << (dropped - 1))
    };
    if rest > half || rest == half && (sticky || bits & 1 == 1) {
        bits += 1;
    }
    // A carry out of the mantissa lands in the exponent field, which is what it means: also from subnormal to
    // normal, and from the largest exponent to infinity.
    let biased = if top >= -1021 { (top + 1021) as u64 } else { 0 };
    f64::from_bits((biased << 52) + bits)
}

/// `tonumber(s, base)` (manual 6.1): an optional `-` or `+` and digits of `base`, letters in either case,
/// white space around them. Wraps around on overflow. `base` is in 2..=36; `None` if the string is not such a
/// numeral.
pub fn parse_integer_base(s: &[u8], base: u32) -> Option<i64> {
    debug_assert!((2..=36).contains(&base));
    let (negative, digits) = sign(trim(s));
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &b in digits {
        let digit = match b {
            b'0'..=b'9' => u32::from(b - b'0'),
            _ => u32::from((b | 0x20).wrapping_sub(b'a')) + 10,
        };
        // What is no letter comes out larger than any base.
        if digit >= base {
            return None;
        }
        value = value.wrapping_mul(u64::from(base)).wrapping_add(u64::from(digit));
    }
    Some(if negative { value.wrapping_neg() } else { value } as i64)
}

const DIGIT_PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Decimal digits of `value` at the end of `buffer`; returns where they start.
fn write_digits(mut value: u64, buffer: &mut [u8; 20]) -> usize {
    let mut at = 20;
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    at
}

/// Appends the first `len` bytes of a buffer: a copy of its whole length needs no call.
#[inline(always)]
pub fn append_front<const N: usize>(out: &mut Vec<u8>, buffer: &[u8; N], len: usize) {
    debug_assert!(len <= N);
    let before = out.len();
    out.extend_from_slice(buffer);
    out.truncate(before + len);
}

/// Appends an integer's decimal text (`%d`).
#[inline]
pub fn format_integer(value: i64, out: &mut Vec<u8>) {
    if (0..10).contains(&value) {
        return out.push(b'0' + value as u8);
    }
    if (0..100_000_000).contains(&value) {
        let mut digits = [0; 8];
        let len = decimal::write_small(value as u64, &mut digits);
        return append_front(out, &digits, len);
    }
    out.extend_from_slice(integer_text(value, &mut [0; 20]));
}

/// As [`format_integer`], into a buffer.
#[inline]
pub fn integer_text(value: i64, buffer: &mut [u8; 20]) -> &[u8] {
    if (0..10).contains(&value) {
        buffer[0] = b'0' + value as u8;
        return &buffer[..1];
    }
    if (0..100_000_000).contains(&value)
        && let Some(small) = buffer.first_chunk_mut()
    {
        let len = decimal::write_small(value as u64, small);
        return &buffer[..len];
    }
    large_integer_text(value, buffer)
}

fn large_integer_text(value: i64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = write_digits(value.unsigned_abs(), buffer);
    if value < 0 {
        // The magnitude of an `i64` has at most 19 digits.
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// Appends a float's text as `tostring` gives it: `%.14g`, plus `.0` where that would read back as an integer
/// (`1.0`, `-0.0`); `inf`, `-inf`, `nan` and `-nan` as the C library writes them.
pub fn format_float(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(float_text(value, &mut [0; 80]));
}

/// As [`format_float`], into a buffer.
pub fn float_text(value: f64, buffer: &mut Buffer) -> &[u8] {
    let magnitude = value.abs();
    let start = usize::from(value.is_sign_negative());
    buffer[0] = b'-';
    let end = if magnitude < 1e14 && magnitude as u64 as f64 == magnitude {
        // An integral value below 10^14 has at most 14 digits and no exponent.
        let mut digits = [0; 20];
        let text = integer_text(magnitude as i64, &mut digits);
        let end = start + text.len();
        buffer[start..end].copy_from_slice(text);
        buffer[end..end + 2].copy_from_slice(b".0");
        end + 2
    } else if !value.is_finite() {
        buffer[start..start + 3].copy_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
        start + 3
    } else {
        let decimal = Decimal::new(magnitude, DIGITS).unwrap_or_else(|| fourteen_digits(magnitude));
        let end = decimal.general(DIGITS, buffer, start);
        let looks_integral = decimal.significant as i32 <= decimal.exponent + 1
            && (0..DIGITS as i32).contains(&decimal.exponent);
        buffer[end..end + 2].copy_from_slice(b".0");
        end + if looks_integral { 2 } else { 0 }
    };
    &buffer[..end]
}

/// The correctly rounded 14 digits of a positive finite float, whatever its magnitude.
#[inline(never)]
fn fourteen_digits(value: f64) -> Decimal {
    let (text, significant, exponent) = rounded_digits(value);
    let mut digits = [b'0'; 40];
    digits[..significant].copy_from_slice(&text[..significant]);
    Decimal { digits, count: DIGITS, significant, exponent }
}

/// The correctly rounded 14 digits of a positive finite float without their trailing zeros, how many they
/// are, and the decimal exponent of the first.
fn rounded_digits(value: f64) -> ([u8; 20], usize, i32) {
    if value.is_normal() {
        let mut buffer = zmij::Buffer::new();
        let (mut digits, count, mut exponent) = split_digits(buffer.format_finite(value).as_bytes());
        if count <= DIGITS {
            return (digits, count, exponent);
        }
        let (mut cut, mut half) = (0u32, 5);
        for &digit in &digits[DIGITS..count] {
            cut = cut * 10 + u32::from(digit - b'0');
        }
        for _ in DIGITS + 1..count {
            half *= 10;
        }
        if cut.abs_diff(half) > 1 {
            let mut count = DIGITS;
            if cut > half {
                while count > 0 && digits[count - 1] == b'9' {
                    count -= 1;
                }
                if count == 0 {
                    digits[0] = b'1';
                    exponent += 1;
                    return (digits, 1, exponent);
                }
                digits[count - 1] += 1;
            }
            return (digits, without_zeros(&digits, count), exponent);
        }
    }
    exact_digits(value)
}

/// As [`rounded_digits`], by the standard library's exact algorithm.
#[cold]
fn exact_digits(value: f64) -> ([u8; 20], usize, i32) {
    split_digits(format!("{value:.13e}").as_bytes())
}

fn without_zeros(digits: &[u8], mut count: usize) -> usize {
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    count
}

/// Takes positional (`0.00123`, `1234.0`) or scientific text (`1.5e-7`) apart: significant digits without
/// trailing zeros, their number, and the decimal exponent of the first.
fn split_digits(text: &[u8]) -> ([u8; 20], usize, i32) {
    let mut digits = [b'0'; 20];
    // `point` is the number of digits before the radix point, counted from the first significant one.
    let (mut count, mut point, mut seen_point, mut explicit) = (0usize, 0i32, false, 0i32);
    for (i, &b) in text.iter().enumerate() {
        match b {
            b'.' => seen_point = true,
            b'e' => {
                let (negative, rest) = sign(&text[i + 1..]);
                explicit = rest.iter().fold(0, |e, b| e * 10 + i32::from(b - b'0'));
                explicit = if negative { -explicit } else { explicit };
                break;
            }
            b'0' if count == 0 => point -= i32::from(seen_point),
            _ => {
                // Positional text of a large integral value has zeros past the digits that count.
                if count < digits.len() {
                    digits[count] = b;
                    count += 1;
                }
                point += i32::from(!seen_point);
            }
        }
    }
    (digits, without_zeros(&digits, count), point - 1 + explicit)
}

/// The integer equal to `value`, if there is one (manual 3.4.3: floats with an exact representation as an
/// integer).
#[inline]
pub fn float_to_integer(value: f64) -> Option<i64> {
    // -2^63 is exact, 2^63 is not an i64; NaN fails both comparisons.
    let integer = value as i64;
    (integer as f64 == value && value < 9_223_372_036_854_775_808.0).then_some(integer)
}

/// The largest integer not above `value`, if it is an `i64`.
#[inline]
pub fn float_floor_to_integer(value: f64) -> Option<i64> {
    float_to_integer(value.floor())
}

/// The smallest integer not below `value`, if it is an `i64`.
#[inline]
pub fn float_ceil_to_integer(value: f64) -> Option<i64> {
    float_to_integer(value.ceil())
}
