//! Numerals: what `tonumber` reads, and what `tostring` and `%.17g` write.
//!
//! Decimal numerals are held against Rust's parser, hexadecimal ones against exact arithmetic of our own,
//! numbers against themselves after a trip through text. An input is the numeral's text; a number to be
//! written is an input of 9 bytes, `\x01` (float) or `\x02` (integer) and the bits.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use perilune_syntax::numeral::{Number, format_float, format_integer, parse_integer_base, parse_number};

/// The target.
pub struct Numeral;

fn digits(rng: &mut Rng, set: &[u8], max: usize) -> Vec<u8> {
    (0..rng.below(max + 1)).map(|_| set[rng.below(set.len())]).collect()
}

impl Target for Numeral {
    fn name(&self) -> &'static str {
        "numeral"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        match rng.below(8) {
            0 => {
                out.push(1);
                out.extend(rng.float().to_le_bytes());
                return out;
            }
            1 => {
                out.push(2);
                out.extend(rng.integer().to_le_bytes());
                return out;
            }
            2 => {
                // A float's shortest text, or its neighbourhood.
                let mut text = format!("{:e}", rng.float()).into_bytes();
                if rng.one_in(2) && !text.is_empty() {
                    let n = rng.below(text.len());
                    text[n] = b"0123456789.e-+x "[rng.below(16)];
                }
                return text;
            }
            3 => return rng.integer().to_string().into_bytes(),
            _ => {}
        }
        let hexadecimal = rng.one_in(3);
        let set: &[u8] = if hexadecimal { b"0123456789abcdefABCDEF" } else { b"0123456789" };
        out.extend_from_slice(rng.pick(&["", "", "", " ", "\t\n", "-", "+", " -", "--"]).as_bytes());
        if hexadecimal {
            out.extend_from_slice(rng.pick(&["0x", "0X"]).as_bytes());
        }
        if rng.one_in(6) {
            out.extend(std::iter::repeat_n(b'0', rng.below(40)));
        }
        let long = if rng.one_in(20) { 400 } else { 24 };
        out.extend(digits(rng, set, long));
        if rng.one_in(2) {
            out.push(b'.');
            out.extend(digits(rng, set, long));
        }
        if rng.one_in(2) {
            out.push(if hexadecimal { b"pP"[rng.below(2)] } else { b"eE"[rng.below(2)] });
            out.extend_from_slice(rng.pick(&["", "-", "+"]).as_bytes());
            let most = rng.seldom(10, 12, 3);
            out.extend(digits(rng, b"0123456789", most));
        }
        out.extend_from_slice(rng.pick(&["", "", "", "", " ", "\0", "x", ".", "e", "1"]).as_bytes());
        out
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        if let [kind @ (1 | 2), bits @ ..] = input
            && let Ok(bits) = bits.try_into()
        {
            written(*kind, u64::from_le_bytes(bits))?;
            return Ok(End::Accepted);
        }
        let got = parse_number(input);
        let wanted = expected(input);
        let same = match (&got, &wanted) {
            (None, None) => true,
            (Some(Number::Integer(a)), Some(Number::Integer(b))) => a == b,
            (Some(Number::Float(a)), Some(Number::Float(b))) => a.to_bits() == b.to_bits(),
            _ => false,
        };
        if !same {
            return Err(format!("read as {}, should be {}", text(&got), text(&wanted)));
        }
        // Bases: every integer of digits must be what Rust's wrapping arithmetic says.
        if let Some(n) = parse_integer_base(input, 36) {
            let trimmed = String::from_utf8_lossy(input).trim().to_lowercase();
            let (negative, magnitude) = match trimmed.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, trimmed.strip_prefix('+').unwrap_or(&trimmed)),
            };
            let value = magnitude
                .chars()
                .try_fold(0i64, |n, c| Some(n.wrapping_mul(36).wrapping_add(c.to_digit(36)? as i64)));
            if value.map(|v| if negative { v.wrapping_neg() } else { v }) != Some(n) {
                return Err(format!("in base 36 read as {n}"));
            }
        }
        Ok(if got.is_some() { End::Accepted } else { End::Refused })
    }
}

fn text(n: &Option<Number>) -> String {
    match n {
        None => "no number".into(),
        Some(Number::Integer(n)) => format!("the integer {n}"),
        Some(Number::Float(x)) => format!("the float {x:e}"),
    }
}

fn written(kind: u8, bits: u64) -> Result<(), String> {
    let mut out = Vec::new();
    if kind == 2 {
        format_integer(bits as i64, &mut out);
        let ok = out == (bits as i64).to_string().as_bytes()
            && matches!(parse_number(&out), Some(Number::Integer(n)) if n == bits as i64);
        return if ok {
            Ok(())
        } else {
            Err(format!("integer {} written {}", bits as i64, out.escape_ascii()))
        };
    }
    let x = f64::from_bits(bits);
    format_float(x, &mut out);
    let wanted = fourteen_digits(x);
    let written = String::from_utf8_lossy(&out).into_owned();
    if x.is_nan() {
        return if written.contains("nan") { Ok(()) } else { Err(format!("NaN written {written}")) };
    }
    if written != wanted {
        return Err(format!("float {x:e} written {written}, should be {wanted}"));
    }
    if x.is_finite() {
        let read = match parse_number(&out) {
            Some(Number::Float(y)) => y,
            _ => return Err(format!("{written} is not read as a float")),
        };
        // Fourteen digits are not the number, but the text of what is read is the same text.
        let mut again = Vec::new();
        format_float(read, &mut again);
        if again != out && read.is_finite() {
            return Err(format!("{written} becomes {}", String::from_utf8_lossy(&again)));
        }
        let exact = format!("{x:.17e}");
        if !matches!(parse_number(exact.as_bytes()), Some(Number::Float(y)) if y.to_bits() == bits) {
            return Err(format!("{exact} is not read as itself"));
        }
    }
    Ok(())
}

