//! Decimal digits of doubles that are neither huge nor tiny, by one exact integer computation.
//!
//! A double is `m * 2^e`. Multiplied by a power of ten below 2^64 it fits 128 bits; shifted right by `-e`,
//! that leaves the digits that are asked for, and what is cut off, by which they are rounded: to nearest, ties
//! to even, as the C library does ([`scaled`]). What does not fit is `None`, and the caller's.
//!
//! Digits become text eight at a time: a number is split in halves, quarters and eighths, each in a part of
//! one word ([`eight_digits`]), without a loop and without a table. Texts are put together by copies of fixed
//! lengths, which need no call, into buffers that have room for what is copied too much.

/// Most digits that a [`Decimal`] has: what a double needs to be read back.
pub const MOST_DIGITS: usize = 17;

/// A buffer that has room for every text that is made here, and for what is copied behind it.
pub type Buffer = [u8; 80];

/// `10^i`
pub const POWERS: [u64; 20] = {
    let mut p = [1; 20];
    let mut i = 1;
    while i < 20 {
        p[i] = p[i - 1] * 10;
        i += 1;
    }
    p
};

/// The lower bytes of this word are the lower bytes of the text: the first digits.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight decimal digits of a number below 10^8, the first one in the lowest byte.
#[inline(always)]
pub fn eight_digits(value: u64) -> u64 {
    debug_assert!(value < 100_000_000);
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    // Exact for what is below 10^4, and below 10^2.
    let hundreds = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let quarters = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((quarters * 103) >> 10) & 0xf_000f_000f_000f;
    tens | ((quarters - tens * 10) << 8)
}

/// Writes an integer of less than nine digits to the beginning of eight bytes; returns how many it has.
#[inline(always)]
pub fn write_small(value: u64, to: &mut [u8; 8]) -> usize {
    let digits = eight_digits(value);
    // The last digit counts, even if it is zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    *to = ((digits + ZEROS) >> (zeros * 8)).to_le_bytes();
    8 - zeros as usize
}

/// Writes the lowest `count` (up to 16) digits of `value`, which has no more, to the beginning of sixteen
/// bytes, zeros behind them.
#[inline(always)]
pub fn write_left(value: u64, count: usize, to: &mut [u8; 16]) {
    debug_assert!(value < POWERS[count]);
    let value = value * POWERS[16 - count];
    to[..8].copy_from_slice(&(eight_digits(value / 100_000_000) + ZEROS).to_le_bytes());
    to[8..].copy_from_slice(&(eight_digits(value % 100_000_000) + ZEROS).to_le_bytes());
}

/// A positive normal double as `mantissa * 2^exponent`. Zero and the subnormals come out wrong, but smaller
/// than anything that counts here.
#[inline(always)]
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    (bits & ((1 << 52) - 1) | 1 << 52, (bits >> 52) as i32 - 1075)
}

/// `value * 10^places` to the nearest integer, ties to even, for a `value` that is not negative; `None` if that
/// is not below 2^63 or not computed here. `places` is in -19..=19.
#[inline]
pub fn scaled(value: f64, places: i32) -> Option<u64> {
    let power = *POWERS.get(places.unsigned_abs() as usize)?;
    let (mantissa, exponent) = parts(value);
    let (units, rest, unit) = if places >= 0 {
        if value * power as f64 >= 9e18 {
            return None;
        }
        // At most 2^53 * 10^19 < 2^117.
        let product = u128::from(mantissa) * u128::from(power);
        if (-63..0).contains(&exponent) {
            let shift = -exponent as u32;
            let (rest, half) = (product as u64 & ((1 << shift) - 1), 1 << (shift - 1));
            let units = (product >> shift) as u64;
            return Some(units + u64::from(rest > half || rest == half && units & 1 == 1));
        }
        if exponent >= 0 {
            (product << exponent, 0, 2)
        } else if exponent > -120 {
            let shift = -exponent as u32;
            (product >> shift, product & ((1 << shift) - 1), 1 << shift)
        } else {
            (0, 0, 2)
        }
    } else {
        if value >= 9e18 || exponent < -63 {
            return None;
        }
        let unit = u128::from(power) << (-exponent).max(0);
        let mantissa = u128::from(mantissa) << exponent.max(0);
        // The quotient of a value below 2^63 is.
        (mantissa / unit, mantissa % unit, unit)
    };
    let up = rest * 2 > unit || rest * 2 == unit && units & 1 == 1;
    Some(units as u64 + u64::from(up))
}

/// The first significant digits of a positive number, as text.
pub struct Decimal {
    /// The digits, and zeros behind them.
    pub digits: [u8; 40],
    /// How many were asked for.
    pub count: usize,
    /// How many there are without zeros at the end; at least one.
    pub significant: usize,
    /// Decimal exponent of the first.
    pub exponent: i32,
}

