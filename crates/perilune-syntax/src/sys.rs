//! What is x86-64: all that this crate asks of the processor beyond the language. A test
//! (`perilune-test/tests/sys.rs`) finds instructions that stand elsewhere.

#[cfg(not(target_arch = "x86_64"))]
use crate::class::is;
use crate::class::{NAME, SPACE};

/// How many bytes of a class, [`NAME`] or [`SPACE`], the row begins with.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn count_in_row(class: u8, row: &[u8; 16]) -> usize {
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
pub(crate) fn count_in_row(class: u8, row: &[u8; 16]) -> usize {
    row.iter().take_while(|&&b| is(b, class)).count()
}
