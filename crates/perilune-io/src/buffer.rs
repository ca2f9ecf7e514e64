//! Bytes that have come and were not taken yet, or were written and have not gone yet.
//!
//! An empty buffer holds no memory: what it had goes to the thread, for the next one that needs some. So an
//! idle connection costs nothing here, and a busy one does not allocate.

use std::cell::Cell;

/// The room that a buffer begins with.
pub const ROOM: usize = 64 << 10;
/// Larger ones are freed instead of kept.
const LARGEST_KEPT: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A queue of bytes.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// What is in it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How much is in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first `n` bytes out.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.bytes.len());
        if self.start >= self.bytes.len() {
            self.clear();
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.start = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() > 0 && bytes.capacity() <= LARGEST_KEPT {
            bytes.clear();
            keep(bytes);
        }
    }

    /// Its end, with room for `n` more bytes at least; `None`: there is no memory.
    pub fn end(&mut self, n: usize) -> Option<&mut Vec<u8>> {
        if self.bytes.capacity() == 0 {
            self.bytes = kept();
        }
        if self.bytes.capacity() - self.bytes.len() < n {
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            self.bytes.try_reserve(n).ok()?;
        }
        Some(&mut self.bytes)
    }

    /// Adds bytes. False: there is no memory, and nothing was added.
    pub fn add(&mut self, bytes: &[u8]) -> bool {
        match self.end(bytes.len()) {
            Some(end) => {
                end.extend_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

#[inline(never)]
fn keep(bytes: Vec<u8>) {
    let _ = SPARE.try_with(|spare| {
        let old = spare.take();
        spare.set(if old.capacity() >= bytes.capacity() { old } else { bytes });
    });
}

#[inline(never)]
fn kept() -> Vec<u8> {
    SPARE.try_with(Cell::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_at_one_end_and_out_at_the_other() {
        let mut buffer = Buffer::default();
        let mut model = std::collections::VecDeque::new();
        for n in 0..2000_usize {
            let piece: Vec<u8> = (0..n % 97).map(|i| (i * n) as u8).collect();
            assert!(buffer.add(&piece));
            model.extend(piece);
            let take = (n * 31 % 101).min(buffer.len());
            assert_eq!(buffer.bytes()[..take], *model.drain(..take).collect::<Vec<u8>>());
            buffer.consume(take);
            assert_eq!(buffer.len(), model.len());
        }
        buffer.clear();
        assert!(buffer.is_empty() && buffer.bytes.capacity() == 0);
    }
}
