//! Floats as C's `%a`, `%e`, `%f` and `%g` print them, digit for digit, without calling C.
//!
//! All decimal output is the exact value rounded to nearest, ties to even, as glibc does it. The standard
//! library's `{:.*}` and `{:.*e}` give just that; this file adds C's layout. The common cases, up to 17 or so
//! digits of a moderate value, are computed here: a double is `m * 2^-k`, `m * 10^n` fits 128 bits, and a
//! shift by `k` leaves the digits and the exact remainder to round by ([`scaled`]).
//!
//! `%a` is the mantissa in hexadecimal, normalised to 1.xxx (subnormals: 0.xxx with exponent -1022), rounded
//! to the precision if one is given; a carry shows as a leading 2.

use super::spec::{Layout, flag};
use perilune_syntax::numeral;
use std::io::Write;

/// Appends `value` as the conversion `letter` (one of `aAeEfgG`) shows it.
pub fn format(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) {
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
    let precision = layout.precision.unwrap_or(6);
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

const POWERS: [u64; 20] = {
    let mut p = [1; 20];
    let mut i = 1;
    while i < 20 {
        p[i] = p[i - 1] * 10;
        i += 1;
    }
    p
};

/// A non-negative finite double as `mantissa * 2^exponent`.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) as i32 {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased - 1075),
    }
}

/// `value * 10^places` to the nearest integer, ties to even; `None` if that is not below 2^63 or not computed
/// here. `places` is in -19..=19.
fn scaled(value: f64, places: i32) -> Option<u64> {
    let power = *POWERS.get(places.unsigned_abs() as usize)?;
    let (mantissa, exponent) = parts(value);
    let (units, rest, unit) = if places >= 0 {
        if value * power as f64 >= 9e18 {
            return None;
        }
        // At most 2^53 * 10^19 < 2^117.
        let product = u128::from(mantissa) * u128::from(power);
        if exponent >= 0 {
            (product << exponent, 0, 2)
        } else if exponent > -120 {
            let shift = -exponent as u32;
            (product >> shift, product & ((1 << shift) - 1), 1 << shift)
        } else {
            (0, 0, 2)
        }
    } else {
        if value >= 9e18 || exponent < -63 {
            return None;
        }
        let unit = u128::from(power) << (-exponent).max(0);
        let mantissa = u128::from(mantissa) << exponent.max(0);
        // The quotient of a value below 2^63 is.
        (mantissa / unit, mantissa % unit, unit)
    };
    let up = rest * 2 > unit || rest * 2 == unit && units & 1 == 1;
    Some(units as u64 + u64::from(up))
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
        Digits::moderate(value, count).unwrap_or_else(|| Digits::exact(value, count))
    }

    /// By one exact integer computation, for few digits of a value that is neither huge nor tiny.
    fn moderate(value: f64, count: usize) -> Option<Digits> {
        if count > 17 || !(1e-15..1e18).contains(&value) {
            return None;
        }
        let (mantissa, exponent) = parts(value);
        // log10(2) from below: the estimate is right or one too small, at values just above a power of ten.
        let binary = 63 - mantissa.leading_zeros() as i32 + exponent;
        let mut exponent = (binary * 1233) >> 12;
        let mut units = scaled(value, count as i32 - 1 - exponent)?;
        if units >= POWERS[count] {
            exponent += 1;
            units = scaled(value, count as i32 - 1 - exponent)?;
        }
        let mut digits = Digits { buffer: [0; 128], count, exponent };
        write_digits(units, &mut digits.buffer[..count]);
        Some(digits)
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
    let digits = match layout.precision {
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
