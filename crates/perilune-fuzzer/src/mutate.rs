//! Mutations of bytes: a few edits, most of them with text that means something where it lands.

use crate::rng::Rng;
use crate::tokens::TOKENS;

/// Changes `bytes` in one to six places. Inputs stay below `max` bytes.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>], max: usize) {
    for _ in 0..1 + rng.below(6) {
        edit(rng, bytes, others);
    }
    bytes.truncate(max);
}

fn edit(rng: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = rng.below(bytes.len() + 1);
    let longest = rng.seldom(4, 200, 8);
    let end = (at + 1 + rng.below(longest)).min(bytes.len());
    match rng.below(10) {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let piece = bytes[at..end].to_vec();
            let to = rng.below(bytes.len() + 1);
            bytes.splice(to..to, piece);
        }
        2 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        3 if at < bytes.len() => bytes[at] = rng.byte(),
        4 => bytes.truncate(at.max(1)),
        5 => {
            let other = &others[rng.below(others.len())];
            let from = rng.below(other.len() + 1);
            let to = (from + rng.below(300)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        6 => {
            // Deep nesting, but seldom.
            let times = if rng.one_in(50) { 1 + rng.below(400) } else { 1 + rng.below(4) };
            let token = rng.pick(TOKENS).as_bytes();
            bytes.splice(at..at, token.iter().copied().cycle().take(token.len() * times));
        }
        7 | 8 => {
            let token = [b" ", rng.pick(TOKENS).as_bytes(), b" "].concat();
            bytes.splice(at..end, token);
        }
        _ => {
            let token = rng.pick(TOKENS).as_bytes();
            bytes.splice(at..at, token.iter().copied());
        }
    }
}
