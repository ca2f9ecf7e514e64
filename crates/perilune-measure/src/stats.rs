//! The few formulas behind the figures.
//!
//! Two figures stand for many runs of one program. The *minimum* is the better estimate of what the program
//! itself costs, since noise on a shared machine only ever adds. The *median* is what a run usually takes,
//! and unlike the minimum one can say how far it may be off ([`median_interval`]). Ratios are averaged
//! geometrically, so that twice as fast on one program and half as fast on another cancel out.

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

/// The middle number, or the mean of the two middle ones; `None` for none.
pub fn median(xs: &[f64]) -> Option<f64> {
    let sorted = sorted(xs);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// What is known of a median after so many samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How often an interval found in this way holds the median that endless sampling would give (0 to 1).
    pub confidence: f64,
}

/// The narrowest pair of samples, equally far from either end, that holds the true median with 95%
/// confidence; least and largest, with the confidence that they give, where there are too few samples for
/// that. `None` for fewer than two.
///
/// Each sample lies below the true median with probability 1/2 whatever the distribution is, so the count of
/// those below is binomial: nothing is assumed of the noise, except that samples do not depend on each other.
pub fn median_interval(xs: &[f64]) -> Option<Interval> {
    let sorted = sorted(xs);
    let n = sorted.len();
    if n < 2 {
        return None;
    }
    // The probability that at most `k` samples lie on one side.
    let mut one = 0.5f64.powi(n as i32);
    let mut tail = one;
    let (mut k, mut confidence) = (0, 1.0 - 2.0 * tail);
    while 2 * (k + 1) < n - 1 {
        one *= (n - k) as f64 / (k + 1) as f64;
        if 1.0 - 2.0 * (tail + one) < 0.95 {
            break;
        }
        tail += one;
        k += 1;
        confidence = 1.0 - 2.0 * tail;
    }
    Some(Interval { low: sorted[k], high: sorted[n - 1 - k], confidence })
}

fn sorted(xs: &[f64]) -> Vec<f64> {
    let mut sorted = xs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
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

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0, 4.0]), Some(3.5));
    }

    #[test]
    fn intervals_know_what_they_are_worth() {
        assert_eq!(median_interval(&[1.0]), None);
        let few = median_interval(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.low, few.high, few.confidence), (1.0, 3.0, 0.75));
        // Tables of the sign test: from nine samples on the extremes are not needed.
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        let i = median_interval(&nine).unwrap();
        assert_eq!((i.low, i.high), (2.0, 8.0));
        assert!((i.confidence - 0.9609375).abs() < 1e-12);
        let eight = median_interval(&nine[..8]).unwrap();
        assert_eq!((eight.low, eight.high), (1.0, 8.0));
        assert!((eight.confidence - 0.9921875).abs() < 1e-12);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let i = median_interval(&hundred).unwrap();
        assert_eq!((i.low, i.high), (40.0, 61.0));
    }
}
