//! Where bodies end (RFC 9112, section 6).
//!
//! A message that says it twice is refused, whether or not the two agree: `Content-Length` beside
//! `Transfer-Encoding` and repeated `Content-Length` are how requests are smuggled past a proxy that looks at
//! the other one.

use crate::refused::{Refused, bad, refused};

/// How a body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// It has so many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the end of the stream: responses only.
    UntilEnd,
}

/// Lengths are below this, so that they are integers of Lua and sums of them are, too.
pub const LONGEST: u64 = 1 << 60;

/// Words of a field that is a list, without the spaces around them.
pub fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}

/// The body of a request with these fields.
///
/// # Errors
/// They contradict each other, or say nothing that is known.
pub fn of_request(minor: u8, length: Option<&[u8]>, coding: Option<&[u8]>) -> Result<Framing, Refused> {
    match (length, coding) {
        (None, None) => Ok(Framing::Length(0)),
        _ => by_fields(minor, length, coding),
    }
}

/// The body of a response with these fields, to a request with this method.
///
/// # Errors
/// As above.
pub fn of_response(
    method: &[u8],
    status: u16,
    minor: u8,
    length: Option<&[u8]>,
    coding: Option<&[u8]>,
) -> Result<Framing, Refused> {
    let by_fields = match (length, coding) {
        (None, None) => Framing::UntilEnd,
        _ => by_fields(minor, length, coding)?,
    };
    let has_none = method == b"HEAD" || status < 200 || status == 204 || status == 304;
    let is_tunnel = method == b"CONNECT" && (200..300).contains(&status);
    Ok(if has_none || is_tunnel { Framing::Length(0) } else { by_fields })
}

fn by_fields(minor: u8, length: Option<&[u8]>, coding: Option<&[u8]>) -> Result<Framing, Refused> {
    match (length, coding) {
        (Some(_), Some(_)) => Err(bad("Content-Length beside Transfer-Encoding")),
        (_, Some(_)) if minor == 0 => Err(bad("Transfer-Encoding in HTTP/1.0")),
        (_, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (_, Some(_)) => Err(refused(501, "this Transfer-Encoding is not known here")),
        (Some(length), None) => Ok(Framing::Length(decimal(length)?)),
        (None, None) => Ok(Framing::UntilEnd),
    }
}

fn decimal(digits: &[u8]) -> Result<u64, Refused> {
    const BAD: Refused = bad("Content-Length is no number");
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    let mut n: u64 = 0;
    for digit in digits {
        n = n.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))).ok_or(BAD)?;
    }
    if n < LONGEST { Ok(n) } else { Err(refused(413, "the body is too large")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_digits_and_nothing_else() {
        assert_eq!(of_request(1, Some(b"42"), None), Ok(Framing::Length(42)));
        assert_eq!(of_request(1, Some(b"0042"), None), Ok(Framing::Length(42)));
        for bad in ["", " 1", "+1", "-1", "1,1", "1 1", "0x10", "1.0", "99999999999999999999999"] {
            assert_eq!(of_request(1, Some(bad.as_bytes()), None).unwrap_err().status, 400, "{bad}");
        }
        assert_eq!(of_request(1, Some(b"9999999999999999999"), None).unwrap_err().status, 413);
    }

    #[test]
    fn one_field_says_it_and_only_chunked_is_known() {
        assert_eq!(of_request(1, None, Some(b"Chunked")), Ok(Framing::Chunked));
        assert_eq!(of_request(1, Some(b"1"), Some(b"chunked")).unwrap_err().status, 400);
        assert_eq!(of_request(0, None, Some(b"chunked")).unwrap_err().status, 400);
        for coding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;q=1", ""] {
            assert_eq!(of_request(1, None, Some(coding.as_bytes())).unwrap_err().status, 501, "{coding}");
        }
    }

    #[test]
    fn some_responses_have_no_body_whatever_they_say() {
        let of = |method: &[u8], status| of_response(method, status, 1, Some(b"5"), None);
        assert_eq!(of(b"GET", 200), Ok(Framing::Length(5)));
        for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 101), ("CONNECT", 200)] {
            assert_eq!(of(method.as_bytes(), status), Ok(Framing::Length(0)), "{method} {status}");
        }
        assert_eq!(of(b"CONNECT", 404), Ok(Framing::Length(5)));
        assert_eq!(of_response(b"GET", 200, 1, None, None), Ok(Framing::UntilEnd));
    }
}
