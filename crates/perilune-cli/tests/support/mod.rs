//! What tests of the commands that show where time goes share: a reader of JSON, as much of it as the commands write.

// Each test is a program of its own and uses a part.
#![allow(dead_code)]

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn next(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        panic!("a string does not end");
    }

    fn value(&mut self) -> Json {
        if self.next("null") {
            Json::Null
        } else if self.next("\"") {
            Json::Text(self.text())
        } else if self.next("[") {
            let mut list = Vec::new();
            while !self.next("]") {
                list.push(self.value());
                self.next(",");
            }
            Json::List(list)
        } else if self.next("{") {
            let mut members = BTreeMap::new();
            while !self.next("}") {
                assert!(self.next("\""), "a key: {:.40}", self.rest);
                let key = self.text();
                assert!(self.next(":"));
                members.insert(key, self.value());
                self.next(",");
            }
            Json::Object(members)
        } else {
            let end = self.rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(self.rest.len());
            let number = self.rest[..end].parse().unwrap_or_else(|_| panic!("no value: {:.40}", self.rest));
            self.rest = &self.rest[end..];
            Json::Number(number)
        }
    }
}

impl Json {
    /// A whole text.
    pub fn parse(text: &str) -> Json {
        let mut reader = Reader { rest: text };
        let value = reader.value();
        assert_eq!(reader.rest.trim(), "");
        value
    }

    /// A member, by a path of keys.
    pub fn at(&self, path: &str) -> &Json {
        path.split('.').fold(self, |at, key| match at {
            Json::Object(members) => members.get(key).unwrap_or_else(|| panic!("no {key} of {path}")),
            other => panic!("{path}: {other:?}"),
        })
    }

    /// A member that is a whole number.
    pub fn ns(&self, path: &str) -> u64 {
        match self.at(path) {
            Json::Number(n) => *n as u64,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A member that is any number.
    pub fn number(&self, path: &str) -> f64 {
        match self.at(path) {
            Json::Number(n) => *n,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A member that is a text; nothing if it is something else.
    pub fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Json::Text(text) => text,
            _ => "",
        }
    }

    /// A member that is a list.
    pub fn list(&self, path: &str) -> &[Json] {
        match self.at(path) {
            Json::List(list) => list,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A member that is an object.
    pub fn members(&self, path: &str) -> &BTreeMap<String, Json> {
        match self.at(path) {
            Json::Object(members) => members,
            other => panic!("{path}: {other:?}"),
        }
    }
}
