//! Floats as C's `%a`, `%e`, `%f` and `%g` print them, digit for digit, without calling C.
//!
//! All decimal output is the exact value rounded to nearest, ties to even, as glibc does it. The standard
//! library's `{:.*}` and `{:.*e}` give just that; this file adds C's layout. The common cases, up to 17 or so
//! digits of a moderate value, are [`decimal`]'s.
//!
//! `%a` is the mantissa in hexadecimal, normalised to 1.xxx (subnormals: 0.xxx with exponent -1022), rounded
//! to the precision if one is given; a carry shows as a leading 2.

use super::spec::{Layout, flag};
use perilune_syntax::numeral;
use perilune_syntax::numeral::decimal::{self, Buffer, Decimal, POWERS, scaled};
use std::io::Write;

/// Appends `value` as the conversion `letter` (one of `aAeEfgG`) shows it.
#[inline]
pub fn format(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) {
    if !moderate(layout, value, letter, out) {
        any(layout, value, letter, out);
    }
}

/// Appends `value` if `letter` is one of `efg`, it has few digits, and nothing is out of the ordinary. Says
/// whether it was.
#[inline]
fn moderate(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) -> bool {
    if layout.flags & flag::ALT != 0 {
        return false;
    }
    let sign = layout.sign(value.is_sign_negative());
    let mut text: Buffer = [0; 80];
    text[0] = sign.first().copied().unwrap_or(0);
    let precision = usize::from(layout.precision.unwrap_or(6));
    let magnitude = value.abs();
    let end = match letter {
        b'f' => decimal::fixed(magnitude, precision, &mut text, sign.len()),
        b'g' => {
            let precision = precision.max(1);
            Decimal::new(magnitude, precision).map(|d| d.general(precision, &mut text, sign.len()))
        }
        b'e' => Decimal::new(magnitude, precision + 1)
            .map(|d| d.exponential(precision + 1, &mut text, sign.len())),
        _ => None,
    };
    let Some(end) = end else { return false };
    layout.append_number(&text, sign.len(), end, true, out);
    true
}

/// As [`format`], whatever the value.
#[inline(never)]
fn any(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) {
    let upper = letter.is_ascii_uppercase();
    let start = out.len();
    out.extend_from_slice(layout.sign(value.is_sign_negative()));
    let magnitude = value.abs();
    let mut digits = out.len();
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    } else if letter.eq_ignore_ascii_case(&b'a') {
        out.extend_from_slice(b"0x");
        digits += 2;
        hexadecimal(layout, magnitude, out);
    } else {
        decimal(layout, magnitude, letter, out);
    }
    layout.pad_in_place(start, digits, value.is_finite(), out);
    if upper {
        out[start..].make_ascii_uppercase();
    }
}

fn decimal(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) {
    let alternative = layout.flags & flag::ALT != 0;
    let precision = usize::from(layout.precision.unwrap_or(6));
    match letter {
        b'f' => {
            if !fixed(value, precision, out) {
                let _ = write!(out, "{value:.precision$}");
            }
            if alternative && precision == 0 {
                out.push(b'.');
            }
        }
        b'e' | b'E' => {
            Digits::new(value, precision + 1).exponential(alternative, out);
        }
        _ => general(value, precision.max(1), alternative, out),
    }
}

/// `%.Nf` of a non-negative finite value, if it is moderate. Says whether it was.
fn fixed(value: f64, precision: usize, out: &mut Vec<u8>) -> bool {
    let Some(power) = POWERS.get(precision) else { return false };
    let Some(units) = scaled(value, precision as i32) else { return false };
    numeral::format_integer((units / power) as i64, out);
    if precision > 0 {
        out.push(b'.');
        let start = out.len();
        out.resize(start + precision, b'0');
        write_digits(units % power, &mut out[start..]);
    }
    true
}

