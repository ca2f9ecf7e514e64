//! Changes to bytes that keep most of their structure: flips, copies, swaps, splices, numbers at limits, tokens of the language.

use crate::rng::Rng;

const INTERESTING: [u8; 12] = [0, 1, 0x1b, b'\n', b'"', b'%', b'(', b'[', 0x7f, 0x80, 0xfe, 0xff];

const TOKENS: [&str; 58] = [
    "and ",
    "break ",
    "do ",
    "else ",
    "elseif ",
    "end ",
    "false ",
    "for ",
    "function ",
    "goto ",
    "if ",
    "in ",
    "local ",
    "nil ",
    "not ",
    "or ",
    "repeat ",
    "return ",
    "then ",
    "true ",
    "until ",
    "while ",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "^",
    "#",
    "&",
    "~",
    "|",
    "<<",
    ">>",
    "==",
    "~=",
    "<=",
    ">=",
    "<",
    ">",
    "=",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "::",
    ";",
    ":",
    ",",
    ".",
    "..",
    "...",
    "<const>",
    "<close>",
    "0x7fffffffffffffff",
];

/// A changed copy of `bytes`, at most `limit` long; `other` is material for splices.
pub fn mutate(rng: &mut Rng, bytes: &[u8], other: &[u8], limit: usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=rng.below(6) {
        let at = rng.below(out.len() + 1);
        match rng.below(9) {
            0 if at < out.len() => out[at] ^= 1 << rng.below(8),
            1 if at < out.len() => out[at] = INTERESTING[rng.below(INTERESTING.len())],
            2 => out.insert(at, rng.next() as u8),
            3 if at < out.len() => {
                let end = (at + 1 + rng.below(16)).min(out.len());
                out.drain(at..end);
            }
            4 if at < out.len() => {
                let end = (at + 1 + rng.below(64)).min(out.len());
                let piece = out[at..end].to_vec();
                let to = rng.below(out.len() + 1);
                out.splice(to..to, piece);
            }
            5 if !other.is_empty() => {
                let from = rng.below(other.len());
                let end = (from + 1 + rng.below(128)).min(other.len());
                out.splice(at..at, other[from..end].iter().copied());
            }
            6 => {
                let token = rng.pick(&TOKENS);
                out.splice(at..at, token.bytes());
            }
            7 if at < out.len() => out.truncate(at),
            8 if out.len() >= 8 && at + 8 <= out.len() => {
                let number = [0, 1, u64::MAX, 1 << 63, u32::MAX as u64, 0xffff][rng.below(6)];
                out[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            _ => {}
        }
    }
    out.truncate(limit);
    out
}
