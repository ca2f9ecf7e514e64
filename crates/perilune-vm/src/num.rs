//! Arithmetic and comparison of numbers as the manual defines them (3.4.1 to 3.4.4): integers wrap, `//` and
//! `%` round towards minus infinity, integers and floats compare by their mathematical values.

use crate::value::{Tag, Value};
use perilune_syntax::ast::BinOp;
use std::cmp::Ordering;

/// `a // b` of integers; the caller has excluded b == 0.
#[inline(always)]
pub(crate) fn int_floor_div(a: i64, b: i64) -> i64 {
    if b == -1 {
        return a.wrapping_neg();
    }
    let q = a / b;
    if (a % b != 0) && ((a ^ b) < 0) { q - 1 } else { q }
}

/// `a % b` of integers; the caller has excluded b == 0.
#[inline(always)]
pub(crate) fn int_mod(a: i64, b: i64) -> i64 {
    if b == -1 {
        return 0;
    }
    let r = a % b;
    if r != 0 && (r ^ b) < 0 { r + b } else { r }
}

/// `a % b` of floats: the sign follows b.
#[inline]
pub(crate) fn float_mod(a: f64, b: f64) -> f64 {
    // Integral operands, the usual ones, are faster as integers.
    let (x, y) = (a as i64, b as i64);
    let r = if x as f64 == a && y as f64 == b && y != 0 && x != i64::MAX && y != i64::MAX && x != i64::MIN {
        ((x % y) as f64).copysign(a)
    } else {
        float_remainder(a, b)
    };
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// The remainder of `a / b`, rounded towards zero: C's `fmod`, which works bit by bit, and takes twice as long
/// for usual numbers.
///
/// A quotient below 2^53 that is rounded can only be too large by one, where it was less than a whole number
/// by next to nothing: rounding is monotonic. Either way `a - q * b` is a multiple of the last place of `b`,
/// and not above `b`, so it is a float, and one rounding (`mul_add`) leaves it as it is. If it has got the
/// other sign, the quotient was too large, and adding `b` is exact for the same reason.
#[inline]
pub fn float_remainder(a: f64, b: f64) -> f64 {
    const EXACT: f64 = (1u64 << 53) as f64;
    let quotient = a / b;
    // Not so of infinities, of zero as `b`, and of what is no number.
    if quotient.abs() < EXACT && b.is_finite() {
        let whole = quotient as i64 as f64;
        let rest = (-whole).mul_add(b, a);
        let sign = |x: f64| x.is_sign_negative();
        return match rest == 0.0 {
            true => 0f64.copysign(a),
            false if sign(rest) != sign(a) => rest + b.copysign(a),
            false => rest,
        };
    }
    a % b
}

/// `a ^ b`.
#[inline]
pub(crate) fn pow(a: f64, b: f64) -> f64 {
    if b == 2.0 { a * a } else { power_of_two(a, b).unwrap_or_else(|| any_power(a, b)) }
}

/// Not inlined: the compiler takes the library's function for something cheap, and calls it before it is
/// known whether it is wanted.
#[inline(never)]
fn any_power(a: f64, b: f64) -> f64 {
    a.powf(b)
}

/// `a ^ b` where `a`, a power of two, has an integral exponent: the result is a power of two as well, which
/// programs write for shifts of bits. `None`: not so, or the result is no normal number.
#[inline]
fn power_of_two(a: f64, b: f64) -> Option<f64> {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    const BIAS: i64 = f64::MAX_EXP as i64 - 1;
    const NORMAL: std::ops::RangeInclusive<i64> = f64::MIN_EXP as i64 - 1..=BIAS;
    let (bits, n) = (a.to_bits(), b as i32);
    // A sign counts as an exponent that is too large.
    let exponent = (bits >> FRACTION) as i64 - BIAS;
    if bits << (u64::BITS - FRACTION) != 0 || f64::from(n) != b || !NORMAL.contains(&exponent) {
        return None;
    }
    let exponent = exponent * i64::from(n);
    NORMAL.contains(&exponent).then(|| f64::from_bits(((exponent + BIAS) as u64) << FRACTION))
}

/// `a << b`; a negative or large b shifts the other way or everything out.
#[inline(always)]
pub(crate) fn shift_left(a: i64, b: i64) -> i64 {
    if b >= 64 || b <= -64 {
        0
    } else if b >= 0 {
        ((a as u64) << b) as i64
    } else {
        ((a as u64) >> -b) as i64
    }
}

/// A float's integer value, if it has one.
#[inline(always)]
pub(crate) fn float_to_int(f: f64) -> Option<i64> {
    if (-9223372036854775808.0..9223372036854775808.0).contains(&f) {
        let i = f as i64;
        if i as f64 == f { Some(i) } else { None }
    } else {
        None
    }
}

/// A number's integer value, if it has one; strings are not converted.
#[inline]
pub(crate) fn number_to_int(v: Value) -> Option<i64> {
    match v.tag() {
        Tag::INT => Some(v.int_bits()),
        Tag::FLOAT => float_to_int(v.float_bits()),
        _ => None,
    }
}

/// The result of `op` on two numbers; `None` if an operand is no number (or, for bitwise operators, has no
/// integer value). Integer division by zero is `Err`: the name of the operation that failed.
pub(crate) fn arith(op: BinOp, a: Value, b: Value) -> Option<Result<Value, &'static str>> {
    use BinOp::*;
    match op {
        BAnd | BOr | BXor | Shl | Shr => {
            let (x, y) = (number_to_int(a)?, number_to_int(b)?);
            return Some(Ok(Value::int(match op {
                BAnd => x & y,
                BOr => x | y,
                BXor => x ^ y,
                Shl => shift_left(x, y),
                _ => shift_left(x, y.wrapping_neg()),
            })));
        }
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        let int = match op {
            Add => x.wrapping_add(y),
            Sub => x.wrapping_sub(y),
            Mul => x.wrapping_mul(y),
            IDiv if y == 0 => return Some(Err("attempt to divide by zero")),
            IDiv => int_floor_div(x, y),
            Mod if y == 0 => return Some(Err("attempt to perform 'n%0'")),
            Mod => int_mod(x, y),
            _ => return Some(Ok(Value::float(float_arith(op, x as f64, y as f64)))),
        };
        return Some(Ok(Value::int(int)));
    }
    Some(Ok(Value::float(float_arith(op, a.as_number()?, b.as_number()?))))
}

