//! Labels as they are made: strings to numbers, what a wait is called; and a map for keys that are numbers.

use super::model::Label;
use crate::trace::Trace;
use perilune_trace::event::{ObjectKind, ObjectRef, Verb};
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers: millions of events look something up, and none of their keys comes from an enemy.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b as u64);
        }
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(n as u64);
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(26) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

/// A map whose keys are numbers.
pub(super) type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mix>>;

/// Strings to numbers.
pub(super) struct Names {
    /// The strings, by number; 0 is the empty one.
    pub names: Vec<String>,
    numbers: std::collections::HashMap<String, u32>,
    /// Of strings of the definitions.
    defined: HashMap<u64, u32>,
    /// Of verbs with objects.
    waits: HashMap<(Verb, ObjectRef), Label>,
}

impl Names {
    pub fn new() -> Names {
        let mut names = Names {
            names: Vec::new(),
            numbers: Default::default(),
            defined: HashMap::default(),
            waits: HashMap::default(),
        };
        names.number("");
        names
    }

    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&n) = self.numbers.get(text) {
            return n;
        }
        let n = self.names.len() as u32;
        self.names.push(text.to_owned());
        self.numbers.insert(text.to_owned(), n);
        n
    }

    pub fn plain(&mut self, text: &str) -> Label {
        Label::plain(self.number(text))
    }

    /// A string of the definitions.
    pub fn defined(&mut self, trace: &Trace, n: u64) -> Label {
        if n == 0 {
            return Label::default();
        }
        if let Some(&n) = self.defined.get(&n) {
            return Label::plain(n);
        }
        let number = self.number(&trace.definitions.string(n));
        self.defined.insert(n, number);
        Label::plain(number)
    }

    /// An object behind a word: `awaits` task 7. Objects that have no label of their own share one, and their
    /// numbers are added when it is shown.
    pub fn object(&mut self, trace: &Trace, word: &str, object: ObjectRef) -> Label {
        let join = |what: &str| format!("{word} {what}").trim().to_owned();
        match trace.definitions.label(object) {
            Some(_) => self.plain(&join(&trace.definitions.object(object))),
            None if object.number() == 0 => self.plain(&join(object.kind().name())),
            None => Label::numbered(self.number(&join(object.kind().name()))),
        }
    }

    pub fn wait(&mut self, trace: &Trace, verb: Verb, object: ObjectRef) -> Label {
        // Objects without a label are not remembered one by one: there may be millions.
        let key = if trace.definitions.label(object).is_some() || object.number() == 0 {
            object
        } else {
            ObjectRef::new(object.kind(), u64::MAX)
        };
        if let Some(&label) = self.waits.get(&(verb, key)) {
            return label;
        }
        let word = verb.word();
        let label = match object.kind() {
            ObjectKind::None => self.plain(word.strip_suffix(" for").unwrap_or(word)),
            ObjectKind::Timer if verb == Verb::Sleeps => self.plain(word),
            ObjectKind::Several if trace.definitions.label(object).is_none() => {
                self.plain("waits for several")
            }
            _ => self.object(trace, word, object),
        };
        self.waits.insert((verb, key), label);
        label
    }
}
