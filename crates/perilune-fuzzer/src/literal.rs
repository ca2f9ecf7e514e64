//! Lua source text for values: strings of any bytes, integers, floats.

/// A string literal, printable as it is.
pub fn string(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &b in bytes {
        match b {
            b'"' | b'\\' => text.extend(['\\', b as char]),
            b' '..=b'~' => text.push(b as char),
            _ => text.push_str(&format!("\\x{b:02x}")),
        }
    }
    text.push('"');
    text
}

/// An integer, as an expression of its own.
pub fn integer(n: i64) -> String {
    match n {
        i64::MIN => "math.mininteger".into(),
        n if n < 0 => format!("({n})"),
        n => n.to_string(),
    }
}

/// A float, as an expression of its own.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        "(0/0)".into()
    } else if x.is_infinite() {
        if x > 0.0 { "math.huge".into() } else { "(-math.huge)".into() }
    } else if x.is_sign_negative() {
        format!("({x:?})")
    } else {
        format!("{x:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        assert_eq!(string(b"a\"\\\n\xff"), r#""a\"\\\x0a\xff""#);
        assert_eq!(integer(-5), "(-5)");
        assert_eq!(float(1.0), "1.0");
        assert_eq!(float(-0.0), "(-0.0)");
        assert_eq!(float(1e300), "1e300");
    }
}
