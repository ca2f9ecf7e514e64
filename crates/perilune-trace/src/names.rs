//! Definitions: strings and call paths that events refer to by number.
//!
//! Numbers are given once for the life of the process, so that callers may keep them; a session that begins
//! later gets all definitions there are first ([`bring_up_to_date`]). Interning takes a lock and a look into
//! a table: what happens often keeps the number it got.

use crate::emit;
use crate::event::{ObjectKind, ObjectRef};
use crate::layout::{DefinitionKind, StackNode};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most strings and call paths; what comes later is number 0, which has no name.
const MOST: u32 = 1 << 22;
/// Most objects that are told apart by their names alone ([`called`]).
const MOST_CALLED: usize = 1 << 16;

#[derive(Default)]
struct Names {
    strings: HashMap<Box<[u8]>, u32>,
    stacks: HashMap<StackNode, u32>,
    /// Those, by number less one.
    nodes: Vec<StackNode>,
    /// Objects that have the numbers of their names.
    called: HashSet<ObjectRef>,
    /// All definitions, for sessions to come.
    all: Vec<(DefinitionKind, Box<[u8]>)>,
    /// Where the file is mapped that has `written` of them. (Not its session's number: that changes after the
    /// file does.)
    file: usize,
    written: usize,
}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Names>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    fn add(&mut self, kind: DefinitionKind, bytes: &[u8]) {
        self.all.push((kind, bytes.into()));
        self.write();
    }

    /// Writes what the session's file lacks.
    fn write(&mut self) {
        let Some(map) = emit::mapping() else { return };
        let file = map.raw().0 as usize;
        if self.file != file {
            (self.file, self.written) = (file, 0);
        }
        for (kind, bytes) in &self.all[self.written..] {
            map.define(*kind, bytes);
        }
        self.written = self.all.len();
    }
}

/// Sees to it that the session's file has all definitions. Whoever emits an event does so by itself; for
/// those who write numbers elsewhere.
pub fn bring_up_to_date() {
    lock().get_or_insert_default().write();
}

/// The number of a string; 0 if there are too many.
pub fn string(text: &[u8]) -> u32 {
    let mut names = lock();
    let names = names.get_or_insert_default();
    if let Some(&n) = names.strings.get(text) {
        return n;
    }
    let n = names.strings.len() as u32 + 1;
    if n > MOST {
        return 0;
    }
    names.strings.insert(text.into(), n);
    names.add(DefinitionKind::String, text);
    n
}

/// The string of a number. It is looked for one by one: for lists that people read.
pub fn text(number: u32) -> Option<String> {
    let mut names = lock();
    let all = names.get_or_insert_default().all.iter();
    let mut strings = all.filter(|(kind, _)| *kind == DefinitionKind::String);
    let (_, text) = strings.nth((number as usize).checked_sub(1)?)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// As [`string`], for strings that the program makes events of again and again: the thread remembers some
/// thousand of them.
// Not inlined: what calls it may go on in another thread.
#[inline(never)]
pub fn string_often(text: &[u8]) -> u32 {
    thread_local! {
        static KNOWN: RefCell<HashMap<Box<[u8]>, u32>> = RefCell::default();
    }
    KNOWN
        .try_with(|known| {
            let mut known = known.borrow_mut();
            if let Some(&n) = known.get(text) {
                return n;
            }
            if known.len() >= 4096 {
                known.clear();
            }
            let n = string(text);
            known.insert(text.into(), n);
            n
        })
        .unwrap_or_else(|_| string(text))
}

/// The number of a node of call paths; 0 if there are too many.
pub fn stack(node: StackNode) -> u32 {
    let mut names = lock();
    let names = names.get_or_insert_default();
    if let Some(&n) = names.stacks.get(&node) {
        return n;
    }
    let n = names.stacks.len() as u32 + 1;
    if n > MOST {
        return 0;
    }
    names.stacks.insert(node, n);
    names.nodes.push(node);
    let words = [node.parent, node.function, node.source, node.line, node.defined, node.kind];
    let mut bytes = [0u8; 24];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    names.add(DefinitionKind::Stack, &bytes);
    n
}

/// The innermost place of a call path that is in a file: `name:line`. Files called `own` are passed over.
/// This searches; who asks often keeps the answer.
pub fn place(mut stack: u32, own: &[u8]) -> Option<Vec<u8>> {
    let names = lock();
    let names = names.as_ref()?;
    let own = names.strings.get(own).copied().unwrap_or(0);
    loop {
        let node = names.nodes.get(stack.checked_sub(1)? as usize)?;
        if node.source == 0 || node.line == 0 || node.source == own {
            stack = node.parent;
            continue;
        }
        let (source, _) = names.strings.iter().find(|(_, number)| **number == node.source)?;
        return Some([source, format!(":{}", node.line).as_bytes()].concat());
    }
}

/// The object of this kind that is called so: for what has no number of its own, such as connections and
/// files. Those of one name are one object. The names that have come first are remembered; what comes when
/// there are very many is an object without a name, so a server that is traced for days keeps a bounded list.
pub fn called(kind: ObjectKind, name: &[u8]) -> ObjectRef {
    let is_full = {
        let mut names = lock();
        let names = names.get_or_insert_default();
        if let Some(&n) = names.strings.get(name) {
            let object = ObjectRef::new(kind, n as u64);
            if names.called.contains(&object) {
                return object;
            }
        }
        names.called.len() >= MOST_CALLED
    };
    let number = if is_full { 0 } else { string(name) };
    let object = ObjectRef::new(kind, number as u64);
    if number != 0 {
        lock().get_or_insert_default().called.insert(object);
        attach(DefinitionKind::Label, object, number);
    }
    object
}

/// Gives an object a name for people.
pub fn label(object: ObjectRef, text: &[u8]) {
    let name = string(text);
    attach(DefinitionKind::Label, object, name);
}

/// Says where an object was made.
pub fn origin(object: ObjectRef, stack: u32) {
    attach(DefinitionKind::Origin, object, stack);
}

fn attach(kind: DefinitionKind, object: ObjectRef, number: u32) {
    let mut bytes = [0u8; 12];
    bytes[..8].copy_from_slice(&object.0.to_ne_bytes());
    bytes[8..].copy_from_slice(&number.to_ne_bytes());
    lock().get_or_insert_default().add(kind, &bytes);
}
