//! The lexer: bytes in, tokens out (manual 3.1).
//!
//! A source is any bytes. Names and operators are ASCII; bytes outside of it may stand in strings and
//! comments only. Line breaks are `\n`, `\r` and both pairs of them, each counting as one line. The first
//! line's `#` is the loader's to skip.
//!
//! Messages are PUC Lua's, down to what they show after `near`: for a finished token its text with escapes
//! resolved, for one that broke off what had been read of it. That text is put together only when a message
//! needs it, from the source and from the part of a string already converted. Like every string that passes
//! through C it ends at its first zero byte.
//!
//! # Texts that come in pieces
//! A text may come from a reader function of the program ([`Source::Pieces`]), which may have effects, fail,
//! or never end. So a piece is asked for when the byte after the last one is needed, which is as early as PUC
//! Lua needs it: that byte is always there when a token has been read. Pieces are appended to what there is,
//! so that positions stay; a text that is there as a whole is never copied.

use crate::ast::StrId;
use crate::class::{NAME, NUMERAL, SPACE, STOP, is};
use crate::error::{SyntaxError, chunk_id};
use crate::intern::{Interner, prefix};
use crate::numeral::{Number, hex_value, is_space, parse_number};
use crate::sys::count_in_row;
use crate::token::{Long, Token, Word};
use crate::{BYTES_PER_TOKEN, Bounds, Source};
use std::borrow::Cow;

/// What a step of the front end yields. Boxed, so that a result of the parser's recursion fits in two
/// registers.
pub type Result<T> = std::result::Result<T, Box<SyntaxError>>;

/// Appends the next piece of a source, and says whether there was one.
pub type More<'s> = &'s mut dyn FnMut(&mut Vec<u8>) -> bool;

/// The state of reading one source.
pub struct Lexer<'s> {
    source: Cow<'s, [u8]>,
    /// Who appends to it, until there is nothing to append.
    more: Option<More<'s>>,
    /// The next byte to read.
    at: usize,
    /// Where the token read last starts; it ends at `at`.
    start: usize,
    /// Line of the next byte: the line of the token read last, or of its last character if it spans several.
    line: u32,
    chunk_name: &'s [u8],
    /// Names and literals so far.
    pub strings: &'s mut Interner,
    /// The string under way, when it can't be taken from the source as it is.
    scratch: Vec<u8>,
    /// What ends it.
    pub bounds: Bounds<'s>,
    /// Tokens until the next look at `bounds`.
    until_look: u32,
    /// Bytes that the tokens before the last look cost.
    taken: usize,
}

/// Longest text: ids and lines are 32 bits wide, and no construct makes more than a few of them per byte.
const MAX_TEXT: usize = u32::MAX as usize;
/// Tokens between two looks at the bounds.
const TOKENS_PER_LOOK: u32 = 4096;

impl<'s> Lexer<'s> {
    /// Starts at the beginning of `source`; `chunk_name` is for messages, and names and literals go to
    /// `strings`.
    pub fn new(
        source: Source<'s>,
        chunk_name: &'s [u8],
        bounds: Bounds<'s>,
        strings: &'s mut Interner,
    ) -> Lexer<'s> {
        let (source, more) = match source {
            Source::Whole(text) => (Cow::Borrowed(text), None),
            Source::Pieces(first, more) => (Cow::Owned(first), Some(more)),
        };
        Lexer {
            source,
            more,
            at: 0,
            start: 0,
            line: 1,
            chunk_name,
            strings,
            scratch: Vec::new(),
            bounds,
            until_look: TOKENS_PER_LOOK,
            taken: 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_bounds(&mut self) -> Result<()> {
        self.until_look = TOKENS_PER_LOOK;
        if (self.bounds.interrupted)() {
            return Err(SyntaxError::interrupted());
        }
        self.taken += TOKENS_PER_LOOK as usize * BYTES_PER_TOKEN;
        if self.taken > self.bounds.memory || !(self.bounds.has_room)(self.taken) {
            return Err(SyntaxError::out_of_memory());
        }
        Ok(())
    }

    /// Length of the text as far as it is there.
    pub fn available(&self) -> usize {
        self.source.len()
    }

    /// The text.
    pub fn into_source(self) -> Cow<'s, [u8]> {
        self.source
    }

