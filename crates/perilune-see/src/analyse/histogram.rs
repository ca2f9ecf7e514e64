//! Percentiles of any number of values in little memory.
//!
//! Values below 128 have a bucket each; above that each power of two is divided into 64, so that a percentile
//! is right to within 1.6%. Count, sum, smallest and largest are exact.

/// How values are distributed.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// As long as the largest value so far needs.
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    least: u64,
    most: u64,
}

/// Buckets of a power of two.
const FINE: u32 = 6;

fn bucket(value: u64) -> usize {
    if value < 2 << FINE {
        return value as usize;
    }
    let shift = value.ilog2() - FINE;
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < 2 << FINE {
        return bucket as u64;
    }
    let shift = (bucket >> FINE) - 1;
    let top = (1 << FINE) + (bucket as u64 & ((1 << FINE) - 1));
    (((top as u128 + 1) << shift) - 1).min(u64::MAX as u128) as u64
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let at = bucket(value);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (to, n) in self.buckets.iter_mut().zip(&other.buckets) {
            *to += n;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// All of them together.
    pub fn sum(&self) -> u64 {
        self.sum
    }
    /// The largest; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.most
    }
    /// The smallest; 0 if there is none.
    pub fn min(&self) -> u64 {
        self.least
    }
    /// The mean; 0 if there is none.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
    /// What `share` (0.0 to 1.0) of the values do not exceed; 0 if there is none.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return upper(at).clamp(self.least, self.most);
            }
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut last = 0;
        for value in 0..200_000u64 {
            let at = bucket(value);
            assert!(at == last || at == last + 1, "{value}");
            assert!(upper(at) >= value && (upper(at) - value) * 64 <= value, "{value}");
            last = at;
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut h = Histogram::default();
        let mut all: Vec<u64> = (0..5000u64).map(|n| n * n % 77_777).collect();
        all.iter().for_each(|&v| h.add(v));
        all.sort_unstable();
        for share in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = all[((5000.0 * share) as usize).saturating_sub(1)];
            let found = h.percentile(share);
            assert!(found >= exact && found - exact <= exact / 50 + 1, "{share}: {found} for {exact}");
        }
        assert_eq!((h.count(), h.min(), h.max()), (5000, 0, *all.last().unwrap_or(&0)));
        assert_eq!(h.sum(), all.iter().sum::<u64>());
    }

    #[test]
    fn merging_is_adding() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for n in 1..500u64 {
            let h = if n % 3 == 0 { &mut a } else { &mut b };
            h.add(n * 97);
            both.add(n * 97);
        }
        a.merge(&b);
        a.merge(&Histogram::default());
        assert_eq!(
            (a.count(), a.sum(), a.min(), a.max()),
            (both.count(), both.sum(), both.min(), both.max())
        );
        assert_eq!(a.percentile(0.9), both.percentile(0.9));
        assert_eq!(Histogram::default().percentile(0.5), 0);
    }
}
