//! Random numbers: SplitMix64, seeded with the run's seed and the number of the case.
//!
//! Quality matters less here than two things: a case is reproducible from two numbers, and starting one costs
//! nothing.

/// A generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of case number `case` of the run with `seed`.
    pub fn new(seed: u64, case: u64) -> Rng {
        let mut rng =
            Rng(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ case.wrapping_mul(0x2545_f491_4f6c_dd1d));
        rng.next();
        rng
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// A number of `low..=high`.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Mostly `usual`, one time in `n` it is `rare`.
    pub fn seldom<T>(&mut self, n: usize, rare: T, usual: T) -> T {
        if self.one_in(n) { rare } else { usual }
    }

    /// One of the elements.
    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// A random byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// An integer: small ones, those next to powers of two, and any.
    pub fn integer(&mut self) -> i64 {
        match self.below(8) {
            0..=3 => self.range(-10, 20),
            4 => self.range(-300, 300),
            5 => (1i64 << self.below(63)).wrapping_add(self.range(-2, 2)),
            6 => (-1i64 << self.below(64)).wrapping_add(self.range(-2, 2)),
            _ => self.next() as i64,
        }
    }

    /// A float: everyday ones, special ones, and any bit pattern.
    pub fn float(&mut self) -> f64 {
        const SPECIAL: [f64; 14] = [
            0.0,
            -0.0,
            0.5,
            1e15,
            1e16,
            1e100,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            9007199254740993.0,
            9223372036854775808.0,
        ];
        match self.below(6) {
            0 => SPECIAL[self.below(SPECIAL.len())],
            1 => self.range(-100, 100) as f64 / 4.0,
            2 => self.integer() as f64,
            3 => self.next() as f64 / 2f64.powi(self.below(90) as i32),
            4 => self.range(-1000000, 1000000) as f64 * 10f64.powi(self.range(-30, 30) as i32),
            _ => f64::from_bits(self.next()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_differ_and_repeat() {
        let first = |seed, case| Rng::new(seed, case).next();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut rng = Rng::new(0, 0);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.below(5)] = true;
            assert!((-3..=3).contains(&rng.range(-3, 3)));
        }
        assert!(seen.iter().all(|&s| s));
    }
}
