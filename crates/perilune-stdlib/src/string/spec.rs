//! Conversion specifications of `string.format`: what stands between `%` and its letter, and laying text out
//! by it.
//!
//! Lua accepts what ISO C accepts, minus `*`, lengths and more than two digits of width or precision, and
//! each conversion takes only the flags that mean something for it (manual 6.4). A specification is first cut
//! out ([`Spec::scan`]), then, once its argument has been looked at, checked against what its conversion
//! allows ([`Spec::check`]): in this order, because the argument's errors come first.

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
    pub width: usize,
    /// Digits or bytes, as the conversion has it.
    pub precision: Option<usize>,
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
        if n >= 21 {
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
            (layout.width, rest) = two_digits(rest);
            if precision && let [b'.', tail @ ..] = rest {
                let (digits, tail) = two_digits(tail);
                layout.precision = Some(digits);
                rest = tail;
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

fn two_digits(text: &[u8]) -> (usize, &[u8]) {
    let n = text.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    (text[..n].iter().fold(0, |v, b| v * 10 + usize::from(b - b'0')), &text[n..])
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

impl Layout {
    fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Appends `text`, padded with spaces to the width.
    pub fn pad_text(&self, text: &[u8], out: &mut Vec<u8>) {
        let fill = self.width.saturating_sub(text.len());
        if !self.has(flag::LEFT) {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
        out.extend_from_slice(text);
        if self.has(flag::LEFT) {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
    }

    /// Pads the number at `start..` to the width: with zeros before `digits`, if they are asked for and
    /// `zeros` allows it, or spaces.
    pub fn pad_in_place(&self, start: usize, digits: usize, zeros: bool, out: &mut Vec<u8>) {
        let end = out.len();
        let fill = self.width.saturating_sub(end - start);
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
        let mut minimum = self.precision.unwrap_or(1);
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
