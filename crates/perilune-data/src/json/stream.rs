//! Texts that come in pieces: where a value ends.
//!
//! A [`Splitter`] finds the ends of the values that follow one another in a text: brackets are counted,
//! strings are passed over, numbers and words end at what cannot belong to them. Each byte is looked at once,
//! however small the pieces are. Whether a value is well formed is for the parser to say, which gets the
//! whole of it; so what is kept is one value's text, and nothing of the parser has to wait for input in the
//! middle of a token.
//!
//! In *items* mode the text is one array, and the values are its elements.

use super::fault::What;
use std::ops::Range;

/// Where a splitter is in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before the bracket of the array whose items are wanted.
    Start,
    /// Before a value, or in items mode perhaps before the closing bracket.
    First,
    /// Before a value, behind a comma.
    Value,
    /// In items mode, behind a value.
    Behind,
    /// Behind the closing bracket.
    End,
    /// In a number or word.
    Scalar,
    /// In a string that is the value.
    String,
    /// In an array or object.
    Nested,
    /// In a string within one.
    NestedString,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Splitter {
    items: bool,
    phase: Phase,
    /// Open brackets of the value.
    depth: usize,
    /// The next byte of a string is escaped.
    escaped: bool,
    /// Where the value begins.
    start: usize,
    /// Bytes that have been looked at.
    at: usize,
}

/// What [`Splitter::next`] finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A value, here.
    Value(Range<usize>),
    /// What is there does not suffice.
    More,
    /// There is no further value.
    End,
}

impl Splitter {
    /// For a text that begins.
    pub fn new(items: bool) -> Splitter {
        let phase = if items { Phase::Start } else { Phase::First };
        Splitter { items, phase, depth: 0, escaped: false, start: 0, at: 0 }
    }

    /// So many bytes have been taken from the front of the text, none of them of a value that has begun.
    pub fn dropped(&mut self, bytes: usize) {
        self.at -= bytes;
        self.start = self.start.saturating_sub(bytes);
    }

    /// How many bytes from the front are not needed any more.
    pub fn done(&self) -> usize {
        match self.phase {
            Phase::Scalar | Phase::String | Phase::Nested | Phase::NestedString => self.start,
            _ => self.at,
        }
    }

    fn begin(&mut self, phase: Phase) {
        self.start = self.at;
        self.phase = phase;
        self.at += 1;
    }

    fn end(&mut self) -> Found {
        self.phase = if self.items { Phase::Behind } else { Phase::First };
        Found::Value(self.start..self.at)
    }

