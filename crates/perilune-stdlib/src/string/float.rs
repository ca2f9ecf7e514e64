//! Floats as C's `%a`, `%e`, `%f` and `%g` print them, digit for digit, without calling C.
//!
//! All decimal output is the exact value rounded to nearest, ties to even, as glibc does it. The standard library's `{:.*}` and `{:.*e}` give just that; this
//! file adds C's layout. The common `%.Nf` of a moderate value is computed here: with a double as `m * 2^-k`, `m * 10^N` fits
//! 128 bits, and a shift by `k` leaves the digits and the exact remainder to round by.
//!
//! `%a` is the mantissa in hexadecimal, normalised to 1.xxx (subnormals: 0.xxx with exponent -1022), rounded to the precision if one is given; a carry shows as a
//! leading 2.

use super::spec::{Layout, flag};
use perilune_syntax::numeral;
use std::io::Write;

/// Appends `value` as the conversion `letter` (one of `aAeEfgG`) shows it.
pub fn format(layout: &Layout, value: f64, letter: u8, out: &mut Vec<u8>) {
    let upper = letter.is_ascii_uppercase();
    let start = out.len();
    let sign = layout.sign(value.is_sign_negative());
    let magnitude = value.abs();
    if !value.is_finite() {
        let text = if value.is_nan() { b"nan" } else { b"inf" };
        layout.pad_number(sign, text, false, out);
    } else if letter.eq_ignore_ascii_case(&b'a') {
        let mut prefix = sign.to_vec();
        prefix.extend_from_slice(b"0x");
        let mut body = Vec::with_capacity(24);
        hexadecimal(layout, magnitude, &mut body);
        layout.pad_number(&prefix, &body, true, out);
    } else if layout.width == 0 {
        out.extend_from_slice(sign);
        decimal(layout, magnitude, letter, out);
    } else {
        let mut body = Vec::with_capacity(32);
        decimal(layout, magnitude, letter, &mut body);
        layout.pad_number(sign, &body, true, out);
    }
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
            let (digits, exponent) = scientific(value, precision);
            exponential(&digits, exponent, alternative, out);
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

/// `%.Nf` of a non-negative finite value, if it is moderate: below 2^63 when scaled by 10^N. Says whether it was.
fn fixed(value: f64, precision: usize, out: &mut Vec<u8>) -> bool {
    let Some(&power) = POWERS.get(precision) else { return false };
    if value * power as f64 >= 9e18 {
        return false;
    }
    let bits = value.to_bits();
    let biased = (bits >> 52) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) =
        if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    // At most 2^53 * 10^19 < 2^117.
    let scaled = u128::from(mantissa) * u128::from(power);
    let units = if exponent >= 0 {
        scaled << exponent
    } else if exponent > -120 {
        let shift = -exponent as u32;
        let rest = scaled & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        let units = scaled >> shift;
        units + u128::from(rest > half || rest == half && units & 1 == 1)
    } else {
        0
    } as u64;
    numeral::format_integer((units / power) as i64, out);
    if precision > 0 {
        out.push(b'.');
        let mut rest = units % power;
        let start = out.len();
        out.resize(start + precision, b'0');
        for digit in out[start..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    true
}

/// `precision + 1` digits and the decimal exponent of the first.
fn scientific(value: f64, precision: usize) -> (Vec<u8>, i32) {
    let mut text = Vec::with_capacity(precision + 8);
    let _ = write!(text, "{value:.precision$e}");
    let e = text.iter().rposition(|&b| b == b'e').unwrap_or(text.len());
    let exponent = std::str::from_utf8(&text[e + 1..]).ok().and_then(|t| t.parse().ok()).unwrap_or(0);
    text.truncate(e);
    if text.len() > 1 {
        text.remove(1);
    }
    (text, exponent)
}

fn exponential(digits: &[u8], exponent: i32, point: bool, out: &mut Vec<u8>) {
    out.push(digits[0]);
    if digits.len() > 1 || point {
        out.push(b'.');
    }
    out.extend_from_slice(&digits[1..]);
    let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
}

/// `%g` with `precision` significant digits: positional if the exponent is in -4..precision. `#` keeps trailing zeros.
fn general(value: f64, precision: usize, alternative: bool, out: &mut Vec<u8>) {
    if !alternative && precision < POWERS.len() && value < POWERS[precision.min(15)] as f64 {
        let integer = value as u64;
        if integer as f64 == value {
            numeral::format_integer(integer as i64, out);
            return;
        }
    }
    let (mut digits, exponent) = scientific(value, precision - 1);
    if !alternative {
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
        }
    }
    if !(-4..precision as i32).contains(&exponent) {
        return exponential(&digits, exponent, alternative, out);
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(&digits);
        return;
    }
    let integral = exponent as usize + 1;
    if digits.len() <= integral {
        out.extend_from_slice(&digits);
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
