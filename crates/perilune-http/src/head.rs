//! Heads of requests and responses: from bytes to slices of them.
//!
//! `httparse` finds the parts. What it is lenient about is refused here, since every leniency is one that a
//! proxy before or behind us may not share, and then the two see different messages in the same bytes:
//!
//! * lines that end with LF alone;
//! * more than a few empty lines before the head;
//! * a target with anything but visible ASCII in it, or with a fragment;
//! * a request of HTTP/1.1 without exactly one `Host`, or with one that is no host.
//!
//! It refuses by itself: folded lines, spaces before the colon, names that are no tokens, control characters
//! in values.
//!
//! A head that is not complete yet is parsed again from its beginning when more has come. The limit on its
//! size bounds what that can cost, and what can never become a head is refused early.

use crate::framing::{self, Framing};
use crate::refused::{Refused, bad, refused};
use httparse::{Error, Header, Status};

/// Header fields that a message may have, whatever a program says.
pub const MOST_FIELDS: usize = 256;

/// No field: what an array of fields begins with.
pub const NO_FIELD: Header<'static> = httparse::EMPTY_HEADER;

/// Empty lines that are skipped before a request: some clients send one after a body.
const MOST_EMPTY_LINES: usize = 4;

/// How large heads may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a head, all of it.
    pub bytes: usize,
    /// Header fields.
    pub fields: usize,
}

/// The head of a request.
#[derive(Debug)]
pub struct Request<'b> {
    /// `GET`
    pub method: &'b str,
    /// As it came: `/a?b`, `http://host/a?b`, `*`, `host:port`.
    pub target: &'b str,
    /// Of the target: what stands before the `?`; always begins with `/` but for `*` and CONNECT.
    pub path: &'b str,
    /// Of the target: what stands behind the `?`.
    pub query: Option<&'b str>,
    /// The host, as the target or the field says.
    pub host: Option<&'b str>,
    /// 0 or 1.
    pub minor: u8,
    /// How its body is delimited.
    pub framing: Framing,
    /// What `Connection` and `Expect` say.
    pub wishes: Wishes,
}

/// The head of a response.
#[derive(Debug)]
pub struct Response<'b> {
    /// 100 to 999
    pub status: u16,
    /// `Not Found`
    pub reason: &'b str,
    /// 0 or 1.
    pub minor: u8,
    /// How its body is delimited.
    pub framing: Framing,
    /// What `Connection` says.
    pub wishes: Wishes,
}

/// What the sender wants besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// The connection stays open.
    pub keep: bool,
    /// A `100 Continue` before the body.
    pub expects: bool,
    /// Another protocol on this connection.
    pub upgrade: bool,
}

/// What stands at the beginning of some bytes.
#[derive(Debug)]
pub enum Parsed<T> {
    /// Not all of it yet.
    Partial,
    /// A head of so many bytes.
    Complete(T, usize),
}

/// Parses the head of a request. Its header fields are in `fields`.
///
/// # Errors
/// What is wrong with it.
pub fn request<'b, 'h>(
    bytes: &'b [u8],
    limits: Limits,
    fields: &'h mut [Header<'b>],
) -> Result<Parsed<(Request<'b>, &'h [Header<'b>])>, Refused> {
    let skipped = empty_lines(bytes)?;
    let bytes = &bytes[skipped..];
    let mut head = httparse::Request::new(fields);
    let length = match head.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return partial(bytes, limits),
        Err(Error::Version) if !has_version(bytes) => return Err(bad("no request line")),
        Err(error) => return Err(from_parser(error)),
    };
    check_size(&bytes[..length], limits)?;
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(bad("no request line"));
    };
    let fields: &'h [Header<'b>] = head.headers;
    if fields.len() > limits.fields {
        return Err(refused(431, "too many header fields"));
    }
    let (path, query, authority) = split_target(method, target)?;
    let found = Found::new(fields, minor)?;
    let host = found.host(minor, authority)?;
    let request = Request {
        method,
        target,
        path,
        query,
        host,
        minor,
        framing: framing::of_request(minor, found.length, found.coding)?,
        wishes: found.wishes,
    };
    Ok(Parsed::Complete((request, fields), skipped + length))
}