/// `%.14g`, with `.0` where that looks like an integer.
fn fourteen_digits(x: f64) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{x:.13e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if (-4..14).contains(&exponent) {
        let s = strip(&format!("{x:.*}", (13 - exponent) as usize));
        if s.contains('.') { s } else { s + ".0" }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
    }
}

/// What the numeral means, by the manual and Rust's parser.
fn expected(input: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(input).ok()?;
    let trimmed = text.trim_matches(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'));
    let (negative, rest) = match trimmed.as_bytes().first()? {
        b'-' => (true, &trimmed[1..]),
        b'+' => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if rest.len() >= 2 && rest[..2].eq_ignore_ascii_case("0x") {
        return hexadecimal(&rest[2..], negative);
    }
    if !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if rest.bytes().all(|b| b.is_ascii_digit()) {
        let signed = if negative { format!("-{rest}") } else { rest.to_string() };
        if let Ok(n) = signed.parse::<i64>() {
            return Some(Number::Integer(n));
        }
    }
    let magnitude: f64 = rest.parse().ok()?;
    Some(Number::Float(if negative { -magnitude } else { magnitude }))
}

/// Hexadecimal numerals: integers wrap around, floats are rounded once.
fn hexadecimal(s: &str, negative: bool) -> Option<Number> {
    let (mantissa, exponent) = match s.find(['p', 'P']) {
        Some(at) => (&s[..at], Some(&s[at + 1..])),
        None => (s, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
    if whole.len() + fraction.len() == 0 || !all_hex(whole) || !all_hex(fraction) {
        return None;
    }
    if exponent.is_none() && !mantissa.contains('.') {
        let n = whole
            .bytes()
            .fold(0i64, |n, b| n.wrapping_mul(16).wrapping_add((b as char).to_digit(16).unwrap_or(0) as i64));
        return Some(Number::Integer(if negative { n.wrapping_neg() } else { n }));
    }
    let mut scale: i64 = -4 * fraction.len() as i64;
    if let Some(e) = exponent {
        let (minus, e) = match e.as_bytes().first()? {
            b'-' => (true, &e[1..]),
            b'+' => (false, &e[1..]),
            _ => (false, e),
        };
        if e.is_empty() || !e.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let n = e.bytes().fold(0i64, |n, b| (n * 10 + (b - b'0') as i64).min(1 << 40));
        scale += if minus { -n } else { n };
    }
    // The first 64 significant bits and whether any beyond them are set: enough to round once.
    let (mut bits, mut sticky) = (0u64, false);
    for b in whole.bytes().chain(fraction.bytes()) {
        let digit = (b as char).to_digit(16).unwrap_or(0) as u64;
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
        } else {
            sticky |= digit != 0;
            scale += 4;
        }
    }
    let magnitude = round(bits, sticky, scale);
    Some(Number::Float(if negative { -magnitude } else { magnitude }))
}

/// `bits * 2^scale`, and a little more if `sticky`, to nearest, ties to even.
fn round(bits: u64, sticky: bool, scale: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let shift = bits.leading_zeros();
    let (bits, scale) = (bits << shift, scale - shift as i64);
    let exponent = scale + 63;
    if exponent > 1023 {
        return f64::INFINITY;
    }
    // Bits that do not fit: 11, more for subnormal numbers.
    let drop = 11 + (-1022 - exponent).max(0);
    if drop > 64 {
        return 0.0;
    }
    let (kept, rest, half) = if drop == 64 {
        (0, bits, 1u64 << 63)
    } else {
        (bits >> drop, bits & ((1 << drop) - 1), 1u64 << (drop - 1))
    };
    let up = rest > half || rest == half && (sticky || kept & 1 == 1);
    let significand = kept + up as u64;
    // Both factors are exact, and so is the product: the significand has at most 53 bits and the result is
    // representable.
    let power = scale + drop;
    let first = power.max(-1074);
    significand as f64 * exp2(first) * exp2(power - first)
}

fn exp2(n: i64) -> f64 {
    if n >= -1022 { f64::from_bits(((n + 1023) as u64) << 52) } else { f64::from_bits(1 << (n + 1074)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardsticks_are_right_themselves() {
        assert_eq!(fourteen_digits(0.1), "0.1");
        assert_eq!(fourteen_digits(1e15), "1e+15");
        assert_eq!(fourteen_digits(-3.0), "-3.0");
        assert_eq!(fourteen_digits(1e-5), "1e-05");
        assert_eq!(fourteen_digits(123456.789), "123456.789");
        assert!(matches!(hexadecimal("1.8p1", false), Some(Number::Float(3.0))));
        assert!(matches!(hexadecimal("1p-1074", false), Some(Number::Float(5e-324))));
        assert!(matches!(hexadecimal("1p-1075", false), Some(Number::Float(0.0))));
        assert!(matches!(hexadecimal("1.8p-1075", false), Some(Number::Float(5e-324))));
        assert!(matches!(hexadecimal("ffffffffffffffffff", false), Some(Number::Integer(-1))));
        assert!(matches!(hexadecimal("fffffffffffff.fp971", false), Some(Number::Float(_))));
    }
}