    /// The end of the text that is there has been reached. True if there is more now.
    #[cold]
    #[inline(never)]
    fn fill(&mut self) -> bool {
        let Some(more) = &mut self.more else { return false };
        let text = self.source.to_mut();
        while text.len() <= MAX_TEXT && more(text) {
            if self.at < text.len() {
                return true;
            }
        }
        self.more = None;
        false
    }

    /// The line that has been reached, from 1.
    #[inline]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The next byte, or `None` at the end.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        match self.source.get(self.at) {
            Some(&byte) => Some(byte),
            None => self.peek_further(),
        }
    }

    #[cold]
    #[inline(never)]
    fn peek_further(&mut self) -> Option<u8> {
        if self.fill() { self.source.get(self.at).copied() } else { None }
    }

    /// Steps over `byte` if it is next.
    #[inline]
    fn skip_if(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads the next token into `token`. (Returned, it would be copied as a whole right after its parts have
    /// been stored, for which processors wait.)
    pub fn next_token(&mut self, token: &mut Token) -> Result<()> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_at_bounds()?;
        }
        loop {
            // A space is before most tokens, and costs less like this than by a jump through the table.
            self.at += usize::from(self.source.get(self.at) == Some(&b' '));
            self.start = self.at;
            let Some(b) = self.peek() else {
                self.check_length()?;
                *token = Token::Eof;
                return Ok(());
            };
            self.at += 1;
            *token = match b {
                b'\n' | b'\r' => {
                    self.end_line(b);
                    self.skip_all(SPACE);
                    continue;
                }
                b' ' | b'\t' | 0x0b | 0x0c => continue,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.name(),
                b'-' if self.skip_if(b'-') => {
                    self.comment()?;
                    continue;
                }
                b'"' | b'\'' => Token::String(self.string(b)?),
                b'0'..=b'9' => return self.numeral(b, token),
                b'.' if self.skip_if(b'.') => {
                    Token::Long(if self.skip_if(b'.') { Long::Dots } else { Long::Concat })
                }
                b'.' => match self.peek() {
                    Some(digit @ b'0'..=b'9') => {
                        self.at += 1;
                        return self.numeral(digit, token);
                    }
                    _ => Token::Char(b'.'),
                },
                b'[' => match self.peek() {
                    Some(b'[' | b'=') => Token::String(self.long_string()?),
                    _ => Token::Char(b'['),
                },
                b'=' if self.skip_if(b'=') => Token::Long(Long::Eq),
                b'<' if self.skip_if(b'=') => Token::Long(Long::Le),
                b'<' if self.skip_if(b'<') => Token::Long(Long::Shl),
                b'>' if self.skip_if(b'=') => Token::Long(Long::Ge),
                b'>' if self.skip_if(b'>') => Token::Long(Long::Shr),
                b'/' if self.skip_if(b'/') => Token::Long(Long::IDiv),
                b'~' if self.skip_if(b'=') => Token::Long(Long::Ne),
                b':' if self.skip_if(b':') => Token::Long(Long::DoubleColon),
                _ => Token::Char(b),
            };
            return Ok(());
        }
    }

    /// To be called when a token has been read: a text that comes in pieces has its next byte then, or its
    /// end.
    #[inline]
    pub fn look_ahead(&mut self) {
        if self.more.is_some() {
            self.peek();
        }
    }

    /// Refuses a text of which not all can be read.
    #[cold]
    pub fn check_length(&self) -> Result<()> {
        if self.source.len() > MAX_TEXT { Err(self.error(b"chunk too large")) } else { Ok(()) }
    }

    /// The first byte of a line break has just been read: counts the line and takes the break's other half,
    /// if any.
    fn end_line(&mut self, first: u8) {
        let other = if first == b'\n' { b'\r' } else { b'\n' };
        self.skip_if(other);
        self.line += 1;
    }

    fn name(&mut self) -> Token {
        self.skip_all(NAME);
        let text = &self.source[self.start..self.at];
        let bytes = prefix(text);
        match Word::of(bytes) {
            Some(word) if text.len() <= 8 => Token::Word(word),
            _ => Token::Name(self.strings.intern_with(text, bytes)),
        }
    }

    /// A numeral whose first digit has just been read. Takes generously whatever could belong to it, so that
    /// `3x` is a bad numeral rather than two tokens.
    fn numeral(&mut self, first: u8, token: &mut Token) -> Result<()> {
        let hexadecimal = first == b'0' && (self.skip_if(b'x') || self.skip_if(b'X'));
        let exponent = if hexadecimal { b'p' } else { b'e' };
        while let Some(b) = self.peek() {
            if b | 0x20 == exponent {
                self.at += 1;
                let _ = self.skip_if(b'-') || self.skip_if(b'+');
            } else if is(b, NUMERAL) {
                self.at += 1;
            } else {
                break;
            }
        }
        if let Some(b) = self.peek()
            && is(b, NAME)
        {
            self.at += 1;
        }
        let text = &self.source[self.start..self.at];
        *token = match parse_number(text) {
            Some(Number::Integer(value)) => Token::Integer(value),
            Some(Number::Float(value)) => Token::Float(value),
            None => return Err(self.error_at(b"malformed number", text)),
        };
        Ok(())
    }

    /// A comment whose two dashes have been read.
    fn comment(&mut self) -> Result<()> {
        if self.peek() == Some(b'[') {
            let start = self.at;
            self.at += 1;
            if let Some(level) = self.long_bracket(b'[') {
                return self.long_text(level, false);
            }
            self.at = start;
        }
        loop {
            let rest = &self.source[self.at..];
            let end = memchr::memchr2(b'\n', b'\r', rest);
            self.at += end.unwrap_or(rest.len());
            if end.is_some() || !self.fill() {
                return Ok(());
            }
        }
    }

    /// With the first bracket read: if `=`s and a second bracket follow, steps over them and returns the
    /// number of `=`s. Otherwise stays where it is.
    fn long_bracket(&mut self, bracket: u8) -> Option<usize> {
        let start = self.at;
        while self.skip_if(b'=') {}
        let level = self.at - start;
        if self.skip_if(bracket) {
            return Some(level);
        }
        self.at = start;
        None
    }

    fn long_string(&mut self) -> Result<StrId> {
        let Some(level) = self.long_bracket(b'[') else {
            let level = self.source[self.at..].iter().take_while(|&&b| b == b'=').count();
            let text = &self.source[self.start..self.at + level];
            return Err(self.error_at(b"invalid long string delimiter", text));
        };
        self.long_text(level, true)?;
        Ok(self.strings.intern(&self.scratch))
    }

    /// The text of a long string or comment, opening bracket read, up to and with its closing one. A string's
    /// text goes to `scratch`, with every line break as `\n`.
    fn long_text(&mut self, level: usize, is_string: bool) -> Result<()> {
        let first_line = self.line;
        self.scratch.clear();
        if let Some(b @ (b'\n' | b'\r')) = self.peek() {
            self.at += 1;
            self.end_line(b);
        }
        loop {
            let rest = &self.source[self.at..];
            let Some(plain) = memchr::memchr3(b']', b'\n', b'\r', rest) else {
                if is_string {
                    self.scratch.extend_from_slice(rest);
                }
                self.at = self.source.len();
                if self.fill() {
                    continue;
                }
                let what = if is_string { "string" } else { "comment" };
                let message = format!("unfinished long {what} (starting at line {first_line})");
                return Err(self.error_near(message.as_bytes(), Token::Eof));
            };
            if is_string {
                self.scratch.extend_from_slice(&rest[..plain]);
            }
            self.at += plain + 1;
            let byte = rest[plain];
            let found = if byte == b']' {
                let start = self.at;
                match self.long_bracket(b']') {
                    Some(found) if found == level => return Ok(()),
                    Some(_) => {
                        // The second bracket may be the first of the real end.
                        self.at -= 1;
                        &self.source[start - 1..self.at]
                    }
                    None => b"]",
                }
            } else {
                self.end_line(byte);
                b"\n"
            };
            if is_string {
                self.scratch.extend_from_slice(found);
            }
        }
    }

    /// A short string whose opening quote has been read.
    fn string(&mut self, quote: u8) -> Result<StrId> {
        let start = self.at;
        self.skip_plain(quote);
        if self.peek() == Some(quote) {
            let id = self.strings.intern(&self.source[start..self.at]);
            self.at += 1;
            return Ok(id);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.source[start..self.at]);
        loop {
            match self.peek() {
                None => return Err(self.error_near(b"unfinished string", Token::Eof)),
                Some(b'\\') => self.escape(quote)?,
                Some(b) if b == quote => {
                    self.at += 1;
                    return Ok(self.strings.intern(&self.scratch));
                }
                Some(_) => {
                    let text = [&[quote], self.scratch.as_slice()].concat();
                    return Err(self.error_at(b"unfinished string", &text));
                }
            }
            let start = self.at;
            self.skip_plain(quote);
            self.scratch.extend_from_slice(&self.source[start..self.at]);
        }
    }

    /// Steps to the next byte that means something in a string with this quote.
    fn skip_plain(&mut self, quote: u8) {
        self.skip_while(|b| !is(b, STOP) || (b == b'"' || b == b'\'') && b != quote);
    }

    /// Steps over bytes of a class, a row of them at a time.
    #[inline]
    fn skip_all(&mut self, class: u8) {
        while let Some(row) = self.source[self.at..].first_chunk() {
            let count = count_in_row(class, row);
            self.at += count;
            if count < row.len() {
                return;
            }
        }
        self.skip_while(|b| is(b, class));
    }

    /// Steps to the next byte that is not as `wanted`.
    #[inline]
    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        loop {
            let rest = &self.source[self.at..];
            let end = rest.iter().position(|&b| !wanted(b));
            self.at += end.unwrap_or(rest.len());
            if end.is_some() || !self.fill() {
                return;
            }
        }
    }

    /// An escape sequence, its backslash next.
    fn escape(&mut self, quote: u8) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let Some(b) = self.peek() else { return Ok(()) };
        self.at += 1;
        let value = match b {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'\\' | b'"' | b'\'' => b,
            b'\n' | b'\r' => {
                self.end_line(b);
                b'\n'
            }
            b'x' => {
                let high = self.hex_digit(quote, start)?;
                let low = self.hex_digit(quote, start)?;
                high << 4 | low
            }
            b'0'..=b'9' => {
                let mut value = u32::from(b - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'9') = self.peek() else { break };
                    value = value * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                match u8::try_from(value) {
                    Ok(value) => value,
                    Err(_) => return Err(self.escape_error(b"decimal escape too large", quote, start)),
                }
            }
            b'u' => return self.utf8_escape(quote, start),
            b'z' => {
                while let Some(b) = self.peek()
                    && is_space(b)
                {
                    self.at += 1;
                    if b == b'\n' || b == b'\r' {
                        self.end_line(b);
                    }
                }
                return Ok(());
            }
            _ => {
                self.at -= 1;
                return Err(self.escape_error(b"invalid escape sequence", quote, start));
            }
        };
        self.scratch.push(value);
        Ok(())
    }

    fn hex_digit(&mut self, quote: u8, start: usize) -> Result<u8> {
        match self.peek().and_then(hex_value) {
            Some(value) => {
                self.at += 1;
                Ok(value)
            }
            None => Err(self.escape_error(b"hexadecimal digit expected", quote, start)),
        }
    }

    /// `\u{XXX}`, the `u` read: a code up to 2^31 - 1 in (extended) UTF-8.
    fn utf8_escape(&mut self, quote: u8, start: usize) -> Result<()> {
        if !self.skip_if(b'{') {
            return Err(self.escape_error(b"missing '{'", quote, start));
        }
        let mut code = u32::from(self.hex_digit(quote, start)?);
        while let Some(digit) = self.peek().and_then(hex_value) {
            if code > 0x7fff_ffff >> 4 {
                return Err(self.escape_error(b"UTF-8 value too large", quote, start));
            }
            code = code << 4 | u32::from(digit);
            self.at += 1;
        }
        if !self.skip_if(b'}') {
            return Err(self.escape_error(b"missing '}'", quote, start));
        }
        push_utf8(code, &mut self.scratch);
        Ok(())
    }

    /// A bad escape that starts at `start`: shows the string up to and with the byte that is next.
    fn escape_error(&mut self, message: &[u8], quote: u8, start: usize) -> Box<SyntaxError> {
        if self.peek().is_some() {
            self.at += 1;
            self.peek();
        }
        let text = [&[quote], self.scratch.as_slice(), &self.source[start..self.at]].concat();
        self.error_at(message, &text)
    }

    /// An error on the line reached, without any token.
    #[cold]
    pub fn error(&self, message: &[u8]) -> Box<SyntaxError> {
        let mut text = chunk_id(self.chunk_name);
        text.extend_from_slice(format!(":{}: ", self.line).as_bytes());
        text.extend_from_slice(message);
        Box::new(SyntaxError { message: text, incomplete: false })
    }

    /// An error near `token`, which is the one read last.
    #[cold]
    pub fn error_near(&self, message: &[u8], token: Token) -> Box<SyntaxError> {
        let text = match token {
            Token::Name(id) => self.strings.get(id).to_vec(),
            Token::String(id) => self.quoted(id),
            Token::Integer(_) | Token::Float(_) => self.source[self.start..self.at].to_vec(),
            // PUC Lua's number for "no token".
            Token::Char(0) => return self.error(message),
            _ => {
                let mut error = self.error(message);
                error.message.extend_from_slice(b" near ");
                error.message.extend_from_slice(token.kind().as_bytes());
                error.incomplete = token == Token::Eof;
                return error;
            }
        };
        self.error_at(message, &text)
    }

    /// An error near some text of the source.
    #[cold]
    fn error_at(&self, message: &[u8], text: &[u8]) -> Box<SyntaxError> {
        let mut error = self.error(message);
        error.message.extend_from_slice(b" near '");
        error.message.extend_from_slice(text.split(|&b| b == 0).next().unwrap_or_default());
        error.message.push(b'\'');
        error
    }

    /// A string literal that has just been read, between its delimiters.
    fn quoted(&self, id: StrId) -> Vec<u8> {
        let text = self.strings.get(id);
        let quote = &self.source[self.start..self.start + 1];
        if quote != b"[" {
            return [quote, text, quote].concat();
        }
        let level = self.source[self.start + 1..].iter().take_while(|&&b| b == b'=').count();
        let equals = &self.source[self.start + 1..self.start + 1 + level];
        [b"[", equals, b"[", text, b"]", equals, b"]"].concat()
    }
}

/// Appends `code`, below 2^31, in UTF-8 as first defined: up to six bytes, surrogates not excluded.
pub fn push_utf8(code: u32, out: &mut Vec<u8>) {
    if code < 0x80 {
        out.push(code as u8);
        return;
    }
    // n bytes hold 5n + 1 bits: 6 in each continuation and the rest in the first.
    let bits = 32 - code.leading_zeros();
    let count = (2..=6).find(|n| bits <= 5 * n + 1).unwrap_or(6);
    let marker = 0xff00u32 >> count;
    out.push((marker | code >> (6 * (count - 1))) as u8);
    for i in (0..count - 1).rev() {
        out.push((0x80 | code >> (6 * i) & 0x3f) as u8);
    }
}
