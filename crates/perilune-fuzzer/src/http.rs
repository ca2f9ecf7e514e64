//! `perilune.http`'s parsers, against decoders that see the whole input at once and know no cleverness.
//!
//! The first byte of an input says what the rest is:
//!
//! * `h`: the head of a request, with bytes behind it. What is accepted is taken apart again, line by line,
//!   and must have the same parts. Every beginning of an accepted head is incomplete, and what is refused
//!   once is refused with more bytes behind it too: otherwise it would matter in which packets a request
//!   arrives.
//! * `c`: a body in chunks. In pieces of any size, and with any limit on what is taken at once, the decoder
//!   must say what [`whole`] says.
//! * `u`: an address. What is accepted has a text that is read as the same address, without dots, and whose
//!   host is what stands before the path.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use perilune_http::Framing;
use perilune_http::chunked::Decoder;
use perilune_http::head::{Limits, MOST_FIELDS, NO_FIELD, Parsed, request};
use perilune_http::url::Url;

const LIMITS: Limits = Limits { bytes: 4096, fields: 50 };

/// The target.
#[derive(Default)]
pub struct Http;

impl Target for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        match rng.below(5) {
            0 | 1 => {
                out.push(b'h');
                head(rng, &mut out);
            }
            2 | 3 => {
                out.push(b'c');
                chunks(rng, &mut out);
            }
            _ => {
                out.push(b'u');
                address(rng, &mut out);
            }
        }
        if rng.one_in(3) {
            for _ in 0..1 + rng.below(3) {
                let at = 1 + rng.below(out.len());
                match rng.below(4) {
                    0 if at < out.len() => drop(out.remove(at)),
                    1 if at < out.len() => out[at] ^= 1 << rng.below(8),
                    2 => out.truncate(at),
                    _ => {
                        let piece = rng.pick(&[
                            "\r", "\n", "\r\n", " ", "\t", ":", "\0", "0", ",", ";", "..", "/", "@", "%",
                            "\\", "#", "[", "é",
                        ]);
                        out.splice(at..at, piece.bytes());
                    }
                }
            }
        }
        out
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        match input.split_first() {
            Some((b'h', rest)) => judge_head(rest),
            Some((b'c', rest)) => judge_chunks(rest),
            Some((b'u', rest)) => judge_address(rest),
            _ => Ok(End::Refused),
        }
    }
}

// -- Heads --------------------------------------------------------------------------------------------------

fn head(rng: &mut Rng, out: &mut Vec<u8>) {
    let method = rng.pick(&["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "X-Y", "get"]);
    let target = rng.pick(&[
        "/",
        "/a/b?c=d",
        "*",
        "http://h/x",
        "http://h:8?y",
        "h:80",
        "/%2e%2e",
        "//x",
        "/a#b",
        "x",
    ]);
    let version = rng.pick(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2"]);
    let start = rng.seldom(20, "\r\n", "");
    out.extend_from_slice(format!("{start}{method} {target} {version}\r\n").as_bytes());
    if !rng.one_in(8) {
        out.extend_from_slice(b"Host: h\r\n");
    }
    for _ in 0..rng.below(4) {
        out.extend_from_slice(
            rng.pick(&[
                "Content-Length: 5\r\n",
                "content-length:0\r\n",
                "Content-Length: 5, 5\r\n",
                "Content-Length: +5\r\n",
                "Transfer-Encoding: chunked\r\n",
                "transfer-encoding: CHUNKED \r\n",
                "Transfer-Encoding: gzip\r\n",
                "Connection: close, Upgrade\r\n",
                "Connection: keep-alive\r\n",
                "Upgrade: x\r\n",
                "Expect: 100-continue\r\n",
                "A: b\r\n",
                "A:\t b \t\r\n",
                "A:\r\n",
                " folded\r\n",
                "A : b\r\n",
                "A: \u{e4}\r\n",
                "Host: i\r\n",
            ])
            .as_bytes(),
        );
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(rng.pick(&["", "", "body", "GET / HTTP/1.1\r\n\r\n"]).as_bytes());
}

/// What a head has: method, target, how its body is delimited, whether the connection stays open; and how
/// long it is.
type Parts = (String, String, Framing, bool, usize);

/// The parts of an accepted head, found again without `httparse`.
fn by_lines(bytes: &[u8]) -> Result<Parts, String> {
    let text: String = bytes.iter().map(|&b| b as char).collect();
    let skipped = text.len() - text.trim_start_matches("\r\n").len();
    let rest = &text[skipped..];
    let end = rest.find("\r\n\r\n").ok_or("no empty line")?;
    let mut lines = rest[..end].split("\r\n");
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = first[..] else { return Err(format!("{first:?} is no request line")) };
    let fields: Vec<(String, &str)> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').ok_or(format!("'{line}' has no colon"))?;
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty()
                || !name.chars().all(is_token)
                || value.contains(|c: char| c != '\t' && c.is_ascii_control())
            {
                return Err(format!("'{line}' is no header field"));
            }
            Ok((name.to_ascii_lowercase(), value.trim_matches([' ', '\t'])))
        })
        .collect::<Result<_, String>>()?;
    let all = |name: &str| fields.iter().filter(|f| f.0 == name).map(|f| f.1).collect::<Vec<_>>();
    let framing = match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => Framing::Length(0),
        ([digits], []) if digits.chars().all(|c| c.is_ascii_digit()) => {
            Framing::Length(digits.parse().map_err(|e| format!("{e}"))?)
        }
        ([], [coding]) if coding.to_lowercase() == "chunked" && version == "HTTP/1.1" => Framing::Chunked,
        other => return Err(format!("its length is said as {other:?}")),
    };
    if version == "HTTP/1.1" && all("host").len() != 1 {
        return Err("not one Host".into());
    }
    let connection = all("connection").join(",").to_lowercase();
    let says = |word: &str| connection.split(',').any(|w| w.trim_ascii() == word);
    let keeps = !says("close") && (version == "HTTP/1.1" || says("keep-alive"));
    // What was a character for each byte.
    let length = skipped + rest[..end].chars().count() + 4;
    Ok((method.into(), target.into(), framing, keeps, length))
}

/// The same as the parser sees it; `None`: incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Parts>, String> {
    let mut fields = [NO_FIELD; MOST_FIELDS];
    match request(bytes, LIMITS, &mut fields) {
        Ok(Parsed::Partial) => Ok(None),
        Ok(Parsed::Complete((r, _), n)) => {
            Ok(Some((r.method.into(), r.target.into(), r.framing, r.wishes.keep, n)))
        }
        Err(refused) => Err(refused.text.into()),
    }
}

