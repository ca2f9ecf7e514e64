//! Classes of bytes, as the lexer tells them apart: one by one, and by rows.

/// Letters, digits and the underscore.
pub const NAME: u8 = 1;
/// What ends a run of plain characters in a short string: quotes, backslash, line breaks.
pub const STOP: u8 = 2;
/// What may continue a numeral: hexadecimal digits and the radix point.
pub const NUMERAL: u8 = 4;
/// What most lines are indented with.
pub const SPACE: u8 = 8;

static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            class[b] |= NAME;
        }
        if matches!(byte, b'"' | b'\'' | b'\\' | b'\n' | b'\r') {
            class[b] |= STOP;
        }
        if byte.is_ascii_hexdigit() || byte == b'.' {
            class[b] |= NUMERAL;
        }
        if byte == b' ' {
            class[b] |= SPACE;
        }
        b += 1;
    }
    class
};

/// Whether a byte belongs to a class.
#[inline(always)]
pub fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::count_in_row;

    #[test]
    fn rows_are_counted_as_the_classes_say() {
        for (class, inside) in [(NAME, b'x'), (SPACE, b' ')] {
            for byte in 0..=255 {
                let belongs = is(byte, class);
                assert_eq!(count_in_row(class, &[byte; 16]), if belongs { 16 } else { 0 }, "{byte}");
                for at in 0..16 {
                    let mut row = [inside; 16];
                    row[at] = byte;
                    assert_eq!(count_in_row(class, &row), if belongs { 16 } else { at }, "{byte} at {at}");
                }
            }
        }
    }
}
