//! Bodies in chunks (RFC 9112, section 7.1), decoded as they come.
//!
//! ```text
//! body    = { size [;extensions] CRLF  data CRLF }  0 [;extensions] CRLF  trailers CRLF
//! ```
//!
//! The decoder takes complete units from the front of what has come: a line, some data. What is not complete
//! stays where it is, so the decoder's whole state is which unit is next and how much data is left, two
//! numbers that fit into one integer ([`Decoder::pack`]), which is what a program's side of the body keeps.
//!
//! Strict: sizes are hexadecimal digits and nothing else, lines end with CRLF, extensions are ignored but
//! have to be such, and a line has its limit. Whoever is lenient about the end of a chunk's line can be made
//! to see a request where a stricter proxy saw data.

use crate::head::MOST_FIELDS;
use crate::refused::{Refused, bad, refused};

/// Bytes of the line with a chunk's size, its end included.
pub const LONGEST_LINE: usize = 256;
/// Bytes of all trailers.
pub const LONGEST_TRAILERS: usize = 8 << 10;
/// No chunk is larger.
const LARGEST: u64 = 1 << 48;

/// Which unit is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Size,
    /// So many bytes of data are left, and then a line's end.
    Data(u64),
    Trailers,
    Nothing,
}

/// Where a decoder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoder(Next);

impl Default for Decoder {
    fn default() -> Self {
        Decoder(Next::Size)
    }
}

impl Decoder {
    /// As an integer.
    pub fn pack(self) -> i64 {
        match self.0 {
            Next::Size => -1,
            Next::Trailers => -2,
            Next::Nothing => -3,
            Next::Data(left) => left as i64,
        }
    }

    /// From an integer, whatever it is.
    pub fn unpack(packed: i64) -> Decoder {
        Decoder(match packed {
            -1 => Next::Size,
            -2 => Next::Trailers,
            ..=-3 => Next::Nothing,
            left => Next::Data(left as u64 % (LARGEST + 1)),
        })
    }

    /// The body has ended.
    pub fn is_done(self) -> bool {
        self.0 == Next::Nothing
    }

    /// Takes what is complete from `bytes`, at most `most` bytes of data, which are added to `data`; how many
    /// bytes of `bytes` it took. It has taken all it could when that is less than all, and the body has not
    /// ended, and `data` has not got `most` bytes.
    ///
    /// # Errors
    /// These are no chunks. The decoder is of no use any more.
    pub fn take(&mut self, bytes: &[u8], most: usize, data: &mut Vec<u8>) -> Result<usize, Refused> {
        let (mut at, mut room) = (0, most);
        loop {
            let rest = &bytes[at..];
            match self.0 {
                Next::Nothing => return Ok(at),
                Next::Size => match line(rest, LONGEST_LINE)? {
                    None => return Ok(at),
                    Some(text) => {
                        at += text.len() + 2;
                        self.0 = match size(text)? {
                            0 => Next::Trailers,
                            n => Next::Data(n),
                        };
                    }
                },
                Next::Data(0) => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.0 = Next::Size;
                    }
                    [] | [b'\r'] => return Ok(at),
                    _ => return Err(bad("a chunk is longer than it says")),
                },
                Next::Data(left) => {
                    let n = rest.len().min(room).min(usize::try_from(left).unwrap_or(usize::MAX));
                    if n == 0 {
                        return Ok(at);
                    }
                    data.extend_from_slice(&rest[..n]);
                    at += n;
                    room -= n;
                    self.0 = Next::Data(left - n as u64);
                }
                Next::Trailers => match trailers(rest)? {
                    None => return Ok(at),
                    Some(n) => {
                        at += n;
                        self.0 = Next::Nothing;
                    }
                },
            }
        }
    }
}

/// The first line without its end; `None`: it is not complete.
fn line(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>, Refused> {
    let seen = &bytes[..bytes.len().min(limit)];
    match memchr::memchr(b'\n', seen) {
        Some(at) if at > 0 && seen[at - 1] == b'\r' => Ok(Some(&seen[..at - 1])),
        Some(_) => Err(bad("a chunk's line ends with LF alone")),
        None if seen.len() == limit => Err(bad("a chunk's line is too long")),
        None => Ok(None),
    }
}

/// The size that a chunk's line says.
fn size(text: &[u8]) -> Result<u64, Refused> {
    let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if digits == 0 || !are_extensions(&text[digits..]) {
        return Err(bad("a chunk's size is no number"));
    }
    let mut n: u64 = 0;
    for &digit in &text[..digits] {
        n = n * 16 + u64::from((digit as char).to_digit(16).unwrap_or(0));
        if n > LARGEST {
            return Err(refused(413, "a chunk is too large"));
        }
    }
    Ok(n)
}

/// Whether what follows a chunk's size is `*( ";" name [ "=" ( token / quoted string ) ] )`, with the white
/// space between these parts that the standard calls bad and lets a server read.
fn are_extensions(text: &[u8]) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let blank = |text: &mut &[u8]| *text = text.trim_ascii_start();
    let token = |text: &mut &[u8]| {
        let length = text.iter().take_while(|&&b| is_token(b)).count();
        *text = &text[length..];
        length > 0
    };
    if text.iter().any(|&b| b != b'\t' && (b < b' ' || b == 0x7f)) {
        return false;
    }
    let mut rest = text;
    while !rest.is_empty() {
        blank(&mut rest);
        let Some(after) = rest.strip_prefix(b";") else { return false };
        rest = after;
        blank(&mut rest);
        if !token(&mut rest) {
            return false;
        }
        let before = rest;
        blank(&mut rest);
        let Some(after) = rest.strip_prefix(b"=") else {
            rest = before;
            continue;
        };
        rest = after;
        blank(&mut rest);
        let is_value = match rest.strip_prefix(b"\"") {
            Some(after) => {
                let end = end_of_quoted(after);
                rest = &after[end.unwrap_or(0)..];
                end.is_some()
            }
            None => token(&mut rest),
        };
        if !is_value {
            return false;
        }
    }
    true
}