/// The result of an arithmetic (not bitwise) `op` on floats.
#[inline]
pub(crate) fn float_arith(op: BinOp, x: f64, y: f64) -> f64 {
    match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x / y,
        BinOp::Mod => float_mod(x, y),
        BinOp::Pow => pow(x, y),
        BinOp::IDiv => (x / y).floor(),
        _ => f64::NAN,
    }
}

/// Exact comparison of an integer with a float; `None` for NaN.
pub(crate) fn cmp_int_float(i: i64, f: f64) -> Option<Ordering> {
    if f.is_nan() {
        None
    } else if f >= 9223372036854775808.0 {
        Some(Ordering::Less)
    } else if f < -9223372036854775808.0 {
        Some(Ordering::Greater)
    } else {
        let t = f as i64;
        Some(i.cmp(&t).then_with(|| 0.0f64.partial_cmp(&(f - t as f64)).unwrap_or(Ordering::Equal)))
    }
}

/// Comparison of two numbers by value; `None` if one is NaN or no number.
#[inline]
pub(crate) fn compare(a: Value, b: Value) -> Option<Ordering> {
    match (a.tag(), b.tag()) {
        (Tag::INT, Tag::INT) => Some(a.int_bits().cmp(&b.int_bits())),
        (Tag::FLOAT, Tag::FLOAT) => a.float_bits().partial_cmp(&b.float_bits()),
        (Tag::INT, Tag::FLOAT) => cmp_int_float(a.int_bits(), b.float_bits()),
        (Tag::FLOAT, Tag::INT) => cmp_int_float(b.int_bits(), a.float_bits()).map(Ordering::reverse),
        _ => None,
    }
}

/// Equality of two numbers by value.
#[inline]
pub(crate) fn equal(a: Value, b: Value) -> bool {
    compare(a, b) == Some(Ordering::Equal)
}

