//! Strings in the text: finding their end, undoing escapes, and writing them.

use super::fault::What;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte of `word` that is a quote, a backslash or a control character; beyond the first
/// such byte there may be more bits than there should be.
#[inline(always)]
fn special(word: u64) -> u64 {
    let zero = |w: u64| w.wrapping_sub(ONES) & !w;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')))) & HIGH
}

/// Offset of the first quote, backslash or control character from `at` on; the length of the text if there is
/// none.
#[inline]
pub(super) fn find_special(text: &[u8], mut at: usize) -> usize {
    while let Some(piece) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(piece.try_into().unwrap_or_default());
        let bits = special(word);
        if bits != 0 {
            return at + (bits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&b) = text.get(at) {
        if b < 0x20 || b == b'"' || b == b'\\' {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Undoes the escapes of a string whose content begins at `start` and has its first escape at `at`: appends
/// it to `out`, and returns the offset behind the closing quote.
///
/// # Errors
/// Where, and what is wrong there. `out` is asked for room by `try_reserve`; `None` if there is none.
pub(super) fn unescape(
    text: &[u8],
    start: usize,
    mut at: usize,
    replace: bool,
    out: &mut Vec<u8>,
) -> Result<usize, Option<(usize, What)>> {
    let mut from = start;
    loop {
        let plain = &text[from..at];
        out.try_reserve(plain.len() + 4).map_err(|_| None)?;
        out.extend_from_slice(plain);
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => {}
            Some(_) => return Err(Some((at, What::Control))),
            None => return Err(Some((text.len(), What::End("the closing quote of a string")))),
        }
        let escape = match text.get(at + 1) {
            Some(b'u') => {
                let (c, next) = unicode(text, at, replace).map_err(Some)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                from = next;
                at = find_special(text, next);
                continue;
            }
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(&b @ (b'"' | b'\\' | b'/')) => b,
            Some(_) => {
                return Err(Some((at + 1, What::Expected("one of \" \\ / b f n r t u behind a backslash"))));
            }
            None => return Err(Some((at + 1, What::End("an escape")))),
        };
        out.push(escape);
        from = at + 2;
        at = find_special(text, from);
    }
}

/// The character of `\uXXXX` at `at`, or of two of them that are a surrogate pair, and the offset behind it.
fn unicode(text: &[u8], at: usize, replace: bool) -> Result<(char, usize), (usize, What)> {
    let unit = hex4(text, at + 2)?;
    let next = at + 6;
    if let Some(c) = char::from_u32(unit) {
        return Ok((c, next));
    }
    if unit < 0xdc00 && text.get(next) == Some(&b'\\') && text.get(next + 1) == Some(&b'u') {
        let low = hex4(text, next + 2)?;
        if (0xdc00..0xe000).contains(&low)
            && let Some(c) = char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
        {
            return Ok((c, next + 6));
        }
    }
    if replace { Ok((char::REPLACEMENT_CHARACTER, next)) } else { Err((at, What::Surrogate)) }
}

fn hex4(text: &[u8], at: usize) -> Result<u32, (usize, What)> {
    let mut unit = 0;
    for i in at..at + 4 {
        let digit = text.get(i).and_then(|&b| (b as char).to_digit(16));
        let what = "four hexadecimal digits behind \\u";
        let fault = if i < text.len() { What::Expected(what) } else { What::End(what) };
        unit = unit << 4 | digit.ok_or((i, fault))?;
    }
    Ok(unit)
}

/// How a string can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plain {
    /// As it stands.
    Yes,
    /// As it stands if it is UTF-8.
    IfUtf8,
    /// With escapes.
    No,
}

/// How these bytes can be written.
#[inline]
pub(super) fn plainness(bytes: &[u8]) -> Plain {
    let (mut bits, mut high) = (0, 0);
    let mut look = |word: u64| {
        bits |= special(word);
        high |= word;
    };
    // The last word overlaps the one before; short texts are filled up with what is plain.
    if let Some(last) = bytes.last_chunk::<8>() {
        bytes.as_chunks::<8>().0.iter().for_each(|&word| look(u64::from_le_bytes(word)));
        look(u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        look(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32);
    } else {
        look(bytes.iter().fold(u64::from_le_bytes([b' '; 8]), |word, &b| word << 8 | u64::from(b)));
    }
    match (bits, high & HIGH) {
        (0, 0) => Plain::Yes,
        (0, _) => Plain::IfUtf8,
        _ => Plain::No,
    }
}

/// Appends UTF-8 with quotes, backslashes and control characters escaped.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) -> Result<(), std::collections::TryReserveError> {
    let mut from = 0;
    loop {
        let at = find_special(text, from);
        out.try_reserve(at - from + 8)?;
        out.extend_from_slice(&text[from..at]);
        let Some(&b) = text.get(at) else { return Ok(()) };
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(DIGITS[usize::from(b >> 4)]);
                out.push(DIGITS[usize::from(b & 15)]);
            }
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(text: &[u8], at: usize) -> usize {
        (at..text.len())
            .find(|&i| text[i] < 0x20 || text[i] == b'"' || text[i] == b'\\')
            .unwrap_or(text.len())
    }

    proptest! {
        #[test]
        fn the_first_special_byte(
            text in prop::collection::vec(
                prop_oneof![Just(b'a'), Just(b'!'), Just(b'#'), Just(b']'), any::<u8>()],
                0..40
            ),
            at in 0usize..8
        ) {
            let at = at.min(text.len());
            prop_assert_eq!(find_special(&text, at), naive(&text, at));
            let plain = plainness(&text);
            prop_assert_eq!(plain == Plain::No, naive(&text, 0) < text.len());
            prop_assert_eq!(plain == Plain::Yes, naive(&text, 0) == text.len() && text.is_ascii());
        }

        #[test]
        fn escapes_are_undone(text in ".*") {
            let mut out = Vec::new();
            escape(text.as_bytes(), &mut out).unwrap();
            out.push(b'"');
            let mut back = Vec::new();
            let at = find_special(&out, 0);
            let end = unescape(&out, 0, at, false, &mut back).unwrap();
            prop_assert_eq!(end, out.len());
            prop_assert_eq!(back, text.as_bytes());
        }
    }
}