/// Fills `digits` with the decimal digits of `value` from the end.
fn write_digits(mut value: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Significant digits, without a point.
struct Digits {
    buffer: [u8; 128],
    count: usize,
    /// Decimal exponent of the first digit.
    exponent: i32,
}

impl Digits {
    /// The first `count` digits (1 to 100) of a non-negative finite value, rounded.
    fn new(value: f64, count: usize) -> Digits {
        let Some(decimal) = Decimal::new(value, count) else { return Digits::exact(value, count) };
        let mut digits = Digits { buffer: [0; 128], count, exponent: decimal.exponent };
        digits.buffer[..count].copy_from_slice(&decimal.digits[..count]);
        digits
    }

    /// By the standard library.
    fn exact(value: f64, count: usize) -> Digits {
        let mut digits = Digits { buffer: [0; 128], count, exponent: 0 };
        let mut rest = &mut digits.buffer[..];
        let _ = write!(rest, "{value:.*e}", count - 1);
        // d.ddd...e-xxx, or dexxx: the exponent is read, the point is closed up.
        let point = usize::from(count > 1);
        let text = &digits.buffer[count + point + 1..];
        let length = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        digits.exponent = text.parse().unwrap_or(0);
        digits.buffer.copy_within(1 + point..count + point, 1);
        digits
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.count]
    }

    fn trim_zeros(&mut self) {
        while self.count > 1 && self.buffer[self.count - 1] == b'0' {
            self.count -= 1;
        }
    }

    /// Lays them out as `%e` does.
    fn exponential(&self, point: bool, out: &mut Vec<u8>) {
        out.push(self.buffer[0]);
        if self.count > 1 || point {
            out.push(b'.');
        }
        out.extend_from_slice(&self.bytes()[1..]);
        out.extend_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
        let exponent = self.exponent.unsigned_abs();
        if exponent < 10 {
            out.push(b'0');
        }
        numeral::format_integer(i64::from(exponent), out);
    }
}

/// `%g` with `precision` significant digits: positional if the exponent is in -4..precision. `#` keeps
/// trailing zeros.
fn general(value: f64, precision: usize, alternative: bool, out: &mut Vec<u8>) {
    if !alternative && value < POWERS[precision.min(15)] as f64 {
        let integer = value as u64;
        if integer as f64 == value {
            numeral::format_integer(integer as i64, out);
            return;
        }
    }
    let mut digits = Digits::new(value, precision);
    if !alternative {
        digits.trim_zeros();
    }
    let exponent = digits.exponent;
    if !(-4..precision as i32).contains(&exponent) {
        return digits.exponential(alternative, out);
    }
    let digits = digits.bytes();
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
        return;
    }
    let integral = exponent as usize + 1;
    if digits.len() <= integral {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', integral - digits.len()));
        if alternative {
            out.push(b'.');
        }
    } else {
        out.extend_from_slice(&digits[..integral]);
        out.push(b'.');
        out.extend_from_slice(&digits[integral..]);
    }
}

/// What follows `0x` in `%a`, in lower case.
fn hexadecimal(layout: &Layout, value: f64, out: &mut Vec<u8>) {
    const NIBBLES: usize = 13;
    let bits = value.to_bits();
    let biased = (bits >> 52) as i32;
    let mut mantissa = bits & ((1 << 52) - 1);
    let exponent = match (biased, mantissa) {
        (0, 0) => 0,
        (0, _) => -1022,
        _ => {
            mantissa |= 1 << 52;
            biased - 1023
        }
    };
    let digits = match layout.precision.map(usize::from) {
        Some(p) if p < NIBBLES => {
            let dropped = 4 * (NIBBLES - p) as u32;
            let rest = mantissa & ((1 << dropped) - 1);
            let half = 1 << (dropped - 1);
            let mut kept = mantissa >> dropped;
            kept += u64::from(rest > half || rest == half && kept & 1 == 1);
            mantissa = kept << dropped;
            p
        }
        Some(p) => p,
        None => NIBBLES - (mantissa.trailing_zeros() as usize / 4).min(NIBBLES),
    };
    out.push(b'0' + (mantissa >> 52) as u8);
    if digits > 0 || layout.flags & flag::ALT != 0 {
        out.push(b'.');
    }
    for i in 0..digits {
        let nibble = if i < NIBBLES { mantissa >> (48 - 4 * i) & 15 } else { 0 };
        out.push(b"0123456789abcdef"[nibble as usize]);
    }
    let _ = write!(out, "p{exponent:+}");
}

/// Appends a float as `%q` shows it: exact, and readable by Lua.
pub fn quote(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"(0/0)");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"1e9999" } else { b"-1e9999" });
    } else {
        format(&Layout::default(), value, b'a', out);
    }
}
