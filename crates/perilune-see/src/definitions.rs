//! Names and call paths as a reader knows them.

use perilune_trace::event::{ObjectKind, ObjectRef, Verb};
use perilune_trace::layout::{DefinitionHeader, DefinitionKind, StackNode};
use std::collections::HashMap;

/// What numbers in events stand for.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    strings: Vec<Box<[u8]>>,
    stacks: Vec<StackNode>,
    labels: HashMap<ObjectRef, u32>,
    origins: HashMap<ObjectRef, u32>,
    /// Tasks' functions: numbers of their names.
    functions: HashMap<ObjectRef, u32>,
}

impl Definitions {
    /// Takes in complete records; how many bytes they were. What does not look like a record ends the
    /// reading.
    pub fn parse(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + size_of::<DefinitionHeader>()) {
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let kind = u16::from_ne_bytes([head[4], head[5]]);
            let from = at + size_of::<DefinitionHeader>();
            let Some(body) = bytes.get(from..from.saturating_add(length)) else { break };
            let word = |n: usize| {
                body.get(n * 4..n * 4 + 4).map_or(0, |w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
            };
            let object = || ObjectRef(word(0) as u64 | (word(1) as u64) << 32);
            match kind {
                k if k == DefinitionKind::String as u16 => self.strings.push(body.into()),
                k if k == DefinitionKind::Stack as u16 => self.stacks.push(StackNode {
                    parent: word(0),
                    function: word(1),
                    source: word(2),
                    line: word(3),
                    defined: word(4),
                    kind: word(5),
                }),
                k if k == DefinitionKind::Label as u16 => _ = self.labels.insert(object(), word(2)),
                k if k == DefinitionKind::Origin as u16 => _ = self.origins.insert(object(), word(2)),
                _ => {}
            }
            at = (from + length).next_multiple_of(8);
        }
        at.min(bytes.len())
    }

    /// A string; `?` and its number if it was lost.
    pub fn string(&self, n: u64) -> String {
        match (n as usize).checked_sub(1).and_then(|at| self.strings.get(at)) {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => format!("?{n}"),
        }
    }

    /// A node of call paths.
    pub fn stack(&self, n: u32) -> Option<&StackNode> {
        (n as usize).checked_sub(1).and_then(|at| self.stacks.get(at))
    }

    /// A call path from the innermost frame outwards.
    pub fn frames(&self, stack: u32) -> impl Iterator<Item = &StackNode> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (n, node) = (at, self.stack(at)?);
            // A parent is always older: damaged input makes no loop.
            at = if node.parent < n { node.parent } else { 0 };
            Some(node)
        })
    }

    /// A frame for people: `name (source:line)`.
    pub fn frame(&self, node: &StackNode) -> String {
        let name = self.string(node.function as u64);
        match (node.source, node.line) {
            (0, _) => name,
            (source, 0) => format!("{name} ({})", self.string(source as u64)),
            (source, line) => format!("{name} ({}:{line})", self.string(source as u64)),
        }
    }

    /// Where a call path's innermost Lua frame runs, what the runtime has written in Lua itself left out:
    /// `source:line`.
    pub fn place(&self, stack: u32) -> Option<String> {
        let is_place = |node: &&StackNode| node.source != 0 && node.line != 0;
        let node = self.frames(stack).filter(is_place).find(|node| !self.is_own(node))?;
        Some(format!("{}:{}", self.string(node.source as u64), node.line))
    }

    /// Is it a frame of what the runtime has written in Lua itself?
    pub fn is_own(&self, node: &StackNode) -> bool {
        let source = (node.source as usize).checked_sub(1).and_then(|at| self.strings.get(at));
        source.is_some_and(|source| **source == *b"perilune")
    }

    /// Has an object been given a name?
    pub fn has_label(&self, object: ObjectRef) -> bool {
        self.labels.contains_key(&object)
    }

    /// The number of a string, for what a tool adds to a trace.
    pub fn add_string(&mut self, text: &str) -> u32 {
        self.strings.push(text.as_bytes().into());
        self.strings.len() as u32
    }

    /// Gives an object the name of this number, for what a tool adds to a trace.
    pub fn add_label(&mut self, object: ObjectRef, name: u32) {
        self.labels.insert(object, name);
    }

    /// A task calls the function with the name of this number.
    pub fn add_function(&mut self, task: ObjectRef, name: u32) {
        self.functions.insert(task, name);
    }

    /// The function that a task calls, if that is known: the number of its name.
    pub fn function(&self, task: ObjectRef) -> Option<u32> {
        self.functions.get(&task).copied()
    }

    /// The number of a call path, for what a tool adds to a trace. Its parent must be there.
    pub fn add_stack(&mut self, node: StackNode) -> u32 {
        self.stacks.push(node);
        self.stacks.len() as u32
    }

    /// An object for people: `channel 'jobs'`, `task 12`.
    pub fn object(&self, object: ObjectRef) -> String {
        let kind = object.kind().name();
        match self.labels.get(&object) {
            Some(&name) => object.kind().called(&self.string(name as u64)),
            None if kind.is_empty() => "something".to_owned(),
            None => format!("{kind} {}", object.number()),
        }
    }

    /// The name that an object was given: a string's number.
    pub fn label(&self, object: ObjectRef) -> Option<u32> {
        self.labels.get(&object).copied()
    }

    /// A wait for people: `sleeps`, `receives from channel 'jobs'`.
    pub fn wait(&self, verb: Verb, object: ObjectRef) -> String {
        let word = verb.word();
        match (object.kind(), object.number()) {
            (ObjectKind::None | ObjectKind::Timer, 0) if verb == Verb::Sleeps || verb == Verb::Yields => {
                word.to_owned()
            }
            (ObjectKind::None, _) => format!("{word} something"),
            (ObjectKind::Several, _) if !self.has_label(object) => format!("{word} several"),
            (kind, 0) => format!("{word} {} {}", article(kind.name()), kind.name()),
            _ => match self.function(object) {
                Some(name) => format!("{word} {} '{}'", self.object(object), self.string(name as u64)),
                None => format!("{word} {}", self.object(object)),
            },
        }
    }

    /// Where an object was made.
    pub fn origin(&self, object: ObjectRef) -> Option<u32> {
        self.origins.get(&object).copied()
    }

    /// How many strings and call paths there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.strings.len(), self.stacks.len())
    }
}

/// The article that a word has.
fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" }
}
