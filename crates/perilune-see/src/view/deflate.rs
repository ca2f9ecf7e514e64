//! Compression that browsers undo by themselves (RFC 1951, without a frame), for pages that have a trace in them.
//!
//! One block with the fixed codes: bars as `tiles.rs` writes them repeat themselves a lot, which references to what was before take care of; codes made to
//! measure would save another tenth and need twice the program. Matches are looked for in chains of places whose next three bytes have the same hash.

/// How far back a reference may go.
const WINDOW: usize = 1 << 15;
/// The longest match.
const LONGEST: usize = 258;
/// Places that are tried for a match.
const TRIES: usize = 24;

struct Bits {
    out: Vec<u8>,
    word: u64,
    count: u32,
}

impl Bits {
    /// The low bits of `n`, lowest first.
    fn put(&mut self, n: u32, count: u32) {
        self.word |= (n as u64) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.word as u8);
            self.word >>= 8;
            self.count -= 8;
        }
    }

    /// A code, highest bit first.
    fn code(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    /// A symbol of the fixed code.
    fn symbol(&mut self, n: u32) {
        match n {
            0..144 => self.code(0x30 + n, 8),
            144..256 => self.code(0x190 + n - 144, 9),
            256..280 => self.code(n - 256, 7),
            _ => self.code(0xc0 + n - 280, 8),
        }
    }

    fn reference(&mut self, length: usize, distance: usize) {
        // Lengths from 3: codes of one length each, then four with one more bit, four with two ...; 258 has its own.
        let n = length as u32 - 3;
        match n {
            _ if length == LONGEST => self.symbol(285),
            0..8 => self.symbol(257 + n),
            _ => {
                let extra = n.ilog2() - 2;
                self.symbol(257 + 4 * extra + (n >> extra));
                self.put(n & ((1 << extra) - 1), extra);
            }
        }
        // Distances from 1: likewise, two of each.
        let n = distance as u32 - 1;
        match n {
            0..4 => self.code(n, 5),
            _ => {
                let extra = n.ilog2() - 1;
                self.code(2 * extra + (n >> extra), 5);
                self.put(n & ((1 << extra) - 1), extra);
            }
        }
    }
}

/// Compresses.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut bits = Bits { out: Vec::with_capacity(bytes.len() / 2), word: 0, count: 0 };
    // The last block; fixed codes.
    bits.put(1, 1);
    bits.put(1, 2);
    const NONE: u32 = u32::MAX;
    let mut heads = vec![NONE; 1 << 15];
    let mut before = vec![NONE; WINDOW];
    let hash = |at: usize| {
        let word = bytes[at] as u32 | (bytes[at + 1] as u32) << 8 | (bytes[at + 2] as u32) << 16;
        (word.wrapping_mul(0x9e37_79b1) >> 17) as usize
    };
    let mut at = 0;
    while at < bytes.len() {
        let most = (bytes.len() - at).min(LONGEST);
        let mut best = (0, 0);
        if most >= 3 {
            let mut place = heads[hash(at)];
            for _ in 0..TRIES {
                if place == NONE || at - place as usize > WINDOW {
                    break;
                }
                let p = place as usize;
                let length = (0..most).take_while(|&n| bytes[p + n] == bytes[at + n]).count();
                if length > best.0 {
                    best = (length, at - p);
                }
                let next = before[p % WINDOW];
                // Places of the window that have been used again are newer.
                if next == NONE || next >= place {
                    break;
                }
                place = next;
            }
        }
        let step = if best.0 >= 3 {
            bits.reference(best.0, best.1);
            best.0
        } else {
            bits.symbol(bytes[at] as u32);
            1
        };
        for p in at..(at + step).min(bytes.len().saturating_sub(2)) {
            let h = hash(p);
            before[p % WINDOW] = heads[h];
            heads[h] = p as u32;
        }
        at += step;
    }
    bits.symbol(256);
    bits.put(0, 7);
    bits.out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Undoes it, by the tables of the RFC.
    fn expand(bytes: &[u8]) -> Vec<u8> {
        let mut at = 0usize;
        let mut bit = || {
            let b = bytes[at / 8] >> (at % 8) & 1;
            at += 1;
            b as u32
        };
        assert_eq!((bit(), bit(), bit()), (1, 1, 0));
        let mut out = Vec::new();
        loop {
            let mut code = (0..7).fold(0, |c, _| c << 1 | bit());
            let symbol = if code < 24 {
                256 + code
            } else {
                code = code << 1 | bit();
                match code {
                    0x30..0xc0 => code - 0x30,
                    0xc0..0xc8 => 280 + code - 0xc0,
                    _ => 144 + (code << 1 | bit()) - 0x190,
                }
            };
            if symbol < 256 {
                out.push(symbol as u8);
                continue;
            }
            if symbol == 256 {
                return out;
            }
            let lengths = [
                3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
                131, 163, 195, 227, 258,
            ];
            let n = symbol as usize - 257;
            let extra = if (8..28).contains(&n) { n / 4 - 1 } else { 0 };
            let length = lengths[n] + (0..extra).fold(0, |x, k| x | (bit() as usize) << k);
            let code = (0..5).fold(0, |c, _| c << 1 | bit()) as usize;
            let extra = (code / 2).saturating_sub(1);
            let base = if code < 4 { code } else { (2 + code % 2) << extra };
            let distance = 1 + base + (0..extra).fold(0, |x, k| x | (bit() as usize) << k);
            for _ in 0..length {
                out.push(out[out.len() - distance]);
            }
        }
    }

    #[test]
    fn what_is_compressed_can_be_expanded() {
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let mut long = Vec::new();
        for _ in 0..3000 {
            let (n, from) = (next(300) as usize, next(long.len() as u64 + 1) as usize);
            for k in 0..n {
                let byte = long.get(from + k).copied().unwrap_or(next(256) as u8);
                long.push(if next(40) == 0 { next(256) as u8 } else { byte });
            }
        }
        let noise: Vec<u8> = (0..1000).map(|_| next(256) as u8).collect();
        let texts: [&[u8]; 7] = [b"", b"a", b"ab", b"abc", &[7; 100_000], &noise, &long];
        for text in texts {
            let small = compress(text);
            assert!(expand(&small) == text, "{} bytes", text.len());
            assert!(small.len() <= text.len() * 9 / 8 + 4);
        }
        assert!(compress(&[7; 100_000]).len() < 1000 && compress(&long).len() < long.len());
    }
}
