//! Writes JSON; just enough for the figures.
//!
//! Reports are small trees of objects, numbers and strings, so this is a value type and a printer. A
//! serialisation crate would be a bigger thing to know than these lines.

use std::fmt::{self, Display, Write};

/// A JSON value. Object members keep their order, so that two reports can be compared line by line.
#[derive(Debug, Clone)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number; one that is not finite is written as `null`.
    Number(f64),
    /// A string.
    Text(String),
    /// `[...]`
    List(Vec<Json>),
    /// `{...}`
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object from pairs.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// A number, or `null`.
    pub fn maybe(x: Option<f64>) -> Json {
        x.map_or(Json::Null, Json::Number)
    }

    fn write(&self, f: &mut impl Write, depth: usize) -> fmt::Result {
        let pad = |f: &mut dyn Write, d: usize| write!(f, "\n{:1$}", "", d * 2);
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(x) if x.is_finite() => write!(f, "{x}"),
            Json::Number(_) => f.write_str("null"),
            Json::Text(s) => write_text(f, s),
            Json::List(items) if items.is_empty() => f.write_str("[]"),
            Json::Object(members) if members.is_empty() => f.write_str("{}"),
            Json::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    pad(f, depth + 1)?;
                    item.write(f, depth + 1)?;
                }
                pad(f, depth)?;
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (i, (key, value)) in members.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    pad(f, depth + 1)?;
                    write_text(f, key)?;
                    f.write_str(": ")?;
                    value.write(f, depth + 1)?;
                }
                pad(f, depth)?;
                f.write_char('}')
            }
        }
    }
}

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)?;
        f.write_char('\n')
    }
}

/// Writes a string with its quotes.
///
/// # Errors
/// Those of `f`.
pub fn write_text(f: &mut impl Write, s: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_nested_values_and_escapes() {
        let j = Json::object([
            ("a", Json::List(vec![Json::Number(1.0), Json::Number(0.25), Json::Number(f64::NAN)])),
            ("q\"", Json::Text("x\n\\".into())),
            ("none", Json::Object(vec![])),
            ("yes", Json::Bool(true)),
        ]);
        let want = "{\n  \"a\": [\n    1,\n    0.25,\n    null\n  ],\n  \"q\\\"\": \"x\\u000a\\\\\",\n  \
            \"none\": {},\n  \"yes\": true\n}\n";
        assert_eq!(j.to_string(), want);
    }
}
