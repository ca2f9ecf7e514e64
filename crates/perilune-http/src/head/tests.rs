//! Heads of requests and answers: what is read, and what is refused.

use super::*;

const LIMITS: Limits = Limits { bytes: 1000, fields: 20 };

/// Method, path, query, framing, wishes, length.
type Parts = (String, String, Option<String>, Framing, Wishes, usize);

/// The parts of a request; the status of its refusal; nothing, if it is partial.
fn parse(text: &str) -> Result<Option<Parts>, u16> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    match request(text.as_bytes(), LIMITS, &mut fields) {
        Ok(Parsed::Partial) => Ok(None),
        Ok(Parsed::Complete((r, _), n)) => {
            Ok(Some((r.method.into(), r.path.into(), r.query.map(str::to_owned), r.framing, r.wishes, n)))
        }
        Err(refused) => Err(refused.status),
    }
}

#[test]
fn a_request_has_its_parts() {
    let text = "\r\nPOST /a/b?c=d HTTP/1.1\r\nHost: x:80\r\ncontent-length:  7 \r\nConnection: foo, Close\r\n\
        \r\nrest";
    let wishes = Wishes { keep: false, expects: false, upgrade: false };
    let want = ("POST".into(), "/a/b".into(), Some("c=d".into()), Framing::Length(7), wishes, text.len() - 4);
    assert_eq!(parse(text), Ok(Some(want)));
    for end in 0..text.len() - 4 {
        assert_eq!(parse(&text[..end]), Ok(None), "the first {end} bytes");
    }
}

#[test]
fn targets_have_four_forms() {
    let of =
        |line: &str| parse(&format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n")).map(|r| r.map(|r| (r.1, r.2)));
    assert_eq!(of("GET http://o:8/p?q"), Ok(Some(("/p".into(), Some("q".into())))));
    assert_eq!(of("GET http://o?q"), Ok(Some(("/".into(), Some("q".into())))));
    assert_eq!(of("OPTIONS *"), Ok(Some(("*".into(), None))));
    assert_eq!(of("CONNECT h:1"), Ok(Some(("h:1".into(), None))));
    for bad in [
        "GET *",
        "GET x",
        "GET ftp://x/",
        "GET http:///x",
        "GET http://u@h/",
        "GET /#f",
        "GET /\u{e4}",
        "GET /a b",
    ] {
        assert_eq!(of(bad), Err(400), "{bad}");
    }
}

#[test]
fn a_host_is_one_name_or_address_and_perhaps_a_port() {
    let of = |host: &str| parse(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).map(|r| r.is_some());
    for host in
        ["", "h", "a-b.c_d", "h:", "h:80", "127.0.0.1:8080", "[::1]", "[::1]:80", "[v1.x:y]", "%41b", ":80"]
    {
        assert_eq!(of(host), Ok(true), "{host}");
    }
    for host in [
        "h:x", "h:80:80", "h:-1", "h:8 0", "::1", "[::1", "::1]", "[]", "[::1]x", "[::1]80", "[::1]:x",
        "[h/]", "h%4", "h%zz", "h%", "a@h", "a,b", "h/", "h?x", "h#x", "h\\", "a b", "\u{e4}",
    ] {
        assert_eq!(of(host), Err(400), "{host}");
    }
}

#[test]
fn what_might_be_understood_in_two_ways_is_refused() {
    for (head, status) in [
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\n\n", 400),
        ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\n a: folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: x\r\n\tfolded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: x\ry\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: x\0y\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: \x7f\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n", 417),
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        ("GET /\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01", 400),
        ("\r\n\r\n\r\n\r\n\r\n", 400),
    ] {
        assert_eq!(parse(head), Err(status), "{head:?}");
    }
}

#[test]
fn limits_are_limits_also_of_what_is_incomplete() {
    let long = "x".repeat(1001);
    assert_eq!(parse(&format!("GET /{long}")), Err(414));
    assert_eq!(parse(&format!("GET / HTTP/1.1\r\nHost: h\r\nA: {long}")), Err(431));
    let many: String = (0..21).map(|n| format!("a{n}: x\r\n")).collect();
    assert_eq!(parse(&format!("GET / HTTP/1.0\r\n{many}\r\n")), Err(431));
}

#[test]
fn connections_stay_open_by_version_and_field() {
    let keeps = |version: &str, field: &str| {
        parse(&format!("GET / HTTP/{version}\r\nHost: h\r\n{field}\r\n")).ok().flatten().map(|r| r.4.keep)
    };
    assert_eq!(keeps("1.1", ""), Some(true));
    assert_eq!(keeps("1.1", "Connection: close\r\n"), Some(false));
    assert_eq!(keeps("1.1", "Connection: keep-alive\r\nConnection: close\r\n"), Some(false));
    assert_eq!(keeps("1.0", ""), Some(false));
    assert_eq!(keeps("1.0", "Connection: Keep-Alive\r\n"), Some(true));
}

#[test]
fn responses_have_their_parts() {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let text = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
    match response(text, b"GET", LIMITS, &mut fields) {
        Ok(Parsed::Complete((r, _), n)) => {
            assert_eq!(
                (r.status, r.reason, r.framing, n),
                (404, "Not Found", Framing::Length(3), text.len() - 3)
            );
        }
        other => panic!("{other:?}"),
    }
    for bad in [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "SSH-2.0\r\n",
        "HTTP/1.1 000 X\r\n\r\n",
    ] {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        assert!(response(bad.as_bytes(), b"GET", LIMITS, &mut fields).is_err(), "{bad}");
    }
}