    /// The next value of `text`, of which as much as was there at the last call is the same; `finished`:
    /// there is no more.
    ///
    /// # Errors
    /// Where, and what is wrong between the values.
    pub fn next(&mut self, text: &[u8], finished: bool) -> Result<Found, (usize, What)> {
        while let Some(&b) = text.get(self.at) {
            match self.phase {
                Phase::Scalar => match b {
                    b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'[' | b']' | b'{' | b'}' | b'"' => {
                        return Ok(self.end());
                    }
                    _ => self.at += 1,
                },
                Phase::String | Phase::NestedString => {
                    if self.escaped {
                        self.escaped = false;
                        self.at += 1;
                        continue;
                    }
                    let Some(skip) = memchr::memchr2(b'"', b'\\', &text[self.at..]) else {
                        self.at = text.len();
                        break;
                    };
                    self.at += skip + 1;
                    if text[self.at - 1] == b'\\' {
                        self.escaped = true;
                    } else if self.phase == Phase::String {
                        return Ok(self.end());
                    } else {
                        self.phase = Phase::Nested;
                    }
                }
                Phase::Nested => {
                    self.at += 1;
                    match b {
                        b'"' => self.phase = Phase::NestedString,
                        b'[' | b'{' => self.depth += 1,
                        b']' | b'}' => {
                            self.depth -= 1;
                            if self.depth == 0 {
                                return Ok(self.end());
                            }
                        }
                        _ => {}
                    }
                }
                _ if matches!(b, b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Phase::Start if b == b'[' => {
                    self.phase = Phase::First;
                    self.at += 1;
                }
                Phase::Start => return Err((self.at, What::Expected("'['"))),
                Phase::First if self.items && b == b']' => {
                    self.phase = Phase::End;
                    self.at += 1;
                }
                Phase::Behind => {
                    self.phase = match b {
                        b',' => Phase::Value,
                        b']' => Phase::End,
                        _ => return Err((self.at, What::Expected("',' or ']'"))),
                    };
                    self.at += 1;
                }
                Phase::End => return Err((self.at, What::Expected("the end of the text"))),
                Phase::First | Phase::Value => match b {
                    b'[' | b'{' => {
                        self.depth = 1;
                        self.begin(Phase::Nested);
                    }
                    b'"' => self.begin(Phase::String),
                    b',' | b':' | b']' | b'}' => return Err((self.at, What::Expected("a value"))),
                    _ => self.begin(Phase::Scalar),
                },
            }
        }
        if !finished {
            return Ok(Found::More);
        }
        match self.phase {
            Phase::Scalar => Ok(self.end()),
            Phase::End => Ok(Found::End),
            Phase::First if !self.items => Ok(Found::End),
            Phase::Start => Err((self.at, What::End("'['"))),
            Phase::First => Err((self.at, What::End("a value or ']'"))),
            Phase::Value => Err((self.at, What::End("a value"))),
            Phase::Behind => Err((self.at, What::End("',' or ']'"))),
            Phase::String | Phase::NestedString => Err((self.at, What::End("the closing quote of a string"))),
            Phase::Nested => Err((self.at, What::End("a closing bracket"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a text that comes in pieces of this size, or the fault.
    fn split(text: &[u8], items: bool, size: usize) -> Result<Vec<String>, (usize, What)> {
        let (mut splitter, mut buffer, mut gone, mut values) =
            (Splitter::new(items), Vec::new(), 0, Vec::new());
        let mut pieces = text.chunks(size);
        let mut finished = false;
        loop {
            match splitter.next(&buffer, finished).map_err(|(at, what)| (at + gone, what))? {
                Found::Value(range) => values.push(String::from_utf8_lossy(&buffer[range]).into_owned()),
                Found::End => return Ok(values),
                Found::More => {
                    let done = splitter.done();
                    buffer.drain(..done);
                    splitter.dropped(done);
                    gone += done;
                    match pieces.next() {
                        Some(piece) => buffer.extend_from_slice(piece),
                        None => finished = true,
                    }
                }
            }
        }
    }

    #[test]
    fn values_are_the_same_in_pieces_of_every_size() {
        let texts: [(&str, bool, &[&str]); 6] = [
            ("1 2\n3", false, &["1", "2", "3"]),
            (
                r#"{"a":"}\"]"} [1,[2]]"x\\""y"true null"#,
                false,
                &[r#"{"a":"}\"]"}"#, "[1,[2]]", r#""x\\""#, r#""y""#, "true", "null"],
            ),
            ("", false, &[]),
            ("[]", true, &[]),
            (" [ 1 , {\"a\": [2, 3]}, \"]\" ] ", true, &["1", "{\"a\": [2, 3]}", "\"]\""]),
            ("12[3]", false, &["12", "[3]"]),
        ];
        for (text, items, values) in texts {
            for size in 1..=text.len() + 1 {
                assert_eq!(split(text.as_bytes(), items, size).unwrap(), values, "{text} {size}");
            }
        }
    }

    #[test]
    fn what_is_wrong_between_values() {
        for (text, items, at) in [
            ("1, 2", false, 1),
            ("{\"a\": 1", false, 7),
            ("\"abc", false, 4),
            ("{}", true, 0),
            ("[1 2]", true, 3),
            ("[1] 2", true, 4),
            ("[1,]", true, 3),
            ("[1", true, 2),
        ] {
            for size in 1..=text.len() {
                assert_eq!(split(text.as_bytes(), items, size).unwrap_err().0, at, "{text} {size}");
            }
        }
    }
}
