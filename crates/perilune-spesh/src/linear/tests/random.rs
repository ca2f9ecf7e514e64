//! Random numbers, and what is made of them: SplitMix64, so that a function is known by one number.

use crate::ssa::Type;

pub(super) struct Random(u64);

/// What a value of a random function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    I8,
    I16,
    I32,
    I64,
    F64,
    /// It leads into the memory that the function is given.
    Pointer,
}

pub(super) const INTEGERS: [Kind; 4] = [Kind::I8, Kind::I16, Kind::I32, Kind::I64];
/// All but pointers.
pub(super) const KINDS: usize = 5;

impl Kind {
    pub(super) fn ty(self) -> Type {
        [Type::I8, Type::I16, Type::I32, Type::I64, Type::F64, Type::I64][self as usize]
    }

    pub(super) fn bytes(self) -> i64 {
        i64::from(self.ty().bytes())
    }
}

const INTERESTING: [i64; 20] = [
    0,
    1,
    2,
    -1,
    -2,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    i64::MAX,
    i64::MIN,
];

const FLOATS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    1e300,
    -1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    9_223_372_036_854_775_808.0,
    -9_223_372_036_854_775_808.0,
    9_223_372_036_854_774_784.0,
    5e-324,
    f64::MAX,
];

/// Those that are no numbers: of both signs, with bits of their own, and those that signal.
const NANS: [u64; 5] = [
    0x7FF8_0000_0000_0000,
    0xFFF8_0000_0000_0000,
    0x7FF8_0000_0000_1234,
    0xFFFC_0000_0000_0001,
    0x7FF0_0000_0000_0001,
];

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// A number of `low..=high`.
    pub(super) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One of them, rather one of the last.
    pub(super) fn late<T: Copy>(&mut self, of: &[T]) -> T {
        let behind = if self.one_in(2) { of.len() } else { of.len().min(5) };
        of[of.len() - 1 - self.below(behind)]
    }

    pub(super) fn shuffle<T>(&mut self, of: &mut [T]) {
        for n in (1..of.len()).rev() {
            of.swap(n, self.below(n + 1));
        }
    }

    pub(super) fn kind(&mut self, with_pointers: bool) -> Kind {
        match self.below(if with_pointers { 20 } else { 19 }) {
            0..=7 => Kind::I64,
            8..=14 => Kind::F64,
            15 | 16 => Kind::I32,
            17 => Kind::I16,
            18 => Kind::I8,
            _ => Kind::Pointer,
        }
    }

    pub(super) fn integer_kind(&mut self) -> Kind {
        if self.one_in(2) { Kind::I64 } else { self.one_of(&INTEGERS) }
    }

    /// An integer: small ones, those where something ends, and any.
    pub(super) fn integer(&mut self) -> i64 {
        match self.below(8) {
            0..=2 => self.range(-8, 8),
            3..=5 => self.one_of(&INTERESTING),
            6 => self.next() as i64 >> self.below(64),
            _ => self.one_of(&INTERESTING).wrapping_add(self.range(-2, 2)),
        }
    }

    pub(super) fn float(&mut self) -> f64 {
        match self.below(10) {
            0..=4 => self.one_of(&FLOATS),
            5 => f64::from_bits(self.one_of(&NANS)),
            6 => f64::from_bits(self.next()),
            7 => self.integer() as f64,
            _ => self.range(-1000, 1000) as f64 / 8.0,
        }
    }
}
