//! Conversion specifications of `string.format`: what stands between `%` and its letter, and laying text out
//! by it.
//!
//! Lua accepts what ISO C accepts, minus `*`, lengths and more than two digits of width or precision, and
//! each conversion takes only the flags that mean something for it (manual 6.4). A specification is first cut
//! out ([`Spec::scan`]), then, once its argument has been looked at, checked against what its conversion
//! allows ([`Spec::check`]): in this order, because the argument's errors come first. Where nothing is
//! wrong, one look at it is enough ([`Conversion::read`]).

use perilune_syntax::numeral::append_front;
use perilune_syntax::numeral::decimal::{self, Buffer};

/// Flags, as bits.
pub mod flag {
    #![allow(missing_docs)]
    pub const LEFT: u8 = 1;
    pub const PLUS: u8 = 2;
    pub const ALT: u8 = 4;
    pub const ZERO: u8 = 8;
    pub const SPACE: u8 = 16;
    /// What `%d` and `%i` take.
    pub const SIGNED: u8 = LEFT | PLUS | ZERO | SPACE;
    /// What `%u` takes.
    pub const UNSIGNED: u8 = LEFT | ZERO;
    /// What `%x`, `%X` and `%o` take.
    pub const BASED: u8 = LEFT | ALT | ZERO;
    /// What `%a`, `%e`, `%f`, `%g` take.
    pub const FLOAT: u8 = LEFT | PLUS | ALT | ZERO | SPACE;
    /// What `%c`, `%p`, `%s` take.
    pub const TEXT: u8 = LEFT;
}

#[inline(always)]
fn flag_bit(b: u8) -> Option<u8> {
    Some(match b {
        b'-' => flag::LEFT,
        b'+' => flag::PLUS,
        b'#' => flag::ALT,
        b'0' => flag::ZERO,
        b' ' => flag::SPACE,
        _ => return None,
    })
}

/// A conversion specification is too long to be one.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// A conversion specification's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    /// See [`flag`].
    pub flags: u8,
    /// Minimum number of bytes.
    pub width: u8,
    /// Digits or bytes, as the conversion has it.
    pub precision: Option<u8>,
}

/// Longest specification, without `%` and letter.
const LONGEST: usize = 20;

/// A conversion specification that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// How its result is laid out.
    pub layout: Layout,
    /// The conversion; `d` stands for `i` too.
    pub letter: u8,
    /// Bytes of the specification.
    pub length: usize,
}

impl Conversion {
    /// The specification that `format` (what follows a `%`) begins with, if there is one that its conversion
    /// allows.
    #[inline(always)]
    pub fn read(format: &[u8]) -> Option<Conversion> {
        let mut layout = Layout::default();
        let mut at = 0;
        if !format.first()?.is_ascii_alphabetic() {
            while let Some(bit) = flag_bit(*format.get(at)?) {
                layout.flags |= bit;
                at += 1;
            }
            (layout.width, at) = two_digits_at(format, at);
            if format.get(at) == Some(&b'.') {
                let (digits, end) = two_digits_at(format, at + 1);
                (layout.precision, at) = (Some(digits), end);
            }
        }
        let letter = *format.get(at)?;
        let (flags, precision) = match letter {
            b'd' | b'i' => (flag::SIGNED, true),
            b'x' | b'X' | b'o' => (flag::BASED, true),
            b'u' => (flag::UNSIGNED, true),
            b'a' | b'A' | b'e' | b'E' | b'f' | b'g' | b'G' => (flag::FLOAT, true),
            b's' => (flag::TEXT, true),
            b'c' | b'p' => (flag::TEXT, false),
            b'q' if at == 0 => (0, false),
            _ => return None,
        };
        if layout.flags & !flags != 0 || layout.precision.is_some() && !precision || at > LONGEST {
            return None;
        }
        Some(Conversion { layout, letter: if letter == b'i' { b'd' } else { letter }, length: at + 1 })
    }
}

/// The number of up to two digits at `at`, and where it ends.
#[inline(always)]
fn two_digits_at(text: &[u8], mut at: usize) -> (u8, usize) {
    let mut number = 0;
    for _ in 0..2 {
        match text.get(at) {
            Some(b) if b.is_ascii_digit() => number = number * 10 + (b - b'0'),
            _ => break,
        }
        at += 1;
    }
    (number, at)
}

/// A conversion specification as it stands in the format string, without `%`.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'f> {
    /// Flags, width and precision, unchecked.
    modifiers: &'f [u8],
    /// The conversion; 0 at the end of the format string.
    pub letter: u8,
}