impl Decimal {
    /// The first `count` digits of `value`, rounded, if it is moderate. `count` is at least 1.
    #[inline]
    pub fn new(value: f64, count: usize) -> Option<Decimal> {
        if count > MOST_DIGITS || !(1e-15..1e18).contains(&value) {
            return None;
        }
        // log10(2) from below: the estimate is right or one too small, at values just above a power of ten.
        let binary = (value.to_bits() >> 52) as i32 - 1023;
        let mut exponent = (binary * 1233) >> 12;
        // The powers up to 10^22 are doubles.
        if exponent >= -1 && value >= POWERS[(exponent + 1) as usize] as f64 {
            exponent += 1;
        }
        let mut units = scaled(value, count as i32 - 1 - exponent)?;
        if units >= POWERS[count] {
            exponent += 1;
            units = scaled(value, count as i32 - 1 - exponent)?;
        }
        let mut digits = [b'0'; 40];
        let mut before = 0;
        if count == MOST_DIGITS {
            digits[0] = b'0' + (units / POWERS[16]) as u8;
            (before, units) = (1, units % POWERS[16]);
        }
        let aligned = units * POWERS[16 + before - count];
        let [high, low] = [aligned / 100_000_000, aligned % 100_000_000].map(eight_digits);
        digits[before..before + 8].copy_from_slice(&(high + ZEROS).to_le_bytes());
        digits[before + 8..before + 16].copy_from_slice(&(low + ZEROS).to_le_bytes());
        let empty = if low != 0 { low.leading_zeros() / 8 } else { 8 + high.leading_zeros() / 8 };
        let significant = before + 16 - empty as usize;
        Some(Decimal { digits, count, significant, exponent })
    }

    /// Lays the significant digits out at `at` as `%g` does, for this precision; returns where the text ends.
    #[inline]
    pub fn general(&self, precision: usize, to: &mut Buffer, at: usize) -> usize {
        if !(-4..precision as i32).contains(&self.exponent) {
            return self.exponential(self.significant, to, at);
        }
        if self.exponent < 0 {
            to[at..at + 8].copy_from_slice(b"0.000000");
            let at = at + 1 + self.exponent.unsigned_abs() as usize;
            to[at..at + 24].copy_from_slice(&self.digits[..24]);
            return at + self.significant;
        }
        let integral = self.exponent as usize + 1;
        to[at..at + 24].copy_from_slice(&self.digits[..24]);
        if self.significant <= integral {
            return at + integral;
        }
        to[at + integral] = b'.';
        to[at + integral + 1..at + integral + 17].copy_from_slice(&self.digits[integral..integral + 16]);
        at + self.significant + 1
    }

    /// Lays the first `count` digits out at `at` as `%e` does; returns where the text ends.
    #[inline]
    pub fn exponential(&self, count: usize, to: &mut Buffer, at: usize) -> usize {
        to[at..at + 2].copy_from_slice(&[self.digits[0], b'.']);
        to[at + 2..at + 18].copy_from_slice(&self.digits[1..17]);
        let at = at + if count > 1 { count + 1 } else { 1 };
        to[at..at + 2].copy_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
        let exponent = self.exponent.unsigned_abs();
        let (mut at, last) = (at + 2, exponent % 100);
        if exponent >= 100 {
            to[at] = b'0' + (exponent / 100) as u8;
            at += 1;
        }
        to[at..at + 2].copy_from_slice(&[b'0' + (last / 10) as u8, b'0' + (last % 10) as u8]);
        at + 2
    }
}

/// Writes a `value` that is not negative with `precision` digits behind the point, at `at`, if it is moderate; returns
/// where the text ends.
#[inline]
pub fn fixed(value: f64, precision: usize, to: &mut Buffer, at: usize) -> Option<usize> {
    let (mantissa, exponent) = if value == 0.0 { (0, -1) } else { parts(value) };
    if precision > 16 || !(-63..0).contains(&exponent) {
        return None;
    }
    let power = POWERS[precision];
    let shift = -exponent as u32;
    let mut integral = mantissa >> shift;
    let product = u128::from(mantissa & ((1 << shift) - 1)) * u128::from(power);
    let mut units = (product >> shift) as u64;
    let (rest, half) = (product as u64 & ((1 << shift) - 1), 1 << (shift - 1));
    let odd = if precision == 0 { integral } else { units } & 1 == 1;
    units += u64::from(rest > half || rest == half && odd);
    if units == power {
        (integral, units) = (integral + 1, 0);
    }
    let mut at = at;
    let (high, low) = (integral / 100_000_000, integral % 100_000_000);
    if high != 0 {
        // The integral part is at most 2^52.
        at += write_small(high, (&mut to[at..at + 8]).try_into().ok()?);
        to[at..at + 8].copy_from_slice(&(eight_digits(low) + ZEROS).to_le_bytes());
        at += 8;
    } else {
        at += write_small(low, (&mut to[at..at + 8]).try_into().ok()?);
    }
    if precision == 0 {
        return Some(at);
    }
    to[at] = b'.';
    write_left(units, precision, (&mut to[at + 1..at + 17]).try_into().ok()?);
    Some(at + 1 + precision)
}
