//! The format strings of `string.pack` and its relatives (manual 6.4.2): reading options, sizes, alignment,
//! byte order.
//!
//! An option is read together with what it needs at a given offset ([`Reader::next`]): its kind, its size and
//! how many bytes of padding bring it to its alignment. Alignment is off (1) unless `!` sets a maximum; it
//! must be a power of two where it applies. Everything here works on byte slices; `pack.rs` brings in values.

/// Bytes that an integer may have at most.
pub const MAX_INTEGER_SIZE: usize = 16;
/// Bytes of a Lua integer.
const INTEGER_SIZE: usize = 8;
/// What `!` alone means.
const NATIVE_ALIGNMENT: usize = 8;

/// Kinds of options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `b h l j i[n]`
    Signed,
    /// `B H L J T I[n]`
    Unsigned,
    /// `f`
    Float,
    /// `d n`
    Double,
    /// `cn`: a string of fixed size.
    Fixed,
    /// `s[n]`: a string after its length.
    Counted,
    /// `z`: a string before a zero.
    Zero,
    /// `x`: one byte of padding.
    Padding,
    /// `Xop`: alignment only.
    Align,
    /// A setting, or a space.
    Nothing,
}

/// An option at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes, as far as they don't depend on the value.
    pub size: usize,
    /// Bytes of padding before it.
    pub padding: usize,
}

/// What may be wrong with a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// The size of an integer.
    Size(usize),
    /// `c` without a number.
    MissingSize,
    /// No such option.
    Option(u8),
    /// What follows `X`.
    AfterX,
    /// Not a power of two.
    Alignment,
}

/// A reader of format strings.
pub struct Reader<'f> {
    rest: &'f [u8],
    max_alignment: usize,
    /// The byte order in force.
    pub little: bool,
}

impl<'f> Reader<'f> {
    /// A reader at the start of `format`, which ends at its first zero if it has one.
    pub fn new(format: &'f [u8]) -> Reader<'f> {
        let end = memchr::memchr(0, format).unwrap_or(format.len());
        Reader { rest: &format[..end], max_alignment: 1, little: cfg!(target_endian = "little") }
    }

    /// The next option, for something at `offset` from the start of the data; `None` at the end.
    #[inline]
    pub fn next(&mut self, offset: usize) -> Result<Option<Item>, FormatError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (kind, size) = self.option()?;
        let mut alignment = size;
        if kind == Kind::Align {
            let follower = if self.rest.is_empty() { (Kind::Nothing, 0) } else { self.option()? };
            if follower.0 == Kind::Fixed || follower.1 == 0 {
                return Err(FormatError::AfterX);
            }
            alignment = follower.1;
        }
        let mut padding = 0;
        if alignment > 1 && kind != Kind::Fixed {
            let alignment = alignment.min(self.max_alignment);
            if !alignment.is_power_of_two() {
                return Err(FormatError::Alignment);
            }
            padding = offset.wrapping_neg() & (alignment - 1);
        }
        Ok(Some(Item { kind, size, padding }))
    }

    fn option(&mut self) -> Result<(Kind, usize), FormatError> {
        let [option, rest @ ..] = self.rest else { return Ok((Kind::Nothing, 0)) };
        self.rest = rest;
        Ok(match option {
            b'b' => (Kind::Signed, 1),
            b'B' => (Kind::Unsigned, 1),
            b'h' => (Kind::Signed, 2),
            b'H' => (Kind::Unsigned, 2),
            b'l' | b'j' => (Kind::Signed, 8),
            b'L' | b'J' | b'T' => (Kind::Unsigned, 8),
            b'f' => (Kind::Float, 4),
            b'd' | b'n' => (Kind::Double, 8),
            b'i' => (Kind::Signed, self.integer_size(4)?),
            b'I' => (Kind::Unsigned, self.integer_size(4)?),
            b's' => (Kind::Counted, self.integer_size(8)?),
            b'c' => (Kind::Fixed, self.number().ok_or(FormatError::MissingSize)?),
            b'z' => (Kind::Zero, 0),
            b'x' => (Kind::Padding, 1),
            b'X' => (Kind::Align, 0),
            b'<' => self.set_order(true),
            b'>' => self.set_order(false),
            b'=' => self.set_order(cfg!(target_endian = "little")),
            b'!' => {
                self.max_alignment = self.integer_size(NATIVE_ALIGNMENT)?;
                (Kind::Nothing, 0)
            }
            b' ' => (Kind::Nothing, 0),
            other => return Err(FormatError::Option(*other)),
        })
    }

    fn set_order(&mut self, little: bool) -> (Kind, usize) {
        self.little = little;
        (Kind::Nothing, 0)
    }

    /// A decimal number, at most an `int`: a digit that could overflow is left for the next option.
    fn number(&mut self) -> Option<usize> {
        let mut value = None;
        while let [b @ b'0'..=b'9', rest @ ..] = self.rest
            && value.is_none_or(|v| v <= (i32::MAX as usize - 9) / 10)
        {
            value = Some(value.unwrap_or(0) * 10 + usize::from(b - b'0'));
            self.rest = rest;
        }
        value
    }

    fn integer_size(&mut self, default: usize) -> Result<usize, FormatError> {
        match self.number().unwrap_or(default) {
            size @ 1..=MAX_INTEGER_SIZE => Ok(size),
            size => Err(FormatError::Size(size)),
        }
    }
}

/// Does `value` fit an integer of `size` bytes?
pub fn fits(value: i64, size: usize, signed: bool) -> bool {
    if size >= INTEGER_SIZE {
        return true;
    }
    let bits = 8 * size as u32;
    if signed { value >> (bits - 1) == value >> 63 } else { value as u64 >> bits == 0 }
}

/// Appends `value` in `size` bytes, 1 to 16; beyond 8, `negative` fills with ones.
pub fn put_integer(value: u64, size: usize, little: bool, negative: bool, out: &mut Vec<u8>) {
    let fill = if negative { 0xff } else { 0 };
    let mut bytes = [fill; MAX_INTEGER_SIZE];
    bytes[..INTEGER_SIZE].copy_from_slice(&value.to_le_bytes());
    let bytes = &mut bytes[..size];
    if !little {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

/// Reads an integer from all of `bytes` (1 to 16 of them); `None` if it needs more than 64 bits.
pub fn get_integer(bytes: &[u8], little: bool, signed: bool) -> Option<i64> {
    let size = bytes.len();
    let byte = |i: usize| if little { bytes[i] } else { bytes[size - 1 - i] };
    let mut value = 0u64;
    for i in (0..size.min(INTEGER_SIZE)).rev() {
        value = value << 8 | u64::from(byte(i));
    }
    if size < INTEGER_SIZE {
        if signed {
            let unused = 64 - 8 * size as u32;
            return Some((value << unused) as i64 >> unused);
        }
    } else {
        let fill = if signed && (value as i64) < 0 { 0xff } else { 0 };
        if (INTEGER_SIZE..size).any(|i| byte(i) != fill) {
            return None;
        }
    }
    Some(value as i64)
}