fn judge_head(bytes: &[u8]) -> Result<End, String> {
    let outcome = parse(bytes);
    let end = match &outcome {
        Ok(Some(parts)) => {
            let other = by_lines(bytes).map_err(|e| format!("accepted, but {e}"))?;
            if *parts != other {
                return Err(format!("{parts:?} by the parser, {other:?} by lines"));
            }
            parts.4
        }
        _ => bytes.len(),
    };
    for n in 0..end {
        match (parse(&bytes[..n]), &outcome) {
            (Ok(None), _) | (Err(_), Err(_)) => {}
            (beginning, _) => return Err(format!("{beginning:?} after {n} bytes, {outcome:?} in the end")),
        }
    }
    Ok(if matches!(outcome, Ok(Some(_))) { End::Accepted } else { End::Refused })
}

// -- Chunks -------------------------------------------------------------------------------------------------

fn chunks(rng: &mut Rng, out: &mut Vec<u8>) {
    for _ in 0..rng.below(5) {
        let most = rng.seldom(5, 200, 9);
        let size = 1 + rng.below(most);
        let extension = rng.pick(&["", "", "", ";x", " ;x=\"y\"", ";"]);
        let line = match rng.below(4) {
            0 => format!("{size:X}{extension}\r\n"),
            1 => format!("00{size:x}{extension}\r\n"),
            _ => format!("{size:x}{extension}\r\n"),
        };
        out.extend_from_slice(line.as_bytes());
        out.extend((0..size).map(|n| b"data\r\n0"[n % 7]));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(
        rng.pick(&["0\r\n", "0\r\n", "000;x\r\n", "0\r\nA: b\r\n", "0\r\nA: b\r\nC: d\r\n"]).as_bytes(),
    );
    out.extend_from_slice(rng.pick(&["\r\n", "\r\n", "\r\nrest", ""]).as_bytes());
}

/// What a body in chunks is: its data, and how many bytes it takes; `None`: it is not complete.
fn whole(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let mut data = Vec::new();
    let mut at = 0;
    loop {
        let Some(end) = bytes[at..].iter().position(|&b| b == b'\n') else {
            return if bytes.len() - at >= perilune_http::chunked::LONGEST_LINE { Err(()) } else { Ok(None) };
        };
        if end == 0 || bytes[at + end - 1] != b'\r' || end >= perilune_http::chunked::LONGEST_LINE {
            return Err(());
        }
        let line = &bytes[at..at + end - 1];
        if line.iter().any(|b| *b != b'\t' && b.is_ascii_control()) {
            return Err(());
        }
        let digits: String = line.iter().take_while(|b| b.is_ascii_hexdigit()).map(|&b| b as char).collect();
        let behind: Vec<u8> =
            line[digits.len()..].iter().copied().skip_while(u8::is_ascii_whitespace).collect();
        let is_end = digits.len() == line.len();
        if digits.is_empty() || !(is_end || behind.first() == Some(&b';')) {
            return Err(());
        }
        let significant = digits.trim_start_matches('0');
        if significant.len() > 13 {
            return Err(());
        }
        let size = u64::from_str_radix(&digits, 16).unwrap_or(u64::MAX);
        if size > 1 << 48 {
            return Err(());
        }
        at += end + 1;
        if size == 0 {
            return trailers(&bytes[at..]).map(|n| n.map(|n| (data, at + n)));
        }
        let size = size as usize;
        let there = bytes.len() - at;
        if there < size {
            return Ok(None);
        }
        data.extend_from_slice(&bytes[at..at + size]);
        at += size;
        match &bytes[at..] {
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(()),
        }
    }
}

/// How long trailers are, by lines.
fn trailers(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().position(|&b| b == b'\n') else { return Ok(None) };
        if end == 0 || rest[end - 1] != b'\r' {
            return Err(());
        }
        let line = &rest[..end - 1];
        at += end + 1;
        if line.is_empty() {
            return Ok(Some(at));
        }
        let colon = line.iter().position(|&b| b == b':').ok_or(())?;
        let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
        let has_controls = line[colon..].iter().any(|&b| b != b'\t' && b.is_ascii_control());
        if colon == 0 || !line[..colon].iter().all(is_token) || has_controls {
            return Err(());
        }
    }
}