/// Parses the head of a response to a request with this method.
///
/// # Errors
/// What is wrong with it.
pub fn response<'b, 'h>(
    bytes: &'b [u8],
    method: &[u8],
    limits: Limits,
    fields: &'h mut [Header<'b>],
) -> Result<Parsed<(Response<'b>, &'h [Header<'b>])>, Refused> {
    let mut head = httparse::Response::new(fields);
    let length = match head.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return partial(bytes, limits),
        Err(error) => return Err(from_parser(error)),
    };
    check_size(&bytes[..length], limits)?;
    let (Some(status), Some(minor)) = (head.code, head.version) else {
        return Err(bad("no status line"));
    };
    if status < 100 {
        return Err(bad("a status has three digits, the first of which is no zero"));
    }
    let fields: &'h [Header<'b>] = head.headers;
    if fields.len() > limits.fields {
        return Err(refused(431, "too many header fields"));
    }
    let found = Found::new(fields, minor)?;
    let response = Response {
        status,
        reason: head.reason.unwrap_or_default(),
        minor,
        framing: framing::of_response(method, status, minor, found.length, found.coding)?,
        wishes: found.wishes,
    };
    Ok(Parsed::Complete((response, fields), length))
}

/// How many bytes of empty lines stand before the head.
fn empty_lines(bytes: &[u8]) -> Result<usize, Refused> {
    let mut skipped = 0;
    while bytes[skipped..].starts_with(b"\r\n") {
        skipped += 2;
        if skipped > 2 * MOST_EMPTY_LINES {
            return Err(bad("empty lines in place of a request"));
        }
    }
    Ok(skipped)
}

/// What is there is no complete head: can it become one?
fn partial<T>(bytes: &[u8], limits: Limits) -> Result<Parsed<T>, Refused> {
    check_size(bytes, limits)?;
    Ok(Parsed::Partial)
}

fn check_size(head: &[u8], limits: Limits) -> Result<(), Refused> {
    if head.len() > limits.bytes {
        let in_first_line = memchr::memchr(b'\n', &head[..limits.bytes]).is_none();
        return Err(if in_first_line {
            refused(414, "the target is too long")
        } else {
            refused(431, "the head is too large")
        });
    }
    for at in memchr::memchr_iter(b'\n', head) {
        if at == 0 || head[at - 1] != b'\r' {
            return Err(bad("a line ends with LF alone"));
        }
    }
    Ok(())
}

/// Whether it is a request line of some version, rather than no request line.
fn has_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    words.nth(2).is_some_and(|version| version.starts_with(b"HTTP/")) && words.next().is_none()
}

fn from_parser(error: Error) -> Refused {
    match error {
        Error::TooManyHeaders => refused(431, "too many header fields"),
        Error::Version => refused(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"),
        Error::HeaderName => bad("a header field's name is no token, or a line is folded"),
        Error::HeaderValue => bad("a header field's value has control characters"),
        Error::NewLine => bad("a line does not end with CRLF"),
        Error::Status => bad("no status line"),
        Error::Token => bad("no request line"),
    }
}

/// Path, query and authority of a target.
fn split_target<'b>(
    method: &str,
    target: &'b str,
) -> Result<(&'b str, Option<&'b str>, Option<&'b str>), Refused> {
    if !target.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Err(bad("the target has characters that must be escaped"));
    }
    if method == "CONNECT" {
        return Ok((target, None, Some(target)));
    }
    let (authority, rest) = if target.starts_with('/') {
        (None, target)
    } else if target == "*" && method == "OPTIONS" {
        return Ok((target, None, None));
    } else {
        let scheme_end = target.find("://").ok_or(bad("the target is no path"))?;
        let scheme = &target[..scheme_end];
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(bad("the target is of another protocol"));
        }
        let rest = &target[scheme_end + 3..];
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        (Some(&rest[..end]), &rest[end..])
    };
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    Ok((if path.is_empty() { "/" } else { path }, query, authority))
}

