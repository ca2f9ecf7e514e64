//! The streaming decoder: bytes come in pieces of any size, valid UTF-8 goes out in pieces that separators
//! end.
//!
//! # The buffer
//! ```text
//!   | used up | pieces to come ... | not valid yet | free |
//!             start        searched   valid        end
//! ```
//! Input in UTF-8 is read straight into the buffer behind `end` and validated there, all that has come at
//! once, by SIMD; what may be the beginning of a character stays between `valid` and `end`. Input in another
//! encoding is read to `raw` and decoded to the buffer. Before `searched` no separator begins, so no byte is
//! searched twice however long a piece gets.
//!
//! # What does not depend on how the input is cut
//! Pieces, faults, and their offsets. A fault is kept until the pieces before it have been taken, and nothing
//! behind it is looked at.
//!
//! *Rejected.* `encoding_rs` for UTF-8, too: it copies, and validates at a third of the speed. A validation
//! of each line: short lines cost more by the call than by the byte.

use encoding_rs::{Decoder, DecoderResult, Encoding};
use perilune_stdlib::io::separators::{Found, Separators};
use std::collections::TryReserveError;
use std::ops::Range;

/// Bytes of the buffer at first.
const AT_FIRST: usize = 4 << 10;

/// What the input is in.
pub(super) enum Coding {
    /// Anything: nothing is checked.
    Bytes,
    /// UTF-8.
    Utf8,
    /// What this decodes.
    Other(Box<Decoder>, &'static str),
}

impl Coding {
    /// The encoding of that name.
    pub fn named(label: &[u8]) -> Option<Coding> {
        if label == b"bytes" {
            return Some(Coding::Bytes);
        }
        let encoding = Encoding::for_label_no_replacement(label)?;
        if encoding == encoding_rs::UTF_8 {
            return Some(Coding::Utf8);
        }
        Some(Coding::Other(Box::new(encoding.new_decoder_with_bom_removal()), encoding.name()))
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Offset in the input, from 0.
    pub at: u64,
    /// The first of them, in UTF-8.
    pub byte: Option<u8>,
    /// What they should be.
    pub encoding: &'static str,
}

impl Fault {
    /// As text for people.
    pub fn message(self) -> String {
        let byte = self.byte.map_or_else(String::new, |b| format!(" (0x{b:02X})"));
        let (at, encoding) = (self.at + 1, self.encoding);
        format!("byte {at}: invalid {encoding}{byte}; with bad=\"replace\" it becomes U+FFFD")
    }
}

/// What [`Text::next`] finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A piece, to be had by [`Text::bytes`].
    Piece(Range<usize>),
    /// More input is needed.
    More,
    /// Nothing comes any more.
    End,
    /// This stands in the way.
    Fault(Fault),
}

/// See the module.
pub(super) struct Text {
    coding: Coding,
    separators: Option<Separators>,
    keep: bool,
    replace: bool,
    /// All of it is initialised.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    valid: usize,
    end: usize,
    /// Input in another encoding, in the room that was asked for.
    raw: Vec<u8>,
    /// Bytes of input that have come.
    come: u64,
    /// Whether the text's first bytes have been looked at for a byte order mark.
    begun: bool,
    finished: bool,
    fault: Option<Fault>,
}

const BOM: &[u8] = "\u{feff}".as_bytes();
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

impl Text {
    /// A decoder; `keep`: pieces have their separators with them; `replace`: what is invalid becomes U+FFFD.
    pub fn new(coding: Coding, separators: Option<Separators>, keep: bool, replace: bool) -> Text {
        Text {
            coding,
            separators,
            keep,
            replace,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            valid: 0,
            end: 0,
            raw: Vec::new(),
            come: 0,
            begun: false,
            finished: false,
            fault: None,
        }
    }

    /// Whether there are separators.
    pub fn splits(&self) -> bool {
        self.separators.is_some()
    }

    /// Whether it has been told that no more comes.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// What stands in the way, perhaps behind pieces that are still to be taken.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The bytes of a piece.
    #[inline]
    pub fn bytes(&self, piece: Range<usize>) -> &[u8] {
        &self.buffer[piece]
    }

    /// How large the buffer would have to become to take so many bytes; 0: it need not grow.
    pub fn grows_by(&self, more: usize) -> usize {
        let needed = self.end - self.start + more;
        if needed <= self.buffer.len() { 0 } else { needed.max(self.buffer.len() * 2) }
    }

    /// Makes room for `more` bytes behind `end`.
    fn reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        if self.buffer.len() - self.end >= more {
            return Ok(());
        }
        let start = self.start;
        if start > 0 {
            self.buffer.copy_within(start..self.end, 0);
            self.start = 0;
            self.searched -= start;
            self.valid -= start;
            self.end -= start;
        }
        let needed = self.end + more;
        if needed > self.buffer.len() {
            let length = needed.max(self.buffer.len() * 2).max(AT_FIRST);
            self.buffer.try_reserve_exact(length - self.buffer.len())?;
            self.buffer.resize(length, 0);
        }
        Ok(())
    }

    /// Where the next `more` bytes of input are to be put. [`Text::added`] says how many there were.
    ///
    /// # Errors
    /// There is no memory.
    pub fn room(&mut self, more: usize) -> Result<&mut [u8], TryReserveError> {
        if let Coding::Other(..) = self.coding {
            if self.raw.len() < more {
                self.raw.try_reserve_exact(more - self.raw.len())?;
                self.raw.resize(more, 0);
            }
            return Ok(&mut self.raw[..more]);
        }
        self.reserve(more)?;
        let end = self.end;
        Ok(&mut self.buffer[end..end + more])
    }

