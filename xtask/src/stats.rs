//! The few formulas behind the figures.
//!
//! A program's cost is the *minimum* over its runs: noise on a shared machine only ever adds. Ratios are
//! averaged geometrically, so that twice as fast on one program and half as fast on another cancel out.

/// Geometric mean of positive numbers; `None` for none.
pub fn geometric_mean(xs: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0u32);
    for x in xs {
        debug_assert!(x > 0.0, "ratios are positive");
        sum += x.ln();
        n += 1;
    }
    (n > 0).then(|| (sum / f64::from(n)).exp())
}

/// The smallest number; `None` for none.
pub fn minimum(xs: impl IntoIterator<Item = f64>) -> Option<f64> {
    xs.into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_and_a_half_cancel() {
        assert!((geometric_mean([2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean([1.0, 10.0, 100.0]).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(geometric_mean([]), None);
    }

    #[test]
    fn minimum_of_some() {
        assert_eq!(minimum([3.0, 1.5, 2.0]), Some(1.5));
        assert_eq!(minimum([]), None);
    }
}