/// Where a quoted string ends, of whose text this is the rest: behind the quote that has no backslash before
/// it.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        match b {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// How long the trailers are, which are checked and dropped: what they say comes too late for anything that
/// had to be decided. `None`: they are not complete.
fn trailers(bytes: &[u8]) -> Result<Option<usize>, Refused> {
    let seen = &bytes[..bytes.len().min(LONGEST_TRAILERS)];
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let length = match httparse::parse_headers(seen, &mut fields) {
        Ok(httparse::Status::Complete((length, _))) => Some(length),
        Ok(httparse::Status::Partial) if seen.len() < LONGEST_TRAILERS => None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(refused(431, "the trailers are too large"));
        }
        Err(_) => return Err(bad("the trailers are no header fields")),
    };
    let seen = &seen[..length.unwrap_or(seen.len())];
    if memchr::memchr_iter(b'\n', seen).any(|at| at == 0 || seen[at - 1] != b'\r') {
        return Err(bad("a line of the trailers ends with LF alone"));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Result<(Vec<u8>, usize, bool), Refused> {
        let (mut decoder, mut data) = (Decoder::default(), Vec::new());
        let taken = decoder.take(bytes, usize::MAX, &mut data)?;
        Ok((data, taken, decoder.is_done()))
    }

    #[test]
    fn chunks_are_joined_and_what_follows_is_left() {
        let text = b"5\r\nhello\r\n1;ext=\"x\"\r\n \r\n006 ; e\r\nworld!\r\n0\r\nDigest: x\r\n\r\nGET /";
        assert_eq!(whole(text), Ok((b"hello world!".to_vec(), text.len() - 5, true)));
        assert_eq!(whole(b"0\r\n\r\n"), Ok((Vec::new(), 5, true)));
    }

    #[test]
    fn extensions_are_passed_over() {
        for text in
            ["1;a", "1 ; a = b", "1;a=\"b;c\"", "1;a=\"\\\"\";b;c=\"\"", "1\t;\ta\t;b=c", "1;a=\"\u{fc}\""]
        {
            let outcome = whole(format!("{text}\r\nx\r\n0;e\r\n\r\n").as_bytes());
            assert!(matches!(&outcome, Ok((data, _, true)) if data == b"x"), "{text:?}: {outcome:?}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bad in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            "1 \r\n",
            " 1\r\n",
            "1\nx",
            "1\r\nxy\r\n",
            "1\r\nx\n0\r\n\r\n",
            "1\rx",
            "1;\x01\r\n",
            "1;\r\n",
            "1;=x\r\n",
            "1;a=\r\n",
            "1;a \r\n",
            "1;a b\r\n",
            "1;a=b c\r\n",
            "1;a=\"b\r\n",
            "1;a=\"b\\\"\r\n",
            "1;a=\"b\"c\r\n",
            "1;a;\r\n",
            "1,a\r\n",
            "0\r\n\n",
            "0\r\nbad name: x\r\n\r\n",
            "0\r\na: b\n\r\n",
            "fffffffffffffffffffff\r\n",
            "1000000000001\r\n",
        ] {
            let outcome = whole(bad.as_bytes());
            let waits = matches!(outcome, Ok((_, _, false))) && bad == "1\rx";
            assert!(outcome.is_err() || waits, "{bad:?}: {outcome:?}");
        }
        assert!(whole(&[b'1'; LONGEST_LINE]).is_err());
        assert!(whole(&[b"0\r\na: ".as_slice(), &[b'x'; LONGEST_TRAILERS]].concat()).is_err());
    }

    /// What the decoder makes of bytes that come in pieces, with a limit on each piece of data.
    fn in_pieces(bytes: &[u8], cuts: &[usize], most: usize) -> Result<(Vec<u8>, usize, bool), Refused> {
        let (mut packed, mut data) = (Decoder::default().pack(), Vec::new());
        let (mut start, mut there) = (0, 0);
        let mut cuts = cuts.iter().cycle();
        loop {
            let mut decoder = Decoder::unpack(packed);
            let mut piece = Vec::new();
            let taken = decoder.take(&bytes[start..there], most, &mut piece)?;
            assert!(piece.len() <= most);
            start += taken;
            packed = decoder.pack();
            data.extend_from_slice(&piece);
            if decoder.is_done() || (piece.len() < most && there == bytes.len()) {
                return Ok((data, start, decoder.is_done()));
            }
            if piece.len() < most {
                there = bytes.len().min(there + cuts.next().copied().unwrap_or(1));
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
            cuts in prop::collection::vec(1_usize..9, 1..5),
            most in 1_usize..50,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\nT: v\r\n\r\nrest");
            if let Some((at, byte)) = &damage {
                let at = at.index(text.len());
                text[at] = *byte;
            } else {
                prop_assert_eq!(whole(&text), Ok((chunks.concat(), text.len() - 4, true)));
            }
            match (in_pieces(&text, &cuts, most), whole(&text)) {
                (Ok(pieces), Ok(all)) => prop_assert_eq!(pieces, all),
                (Err(_), Err(_)) => {}
                (pieces, all) => prop_assert!(false, "{:?} and {:?}", pieces, all),
            }
        }
    }
}