    /// So many bytes of input have been put where [`Text::room`] said.
    ///
    /// # Errors
    /// There is no memory.
    pub fn added(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.come += count as u64;
        if self.fault.is_some() {
            return Ok(());
        }
        match self.coding {
            Coding::Bytes => {
                self.end += count;
                self.valid = self.end;
            }
            Coding::Utf8 => {
                self.end += count;
                self.validate()?;
            }
            Coding::Other(..) => self.decode(count, false)?,
        }
        Ok(())
    }

    /// No more input comes.
    ///
    /// # Errors
    /// There is no memory.
    pub fn finish(&mut self) -> Result<(), TryReserveError> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        if self.fault.is_some() {
            return Ok(());
        }
        match self.coding {
            Coding::Bytes => Ok(()),
            Coding::Utf8 => self.validate(),
            Coding::Other(..) => self.decode(0, true),
        }
    }

    /// Validates what has come.
    fn validate(&mut self) -> Result<(), TryReserveError> {
        if simdutf8::basic::from_utf8(&self.buffer[self.valid..self.end]).is_ok() {
            self.valid = self.end;
        } else {
            self.validate_slowly()?;
        }
        if !self.begun && self.valid >= BOM.len() {
            self.begun = true;
            if self.buffer.starts_with(BOM) {
                self.start = BOM.len();
                self.searched = BOM.len();
            }
        }
        // A shorter text may end, or be in the middle of a mark; no piece is taken of it before.
        self.begun |= self.valid > 0;
        Ok(())
    }

    /// There is something invalid, or the beginning of a character at the end.
    #[cold]
    fn validate_slowly(&mut self) -> Result<(), TryReserveError> {
        loop {
            let Err(error) = simdutf8::compat::from_utf8(&self.buffer[self.valid..self.end]) else {
                self.valid = self.end;
                return Ok(());
            };
            self.valid += error.valid_up_to();
            let bad = match error.error_len() {
                Some(length) => length,
                None if self.finished => self.end - self.valid,
                None => return Ok(()),
            };
            if !self.replace {
                let at = self.come - (self.end - self.valid) as u64;
                self.fault = Some(Fault { at, byte: Some(self.buffer[self.valid]), encoding: "UTF-8" });
                return Ok(());
            }
            // What is bad gives way to three bytes.
            self.reserve(REPLACEMENT.len())?;
            let (from, to) = (self.valid + bad, self.valid + REPLACEMENT.len());
            self.buffer.copy_within(from..self.end, to);
            self.end = self.end - bad + REPLACEMENT.len();
            self.buffer[self.valid..to].copy_from_slice(REPLACEMENT);
            self.valid = to;
        }
    }

    /// Decodes `count` bytes of `raw`.
    fn decode(&mut self, count: usize, last: bool) -> Result<(), TryReserveError> {
        let before = self.come - count as u64;
        let mut done = 0;
        loop {
            self.reserve((count - done).max(64) + 16)?;
            let Coding::Other(decoder, encoding) = &mut self.coding else { return Ok(()) };
            let (result, read, written) = decoder.decode_to_utf8_without_replacement(
                &self.raw[done..count],
                &mut self.buffer[self.end..],
                last,
            );
            done += read;
            self.end += written;
            self.valid = self.end;
            match result {
                DecoderResult::InputEmpty => return Ok(()),
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(length, behind) if !self.replace => {
                    // Bytes of the sequence may have come before.
                    let back = u64::from(length) + u64::from(behind);
                    let at = (before + done as u64).saturating_sub(back);
                    self.fault = Some(Fault { at, byte: None, encoding });
                    return Ok(());
                }
                DecoderResult::Malformed(..) => {
                    self.reserve(REPLACEMENT.len())?;
                    let to = self.end + REPLACEMENT.len();
                    self.buffer[self.end..to].copy_from_slice(REPLACEMENT);
                    self.end = to;
                    self.valid = to;
                }
            }
        }
    }

    /// The next piece.
    #[inline]
    pub fn next(&mut self) -> Next {
        let Some(separators) = &self.separators else { return self.rest() };
        let ended = self.finished || self.fault.is_some();
        let text = &self.buffer[self.start..self.valid];
        match separators.find(text, self.searched - self.start, ended) {
            Found::At(from, to) => {
                let piece = self.start..self.start + if self.keep { to } else { from };
                self.start += to;
                self.searched = self.start;
                Next::Piece(piece)
            }
            Found::NotBefore(at) => {
                self.searched = self.start + at;
                self.rest()
            }
        }
    }

    /// What there is when there is no further separator.
    fn rest(&mut self) -> Next {
        if let Some(fault) = self.fault {
            return Next::Fault(fault);
        }
        if !self.finished {
            return Next::More;
        }
        if self.start == self.valid {
            return Next::End;
        }
        let piece = self.start..self.valid;
        self.start = self.valid;
        self.searched = self.valid;
        Next::Piece(piece)
    }

    /// All that is valid, whatever separates it.
    pub fn take_all(&mut self) -> &[u8] {
        let piece = self.start..self.valid;
        self.start = self.valid;
        self.searched = self.valid;
        &self.buffer[piece]
    }
}
