//! Searches for bytes that are near, as a rule: the parts of a text that patterns tell apart are a few bytes
//! long, and a call of `memchr` takes as long as looking at some ten of them. So the first [`NEAR`] bytes are
//! looked at here, a word at a time (Mycroft's test for a byte that is zero), and `memchr` looks for what is
//! farther away.

use memchr::{memchr, memrchr};
use perilune_syntax::numeral::append_front;

/// So many bytes, at least, are looked at in words.
const NEAR: usize = 2 * WORD;
const WORD: usize = size_of::<u64>();

/// A word of this byte.
const fn repeated(byte: u8) -> u64 {
    u64::MAX / 0xff * byte as u64
}

/// The high bits of those bytes of a word that are zero. Bits above the lowest of these may be wrong.
const fn lowest_zero(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

/// The high bits of exactly those bytes of a word that are zero.
const fn zeros(word: u64) -> u64 {
    const LOW: u64 = repeated(0x7f);
    !(((word & LOW) + LOW) | word | LOW)
}

/// Where `byte` is first.
// Not inlined: the loops of the matcher that it is called from stay small, and the others in them quick.
#[inline(never)]
pub fn find(byte: u8, text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < NEAR {
        let Some(word) = text[at..].first_chunk() else {
            return text[at..].iter().position(|&b| b == byte).map(|i| at + i);
        };
        let found = lowest_zero(u64::from_le_bytes(*word) ^ repeated(byte));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    memchr(byte, &text[at..]).map(|i| at + i)
}

/// Where `byte` is last.
// See [`find`].
#[inline(never)]
pub fn find_last(byte: u8, text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    while text.len() - end < NEAR {
        let Some(word) = text[..end].last_chunk() else {
            return text[..end].iter().rposition(|&b| b == byte);
        };
        let found = zeros(u64::from_le_bytes(*word) ^ repeated(byte));
        if found != 0 {
            return Some(end - 1 - found.leading_zeros() as usize / 8);
        }
        end -= WORD;
    }
    memrchr(byte, &text[..end])
}

/// Appends what is before the first `byte`, or all if there is none; returns what is behind it.
#[inline(always)]
pub fn copy_until<'t>(byte: u8, text: &'t [u8], out: &mut Vec<u8>) -> Option<&'t [u8]> {
    let mut text = text;
    while let Some(word) = text.first_chunk::<WORD>() {
        let found = lowest_zero(u64::from_le_bytes(*word) ^ repeated(byte));
        let len = found.trailing_zeros() as usize / 8;
        append_front(out, word, len);
        if found != 0 {
            return Some(&text[len + 1..]);
        }
        text = &text[WORD..];
    }
    for (i, &b) in text.iter().enumerate() {
        if b == byte {
            return Some(&text[i + 1..]);
        }
        out.push(b);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_plain_search_finds() {
        let mut seed = 1u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        let bytes = [0u8, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff, b'a'];
        for _ in 0..20_000 {
            let length = random(60);
            let kinds = 1 + random(bytes.len() as u32);
            let text: Vec<u8> = (0..length).map(|_| bytes[random(kinds) as usize]).collect();
            for byte in bytes {
                let first = text.iter().position(|&b| b == byte);
                assert_eq!(find(byte, &text), first, "{byte} in {text:?}");
                let mut copy = Vec::new();
                assert_eq!(copy_until(byte, &text, &mut copy), first.map(|i| &text[i + 1..]));
                assert_eq!(copy, text[..first.unwrap_or(text.len())], "{byte} in {text:?}");
                assert_eq!(
                    find_last(byte, &text),
                    text.iter().rposition(|&b| b == byte),
                    "{byte} in {text:?}"
                );
            }
        }
    }
}
