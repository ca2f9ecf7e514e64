//! Addresses of pages (RFC 3986), as far as `http` and `https` need them.
//!
//! What is taken apart here decides which host gets a request and its secrets, so what might be read in two
//! ways is refused: names and passwords before the host, backslashes, control characters, spaces, hosts that
//! are no ASCII. Bytes above 127 in a path or a query are escaped.

use std::fmt::Write;

/// An absolute address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// `http` or `https`
    pub scheme: &'static str,
    /// In lower case; an IPv6 address without its brackets.
    pub host: String,
    /// As written, or the scheme's.
    pub port: u16,
    /// Begins with `/`; without dot segments.
    pub path: String,
    /// What stands behind the `?`.
    pub query: Option<String>,
}

/// The longest address that is taken.
const LONGEST: usize = 16 << 10;

impl Url {
    /// Parses an absolute address. The fragment is dropped: it is not sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Url, String> {
        let text = clean(text)?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("expected 'http://host/path'".into());
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            other => return Err(format!("the scheme '{other}' is not known here")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, port) = authority(&rest[..end])?;
        let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
        let (path, query) = split(&rest[end..]);
        Ok(Url { scheme, host, port, path: without_dots(path), query: query.map(str::to_owned) })
    }

    /// The address that a reference on this page stands for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn join(&self, reference: &[u8]) -> Result<Url, String> {
        let text = clean(reference)?;
        let scheme_end = text.find(':').filter(|&at| !text[..at].contains(['/', '?', '#']));
        if scheme_end.is_some() {
            return Url::parse(text.as_bytes());
        }
        if text.starts_with("//") {
            return Url::parse(format!("{}:{text}", self.scheme).as_bytes());
        }
        let (path, query) = split(&text);
        let mut url = self.clone();
        if path.is_empty() {
            if query.is_some() {
                url.query = query.map(str::to_owned);
            }
            return Ok(url);
        }
        url.query = query.map(str::to_owned);
        url.path = if path.starts_with('/') {
            without_dots(path)
        } else {
            let folder = self.path.rfind('/').map_or("/", |at| &self.path[..=at]);
            without_dots(&format!("{folder}{path}"))
        };
        Ok(url)
    }

    /// Host and port as they stand in an address and in the field `Host`: the port only if it is not the
    /// scheme's.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme, self.port) {
            ("http", 80) | ("https", 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// What a request asks for: path and query.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// All of it.
    pub fn text(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority(), self.target())
    }
}

/// The text, with bytes above 127 escaped.
fn clean(text: &[u8]) -> Result<String, String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let mut clean = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'\\' => return Err("a backslash must be escaped".into()),
            b'!'..=b'~' => clean.push(byte as char),
            0x80.. => push_escaped(&mut clean, byte),
            _ => return Err("spaces and control characters must be escaped".into()),
        }
    }
    Ok(clean)
}

/// Path and query of what stands behind the authority.
fn split(rest: &str) -> (&str, Option<&str>) {
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    }
}

fn authority(text: &str) -> Result<(String, Option<u16>), String> {
    if text.contains('@') {
        return Err("names and passwords in addresses are not taken: set the field 'authorization'".into());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a bracket is not closed")?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("'{host}' is no IPv6 address"))?;
            (host, port)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let host = &text[..end];
            if host.contains('%') {
                return Err("a host must be ASCII: internationalised names are written 'xn--...'".into());
            }
            if !host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
            {
                return Err(format!("'{host}' is no host"));
            }
            (host, &text[end..])
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        Some("") => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            let port = digits.parse::<u16>().ok().filter(|&port| port > 0);
            Some(port.ok_or_else(|| format!("'{digits}' is no port"))?)
        }
        _ => return Err(format!("'{port}' is no port")),
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// A path without `.` and `..`, which never lead above the root.
pub fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn push_escaped(text: &mut String, byte: u8) {
    let _ = write!(text, "%{byte:02X}");
}

/// Every byte but letters, digits and `-._~` as `%XX`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(byte as char),
            _ => push_escaped(&mut text, byte),
        }
    }
    text
}

/// The bytes that a text with `%XX` stands for; `None`: a percent sign without two digits. `plus`: a `+` is a
/// space, as in forms.
pub fn unescape(text: &[u8], plus: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<&u8>| b.and_then(|&b| (b as char).to_digit(16));
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(text: &str) -> Result<String, String> {
        Url::parse(text.as_bytes()).map(|url| url.text())
    }

    #[test]
    fn addresses_have_one_form() {
        for (text, want) in [
            ("http://a", "http://a/"),
            ("HTTP://A.b:80/x?y=1#z", "http://a.b/x?y=1"),
            ("https://a:443", "https://a/"),
            ("https://a:80?q", "https://a:80/?q"),
            ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("http://a/b/../c/./d/..", "http://a/c/"),
            ("http://a/../../x", "http://a/x"),
            ("http://a/%2e%2E/x", "http://a/x"),
            ("http://a/ä?ö", "http://a/%C3%A4?%C3%B6"),
            ("http://a:/", "http://a/"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_might_be_another_host_is_refused() {
        for text in [
            "",
            "a",
            "//a",
            "/x",
            "ftp://a",
            "http:a",
            "http://",
            "http:///x",
            "http://a b",
            "http://a\r\nx",
            "http://u@a",
            "http://u:p@a",
            "http://a:x",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://[::1",
            "http://[x]",
            "http://a\\b",
            "http://ä",
            "http://a%41",
            "http://a,b",
            "http://[::1]x",
        ] {
            assert!(normal(text).is_err(), "{text}: {:?}", normal(text));
        }
    }

    #[test]
    fn references_are_resolved_as_the_standard_says() {
        let base = Url::parse(b"http://a/b/c/d;p?q").expect("an address");
        for (reference, want) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://x:1/y", "https://x:1/y"),
        ] {
            assert_eq!(
                base.join(reference.as_bytes()).map(|url| url.text()).as_deref(),
                Ok(want),
                "{reference}"
            );
        }
        assert!(base.join(b"javascript:x").is_err());
    }

    proptest! {
        #[test]
        fn the_one_form_is_its_own(text in "(http|https)://[a-z.:\\[\\]0-9@]{0,8}[/?#%.a-zä\\\\ ]{0,20}") {
            if let Ok(once) = normal(&text) {
                prop_assert_eq!(normal(&once), Ok(once.clone()));
                prop_assert!(!once.contains("/../") && !once.contains("/./"));
            }
        }

        #[test]
        fn escaping_is_undone(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(unescape(escape(&bytes).as_bytes(), true), Some(bytes));
        }
    }
}