/// Keeps the value of a field that a message has once.
fn once<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8], text: &'static str) -> Result<(), Refused> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(bad(text)),
    }
}

/// The fields that say how to read the message.
struct Found<'b> {
    length: Option<&'b [u8]>,
    coding: Option<&'b [u8]>,
    host: Option<&'b [u8]>,
    wishes: Wishes,
}

impl<'b> Found<'b> {
    fn new(fields: &[Header<'b>], minor: u8) -> Result<Found<'b>, Refused> {
        let mut found = Found { length: None, coding: None, host: None, wishes: Wishes::default() };
        let (mut keeps, mut closes, mut has_upgrade, mut upgrades) = (false, false, false, false);
        for field in fields {
            let name = field.name;
            // Of all names few have these lengths.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => {
                    once(&mut found.host, field.value, "two Host fields")?
                }
                6 if name.eq_ignore_ascii_case("expect") => {
                    if !field.value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(refused(417, "this expectation cannot be met"));
                    }
                    found.wishes.expects = minor == 1;
                }
                7 if name.eq_ignore_ascii_case("upgrade") => has_upgrade = true,
                10 if name.eq_ignore_ascii_case("connection") => {
                    for word in framing::words(field.value) {
                        keeps |= word.eq_ignore_ascii_case(b"keep-alive");
                        closes |= word.eq_ignore_ascii_case(b"close");
                        upgrades |= word.eq_ignore_ascii_case(b"upgrade");
                    }
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    once(&mut found.length, field.value, "two Content-Length fields")?
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    once(&mut found.coding, field.value, "two Transfer-Encoding fields")?
                }
                _ => {}
            }
        }
        found.wishes.keep = !closes && (minor == 1 || keeps);
        found.wishes.upgrade = has_upgrade && upgrades && minor == 1;
        Ok(found)
    }

    /// The host of a request. That of an absolute target counts, but the field has to be there all the same.
    fn host(&self, minor: u8, authority: Option<&'b str>) -> Result<Option<&'b str>, Refused> {
        let field = match self.host {
            Some(bytes) => Some(std::str::from_utf8(bytes).map_err(|_| bad("Host is no host"))?),
            None if minor == 1 => return Err(bad("no Host field")),
            None => None,
        };
        match authority.or(field) {
            Some(host) if !is_host(host) || (authority.is_some() && host.is_empty()) => {
                Err(bad("Host is no host"))
            }
            _ if field.is_some_and(|host| !is_host(host)) => Err(bad("Host is no host")),
            host => Ok(host),
        }
    }
}

/// Whether this is `host [":" port]` (RFC 3986, section 3.2, without the name of a user): what two programs
/// might take apart differently is none.
fn is_host(text: &str) -> bool {
    let (is_name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => (is_address(address), port),
            None => return false,
        },
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_name(name), port)
        }
    };
    is_name && (port.is_empty() || port.starts_with(':') && port[1..].bytes().all(|b| b.is_ascii_digit()))
}

/// What may stand in brackets: an address of IPv6 (a later version of them has letters and more).
fn is_address(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:".contains(&b))
}

/// A name or an address of IPv4; it may be empty.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let hexadecimal = |bytes: &mut std::str::Bytes| bytes.next().is_some_and(|b| b.is_ascii_hexdigit());
    while let Some(b) = bytes.next() {
        let is_fine = match b {
            b'%' => hexadecimal(&mut bytes) && hexadecimal(&mut bytes),
            _ => b.is_ascii_alphanumeric() || b"-._~!$&'()*+;=".contains(&b),
        };
        if !is_fine {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
