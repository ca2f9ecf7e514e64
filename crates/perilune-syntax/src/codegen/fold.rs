//! Arithmetic on numerals at compile time.
//!
//! What is folded is what gives the same at run time and cannot fail: no division by zero, no bitwise
//! operation on a float without integer value, and no result that is NaN or a float zero (so that 0.0 and
//! -0.0 never meet in a constant table). Everything else is left to the interpreter.

use super::expr::Kind;
use crate::ast::{BinOp, UnOp};

/// `op operand`, or `None` if it is not for now.
pub(super) fn unary(op: UnOp, operand: Kind) -> Option<Kind> {
    match (op, operand) {
        (UnOp::Neg, Kind::Integer(n)) => Some(Kind::Integer(n.wrapping_neg())),
        (UnOp::Neg, Kind::Float(n)) => float(-n),
        (UnOp::BNot, operand) => Some(Kind::Integer(!integer(operand)?)),
        _ => None,
    }
}

/// `left op right`, or `None` if it is not for now.
pub(super) fn binary(op: BinOp, left: Kind, right: Kind) -> Option<Kind> {
    match op {
        BinOp::BAnd | BinOp::BOr | BinOp::BXor | BinOp::Shl | BinOp::Shr => {
            let (a, b) = (integer(left)?, integer(right)?);
            return Some(Kind::Integer(match op {
                BinOp::BAnd => a & b,
                BinOp::BOr => a | b,
                BinOp::BXor => a ^ b,
                BinOp::Shl => shift_left(a, b),
                _ => shift_left(a, b.checked_neg().unwrap_or(i64::MAX)),
            }));
        }
        BinOp::Div | BinOp::IDiv | BinOp::Mod if number(right)? == 0.0 => return None,
        _ => {}
    }
    if let (Kind::Integer(a), Kind::Integer(b)) = (left, right) {
        let result = match op {
            BinOp::Add => Some(a.wrapping_add(b)),
            BinOp::Sub => Some(a.wrapping_sub(b)),
            BinOp::Mul => Some(a.wrapping_mul(b)),
            BinOp::IDiv => {
                let quotient = a.wrapping_div(b);
                let inexact = a.wrapping_rem(b) != 0;
                Some(if inexact && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
            }
            BinOp::Mod => {
                let rest = a.wrapping_rem(b);
                Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }
            _ => None,
        };
        if let Some(n) = result {
            return Some(Kind::Integer(n));
        }
    }
    let (a, b) = (number(left)?, number(right)?);
    float(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a * b,
        BinOp::Div => a / b,
        BinOp::Pow if b == 2.0 => a * a,
        BinOp::Pow => a.powf(b),
        BinOp::IDiv => (a / b).floor(),
        BinOp::Mod => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        _ => return None,
    })
}

fn float(n: f64) -> Option<Kind> {
    (!n.is_nan() && n != 0.0).then_some(Kind::Float(n))
}

fn number(kind: Kind) -> Option<f64> {
    match kind {
        Kind::Integer(n) => Some(n as f64),
        Kind::Float(n) => Some(n),
        _ => None,
    }
}

/// The integer with exactly this value.
fn integer(kind: Kind) -> Option<i64> {
    match kind {
        Kind::Integer(n) => Some(n),
        // 2^63 itself is not an integer; the cast would saturate to the one below.
        Kind::Float(n) if n >= -(2f64.powi(63)) && n < 2f64.powi(63) && n.floor() == n => Some(n as i64),
        _ => None,
    }
}

/// Logical shift by any amount; negative ones shift right.
fn shift_left(n: i64, by: i64) -> i64 {
    match by {
        0..=63 => ((n as u64) << by) as i64,
        -63..=-1 => ((n as u64) >> -by) as i64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(op: BinOp, a: i64, b: i64) -> Option<i64> {
        match binary(op, Kind::Integer(a), Kind::Integer(b)) {
            Some(Kind::Integer(n)) => Some(n),
            _ => None,
        }
    }

    #[test]
    fn integers_wrap_and_divisions_round_down() {
        assert_eq!(int(BinOp::Add, i64::MAX, 1), Some(i64::MIN));
        assert_eq!(int(BinOp::IDiv, -7, 2), Some(-4));
        assert_eq!(int(BinOp::IDiv, i64::MIN, -1), Some(i64::MIN));
        assert_eq!(int(BinOp::Mod, -7, 2), Some(1));
        assert_eq!(int(BinOp::Mod, 7, -2), Some(-1));
        assert_eq!(int(BinOp::Mod, i64::MIN, -1), Some(0));
    }

    #[test]
    fn shifts_by_any_amount() {
        assert_eq!(int(BinOp::Shl, 1, 63), Some(i64::MIN));
        assert_eq!(int(BinOp::Shl, 1, 64), Some(0));
        assert_eq!(int(BinOp::Shr, -1, 63), Some(1));
        assert_eq!(int(BinOp::Shr, 1, i64::MIN), Some(0));
        assert_eq!(int(BinOp::Shl, -1, -1), Some(i64::MAX));
    }

    #[test]
    fn what_could_fail_or_mix_zeros_is_left_alone() {
        assert!(int(BinOp::IDiv, 1, 0).is_none());
        assert!(binary(BinOp::Div, Kind::Integer(1), Kind::Float(0.0)).is_none());
        assert!(binary(BinOp::Mul, Kind::Float(0.0), Kind::Integer(-1)).is_none());
        assert!(binary(BinOp::BAnd, Kind::Float(0.5), Kind::Integer(1)).is_none());
        assert!(binary(BinOp::BOr, Kind::Float(2f64.powi(63)), Kind::Integer(1)).is_none());
        assert!(unary(UnOp::Neg, Kind::Float(0.0)).is_none());
    }
}
