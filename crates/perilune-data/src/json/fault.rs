//! What is wrong with a text, and where.

use std::fmt::Write;

/// What stops the parser at a byte of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Offset of the byte.
    pub at: usize,
    /// What is wrong there.
    pub what: What,
}

/// See [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Something else was expected.
    Expected(&'static str),
    /// The text ends, and this was expected.
    End(&'static str),
    /// A control character in a string.
    Control,
    /// A byte that is not UTF-8.
    Utf8,
    /// Half of a surrogate pair.
    Surrogate,
    /// An integer that has no 64 bits.
    BigInteger,
    /// A number beyond all floats.
    BigNumber,
    /// Deeper than this.
    Depth(usize),
    /// The object has this name already.
    Repeated(String),
}

/// Lines and columns before a text that is a part of a longer one, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// Line ends before the text.
    pub line: usize,
    /// Characters before it in its line.
    pub column: usize,
}

impl Origin {
    /// The place behind `text`, which begins here. Columns count characters: bytes that do not continue one.
    pub fn after(self, text: &[u8]) -> Origin {
        let characters = |line: &[u8]| line.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        match memchr::memrchr(b'\n', text) {
            Some(last) => Origin {
                line: self.line + memchr::memchr_iter(b'\n', text).count(),
                column: characters(&text[last + 1..]),
            },
            None => Origin { line: self.line, column: self.column + characters(text) },
        }
    }
}

impl Fault {
    /// As text for people; the text that the fault is in begins at `origin`.
    pub fn message(&self, text: &[u8], origin: Origin) -> String {
        let at = self.at.min(text.len());
        let place = origin.after(&text[..at]);
        let mut out = format!("line {}, column {}: ", place.line + 1, place.column + 1);
        match &self.what {
            What::Expected(what) => {
                let _ = write!(out, "expected {what}, found {}", found(&text[at..]));
            }
            What::End(what) => {
                let _ = write!(out, "expected {what}, found the end of the text");
            }
            What::Control => {
                let _ = write!(
                    out,
                    "{} in a string (control characters are written as escapes)",
                    found(&text[at..])
                );
            }
            What::Utf8 => {
                let byte = text.get(at).copied().unwrap_or(0);
                let _ = write!(out, "invalid UTF-8 (byte 0x{byte:02X}); {REPLACE}");
            }
            What::Surrogate => {
                let _ = write!(out, "half of a surrogate pair in a string; {REPLACE}");
            }
            What::BigInteger => {
                out += "the integer has more than 64 bits (with big_integers=\"float\" it becomes a float)";
            }
            What::BigNumber => out += "the number is beyond the range of floats",
            What::Depth(most) => {
                let _ = write!(out, "more than {most} arrays and objects within each other (option 'depth')");
            }
            What::Repeated(name) => {
                let _ = write!(out, "the object has the name {name:?} already");
            }
        }
        out
    }
}

const REPLACE: &str = "with bad=\"replace\" it becomes U+FFFD";

/// The character that stands there, for messages.
fn found(text: &[u8]) -> String {
    let Some(&byte) = text.first() else { return "the end of the text".into() };
    if byte < 0x20 || byte == 0x7f {
        return match byte {
            b'\n' => "a line end".into(),
            b'\t' => "a tab".into(),
            _ => format!("byte 0x{byte:02X}"),
        };
    }
    let length = text.len().min(4);
    let piece = String::from_utf8_lossy(&text[..length]);
    match piece.chars().next() {
        Some(c) if c != char::REPLACEMENT_CHARACTER => format!("'{c}'"),
        _ => format!("byte 0x{byte:02X}"),
    }
}