impl<'f> Spec<'f> {
    /// Cuts the specification off that `format` (what follows a `%`) begins with; returns its length too.
    #[inline]
    pub fn scan(format: &'f [u8]) -> Result<(Spec<'f>, usize), TooLong> {
        let n = format
            .iter()
            .position(|b| !matches!(b, b'-' | b'+' | b'#' | b'0'..=b'9' | b' ' | b'.'))
            .unwrap_or(format.len());
        if n > LONGEST {
            return Err(TooLong);
        }
        Ok((Spec { modifiers: &format[..n], letter: format.get(n).copied().unwrap_or(0) }, n + 1))
    }

    /// There is nothing between `%` and the letter.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.modifiers.is_empty()
    }

    /// Parses the modifiers, if they are what a conversion with these flags, and a precision or not, takes.
    pub fn check(&self, flags: u8, precision: bool) -> Option<Layout> {
        let mut layout = Layout::default();
        let mut rest = self.modifiers;
        while let [b, tail @ ..] = rest
            && let Some(bit) = flag_bit(*b)
            && bit & flags != 0
        {
            layout.flags |= bit;
            rest = tail;
        }
        if rest.first() != Some(&b'0') {
            let (width, end) = two_digits_at(rest, 0);
            (layout.width, rest) = (width, &rest[end..]);
            if precision && let [b'.', tail @ ..] = rest {
                let (digits, end) = two_digits_at(tail, 0);
                (layout.precision, rest) = (Some(digits), &tail[end..]);
            }
        }
        rest.is_empty().then_some(layout)
    }

    /// The specification as text for messages: up to the first NUL.
    pub fn text(&self) -> Vec<u8> {
        let mut text = vec![b'%'];
        text.extend_from_slice(self.modifiers);
        if self.letter != 0 {
            text.push(self.letter);
        }
        text
    }
}

/// Writes the digits of a number, none for 0, before `at`, which moves. The base is known when this is
/// compiled, so that nothing is divided.
#[inline]
fn write_digits<const BASE: u64>(mut rest: u64, digits: &[u8; 16], buffer: &mut [u8; 128], at: &mut usize) {
    while rest != 0 {
        *at -= 1;
        buffer[*at] = digits[(rest % BASE) as usize];
        rest /= BASE;
    }
}

