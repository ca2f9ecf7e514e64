//! Numbers in the text: the grammar of RFC 8259, section 6, which is stricter than Lua's.
//!
//! Digits are gathered into a 64-bit mantissa as long as it is exact (19 digits). An integer that fits is
//! done then. A float is the mantissa times a power of ten: where both are exact in a double, one rounding
//! gives the right result (Clinger's fast path); all others are left to the standard library's parser, which
//! is exact.

use super::fault::What;
use perilune_vm::Value;

/// Digits that a 64-bit mantissa holds for sure.
const EXACT: usize = 19;

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Reads the number that begins at `start`, with a minus or a digit: the value, and the offset behind it.
#[inline]
pub(super) fn read(text: &[u8], start: usize, big_as_float: bool) -> Result<(Value, usize), (usize, What)> {
    let digit = |at: usize| text.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10);
    let negative = text[start] == b'-';
    let first = start + usize::from(negative);
    let mut at = first;
    let mut mantissa = 0u64;
    match digit(at) {
        Some(0) => at += 1,
        Some(_) => {
            while let Some(d) = digit(at) {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(d));
                at += 1;
            }
        }
        None => return Err(expected(text, at, "a digit")),
    }
    let mut digits = at - first;
    if !matches!(text.get(at), Some(b'.' | b'e' | b'E')) {
        if let Some(&b) = text.get(at)
            && b.is_ascii_digit()
        {
            return Err((at, What::Expected("no digit behind a leading zero")));
        }
        if mantissa == 0 && digits == 1 {
            // An integer has no negative zero.
            return Ok((if negative { Value::float(-0.0) } else { Value::int(0) }, at));
        }
        let fits = digits < EXACT || digits == EXACT && mantissa <= i64::MAX as u64 + u64::from(negative);
        if fits {
            let value = mantissa as i64;
            return Ok((Value::int(if negative { value.wrapping_neg() } else { value }), at));
        }
        if !big_as_float {
            return Err((start, What::BigInteger));
        }
        return exact(text, start, at);
    }
    let mut exponent = 0i64;
    if text[at] == b'.' {
        at += 1;
        let fraction = at;
        while let Some(d) = digit(at) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(d));
            at += 1;
        }
        if at == fraction {
            return Err(expected(text, at, "a digit behind the point"));
        }
        exponent = -((at - fraction) as i64);
        digits += at - fraction;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        let down = text.get(at) == Some(&b'-');
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        let from = at;
        let mut value = 0i64;
        while let Some(d) = digit(at) {
            value = (value * 10 + i64::from(d)).min(1 << 40);
            at += 1;
        }
        if at == from {
            return Err(expected(text, at, "a digit of the exponent"));
        }
        exponent += if down { -value } else { value };
    }
    if digits <= EXACT && mantissa < 1 << 53 && (-22..=22).contains(&exponent) {
        let power = POWERS[exponent.unsigned_abs() as usize];
        let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
        return Ok((Value::float(if negative { -value } else { value }), at));
    }
    exact(text, start, at)
}

fn expected(text: &[u8], at: usize, what: &'static str) -> (usize, What) {
    (at, if at < text.len() { What::Expected(what) } else { What::End(what) })
}

/// By the standard library's parser.
fn exact(text: &[u8], start: usize, end: usize) -> Result<(Value, usize), (usize, What)> {
    let value = std::str::from_utf8(&text[start..end]).ok().and_then(|s| s.parse::<f64>().ok());
    match value {
        Some(value) if value.is_finite() => Ok((Value::float(value), end)),
        _ => Err((start, What::BigNumber)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(text: &str) -> f64 {
        read(text.as_bytes(), 0, false).unwrap().0.as_float().unwrap()
    }

    #[test]
    fn floats_are_those_of_the_standard_library() {
        for text in [
            "0.1",
            "1.0",
            "-0.0",
            "123456789.123456789",
            "9007199254740993.0",
            "1e22",
            "1e23",
            "-1E-5",
            "2.2250738585072014e-308",
            "4.9e-324",
            "1e-400",
            "1.7976931348623157e308",
            "0.00000000000000000000000000000000000001",
            "65.613616999999977",
            "123456789012345678901234567890.5",
            "00e1".trim_start_matches('0').trim_start_matches('e'),
        ] {
            if text.contains(['.', 'e', 'E']) {
                assert_eq!(float(text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            }
        }
    }

    #[test]
    fn integers() {
        for (text, value) in [
            ("0", 0),
            ("7,", 7),
            ("-12", -12),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808]", i64::MIN),
        ] {
            assert_eq!(read(text.as_bytes(), 0, false).unwrap().0.as_int(), Some(value), "{text}");
        }
        assert_eq!(float("-0.0").to_bits(), (-0.0f64).to_bits());
        for text in
            ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999"]
        {
            assert_eq!(read(text.as_bytes(), 0, false).unwrap_err(), (0, What::BigInteger), "{text}");
            let float = read(text.as_bytes(), 0, true).unwrap().0.as_float().unwrap();
            assert_eq!(float, text.parse::<f64>().unwrap());
        }
    }

    #[test]
    fn faults() {
        for (text, at) in [
            ("-", 1),
            ("-a", 1),
            ("01", 1),
            ("1.", 2),
            ("1.e1", 2),
            ("1e", 2),
            ("1e+", 3),
            ("-01", 2),
            ("1e400", 0),
        ] {
            assert_eq!(read(text.as_bytes(), 0, false).unwrap_err().0, at, "{text}");
        }
    }
}
