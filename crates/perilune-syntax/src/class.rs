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

/// How many bytes of a class, [`NAME`] or [`SPACE`], the row begins with.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn count_in_row(class: u8, row: &[u8; 16]) -> usize {
    use std::arch::x86_64::*;
    debug_assert!(class == NAME || class == SPACE);
    // SAFETY: all of it is SSE2, which every x86-64 processor has; the load reads the row.
    let found = unsafe {
        let bytes = _mm_loadu_si128(row.as_ptr().cast());
        let all = |byte: u8| _mm_set1_epi8(byte as i8);
        if class == SPACE {
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, all(b' ')))
        } else {
            let at_most = |bytes, most| _mm_cmpeq_epi8(_mm_min_epu8(bytes, all(most)), bytes);
            let letters = at_most(_mm_sub_epi8(_mm_or_si128(bytes, all(0x20)), all(b'a')), 25);
            let digits = at_most(_mm_sub_epi8(bytes, all(b'0')), 9);
            let others = _mm_cmpeq_epi8(bytes, all(b'_'));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, digits), others))
        }
    };
    (!found).trailing_zeros() as usize
}

/// How many bytes of a class the row begins with.
#[cfg(not(target_arch = "x86_64"))]
pub fn count_in_row(class: u8, row: &[u8; 16]) -> usize {
    row.iter().take_while(|&&b| is(b, class)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

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