/// What the decoder makes of the bytes, which come `size` at a time, of which it takes `most` bytes of data
/// at once.
fn in_pieces(bytes: &[u8], size: usize, most: usize) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let (mut packed, mut data) = (Decoder::default().pack(), Vec::new());
    let (mut start, mut there) = (0, 0);
    loop {
        let mut decoder = Decoder::unpack(packed);
        let mut piece = Vec::new();
        start += decoder.take(&bytes[start..there], most, &mut piece).map_err(|_| ())?;
        packed = decoder.pack();
        data.extend_from_slice(&piece);
        if decoder.is_done() {
            return Ok(Some((data, start)));
        }
        if piece.len() < most {
            if there == bytes.len() {
                return Ok(None);
            }
            there = bytes.len().min(there + size);
        }
    }
}

fn judge_chunks(bytes: &[u8]) -> Result<End, String> {
    let want = whole(bytes);
    for (size, most) in [(bytes.len().max(1), usize::MAX), (1, usize::MAX), (3, 5), (7, 1)] {
        let got = in_pieces(bytes, size, most);
        // A line of the trailers may be known to be wrong before it is complete. Then it has to be wrong when
        // it is.
        let is_early = want == Ok(None) && got.is_err() && whole(&[bytes, b"\r\n\r\n"].concat()).is_err();
        if got != want && !is_early {
            return Err(format!("{size} bytes at a time, {most} at once: {got:?}, all at once {want:?}"));
        }
    }
    Ok(if matches!(want, Ok(Some(_))) { End::Accepted } else { End::Refused })
}

// -- Addresses ----------------------------------------------------------------------------------------------

fn address(rng: &mut Rng, out: &mut Vec<u8>) {
    let scheme = rng.pick(&["http://", "https://", "HTTP://", "", "//", "ftp://"]);
    let host =
        rng.pick(&["h", "a.b", "A", "127.0.0.1", "[::1]", "[x]", "u@h", "h:80", "h:0", "h:99999", "h:", ""]);
    out.extend_from_slice(format!("{scheme}{host}").as_bytes());
    for _ in 0..rng.below(6) {
        out.extend_from_slice(
            rng.pick(&[
                "/", "/a", "/.", "/..", "/%2e", "/%2E%2e", "?q", "#f", "\u{e9}", "//", "/b;c=d", "/@", ":",
            ])
            .as_bytes(),
        );
    }
}

fn judge_address(bytes: &[u8]) -> Result<End, String> {
    let Ok(url) = Url::parse(bytes) else { return Ok(End::Refused) };
    let text = url.text();
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("{text:?} has bytes that end a line or a word"));
    }
    match Url::parse(text.as_bytes()) {
        Ok(again) if again == url => {}
        other => return Err(format!("{url:?}, but its text is {other:?}")),
    }
    let given = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let behind = given.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.strip_prefix('[').map_or(authority.split(':').next(), |rest| rest.split(']').next());
    if host != Some(url.host.as_str()) {
        return Err(format!("{host:?} was given, {:?} is understood", url.host));
    }
    let escaped = url.path.to_ascii_lowercase().replace("%2e", ".");
    if !url.path.starts_with('/') || escaped.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(format!("dots in {}", url.path));
    }
    for reference in ["../x", "?y", "//other/z", "/../..", ""] {
        url.join(reference.as_bytes()).map_err(|e| format!("'{reference}' of {text}: {e}"))?;
    }
    Ok(End::Accepted)
}
