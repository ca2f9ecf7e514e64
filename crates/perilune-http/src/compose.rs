//! Heads of messages, from values of programs to bytes.
//!
//! Names and values come from programs, which put into them what they have from elsewhere. So every one is
//! looked at: a line's end within a value would begin a field, or a response, of somebody else's making. What
//! delimits the body is the business of this file alone.

use crate::date;
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};
use std::io::Write;

/// What the head says of the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// So many bytes follow.
    Length(usize),
    /// It comes piece by piece: in chunks, unless a field says its length.
    Pieces,
    /// The same for somebody who does not know chunks: it ends with the connection.
    UntilEnd,
    /// There is none, and nothing is said of it.
    None,
    /// There is none; a field may say how long it would be.
    Omitted(Option<usize>),
}

/// What a head turned out to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// The length of the body, in a field of the program.
    pub length: Option<u64>,
    /// The connection ends with this message.
    pub closes: bool,
    /// There is a `Host`.
    pub host: bool,
    /// There is a `Date`.
    date: bool,
}

/// Whether it is a token: what names and methods are.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether it may be a value.
fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

/// The status line.
pub fn status_line(out: &mut Vec<u8>, status: u16) {
    let reason = reason(status);
    let digits = [b'0' + (status / 100) as u8, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8];
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&digits);
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Adds the fields of a table: names with strings, numbers, or lists of them.
///
/// # Errors
/// What is wrong with one, as the text of an error that has no position: the table may come from anywhere.
pub fn fields(vm: &mut Vm, out: &mut Vec<u8>, table: Gc<Table>) -> LuaResult<Said> {
    let mut said = Said::default();
    let mut at = Value::NIL;
    while let Some((key, value)) = vm.raw_next(table, at)? {
        at = key;
        let Some(name) = key.as_string() else {
            let text = format!("a header field's name must be a string, not {key:?}");
            return Err(vm.error_plain(text));
        };
        if !is_token(name.bytes()) {
            return Err(vm.error_plain(format!("'{}' is no name of a header field", name.to_text())));
        }
        match value.as_table() {
            None => field(vm, out, name.bytes(), value, &mut said)?,
            Some(list) => {
                for n in 1..=vm.raw_len(list) {
                    let value = vm.raw_get_int(list, n);
                    field(vm, out, name.bytes(), value, &mut said)?;
                }
            }
        }
    }
    Ok(said)
}

fn field(vm: &mut Vm, out: &mut Vec<u8>, name: &[u8], value: Value, said: &mut Said) -> LuaResult<()> {
    let called = || String::from_utf8_lossy(name).into_owned();
    let text = match (value.as_string(), value.is_number()) {
        (Some(text), _) => text,
        (None, true) => vm.tostring(value)?,
        (None, false) => {
            let kind = value.type_name();
            return Err(vm.error_plain(format!("header field '{}' must be a string, not a {kind}", called())));
        }
    };
    let bytes = text.bytes();
    if !is_value(bytes) {
        return Err(
            vm.error_plain(format!("header field '{}' has control characters in its value", called()))
        );
    }
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"date") => said.date = true,
        4 if name.eq_ignore_ascii_case(b"host") => said.host = true,
        10 if name.eq_ignore_ascii_case(b"connection") => {
            said.closes |= crate::framing::words(bytes).any(|word| word.eq_ignore_ascii_case(b"close"));
            return Ok(());
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let digits = std::str::from_utf8(bytes).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            match digits.and_then(|t| t.parse::<u64>().ok()).filter(|&n| n < crate::framing::LONGEST) {
                Some(length) if said.length.is_none_or(|other| other == length) => said.length = Some(length),
                _ => return Err(vm.error_plain("header field 'content-length' must be one number of bytes")),
            }
            return Ok(());
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            let text = "header field 'transfer-encoding' is not the program's to set: a body in pieces is \
                sent in chunks";
            return Err(vm.error_plain(text));
        }
        _ => {}
    }
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Ends a head: what it says of the body, and the empty line. Returns how long the body has to be, if a field
/// says so.
///
/// # Errors
/// A field says another length than the body has.
pub fn end(vm: &mut Vm, out: &mut Vec<u8>, said: Said, body: Body) -> LuaResult<Option<u64>> {
    let length = match body {
        Body::Length(n) => match said.length {
            Some(other) if other != n as u64 => {
                let text = format!("header field 'content-length' says {other}, but the body has {n} bytes");
                return Err(vm.error_plain(text));
            }
            _ => Some(n as u64),
        },
        Body::Pieces => said.length,
        Body::Omitted(n) => said.length.or(n.map(|n| n as u64)),
        Body::UntilEnd => said.length,
        Body::None => None,
    };
    if let Some(length) = length {
        let _ = write!(out, "content-length: {length}\r\n");
    } else if body == Body::Pieces {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(length)
}

/// Adds `Date`, unless the program has said one.
pub fn date(out: &mut Vec<u8>, said: Said) {
    if !said.date {
        out.extend_from_slice(b"date: ");
        date::push_now(out);
        out.extend_from_slice(b"\r\n");
    }
}

/// The phrase of a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}