/// Writes an integer of up to 32 bits in hexadecimal, with letters from `ten` on, to the beginning of eight
/// bytes; returns how many digits it has.
#[inline(always)]
fn write_hexadecimal(value: u64, ten: u8, to: &mut [u8; 8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let halves = (value | (value << 16)) & 0xffff_0000_ffff;
    let bytes = (halves | (halves << 8)) & 0xff_00ff_00ff_00ff;
    // The first digit in the lowest byte.
    let digits = ((bytes | (bytes << 4)) & 0x0f0f_0f0f_0f0f_0f0f).swap_bytes();
    let letters = ((digits + 6 * ONES) >> 4) & ONES;
    let text = digits + 0x30 * ONES + letters * u64::from(ten - b'9' - 1);
    // The last digit counts, even if it is zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    *to = (text >> (zeros * 8)).to_le_bytes();
    8 - zeros as usize
}

/// Appends `fill` bytes, few as a rule.
#[inline]
fn fill_up(out: &mut Vec<u8>, byte: u8, fill: usize) {
    const FEW: usize = 16;
    if fill == 0 {
        return;
    }
    if fill <= FEW {
        append_front(out, &[byte; FEW], fill);
    } else {
        out.resize(out.len() + fill, byte);
    }
}

impl Layout {
    fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Appends `text`, padded with spaces to the width.
    pub fn pad_text(&self, text: &[u8], out: &mut Vec<u8>) {
        let fill = usize::from(self.width).saturating_sub(text.len());
        if !self.has(flag::LEFT) {
            fill_up(out, b' ', fill);
        }
        out.extend_from_slice(text);
        if self.has(flag::LEFT) {
            fill_up(out, b' ', fill);
        }
    }

    /// Appends the number in the first `end` bytes of `text`, padded to the width: with zeros before `digits`,
    /// if they are asked for and `zeros` allows it, or spaces.
    #[inline]
    pub fn append_number(&self, text: &Buffer, digits: usize, end: usize, zeros: bool, out: &mut Vec<u8>) {
        const MOST: usize = 48;
        debug_assert!(end <= MOST, "as much as is copied");
        let Some(front) = text.first_chunk::<MOST>() else { return };
        let fill = usize::from(self.width).saturating_sub(end);
        if fill == 0 || self.has(flag::LEFT) {
            append_front(out, front, end);
            fill_up(out, b' ', fill);
        } else if zeros && self.has(flag::ZERO) {
            out.extend_from_slice(&front[..digits]);
            fill_up(out, b'0', fill);
            if let Some(rest) = text[digits..].first_chunk::<MOST>() {
                append_front(out, rest, end - digits);
            }
        } else {
            fill_up(out, b' ', fill);
            append_front(out, front, end);
        }
    }

    /// Pads the number at `start..` to the width: with zeros before `digits`, if they are asked for and
    /// `zeros` allows it, or spaces.
    pub fn pad_in_place(&self, start: usize, digits: usize, zeros: bool, out: &mut Vec<u8>) {
        let end = out.len();
        let fill = usize::from(self.width).saturating_sub(end - start);
        if fill == 0 {
            return;
        }
        out.resize(end + fill, b' ');
        if !self.has(flag::LEFT) {
            let (at, byte) = if zeros && self.has(flag::ZERO) { (digits, b'0') } else { (start, b' ') };
            out.copy_within(at..end, at + fill);
            out[at..at + fill].fill(byte);
        }
    }

    /// The sign that a number gets.
    pub fn sign(&self, negative: bool) -> &'static [u8] {
        if negative {
            b"-"
        } else if self.has(flag::PLUS) {
            b"+"
        } else if self.has(flag::SPACE) {
            b" "
        } else {
            b""
        }
    }

    /// Appends an integer as `letter` (one of `dxX`) shows it, if that is no more than a few digits and what
    /// pads them. Says whether it was.
    #[inline]
    pub fn small_integer(&self, value: i64, letter: u8, out: &mut Vec<u8>) -> bool {
        let signed = letter == b'd';
        if self.precision.is_some() || self.has(flag::ALT) {
            return false;
        }
        let mut text: Buffer = [0; 80];
        let magnitude = if signed { value.unsigned_abs() } else { value as u64 };
        let sign = if signed { self.sign(value < 0) } else { b"" };
        text[0] = sign.first().copied().unwrap_or(0);
        let Some(place) = text[sign.len()..].first_chunk_mut() else { return false };
        let count = match letter {
            b'd' if magnitude < 100_000_000 => decimal::write_small(magnitude, place),
            b'x' if magnitude <= u64::from(u32::MAX) => write_hexadecimal(magnitude, b'a', place),
            b'X' if magnitude <= u64::from(u32::MAX) => write_hexadecimal(magnitude, b'A', place),
            _ => return false,
        };
        self.append_number(&text, sign.len(), sign.len() + count, true, out);
        true
    }

    /// Appends an integer as `letter` (one of `diuxXo`) shows it.
    pub fn integer(&self, value: i64, letter: u8, out: &mut Vec<u8>) {
        let mut buffer = [0u8; 128];
        let mut at = buffer.len();
        let signed = matches!(letter, b'd' | b'i');
        let rest = if signed { value.unsigned_abs() } else { value as u64 };
        match letter {
            b'x' => write_digits::<16>(rest, b"0123456789abcdef", &mut buffer, &mut at),
            b'X' => write_digits::<16>(rest, b"0123456789ABCDEF", &mut buffer, &mut at),
            b'o' => write_digits::<8>(rest, b"0123456789abcdef", &mut buffer, &mut at),
            _ => write_digits::<10>(rest, b"0123456789abcdef", &mut buffer, &mut at),
        }
        // A precision is a minimum number of digits; 0 shows nothing for 0.
        let mut minimum = usize::from(self.precision.unwrap_or(1));
        if letter == b'o' && self.has(flag::ALT) {
            minimum = minimum.max(buffer.len() - at + 1);
        }
        while buffer.len() - at < minimum {
            at -= 1;
            buffer[at] = b'0';
        }
        let prefix: &[u8] = match letter {
            b'x' if self.has(flag::ALT) && value != 0 => b"0x",
            b'X' if self.has(flag::ALT) && value != 0 => b"0X",
            _ if signed => self.sign(value < 0),
            _ => b"",
        };
        let start = out.len();
        out.extend_from_slice(prefix);
        let digits = out.len();
        out.extend_from_slice(&buffer[at..]);
        self.pad_in_place(start, digits, self.precision.is_none(), out);
    }
}