/// How a numeric `for` with integer start and step clips its limit: the limit, or `None` if the loop does not
/// run. The limit is a number (already checked).
pub(crate) fn for_limit(start: i64, limit: Value, step: i64) -> Option<i64> {
    let lim = match limit.tag() {
        Tag::INT => limit.int_bits(),
        _ => {
            let f = limit.float_bits();
            // NaN counts as too small for an integer, as in PUC Lua: a loop that goes down never reaches it.
            let f = if step < 0 { f.ceil() } else { f.floor() };
            match float_to_int(f) {
                Some(i) => i,
                None if f > 0.0 => {
                    if step < 0 {
                        return None;
                    }
                    i64::MAX
                }
                None => {
                    if step > 0 {
                        return None;
                    }
                    i64::MIN
                }
            }
        }
    };
    if if step > 0 { start > lim } else { start < lim } { None } else { Some(lim) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_of_floats_are_exact() {
        let mut seed = 7u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed ^ seed >> 29
        };
        let check = |a: f64, b: f64| {
            let (own, wanted) = (float_remainder(a, b), a % b);
            let same = own.to_bits() == wanted.to_bits() || own.is_nan() && wanted.is_nan();
            assert!(same, "{a:e} and {b:e}: {own:e}, not {wanted:e}");
        };
        let special = [0.0, -0.0, 1.0, -3.0, f64::INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324];
        special.iter().for_each(|&a| special.iter().for_each(|&b| check(a, b)));
        for _ in 0..200_000 {
            check(f64::from_bits(random()), f64::from_bits(random()));
            let near = |n: u64, bits: u64| f64::from_bits(n.wrapping_add(bits % 5).wrapping_sub(2));
            let b = f64::from_bits((random() & !(0x7ff << 52)) | (1023 - 40 + random() % 80) << 52);
            // Close to a multiple, on either side.
            let a = b * (random() >> (11 + random() % 53)) as f64;
            check(near(a.to_bits(), random()), b);
            check(-near(a.to_bits(), random()), b);
            check((random() >> 40) as f64 / 7.0, (1 + random() % 100) as f64 / 3.0);
            check(f64::from_bits(random() >> 12), f64::from_bits(random() >> 12));
        }
    }

    #[test]
    fn floor_division_and_modulo() {
        for (a, b) in
            [(7, 2), (-7, 2), (7, -2), (-7, -2), (i64::MIN, -1), (i64::MIN, 1), (0, 5), (6, 3), (-6, 3)]
        {
            let q = (a as i128).div_euclid(b as i128);
            let q = if b < 0 && (a as i128).rem_euclid(b as i128) != 0 { q - 1 } else { q };
            assert_eq!(int_floor_div(a, b), q as i64, "{a}//{b}");
            assert_eq!(int_mod(a, b), (a as i128 - q * b as i128) as i64, "{a}%{b}");
        }
        assert_eq!(float_mod(-5.5, 2.0), 0.5);
        assert_eq!(float_mod(5.5, -2.0), -0.5);
        assert_eq!(float_mod(5.0, f64::INFINITY), 5.0);
        assert_eq!(float_mod(-5.0, f64::INFINITY), f64::INFINITY);
        assert_eq!(float_mod(-6.0, 3.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(float_mod(-5.0, 3.0), 1.0);
        assert_eq!(float_mod(5.0, -3.0), -1.0);
        assert_eq!(float_mod(1e300, 7.0), 1e300 % 7.0);
    }

    #[test]
    fn powers_of_powers_of_two_are_those_of_the_c_library() {
        let bases = (0..64).map(|k| f64::from_bits((k * 33) << 52));
        let others = [-1.0, -2.0, -0.0, 3.0, 10.0, 1.5, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
        let mut exact = 0;
        for a in bases.chain([0.5, 1.0, 2.0, 4.0, 64.0]).chain(others) {
            for b in (-1100..1100).map(f64::from).chain([-0.0, 0.5, 1e10, -1e300, f64::INFINITY, f64::NAN]) {
                exact += u32::from(power_of_two(a, b).is_some());
                if b != 2.0 {
                    assert_eq!(pow(a, b).to_bits(), a.powf(b).to_bits(), "{a} ^ {b}");
                }
            }
        }
        assert!(exact > 4000, "{exact}");
    }

    #[test]
    fn comparisons_are_exact() {
        assert_eq!(cmp_int_float(i64::MAX, 9223372036854775807.0), Some(Ordering::Less));
        assert_eq!(cmp_int_float((1 << 53) + 1, (1u64 << 53) as f64), Some(Ordering::Greater));
        assert_eq!(cmp_int_float(-1, -1.5), Some(Ordering::Greater));
        assert_eq!(cmp_int_float(1, 1.5), Some(Ordering::Less));
        assert_eq!(cmp_int_float(3, f64::NAN), None);
        assert_eq!(cmp_int_float(i64::MIN, f64::NEG_INFINITY), Some(Ordering::Greater));
    }

    #[test]
    fn shifts() {
        assert_eq!(shift_left(1, 63), i64::MIN);
        assert_eq!(shift_left(1, 64), 0);
        assert_eq!(shift_left(-1, -1), i64::MAX);
        assert_eq!(shift_left(-1, i64::MIN), 0);
    }

    #[test]
    fn limits() {
        assert_eq!(for_limit(1, Value::float(3.9), 1), Some(3));
        assert_eq!(for_limit(1, Value::float(f64::INFINITY), 1), Some(i64::MAX));
        assert_eq!(for_limit(1, Value::float(f64::INFINITY), -1), None);
        assert_eq!(for_limit(1, Value::float(f64::NAN), 1), None);
        assert_eq!(for_limit(1, Value::float(f64::NAN), -1), Some(i64::MIN));
        assert_eq!(for_limit(3, Value::int(1), 1), None);
    }
}
