//! Values of JSON by a path of keys, with a clear message where there is none.

use serde_json::{Map, Value};

/// Looks into a value. Paths are keys with dots between them; the empty path is the value itself.
pub trait Json: Sized {
    /// A whole text.
    fn parse(text: impl AsRef<[u8]>) -> Self;
    /// What a path leads to.
    fn at(&self, path: &str) -> &Self;
    /// A whole number.
    fn ns(&self, path: &str) -> u64;
    /// Any number.
    fn number(&self, path: &str) -> f64;
    /// A text; the empty one if it is something else.
    fn text(&self, path: &str) -> &str;
    /// A list.
    fn list(&self, path: &str) -> &[Self];
    /// An object.
    fn members(&self, path: &str) -> &Map<String, Value>;
}

impl Json for Value {
    #[track_caller]
    fn parse(text: impl AsRef<[u8]>) -> Value {
        let text = text.as_ref();
        serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {:.2000}", crate::text(text)))
    }

    #[track_caller]
    fn at(&self, path: &str) -> &Value {
        let mut at = self;
        for key in path.split('.').filter(|key| !key.is_empty()) {
            at = at.get(key).unwrap_or_else(|| panic!("no {key} of {path} in {self:.2000}"));
        }
        at
    }

    #[track_caller]
    fn ns(&self, path: &str) -> u64 {
        self.at(path).as_u64().unwrap_or_else(|| panic!("{path}: {}", self.at(path)))
    }

    #[track_caller]
    fn number(&self, path: &str) -> f64 {
        self.at(path).as_f64().unwrap_or_else(|| panic!("{path}: {}", self.at(path)))
    }

    #[track_caller]
    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or("")
    }

    #[track_caller]
    fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().unwrap_or_else(|| panic!("{path}: {}", self.at(path)))
    }

    #[track_caller]
    fn members(&self, path: &str) -> &Map<String, Value> {
        self.at(path).as_object().unwrap_or_else(|| panic!("{path}: {}", self.at(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_through_objects() {
        let value = Value::parse(r#"{"a": {"b": [1, 2.5, "x"], "n": null}}"#);
        assert_eq!((value.list("a.b")[0].ns(""), value.list("a.b")[1].number("")), (1, 2.5));
        assert_eq!((value.list("a.b")[2].text(""), value.text("a.n")), ("x", ""));
        assert_eq!(value.members("a").len(), 2);
    }

    #[test]
    #[should_panic(expected = "no c of a.c in {\"a\":{}}")]
    fn what_is_missing_is_named() {
        Value::parse(r#"{"a": {}}"#).at("a.c");
    }
}
